/* gemm_i8_body.h - linear over int8 weights (cpu_pack_i8.c), included by gemm_i8_<isa>.c.  DOT_X is the
 * kernel's cpu_x, which is blocked (cpu_x_blocked); rows of x come as cpu_x_beside says. */
#include <stdbool.h>

#include "kernels/kernels.h"
#define V_GELU v_gelu_brief
#include "kernels/math_body.h"
#include "kernels/dot_body.h"
#include "kernels/tile_body.h"

enum { ROUND = 4 }; /* steps */

/* The tile stays where it is: compilers else keep a second copy of it on the stack. */
#define TILE_STAYS() __asm__ volatile("" ::: "memory")

/* A row: of windows also its line and where it is in that. */
typedef struct place {
  int64_t row, line, at;
} place;

V_INLINE place place_of(const cpu_gemm *g, int64_t row) {
  return g->windows ? (place){row, row / g->windows->line, row % g->windows->line}
                    : (place){.row = row};
}
V_INLINE void step_rows(const cpu_gemm *g, place *p, int64_t rows) {
  p->row += rows;
  p->at += rows;
  if (g->windows && p->at == g->windows->line) p->line++, p->at = 0;
}

/* Where a tile's rows of x are; distances in bytes. */
typedef struct source {
  const uint8_t *x;
  const char *scale;
  /* zero: from a scale to its zero; of parted ones from the first to the first */
  int64_t block, ldx, scale_row, zero;
} source;

V_INLINE source source_of(const cpu_gemm *g, const place *p) {
  const cpu_implicit_gemm *w = g->windows;
  const uint8_t *x = g->x;
  if (w)
    return (source){
        .x = x + p->line * w->line_bytes + p->at * g->ldx,
        .scale = (const char *)(w->scale + p->line * w->scale_line + p->at * w->scale_row),
        .block = w->block,
        .ldx = g->ldx,
        .scale_row = w->scale_row * (int64_t)sizeof(float),
        .zero = w->zero ? (const char *)w->zero - (const char *)w->scale : 0};
  const cpu_x read = cpu_x_beside(DOT_X, g->k, g->group);
  x += p->row * g->ldx;
  return (source){.x = x,
                  .scale = (const char *)x + cpu_x_padded(g->k),
                  .block = cpu_x_block(read),
                  .ldx = g->ldx,
                  .scale_row = g->ldx,
                  .zero = cpu_x_blocks(read, g->k) * (int64_t)sizeof(float)};
}

V_INLINE vf float_at(const char *p) { return v_set(*(const float *)(const void *)p); }

/* One block of a tile: t += x_scale (sum_k(code_x code_w) - x_zero sum), times the factor where
 * blocks of a column have their own; sum[i] of row i.  t begins with the first.  What parted zeros
 * take is in the sums. */
