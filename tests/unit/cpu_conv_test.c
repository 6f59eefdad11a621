/* cpu_conv_test.c - the kernels of convolutions and pooling (ops.h) on every instruction set of
 * this machine against plain loops in double. */
#include "formats/bf16.h"
#include "cpu_ops_operands.h"
#include "cpu_pack.h"
#include "kernels/conv_implicit.h"
#include "kernels/resize_codes.h"
#include "kernels/winograd_words.h"

/* ---- planes ---- */

static kit_plane random_plane(int64_t most) {
  kit_plane p;
  for (int i = 0; i < 2; i++) {
    p.kernel[i] = pick(1, 5);
    p.stride[i] = pick(1, 3);
    p.dilation[i] = pick(1, 2);
    p.begin[i] = pick(0, 3);
    p.end[i] = pick(0, 3);
    int64_t span = (p.kernel[i] - 1) * p.dilation[i] + 1;
    p.in[i] = pick(span > p.begin[i] + p.end[i] ? span - p.begin[i] - p.end[i] : 1, most);
    p.out[i] = (p.in[i] + p.begin[i] + p.end[i] - span) / p.stride[i] + 1;
  }
  return p;
}

/* Lines that follow each other: stride and dilation 1 downwards, 3, 5 or 7 high. */
static kit_plane lines_plane(int64_t most) {
  kit_plane p = random_plane(most);
  p.kernel[0] = 3 + 2 * pick(0, 2);
  p.stride[0] = p.dilation[0] = 1;
  p.in[0] = pick(p.kernel[0], most);
  p.out[0] = p.in[0] + p.begin[0] + p.end[0] - p.kernel[0] + 1;
  return p;
}

/* A 1x1 kernel without anything around it. */
static kit_plane point_plane(int64_t most) {
  kit_plane p = {.kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
  for (int i = 0; i < 2; i++) p.in[i] = p.out[i] = pick(1, i ? most : 3);
  return p;
}

/* A long kernel over one row. */
static kit_plane long_plane(void) {
  kit_plane p = {.kernel = {1, pick(16, 40)},
                 .stride = {1, 1},
                 .dilation = {1, pick(1, 2)},
                 .in = {1, 1},
                 .out = {1, 1}};
  p.begin[1] = pick(0, 40);
  p.end[1] = pick(0, 40);
  p.in[1] = pick((p.kernel[1] - 1) * p.dilation[1] + 1, 300);
  p.out[1] = p.in[1] + p.begin[1] + p.end[1] - (p.kernel[1] - 1) * p.dilation[1];
  return p;
}

/* x[in] under tap (ky, kx) of output (oy, ox), or `outside`. */
static double under(const kit_plane *p, const float *x, int64_t oy, int64_t ox, int64_t ky,
                    int64_t kx, double outside) {
  int64_t y = oy * p->stride[0] - p->begin[0] + ky * p->dilation[0],
          c = ox * p->stride[1] - p->begin[1] + kx * p->dilation[1];
  return y < 0 || y >= p->in[0] || c < 0 || c >= p->in[1] ? outside : x[y * p->in[1] + c];
}

/* w[rows][k] as tiles of pairs of channels for tile registers. */
static float *pack_tiles(const float *w, int64_t rows, int64_t k, int64_t taps) {
  const int64_t unit = CPU_PAIRS_UNIT, height = CPU_PAIRS_ROWS,
                tiles = (rows + height - 1) / height, pairs = (k / taps + 1) / 2 * taps,
                depth = (pairs + unit - 1) / unit * unit;
  float *packed = guard(tiles * depth * height);
  memset(packed, 0, (size_t)(tiles * depth * height) * sizeof *packed);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < k; j++) {
      const int64_t at = j / taps / 2 * taps + j % taps;
      uint16_t *pair = (uint16_t *)(packed + ((i / height * depth + at / unit * unit) * height +
                                              i % height * unit + at % unit));
      pair[j / taps % 2] = accel_f32_to_bf16(w[i * k + j]);
    }
  return packed;
}

/* w[rows][k] as tiles of fp32, or of pairs of bf16. */
static float *pack_conv(const float *w, int64_t rows, int64_t k, int64_t height, bool pairs) {
  const int64_t tiles = (rows + height - 1) / height, depth = pairs ? (k + 1) / 2 : k;
  float *packed = guard(tiles * depth * height);
  for (int64_t t = 0; t < tiles; t++)
    for (int64_t j = 0; j < (pairs ? 2 * depth : k); j++)
      for (int64_t i = 0; i < height; i++) {
        const float v = j < k && t * height + i < rows ? w[(t * height + i) * k + j] : 0.0f;
        if (pairs)
          ((uint16_t *)packed)[((t * depth + j / 2) * height + i) * 2 + j % 2] =
              accel_f32_to_bf16(v);
        else
          packed[(t * k + j) * height + i] = v;
      }
  return packed;
}

/* w[rows][k] as cpu_conv_implicit_fn reads it. */
static float *pack_implicit(const float *w, int64_t rows, int64_t k, int64_t taps) {
  const int64_t height = CPU_PAIRS_ROWS, tiles = (rows + height - 1) / height,
                steps = cpu_implicit_steps(k / taps);
  float *packed = guard(tiles * steps * taps * height * CPU_PAIRS_UNIT);
  memset(packed, 0, (size_t)(tiles * steps * taps * height * CPU_PAIRS_UNIT) * sizeof *packed);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < k; j++) {
      const int64_t channel = j / taps,
                    step = (i / height * steps + channel / 32) * taps + j % taps,
                    word = (step * 2 + i % height / 16) * 256 + channel % 32 / 2 * 16 + i % 16;
      ((uint16_t *)packed)[2 * word + channel % 2] = accel_f32_to_bf16(w[i * k + j]);
    }
  return packed;
}

