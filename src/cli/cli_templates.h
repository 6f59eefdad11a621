/* cli_templates.h - the files of templates/, and filling them in. */
#ifndef ACCEL_CLI_TEMPLATES_H
#define ACCEL_CLI_TEMPLATES_H

#include <stddef.h>

typedef struct cli_template {
  const char *name; /* without .in */
  const char *text;
} cli_template;
extern const cli_template cli_templates[];
extern const size_t cli_template_count;

/* What stands for @NAME@. */
typedef struct cli_word {
  const char *name, *value;
} cli_word;

/* The text with each @NAME@ (capitals and _) of words[n] replaced, free() it; lines between "@if
 * a|b@" and "@end@" stay where `kinds` (words between spaces) holds one of a, b.  NULL: there is no
 * such template or no memory.  Names that are in no word stay as they are. */
char *cli_template_fill(const char *name, const cli_word *words, size_t n, const char *kinds);
/* A copy of `text` for the inside of a string literal of C or Python; free() it. */
char *cli_literal(const char *text);

#endif
