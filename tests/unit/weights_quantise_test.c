/* weights_quantise_test.c - quantise on load: every format against what its definition allows, the
 * searches against abs-max scaling, edges, faults, threads, and what sources hand out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config.h"
#include "unit/temp.h"
#include "weights/quantise.h"
#include "weights/source.h"

#define DTYPE(x) ACCEL_PLUGIN_##x
#define FORMAT(store, scale, zero, outer, k, n) \
  { DTYPE(store), DTYPE(scale), DTYPE(zero), DTYPE(outer), k, n }
static const accel_plugin_format all_formats[] = {
    FORMAT(F32, NO_DTYPE, NO_DTYPE, NO_DTYPE, 0, 0),
    FORMAT(F16, NO_DTYPE, NO_DTYPE, NO_DTYPE, 0, 0),
    FORMAT(BF16, NO_DTYPE, NO_DTYPE, NO_DTYPE, 0, 0),
    FORMAT(I8, F32, NO_DTYPE, NO_DTYPE, 0, 1),
    FORMAT(I8, F32, NO_DTYPE, NO_DTYPE, 32, 1),
    FORMAT(I8, F16, NO_DTYPE, NO_DTYPE, 0, 0),
    FORMAT(I4, F16, NO_DTYPE, NO_DTYPE, 32, 1),
    FORMAT(I4, F16, NO_DTYPE, NO_DTYPE, 64, 1),
    FORMAT(I4, F32, NO_DTYPE, NO_DTYPE, 7, 1),
    FORMAT(I4, BF16, NO_DTYPE, NO_DTYPE, 0, 1),
    FORMAT(I4, F16, NO_DTYPE, NO_DTYPE, 16, 4),
    FORMAT(U4, F16, U8, NO_DTYPE, 32, 1),
    FORMAT(U4, F16, U8, NO_DTYPE, 128, 1),
    FORMAT(U4, F16, U8, NO_DTYPE, 5, 3),
    FORMAT(E4M3, F32, NO_DTYPE, NO_DTYPE, 0, 1),
    FORMAT(E4M3, F32, NO_DTYPE, NO_DTYPE, 0, 0),
    FORMAT(E4M3, F32, NO_DTYPE, NO_DTYPE, 128, 128),
    FORMAT(E5M2, F32, NO_DTYPE, NO_DTYPE, 0, 1),
    FORMAT(E4M3, E8M0, NO_DTYPE, NO_DTYPE, 32, 1),
    FORMAT(E2M1, E8M0, NO_DTYPE, NO_DTYPE, 32, 1),
    FORMAT(E2M1, E4M3, NO_DTYPE, F32, 16, 1),
    FORMAT(E2M1, F32, NO_DTYPE, NO_DTYPE, 32, 1),
};
enum { FORMATS = sizeof all_formats / sizeof *all_formats };

typedef struct matrix {
  const float *x;
  int64_t n, k;
} matrix;

static accel_status read_matrix(const void *user, int64_t first, int64_t count, float *out) {
  const matrix *m = user;
  memcpy(out, m->x + first * m->k, (size_t)(count * m->k) * sizeof *out);
  return ACCEL_OK;
}
static const char *name_matrix(const void *user, int64_t row) {
  static char name[40];
  (void)user;
  snprintf(name, sizeof name, "row %d of w", (int)row);
  return name;
}

static accel_status quantise(const accel_plugin_format *f, const float *x, int64_t n, int64_t k,
                             accel__pool *pool, accel__quantised *q) {
  const matrix m = {x, n, k};
  if (accel__quantised_new(f, n, k, q) != ACCEL_OK) fail_msg("%s", accel__message());
  return accel__quantise(&(accel__values){.read = read_matrix, .name = name_matrix, .user = &m},
                         pool, q);
}

static float *normal(int64_t elements, uint64_t seed, float sigma) {
  float *x = malloc((size_t)elements * sizeof *x + 1);
  for (int64_t i = 0; i < elements; i++) {
    double sum = -6; /* of twelve uniform numbers: close to normal */
    for (int j = 0; j < 12; j++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      sum += (double)(seed >> 40) * 0x1p-24;
    }
    x[i] = (float)sum * sigma;
  }
  return x;
}

/* ---- what any encoder must do ---- */

