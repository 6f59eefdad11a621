/* place.c - choosing device and precision for a model: candidates in order, each asked (`supports`)
 * and tried (`init`); the first that serves wins, and the placement report says why the others did
 * not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "dispatch/choose.h"
#include "dispatch/copy_speed.h"
#include "dispatch/endpoint.h"
#include "dispatch/parts.h"
#include "dispatch/planner.h"
#include "dispatch/plugin_init.h"
#include "dispatch/precision.h"
#include "dispatch/precision_profile.h"
#include "dispatch/ranks.h"
#include "dispatch/run_scratch.h"
#include "dispatch/services.h"
#include "dispatch/stored.h"
#include "models/model_build.h"
#include "text/chat_template.h"

/* ---- one candidate ---- */

/* What a load with streaming took. */
static void note_load(accel__placed *c, uint64_t ns) {
  accel__range_counters n = {0};
  if (c->rows) accel__row_stream_count(c->rows, &n);
  if (c->parts) accel__parts_count_rows(c->parts, &n);
  c->streaming.load.bytes = n.bytes;
  c->streaming.load.wait_ns = n.wait_ns;
  c->streaming.load.ns = ns;
}

/* A choice goes on to the next candidate, which may have room, before weights are copied in each
 * run. */
static accel_status check_copying(const accel__place_request *request, const accel__plan *plan) {
  const char *device = request->device, *precision = request->precision;
  const bool chosen = !device || !strcmp(device, "auto") || strchr(device, ',') ||
                      (precision && !strcmp(precision, "auto"));
  if (!plan->loaded.copied || !chosen) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_DOES_NOT_FIT,
                     "%.1f MiB of weights would be copied from host memory in each run: name the "
                     "device alone, and the precision, to have that",
                     (double)plan->loaded.read / (1 << 20));
}

/* Whoever else has a say lets the candidate in. */
static accel_status admit(const accel__plan_for *to, const accel__admission *admission) {
  accel__plan plan;
  bool again = admission != NULL;
  while (again) {
    again = false;
    ACCEL_TRY(accel__plan_make(to, &(accel__fit_work){0}, &plan));
    ACCEL_TRY(admission->ask(admission->user, to->device, &plan.fit, &again));
  }
  return ACCEL_OK;
}

/* ep->placed is the candidate, with device and precision: makes the weights' source and, when the
 * memory is there, the plugin's endpoint. */
static accel_status load(accel_endpoint *ep, accel__device *device,
                         const accel__place_request *request) {
  accel__placed *c = &ep->placed;
  accel__plan plan;
  ACCEL_TRY(accel__ask_supports(ep, device, &c->precision));
  ACCEL_TRY(accel__endpoint_source(ep, &c->precision, &ep->arena, &c->source));
  const accel__plan_for to = {ep, device, &c->precision, c->source};
  ACCEL_TRY(admit(&to, request->admission));
  const uint64_t begin = accel__now_ns();
  ACCEL_TRY(accel__plan_make(&to, &(accel__fit_work){0}, &plan));
  ACCEL_TRY(accel__plan_check(&to, &plan, request->keep_fp32, request->n_keep));
  ACCEL_TRY(check_copying(request, &plan));
  if (device->parts && ep->ctx->ranks)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "ranks have one device each: name one of '%s'",
                       device->info.name);
  if (device->parts) {
    ACCEL_TRY(accel__parts_load(ep, device));
  } else {
    c->streaming = plan.loaded;
    c->limits = plan.limits;
    c->weight_bytes = plan.fit.estimate.weights;
    ACCEL_TRY(accel__plugin_init(&ep->host_self, &ep->host, device));
  }
  if (c->streaming.budget) note_load(c, accel__now_ns() - begin);
  if (!ep->ctx->ranks) return ACCEL_OK;
  const accel_status status = accel__ranks_wrap(ep);
  if (status != ACCEL_OK) c->plugin->cleanup(c->handle, &ep->host);
  return status;
}

/* The model on `device` at `precision` in *out; ep->placed stays what it was.  While the plugin
 * loads it is the candidate, for the services that the host gives it (weights, cache) look there. */
