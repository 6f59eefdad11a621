/* delta_body.h - gated_delta_rule (ops.h), included by delta_<isa>.c.
 *
 * Rows are taken in chunks of CPU_DELTA_ROWS, which give the sums of the recurrence in another
 * order.  With e_t the decay from the chunk's beginning to row t, D_ts that from s to t, and S the
 * state before the chunk,
 *
 *   d_t = beta_t (v_t - e_t S^T k_t - sum over s < t of D_ts (k_t . k_s) d_s)
 *   y_t = e_t S^T q_t + sum over s <= t of D_ts (q_t . k_s) d_s
 *   S   = e_n S + sum over s of D_ns k_s d_s^T
 *
 * so the state is read once for all rows of a chunk and written once: products of matrices.  One row
 * (decoding) is a chunk of one.  Columns of v do not meet: a block of four vectors of them goes
 * through a chunk at a time, and what comes out does not depend on how many blocks a call has. */
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/math_body.h"
#include "kernels/unroll.h"

enum {
  C = CPU_DELTA_ROWS,
  W = CPU_DELTA_VECTORS,
  BLOCK = W * V,
  /* sums in registers: rows by vectors */
  ROWS = V_REGISTERS >= 32 ? 4 : 6,
  VECS = V_REGISTERS >= 32 ? W : 2,
  AHEAD = 8 /* rows of a state that a single row asks for before their use */
};

/* What the blocks of a chunk share. */
typedef struct chunk {
  int64_t rows, ld; /* ld: dk rounded up to whole vectors */
  float *kq;        /* [2 C][ld]: k and q of each row in turn, normalised and scaled */
  float *kd;        /* [C][ld]: k_s D_ns */
  float *a, *p;     /* [C][C]: beta_t D_ts (k_t . k_s), D_ts (q_t . k_s) */
  float *e, *beta;  /* [C] */
  float *u;         /* [2 C][BLOCK]: S^T k_t, later d_t, and S^T q_t in turn */
} chunk;

/* to[ld] = factor * from[dk] / sqrt(|from|^2 + eps), eps 0: factor * from. */
static void delta_take(const float *from, int64_t dk, float eps, float factor, float *to) {
  vf sum = v_zero(), other = v_zero(); /* one would wait for itself */
  const int64_t whole = dk / V * V, even = dk / (2 * V) * (2 * V);
  for (int64_t i = 0; eps > 0 && i < even; i += 2 * V) {
    const vf x = v_load(from + i), y = v_load(from + i + V);
    sum = v_fma(x, x, sum);
    other = v_fma(y, y, other);
  }
  if (eps > 0 && even < whole) sum = v_fma(v_load(from + even), v_load(from + even), sum);
  sum = v_add(sum, other);
  const vf rest = whole < dk ? v_loadn(from + whole, dk - whole) : v_zero();
  if (eps > 0) sum = v_fma(rest, rest, sum);
  const vf scale = v_set(eps > 0 ? factor / sqrtf(v_sum(sum) + eps) : factor);
  for (int64_t i = 0; i < whole; i += V) v_store(to + i, v_mul(v_load(from + i), scale));
  if (whole < dk) v_store(to + whole, v_mul(rest, scale));
}

/* a[i] = k . k_i, p[i] = q . k_i for i < n, where q follows k, and k_i+1 is two rows behind k_i. */
V_INLINE void delta_dots(const int n, const float *k, const float *ks, int64_t ld, float *a,
                         float *p) {
  vf x[4], y[4];
  for (int i = 0; i < n; i++) x[i] = y[i] = v_zero();
  for (int64_t at = 0; at < ld; at += V) {
    vf kv = v_load(k + at), qv = v_load(k + ld + at);
    for (int i = 0; i < n; i++) {
      vf other = v_load(ks + 2 * i * ld + at);
      x[i] = v_fma(kv, other, x[i]);
      y[i] = v_fma(qv, other, y[i]);
    }
  }
  for (int i = 0; i < n; i++) {
    a[i] = v_sum(x[i]);
    p[i] = v_sum(y[i]);
  }
}