static float *rounded(float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) x[i] = accel_bf16_to_f32(accel_f32_to_bf16(x[i]));
  return x;
}

/* How the operands lie; those of pairs are bf16 already, so that only sums are rounded. */
typedef enum conv_form { FLOATS, PAIRS, IMPLICIT } conv_form;

/* Planes and channels that cpu_implicit_fits, some more than are laid out at a time. */
static kit_plane implicit_plane(int round, int64_t *channels) {
  kit_plane p = random_plane(round % 8 == 0 ? 90 : 24);
  if (p.kernel[0] == 1) p.kernel[0] = 3;
  *channels = round % 20 == 7 ? 600 : 32 * pick(1, 3) - pick(0, 6);
  if (round % 20 == 7) p.in[0] = p.in[1] = 40;
  for (int i = 0; i < 2; i++) {
    const int64_t span = (p.kernel[i] - 1) * p.dilation[i];
    p.stride[i] = 1;
    if (p.in[i] + p.begin[i] + p.end[i] <= span) p.in[i] = span + 1;
    p.out[i] = p.in[i] + p.begin[i] + p.end[i] - span;
  }
  assert_true(cpu_implicit_fits(&p, *channels));
  return p;
}

static void check_conv(cpu_conv_fn *run, conv_form form) {
  const bool pairs = form != FLOATS;
  for (int round = 0; round < 60; round++) {
    kit_plane p = random_plane(round % 8 == 0 ? 90 : 24);
    if (round % 6 == 5) p = point_plane(90);
    if (round % 10 == 8) p = long_plane();
    int64_t channels = round % 8 == 1 ? 60 : pick(1, 6), rows = pick(1, 40);
    if (form == IMPLICIT) p = implicit_plane(round, &channels);
    if (form == IMPLICIT && (channels > 100 || round % 8 == 0)) rows = pick(1, 4);
    const int64_t taps = cpu_area(p.kernel);
    cpu_conv_gemm g = {.plane = p, .rows = rows, .k = channels * taps, .ldy = cpu_area(p.out)};
    int64_t tiles = (rows + kernels.tile_rows - 1) / kernels.tile_rows;
    g.height = (rows + tiles - 1) / tiles;
    if (pairs && kernels.tile_registers) g.height = CPU_PAIRS_ROWS;
    tiles = (rows + g.height - 1) / g.height;
    float *w = filled(rows * g.k), *x = filled(channels * cpu_area(p.in)), *y = guard(rows * g.ldy),
          *again = guard(rows * g.ldy);
    if (pairs) rounded(w, rows * g.k), rounded(x, channels * cpu_area(p.in));
    g.x = x;
    g.w = form == IMPLICIT                  ? pack_implicit(w, rows, g.k, taps)
          : pairs && kernels.tile_registers ? pack_tiles(w, rows, g.k, taps)
                                            : pack_conv(w, rows, g.k, g.height, pairs);
    g.y = y;
    g.bias = round % 3 ? filled(rows) : NULL;
    g.residual = round % 2 ? filled(rows * g.ldy) : NULL;
    g.act = round % 2 ? round % 5 ? ACCEL_PLUGIN_ACT_RELU : ACCEL_PLUGIN_ACT_RELU2
                      : ACCEL_PLUGIN_ACT_NONE;
    float *workspace = guard(CPU_CONV_WORKSPACE);
    const int64_t columns = form == IMPLICIT ? cpu_implicit_plan_of(&p, channels).blocks : g.ldy,
                  panel = form == IMPLICIT ? 1 : kernels.panel_cols;
    run(&g, 0, columns, 0, tiles, workspace);
    for (int64_t o = 0; o < rows; o++)
      for (int64_t i = 0; i < g.ldy; i++) {
        double sum = (g.bias ? g.bias[o] : 0.0) + (g.residual ? g.residual[o * g.ldy + i] : 0.0);
        for (int64_t k = 0; k < g.k; k++)
          sum += w[o * g.k + k] * under(&p, g.x + k / taps * cpu_area(p.in), i / p.out[1],
                                        i % p.out[1], k % taps / p.kernel[1], k % p.kernel[1], 0.0);
        if (round % 2 && sum < 0) sum = 0;
        if (g.act == ACCEL_PLUGIN_ACT_RELU2) sum *= sum;
        check("conv", y[o * g.ldy + i], sum, 1e-5 * (double)(g.k + 1) * (1 + fabs(sum)));
      }
    g.y = again; /* in pieces: the same bits */
    int64_t cut = columns > panel ? panel : columns;
    for (int64_t t = 0; t < tiles; t++) {
      run(&g, cut, columns, t, t + 1, workspace);
      run(&g, 0, cut, t, t + 1, workspace);
    }
    assert_memory_equal(y, again, (size_t)(rows * g.ldy) * 4);
    release();
  }
}

