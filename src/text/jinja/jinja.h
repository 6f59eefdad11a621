/* jinja.h - what the files jinja_*.c share: tokens, syntax tree, values and the state of one run.
 * Nobody but chat_template.c and they include it.
 *
 * Values follow Python's: one of the kinds below, copied by value, what they point to lives in the
 * run's arena (or in the tree, or in the JSON given) until the run ends.  Lists and dicts are never
 * changed once a template can see them, as the immutable sandbox has it; namespaces are.
 */
#ifndef ACCEL_TEXT_JINJA_H
#define ACCEL_TEXT_JINJA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "core/arena.h"
#include "core/json.h"
#include "core/status.h"
#include "core/text.h"
#include "text/chat_template.h"

/* Limits of one run; beyond them ACCEL_ERROR_LIMIT. */
enum {
  ACCEL__JINJA_STEPS = 4000000,    /* nodes evaluated, plus bytes and items handled in bulk / 64 */
  ACCEL__JINJA_MEMORY = 256 << 20, /* bytes of the run's arena */
  ACCEL__JINJA_OUTPUT = 64 << 20,  /* bytes written, macros' results included */
  ACCEL__JINJA_DEPTH = 600,        /* nested evaluations: bounds the C stack */
  ACCEL__JINJA_NESTING = 150,      /* of the template's text */
  ACCEL__JINJA_SOURCE = 4 << 20,   /* bytes of a template */
  ACCEL__JINJA_RANGE = 100000,     /* items of range(), as jinja2's sandbox has it */
};

/* ---- values ---- */

typedef enum accel__jinja_kind {
  ACCEL__J_UNDEFINED, /* text: the name that is undefined */
  ACCEL__J_NONE,
  ACCEL__J_BOOL,
  ACCEL__J_INT,
  ACCEL__J_FLOAT,
  ACCEL__J_STRING, /* text[0..n): UTF-8, not NUL-terminated */
  ACCEL__J_LIST,   /* list, as the next four */
  ACCEL__J_TUPLE,
  ACCEL__J_VIEW,  /* dict.keys(), values(), items() */
  ACCEL__J_RANGE, /* all items are there */
  ACCEL__J_ITER,  /* what map, select, ... give: read once, from list->next on */
  ACCEL__J_DICT,
  ACCEL__J_NAMESPACE, /* dict */
  ACCEL__J_MACRO,     /* macro; also a call block's caller */
  ACCEL__J_BUILTIN,   /* builtin: a global function */
  ACCEL__J_METHOD,    /* method: of a string, dict ... */
  ACCEL__J_LOOP,
  ACCEL__J_CYCLER,
  ACCEL__J_JOINER, /* list: separator and whether it was used */
} accel__jinja_kind;

typedef struct accel__jinja_value {
  uint8_t kind;
  uint32_t n; /* STRING, UNDEFINED: bytes of text */
  union {
    bool truth;
    int64_t number;
    double real;
    const char *text;
    struct accel__jinja_list *list;
    struct accel__jinja_dict *dict;
    struct accel__jinja_macro *macro;
    struct accel__jinja_method *method;
    struct accel__jinja_loop *loop;
    const struct accel__jinja_builtin *builtin;
  };
} accel__jinja_value;

typedef struct accel__jinja_list {
  accel__jinja_value *at;
  size_t n, capacity;
  size_t next; /* ITER: first item not read; CYCLER: position; JOINER: used */
  /* VIEW: "dict_keys" ...; TUPLE: ACCEL__J_GROUP for one of groupby's, whose items have names */
  const char *name;
} accel__jinja_list;
#define ACCEL__J_GROUP "group"

typedef struct accel__jinja_dict {
  accel__jinja_value *key, *value; /* in order of insertion */
  size_t n, capacity;
} accel__jinja_dict;

typedef struct accel__jinja_method {
  accel__jinja_value self;
  const struct accel__jinja_builtin *what;
} accel__jinja_method;

