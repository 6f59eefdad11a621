/* bench_candidates.h - what the database knows of a model on each device at each precision of this
 * machine: figures of one case, so that they can stand beside each other, and verdicts. */
#ifndef ACCEL_BENCH_CANDIDATES_H
#define ACCEL_BENCH_CANDIDATES_H

#include "bench/bench_db.h"

typedef enum bench_metric {
  BENCH_LATENCY,    /* ms of a run */
  BENCH_THROUGHPUT, /* items a second */
  BENCH_MEMORY,     /* bytes: the peak of the process, of the CPU and software devices */
  BENCH_ENERGY,     /* J of a run */
  BENCH_METRICS
} bench_metric;
extern const char *const bench_metric_names[BENCH_METRICS];

typedef struct bench_interval {
  double value, low, high; /* NaN: not known */
  bool predicted;          /* the reader's; false at first */
} bench_interval;

typedef struct bench_candidate {
  char device[64], driver[160], id[128], precision[32];
  int golden;    /* 1: all passed, -1: one failed, 0: not run by this build */
  double cosine; /* the least of theirs; NaN: not known */
  bench_interval figure[BENCH_METRICS];
} bench_candidate;

/* Which rows are wanted.  Texts are the caller's. */
typedef struct bench_wanted {
  const char *model, *weights;  /* as rows have them */
  const char *model_hash;       /* of verdicts; "": none is looked for */
  const char *task;             /* NULL: that of the newest run */
  uint32_t threads, batch, seq; /* batch, seq 0: any */
} bench_wanted;

/* The case that figures of a metric are of: that of the wanted batch and length, if there is one;
 * else the one that most candidates have, of these the smallest batch (of throughput the
 * largest). */
typedef struct bench_case {
  char task[16], output[64]; /* task "": there is none */
  uint32_t batch, length, new_tokens;
  bool ragged; /* length is the first of several */
} bench_case;

typedef struct bench_candidates {
  uint32_t n;
  bench_candidate *item;
  bench_case of[BENCH_METRICS];
  uint32_t stale, elsewhere; /* runs of the model by other builds; on other machines */
} bench_candidates;
/* Rows count that this build made on this machine, without a memory limit, and neither as a server
 * nor as a start.  false: `message` says why; free the result in any case. */
bool bench_candidates_read(const bench_db *db, const bench_wanted *wanted, bench_candidates *out,
                           char *message, uint32_t size);
/* The candidate of these four, made where it is absent; NULL: no memory. */
bench_candidate *bench_candidate_of(bench_candidates *to, const char *device, const char *driver,
                                    const char *id, const char *precision);
void bench_candidates_free(bench_candidates *candidates);

#endif
