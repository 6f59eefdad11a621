/* vits_tokenizer.h - texts to the tokens of models that speak: transformers' VitsTokenizer, whose
 * tokens are characters (or the phonemes of espeak) with blanks between them. */
#ifndef ACCEL_TEXT_VITS_TOKENIZER_H
#define ACCEL_TEXT_VITS_TOKENIZER_H

#include <stdbool.h>

#include "core/json.h"
#include "core/text.h"

typedef struct accel__vits_added {
  const char *text;
  size_t n; /* bytes */
  int32_t id;
  bool strip_left, strip_right;
} accel__vits_added;

typedef struct accel__vits_tokenizer {
  accel__json_file vocab, settings; /* vocab.json and what goes for tokenizer_config.json */
  const accel__json **word;         /* [n_words] the members of vocab.json in their order */
  uint32_t n_words;
  accel__map ids;           /* of the members */
  accel__vits_added *added; /* [n_added] tokens that texts are cut at */
  uint32_t n_added;
  int32_t unknown;
  int32_t blank; /* what stands between characters; -1: nothing */
  const char *language;
  bool normalize, phonemize, uroman;
} accel__vits_tokenizer;

/* vocab.json, tokenizer_config.json, special_tokens_map.json and added_tokens.json of a directory.
 * Errors name file and field.  To be freed, after a failure, too. */
accel_status accel__vits_tokenizer_load(const char *directory, accel__vits_tokenizer *out);
void accel__vits_tokenizer_free(accel__vits_tokenizer *t);

/* The ids of a text into *ids (malloc'd, to be freed) and *n, which may be 0.  phonemes: the text is
 * what the phonemizer would make of it, and is taken as it is.  ACCEL_ERROR_UNSUPPORTED: the text
 * would have to be turned into phonemes, or into Roman letters, which programs of others do. */
accel_status accel__vits_encode(const accel__vits_tokenizer *t, const char *text, bool phonemes,
                                int32_t **ids, uint32_t *n);

#endif
