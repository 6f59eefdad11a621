/* parts_plan.c - which layers of a model go to which device, and whether they fit there.
 *
 * A user counts layers from 0: layer n is stage n + 1 of the program, stage 0 (embeddings) goes
 * with the first part, and what comes behind the last layer (the head) with the last one.
 */
#include <string.h>

#include "dispatch/parts_internal.h"
#include "dispatch/planner.h"
#include "formats/weight_matrix.h"
#include "models/model_build.h"

/* ---- layers ---- */

static uint32_t count_layers(const accel_endpoint *ep) {
  const uint32_t stages = accel__program_view(ep->model->program)->n_stage,
                 layers = accel__program_layers(ep->model->program);
  return layers > 0 && layers < stages ? layers : stages - 1;
}

static uint64_t weight_bytes(const accel_plugin_weight *w, const accel_plugin_format *f) {
  int64_t n = 1, k = 1;
  accel_matrix_bytes bytes;
  for (uint32_t i = 0; i < w->rank; i++) {
    const bool row = w->use == ACCEL_PLUGIN_USE_CONV ? i == 0 : i + 1 < w->rank;
    *(row ? &n : &k) *= w->dim[i];
  }
  return accel_matrix_sizes(f, n, k, &bytes) ? bytes.data + bytes.scale + bytes.zero + bytes.outer
                                             : 0;
}

/* Bytes of weights of each layer, cost[layers], by the nodes that use them. */
static accel_status layer_costs(const accel_plugin_program *p,
                                const accel_plugin_precision *precision, uint32_t layers,
                                accel__arena *arena, uint64_t *cost) {
  uint32_t *stage = accel__arena_array(arena, p->n_node + 1u, sizeof *stage);
  uint32_t *seen = accel__arena_array(arena, p->n_weight + 1u, sizeof *seen);
  if (!stage || !seen) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__program_node_stages(p, stage));
  for (uint32_t i = 0; i < p->n_node; i++) {
    uint32_t layer = stage[i] ? stage[i] - 1 : 0;
    if (layer >= layers) layer = layers - 1;
    for (uint32_t k = 0; k < p->node[i].n_in; k++) {
      const int32_t t = p->node[i].in[k];
      if (t < 0 || p->tensor[t].kind != ACCEL_PLUGIN_TENSOR_WEIGHT) continue;
      const int32_t w = p->tensor[t].weight;
      if (seen[w] == layer + 1) continue; /* of this layer already */
      seen[w] = layer + 1;
      cost[layer] += weight_bytes(&p->weight[w], &precision->format[w]);
    }
  }
  for (uint32_t i = 0; i < layers; i++) cost[i] += !cost[i];
  return ACCEL_OK;
}

/* ---- by hand ---- */

static accel_status split_by_hand(const accel_endpoint *ep, const accel__device_parts *parts,
                                  uint32_t layers, uint32_t *last) {
  for (uint32_t k = 0; k < parts->n; k++) {
    const uint32_t end = (uint32_t)parts->last[k];
    const char *name = parts->device[k]->info.name;
    if (end >= layers || (k + 1 == parts->n && end + 1 < layers))
      return accel__remedy(
          accel__fail(ACCEL_ERROR_ARGUMENT, "device '%s=%d-%d': %s has %u layers, 0 to %u; %s",
                      name, parts->first[k], parts->last[k], ep->name, layers, layers - 1,
                      end >= layers ? "there is no such layer" : "the last ones are in no part"),
          "end the last part at layer %u", layers - 1);
    last[k] = end;
  }
  return ACCEL_OK;
}

/* ---- planned ---- */

static bool is_gpu(const accel__device *d) {
  return d->facts.type == ACCEL_PLUGIN_DEVICE_DISCRETE_GPU ||
         d->facts.type == ACCEL_PLUGIN_DEVICE_INTEGRATED_GPU;
}

/* Bytes that a model may take there; 0: not known. */
static uint64_t memory_for(accel__hardware *hardware, const accel__device *d, uint64_t limit) {
  accel_plugin_memory m = {.size = sizeof m};
  if (accel__device_memory(hardware, d, &m) != ACCEL_OK) m = (accel_plugin_memory){0};
  accel__clear_error();
  const uint64_t ready = m.budget ? m.budget : m.free;
  return limit && (!ready || limit < ready) ? limit : ready;
}

