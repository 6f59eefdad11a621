/* cpu_attention_test.c - attention kernels on every instruction set of this machine against plain
 * loops in double: all keys packed, tile by tile, and streamed past few rows; in one piece and in
 * pages; fp32, fp16, bf16 and int8. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu_guard.h"
#include "formats/bf16.h"
#include "formats/fp16.h"

typedef struct attention {
  cpu_attention a;
  int64_t rows;
  float *rel_k, *rel_q; /* row-major [relative rows][dk] */
  int64_t relative_rows;
  bool bf16; /* factors are rounded to it; not beside relative rows */
} attention;

/* ---- what is expected ---- */

/* Element d of a row of keys or values. */
static double element(const cpu_attention *a, const char *row, int64_t scale_at, int64_t d) {
  float scale;
  if (a->kv == ACCEL_PLUGIN_F32) return ((const float *)row)[d];
  if (a->kv == ACCEL_PLUGIN_I8)
    return memcpy(&scale, row + scale_at, sizeof scale), (double)scale * ((const int8_t *)row)[d];
  uint16_t bits = ((const uint16_t *)row)[d];
  return a->kv == ACCEL_PLUGIN_F16 ? accel_fp16_to_f32(bits) : accel_bf16_to_f32(bits);
}

/* What is multiplied for x. */
static double factor(const attention *t, double x) {
  return t->bf16 ? (double)accel_bf16_to_f32(accel_f32_to_bf16((float)x)) : x;
}

/* Rows of q, keys and values as they are multiplied. */
typedef struct factors {
  double *q, *k, *v; /* [rows][dk], [keys][dk], [keys][dv] */
} factors;

static factors factors_of(const attention *t) {
  const cpu_attention *a = &t->a;
  factors f = {malloc(((size_t)(t->rows * a->dk) + 1) * sizeof *f.q),
               malloc(((size_t)(a->keys * a->dk) + 1) * sizeof *f.k),
               malloc(((size_t)(a->keys * a->dv) + 1) * sizeof *f.v)};
  assert_true(f.q && f.k && f.v);
  for (int64_t i = 0; i < t->rows; i++)
    for (int64_t c = 0; c < a->dk; c++) f.q[i * a->dk + c] = factor(t, a->q[i * a->ldq + c]);
  for (int64_t j = 0; j < a->keys; j++) {
    const char *key = cpu_key_at(a, j), *value = cpu_value_at(a, j);
    for (int64_t c = 0; c < a->dk; c++)
      f.k[j * a->dk + c] = factor(t, element(a, key, a->k_scale, c));
    for (int64_t d = 0; d < a->dv; d++)
      f.v[j * a->dv + d] = factor(t, element(a, value, a->v_scale, d));
  }
  return f;
}

static void free_factors(factors *f) {
  free(f->q);
  free(f->k);
  free(f->v);
}

static double dot(const double *x, const double *y, int64_t n) {
  double sum = 0;
  for (int64_t c = 0; c < n; c++) sum += x[c] * y[c];
  return sum;
}

static int64_t ahead(const cpu_attention *a, int64_t i, int64_t j) {
  return a->key_position ? (int64_t)a->key_position[j] - a->query_position[i]
                         : j - i * a->step - a->shift;
}

static bool sees(const attention *t, int64_t i, int64_t j) {
  const cpu_attention *a = &t->a;
  int64_t d = ahead(a, i, j);
  return !(a->left >= 0 && -d > a->left) && !(a->right >= 0 && d > a->right) &&
         !(a->mask && j >= a->mask_from && !a->mask[j - a->mask_from]);
}

static double score(const attention *t, const factors *f, int64_t i, int64_t j) {
  const cpu_attention *a = &t->a;
  const double *q = f->q + i * a->dk, *k = f->k + j * a->dk;
  double s = a->scale * dot(q, k, a->dk), side = 0;
  int64_t d = ahead(a, i, j);
  if (a->softcap > 0) s = a->softcap * tanh(s / a->softcap);
  if (a->bias) s += a->bias[i * a->bias_row + j * a->bias_column];
  if (a->relative) s += a->relative[j - i + a->relative_origin];
  if (a->distance) s += a->distance[(d < -a->far ? -a->far : d > a->far ? a->far : d) + a->far];
  if (a->slope != 0) s += (double)a->slope * (double)d;
  if (a->relative_row) {
    int64_t r = a->relative_row[i - j + a->relative_origin] - a->relative_first;
    for (int64_t c = 0; c < a->dk; c++) {
      if (t->rel_k) side += q[c] * t->rel_k[r * a->dk + c];
      if (t->rel_q) side += k[c] * t->rel_q[r * a->dk + c];
    }
    s += a->scale * side;
  }
  return s;
}

