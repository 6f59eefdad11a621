/* jinja_strings.c - the methods of Python's str that templates may call, and those of dict, list,
 * loop and cycler. */
#include <stdlib.h>
#include <string.h>

#include "text/jinja/jinja_strings.h"
#include "text/jinja/jinja.h"
#include "text/unicode.h"

typedef accel__jinja_value value;
typedef const accel__jinja_args args_t;

/* ---- helpers ---- */

static value text_value(const char *text, size_t n) {
  return (value){.kind = ACCEL__J_STRING, .n = (uint32_t)n, .text = text};
}

static accel_status wants(accel__jinja *run, const char *what) {
  return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "a method of str wants %s", what);
}

static accel_status as_string(accel__jinja *run, args_t *a, int i, value *out) {
  *out = a->at[i];
  return a->given[i] && out->kind == ACCEL__J_STRING ? ACCEL_OK : wants(run, "a string");
}

/* An optional integer; None counts as absent. */
static accel_status as_int(accel__jinja *run, args_t *a, int i, int64_t absent, int64_t *out) {
  *out = absent;
  if (!a->given[i] || a->at[i].kind == ACCEL__J_NONE) return ACCEL_OK;
  if (a->at[i].kind != ACCEL__J_INT && a->at[i].kind != ACCEL__J_BOOL)
    return wants(run, "an integer");
  *out = a->at[i].kind == ACCEL__J_INT ? a->at[i].number : a->at[i].truth;
  return ACCEL_OK;
}

static bool is_space(uint32_t c) {
  return accel__unicode_is(c, ACCEL__UNI_WHITE) || (c >= 0x1C && c <= 0x1F);
}

/* The code point that ends at text[n]; n > 0. */
static size_t last_char(const char *text, size_t n, uint32_t *c) {
  size_t from = n - 1;
  while (from > 0 && ((uint8_t)text[from] & 0xC0) == 0x80) from--;
  accel__utf8_decode(text + from, n - from, c);
  return n - from;
}

static bool in_set(const value *set, const char *text, size_t n, uint32_t c) {
  return set ? set->n >= n && memmem(set->text, set->n, text, n) != NULL : is_space(c);
}

void accel__jinja_strip(value *v, const value *set, bool left, bool right) {
  while (left && v->n > 0) {
    uint32_t c;
    size_t n = accel__utf8_decode(v->text, v->n, &c);
    if (!in_set(set, v->text, n, c)) break;
    v->text += n;
    v->n -= (uint32_t)n;
  }
  while (right && v->n > 0) {
    uint32_t c;
    size_t n = last_char(v->text, v->n, &c);
    if (!in_set(set, v->text + v->n - n, n, c)) break;
    v->n -= (uint32_t)n;
  }
}

/* ---- case ---- */

static size_t upper_char(uint32_t c, uint32_t out[3]) {
  if (c < 0x80) return out[0] = c >= 'a' && c <= 'z' ? c - 32 : c, 1;
  return accel__unicode_upper(c, out);
}
static size_t lower_char(uint32_t c, uint32_t out[3]) { return accel__unicode_lower(c, out); }

static uint32_t lower_one(uint32_t c) { return c + (uint32_t)accel__unicode(c)->lower; }

static void put_char(accel__buffer *b, uint32_t c) {
  char bytes[4];
  accel__buffer_bytes(b, bytes, accel__utf8_encode(c, bytes));
}

static bool is_cased(uint32_t c) {
  unsigned category = accel__unicode(c)->category;
  return category == ACCEL__CATEGORY_LU || category == ACCEL__CATEGORY_LL ||
         category == ACCEL__CATEGORY_LT;
}

/* 'U' upper, 'L' lower, 'C' first upper, rest lower, 'T' first of each run of cased letters upper,
 * 'S' swapped, 'W' jinja2's title: first after white space or -({[< upper. */
