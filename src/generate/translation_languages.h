/* translation_languages.h - the languages of a translation: what a model knows, how it is told, and
 * which a caller may name.
 *
 * Kinds of models: tokens of languages in the tokenizer (mBART "en_XX", NLLB "eng_Latn", M2M100
 * "__en__"): the source's stands among the special tokens of the input, the target's is forced as
 * the first token; pairs of config.json's task_specific_params (T5: "translation_en_to_de" with its
 * prefix); a token in front of the text (Marian's ">>fra<<"); one pair, which tokenizer_config.json
 * may name. */
#ifndef ACCEL_GENERATE_TRANSLATION_LANGUAGES_H
#define ACCEL_GENERATE_TRANSLATION_LANGUAGES_H

#include "dispatch/endpoint.h"
#include "text/tokenizer.h"

typedef struct accel__languages {
  int32_t from, to;        /* tokens; -1: the model has none, or none was named */
  const accel__json *task; /* of task_specific_params; NULL: none */
  const char *before;      /* text that goes before each input, "" none; arena memory */
} accel__languages;

/* from, to: as the caller names them, NULL not at all.  hints: "translation_en_to_de", or another
 * task's name; what it names and the model has no use for is passed over, where a name the model
 * does not know in from and to is ACCEL_ERROR_ARGUMENT with those it knows. */
accel_status accel__languages_find(const accel_endpoint *ep, const char *from, const char *to,
                                   const char *hints, accel__arena *arena, accel__languages *out);
/* Is `id` a special token that stands for a language? */
bool accel__is_language(const accel__tokenizer *tokenizer, int32_t id);

#endif
