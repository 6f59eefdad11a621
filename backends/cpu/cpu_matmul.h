/* cpu_matmul.h - launch of matmul: a product of two computed matrices. */
#ifndef ACCEL_CPU_MATMUL_H
#define ACCEL_CPU_MATMUL_H

#include "cpu.h"

cpu_launch_fn cpu_launch_matmul;
cpu_workspace_fn cpu_matmul_workspace;

#endif