accel_status accel__jinja_case(accel__jinja *run, const value *self, char how, value *out) {
  accel__buffer b = {0};
  bool inside = false; /* a word */
  accel__buffer_text(&b, "");
  for (size_t i = 0; i < self->n;) {
    uint32_t c, to[3];
    i += accel__utf8_decode(self->text + i, self->n - i, &c);
    bool up = how == 'U' || ((how == 'C' || how == 'T' || how == 'W') && !inside) ||
              (how == 'S' && accel__unicode(c)->category == ACCEL__CATEGORY_LL);
    size_t n = up ? upper_char(c, to) : lower_char(c, to);
    if (up && (how == 'C' || how == 'T')) /* title case: only the first of several */
      for (size_t k = 1; k < n; ++k) to[k] = lower_one(to[k]);
    for (size_t k = 0; k < n; ++k) put_char(&b, to[k]);
    if (how == 'C') inside = true;
    if (how == 'T') inside = is_cased(c);
    if (how == 'W') inside = !(is_space(c) || (c < 0x80 && c && strchr("-({[<", (int)c)));
  }
  ACCEL_TRY(accel__jinja_charge(run, 4 * (size_t)self->n));
  return accel__jinja_take(run, &b, out);
}

static accel_status m_upper(accel__jinja *run, const value *self, args_t *a, value *out) {
  (void)a;
  return accel__jinja_case(run, self, 'U', out);
}
static accel_status m_lower(accel__jinja *run, const value *self, args_t *a, value *out) {
  (void)a;
  return accel__jinja_case(run, self, 'L', out);
}
static accel_status m_title(accel__jinja *run, const value *self, args_t *a, value *out) {
  (void)a;
  return accel__jinja_case(run, self, 'T', out);
}
static accel_status m_capitalize(accel__jinja *run, const value *self, args_t *a, value *out) {
  (void)a;
  return accel__jinja_case(run, self, 'C', out);
}
static accel_status m_swapcase(accel__jinja *run, const value *self, args_t *a, value *out) {
  (void)a;
  return accel__jinja_case(run, self, 'S', out);
}

/* ---- strip ---- */

static accel_status strip(accel__jinja *run, const value *self, args_t *a, bool left, bool right,
                          value *out) {
  *out = *self;
  bool set = a->given[0] && a->at[0].kind != ACCEL__J_NONE;
  if (set && a->at[0].kind != ACCEL__J_STRING) return wants(run, "a string");
  accel__jinja_strip(out, set ? &a->at[0] : NULL, left, right);
  return accel__jinja_charge(run, self->n);
}
static accel_status m_strip(accel__jinja *run, const value *self, args_t *a, value *out) {
  return strip(run, self, a, true, true, out);
}
static accel_status m_lstrip(accel__jinja *run, const value *self, args_t *a, value *out) {
  return strip(run, self, a, true, false, out);
}
static accel_status m_rstrip(accel__jinja *run, const value *self, args_t *a, value *out) {
  return strip(run, self, a, false, true, out);
}

static accel_status m_removeprefix(accel__jinja *run, const value *self, args_t *a, value *out) {
  value fix;
  ACCEL_TRY(as_string(run, a, 0, &fix));
  *out = *self;
  if (fix.n <= self->n && memcmp(self->text, fix.text, fix.n) == 0)
    *out = text_value(self->text + fix.n, self->n - fix.n);
  return ACCEL_OK;
}
static accel_status m_removesuffix(accel__jinja *run, const value *self, args_t *a, value *out) {
  value fix;
  ACCEL_TRY(as_string(run, a, 0, &fix));
  *out = *self;
  if (fix.n && fix.n <= self->n && memcmp(self->text + self->n - fix.n, fix.text, fix.n) == 0)
    out->n -= fix.n;
  return ACCEL_OK;
}

/* ---- searching ---- */

static const char *find_first(const char *text, size_t n, const value *what) {
  return what->n == 0 ? text : n ? memmem(text, n, what->text, what->n) : NULL;
}
static const char *find_last(const char *text, size_t n, const value *what) {
  if (what->n == 0) return text + n;
  for (size_t i = n; i >= what->n; --i) {
    if (memcmp(text + i - what->n, what->text, what->n) == 0) return text + i - what->n;
  }
  return NULL;
}

