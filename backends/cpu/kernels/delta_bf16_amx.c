/* delta_bf16_amx.c - gated_delta_rule (ops.h) with products of bf16 for AMX, fp32 sums.
 *
 * The sums are those of delta_body.h, over chunks of CPU_DELTA_LONG rows (Yang et al. 2024, arXiv
 * 2406.06484, as transformers' torch_chunk_gated_delta_rule).  Within a chunk rows go in blocks of
 * AMX_ROWS: what the state and the blocks before add to a block are products of matrices, what its
 * own rows add to one another is taken row by row in fp32.  The state itself stays fp32. */
#include <string.h>

#include "kernels/amx.h"
#include "kernels/bf16_avx512bf16.h"
#include "kernels/kernels.h"
#include "kernels/math_body.h"

enum {
  LONG = CPU_DELTA_LONG,
  ROWS = AMX_ROWS, /* of a block */
  PAIR = 2 * ROWS, /* rows of k, then of q, of a block */
  BLOCKS = LONG / ROWS,
  W = CPU_DELTA_VECTORS,
  WIDE = W * V /* columns that are solved together */
};

/* Pairs are two bf16 in 32 bits, rows or columns 2 i and 2 i + 1. */
typedef struct chunk {
  int64_t rows, dk, cols; /* dk, cols: rounded up to AMX_TILE and WIDE, zeros behind */
  uint16_t *kq;           /* [BLOCKS][k, q][ROWS][dk], normalised and scaled */
  float *turned;          /* pairs [dk / 2][LONG]: k by columns */
  uint16_t *columns;      /* [dk][LONG]: the same, one by one */
  float *relate;          /* [BLOCKS][PAIR][LONG]: beta_t D_ts (k_t . k_s), D_ts (q_t . k_s) */
  uint16_t *before;       /* [BLOCKS][PAIR][LONG]: of these the blocks before; zeros behind */
  float *s, *s_pairs;     /* [dk][cols], pairs [dk / 2][cols] */
  float *d, *d_pairs;     /* [LONG][cols], pairs [LONG / 2][cols] */
  float *known, *sums;    /* [PAIR][WIDE]: products with the state, with the blocks before */
  float *row;             /* [dk] */
  float *e, *beta, *last; /* [LONG]: decay from the chunk's begin, beta, decay to its end */
} chunk;

