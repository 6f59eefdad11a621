/* cpu_attention.h - launch of attention. */
#ifndef ACCEL_CPU_ATTENTION_H
#define ACCEL_CPU_ATTENTION_H

#include "cpu.h"

cpu_launch_fn cpu_launch_attention;
cpu_workspace_fn cpu_attention_workspace;
cpu_limit_fn cpu_attention_limit;

#endif
