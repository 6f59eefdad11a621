/* open_replicas.c - a model on several devices at once (data parallel): each named device opens it,
 * and those that can become replicas of one endpoint. */
#include <stdlib.h>
#include <string.h>

#include "dispatch/ranks.h"
#include "dispatch/replicas.h"
#include "tasks/open.h"

typedef struct opening {
  accel *ctx;
  const char *model;
  accel_init_params params;
  const accel__admission *admission;
  accel_endpoint *ep[ACCEL__MAX_REPLICAS];
  bool on_trial[ACCEL__MAX_REPLICAS];
  uint32_t n;
  accel__buffer reasons; /* lines of the devices that were passed over, a NUL behind each */
} opening;

/* ---- the order ---- */

static bool is_host(const accel__device *d) {
  return d->facts.type == ACCEL_PLUGIN_DEVICE_CPU || d->facts.type == ACCEL_PLUGIN_DEVICE_SOFTWARE;
}

/* Cards, the processor, other interfaces to it. */
static int rank_of(const accel__device *d) {
  return !is_host(d) ? 0 : !strcmp(d->plugin->name, "cpu") ? 1 : 2;
}

/* The devices in the order in which they are opened; those of equal rank stay as they were named. */
static uint32_t order_devices(const accel__choice *choice, accel__device **out) {
  uint32_t n = 0;
  for (int rank = 0; rank < 3; rank++)
    for (uint32_t i = 0; i < choice->n && n < ACCEL__MAX_REPLICAS; i++)
      if (rank_of(choice->device[i]) == rank) out[n++] = choice->device[i];
  return n;
}

/* Another replica on the same silicon, or a processor beside cards: whether it pays is measured. */
static bool is_on_trial(const opening *o, const accel__device *device) {
  for (uint32_t i = 0; i < o->n; i++) {
    const accel__device *other = o->ep[i]->placed_on;
    if (other->card && other->card == device->card) return true;
    if (is_host(device)) return true;
  }
  return false;
}

/* ---- opening ---- */

static void add_reason(opening *o, const char *device, const char *why) {
  accel__buffer_printf(&o->reasons, "%s: %s", device, why);
  accel__buffer_bytes(&o->reasons, "", 1);
}

/* Failures that other devices do not mend. */
static bool ends_all(accel_status status) {
  return status == ACCEL_ERROR_NOT_FOUND || status == ACCEL_ERROR_FORMAT ||
         status == ACCEL_ERROR_ARGUMENT || status == ACCEL_ERROR_IO ||
         status == ACCEL_ERROR_OUT_OF_MEMORY || status == ACCEL_ERROR_CANCELLED;
}

static accel_status open_one(opening *o, accel__device *device) {
  accel_init_params params = o->params;
  accel_endpoint *ep;
  params.device = device->info.name;
  if (o->n && params.precision && !strcmp(params.precision, "auto"))
    params.precision = o->ep[0]->placed.precision.name; /* that of all */
  ACCEL_TRY(accel__open_admitted(o->ctx, o->model, &params, o->admission, &ep));
  if (o->n && ep->placed.streaming.budget) {
    accel__close(&ep);
    return accel__fail(ACCEL_ERROR_DOES_NOT_FIT,
                       "the weights would not all stay in its memory; it can be named alone");
  }
  if (o->admission && o->admission->replica) o->admission->replica(o->admission->user, ep);
  o->on_trial[o->n] = is_on_trial(o, device);
  o->ep[o->n++] = ep;
  return ACCEL_OK;
}

static accel_status open_each(opening *o, accel__device *const *device, uint32_t n) {
  accel__failure first = {0};
  for (uint32_t i = 0; i < n; i++) {
    const accel_status status = open_one(o, device[i]);
    if (status == ACCEL_OK) continue;
    if (ends_all(status)) return status;
    if (first.status == ACCEL_OK) accel__failure_keep(&first, status);
    add_reason(o, device[i]->info.name, accel__message());
    accel__clear_error();
  }
  return o->n ? accel__buffer_status(&o->reasons) : accel__failure_raise(&first);
}

