/* mel_body.h - the work of mel.c before and after the transform: frames into lanes, and power
 * spectra into logarithms of mel energies.  A part of audio_kernels_body.h. */

typedef uint64_t vec_bits __attribute__((vector_size(LANES * sizeof(double))));
typedef float vec_floats __attribute__((vector_size(LANES * sizeof(float))));
typedef float floats __attribute__((vector_size(4 * sizeof(float))));
typedef double doubles __attribute__((vector_size(4 * sizeof(double))));

/* Frames of n samples, `hop` apart, into the lanes of x: turned four by four. */
static void gather_frames(const float *samples, int32_t hop, int32_t n, double *x) {
  int32_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int half = 0; half < LANES; half += 4) {
      floats f[4];
      for (int k = 0; k < 4; k++)
        memcpy(&f[k], samples + (int64_t)(half + k) * hop + i, sizeof f[k]);
      const floats a = __builtin_shufflevector(f[0], f[1], 0, 4, 1, 5),
                   b = __builtin_shufflevector(f[2], f[3], 0, 4, 1, 5),
                   c = __builtin_shufflevector(f[0], f[1], 2, 6, 3, 7),
                   d = __builtin_shufflevector(f[2], f[3], 2, 6, 3, 7);
      const doubles turned[4] = {
          __builtin_convertvector(__builtin_shufflevector(a, b, 0, 1, 4, 5), doubles),
          __builtin_convertvector(__builtin_shufflevector(a, b, 2, 3, 6, 7), doubles),
          __builtin_convertvector(__builtin_shufflevector(c, d, 0, 1, 4, 5), doubles),
          __builtin_convertvector(__builtin_shufflevector(c, d, 2, 3, 6, 7), doubles)};
      for (int k = 0; k < 4; k++) memcpy(x + (i + k) * LANES + half, &turned[k], sizeof turned[k]);
    }
  for (; i < n; i++)
    for (int lane = 0; lane < LANES; lane++) x[i * LANES + lane] = samples[(int64_t)lane * hop + i];
}

/* Mean, preemphasis and window. */
static void window_frames(const accel__spectrogram *s, const double *window, double *frames) {
  vec *x = (vec *)frames;
  const double preemphasis = (double)s->preemphasis;
  vec mean = {0};
  if (s->remove_dc) {
    for (int32_t i = 0; i < s->frame; i++) mean += x[i];
    mean /= (double)s->frame;
  } else if (preemphasis == 0.0) {
    for (int32_t i = 0; i < s->frame; i++) x[i] *= window[i];
    return;
  }
  vec previous = x[0] - mean;
  for (int32_t i = 0; i < s->frame; i++) {
    const vec v = x[i] - mean;
    x[i] = (v - preemphasis * previous) * window[i];
    previous = v;
  }
}

/* y = times * ln(max(x, least)) for two vectors, least > 0.  x = m 2^e with m from sqrt(1/2) to
 * sqrt(2), ln(m) = 2 artanh((m-1)/(m+1)), whose series is cut where its terms fall below 1e-9. */
static void logarithm(const vec *x, double least, double times, float *y) {
  const double ln2 = 0.69314718055994531, root = 1.4142135623730951;
  const vec zero = {0}, one = zero + 1.0;
  for (int k = 0; k < 2; k++) {
    const vec_bits above = (vec_bits)(x[k] > least);
    const vec_bits bits = ((vec_bits)x[k] & above) | ((vec_bits)(zero + least) & ~above);
    vec m = (vec)((bits & 0x000FFFFFFFFFFFFFu) | 0x3FF0000000000000u);
    /* exponent as the low bits of a double */
    vec e = (vec)((bits >> 52) | 0x4330000000000000u) - (0x1p52 + 1023.0);
    const vec_bits high = (vec_bits)(m > root);
    m = (vec)(((vec_bits)(m * 0.5) & high) | ((vec_bits)m & ~high));
    e += (vec)((vec_bits)one & high);
    const vec s = (m - 1.0) / (m + 1.0), z = s * s;
    const vec p = (((z * (1.0 / 9.0) + 1.0 / 7.0) * z + 1.0 / 5.0) * z + 1.0 / 3.0) * z + 1.0;
    const vec_floats result = __builtin_convertvector(times * (2.0 * s * p + e * ln2), vec_floats);
    memcpy(y + k * LANES, &result, sizeof result);
  }
}

/* One filter over the power spectra of 2 LANES frames, `count` bins from power[0] on. */
static void mel_energies(const float *weight, int32_t count, const double *power, double least,
                         double times, float *y) {
  vec total[2] = {{0}, {0}};
  for (int32_t b = 0; b < count; b++)
    for (int k = 0; k < 2; k++) {
      vec p;
      memcpy(&p, power + (b * 2 + k) * LANES, sizeof p);
      total[k] += (double)weight[b] * p;
    }
  logarithm(total, least, times, y);
}
