/* cached.h - for unit tests of the cache: bytes from a seed, a directory of its own, damage. */
#ifndef ACCEL_TESTS_CACHED_H
#define ACCEL_TESTS_CACHED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>

#include "unit/temp.h"
#include "weights/cache.h"

static inline uint8_t byte_of(uint64_t seed, uint64_t i) {
  uint64_t z = (seed + i / 8) * UINT64_C(0x9E3779B97F4A7C15);
  z ^= z >> 29;
  return (uint8_t)(z >> i % 8 * 8);
}

static inline uint8_t *bytes_of(uint64_t seed, uint64_t n) {
  uint8_t *b = malloc(n + 1);
  for (uint64_t i = 0; b && i < n; i++) b[i] = byte_of(seed, i);
  return b;
}

static inline accel__cache fresh(const char *name) {
  return (accel__cache){.directory = strdup(temp_path(name)), .limit = UINT64_C(1) << 30};
}

/* The only entry's path; NULL when there is none. */
static inline const char *only_file(const accel__cache *c) {
  static char path[1024];
  accel__arena arena = {0};
  accel__cache_entry *e;
  uint32_t n;
  assert_int_equal(accel__cache_list(c, &arena, &e, &n), ACCEL_OK);
  if (n) snprintf(path, sizeof path, "%s/%s", c->directory, e[0].file);
  accel__arena_free(&arena);
  return n ? path : NULL;
}

static inline uint32_t count(const accel__cache *c) {
  accel__arena arena = {0};
  accel__cache_entry *e;
  uint32_t n;
  assert_int_equal(accel__cache_list(c, &arena, &e, &n), ACCEL_OK);
  accel__arena_free(&arena);
  return n;
}

static inline void flip(const char *path, off_t at) {
  uint8_t b;
  int fd = open(path, O_RDWR);
  assert_true(fd >= 0);
  assert_int_equal(pread(fd, &b, 1, at), 1);
  b ^= 0x10;
  assert_int_equal(pwrite(fd, &b, 1, at), 1);
  close(fd);
}

#endif
