/* cpu_integer_test.c - linears over int8 and four-bit weights, on every instruction set of this
 * machine: conversion of x, packing and products against the quantised arithmetic in double, and
 * against the unquantised product with a bound.
 *
 * Operands end where an unreadable page begins. */
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

/* ---- conversion ---- */

typedef struct rows {
  cpu_act_format to;
  int64_t m, k, ldx, ld;
  float *x;
  uint8_t *code;
  float *scale, *zero;
} rows;

/* Rows that were converted, as plain numbers: what products are compared with. */
typedef struct codes {
  double *value, *size, *scale; /* [m][k] each; size: the magnitudes behind a value */
} codes;

static rows make_rows(cpu_act_format to, int64_t m, int64_t k) {
  rows r = {.to = to, .m = m, .k = k, .ldx = k + pick(0, 3), .ld = cpu_act_row(to, k)};
  const float offset = pick(0, 2) ? 0 : 3 * noise(), size = powf(10, 3 * noise());
  r.x = filled(m ? (m - 1) * r.ldx + k : 0);
  for (int64_t i = 0; m && i < (m - 1) * r.ldx + k; i++) r.x[i] = size * (r.x[i] + offset);
  r.code = guard_bytes((uint64_t)(m * r.ld));
  r.scale = guard_bytes((uint64_t)m * 4);
  r.zero = guard_bytes((uint64_t)m * 4);
  return r;
}

static void convert(const rows *r) {
  cpu_convert_rows(kernels.convert[r->to], r->to, r->x, r->ldx, r->m, r->k, r->code, r->scale,
                   r->zero);
}

static bool is_signed(cpu_act_format x) {
  return x == CPU_ACT_S8 || x == CPU_ACT_S8B || x == CPU_ACT_S8W;
}
static int code_of(const rows *r, int64_t i, int64_t j) {
  const uint8_t code = r->code[i * r->ld + j];
  return is_signed(r->to) ? (int8_t)code : code;
}

/* What element j of row i was converted with. */
static const void *scales_of(const rows *r, int64_t i) {
  return r->code + i * r->ld + cpu_act_padded(r->k);
}
static float scale_of(const rows *r, int64_t i, int64_t j) {
  if (!cpu_act_blocked(r->to)) return r->scale[i];
  const int64_t block = cpu_act_block(r->to);
  const float *scale = scales_of(r, i);
  const int16_t *steps = (const int16_t *)(const void *)(scale + cpu_act_blocks(r->to, r->k));
  if (!cpu_act_parted(r->to)) return scale[j / block];
  return scale[j / block] *
         steps[j / block * (block / CPU_ACT_PART) * 2 + j % block / CPU_ACT_PART];
}
static float zero_of(const rows *r, int64_t i, int64_t j) {
  if (!cpu_act_blocked(r->to)) return r->zero[i];
  const int64_t block = cpu_act_block(r->to), parts = block / CPU_ACT_PART;
  const float *zero = (const float *)scales_of(r, i) + cpu_act_blocks(r->to, r->k);
  if (!cpu_act_parted(r->to)) return zero[j / block];
  const int16_t *steps =
      (const int16_t *)(const void *)zero + j / block * parts * 2 + j % block / CPU_ACT_PART;
  return steps[0] ? (float)steps[parts] / steps[0] : 0;
}

/* The equal steps that elements [first, end) of row i take at least. */
static double step_of(const rows *r, int64_t i, int64_t first, int64_t end) {
  const int most = cpu_act_parted(r->to) ? 127 : 255;
  double low = 0, high = 0;
  for (int64_t j = first; j < end; j++)
    low = fmin(low, r->x[i * r->ldx + j]), high = fmax(high, r->x[i * r->ldx + j]);
  return fmax((high - low) / most, 0x1p-126);
}

/* Elements [first, end) of row i, which share a scale; with parts up to `unit` larger than
 * needed. */
static void check_block(const rows *r, int64_t i, int64_t first, int64_t end, double unit) {
  const int least = is_signed(r->to) ? -128 : 0,
            most = is_signed(r->to) || cpu_act_parted(r->to) ? 127 : 255;
  const float scale = scale_of(r, i, first), zero = zero_of(r, i, first);
  const double step = step_of(r, i, first, end);
  check("scale", scale, step + unit / 2, 1e-6 * (step + unit) + unit / 2);
  assert_true(zero >= least && zero <= most && zero == rintf(zero));
  for (int64_t j = first; j < end; j++) {
    assert_true(code_of(r, i, j) <= most);
    /* half a step, and half a step where the shifted end of the range is cut */
    check("code", (float)((code_of(r, i, j) - (double)zero) * scale), r->x[i * r->ldx + j],
          1.001 * (step + unit));
  }
}

