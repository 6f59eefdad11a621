/* scores.h - logits to scores. */
#ifndef ACCEL_PROCESSING_SCORES_H
#define ACCEL_PROCESSING_SCORES_H

#include <stddef.h>

#include "core/arena.h"
#include "modeling/model.h"

void accel__softmax(const float *logits, size_t n, float *out); /* in place allowed */
float accel__sigmoid(float x);
size_t accel__argmax(const float *x, size_t n); /* the first of equals; n >= 1 */

typedef enum accel__score_function {
  ACCEL__SCORE_NONE,
  ACCEL__SCORE_SIGMOID,
  ACCEL__SCORE_SOFTMAX
} accel__score_function;
/* "softmax", "sigmoid", "none"; NULL: as transformers' pipelines choose by problem_type and the
 * number of labels. ACCEL_ERROR_ARGUMENT for another word. */
accel_status accel__choose_function(const accel__model *model, const char *name,
                                    accel__score_function *out);
/* The labels of logits[n] with their scores, best first, equals by their number; arena memory.
 * *count: at most so many on entry (0: all), how many there are on return. */
accel_status accel__rank_labels(const float *logits, const char *const *labels, uint32_t n,
                                accel__score_function function, accel__arena *arena,
                                const accel_label_score **out, uint32_t *count);

#endif
