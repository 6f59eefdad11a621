/* rag_dot.h - products of vectors, once for each instruction set; all of them give the same bits.
 * rag_dot_body.h has the code; rag_dot_scalar.c, _avx2.c and _avx512.c compile it. */
#ifndef ACCEL_RAG_DOT_H
#define ACCEL_RAG_DOT_H

#include <stdint.h>

#include "core/isa.h"

/* out[r] = sum of rows[r * dim + i] * query[i], for the rows r < n. */
typedef void accel__rag_dots_fn(const float *rows, uint32_t n, uint32_t dim, const float *query,
                                float *out);
/* Only for an instruction set that accel__isa_list gives. */
accel__rag_dots_fn *accel__rag_dots_of(accel__isa isa);

extern accel__rag_dots_fn accel__rag_dots_scalar;
extern accel__rag_dots_fn accel__rag_dots_avx2;   /* x86-64 alone */
extern accel__rag_dots_fn accel__rag_dots_avx512; /* x86-64 alone */

#endif
