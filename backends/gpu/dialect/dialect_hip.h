/* dialect_hip.h - the dialect's words in HIP and CUDA C++.  What differs between the two comes with
 * the unit (hip/hip_prelude.h). */
#define GPU_HIP      1
#define P(n)         params.n
#define AT(n, i)     n[i]
#define EARLY(ok, n, i, zero) accel_early(ok, n + (i))
#define EARLY4(ok, n, i, to, at) accel_early4(ok, n + (i), to + (at))
#define LANE         ((int)threadIdx.x)
#define GROUP_X      ((int)blockIdx.x)
#define GROUP_Y      ((int)blockIdx.y)
#define GROUP_Z      ((int)blockIdx.z)
#define GROUPS_X     ((int)gridDim.x)
#define GROUPS_Y     ((int)gridDim.y)
#define GROUPS_Z     ((int)gridDim.z)
#define BARRIER      __syncthreads()
#define FUNCTION     static __device__ inline
#define INF          accel_as_float(0x7f800000u)
#define INT(x)       ((int)(x))
#define UINT(x)      ((uint)(x))
#define FLOAT(x)     ((float)(x))
#define AS_FLOAT(x)  accel_as_float(x)
#define AS_UINT(x)   accel_as_uint(x)
#define AS_INT(x)    accel_as_int(x)
#define MAD(a, b, c) __fmaf_rn(a, b, c)
#define UNROLL       _Pragma("unroll")
#define EXACT
#define MIN_AT(n, i, v)                atomicMin(&n[i], v)
#define GPU_HAS_HALF                   1
#define HALF_LO(u)                     accel_half((u)&0xffffu)
#define HALF_HI(u)                     accel_half((u) >> 16)
#define PACK_HALF(a, b)                (accel_to_half(a) | (accel_to_half(b) << 16))
#define DOT4(a, b, c)                  accel_dot4(a, b, c)
#define MATRIX_JOIN(w, s)              accel_matrix_##w##_##s
#define MATRIX_NAME(w, s)              MATRIX_JOIN(w, s)
#define MATRIX_MULTIPLY(w, s, c, a, b) MATRIX_NAME(w, s)(c, a, b)
#include "dialect_half.h"
#include "dialect_group.h"
