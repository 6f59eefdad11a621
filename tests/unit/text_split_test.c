/* text_split_test.c - the splitters matched by hand find what their regular expressions find. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/text_internal.h"
#include "text/unicode.h"

static uint32_t next(uint64_t *state) { /* splitmix64 */
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (uint32_t)((z ^ (z >> 31)) >> 32);
}

static uint32_t some_char(uint64_t *state) {
  static const char often[] = "  \n\r\t''sSdDtTmMlLvVrReEaZ09.,/-_\\({";
  static const uint32_t seldom[] = {0xA0,    0x3000,  0x17F,  0x2019, 0x301, 0x4E2D, 0x661, 0xBD,
                                    0x1F600, 0x1D165, 0x200D, 0xE9,   0x130, 0x85,   0x2028};
  uint32_t k = next(state) % 20;
  if (k < 15) return (uint8_t)often[next(state) % (sizeof often - 1)];
  if (k < 19) return seldom[next(state) % (sizeof seldom / sizeof *seldom)];
  uint32_t c = next(state) % 0x110000;
  return c >= 0xD800 && c < 0xE000 ? 'x' : c;
}

static void test_known(void **state) {
  (void)state;
  for (const accel__known_split *known = accel__known_splits; known->expression; ++known) {
    accel__arena arena = {0};
    accel__regex_stack stack = {0};
    const accel__regex *regex;
    uint64_t random = 7;
    assert_int_equal(accel__regex_compile(&arena, known->expression, &regex), ACCEL_OK);
    for (int i = 0; i < 200000; ++i) {
      accel__char chars[24];
      size_t n = 1 + next(&random) % 24, expected, found;
      for (size_t k = 0; k < n; ++k)
        chars[k] = (accel__char){some_char(&random), (uint32_t)k, (uint32_t)k + 1};
      stack.steps = 0;
      assert_int_equal(accel__regex_match(regex, chars, n, 0, &stack, &expected), ACCEL_OK);
      found = known->fn(chars, n);
      if (found != expected) {
        for (size_t k = 0; k < n; ++k) print_message("U+%04X ", chars[k].c);
        fail_msg("%s: found %zu, expected %zu", known->expression, found, expected);
      }
    }
    free(stack.at);
    accel__arena_free(&arena);
  }
}

static void test_every_code_point(void **state) {
  (void)state;
  for (const accel__known_split *known = accel__known_splits; known->expression; ++known) {
    accel__arena arena = {0};
    accel__regex_stack stack = {0};
    const accel__regex *regex;
    assert_int_equal(accel__regex_compile(&arena, known->expression, &regex), ACCEL_OK);
    for (uint32_t c = 0; c < 0x110000; ++c) {
      const accel__char chars[] = {{c, 0, 1}, {'a', 1, 2}, {c, 2, 3}, {'1', 3, 4}};
      size_t expected;
      stack.steps = 0;
      for (size_t k = 0; k < 3; ++k) {
        assert_int_equal(accel__regex_match(regex, chars + k, 4 - k, 0, &stack, &expected),
                         ACCEL_OK);
        assert_int_equal(known->fn(chars + k, 4 - k), expected);
      }
    }
    free(stack.at);
    accel__arena_free(&arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_known),
                                     cmocka_unit_test(test_every_code_point)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
