/* dim_expr.h - arithmetic of symbolic dims, for the library and its plugins alike: one operator,
 * all dims from the symbols, and the symbols from the shapes of an entry's inputs.
 *
 * Everything is checked: what overflows 64 bits, is divided by zero or stems from something unknown
 * is ACCEL_DIM_UNBOUND, never a wrapped number.  Division rounds down (floor) or up (ceil), also
 * for negative numbers.  Programs are read by index: their strides are sizeof, as in those of
 * accel__program_view and kit_program_copy, and their indices are valid.
 */
#ifndef ACCEL_SHARED_DIM_EXPR_H
#define ACCEL_SHARED_DIM_EXPR_H

#include <stdbool.h>
#include <stdint.h>

#include "accel/plugin.h"

#define ACCEL_DIM_UNBOUND INT64_MIN /* value of a symbol or dim that is not known */

static inline int64_t accel_dim_floor(int64_t a, int64_t b) { /* b is not 0, a not INT64_MIN */
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* One operator (accel_plugin_dim_op); ACCEL_DIM_UNBOUND for other operators, too. */
static inline int64_t accel_dim_apply(int32_t op, int64_t a, int64_t b) {
  int64_t r = ACCEL_DIM_UNBOUND;
  if (a == ACCEL_DIM_UNBOUND || b == ACCEL_DIM_UNBOUND) return ACCEL_DIM_UNBOUND;
  switch (op) {
    case ACCEL_PLUGIN_DIM_ADD:
      return __builtin_add_overflow(a, b, &r) ? ACCEL_DIM_UNBOUND : r;
    case ACCEL_PLUGIN_DIM_SUB:
      return __builtin_sub_overflow(a, b, &r) ? ACCEL_DIM_UNBOUND : r;
    case ACCEL_PLUGIN_DIM_MUL:
      return __builtin_mul_overflow(a, b, &r) ? ACCEL_DIM_UNBOUND : r;
    case ACCEL_PLUGIN_DIM_FLOORDIV:
      return b ? accel_dim_floor(a, b) : ACCEL_DIM_UNBOUND;
    case ACCEL_PLUGIN_DIM_CEILDIV: /* a is not INT64_MIN, so -a is a number */
      return b ? -accel_dim_floor(-a, b) : ACCEL_DIM_UNBOUND;
    case ACCEL_PLUGIN_DIM_MIN:
      return a < b ? a : b;
    case ACCEL_PLUGIN_DIM_MAX:
      return a > b ? a : b;
    default:
      return r;
  }
}

/* The values of all dims, value[n_dim], from those of all symbols, symbol[n_symbol]. */
static inline void accel_dims_evaluate(const accel_plugin_program *p, const int64_t *symbol,
                                       int64_t *value) {
  for (uint32_t i = 0; i < p->n_dim; i++) {
    const accel_plugin_dim *d = &p->dim[i];
    value[i] = d->op == ACCEL_PLUGIN_DIM_CONST ? d->c
               : d->op == ACCEL_PLUGIN_DIM_SYMBOL
                   ? symbol[d->a]
                   : accel_dim_apply(d->op, value[d->a], value[d->b]);
  }
}

/* Sets the one unknown symbol behind dim `i` so that the dim becomes `wanted`; value[] holds what
 * is known.  False when it cannot be solved: two unknowns, a product that is no multiple, another
 * operator than + - x. */
static inline bool accel_dim_solve(const accel_plugin_program *p, int32_t i, int64_t wanted,
                                   const int64_t *value, int64_t *symbol) {
  enum { DEEPEST = 64 };
  for (int depth = 0; depth < DEEPEST; depth++) {
    const accel_plugin_dim *d = &p->dim[i];
    if (wanted == ACCEL_DIM_UNBOUND) return false;
    if (d->op == ACCEL_PLUGIN_DIM_SYMBOL) {
      if (symbol[d->a] != ACCEL_DIM_UNBOUND) return false;
      symbol[d->a] = wanted;
      return true;
    }
    if (d->op != ACCEL_PLUGIN_DIM_ADD && d->op != ACCEL_PLUGIN_DIM_SUB &&
        d->op != ACCEL_PLUGIN_DIM_MUL)
      return false;
    const bool left = value[d->a] == ACCEL_DIM_UNBOUND; /* the unknown side */
    if (left == (value[d->b] == ACCEL_DIM_UNBOUND)) return false;
    const int64_t known = left ? value[d->b] : value[d->a];
    if (d->op == ACCEL_PLUGIN_DIM_ADD)
      wanted = accel_dim_apply(ACCEL_PLUGIN_DIM_SUB, wanted, known);
    else if (d->op == ACCEL_PLUGIN_DIM_SUB)
      wanted = left ? accel_dim_apply(ACCEL_PLUGIN_DIM_ADD, wanted, known)
                    : accel_dim_apply(ACCEL_PLUGIN_DIM_SUB, known, wanted);
    else if (known == 0 || wanted % known != 0)
      return false;
    else
      wanted /= known;
    i = left ? d->a : d->b;
  }
  return false;
}

/* The first dim of an input that is not what the program and the other inputs make of it. */
typedef struct accel_dims_misfit {
  uint32_t input, axis; /* input of the entry, dim of its shape */
  int64_t got;
  int64_t expected; /* ACCEL_DIM_UNBOUND: `got` does not fit the dim's expression */
} accel_dims_misfit;

/* symbol[n_symbol] and value[n_dim] from the shapes of the entry's inputs, in[n_in], whose ranks
 * are the program's.  A dim of a view that is ACCEL_DIM_UNBOUND tells nothing (an input that is
 * absent).  False, with *misfit, when the shapes contradict each other.  Bounds of symbols are not
 * looked at. */
static inline bool accel_dims_bind(const accel_plugin_program *p, const accel_plugin_entry *entry,
                                   const accel_plugin_view *in, int64_t *symbol, int64_t *value,
                                   accel_dims_misfit *misfit) {
  for (uint32_t i = 0; i < p->n_symbol; i++) symbol[i] = ACCEL_DIM_UNBOUND;
  for (bool again = true; again;) { /* each round solves at least one symbol or is the last */
    again = false;
    accel_dims_evaluate(p, symbol, value);
    for (uint32_t i = 0; i < entry->n_in; i++) {
      const accel_plugin_tensor *t = &p->tensor[entry->in[i]];
      for (uint32_t r = 0; r < t->rank; r++)
        if (value[t->dim[r]] == ACCEL_DIM_UNBOUND &&
            accel_dim_solve(p, t->dim[r], in[i].dim[r], value, symbol))
          again = true;
    }
  }
  for (uint32_t i = 0; i < entry->n_in; i++) {
    const accel_plugin_tensor *t = &p->tensor[entry->in[i]];
    for (uint32_t r = 0; r < t->rank; r++) {
      *misfit = (accel_dims_misfit){i, r, in[i].dim[r], value[t->dim[r]]};
      if (misfit->got != ACCEL_DIM_UNBOUND && misfit->got != misfit->expected) return false;
    }
  }
  return true;
}

#endif
