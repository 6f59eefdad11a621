/* bench_predict_test.c - a law that made synthetic steps is found again, also among outliers, and
 * models that were left out are predicted by the others. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/bench_predict.h"

enum { MODELS = 12, LAYERS = 6 };
static const double peak_flop = 200e6, peak_bytes = 40e6; /* a millisecond */

/* Uniform in [0, 1). */
static double chance(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return (double)(*state >> 8) / 16777216.0;
}

static double roofline(double flop, double bytes) {
  return fmax(1e-3, fmax(flop / (0.3 * peak_flop), bytes / (0.5 * peak_bytes)));
}

/* What the synthetic device takes: linears get better with their size, norms are three times as
 * slow as the roofline. */
static double truth(const char *op, double flop, double bytes) {
  const double t = roofline(flop, bytes);
  return !strcmp(op, "linear") ? 0.8 * pow(t, 0.9) : 3 * t;
}

static void add(bench_cost_run *run, const char *op, double flop, double bytes, double times) {
  bench_cost step = {.flop = flop, .bytes = bytes, .ms = times * truth(op, flop, bytes)};
  strcpy(step.op, op);
  assert_true(bench_cost_add(run, &step));
}

/* Encoders of several widths and lengths: two linears and a norm a layer.  A share `wild` of the
 * steps takes 20 times as long as it should.  A run takes 1.1 times its steps. */
static bench_cost_runs make_runs(double wild, uint32_t seed) {
  bench_cost_runs runs = {.n = MODELS,
                          .models = MODELS,
                          .peak_gflops = 1e-6 * peak_flop,
                          .peak_gbytes_per_s = 1e-6 * peak_bytes};
  runs.run = calloc(MODELS, sizeof *runs.run);
  assert_non_null(runs.run);
  for (uint32_t m = 0; m < MODELS; ++m) {
    bench_cost_run *run = &runs.run[m];
    double should = 0;
    run->model = m;
    for (uint32_t layer = 0; layer < LAYERS; ++layer) {
      const double width = 64 * (1 + m) * (1 + 0.1 * layer), rows = 32 * (1 + m % 4);
      for (int k = 0; k < 3; ++k) {
        const char *op = k < 2 ? "linear" : "norm";
        const double n = k == 0 ? width : 4 * width,
                     flop = k < 2 ? 2 * rows * width * n : 7 * rows * width,
                     bytes = k < 2 ? 4 * (width * n + rows * (width + n)) : 8 * rows * width;
        add(run, op, flop, bytes, chance(&seed) < wild ? 20 : 1);
        should += truth(op, flop, bytes);
      }
    }
    bench_cost_finish(run);
    run->ms = 1.1 * should;
  }
  return runs;
}

static void near(double found, double expected, double share) {
  if (!(fabs(found / expected - 1) <= share)) fail_msg("%.9g instead of %.9g", found, expected);
}

static void known_law(void **state) {
  (void)state;
  bench_cost_runs runs = make_runs(0, 1);
  bench_law *law = bench_law_new(&runs, UINT32_MAX);
  bool seen;
  assert_non_null(law);
  for (double width = 100; width < 1000; width *= 1.3) {
    const double flop = 2 * 48 * width * width, bytes = 4 * (width * width + 96 * width);
    const bench_cost linear = {.op = "linear", .flop = flop, .bytes = bytes, .steps = 1},
                     norm = {
                         .op = "norm", .flop = 7 * 48 * width, .bytes = 8 * 48 * width, .steps = 1};
    near(bench_law_step(law, &linear, &seen), truth("linear", flop, bytes), 0.05);
    assert_true(seen);
    near(bench_law_step(law, &norm, &seen), truth("norm", norm.flop, norm.bytes), 0.05);
  }
  near(bench_law_run(law, &runs.run[3], NULL), runs.run[3].ms, 0.05);
  bench_law_free(law);
  bench_cost_runs_free(&runs);
}

/* Runs that take 1.02 times their steps and 0.05 ms a launch: small ones are mostly launches. */
static void launches(void **state) {
  (void)state;
  bench_cost_runs runs = make_runs(0, 1);
  for (uint32_t m = 0; m < MODELS; ++m) {
    double steps = 0, n = 0;
    for (uint32_t i = 0; i < runs.run[m].n; ++i) {
      steps += runs.run[m].cost[i].ms * runs.run[m].cost[i].steps;
      n += runs.run[m].cost[i].steps;
    }
    runs.run[m].ms = 1.02 * steps + 0.05 * n;
  }
  runs.run[5].ms *= 10; /* one was disturbed */
  bench_left_out left;
  assert_true(bench_leave_one_out(&runs, &left));
  near(left.ms[0], runs.run[0].ms, 0.05);
  near(left.ms[MODELS - 2], runs.run[MODELS - 2].ms, 0.05);
  assert_true(runs.run[0].ms > 2 * (runs.run[0].ms - 0.05 * 3 * LAYERS));
  bench_left_out_free(&left);
  bench_cost_runs_free(&runs);
}

static void unseen_ops(void **state) {
  (void)state;
  bench_cost_runs runs = make_runs(0, 1);
  bench_law *law = bench_law_new(&runs, UINT32_MAX);
  const bench_cost strange = {.op = "strange", .flop = 3e8, .bytes = 1e6, .steps = 1};
  bench_cost_run run = {.n = 1, .cost = (bench_cost *)&strange};
  bool seen = true;
  double unseen = 0;
  assert_non_null(law);
  near(bench_law_step(law, &strange, &seen), roofline(3e8, 1e6), 1e-9);
  assert_false(seen);
  near(bench_law_run(law, &run, &unseen), 1.1 * roofline(3e8, 1e6), 1e-6);
  near(unseen, 1, 1e-9);
  bench_law_free(law);
  bench_cost_runs_free(&runs);
}

