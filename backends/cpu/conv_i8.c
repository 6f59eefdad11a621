/* conv_i8.c - convolutions over int8 weights: the image as codes, channels last, with the border that padding asks for; then
 * the linear kernel over rows of codes, one pixel of the result each.
 *
 * An image has one scale and one zero, from its smallest and largest element: what linear does by rows, here for all that a
 * window can reach.  An image with an infinity or NaN gets a scale that is NaN. */
#include <math.h>
#include <string.h>

#include "cpu.h"
#include "ops.h"

enum { PIXELS = 448 }; /* rows of one product, at most: with its columns they stay in the second-level cache */

typedef struct coded {
  cpu_conv_call call;
  cpu_x to;
  bool direct;                       /* a row of codes is a pixel of the image: 1x1 */
  int64_t high, wide, pitch, row, k; /* bordered image; bytes from pixel to pixel, and of a row with its scales */
  uint8_t *codes, *rooms;            /* [count][high][wide][pitch]; [workers][room] */
  int64_t room;
  float *extent, *scale, *zero;          /* [count][parts][2]; [count] */
  cpu_coding *coding;                    /* [count] */
  uint32_t parts, bands, chunks, strips; /* of an image: of its elements, its rows, its pixels; of the panels */
} coded;

static int64_t area(const int64_t d[2]) { return d[0] * d[1]; }
static int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/* ---- how the image is coded ---- */

static void extent_task(void *arg, uint32_t index, uint32_t worker) {
  const coded *j = arg;
  const int64_t n = j->call.channels * area(j->call.plane.in), part = index % j->parts,
                first = cpu_share(n, (uint32_t)part, j->parts);
  (void)worker;
  j->call.kernels->extent(j->call.x + index / j->parts * n + first, cpu_share(n, (uint32_t)part + 1, j->parts) - first,
                          j->extent + 2 * index);
}

