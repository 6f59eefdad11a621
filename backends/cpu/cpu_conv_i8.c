/* cpu_conv_i8.c - convolutions over int8 weights: the linear kernel over windows of an image as
 * codes, channels last.
 *
 * What passes between such convolutions is codes (cpu_image): a piece of the result, pixels by all
 * channels, is fp32 only while it is in the caches.  Each pixel has a scale and a zero, or each
 * line of pixels where rows of a kernel reach over them: sums of a block of k are integers.  For
 * tile registers the lines under a piece are laid out and coded anew with one scale, so that all k
 * are a block.  Planes are coded before, with one scale an image.  What an infinity or NaN has a
 * part in becomes NaN, and all that shares its scale. */
#include "cpu_conv_i8.h"

#include <math.h>
#include <string.h>

#include "kernels/winograd_words.h"

static const float TAME = 1e24f; /* 2^30, what codes add up to, times it is a number */
/* Bytes that are copied at once: so many may be read behind x, written behind gathered rows; and
 * bytes that a kernel reads behind a row. */
enum { RUN = 32, BEHIND = 64 };
/* A piece: its fp32 stays in the first-level cache, about, but it has no fewer pixels than two
 * tiles, and than weights are worth fetching for that the second-level cache may not keep. */
/* Windows of a piece where words are multiplied, about: few, but more of those whose weights the
 * second-level cache may not keep.  Those of an image that are worth fetching their weights for. */
enum {
  WINDOW = 4,
  WORD_WINDOWS = 20,
  WORD_WINDOWS_WIDE = 60,
  WORDS_WIDE = 1 << 15,
  WORDS_HUGE = 1 << 17, /* pairs of channels: their weights are read once, not for each worker */
  WORD_LEAST = 20
};
enum {
  PIECE_BYTES = 3 << 13,
  PIECE_MOST = 448,
  WIDE_WEIGHTS = 1 << 19,
  HUGE_WEIGHTS = 1 << 21,
  WIDE_LEAST = 96,
  RECODED_BYTES = 1 << 18, /* of a result: recoded_lines */
  RECODED_LEAST = 128,     /* pixels of it; where w is large, or larger than its cache; at most */
  RECODED_WIDE = 256,
  RECODED_HUGE = 512,
  RECODED_MOST = 2048,
  TASKS_EACH = 16
};

typedef struct coded {
  cpu_conv_call call;
  cpu_act_format to;
  bool planes;   /* x */
  bool gathered; /* rows of x are copied together: blocks are all of k */
  /* windows reach over the edge: lines of x are copied, with a border */
  bool bordered;
  bool thin;  /* y has one line: pieces cut it */
  bool tame;  /* the biases are finite and not enormous */
  bool words; /* cpu_winograd_i16 */
  /* lines of x are coded anew for each piece, which has one scale then (cpu_conv.pixel) */
  bool recoded;
  bool apart; /* strips of the result are multiplied before lines of it are coded */
  /* pixels of y that stay together, and how many such there are in an image */
  int64_t unit, units;
  int64_t band, wide, pixel; /* lines of x under a piece at most, pixels of one, codes of one */
  int64_t row;               /* bytes of a gathered row */
  uint32_t pieces, strips, tasks; /* of an image; of the panels; all of them in so many */
  uint32_t parts;                 /* of an image while it is coded */
  int64_t *x_at, *scale_at;       /* [taps] cpu_implicit_gemm */
  float *images;                  /* planes as codes: cpu_image */
  float *extent, *scale, *zero;   /* [count][parts][2]; [count] */
  float *product; /* [count][out][outputs] where strips of it become codes together, else NULL */
  cpu_coding *coding; /* [count] */
  char *scratch;      /* [workers][scratch_bytes] */
  /* a worker's scratch: the piece of y, what it reaches, lines of x, gathered rows or */
  int64_t scratch_bytes, reach_at, band_at, rows_at;
  /* windows as words; their sums; or lines of y that are pooled, each so many floats */
  int64_t sums_at;
  int64_t ring, line_floats; /* how many such, kept by turns */
} coded;

static cpu_image image_of(const coded *j, int64_t index) {
  return cpu_image_at(j->planes ? j->images : j->call.x, index, cpu_area(j->call.plane.in),
                      j->call.channels);
}

/* ---- planes as codes ---- */

static void extent_task(void *arg, uint32_t index, uint32_t worker) {
  const coded *j = arg;
  const int64_t n = j->call.channels * cpu_area(j->call.plane.in), part = index % j->parts,
                first = cpu_share(n, (uint32_t)part, j->parts);
  (void)worker;
  j->call.kernels->extent(j->call.x + index / j->parts * n + first,
                          cpu_share(n, (uint32_t)part + 1, j->parts) - first,
                          j->extent + 2 * index);
}

