/* cpu_select.h - launches of topk and scatter_rows, and of ops over other axes than the last. */
#ifndef ACCEL_CPU_SELECT_H
#define ACCEL_CPU_SELECT_H

#include "cpu.h"

cpu_launch_fn cpu_launch_topk;
cpu_workspace_fn cpu_topk_workspace;
cpu_launch_fn cpu_launch_scatter;
/* What cpu_rows.c and cpu_gather.c leave: softmax, reduce and gather over other axes. */
cpu_launch_fn cpu_launch_softmax_axis;
cpu_launch_fn cpu_launch_fold;
cpu_launch_fn cpu_launch_gather_axis;

#endif
