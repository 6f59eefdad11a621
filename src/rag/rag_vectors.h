/* rag_vectors.h - the vectors of an index in memory, and exact search in them. */
#ifndef ACCEL_RAG_VECTORS_H
#define ACCEL_RAG_VECTORS_H

#include "core/threads.h"
#include "rag/rag_store.h"

/* Vectors as the file had them when they were read. */
typedef struct accel__rag_vectors {
  float *data;             /* [n, dim], each of length 1 */
  int64_t *passage, *file; /* [n] */
  uint32_t n, capacity, dim;
  int64_t version;    /* accel__rag_version then; 0: nothing was read */
} accel__rag_vectors; /* {0} is empty */

/* A vector near to a query's. */
typedef struct accel__rag_near {
  uint32_t row;
  float cosine;
} accel__rag_near;

/* Reads all vectors of dim numbers, inside of a transaction, where the file has changed. */
accel_status accel__rag_vectors_read(const accel__rag_store *s, uint32_t dim,
                                     accel__rag_vectors *v);
void accel__rag_vectors_free(accel__rag_vectors *v);
/* The rows with the largest cosines to query[dim], best first, at most k of them; equal ones in the
 * order of rows.  wanted NULL: all rows; else those with wanted[row].  near has room for k; *n gets how
 * many there are. */
accel_status accel__rag_vectors_near(const accel__rag_vectors *v, accel__pool *pool,
                                     const float *query, const bool *wanted, uint32_t k,
                                     accel__rag_near *near, uint32_t *n);
/* Makes rows [n, dim] of length 1; a row of zeros stays one. */
void accel__rag_normalize(float *rows, uint32_t n, uint32_t dim);
/* The sum of a[i] * b[i]. */
float accel__rag_dot(const float *a, const float *b, uint32_t n);

#endif
