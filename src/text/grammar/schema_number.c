/* schema_number.c - numbers between bounds, and multiples, digit by digit.
 *
 * Numbers with bounds are written without an exponent.  The digits of a bound are followed as long
 * as the number's are the same; the first that differs decides.  Of multiples there is a state for
 * each remainder. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/grammar/condition.h"
#include "text/grammar/schema_internal.h"

enum {
  WHOLE_DIGITS = 15,
  FORMAT_DIGITS = 20, /* of the largest whole number of a format */
  FRACTION_DIGITS = 15,
  FREE_FRACTION = 6 /* digits behind an open bound */
};

/* A bound without its sign, as digits. */
typedef struct digits {
  char whole[FORMAT_DIGITS + 1], fraction[FRACTION_DIGITS + 1]; /* no zeros in front or behind */
  bool open;                                                    /* the bound itself is left out */
} digits;

typedef struct bound {
  bool given, negative;
  digits size;
  double value;
} bound;

/* ---- bounds ---- */

static bool take_digits(const char **at, char *out, size_t most) {
  size_t n = 0;
  while (**at >= '0' && **at <= '9') {
    if (n == most) return false;
    out[n++] = *(*at)++;
  }
  out[n] = 0;
  return true;
}

static accel_status read_bound(const accel__schema *s, const accel__json *node, bool open,
                               bound *out) {
  const char *text = cJSON_IsNumber(node) ? node->valuestring : "";
  char whole[WHOLE_DIGITS + 2];
  *out = (bound){
      .given = true, .negative = *text == '-', .size.open = open, .value = node->valuedouble};
  text += *text == '-';
  bool good = *text >= '0' && *text <= '9' && take_digits(&text, whole, WHOLE_DIGITS);
  if (good && *text == '.') {
    text++;
    good = take_digits(&text, out->size.fraction, FRACTION_DIGITS);
  }
  if (!good || *text == 'e' || *text == 'E')
    return accel__remedy(
        accel__schema_fail(s, ACCEL_ERROR_UNSUPPORTED, node, "this bound is not supported"),
        "bounds are numbers without exponent of at most %d digits before and behind the point",
        WHOLE_DIGITS);
  size_t zeros = strspn(whole, "0"), n = strlen(out->size.fraction);
  if (!whole[zeros]) zeros -= zeros > 0; /* "0" is one digit */
  strcpy(out->size.whole, whole + zeros);
  while (n && out->size.fraction[n - 1] == '0') out->size.fraction[--n] = 0;
  if (out->value == 0) out->negative = false;
  return ACCEL_OK;
}

/* The tightest of the bounds of one side. */
static accel_status read_side(const accel__schema *s, const accel__shape *shape, const char *closed,
                              const char *open, bool lower, bound *out) {
  *out = (bound){.given = false};
  for (int k = 0; k < 2; k++) ACCEL__SHAPE_EACH(node, shape, k ? open : closed) {
      bound one;
      ACCEL_TRY(read_bound(s, node, k == 1, &one));
      const bool tighter = !out->given ||
                           (lower ? one.value > out->value : one.value < out->value) ||
                           (one.value == out->value && one.size.open);
      if (tighter) *out = one;
    }
  return ACCEL_OK;
}

/* An open bound must be told from the next number when both are read as doubles. */
static accel_status check_open(const accel__schema *s, const accel__shape *shape, const bound *b,
                               const char *keyword) {
  uint32_t at;
  const accel__json *node = accel__shape_find(shape, keyword, 0, &at);
  if (!node || !b->given || !b->size.open ||
      strlen(b->size.whole) + strlen(b->size.fraction) + FREE_FRACTION <= WHOLE_DIGITS)
    return ACCEL_OK;
  return accel__remedy(accel__schema_fail(s, ACCEL_ERROR_UNSUPPORTED, node,
                                          "this bound has too many digits for '%s'", keyword),
                       "at most %d digits, or use minimum and maximum",
                       WHOLE_DIGITS - FREE_FRACTION);
}