/* Each part's share of the weights.  GPUs take what they have memory for, and leave the rest to
 * processors; among their like, devices share by memory. */
static accel_status first_shares(accel_endpoint *ep, const accel__device_parts *parts,
                                 uint64_t limit, const uint64_t *cost, uint32_t layers,
                                 double *share) {
  const double usable = 0.85; /* states, activations */
  accel__hardware *hardware;
  double all = 0, memory[ACCEL__MAX_PARTS], sum[2] = {0, 0};
  uint32_t count[2] = {0, 0};
  bool known = true;
  ACCEL_TRY(accel__context_hardware(ep->ctx, &hardware));
  for (uint32_t i = 0; i < layers; i++) all += (double)cost[i];
  for (uint32_t k = 0; k < parts->n; k++) {
    memory[k] = (double)memory_for(hardware, parts->device[k], limit);
    known &= memory[k] > 0;
  }
  for (uint32_t k = 0; k < parts->n; k++) {
    if (!known) memory[k] = all;
    sum[is_gpu(parts->device[k])] += memory[k];
    count[is_gpu(parts->device[k])]++;
  }
  double gpus = count[1] ? usable * sum[1] / all : 0;
  if (gpus > 1 || !count[0]) gpus = 1;
  for (uint32_t k = 0; k < parts->n; k++) {
    const bool gpu = is_gpu(parts->device[k]);
    share[k] = (gpu ? gpus : 1 - gpus) * memory[k] / sum[gpu];
  }
  return ACCEL_OK;
}

/* Ends of the parts by their shares; each gets one layer at least. */
static void split_by_share(const uint64_t *cost, uint32_t layers, const double *share, uint32_t n,
                           uint32_t *last) {
  double left = 0, shares = 0;
  uint32_t layer = 0;
  for (uint32_t i = 0; i < layers; i++) left += (double)cost[i];
  for (uint32_t k = 0; k < n; k++) shares += share[k];
  for (uint32_t k = 0; k < n; k++) {
    const double target = shares > 0 ? left * share[k] / shares : 0;
    const uint32_t most = layers - (n - 1 - k); /* the others get one each */
    double mine = (double)cost[layer++];
    while (layer < most && (k + 1 == n || mine + 0.5 * (double)cost[layer] <= target))
      mine += (double)cost[layer++];
    last[k] = layer - 1;
    left -= mine;
    shares -= share[k];
  }
}

/* ---- cutting ---- */

static accel_status cut(accel_endpoint *ep, const accel_plugin_precision *precision,
                        const uint32_t *last, accel__arena *arena, accel__parts_plan *plan) {
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  uint32_t stage[ACCEL__MAX_PARTS];
  for (uint32_t k = 0; k < plan->n; k++) {
    plan->first_layer[k] = k ? last[k - 1] + 1 : 0;
    plan->last_layer[k] = last[k];
    stage[k] = k + 1 < plan->n ? last[k] + 1 : p->n_stage - 1;
  }
  plan->part = accel__arena_array(arena, plan->n, sizeof *plan->part);
  plan->precision = accel__arena_array(arena, plan->n, sizeof *plan->precision);
  if (!plan->part || !plan->precision) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__program_cut(p, stage, plan->n, arena, plan->part));
  for (uint32_t k = 0; k < plan->n; k++) {
    const accel__part *part = &plan->part[k];
    accel_plugin_format *format =
        accel__arena_array(arena, part->program.n_weight + 1u, sizeof *format);
    if (!format) return ACCEL_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < part->program.n_weight; i++)
      format[i] = precision->format[part->weight[i]];
    plan->precision[k] = *precision;
    plan->precision[k].format = format;
  }
  return ACCEL_OK;
}

/* ---- asking ---- */

bool accel__share_memory(const accel__device *a, const accel__device *b) {
  return a == b || (a->card && a->card == b->card) ||
         (a->facts.type == ACCEL_PLUGIN_DEVICE_CPU && b->facts.type == ACCEL_PLUGIN_DEVICE_CPU);
}

void accel__parts_add_streaming(const accel__streaming *one, accel__streaming *sum) {
  sum->budget += one->budget;
  sum->resident += one->resident;
  sum->staging += one->staging;
  sum->read += one->read;
  sum->experts += one->experts;
  sum->routed += one->routed;
  sum->missed += one->missed;
  sum->host += one->host;
  sum->host_budget += one->host_budget;
  sum->disk += one->disk;
  sum->copied |= one->copied;
}

