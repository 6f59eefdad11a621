/* whisper.h - from Whisper's tokens to a transcript: transformers' tokenization_whisper._decode_asr.
 *
 * Tokens come in pieces: one for a sound that was gone through in order, or one for each window of a sound that was cut into
 * overlapping windows, whose tokens are joined where they agree.  Timestamps among them bound the chunks of the text.
 */
#ifndef ACCEL_TEXT_WHISPER_H
#define ACCEL_TEXT_WHISPER_H

#include "core/arena.h"
#include "text/tokenizer.h"

typedef struct accel__whisper_piece {
  const int32_t *ids;
  uint32_t n;
  bool window;                /* of a sound cut into windows: */
  double length, left, right; /* seconds of it, and of its overlaps with its neighbours (0 at the ends) */
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

/* stamps: timestamps were asked for; else only a change of language begins a new chunk.  precision: seconds of a timestamp.
 * Arena memory. */
accel_status accel__whisper_text_of(const accel__tokenizer *tokenizer, const accel__whisper_piece *pieces, uint32_t n,
                                    bool stamps, double precision, accel__arena *arena, accel__whisper_text *out);
/* The text of ids[n] without timestamps and special tokens. */
accel_status accel__whisper_spell(const accel__tokenizer *tokenizer, const int32_t *ids, uint32_t n, accel__arena *arena,
                                  const char **out);

#endif
