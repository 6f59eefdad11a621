/* core_text_test.c - arena, buffer, map, hash, UTF-8 and string helpers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/config.h"
#include "core/keyed_hash.h"
#include "core/size.h"
#include "core/text.h"

/* ---- arena ---- */

static void test_arena(void **state) {
  (void)state;
  accel__arena a = {0};
  unsigned char *seen[2000];
  /* sizes from 0 to 100 KB; zeroed, aligned, none overlaps another */
  for (size_t i = 0; i < 2000; i++) {
    size_t n = i % 97 == 0 ? 100000 : i % 61;
    seen[i] = accel__arena_alloc(&a, n);
    assert_non_null(seen[i]);
    assert_int_equal((uintptr_t)seen[i] % 16, 0);
    for (size_t k = 0; k < n; k++) assert_int_equal(seen[i][k], 0);
    memset(seen[i], (int)(i % 251) + 1, n);
  }
  for (size_t i = 0; i < 2000; i++) {
    size_t n = i % 97 == 0 ? 100000 : i % 61;
    for (size_t k = 0; k < n; k++) assert_int_equal(seen[i][k], (i % 251) + 1);
  }
  assert_in_range(a.bytes, 21 * 100000, 4 << 20);
  accel__arena_free(&a);
  assert_int_equal(a.bytes, 0);
  assert_non_null(accel__arena_alloc(&a, 8)); /* usable again */
  accel__arena_free(&a);
  accel__arena_free(&a);
}

static void test_arena_strings(void **state) {
  (void)state;
  accel__arena a = {0};
  assert_memory_equal(accel__arena_copy(&a, "ab\0cd", 5), "ab\0cd", 6);
  assert_string_equal(accel__arena_copy(&a, NULL, 0), "");
  assert_string_equal(accel__arena_string(&a, "text"), "text");
  char long_text[9000];
  memset(long_text, 'y', sizeof long_text);
  long_text[8999] = 0;
  assert_string_equal(accel__arena_printf(&a, "%s", long_text), long_text);
  assert_string_equal(accel__arena_printf(&a, "%d-%s", 5, "x"), "5-x");
  int *numbers = accel__arena_array(&a, 10, sizeof *numbers);
  assert_int_equal(numbers[9], 0);
  assert_null(accel__arena_array(&a, SIZE_MAX / 2, 3));
  assert_string_equal(accel__message(),
                      "out of memory: the system refused 18446744073709551615 bytes");
  assert_null(accel__arena_alloc(&a, SIZE_MAX - 3));
  assert_null(accel__arena_copy(&a, "", SIZE_MAX));
  accel__arena_free(&a);
}

static void test_arena_refused(void **state) {
  (void)state;
  accel__arena a = {0};
  accel__fault_arm("allocation:2");
  assert_non_null(accel__arena_alloc(&a, 8));
  accel__clear_error();
  assert_null(accel__arena_alloc(&a, 24));
  assert_string_equal(accel__message(), "out of memory: the system refused 24 bytes");
  assert_non_null(accel__arena_alloc(&a, 8));
  accel__fault_arm("allocation");
  assert_null(accel__arena_string(&a, "x"));
  assert_null(accel__arena_printf(&a, "x"));
  assert_null(accel__arena_array(&a, 1, 1));
  accel__fault_arm(NULL);
  accel__arena_free(&a);
}

/* ---- buffer ---- */

static void test_buffer(void **state) {
  (void)state;
  accel__buffer b = {0};
  accel__buffer_bytes(&b, NULL, 0);
  assert_string_equal(b.data, "");
  for (int i = 0; i < 1000; i++) accel__buffer_printf(&b, "%d,", i);
  accel__buffer_text(&b, "end");
  accel__buffer_bytes(&b, "\0z", 2);
  assert_int_equal(b.n, 10 * 2 + 90 * 3 + 900 * 4 + 5);
  assert_memory_equal(b.data, "0,1,2,", 6);
  assert_memory_equal(b.data + b.n - 9, "999,end\0z", 10);
  assert_int_equal(accel__buffer_status(&b), ACCEL_OK);
  accel__buffer_free(&b);
  assert_null(b.data);
  accel__buffer_free(&b);
}

