/* kit_bind.c - from the shapes of a run's inputs to the value of every symbol and dim, and to the
 * rows of every item. */
#include <stdio.h>
#include <string.h>

#include "kit/kit_internal.h"

/* ---- dims ---- */

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
    if (symbol[i] == ACCEL_DIM_UNBOUND) continue;
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
  accel_dims_misfit m;
  if (!accel_dims_bind(p, entry, in, symbol, dim, &m)) {
    const accel_plugin_tensor *t = &p->tensor[entry->in[m.input]];
    if (m.expected == ACCEL_DIM_UNBOUND)
      return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1,
                      "input '%s': dim %u is %lld, which does not fit its expression", t->name,
                      m.axis, (long long)m.got);
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1,
                    "input '%s': dim %u is %lld, expected %lld (%s)", t->name, m.axis,
                    (long long)m.got, (long long)m.expected, dim_name(p, t->dim[m.axis]));
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
    if (n == ACCEL_DIM_UNBOUND)
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