static void choose_scales(coded *j) {
  const int most = cpu_codes_most(j->to), flip = cpu_codes_flip(j->to);
  for (int64_t i = 0; i < j->call.count; i++) {
    float low = 0, high = 0; /* low: of the negated elements */
    bool finite = true;
    for (uint32_t p = 0; p < j->parts; p++) {
      const float *e = j->extent + 2 * (i * j->parts + p);
      low = fmaxf(low, e[0]), high = fmaxf(high, e[1]);
      finite = finite && e[0] == e[0] && e[1] == e[1];
    }
    const float step = fmaxf(low / (float)most + high / (float)most, 0x1p-126f),
                zero = rintf(low / step);
    j->coding[i] = (cpu_coding){.factor = finite ? 1.0f / step : 0,
                                .zero = finite ? zero : 0,
                                .most = most,
                                .flip = (uint8_t)flip};
    j->scale[i] = finite ? step : NAN;
    j->zero[i] = j->coding[i].zero - (float)flip;
  }
}

static void code_task(void *arg, uint32_t index, uint32_t worker) {
  const coded *j = arg;
  const int64_t image = index / j->parts, size = cpu_area(j->call.plane.in),
                channels = j->call.channels, first = cpu_share(size, index % j->parts, j->parts),
                end = cpu_share(size, index % j->parts + 1, j->parts);
  const cpu_image to = image_of(j, image);
  (void)worker;
  j->call.kernels->codes(&j->coding[image], j->call.x + image * channels * size + first, size,
                         end - first, channels, to.codes + first * channels, channels);
  for (int64_t i = first; i < end; i++) to.scale[i] = j->scale[image], to.zero[i] = j->zero[image];
}

/* ---- what a piece reads ---- */

/* A piece: channels [channel, channel + n) of pixels [first, end) of an image, whole units of
 * them. */
typedef struct piece {
  int64_t image, channel, n, first, end, panel, panel_end;
} piece;

static piece piece_of(const coded *j, uint32_t index) {
  const uint32_t strip = index % j->strips, part = index / j->strips % j->pieces;
  const int64_t cols = j->call.kernels->linear[CPU_LAYOUT_I8].cols,
                panel = cpu_share(j->call.w->tiles, strip, j->strips),
                panel_end = cpu_share(j->call.w->tiles, strip + 1, j->strips),
                left = j->call.outputs - panel * cols, all = (panel_end - panel) * cols,
                size = cpu_area(j->call.plane.out),
                end = cpu_share(j->units, part + 1, j->pieces) * j->unit;
  return (piece){.image = index / j->strips / j->pieces,
                 .channel = panel * cols,
                 .n = left < all ? left : all,
                 .first = cpu_share(j->units, part, j->pieces) * j->unit,
                 .end = end < size ? end : size,
                 .panel = panel,
                 .panel_end = panel_end};
}

static void fill_pixels(cpu_image to, int64_t first, int64_t end, int64_t channels, float scale,
                        float zero) {
  if (end > first)
    memset(to.codes + first * channels, (uint8_t)(int)zero, (size_t)((end - first) * channels));
  for (int64_t i = first; i < end; i++) to.scale[i] = scale, to.zero[i] = zero;
}

/* Lines [top, top + lines) of x from pixel `left` on, `wide` pixels of each.  Outside is 0: the
 * code of zero, with the scale of the line where blocks reach over pixels.  Where all k are one
 * block (rows are gathered, or have parts) the image's scale is read: codes alone are copied. */
static cpu_image band_of(const coded *j, cpu_image x, int64_t top, int64_t left, int64_t lines,
                         char *scratch) {
  const int64_t channels = j->call.channels, *in = j->call.plane.in, wide = j->wide;
  const cpu_image band = cpu_image_at(scratch, 0, j->band * wide, channels);
  const bool shared = j->call.w->block > channels, one = j->gathered || j->call.w->part;
  for (int64_t l = 0; l < lines; l++) {
    const int64_t y = top + l, at = l * wide;
    int64_t first = left < 0 ? -left : 0, end = in[1] - left < wide ? in[1] - left : wide;
    if (first >= end || y < 0 || y >= in[0]) {
      fill_pixels(band, at, at + wide, channels, 0, one ? x.zero[0] : 0);
      continue;
    }
    const int64_t from = y * in[1] + left + first;
    const float scale = shared ? x.scale[from] : 0, zero = shared ? x.zero[from] : 0;
    fill_pixels(band, at, at + first, channels, scale, zero);
    memcpy(band.codes + (at + first) * channels, x.codes + from * channels,
           (size_t)((end - first) * channels));
    if (!one) {
      memcpy(band.scale + at + first, x.scale + from, (size_t)(end - first) * sizeof(float));
      memcpy(band.zero + at + first, x.zero + from, (size_t)(end - first) * sizeof(float));
    }
    fill_pixels(band, at + end, at + wide, channels, scale, zero);
  }
  return band;
}

void cpu_image_join(cpu_image x, int64_t wide, int most, int64_t first, int64_t end, float *scale,
                    float *zero) {
  float low = 0, high = 0, bad = 0;
  bool same = true;
  for (int64_t y = first; y < end; y++) {
    const float s = x.scale[y * wide], z = x.zero[y * wide];
    low = fmaxf(low, s * z), high = fmaxf(high, s * ((float)most - z)), bad += 0 * s;
    same &= s == x.scale[first * wide] && z == x.zero[first * wide];
  }
  const float step = fmaxf(low / (float)most + high / (float)most, 0x1p-126f);
  *scale = same && first < end ? x.scale[first * wide] : step;
  *zero = same && first < end ? x.zero[first * wide] : rintf(low / step);
  if (bad == 0) return;
  *scale = NAN, *zero = 0;
}