/* ---- digits ---- */

/* A number on its way: what its digits so far leave of both bounds.  States are made once for each
 * place, and shared between the ways that lead there. */
typedef struct writer {
  accel__rule *r;
  const digits *low, *high; /* NULL: no such bound */
  bool integer;
  uint32_t to;
} writer;

static char digit_of(const char *text, size_t i) { return i < strlen(text) ? text[i] : '0'; }

static uint32_t most_fraction(const writer *w) {
  const size_t low = w->low ? strlen(w->low->fraction) : 0,
               high = w->high ? strlen(w->high->fraction) : 0;
  return (uint32_t)(low > high ? low : high) + FREE_FRACTION;
}

/* Behind i digits of the fraction (0: behind the point) while they are those of the bounds that are
 * still followed. */
static void add_fraction(writer *w, uint32_t from, bool on_low, bool on_high) {
  accel__rule *r = w->r;
  const uint32_t most = most_fraction(w);
  uint32_t at[4] = {0}; /* by on_low + 2 * on_high */
  at[on_low + 2 * on_high] = accel__rule_text(r, from, ".");
  for (uint32_t i = 0; i < most; i++) {
    uint32_t next[4] = {0};
    for (int k = 0; k < 4; k++) {
      if (!at[k]) continue;
      const char low = k & 1 ? digit_of(w->low->fraction, i) : '0',
                 high = k & 2 ? digit_of(w->high->fraction, i) : '9';
      for (char d = low; d <= high; d++) {
        const int to = ((k & 1) && d == low) + 2 * ((k & 2) && d == high);
        if (!next[to]) next[to] = accel__rule_state(r);
        accel__rule_bytes(r, at[k], (uint8_t)d, (uint8_t)d, next[to]);
      }
    }
    for (int k = 0; k < 4; k++) {
      at[k] = next[k];
      if (!at[k]) continue;
      /* digits that a low bound still has are above what was written */
      const bool below = (k & 1) && (i + 1 < strlen(w->low->fraction) || w->low->open),
                 above = (k & 2) && i + 1 >= strlen(w->high->fraction) && w->high->open;
      if (!below && !above) accel__rule_empty(r, at[k], w->to);
    }
  }
}

/* The whole part is written: the number may end, or a fraction may come. */
static void end_whole(writer *w, uint32_t at, bool on_low, bool on_high) {
  const bool below = on_low && (w->low->fraction[0] || w->low->open),
             above = on_high && !w->high->fraction[0] && w->high->open;
  if (!below && !above) accel__rule_empty(w->r, at, w->to);
  if (!w->integer) add_fraction(w, at, on_low, on_high);
}

/* Whole parts of n digits.  low_n, high_n: digits of the bounds', 0 without one. */
static void add_whole(writer *w, uint32_t from, size_t n) {
  const size_t low_n = w->low ? strlen(w->low->whole) : 0,
               high_n = w->high ? strlen(w->high->whole) : 0;
  uint32_t at[4] = {0};
  if ((w->low && n < low_n) || (w->high && n > high_n)) return;
  const bool same_low = w->low && n == low_n, same_high = w->high && n == high_n;
  at[same_low + 2 * same_high] = accel__rule_state(w->r);
  accel__rule_empty(w->r, from, at[same_low + 2 * same_high]);
  for (size_t i = 0; i < n; i++) {
    uint32_t next[4] = {0};
    for (int k = 0; k < 4; k++) {
      if (!at[k]) continue;
      const char least = i == 0 && n > 1 ? '1' : '0', low = k & 1 ? w->low->whole[i] : '0',
                 high = k & 2 ? w->high->whole[i] : '9';
      for (char d = low > least ? low : least; d <= high; d++) {
        const int to = ((k & 1) && d == low) + 2 * ((k & 2) && d == high);
        if (!next[to]) next[to] = accel__rule_state(w->r);
        accel__rule_bytes(w->r, at[k], (uint8_t)d, (uint8_t)d, next[to]);
      }
    }
    memcpy(at, next, sizeof at);
  }
  for (int k = 0; k < 4; k++)
    if (at[k]) end_whole(w, at[k], k & 1, (k & 2) != 0);
}

