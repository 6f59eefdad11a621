/* cpu_moe.h - launch of moe: every token through the experts that its router chose. */
#ifndef ACCEL_CPU_MOE_H
#define ACCEL_CPU_MOE_H

#include "cpu.h"

/* (token, choice) pairs of one pass: bounds the workspace, and still gives experts rows enough to be
 * worth fetching */
enum { CPU_MOE_PAIRS = 1024 };

cpu_launch_fn cpu_launch_moe;
cpu_workspace_fn cpu_moe_workspace;

#endif