/* Scores of row i over keys from .. keys-1 as exponentials beside *most, which grows; answers their
 * sum. */
static double weights(const attention *t, const factors *f, int64_t i, int64_t from, double *w,
                      double *most) {
  double sum = 0;
  for (int64_t j = from; j < t->a.keys; j++) {
    w[j] = sees(t, i, j) ? score(t, f, i, j) : -INFINITY;
    *most = fmax(*most, w[j]);
  }
  for (int64_t j = from; j < t->a.keys; j++)
    sum += w[j] = w[j] == -INFINITY ? 0 : exp(w[j] - *most);
  return sum;
}

/* Values of keys from .. keys-1, each times its weight, as a row y of dv. */
static void weighted_values(const attention *t, const factors *f, const double *w, int64_t from,
                            double *y) {
  const cpu_attention *a = &t->a;
  for (int64_t d = 0; d < a->dv; d++) y[d] = 0;
  for (int64_t j = from; j < a->keys; j++)
    for (int64_t d = 0; d < a->dv; d++) y[d] += w[j] * f->v[j * a->dv + d];
}

static void check_attention(const attention *t) {
  const cpu_attention *a = &t->a;
  factors f = factors_of(t);
  double *w = malloc(((size_t)a->keys + 1) * sizeof *w), *y = malloc((size_t)a->dv * sizeof *y);
  assert_true(w && y);
  for (int64_t i = 0; i < t->rows; i += CHECK_EVERY) {
    double most = a->sinks ? a->sinks[i * a->sink_step] : -INFINITY, sink = most;
    double sum = weights(t, &f, i, 0, w, &most) + (sink > -INFINITY ? exp(sink - most) : 0);
    for (int64_t j = 0; j < a->keys; j++) w[j] = sum > 0 ? w[j] / sum : 0;
    weighted_values(t, &f, w, 0, y);
    for (int64_t d = 0; d < a->dv; d++) /* weights are rounded, too */
      check("attention", a->y[i * a->ldy + d], y[d], t->bf16 ? 0x1p-8 : 2e-5);
    for (int64_t j = 0; a->probs && j < a->probs_columns; j++)
      check("probabilities", a->probs[i * a->ldp + j], j < a->keys ? w[j] : 0, 1e-5);
  }
  free(w);
  free(y);
  free_factors(&f);
}

/* ---- operands ---- */

static int32_t *positions(int64_t n, int base, int step) {
  int32_t *p = guard(n);
  for (int64_t i = 0; i < n; i++) p[i] = base += pick(1, step);
  return p;
}

static float *pack_relative(const float *w, int64_t rows, int64_t dk, int64_t columns) {
  float *packed = guard(columns * dk);
  for (int64_t c = 0; c < columns; c += kernels.vector) {
    int64_t have = rows - c < 0 ? 0 : rows - c < kernels.vector ? rows - c : kernels.vector;
    kernels.pack(have ? w + c * dk : w, dk, have, dk,
                 packed + c / kernels.panel_cols * kernels.panel_cols * dk + c % kernels.panel_cols,
                 kernels.panel_cols);
  }
  return packed;
}

enum {
  PLAIN,
  CAUSAL,
  WINDOW,
  DENSE,
  DENSE_ROW,
  RELATIVE,
  DISTANCE,
  EXPLICIT,
  ALIBI,
  MASKED,
  SINK,
  CAPPED,
  HIDDEN,
  PROBABILITIES,
  DISENTANGLED, /* from here on all keys are one tile */
  KINDS
};

