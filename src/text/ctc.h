/* ctc.h - from the labels of frames to text: connectionist temporal classification (Graves et al.
 * 2006), read greedily, as transformers' Wav2Vec2CTCTokenizer decodes. */
#ifndef ACCEL_TEXT_CTC_H
#define ACCEL_TEXT_CTC_H

#include <stdbool.h>
#include <stdint.h>

#include "core/arena.h"

typedef struct accel__ctc {
  accel__arena arena;
  const char **token; /* [n]; NULL: no token has this id */
  int64_t n;
  const char *blank, *unknown;   /* pad_token, unk_token */
  const char *delimiter, *space; /* word_delimiter_token, and what stands for it in texts */
  bool lower;                    /* do_lower_case */
} accel__ctc;
/* vocab.json, tokenizer_config.json and added_tokens.json of a directory; a vocabulary of several
 * languages needs target_lang. Errors name file and field. */
accel_status accel__ctc_load(const char *directory, accel__ctc *out);
void accel__ctc_free(accel__ctc *ctc);

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
/* ids[n]: the best label of each frame.  Equal neighbours are one, blanks none.  Arena memory. */
accel_status accel__ctc_decode(const accel__ctc *ctc, const int64_t *ids, int64_t n, bool words,
                               accel__arena *arena, accel__ctc_text *out);

#endif
