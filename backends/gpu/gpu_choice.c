/* gpu_choice.c - which of two right ways to multiply is faster on a device: a kernel variant or the
 * plain kernels, large tiles or small ones.  Measured by the device's clock when the first endpoint
 * could use it, on products of the sizes of a decoder's prompts and steps; the verdicts are kept
 * with those of gpu_variants.c, so that a device's numbers do not change from run to run.  Small models
 * are not kept waiting for it.  Processors behind an API, and the emulator, are told nothing by
 * such times: there ACCEL_GPU_VARIANTS must ask for them ("measure"). */
#include <math.h>
#include <stdlib.h>

#include "gpu/gpu_op_linear.h"

enum { N = 1024, K = 1024, PROMPT = 128, STEP = 1, ROUNDS = 5, TIMES = 2, MOST_ROWS = 4096 };
static const double ENOUGH_MS = 100; /* of one way: a slow device tells as much in fewer rounds */

typedef struct bench {
  gpu_product p;
  /* by turns: what is turned into words for one product is not kept for the next */
  kit_tensor x[2];
  gpu_memory *memory[5]; /* x, w, scale, y, words */
} bench;

/* Numbers like any: what a multiplier takes for zeros may be less. */
static int32_t fill(gpu_self *s, gpu_memory *to, uint32_t word, accel_plugin_error *error) {
  const uint64_t n = to->bytes / 4;
  uint32_t *words = malloc(to->bytes);
  if (!words) return kit_no_memory(error, to->bytes);
  for (uint64_t i = 0; i < n; i++) words[i] = word ^ (uint32_t)(i * 2654435761u & 0x00070007u);
  const int32_t rc = gpu_upload(s, to, 0, words, n * 4, error);
  free(words);
  return rc;
}

/* A product of up to m rows with weights in `store`. */
static int32_t make(gpu_self *s, gpu_store store, int64_t m, bench *b, accel_plugin_error *error) {
  /* about one, of each store */
  static const uint32_t one[] = {0x3f800000u, 0x3c003c00u, 0x3f803f80u, 0x05fa03fcu};
  gpu_product *p = &b->p;
  *p = gpu_bare_product(store, N, K);
  const uint64_t words = gpu_activations_q_bytes(s, &p->w.w, false, m),
                 bytes[5] = {2 * (uint64_t)m * K * 4, (uint64_t)N * p->w.w.row_words * 4, N * 4,
                             (uint64_t)m * N * 4, words ? words : 4};
  int32_t rc = ACCEL_PLUGIN_OK;
  for (int i = 0; !rc && i < 5; i++) rc = gpu_pool_take(&s->pool, bytes[i], &b->memory[i], error);
  for (int i = 0; !rc && i < 3; i++)
    rc = fill(s, b->memory[i], i == 1 ? one[store] : one[GPU_STORE_F32], error);
  if (rc) return rc;
  for (int i = 0; i < 2; i++)
    b->x[i] = (kit_tensor){.id = i,
                           .dtype = ACCEL_PLUGIN_F32,
                           .rank = 2,
                           .dim = {0, K},
                           .row_stride = K,
                           .buffer = b->memory[0],
                           .offset = i ? bytes[0] / 2 : 0,
                           .weight = -1};
  p->w.w.data = b->memory[1];
  p->w.w.scale = store == GPU_STORE_I8 ? b->memory[2] : NULL;
  p->y = gpu_part(gpu_memory_at(b->memory[3]), 0, bytes[3]);
  p->words = gpu_memory_at(b->memory[4]);
  return rc;
}

static void give(gpu_self *s, bench *b) {
  for (int i = 0; i < 5; i++) gpu_pool_give(&s->pool, b->memory[i]);
}

/* The fastest of up to ROUNDS runs of TIMES products of m rows, ms, 0 where the device has no
 * clock; the first run, which compiles, does not count. */
static int32_t time_rows(gpu_self *s, const accel_plugin_host *host, bench *b, int64_t m,
                         double *best, accel_plugin_error *error) {
  const kit_begin begin = {.program = s->program, .host = host};
  const kit_launch l = {.program = s->program, .node = s->program->node};
  b->p.m = m;
  for (int i = 0; i < 2; i++) {
    b->x[i].dim[0] = m;
    b->x[i].elements = m * K;
  }
  double spent = 0;
  for (int r = 0; r <= 1 || (r <= ROUNDS && spent < ENOUGH_MS); r++, spent += *best) {
    void *run = NULL;
    double ms = 0;
    int32_t rc = gpu_begin(s, &begin, &run, error);
    if (rc) return rc;
    for (int i = 0; !rc && i < TIMES; i++) {
      b->p.x = &b->x[i % 2];
      rc = gpu_rows_multiply(run, &l, &b->p, error);
    }
    const int32_t end = gpu_finish(s, run, !rc, &ms, rc ? NULL : error);
    if (rc || end) return rc ? rc : end;
    if (r == 1 || (r > 1 && ms < *best)) *best = ms;
  }
  return ACCEL_PLUGIN_OK;
}

int gpu_variant_is_faster(gpu_self *s, const accel_plugin_host *host, uint32_t bit,
                          gpu_store store) {
  static const int64_t rows[] = {PROMPT, STEP};
  const uint32_t before = s->variants;
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  bench b = {.memory = {NULL}};
  double gain = 1; /* product of the ratios: prompts count as much as steps */
  s->variants = bit;
  int32_t rc = make(s, store, PROMPT, &b, &error);
  for (int i = 0; !rc && i < 2; i++) {
    double with = 0, without = 0;
    s->variants = bit;
    rc = time_rows(s, host, &b, rows[i], &with, &error);
    s->variants = 0;
    if (!rc) rc = time_rows(s, host, &b, rows[i], &without, &error);
    gain *= with > 0 && without > 0 ? without / with : NAN;
  }
  s->variants = before;
  give(s, &b);
  return rc || isnan(gain) ? -1 : gain >= 1;
}

/* As many rows as are multiplied by large tiles at all. */
int gpu_large_tiles_are_faster(gpu_self *s, const accel_plugin_host *host) {
  const uint32_t before = s->variants;
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  bench b = {.memory = {NULL}};
  gpu_product by_size = {.m = PROMPT};
  while (by_size.m < MOST_ROWS && !gpu_takes_large(s, &by_size, N, 64)) by_size.m *= 2;
  if (!gpu_takes_large(s, &by_size, N, 64)) return -1;
  const int64_t m = by_size.m;
  double large = 0, small = 0;
  s->variants = 0;
  int32_t rc = make(s, GPU_STORE_F32, m, &b, &error);
  b.p.tile = GPU_LARGE_ROWS;
  if (!rc) rc = time_rows(s, host, &b, m, &large, &error);
  b.p.tile = 64;
  if (!rc) rc = time_rows(s, host, &b, m, &small, &error);
  s->variants = before;
  give(s, &b);
  return rc || !(large > 0 && small > 0) ? -1 : large <= small;
}
