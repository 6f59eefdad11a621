/* cli_device_hold.c - keeps a device open from one model to the next. */
#include "cli/cli_device_hold.h"

#include <stdio.h>
#include <string.h>

void cli_hold_device(cli_run *run, cli_device_hold *hold, const char *device) {
  float zero = 0.0f;
  const accel_tensor number = {.dtype = ACCEL_F32, .rank = 1, .dim = {1}, .data = &zero};
  if (device && !strcmp(hold->name, device)) return;
  accel_device_tensor_free(&hold->number);
  accel_device_close(&hold->device);
  snprintf(hold->name, sizeof hold->name, "%s", device ? device : "");
  if (device && accel_get_device(run->ctx, device, &hold->device) == ACCEL_OK)
    (void)accel_to_device(hold->device, &number, &hold->number);
}
