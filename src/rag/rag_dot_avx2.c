/* rag_dot_avx2.c - the products of rag_dot.h for AVX2. */
#define LANES 8
#define DOTS  accel__rag_dots_avx2
#include "rag/rag_dot_body.h"
