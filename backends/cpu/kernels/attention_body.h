/* attention_body.h - attention of one head of one sequence (kernels.h: cpu_attention), included by attention_<isa>.c.
 *
 * Keys are packed into panels once per task; then blocks of query rows go through scores, softmax and the product with v
 * while their scores stay in cache.  What lies outside a row's window is never computed when positions are row numbers.  The
 * order of every sum depends on the sequence alone, not on blocks of other rows, threads or batch. */
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/math_body.h"
#include "kernels/micro_body.h"

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

static void pack_columns(const float *w, int64_t ldw, int64_t rows, int64_t k,
                         float *panel) { /* [k][GEMM_COLS] of GEMM_COLS rows of w */
  vf x[V];
  for (int64_t c = 0; c < GEMM_COLS; c += V) {
    int64_t have = rows - c, j = 0;
    for (; j + V <= k; j += V) {
      for (int64_t i = 0; i < V; i++) x[i] = i < have ? v_load(w + (c + i) * ldw + j) : v_zero();
      v_transpose(x);
      for (int64_t i = 0; i < V; i++) v_store(panel + (j + i) * GEMM_COLS + c, x[i]);
    }
    for (; j < k; j++)
      for (int64_t i = 0; i < V; i++) panel[j * GEMM_COLS + c + i] = i < have ? w[(c + i) * ldw + j] : 0.0f;
  }
}

/* c[rows, panels * GEMM_COLS] = a b, b packed */
static void product(int64_t rows, int64_t k, const float *a, int64_t lda, const float *b, int64_t first, int64_t last,
                    float *c, int64_t ldc) {
  for (int64_t p = first; p < last; p++)
    for (int64_t i = 0, n; i < rows; i += n) {
      n = micro_height(rows - i);
      micro_of_rows[n](k, a + i * lda, lda, b + p * k * GEMM_COLS, 0, c + i * ldc + p * GEMM_COLS, ldc, b, 0);
    }
}

enum { SOFTMAX_ROWS = 8 };

/* What one block of rows shares. */
typedef struct block {
  const cpu_attention *a;
  float *k, *v, *score, *position, *key_side; /* in the workspace */
  int64_t lds;
  int64_t row, rows, low, high; /* query rows; keys that any of them sees */
  int plain;
} block;

/* First and one past the last key of row i when positions are row numbers. */
static void span_of(const cpu_attention *a, int64_t i, int64_t *low, int64_t *high) {
  *low = 0;
  *high = a->keys;
  if (a->key_position) return;
  if (a->left >= 0 && i - a->left > 0) *low = i - a->left;
  if (a->right >= 0 && i + a->right + 1 < a->keys) *high = i + a->right + 1;
  if (*low > a->keys) *low = a->keys;
  if (*high < *low) *high = *low;
}

/* relative terms of row i against key j are at [i - j + origin] */
static void add_disentangled(const block *b, int64_t i, float *s, int64_t low, int64_t high) {
  const cpu_attention *a = b->a;
  const int32_t *index = a->relative_row + a->relative_origin + i;
  const int64_t first = a->relative_first;
  if (a->rel_k) {
    const float *side = b->score + b->rows * b->lds + (i - b->row) * a->relative_columns; /* q . rel_k[r] */
    for (int64_t j = low; j < high; j++) s[j] += a->scale * side[index[-j] - first];
  }
  if (a->rel_q)
    for (int64_t j = low; j < high; j++) s[j] += a->scale * b->key_side[j * a->relative_columns + index[-j] - first];
}

/* Whether scores are products times a positive scale, nothing else: the scale can then wait for the exponential. */
static int is_plain(const cpu_attention *a) {
  return !(a->softcap > 0) && !a->bias && !a->relative && !a->key_position && !a->relative_row && !a->mask && a->scale > 0;
}

