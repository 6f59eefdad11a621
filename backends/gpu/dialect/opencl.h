/* opencl.h - the dialect's words in OpenCL C 1.2. */
#define GPU_OPENCL   1
#define P(n)         params.n
#define AT(n, i)     n[i]
#define LANE         ((int)get_local_id(0))
#define GROUP_X      ((int)get_group_id(0))
#define GROUP_Y      ((int)get_group_id(1))
#define GROUP_Z      ((int)get_group_id(2))
#define GROUPS_X     ((int)get_num_groups(0))
#define GROUPS_Y     ((int)get_num_groups(1))
#define GROUPS_Z     ((int)get_num_groups(2))
#define BARRIER      barrier(CLK_LOCAL_MEM_FENCE)
#define FUNCTION     static inline
#define INF          INFINITY
#define INT(x)       ((int)(x))
#define UINT(x)      ((uint)(x))
#define FLOAT(x)     ((float)(x))
#define AS_FLOAT(x)  as_float(x)
#define AS_UINT(x)   as_uint(x)
#define AS_INT(x)    as_int(x)
#define MAD(a, b, c) fma(a, b, c)
#define UNROLL       _Pragma("unroll")
#define EXACT
#define MIN_AT(n, i, v) atomic_min(&n[i], v)
#define DOT4(a, b, c)   ocl_dot4(a, b, c) /* opencl/program.c */
#include "half.h"
#include "group.h"