static void test_conv(void) {
  check_conv(kernels.conv, FLOATS);
  if (kernels.conv_pairs) check_conv(kernels.conv_pairs, PAIRS);
  if (cpu_conv_implicit_of(&kernels)) check_conv(cpu_conv_implicit_of(&kernels), IMPLICIT);
}

/* Weights of 3x3 kernels [rows][channels] at all points, as fp32 or as pairs of bf16. */
static float *pack_winograd(const float *w, int64_t n, int64_t rows, int64_t channels,
                            int64_t height, bool pairs) {
  const int64_t tiles = (rows + height - 1) / height, points = cpu_winograd_points(n),
                depth = pairs ? (channels + 1) / 2 : channels;
  float *packed = guard(points * tiles * depth * height), none[9] = {0},
        one[CPU_WINOGRAD_MOST * CPU_WINOGRAD_MOST];
  memset(packed, 0, (size_t)(points * tiles * depth * height) * 4);
  for (int64_t i = 0; i < tiles * height; i++)
    for (int64_t k = 0; k < channels; k++) {
      cpu_winograd_weights(n, i < rows ? w + (i * channels + k) * 9 : none, one, 1);
      for (int64_t p = 0; p < points; p++) {
        float *tile = packed + (p * tiles + i / height) * depth * height;
        if (pairs)
          ((uint16_t *)tile)[(k / 2 * height + i % height) * 2 + k % 2] = accel_f32_to_bf16(one[p]);
        else
          tile[k * height + i % height] = one[p];
      }
    }
  return packed;
}

/* Scales of channels and weights from 1 to 10^6 and means far from 0: errors are measured by the
 * sizes of what is summed. */
static void check_winograd(cpu_conv_fn *run, bool pairs) {
  for (int round = 0; round < 60; round++) {
    kit_plane p = {.kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}};
    for (int i = 0; i < 2; i++) {
      p.begin[i] = pick(0, 2);
      p.end[i] = pick(0, 2);
      p.in[i] = pick(3, round % 8 == 0 ? 90 : 20);
      p.out[i] = p.in[i] + p.begin[i] + p.end[i] - 2;
    }
    const int64_t channels = pick(1, round % 5 ? 9 : 50), rows = pick(1, 40), size = cpu_area(p.in),
                  out = cpu_area(p.out);
    const int64_t n = round % 3 == 1 || pairs ? 2 : 4, all = cpu_winograd_tiles(&p, n);
    int64_t tiles = (rows + kernels.tile_rows - 1) / kernels.tile_rows,
            height = (rows + tiles - 1) / tiles;
    tiles = (rows + height - 1) / height;
    float *w = filled(rows * channels * 9), *x = filled(channels * size), *y = guard(rows * out),
          *again = guard(rows * out);
    for (int64_t i = 0; round % 3 && i < channels * size; i++)
      x[i] = (x[i] + 3.0f) * powf(10, (float)(i / size % 7));
    for (int64_t i = 0; round % 3 && i < rows * channels * 9; i++)
      w[i] *= powf(10, -(float)(i / 9 % channels % 7));
    cpu_conv_gemm g = {
        .plane = p, .rows = rows, .height = height, .k = channels, .tiles = tiles, .n = n, .x = x};
    g.w = pack_winograd(w, n, rows, channels, height, pairs);
    g.y = y;
    g.ldy = out;
    g.bias = round % 3 ? filled(rows) : NULL;
    g.residual = round % 2 ? filled(rows * out) : NULL;
    g.act = round % 4 == 1   ? ACCEL_PLUGIN_ACT_RELU
            : round % 4 == 3 ? ACCEL_PLUGIN_ACT_RELU2
                             : ACCEL_PLUGIN_ACT_NONE;
    float *workspace = guard(cpu_winograd_layout(&p, n, rows, channels).all);
    run(&g, 0, all, 0, tiles, workspace);
    for (int64_t o = 0; o < rows; o++)
      for (int64_t i = 0; i < out; i++) {
        double sum = (g.bias ? g.bias[o] : 0.0) + (g.residual ? g.residual[o * out + i] : 0.0),
               sizes = fabs(sum);
        for (int64_t k = 0; k < channels * 9; k++) {
          double term = w[o * channels * 9 + k] * under(&p, x + k / 9 * size, i / p.out[1],
                                                        i % p.out[1], k % 9 / 3, k % 3, 0.0);
          sum += term;
          sizes += fabs(term);
        }
        double want = round % 2 && sum < 0 ? 0 : round % 4 == 3 ? sum * sum : sum;
        check("winograd", y[o * out + i], want,
              (pairs ? 0x1p-6 : 1e-5) * (sizes + 1) * (round % 4 == 3 ? 2 * fabs(sum) + 1 : 1));
      }
    g.y = again; /* in pieces: the same bits */
    const int64_t cut = all > kernels.panel_cols ? kernels.panel_cols : all;
    for (int64_t t = 0; t < tiles; t++) {
      run(&g, cut, all, t, t + 1, workspace);
      run(&g, 0, cut, t, t + 1, workspace);
    }
    assert_memory_equal(y, again, (size_t)(rows * out) * 4);
    release();
  }
}

static void test_winograd(void) {
  check_winograd(kernels.winograd, false);
  if (kernels.winograd_pairs) check_winograd(kernels.winograd_pairs, true);
}

