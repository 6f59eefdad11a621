/* cpu_lora.h - what the adapters of a run's items add to the products of linears. */
#ifndef ACCEL_CPU_LORA_H
#define ACCEL_CPU_LORA_H

#include "cpu.h"

cpu_launch_fn cpu_launch_lora;
cpu_fuse_fn cpu_lora_fuse_parallel; /* all that read one x */

#endif