static accel_status try_candidate(accel_endpoint *ep, accel__device *device, const char *precision,
                                  const accel__place_request *request, accel__placed *out) {
  const accel__placed before = ep->placed;
  ep->placed = (accel__placed){
      .plugin = device->plugin, .device = device->index, .device_info = device->facts};
  accel_status status = accel__endpoint_precision(
      ep, precision, request->keep_fp32, request->n_keep, &ep->arena, &ep->placed.precision);
  if (status == ACCEL_OK) status = load(ep, device, request);
  if (status != ACCEL_OK) {
    accel__row_stream_close(&ep->placed.rows);
    accel__source_free(&ep->placed.source);
  }
  *out = ep->placed;
  ep->placed = before;
  return status;
}

/* ---- the report ---- */

typedef struct reasons {
  const char *text[64];
  uint32_t n;
} reasons;

static void add_reason(accel_endpoint *ep, reasons *why, const char *text) {
  const char *copy = why->n < 64 ? accel__arena_string(&ep->arena, text) : NULL;
  if (copy) why->text[why->n++] = copy;
}

/* How a quantised checkpoint is run: in its formats, with what that means, or in others. */
static void add_import_reasons(accel_endpoint *ep, const char *precision, reasons *why) {
  const char *const *notes;
  if (!ep->import) return;
  if (strcmp(precision, accel__stored_precision(ep))) {
    char *line = accel__arena_printf(
        &ep->arena, "the checkpoint is quantised (%s): its weights are converted to %s",
        accel__stored_precision(ep), precision);
    if (line) add_reason(ep, why, line);
    return;
  }
  uint32_t n = accel__import_notes(ep->import, &notes);
  for (uint32_t i = 0; i < n; i++) add_reason(ep, why, notes[i]);
}

/* That weights come from host memory, with what a run takes at least for that. */
static void add_copying_reason(accel_endpoint *ep, const accel__device *device, reasons *why) {
  const accel__streaming *s = &ep->placed.streaming;
  const double mb = 1.0 / (1 << 20), speed = accel__copy_speed(device);
  char rate[96] = "";
  if (speed > 0)
    snprintf(rate, sizeof rate, ", which takes %.4f s at the measured %.2f GB/s",
             (double)s->read / speed, 1e-9 * speed);
  char files[64] = "";
  if (s->disk)
    snprintf(files, sizeof files, " (%.1f MiB of them read from files)", mb * (double)s->disk);
  char *line = accel__arena_printf(
      &ep->arena,
      "streams from host memory: %.1f MiB of weights stay on the device, %.1f MiB lie in host "
      "memory, %.1f MiB are copied in each run%s through %.1f MiB%s; from %.1f MiB on it runs",
      mb * (double)s->resident, mb * (double)s->host, mb * (double)s->read, files,
      mb * (double)s->staging, s->disk ? "" : rate, mb * (double)s->least);
  if (line) add_reason(ep, why, line);
}

/* That weights do not all stay in memory, with the numbers. */
static void add_streaming_reason(accel_endpoint *ep, const accel__device *device, reasons *why) {
  const accel__streaming *s = &ep->placed.streaming;
  const double mb = 1.0 / (1 << 20);
  if (!s->budget) return;
  if (s->copied && !device->parts) {
    add_copying_reason(ep, device, why);
    return;
  }
  char *line = accel__arena_printf(
      &ep->arena,
      "streamed: %.1f MiB of weights stay in memory, %.1f MiB are %s in each run, "
      "through %.1f MiB; from %.1f MiB on it runs",
      mb * (double)s->resident, mb * (double)s->read,
      s->copied ? "read from files or copied from host memory" : "read from files",
      mb * (double)s->staging, mb * (double)s->least);
  if (line) add_reason(ep, why, line);
}

