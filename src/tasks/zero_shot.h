/* zero_shot.h - accel_zero_shot_classify: labels of the caller's own for texts.  Behind the public
 * function of the same name (the public header says what it does); arguments are already checked. */
#ifndef ACCEL_TASKS_ZERO_SHOT_H
#define ACCEL_TASKS_ZERO_SHOT_H

#include "dispatch/endpoint.h"

accel_status accel__zero_shot_classify(accel_endpoint *ep, const char *const *texts, uint32_t n,
                                       const char *const *labels, uint32_t n_labels,
                                       const accel_zero_shot_params *params,
                                       accel_classifications **out);

#endif
