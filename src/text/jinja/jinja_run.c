/* jinja_run.c - runs a syntax tree: statements write text, expressions give values. */
#include <stdlib.h>
#include <string.h>

#include "text/jinja/jinja.h"

typedef accel__jinja_value value;
typedef accel__jinja_node node;
typedef accel__jinja_scope scope;

static accel_status eval(accel__jinja *run, scope *s, const node *n, value *out);
static accel_status exec(accel__jinja *run, scope *s, const node *n);

/* ---- names ---- */

accel_status accel__jinja_bind(accel__jinja *run, scope *s, const char *name, value v) {
  for (size_t i = 0; i < s->n; ++i) {
    if (strcmp(s->at[i].name, name) == 0) return s->at[i].value = v, ACCEL_OK;
  }
  if (s->n == s->capacity) {
    size_t more = s->capacity ? 2 * s->capacity : 4;
    accel__jinja_binding *grown;
    ACCEL_TRY(accel__jinja_alloc(run, more * sizeof *grown, &grown));
    if (s->n) memcpy(grown, s->at, s->n * sizeof *grown);
    s->at = grown;
    s->capacity = more;
  }
  s->at[s->n++] = (accel__jinja_binding){name, v};
  return accel__jinja_charge(run, 8 * s->n);
}

static accel_status lookup(accel__jinja *run, const scope *s, const char *name, value *out) {
  for (; s; s = s->parent) {
    ACCEL_TRY(accel__jinja_charge(run, 8 * s->n));
    for (size_t i = 0; i < s->n; ++i) {
      if (strcmp(s->at[i].name, name) == 0) return *out = s->at[i].value, ACCEL_OK;
    }
  }
  const accel__jinja_builtin *found = accel__jinja_find(accel__jinja_globals, name, strlen(name));
  if (found)
    *out = (value){.kind = ACCEL__J_BUILTIN, .builtin = found};
  else
    *out = (value){.kind = ACCEL__J_UNDEFINED, .n = (uint32_t)strlen(name), .text = name};
  return ACCEL_OK;
}

static accel_status new_scope(accel__jinja *run, scope *parent, scope **out) {
  ACCEL_TRY(accel__jinja_alloc(run, sizeof **out, out));
  (*out)->parent = parent;
  return ACCEL_OK;
}

/* Binds a target: a name, an attribute of a namespace, or as many of them as the value has
 * items. */
static accel_status assign(accel__jinja *run, scope *s, const node *to, value v) {
  if (to->kind == ACCEL__J_NAME) return accel__jinja_bind(run, s, to->name, v);
  if (to->kind == ACCEL__J_NSREF) {
    value ns;
    ACCEL_TRY(lookup(run, s, to->name, &ns));
    if (ns.kind != ACCEL__J_NAMESPACE)
      return accel__jinja_fail(run, ACCEL_ERROR_FORMAT,
                               "cannot assign attribute '%s' on non-namespace object", to->key[0]);
    if (to->key[0][0] == '_')
      return accel__jinja_fail(run, ACCEL_ERROR_FORMAT,
                               "a namespace cannot hold the underscore-prefixed '%s'", to->key[0]);
    value key = {.kind = ACCEL__J_STRING, .n = (uint32_t)strlen(to->key[0]), .text = to->key[0]};
    return accel__jinja_dict_set(run, ns.dict, key, v);
  }
  const accel__jinja_list *items;
  ACCEL_TRY(accel__jinja_items(run, &v, &items));
  if (items->n != to->n)
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "%zu values cannot be assigned to %zu names",
                             items->n, to->n);
  for (size_t i = 0; i < to->n; ++i) ACCEL_TRY(assign(run, s, to->child[i], items->at[i]));
  return ACCEL_OK;
}

/* ---- calls ---- */

/* Where `name` stands among the words of `parameters`; -1 nowhere.  *n counts them, stars left
 * out. */
static int parameter(const char *parameters, const char *name, int *n, bool *rest, bool *keywords) {
  int found = -1;
  *n = 0;
  *rest = *keywords = false;
  for (const char *at = parameters; *at;) {
    size_t length = strcspn(at, " ");
    if (*at == '*') {
      *rest = *rest || length == 1;
      *keywords = *keywords || length == 2;
    } else {
      if (name && strlen(name) == length && memcmp(name, at, length) == 0) found = *n;
      ++*n;
    }
    at += length;
    at += *at == ' ';
  }
  return found;
}