/* A parted block: steps are multiples of a 255th of the largest. */
static void check_parts(const rows *r, int64_t i, int64_t first, int64_t end) {
  double largest = 0;
  for (int64_t j = first; j < end; j += CPU_ACT_PART)
    largest = fmax(largest, step_of(r, i, j, j + CPU_ACT_PART < end ? j + CPU_ACT_PART : end));
  for (int64_t j = first; j < end; j += CPU_ACT_PART)
    check_block(r, i, j, j + CPU_ACT_PART < end ? j + CPU_ACT_PART : end,
                fmax(largest / CPU_ACT_MOST_STEP, 0x1p-126));
}

static void check_rows(const rows *r) {
  const int64_t block = cpu_act_blocked(r->to) ? cpu_act_block(r->to) : r->k + !r->k;
  for (int64_t i = 0; i < r->m; i++) {
    for (int64_t j = 0; j < r->k; j += block) {
      const int64_t end = j + block < r->k ? j + block : r->k;
      if (cpu_act_parted(r->to))
        check_parts(r, i, j, end);
      else
        check_block(r, i, j, end, 0);
    }
    for (int64_t j = r->k; j < cpu_act_padded(r->k); j++) assert_int_equal(code_of(r, i, j), 0);
  }
}

static void test_convert(void **state) {
  (void)state;
  for (int to = CPU_ACT_U8; to < CPU_ACT_COUNT; to++) {
    if (!kernels.convert[to]) continue;
    for (int i = 0; i < rounds(300); i++) {
      rows r =
          make_rows((cpu_act_format)to, pick(0, 5), pick(0, 9) ? pick(0, 200) : pick(900, 1200));
      convert(&r);
      check_rows(&r);
      release();
    }
  }
}

static void test_convert_special(void **state) {
  (void)state;
  const float cases[][3] = {{0, 0, 0},       {1e-45f, -1e-45f, 0}, {3e38f, -3e38f, 1}, {5, 5, 5},
                            {-5, -5, -5},    {INFINITY, 1, 2},     {1, -INFINITY, 2},  {1, NAN, 2},
                            {NAN, NAN, NAN}, {0x1p-126f, 0, -0.0f}};
  for (int to = CPU_ACT_U8; to < CPU_ACT_COUNT; to++)
    for (size_t c = 0; kernels.convert[to] && c < sizeof cases / sizeof *cases; c++)
      for (int k = 3; k < 80; k += 19) { /* the case at the end, in a tail and in a whole vector */
        rows r = make_rows((cpu_act_format)to, 1, k);
        memset(r.x, 0, (size_t)k * 4);
        memcpy(r.x + k - 3, cases[c], sizeof *cases);
        convert(&r);
        bool finite = true;
        for (int j = 0; j < 3; j++) finite = finite && isfinite(cases[c][j]);
        if (finite)
          check_rows(&r);
        else
          assert_true(isnan(scale_of(&r, 0, k - 1)) && !isnan(zero_of(&r, 0, k - 1)));
        release();
      }
}

/* ---- weights ---- */

typedef struct weights {
  accel_matrix m;
  cpu_matrix source;
  float *w; /* [n, k] */
} weights;

static uint8_t random_scale(uint8_t dtype) {
  return dtype == ACCEL_PLUGIN_E8M0 ? (uint8_t)pick(115, 130) : (uint8_t)pick(1, 0x7e);
}

static void fill_scales(const accel_plugin_format *f, void *to, uint64_t bytes) {
  uint8_t *p = to;
  for (uint64_t i = 0; i < bytes; i++) {
    const float value = (1.5f + noise()) / 50;
    const uint16_t half = accel_f32_to_fp16(value), brain = accel_f32_to_bf16(value);
    if (f->scale == ACCEL_PLUGIN_E8M0 || f->scale == ACCEL_PLUGIN_E4M3)
      p[i] = random_scale(f->scale);
    else if (f->scale == ACCEL_PLUGIN_F32 && i % 4 == 0)
      memcpy(p + i, &value, 4);
    else if (f->scale == ACCEL_PLUGIN_F16 && i % 2 == 0)
      memcpy(p + i, &half, 2);
    else if (f->scale == ACCEL_PLUGIN_BF16 && i % 2 == 0)
      memcpy(p + i, &brain, 2);
  }
}

