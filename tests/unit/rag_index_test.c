/* rag_index_test.c - parts of an index: products of every instruction set, ranks that are joined, the
 * file of vectors, and vectors that are compared exactly. */
#include <math.h>
#include <stdio.h>

#include "rag/rag_index.h"
#include "rag/rag_dot.h"
#include "temp.h"
#include "test_endpoint.h"

static float chance(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return (float)(*seed >> 8) / 8388608.0f - 1.0f;
}

static void test_products_are_the_same_bits(void **state) {
  accel__isa isa[ACCEL__ISA_COUNT];
  const int count = accel__isa_list(isa);
  float rows[3 * 131], query[131];
  uint32_t seed = 1;
  (void)state;
  for (uint32_t dim = 1; dim <= 131; dim++) {
    float want[3];
    double sum = 0;
    for (uint32_t i = 0; i < 3 * dim; i++) rows[i] = chance(&seed);
    for (uint32_t i = 0; i < dim; i++) query[i] = chance(&seed);
    for (uint32_t i = 0; i < dim; i++) sum += (double)rows[2 * dim + i] * query[i];
    accel__rag_dots_scalar(rows, 3, dim, query, want);
    assert_true(fabs(want[2] - sum) < 1e-5 * dim);
    for (int k = 0; k < count; k++) {
      float got[3];
      accel__rag_dots_of(isa[k])(rows, 3, dim, query, got);
      assert_memory_equal(got, want, sizeof want);
    }
  }
}

static void test_ranks_are_fused(void **state) {
  accel__rag_hit hits[] = {{.passage = 7, .file = 1, .vector_rank = 1, .cosine = 0.9},
                           {.passage = 3, .file = 2, .vector_rank = 2, .cosine = 0.8},
                           {.passage = 5, .file = 3, .words_rank = 1, .cosine = NAN},
                           {.passage = 3, .file = 2, .words_rank = 2, .cosine = NAN}};
  (void)state;
  assert_int_equal(accel__rag_fuse(hits, 4), 3);
  assert_int_equal(hits[0].passage, 3);
  assert_true(fabs(hits[0].score - 1.1 * 2.0 / 62) < 1e-12 && hits[0].cosine == 0.8);
  assert_int_equal(hits[0].vector_rank, 2);
  assert_int_equal(hits[0].words_rank, 2);
  assert_int_equal(hits[1].passage, 5); /* equal scores: the older passage first */
  assert_int_equal(hits[2].passage, 7);
  assert_int_equal(accel__rag_fuse(hits, 0), 0);
}

/* Of two passages with neighbouring ranks, the second one first, as two more of its document were
 * found; a fifth one of it adds nothing. */
static void test_documents_add_to_their_passages(void **state) {
  accel__rag_hit hits[] = {{.passage = 1, .file = 1, .vector_rank = 1},
                           {.passage = 2, .file = 2, .vector_rank = 2},
                           {.passage = 3, .file = 2, .vector_rank = 3},
                           {.passage = 4, .file = 2, .vector_rank = 4},
                           {.passage = 5, .file = 2, .words_rank = 9}};
  const double document = 0.1 * (1.0 / 62 + 1.0 / 63 + 1.0 / 64);
  (void)state;
  assert_int_equal(accel__rag_fuse(hits, 5), 5);
  for (int i = 0; i < 3; i++) assert_int_equal(hits[i].passage, 2 + i);
  assert_true(fabs(hits[0].score - (1.0 / 62 + document)) < 1e-12);
  assert_int_equal(hits[3].passage, 5);
  assert_true(fabs(hits[3].score - (1.0 / 69 + document)) < 1e-12);
  assert_int_equal(hits[4].passage, 1);
  assert_true(fabs(hits[4].score - 1.1 / 61) < 1e-12);
}

/* ---- the file of vectors ---- */

enum { DOCUMENTS = 11, PER_DOCUMENT = 400, DIM = 16 };