static accel_status wrong_call(accel__jinja *run, const char *what, const char *why) {
  return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "%s() %s", what, why);
}

accel_status accel__jinja_bind_args(accel__jinja *run, const accel__jinja_builtin *what,
                                    const value *at, size_t n, const char *const *key,
                                    const value *key_value, size_t keys, accel__jinja_args *out) {
  int count;
  bool rest, keywords;
  parameter(what->parameters, NULL, &count, &rest, &keywords);
  memset(out, 0, sizeof *out);
  if (n > (size_t)count && !rest) return wrong_call(run, what->name, "takes fewer arguments");
  for (size_t i = 0; i < n && i < (size_t)count; ++i) {
    out->at[i] = at[i];
    out->given[i] = true;
  }
  if (n > (size_t)count) {
    out->rest_n = n - (size_t)count;
    ACCEL_TRY(accel__jinja_alloc(run, out->rest_n * sizeof *out->rest, &out->rest));
    memcpy(out->rest, at + count, out->rest_n * sizeof *out->rest);
  }
  if (keys) {
    ACCEL_TRY(accel__jinja_alloc(run, keys * sizeof *out->key, &out->key));
    ACCEL_TRY(accel__jinja_alloc(run, keys * sizeof *out->key_value, &out->key_value));
  }
  for (size_t i = 0; i < keys; ++i) {
    int k = parameter(what->parameters, key[i], &count, &rest, &keywords);
    if (k >= 0 && out->given[k])
      return wrong_call(run, what->name, "got multiple values for an argument");
    if (k >= 0) {
      out->at[k] = key_value[i];
      out->given[k] = true;
    } else if (keywords) {
      out->key[out->keys] = key[i];
      out->key_value[out->keys++] = key_value[i];
    } else {
      return wrong_call(run, what->name, "got an unexpected keyword argument");
    }
  }
  return ACCEL_OK;
}

/* The arguments of a call in the tree, stars unfolded. */
typedef struct actual {
  value *at, *key_value;
  const char **key;
  size_t n, keys;
} actual;

static accel_status push_actual(accel__jinja *run, actual *a, const char *key, value v) {
  size_t n = key ? a->keys : a->n;
  if ((n & (n - 1)) == 0) { /* a power of two, or 0: grow */
    size_t more = n ? 2 * n : 1;
    value *grown;
    ACCEL_TRY(accel__jinja_alloc(run, more * sizeof *grown, &grown));
    if (n) memcpy(grown, key ? a->key_value : a->at, n * sizeof *grown);
    *(key ? &a->key_value : &a->at) = grown;
    if (key) {
      const char **names;
      ACCEL_TRY(accel__jinja_alloc(run, more * sizeof *names, &names));
      if (n) memcpy(names, a->key, n * sizeof *names);
      a->key = names;
    }
  }
  if (key) {
    for (size_t i = 0; i < a->keys; ++i) {
      if (strcmp(a->key[i], key) == 0)
        return accel__jinja_fail(run, ACCEL_ERROR_FORMAT,
                                 "the keyword argument '%s' is given twice", key);
    }
    a->key[a->keys] = key;
    a->key_value[a->keys++] = v;
  } else {
    a->at[a->n++] = v;
  }
  return ACCEL_OK;
}

static accel_status unfold_dict(accel__jinja *run, const value *v, actual *out) {
  if (v->kind != ACCEL__J_DICT)
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "argument after ** must be a mapping");
  for (size_t i = 0; i < v->dict->n; ++i) {
    value name;
    if (v->dict->key[i].kind != ACCEL__J_STRING)
      return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "keywords must be strings");
    /* NUL-terminated */
    ACCEL_TRY(accel__jinja_string(run, v->dict->key[i].text, v->dict->key[i].n, &name));
    ACCEL_TRY(push_actual(run, out, name.text, v->dict->value[i]));
  }
  return ACCEL_OK;
}

