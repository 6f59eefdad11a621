/* cpu_rows.h - launches of ops that work row by row. */
#ifndef ACCEL_CPU_ROWS_H
#define ACCEL_CPU_ROWS_H

#include "cpu.h"

cpu_launch_fn cpu_launch_norm;
cpu_launch_fn cpu_launch_softmax;
cpu_launch_fn cpu_launch_unary;
cpu_launch_fn cpu_launch_binary;
cpu_launch_fn cpu_launch_reduce;
cpu_launch_fn cpu_launch_rope;
cpu_workspace_fn cpu_rope_workspace;

#endif
