/* vocabulary.h - the tokens of a tokenizer as bytes, and the grammars that were compiled for them:
 * made when they are first asked for, and kept by the tokenizer. */
#ifndef ACCEL_TEXT_GRAMMAR_VOCABULARY_H
#define ACCEL_TEXT_GRAMMAR_VOCABULARY_H

#include "text/grammar/grammar.h"
#include "text/tokenizer.h"

#define ACCEL__SPECIAL_TOKEN \
  "\xFF" /* in front of a special token's text, among the tokens' bytes */

enum { ACCEL__GRAMMAR_CACHE_BYTES = 64 << 20 /* of all grammars of a tokenizer, masks included */ };

/* A grammar, compiled or found among those that were compiled for this tokenizer before; released
 * by the caller.  Threads: any number. */
accel_status accel__vocabulary_grammar(const accel__tokenizer *tokenizer, accel_grammar_kind kind,
                                       const char *text, size_t n, accel__grammar **out);
/* The trie of the tokens; lives with the tokenizer.
 * ACCEL_ERROR_UNSUPPORTED: the text of several tokens is not that of each, one behind the other
 * (WordPiece, end-of-word suffixes, CTC). */
accel_status accel__vocabulary_trie(const accel__tokenizer *tokenizer,
                                    const accel__token_trie **out);

#endif
