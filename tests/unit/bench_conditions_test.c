/* bench_conditions_test.c - energy from counters of powercap, and waiting for a time. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/bench_collect.h"
#include "bench/bench_conditions.h"

static char folder[] = "/tmp/accel-powercap-XXXXXX";

static void put(int package, const char *name, const char *text) {
  char path[128];
  snprintf(path, sizeof path, "%s/intel-rapl:%d", folder, package);
  mkdir(path, 0755);
  snprintf(path, sizeof path, "%s/intel-rapl:%d/%s", folder, package, name);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

static void energy(void **state) {
  (void)state;
  bench_energy begin;
  assert_non_null(mkdtemp(folder));
  bench_energy_begin(&begin, folder);
  assert_true(isnan(bench_energy_end(&begin, folder))); /* absent is not 0 */
  put(0, "energy_uj", "9000000\n");
  put(0, "max_energy_range_uj", "10000000\n");
  put(1, "energy_uj", "500000\n");
  put(1, "max_energy_range_uj", "10000000\n");
  bench_energy_begin(&begin, folder);
  assert_int_equal(begin.n, 2);
  put(0, "energy_uj", "1000000\n"); /* it began anew */
  put(1, "energy_uj", "750000\n");
  assert_float_equal(bench_energy_end(&begin, folder), 2.25, 1e-9);
  put(1, "energy_uj", "");
  assert_true(isnan(bench_energy_end(&begin, folder)));
  char path[160];
  static const char *const names[] = {"energy_uj", "max_energy_range_uj", ""};
  for (int package = 0; package < 2; ++package)
    for (int i = 0; i < 3; ++i) {
      snprintf(path, sizeof path, "%s/intel-rapl:%d/%s", folder, package, names[i]);
      if (*names[i])
        unlink(path);
      else
        rmdir(path);
    }
  rmdir(folder);
}

static void waiting(void **state) {
  (void)state;
  const double now = bench_now_ms();
  bench_wait_until(now - 5);
  assert_true(bench_now_ms() < now + 1000);
  bench_wait_until(now + 3);
  assert_true(bench_now_ms() >= now + 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(energy), cmocka_unit_test(waiting)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
