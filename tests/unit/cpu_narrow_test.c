/* cpu_narrow_test.c - linear over bf16, fp16 and fp8 weights, packed by the plugin's own packers,
 * on every instruction set of this machine, against sums in double over the decoded weights.
 *
 * Operands and panels end where an unreadable page begins. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "formats/weight_matrix.h"
#include "cpu_pack.h"
#include "unit/cpu_guard.h"

/* ---- matrices ---- */

typedef struct matrix {
  accel_plugin_format format;
  cpu_matrix m;
  float *decoded;
} matrix;

static void decode(matrix *t) {
  accel_matrix a = {.format = t->format,
                    .n = t->m.n,
                    .k = t->m.k,
                    .data = t->m.view.data,
                    .scale = t->m.view.scale};
  accel_matrix_rows(&a, 0, t->m.n, t->decoded);
}

/* Ordinary numbers of every exponent that sums can bear, some of them subnormal. */
static uint8_t code8(uint8_t store) {
  uint8_t code = (uint8_t)(next_random() >> 13);
  return store == ACCEL_PLUGIN_E4M3 ? ((code & 0x7f) == 0x7f ? 0x7e : code)
                                    : (uint8_t)((code & 0x83) | (code & 0x3c));
}
static uint16_t code16(uint8_t store) {
  if (store == ACCEL_PLUGIN_BF16) return accel_f32_to_bf16(noise());
  /* subnormal */
  return pick(0, 7) ? accel_f32_to_fp16(noise()) : (uint16_t)(next_random() >> 16 & 0x83ff);
}

static matrix make_matrix(const accel_plugin_format *format, int64_t n, int64_t k) {
  matrix t = {.format = *format};
  const bool half = format->store == ACCEL_PLUGIN_F16 || format->store == ACCEL_PLUGIN_BF16;
  uint8_t *data = guard_bytes(n * k * (half ? 2 : 1));
  for (int64_t i = 0; i < n * k; i++) {
    uint16_t code = half ? code16(format->store) : code8(format->store);
    memcpy(data + i * (half ? 2 : 1), &code, half ? 2 : 1);
  }
  const int64_t scales = accel_groups(n, format->group_n) * accel_groups(k, format->group_k);
  float *scale = half ? NULL : guard_bytes(scales * 4);
  for (int64_t i = 0; !half && i < scales; i++) scale[i] = 0.01f + 0.01f * (float)pick(0, 100);
  t.m = (cpu_matrix){.view = {.data = data, .scale = scale}, .n = n, .k = k};
  t.decoded = guard_bytes(n * k * 4);
  decode(&t);
  return t;
}

/* ---- one linear ---- */

typedef struct linear {
  int64_t m, n, k, ldx, panels, panel_bytes;
  cpu_layout layout;
  matrix w, gate;
  float *x, *bias, *bias_gate, *residual;
  char *packed, *converted; /* x as the kernel reads it, or NULL */
  int act;
  bool glu;
} linear;

/* Packs the weights and converts x. */
static void prepare(linear *t) {
  const int32_t cols = kernels.linear[t->layout].cols, width = t->glu ? cols / 2 : cols;
  const cpu_panel shape = {
      .layout = t->layout, .kernels = &kernels, .format = &t->w.format, .k = t->k, .cols = cols};
  t->w.m.format = &t->w.format;
  t->gate.m.format = &t->gate.format;
  t->panels = (t->n + width - 1) / width;
  t->panel_bytes = (int64_t)cpu_panel_bytes(&shape);
  if (!t->packed) t->packed = guard_bytes(t->panels * t->panel_bytes);
  for (int64_t p = 0; p < t->panels; p++) {
    cpu_column column[64];
    for (int32_t c = 0; c < cols; c++) {
      const int64_t row = p * width + c % width;
      column[c] =
          row < t->n ? (cpu_column){c >= width ? &t->gate.m : &t->w.m, row} : (cpu_column){0};
    }
    cpu_panel_pack(&shape, column, t->packed + p * t->panel_bytes);
  }
  const cpu_act_format to = kernels.linear[t->layout].x;
  if (to == CPU_ACT_F32) return;
  if (!t->converted)
    t->converted = guard_bytes((size_t)(t->m * cpu_act_row(to, t->k) * cpu_act_bytes(to)));
  cpu_convert_rows(kernels.convert[to], to, t->x, t->ldx, t->m, t->k, t->converted, NULL, NULL);
}

