/* schema_string.c - strings: lengths, patterns, formats, and several of them at once. */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/automaton.h"
#include "text/grammar/schema_internal.h"

/* Formats as expressions.  Dates are of the years 1000 to 9999, without 29 February. */
#define YEAR "[1-9]\\d{3}"
#define DAY                                                                                      \
  "((01|03|05|07|08|10|12)-(0[1-9]|[12]\\d|3[01])|(04|06|09|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|" \
  "1\\d|2[0-8]))"
#define TIME  "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define OCTET "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
static const char *const formats[][2] = {
    {"date", YEAR "-" DAY},
    {"time", TIME},
    {"date-time", YEAR "-" DAY "T" TIME},
    {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
    {"email", "[A-Za-z0-9_+-]{1,32}(\\.[A-Za-z0-9_+-]{1,16})?@" LABEL "(\\." LABEL "){1,3}"},
    {"ipv4", OCTET "(\\." OCTET "){3}"}};

/* ---- both of two conditions ---- */

/* The first rule of a grammar as an automaton. */
typedef struct condition {
  accel__rules rules;
  accel__automaton automaton;
} condition;

static void free_condition(condition *c) {
  accel__automaton_free(&c->automaton);
  accel__rules_free(&c->rules);
}

/* Where both automata may stand at the same time. */
typedef struct pairs {
  uint32_t *a, *b, *state; /* [n] */
  size_t n, capacity;
  accel__map known;
  accel__arena arena;
} pairs;

static uint32_t pair_of(pairs *p, accel__rule *r, uint32_t a, uint32_t b) {
  const uint32_t key[2] = {a, b};
  int64_t number;
  if (accel__map_get(&p->known, (const char *)key, sizeof key, &number)) return p->state[number];
  const char *copy = accel__arena_copy(&p->arena, (const char *)key, sizeof key);
  if (p->n == p->capacity) {
    const size_t more = p->capacity * 2 + 64;
    void *x = realloc(p->a, more * 4), *y = realloc(p->b, more * 4),
         *z = realloc(p->state, more * 4);
    if (x) p->a = x;
    if (y) p->b = y;
    if (z) p->state = z;
    if (x && y && z) p->capacity = more;
  }
  if (!copy || p->n == p->capacity)
    return accel__rules_fail(r->rules, accel__no_memory(p->n * 12)), 0;
  accel__rules_fail(r->rules, accel__map_set(&p->known, copy, sizeof key, (int64_t)p->n));
  p->a[p->n] = a;
  p->b[p->n] = b;
  return p->state[p->n++] = accel__rule_state(r);
}

/* Adds to `r`, from state `from` to `to`, the texts of both. */
static void add_both(accel__rule *r, uint32_t from, const accel__automaton *a,
                     const accel__automaton *b, uint32_t to) {
  pairs p = {0};
  accel__rule_empty(r, from, pair_of(&p, r, a->start, b->start));
  for (size_t i = 0; i < p.n && r->rules->status == ACCEL_OK; i++) {
    const accel__state *x = &a->state[p.a[i]], *y = &b->state[p.b[i]];
    const uint32_t state = p.state[i];
    if (x->ends && y->ends) accel__rule_empty(r, state, to);
    for (uint32_t k = 0; k < x->n_edges; k++)
      for (uint32_t m = 0; m < y->n_edges; m++) {
        const accel__state_edge *e = &a->edge[x->edge + k], *f = &b->edge[y->edge + m];
        const uint8_t low = e->low > f->low ? e->low : f->low,
                      high = e->high < f->high ? e->high : f->high;
        if (low <= high) accel__rule_bytes(r, state, low, high, pair_of(&p, r, e->to, f->to));
      }
  }
  free(p.a);
  free(p.b);
  free(p.state);
  accel__map_free(&p.known);
  accel__arena_free(&p.arena);
}

/* ---- conditions ---- */

static void add_lengths(accel__rule *r, uint32_t from, uint32_t min, uint32_t max, bool spelled,
                        uint32_t to) {
  const accel__code_set any = {.n = 1, .range = {{0, 0x10FFFF}}};
  accel__part part = accel__part_begin(r);
  if (spelled)
    accel__rule_code_set(r, part.in, &any, ACCEL__SPELL_JSON, part.out);
  else
    accel__json_character(r, part.in, part.out);
  accel__part_repeat(r, &part, min, max);
  accel__rule_empty(r, from, part.in);
  accel__rule_empty(r, part.out, to);
}

static accel_status add_expression(const accel__schema *s, const accel__json *where,
                                   const char *text, bool search, accel__rule *r) {
  const accel__regex_source source = {text, strlen(text), ACCEL__SPELL_JSON, search};
  uint32_t end;
  const accel_status status = accel__regex_part(r, 0, &source, &end);
  if (status != ACCEL_OK) {
    char message[300];
    strncpy(message, accel__message(), sizeof message - 1);
    message[sizeof message - 1] = 0;
    return accel__schema_fail(s, status, where, "%s", message);
  }
  accel__rule_empty(r, end, 1);
  return ACCEL_OK;
}

/* Makes condition `number` of the shape: its patterns, then its formats, then its lengths. */
typedef struct conditions {
  const accel__json *where[8];
  const char *text[8]; /* NULL: lengths */
  bool search[8];
  uint32_t n, min, max;
  bool has_lengths;
} conditions;

static accel_status add_condition(const accel__schema *s, conditions *c, const accel__json *where,
                                  const char *text, bool search) {
  if (c->n == 7)
    return accel__schema_fail(s, ACCEL_ERROR_LIMIT, where, "more than 7 patterns and formats");
  c->where[c->n] = where;
  c->text[c->n] = text;
  c->search[c->n++] = search;
  return ACCEL_OK;
}

static accel_status read_conditions(const accel__schema *s, const accel__shape *shape,
                                    conditions *c) {
  uint32_t at;
  *c = (conditions){.max = UINT32_MAX};
  ACCEL__SHAPE_EACH(pattern, shape, "pattern") {
    if (!cJSON_IsString(pattern))
      return accel__schema_fail(s, ACCEL_ERROR_ARGUMENT, pattern, "an expression is expected");
    ACCEL_TRY(add_condition(s, c, pattern, pattern->valuestring, true));
  }
  ACCEL__SHAPE_EACH(format, shape, "format") {
    const char *name = cJSON_IsString(format) ? format->valuestring : "",
               *text = accel__second_of(formats, sizeof formats / sizeof *formats, name);
    if (!text)
      return accel__remedy(accel__schema_fail(s, ACCEL_ERROR_UNSUPPORTED, format,
                                              "format '%.80s' is not supported", name),
                           "date, time, date-time, uuid, email and ipv4 are; others can be a "
                           "pattern");
    ACCEL_TRY(add_condition(s, c, format, text, false));
  }
  ACCEL_TRY(accel__schema_count(s, shape, "minLength", true, &c->min));
  ACCEL_TRY(accel__schema_count(s, shape, "maxLength", false, &c->max));
  const accel__json *shortest = accel__shape_find(shape, "minLength", 0, &at),
                    *longest = accel__shape_find(shape, "maxLength", 0, &at);
  c->has_lengths = shortest || longest;
  if (c->has_lengths) c->where[c->n] = shortest ? shortest : longest;
  if (c->has_lengths) c->text[c->n++] = NULL;
  return ACCEL_OK;
}

static accel_status make_condition(const accel__schema *s, const conditions *c, uint32_t i,
                                   condition *out) {
  *out = (condition){0};
  accel__rule *r = accel__rules_add(&out->rules, "a string", 8);
  if (!r) return out->rules.status;
  if (c->text[i])
    ACCEL_TRY(add_expression(s, c->where[i], c->text[i], c->search[i], r));
  else
    add_lengths(r, 0, c->min, c->max, true, 1);
  ACCEL_TRY(out->rules.status);
  return accel__automaton_make(&out->rules, &out->automaton);
}

/* Conditions i and all behind it: `a` becomes the texts of both, as long as there are more. */
static accel_status fold(const accel__schema *s, const conditions *c, condition *a) {
  ACCEL_TRY(make_condition(s, c, 0, a));
  for (uint32_t i = 1; i < c->n; i++) {
    condition b, both = {0};
    accel_status status = make_condition(s, c, i, &b);
    accel__rule *r = status == ACCEL_OK ? accel__rules_add(&both.rules, "a string", 8) : NULL;
    if (r) add_both(r, 0, &a->automaton, &b.automaton, 1);
    if (status == ACCEL_OK) status = both.rules.status;
    if (status == ACCEL_OK) status = accel__automaton_make(&both.rules, &both.automaton);
    free_condition(&b);
    if (status != ACCEL_OK) {
      free_condition(&both);
      return status;
    }
    free_condition(a);
    *a = both;
  }
  return ACCEL_OK;
}

static accel_status add_conditions(const accel__schema *s, const conditions *c, accel__rule *r,
                                   uint32_t from, uint32_t to) {
  condition a = {0};
  accel_status status = fold(s, c, &a);
  /* the automaton as it is: both of it and itself */
  if (status == ACCEL_OK) add_both(r, from, &a.automaton, &a.automaton, to);
  free_condition(&a);
  return status;
}

accel_status accel__schema_string(accel__schema *s, const accel__shape *shape, accel__rule *r) {
  conditions c;
  ACCEL_TRY(read_conditions(s, shape, &c));
  if (!c.n) {
    accel__rule_call(r, 0, accel__json_string_rule(&s->parts), 1);
    return s->rules->status;
  }
  const uint32_t begin = accel__rule_text(r, 0, "\""), end = accel__rule_state(r);
  accel__rule_bytes(r, end, '"', '"', 1);
  if (c.n == 1 && c.has_lengths) {
    add_lengths(r, begin, c.min, c.max, false, end);
    return s->rules->status;
  }
  ACCEL_TRY(add_conditions(s, &c, r, begin, end));
  return s->rules->status;
}