/* The profile's lines of the report, behind the others; `label` gets its kinds. */
static accel_status report_profile(accel_endpoint *ep) {
  accel_placement_report *r = &ep->placement;
  accel__buffer kinds = {0};
  if (!ep->precision_profile) return ACCEL_OK;
  accel__precision_profile_kinds(ep->precision_profile, &kinds);
  r->precision_profile = ep->precision_profile->name;
  r->precision_kinds =
      kinds.failed ? NULL : accel__arena_string(&ep->arena, kinds.data ? kinds.data : "");
  if (r->precision_kinds && *r->precision_kinds)
    r->label = accel__arena_printf(&ep->arena, "%s on %s (%s, %s)", ep->name, r->device,
                                   r->precision, r->precision_kinds);
  accel__buffer_free(&kinds);
  return r->precision_kinds && r->label ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* Where the weights are from, and which adapters are merged into them; NULL: no memory. */
static const char *weights_text(accel_endpoint *ep) {
  const char *text = ep->checkpoint ? accel__arena_string(&ep->arena, "local")
                                    : accel__arena_printf(&ep->arena, "random, seed %llu",
                                                          (unsigned long long)ep->seed);
  for (uint32_t i = 0; text && ep->adapters && i < ep->adapters->n; i++)
    text = accel__arena_printf(&ep->arena, "%s, adapter %s:%g", text, ep->adapters->adapter[i].path,
                               ep->adapters->adapter[i].scale);
  return text;
}

static accel_status write_placement(accel_endpoint *ep, const accel__device *device,
                                    const char *precision, const accel__place_request *request,
                                    reasons *why) {
  add_import_reasons(ep, precision, why);
  add_streaming_reason(ep, device, why);
  accel_strings *list = accel__arena_alloc(&ep->arena, sizeof *list);
  const char **item = accel__arena_array(&ep->arena, why->n, sizeof *item);
  char *label =
      accel__arena_printf(&ep->arena, "%s on %s (%s)", ep->name, device->info.name, precision);
  const char *weights = weights_text(ep);
  const char *got = accel__arena_string(&ep->arena, device->info.name),
             *wanted = accel__arena_string(&ep->arena, request->device);
  const char *wanted_precision = accel__arena_string(
      &ep->arena, request->precision ? request->precision : accel__default_precision(ep));
  if (!list || !item || !label || !weights || !got || !wanted || !wanted_precision)
    return ACCEL_ERROR_OUT_OF_MEMORY;
  memcpy(item, why->text, why->n * sizeof *item);
  *list = (accel_strings){.n = why->n, .item = item};
  ep->placement =
      (accel_placement_report){.model = ep->name,
                               .label = label,
                               .device = got,
                               .precision = ep->placed.precision.name,
                               .implementation_type = ep->placed.plugin->implementation_type,
                               .is_amd = (device->facts.flags & ACCEL_PLUGIN_DEVICE_AMD) != 0,
                               .wanted_device = wanted,
                               .wanted_precision = wanted_precision,
                               .reasons = list,
                               .weights = weights,
                               .weight_bytes = ep->placed.weight_bytes};
  ACCEL_TRY(report_profile(ep));
  return ep->placed.parts ? accel__parts_report(ep, ep->placed.parts) : ACCEL_OK;
}

static accel_status remember(accel_endpoint *ep, accel__device *device,
                             const accel__place_request *request) {
  if (!ep->placed_on && pthread_rwlock_init(&ep->in_use, NULL)) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (!ep->placed_on) accel__run_clock_init(&ep->run_clock);
  ep->placed_on = device;
  accel__offer_progress(ep, ep->placed.streaming.budget != 0);
  ep->may_fall_back = request->precision && !strcmp(request->precision, "auto") &&
                      strcmp(ep->placed.precision.name, "fp32") != 0 &&
                      !ep->ctx->ranks; /* which all have the precision of the first */
  ep->keep_fp32 = accel__arena_array(&ep->arena, request->n_keep, sizeof *ep->keep_fp32);
  for (uint32_t i = 0; ep->keep_fp32 && i < request->n_keep; i++) {
    ep->keep_fp32[i] = accel__arena_string(&ep->arena, request->keep_fp32[i]);
    if (!ep->keep_fp32[i]) return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  ep->n_keep = request->n_keep;
  return ep->keep_fp32 ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* A small tensor at the precision is proof before a model is; the CPU's kernels are proven by the
 * tests of the build. */
static accel_status prove(accel__hardware *hardware, accel__device *device, const char *precision) {
  for (uint32_t i = 0; device->parts && i < device->parts->n; i++)
    ACCEL_TRY(prove(hardware, device->parts->device[i], precision));
  if (device->parts) return ACCEL_OK;
  if (!accel__registry_precision_name(precision)) return ACCEL_OK; /* try_candidate refuses it */
  if (device->facts.type == ACCEL_PLUGIN_DEVICE_CPU || !strcmp(precision, "fp32") ||
      device->facts.flags & ACCEL_PLUGIN_DEVICE_REFERENCE)
    return ACCEL_OK;
  return accel__device_test_precision(hardware, device, precision);
}

/* A profile is for one kind of device, whose precisions are proven as one that is named. */
static accel_status suits_profile(const accel_endpoint *ep, accel__hardware *hardware,
                                  accel__device *device) {
  const accel__precision_profile *profile = ep->precision_profile;
  if (!profile) return ACCEL_OK;
  if (device->parts || strcmp(device->plugin->name, profile->device))
    return accel__fail(ACCEL_ERROR_PRECISION, "%s: the precision profile %s is for %s",
                       device->info.name, profile->name, profile->device);
  for (int i = 0; i < ACCEL__KIND_COUNT; i++)
    if (profile->kind[i]) ACCEL_TRY(prove(hardware, device, profile->kind[i]));
  return ACCEL_OK;
}

/* Failures that another device cannot mend: bad weights, no memory; layers that the model does not
 * have are the user's mistake. */
static bool ends_the_walk(accel_status status, const accel__device *device) {
  return status == ACCEL_ERROR_FORMAT || (status == ACCEL_ERROR_ARGUMENT && device->parts) ||
         status == ACCEL_ERROR_OUT_OF_MEMORY || status == ACCEL_ERROR_CANCELLED ||
         status == ACCEL_ERROR_IO;
}

/* No candidate served: the message has them all. */
static accel_status none_serves(accel_endpoint *ep, const accel__place_request *request,
                                const accel__candidates *all, bool tried, reasons *why,
                                accel_status last) {
  accel__buffer text = {0};
  for (uint32_t i = 0; !tried && i < all->n; i++) /* the accuracy bound has closed them all */
    if (all->item[i].reason)
      add_reason(ep, why,
                 accel__arena_printf(&ep->arena, "%s at %s: %s", all->item[i].device->info.name,
                                     all->item[i].precision, all->item[i].reason));
  for (uint32_t i = 0; i < why->n; i++)
    accel__buffer_printf(&text, "%s%s", i ? "; " : "", why->text[i]);
  accel__fail(last, "%s cannot run on '%s': %s", ep->name, request->device,
              text.data ? text.data : "no candidate");
  if (last == ACCEL_ERROR_DOES_NOT_FIT)
    accel__remedy(last, "`accel fit %s` tells which precision or batch would fit", ep->name);
  if (last == ACCEL_ERROR_PRECISION && ep->precision_profile)
    accel__remedy(last, "make a profile for that device with `accel tune %s --device %s`", ep->name,
                  request->device);
  else if (last == ACCEL_ERROR_PRECISION && !tried)
    accel__remedy(last, "a smaller min_cosine, or a device that is named, would do");
  else if (last == ACCEL_ERROR_PRECISION)
    accel__remedy(last, "`accel matrix %s` lists what each device here can run%s", ep->name,
                  ep->import ? "; --precision fp32, bf16 or fp16 dequantises the checkpoint" : "");
  accel__buffer_free(&text);
  return last;
}

/* Tries a candidate; *device_failed: the device serves at no precision. */
static accel_status try_one(accel_endpoint *ep, accel__hardware *hardware,
                            const accel__candidate *c, const accel__place_request *request,
                            bool *device_failed) {
  accel__placed placed;
  accel_status last = accel__device_test(hardware, c->device);
  if (last == ACCEL_OK) last = suits_profile(ep, hardware, c->device);
  *device_failed = last != ACCEL_OK;
  if (last == ACCEL_OK) last = prove(hardware, c->device, c->precision);
  if (last == ACCEL_OK) last = try_candidate(ep, c->device, c->precision, request, &placed);
  if (last == ACCEL_OK) ep->placed = placed;
  return last == ACCEL_OK ? remember(ep, c->device, request) : last;
}

/* Candidates as they are chosen, until one serves. */
static accel_status walk(accel_endpoint *ep, accel__hardware *hardware, const accel__choice *choice,
                         const accel__place_request *request, reasons *why) {
  accel_status last = ACCEL_ERROR_PRECISION;
  accel__candidates all;
  accel__candidate *c;
  bool tried = false;
  ACCEL_TRY(accel__candidates_make(ep, choice, request, &all));
  while ((c = accel__candidates_next(&all)) != NULL) {
    bool device_failed;
    tried = true;
    last = try_one(ep, hardware, c, request, &device_failed);
    if (last == ACCEL_OK) {
      ACCEL_TRY(write_placement(ep, c->device, c->precision, request, why));
      return accel__candidates_report(ep, &all);
    }
    if (!device_failed && ends_the_walk(last, c->device)) return last;
    const char *line = device_failed
                           ? accel__arena_string(&ep->arena, accel__message())
                           : accel__arena_printf(&ep->arena, "%s at %s: %s", c->device->info.name,
                                                 c->precision, accel__message());
    if (line) add_reason(ep, why, line);
    accel__candidates_close(&all, c, device_failed, line);
  }
  return none_serves(ep, request, &all, tried, why, last);
}

/* Of what is packed: weights of another mixture of precisions never meet in one entry of the
 * cache. */
static uint64_t packed_identity(const accel_endpoint *ep) {
  uint64_t identity = accel__weights_identity(ep);
  for (int i = 0; ep->precision_profile && i < ACCEL__KIND_COUNT; i++) {
    const char *own = ep->precision_profile->kind[i];
    if (own) identity = accel__hash(own, strlen(own), accel__hash(&i, sizeof i, identity));
  }
  return identity;
}

accel_status accel__endpoint_place(accel_endpoint *ep, const accel__place_request *request) {
  accel__hardware *hardware;
  accel__choice choice = {0};
  reasons why = {0};
  accel__init_host(ep);
  accel__program_identify(ep->model->program, packed_identity(ep));
  /* a precision that was named, or chosen by "auto", must give finite numbers */
  ep->check_finite = request->precision != NULL;
  ACCEL_TRY(accel__context_hardware(ep->ctx, &hardware));
  accel_status status = accel__hardware_choose(hardware, request->device, &choice);
  if (status == ACCEL_OK) {
    for (uint32_t i = 0; i < choice.n_reasons; i++) add_reason(ep, &why, choice.reason[i]);
    status = walk(ep, hardware, &choice, request, &why);
  }
  accel__choice_free(&choice);
  return status;
}

/* ---- after a result that was not finite ---- */

/* Another line of the placement report, and the label as it is now. */
static accel_status report_change(accel_endpoint *ep, const char *line) {
  const accel_strings *old = ep->placement.reasons;
  accel_strings *list = accel__arena_alloc(&ep->arena, sizeof *list);
  const char **item = accel__arena_array(&ep->arena, old->n + 1, sizeof *item);
  char *label = accel__arena_printf(&ep->arena, "%s on %s (%s)", ep->name, ep->placement.device,
                                    ep->placed.precision.name);
  if (!list || !item || !line || !label) return ACCEL_ERROR_OUT_OF_MEMORY;
  memcpy(item, old->item, old->n * sizeof *item);
  item[old->n] = line;
  *list = (accel_strings){.n = old->n + 1, .item = item};
  ep->placement.reasons = list;
  ep->placement.label = label;
  accel__logf(&ep->ctx->log, ACCEL_LOG_WARNING, "%s: %s", ep->name, line);
  return ACCEL_OK;
}

/* Nothing runs, and no session is open. */
static accel_status widen(accel_endpoint *ep) {
  const accel__place_request request = {.keep_fp32 = ep->keep_fp32, .n_keep = ep->n_keep};
  const accel_plugin_precision old = ep->placed.precision;
  accel__placed wide;
  ACCEL_TRY(try_candidate(ep, ep->placed_on, "fp32", &request, &wide));
  /* gives the old source's mappings back, so that is still ep->placed.source */
  ep->placed.plugin->cleanup(ep->placed.handle, &ep->host);
  accel__row_stream_close(&ep->placed.rows);
  accel__source_free(&ep->placed.source);
  ep->placed = wide;
  accel__offer_progress(ep, wide.streaming.budget != 0);
  ep->may_fall_back = false;
  return report_change(
      ep, accel__arena_printf(&ep->arena,
                              "%s at %s: a result held NaN or infinity, so fp32 is used from then "
                              "on",
                              ep->placement.device, old.name));
}

/* ---- what is kept for later ---- */

accel__parked *accel__endpoint_unpark(accel_endpoint *ep) {
  return atomic_exchange(&ep->parked, NULL);
}

void accel__endpoint_park(accel_endpoint *ep, accel__parked *parked) {
  accel__parked *old = atomic_exchange(&ep->parked, parked);
  if (old) old->close(old);
}

bool accel__endpoint_release_parked(accel_endpoint *ep) {
  accel__parked *parked = accel__endpoint_unpark(ep);
  if (parked) parked->close(parked);
  return parked != NULL;
}

accel_status accel__endpoint_fall_back(accel_endpoint *ep, const accel_plugin_endpoint *failed) {
  accel_status status = ACCEL_OK;
  accel__endpoint_release_parked(ep);
  pthread_rwlock_wrlock(&ep->in_use);
  if (ep->placed.handle == failed)
    status = ep->may_fall_back && !ep->sessions ? widen(ep) : ACCEL_ERROR_NONFINITE;
  pthread_rwlock_unlock(&ep->in_use);
  return status;
}

/* ---- after a device was lost ---- */

/* Nothing runs: the lost parts go to single devices that the chain names behind the placement. */
static accel_status replace_lost(accel_endpoint *ep) {
  accel__hardware *hardware;
  accel__choice choice = {0};
  accel__device *rest[64];
  uint32_t n = 0;
  bool behind = false;
  const char *said = NULL;
  ACCEL_TRY(accel__context_hardware(ep->ctx, &hardware));
  accel_status status = accel__hardware_choose(hardware, ep->placement.wanted_device, &choice);
  for (uint32_t i = 0; status == ACCEL_OK && i < choice.n; i++) {
    if (behind && !choice.device[i]->parts && n < 64) rest[n++] = choice.device[i];
    behind |= choice.device[i] == ep->placed_on;
  }
  if (status == ACCEL_OK) status = accel__parts_replace_lost(ep, rest, n, &said);
  if (status == ACCEL_OK) status = accel__parts_report(ep, ep->placed.parts);
  if (status == ACCEL_OK && said) status = report_change(ep, said);
  accel__choice_free(&choice);
  return status;
}

accel_status accel__endpoint_replace_lost(accel_endpoint *ep) {
  accel__failure failure;
  if (!ep->placed.parts) return ACCEL_ERROR_DEVICE_LOST; /* its message stands */
  accel__failure_keep(&failure, ACCEL_ERROR_DEVICE_LOST);
  pthread_rwlock_wrlock(&ep->in_use);
  const accel_status status = replace_lost(ep);
  pthread_rwlock_unlock(&ep->in_use);
  if (status == ACCEL_OK) return ACCEL_OK;
  const bool none = status == ACCEL_ERROR_DEVICE_LOST;
  accel__failure why;
  accel__failure_keep(&why, status);
  accel__failure_raise(&failure);
  return accel__remedy(ACCEL_ERROR_DEVICE_LOST,
                       none ? "name behind a comma what a lost part goes on with: --device %s,cpu"
                            : "the part could not be placed anew: %s",
                       none ? ep->placement.wanted_device : why.message);
}

int32_t accel__endpoint_entry(const accel_endpoint *ep, const char *name) {
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  for (uint32_t i = 0; i < p->n_entry; i++)
    if (!strcmp(p->entry[i].name, name)) return (int32_t)i;
  return -1;
}

accel_status accel__endpoint_template(accel_endpoint *ep, accel__chat_template **out) {
  accel__chat_template *known = ep->chat_template, *mine = NULL;
  *out = known;
  if (known) return ACCEL_OK;
  if (!ep->directory)
    return accel__fail(ACCEL_ERROR_NOT_FOUND, "%s: random weights have no chat template", ep->name);
  ACCEL_TRY(accel__chat_template_load(ep->directory, &mine));
  if (atomic_compare_exchange_strong(&ep->chat_template, &known, mine)) {
    *out = mine;
  } else {
    *out = known;
    accel__chat_template_free(&mine);
  }
  return ACCEL_OK;
}

void accel__endpoint_free(accel_endpoint *ep) {
  if (!ep) return;
  accel__chat_template *chat = ep->chat_template;
  accel__endpoint_release_parked(ep);
  accel__chat_template_free(&chat);
  if (ep->processor_free) ep->processor_free(ep->processor);
  if (ep->placed.handle) ep->placed.plugin->cleanup(ep->placed.handle, &ep->host);
  if (ep->placed_on) pthread_rwlock_destroy(&ep->in_use);
  if (ep->placed_on) accel__run_clock_destroy(&ep->run_clock);
  accel__row_stream_close(&ep->placed.rows);
  accel__source_free(&ep->placed.source);
  accel__run_scratch_free(ep);
  accel__model_free(&ep->model);
  accel__adapters_free(&ep->adapters);
  accel__import_free(&ep->import);
  accel__checkpoint_close(&ep->checkpoint);
  accel__json_free(&ep->config);
  accel__arena_free(&ep->arena);
  free(ep);
}