static void test_buffer_refused(void **state) {
  (void)state;
  accel__buffer b = {0};
  accel__fault_arm("allocation:2");
  accel__buffer_text(&b, "kept");
  for (int i = 0; i < 100; i++) accel__buffer_printf(&b, "%d", i);
  accel__fault_arm(NULL);
  assert_true(b.failed);
  size_t n = b.n;
  accel__buffer_text(&b, "more"); /* stays failed */
  accel__buffer_json_string(&b, "more", 4);
  assert_int_equal(b.n, n);
  assert_int_equal(accel__buffer_status(&b), ACCEL_ERROR_OUT_OF_MEMORY);
  accel__buffer_free(&b);
  assert_false(b.failed);
  accel__buffer_bytes(&b, "x", SIZE_MAX - 1);
  assert_true(b.failed);
  accel__buffer_free(&b);
}

static void test_json_string(void **state) {
  (void)state;
  static const struct {
    const char *in;
    size_t n;
    const char *out;
  } cases[] = {{"", 0, "\"\""},
               {"plain", 5, "\"plain\""},
               {"a\"b\\c/", 6, "\"a\\\"b\\\\c/\""},
               {"\n\t\r\b\f\x01\x1f\x7f", 8, "\"\\n\\t\\r\\b\\f\\u0001\\u001f\x7f\""},
               {"a\0b", 3, "\"a\\u0000b\""},
               {"\xC3\xA9\xF0\x9F\x98\x80z", 7, "\"\xC3\xA9\xF0\x9F\x98\x80z\""},
               {"\xFF", 1, "\"\xEF\xBF\xBD\""},
               {"x\xC3", 2, "\"x\xEF\xBF\xBD\""},
               {"\xED\xA0\x80y", 4, "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDy\""},
               {"\xEF\xBF\xBD", 3, "\"\xEF\xBF\xBD\""}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    accel__buffer b = {0};
    accel__buffer_json_string(&b, cases[i].in, cases[i].n);
    assert_string_equal(b.data, cases[i].out);
    accel__buffer_free(&b);
  }
}

/* ---- map ---- */

static void test_map(void **state) {
  (void)state;
  enum { N = 20000 };
  static char key[N][16];
  accel__map m = {0};
  int64_t value = 77;
  assert_false(accel__map_get(&m, "x", 1, &value));
  for (int i = 0; i < N; i++) {
    int n = snprintf(key[i], sizeof key[i], "key %d", i);
    assert_int_equal(accel__map_set(&m, key[i], (size_t)n, i), ACCEL_OK);
  }
  assert_int_equal(m.n, N);
  for (int i = 0; i < N; i++) {
    char copy[16];
    size_t n = strlen(strcpy(copy, key[i]));
    assert_true(accel__map_get(&m, copy, n, &value));
    assert_int_equal(value, i);
    /* replaces, and keeps the first key's memory */
    assert_int_equal(accel__map_set(&m, copy, n, -i), ACCEL_OK);
  }
  assert_int_equal(m.n, N);
  for (int i = 0; i < N; i++) {
    assert_true(accel__map_get(&m, key[i], strlen(key[i]), &value));
    assert_int_equal(value, -i);
  }
  assert_false(accel__map_get(&m, "key 20000", 9, &value));
  assert_false(accel__map_get(&m, "key 1", 4, NULL));
  assert_true(accel__map_get(&m, "key 1", 5, NULL));
  accel__map_free(&m);
  assert_false(accel__map_get(&m, "key 1", 5, NULL));
}

