/* sentencepiece.h - a SentencePiece model (spiece.model, tokenizer.model ...) as the tokenizer.json
 * that transformers makes of it.
 *
 * The file is a protocol buffer: ModelProto {1: pieces {1: text, 2: score, 3: type}, 2: trainer {3:
 * kind, 35: byte_fallback, 40.. ids, 45.. names}, 3: normalizer {2: precompiled character map}}.
 * Read directly; unknown fields are skipped. Which normalizer, pre-tokenizer and special tokens go
 * with it depends on the tokenizer class (tokenizer_class.h); classes we do not know get what
 * transformers' converter gives to unknown classes.
 */
#ifndef ACCEL_TEXT_SENTENCEPIECE_H
#define ACCEL_TEXT_SENTENCEPIECE_H

#include <stddef.h>
#include <stdint.h>

#include "core/json.h"
#include "core/status.h"
#include "core/text.h"
#include "text/tokenizer_class.h"

/* Appends a tokenizer.json to `out`, the post-processor left out.  class: NULL, one that is not
 * known; config: tokenizer_config.json, or NULL; `name` stands for the file in messages.
 * ACCEL_ERROR_FORMAT: no such protocol buffer, no pieces, text that is not UTF-8;
 * ACCEL_ERROR_UNSUPPORTED: a kind of model that is neither Unigram nor BPE. */
accel_status accel__sentencepiece_json(const uint8_t *data, size_t n, const char *name,
                                       const accel__tokenizer_class *class,
                                       const accel__json_file *config, accel__buffer *out);

#endif
