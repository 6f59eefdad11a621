/* whisper_tokenizer.h - from Whisper's tokens to a transcript: transformers'
 * tokenization_whisper._decode_asr.
 *
 * Tokens come in pieces: one for a sound that was gone through in order, or one for each window of
 * a sound that was cut into overlapping windows, whose tokens are joined where they agree.
 * Timestamps among them bound the chunks of the text.
 */
#ifndef ACCEL_TEXT_WHISPER_TOKENIZER_H
#define ACCEL_TEXT_WHISPER_TOKENIZER_H

#include "core/arena.h"
#include "text/tokenizer.h"

typedef struct accel__whisper_piece {
  const int32_t *ids;
  uint32_t n;
  /* [n] seconds at which tokens begin: the chunks of the text are its words then; NULL: not
   * known */
  const float *times;
  double before; /* the same of the token before ids[0]; 0 at the beginning */
  /* code of what is spoken, with `times`: not all languages put spaces between words; NULL: not
   * known */
  const char *language;
  bool window; /* of a sound cut into windows: */
  /* seconds of it, and of its overlaps with its neighbours (0 at the ends) */
  double length, left, right;
} accel__whisper_piece;

typedef struct accel__whisper_chunk {
  const char *text;
  double start, end; /* seconds; NAN: no timestamp tells */
} accel__whisper_chunk;

typedef struct accel__whisper_text {
  const char *text;
  const accel__whisper_chunk *chunk; /* [n] */
  uint32_t n;
} accel__whisper_text;

/* stamps: timestamps were asked for; else only a change of language begins a new chunk. Either all
 * pieces have times or none.  precision: seconds of a timestamp. Arena memory. */
accel_status accel__whisper_text_of(const accel__tokenizer *tokenizer,
                                    const accel__whisper_piece *pieces, uint32_t n, bool stamps,
                                    double precision, accel__arena *arena,
                                    accel__whisper_text *out);
/* Tokens of one word: token first .. end - 1 of the list. */
typedef struct accel__whisper_word {
  const char *text;
  uint32_t first, end;
} accel__whisper_word;
/* Words of ids[n], which are tokens of text alone (_combine_tokens_into_words): cut at spaces and
 * punctuation or, where `spaces` is false, wherever characters are complete; punctuation goes to
 * its neighbours.  out[n] at most, *n_words of them. */
accel_status accel__whisper_words(const accel__tokenizer *tokenizer, const int32_t *ids, uint32_t n,
                                  bool spaces, accel__arena *arena, accel__whisper_word *out,
                                  uint32_t *n_words);
/* Whether words of a language, by its English name (NULL: not known), have spaces between them. */
bool accel__whisper_has_spaces(const char *language);
/* The text of ids[n], special tokens included. */
accel_status accel__whisper_decode(const accel__tokenizer *tokenizer, const int32_t *ids,
                                   uint32_t n, bool special, accel__arena *arena, const char **out);
/* The text of ids[n] without timestamps and special tokens. */
accel_status accel__whisper_spell(const accel__tokenizer *tokenizer, const int32_t *ids, uint32_t n,
                                  accel__arena *arena, const char **out);

#endif