enum { BIAS = 1, RESIDUAL = 2, GLU = 4 };
static linear make_linear(const accel_plugin_format *f, int64_t m, int64_t n, int64_t k, int act,
                          int parts) {
  linear t = {.m = m, .n = n, .k = k, .ldx = k + (m % 2 ? 3 : 0), .act = act, .glu = parts & GLU};
  t.layout = cpu_layout_of(&kernels, f);
  assert_int_not_equal(t.layout, CPU_LAYOUT_F32);
  t.x = filled(m > 0 ? (m - 1) * t.ldx + k : 0); /* the last row has no gap after it */
  t.w = make_matrix(f, n, k);
  if (t.glu) t.gate = make_matrix(f, n, k);
  if (parts & BIAS) t.bias = filled(n);
  if (parts & BIAS && t.glu) t.bias_gate = filled(n);
  if (parts & RESIDUAL) t.residual = filled(m * n);
  if (kernels.linear[t.layout].x ==
      CPU_ACT_BF16) /* what sums are compared with has no rounding in x */
    for (int64_t i = 0; m > 0 && i < (m - 1) * t.ldx + k; i++)
      t.x[i] = accel_bf16_to_f32(accel_f32_to_bf16(t.x[i]));
  prepare(&t);
  return t;
}

static void run_rows(const linear *t, float *y, int64_t row, int64_t row_end, int64_t panel,
                     int64_t panel_end) {
  cpu_gemm g = {.n = t->n,
                .k = t->k,
                .x = t->x,
                .ldx = t->ldx,
                .w = t->packed,
                .panel_bytes = t->panel_bytes,
                .group = t->w.format.group_k,
                .store = t->w.format.store,
                .scale = t->w.format.scale,
                .y = y,
                .ldy = t->n,
                .bias = t->bias,
                .bias_gate = t->bias_gate,
                .residual = t->residual,
                .ldr = t->n,
                .act = t->act,
                .glu = t->glu};
  if (t->converted) {
    g.x = t->converted;
    g.ldx = cpu_act_row(kernels.linear[t->layout].x, t->k);
  }
  kernels.linear[t->layout].run(&g, row, row_end, panel, panel_end);
}

static double product(const linear *t, const matrix *w, const float *bias, int64_t i, int64_t j,
                      double *size) {
  double sum = bias ? bias[j] : 0;
  for (int64_t k = 0; k < t->k; k++) {
    double term = (double)t->x[i * t->ldx + k] * w->decoded[j * t->k + k];
    sum += term;
    *size += fabs(term);
  }
  return sum;
}

static double expected(const linear *t, int64_t i, int64_t j, double *size) {
  double y = product(t, &t->w, t->bias, i, j, size);
  if (t->glu) {
    double gate = product(t, &t->gate, t->bias_gate, i, j, size);
    *size *= 1 + fabs(gate) + fabs(y);
    y *= t->act == ACCEL_PLUGIN_ACT_SILU ? gate / (1 + exp(-gate)) : gate;
  } else if (t->act == ACCEL_PLUGIN_ACT_SILU) {
    y = y / (1 + exp(-y));
  }
  return t->residual ? y + t->residual[i * t->n + j] : y;
}

/* As a whole, then row by row and by other cuts: the same bits. */
static void run_linear(const linear *t) {
  float *y = guard_bytes(t->m * t->n * 4), *part = guard_bytes(t->m * t->n * 4);
  run_rows(t, y, 0, t->m, 0, t->panels);
  for (int64_t i = 0; i<t->m; i += t->m> 40 ? 17 : 1)
    for (int64_t j = i % CHECK_EVERY; j < t->n; j += CHECK_EVERY * (t->n > 100 ? 13 : 1)) {
      double size = 1, want = expected(t, i, j, &size), got = y[i * t->n + j];
      if (!(fabs(got - want) <= 2e-6 * size) && !(isnan(got) && isnan(want)))
        fail_msg("layout %d on %s, [%d x %d x %d] at %d, %d: got %.9g, expected %.9g", t->layout,
                 cpu_isa_name(kernels.isa), (int)t->m, (int)t->n, (int)t->k, (int)i, (int)j, got,
                 want);
    }
  const int64_t heights[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 24, 29};
  const size_t step = CHECK_EVERY > 1 ? 3 : 1; /* then other shapes have the others */
  for (size_t h = (size_t)t->n % step; h < sizeof heights / sizeof *heights; h += step) {
    if (heights[h] >= t->m) break;
    for (int64_t i = 0; i < t->m; i += heights[h])
      for (int64_t p = 0; p < t->panels; p += 3)
        run_rows(t, part, i, i + heights[h] < t->m ? i + heights[h] : t->m, p,
                 p + 3 < t->panels ? p + 3 : t->panels);
    assert_memory_equal(y, part, (size_t)(t->m * t->n) * 4);
  }
}

