/* schema_internal.h - what the files that read JSON Schemas share.
 *
 * A value must hold for a list of clauses, each a schema of the source: a property's, those of
 * `allOf`, what `$ref` refers to.  A rule is made for each list that occurs, from a queue, so that
 * schemas that refer to themselves become rules that call themselves.
 */
#ifndef ACCEL_TEXT_GRAMMAR_SCHEMA_INTERNAL_H
#define ACCEL_TEXT_GRAMMAR_SCHEMA_INTERNAL_H

#include "core/json.h"
#include "core/text.h"
#include "text/grammar/sources.h"

/* A schema's node, and in its lowest bits which of its alternatives were chosen already. */
typedef uintptr_t accel__clause;
enum { ACCEL__CHOSE_ANY = 1, ACCEL__CHOSE_ONE = 2 };
static inline const accel__json *accel__clause_node(accel__clause c) {
  return (const accel__json *)(c & ~(uintptr_t)3);
}

typedef struct accel__clauses {
  const accel__clause *at;
  uint32_t n;
} accel__clauses;

enum {
  ACCEL__TYPE_NULL = 1,
  ACCEL__TYPE_BOOLEAN = 2,
  ACCEL__TYPE_OBJECT = 4,
  ACCEL__TYPE_ARRAY = 8,
  ACCEL__TYPE_STRING = 16,
  ACCEL__TYPE_INTEGER = 32,
  ACCEL__TYPE_FRACTION = 64, /* numbers that are no integers */
  ACCEL__TYPE_ALL = 127
};

typedef struct accel__schema {
  accel__rules *rules;
  const accel__json *root; /* of the schema: what "#" refers to */
  accel__json_parts parts;
  accel__arena arena;
  accel__map known; /* a list's bytes to the number of its job */
  struct accel__schema_job *job;
  size_t n_jobs, jobs_capacity;
} accel__schema;

/* What a list of clauses says, `$ref` and `allOf` followed. */
enum { ACCEL__SHAPE_CLAUSES = 256 };
typedef struct accel__shape {
  accel__clause clause[ACCEL__SHAPE_CLAUSES];
  uint32_t n;
  unsigned types;     /* ACCEL__TYPE_* */
  bool typed;         /* some clause has `type` */
  unsigned mentioned; /* types that keywords without `type` are about */
  /* alternatives still to be chosen, and whose they are; NULL: none */
  const accel__json *any_of, *one_of;
  uint32_t any_clause, one_clause;
} accel__shape;

/* ACCEL_ERROR_UNSUPPORTED names the keyword and where it is. */
accel_status accel__shape_read(accel__schema *s, accel__clauses clauses, accel__shape *out);
/* The first value of a keyword in the clauses from `from` on, whose number *at gets; NULL. */
const accel__json *accel__shape_find(const accel__shape *shape, const char *keyword, uint32_t from,
                                     uint32_t *at);
