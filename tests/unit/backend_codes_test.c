/* backend_codes_test.c - what the CPU plugin does between convolutions over int8 weights, where
 * images are codes (cpu_codes.c): a sum, a ReLU and a concatenation behind a kernel over three
 * channels, on every instruction set, against plain loops in double; and a convolution of so many
 * channels that workers share its panels out (cpu_conv_i8.c: WORDS_HUGE). */
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

#include "accel/plugin.h"
#include "program/program.h"

/* Channels of x, of what all but the first read, of what is added, of what is set beside it, of y;
 * but x's as many as coded convolutions have at least, on all instruction sets. */
enum {
  GIVEN = 3,
  IN = 68,
  SUM = 72,
  BESIDE = 48,
  OUT = 56,
  MANY = 384, /* times MANY_OUT: pairs above 2^17, and few windows of words */
  MANY_OUT = 352,
  HIGH = 13,
  WIDE = 21,
  PIXELS = HIGH * WIDE
};
enum { WEIGHTS = 8, TAPS = 9, MOST = MANY * MANY_OUT * TAPS, MOST_ROWS = MANY };
/* Of the root mean square: what eight bits in four layers lose, and seven; and what seven lose in
 * three, one of them as words. */
static const double LOSS = 0.025, LOSS_U7 = 0.033, LOSS_WORDS = 0.04;

typedef struct kernel {
  int64_t out, in, side; /* side x side taps, so many zeros around that the size stays */
  int8_t *code;
  float scale[MOST_ROWS];
} kernel;
static int8_t code[WEIGHTS][MOST];
static kernel weight[WEIGHTS] = {
    {IN, GIVEN, 7, code[0], {0}},         {SUM, IN, 3, code[1], {0}},
    {SUM, IN, 1, code[2], {0}},           {BESIDE, IN, 3, code[3], {0}},
    {OUT, SUM + BESIDE, 3, code[4], {0}}, {MANY, GIVEN, 3, code[5], {0}},
    {MANY_OUT, MANY, 3, code[6], {0}},    {OUT, MANY_OUT, 1, code[7], {0}}};
static float x[GIVEN * PIXELS], y[OUT * PIXELS];
static double wanted[OUT * PIXELS];

static uint32_t seed = 1;
static float drawn(void) {
  seed = seed * 1664525u + 1013904223u;
  return (float)(seed >> 8) / 8388608.0f - 1.0f;
}

static void draw_all(void) {
  for (int i = 0; i < GIVEN * PIXELS; i++) x[i] = drawn() * (1 + (float)(i / WIDE % HIGH));
  for (int w = 0; w < WEIGHTS; w++) {
    const int64_t n = weight[w].out * weight[w].in * weight[w].side * weight[w].side;
    for (int64_t i = 0; i < n; i++) weight[w].code[i] = (int8_t)lrintf(127 * drawn());
    for (int64_t i = 0; i < weight[w].out; i++) weight[w].scale[i] = 0.001f * (2 + drawn());
  }
}

/* ---- in double ---- */

static double at(const double *plane, int64_t row, int64_t col) {
  return row < 0 || row >= HIGH || col < 0 || col >= WIDE ? 0 : plane[row * WIDE + col];
}

static void convolve(const kernel *w, const double *from, double *to) {
  const int64_t reach = w->side / 2, taps = w->side * w->side;
  for (int64_t o = 0; o < w->out; o++)
    for (int64_t p = 0; p < PIXELS; p++) {
      double sum = 0;
      for (int64_t c = 0; c < w->in; c++)
        for (int64_t t = 0; t < taps; t++)
          sum +=
              w->code[(o * w->in + c) * taps + t] *
              at(from + c * PIXELS, p / WIDE + t / w->side - reach, p % WIDE + t % w->side - reach);
      to[o * PIXELS + p] = sum * (double)w->scale[o];
    }
}

static void compute_wanted_of_many(void) {
  static double given[GIVEN * PIXELS], first[MANY * PIXELS], second[MANY_OUT * PIXELS];
  for (int i = 0; i < GIVEN * PIXELS; i++) given[i] = (double)x[i];
  convolve(&weight[5], given, first);
  convolve(&weight[6], first, second);
  for (int i = 0; i < MANY_OUT * PIXELS; i++) second[i] = fmax(0, second[i]);
  convolve(&weight[7], second, wanted);
}

