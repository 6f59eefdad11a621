/* rag_bench.c - search in a large index, without its model's time.
 *
 *   rag_bench EMBEDDER [--passages 100000] [--queries 200] [--threads 2] [--index FILE]
 *
 * Makes an index of passages of 60 words each, drawn by Zipf's law from 50,000 words, with random
 * vectors of the embedder's length (the index stays for other programs when --index names it), and
 * searches for questions of eight words drawn alike.  Printed: the time of the first search, which
 * maps the file of vectors, and median, 95th percentile and worst of the others, by vectors alone, by
 * words alone, and by both, with the CPU time of one, the embedder's excepted. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "accel/accel.h"
#include "rag/rag_index.h"

enum { VOCABULARY = 50000, WORDS = 60, QUERY_WORDS = 8, PER_DOCUMENT = 200, MOST_QUERIES = 4096 };

static uint64_t seed = 1;
static double cumulated[VOCABULARY];

static double uniform(void) {
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (double)(seed >> 11) / 9007199254740992.0;
}

static void must(accel_status status, const char *what) {
  if (status == ACCEL_OK) return;
  fprintf(stderr, "%s: %s\n", what, accel_last_error());
  exit(1);
}

static void make_law(void) {
  double sum = 0;
  for (int i = 0; i < VOCABULARY; i++) cumulated[i] = sum += 1.0 / (i + 2.7);
}

static int draw(void) {
  const double x = uniform() * cumulated[VOCABULARY - 1];
  int low = 0, high = VOCABULARY - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (cumulated[middle] < x)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void write_words(accel__buffer *b, int n) {
  for (int i = 0; i < n; i++) accel__buffer_printf(b, "%sw%dx", i ? " " : "", draw());
}

static void add_document(accel__rag_store *store, uint32_t number, uint32_t n, uint32_t dim) {
  accel__document d = {0};
  accel__chunk chunk[PER_DOCUMENT];
  float *vectors = malloc((size_t)n * dim * sizeof *vectors);
  char path[64];
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t start = (uint32_t)d.text.n;
    write_words(&d.text, WORDS);
    chunk[i] = (accel__chunk){.start = start,
                              .end = (uint32_t)d.text.n,
                              .first_line = i + 1,
                              .last_line = i + 1,
                              .heading = ""};
    accel__buffer_text(&d.text, "\n");
  }
  for (size_t i = 0; vectors && i < (size_t)n * dim; i++) vectors[i] = (float)(uniform() - 0.5);
  if (!vectors) exit(1);
  accel__rag_normalize(vectors, n, dim);
  const accel__chunks chunks = {.item = chunk, .n = n};
  const accel__rag_file file = {.bytes = d.text.n, .hash = number + 1};
  snprintf(path, sizeof path, "document %u", number);
  must(accel__rag_file_replace(store, path, &file, &d, &chunks, vectors, dim), "add");
  accel__document_free(&d);
  free(vectors);
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double cpu_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e3 * (double)t.tv_sec + (double)t.tv_nsec / 1e6;
}

/* CPU time of the embedder for as many queries, which measure() takes off. */
static double embedder_cpu_ms(accel_endpoint *embedder, uint32_t queries) {
  const double begin = cpu_ms();
  for (uint32_t i = 0; i < queries; i++) {
    accel_embeddings *found;
    accel__buffer query = {0};
    write_words(&query, QUERY_WORDS);
    must(accel_embed(embedder, (const char *const[]){query.data}, 1, &found), "embed");
    accel_embeddings_free(&found);
    accel__buffer_free(&query);
  }
  return cpu_ms() - begin;
}

static void measure(accel_rag *rag, accel_endpoint *embedder, uint32_t mode, const char *what,
                    uint32_t queries) {
  static double ms[MOST_QUERIES];
  double embed = 0;
  const double apart = mode == ACCEL_RAG_WORDS ? 0 : embedder_cpu_ms(embedder, queries);
  const double begin = cpu_ms();
  accel_rag_search_params how = accel_rag_search_params_default();
  how.mode = mode;
  for (uint32_t i = 0; i < queries; i++) {
    accel_rag_passages *found;
    accel__buffer query = {0};
    write_words(&query, QUERY_WORDS);
    must(accel_rag_search(rag, query.data, &how, &found), "search");
    ms[i] = found->search_ms;
    embed += found->embed_ms / queries;
    accel_rag_passages_free(&found);
    accel__buffer_free(&query);
  }
  const double cpu = (cpu_ms() - begin - apart) / queries;
  qsort(ms, queries, sizeof *ms, by_value);
  printf("%-8s median %.2f ms, 95 %% %.2f ms, worst %.2f ms; CPU %.2f ms (embedder %.2f ms)\n",
         what, ms[queries / 2], ms[queries * 95 / 100], ms[queries - 1], cpu, embed);
}

static void run(accel *ctx, accel_endpoint *embedder, const char *path, uint32_t passages,
                uint32_t queries) {
  accel_rag_params how = accel_rag_params_default();
  accel_rag *rag;
  accel_rag_info *info;
  accel__rag_store store;
  how.create = 1;
  must(accel_rag_open(ctx, path, embedder, &how, &rag), "open");
  must(accel_rag_describe(rag, &info), "describe");
  must(accel__rag_store_open(path, false, &store), "open");
  for (uint32_t i = (uint32_t)info->passages; i < passages; i += PER_DOCUMENT)
    add_document(&store, i / PER_DOCUMENT,
                 passages - i < PER_DOCUMENT ? passages - i : PER_DOCUMENT, info->dim);
  accel__rag_store_close(&store);
  must(accel_rag_add(rag, NULL, 0, NULL), "vectors");
  accel_rag_close(&rag);
  must(accel_rag_open(ctx, path, embedder, NULL, &rag), "open");
  printf("%u passages, vectors of %u, %u threads\n", passages, info->dim, accel_thread_count(ctx));
  accel_rag_info_free(&info);
  measure(rag, embedder, ACCEL_RAG_VECTORS, "first", 1);
  measure(rag, embedder, ACCEL_RAG_VECTORS, "vectors", queries);
  measure(rag, embedder, ACCEL_RAG_WORDS, "words", queries);
  measure(rag, embedder, ACCEL_RAG_HYBRID, "both", queries);
  accel_rag_close(&rag);
}

int main(int argc, char **argv) {
  char folder[] = "/tmp/rag_bench-XXXXXX", path[4096] = "";
  uint32_t passages = 100000, queries = 200;
  accel_params params = accel_params_default();
  accel_init_params how = accel_init_params_default();
  accel *ctx;
  accel_endpoint *embedder;
  params.threads = 2;
  for (int i = 2; i + 1 < argc; i += 2) {
    const uint32_t number = (uint32_t)strtoul(argv[i + 1], NULL, 10);
    if (!strcmp(argv[i], "--passages")) passages = number;
    if (!strcmp(argv[i], "--queries") && number && number <= MOST_QUERIES) queries = number;
    if (!strcmp(argv[i], "--threads")) params.threads = number;
    if (!strcmp(argv[i], "--index")) snprintf(path, sizeof path, "%s", argv[i + 1]);
  }
  if (argc < 2 || (!*path && !mkdtemp(folder))) return 2;
  const bool own = !*path;
  if (own) snprintf(path, sizeof path, "%s/index.sqlite", folder);
  make_law();
  must(accel_create(&params, &ctx), "context");
  must(accel_init(ctx, argv[1], &how, &embedder), argv[1]);
  run(ctx, embedder, path, passages, queries);
  accel_cleanup(&embedder);
  accel_destroy(&ctx);
  if (own) unlink(path), rmdir(folder);
  return 0;
}
