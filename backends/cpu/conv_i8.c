/* conv_i8.c - convolutions over int8 weights: the image as codes, channels last, with the border that padding asks for; then
 * the linear kernel over rows of codes, one pixel of the result each.
 *
 * Planes are coded with one scale and one zero for an image, from its smallest and largest element: windows reach anywhere.
 * Where the pixels lie channels last (cpu_convs.last), blocks of a pixel's channels have scales of their own, as the rows of
 * linear have, unless a block would span pixels.  What an infinity or NaN has a part in becomes NaN. */
#include <math.h>
#include <string.h>

#include "cpu.h"
#include "ops.h"

enum { PIXELS = 448 }; /* rows of one product, at most: with its columns they stay in the second-level cache */

typedef struct coded {
  cpu_conv_call call;
  cpu_x to;
  bool direct;                       /* a row of codes is a pixel of the image: 1x1 */
  bool by_pixel;                     /* each pixel has scales: codes of its channels, then these */
  int64_t high, wide, pitch, row, k; /* bordered image; bytes from pixel to pixel, and of a row with its scales */
  uint8_t *codes, *rooms;            /* [count][high][wide][pitch]; [workers][room] */
  int64_t room;
  float *extent, *scale, *zero;   /* [count][parts][2]; [count] */
  cpu_coding *coding;             /* [count] */
  uint32_t parts, chunks, strips; /* of an image: of its elements, its rows, its pixels; of the panels */
} coded;

/* ---- how the image is coded ---- */

static void extent_task(void *arg, uint32_t index, uint32_t worker) {
  const coded *j = arg;
  const int64_t n = j->call.channels * cpu_area(j->call.plane.in), part = index % j->parts,
                first = cpu_share(n, (uint32_t)part, j->parts);
  (void)worker;
  j->call.kernels->extent(j->call.x + index / j->parts * n + first, cpu_share(n, (uint32_t)part + 1, j->parts) - first,
                          j->extent + 2 * index);
}

static bool signed_codes(const coded *j) { return j->to == CPU_X_S8B; }

static void choose_scales(coded *j) {
  const int most = j->to == CPU_X_U7B ? 127 : 255, flip = signed_codes(j) ? 128 : 0;
  for (int64_t i = 0; i < j->call.count; i++) {
    float low = 0, high = 0; /* low: of the negated elements */
    bool finite = true;
    for (uint32_t p = 0; p < j->parts; p++) {
      const float *e = j->extent + 2 * (i * j->parts + p);
      low = fmaxf(low, e[0]), high = fmaxf(high, e[1]);
      finite = finite && e[0] == e[0] && e[1] == e[1];
    }
    const float step = fmaxf(low / (float)most + high / (float)most, 0x1p-126f), zero = rintf(low / step);
    j->coding[i] =
        (cpu_coding){.factor = finite ? 1.0f / step : 0, .zero = finite ? zero : 0, .most = most, .flip = (uint8_t)flip};
    j->scale[i] = finite ? step : NAN;
    j->zero[i] = j->coding[i].zero - (float)flip;
  }
}

static void put_scales(const coded *j, int64_t image, uint8_t *row) {
  const int64_t blocks = cpu_x_blocks(j->to, j->k);
  float *scale = cpu_x_scales(row, j->k);
  for (int64_t b = 0; b < blocks; b++) scale[b] = j->scale[image], scale[blocks + b] = j->zero[image];
}

/* `n` pixels that lie channels last, from x on, each with scales. */
static void code_records(const coded *j, const float *x, int64_t n, uint8_t *to) {
  const int64_t channels = j->call.channels;
  cpu_convert_rows(j->call.kernels->convert[j->to], j->to, x, channels, n, channels, to, NULL, NULL);
}

