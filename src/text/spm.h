/* spm.h - a SentencePiece model as its file has it: the protocol buffer, read directly.
 *
 * ModelProto {1: pieces {1: text, 2: score, 3: type}, 2: trainer {3: kind, 24: whitespace as
 * suffix, 35: byte fallback, 40: id of the unknown piece}, 3: normalizer {2: precompiled character
 * map, 3: dummy prefix, 4: extra whitespace, 5: escaped whitespace}}; unknown fields are skipped
 * (sentencepiece_model.proto of google/sentencepiece).
 */
#ifndef ACCEL_TEXT_SPM_H
#define ACCEL_TEXT_SPM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

enum {
  ACCEL__SPM_NORMAL = 1,
  ACCEL__SPM_UNKNOWN,
  ACCEL__SPM_CONTROL,
  ACCEL__SPM_USER_DEFINED,
  ACCEL__SPM_UNUSED,
  ACCEL__SPM_BYTE
};
enum { ACCEL__SPM_UNIGRAM = 1, ACCEL__SPM_BPE = 2 };

typedef struct accel__spm_piece {
  const char *text; /* in the file's bytes; UTF-8 without NUL */
  uint32_t n;
  uint8_t type; /* 0: one we do not know */
  float score;  /* finite */
} accel__spm_piece;

typedef struct accel__spm {
  const char *name; /* as given */
  accel__spm_piece *at;
  size_t n, capacity;
  uint32_t kind;
  int64_t unk_id;
  bool byte_fallback, whitespace_is_suffix;
  bool dummy_prefix, remove_extra, escape; /* whitespace; all true where nothing is stated */
  const uint8_t *charsmap;                 /* in the file's bytes */
  size_t charsmap_n;
} accel__spm;

/* *out points into `data`, and is to be freed after a failure, too.  ACCEL_ERROR_FORMAT: no such
 * protocol buffer, no pieces, text that is not UTF-8; ACCEL_ERROR_UNSUPPORTED: a kind of model that
 * is neither Unigram nor BPE.  `name` stands for the file in messages. */
accel_status accel__spm_read(const uint8_t *data, size_t n, const char *name, accel__spm *out);
void accel__spm_free(accel__spm *m);
/* fails with ACCEL_ERROR_FORMAT */
accel_status accel__spm_malformed(const char *name, const char *what);

#endif
