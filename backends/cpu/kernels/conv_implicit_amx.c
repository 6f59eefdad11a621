/* conv_implicit_amx.c - convolutions of bf16 for AMX whose taps read the image where it lies
 * (conv_implicit.h).
 *
 * What a block of pixels sees of 32 channels becomes bf16 once, channels last, with zeros around
 * it: [line][pixel][32].  A register is 16 pixels of a line, and of the next tap the same memory a
 * pixel further, so that each of its rows is a line of the cache whatever the tap.  Results are
 * [16 pixels][16 channels], turned where they are stored. */
#include "kernels/amx.h"
#include "kernels/bf16_avx512bf16.h"

#define GEMM_COLS AMX_TILE
#define V_GELU    v_gelu_brief
#include "kernels/conv_implicit.h"
#include "kernels/kernels.h"
#include "kernels/math_body.h"
#include "kernels/plane_body.h"
#include "kernels/tile_body.h"

_Static_assert((int)CPU_PAIRS_UNIT == (int)AMX_ROWS && (int)CPU_PAIRS_ROWS == (int)AMX_TILE,
               "a step of k is a register");

enum { TILE_FLOATS = CPU_PAIRS_ROWS * CPU_PAIRS_UNIT }; /* of w in one step of k */

/* A block: the pixels it gives, and the pairs of channels it sees. */
typedef struct block {
  int64_t y, x, lines, width; /* of the result */
  int64_t across;             /* registers of a line; the last may have fewer pixels */
  int64_t seen, pitch;        /* lines of pairs, and pixels of one */
  float *pairs;
} block;

static int64_t floats_of_line(const block *b) { return b->pitch * CPU_PAIRS_UNIT; }
static int64_t floats_of_step(const block *b) { return b->seen * floats_of_line(b); }

/* ---- pairs ---- */

enum { CHUNK = 4 * V }; /* pixels of a line that are laid out at a time */

/* to[n] = pairs of the pixels from `at` on of two lines `width` long; `second` NULL: of zeros. */
static void pair_up(const float *first, const float *second, int64_t width, int64_t at, int64_t n,
                    float *to) {
  float a[CHUNK], b[CHUNK];
  const float *left = first + at, *right = second ? second + at : NULL;
  if (at < 0 || at + n > width) { /* what lies beyond is not read */
    lay_run(first, width, at, 1, n, 0.0f, false, a);
    if (second) lay_run(second, width, at, 1, n, 0.0f, false, b);
    left = a;
    right = second ? b : NULL;
  }
  for (int64_t j = 0; j < n; j += V)
    v_store(to + j, v_pair_up(v_load(left + j), right ? v_load(right + j) : v_zero()));
}

/* Pixels [at, at + n) of a line of pairs: the 32 channels from `channel` on of line y of x. */
static void lay_chunk(const cpu_conv_gemm *g, int64_t channel, int64_t y, int64_t at, int64_t n,
                      float *to) {
  float words[CPU_PAIRS_UNIT * CHUNK];
  const kit_plane *p = &g->plane;
  const int64_t size = p->in[0] * p->in[1], channels = g->k / (p->kernel[0] * p->kernel[1]);
  for (int64_t i = 0; i < CPU_PAIRS_UNIT; i++, channel += 2) {
    const float *row = g->x + channel * size + y * p->in[1];
    if (channel >= channels) {
      memset(words + i * CHUNK, 0, sizeof *words * CHUNK);
      continue;
    }
    for (int64_t j = 0; j < n; j += V) { /* the line that follows */
      _mm_prefetch((const char *)(row + p->in[1] + at + j), _MM_HINT_T0);
      _mm_prefetch((const char *)(row + size + p->in[1] + at + j), _MM_HINT_T0);
    }
    pair_up(row, channel + 1 < channels ? row + size : NULL, p->in[1], at, n, words + i * CHUNK);
  }
  for (int64_t j = 0; j < n; j += V, to += V * CPU_PAIRS_UNIT) {
    vf t[V];
    for (int i = 0; i < V; i++) t[i] = v_load(words + i * CHUNK + j);
    v_transpose(t);
    for (int i = 0; i < V; i++) v_store(to + i * CPU_PAIRS_UNIT, t[i]);
  }
}

/* The 32 channels from `channel` on of all that a block sees. */
static void lay_step(const cpu_conv_gemm *g, const block *b, int64_t channel, float *to) {
  const kit_plane *p = &g->plane;
  for (int64_t line = 0; line < b->seen; line++, to += floats_of_line(b)) {
    const int64_t y = b->y - p->begin[0] + line, x = b->x - p->begin[1];
    if (y < 0 || y >= p->in[0]) {
      memset(to, 0, (size_t)floats_of_line(b) * sizeof *to);
      continue;
    }
    for (int64_t at = 0; at < b->pitch; at += CHUNK)
      lay_chunk(g, channel, y, x + at, b->pitch - at < CHUNK ? b->pitch - at : CHUNK,
                to + at * CPU_PAIRS_UNIT);
  }
}