/* Sizes from low to high, each NULL for none, without a sign. */
static void add_sizes(accel__rule *r, uint32_t from, const digits *low, const digits *high,
                      bool integer, uint32_t to) {
  writer w = {.r = r, .low = low, .high = high, .integer = integer, .to = to};
  const size_t least = low ? strlen(low->whole) : 1, most = high ? strlen(high->whole) : least;
  for (size_t n = least; n <= most; n++) add_whole(&w, from, n);
  if (high) return;
  /* longer ones are above the low bound whatever their digits are */
  uint32_t at = accel__rule_state(r), loop = accel__rule_state(r);
  accel__rule_bytes(r, from, '1', '9', at);
  for (size_t n = 1; n < least; n++) {
    const uint32_t next = accel__rule_state(r);
    accel__rule_bytes(r, at, '0', '9', next);
    at = next;
  }
  accel__rule_bytes(r, at, '0', '9', loop);
  accel__rule_bytes(r, loop, '0', '9', loop);
  end_whole(&w, loop, false, false);
}

/* ---- numbers ---- */

static void add_bounded(accel__rule *r, const bound *low, const bound *high, bool integer) {
  static const digits zero = {.whole = "0"}, open_zero = {.whole = "0", .open = true};
  /* -0 is zero, too */
  const digits *least = high->given && high->value == 0 && high->size.open ? &open_zero : &zero;
  const bool reaches_up = !high->given || !high->negative,
             reaches_down = !low->given || low->negative;
  if (reaches_up) /* from the low bound, or from zero */
    add_sizes(r, 0, low->given && !low->negative ? &low->size : &zero,
              high->given ? &high->size : NULL, integer, 1);
  if (reaches_down) /* sizes of negative numbers run the other way */
    add_sizes(r, accel__rule_text(r, 0, "-"), high->given && high->negative ? &high->size : least,
              low->given ? &low->size : NULL, integer, 1);
}

/* ---- formats ---- */

/* Bounds of OpenAPI's formats; NULL: any number. */
static const struct {
  const char *name, *low, *high;
} formats[] = {{"int8", "128", "127"},
               {"int16", "32768", "32767"},
               {"int32", "2147483648", "2147483647"},
               {"int64", "9223372036854775808", "9223372036854775807"},
               {"uint8", "0", "255"},
               {"uint16", "0", "65535"},
               {"uint32", "0", "4294967295"},
               {"uint64", "0", "18446744073709551615"},
               {"float", NULL, NULL},
               {"double", NULL, NULL}};
enum { FORMATS = sizeof formats / sizeof *formats };

static size_t format_of(const char *name) {
  size_t i = 0;
  while (i < FORMATS && strcmp(formats[i].name, name) != 0) i++;
  return i;
}

bool accel__schema_number_format(const char *name) { return format_of(name) < FORMATS; }

/* The bound of a format where it is tighter. */
static void tighten(const char *text, bool lower, bound *b) {
  const bool negative = lower && *text != '0';
  bound one = {.given = true, .negative = negative, .value = strtod(text, NULL)};
  if (negative) one.value = -one.value;
  strcpy(one.size.whole, text);
  if (!b->given || (lower ? one.value > b->value : one.value < b->value)) *b = one;
}

