/* cpu_matmul.h - launch of matmul: a product of two computed matrices. */
#ifndef ACCEL_CPU_MATMUL_H
#define ACCEL_CPU_MATMUL_H

#include "cpu.h"

cpu_launch_fn cpu_launch_matmul;
cpu_workspace_fn cpu_matmul_workspace;

/* Rows of a computed table by number, and the products of one row each with them (l->joined), whose
 * b they are: rows are summed up where they lie (multi-scale deformable attention). */
cpu_fuse_fn cpu_gather_fuse_chain;
int32_t cpu_launch_gathered_matmul(const cpu_self *self, const kit_launch *launch);

#endif
