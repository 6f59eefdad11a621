/* fit_report.c - accel_fit: every device and precision asked what a model would take. */
#include "verify/fit_report.h"
#include "dispatch/planner.h"
#include "dispatch/step_plan.h"
#include "dispatch/work_rate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "dispatch/precision.h"
#include "dispatch/services.h"
#include "dispatch/stored.h"
#include "verify/support_matrix.h"
#include "tasks/image_plan.h"
#include "tasks/open.h"
#include "processing/processor.h"
#include "generate/stepper.h"
#include "processing/result.h"
#include "models/model_build.h"

typedef struct asking {
  accel_endpoint *ep; /* not placed */
  const accel__registry_model *entry;
  accel_fit_report *report;
  accel__arena *arena; /* of the report */
  /* pixels or samples that are typical, where seq counts these and not tokens; else 0 */
  uint32_t usual;
  uint32_t new_tokens;
  uint64_t tables;             /* bytes of the tokenizer */
  bool times;                  /* they are wanted */
  accel__image_plan *pictures; /* of a pipeline that makes them; else NULL */
} asking;

static const char *keep(asking *a, const char *text) {
  const char *copy = accel__arena_string(a->arena, text);
  return copy ? copy : "";
}

/* ---- how long pictures take ---- */

typedef struct run_time {
  const accel__work_rate *rate;
  double seconds;
  bool unknown;
} run_time;

static void add_step(void *user, const accel_profile_step *step) {
  run_time *t = user;
  const double seconds = accel__work_seconds(t->rate, step);
  t->seconds += seconds;
  t->unknown |= !(seconds > 0) && step->flop > 0;
}

/* Seconds of each run of a call for pictures, by rates of the device that are measured here. */
static accel_status time_runs(asking *a, const accel__plan_for *to, accel_fit_run *run) {
  const accel__image_plan *p = a->pictures;
  accel__work_rate rate;
  if (!to->device->plugin || to->device->parts) return ACCEL_OK;
  accel__work_rate_measure(to->device, to->precision->name, a->ep->ctx->pool, &a->ep->host, &rate);
  for (uint32_t i = 0; i < p->n; i++) {
    const accel__planned_run planned = {.entry = run[i].entry,
                                        .output = run[i].output,
                                        .work = {.batch = a->report->batch},
                                        .call = &p->call[i]};
    run_time t = {.rate = &rate};
    const accel_status status =
        accel__plan_steps(a->ep, to->device, to->precision, &planned, add_step, &t);
    if (status == ACCEL_ERROR_OUT_OF_MEMORY) return status;
    if (status == ACCEL_OK && !t.unknown) run[i].seconds = t.seconds;
    ACCEL_TRY(accel__check_cancelled(a->ep->ctx));
  }
  accel__clear_error(); /* of a plugin that plans no steps */
  return ACCEL_OK;
}

/* Foretelling how slow a device is that is one in software would take minutes. */
static bool times_wanted(const asking *a, const accel__plan_for *to) {
  return a->times && to->device->facts.type != ACCEL_PLUGIN_DEVICE_SOFTWARE;
}

/* ---- one record ---- */

static accel__fit_work work_of(const asking *a, uint32_t batch, uint32_t seq) {
  const bool generates = accel__model_entry_of(a->ep->model, "decode") != NULL;
  if (a->pictures)
    return (accel__fit_work){.call = a->pictures->call,
                             .n_call = a->pictures->n,
                             .host = a->pictures->host,
                             .tokens = a->pictures->batch[0].tokens,
                             .tables = a->tables};
  return (accel__fit_work){.batch = batch,
                           .tokens = a->usual ? 0 : (uint64_t)batch * seq,
                           .side = a->usual && seq != a->usual ? seq : 0,
                           .rows = generates ? ACCEL__STEP_TOKENS : 0,
                           .tables = a->tables,
                           .more = generates ? (uint64_t)batch * a->new_tokens : 0};
}

static accel_status write_parts(asking *a, const accel__fit *f, accel_fit_record *r) {
  accel_fit_part *part = accel__arena_array(a->arena, f->n_part + 1u, sizeof *part);
  if (!part) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < f->n_part; i++)
    part[i] = (accel_fit_part){.device = keep(a, f->part[i].device->info.name),
                               .first_layer = f->part[i].first_layer,
                               .last_layer = f->part[i].last_layer,
                               .fits = f->part[i].fits,
                               .streams = f->part[i].streaming.budget != 0,
                               .weights = f->part[i].weights,
                               .total = f->part[i].total,
                               .available = f->part[i].limit};
  r->n_part = f->n_part;
  r->part = f->n_part ? part : NULL;
  return ACCEL_OK;
}

