/* fit.h - what a model takes on a device at a precision, and whether it is there: the plugin's own
 * planner, run dry. */
#ifndef ACCEL_DISPATCH_FIT_H
#define ACCEL_DISPATCH_FIT_H

#include "dispatch/endpoint.h"

/* One run of one entry that gives outputs[n_outputs] of it. */
typedef struct accel__fit_run {
  uint32_t entry;
  const uint32_t *outputs;
  uint32_t n_outputs;
} accel__fit_run;

/* One run with the shapes of its inputs; of the batch the data is not looked at. */
typedef struct accel__fit_call {
  accel__fit_run run;
  const accel__batch *batch;
} accel__fit_call;
enum { ACCEL__FIT_CALLS = 16 };

/* The work to plan for. */
typedef struct accel__fit_work {
  uint32_t batch;  /* sequences; 0: the program's typical number */
  uint64_t tokens; /* of all sequences; 0: typical */
  uint64_t rows;   /* of them in one run, where prompts go in pieces; 0: all */
  uint32_t side;   /* of pictures in pixels, and samples of sounds; 0: typical */
  uint64_t more;   /* tokens that states hold beside them: generated ones */
  uint64_t tables; /* bytes of the process beside what is planned: the tokenizer's */
  /* How the load streams, which this work does not change (budget 0: it does not); NULL: that is to
   * be planned, for this work. */
  const accel__streaming *loaded;
  uint64_t limit; /* memory limit in place of the context's; 0: that one */
  /* Of a subject that is loaded (`loaded` says how): what this run alone takes, beside weights.
   * NULL: what a load or a generation runs. */
  const accel__fit_run *run;
  /* [n_call], at most ACCEL__FIT_CALLS, in place of batch, tokens and side: runs one after the other
   * of which each takes its own, and `host` bytes of the process beside them. */
  const accel__fit_call *call;
  uint32_t n_call;
  uint64_t host;
} accel__fit_work;

/* Of a model over several devices: what is asked of one of them. */
typedef struct accel__fit_part {
  const accel__device *device;
  uint32_t first_layer, last_layer;
  uint64_t weights, total, limit; /* as in accel__fit */
  accel__streaming streaming;
  bool fits;
} accel__fit_part;

typedef struct accel__fit {
  accel_plugin_estimate estimate;
  accel_plugin_memory memory;              /* of the device, now; 0: not known */
  uint64_t tokens;                         /* planned for, the generated ones included */
  uint64_t state;                          /* fixed, and of `tokens` tokens */
  uint64_t staging;                        /* host memory for results, beside the plugin's own */
  uint64_t call_scratch[ACCEL__FIT_CALLS]; /* of work.call: scratch of each */
  uint64_t tables; /* work.tables, where the device's memory is the process's; else 0 */
  /* while running: weights that are not in the file, scratch, state, staging, tables */
  uint64_t total;
  uint64_t peak; /* the larger of total and the peak while loading */
  /* what it may use: free memory of the device, or the user's limit; 0: not known */
  uint64_t limit;
  /* The smallest memory limit under which all weights stay in memory; 0: the user gave no limit, or
   * the device has less. */
  uint64_t whole;
  bool fits; /* with all weights in memory, or streaming */
  /* {0}: all weights are in memory, or nothing fits.  `least` is told wherever the user gave a
   * limit and the plugin can stream the model. */
  accel__streaming streaming;
  /* Why the model, which could be streamed from the cache of packed weights, is not: a sentence
   * with a remedy; "". */
  char not_kept[384];
  bool of_process; /* the device's memory is what the process has: a processor */
  /* of several devices, whose sums stand above; n_part 0: one */
  uint32_t n_part;
  accel__fit_part part[ACCEL__MAX_PARTS];
} accel__fit;

/* A program, or a part of one, on one device. */
typedef struct accel__fit_subject {
  accel_endpoint *ep; /* need not be placed */
  const accel__device *device;
  const accel_plugin_precision *precision; /* formats of the program's, or the part's, weights */
  const accel__source *source;             /* of the whole program's weights */
  const accel__part *part;                 /* NULL: the whole program */
  uint64_t taken;                          /* of the device's memory, by other parts */
  uint64_t
      host_taken; /* of the host's: by parts on processors, and weights of others that lie there */
} accel__fit_subject;
accel_status accel__fit_subject_estimate(const accel__fit_subject *subject,
                                         const accel__fit_work *work, accel__fit *out);
/* supports, for all entries of `program`: ACCEL_ERROR_PRECISION with the plugin's reason. */
accel_status accel__device_supports(const accel__device *device,
                                    const accel_plugin_program *program,
                                    const accel_plugin_precision *precision);

/* Asks about `device` at `precision`; `source` hands out the weights in its formats.  ep: a model
 * that need not be placed. Of a model that generates a generation is planned, of others the runs of
 * all entries: "forward" of a language model, whose scores are of all tokens, takes more. Errors
 * are the plugin's; a model too large is no error here. */
accel_status accel__fit_estimate(accel_endpoint *ep, const accel__device *device,
                                 const accel_plugin_precision *precision,
                                 const accel__source *source, const accel__fit_work *work,
                                 accel__fit *out);
/* What of symbol[n_symbol] the work decides; the others stay as they are. */
void accel__fit_symbols(const accel_plugin_program *program, const accel__fit_work *work,
                        int64_t *symbol);
/* symbol[n_symbol] of `program`, the endpoint's or a part of it, in a call's run; 0: those that do not
 * follow from its inputs. */
accel_status accel__fit_call_symbols(const accel_endpoint *ep, const accel_plugin_program *program,
                                     const accel__fit_call *call, int64_t *symbol);
/* ACCEL_ERROR_DOES_NOT_FIT with the numbers when it does not, and with what does: a limit, and
 * `other`, a precision (NULL: none). */
accel_status accel__fit_check(const accel__fit *fit, const char *device, const char *precision,
                              const char *other);
/* The weights of the endpoint's program in a precision's formats. */
accel_status accel__endpoint_source(accel_endpoint *ep, const accel_plugin_precision *precision,
                                    accel__arena *arena, accel__source **out);
/* The same for the endpoint's program; of several devices each is asked about its part. */
accel_status accel__ask_supports(accel_endpoint *ep, const accel__device *device,
                                 const accel_plugin_precision *precision);

#endif
