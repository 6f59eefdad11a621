/* gemm_i8_tile.h - what every linear over int8 weights (gemm_i8_body.h) does with a tile: where its
 * rows of x are, and how sums of codes become sums of numbers.  Included after dot_<isa>.h, with
 * DOT_ACT, GEMM_ROWS and GEMM_VECS defined. */
#include <stdbool.h>

#include "kernels/kernels.h"
#define V_GELU v_gelu_brief
#include "kernels/math_body.h"
#include "kernels/dot_body.h"
#include "kernels/tile_body.h"
#include "kernels/conv_i8_body.h"

enum { ROUND = 4 }; /* steps */

/* A row of y; in an implicit GEMM also its line, and which row of that it is. */
typedef struct place {
  int64_t row, line, at;
} place;

V_INLINE place place_of(const cpu_gemm *g, int64_t row) {
  return g->implicit_gemm ? (place){row, row / g->implicit_gemm->line, row % g->implicit_gemm->line}
                          : (place){.row = row};
}
V_INLINE void step_rows(const cpu_gemm *g, place *p, int64_t rows) {
  p->row += rows;
  p->at += rows;
  if (g->implicit_gemm && p->at == g->implicit_gemm->line) p->line++, p->at = 0;
}

/* Height of the tile there: those of an implicit GEMM keep to a line. */
V_INLINE int64_t height_at(const cpu_gemm *g, const place *p, int64_t row_end) {
  const int64_t left = row_end - p->row,
                line = g->implicit_gemm ? g->implicit_gemm->line - p->at : left;
  return tile_height(line < left ? line : left, GEMM_ROWS);
}

/* Where a tile's rows of x are; distances in bytes. */
typedef struct source {
  const uint8_t *x;
  const char *scale;
  /* zero: from a scale to its zero; of parted ones from the first to the first */
  int64_t block, ldx, scale_row, zero;
} source;

V_INLINE source source_of(const cpu_gemm *g, const place *p) {
  const cpu_implicit_gemm *w = g->implicit_gemm;
  const uint8_t *x = g->x;
  if (w)
    return (source){
        .x = x + p->line * w->line_bytes + p->at * g->ldx,
        .scale = (const char *)(w->scale + p->line * w->scale_line + p->at * w->scale_row),
        .block = w->block,
        .ldx = g->ldx,
        .scale_row = w->scale_row * (int64_t)sizeof(float),
        .zero = w->zero ? (const char *)w->zero - (const char *)w->scale : 0};
  const cpu_act_format read = cpu_act_format_beside(DOT_ACT, g->k, g->group);
  x += p->row * g->ldx;
  return (source){.x = x,
                  .scale = (const char *)x + cpu_act_padded(g->k),
                  .block = cpu_act_block(read),
                  .ldx = g->ldx,
                  .scale_row = g->ldx,
                  .zero = cpu_act_blocks(read, g->k) * (int64_t)sizeof(float)};
}

/* One block of a tile: t += x_scale (sum_k(code_x code_w) - x_zero sum), times the factor where
 * blocks of a column have their own; sum[i] of row i.  t begins with the first.  What parted zeros
 * take is in the sums. */
V_INLINE void add_block(const int rows, const bool own, const vi (*sum)[GEMM_VECS * DOT_CHAINS],
                        const float *factors, const char *scale, int64_t scale_row, int64_t zero,
                        bool first, float *tile) {
  const bool parted = cpu_act_parted(DOT_ACT);
  DOT_UNROLL for (int i = 0; i < rows; i++) {
    const char *at = scale + i * scale_row;
    const vf s = float_at(at), z = parted ? v_zero() : float_at(at + zero);
    MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) {
      float *t = tile + i * GEMM_COLS + j * V;
      vf value = i_float(sum[i][j * DOT_CHAINS]);
      if (!parted) value = v_fnma(z, v_load(factors + GEMM_COLS + j * V), value);
      if (own) value = v_mul(v_load(factors + j * V), value);
      v_store(t, first ? v_mul(s, value) : v_fma(s, value, v_load(t)));
    }
  }
}

/* A tile whose blocks left out the factors. */
V_INLINE void multiply_tile(const int rows, const float *factors, float *tile) {
  DOT_UNROLL for (int i = 0; i < rows * GEMM_VECS; i++) {
    v_store(tile + i * V, v_mul(v_load(factors + i % GEMM_VECS * V), v_load(tile + i * V)));
  }
}
