/* gpu_variants.c - kernels for what only some devices have (gpu_limits.int_dot, .sub_groups, .matrix):
 * chosen by what the device says of itself, and only after they gave the right numbers there.
 *
 * ACCEL_GPU_VARIANTS overrules the device: "none", or a list of int_dot, sub_groups, matrix_f16,
 * matrix_bf16, matrix_i8; integer dot products are then also taken where the device has no
 * instruction for them, sub-groups also on a CPU behind the API, with "card" in the list that CPU
 * takes the kernels of cards, with "wmma" the emulator those of RDNA3's matrix units, with
 * "cooperative" those of Vulkan's matrices, with "small_bindings" a kernel sees 64 KiB of a buffer
 * at most, with "measure" times are taken on processors, too (tests).
 *
 * A variant is tried when the first endpoint could use it, on numbers whose products and sums are
 * exact; what it then gives may differ by a rounding.  One that fails or is wrong is left out, with
 * a warning, and the plain kernels do its work; one that is right but slower there (gpu_choice.c) is
 * left out, too, unless ACCEL_GPU_VARIANTS names it.  Verdicts are kept in the process, and in the
 * host's cache under device and driver. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu_op_linear.h"

#define LARGE_TILES 0x80000000u /* beside gpu_variant: not a variant, but timed as they are */
enum { DEVICES = 64, ROUNDS = 5, TIMES = 8, WARNING = 1, INFO = 2 };
enum { N = 70, K = 228, MOST_M = 70 }; /* of a trial; MOST_M rows of K fit into "small_bindings" */

static const struct {
  uint32_t bit;
  const char *name;
  gpu_store store; /* of the weights it multiplies */
} variants[] = {{GPU_VARIANT_INT_DOT, "int_dot", GPU_STORE_I8},
                {GPU_VARIANT_MATRIX_F16, "matrix_f16", GPU_STORE_F16},
                {GPU_VARIANT_MATRIX_BF16, "matrix_bf16", GPU_STORE_BF16},
                {GPU_VARIANT_MATRIX_I8, "matrix_i8", GPU_STORE_I8},
                {GPU_VARIANT_SUB_GROUPS, "sub_groups", GPU_STORE_F32}};
enum { VARIANTS = sizeof variants / sizeof *variants };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t tried[DEVICES], passed[DEVICES]; /* for right numbers */
/* for their times; of both gpu_variant, and LARGE_TILES */
static uint32_t timed[DEVICES], slower[DEVICES];
static char why[VARIANTS][300]; /* of the last device that failed it */

/* Kernels by sub-groups, beside those by halving. */
static const uint32_t subgroup_variants[][2] = {
    {GPU_K_softmax_rows, GPU_K_softmax_rows_sub},
    {GPU_K_norm_rows, GPU_K_norm_rows_sub},
    {GPU_K_reduce_rows, GPU_K_reduce_rows_sub},
    {GPU_K_group_norm, GPU_K_group_norm_sub},
    {GPU_K_selective_scan, GPU_K_selective_scan_sub},
    {GPU_K_attention_rows, GPU_K_attention_rows_sub},
    {GPU_K_attention_pages_f32, GPU_K_attention_pages_f32_sub},
    {GPU_K_attention_pages_f16, GPU_K_attention_pages_f16_sub},
    {GPU_K_attention_pages_bf16, GPU_K_attention_pages_bf16_sub}};

/* ---- which ---- */

uint32_t gpu_variant_kernel(uint32_t taken, uint32_t kernel) {
  for (size_t i = 0;
       taken & GPU_VARIANT_SUB_GROUPS && i < sizeof subgroup_variants / sizeof *subgroup_variants;
       i++)
    if (subgroup_variants[i][0] == kernel) return subgroup_variants[i][1];
  return kernel;
}

static bool names(const char *list, const char *name) {
  const size_t n = strlen(name);
  for (const char *at = list; *at; at += *at == ',') {
    const size_t length = strcspn(at, ",");
    if (length == n && !memcmp(at, name, n)) return true;
    at += length;
  }
  return false;
}

static const char *from_env(void) { return getenv("ACCEL_GPU_VARIANTS"); }

