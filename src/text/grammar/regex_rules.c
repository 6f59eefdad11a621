/* regex_rules.c - regular expressions: the part of their syntax that ECMAScript and Python agree on
 * and that describes a regular language.  Parsed on a stack of its own. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "text/grammar/groups.h"

/* ---- cursors ---- */

accel_status accel__cursor_fail(const accel__cursor *c, accel_status code, size_t at,
                                const char *format, ...) {
  char what[400];
  va_list list;
  va_start(list, format);
  vsnprintf(what, sizeof what, format, list);
  va_end(list);
  return accel__fail(code, "%s: byte %zu: %s", c->name, at + 1, what);
}

uint32_t accel__cursor_take(accel__cursor *c) {
  uint32_t code;
  c->at += accel__utf8_decode(c->text + c->at, c->n - c->at, &code);
  return code;
}

bool accel__cursor_number(accel__cursor *c, uint32_t most, uint32_t *out) {
  uint64_t value = 0;
  const size_t begin = c->at;
  for (int b; (b = accel__cursor_peek(c, 0)) >= '0' && b <= '9'; c->at++)
    if ((value = value * 10 + (uint64_t)(b - '0')) > most) return false;
  *out = (uint32_t)value;
  return c->at > begin;
}

accel_status accel__repeat_parse(accel__cursor *c, uint32_t *min, uint32_t *max, bool *found) {
  const int b = accel__cursor_peek(c, 0);
  const size_t begin = c->at;
  *found = b == '*' || b == '+' || b == '?' || b == '{';
  if (!*found) return ACCEL_OK;
  c->at++;
  *min = b == '+';
  *max = b == '?' ? 1 : UINT32_MAX;
  if (b != '{') return ACCEL_OK;
  const uint32_t most = ACCEL__GRAMMAR_STATES_MAX;
  bool good = accel__cursor_number(c, most, min);
  *max = *min;
  if (good && accel__cursor_peek(c, 0) == ',') {
    c->at++;
    *max = UINT32_MAX;
    if (accel__cursor_peek(c, 0) != '}') good = accel__cursor_number(c, most, max);
  }
  if (!good || accel__cursor_peek(c, 0) != '}' || *max < *min)
    return accel__remedy(
        accel__cursor_fail(c, ACCEL_ERROR_ARGUMENT, begin, "'{' begins no repetition {m,n}"),
        "m and n are at most %u, m not above n; write \\{ for the character", most);
  c->at++;
  return ACCEL_OK;
}

/* ---- escapes and classes ---- */

static int hex_digit(int b) {
  return b >= '0' && b <= '9'   ? b - '0'
         : b >= 'a' && b <= 'f' ? b - 'a' + 10
         : b >= 'A' && b <= 'F' ? b - 'A' + 10
                                : -1;
}

static bool take_hex(accel__cursor *c, int digits, uint32_t *out) {
  *out = 0;
  for (int i = 0; i < digits; i++) {
    const int d = hex_digit(accel__cursor_peek(c, 0));
    if (d < 0) return false;
    *out = *out * 16 + (uint32_t)d;
    c->at++;
  }
  return true;
}

/* "\x41", "\u0041", "\u{1F600}", "\U0001F600", two halves of a surrogate pair; at the letter. */
static accel_status take_code(accel__cursor *c, uint32_t *out) {
  const size_t begin = c->at - 1;
  const int letter = accel__cursor_peek(c, 0);
  uint32_t low;
  bool good;
  c->at++;
  if (letter != 'U' && accel__cursor_peek(c, 0) == '{') {
    int digits = 0;
    c->at++;
    while (digits < 8 && hex_digit(accel__cursor_peek(c, (size_t)digits)) >= 0) digits++;
    good = digits && take_hex(c, digits, out) && accel__cursor_peek(c, 0) == '}';
    c->at++;
  } else {
    good = take_hex(c, letter == 'x' ? 2 : letter == 'u' ? 4 : 8, out);
  }
  if (good && letter == 'u' && *out >= 0xD800 && *out < 0xDC00 &&
      accel__cursor_peek(c, 0) == '\\' && accel__cursor_peek(c, 1) == 'u') {
    c->at += 2;
    good = take_hex(c, 4, &low) && low >= 0xDC00 && low < 0xE000;
    *out = 0x10000 + ((*out - 0xD800) << 10) + (low - 0xDC00);
  }
  if (good && *out <= 0x10FFFF && !(*out >= 0xD800 && *out < 0xE000)) return ACCEL_OK;
  return accel__cursor_fail(c, ACCEL_ERROR_ARGUMENT, begin, "no character has this code");
}

