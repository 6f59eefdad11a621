/* rag_search.c - one search: vectors and words, joined, ranked again, and read from the file. */
#include "rag/rag_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/context.h"
#include "processing/result.h"
#include "rag/rag_index.h"
#include "tasks/rerank.h"

enum { USUAL_CANDIDATES = 30, FUSION = 60, DOCUMENT_BEST = 3 };
static const double document_weight = 0.1;

typedef struct search {
  accel_rag *r;
  const char *query;
  const accel_rag_search_params *params;
  float *vector; /* of the query; NULL: words alone */
  uint32_t k;    /* hits of each list */
  accel__rag_hit *hits;
  uint32_t n;
} search;

static double ms_since(uint64_t begin) { return (double)(accel__now_ns() - begin) / 1e6; }

/* ---- joining ---- */

static int by_passage(const void *a, const void *b) {
  const accel__rag_hit *x = a, *y = b;
  return (x->passage > y->passage) - (x->passage < y->passage);
}

static int by_document(const void *a, const void *b) {
  const accel__rag_hit *x = a, *y = b;
  if (x->file != y->file) return x->file < y->file ? -1 : 1;
  return x->score != y->score ? (x->score < y->score ? 1 : -1) : by_passage(a, b);
}

static int best_first(const void *a, const void *b) {
  const accel__rag_hit *x = a, *y = b;
  return x->score != y->score ? (x->score < y->score ? 1 : -1) : by_passage(a, b);
}

/* Adds to each passage what was found of its document. */
static void add_documents(accel__rag_hit *hits, uint32_t n) {
  if (n) qsort(hits, n, sizeof *hits, by_document);
  for (uint32_t i = 0, end; i < n; i = end) {
    double best = 0;
    for (end = i; end < n && hits[end].file == hits[i].file; end++)
      if (end < i + DOCUMENT_BEST) best += hits[end].score;
    for (uint32_t k = i; k < end; k++) hits[k].score += document_weight * best;
  }
}

uint32_t accel__rag_fuse(accel__rag_hit *hits, uint32_t n) {
  uint32_t kept = 0;
  if (n) qsort(hits, n, sizeof *hits, by_passage);
  for (uint32_t i = 0; i < n; i++) {
    accel__rag_hit hit = hits[i];
    hit.score = 1.0 / (FUSION + (double)hit.vector_rank + hit.words_rank);
    if (!kept || hits[kept - 1].passage != hit.passage) {
      hits[kept++] = hit;
      continue;
    }
    accel__rag_hit *same = &hits[kept - 1];
    same->score += hit.score;
    same->vector_rank += hit.vector_rank;
    same->words_rank += hit.words_rank;
    if (isnan(same->cosine)) same->cosine = hit.cosine;
  }
  add_documents(hits, kept);
  if (kept) qsort(hits, kept, sizeof *hits, best_first);
  return kept;
}

/* ---- vectors ---- */

