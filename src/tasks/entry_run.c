/* entry_run.c - see entry_run.h. */
#include "tasks/entry_run.h"

accel_status accel__entry_run(accel_endpoint *ep, const char *entry, const char *name,
                              const accel__batch *batch, accel__result *found) {
  const accel__model_entry *e = accel__model_entry_of(ep->model, entry);
  const int32_t at = accel__entry_output(e, name);
  if (at < 0)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: there is no '%s' of '%s'", ep->name, name, entry);
  return accel__endpoint_run(ep, (uint32_t)accel__endpoint_entry(ep, entry), batch,
                             &(uint32_t){(uint32_t)at}, 1, found);
}

void accel__entry_set(accel__batch *batch, const accel__model_entry *e, const char *name,
                      accel__item item) {
  const int32_t at = accel__entry_input(e, name);
  if (at >= 0) batch->item[at] = item;
}
