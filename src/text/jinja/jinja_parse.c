/* jinja_parse.c - tokens to a syntax tree, by jinja2's grammar. */
#include <stdio.h>
#include <string.h>

#include "text/jinja/jinja.h"

typedef accel__jinja_node node;
typedef accel__jinja_token token;

typedef struct parser {
  accel__arena *arena;
  const char *name;
  const token *at;
  int depth;
} parser;

/* ---- helpers ---- */

static accel_status wrong(const parser *p, const char *format, const char *what) {
  char text[200];
  snprintf(text, sizeof text, format, what);
  return accel__fail(ACCEL_ERROR_FORMAT, "%s: line %u: %s", p->name, p->at->line, text);
}

static accel_status unexpected(const parser *p, const char *expected) {
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
  return wrong(p, "%s", text);
}

static bool is_text(const token *t, uint8_t kind, const char *text) {
  size_t n = strlen(text);
  return t->kind == kind && t->n == n && memcmp(t->text, text, n) == 0;
}
static bool is_op(const parser *p, const char *text) {
  return is_text(p->at, ACCEL__J_TOKEN_OPERATOR, text);
}
static bool is_word(const parser *p, const char *text) {
  return is_text(p->at, ACCEL__J_TOKEN_NAME, text);
}
static bool take_op(parser *p, const char *text) { return is_op(p, text) ? p->at++, true : false; }
static bool take_word(parser *p, const char *text) {
  return is_word(p, text) ? p->at++, true : false;
}
static accel_status expect_op(parser *p, const char *text) {
  char quoted[16];
  snprintf(quoted, sizeof quoted, "'%s'", text);
  return take_op(p, text) ? ACCEL_OK : unexpected(p, quoted);
}
static accel_status expect_word(parser *p, const char *text) {
  char quoted[32];
  snprintf(quoted, sizeof quoted, "'%s'", text);
  return take_word(p, text) ? ACCEL_OK : unexpected(p, quoted);
}

static accel_status new_node(parser *p, accel__jinja_node_kind kind, node **out) {
  *out = accel__arena_alloc(p->arena, sizeof **out);
  if (!*out) return ACCEL_ERROR_OUT_OF_MEMORY;
  (*out)->kind = (uint8_t)kind;
  (*out)->line = p->at->line;
  return ACCEL_OK;
}

static accel_status keep_name(parser *p, const char **out) {
  if (p->at->kind != ACCEL__J_TOKEN_NAME) return unexpected(p, "a name");
  *out = accel__arena_copy(p->arena, p->at->text, p->at->n);
  if (!*out) return ACCEL_ERROR_OUT_OF_MEMORY;
  p->at++;
  return ACCEL_OK;
}

/* Adds a kid (and its key and preset); the arrays grow in powers of two. */
static accel_status add(parser *p, node *to, node *kid, const char *key, node *preset) {
  if ((to->n & (to->n - 1)) == 0) {
    size_t more = to->n ? 2 * to->n : 1;
    node **kids = accel__arena_array(p->arena, more, sizeof *kids);
    node **presets = accel__arena_array(p->arena, more, sizeof *presets);
    const char **keys = accel__arena_array(p->arena, more, sizeof *keys);
    if (!kids || !keys || !presets) return ACCEL_ERROR_OUT_OF_MEMORY;
    if (to->n) {
      memcpy(kids, to->kid, to->n * sizeof *kids);
      memcpy(keys, to->key, to->n * sizeof *keys);
      memcpy(presets, to->preset, to->n * sizeof *presets);
    }
    to->kid = kids;
    to->key = keys;
    to->preset = presets;
  }
  to->kid[to->n] = kid;
  to->key[to->n] = key;
  to->preset[to->n++] = preset;
  return ACCEL_OK;
}

static accel_status deeper(parser *p) {
  return ++p->depth > ACCEL__JINJA_NESTING ? wrong(p, "%s", "nested too deeply") : ACCEL_OK;
}

/* ---- expressions ---- */

static accel_status expression(parser *p, node **out);
static accel_status condition(parser *p, bool with_if, node **out);
static accel_status unary(parser *p, bool with_filter, node **out);

