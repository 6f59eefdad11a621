/* planner.c - plans over the estimates of fit.c; times over what was measured. */
#include "dispatch/planner.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/size.h"
#include "dispatch/copy_speed.h"
#include "dispatch/device_rate.h"
#include "dispatch/disk_speed.h"
#include "dispatch/parts_internal.h"
#include "dispatch/precision.h"
#include "dispatch/stored.h"
#include "models/model_build.h"

enum {
  STEP_TOKENS = 2048, /* of a step where no limit is given: as the engine has it */
  STEP_SHARE = 3,
  LEAST_STEP_TOKENS = 64, /* a step of prompts is not made smaller */
  LEAST_RUN_TOKENS = 128  /* of texts: what a load counts with anyway */
};

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static bool generates(const accel_endpoint *ep) {
  return accel__model_entry_of(ep->model, "decode") != NULL;
}

/* Texts of other models are independent of each other: a run may have any number of them. */
static bool reads_texts(const accel_endpoint *ep) {
  if (generates(ep)) return false;
  for (uint32_t i = 0; i < ep->model->n_inputs; i++)
    if (ep->model->inputs[i].kind == ACCEL__INPUT_TOKENS) return true;
  return false;
}

static accel_status estimate(const accel__plan_for *f, const accel__fit_work *work,
                             accel__fit *out) {
  return accel__fit_estimate(f->ep, f->device, f->precision, f->source, work, out);
}

/* ---- what runs may take ---- */

/* Memory of a run of so many rows, beside states. */
static uint64_t run_bytes(const accel__fit *f) {
  return f->estimate.scratch + f->staging + f->estimate.host_staging;
}

/* Of one of the subjects, for steps of so many tokens, which take what `step` says. */
static accel__run_limits limits_of(const accel__limits_subject *s, const accel__fit *step,
                                   uint32_t rows) {
  return (accel__run_limits){
      .state_bytes = s->left > run_bytes(step) ? s->left - run_bytes(step) : 1,
      .per_token = step->estimate.state_per_token,
      .per_sequence = step->estimate.state_fixed + step->staging / 2, /* scores, in one place */
      .page_rows =
          s->loaded->budget && !s->loaded->copied ? ACCEL__STREAM_PAGE_ROWS : ACCEL__PAGE_ROWS,
      .step_tokens = rows};
}

accel_status accel__run_limits_plan(const accel__limits_subject *s, uint32_t n,
                                    accel__run_limits *out) {
  accel__fit step[ACCEL__MAX_PARTS] = {0}; /* n is 1 or more */
  uint32_t rows = STEP_TOKENS;
  for (bool fit = false;; rows /= 2) {
    fit = true;
    for (uint32_t k = 0; k < n; k++) {
      const accel__fit_work work = {
          .batch = 1, .tokens = rows, .rows = rows, .loaded = s[k].loaded};
      ACCEL_TRY(accel__fit_subject_estimate(&s[k].of, &work, &step[k]));
      fit &= run_bytes(&step[k]) <= s[k].left / STEP_SHARE;
    }
    if (fit || rows <= LEAST_STEP_TOKENS) break;
  }
  uint64_t fewest = UINT64_MAX; /* sequences of one page */
  *out = limits_of(&s[0], &step[0], rows);
  for (uint32_t k = 0; k < n; k++) {
    const accel__run_limits one = limits_of(&s[k], &step[k], rows);
    const uint64_t each = accel__run_limits_need(&one, one.page_rows, 1);
    if (!each || one.state_bytes / each >= fewest) continue;
    fewest = one.state_bytes / each;
    *out = one;
  }
  return ACCEL_OK;
}

/* Of one device.  load: the estimate of the load. */
static accel_status plan_limits(const accel__plan_for *f, const accel__fit *load, uint64_t limit,
                                accel__run_limits *out) {
  const uint64_t weights = load->streaming.budget ? load->streaming.budget : load->estimate.weights;
  const accel__limits_subject one = {
      .of = {.ep = f->ep, .device = f->device, .precision = f->precision, .source = f->source},
      .loaded = &load->streaming,
      .left = limit > weights ? limit - weights : 0};
  *out = (accel__run_limits){0};
  if (!limit || !load->fits) return ACCEL_OK;
  if (generates(f->ep)) ACCEL_TRY(accel__run_limits_plan(&one, 1, out));
  out->run_bytes = one.left ? one.left : 1;
  return ACCEL_OK;
}