static int by_id(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Which rows are of documents whose path matches. */
static accel_status matching_rows(const accel__rag_store *s, const char *pattern,
                                  const accel__rag_vectors *v, bool **wanted) {
  sqlite3_stmt *query;
  int64_t *ids =
      malloc(((size_t)v->n + 1) * sizeof *ids); /* each document has a vector, or none counts */
  uint32_t n = 0;
  *wanted = calloc((size_t)v->n + 1, sizeof **wanted);
  accel_status status = ids && *wanted ? ACCEL_OK : accel__no_memory(v->n * sizeof *ids);
  if (status == ACCEL_OK)
    status = accel__rag_prepare(s,
                                "SELECT id FROM file WHERE accel_glob(?, path) AND EXISTS (SELECT "
                                "1 FROM passage WHERE passage.file = file.id) ORDER BY id",
                                &query);
  if (status == ACCEL_OK) sqlite3_bind_text(query, 1, pattern, -1, SQLITE_STATIC);
  for (bool row = true; status == ACCEL_OK && row;) {
    status = accel__rag_step(s, &query, &row);
    if (status == ACCEL_OK && row && n < v->n) ids[n++] = sqlite3_column_int64(query, 0);
  }
  for (uint32_t i = 0; status == ACCEL_OK && i < v->n; i++)
    (*wanted)[i] = bsearch(&v->file[i], ids, n, sizeof *ids, by_id) != NULL;
  free(ids);
  return status;
}

static accel_status find_vectors(search *s) {
  accel_rag *r = s->r;
  accel__rag_vectors *v = &r->vectors;
  bool *wanted = NULL;
  accel__rag_near *near = malloc(s->k * sizeof *near);
  uint32_t n = 0;
  accel_status status = near ? ACCEL_OK : accel__no_memory(s->k * sizeof *near);
  if (status == ACCEL_OK) status = accel__rag_vectors_read(&r->store, r->settings.dim, v);
  if (status == ACCEL_OK && s->params->path_pattern)
    status = matching_rows(&r->store, s->params->path_pattern, v, &wanted);
  if (status == ACCEL_OK)
    status = accel__rag_vectors_near(v, r->ctx->pool, s->vector, wanted, s->k, near, &n);
  for (uint32_t i = 0; i < n; i++)
    s->hits[s->n++] = (accel__rag_hit){.passage = v->passage[near[i].row],
                                       .file = v->file[near[i].row],
                                       .score = near[i].cosine,
                                       .cosine = near[i].cosine,
                                       .vector_rank = i + 1};
  free(wanted);
  free(near);
  return status;
}

static accel_status find_words(search *s) {
  accel__rag_hit *hits = s->hits + s->n;
  uint32_t n;
  ACCEL_TRY(accel__rag_find_words(&s->r->store, s->query, s->params->path_pattern, s->k, hits, &n));
  for (uint32_t i = 0; i < n; i++) hits[i].words_rank = i + 1, hits[i].cosine = (double)NAN;
  s->n += n;
  return ACCEL_OK;
}

/* ---- results ---- */

static accel_status read_passage(const accel__rag_store *s, sqlite3_stmt *query,
                                 const accel__rag_hit *hit, accel__arena *arena,
                                 accel_rag_passage *out) {
  const char *text[4];
  sqlite3_bind_int64(query, 1, hit->passage);
  if (sqlite3_step(query) != SQLITE_ROW)
    return accel__remedy(accel__fail(ACCEL_ERROR_FORMAT, "%s: passage %lld is missing", s->path,
                                     (long long)hit->passage),
                         "the file is damaged: make the index anew under another name");
  for (int i = 0; i < 4; i++) {
    const char *column = (const char *)sqlite3_column_text(query, i);
    if (!(text[i] = accel__arena_string(arena, column ? column : "")))
      return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  *out = (accel_rag_passage){.path = text[0],
                             .title = text[1],
                             .heading = text[2],
                             .text = text[3],
                             .first_line = (uint32_t)sqlite3_column_int64(query, 4),
                             .last_line = (uint32_t)sqlite3_column_int64(query, 5),
                             .score = hit->score,
                             .similarity = hit->cosine,
                             .vector_rank = hit->vector_rank,
                             .words_rank = hit->words_rank};
  sqlite3_reset(query);
  return ACCEL_OK;
}

static accel_status read_passages(const search *s, accel_rag_passages *out) {
  accel__arena *arena = accel__task_arena(out);
  sqlite3_stmt *query;
  accel_rag_passage *item = accel__arena_array(arena, s->n, sizeof *item);
  if (!item) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__rag_prepare(
      &s->r->store,
      "SELECT f.path, f.title, p.heading, p.text, p.first_line, p.last_line FROM passage p JOIN "
      "file f ON f.id = p.file WHERE p.id = ?",
      &query));
  accel_status status = ACCEL_OK;
  for (uint32_t i = 0; i < s->n && status == ACCEL_OK; i++)
    status = read_passage(&s->r->store, query, &s->hits[i], arena, &item[i]);
  sqlite3_finalize(query);
  out->item = item;
  out->n = s->n;
  return status;
}

/* What the reranker reads: the headings with the text. */
static accel_status rerank(const search *s, accel_rag_passages *out) {
  accel__arena *arena = accel__task_arena(out);
  const accel_rerank_params how = {
      .size = sizeof how, .top_k = s->params->top_k, .adapter_scale = 1};
  const char **texts = accel__arena_array(arena, out->n, sizeof *texts);
  accel_rag_passage *item = accel__arena_array(arena, out->n, sizeof *item);
  accel_ranking *ranking;
  if (!texts || !item) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < out->n; i++) {
    const accel_rag_passage *p = &out->item[i];
    texts[i] = accel__arena_printf(arena, "%s%s%s", p->heading, *p->heading ? "\n" : "", p->text);
    if (!texts[i]) return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  ACCEL_TRY(accel__rerank(s->params->reranker, s->query, texts, out->n, &how, &ranking));
  for (uint32_t i = 0; i < ranking->n; i++) {
    item[i] = out->item[ranking->item[i].document];
    item[i].score = ranking->item[i].score;
  }
  out->item = item;
  out->n = ranking->n;
  accel__task_free(ranking);
  return ACCEL_OK;
}

/* ---- the search ---- */

/* All that is read of the file, in one transaction. */
static accel_status find(search *s, accel_rag_passages *out) {
  const uint32_t mode = s->params->mode;
  ACCEL_TRY(accel__rag_begin(&s->r->store, false));
  accel_status status = s->vector ? find_vectors(s) : ACCEL_OK;
  if (status == ACCEL_OK && mode != ACCEL_RAG_VECTORS) status = find_words(s);
  if (status == ACCEL_OK && s->vector && mode == ACCEL_RAG_HYBRID)
    s->n = accel__rag_fuse(s->hits, s->n);
  const uint32_t most = s->params->reranker ? s->k : s->params->top_k;
  if (s->n > most) s->n = most;
  if (status == ACCEL_OK) status = read_passages(s, out);
  return accel__rag_end(&s->r->store, status);
}

static accel_status embed_query(search *s, accel_rag_passages *out) {
  const accel_rag *r = s->r;
  const uint64_t begin = accel__now_ns();
  uint32_t dim = 0;
  uint64_t tokens = 0;
  ACCEL_TRY(accel__rag_embed(r->embedder, r->settings.query_prompt, &s->query, 1, &dim, &s->vector,
                             &tokens));
  out->embed_ms = ms_since(begin);
  if (dim == r->settings.dim) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: vectors of %u numbers, the index has %u",
                     r->embedder->name, dim, r->settings.dim);
}