#define PLAIN(store) \
  { store, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 0, 0 }
#define CODED(s, k, n) \
  { s, ACCEL_PLUGIN_F32, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, k, n }
static const accel_plugin_format formats[] = {
    PLAIN(ACCEL_PLUGIN_BF16),        PLAIN(ACCEL_PLUGIN_F16),
    CODED(ACCEL_PLUGIN_E4M3, 0, 1),  CODED(ACCEL_PLUGIN_E5M2, 0, 1),
    CODED(ACCEL_PLUGIN_E4M3, 0, 0),  CODED(ACCEL_PLUGIN_E4M3, 128, 128),
    CODED(ACCEL_PLUGIN_E5M2, 32, 1), CODED(ACCEL_PLUGIN_E4M3, CPU_NARROW_BLOCK, 1),
};
enum { FORMATS = sizeof formats / sizeof *formats };

static void for_each_isa(void (*test)(void)) {
  cpu_isa list[CPU_ISA_COUNT];
  for (int i = 0, n = cpu_isa_list(list); i < n; i++) {
    cpu_kernels_of(list[i], &kernels);
    test();
    release();
  }
}

static void shapes(void) {
  static const int64_t shape[][3] = {{1, 1, 1},      {1, 130, 37},  {2, 70, 64},   {3, 33, 129},
                                     {4, 100, 31},   {5, 64, 96},   {12, 40, 51},  {13, 32, 257},
                                     {24, 65, 24},   {25, 17, 40},  {31, 200, 77}, {230, 48, 130},
                                     {61, 31, 1100}, {45, 31, 1701}};
  for (size_t s = 0; s < sizeof shape / sizeof *shape; s++)
    for (int f = 0; f < FORMATS; f++) {
      linear t =
          make_linear(&formats[f], shape[s][0], shape[s][1], shape[s][2], ACCEL_PLUGIN_ACT_NONE, 0);
      run_linear(&t);
      release();
    }
}
static void test_shapes(void **state) {
  (void)state;
  for_each_isa(shapes);
}

static void fused(void) {
  for (int f = 0; f < FORMATS; f++)
    for (int parts = 0; parts < 8; parts++)
      for (int m = 1; m < 40; m += 13) {
        linear t = make_linear(&formats[f], m, 50 + parts, 70,
                               m % 2 ? ACCEL_PLUGIN_ACT_SILU : ACCEL_PLUGIN_ACT_NONE, parts);
        run_linear(&t);
        release();
      }
}
static void test_fused(void **state) {
  (void)state;
  for_each_isa(fused);
}

static void empty(void) {
  for (int f = 0; f < FORMATS; f++) {
    /* no columns of x: the bias alone */
    linear t = make_linear(&formats[f], 3, 20, 0, ACCEL_PLUGIN_ACT_NONE, BIAS);
    run_linear(&t);
    run_rows(&t, NULL, 0, 0, 0, t.panels);
    release();
  }
}
static void test_empty(void **state) {
  (void)state;
  for_each_isa(empty);
}

/* Whether products of this layout read denormals as zeros. */
static bool flushes(cpu_layout layout) { return kernels.linear[layout].x == CPU_ACT_BF16; }