/* Codes of a line with its scale and zero as numbers. */
static double coded_at(const cpu_winograd_i16 *g, int64_t line, int64_t pixel, int64_t c) {
  const double code = g->x[(line * g->line + pixel) * g->k + c],
               zero = g->zero ? (double)g->zero[line * g->line] : 0;
  return (code - zero) * (double)g->scale[line * g->line];
}

/* What y[line][pixel][col] should be, and how far off it may be: a common scale of six lines, and
 * weights of about ten bits whose errors the transform enlarges. */
static double window_element(const cpu_winograd_i16 *g, const float *w, int64_t line, int64_t pixel,
                             int64_t col, double *bound) {
  const int64_t at = line * g->pixels + pixel;
  double sum = g->bias ? (double)g->bias[col] : 0, most = 0, sizes = 0;
  for (int64_t l = 0; l < 6; l++) most = fmax(most, (double)g->scale[(line / 4 * 4 + l) * g->line]);
  for (int64_t c = 0; c < g->k; c++)
    for (int64_t t = 0; t < 9; t++) {
      const double weight = (double)w[(col * g->k + c) * 9 + t];
      sum += weight * coded_at(g, line + t / 3, pixel + t % 3, c);
      sizes += fabs(weight);
    }
  *bound = most * sizes * (0.6 / (g->zero ? 1.25 : 1.875) + 6);
  if (g->residual) {
    const double zero = g->residual_zero ? (double)g->residual_zero[at] : 0;
    sum += (double)g->residual_scale[at] * (g->residual[at * g->ldr + col] - zero);
  }
  return g->relu ? fmax(sum, 0) : sum;
}

/* y of all windows is near what it should be and `high` and `low` are what it reaches. */
static void check_words(const cpu_winograd_i16 *g, const float *w, double *error, double *size) {
  for (int64_t i = 0; i < g->lines * g->pixels; i++) {
    float high = 0, low = 0, got_high = 0, got_low = 0;
    for (int64_t c = 0; c < g->n; c++) {
      double bound, want = window_element(g, w, i / g->pixels, i % g->pixels, c, &bound);
      const float got = g->y[i * g->ldy + c];
      check("words", got, want, bound + 1e-5);
      *error += (got - want) * (got - want), *size += want * want;
      high = fmaxf(high, got), low = fmaxf(low, -got);
    }
    for (int64_t v = 0; v < kernels.vector; v++) {
      got_high = fmaxf(got_high, g->high[i * kernels.vector + v]);
      if (g->low) got_low = fmaxf(got_low, g->low[i * kernels.vector + v]);
    }
    assert_true(got_high == high && (!g->low || got_low == low));
  }
}

/* Codes: any up to `most`; or 0 and `most` by the signs of B^T's rows, with weights of one sign,
 * which drives words and sums to their ends. */
static void fill_codes(uint8_t *x, const cpu_winograd_i16 *g, int64_t lines, int most,
                       int extreme) {
  static const char signs[6][7] = {"+0-0+0", "0--++0", "0+--+0", "0--++0", "0+--+0", "0+0-0+"};
  const int at = extreme < 0 ? 0 : extreme;
  const char *down = signs[at % 6], *right = signs[at / 6 % 6];
  for (int64_t i = 0; i < lines * g->line * g->k; i++) {
    const int64_t line = i / g->k / g->line, pixel = i / g->k % g->line;
    const bool plus = (down[line % 4 + (line % 4 < 2 && line / 4 % 2 ? 4 : 0)] == '+') ==
                      (right[pixel % 4 + (pixel % 4 < 2 && pixel / 4 % 2 ? 4 : 0)] == '+');
    x[i] = (uint8_t)(extreme < 0 ? pick(0, most) : plus ? most : 0);
  }
}

