/* backend_gather_test.c - gathered rows that a product of one row alone reads: the CPU plugin sums
 * them up where they lie, on every instruction set, to the bit what it gives of gathered rows.
 * Rows of a table that stays in its file. */
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cmocka.h>

#include "accel/plugin.h"
#include "program/program.h"

/* Rows of the table; products in a group of those that read the same rows, such groups. */
enum { ROWS = 57, SHARING = 2, GROUPS = 19, PRODUCTS = SHARING * GROUPS, MOST_K = 130, COLS = 37 };

static const accel_plugin *plugin;
static float table[ROWS * COLS], weight[PRODUCTS * MOST_K], y[PRODUCTS * COLS];
static float rows[GROUPS * MOST_K * COLS];
static int32_t number[GROUPS * MOST_K];
static int64_t k;

static uint32_t seed = 1;
static float drawn(void) {
  seed = seed * 1664525u + 1013904223u;
  return (float)(seed >> 8) / 8388608.0f - 1.0f;
}

/* y [GROUPS, SHARING, 1, COLS] = weight [.., 1, k] by rows [GROUPS, 1, k, COLS] of -table. */
static accel__program *build(void) {
  accel__program *p = accel__program_new("gathered");
  accel__dim one = accel__const_dim(p, 1), groups = accel__const_dim(p, GROUPS),
             each = accel__const_dim(p, k), all = accel__const_dim(p, GROUPS * k),
             cols = accel__const_dim(p, COLS), dims[2] = {accel__const_dim(p, ROWS), cols};
  accel__tensor given[3] = {
      accel__input(p, "table", ACCEL_PLUGIN_F32, -1, 2, dims),
      accel__input(p, "number", ACCEL_PLUGIN_I32, -1, 1, &all),
      accel__input(p, "weight", ACCEL_PLUGIN_F32, -1, 4,
                   (accel__dim[]){groups, accel__const_dim(p, SHARING), one, each})};
  accel__tensor taken =
      accel__gather(p, accel__unary(p, ACCEL_PLUGIN_UNARY_NEG, given[0]), given[1]);
  accel__tensor in[2] = {given[2],
                         accel__reshape(p, taken, 4, (accel__dim[]){groups, one, each, cols})};
  accel__attr scale = ACCEL_F(SCALE, 0.5);
  accel__tensor out[2] = {accel__node(p, ACCEL_PLUGIN_OP_MATMUL, in, 2, &scale, 1, NULL, 0), taken};
  accel__entry(p, "run", given, 3, out, 2);
  if (accel__program_finish(p)) fail_msg("%s", accel__message());
  return p;
}

/* Workers whose tasks come in another order than they are numbered. */
static uint32_t workers;
static void run_tasks(void *self, uint32_t n, accel_plugin_task_fn fn, void *arg) {
  (void)self;
  for (uint32_t i = n; i-- > 0;) fn(arg, i, (i * 7 + 3) % workers);
}
static uint32_t count(void *self) { return (void)self, workers; }

static accel_plugin_view view(uint8_t dtype, void *data, uint64_t capacity) {
  return (accel_plugin_view){
      .size = sizeof(accel_plugin_view), .dtype = dtype, .host = data, .capacity = capacity};
}

/* With the gathered rows as an output, too, or without.  False: the machine does not run the
 * instruction set that ACCEL_ISA names. */
static bool run(const accel__program *p, bool taken, accel_plugin_error *error) {
  accel_plugin_host host = {
      .size = sizeof host, .abi = ACCEL_PLUGIN_ABI_NOW, .parallel = run_tasks, .workers = count};
  accel_plugin_options options = {.size = sizeof options,
                                  .host = &host,
                                  .precision = {.size = sizeof options.precision, .name = "fp32"}};
  accel_plugin_endpoint *endpoint = NULL;
  *error = (accel_plugin_error){.size = sizeof *error};
  if (plugin->init(0, accel__program_view(p), &options, &endpoint, error)) {
    if (strstr(error->message, "ACCEL_ISA")) return false;
    fail_msg("%s", error->message);
  }
  accel_plugin_view in[3] = {view(ACCEL_PLUGIN_F32, table, sizeof table),
                             view(ACCEL_PLUGIN_I32, number, sizeof number),
                             view(ACCEL_PLUGIN_F32, weight, sizeof weight)},
                    out[2] = {view(ACCEL_PLUGIN_F32, y, sizeof y),
                              view(ACCEL_PLUGIN_F32, taken ? rows : NULL, sizeof rows)};
  in[0].rank = 2, in[0].dim[0] = ROWS, in[0].dim[1] = COLS;
  in[1].rank = 1, in[1].dim[0] = GROUPS * k;
  in[2].rank = 4, in[2].dim[0] = GROUPS, in[2].dim[1] = SHARING, in[2].dim[2] = 1;
  in[2].dim[3] = k;
  accel_plugin_run r = {.size = sizeof r, .host = &host};
  memset(y, 0x7f, sizeof y);
  const int32_t rc = plugin->handler(endpoint, NULL, &r, in, 3, out, 2, error);
  plugin->cleanup(endpoint, &host);
  error->rc = rc;
  return true;
}

