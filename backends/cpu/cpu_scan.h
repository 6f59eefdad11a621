/* cpu_scan.h - launch of selective_scan. */
#ifndef ACCEL_CPU_SCAN_H
#define ACCEL_CPU_SCAN_H

#include "cpu.h"

cpu_launch_fn cpu_launch_scan;
cpu_workspace_fn cpu_scan_workspace;

#endif
