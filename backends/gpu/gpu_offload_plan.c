/* gpu_offload_plan.c - see gpu_offload_plan.h. */
#include "gpu/gpu_offload_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu_offload.h"
#include "shared/hash.h"

uint32_t gpu_offload_operands(const accel_plugin_program *p, const accel_plugin_node *node,
                              uint32_t out[GPU_OFFLOAD_PAIR]) {
  static const uint32_t operand[GPU_OFFLOAD_PAIR] = {1, 4};
  uint32_t n = 0;
  if (node->op != ACCEL_PLUGIN_OP_LINEAR) return 0;
  for (uint32_t i = 0; i < GPU_OFFLOAD_PAIR; i++) {
    const int32_t t = kit_operand(node, operand[i]);
    if (t < 0 || p->tensor[t].kind != ACCEL_PLUGIN_TENSOR_WEIGHT) continue;
    if (n && out[0] == (uint32_t)p->tensor[t].weight) continue;
    out[n++] = (uint32_t)p->tensor[t].weight;
  }
  return n;
}

/* Clears bytes of weights that are anything else than a matrix of linear layers. */
static void strike_others(const accel_plugin_program *p, kit_segment *weight) {
  for (uint32_t i = 0; i < p->n_node; i++)
    for (uint32_t k = 0; k < p->node[i].n_in; k++) {
      const int32_t t = p->node[i].in[k];
      if (t < 0 || p->tensor[t].kind != ACCEL_PLUGIN_TENSOR_WEIGHT) continue;
      if (p->node[i].op != ACCEL_PLUGIN_OP_LINEAR || (k != 1 && k != 4))
        weight[p->tensor[t].weight].bytes = 0;
    }
  for (uint32_t i = 0; i < p->n_entry; i++)
    for (uint32_t k = 0; k < p->entry[i].n_out; k++) {
      const accel_plugin_tensor *t = &p->tensor[p->entry[i].out[k]];
      if (t->kind == ACCEL_PLUGIN_TENSOR_WEIGHT) weight[t->weight].bytes = 0;
    }
}

static bool is_output(const accel_plugin_entry *e, int32_t tensor) {
  for (uint32_t i = 0; i < e->n_out; i++)
    if (e->out[i] == tensor) return true;
  return false;
}

/* A linear that makes several of the entry's outputs (scores of last tokens, of all) makes one of
 * them in a run. */
static void count_uses(const accel_plugin_program *p, kit_segment *weight) {
  const accel_plugin_entry *e = &p->entry[kit_stream_entry(p)];
  for (uint32_t i = 0; p->n_entry && i < e->n_node; i++) {
    const accel_plugin_node *node = &p->node[e->node[i]];
    uint32_t w[GPU_OFFLOAD_PAIR];
    const uint32_t n = gpu_offload_operands(p, node, w);
    for (uint32_t k = 0; k < n; k++)
      if (!weight[w[k]].uses || !is_output(e, node->out[0])) weight[w[k]].uses++;
  }
}

/* ---- how much a launch reads ---- */

static uint64_t node_bytes(const accel_plugin_program *p, const kit_segment *weight,
                           const accel_plugin_node *node) {
  uint32_t w[GPU_OFFLOAD_PAIR];
  uint64_t bytes = 0;
  const uint32_t n = gpu_offload_operands(p, node, w);
  for (uint32_t k = 0; k < n; k++) bytes += weight[w[k]].bytes;
  return bytes;
}

/* The largest KIT_MAX_FUSED of those that may be fused with node `i` of the entry. */
static uint64_t fused_bytes(const accel_plugin_program *p, const kit_segment *weight,
                            const accel_plugin_entry *e, uint32_t i) {
  uint64_t top[KIT_MAX_FUSED] = {0}, sum = 0;
  const accel_plugin_node *node = &p->node[e->node[i]];
  for (uint32_t k = 0; k < e->n_node; k++) {
    const accel_plugin_node *other = &p->node[e->node[k]];
    if (k == i || other->op != node->op || other->in[0] != node->in[0]) continue;
    uint64_t bytes = node_bytes(p, weight, other);
    for (int m = 0; m < KIT_MAX_FUSED; m++)
      if (bytes > top[m]) {
        const uint64_t less = top[m];
        top[m] = bytes;
        bytes = less;
      }
  }
  for (int m = 0; m < KIT_MAX_FUSED; m++) sum += top[m];
  return sum;
}