static void test_winograd_i16(void) {
  const cpu_linear_kernel *linear = &kernels.linear[CPU_LAYOUT_I8];
  const int most = linear->x == CPU_ACT_U7B ? 127 : 255;
  if (!kernels.winograd_i16) return;
  for (int round = 0; round < 36; round++) {
    cpu_winograd_i16 g = {.rows = pick(1, 3),
                          .wide = pick(1, 9),
                          .k = round % 7   ? 32
                               : round % 2 ? 96
                                           : 288,
                          .n = linear->cols * pick(1, 2)};
    const int64_t lines = 4 * g.rows + 2, windows = g.rows * g.wide;
    g.line = 4 * g.wide + 2 + pick(0, 2);
    g.lines = 4 * g.rows - pick(0, 3), g.pixels = 4 * g.wide - pick(0, 3);
    uint8_t *x = (uint8_t *)guard(lines * g.line * g.k / 4),
            *codes = (uint8_t *)guard(g.lines * g.pixels * g.n / 4);
    float *scale = filled(lines * g.line), *zero = guard(lines * g.line),
          *w = filled(g.n * g.k * 9), *room = guard(36 * g.k), *again;
    const int64_t panels = g.n / linear->cols, bytes = cpu_winograd_i16_panel(g.k, linear->cols);
    char *packed = (char *)guard(panels * bytes / 4);
    const bool extreme = round % 3 == 2;
    fill_codes(x, &g, lines, most, extreme ? round / 3 * 7 : -1);
    for (int64_t i = 0; i < g.lines * g.pixels * g.n; i++) codes[i] = (uint8_t)pick(0, 255);
    for (int64_t l = 0; l < lines * g.line; l++) {
      zero[l] = l % g.line ? zero[l - 1] : (float)pick(0, most);
      scale[l] = l % g.line ? scale[l - 1] : extreme ? 1 : l % 5 == 4 ? 0 : 0.01f + fabsf(scale[l]);
    }
    for (int64_t i = 0; extreme && i < g.n * g.k * 9; i++) w[i] = i % 9 == 8 ? fabsf(w[i]) : 0;
    for (int64_t p = 0; p < panels; p++)
      cpu_winograd_i16_pack(w + p * linear->cols * g.k * 9, g.k, linear->cols, room,
                            packed + p * bytes);
    g.x = x, g.scale = scale, g.zero = round % 2 ? zero : NULL, g.w = packed, g.panel_bytes = bytes;
    g.bias = round % 4 ? filled(g.n) : NULL;
    if (round % 5 == 1)
      g.residual = codes, g.residual_scale = filled(g.lines * g.pixels), g.ldr = g.n;
    if (round % 10 == 1) g.residual_zero = filled(g.lines * g.pixels);
    g.relu = round % 4 < 2;
    g.y = guard(g.lines * g.pixels * g.n), g.ldy = g.n;
    g.high = guard(g.lines * g.pixels * kernels.vector);
    g.low = g.relu ? NULL : guard(g.lines * g.pixels * kernels.vector);
    g.points = (int16_t *)guard(36 * cpu_winograd_i16_step(windows, g.k) / 2);
    g.sums = (int32_t *)guard(cpu_winograd_i16_parts(g.k) * 36 * windows * linear->cols);
    double error = 0, size = 0;
    kernels.winograd_i16(&g, 0, panels);
    check_words(&g, w, &error, &size);
    if (!(error <= (extreme ? 1e-3 : 1e-4) * size + 1e-9))
      fail_msg("words on %s: error %g of %g", cpu_isa_name(kernels.isa), error, size);
    /* row by row and panel by panel: the same bits; a NaN stays in its rows */
    again = guard(g.lines * g.pixels * g.n);
    scale[(g.rows * 4 + 1) * g.line] = NAN;
    for (int64_t r = 0; r < g.rows; r++) {
      cpu_winograd_i16 one = g;
      one.rows = 1, one.lines = g.lines - 4 * r < 4 ? g.lines - 4 * r : 4;
      one.x += 4 * r * g.line * g.k, one.scale += 4 * r * g.line,
          one.y = again + 4 * r * g.pixels * g.n;
      if (g.zero) one.zero += 4 * r * g.line;
      if (g.residual)
        one.residual += 4 * r * g.pixels * g.n, one.residual_scale += 4 * r * g.pixels;
      if (g.residual_zero) one.residual_zero += 4 * r * g.pixels;
      one.high = one.low = NULL;
      for (int64_t p = panels; p-- > 0;) kernels.winograd_i16(&one, p, p + 1);
    }
    const int64_t last = 4 * (g.rows - 1) * g.pixels * g.n;
    assert_memory_equal(g.y, again, (size_t)last * 4);
    for (int64_t i = last; i < g.lines * g.pixels * g.n; i++) assert_true(isnan(again[i]));
    release();
  }
}

static void test_depthwise_and_pool(void) {
  for (int round = 0; round < 60; round++) {
    kit_plane p =
        round % 3 == 1 ? lines_plane(round % 4 ? 20 : 70) : random_plane(round % 4 ? 20 : 70);
    int64_t out = cpu_area(p.out);
    float *x = filled(cpu_area(p.in)), *w = filled(cpu_area(p.kernel)), *y = guard(out),
          *workspace = guard(cpu_depthwise_layout(&p).all);
    cpu_depthwise d = {.plane = p,
                       .x = x,
                       .w = w,
                       .y = y,
                       .bias = 0.25f,
                       .residual = round % 2 ? filled(out) : NULL};
    if (round % 5 < 2) { /* another image before this one */
      cpu_depthwise before = d;
      before.x = filled(cpu_area(p.in));
      kernels.depthwise(&before, workspace);
      d.again = true;
    }
    kernels.depthwise(&d, workspace);
    for (int64_t i = 0; i < out; i++) {
      double sum = 0.25 + (d.residual ? d.residual[i] : 0.0);
      for (int64_t t = 0; t < cpu_area(p.kernel); t++)
        sum +=
            w[t] * under(&p, x, i / p.out[1], i % p.out[1], t / p.kernel[1], t % p.kernel[1], 0.0);
      check("depthwise", y[i], sum, 1e-5);
    }
    p.dilation[0] = p.dilation[1] = 1; /* windows of pooling have none: the outputs stay inside */
    for (int max = 0; max < 2; max++) {
      float *rows = filled(p.out[0]), *cols = filled(p.out[1]);
      if (max && round % 3 == 0) x[pick(0, cpu_area(p.in) - 1)] = NAN;
      cpu_pool g = {.plane = p, .x = x, .row_count = rows, .col_count = cols, .y = y, .max = max};
      kernels.pool(&g, guard(cpu_depthwise_layout(&p).all));
      for (int64_t i = 0; i < out; i++) {
        double sum = 0, most = -INFINITY;
        for (int64_t t = 0; t < cpu_area(p.kernel); t++) {
          double v = under(&p, x, i / p.out[1], i % p.out[1], t / p.kernel[1], t % p.kernel[1],
                           max ? -INFINITY : 0.0);
          sum += v;
          if (v > most || isnan(v)) most = v;
        }
        double mean = sum / (rows[i / p.out[1]] * cols[i % p.out[1]]);
        check("pool", y[i], max ? most : mean, max ? 0 : 1e-5 * (1 + fabs(mean)));
      }
    }
    release();
  }
}