/* Of a model that streams and reads texts: leaves activations at most a part of the limit, so that a
 * pass over the weights serves many texts.  load: of one text of typical length; becomes the load
 * that leaves that room. */
static accel_status leave_room(const accel__plan_for *f, uint64_t given, uint64_t limit,
                               accel__fit *load) {
  if (!limit || !load->streaming.budget || !reads_texts(f->ep)) return ACCEL_OK;
  const uint64_t most = (limit - load->estimate.stream_least) / STEP_SHARE;
  const uint64_t least = load->streaming.least;
  uint32_t enough = LEAST_RUN_TOKENS, over = STEP_TOKENS + 1;
  for (uint32_t n = STEP_TOKENS; n > enough + enough / 16; n = (enough + over) / 2) {
    accel__fit some;
    ACCEL_TRY(estimate(f, &(accel__fit_work){.batch = 1, .tokens = n, .limit = given}, &some));
    const bool fits = some.fits && some.streaming.budget && run_bytes(&some) <= most;
    *(fits ? &enough : &over) = n;
    if (fits) *load = some;
  }
  load->streaming.least = least;
  return ACCEL_OK;
}

/* ---- plans ---- */

/* The work as it runs under the limits: rows of a step, sequences at once; *fits: there is memory
 * for the states of one. */
static accel__fit_work within(const accel__fit_work *work, const accel__run_limits *l,
                              uint32_t *at_once, bool *fits) {
  accel__fit_work out = *work;
  const uint32_t batch = work->batch ? work->batch : 1;
  *at_once = batch;
  *fits = true;
  if (!l->state_bytes || !work->tokens) return out;
  const uint64_t each = accel__run_limits_need(l, (work->tokens + work->more) / batch, 1),
                 most = l->state_bytes / (each ? each : 1);
  *fits = most > 0;
  if (most < batch) *at_once = most ? (uint32_t)most : 1;
  out.batch = *at_once;
  out.tokens = work->tokens / batch * *at_once;
  out.more = work->more / batch * *at_once;
  if (!out.rows || out.rows > l->step_tokens) out.rows = l->step_tokens;
  return out;
}

/* A placement over several devices as it is loaded. */
typedef struct placement {
  accel__arena arena; /* of the plan */
  accel__parts_plan plan;
  accel__fit load;
  accel__limits_subject subject[ACCEL__MAX_PARTS];
} placement;

/* limit: in place of the context's; 0: that one.  p->arena is to be freed after a failure, too. */
static accel_status plan_placement(const accel__plan_for *f, uint64_t limit, placement *p) {
  const accel__fit_work work = {.limit = limit};
  p->arena = (accel__arena){0};
  ACCEL_TRY(accel__parts_plan_make(f->ep, f->device, f->precision, f->source, &work, &p->arena,
                                   &p->plan, &p->load));
  for (uint32_t k = 0; k < p->plan.n; k++)
    p->subject[k] = (accel__limits_subject){.of = {.ep = f->ep,
                                                   .device = p->plan.device[k],
                                                   .precision = &p->plan.precision[k],
                                                   .source = f->source,
                                                   .part = &p->plan.part[k]},
                                            .loaded = &p->load.part[k].streaming};
  return ACCEL_OK;
}

/* A model as it is loaded: on one device, or over several. */
typedef struct loaded {
  const accel__plan_for *f;
  const accel__streaming *streaming;
  const placement *parts; /* NULL: on one */
} loaded;

static accel_status ask_loaded(const loaded *l, const accel__fit_work *work, accel__fit *out) {
  const accel__plan_for *f = l->f;
  accel__fit_work own = *work;
  own.loaded = l->streaming;
  if (!l->parts) return estimate(f, &own, out);
  const accel__parts_asked asked = {
      .ep = f->ep, .plan = &l->parts->plan, .source = f->source, .load = &l->parts->load};
  return accel__parts_ask(&asked, &own, out);
}

