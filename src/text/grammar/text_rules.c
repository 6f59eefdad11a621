/* text_rules.c - grammars as llama.cpp writes them (GBNF).  Parsed on a stack of its own. */
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "text/grammar/sources.h"

typedef struct group {
  accel__part part;
  uint32_t at; /* the end of the alternative so far */
  size_t begin;
} group;

/* A rule by its name; where it was first called, when it is not defined yet. */
typedef struct named {
  accel__rule *rule;
  size_t first_call;
  bool defined;
} named;

typedef struct parser {
  accel__cursor c;
  accel__rules *rules;
  accel__map numbers; /* of names, in `named` */
  named *named;
  size_t n, capacity;
  accel__rule *r; /* being defined */
  group open[ACCEL__GRAMMAR_DEPTH_MAX + 1];
  uint32_t depth;
  accel__part atom;
  bool has_atom;
} parser;

static bool is_name(int b) {
  return (b >= '0' && b <= '9') || ((b | 0x20) >= 'a' && (b | 0x20) <= 'z') || b == '-' || b == '_';
}

/* Spaces and comments, and with `lines` line ends, too. */
static void skip_space(accel__cursor *c, bool lines) {
  for (;; c->at++) {
    const int b = accel__cursor_peek(c, 0);
    if (b == '#')
      while (accel__cursor_peek(c, 1) >= 0 && accel__cursor_peek(c, 1) != '\n') c->at++;
    else if (b != ' ' && b != '\t' && b != '\r' && !(lines && b == '\n'))
      return;
  }
}

static accel_status read_name(parser *p, const char **name, size_t *n) {
  *name = p->c.text + p->c.at;
  *n = 0;
  while (is_name(accel__cursor_peek(&p->c, *n))) ++*n;
  if (!*n)
    return accel__cursor_fail(&p->c, ACCEL_ERROR_ARGUMENT, p->c.at, "expected the name of a rule");
  p->c.at += *n;
  return ACCEL_OK;
}

static accel_status find_rule(parser *p, const char *name, size_t n, named **out) {
  int64_t number;
  if (accel__map_get(&p->numbers, name, n, &number)) {
    *out = &p->named[number];
    return ACCEL_OK;
  }
  accel__rule *r = accel__rules_add(p->rules, name, n);
  if (!r) return p->rules->status;
  if (p->n == p->capacity) {
    const size_t capacity = p->capacity * 2 + 16;
    named *more = realloc(p->named, capacity * sizeof *more);
    if (!more) return accel__no_memory(capacity * sizeof *more);
    p->named = more;
    p->capacity = capacity;
  }
  ACCEL_TRY(accel__map_set(&p->numbers, r->name, n, (int64_t)p->n));
  p->named[p->n] = (named){.rule = r, .first_call = p->c.at};
  *out = &p->named[p->n++];
  return ACCEL_OK;
}

/* ---- elements ---- */

static void join_atom(parser *p) {
  group *g = &p->open[p->depth];
  if (p->has_atom) {
    accel__rule_empty(p->r, g->at, p->atom.in);
    g->at = p->atom.out;
  }
  p->has_atom = false;
}

static void begin_atom(parser *p) {
  join_atom(p);
  p->atom = accel__part_begin(p->r);
  p->has_atom = true;
}

static void end_alternative(parser *p) {
  group *g = &p->open[p->depth];
  join_atom(p);
  accel__rule_empty(p->r, g->at, g->part.out);
  g->at = g->part.in;
}

static accel_status take_literal(parser *p) {
  const size_t begin = p->c.at++;
  begin_atom(p);
  uint32_t at = p->atom.in;
  for (int b; (b = accel__cursor_peek(&p->c, 0)) != '"';) {
    char text[4];
    uint32_t code;
    if (b < 0 || b == '\n')
      return accel__cursor_fail(&p->c, ACCEL_ERROR_ARGUMENT, begin, "a text without its end");
    if (b == '\\') {
      p->c.at++;
      ACCEL_TRY(accel__escape_parse(&p->c, false, &code));
    } else {
      code = accel__cursor_take(&p->c);
    }
    if (!code)
      return accel__cursor_fail(&p->c, ACCEL_ERROR_UNSUPPORTED, begin, "a text with U+0000");
    at = accel__rule_literal(p->r, at, text, accel__utf8_encode(code, text));
  }
  p->c.at++;
  accel__rule_empty(p->r, at, p->atom.out);
  return ACCEL_OK;
}

static accel_status take_set(parser *p, int b) {
  accel__code_set set = {.n = 0};
  p->c.at++;
  if (b == '[')
    ACCEL_TRY(accel__class_parse(&p->c, &set));
  else
    accel__code_set_add(&set, 1, 0x10FFFF);
  begin_atom(p);
  accel__rule_code_set(p->r, p->atom.in, &set, ACCEL__SPELL_PLAIN, p->atom.out);
  return ACCEL_OK;
}

static accel_status take_call(parser *p) {
  const char *name;
  size_t n;
  named *callee;
  ACCEL_TRY(read_name(p, &name, &n));
  p->c.at -= n; /* where it is called, for messages */
  ACCEL_TRY(find_rule(p, name, n, &callee));
  p->c.at += n;
  begin_atom(p);
  accel__rule_call(p->r, p->atom.in, callee->rule, p->atom.out);
  return ACCEL_OK;
}

