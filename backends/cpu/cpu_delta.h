/* cpu_delta.h - launch of gated_delta_rule. */
#ifndef ACCEL_CPU_DELTA_H
#define ACCEL_CPU_DELTA_H

#include "cpu.h"

cpu_launch_fn cpu_launch_delta;
cpu_workspace_fn cpu_delta_workspace;

#endif
