/* endpoint_selftest.h - an endpoint held to the reference backend, op by op and precision by
 * precision.  Behind the public functions of the same names (the public headers say what they do);
 * arguments are already checked. */
#ifndef ACCEL_VERIFY_ENDPOINT_SELFTEST_H
#define ACCEL_VERIFY_ENDPOINT_SELFTEST_H

#include "dispatch/endpoint.h"

accel_status accel__self_test(accel_endpoint *ep, accel_test_report **out);
accel_status accel__precision_tests(accel *ctx, const char *model, const char *const *hardware,
                                    uint32_t n_hardware, const char *const *precisions,
                                    uint32_t n_precisions, accel_test_report **out);

#endif
