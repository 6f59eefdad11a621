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

/* What a plugin may know of weights that it need not keep. */
typedef struct stored_weights {
  uint8_t *in_file, *row_dtype; /* [n_weight] */
} stored_weights;

static accel_status describe(const accel__host_self *self, uint32_t n, stored_weights *out) {
  const accel__source *source = self->placed->source;
  *out = (stored_weights){malloc(n + 1u), malloc(n + 1u)};
  if (!out->in_file || !out->row_dtype) return accel__no_memory(n);
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t weight = self->part ? self->part->weight[i] : i;
    out->in_file[i] = accel__source_in_file(source, weight);
    out->row_dtype[i] = (uint8_t)accel__source_row_dtype(source, weight);
  }
  return ACCEL_OK;
}

static accel_status init(const accel__host_self *self, const accel_plugin_host *host,
                         const accel__device *device, const accel_plugin_program *program,
                         const stored_weights *stored) {
  accel_endpoint *ep = self->ep;
  accel__placed *placed = self->placed;
  const accel__streaming *s = &placed->streaming;
  accel_plugin_options options = {.size = sizeof options,
                                  .precision = placed->precision,
                                  .rank = accel__ranks_rank(ep->ctx->ranks),
                                  .world = accel__ranks_world(ep->ctx->ranks),
                                  .host = host,
                                  .in_file = stored->in_file,
                                  .stream_budget = s->budget,
                                  .stream_host_budget = s->host_budget,
                                  .row_dtype = s->budget ? stored->row_dtype : NULL};
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
  const accel__streaming *s = &self->placed->streaming;
  const accel_plugin_program *program =
      self->part ? &self->part->program : accel__program_view(ep->model->program);
  const bool reads = s->budget && (!s->copied || s->host_budget);
  stored_weights stored;
  /* what is read again around the page cache is not left there by the load; an endpoint that is
   * there already uses it */
  if (reads && ep->checkpoint && !ep->placed_on)
    ACCEL_TRY(accel__checkpoint_bypass(ep->checkpoint));
  accel_status status = describe(self, program->n_weight, &stored);
  if (status == ACCEL_OK) status = init(self, host, device, program, &stored);
  if (reads && ep->checkpoint) accel__checkpoint_forget_all(ep->checkpoint);
  free(stored.in_file);
  free(stored.row_dtype);
  return status;
}