static accel_status write_runs(asking *a, const accel__plan_for *to, const accel__fit *f,
                               accel_fit_record *r) {
  const accel__image_plan *p = a->pictures;
  if (!p) return ACCEL_OK;
  accel_fit_run *run = accel__arena_array(a->arena, p->n + 1u, sizeof *run);
  if (!run) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < p->n; i++) {
    const accel__model_entry *e = &a->ep->model->entries[p->call[i].run.entry];
    run[i] = (accel_fit_run){.entry = keep(a, e->name),
                             .output = keep(a, e->outputs[p->output[i]].name),
                             .times = p->times[i],
                             .scratch = f->call_scratch[i]};
  }
  if (times_wanted(a, to) && f->fits) ACCEL_TRY(time_runs(a, to, run));
  r->n_run = p->n;
  r->run = run;
  return ACCEL_OK;
}

static void write_numbers(const accel__plan *plan, uint64_t process, accel_fit_record *r) {
  const accel__fit *f = &plan->fit;
  r->at_once = plan->at_once;
  r->fits = f->fits;
  r->weights = f->estimate.weights;
  r->weights_in_file = f->estimate.in_file;
  r->state_per_token = f->estimate.state_per_token;
  r->state = f->state;
  r->scratch = f->estimate.scratch;
  r->total = f->total;
  r->peak = f->peak;
  r->memory = f->memory.total;
  r->available = f->limit;
  r->tokenizer = f->tables;
  r->resident = f->of_process && process ? process + f->total : 0;
  r->streams = f->fits && f->streaming.budget;
  r->stream_least = f->streaming.least;
  r->stream_resident = f->streaming.resident;
  r->stream_staging = f->streaming.staging;
  r->stream_read = f->streaming.read;
  r->stream_host = f->streaming.host;
  r->stream_disk = f->streaming.disk;
}

/* What would fit, one behind the other. */
static void add_advice(asking *a, accel_fit_record *r, const char *text) {
  char *both = accel__arena_printf(a->arena, "%s%s%s", r->advice, *r->advice ? ", or " : "", text);
  if (both) r->advice = both;
}

/* The largest batch, then length, that fits, halving; none when the weights alone are too much. */
static void advise_less(asking *a, const accel__plan_for *to, accel_fit_record *r) {
  uint32_t batch = a->report->batch, seq = a->report->seq;
  char text[128];
  accel__plan plan = {0};
  while (!plan.fit.fits && batch * (uint64_t)seq > 1) {
    if (batch > 1)
      batch /= 2;
    else
      seq /= 2;
    accel__fit_work work = work_of(a, batch, seq);
    if (accel__plan_make(to, &work, &plan) != ACCEL_OK) return;
  }
  snprintf(text, sizeof text, "batch %u of %u %s fits", batch, seq, a->report->unit);
  if (plan.fit.fits) add_advice(a, r, text);
}

/* The smallest memory limit that is enough for the work, where one was given. */
static void advise_limit(asking *a, const accel__plan_for *to, const accel__fit_work *work,
                         accel_fit_record *r) {
  uint64_t limit;
  char text[64];
  if (accel__context_memory_limit(a->ep->ctx, &limit) != ACCEL_OK || !limit) return;
  const uint64_t bytes = accel__plan_least_limit(to, work, limit);
  if (!bytes) return;
  snprintf(text, sizeof text, "--memory %lluM",
           (unsigned long long)((bytes + (1 << 20) - 1) >> 20));
  add_advice(a, r, text);
}

static accel_status write_times(const accel__plan_for *to, const accel__plan *plan,
                                const accel__fit_work *work, accel_fit_record *r) {
  accel__plan_times times;
  ACCEL_TRY(accel__plan_times_of(to, plan, work, &times));
  r->disk_bytes_per_second = times.disk;
  r->copy_bytes_per_second = times.copy;
  r->compute_seconds = times.compute;
  r->seconds_per_token = times.token;
  r->seconds_to_first = times.first;
  return ACCEL_OK;
}

/* A record of a precision that the device runs. */
static accel_status plan_one(asking *a, const accel__plan_for *to, accel_fit_record *r) {
  accel__plan plan;
  accel__fit_work work = work_of(a, a->report->batch, a->report->seq);
  ACCEL_TRY(accel__plan_make(to, &work, &plan));
  write_numbers(&plan, a->report->process, r);
  ACCEL_TRY(write_parts(a, &plan.fit, r));
  ACCEL_TRY(write_runs(a, to, &plan.fit, r));
  if (!plan.fit.fits) {
    if (*plan.fit.not_kept) add_advice(a, r, plan.fit.not_kept);
    advise_limit(a, to, &work, r);
    if (!a->pictures) advise_less(a, to, r);
  }
  return times_wanted(a, to) ? write_times(to, &plan, &work, r) : ACCEL_OK;
}