static void add_kind(attention *t, int kind) {
  cpu_attention *a = &t->a;
  int64_t longest = t->rows > a->keys ? t->rows : a->keys;
  switch (kind) {
    case CAUSAL:
      a->right = 0;
      a->shift = pick(0, 1) ? a->keys - t->rows : pick(-3, 9);
      break;
    case WINDOW:
      a->left = pick(0, 9);
      a->right = pick(0, 9);
      a->shift = pick(-9, 9);
      break;
    case DENSE:
      a->bias = filled(t->rows * a->keys);
      a->bias_row = a->keys;
      a->bias_column = 1;
      break;
    case DENSE_ROW:
      a->bias = filled(a->keys);
      a->bias_column = 1;
      break;
    case RELATIVE:
      a->relative = filled(2 * longest);
      a->relative_origin = longest;
      break;
    case DISTANCE:
      a->far = 7;
      a->distance = filled(15);
      a->shift = pick(-5, 20);
      break;
    case EXPLICIT:
      a->query_position = positions(t->rows, 5, 3);
      a->key_position = positions(a->keys, 0, 4);
      a->slope = -0.02f;
      a->left = pick(0, 1) ? 20 : -1;
      a->right = 0;
      break;
    case ALIBI:
      a->slope = 0.01f;
      a->shift = pick(-5, 20);
      a->step = pick(0, 1);
      break;
    case MASKED: {
      a->mask_from = pick(0, 1) ? 0 : pick(0, (int)a->keys - 1);
      int32_t *mask = guard(a->keys - a->mask_from);
      for (int64_t j = 0; j < a->keys - a->mask_from; j++) mask[j] = pick(0, 2) != 0;
      a->mask = mask;
      break;
    }
    case SINK:
      a->sink_step = pick(0, 1);
      a->sinks = filled(a->sink_step ? t->rows : 1);
      break;
    case CAPPED:
      a->softcap = 2.5f;
      break;
    case PROBABILITIES:
      a->probs_columns = a->ldp = a->keys + 2;
      a->probs = guard(t->rows * a->ldp);
      break;
    case DISENTANGLED: {
      int32_t *row = guard(2 * longest);
      t->relative_rows = 9;
      for (int64_t d = 0; d < 2 * longest; d++)
        row[d] = 3 + (int32_t)(d * t->relative_rows / (2 * longest));
      a->relative_row = row;
      a->relative_origin = longest;
      a->relative_first = 3;
      a->relative_columns =
          (t->relative_rows + kernels.panel_cols - 1) / kernels.panel_cols * kernels.panel_cols;
      int which = pick(1, 3);
      if (which & 1)
        a->rel_k = pack_relative(t->rel_k = filled(t->relative_rows * a->dk), t->relative_rows,
                                 a->dk, a->relative_columns);
      if (which & 2)
        a->rel_q = pack_relative(t->rel_q = filled(t->relative_rows * a->dk), t->relative_rows,
                                 a->dk, a->relative_columns);
      break;
    }
    case HIDDEN: { /* nothing is seen: zeros */
      int32_t *mask = guard(a->keys);
      memset(mask, 0, (size_t)a->keys * 4);
      a->mask = mask;
      break;
    }
  }
}

/* n elements of dtype kv */
static void *narrow(int kv, int64_t n) {
  float *x = filled(n);
  if (kv == ACCEL_PLUGIN_F32) return x;
  if (kv == ACCEL_PLUGIN_I8) {
    int8_t *code = guard_bytes((size_t)n);
    for (int64_t i = 0; i < n; i++) code[i] = (int8_t)lrintf(127.0f * x[i]);
    return code;
  }
  uint16_t *y = guard_bytes((size_t)n * 2);
  for (int64_t i = 0; i < n; i++)
    y[i] = kv == ACCEL_PLUGIN_F16 ? accel_f32_to_fp16(x[i]) : accel_f32_to_bf16(x[i]);
  return y;
}

/* Of int8 rows, each row's own. */
static void *with_scales(void *rows, int64_t n, int64_t ld, int64_t at) {
  for (int64_t i = 0; i < n; i++) {
    float scale = 0.01f * noise();
    memcpy((char *)rows + i * ld + at, &scale, sizeof scale);
  }
  return rows;
}