void gpu_limits_from_env(gpu_limits *limits) {
  const char *wish = from_env();
  if (wish && names(wish, "small_bindings")) limits->binding = 65536;
  if (wish && names(wish, "wmma")) limits->wmma = limits->wave == 32;
  if (wish && names(wish, "cooperative")) limits->cooperative = limits->wave == 32;
  /* they have no bf16 */
  if (limits->cooperative) limits->matrix &= GPU_VARIANT_MATRIX_F16 | GPU_VARIANT_MATRIX_I8;
  if (!wish || !names(wish, "card")) return;
  limits->cpu = false;
  limits->vector = 0;
}

static uint32_t candidates(const gpu_limits *limits) {
  const char *wish = from_env();
  uint32_t all = limits->matrix;
  if (limits->int_dot || wish) all |= GPU_VARIANT_INT_DOT;
  if (limits->sub_groups && (!limits->cpu || wish)) all |= GPU_VARIANT_SUB_GROUPS;
  for (int i = 0; wish && i < VARIANTS; i++)
    if (!names(wish, variants[i].name)) all &= ~variants[i].bit;
  return all;
}

/* Those of them that the endpoint could use: a weight, or most programs' norms. */
static uint32_t useful(const gpu_self *s, uint32_t all) {
  uint32_t found = all & GPU_VARIANT_SUB_GROUPS;
  for (uint32_t i = 0; i < s->program->n_weight; i++)
    found |= gpu_activations_q_variant(all, &s->weight[i], false);
  return found & GPU_VARIANT_MATRIX_I8 ? found | (all & GPU_VARIANT_INT_DOT) : found;
}

/* ---- a product with known results ---- */

/* Whole numbers of at most eight for halves; codes over eight for bytes, with a 127 in every row,
 * so that they stay what they are.  Sums of K products stay below 2^24. */
static int x_code(const gpu_store store, int r, int c) {
  if (store == GPU_STORE_I8) return c == r % K ? 127 : (r * 37 + c * 11) % 255 - 127;
  return (r * 5 + c * 3) % 17 - 8;
}
static int w_code(const gpu_store store, int r, int c) {
  return store == GPU_STORE_I8 ? (r * 29 + c * 7) % 255 - 127 : (r * 7 + c * 5) % 15 - 7;
}

static uint32_t half_of(gpu_store store, int v) { /* of whole numbers up to eight */
  uint32_t bits;
  const float f = (float)v;
  memcpy(&bits, &f, 4);
  if (store == GPU_STORE_BF16) return bits >> 16;
  return v ? (bits >> 16 & 0x8000u) | ((bits & 0x7fffffffu) - 0x38000000u) >> 13 : 0;
}

typedef struct trial {
  gpu_store store;
  float x[MOST_M * K], scale[N], want[MOST_M * N], got[MOST_M * N];
  uint32_t w[N * K / 2];
  gpu_memory *memory[5]; /* x, w, scale, y, words */
} trial;

static void fill(trial *t) {
  const int per = t->store == GPU_STORE_I8 ? 4 : 2, bits = 32 / per, words = K / per;
  memset(t->w, 0, sizeof t->w);
  for (int r = 0; r < N; r++) t->scale[r] = (float)(1 << r % 4);
  for (int r = 0; r < N; r++)
    for (int c = 0; c < K; c++) {
      const uint32_t code = t->store == GPU_STORE_I8 ? (uint32_t)w_code(t->store, r, c) & 255u
                                                     : half_of(t->store, w_code(t->store, r, c));
      t->w[r * words + c / per] |= code << (c % per * bits);
    }
  for (int r = 0; r < MOST_M; r++) {
    for (int c = 0; c < K; c++)
      t->x[r * K + c] = (float)x_code(t->store, r, c) * (t->store == GPU_STORE_I8 ? 0.125f : 1.0f);
    for (int n = 0; n < N; n++) {
      int64_t sum = 0;
      for (int c = 0; c < K; c++) sum += (int64_t)x_code(t->store, r, c) * w_code(t->store, n, c);
      t->want[r * N + n] = (float)sum * (t->store == GPU_STORE_I8 ? 0.125f * t->scale[n] : 1.0f);
    }
  }
}

static int32_t prepare(gpu_self *s, trial *t, uint64_t words_bytes, accel_plugin_error *error) {
  const uint64_t bytes[5] = {sizeof t->x, sizeof t->w, sizeof t->scale, sizeof t->got, words_bytes};
  const void *data[3] = {t->x, t->w, t->scale};
  int32_t rc = ACCEL_PLUGIN_OK;
  for (int i = 0; !rc && i < 5; i++) rc = gpu_pool_take(&s->pool, bytes[i], &t->memory[i], error);
  for (int i = 0; !rc && i < 3; i++) rc = gpu_upload(s, t->memory[i], 0, data[i], bytes[i], error);
  return rc;
}

