/* ctc.h - from the labels of frames to text: connectionist temporal classification (Graves et al.
 * 2006), read greedily, as transformers' Wav2Vec2CTCTokenizer decodes. */
#ifndef ACCEL_TEXT_CTC_H
#define ACCEL_TEXT_CTC_H

#include <stdbool.h>
#include <stdint.h>

#include "core/arena.h"
#include "text/tokenizer.h"

/* A character or a word, and the frames that spell it: begin .. end - 1. */
typedef struct accel__ctc_piece {
  const char *text;
  int64_t begin, end;
} accel__ctc_piece;
typedef struct accel__ctc_text {
  char *text;
  accel__ctc_piece *piece; /* characters, or words when asked for */
  uint32_t n;
} accel__ctc_text;
/* The token of a label in a tokenizer of characters: the vocabulary's, an added one, or the unknown
 * token. */
const char *accel__ctc_token(const accel__tokenizer *t, int64_t id, size_t *n);
/* t: of accel__characters_load.  ids[n]: the best label of each frame.  Equal neighbours are one,
 * blanks none.  Arena memory. */
accel_status accel__ctc_decode(const accel__tokenizer *t, const int64_t *ids, int64_t n, bool words,
                               accel__arena *arena, accel__ctc_text *out);

#endif