static void *keep(const void *data, uint64_t bytes) {
  void *p = guard_bytes(bytes);
  if (bytes) memcpy(p, data, bytes);
  return p;
}

static weights make_weights(const accel_plugin_format *f, int64_t n, int64_t k) {
  weights w = {.m = {.format = *f, .n = n, .k = k}};
  accel_matrix_bytes bytes;
  assert_true(accel_matrix_sizes(f, n, k, &bytes));
  uint8_t *data = guard_bytes(bytes.data), *zero = guard_bytes(bytes.zero),
          *scale = guard_bytes(bytes.scale);
  const float outer = 0.37f;
  for (uint64_t i = 0; i < bytes.data; i++) data[i] = (uint8_t)(next_random() >> 16);
  for (uint64_t i = 0; i < bytes.zero; i++) zero[i] = (uint8_t)pick(0, 16);
  fill_scales(f, scale, bytes.scale);
  w.m.data = data;
  w.m.scale = scale;
  w.m.zero = bytes.zero ? zero : NULL;
  w.m.outer = bytes.outer ? keep(&outer, 4) : NULL;
  w.w = guard_bytes((uint64_t)(n * k) * 4);
  accel_matrix_rows(&w.m, 0, n, w.w);
  return w;
}

/* ---- products ---- */

typedef struct linear {
  accel_plugin_format format;
  int64_t n;
  rows x;
  weights w, gate;
  cpu_panel shape;
  int64_t panels, panel_bytes;
  char *packed;
  float *bias, *bias_gate, *residual;
  int act;
  bool glu;
} linear;

static const cpu_linear_kernel *kernel_of(const linear *t) {
  return &kernels.linear[t->shape.layout];
}

static void pack(linear *t) {
  const int64_t width = t->glu ? t->shape.cols / 2 : t->shape.cols;
  weights *part[2] = {&t->w, &t->gate};
  for (int i = 0; i < 2; i++)
    part[i]->source =
        (cpu_matrix){.format = &t->format,
                     .view = {part[i]->m.data, part[i]->m.scale, part[i]->m.zero, part[i]->m.outer},
                     .n = t->n,
                     .k = t->x.k};
  t->panels = (t->n + width - 1) / width;
  t->panel_bytes = (int64_t)cpu_panel_bytes(&t->shape);
  t->packed = guard_bytes((uint64_t)(t->panels * t->panel_bytes));
  memset(t->packed, 0x5a, (size_t)(t->panels * t->panel_bytes));
  for (int64_t p = 0; p < t->panels; p++) {
    cpu_column column[64];
    for (int64_t c = 0; c < t->shape.cols; c++) {
      const int64_t col = p * width + c % width;
      column[c] = col < t->n ? (cpu_column){&part[c >= width]->source, col} : (cpu_column){0};
    }
    cpu_panel_pack(&t->shape, column, t->packed + p * t->panel_bytes);
  }
}

static linear make_linear(const accel_plugin_format *f, int64_t m, int64_t n, int64_t k) {
  linear t = {.format = *f, .n = n};
  t.w = make_weights(f, n, k);
  t.shape = (cpu_panel){.layout = cpu_layout_of(&kernels, f), .kernels = &kernels, .k = k};
  assert_true(t.shape.layout == CPU_LAYOUT_I8 || t.shape.layout == CPU_LAYOUT_I4);
  t.shape.cols = kernel_of(&t)->cols;
  t.x = make_rows(cpu_act_format_beside(kernel_of(&t)->x, k, f->group_k), m, k);
  return t;
}

static void prepare(linear *t) { /* once its parts are decided */
  if (t->glu) t->gate = make_weights(&t->format, t->n, t->x.k);
  t->shape.format = &t->format;
  pack(t);
  convert(&t->x);
}

