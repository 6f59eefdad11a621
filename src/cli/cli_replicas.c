/* cli_replicas.c - which devices of --device all have done what. */
#include "cli/cli_print.h"

static const char *standing_of(const accel_replica_stats *s) {
  return s->standing > 0 ? "in" : s->standing < 0 ? "lost" : "out";
}

/* Of device i, where several share the work. */
static bool ask_replica(const accel_endpoint *endpoint, uint32_t i, accel_replica_stats *s) {
  *s = (accel_replica_stats){.size = sizeof *s};
  return accel_replica_count(endpoint) > 1 && accel_replica_statistics(endpoint, i, s) == ACCEL_OK;
}

void cli_json_replicas(cli_json *json, const accel_endpoint *endpoint) {
  accel_replica_stats s;
  if (accel_replica_count(endpoint) < 2) return;
  cli_json_open(json, "replicas", '[');
  for (uint32_t i = 0; i < accel_replica_count(endpoint); ++i) {
    if (!ask_replica(endpoint, i, &s)) continue;
    cli_json_open(json, NULL, '{');
    cli_json_text(json, "device", s.device);
    cli_json_text(json, "standing", standing_of(&s));
    if (*s.reason) cli_json_text(json, "reason", s.reason);
    cli_json_int(json, "runs", (int64_t)s.runs);
    cli_json_int(json, "items", (int64_t)s.items);
    cli_json_int(json, "units", (int64_t)s.units);
    cli_json_int(json, "failures", (int64_t)s.failures);
    cli_json_int(json, "trials", (int64_t)s.trials);
    cli_json_float(json, "seconds", s.seconds);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

void cli_say_replicas(const cli_run *run, const accel_endpoint *endpoint) {
  accel_replica_stats s;
  if (!cli_flag(run, OPT_VERBOSE)) return;
  for (uint32_t i = 0; i < accel_replica_count(endpoint); ++i)
    if (ask_replica(endpoint, i, &s))
      fprintf(stderr, "accel: %s (%s): %llu items in %llu runs, %.3f s; %llu trials%s%s\n",
              s.device, standing_of(&s), (unsigned long long)s.items, (unsigned long long)s.runs,
              s.seconds, (unsigned long long)s.trials, *s.reason ? "; " : "", s.reason);
}