static accel_status ask(asking *a, const accel__device *device, const char *name,
                        accel_fit_record *r) {
  accel__arena arena = {0};
  accel_plugin_precision precision;
  accel__source *source = NULL;
  *r = (accel_fit_record){
      .device = keep(a, device->info.name), .precision = keep(a, name), .fits = -1, .advice = ""};
  const char *const *wide = NULL;
  uint32_t n_wide = 0;
  accel_status status = accel__kept_weights(a->ep, a->entry, &wide, &n_wide);
  if (status == ACCEL_OK)
    status = accel__endpoint_precision(a->ep, name, wide, n_wide, &arena, &precision);
  if (status == ACCEL_OK) status = accel__ask_supports(a->ep, device, &precision);
  if (status == ACCEL_OK) status = accel__endpoint_source(a->ep, &precision, &arena, &source);
  const accel__plan_for to = {a->ep, device, &precision, source};
  if (status == ACCEL_OK) status = plan_one(a, &to, r);
  r->reason = status == ACCEL_OK ? "" : keep(a, accel__message());
  accel__source_free(&source);
  accel__arena_free(&arena);
  if (status == ACCEL_ERROR_OUT_OF_MEMORY) return status;
  accel__clear_error();
  return ACCEL_OK;
}

/* ---- the report ---- */

/* What does not fit even with one token: a smaller precision of the same device that does, or
 * another device. */
static void advise_other(asking *a, accel_fit_record *r) {
  const accel_fit_record *all = a->report->record, *best = NULL;
  for (uint32_t i = 0; i < a->report->n; i++) {
    if (all[i].fits != 1) continue;
    bool same = !strcmp(all[i].device, r->device),
         best_same = best && !strcmp(best->device, r->device);
    if (!best || (same && !best_same) || (same == best_same && all[i].weights > best->weights))
      best = &all[i];
  }
  char text[128];
  if (best) {
    snprintf(text, sizeof text, "%s on %s fits", best->precision, best->device);
    add_advice(a, r, text);
  }
  if (!*r->advice) r->advice = "a device with more memory, or a smaller model";
}

static accel_status devices_of(accel *ctx, const char *wanted, accel__choice *out) {
  accel__hardware *hardware;
  if (!wanted) return accel__all_devices(ctx, out);
  ACCEL_TRY(accel__context_hardware(ctx, &hardware));
  return accel__hardware_choose(hardware, wanted, out);
}

static accel_status ask_all(asking *a, const accel__choice *devices, const char *only) {
  uint32_t n = only ? 1 : accel__precision_count;
  accel_fit_record *record =
      accel__arena_array(a->arena, (size_t)devices->n * n + 1, sizeof *record);
  if (!record) return ACCEL_ERROR_OUT_OF_MEMORY;
  a->report->record = record;
  for (uint32_t d = 0; d < devices->n; d++)
    for (uint32_t k = 0; k < n; k++) {
      ACCEL_TRY(ask(a, devices->device[d], only ? only : accel__precision_names[k],
                    &record[a->report->n++]));
      ACCEL_TRY(accel__check_cancelled(a->ep->ctx));
    }
  for (uint32_t i = 0; i < a->report->n; i++)
    if (!record[i].fits) advise_other(a, &record[i]);
  return ACCEL_OK;
}

accel_status accel__open_shape(accel *ctx, const char *model, const char *architecture,
                               const char *task, const accel__registry_model **entry,
                               accel_endpoint **out) {
  accel_init_params how = {
      .size = sizeof how, .device = "cpu", .architecture = architecture, .task = task};
  accel_status status = accel__open_dry(ctx, model, &how, entry, out);
  if (status != ACCEL_ERROR_NOT_FOUND) return status;
  how.random_weights = 1;
  accel__clear_error();
  return accel__open_dry(ctx, model, &how, entry, out);
}

/* With the tokenizer there, so that what reading it leaves in memory is counted, too. */
static accel_status open_dry(accel *ctx, const char *model, const accel_fit_params *params,
                             asking *a) {
  ACCEL_TRY(accel__open_shape(ctx, model, params->architecture, params->task, &a->entry, &a->ep));
  /* as a load does: entries of the cache belong to the weights */
  accel__program_identify(a->ep->model->program, accel__weights_identity(a->ep));
  const accel__processor *processor = accel__processor_for(a->ep);
  const uint64_t resident = accel__resident_bytes();
  a->tables = processor->tokenizer ? accel__tokenizer_bytes(processor->tokenizer) : 0;
  a->report->process = resident > a->tables ? resident - a->tables : 0;
  return ACCEL_OK;
}

/* What seq counts, and how many where nothing is said: tokens of a model that takes text, else what
 * its one input has. */
