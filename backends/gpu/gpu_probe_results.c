/* gpu_probe_results.c - does a kernel variant give right results on a device?  Products of numbers
 * whose products and sums are exact in any order, of codes with a scale for each row and with
 * groups along k, and softmaxes compared with double precision. */
#include "gpu/gpu_probe_results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu_probe.h"

/* Sizes that are no multiple of any tile; MOST_M rows of K floats fit the 64 KiB of
 * ACCEL_GPU_VARIANTS=small_bindings. */
enum { N = 70, K = 228, MOST_M = 70, GROUP = 64, GROUPS = (K + GROUP - 1) / GROUP };

/* ---- products ---- */

/* Whole numbers of at most eight for halves; for bytes codes of the whole range, with a 127 in
 * every group of every row, so that quantising gives the same codes. Sums of K products stay below
 * 2^24. */
static int x_code(gpu_store store, int r, int c) {
  if (store == GPU_STORE_I8)
    return c % GROUP == r % (K % GROUP) ? 127 : (r * 37 + c * 11) % 255 - 127;
  return (r * 5 + c * 3) % 17 - 8;
}
static int w_code(gpu_store store, int r, int c) {
  return store == GPU_STORE_I8 ? (r * 29 + c * 7) % 255 - 127 : (r * 7 + c * 5) % 15 - 7;
}

/* The fp16 or bf16 of a whole number of at most eight. */
static uint32_t half_of(gpu_store store, int v) {
  uint32_t bits;
  const float f = (float)v;
  memcpy(&bits, &f, 4);
  if (store == GPU_STORE_BF16) return bits >> 16;
  return v ? (bits >> 16 & 0x8000u) | ((bits & 0x7fffffffu) - 0x38000000u) >> 13 : 0;
}

typedef struct product_data {
  gpu_store store;
  int64_t group; /* of codes along k */
  float x[MOST_M * K], scale[N * GROUPS], want[MOST_M * N], got[MOST_M * N];
  uint32_t w[N * (K / 2 + 1)];
} product_data;

static void fill_weights(product_data *d) {
  const int per_word = d->store == GPU_STORE_I8 ? 4 : 2, bits = 32 / per_word,
            words = (int)gpu_row_words(d->store, K);
  memset(d->w, 0, sizeof d->w);
  for (int i = 0; i < N * GROUPS; i++) d->scale[i] = (float)(1 << i % 4) / 64;
  for (int r = 0; r < N; r++)
    for (int c = 0; c < K; c++) {
      const int v = w_code(d->store, r, c);
      const uint32_t code = d->store == GPU_STORE_I8 ? (uint32_t)v & 255u : half_of(d->store, v);
      d->w[r * words + c / per_word] |= code << (c % per_word * bits);
    }
}

static void fill(product_data *d) {
  const int64_t groups = gpu_ceil_div(K, d->group);
  const float unit = d->store == GPU_STORE_I8 ? 0.125f : 1.0f;
  fill_weights(d);
  for (int r = 0; r < MOST_M; r++) {
    for (int c = 0; c < K; c++) d->x[r * K + c] = (float)x_code(d->store, r, c) * unit;
    for (int n = 0; n < N; n++) {
      double sum = 0;
      for (int c = 0; c < K; c++)
        sum += x_code(d->store, r, c) * w_code(d->store, n, c) *
               (d->store == GPU_STORE_I8 ? (double)d->scale[n * groups + c / d->group] : 1.0);
      d->want[r * N + n] = (float)(sum * (double)unit);
    }
  }
}

/* A vendor's division may be off by a few units in the last place; a wrong product is off by
 * more. */
static bool products_match(const product_data *d, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (!(fabsf(d->got[i] - d->want[i]) <= 1e-6f * fabsf(d->want[i]) + 1e-3f)) return false;
  return true;
}

static int32_t upload(gpu_probe *probe, int which, const void *data, uint64_t bytes,
                      accel_plugin_error *error) {
  return gpu_upload(probe->self, probe->memory[which], 0, data, bytes, error);
}

