/* parts_load.c - a model over several devices: loaded, reported, freed, and a lost part placed
 * anew. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "dispatch/plugin_init.h"
#include "dispatch/parts_internal.h"
#include "dispatch/planner.h"
#include "dispatch/services.h"

accel__parts *accel__parts_of(accel_plugin_endpoint *handle) { return (accel__parts *)handle; }

/* ---- failures ---- */

int32_t accel__parts_fail(accel_plugin_error *error, int32_t rc, const char *format, ...) {
  if (!error) return rc;
  va_list args;
  error->rc = rc;
  error->native = 0;
  error->node = -1;
  va_start(args, format);
  vsnprintf(error->message, sizeof error->message, format, args);
  va_end(args);
  return rc;
}

int32_t accel__part_failed(accel__parts *parts, uint32_t k, int32_t rc, accel_plugin_error *error) {
  accel__placed_part *p = &parts->part[k];
  if (rc == ACCEL_PLUGIN_E_DEVICE_LOST) {
    pthread_mutex_lock(&parts->lock);
    p->lost = true;
    pthread_mutex_unlock(&parts->lock);
  }
  if (!error) return rc;
  char message[sizeof error->message];
  memcpy(message, error->message, sizeof message);
  message[sizeof message - 1] = '\0';
  if (error->node >= 0 && (uint32_t)error->node < p->cut->program.n_node)
    error->node = (int32_t)p->cut->node[error->node];
  snprintf(error->message, sizeof error->message, "layers %u to %u on %s: %.180s", p->first_layer,
           p->last_layer, p->device->info.name, message);
  return rc;
}

/* ---- the table that stands for all parts ---- */

static void free_part(accel__placed_part *p) {
  if (p->placed.handle) p->placed.plugin->cleanup(p->placed.handle, &p->host);
  p->placed.handle = NULL;
  accel__row_stream_close(&p->placed.rows);
}

static void parts_free(accel__parts *parts) {
  for (uint32_t k = 0; k < parts->n; k++) free_part(&parts->part[k]);
  accel__parts_frame_free(parts);
  pthread_mutex_destroy(&parts->lock);
  accel__arena_free(&parts->arena);
  free(parts);
}

static void parts_cleanup(accel_plugin_endpoint *handle, const accel_plugin_host *host) {
  (void)host; /* each part has its own */
  if (handle) parts_free(accel__parts_of(handle));
}

static int32_t parts_trim(accel_plugin_endpoint *handle, uint64_t *released,
                          accel_plugin_error *error) {
  accel__parts *parts = accel__parts_of(handle);
  int32_t rc = ACCEL_PLUGIN_OK;
  *released = 0;
  for (uint32_t k = 0; !rc && k < parts->n; k++) {
    const accel__placed *placed = &parts->part[k].placed;
    uint64_t n = 0;
    if (!placed->handle || !placed->plugin->trim) continue;
    rc = placed->plugin->trim(placed->handle, &n, error);
    if (rc) return accel__part_failed(parts, k, rc, error);
    *released += n;
  }
  return rc;
}

