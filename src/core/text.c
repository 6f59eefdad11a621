/* text.c - buffers, maps, UTF-8 and string helpers. */
#include "core/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"

/* ---- buffer ---- */

/* Room for n more bytes and a NUL. */
static bool grow(accel__buffer *b, size_t n) {
  if (b->failed) return false;
  if (n < b->capacity - b->n) return true;
  size_t capacity = b->capacity < 64 ? 64 : b->capacity;
  while (capacity - b->n <= n && capacity <= SIZE_MAX / 4) capacity *= 2;
  char *data =
      capacity - b->n <= n || accel__fault("allocation") ? NULL : realloc(b->data, capacity);
  if (!data) return b->failed = true, false;
  b->data = data;
  b->capacity = capacity;
  return true;
}

void accel__buffer_bytes(accel__buffer *b, const void *bytes, size_t n) {
  if (!grow(b, n)) return;
  if (n) memcpy(b->data + b->n, bytes, n);
  b->n += n;
  b->data[b->n] = 0;
}

void accel__buffer_text(accel__buffer *b, const char *text) {
  accel__buffer_bytes(b, text, strlen(text));
}

void accel__buffer_printf(accel__buffer *b, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (n < 0) b->failed = true;
  if (n < 0 || !grow(b, (size_t)n)) return;
  va_start(args, format);
  vsnprintf(b->data + b->n, (size_t)n + 1, format, args);
  va_end(args);
  b->n += (size_t)n;
}

/* The two-character escape of c, or 0. */
static char short_escape(unsigned char c) {
  switch (c) {
    case '"':
      return '"';
    case '\\':
      return '\\';
    case '\n':
      return 'n';
    case '\t':
      return 't';
    case '\r':
      return 'r';
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    default:
      return 0;
  }
}

void accel__buffer_json_string(accel__buffer *b, const char *text, size_t n) {
  accel__buffer_bytes(b, "\"", 1);
  for (size_t i = 0, plain = 0; i <= n; i++) { /* text[plain, i) needs no escape */
    unsigned char c = i < n ? (unsigned char)text[i] : 0;
    uint32_t code_point = c;
    size_t length = c < 0x80 ? 1 : accel__utf8_decode(text + i, n - i, &code_point);
    bool as_is = c >= 0x20 && c != '"' && c != '\\' && (c < 0x80 || length > 1);
    if (i < n && as_is) {
      i += length - 1;
      continue;
    }
    accel__buffer_bytes(b, text + plain, i - plain);
    plain = i + 1;
    if (i == n) break;
    if (short_escape(c))
      accel__buffer_bytes(b, (char[]){'\\', short_escape(c)}, 2);
    else if (c < 0x20)
      accel__buffer_printf(b, "\\u%04x", c);
    else
      accel__buffer_text(b, "\xEF\xBF\xBD");
  }
  accel__buffer_bytes(b, "\"", 1);
}

accel_status accel__buffer_status(const accel__buffer *b) {
  return b->failed ? accel__no_memory(b->capacity ? 2 * b->capacity : 64) : ACCEL_OK;
}

void accel__buffer_free(accel__buffer *b) {
  free(b->data);
  *b = (accel__buffer){0};
}

/* ---- map ---- */

typedef struct accel__map_slot {
  const char *key; /* NULL: free */
  size_t key_n;
  uint64_t hash;
  int64_t value;
} slot;

/* The slot that holds the key, or the free one where it belongs.  capacity is a power of two and
 * never full. */
static slot *find(const accel__map *m, const char *key, size_t key_n, uint64_t hash) {
  for (size_t i = hash & (m->capacity - 1);; i = (i + 1) & (m->capacity - 1)) {
    slot *s = &m->slot[i];
    if (!s->key || (s->hash == hash && s->key_n == key_n && !memcmp(s->key, key, key_n))) return s;
  }
}