static void test_map_keys_are_bytes(void **state) {
  (void)state;
  accel__map m = {0};
  int64_t value;
  assert_int_equal(accel__map_set(&m, "a\0b", 3, 1), ACCEL_OK);
  assert_int_equal(accel__map_set(&m, "a\0c", 3, 2), ACCEL_OK);
  assert_int_equal(accel__map_set(&m, NULL, 0, 3), ACCEL_OK);
  assert_int_equal(accel__map_set(&m, "", 0, 4), ACCEL_OK);
  assert_int_equal(m.n, 3);
  assert_true(accel__map_get(&m, "a\0b", 3, &value) && value == 1);
  assert_true(accel__map_get(&m, "a\0c", 3, &value) && value == 2);
  assert_true(accel__map_get(&m, "", 0, &value) && value == 4);
  accel__map_free(&m);
}

static void test_map_reserve(void **state) {
  (void)state;
  accel__map m = {0};
  assert_int_equal(accel__map_reserve(&m, 1000), ACCEL_OK);
  size_t capacity = m.capacity;
  char key[1000][8];
  for (int i = 0; i < 1000; i++) {
    int n = snprintf(key[i], sizeof key[i], "%d", i);
    assert_int_equal(accel__map_set(&m, key[i], (size_t)n, i), ACCEL_OK);
  }
  assert_int_equal(m.capacity, capacity); /* no growth after a reserve */
  assert_int_equal(accel__map_reserve(&m, SIZE_MAX), ACCEL_ERROR_OUT_OF_MEMORY);
  accel__fault_arm("allocation");
  assert_int_equal(accel__map_reserve(&m, 100000), ACCEL_ERROR_OUT_OF_MEMORY);
  accel__fault_arm(NULL);
  assert_true(accel__map_get(&m, "999", 3, NULL)); /* as it was */
  accel__map_free(&m);
}

static void test_hash(void **state) {
  (void)state;
  /* Pinned: cache keys on disk are made of it. */
  assert_int_equal(accel__hash("", 0, 0), UINT64_C(0x0CDCEE30A9091764));
  assert_int_equal(accel__hash("hello", 5, 0), UINT64_C(0xFE511748C53C1197));
  assert_int_equal(accel__hash("hello, world: 16", 16, 7), UINT64_C(0x3423669C11E5B14A));
  assert_int_not_equal(accel__hash("a", 1, 0), accel__hash("a\0", 2, 0));
  assert_int_not_equal(accel__hash("a", 1, 0), accel__hash("a", 1, 1));
  /* Flipping one bit of 1..40 bytes flips each bit of the hash about half the time. */
  unsigned char bytes[40] = {0};
  for (size_t n = 1; n <= 40; n++) {
    unsigned flips = 0, trials = 0;
    for (size_t bit = 0; bit < 8 * n; bit++, trials++) {
      uint64_t before = accel__hash(bytes, n, 0);
      bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
      uint64_t after = accel__hash(bytes, n, 0);
      assert_int_not_equal(before, after);
      flips += (unsigned)__builtin_popcountll(before ^ after);
    }
    assert_in_range(flips / trials, 24, 40);
  }
}

/* ---- UTF-8 ---- */

/* Against OpenSSL's SIPHASH with the key 00 01 .. 0f: bytes 00 01 .. of that number. */
static void test_siphash(void **state) {
  static const struct {
    size_t n;
    uint64_t want[2];
  } cases[] = {
      {0, {UINT64_C(0xe6a825ba047f81a3), UINT64_C(0x930255c71472f66d)}},
      {1, {UINT64_C(0x44af996bd8c187da), UINT64_C(0x45fc229b11597634)}},
      {8, {UINT64_C(0x61f55862baa9623b), UINT64_C(0xb49714f364e2830f)}},
      {63, {UINT64_C(0x4a83502f77d15051), UINT64_C(0x7cbd3f979a063e50)}},
  };
  const uint64_t key[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
  uint8_t bytes[64];
  uint64_t got[2], again[2];
  (void)state;
  for (int i = 0; i < 64; i++) bytes[i] = (uint8_t)i;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    accel__siphash(key, bytes, cases[i].n, got);
    assert_memory_equal(got, cases[i].want, sizeof got);
  }
  /* the process keeps its key */
  assert_true(accel__keyed_hash(bytes, 64, got));
  assert_true(accel__keyed_hash(bytes, 64, again));
  assert_memory_equal(got, again, sizeof got);
  assert_true(accel__keyed_hash(bytes, 63, again));
  assert_memory_not_equal(got, again, sizeof got);
}