/* Of \d, \w and \s, which mean ASCII here; \D, \W and \S the other characters of ASCII. */
static void add_shorthand(accel__code_set *set, int letter) {
  accel__code_set own = {.n = 0};
  const int kind = letter | 0x20;
  if (kind == 'd' || kind == 'w') accel__code_set_add(&own, '0', '9');
  if (kind == 'w') {
    accel__code_set_add(&own, 'A', 'Z');
    accel__code_set_add(&own, 'a', 'z');
    accel__code_set_add(&own, '_', '_');
  }
  if (kind == 's') {
    accel__code_set_add(&own, '\t', '\r');
    accel__code_set_add(&own, ' ', ' ');
  }
  if (letter != kind) {
    accel__code_set_invert(&own);
    accel__code_set_remove(&own, 0x80, 0x10FFFF);
  }
  for (uint32_t i = 0; i < own.n; i++)
    accel__code_set_add(set, own.range[i].first, own.range[i].last);
}

static bool is_shorthand(int b) { return b > 0 && strchr("dDwWsS", b) != NULL; }

accel_status accel__escape_parse(accel__cursor *c, bool in_class, uint32_t *out) {
  static const char names[] = "n\nr\rt\tf\fv\v";
  const size_t begin = c->at - 1;
  const int b = accel__cursor_peek(c, 0);
  if (b < 0)
    return accel__cursor_fail(c, ACCEL_ERROR_ARGUMENT, begin, "a backslash ends the expression");
  if (b == 'x' || b == 'u' || b == 'U') return take_code(c, out);
  for (size_t i = 0; i < sizeof names - 1; i += 2)
    if (names[i] == b) {
      c->at++;
      *out = (uint8_t)names[i + 1];
      return ACCEL_OK;
    }
  if (in_class && b == 'b') {
    c->at++;
    *out = '\b';
    return ACCEL_OK;
  }
  if ((b >= '0' && b <= '9') || ((b | 0x20) >= 'a' && (b | 0x20) <= 'z'))
    return accel__remedy(
        accel__cursor_fail(c, ACCEL_ERROR_UNSUPPORTED, begin, "\\%c is not supported", b),
        "of letters \\d \\D \\w \\W \\s \\S \\n \\r \\t \\f \\v \\xHH \\uHHHH "
        "\\u{H} may follow a backslash");
  *out = accel__cursor_take(c);
  return ACCEL_OK;
}

/* One character of a class, or a shorthand, which is added at once. */
static accel_status take_member(accel__cursor *c, accel__code_set *set, bool *shorthand,
                                uint32_t *out) {
  *shorthand = false;
  if (accel__cursor_peek(c, 0) != '\\') {
    if (accel__cursor_peek(c, 0) == '[' && accel__cursor_peek(c, 1) == ':')
      return accel__cursor_fail(c, ACCEL_ERROR_UNSUPPORTED, c->at,
                                "classes by name ([:alpha:]) are not supported");
    *out = accel__cursor_take(c);
    return ACCEL_OK;
  }
  c->at++;
  const int b = accel__cursor_peek(c, 0);
  if (!(*shorthand = is_shorthand(b))) return accel__escape_parse(c, true, out);
  c->at++;
  add_shorthand(set, b);
  return ACCEL_OK;
}

