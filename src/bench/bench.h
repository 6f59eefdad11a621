/* bench.h - timing a model through the public interface, and keeping the results.  Part of the accel tool, not of
 * libaccel.so. */
#ifndef ACCEL_BENCH_BENCH_H
#define ACCEL_BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "accel/accel.h"

typedef struct bench_params {
  const char *model;
  const accel_init_params *how;
  const char *output; /* the tensor to compute; NULL: last_hidden_state, else the last hidden state */
  uint32_t batch,
      seq; /* sequences, tokens of each (with `ragged` 5 to seq); seq 0: 128, or the model's limit where that is less */
  const uint32_t *lengths; /* [batch] or NULL */
  bool ragged;             /* lengths drawn from ragged_seed */
  uint64_t ragged_seed;
  uint64_t seed; /* of the ids */
  uint32_t iters, warmup, rounds;
} bench_params;

typedef struct bench_round {
  double load_ms;     /* accel_init */
  double first_ms;    /* the first run: plans, scratch memory, cold caches */
  double *latency_ms; /* [iters] inputs in, output tensor out and freed */
} bench_round;

typedef struct bench_result {
  uint32_t rounds, iters, batch;
  bench_round *round;
  uint32_t *lengths;                                 /* [batch] */
  uint64_t tokens;                                   /* of one run, padding not counted */
  double min_ms, median_ms, mean_ms, p90_ms, max_ms; /* over all rounds; median_ms: median of the rounds' medians */
  double items_per_s, prefill_tokens_per_s;          /* at the median */
  double load_ms;                                    /* median of the rounds */
  uint64_t peak_rss_bytes;
  char output[64]; /* the tensor that was computed: "last_hidden_state" */
  char device[64], precision[32], implementation_type[32], driver[160], weights[64], model[512];
  char cpu[128]; /* the machine's, from /proc/cpuinfo */
  int32_t is_amd, listed;
  uint32_t threads;
} bench_result;

/* Loads the model `rounds` times and times `iters` runs each.  `placed` is told where the first endpoint runs;
 * may be NULL.  Free the result in any case. */
typedef void (*bench_placed)(void *user, const accel_placement_report *placement);
accel_status bench_run(accel *ctx, const bench_params *params, bench_placed placed, void *user, bench_result *out);
void bench_result_free(bench_result *result);

/* Adds the result to a SQLite file, which is made when absent.  false: `message` says why. */
bool bench_store(const char *path, const bench_result *result, char *message, uint32_t size);

#endif
