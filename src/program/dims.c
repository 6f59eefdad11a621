/* dims.c - symbolic dims: folded and shared while they are built, compared, and written as text. */
#include <stdlib.h>
#include <string.h>

#include "program/program_internal.h"
#include "shared/dim_expr.h"

/* Result in *out; false on overflow or division by zero. */
static bool apply(int op, int64_t a, int64_t b, int64_t *out) {
  *out = accel_dim_apply(op, a, b);
  return *out != ACCEL_DIM_UNBOUND;
}

static accel__dim add(accel__program *p, accel_plugin_dim wanted) {
  for (uint32_t i = 0; i < p->n_dim; i++) {
    const accel_plugin_dim *d = &p->dim[i];
    if (d->op == wanted.op && d->a == wanted.a && d->b == wanted.b && d->c == wanted.c)
      return (accel__dim)i;
  }
  if (p->n_dim >= ACCEL__MAX_ITEMS)
    return accel__program_fail(p, ACCEL_ERROR_LIMIT, "more than %d dims", ACCEL__MAX_ITEMS);
  if (!accel__program_grow(p, (void **)&p->dim, &p->cap_dim, p->n_dim, sizeof *p->dim)) return -1;
  if (!accel__program_grow(p, (void **)&p->sample, &p->cap_sample, p->n_dim, sizeof *p->sample))
    return -1;
  p->dim[p->n_dim] = wanted;
  return (accel__dim)p->n_dim++;
}

static bool known(const accel__program *p, accel__dim dim) {
  return dim >= 0 && (uint32_t)dim < p->n_dim;
}

accel__dim accel__const_dim(accel__program *p, int64_t value) {
  if (p->status != ACCEL_OK) return -1;
  return add(p, (accel_plugin_dim){.op = ACCEL_PLUGIN_DIM_CONST, .a = -1, .b = -1, .c = value});
}

accel__dim accel__symbol(accel__program *p, const char *name, int64_t min, int64_t max,
                         int64_t typical) {
  if (p->status != ACCEL_OK) return -1;
  for (uint32_t i = 0; i < p->n_symbol; i++) {
    if (strcmp(p->symbol[i].name, name) == 0)
      return accel__program_fail(p, ACCEL_ERROR_INTERNAL, "symbol '%s' is defined twice", name);
  }
  if (min < 0 || (max != 0 && max < min)) {
    return accel__program_fail(p, ACCEL_ERROR_ARGUMENT, "symbol '%s': range %lld..%lld is empty",
                               name, (long long)min, (long long)max);
  }
  if (p->n_symbol >= ACCEL__MAX_SYMBOLS)
    return accel__program_fail(p, ACCEL_ERROR_LIMIT, "more than %d symbols", ACCEL__MAX_SYMBOLS);
  if (!accel__program_grow(p, (void **)&p->symbol, &p->cap_symbol, p->n_symbol, sizeof *p->symbol))
    return -1;
  if (typical < min) typical = min;
  if (max != 0 && typical > max) typical = max;
  char *copy = accel__arena_string(&p->arena, name);
  if (copy == NULL)
    return accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for symbol '%s'", name);
  p->symbol[p->n_symbol] =
      (accel_plugin_symbol){.name = copy, .min = min, .max = max, .typical = typical};
  return add(
      p, (accel_plugin_dim){.op = ACCEL_PLUGIN_DIM_SYMBOL, .a = (int32_t)p->n_symbol++, .b = -1});
}

bool accel__dim_value(const accel__program *p, accel__dim dim, int64_t *value) {
  if (!known(p, dim) || p->dim[dim].op != ACCEL_PLUGIN_DIM_CONST) return false;
  *value = p->dim[dim].c;
  return true;
}

/* x op y where the result is one of the two or a constant; -1: no such shortcut. */
static accel__dim shortcut(accel__program *p, int op, accel__dim a, accel__dim b) {
  int64_t c = 0;
  bool is_const = accel__dim_value(p, b, &c);
  switch (op) {
    case ACCEL_PLUGIN_DIM_ADD:
      return is_const && c == 0 ? a : -1;
    case ACCEL_PLUGIN_DIM_SUB:
      if (a == b) return accel__const_dim(p, 0);
      return is_const && c == 0 ? a : -1;
    case ACCEL_PLUGIN_DIM_MUL:
      if (is_const && c == 0) return accel__const_dim(p, 0);
      return is_const && c == 1 ? a : -1;
    case ACCEL_PLUGIN_DIM_FLOORDIV:
    case ACCEL_PLUGIN_DIM_CEILDIV:
      if (is_const && c == 1) return a;
      /* (x * c) / c */
      return p->dim[a].op == ACCEL_PLUGIN_DIM_MUL && p->dim[a].b == b && is_const && c != 0
                 ? p->dim[a].a
                 : -1;
    default:
      return a == b ? a : -1; /* min, max */
  }
}