/* c[PAIR][AMX_TILE] (+)= a b over `steps` steps of k; distances in bytes. */
V_INLINE void products(int64_t steps, const void *a, int64_t lda, const void *b, int64_t ldb) {
  const char *x = a, *y = b;
  for (; steps > 0; steps--, x += AMX_BYTES, y += AMX_ROWS * ldb) {
    _tile_loadd(6, y, ldb);
    _tile_loadd(4, x, lda);
    _tile_loadd(7, y + AMX_BYTES, ldb);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(5, x + AMX_ROWS * lda, lda);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}

V_INLINE void keep_sums(float *c, int64_t ldc) {
  _tile_stored(0, c, ldc * 4);
  _tile_stored(1, c + AMX_ROWS, ldc * 4);
  _tile_stored(2, c + AMX_ROWS * ldc, ldc * 4);
  _tile_stored(3, c + AMX_ROWS * ldc + AMX_ROWS, ldc * 4);
}

V_INLINE void take_sums(const float *c, int64_t ldc) {
  _tile_loadd(0, c, ldc * 4);
  _tile_loadd(1, c + AMX_ROWS, ldc * 4);
  _tile_loadd(2, c + AMX_ROWS * ldc, ldc * 4);
  _tile_loadd(3, c + AMX_ROWS * ldc + AMX_ROWS, ldc * 4);
}

/* ---- what the columns of a chunk share ---- */

/* to[c->dk] = factor * from[dk] / sqrt(|from|^2 + eps), eps 0: factor * from. */
static void take_row(const chunk *c, const float *from, int64_t dk, float eps, float factor,
                     uint16_t *to) {
  vf sum = v_zero();
  for (int64_t i = 0; eps > 0 && i < dk; i += V) {
    const vf x = v_loadn(from + i, dk - i);
    sum = v_fma(x, x, sum);
  }
  const vf scale = v_set(eps > 0 ? factor / sqrtf(v_sum(sum) + eps) : factor);
  for (int64_t i = 0; i < dk; i += V) v_store(c->row + i, v_mul(v_loadn(from + i, dk - i), scale));
  v_narrow_row(c->row, dk, c->dk, to);
}

static uint16_t *row_of(const chunk *c, int64_t t, int q) {
  return c->kq + (t / ROWS * PAIR + q * ROWS + t % ROWS) * c->dk;
}

/* Keys by columns, in pairs and one by one. */
static void turn_keys(const chunk *c) {
  const int64_t pairs = c->dk / 2;
  const __m512i even =
                    _mm512_set_epi16(62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32,
                                     30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0),
                odd = _mm512_add_epi16(even, _mm512_set1_epi16(1));
  for (int64_t t = 0; t < LONG; t += ROWS)
    for (int64_t i = 0; i < pairs; i += V) {
      vf x[V];
      for (int r = 0; r < V; r++)
        x[r] = v_load((const float *)(const void *)row_of(c, t + r, 0) + i);
      v_transpose(x);
      for (int r = 0; r < V; r++) v_store(c->turned + (i + r) * LONG + t, x[r]);
    }
  for (int64_t i = 0; i < pairs; i++)
    for (int64_t t = 0; t < LONG; t += 2 * V) {
      const __m512i low = _mm512_loadu_si512(c->turned + i * LONG + t),
                    high = _mm512_loadu_si512(c->turned + i * LONG + t + V);
      uint16_t *to = c->columns + 2 * i * LONG + t;
      _mm512_storeu_si512(to, _mm512_permutex2var_epi16(low, even, high));
      _mm512_storeu_si512(to + LONG, _mm512_permutex2var_epi16(low, odd, high));
    }
}

/* Row t of relate and before, from the products of keys; decay: from each row to t, 0 behind t. */
static void relate_row(const chunk *c, int64_t t, float keep, float *decay) {
  const int64_t block = t / ROWS, begin = block * ROWS, at = (block * PAIR + t % ROWS) * LONG;
  float *k = c->relate + at, *q = k + ROWS * LONG;
  uint16_t *k_before = c->before + at, *q_before = k_before + ROWS * LONG;
  for (int64_t s = 0; s <= begin; s += V) v_store(decay + s, v_mul(v_set(keep), v_load(decay + s)));
  decay[t] = 1.0f;
  for (int64_t s = 0; s <= begin; s += V) {
    const vf d = v_load(decay + s);
    v_store(k + s, v_mul(v_mul(v_set(c->beta[t]), d), v_load(k + s)));
    v_store(q + s, v_mul(d, v_load(q + s)));
  }
  v_narrow_row(k, begin, LONG, k_before);
  v_narrow_row(q, begin, LONG, q_before);
}

/* Rows first .. first + c->rows of the call. */
static void prepare(const cpu_delta *g, int64_t first, const chunk *c) {
  float keep[LONG] = {0}, decay[LONG] = {0}, all = 1.0f;
  for (int64_t t = 0; t < LONG; t++) {
    c->beta[t] = 0.0f;
    if (t < c->rows) {
      take_row(c, g->k + (first + t) * g->ldk, g->dk, g->eps, 1.0f, row_of(c, t, 0));
      take_row(c, g->q + (first + t) * g->ldq, g->dk, g->eps, g->scale, row_of(c, t, 1));
      keep[t] = g->g[(first + t) * g->ldg];
      c->beta[t] = g->beta[(first + t) * g->ldbeta];
    } else {
      memset(row_of(c, t, 0), 0, (size_t)c->dk * sizeof *c->kq);
      memset(row_of(c, t, 1), 0, (size_t)c->dk * sizeof *c->kq);
    }
  }
  for (int64_t t = 0; t < LONG; t += V) v_store(keep + t, v_exp(v_load(keep + t)));
  turn_keys(c);
  for (int64_t t = 0; t < c->rows; t += ROWS)
    for (int64_t s = 0; s <= t; s += AMX_TILE) {
      amx_zero();
      products(c->dk / 32, row_of(c, t, 0), c->dk * 2, c->turned + s, LONG * 4);
      keep_sums(c->relate + t / ROWS * PAIR * LONG + s, LONG);
    }
  for (int64_t t = 0; t < c->rows; t++) {
    c->e[t] = all *= keep[t];
    relate_row(c, t, keep[t], decay);
  }
  memcpy(c->last, decay, sizeof decay);
}

/* ---- columns ---- */

/* Changes d_t and results of the rows of block `block`, columns [col, col + WIDE) of which `left`
 * are there. */
static void solve(const cpu_delta *g, const chunk *c, int64_t first, int64_t block, int64_t col,
                  int64_t left) {
  const int64_t begin = block * ROWS, end = begin + ROWS < c->rows ? begin + ROWS : c->rows;
  for (int64_t t = begin; t < end; t++) {
    const int64_t r = t - begin;
    const float *v = g->v + (first + t) * g->ldv + col, *relate = c->relate + block * PAIR * LONG,
                *a = relate + r * LONG + begin, *p = a + ROWS * LONG;
    float *d = c->d + t * c->cols + col, *y = g->y + (first + t) * g->ldy + col;
    const vf e = v_set(c->e[t]), beta = v_set(c->beta[t]);
    vf x[W], sum[W];
    for (int w = 0; w < W; w++) {
      const int64_t there = left - w * V, at = r * WIDE + w * V;
      x[w] = v_loadn(v + w * V, there > 0 ? there : 0);
      x[w] = v_mul(beta, v_fnma(e, v_load(c->known + at), x[w]));
      x[w] = v_sub(x[w], v_load(c->sums + at));
      sum[w] = v_fma(e, v_load(c->known + ROWS * WIDE + at), v_load(c->sums + ROWS * WIDE + at));
    }
    for (int64_t s = 0; s < r; s++) {
      const float *other = c->d + (begin + s) * c->cols + col;
      for (int w = 0; w < W; w++) {
        x[w] = v_fnma(v_set(a[s]), v_load(other + w * V), x[w]);
        sum[w] = v_fma(v_set(p[s]), v_load(other + w * V), sum[w]);
      }
    }
    for (int w = 0; w < W; w++) {
      v_store(d + w * V, x[w]);
      if (left > w * V) v_storen(y + w * V, v_fma(v_set(p[r]), x[w], sum[w]), left - w * V);
    }
  }
}

/* Pairs of rows of d, each times its factor, from row `begin` to `end`; zeros where there is none
 * more. */
static void pair_rows(const chunk *c, int64_t begin, int64_t end, const float *factor) {
  for (int64_t t = begin; t < end; t += 2)
    for (int64_t i = 0; i < c->cols; i += V) {
      const float *d = c->d + t * c->cols + i;
      const vf low = t < c->rows ? v_load(d) : v_zero(),
               high = t + 1 < c->rows ? v_load(d + c->cols) : v_zero();
      v_store(c->d_pairs + t / 2 * c->cols + i,
              factor ? v_pair_up(v_mul(v_set(factor[t]), low), v_mul(v_set(factor[t + 1]), high))
                     : v_pair_up(low, high));
    }
}

static void run_block(const cpu_delta *g, const chunk *c, int64_t first, int64_t block,
                      int64_t cols, bool fresh) {
  const size_t bytes = (size_t)(PAIR * WIDE) * sizeof(float);
  const int64_t ahead = (block * ROWS + 31) / 32;
  for (int64_t col = 0; col < cols; col += WIDE) {
    if (fresh) memset(c->known, 0, bytes);
    if (!ahead) memset(c->sums, 0, bytes);
    for (int64_t i = 0; i < WIDE; i += AMX_TILE) {
      if (!fresh) {
        amx_zero();
        products(c->dk / 32, row_of(c, block * ROWS, 0), c->dk * 2, c->s_pairs + col + i,
                 c->cols * 4);
        keep_sums(c->known + i, WIDE);
      }
      if (!ahead) continue;
      amx_zero();
      products(ahead, c->before + block * PAIR * LONG, LONG * 2, c->d_pairs + col + i, c->cols * 4);
      keep_sums(c->sums + i, WIDE);
    }
    solve(g, c, first, block, col, cols - col);
  }
  pair_rows(c, block * ROWS, block * ROWS + ROWS, NULL);
}

/* The state after the chunk, and its pairs where another chunk follows. */
static void move_state(const chunk *c, bool pairs) {
  const int64_t rows = (c->rows + 31) / 32 * 32;
  const vf e = v_set(c->e[c->rows - 1]);
  pair_rows(c, 0, rows, c->last);
  for (int64_t i = 0; i < c->dk; i += AMX_TILE)
    for (int64_t col = 0; col < c->cols; col += AMX_TILE) {
      float *s = c->s + i * c->cols + col;
      for (int r = 0; r < AMX_TILE; r++) {
        float *x = s + r * c->cols;
        v_store(x, v_mul(e, v_load(x)));
        v_store(x + V, v_mul(e, v_load(x + V)));
      }
      take_sums(s, c->cols);
      products(rows / 32, c->columns + i * LONG, LONG * 2, c->d_pairs + col, c->cols * 4);
      keep_sums(s, c->cols);
      for (int r = 0; pairs && r < AMX_TILE; r += 2) {
        const float *low = s + r * c->cols, *high = low + c->cols;
        float *to = c->s_pairs + (i + r) / 2 * c->cols + col;
        v_store(to, v_pair_up(v_load(low), v_load(high)));
        v_store(to + V, v_pair_up(v_load(low + V), v_load(high + V)));
      }
    }
}

/* ---- the call ---- */

static chunk lay_out(const cpu_delta *g, int64_t cols, float *at) {
  chunk c = {.dk = cpu_delta_rounded(g->dk, AMX_TILE), .cols = cpu_delta_rounded(cols, WIDE)};
  c.kq = (uint16_t *)(void *)at;
  c.turned = at += LONG * c.dk;
  c.columns = (uint16_t *)(void *)(at += LONG * c.dk / 2);
  c.relate = at += LONG * c.dk / 2;
  c.before = (uint16_t *)(void *)(at += 2 * LONG * LONG);
  c.s = at += LONG * LONG;
  c.s_pairs = at += c.dk * c.cols;
  c.d = at += c.dk * c.cols / 2;
  c.d_pairs = at += LONG * c.cols;
  c.known = at += LONG / 2 * c.cols;
  c.sums = at += PAIR * WIDE;
  c.row = at += PAIR * WIDE;
  c.e = at += c.dk;
  c.beta = c.e + LONG;
  c.last = c.beta + LONG;
  return c;
}

static void begin_state(const cpu_delta *g, const chunk *c, int64_t cols) {
  memset(c->s, 0, (size_t)(c->dk * c->cols) * sizeof *c->s);
  if (!g->current) return;
  for (int64_t i = 0; i < g->dk; i++)
    memcpy(c->s + i * c->cols, g->current + i * g->lds, (size_t)cols * sizeof *c->s);
  for (int64_t i = 0; i < c->dk; i += 2)
    for (int64_t col = 0; col < c->cols; col += V) {
      const float *x = c->s + i * c->cols + col;
      v_store(c->s_pairs + i / 2 * c->cols + col, v_pair_up(v_load(x), v_load(x + c->cols)));
    }
}

void accel_f32_delta_bf16_head__amx(const cpu_delta *g, int64_t cols, float *workspace) {
  chunk c = lay_out(g, cols, workspace);
  amx_configure(AMX_TILE);
  begin_state(g, &c, cols);
  for (int64_t first = 0; first < g->rows; first += LONG) {
    const bool ends = g->rows - first <= LONG;
    c.rows = ends ? g->rows - first : LONG;
    prepare(g, first, &c);
    memset(c.d_pairs, 0, (size_t)(LONG / 2 * c.cols) * sizeof *c.d_pairs);
    for (int64_t block = 0; block * ROWS < c.rows; block++)
      run_block(g, &c, first, block, cols, first == 0 && !g->current);
    if (!ends || g->next) move_state(&c, !ends);
  }
  _tile_release();
  for (int64_t i = 0; g->next && i < g->dk; i++)
    memcpy(g->next + i * g->lds, c.s + i * c.cols, (size_t)cols * sizeof *c.s);
}
