/* settings.h - what the files beside a vocabulary say of a tokenizer, where there is no
 * tokenizer.json: tokenizer_config.json, special_tokens_map.json, added_tokens.json and
 * config.json, as transformers 5 puts them together (PreTrainedTokenizerBase._from_pretrained).
 */
#ifndef ACCEL_TEXT_SETTINGS_H
#define ACCEL_TEXT_SETTINGS_H

#include "core/json.h"
#include "core/status.h"
#include "core/text.h"

/* Names of special tokens in transformers' order. */
enum { ACCEL__NAMED_TOKENS = 7 };
/* "bos_token", ... "mask_token" */
extern const char *const accel__named_token_keys[ACCEL__NAMED_TOKENS];

/* The list of special tokens without names, under the name that transformers 5 gives it, else under
 * the older one; NULL: there is none. */
const accel__json *accel__extra_tokens(const accel__json *settings);

/* *out: one object like a tokenizer_config.json, to be freed.  config, map and model:
 * tokenizer_config.json, special_tokens_map.json and config.json of `directory`, root NULL when
 * absent.  Unless the first has an added_tokens_decoder, the members of the second win and
 * added_tokens.json becomes an added_tokens_decoder.  tokenizer_class: that of
 * tokenizer_config.json, of config.json, or the class of config.json's model_type; absent when none
 * of them says.  pieces: the vocabulary is a SentencePiece model, with which
 * special_tokens_map.json's additional_special_tokens go unread. */
accel_status accel__tokenizer_settings(const char *directory, const accel__json_file *config,
                                       const accel__json_file *map, const accel__json_file *model,
                                       bool pieces, accel__json_file *out);

/* What a tokenizer class brings along. */
typedef struct accel__class_tokens {
  /* special tokens where the settings have none; NULL: none */
  const char *own[ACCEL__NAMED_TOKENS];
  bool mask_takes_space; /* its own mask token swallows the space in front of it */
  bool plain;            /* all special tokens lose what flags they had (Qwen 2) */
} accel__class_tokens;
/* Appends "added_tokens":[...], : added_tokens_decoder by its ids, special tokens by name, other
 * members "..._token", those of extra_special_tokens, else of additional_special_tokens.  listed:
 * the added_tokens of a tokenizer.json, which then count as if they were in added_tokens_decoder;
 * NULL: none. */
accel_status accel__put_added_tokens(const accel__json *settings, const accel__json *listed,
                                     const accel__class_tokens *class, accel__buffer *b);
/* The same tokens, no class's own among them: *out is {"added_tokens": [...], ...}, to be freed;
 * "listed" of a token: added_tokens_decoder has it.  `name` for messages. */
accel_status accel__settings_tokens(const accel__json *settings, const char *name,
                                    accel__json_file *out);

#endif
