/* features_body.h - the passes of features.c over whole sounds and spectrograms.  Compiled once an
 * instruction set (bodies.h). */
#define sum_of  FOR_ISA(sum_of)
#define levels  FOR_ISA(levels)
#define scaled  FOR_ISA(scaled)
#define highest FOR_ISA(highest)
enum { FOR_ISA(PARTS) = 16, FOR_ISA(BLOCK) = 16 * FOR_ISA(PARTS) };
#define PARTS FOR_ISA(PARTS)
#define BLOCK FOR_ISA(BLOCK)

/* Sum over the samples of x - middle, or of its square: fp32 side by side for a short while, then
 * double. */
static TARGET double sum_of(const float *x, uint64_t n, float middle, bool squares) {
  double sum = 0.0;
  uint64_t i = 0;
  for (; i + BLOCK <= n; i += BLOCK) {
    float part[PARTS] = {0};
    for (int b = 0; b < BLOCK; b += PARTS)
      for (int k = 0; k < PARTS; k++) {
        const float d = x[i + (uint64_t)(b + k)] - middle;
        part[k] += squares ? d * d : d;
      }
    for (int k = 0; k < PARTS; k++) sum += (double)part[k];
  }
  for (; i < n; i++) {
    const double d = (double)(x[i] - middle);
    sum += squares ? d * d : d;
  }
  return sum;
}

static TARGET void scaled(const float *from, uint64_t n, float mean, float scale, float *x) {
  for (uint64_t i = 0; i < n; i++) x[i] = (from[i] - mean) * scale;
}

static TARGET float highest(const float *x, int64_t n) {
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
static TARGET void levels(float *x, int64_t n, float least) {
  for (int64_t i = 0; i < n; i++) x[i] = ((x[i] > least ? x[i] : least) + 4.0f) / 4.0f;
}

#undef sum_of
#undef levels
#undef scaled
#undef highest
#undef PARTS
#undef BLOCK