static cpu_gemm gemm_of(const linear *t, float *y) {
  return (cpu_gemm){.n = t->n,
                    .k = t->x.k,
                    .x = t->x.code,
                    .ldx = t->x.ld,
                    .x_scale = cpu_act_blocked(t->x.to) ? NULL : t->x.scale,
                    .x_zero = cpu_act_blocked(t->x.to) ? NULL : t->x.zero,
                    .w = t->packed,
                    .panel_bytes = t->panel_bytes,
                    .group = t->format.group_k,
                    .store = t->format.store,
                    .scale = t->format.scale,
                    .y = y,
                    .ldy = t->n,
                    .bias = t->bias,
                    .bias_gate = t->bias_gate,
                    .residual = t->residual,
                    .ldr = t->n,
                    .act = t->act,
                    .glu = t->glu,
                    .alpha = 1.702f};
}

static codes codes_of(const rows *x) {
  const size_t n = (size_t)(x->m * x->k) + 1;
  codes c = {malloc(n * sizeof *c.value), malloc(n * sizeof *c.size), malloc(n * sizeof *c.scale)};
  assert_true(c.value && c.size && c.scale);
  for (int64_t i = 0, at = 0; i < x->m; i++)
    for (int64_t k = 0; k < x->k; k++, at++) {
      const double code = code_of(x, i, k), zero = zero_of(x, i, k), scale = scale_of(x, i, k);
      c.value[at] = scale * (code - zero);
      c.size[at] = scale * (fabs(code) + fabs(zero));
      c.scale[at] = scale;
    }
  return c;
}

static void free_codes(codes *c) {
  free(c->value);
  free(c->size);
  free(c->scale);
}

/* One element in double: with the codes of x, and with x itself.  `size` gets the sum of the
 * magnitudes that are added up in fp32, `slack` how far the two may be apart. */
static double product(const linear *t, const codes *c, const weights *w, int64_t i, int64_t j,
                      double *exact, double *size, double *slack) {
  const rows *x = &t->x;
  double y = 0, of_x = 0, sizes = 0, steps = 0;
  for (int64_t k = 0, at = i * x->k; k < x->k; k++, at++) {
    const double v = w->w[j * x->k + k];
    y += c->value[at] * v;
    sizes += c->size[at] * fabs(v);
    of_x += (double)x->x[i * x->ldx + k] * v;
    steps += c->scale[at] * fabs(v);
  }
  *exact = of_x;
  *size = sizes;
  *slack = 1.001 * steps;
  return y;
}

/* Sums in fp32 that make an element: of blocks of x, or of groups of weights. */
static int64_t additions(const linear *t) {
  return t->format.store == ACCEL_PLUGIN_I8 ? cpu_act_blocks(t->x.to, t->x.k)
                                            : accel_groups(t->x.k, t->format.group_k);
}

static double activation(int act, double x) {
  switch (act) {
    case ACCEL_PLUGIN_ACT_RELU:
      return x < 0 ? 0 : x;
    case ACCEL_PLUGIN_ACT_GELU:
      return x * 0.5 * erfc(-x / sqrt(2));
    case ACCEL_PLUGIN_ACT_SILU:
      return x / (1 + exp(-x));
  }
  return x;
}

static void check_element(const linear *t, const codes *c, const float *y, int64_t i, int64_t j) {
  double exact, size, slack, gate_exact, gate_size = 0, gate_slack, want, gate = 0;
  want = product(t, c, &t->w, i, j, &exact, &size, &slack) + (t->bias ? t->bias[j] : 0);
  if (t->glu)
    gate = product(t, c, &t->gate, i, j, &gate_exact, &gate_size, &gate_slack) +
           (t->bias_gate ? t->bias_gate[j] : 0);
  /* each at most half a unit of the largest partial sum */
  const double rounding = (5 + (double)additions(t)) * 0x1p-24;
  const double error = rounding * (size + 1), gate_error = rounding * (gate_size + 1), up = want;
  want = t->glu ? activation(t->act, gate) * up : activation(t->act, up);
  const double rest = t->residual ? t->residual[i * t->n + j] : 0,
               bound = t->glu ? fabs(activation(t->act, gate)) * error +
                                    1.2 * (fabs(up) + error) * gate_error
                              : 1.2 * error;
  /* v_gelu_brief */
  const double brief_gelu = t->act == ACCEL_PLUGIN_ACT_GELU ? 1e-5 * (t->glu ? fabs(up) : 1) : 0;
  check("linear", y[i * t->n + j], want + rest, bound + brief_gelu + 1e-6 * fabs(want) + 1e-6);
  if (t->glu || t->act != ACCEL_PLUGIN_ACT_NONE) return;
  check("linear of x", y[i * t->n + j], exact + (t->bias ? t->bias[j] : 0) + rest,
        slack + bound + 1e-5);
}

