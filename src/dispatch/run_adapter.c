/* run_adapter.c - adapters that requests name. */
#include "dispatch/run_adapter.h"

#include <stdlib.h>
#include <string.h>

/* Weights at 16 bits or fewer lose more than matrices of an adapter do at 16. */
static bool is_narrow(const accel_endpoint *ep) {
  return strcmp(ep->placed.precision.name, "fp32") != 0;
}

accel_status accel__run_adapter_load(accel_endpoint *ep, const char *path, accel_adapter **out) {
  accel_adapter *a = calloc(1, sizeof *a);
  if (!a) return accel__no_memory(sizeof *a);
  a->ep = ep;
  const accel_status status = accel__lora_open(path, ep->model->program, ep->checkpoint, ep->import,
                                               is_narrow(ep), &a->lora);
  if (status != ACCEL_OK) {
    free(a);
    return accel__wrap(status, "%s", ep->name);
  }
  *out = a;
  return ACCEL_OK;
}

void accel__run_adapter_free(accel_adapter **adapter) {
  if (*adapter) accel__lora_close(&(*adapter)->lora);
  free(*adapter);
  *adapter = NULL;
}

accel_status accel__run_adapter_use(const accel_endpoint *ep, const accel_adapter *adapter,
                                    double scale, accel_plugin_adapter_use *out) {
  *out = (accel_plugin_adapter_use){.adapter = NULL};
  if (!adapter) return ACCEL_OK;
  if (adapter->ep != ep)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: the adapter '%s' was loaded for %s", ep->name,
                       adapter->lora->path, adapter->ep->name);
  if (!(scale > -1e6 && scale < 1e6))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: adapter_scale is %g", ep->name, scale);
  out->adapter = is_narrow(ep) ? &adapter->lora->narrow : &adapter->lora->view;
  out->scale = (float)scale;
  return ACCEL_OK;
}
