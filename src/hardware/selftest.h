/* selftest.h - does a device compute?  A tiny program with known results: layer norm, two linears
 * (GELU, residual), softmax.
 *
 * Cards run a case of every op, too.  Shared by the library and the helper program accel-probe;
 * needs nothing of the core.
 */
#ifndef ACCEL_HARDWARE_SELFTEST_H
#define ACCEL_HARDWARE_SELFTEST_H

#include <stddef.h>

#include "accel/plugin.h"

typedef enum accel__proof {
  ACCEL__PROOF_PASS = 0,
  ACCEL__PROOF_WRONG = 1, /* it failed, or its numbers are wrong */
  /* its `supports` answers NO: honest, but not usable at this precision */
  ACCEL__PROOF_INCAPABLE = 2,
  ACCEL__PROOF_UNKNOWN = 3 /* a precision this test does not know */
} accel__proof;

/* Runs the program through supports, init, handler, cleanup at one of the eight precisions and
 * compares: largest error <= 1e-4 (fp32), 1e-2 (fp16), 6e-2 (others) times the root mean square of
 * the expected values.  `base` lends log, parallel and workers (NULL: one thread, silent).  `why`
 * (n bytes) gets the reason when it is not a pass. */
accel__proof accel__selftest(const accel_plugin *plugin, uint32_t device, const char *precision,
                             const accel_plugin_host *base, char *why, size_t n);
/* The same for every op at fp32: cases out of the goldens of the conformance suite, largest error
 * <= 1e-4 (1 + the largest expected value), whole numbers exactly.  What `supports` says NO to is
 * passed over.  `why` names the op. */
accel__proof accel__selftest_ops(const accel_plugin *plugin, uint32_t device,
                                 const accel_plugin_host *base, char *why, size_t n);

#endif
