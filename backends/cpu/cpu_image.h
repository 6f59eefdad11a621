/* cpu_image.h - launches of pool, resize and group_norm. */
#ifndef ACCEL_CPU_IMAGE_H
#define ACCEL_CPU_IMAGE_H

#include "cpu.h"

cpu_launch_fn cpu_launch_pool;
cpu_workspace_fn cpu_pool_workspace;
cpu_launch_fn cpu_launch_resize;
cpu_workspace_fn cpu_resize_workspace;
cpu_launch_fn cpu_launch_group_norm;

#endif