/* Lines [top, top + lines) of x from pixel `left` on as codes of one scale, wide pixels of j->pixel
 * codes each; zero around them. */
static void recode_band(const coded *j, cpu_image x, int64_t top, int64_t left, int64_t lines,
                        uint8_t *to, float *scale, float *zero) {
  const int64_t channels = j->call.channels, *in = j->call.plane.in, wide = j->wide,
                first = left < 0 ? -left : 0, end = in[1] - left < wide ? in[1] - left : wide;
  cpu_image_join(x, in[1], cpu_codes_most(j->to), top < 0 ? 0 : top,
                 top + lines < in[0] ? top + lines : in[0], scale, zero);
  for (int64_t l = 0; l < lines; l++, to += wide * j->pixel) {
    const int64_t y = top + l;
    const bool none = first >= end || y < 0 || y >= in[0];
    const int64_t stop = none ? wide : first, from = y * in[1] + left + first;
    memset(to, (int)*zero, (size_t)(stop * j->pixel));
    if (none) continue;
    j->call.kernels->recode(&(cpu_recode){.x = x.codes + from * channels,
                                          .y = to + first * j->pixel,
                                          .pixels = end - first,
                                          .channels = channels,
                                          .ldy = j->pixel,
                                          .factor = *scale == *scale ? x.scale[from] / *scale : 0,
                                          .from = x.zero[from],
                                          .to = *zero});
    memset(to + end * j->pixel, (int)*zero, (size_t)((wide - end) * j->pixel));
  }
}

/* Row [k] of the window at x. */
static void gather_row(const coded *j, const uint8_t *x, uint8_t *row) {
  const kit_plane *p = &j->call.plane;
  const int64_t channels = j->call.channels, taps = p->dilation[1] == 1 ? 1 : p->kernel[1],
                run = p->kernel[1] / taps * channels, down = p->dilation[0] * j->wide * channels,
                right = p->dilation[1] * channels;
  for (int64_t ky = 0; ky < p->kernel[0]; ky++, x += down)
    for (int64_t kx = 0; kx < taps; kx++, row += run)
      if (run <= RUN)
        memcpy(row, x + kx * right, RUN); /* what follows is written later */
      else
        memcpy(row, x + kx * right, (size_t)run);
}

/* The same of a line of windows, one row of the kernel after the other: short ones whose copies
 * stay within their rows. */
static void gather_line(const coded *j, const uint8_t *x, int64_t line, uint8_t *rows) {
  const kit_plane *p = &j->call.plane;
  const int64_t channels = j->call.channels, run = p->kernel[1] * channels,
                step = p->stride[1] * channels, row = j->row;
  for (int64_t ky = 0; ky < p->kernel[0]; ky++) {
    const uint8_t *from = x + ky * p->dilation[0] * j->wide * channels;
    uint8_t *to = rows + ky * run;
    for (int64_t i = 0; i < line; i++, from += step, to += row) memcpy(to, from, RUN);
  }
}

/* Rows of `lines` lines of windows, the first of which begins at x. */
static void gather_lines(const coded *j, const uint8_t *x, int64_t lines, int64_t line,
                         uint8_t *rows) {
  const kit_plane *p = &j->call.plane;
  const int64_t channels = j->call.channels, *stride = p->stride, run = p->kernel[1] * channels;
  const bool apart = p->dilation[1] == 1 && run <= RUN && (p->kernel[0] - 1) * run + RUN <= j->row;
  for (int64_t l = 0; apart && l < lines; l++, rows += line * j->row)
    gather_line(j, x + l * stride[0] * j->wide * channels, line, rows);
  for (int64_t l = 0; !apart && l < lines; l++)
    for (int64_t i = 0; i < line; i++, rows += j->row)
      gather_row(j, x + (l * stride[0] * j->wide + i * stride[1]) * channels, rows);
}

/* Lines of a piece's windows where words are multiplied. */
static int64_t lines_of(const coded *j, const piece *at) {
  const int64_t line = j->call.plane.out[1];
  return ((at->end - at->first) / line + WINDOW - 1) / WINDOW * WINDOW;
}

