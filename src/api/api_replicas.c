/* api_replicas.c - the devices that share an endpoint's work. */
#include "api/api_check.h"
#include "dispatch/replicas.h"

uint32_t accel_replica_count(const accel_endpoint *endpoint) {
  return endpoint ? accel__replicas_count(endpoint) : 0;
}

accel_status accel_replica_statistics(const accel_endpoint *endpoint, uint32_t i,
                                      accel_replica_stats *out) {
  API_BEGIN();
  API_NEED(endpoint);
  API_NEED(out);
  if (i >= accel__replicas_count(endpoint))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: there is no replica %u; there are %u", __func__,
                       i, accel__replicas_count(endpoint));
  /* a lock is all that changes */
  const accel_replica_stats now =
      accel__replica_statistics((accel_endpoint *)(uintptr_t)endpoint, i);
  API_FILL(out, now);
}
