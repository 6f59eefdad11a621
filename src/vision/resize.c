/* resize.c - antialiased resampling of 8-bit images in fixed point, and cropping. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "vision/image.h"
#include "vision/resize_passes.h"

/* ---- filters: height at distance x, zero from `support` on ---- */

static double box(double x) { return x > -0.5 && x <= 0.5 ? 1.0 : 0.0; }

static double bilinear(double x) { return fabs(x) < 1.0 ? 1.0 - fabs(x) : 0.0; }

static double sinc(double x) {
  const double pi = 3.14159265358979323846;
  return x == 0.0 ? 1.0 : sin(pi * x) / (pi * x);
}

static double hamming(double x) {
  const double pi = 3.14159265358979323846;
  return fabs(x) < 1.0 ? sinc(x) * (0.54 + 0.46 * cos(pi * x)) : 0.0;
}

static double bicubic(double x) { /* Keys' kernel, a = -0.5 */
  const double a = -0.5;
  x = fabs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * a : 0.0;
}

static double lanczos(double x) { return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0; }

static const struct {
  double (*at)(double x);
  double support;
} filters[] = {[ACCEL__LANCZOS] = {lanczos, 3.0},
               [ACCEL__BILINEAR] = {bilinear, 1.0},
               [ACCEL__BICUBIC] = {bicubic, 2.0},
               [ACCEL__BOX] = {box, 0.5},
               [ACCEL__HAMMING] = {hamming, 1.0}};

/* ---- weights ---- */

typedef struct weights {
  int32_t taps, precision; /* capacity for each output pixel; fractional bits of a weight */
  int32_t *first, *count;  /* [out]: input pixels of each output pixel */
  int32_t *weight;         /* [out, taps] */
  void *block;
  const accel__resize_kernels *kernels; /* NULL: plain loops */
  /* the same in 16 bits, for the kernels; weight NULL: they do not fit, or there are no kernels */
  accel__taps narrow;
  int16_t *narrow_block;
} weights;

static int32_t precision_of(const double *w, int64_t n, accel__rounding rounding) {
  double largest = 0.0;
  int32_t bits = 0;
  if (rounding == ACCEL__ROUND_PILLOW) return 32 - 8 - 2;
  for (int64_t i = 0; i < n; i++) largest = w[i] > largest ? w[i] : largest;
  while (bits < 22 && (int32_t)(0.5 + largest * (1 << (bits + 1))) < 1 << 15) bits++;
  return bits;
}

/* Weights of 16 bits: all of torch's rounding. */
static accel_status make_narrow(int32_t out, accel__rounding rounding, weights *w) {
  const int32_t groups = (w->taps + 3) / 4;
  if (rounding != ACCEL__ROUND_TORCH || !w->kernels) return ACCEL_OK;
  w->narrow_block = calloc((size_t)out * (size_t)groups * 4, sizeof *w->narrow_block);
  if (!w->narrow_block) return accel__no_memory((size_t)out * (size_t)groups * 8);
  w->narrow = (accel__taps){.groups = groups,
                            .precision = w->precision,
                            .first = w->first,
                            .count = w->count,
                            .weight = w->narrow_block};
  for (int32_t i = 0; i < out; i++)
    for (int32_t k = 0; k < w->count[i]; k++) {
      const int32_t v = w->weight[(size_t)i * (size_t)w->taps + (size_t)k];
      if (v != (int16_t)v) w->narrow.weight = NULL;
      w->narrow_block[(size_t)i * (size_t)groups * 4 + (size_t)k] = (int16_t)v;
    }
  return ACCEL_OK;
}

static accel_status make_weights(int32_t in, int32_t out, accel__filter filter,
                                 accel__rounding rounding, weights *w) {
  const double scale = (double)in / out, stretch = scale < 1.0 ? 1.0 : scale,
               support = filters[filter].support * stretch;
  const int32_t taps = (int32_t)ceil(support) * 2 + 1;
  const size_t cells = (size_t)out * (size_t)taps;
  w->kernels = accel__resize_kernels_of(accel__isa_choose());
  w->taps = taps;
  w->block = malloc((cells + 2 * (size_t)out) * sizeof *w->weight);
  double *exact = calloc(cells, sizeof *exact);
  if (!w->block || !exact) {
    free(exact);
    return accel__no_memory(cells * sizeof *exact);
  }
  w->weight = w->block;
  w->first = w->weight + cells;
  w->count = w->first + out;
  for (int32_t i = 0; i < out; i++) {
    const double centre = (i + 0.5) * scale;
    double sum = 0.0, *e = exact + (size_t)i * (size_t)taps;
    int32_t begin = (int32_t)(centre - support + 0.5), end = (int32_t)(centre + support + 0.5);
    if (begin < 0) begin = 0;
    if (end > in) end = in;
    w->first[i] = begin;
    w->count[i] = end - begin;
    for (int32_t k = 0; k < end - begin; k++)
      sum += e[k] = filters[filter].at((k + begin - centre + 0.5) / stretch);
    for (int32_t k = 0; k < end - begin && sum != 0.0; k++) e[k] /= sum;
  }
  w->precision = precision_of(exact, (int64_t)cells, rounding);
  for (size_t i = 0; i < cells; i++)
    w->weight[i] = (int32_t)(exact[i] * (1 << w->precision) + (exact[i] < 0.0 ? -0.5 : 0.5));
  free(exact);
  return make_narrow(out, rounding, w);
}