accel_status accel__class_parse(accel__cursor *c, accel__code_set *out) {
  const size_t begin = c->at - 1;
  const bool inverts = accel__cursor_peek(c, 0) == '^';
  bool shorthands = false, shorthand;
  uint32_t first, last;
  out->n = 0;
  out->full = false;
  c->at += inverts;
  if (accel__cursor_peek(c, 0) == ']')
    return accel__remedy(accel__cursor_fail(c, ACCEL_ERROR_ARGUMENT, begin, "an empty class"),
                         "write \\] for the character");
  while (accel__cursor_peek(c, 0) != ']') {
    const size_t at = c->at;
    if (at >= c->n)
      return accel__cursor_fail(c, ACCEL_ERROR_ARGUMENT, begin, "'[' without its ']'");
    ACCEL_TRY(take_member(c, out, &shorthand, &first));
    shorthands |= shorthand;
    if (shorthand) continue;
    last = first;
    if (accel__cursor_peek(c, 0) == '-' && accel__cursor_peek(c, 1) >= 0 &&
        accel__cursor_peek(c, 1) != ']') {
      c->at++;
      ACCEL_TRY(take_member(c, out, &shorthand, &last));
      if (shorthand || last < first)
        return accel__cursor_fail(c, ACCEL_ERROR_ARGUMENT, at, "no range of characters");
    }
    accel__code_set_add(out, first, last);
  }
  c->at++;
  if (inverts) accel__code_set_invert(out);
  /* engines do not agree on which characters beyond ASCII are digits, letters and spaces */
  if (inverts && shorthands) accel__code_set_remove(out, 0x80, 0x10FFFF);
  if (out->full)
    return accel__cursor_fail(c, ACCEL_ERROR_LIMIT, begin, "a class of more than %d ranges",
                              ACCEL__CODE_RANGES_MAX);
  return ACCEL_OK;
}

/* ---- expressions ---- */

typedef struct parser {
  accel__cursor c;
  const accel__regex_source *source;
  accel__groups g;
  bool beginning;  /* of an alternative */
  bool ends_there; /* "$" was read: the alternative must end */
} parser;

/* Any text, before or behind what is searched for. */
static void add_anything(parser *p) {
  accel__group_part *g = &p->g.open[0];
  accel__code_set any = {.n = 1, .range = {{0, 0x10FFFF}}};
  if (!p->source->search) return;
  const uint32_t loop = accel__rule_state(p->g.r);
  accel__rule_code_set(p->g.r, loop, &any, p->source->spelling, loop);
  accel__rule_empty(p->g.r, g->at, loop);
  g->at = loop;
}

static void end_alternative(parser *p) {
  accel__groups_join(&p->g);
  if (p->g.depth == 0 && !p->ends_there) add_anything(p);
  accel__groups_end_alternative(&p->g);
  p->beginning = true;
  p->ends_there = false;
}

static accel_status open_group(parser *p) {
  const size_t begin = p->c.at - 1;
  if (accel__cursor_peek(&p->c, 0) == '?') {
    const int b = accel__cursor_peek(&p->c, 1), next = accel__cursor_peek(&p->c, 2);
    const size_t name = b == 'P' ? 2 : 1;
    if (b == ':') {
      p->c.at += 2;
    } else if (accel__cursor_peek(&p->c, name) == '<' &&
               (b == 'P' || (next != '=' && next != '!'))) {
      while (p->c.at < p->c.n && accel__cursor_peek(&p->c, 0) != '>') p->c.at++;
      if (p->c.at++ >= p->c.n)
        return accel__cursor_fail(&p->c, ACCEL_ERROR_ARGUMENT, begin, "a name without its '>'");
    } else {
      return accel__remedy(
          accel__cursor_fail(&p->c, ACCEL_ERROR_UNSUPPORTED, begin,
                             "groups (?%c...) are not supported", b > ' ' && b < 0x7F ? b : '?'),
          "only (...), (?:...) and named groups are; what looks ahead or behind can often be "
          "written as alternatives");
    }
  }
  ACCEL_TRY(accel__groups_open(&p->g, &p->c, begin));
  p->beginning = true;
  return ACCEL_OK;
}

static accel_status close_group(parser *p) {
  ACCEL_TRY(accel__groups_close(&p->g, &p->c, p->c.at - 1));
  p->beginning = false;
  return ACCEL_OK;
}

static accel_status repeat_atom(parser *p) {
  uint32_t min, max;
  ACCEL_TRY(accel__groups_count(&p->g, &p->c, &min, &max));
  const int next = accel__cursor_peek(&p->c, 0);
  if (next == '?') p->c.at++; /* lazy: the same texts */
  if (next == '+')
    return accel__cursor_fail(&p->c, ACCEL_ERROR_UNSUPPORTED, p->c.at,
                              "possessive repetitions are not supported");
  accel__groups_repeat(&p->g, min, max);
  return ACCEL_OK;
}

