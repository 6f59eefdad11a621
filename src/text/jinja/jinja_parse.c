/* jinja_parse.c - see jinja_parse.h: tokens, nodes, and the entry of the parser. */
#include "text/jinja/jinja_parse.h"

#include <stdio.h>
#include <string.h>

typedef accel__jinja_parser parser;
typedef accel__jinja_node node;
typedef accel__jinja_token token;

accel_status accel__jinja_parse_fail(const parser *p, const char *format, const char *what) {
  char text[200];
  snprintf(text, sizeof text, format, what);
  return accel__fail(ACCEL_ERROR_FORMAT, "%s: line %u: %s", p->name, p->at->line, text);
}

accel_status accel__jinja_unexpected(const parser *p, const char *expected) {
  static const char *const kinds[] = {"text",
                                      "'{%'",
                                      "'%}'",
                                      "'{{'",
                                      "'}}'",
                                      "a name",
                                      "a string",
                                      "a number",
                                      "a number",
                                      "",
                                      "the end of the template"};
  char text[200];
  bool shown = p->at->kind == ACCEL__J_TOKEN_OPERATOR || p->at->kind == ACCEL__J_TOKEN_NAME;
  snprintf(text, sizeof text, "expected %s, found %s%.*s%s", expected,
           shown ? "'" : kinds[p->at->kind], shown ? (int)(p->at->n < 60 ? p->at->n : 60) : 0,
           shown ? p->at->text : "", shown ? "'" : "");
  return accel__jinja_parse_fail(p, "%s", text);
}

bool accel__jinja_token_is(const token *t, uint8_t kind, const char *text) {
  size_t n = strlen(text);
  return t->kind == kind && t->n == n && memcmp(t->text, text, n) == 0;
}
bool accel__jinja_at_op(const parser *p, const char *text) {
  return accel__jinja_token_is(p->at, ACCEL__J_TOKEN_OPERATOR, text);
}
bool accel__jinja_at_word(const parser *p, const char *text) {
  return accel__jinja_token_is(p->at, ACCEL__J_TOKEN_NAME, text);
}
bool accel__jinja_take_op(parser *p, const char *text) {
  return accel__jinja_at_op(p, text) ? p->at++, true : false;
}
bool accel__jinja_take_word(parser *p, const char *text) {
  return accel__jinja_at_word(p, text) ? p->at++, true : false;
}
accel_status accel__jinja_expect_op(parser *p, const char *text) {
  char quoted[16];
  snprintf(quoted, sizeof quoted, "'%s'", text);
  return accel__jinja_take_op(p, text) ? ACCEL_OK : accel__jinja_unexpected(p, quoted);
}
accel_status accel__jinja_expect_word(parser *p, const char *text) {
  char quoted[32];
  snprintf(quoted, sizeof quoted, "'%s'", text);
  return accel__jinja_take_word(p, text) ? ACCEL_OK : accel__jinja_unexpected(p, quoted);
}

accel_status accel__jinja_node_new(parser *p, accel__jinja_node_kind kind, node **out) {
  *out = accel__arena_alloc(p->arena, sizeof **out);
  if (!*out) return ACCEL_ERROR_OUT_OF_MEMORY;
  (*out)->kind = (uint8_t)kind;
  (*out)->line = p->at->line;
  return ACCEL_OK;
}

accel_status accel__jinja_take_name(parser *p, const char **out) {
  if (p->at->kind != ACCEL__J_TOKEN_NAME) return accel__jinja_unexpected(p, "a name");
  *out = accel__arena_copy(p->arena, p->at->text, p->at->n);
  if (!*out) return ACCEL_ERROR_OUT_OF_MEMORY;
  p->at++;
  return ACCEL_OK;
}

/* Adds a child (and its key and preset); the arrays grow in powers of two. */
accel_status accel__jinja_add_child(parser *p, node *to, node *child, const char *key,
                                    node *preset) {
  if ((to->n & (to->n - 1)) == 0) {
    size_t more = to->n ? 2 * to->n : 1;
    node **children = accel__arena_array(p->arena, more, sizeof *children);
    node **presets = accel__arena_array(p->arena, more, sizeof *presets);
    const char **keys = accel__arena_array(p->arena, more, sizeof *keys);
    if (!children || !keys || !presets) return ACCEL_ERROR_OUT_OF_MEMORY;
    if (to->n) {
      memcpy(children, to->child, to->n * sizeof *children);
      memcpy(keys, to->key, to->n * sizeof *keys);
      memcpy(presets, to->preset, to->n * sizeof *presets);
    }
    to->child = children;
    to->key = keys;
    to->preset = presets;
  }
  to->child[to->n] = child;
  to->key[to->n] = key;
  to->preset[to->n++] = preset;
  return ACCEL_OK;
}

accel_status accel__jinja_nest(parser *p) {
  return ++p->depth > ACCEL__JINJA_NESTING ? accel__jinja_parse_fail(p, "%s", "nested too deeply")
                                           : ACCEL_OK;
}

accel_status accel__jinja_parse(accel__arena *arena, const char *text, size_t n, const char *name,
                                const accel__jinja_node **out) {
  parser p = {.arena = arena, .name = name};
  token *tokens;
  size_t count;
  node *root;
  ACCEL_TRY(accel__jinja_lex(arena, text, n, name, &tokens, &count));
  p.at = tokens;
  ACCEL_TRY(accel__jinja_parse_body(&p, NULL, &root));
  if (p.at->kind != ACCEL__J_TOKEN_END)
    return accel__jinja_unexpected(&p, "the end of the template");
  *out = root;
  return ACCEL_OK;
}