/* At the end of a tuple without brackets? */
static bool tuple_ends(const parser *p, const char *stop) {
  return p->at->kind == ACCEL__J_TOKEN_PRINT_END || p->at->kind == ACCEL__J_TOKEN_BLOCK_END ||
         p->at->kind == ACCEL__J_TOKEN_END || is_op(p, ")") || (stop && is_word(p, stop));
}

static accel_status tuple(parser *p, bool with_if, const char *stop, bool bracketed, node **out) {
  node *all, *one = NULL;
  bool is_tuple = false;
  ACCEL_TRY(new_node(p, ACCEL__J_MAKE, &all));
  all->op = ACCEL__J_TUPLE;
  for (;;) {
    if (all->n) ACCEL_TRY(expect_op(p, ","));
    if (tuple_ends(p, stop)) break;
    ACCEL_TRY(condition(p, with_if, &one));
    ACCEL_TRY(add(p, all, one, NULL, NULL));
    if (!is_op(p, ",")) break;
    is_tuple = true;
  }
  if (!is_tuple && all->n == 1) return *out = one, ACCEL_OK;
  if (all->n == 0 && !bracketed) return unexpected(p, "an expression");
  *out = all;
  return ACCEL_OK;
}

static accel_status constant(parser *p, accel__jinja_value value, node **out) {
  ACCEL_TRY(new_node(p, ACCEL__J_CONST, out));
  (*out)->value = value;
  return ACCEL_OK;
}

static accel_status strings(parser *p, node **out) {
  size_t n = 0;
  const token *end = p->at;
  for (; end->kind == ACCEL__J_TOKEN_STRING; ++end) n += end->n;
  char *text = accel__arena_alloc(p->arena, n + 1);
  if (!text) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel__jinja_value value = {.kind = ACCEL__J_STRING, .n = (uint32_t)n, .text = text};
  ACCEL_TRY(constant(p, value, out));
  for (n = 0; p->at < end; n += p->at->n, p->at++) memcpy(text + n, p->at->text, p->at->n);
  return ACCEL_OK;
}

static accel_status list_or_dict(parser *p, bool dict, node **out) {
  const char *close = dict ? "}" : "]";
  node *item;
  ACCEL_TRY(new_node(p, ACCEL__J_MAKE, out));
  (*out)->op = dict ? ACCEL__J_DICT : ACCEL__J_LIST;
  p->at++;
  while (!is_op(p, close)) {
    if ((*out)->n) ACCEL_TRY(expect_op(p, ","));
    if (is_op(p, close)) break;
    ACCEL_TRY(expression(p, &item));
    ACCEL_TRY(add(p, *out, item, NULL, NULL));
    if (!dict) continue;
    ACCEL_TRY(expect_op(p, ":"));
    ACCEL_TRY(expression(p, &item));
    ACCEL_TRY(add(p, *out, item, NULL, NULL));
  }
  return expect_op(p, close);
}

static accel_status name_or_word(parser *p, node **out) {
  static const char *const words[] = {"true", "True", "false", "False", "none", "None"};
  for (int i = 0; i < 6; ++i) {
    if (!is_word(p, words[i])) continue;
    ACCEL_TRY(constant(p, i < 4 ? accel__jinja_bool(i < 2) : accel__jinja_none(), out));
    p->at++;
    return ACCEL_OK;
  }
  ACCEL_TRY(new_node(p, ACCEL__J_NAME, out));
  return keep_name(p, &(*out)->name);
}

static accel_status primary(parser *p, node **out) {
  const token *t = p->at;
  switch (t->kind) {
    case ACCEL__J_TOKEN_NAME:
      return name_or_word(p, out);
    case ACCEL__J_TOKEN_STRING:
      return strings(p, out);
    case ACCEL__J_TOKEN_INT:
      ACCEL_TRY(constant(p, accel__jinja_int(t->number), out));
      p->at++;
      return ACCEL_OK;
    case ACCEL__J_TOKEN_FLOAT:
      ACCEL_TRY(constant(p, (accel__jinja_value){.kind = ACCEL__J_FLOAT, .real = t->real}, out));
      p->at++;
      return ACCEL_OK;
    default:
      break;
  }
  if (take_op(p, "(")) {
    ACCEL_TRY(tuple(p, true, NULL, true, out));
    return expect_op(p, ")");
  }
  if (is_op(p, "[") || is_op(p, "{")) return list_or_dict(p, is_op(p, "{"), out);
  return unexpected(p, "an expression");
}