static void describe_seq(asking *a, const accel_plugin_program *p, uint32_t given) {
  static const struct {
    const char *name, *unit;
    uint32_t rank, dim;
  } others[] = {{"pixel_values", "pixels a side", 4, 2}, {"pixel_values", "pixels a side", 5, 3},
                {"sample", "latents a side", 4, 2},      {"hidden_states", "latents a side", 4, 2},
                {"input_values", "samples", 2, 1},       {"input_values", "frames", 3, 1}};
  const accel__model *m = a->ep->model;
  accel_fit_report *r = a->report;
  r->unit = "tokens";
  r->seq = given                                            ? given
           : m->max_positions > 0 && m->max_positions < 128 ? (uint32_t)m->max_positions
                                                            : 128;
  for (uint32_t i = 0; i < m->n_inputs; i++)
    if (m->inputs[i].kind == ACCEL__INPUT_TOKENS) return;
  for (uint32_t i = 0; i < m->n_inputs; i++)
    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
      const accel_plugin_tensor *t = &p->tensor[m->inputs[i].tensor];
      if (strcmp(m->inputs[i].name, others[k].name) || t->rank != others[k].rank) continue;
      const accel_plugin_dim *d = &p->dim[t->dim[others[k].dim]];
      const bool fixed = d->op == ACCEL_PLUGIN_DIM_CONST;
      a->usual = fixed ? (uint32_t)d->c : (uint32_t)p->symbol[d->a].typical;
      /* an autoencoder's sample is a picture, a UNet's is latents and goes with a time */
      r->unit =
          !strcmp(others[k].name, "sample") && accel__entry_input(&m->entries[0], "timestep") < 0
              ? "pixels a side"
              : others[k].unit;
      r->seq = given && !fixed ? given : a->usual;
    }
}

/* A pipeline that makes pictures: the runs that a call makes. */
static accel_status describe_pictures(asking *a, const accel_fit_params *params) {
  accel_fit_report *r = a->report;
  const accel__image_size size = {.width = params->width ? params->width : params->seq,
                                  .height = params->height ? params->height : params->seq,
                                  .pictures = params->batch,
                                  .steps = params->steps,
                                  .tiled = params->vae_tiling != 0};
  a->pictures = accel__arena_alloc(a->arena, sizeof *a->pictures);
  if (!a->pictures) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__image_plan_make(a->ep, &size, a->pictures));
  r->batch = a->pictures->pictures;
  r->unit = "pixels";
  r->seq = a->pictures->width;
  r->height = a->pictures->height;
  r->steps = a->pictures->steps;
  return ACCEL_OK;
}

static accel_status describe(asking *a, const accel_fit_params *params) {
  const accel_plugin_program *p = accel__program_view(a->ep->model->program);
  accel_fit_report *r = a->report;
  r->model = keep(a, a->ep->name);
  r->architecture = keep(a, a->ep->model->architecture);
  r->batch = params->batch ? params->batch : 1;
  describe_seq(a, p, params->seq);
  for (uint32_t i = 0; i < p->n_weight; i++) {
    uint64_t n = 1;
    for (uint32_t k = 0; k < p->weight[i].rank; k++) n *= (uint64_t)p->weight[i].dim[k];
    r->parameters += n;
  }
  if (accel__image_makes(a->ep)) return describe_pictures(a, params);
  if (!params->width && !params->height && !params->steps && !params->vae_tiling) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_ARGUMENT,
                     "%s: width, height, steps and vae_tiling are of pipelines that make pictures",
                     r->model);
}

accel_status accel__fit_report(accel *ctx, const char *model, const accel_fit_params *params,
                               accel_fit_report **out) {
  asking a = {0};
  accel__choice devices = {0};
  const char *only = params->precision ? accel__registry_precision_name(params->precision) : NULL;
  if (params->precision && !only) return accel__precision_unknown(params->precision, "");
  a.report = accel__task_result(sizeof *a.report);
  if (!a.report) return ACCEL_ERROR_OUT_OF_MEMORY;
  a.arena = accel__task_arena(a.report);
  a.new_tokens = params->new_tokens;
  a.times = params->times != 0;
  /* before other devices' drivers are in the process's memory */
  accel_status status = open_dry(ctx, model, params, &a);
  if (status == ACCEL_OK) status = devices_of(ctx, params->device, &devices);
  if (status == ACCEL_OK) {
    status = describe(&a, params);
    if (status == ACCEL_OK) status = ask_all(&a, &devices, only);
  }
  accel__endpoint_free(a.ep);
  accel__choice_free(&devices);
  if (status == ACCEL_OK)
    *out = a.report;
  else
    accel__task_free(a.report);
  return status;
}
