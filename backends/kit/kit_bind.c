/* kit_bind.c - from the shapes of a run's inputs to the value of every symbol and dim, and to the rows
 * of every item. */
#include <stdio.h>
#include <string.h>

#include "kit/kit_internal.h"

/* ---- dims ---- */

static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* One operator; KIT_UNBOUND when an operand is, on overflow and on division by zero. */
static int64_t apply(int32_t op, int64_t a, int64_t b) {
  if (a == KIT_UNBOUND || b == KIT_UNBOUND) return KIT_UNBOUND;
  int64_t r = KIT_UNBOUND;
  switch (op) {
    case ACCEL_PLUGIN_DIM_ADD:
      return __builtin_add_overflow(a, b, &r) ? KIT_UNBOUND : r;
    case ACCEL_PLUGIN_DIM_SUB:
      return __builtin_sub_overflow(a, b, &r) ? KIT_UNBOUND : r;
    case ACCEL_PLUGIN_DIM_MUL:
      return __builtin_mul_overflow(a, b, &r) ? KIT_UNBOUND : r;
    case ACCEL_PLUGIN_DIM_FLOORDIV:
      return b ? floor_div(a, b) : KIT_UNBOUND;
    case ACCEL_PLUGIN_DIM_CEILDIV:
      return b ? -floor_div(-a, b) : KIT_UNBOUND;
    case ACCEL_PLUGIN_DIM_MIN:
      return a < b ? a : b;
    case ACCEL_PLUGIN_DIM_MAX:
      return a > b ? a : b;
  }
  return r;
}

void kit_dims(const accel_plugin_program *p, const int64_t *symbol, int64_t *dim) {
  for (uint32_t i = 0; i < p->n_dim; i++) {
    const accel_plugin_dim *d = &p->dim[i];
    dim[i] = d->op == ACCEL_PLUGIN_DIM_CONST    ? d->c
             : d->op == ACCEL_PLUGIN_DIM_SYMBOL ? symbol[d->a]
                                                : apply(d->op, dim[d->a], dim[d->b]);
  }
}

/* Finds the one unknown symbol of dim `i` so that it becomes `value`; false when it cannot be
 * solved (yet). */
static bool solve(const accel_plugin_program *p, int32_t i, int64_t value, int64_t *symbol,
                  const int64_t *dim) {
  for (int depth = 0; depth < 64; depth++) {
    const accel_plugin_dim *d = &p->dim[i];
    if (d->op == ACCEL_PLUGIN_DIM_SYMBOL) {
      if (symbol[d->a] != KIT_UNBOUND) return false;
      symbol[d->a] = value;
      return true;
    }
    if (d->op != ACCEL_PLUGIN_DIM_ADD && d->op != ACCEL_PLUGIN_DIM_SUB &&
        d->op != ACCEL_PLUGIN_DIM_MUL)
      return false;
    int64_t a = dim[d->a], b = dim[d->b];
    bool left = a == KIT_UNBOUND; /* the unknown side */
    if (left == (b == KIT_UNBOUND)) return false;
    int64_t known = left ? b : a;
    if (d->op == ACCEL_PLUGIN_DIM_ADD)
      value = apply(ACCEL_PLUGIN_DIM_SUB, value, known);
    else if (d->op == ACCEL_PLUGIN_DIM_SUB)
      value = left ? apply(ACCEL_PLUGIN_DIM_ADD, value, known)
                   : apply(ACCEL_PLUGIN_DIM_SUB, known, value);
    else if (known == 0 || value % known)
      return false;
    else
      value /= known;
    if (value == KIT_UNBOUND) return false;
    i = left ? d->a : d->b;
  }
  return false;
}

static const char *dim_name(const accel_plugin_program *p, int32_t i) {
  return p->dim[i].op == ACCEL_PLUGIN_DIM_SYMBOL ? p->symbol[p->dim[i].a].name
                                                 : "as the program says";
}

static int32_t check_view(const accel_plugin_program *p, const accel_plugin_tensor *t,
                          const accel_plugin_view *v, accel_plugin_error *error) {
  if (v->dtype != t->dtype)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "input '%s': dtype %u, expected %u (%s)",
                    t->name, v->dtype, t->dtype, t->dtype == ACCEL_PLUGIN_F32 ? "F32" : "I32");
  if (v->rank != t->rank)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "input '%s': rank %u, expected %u", t->name,
                    v->rank, t->rank);
  for (uint32_t r = 0; r < t->rank; r++)
    if (v->dim[r] < 0)
      return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "input '%s': dim %u is %lld", t->name, r,
                      (long long)v->dim[r]);
  (void)p;
  return ACCEL_PLUGIN_OK;
}

