/* planner.c - plans over the estimates of fit.c; times over what was measured. */
#include "dispatch/planner.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/size.h"
#include "dispatch/copy_speed.h"
#include "dispatch/device_rate.h"
#include "dispatch/disk_speed.h"
#include "dispatch/parts.h"
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
  if (!limit || !load->fits || load->n_part) return ACCEL_OK;
  if (generates(f->ep)) ACCEL_TRY(accel__run_limits_plan(&one, 1, out));
  out->run_bytes = one.left ? one.left : 1;
  return ACCEL_OK;
}

/* Of a model that streams and reads texts: leaves activations at most a part of the limit, so that a
 * pass over the weights serves many texts.  load: of one text of typical length; becomes the load
 * that leaves that room. */
static accel_status leave_room(const accel__plan_for *f, uint64_t given, uint64_t limit,
                               accel__fit *load) {
  if (!limit || !load->streaming.budget || load->n_part || !reads_texts(f->ep)) return ACCEL_OK;
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

/* Texts of the work that run at once: as many as there is memory for. */
static accel_status admit_texts(const accel__plan_for *f, const accel__fit_work *work,
                                accel__plan *out) {
  const uint32_t batch = work->batch ? work->batch : 1;
  const uint64_t each = work->tokens / batch;
  uint32_t enough = 0, over = batch + 1;
  accel__fit_work runs = *work;
  runs.loaded = &out->loaded;
  for (uint32_t n = batch; n > enough; n = (enough + over) / 2) {
    accel__fit some;
    runs.batch = n;
    runs.tokens = n * each;
    ACCEL_TRY(estimate(f, &runs, &some));
    *(some.fits ? &enough : &over) = n;
    if (some.fits || n == 1) out->fit = some;
  }
  out->at_once = enough ? enough : 1;
  return ACCEL_OK;
}

accel_status accel__plan_make(const accel__plan_for *f, const accel__fit_work *work,
                              accel__plan *out) {
  uint64_t limit;
  *out = (accel__plan){.at_once = work->batch ? work->batch : 1};
  ACCEL_TRY(accel__context_memory_limit(f->ep->ctx, &limit));
  if (work->limit) limit = work->limit;
  ACCEL_TRY(estimate(f, &(accel__fit_work){.limit = work->limit}, &out->fit));
  ACCEL_TRY(leave_room(f, work->limit, limit, &out->fit));
  out->loaded = out->fit.streaming;
  ACCEL_TRY(plan_limits(f, &out->fit, limit, &out->limits));
  if (!work->batch && !work->tokens && !work->side) return ACCEL_OK; /* of the load */
  if (!limit) return estimate(f, work, &out->fit);
  if (!out->fit.fits) return ACCEL_OK; /* nothing is loaded, whatever the work */
  if (out->loaded.budget && reads_texts(f->ep)) return admit_texts(f, work, out);
  bool states_fit;
  accel__fit_work runs = within(work, &out->limits, &out->at_once, &states_fit);
  runs.loaded = &out->loaded;
  ACCEL_TRY(estimate(f, &runs, &out->fit));
  out->fit.fits &= states_fit;
  return ACCEL_OK;
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

static const accel_plugin_entry *entry_named(const accel_endpoint *ep, const char *name) {
  const int32_t i = accel__endpoint_entry(ep, name);
  return i < 0 ? NULL : &accel__program_view(ep->model->program)->entry[i];
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

/* Bytes of weights in memory that so many rows pass. */
static double resident_bytes(const accel_endpoint *ep, const accel__fit *fit,
                             const entry_work *work, double rows) {
  const uint64_t all = all_elements(accel__program_view(ep->model->program));
  const accel__streaming *s = &fit->streaming;
  const double times = experts_of(work, rows);
  if (s->budget)
    return (double)(s->resident - s->experts) + times * (double)(s->routed - s->missed);
  const double elements = (double)(work->elements - work->routed) + times * (double)work->routed;
  return all ? (double)fit->estimate.weights * elements / (double)all : 0;
}

/* Bytes that so many rows together read. */
static double streamed_bytes(const accel__fit *fit, const entry_work *work, double rows) {
  const accel__streaming *s = &fit->streaming;
  return (double)(s->read - s->missed) + experts_of(work, rows) * (double)s->missed;
}

/* What times follow from. */
typedef struct speeds {
  accel__disk disk;
  double reading; /* bytes a second of what is streamed: from the disk, or from host memory */
  accel__device_rate rate;
  uint32_t workers;
  entry_work work;
} speeds;

/* Checks of what is read take their part of the same processors. */
static double compute_seconds(const accel_endpoint *ep, const accel__fit *fit, const speeds *s,
                              double rows) {
  double seconds = resident_bytes(ep, fit, &s->work, rows) / s->rate.resident;
  if (fit->streaming.budget)
    seconds += streamed_bytes(fit, &s->work, rows) *
               (1 / s->rate.streamed + (fit->of_process ? s->disk.check_seconds / s->workers : 0));
  return seconds + (rows - 1) * (double)s->work.elements * s->rate.row_seconds;
}

/* The load reads what stays; each step of the prompts all that is streamed. */
static double first_seconds(const accel__plan_for *f, const accel__plan *plan,
                            const accel__fit_work *work, const speeds *s) {
  const accel__fit *fit = &plan->fit;
  const uint64_t rows = larger(1, work->tokens / larger(1, work->batch)) * plan->at_once;
  const uint64_t most = plan->limits.step_tokens ? plan->limits.step_tokens : STEP_TOKENS;
  const uint64_t stays = fit->streaming.budget ? fit->streaming.resident - fit->streaming.experts
                                               : fit->estimate.weights;
  double seconds = (double)stays / s->disk.bytes_per_second;
  for (uint64_t done = 0; done < rows; done += most) {
    const double some = (double)(rows - done < most ? rows - done : most),
                 compute = compute_seconds(f->ep, fit, s, some),
                 reading = streamed_bytes(fit, &s->work, some) / s->reading;
    seconds += compute > reading ? compute : reading;
  }
  return seconds;
}

accel_status accel__plan_times_of(const accel__plan_for *f, const accel__plan *plan,
                                  const accel__fit_work *work, accel__plan_times *out) {
  const accel_plugin_program *p = accel__program_view(f->ep->model->program);
  const accel_plugin_entry *decode = entry_named(f->ep, "decode");
  const accel__fit *fit = &plan->fit;
  const bool streams = fit->streaming.budget != 0;
  *out = (accel__plan_times){0};
  if (!decode || !fit->fits || !f->device->plugin || f->device->parts) return ACCEL_OK;
  speeds s = {.work = work_of(p, decode), .workers = accel__pool_width(f->ep->ctx->pool)};
  if (f->ep->checkpoint)
    s.disk = accel__disk_speed(f->ep->checkpoint, accel__context_cache(f->ep->ctx, true));
  out->disk = s.reading = s.disk.bytes_per_second;
  if (fit->streaming.copied) out->copy = s.reading = accel__copy_speed(f->device);
  if (streams && s.reading > 0)
    out->reading = streamed_bytes(fit, &s.work, plan->at_once) / s.reading;
  ACCEL_TRY(accel__check_cancelled(f->ep->ctx));
  if (s.work.weight < 0) return ACCEL_OK;
  const uint8_t row_dtype = streams && !fit->streaming.copied
                                ? accel__source_row_dtype(f->source, (uint32_t)s.work.weight)
                                : ACCEL_PLUGIN_NO_DTYPE;
  accel__device_rate_measure(f->device, f->precision->name, row_dtype, fit->streaming.staging,
                             f->ep->ctx->pool, &f->ep->host, &s.rate);
  if (fit->streaming.copied) s.rate.streamed = s.rate.resident; /* by the same kernels */
  if (!(s.rate.resident > 0) || (streams && !(s.rate.streamed > 0))) return ACCEL_OK;
  out->compute = compute_seconds(f->ep, fit, &s, plan->at_once);
  if (streams && !(s.reading > 0)) return ACCEL_OK;
  out->token = out->compute > out->reading ? out->compute : out->reading;
  if (s.rate.row_seconds > 0 && out->disk > 0) out->first = first_seconds(f, plan, work, &s);
  return ACCEL_OK;
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
