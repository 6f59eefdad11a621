/* tile_body.h - activations, and what happens to a finished fp32 tile of a linear, whatever its
 * weights are: included after vec_<isa>.h and math_body.h.  GEMM_COLS is the width of a tile and of
 * a panel. */
#ifndef ACCEL_CPU_TILE_BODY_H
#define ACCEL_CPU_TILE_BODY_H

#include <stdbool.h>

#include "kernels/unroll.h"

#define ACTIVATE(act)                                                            \
  case act:                                                                      \
    for (; i + V <= n; i += V) v_store(y + i, v_act(act, v_load(x + i), alpha)); \
    if (i < n) v_storen(y + i, v_act(act, v_loadn(x + i, n - i), alpha), n - i); \
    return;

static void activate(int act, float parameter, const float *x, float *y, int64_t n) {
  vf alpha = v_set(parameter);
  int64_t i = 0;
  switch (act) {
    ACTIVATE(ACCEL_PLUGIN_ACT_NONE)
    ACTIVATE(ACCEL_PLUGIN_ACT_RELU)
    ACTIVATE(ACCEL_PLUGIN_ACT_GELU)
    ACTIVATE(ACCEL_PLUGIN_ACT_GELU_TANH)
    ACTIVATE(ACCEL_PLUGIN_ACT_GELU_QUICK)
    ACTIVATE(ACCEL_PLUGIN_ACT_SILU)
    ACTIVATE(ACCEL_PLUGIN_ACT_TANH)
    ACTIVATE(ACCEL_PLUGIN_ACT_SIGMOID)
    ACTIVATE(ACCEL_PLUGIN_ACT_RELU2)
    ACTIVATE(ACCEL_PLUGIN_ACT_MISH)
    ACTIVATE(ACCEL_PLUGIN_ACT_LEAKY_RELU)
    ACTIVATE(ACCEL_PLUGIN_ACT_SOFTPLUS)
    ACTIVATE(ACCEL_PLUGIN_ACT_HARDSWISH)
    ACTIVATE(ACCEL_PLUGIN_ACT_ELU)
    ACTIVATE(ACCEL_PLUGIN_ACT_RELU6)
    ACTIVATE(ACCEL_PLUGIN_ACT_SWIGLU_OAI)
  }
}

/* ---- what happens to a finished tile, while it is in the first-level cache ---- */

/* of columns 0 .. cols-1 */
static void add_bias(float *tile, int64_t rows, const float *bias, int64_t cols) {
  for (int64_t j = 0; bias && j < cols; j += V) {
    vf b = v_loadn(bias + j, cols - j);
    for (int64_t i = 0; i < rows; i++)
      v_store(tile + i * GEMM_COLS + j, v_add(v_load(tile + i * GEMM_COLS + j), b));
  }
}

/* The activations that one pass over a whole panel is written for: a case for each. */
#define USUAL_ACTS(CASE)      \
  CASE(ACCEL_PLUGIN_ACT_NONE) \
  CASE(ACCEL_PLUGIN_ACT_RELU) \
  CASE(ACCEL_PLUGIN_ACT_GELU) \
  CASE(ACCEL_PLUGIN_ACT_GELU_TANH) CASE(ACCEL_PLUGIN_ACT_SILU)

#define WHOLE(act)                                                       \
  case act:                                                              \
    for (int64_t i = 0; i < rows; i++, tile += GEMM_COLS, y += g->ldy) { \
      MICRO_UNROLL for (int64_t j = 0; j < GEMM_COLS; j += V) {          \
        vf v = v_act(act, v_add(v_load(tile + j), bias[j / V]), alpha);  \
        v_store(y + j, r ? v_add(v, v_load(r + j)) : v);                 \
      }                                                                  \
      if (r) r += g->ldr;                                                \
    }                                                                    \
    return true;

/* Whole panels with the usual activations: everything in one pass.  Answers whether it was. */
static bool finish_whole(const cpu_gemm *g, const float *tile, int64_t row, int64_t rows,
                         int64_t panel) {
  const int64_t col = panel * GEMM_COLS;
  if (g->glu || g->n - col < GEMM_COLS) return false;
  vf bias[GEMM_COLS / V], alpha = v_set(g->alpha);
  MICRO_UNROLL for (int64_t j = 0; j < GEMM_COLS; j += V) bias[j / V] =
      g->bias ? v_load(g->bias + col + j) : v_zero();
  float *y = g->y + row * g->ldy + col;
  const float *r = g->residual ? g->residual + row * g->ldr + col : NULL;
  switch (g->act) { USUAL_ACTS(WHOLE) }
  return false;
}

/* act(gate) * up, SWIGLU_OAI's with 1 more than up, of operands cut to `limit`; a NaN stays. */
V_INLINE vf gated(const int act, vf up, vf gate, vf alpha, vf limit) {
  if (act == ACCEL_PLUGIN_ACT_SWIGLU_OAI) {
    gate = v_min(limit, gate);
    up = v_max(v_sub(v_zero(), limit), v_min(limit, up));
    up = v_add(up, v_set(1.0f));
  }
  return v_mul(up, v_act(act, gate, alpha));
}

#define WHOLE_GATED(act)                                                          \
  case act:                                                                       \
    for (int64_t i = 0; i < rows; i++, tile += GEMM_COLS, y += g->ldy) {          \
      MICRO_UNROLL for (int64_t j = 0; j < WIDTH; j += V) {                       \
        vf v = gated(act, v_add(v_load(tile + j), up[j / V]),                     \
                     v_add(v_load(tile + WIDTH + j), gate[j / V]), alpha, limit); \
        v_store(y + j, r ? v_add(v, v_load(r + j)) : v);                          \
      }                                                                           \
      if (r) r += g->ldr;                                                         \
    }                                                                             \
    return true;