/* Small tiles, large tiles, and the kernels for few rows, with groups of d->group codes along k. */
static int32_t try_products(gpu_probe *probe, product_data *d, bool *right,
                            accel_plugin_error *error) {
  static const struct {
    int64_t m;
    uint32_t tile;
  } shape[] = {{MOST_M, 64}, {MOST_M, GPU_LARGE_ROWS}, {5, 64}};
  double ms;
  fill(d);
  int32_t rc = gpu_probe_open(probe, d->store, MOST_M, N, K, d->group, error);
  if (!rc) rc = upload(probe, GPU_PROBE_X, d->x, sizeof d->x, error);
  if (!rc)
    rc = upload(probe, GPU_PROBE_W, d->w, (uint64_t)N * probe->product.w.w.row_words * 4, error);
  if (!rc)
    rc = upload(probe, GPU_PROBE_SCALE, d->scale, probe->memory[GPU_PROBE_SCALE]->bytes, error);
  *right = !rc;
  for (size_t i = 0; *right && i < sizeof shape / sizeof *shape; i++) {
    const int64_t results = shape[i].m * N;
    probe->product.tile = shape[i].tile;
    rc = gpu_probe_products(probe, shape[i].m, 1, &ms, error);
    if (!rc)
      rc = gpu_download(probe->self, d->got, probe->memory[GPU_PROBE_Y], 0, (uint64_t)results * 4,
                        error);
    *right = !rc && products_match(d, results);
  }
  return rc;
}

/* ---- reductions of rows ---- */

/* Rows differ in their maximum. */
static double softmax_input(int r, int c) { return (r * 7 + c * 13) % 41 * 0.125 + r % 5; }

static bool logarithms_match(const float *got) {
  for (int r = 0; r < MOST_M; r++) {
    double sum = 0;
    for (int c = 0; c < K; c++) sum += exp(softmax_input(r, c));
    for (int c = 0; c < K; c++) {
      const double want = softmax_input(r, c) - log(sum);
      if (!(fabs((double)got[r * K + c] - want) <= 1e-5 * fabs(want) + 1e-5)) return false;
    }
  }
  return true;
}

static int32_t try_softmax(gpu_probe *probe, product_data *d, bool *right,
                           accel_plugin_error *error) {
  float *rows = d->x; /* uploaded, then what comes back */
  double ms;
  for (int i = 0; i < MOST_M * K; i++) rows[i] = (float)softmax_input(i / K, i % K);
  int32_t rc = gpu_probe_open(probe, GPU_STORE_F32, MOST_M, N, K, K, error);
  if (!rc) rc = upload(probe, GPU_PROBE_X, rows, sizeof d->x, error);
  if (!rc) rc = gpu_probe_softmax(probe, MOST_M, K, 1, &ms, error);
  if (!rc) rc = gpu_download(probe->self, rows, probe->memory[GPU_PROBE_Y], 0, sizeof d->x, error);
  *right = !rc && logarithms_match(rows);
  return rc;
}

int32_t gpu_probe_results(gpu_self *self, const accel_plugin_host *host, uint32_t variant,
                          gpu_store store, bool *right, accel_plugin_error *error) {
  const uint32_t before = self->variants;
  const int64_t groups[] = {K, GROUP};
  product_data *d = calloc(1, sizeof *d);
  *right = false;
  if (!d) return kit_no_memory(error, sizeof *d);
  d->store = store;
  self->variants = variant;
  int32_t rc = ACCEL_PLUGIN_OK;
  for (int i = 0; !i || (!rc && *right && i < 2 && store == GPU_STORE_I8); i++) {
    gpu_probe probe = {.self = self, .host = host};
    d->group = groups[i];
    rc = variant == GPU_VARIANT_SUB_GROUPS ? try_softmax(&probe, d, right, error)
                                           : try_products(&probe, d, right, error);
    gpu_probe_close(&probe);
  }
  self->variants = before;
  free(d);
  return rc;
}