/* m rows by tiles of `tile`. */
static int32_t multiply(gpu_self *s, const accel_plugin_host *host, trial *t, gpu_product *p,
                        int64_t m, uint32_t tile, accel_plugin_error *error) {
  const kit_begin begin = {.program = s->program, .host = host};
  const kit_launch l = {.program = s->program, .node = s->program->node};
  kit_tensor x = {.dtype = ACCEL_PLUGIN_F32,
                  .rank = 2,
                  .dim = {m, K},
                  .elements = m * K,
                  .row_stride = K,
                  .buffer = t->memory[0],
                  .weight = -1};
  void *run = NULL;
  double ms = 0;
  p->x = &x;
  p->m = m;
  p->tile = tile;
  int32_t rc = gpu_begin(s, &begin, &run, error);
  if (rc) return rc;
  rc = gpu_activations_q_multiply(run, &l, p, error);
  const int32_t end = gpu_finish(s, run, !rc, &ms, rc ? NULL : error);
  if (!rc) rc = end;
  return rc ? rc : gpu_download(s, t->got, t->memory[3], 0, (uint64_t)m * N * 4, error);
}

/* A vendor's division may be off by a few units in the last place; a wrong product is off by
 * more. */
static bool same(const trial *t, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (!(fabsf(t->got[i] - t->want[i]) <= 1e-6f * fabsf(t->want[i]) + 1e-3f)) return false;
  return true;
}

static int32_t try_products(gpu_self *s, const accel_plugin_host *host, trial *t, bool *right,
                            accel_plugin_error *error) {
  static const struct {
    int64_t m;
    uint32_t tile;
  } shape[] = {{MOST_M, 64}, {MOST_M, GPU_LARGE_ROWS}, {5, 64}};
  gpu_product p = gpu_bare_product(t->store, N, K);
  fill(t);
  int32_t rc = prepare(s, t, gpu_activations_q_bytes(s, &p.w.w, false, MOST_M), error);
  if (rc) return rc;
  p.w.w.data = t->memory[1];
  p.w.w.scale = t->store == GPU_STORE_I8 ? t->memory[2] : NULL;
  p.y = gpu_part(gpu_memory_at(t->memory[3]), 0, sizeof t->got);
  p.words = gpu_memory_at(t->memory[4]);
  *right = true;
  for (size_t i = 0; !rc && *right && i < sizeof shape / sizeof *shape; i++) {
    rc = multiply(s, host, t, &p, shape[i].m, shape[i].tile, error);
    *right = !rc && same(t, shape[i].m * N);
  }
  return rc;
}

/* ---- rows with known sums and maxima ---- */

/* Of a row whose softmax's logarithm is asked for; rows differ in their maximum. */
static double row_number(int r, int c) { return (r * 7 + c * 13) % 41 * 0.125 + r % 5; }

static bool same_logarithms(const float *got) {
  for (int r = 0; r < MOST_M; r++) {
    double sum = 0;
    for (int c = 0; c < K; c++) sum += exp(row_number(r, c));
    for (int c = 0; c < K; c++) {
      const double want = row_number(r, c) - log(sum);
      if (!(fabs((double)got[r * K + c] - want) <= 1e-5 * fabs(want) + 1e-5)) return false;
    }
  }
  return true;
}

/* `times` times; ms as the device has it. */
static int32_t softmax(gpu_self *s, const accel_plugin_host *host, gpu_memory *x, gpu_memory *y,
                       int times, double *ms, accel_plugin_error *error) {
  const kit_begin begin = {.program = s->program, .host = host};
  const kit_launch l = {.program = s->program, .node = s->program->node};
  void *run = NULL;
  int32_t rc = gpu_begin(s, &begin, &run, error);
  if (rc) return rc;
  for (int i = 0; !rc && i < times; i++) {
    gpu_call c = gpu_call_new(run, &l, GPU_K_softmax_rows);
    gpu_bind(&c, gpu_memory_at(x));
    gpu_bind(&c, gpu_memory_at(y));
    gpu_int(&c, MOST_M);
    gpu_int(&c, K);
    gpu_int(&c, 1);
    rc = gpu_dispatch_rows(&c, MOST_M, error);
  }
  const int32_t end = gpu_finish(s, run, !rc, ms, rc ? NULL : error);
  return rc ? rc : end;
}