V_INLINE void add_block(const int rows, const bool own, const vi (*sum)[GEMM_VECS * DOT_CHAINS],
                        const float *factors, const char *scale, int64_t scale_row, int64_t zero,
                        bool first, float *tile) {
  const bool parted = cpu_x_parted(DOT_X);
  MICRO_UNROLL for (int i = 0; i < rows; i++) {
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
  MICRO_UNROLL for (int i = 0; i < rows * GEMM_VECS; i++) {
    v_store(tile + i * V, v_mul(v_load(factors + i % GEMM_VECS * V), v_load(tile + i * V)));
  }
}

/* ---- blocks of windows: the sums of high tiles go through memory, so that few registers do for
 * any height; those of low ones, which ends of blocks take a large part of, stay where they are
 * ---- */

#if GEMM_ROWS <= 6
#define END_UNROLL MICRO_UNROLL
#define END_INLINE V_INLINE
#else
#define END_UNROLL
#define END_INLINE static
#endif

V_INLINE vf load_codes(const uint8_t *p) {
  return DOT_X == CPU_X_S8B ? v_load_s8((const int8_t *)p) : v_load_u8(p);
}

/* How a tile of windows is put together.  All but the first know no zeros of x, go straight to y,
 * leave what is below 0 to who codes it, note what is reached, and leave the factors, which all
 * blocks of a column share, to the last block. */
typedef enum epilogue_kind {
  TILE_ANY,
  TILE_ONE,      /* one block, no residual, a ReLU */
  TILE_MORE,     /* no residual, a ReLU */
  TILE_SIGNS,    /* one block, no residual, no activation */
  TILE_RESIDUAL, /* one block, a ReLU */
  TILE_ZEROS     /* the same; the residual has zeros */
} epilogue_kind;

static epilogue_kind way_of(const cpu_gemm *g) {
  const cpu_implicit_gemm *w = g->windows;
  const bool one = w && w->block >= g->k;
  if (!w || w->zero || !w->high || (!one && (w->residual || w->low)) || (w->residual && w->low))
    return TILE_ANY;
  if (w->residual) return w->residual_zero ? TILE_ZEROS : TILE_RESIDUAL;
  return w->low ? TILE_SIGNS : one ? TILE_ONE : TILE_MORE;
}

/* A tile of windows and its block at hand. */
typedef struct block_at {
  const cpu_gemm *g;
  const float *factors;
  const char *scale;
  int64_t scale_row, zero; /* bytes to the next row's scale, to a scale's zero; zero 0: none */
  /* col: to columns [col, col + GEMM_COLS) of y, which are all there, else -1 */
  int64_t row, col;
  bool first, last, begins; /* of the blocks; begins: this is the first panel of a call */
} block_at;

/* What cpu_implicit_gemm asks for in the row at hand: a line of y or of the residual, by turns, and a
 * share of x. */
typedef struct asking {
  const uint8_t *line, *x;
  int64_t ldr, ldx, from, to;
} asking;

V_INLINE asking asking_of(const block_at *b) {
  const cpu_gemm *g = b->g;
  const cpu_implicit_gemm *w = g->windows;
  const int64_t at = b->row * g->ldr + b->col;
  const bool odd = b->col / GEMM_COLS % 2 && w->residual_ahead;
  asking a = {.ldr = g->ldr, .ldx = g->ldx};
  if (w->y_ahead) a.line = odd ? w->residual + at + w->residual_ahead : w->y_ahead + at;
  if (!w->x_ahead) return a;
  a.x = (const uint8_t *)g->x + b->row * g->ldx + w->x_ahead;
  a.from = (g->k * b->col / g->n + 63) / 64 * 64, a.to = g->k * (b->col + GEMM_COLS) / g->n;
  return a;
}

V_INLINE void ask(asking *a) {
  if (a->line) v_prefetch_far(a->line), a->line += a->ldr;
  if (!a->x) return;
  for (int64_t k = a->from; k < a->to; k += 64) v_prefetch_far(a->x + k);
  a->x += a->ldx;
}

/* A block that is not the last one that goes to y: to `tile`. */
V_INLINE void add_sums(const bool lean, const block_at *b, const int64_t rows, const int32_t *sums,
                       float *tile) {
  const int64_t scale_row = b->scale_row, zero = b->zero;
  const bool first = b->first;
  const float *factors = b->factors;
  const char *at = b->scale;
  END_UNROLL for (int64_t i = 0; i < rows;
                  i++, sums += GEMM_COLS, tile += GEMM_COLS, at += scale_row) {
    const vf s = float_at(at), z = !lean && zero ? float_at(at + zero) : v_zero();
    MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) {
      vf value = i_float(i_load(sums + j * V));
      if (!lean)
        value =
            v_mul(v_load(factors + j * V), v_fnma(z, v_load(factors + GEMM_COLS + j * V), value));
      v_store(tile + j * V, first ? v_mul(s, value) : v_fma(s, value, v_load(tile + j * V)));
    }
  }
}