/* The parts with their layers, as they are placed now. */
static accel_status name_parts(accel__parts *parts) {
  accel__buffer name = {0};
  for (uint32_t k = 0; k < parts->n; k++) {
    const accel__placed_part *p = &parts->part[k];
    accel__buffer_printf(&name, "%s%s=%u-%u", k ? "+" : "", p->device->info.name, p->first_layer,
                         p->last_layer);
  }
  parts->name = name.failed ? NULL : accel__arena_string(&parts->arena, name.data);
  accel__buffer_free(&name);
  return parts->name ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* Once, for others read it while runs go on; its name stays that of the first placement. */
static accel_status make_table(accel__parts *parts, const accel__device *device) {
  accel__buffer build = {0};
  for (uint32_t k = 0; k < parts->n; k++)
    accel__buffer_printf(&build, "%s%s", k ? "+" : "", parts->part[k].placed.plugin->build_id);
  const char *id = build.failed ? NULL : accel__arena_string(&parts->arena, build.data);
  accel__buffer_free(&build);
  if (!id) return ACCEL_ERROR_OUT_OF_MEMORY;
  parts->table = (accel_plugin){.size = sizeof parts->table,
                                .abi = ACCEL_PLUGIN_ABI_NOW,
                                .name = parts->name,
                                .implementation_type = device->info.implementation_type,
                                .version = parts->part[0].placed.plugin->version,
                                .build_id = id,
                                .handler = accel__parts_handler,
                                .cleanup = parts_cleanup,
                                .trim = parts_trim,
                                .session_new = accel__parts_session_new,
                                .session_free = accel__parts_session_free,
                                .session_control = accel__parts_session_control};
  return ACCEL_OK;
}

/* ---- loading ---- */

/* States whose rows can be cut off again. */
static bool goes_back(const accel_plugin_program *p) {
  bool rows = true;
  for (uint32_t i = 0; i < p->n_state; i++)
    rows &= p->state[i].kind == ACCEL_PLUGIN_STATE_KV ||
            p->state[i].kind == ACCEL_PLUGIN_STATE_CROSS_KV;
  return rows;
}

static accel_status load_part(accel__placed_part *p) {
  ACCEL_TRY(accel__device_supports(p->device, &p->cut->program, &p->placed.precision));
  return accel__plugin_init(&p->self, &p->host, p->device);
}

static void prepare_part(accel__parts *parts, uint32_t k, const accel__device *device) {
  accel__placed_part *p = &parts->part[k];
  p->device = device;
  p->lost = false;
  p->placed.plugin = device->plugin;
  p->placed.device = device->index;
  p->placed.device_info = device->facts;
  p->self = (accel__host_self){.ep = parts->ep, .placed = &p->placed, .part = p->cut};
  p->host = accel__host_for(&p->self);
}

uint32_t accel__parts_subjects(const accel__parts *parts, accel__limits_subject *out) {
  for (uint32_t k = 0; k < parts->n; k++) {
    const accel__placed_part *p = &parts->part[k];
    out[k] = (accel__limits_subject){.of = {.ep = parts->ep,
                                            .device = p->device,
                                            .precision = &p->placed.precision,
                                            .source = p->placed.source,
                                            .part = p->cut},
                                     .loaded = &p->placed.streaming,
                                     .left = p->placed.limits.run_bytes};
  }
  return parts->n;
}

/* Under a limit of the user's. */
static accel_status plan_limits(accel__parts *parts, accel__run_limits *out) {
  accel__limits_subject subject[ACCEL__MAX_PARTS];
  uint64_t limit, weights[ACCEL__MAX_PARTS];
  *out = (accel__run_limits){0};
  ACCEL_TRY(accel__context_memory_limit(parts->ep->ctx, &limit));
  if (!limit) return ACCEL_OK;
  const uint32_t n = accel__parts_subjects(parts, subject);
  for (uint32_t k = 0; k < n; k++) weights[k] = parts->part[k].weights;
  ACCEL_TRY(accel__parts_run_limits(subject, weights, n, limit, out));
  for (uint32_t k = 0; k < n; k++) parts->part[k].placed.limits.run_bytes = subject[k].left;
  return ACCEL_OK;
}

/* What all parts stream together, as they are placed now. */
static void sum_streaming(const accel__parts *parts, accel__streaming *out) {
  accel__streaming sum = {.least = out->least, .load = out->load};
  for (uint32_t k = 0; k < parts->n; k++)
    accel__parts_add_streaming(&parts->part[k].placed.streaming, &sum);
  *out = sum;
}

static accel_status load_all(accel_endpoint *ep, const accel__device *device, accel__parts *parts) {
  accel__parts_plan plan;
  accel__fit fit;
  accel__placed *all = &ep->placed;
  ACCEL_TRY(accel__parts_plan_make(ep, device, &all->precision, all->source, &(accel__fit_work){0},
                                   &parts->arena, &plan, &fit));
  ACCEL_TRY(accel__fit_check(&fit, device->info.name, all->precision.name, NULL));
  for (uint32_t k = 0; k < plan.n; k++) {
    accel__placed_part *p = &parts->part[k];
    p->cut = &plan.part[k];
    p->first_layer = plan.first_layer[k];
    p->last_layer = plan.last_layer[k];
    p->weights = fit.part[k].weights;
    p->goes_back = goes_back(&p->cut->program);
    p->placed = (accel__placed){
        .source = all->source, .precision = plan.precision[k], .streaming = fit.part[k].streaming};
    prepare_part(parts, k, plan.device[k]);
    parts->n = k + 1;
    const accel_status status = load_part(p);
    if (status != ACCEL_OK)
      return status == ACCEL_ERROR_OUT_OF_MEMORY
                 ? status
                 : accel__wrap(status, "layers %u to %u on %s", p->first_layer, p->last_layer,
                               p->device->info.name);
  }
  all->streaming = fit.streaming;
  ACCEL_TRY(plan_limits(parts, &all->limits));
  ACCEL_TRY(name_parts(parts));
  return make_table(parts, device);
}

accel_status accel__parts_load(accel_endpoint *ep, const accel__device *device) {
  accel__parts *parts = calloc(1, sizeof *parts);
  if (!parts) return accel__no_memory(sizeof *parts);
  parts->ep = ep;
  parts->program = accel__program_view(ep->model->program);
  pthread_mutex_init(&parts->lock, NULL);
  const accel_status status = load_all(ep, device, parts);
  if (status != ACCEL_OK) {
    parts_free(parts);
    return status;
  }
  ep->placed.parts = parts;
  ep->placed.plugin = &parts->table;
  ep->placed.handle = (accel_plugin_endpoint *)parts;
  return ACCEL_OK;
}

/* ---- what others ask ---- */

accel_status accel__parts_report(accel_endpoint *ep, const accel__parts *parts) {
  accel_placement_part *list = accel__arena_array(&ep->arena, parts->n, sizeof *list);
  char *device = accel__arena_string(&ep->arena, parts->name);
  if (!list || !device) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t k = 0; k < parts->n; k++) {
    const accel__placed_part *p = &parts->part[k];
    const char *name = accel__arena_string(&ep->arena, p->device->info.name);
    if (!name) return ACCEL_ERROR_OUT_OF_MEMORY;
    list[k] = (accel_placement_part){.device = name,
                                     .implementation_type = p->placed.plugin->implementation_type,
                                     .first_layer = p->first_layer,
                                     .last_layer = p->last_layer,
                                     .first_stage = p->cut->first_stage,
                                     .last_stage = p->cut->last_stage,
                                     .weights = p->weights,
                                     .streams = p->placed.streaming.budget != 0};
  }
  ep->placement.device = device;
  ep->placement.part = list;
  ep->placement.n_part = parts->n;
  return ACCEL_OK;
}

