/* dialect_opencl.h - the dialect's words in OpenCL C 1.2. */
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
#define DOT4(a, b, c)   ocl_dot4(a, b, c) /* opencl/ocl_program.c */
#define EARLY4(ok, n, i, to, at) vstore4((ok) ? vload4(0, n + (i)) : (uint4)(0u), 0, to + (at))
#define SUB_SUM(v)      sub_group_reduce_add(v)
#define SUB_MAX(v)      sub_group_reduce_max(v)
#define SUB_FIRST       (get_sub_group_local_id() == 0)
#define SUB_GROUP       ((int)get_sub_group_id())
#define SUB_GROUPS_HERE ((int)get_num_sub_groups())
#include "dialect_half.h"
/* ocl_half and ocl_to_half: the functions of half.h, or the device's own fp16
 * (opencl/ocl_program.c). */
#undef HALF_LO
#undef HALF_HI
#undef PACK_HALF
#define HALF_LO(u)      ocl_half((u) & 0xffffu)
#define HALF_HI(u)      ocl_half((u) >> 16)
#define PACK_HALF(a, b) (ocl_to_half(a) | (ocl_to_half(b) << 16))
#include "dialect_group.h"