static void add_keys(attention *t, int kv, bool paged, int64_t gap) {
  cpu_attention *a = &t->a;
  const int64_t size = cpu_kv_bytes(kv), scale = kv == ACCEL_PLUGIN_I8 ? 4 : 0;
  a->kv = kv;
  a->ldk = a->dk + gap + scale;
  a->ldv = a->dv + gap + scale;
  a->k_scale = a->dk;
  a->v_scale = a->dv;
  if (!paged) {
    a->k = narrow(kv, a->keys ? (a->keys - 1) * a->ldk + a->dk + scale : 0);
    a->v = narrow(kv, a->keys ? (a->keys - 1) * a->ldv + a->dv + scale : 0);
    if (scale) with_scales((void *)a->k, a->keys, a->ldk, a->k_scale);
    if (scale) with_scales((void *)a->v, a->keys, a->ldv, a->v_scale);
    return;
  }
  static void *page[256];
  const int64_t rows = CPU_PAGE_ROWS << (gap % 2 ? 2 : 0);
  a->page = page;
  a->page_shift = __builtin_ctzll((uint64_t)rows);
  a->k_offset = gap * size;
  a->v_offset = (rows * a->ldk + 2 * gap) * size;
  for (int64_t p = 0; p * rows < a->keys; p++) {
    page[p] = narrow(kv, rows * (a->ldk + a->ldv) + 2 * gap);
    if (scale) with_scales((char *)page[p] + a->k_offset, rows, a->ldk, a->k_scale);
    if (scale) with_scales((char *)page[p] + a->v_offset, rows, a->ldv, a->v_scale);
  }
}

static bool whole_pages; /* from a row of q to the next */

static attention make(int64_t rows, int64_t keys, int64_t dk, int64_t dv, int kv, bool paged,
                      int kind) {
  int64_t gap = pick(0, 5);
  attention t = {.rows = rows};
  t.a = (cpu_attention){.ldq = dk + gap,
                        .ldy = dv + gap,
                        .keys = keys,
                        .dk = dk,
                        .dv = dv,
                        .scale = 0.7f,
                        .step = 1,
                        .left = -1,
                        .right = -1};
  if (whole_pages) t.a.ldq = (dk + 1023) / 1024 * 1024;
  t.a.q = filled((rows - 1) * t.a.ldq + dk);
  t.a.y = guard((rows - 1) * t.a.ldy + dv);
  add_keys(&t, kv, paged, gap);
  add_kind(&t, kind);
  return t;
}

static cpu_attention_plan plan_of(const attention *t) {
  const cpu_attention *a = &t->a;
  const cpu_attention_form form = !t->bf16 || !kernels.tile_registers ? CPU_ATTENTION_PLAIN
                                  : a->page ? CPU_ATTENTION_REGISTERS_PAGES
                                            : CPU_ATTENTION_REGISTERS;
  return cpu_attention_layout(a->keys, a->dk, a->dv, a->relative_columns,
                              a->probs || a->relative_row, form, kernels.tile_rows,
                              kernels.panel_cols);
}

/* ---- tests ---- */

static void run_kernel(cpu_attention_fn *run, bool bf16, int64_t rows, int64_t keys, int64_t dk,
                       int64_t dv, int kv, bool paged, int kind) {
  attention t = make(rows, keys, dk, dv, kv, paged, kind);
  t.bf16 = bf16;
  cpu_attention_plan plan = plan_of(&t);
  float *workspace = guard(plan.all);
  run(&t.a, 0, rows, workspace);
  check_attention(&t);
  /* in two calls, wherever they meet: the same bits */
  float *again = guard((rows - 1) * t.a.ldy + dv), *first = t.a.y;
  const int64_t middle = pick(0, (int)rows - 1);
  t.a.y = again;
  run(&t.a, middle, rows, workspace);
  if (middle) run(&t.a, 0, middle, workspace);
  for (int64_t i = 0; i < rows; i++)
    assert_int_equal(memcmp(first + i * t.a.ldy, again + i * t.a.ldy, (size_t)dv * 4), 0);
  release();
}

static void run_attention(int64_t rows, int64_t keys, int64_t dk, int64_t dv, int kv, bool paged,
                          int kind) {
  run_kernel(kernels.attention, false, rows, keys, dk, dv, kv, paged, kind);
  if (kernels.attention_bf16 && kind != DISENTANGLED &&
      (!kernels.tile_registers || dk >= CPU_ATTENTION_DEPTH))
    run_kernel(kernels.attention_bf16, true, rows, keys, dk, dv, kv, paged, kind);
}

static int dtype_of(int i) {
  return (int[]){ACCEL_PLUGIN_F32, ACCEL_PLUGIN_F16, ACCEL_PLUGIN_BF16, ACCEL_PLUGIN_I8}[i % 4];
}