static accel_status arguments(accel__jinja *run, scope *s, const node *n, actual *out) {
  *out = (actual){0};
  for (size_t i = 0; i < n->n; ++i) {
    const char *key = n->key[i];
    const accel__jinja_list *items;
    value v;
    ACCEL_TRY(eval(run, s, n->child[i], &v));
    if (key && strcmp(key, "**") == 0) {
      ACCEL_TRY(unfold_dict(run, &v, out));
    } else if (key && strcmp(key, "*") == 0) {
      ACCEL_TRY(accel__jinja_items(run, &v, &items));
      for (size_t k = 0; k < items->n; ++k) ACCEL_TRY(push_actual(run, out, NULL, items->at[k]));
    } else {
      ACCEL_TRY(push_actual(run, out, key, v));
    }
  }
  return ACCEL_OK;
}

/* Runs `body` with its text going to a string. */
static accel_status captured(accel__jinja *run, scope *s, const node *body, value *out) {
  accel__buffer text = {0}, *before = run->out;
  accel__buffer_text(&text, "");
  run->out = &text;
  accel_status status = exec(run, s, body);
  run->out = before;
  if (status == ACCEL_OK) return accel__jinja_take(run, &text, out);
  accel__buffer_free(&text);
  return status;
}

/* Parameters of a macro from what it is called with; what is left over goes to varargs and
 * kwargs. */
static accel_status bind_macro(accel__jinja *run, const node *m, scope *s, const value *at,
                               size_t n, const char *const *key, const value *key_value,
                               size_t keys) {
  value varargs, kwargs;
  ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_TUPLE, 0, &varargs));
  ACCEL_TRY(accel__jinja_dict_new(run, 0, &kwargs));
  for (size_t i = m->n; i < n; ++i) ACCEL_TRY(accel__jinja_push(run, varargs.list, at[i]));
  for (size_t k = 0; k < keys; ++k) {
    size_t i = 0;
    while (i < m->n && strcmp(m->child[i]->name, key[k]) != 0) i++;
    if (i < n && i < m->n) return wrong_call(run, m->name, "got multiple values for an argument");
    if (i < m->n) continue;
    if (strcmp(key[k], "caller") == 0) {
      ACCEL_TRY(accel__jinja_bind(run, s, "caller", key_value[k]));
      continue;
    }
    value name = {.kind = ACCEL__J_STRING, .n = (uint32_t)strlen(key[k]), .text = key[k]};
    ACCEL_TRY(accel__jinja_dict_set(run, kwargs.dict, name, key_value[k]));
  }
  ACCEL_TRY(accel__jinja_bind(run, s, "varargs", varargs));
  ACCEL_TRY(accel__jinja_bind(run, s, "kwargs", kwargs));
  for (size_t i = 0; i < m->n; ++i) {
    value v = {.kind = ACCEL__J_UNDEFINED,
               .n = (uint32_t)strlen(m->child[i]->name),
               .text = m->child[i]->name};
    bool given = i < n;
    if (given) v = at[i];
    for (size_t k = 0; k < keys && !given; ++k) {
      given = strcmp(m->child[i]->name, key[k]) == 0;
      if (given) v = key_value[k];
    }
    if (!given && m->preset[i]) ACCEL_TRY(eval(run, s, m->preset[i], &v));
    ACCEL_TRY(accel__jinja_bind(run, s, m->child[i]->name, v));
  }
  return ACCEL_OK;
}

/* A macro takes more arguments than it names only when it reads varargs or kwargs. */
static accel_status check_macro_call(accel__jinja *run, const node *m, size_t n,
                                     const char *const *key, size_t keys) {
  if (n > m->n && !(m->op & ACCEL__J_VARARGS))
    return wrong_call(run, m->name, "takes fewer arguments");
  for (size_t k = 0; k < keys; ++k) {
    size_t i = 0;
    while (i < m->n && strcmp(m->child[i]->name, key[k]) != 0) i++;
    if (i < m->n || (m->op & ACCEL__J_KWARGS)) continue;
    if (strcmp(key[k], "caller") != 0 || !(m->op & ACCEL__J_CALLER))
      return wrong_call(run, m->name, "got an unexpected keyword argument");
  }
  return ACCEL_OK;
}

