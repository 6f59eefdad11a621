/* whisper_languages.h - Whisper's languages, by code and English name
 * (transformers' tokenization_whisper). */
#ifndef ACCEL_TEXT_WHISPER_LANGUAGES_H
#define ACCEL_TEXT_WHISPER_LANGUAGES_H

#include <stddef.h>

/* Both give constant strings.  The code ("fr") of a code or an English name, in any letter case;
 * NULL: not known. */
const char *accel__language_code(const char *name_or_code);
/* "french" for code[0..n) = "fr", lower case only; NULL: not known. */
const char *accel__language_name(const char *code, size_t n);

#endif