/* Every code alone against x = 1: the decoded weight itself, scaled. */
static void every_code(void) {
  for (int f = 0; f < FORMATS; f++) {
    const bool half = formats[f].store == ACCEL_PLUGIN_F16 || formats[f].store == ACCEL_PLUGIN_BF16;
    if (formats[f].group_k || !formats[f].group_n == !half) continue;
    for (int64_t m = 1; m <= 27; m += 26) {
      linear t = make_linear(&formats[f], m, half ? 65536 : 256, 1, ACCEL_PLUGIN_ACT_NONE, 0);
      for (int64_t i = 0; i < t.n; i++) {
        if (half)
          ((uint16_t *)t.w.m.view.data)[i] = (uint16_t)i;
        else
          ((uint8_t *)t.w.m.view.data)[i] = (uint8_t)i, ((float *)t.w.m.view.scale)[i] = 1.0f;
      }
      for (int64_t i = 0; i < m; i++) t.x[i * t.ldx] = 1.0f;
      decode(&t.w);
      prepare(&t);
      float *y = guard_bytes(m * t.n * 4);
      run_rows(&t, y, 0, m, 0, t.panels);
      for (int64_t i = 0; i < m * t.n; i++) {
        float want = t.w.decoded[i % t.n];
        if (flushes(t.layout) && fpclassify(want) == FP_SUBNORMAL) want = 0;
        if (!(y[i] == want) && !(isnan(y[i]) && isnan(want)))
          fail_msg("layout %d on %s: code %x gives %.9g, expected %.9g", t.layout,
                   cpu_isa_name(kernels.isa), (unsigned)(i % t.n), y[i], want);
      }
      release();
    }
  }
}
static void test_every_code(void **state) {
  (void)state;
  for_each_isa(every_code);
}

/* GELU within 5e-6 of itself, absolute up to 1 and relative above, and its limits. */
static void gelu(void) {
  enum { SAMPLES = 4000 };
  for (int f = 0; f < FORMATS; f++) {
    if (formats[f].store != ACCEL_PLUGIN_F16 && formats[f].store != ACCEL_PLUGIN_BF16) continue;
    linear t = make_linear(&formats[f], SAMPLES, 1, 1, ACCEL_PLUGIN_ACT_GELU, 0);
    /* 1 */
    ((uint16_t *)t.w.m.view.data)[0] = formats[f].store == ACCEL_PLUGIN_F16 ? 0x3c00 : 0x3f80;
    for (int64_t i = 0; i < SAMPLES; i++) {
      const float x = (float)(i - SAMPLES / 2) * (i % 9 ? 0.004f : 0.5f);
      t.x[i * t.ldx] = flushes(t.layout) ? accel_bf16_to_f32(accel_f32_to_bf16(x)) : x;
    }
    t.x[0] = INFINITY;
    t.x[t.ldx] = -INFINITY;
    t.x[2 * t.ldx] = NAN;
    prepare(&t);
    float *y = guard_bytes(SAMPLES * 4);
    run_rows(&t, y, 0, SAMPLES, 0, t.panels);
    assert_true(isinf(y[0]) && y[0] > 0 && y[1] == 0 && isnan(y[2]));
    for (int64_t i = 3; i < SAMPLES; i++) {
      const double x = t.x[i * t.ldx], want = x * 0.5 * erfc(-x / sqrt(2));
      if (!(fabs(y[i] - want) <= 5e-6 * fmax(1, fabs(x))))
        fail_msg("layout %d on %s: gelu(%.9g) is %.9g, expected %.9g", t.layout,
                 cpu_isa_name(kernels.isa), x, y[i], want);
    }
    release();
  }
}
static void test_gelu(void **state) {
  (void)state;
  for_each_isa(gelu);
}

/* A NaN weight, whatever meets it, and a NaN in x: exactly their column and their row. */
static void special(void) {
  for (int f = 0; f < FORMATS; f++)
    for (int64_t m = 1; m < 40; m += 19) {
      const bool half =
          formats[f].store == ACCEL_PLUGIN_F16 || formats[f].store == ACCEL_PLUGIN_BF16;
      linear t = make_linear(&formats[f], m, 37, 300, ACCEL_PLUGIN_ACT_NONE, 0);
      const int64_t at = 33 * t.k + 299;
      if (half)
        ((uint16_t *)t.w.m.view.data)[at] = 0x7fff;
      else
        ((uint8_t *)t.w.m.view.data)[at] = 0xff;
      for (int64_t i = 0; i < m; i++) t.x[i * t.ldx + 299] = 0.0f;
      t.x[(m - 1) * t.ldx] = NAN;
      prepare(&t);
      float *y = guard_bytes(m * t.n * 4);
      run_rows(&t, y, 0, m, 0, t.panels);
      for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < t.n; j++)
          assert_int_equal(isnan(y[i * t.n + j]) != 0, i == m - 1 || j == 33);
      release();
    }
}
static void test_special(void **state) {
  (void)state;
  for_each_isa(special);
}

/* All 65536 halves of both kinds, from odd addresses, in rows of every length up to a few
 * vectors. */
