/* zero_shot.h - labels of the caller's own as sentences: accel_zero_shot_classify, and what
 * pictures share with it.  Behind the public function of the same name (the public header says what
 * it does); arguments are already checked. */
#ifndef ACCEL_TASKS_ZERO_SHOT_H
#define ACCEL_TASKS_ZERO_SHOT_H

#include "core/arena.h"
#include "dispatch/endpoint.h"

accel_status accel__zero_shot_classify(accel_endpoint *ep, const char *const *texts, uint32_t n,
                                       const char *const *labels, uint32_t n_labels,
                                       const accel_zero_shot_params *params,
                                       accel_classifications **out);
/* `hypothesis` with `label` in place of its first "{}", where it has one; arena memory, NULL: there
 * is none. */
char *accel__label_sentence(accel__arena *arena, const char *hypothesis, const char *label);

#endif
