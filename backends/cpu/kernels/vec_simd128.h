/* vec_simd128.h - the vector functions that kernel bodies use, on 4 floats: WebAssembly's 128-bit
 * vectors, which have no fused multiply-add. */
#ifndef ACCEL_CPU_VEC_SIMD128_H
#define ACCEL_CPU_VEC_SIMD128_H

#include <wasm_simd128.h>

#define CPU_NAME_(op, tile) accel_f32_##op##_##tile##__simd128
#define CPU_NAME(op, tile)  CPU_NAME_(op, tile)
#define V_REGISTERS         16      /* of the x86-64 processors below most of it */
#define V_ANGLE_LIMIT       6000.0f /* of v_sincos */
#define V_FMA(a, b, c)      ((a) * (b) + (c))
#define V_FNMA(a, b, c)     ((c) - (a) * (b))
#define V_SQRT(x)           ((vf)wasm_f32x4_sqrt((v128_t)(x)))
#include "kernels/vec_four.h"

#endif
