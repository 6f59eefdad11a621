/* step_report.h - the steps and the names of a model that is not loaded.  Behind the public functions
 * of the same names (the public headers say what they do); arguments are already checked. */
#ifndef ACCEL_VERIFY_STEP_REPORT_H
#define ACCEL_VERIFY_STEP_REPORT_H

#include "dispatch/endpoint.h"

accel_status accel__step_report(accel *ctx, const char *model, const accel_plan_params *params,
                                accel_profile_fn fn, void *user);

#endif
