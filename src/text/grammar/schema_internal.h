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

/* Values of one type, from state 0 to state 1 of `r`. */
accel_status accel__schema_object(accel__schema *s, const accel__shape *shape, accel__rule *r);
accel_status accel__schema_array(accel__schema *s, const accel__shape *shape, accel__rule *r);
accel_status accel__schema_string(accel__schema *s, const accel__shape *shape, accel__rule *r);
accel_status accel__schema_number(accel__schema *s, const accel__shape *shape, bool integer,
                                  accel__rule *r);

#endif
