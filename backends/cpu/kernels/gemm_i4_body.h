/* gemm_i4_body.h - linear over four-bit weights (i4.h), included by gemm_i4_<isa>.c.
 *
 * Few rows take the codes apart in registers.  For more, the codes of some blocks of a panel are
 * first written out as bytes, which all rows then read.  Sums of a block are integers; total =
 * scale * sum + total in ascending order in both.
 *
 * dot_<isa>.h adds for this
 *   i_low, i_high(w)         the nibbles of w as bytes
 *   i_less(a, b)             a - b of bytes
 *   i_values(codes)          twice the value of E2M1 codes
 *   i_each(p), i_bytes(x)    V bytes, or the byte x, four times each or everywhere
 *   v_half, v_e8m0, v_e4m3   V scales; E4M3 as 2^-8 times their value */
#include <stdbool.h>

#include "kernels/kernels.h"
#include "kernels/i4.h"
#include "kernels/math_body.h"
#include "kernels/dot_body.h"
#include "kernels/tile_body.h"

/* Where codes of few rows are asked to.  Into the first-level cache on AMD's processors
 * (docs/performance.md: Zen 4 reads a quarter to a half more of them); files for processors where
 * that was not measured say otherwise. */
#if !defined(I4_PREFETCH)
#define I4_PREFETCH(p) v_prefetch(p)
#endif
#if V_REGISTERS >= 16 && GEMM_VECS <= 2
#define FEW_ROWS 8
#else
#define FEW_ROWS 4
#endif

enum {
  /* rows whose sums of all columns fit the registers */
  FEW_WHOLE = V_REGISTERS >= 32 ? FEW_ROWS : 4,
  /* bytes that codes are asked for before their use */
  FAR = 4096,
  HEAD = 2 * GEMM_COLS * (int)sizeof(float),
  BLOCKS = CPU_I4_BLOCK / 8, /* written out at once, at most */
  TILES = 140 / GEMM_ROWS    /* that read them */
};

V_INLINE vf scales(uint8_t dtype, const char *p, int64_t j) {
  switch (dtype) {
    case ACCEL_PLUGIN_F16:
      return v_half(p + 2 * j);
    case ACCEL_PLUGIN_E8M0:
      return v_e8m0(p + j);
    case ACCEL_PLUGIN_E4M3:
      return v_e4m3(p + j);
  }
  return v_load((const float *)(const void *)p + j);
}

/* ---- codes ---- */

/* What the codes of a vector of columns of a block are relative to. */
V_INLINE vi zeros_of(const int store, const cpu_i4 *l, const char *block, int j) {
  return store == ACCEL_PLUGIN_U4 ? i_each(block + l->scale_bytes * GEMM_COLS + j * V) : i_bytes(8);
}
V_INLINE vi value_of(const int store, vi codes, vi zero) {
  return store == ACCEL_PLUGIN_E2M1 ? i_values(codes) : i_less(codes, zero);
}

/* ---- few rows ---- */

/* Columns [vec V, (vec + vecs) V) of a panel; prefetch: also what is read
 * FAR bytes later. */