accel__dim accel__dim_op(accel__program *p, accel_plugin_dim_op op, accel__dim a, accel__dim b) {
  if (p->status != ACCEL_OK) return -1;
  if (!known(p, a) || !known(p, b))
    return accel__program_fail(p, ACCEL_ERROR_INTERNAL, "dim expression over an unknown dim");
  bool commutes = op == ACCEL_PLUGIN_DIM_ADD || op == ACCEL_PLUGIN_DIM_MUL ||
                  op == ACCEL_PLUGIN_DIM_MIN || op == ACCEL_PLUGIN_DIM_MAX;
  int64_t x = 0, y = 0, z = 0;
  bool a_const = accel__dim_value(p, a, &x), b_const = accel__dim_value(p, b, &y);
  if ((op == ACCEL_PLUGIN_DIM_FLOORDIV || op == ACCEL_PLUGIN_DIM_CEILDIV) && b_const && y == 0) {
    return accel__program_fail(p, ACCEL_ERROR_ARGUMENT, "a dim is divided by zero");
  }
  if (a_const && b_const) {
    if (!apply((int)op, x, y, &z))
      return accel__program_fail(p, ACCEL_ERROR_LIMIT, "a dim overflows 64 bits");
    return accel__const_dim(p, z);
  }
  /* constants right, then by index: one spelling of each sum */
  if (commutes && (a_const || (!b_const && a > b))) {
    accel__dim t = a;
    a = b;
    b = t;
  }
  accel__dim same = shortcut(p, (int)op, a, b);
  if (same >= 0 || p->status != ACCEL_OK) return same;
  const accel_plugin_dim *inner = &p->dim[a];
  if (commutes && inner->op == (int32_t)op && accel__dim_value(p, b, &y) &&
      accel__dim_value(p, inner->b, &x)) {
    accel__dim left = inner->a; /* (s op c1) op c2 */
    if (!apply((int)op, x, y, &z))
      return accel__program_fail(p, ACCEL_ERROR_LIMIT, "a dim overflows 64 bits");
    return accel__dim_op(p, op, left, accel__const_dim(p, z));
  }
  return add(p, (accel_plugin_dim){.op = (int32_t)op, .a = a, .b = b});
}

/* ---- comparing: equal when the same, or when they agree on several assignments of the symbols
 * ---- */

static int64_t sample_symbol(const accel_plugin_symbol *s, uint32_t index, uint32_t round) {
  if (round == 0) return s->typical;
  if (round == 1) return s->min;
  uint64_t width = s->max != 0 ? (uint64_t)(s->max - s->min) + 1 : 997;
  if (width > 9973) width = 9973;
  uint64_t key[2] = {index, round};
  return s->min + (int64_t)(accel__hash(key, sizeof key, 7) % width);
}

/* Values of dims 0..last under one assignment, into p->sample; an overflowing one becomes a value
 * of its own. */
static void evaluate(accel__program *p, accel__dim last, uint32_t round) {
  for (accel__dim i = 0; i <= last; i++) {
    const accel_plugin_dim *d = &p->dim[i];
    if (d->op == ACCEL_PLUGIN_DIM_CONST)
      p->sample[i] = d->c;
    else if (d->op == ACCEL_PLUGIN_DIM_SYMBOL)
      p->sample[i] = sample_symbol(&p->symbol[d->a], (uint32_t)d->a, round);
    else if (!apply(d->op, p->sample[d->a], p->sample[d->b], &p->sample[i]))
      p->sample[i] = INT64_MIN + i;
  }
}

bool accel__dims_equal(accel__program *p, accel__dim a, accel__dim b) {
  if (a == b) return true;
  if (!known(p, a) || !known(p, b)) return false;
  int64_t x, y;
  if (accel__dim_value(p, a, &x) && accel__dim_value(p, b, &y)) return x == y;
  for (uint32_t round = 0; round < ACCEL__DIM_SAMPLES; round++) {
    evaluate(p, a > b ? a : b, round);
    if (p->sample[a] != p->sample[b]) return false;
  }
  return true;
}

/* ---- text ---- */

static void write_dim(const accel_plugin_program *p, int32_t index, accel__buffer *out,
                      uint32_t depth) {
  static const char *const sign[] = {"", "", "+", "-", "*", "/", "/^", "min", "max"};
  if (index < 0 || (uint32_t)index >= p->n_dim || depth > 12) {
    accel__buffer_text(out, "?");
    return;
  }
  const accel_plugin_dim *d = ACCEL_AT(p, dim, index);
  if (d->op == ACCEL_PLUGIN_DIM_CONST) {
    accel__buffer_printf(out, "%lld", (long long)d->c);
  } else if (d->op == ACCEL_PLUGIN_DIM_SYMBOL) {
    accel__buffer_text(
        out, d->a >= 0 && (uint32_t)d->a < p->n_symbol ? ACCEL_AT(p, symbol, d->a)->name : "?");
  } else if (d->op > 0 && d->op < (int32_t)(sizeof sign / sizeof *sign)) {
    bool function = d->op >= ACCEL_PLUGIN_DIM_MIN;
    if (function) accel__buffer_text(out, sign[d->op]);
    accel__buffer_text(out, "(");
    write_dim(p, d->a, out, depth + 1);
    accel__buffer_text(out, function ? "," : sign[d->op]);
    write_dim(p, d->b, out, depth + 1);
    accel__buffer_text(out, ")");
  } else {
    accel__buffer_text(out, "?");
  }
}

void accel__dim_text(const accel_plugin_program *p, accel__dim dim, accel__buffer *out) {
  write_dim(p, dim, out, 0);
}

void accel__shape_text(const accel_plugin_program *p, const accel_plugin_tensor *t,
                       accel__buffer *out) {
  accel__buffer_text(out, "[");
  for (uint32_t i = 0; i < t->rank && i < ACCEL_PLUGIN_MAX_RANK; i++) {
    if (i > 0) accel__buffer_text(out, ",");
    accel__dim_text(p, t->dim[i], out);
  }
  accel__buffer_text(out, "]");
}
