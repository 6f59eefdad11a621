/* rag_dot_avx512.c - the products of rag_dot.h for AVX-512. */
#define LANES 16
#define DOTS  accel__rag_dots_avx512
#include "rag/rag_dot_body.h"
