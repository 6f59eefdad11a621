/* cpu_elementwise.h - launches of elementwise ops beyond the plain cases of cpu_rows.c. */
#ifndef ACCEL_CPU_ELEMENTWISE_H
#define ACCEL_CPU_ELEMENTWISE_H

#include "cpu.h"

enum { CPU_SHORT_ROW = 32 }; /* elements of rows that are too short for a call of a kernel each */

cpu_launch_fn cpu_launch_cast;
/* Unary and binary ops that cpu_rows.c leaves: any broadcasting, pow and where; sine and cosine. */
cpu_launch_fn cpu_launch_nest;
cpu_launch_fn cpu_launch_wave;

#endif
