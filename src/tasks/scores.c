/* scores.c - softmax, sigmoid, argmax. */
#include "tasks/scores.h"

#include <math.h>

void accel__softmax(const float *logits, size_t n, float *out) {
  double sum = 0;
  float most = logits[accel__argmax(logits, n)];
  for (size_t i = 0; i < n; i++) sum += out[i] = expf(logits[i] - most);
  for (size_t i = 0; i < n; i++) out[i] = (float)(out[i] / sum);
}

float accel__sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

size_t accel__argmax(const float *x, size_t n) {
  size_t best = 0;
  for (size_t i = 1; i < n; i++)
    if (x[i] > x[best]) best = i;
  return best;
}