static void find_launches(const accel_plugin_program *p, const kit_segment *weight,
                          uint64_t *launch) {
  for (uint32_t e = 0; e < p->n_entry; e++)
    for (uint32_t i = 0; i < p->entry[e].n_node; i++) {
      const accel_plugin_node *node = &p->node[p->entry[e].node[i]];
      uint32_t w[GPU_OFFLOAD_PAIR];
      const uint32_t n = gpu_offload_operands(p, node, w);
      if (!n) continue;
      const uint64_t bytes = node_bytes(p, weight, node) + fused_bytes(p, weight, &p->entry[e], i);
      for (uint32_t k = 0; k < n; k++)
        if (bytes > launch[w[k]]) launch[w[k]] = bytes;
    }
}

/* ---- what stays ---- */

/* Bytes of the weights that stay because a launch of theirs is larger than half the ring. */
static uint64_t forced_bytes(const gpu_offload_plan *plan, uint32_t n, uint64_t launch) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < n; i++)
    if (plan->launch[i] > launch) bytes += plan->weight[i].bytes;
  return bytes;
}

/* Chooses for a ring of two such launches; some[n]: room. */
static void choose(gpu_offload_plan *plan, uint32_t n, uint64_t launch, uint64_t budget,
                   kit_segment *some) {
  uint32_t count = 0;
  const uint64_t taken = plan->fixed + forced_bytes(plan, n, launch) + 2 * launch;
  for (uint32_t i = 0; i < n; i++)
    if (plan->weight[i].bytes && plan->launch[i] <= launch) some[count++] = plan->weight[i];
  kit_stream_choose(some, count, budget > taken ? budget - taken : 0);
  plan->ring = 2 * launch;
  plan->resident = plan->fixed;
  plan->host = plan->read = 0;
  for (uint32_t i = 0, k = 0; i < n; i++) {
    kit_segment *w = &plan->weight[i];
    w->resident = !w->bytes || plan->launch[i] > launch || some[k].resident;
    if (w->bytes && plan->launch[i] <= launch) k++;
    if (w->resident) plan->resident += w->bytes;
    if (!w->resident) plan->host += w->bytes;
    if (!w->resident) plan->read += w->read * w->uses;
  }
}

/* Whether no weight before has launches of that size: few sizes are different. */
static bool is_new(const gpu_offload_plan *plan, uint32_t i) {
  for (uint32_t k = 0; k < i; k++)
    if (plan->launch[k] == plan->launch[i]) return false;
  return true;
}

/* The size of the ring with which a run copies least: a launch that is much larger than the others
 * takes less as weights that stay than as room to pass through. */
static void choose_ring(gpu_offload_plan *plan, uint32_t n, uint64_t budget, kit_segment *some) {
  uint64_t best = 0, read = UINT64_MAX;
  for (uint32_t i = 0; i <= n; i++) {
    const uint64_t launch = i < n ? plan->launch[i] : 0,
                   need = plan->fixed + forced_bytes(plan, n, launch) + 2 * launch;
    if ((i < n && !(plan->weight[i].bytes && is_new(plan, i))) || need > budget) continue;
    choose(plan, n, launch, budget, some);
    if (plan->read > read || (plan->read == read && launch >= best)) continue;
    read = plan->read;
    best = launch;
  }
  choose(plan, n, best, budget, some);
}

static void find_least(gpu_offload_plan *plan, uint32_t n) {
  bool any = false;
  plan->least = UINT64_MAX;
  for (uint32_t i = 0; i <= n; i++) {
    const uint64_t launch = i < n ? plan->launch[i] : 0,
                   need = plan->fixed + forced_bytes(plan, n, launch) + 2 * launch;
    if (i < n && !plan->weight[i].bytes) continue;
    any |= i < n;
    if (need < plan->least) plan->least = need;
  }
  if (!any) plan->least = 0;
}

/* ---- what lies on the disk ---- */

gpu_disk_shape gpu_disk_shape_of(const accel_plugin_program *p, uint32_t weight,
                                 const accel_plugin_format *format) {
  gpu_disk_shape out = {0};
  int64_t k;
  kit_weight_matrix(&p->weight[weight], &out.rows, &k);
  out.data = gpu_weight_parts(p, weight, format, &out.scale);
  out.row = out.rows ? out.data / (uint64_t)out.rows : 0;
  return out;
}

int64_t gpu_disk_rows(const gpu_disk_cut *cut, const gpu_disk_shape *shape) {
  return shape->row && shape->row < cut->part ? (int64_t)(cut->part / shape->row) : 1;
}

uint32_t gpu_disk_data_parts(const gpu_disk_cut *cut, const gpu_disk_shape *shape) {
  return (uint32_t)gpu_ceil_div(shape->rows, gpu_disk_rows(cut, shape));
}