static accel_status check_params(const accel_rag *r, const accel_rag_search_params *p) {
  if (p->top_k < 1 || p->top_k > 1000)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "top_k is %u, expected 1 to 1000", p->top_k);
  if (p->candidates > 1000)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "candidates is %u, expected at most 1000",
                       p->candidates);
  if (p->mode > ACCEL_RAG_WORDS)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "mode is %u, expected an accel_rag_mode", p->mode);
  if (p->mode == ACCEL_RAG_VECTORS && !r->embedder)
    return accel__remedy(
        accel__fail(ACCEL_ERROR_ARGUMENT, "%s: it was opened without an embedder", r->store.path),
        "open it with the embedder '%s'", r->settings.embedder);
  return ACCEL_OK;
}

accel_status accel__rag_search(accel_rag *r, const char *query,
                               const accel_rag_search_params *params, accel_rag_passages **out) {
  ACCEL_TRY(check_params(r, params));
  search s = {.r = r, .query = query, .params = params};
  s.k = params->candidates ? params->candidates : USUAL_CANDIDATES;
  if (s.k < params->top_k) s.k = params->top_k;
  s.hits = calloc(2 * (size_t)s.k, sizeof *s.hits);
  accel_rag_passages *found = accel__task_result(sizeof *found);
  accel_status status = s.hits && found ? ACCEL_OK : accel__no_memory(2 * s.k * sizeof *s.hits);
  if (status == ACCEL_OK && r->embedder && params->mode != ACCEL_RAG_WORDS)
    status = embed_query(&s, found);
  const uint64_t begin = accel__now_ns();
  if (status == ACCEL_OK) status = find(&s, found);
  const uint64_t end = accel__now_ns();
  if (status == ACCEL_OK) found->search_ms = (double)(end - begin) / 1e6;
  if (status == ACCEL_OK && params->reranker && found->n) {
    status = rerank(&s, found);
    if (status == ACCEL_OK) found->rerank_ms = ms_since(end);
  }
  free(s.vector);
  free(s.hits);
  *out = accel__task_finish(found, status);
  return status;
}
