/* esm_tokenizer.h - tokenizers of proteins: transformers' EsmTokenizer over vocab.txt. */
#ifndef ACCEL_TEXT_ESM_TOKENIZER_H
#define ACCEL_TEXT_ESM_TOKENIZER_H

#include "text/settings.h"
#include "text/text_internal.h"

/* Do the settings name that class? */
bool accel__is_esm(const accel__json_file *settings);
/* The tokenizer.json that would do the same, vocabulary left out; t->vocab has it already. */
accel_status accel__esm_json(const accel__tokenizer *t, const accel__json_file *settings,
                             accel__buffer *b);

#endif
