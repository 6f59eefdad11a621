/* step_plan.c - the steps that a run would have. */
#include "dispatch/step_plan.h"
#include "dispatch/services.h"
#include "models/model_build.h"

#include <string.h>

typedef struct telling {
  const accel_plugin_program *program;
  uint32_t entry, n;
  accel_profile_fn fn;
  void *user;
} telling;

static void tell(void *self, const accel_plugin_step *step) {
  telling *t = self;
  accel_profile_step report;
  if (step->entry != t->entry || !accel__profile_report(t->program, step, &report)) return;
  t->n++;
  t->fn(t->user, &report);
}

/* Marks what is computed of the entry; nothing of the others. */
static accel_status mark_outputs(const accel_endpoint *ep, uint32_t entry, const char *name,
                                 uint8_t *wanted) {
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  const accel__model_entry *e = &ep->model->entries[entry];
  bool any = false;
  for (uint32_t i = 0; i < entry; i++) wanted += p->entry[i].n_out;
  for (uint32_t i = 0; i < e->n_outputs; i++) {
    wanted[i] = name ? !strcmp(name, e->outputs[i].name) : !e->outputs[i].asked;
    any |= wanted[i] != 0;
  }
  return any || !name ? ACCEL_OK
                      : accel__fail(ACCEL_ERROR_ARGUMENT, "%s: entry '%s' has no output '%s'",
                                    ep->name, e->name, name);
}

accel_status accel__plan_steps(accel_endpoint *ep, const accel__device *device,
                               const accel_plugin_precision *precision,
                               const accel__planned_run *run, accel_profile_fn fn, void *user) {
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  const int32_t entry = accel__endpoint_entry(ep, run->entry);
  accel__arena arena = {0};
  accel_plugin_estimate estimate = {.size = sizeof estimate};
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  uint32_t n_out = 0;
  if (entry < 0)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s (%s) has no entry '%s'", ep->name,
                       ep->model->architecture, run->entry);
  if (device->parts)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: steps are planned for one device, not several",
                       device->info.name);
  for (uint32_t i = 0; i < p->n_entry; i++) n_out += p->entry[i].n_out;
  telling t = {.program = p, .entry = (uint32_t)entry, .fn = fn, .user = user};
  int64_t *symbol = accel__arena_array(&arena, p->n_symbol + 1, sizeof *symbol);
  uint8_t *wanted = accel__arena_array(&arena, n_out + 1, 1);
  accel_status status = symbol && wanted ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
  if (status == ACCEL_OK) status = mark_outputs(ep, t.entry, run->output, wanted);
  if (status == ACCEL_OK && run->call)
    status = accel__fit_call_symbols(ep, p, run->call, symbol);
  else if (status == ACCEL_OK)
    accel__fit_symbols(p, &run->work, symbol);
  if (status == ACCEL_OK) {
    const accel_plugin_options options = {.size = sizeof options,
                                          .max_sequences = run->work.batch,
                                          .precision = *precision,
                                          .host = &ep->host,
                                          .symbol = symbol,
                                          .wanted = wanted,
                                          .planned = tell,
                                          .planned_self = &t,
                                          .past_tokens = run->past,
                                          .static_tokens = run->fixed};
    if (device->plugin->estimate(device->index, p, &options, &estimate, &error) != ACCEL_PLUGIN_OK)
      status = accel__fail(ACCEL_ERROR_PRECISION, "%s", error.message);
    else if (!t.n)
      status = accel__fail(ACCEL_ERROR_UNSUPPORTED, "the plugin of %s plans no steps",
                           device->info.name);
  }
  accel__arena_free(&arena);
  return status;
}