const accel_plugin *accel__parts_plugin(const accel__parts *parts, uint32_t k) {
  return k < parts->n ? parts->part[k].placed.plugin : NULL;
}

bool accel__parts_use(const accel__parts *parts, const char *device) {
  for (uint32_t k = 0; k < parts->n; k++)
    if (!strcmp(parts->part[k].device->info.name, device)) return true;
  return false;
}

void accel__parts_count_experts(const accel__parts *parts, accel__expert_counters *out) {
  for (uint32_t k = 0; k < parts->n; k++)
    if (parts->part[k].placed.rows) accel__row_stream_experts(parts->part[k].placed.rows, out);
}

void accel__parts_count_rows(const accel__parts *parts, accel__range_counters *out) {
  for (uint32_t k = 0; k < parts->n; k++) {
    accel__range_counters n = {0};
    if (!parts->part[k].placed.rows) continue;
    accel__row_stream_count(parts->part[k].placed.rows, &n);
    out->segments += n.segments;
    out->bytes += n.bytes;
    out->requests += n.requests;
    out->direct_requests += n.direct_requests;
    out->read_bytes += n.read_bytes;
    out->waits += n.waits;
    out->ready += n.ready;
    out->wait_ns += n.wait_ns;
    out->busy_ns += n.busy_ns;
    out->check_ns += n.check_ns;
  }
}