static void test_utf8_round_trip(void **state) {
  (void)state;
  for (uint32_t c = 0; c <= 0x10FFFF; c++) {
    if (c >= 0xD800 && c < 0xE000) continue;
    char out[4];
    uint32_t back = 0xDEAD;
    size_t n = accel__utf8_encode(c, out);
    if (n != (c < 0x80 ? 1u : c < 0x800 ? 2u : c < 0x10000 ? 3u : 4u))
      fail_msg("length of U+%04X", c);
    if (accel__utf8_decode(out, n, &back) != n || back != c)
      fail_msg("U+%04X came back as U+%04X", c, back);
    for (size_t cut = 1; cut < n; cut++) { /* truncated: malformed, and where to cut is its start */
      if (accel__utf8_decode(out, cut, &back) != 1 || back != 0xFFFD) fail_msg("U+%04X cut", c);
      if (accel__utf8_cut(out, cut) != 0) fail_msg("U+%04X cut", c);
    }
    if (accel__utf8_cut(out, n) != n) fail_msg("U+%04X not cut", c);
  }
}

static void test_utf8_malformed(void **state) {
  (void)state;
  static const char *const bad[] = {"\x80",
                                    "\xBF",
                                    "\xC0\x80",
                                    "\xC1\xBF",
                                    "\xC3",
                                    "\xC3(",
                                    "\xE0\x80\x80",
                                    "\xE0\x9F\xBF",
                                    "\xED\xA0\x80",
                                    "\xED\xBF\xBF",
                                    "\xE2\x82",
                                    "\xE2(\x82",
                                    "\xF0\x80\x80\x80",
                                    "\xF0\x8F\xBF\xBF",
                                    "\xF4\x90\x80\x80",
                                    "\xF5\x80\x80\x80",
                                    "\xFE",
                                    "\xFF"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    uint32_t c = 0;
    assert_int_equal(accel__utf8_decode(bad[i], strlen(bad[i]), &c), 1);
    assert_int_equal(c, 0xFFFD);
    assert_false(accel__utf8_valid(bad[i], strlen(bad[i])));
  }
  assert_true(accel__utf8_valid("a\xC3\xA9\xEF\xBF\xBD\xF4\x8F\xBF\xBF", 10));
  assert_true(accel__utf8_valid("", 0));
  assert_false(accel__utf8_valid("a\xC3\xA9", 2));
  char out[4];
  assert_int_equal(accel__utf8_encode(0xD800, out), 3); /* no code point: U+FFFD */
  assert_memory_equal(out, "\xEF\xBF\xBD", 3);
  assert_int_equal(accel__utf8_encode(0x110000, out), 3);
  assert_int_equal(accel__utf8_cut("abc", 3), 3);
  assert_int_equal(accel__utf8_cut("abc\xE2\x82", 5), 3);
  assert_int_equal(accel__utf8_cut("\x80\x80\x80\x80\x80", 5), 5);
  assert_int_equal(accel__utf8_cut("", 0), 0);
}

/* ---- strings ---- */

