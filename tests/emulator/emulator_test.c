/* emulator_test.c - the emulator runs what is right alike in every order and wave, and names what
 * is wrong. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "planted.h"

enum { N = 64, ROWS = 5, COLS = 150 };
typedef struct setting {
  uint32_t wave, seed;
  emulated_order order;
} setting;
static const setting settings[] = {
    {32, 0, EMULATED_FORWARD},  {64, 0, EMULATED_FORWARD},   {32, 0, EMULATED_REVERSE},
    {64, 0, EMULATED_REVERSE},  {32, 1, EMULATED_SHUFFLED},  {64, 1, EMULATED_SHUFFLED},
    {32, 7, EMULATED_SHUFFLED}, {64, 99, EMULATED_SHUFFLED},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

static float x[ROWS * COLS], y[ROWS * COLS];
static char why[240];

static int run_on(emulator *e, const emulated_kernel *k, uint32_t groups, uint64_t nx, uint64_t ny,
                  int32_t n, const setting *s) {
  const emulated_buffer buffer[2] = {{x, nx * 4}, {y, ny * 4}};
  const emulated_launch l = {.kernel = k,
                             .groups = {groups, 1, 1},
                             .buffer = buffer,
                             .params = &n,
                             .wave = s->wave,
                             .order = s->order,
                             .seed = s->seed};
  *why = 0;
  return emulator_run(e, &l, why, sizeof why);
}

static void right(void **state) {
  emulator *e = emulator_new();
  (void)state;
  float first[ROWS];
  for (int i = 0; i < ROWS * COLS; i++) x[i] = (float)(i % 37) / 8.0f;
  for (int s = 0; s < SETTINGS; s++) {
    assert_int_equal(
        run_on(e, &accel_emulated_sum_rows, ROWS, ROWS * COLS, ROWS, COLS, &settings[s]), 0);
    for (int r = 0; r < ROWS; r++) {
      float sum = 0;
      for (int c = 0; c < COLS; c++) sum += x[r * COLS + c];
      assert_true(fabsf(y[r] - sum) < 1e-3f);
      if (s) assert_true(y[r] == first[r]); /* to the bit */
      first[r] = y[r];
    }
    memset(y, 0xff, sizeof y);
    assert_int_equal(run_on(e, &accel_emulated_double_all, 3, ROWS * COLS, ROWS * COLS, ROWS * COLS,
                            &settings[s]),
                     0);
    for (int i = 0; i < ROWS * COLS; i++) assert_true(y[i] == 2.0f * x[i]);
  }
  emulator_free(e);
}

/* In every setting the fault is found, and the emulator is as good as before afterwards. */
static void caught(const emulated_kernel *k, uint64_t nx, uint64_t ny, const char *words) {
  emulator *e = emulator_new();
  for (int s = 0; s < SETTINGS; s++) {
    assert_int_equal(run_on(e, k, 1, nx, ny, N, &settings[s]), -1);
    if (!strstr(why, words) || !strstr(why, k->name))
      fail_msg("said '%s', expected '%s'", why, words);
    assert_int_equal(run_on(e, &accel_emulated_sum_rows, 1, N, 1, N, &settings[s]), 0);
  }
  emulator_free(e);
}

static void faults(void **state) {
  (void)state;
  caught(&accel_emulated_beyond, N, N,
         "lane 63: x[64] is outside its 64 elements, at planted.cpp:");
  caught(&accel_emulated_negative, N, N, "lane 0: y[-1] is outside its 64 elements");
  caught(&accel_emulated_shared_beyond, N, N,
         "lane 63: part[64] is outside its 64 elements, before any barrier");
  caught(&accel_emulated_no_barrier, N, N, "a race: it ");
  caught(&accel_emulated_write_twice, N, N, "a race: it writes part[0], which lane ");
  caught(&accel_emulated_some_lanes, N, N, "stands at the barrier of planted.cpp:");
  caught(&accel_emulated_other_barrier, N, N, "stands at the barrier of planted.cpp:");
}

static void memory_is_nan(void **state) {
  emulator *e = emulator_new();
  (void)state;
  for (int s = 0; s < SETTINGS; s++) {
    assert_int_equal(run_on(e, &accel_emulated_unset_shared, 1, N, N, N, &settings[s]), 0);
    assert_true(y[0] == 1.0f);
    for (int i = 1; i < N; i++) assert_true(isnan(y[i]));
  }
  emulator_free(e);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(right), cmocka_unit_test(faults),
                                     cmocka_unit_test(memory_is_nan)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