static accel_status take_group(parser *p, int b) {
  const size_t begin = p->c.at++;
  if (b == '(' && p->depth == ACCEL__GRAMMAR_DEPTH_MAX)
    return accel__cursor_fail(&p->c, ACCEL_ERROR_LIMIT, begin,
                              "more than %d groups inside of each other", ACCEL__GRAMMAR_DEPTH_MAX);
  if (b == ')' && !p->depth)
    return accel__cursor_fail(&p->c, ACCEL_ERROR_ARGUMENT, begin, "')' without its '('");
  if (b == ')') {
    end_alternative(p);
    p->atom = p->open[p->depth--].part;
    p->has_atom = true;
    return ACCEL_OK;
  }
  join_atom(p);
  group *g = &p->open[++p->depth];
  g->part = accel__part_begin(p->r);
  g->at = g->part.in;
  g->begin = begin;
  return ACCEL_OK;
}

static accel_status take_repeat(parser *p) {
  uint32_t min = 0, max = 0;
  bool found;
  const size_t begin = p->c.at;
  ACCEL_TRY(accel__repeat_parse(&p->c, &min, &max, &found));
  if (!p->has_atom)
    return accel__cursor_fail(&p->c, ACCEL_ERROR_ARGUMENT, begin, "nothing to repeat");
  accel__part_repeat(p->r, &p->atom, min, max);
  join_atom(p);
  return ACCEL_OK;
}

static accel_status take_element(parser *p, int b) {
  if (b == '"') return take_literal(p);
  if (b == '[' || b == '.') return take_set(p, b);
  if (b == '(' || b == ')') return take_group(p, b);
  if (b == '*' || b == '+' || b == '?' || b == '{') return take_repeat(p);
  if (is_name(b)) return take_call(p);
  if (b == '<')
    return accel__cursor_fail(&p->c, ACCEL_ERROR_UNSUPPORTED, p->c.at,
                              "tokens (<...>) are not supported");
  return accel__cursor_fail(&p->c, ACCEL_ERROR_ARGUMENT, p->c.at, "'%c' is not expected here",
                            b > ' ' && b < 0x7F ? b : '?');
}

/* ---- rules ---- */

/* At the end of a line the rule ends, unless the next one begins with "|". */
static bool goes_on(parser *p) {
  accel__cursor c = p->c;
  skip_space(&c, true);
  if (accel__cursor_peek(&c, 0) == '|') p->c = c;
  return accel__cursor_peek(&c, 0) == '|';
}

static accel_status read_alternatives(parser *p) {
  for (;;) {
    ACCEL_TRY(p->rules->status);
    skip_space(&p->c, p->depth > 0);
    const int b = accel__cursor_peek(&p->c, 0);
    if (b < 0 || (b == '\n' && !goes_on(p))) break;
    if (accel__cursor_peek(&p->c, 0) == '|') {
      p->c.at++;
      end_alternative(p);
      skip_space(&p->c, true);
      continue;
    }
    ACCEL_TRY(take_element(p, b));
  }
  if (p->depth)
    return accel__cursor_fail(&p->c, ACCEL_ERROR_ARGUMENT, p->open[p->depth].begin,
                              "'(' without its ')'");
  return ACCEL_OK;
}

static accel_status read_rule(parser *p) {
  const char *name;
  size_t n;
  named *own;
  const size_t begin = p->c.at;
  ACCEL_TRY(read_name(p, &name, &n));
  skip_space(&p->c, false);
  if (p->c.n - p->c.at < 3 || memcmp(p->c.text + p->c.at, "::=", 3) != 0)
    return accel__cursor_fail(&p->c, ACCEL_ERROR_ARGUMENT, p->c.at,
                              "expected ::= behind the name '%.*s'", (int)(n < 80 ? n : 80), name);
  p->c.at += 3;
  skip_space(&p->c, true);
  ACCEL_TRY(find_rule(p, name, n, &own));
  if (own->defined)
    return accel__cursor_fail(&p->c, ACCEL_ERROR_ARGUMENT, begin, "rule '%s' is defined twice",
                              own->rule->name);
  own->defined = true;
  p->r = own->rule;
  p->depth = 0;
  p->has_atom = false;
  p->open[0] = (group){.part = {.in = 0, .out = 1}, .at = 0};
  p->open[0].at = accel__rule_state(p->r);
  p->open[0].part.in = p->open[0].at;
  accel__rule_empty(p->r, 0, p->open[0].at);
  ACCEL_TRY(read_alternatives(p));
  end_alternative(p);
  return p->rules->status;
}

static accel_status read_rules(parser *p) {
  named *root;
  ACCEL_TRY(find_rule(p, "root", 4, &root));
  for (skip_space(&p->c, true); p->c.at < p->c.n; skip_space(&p->c, true)) ACCEL_TRY(read_rule(p));
  if (!p->named[0].defined)
    return accel__remedy(accel__fail(ACCEL_ERROR_ARGUMENT, "grammar: there is no rule 'root'"),
                         "texts begin with it: root ::= ...");
  for (size_t i = 0; i < p->n; i++)
    if (!p->named[i].defined)
      return accel__cursor_fail(&p->c, ACCEL_ERROR_ARGUMENT, p->named[i].first_call,
                                "rule '%s' is not defined", p->named[i].rule->name);
  return p->rules->status;
}

accel_status accel__text_rules(accel__rules *rules, const char *text, size_t n) {
  parser *p = calloc(1, sizeof *p);
  if (!p) return accel__no_memory(sizeof *p);
  p->c = (accel__cursor){text, n, 0, "grammar"};
  p->rules = rules;
  accel_status status = read_rules(p);
  accel__map_free(&p->numbers);
  free(p->named);
  free(p);
  return status;
}