/* The last block, without activation or with a ReLU. */
V_INLINE void put_sums(const epilogue_kind way, const block_at *b, const int64_t rows,
                       const int32_t *sums, const float *tile) {
  const cpu_gemm *g = b->g;
  const cpu_implicit_gemm *w = g->windows;
  const bool any = way == TILE_ANY, first = any ? b->first : way != TILE_MORE, begins = b->begins,
             reach = any ? w->high != NULL : true,
             signs = any ? reach && w->low : way == TILE_SIGNS,
             adds = any ? w->residual != NULL : way == TILE_RESIDUAL || way == TILE_ZEROS,
             moved = any ? adds && w->residual_zero : way == TILE_ZEROS;
  const vf least = v_set(g->act == ACCEL_PLUGIN_ACT_RELU ? 0.0f : -INFINITY);
  const int64_t scale_row = b->scale_row, zero = any ? b->zero : 0, ldy = g->ldy, ldr = g->ldr;
  const uint8_t *codes = adds ? w->residual + b->row * ldr + b->col : NULL;
  const float *code_scale = adds ? w->residual_scale + b->row : NULL,
              *code_zero = moved ? w->residual_zero + b->row : NULL;
  const char *at = b->scale;
  asking asks = asking_of(b);
  float *y = g->y + b->row * ldy + b->col, *highs = reach ? w->high + b->row * V : NULL,
        *lows = signs ? w->low + b->row * V : NULL;
  vf bias[GEMM_VECS], factor[GEMM_VECS], sum[GEMM_VECS];
  MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) {
    bias[j] = g->bias ? v_load(g->bias + b->col + j * V) : v_zero();
    factor[j] = v_load(b->factors + j * V);
    sum[j] = v_load(b->factors + GEMM_COLS + j * V);
  }
  END_UNROLL for (int64_t i = 0; i < rows;
                  i++, sums += GEMM_COLS, tile += GEMM_COLS, y += ldy, at += scale_row) {
    const vf s = float_at(at), z = zero ? float_at(at + zero) : v_zero();
    vf high = v_zero(), low = v_zero();
    if (reach && !begins) {
      high = v_load(highs + i * V);
      if (signs) low = v_load(lows + i * V);
    }
    MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) {
      vf v = i_float(i_load(sums + j * V));
      if (any) {
        v = v_fma(s, v_mul(factor[j], v_fnma(z, sum[j], v)), bias[j]);
        if (!first) v = v_add(v, v_load(tile + j * V));
      } else {
        v = v_fma(factor[j], first ? v_mul(s, v) : v_fma(s, v, v_load(tile + j * V)), bias[j]);
      }
      if (adds) {
        const vf code = load_codes(codes + j * V);
        v = v_fma(v_set(code_scale[i]), moved ? v_sub(code, v_set(code_zero[i])) : code, v);
      }
      if (any) v = v_max(least, v); /* a NaN stays */
      v_store(y + j * V, v);
      if (reach) high = v_max(high, v);
      if (signs) low = v_max(low, v_sub(v_zero(), v));
    }
    if (adds) codes += ldr;
    ask(&asks);
    if (reach) v_store(highs + i * V, high);
    if (signs) v_store(lows + i * V, low);
  }
}

#define TAKE(way)                       \
  case way:                             \
    put_sums(way, b, rows, sums, tile); \
    return;

END_INLINE void take_sums(epilogue_kind way, const block_at *b, const int64_t rows,
                          const int32_t *sums, float *tile) {
  if (!b->last || b->col < 0) {
    if (way != TILE_ANY && b->col >= 0)
      add_sums(true, b, rows, sums, tile);
    else
      add_sums(false, b, rows, sums, tile);
    return;
  }
  switch (way) {
    TAKE(TILE_ANY)
    TAKE(TILE_ONE)
    TAKE(TILE_MORE)
    TAKE(TILE_SIGNS)
    TAKE(TILE_RESIDUAL)
    TAKE(TILE_ZEROS)
  }
}

#if defined(DOT_TIMES)
/* A block whose rows have steps: sums begin with what x's zeros take, and words of two products are
 * multiplied by their part's step where they are by one otherwise.  step: of the first row; less:
 * [pairs of parts][COLS][2] words, less the parts' sums of codes. */
