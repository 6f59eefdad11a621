/* rag_vectors.c - exact search: every vector is compared, block by block on the context's threads. */
#include "rag/rag_vectors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 16, BLOCK_ROWS = 2048 };

float accel__rag_dot(const float *a, const float *b, uint32_t n) {
  float lane[LANES] = {0}; /* sums beside each other, which compilers make vectors of */
  uint32_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (uint32_t k = 0; k < LANES; k++) lane[k] += a[i + k] * b[i + k];
  for (uint32_t k = 0; i + k < n; k++) lane[k] += a[i + k] * b[i + k];
  for (uint32_t half = LANES / 2; half; half /= 2)
    for (uint32_t k = 0; k < half; k++) lane[k] += lane[k + half];
  return lane[0];
}

void accel__rag_normalize(float *rows, uint32_t n, uint32_t dim) {
  for (uint32_t r = 0; r < n; r++) {
    float *row = rows + (size_t)r * dim;
    double sum = 0;
    for (uint32_t i = 0; i < dim; i++) sum += (double)row[i] * row[i];
    const double length = sqrt(sum);
    for (uint32_t i = 0; length > 0 && i < dim; i++) row[i] = (float)(row[i] / length);
  }
}

/* ---- reading ---- */

void accel__rag_vectors_free(accel__rag_vectors *v) {
  free(v->data);
  free(v->passage);
  free(v->file);
  *v = (accel__rag_vectors){0};
}

static accel_status make_room(accel__rag_vectors *v, uint32_t n, uint32_t dim) {
  if (n <= v->capacity && dim == v->dim) return ACCEL_OK;
  accel__rag_vectors_free(v);
  v->data = malloc((size_t)n * dim * sizeof *v->data);
  v->passage = malloc(n * sizeof *v->passage);
  v->file = malloc(n * sizeof *v->file);
  if (!v->data || !v->passage || !v->file) {
    accel__rag_vectors_free(v);
    return accel__no_memory((size_t)n * dim * sizeof *v->data);
  }
  v->capacity = n;
  v->dim = dim;
  return ACCEL_OK;
}

static accel_status read_rows(const accel__rag_store *s, accel__rag_vectors *v) {
  sqlite3_stmt *query;
  const int bytes = (int)(v->dim * sizeof *v->data);
  ACCEL_TRY(
      accel__rag_prepare(s, "SELECT passage, file, data FROM vector ORDER BY passage", &query));
  for (bool row; v->n < v->capacity; v->n++) {
    ACCEL_TRY(accel__rag_step(s, &query, &row));
    if (!row) return ACCEL_OK;
    const void *data = sqlite3_column_blob(query, 2);
    if (!data || sqlite3_column_bytes(query, 2) != bytes) {
      sqlite3_finalize(query);
      return accel__remedy(
          accel__fail(ACCEL_ERROR_FORMAT, "%s: a vector has not %u numbers", s->path, v->dim),
          "make the index anew under another name");
    }
    v->passage[v->n] = sqlite3_column_int64(query, 0);
    v->file[v->n] = sqlite3_column_int64(query, 1);
    memcpy(v->data + (size_t)v->n * v->dim, data, (size_t)bytes);
  }
  sqlite3_finalize(query);
  return ACCEL_OK;
}

accel_status accel__rag_vectors_read(const accel__rag_store *s, uint32_t dim,
                                     accel__rag_vectors *v) {
  const int64_t version = accel__rag_version(s);
  if (v->version && v->version == version) return ACCEL_OK;
  const int64_t n = accel__rag_number(s, "SELECT count(*) FROM vector");
  if (n < 0 || n > INT32_MAX) return accel__rag_store_fail(s, sqlite3_errcode(s->db));
  v->version = 0;
  ACCEL_TRY(make_room(v, (uint32_t)n + !n, dim));
  v->n = 0;
  ACCEL_TRY(read_rows(s, v));
  v->version = version;
  return ACCEL_OK;
}

/* ---- search ---- */

/* What a block of rows found: near[n], a heap whose root is the worst. */
typedef struct search {
  const accel__rag_vectors *v;
  const float *query;
  const bool *wanted;
  uint32_t k;
  accel__rag_near *near; /* [blocks][k] */
  uint32_t *n;           /* [blocks] */
} search;

/* Whether `a` is worse than b. */
static bool worse(const accel__rag_near *a, const accel__rag_near *b) {
  return a->cosine != b->cosine ? a->cosine < b->cosine : a->row > b->row;
}

static void sink(accel__rag_near *heap, uint32_t n) {
  for (uint32_t i = 0, child; (child = 2 * i + 1) < n; i = child) {
    if (child + 1 < n && worse(&heap[child + 1], &heap[child])) child++;
    if (!worse(&heap[child], &heap[i])) return;
    const accel__rag_near kept = heap[i];
    heap[i] = heap[child];
    heap[child] = kept;
  }
}

static void offer(accel__rag_near *heap, uint32_t *n, uint32_t k, accel__rag_near new) {
  if (*n == k) {
    if (!worse(&heap[0], &new)) return;
    heap[0] = new;
    sink(heap, k);
    return;
  }
  uint32_t i = (*n)++;
  for (; i && worse(&new, &heap[(i - 1) / 2]); i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
  heap[i] = new;
}

static void search_block(void *arg, uint32_t block, uint32_t worker) {
  const search *s = arg;
  const accel__rag_vectors *v = s->v;
  const uint32_t first = block * BLOCK_ROWS,
                 end = v->n - first < BLOCK_ROWS ? v->n : first + BLOCK_ROWS;
  accel__rag_near *near = s->near + (size_t)block * s->k;
  uint32_t n = 0;
  (void)worker;
  for (uint32_t row = first; row < end; row++) {
    if (s->wanted && !s->wanted[row]) continue;
    const float cosine = accel__rag_dot(v->data + (size_t)row * v->dim, s->query, v->dim);
    offer(near, &n, s->k, (accel__rag_near){row, cosine});
  }
  s->n[block] = n;
}

static int best_first(const void *a, const void *b) {
  return worse(a, b) ? 1 : worse(b, a) ? -1 : 0;
}

accel_status accel__rag_vectors_near(const accel__rag_vectors *v, accel__pool *pool,
                                     const float *query, const bool *wanted, uint32_t k,
                                     accel__rag_near *near, uint32_t *n) {
  const uint32_t blocks = (v->n + BLOCK_ROWS - 1) / BLOCK_ROWS;
  search s = {.v = v,
              .query = query,
              .wanted = wanted,
              .k = k,
              .near = malloc((size_t)blocks * k * sizeof *near + 1),
              .n = calloc(blocks + 1, sizeof *s.n)};
  accel_status status = s.near && s.n ? ACCEL_OK : accel__no_memory(blocks * k * sizeof *near);
  *n = 0;
  if (status == ACCEL_OK) accel__pool_run(pool, blocks, search_block, &s);
  for (uint32_t b = 0; status == ACCEL_OK && b < blocks; b++)
    for (uint32_t i = 0; i < s.n[b]; i++) offer(near, n, k, s.near[(size_t)b * k + i]);
  free(s.near);
  free(s.n);
  qsort(near, *n, sizeof *near, best_first);
  return status;
}