static void test_attention(void **state) {
  (void)state;
  for (int i = 0; i < rounds(30); i++)
    for (int kind = 0; kind < KINDS; kind++)
      run_attention(pick(1, 70), pick(1, 70), pick(1, 40), pick(1, 40),
                    kind < DISENTANGLED ? dtype_of(i) : ACCEL_PLUGIN_F32,
                    kind < DISENTANGLED && pick(0, 1), kind);
  for (int kind = 0; kind < KINDS; kind++) {
    run_attention(128, 128, 64, 64, ACCEL_PLUGIN_F32, false, kind);
    run_attention(16, 16, 32, 32, ACCEL_PLUGIN_F32, false, kind);
    run_attention(300, 311, 32, 48, ACCEL_PLUGIN_F32, false, kind);
    run_attention(1, 1, 1, 1, ACCEL_PLUGIN_F32, false, kind);
  }
  run_attention(5, 0, 8, 8, ACCEL_PLUGIN_F32, false, PLAIN);
  run_attention(5, 0, 8, 8, ACCEL_PLUGIN_F16, true, SINK);
}

/* Rows of q in one set of the first-level cache. */
static void test_whole_pages(void **state) {
  (void)state;
  whole_pages = true;
  for (int kind = 0; kind < KINDS; kind++)
    run_attention(pick(1, 70), pick(1, 70), pick(1, 40), 24, ACCEL_PLUGIN_F32, false, kind);
  run_attention(40, 600, 64, 64, ACCEL_PLUGIN_F32, false, CAUSAL); /* more keys than a tile */
  whole_pages = false;
}

/* More keys than a tile. */
static void test_long(void **state) {
  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    bool simple = kind < DISENTANGLED;
    run_attention(7, 513, 16, 24, simple ? dtype_of(kind) : ACCEL_PLUGIN_F32, simple, kind);
    /* more rows than a block */
    if (kind <= WINDOW) run_attention(460, 600, 8, 8, dtype_of(kind), kind > 0, kind);
    run_attention(130, 1100, 20, 7, simple ? dtype_of(kind + 1) : ACCEL_PLUGIN_F32,
                  simple && kind % 2, kind);
    run_attention(1, 1537, 64, 64, simple ? dtype_of(kind + 2) : ACCEL_PLUGIN_F32, simple, kind);
    /* tile registers keep queries, and tiles of keys are packed together */
    run_attention(40, 1100, 40, 40, simple ? dtype_of(kind) : ACCEL_PLUGIN_F32, simple, kind);
  }
  /* more tiles than are packed together, and more rows than a block */
  run_attention(20, 2100, 200, 150, ACCEL_PLUGIN_F32, false, PLAIN);
  run_attention(460, 1300, 200, 130, ACCEL_PLUGIN_F32, false, CAUSAL);
}

static void test_decode(void **state) {
  (void)state;
  for (int i = 0; i < 12; i++)
    for (int kind = 0; kind < PROBABILITIES; kind++) {
      attention t = make(pick(1, 3), i < 6 ? pick(1, 150) : pick(200, 900), pick(1, 80),
                         pick(1, 150), dtype_of(i), pick(0, 1), kind);
      kernels.decode(&t.a, 0, t.rows);
      check_attention(&t);
      release();
    }
  attention t = make(2, 0, 8, 8, ACCEL_PLUGIN_F16, true, SINK);
  kernels.decode(&t.a, 0, 2);
  check_attention(&t);
  release();
}

/* Heads of one query row, which go past the keys together: as many as there are kernels for, and
 * more. */
static void test_heads(void **state) {
  (void)state;
  for (int i = 0; i < 22; i++) {
    attention t = make(2 + i % 11, pick(1, 700), pick(1, i < 18 ? 140 : 600), pick(1, 280),
                       dtype_of(i), i < 12, i % 3 ? PLAIN : SINK);
    t.a.step = 0;
    kernels.decode(&t.a, 0, t.rows);
    check_attention(&t);
    release();
  }
}

/* Sum of differences between y of t, which `other` becomes, and what it was. */
static double moved(const attention *t, float *other, void (*run)(const attention *t)) {
  const int64_t n = (t->rows - 1) * t->a.ldy + t->a.dv;
  double sum = 0;
  memcpy(other, t->a.y, (size_t)n * sizeof *other);
  run(t);
  for (int64_t i = 0; i < t->rows; i++)
    for (int64_t d = 0; d < t->a.dv; d++)
      sum += fabs((double)other[i * t->a.ldy + d] - t->a.y[i * t->a.ldy + d]);
  return sum;
}