static accel_status read_formats(const accel__schema *s, const accel__shape *shape, bool *integer,
                                 bound *low, bound *high) {
  ACCEL__SHAPE_EACH(format, shape, "format") {
    const char *name = cJSON_IsString(format) ? format->valuestring : "";
    const size_t i = format_of(name);
    if (i == FORMATS && accel__schema_string_format(name)) continue; /* nothing about numbers */
    if (i == FORMATS)
      return accel__remedy(accel__schema_fail(s, ACCEL_ERROR_UNSUPPORTED, format,
                                              "format '%.80s' is not supported", name),
                           "of numbers int8 to int64, uint8 to uint64, float and double are");
    if (!formats[i].high) continue;
    tighten(formats[i].low, true, low);
    tighten(formats[i].high, false, high);
    *integer = true;
  }
  return ACCEL_OK;
}

/* ---- multiples ---- */

enum { MULTIPLES = 8, LARGEST_MULTIPLE = 10000 };

/* A step as size / 10^decimals, no digits too many. */
typedef struct step {
  uint32_t size, decimals;
} step;

/* What numbers must be: between the bounds, and multiples of the steps. */
typedef struct demands {
  bound low, high;
  step step[MULTIPLES];
  uint32_t n_steps;
  bool integer;
} demands;

static bool read_digits(const char *text, step *out) {
  uint64_t size = 0;
  uint32_t decimals = 0;
  bool behind = false;
  for (; *text; text++) {
    if (*text == '.' && !behind) {
      behind = true;
      continue;
    }
    if (*text < '0' || *text > '9') break;
    size = 10 * size + (uint64_t)(*text - '0');
    decimals += behind;
    if (size > UINT32_MAX || decimals > FRACTION_DIGITS) return false;
  }
  if (*text == 'e' || *text == 'E' || *text == '.') return false;
  for (; decimals && size % 10 == 0; decimals--) size /= 10;
  *out = (step){(uint32_t)size, decimals};
  return true;
}

/* Steps are powers of two below the point: of others doubles hold neither the step nor its
 * multiples, and validators do not agree on them. */
static bool is_binary(const step *m) {
  uint64_t power = 1;
  for (uint32_t i = 0; i < m->decimals; i++) power *= 5;
  return m->size % power == 0;
}