static void read_windows(const coded *j, const piece *at, char *scratch, cpu_gemm *g,
                         cpu_implicit_gemm *w) {
  const kit_plane *p = &j->call.plane;
  const int64_t channels = j->call.channels, n = at->end - at->first,
                line = j->thin ? n : p->out[1], lines = j->words ? lines_of(j, at) : n / line,
                top = (j->thin ? 0 : at->first / p->out[1]) * p->stride[0] - p->begin[0],
                left = (j->thin ? at->first * p->stride[1] : 0) - p->begin[1];
  cpu_image x = image_of(j, at->image);
  if (j->recoded) {
    float *scale = (float *)(void *)(scratch + j->band_at);
    uint8_t *band = (uint8_t *)scratch + j->rows_at;
    recode_band(j, x, top, left,
                (lines - 1) * p->stride[0] + (p->kernel[0] - 1) * p->dilation[0] + 1, band, scale,
                scale + 1);
    *w = (cpu_implicit_gemm){.line = line,
                             .line_bytes = p->stride[0] * j->wide * j->pixel,
                             .block = j->call.w->block,
                             .part = j->call.w->part,
                             .x_at = j->x_at,
                             .scale = scale,
                             .zero = j->call.x_positive ? NULL : scale + 1,
                             .scale_at = j->scale_at};
    g->x = band, g->ldx = p->stride[1] * j->pixel;
    return;
  }
  if (j->bordered) {
    x = band_of(j, x, top, left,
                (lines - 1) * p->stride[0] + (p->kernel[0] - 1) * p->dilation[0] + 1,
                scratch + j->band_at);
  } else {
    const int64_t first = top * p->in[1] + left;
    x.codes += first * channels, x.scale += first, x.zero += first;
  }
  *w = (cpu_implicit_gemm){
      .line = line, .block = j->call.w->block, .x_at = j->x_at, .scale = x.scale, .zero = x.zero};
  w->scale_at = j->scale_at;
  if (j->call.x_positive) w->zero = NULL;
  if (j->gathered) {
    uint8_t *rows = (uint8_t *)scratch + j->rows_at;
    gather_lines(j, x.codes, lines, line, rows);
    w->line = n;
    w->scale = &j->scale[at->image], w->zero = &j->zero[at->image];
    g->x = rows, g->ldx = j->row;
    return;
  }
  w->line_bytes = p->stride[0] * j->wide * channels;
  if (j->call.w->part) {
    w->part = j->call.w->part;
    w->scale = &j->scale[at->image], w->zero = &j->zero[at->image];
  } else {
    w->scale_row = p->stride[1];
    w->scale_line = p->stride[0] * j->wide;
  }
  g->x = x.codes, g->ldx = p->stride[1] * channels;
}

/* ---- a piece of y ---- */

/* The product [pixels][n] to where it belongs among planes. */
static void put_planes(const coded *j, const piece *at, const float *product, bool residual) {
  const cpu_conv_call *c = &j->call;
  const int64_t size = cpu_area(c->plane.out),
                first = (at->image * c->outputs + at->channel) * size + at->first;
  c->kernels->to_planes(&(cpu_planes){.x = product,
                                      .residual = residual ? c->residual + first : NULL,
                                      .y = c->y + first,
                                      .ldx = at->n,
                                      .ldy = size,
                                      .pixels = at->end - at->first,
                                      .channels = at->n,
                                      .act = residual ? c->act : ACCEL_PLUGIN_ACT_NONE,
                                      .alpha = c->alpha});
}

static bool all_below(const float *x, int64_t n, float limit) { /* false where there is a NaN */
  bool all = true;
  for (int64_t i = 0; i < n; i++) all &= x[i] < limit;
  return all;
}

/* Whether sums of products stay far from overflowing, so that nothing of a piece becomes NaN. */
static bool is_tame(const coded *j, const cpu_implicit_gemm *w, int64_t pixels) {
  const int64_t blocks = cpu_conv_depth(j->call.w) / w->block,
                reach = (pixels / w->line - 1) * w->scale_line + (w->line - 1) * w->scale_row +
                        w->scale_at[blocks - 1] + 1;
  return j->tame && all_below(w->scale, reach, TAME) &&
         (!w->residual || all_below(w->residual_scale, pixels, TAME));
}

/* Where the kernel notes what the piece reaches. */
static void note_reach(const coded *j, int64_t pixels, char *scratch, cpu_implicit_gemm *w) {
  if (!is_tame(j, w, pixels)) return;
  w->high = (float *)(void *)(scratch + j->reach_at);
  if (j->call.act != ACCEL_PLUGIN_ACT_RELU) w->low = w->high + pixels * j->call.kernels->vector;
}

/* Pixels [first, end) of y, or of what it is pooled to. */
static void put_codes(const coded *j, int64_t image, int64_t first, int64_t end,
                      const float *product, const float *high, const float *low) {
  const cpu_conv_call *c = &j->call;
  const kit_plane *p = c->pool ? c->pool : &c->plane;
  const cpu_image y = cpu_image_at(c->y, image, cpu_area(p->out), c->outputs);
  c->kernels->codes_pixels(&(cpu_pixels){.x = product,
                                         .y = y.codes + first * c->outputs,
                                         .scale = y.scale + first,
                                         .zero = y.zero + first,
                                         .pixels = end - first,
                                         .channels = c->outputs,
                                         .each = c->y_codes != CPU_CODES_LINE ? 1
                                                 : c->pool                    ? p->out[1]
                                                                              : c->line,
                                         .most = cpu_codes_most(j->to),
                                         .flip = cpu_codes_flip(j->to),
                                         .positive = c->act == ACCEL_PLUGIN_ACT_RELU,
                                         .high = high,
                                         .low = low});
}

/* Lets the kernel prefetch what the next piece reads and writes. */
static void prefetch_next_piece(const coded *j, const piece *at, const cpu_gemm *g,
                                cpu_implicit_gemm *w) {
  const cpu_conv_call *c = &j->call;
  const int64_t pixels = at->end - at->first;
  w->y_prefetch = cpu_image_at(c->y, at->image, cpu_area(c->plane.out), c->outputs).codes +
                  at->end * c->outputs;
  if (w->residual) w->residual_prefetch = pixels * c->outputs;
  if (c->plane.out[0] == 1 && !j->gathered && !j->bordered) w->x_prefetch = pixels * g->ldx;
}

