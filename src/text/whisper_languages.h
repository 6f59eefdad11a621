/* whisper_languages.h - the languages that speech models know, by code and English name
 * (transformers' tokenization_whisper). */
#ifndef ACCEL_TEXT_WHISPER_LANGUAGES_H
#define ACCEL_TEXT_WHISPER_LANGUAGES_H

#include <stddef.h>

/* "fr" for "fr", "french" and other English names of it, whatever the case; NULL: not known. */
const char *accel__language_code(const char *name_or_code);
/* "french" for "fr"; NULL: not known. */
const char *accel__language_name(const char *code, size_t n);

#endif
