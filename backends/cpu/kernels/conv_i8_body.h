/* conv_i8_body.h - what an implicit GEMM (implicit_gemm.h) adds to the linear over int8 weights:
 * convolutions of images as codes.  Included by gemm_i8_body.h, which has the loops over rows,
 * panels and blocks; DOT_ACT is the kernel's cpu_act_format.
 *
 * A finished tile takes one of two ways to y: the epilogue stores it directly (stores_directly), or
 * it is summed up in fp32 and finish_implicit stores it. */
#ifndef ACCEL_CPU_CONV_I8_BODY_H
#define ACCEL_CPU_CONV_I8_BODY_H

#include "kernels/epilogue_body.h"

/* A block that consists of parts (cpu_implicit_gemm.part). */
V_INLINE void dot_block_parts(const int rows, const cpu_implicit_gemm *windows, int64_t k,
                              const uint8_t *x, int64_t ldx, const char *w,
                              vi (*sum)[GEMM_VECS * DOT_CHAINS]) {
  const int64_t steps = windows->part / 4, *at = windows->x_at;
  const bool low = GEMM_ROWS <= 6; /* more code would not stay in its cache */
  dot_begin(rows, sum);
  for (int64_t left = k / windows->part; left > 0; left--, at++, w += steps * DOT_STEP)
    if (low && steps % 6 == 0)
      dot_more(rows, dot_chains(rows), 6, steps, x + *at, ldx, w, NULL, 0, NULL, sum);
    else if (low && steps % 4 == 0)
      dot_more(rows, dot_chains(rows), 4, steps, x + *at, ldx, w, NULL, 0, NULL, sum);
    else
      dot_more(rows, dot_chains(rows), 2, steps, x + *at, ldx, w, NULL, 0, NULL, sum);
  dot_end(rows, dot_chains(rows), sum);
}

static inline float residual_zero(const cpu_implicit_gemm *w, int64_t row) {
  return w->residual && w->residual_zero ? w->residual_zero[row] : 0.0f;
}

#define FINISH_IMPLICIT(act)                                             \
  case act:                                                              \
    for (int64_t i = 0; i < rows; i++, tile += GEMM_COLS, y += g->ldy) { \
      const vf s = v_set(r ? w->residual_scale[row + i] : 0),            \
               z = v_set(residual_zero(w, row + i));                     \
      MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) {                 \
        vf v = v_add(v_load(tile + j * V), bias[j]);                     \
        if (r) v = v_fma(s, v_sub(load_codes(r + j * V), z), v);         \
        v_store(y + j * V, v_act(act, v, alpha));                        \
      }                                                                  \
      if (r) r += g->ldr;                                                \
    }                                                                    \
    return;

/* Any columns and activations, element by element: the last columns, and rare activations. */
static void finish_implicit_slowly(const cpu_gemm *g, float *tile, int64_t row, int64_t rows,
                                   int64_t col) {
  const cpu_implicit_gemm *w = g->implicit_gemm;
  const int64_t cols = g->n - col < GEMM_COLS ? g->n - col : GEMM_COLS;
  add_bias(tile, rows, g->bias ? g->bias + col : NULL, cols);
  for (int64_t i = 0; i < rows; i++) {
    float *t = tile + i * GEMM_COLS, *y = g->y + (row + i) * g->ldy + col;
    const uint8_t *r = w->residual ? w->residual + (row + i) * g->ldr + col : NULL;
    for (int64_t j = 0; r && j < cols; j++) {
      const float code = DOT_ACT == CPU_ACT_S8B ? (float)(int8_t)r[j] : (float)r[j];
      t[j] += w->residual_scale[row + i] * (code - residual_zero(w, row + i));
    }
    activate(g->act, g->alpha, t, t, GEMM_COLS);
    for (int64_t j = 0; j < cols; j += V) v_storen(y + j, v_load(t + j), cols - j);
  }
}

static void finish_columns(const cpu_gemm *g, float *tile, int64_t row, int64_t rows, int64_t col) {
  const cpu_implicit_gemm *w = g->implicit_gemm;
  if (g->n - col >= GEMM_COLS) {
    vf bias[GEMM_VECS], alpha = v_set(g->alpha);
    MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) bias[j] =
        g->bias ? v_load(g->bias + col + j * V) : v_zero();
    float *y = g->y + row * g->ldy + col;
    const uint8_t *r = w->residual ? w->residual + row * g->ldr + col : NULL;
    switch (g->act) {
      FINISH_IMPLICIT(ACCEL_PLUGIN_ACT_GELU)
      FINISH_IMPLICIT(ACCEL_PLUGIN_ACT_SILU)
    }
  }
  finish_implicit_slowly(g, tile, row, rows, col);
}

/* A tile of fp32 sums to y, and the running maxima of what was stored. */
static void finish_implicit(const cpu_gemm *g, float *tile, int64_t row, int64_t rows,
                            int64_t panel, bool first_panel) {
  const cpu_implicit_gemm *w = g->implicit_gemm;
  const int64_t col = panel * GEMM_COLS, cols = g->n - col < GEMM_COLS ? g->n - col : GEMM_COLS;
  finish_columns(g, tile, row, rows, col);
  if (!w->high) return;
  for (int64_t i = row; i < row + rows; i++) {
    vf high = first_panel ? v_zero() : v_load(w->high + i * V),
       low = first_panel || !w->low ? v_zero() : v_load(w->low + i * V);
    for (int64_t j = 0; j < cols; j += V) {
      const vf v = v_loadn(g->y + i * g->ldy + col + j, cols - j);
      high = v_max(high, v), low = v_max(low, v_sub(v_zero(), v));
    }
    v_store(w->high + i * V, high);
    if (w->low) v_store(w->low + i * V, low);
  }
}

/* Whether tiles of an implicit GEMM are stored to y by the epilogue, without passing through
 * `tile`. */
static bool stores_directly(const cpu_gemm *g, int64_t col) {
  return g->implicit_gemm && g->k > 0 && g->n - col >= GEMM_COLS &&
         (g->act == ACCEL_PLUGIN_ACT_NONE || g->act == ACCEL_PLUGIN_ACT_RELU);
}

#endif