accel_status accel__map_reserve(accel__map *m, size_t n) {
  size_t capacity = 16;
  /* at most two thirds full */
  while (capacity / 3 * 2 < n && capacity <= SIZE_MAX / sizeof(slot) / 4) capacity *= 2;
  if (capacity <= m->capacity) return ACCEL_OK;
  slot *slots =
      capacity / 3 * 2 < n || accel__fault("allocation") ? NULL : calloc(capacity, sizeof(slot));
  if (!slots) return accel__no_memory(capacity * sizeof(slot));
  accel__map old = *m;
  m->slot = slots;
  m->capacity = capacity;
  for (size_t i = 0; i < old.capacity; i++) {
    slot *s = &old.slot[i];
    if (s->key) *find(m, s->key, s->key_n, s->hash) = *s;
  }
  free(old.slot);
  return ACCEL_OK;
}

accel_status accel__map_set(accel__map *m, const char *key, size_t key_n, int64_t value) {
  if (m->n + 1 > m->capacity / 3 * 2) ACCEL_TRY(accel__map_reserve(m, 2 * m->n + 1));
  if (!key_n) key = "";
  uint64_t hash = accel__hash(key, key_n, 0);
  slot *s = find(m, key, key_n, hash);
  if (!s->key) m->n++;
  *s = (slot){s->key ? s->key : key, key_n, hash, value};
  return ACCEL_OK;
}

bool accel__map_get(const accel__map *m, const char *key, size_t key_n, int64_t *value) {
  if (!m->n) return false;
  const slot *s = find(m, key_n ? key : "", key_n, accel__hash(key, key_n, 0));
  if (s->key && value) *value = s->value;
  return s->key != NULL;
}

void accel__map_free(accel__map *m) {
  free(m->slot);
  *m = (accel__map){0};
}

/* Up to 8 bytes as a little-endian number. */
static uint64_t load(const unsigned char *p, size_t n) {
  uint64_t v = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  if (n == 8) return memcpy(&v, p, 8), v;
#endif
  for (size_t i = 0; i < n; i++) v |= (uint64_t)p[i] << 8 * i;
  return v;
}

static uint64_t mix(uint64_t h) { /* every bit of h reaches every bit of the result */
  h = (h ^ h >> 32) * UINT64_C(0x9E3779B97F4A7C15);
  h = (h ^ h >> 29) * UINT64_C(0xD6E8FEB86659FD93);
  return h ^ h >> 32;
}

uint64_t accel__hash(const void *bytes, size_t n, uint64_t seed) {
  const unsigned char *p = bytes;
  uint64_t h = seed ^ ((uint64_t)n + 1) * UINT64_C(0xA24BAED4963EE407);
  for (; n >= 8; p += 8, n -= 8) {
    h = (h ^ load(p, 8)) * UINT64_C(0x9FB21C651E98DF25);
    h ^= h >> 35;
  }
  return mix(h ^ load(p, n));
}

/* ---- UTF-8 ---- */

size_t accel__utf8_decode(const char *text, size_t n, uint32_t *code_point) {
  const unsigned char *p = (const unsigned char *)text;
  unsigned char c = p[0];
  if (c < 0x80) return *code_point = c, 1;
  *code_point = 0xFFFD;
  size_t length = c < 0xC2 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 0;
  if (!length || length > n) return 1;
  uint32_t value = c & (0x7Fu >> length);
  for (size_t i = 1; i < length; i++) {
    if ((p[i] & 0xC0) != 0x80) return 1;
    value = value << 6 | (p[i] & 0x3Fu);
  }
  bool overlong = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  if (overlong || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return 1;
  *code_point = value;
  return length;
}

size_t accel__utf8_encode(uint32_t c, char *out) {
  if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) c = 0xFFFD;
  if (c < 0x80) return out[0] = (char)c, 1;
  size_t length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (size_t i = length - 1; i; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3F));
  out[0] = (char)((0xF00u >> length & 0xF0) | c); /* 110xxxxx, 1110xxxx, 11110xxx */
  return length;
}

