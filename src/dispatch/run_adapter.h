/* run_adapter.h - adapters beside an endpoint's weights, which requests name. */
#ifndef ACCEL_DISPATCH_RUN_ADAPTER_H
#define ACCEL_DISPATCH_RUN_ADAPTER_H

#include "adapters/lora.h"
#include "dispatch/endpoint.h"

struct accel_adapter {
  const accel_endpoint *ep;
  accel__lora *lora;
};

/* Behind accel_adapter_load and accel_adapter_free. */
accel_status accel__run_adapter_load(accel_endpoint *ep, const char *path, accel_adapter **out);
void accel__run_adapter_free(accel_adapter **adapter);

/* What a request's parameters say, as runs of `ep` take it; adapter NULL: {NULL}.
 * ACCEL_ERROR_ARGUMENT: it is another endpoint's, or the scale is no number. */
accel_status accel__run_adapter_use(const accel_endpoint *ep, const accel_adapter *adapter,
                                    double scale, accel_plugin_adapter_use *out);

#endif
