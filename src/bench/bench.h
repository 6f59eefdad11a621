/* bench.h - timing a model through the public interface, and keeping the results.  Part of the
 * accel tool, not of libaccel.so. */
#ifndef ACCEL_BENCH_BENCH_H
#define ACCEL_BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "accel/accel.h"

enum { BENCH_SAMPLE_RATE = 16000, BENCH_MAX_SAMPLES = 30 * BENCH_SAMPLE_RATE };

typedef struct bench_params {
  const char *model;
  const accel_init_params *how;
  /* the tensor to compute; NULL: last_hidden_state, else the last hidden state */
  const char *output;
  /* inputs; tokens of each (with `ragged` 5 to seq), a picture's side in pixels, or samples of a
   * sound; seq 0: 128, or the model's limit where that is less; 224; 80000 */
  uint32_t batch, seq;
  const uint32_t *lengths; /* [batch] or NULL */
  bool ragged;             /* lengths drawn from ragged_seed */
  uint64_t ragged_seed;
  uint64_t seed; /* of the ids */
  uint32_t iters, warmup, rounds;
  bool profile; /* after the timed runs of the last round as many again, step by step */
  /* of a profile: so many runs instead, and the machine's peaks are not measured; 0: neither */
  uint32_t brief_profile;
  /* 0: one run of the encoder; else a generation: the prompts' prefill, then so many greedy tokens
   * each */
  uint32_t new_tokens;
  /* `seq` samples of noise (0: 30 s) through a model of speech that generates; batch 1 */
  bool transcribes;
  /* a pipeline that makes pictures: `batch` of one prompt, of so many pixels, in so many steps; 0: as
   * the pipeline has them.  tiled: its autoencoder runs over tiles */
  bool paints, tiled;
  uint32_t width, height, steps;
  /* kept with the result: single-stream, server ...; what a suite asked for.  NULL: none */
  const char *scenario, *cell;
  /* of a server, else 0: requests arrive by chance (Poisson), on average `load` times as many as it
   * can serve one by one, which warm-up runs tell; `iters` of them in a round.  A latency then is
   * from the arrival to the answer, with the time that a request waits for earlier ones.
   * p99_bound_ms: what p99_ms is to keep; 0: none, kept with the result */
  double load, p99_bound_ms;
  bool
      only_tokens; /* ACCEL_ERROR_UNSUPPORTED where inputs are no texts, or `seq` is beyond the model's limit */
  bool drops_pages; /* before each load the files of the model are dropped from the page cache */
  bool loads_first; /* one load that is not timed comes before the rounds */
  /* A model whose weights are read again for each token: each generation beside a read of the same
   * bytes alone, in turn.  new_tokens 2 at least. */
  bool streams;
  uint64_t memory_limit; /* of the context; 0: none */
} bench_params;

/* One step of the program, over all profiled runs. */
typedef struct bench_step {
  uint32_t index, stage, calls;      /* node, layer; calls in all runs */
  char *node, *op;                   /* "encoder.layer.3.attention.self"; "attention" */
  double us, min_us;                 /* of one run: mean, least */
  double flop, bytes;                /* of one run */
  double weight_bytes, result_bytes; /* parts of bytes; both 0: not known */
  double limit_us;                   /* what its instructions take at least, of one run */
  bool limit_unknown;                /* of some of its calls */
} bench_step;

typedef struct bench_profile {
  uint32_t n, runs;
  bool decoding;     /* a run is one step of a generation, after its prompts */
  bool device_clock; /* times are the device's; false: the host's */
  bench_step *step;  /* [n] in the order of the program */
  /* of one run, what lies outside the steps included; mean */
  double wall_us;
  /* of this machine with as many threads, measured right after; 0: not a CPU */
  double peak_gflops, peak_gbytes_per_s;
} bench_profile;

/* Sums of steps that share something. */
typedef struct bench_group {
  const char *name; /* of an op; NULL: a layer */
  uint32_t stage, calls, nodes;
  double us, flop, bytes; /* of one run */
  double limit_us;        /* sum of bench_limit_us */
  bool limit_unknown;     /* of some of them */
} bench_group;
/* The least time of a step: its bytes at the rate of plain reads, or its instructions if they take
 * longer.  0: not known. */
double bench_limit_us(const bench_profile *profile, const bench_step *step);
/* By op (most time first) or by layer (in order); *groups is to be freed.  Returns how many; 0
 * without memory. */
uint32_t bench_group_steps(const bench_profile *profile, bool by_op, bench_group **groups);

typedef struct bench_round {
  double load_ms;     /* accel_init */
  double first_ms;    /* the first run: plans, scratch memory, cold caches */
  double *latency_ms; /* [iters] inputs in, output tensor out and freed */
  /* [iters] of a generation: to the first token of every sequence, and from there; of a
   * transcription: the encoder alone, and from the first token to the last; of pictures: a step, and
   * decoding */
  double *prefill_ms, *decode_ms;
  double energy_j; /* of the timed runs together; NaN: not told, or reads alone are between them */
  double offered_per_s, answered_per_s; /* requests of a server */
  /* of a streaming model, and of a generation that is profiled: [iters x (new_tokens - 1)] from
   * token to token, 0 where there was none; of the former: [iters] of reading what a token reads,
   * alone; else NULL */
  double *token_ms, *raw_ms;
} bench_round;

