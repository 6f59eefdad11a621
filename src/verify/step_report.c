/* step_report.c - accel_plan_steps: a model opened without its weights, and a plugin asked. */
#include "verify/step_report.h"

#include <string.h>

#include "dispatch/precision.h"
#include "dispatch/stored.h"
#include "dispatch/step_plan.h"
#include "tasks/image_plan.h"
#include "tasks/open.h"
#include "verify/fit_report.h"

/* Of a pipeline that makes pictures: the call's run of this entry and output; NULL: another model, or
 * there is none. */
static accel_status find_call(accel_endpoint *ep, const accel_plan_params *params,
                              const accel__planned_run *run, accel__arena *arena,
                              const accel__fit_call **out) {
  const accel__image_size size = {.width = params->width,
                                  .height = params->height,
                                  .pictures = params->batch,
                                  .tiled = params->vae_tiling != 0};
  *out = NULL;
  if (!accel__image_makes(ep)) return ACCEL_OK;
  accel__image_plan *plan = accel__arena_alloc(arena, sizeof *plan);
  if (!plan) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__image_plan_make(ep, &size, plan));
  for (uint32_t i = 0; i < plan->n && !*out; i++) {
    const accel__model_entry *e = &ep->model->entries[plan->call[i].run.entry];
    if (!strcmp(e->name, run->entry) &&
        (!run->output || !strcmp(e->outputs[plan->output[i]].name, run->output)))
      *out = &plan->call[i];
  }
  return ACCEL_OK;
}

/* The endpoint's model on the first device of the choice. */
static accel_status plan(accel_endpoint *ep, const accel__registry_model *entry,
                         const accel__device *device, const accel_plan_params *params,
                         accel_profile_fn fn, void *user) {
  accel__arena arena = {0};
  accel_plugin_precision precision;
  const uint32_t batch = params->batch ? params->batch : 1;
  accel__planned_run run = {
      .entry = params->entry ? params->entry : "forward",
      .output = params->output,
      .work = {.batch = batch, .tokens = (uint64_t)batch * params->seq, .side = params->side},
      .past = params->past,
      .fixed = params->encoded};
  const char *name = params->precision ? params->precision : "fp32";
  const char *const *wide = NULL;
  uint32_t n_wide = 0;
  accel_status status = find_call(ep, params, &run, &arena, &run.call);
  if (status == ACCEL_OK) status = accel__kept_weights(ep, entry, &wide, &n_wide);
  if (status == ACCEL_OK)
    status = accel__endpoint_precision(ep, name, wide, n_wide, &arena, &precision);
  if (status == ACCEL_OK) status = accel__ask_supports(ep, device, &precision);
  if (status == ACCEL_OK) status = accel__plan_steps(ep, device, &precision, &run, fn, user);
  accel__arena_free(&arena);
  return status;
}

accel_status accel__step_report(accel *ctx, const char *model, const accel_plan_params *params,
                                accel_profile_fn fn, void *user) {
  const accel__registry_model *entry;
  accel__hardware *hardware;
  accel__choice devices = {0};
  accel_endpoint *ep = NULL;
  ACCEL_TRY(accel__open_shape(ctx, model, params->architecture, NULL, &entry, &ep));
  accel_status status = accel__context_hardware(ctx, &hardware);
  if (status == ACCEL_OK)
    status = accel__hardware_choose(hardware, params->device ? params->device : "cpu", &devices);
  if (status == ACCEL_OK) status = plan(ep, entry, devices.device[0], params, fn, user);
  accel__endpoint_free(ep);
  accel__choice_free(&devices);
  return status;
}
