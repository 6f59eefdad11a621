/* fill_mask.h - accel_fill_mask: what fits a masked token. Behind the public functions of the same
 * names (the public headers say what they do); arguments are already checked. */
#ifndef ACCEL_TASKS_FILL_MASK_H
#define ACCEL_TASKS_FILL_MASK_H

#include "dispatch/endpoint.h"

accel_status accel__fill_mask(accel_endpoint *ep, const char *const *texts, uint32_t n,
                              const accel_fill_params *params, accel_fills **out);

#endif