bool accel__utf8_valid(const char *text, size_t n) {
  for (size_t i = 0; i < n;) {
    uint32_t code_point;
    size_t length = accel__utf8_decode(text + i, n - i, &code_point);
    if (length == 1 && (unsigned char)text[i] >= 0x80) return false;
    i += length;
  }
  return true;
}

size_t accel__utf8_cut(const char *text, size_t n) {
  size_t start = n;
  while (start && n - start < 4) { /* back to the last byte that begins a code point */
    unsigned char c = (unsigned char)text[--start];
    if ((c & 0xC0) == 0x80) continue;
    size_t length = c < 0xC2 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 1;
    return start + length > n ? start : n;
  }
  return n; /* no UTF-8 anyway */
}

/* ---- strings ---- */

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

size_t accel__text_to_c(char *to, const char *from, size_t n) {
  char *at = to;
  for (size_t i = 0; i < n; i++) {
    if (!from[i]) *at++ = '\xC0';
    *at++ = from[i] ? from[i] : '\x80';
  }
  *at = 0;
  return (size_t)(at - to);
}

bool accel__equal_ignoring_case(const char *a, const char *b) {
  while (*a && lower(*a) == lower(*b)) a++, b++;
  return lower(*a) == lower(*b);
}

const char *accel__second_of(const char *const (*pairs)[2], size_t n, const char *key) {
  for (size_t i = 0; i < n; i++)
    if (!strcmp(pairs[i][0], key)) return pairs[i][1];
  return NULL;
}

bool accel__starts_with(const char *text, const char *prefix) {
  return !strncmp(text, prefix, strlen(prefix));
}

bool accel__ends_with(const char *text, const char *suffix) {
  size_t n = strlen(text), m = strlen(suffix);
  return m <= n && !memcmp(text + n - m, suffix, m);
}

bool accel__glob(const char *pattern, const char *text) {
  const char *star = NULL, *retry = NULL; /* the last '*' and the text it was first tried at */
  while (*text) {
    if (*pattern == '*')
      star = ++pattern, retry = text;
    else if (*pattern == '?' || *pattern == *text)
      pattern++, text++;
    else if (star)
      pattern = star, text = ++retry; /* let the star eat one more */
    else
      return false;
  }
  while (*pattern == '*') pattern++;
  return !*pattern;
}

enum { NEAREST_BYTES = 63 };

/* Edits (insert, delete, replace, swap neighbours) from a to b, both at most NEAREST_BYTES long,
 * letter case ignored. */
static size_t distance(const char *a, const char *b) {
  size_t rows[3][NEAREST_BYTES + 1], n = strlen(b), length = strlen(a);
  for (size_t j = 0; j <= n; j++) rows[0][j] = j;
  for (size_t i = 1; i <= length; i++) {
    size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
    row[0] = i;
    for (size_t j = 1; j <= n; j++) {
      char x = lower(a[i - 1]), y = lower(b[j - 1]);
      size_t least = above[j - 1] + (x != y);
      if (above[j] + 1 < least) least = above[j] + 1;
      if (row[j - 1] + 1 < least) least = row[j - 1] + 1;
      bool swapped = i > 1 && j > 1 && x == lower(b[j - 2]) && lower(a[i - 2]) == y;
      if (swapped && two_above[j - 2] + 1 < least) least = two_above[j - 2] + 1;
      row[j] = least;
    }
  }
  return rows[length % 3][n];
}

const char *accel__nearest(const char *name, const char *const *known, size_t n) {
  size_t length = strlen(name), best = length / 3 + 2; /* a third of the letters may be wrong */
  const char *found = NULL;
  if (length > NEAREST_BYTES) return NULL;
  for (size_t i = 0; i < n; i++) {
    if (strlen(known[i]) > NEAREST_BYTES) continue;
    size_t d = distance(name, known[i]);
    if (d < best && d < length) best = d, found = known[i];
  }
  return found;
}