/* Everything that changes the scores s of row i after the product. */
static void adjust(const block *b, int64_t i, float *s, int64_t low, int64_t high) {
  const cpu_attention *a = b->a;
  const vf scale = v_set(a->scale), hidden = v_set(-INFINITY);
  const float *dense = a->bias ? a->bias + i * a->bias_row : NULL;
  const float *relative = a->relative ? a->relative + a->relative_origin - i : NULL;
  for (int64_t j = low / V * V; j < high; j += V) {
    vf x = v_mul(v_load(s + j), scale);
    if (a->softcap > 0) x = v_mul(v_set(a->softcap), v_tanh(v_div(x, v_set(a->softcap))));
    if (dense) x = v_add(x, a->bias_column ? v_loadn(dense + j, a->keys - j) : v_set(*dense));
    if (relative) x = v_add(x, v_loadn(relative + j, a->keys - j));
    if (a->key_position) {
      vf ahead = v_sub(v_load(b->position + j), v_set((float)a->query_position[i]));
      if (a->slope != 0.0f) x = v_fma(v_set(a->slope), ahead, x);
      if (a->left >= 0) x = v_select(v_lt(ahead, v_set(-(float)a->left)), hidden, x);
      if (a->right >= 0) x = v_select(v_lt(v_set((float)a->right), ahead), hidden, x);
    }
    v_store(s + j, x);
  }
  if (a->relative_row) add_disentangled(b, i, s, low, high);
  if (a->mask)
    for (int64_t j = low; j < high; j++) s[j] = a->mask[j] ? s[j] : -INFINITY;
}

/* Row i's scores made final, -INFINITY or zero where they are not seen; answers the largest of them and the sink. */
static float finish_scores(const block *b, int64_t i) {
  const cpu_attention *a = b->a;
  float *s = b->score + (i - b->row) * b->lds;
  int64_t low, high;
  span_of(a, i, &low, &high);
  const int64_t from = low / V * V, to = round_up(high, V);
  if (!b->plain) adjust(b, i, s, low, high);
  for (int64_t j = b->low; j < from; j++) s[j] = 0.0f;
  for (int64_t j = from; j < low; j++) s[j] = -INFINITY;
  for (int64_t j = high; j < to; j++) s[j] = -INFINITY;
  for (int64_t j = to; j < b->high; j++) s[j] = 0.0f;
  vf most = v_set(-INFINITY);
  for (int64_t j = from; j < to; j += V) most = v_max(v_load(s + j), most); /* never NaN */
  const float top = v_largest(most) * (b->plain ? a->scale : 1.0f);
  return a->sink > top ? a->sink : top;
}

/* Scores to exponentials; answers 1 / their sum, 0 when nothing is seen. */
static float weigh(const block *b, int64_t i, float top) {
  const cpu_attention *a = b->a;
  float *s = b->score + (i - b->row) * b->lds;
  int64_t low, high;
  span_of(a, i, &low, &high);
  vf shift = v_set(top == -INFINITY ? 0.0f : -top), factor = v_set(b->plain ? a->scale : 1.0f), sum = v_zero();
  for (int64_t j = low / V * V; j < high; j += V) {
    vf e = v_exp_negative(v_fma(v_load(s + j), factor, shift));
    v_store(s + j, e);
    sum = v_add(sum, e);
  }
  float total = v_sum(sum);
  if (a->sink > -INFINITY) total += expf(a->sink - top);
  return total == 0.0f ? 0.0f : 1.0f / total; /* NaN where a score was */
}

static void write_probabilities(const block *b, int64_t i, float inverse) {
  const cpu_attention *a = b->a;
  const float *s = b->score + (i - b->row) * b->lds;
  float *to = a->probs + i * a->ldp;
  for (int64_t j = 0; j < a->probs_columns; j++) to[j] = j >= b->low && j < b->high && j < a->keys ? s[j] * inverse : 0.0f;
}

static void values(const block *b, const float *inverse) {
  const cpu_attention *a = b->a;
  float tile[GEMM_ROWS * GEMM_COLS] __attribute__((aligned(64)));
  for (int64_t d = 0; d < a->dv; d += GEMM_COLS)
    for (int64_t i = 0, n; i < b->rows; i += n) {
      n = micro_height(b->rows - i);
      micro_of_rows[n](b->high - b->low, b->score + i * b->lds + b->low, b->lds, b->v + d * a->keys + b->low * GEMM_COLS, 0,
                       tile, GEMM_COLS, b->v, 0);
      for (int64_t r = 0; r < n; r++)
        for (int64_t j = 0; j < GEMM_COLS && d + j < a->dv; j += V)
          v_storen(a->y + (b->row + i + r) * a->ldy + d + j, v_mul(v_load(tile + r * GEMM_COLS + j), v_set(inverse[r + i])),
                   a->dv - d - j);
    }
}

