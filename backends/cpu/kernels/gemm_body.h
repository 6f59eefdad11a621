/* gemm_body.h - linear over packed panels (kernels.h: cpu_gemm), included by gemm_<isa>.c. */
#include "kernels/kernels.h"
#include "kernels/math_body.h"
#include "kernels/micro_body.h"

/* Few rows: several panels at once. */
/* clang-format off */
#if V_REGISTERS >= 32
MICRO(1, 8) MICRO(2, 4) MICRO(3, 4) MICRO(4, 2)
static const struct {
  micro_fn run;
  int panels;
} wide[] = {{NULL, 1}, {micro_1_8, 8}, {micro_2_4, 4}, {micro_3_4, 4}, {micro_4_2, 2}};
#else
MICRO(1, 4) MICRO(2, 2) MICRO(3, 2)
static const struct {
  micro_fn run;
  int panels;
} wide[] = {{NULL, 1}, {micro_1_4, 4}, {micro_2_2, 2}, {micro_3_2, 2}, {micro_4_1, 1}};
#endif
/* clang-format on */
enum { WIDE_ROWS = 4, WIDE_PANELS = 8 };

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

void CPU_NAME(activate, row)(int act, float alpha, const float *x, float *y, int64_t n) { activate(act, alpha, x, y, n); }

/* ---- what happens to a finished tile, while it is in the first-level cache ---- */

static void add_bias(float *tile, int64_t rows, const float *bias, int64_t cols) { /* of columns 0 .. cols-1 */
  for (int64_t j = 0; bias && j < cols; j += V) {
    vf b = v_loadn(bias + j, cols - j);
    for (int64_t i = 0; i < rows; i++) v_store(tile + i * GEMM_COLS + j, v_add(v_load(tile + i * GEMM_COLS + j), b));
  }
}

static void finish(const cpu_gemm *g, float *tile, int64_t row, int64_t rows, int64_t panel) {
  const int64_t width = g->glu ? GEMM_COLS / 2 : GEMM_COLS, col = panel * width,
                cols = g->n - col < width ? g->n - col : width;
  add_bias(tile, rows, g->bias ? g->bias + col : NULL, cols);
  if (g->glu) { /* left half up, right half gate */
    add_bias(tile + width, rows, g->bias_gate ? g->bias_gate + col : NULL, cols);
    vf more = v_set(g->act == ACCEL_PLUGIN_ACT_SWIGLU_OAI ? 1.0f : 0.0f);
    for (int64_t i = 0; i < rows; i++) {
      float *up = tile + i * GEMM_COLS, *gate = up + width;
      activate(g->act, g->alpha, gate, gate, width);
      for (int64_t j = 0; j < width; j += V) v_store(up + j, v_mul(v_add(v_load(up + j), more), v_load(gate + j)));
    }
  } else if (g->act != ACCEL_PLUGIN_ACT_NONE) {
    activate(g->act, g->alpha, tile, tile, rows * GEMM_COLS);
  }
  for (int64_t i = 0; i < rows; i++) {
    float *y = g->y + (row + i) * g->ldy + col;
    const float *t = tile + i * GEMM_COLS, *r = g->residual ? g->residual + (row + i) * g->ldr + col : NULL;
    if (cols == GEMM_COLS) { /* whole panels without masks */
      MICRO_UNROLL for (int64_t j = 0; j < GEMM_COLS; j += V)
          v_store(y + j, r ? v_add(v_load(t + j), v_load(r + j)) : v_load(t + j));
      continue;
    }
    for (int64_t j = 0; j < cols; j += V) {
      vf v = v_load(t + j);
      if (r) v = v_add(v, v_loadn(r + j, cols - j));
      v_storen(y + j, v, cols - j);
    }
  }
}

/* ---- the walk ---- */

/* Register tiles that share one pass over the panels: their part of x and a panel stay in the second-level cache together.
 * 64 KiB of x was better than 128 KiB and more on an AVX-512 machine with 2 MiB (K 384: 10 %; K 768 and 3072: the same);
 * fewer than 56 rows fetch w too often. */
static int64_t block_tiles(const cpu_gemm *g, int64_t tiles) {
  int64_t wanted = 16384 / (g->k ? g->k : 1) / GEMM_ROWS,
          blocks = tiles / (wanted < 56 / GEMM_ROWS ? 56 / GEMM_ROWS : wanted);
  return blocks > 1 ? (tiles + blocks - 1) / blocks : tiles;
}

static void few_rows(const cpu_gemm *g, int64_t row, int64_t rows, int64_t panel, int64_t panel_end) {
  float tile[WIDE_ROWS * WIDE_PANELS * GEMM_COLS] __attribute__((aligned(64))),
      one[WIDE_ROWS * GEMM_COLS] __attribute__((aligned(64)));
  const int64_t size = g->k * GEMM_COLS;
  while (panel < panel_end) {
    int panels = panel_end - panel >= wide[rows].panels ? wide[rows].panels : 1;
    int64_t ldc = panels * GEMM_COLS;
    (panels > 1 ? wide[rows].run : micro_of_rows[rows])(g->k, g->x + row * g->ldx, g->ldx, g->w + panel * size, size, tile,
                                                        ldc, g->w + (panel + panels) * size, 0);
    for (int p = 0; p < panels; p++, panel++) {
      for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < GEMM_COLS; j += V)
          v_store(one + i * GEMM_COLS + j, v_load(tile + i * ldc + p * GEMM_COLS + j));
      finish(g, one, row, rows, panel);
    }
  }
}

void CPU_NAME(linear, GEMM_TILE)(const cpu_gemm *g, int64_t row, int64_t row_end, int64_t panel, int64_t panel_end) {
  float tile[GEMM_ROWS * GEMM_COLS] __attribute__((aligned(64)));
  const int64_t size = g->k * GEMM_COLS;
  if (row_end - row <= WIDE_ROWS) {
    if (row < row_end) few_rows(g, row, row_end - row, panel, panel_end);
    return;
  }
  while (row < row_end) {
    const int64_t tiles = block_tiles(g, (row_end - row + GEMM_ROWS - 1) / GEMM_ROWS),
                  step = MICRO_STEPS * GEMM_COLS / tiles; /* of prefetching */
    int64_t stop = row;
    for (int64_t t = 0; t < tiles; t++) stop += micro_height(row_end - stop);
    for (int64_t p = panel; p < panel_end; p++)
      for (int64_t i = row, rows, t = 0; t < tiles; i += rows, t++) { /* each tile brings its part of the next panel */
        rows = micro_height(row_end - i);
        micro_of_rows[rows](g->k, g->x + i * g->ldx, g->ldx, g->w + p * size, size, tile, GEMM_COLS,
                            g->w + (p + 1) * size + t * step * (g->k / MICRO_STEPS), step);
        finish(g, tile, i, rows, p);
      }
    row = stop;
  }
}

/* Rows of w become columns of a panel, V at a time; missing ones are zeros. */
void CPU_NAME(pack, column)(const float *w, int64_t ldw, int64_t rows, int64_t k, float *panel, int64_t ldp) {
  vf x[V];
  int64_t j = 0;
  for (; j + V <= k; j += V) {
    for (int64_t i = 0; i < V; i++) x[i] = i < rows ? v_load(w + i * ldw + j) : v_zero();
    v_transpose(x);
    for (int64_t i = 0; i < V; i++) v_store(panel + (j + i) * ldp, x[i]);
  }
  for (; j < k; j++)
    for (int64_t i = 0; i < V; i++) panel[j * ldp + i] = i < rows ? w[i * ldw + j] : 0.0f;
}
