/* cpu_gather.h - launch of gather. */
#ifndef ACCEL_CPU_GATHER_H
#define ACCEL_CPU_GATHER_H

#include "cpu.h"

cpu_launch_fn cpu_launch_gather;

#endif
