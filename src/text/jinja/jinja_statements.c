/* jinja_statements.c - text, {{ prints }} and {% tags %} of a template to a syntax tree. */
#include <string.h>

#include "text/jinja/jinja_parse.h"

typedef accel__jinja_parser parser;
typedef accel__jinja_node node;
typedef accel__jinja_token token;

static accel_status end_block(parser *p) {
  if (p->at->kind != ACCEL__J_TOKEN_BLOCK_END) return accel__jinja_unexpected(p, "'%}'");
  p->at++;
  return ACCEL_OK;
}

/* The rest of a tag, then statements up to one of the words `ends`, which is left to be read. */
static accel_status block_body(parser *p, const char *const *ends, node **out) {
  accel__jinja_take_op(p, ":");
  ACCEL_TRY(end_block(p));
  return accel__jinja_parse_body(p, ends, out);
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
  if (accel__jinja_take_op(p, "(") || accel__jinja_at_op(p, "[")) {
    const char *close = accel__jinja_at_op(p, "[") ? "]" : ")";
    if (close[0] == ']') p->at++;
    ACCEL_TRY(accel__jinja_nest(p));
    ACCEL_TRY(target(p, with_namespace, NULL, out));
    p->depth--;
    return accel__jinja_expect_op(p, close);
  }
  ACCEL_TRY(accel__jinja_node_new(p, ACCEL__J_NAME, out));
  ACCEL_TRY(accel__jinja_take_name(p, &(*out)->name));
  static const char *const reserved[] = {"true", "false", "none", "True", "False", "None"};
  for (int i = 0; i < 6; ++i) {
    if (strcmp((*out)->name, reserved[i]) == 0)
      return accel__jinja_parse_fail(p, "cannot assign to '%s'", reserved[i]);
  }
  if (!with_namespace || !accel__jinja_take_op(p, ".")) return ACCEL_OK;
  const char *key = NULL;
  (*out)->kind = ACCEL__J_NSREF;
  ACCEL_TRY(accel__jinja_take_name(p, &key));
  return accel__jinja_add_child(p, *out, NULL, key, NULL);
}

static accel_status target(parser *p, bool with_namespace, const char *stop, node **out) {
  node *all, *first;
  ACCEL_TRY(one_target(p, with_namespace, &first));
  if (!accel__jinja_at_op(p, ",")) return *out = first, ACCEL_OK;
  ACCEL_TRY(accel__jinja_node_new(p, ACCEL__J_MAKE, &all));
  all->op = ACCEL__J_TUPLE;
  ACCEL_TRY(accel__jinja_add_child(p, all, first, NULL, NULL));
  while (accel__jinja_take_op(p, ",")) {
    if (accel__jinja_tuple_ends(p, stop) || accel__jinja_at_op(p, "]") ||
        accel__jinja_at_op(p, "="))
      break;
    ACCEL_TRY(one_target(p, with_namespace, &first));
    ACCEL_TRY(accel__jinja_add_child(p, all, first, NULL, NULL));
  }
  *out = all;
  return ACCEL_OK;
}

static accel_status for_statement(parser *p, node *s) {
  static const char *const ends[] = {"endfor", "else", NULL};
  s->kind = ACCEL__J_FOR;
  ACCEL_TRY(target(p, false, "in", &s->a));
  ACCEL_TRY(accel__jinja_expect_word(p, "in"));
  ACCEL_TRY(accel__jinja_parse_tuple(p, false, "recursive", false, &s->b));
  if (accel__jinja_take_word(p, "if")) ACCEL_TRY(accel__jinja_parse_expression(p, &s->c));
  s->flag = accel__jinja_take_word(p, "recursive");
  ACCEL_TRY(block_body(p, ends, &s->body));
  return p->at++->text[0] == 'e' && p->at[-1].n == 4 ? whole_body(p, "endfor", &s->other)
                                                     : ACCEL_OK;
}

static accel_status if_statement(parser *p, node *s) {
  static const char *const ends[] = {"elif", "else", "endif", NULL};
  s->kind = ACCEL__J_IF;
  for (;;) {
    node *condition_node, *branch;
    ACCEL_TRY(accel__jinja_parse_tuple(p, false, NULL, false, &condition_node));
    ACCEL_TRY(accel__jinja_add_child(p, s, condition_node, NULL, NULL));
    ACCEL_TRY(block_body(p, ends, &branch));
    ACCEL_TRY(accel__jinja_add_child(p, s, branch, NULL, NULL));
    const token *end = p->at++;
    if (accel__jinja_token_is(end, ACCEL__J_TOKEN_NAME, "else"))
      return whole_body(p, "endif", &s->other);
    if (accel__jinja_token_is(end, ACCEL__J_TOKEN_NAME, "endif")) return ACCEL_OK;
  }
}

