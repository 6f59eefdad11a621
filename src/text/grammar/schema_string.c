/* schema_string.c - strings: lengths, patterns, formats, and several of them at once. */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/condition.h"
#include "text/grammar/schema_internal.h"

/* Formats as expressions.  Dates are of the years 1000 to 9999, without 29 February. */
#define YEAR "[1-9]\\d{3}"
#define DAY                                                                                      \
  "((01|03|05|07|08|10|12)-(0[1-9]|[12]\\d|3[01])|(04|06|09|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|" \
  "1\\d|2[0-8]))"
#define TIME  "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define OCTET "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
/* names of hosts: labels that begin with a letter and have single hyphens, 4 at most */
#define HOST_LABEL "[A-Za-z][A-Za-z0-9]{0,20}(-[A-Za-z0-9]{1,20}){0,2}"
#define HOST       HOST_LABEL "(\\." HOST_LABEL "){0,3}"
/* RFC 4291's forms without an IPv4 address at their end */
#define H "[0-9A-Fa-f]{1,4}"
#define IPV6                                                                              \
  "((" H ":){7}" H "|(" H ":){1,7}:|(" H ":){1,6}:" H "|(" H ":){1,5}(:" H "){1,2}|(" H   \
  ":){1,4}(:" H "){1,3}|(" H ":){1,3}(:" H "){1,4}|(" H ":){1,2}(:" H "){1,5}|" H ":(:" H \
  "){1,6}|:((:" H "){1,7}|:))"
/* RFC 3986, with the hosts and IPv4 addresses above */
#define PCHAR "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
#define TAIL  "(\\?(" PCHAR "|[/?])*)?(#(" PCHAR "|[/?])*)?"
#define URI                                                                                   \
  "[A-Za-z][A-Za-z0-9+.-]{0,15}:(//(" HOST "|" OCTET "(\\." OCTET "){3})(:\\d{1,5})?(/" PCHAR \
  "*)*|" PCHAR "+(/" PCHAR "*)*)" TAIL
/* RFC 3339, appendix A, with numbers of 9 digits at most */
#define N "\\d{1,9}"
#define DURATION \
  "P(" N "W|(" N "D|" N "M(" N "D)?|" N "Y(" N "M(" N "D)?)?)(T" CLOCK ")?|T" CLOCK ")"
#define CLOCK "(" N "S|" N "M(" N "S)?|" N "H(" N "M(" N "S)?)?)"
static const char *const formats[][2] = {
    {"date", YEAR "-" DAY},
    {"time", TIME},
    {"date-time", YEAR "-" DAY "T" TIME},
    {"duration", DURATION},
    {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
    {"email", "[A-Za-z0-9_+-]{1,32}(\\.[A-Za-z0-9_+-]{1,16})?@" LABEL "(\\." LABEL "){1,3}"},
    {"hostname", HOST},
    {"ipv4", OCTET "(\\." OCTET "){3}"},
    {"ipv6", IPV6},
    {"uri", URI}};

bool accel__schema_string_format(const char *name) {
  return accel__second_of(formats, sizeof formats / sizeof *formats, name) != NULL;
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

accel_status accel__schema_expression(const accel__schema *s, const accel__json *where,
                                      const char *text, bool search, accel__rule *r, uint32_t from,
                                      uint32_t *to) {
  const accel__regex_source source = {text, strlen(text), ACCEL__SPELL_JSON, search};
  const accel_status status = accel__regex_part(r, from, &source, to);
  if (status == ACCEL_OK) return ACCEL_OK;
  char message[300];
  strncpy(message, accel__message(), sizeof message - 1);
  message[sizeof message - 1] = 0;
  return accel__schema_fail(s, status, where, "%s", message);
}

/* What a string must be: its patterns, then its formats, then its lengths. */
typedef struct conditions {
  const accel__schema *schema;
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
  *c = (conditions){.schema = s, .max = UINT32_MAX};
  ACCEL__SHAPE_EACH(pattern, shape, "pattern") {
    if (!cJSON_IsString(pattern))
      return accel__schema_fail(s, ACCEL_ERROR_ARGUMENT, pattern, "an expression is expected");
    ACCEL_TRY(add_condition(s, c, pattern, pattern->valuestring, true));
  }
  ACCEL__SHAPE_EACH(format, shape, "format") {
    const char *name = cJSON_IsString(format) ? format->valuestring : "",
               *text = accel__second_of(formats, sizeof formats / sizeof *formats, name);
    if (!text && accel__schema_number_format(name)) continue; /* nothing about strings */
    if (!text)
      return accel__remedy(accel__schema_fail(s, ACCEL_ERROR_UNSUPPORTED, format,
                                              "format '%.80s' is not supported", name),
                           "of strings date, time, date-time, duration, uuid, email, hostname, "
                           "ipv4, ipv6 and uri are; others can be a pattern");
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

static accel_status fill_condition(void *user, uint32_t i, accel__rule *r) {
  const conditions *c = user;
  uint32_t end;
  if (c->text[i]) {
    ACCEL_TRY(
        accel__schema_expression(c->schema, c->where[i], c->text[i], c->search[i], r, 0, &end));
    accel__rule_empty(r, end, 1);
  } else {
    add_lengths(r, 0, c->min, c->max, true, 1);
  }
  return ACCEL_OK;
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
  return accel__conditions_add(fill_condition, &c, c.n, r, begin, end);
}