static void weights_free(weights *w) {
  free(w->block);
  free(w->narrow_block);
}

/* ---- the two passes ---- */

static uint8_t clip(int32_t sum, int32_t precision) {
  const int32_t v = sum >> precision;
  return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* `rows` rows of an image from row `y` on to w's width: out [rows][width] pixels. */
static void columns(const weights *w, const accel__image *from, int32_t y, int32_t rows,
                    int32_t width, uint8_t *out) {
  const size_t stride = (size_t)from->width * 3;
  const uint8_t *row = from->pixels + (size_t)y * stride;
  if (w->narrow.weight) {
    accel__resize_columns(w->kernels, &w->narrow, row, stride,
                          (int64_t)((size_t)(from->height - y) * stride), rows, width, out);
    return;
  }
  for (int32_t r = 0; r < rows; r++, row += stride)
    for (int32_t x = 0; x < width; x++, out += 3) {
      const int32_t *weight = w->weight + (size_t)x * (size_t)w->taps,
                    half = w->precision ? 1 << (w->precision - 1) : 0;
      const uint8_t *at = row + (size_t)w->first[x] * 3;
      int32_t red = half, green = half, blue = half;
      for (int32_t k = 0; k < w->count[x]; k++) {
        red += weight[k] * at[3 * k];
        green += weight[k] * at[3 * k + 1];
        blue += weight[k] * at[3 * k + 2];
      }
      out[0] = clip(red, w->precision);
      out[1] = clip(green, w->precision);
      out[2] = clip(blue, w->precision);
    }
}

/* Output row y from rows of `bytes` bytes, `from` being the first that it needs. */
static void one_row(const weights *w, const uint8_t *from, int32_t bytes, int32_t y, uint8_t *out) {
  enum { PART = 192 }; /* bytes of a row summed at a time */
  if (w->narrow.weight) {
    accel__resize_row(w->kernels, &w->narrow, from, bytes, y, out);
    return;
  }
  const int32_t *weight = w->weight + (size_t)y * (size_t)w->taps;
  for (int32_t begin = 0; begin < bytes; begin += PART) {
    const int32_t n = bytes - begin < PART ? bytes - begin : PART;
    int32_t sum[PART];
    for (int32_t i = 0; i < n; i++) sum[i] = w->precision ? 1 << (w->precision - 1) : 0;
    for (int32_t k = 0; k < w->count[y]; k++)
      for (int32_t i = 0; i < n; i++)
        sum[i] += weight[k] * from[(size_t)k * (size_t)bytes + (size_t)(begin + i)];
    for (int32_t i = 0; i < n; i++) out[begin + i] = clip(sum[i], w->precision);
  }
}

/* The result in bands of some rows each, which may run at the same time: the rows that the second
 * pass needs are made by the first just before, in a small buffer of the band's own. */
/* fewest rows of a band; rows of its buffer beside those that one output row needs */
enum { BAND_ROWS = 32, EXTRA_ROWS = 16 };
typedef struct job {
  const accel__image *from;
  accel__image *to;
  const weights *across, *down; /* NULL: that side stays */
  int32_t bands, buffer_rows;
  uint8_t *buffer; /* [bands][buffer_rows][bytes of a row of the result] */
} job;

static void band_task(void *arg, uint32_t band, uint32_t worker) {
  const job *j = arg;
  (void)worker;
  const int32_t height = j->to->height, y0 = (int32_t)((int64_t)height * band / j->bands),
                y1 = (int32_t)((int64_t)height * (band + 1) / j->bands);
  const size_t bytes = (size_t)j->to->width * 3;
  uint8_t *out = j->to->pixels + (size_t)y0 * bytes;
  if (!j->down) {
    columns(j->across, j->from, y0, y1 - y0, j->to->width, out);
    return;
  }
  uint8_t *buffer = j->buffer + (size_t)band * (size_t)j->buffer_rows * bytes;
  const int32_t *first = j->down->first, *count = j->down->count,
                last = first[y1 - 1] + count[y1 - 1];
  int32_t begin = first[y0], end = begin; /* rows that are in the buffer */
  for (int32_t y = y0; y < y1; y++, out += bytes) {
    if (j->across && first[y] + count[y] > end) {
      if (first[y] < end)
        memmove(buffer, buffer + (size_t)(first[y] - begin) * bytes,
                (size_t)(end - first[y]) * bytes);
      else
        end = first[y];
      begin = first[y];
      const int32_t more =
          begin + j->buffer_rows < last ? (begin + j->buffer_rows - end) / 4 * 4 : last - end;
      columns(j->across, j->from, end, more, j->to->width, buffer + (size_t)(end - begin) * bytes);
      end += more;
    }
    one_row(j->down,
            j->across ? buffer + (size_t)(first[y] - begin) * bytes
                      : j->from->pixels + (size_t)first[y] * bytes,
            (int32_t)bytes, y, out);
  }
}

static accel_status filtered(accel__image *image, int32_t width, int32_t height,
                             accel__filter filter, accel__rounding rounding, accel__pool *pool) {
  weights across = {0}, down = {0};
  accel__image to = {0};
  job j = {.from = image, .to = &to, .bands = pool ? (int32_t)accel__pool_size(pool) : 1};
  accel_status status = ACCEL_OK;
  if (j.bands > height / BAND_ROWS) j.bands = height / BAND_ROWS > 0 ? height / BAND_ROWS : 1;
  if (width != image->width) {
    status = make_weights(image->width, width, filter, rounding, &across);
    j.across = &across;
  }
  if (status == ACCEL_OK && height != image->height) {
    status = make_weights(image->height, height, filter, rounding, &down);
    j.down = &down;
  }
  if (status == ACCEL_OK) status = accel__image_unset(width, height, "the resized image", &to);
  if (status == ACCEL_OK && j.across && j.down) {
    j.buffer_rows = down.taps + EXTRA_ROWS;
    j.buffer = malloc((size_t)j.bands * (size_t)j.buffer_rows * (size_t)width * 3);
    if (!j.buffer)
      status = accel__no_memory((size_t)j.bands * (size_t)j.buffer_rows * (size_t)width * 3);
  }
  for (uint32_t t = 0; status == ACCEL_OK && t < (uint32_t)j.bands && !pool; t++)
    band_task(&j, t, 0);
  if (status == ACCEL_OK && pool) accel__pool_run(pool, (uint32_t)j.bands, band_task, &j);
  free(j.buffer);
  weights_free(&across);
  weights_free(&down);
  if (status != ACCEL_OK) {
    accel__image_free(&to);
    return status;
  }
  accel__image_free(image);
  *image = to;
  return ACCEL_OK;
}

/* Source of each output pixel, the one under its middle: Pillow adds up the steps in double
 * precision, torch ("nearest-exact", which transformers takes for Pillow's filter 0) multiplies in
 * single. */
static int32_t *nearest_of(int32_t in, int32_t out, accel__rounding rounding) {
  int32_t *index = malloc((size_t)out * sizeof *index);
  const double step = (double)in / out;
  double at = 0.5 * step;
  for (int32_t i = 0; index && i < out; i++, at += step) {
    const int32_t found = rounding == ACCEL__ROUND_PILLOW
                              ? (int32_t)at
                              : (int32_t)floorf(((float)i + 0.5f) * ((float)in / (float)out));
    index[i] = found < in ? found : in - 1;
  }
  return index;
}

static accel_status nearest(accel__image *image, int32_t width, int32_t height,
                            accel__rounding rounding) {
  accel__image to = {0};
  int32_t *column = nearest_of(image->width, width, rounding),
          *row = nearest_of(image->height, height, rounding);
  accel_status status = column && row ? accel__image_unset(width, height, "the resized image", &to)
                                      : accel__no_memory((size_t)width * 4);
  for (int32_t y = 0; status == ACCEL_OK && y < height; y++)
    for (int32_t x = 0; x < width; x++)
      memcpy(to.pixels + ((size_t)y * (size_t)width + (size_t)x) * 3,
             image->pixels + ((size_t)row[y] * (size_t)image->width + (size_t)column[x]) * 3, 3);
  free(column);
  free(row);
  if (status != ACCEL_OK) return status;
  accel__image_free(image);
  *image = to;
  return ACCEL_OK;
}

accel_status accel__image_resize(accel__image *image, int32_t width, int32_t height,
                                 accel__filter filter, accel__rounding rounding,
                                 accel__pool *pool) {
  if (width < 1 || height < 1 || width > ACCEL__IMAGE_MAX_SIDE || height > ACCEL__IMAGE_MAX_SIDE)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "an image cannot be resized to %d x %d", width,
                       height);
  if (width == image->width && height == image->height) return ACCEL_OK;
  if (filter == ACCEL__NEAREST) return nearest(image, width, height, rounding);
  return filtered(image, width, height, filter, rounding, pool);
}