static int32_t try_sub_groups(gpu_self *s, const accel_plugin_host *host, trial *t, bool *right,
                              accel_plugin_error *error) {
  float *row = t->x; /* [MOST_M, K], as what comes back */
  int32_t rc = ACCEL_PLUGIN_OK;
  for (int i = 0; i < MOST_M * K; i++) row[i] = (float)row_number(i / K, i % K);
  for (int i = 0; !rc && i < 2; i++)
    rc = gpu_pool_take(&s->pool, sizeof t->x, &t->memory[i], error);
  if (!rc) rc = gpu_upload(s, t->memory[0], 0, row, sizeof t->x, error);
  double ms;
  if (!rc) rc = softmax(s, host, t->memory[0], t->memory[1], 1, &ms, error);
  if (!rc) rc = gpu_download(s, row, t->memory[1], 0, sizeof t->x, error);
  *right = !rc && same_logarithms(row);
  return rc;
}

/* ---- verdicts ---- */

static void warn(const accel_plugin_host *host, int which) {
  char text[400];
  snprintf(text, sizeof text, "kernels '%s' are left out on this device: %s", variants[which].name,
           why[which]);
  if (host && host->log) host->log(host->self, WARNING, text);
}

static void key_of(uint32_t device, const char *what, const char *name, char *out, size_t n) {
  accel_plugin_device list[DEVICES];
  uint32_t count = 0;
  uint64_t h = 0xcbf29ce484222325u;
  memset(list, 0, sizeof list);
  for (int i = 0; i < DEVICES; i++) list[i].size = sizeof *list;
  if (gpu_plugin_api.devices(NULL, list, DEVICES, &count, NULL)) count = 0;
  const accel_plugin_device *d = &list[device < DEVICES ? device : 0];
  const char *const parts[] = {d->name, d->arch, d->driver};
  for (int i = 0; device < count && i < 3; i++)
    for (const char *c = parts[i]; *c; c++) h = (h ^ (uint8_t)*c) * 0x100000001b3u;
  snprintf(out, n, "%s-%s-%016llx", what, name, (unsigned long long)h);
}

/* Asks the cache, else tries; `why` is filled.  With the lock held. */
static bool good(gpu_self *s, const kit_open *open, int which) {
  const accel_plugin_host *host = open->options->host;
  const uint32_t bit = variants[which].bit;
  char key[96];
  uint8_t verdict = 0;
  uint64_t n = 1;
  key_of(open->device, "variant", variants[which].name, key, sizeof key);
  if (host && host->cache_get && !host->cache_get(host->self, key, NULL, &n) && n == 1 &&
      !host->cache_get(host->self, key, &verdict, &n) && verdict <= 1) {
    if (!verdict)
      snprintf(why[which], sizeof why[which], "they gave wrong numbers in an earlier process");
    return verdict;
  }
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  trial *t = calloc(1, sizeof *t);
  if (!t) return false;
  const uint32_t before = s->variants;
  bool right = false;
  s->variants = bit;
  t->store = variants[which].store;
  const int32_t rc = bit == GPU_VARIANT_SUB_GROUPS ? try_sub_groups(s, host, t, &right, &error)
                                                   : try_products(s, host, t, &right, &error);
  if (kit_fault(host, "variant")) right = false;
  s->variants = before;
  for (int i = 0; i < 5; i++) gpu_pool_give(&s->pool, t->memory[i]);
  free(t);
  if (!right)
    snprintf(why[which], sizeof why[which], "%s", rc ? error.message : "they give wrong numbers");
  verdict = right;
  const bool known = rc != ACCEL_PLUGIN_E_DEVICE_MEMORY && rc != ACCEL_PLUGIN_E_HOST_MEMORY;
  if (known && host && host->cache_put)
    (void)host->cache_put(host->self, key, &(accel_plugin_part){.data = &verdict, .n = 1}, 1);
  return right;
}

/* ---- times ---- */