/* (a, b, key=c, *d, **e) into kids and keys of `to` */
static accel_status arguments(parser *p, node *to) {
  ACCEL_TRY(expect_op(p, "("));
  bool any = false, named = false;
  while (!is_op(p, ")")) {
    node *value;
    const char *key = NULL;
    if (any) ACCEL_TRY(expect_op(p, ","));
    if (any && is_op(p, ")")) break;
    if (take_op(p, "*")) {
      key = "*";
    } else if (take_op(p, "**")) {
      key = "**";
    } else if (p->at->kind == ACCEL__J_TOKEN_NAME &&
               is_text(p->at + 1, ACCEL__J_TOKEN_OPERATOR, "=")) {
      ACCEL_TRY(keep_name(p, &key));
      p->at++;
      named = true;
    } else if (named) {
      return wrong(p, "%s", "a positional argument follows a keyword argument");
    }
    ACCEL_TRY(expression(p, &value));
    ACCEL_TRY(add(p, to, value, key, NULL));
    any = true;
  }
  return expect_op(p, ")");
}

/* [a], [a:b:c], [a, b] */
static accel_status subscript(parser *p, node *of, node **out) {
  node *part[3] = {0};
  int n = 0;
  bool slice = false;
  if (is_op(p, "]")) return wrong(p, "%s", "expected subscript expression");
  while (!is_op(p, "]")) {
    if (take_op(p, ":")) {
      slice = true;
      if (++n == 3) return wrong(p, "%s", "a slice has too many parts");
      continue;
    }
    if (part[n]) break;
    ACCEL_TRY(slice ? expression(p, &part[n]) : tuple(p, true, NULL, false, &part[n]));
  }
  ACCEL_TRY(expect_op(p, "]"));
  ACCEL_TRY(new_node(p, slice ? ACCEL__J_SLICE : ACCEL__J_ITEM, out));
  (*out)->a = of;
  (*out)->b = part[0];
  for (int i = 0; slice && i < 3; ++i) ACCEL_TRY(add(p, *out, part[i], NULL, NULL));
  return ACCEL_OK;
}

static accel_status after_dot(parser *p, node *of, node **out) {
  if (p->at->kind == ACCEL__J_TOKEN_INT) {
    ACCEL_TRY(new_node(p, ACCEL__J_ITEM, out));
    (*out)->a = of;
    return primary(p, &(*out)->b);
  }
  ACCEL_TRY(new_node(p, ACCEL__J_ATTR, out));
  (*out)->a = of;
  return keep_name(p, &(*out)->name);
}

static accel_status call(parser *p, node *of, node **out) {
  ACCEL_TRY(new_node(p, ACCEL__J_CALL, out));
  (*out)->a = of;
  return arguments(p, *out);
}

static accel_status postfix(parser *p, node **out) {
  for (int length = 0;; ++length) {
    if (length > ACCEL__JINJA_NESTING) return wrong(p, "%s", "a chain of attributes is too long");
    if (take_op(p, "."))
      ACCEL_TRY(after_dot(p, *out, out));
    else if (take_op(p, "["))
      ACCEL_TRY(subscript(p, *out, out));
    else if (is_op(p, "("))
      ACCEL_TRY(call(p, *out, out));
    else
      return ACCEL_OK;
  }
}