/* self[start:end] as Python's methods read these two; *offset is start in code points. */
static accel_status part(accel__jinja *run, const value *self, args_t *a, int at, value *out,
                         int64_t *offset) {
  int64_t n = (int64_t)accel__jinja_length(self->text, self->n), start, end;
  ACCEL_TRY(as_int(run, a, at, 0, &start));
  ACCEL_TRY(as_int(run, a, at + 1, n, &end));
  if (start < 0) start = start + n < 0 ? 0 : start + n;
  if (end < 0) end = end + n < 0 ? 0 : end + n;
  *offset = start;
  *out = (value){.kind = ACCEL__J_UNDEFINED};
  if (start > n) return ACCEL_OK; /* nothing is found there, not even "" */
  value bounds[3] = {accel__jinja_int(start), accel__jinja_int(end), accel__jinja_none()};
  return accel__jinja_slice(run, self, bounds, out);
}

static accel_status search(accel__jinja *run, const value *self, args_t *a, bool last, bool must,
                           value *out) {
  value what, in;
  int64_t offset;
  const char *found = NULL;
  ACCEL_TRY(as_string(run, a, 0, &what));
  ACCEL_TRY(part(run, self, a, 1, &in, &offset));
  if (in.kind == ACCEL__J_STRING)
    found = last ? find_last(in.text, in.n, &what) : find_first(in.text, in.n, &what);
  if (!found && must) return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "substring not found");
  *out = accel__jinja_int(
      found ? offset + (int64_t)accel__jinja_length(in.text, (size_t)(found - in.text)) : -1);
  return accel__jinja_charge(run, (size_t)self->n * (last ? what.n + 1 : 1));
}
static accel_status m_find(accel__jinja *run, const value *self, args_t *a, value *out) {
  return search(run, self, a, false, false, out);
}
static accel_status m_rfind(accel__jinja *run, const value *self, args_t *a, value *out) {
  return search(run, self, a, true, false, out);
}
static accel_status m_index(accel__jinja *run, const value *self, args_t *a, value *out) {
  return search(run, self, a, false, true, out);
}
static accel_status m_rindex(accel__jinja *run, const value *self, args_t *a, value *out) {
  return search(run, self, a, true, true, out);
}

static accel_status m_count(accel__jinja *run, const value *self, args_t *a, value *out) {
  value what, in;
  int64_t offset, n = 0;
  ACCEL_TRY(as_string(run, a, 0, &what));
  ACCEL_TRY(part(run, self, a, 1, &in, &offset));
  if (in.kind != ACCEL__J_STRING) return *out = accel__jinja_int(0), ACCEL_OK;
  const char *at = in.text, *end = in.text + in.n;
  if (what.n == 0) n = (int64_t)accel__jinja_length(in.text, in.n) + 1;
  while (what.n && (at = find_first(at, (size_t)(end - at), &what)) != NULL) {
    n++;
    at += what.n;
  }
  *out = accel__jinja_int(n);
  return accel__jinja_charge(run, self->n);
}

static accel_status affix(accel__jinja *run, const value *self, args_t *a, bool end, value *out) {
  value in;
  int64_t offset;
  ACCEL_TRY(part(run, self, a, 1, &in, &offset));
  const value *options = &a->at[0];
  size_t n = 1;
  if (!a->given[0]) return wants(run, "a string");
  if (options->kind == ACCEL__J_TUPLE) {
    n = options->list->n;
    options = options->list->at;
  }
  *out = accel__jinja_bool(false);
  for (size_t i = 0; i < n; ++i) {
    if (options[i].kind != ACCEL__J_STRING) return wants(run, "a string or a tuple of strings");
    if (in.kind != ACCEL__J_STRING || options[i].n > in.n) continue;
    const char *at = end ? in.text + in.n - options[i].n : in.text;
    if (memcmp(at, options[i].text, options[i].n) == 0) out->truth = true;
  }
  return ACCEL_OK;
}
static accel_status m_startswith(accel__jinja *run, const value *self, args_t *a, value *out) {
  return affix(run, self, a, false, out);
}
static accel_status m_endswith(accel__jinja *run, const value *self, args_t *a, value *out) {
  return affix(run, self, a, true, out);
}

/* ---- replacing, splitting, joining ---- */