/* All rows in one call; then single rows and some, with ranges of panels: the same bits. */
static void run_linear(const linear *t) {
  float *y = guard_bytes((uint64_t)(t->x.m * t->n) * 4),
        *part = guard_bytes((uint64_t)(t->x.m * t->n) * 4);
  cpu_gemm g = gemm_of(t, y);
  kernel_of(t)->run(&g, 0, t->x.m, 0, t->panels);
  codes c = codes_of(&t->x);
  for (int64_t i = 0; i<t->x.m; i += t->x.m> 40 ? 13 : 1)
    for (int64_t j = i % CHECK_EVERY; j < t->n; j += CHECK_EVERY * (t->n > 100 ? 7 : 1))
      check_element(t, &c, y, i, j);
  free_codes(&c);
  g = gemm_of(t, part);
  for (int step = 1; step < 10; step += 4) {
    for (int64_t i = 0; i < t->x.m; i += step)
      for (int64_t p = 0; p < t->panels; p += 3)
        kernel_of(t)->run(&g, i, i + step < t->x.m ? i + step : t->x.m, p,
                          p + 3 < t->panels ? p + 3 : t->panels);
    assert_int_equal(memcmp(y, part, (size_t)(t->x.m * t->n) * 4), 0);
  }
}

#define FORMAT(store, scale, zero, outer, group_k, group_n)                                \
  {                                                                                        \
    ACCEL_PLUGIN_##store, ACCEL_PLUGIN_##scale, ACCEL_PLUGIN_##zero, ACCEL_PLUGIN_##outer, \
        group_k, group_n                                                                   \
  }
static const accel_plugin_format formats[] = {
    FORMAT(I8, F32, NO_DTYPE, NO_DTYPE, 0, 1),  FORMAT(I8, BF16, NO_DTYPE, F32, 0, 0),
    FORMAT(I8, F16, NO_DTYPE, NO_DTYPE, 0, 5),  FORMAT(I8, F32, NO_DTYPE, NO_DTYPE, 128, 1),
    FORMAT(I8, BF16, NO_DTYPE, F32, 256, 3),    FORMAT(I8, F16, NO_DTYPE, NO_DTYPE, 384, 1),
    FORMAT(I4, F16, NO_DTYPE, NO_DTYPE, 64, 1), FORMAT(I4, BF16, NO_DTYPE, F32, 0, 1),
    FORMAT(I4, F32, NO_DTYPE, NO_DTYPE, 24, 3), FORMAT(U4, F16, U8, NO_DTYPE, 128, 1),
    FORMAT(U4, F16, U8, NO_DTYPE, 384, 1),      FORMAT(U4, F16, U8, NO_DTYPE, 8, 1),
    FORMAT(U4, F32, NO_DTYPE, NO_DTYPE, 32, 0), FORMAT(E2M1, E8M0, NO_DTYPE, NO_DTYPE, 32, 1),
    FORMAT(E2M1, E4M3, NO_DTYPE, F32, 16, 1),
};
enum { FORMATS = sizeof formats / sizeof *formats };

static void test_formats(void **state) {
  (void)state;
  for (int f = 0; f < FORMATS; f++)
    for (int i = 0; i < rounds(60); i++) {
      linear t = make_linear(&formats[f], pick(1, 40), pick(1, 70),
                             pick(0, 7) ? pick(1, 300) : pick(500, 900));
      t.act = (int[]){ACCEL_PLUGIN_ACT_NONE, ACCEL_PLUGIN_ACT_NONE, ACCEL_PLUGIN_ACT_RELU,
                      ACCEL_PLUGIN_ACT_GELU, ACCEL_PLUGIN_ACT_SILU}[pick(0, 4)];
      t.glu = pick(0, 3) == 0;
      if (pick(0, 1)) t.bias = filled(t.n), t.bias_gate = t.glu ? filled(t.n) : NULL;
      if (pick(0, 1)) t.residual = filled(t.x.m * t.n);
      prepare(&t);
      run_linear(&t);
      release();
    }
}

