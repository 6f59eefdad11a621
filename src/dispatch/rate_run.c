/* rate_run.c - see rate_run.h. */
#include "dispatch/rate_run.h"

#include "core/text.h"
#include "dispatch/precision.h"

enum { ROUNDS = 3 };

bool accel__rate_prepare(accel__rate_run *r, const char *precision, accel__arena *arena) {
  r->options = (accel_plugin_options){.size = sizeof r->options, .host = r->host, .extra = ""};
  if (accel__precision_for(r->program, precision, NULL, 0, arena, &r->options.precision) !=
      ACCEL_OK)
    return false;
  r->options.precision.flags = ACCEL_PLUGIN_ALLOW_EMULATED;
  const uint32_t n = r->program->n_entry;
  accel_plugin_verdict *verdict = accel__arena_array(arena, n, sizeof *verdict);
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  if (!verdict) return false;
  for (uint32_t i = 0; i < n; i++) verdict[i].size = sizeof *verdict;
  bool good = r->device->plugin->supports(r->device->index, r->program, &r->options.precision,
                                          verdict, &error) == ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; i < n; i++) good &= verdict[i].answer != ACCEL_PLUGIN_NO;
  return good;
}

bool accel__rate_open(accel__rate_run *r) {
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  return r->device->plugin->init(r->device->index, r->program, &r->options, &r->endpoint, &error) ==
         ACCEL_PLUGIN_OK;
}

void accel__rate_close(accel__rate_run *r) {
  if (r->endpoint) r->device->plugin->cleanup(r->endpoint, r->host);
  r->endpoint = NULL;
}

static bool run_once(const accel__rate_run *r, uint32_t entry, const accel_plugin_view *in,
                     const accel_plugin_view *out) {
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  accel_plugin_view y = *out; /* its dims are written */
  accel_plugin_run run = {.size = sizeof run, .entry = entry, .host = r->host};
  return r->device->plugin->handler(r->endpoint, NULL, &run, in, 1, &y, 1, &error) ==
         ACCEL_PLUGIN_OK;
}

double accel__rate_time(const accel__rate_run *r, uint32_t entry, const accel_plugin_view *in,
                        const accel_plugin_view *out, uint64_t least_ns) {
  uint64_t ns = 0;
  uint32_t n = 0;
  if (!run_once(r, entry, in, out)) return 0; /* makes plans and touches memory */
  const uint64_t begin = accel__now_ns();
  for (; n < ROUNDS || ns < least_ns; ns = accel__now_ns() - begin, n++)
    if (!run_once(r, entry, in, out)) return 0;
  return 1e-9 * (double)ns / n;
}
