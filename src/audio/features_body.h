/* features_body.h - the passes of features.c over whole sounds and spectrograms, in plain loops
 * that the compiler turns into vectors.  A part of audio_kernels_body.h. */
enum { PARTS = 16, BLOCK = 16 * PARTS };

/* Sum over the samples of x - middle, or of its square: fp32 side by side for a short while,
 * then double.  Always inline: a question about `squares` inside the loop would cost most of its
 * speed. */
static inline __attribute__((always_inline)) double sum_of(const float *x, uint64_t n, float middle,
                                                           bool squares) {
  double total = 0.0;
  uint64_t i = 0;
  for (; i + BLOCK <= n; i += BLOCK) {
    float part[PARTS] = {0};
    for (int b = 0; b < BLOCK; b += PARTS)
      for (int k = 0; k < PARTS; k++) {
        const float d = x[i + (uint64_t)(b + k)] - middle;
        part[k] += squares ? d * d : d;
      }
    for (int k = 0; k < PARTS; k++) total += (double)part[k];
  }
  for (; i < n; i++) {
    const double d = (double)(x[i] - middle);
    total += squares ? d * d : d;
  }
  return total;
}

static double sum(const float *x, uint64_t n) { return sum_of(x, n, 0.0f, false); }
static double sum_squares(const float *x, uint64_t n, float middle) {
  return sum_of(x, n, middle, true);
}

static void normalise(const float *from, uint64_t n, float mean, float scale, float *x) {
  for (uint64_t i = 0; i < n; i++) x[i] = (from[i] - mean) * scale;
}

static float maximum(const float *x, int64_t n) {
  float part[PARTS];
  int64_t i = 0;
  for (int k = 0; k < PARTS; k++) part[k] = -INFINITY;
  for (; i + PARTS <= n; i += PARTS)
    for (int k = 0; k < PARTS; k++) part[k] = x[i + k] > part[k] ? x[i + k] : part[k];
  for (; i < n; i++) part[0] = x[i] > part[0] ? x[i] : part[0];
  for (int k = 1; k < PARTS; k++) part[0] = part[k] > part[0] ? part[k] : part[0];
  return part[0];
}

/* (max(x, least) + 4) / 4 */
static void whisper_levels(float *x, int64_t n, float least) {
  for (int64_t i = 0; i < n; i++) x[i] = ((x[i] > least ? x[i] : least) + 4.0f) / 4.0f;
}