/* All values that codes of a store stand for, in ascending order. */
static int code_values(uint8_t store, float *out) {
  static const float e2m1[] = {-6, -4, -3, -2, -1.5f, -1, -0.5f, 0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  int n = 0;
  if (store == DTYPE(E2M1)) {
    memcpy(out, e2m1, sizeof e2m1);
    return 15;
  }
  for (int c = 0; c < 256; c++) {
    float v = store == DTYPE(E4M3) ? accel_e4m3_to_f32((uint8_t)c) : accel_e5m2_to_f32((uint8_t)c);
    if (isfinite(v)) out[n++] = v;
  }
  return n;
}

/* With the scale and zero that were chosen, no other code is nearer (but for rounding of the
 * quotient). */
static void check_nearest(const accel__quantised *q, const float *x) {
  float value[256];
  const accel_plugin_format *f = &q->format;
  const bool floats = f->store == DTYPE(E4M3) || f->store == DTYPE(E5M2) || f->store == DTYPE(E2M1);
  const int codes = floats ? code_values(f->store, value) : 0;
  const float outer = q->outer ? *(const float *)q->outer : 1.0f;
  float *row = malloc((size_t)q->k * sizeof *row + 1);
  for (int64_t r = 0; r < q->n; r++) {
    accel__dequantise_rows(q, r, 1, row);
    for (int64_t i = 0; i < q->k; i++) {
      const int64_t g = (f->group_n ? r / f->group_n : 0) * accel_groups(q->k, f->group_k) +
                        (f->group_k ? i / f->group_k : 0);
      const float scale = accel_scale_at(f->scale, q->scale, g) * outer, w = x[r * q->k + i];
      const int zero = q->zero ? ((uint8_t *)q->zero)[g] : 0;
      const float off = fabsf(row[i] - w);
      float least = INFINITY;
      if (floats)
        for (int c = 0; c < codes; c++) least = fminf(least, fabsf(value[c] * scale - w));
      else
        for (int c = f->store == DTYPE(U4)   ? 0
                     : f->store == DTYPE(I4) ? -8
                                             : -127;
             c <= (f->store == DTYPE(U4)   ? 15
                   : f->store == DTYPE(I4) ? 7
                                           : 127);
             c++)
          least = fminf(least, fabsf((float)(c - zero) * scale - w));
      if (!(off <= least + 1e-5f * fabsf(scale) + 2e-6f * fabsf(w)))
        fail_msg("store %u scale %u: w[%d,%d] = %.9g became %.9g, another code is %.9g off",
                 f->store, f->scale, (int)r, (int)i, (double)w, (double)row[i], (double)least);
    }
  }
  free(row);
}

static void every_code_is_the_nearest(void **state) {
  (void)state;
  static const int64_t shapes[][2] = {{1, 1},     {3, 5},     {5, 33},  {4, 64},
                                      {130, 257}, {2, 40000}, {700, 96}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    const int64_t n = shapes[s][0], k = shapes[s][1];
    float *x = normal(n * k, s + 1, 0.02f);
    for (int f = 0; f < FORMATS; f++) {
      accel__quantised q;
      if (quantise(&all_formats[f], x, n, k, NULL, &q) != ACCEL_OK)
        fail_msg("%s", accel__message());
      if (!accel_format_plain(&q.format)) check_nearest(&q, x);
      accel__quantised_free(&q);
    }
    free(x);
  }
}

static double squared_error(const accel_plugin_format *f, const float *x, int64_t n, int64_t k) {
  accel__quantised q;
  double sum = 0;
  float *row = malloc((size_t)k * sizeof *row);
  assert_int_equal(quantise(f, x, n, k, NULL, &q), ACCEL_OK);
  for (int64_t r = 0; r < n; r++) {
    accel__dequantise_rows(&q, r, 1, row);
    for (int64_t i = 0; i < k; i++)
      sum += ((double)row[i] - x[r * k + i]) * ((double)row[i] - x[r * k + i]);
  }
  free(row);
  accel__quantised_free(&q);
  return sum;
}

/* Abs-max (zero 0) or min-max (with a zero), worked out here. */
static double plain_error(const float *x, int64_t elements, int64_t group, bool with_zero) {
  double sum = 0;
  for (int64_t at = 0; at < elements; at += group) {
    float low = 0, high = 0;
    for (int64_t i = at; i < at + group; i++) {
      low = fminf(low, x[i]);
      high = fmaxf(high, x[i]);
    }
    const float scale = with_zero ? (high - low) / 15 : fmaxf(high, -low) / 7,
                zero = with_zero ? rintf(-low / scale) : 0;
    for (int64_t i = at; i < at + group; i++) {
      float q = rintf(x[i] / scale) + zero;
      q = with_zero ? fminf(fmaxf(q, 0), 15) : fminf(fmaxf(q, -7), 7);
      sum += ((double)((q - zero) * scale) - x[i]) * ((double)((q - zero) * scale) - x[i]);
    }
  }
  return sum;
}

/* MX: the power of two by the exponent of the largest alone, as the OCP paper converts. */
static double mx_error(const float *x, int64_t elements) {
  double sum = 0;
  for (int64_t at = 0; at < elements; at += 32) {
    float peak = 0;
    for (int i = 0; i < 32; i++) peak = fmaxf(peak, fabsf(x[at + i]));
    const float scale = exp2f(floorf(log2f(peak)) - 2);
    for (int i = 0; i < 32; i++) {
      const double off =
          (double)(accel_e2m1_to_f32(accel_f32_to_e2m1(x[at + i] / scale)) * scale) - x[at + i];
      sum += off * off;
    }
  }
  return sum;
}

static void searches_beat_plain_scales(void **state) {
  (void)state;
  enum { N = 64, K = 512 };
  float *x = normal(N * K, 5, 0.05f);
  const accel_plugin_format i4 = FORMAT(I4, F16, NO_DTYPE, NO_DTYPE, 32, 1),
                            u4 = FORMAT(U4, F16, U8, NO_DTYPE, 32, 1),
                            mx = FORMAT(E2M1, E8M0, NO_DTYPE, NO_DTYPE, 32, 1);
  const double gain_i4 = squared_error(&i4, x, N, K) / plain_error(x, N * K, 32, false),
               gain_u4 = squared_error(&u4, x, N, K) / plain_error(x, N * K, 32, true),
               gain_mx = squared_error(&mx, x, N, K) / mx_error(x, N * K);
  if (gain_i4 > 0.75 || gain_u4 > 0.93 || gain_mx > 0.95)
    fail_msg("squared errors of plain scales: int4 %.3f, uint4 %.3f, mx %.3f", gain_i4, gain_u4,
             gain_mx);
  free(x);
}

/* Numbers that lie on a lattice of codes come back as they are. */
static void lattices_survive(void **state) {
  (void)state;
  enum { K = 64 };
  static const accel_plugin_format i4 = FORMAT(I4, F16, NO_DTYPE, NO_DTYPE, 32, 1),
                                   u4 = FORMAT(U4, F16, U8, NO_DTYPE, 32, 1),
                                   mx = FORMAT(E2M1, E8M0, NO_DTYPE, NO_DTYPE, 32, 1),
                                   i8 = FORMAT(I8, F32, NO_DTYPE, NO_DTYPE, 0, 1);
  static const accel_plugin_format *format[] = {&i4, &u4, &mx, &i8};
  static const float e2m1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (int f = 0; f < 4; f++) {
    float x[K], back[K];
    for (int i = 0; i < K; i++) {
      static const float step = 0.375f;
      const int c = i * 7 % 16;
      x[i] = f == 0   ? (float)(c - 8) * step
             : f == 1 ? (float)(c - 3) * step
             : f == 2 ? e2m1[c % 8] * (c < 8 ? 0.25f : -0.25f)
                      : (float)(i * 37 % 255 - 127) * step;
    }
    if (f == 3) x[0] = 127 * 0.375f;
    accel__quantised q;
    assert_int_equal(quantise(format[f], x, 1, K, NULL, &q), ACCEL_OK);
    accel__dequantise_rows(&q, 0, 1, back);
    for (int i = 0; i < K; i++)
      if (fabsf(back[i] - x[i]) > 1e-3f * fabsf(x[i]))
        fail_msg("store %u: %.9g became %.9g", format[f]->store, (double)x[i], (double)back[i]);
    accel__quantised_free(&q);
  }
}

/* ---- edges ---- */

static void zeros_constants_and_denormals(void **state) {
  (void)state;
  enum { N = 6, K = 67 };
  float x[N * K], back[K];
  for (int f = 0; f < FORMATS; f++) {
    if (all_formats[f].group_n != 1) continue; /* rows of unlike sizes share no scale */
    for (int i = 0; i < N * K; i++) {
      const float rows[N] = {0, 0.7f, -0.7f, FLT_MIN / 8, 3e4f, -0.0f};
      x[i] = rows[i / K];
    }
    accel__quantised q;
    if (quantise(&all_formats[f], x, N, K, NULL, &q) != ACCEL_OK)
      fail_msg("format %d: %s", f, accel__message());
    for (int r = 0; r < N; r++) {
      accel__dequantise_rows(&q, r, 1, back);
      for (int i = 0; i < K; i++) {
        const float w = x[r * K + i],
                    bound = r == 3 ? FLT_MIN
                                   : fabsf(w) * (all_formats[f].store == DTYPE(E2M1)   ? 0.2f
                                                 : all_formats[f].scale == DTYPE(E8M0) ? 0.06f
                                                                                       : 0.01f);
        /* tiny beside 3e4 */
        if (!(fabsf(back[i] - w) <= bound) && !(all_formats[f].outer == DTYPE(F32) && fabsf(w) < 1))
          fail_msg("format %d: %.9g became %.9g", f, (double)w, (double)back[i]);
      }
    }
    accel__quantised_free(&q);
  }
}

static void extremes_of_floats(void **state) {
  (void)state;
  float x[64], back[64];
  static const float sizes[] = {1e-29f, 1e-20f, 1e20f, 1e38f};
  for (size_t s = 0; s < 4; s++) {
    for (int i = 0; i < 64; i++) x[i] = (float)(i - 32) / 16 * sizes[s];
    for (int f = 0; f < FORMATS; f++) {
      if (all_formats[f].group_n != 1 ||
          (all_formats[f].scale != DTYPE(F32) && all_formats[f].scale != DTYPE(E8M0)))
        continue;
      accel__quantised q;
      if (quantise(&all_formats[f], x, 1, 64, NULL, &q) != ACCEL_OK)
        fail_msg("format %d: %s", f, accel__message());
      accel__dequantise_rows(&q, 0, 1, back);
      for (int i = 0; i < 64; i++)
        if (!(fabsf(back[i] - x[i]) <= 0.4f * sizes[s]))
          fail_msg("format %d: %.9g became %.9g", f, (double)x[i], (double)back[i]);
      accel__quantised_free(&q);
    }
  }
}

static void nothing_at_all(void **state) {
  (void)state;
  for (int f = 0; f < FORMATS; f++)
    for (int empty = 0; empty < 2; empty++) {
      accel__quantised q;
      assert_int_equal(quantise(&all_formats[f], NULL, empty ? 0 : 3, empty ? 5 : 0, NULL, &q),
                       ACCEL_OK);
      assert_int_equal(q.bytes.data, 0);
      accel__dequantise_rows(&q, 0, q.n, NULL);
      accel__quantised_free(&q);
    }
}

static void refused(const accel_plugin_format *f, float bad, const char *words) {
  enum { N = 300, K = 100 };
  float *x = normal(N * K, 9, 0.02f);
  accel__quantised q;
  x[211 * K + 99] = bad;
  x[257 * K] = bad;
  accel_status status = quantise(f, x, N, K, NULL, &q);
  if (status != ACCEL_ERROR_FORMAT || !strstr(accel__message(), "row 211 of w") ||
      !strstr(accel__message(), words))
    fail_msg("status %d: %s", (int)status, accel__message());
  assert_true(accel__remedy_text()[0]);
  accel__quantised_free(&q);
  free(x);
}

static void what_codes_cannot_hold(void **state) {
  (void)state;
  for (int f = 3; f < FORMATS; f++) {
    if (all_formats[f].group_n != 1 && all_formats[f].group_n != 0 && all_formats[f].group_n != 4)
      continue;
    if (all_formats[f].group_n == 1) {
      refused(&all_formats[f], NAN, "NaN or infinity");
      refused(&all_formats[f], -INFINITY, "NaN or infinity");
    }
  }
  refused(&all_formats[6], 3e6f, "too large");
  for (int f = 0; f < 3; f++) { /* plain formats pass them on */
    const float x[3] = {NAN, INFINITY, -INFINITY};
    float back[3];
    accel__quantised q;
    assert_int_equal(quantise(&all_formats[f], x, 1, 3, NULL, &q), ACCEL_OK);
    accel__dequantise_rows(&q, 0, 1, back);
    assert_true(isnan(back[0]) && back[1] == INFINITY && back[2] == -INFINITY);
    accel__quantised_free(&q);
  }
  accel__quantised q;
  const accel_plugin_format unknown = FORMAT(F64, NO_DTYPE, NO_DTYPE, NO_DTYPE, 0, 0),
                            imported = FORMAT(I8, F32, U8, NO_DTYPE, 0, 1);
  assert_int_equal(accel__quantised_new(&unknown, 1, 1, &q), ACCEL_ERROR_UNSUPPORTED);
  assert_null(q.block);
  assert_int_equal(accel__quantised_new(&all_formats[0], INT64_MAX / 2, 16, &q),
                   ACCEL_ERROR_FORMAT);
  assert_int_equal(accel__quantised_new(&all_formats[6], -1, 16, &q), ACCEL_ERROR_FORMAT);
  assert_false(accel__quantise_known(&imported));
  accel__fault_arm("weight_buffer");
  assert_int_equal(accel__quantised_new(&all_formats[6], 4, 64, &q), ACCEL_ERROR_OUT_OF_MEMORY);
  accel__fault_arm(NULL);
  assert_null(q.block);
}

/* ---- threads ---- */

static void threads_do_not_matter(void **state) {
  (void)state;
  enum { N = 2100, K = 321 }; /* many tasks, and tails everywhere */
  float *x = normal((int64_t)N * K, 77, 0.02f);
  accel__pool *pool;
  assert_int_equal(accel__pool_create_exactly(4, &pool), ACCEL_OK);
  for (int f = 0; f < FORMATS; f++) {
    accel__quantised one, four;
    assert_int_equal(quantise(&all_formats[f], x, N, K, NULL, &one), ACCEL_OK);
    assert_int_equal(quantise(&all_formats[f], x, N, K, pool, &four), ACCEL_OK);
    assert_int_equal(one.block_bytes, four.block_bytes);
    assert_memory_equal(one.block, four.block, one.block_bytes);
    assert_int_equal(
        (uintptr_t)one.scale % 64 + (uintptr_t)one.zero % 64 + (uintptr_t)one.outer % 64, 0);
    accel__quantised_free(&one);
    accel__quantised_free(&four);
  }
  accel__pool_destroy(&pool);
  free(x);
}

/* ---- through a source ---- */

static accel__source *open_source(const accel__source_weight *w, uint32_t n,
                                  const accel__checkpoint *c, const accel_plugin_format *formats) {
  accel__source *s;
  if (accel__source_new(w, n, &(accel__source_from){.checkpoint = c, .seed = 3}, formats, &s) !=
      ACCEL_OK)
    fail_msg("%s", accel__message());
  return s;
}

/* The same codes whether a weight is joined from parts, cut out, derived, random, or given
 * whole. */
static accel_status twice(const void *user, const float *const *parts, const int64_t *n,
                          uint32_t n_parts, float *out) {
  (void)user, (void)n_parts;
  for (int64_t i = 0; i < n[0]; i++) out[i] = parts[0][i] * 2;
  return ACCEL_OK;
}

static void codes_of_sources(void **state) {
  (void)state;
  enum { K = 45 };
  float *x = normal(40 * K, 3, 0.02f), *doubled = malloc(40 * K * sizeof *doubled);
  for (int i = 0; i < 40 * K; i++) doubled[i] = x[i] * 2;
  const accel__tensor_info tensors[] = {
      {.name = "whole", .dtype = DTYPE(F32), .rank = 2, .dim = {40, K}, .data = x},
      {.name = "up", .dtype = DTYPE(F32), .rank = 2, .dim = {13, K}, .data = x},
      {.name = "low", .dtype = DTYPE(F32), .rank = 2, .dim = {27, K}, .data = x + 13 * K},
  };
  accel__checkpoint *c;
  assert_int_equal(accel__safetensors_write(temp_path("q.safetensors"), tensors, 3, NULL, 0),
                   ACCEL_OK);
  assert_int_equal(accel__checkpoint_open(temp_path("q.safetensors"), &c), ACCEL_OK);
  for (int f = 3; f < FORMATS; f++) {
    const accel_plugin_format formats[] = {all_formats[f], all_formats[f], all_formats[f],
                                           all_formats[f]};
    const accel__source_weight w[] = {
        {.name = "whole", .rank = 2, .dim = {40, K}},
        {.name = "joined", .rank = 2, .dim = {40, K}, .parts = {"up", "low"}, .n_parts = 2},
        {.name = "cut",
         .rank = 2,
         .dim = {27, K},
         .parts = {"whole"},
         .n_parts = 1,
         .first_row = 13,
         .stored_rows = 40},
        {.name = "derived",
         .rank = 2,
         .dim = {40, K},
         .parts = {"whole"},
         .n_parts = 1,
         .derive = twice}};
    accel__source *s = open_source(w, 4, c, formats);
    const float *expected[] = {x, x, x + 13 * K, doubled};
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < 4; i++) {
      accel__quantised q;
      accel_plugin_weight_view view;
      assert_int_equal(quantise(&all_formats[f], expected[i], w[i].dim[0], K, NULL, &q), ACCEL_OK);
      if (accel__source_map(s, i, &view) != ACCEL_OK) fail_msg("%s", accel__message());
      assert_memory_equal(view.data, q.data, q.bytes.data);
      assert_memory_equal(view.scale, q.scale, q.bytes.scale);
      if (q.zero) assert_memory_equal(view.zero, q.zero, q.bytes.zero);
      if (q.outer) assert_memory_equal(view.outer, q.outer, q.bytes.outer);
      bytes += q.bytes.data + q.bytes.scale + q.bytes.zero + q.bytes.outer;
      accel__source_unmap(s, i);
      accel__quantised_free(&q);
    }
    assert_int_equal(accel__source_bytes(s), bytes);
    accel__source_free(&s);
  }
  accel__checkpoint_close(&c);
  free(x);
  free(doubled);
}