/* A document of passages by chance, past the embedder. */
static void write_document(accel__rag_store *store, uint32_t number) {
  static float vectors[PER_DOCUMENT * DIM];
  accel__chunk chunk[PER_DOCUMENT];
  accel__document d = {0};
  char path[32];
  uint32_t seed = number + 1;
  for (uint32_t i = 0; i < PER_DOCUMENT; i++) {
    const uint32_t start = (uint32_t)d.text.n;
    accel__buffer_printf(&d.text, "passage %u of document %u\n", i, number);
    chunk[i] = (accel__chunk){.start = start,
                              .end = (uint32_t)d.text.n - 1,
                              .first_line = i + 1,
                              .last_line = i + 1,
                              .heading = ""};
    for (uint32_t k = 0; k < DIM; k++) vectors[i * DIM + k] = chance(&seed);
  }
  accel__rag_normalize(vectors, PER_DOCUMENT, DIM);
  const accel__chunks chunks = {.item = chunk, .n = PER_DOCUMENT};
  const accel__rag_file file = {.bytes = d.text.n, .hash = number};
  snprintf(path, sizeof path, "document %u", number);
  assert_ok(accel__rag_file_replace(store, path, &file, &d, &chunks, vectors, DIM));
  accel__document_free(&d);
}

static accel_rag *open_index(accel *ctx, accel_endpoint *embedder, const char *path) {
  accel_rag_params how = accel_rag_params_default();
  accel_rag *rag;
  how.create = 1;
  assert_ok(accel_rag_open(ctx, path, embedder, &how, &rag));
  return rag;
}

/* The best passages by vectors, as one text; *mapped: they came from the file beside the index. */
static void find(accel *ctx, accel_endpoint *embedder, const char *path, accel__buffer *out,
                 bool *mapped) {
  accel_rag *rag = open_index(ctx, embedder, path);
  accel_rag_search_params how = accel_rag_search_params_default();
  accel_rag_passages *found;
  how.mode = ACCEL_RAG_VECTORS;
  how.top_k = 20;
  assert_ok(accel_rag_search(rag, "the old cat", &how, &found));
  assert_int_equal(found->n, 20);
  for (uint32_t i = 0; i < found->n; i++)
    accel__buffer_printf(out, "%s %.6f|", found->item[i].text, found->item[i].similarity);
  *mapped = rag->vectors.mapping.n > 0;
  accel_rag_passages_free(&found);
  accel_rag_close(&rag);
}

static void expect(accel *ctx, accel_endpoint *embedder, const char *path, const char *want,
                   bool mapped) {
  accel__buffer got = {0};
  bool is_mapped;
  find(ctx, embedder, path, &got, &is_mapped);
  assert_int_equal(is_mapped, mapped);
  if (want) assert_string_equal(got.data, want);
  accel__buffer_free(&got);
}

static void damage(const char *path, long at, const void *bytes, size_t n, long length) {
  FILE *f = fopen(path, "r+b");
  assert_non_null(f);
  assert_int_equal(fseek(f, at, SEEK_SET), 0);
  assert_int_equal(fwrite(bytes, 1, n, f), n);
  assert_int_equal(fclose(f), 0);
  if (length >= 0) assert_int_equal(truncate(path, length), 0);
}