/* Row t of a and p, from keys and from the decay of row t and that of the rows before. */
static void delta_relate(const chunk *c, int64_t t, float keep, float *decay) {
  const float *k = c->kq + 2 * t * c->ld;
  float *a = c->a + t * C, *p = c->p + t * C;
  int64_t s = 0;
  for (; s + 4 <= t + 1; s += 4) delta_dots(4, k, c->kq + 2 * s * c->ld, c->ld, a + s, p + s);
  for (; s <= t; s++) delta_dots(1, k, c->kq + 2 * s * c->ld, c->ld, a + s, p + s);
  for (s = 0; s < t; s++) decay[s] *= keep;
  decay[t] = 1.0f;
  for (s = 0; s <= t; s++) {
    a[s] *= c->beta[t] * decay[s];
    p[s] *= decay[s];
  }
}

/* Asks for `cols` columns of rows first .. end - 1, which nothing sees coming where rows lie whole
 * pages apart. */
static void delta_ask_rows(const float *x, int64_t ld, int64_t first, int64_t end, int64_t cols) {
  for (int64_t row = first; row < end; row++)
    for (int64_t i = 0; i < cols; i += 16) v_prefetch(x + row * ld + i);
}

/* Rows first .. first + c->rows of the call. */
static void delta_prepare(const cpu_delta *g, int64_t first, chunk *c) {
  float keep[C] = {0}, decay[C], all = 1.0f;
  for (int64_t t = 0; t < c->rows; t++) {
    const int64_t next = first + t + 4;
    if (next < g->rows) {
      delta_ask_rows(g->k, g->ldk, next, next + 1, g->dk);
      delta_ask_rows(g->q, g->ldq, next, next + 1, g->dk);
    }
    delta_take(g->k + (first + t) * g->ldk, g->dk, g->eps, 1.0f, c->kq + 2 * t * c->ld);
    delta_take(g->q + (first + t) * g->ldq, g->dk, g->eps, g->scale, c->kq + (2 * t + 1) * c->ld);
    keep[t] = g->g[(first + t) * g->ldg];
    c->beta[t] = g->beta[(first + t) * g->ldbeta];
  }
  for (int64_t t = 0; t < C; t += V) v_store(keep + t, v_exp(v_load(keep + t)));
  for (int64_t t = 0; t < c->rows; t++) {
    c->e[t] = all *= keep[t];
    delta_relate(c, t, keep[t], decay);
  }
  for (int64_t s = 0; s < c->rows; s++) {
    const vf factor = v_set(decay[s]);
    for (int64_t i = 0; i < c->ld; i += V)
      v_store(c->kd + s * c->ld + i, v_mul(v_load(c->kq + 2 * s * c->ld + i), factor));
  }
}

/* u[n][.. VECS V ..] = kq[n][dk] s[dk][cols], rows of u BLOCK floats apart */
V_INLINE void delta_read(const int n, const int whole, const float *kq, int64_t ld, int64_t dk,
                         const float *s, int64_t lds, int64_t cols, float *u) {
  vf sum[ROWS][VECS];
  MICRO_UNROLL for (int r = 0; r < n; r++) {
    MICRO_UNROLL for (int w = 0; w < VECS; w++) sum[r][w] = v_zero();
  }
  for (int64_t i = 0; i < dk; i++) {
    vf x[VECS];
    MICRO_UNROLL for (int w = 0; w < VECS; w++) x[w] =
        v_load_left(whole, s + i * lds + w * V, cols - w * V);
    MICRO_UNROLL for (int r = 0; r < n; r++) {
      const vf k = v_set(kq[r * ld + i]);
      MICRO_UNROLL for (int w = 0; w < VECS; w++) v_accumulate(&sum[r][w], k, x[w]);
    }
    v_fence();
  }
  MICRO_UNROLL for (int r = 0; r < n; r++) {
    MICRO_UNROLL for (int w = 0; w < VECS; w++) v_store(u + r * BLOCK + w * V, sum[r][w]);
  }
}

