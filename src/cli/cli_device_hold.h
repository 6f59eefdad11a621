/* cli_device_hold.h - keeps a device open from one model to the next.
 *
 * A plugin lets go of a driver's context and of its kernels when the last endpoint and the last
 * buffer on a device go, and a card takes up to a second to make them again: commands that open
 * many small models hold a number in its memory meanwhile. */
#ifndef ACCEL_CLI_DEVICE_HOLD_H
#define ACCEL_CLI_DEVICE_HOLD_H

#include "cli/cli.h"

typedef struct cli_device_hold { /* zeroed at first */
  char name[64];
  accel_device *device;
  accel_device_tensor *number;
} cli_device_hold;

/* From now on this device and no other; NULL: none, as behind a failure, because a device that was
 * lost comes back when nothing holds it.  What cannot be held is let be: the next model says why. */
void cli_hold_device(cli_run *run, cli_device_hold *hold, const char *device);

#endif