/* The same of gated panels. */
static bool finish_gated(const cpu_gemm *g, const float *tile, int64_t row, int64_t rows,
                         int64_t panel) {
  enum { WIDTH = GEMM_COLS / 2 };
  const int64_t col = panel * WIDTH;
  const bool limited = g->limit > 0;
  if (!g->glu || g->n - col < WIDTH || WIDTH % V) return false;
  if (limited && g->act != ACCEL_PLUGIN_ACT_SWIGLU_OAI) return false;
  const vf alpha = v_set(g->alpha), limit = v_set(limited ? g->limit : INFINITY);
  vf up[(WIDTH + V - 1) / V], gate[(WIDTH + V - 1) / V];
  MICRO_UNROLL for (int64_t j = 0; j < WIDTH; j += V) {
    up[j / V] = g->bias ? v_load(g->bias + col + j) : v_zero();
    gate[j / V] = g->bias_gate ? v_load(g->bias_gate + col + j) : v_zero();
  }
  float *y = g->y + row * g->ldy + col;
  const float *r = g->residual ? g->residual + row * g->ldr + col : NULL;
  switch (g->act) {
    WHOLE_GATED(ACCEL_PLUGIN_ACT_SILU)
    WHOLE_GATED(ACCEL_PLUGIN_ACT_GELU)
    WHOLE_GATED(ACCEL_PLUGIN_ACT_GELU_TANH)
    WHOLE_GATED(ACCEL_PLUGIN_ACT_SWIGLU_OAI)
  }
  return false;
}

/* Left half up, right half gate; a NaN stays. */
static void clamp_gated(float *tile, int64_t rows, float limit) {
  const vf most = v_set(limit), least = v_set(-limit);
  for (int64_t i = 0; i < rows; i++, tile += GEMM_COLS)
    for (int64_t j = 0; j < GEMM_COLS; j += V) {
      vf x = v_min(most, v_load(tile + j));
      v_store(tile + j, j < GEMM_COLS / 2 ? v_max(least, x) : x);
    }
}

/* The left half becomes up times what the activation makes of gate. */
static void join_gated(const cpu_gemm *g, float *tile, int64_t rows) {
  const int64_t width = GEMM_COLS / 2;
  const vf more = v_set(g->act == ACCEL_PLUGIN_ACT_SWIGLU_OAI ? 1.0f : 0.0f);
  for (int64_t i = 0; i < rows; i++) {
    float *up = tile + i * GEMM_COLS, *gate = up + width;
    activate(g->act, g->alpha, gate, gate, width);
    for (int64_t j = 0; j < width; j += V)
      v_store(up + j, v_mul(v_add(v_load(up + j), more), v_load(gate + j)));
  }
}

/* Weighted rows are added to y. */
static void finish_added(const cpu_gemm *g, float *tile, int64_t row, int64_t rows, int64_t col,
                         int64_t cols) {
  add_bias(tile, rows, g->bias ? g->bias + col : NULL, cols);
  for (int64_t i = row; i < row + rows; i++, tile += GEMM_COLS) {
    const vf weight = v_set(g->weight[i]);
    float *y = g->y + g->to[i] * g->ldy + col;
    for (int64_t j = 0; j < cols; j += V)
      v_storen(y + j, v_fma(weight, v_load(tile + j), v_loadn(y + j, cols - j)), cols - j);
  }
}

/* Prefetches what finish() will write to and add: many rows of y lie on as many pages. */
V_INLINE void prefetch_result(const cpu_gemm *g, int64_t row, int64_t rows, int64_t panel) {
  const int64_t width = g->glu ? GEMM_COLS / 2 : GEMM_COLS, col = panel * width;
  for (int64_t i = row; i < row + rows; i++)
    for (int64_t j = col; j < col + width && j < g->n; j += 16) {
      v_prefetch(g->y + (g->to ? g->to[i] : i) * g->ldy + j);
      if (g->residual) v_prefetch(g->residual + i * g->ldr + j);
    }
}

static inline void finish(const cpu_gemm *g, float *tile, int64_t row, int64_t rows,
                          int64_t panel) {
  const int64_t width = g->glu ? GEMM_COLS / 2 : GEMM_COLS, col = panel * width,
                cols = g->n - col < width ? g->n - col : width;
  if (g->to) {
    finish_added(g, tile, row, rows, col, cols);
    return;
  }
  if (finish_whole(g, tile, row, rows, panel) || finish_gated(g, tile, row, rows, panel)) return;
  add_bias(tile, rows, g->bias ? g->bias + col : NULL, cols);
  if (g->glu) {
    add_bias(tile + width, rows, g->bias_gate ? g->bias_gate + col : NULL, cols);
    if (g->limit > 0) clamp_gated(tile, rows, g->limit);
    join_gated(g, tile, rows);
  } else if (g->act != ACCEL_PLUGIN_ACT_NONE) {
    activate(g->act, g->alpha, tile, tile, rows * GEMM_COLS);
  }
  for (int64_t i = 0; i < rows; i++) {
    float *y = g->y + (row + i) * g->ldy + col;
    const float *t = tile + i * GEMM_COLS,
                *r = g->residual ? g->residual + (row + i) * g->ldr + col : NULL;
    for (int64_t j = 0; j < cols; j += V) {
      vf v = v_load(t + j);
      if (r) v = v_add(v, v_loadn(r + j, cols - j));
      v_storen(y + j, v, cols - j);
    }
  }
}

#endif
