/* rag_search.h - what makes a search: lists of hits, joined. */
#ifndef ACCEL_RAG_SEARCH_H
#define ACCEL_RAG_SEARCH_H

#include "rag/rag_store.h"

/* A passage in a list of the best. */
typedef struct accel__rag_hit {
  int64_t passage, file;            /* file: the document it is of */
  double score;                     /* larger is better */
  double cosine;                    /* NaN: not compared */
  uint32_t vector_rank, words_rank; /* from 1; 0: not in that list */
} accel__rag_hit;

/* The passages that have words of the query, best first by BM25, at most k; hits has room for k. */
accel_status accel__rag_find_words(const accel__rag_store *s, const char *query,
                                   const char *pattern, uint32_t k, accel__rag_hit *hits,
                                   uint32_t *n);
/* Reciprocal rank fusion (Cormack, Clarke and Buettcher, 2009): each list gives the passage of rank r
 * 1 / (60 + r).  What is found of the same document adds to that, as where scores of passages and of
 * their documents are interpolated (Bendersky and Kurland, 2008): a tenth of the sum of the
 * document's three best.  hits[n] are those of both lists, each with one rank; equal passages become
 * one, and the best come first.  Answers how many are left. */
uint32_t accel__rag_fuse(accel__rag_hit *hits, uint32_t n);

#endif