V_INLINE void few(const int store, const int rows, const int vecs, const int vec,
                  const bool prefetch, const cpu_gemm *g, int64_t row, const char *panel,
                  float *tile) {
  const cpu_i4 l = cpu_i4_layout((uint8_t)store, g->scale, g->group, GEMM_COLS);
  const char *block = panel + HEAD;
  const uint8_t *x[2] = {(const uint8_t *)g->x + row * g->ldx,
                         (const uint8_t *)g->x + (row + (rows > 4 ? 4 : 0)) * g->ldx};
  int64_t ldx = g->ldx, ldx3 = 3 * g->ldx;
  vf total[FEW_ROWS][GEMM_VECS];
  MICRO_UNROLL for (int i = 0; i < rows; i++) {
    MICRO_UNROLL for (int j = 0; j < vecs; j++) { total[i][j] = v_zero(); }
  }
  for (int64_t k = 0; k < g->k; k += l.block) {
    const int64_t steps = ((g->k - k < l.block ? g->k - k : l.block) + 7) / 8;
    const char *w = block + l.side;
    vi sum[FEW_ROWS][GEMM_VECS], zero[GEMM_VECS];
    MICRO_UNROLL for (int j = 0; j < vecs; j++) {
      zero[j] = zeros_of(store, &l, block, vec + j);
      MICRO_UNROLL for (int i = 0; i < rows; i++) { sum[i][j] = i_zero(); }
    }
    if (prefetch) I4_PREFETCH(block + FAR);
    for (int64_t s = 0; s < steps; s++, w += DOT_STEP) {
      vi low[GEMM_VECS], high[GEMM_VECS];
      DOT_KEEP(ldx);
      DOT_KEEP(ldx3);
      MICRO_UNROLL for (int j = 0; prefetch && j < DOT_STEP; j += 64) { I4_PREFETCH(w + FAR + j); }
      MICRO_UNROLL for (int j = 0; j < vecs; j++) {
        const vi codes = i_load(w + (vec + j) * 4 * V);
        low[j] = value_of(store, i_low(codes), zero[j]);
        high[j] = value_of(store, i_high(codes), zero[j]);
      }
      MICRO_UNROLL for (int i = 0; i < rows; i++) {
        const uint8_t *at = x[i / 4] + (i % 4 == 3 ? ldx3 : i % 4 * ldx);
        const vi a = i_four(at), b = i_four(at + 4);
        MICRO_UNROLL for (int j = 0; j < vecs; j++) i_dot2(&sum[i][j], a, low[j], b, high[j]);
      }
      x[0] += 8;
      x[1] += 8;
    }
    MICRO_UNROLL for (int j = 0; j < vecs; j++) {
      vf scale = scales(g->scale, block, (vec + j) * V);
      MICRO_UNROLL for (int i = 0; i < rows; i++) {
        total[i][j] = v_fma(scale, i_float(sum[i][j]), total[i][j]);
      }
    }
    block = w;
  }
  MICRO_UNROLL for (int i = 0; i < rows; i++) {
    MICRO_UNROLL for (int j = 0; j < vecs; j++) {
      v_store(tile + i * GEMM_COLS + (vec + j) * V,
              dot_value(g, row + i, (const float *)(const void *)panel, vec + j, total[i][j]));
    }
  }
}