/* g as words. */
static void run_words(const coded *j, const piece *at, char *scratch, const cpu_gemm *g,
                      cpu_implicit_gemm *implicit) {
  const cpu_conv *c = j->call.w;
  const bool plain = g->act == ACCEL_PLUGIN_ACT_NONE || g->act == ACCEL_PLUGIN_ACT_RELU;
  const int64_t n = at->end - at->first;
  if (!plain) implicit->high = implicit->low = NULL;
  j->call.kernels->winograd_i16(
      &(cpu_winograd_i16){.rows = lines_of(j, at) / WINDOW,
                          .wide = j->wide / WINDOW,
                          .k = j->call.channels,
                          .n = g->n,
                          .x = g->x,
                          .line = j->wide,
                          .scale = implicit->scale,
                          .zero = implicit->zero,
                          .w = (const char *)c->packed + (uint64_t)c->tiles * c->panel_bytes +
                               (uint64_t)at->panel * c->word_bytes,
                          .panel_bytes = (int64_t)c->word_bytes,
                          .bias = g->bias,
                          .lines = n / implicit->line,
                          .pixels = implicit->line,
                          .residual = implicit->residual,
                          .residual_scale = implicit->residual_scale,
                          .residual_zero = implicit->residual_zero,
                          .ldr = g->ldr,
                          .y = g->y,
                          .ldy = g->ldy,
                          .relu = g->act == ACCEL_PLUGIN_ACT_RELU,
                          .high = implicit->high,
                          .low = implicit->low,
                          .points = (int16_t *)(void *)(scratch + j->rows_at),
                          .sums = (int32_t *)(void *)(scratch + j->sums_at)},
      0, at->panel_end - at->panel);
  if (!plain) j->call.kernels->activate(g->act, g->alpha, g->y, g->y, n * g->n);
}

/* A residual among planes is added when the result goes there; the activation follows it. */
static void multiply_piece(const coded *j, const piece *to, char *scratch, float *product,
                           cpu_implicit_gemm *w) {
  const cpu_conv_call *c = &j->call;
  const piece at = *to;
  const bool later = c->residual && !c->residual_codes, coded_now = c->y_codes && !c->pool;
  cpu_implicit_gemm implicit;
  cpu_gemm g = {.n = at.n,
                .k = cpu_conv_depth(c->w),
                .w = (const char *)c->w->packed + (uint64_t)at.panel * c->w->panel_bytes,
                .panel_bytes = (int64_t)c->w->panel_bytes,
                .store = ACCEL_PLUGIN_I8,
                .scale = ACCEL_PLUGIN_F32,
                .y = product,
                .ldy = j->apart ? c->outputs : at.n,
                .bias = c->bias ? c->bias + at.channel : NULL,
                .ldr = c->outputs,
                .act = later ? ACCEL_PLUGIN_ACT_NONE : c->act,
                .alpha = c->alpha,
                .implicit_gemm = &implicit};
  read_windows(j, &at, scratch, &g, &implicit);
  if (c->residual && !later) {
    const cpu_image r = cpu_image_at(c->residual, at.image, cpu_area(c->plane.out), c->outputs);
    implicit.residual = r.codes + at.first * c->outputs + at.channel;
    implicit.residual_scale = r.scale + at.first;
    implicit.residual_zero = c->residual_positive ? NULL : r.zero + at.first;
  }
  if (coded_now && !j->words) prefetch_next_piece(j, &at, &g, &implicit);
  if (coded_now && !j->apart) note_reach(j, at.end - at.first, scratch, &implicit);
  if (j->words)
    run_words(j, &at, scratch, &g, &implicit);
  else
    c->kernels->linear[CPU_LAYOUT_I8].run(&g, 0, at.end - at.first, 0, at.panel_end - at.panel);
  *w = implicit;
}

static void run_piece(const coded *j, uint32_t index, char *scratch) {
  const cpu_conv_call *c = &j->call;
  const piece at = piece_of(j, index);
  float *product = (float *)(void *)scratch;
  cpu_implicit_gemm reach;
  if (j->apart)
    product = j->product + (at.image * cpu_area(c->plane.out) + at.first) * c->outputs + at.channel;
  multiply_piece(j, &at, scratch, product, &reach);
  if (j->apart) return;
  if (c->y_codes)
    put_codes(j, at.image, at.first, at.end, product, reach.high, reach.low);
  else
    put_planes(j, &at, product, c->residual && !c->residual_codes);
}

/* A line of what strips have multiplied. */
static void put_line_task(void *arg, uint32_t index, uint32_t worker) {
  const coded *j = arg;
  const cpu_conv_call *c = &j->call;
  const int64_t lines = c->plane.out[0], line = c->plane.out[1], at = index % lines * line;
  (void)worker;
  put_codes(j, index / lines, at, at + line, j->product + index * line * c->outputs, NULL, NULL);
}

/* ---- a pool behind it ---- */