V_INLINE void dot_steps(const int rows, int64_t block, int64_t k, const uint8_t *x, int64_t ldx,
                        const char *step, int64_t step_row, const char *less, const char *w,
                        const char *ahead, int64_t ahead_step, vi (*sum)[GEMM_VECS * DOT_CHAINS]) {
  const char *zero = step + block / CPU_X_PART * 2;
  dot_begin(rows, sum);
  for (int64_t at = 0; at < k; at += 2 * CPU_X_PART, zero += 4, less += DOT_STEP)
    MICRO_UNROLL for (int i = 0; i < rows; i++) {
      const vi both = i_four(zero + i * step_row);
      MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++)
          i_dot_words(&sum[i][j * DOT_CHAINS], both, i_load(less + j * 4 * V));
    }
  for (; k > 0; k -= CPU_X_PART, x += CPU_X_PART, step += 2) {
    const int64_t steps = (k < CPU_X_PART ? (k + 15) / 16 * 16 : CPU_X_PART) / 4;
    vi times[GEMM_ROWS];
    MICRO_UNROLL for (int i = 0; i < rows; i++) times[i] = i_word(step + i * step_row);
    dot_more(rows, dot_chains(rows), ROUND, steps, x, ldx, w, ahead, ahead_step, times, sum);
    w += steps * DOT_STEP;
    if (ahead) ahead += steps / ROUND * ahead_step;
  }
  dot_end(rows, dot_chains(rows), sum);
}
#else
#define dot_steps(...) (void)0 /* their rows have none */
#endif

/* A block in parts. */
V_INLINE void dot_parts(const int rows, const cpu_implicit_gemm *windows, int64_t k,
                        const uint8_t *x, int64_t ldx, const char *w,
                        vi (*sum)[GEMM_VECS * DOT_CHAINS]) {
  const int64_t steps = windows->part / 4;
  dot_begin(rows, sum);
  for (; k > 0; k -= windows->part, x += windows->part_bytes, w += steps * DOT_STEP)
    dot_more(rows, dot_chains(rows), 2, steps, x, ldx, w, NULL, 0, NULL, sum);
  dot_end(rows, dot_chains(rows), sum);
}

/* One tile, [rows][COLS].  In a block b of k, code sums are integers; the tile is
 *   sum_b factor[b] x_scale[b] (sum_k(code_x code_w) - x_zero[b] sum[b]),   sum[b] = sum_k(code_w).
 * col: of windows whose tile goes straight to y, else -1. */
V_INLINE void multiply(const int rows, const cpu_gemm *g, const place *p, const char *panel,
                       int64_t col, epilogue_kind way, bool begins, float *tile, const char *ahead,
                       int64_t ahead_step) {
  const source from = source_of(g, p);
  const cpu_implicit_gemm *windows = g->windows;
  const char *w = panel;
  if (g->k <= 0) {
    MICRO_UNROLL for (int i = 0; i < rows * GEMM_VECS; i++) { v_store(tile + i * V, v_zero()); }
  }
  for (int64_t b = 0, left = g->k; left > 0; b++, left -= from.block) {
    const int64_t k = left < from.block ? left : from.block, steps = (k + 15) / 16 * 4,
                  x_at = windows ? windows->x_at[b] : b * from.block,
                  scale_at = windows ? windows->scale_at[b] : b;
    const float *factors = (const float *)(const void *)w;
    const char *scale = from.scale + scale_at * (int64_t)sizeof(float);
    const bool parted = cpu_x_parted(DOT_X) && !windows;
    dot_sums sum;
    w += GEMM_COLS * cpu_i8_head(parted, k);
    if (windows && windows->part)
      dot_parts(rows, windows, k, from.x + x_at, from.ldx, w, sum);
    else if (parted)
      dot_steps(rows, from.block, k, from.x + x_at, from.ldx,
                from.scale + from.zero + b * (from.block / CPU_X_PART) * (int64_t)sizeof(float),
                from.scale_row, (const char *)(factors + GEMM_COLS), w, ahead, ahead_step, sum);
    else
      dot_rows(rows, dot_chains(rows), ROUND, steps, from.x + x_at, from.ldx, w, ahead, ahead_step,
               sum);
    w += steps * DOT_STEP;
    ahead += steps / ROUND * ahead_step;
    if (windows) {
      int32_t sums[GEMM_ROWS * GEMM_COLS] __attribute__((aligned(64)));
      MICRO_UNROLL for (int i = 0; i < rows; i++) {
        MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++)
            i_store(sums + i * GEMM_COLS + j * V, sum[i][j * DOT_CHAINS]);
      }
      take_sums(way,
                &(block_at){g, factors, scale, from.scale_row, from.zero, p->row, col, b == 0,
                            left == k, begins},
                rows, sums, tile);
    } else {
      if (g->group)
        add_block(rows, true, sum, factors, scale, from.scale_row, from.zero, b == 0, tile);
      else
        add_block(rows, false, sum, factors, scale, from.scale_row, from.zero, b == 0, tile);
      if (left == k && !g->group) multiply_tile(rows, factors, tile);
    }
    TILE_STAYS();
  }
}

