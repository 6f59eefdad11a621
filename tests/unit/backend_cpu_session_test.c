/* backend_cpu_session_test.c - attention over sessions by the CPU plugin's kernels against the
 * kit's scalar one: prompts, runs of a few rows and single rows, past the lengths at which keys go
 * by tiles and by ranges, over fp32 and int8 states; the same bits for 1 to 4 workers and alone or
 * beside others. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>

#include "backend_helper.h"

enum { HEADS = 6, KV_HEADS = 2, DK = 24, DV = 20, ROWS = 2000, BUCKETS = 8 };

/* ---- the program ---- */

typedef enum variant { PLAIN, WINDOW, CAPPED, T5, ALIBI, MASK, SINKS, POSITIONS, VARIANTS } variant;

/* lengths[B], q[T,H DK], k[T,Hkv DK], v[T,Hkv DV], bias, pos[T], mask[T], sinks[H] -> y[T,H DV] */
static accel__program *program_of(variant kind) {
  accel__program *p = accel__program_new("attention");
  accel__dim rows = accel__symbol(p, "T", 0, 0, 8), items = accel__symbol(p, "B", 1, 0, 1);
  accel__tensor lengths = accel__input(p, "lengths", ACCEL_PLUGIN_I32, -1, 1, &items);
  int32_t space = accel__space_ragged(p, "tokens", lengths, rows, items);
#define ROWS_OF(name, cols) \
  accel__input(p, name, ACCEL_PLUGIN_F32, space, 2, (accel__dim[]){rows, accel__const_dim(p, cols)})
  accel__tensor q = ROWS_OF("q", HEADS * DK), k = ROWS_OF("k", KV_HEADS * DK),
                v = ROWS_OF("v", KV_HEADS * DV);
  accel__dim one[2] = {accel__const_dim(p, BUCKETS), accel__const_dim(p, HEADS)};
  accel__tensor bias =
      accel__input(p, "bias", ACCEL_PLUGIN_F32, -1, kind == T5 ? 2 : 1, kind == T5 ? one : one + 1);
  accel__tensor pos = accel__input(p, "pos", ACCEL_PLUGIN_I32, space, 1, &rows),
                mask = accel__input(p, "mask", ACCEL_PLUGIN_I32, space, 1, &rows),
                sinks = accel__input(p, "sinks", ACCEL_PLUGIN_F32, -1, 1, one + 1);
  bool biased = kind == T5 || kind == ALIBI;
  accel__tensor in[] = {q,
                        k,
                        v,
                        biased ? bias : -1,
                        kind == POSITIONS ? pos : -1,
                        kind == POSITIONS ? pos : -1,
                        kind == MASK ? mask : -1,
                        kind == SINKS ? sinks : -1};
  accel__attr attr[12] = {ACCEL_I(HEADS, HEADS), ACCEL_I(KV_HEADS, KV_HEADS), ACCEL_I(CAUSAL, 1),
                          ACCEL_I(Q_SPACE, space), ACCEL_I(KV_SPACE, space)};
  uint32_t n = 5;
  if (kind == WINDOW || kind == POSITIONS) attr[n++] = (accel__attr)ACCEL_I(WINDOW_LEFT, 500);
  if (kind == CAPPED) attr[n++] = (accel__attr)ACCEL_F(SOFTCAP, 1.5);
  if (kind == T5) attr[n++] = (accel__attr)ACCEL_I(BIAS_KIND, ACCEL_PLUGIN_BIAS_T5_UNIDIRECTIONAL);
  if (kind == T5) attr[n++] = (accel__attr)ACCEL_I(NUM_BUCKETS, BUCKETS);
  if (kind == T5) attr[n++] = (accel__attr)ACCEL_I(MAX_DISTANCE, 40);
  if (kind == ALIBI) attr[n++] = (accel__attr)ACCEL_I(BIAS_KIND, ACCEL_PLUGIN_BIAS_ALIBI);
  accel__with_state(p, accel__state(p, &(accel_plugin_state){.name = "kv",
                                                             .kind = ACCEL_PLUGIN_STATE_KV,
                                                             .heads = KV_HEADS,
                                                             .k_dim = DK,
                                                             .v_dim = DV,
                                                             .share = -1}));
  accel__tensor y = accel__node(p, ACCEL_PLUGIN_OP_ATTENTION, in, 8, attr, n, NULL, 0);
  accel__entry(p, "run", (accel__tensor[]){lengths, q, k, v, bias, pos, mask, sinks}, 8, &y, 1);
  if (accel__program_finish(p)) fail_msg("%s", accel__message());
  return p;
}

/* ---- two implementations of it ---- */

typedef struct side {
  const accel_plugin *plugin; /* NULL: the kit's scalar kernels */
  toy_host host;
  uint32_t workers;
  variant kind;
  accel_plugin_endpoint *e;
  accel_plugin_session *s;
} side;

static const accel_plugin *plugin;
static side *running;
static uint8_t kv; /* of the states */

