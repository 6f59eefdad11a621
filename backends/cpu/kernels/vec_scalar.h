/* vec_scalar.h - the vector functions that kernel bodies use, in plain C: four floats that
 * any compiler turns into what the baseline has (SSE2) or into scalar code. */
#ifndef ACCEL_CPU_VEC_SCALAR_H
#define ACCEL_CPU_VEC_SCALAR_H

#define CPU_NAME_(op, tile) accel_f32_##op##_##tile##__scalar
#define CPU_NAME(op, tile)  CPU_NAME_(op, tile)
#define V_REGISTERS         16
#define V_ANGLE_LIMIT       6000.0f /* of v_sincos */
#define V_FMA(a, b, c)      ((a) * (b) + (c))
#define V_FNMA(a, b, c)     ((c) - (a) * (b))
#define V_SQRT(x)           ((vf){sqrtf((x)[0]), sqrtf((x)[1]), sqrtf((x)[2]), sqrtf((x)[3])})
#include "kernels/vec_four.h"

#endif
