/* rag_vectors.h - the vectors of an index in memory, and exact search in them.
 *
 * Reading 100,000 vectors row by row out of SQLite takes longer than searching them.  So a large index
 * has them once more in a file beside it, INDEX.vectors, as they lie in memory, which is mapped.  It is
 * a copy: one that is missing, damaged or of another generation is not looked at, and made anew when
 * documents are added. */
#ifndef ACCEL_RAG_VECTORS_H
#define ACCEL_RAG_VECTORS_H

#include "core/file.h"
#include "core/threads.h"
#include "rag/rag_store.h"

/* Vectors as the file had them when they were read. */
typedef struct accel__rag_vectors {
  const float *data;             /* [n, dim], each of length 1 */
  const int64_t *passage, *file; /* [n] */
  uint32_t n, dim;
  int64_t generation; /* accel__rag_generation then */
  void *block; /* a whole file of vectors, malloc'd; NULL: it is mapped, or nothing was read */
  accel__mapping mapping;
} accel__rag_vectors; /* {0} is empty */

/* Passages from which on an index has a file of vectors. */
enum { ACCEL__RAG_VECTORS_KEPT = 4096 };

/* A vector near to a query's. */
typedef struct accel__rag_near {
  uint32_t row;
  float cosine;
} accel__rag_near;

/* Reads all vectors of dim numbers, inside of a transaction, where passages have changed. */
accel_status accel__rag_vectors_read(const accel__rag_store *s, uint32_t dim,
                                     accel__rag_vectors *v);
/* Writes the file beside the index, where these are many and did not come from it; then *v is empty,
 * and reading maps the file. */
accel_status accel__rag_vectors_keep(const accel__rag_store *s, accel__rag_vectors *v);
void accel__rag_vectors_free(accel__rag_vectors *v);
/* The rows with the largest cosines to query[dim], best first, at most k of them; equal ones in the
 * order of rows.  wanted NULL: all rows; else those with wanted[row].  near has room for k; *n gets how
 * many there are. */
accel_status accel__rag_vectors_near(const accel__rag_vectors *v, accel__pool *pool,
                                     const float *query, const bool *wanted, uint32_t k,
                                     accel__rag_near *near, uint32_t *n);
/* Makes rows [n, dim] of length 1; a row of zeros stays one. */
void accel__rag_normalize(float *rows, uint32_t n, uint32_t dim);

#endif