static accel_status call_macro(accel__jinja *run, const accel__jinja_macro *macro, const value *at,
                               size_t n, const char *const *key, const value *key_value,
                               size_t keys, value *out) {
  scope *s;
  uint32_t line = run->line;
  accel__jinja_flow flow = run->flow;
  ACCEL_TRY(check_macro_call(run, macro->node, n, key, keys));
  ACCEL_TRY(new_scope(run, macro->scope, &s));
  ACCEL_TRY(bind_macro(run, macro->node, s, at, n, key, key_value, keys));
  ACCEL_TRY(captured(run, s, macro->node->body, out));
  run->line = line;
  run->flow = flow;
  return ACCEL_OK;
}

static accel_status run_loop(accel__jinja *run, scope *s, const node *n, const value *over,
                             size_t depth);

/* loop(items) of a recursive loop: the loop's text for other items. */
static accel_status call_loop(accel__jinja *run, const accel__jinja_loop *loop, const value *at,
                              size_t n, value *out) {
  accel__buffer text = {0}, *before = run->out;
  if (!loop->node)
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT,
                             "The loop must have the 'recursive' marker to be called recursively.");
  if (n != 1) return wrong_call(run, "loop", "takes one argument");
  accel__buffer_text(&text, "");
  run->out = &text;
  accel_status status = run_loop(run, loop->scope, loop->node, &at[0], loop->depth + 1);
  run->out = before;
  if (status == ACCEL_OK) return accel__jinja_take(run, &text, out);
  accel__buffer_free(&text);
  return status;
}

static accel_status call_joiner(accel__jinja *run, accel__jinja_list *joiner, value *out) {
  if (joiner->next++) return *out = joiner->at[0], ACCEL_OK;
  return accel__jinja_string(run, "", 0, out);
}

accel_status accel__jinja_call(accel__jinja *run, const value *what, const value *at, size_t n,
                               const char *const *key, const value *key_value, size_t keys,
                               value *out) {
  accel__jinja_args args;
  switch (what->kind) {
    case ACCEL__J_MACRO:
      return call_macro(run, what->macro, at, n, key, key_value, keys, out);
    case ACCEL__J_BUILTIN:
      ACCEL_TRY(accel__jinja_bind_args(run, what->builtin, at, n, key, key_value, keys, &args));
      return what->builtin->fn(run, NULL, &args, out);
    case ACCEL__J_METHOD:
      ACCEL_TRY(
          accel__jinja_bind_args(run, what->method->what, at, n, key, key_value, keys, &args));
      return what->method->what->fn(run, &what->method->self, &args, out);
    case ACCEL__J_LOOP:
      return call_loop(run, what->loop, at, n, out);
    case ACCEL__J_JOINER:
      return call_joiner(run, what->list, out);
    case ACCEL__J_UNDEFINED:
      return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "'%.*s' is undefined", (int)what->n,
                               what->n ? what->text : "");
    default:
      return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "'%s' object is not callable",
                               accel__jinja_type(what));
  }
}

/* ---- expressions ---- */

static accel_status eval_make(accel__jinja *run, scope *s, const node *n, value *out) {
  value v, key;
  if (n->op == ACCEL__J_DICT) {
    ACCEL_TRY(accel__jinja_dict_new(run, n->n / 2, out));
    for (size_t i = 0; i < n->n; i += 2) {
      ACCEL_TRY(eval(run, s, n->child[i], &key));
      ACCEL_TRY(eval(run, s, n->child[i + 1], &v));
      ACCEL_TRY(accel__jinja_dict_set(run, out->dict, key, v));
    }
    return ACCEL_OK;
  }
  ACCEL_TRY(accel__jinja_list_new(run, (accel__jinja_kind)n->op, n->n, out));
  for (size_t i = 0; i < n->n; ++i) {
    ACCEL_TRY(eval(run, s, n->child[i], &v));
    ACCEL_TRY(accel__jinja_push(run, out->list, v));
  }
  return ACCEL_OK;
}

