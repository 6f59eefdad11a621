/* gpu_probe_times.c - is a kernel variant faster than the plain kernels on a device? Measured by
 * the device's clock, on products of the sizes of a decoder's prompts and steps, and on
 * softmaxes. */
#include "gpu/gpu_probe_times.h"

#include <math.h>
#include <stdlib.h>

#include "gpu/gpu_probe.h"

enum { STEP = 1, MOST_ROWS = 4096, GROUP = 256 }; /* of int8 weights in rows of this length */
enum { SOFTMAX_ROWS = 70, SOFTMAX_COLUMNS = 228 };
enum { ROUNDS = 5, PRODUCTS = 2, SOFTMAXES = 8 }; /* runs, and what each repeats */
static const double ENOUGH_MS = 100; /* of one way: a slow device tells as much in fewer rounds */

/* The products of a decoder, so large that a card is busy with them: [side, side] weights times
 * the rows of a prompt. */
typedef struct probe_size {
  int64_t side, prompt;
} probe_size;
static probe_size size_for(const gpu_self *s) {
  enum { UNITS = 32 }; /* that a large card has at least */
  return s->limits.units >= UNITS ? (probe_size){4096, 512} : (probe_size){1024, 128};
}

/* Fills memory with words near `word`, not all alike: multipliers may be faster with zeros. */
static int32_t fill(gpu_self *s, gpu_memory *to, uint32_t word, accel_plugin_error *error) {
  const uint64_t n = to->bytes / 4;
  uint32_t *words = malloc(to->bytes);
  if (!words) return kit_no_memory(error, to->bytes);
  for (uint64_t i = 0; i < n; i++) words[i] = word ^ (uint32_t)(i * 2654435761u & 0x00070007u);
  const int32_t rc = gpu_upload(s, to, 0, words, n * 4, error);
  free(words);
  return rc;
}

static int32_t open_products(gpu_probe *probe, gpu_store store, int64_t m, int64_t side,
                             accel_plugin_error *error) {
  /* numbers of about one in F32, F16, BF16 and I8 */
  static const uint32_t one[] = {0x3f800000u, 0x3c003c00u, 0x3f803f80u, 0x05fa03fcu};
  const int64_t group = store == GPU_STORE_I8 ? GROUP : side;
  int32_t rc = gpu_probe_open(probe, store, m, side, side, group, error);
  if (!rc) rc = fill(probe->self, probe->memory[GPU_PROBE_X], one[GPU_STORE_F32], error);
  if (!rc) rc = fill(probe->self, probe->memory[GPU_PROBE_W], one[store], error);
  return rc ? rc : fill(probe->self, probe->memory[GPU_PROBE_SCALE], one[GPU_STORE_F32], error);
}

/* The fastest of up to ROUNDS runs, ms; 0 where the device has no clock. The first run, which
 * compiles the kernels, does not count. */
static int32_t time_products(gpu_probe *probe, int64_t m, double *best, accel_plugin_error *error) {
  double spent = 0;
  for (int r = 0; r <= 1 || (r <= ROUNDS && spent < ENOUGH_MS); r++, spent += *best) {
    double ms = 0;
    const int32_t rc = gpu_probe_products(probe, m, PRODUCTS, &ms, error);
    if (rc) return rc;
    if (r == 1 || (r > 1 && ms < *best)) *best = ms;
  }
  return ACCEL_PLUGIN_OK;
}

/* ---- one function for each kind of variant; each leaves self->variants changed ---- */

static int products_are_faster(gpu_probe *probe, uint32_t variant, gpu_store store) {
  const probe_size size = size_for(probe->self);
  const int64_t rows[] = {size.prompt, STEP};
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  double gain = 1; /* product of the ratios: prompts count as much as steps */
  probe->self->variants = variant;
  int32_t rc = open_products(probe, store, size.prompt, size.side, &error);
  for (int i = 0; !rc && i < 2; i++) {
    double with = 0, without = 0;
    probe->self->variants = variant;
    rc = time_products(probe, rows[i], &with, &error);
    probe->self->variants = 0;
    if (!rc) rc = time_products(probe, rows[i], &without, &error);
    gain *= with > 0 && without > 0 ? without / with : NAN;
  }
  return rc || isnan(gain) ? -1 : gain >= 1;
}

/* Measured with the fewest rows that are multiplied by large tiles at all. */
static int large_tiles_are_faster(gpu_probe *probe) {
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  const probe_size size = size_for(probe->self);
  gpu_product by_size = {.m = size.prompt};
  while (by_size.m < MOST_ROWS && !gpu_takes_large(probe->self, &by_size, size.side, 64))
    by_size.m *= 2;
  if (!gpu_takes_large(probe->self, &by_size, size.side, 64)) return -1;
  const int64_t m = by_size.m;
  double large = 0, small = 0;
  probe->self->variants = 0;
  int32_t rc = open_products(probe, GPU_STORE_F32, m, size.side, &error);
  probe->product.tile = GPU_LARGE_ROWS;
  if (!rc) rc = time_products(probe, m, &large, &error);
  probe->product.tile = 64;
  if (!rc) rc = time_products(probe, m, &small, &error);
  return rc || !(large > 0 && small > 0) ? -1 : large <= small;
}

static int sub_groups_are_faster(gpu_probe *probe) {
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  double best[2] = {0, 0}; /* without, with */
  int32_t rc = gpu_probe_open(probe, GPU_STORE_F32, SOFTMAX_ROWS, SOFTMAX_COLUMNS, SOFTMAX_COLUMNS,
                              SOFTMAX_COLUMNS, &error);
  for (int i = 0; !rc && i < 2 * (ROUNDS + 1); i++) { /* the first of each compiles */
    double ms = 0;
    probe->self->variants = i % 2 ? GPU_VARIANT_SUB_GROUPS : 0;
    rc = gpu_probe_softmax(probe, SOFTMAX_ROWS, SOFTMAX_COLUMNS, SOFTMAXES, &ms, &error);
    if (i / 2 == 1 || (i / 2 > 1 && ms < best[i % 2])) best[i % 2] = ms;
  }
  return rc || !(best[0] > 0 && best[1] > 0) ? -1 : best[1] <= best[0];
}

int gpu_probe_is_faster(gpu_self *self, const accel_plugin_host *host, uint32_t variant,
                        gpu_store store) {
  const uint32_t before = self->variants;
  gpu_probe probe = {.self = self, .host = host};
  const int faster = variant == GPU_LARGE_TILES ? large_tiles_are_faster(&probe)
                     : variant == GPU_VARIANT_SUB_GROUPS
                         ? sub_groups_are_faster(&probe)
                         : products_are_faster(&probe, variant, store);
  self->variants = before;
  gpu_probe_close(&probe);
  return faster;
}
