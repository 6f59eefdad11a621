/* scores.c - softmax, sigmoid, argmax, ranked labels. */
#include "processing/scores.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

accel_status accel__choose_function(const accel__model *model, const char *name,
                                    accel__score_function *out) {
  const char *problem = model->problem_type;
  if (!name) {
    if (problem && !strcmp(problem, "regression"))
      *out = ACCEL__SCORE_NONE;
    else
      *out = (problem && !strcmp(problem, "multi_label_classification")) || model->num_labels == 1
                 ? ACCEL__SCORE_SIGMOID
                 : ACCEL__SCORE_SOFTMAX;
    return ACCEL_OK;
  }
  if (!strcmp(name, "softmax"))
    *out = ACCEL__SCORE_SOFTMAX;
  else if (!strcmp(name, "sigmoid"))
    *out = ACCEL__SCORE_SIGMOID;
  else if (!strcmp(name, "none"))
    *out = ACCEL__SCORE_NONE;
  else
    return accel__fail(ACCEL_ERROR_ARGUMENT, "unknown function '%s'; known: softmax sigmoid none",
                       name);
  return ACCEL_OK;
}

static int best_first(const void *a, const void *b) {
  const accel_label_score *x = a, *y = b;
  if (x->score != y->score) return x->score < y->score ? 1 : -1;
  return x->id < y->id ? -1 : x->id > y->id;
}

accel_status accel__rank_labels(const float *logits, const char *const *labels, uint32_t n,
                                accel__score_function function, accel__arena *arena,
                                const accel_label_score **out, uint32_t *count) {
  accel_label_score *list = accel__arena_array(arena, n, sizeof *list);
  float *score = malloc((n + 1) * sizeof *score);
  *out = list;
  if (!list || !score) {
    free(score);
    return accel__no_memory(n * sizeof *list);
  }
  if (function == ACCEL__SCORE_SOFTMAX && n) accel__softmax(logits, n, score);
  for (uint32_t i = 0; i < n; i++) {
    const double s = function == ACCEL__SCORE_SOFTMAX   ? score[i]
                     : function == ACCEL__SCORE_SIGMOID ? accel__sigmoid(logits[i])
                                                        : logits[i];
    list[i] =
        (accel_label_score){.id = i, .label = accel__arena_string(arena, labels[i]), .score = s};
  }
  free(score);
  qsort(list, n, sizeof *list, best_first);
  if (!*count || *count > n) *count = n;
  return ACCEL_OK;
}
