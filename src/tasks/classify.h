/* classify.h - accel_classify: texts, or pairs of texts, to labels. Behind the public functions of
 * the same names (the public headers say what they do); arguments are already checked. */
#ifndef ACCEL_TASKS_CLASSIFY_H
#define ACCEL_TASKS_CLASSIFY_H

#include "processing/text_task.h"

/* Its first half; texts, pairs and params are not needed afterwards.  The result is an
 * accel_classifications. */
accel_status accel__classify_prepare(accel_endpoint *ep, const char *const *texts,
                                     const char *const *pairs, uint32_t n,
                                     const accel_classify_params *params, accel__text_task **out);
accel_status accel__classify(accel_endpoint *ep, const char *const *texts, const char *const *pairs,
                             uint32_t n, const accel_classify_params *params,
                             accel_classifications **out);

#endif
