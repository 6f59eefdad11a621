/* qa.h - accel_qa: answers as spans of a context. Behind the public functions of the same names
 * (the public headers say what they do); arguments are already checked. */
#ifndef ACCEL_TASKS_QA_H
#define ACCEL_TASKS_QA_H

#include "dispatch/endpoint.h"

accel_status accel__qa(accel_endpoint *ep, const char *const *questions,
                       const char *const *contexts, uint32_t n, const accel_qa_params *params,
                       accel_answers **out);

#endif