typedef struct accel__jinja_loop {
  const accel__jinja_list *items;
  size_t index;                         /* 0-based */
  size_t depth;                         /* 0 outermost of a recursive loop */
  const struct accel__jinja_node *node; /* recursive loops: to be run again */
  struct accel__jinja_scope *scope;
  accel__jinja_value changed; /* what changed() saw last: a tuple, or undefined */
} accel__jinja_loop;

/* ---- syntax tree ---- */

typedef enum accel__jinja_node_kind {
  ACCEL__J_CONST,   /* value */
  ACCEL__J_NAME,    /* name */
  ACCEL__J_MAKE,    /* op: LIST, TUPLE of child[]; DICT of child[] key, value, key, value */
  ACCEL__J_COND,    /* a if b else c (may be NULL) */
  ACCEL__J_LOGIC,   /* a op b: '&' and, '|' or; '!' not a */
  ACCEL__J_COMPARE, /* child[0] op[0] child[1] op[1] child[2] ...; name holds one char an op */
  ACCEL__J_BINARY,  /* a op b: + - * / % and 'f' floordiv, 'p' pow */
  ACCEL__J_UNARY,   /* op - or + of a */
  ACCEL__J_CONCAT,  /* child[] as strings */
  ACCEL__J_ATTR,    /* a.name */
  ACCEL__J_ITEM,    /* a[b] */
  ACCEL__J_SLICE,   /* a[child[0]:child[1]:child[2]], each may be NULL */
  ACCEL__J_CALL,    /* a(child[]), key[]: NULL positional, "*", "**", else keyword */
  ACCEL__J_FILTER,  /* a|name(child[]); a NULL: the body's text */
  ACCEL__J_TEST,    /* a is name(child[]) */
  /* statements */
  ACCEL__J_BODY,       /* child[] one after the other */
  ACCEL__J_DATA,       /* value: text */
  ACCEL__J_PRINT,      /* a */
  ACCEL__J_FOR,        /* for a in b if c: body; else other; flag: recursive */
  ACCEL__J_IF,         /* child[]: test, body, test, body ...; other */
  ACCEL__J_SET,        /* a = b, or a = text of body through filter b when flag */
  ACCEL__J_MACRO_DEF,  /* name(child[] targets, preset[] defaults) body */
  ACCEL__J_CALL_BLOCK, /* a: the call; child[] the caller's parameters; body */
  ACCEL__J_FILTERED,   /* a: filters; body */
  ACCEL__J_WITH,       /* child[]: target, value, ...; body */
  ACCEL__J_GENERATION, /* body */
  ACCEL__J_SCOPED,     /* body in a scope of its own */
  ACCEL__J_BREAK,
  ACCEL__J_CONTINUE,
  ACCEL__J_NSREF, /* target: name.key[0] */
} accel__jinja_node_kind;

/* op of a macro: hidden parameters it reads */
enum { ACCEL__J_VARARGS = 1, ACCEL__J_KWARGS = 2, ACCEL__J_CALLER = 4 };

typedef struct accel__jinja_node {
  uint8_t kind;
  char op;
  bool flag;
  uint32_t line;
  const char *name;
  accel__jinja_value value;
  struct accel__jinja_node *a, *b, *c, *body, *other;
  struct accel__jinja_node **child, **preset; /* preset[i]: default of parameter i, or NULL */
  const char **key;
  size_t n;
  /* FILTER, TEST: NULL when there is none of that name */
  const struct accel__jinja_builtin *builtin;
} accel__jinja_node;

/* Parses text[0..n) into *out, all in `arena`.  ACCEL_ERROR_FORMAT: "NAME: line 3: ..." */
accel_status accel__jinja_parse(accel__arena *arena, const char *text, size_t n, const char *name,
                                const accel__jinja_node **out);

/* ---- tokens ---- */