static void compute_wanted(void) {
  static double given[GIVEN * PIXELS], stem[IN * PIXELS], first[SUM * PIXELS], second[SUM * PIXELS],
      joined[(SUM + BESIDE) * PIXELS];
  for (int i = 0; i < GIVEN * PIXELS; i++) given[i] = (double)x[i];
  convolve(&weight[0], given, stem);
  convolve(&weight[1], stem, first);
  convolve(&weight[2], stem, second);
  for (int i = 0; i < SUM * PIXELS; i++) joined[i] = fmax(0, first[i] + second[i]);
  convolve(&weight[3], stem, joined + SUM * PIXELS);
  convolve(&weight[4], joined, wanted);
}

/* ---- by the plugin ---- */

static accel__tensor conv_of(accel__program *p, int index, accel__tensor from) {
  static const char *const names[WEIGHTS] = {"stem", "first", "second", "beside",
                                             "last", "many",  "huge",   "few"};
  const kernel *w = &weight[index];
  accel__weight_spec spec = {.name = names[index],
                             .use = ACCEL_PLUGIN_USE_CONV,
                             .rank = 4,
                             .dim = {w->out, w->in, w->side, w->side}};
  const int64_t reach = w->side / 2, pads[4] = {reach, reach, reach, reach};
  accel__attr attr[] = {ACCEL_IV(PADS, pads, 4)};
  return accel__node(p, ACCEL_PLUGIN_OP_CONV, (accel__tensor[]){from, accel__weight(p, &spec)}, 2,
                     attr, 1, NULL, 0);
}

static accel__tensor given_of(accel__program *p) {
  const accel__dim dims[4] = {accel__const_dim(p, 1), accel__const_dim(p, GIVEN),
                              accel__const_dim(p, HIGH), accel__const_dim(p, WIDE)};
  return accel__input(p, "x", ACCEL_PLUGIN_F32, -1, 4, dims);
}

static accel__program *build_many(void) {
  accel__program *p = accel__program_new("many");
  accel__tensor given = given_of(p),
                huge = accel__unary(p, ACCEL_PLUGIN_ACT_RELU, conv_of(p, 6, conv_of(p, 5, given))),
                few = conv_of(p, 7, huge);
  accel__entry(p, "run", &given, 1, &few, 1);
  if (accel__program_finish(p)) fail_msg("%s", accel__message());
  return p;
}

static accel__program *build(void) {
  accel__program *p = accel__program_new("codes");
  accel__tensor given = given_of(p), stem = conv_of(p, 0, given), first = conv_of(p, 1, stem),
                second = conv_of(p, 2, stem),
                sum = accel__unary(p, ACCEL_PLUGIN_ACT_RELU,
                                   accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, first, second)),
                beside = conv_of(p, 3, stem);
  accel__attr axis[] = {ACCEL_I(AXIS, 1)};
  accel__tensor joined = accel__node(p, ACCEL_PLUGIN_OP_CONCAT, (accel__tensor[]){sum, beside}, 2,
                                     axis, 1, NULL, 0),
                last = conv_of(p, 4, joined);
  accel__entry(p, "run", &given, 1, &last, 1);
  if (accel__program_finish(p)) fail_msg("%s", accel__message());
  return p;
}

static uint32_t first_weight; /* of the program that runs */
static int32_t map(void *self, uint32_t index, accel_plugin_weight_view *out,
                   accel_plugin_error *error) {
  (void)self, (void)error;
  const kernel *w = &weight[first_weight + index];
  *out = (accel_plugin_weight_view){.data = w->code, .scale = w->scale};
  return 0;
}
static void unmap(void *self, uint32_t index) { (void)self, (void)index; }
/* Workers whose tasks come in another order than they are numbered. */
static uint32_t workers;
static void run_tasks(void *self, uint32_t n, accel_plugin_task_fn fn, void *arg) {
  (void)self;
  for (uint32_t i = n; i-- > 0;) fn(arg, i, (i * 7 + 3) % workers);
}
static uint32_t count(void *self) { return (void)self, workers; }