/* ---- products ---- */

/* Sums += one or two registers of pixels, whose pairs under the first tap begin at `left` and
 * `right`, times w: all taps of `steps` times 32 channels, 16 or 32 rows of w. */
V_INLINE void add_taps(const bool second, const bool wide, const cpu_conv_gemm *g, const block *b,
                       const float *w, int64_t steps, const float *left, const float *right) {
  const kit_plane *p = &g->plane;
  const int64_t step = floats_of_step(b);
  for (int64_t s = 0; s < steps; s++, left += step, right += step)
    for (int64_t ky = 0; ky < p->kernel[0]; ky++)
      for (int64_t kx = 0; kx < p->kernel[1]; kx++, w += TILE_FLOATS) {
        const int64_t shift =
            (ky * p->dilation[0] * b->pitch + kx * p->dilation[1]) * CPU_PAIRS_UNIT;
        _tile_loadd(6, w, AMX_BYTES);
        _tile_loadd(4, left + shift, AMX_BYTES);
        if (wide) _tile_loadd(7, w + TILE_FLOATS / 2, AMX_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        if (second) _tile_loadd(5, right + shift, AMX_BYTES);
        if (wide) _tile_dpbf16ps(1, 4, 7);
        if (second) _tile_dpbf16ps(2, 5, 6);
        if (second && wide) _tile_dpbf16ps(3, 5, 7);
      }
}

/* A block of 16 by 16 sums, turned: from[i] at stride ldf to to[i]. */
static void turn(const float *from, int64_t ldf, float *to, int64_t ldt) {
  vf t[V];
  for (int i = 0; i < V; i++) t[i] = v_load(from + i * ldf);
  v_transpose(t);
  for (int i = 0; i < V; i++) v_store(to + i * ldt, t[i]);
}

/* Registers of pixels that are worked on together: results[32 rows of w][pixels of both]. */
typedef struct panel {
  int64_t offset[2], pixels[2]; /* of the result; 0 pixels: there is no second one */
  const float *pairs[2];
} panel;

static void finish_panel(const cpu_conv_gemm *g, const panel *at, int64_t row, int64_t rows,
                         const float *sums, bool last) {
  const bool relu = last && g->act == ACCEL_PLUGIN_ACT_RELU,
             other = last && g->act != ACCEL_PLUGIN_ACT_NONE && !relu;
  for (int64_t i = 0; i < rows; i++) {
    const vf bias = v_set(last && g->bias ? g->bias[row + i] : 0.0f);
    for (int r = 0; r < 2 && at->pixels[r]; r++) {
      const int64_t offset = (row + i) * g->ldy + at->offset[r];
      vf v = v_add(v_load(sums + i * AMX_TILE + r * AMX_ROWS), bias);
      if (last && g->residual) v = v_add(v, v_loadn(g->residual + offset, at->pixels[r]));
      v_storen(g->y + offset, relu ? v_max(v_zero(), v) : v, at->pixels[r]);
      if (other) activate(g->act, g->alpha, g->y + offset, g->y + offset, at->pixels[r]);
    }
  }
}

/* `rows` rows of w over one or two registers of pixels; sums go on from y where `on`. */
V_INLINE void run_panel(const bool second, const bool wide, const cpu_conv_gemm *g, const block *b,
                        const panel *at, const float *w, int64_t row, int64_t rows, int64_t steps,
                        bool on, bool last) {
  float sums[AMX_TILE * AMX_TILE] __attribute__((aligned(64))),
      turned[AMX_TILE * AMX_TILE] __attribute__((aligned(64)));
  if (on) {
    for (int64_t i = 0; i < AMX_TILE; i++)
      for (int r = 0; r < 2; r++)
        v_store(turned + i * AMX_TILE + r * AMX_ROWS,
                v_loadn(g->y + (row + (i < rows ? i : 0)) * g->ldy + at->offset[r], at->pixels[r]));
    for (int r = 0; r < 4; r++)
      turn(turned + r / 2 * AMX_ROWS * AMX_TILE + r % 2 * AMX_ROWS, AMX_TILE,
           sums + r % 2 * AMX_ROWS * AMX_TILE + r / 2 * AMX_ROWS, AMX_TILE);
    _tile_loadd(0, sums, AMX_PANEL);
    if (wide) _tile_loadd(1, sums + AMX_ROWS, AMX_PANEL);
    if (second) _tile_loadd(2, sums + AMX_ROWS * AMX_TILE, AMX_PANEL);
    if (second && wide) _tile_loadd(3, sums + AMX_ROWS * AMX_TILE + AMX_ROWS, AMX_PANEL);
  } else {
    amx_zero();
  }
  add_taps(second, wide, g, b, w, steps, at->pairs[0], at->pairs[1]);
  _tile_stored(0, sums, AMX_PANEL);
  if (wide) _tile_stored(1, sums + AMX_ROWS, AMX_PANEL);
  if (second) _tile_stored(2, sums + AMX_ROWS * AMX_TILE, AMX_PANEL);
  if (second && wide) _tile_stored(3, sums + AMX_ROWS * AMX_TILE + AMX_ROWS, AMX_PANEL);
  for (int r = 0; r < 4; r++)
    if ((wide || r % 2 == 0) && (second || r < 2))
      turn(sums + r / 2 * AMX_ROWS * AMX_TILE + r % 2 * AMX_ROWS, AMX_TILE,
           turned + r % 2 * AMX_ROWS * AMX_TILE + r / 2 * AMX_ROWS, AMX_TILE);
  finish_panel(g, at, row, rows, turned, last);
}

static void place_register(const cpu_conv_gemm *g, const block *b, int64_t i, int r, panel *at) {
  const int64_t line = i / b->across, x = i % b->across * AMX_ROWS;
  at->offset[r] = (b->y + line) * g->plane.out[1] + b->x + x;
  at->pixels[r] = b->width - x < AMX_ROWS ? b->width - x : AMX_ROWS;
  at->pairs[r] = b->pairs + line * floats_of_line(b) + x * CPU_PAIRS_UNIT;
}

/* One tile of w over a block; k in `steps` times 32 channels from `from` on, of `all`. */
static void run_tile(const cpu_conv_gemm *g, const block *b, int64_t tile, int64_t from,
                     int64_t steps, int64_t all) {
  const int64_t taps = g->plane.kernel[0] * g->plane.kernel[1], row = tile * CPU_PAIRS_ROWS,
                rows = g->rows - row < CPU_PAIRS_ROWS ? g->rows - row : CPU_PAIRS_ROWS,
                registers = b->lines * b->across;
  const float *w = g->w + (tile * all + from) * taps * TILE_FLOATS;
  const bool on = from > 0, last = from + steps == all;
  for (int64_t i = 0; i < registers; i += 2) {
    panel at = {.offset = {0}};
    place_register(g, b, i, 0, &at);
    if (i + 1 < registers) place_register(g, b, i + 1, 1, &at);
    if (rows > AMX_ROWS && at.pixels[1])
      run_panel(true, true, g, b, &at, w, row, rows, steps, on, last);
    else if (rows > AMX_ROWS)
      run_panel(false, true, g, b, &at, w, row, rows, steps, on, last);
    else if (at.pixels[1])
      run_panel(true, false, g, b, &at, w, row, rows, steps, on, last);
    else
      run_panel(false, false, g, b, &at, w, row, rows, steps, on, last);
  }
}

void accel_f32_conv_implicit_32x32__amx(const cpu_conv_gemm *g, int64_t at, int64_t end,
                                        int64_t tile, int64_t tile_end, float *workspace) {
  const kit_plane *p = &g->plane;
  const int64_t channels = g->k / (p->kernel[0] * p->kernel[1]), all = cpu_implicit_steps(channels);
  const cpu_implicit_plan plan = cpu_implicit_plan_of(p, channels);
  amx_configure(AMX_TILE);
  for (; at < end; at++) {
    block b = {.y = at / plan.across * plan.lines,
               .x = at % plan.across * plan.width,
               .pitch = plan.pitch,
               .pairs = workspace};
    b.lines = p->out[0] - b.y < plan.lines ? p->out[0] - b.y : plan.lines;
    b.width = p->out[1] - b.x < plan.width ? p->out[1] - b.x : plan.width;
    b.across = (b.width + AMX_ROWS - 1) / AMX_ROWS;
    b.seen = b.lines + (p->kernel[0] - 1) * p->dilation[0];
    for (int64_t from = 0; from < all; from += plan.steps) {
      const int64_t steps = all - from < plan.steps ? all - from : plan.steps;
      for (int64_t s = 0; s < steps; s++)
        lay_step(g, &b, (from + s) * 2 * CPU_PAIRS_UNIT, b.pairs + s * floats_of_step(&b));
      for (int64_t t = tile; t < tile_end; t++) run_tile(g, &b, t, from, steps, all);
    }
  }
  _tile_release();
}