accel_status accel__jinja_replace(accel__jinja *run, const value *self, const value *from,
                                  const value *to, int64_t most, value *out) {
  accel__buffer b = {0};
  const char *at = self->text, *end = at + self->n;
  accel__buffer_text(&b, "");
  for (; most != 0; --most) {
    const char *found = find_first(at, (size_t)(end - at), from);
    if (!found) break;
    accel__buffer_bytes(&b, at, (size_t)(found - at));
    accel__buffer_bytes(&b, to->text, to->n);
    at = found + from->n;
    if (b.n > ACCEL__JINJA_OUTPUT) break; /* refused below */
    if (from->n) continue;
    if (at == end) { /* the empty text is found before every character and at the end */
      break;
    }
    uint32_t c;
    size_t n = accel__utf8_decode(at, (size_t)(end - at), &c);
    accel__buffer_bytes(&b, at, n);
    at += n;
  }
  accel__buffer_bytes(&b, at, (size_t)(end - at));
  accel_status status = accel__jinja_charge(run, (size_t)self->n + b.n);
  if (status == ACCEL_OK) return accel__jinja_take(run, &b, out);
  accel__buffer_free(&b);
  return status;
}

static accel_status m_replace(accel__jinja *run, const value *self, args_t *a, value *out) {
  value from, to;
  int64_t most;
  ACCEL_TRY(as_string(run, a, 0, &from));
  ACCEL_TRY(as_string(run, a, 1, &to));
  ACCEL_TRY(as_int(run, a, 2, -1, &most));
  return accel__jinja_replace(run, self, &from, &to, most, out);
}

static accel_status split_space(accel__jinja *run, const value *self, int64_t most, bool last,
                                accel__jinja_list *out) {
  value left = *self;
  accel__jinja_strip(&left, NULL, true, true);
  while (left.n > 0) {
    size_t from = last ? left.n : 0, end;
    if (most-- == 0) return accel__jinja_push(run, out, left);
    if (last) { /* the last word */
      size_t n;
      for (uint32_t c; from > 0; from -= n) {
        n = last_char(left.text, from, &c);
        if (is_space(c)) break;
      }
      ACCEL_TRY(accel__jinja_push(run, out, text_value(left.text + from, left.n - from)));
      left.n = (uint32_t)from;
    } else {
      size_t n;
      for (end = 0; end < left.n; end += n) {
        uint32_t c;
        n = accel__utf8_decode(left.text + end, left.n - end, &c);
        if (is_space(c)) break;
      }
      ACCEL_TRY(accel__jinja_push(run, out, text_value(left.text, end)));
      left = text_value(left.text + end, left.n - end);
    }
    accel__jinja_strip(&left, NULL, !last, last);
  }
  return ACCEL_OK;
}

static accel_status split_at(accel__jinja *run, const value *self, const value *by, int64_t most,
                             bool last, accel__jinja_list *out) {
  const char *from = self->text, *end = from + self->n, *found;
  if (by->n == 0) return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "empty separator");
  while (most-- != 0 && (found = last ? find_last(from, (size_t)(end - from), by)
                                      : find_first(from, (size_t)(end - from), by))) {
    ACCEL_TRY(accel__jinja_push(run, out,
                                last ? text_value(found + by->n, (size_t)(end - found) - by->n)
                                     : text_value(from, (size_t)(found - from))));
    if (last)
      end = found;
    else
      from = found + by->n;
  }
  return accel__jinja_push(run, out, text_value(from, (size_t)(end - from)));
}

static accel_status split(accel__jinja *run, const value *self, args_t *a, bool last, value *out) {
  int64_t most;
  bool by = a->given[0] && a->at[0].kind != ACCEL__J_NONE;
  if (by && a->at[0].kind != ACCEL__J_STRING) return wants(run, "a string");
  ACCEL_TRY(as_int(run, a, 1, -1, &most));
  ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_LIST, 4, out));
  ACCEL_TRY(accel__jinja_charge(run, (size_t)self->n * (last ? 4 : 1)));
  ACCEL_TRY(by ? split_at(run, self, &a->at[0], most, last, out->list)
               : split_space(run, self, most, last, out->list));
  accel__jinja_list *l = out->list;
  for (size_t i = 0; last && i < l->n / 2; ++i) { /* was cut from the end */
    value kept = l->at[i];
    l->at[i] = l->at[l->n - 1 - i];
    l->at[l->n - 1 - i] = kept;
  }
  return ACCEL_OK;
}
static accel_status m_split(accel__jinja *run, const value *self, args_t *a, value *out) {
  return split(run, self, a, false, out);
}
static accel_status m_rsplit(accel__jinja *run, const value *self, args_t *a, value *out) {
  return split(run, self, a, true, out);
}