/* Row `r` of the bordered image.  Outside is 0: codes of zero, or codes, zero and scale that are 0. */
static void code_row(const coded *j, int64_t image, int64_t r) {
  const cpu_plane *p = &j->call.plane;
  const cpu_coding *how = &j->coding[image];
  const int64_t y = r - p->begin[0], left = p->begin[1] < j->wide ? p->begin[1] : j->wide, pitch = j->pitch,
                channels = j->call.channels, size = cpu_area(p->in),
                n = p->in[1] < j->wide - left ? p->in[1] : j->wide - left;
  uint8_t *to = j->codes + (image * j->high + r) * j->wide * pitch, *inside = to + left * pitch;
  const int outside = j->by_pixel ? 0 : (int)how->zero ^ how->flip;
  if (y < 0 || y >= p->in[0]) {
    memset(to, outside, (size_t)(j->wide * pitch));
    return;
  }
  memset(to, outside, (size_t)(left * pitch));
  const float *x = j->call.x + image * channels * size + y * p->in[1] * (j->call.x_last ? channels : 1);
  if (j->by_pixel)
    code_records(j, x, n, inside);
  else if (j->call.x_last)
    j->call.kernels->codes_row(how, x, n * channels, inside);
  else
    j->call.kernels->codes(how, x, size, n, channels, inside, pitch);
  memset(inside + n * pitch, outside, (size_t)((j->wide - left - n) * pitch));
}

/* Pixels [first, end) of an image without a border, each a row of the product. */
static void code_pixels(const coded *j, int64_t image, int64_t first, int64_t end) {
  const int64_t size = cpu_area(j->call.plane.in), channels = j->call.channels;
  const float *x = j->call.x + image * channels * size;
  uint8_t *to = j->codes + (image * size + first) * j->pitch;
  if (j->by_pixel) {
    code_records(j, x + first * channels, end - first, to);
    return;
  }
  j->call.kernels->codes(&j->coding[image], x + first, size, end - first, channels, to, j->pitch);
  for (int64_t i = 0; i < end - first; i++) {
    memset(to + i * j->pitch + j->k, 0, (size_t)((j->k + CPU_X_STEP - 1) / CPU_X_STEP * CPU_X_STEP - j->k));
    put_scales(j, image, to + i * j->pitch);
  }
}

static void code_task(void *arg, uint32_t index, uint32_t worker) {
  const coded *j = arg;
  const int64_t image = index / j->parts, all = j->direct ? cpu_area(j->call.plane.in) : j->high;
  const uint32_t band = index % j->parts;
  const int64_t first = cpu_share(all, band, j->parts), end = cpu_share(all, band + 1, j->parts);
  (void)worker;
  if (j->direct)
    code_pixels(j, image, first, end);
  else
    for (int64_t r = first; r < end; r++) code_row(j, image, r);
}

/* ---- products ---- */

/* One row of the product from windows of pixels that have scales. */
static void gather_records(const coded *j, const uint8_t *from, uint8_t *row) {
  const cpu_plane *p = &j->call.plane;
  const int64_t channels = j->call.channels, blocks = channels / cpu_x_block(j->to), all = cpu_x_blocks(j->to, j->k);
  float *scale = cpu_x_scales(row, j->k);
  for (int64_t ky = 0; ky < p->kernel[0]; ky++)
    for (int64_t kx = 0; kx < p->kernel[1]; kx++, row += channels, scale += blocks) {
      const uint8_t *pixel = from + (ky * p->dilation[0] * j->wide + kx * p->dilation[1]) * j->pitch;
      memcpy(row, pixel, (size_t)channels);
      memcpy(scale, pixel + channels, (size_t)blocks * sizeof *scale);
      memcpy(scale + all, pixel + channels + blocks * (int64_t)sizeof *scale, (size_t)blocks * sizeof *scale);
    }
}

/* The same with one scale for all, which stands in the row already: runs of neighbours in x at a time. */
static void gather_codes(const coded *j, const uint8_t *from, uint8_t *row) {
  const cpu_plane *p = &j->call.plane;
  const int64_t taps = p->dilation[1] == 1 ? 1 : p->kernel[1], run = p->kernel[1] / taps * j->pitch;
  for (int64_t ky = 0; ky < p->kernel[0]; ky++)
    for (int64_t kx = 0; kx < taps; kx++, row += run)
      memcpy(row, from + (ky * p->dilation[0] * j->wide + kx * p->dilation[1]) * j->pitch, (size_t)run);
}

