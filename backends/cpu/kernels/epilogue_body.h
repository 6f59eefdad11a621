/* epilogue_body.h - the epilogue of an implicit GEMM over int8 codes: integer sums of a tile become
 * rows of y, with factors, bias, a residual that is codes, a ReLU and running maxima of y; included
 * by conv_i8_body.h.
 *
 * The sums of high tiles pass through memory, so that few registers do for any height; those of low
 * tiles, whose epilogue takes a large part of their time, stay in registers (END_UNROLL). */
#ifndef ACCEL_CPU_EPILOGUE_BODY_H
#define ACCEL_CPU_EPILOGUE_BODY_H

#include "kernels/kernels.h"

V_INLINE vf float_at(const char *p) { return v_set(*(const float *)(const void *)p); }

#if GEMM_ROWS <= 6
#define END_UNROLL MICRO_UNROLL
#define END_INLINE V_INLINE
#else
#define END_UNROLL
#define END_INLINE static
#endif

V_INLINE vf load_codes(const uint8_t *p) {
  return DOT_ACT == CPU_ACT_S8B ? v_load_s8((const int8_t *)p) : v_load_u8(p);
}

/* What happens to the sums of a tile of an implicit GEMM.  Every kind but EPILOGUE_ANY is for tiles
 * that need less, and leaves out what they do not need: the tile is stored straight to y, and but
 * for the last two x has no zeros, running maxima are wanted, a ReLU is left to the coding of y, and
 * the factors, which all blocks of a column share, are applied with the last block only. */
typedef enum epilogue_kind {
  EPILOGUE_ANY,
  EPILOGUE_ONE_BLOCK_RELU,      /* one block, no residual, a ReLU */
  EPILOGUE_BLOCKS_RELU,         /* several blocks, no residual, a ReLU */
  EPILOGUE_ONE_BLOCK,           /* one block, no residual, no activation */
  EPILOGUE_RESIDUAL_RELU,       /* one block, a residual without zeros, a ReLU */
  EPILOGUE_RESIDUAL_ZEROS_RELU, /* the same; the residual has zeros */
  EPILOGUE_ZEROS,               /* one block, no residual, no maxima; x has zeros */
  EPILOGUE_ZEROS_RELU           /* the same with maxima and a ReLU */
} epilogue_kind;

static epilogue_kind epilogue_of(const cpu_gemm *g) {
  const cpu_implicit_gemm *w = g->implicit_gemm;
  const bool one = w && w->block >= g->k;
  if (one && w->zero && !w->residual && !w->low)
    return w->high ? EPILOGUE_ZEROS_RELU : EPILOGUE_ZEROS;
  if (!w || w->zero || !w->high || (!one && (w->residual || w->low)) || (w->residual && w->low))
    return EPILOGUE_ANY;
  if (w->residual) return w->residual_zero ? EPILOGUE_RESIDUAL_ZEROS_RELU : EPILOGUE_RESIDUAL_RELU;
  return w->low ? EPILOGUE_ONE_BLOCK : one ? EPILOGUE_ONE_BLOCK_RELU : EPILOGUE_BLOCKS_RELU;
}

/* A tile and the block of k whose sums are at hand. */
typedef struct block_at {
  const cpu_gemm *g;
  const float *factors;
  const char *scale;
  int64_t scale_row, zero; /* bytes to the next row's scale, to a scale's zero; zero 0: none */
  /* col: to columns [col, col + GEMM_COLS) of y, which are all there, else -1 */
  int64_t row, col;
  bool first, last, first_panel; /* of the blocks; begins: this is the first panel of a call */
} block_at;

/* What is prefetched while a row is stored (cpu_implicit_gemm): one cache line of what y will
 * become or of the next residual, by turns from panel to panel, and this panel's share of the next
 * x: bytes [from, to) of each row. */
typedef struct prefetch {
  const uint8_t *line, *x;
  int64_t ldr, ldx, from, to;
} prefetch;

V_INLINE prefetch prefetch_of(const block_at *b) {
  const cpu_gemm *g = b->g;
  const cpu_implicit_gemm *w = g->implicit_gemm;
  const int64_t at = b->row * g->ldr + b->col;
  const bool odd = b->col / GEMM_COLS % 2 && w->residual_prefetch;
  prefetch a = {.ldr = g->ldr, .ldx = g->ldx};
  if (w->y_prefetch) a.line = odd ? w->residual + at + w->residual_prefetch : w->y_prefetch + at;
  if (!w->x_prefetch) return a;
  a.x = (const uint8_t *)g->x + b->row * g->ldx + w->x_prefetch;
  a.from = (g->k * b->col / g->n + 63) / 64 * 64, a.to = g->k * (b->col + GEMM_COLS) / g->n;
  return a;
}

V_INLINE void prefetch_row(prefetch *a) {
  if (a->line) v_prefetch_far(a->line), a->line += a->ldr;
  if (!a->x) return;
  for (int64_t k = a->from; k < a->to; k += 64) v_prefetch_far(a->x + k);
  a->x += a->ldx;
}

/* Adds the sums of a block to `tile`, when it is not the last or the tile is not stored straight to
 * y. */