void accel__parts_mark_rows(const accel__parts *parts) {
  for (uint32_t k = 0; k < parts->n; k++)
    if (parts->part[k].placed.rows) accel__row_stream_mark(parts->part[k].placed.rows);
}

accel_status accel__parts_read_again(const accel__parts *parts, uint64_t *bytes, uint64_t *ns,
                                     bool *any) {
  for (uint32_t k = 0; k < parts->n; k++) {
    accel__row_stream *rows = parts->part[k].placed.rows;
    uint64_t n = 0, took = 0;
    if (!rows) continue;
    *any = true;
    ACCEL_TRY(accel__row_stream_read_again(rows, &n, &took));
    *bytes += n;
    *ns += took;
  }
  return ACCEL_OK;
}

/* ---- after a device was lost ---- */

/* The part on `device`, when it fits there. */
static accel_status place_anew(accel__parts *parts, uint32_t k, const accel__device *device) {
  accel__placed_part *p = &parts->part[k];
  const accel__fit_subject subject = {.ep = parts->ep,
                                      .device = device,
                                      .precision = &p->placed.precision,
                                      .source = p->placed.source,
                                      .part = p->cut};
  accel__fit fit;
  ACCEL_TRY(accel__fit_subject_estimate(&subject, &(accel__fit_work){0}, &fit));
  ACCEL_TRY(accel__fit_check(&fit, device->info.name, p->placed.precision.name, NULL));
  prepare_part(parts, k, device);
  p->placed.streaming = fit.streaming;
  p->weights = fit.estimate.weights;
  const accel_status status = load_part(p);
  if (status != ACCEL_OK) p->lost = true;
  return status;
}

static accel_status replace_part(accel__parts *parts, uint32_t k, accel__device *const *rest,
                                 uint32_t n) {
  const accel__device *lost = parts->part[k].device;
  accel__hardware *hardware;
  accel_status status = ACCEL_ERROR_DEVICE_LOST;
  ACCEL_TRY(accel__context_hardware(parts->ep->ctx, &hardware));
  free_part(&parts->part[k]);
  for (uint32_t i = 0; i < n; i++) {
    if (rest[i] == lost) continue;
    status = accel__device_test(hardware, rest[i]);
    if (status == ACCEL_OK) status = place_anew(parts, k, rest[i]);
    if (status == ACCEL_OK) return ACCEL_OK;
  }
  return status;
}

accel_status accel__parts_replace_lost(accel_endpoint *ep, accel__device *const *rest, uint32_t n,
                                       const char **said) {
  accel__parts *parts = ep->placed.parts;
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  accel_status status = ACCEL_OK;
  bool any = false;
  for (uint32_t k = 0; k < parts->n; k++) any |= parts->part[k].lost;
  if (!any) return ACCEL_OK; /* another thread has seen to it */
  for (accel__parts_session *s = parts->sessions; s; s = s->next) accel__parts_session_shut(s);
  ep->n_replaced++;
  for (uint32_t k = 0; k < parts->n && status == ACCEL_OK; k++) {
    const accel__placed_part *p = &parts->part[k];
    const char *lost = p->device->info.name;
    if (!p->lost) continue;
    status = replace_part(parts, k, rest, n);
    if (status == ACCEL_OK)
      *said = accel__arena_printf(&ep->arena, "%s was lost: layers %u to %u go on with %s", lost,
                                  p->first_layer, p->last_layer, p->device->info.name);
  }
  if (status == ACCEL_OK) status = name_parts(parts);
  if (status == ACCEL_OK) status = plan_limits(parts, &ep->placed.limits);
  if (status == ACCEL_OK) sum_streaming(parts, &ep->placed.streaming);
  for (accel__parts_session *s = parts->sessions; s && status == ACCEL_OK; s = s->next)
    if (accel__parts_session_open(s, &error))
      status = accel__fail(ACCEL_ERROR_DEVICE_LOST, "no session: %s", error.message);
  return status;
}
