/* cpu_blas.h - linear by OpenBLAS, for processors that have no kernels of ours. */
#ifndef ACCEL_CPU_BLAS_H
#define ACCEL_CPU_BLAS_H

#include "cpu.h"

/* Whether an endpoint of this ISA tries OpenBLAS. */
bool cpu_blas_wanted(cpu_isa isa);
cpu_sgemm_fn *cpu_blas_open(void); /* NULL: not installed */
/* Linear nodes that OpenBLAS runs; their weights are kept as plain fp32. */
bool cpu_blas_takes(const accel_plugin_node *node);
cpu_launch_fn cpu_launch_blas;
uint64_t cpu_blas_workspace(const kit_launch *shapes);

#endif
