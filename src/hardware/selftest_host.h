/* selftest_host.h - the host that self-tests lend a plugin: weights from memory, the rest from the
 * caller's. */
#ifndef ACCEL_HARDWARE_SELFTEST_HOST_H
#define ACCEL_HARDWARE_SELFTEST_HOST_H

#include <stddef.h>

#include "accel/plugin.h"
#include "hardware/selftest.h"

typedef struct accel__test_lent {
  const accel_plugin_host *base; /* log, parallel, workers, fault; NULL: one thread, silent */
  const accel_plugin_weight_view *weight;
  uint32_t n_weight;
} accel__test_lent;

/* The host's self is `lent`, which outlives it. */
accel_plugin_host accel__test_host(accel__test_lent *lent);
/* "CALL failed on the self-test: MESSAGE (code N)" into why; answers ACCEL__PROOF_WRONG. */
accel__proof accel__test_failed(const char *call, int32_t rc, const accel_plugin_error *error,
                                char *why, size_t n);

#endif
