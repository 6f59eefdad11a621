/* cpu_plugin_test.c - the CPU plugin as the core sees it: same bits whatever the number of workers
 * and the batch, weights given back, failures that leave nothing behind. */
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

#include <cmocka.h>

#include "../bench/cpu_encoder.h"
#include "kernels/kernels.h"

enum { VOCAB = 97, HIDDEN = 48, INNER = 1500, HEADS = 3, LAYERS = 1, MAX_ROWS = 800 };

static const accel_plugin *plugin;
static cpu_encoder encoder;
static float *values, *table; /* what every weight is made of, and weight 0 if not NULL */
static float scales[INNER];   /* of int8 weights */

/* ---- a host whose threads are simulated: any number of workers, tasks in an order of its own
 * ---- */

typedef struct simulated {
  uint32_t workers;
  int mapped, maps, fail_map, fail_point; /* fail the n-th map or fault question; 0 never */
  int points;
  bool cancel;
} simulated;

static int32_t map(void *self, uint32_t index, accel_plugin_weight_view *out,
                   accel_plugin_error *error) {
  simulated *s = self;
  if (++s->maps == s->fail_map) {
    error->rc = ACCEL_PLUGIN_E_IO;
    return ACCEL_PLUGIN_E_IO;
  }
  s->mapped++;
  *out = (accel_plugin_weight_view){
      /* most are not aligned */
      .data = index || !table ? (char *)values + index % 3 : (char *)table,
      .scale = encoder.format[index].store == ACCEL_PLUGIN_I8 ? scales : NULL};
  return 0;
}
static void unmap(void *self, uint32_t index) {
  (void)index;
  ((simulated *)self)->mapped--;
}
static void run_parallel(void *self, uint32_t n, accel_plugin_task_fn fn, void *arg) {
  for (uint32_t i = n; i-- > 0;) fn(arg, i, (i * 7 + 3) % ((simulated *)self)->workers);
}
static uint32_t count(void *self) { return ((simulated *)self)->workers; }
static int cancelled(void *self) { return ((simulated *)self)->cancel; }
static int fault(void *self, const char *point) {
  simulated *s = self;
  return !strcmp(point, "allocation") && ++s->points == s->fail_point;
}

static accel_plugin_host host_of(simulated *s) {
  return (accel_plugin_host){.size = sizeof(accel_plugin_host),
                             .abi = ACCEL_PLUGIN_ABI_NOW,
                             .self = s,
                             .weight_map = map,
                             .weight_unmap = unmap,
                             .parallel = run_parallel,
                             .workers = count,
                             .cancelled = cancelled,
                             .fault = fault};
}

static int32_t init(accel_plugin_host *host, accel_plugin_endpoint **out,
                    accel_plugin_error *error) {
  accel_plugin_options options = {
      .size = sizeof options,
      .host = host,
      .precision = {.size = sizeof options.precision, .name = "fp32", .format = encoder.format}};
  *error = (accel_plugin_error){.size = sizeof *error};
  return plugin->init(0, &encoder.p, &options, out, error);
}

static int32_t run(accel_plugin_endpoint *endpoint, accel_plugin_host *host, const int32_t *ids,
                   const int32_t *lengths, int items, float *y, accel_plugin_error *error) {
  int32_t rows = 0;
  for (int i = 0; i < items; i++) rows += lengths[i];
  accel_plugin_view in[2] = {{.size = sizeof *in,
                              .dtype = ACCEL_PLUGIN_I32,
                              .rank = 1,
                              .host = (void *)ids,
                              .dim = {rows}},
                             {.size = sizeof *in,
                              .dtype = ACCEL_PLUGIN_I32,
                              .rank = 1,
                              .host = (void *)lengths,
                              .dim = {items}}};
  accel_plugin_view out = {.size = sizeof out,
                           .dtype = ACCEL_PLUGIN_F32,
                           .rank = 2,
                           .host = y,
                           .capacity = (uint64_t)rows * HIDDEN * 4};
  accel_plugin_run r = {.size = sizeof r, .host = host};
  *error = (accel_plugin_error){.size = sizeof *error};
  return plugin->handler(endpoint, NULL, &r, in, 2, &out, 1, error);
}

/* ---- the tests ---- */

static const int32_t lengths[] = {7, 130, 1, 0, 16, 200, 33, 180, 220};
enum { ITEMS = sizeof lengths / sizeof *lengths };
static int32_t ids[MAX_ROWS];