static void test_shapes(void **state) {
  (void)state;
  const int shapes[][3] = {{128, 200, 768}, {16, 1536, 384}, {1, 300, 3072},
                           {33, 64, 1536},  {300, 97, 64},   {3, 5, 4099}};
  for (int f = 0; f < FORMATS; f++)
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
      linear t = make_linear(&formats[f], shapes[i][0], shapes[i][1], shapes[i][2]);
      prepare(&t);
      run_linear(&t);
      release();
    }
}

/* An image of codes, each pixel with a scale and a zero, each line with one of both where blocks
 * reach over pixels. */
typedef struct image {
  int64_t high, wide, channels;
  uint8_t *code;
  float *scale, *zero;
} image;

static image make_image(cpu_act_format to, int64_t high, int64_t wide, int64_t channels,
                        bool lines) {
  image m = {high, wide, channels, NULL, filled(high * wide), filled(high * wide)};
  const int64_t n = high * wide * channels;
  m.code = guard_bytes((uint64_t)n + 63); /* what may be read behind */
  for (int64_t i = 0; i < n + 63; i++) m.code[i] = (uint8_t)pick(0, to == CPU_ACT_U7B ? 127 : 255);
  for (int64_t i = 0; i < high * wide; i++) {
    const bool again = lines && i % wide;
    m.scale[i] = again ? m.scale[i - 1] : 0.01f + fabsf(m.scale[i]);
    m.zero[i] = again ? m.zero[i - 1]
                      : (float)pick(is_signed(to) ? -128 : 0,
                                    is_signed(to) || to == CPU_ACT_U7B ? 127 : 255);
  }
  return m;
}

static double pixel_of(cpu_act_format to, const image *m, int64_t pixel, int64_t c) {
  const uint8_t code = m->code[pixel * m->channels + c];
  return (double)m->scale[pixel] * ((is_signed(to) ? (int8_t)code : code) - (double)m->zero[pixel]);
}

/* As an image of elements that are not negative. */
static void forget_zeros(image *m) {
  for (int64_t i = 0; i < m->high * m->wide; i++) m->zero[i] = 0;
}

/* What a kernel says that y[m][n] reaches: cpu_implicit_gemm.high. */
static void check_reach(const cpu_implicit_gemm *w, const float *y, int64_t m, int64_t n) {
  const int64_t lanes = kernels.vector;
  for (int64_t i = 0; i < m; i++) {
    float high = 0, low = 0, got_high = 0, got_low = 0;
    for (int64_t j = 0; j < n; j++)
      high = fmaxf(high, y[i * n + j]), low = fmaxf(low, -y[i * n + j]);
    for (int64_t v = 0; v < lanes; v++) {
      got_high = fmaxf(got_high, w->high[i * lanes + v]);
      if (w->low) got_low = fmaxf(got_low, w->low[i * lanes + v]);
    }
    assert_true(got_high == high);
    assert_true(!w->low || got_low == low);
  }
}

/* Windows of 2x3 pixels, stride 1 or 2, over an image, or of 1x1; with a residual, which is an
 * image as large as the result; with zeros or without, and with what y reaches. */