static void check_sums(const char *isa) {
  for (int64_t i = 0; i < PRODUCTS; i++)
    for (int64_t c = 0; c < COLS; c++) {
      double sum = 0;
      for (int64_t j = 0; j < k; j++)
        sum -= (double)weight[i * k + j] * (double)table[number[i / SHARING * k + j] * COLS + c];
      if (!(fabs((double)y[i * COLS + c] - sum / 2) <= 1e-5))
        fail_msg("%s, k %d, product %d: %g in place of %g", isa, (int)k, (int)i,
                 (double)y[i * COLS + c], sum / 2);
    }
}

static bool check_isa(const char *isa) {
  static float once[PRODUCTS * COLS];
  accel_plugin_error error;
  setenv("ACCEL_ISA", isa, 1);
  for (k = 1; k <= MOST_K; k += k < 7 ? 6 : 41) {
    accel__program *p = build();
    for (int64_t i = 0; i < GROUPS * k; i++) number[i] = (int32_t)((drawn() + 1) * ROWS / 2);
    workers = 1;
    const bool runs = run(p, false, &error);
    if (runs) {
      assert_int_equal(error.rc, 0);
      memcpy(once, y, sizeof y);
      check_sums(isa);
      for (workers = 1; workers < 40; workers = workers * 3 + 1) {
        assert_true(run(p, workers % 2, &error) && !error.rc);
        assert_memory_equal(once, y, sizeof y);
      }
      number[GROUPS * k - 1] = ROWS; /* the error is that of gathering alone */
      for (int taken = 0; taken < 2; taken++) {
        assert_true(run(p, taken, &error) && error.rc == ACCEL_PLUGIN_E_ARGUMENT);
        assert_non_null(strstr(error.message, "index 57 at position"));
      }
    }
    accel__program_free(&p);
    if (!runs) return false;
  }
  return true;
}

static void draw_all(void) {
  for (int i = 0; i < ROWS * COLS; i++) table[i] = drawn();
  for (int i = 0; i < PRODUCTS * MOST_K; i++) weight[i] = drawn() / MOST_K;
}

static void test_isas(void **state) {
  static const char *const isas[] = {"amx", "avx512", "avx2", "neon", "scalar"};
  (void)state;
  bool scalar = false; /* the last one, which every processor of the list runs */
  draw_all();
  for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) scalar = check_isa(isas[i]);
  assert_true(scalar);
}

/* Numbers below 2^-126 are zeros in a launch and no others; the caller's mode stays. */
static void test_subnormals(void **state) {
  (void)state;
#if defined(__x86_64__)
  accel_plugin_error error;
  unsetenv("ACCEL_ISA");
  draw_all();
  for (int i = 0; i < PRODUCTS * MOST_K; i++) weight[i] = 0x1p-100f;
  for (int i = 0; i < ROWS * COLS; i++) table[i] = i % COLS ? -0x1p-30f : -0x1p-20f;
  memset(number, 0, sizeof number);
  k = 1;
  for (workers = 1; workers < 3; workers++) {
    accel__program *p = build();
    const uint32_t mode = _mm_getcsr();
    assert_true(run(p, false, &error) && !error.rc);
    assert_int_equal(_mm_getcsr() & _MM_FLUSH_ZERO_MASK, mode & _MM_FLUSH_ZERO_MASK);
    assert_int_equal(_mm_getcsr() & _MM_DENORMALS_ZERO_MASK, mode & _MM_DENORMALS_ZERO_MASK);
    for (int i = 0; i < PRODUCTS * COLS; i++)
      assert_true(fpclassify(y[i]) == (i % COLS ? FP_ZERO : FP_NORMAL));
    accel__program_free(&p);
  }
#endif
}

/* ---- a table that stays in its file ---- */

/* A MiB, below which tables are copied. */
enum { FILE_ROWS = 1024, FILE_COLS = 256, READ = 48 };

typedef struct file {
  int64_t calls, rows, fails_at; /* row that cannot be read */
} file;

static float in_file(int64_t row, int64_t col) { return (float)(row * FILE_COLS + col); }

