/* merges.h - a directory with vocab.json and merges.txt only, as the tokenizer.json that
 * transformers makes of it. */
#ifndef ACCEL_TEXT_MERGES_H
#define ACCEL_TEXT_MERGES_H

#include <stddef.h>

#include "core/json.h"
#include "core/status.h"
#include "core/text.h"
#include "text/tokenizer_class.h"

/* Appends a tokenizer.json to `out`: byte-level BPE of that class, the post-processor left out.
 * `vocab` is the text of vocab.json, `merges` that of merges.txt, `name` stands for the latter in
 * messages; settings may be NULL.  ACCEL_ERROR_FORMAT: a line that does not hold two tokens. */
accel_status accel__merges_json(const char *vocab, size_t vocab_n, const char *merges,
                                size_t merges_n, const char *name,
                                const accel__tokenizer_class *class, const accel__json *settings,
                                accel__buffer *out);

#endif
