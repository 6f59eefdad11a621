/* cpu_linear.h - launch of linear: a product of rows of x with weights that were packed at init. */
#ifndef ACCEL_CPU_LINEAR_H
#define ACCEL_CPU_LINEAR_H

#include "cpu.h"

cpu_launch_fn cpu_launch_linear;
cpu_workspace_fn cpu_linear_workspace;
/* Linears over the same x whose weights are packed alike run as one product. */
cpu_fuse_fn cpu_linear_fuse_parallel;
/* Two linears, the second over the result of the first, run one block of rows after the other. */
cpu_fuse_fn cpu_linear_fuse_chain;
cpu_limit_fn cpu_linear_limit;

#endif
