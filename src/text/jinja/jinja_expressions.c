/* jinja_expressions.c - expressions of a template to a syntax tree, by jinja2's grammar. */
#include <string.h>

#include "text/jinja/jinja_parse.h"

typedef accel__jinja_parser parser;
typedef accel__jinja_node node;
typedef accel__jinja_token token;

static accel_status condition(parser *p, bool with_if, node **out);
static accel_status unary(parser *p, bool with_filter, node **out);

/* At the end of a tuple without brackets? */
bool accel__jinja_tuple_ends(const parser *p, const char *stop) {
  return p->at->kind == ACCEL__J_TOKEN_PRINT_END || p->at->kind == ACCEL__J_TOKEN_BLOCK_END ||
         p->at->kind == ACCEL__J_TOKEN_END || accel__jinja_at_op(p, ")") ||
         (stop && accel__jinja_at_word(p, stop));
}

accel_status accel__jinja_parse_tuple(parser *p, bool with_if, const char *stop, bool bracketed,
                                      node **out) {
  node *all, *one = NULL;
  bool is_tuple = false;
  ACCEL_TRY(accel__jinja_node_new(p, ACCEL__J_MAKE, &all));
  all->op = ACCEL__J_TUPLE;
  for (;;) {
    if (all->n) ACCEL_TRY(accel__jinja_expect_op(p, ","));
    if (accel__jinja_tuple_ends(p, stop)) break;
    ACCEL_TRY(condition(p, with_if, &one));
    ACCEL_TRY(accel__jinja_add_child(p, all, one, NULL, NULL));
    if (!accel__jinja_at_op(p, ",")) break;
    is_tuple = true;
  }
  if (!is_tuple && all->n == 1) return *out = one, ACCEL_OK;
  if (all->n == 0 && !bracketed) return accel__jinja_unexpected(p, "an expression");
  *out = all;
  return ACCEL_OK;
}

static accel_status constant(parser *p, accel__jinja_value value, node **out) {
  ACCEL_TRY(accel__jinja_node_new(p, ACCEL__J_CONST, out));
  (*out)->value = value;
  return ACCEL_OK;
}

static accel_status string_literal(parser *p, node **out) {
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
  ACCEL_TRY(accel__jinja_node_new(p, ACCEL__J_MAKE, out));
  (*out)->op = dict ? ACCEL__J_DICT : ACCEL__J_LIST;
  p->at++;
  while (!accel__jinja_at_op(p, close)) {
    if ((*out)->n) ACCEL_TRY(accel__jinja_expect_op(p, ","));
    if (accel__jinja_at_op(p, close)) break;
    ACCEL_TRY(accel__jinja_parse_expression(p, &item));
    ACCEL_TRY(accel__jinja_add_child(p, *out, item, NULL, NULL));
    if (!dict) continue;
    ACCEL_TRY(accel__jinja_expect_op(p, ":"));
    ACCEL_TRY(accel__jinja_parse_expression(p, &item));
    ACCEL_TRY(accel__jinja_add_child(p, *out, item, NULL, NULL));
  }
  return accel__jinja_expect_op(p, close);
}

static accel_status name_or_word(parser *p, node **out) {
  static const char *const words[] = {"true", "True", "false", "False", "none", "None"};
  for (int i = 0; i < 6; ++i) {
    if (!accel__jinja_at_word(p, words[i])) continue;
    ACCEL_TRY(constant(p, i < 4 ? accel__jinja_bool(i < 2) : accel__jinja_none(), out));
    p->at++;
    return ACCEL_OK;
  }
  ACCEL_TRY(accel__jinja_node_new(p, ACCEL__J_NAME, out));
  return accel__jinja_take_name(p, &(*out)->name);
}

