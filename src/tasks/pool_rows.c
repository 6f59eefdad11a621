/* pool_rows.c - pooling of one sequence's rows, and what may follow. */
#include "tasks/pool_rows.h"

#include <math.h>
#include <string.h>

/* Weighted sum of rows; weight of row i is 1, or i+1 for the position-weighted mean.  Returns the
 * sum of weights. */
static double sum_rows(const float *rows, uint32_t n, uint32_t skip, uint32_t dim, bool by_position,
                       float *out) {
  double total = 0;
  for (uint32_t c = 0; c < dim; c++) {
    double sum = 0;
    for (uint32_t i = skip; i < n; i++)
      sum += (by_position ? i + 1.0 : 1.0) * rows[(size_t)i * dim + c];
    out[c] = (float)sum;
  }
  for (uint32_t i = skip; i < n; i++) total += by_position ? i + 1.0 : 1.0;
  return total;
}

void accel__pool_rows(accel__pooling mode, const float *rows, uint32_t n, uint32_t skip,
                      uint32_t dim, float *out) {
  if (mode == ACCEL__POOL_CLS || mode == ACCEL__POOL_LAST) {
    memcpy(out, rows + (size_t)(mode == ACCEL__POOL_CLS ? skip : n - 1) * dim, dim * sizeof *out);
  } else if (mode == ACCEL__POOL_MAX) {
    memcpy(out, rows + (size_t)skip * dim, dim * sizeof *out);
    for (uint32_t i = skip + 1; i < n; i++)
      for (uint32_t c = 0; c < dim; c++)
        if (rows[(size_t)i * dim + c] > out[c]) out[c] = rows[(size_t)i * dim + c];
  } else {
    double weight = sum_rows(rows, n, skip, dim, mode == ACCEL__POOL_WEIGHTED_MEAN, out);
    if (mode == ACCEL__POOL_MEAN_SQRT_LEN) weight = sqrt(weight);
    for (uint32_t c = 0; c < dim; c++) out[c] = (float)(out[c] / weight);
  }
}

double accel__activated(int activation, double x) {
  switch (activation) {
    case ACCEL_PLUGIN_ACT_TANH:
      return tanh(x);
    case ACCEL_PLUGIN_ACT_RELU:
      return x > 0 ? x : 0;
    case ACCEL_PLUGIN_ACT_GELU:
      return 0.5 * x * (1 + erf(x / sqrt(2.0)));
    case ACCEL_PLUGIN_ACT_SIGMOID:
      return 1 / (1 + exp(-x));
    case ACCEL_PLUGIN_ACT_SILU:
      return x / (1 + exp(-x));
    default:
      return x;
  }
}

static void norm_row(int64_t n, const float *weight, const float *bias, const float *x, float *y) {
  double mean = 0, square = 0;
  for (int64_t i = 0; i < n; i++) mean += (double)x[i] / (double)n;
  for (int64_t i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean) / (double)n;
  const double scale = 1 / sqrt(square + ACCEL__TORCH_NORM_EPS);
  for (int64_t i = 0; i < n; i++) y[i] = (float)((x[i] - mean) * scale * weight[i] + bias[i]);
}

void accel__dense_row(const accel__dense *layer, const float *weight, const float *bias,
                      const float *x, float *y) {
  if (layer->norms) {
    norm_row(layer->out, weight, bias, x, y);
    return;
  }
  for (int64_t o = 0; o < layer->out; o++) {
    double sum = bias ? bias[o] : 0;
    for (int64_t i = 0; i < layer->in; i++) sum += (double)weight[o * layer->in + i] * x[i];
    y[o] = (float)accel__activated(layer->activation, sum);
  }
}

void accel__normalize_row(float *row, uint32_t dim) {
  double square = 0;
  for (uint32_t c = 0; c < dim; c++) square += (double)row[c] * row[c];
  double length = sqrt(square) > 1e-12 ? sqrt(square) : 1e-12;
  for (uint32_t c = 0; c < dim; c++) row[c] = (float)(row[c] / length);
}
