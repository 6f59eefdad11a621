/* attention_avx512vnni.c - attention for AVX-512 with VNNI, which multiplies and adds pairs at
 * once. */
#include "kernels/vec_avx512.h"

#undef CPU_NAME_
#define CPU_NAME_(op, tile) accel_f32_##op##_##tile##__avx512vnni
#define GEMM_ROWS           14
#define GEMM_VECS           2
#include "kernels/attention_body.h"
#include "kernels/decode_body.h"