/* False: the machine does not run the instruction set that ACCEL_ISA names. */
static bool run(const accel_plugin *plugin, const accel__program *p) {
  accel_plugin_host host = {.size = sizeof host,
                            .abi = ACCEL_PLUGIN_ABI_NOW,
                            .weight_map = map,
                            .weight_unmap = unmap,
                            .parallel = run_tasks,
                            .workers = count};
  accel_plugin_format format[WEIGHTS];
  for (int i = 0; i < WEIGHTS; i++)
    format[i] = (accel_plugin_format){.store = ACCEL_PLUGIN_I8,
                                      .scale = ACCEL_PLUGIN_F32,
                                      .zero = ACCEL_PLUGIN_NO_DTYPE,
                                      .outer = ACCEL_PLUGIN_NO_DTYPE,
                                      .group_n = 1};
  accel_plugin_options options = {
      .size = sizeof options,
      .host = &host,
      .precision = {.size = sizeof options.precision, .name = "int8", .format = format}};
  accel_plugin_error error = {.size = sizeof error};
  accel_plugin_endpoint *endpoint = NULL;
  if (plugin->init(0, accel__program_view(p), &options, &endpoint, &error)) {
    if (strstr(error.message, "ACCEL_ISA")) return false;
    fail_msg("%s", error.message);
  }
  accel_plugin_view in = {.size = sizeof in,
                          .dtype = ACCEL_PLUGIN_F32,
                          .rank = 4,
                          .host = x,
                          .dim = {1, GIVEN, HIGH, WIDE}},
                    out = {.size = sizeof out,
                           .dtype = ACCEL_PLUGIN_F32,
                           .rank = 4,
                           .host = y,
                           .capacity = sizeof y};
  accel_plugin_run r = {.size = sizeof r, .host = &host};
  if (plugin->handler(endpoint, NULL, &r, &in, 1, &out, 1, &error)) fail_msg("%s", error.message);
  plugin->cleanup(endpoint, &host);
  return true;
}

static const accel_plugin *plugin;

/* By name of the instruction set, with some numbers of workers below `end`; false on a machine
 * without it. */
static bool check_isa(const accel__program *p, const char *isa, double loss, uint32_t end) {
  static float once[OUT * PIXELS];
  double off = 0, size = 0;
  setenv("ACCEL_ISA", isa, 1);
  workers = 1;
  if (!run(plugin, p)) return false;
  memcpy(once, y, sizeof y);
  for (int i = 0; i < OUT * PIXELS; i++) {
    off += ((double)y[i] - wanted[i]) * ((double)y[i] - wanted[i]);
    size += wanted[i] * wanted[i];
  }
  if (!(sqrt(off / size) <= loss))
    fail_msg("%s: %g of the result's size off", isa, sqrt(off / size));
  for (workers = 2; workers < end; workers = workers * 3 + 1) {
    assert_true(run(plugin, p));
    assert_memory_equal(once, y, sizeof y);
  }
  return true;
}

static void test_isas(void **state) {
  static const char *const isas[] = {"amx",  "avx512vnni", "avx512", "avxvnni",
                                     "avx2", "neondot",    "neon",   "scalar"};
  (void)state;
  draw_all();
  compute_wanted();
  first_weight = 0;
  accel__program *p = build();
  bool scalar = false; /* the last one, which every processor of the list runs */
  for (size_t i = 0; i < sizeof isas / sizeof *isas; i++)
    scalar = check_isa(p, isas[i],
                       strcmp(isas[i], "avx512") && strcmp(isas[i], "avx2") ? LOSS : LOSS_U7, 40);
  assert_true(scalar);
  accel__program_free(&p);
}

/* Where the codes of words have seven bits: elsewhere channels are too many for them. */
static void test_many(void **state) {
  (void)state;
  draw_all();
  compute_wanted_of_many();
  first_weight = 5;
  accel__program *p = build_many();
  const bool one = check_isa(p, "avx2", LOSS_WORDS, 8),
             other = check_isa(p, "avx512", LOSS_WORDS, 8);
  accel__program_free(&p);
  if (!one && !other) skip();
}

int main(void) {
  void *library = dlopen(ACCEL_TEST_PLUGINS "/libaccel_cpu.so", RTLD_NOW | RTLD_LOCAL);
  accel_plugin_query_fn query = NULL;
  if (library) *(void **)&query = dlsym(library, ACCEL_PLUGIN_QUERY_SYMBOL);
  plugin = query ? query(NULL, ACCEL_PLUGIN_ABI_NOW) : NULL;
  if (!plugin) return fprintf(stderr, "%s\n", dlerror()), 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_isas), cmocka_unit_test(test_many)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