static void same_bits(void) {
  const uint32_t workers[] = {1, 2, 7};
  static float first[MAX_ROWS * HIDDEN], y[MAX_ROWS * HIDDEN];
  for (int w = 0; w < 3; w++) {
    simulated s = {.workers = workers[w]};
    accel_plugin_host host = host_of(&s);
    accel_plugin_endpoint *endpoint;
    accel_plugin_error error;
    assert_int_equal(init(&host, &endpoint, &error), 0);
    assert_int_equal(run(endpoint, &host, ids, lengths, ITEMS, w ? y : first, &error), 0);
    if (w) assert_int_equal(memcmp(first, y, sizeof first), 0);
    for (int i = 0, row = 0; w == 0 && i < ITEMS; row += lengths[i++]) { /* each item alone */
      memset(y, 0, sizeof y);
      assert_int_equal(run(endpoint, &host, ids + row, &lengths[i], 1, y, &error), 0);
      assert_int_equal(memcmp(first + row * HIDDEN, y, (size_t)lengths[i] * HIDDEN * 4), 0);
    }
    plugin->cleanup(endpoint, &host);
    assert_int_equal(s.mapped, 0);
  }
  for (int i = 0; i < 787 * HIDDEN; i++) assert_true(isfinite(first[i]));
}

/* Enough rows that few workers take the feed-forward part block by block, many of them one linear
 * after the other. */
static void test_same_bits(void **state) {
  (void)state;
  accel_plugin_format kept[sizeof encoder.format / sizeof *encoder.format];
  same_bits();
  memcpy(kept, encoder.format, sizeof kept);
  for (int i = 0; i < INNER; i++) scales[i] = (float)(i % 7 + 1) * 0.001f;
  for (uint32_t i = 0; i < encoder.p.n_weight; i++)
    if (encoder.weight[i].use == ACCEL_PLUGIN_USE_LINEAR)
      encoder.format[i] = (accel_plugin_format){.store = ACCEL_PLUGIN_I8,
                                                .scale = ACCEL_PLUGIN_F32,
                                                .zero = ACCEL_PLUGIN_NO_DTYPE,
                                                .outer = ACCEL_PLUGIN_NO_DTYPE,
                                                .group_n = 1};
  same_bits();
  memcpy(encoder.format, kept, sizeof kept);
}

/* Rows of one sequence depend on each other, those of another do not. */
static void test_nan_stays_in_its_sequence(void **state) {
  (void)state;
  simulated s = {.workers = 2};
  accel_plugin_host host = host_of(&s);
  accel_plugin_endpoint *endpoint;
  accel_plugin_error error;
  static float y[20 * HIDDEN];
  int32_t two[2] = {10, 10}, tokens[20];
  /* the last row of the table is NaN */
  for (int i = 0; i < 20; i++) tokens[i] = i % 10 ? 5 : i ? 6 : 96;
  table = malloc((size_t)encoder.largest * 4);
  memcpy(table, values, (size_t)encoder.largest * 4);
  for (int i = 0; i < HIDDEN; i++) table[96 * HIDDEN + i] = NAN;
  assert_int_equal(init(&host, &endpoint, &error), 0);
  assert_int_equal(run(endpoint, &host, tokens, two, 2, y, &error), 0);
  for (int i = 0; i < 10 * HIDDEN; i++) assert_true(isnan(y[i]) && isfinite(y[10 * HIDDEN + i]));
  plugin->cleanup(endpoint, &host);
  free(table);
  table = NULL;
}