/* Texts of the work that run at once: as many as there is memory for. */
static accel_status admit_texts(const loaded *l, const accel__fit_work *work, accel__plan *out) {
  const uint32_t batch = work->batch ? work->batch : 1;
  const uint64_t each = work->tokens / batch;
  uint32_t enough = 0, over = batch + 1;
  accel__fit_work runs = *work;
  for (uint32_t n = batch; n > enough; n = (enough + over) / 2) {
    accel__fit some;
    runs.batch = n;
    runs.tokens = n * each;
    ACCEL_TRY(ask_loaded(l, &runs, &some));
    *(some.fits ? &enough : &over) = n;
    if (some.fits || n == 1) out->fit = some;
  }
  out->at_once = enough ? enough : 1;
  return ACCEL_OK;
}

/* The work under the limits, of which out->limits are the runs'. */
static accel_status plan_work(const loaded *l, const accel__fit_work *work, accel__plan *out) {
  bool states_fit;
  if (l->streaming->budget && reads_texts(l->f->ep) && !work->n_call)
    return admit_texts(l, work, out);
  const accel__fit_work runs = within(work, &out->limits, &out->at_once, &states_fit);
  ACCEL_TRY(ask_loaded(l, &runs, &out->fit));
  out->fit.fits &= states_fit;
  return ACCEL_OK;
}

/* What runs through all parts may take. */
static accel_status plan_parts_limits(placement *p, accel__run_limits *out) {
  uint64_t weights[ACCEL__MAX_PARTS];
  if (!p->plan.limit || !p->load.fits) return ACCEL_OK;
  for (uint32_t k = 0; k < p->plan.n; k++) weights[k] = p->load.part[k].weights;
  return accel__parts_run_limits(p->subject, weights, p->plan.n, p->plan.limit, out);
}

static accel_status plan_parts(const accel__plan_for *f, const accel__fit_work *work, bool asked,
                               accel__plan *out) {
  placement p;
  accel_status status = plan_placement(f, work->limit, &p);
  if (status == ACCEL_OK) {
    const loaded l = {f, &out->loaded, &p};
    out->fit = p.load;
    out->loaded = p.load.streaming;
    status = plan_parts_limits(&p, &out->limits);
    if (status == ACCEL_OK && asked && !p.plan.limit)
      status = estimate(f, work, &out->fit);
    else if (status == ACCEL_OK && asked && p.load.fits)
      status = plan_work(&l, work, out);
  }
  accel__arena_free(&p.arena);
  return status;
}

accel_status accel__plan_make(const accel__plan_for *f, const accel__fit_work *work,
                              accel__plan *out) {
  const bool asked =
      work->batch || work->tokens || work->side || work->n_call; /* else of the load */
  uint64_t limit;
  *out = (accel__plan){.at_once = work->batch ? work->batch : 1};
  if (f->device->parts) return plan_parts(f, work, asked, out);
  ACCEL_TRY(accel__context_memory_limit(f->ep->ctx, &limit));
  if (work->limit) limit = work->limit;
  ACCEL_TRY(estimate(f, &(accel__fit_work){.limit = work->limit}, &out->fit));
  ACCEL_TRY(leave_room(f, work->limit, limit, &out->fit));
  out->loaded = out->fit.streaming;
  ACCEL_TRY(plan_limits(f, &out->fit, limit, &out->limits));
  if (!asked) return ACCEL_OK;
  if (!limit) return estimate(f, work, &out->fit);
  if (!out->fit.fits) return ACCEL_OK; /* nothing is loaded, whatever the work */
  return plan_work(&(loaded){f, &out->loaded, NULL}, work, out);
}