/* A call of f(n, ...) for each height n of a tile, 1 to ROWS. */
#define DELTA_CASE(n, f, ...) \
  case n:                     \
    f(n, __VA_ARGS__);        \
    break;
#if V_REGISTERS >= 32
#define DELTA_TALLER(f, ...)
#else
#define DELTA_TALLER(f, ...)    \
  DELTA_CASE(4, f, __VA_ARGS__) \
  DELTA_CASE(5, f, __VA_ARGS__)
#endif
#define DELTA_TILE(n, f, ...)     \
  switch (n) {                    \
    DELTA_CASE(1, f, __VA_ARGS__) \
    DELTA_CASE(2, f, __VA_ARGS__) \
    DELTA_CASE(3, f, __VA_ARGS__) \
    DELTA_TALLER(f, __VA_ARGS__)  \
    default:                      \
      f(ROWS, __VA_ARGS__);       \
  }

V_INLINE void delta_read_all(const int whole, const chunk *c, int64_t dk, const float *s,
                             int64_t lds, int64_t cols) {
  for (int64_t at = 0; at < BLOCK; at += VECS * V)
    for (int64_t t = 0, n; t < 2 * c->rows; t += n) {
      n = tile_height(2 * c->rows - t, ROWS);
      DELTA_TILE(n, delta_read, whole, c->kq + t * c->ld, c->ld, dk, s + at, lds, cols - at,
                 c->u + t * BLOCK + at)
    }
}

/* to[n][.. VECS V ..] = decay * from[n][cols] + (kd[rows][n])^T d[rows][BLOCK], d two rows apart;
 * from NULL: zeros. */
V_INLINE void delta_write(const int n, const int whole, const chunk *c, const float *kd,
                          const float *d, const float *from, int64_t ldf, float *to, int64_t ldt,
                          int64_t cols) {
  const vf decay = v_set(c->e[c->rows - 1]);
  vf sum[ROWS][VECS];
  MICRO_UNROLL for (int r = 0; r < n; r++) {
    MICRO_UNROLL for (int w = 0; w < VECS; w++) sum[r][w] =
        from ? v_mul(decay, v_load_left(whole, from + r * ldf + w * V, cols - w * V)) : v_zero();
  }
  for (int64_t s = 0; s < c->rows; s++, kd += c->ld, d += 2 * BLOCK) {
    vf x[VECS];
    MICRO_UNROLL for (int w = 0; w < VECS; w++) x[w] = v_load(d + w * V);
    MICRO_UNROLL for (int r = 0; r < n; r++) {
      const vf k = v_set(kd[r]);
      MICRO_UNROLL for (int w = 0; w < VECS; w++) v_accumulate(&sum[r][w], k, x[w]);
    }
    v_fence();
  }
  MICRO_UNROLL for (int r = 0; r < n; r++) {
    MICRO_UNROLL for (int w = 0; w < VECS; w++)
        v_store_left(whole, to + r * ldt + w * V, sum[r][w], cols - w * V);
  }
}

V_INLINE void delta_write_all(const int whole, const chunk *c, int64_t dk, const float *from,
                              int64_t ldf, float *to, int64_t ldt, int64_t cols) {
  for (int64_t at = 0; at < BLOCK; at += VECS * V)
    for (int64_t i = 0, n; i < dk; i += n) {
      n = tile_height(dk - i, ROWS);
      DELTA_TILE(n, delta_write, whole, c, c->kd + i, c->u + at, from ? from + i * ldf + at : NULL,
                 ldf, to + i * ldt + at, ldt, cols - at)
    }
}

