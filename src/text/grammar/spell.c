/* spell.c - characters as bytes: sets of code points as UTF-8, plain or inside of JSON strings.
 *
 * In JSON strings each character is written in one way: as itself, but \" \\ \b \f \n \r \t, and
 * other control characters as \u00xx with small letters. */
#include <string.h>

#include "core/text.h"
#include "text/grammar/rules.h"

enum { LAST_CODE = 0x10FFFF };

/* ---- sets ---- */

void accel__code_set_add(accel__code_set *s, uint32_t first, uint32_t last) {
  uint32_t at = 0, end;
  if (last > LAST_CODE) last = LAST_CODE;
  if (first > last) return;
  while (at < s->n && s->range[at].last + 1 < first) at++;
  for (end = at; end < s->n && s->range[end].first <= last + 1; end++) {
    if (s->range[end].first < first) first = s->range[end].first;
    if (s->range[end].last > last) last = s->range[end].last;
  }
  if (end == at && s->n == ACCEL__CODE_RANGES_MAX) {
    s->full = true;
    return;
  }
  memmove(s->range + at + 1, s->range + end, (s->n - end) * sizeof *s->range);
  s->range[at] = (accel__code_range){first, last};
  s->n = s->n - (end - at) + 1;
}

void accel__code_set_invert(accel__code_set *s) {
  accel__code_set other = {.n = 0, .full = s->full};
  uint32_t next = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    if (s->range[i].first > next) accel__code_set_add(&other, next, s->range[i].first - 1);
    next = s->range[i].last + 1;
  }
  accel__code_set_add(&other, next, LAST_CODE);
  *s = other;
}

void accel__code_set_remove(accel__code_set *s, uint32_t first, uint32_t last) {
  accel__code_set_invert(s);
  accel__code_set_add(s, first, last);
  accel__code_set_invert(s);
}

/* ---- UTF-8 ---- */

/* tail[n]: a state from which any n continuation bytes lead to tail[0]; made when it is needed.
 * Sequences share them. */
static uint32_t tail_of(accel__rule *r, uint32_t tail[4], size_t n) {
  for (size_t i = 1; i <= n; i++) {
    if (tail[i]) continue;
    tail[i] = accel__rule_state(r);
    accel__rule_bytes(r, tail[i], 0x80, 0xBF, tail[i - 1]);
  }
  return tail[n];
}

/* first..last, whose UTF-8 is of one length, and whose last bytes run from 80 to BF where the bytes
 * before them differ. */
static void add_sequence(accel__rule *r, uint32_t from, uint32_t first, uint32_t last,
                         uint32_t tail[4]) {
  char low[4], high[4];
  const size_t n = accel__utf8_encode(first, low);
  size_t own = n;
  accel__utf8_encode(last, high);
  while (own > 1 && (uint8_t)low[own - 1] == 0x80 && (uint8_t)high[own - 1] == 0xBF) own--;
  for (size_t i = 0; i < own; i++) {
    const uint32_t next = i + 1 == own ? tail_of(r, tail, n - own) : accel__rule_state(r);
    accel__rule_bytes(r, from, (uint8_t)low[i], (uint8_t)high[i], next);
    from = next;
  }
}

/* Cuts ranges until each is such a one: at changes of length, and where trailing bytes would not
 * run from end to end. */
static void add_range(accel__rule *r, uint32_t from, accel__code_range whole, uint32_t tail[4]) {
  static const uint32_t ends[] = {0x7F, 0x7FF, 0xFFFF};
  accel__code_range left[32];
  uint32_t n = 1;
  left[0] = whole;
  while (n) {
    accel__code_range one = left[--n];
    bool cut = false;
    for (int i = 0; i < 3 && !cut; i++)
      if ((cut = one.first <= ends[i] && one.last > ends[i])) {
        left[n++] = (accel__code_range){ends[i] + 1, one.last};
        left[n++] = (accel__code_range){one.first, ends[i]};
      }
    for (uint32_t mask = 0x3F; one.first > 0x7F && mask < LAST_CODE && !cut;
         mask = mask << 6 | 0x3F) {
      if ((one.first & ~mask) == (one.last & ~mask)) break;
      const uint32_t at = one.first & mask            ? one.first | mask
                          : (one.last & mask) != mask ? (one.last & ~mask) - 1
                                                      : 0;
      if (!(cut = at != 0)) continue;
      left[n++] = (accel__code_range){at + 1, one.last};
      left[n++] = (accel__code_range){one.first, at};
    }
    if (!cut) add_sequence(r, from, one.first, one.last, tail);
  }
}

static void add_plain(accel__rule *r, uint32_t from, const accel__code_set *set, uint32_t to) {
  uint32_t tail[4] = {to};
  for (uint32_t i = 0; i < set->n; i++) add_range(r, from, set->range[i], tail);
}

/* ---- JSON ---- */

static bool is_escaped(uint32_t c) { return c < 0x20 || c == '"' || c == '\\'; }

static void add_escape(accel__rule *r, uint32_t from, uint32_t c, uint32_t to) {
  static const char usual[] = "\"\"\\\\\bb\ff\nn\rr\tt", digits[] = "0123456789abcdef";
  const char *at = NULL;
  for (size_t i = 0; i < sizeof usual - 1 && !at; i += 2)
    if ((uint32_t)usual[i] == c) at = &usual[i + 1];
  const char code[] = {'\\', 'u', '0', '0', digits[c >> 4 & 1], digits[c & 15]},
             known[] = {'\\', at ? *at : 0};
  const uint32_t end =
      accel__rule_literal(r, from, at ? known : code, at ? sizeof known : sizeof code);
  accel__rule_empty(r, end, to);
}

void accel__rule_code_set(accel__rule *r, uint32_t from, const accel__code_set *set,
                          accel__spelling spelling, uint32_t to) {
  accel__code_set own = *set;
  accel__code_set_remove(&own, 0xD800, 0xDFFF);
  if (spelling == ACCEL__SPELL_PLAIN) accel__code_set_remove(&own, 0, 0);
  if (spelling == ACCEL__SPELL_JSON)
    for (uint32_t i = 0; i < own.n; i++)
      for (uint32_t c = own.range[i].first; c <= own.range[i].last && c <= '\\'; c++)
        if (is_escaped(c)) add_escape(r, from, c, to);
  if (spelling == ACCEL__SPELL_JSON) {
    accel__code_set_remove(&own, 0, 0x1F);
    accel__code_set_remove(&own, '"', '"');
    accel__code_set_remove(&own, '\\', '\\');
  }
  if (own.full && r)
    accel__rules_fail(r->rules,
                      accel__fail(ACCEL_ERROR_LIMIT, "a set of characters has more than %d ranges",
                                  ACCEL__CODE_RANGES_MAX));
  add_plain(r, from, &own, to);
}

uint32_t accel__rule_json_text(accel__rule *r, uint32_t from, const char *text, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const uint32_t to = accel__rule_state(r);
    const uint8_t byte = (uint8_t)text[i];
    if (is_escaped(byte))
      add_escape(r, from, byte, to);
    else
      accel__rule_bytes(r, from, byte, byte, to);
    from = to;
  }
  return from;
}