uint32_t gpu_disk_all_parts(const gpu_disk_cut *cut, const gpu_disk_shape *shape) {
  return gpu_disk_data_parts(cut, shape) + (uint32_t)((shape->scale + cut->part - 1) / cut->part);
}

/* Plain rows as the checkpoint has them; codes that need no number beside those of their groups. */
static bool is_readable(const accel_plugin_options *o, uint32_t weight) {
  const accel_plugin_format *f = &o->precision.format[weight];
  if (gpu_disk_coded(f)) return f->outer == ACCEL_PLUGIN_NO_DTYPE;
  return o->row_dtype && o->row_dtype[weight] != ACCEL_PLUGIN_NO_DTYPE;
}

/* Bytes of rows as the checkpoint has them; of a coded weight those of its parts. */
static uint64_t stored_bytes(const accel_plugin_program *p, const accel_plugin_options *o,
                             uint32_t weight, int64_t rows, uint64_t row) {
  int64_t n, k;
  if (gpu_disk_coded(&o->precision.format[weight])) return (uint64_t)rows * row;
  kit_weight_matrix(&p->weight[weight], &n, &k);
  return (uint64_t)(rows * k) * kit_row_element(o->row_dtype[weight]);
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Parts of at most 2 MiB, or a 64th of all: some of them ahead keep the disk busy. */
static void cut(const accel_plugin_program *p, const accel_plugin_options *o,
                gpu_offload_plan *plan) {
  enum { LEAST = 128 << 10, MOST = 2 << 20, SHARE = 64, PAGE = 4096, RECORD = 32 };
  gpu_disk_cut *c = &plan->cut;
  uint64_t all = 0;
  for (uint32_t i = 0; i < p->n_weight; i++) all += plan->weight[i].bytes;
  all = all / SHARE / 8 * 8;
  *c = (gpu_disk_cut){.part = all < LEAST  ? LEAST
                              : all > MOST ? MOST
                                           : all,
                      .hash = ACCEL_HASH_SEED};
  for (uint32_t i = 0; i < p->n_weight; i++) {
    const accel_plugin_format *f = &o->precision.format[i];
    const gpu_disk_shape s = gpu_disk_shape_of(p, i, f);
    plan->readable[i] = plan->weight[i].bytes && is_readable(o, i);
    if (!plan->readable[i]) continue;
    const int64_t rows = gpu_least(gpu_disk_rows(c, &s), s.rows);
    const uint64_t bytes = larger((uint64_t)rows * s.row, s.scale < c->part ? s.scale : c->part);
    c->chunk = larger(c->chunk, bytes);
    c->slot =
        larger(c->slot, larger(stored_bytes(p, o, i, rows, s.row), gpu_disk_coded(f) ? bytes : 0));
    if (!gpu_disk_coded(f)) continue;
    const uint64_t facts[] = {i, (uint64_t)s.rows, s.data, s.scale, c->part};
    c->store += s.data + s.scale + gpu_disk_all_parts(c, &s) * (uint64_t)(PAGE / 2 + RECORD);
    c->hash = accel_hash(accel_hash(c->hash, facts, sizeof facts), f, sizeof *f);
  }
}

/* Host memory through which parts pass. */
static uint64_t staging(const gpu_disk_cut *c) {
  enum { PAGE = 4096, HUGE_BYTES = 2 << 20 };
  const uint64_t ring = GPU_DISK_SLOTS * ((c->slot + PAGE - 1) / PAGE * PAGE + PAGE);
  return ring + (ring < HUGE_BYTES ? 0 : HUGE_BYTES) +
         GPU_DISK_CHUNKS * ((c->chunk + PAGE - 1) / PAGE * PAGE);
}

/* Of the weights that do not stay on the device, some for which the budget has no room; some[n]:
 * room.  Those that are used most often lie in memory, else an even share of all, so that the disk
 * always has something to do. */
static void choose_disk(const accel_plugin_program *p, const accel_plugin_options *o,
                        gpu_offload_plan *plan, kit_segment *some) {
  uint64_t forced = 0;
  uint32_t count = 0;
  for (uint32_t i = 0; i < p->n_weight; i++) {
    if (plan->weight[i].resident) continue;
    if (plan->readable[i])
      some[count++] = plan->weight[i];
    else
      forced += plan->weight[i].bytes;
  }
  const uint64_t least = forced + staging(&plan->cut), budget = o->stream_host_budget;
  plan->host_least = count ? least : 0;
  if (!budget || !count) return;
  plan->host = least + kit_stream_choose(some, count, budget > least ? budget - least : 0);
  count = 0;
  for (uint32_t i = 0; i < p->n_weight; i++) {
    kit_segment *w = &plan->weight[i];
    if (w->resident || !plan->readable[i] || some[count++].resident) continue;
    const gpu_disk_shape s = gpu_disk_shape_of(p, i, &o->precision.format[i]);
    const uint64_t bytes = stored_bytes(p, o, i, s.rows, s.row) +
                           (gpu_disk_coded(&o->precision.format[i]) ? s.scale : 0);
    plan->on_disk[i] = true;
    plan->read += w->uses * bytes - w->uses * w->read;
    plan->disk += w->uses * bytes;
  }
}

/* ---- plans ---- */

static int32_t plan_new(uint32_t n, gpu_offload_plan *plan, kit_segment **some,
                        accel_plugin_error *error) {
  *plan = (gpu_offload_plan){.weight = calloc(n + 1, sizeof *plan->weight),
                             .launch = calloc(n + 1, sizeof *plan->launch),
                             .readable = calloc(n + 1, sizeof *plan->readable),
                             .on_disk = calloc(n + 1, sizeof *plan->on_disk)};
  *some = calloc(n + 1, sizeof **some);
  if (plan->weight && plan->launch && plan->readable && plan->on_disk && *some)
    return ACCEL_PLUGIN_OK;
  free(*some);
  gpu_offload_plan_free(plan);
  return kit_no_memory(error, n * sizeof **some);
}

int32_t gpu_offload_plan_make(const accel_plugin_program *p, const accel_plugin_options *options,
                              gpu_offload_plan *plan, accel_plugin_error *error) {
  const uint32_t n = p->n_weight;
  const accel_plugin_format *format = options->precision.format;
  const uint64_t budget = options->stream_budget;
  kit_segment *some;
  const int32_t rc = plan_new(n, plan, &some, error);
  if (rc) return rc;
  for (uint32_t i = 0; i < n; i++) {
    uint64_t scale;
    const uint64_t data = gpu_weight_parts(p, i, &format[i], &scale);
    plan->weight[i].bytes = gpu_offload_rounded(data) + gpu_offload_rounded(scale);
    plan->weight[i].read = data + scale;
  }
  strike_others(p, plan->weight);
  count_uses(p, plan->weight);
  find_launches(p, plan->weight, plan->launch);
  for (uint32_t i = 0; i < n; i++) {
    if (!plan->launch[i]) plan->weight[i].bytes = 0; /* nothing reads it */
    if (!plan->weight[i].bytes) plan->launch[i] = 0;
    if (!plan->weight[i].bytes) plan->fixed += gpu_weight_bytes(p, i, &format[i]);
  }
  find_least(plan, n);
  choose_ring(plan, n, budget > plan->least ? budget : plan->least, some);
  cut(p, options, plan);
  choose_disk(p, options, plan, some);
  free(some);
  return ACCEL_PLUGIN_OK;
}

void gpu_offload_plan_free(gpu_offload_plan *plan) {
  free(plan->weight);
  free(plan->launch);
  free(plan->readable);
  free(plan->on_disk);
  *plan = (gpu_offload_plan){0};
}

void gpu_disk_key(const accel_plugin_program *p, const gpu_disk_cut *c, char key[96]) {
  snprintf(key, 96, "device layout %016llx %016llx", (unsigned long long)p->hash,
           (unsigned long long)c->hash);
}

/* Whether what lies on the disk has to be in the cache. */
static bool needs_store(const accel_plugin_program *p, const accel_plugin_options *o,
                        const gpu_offload_plan *plan) {
  for (uint32_t i = 0; i < p->n_weight; i++)
    if (plan->on_disk[i] && gpu_disk_coded(&o->precision.format[i])) return true;
  return false;
}

int32_t gpu_offload_estimate(uint32_t device, const accel_plugin_program *p,
                             const accel_plugin_options *options, accel_plugin_estimate *out,
                             accel_plugin_error *error) {
  gpu_offload_plan plan;
  if (!gpu_plugin_api.own_memory || !gpu_plugin_api.own_memory(device)) return ACCEL_PLUGIN_OK;
  const int32_t rc = gpu_offload_plan_make(p, options, &plan, error);
  if (rc) return rc;
  if (plan.least) {
    out->stream_least = plan.least;
    out->stream_resident = plan.resident;
    out->stream_staging = plan.ring;
    out->stream_read = plan.read;
    out->stream_host = plan.host;
    out->stream_host_least = plan.host_least;
    out->stream_disk = plan.disk;
  }
  if (plan.least && needs_store(p, options, &plan)) {
    out->stream_store = plan.cut.store;
    gpu_disk_key(p, &plan.cut, out->stream_key);
  }
  gpu_offload_plan_free(&plan);
  return ACCEL_PLUGIN_OK;
}