static void test_taps(void) {
  for (int round = 0; round < 20; round++) {
    int64_t rows = pick(1, 9), taps = pick(1, 5), dilation = pick(1, 3), cols = pick(1, 70),
            n = rows + (taps - 1) * dilation;
    const float *x[64];
    for (int64_t i = 0; i < n; i++) x[i] = filled(cols);
    cpu_tap g = {.x = x,
                 .w = filled(taps * cols),
                 .bias = round % 2 ? filled(cols) : NULL,
                 .y = guard(rows * cols)};
    g.residual = round % 3 ? NULL : filled(rows * cols);
    g.cols = cols;
    g.taps = taps;
    g.dilation = dilation;
    kernels.taps(&g, rows);
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < cols; c++) {
        double sum = (g.bias ? g.bias[c] : 0.0) + (g.residual ? g.residual[r * cols + c] : 0.0);
        for (int64_t t = 0; t < taps; t++)
          sum += (double)g.w[t * cols + c] * x[r + t * dilation][c];
        check("taps", g.y[r * cols + c], sum, 1e-5);
      }
    release();
  }
}

static void test_transpose(void) {
  for (int round = 0; round < 20; round++) {
    int64_t rows = pick(1, 50), cols = pick(1, 50), ldx = rows + pick(0, 3),
            ldy = cols + pick(0, 3);
    float *x = filled((cols - 1) * ldx + rows), *y = guard((rows - 1) * ldy + cols);
    kernels.transpose(x, ldx, y, ldy, rows, cols);
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < cols; c++) assert_true(y[r * ldy + c] == x[c * ldx + r]);
    release();
  }
}

static void test_planes(void) {
  for (int round = 0; round < 20; round++) {
    const int64_t pixels = pick(1, 500), channels = pick(1, 40), ldx = channels + pick(0, 3),
                  ldy = pixels + pick(0, 3);
    const float *x = filled((pixels - 1) * ldx + channels);
    const float *residual = round % 2 ? filled((channels - 1) * ldy + pixels) : NULL;
    float *y = guard((channels - 1) * ldy + pixels);
    const int act = round % 3 ? ACCEL_PLUGIN_ACT_RELU : ACCEL_PLUGIN_ACT_NONE;
    kernels.to_planes(&(cpu_planes){.x = x,
                                    .residual = residual,
                                    .y = y,
                                    .ldx = ldx,
                                    .ldy = ldy,
                                    .pixels = pixels,
                                    .channels = channels,
                                    .act = act});
    for (int64_t c = 0; c < channels; c++)
      for (int64_t p = 0; p < pixels; p++) {
        const float sum = x[p * ldx + c] + (residual ? residual[c * ldy + p] : 0.0f);
        check("planes", y[c * ldy + p], act && sum < 0 ? 0 : sum, 0);
      }
    release();
  }
}

static void test_codes(void) {
  for (int round = 0; round < 30; round++) {
    const int64_t pixels = pick(1, 60), channels = round % 4 == 3 ? 3 : pick(1, 40),
                  ldx = pixels + pick(0, 3), ldy = channels + (round % 4 == 3 ? 0 : pick(0, 3));
    const int64_t n = (channels - 1) * ldx + pixels, bytes = (pixels - 1) * ldy + channels,
                  words = (bytes + 3) / 4;
    float *x = filled(n), out[2], low = 0, high = 0;
    uint8_t *y = (uint8_t *)guard(words) + (4 * words - bytes);
    for (int64_t i = 0; i < n; i++) low = fmaxf(low, -x[i]), high = fmaxf(high, x[i]);
    kernels.extent(x, n, out);
    assert_true(out[0] == low && out[1] == high);
    const int most = round % 2 ? 255 : 127, flip = round % 3 ? 0 : 0x80;
    const float step = fmaxf((low + high) / (float)most, 1e-9f), zero = rintf(low / step);
    const cpu_coding how = {.factor = 1 / step, .zero = zero, .most = most, .flip = (uint8_t)flip};
    kernels.codes(&how, x, ldx, pixels, channels, y, ldy);
    for (int64_t p = 0; p < pixels; p++)
      for (int64_t c = 0; c < channels; c++) {
        const int code = y[p * ldy + c] ^ flip;
        assert_true(code <= most);
        check("code", ((float)code - zero) * step, x[c * ldx + p], 1.001 * step);
      }
    x[pick(0, (int)n - 1)] = round % 2 ? INFINITY : NAN;
    kernels.extent(x, n, out);
    assert_true(isnan(out[0]) && isnan(out[1]));
    release();
  }
}

/* What x reaches, as the kernel of a convolution tells it. */
static void tell_reach(cpu_pixels *g) {
  const int64_t lanes = kernels.vector;
  float *high = guard(g->pixels * lanes), *low = guard(g->pixels * lanes);
  memset(high, 0, (size_t)(g->pixels * lanes) * 4), memset(low, 0, (size_t)(g->pixels * lanes) * 4);
  for (int64_t p = 0; p < g->pixels; p++)
    for (int64_t c = 0; c < g->channels; c++) {
      const float v = g->x[p * g->channels + c];
      const int64_t lane = p * lanes + c % lanes;
      high[lane] = fmaxf(high[lane], v), low[lane] = fmaxf(low[lane], -v);
    }
  g->high = high, g->low = g->positive ? NULL : low;
}

