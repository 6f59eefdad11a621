/* selftest_host.c - see selftest_host.h. */
#include "hardware/selftest_host.h"

#include <stdio.h>
#include <string.h>

static const accel_plugin_host *base_of(void *self) { return ((accel__test_lent *)self)->base; }

static void host_log(void *self, int level, const char *message) {
  const accel_plugin_host *base = base_of(self);
  if (base && base->log) base->log(base->self, level, message);
}
static int32_t host_weight_map(void *self, uint32_t index, accel_plugin_weight_view *out,
                               accel_plugin_error *error) {
  const accel__test_lent *l = self;
  memset(out, 0, sizeof *out);
  if (index >= l->n_weight) {
    if (error)
      snprintf(error->message, sizeof error->message,
               "the self-test has %u weights, number %u was asked for", l->n_weight, index);
    return ACCEL_PLUGIN_E_ARGUMENT;
  }
  *out = l->weight[index];
  return ACCEL_PLUGIN_OK;
}
static void host_weight_unmap(void *self, uint32_t index) { (void)self, (void)index; }
static void host_parallel(void *self, uint32_t n, accel_plugin_task_fn fn, void *arg) {
  const accel_plugin_host *base = base_of(self);
  if (base && base->parallel) {
    base->parallel(base->self, n, fn, arg);
    return;
  }
  for (uint32_t i = 0; i < n; i++) fn(arg, i, 0);
}
static uint32_t host_workers(void *self) {
  const accel_plugin_host *base = base_of(self);
  return base && base->workers ? base->workers(base->self) : 1;
}
static int host_fault(void *self, const char *point) {
  const accel_plugin_host *base = base_of(self);
  return base && base->fault ? base->fault(base->self, point) : 0;
}

accel_plugin_host accel__test_host(accel__test_lent *lent) {
  return (accel_plugin_host){.size = sizeof(accel_plugin_host),
                             .abi = ACCEL_PLUGIN_ABI_NOW,
                             .self = lent,
                             .log = host_log,
                             .weight_map = host_weight_map,
                             .weight_unmap = host_weight_unmap,
                             .parallel = host_parallel,
                             .workers = host_workers,
                             .fault = host_fault};
}

accel__proof accel__test_failed(const char *call, int32_t rc, const accel_plugin_error *error,
                                char *why, size_t n) {
  char message[sizeof error->message];
  memcpy(message, error->message, sizeof message);
  message[sizeof message - 1] = 0;
  snprintf(why, n, "%s failed on the self-test: %s (code %d)", call,
           *message ? message : "no reason given", (int)rc);
  return ACCEL__PROOF_WRONG;
}