/* A convolution's row is its output channel, a mixture's rows are all but the last dim. */
static void rows_of_sources(void **state) {
  (void)state;
  const accel__source_weight w[] = {
      {.name = "conv", .use = ACCEL_PLUGIN_USE_CONV, .rank = 4, .dim = {6, 5, 3, 3}},
      {.name = "moe", .use = ACCEL_PLUGIN_USE_MOE, .rank = 3, .dim = {4, 6, 32}}};
  const accel_plugin_format formats[] = {all_formats[3], all_formats[6]};
  accel__source *s = open_source(w, 2, NULL, formats);
  accel_plugin_weight_view view;
  assert_int_equal(accel__source_bytes(s), 6 * 45 + 6 * 4 + 24 * 16 + 24 * 2);
  assert_int_equal(accel__source_map(s, 0, &view), ACCEL_OK);
  for (int o = 0; o < 6; o++) { /* random values: every row reaches +-127 */
    int largest = 0;
    for (int i = 0; i < 45; i++)
      largest = abs(((const int8_t *)view.data)[o * 45 + i]) > largest
                    ? abs(((const int8_t *)view.data)[o * 45 + i])
                    : largest;
    assert_int_equal(largest, 127);
  }
  assert_int_equal(accel__source_map(s, 1, &view), ACCEL_OK);
  assert_non_null(view.scale);
  accel__source_free(&s);
}

