/* scores.h - logits to scores. */
#ifndef ACCEL_TASKS_SCORES_H
#define ACCEL_TASKS_SCORES_H

#include <stddef.h>

void accel__softmax(const float *logits, size_t n, float *out); /* in place allowed */
float accel__sigmoid(float x);
size_t accel__argmax(const float *x, size_t n); /* the first of equals; n >= 1 */

#endif