static void test_strings(void **state) {
  (void)state;
  assert_true(accel__equal_ignoring_case("CPU", "cpu"));
  assert_true(accel__equal_ignoring_case("", ""));
  assert_false(accel__equal_ignoring_case("cpu", "cpu0"));
  assert_false(accel__equal_ignoring_case("[", "{"));
  assert_true(accel__starts_with("layer.1", "layer."));
  assert_true(accel__starts_with("x", ""));
  assert_false(accel__starts_with("lay", "layer"));
  assert_true(accel__ends_with("a.json", ".json"));
  assert_false(accel__ends_with("json", ".json"));
  assert_true(accel__ends_with("x", ""));
}

static void test_glob(void **state) {
  (void)state;
  static const struct {
    const char *pattern, *text;
    bool match;
  } cases[] = {{"", "", true},
               {"*", "", true},
               {"?", "", false},
               {"abc", "abc", true},
               {"abc", "abcd", false},
               {"a*", "abcd", true},
               {"*d", "abcd", true},
               {"a*c*e", "abcde", true},
               {"a*c*f", "abcde", false},
               {"?b?", "abc", true},
               {"*.weight", "a.b.weight", true},
               {"**x", "yyx", true},
               {"a*a", "a", false},
               {"*aab", "aaaaaaab", true},
               {"A", "a", false},
               {"org/*-small", "org/e5-small", true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (accel__glob(cases[i].pattern, cases[i].text) != cases[i].match)
      fail_msg("%s on %s", cases[i].pattern, cases[i].text);
  }
  char text[5001]; /* no exponential time */
  memset(text, 'a', 5000);
  text[5000] = 0;
  assert_false(accel__glob("*a*a*a*a*a*a*a*a*b", text));
}

static void test_nearest(void **state) {
  (void)state;
  static const char *const known[] = {"detect", "embed", "registry", "tokenize", "fp16", "fp32"};
  enum { N = 6 };
  assert_string_equal(accel__nearest("detct", known, N), "detect");
  assert_string_equal(accel__nearest("Registry", known, N), "registry");
  assert_string_equal(accel__nearest("tokenise", known, N), "tokenize");
  assert_string_equal(accel__nearest("fp23", known, N), "fp32");
  assert_null(accel__nearest("zebra crossing", known, N));
  assert_null(accel__nearest("x", known, N));
  assert_null(accel__nearest("", known, N));
  assert_null(accel__nearest("detect", known, 0));
  char long_name[200];
  memset(long_name, 'd', 199);
  long_name[199] = 0;
  assert_null(accel__nearest(long_name, known, N));
}

static void test_sizes(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint64_t bytes;
  } good[] = {{"0", 0},
              {"1536", 1536},
              {"1K", 1024},
              {"1.5M", 3u << 19},
              {"20G", UINT64_C(20) << 30},
              {"2 GiB", UINT64_C(2) << 30},
              {"3kb", 3072},
              {"1T", UINT64_C(1) << 40},
              {"7B", 7},
              {"0.25k", 256}};
  static const char *const bad[] = {"",    "-1",   "G",   "1X",          "1GG", "1 2",
                                    "nan", "0x10", "1e3", "9999999999T", ".5M", " 1"};
  uint64_t n;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    assert_true(accel__parse_bytes(good[i].text, &n));
    assert_int_equal(n, good[i].bytes);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_false(accel__parse_bytes(bad[i], &n));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_arena),
      cmocka_unit_test(test_arena_strings),
      cmocka_unit_test(test_arena_refused),
      cmocka_unit_test(test_buffer),
      cmocka_unit_test(test_buffer_refused),
      cmocka_unit_test(test_json_string),
      cmocka_unit_test(test_map),
      cmocka_unit_test(test_map_keys_are_bytes),
      cmocka_unit_test(test_map_reserve),
      cmocka_unit_test(test_hash),
      cmocka_unit_test(test_siphash),
      cmocka_unit_test(test_utf8_round_trip),
      cmocka_unit_test(test_utf8_malformed),
      cmocka_unit_test(test_strings),
      cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_glob),
      cmocka_unit_test(test_nearest),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