/* The changes d_t, in place of S^T k_t, and the results. */
V_INLINE void delta_solve(const int whole, const cpu_delta *g, const chunk *c, const float *v,
                          float *y, int64_t cols) {
  for (int64_t t = 0; t < c->rows; t++) {
    float *d = c->u + 2 * t * BLOCK;
    const vf e = v_set(c->e[t]), beta = v_set(c->beta[t]);
    vf x[W], sum[W];
    for (int w = 0; w < W; w++) {
      x[w] = v_load_left(whole, v + t * g->ldv + w * V, cols - w * V);
      x[w] = v_mul(beta, v_fnma(e, v_load(d + w * V), x[w]));
      sum[w] = v_mul(e, v_load(d + BLOCK + w * V));
    }
    for (int64_t s = 0; s < t; s++) {
      const vf a = v_set(c->a[t * C + s]), p = v_set(c->p[t * C + s]);
      for (int w = 0; w < W; w++) {
        vf other = v_load(c->u + 2 * s * BLOCK + w * V);
        x[w] = v_fnma(a, other, x[w]);
        sum[w] = v_fma(p, other, sum[w]);
      }
    }
    const vf own = v_set(c->p[t * C + t]);
    for (int w = 0; w < W; w++) {
      v_store(d + w * V, x[w]);
      v_store_left(whole, y + t * g->ldy + w * V, v_fma(own, x[w], sum[w]), cols - w * V);
    }
  }
}

/* A block of columns through a chunk; from, to: the state before and after it, NULL zeros and not
 * wanted. */
V_INLINE void delta_block(const int whole, const cpu_delta *g, const chunk *c, const float *v,
                          float *y, int64_t cols, const float *from, int64_t ldf, float *to,
                          int64_t ldt) {
  delta_ask_rows(v, g->ldv, 0, c->rows, cols);
  if (from)
    delta_read_all(whole, c, g->dk, from, ldf, cols);
  else
    memset(c->u, 0, (size_t)(2 * c->rows * BLOCK) * sizeof(float));
  delta_solve(whole, g, c, v, y, cols);
  if (to) delta_write_all(whole, c, g->dk, from, ldf, to, ldt, cols);
}

/* ks[cols] += k[n] s[n][cols], qs[cols] += q[n] s[n][cols] */
V_INLINE void delta_add(const int n, const int whole, const float *k, const float *q,
                        const float *s, int64_t lds, int64_t cols, float *ks, float *qs) {
  vf by_k[4], by_q[4];
  for (int r = 0; r < n; r++) {
    by_k[r] = v_set(k[r]);
    by_q[r] = v_set(q[r]);
  }
  for (int64_t at = 0; at < cols; at += V) {
    vf known = v_load(ks + at), sum = v_load(qs + at);
    for (int r = 0; r < n; r++) {
      vf x = v_load_left(whole, s + r * lds + at, cols - at);
      known = v_fma(by_k[r], x, known);
      sum = v_fma(by_q[r], x, sum);
    }
    v_store(ks + at, known);
    v_store(qs + at, sum);
  }
}

/* to[cols] = e from[cols] + k d[cols]; from NULL: zeros. */
V_INLINE void delta_move(const int whole, vf e, const float *from, vf k, const float *d,
                         int64_t cols, float *to) {
  for (int64_t at = 0; from && at < cols; at += V) {
    vf x = v_mul(k, v_load(d + at));
    v_store_left(whole, to + at, v_fma(e, v_load_left(whole, from + at, cols - at), x), cols - at);
  }
  for (int64_t at = 0; !from && at < cols; at += V)
    v_store_left(whole, to + at, v_mul(k, v_load(d + at)), cols - at);
}

/* Asks for four rows of a state. */
V_INLINE void delta_ask(const float *s, int64_t lds, int64_t cols) {
  for (int r = 0; s && r < 4; r++)
    for (int64_t at = 0; at < cols; at += 16) v_prefetch_far(s + r * lds + at);
}