static accel_status set_statement(parser *p, node *s) {
  s->kind = ACCEL__J_SET;
  ACCEL_TRY(target(p, true, NULL, &s->a));
  if (accel__jinja_take_op(p, "=")) return accel__jinja_parse_tuple(p, true, NULL, false, &s->b);
  s->flag = true;
  while (accel__jinja_take_op(p, "|")) ACCEL_TRY(accel__jinja_parse_filter(p, s->b, &s->b));
  return whole_body(p, "endset", &s->body);
}

static accel_status macro_parameters(parser *p, node *s) {
  ACCEL_TRY(accel__jinja_expect_op(p, "("));
  bool preset_seen = false;
  while (!accel__jinja_at_op(p, ")")) {
    node *name, *preset = NULL;
    if (s->n) ACCEL_TRY(accel__jinja_expect_op(p, ","));
    if (s->n && accel__jinja_at_op(p, ")")) break;
    ACCEL_TRY(one_target(p, false, &name));
    if (accel__jinja_take_op(p, "="))
      ACCEL_TRY(accel__jinja_parse_expression(p, &preset));
    else if (preset_seen)
      return accel__jinja_parse_fail(p, "%s",
                                     "a parameter without a default follows one that has one");
    preset_seen = preset != NULL;
    ACCEL_TRY(accel__jinja_add_child(p, s, name, NULL, preset));
  }
  return accel__jinja_expect_op(p, ")");
}

/* Whether the name `word` is read anywhere in the tree below `n`. */
static bool reads_name(const node *n, const char *word) {
  if (!n) return false;
  if (n->kind == ACCEL__J_NAME && strcmp(n->name, word) == 0) return true;
  if (reads_name(n->a, word) || reads_name(n->b, word) || reads_name(n->c, word) ||
      reads_name(n->body, word) || reads_name(n->other, word))
    return true;
  for (size_t i = 0; i < n->n; ++i) {
    if (reads_name(n->child[i], word) || reads_name(n->preset[i], word)) return true;
  }
  return false;
}

/* The body of a macro or caller, and which of the hidden parameters it reads. */
static accel_status macro_body(parser *p, node *s, const char *end) {
  ACCEL_TRY(whole_body(p, end, &s->body));
  s->op = (char)((reads_name(s->body, "varargs") ? ACCEL__J_VARARGS : 0) |
                 (reads_name(s->body, "kwargs") ? ACCEL__J_KWARGS : 0) |
                 (reads_name(s->body, "caller") ? ACCEL__J_CALLER : 0));
  return ACCEL_OK;
}

static accel_status macro_statement(parser *p, node *s) {
  s->kind = ACCEL__J_MACRO_DEF;
  ACCEL_TRY(accel__jinja_take_name(p, &s->name));
  ACCEL_TRY(macro_parameters(p, s));
  return macro_body(p, s, "endmacro");
}

static accel_status call_statement(parser *p, node *s) {
  s->kind = ACCEL__J_CALL_BLOCK;
  s->name = "caller";
  if (accel__jinja_at_op(p, "(")) ACCEL_TRY(macro_parameters(p, s));
  ACCEL_TRY(accel__jinja_parse_expression(p, &s->a));
  if (s->a->kind != ACCEL__J_CALL) return accel__jinja_parse_fail(p, "%s", "expected call");
  return macro_body(p, s, "endcall");
}

static accel_status filter_statement(parser *p, node *s) {
  s->kind = ACCEL__J_FILTERED;
  ACCEL_TRY(accel__jinja_parse_filter(p, NULL, &s->a));
  while (accel__jinja_take_op(p, "|")) ACCEL_TRY(accel__jinja_parse_filter(p, s->a, &s->a));
  return whole_body(p, "endfilter", &s->body);
}

static accel_status with_statement(parser *p, node *s) {
  s->kind = ACCEL__J_WITH;
  while (p->at->kind != ACCEL__J_TOKEN_BLOCK_END) {
    node *name, *value;
    if (s->n) ACCEL_TRY(accel__jinja_expect_op(p, ","));
    ACCEL_TRY(target(p, false, NULL, &name));
    ACCEL_TRY(accel__jinja_expect_op(p, "="));
    ACCEL_TRY(accel__jinja_parse_expression(p, &value));
    ACCEL_TRY(accel__jinja_add_child(p, s, name, NULL, NULL));
    ACCEL_TRY(accel__jinja_add_child(p, s, value, NULL, NULL));
  }
  return whole_body(p, "endwith", &s->body);
}

