/* dialect_vulkan.h - the dialect's words in GLSL 4.50. */
#define GPU_VULKAN 1
#define P(n)       params.n
#define AT(n, i)   n[params.at_##n + (i)]
#define LANE       int(gl_LocalInvocationID.x)
#define GROUP_X    int(gl_WorkGroupID.x)
#define GROUP_Y    int(gl_WorkGroupID.y)
#define GROUP_Z    int(gl_WorkGroupID.z)
#define GROUPS_X   int(gl_NumWorkGroups.x)
#define GROUPS_Y   int(gl_NumWorkGroups.y)
#define GROUPS_Z   int(gl_NumWorkGroups.z)
#define BARRIER    barrier()
#define FUNCTION
/* no constant, as WebGPU allows no infinite one: that bit is never set */
#define INF             uintBitsToFloat(0x7f800000u | gl_WorkGroupID.x >> 31)
#define INT(x)          int(x)
#define UINT(x)         uint(x)
#define FLOAT(x)        float(x)
#define AS_FLOAT(x)     gpu_as_float(x)
#define AS_UINT(x)      gpu_as_uint(x)
#define AS_INT(x)       gpu_as_int(x)
#define MAD(a, b, c)    ((a) * (b) + (c))
#define UNROLL          [[unroll]]
#define EXACT           precise
#define MIN_AT(n, i, v) atomicMin(AT(n, i), v)
#define SUB_SUM(v)      subgroupAdd(v)
#define SUB_MAX(v)      subgroupMax(v)
#define SUB_FIRST       subgroupElect()
#define SUB_GROUP       int(gl_SubgroupID)
#define SUB_GROUPS_HERE int(gl_NumSubgroups)
#define fabs            abs
#define fmin            min
#define fmax            max
#define GPU_HAS_HALF    1
#define HALF_LO(u)      unpackHalf2x16(u).x
#define HALF_HI(u)      unpackHalf2x16(u).y
#define PACK_HALF(a, b) packHalf2x16(vec2(a, b))
float gpu_as_float(uint x) { return uintBitsToFloat(x); }
float gpu_as_float(int x) { return intBitsToFloat(x); }
uint gpu_as_uint(float x) { return floatBitsToUint(x); }
uint gpu_as_uint(int x) { return uint(x); }
int gpu_as_int(float x) { return floatBitsToInt(x); }
int gpu_as_int(uint x) { return int(x); }
#ifdef COOPERATIVE /* words of kernels/matrix_unit.h */
#define SUB_LANE int(gl_SubgroupInvocationID)
#if STORE == 3
#define MATRIX_A(a) icoopmatNV<8, gl_ScopeSubgroup, 16, 32> a
#define MATRIX_B(b) icoopmatNV<8, gl_ScopeSubgroup, 32, 16> b
#define MATRIX_C    icoopmatNV<32, gl_ScopeSubgroup, 16, 16>
#else
#define MATRIX_A(a) fcoopmatNV<16, gl_ScopeSubgroup, 16, 16> a
#define MATRIX_B(b) fcoopmatNV<16, gl_ScopeSubgroup, 16, 16> b
#define MATRIX_C    fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>
#endif
#define MATRIX_SUMS(c, n)                     MATRIX_C c[n]
#define MATRIX_ZERO(c)                        c = MATRIX_C(0);
#define MATRIX_ADD(c, d)                      UNROLL for (int gpu_i = 0; gpu_i < c.length(); gpu_i++) { c[gpu_i] += d[gpu_i]; }
#define MATRIX_LOAD_A(a, from, at)            coopMatLoadNV(a, from, at, PITCH, false);
#define MATRIX_LOAD_B(b, from, at)            coopMatLoadNV(b, from, at, PITCH, true);
#define MATRIX_STORE(c, to, at)               coopMatStoreNV(c, to, at, 16, false);
#define MATRIX_MULTIPLY(unit, store, c, a, b) c = coopMatMulAddNV(a, b, c)
#endif
#include "dialect_half.h"
#include "dialect_group.h"