static void widened_rows(void) {
  static const uint8_t stores[] = {ACCEL_PLUGIN_F16, ACCEL_PLUGIN_BF16};
  uint8_t *halves = guard_bytes(2 * 65536 + 1);
  float *y = guard_bytes(65536 * 4);
  for (int s = 0; s < 2; s++) {
    for (uint32_t i = 0; i < 65536; i++) memcpy(halves + 1 + 2 * i, &(uint16_t){(uint16_t)i}, 2);
    kernels.widen(stores[s], halves + 1, y, 65536);
    for (uint32_t i = 0; i < 65536; i++) {
      float want = s ? accel_bf16_to_f32((uint16_t)i) : accel_fp16_to_f32((uint16_t)i);
      if (!(y[i] == want) && !(isnan(y[i]) && isnan(want)))
        fail_msg("%s: half %x gives %.9g, expected %.9g", cpu_isa_name(kernels.isa), i, y[i], want);
    }
    for (int64_t n = 0; n < 70; n++) {
      float *end = y + 65536 - n;
      memset(end, 0, (size_t)n * 4);
      kernels.widen(stores[s], halves + 2 * (65536 - n) + 1, end, n);
      for (int64_t i = 0; i < n; i++) assert_true(isnan(end[i]) || end[i] <= 0);
    }
  }
}
static void test_widened_rows(void **state) {
  (void)state;
  for_each_isa(widened_rows);
}

/* Rows to bf16: as accel_f32_to_bf16 rounds them, denormals to zeros, zeros up to the end of a
 * row. */
static void bf16_rows(void) {
  static const float special[] = {INFINITY,   -INFINITY, NAN,         -0.0f,      0x1p-127f,
                                  -0x1p-149f, 3.4e38f,   1.00390625f, 1.01171875f};
  enum { SPECIAL = sizeof special / sizeof *special };
  if (!kernels.convert[CPU_ACT_BF16]) return;
  for (int64_t k = 0; k < 140; k += 1 + k / 9)
    for (int64_t m = 1; m < 4; m++) {
      const int64_t ldx = k + m - 1, ld = cpu_act_row(CPU_ACT_BF16, k);
      float *x = filled((m - 1) * ldx + k);
      uint16_t *y = guard_bytes((size_t)(m * ld) * 2);
      for (int64_t i = 0; i < SPECIAL && i < k; i++) x[(m - 1) * ldx + k - 1 - i] = special[i];
      memset(y, 0xff, (size_t)(m * ld) * 2);
      cpu_convert_rows(kernels.convert[CPU_ACT_BF16], CPU_ACT_BF16, x, ldx, m, k, y, NULL, NULL);
      for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < ld; j++) {
          const float from = j < k ? x[i * ldx + j] : 0.0f, got = accel_bf16_to_f32(y[i * ld + j]),
                      want = fpclassify(from) == FP_SUBNORMAL
                                 ? 0.0f
                                 : accel_bf16_to_f32(accel_f32_to_bf16(from));
          if (!(got == want) && !(isnan(got) && isnan(want)))
            fail_msg("%s: %.9g becomes %.9g, expected %.9g", cpu_isa_name(kernels.isa), from, got,
                     want);
        }
      release();
    }
}
static void test_bf16_rows(void **state) {
  (void)state;
  for_each_isa(bf16_rows);
}

static void test_refused(void **state) {
  (void)state;
  const accel_plugin_format odd = CODED(ACCEL_PLUGIN_E4M3, 33, 1),
                            wide = CODED(ACCEL_PLUGIN_E4M3, CPU_NARROW_BLOCK + 2, 1),
                            zero = {ACCEL_PLUGIN_E4M3,
                                    ACCEL_PLUGIN_F32,
                                    ACCEL_PLUGIN_U8,
                                    ACCEL_PLUGIN_NO_DTYPE,
                                    0,
                                    1};
  cpu_kernels_of(CPU_ISA_SCALAR, &kernels);
  assert_int_equal(cpu_layout_of(&kernels, &odd), CPU_LAYOUT_F32);
  assert_int_equal(cpu_layout_of(&kernels, &wide), CPU_LAYOUT_F32);
  assert_int_equal(cpu_layout_of(&kernels, &zero), CPU_LAYOUT_F32);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shapes),    cmocka_unit_test(test_fused),
      cmocka_unit_test(test_empty),     cmocka_unit_test(test_every_code),
      cmocka_unit_test(test_gelu),      cmocka_unit_test(test_special),
      cmocka_unit_test(test_refused),   cmocka_unit_test(test_widened_rows),
      cmocka_unit_test(test_bf16_rows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
