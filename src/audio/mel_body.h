/* mel_body.h - the ends of mel.c around the transform: frames into lanes, and power spectra into logarithms of mel
 * energies.  Compiled once an instruction set, as fft_body.h. */
#define gather    FFT_NAME(gather)
#define shape     FFT_NAME(shape)
#define logarithm FFT_NAME(logarithm)
#define energies  FFT_NAME(energies)

/* Four frames of n samples, `hop` apart, into the lanes of x. */
static TARGET void gather(const float *samples, int32_t hop, int32_t n, vec *x) {
  int32_t i = 0;
  for (; i + 4 <= n; i += 4) {
    floats f[4];
    for (int lane = 0; lane < 4; lane++) memcpy(&f[lane], samples + (int64_t)lane * hop + i, sizeof f[lane]);
    const floats a = __builtin_shufflevector(f[0], f[1], 0, 4, 1, 5), b = __builtin_shufflevector(f[2], f[3], 0, 4, 1, 5),
                 c = __builtin_shufflevector(f[0], f[1], 2, 6, 3, 7), d = __builtin_shufflevector(f[2], f[3], 2, 6, 3, 7);
    x[i] = __builtin_convertvector(__builtin_shufflevector(a, b, 0, 1, 4, 5), vec);
    x[i + 1] = __builtin_convertvector(__builtin_shufflevector(a, b, 2, 3, 6, 7), vec);
    x[i + 2] = __builtin_convertvector(__builtin_shufflevector(c, d, 0, 1, 4, 5), vec);
    x[i + 3] = __builtin_convertvector(__builtin_shufflevector(c, d, 2, 3, 6, 7), vec);
  }
  for (; i < n; i++)
    for (int lane = 0; lane < 4; lane++) x[i][lane] = samples[(int64_t)lane * hop + i];
}

/* Mean, preemphasis and window. */
static TARGET void shape(const accel__spectrogram *s, const double *window, vec *x) {
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

/* y = times * ln(max(x, least)) for two vectors, least > 0.  x = m 2^e with m from sqrt(1/2) to sqrt(2), ln(m) =
 * 2 artanh((m-1)/(m+1)), whose series is cut where its terms fall below 2e-12. */
static TARGET void logarithm(const vec *x, double least, double times, float *y) {
  const double ln2 = 0.69314718055994531, root = 1.4142135623730951;
  for (int k = 0; k < 2; k++) {
    const words above = (words)(x[k] > least);
    const words bits = ((words)x[k] & above) | ((words)(vec){least, least, least, least} & ~above);
    vec m = (vec)((bits & 0x000FFFFFFFFFFFFFu) | 0x3FF0000000000000u);
    vec e = (vec)((bits >> 52) | 0x4330000000000000u) - (0x1p52 + 1023.0); /* exponent as the low bits of a double */
    const words high = (words)(m > root);
    m = (vec)(((words)(m * 0.5) & high) | ((words)m & ~high));
    e += (vec)((words)(vec){1.0, 1.0, 1.0, 1.0} & high);
    const vec s = (m - 1.0) / (m + 1.0), z = s * s;
    const vec p =
        ((((((z * (1.0 / 13.0) + 1.0 / 11.0) * z + 1.0 / 9.0) * z + 1.0 / 7.0) * z + 1.0 / 5.0) * z + 1.0 / 3.0) * z + 1.0);
    const vec result = times * (2.0 * s * p + e * ln2);
    for (int lane = 0; lane < ACCEL__FFT_LANES; lane++) y[k * ACCEL__FFT_LANES + lane] = (float)result[lane];
  }
}

/* One filter over the power spectra of eight frames, `count` bins from power[0] on. */
static TARGET void energies(const float *weight, int32_t count, const double (*power)[ACCEL__FFT_FRAMES], double least,
                            double times, float *y) {
  vec sum[2] = {{0}, {0}};
  for (int32_t b = 0; b < count; b++)
    for (int k = 0; k < 2; k++) {
      vec p;
      memcpy(&p, power[b] + k * ACCEL__FFT_LANES, sizeof p);
      sum[k] += (double)weight[b] * p;
    }
  logarithm(sum, least, times, y);
}

#undef gather
#undef shape
#undef logarithm
#undef energies
