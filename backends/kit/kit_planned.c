/* kit_planned.c - the launches of runs that are only planned, told with what they cost. */
#include <stdlib.h>

#include "kit/kit_internal.h"

/* Rows of every space that the plan uses, items of ragged ones as long as each other.  *start is
 * what they point into, to be freed. */
static int32_t even_rows(const accel_plugin_program *p, const kit_plan *plan, const int64_t *dim,
                         kit_rows *rows, int32_t **start, accel_plugin_error *error) {
  uint64_t n = p->n_space;
  for (uint32_t i = 0; i < p->n_space; i++) {
    const int64_t items = dim[p->space[i].items];
    if (plan->space[i] && items > 0 && items < INT32_MAX) n += 2 * (uint64_t)items + 1;
  }
  int32_t *at = *start = malloc((n + 1) * sizeof *at), rc = ACCEL_PLUGIN_OK;
  if (!at) return kit_no_memory(error, n * sizeof *at);
  for (uint32_t i = 0; !rc && i < p->n_space; i++) {
    const accel_plugin_space *s = &p->space[i];
    const int64_t items = dim[s->items], all = dim[s->rows];
    rows[i] = (kit_rows){0};
    if (!plan->space[i]) continue;
    int32_t *length = at;
    if (s->lengths >= 0 && items > 0 && items < INT32_MAX && all >= 0 && all < INT32_MAX)
      for (int64_t k = 0; k < items; k++)
        *at++ = (int32_t)(all * (k + 1) / items - all * k / items);
    rc = kit_space_rows(p, i, dim, s->lengths >= 0 ? length : NULL, at, &rows[i], error);
    if (!rc) at += rows[i].items + 1;
  }
  return rc;
}

static void tell(const kit_launch *launch, const uint64_t *weight_bytes, uint32_t entry,
                 const accel_plugin_options *o) {
  int32_t node[KIT_MAX_FUSED + 1];
  accel_plugin_step step = {.size = sizeof step, .entry = entry, .node = node};
  for (uint32_t m = 0; m <= launch->n_fused; m++) {
    kit_cost(launch + m, weight_bytes, &step);
    node[step.n_node++] = (int32_t)launch[m].index;
  }
  o->planned(o->planned_self, &step);
}

int32_t kit_planned_tell(const kit_backend *backend, const accel_plugin_program *p,
                         const accel_plugin_options *o, const kit_plan *plan, const int64_t *dim,
                         accel_plugin_error *error) {
  const uint8_t kv = o->precision.kv;
  const bool narrow = kv == ACCEL_PLUGIN_F16 || kv == ACCEL_PLUGIN_BF16 || kv == ACCEL_PLUGIN_I8;
  const kit_planned planned = {.past = (int64_t)o->past_tokens,
                               .fixed = (int64_t)o->static_tokens,
                               .kv_dtype = narrow ? kv : ACCEL_PLUGIN_F32};
  kit_launch launch[KIT_MAX_FUSED + 1];
  int32_t *start = NULL;
  uint64_t *weight_bytes = calloc(p->n_weight + 1, sizeof *weight_bytes);
  kit_rows *rows = calloc(p->n_space + 1, sizeof *rows);
  kit_tensor *tensors = calloc(plan->widest + 1, sizeof *tensors);
  int32_t rc = weight_bytes && rows && tensors ? even_rows(p, plan, dim, rows, &start, error)
                                               : kit_no_memory(error, p->n_weight * 8);
  for (uint32_t i = 0; !rc && i < p->n_weight; i++) {
    const accel_plugin_format *f = &o->precision.format[i];
    weight_bytes[i] =
        backend->weight_bytes ? backend->weight_bytes(p, i, f) : kit_format_bytes(&p->weight[i], f);
  }
  const kit_launch like = {.program = p, .dim = dim, .rows = rows, .planned = &planned};
  for (uint32_t k = 0; !rc && k < plan->n_step; k += 1 + plan->step[k].n_fused) {
    kit_step_tensors(p, plan, &plan->step[k], tensors);
    kit_step_launches(p, &plan->step[k], tensors, &like, launch);
    tell(launch, weight_bytes, plan->entry, o);
  }
  free(weight_bytes);
  free(rows);
  free(tensors);
  free(start);
  return rc;
}