static accel_status partition(accel__jinja *run, const value *self, args_t *a, bool last,
                              value *out) {
  value by, empty = text_value("", 0);
  ACCEL_TRY(as_string(run, a, 0, &by));
  if (by.n == 0) return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "empty separator");
  ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_TUPLE, 3, out));
  const char *found =
      last ? find_last(self->text, self->n, &by) : find_first(self->text, self->n, &by);
  size_t before = found ? (size_t)(found - self->text) : 0;
  value whole[3] = {*self, empty, empty}, rest[3] = {empty, empty, *self};
  value parts[3] = {text_value(self->text, before), by,
                    text_value(self->text + before + by.n, found ? self->n - before - by.n : 0)};
  for (int i = 0; i < 3; ++i)
    ACCEL_TRY(accel__jinja_push(run, out->list, found ? parts[i] : last ? rest[i] : whole[i]));
  return accel__jinja_charge(run, (size_t)self->n * (last ? by.n : 1));
}
static accel_status m_partition(accel__jinja *run, const value *self, args_t *a, value *out) {
  return partition(run, self, a, false, out);
}
static accel_status m_rpartition(accel__jinja *run, const value *self, args_t *a, value *out) {
  return partition(run, self, a, true, out);
}

static bool ends_line(uint32_t c) {
  return (c >= 0xA && c <= 0xD) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

accel_status accel__jinja_splitlines(accel__jinja *run, const value *self, bool keep, value *out) {
  ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_LIST, 4, out));
  ACCEL_TRY(accel__jinja_charge(run, self->n));
  size_t from = 0;
  for (size_t i = 0; i < self->n;) {
    uint32_t c;
    size_t end = i;
    i += accel__utf8_decode(self->text + i, self->n - i, &c);
    if (!ends_line(c)) continue;
    if (c == '\r' && i < self->n && self->text[i] == '\n') i++;
    ACCEL_TRY(
        accel__jinja_push(run, out->list, text_value(self->text + from, (keep ? i : end) - from)));
    from = i;
  }
  return from < self->n
             ? accel__jinja_push(run, out->list, text_value(self->text + from, self->n - from))
             : ACCEL_OK;
}

static accel_status m_splitlines(accel__jinja *run, const value *self, args_t *a, value *out) {
  return accel__jinja_splitlines(run, self, a->given[0] && accel__jinja_truth(&a->at[0]), out);
}

static accel_status m_join(accel__jinja *run, const value *self, args_t *a, value *out) {
  const accel__jinja_list *items;
  accel__buffer b = {0};
  if (!a->given[0]) return wants(run, "an iterable");
  ACCEL_TRY(accel__jinja_items(run, &a->at[0], &items));
  accel__buffer_text(&b, "");
  for (size_t i = 0; i < items->n; ++i) {
    if (items->at[i].kind != ACCEL__J_STRING) {
      accel__buffer_free(&b);
      return accel__jinja_fail(run, ACCEL_ERROR_FORMAT,
                               "sequence item %zu: expected str instance, %s found", i,
                               accel__jinja_type(&items->at[i]));
    }
    if (i) accel__buffer_bytes(&b, self->text, self->n);
    accel__buffer_bytes(&b, items->at[i].text, items->at[i].n);
    if (b.n > ACCEL__JINJA_OUTPUT) break; /* refused below */
  }
  return accel__jinja_take(run, &b, out);
}

/* ---- widths ---- */

accel_status accel__jinja_pad(accel__jinja *run, const value *self, int64_t width, char align,
                              const value *fill, value *out) {
  int64_t n = (int64_t)accel__jinja_length(self->text, self->n), more = width > n ? width - n : 0;
  /* Python's center puts the odd one left of a text of odd width */
  int64_t left = align == '>' ? more : align == '^' ? more / 2 + (more & width & 1) : 0;
  if (more > ACCEL__JINJA_OUTPUT / 4)
    return accel__jinja_string(run, NULL, (size_t)ACCEL__JINJA_OUTPUT + 1, out); /* refuses */
  accel__buffer b = {0};
  accel__buffer_text(&b, "");
  for (int64_t i = 0; i < left; ++i) accel__buffer_bytes(&b, fill->text, fill->n);
  accel__buffer_bytes(&b, self->text, self->n);
  for (int64_t i = left; i < more; ++i) accel__buffer_bytes(&b, fill->text, fill->n);
  return accel__jinja_take(run, &b, out);
}