/* ---- in single precision ---- */

typedef struct exact {
  int32_t first, count;
  float *weight;
} exact;

/* For each output pixel its input pixels and their weights; free() both arrays. */
static exact *exact_of(int32_t in, int32_t out, accel__filter filter, float **cells) {
  const float scale = (float)in / (float)out, stretch = scale < 1.0f ? 1.0f : scale,
              support = (float)filters[filter].support * stretch, invert = 1.0f / stretch;
  const size_t taps = (size_t)ceilf(support) * 2 + 1;
  exact *all = calloc((size_t)out, sizeof *all);
  *cells = calloc((size_t)out * taps, sizeof **cells);
  for (int32_t i = 0; all && *cells && i < out; i++) {
    const float centre = scale * ((float)i + 0.5f);
    const int32_t begin = (int32_t)(centre - support + 0.5f),
                  end = (int32_t)(centre + support + 0.5f);
    exact *e = &all[i];
    float sum = 0.0f;
    e->weight = *cells + (size_t)i * taps;
    e->first = begin < 0 ? 0 : begin;
    e->count = (end > in ? in : end) - e->first;
    for (int32_t k = 0; k < e->count; k++)
      sum += e->weight[k] =
          (float)filters[filter].at((double)(((float)(k + e->first) - centre + 0.5f) * invert));
    for (int32_t k = 0; k < e->count && sum != 0.0f; k++) e->weight[k] /= sum;
  }
  return all;
}