/* Rows [k][scales] of pixels [first, end). */
static const uint8_t *gather(const coded *j, int64_t image, int64_t first, int64_t end, uint8_t *rows) {
  const cpu_plane *p = &j->call.plane;
  const int64_t line = j->wide * j->pitch, rest = j->row - j->k;
  const uint8_t *codes = j->codes + image * j->high * line;
  if (j->direct) return codes + first * j->pitch;
  if (!j->by_pixel) {
    memset(rows + j->k, 0, (size_t)rest);
    put_scales(j, image, rows);
  }
  for (int64_t i = first; i < end; i++) {
    uint8_t *row = rows + (i - first) * j->row;
    const uint8_t *from = codes + i / p->out[1] * p->stride[0] * line + i % p->out[1] * p->stride[1] * j->pitch;
    if (j->by_pixel) {
      gather_records(j, from, row);
      continue;
    }
    if (i > first) memcpy(row + j->k, rows + j->k, (size_t)rest); /* filling and scales */
    gather_codes(j, from, row);
  }
  return rows;
}

/* The channels [channel, channel + n) of pixels [first, end) of an image: what one task computes. */
typedef struct piece {
  int64_t image, channel, n, first, end;
} piece;

static piece piece_of(const coded *j, uint32_t index, int64_t *panel, int64_t *panel_end) {
  const uint32_t strip = index % j->strips, chunk = index / j->strips % j->chunks;
  const int64_t size = cpu_area(j->call.plane.out), cols = j->call.kernels->linear[CPU_FORM_I8].cols;
  *panel = cpu_share(j->call.w->tiles, strip, j->strips);
  *panel_end = cpu_share(j->call.w->tiles, strip + 1, j->strips);
  const int64_t left = j->call.outputs - *panel * cols, all = (*panel_end - *panel) * cols;
  return (piece){.image = index / j->strips / j->chunks,
                 .channel = *panel * cols,
                 .n = left < all ? left : all,
                 .first = cpu_share(size, chunk, j->chunks),
                 .end = cpu_share(size, chunk + 1, j->chunks)};
}

