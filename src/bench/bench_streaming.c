/* bench_streaming.c - tokens of a streaming endpoint beside reads of the same bytes. */
#include "bench/bench_streaming.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most memory that this process ever had; 0: the system does not tell. */
static uint64_t peak_bytes(void) {
  char line[256];
  unsigned long long kib = 0;
  FILE *f = fopen("/proc/self/status", "re");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "VmHWM: %llu", &kib) == 1) break;
  if (f) fclose(f);
  return kib * 1024;
}

static accel_status ask(accel_endpoint *endpoint, accel_stream_stats *now) {
  *now = (accel_stream_stats){.size = sizeof *now};
  return accel_streaming(endpoint, now);
}

accel_status bench_stream_begin(accel_endpoint *endpoint, bench_result *result) {
  accel_stream_stats now;
  const accel_status status = ask(endpoint, &now);
  if (status != ACCEL_OK) return status;
  if (!now.streaming) return ACCEL_ERROR_ARGUMENT;
  if (!result->peak_rss_bytes) result->peak_rss_bytes = peak_bytes();
  result->stream.resident = now.resident;
  result->stream.staging = now.staging;
  return ACCEL_OK;
}

accel_status bench_stream_raw(accel_endpoint *endpoint, double *ms, bench_result *result) {
  double seconds = 0;
  const accel_status status = accel_stream_read(endpoint, &result->stream.read, &seconds);
  *ms = 1e3 * seconds;
  return status;
}

accel_status bench_stream_end(accel_endpoint *endpoint, bench_result *result) {
  accel_stream_stats now;
  const accel_status status = ask(endpoint, &now);
  if (status == ACCEL_OK) result->stream.wait_share += now.wait_share / result->rounds;
  return status;
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The value below which so many of 100 lie; sorts. */
static double percentile(double *values, size_t n, size_t percent) {
  qsort(values, n, sizeof *values, by_size);
  const size_t at = (n * percent + 99) / 100;
  return values[at ? at - 1 : 0];
}

bool bench_stream_summarise(bench_result *r) {
  const size_t n = (size_t)r->rounds * r->iters, steps = r->new_tokens - 1;
  double *tokens = malloc((n * steps + 3 * n + 1) * sizeof *tokens);
  if (!tokens) return false;
  double *rate = tokens + n * steps, *raw = rate + n, *share = raw + n;
  const double bytes = 1e-6 * (double)r->stream.read; /* by ms: GB/s */
  for (uint32_t k = 0; k < r->rounds; ++k) {
    const bench_round *round = &r->round[k];
    memcpy(tokens + k * r->iters * steps, round->token_ms, r->iters * steps * sizeof *tokens);
    for (uint32_t i = 0; i < r->iters; ++i) {
      const size_t at = (size_t)k * r->iters + i;
      rate[at] = bytes * (double)steps / round->decode_ms[i];
      raw[at] = bytes / round->raw_ms[i];
      share[at] = rate[at] / raw[at];
    }
  }
  r->stream.token_p50_ms = percentile(tokens, n * steps, 50);
  r->stream.token_p95_ms = percentile(tokens, n * steps, 95);
  r->stream.gbytes_per_s = percentile(rate, n, 50);
  r->stream.raw_gbytes_per_s = percentile(raw, n, 50);
  r->stream.raw_share = percentile(share, n, 50);
  free(tokens);
  return true;
}