typedef void tile_fn(const cpu_gemm *g, const place *p, const char *panel, int64_t col,
                     epilogue_kind way, bool begins, float *tile, const char *ahead,
                     int64_t ahead_step);
#define DOT_TILE(rows)                                                                       \
  static void tile_##rows(const cpu_gemm *g, const place *p, const char *panel, int64_t col, \
                          epilogue_kind way, bool begins, float *tile, const char *ahead,    \
                          int64_t step) {                                                    \
    multiply(rows, g, p, panel, col, way, begins, tile, ahead, step);                        \
  }
DOT_TILES

/* Register tiles that share one pass over the panels: 64 KiB of x, but not fewer than 56 rows,
 * which would fetch w too often. */
static int64_t block_tiles(const cpu_gemm *g, int64_t tiles) {
  int64_t wanted = 65536 / (g->k ? g->k : 1) / GEMM_ROWS,
          blocks = tiles / (wanted < 56 / GEMM_ROWS ? 56 / GEMM_ROWS : wanted);
  return blocks > 1 ? (tiles + blocks - 1) / blocks : tiles;
}

/* ---- a finished tile of windows ---- */

static inline float residual_zero(const cpu_implicit_gemm *w, int64_t row) {
  return w->residual && w->residual_zero ? w->residual_zero[row] : 0.0f;
}

#define FINISH_WINDOWS(act)                                              \
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

/* The last columns, and rare activations. */
static void finish_windows_slowly(const cpu_gemm *g, float *tile, int64_t row, int64_t rows,
                                  int64_t col) {
  const cpu_implicit_gemm *w = g->windows;
  const int64_t cols = g->n - col < GEMM_COLS ? g->n - col : GEMM_COLS;
  add_bias(tile, rows, g->bias ? g->bias + col : NULL, cols);
  for (int64_t i = 0; i < rows; i++) {
    float *t = tile + i * GEMM_COLS, *y = g->y + (row + i) * g->ldy + col;
    const uint8_t *r = w->residual ? w->residual + (row + i) * g->ldr + col : NULL;
    for (int64_t j = 0; r && j < cols; j++) {
      const float code = DOT_X == CPU_X_S8B ? (float)(int8_t)r[j] : (float)r[j];
      t[j] += w->residual_scale[row + i] * (code - residual_zero(w, row + i));
    }
    activate(g->act, g->alpha, t, t, GEMM_COLS);
    for (int64_t j = 0; j < cols; j += V) v_storen(y + j, v_load(t + j), cols - j);
  }
}

static void finish_columns(const cpu_gemm *g, float *tile, int64_t row, int64_t rows, int64_t col) {
  const cpu_implicit_gemm *w = g->windows;
  if (g->n - col >= GEMM_COLS) {
    vf bias[GEMM_VECS], alpha = v_set(g->alpha);
    MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) bias[j] =
        g->bias ? v_load(g->bias + col + j * V) : v_zero();
    float *y = g->y + row * g->ldy + col;
    const uint8_t *r = w->residual ? w->residual + row * g->ldr + col : NULL;
    switch (g->act) {
      FINISH_WINDOWS(ACCEL_PLUGIN_ACT_GELU)
      FINISH_WINDOWS(ACCEL_PLUGIN_ACT_SILU)
    }
  }
  finish_windows_slowly(g, tile, row, rows, col);
}

