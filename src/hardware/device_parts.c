/* device_parts.c - see device_parts.h. */
#include "hardware/device_parts.h"

#include <string.h>

/* More layers than any model has, and far from overflow. */
enum { MAX_LAYER = 99999 };

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static void trim(const char **text, size_t *n) {
  while (*n && is_space(**text)) ++*text, --*n;
  while (*n && is_space((*text)[*n - 1])) --*n;
}

/* Reads a layer's number at *at; false: there is none, or it is beyond all layers. */
static bool read_layer(const char **at, const char *end, int32_t *out) {
  int32_t value = 0;
  const char *begin = *at;
  for (; *at < end && **at >= '0' && **at <= '9'; ++*at) {
    value = value * 10 + (**at - '0');
    if (value > MAX_LAYER) return false;
  }
  *out = value;
  return *at > begin;
}

static int shown(size_t n) { return (int)(n < 80 ? n : 80); }

/* FIRST-LAST or LAYER */
static accel_status read_range(const char *text, size_t n, accel__part_spelling *part) {
  const char *at = text, *end = text + n;
  bool fine = read_layer(&at, end, &part->first);
  part->last = part->first;
  if (fine && at < end && *at == '-') at++, fine = read_layer(&at, end, &part->last);
  if (!fine || at != end)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "device '%.*s': '%.*s' is no range of layers; spell it FIRST-LAST, as in "
                       "%.*s=0-11",
                       shown(part->n_name), part->name, shown(n), text, shown(part->n_name),
                       part->name);
  if (part->last < part->first)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "device '%.*s': layers %d-%d are the wrong way round; spell them %d-%d",
                       shown(part->n_name), part->name, part->first, part->last, part->last,
                       part->first);
  return ACCEL_OK;
}

static accel_status read_part(const char *text, size_t n, uint32_t number,
                              accel__part_spelling *part) {
  trim(&text, &n);
  const char *equals = memchr(text, '=', n);
  *part = (accel__part_spelling){
      .name = text, .n_name = equals ? (size_t)(equals - text) : n, .first = -1, .last = -1};
  trim(&part->name, &part->n_name);
  if (!part->n_name)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "device: part %u names no device; spell parts NAME+NAME or "
                       "NAME=FIRST-LAST+NAME=FIRST-LAST",
                       number);
  if (!equals) return ACCEL_OK;
  const char *range = equals + 1;
  n -= (size_t)(range - text);
  trim(&range, &n);
  return read_range(range, n, part);
}

/* Ranges begin at layer 0 and follow one another. */
static accel_status check_order(const accel__parts_spelling *s) {
  for (uint32_t i = 0; i < s->n; i++) {
    const accel__part_spelling *p = &s->part[i];
    const int32_t wanted = i ? s->part[i - 1].last + 1 : 0;
    if ((p->first < 0) != (s->part[0].first < 0))
      return accel__fail(ACCEL_ERROR_ARGUMENT,
                         "device '%.*s': either every part has a range of layers, or none",
                         shown(p->n_name), p->name);
    if (p->first < 0 || p->first == wanted) continue;
    if (p->first < wanted)
      return accel__fail(ACCEL_ERROR_ARGUMENT,
                         "device '%.*s': layer %d is in the part before it, too; begin at %d",
                         shown(p->n_name), p->name, p->first, wanted);
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "device '%.*s': layers %d-%d are in no part; begin at %d", shown(p->n_name),
                       p->name, wanted, p->first - 1, wanted);
  }
  return ACCEL_OK;
}

accel_status accel__parts_parse(const char *text, size_t n_text, accel__parts_spelling *out) {
  out->n = 0;
  if (!memchr(text, '+', n_text)) {
    const char *equals = memchr(text, '=', n_text);
    if (!equals) return ACCEL_OK;
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "device '%.*s': a range of layers leaves the others in no part; add a part "
                       "with '+', or leave '%.*s' off",
                       shown(n_text), text, shown(n_text - (size_t)(equals - text)), equals);
  }
  for (size_t at = 0; at <= n_text;) {
    const char *plus = memchr(text + at, '+', n_text - at);
    const size_t n = plus ? (size_t)(plus - text) - at : n_text - at;
    if (out->n == ACCEL__MAX_PARTS)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "device '%.*s': more than %d parts", shown(n_text),
                         text, ACCEL__MAX_PARTS);
    ACCEL_TRY(read_part(text + at, n, out->n + 1, &out->part[out->n]));
    out->n++;
    at += n + 1;
  }
  return check_order(out);
}
