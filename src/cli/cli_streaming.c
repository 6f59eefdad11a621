/* cli_streaming.c - what was read of a model whose weights do not all stay in memory. */
#include "cli/cli_print.h"

static bool ask_streaming(const accel_endpoint *endpoint, accel_stream_stats *s) {
  *s = (accel_stream_stats){.size = sizeof *s};
  return accel_streaming(endpoint, s) == ACCEL_OK && s->streaming;
}

void cli_json_streaming(cli_json *json, const accel_endpoint *endpoint) {
  accel_stream_stats s;
  if (!ask_streaming(endpoint, &s)) return;
  cli_json_open(json, "streaming", '{');
  cli_json_int(json, "resident_bytes", (int64_t)s.resident);
  if (s.host) cli_json_int(json, "host_bytes", (int64_t)s.host);
  if (s.disk) cli_json_int(json, "disk_bytes_per_run", (int64_t)s.disk);
  cli_json_int(json, "staging_bytes", (int64_t)s.staging);
  cli_json_int(json, "read_bytes_per_run", (int64_t)s.read_per_run);
  cli_json_int(json, "least_memory_bytes", (int64_t)s.least_limit);
  cli_json_int(json, "read_bytes", (int64_t)s.bytes);
  cli_json_float(json, "wait_seconds", s.wait_seconds);
  cli_json_bool(json, "direct", s.direct != 0);
  cli_json_int(json, "load_bytes", (int64_t)s.load_bytes);
  cli_json_float(json, "load_seconds", s.load_seconds);
  cli_json_int(json, "runs", (int64_t)s.runs);
  cli_json_float(json, "run_seconds", s.run_seconds);
  cli_json_float(json, "gbytes_per_s", 1e-9 * s.bytes_per_second);
  cli_json_float(json, "wait_share", s.wait_share);
  if (s.expert_memory) {
    cli_json_int(json, "expert_memory_bytes", (int64_t)s.expert_memory);
    cli_json_int(json, "expert_hits", (int64_t)s.expert_hits);
    cli_json_int(json, "expert_misses", (int64_t)s.expert_misses);
    cli_json_int(json, "expert_read_bytes", (int64_t)s.expert_bytes);
  }
  cli_json_close(json, '}');
}

void cli_say_streaming(const cli_run *run, const accel_endpoint *endpoint) {
  accel_stream_stats s;
  if (!cli_flag(run, OPT_VERBOSE) || !ask_streaming(endpoint, &s)) return;
  if (s.host) {
    fprintf(stderr,
            "accel: streamed: %.1f MB of weights on the device, %.1f MB in host memory, through "
            "%.1f MB\n"
            "accel: streamed: %llu runs copied %.1f MB to the device in %.3f s: %.2f GB/s\n",
            1e-6 * (double)s.resident, 1e-6 * (double)s.host, 1e-6 * (double)s.staging,
            (unsigned long long)s.runs, 1e-6 * (double)s.bytes, s.run_seconds,
            1e-9 * s.bytes_per_second);
    if (s.disk)
      fprintf(stderr,
              "accel: streamed: %.1f MB of each run were read from files%s, %.0f %% of the time "
              "waiting for them\n",
              1e-6 * (double)s.disk, s.direct ? " around the page cache" : "", 100 * s.wait_share);
    return;
  }
  fprintf(stderr,
          "accel: streamed: %.1f MB of weights in memory, %.1f MB of staging; %.1f MB read in "
          "%.3f s while loading\n",
          1e-6 * (double)s.resident, 1e-6 * (double)s.staging, 1e-6 * (double)s.load_bytes,
          s.load_seconds);
  fprintf(stderr,
          "accel: streamed: %llu runs read %.1f MB%s in %.3f s: %.2f GB/s, %.0f %% of the time "
          "waiting for them\n",
          (unsigned long long)s.runs, 1e-6 * (double)(s.bytes - s.load_bytes),
          s.direct ? " around the page cache" : "", s.run_seconds, 1e-9 * s.bytes_per_second,
          100 * s.wait_share);
  const uint64_t used = s.expert_hits + s.expert_misses;
  if (used)
    fprintf(stderr,
            "accel: streamed: of %llu experts %.0f %% were in %.1f MB of memory, the others were "
            "%.1f MB to read\n",
            (unsigned long long)used, 100 * (double)s.expert_hits / (double)used,
            1e-6 * (double)s.expert_memory, 1e-6 * (double)s.expert_bytes);
}
