/* planted.h - kernels that are right, and kernels with one fault each, in the dialect as the
 * emulator compiles it. */
#ifndef ACCEL_TEST_PLANTED_H
#define ACCEL_TEST_PLANTED_H

#include "hip/hip_emulator.h"

#ifdef __cplusplus
extern "C" {
#endif
/* right: y[row] = sum of x[row][cols], a group per row */
extern const emulated_kernel accel_emulated_sum_rows;
extern const emulated_kernel accel_emulated_double_all;    /* right, and without a barrier */
extern const emulated_kernel accel_emulated_beyond;        /* reads one element behind x */
extern const emulated_kernel accel_emulated_negative;      /* writes y[-1] */
extern const emulated_kernel accel_emulated_shared_beyond; /* part[64] of 64 */
/* sum_rows without the barrier between writing and reading */
extern const emulated_kernel accel_emulated_no_barrier;
extern const emulated_kernel accel_emulated_write_twice; /* all lanes write one shared element */
/* a barrier in a branch that half of the lanes take */
extern const emulated_kernel accel_emulated_some_lanes;
extern const emulated_kernel accel_emulated_other_barrier; /* lanes at two barriers */
/* reads shared memory that nobody wrote */
extern const emulated_kernel accel_emulated_unset_shared;
#ifdef __cplusplus
}
#endif
#endif