/* Whether a run of so many rows, of sequences of at least `each` rows, takes no more than is left. */
static accel_status run_fits(const accel__limits_subject *s, uint32_t n, const accel__fit_run *run,
                             uint64_t rows, uint64_t each, bool *fits) {
  const uint64_t sequences = rows / each ? rows / each : 1;
  *fits = true;
  for (uint32_t k = 0; k < n && *fits; k++) {
    const accel__fit_work work = {
        .batch = sequences < UINT32_MAX ? (uint32_t)sequences : UINT32_MAX,
        .tokens = rows,
        .loaded = s[k].loaded,
        .run = run};
    accel__fit one;
    ACCEL_TRY(accel__fit_subject_estimate(&s[k].of, &work, &one));
    *fits = run_bytes(&one) <= s[k].left;
  }
  return ACCEL_OK;
}

/* Who runs a placed model, and what the limit leaves each, beside states while there are any. */
static uint32_t placed_subjects(accel_endpoint *ep, accel__limits_subject *out) {
  const accel__placed *c = &ep->placed;
  uint32_t n = 1;
  if (c->parts)
    n = accel__parts_subjects(c->parts, out);
  else
    out[0] = (accel__limits_subject){
        .of = {.ep = ep, .device = ep->placed_on, .precision = &c->precision, .source = c->source},
        .loaded = &c->streaming,
        .left = c->limits.run_bytes};
  for (uint32_t k = 0; k < n && ep->sessions; k++)
    out[k].left = c->parts ? out[k].left / STEP_SHARE : out[k].left - c->limits.state_bytes;
  return n;
}

accel_status accel__plan_rows(accel_endpoint *ep, const accel__fit_run *run, uint64_t each,
                              uint64_t *rows) {
  enum { FINE = 64 }; /* to that part of what fits */
  accel__limits_subject subject[ACCEL__MAX_PARTS];
  accel_status status = ACCEL_OK;
  if (accel__endpoint_limits(ep, NULL).run_bytes) accel__endpoint_release_parked(ep);
  pthread_rwlock_rdlock(&ep->in_use);
  const bool limited = ep->placed.limits.run_bytes != 0;
  const uint32_t n = limited ? placed_subjects(ep, subject) : 0;
  uint64_t enough = 0, over = *rows + 1;
  for (uint64_t at = *rows; status == ACCEL_OK && limited && at > enough + enough / FINE;
       at = enough + (over - enough) / 2) {
    bool fits;
    status = run_fits(subject, n, run, at, each, &fits);
    *(fits ? &enough : &over) = at;
  }
  if (limited) *rows = enough ? enough : 1;
  pthread_rwlock_unlock(&ep->in_use);
  return status;
}

uint64_t accel__plan_least_limit(const accel__plan_for *f, const accel__fit_work *work,
                                 uint64_t limit) {
  const uint64_t step = 1 << 20;
  accel__fit_work trial = *work;
  accel__plan plan;
  uint64_t below = limit, above = limit;
  do { /* twice as much, until it is enough or more than there is */
    below = above;
    trial.limit = above *= 2;
    if (above > UINT64_MAX / 4 || accel__plan_make(f, &trial, &plan) != ACCEL_OK) return 0;
    if (plan.fit.memory.budget && plan.fit.memory.budget < below) return 0;
  } while (!plan.fit.fits);
  while (above - below > step) {
    trial.limit = (below + (above - below) / 2 + step - 1) / step * step;
    if (trial.limit >= above || accel__plan_make(f, &trial, &plan) != ACCEL_OK) break;
    if (plan.fit.fits)
      above = trial.limit;
    else
      below = trial.limit;
  }
  return above;
}

/* ---- times ---- */

/* What the linears and experts of an entry read in one run of one row. */
typedef struct entry_work {
  uint64_t elements;    /* of their weights; of experts those that a row is routed to */
  uint64_t routed;      /* of these: of experts */
  double experts, each; /* of mixtures: how many there are; how many of them a row is routed to */
  int32_t weight;       /* the first linear's; -1: none */
} entry_work;

static uint64_t elements_of(const accel_plugin_weight *w) {
  uint64_t n = 1;
  for (uint32_t k = 0; k < w->rank; k++) n *= (uint64_t)w->dim[k];
  return n;
}