typedef enum accel__jinja_token_kind {
  ACCEL__J_TOKEN_DATA,
  ACCEL__J_TOKEN_BLOCK,     /* {% */
  ACCEL__J_TOKEN_BLOCK_END, /* %} */
  ACCEL__J_TOKEN_PRINT,     /* {{ */
  ACCEL__J_TOKEN_PRINT_END, /* }} */
  ACCEL__J_TOKEN_NAME,
  ACCEL__J_TOKEN_STRING, /* decoded */
  ACCEL__J_TOKEN_INT,
  ACCEL__J_TOKEN_FLOAT,
  ACCEL__J_TOKEN_OPERATOR, /* text */
  ACCEL__J_TOKEN_END,
} accel__jinja_token_kind;
typedef struct accel__jinja_token {
  uint8_t kind;
  uint32_t line, n;
  const char *text;
  union {
    int64_t number;
    double real;
  };
} accel__jinja_token;
/* All tokens, the last one END. */
accel_status accel__jinja_lex(accel__arena *arena, const char *text, size_t n, const char *name,
                              accel__jinja_token **out, size_t *count);

/* ---- a run ---- */

typedef struct accel__jinja_binding {
  const char *name;
  accel__jinja_value value;
} accel__jinja_binding;
typedef struct accel__jinja_scope {
  struct accel__jinja_scope *parent;
  accel__jinja_binding *at;
  size_t n, capacity;
  bool kept; /* a macro or caller points here: must not be used again for the next turn of a loop */
} accel__jinja_scope;

typedef struct accel__jinja_macro {
  const accel__jinja_node *node; /* MACRO_DEF or CALL_BLOCK */
  accel__jinja_scope *scope;
} accel__jinja_macro;

typedef enum accel__jinja_flow {
  ACCEL__J_GOES_ON,
  ACCEL__J_BREAKS,
  ACCEL__J_CONTINUES
} accel__jinja_flow;

typedef struct accel__jinja {
  accel__arena arena;
  const char *name;          /* of the template */
  uint32_t line;             /* being run */
  accel__buffer *out, *main; /* where text goes now; the result */
  accel__chat_spans *spans;  /* or NULL */
  size_t steps, written;
  int depth;
  accel__jinja_flow flow;
  struct tm now;
} accel__jinja;

/* Arguments of a call, bound to a builtin's parameters: given[i] tells whether at[i] was. */
enum { ACCEL__JINJA_PARAMETERS = 8 };
typedef struct accel__jinja_args {
  accel__jinja_value at[ACCEL__JINJA_PARAMETERS];
  bool given[ACCEL__JINJA_PARAMETERS];
  accel__jinja_value *rest; /* positional ones beyond, when the builtin takes them ("*") */
  size_t rest_n;
  const char **key; /* keywords beyond ("**") */
  accel__jinja_value *key_value;
  size_t keys;
} accel__jinja_args;

typedef accel_status (*accel__jinja_fn)(accel__jinja *run, const accel__jinja_value *self,
                                        const accel__jinja_args *args, accel__jinja_value *out);
typedef struct accel__jinja_builtin {
  const char *name;
  const char *parameters; /* "sep maxsplit"; a trailing "*" or "**": also others */
  accel__jinja_fn fn;
} accel__jinja_builtin;

/* What the functions below have in common: memory comes from run->arena and lives until the run
 * ends; *out is set on success alone; an error has the template's name and the line being run.
 * ACCEL_ERROR_FORMAT is what Python would raise as an error of the template, ACCEL_ERROR_LIMIT one
 * of the limits above. */

/* ---- jinja_value.c: values, lists, dicts ---- */

/* Fails with "NAME: line N: " in front of the message. */
accel_status accel__jinja_fail(accel__jinja *run, accel_status code, const char *format, ...)
    ACCEL_PRINTF(3, 4);
/* Counts `work` bytes or items handled against ACCEL__JINJA_STEPS. */
accel_status accel__jinja_charge(accel__jinja *run, size_t work);
/* n zeroed bytes; pointer_to_pointer is the address of any object pointer. */
accel_status accel__jinja_alloc(accel__jinja *run, size_t n, void *pointer_to_pointer);
/* A STRING with a copy of text[0..n). */
accel_status accel__jinja_string(accel__jinja *run, const char *text, size_t n,
                                 accel__jinja_value *out);
