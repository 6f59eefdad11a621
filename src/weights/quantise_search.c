/* quantise_search.c - inner loops of quantise-on-load, in the compiler's vectors of eight, which it
 * splits where the machine has shorter ones. */
#include "weights/quantise_search.h"

#include <math.h>
#include <string.h>

#include "formats/e2m1.h"

/* FOR_VECTORS(name, parameters, arguments) makes name() of name_body(): compiled for AVX2, too, and
 * taken where the machine has it.  The numbers are the same: each lane adds in the same order, and
 * no product is contracted into a sum. */
#define BODY static inline __attribute__((always_inline)) void
#if defined(__x86_64__) && defined(__GNUC__)
#define FOR_VECTORS(name, parameters, arguments)                                                \
  __attribute__((target("avx2"))) static void name##_avx2 parameters { name##_body arguments; } \
  static void name parameters {                                                                 \
    if (__builtin_cpu_supports("avx2"))                                                         \
      name##_avx2 arguments;                                                                    \
    else                                                                                        \
      name##_body arguments;                                                                    \
  }
#else
#define FOR_VECTORS(name, parameters, arguments) \
  static void name parameters { name##_body arguments; }
#endif

typedef float f32x8 __attribute__((vector_size(32)));
typedef int32_t i32x8 __attribute__((vector_size(32)));
#define SELECT(mask, a, b) ((f32x8)(((i32x8)(a) & (mask)) | ((i32x8)(b) & ~(mask))))
#define MAX(a, b)          SELECT((a) > (b), a, b)
#define MIN(a, b)          SELECT((a) < (b), a, b)

enum { LANES = 16, VECTORS = LANES / 8 }; /* candidates tried at once */
/* x + this has 1 as its last place: adding and subtracting rounds */
static const float to_integer = 0x1.8p23f;

float accel__peak(const float *x, int64_t n, bool *finite) {
  int32_t largest = 0;
  for (int64_t i = 0; i < n; i++) {
    int32_t bits;
    memcpy(&bits, x + i, sizeof bits);
    bits &= 0x7fffffff; /* magnitudes are ordered as their bits; infinity and NaN lie above all */
    largest = bits > largest ? bits : largest;
  }
  *finite = largest < 0x7f800000;
  float peak;
  memcpy(&peak, &largest, sizeof peak);
  return peak;
}

typedef struct integer_lanes {
  float inverse[LANES], low[LANES], high[LANES];
  float xq[LANES], qq[LANES]; /* sums of x*q and q*q over the elements */
} integer_lanes;

/* unit: a power of two that brings the group near 1, so that no product leaves the range of
 * floats. */
BODY sum_lanes_body(const float *x, int64_t n, float unit, integer_lanes *l) {
  f32x8 inverse[VECTORS], low[VECTORS], high[VECTORS], xq[VECTORS] = {{0}}, qq[VECTORS] = {{0}};
  memcpy(inverse, l->inverse, sizeof inverse);
  memcpy(low, l->low, sizeof low);
  memcpy(high, l->high, sizeof high);
  for (int64_t i = 0; i < n; i++) {
    const float value = x[i] * unit;
    for (int v = 0; v < VECTORS; v++) {
      f32x8 q = (inverse[v] * value + to_integer) - to_integer;
      q = MAX(q, low[v]);
      q = MIN(q, high[v]);
      xq[v] += q * value;
      qq[v] += q * q;
    }
  }
  memcpy(l->xq, xq, sizeof xq);
  memcpy(l->qq, qq, sizeof qq);
}
FOR_VECTORS(sum_lanes, (const float *x, int64_t n, float unit, integer_lanes *l), (x, n, unit, l))

/* For codes q the best scale is xq/qq, and it takes xq*xq/qq off the squared error: the lane with
 * the most wins. */
static float best_lane(const integer_lanes *l, float most, accel__integer_fit *fit) {
  for (int j = 0; j < LANES; j++) {
    if (!(l->qq[j] > 0)) continue;
    const float gain = l->xq[j] / l->qq[j] * l->xq[j];
    if (!(gain > most)) continue;
    most = gain;
    *fit = (accel__integer_fit){l->xq[j] / l->qq[j], (int32_t)l->low[j], (int32_t)l->high[j]};
  }
  return most;
}

typedef struct span {
  float unit, lowest, highest; /* the last two in units */
} span;

static span span_of(const float *x, int64_t n, float peak) {
  int exponent;
  float lowest = 0, highest = 0;
  frexpf(peak, &exponent);
  for (int64_t i = 0; i < n; i++) {
    lowest = x[i] < lowest ? x[i] : lowest;
    highest = x[i] > highest ? x[i] : highest;
  }
  const float unit = ldexpf(1.0f, 1 - exponent);
  return (span){unit, lowest * unit, highest * unit};
}

/* Lanes first, first + step ... try [low, high] with the scale that spans the group, times factors
 * that also clip it or leave room. */
static void spread(integer_lanes *l, int first, int step, const span *s, int low, int high) {
  float whole = high > 0 ? s->highest / (float)high : 0; /* the scale that reaches both ends */
  if (low < 0 && s->lowest / (float)low > whole) whole = s->lowest / (float)low;
  const int count = (LANES - first + step - 1) / step;
  for (int j = 0; j < count; j++) {
    const int lane = first + j * step;
    l->inverse[lane] =
        whole > 0 ? 1.0f / (whole * (0.80f + 0.25f * (float)j / (float)(count - 1))) : 0;
    l->low[lane] = (float)low;
    l->high[lane] = (float)high;
  }
}

accel__integer_fit accel__fit_int4(const float *x, int64_t n, float peak) {
  integer_lanes l;
  accel__integer_fit fit = {0, -8, 7};
  const span s = span_of(x, n, peak);
  spread(&l, 0, 2, &s, -8, 7);
  spread(&l, 1, 2, &s, -7, 8);
  sum_lanes(x, n, s.unit, &l);
  best_lane(&l, 0, &fit);
  if (fit.high == 8) fit = (accel__integer_fit){-fit.scale, -8, 7};
  fit.scale /= s.unit;
  return fit;
}

accel__integer_fit accel__fit_uint4(const float *x, int64_t n, float peak) {
  integer_lanes l;
  accel__integer_fit fit = {0, 0, 15};
  const span s = span_of(x, n, peak);
  const int middle = (int)(-s.lowest / (s.highest - s.lowest) * 15.0f + 0.5f);
  const int below = middle > 0 ? middle - 1 : 1, above = middle < 15 ? middle + 1 : 14;
  spread(&l, 0, 1, &s, -middle, 15 - middle);
  sum_lanes(x, n, s.unit, &l);
  const float most = best_lane(&l, 0, &fit);
  spread(&l, 0, 2, &s, -below, 15 - below);
  spread(&l, 1, 2, &s, -above, 15 - above);
  sum_lanes(x, n, s.unit, &l);
  best_lane(&l, most, &fit);
  fit.scale /= s.unit;
  return fit;
}

/* |x| to the nearest of 0 .5 1 1.5 2 3 4 6, ties to even: the step is 1/2 below 2, 1 below 4, then
 * 2. */
static inline float round_e2m1(float magnitude) {
  float shift = magnitude < 4.0f ? 0x1.8p23f : 0x1.8p24f;
  shift = magnitude < 2.0f ? 0x1.8p22f : shift;
  const float rounded = (magnitude + shift) - shift;
  return rounded < 6.0f ? rounded : 6.0f;
}

BODY sum_errors_body(const float *x, int64_t n, const float *inverse, float *error) {
  f32x8 scale, sum = {0};
  const f32x8 half = (f32x8){0} + 0x1.8p22f, one = (f32x8){0} + 0x1.8p23f,
              two = (f32x8){0} + 0x1.8p24f, six = (f32x8){0} + 6.0f;
  memcpy(&scale, inverse, sizeof scale);
  for (int64_t i = 0; i < n; i++) {
    const f32x8 y = scale * fabsf(x[i]);
    f32x8 shift = SELECT(y < 4.0f, one, two), rounded; /* as round_e2m1 */
    shift = SELECT(y < 2.0f, half, shift);
    rounded = (y + shift) - shift;
    rounded = MIN(rounded, six);
    sum += (y - rounded) * (y - rounded);
  }
  memcpy(error, &sum, sizeof sum);
}
FOR_VECTORS(sum_errors, (const float *x, int64_t n, const float *inverse, float *error),
            (x, n, inverse, error))

uint32_t accel__fit_e2m1(const float *x, int64_t n, const float *scales, uint32_t count) {
  float inverse[ACCEL__FLOAT4_CANDIDATES] = {0}, error[ACCEL__FLOAT4_CANDIDATES];
  for (uint32_t j = 0; j < count; j++) inverse[j] = 1.0f / scales[j];
  sum_errors(x, n, inverse, error);
  uint32_t best = 0;
  float least = error[0];
  for (uint32_t j = 1; j < count; j++) {
    const float ratio = scales[j] / scales[0], found = error[j] * ratio * ratio;
    if (!(found < least)) continue;
    least = found;
    best = j;
  }
  return best;
}

BODY codes_integer_body(const float *x, int64_t n, float inverse, int32_t low, int32_t high,
                        int32_t offset, uint8_t *codes) {
  const float least = (float)low, most = (float)high;
  for (int64_t i = 0; i < n; i++) {
    float q = x[i] * inverse;
    q = q > least ? q : least;
    q = q < most ? q : most;
    q = (q + to_integer) - to_integer;
    codes[i] = (uint8_t)((int32_t)q + offset);
  }
}
FOR_VECTORS(codes_integer,
            (const float *x, int64_t n, float inverse, int32_t low, int32_t high, int32_t offset,
             uint8_t *codes),
            (x, n, inverse, low, high, offset, codes))

BODY codes_e2m1_body(const float *x, int64_t n, float inverse, uint8_t *codes) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, x + i, sizeof bits);
    const float magnitude = fabsf(x[i]) * inverse;
    const int32_t halves = (int32_t)(round_e2m1(magnitude) * 2.0f); /* 0 1 2 3 4 6 8 12 */
    codes[i] = (uint8_t)((halves <= 4 ? halves : 4 + halves / 4) | (int32_t)(bits >> 28 & 8u));
  }
}
FOR_VECTORS(codes_e2m1, (const float *x, int64_t n, float inverse, uint8_t *codes),
            (x, n, inverse, codes))

void accel__codes_integer(const float *x, int64_t n, float inverse, int32_t low, int32_t high,
                          int32_t offset, uint8_t *codes) {
  codes_integer(x, n, inverse, low, high, offset, codes);
}
void accel__codes_e2m1(const float *x, int64_t n, float inverse, uint8_t *codes) {
  codes_e2m1(x, n, inverse, codes);
}