static int32_t open_toy(kit_open *open, void **self, accel_plugin_error *error) {
  open->kv_dtype = kv;
  return toy_open(open, self, error);
}
static const kit_backend scalar_kernels = {.name = "toy",
                                           .open = open_toy,
                                           .close = toy_close,
                                           .weight = toy_weight,
                                           .launch = toy_launch};

static void backwards(void *self, uint32_t n, accel_plugin_task_fn fn, void *arg) {
  (void)self;
  for (uint32_t i = n; i-- > 0;) fn(arg, i, i % running->workers);
}
static uint32_t count(void *self) { return (void)self, running->workers; }

static void open_side(side *b, const accel_plugin *with, const accel__program *p, variant kind,
                      uint32_t workers) {
  *b = (side){.plugin = with, .workers = workers, .kind = kind};
  accel_plugin_error error = {.size = sizeof error};
  toy_host_init(&b->host, NULL);
  b->host.host.parallel = backwards;
  b->host.host.workers = count;
  accel_plugin_options o = {.size = sizeof o,
                            .host = &b->host.host,
                            .precision = {.size = sizeof o.precision, .name = "fp32", .kv = kv}};
  running = b;
  int32_t rc = with ? with->init(0, accel__program_view(p), &o, &b->e, &error)
                    : kit_init(&scalar_kernels, 0, accel__program_view(p), &o, &b->e, &error);
  if (rc) fail_msg("%s", error.message);
  assert_int_equal(
      with ? with->session_new(b->e, &b->s, &error) : kit_session_new(b->e, &b->s, &error), 0);
}

static void close_side(side *b) {
  if (b->plugin) {
    b->plugin->session_free(b->s);
    b->plugin->cleanup(b->e, &b->host.host);
  } else {
    kit_session_free(b->s);
    kit_cleanup(b->e, &b->host.host);
  }
}

static float noise(int64_t i) {
  return (float)((uint64_t)(i + 77) * 2654435761u % 65521) / 32760.5f - 1.0f;
}

static void fill(float *x, int32_t id, int32_t from, int32_t n, int64_t cols, int64_t salt) {
  for (int64_t i = 0; i < n * cols; i++) x[i] = noise((from * cols + i) * 13 + salt + id * 7919);
}

/* Feeds rows from[i] .. of the sequences; y packed. */
static void feed(side *b, int32_t items, const int32_t *id, const int32_t *from, const int32_t *n,
                 float *y) {
  static float q[ROWS * HEADS * DK], k[ROWS * KV_HEADS * DK], v[ROWS * KV_HEADS * DV],
      bias[BUCKETS * HEADS];
  static int32_t pos[ROWS], mask[ROWS];
  int32_t t = 0;
  for (int32_t i = 0; i < items; t += n[i++]) {
    fill(q + t * HEADS * DK, id[i], from[i], n[i], HEADS * DK, 1);
    fill(k + t * KV_HEADS * DK, id[i], from[i], n[i], KV_HEADS * DK, 2);
    fill(v + t * KV_HEADS * DV, id[i], from[i], n[i], KV_HEADS * DV, 3);
    for (int32_t r = 0; r < n[i]; r++) {
      pos[t + r] = 10 + (from[i] + r) * 3 / 2; /* not one after the other */
      mask[t + r] = (from[i] + r) % 5 != 3;
    }
  }
  for (int i = 0; i < BUCKETS * HEADS; i++) bias[i] = noise(i) * 0.1f;
  accel_plugin_view in[8] = {toy_view(ACCEL_PLUGIN_I32, (void *)n, 1, items, 0),
                             toy_view(ACCEL_PLUGIN_F32, q, 2, t, HEADS * DK),
                             toy_view(ACCEL_PLUGIN_F32, k, 2, t, KV_HEADS * DK),
                             toy_view(ACCEL_PLUGIN_F32, v, 2, t, KV_HEADS * DV),
                             b->kind == T5 ? toy_view(ACCEL_PLUGIN_F32, bias, 2, BUCKETS, HEADS)
                                           : toy_view(ACCEL_PLUGIN_F32, bias, 1, HEADS, 0),
                             toy_view(ACCEL_PLUGIN_I32, pos, 1, t, 0),
                             toy_view(ACCEL_PLUGIN_I32, mask, 1, t, 0),
                             toy_view(ACCEL_PLUGIN_F32, bias, 1, HEADS, 0)};
  accel_plugin_view out = {.size = sizeof out,
                           .dtype = ACCEL_PLUGIN_F32,
                           .host = y,
                           .capacity = (uint64_t)t * HEADS * DV * 4};
  accel_plugin_run run = {
      .size = sizeof run, .host = &b->host.host, .sequence = id, .n_sequence = (uint32_t)items};
  accel_plugin_error error = {.size = sizeof error};
  running = b;
  int32_t rc = b->plugin ? b->plugin->handler(b->e, b->s, &run, in, 8, &out, 1, &error)
                         : kit_handler(b->e, b->s, &run, in, 8, &out, 1, &error);
  if (rc) fail_msg("%s", error.message);
}