static void add_to_sum(const accel__fit *one, accel__fit *sum) {
  accel_plugin_estimate *e = &sum->estimate;
  const accel_plugin_estimate *o = &one->estimate;
  e->weights += o->weights;
  e->scratch += o->scratch;
  e->state_fixed += o->state_fixed;
  e->state_per_token += o->state_per_token;
  e->host_staging += o->host_staging;
  e->peak_load += o->peak_load;
  e->in_file += o->in_file;
  sum->tokens = one->tokens;
  sum->state += one->state;
  sum->staging += one->staging;
  sum->tables += one->tables;
  sum->total += one->total;
  sum->peak += one->peak;
  sum->limit += one->limit;
  sum->whole += one->whole;
  sum->memory.total += one->memory.total;
  sum->fits &= one->fits;
  sum->of_process &= one->of_process;
  accel__parts_add_streaming(&one->streaming, &sum->streaming);
}

/* The limit from which on part k runs: of what it needs, streaming or whole, the larger share of a
 * limit that it has only a part of. */
static uint64_t least_limit(const accel__parts_plan *plan, uint32_t k, const uint64_t *weights,
                            const accel__fit *one) {
  const uint64_t own = one->streaming.least ? one->streaming.least : one->whole;
  double all = 0;
  for (uint32_t j = 0; weights && j < plan->n; j++)
    if (accel__share_memory(plan->device[j], plan->device[k])) all += (double)weights[j];
  return weights ? (uint64_t)((double)own * all / (double)weights[k]) + 1 : own;
}

/* What others leave part k of the memory that they share: parts before it take what they need, or,
 * where `weights` of all parts are given, each has its own part of the user's limit. */
static uint64_t taken_by_others(const accel__parts_plan *plan, uint32_t k, const accel__fit *so_far,
                                const uint64_t *weights) {
  uint64_t taken = 0;
  double all = 0;
  for (uint32_t j = 0; j < plan->n; j++) {
    if (!accel__share_memory(plan->device[j], plan->device[k])) continue;
    if (j < k) taken += so_far->part[j].total;
    if (weights) all += (double)weights[j];
  }
  if (!weights || !plan->limit) return taken;
  return plan->limit - (uint64_t)((double)plan->limit * (double)weights[k] / all);
}

/* Host memory of earlier parts, as far as part k does not count it as its device's. */
static uint64_t host_taken(const accel__parts_plan *plan, uint32_t k, const accel__fit *so_far) {
  const bool on_host = plan->device[k]->facts.type == ACCEL_PLUGIN_DEVICE_CPU;
  uint64_t taken = 0;
  for (uint32_t j = 0; j < k; j++) {
    const accel__fit_part *part = &so_far->part[j];
    taken += part->streaming.host;
    if (!on_host && part->device->facts.type == ACCEL_PLUGIN_DEVICE_CPU) taken += part->total;
  }
  return taken;
}

/* Each part's numbers, and their sum.  load: of parts that are loaded as it says; NULL: that is to
 * be planned. */
static accel_status ask(const accel__parts_asked *asked, const accel__fit_work *work,
                        const uint64_t *weights, accel__fit *out) {
  const accel__parts_plan *plan = asked->plan;
  accel__fit_work own = *work;
  *out = (accel__fit){.estimate = {.size = sizeof out->estimate}, .fits = true, .of_process = true};
  bool streams = false;
  out->n_part = plan->n;
  for (uint32_t k = 0; k < plan->n; k++) {
    accel__fit_subject subject = {.ep = asked->ep,
                                  .device = plan->device[k],
                                  .precision = &plan->precision[k],
                                  .source = asked->source,
                                  .part = &plan->part[k]};
    accel__fit one;
    subject.taken = taken_by_others(plan, k, out, weights);
    subject.host_taken = host_taken(plan, k, out);
    own.loaded = asked->load ? &asked->load->part[k].streaming : NULL;
    ACCEL_TRY(accel__fit_subject_estimate(&subject, &own, &one));
    if (one.of_process) own.tables = 0; /* counted once */
    add_to_sum(&one, out);
    streams |= one.streaming.least != 0;
    const uint64_t from = least_limit(plan, k, weights, &one);
    if (from > out->streaming.least) out->streaming.least = from;
    out->part[k] = (accel__fit_part){.device = plan->device[k],
                                     .first_layer = plan->first_layer[k],
                                     .last_layer = plan->last_layer[k],
                                     .weights = one.estimate.weights,
                                     .total = one.total,
                                     .limit = one.limit,
                                     .streaming = one.streaming,
                                     .fits = one.fits};
  }
  if (!streams) out->streaming.least = 0;
  return ACCEL_OK;
}