/* The rest of cpu_implicit_gemm.high. */
static void finish_windows(const cpu_gemm *g, float *tile, int64_t row, int64_t rows, int64_t panel,
                           bool begins) {
  const cpu_implicit_gemm *w = g->windows;
  const int64_t col = panel * GEMM_COLS, cols = g->n - col < GEMM_COLS ? g->n - col : GEMM_COLS;
  finish_columns(g, tile, row, rows, col);
  if (!w->high) return;
  for (int64_t i = row; i < row + rows; i++) {
    vf high = begins ? v_zero() : v_load(w->high + i * V),
       low = begins || !w->low ? v_zero() : v_load(w->low + i * V);
    for (int64_t j = 0; j < cols; j += V) {
      const vf v = v_loadn(g->y + i * g->ldy + col + j, cols - j);
      high = v_max(high, v), low = v_max(low, v_sub(v_zero(), v));
    }
    v_store(w->high + i * V, high);
    if (w->low) v_store(w->low + i * V, low);
  }
}

/* Whether tiles of windows go to y from registers. */
static bool straight(const cpu_gemm *g, int64_t col) {
  return g->windows && g->k > 0 && g->n - col >= GEMM_COLS &&
         (g->act == ACCEL_PLUGIN_ACT_NONE || g->act == ACCEL_PLUGIN_ACT_RELU);
}

/* Height of the tile there: those of windows keep to a line. */
static inline int64_t height_at(const cpu_gemm *g, const place *p, int64_t row_end) {
  const int64_t left = row_end - p->row, line = g->windows ? g->windows->line - p->at : left;
  return dot_height(line < left ? line : left);
}

static int64_t tiles_in(const cpu_gemm *g, place p, int64_t row_end) {
  int64_t tiles = 0;
  for (; p.row < row_end; tiles++) step_rows(g, &p, height_at(g, &p, row_end));
  return tiles;
}

enum { FEW_ROWS = 4, FAR = 4096 }; /* what is read once is asked for so many bytes before */

void DOT_NAME(i8, linear, GEMM_TILE)(const cpu_gemm *g, int64_t row, int64_t row_end, int64_t panel,
                                     int64_t panel_end) {
  float tile[GEMM_ROWS * GEMM_COLS] __attribute__((aligned(64)));
  const char *w = g->w;
  const bool few = row_end - row <= FEW_ROWS;
  const epilogue_kind way = way_of(g);
  place from = place_of(g, row);
  while (from.row < row_end) {
    const int64_t tiles = block_tiles(g, tiles_in(g, from, row_end)),
                  step = ROUND * DOT_STEP / tiles;
    place stop = from;
    for (int64_t p = panel; p < panel_end; p++) {
      const int64_t col = straight(g, p * GEMM_COLS) ? p * GEMM_COLS : -1;
      stop = from;
      for (int64_t t = 0; t < tiles; t++) { /* each tile brings its part of the next panel */
        const char *ahead = few ? w + p * g->panel_bytes + FAR
                                : w + (p + 1) * g->panel_bytes + t * step * (g->k / 16);
        const int64_t rows = height_at(g, &stop, row_end);
        if (col < 0 && !few) expect(g, stop.row, rows, p);
        tile_of[rows](g, &stop, w + p * g->panel_bytes, col, way, p == panel, tile, ahead, step);
        if (col < 0 && g->windows)
          finish_windows(g, tile, stop.row, rows, p, p == panel);
        else if (col < 0)
          finish(g, tile, stop.row, rows, p);
        step_rows(g, &stop, rows);
      }
    }
    if (panel >= panel_end) return;
    from = stop;
  }
}