/* A row passes so many of all experts as its router chooses. */
static void add_experts(const accel_plugin_program *p, const accel_plugin_node *n,
                        entry_work *out) {
  enum { IDX = 1, W_UP = 3, W_DOWN = 4 };
  const accel_plugin_dim *k = &p->dim[p->tensor[n->in[IDX]].dim[1]];
  for (int i = W_UP; i <= W_DOWN; i++) {
    const int32_t w = p->tensor[n->in[i]].weight;
    if (w < 0 || p->weight[w].rank != 3 || k->op != ACCEL_PLUGIN_DIM_CONST) continue;
    out->experts = (double)p->weight[w].dim[0];
    out->each = (double)k->c;
    out->routed += (uint64_t)((double)elements_of(&p->weight[w]) * out->each / out->experts);
  }
}

static bool is_output(const accel_plugin_entry *e, int32_t tensor) {
  for (uint32_t i = 0; i < e->n_out; i++)
    if (e->out[i] == tensor) return true;
  return false;
}

/* Of several outputs that are made by a linear alone (scores of last tokens, of all) one is asked
 * for. */
static entry_work work_of(const accel_plugin_program *p, const accel_plugin_entry *e) {
  entry_work out = {.weight = -1};
  bool outputs = false;
  for (uint32_t i = 0; i < e->n_node; i++) {
    const accel_plugin_node *n = &p->node[e->node[i]];
    const bool result = is_output(e, n->out[0]);
    if (n->op == ACCEL_PLUGIN_OP_MOE) add_experts(p, n, &out);
    if (n->op != ACCEL_PLUGIN_OP_LINEAR || (result && outputs)) continue;
    outputs |= result;
    for (uint32_t k = 0; k < n->n_in; k++) {
      const int32_t w = n->in[k] < 0 ? -1 : p->tensor[n->in[k]].weight;
      if (w < 0 || p->weight[w].rank < 2) continue;
      out.elements += (uint64_t)p->weight[w].dim[0] * (uint64_t)p->weight[w].dim[1];
      if (out.weight < 0) out.weight = w;
    }
  }
  out.elements += out.routed;
  return out;
}

static uint64_t all_elements(const accel_plugin_program *p) {
  uint64_t all = 0;
  for (uint32_t i = 0; i < p->n_weight; i++) all += elements_of(&p->weight[i]);
  return all;
}

/* Of routers that like all experts alike: how many times as many experts so many rows use together
 * as one row does. */
static double experts_of(const entry_work *work, double rows) {
  if (!(work->each > 0) || work->each >= work->experts) return 1;
  return work->experts * (1 - pow(1 - work->each / work->experts, rows)) / work->each;
}

/* A program, or a part of one, as it is loaded. */
typedef struct timed {
  const accel__fit_subject *of;
  const accel__streaming *streaming;
  uint64_t weights; /* as the device keeps them */
} timed;

static const accel_plugin_program *program_of(const accel__fit_subject *s) {
  return s->part ? &s->part->program : accel__program_view(s->ep->model->program);
}

/* Its entry for decoding; -1: the part has no share in it. */
static int32_t decode_of(const accel__fit_subject *s) {
  const int32_t entry = accel__endpoint_entry(s->ep, "decode");
  return s->part ? s->part->entry[entry].index : entry;
}

/* What times follow from. */
typedef struct speeds {
  accel__disk disk;
  double reading; /* bytes a second of what is streamed: from the disk, or from host memory */
  accel__device_rate rate;
  uint32_t workers;
  entry_work work;
} speeds;

/* Bytes of weights in memory that so many rows pass. */
static double resident_bytes(const timed *t, const entry_work *work, double rows) {
  const uint64_t all = all_elements(program_of(t->of));
  const accel__streaming *s = t->streaming;
  const double times = experts_of(work, rows);
  if (s->budget)
    return (double)(s->resident - s->experts) + times * (double)(s->routed - s->missed);
  const double elements = (double)(work->elements - work->routed) + times * (double)work->routed;
  return all ? (double)t->weights * elements / (double)all : 0;
}

/* Bytes that so many rows together read. */
static double streamed_bytes(const timed *t, const entry_work *work, double rows) {
  const accel__streaming *s = t->streaming;
  return (double)(s->read - s->missed) + experts_of(work, rows) * (double)s->missed;
}

