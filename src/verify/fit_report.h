/* fit_report.h - what of a model fits into which memory. Behind the public functions of the same
 * names (the public headers say what they do); arguments are already checked. */
#ifndef ACCEL_VERIFY_FIT_REPORT_H
#define ACCEL_VERIFY_FIT_REPORT_H

#include "dispatch/endpoint.h"

/* accel__open_dry; without local files the registry's shape serves. */
accel_status accel__open_shape(accel *ctx, const char *model, const char *architecture,
                               const char *task, const accel__registry_model **entry,
                               accel_endpoint **out);
accel_status accel__fit_report(accel *ctx, const char *model, const accel_fit_params *params,
                               accel_fit_report **out);

#endif