/* What bench_params.streams is for; all 0 without it. */
typedef struct bench_stream {
  uint64_t resident, staging; /* weights in memory; through which the others pass, bytes */
  uint64_t read;              /* by a token (a step of the batch) */
  double token_p50_ms, token_p95_ms;
  /* medians over generations: while tokens are made; alone; one by the other */
  double gbytes_per_s, raw_gbytes_per_s, raw_share;
  double wait_share; /* of the time of all generations */
} bench_stream;

/* what the lengths count */
typedef enum bench_kind { BENCH_TOKENS, BENCH_PICTURES, BENCH_SAMPLES, BENCH_LATENTS } bench_kind;

typedef struct bench_result {
  bench_kind kind;
  uint32_t rounds, iters, batch;
  bench_round *round;
  uint32_t *lengths; /* [batch] */
  /* of one run, padding not counted; 0 for pictures and sounds */
  uint64_t tokens;
  /* over all rounds; median_ms: median of the rounds' medians */
  double min_ms, median_ms, mean_ms, p90_ms, max_ms;
  double items_per_s, prefill_tokens_per_s;         /* at the median */
  uint32_t new_tokens;                              /* of each sequence; 0: nothing is decoded */
  double decode_tokens_per_s, decoder_ms_per_token; /* all sequences together; one step of them */
  bool paints;                                      /* pictures of a pipeline, as in the params */
  uint32_t width, height, steps;
  double step_ms, decode_ms; /* of pictures, medians: a run of the model, the autoencoder */
  bool transcribes;          /* a sound to text; */
  double encoder_ms;         /* median */
  double p99_ms;             /* NaN: fewer than 100 latencies */
  double p99_bound_ms, offered_per_s; /* of a server; else NaN */
  double energy_j; /* of one run, of the whole processor; NaN: the kernel does not tell */
  double load_ms;  /* median of the rounds */
  bool streams;
  bench_stream stream;
  uint64_t memory_limit; /* 0: none */
  uint64_t peak_rss_bytes;
  char scenario[24], cell[20]; /* "" none */
  char output[64];             /* the tensor that was computed: "last_hidden_state" */
  char device[64], precision[32], implementation_type[32], driver[160], weights[64], model[512];
  char cpu[128]; /* the machine's, from /proc/cpuinfo */
  /* of the device: PCI address, UUID or the plugin's own name of it; of the build of this program */
  char device_id[128], build[64];
  char hardware[32], plugin[32], device_type[16], arch[64], description[160]; /* "" not known */
  int32_t is_amd, listed;
  uint32_t threads;
  bench_profile profile; /* n 0: none */
} bench_result;

/* Loads the model `rounds` times and times `iters` runs each.  `placed` is told where the first
 * endpoint runs; may be NULL.  Free the result in any case. */
typedef void (*bench_placed)(void *user, const accel_placement_report *placement);
accel_status bench_run(accel *ctx, const bench_params *params, bench_placed placed, void *user,
                       bench_result *out);
void bench_result_free(bench_result *result);

/* Fused multiply-adds that stay in registers, and reads of memory that no cache holds, by `threads`
 * threads at once: what one cannot do better than.  GFLOP/s, GB/s; 0 when it cannot be measured. */
double bench_peak_gflops(uint32_t threads);
double bench_peak_gbytes_per_s(uint32_t threads);

/* The profile as a picture: a self-contained SVG, layers above their steps, width is time; then
 * bars of the ops.  false: `message` says why. */
bool bench_picture(const char *path, const bench_result *result, char *message, uint32_t size);

/* A figure of an earlier result beside the new one. */
typedef struct bench_change {
  char what[64];
  double before, after; /* NaN: not there */
  /* how many times as good it is now: before / after for times and sizes, after / before for
   * rates */
  double times;
  double noise; /* one standard error of `times`; 0: not known */
  int verdict;  /* 1 better, -1 worse, 0 within the noise; 2: no verdict */
} bench_change;
typedef struct bench_comparison {
  uint32_t n;
  bench_change *change;
  char unlike[512]; /* what was not the same: "threads 1, 2; batch 8, 1"; "" when all was */
} bench_comparison;
/* Compares with the JSON of an earlier `accel bench --json`, or of bench_stored. */
bool bench_compare(const char *old_json, const bench_result *now, bench_comparison *out,
                   char *message, uint32_t size);
void bench_comparison_free(bench_comparison *comparison);

/* Adds the result to a SQLite file, which is made when absent.  false: `message` says why. */
bool bench_store(const char *path, const bench_result *result, char *message, uint32_t size);
/* The latest run there, made on this machine, of the same model, task, device, precision, threads,
 * batch, lengths and output as `like`, as JSON that bench_compare reads; to be freed.  false:
 * `message` says why. */
bool bench_stored(const char *path, const bench_result *like, char **json, char *message,
                  uint32_t size);

#endif