static float *pooled_line(const coded *j, char *scratch, int64_t line) {
  return (float *)(void *)(scratch + j->sums_at) + line % j->ring * j->line_floats;
}

/* A line of what y is pooled to; lines of y below *done are there already. */
static void run_pooled(const coded *j, int64_t image, int64_t line, char *scratch, int64_t *done) {
  const cpu_conv_call *c = &j->call;
  const kit_plane *p = c->pool;
  const int64_t wide = c->plane.out[1], first = line * p->stride[0] - p->begin[0];
  const float *lines[CPU_POOL_TAPS] = {NULL};
  cpu_implicit_gemm unused;
  if (*done < first) *done = first;
  for (int64_t end = first + (p->kernel[0] - 1) * p->dilation[0] + 1;
       *done < end && *done < c->plane.out[0]; ++*done) {
    const piece at = {image, 0, c->outputs, *done * wide, (*done + 1) * wide, 0, c->w->tiles};
    multiply_piece(j, &at, scratch, pooled_line(j, scratch, *done), &unused);
  }
  for (int64_t k = 0; k < p->kernel[0]; k++) {
    const int64_t at = first + k * p->dilation[0];
    if (at >= 0 && at < c->plane.out[0]) lines[k] = pooled_line(j, scratch, at);
  }
  float *y = (float *)(void *)scratch;
  c->kernels->pool_pixels(
      &(cpu_pool_pixels){.plane = *p, .channels = c->outputs, .y = y, .lines = lines}, line,
      line + 1);
  put_codes(j, image, line * p->out[1], (line + 1) * p->out[1], y, NULL, NULL);
}

static void pooled_task(void *arg, uint32_t index, uint32_t worker) {
  const coded *j = arg;
  const int64_t lines = j->call.pool->out[0], each = j->tasks / j->call.count, image = index / each;
  int64_t done = 0;
  for (int64_t i = cpu_share(lines, (uint32_t)(index % each), (uint32_t)each);
       i < cpu_share(lines, (uint32_t)(index % each) + 1, (uint32_t)each); i++)
    run_pooled(j, image, i, j->scratch + worker * j->scratch_bytes, &done);
}

static void product_task(void *arg, uint32_t index, uint32_t worker) {
  const coded *j = arg;
  const uint32_t all = (uint32_t)j->call.count * j->pieces * j->strips;
  const uint32_t first = (uint32_t)cpu_share(all, index, j->tasks),
                 end = (uint32_t)cpu_share(all, index + 1, j->tasks);
  for (uint32_t i = first; i < end; i++) run_piece(j, i, j->scratch + worker * j->scratch_bytes);
}

/* ---- launches ---- */

/* Lines of a piece whose lines of x share a scale: as shapes alone have it, so that results do not
 * depend on workers.  As many pixels as are worth fetching w from another cache for, if their
 * results stay in the second-level one. */
static int64_t recoded_lines(const cpu_conv_call *c) {
  const int64_t weights = c->channels * cpu_area(c->plane.kernel) * c->outputs,
                least = weights > HUGE_WEIGHTS   ? RECODED_HUGE
                        : weights > WIDE_WEIGHTS ? RECODED_WIDE
                                                 : RECODED_LEAST,
                most = RECODED_BYTES / (int64_t)sizeof(float) / c->outputs,
                pixels = most < least          ? least
                         : most > RECODED_MOST ? RECODED_MOST
                                               : most,
                lines = pixels / c->plane.out[1], all = c->plane.out[0],
                pieces = lines < 1 ? all : (all + lines - 1) / lines;
  return (all + pieces - 1) / pieces;
}

/* Pieces, the same number for each worker where there are few, and tasks of some that follow each
 * other. */
static void cut_pieces(coded *j, uint32_t workers) {
  const cpu_conv_call *c = &j->call;
  const int64_t size = cpu_area(c->plane.out), k = c->channels * cpu_area(c->plane.kernel),
                tiles = 2 * c->kernels->linear[CPU_LAYOUT_I8].rows,
                least = k * c->outputs > WIDE_WEIGHTS ? WIDE_LEAST : tiles;
  int64_t pixels = PIECE_BYTES / (int64_t)sizeof(float) / c->outputs / tiles * tiles;
  pixels = pixels < least ? least : pixels > PIECE_MOST ? PIECE_MOST : pixels;
  j->unit = c->y_codes == CPU_CODES_LINE || c->pool ? c->line : j->thin ? 1 : c->plane.out[1];
  if (j->words) {
    pixels = (c->channels * c->outputs > WORDS_WIDE ? WORD_WINDOWS_WIDE : WORD_WINDOWS) * WINDOW *
             WINDOW;
    j->unit = WINDOW * c->plane.out[1];
  }
  if (j->recoded && !c->pool) j->unit = recoded_lines(c) * c->plane.out[1];
  j->units = (size + j->unit - 1) / j->unit;
  const int64_t each = pixels > j->unit && !j->recoded ? pixels / j->unit : 1;
  int64_t pieces = (j->units + each - 1) / each;
  const bool huge =
      j->words && c->channels * c->outputs > WORDS_HUGE && c->count * pieces < (int64_t)workers;
  if (pieces < 8 * (int64_t)workers && !huge) pieces = (pieces + workers - 1) / workers * workers;
  j->pieces = (uint32_t)(pieces < j->units ? pieces : j->units);
  const uint32_t all = (uint32_t)c->count * j->pieces;
  const bool whole = c->y_codes && !j->recoded && !huge;
  j->strips = whole || all >= workers || !c->w ? 1 : 4 * workers / all;
  if (huge && c->w) j->strips = workers; /* each lays out the words of its windows again */
  if (c->w && j->strips > c->w->tiles) j->strips = (uint32_t)c->w->tiles;
  j->tasks = all * j->strips < TASKS_EACH * workers ? all * j->strips : TASKS_EACH * workers;
  if (!c->pool) return;
  const int64_t most = 4 * (int64_t)workers; /* each computes a line or two that others have, too */
  j->pieces = (uint32_t)j->units, j->strips = 1;
  j->tasks = (uint32_t)(c->count * (c->pool->out[0] < most ? c->pool->out[0] : most));
}

