/* plugin_init.c - see plugin_init.h. */
#include "dispatch/plugin_init.h"

#include <stdlib.h>

#include "dispatch/ranks.h"

static accel_status init_failed(const accel__placed *placed, int32_t rc,
                                const accel_plugin_error *error) {
  /* of a weight: with all of its message, which a plugin's is too short for, and its remedy */
  ACCEL_TRY(accel__source_failure(placed->source));
  if (rc == ACCEL_PLUGIN_E_DEVICE_MEMORY)
    return accel__fail(ACCEL_ERROR_DOES_NOT_FIT, "%s", error->message);
  return accel__fail(rc <= ACCEL_PLUGIN_E_ARGUMENT && rc >= ACCEL_PLUGIN_E_DRIVER
                         ? (accel_status)rc
                         : ACCEL_ERROR_INTERNAL,
                     "%s", error->message);
}

static accel_status init(const accel__host_self *self, const accel_plugin_host *host,
                         const accel__device *device, const accel_plugin_program *program,
                         const uint8_t *row_dtype) {
  accel_endpoint *ep = self->ep;
  accel__placed *placed = self->placed;
  accel_plugin_options options = {.size = sizeof options,
                                  .precision = placed->precision,
                                  .rank = accel__ranks_rank(ep->ctx->ranks),
                                  .world = accel__ranks_world(ep->ctx->ranks),
                                  .host = host,
                                  .stream_budget = placed->streaming.budget,
                                  .row_dtype = row_dtype};
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  ACCEL_TRY(accel__context_memory_limit(ep->ctx, &options.memory_limit));
  /* results of a part are looked at when they are the model's */
  options.precision.flags = ACCEL_PLUGIN_ALLOW_EMULATED |
                            (ep->check_finite && !self->part ? ACCEL_PLUGIN_CHECK_FINITE : 0);
  accel__pool_turn turn;
  accel__pool_enter(ep->ctx->pool, UINT32_MAX, &turn); /* all threads, whatever the mode */
  const int32_t rc =
      device->plugin->init(device->index, program, &options, &placed->handle, &error);
  accel__pool_leave(&turn);
  if (rc == ACCEL_PLUGIN_OK) return ACCEL_OK;
  placed->handle = NULL;
  return init_failed(placed, rc, &error);
}

accel_status accel__plugin_init(const accel__host_self *self, const accel_plugin_host *host,
                                const accel__device *device) {
  accel_endpoint *ep = self->ep;
  const accel_plugin_program *program =
      self->part ? &self->part->program : accel__program_view(ep->model->program);
  if (!self->placed->streaming.budget || self->placed->streaming.copied)
    return init(self, host, device, program, NULL);
  /* pages of a mapping would count; an endpoint that is there already uses them */
  if (ep->checkpoint && !ep->placed_on) ACCEL_TRY(accel__checkpoint_bypass(ep->checkpoint));
  uint8_t *row_dtype = malloc(program->n_weight + 1u);
  if (!row_dtype) return accel__no_memory(program->n_weight);
  for (uint32_t i = 0; i < program->n_weight; i++)
    row_dtype[i] = (uint8_t)accel__source_row_dtype(self->placed->source,
                                                    self->part ? self->part->weight[i] : i);
  const accel_status status = init(self, host, device, program, row_dtype);
  if (ep->checkpoint) accel__checkpoint_forget_all(ep->checkpoint);
  free(row_dtype);
  return status;
}