static void test_windows(void **state) {
  (void)state;
  for (int round = 0; round < rounds(80); round++) {
    const bool by_line = round % 2, single = round % 5 > 2,
               positive = round % 7 > 2 && !is_signed(kernels.linear[CPU_LAYOUT_I8].x);
    const int64_t stride = pick(1, 2), lines = pick(1, 3), line = pick(1, 37),
                  channels = pick(1, 40), n = pick(1, 70), taps = single ? 1 : 6,
                  k = taps * channels, m = lines * line, high = (lines - 1) * stride + 2,
                  wide = (line - 1) * stride + 3;
    linear t = make_linear(&formats[0], 1, n, k);
    const cpu_act_format to = kernel_of(&t)->x;
    image x = make_image(to, high, wide, channels, by_line),
          r = make_image(to, lines, line, n, false);
    if (positive) forget_zeros(&x), forget_zeros(&r);
    int64_t x_at[6], scale_at[6];
    for (int b = 0; b < (single ? 1 : by_line ? 2 : 6); b++) {
      scale_at[b] = by_line ? b * wide : b / 3 * wide + b % 3;
      x_at[b] = scale_at[b] * channels;
    }
    cpu_implicit_gemm w = {line,
                           stride * wide * channels,
                           by_line && !single ? 3 * channels : channels,
                           x_at,
                           x.scale,
                           positive ? NULL : x.zero,
                           stride,
                           stride * wide,
                           scale_at,
                           round % 3 ? r.code : NULL,
                           r.scale,
                           positive ? NULL : r.zero,
                           round % 6 ? 0 : 16,
                           round % 3 ? 16 : 0,
                           round % 4 ? r.code : NULL,
                           NULL,
                           NULL,
                           0};
    t.shape.block = w.block;
    t.bias = filled(n);
    t.act =
        (int[]){ACCEL_PLUGIN_ACT_NONE, ACCEL_PLUGIN_ACT_RELU, ACCEL_PLUGIN_ACT_GELU}[pick(0, 2)];
    if (pick(0, 3)) {
      w.high = guard(m * kernels.vector);
      if (t.act != ACCEL_PLUGIN_ACT_RELU) w.low = guard(m * kernels.vector);
    }
    prepare(&t);
    float *y = guard(m * n), *again = guard(m * n);
    cpu_gemm g = gemm_of(&t, y);
    g.x = x.code, g.ldx = stride * channels, g.implicit_gemm = &w;
    kernel_of(&t)->run(&g, 0, m, 0, t.panels);
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = i % CHECK_EVERY; j < n; j += CHECK_EVERY) {
        double want = t.bias[j] + (w.residual ? pixel_of(to, &r, i, j) : 0), size = fabs(want);
        for (int64_t v = 0; v < k; v++) {
          const int64_t tap = v / channels,
                        pixel = (i / line * stride + tap / 3) * wide + i % line * stride + tap % 3;
          const double at = pixel_of(to, &x, pixel, v % channels) * (double)t.w.w[j * k + v];
          want += at,
              size += fabs(at) + 256 * (double)x.scale[pixel] * fabs((double)t.w.w[j * k + v]);
        }
        /* what is below 0 may be left as it is */
        const bool later = w.high && t.act == ACCEL_PLUGIN_ACT_RELU;
        const double got = later ? fmax(0, y[i * n + j]) : y[i * n + j];
        check("windows", got, activation(t.act, want), 1e-6 * size + 1e-5);
      }
    if (w.high) {
      check_reach(&w, y, m, n);
    }
    g.y = again;
    for (int64_t l = 0; l < lines; l++)
      for (int64_t p = 0; p < t.panels; p++)
        kernel_of(&t)->run(&g, l * line, (l + 1) * line, p, p + 1);
    assert_int_equal(memcmp(y, again, (size_t)(m * n) * 4), 0);
    release();
  }
}

/* Rows of a line whose k lie in parts that are apart in x, and overlap other rows'. */
static void test_parts(void **state) {
  (void)state;
  for (int round = 0; round < 20; round++) {
    const int64_t part = round % 2 ? 64 : 8 * pick(1, 5), parts = pick(1, 7), k = part * parts,
                  m = pick(1, 40), n = pick(1, 70), ldx = pick(1, 9),
                  wide = (m - 1) * ldx + part + pick(0, 9), zero_at = 0;
    int64_t part_at[7];
    for (int i = 0; i < parts; i++) part_at[i] = i * wide;
    linear t = make_linear(&formats[0], 1, n, k);
    const cpu_act_format to = kernel_of(&t)->x;
    image x = make_image(to, parts, 1, wide, true);
    cpu_implicit_gemm w = {.line = m,
                           .block = k,
                           .x_at = part_at,
                           .scale = x.scale,
                           .zero = x.zero,
                           .scale_at = &zero_at};
    w.part = part;
    t.shape.block = k;
    prepare(&t);
    float *y = guard(m * n);
    cpu_gemm g = gemm_of(&t, y);
    g.x = x.code, g.ldx = ldx, g.implicit_gemm = &w;
    kernel_of(&t)->run(&g, 0, m, 0, t.panels);
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) {
        double want = 0, size = 0;
        for (int64_t v = 0; v < k; v++) {
          const uint8_t code = x.code[v / part * wide + i * ldx + v % part];
          const double at = (double)x.scale[0] *
                            ((is_signed(to) ? (int8_t)code : code) - (double)x.zero[0]),
                       weight = (double)t.w.w[j * k + v];
          want += at * weight, size += (256 * (double)x.scale[0] + fabs(at)) * fabs(weight);
        }
        check("parts", y[i * n + j], want, 1e-6 * size + 1e-5);
      }
    release();
  }
}

