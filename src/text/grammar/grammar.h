/* grammar.h - what a generated text must be, and which tokens may come next.
 *
 *   accel__grammar *grammar;
 *   ACCEL_TRY(accel__grammar_compile(ACCEL_GRAMMAR_REGEX, "[0-9]+", 6, &grammar));
 *   accel__matcher *matcher;
 *   ACCEL_TRY(accel__matcher_open(grammar, trie, &matcher));
 *   uint32_t state = ACCEL__MATCH_START;
 *   const uint64_t *allowed;                 a bit a token
 *   ACCEL_TRY(accel__matcher_mask(matcher, state, &allowed, &may_end));
 *   ACCEL_TRY(accel__matcher_advance(matcher, state, token, &state));
 *
 * Every source becomes rules over bytes (rules.h), these one automaton (automaton.h).  Where a text
 * stands is a set of automaton states with the stacks they are called from.  Stacks are lists that
 * share their lower ends, sets and stacks are kept once each: a state is a number, which sequences
 * and beams copy and go back to at no cost.
 *
 * Threads: a grammar may serve any number of threads, a matcher one at a time.
 */
#ifndef ACCEL_TEXT_GRAMMAR_H
#define ACCEL_TEXT_GRAMMAR_H

#include "text/grammar/token_trie.h"

typedef struct accel__grammar accel__grammar; /* counted references */
typedef struct accel__matcher accel__matcher; /* of one request */

/* text[n]: UTF-8, what `kind` says it is.  Errors have the place in it: "JSON schema: at
 * #/properties/a/pattern: ...", "regular expression: character 7: ...".  ACCEL_ERROR_UNSUPPORTED:
 * something by name that is not understood. */
accel_status accel__grammar_compile(accel_grammar_kind kind, const char *text, size_t n,
                                    accel__grammar **out);
accel__grammar *accel__grammar_share(accel__grammar *grammar);
void accel__grammar_release(accel__grammar **grammar); /* NULL-safe */
/* Of automaton and masks, as far as they are there. */
size_t accel__grammar_bytes(accel__grammar *grammar);
/* States of its automaton. */
size_t accel__grammar_states(const accel__grammar *grammar);

enum { ACCEL__MATCH_START = 0 };
#define ACCEL__MATCH_FAILED UINT32_MAX /* no text of the grammar begins so */

/* The trie must outlive the matcher and the grammar; a grammar serves one trie. */
accel_status accel__matcher_open(accel__grammar *grammar, const accel__token_trie *trie,
                                 accel__matcher **out);
/* Words of a set of tokens. */
size_t accel__matcher_words(const accel__matcher *m);
void accel__matcher_close(accel__matcher **matcher); /* NULL-safe */
/* The tokens that may follow: allowed[trie->words], valid until the next call.  *may_end: the text
 * may end here. */
accel_status accel__matcher_mask(accel__matcher *m, uint32_t state, const uint64_t **allowed,
                                 bool *may_end);
/* *next: ACCEL__MATCH_FAILED when the token may not follow. */
accel_status accel__matcher_advance(accel__matcher *m, uint32_t state, int32_t token,
                                    uint32_t *next);
/* The same by bytes[n], whatever tokens they are of; *may_end may be NULL. */
accel_status accel__matcher_advance_bytes(accel__matcher *m, uint32_t state, const char *bytes,
                                          size_t n, uint32_t *next, bool *may_end);

#endif