static void left_out(void **state) {
  bench_cost_runs runs = make_runs(0, 1);
  bench_left_out left;
  (void)state;
  assert_true(bench_leave_one_out(&runs, &left));
  assert_true(left.median < 0.03 && left.p90 < 0.15);
  assert_int_equal(left.bar[0].n, MODELS);
  assert_int_equal(left.bar[1].n, 0);
  assert_true(isnan(left.bar[1].factor));
  bench_left_out_free(&left);
  bench_cost_runs_free(&runs);
}

/* A tenth of the steps takes 20 times as long: least squares without weights would be wrong by
 * exp(0.1 log 20) = 1.35. */
static void outliers(void **state) {
  (void)state;
  for (uint32_t seed = 1; seed < 6; ++seed) {
    bench_cost_runs clean = make_runs(0, seed), wild = make_runs(0.1, seed);
    bench_law *law = bench_law_new(&wild, UINT32_MAX);
    const double flop = 2.0 * 64 * 512 * 512, bytes = 4.0 * (512 * 512 + 128 * 512);
    const bench_cost linear = {.op = "linear", .flop = flop, .bytes = bytes, .steps = 1};
    bool seen;
    assert_non_null(law);
    near(bench_law_step(law, &linear, &seen), truth("linear", flop, bytes), 0.15);
    bench_law_free(law);
    bench_cost_runs_free(&clean);
    bench_cost_runs_free(&wild);
  }
}

/* Convolutions of the same flop and bytes, of which those with many weights take another kernel that
 * is twice as fast: what was never seen is told by what is like it. */
static void kernels_by_shape(void **state) {
  (void)state;
  bench_cost_runs runs = {.n = 10, .models = 10, .peak_gflops = 200, .peak_gbytes_per_s = 40};
  runs.run = calloc(runs.n, sizeof *runs.run);
  assert_non_null(runs.run);
  for (uint32_t m = 0; m < runs.n; ++m) {
    runs.run[m].model = m;
    for (uint32_t many = 0; many < 2; ++many) {
      const double flop = 1e8 * pow(1.5, m), bytes = 1e6 * pow(1.5, m);
      const bench_cost step = {.op = "conv",
                               .flop = flop,
                               .bytes = bytes,
                               .weights = (many ? 0.7 : 0.2) * bytes,
                               .results = (many ? 0.1 : 0.4) * bytes,
                               .ms = roofline(flop, bytes) / (many ? 2 : 1)};
      assert_true(bench_cost_add(&runs.run[m], &step));
    }
    bench_cost_finish(&runs.run[m]);
    assert_int_equal(runs.run[m].n, 2);
    runs.run[m].ms = runs.run[m].cost[0].ms + runs.run[m].cost[1].ms;
  }
  bench_left_out left;
  assert_true(bench_leave_one_out(&runs, &left));
  for (uint32_t m = 1; m + 1 < runs.n; ++m)
    for (uint32_t i = 0; i < 2; ++i) near(left.step_ms[m][i], runs.run[m].cost[i].ms, 0.1);
  assert_true(left.covered >= 0.8);
  bench_left_out_free(&left);
  bench_cost_runs_free(&runs);
}

static void bars(void **state) {
  double ratio[20];
  (void)state;
  for (int i = 0; i < 20; ++i) ratio[i] = i % 2 ? 1 + 0.01 * i : 1 / (1 + 0.01 * i);
  bench_bar bar = bench_bar_of(ratio, 20); /* the 19th of 20: 0.9 * 21 = 18.9 */
  near(bar.factor, 1.18, 1e-9);
  assert_false(bar.too_few);
  bar = bench_bar_of(ratio, 5);
  near(bar.factor, 1.04, 1e-9);
  assert_true(bar.too_few);
  assert_true(isnan(bench_bar_of(ratio, 0).factor));
}

static void same_steps(void **state) {
  bench_cost_run run = {0};
  (void)state;
  const bench_cost steps[] = {{.op = "linear", .flop = 10, .bytes = 20, .ms = 1},
                              {.op = "linear", .flop = 10, .bytes = 21, .ms = 5},
                              {.op = "norm", .flop = 10, .bytes = 20, .ms = 7},
                              {.op = "linear", .flop = 10, .bytes = 20, .weights = 5, .ms = 9},
                              {.op = "linear", .flop = 10, .bytes = 20, .ms = 3}};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; ++i)
    assert_true(bench_cost_add(&run, &steps[i]));
  bench_cost_finish(&run);
  assert_int_equal(run.n, 4);
  assert_int_equal(run.cost[0].steps, 2);
  near(run.cost[0].ms, 2, 1e-12);
  bench_cost_run_free(&run);
  assert_null(bench_law_new(&(bench_cost_runs){0}, UINT32_MAX));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known_law),  cmocka_unit_test(launches),
      cmocka_unit_test(unseen_ops), cmocka_unit_test(left_out),
      cmocka_unit_test(outliers),   cmocka_unit_test(bars),
      cmocka_unit_test(same_steps), cmocka_unit_test(kernels_by_shape),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
