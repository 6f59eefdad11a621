/* sources.h - from texts to rules: one function for each kind of source, and what they share. */
#ifndef ACCEL_TEXT_GRAMMAR_SOURCES_H
#define ACCEL_TEXT_GRAMMAR_SOURCES_H

#include "core/json.h"
#include "text/grammar/rules.h"

/* Each fills empty rules, of which rule 0 is where texts begin.  text[n] is UTF-8. */
accel_status accel__regex_rules(accel__rules *rules, const char *text, size_t n);
accel_status accel__text_rules(accel__rules *rules, const char *text, size_t n);
accel_status accel__choice_rules(accel__rules *rules, const char *text, size_t n);
accel_status accel__schema_rules(accel__rules *rules, const char *text, size_t n);
accel_status accel__json_rules(accel__rules *rules);
accel_status accel__structural_rules(accel__rules *rules, const char *text, size_t n);

/* ---- regular expressions (regex_rules.c) ---- */

typedef struct accel__regex_source {
  const char *text;
  size_t n;
  accel__spelling spelling;
  /* It may match anywhere in the text, as JSON Schema's patterns may; else the whole text. */
  bool search;
} accel__regex_source;
/* Adds what is matched to `r`, from state `from` on; *to: where it ends.  Failures name the byte of
 * the expression and are the rules' `status`, too. */
accel_status accel__regex_part(accel__rule *r, uint32_t from, const accel__regex_source *source,
                               uint32_t *to);

/* Where a parser is in a text. */
typedef struct accel__cursor {
  const char *text;
  size_t n, at;
  const char *name; /* of the kind of text, for messages */
} accel__cursor;
accel_status accel__cursor_fail(const accel__cursor *c, accel_status code, size_t at,
                                const char *format, ...) ACCEL_PRINTF(4, 5);
static inline int accel__cursor_peek(const accel__cursor *c, size_t ahead) {
  return c->at < c->n && c->n - c->at > ahead ? (unsigned char)c->text[c->at + ahead] : -1;
}
/* The next character, which must be there. */
uint32_t accel__cursor_take(accel__cursor *c);
/* Digits of a number of at most `most`; false: there are none, or it is larger. */
bool accel__cursor_number(accel__cursor *c, uint32_t most, uint32_t *out);
/* From behind `[` to behind `]`: characters, ranges, escapes, `^`. */
accel_status accel__class_parse(accel__cursor *c, accel__code_set *out);
/* Behind a backslash: the character meant; \d and the like are none. */
accel_status accel__escape_parse(accel__cursor *c, bool in_class, uint32_t *out);
/* "{m,n}", "*", "+" or "?" at the cursor; *found: whether there was one. */
accel_status accel__repeat_parse(accel__cursor *c, uint32_t *min, uint32_t *max, bool *found);

/* ---- JSON (json_rules.c) ---- */

/* Rules that a grammar has once, made when they are first asked for. */
typedef struct accel__json_parts {
  accel__rules *rules;
  accel__rule *string, *value, *number;
} accel__json_parts;
/* A string with its quotes; any value; a number. */
accel__rule *accel__json_string_rule(accel__json_parts *p);
accel__rule *accel__json_value_rule(accel__json_parts *p);
accel__rule *accel__json_number_rule(accel__json_parts *p);
/* Rules of a JSON Schema, a node that the caller keeps until then; *out: where its values begin. */
accel_status accel__schema_add(accel__json_parts *parts, const accel__json *schema,
                               accel__rule **out);
/* One character inside of a string, escapes included. */
void accel__json_character(accel__rule *r, uint32_t from, uint32_t to);
/* Digits; the integer part of a number, with its sign. */
void accel__json_integer(accel__rule *r, uint32_t from, uint32_t to);

#endif