static void decode_bf16(const attention *t) { kernels.decode_bf16(&t->a, 0, t->rows); }
static void decode_exactly(const attention *t) { kernels.decode(&t->a, 0, t->rows); }

/* What the ISA multiplies as bf16: rows at once and streamed past are rounded alike, to the order
 * of sums (which moves what lies between two bf16 to the other side, rarely). */
static void test_decode_bf16(void **state) {
  (void)state;
  double apart = 0, rounding = 0;
  for (int i = 0; kernels.decode_bf16 && i < 12; i++)
    for (int kind = 0; kind < PROBABILITIES; kind++) {
      const bool heads = i % 2 && (kind == PLAIN || kind == SINK);
      attention t =
          make(pick(1, heads ? 11 : 3), pick(1, i < 6 ? 150 : 900), 32 * pick(1, i == 3 ? 16 : 4),
               32 * pick(1, 9), ACCEL_PLUGIN_BF16, pick(0, 1), kind);
      if (heads) t.a.step = 0;
      t.bf16 = true;
      assert_true(cpu_decodes_bf16(&kernels, &t.a));
      kernels.attention_bf16(&t.a, 0, t.rows, guard(plan_of(&t).all));
      float *other = guard((t.rows - 1) * t.a.ldy + t.a.dv);
      apart += moved(&t, other, decode_bf16);
      check_attention(&t);
      rounding += moved(&t, other, decode_exactly);
      ((float *)t.a.q)[0] = NAN; /* is not hidden */
      decode_bf16(&t);
      assert_true(kind != PLAIN || isnan(t.a.y[0]));
      release();
    }
  if (kernels.decode_bf16)
    check("difference between rows at once and one by one", apart / rounding, 0, 0.003);
}

/* A range of keys: largest score, sum of exponentials and values, sinks left out. */
static void check_part(const attention *t, const float *part) {
  const cpu_attention *a = &t->a;
  factors f = factors_of(t);
  double *w = malloc((size_t)a->keys * sizeof *w), *y = malloc((size_t)a->dv * sizeof *y);
  assert_true(w && y);
  for (int64_t i = 0; i < t->rows; i++, part += 2 + a->dv) {
    double most = -INFINITY, sum = weights(t, &f, i, a->first, w, &most);
    check("part's top", part[0], most, 1e-5);
    check("part's sum", part[1], sum, 1e-5 * (1 + sum));
    weighted_values(t, &f, w, a->first, y);
    for (int64_t d = 0; d < a->dv; d++) check("part", part[2 + d], y[d], 2e-5 * (1 + sum));
  }
  free(w);
  free(y);
  free_factors(&f);
}

static void test_parts(void **state) {
  (void)state;
  const int kinds[] = {PLAIN, CAUSAL, WINDOW, ALIBI, SINK, CAPPED, MASKED};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    for (int few = 0; few < 2; few++) {
      attention t = make(few ? 2 : 9, 1400, 32, 40, dtype_of((int)k), true, kinds[k]);
      float *part = t.a.part = guard(t.rows * (2 + t.a.dv));
      t.a.first = CPU_ATTENTION_KEYS;
      if (kinds[k] == CAUSAL) t.a.shift = 700; /* keys on both sides */
      if (few)
        kernels.decode(&t.a, 0, t.rows);
      else
        kernels.attention(&t.a, 0, t.rows, guard(plan_of(&t).all));
      check_part(&t, part);
      release();
    }
}

/* Heads as a state keeps them: halves as their formats round, codes within half a step of what they
 * stand for. */
static void check_stored(int dtype, const float *x, int64_t n, const char *y) {
  float scale = 0;
  if (dtype == ACCEL_PLUGIN_I8) memcpy(&scale, y + (n + 3) / 4 * 4, sizeof scale);
  for (int64_t i = 0; i < n; i++) {
    const uint16_t want =
        dtype == ACCEL_PLUGIN_F16 ? accel_f32_to_fp16(x[i]) : accel_f32_to_bf16(x[i]);
    if (dtype == ACCEL_PLUGIN_F32) assert_memory_equal(y + 4 * i, x + i, 4);
    if (cpu_kv_bytes(dtype) == 2) assert_memory_equal(y + 2 * i, &want, 2);
    if (dtype == ACCEL_PLUGIN_I8)
      check("code", scale * (float)((const int8_t *)y)[i], x[i], 0.501 * scale);
  }
}

