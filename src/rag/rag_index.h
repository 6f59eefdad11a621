/* rag_index.h - an index of texts and what is done with it: behind the public functions of
 * accel/rag.h, which says what they do; arguments are already checked. */
#ifndef ACCEL_RAG_INDEX_H
#define ACCEL_RAG_INDEX_H

#include "dispatch/endpoint.h"
#include "rag/rag_search.h"
#include "rag/rag_vectors.h"

struct accel_rag {
  accel *ctx;
  accel_endpoint *embedder; /* NULL: none */
  accel__rag_store store;
  accel__rag_settings settings; /* strings are in the arena */
  accel__rag_vectors vectors;
  accel__arena arena;
  pthread_mutex_t lock; /* one call at a time */
};

/* Complete parameter structs (their _default functions first) in all of them. */
accel_status accel__rag_open(accel *ctx, const char *path, accel_endpoint *embedder,
                             const accel_rag_params *params, accel_rag **out);
void accel__rag_close(accel_rag *r);
accel_status accel__rag_describe(accel_rag *r, accel_rag_info **out);
accel_status accel__rag_add(accel_rag *r, const char *const *paths, uint32_t n,
                            accel_rag_changes **out);
accel_status accel__rag_add_text(accel_rag *r, const char *name, const char *text,
                                 accel_rag_format format);
accel_status accel__rag_remove(accel_rag *r, const char *const *paths, uint32_t n,
                               uint32_t *removed);
accel_status accel__rag_search(accel_rag *r, const char *query,
                               const accel_rag_search_params *params, accel_rag_passages **out);
accel_status accel__rag_answer(accel_rag *r, accel_endpoint *generator, const char *question,
                               const accel_rag_search_params *search,
                               const accel_generate_params *generate, accel_rag_answer **out);

void accel__rag_answer_free(accel_rag_answer *answer); /* NULL-safe */

/* Vectors [n, dim] of texts, of length 1, behind a prompt ("": none); free() them. */
accel_status accel__rag_embed(accel_endpoint *embedder, const char *prompt,
                              const char *const *texts, uint32_t n, uint32_t *dim, float **vectors,
                              uint64_t *tokens);

#endif
