/* entry_run.c - see entry_run.h. */
#include "processing/entry_run.h"

accel_status accel__entry_run_all(accel_endpoint *ep, const char *entry, const char *const *names,
                                  uint32_t n, const accel__batch *batch, accel__result *found) {
  const accel__model_entry *e = accel__model_entry_of(ep->model, entry);
  uint32_t outputs[ACCEL__ENTRY_OUTPUTS];
  for (uint32_t i = 0; i < n && i < ACCEL__ENTRY_OUTPUTS; i++) {
    const int32_t at = accel__entry_output(e, names[i]);
    if (at < 0)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: there is no '%s' of '%s'", ep->name, names[i],
                         entry);
    outputs[i] = (uint32_t)at;
  }
  return accel__endpoint_run(ep, (uint32_t)accel__endpoint_entry(ep, entry), batch, outputs, n,
                             found);
}

accel_status accel__entry_run(accel_endpoint *ep, const char *entry, const char *name,
                              const accel__batch *batch, accel__result *found) {
  return accel__entry_run_all(ep, entry, &name, 1, batch, found);
}

void accel__entry_set(accel__batch *batch, const accel__model_entry *e, const char *name,
                      accel__item item) {
  const int32_t at = accel__entry_input(e, name);
  if (at >= 0) batch->item[at] = item;
}
