/* constraint.c - a grammar's masks with the tokens that end a sequence. */
#include "generate/constraint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

accel_status accel__constraint_new(accel__grammar *grammar, const accel__tokenizer *tokenizer,
                                   accel__ids eos, accel__constraint **out) {
  const accel__token_trie *trie;
  *out = NULL;
  if (!tokenizer)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "a grammar needs the model's tokenizer");
  if (!eos.n)
    return accel__remedy(
        accel__fail(ACCEL_ERROR_UNSUPPORTED,
                    "a grammar needs a token that ends the sequence, and there is none"),
        "leave ignore_eos out, or name eos_token_id in the generation configuration");
  ACCEL_TRY(accel__vocabulary_trie(tokenizer, &trie));
  accel__constraint *c = calloc(1, sizeof *c);
  if (!c) return accel__no_memory(sizeof *c);
  size_t tokens = trie->words * 64;
  for (uint32_t i = 0; i < eos.n; i++)
    if (eos.id[i] >= 0 && (size_t)eos.id[i] >= tokens) tokens = ((size_t)eos.id[i] / 64 + 1) * 64;
  c->n_tokens = tokens;
  c->allowed = calloc(tokens / 64 + 1, sizeof *c->allowed);
  accel_status status =
      c->allowed ? accel__matcher_open(grammar, trie, &c->matcher) : accel__no_memory(tokens / 8);
  if (status == ACCEL_OK)
    *out = c;
  else
    accel__constraint_free(&c);
  return status;
}

void accel__constraint_free(accel__constraint **constraint) {
  accel__constraint *c = *constraint;
  if (!c) return;
  accel__matcher_close(&c->matcher);
  free(c->allowed);
  free(c);
  *constraint = NULL;
}

accel_status accel__constraint_allow(accel__constraint *c, uint32_t match, accel__ids eos) {
  const uint64_t *allowed;
  bool may_end;
  ACCEL_TRY(accel__matcher_mask(c->matcher, match, &allowed, &may_end));
  memcpy(c->allowed, allowed, accel__matcher_words(c->matcher) * sizeof *allowed);
  for (uint32_t i = 0; i < eos.n; i++) {
    if (eos.id[i] < 0) continue;
    uint64_t *word = &c->allowed[eos.id[i] / 64], bit = UINT64_C(1) << (eos.id[i] % 64);
    *word = may_end ? *word | bit : *word & ~bit;
  }
  for (size_t w = 0; w < c->n_tokens / 64; w++)
    if (c->allowed[w]) return ACCEL_OK;
  return accel__remedy(
      accel__fail(ACCEL_ERROR_UNSUPPORTED,
                  "no token of the vocabulary goes on with a text that the grammar allows"),
      "use characters that the model's tokenizer has");
}

accel_status accel__constraint_advance(accel__constraint *c, int32_t token, uint32_t *match) {
  ACCEL_TRY(accel__matcher_advance(c->matcher, *match, token, match));
  return *match != ACCEL__MATCH_FAILED
             ? ACCEL_OK
             : accel__fail(ACCEL_ERROR_INTERNAL, "token %d is not in the grammar", token);
}

accel_status accel__constraint_no_token(const accel__constraint *c, const float *scores,
                                        size_t vocab, uint32_t token, uint32_t prompt) {
  bool numbers = c != NULL;
  for (size_t i = 0; numbers && i < vocab && i < c->n_tokens; i++)
    numbers = !(c->allowed[i / 64] >> (i % 64) & 1) || !isnan(scores[i]);
  if (!numbers)
    return accel__fail(ACCEL_ERROR_NONFINITE, "token %u of prompt %u: no score is a finite number",
                       token, prompt);
  return accel__remedy(
      accel__fail(
          ACCEL_ERROR_ARGUMENT,
          "token %u of prompt %u: other settings exclude all tokens that the grammar allows", token,
          prompt),
      "look at min_new_tokens, suppress_tokens, bad_words_ids and no_repeat_ngram_size");
}