/* The product [pixels][n] to where it belongs among planes. */
static void put(const coded *j, const piece *at, const float *product, bool residual) {
  const cpu_conv_call *c = &j->call;
  const int64_t size = cpu_area(c->plane.out), first = (at->image * c->outputs + at->channel) * size + at->first;
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

/* A residual that lies channels last is added with the product; the activation follows it. */
static void product_task(void *arg, uint32_t index, uint32_t worker) {
  const coded *j = arg;
  const cpu_conv_call *c = &j->call;
  int64_t panel, panel_end;
  const piece at = piece_of(j, index, &panel, &panel_end);
  uint8_t *room = j->rooms + worker * j->room;
  float *product = (float *)(void *)(room + (j->direct ? 0 : cpu_aligned(PIXELS * j->row)));
  const int64_t last = (at.image * cpu_area(c->plane.out) + at.first) * c->outputs + at.channel, pixels = at.end - at.first;
  const bool later = c->residual && !c->residual_last;
  cpu_gemm g = {.n = at.n,
                .k = j->k,
                .x = gather(j, at.image, at.first, at.end, room),
                .ldx = j->direct ? j->pitch : j->row,
                .w = (const char *)c->w->packed + (uint64_t)panel * c->w->panel_bytes,
                .panel_bytes = (int64_t)c->w->panel_bytes,
                .store = ACCEL_PLUGIN_I8,
                .scale = ACCEL_PLUGIN_F32,
                .y = c->y_last ? c->y + last : product,
                .ldy = c->y_last ? c->outputs : at.n,
                .bias = c->bias ? c->bias + at.channel : NULL,
                .residual = c->residual_last ? c->residual + last : NULL,
                .ldr = c->outputs,
                .act = c->residual ? ACCEL_PLUGIN_ACT_NONE : c->act,
                .alpha = c->alpha};
  c->kernels->linear[CPU_FORM_I8].run(&g, 0, pixels, 0, panel_end - panel);
  if (c->residual_last && c->act != ACCEL_PLUGIN_ACT_NONE)
    for (int64_t i = 0; i < pixels; i++) c->kernels->activate(c->act, c->alpha, g.y + i * g.ldy, g.y + i * g.ldy, at.n);
  if (!c->y_last) put(j, &at, product, later);
}

/* ---- launches ---- */

/* Sizes, and where everything lies in the workspace; answers its bytes.  Nothing is read but shapes. */
static int64_t lay_out(coded *j, const cpu_kernels *kernels, uint32_t workers, void *workspace) {
  const cpu_plane *p = &j->call.plane;
  const int64_t size = cpu_area(p->out), count = j->call.count;
  j->to = kernels->linear[CPU_FORM_I8].x;
  j->k = j->call.channels * cpu_area(p->kernel);
  j->row = cpu_x_row(j->to, j->k);
  j->direct = cpu_area(p->kernel) == 1 && cpu_area(p->stride) == 1 && p->in[0] == p->out[0] && p->in[1] == p->out[1] &&
              !p->begin[0] && !p->begin[1];
  for (int i = 0; i < 2; i++)
    *(i ? &j->wide : &j->high) = (p->out[i] - 1) * p->stride[i] + (p->kernel[i] - 1) * p->dilation[i] + 1;
  j->by_pixel = j->call.x_last && (j->direct || j->call.channels % cpu_x_block(j->to) == 0);
  j->pitch = j->by_pixel || j->direct ? cpu_x_row(j->to, j->call.channels) : j->call.channels;
  j->parts = 4 * workers;
  j->chunks = (uint32_t)((size + PIXELS - 1) / PIXELS);
  j->room = cpu_aligned(PIXELS * j->call.outputs * (int64_t)sizeof(float)) + (j->direct ? 0 : cpu_aligned(PIXELS * j->row));
  char *at = workspace;
  int64_t bytes = 0;
#define PLACE(field, size) (j->field = (void *)(at ? at + bytes : NULL), bytes += cpu_aligned((int64_t)(size)))
  PLACE(extent, (uint64_t)count * j->parts * 2 * sizeof(float));
  PLACE(scale, (uint64_t)count * sizeof(float));
  PLACE(zero, (uint64_t)count * sizeof(float));
  PLACE(coding, (uint64_t)count * sizeof(cpu_coding));
  PLACE(rooms, workers * j->room);
  PLACE(codes, count * j->high * j->wide * j->pitch);
#undef PLACE
  return bytes;
}

void cpu_conv_i8(const cpu_conv_call *call, const kit_launch *l) {
  coded j = {.call = *call};
  const uint32_t workers = cpu_workers(l);
  if (!call->count || !call->outputs || !cpu_area(call->plane.out)) return;
  lay_out(&j, call->kernels, workers, l->workspace);
  const uint32_t images = (uint32_t)call->count;
  if (!j.by_pixel) {
    cpu_parallel(l, images * j.parts, extent_task, &j);
    choose_scales(&j);
  }
  cpu_parallel(l, images * j.parts, code_task, &j);
  j.strips = workers > 1 ? 4 * workers / (images * j.chunks) : 1;
  if (j.strips < 1) j.strips = 1;
  if (j.strips > call->w->tiles) j.strips = (uint32_t)call->w->tiles;
  cpu_parallel(l, images * j.chunks * j.strips, product_task, &j);
}

uint64_t cpu_conv_i8_workspace(const cpu_conv_call *call, uint32_t workers) {
  coded j = {.call = *call};
  return (uint64_t)lay_out(&j, call->kernels, workers ? workers : 1, NULL);
}