static int32_t read_rows(void *self, uint32_t index, int64_t first, int64_t n, float *out,
                         accel_plugin_error *error) {
  file *f = self;
  (void)index;
  assert_true(first >= 0 && n > 0 && first + n <= FILE_ROWS);
  f->calls++;
  f->rows += n;
  if (f->fails_at >= first && f->fails_at < first + n) {
    snprintf(error->message, sizeof error->message, "no such row");
    return error->rc = ACCEL_PLUGIN_E_IO;
  }
  for (int64_t i = 0; i < n * FILE_COLS; i++) out[i] = in_file(first, i);
  return ACCEL_PLUGIN_OK;
}

/* Nothing but rows is asked for. */
static int32_t map_none(void *self, uint32_t index, accel_plugin_weight_view *out,
                        accel_plugin_error *error) {
  (void)self, (void)index, (void)out, (void)error;
  fail_msg("the table is mapped");
  return ACCEL_PLUGIN_E_IO;
}
static void unmap_none(void *self, uint32_t index) {
  (void)self, (void)index;
  fail_msg("the table is unmapped");
}

/* Rows that follow each other are read together, whatever lies between such runs. */
static void test_runs_of_rows(void **state) {
  static float got[READ * FILE_COLS];
  int32_t wanted[READ];
  (void)state;
  unsetenv("ACCEL_ISA");
  accel__program *p = accel__program_new("table");
  const accel__dim read = accel__const_dim(p, READ);
  const int64_t dims[2] = {FILE_ROWS, FILE_COLS};
  accel__tensor ids = accel__input(p, "ids", ACCEL_PLUGIN_I32, -1, 1, &read),
                table_of = accel__weight(p, &(accel__weight_spec){.name = "table",
                                                                  .use = ACCEL_PLUGIN_USE_EMBEDDING,
                                                                  .rank = 2,
                                                                  .dim = {dims[0], dims[1]}}),
                out = accel__gather(p, table_of, ids);
  accel__entry(p, "run", &ids, 1, &out, 1);
  assert_int_equal(accel__program_finish(p), 0);
  file f = {.fails_at = -1};
  accel_plugin_host host = {.size = sizeof host,
                            .abi = ACCEL_PLUGIN_ABI_NOW,
                            .self = &f,
                            .weight_map = map_none,
                            .weight_unmap = unmap_none,
                            .rows_read = read_rows};
  const accel_plugin_format fp32 = {
      ACCEL_PLUGIN_F32, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 0, 0};
  accel_plugin_options options = {
      .size = sizeof options,
      .host = &host,
      .precision = {.size = sizeof options.precision, .name = "fp32", .format = &fp32},
      .in_file = (const uint8_t[1]){1}};
  accel_plugin_endpoint *endpoint = NULL;
  accel_plugin_error error = {.size = sizeof error};
  if (plugin->init(0, accel__program_view(p), &options, &endpoint, &error))
    fail_msg("%s", error.message);
  /* the last 20 rows, 20 times one row, rows down, the last one again */
  for (int i = 0; i < READ; i++)
    wanted[i] = i < 20 ? FILE_ROWS - 20 + i : i < 40 ? 3 : i < READ - 1 ? 100 - i : FILE_ROWS - 1;
  accel_plugin_view in = view(ACCEL_PLUGIN_I32, wanted, sizeof wanted),
                    to = view(ACCEL_PLUGIN_F32, got, sizeof got);
  in.rank = 1, in.dim[0] = READ;
  accel_plugin_run r = {.size = sizeof r, .host = &host};
  assert_int_equal(plugin->handler(endpoint, NULL, &r, &in, 1, &to, 1, &error), 0);
  assert_int_equal(f.rows, READ);
  assert_int_equal(f.calls, 1 + READ - 20);
  for (int i = 0; i < READ; i++)
    for (int c = 0; c < FILE_COLS; c++)
      assert_true(got[i * FILE_COLS + c] == in_file(wanted[i], c));
  f.fails_at = FILE_ROWS - 3;
  assert_int_equal(plugin->handler(endpoint, NULL, &r, &in, 1, &to, 1, &error), ACCEL_PLUGIN_E_IO);
  assert_non_null(strstr(error.message, "no such row"));
  plugin->cleanup(endpoint, &host);
  accel__program_free(&p);
}

int main(void) {
  void *library = dlopen(ACCEL_TEST_PLUGINS "/libaccel_cpu.so", RTLD_NOW | RTLD_LOCAL);
  accel_plugin_query_fn query = NULL;
  if (library) *(void **)&query = dlsym(library, ACCEL_PLUGIN_QUERY_SYMBOL);
  plugin = query ? query(NULL, ACCEL_PLUGIN_ABI_NOW) : NULL;
  if (!plugin) return fprintf(stderr, "%s\n", dlerror()), 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_isas), cmocka_unit_test(test_subnormals),
                                     cmocka_unit_test(test_runs_of_rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
