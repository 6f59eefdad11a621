/* cpu_shape.h - launches of ops that move elements without computing. */
#ifndef ACCEL_CPU_SHAPE_H
#define ACCEL_CPU_SHAPE_H

#include "cpu.h"

cpu_launch_fn cpu_launch_move; /* transpose, slice, broadcast */
cpu_launch_fn cpu_launch_concat;
cpu_launch_fn cpu_launch_pad;

#endif
