/* dot_amx.h - the vocabulary of dot_body.h where AMX multiplies: vectors of AVX-512 for what
 * surrounds the products.  A tile's height is no constant, and its sums lie in memory, one chain
 * each, as the tile registers store them. */
#ifndef ACCEL_CPU_DOT_AMX_H
#define ACCEL_CPU_DOT_AMX_H

#include "kernels/amx.h"
#include "kernels/dot_512.h"

#define DOT_UNROLL
#define DOT_MOST_CHAINS 1

/* For what dot_body.h has beside the products. */
V_INLINE void i_dot(vi *sum, vi x, vi w) { *sum = _mm512_dpbusd_epi32(*sum, x, w); }

#endif