static accel_status eval_cond(accel__jinja *run, scope *s, const node *n, value *out) {
  value test;
  ACCEL_TRY(eval(run, s, n->b, &test));
  if (accel__jinja_truth(&test)) return eval(run, s, n->a, out);
  if (n->c) return eval(run, s, n->c, out);
  *out = (value){.kind = ACCEL__J_UNDEFINED, .n = 14, .text = "inline if-expr"};
  return ACCEL_OK;
}

static accel_status eval_logic(accel__jinja *run, scope *s, const node *n, value *out) {
  ACCEL_TRY(eval(run, s, n->a, out));
  bool truth = accel__jinja_truth(out);
  if (n->op == '!') return *out = accel__jinja_bool(!truth), ACCEL_OK;
  return truth == (n->op == '&') ? eval(run, s, n->b, out) : ACCEL_OK;
}

static accel_status eval_compare(accel__jinja *run, scope *s, const node *n, value *out) {
  value left, right;
  bool holds = true;
  ACCEL_TRY(eval(run, s, n->child[0], &left));
  for (size_t i = 1; i < n->n && holds; ++i) {
    ACCEL_TRY(eval(run, s, n->child[i], &right));
    run->line = n->line;
    ACCEL_TRY(accel__jinja_compare(run, n->name[i - 1], &left, &right, &holds));
    left = right;
  }
  *out = accel__jinja_bool(holds);
  return ACCEL_OK;
}

static accel_status eval_unary(accel__jinja *run, scope *s, const node *n, value *out) {
  value v, zero = accel__jinja_int(0);
  ACCEL_TRY(eval(run, s, n->a, &v));
  if (v.kind == ACCEL__J_FLOAT)
    return *out = v, out->real = n->op == '-' ? -v.real : v.real, ACCEL_OK;
  return accel__jinja_binary(run, n->op, &zero, &v, out);
}

static accel_status concat_into(accel__jinja *run, scope *s, const node *n, accel__buffer *b) {
  for (size_t i = 0; i < n->n; ++i) {
    value v;
    ACCEL_TRY(eval(run, s, n->child[i], &v));
    ACCEL_TRY(accel__jinja_write(run, b, &v));
  }
  return ACCEL_OK;
}

static accel_status eval_concat(accel__jinja *run, scope *s, const node *n, value *out) {
  accel__buffer b = {0};
  accel__buffer_text(&b, "");
  accel_status status = concat_into(run, s, n, &b);
  if (status == ACCEL_OK) return accel__jinja_take(run, &b, out);
  accel__buffer_free(&b);
  return status;
}

static accel_status eval_slice(accel__jinja *run, scope *s, const node *n, value *out) {
  value of, bounds[3];
  ACCEL_TRY(eval(run, s, n->a, &of));
  for (int i = 0; i < 3; ++i) {
    bounds[i] = accel__jinja_none();
    if (n->child[i]) ACCEL_TRY(eval(run, s, n->child[i], &bounds[i]));
  }
  return accel__jinja_slice(run, &of, bounds, out);
}

static accel_status eval_call(accel__jinja *run, scope *s, const node *n, value *out) {
  value what;
  actual a;
  ACCEL_TRY(eval(run, s, n->a, &what));
  ACCEL_TRY(arguments(run, s, n, &a));
  run->line = n->line;
  return accel__jinja_call(run, &what, a.at, a.n, a.key, a.key_value, a.keys, out);
}

/* A filter or test on `self`. */
static accel_status apply(accel__jinja *run, scope *s, const node *n, const value *self,
                          value *out) {
  actual a;
  accel__jinja_args args;
  if (!n->builtin)
    return accel__jinja_fail(run, ACCEL_ERROR_UNSUPPORTED, "no %s named '%s' is implemented",
                             n->kind == ACCEL__J_TEST ? "test" : "filter", n->name);
  ACCEL_TRY(arguments(run, s, n, &a));
  run->line = n->line;
  ACCEL_TRY(accel__jinja_bind_args(run, n->builtin, a.at, a.n, a.key, a.key_value, a.keys, &args));
  return n->builtin->fn(run, self, &args, out);
}

static accel_status eval_applied(accel__jinja *run, scope *s, const node *n, value *out) {
  value self;
  ACCEL_TRY(eval(run, s, n->a, &self));
  return apply(run, s, n, &self, out);
}