static void choose_scales(coded *j) {
  const int most = j->to == CPU_X_U7B ? 127 : 255, flip = j->to == CPU_X_S8B ? 128 : 0;
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

/* Row `r` of the bordered image. */
static void code_row(const coded *j, int64_t image, int64_t r) {
  const cpu_plane *p = &j->call.plane;
  const cpu_coding *how = &j->coding[image];
  const int64_t y = r - p->begin[0], left = p->begin[1] < j->wide ? p->begin[1] : j->wide, pitch = j->pitch,
                n = p->in[1] < j->wide - left ? p->in[1] : j->wide - left;
  uint8_t *to = j->codes + (image * j->high + r) * j->wide * pitch;
  const int outside = (int)how->zero ^ how->flip;
  if (y < 0 || y >= p->in[0]) {
    memset(to, outside, (size_t)(j->wide * pitch));
    return;
  }
  memset(to, outside, (size_t)(left * pitch));
  j->call.kernels->codes(how, j->call.x + image * j->call.channels * area(p->in) + y * p->in[1], area(p->in), n,
                         j->call.channels, to + left * pitch, pitch);
  memset(to + (left + n) * pitch, outside, (size_t)((j->wide - left - n) * pitch));
}

/* Pixels [first, end) of an image without a border, each a row of the product. */
static void code_pixels(const coded *j, int64_t image, int64_t first, int64_t end) {
  const int64_t size = area(j->call.plane.in);
  uint8_t *to = j->codes + (image * size + first) * j->pitch;
  j->call.kernels->codes(&j->coding[image], j->call.x + image * j->call.channels * size + first, size, end - first,
                         j->call.channels, to, j->pitch);
  for (int64_t i = 0; i < end - first; i++) {
    memset(to + i * j->pitch + j->k, 0, (size_t)((j->k + CPU_X_STEP - 1) / CPU_X_STEP * CPU_X_STEP - j->k));
    put_scales(j, image, to + i * j->pitch);
  }
}

static void code_task(void *arg, uint32_t index, uint32_t worker) {
  const coded *j = arg;
  const int64_t image = index / j->bands, all = j->direct ? area(j->call.plane.in) : j->high;
  const uint32_t band = index % j->bands;
  const int64_t first = cpu_share(all, band, j->bands), end = cpu_share(all, band + 1, j->bands);
  (void)worker;
  if (j->direct)
    code_pixels(j, image, first, end);
  else
    for (int64_t r = first; r < end; r++) code_row(j, image, r);
}

/* ---- products ---- */

/* Rows [k][scales] of pixels [first, end): the windows, a run of neighbours in x at a time. */
static const uint8_t *gather(const coded *j, int64_t image, int64_t first, int64_t end, uint8_t *rows) {
  const cpu_plane *p = &j->call.plane;
  const int64_t line = j->wide * j->pitch, taps = p->dilation[1] == 1 ? 1 : p->kernel[1],
                run = p->kernel[1] / taps * j->pitch;
  const uint8_t *codes = j->codes + image * j->high * line;
  if (j->direct) return codes + first * j->pitch;
  memset(rows + j->k, 0, (size_t)(j->row - j->k));
  put_scales(j, image, rows);
  for (int64_t i = first; i < end; i++) {
    uint8_t *to = rows + (i - first) * j->row;
    if (i > first) memcpy(to + j->k, rows + j->k, (size_t)(j->row - j->k)); /* filling and scales */
    const uint8_t *from = codes + i / p->out[1] * p->stride[0] * line + i % p->out[1] * p->stride[1] * j->pitch;
    for (int64_t ky = 0; ky < p->kernel[0]; ky++)
      for (int64_t kx = 0; kx < taps; kx++, to += run)
        memcpy(to, from + ky * p->dilation[0] * line + kx * p->dilation[1] * j->pitch, (size_t)run);
  }
  return rows;
}

/* Channels [channel, channel + n) of `pixels` pixels to where they belong, from the product [pixels][n]. */
static void put(const coded *j, int64_t image, int64_t channel, int64_t n, int64_t first, int64_t pixels,
                const float *product) {
  const cpu_conv_call *c = &j->call;
  const int64_t size = area(c->plane.out), at = (image * c->outputs + channel) * size + first;
  c->kernels->to_planes(&(cpu_planes){.x = product,
                                      .residual = c->residual ? c->residual + at : NULL,
                                      .y = c->y + at,
                                      .ldx = n,
                                      .ldy = size,
                                      .pixels = pixels,
                                      .channels = n,
                                      .act = c->residual ? c->act : ACCEL_PLUGIN_ACT_NONE,
                                      .alpha = c->alpha});
}

static void product_task(void *arg, uint32_t index, uint32_t worker) {
  const coded *j = arg;
  const cpu_conv_call *c = &j->call;
  const cpu_linear_kernel *linear = &c->kernels->linear[CPU_FORM_I8];
  const uint32_t strip = index % j->strips, chunk = index / j->strips % j->chunks;
  const int64_t image = index / j->strips / j->chunks, size = area(c->plane.out), first = cpu_share(size, chunk, j->chunks),
                end = cpu_share(size, chunk + 1, j->chunks), panel = cpu_share(c->w->tiles, strip, j->strips),
                stop = cpu_share(c->w->tiles, strip + 1, j->strips), channel = panel * linear->cols,
                left = c->outputs - channel, n = left < (stop - panel) * linear->cols ? left : (stop - panel) * linear->cols;
  uint8_t *room = j->rooms + worker * j->room;
  float *product = (float *)(void *)(room + (j->direct ? 0 : aligned(PIXELS * j->row)));
  cpu_gemm g = {.n = n,
                .k = j->k,
                .x = gather(j, image, first, end, room),
                .ldx = j->direct ? j->pitch : j->row,
                .w = (const char *)c->w->packed + (uint64_t)panel * c->w->panel_bytes,
                .panel_bytes = (int64_t)c->w->panel_bytes,
                .store = ACCEL_PLUGIN_I8,
                .scale = ACCEL_PLUGIN_F32,
                .y = product,
                .ldy = n,
                .bias = c->bias ? c->bias + channel : NULL,
                .act = c->residual ? ACCEL_PLUGIN_ACT_NONE : c->act,
                .alpha = c->alpha};
  linear->run(&g, 0, end - first, 0, stop - panel);
  put(j, image, channel, n, first, end - first, product);
}

/* ---- launches ---- */

static uint32_t at_least(int64_t n, int64_t one) { return n > one ? (uint32_t)n : (uint32_t)one; }

/* Sizes, and where everything lies in the workspace; answers its bytes.  Nothing is read but shapes. */
static int64_t lay_out(coded *j, const cpu_kernels *kernels, uint32_t workers, void *workspace) {
  const cpu_plane *p = &j->call.plane;
  const int64_t size = area(p->out), count = j->call.count;
  j->to = kernels->linear[CPU_FORM_I8].x;
  j->k = j->call.channels * area(p->kernel);
  j->row = cpu_x_row(j->to, j->k);
  j->direct = area(p->kernel) == 1 && area(p->stride) == 1 && p->in[0] == p->out[0] && p->in[1] == p->out[1] &&
              !p->begin[0] && !p->begin[1];
  for (int i = 0; i < 2; i++)
    *(i ? &j->wide : &j->high) = (p->out[i] - 1) * p->stride[i] + (p->kernel[i] - 1) * p->dilation[i] + 1;
  j->pitch = j->direct ? j->row : j->call.channels;
  j->parts = j->bands = 4 * workers;
  j->chunks = (uint32_t)((size + PIXELS - 1) / PIXELS);
  j->room = aligned(PIXELS * j->call.outputs * (int64_t)sizeof(float)) + (j->direct ? 0 : aligned(PIXELS * j->row));
  char *at = workspace;
  int64_t bytes = 0;
#define PLACE(field, size) (j->field = (void *)(at ? at + bytes : NULL), bytes += aligned((int64_t)(size)))
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
  if (!call->count || !call->outputs || !area(call->plane.out)) return;
  lay_out(&j, call->kernels, workers, l->workspace);
  const uint32_t images = (uint32_t)call->count;
  cpu_parallel(l, images * j.parts, extent_task, &j);
  choose_scales(&j);
  cpu_parallel(l, images * j.bands, code_task, &j);
  j.strips = at_least(4 * (int64_t)workers / (images * j.chunks), 1);
  if (workers < 2) j.strips = 1;
  if (j.strips > call->w->tiles) j.strips = (uint32_t)call->w->tiles;
  cpu_parallel(l, images * j.chunks * j.strips, product_task, &j);
}

uint64_t cpu_conv_i8_workspace(const cpu_kernels *kernels, const cpu_plane *plane, int64_t count, int64_t channels,
                               int64_t outputs, uint32_t workers) {
  coded j = {.call = {.plane = *plane, .count = count, .channels = channels, .outputs = outputs}};
  return (uint64_t)lay_out(&j, kernels, workers ? workers : 1, NULL);
}
