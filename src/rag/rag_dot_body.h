/* rag_dot_body.h - the products of rag_dot.h for one instruction set.  A file that includes it defines
 *   LANES  floats in a vector, 4, 8 or 16
 *   DOTS   the name of the function
 * and is compiled with the flags of the instruction set that its name ends in. */
#include "rag/rag_dot.h"

#include <string.h>

/* Sums beside each other: as many for every instruction set, so that all give the same bits. */
enum { PARTS = 32 };

typedef float vec __attribute__((vector_size(LANES * sizeof(float))));

static inline vec load(const float *x) {
  vec v;
  memcpy(&v, x, sizeof v);
  return v;
}

static float dot(const float *a, const float *b, uint32_t n) {
  vec sum[PARTS / LANES] = {{0}};
  float part[PARTS];
  uint32_t i = 0;
  for (; i + PARTS <= n; i += PARTS)
    for (uint32_t k = 0; k < PARTS / LANES; k++)
      sum[k] += load(a + i + k * LANES) * load(b + i + k * LANES);
  memcpy(part, sum, sizeof part);
  for (uint32_t k = 0; i + k < n; k++) part[k] += a[i + k] * b[i + k];
  for (uint32_t half = PARTS / 2; half; half /= 2)
    for (uint32_t k = 0; k < half; k++) part[k] += part[k + half];
  return part[0];
}

void DOTS(const float *rows, uint32_t n, uint32_t dim, const float *query, float *out) {
  for (uint32_t r = 0; r < n; r++) out[r] = dot(rows + (size_t)r * dim, query, dim);
}
