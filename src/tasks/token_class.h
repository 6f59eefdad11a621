/* token_class.h - accel_classify_tokens: the entities in texts. Behind the public functions of the
 * same names (the public headers say what they do); arguments are already checked. */
#ifndef ACCEL_TASKS_TOKEN_CLASS_H
#define ACCEL_TASKS_TOKEN_CLASS_H

#include "dispatch/endpoint.h"

accel_status accel__tokens(accel_endpoint *ep, const char *const *texts, uint32_t n,
                           const accel_classify_tokens_params *params, accel_token_entities **out);

#endif