static int sub_groups_are_faster(gpu_self *s, const accel_plugin_host *host) {
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  gpu_memory *memory[2] = {NULL, NULL};
  double best[2] = {0, 0}; /* without, with */
  int32_t rc = gpu_pool_take(&s->pool, (uint64_t)MOST_M * K * 4, &memory[0], &error);
  if (!rc) rc = gpu_pool_take(&s->pool, (uint64_t)MOST_M * K * 4, &memory[1], &error);
  for (int i = 0; !rc && i < 2 * (ROUNDS + 1); i++) { /* the first of each compiles */
    double ms = 0;
    s->variants = i % 2 ? GPU_VARIANT_SUB_GROUPS : 0;
    rc = softmax(s, host, memory[0], memory[1], TIMES, &ms, &error);
    if (i / 2 == 1 || (i / 2 > 1 && ms < best[i % 2])) best[i % 2] = ms;
  }
  for (int i = 0; i < 2; i++) gpu_pool_give(&s->pool, memory[i]);
  return rc || !(best[0] > 0 && best[1] > 0) ? -1 : best[1] <= best[0];
}

/* Asks the cache, else measures.  With the lock held. */
static bool is_faster(gpu_self *s, const kit_open *open, uint32_t bit, const char *name,
                      gpu_store store) {
  const accel_plugin_host *host = open->options->host;
  char key[96], text[200];
  uint8_t verdict = 0;
  uint64_t n = 1;
  key_of(open->device, "times", name, key, sizeof key);
  if (host && host->cache_get && !host->cache_get(host->self, key, NULL, &n) && n == 1 &&
      !host->cache_get(host->self, key, &verdict, &n) && verdict <= 1)
    return verdict;
  const uint32_t before = s->variants;
  const int found = kit_fault(host, "slow_variant") ? 0
                    : bit == LARGE_TILES            ? gpu_large_tiles_are_faster(s, host)
                    : bit == GPU_VARIANT_SUB_GROUPS ? sub_groups_are_faster(s, host)
                                                    : gpu_variant_is_faster(s, host, bit, store);
  s->variants = before;
  if (found < 0) return true;
  verdict = found == 1;
  snprintf(text, sizeof text, "kernels '%s' are %s the plain ones on this device", name,
           verdict ? "at least as fast as" : "slower than");
  if (host && host->log) host->log(host->self, INFO, text);
  if (host && host->cache_put)
    (void)host->cache_put(host->self, key, &(accel_plugin_part){.data = &verdict, .n = 1}, 1);
  return verdict;
}

/* Whether times say anything here, and the endpoint is worth their taking: neither the self-test
 * nor a toy is. */
static bool measures(const gpu_self *s) {
  static const uint64_t worth = 8 << 20, worth_in_tests = 8 << 10; /* bytes of weights */
  const char *wish = from_env();
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < s->program->n_weight; i++)
    bytes += (uint64_t)s->weight[i].n * s->weight[i].row_words * 4;
  return wish ? names(wish, "measure") && bytes >= worth_in_tests
              : !s->limits.cpu && !s->limits.emulated && bytes >= worth;
}

/* Those of `taken` that are slower than the plain kernels; sets limits.small_tiles.  With the lock
 * held. */
static uint32_t slow_ones(gpu_self *s, const kit_open *open, uint32_t taken) {
  const uint32_t device = open->device;
  if (!measures(s)) return 0;
  for (int i = 0; i < VARIANTS; i++) {
    const uint32_t bit = variants[i].bit;
    if (!(taken & bit) || timed[device] & bit) continue;
    timed[device] |= bit;
    if (!is_faster(s, open, bit, variants[i].name, variants[i].store)) slower[device] |= bit;
  }
  if (!(timed[device] & LARGE_TILES) && !s->limits.cpu) {
    timed[device] |= LARGE_TILES;
    if (!is_faster(s, open, LARGE_TILES, "large_tiles", GPU_STORE_F32))
      slower[device] |= LARGE_TILES;
  }
  s->limits.small_tiles = slower[device] & LARGE_TILES;
  return slower[device];
}

void gpu_variants_open(gpu_self *s, const kit_open *open) {
  const uint32_t device = open->device,
                 wanted = device < DEVICES ? useful(s, candidates(&s->limits)) : 0;
  s->variants = 0;
  if (device >= DEVICES || !s->program->n_node) return;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < VARIANTS; i++) {
    const uint32_t bit = variants[i].bit;
    if (!(wanted & bit) || tried[device] & bit) continue;
    tried[device] |= bit;
    if (good(s, open, i)) passed[device] |= bit;
  }
  for (int i = 0; i < VARIANTS; i++)
    if (wanted & variants[i].bit & ~passed[device]) warn(open->options->host, i);
  s->variants = wanted & passed[device];
  s->variants &= ~slow_ones(s, open, s->variants);
  pthread_mutex_unlock(&lock);
}