typedef void few_fn(const cpu_gemm *g, int64_t row, const char *panel, float *tile);
#define FEW(store, rows)                                                              \
  static void few_##store##_##rows(const cpu_gemm *g, int64_t row, const char *panel, \
                                   float *tile) {                                     \
    if (rows > FEW_WHOLE) /* one vector after the other */                            \
      for (int j = 0; j < GEMM_VECS; j++)                                             \
        few(ACCEL_PLUGIN_##store, rows, 1, j, j == 0, g, row, panel, tile);           \
    else                                                                              \
      few(ACCEL_PLUGIN_##store, rows, GEMM_VECS, 0, true, g, row, panel, tile);       \
  }
/* clang-format off */
#if FEW_ROWS == 8
#define FEW_HEIGHTS(F, store) \
  F(store, 1) F(store, 2) F(store, 3) F(store, 4) F(store, 5) F(store, 6) F(store, 7) F(store, 8)
#else
#define FEW_HEIGHTS(F, store) F(store, 1) F(store, 2) F(store, 3) F(store, 4)
#endif
#define FEW_ENTRY(store, rows) few_##store##_##rows,
FEW_HEIGHTS(FEW, I4)
FEW_HEIGHTS(FEW, U4)
FEW_HEIGHTS(FEW, E2M1)
/* clang-format on */
static few_fn *few_of(uint8_t store, int64_t rows) {
  static few_fn *const table[3][FEW_ROWS] = {
      {FEW_HEIGHTS(FEW_ENTRY, I4)}, {FEW_HEIGHTS(FEW_ENTRY, U4)}, {FEW_HEIGHTS(FEW_ENTRY, E2M1)}};
  return table[store == ACCEL_PLUGIN_I4 ? 0 : store == ACCEL_PLUGIN_U4 ? 1 : 2][rows - 1];
}

/* ---- many rows ---- */

/* Some blocks of a panel, as bytes. */
typedef struct bytes {
  float scale[BLOCKS * GEMM_COLS] __attribute__((aligned(64)));
  char codes[CPU_I4_BLOCK * GEMM_COLS] __attribute__((aligned(64))); /* [k/4][COLS][4] */
  int64_t k, block;
  int64_t read; /* bytes of a panel that eight k were read from, scales and zeros included */
} bytes;

V_INLINE const char *write_out(const int store, const cpu_gemm *g, const char *block, int64_t k,
                               bytes *to) {
  const cpu_i4 l = cpu_i4_layout((uint8_t)store, g->scale, g->group, GEMM_COLS);
  char *codes = to->codes;
  float *scale = to->scale;
  to->k = CPU_I4_BLOCK / l.block * l.block < g->k - k ? CPU_I4_BLOCK / l.block * l.block : g->k - k;
  to->block = l.block;
  to->read = l.step_bytes + l.side * 8 / l.block;
  for (int64_t at = 0; at < to->k; at += l.block, scale += GEMM_COLS) {
    const int64_t steps = ((to->k - at < l.block ? to->k - at : l.block) + 7) / 8;
    const char *w = block + l.side;
    vi zero[GEMM_VECS];
    for (int j = 0; j < GEMM_VECS; j++) {
      zero[j] = zeros_of(store, &l, block, j);
      v_store(scale + j * V, scales(g->scale, block, j * V));
    }
    for (int64_t s = 0; s < steps; s++, w += DOT_STEP, codes += 2 * DOT_STEP) {
      for (int j = 0; j < GEMM_VECS; j++) {
        vi both = i_load(w + j * 4 * V);
        i_store(codes + j * 4 * V, value_of(store, i_low(both), zero[j]));
        i_store(codes + DOT_STEP + j * 4 * V, value_of(store, i_high(both), zero[j]));
      }
    }
    block = w;
  }
  return block;
}

static const char *write_i4(const cpu_gemm *g, const char *block, int64_t k, bytes *to) {
  return write_out(ACCEL_PLUGIN_I4, g, block, k, to);
}
static const char *write_u4(const cpu_gemm *g, const char *block, int64_t k, bytes *to) {
  return write_out(ACCEL_PLUGIN_U4, g, block, k, to);
}
static const char *write_e2m1(const cpu_gemm *g, const char *block, int64_t k, bytes *to) {
  return write_out(ACCEL_PLUGIN_E2M1, g, block, k, to);
}

/* tile[rows][COLS] += the part of k that is written out; x is at its first k.  Meanwhile
 * prefetches as many codes from prefetch_at on, if it is not NULL. */
V_INLINE void add_blocks(const int rows, const uint8_t *x, int64_t ldx, const bytes *w,
                         const char *prefetch_at, float *tile) {
  const char *codes = w->codes;
  const float *scale = w->scale;
  vf total[GEMM_ROWS][GEMM_VECS];
  MICRO_UNROLL for (int i = 0; DOT_HOLDS && i < rows * GEMM_VECS; i++) {
    total[i / GEMM_VECS][i % GEMM_VECS] = v_load(tile + i * V);
  }
  for (int64_t at = 0; at < w->k; at += w->block, scale += GEMM_COLS) {
    const int64_t steps = ((w->k - at < w->block ? w->k - at : w->block) + 7) / 8 * 2;
    dot_sums sum;
    dot_rows(rows, 1, 2, steps, x + at, ldx, codes, prefetch_at, w->read, sum);
    codes += steps * DOT_STEP;
    if (prefetch_at) prefetch_at += steps / 2 * w->read;
    MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) {
      vf s = v_load(scale + j * V);
      MICRO_UNROLL for (int i = 0; i < rows; i++) {
        float *t = tile + i * GEMM_COLS + j * V;
        const vf value = i_float(sum[i][j * DOT_CHAINS]);
        if (DOT_HOLDS)
          total[i][j] = v_fma(s, value, total[i][j]);
        else
          v_store(t, v_fma(s, value, v_load(t)));
      }
    }
  }
  MICRO_UNROLL for (int i = 0; DOT_HOLDS && i < rows * GEMM_VECS; i++) {
    v_store(tile + i * V, total[i / GEMM_VECS][i % GEMM_VECS]);
  }
}

typedef void tile_fn(const uint8_t *x, int64_t ldx, const bytes *w, const char *prefetch_at,
                     float *tile);
#define DOT_TILE(rows)                                                                            \
  static void tile_##rows(const uint8_t *x, int64_t ldx, const bytes *w, const char *prefetch_at, \
                          float *tile) {                                                          \
    add_blocks(rows, x, ldx, w, prefetch_at, tile);                                               \
  }