static void run_block(block *b) {
  const cpu_attention *a = b->a;
  float inverse[CPU_ATTENTION_ROWS];
  int64_t unused;
  if (!a->key_position) {
    span_of(a, b->row, &b->low, &unused);
    span_of(a, b->row + b->rows - 1, &unused, &b->high);
    b->low = b->low / GEMM_COLS * GEMM_COLS;
  } else {
    b->low = 0;
    b->high = a->keys;
  }
  const float *q = a->q + b->row * a->ldq;
  product(b->rows, a->dk, q, a->ldq, b->k, b->low / GEMM_COLS, (b->high + GEMM_COLS - 1) / GEMM_COLS, b->score, b->lds);
  if (a->rel_k)
    product(b->rows, a->dk, q, a->ldq, a->rel_k, 0, a->relative_columns / GEMM_COLS, b->score + b->rows * b->lds,
            a->relative_columns);
  for (int64_t i = 0; i < b->rows; i += SOFTMAX_ROWS) { /* several rows side by side hide the latency of each one's sums */
    const int64_t end = i + SOFTMAX_ROWS < b->rows ? i + SOFTMAX_ROWS : b->rows;
    float top[SOFTMAX_ROWS];
    for (int64_t r = i; r < end; r++) top[r - i] = finish_scores(b, b->row + r);
    for (int64_t r = i; r < end; r++) inverse[r] = weigh(b, b->row + r, top[r - i]);
    for (int64_t r = i; a->probs && r < end; r++) write_probabilities(b, b->row + r, inverse[r]);
  }
  values(b, inverse);
}

void CPU_NAME(attention, head)(const cpu_attention *a, int64_t row, int64_t row_end, float *workspace) {
  const cpu_attention_plan plan = cpu_attention_layout(a->keys, a->dk, a->dv, a->relative_columns, GEMM_ROWS, GEMM_COLS);
  block b = {.a = a, .k = workspace, .lds = plan.keys, .plain = is_plain(a)};
  if (a->keys < 1) {
    for (; row < row_end; row++) {
      memset(a->y + row * a->ldy, 0, (size_t)a->dv * sizeof(float));
      for (int64_t j = 0; a->probs && j < a->probs_columns; j++) a->probs[row * a->ldp + j] = 0.0f;
    }
    return;
  }
  for (int64_t j = 0; j < a->keys; j += GEMM_COLS)
    pack_columns(a->k + j * a->ldk, a->ldk, a->keys - j, a->dk, b.k + j * a->dk);
  b.v = workspace + plan.v;
  for (int64_t d = 0; d < plan.columns; d += GEMM_COLS) /* panels [keys][GEMM_COLS] */
    for (int64_t j = 0; j < a->keys; j++)
      for (int64_t c = d; c < d + GEMM_COLS; c += V)
        v_store(b.v + d * a->keys + j * GEMM_COLS + c - d, c < a->dv ? v_loadn(a->v + j * a->ldv + c, a->dv - c) : v_zero());
  b.position = workspace + plan.position;
  for (int64_t j = 0; a->key_position && j < plan.keys; j++) b.position[j] = j < a->keys ? (float)a->key_position[j] : 0.0f;
  b.key_side = workspace + plan.key_side;
  if (a->rel_q)
    product(a->keys, a->dk, a->k, a->ldk, a->rel_q, 0, a->relative_columns / GEMM_COLS, b.key_side, a->relative_columns);
  b.score = workspace + plan.score;
  for (; row < row_end; row += b.rows) {
    b.row = row;
    b.rows = row_end - row < plan.rows ? row_end - row : plan.rows;
    run_block(&b);
  }
}