/* Two parts of the same memory, one of which at least is full (does not fit, or streams). */
static bool is_tight(const accel__parts_plan *plan, const accel__fit *fit) {
  for (uint32_t k = 0; k < plan->n; k++)
    for (uint32_t j = 0; j < k; j++)
      if (accel__share_memory(plan->device[j], plan->device[k]) &&
          (!fit->part[j].fits || !fit->part[k].fits || fit->part[j].streaming.budget ||
           fit->part[k].streaming.budget))
        return true;
  return false;
}

/* Parts that are loaded share memory as they are.  Of others that have no room beside each other
 * each gets its own part of the user's limit, so that the first ones do not leave the last a small
 * rest to stream through. */
accel_status accel__parts_ask(const accel__parts_asked *asked, const accel__fit_work *work,
                              accel__fit *out) {
  const accel__parts_plan *plan = asked->plan;
  uint64_t weights[ACCEL__MAX_PARTS];
  accel__fit shared;
  ACCEL_TRY(ask(asked, work, NULL, out));
  if (asked->load || !is_tight(plan, out)) return ACCEL_OK;
  for (uint32_t k = 0; k < plan->n; k++) weights[k] = out->part[k].weights + 1;
  ACCEL_TRY(ask(asked, work, weights, &shared));
  if (shared.fits || !out->fits) *out = shared;
  return ACCEL_OK;
}

/* ---- what a limit leaves runs ---- */

/* What it leaves s[k] beside weights; parts of the same memory have the same part of it. */
static uint64_t left_for(const accel__limits_subject *s, const uint64_t *weights, uint32_t n,
                         uint32_t k, uint64_t limit) {
  uint64_t taken = 0, sharers = 0;
  for (uint32_t j = 0; j < n; j++) {
    if (!accel__share_memory(s[j].of.device, s[k].of.device)) continue;
    taken += s[j].loaded->budget ? s[j].loaded->budget : weights[j];
    sharers++;
  }
  return limit > taken ? (limit - taken) / sharers : 0;
}

accel_status accel__parts_run_limits(accel__limits_subject *s, const uint64_t *weights, uint32_t n,
                                     uint64_t limit, accel__run_limits *out) {
  uint64_t least = UINT64_MAX;
  *out = (accel__run_limits){0};
  for (uint32_t k = 0; k < n; k++) {
    s[k].left = left_for(s, weights, n, k, limit);
    if (s[k].left < least) least = s[k].left;
  }
  if (accel__model_entry_of(s[0].of.ep->model, "decode"))
    ACCEL_TRY(accel__run_limits_plan(s, n, out));
  out->run_bytes = least ? least : 1;
  return ACCEL_OK;
}

/* ---- the plan ---- */

/* What a plan is made of before devices are asked. */
typedef struct planning {
  const accel__device_parts *parts;
  uint32_t layers;
  uint64_t *cost;                 /* [layers] */
  double share[ACCEL__MAX_PARTS]; /* of planned parts */
} planning;

static accel_status begin(accel_endpoint *ep, const accel__device *device,
                          const accel_plugin_precision *precision, const accel__fit_work *work,
                          accel__arena *arena, planning *p, accel__parts_plan *plan) {
  *p = (planning){.parts = device->parts, .layers = count_layers(ep)};
  *plan = (accel__parts_plan){.n = device->parts->n, .limit = work->limit};
  if (!plan->limit) ACCEL_TRY(accel__context_memory_limit(ep->ctx, &plan->limit));
  for (uint32_t k = 0; k < plan->n; k++) plan->device[k] = device->parts->device[k];
  if (plan->n > p->layers)
    return accel__remedy(
        accel__fail(ACCEL_ERROR_UNSUPPORTED, "device '%s': %u parts, but %s has %u layer%s",
                    device->info.name, plan->n, ep->name, p->layers, p->layers == 1 ? "" : "s"),
        "name at most %u device%s", p->layers, p->layers == 1 ? "" : "s");
  if (p->parts->first[0] >= 0) return ACCEL_OK;
  p->cost = accel__arena_array(arena, p->layers, sizeof *p->cost);
  if (!p->cost) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(
      layer_costs(accel__program_view(ep->model->program), precision, p->layers, arena, p->cost));
  return first_shares(ep, p->parts, plan->limit, p->cost, p->layers, p->share);
}