static void test_pixels(void) {
  for (int round = 0; round < 30; round++) {
    const int64_t each = pick(1, 7), pixels = each * pick(1, 9), channels = pick(1, 90),
                  n = pixels * channels;
    const int most = round % 2 ? 255 : 127, flip = round % 3 ? 0 : 0x80;
    float *x = filled(n), *scale = guard(pixels), *zero = guard(pixels);
    uint8_t *y = (uint8_t *)guard((n + 3) / 4) + ((n + 3) / 4 * 4 - n);
    const int64_t bad = round % 5 ? -1 : pick(0, (int)n - 1);
    const bool positive = round % 4 == 1;
    for (int64_t i = 0; positive && i < n; i++) x[i] = fabsf(x[i]);
    if (bad >= 0) x[bad] = round % 2 ? INFINITY : NAN;
    cpu_pixels g = {x,    y,    scale,         zero,     pixels, channels,
                    each, most, (uint8_t)flip, positive, NULL,   NULL};
    if (bad < 0 && pick(0, 1)) tell_reach(&g);
    kernels.codes_pixels(&g);
    for (int64_t p = 0; p < pixels; p++) {
      const int64_t first = p / each * each;
      float low = 0, high = 0;
      assert_true(zero[p] == zero[first] && (scale[p] == scale[first] || isnan(scale[p])));
      assert_int_equal(isnan(scale[p]) != 0, bad >= 0 && bad / channels / each == p / each);
      if (isnan(scale[p])) continue;
      for (int64_t i = first * channels; i < (first + each) * channels; i++)
        low = fmaxf(low, -x[i]), high = fmaxf(high, x[i]);
      check("scale", scale[p], (low + high) / (float)most, 1e-6 * scale[p]);
      for (int64_t c = 0; c < channels; c++) {
        const int code = y[p * channels + c] ^ flip;
        assert_true(code <= most);
        check("code", ((float)(code - flip) - zero[p]) * scale[p], x[p * channels + c],
              1.001 * scale[p]);
      }
    }
    release();
  }
}

static void test_pool_pixels(void) {
  for (int round = 0; round < 30; round++) {
    kit_plane p = random_plane(16);
    const int64_t channels = pick(1, 40), n = cpu_area(p.in), line = pick(0, p.out[0] - 1);
    const bool sign = round % 2, zeros = sign || round % 4;
    float *scale = filled(n), *zero = filled(n),
          *y = guard((p.out[0] - line) * p.out[1] * channels);
    uint8_t *x =
        (uint8_t *)guard((n * channels + 3) / 4) + ((n * channels + 3) / 4 * 4 - n * channels);
    for (int64_t i = 0; i < n * channels; i++) x[i] = (uint8_t)pick(0, 255);
    for (int64_t i = 0; i < n; i++)
      scale[i] = fabsf(scale[i]) + 0.01f, zero[i] = zeros ? (float)pick(sign ? -128 : 0, 127) : 0;
    if (round % 5 == 0) scale[pick(0, n - 1)] = NAN;
    kernels.pool_pixels(
        &(cpu_pool_pixels){p, x, scale, zeros ? zero : NULL, channels, sign, y, NULL}, line,
        p.out[0]);
    for (int64_t i = 0; i < (p.out[0] - line) * p.out[1]; i++)
      for (int64_t c = 0; c < channels; c++) {
        float most = -INFINITY;
        for (int64_t t = 0; t < cpu_area(p.kernel); t++) {
          const int64_t r = (line + i / p.out[1]) * p.stride[0] - p.begin[0] +
                            t / p.kernel[1] * p.dilation[0],
                        q = i % p.out[1] * p.stride[1] - p.begin[1] +
                            t % p.kernel[1] * p.dilation[1],
                        at = r * p.in[1] + q;
          if (r < 0 || r >= p.in[0] || q < 0 || q >= p.in[1]) continue;
          const uint8_t code = x[at * channels + c];
          const float v = ((sign ? (float)(int8_t)code : (float)code) - zero[at]) * scale[at];
          if (!(v <= most)) most = isnan(most) ? most : v;
        }
        check("pool of codes", y[i * channels + c], most, 0);
      }
    release();
  }
}

/* Lines of numbers, also with something among them that is none. */
static void test_pool_lines(void) {
  for (int round = 0; round < 30; round++) {
    kit_plane p = random_plane(16);
    const int64_t channels = pick(1, 100), line = pick(0, p.out[0] - 1);
    const float *lines[CPU_POOL_TAPS] = {NULL};
    float *x = filled(cpu_area(p.in) * channels), *y = guard(p.out[1] * channels);
    if (round % 5 == 0) x[pick(0, cpu_area(p.in) * channels - 1)] = round % 2 ? NAN : INFINITY;
    for (int64_t k = 0; k < p.kernel[0]; k++) {
      const int64_t at = line * p.stride[0] - p.begin[0] + k * p.dilation[0];
      if (at >= 0 && at < p.in[0]) lines[k] = x + at * p.in[1] * channels;
    }
    kernels.pool_pixels(
        &(cpu_pool_pixels){.plane = p, .channels = channels, .y = y, .lines = lines}, line,
        line + 1);
    for (int64_t i = 0; i < p.out[1] * channels; i++) {
      float most = -INFINITY, bad = 0;
      for (int64_t t = 0; t < cpu_area(p.kernel); t++) {
        const int64_t q = i / channels * p.stride[1] - p.begin[1] + t % p.kernel[1] * p.dilation[1];
        if (!lines[t / p.kernel[1]] || q < 0 || q >= p.in[1]) continue;
        const float v = lines[t / p.kernel[1]][q * channels + i % channels];
        most = fmaxf(most, v), bad += 0 * v;
      }
      check("pool of lines", y[i], most + bad, 0);
    }
    release();
  }
}

