/* tiktoken.h - a tiktoken vocabulary (tiktoken.model, or a tokenizer.model that is no SentencePiece
 * model) as the tokenizer.json that transformers makes of it (TikTokenConverter). */
#ifndef ACCEL_TEXT_TIKTOKEN_H
#define ACCEL_TEXT_TIKTOKEN_H

#include <stdbool.h>
#include <stddef.h>

#include "core/json.h"
#include "core/status.h"
#include "core/text.h"

/* Does the text begin with a line of base64, a space and a number? */
bool accel__is_tiktoken(const char *text, size_t n);
/* Appends a tokenizer.json to `out`: byte-level BPE whose tokens are the file's bytes, with every
 * way to cut one into two others as a merge, and the special tokens of tokenizer_config.json (NULL:
 * none) behind them.  ACCEL_ERROR_FORMAT: a line that is none, a rank that comes twice, a token of
 * more than 1024 bytes. */
accel_status accel__tiktoken_json(const char *text, size_t n, const char *name,
                                  const accel__json_file *config, accel__buffer *out);

#endif