/* ---- the report ---- */

static accel_status report(opening *o, const char *wanted) {
  accel_endpoint *ep = o->ep[0];
  accel_placement_report *r = &ep->placement;
  accel__buffer names = {0};
  for (uint32_t i = 0; i < o->n; i++)
    accel__buffer_printf(&names, "%s%s", i ? "+" : "all:", o->ep[i]->placement.device);
  uint32_t n = r->reasons->n;
  for (size_t i = 0; i < o->reasons.n; i++) n += !o->reasons.data[i];
  const char **item = accel__arena_array(&ep->arena, n, sizeof *item);
  accel_strings *list = accel__arena_alloc(&ep->arena, sizeof *list);
  const char *device = names.failed ? NULL : accel__arena_string(&ep->arena, names.data);
  accel__buffer_free(&names);
  r->wanted_device = accel__arena_string(&ep->arena, wanted);
  if (!item || !list || !device || !r->wanted_device) return ACCEL_ERROR_OUT_OF_MEMORY;
  memcpy(item, r->reasons->item, r->reasons->n * sizeof *item);
  uint32_t at = r->reasons->n;
  for (size_t i = 0; i < o->reasons.n; i += strlen(o->reasons.data + i) + 1)
    if (!(item[at++] = accel__arena_string(&ep->arena, o->reasons.data + i)))
      return ACCEL_ERROR_OUT_OF_MEMORY;
  *list = (accel_strings){.n = n, .item = item};
  r->reasons = list;
  if (o->n == 1) return ACCEL_OK; /* it is an endpoint as any other */
  r->device = device;
  r->label = accel__arena_printf(&ep->arena, "%s on %s (%s)", ep->name, device, r->precision);
  return r->label ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* ---- all of it ---- */

static accel_status check(const accel *ctx, const accel_init_params *params) {
  if (ctx->ranks)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "device '%s': ranks of tensor parallelism have one device each",
                       params->device);
  if (params->enable_adapters)
    return accel__remedy(
        accel__fail(ACCEL_ERROR_UNSUPPORTED,
                    "device '%s': adapters that requests name lie beside the weights of one device",
                    params->device),
        "name one device, or merge the adapter when the model is opened");
  return ACCEL_OK;
}

static accel_status open_steps(opening *o) {
  accel__hardware *hardware;
  accel__choice choice = {0};
  accel__device *device[ACCEL__MAX_REPLICAS];
  const char *wanted = o->params.device;
  ACCEL_TRY(check(o->ctx, &o->params));
  ACCEL_TRY(accel__context_hardware(o->ctx, &hardware));
  accel_status status = accel__hardware_choose_all(hardware, wanted, &choice);
  for (uint32_t i = 0; status == ACCEL_OK && i < choice.n_reasons; i++) {
    accel__buffer_printf(&o->reasons, "%s", choice.reason[i]);
    accel__buffer_bytes(&o->reasons, "", 1);
  }
  if (status == ACCEL_OK) status = open_each(o, device, order_devices(&choice, device));
  accel__choice_free(&choice);
  if (status == ACCEL_OK) status = report(o, wanted);
  if (status == ACCEL_OK && o->n > 1)
    status = accel__replicas_new(o->ep[0], o->ep + 1, o->n, o->on_trial);
  if (status == ACCEL_OK) accel__endpoint_to_front(o->ep[0]);
  return status;
}

accel_status accel__open_replicas(accel *ctx, const char *model, const accel_init_params *params,
                                  const accel__admission *admission, accel_endpoint **out) {
  opening o = {.ctx = ctx, .model = model, .params = *params, .admission = admission};
  *out = NULL;
  const accel_status status = open_steps(&o);
  accel__buffer_free(&o.reasons);
  if (status == ACCEL_OK) {
    *out = o.ep[0];
    return ACCEL_OK;
  }
  accel__failure failure;
  accel__failure_keep(&failure, status);
  while (o.n) accel__close(&o.ep[--o.n]);
  return accel__failure_raise(&failure);
}