static accel_status primary(parser *p, node **out) {
  const token *t = p->at;
  switch (t->kind) {
    case ACCEL__J_TOKEN_NAME:
      return name_or_word(p, out);
    case ACCEL__J_TOKEN_STRING:
      return string_literal(p, out);
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
  if (accel__jinja_take_op(p, "(")) {
    ACCEL_TRY(accel__jinja_parse_tuple(p, true, NULL, true, out));
    return accel__jinja_expect_op(p, ")");
  }
  if (accel__jinja_at_op(p, "[") || accel__jinja_at_op(p, "{"))
    return list_or_dict(p, accel__jinja_at_op(p, "{"), out);
  return accel__jinja_unexpected(p, "an expression");
}

/* (a, b, key=c, *d, **e) into children and keys of `to` */
static accel_status arguments(parser *p, node *to) {
  ACCEL_TRY(accel__jinja_expect_op(p, "("));
  bool any = false, named = false;
  while (!accel__jinja_at_op(p, ")")) {
    node *value;
    const char *key = NULL;
    if (any) ACCEL_TRY(accel__jinja_expect_op(p, ","));
    if (any && accel__jinja_at_op(p, ")")) break;
    if (accel__jinja_take_op(p, "*")) {
      key = "*";
    } else if (accel__jinja_take_op(p, "**")) {
      key = "**";
    } else if (p->at->kind == ACCEL__J_TOKEN_NAME &&
               accel__jinja_token_is(p->at + 1, ACCEL__J_TOKEN_OPERATOR, "=")) {
      ACCEL_TRY(accel__jinja_take_name(p, &key));
      p->at++;
      named = true;
    } else if (named) {
      return accel__jinja_parse_fail(p, "%s", "a positional argument follows a keyword argument");
    }
    ACCEL_TRY(accel__jinja_parse_expression(p, &value));
    ACCEL_TRY(accel__jinja_add_child(p, to, value, key, NULL));
    any = true;
  }
  return accel__jinja_expect_op(p, ")");
}

/* [a], [a:b:c], [a, b] */
static accel_status subscript(parser *p, node *of, node **out) {
  node *part[3] = {0};
  int n = 0;
  bool slice = false;
  if (accel__jinja_at_op(p, "]"))
    return accel__jinja_parse_fail(p, "%s", "expected subscript expression");
  while (!accel__jinja_at_op(p, "]")) {
    if (accel__jinja_take_op(p, ":")) {
      slice = true;
      if (++n == 3) return accel__jinja_parse_fail(p, "%s", "a slice has too many parts");
      continue;
    }
    if (part[n]) break;
    ACCEL_TRY(slice ? accel__jinja_parse_expression(p, &part[n])
                    : accel__jinja_parse_tuple(p, true, NULL, false, &part[n]));
  }
  ACCEL_TRY(accel__jinja_expect_op(p, "]"));
  ACCEL_TRY(accel__jinja_node_new(p, slice ? ACCEL__J_SLICE : ACCEL__J_ITEM, out));
  (*out)->a = of;
  (*out)->b = part[0];
  for (int i = 0; slice && i < 3; ++i)
    ACCEL_TRY(accel__jinja_add_child(p, *out, part[i], NULL, NULL));
  return ACCEL_OK;
}

static accel_status after_dot(parser *p, node *of, node **out) {
  if (p->at->kind == ACCEL__J_TOKEN_INT) {
    ACCEL_TRY(accel__jinja_node_new(p, ACCEL__J_ITEM, out));
    (*out)->a = of;
    return primary(p, &(*out)->b);
  }
  ACCEL_TRY(accel__jinja_node_new(p, ACCEL__J_ATTR, out));
  (*out)->a = of;
  return accel__jinja_take_name(p, &(*out)->name);
}

static accel_status call_of(parser *p, node *of, node **out) {
  ACCEL_TRY(accel__jinja_node_new(p, ACCEL__J_CALL, out));
  (*out)->a = of;
  return arguments(p, *out);
}

static accel_status postfix(parser *p, node **out) {
  for (int length = 0;; ++length) {
    if (length > ACCEL__JINJA_NESTING)
      return accel__jinja_parse_fail(p, "%s", "a chain of attributes is too long");
    if (accel__jinja_take_op(p, "."))
      ACCEL_TRY(after_dot(p, *out, out));
    else if (accel__jinja_take_op(p, "["))
      ACCEL_TRY(subscript(p, *out, out));
    else if (accel__jinja_at_op(p, "("))
      ACCEL_TRY(call_of(p, *out, out));
    else
      return ACCEL_OK;
  }
}

/* a.b.c, as filters and tests may be named */
static accel_status dotted_name(parser *p, const char **out) {
  ACCEL_TRY(accel__jinja_take_name(p, out));
  while (accel__jinja_take_op(p, ".")) {
    const char *more = NULL;
    ACCEL_TRY(accel__jinja_take_name(p, &more));
    *out = accel__arena_printf(p->arena, "%s.%s", *out, more);
    if (!*out) return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  return ACCEL_OK;
}

accel_status accel__jinja_parse_filter(parser *p, node *of, node **out) {
  ACCEL_TRY(accel__jinja_node_new(p, ACCEL__J_FILTER, out));
  (*out)->a = of;
  ACCEL_TRY(dotted_name(p, &(*out)->name));
  (*out)->builtin = accel__jinja_filter((*out)->name, strlen((*out)->name));
  return accel__jinja_at_op(p, "(") ? arguments(p, *out) : ACCEL_OK;
}

static bool begins_argument(const parser *p) {
  uint8_t k = p->at->kind;
  if (k == ACCEL__J_TOKEN_NAME)
    return !accel__jinja_at_word(p, "else") && !accel__jinja_at_word(p, "or") &&
           !accel__jinja_at_word(p, "and");
  return k == ACCEL__J_TOKEN_STRING || k == ACCEL__J_TOKEN_INT || k == ACCEL__J_TOKEN_FLOAT ||
         accel__jinja_at_op(p, "[") || accel__jinja_at_op(p, "{");
}

static accel_status test_of(parser *p, node *of, node **out) {
  bool not = accel__jinja_take_word(p, "not");
  node *argument, *inner;
  ACCEL_TRY(accel__jinja_node_new(p, ACCEL__J_TEST, out));
  (*out)->a = of;
  ACCEL_TRY(dotted_name(p, &(*out)->name));
  (*out)->builtin = accel__jinja_find(accel__jinja_tests, (*out)->name, strlen((*out)->name));
  if (accel__jinja_at_op(p, "(")) {
    ACCEL_TRY(arguments(p, *out));
  } else if (begins_argument(p)) {
    if (accel__jinja_at_word(p, "is"))
      return accel__jinja_parse_fail(p, "%s", "tests cannot be chained with 'is'");
    ACCEL_TRY(primary(p, &argument));
    ACCEL_TRY(postfix(p, &argument));
    ACCEL_TRY(accel__jinja_add_child(p, *out, argument, NULL, NULL));
  }
  if (!not ) return ACCEL_OK;
  inner = *out;
  ACCEL_TRY(accel__jinja_node_new(p, ACCEL__J_LOGIC, out));
  (*out)->op = '!';
  (*out)->a = inner;
  return ACCEL_OK;
}

static accel_status filters_and_tests(parser *p, node **out) {
  for (int length = 0;; ++length) {
    if (length > ACCEL__JINJA_NESTING)
      return accel__jinja_parse_fail(p, "%s", "a chain of filters is too long");
    if (accel__jinja_take_op(p, "|"))
      ACCEL_TRY(accel__jinja_parse_filter(p, *out, out));
    else if (accel__jinja_take_word(p, "is"))
      ACCEL_TRY(test_of(p, *out, out));
    else if (accel__jinja_at_op(p, "("))
      ACCEL_TRY(call_of(p, *out, out));
    else
      return ACCEL_OK;
  }
}

static accel_status unary(parser *p, bool with_filter, node **out) {
  ACCEL_TRY(accel__jinja_nest(p));
  if (accel__jinja_at_op(p, "-") || accel__jinja_at_op(p, "+")) {
    ACCEL_TRY(accel__jinja_node_new(p, ACCEL__J_UNARY, out));
    (*out)->op = p->at++->text[0];
    ACCEL_TRY(unary(p, false, &(*out)->a));
  } else {
    ACCEL_TRY(primary(p, out));
  }
  ACCEL_TRY(postfix(p, out));
  if (with_filter) ACCEL_TRY(filters_and_tests(p, out));
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

static accel_status filtered_unary(parser *p, node **out) { return unary(p, true, out); }

static accel_status binary_chain(parser *p, const level *l, accel_status (*next)(parser *, node **),
                                 node **out) {
  ACCEL_TRY(next(p, out));
  for (int length = 0;; ++length) {
    int k = 0;
    while (k < l->n && !accel__jinja_at_op(p, l->text[k])) k++;
    if (k == l->n) return ACCEL_OK;
    if (length > ACCEL__JINJA_DEPTH / 2)
      return accel__jinja_parse_fail(p, "%s", "an expression is too long");
    node *left = *out;
    ACCEL_TRY(accel__jinja_node_new(p, ACCEL__J_BINARY, out));
    p->at++;
    (*out)->op = l->op[k];
    (*out)->a = left;
    ACCEL_TRY(next(p, &(*out)->b));
  }
}

static accel_status powers(parser *p, node **out) {
  return binary_chain(p, &power, filtered_unary, out);
}
static accel_status products(parser *p, node **out) {
  return binary_chain(p, &product, powers, out);
}

static accel_status concat(parser *p, node **out) {
  ACCEL_TRY(products(p, out));
  if (!accel__jinja_at_op(p, "~")) return ACCEL_OK;
  node *first = *out, *more = NULL;
  ACCEL_TRY(accel__jinja_node_new(p, ACCEL__J_CONCAT, out));
  ACCEL_TRY(accel__jinja_add_child(p, *out, first, NULL, NULL));
  while (accel__jinja_take_op(p, "~")) {
    ACCEL_TRY(products(p, &more));
    ACCEL_TRY(accel__jinja_add_child(p, *out, more, NULL, NULL));
  }
  return ACCEL_OK;
}

static accel_status sums(parser *p, node **out) { return binary_chain(p, &sum, concat, out); }

static char comparison_operator(const parser *p) {
  static const char *const text[] = {"==", "!=", ">=", "<=", ">", "<"};
  for (int i = 0; i < 6; ++i) {
    if (accel__jinja_at_op(p, text[i])) return "=!gl><"[i];
  }
  if (accel__jinja_at_word(p, "in")) return 'i';
  return accel__jinja_at_word(p, "not") &&
                 accel__jinja_token_is(p->at + 1, ACCEL__J_TOKEN_NAME, "in")
             ? 'n'
             : 0;
}

static accel_status comparison_chain(parser *p, node **out) {
  ACCEL_TRY(sums(p, out));
  char op = comparison_operator(p), ops[ACCEL__JINJA_NESTING];
  if (!op) return ACCEL_OK;
  node *first = *out, *more = NULL;
  ACCEL_TRY(accel__jinja_node_new(p, ACCEL__J_COMPARE, out));
  ACCEL_TRY(accel__jinja_add_child(p, *out, first, NULL, NULL));
  size_t n = 0;
  for (; op; op = comparison_operator(p)) {
    if (n + 1 == sizeof ops) return accel__jinja_parse_fail(p, "%s", "an expression is too long");
    ops[n++] = op;
    p->at += op == 'n' ? 2 : 1;
    ACCEL_TRY(sums(p, &more));
    ACCEL_TRY(accel__jinja_add_child(p, *out, more, NULL, NULL));
  }
  (*out)->name = accel__arena_copy(p->arena, ops, n);
  return (*out)->name ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static accel_status not_expression(parser *p, node **out) {
  if (!accel__jinja_at_word(p, "not")) return comparison_chain(p, out);
  ACCEL_TRY(accel__jinja_nest(p));
  ACCEL_TRY(accel__jinja_node_new(p, ACCEL__J_LOGIC, out));
  p->at++;
  (*out)->op = '!';
  ACCEL_TRY(not_expression(p, &(*out)->a));
  p->depth--;
  return ACCEL_OK;
}

static accel_status logic_chain(parser *p, const char *word, char op,
                                accel_status (*next)(parser *, node **), node **out) {
  ACCEL_TRY(next(p, out));
  for (int length = 0; accel__jinja_take_word(p, word); ++length) {
    if (length > ACCEL__JINJA_DEPTH / 2)
      return accel__jinja_parse_fail(p, "%s", "an expression is too long");
    node *left = *out;
    ACCEL_TRY(accel__jinja_node_new(p, ACCEL__J_LOGIC, out));
    (*out)->op = op;
    (*out)->a = left;
    ACCEL_TRY(next(p, &(*out)->b));
  }
  return ACCEL_OK;
}

static accel_status and_expression(parser *p, node **out) {
  return logic_chain(p, "and", '&', not_expression, out);
}
static accel_status or_expression(parser *p, node **out) {
  return logic_chain(p, "or", '|', and_expression, out);
}

static accel_status condition(parser *p, bool with_if, node **out) {
  ACCEL_TRY(accel__jinja_nest(p));
  ACCEL_TRY(or_expression(p, out));
  for (int length = 0; with_if && accel__jinja_take_word(p, "if"); ++length) {
    if (length > ACCEL__JINJA_NESTING)
      return accel__jinja_parse_fail(p, "%s", "an expression is too long");
    node *value = *out;
    ACCEL_TRY(accel__jinja_node_new(p, ACCEL__J_COND, out));
    (*out)->a = value;
    ACCEL_TRY(or_expression(p, &(*out)->b));
    if (accel__jinja_take_word(p, "else")) ACCEL_TRY(condition(p, true, &(*out)->c));
  }
  p->depth--;
  return ACCEL_OK;
}

accel_status accel__jinja_parse_expression(parser *p, node **out) {
  return condition(p, true, out);
}