static void test_failures(void **state) {
  (void)state;
  accel_plugin_endpoint *endpoint = NULL;
  accel_plugin_error error;
  simulated good = {.workers = 2};
  accel_plugin_host host = host_of(&good);
  assert_int_equal(init(&host, &endpoint, &error), 0);
  int32_t bad[3] = {1, VOCAB, 2}, three = 3;
  float y[3 * HIDDEN];
  assert_int_equal(run(endpoint, &host, bad, &three, 1, y, &error), ACCEL_PLUGIN_E_ARGUMENT);
  assert_non_null(strstr(error.message, "97"));
  bad[1] = -1;
  assert_int_equal(run(endpoint, &host, bad, &three, 1, y, &error), ACCEL_PLUGIN_E_ARGUMENT);
  plugin->cleanup(endpoint, &host);
  for (int i = 1; i <= good.maps; i++) { /* every map fails once */
    simulated s = {.workers = 2, .fail_map = i};
    host = host_of(&s);
    assert_int_equal(init(&host, &endpoint, &error), ACCEL_PLUGIN_E_IO);
    assert_int_equal(s.mapped, 0);
  }
  for (int i = 1; i <= good.points; i++) { /* every allocation that can be made to fail */
    simulated s = {.workers = 1, .fail_point = i};
    host = host_of(&s);
    endpoint = NULL;
    int32_t rc = init(&host, &endpoint, &error);
    if (rc) assert_int_equal(rc, ACCEL_PLUGIN_E_HOST_MEMORY);
    plugin->cleanup(endpoint, &host);
    assert_int_equal(s.mapped, 0);
  }
  simulated stopped = {.workers = 1, .cancel = true};
  host = host_of(&stopped);
  assert_int_equal(init(&host, &endpoint, &error), ACCEL_PLUGIN_E_CANCELLED);
  assert_int_equal(stopped.mapped, 0);
  plugin->cleanup(NULL, &host);
}

/* Every canonical store is taken, in its own panels or widened, which `why` then says; codes nobody
 * knows are refused. */
static void test_formats(void **state) {
  (void)state;
  accel_plugin_format format[64];
  assert_true(encoder.p.n_weight <= 64);
  for (int store = ACCEL_PLUGIN_F32; store <= ACCEL_PLUGIN_NO_DTYPE; store++) {
    const bool plain = store <= ACCEL_PLUGIN_BF16,
               number = store != ACCEL_PLUGIN_E8M0 && store < ACCEL_PLUGIN_F64;
    accel_plugin_precision p = {.size = sizeof p, .name = "any", .format = format};
    accel_plugin_verdict verdict = {.size = sizeof verdict};
    accel_plugin_error error = {.size = sizeof error};
    if (store == ACCEL_PLUGIN_I32 || store == ACCEL_PLUGIN_I64) continue;
    for (uint32_t i = 0; i < encoder.p.n_weight; i++)
      format[i] = (accel_plugin_format){.store = (uint8_t)store,
                                        .scale = plain ? ACCEL_PLUGIN_NO_DTYPE : ACCEL_PLUGIN_F32,
                                        .zero = ACCEL_PLUGIN_NO_DTYPE,
                                        .outer = ACCEL_PLUGIN_NO_DTYPE,
                                        .group_n = plain ? 0 : 1};
    assert_int_equal(plugin->supports(0, &encoder.p, &p, &verdict, &error), 0);
    if (number)
      assert_int_not_equal(verdict.answer, ACCEL_PLUGIN_NO);
    else
      assert_int_equal(verdict.answer, ACCEL_PLUGIN_NO);
    if (verdict.answer != ACCEL_PLUGIN_NATIVE) assert_non_null(strstr(verdict.why, "weight '"));
  }
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
  memset(&encoder, 0, sizeof encoder);
  cpu_encoder_build(&encoder, VOCAB, HIDDEN, INNER, HEADS, LAYERS);
  values = malloc((size_t)encoder.largest * 4 + 16);
  /* finite floats at every byte offset that map answers */
  for (uint64_t i = 0; i < encoder.largest + 1; i++) {
    float v = (float)(i * 2654435761u % 1009) / 1009.0f * 0.2f - 0.1f;
    memcpy((char *)values + i * 4, &v, 4);
  }
  /* no byte pair makes an exponent of all ones */
  for (uint64_t i = 0; i < (encoder.largest + 1) * 4; i++) {
    uint8_t *b = (uint8_t *)values + i;
    *b &= 0xbf;
  }
  for (int i = 0; i < MAX_ROWS; i++) ids[i] = i * 31 % (VOCAB - 1);
  return 0;
}

static int close_plugin(void **state) {
  (void)state;
  free(values);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_same_bits), cmocka_unit_test(test_nan_stays_in_its_sequence),
      cmocka_unit_test(test_failures), cmocka_unit_test(test_formats)};
  cpu_isa list[CPU_ISA_COUNT];
  int failures = 0;
  for (int i = 0, n = cpu_isa_list(list); i < n; i++) {
    setenv("ACCEL_ISA", cpu_isa_name(list[i]), 1);
    failures +=
        cmocka_run_group_tests_name(cpu_isa_name(list[i]), tests, open_plugin, close_plugin);
  }
  return failures;
}
