/* json_rules.c - JSON as it is written here: without spaces between its parts. */
#include "text/grammar/sources.h"

static void add_hex(accel__rule *r, uint32_t from, const char *ranges, uint32_t to) {
  for (; ranges[0] && ranges[1]; ranges += 2)
    accel__rule_bytes(r, from, (uint8_t)ranges[0], (uint8_t)ranges[1], to);
}

/* A state with any hexadecimal digit to `to`. */
static uint32_t any_hex(accel__rule *r, uint32_t to) {
  const uint32_t from = accel__rule_state(r);
  add_hex(r, from, "09afAF", to);
  return from;
}

/* "u" and a code: a character of its own, or a pair of surrogates. */
static void add_code(accel__rule *r, uint32_t from, uint32_t to) {
  const uint32_t first = accel__rule_text(r, from, "u"), two = any_hex(r, any_hex(r, to)),
                 three = any_hex(r, two), d = accel__rule_state(r), between = accel__rule_state(r),
                 high = any_hex(r, any_hex(r, between));
  add_hex(r, first, "09acACefEF", three);
  add_hex(r, first, "ddDD", d);
  add_hex(r, d, "07", two);
  add_hex(r, d, "89abAB", high);
  const uint32_t low = accel__rule_text(r, between, "\\u"), half = accel__rule_state(r);
  add_hex(r, low, "ddDD", half);
  add_hex(r, half, "cfCF", two);
}

void accel__json_character(accel__rule *r, uint32_t from, uint32_t to) {
  accel__code_set plain = {.n = 3, .range = {{' ', '!'}, {'#', '['}, {']', 0x7E}}};
  accel__code_set_add(&plain, 0x80, 0x10FFFF);
  accel__rule_code_set(r, from, &plain, ACCEL__SPELL_PLAIN, to);
  const uint32_t escape = accel__rule_text(r, from, "\\");
  for (const char *c = "\"\\/bfnrt"; *c; c++)
    accel__rule_bytes(r, escape, (uint8_t)*c, (uint8_t)*c, to);
  add_code(r, escape, to);
}

accel__rule *accel__json_string_rule(accel__json_parts *p) {
  if (p->string || !(p->string = accel__rules_add(p->rules, "a string", 8))) return p->string;
  accel__rule *r = p->string;
  r->keep = true;
  const uint32_t inside = accel__rule_text(r, 0, "\"");
  accel__json_character(r, inside, inside);
  accel__rule_bytes(r, inside, '"', '"', 1);
  return r;
}

void accel__json_integer(accel__rule *r, uint32_t from, uint32_t to) {
  const uint32_t sign = accel__rule_text(r, from, "-"), digits = accel__rule_state(r);
  accel__rule_empty(r, from, sign);
  accel__rule_bytes(r, sign, '0', '0', to);
  accel__rule_bytes(r, sign, '1', '9', digits);
  accel__rule_bytes(r, digits, '0', '9', digits);
  accel__rule_empty(r, digits, to);
}

/* One digit or more. */
static uint32_t add_digits(accel__rule *r, uint32_t from) {
  const uint32_t digits = accel__rule_state(r);
  accel__rule_bytes(r, from, '0', '9', digits);
  accel__rule_bytes(r, digits, '0', '9', digits);
  return digits;
}

accel__rule *accel__json_number_rule(accel__json_parts *p) {
  if (p->number || !(p->number = accel__rules_add(p->rules, "a number", 8))) return p->number;
  accel__rule *r = p->number;
  const uint32_t whole = accel__rule_state(r), fraction = accel__rule_state(r),
                 exponent = accel__rule_state(r), sign = accel__rule_state(r);
  accel__json_integer(r, 0, whole);
  accel__rule_empty(r, whole, fraction);
  accel__rule_empty(r, add_digits(r, accel__rule_text(r, whole, ".")), fraction);
  accel__rule_bytes(r, fraction, 'e', 'e', exponent);
  accel__rule_bytes(r, fraction, 'E', 'E', exponent);
  accel__rule_empty(r, exponent, sign);
  accel__rule_bytes(r, exponent, '+', '+', sign);
  accel__rule_bytes(r, exponent, '-', '-', sign);
  accel__rule_empty(r, add_digits(r, sign), 1);
  accel__rule_empty(r, fraction, 1);
  return r;
}

/* Between `open` and `close` any number of elements with commas between them; an element of an
 * object has a name in front. */
static void add_list(accel__rule *r, accel__json_parts *p, const char *open, const char *close) {
  const uint32_t begin = accel__rule_text(r, 0, open), element = accel__rule_state(r),
                 behind = accel__rule_state(r);
  uint32_t value = element;
  accel__rule_empty(r, begin, element);
  if (*open == '{') {
    const uint32_t name = accel__rule_state(r);
    accel__rule_call(r, element, accel__json_string_rule(p), name);
    value = accel__rule_text(r, name, ":");
  }
  accel__rule_call(r, value, r, behind);
  accel__rule_empty(r, accel__rule_text(r, behind, ","), element);
  accel__rule_empty(r, accel__rule_text(r, behind, close), 1);
  accel__rule_empty(r, accel__rule_text(r, begin, close), 1);
}

accel__rule *accel__json_value_rule(accel__json_parts *p) {
  if (p->value || !(p->value = accel__rules_add(p->rules, "any value", 9))) return p->value;
  accel__rule *r = p->value;
  r->keep = true;
  accel__rule_call(r, 0, accel__json_string_rule(p), 1);
  accel__rule_call(r, 0, accel__json_number_rule(p), 1);
  accel__rule_empty(r, accel__rule_text(r, 0, "true"), 1);
  accel__rule_empty(r, accel__rule_text(r, 0, "false"), 1);
  accel__rule_empty(r, accel__rule_text(r, 0, "null"), 1);
  add_list(r, p, "{", "}");
  add_list(r, p, "[", "]");
  return r;
}

accel_status accel__json_rules(accel__rules *rules) {
  accel__json_parts parts = {.rules = rules};
  accel__json_value_rule(&parts); /* rule 0 */
  return rules->status;
}