/* The step of whole numbers that are multiples. */
static step whole_step(step m) {
  uint64_t a = m.size, b = 1;
  for (uint32_t i = 0; i < m.decimals; i++) b *= 10;
  while (b) {
    const uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return (step){(uint32_t)(m.size / a), 0};
}

static accel_status read_steps(const accel__schema *s, const accel__shape *shape, demands *d) {
  ACCEL__SHAPE_EACH(node, shape, "multipleOf") {
    step m;
    if (!cJSON_IsNumber(node) || !(node->valuedouble > 0))
      return accel__schema_fail(s, ACCEL_ERROR_ARGUMENT, node, "a number above 0 is expected");
    bool good = read_digits(node->valuestring, &m) && is_binary(&m);
    if (good && d->integer) m = whole_step(m);
    if (!good)
      return accel__remedy(
          accel__schema_fail(s, ACCEL_ERROR_UNSUPPORTED, node, "this multipleOf is not supported"),
          "whole numbers, and fractions in halves (0.5, 0.25), without exponent; "
          "of others (0.01) validators do not agree: count in smaller units");
    if (m.size > LARGEST_MULTIPLE || d->n_steps == MULTIPLES)
      return accel__schema_fail(s, ACCEL_ERROR_LIMIT, node,
                                "at most %d conditions of at most %d, without the point", MULTIPLES,
                                LARGEST_MULTIPLE);
    d->step[d->n_steps++] = m;
  }
  return ACCEL_OK;
}

/* Digits from each of from[size], one state for each remainder of what is written so far, to
 * to[size]. */
static void add_digits(accel__rule *r, const uint32_t *from, uint32_t size, const uint32_t *to) {
  for (uint32_t rest = 0; rest < size; rest++)
    for (uint32_t digit = 0; digit < 10; digit++)
      accel__rule_bytes(r, from[rest], (uint8_t)('0' + digit), (uint8_t)('0' + digit),
                        to[(10 * rest + digit) % size]);
}

/* Ends numbers that are multiples once `missing` zeros follow. */
static void end_multiples(accel__rule *r, const uint32_t *state, uint32_t size, uint32_t missing) {
  for (uint32_t rest = 0; rest < size; rest++) {
    uint64_t scaled = rest;
    for (uint32_t i = 0; i < missing; i++) scaled = scaled * 10 % size;
    if (!scaled) accel__rule_empty(r, state[rest], 1);
  }
}

/* n states, of each from[i] behind `byte`. */
static void add_states(accel__rule *r, const uint32_t *from, uint32_t n, char byte, uint32_t *to) {
  for (uint32_t i = 0; i < n; i++) to[i] = accel__rule_state(r);
  for (uint32_t i = 0; i < n && byte; i++)
    accel__rule_bytes(r, from[i], (uint8_t)byte, (uint8_t)byte, to[i]);
}

/* Numbers without exponent, with as many digits behind the point as the step at most. */
static accel_status add_multiples(accel__rule *r, const step *m) {
  const uint32_t size = m->size;
  uint32_t *at = malloc(2 * (size_t)size * sizeof *at), *next = at ? at + size : NULL;
  const uint32_t sign = accel__rule_text(r, 0, "-"), zero = accel__rule_text(r, sign, "0");
  if (!at) return accel__no_memory(2 * (size_t)size * sizeof *at);
  accel__rule_empty(r, 0, sign);
  accel__rule_empty(r, zero, 1);
  add_states(r, NULL, size, 0, at);
  for (uint32_t digit = 1; digit < 10; digit++)
    accel__rule_bytes(r, sign, (uint8_t)('0' + digit), (uint8_t)('0' + digit), at[digit % size]);
  add_digits(r, at, size, at);
  end_multiples(r, at, size, m->decimals);
  if (m->decimals) {
    add_states(r, at, size, '.', next);
    accel__rule_bytes(r, zero, '.', '.', next[0]);
    memcpy(at, next, size * sizeof *at);
  }
  for (uint32_t missing = m->decimals; missing-- > 0 && r->rules->status == ACCEL_OK;) {
    add_states(r, NULL, size, 0, next);
    add_digits(r, at, size, next);
    end_multiples(r, next, size, missing);
    memcpy(at, next, size * sizeof *at);
  }
  free(at);
  return r->rules->status;
}

/* ---- all of it ---- */

/* The steps, then the bounds. */
static accel_status fill_demand(void *user, uint32_t number, accel__rule *r) {
  const demands *d = user;
  if (number < d->n_steps) return add_multiples(r, &d->step[number]);
  add_bounded(r, &d->low, &d->high, d->integer);
  return r->rules->status;
}

accel_status accel__schema_number(accel__schema *s, const accel__shape *shape, bool integer,
                                  accel__rule *r) {
  demands d = {.integer = integer};
  ACCEL_TRY(read_side(s, shape, "minimum", "exclusiveMinimum", true, &d.low));
  ACCEL_TRY(read_side(s, shape, "maximum", "exclusiveMaximum", false, &d.high));
  if (!integer) ACCEL_TRY(check_open(s, shape, &d.low, "exclusiveMinimum"));
  if (!integer) ACCEL_TRY(check_open(s, shape, &d.high, "exclusiveMaximum"));
  ACCEL_TRY(read_formats(s, shape, &d.integer, &d.low, &d.high));
  ACCEL_TRY(read_steps(s, shape, &d));
  const bool bounded = d.low.given || d.high.given;
  if (bounded && d.low.given && d.high.given && d.low.value > d.high.value)
    return ACCEL_OK; /* there is none */
  if (d.n_steps) return accel__conditions_add(fill_demand, &d, d.n_steps + bounded, r, 0, 1);
  if (bounded)
    add_bounded(r, &d.low, &d.high, d.integer);
  else if (integer)
    accel__json_integer(r, 0, 1);
  else
    accel__rule_call(r, 0, accel__json_number_rule(&s->parts), 1);
  return s->rules->status;
}