static void test_store(void **state) {
  (void)state;
  for (int64_t n = 1; n < 140; n += n < 40 ? 1 : 7)
    for (int i = 0; i < 4; i++) {
      const int dtype = dtype_of(i);
      float *x = filled(n), scale;
      char *y = guard_bytes(
          (size_t)(dtype == ACCEL_PLUGIN_I8 ? (n + 3) / 4 * 4 + 4 : n * cpu_kv_bytes(dtype)));
      if (n > 2) x[n - 1] = -0.0f, x[n / 2] = 1e-41f, x[0] = 3e5f;
      kernels.store(dtype, x, n, y);
      check_stored(dtype, x, n, y);
      memset(x, 0, (size_t)n * sizeof *x);
      kernels.store(dtype, x, n, y);
      check_stored(dtype, x, n, y);
      x[n - 1] = NAN;
      kernels.store(dtype, x, n, y);
      if (dtype == ACCEL_PLUGIN_I8)
        assert_true(isnan((memcpy(&scale, y + (n + 3) / 4 * 4, sizeof scale), scale)));
      if (dtype == ACCEL_PLUGIN_BF16) check_stored(dtype, x, n, y);
      release();
    }
}

/* What is taken for up to `keys` keys holds every head of fewer, one tile or not. */
static void test_floats(void **state) {
  (void)state;
  const int64_t rows = kernels.tile_rows, columns = kernels.panel_cols;
  for (int dim = 8; dim <= 128; dim *= 4)
    for (int kind = 0; kind < 6; kind++) {
      const int whole = kind & 1;
      const cpu_attention_form form = (cpu_attention_form)(kind >> 1);
      int64_t most = 0;
      for (int64_t keys = 1; keys < 4 * CPU_ATTENTION_KEYS; keys++) {
        for (int one = 0; one <= whole; one++) {
          const int64_t all = cpu_attention_layout(keys, dim, dim, 0, one, form, rows, columns).all;
          if (all > most) most = all;
        }
        assert_true(cpu_attention_floats(keys, dim, dim, 0, whole, form, rows, columns) >= most);
      }
    }
}

static void test_special(void **state) {
  (void)state;
  float q[4] = {1, 2, 3, 4}, k[4] = {1, -1, NAN, 1}, v[4] = {1, 2, 3, 4}, y[4], workspace[8192];
  cpu_attention a = {.q = q,
                     .k = k,
                     .v = v,
                     .y = y,
                     .kv = ACCEL_PLUGIN_F32,
                     .ldq = 2,
                     .ldk = 2,
                     .ldv = 2,
                     .ldy = 2,
                     .keys = 2,
                     .dk = 2,
                     .dv = 2,
                     .scale = 1,
                     .step = 1,
                     .left = -1,
                     .right = -1};
  assert_true(plan_of(&(attention){.a = a}).all <= 8192);
  for (int few = 0; few < 2; few++) {
    q[0] = 1;
    q[2] = 3;
    k[2] = NAN;
    few ? kernels.decode(&a, 0, 2) : kernels.attention(&a, 0, 2, workspace);
    assert_true(isnan(y[0]) && isnan(y[3])); /* NaN is not hidden */
    k[2] = 1e30f;
    q[0] = q[2] = 1e10f; /* infinite score */
    few ? kernels.decode(&a, 0, 2) : kernels.attention(&a, 0, 2, workspace);
    assert_true(isnan(y[0]));
    k[2] = 1e-42f; /* denormals */
    q[0] = q[2] = 1e-41f;
    few ? kernels.decode(&a, 0, 2) : kernels.attention(&a, 0, 2, workspace);
    assert_true(y[0] >= 1 && y[0] <= 3);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_attention),   cmocka_unit_test(test_long),
      cmocka_unit_test(test_decode),      cmocka_unit_test(test_heads),
      cmocka_unit_test(test_parts),       cmocka_unit_test(test_store),
      cmocka_unit_test(test_special),     cmocka_unit_test(test_whole_pages),
      cmocka_unit_test(test_decode_bf16), cmocka_unit_test(test_floats),
  };
  CPU_GUARD_RUN(tests);
}