static accel_status eval_pair(accel__jinja *run, scope *s, const node *n, value *out) {
  value a, b;
  ACCEL_TRY(eval(run, s, n->a, &a));
  ACCEL_TRY(eval(run, s, n->b, &b));
  run->line = n->line;
  return n->kind == ACCEL__J_ITEM ? accel__jinja_item(run, &a, &b, out)
                                  : accel__jinja_binary(run, n->op, &a, &b, out);
}

static accel_status eval_attr(accel__jinja *run, scope *s, const node *n, value *out) {
  value of;
  ACCEL_TRY(eval(run, s, n->a, &of));
  run->line = n->line;
  return accel__jinja_attr(run, &of, n->name, strlen(n->name), out);
}

static accel_status eval_inner(accel__jinja *run, scope *s, const node *n, value *out) {
  switch (n->kind) {
    case ACCEL__J_CONST:
      *out = n->value;
      return ACCEL_OK;
    case ACCEL__J_NAME:
      return lookup(run, s, n->name, out);
    case ACCEL__J_MAKE:
      return eval_make(run, s, n, out);
    case ACCEL__J_COND:
      return eval_cond(run, s, n, out);
    case ACCEL__J_LOGIC:
      return eval_logic(run, s, n, out);
    case ACCEL__J_COMPARE:
      return eval_compare(run, s, n, out);
    case ACCEL__J_UNARY:
      return eval_unary(run, s, n, out);
    case ACCEL__J_CONCAT:
      return eval_concat(run, s, n, out);
    case ACCEL__J_ATTR:
      return eval_attr(run, s, n, out);
    case ACCEL__J_BINARY:
    case ACCEL__J_ITEM:
      return eval_pair(run, s, n, out);
    case ACCEL__J_SLICE:
      return eval_slice(run, s, n, out);
    case ACCEL__J_CALL:
      return eval_call(run, s, n, out);
    case ACCEL__J_FILTER:
    case ACCEL__J_TEST:
      return eval_applied(run, s, n, out);
    default:
      return accel__jinja_fail(run, ACCEL_ERROR_INTERNAL,
                               "a statement where an expression should be");
  }
}

static accel_status enter(accel__jinja *run, const node *n) {
  run->line = n->line;
  run->steps++;
  if (++run->depth > ACCEL__JINJA_DEPTH)
    return accel__jinja_fail(run, ACCEL_ERROR_LIMIT,
                             "calls are nested more than %d deep: does a macro call itself?",
                             ACCEL__JINJA_DEPTH);
  return accel__jinja_charge(run, 0);
}

static accel_status eval(accel__jinja *run, scope *s, const node *n, value *out) {
  ACCEL_TRY(enter(run, n));
  ACCEL_TRY(eval_inner(run, s, n, out));
  run->depth--;
  return ACCEL_OK;
}

/* ---- statements ---- */

static accel_status write_value(accel__jinja *run, const value *v) {
  size_t before = run->out->n;
  ACCEL_TRY(accel__jinja_write(run, run->out, v));
  run->written += run->out->n - before;
  if (run->written > ACCEL__JINJA_OUTPUT)
    return accel__jinja_fail(run, ACCEL_ERROR_LIMIT,
                             "the template writes more than %d MiB: does it loop?",
                             ACCEL__JINJA_OUTPUT >> 20);
  return accel__buffer_status(run->out);
}

static accel_status exec_body(accel__jinja *run, scope *s, const node *n) {
  for (size_t i = 0; i < n->n && run->flow == ACCEL__J_GOES_ON; ++i)
    ACCEL_TRY(exec(run, s, n->child[i]));
  return ACCEL_OK;
}

/* The items for which the loop's condition holds. */
static accel_status chosen(accel__jinja *run, scope *s, const node *n,
                           const accel__jinja_list *items, value *out) {
  scope *inner;
  ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_LIST, 4, out));
  ACCEL_TRY(new_scope(run, s, &inner));
  for (size_t i = 0; i < items->n; ++i) {
    value holds;
    ACCEL_TRY(assign(run, inner, n->a, items->at[i]));
    ACCEL_TRY(eval(run, inner, n->c, &holds));
    if (accel__jinja_truth(&holds)) ACCEL_TRY(accel__jinja_push(run, out->list, items->at[i]));
  }
  return ACCEL_OK;
}