/* Checks of what is read take their part of the same processors. */
static double compute_seconds(const timed *t, const speeds *s, double rows) {
  const bool of_process = t->of->device->facts.type == ACCEL_PLUGIN_DEVICE_CPU;
  double seconds = resident_bytes(t, &s->work, rows) / s->rate.resident;
  if (t->streaming->budget)
    seconds += streamed_bytes(t, &s->work, rows) *
               (1 / s->rate.streamed + (of_process ? s->disk.check_seconds / s->workers : 0));
  return seconds + (rows - 1) * (double)s->work.elements * s->rate.row_seconds;
}

/* The load reads what stays, and what lies in host memory; each step of the prompts all that is
 * streamed. */
static double first_seconds(const timed *t, const accel__plan *plan, const accel__fit_work *work,
                            const speeds *s) {
  const uint64_t rows = larger(1, work->tokens / larger(1, work->batch)) * plan->at_once;
  const uint64_t most = plan->limits.step_tokens ? plan->limits.step_tokens : STEP_TOKENS;
  const accel__streaming *streaming = t->streaming;
  const uint64_t stays =
      streaming->budget ? streaming->resident - streaming->experts + streaming->host : t->weights;
  double seconds = (double)stays / s->disk.bytes_per_second;
  for (uint64_t done = 0; done < rows; done += most) {
    const double some = (double)(rows - done < most ? rows - done : most),
                 compute = compute_seconds(t, s, some),
                 reading = streamed_bytes(t, &s->work, some) / s->reading;
    seconds += compute > reading ? compute : reading;
  }
  return seconds;
}

/* Bytes a second of what a device gets from host memory, and some of it from the disk first: the
 * slower of the two, beside each other.  0: not known. */
static double through_both(const accel__streaming *s, const accel__disk *disk, double copying) {
  if (!(disk->bytes_per_second > 0) || !(copying > 0)) return 0;
  const double reading = (double)s->disk / disk->bytes_per_second,
               copies = (double)s->read / copying;
  return (double)s->read / (reading > copies ? reading : copies);
}

/* Of a program, or a part of one, on one device. */
static accel_status times_of(const timed *t, const accel__plan *plan, const accel__fit_work *work,
                             const accel__disk *disk, accel__plan_times *out) {
  accel_endpoint *ep = t->of->ep;
  const accel_plugin_program *p = program_of(t->of);
  const int32_t decode = decode_of(t->of);
  const bool streams = t->streaming->budget != 0, copied = t->streaming->copied;
  *out = (accel__plan_times){.disk = disk->bytes_per_second};
  speeds s = {.disk = *disk,
              .reading = disk->bytes_per_second,
              .work = decode < 0 ? (entry_work){.weight = -1} : work_of(p, &p->entry[decode]),
              .workers = accel__pool_width(ep->ctx->pool)};
  if (copied) out->copy = s.reading = accel__copy_speed(t->of->device);
  if (copied && t->streaming->disk) s.reading = through_both(t->streaming, disk, s.reading);
  if (streams && s.reading > 0)
    out->reading = streamed_bytes(t, &s.work, plan->at_once) / s.reading;
  ACCEL_TRY(accel__check_cancelled(ep->ctx));
  if (s.work.weight < 0) return ACCEL_OK;
  const uint32_t weight = (uint32_t)s.work.weight;
  const uint8_t row_dtype =
      streams && !copied ? accel__source_row_dtype(
                               t->of->source, t->of->part ? t->of->part->weight[weight] : weight)
                         : ACCEL_PLUGIN_NO_DTYPE;
  accel__device_rate_measure(t->of->device, t->of->precision->name, row_dtype,
                             streams && !copied ? t->streaming->staging : 0, ep->ctx->pool,
                             &ep->host, &s.rate);
  if (copied) s.rate.streamed = s.rate.resident; /* by the same kernels */
  if (!(s.rate.resident > 0) || (streams && !(s.rate.streamed > 0))) return ACCEL_OK;
  out->compute = compute_seconds(t, &s, plan->at_once);
  if (streams && !(s.reading > 0)) return ACCEL_OK;
  out->token = out->compute > out->reading ? out->compute : out->reading;
  if (s.rate.row_seconds > 0 && out->disk > 0) out->first = first_seconds(t, plan, work, &s);
  return ACCEL_OK;
}