static accel_status aligned(accel__jinja *run, const value *self, args_t *a, char align,
                            value *out) {
  int64_t width;
  value fill = text_value(" ", 1);
  ACCEL_TRY(as_int(run, a, 0, 0, &width));
  if (a->given[1]) ACCEL_TRY(as_string(run, a, 1, &fill));
  if (accel__jinja_length(fill.text, fill.n) != 1) return wants(run, "a fill of one character");
  return accel__jinja_pad(run, self, width, align, &fill, out);
}
static accel_status m_ljust(accel__jinja *run, const value *self, args_t *a, value *out) {
  return aligned(run, self, a, '<', out);
}
static accel_status m_rjust(accel__jinja *run, const value *self, args_t *a, value *out) {
  return aligned(run, self, a, '>', out);
}
static accel_status m_center(accel__jinja *run, const value *self, args_t *a, value *out) {
  return aligned(run, self, a, '^', out);
}

static accel_status m_zfill(accel__jinja *run, const value *self, args_t *a, value *out) {
  int64_t width;
  value zero = text_value("0", 1), digits = *self, padded;
  ACCEL_TRY(as_int(run, a, 0, 0, &width));
  bool sign = self->n && (self->text[0] == '-' || self->text[0] == '+');
  if (sign) digits = text_value(self->text + 1, self->n - 1);
  ACCEL_TRY(accel__jinja_pad(run, &digits, width - sign, '>', &zero, &padded));
  value mark = text_value(self->text, sign);
  return accel__jinja_binary(run, '+', &mark, &padded, out);
}

/* ---- questions ---- */

/* Is every code point (and is there one) of a kind? */
static accel_status all_are(const value *self, bool (*is)(uint32_t), value *out) {
  *out = accel__jinja_bool(self->n > 0);
  for (size_t i = 0; i < self->n && out->truth;) {
    uint32_t c;
    i += accel__utf8_decode(self->text + i, self->n - i, &c);
    out->truth = is(c);
  }
  return ACCEL_OK;
}
static unsigned category(uint32_t c) { return accel__unicode(c)->category; }
static bool is_alpha(uint32_t c) { return category(c) <= ACCEL__CATEGORY_LO; }
static bool is_decimal(uint32_t c) { return category(c) == ACCEL__CATEGORY_ND; }
static bool is_numeric(uint32_t c) { return accel__unicode_is(c, ACCEL__UNI_NUMERIC); }
static bool is_alnum(uint32_t c) { return is_alpha(c) || is_numeric(c); }
static bool is_ascii(uint32_t c) { return c < 0x80; }

static accel_status m_isalpha(accel__jinja *run, const value *self, args_t *a, value *out) {
  return (void)run, (void)a, all_are(self, is_alpha, out);
}
static accel_status m_isdigit(accel__jinja *run, const value *self, args_t *a, value *out) {
  return (void)run, (void)a, all_are(self, is_decimal, out);
}
static accel_status m_isnumeric(accel__jinja *run, const value *self, args_t *a, value *out) {
  return (void)run, (void)a, all_are(self, is_numeric, out);
}
static accel_status m_isalnum(accel__jinja *run, const value *self, args_t *a, value *out) {
  return (void)run, (void)a, all_are(self, is_alnum, out);
}
static accel_status m_isspace(accel__jinja *run, const value *self, args_t *a, value *out) {
  return (void)run, (void)a, all_are(self, is_space, out);
}
static accel_status m_isascii(accel__jinja *run, const value *self, args_t *a, value *out) {
  (void)run, (void)a;
  ACCEL_TRY(all_are(self, is_ascii, out));
  out->truth = out->truth || self->n == 0;
  return ACCEL_OK;
}