/* "^" and "$", which say nothing where the whole text is matched. */
static accel_status take_anchor(parser *p, int b) {
  const size_t at = p->c.at++;
  const int next = accel__cursor_peek(&p->c, 0);
  const bool good = p->g.depth == 0 && (b == '^' ? p->beginning : next < 0 || next == '|');
  if (!good)
    return accel__remedy(
        accel__cursor_fail(&p->c, ACCEL_ERROR_UNSUPPORTED, at, "'%c' is not supported here", b),
        "'^' may begin and '$' may end an expression or one of its alternatives");
  accel__groups_join(&p->g);
  if (b == '$') {
    if (p->beginning) add_anything(p);
    p->ends_there = true;
  }
  p->beginning = false;
  return ACCEL_OK;
}

static accel_status take_set(parser *p, int b) {
  accel__code_set set = {.n = 0};
  uint32_t code;
  if (b == '[') {
    p->c.at++;
    ACCEL_TRY(accel__class_parse(&p->c, &set));
  } else if (b == '.') {
    p->c.at++;
    accel__code_set_add(&set, 0, 0x10FFFF);
    accel__code_set_remove(&set, '\n', '\n');
    accel__code_set_remove(&set, '\r', '\r');
    accel__code_set_remove(&set, 0x2028, 0x2029);
  } else if (b == '\\' && is_shorthand(accel__cursor_peek(&p->c, 1))) {
    add_shorthand(&set, accel__cursor_peek(&p->c, 1));
    p->c.at += 2;
  } else if (b == '\\') {
    p->c.at++;
    ACCEL_TRY(accel__escape_parse(&p->c, false, &code));
    accel__code_set_add(&set, code, code);
  } else {
    code = accel__cursor_take(&p->c);
    accel__code_set_add(&set, code, code);
  }
  accel__groups_element(&p->g);
  accel__rule_code_set(p->g.r, p->g.atom.in, &set, p->source->spelling, p->g.atom.out);
  return ACCEL_OK;
}

static accel_status take_next(parser *p) {
  const int b = accel__cursor_peek(&p->c, 0);
  if (b == '^' || b == '$') return take_anchor(p, b);
  if (b == '*' || b == '+' || b == '?' || b == '{') return repeat_atom(p);
  if (p->g.depth == 0 && p->beginning && b != '|') add_anything(p);
  if (b != '|') p->beginning = false;
  if (b == '|') {
    if (p->g.depth == 0 && p->beginning) add_anything(p);
    p->c.at++;
    end_alternative(p);
    return ACCEL_OK;
  }
  if (b == '(' || b == ')') {
    p->c.at++;
    return b == '(' ? open_group(p) : close_group(p);
  }
  if (b == ']' || b == '}')
    return accel__remedy(
        accel__cursor_fail(&p->c, ACCEL_ERROR_ARGUMENT, p->c.at, "'%c' without its beginning", b),
        "write \\%c for the character", b);
  return take_set(p, b);
}

static accel_status parse(parser *p) {
  while (p->c.at < p->c.n) {
    ACCEL_TRY(take_next(p));
    ACCEL_TRY(p->g.r->rules->status);
  }
  ACCEL_TRY(accel__groups_closed(&p->g, &p->c));
  end_alternative(p);
  return p->g.r->rules->status;
}

accel_status accel__regex_part(accel__rule *r, uint32_t from, const accel__regex_source *source,
                               uint32_t *to) {
  *to = from;
  if (!r) return ACCEL_ERROR_OUT_OF_MEMORY;
  parser *p = calloc(1, sizeof *p);
  accel_status status = p ? r->rules->status : accel__no_memory(sizeof *p);
  if (p && status == ACCEL_OK) {
    p->c = (accel__cursor){source->text, source->n, 0, "regular expression"};
    p->g.r = r;
    p->source = source;
    p->g.open[0].part = accel__part_begin(r);
    p->g.open[0].at = p->g.open[0].part.in;
    p->beginning = true;
    accel__rule_empty(r, from, p->g.open[0].part.in);
    *to = p->g.open[0].part.out;
    status = parse(p);
  }
  free(p);
  accel__rules_fail(r->rules, status);
  return status;
}

accel_status accel__regex_rules(accel__rules *rules, const char *text, size_t n) {
  const accel__regex_source source = {text, n, ACCEL__SPELL_PLAIN, false};
  uint32_t end;
  accel__rule *r = accel__rules_add(rules, "the expression", 14);
  if (!r) return rules->status;
  ACCEL_TRY(accel__regex_part(r, 0, &source, &end));
  accel__rule_empty(r, end, 1);
  return rules->status;
}