/* Codes from a pixel to the next: an odd number of lines of the cache, if whole ones, so that those
 * of one part of all pixels lie in all of its sets. */
static int64_t apart_pixels(int64_t codes) {
  return codes % (2 * CPU_ACT_STEP) == 0 ? codes + CPU_ACT_STEP : codes;
}

/* Sizes, and where everything lies in the workspace; answers its bytes.  Nothing is read but
 * shapes.  Before there is an endpoint (w is NULL): the most that it may be. */
static int64_t lay_out(coded *j, const cpu_kernels *kernels, uint32_t workers, void *workspace) {
  const kit_plane *p = &j->call.plane;
  const int64_t count = j->call.count, channels = j->call.channels, taps = cpu_area(p->kernel),
                k = channels * taps, steps = (channels + CPU_ACT_STEP - 1) / CPU_ACT_STEP;
  int64_t span[2], bytes = 0;
  char *at = workspace;
  j->to = kernels->linear[CPU_LAYOUT_I8].x;
  j->planes = !j->call.x_codes;
  j->gathered = !j->call.w || (j->call.w->block == k && taps > 1 && !j->call.w->part);
  j->pixel = apart_pixels(j->call.w ? j->call.w->pixel : steps * CPU_ACT_STEP);
  for (int i = 0; i < 2; i++)
    span[i] = (p->out[i] - 1) * p->stride[i] + (p->kernel[i] - 1) * p->dilation[i] + 1;
  j->bordered = !j->call.w || j->words || j->recoded || p->begin[0] || p->begin[1] ||
                span[0] > p->in[0] || span[1] > p->in[1];
  j->thin = p->out[0] == 1 && !j->recoded;
  cut_pieces(j, workers);
  const int64_t pixels = (j->units + j->pieces - 1) / j->pieces * j->unit,
                lines = j->thin ? 1 : pixels / p->out[1], line = j->thin ? pixels : p->out[1];
  j->band = (lines - 1) * p->stride[0] + (p->kernel[0] - 1) * p->dilation[0] + 1;
  j->wide =
      j->bordered ? (line - 1) * p->stride[1] + (p->kernel[1] - 1) * p->dilation[1] + 1 : p->in[1];
  if (j->words) j->wide = (p->out[1] + WINDOW - 1) / WINDOW * WINDOW + 2;
  j->row = (k + 15) / 16 * 16;
  j->parts = 4 * workers;
  j->reach_at = cpu_aligned(pixels * j->call.outputs * (int64_t)sizeof(float));
  j->band_at = j->reach_at + cpu_aligned(2 * pixels * kernels->vector * (int64_t)sizeof(float));
  j->rows_at = j->band_at;
  if (j->recoded)
    j->rows_at += cpu_aligned(2 * (int64_t)sizeof(float)); /* scale and zero */
  else if (j->bordered)
    j->rows_at += cpu_aligned(
        cpu_image_floats(j->band * j->wide, channels) * (int64_t)sizeof(float) + BEHIND);
  j->sums_at = j->rows_at + (j->gathered ? cpu_aligned(pixels * j->row + BEHIND) : 0);
  if (j->recoded) j->sums_at = j->rows_at + cpu_aligned(j->band * j->wide * j->pixel + BEHIND);
  j->scratch_bytes = j->sums_at;
  if (j->words) {
    const int64_t windows = lines / WINDOW * (j->wide / WINDOW), points = 36;
    j->sums_at +=
        cpu_aligned(points * cpu_winograd_i16_step(windows, channels) * (int64_t)sizeof(int16_t));
    j->scratch_bytes =
        j->sums_at + cpu_aligned(cpu_winograd_i16_parts(channels) * windows * points *
                                 kernels->linear[CPU_LAYOUT_I8].cols * (int64_t)sizeof(int32_t));
  }
  if (j->call.pool) {
    const kit_plane *pool = j->call.pool;
    /* where the product is */
    const int64_t y = pool->out[1] * j->call.outputs * (int64_t)sizeof(float);
    const int64_t more = y > j->reach_at ? cpu_aligned(y) - j->reach_at : 0;
    j->ring = (pool->kernel[0] - 1) * pool->dilation[0] + 1;
    j->line_floats =
        cpu_aligned(pixels * j->call.outputs * (int64_t)sizeof(float)) / (int64_t)sizeof(float);
    j->reach_at += more, j->band_at += more, j->rows_at += more, j->sums_at += more;
    j->scratch_bytes = j->sums_at + j->ring * j->line_floats * (int64_t)sizeof(float);
  }
#define PLACE(field, size) \
  (j->field = (void *)(at ? at + bytes : NULL), bytes += cpu_aligned((int64_t)(size)))
  PLACE(x_at, (uint64_t)(taps * steps) * sizeof(int64_t));
  PLACE(scale_at, (uint64_t)taps * sizeof(int64_t));
  PLACE(extent, (uint64_t)count * j->parts * 2 * sizeof(float));
  PLACE(scale, (uint64_t)count * sizeof(float));
  PLACE(zero, (uint64_t)count * sizeof(float));
  PLACE(coding, (uint64_t)count * sizeof(cpu_coding));
  PLACE(scratch, workers * j->scratch_bytes);
  j->apart = j->strips > 1 && j->call.y_codes;
  if (j->apart || (!j->call.w && (j->recoded || j->words) && j->pieces * count < workers))
    PLACE(product, cpu_area(p->out) * count * j->call.outputs * (int64_t)sizeof(float));
  if (j->planes)
    PLACE(images,
          count * cpu_image_floats(cpu_area(p->in), channels) * (int64_t)sizeof(float) + BEHIND);
#undef PLACE
  return bytes;
}