/* a.b.c, as filters and tests may be named */
static accel_status dotted_name(parser *p, const char **out) {
  ACCEL_TRY(keep_name(p, out));
  while (take_op(p, ".")) {
    const char *more = NULL;
    ACCEL_TRY(keep_name(p, &more));
    *out = accel__arena_printf(p->arena, "%s.%s", *out, more);
    if (!*out) return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  return ACCEL_OK;
}

static accel_status filter(parser *p, node *of, node **out) {
  ACCEL_TRY(new_node(p, ACCEL__J_FILTER, out));
  (*out)->a = of;
  ACCEL_TRY(dotted_name(p, &(*out)->name));
  (*out)->builtin = accel__jinja_filter((*out)->name, strlen((*out)->name));
  return is_op(p, "(") ? arguments(p, *out) : ACCEL_OK;
}

static bool begins_argument(const parser *p) {
  uint8_t k = p->at->kind;
  if (k == ACCEL__J_TOKEN_NAME)
    return !is_word(p, "else") && !is_word(p, "or") && !is_word(p, "and");
  return k == ACCEL__J_TOKEN_STRING || k == ACCEL__J_TOKEN_INT || k == ACCEL__J_TOKEN_FLOAT ||
         is_op(p, "[") || is_op(p, "{");
}

static accel_status test(parser *p, node *of, node **out) {
  bool not = take_word(p, "not");
  node *argument, *inner;
  ACCEL_TRY(new_node(p, ACCEL__J_TEST, out));
  (*out)->a = of;
  ACCEL_TRY(dotted_name(p, &(*out)->name));
  (*out)->builtin = accel__jinja_find(accel__jinja_tests, (*out)->name, strlen((*out)->name));
  if (is_op(p, "(")) {
    ACCEL_TRY(arguments(p, *out));
  } else if (begins_argument(p)) {
    if (is_word(p, "is")) return wrong(p, "%s", "tests cannot be chained with 'is'");
    ACCEL_TRY(primary(p, &argument));
    ACCEL_TRY(postfix(p, &argument));
    ACCEL_TRY(add(p, *out, argument, NULL, NULL));
  }
  if (!not ) return ACCEL_OK;
  inner = *out;
  ACCEL_TRY(new_node(p, ACCEL__J_LOGIC, out));
  (*out)->op = '!';
  (*out)->a = inner;
  return ACCEL_OK;
}

static accel_status filters(parser *p, node **out) {
  for (int length = 0;; ++length) {
    if (length > ACCEL__JINJA_NESTING) return wrong(p, "%s", "a chain of filters is too long");
    if (take_op(p, "|"))
      ACCEL_TRY(filter(p, *out, out));
    else if (take_word(p, "is"))
      ACCEL_TRY(test(p, *out, out));
    else if (is_op(p, "("))
      ACCEL_TRY(call(p, *out, out));
    else
      return ACCEL_OK;
  }
}

static accel_status unary(parser *p, bool with_filter, node **out) {
  ACCEL_TRY(deeper(p));
  if (is_op(p, "-") || is_op(p, "+")) {
    ACCEL_TRY(new_node(p, ACCEL__J_UNARY, out));
    (*out)->op = p->at++->text[0];
    ACCEL_TRY(unary(p, false, &(*out)->a));
  } else {
    ACCEL_TRY(primary(p, out));
  }
  ACCEL_TRY(postfix(p, out));
  if (with_filter) ACCEL_TRY(filters(p, out));
  p->depth--;
  return ACCEL_OK;
}

/* The operators of a level, and how they are called in the tree. */
typedef struct level {
  const char *text[4];
  char op[4];
  int n;
} level;
static const level power = {{"**"}, {'p'}, 1},
                   product = {{"*", "/", "//", "%"}, {'*', '/', 'f', '%'}, 4},
                   sum = {{"+", "-"}, {'+', '-'}, 2};

static accel_status one(parser *p, node **out) { return unary(p, true, out); }

static accel_status binary(parser *p, const level *l, accel_status (*next)(parser *, node **),
                           node **out) {
  ACCEL_TRY(next(p, out));
  for (int length = 0;; ++length) {
    int k = 0;
    while (k < l->n && !is_op(p, l->text[k])) k++;
    if (k == l->n) return ACCEL_OK;
    if (length > ACCEL__JINJA_DEPTH / 2) return wrong(p, "%s", "an expression is too long");
    node *left = *out;
    ACCEL_TRY(new_node(p, ACCEL__J_BINARY, out));
    p->at++;
    (*out)->op = l->op[k];
    (*out)->a = left;
    ACCEL_TRY(next(p, &(*out)->b));
  }
}

static accel_status powers(parser *p, node **out) { return binary(p, &power, one, out); }
static accel_status products(parser *p, node **out) { return binary(p, &product, powers, out); }

static accel_status concat(parser *p, node **out) {
  ACCEL_TRY(products(p, out));
  if (!is_op(p, "~")) return ACCEL_OK;
  node *first = *out, *more = NULL;
  ACCEL_TRY(new_node(p, ACCEL__J_CONCAT, out));
  ACCEL_TRY(add(p, *out, first, NULL, NULL));
  while (take_op(p, "~")) {
    ACCEL_TRY(products(p, &more));
    ACCEL_TRY(add(p, *out, more, NULL, NULL));
  }
  return ACCEL_OK;
}

static accel_status sums(parser *p, node **out) { return binary(p, &sum, concat, out); }

static char comparison(const parser *p) {
  static const char *const text[] = {"==", "!=", ">=", "<=", ">", "<"};
  for (int i = 0; i < 6; ++i) {
    if (is_op(p, text[i])) return "=!gl><"[i];
  }
  if (is_word(p, "in")) return 'i';
  return is_word(p, "not") && is_text(p->at + 1, ACCEL__J_TOKEN_NAME, "in") ? 'n' : 0;
}

static accel_status compare(parser *p, node **out) {
  ACCEL_TRY(sums(p, out));
  char op = comparison(p), ops[ACCEL__JINJA_NESTING];
  if (!op) return ACCEL_OK;
  node *first = *out, *more = NULL;
  ACCEL_TRY(new_node(p, ACCEL__J_COMPARE, out));
  ACCEL_TRY(add(p, *out, first, NULL, NULL));
  size_t n = 0;
  for (; op; op = comparison(p)) {
    if (n + 1 == sizeof ops) return wrong(p, "%s", "an expression is too long");
    ops[n++] = op;
    p->at += op == 'n' ? 2 : 1;
    ACCEL_TRY(sums(p, &more));
    ACCEL_TRY(add(p, *out, more, NULL, NULL));
  }
  (*out)->name = accel__arena_copy(p->arena, ops, n);
  return (*out)->name ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static accel_status negation(parser *p, node **out) {
  if (!is_word(p, "not")) return compare(p, out);
  ACCEL_TRY(deeper(p));
  ACCEL_TRY(new_node(p, ACCEL__J_LOGIC, out));
  p->at++;
  (*out)->op = '!';
  ACCEL_TRY(negation(p, &(*out)->a));
  p->depth--;
  return ACCEL_OK;
}

static accel_status logic(parser *p, const char *word, char op,
                          accel_status (*next)(parser *, node **), node **out) {
  ACCEL_TRY(next(p, out));
  for (int length = 0; take_word(p, word); ++length) {
    if (length > ACCEL__JINJA_DEPTH / 2) return wrong(p, "%s", "an expression is too long");
    node *left = *out;
    ACCEL_TRY(new_node(p, ACCEL__J_LOGIC, out));
    (*out)->op = op;
    (*out)->a = left;
    ACCEL_TRY(next(p, &(*out)->b));
  }
  return ACCEL_OK;
}

static accel_status both(parser *p, node **out) { return logic(p, "and", '&', negation, out); }
static accel_status either(parser *p, node **out) { return logic(p, "or", '|', both, out); }

static accel_status condition(parser *p, bool with_if, node **out) {
  ACCEL_TRY(deeper(p));
  ACCEL_TRY(either(p, out));
  for (int length = 0; with_if && take_word(p, "if"); ++length) {
    if (length > ACCEL__JINJA_NESTING) return wrong(p, "%s", "an expression is too long");
    node *value = *out;
    ACCEL_TRY(new_node(p, ACCEL__J_COND, out));
    (*out)->a = value;
    ACCEL_TRY(either(p, &(*out)->b));
    if (take_word(p, "else")) ACCEL_TRY(condition(p, true, &(*out)->c));
  }
  p->depth--;
  return ACCEL_OK;
}

static accel_status expression(parser *p, node **out) { return condition(p, true, out); }

/* ---- statements ---- */

static accel_status body(parser *p, const char *const *ends, node **out);

static accel_status end_block(parser *p) {
  if (p->at->kind != ACCEL__J_TOKEN_BLOCK_END) return unexpected(p, "'%}'");
  p->at++;
  return ACCEL_OK;
}

/* The rest of a tag, then statements up to one of the words `ends`, which is left to be read. */
static accel_status block_body(parser *p, const char *const *ends, node **out) {
  take_op(p, ":");
  ACCEL_TRY(end_block(p));
  return body(p, ends, out);
}

/* The same, up to and with "word %}". */
static accel_status whole_body(parser *p, const char *word, node **out) {
  const char *const ends[] = {word, NULL};
  ACCEL_TRY(block_body(p, ends, out));
  p->at++;
  return ACCEL_OK;
}

/* a  |  a, (b, c)  |  ns.attr */
static accel_status target(parser *p, bool with_namespace, const char *stop, node **out);

static accel_status one_target(parser *p, bool with_namespace, node **out) {
  if (take_op(p, "(") || is_op(p, "[")) {
    const char *close = is_op(p, "[") ? "]" : ")";
    if (close[0] == ']') p->at++;
    ACCEL_TRY(deeper(p));
    ACCEL_TRY(target(p, with_namespace, NULL, out));
    p->depth--;
    return expect_op(p, close);
  }
  ACCEL_TRY(new_node(p, ACCEL__J_NAME, out));
  ACCEL_TRY(keep_name(p, &(*out)->name));
  static const char *const reserved[] = {"true", "false", "none", "True", "False", "None"};
  for (int i = 0; i < 6; ++i) {
    if (strcmp((*out)->name, reserved[i]) == 0)
      return wrong(p, "cannot assign to '%s'", reserved[i]);
  }
  if (!with_namespace || !take_op(p, ".")) return ACCEL_OK;
  const char *key = NULL;
  (*out)->kind = ACCEL__J_NSREF;
  ACCEL_TRY(keep_name(p, &key));
  return add(p, *out, NULL, key, NULL);
}

static accel_status target(parser *p, bool with_namespace, const char *stop, node **out) {
  node *all, *first;
  ACCEL_TRY(one_target(p, with_namespace, &first));
  if (!is_op(p, ",")) return *out = first, ACCEL_OK;
  ACCEL_TRY(new_node(p, ACCEL__J_MAKE, &all));
  all->op = ACCEL__J_TUPLE;
  ACCEL_TRY(add(p, all, first, NULL, NULL));
  while (take_op(p, ",")) {
    if (tuple_ends(p, stop) || is_op(p, "]") || is_op(p, "=")) break;
    ACCEL_TRY(one_target(p, with_namespace, &first));
    ACCEL_TRY(add(p, all, first, NULL, NULL));
  }
  *out = all;
  return ACCEL_OK;
}

static accel_status for_statement(parser *p, node *s) {
  static const char *const ends[] = {"endfor", "else", NULL};
  s->kind = ACCEL__J_FOR;
  ACCEL_TRY(target(p, false, "in", &s->a));
  ACCEL_TRY(expect_word(p, "in"));
  ACCEL_TRY(tuple(p, false, "recursive", false, &s->b));
  if (take_word(p, "if")) ACCEL_TRY(expression(p, &s->c));
  s->flag = take_word(p, "recursive");
  ACCEL_TRY(block_body(p, ends, &s->body));
  return p->at++->text[0] == 'e' && p->at[-1].n == 4 ? whole_body(p, "endfor", &s->other)
                                                     : ACCEL_OK;
}

static accel_status if_statement(parser *p, node *s) {
  static const char *const ends[] = {"elif", "else", "endif", NULL};
  s->kind = ACCEL__J_IF;
  for (;;) {
    node *condition_node, *branch;
    ACCEL_TRY(tuple(p, false, NULL, false, &condition_node));
    ACCEL_TRY(add(p, s, condition_node, NULL, NULL));
    ACCEL_TRY(block_body(p, ends, &branch));
    ACCEL_TRY(add(p, s, branch, NULL, NULL));
    const token *end = p->at++;
    if (is_text(end, ACCEL__J_TOKEN_NAME, "else")) return whole_body(p, "endif", &s->other);
    if (is_text(end, ACCEL__J_TOKEN_NAME, "endif")) return ACCEL_OK;
  }
}

static accel_status set_statement(parser *p, node *s) {
  s->kind = ACCEL__J_SET;
  ACCEL_TRY(target(p, true, NULL, &s->a));
  if (take_op(p, "=")) return tuple(p, true, NULL, false, &s->b);
  s->flag = true;
  while (take_op(p, "|")) ACCEL_TRY(filter(p, s->b, &s->b));
  return whole_body(p, "endset", &s->body);
}

static accel_status parameters(parser *p, node *s) {
  ACCEL_TRY(expect_op(p, "("));
  bool preset_seen = false;
  while (!is_op(p, ")")) {
    node *name, *preset = NULL;
    if (s->n) ACCEL_TRY(expect_op(p, ","));
    if (s->n && is_op(p, ")")) break;
    ACCEL_TRY(one_target(p, false, &name));
    if (take_op(p, "="))
      ACCEL_TRY(expression(p, &preset));
    else if (preset_seen)
      return wrong(p, "%s", "a parameter without a default follows one that has one");
    preset_seen = preset != NULL;
    ACCEL_TRY(add(p, s, name, NULL, preset));
  }
  return expect_op(p, ")");
}

static bool mentions(const node *n, const char *word) {
  if (!n) return false;
  if (n->kind == ACCEL__J_NAME && strcmp(n->name, word) == 0) return true;
  if (mentions(n->a, word) || mentions(n->b, word) || mentions(n->c, word) ||
      mentions(n->body, word) || mentions(n->other, word))
    return true;
  for (size_t i = 0; i < n->n; ++i) {
    if (mentions(n->kid[i], word) || mentions(n->preset[i], word)) return true;
  }
  return false;
}

/* The body of a macro or caller, and which of the hidden parameters it reads. */
static accel_status macro_body(parser *p, node *s, const char *end) {
  ACCEL_TRY(whole_body(p, end, &s->body));
  s->op = (char)((mentions(s->body, "varargs") ? ACCEL__J_VARARGS : 0) |
                 (mentions(s->body, "kwargs") ? ACCEL__J_KWARGS : 0) |
                 (mentions(s->body, "caller") ? ACCEL__J_CALLER : 0));
  return ACCEL_OK;
}

static accel_status macro_statement(parser *p, node *s) {
  s->kind = ACCEL__J_MACRO_DEF;
  ACCEL_TRY(keep_name(p, &s->name));
  ACCEL_TRY(parameters(p, s));
  return macro_body(p, s, "endmacro");
}

static accel_status call_statement(parser *p, node *s) {
  s->kind = ACCEL__J_CALL_BLOCK;
  s->name = "caller";
  if (is_op(p, "(")) ACCEL_TRY(parameters(p, s));
  ACCEL_TRY(expression(p, &s->a));
  if (s->a->kind != ACCEL__J_CALL) return wrong(p, "%s", "expected call");
  return macro_body(p, s, "endcall");
}

static accel_status filter_statement(parser *p, node *s) {
  s->kind = ACCEL__J_FILTERED;
  ACCEL_TRY(filter(p, NULL, &s->a));
  while (take_op(p, "|")) ACCEL_TRY(filter(p, s->a, &s->a));
  return whole_body(p, "endfilter", &s->body);
}

static accel_status with_statement(parser *p, node *s) {
  s->kind = ACCEL__J_WITH;
  while (p->at->kind != ACCEL__J_TOKEN_BLOCK_END) {
    node *name, *value;
    if (s->n) ACCEL_TRY(expect_op(p, ","));
    ACCEL_TRY(target(p, false, NULL, &name));
    ACCEL_TRY(expect_op(p, "="));
    ACCEL_TRY(expression(p, &value));
    ACCEL_TRY(add(p, s, name, NULL, NULL));
    ACCEL_TRY(add(p, s, value, NULL, NULL));
  }
  return whole_body(p, "endwith", &s->body);
}

static accel_status print_statement(parser *p, node *s) {
  node *one_value;
  s->kind = ACCEL__J_PRINT;
  ACCEL_TRY(new_node(p, ACCEL__J_CONCAT, &s->a));
  while (p->at->kind != ACCEL__J_TOKEN_BLOCK_END) {
    if (s->a->n) ACCEL_TRY(expect_op(p, ","));
    ACCEL_TRY(expression(p, &one_value));
    ACCEL_TRY(add(p, s->a, one_value, NULL, NULL));
  }
  return ACCEL_OK;
}

static accel_status generation_statement(parser *p, node *s) {
  s->kind = ACCEL__J_GENERATION;
  return whole_body(p, "endgeneration", &s->body);
}

static accel_status block_statement(parser *p, node *s) {
  s->kind = ACCEL__J_SCOPED;
  ACCEL_TRY(keep_name(p, &s->name));
  take_word(p, "scoped");
  ACCEL_TRY(whole_body(p, "endblock", &s->body));
  take_word(p, s->name);
  return ACCEL_OK;
}

static accel_status autoescape_statement(parser *p, node *s) {
  s->kind = ACCEL__J_SCOPED;
  ACCEL_TRY(expression(p, &s->a));
  if (s->a->kind != ACCEL__J_CONST || accel__jinja_truth(&s->a->value))
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: line %u: the tag 'autoescape' is not implemented", p->name, s->line);
  return whole_body(p, "endautoescape", &s->body);
}

static accel_status break_statement(parser *p, node *s) {
  return (void)p, s->kind = ACCEL__J_BREAK, ACCEL_OK;
}
static accel_status continue_statement(parser *p, node *s) {
  return (void)p, s->kind = ACCEL__J_CONTINUE, ACCEL_OK;
}

static accel_status no_files(parser *p, node *s) {
  return accel__fail(
      ACCEL_ERROR_UNSUPPORTED,
      "%s: line %u: a chat template cannot reach other templates (include, import, from, extends)",
      p->name, s->line);
}

static accel_status statement(parser *p, node **out) {
  static const struct {
    const char *word;
    accel_status (*parse)(parser *, node *);
  } tags[] = {{"if", if_statement},
              {"for", for_statement},
              {"set", set_statement},
              {"macro", macro_statement},
              {"call", call_statement},
              {"filter", filter_statement},
              {"with", with_statement},
              {"generation", generation_statement},
              {"break", break_statement},
              {"continue", continue_statement},
              {"print", print_statement},
              {"block", block_statement},
              {"autoescape", autoescape_statement},
              {"include", no_files},
              {"import", no_files},
              {"from", no_files},
              {"extends", no_files}};
  ACCEL_TRY(new_node(p, ACCEL__J_BODY, out));
  for (size_t i = 0; i < sizeof tags / sizeof *tags; ++i) {
    if (!take_word(p, tags[i].word)) continue;
    ACCEL_TRY(tags[i].parse(p, *out));
    return end_block(p);
  }
  return unexpected(p, "a tag");
}

static accel_status print(parser *p, node **out) {
  ACCEL_TRY(new_node(p, ACCEL__J_PRINT, out));
  p->at++;
  ACCEL_TRY(tuple(p, true, NULL, false, &(*out)->a));
  if (p->at->kind != ACCEL__J_TOKEN_PRINT_END) return unexpected(p, "'}}'");
  p->at++;
  return ACCEL_OK;
}

static accel_status data(parser *p, node **out) {
  ACCEL_TRY(new_node(p, ACCEL__J_DATA, out));
  (*out)->value = (accel__jinja_value){.kind = ACCEL__J_STRING, .n = p->at->n, .text = p->at->text};
  p->at++;
  return ACCEL_OK;
}

static bool ends_body(const parser *p, const char *const *ends) {
  if (!ends || p->at->kind != ACCEL__J_TOKEN_BLOCK) return false;
  for (; *ends; ++ends) {
    if (is_text(p->at + 1, ACCEL__J_TOKEN_NAME, *ends)) return true;
  }
  return false;
}

static accel_status body(parser *p, const char *const *ends, node **out) {
  node *kid;
  ACCEL_TRY(deeper(p));
  ACCEL_TRY(new_node(p, ACCEL__J_BODY, out));
  while (!ends_body(p, ends)) {
    switch (p->at->kind) {
      case ACCEL__J_TOKEN_DATA:
        ACCEL_TRY(data(p, &kid));
        break;
      case ACCEL__J_TOKEN_PRINT:
        ACCEL_TRY(print(p, &kid));
        break;
      case ACCEL__J_TOKEN_BLOCK:
        p->at++;
        ACCEL_TRY(statement(p, &kid));
        break;
      default:
        if (!ends) return ACCEL_OK;
        return wrong(p, "the template ends before '%s'", ends[0]);
    }
    ACCEL_TRY(add(p, *out, kid, NULL, NULL));
  }
  p->at++; /* the word is next */
  p->depth--;
  return ACCEL_OK;
}

accel_status accel__jinja_parse(accel__arena *arena, const char *text, size_t n, const char *name,
                                const accel__jinja_node **out) {
  parser p = {.arena = arena, .name = name};
  token *tokens;
  size_t count;
  node *root;
  ACCEL_TRY(accel__jinja_lex(arena, text, n, name, &tokens, &count));
  p.at = tokens;
  ACCEL_TRY(body(&p, NULL, &root));
  if (p.at->kind != ACCEL__J_TOKEN_END) return unexpected(&p, "the end of the template");
  *out = root;
  return ACCEL_OK;
}