static accel_status run_loop(accel__jinja *run, scope *s, const node *n, const value *over,
                             size_t depth) {
  const accel__jinja_list *items;
  value kept;
  ACCEL_TRY(accel__jinja_items(run, over, &items));
  if (n->c) {
    ACCEL_TRY(chosen(run, s, n, items, &kept));
    items = kept.list;
  }
  if (items->n == 0) {
    scope *inner;
    if (!n->other) return ACCEL_OK;
    ACCEL_TRY(new_scope(run, s, &inner));
    return exec(run, inner, n->other);
  }
  accel__jinja_loop *loop;
  scope *inner = NULL;
  ACCEL_TRY(accel__jinja_alloc(run, sizeof *loop, &loop));
  *loop =
      (accel__jinja_loop){.items = items, .depth = depth, .node = n->flag ? n : NULL, .scope = s};
  for (size_t i = 0; i < items->n && run->flow == ACCEL__J_GOES_ON; ++i) {
    loop->index = i;
    if (!inner || inner->kept) ACCEL_TRY(new_scope(run, s, &inner));
    inner->n = 0;
    ACCEL_TRY(accel__jinja_bind(run, inner, "loop", (value){.kind = ACCEL__J_LOOP, .loop = loop}));
    ACCEL_TRY(assign(run, inner, n->a, items->at[i]));
    ACCEL_TRY(exec(run, inner, n->body));
    if (run->flow == ACCEL__J_CONTINUES) run->flow = ACCEL__J_GOES_ON;
  }
  run->flow = ACCEL__J_GOES_ON;
  return ACCEL_OK;
}

static accel_status exec_for(accel__jinja *run, scope *s, const node *n) {
  value over;
  ACCEL_TRY(eval(run, s, n->b, &over));
  return run_loop(run, s, n, &over, 0);
}

static accel_status exec_if(accel__jinja *run, scope *s, const node *n) {
  for (size_t i = 0; i < n->n; i += 2) {
    value test;
    ACCEL_TRY(eval(run, s, n->child[i], &test));
    if (accel__jinja_truth(&test)) return exec(run, s, n->child[i + 1]);
  }
  return n->other ? exec(run, s, n->other) : ACCEL_OK;
}

/* `filters` with the given text at the inner end of the chain. */
static accel_status filtered(accel__jinja *run, scope *s, const node *filters, value text,
                             value *out) {
  if (!filters) return *out = text, ACCEL_OK;
  value inner;
  ACCEL_TRY(enter(run, filters));
  ACCEL_TRY(filtered(run, s, filters->a, text, &inner));
  run->depth--;
  return apply(run, s, filters, &inner, out);
}

static accel_status exec_set(accel__jinja *run, scope *s, const node *n) {
  value v, text;
  scope *inner;
  if (!n->flag) {
    ACCEL_TRY(eval(run, s, n->b, &v));
  } else {
    ACCEL_TRY(new_scope(run, s, &inner));
    ACCEL_TRY(captured(run, inner, n->body, &text));
    ACCEL_TRY(filtered(run, s, n->b, text, &v));
  }
  run->line = n->line;
  return assign(run, s, n->a, v);
}

static accel_status new_macro(accel__jinja *run, scope *s, const node *n, value *out) {
  accel__jinja_macro *macro;
  ACCEL_TRY(accel__jinja_alloc(run, sizeof *macro, &macro));
  *macro = (accel__jinja_macro){n, s};
  s->kept = true;
  *out = (value){.kind = ACCEL__J_MACRO, .macro = macro};
  return ACCEL_OK;
}

static accel_status exec_macro(accel__jinja *run, scope *s, const node *n) {
  value macro;
  ACCEL_TRY(new_macro(run, s, n, &macro));
  return accel__jinja_bind(run, s, n->name, macro);
}

