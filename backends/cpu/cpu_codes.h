/* cpu_codes.h - launches of what stands between convolutions over codes (cpu_conv_i8.h). */
#ifndef ACCEL_CPU_CODES_H
#define ACCEL_CPU_CODES_H

#include "cpu_image.h"

/* Images as codes to images as codes, where cpu_codes_of says so of the node's result. */
void cpu_launch_pool_codes(const cpu_self *self, const kit_launch *launch);
void cpu_launch_resize_codes(const cpu_self *self, const kit_launch *launch, const cpu_taps *taps);
/* ReLU, the sum of two images, or the channels of several. */
int32_t cpu_launch_codes(const cpu_self *self, const kit_launch *launch);
/* Of any of them; 0 where the result is not codes.  Before there is an endpoint: the most that it
 * may be. */
cpu_workspace_fn cpu_codes_workspace;

#endif
