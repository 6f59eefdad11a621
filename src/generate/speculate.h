/* speculate.h - tokens that may come next, checked by the model in one run (Leviathan et al. 2023).
 *
 * A sequence that goes on feeds its last token together with some that were guessed, and gets scores
 * after each of them.  It then chooses as ever, row after row, as long as it chooses what was
 * guessed; states of the rest are cut off.  A guess is one token, not a distribution, so accepting
 * it when it is what the request draws is the paper's rejection sampling, and the tokens are those
 * that the request would have drawn without: the same numbers of its stream meet the same scores.
 *
 * Guesses are copied from what stood behind the longest n-gram that the sequence ends with (prompt
 * lookup), or chosen by a small model as the request would choose (assistant_draft.h).  How many
 * depends on how many were right and on what more rows cost here, as measured; none where it does
 * not pay.  One thread.
 */
#ifndef ACCEL_GENERATE_SPECULATE_H
#define ACCEL_GENERATE_SPECULATE_H

#include "dispatch/endpoint.h"
#include "generate/stepper.h"

struct accel__engine;
struct accel__request;
struct accel__hypothesis;

enum {
  /* guesses of a sequence in a step: with its last token, rows that the CPU's kernels compute as if
   * each came alone */
  ACCEL__MOST_DRAFTS = 15,
  ACCEL__STEP_DRAFTS = 64, /* of all sequences of a step */
  ACCEL__NGRAM = 4         /* longest that is looked up, where nobody says */
};

/* How a request speculates. */
typedef struct accel__speculate_options {
  uint32_t most;             /* guesses of a step, at most ACCEL__MOST_DRAFTS; 0: none */
  uint32_t ngram;            /* prompt lookup: longest */
  accel_endpoint *assistant; /* who guesses; NULL: prompt lookup */
} accel__speculate_options;

/* What steps of the model cost here, in milliseconds; {0}: not known. */
typedef struct accel__step_cost {
  double plain;       /* of a step in which each of `sequences` feeds one token */
  double more;        /* for each row more */
  uint32_t sequences; /* that `plain` is of */
  uint32_t measured;  /* steps that `more` is of; 0: a presumption */
} accel__step_cost;
/* A step of so many sequences and rows took so long. */
void accel__step_cost_note(accel__step_cost *c, uint32_t sequences, uint32_t rows, double ms);

/* How often guesses were right. */
typedef struct accel__odds {
  double prior;        /* the chance of one before anything is known */
  double right, wrong; /* older ones count less */
} accel__odds;

/* Guesses of a kind.  A copy goes on or is none: whether the first guess of a step is right says
 * most of those behind it. */
typedef struct accel__guess_record {
  accel__odds first;
  accel__odds *next;      /* of guesses behind right ones; kinds may share it */
  uint32_t waited, pause; /* chances that were passed by since the last trial, and are to be */
} accel__guess_record;

typedef struct accel__speculation {
  /* by length of the n-gram; [0] of an assistant */
  accel__guess_record record[ACCEL__NGRAM + 1];
  accel__odds next[2];                  /* of the assistant, of all n-grams */
  struct accel__assistant_draft *draft; /* NULL: not opened */
  bool off;                             /* its assistant has failed: no more guesses */
} accel__speculation;

accel_status accel__speculation_begin(struct accel__request *r);
void accel__speculation_end(struct accel__request *r);
/* Guesses behind ids[n) of `h`, at most `most`; h->drafted says how many. */
void accel__speculate(struct accel__engine *e, struct accel__request *r,
                      struct accel__hypothesis *h, uint32_t most);
/* Of `made` guesses so many were right. */
void accel__speculation_checked(struct accel__request *r, struct accel__hypothesis *h,
                                uint32_t made, uint32_t right);

/* How many to guess, so that most tokens come in the time: chance that each is right from the
 * record, `each` milliseconds to make one, one of `sequences` in the step.  Now and then one is
 * tried where none pays. */
uint32_t accel__speculate_count(accel__guess_record *record, const accel__step_cost *cost,
                                double each, uint32_t most);
/* So many were made, so many of them right. */
void accel__speculate_note(accel__guess_record *record, uint32_t made, uint32_t right);
/* The latest place in `where` behind the longest n-gram, at most `ngram`, that `ids` ends with; *n:
 * its length, 0: none.  `where` may be ids without its last token. */
uint32_t accel__lookup(accel__ids where, accel__ids ids, uint32_t ngram, uint32_t *n);

#endif
