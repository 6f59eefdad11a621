/* vec_neon.h - the vector functions that kernel bodies use, on 4 floats: 64-bit Arm. */
#ifndef ACCEL_CPU_VEC_NEON_H
#define ACCEL_CPU_VEC_NEON_H

#include <arm_neon.h>

#define CPU_NAME_(op, tile) accel_f32_##op##_##tile##__neon
#define CPU_NAME(op, tile)  CPU_NAME_(op, tile)
#define V_REGISTERS         32
#define V_ANGLE_LIMIT       100000.0f /* of v_sincos */
#define V_FMA(a, b, c)      ((vf)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#define V_FNMA(a, b, c)     ((vf)vfmsq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#define V_SQRT(x)           ((vf)vsqrtq_f32((float32x4_t)(x)))
#include "kernels/vec_four.h"

#endif