/* Whether words are multiplied; before there is an endpoint: whether that may be. */
static bool as_words(const cpu_conv_call *c) {
  const kit_plane *p = &c->plane;
  const int64_t windows = ((p->out[0] + WINDOW - 1) / WINDOW) * ((p->out[1] + WINDOW - 1) / WINDOW);
  if (windows < WORD_LEAST || c->pool) return false;
  if (c->w) return c->w->word_bytes;
  return c->kernels->winograd_i16 && p->kernel[0] == 3 && p->kernel[1] == 3 &&
         cpu_area(p->stride) == 1 && cpu_area(p->dilation) == 1;
}

/* Blocks of k in x: rows of the kernel, or taps. */
static void place_blocks(const coded *j) {
  const kit_plane *p = &j->call.plane;
  const cpu_conv *c = j->call.w;
  const int64_t channels = j->call.channels, block = c->block,
                taps = block == channels ? p->kernel[1] : 1;
  if (c->part) {
    j->scale_at[0] = 0;
    for (int64_t i = 0; i < cpu_conv_depth(c) / c->part; i++) {
      const cpu_conv_step at =
          c->pixel ? cpu_conv_step_of(c, i, p->kernel[1]) : (cpu_conv_step){i * p->kernel[1], 0};
      j->x_at[i] = (at.tap / p->kernel[1] * p->dilation[0] * j->wide +
                    at.tap % p->kernel[1] * p->dilation[1]) *
                       (c->pixel ? j->pixel : channels) +
                   at.codes;
    }
    return;
  }
  for (int64_t b = 0; b < cpu_conv_depth(c) / block; b++) {
    j->scale_at[b] = b / taps * p->dilation[0] * j->wide + b % taps * p->dilation[1];
    j->x_at[b] = j->scale_at[b] * channels;
  }
}

void cpu_conv_i8(const cpu_conv_call *call, const kit_launch *l) {
  coded j = {.call = *call};
  const uint32_t workers = cpu_workers(l);
  if (!call->count || !call->outputs || !cpu_area(call->plane.out)) return;
  j.words = as_words(call);
  j.recoded = call->w->pixel;
  lay_out(&j, call->kernels, workers, l->workspace);
  place_blocks(&j);
  const uint32_t images = (uint32_t)call->count;
  j.tame = true;
  for (int64_t i = 0; call->bias && i < call->outputs; i++) j.tame &= fabsf(call->bias[i]) < TAME;
  if (j.planes) {
    cpu_parallel(l, images * j.parts, extent_task, &j);
    choose_scales(&j);
    cpu_parallel(l, images * j.parts, code_task, &j);
  }
  cpu_parallel(l, j.tasks, call->pool ? pooled_task : product_task, &j);
  if (j.apart) cpu_parallel(l, images * (uint32_t)call->plane.out[0], put_line_task, &j);
}

uint64_t cpu_conv_i8_workspace(const cpu_conv_call *call, uint32_t workers) {
  coded j = {.call = *call};
  if (!call->count || !call->outputs || !cpu_area(call->plane.out)) return 0;
  if (!workers) workers = 1;
  if (call->w) {
    j.words = as_words(call), j.recoded = call->w->pixel;
    return (uint64_t)lay_out(&j, call->kernels, workers, NULL);
  }
  int64_t most = lay_out(&j, call->kernels, workers, NULL); /* of the ways that it may take */
  const bool may[] = {as_words(call), call->kernels->recode && cpu_area(call->plane.kernel) > 1};
  for (int i = 0; i < 2; i++) {
    if (!may[i]) continue;
    j.words = !i, j.recoded = i;
    const int64_t bytes = lay_out(&j, call->kernels, workers, NULL);
    if (bytes > most) most = bytes;
  }
  return (uint64_t)most;
}
