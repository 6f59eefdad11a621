/* resample.c - another sampling rate, by a windowed sinc at the rational ratio. */
#include <math.h>
#include <stdlib.h>

#include "audio/audio.h"

static const double zero_crossings = 6.0, rolloff = 0.99;

static uint32_t divisor(uint32_t a, uint32_t b) {
  while (b) {
    const uint32_t t = a % b;
    a = b;
    b = t;
  }
  return a;
}

typedef struct filter {
  uint32_t from, to; /* without common divisor */
  int64_t width;     /* input samples that a tap may be away from the output sample */
  double base;       /* zero crossings per `from` input samples */
  double *tap;       /* [to, 2 width + 1] */
} filter;

/* Output sample j is phase p = j mod `to` at input position (j / to) from + p from / to; its first
 * tap is at the whole part of that position - width. */
static void make_taps(filter *f) {
  const double pi = 3.14159265358979323846;
  for (uint32_t p = 0; p < f->to; p++) {
    const int64_t whole = (int64_t)((uint64_t)p * f->from / f->to);
    for (int64_t i = 0; i <= 2 * f->width; i++) {
      const double t = ((double)(whole - f->width + i) / f->from - (double)p / f->to) * f->base,
                   edge = cos(t * pi / zero_crossings / 2.0);
      f->tap[p * (2 * f->width + 1) + i] =
          fabs(t) >= zero_crossings
              ? 0.0
              : (t == 0.0 ? 1.0 : sin(pi * t) / (pi * t)) * edge * edge * f->base / f->from;
    }
  }
}

static void convolve(const filter *f, const accel__sound *in, float *out, uint64_t n_out) {
  const int64_t n_taps = 2 * f->width + 1, frames = (int64_t)in->frames;
  for (uint64_t j = 0; j < n_out; j++) {
    const uint64_t p = j % f->to;
    const int64_t first = (int64_t)(j / f->to * f->from + p * f->from / f->to) - f->width;
    const double *tap = f->tap + p * (uint64_t)n_taps;
    const int64_t begin = first < 0 ? -first : 0,
                  end = first + n_taps > frames ? frames - first : n_taps;
    double sum = 0.0;
    for (int64_t k = begin; k < end; k++) sum += tap[k] * in->samples[first + k];
    out[j] = (float)sum;
  }
}

accel_status accel__resample(accel__sound *s, uint32_t rate) {
  if (!rate || !s->rate) return accel__fail(ACCEL_ERROR_ARGUMENT, "a sampling rate is 0");
  if (rate == s->rate) return ACCEL_OK;
  const uint32_t g = divisor(s->rate, rate), from = s->rate / g, to = rate / g;
  filter f = {.from = from, .to = to, .base = (from < to ? from : to) * rolloff};
  f.width = (int64_t)ceil(zero_crossings * from / f.base) + 1;
  const uint64_t n = (s->frames * to + from - 1) / from;
  if (n > ACCEL__SOUND_MAX_FRAMES)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%llu samples at %u per second are too many at %u",
                       (unsigned long long)s->frames, s->rate, rate);
  const size_t tap_bytes = (size_t)(2 * f.width + 1) * to * sizeof *f.tap;
  f.tap = malloc(tap_bytes);
  float *out = malloc((n + 1) * sizeof *out);
  accel_status status = f.tap && out ? ACCEL_OK : accel__no_memory(tap_bytes + n * sizeof *out);
  if (status == ACCEL_OK) {
    make_taps(&f);
    convolve(&f, s, out, n);
    free(s->samples);
    *s = (accel__sound){.samples = out, .frames = n, .rate = rate};
    out = NULL;
  }
  free(f.tap);
  free(out);
  return status;
}
