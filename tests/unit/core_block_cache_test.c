/* core_block_cache_test.c - large blocks are given out again, as zeros where zeros are asked for,
 * and not without limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "core/block_cache.h"

static void a_freed_block_comes_again(void **state) {
  (void)state;
  const size_t bytes = 300 << 10;
  uint8_t *room = accel__block_alloc(bytes), *again;
  const uintptr_t at = (uintptr_t)room;
  assert_non_null(room);
  memset(room, 7, bytes);
  accel__block_free(room);
  again = accel__block_calloc(bytes - 1000);
  if (!ACCEL_SANITIZER) assert_true((uintptr_t)again == at);
  for (size_t i = 0; i < bytes - 1000; i++) assert_int_equal(again[i], 0);
  uint8_t *other = accel__block_alloc(bytes); /* the one that there was is in use */
  assert_true(other != again);
  accel__block_free(other);
  accel__block_free(again);
  uint8_t *large = accel__block_alloc(4 * bytes); /* neither is large enough */
  memset(large, 1, 4 * bytes);
  accel__block_free(large);
  accel__block_free(NULL);
  accel__block_free(malloc(10));
  accel__block_cache_trim();
}

static void not_without_limit(void **state) {
  (void)state;
  enum { N = 20 };
  void *room[N];
  const size_t bytes = 5 << 20;
  for (int i = 0; i < N; i++) memset(room[i] = accel__block_alloc(bytes), i, bytes);
  const struct mallinfo2 before = mallinfo2();
  for (int i = 0; i < N; i++) accel__block_free(room[i]);
  const struct mallinfo2 after = mallinfo2();
  /* 32 MiB stay */
  if (!ACCEL_SANITIZER)
    assert_true(after.uordblks + after.hblkhd + (N - 6) * bytes <= before.uordblks + before.hblkhd);
  accel__block_cache_trim();
  accel__block_cache_trim();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_freed_block_comes_again),
      cmocka_unit_test(not_without_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
