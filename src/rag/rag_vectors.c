/* rag_vectors.c - exact search: every vector is compared, block by block on the context's threads. */
#include "rag/rag_vectors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rag/rag_dot.h"

enum { BLOCK_ROWS = 2048, STRIP = 64 }; /* STRIP: rows multiplied at a time */

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

/* How a file of vectors begins; then passage [n], file [n] and data [n, dim]. */
typedef struct header {
  char magic[8];
  uint32_t dim, n;
  int64_t generation;
  char zero[40];
} header;
static const char magic[8] = "aRAGvec1";

static uint64_t block_bytes(uint32_t n, uint32_t dim) {
  return sizeof(header) + (uint64_t)n * (2 * sizeof(int64_t) + dim * sizeof(float));
}

/* Points into a whole file of vectors. */
static void point_into(accel__rag_vectors *v, const void *block, uint32_t n, uint32_t dim) {
  const char *bytes = block;
  v->n = n;
  v->dim = dim;
  v->passage = (const int64_t *)(bytes + sizeof(header));
  v->file = v->passage + n;
  v->data = (const float *)(v->file + n);
}

void accel__rag_vectors_free(accel__rag_vectors *v) {
  free(v->block);
  accel__file_unmap(&v->mapping);
  *v = (accel__rag_vectors){0};
}

static char *path_of(const accel__rag_store *s) {
  accel__buffer b = {0};
  accel__buffer_printf(&b, "%s.vectors", s->path);
  if (b.failed) accel__buffer_free(&b);
  return b.data;
}

/* Whether the file beside the index has them. */
static bool map_file(const accel__rag_store *s, int64_t generation, uint32_t dim,
                     accel__rag_vectors *v) {
  char *path = path_of(s);
  accel__mapping m = {0};
  header h;
  const bool mapped = path && !access(path, R_OK) && accel__file_map(path, &m) == ACCEL_OK;
  free(path);
  if (mapped && m.n >= sizeof h) {
    memcpy(&h, m.data, sizeof h);
    if (!memcmp(h.magic, magic, sizeof magic) && h.dim == dim && h.generation == generation &&
        m.n == block_bytes(h.n, h.dim)) {
      *v = (accel__rag_vectors){.generation = generation, .mapping = m};
      point_into(v, m.data, h.n, h.dim);
      return true;
    }
  }
  if (mapped) accel__file_unmap(&m);
  accel__clear_error();
  return false;
}

static accel_status read_rows(const accel__rag_store *s, uint32_t n, uint32_t dim, char *block) {
  sqlite3_stmt *query;
  int64_t *passage = (int64_t *)(block + sizeof(header)), *file = passage + n;
  float *data = (float *)(file + n);
  const size_t bytes = dim * sizeof *data;
  ACCEL_TRY(
      accel__rag_prepare(s, "SELECT passage, file, data FROM vector ORDER BY passage", &query));
  for (uint32_t i = 0; i < n; i++) {
    bool row;
    ACCEL_TRY(accel__rag_step(s, &query, &row));
    const void *vector = row ? sqlite3_column_blob(query, 2) : NULL;
    if (!vector || (size_t)sqlite3_column_bytes(query, 2) != bytes) {
      sqlite3_finalize(query);
      return accel__remedy(
          accel__fail(ACCEL_ERROR_FORMAT, "%s: a vector of %u numbers is missing", s->path, dim),
          "the file is damaged: make the index anew under another name");
    }
    passage[i] = sqlite3_column_int64(query, 0);
    file[i] = sqlite3_column_int64(query, 1);
    memcpy(data + (size_t)i * dim, vector, bytes);
  }
  sqlite3_finalize(query);
  return ACCEL_OK;
}

accel_status accel__rag_vectors_read(const accel__rag_store *s, uint32_t dim,
                                     accel__rag_vectors *v) {
  int64_t generation;
  ACCEL_TRY(accel__rag_generation(s, &generation));
  if (v->passage && v->generation == generation) return ACCEL_OK;
  accel__rag_vectors_free(v);
  if (map_file(s, generation, dim, v)) return ACCEL_OK;
  const int64_t n = accel__rag_number(s, "SELECT count(*) FROM passage");
  if (n < 0 || n > INT32_MAX) return accel__rag_store_fail(s, sqlite3_errcode(s->db));
  char *block = malloc(block_bytes((uint32_t)n, dim));
  if (!block) return accel__no_memory(block_bytes((uint32_t)n, dim));
  header h = {.dim = dim, .n = (uint32_t)n, .generation = generation};
  memcpy(h.magic, magic, sizeof magic);
  memcpy(block, &h, sizeof h);
  const accel_status status = read_rows(s, (uint32_t)n, dim, block);
  if (status != ACCEL_OK) {
    free(block);
    return status;
  }
  *v = (accel__rag_vectors){.generation = generation, .block = block};
  point_into(v, block, (uint32_t)n, dim);
  return ACCEL_OK;
}

accel_status accel__rag_vectors_keep(const accel__rag_store *s, accel__rag_vectors *v) {
  if (!v->block || v->n < ACCEL__RAG_VECTORS_KEPT) return ACCEL_OK;
  char *path = path_of(s);
  if (!path) return accel__no_memory(strlen(s->path));
  const accel_status status = accel__file_write(path, v->block, block_bytes(v->n, v->dim));
  free(path);
  if (status == ACCEL_OK) accel__rag_vectors_free(v);
  return status;
}

/* ---- search ---- */

/* What a block of rows found: near[n], a heap whose root is the worst. */
typedef struct search {
  const accel__rag_vectors *v;
  const float *query;
  const bool *wanted;
  uint32_t k;
  accel__rag_dots_fn *dots;
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
  float cosine[STRIP];
  (void)worker;
  for (uint32_t row = first; row < end; row += STRIP) {
    const uint32_t rows = end - row < STRIP ? end - row : STRIP;
    s->dots(v->data + (size_t)row * v->dim, rows, v->dim, s->query, cosine);
    for (uint32_t i = 0; i < rows; i++)
      if (!s->wanted || s->wanted[row + i])
        offer(near, &n, s->k, (accel__rag_near){row + i, cosine[i]});
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
              .dots = accel__rag_dots_of(accel__isa_choose()),
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