static accel_status print_statement(parser *p, node *s) {
  node *item;
  s->kind = ACCEL__J_PRINT;
  ACCEL_TRY(accel__jinja_node_new(p, ACCEL__J_CONCAT, &s->a));
  while (p->at->kind != ACCEL__J_TOKEN_BLOCK_END) {
    if (s->a->n) ACCEL_TRY(accel__jinja_expect_op(p, ","));
    ACCEL_TRY(accel__jinja_parse_expression(p, &item));
    ACCEL_TRY(accel__jinja_add_child(p, s->a, item, NULL, NULL));
  }
  return ACCEL_OK;
}

static accel_status generation_statement(parser *p, node *s) {
  s->kind = ACCEL__J_GENERATION;
  return whole_body(p, "endgeneration", &s->body);
}

static accel_status block_statement(parser *p, node *s) {
  s->kind = ACCEL__J_SCOPED;
  ACCEL_TRY(accel__jinja_take_name(p, &s->name));
  accel__jinja_take_word(p, "scoped");
  ACCEL_TRY(whole_body(p, "endblock", &s->body));
  accel__jinja_take_word(p, s->name);
  return ACCEL_OK;
}

static accel_status autoescape_statement(parser *p, node *s) {
  s->kind = ACCEL__J_SCOPED;
  ACCEL_TRY(accel__jinja_parse_expression(p, &s->a));
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

static accel_status refuse_files(parser *p, node *s) {
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
              {"include", refuse_files},
              {"import", refuse_files},
              {"from", refuse_files},
              {"extends", refuse_files}};
  ACCEL_TRY(accel__jinja_node_new(p, ACCEL__J_BODY, out));
  for (size_t i = 0; i < sizeof tags / sizeof *tags; ++i) {
    if (!accel__jinja_take_word(p, tags[i].word)) continue;
    ACCEL_TRY(tags[i].parse(p, *out));
    return end_block(p);
  }
  return accel__jinja_unexpected(p, "a tag");
}

static accel_status print(parser *p, node **out) {
  ACCEL_TRY(accel__jinja_node_new(p, ACCEL__J_PRINT, out));
  p->at++;
  ACCEL_TRY(accel__jinja_parse_tuple(p, true, NULL, false, &(*out)->a));
  if (p->at->kind != ACCEL__J_TOKEN_PRINT_END) return accel__jinja_unexpected(p, "'}}'");
  p->at++;
  return ACCEL_OK;
}

static accel_status data(parser *p, node **out) {
  ACCEL_TRY(accel__jinja_node_new(p, ACCEL__J_DATA, out));
  (*out)->value = (accel__jinja_value){.kind = ACCEL__J_STRING, .n = p->at->n, .text = p->at->text};
  p->at++;
  return ACCEL_OK;
}

static bool ends_body(const parser *p, const char *const *ends) {
  if (!ends || p->at->kind != ACCEL__J_TOKEN_BLOCK) return false;
  for (; *ends; ++ends) {
    if (accel__jinja_token_is(p->at + 1, ACCEL__J_TOKEN_NAME, *ends)) return true;
  }
  return false;
}

accel_status accel__jinja_parse_body(parser *p, const char *const *ends, node **out) {
  node *child;
  ACCEL_TRY(accel__jinja_nest(p));
  ACCEL_TRY(accel__jinja_node_new(p, ACCEL__J_BODY, out));
  while (!ends_body(p, ends)) {
    switch (p->at->kind) {
      case ACCEL__J_TOKEN_DATA:
        ACCEL_TRY(data(p, &child));
        break;
      case ACCEL__J_TOKEN_PRINT:
        ACCEL_TRY(print(p, &child));
        break;
      case ACCEL__J_TOKEN_BLOCK:
        p->at++;
        ACCEL_TRY(statement(p, &child));
        break;
      default:
        if (!ends) return ACCEL_OK;
        return accel__jinja_parse_fail(p, "the template ends before '%s'", ends[0]);
    }
    ACCEL_TRY(accel__jinja_add_child(p, *out, child, NULL, NULL));
  }
  p->at++; /* the word is next */
  p->depth--;
  return ACCEL_OK;
}