V_INLINE void add_block_sums(const bool plain, const block_at *b, const int64_t rows,
                             const int32_t *sums, float *tile) {
  const int64_t scale_row = b->scale_row, zero = b->zero;
  const bool first = b->first;
  const float *factors = b->factors;
  const char *at = b->scale;
  END_UNROLL for (int64_t i = 0; i < rows;
                  i++, sums += GEMM_COLS, tile += GEMM_COLS, at += scale_row) {
    const vf s = float_at(at), z = !plain && zero ? float_at(at + zero) : v_zero();
    MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) {
      vf value = i_float(i_load(sums + j * V));
      if (!plain)
        value =
            v_mul(v_load(factors + j * V), v_fnma(z, v_load(factors + GEMM_COLS + j * V), value));
      v_store(tile + j * V, first ? v_mul(s, value) : v_fma(s, value, v_load(tile + j * V)));
    }
  }
}

/* Stores a tile to y with the sums of its last block: bias, residual, no activation or a ReLU,
 * running maxima, prefetches. */
V_INLINE void store_rows(const epilogue_kind kind, const block_at *b, const int64_t rows,
                         const int32_t *sums, const float *tile) {
  const cpu_gemm *g = b->g;
  const cpu_implicit_gemm *w = g->implicit_gemm;
  const bool any = kind == EPILOGUE_ANY,
             zeros = any || kind == EPILOGUE_ZEROS || kind == EPILOGUE_ZEROS_RELU,
             first = any ? b->first : kind != EPILOGUE_BLOCKS_RELU, first_panel = b->first_panel,
             maxima = any ? w->high != NULL : kind != EPILOGUE_ZEROS,
             minima = any ? maxima && w->low : kind == EPILOGUE_ONE_BLOCK,
             adds_residual =
                 any ? w->residual != NULL
                     : kind == EPILOGUE_RESIDUAL_RELU || kind == EPILOGUE_RESIDUAL_ZEROS_RELU,
             residual_zeros =
                 any ? adds_residual && w->residual_zero : kind == EPILOGUE_RESIDUAL_ZEROS_RELU;
  const vf least = v_set(g->act == ACCEL_PLUGIN_ACT_RELU ? 0.0f : -INFINITY);
  const int64_t scale_row = b->scale_row, zero = zeros ? b->zero : 0, ldy = g->ldy, ldr = g->ldr;
  const uint8_t *codes = adds_residual ? w->residual + b->row * ldr + b->col : NULL;
  const float *code_scale = adds_residual ? w->residual_scale + b->row : NULL,
              *code_zero = residual_zeros ? w->residual_zero + b->row : NULL;
  const char *at = b->scale;
  prefetch next = prefetch_of(b);
  float *y = g->y + b->row * ldy + b->col, *highs = maxima ? w->high + b->row * V : NULL,
        *lows = minima ? w->low + b->row * V : NULL;
  vf bias[GEMM_VECS], factor[GEMM_VECS], sum[GEMM_VECS];
  MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) {
    bias[j] = g->bias ? v_load(g->bias + b->col + j * V) : v_zero();
    factor[j] = v_load(b->factors + j * V);
    sum[j] = v_load(b->factors + GEMM_COLS + j * V);
  }
  END_UNROLL for (int64_t i = 0; i < rows;
                  i++, sums += GEMM_COLS, tile += GEMM_COLS, y += ldy, at += scale_row) {
    const vf s = float_at(at), z = zero || (zeros && !any) ? float_at(at + zero) : v_zero();
    vf high = v_zero(), low = v_zero();
    if (maxima && !first_panel) {
      high = v_load(highs + i * V);
      if (minima) low = v_load(lows + i * V);
    }
    MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) {
      vf v = i_float(i_load(sums + j * V));
      if (zeros) {
        v = v_fma(s, v_mul(factor[j], v_fnma(z, sum[j], v)), bias[j]);
        if (!first) v = v_add(v, v_load(tile + j * V));
      } else {
        v = v_fma(factor[j], first ? v_mul(s, v) : v_fma(s, v, v_load(tile + j * V)), bias[j]);
      }
      if (adds_residual) {
        const vf code = load_codes(codes + j * V);
        v = v_fma(v_set(code_scale[i]), residual_zeros ? v_sub(code, v_set(code_zero[i])) : code,
                  v);
      }
      if (zeros) v = v_max(least, v); /* a NaN stays */
      v_store(y + j * V, v);
      if (maxima) high = v_max(high, v);
      if (minima) low = v_max(low, v_sub(v_zero(), v));
    }
    if (adds_residual) codes += ldr;
    if (kind != EPILOGUE_ZEROS) prefetch_row(&next);
    if (maxima) v_store(highs + i * V, high);
    if (minima) v_store(lows + i * V, low);
  }
}

#define FINISH_BLOCK(kind)                 \
  case kind:                               \
    store_rows(kind, b, rows, sums, tile); \
    return;

END_INLINE void finish_block(epilogue_kind kind, const block_at *b, const int64_t rows,
                             const int32_t *sums, float *tile) {
  if (!b->last || b->col < 0) {
    if (kind != EPILOGUE_ANY && b->col >= 0)
      add_block_sums(true, b, rows, sums, tile);
    else
      add_block_sums(false, b, rows, sums, tile);
    return;
  }
  switch (kind) {
    FINISH_BLOCK(EPILOGUE_ANY)
    FINISH_BLOCK(EPILOGUE_ONE_BLOCK_RELU)
    FINISH_BLOCK(EPILOGUE_BLOCKS_RELU)
    FINISH_BLOCK(EPILOGUE_ONE_BLOCK)
    FINISH_BLOCK(EPILOGUE_RESIDUAL_RELU)
    FINISH_BLOCK(EPILOGUE_RESIDUAL_ZEROS_RELU)
    FINISH_BLOCK(EPILOGUE_ZEROS)
    FINISH_BLOCK(EPILOGUE_ZEROS_RELU)
  }
}

#endif