bool accel__jinja_is_case(const value *v, bool upper) {
  bool cased = false;
  for (size_t i = 0; i < v->n;) {
    uint32_t c;
    i += accel__utf8_decode(v->text + i, v->n - i, &c);
    unsigned k = category(c);
    if (k == ACCEL__CATEGORY_LT || k == (upper ? ACCEL__CATEGORY_LL : ACCEL__CATEGORY_LU))
      return false;
    cased = cased || is_cased(c);
  }
  return cased;
}
static accel_status m_isupper(accel__jinja *run, const value *self, args_t *a, value *out) {
  (void)run, (void)a;
  return *out = accel__jinja_bool(accel__jinja_is_case(self, true)), ACCEL_OK;
}
static accel_status m_islower(accel__jinja *run, const value *self, args_t *a, value *out) {
  (void)run, (void)a;
  return *out = accel__jinja_bool(accel__jinja_is_case(self, false)), ACCEL_OK;
}

static accel_status m_format(accel__jinja *run, const value *self, args_t *a, value *out) {
  return accel__jinja_format_method.fn(run, self, a, out);
}

const accel__jinja_builtin accel__jinja_string_methods[] = {
    {"capitalize", "", m_capitalize},
    {"casefold", "", m_lower},
    {"center", "width fillchar", m_center},
    {"count", "sub start end", m_count},
    {"endswith", "suffix start end", m_endswith},
    {"find", "sub start end", m_find},
    {"format", "* **", m_format},
    {"index", "sub start end", m_index},
    {"isalnum", "", m_isalnum},
    {"isalpha", "", m_isalpha},
    {"isascii", "", m_isascii},
    {"isdecimal", "", m_isdigit},
    {"isdigit", "", m_isdigit},
    {"islower", "", m_islower},
    {"isnumeric", "", m_isnumeric},
    {"isspace", "", m_isspace},
    {"isupper", "", m_isupper},
    {"join", "iterable", m_join},
    {"ljust", "width fillchar", m_ljust},
    {"lower", "", m_lower},
    {"lstrip", "chars", m_lstrip},
    {"partition", "sep", m_partition},
    {"removeprefix", "prefix", m_removeprefix},
    {"removesuffix", "suffix", m_removesuffix},
    {"replace", "old new count", m_replace},
    {"rfind", "sub start end", m_rfind},
    {"rindex", "sub start end", m_rindex},
    {"rjust", "width fillchar", m_rjust},
    {"rpartition", "sep", m_rpartition},
    {"rsplit", "sep maxsplit", m_rsplit},
    {"rstrip", "chars", m_rstrip},
    {"split", "sep maxsplit", m_split},
    {"splitlines", "keepends", m_splitlines},
    {"startswith", "prefix start end", m_startswith},
    {"strip", "chars", m_strip},
    {"swapcase", "", m_swapcase},
    {"title", "", m_title},
    {"upper", "", m_upper},
    {"zfill", "width", m_zfill},
    {NULL, NULL, NULL},
};

/* ---- dict ---- */

static accel_status view(accel__jinja *run, const accel__jinja_dict *dict, const char *name,
                         value *out) {
  bool keys = strcmp(name, "dict_values") != 0, values = strcmp(name, "dict_keys") != 0;
  ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_VIEW, dict->n, out));
  out->list->name = name;
  for (size_t i = 0; i < dict->n; ++i) {
    value item = keys ? dict->key[i] : dict->value[i];
    if (keys && values) {
      ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_TUPLE, 2, &item));
      ACCEL_TRY(accel__jinja_push(run, item.list, dict->key[i]));
      ACCEL_TRY(accel__jinja_push(run, item.list, dict->value[i]));
    }
    ACCEL_TRY(accel__jinja_push(run, out->list, item));
  }
  return ACCEL_OK;
}

accel_status accel__jinja_dict_items(accel__jinja *run, const accel__jinja_dict *dict, value *out) {
  return view(run, dict, "dict_items", out);
}
static accel_status d_items(accel__jinja *run, const value *self, args_t *a, value *out) {
  return (void)a, view(run, self->dict, "dict_items", out);
}
static accel_status d_keys(accel__jinja *run, const value *self, args_t *a, value *out) {
  return (void)a, view(run, self->dict, "dict_keys", out);
}
static accel_status d_values(accel__jinja *run, const value *self, args_t *a, value *out) {
  return (void)a, view(run, self->dict, "dict_values", out);
}
static accel_status d_copy(accel__jinja *run, const value *self, args_t *a, value *out) {
  (void)run, (void)a;
  return *out = *self, ACCEL_OK; /* never changed */
}
static accel_status d_get(accel__jinja *run, const value *self, args_t *a, value *out) {
  const value *found;
  if (!a->given[0])
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "get() expects at least 1 argument");
  ACCEL_TRY(accel__jinja_dict_find(run, self->dict, &a->at[0], &found));
  *out = found ? *found : a->given[1] ? a->at[1] : accel__jinja_none();
  return ACCEL_OK;
}