static void test_the_file_of_vectors_is_a_copy(void **state) {
  accel *ctx = test_context();
  accel_init_params how = accel_init_params_default();
  accel_endpoint *embedder;
  const char *path = temp_path("large.sqlite"), *copy = temp_path("large.sqlite.vectors");
  accel__rag_store store;
  accel__buffer want = {0};
  bool mapped;
  (void)state;
  assert_ok(accel_init(ctx, ACCEL_FIXTURES "/tasks/st_mean", &how, &embedder));
  accel_rag *rag = open_index(ctx, embedder, path);
  assert_ok(accel__rag_store_open(path, false, &store));
  for (uint32_t i = 0; i < DOCUMENTS; i++) write_document(&store, i);
  find(ctx, embedder, path, &want, &mapped);
  assert_false(mapped);
  assert_ok(accel_rag_add(rag, NULL, 0, NULL));
  expect(ctx, embedder, path, want.data, true);
  damage(copy, 0, "x", 1, -1); /* not its mark, then too short, then for other vectors */
  expect(ctx, embedder, path, want.data, false);
  assert_ok(accel_rag_add(rag, NULL, 0, NULL));
  accel_rag_close(&rag);
  rag = open_index(ctx, embedder, path);
  assert_ok(accel_rag_add(rag, NULL, 0, NULL));
  expect(ctx, embedder, path, want.data, true);
  damage(copy, 0, "", 0, 100);
  expect(ctx, embedder, path, want.data, false);
  accel_rag_close(&rag);
  rag = open_index(ctx, embedder, path);
  assert_ok(accel_rag_add(rag, NULL, 0, NULL));
  write_document(&store, DOCUMENTS); /* the copy is of an earlier generation now */
  expect(ctx, embedder, path, NULL, false);
  assert_ok(accel__rag_file_remove(&store, "document 11"));
  expect(ctx, embedder, path, want.data, false);
  accel__rag_store_close(&store);
  accel_rag_close(&rag);
  accel__buffer_free(&want);
  accel_cleanup(&embedder);
  accel_destroy(&ctx);
}

static void test_arguments(void **state) {
  accel *ctx = test_context();
  accel_rag *rag = NULL;
  accel_rag_passages *found = NULL;
  accel_rag_search_params how = accel_rag_search_params_default();
  const char *const nothing[] = {""};
  accel_endpoint *embedder;
  (void)state;
  assert_int_equal(accel_rag_open(NULL, "x", NULL, NULL, &rag), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel_rag_open(ctx, NULL, NULL, NULL, &rag), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel_rag_open(ctx, temp_path("none"), NULL, NULL, &rag), ACCEL_ERROR_NOT_FOUND);
  assert_true(*accel_last_remedy());
  assert_int_equal(accel_rag_open(ctx, temp_text("empty", ""), NULL, NULL, &rag),
                   ACCEL_ERROR_FORMAT);
  assert_null(rag);
  assert_ok(accel_init(ctx, ACCEL_FIXTURES "/tasks/st_mean", NULL, &embedder));
  rag = open_index(ctx, embedder, temp_path("small.sqlite"));
  assert_int_equal(accel_rag_search(rag, NULL, NULL, &found), ACCEL_ERROR_ARGUMENT);
  how.top_k = 0;
  assert_int_equal(accel_rag_search(rag, "x", &how, &found), ACCEL_ERROR_ARGUMENT);
  how.top_k = 5;
  how.mode = 3;
  assert_int_equal(accel_rag_search(rag, "x", &how, &found), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel_rag_add(rag, nothing, 1, NULL), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel_rag_remove(rag, nothing, 1, NULL), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel_rag_add_text(rag, "", "x", ACCEL_RAG_TEXT), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel_rag_add_text(rag, "x", "x", (accel_rag_format)9), ACCEL_ERROR_ARGUMENT);
  assert_ok(accel_rag_search(rag, "\" OR ( NEAR * : ^ - + {}", NULL,
                             &found)); /* no words: no marks of FTS5 */
  assert_int_equal(found->n, 0);
  accel_rag_passages_free(&found);
  accel_rag_close(&rag);
  accel_rag_close(&rag);
  accel_cleanup(&embedder);
  accel_destroy(&ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_products_are_the_same_bits), cmocka_unit_test(test_ranks_are_fused),
      cmocka_unit_test(test_documents_add_to_their_passages),
      cmocka_unit_test(test_the_file_of_vectors_is_a_copy), cmocka_unit_test(test_arguments)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
