/* jinja_parse.h - the state of a template's parser, what all of it reads tokens and builds nodes
 * with, and the entries of its two halves: jinja_expressions.c and jinja_statements.c.
 *
 * Functions that read move `at` behind what they read.  Every node lives in the parser's arena.
 * Errors are ACCEL_ERROR_FORMAT with the template's name and the line, ACCEL_ERROR_UNSUPPORTED for
 * tags that chat templates cannot use, or ACCEL_ERROR_OUT_OF_MEMORY.
 */
#ifndef ACCEL_TEXT_JINJA_PARSE_H
#define ACCEL_TEXT_JINJA_PARSE_H

#include "text/jinja/jinja.h"

typedef struct accel__jinja_parser {
  accel__arena *arena;
  const char *name;             /* of the template, for messages */
  const accel__jinja_token *at; /* the next token; the last one is END */
  int depth;                    /* nested expressions and bodies, at most ACCEL__JINJA_NESTING */
} accel__jinja_parser;

/* ---- errors ---- */

/* Fails with "NAME: line N: " and the format, which has one %s for `what`. */
accel_status accel__jinja_parse_fail(const accel__jinja_parser *p, const char *format,
                                     const char *what);
/* Fails with "expected ..., found ..." for the token that is next. */
accel_status accel__jinja_unexpected(const accel__jinja_parser *p, const char *expected);

/* ---- tokens: an operator is "(", "==" ...; a word is a name such as "if" ---- */

bool accel__jinja_token_is(const accel__jinja_token *t, uint8_t kind, const char *text);
bool accel__jinja_at_op(const accel__jinja_parser *p, const char *text);
bool accel__jinja_at_word(const accel__jinja_parser *p, const char *text);
/* True and behind it when it is next. */
bool accel__jinja_take_op(accel__jinja_parser *p, const char *text);
bool accel__jinja_take_word(accel__jinja_parser *p, const char *text);
accel_status accel__jinja_expect_op(accel__jinja_parser *p, const char *text);
accel_status accel__jinja_expect_word(accel__jinja_parser *p, const char *text);
/* Any name, copied into the arena. */
accel_status accel__jinja_take_name(accel__jinja_parser *p, const char **out);

/* ---- nodes ---- */

/* A node of the line of the next token, otherwise zeros. */
accel_status accel__jinja_node_new(accel__jinja_parser *p, accel__jinja_node_kind kind,
                                   accel__jinja_node **out);
/* Appends to the children of `to`: `key` and `preset` go into the arrays beside them, or NULL. */
accel_status accel__jinja_add_child(accel__jinja_parser *p, accel__jinja_node *to,
                                    accel__jinja_node *child, const char *key,
                                    accel__jinja_node *preset);
/* One level deeper; who calls it counts `depth` down again at the end. */
accel_status accel__jinja_nest(accel__jinja_parser *p);

/* ---- jinja_expressions.c ---- */

accel_status accel__jinja_parse_expression(accel__jinja_parser *p, accel__jinja_node **out);
/* One expression, or a tuple of those with commas between them: "a, b".  with_if: "a if b else c"
 * may be among them.  It ends before the word `stop` (may be NULL).  bracketed: "()" is empty. */
accel_status accel__jinja_parse_tuple(accel__jinja_parser *p, bool with_if, const char *stop,
                                      bool bracketed, accel__jinja_node **out);
/* Whether the next token ends a tuple without brackets. */
bool accel__jinja_tuple_ends(const accel__jinja_parser *p, const char *stop);
/* What follows "|": the name of a filter and its arguments, applied to `of` (NULL: to the text of
 * a block). */
accel_status accel__jinja_parse_filter(accel__jinja_parser *p, accel__jinja_node *of,
                                       accel__jinja_node **out);

/* ---- jinja_statements.c ---- */

/* Statements up to a tag that begins with one of the words `ends` (NULL-terminated), which is next
 * then; ends NULL: up to the end of the template. */
accel_status accel__jinja_parse_body(accel__jinja_parser *p, const char *const *ends,
                                     accel__jinja_node **out);

#endif
