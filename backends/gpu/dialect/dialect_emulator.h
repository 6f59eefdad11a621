/* dialect_emulator.h - the dialect's words in C++ for the emulator of hip/: every access is
 * checked, every barrier knows its line.  The classes and functions behind the words come with the
 * unit (hip/hip_emulated.h). */
#define GPU_EMULATOR 1
#define P(n)         params.n
#define AT(n, i)     n.at(i, __FILE__, __LINE__)
#define LANE         (lane_->lane)
#define GROUP_X      (lane_->group[0])
#define GROUP_Y      (lane_->group[1])
#define GROUP_Z      (lane_->group[2])
#define GROUPS_X     (lane_->groups[0])
#define GROUPS_Y     (lane_->groups[1])
#define GROUPS_Z     (lane_->groups[2])
#define BARRIER      emulated_barrier(__FILE__, __LINE__)
#define FUNCTION     static inline
#define INF          __builtin_inff()
#define INT(x)       ((int)(x))
#define UINT(x)      ((uint)(x))
#define FLOAT(x)     ((float)(x))
#define AS_FLOAT(x)  as_float(x)
#define AS_UINT(x)   as_uint(x)
#define AS_INT(x)    as_int(x)
#define MAD(a, b, c) mad(a, b, c)
#define UNROLL
#define EXACT
#define MIN_AT(n, i, v)                minimum_at(AT(n, i), v)
#define MATRIX_MULTIPLY(w, s, c, a, b) emulated_matrix<w, s>(lane_, c, a, b, __FILE__, __LINE__)
#include "dialect_half.h"
#include "dialect_group.h"