static void sources_name_bad_tensors(void **state) {
  (void)state;
  float x[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, NAN, 11, 12};
  const accel__tensor_info tensors[] = {
      {.name = "good", .dtype = DTYPE(F32), .rank = 2, .dim = {2, 3}, .data = x},
      {.name = "bad", .dtype = DTYPE(F32), .rank = 2, .dim = {2, 3}, .data = x + 6}};
  const accel__source_weight w = {
      .name = "both", .rank = 2, .dim = {4, 3}, .parts = {"good", "bad"}, .n_parts = 2};
  accel__checkpoint *c;
  accel_plugin_weight_view view;
  assert_int_equal(accel__safetensors_write(temp_path("n.safetensors"), tensors, 2, NULL, 0),
                   ACCEL_OK);
  assert_int_equal(accel__checkpoint_open(temp_path("n.safetensors"), &c), ACCEL_OK);
  accel__source *s = open_source(&w, 1, c, &all_formats[3]);
  assert_int_equal(accel__source_map(s, 0, &view), ACCEL_ERROR_FORMAT);
  if (!strstr(accel__message(), "weight 'both': bad: holds NaN")) fail_msg("%s", accel__message());
  assert_null(view.data);
  accel__source_free(&s);
  accel__checkpoint_close(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_code_is_the_nearest), cmocka_unit_test(searches_beat_plain_scales),
      cmocka_unit_test(lattices_survive),          cmocka_unit_test(zeros_constants_and_denormals),
      cmocka_unit_test(extremes_of_floats),        cmocka_unit_test(nothing_at_all),
      cmocka_unit_test(what_codes_cannot_hold),    cmocka_unit_test(threads_do_not_matter),
      cmocka_unit_test(codes_of_sources),          cmocka_unit_test(rows_of_sources),
      cmocka_unit_test(sources_name_bad_tensors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