/* Parts run one after the other, each at the longer of its own two times; what is not known of one
 * is not known of all. */
static accel_status times_of_parts(const accel__plan_for *f, const accel__plan *plan,
                                   const accel__fit_work *work, const accel__disk *disk,
                                   accel__plan_times *out) {
  placement p;
  bool compute = true, token = true, first = true;
  accel_status status = plan_placement(f, work->limit, &p);
  for (uint32_t k = 0; status == ACCEL_OK && k < p.plan.n; k++) {
    const accel__fit_part *part = &p.load.part[k];
    const timed t = {&p.subject[k].of, &part->streaming, part->weights};
    accel__plan_times one = {0};
    if (part->device->facts.type != ACCEL_PLUGIN_DEVICE_SOFTWARE)
      status = times_of(&t, plan, work, disk, &one);
    if (one.copy > 0) out->copy = one.copy;
    out->reading += one.reading;
    out->compute += one.compute;
    out->token += one.token;
    out->first += one.first;
    compute &= one.compute > 0;
    token &= one.token > 0;
    first &= one.first > 0;
  }
  accel__arena_free(&p.arena);
  if (!compute) out->compute = 0;
  if (!token) out->token = 0;
  if (!first) out->first = 0;
  return status;
}

accel_status accel__plan_times_of(const accel__plan_for *f, const accel__plan *plan,
                                  const accel__fit_work *work, accel__plan_times *out) {
  accel__disk disk = {0};
  *out = (accel__plan_times){0};
  if (!generates(f->ep) || !plan->fit.fits) return ACCEL_OK;
  if (f->ep->checkpoint)
    disk = accel__disk_speed(f->ep->checkpoint, accel__context_cache(f->ep->ctx, true));
  out->disk = disk.bytes_per_second;
  if (f->device->parts) return times_of_parts(f, plan, work, &disk, out);
  if (!f->device->plugin) return ACCEL_OK;
  const accel__fit_subject one = {
      .ep = f->ep, .device = f->device, .precision = f->precision, .source = f->source};
  const timed t = {&one, &plan->fit.streaming, plan->fit.estimate.weights};
  return times_of(&t, plan, work, &disk, out);
}

/* ---- refusals ---- */

/* The precision with the largest weights that fits under the same limit; NULL: none. */
static const char *other_precision(const accel__plan_for *f, const char *const *keep_fp32,
                                   uint32_t n_keep) {
  const char *best = NULL;
  uint64_t most = 0;
  for (uint32_t i = 0; i < accel__precision_count; i++) {
    accel__arena arena = {0};
    accel__source *source = NULL;
    accel_plugin_precision precision;
    accel__plan plan = {0};
    const char *name = accel__precision_names[i];
    accel_status status =
        !strcmp(name, f->precision->name)
            ? ACCEL_ERROR_PRECISION
            : accel__endpoint_precision(f->ep, name, keep_fp32, n_keep, &arena, &precision);
    if (status == ACCEL_OK) status = accel__ask_supports(f->ep, f->device, &precision);
    if (status == ACCEL_OK) status = accel__endpoint_source(f->ep, &precision, &arena, &source);
    const accel__plan_for other = {f->ep, f->device, &precision, source};
    if (status == ACCEL_OK) status = accel__plan_make(&other, &(accel__fit_work){0}, &plan);
    if (status == ACCEL_OK && plan.fit.fits && plan.fit.estimate.weights > most) {
      most = plan.fit.estimate.weights;
      best = name;
    }
    accel__source_free(&source);
    accel__arena_free(&arena);
  }
  accel__clear_error();
  return best;
}

accel_status accel__plan_check(const accel__plan_for *f, const accel__plan *plan,
                               const char *const *keep_fp32, uint32_t n_keep) {
  const accel__fit *fit = &plan->fit;
  const bool one = !fit->fits && !fit->n_part;
  return accel__fit_check(fit, f->device->info.name, f->precision->name,
                          one ? other_precision(f, keep_fp32, n_keep) : NULL);
}
