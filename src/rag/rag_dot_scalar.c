/* rag_dot_scalar.c - the products of rag_dot.h for any processor. */
#define LANES 4
#define DOTS  accel__rag_dots_scalar
#include "rag/rag_dot_body.h"