#define ACCEL__SHAPE_EACH(value, shape, keyword)                                                  \
  for (uint32_t value##_at = 0, value##_next = 0; value##_next == 0; value##_next = 1)            \
    for (const accel__json *value = accel__shape_find((shape), (keyword), 0, &value##_at); value; \
         value = accel__shape_find((shape), (keyword), value##_at + 1, &value##_at))

/* The rule of a list, which may be made later; NULL after a failure. */
accel__rule *accel__schema_rule(accel__schema *s, accel__clauses clauses);
/* A failure at a node of the schema: "JSON schema: at #/properties/a: ...". */
accel_status accel__schema_fail(const accel__schema *s, accel_status code, const accel__json *at,
                                const char *format, ...) ACCEL_PRINTF(4, 5);
/* A whole number of at least 0; *out stays when the clauses do not say.  `largest`: of several the
 * largest counts, else the smallest. */
accel_status accel__schema_count(const accel__schema *s, const accel__shape *shape,
                                 const char *keyword, bool largest, uint32_t *out);

/* Where an expression of the schema, found at `where`, may match: anywhere in a string with `search`,
 * else all of it.  From state `from` of `r` on; *to: where it ends. */
accel_status accel__schema_expression(const accel__schema *s, const accel__json *where,
                                      const char *text, bool search, accel__rule *r, uint32_t from,
                                      uint32_t *to);
/* Formats that say what strings, and what numbers may be; others are not known. */
bool accel__schema_string_format(const char *name);
bool accel__schema_number_format(const char *name);

/* ---- constants (schema_constant.c) ---- */

/* One of the values that a list of clauses allows. */
typedef struct accel__listed {
  const accel__json *value; /* NULL: `text` */
  const char *text;         /* "null", "true", "false" */
} accel__listed;
/* The values of `const` or `enum` that no clause excludes; *found false: the clauses list none. */
accel_status accel__schema_add_listed(accel__schema *s, const accel__shape *shape, accel__rule *r,
                                      bool *found);
/* The list or value that says which values there are; NULL: any. */
const accel__json *accel__shape_listed(const accel__shape *shape, bool *one);
/* Whether two lists, each a value or an array of values, have none in common. */
bool accel__listed_apart(const accel__json *a, bool a_one, const accel__json *b, bool b_one);
/* The different values of a shape, at most `most`; *n UINT32_MAX: they are not listed.  Those of null
 * and boolean are. */
accel_status accel__shape_values(const accel__schema *s, const accel__shape *shape, uint32_t most,
                                 accel__listed *out, uint32_t *n);
bool accel__listed_equal(const accel__listed *a, const accel__listed *b);
/* The value as JSON, from state 0 to 1 of `r`. */
void accel__listed_add(accel__rule *r, const accel__listed *value);

/* ---- arrays and objects ---- */

/* What each clause says of element `i`, at most as many clauses as the shape has.  *never: one says
 * that it may not be. */
accel_status accel__schema_element(const accel__schema *s, const accel__shape *shape, uint32_t i,
                                   accel__clause *list, accel__clauses *out, bool *never);
/* Elements from min to max (UINT32_MAX: any number) of which no two are equal; those from number
 * `first` on are alike.  From `[` (state `at`) to `end`. */
accel_status accel__schema_unique(accel__schema *s, const accel__shape *shape, uint32_t first,
                                  uint32_t min, uint32_t max, uint32_t at, uint32_t end,
                                  accel__rule *r);

/* A property that the schema names. */
typedef struct accel__property {
  const char *name;
  const accel__json *where; /* for messages */
  bool required;
} accel__property;

/* patternProperties of a shape, and the names that are no property of `property`[n_properties] in
 * sets: those for which the same patterns hold. */
enum { ACCEL__NAME_PATTERNS = 32, ACCEL__NAME_SETS = 64 };
typedef struct accel__names {
  const accel__schema *schema;
  const accel__property *property;
  size_t n_properties;
  struct accel__name_pattern *pattern; /* [n_patterns] */
  uint32_t n_patterns;
  struct accel__name_set *set; /* [n_sets]; without patterns there are none */
  uint32_t n_sets;
} accel__names;
accel_status accel__names_make(const accel__schema *s, const accel__shape *shape,
                               const accel__property *property, size_t n, accel__names *out);
void accel__names_free(accel__names *names);
/* Patterns that hold for a name, or for the names of set `i`, as bits. */
accel_status accel__names_patterns(const accel__names *names, const char *name, uint32_t *out);
uint32_t accel__names_set_patterns(const accel__names *names, uint32_t i);
/* Of clause `clause` (its number in the shape): appends the schemas of its patterns among `patterns`
 * to `list`, and answers how many those are. */
uint32_t accel__names_schemas(const accel__names *names, uint32_t clause, uint32_t patterns,
                              accel__clause *list);
/* The names of set `i`, or without patterns all that are no property, with their quotes. */
accel_status accel__names_add(const accel__names *names, uint32_t i, accel__rule *r, uint32_t from,
                              uint32_t to);

/* Values of one type, from state 0 to state 1 of `r`. */
accel_status accel__schema_object(accel__schema *s, const accel__shape *shape, accel__rule *r);
accel_status accel__schema_array(accel__schema *s, const accel__shape *shape, accel__rule *r);
accel_status accel__schema_string(accel__schema *s, const accel__shape *shape, accel__rule *r);
accel_status accel__schema_number(accel__schema *s, const accel__shape *shape, bool integer,
                                  accel__rule *r);

#endif
