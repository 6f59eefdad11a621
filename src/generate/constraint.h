/* constraint.h - a grammar at work in a request: which tokens its sequences may go on with. */
#ifndef ACCEL_GENERATE_CONSTRAINT_H
#define ACCEL_GENERATE_CONSTRAINT_H

#include "generate/generate_config.h"
#include "text/grammar/vocabulary.h"

typedef struct accel__constraint {
  accel__matcher *matcher;
  uint64_t *allowed; /* [n_tokens / 64] a bit a token */
  size_t n_tokens;
} accel__constraint;

/* Of one request.  ACCEL_ERROR_UNSUPPORTED: there is no tokenizer, its tokens do not join to texts,
 * or nothing ends a sequence (`eos` holds no token). */
accel_status accel__constraint_new(accel__grammar *grammar, const accel__tokenizer *tokenizer,
                                   accel__ids eos, accel__constraint **out);
void accel__constraint_free(accel__constraint **c); /* NULL-safe */
/* Fills `allowed` for a sequence that stands at `match`; tokens of `eos` where the text may end. */
accel_status accel__constraint_allow(accel__constraint *c, uint32_t match, accel__ids eos);
/* Where the sequence stands behind `token`, which was allowed. */
accel_status accel__constraint_advance(accel__constraint *c, int32_t token, uint32_t *match);
/* Nothing is left to choose from scores[vocab]: NaN, or a grammar and other settings that exclude
 * each other.  c NULL: there is no grammar. */
accel_status accel__constraint_no_token(const accel__constraint *c, const float *scores,
                                        size_t vocab, uint32_t token, uint32_t prompt);

#endif