static accel_status exec_call(accel__jinja *run, scope *s, const node *n) {
  value what, caller, text;
  actual a;
  ACCEL_TRY(eval(run, s, n->a->a, &what));
  ACCEL_TRY(arguments(run, s, n->a, &a));
  ACCEL_TRY(new_macro(run, s, n, &caller));
  ACCEL_TRY(push_actual(run, &a, "caller", caller));
  run->line = n->line;
  ACCEL_TRY(accel__jinja_call(run, &what, a.at, a.n, a.key, a.key_value, a.keys, &text));
  return write_value(run, &text);
}

static accel_status exec_filtered(accel__jinja *run, scope *s, const node *n) {
  value text, v;
  scope *inner;
  ACCEL_TRY(new_scope(run, s, &inner));
  ACCEL_TRY(captured(run, inner, n->body, &text));
  ACCEL_TRY(filtered(run, s, n->a, text, &v));
  return write_value(run, &v);
}

static accel_status exec_with(accel__jinja *run, scope *s, const node *n) {
  scope *inner;
  ACCEL_TRY(new_scope(run, s, &inner));
  for (size_t i = 0; i < n->n; i += 2) {
    value v;
    ACCEL_TRY(eval(run, s, n->child[i + 1], &v));
    ACCEL_TRY(assign(run, inner, n->child[i], v));
  }
  return exec(run, inner, n->body);
}

static accel_status add_span(accel__jinja *run, size_t start, size_t end) {
  accel__chat_spans *spans = run->spans;
  if (!spans) return ACCEL_OK;
  if (spans->n == spans->capacity) {
    size_t more = spans->capacity ? 2 * spans->capacity : 8;
    accel__chat_span *grown = realloc(spans->at, more * sizeof *grown);
    if (!grown) return accel__no_memory(more * sizeof *grown);
    spans->at = grown;
    spans->capacity = more;
  }
  spans->at[spans->n++] = (accel__chat_span){start, end};
  return ACCEL_OK;
}

static accel_status exec_generation(accel__jinja *run, scope *s, const node *n) {
  value text;
  scope *inner;
  size_t start = run->main->n;
  ACCEL_TRY(new_scope(run, s, &inner));
  ACCEL_TRY(captured(run, inner, n->body, &text));
  ACCEL_TRY(add_span(run, start, start + text.n));
  return write_value(run, &text);
}

static accel_status exec_scoped(accel__jinja *run, scope *s, const node *n) {
  scope *inner;
  ACCEL_TRY(new_scope(run, s, &inner));
  return exec(run, inner, n->body);
}

static accel_status exec_inner(accel__jinja *run, scope *s, const node *n) {
  value v;
  switch (n->kind) {
    case ACCEL__J_BODY:
      return exec_body(run, s, n);
    case ACCEL__J_DATA:
      return write_value(run, &n->value);
    case ACCEL__J_PRINT:
      ACCEL_TRY(eval(run, s, n->a, &v));
      return write_value(run, &v);
    case ACCEL__J_FOR:
      return exec_for(run, s, n);
    case ACCEL__J_IF:
      return exec_if(run, s, n);
    case ACCEL__J_SET:
      return exec_set(run, s, n);
    case ACCEL__J_MACRO_DEF:
      return exec_macro(run, s, n);
    case ACCEL__J_CALL_BLOCK:
      return exec_call(run, s, n);
    case ACCEL__J_FILTERED:
      return exec_filtered(run, s, n);
    case ACCEL__J_WITH:
      return exec_with(run, s, n);
    case ACCEL__J_GENERATION:
      return exec_generation(run, s, n);
    case ACCEL__J_SCOPED:
      return exec_scoped(run, s, n);
    case ACCEL__J_BREAK:
      run->flow = ACCEL__J_BREAKS;
      return ACCEL_OK;
    case ACCEL__J_CONTINUE:
      run->flow = ACCEL__J_CONTINUES;
      return ACCEL_OK;
    default:
      return accel__jinja_fail(run, ACCEL_ERROR_INTERNAL,
                               "an expression where a statement should be");
  }
}

static accel_status exec(accel__jinja *run, scope *s, const node *n) {
  ACCEL_TRY(enter(run, n));
  ACCEL_TRY(exec_inner(run, s, n));
  run->depth--;
  return ACCEL_OK;
}

accel_status accel__jinja_run(accel__jinja *run, const node *body, scope *s) {
  return exec(run, s, body);
}