DOT_TILES

/* Rows [row, row + rows), at most TILES tiles, of one panel. */
static void many(const cpu_gemm *g, int64_t row, int64_t rows, int64_t p) {
  float tile[TILES * GEMM_ROWS * GEMM_COLS] __attribute__((aligned(64)));
  bytes w;
  const char *panel = (const char *)g->w + p * g->panel_bytes, *block = panel + HEAD;
  for (int64_t i = 0; i < rows * GEMM_COLS; i += V) v_store(tile + i, v_zero());
  for (int64_t k = 0; k < g->k; k += w.k) {
    block = (g->store == ACCEL_PLUGIN_I4   ? write_i4
             : g->store == ACCEL_PLUGIN_U4 ? write_u4
                                           : write_e2m1)(g, block, k, &w);
    for (int64_t i = 0, height; i < rows; i += height) {
      height = tile_height(rows - i, GEMM_ROWS);
      tile_of[height]((const uint8_t *)g->x + (row + i) * g->ldx + k, g->ldx, &w, i ? NULL : block,
                      tile + i * GEMM_COLS);
    }
  }
  for (int64_t i = 0; i < rows; i++)
    for (int j = 0; j < GEMM_VECS; j++) {
      float *t = tile + i * GEMM_COLS + j * V;
      v_store(t, dot_value(g, row + i, (const float *)(const void *)panel, j, v_load(t)));
    }
  for (int64_t i = 0, height; i < rows; i += height) {
    height = tile_height(rows - i, GEMM_ROWS);
    finish(g, tile + i * GEMM_COLS, row + i, height, p);
  }
}

/* ---- the walk ---- */

void DOT_NAME(i4, linear, GEMM_TILE)(const cpu_gemm *g, int64_t row, int64_t row_end, int64_t panel,
                                     int64_t panel_end) {
  float tile[FEW_ROWS * GEMM_COLS] __attribute__((aligned(64)));
  const int64_t rows = row_end - row;
  if (rows > 0 && rows <= FEW_ROWS) {
    few_fn *run = few_of(g->store, rows);
    for (int64_t p = panel; p < panel_end; p++) {
      run(g, row, (const char *)g->w + p * g->panel_bytes, tile);
      finish(g, tile, row, rows, p);
    }
    return;
  }
  const int64_t most = TILES * GEMM_ROWS, blocks = (rows + most - 1) / most;
  for (int64_t b = 0; b < blocks; b++) /* equal ones: each writes the codes out */
    for (int64_t p = panel; p < panel_end; p++)
      many(g, row + rows * b / blocks, rows * (b + 1) / blocks - rows * b / blocks, p);
}