static void test_special(void **state) {
  (void)state;
  for (int f = 0; f < FORMATS; f++) {
    linear t = make_linear(&formats[f], 9, 40, 70);
    t.x.x[2 * t.x.ldx + 5] = NAN; /* these rows alone are NaN */
    t.x.x[4 * t.x.ldx + 69] = -INFINITY;
    memset(t.x.x + 6 * t.x.ldx, 0, 70 * 4); /* this one zero */
    prepare(&t);
    float *y = guard_bytes(9 * 40 * 4);
    cpu_gemm g = gemm_of(&t, y);
    kernel_of(&t)->run(&g, 0, 9, 0, t.panels);
    /* signed codes of a zero are not 0: two roundings of the smallest scale may stay */
    const float rest = is_signed(kernel_of(&t)->x) ? 0x1p-110f : 0;
    for (int i = 0; i < 9 * 40; i++) {
      assert_int_equal(isnan(y[i]) != 0, i / 40 == 2 || i / 40 == 4);
      if (i / 40 == 6) assert_true(fabsf(y[i]) <= rest);
    }
    release();
    t = make_linear(&formats[f], 3, 5, 0); /* no columns of x: the bias alone */
    t.bias = filled(5);
    prepare(&t);
    run_linear(&t);
    g = gemm_of(&t, NULL);
    kernel_of(&t)->run(&g, 0, 0, 0, 1); /* no rows, no panels: nothing is touched */
    kernel_of(&t)->run(&g, 0, 3, 1, 1);
    release();
  }
}

/* Largest codes of both sides, largest zeros beside codes 0 and beside largest codes: no sum
 * overflows or saturates. */
static void test_extremes(void **state) {
  (void)state;
  for (int f = 0; f < FORMATS; f++)
    for (int sign = 0; sign < 2; sign++) {
      linear t = make_linear(&formats[f], 5, 33, 4096);
      for (int64_t i = 0; i < 5; i++)
        for (int64_t k = 0; k < 4096; k++)
          t.x.x[i * t.x.ldx + k] = i % 3 == 0                            ? 1.0f
                                   : i % 3 == 1 || k % CPU_ACT_PART == 0 ? -1.0f
                                                                         : 0.0f;
      accel_matrix_bytes bytes;
      assert_true(accel_matrix_sizes(&t.format, t.n, t.x.k, &bytes));
      memset((void *)(uintptr_t)t.w.m.data,
             t.format.store == ACCEL_PLUGIN_I8 ? (sign ? 0x80 : 0x7f)
             : sign                            ? 0x88
                                               : 0x77,
             bytes.data);
      if (t.format.store == ACCEL_PLUGIN_U4)
        memset((void *)(uintptr_t)t.w.m.data, sign ? 0x00 : 0xff, bytes.data);
      if (bytes.zero) memset((void *)(uintptr_t)t.w.m.zero, sign ? 16 : 0, bytes.zero);
      accel_matrix_rows(&t.w.m, 0, t.n, t.w.w);
      prepare(&t);
      run_linear(&t);
      release();
    }
}

static void test_refused(void **state) {
  (void)state;
  const accel_plugin_format others[] = {
      FORMAT(I8, F32, I8, NO_DTYPE, 0, 1), FORMAT(I8, F32, NO_DTYPE, NO_DTYPE, 64, 1),
      FORMAT(I4, F16, NO_DTYPE, NO_DTYPE, 36, 1), FORMAT(I4, F16, U8, NO_DTYPE, 64, 1)};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    assert_int_equal(cpu_layout_of(&kernels, &others[i]), CPU_LAYOUT_F32);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_convert), cmocka_unit_test(test_convert_special),
      cmocka_unit_test(test_formats), cmocka_unit_test(test_shapes),
      cmocka_unit_test(test_special), cmocka_unit_test(test_extremes),
      cmocka_unit_test(test_refused), cmocka_unit_test(test_windows),
      cmocka_unit_test(test_parts),
  };
  cpu_isa list[CPU_ISA_COUNT];
  int failures = 0;
  for (int i = 0, n = cpu_isa_list(list); i < n; i++) {
    seed = 12345;
    cpu_kernels_of(list[i], &kernels);
    if (!kernels.linear[CPU_LAYOUT_I8].run) continue;
    failures += cmocka_run_group_tests_name(cpu_isa_name(list[i]), tests, NULL, NULL);
  }
  return failures;
}