/* Those without a function would change the dict: the sandbox leaves them undefined. */
const accel__jinja_builtin accel__jinja_dict_methods[] = {
    {"items", "", d_items},
    {"keys", "", d_keys},
    {"values", "", d_values},
    {"copy", "", d_copy},
    {"get", "key default", d_get},
    {"clear", "", NULL},
    {"pop", "", NULL},
    {"popitem", "", NULL},
    {"setdefault", "", NULL},
    {"update", "", NULL},
    {NULL, NULL, NULL},
};

/* ---- list, tuple ---- */

static accel_status l_count(accel__jinja *run, const value *self, args_t *a, value *out) {
  int64_t n = 0;
  for (size_t i = 0; i < self->list->n && a->given[0]; ++i) {
    bool same;
    ACCEL_TRY(accel__jinja_equal(run, &self->list->at[i], &a->at[0], &same));
    n += same;
  }
  *out = accel__jinja_int(n);
  return ACCEL_OK;
}
static accel_status l_index(accel__jinja *run, const value *self, args_t *a, value *out) {
  for (size_t i = 0; i < self->list->n && a->given[0]; ++i) {
    bool same;
    ACCEL_TRY(accel__jinja_equal(run, &self->list->at[i], &a->at[0], &same));
    if (same) return *out = accel__jinja_int((int64_t)i), ACCEL_OK;
  }
  return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "the value is not in the list");
}
static accel_status l_copy(accel__jinja *run, const value *self, args_t *a, value *out) {
  (void)run, (void)a;
  return *out = *self, ACCEL_OK;
}
const accel__jinja_builtin accel__jinja_list_methods[] = {
    {"count", "value", l_count}, {"index", "value", l_index}, {"copy", "", l_copy},
    {"append", "", NULL},        {"clear", "", NULL},         {"extend", "", NULL},
    {"insert", "", NULL},        {"pop", "", NULL},           {"remove", "", NULL},
    {"reverse", "", NULL},       {"sort", "", NULL},          {NULL, NULL, NULL},
};

/* ---- loop, cycler ---- */

static accel_status loop_cycle(accel__jinja *run, const value *self, args_t *a, value *out) {
  if (a->rest_n == 0)
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "no items for cycling given");
  *out = a->rest[self->loop->index % a->rest_n];
  return ACCEL_OK;
}
static accel_status loop_changed(accel__jinja *run, const value *self, args_t *a, value *out) {
  value now;
  bool same = false;
  ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_TUPLE, a->rest_n, &now));
  for (size_t i = 0; i < a->rest_n; ++i) ACCEL_TRY(accel__jinja_push(run, now.list, a->rest[i]));
  ACCEL_TRY(accel__jinja_equal(run, &self->loop->changed, &now, &same));
  self->loop->changed = now;
  *out = accel__jinja_bool(!same);
  return ACCEL_OK;
}
const accel__jinja_builtin accel__jinja_loop_methods[] = {
    {"cycle", "*", loop_cycle}, {"changed", "*", loop_changed}, {NULL, NULL, NULL}};

static accel_status cycler_next(accel__jinja *run, const value *self, args_t *a, value *out) {
  (void)run, (void)a;
  *out = self->list->at[self->list->next++ % self->list->n];
  return ACCEL_OK;
}
static accel_status cycler_reset(accel__jinja *run, const value *self, args_t *a, value *out) {
  (void)run, (void)a;
  self->list->next = 0;
  return *out = accel__jinja_none(), ACCEL_OK;
}
const accel__jinja_builtin accel__jinja_cycler_methods[] = {
    {"next", "", cycler_next}, {"reset", "", cycler_reset}, {NULL, NULL, NULL}};
