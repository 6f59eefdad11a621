/* text_rules.c - grammars as llama.cpp writes them (GBNF).  Parsed on a stack of its own. */
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "text/grammar/groups.h"

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
  accel__groups g; /* of the rule that is being defined */
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

static accel_status take_literal(parser *p) {
  const size_t begin = p->c.at++;
  accel__groups_element(&p->g);
  uint32_t at = p->g.atom.in;
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
    at = accel__rule_literal(p->g.r, at, text, accel__utf8_encode(code, text));
  }
  p->c.at++;
  accel__rule_empty(p->g.r, at, p->g.atom.out);
  return ACCEL_OK;
}

static accel_status take_set(parser *p, int b) {
  accel__code_set set = {.n = 0};
  p->c.at++;
  if (b == '[')
    ACCEL_TRY(accel__class_parse(&p->c, &set));
  else
    accel__code_set_add(&set, 1, 0x10FFFF);
  accel__groups_element(&p->g);
  accel__rule_code_set(p->g.r, p->g.atom.in, &set, ACCEL__SPELL_PLAIN, p->g.atom.out);
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
  accel__groups_element(&p->g);
  accel__rule_call(p->g.r, p->g.atom.in, callee->rule, p->g.atom.out);
  return ACCEL_OK;
}

static accel_status take_group(parser *p, int b) {
  const size_t begin = p->c.at++;
  return b == '(' ? accel__groups_open(&p->g, &p->c, begin)
                  : accel__groups_close(&p->g, &p->c, begin);
}

static accel_status take_repeat(parser *p) {
  uint32_t min, max;
  ACCEL_TRY(accel__groups_count(&p->g, &p->c, &min, &max));
  accel__groups_repeat(&p->g, min, max);
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
    skip_space(&p->c, p->g.depth > 0);
    const int b = accel__cursor_peek(&p->c, 0);
    if (b < 0 || (b == '\n' && !goes_on(p))) break;
    if (accel__cursor_peek(&p->c, 0) == '|') {
      p->c.at++;
      accel__groups_end_alternative(&p->g);
      skip_space(&p->c, true);
      continue;
    }
    ACCEL_TRY(take_element(p, b));
  }
  return accel__groups_closed(&p->g, &p->c);
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
  p->g.r = own->rule;
  p->g.depth = 0;
  p->g.has_atom = false;
  p->g.open[0] = (accel__group_part){.part = {.in = 0, .out = 1}, .at = 0};
  p->g.open[0].at = accel__rule_state(p->g.r);
  p->g.open[0].part.in = p->g.open[0].at;
  accel__rule_empty(p->g.r, 0, p->g.open[0].at);
  ACCEL_TRY(read_alternatives(p));
  accel__groups_end_alternative(&p->g);
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