/* A STRING with a copy of what `text` holds, which is freed, on failure too. */
accel_status accel__jinja_take(accel__jinja *run, accel__buffer *text, accel__jinja_value *out);
/* Empty: a LIST, TUPLE, VIEW, RANGE or ITER; `capacity` is a hint. */
accel_status accel__jinja_list_new(accel__jinja *run, accel__jinja_kind kind, size_t capacity,
                                   accel__jinja_value *out);
accel_status accel__jinja_push(accel__jinja *run, accel__jinja_list *list, accel__jinja_value item);
accel_status accel__jinja_dict_new(accel__jinja *run, size_t capacity, accel__jinja_value *out);
/* Replaces the value of an equal key, or adds one at the end. */
accel_status accel__jinja_dict_set(accel__jinja *run, accel__jinja_dict *dict,
                                   accel__jinja_value key, accel__jinja_value value);
/* *out points into the dict, NULL when it has no such key. */
accel_status accel__jinja_dict_find(accel__jinja *run, const accel__jinja_dict *dict,
                                    const accel__jinja_value *key, const accel__jinja_value **out);
/* The value of a JSON tree; its strings point into the tree. */
accel_status accel__jinja_from_json(accel__jinja *run, const accel__json *node,
                                    accel__jinja_value *out);
/* Python's bool(a), a == b, and the order of a and b: -1, 0, 1, or 2 when there is none (NaN). */
bool accel__jinja_truth(const accel__jinja_value *v);
accel_status accel__jinja_equal(accel__jinja *run, const accel__jinja_value *a,
                                const accel__jinja_value *b, bool *out);
accel_status accel__jinja_order(accel__jinja *run, const accel__jinja_value *a,
                                const accel__jinja_value *b, int *out);
/* The items of anything that can be looped over; reading an ITER to its end.  ACCEL_ERROR_FORMAT
 * for what is not iterable.
 */
accel_status accel__jinja_items(accel__jinja *run, const accel__jinja_value *v,
                                const accel__jinja_list **out);
const char *accel__jinja_type(const accel__jinja_value *v); /* Python's name of it: "str" */
size_t accel__jinja_length(const char *text, size_t n);     /* code points */
static inline accel__jinja_value accel__jinja_int(int64_t number) {
  return (accel__jinja_value){.kind = ACCEL__J_INT, .number = number};
}
static inline accel__jinja_value accel__jinja_bool(bool truth) {
  return (accel__jinja_value){.kind = ACCEL__J_BOOL, .truth = truth};
}
static inline accel__jinja_value accel__jinja_none(void) {
  return (accel__jinja_value){.kind = ACCEL__J_NONE};
}
static inline bool accel__jinja_is_number(const accel__jinja_value *v) {
  return v->kind == ACCEL__J_BOOL || v->kind == ACCEL__J_INT || v->kind == ACCEL__J_FLOAT;
}
static inline bool accel__jinja_is_list(const accel__jinja_value *v) {
  return v->kind >= ACCEL__J_LIST && v->kind <= ACCEL__J_ITER;
}
static inline bool accel__jinja_is(const accel__jinja_value *v, const char *text) {
  size_t n = __builtin_strlen(text);
  return v->kind == ACCEL__J_STRING && v->n == n && __builtin_memcmp(v->text, text, n) == 0;
}

/* ---- jinja_write.c: values as text ---- */

/* Appends str(v); accel__jinja_str makes it a STRING. */
accel_status accel__jinja_write(accel__jinja *run, accel__buffer *b, const accel__jinja_value *v);
accel_status accel__jinja_str(accel__jinja *run, const accel__jinja_value *v,
                              accel__jinja_value *out);
/* Appends repr(v); depth: how deep in lists and dicts it is. */
accel_status accel__jinja_repr(accel__jinja *run, accel__buffer *b, const accel__jinja_value *v,
                               int depth);
