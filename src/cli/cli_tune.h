/* cli_tune.h - accel tune: inputs, what a model makes of them, and the search for the cheapest
 * precisions. */
#ifndef ACCEL_CLI_CLI_TUNE_H
#define ACCEL_CLI_CLI_TUNE_H

#include "cli/cli_print.h"

/* ---- inputs (cli_tune_inputs.c) ---- */

/* One thing that the model is asked: a text to be embedded, or tensors to be run. */
typedef struct tune_input {
  const char *name; /* its file, or the text */
  const char *text; /* NULL: it is no text */
  bool held_out;    /* not for the search */
  bool embeds;      /* text goes through accel_embed(); else `tensors` through accel_run() */
  accel_tensors tensors;
  accel_tensor item[8];   /* what `tensors` has */
  accel_tensors *read;    /* of the library; NULL: none */
  int64_t *ids;           /* of input_ids; NULL: none */
  int64_t *decoder_ids;   /* of decoder_input_ids; NULL: none */
  accel_tensors *outputs; /* of the reference */
} tune_input;

typedef struct tune_inputs {
  tune_input *item; /* [n] */
  uint32_t n, n_held;
  cli_texts *texts; /* [n_texts] files of texts, whose strings the items have */
  uint32_t n_texts;
} tune_inputs;

/* Reads the files of --input, and holds every third input out where there are three.  0 or an exit
 * code; free in any case. */
int tune_inputs_read(cli_run *run, tune_inputs *out);
/* Makes the tensors: texts are tokenized (cut at the model's length), pictures and sounds
 * preprocessed; what a speech model's decoder is given is what `reference` has heard. */
int tune_inputs_prepare(cli_run *run, accel_endpoint *reference, tune_inputs *inputs);
/* Runs all of them on the reference, and keeps its outputs. */
accel_status tune_inputs_refer(accel_endpoint *reference, tune_inputs *inputs);
void tune_inputs_free(tune_inputs *inputs);

/* For each input that is held out, or each of the others, the smallest cosine between the
 * endpoint's outputs and the reference's (docs/tuning.md says of what parts of an output).
 * cosine[*n] has room for inputs->n. */
accel_status tune_compare(accel_endpoint *endpoint, const tune_inputs *inputs, bool held_out,
                          double *cosine, uint32_t *n);
/* Milliseconds of one pass over the inputs that are not held out: embeddings together, other runs
 * one by one; of texts for a language model a generation of new_tokens each, together. */
accel_status tune_pass(accel_endpoint *endpoint, const tune_inputs *inputs, uint32_t new_tokens,
                       double *ms);

/* ---- the search (cli_tune_search.c) ---- */

enum { TUNE_KINDS = 16, TUNE_TRIES = 256, TUNE_ROUNDS = 100 };

typedef enum tune_verdict {
  TUNE_HOLDS,      /* on all inputs */
  TUNE_BELOW,      /* on inputs of the search a cosine is below the bound */
  TUNE_UNSURE,     /* on none, but others may be: `expected` is below the bound */
  TUNE_BELOW_HELD, /* on those held out one is */
  TUNE_CANNOT      /* it cannot run; `why` */
} tune_verdict;

/* A precision, or a mixture of two. */
typedef struct tune_try {
  const char *precision;
  const char *wide; /* of the kinds in `raised`; NULL: none are */
  uint32_t raised;  /* bit i: tune.kind[i] */
  tune_verdict verdict;
  double cosine, held_cosine; /* the smallest of the search, and of those held out */
  double expected;            /* of the search; of all inputs where those held out were looked at */
  bool held_known;            /* looked at on inputs held out */
  double ms[TUNE_ROUNDS];
  uint32_t rounds; /* 0: not timed */
  double median_ms;
  uint64_t weight_bytes;
  char why[256];
} tune_try;

typedef struct tune {
  cli_run *run;
  const char *model;
  tune_inputs inputs;
  double min_cosine;
  uint32_t rounds, new_tokens;
  bool by_memory;  /* what is cheap takes little memory; else little time */
  char device[64]; /* the one that is tuned for, "vulkan:0" */
  char *profile;   /* text of a profile of it at fp32; accel_string_free() */
  char kind[TUNE_KINDS][32];
  uint32_t kinds; /* that the model has */
  tune_try *tries[TUNE_TRIES];
  uint32_t n;
  int chosen; /* in tries; -1: none */
} tune;

/* Opens the model on the reference and on the device, tries what there is, and chooses.  0 or an
 * exit code. */
int tune_search(tune *t);
/* The profile of a try, with what was measured in "tuned"; free() it.  NULL: no memory. */
char *tune_profile_text(const tune *t, const tune_try *try, bool tuned);
/* What other inputs are expected to stay above, by the cosines of n: their distance 1 - cosine is
 * at most three times the largest, and, of three and more, at most the limit below which 99.9 % are
 * with a confidence of 95 % where the logarithms are normal. */
double tune_expected(const double *cosine, uint32_t n);
/* "attention=fp16,head=fp16", "" for one precision; in `into`, which it returns. */
const char *tune_kinds_text(const tune *t, const tune_try *try, char *into, size_t size);
void tune_free(tune *t);

#endif