static accel_status split(accel_endpoint *ep, const planning *p,
                          const accel_plugin_precision *precision, accel__arena *arena,
                          accel__parts_plan *plan) {
  uint32_t last[ACCEL__MAX_PARTS];
  if (p->cost)
    split_by_share(p->cost, p->layers, p->share, plan->n, last);
  else
    ACCEL_TRY(split_by_hand(ep, p->parts, p->layers, last));
  return cut(ep, precision, last, arena, plan);
}

/* It has no memory for its layers, or not on its device: their weights would be copied to it in each
 * run. */
static bool is_full(const accel__fit_part *part) { return !part->fits || part->streaming.copied; }

/* A planned part that is full gives some of its share to the others. */
static bool give_away(planning *p, const accel__fit *fit) {
  bool taker = false;
  for (uint32_t k = 0; k < fit->n_part; k++) taker |= !is_full(&fit->part[k]);
  for (uint32_t k = 0; p->cost && taker && k < fit->n_part; k++)
    if (is_full(&fit->part[k])) p->share[k] *= 0.8;
  return p->cost && taker;
}

accel_status accel__parts_plan_make(accel_endpoint *ep, const accel__device *device,
                                    const accel_plugin_precision *precision,
                                    const accel__source *source, const accel__fit_work *work,
                                    accel__arena *arena, accel__parts_plan *plan, accel__fit *fit) {
  enum { ROUNDS = 12 };
  planning p;
  const accel__parts_asked asked = {.ep = ep, .plan = plan, .source = source};
  ACCEL_TRY(begin(ep, device, precision, work, arena, &p, plan));
  double copying[ACCEL__MAX_PARTS]; /* the first shares that fit, with weights that are copied */
  bool found = false;
  for (uint32_t round = 0; round < ROUNDS; round++) {
    ACCEL_TRY(split(ep, &p, precision, arena, plan));
    ACCEL_TRY(accel__parts_ask(&asked, work, fit));
    if (fit->fits && !found) memcpy(copying, p.share, sizeof copying);
    found |= fit->fits;
    if ((fit->fits && !fit->streaming.copied) || !give_away(&p, fit)) break;
  }
  if (!found || (fit->fits && !fit->streaming.copied)) return ACCEL_OK;
  memcpy(p.share, copying, sizeof copying);
  ACCEL_TRY(split(ep, &p, precision, arena, plan));
  return accel__parts_ask(&asked, work, fit);
}

accel_status accel__parts_estimate(accel_endpoint *ep, const accel__device *device,
                                   const accel_plugin_precision *precision,
                                   const accel__source *source, const accel__fit_work *work,
                                   accel__fit *out) {
  accel__arena arena = {0};
  accel__parts_plan plan;
  const accel_status status =
      accel__parts_plan_make(ep, device, precision, source, work, &arena, &plan, out);
  accel__arena_free(&arena);
  return status;
}

accel_status accel__parts_supports(accel_endpoint *ep, const accel__device *device,
                                   const accel_plugin_precision *precision) {
  accel__arena arena = {0};
  accel__parts_plan plan;
  planning p;
  accel_status status = begin(ep, device, precision, &(accel__fit_work){0}, &arena, &p, &plan);
  if (status == ACCEL_OK) status = split(ep, &p, precision, &arena, &plan);
  for (uint32_t k = 0; status == ACCEL_OK && k < plan.n; k++) {
    status = accel__device_supports(plan.device[k], &plan.part[k].program, &plan.precision[k]);
    if (status != ACCEL_OK && status != ACCEL_ERROR_OUT_OF_MEMORY)
      status = accel__wrap(status, "layers %u to %u on %s", plan.first_layer[k], plan.last_layer[k],
                           plan.device[k]->info.name);
  }
  accel__arena_free(&arena);
  return status;
}