/* Appends the shortest text that reads back as the same number, as Python writes it. */
void accel__jinja_write_float(accel__buffer *b, double real);
/* format % given, as of Python's str. */
accel_status accel__jinja_percent(accel__jinja *run, const accel__jinja_value *format,
                                  const accel__jinja_value *given, accel__jinja_value *out);
extern const accel__jinja_builtin accel__jinja_tojson, accel__jinja_format_method;

/* ---- jinja_ops.c: operators ---- */

/* op: one of ACCEL__J_BINARY's. */
accel_status accel__jinja_binary(accel__jinja *run, char op, const accel__jinja_value *a,
                                 const accel__jinja_value *b, accel__jinja_value *out);
/* op: = ! < > l (<=) g (>=) i (in) n (not in). */
accel_status accel__jinja_compare(accel__jinja *run, char op, const accel__jinja_value *a,
                                  const accel__jinja_value *b, bool *out);
/* item in `in` */
accel_status accel__jinja_contains(accel__jinja *run, const accel__jinja_value *in,
                                   const accel__jinja_value *item, bool *out);
/* of.name, of[key] and of[a:b:c] (bounds NONE where they are left out).  What is not there
 * becomes UNDEFINED; an UNDEFINED `of` is an error. */
accel_status accel__jinja_attr(accel__jinja *run, const accel__jinja_value *of, const char *name,
                               size_t n, accel__jinja_value *out);
accel_status accel__jinja_item(accel__jinja *run, const accel__jinja_value *of,
                               const accel__jinja_value *key, accel__jinja_value *out);
accel_status accel__jinja_slice(accel__jinja *run, const accel__jinja_value *of,
                                const accel__jinja_value bounds[3], accel__jinja_value *out);
/* "a.b.0": the path that map(attribute=...) and its like take */
accel_status accel__jinja_path(accel__jinja *run, const accel__jinja_value *of,
                               const accel__jinja_value *path, accel__jinja_value *out);

/* ---- jinja_run.c: statements and calls ---- */

/* Runs a BODY in `scope`; text goes to run->out. */
accel_status accel__jinja_run(accel__jinja *run, const accel__jinja_node *body,
                              accel__jinja_scope *scope);
/* Sets a variable of the scope itself. */
accel_status accel__jinja_bind(accel__jinja *run, accel__jinja_scope *scope, const char *name,
                               accel__jinja_value value);
/* what(at[0..n), key[0..keys) = key_value[..]): any value that Python calls callable here. */
accel_status accel__jinja_call(accel__jinja *run, const accel__jinja_value *what,
                               const accel__jinja_value *at, size_t n, const char *const *key,
                               const accel__jinja_value *key_value, size_t keys,
                               accel__jinja_value *out);
/* The arguments of a call as the builtin's parameters; errors as Python's for a wrong number, an
 * unknown keyword or one given twice. */
accel_status accel__jinja_bind_args(accel__jinja *run, const accel__jinja_builtin *what,
                                    const accel__jinja_value *at, size_t n, const char *const *key,
                                    const accel__jinja_value *key_value, size_t keys,
                                    accel__jinja_args *out);

/* ---- tables of builtins, each ended by a NULL name: jinja_filters.c, jinja_lists.c,
 * jinja_tests.c, jinja_strings.c ---- */

/* NULL when the table has no such name. */
const accel__jinja_builtin *accel__jinja_find(const accel__jinja_builtin *table, const char *name,
                                              size_t n);
extern const accel__jinja_builtin accel__jinja_filters[], accel__jinja_list_filters[],
    accel__jinja_tests[], accel__jinja_string_methods[], accel__jinja_dict_methods[],
    accel__jinja_list_methods[], accel__jinja_loop_methods[], accel__jinja_cycler_methods[],
    accel__jinja_globals[];
const accel__jinja_builtin *accel__jinja_filter(const char *name, size_t n); /* NULL */

#endif