accel_status accel__image_resize_float(const accel__image *image, float factor, int32_t width,
                                       int32_t height, accel__filter filter, float *planes) {
  float *cells[2] = {NULL, NULL};
  exact *across = exact_of(image->width, width, filter, &cells[0]),
        *down = exact_of(image->height, height, filter, &cells[1]);
  float *rows = malloc((size_t)image->height * (size_t)width * sizeof *rows);
  const bool ready = across && down && cells[0] && cells[1] && rows;
  for (int c = 0; ready && c < 3; c++) {
    for (int32_t y = 0; y < image->height; y++) {
      const uint8_t *row = image->pixels + (size_t)y * (size_t)image->width * 3 + c;
      for (int32_t x = 0; x < width; x++) {
        float sum = 0.0f;
        for (int32_t k = 0; k < across[x].count; k++)
          sum += (float)row[3 * (across[x].first + k)] * factor * across[x].weight[k];
        rows[(size_t)y * (size_t)width + (size_t)x] = sum;
      }
    }
    for (int32_t y = 0; y < height; y++)
      for (int32_t x = 0; x < width; x++) {
        float sum = 0.0f;
        for (int32_t k = 0; k < down[y].count; k++)
          sum += rows[(size_t)(down[y].first + k) * (size_t)width + (size_t)x] * down[y].weight[k];
        planes[((size_t)c * (size_t)height + (size_t)y) * (size_t)width + (size_t)x] = sum;
      }
  }
  free(across);
  free(down);
  free(cells[0]);
  free(cells[1]);
  free(rows);
  return ready ? ACCEL_OK : accel__no_memory((size_t)image->height * (size_t)width * sizeof *rows);
}

accel_status accel__image_crop(accel__image *image, int32_t left, int32_t top, int32_t width,
                               int32_t height, const uint8_t fill[3]) {
  accel__image to;
  if (!left && !top && width == image->width && height == image->height) return ACCEL_OK;
  ACCEL_TRY(accel__image_unset(width, height, "the cropped image", &to));
  for (int32_t y = 0; y < height; y++) {
    const int64_t sy = (int64_t)top + y;
    uint8_t *out = to.pixels + (size_t)y * (size_t)width * 3;
    const int64_t begin = left < 0 ? -(int64_t)left : 0,
                  end = image->width - (int64_t)left < width ? image->width - (int64_t)left : width;
    const bool inside = sy >= 0 && sy < image->height && end > begin;
    for (int64_t x = 0; x < (inside ? begin : width); x++) memcpy(out + 3 * x, fill, 3);
    for (int64_t x = inside ? end : width; x < width; x++) memcpy(out + 3 * x, fill, 3);
    if (!inside) continue;
    memcpy(out + 3 * begin,
           image->pixels + ((size_t)sy * (size_t)image->width + (size_t)(left + begin)) * 3,
           (size_t)(end - begin) * 3);
  }
  accel__image_free(image);
  *image = to;
  return ACCEL_OK;
}
