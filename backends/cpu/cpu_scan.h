/* cpu_scan.h - launch of selective_scan, and the states of recurrences. */
#ifndef ACCEL_CPU_SCAN_H
#define ACCEL_CPU_SCAN_H

#include "cpu.h"

/* Floats at the beginning of a launch's workspace for what follows, in whole cache lines. */
int64_t cpu_states_floats(const kit_launch *launch);
/* The states of a launch's items, `cells` floats each, in its workspace: kit_state_step of each.
 * *out stays NULL where the node has no state. */
int32_t cpu_states_take(const kit_launch *launch, const kit_rows *rows, uint64_t cells,
                        kit_state_view **out, accel_plugin_error *error);

cpu_launch_fn cpu_launch_scan;
cpu_workspace_fn cpu_scan_workspace;

#endif