/* ---- codes with another scale ---- */

static void test_recode(void) {
  for (int round = 0; kernels.recode && round < 60; round++) {
    const int64_t pixels = pick(1, 9), channels = pick(1, 150),
                  ldy = channels + (round % 2 ? pick(0, 40) : 0);
    const bool same = round % 5 == 0;
    const float from = (float)pick(0, 255), to = same ? from : (float)pick(0, 255),
                factor = same || round % 5 == 1 ? 1 : (float)pick(0, 1000) / 1000;
    uint8_t *x = (uint8_t *)guard((pixels * channels + 3) / 4),
            *y = (uint8_t *)guard(((pixels - 1) * ldy + channels + 3) / 4);
    for (int64_t i = 0; i < pixels * channels; i++) x[i] = (uint8_t)pick(0, 255);
    memset(y, 77, (size_t)((pixels - 1) * ldy + channels));
    kernels.recode(&(cpu_recode){x, y, pixels, channels, ldy, factor, from, to});
    for (int64_t i = 0; i < (pixels - 1) * ldy + channels; i++) {
      if (i % ldy >= channels) {
        assert_int_equal(y[i], 77);
        continue;
      }
      const double want =
          ((double)x[i / ldy * channels + i % ldy] - (double)from) * (double)factor + (double)to;
      check("recode", y[i], fmin(255, fmax(0, want)), same ? 0 : 0.51);
    }
    release();
  }
}

/* ---- a line of a resized image as codes ---- */

static void test_resize_codes(void) {
  cpu_resize_codes_fn *run = cpu_resize_codes_of(&kernels);
  for (int round = 0; run && round < 60; round++) {
    const int64_t in = pick(1, 7), out = pick(1, 15), channels = pick(1, 100), width = pick(1, 2);
    const bool two = round % 3 != 0;
    uint8_t *x[2], *y = (uint8_t *)guard((out * channels + 3) / 4);
    int32_t *index = (int32_t *)guard(out * width);
    float *weight = guard(out * width), part = two ? (float)pick(1, 999) / 1000 : 1;
    cpu_resize_codes g = {.factor = {part, two ? (1 - part) * 0.75f : 0},
                          .from = {90, 120},
                          .to = 90, /* numbers stay within 0..255 */
                          .in = in,
                          .out = out,
                          .channels = channels,
                          .width = width,
                          .index = index,
                          .weight = weight,
                          .line = (int16_t *)guard((in * channels + 1) / 2),
                          .y = y};
    for (int k = 0; k < 2; k++) {
      g.x[k] = x[k] = (uint8_t *)guard((in * channels + 3) / 4);
      for (int64_t i = 0; i < in * channels; i++) x[k][i] = (uint8_t)pick(0, 255);
    }
    for (int64_t i = 0; i < out * width; i++) index[i] = (int32_t)pick(0, in - 1);
    for (int64_t p = 0; p < out; p++) {
      weight[p * width] = 1;
      if (width < 2) continue;
      weight[p * 2 + 1] = p ? (float)pick(0, 1000) / 1000 : 1;
      weight[p * 2] = 1 - weight[p * 2 + 1];
    }
    run(&g);
    for (int64_t i = 0; i < out * channels; i++) {
      double want = 0;
      for (int64_t t = 0; t < width; t++) {
        const int64_t at = index[i / channels * width + t] * channels + i % channels;
        double line = g.to;
        for (int k = 0; k <= two; k++)
          line += (double)g.factor[k] * ((double)x[k][at] - (double)g.from[k]);
        want += (double)weight[i / channels * width + t] * line;
      }
      check("resized codes", y[i], want, 0.54);
    }
    release();
  }
}

/* ---- every instruction set ---- */

TEST(conv)
TEST(winograd)
TEST(winograd_i16)
TEST(depthwise_and_pool)
TEST(taps)
TEST(transpose)
TEST(planes)
TEST(codes)
TEST(pixels)
TEST(pool_pixels)
TEST(pool_lines)
TEST(recode)
TEST(resize_codes)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_conv),         cmocka_unit_test(all_winograd),
      cmocka_unit_test(all_winograd_i16), cmocka_unit_test(all_depthwise_and_pool),
      cmocka_unit_test(all_taps),         cmocka_unit_test(all_transpose),
      cmocka_unit_test(all_planes),       cmocka_unit_test(all_codes),
      cmocka_unit_test(all_pixels),       cmocka_unit_test(all_pool_pixels),
      cmocka_unit_test(all_pool_lines),   cmocka_unit_test(all_recode),
      cmocka_unit_test(all_resize_codes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