/* A single row: rows of the state one after the other, all columns of each, as they lie in memory.
 * ks, qs: [cols] each, rounded up to whole vectors. */
V_INLINE void delta_single(const int whole, const cpu_delta *g, const chunk *c, int64_t cols,
                           float *ks, float *qs) {
  const float *k = c->kq, *q = c->kq + c->ld, *from = g->current;
  const int64_t ld = g->lds, dk = g->dk;
  const vf e = v_set(c->e[0]), beta = v_set(c->beta[0]), own = v_set(c->p[0]);
  float *to = g->next;
  for (int64_t at = 0; at < cols; at += V) {
    v_store(ks + at, v_zero());
    v_store(qs + at, v_zero());
  }
  int64_t i = 0;
  for (; from && i + 4 <= dk; i += 4) { /* the next head's state lies behind this one's */
    delta_ask(from + (i + AHEAD) * ld, ld, cols);
    delta_ask(to ? to + i * ld : NULL, ld, cols);
    delta_add(4, whole, k + i, q + i, from + i * ld, ld, cols, ks, qs);
  }
  for (; from && i < dk; i++) delta_add(1, whole, k + i, q + i, from + i * ld, ld, cols, ks, qs);
  for (int64_t at = 0; at < cols; at += V) {
    vf x = v_load_left(whole, g->v + at, cols - at);
    x = v_mul(beta, v_fnma(e, v_load(ks + at), x));
    v_store(ks + at, x);
    v_store_left(whole, g->y + at, v_fma(own, x, v_mul(e, v_load(qs + at))), cols - at);
  }
  for (i = 0; to && i < dk; i++)
    delta_move(whole, e, from ? from + i * ld : NULL, v_set(k[i]), ks, cols, to + i * ld);
}

void CPU_NAME(delta, head)(const cpu_delta *g, int64_t cols, float *workspace) {
  const int64_t ld = (g->dk + V - 1) / V * V;
  chunk c = {.ld = ld, .kq = workspace};
  c.kd = c.kq + 2 * C * ld;
  c.u = c.kd + C * ld;
  c.a = c.u + 2 * C * BLOCK;
  c.p = c.a + C * C;
  c.e = c.p + C * C;
  c.beta = c.e + C;
  float *held =
      c.beta + C; /* [blocks][dk][BLOCK]: the state between chunks; sums of a single row */
  for (int64_t i = 0; g->rows == 0 && g->next && i < g->dk; i++)
    for (int64_t k = 0; k < cols; k++)
      g->next[i * g->lds + k] = g->current ? g->current[i * g->lds + k] : 0.0f;
  for (int64_t first = 0; first < g->rows; first += c.rows) {
    c.rows = g->rows - first < C ? g->rows - first : C;
    const bool begins = first == 0, ends = first + c.rows == g->rows;
    delta_prepare(g, first, &c);
    if (g->rows == 1) {
      if (cols % V == 0)
        delta_single(1, g, &c, cols, held, held + (cols + V - 1) / V * V);
      else
        delta_single(0, g, &c, cols, held, held + (cols + V - 1) / V * V);
      return;
    }
    for (int64_t at = 0; at < cols; at += BLOCK) {
      const int64_t n = cols - at < BLOCK ? cols - at : BLOCK;
      const float *from = begins ? (g->current ? g->current + at : NULL) : held + at * g->dk,
                  *v = g->v + first * g->ldv + at;
      float *to = ends ? (g->next ? g->next + at : NULL) : held + at * g->dk,
            *y = g->y + first * g->ldy + at;
      const int64_t ldf = begins ? g->lds : BLOCK, ldt = ends ? g->lds : BLOCK;
      if (n == BLOCK)
        delta_block(1, g, &c, v, y, n, from, ldf, to, ldt);
      else
        delta_block(0, g, &c, v, y, n, from, ldf, to, ldt);
    }
  }
}
