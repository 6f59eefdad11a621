/* cpu_lora_test.c - the CPU plugin's products with the matrices of adapters, on every instruction
 * set of this machine: near what doubles give, and of each row the same bits alone as among
 * others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "formats/convert.h"
#include "unit/cpu_guard.h"

enum { BEHIND = 64 /* bytes that may be read behind halves */ };

typedef struct product {
  int64_t rows, k, n, rank;
  float *x, *a, *b, *y;
  uint16_t *half_a, *half_b;
} product;

/* Halves of p[n], which become the numbers that the halves are. */
static uint16_t *halves(float *p, int64_t n) {
  uint16_t *h = guard_bytes((size_t)n * sizeof *h + BEHIND);
  accel_f32_array_to_fp16(p, (size_t)n, h);
  accel_fp16_array_to_f32(h, (size_t)n, p);
  return h;
}

/* Rows [from, from + rows) of y: y + 0.5 x a b. */
static void run(const product *p, bool half, int64_t from, int64_t rows, float *y) {
  const float *x = p->x + from * p->k;
  float *t = guard(rows * p->rank);
  if (half) {
    kernels.lora_shrink_f16(x, rows, p->k, p->half_a, p->rank, 0.5f, t);
    kernels.lora_expand_f16(t, rows, p->rank, p->half_b, p->n, y + from * p->n);
  } else {
    kernels.lora_shrink(x, rows, p->k, p->a, p->rank, 0.5f, t);
    kernels.lora_expand(t, rows, p->rank, p->b, p->n, y + from * p->n);
  }
}

static double truth(const product *p, int64_t row, int64_t column) {
  double y = (double)p->y[row * p->n + column];
  for (int64_t r = 0; r < p->rank; r++) {
    double t = 0;
    for (int64_t i = 0; i < p->k; i++)
      t += (double)p->x[row * p->k + i] * (double)p->a[i * p->rank + r];
    y += 0.5 * t * (double)p->b[r * p->n + column];
  }
  return y;
}

static void try_sizes(int64_t rows, int64_t k, int64_t n, int64_t rank) {
  product p = {.rows = rows,
               .k = k,
               .n = n,
               .rank = rank,
               .x = filled(rows * k),
               .a = filled(k * rank),
               .b = filled(rank * n),
               .y = filled(rows * n)};
  p.half_a = halves(p.a, k * rank);
  p.half_b = halves(p.b, rank * n);
  for (int half = 0; half < 2; half++) {
    float *all = copy_of(p.y, rows * n), *alone = copy_of(p.y, rows * n);
    run(&p, half, 0, rows, all);
    for (int64_t row = 0; row < rows; row++) run(&p, half, row, 1, alone);
    assert_memory_equal(all, alone, (size_t)(rows * n) * sizeof *all);
    for (int64_t i = 0; i < rows * n; i += 1 + n / 50)
      check(half ? "halves" : "floats", all[i], truth(&p, i / n, i % n), 2e-6 * (double)(k + rank));
  }
  release();
}

static void test_rows(void **state) {
  (void)state;
  try_sizes(1, 1, 1, 1);
  try_sizes(6, 128, 192, 16);
  try_sizes(9, 30, 4099, 5); /* more columns than a pass takes */
  for (int i = 0, n = rounds(20); i < n; i++)
    try_sizes(pick(1, 9), pick(1, 150), pick(1, 200), pick(1, 40));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
  CPU_GUARD_RUN(tests);
}
