/* cpu_conv.h - launches of conv and conv_transpose. */
#ifndef ACCEL_CPU_CONV_H
#define ACCEL_CPU_CONV_H

#include "cpu.h"

/* Image convolutions by implicit GEMM, by Winograd's transform or channel by channel; rows of
 * sequences likewise after a transpose, or tap by tap.  Over int8 weights: cpu_conv_i8.h. */
cpu_launch_fn cpu_launch_conv;
cpu_launch_fn cpu_launch_conv_transpose;
cpu_workspace_fn cpu_conv_workspace;
/* Whether the rows of x are read with a stride: of convolutions over sequences only. */
bool cpu_conv_over_rows(const accel_plugin_node *node);
/* A max pool over a convolution's codes runs with it: its lines are never coded. */
cpu_fuse_fn cpu_conv_fuse_chain;

#endif