/* ---- tests ---- */

/* What both sequences are fed with, run after run: prompts, single rows, a few, and single rows
 * over more than one range.  512 rows, of one sequence or of two, are as many as a tile has keys,
 * and no run before has taken more memory. */
static const int32_t fed[][2] = {{492, 20}, {1, 1}, {5, 1}, {1, 3},
                                 {512, 0},  {1, 1}, {1, 1}, {0, 1}};
enum { RUNS = sizeof fed / sizeof *fed, SIZE = ROWS * HEADS * DV }; /* all runs: 1041 rows */

static void compare(variant kind, int run, const float *got, const float *want, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (!(fabsf(got[i] - want[i]) <= 2e-5f))
      fail_msg("variant %d, run %d: element %lld is %.9g, expected %.9g", kind, run, (long long)i,
               (double)got[i], (double)want[i]);
}

/* What the scalar kernels make of all runs, one after the other: computed once, the same for every
 * instruction set. */
static const float *expected(variant kind, const accel__program *p) {
  static float *kept[2][VARIANTS];
  float **at = &kept[kv == ACCEL_PLUGIN_I8][kind];
  if (*at) return *at;
  float *y = *at = malloc(sizeof(float) * SIZE);
  assert_non_null(y);
  side scalar;
  const int32_t id[2] = {3, 8};
  int32_t from[2] = {0, 0};
  open_side(&scalar, NULL, p, kind, 1);
  for (int r = 0; r < RUNS; r++) {
    feed(&scalar, 2, id, from, fed[r], y);
    for (int i = 0; i < 2; i++) from[i] += fed[r][i];
    y += (fed[r][0] + fed[r][1]) * HEADS * DV;
  }
  close_side(&scalar);
  return *at;
}

static void run_variant(variant kind) {
  static float got[4][SIZE], alone[SIZE];
  accel__program *p = program_of(kind);
  const float *want = expected(kind, p);
  side ours[4], single;
  const int32_t id[2] = {3, 8};
  int32_t from[2] = {0, 0};
  open_side(&single, plugin, p, kind, 2);
  for (uint32_t w = 0; w < 4; w++) open_side(&ours[w], plugin, p, kind, w + 1);
  for (int r = 0; r < RUNS; r++) {
    const int64_t n = (int64_t)(fed[r][0] + fed[r][1]) * HEADS * DV;
    for (int w = 0; w < 4; w++) {
      feed(&ours[w], 2, id, from, fed[r], got[w]);
      compare(kind, r, got[w], want, n);
      assert_int_equal(memcmp(got[w], got[0], (size_t)n * 4), 0);
    }
    feed(&single, 1, id + 1, from + 1, fed[r] + 1, alone);
    assert_int_equal(memcmp(alone, got[0] + (int64_t)fed[r][0] * HEADS * DV,
                            (size_t)fed[r][1] * HEADS * DV * sizeof(float)),
                     0);
    for (int i = 0; i < 2; i++) from[i] += fed[r][i];
    want += n;
  }
  close_side(&single);
  for (int w = 0; w < 4; w++) close_side(&ours[w]);
  accel__program_free(&p);
}

static void test_variants(void **state) {
  (void)state;
  kv = ACCEL_PLUGIN_F32;
  for (variant kind = PLAIN; kind < VARIANTS; kind++) run_variant(kind);
}

static void test_bytes(void **state) {
  (void)state;
  kv = ACCEL_PLUGIN_I8;
  run_variant(PLAIN);
  run_variant(MASK);
}

static int open_plugin(void **state) {
  (void)state;
  char path[512];
  snprintf(path, sizeof path, "%s/libaccel_cpu.so", ACCEL_TEST_PLUGINS);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  accel_plugin_query_fn query = NULL;
  if (library) *(void **)&query = dlsym(library, ACCEL_PLUGIN_QUERY_SYMBOL);
  plugin = query ? query(NULL, ACCEL_PLUGIN_ABI_NOW) : NULL;
  if (!plugin) return fprintf(stderr, "%s\n", dlerror()), 1;
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_variants), cmocka_unit_test(test_bytes)};
  static const char *const isa[] = {"scalar", "neon", "avx2", "avx512"};
  int failures = 0;
  /* init refuses what the machine does not run; a sanitizer is many times as slow */
  for (size_t i = 0; i < sizeof isa / sizeof *isa; i++) {
    setenv("ACCEL_ISA", isa[i], 1);
#if defined(__x86_64__)
    if (i == 1 ||
        (i == 2 && (!__builtin_cpu_supports("avx2") ||
                    (ACCEL_SANITIZER && __builtin_cpu_supports("avx512bw")))) ||
        (i == 3 && !__builtin_cpu_supports("avx512bw")))
      continue;
#else
    if (i > 1) continue;
#endif
    failures += cmocka_run_group_tests_name(isa[i], tests, open_plugin, NULL);
  }
  return failures;
}
