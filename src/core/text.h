/* text.h - byte buffers that grow, string maps, UTF-8 steps and small string helpers. */
#ifndef ACCEL_CORE_TEXT_H
#define ACCEL_CORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

/* A growing byte buffer, always NUL-terminated once it holds anything.  {0} is empty.  After a
 * refused allocation `failed` stays set and further appends do nothing, so a writer checks once at
 * the end. */
typedef struct accel__buffer {
  char *data;
  size_t n, capacity;
  bool failed;
} accel__buffer;
void accel__buffer_bytes(accel__buffer *b, const void *bytes, size_t n);
void accel__buffer_text(accel__buffer *b, const char *text);
void accel__buffer_printf(accel__buffer *b, const char *format, ...) ACCEL_PRINTF(2, 3);
/* quoted and escaped; bad UTF-8 becomes U+FFFD */
void accel__buffer_json_string(accel__buffer *b, const char *text, size_t n);
/* ACCEL_ERROR_OUT_OF_MEMORY when failed */
accel_status accel__buffer_status(const accel__buffer *b);
void accel__buffer_free(accel__buffer *b);

/* Byte strings to int64: open addressing, keys not copied (they must outlive the map).  {0} is
 * empty. */
typedef struct accel__map {
  struct accel__map_slot *slot;
  size_t n, capacity;
} accel__map;
accel_status accel__map_reserve(accel__map *m, size_t n);
/* replaces */
accel_status accel__map_set(accel__map *m, const char *key, size_t key_n, int64_t value);
bool accel__map_get(const accel__map *m, const char *key, size_t key_n, int64_t *value);
void accel__map_free(accel__map *m);
/* 64-bit, stable across machines and versions */
uint64_t accel__hash(const void *bytes, size_t n, uint64_t seed);

/* Decodes one code point at text[0..n); returns its length in bytes (>= 1).  Malformed bytes give
 * U+FFFD and length 1. */
size_t accel__utf8_decode(const char *text, size_t n, uint32_t *code_point);
/* Encodes into out[4]; returns the length. */
size_t accel__utf8_encode(uint32_t code_point, char *out);
bool accel__utf8_valid(const char *text, size_t n);
/* n, less the bytes of a last code point that is not all there: where to cut a text. */
size_t accel__utf8_cut(const char *text, size_t n);

/* from[n] as a C string in `to`, which has room for 2 n + 1 bytes: U+0000 becomes C0 80.  Returns its
 * length. */
size_t accel__text_to_c(char *to, const char *from, size_t n);

bool accel__equal_ignoring_case(const char *a, const char *b); /* ASCII */
bool accel__starts_with(const char *text, const char *prefix);
bool accel__ends_with(const char *text, const char *suffix);
bool accel__glob(const char *pattern, const char *text); /* '*' and '?' */
/* Of pairs[n] the second of the first one whose first is `key`; NULL: none has it. */
const char *accel__second_of(const char *const (*pairs)[2], size_t n, const char *key);
/* The name of `known` nearest to `name` by edit distance, or NULL when none is near: for "did you
 * mean". */
const char *accel__nearest(const char *name, const char *const *known, size_t n);

#endif