static int32_t check_bounds(const accel_plugin_program *p, const int64_t *symbol,
                            accel_plugin_error *error) {
  for (uint32_t i = 0; i < p->n_symbol; i++) {
    const accel_plugin_symbol *s = &p->symbol[i];
    if (symbol[i] == KIT_UNBOUND) continue;
    if (symbol[i] < s->min)
      return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1,
                      "%s is %lld, the smallest allowed is %lld", s->name, (long long)symbol[i],
                      (long long)s->min);
    if (s->max > 0 && symbol[i] > s->max)
      return kit_fail(error, ACCEL_PLUGIN_E_LIMIT, -1, "%s is %lld, the largest allowed is %lld",
                      s->name, (long long)symbol[i], (long long)s->max);
  }
  return ACCEL_PLUGIN_OK;
}

int32_t kit_bind(const accel_plugin_program *p, const accel_plugin_entry *entry,
                 const accel_plugin_view *in, uint32_t n_in, int64_t *symbol, int64_t *dim,
                 accel_plugin_error *error) {
  if (n_in != entry->n_in)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "entry '%s' takes %u inputs, got %u",
                    entry->name, entry->n_in, n_in);
  for (uint32_t i = 0; i < n_in; i++) {
    int32_t rc = check_view(p, &p->tensor[entry->in[i]], &in[i], error);
    if (rc) return rc;
  }
  for (uint32_t i = 0; i < p->n_symbol; i++) symbol[i] = KIT_UNBOUND;
  for (bool again = true; again;) { /* each round solves at least one symbol or is the last */
    again = false;
    kit_dims(p, symbol, dim);
    for (uint32_t i = 0; i < n_in; i++) {
      const accel_plugin_tensor *t = &p->tensor[entry->in[i]];
      for (uint32_t r = 0; r < t->rank; r++)
        if (dim[t->dim[r]] == KIT_UNBOUND && solve(p, t->dim[r], in[i].dim[r], symbol, dim))
          again = true;
    }
  }
  for (uint32_t i = 0; i < n_in; i++) {
    const accel_plugin_tensor *t = &p->tensor[entry->in[i]];
    for (uint32_t r = 0; r < t->rank; r++)
      if (dim[t->dim[r]] != in[i].dim[r]) {
        if (dim[t->dim[r]] == KIT_UNBOUND)
          return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1,
                          "input '%s': dim %u is %lld, which does not fit its expression", t->name,
                          r, (long long)in[i].dim[r]);
        return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1,
                        "input '%s': dim %u is %lld, expected %lld (%s)", t->name, r,
                        (long long)in[i].dim[r], (long long)dim[t->dim[r]], dim_name(p, t->dim[r]));
      }
  }
  return check_bounds(p, symbol, error);
}

int32_t kit_shape(const accel_plugin_program *p, const int64_t *dim, int32_t id, kit_tensor *out,
                  accel_plugin_error *error) {
  const accel_plugin_tensor *t = &p->tensor[id];
  *out = (kit_tensor){
      .id = id, .dtype = t->dtype, .rank = t->rank, .elements = 1, .weight = -1, .space = t->space};
  if (t->kind == ACCEL_PLUGIN_TENSOR_WEIGHT) out->weight = t->weight;
  for (uint32_t r = 0; r < t->rank; r++) {
    int64_t n = dim[t->dim[r]];
    if (n == KIT_UNBOUND)
      return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1,
                      "tensor '%s': dim %u does not follow from the inputs", t->name, r);
    if (n < 0)
      return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "tensor '%s': dim %u is %lld", t->name, r,
                      (long long)n);
    if (n && out->elements > ((int64_t)1 << 40) / n)
      return kit_fail(error, ACCEL_PLUGIN_E_LIMIT, -1, "tensor '%s' is too large", t->name);
    out->dim[r] = n;
    out->elements *= n;
  }
  out->row_stride = kit_cols(out);
  return ACCEL_PLUGIN_OK;
}

/* ---- row spaces ---- */

int32_t kit_space_rows(const accel_plugin_program *p, uint32_t space, const int64_t *dim,
                       const int32_t *lengths, int32_t *start, kit_rows *out,
                       accel_plugin_error *error) {
  const accel_plugin_space *s = &p->space[space];
  int64_t items = dim[s->items], rows = dim[s->rows];
  if (items < 0 || rows < 0 || items >= INT32_MAX || rows >= INT32_MAX)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1,
                    "row space '%s': items or rows do not follow from the inputs", s->name);
  int64_t at = 0, longest = 0;
  start[0] = 0;
  for (int64_t i = 0; i < items; i++) {
    int64_t n = lengths ? lengths[i] : rows;
    if (n < 0)
      return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1,
                      "lengths of row space '%s': item %lld is %lld", s->name, (long long)i,
                      (long long)n);
    at += n;
    if (n > longest) longest = n;
    if (at >= INT32_MAX)
      return kit_fail(error, ACCEL_PLUGIN_E_LIMIT, -1, "row space '%s' has more than 2^31 rows",
                      s->name);
    start[i + 1] = (int32_t)at;
  }
  if (lengths && at != rows)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1,
                    "lengths of row space '%s' sum to %lld, expected %lld rows", s->name,
                    (long long)at, (long long)rows);
  *out = (kit_rows){
      .items = (int32_t)items, .rows = (int32_t)at, .longest = (int32_t)longest, .start = start};
  return ACCEL_PLUGIN_OK;
}
