/* resize_passes.c - see resize_passes.h. */
#include "vision/resize_passes.h"

static uint8_t clip(int32_t sum, int32_t precision) {
  const int32_t v = sum >> precision;
  return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static int32_t half_of(const accel__taps *t) { return t->precision ? 1 << (t->precision - 1) : 0; }

static void plain_pixels(const accel__taps *t, const uint8_t *row, int32_t begin, int32_t end,
                         uint8_t *out) {
  for (int32_t x = begin; x < end; x++) {
    const int16_t *weight = t->weight + (int64_t)x * 4 * t->groups;
    for (int c = 0; c < 3; c++) {
      int32_t sum = half_of(t);
      for (int32_t k = 0; k < t->count[x]; k++) sum += weight[k] * row[3 * (t->first[x] + k) + c];
      out[3 * x + c] = clip(sum, t->precision);
    }
  }
}

static void plain_bytes(const accel__taps *t, const uint8_t *from, int64_t bytes, int32_t y,
                        int64_t begin, uint8_t *out) {
  const int16_t *weight = t->weight + (int64_t)y * 4 * t->groups;
  for (int64_t i = begin; i < bytes; i++) {
    int32_t sum = half_of(t);
    for (int32_t k = 0; k < t->count[y]; k++) sum += weight[k] * from[k * bytes + i];
    out[i] = clip(sum, t->precision);
  }
}

/* The first output pixel for which kernels, which read sixteen bytes at a time, would read beyond
 * the `readable` bytes.  A pixel at the edge may have fewer taps than the one before it. */
static int32_t readable_end(const accel__taps *t, int32_t width, int64_t readable) {
  int32_t end = width;
  for (int32_t x = width - 1; x >= 0; x--) {
    const int64_t at = 3 * (int64_t)t->first[x] + 4;
    if (at + 12 * (int64_t)t->groups <= readable) break; /* so do all before it */
    if (at + 12 * (int64_t)((t->count[x] + 3) / 4) > readable) end = x;
  }
  return end;
}

void accel__resize_columns(const accel__resize_kernels *kernels, const accel__taps *t,
                           const uint8_t *from, size_t stride, int64_t readable, int32_t rows,
                           int32_t width, uint8_t *out) {
  const size_t bytes = (size_t)width * 3;
  for (int32_t r = 0, n; r < rows; r += n, from += (size_t)n * stride, out += (size_t)n * bytes) {
    while (kernels && r + kernels->rows > rows) kernels = kernels->narrower;
    n = kernels ? kernels->rows : 1;
    const int32_t end = readable_end(t, width, readable - (int64_t)((size_t)(r + n - 1) * stride));
    const int32_t done = kernels ? kernels->columns(t, from, stride, end, width, out) : 0;
    for (int32_t k = 0; k < n; k++)
      plain_pixels(t, from + (size_t)k * stride, done, width, out + (size_t)k * bytes);
  }
}

void accel__resize_row(const accel__resize_kernels *kernels, const accel__taps *t,
                       const uint8_t *from, int64_t bytes, int32_t y, uint8_t *out) {
  plain_bytes(t, from, bytes, y, kernels ? kernels->row(t, from, bytes, y, out) : 0, out);
}
