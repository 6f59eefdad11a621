/* cpu_pack_words.c - 3x3 kernels as the words that cpu_winograd_i16 multiplies (kernels/ops.h).
 *
 *   factor[36][cols]         fp32: a step for each point of a column
 *   words [36][k / 2][cols][2] */
#include <math.h>

#include "cpu_pack.h"
#include "kernels/winograd_words.h"

enum { SIDE = 6, POINTS = SIDE * SIDE, TAPS = 9 };

static const double from_taps[SIDE][3] = {{1 / 4.0, 0, 0},
                                          {-1 / 6.0, -1 / 6.0, -1 / 6.0},
                                          {-1 / 6.0, 1 / 6.0, -1 / 6.0},
                                          {1 / 24.0, 1 / 12.0, 1 / 6.0},
                                          {1 / 24.0, -1 / 12.0, 1 / 6.0},
                                          {0, 0, 1}};

/* What the words of x reach at a point: up to 320 times the sizes of B^T's entries added up, where
 * 479 is the most that lines without zeros have 68 times that. */
static double reach(int point) {
  static const int sizes[SIDE] = {10, 10, 10, 6, 6, 10};
  return 326.0 * sizes[point / SIDE] * sizes[point % SIDE];
}

/* As fine a step as words of 16 bits and sums of 32 allow, those of their rounding included: of the
 * part that needs the largest. */
static double step_of(const float *w, int64_t k, int point) {
  const int64_t part = cpu_winograd_i16_part(k);
  double most = 0, largest = 0;
  for (int64_t first = 0; first < k; first += part) {
    double all = 0;
    for (int64_t j = first; j < k && j < first + part; j++)
      most = fmax(most, fabs((double)w[j])), all += fabs((double)w[j]);
    largest = fmax(largest, all);
  }
  return fmax(most / 32767, largest * reach(point) / (0x1p31 - 0x1p28));
}

void cpu_winograd_i16_pack(const float *w, int64_t k, int64_t cols, float *scratch, void *panel) {
  float *factor = panel;
  int16_t *words = (int16_t *)(void *)(factor + POINTS * cols);
  for (int64_t c = 0; c < cols; c++) {
    for (int64_t j = 0; j < k; j++)
      cpu_winograd_transform(from_taps, SIDE, w + (c * k + j) * TAPS, scratch + j, k);
    for (int p = 0; p < POINTS; p++) {
      const float *point = scratch + p * k;
      const double step = step_of(point, k, p);
      factor[p * cols + c] = (float)step;
      for (int64_t j = 0; j < k; j++)
        words[((p * k + j) / 2 * cols + c) * 2 + j % 2] =
            step > 0 ? (int16_t)lrint((double)point[j] / step) : 0;
    }
  }
}
