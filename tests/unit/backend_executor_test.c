/* backend_executor_test.c - runs through the kit: binding and its errors, pruning, cancel,
 * progress, faults, finite outputs, plan cache, trim, program checks and strides, supports and
 * estimate, many threads on one endpoint, and the memory of the system. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "backend_helper.h"

/* ids[T], lengths[B], table[10,4]: rows -> y = gather * 2 [T,4], mean [B,4], logs log(y) [T,4]. */
static const float table_values[40] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14,
                                       15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28,
                                       29, 30, 31, 32, 33, 34, 35, 36, -1, -2, -3, -4};
static const float *const weights[] = {table_values};

static accel__program *small(void) {
  accel__program *p = accel__program_new("small");
  accel__dim rows = accel__symbol(p, "T", 1, 100, 8), items = accel__symbol(p, "B", 1, 0, 1);
  accel__tensor lengths = accel__input(p, "lengths", ACCEL_PLUGIN_I32, -1, 1, &items);
  int32_t space = accel__space_ragged(p, "tokens", lengths, rows, items);
  accel__tensor ids = accel__input(p, "ids", ACCEL_PLUGIN_I32, space, 1, &rows);
  accel__weight_spec spec = {
      .name = "table", .use = ACCEL_PLUGIN_USE_EMBEDDING, .rank = 2, .dim = {10, 4}};
  accel__at(p, 1, "embed");
  accel__tensor x = accel__gather(p, accel__weight(p, &spec), ids);
  accel__tensor y = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, x, x);
  accel__at(p, 2, "pool");
  accel__tensor mean = accel__reduce_rows(p, ACCEL_PLUGIN_REDUCE_MEAN, y, -1, space);
  accel__at(p, 3, "log");
  accel__tensor logs = accel__unary(p, ACCEL_PLUGIN_UNARY_LOG, y);
  accel__tensor in[2] = {lengths, ids}, out[3] = {y, mean, logs};
  accel__entry(p, "run", in, 2, out, 3);
  accel_status rc = accel__program_finish(p);
  if (rc) print_error("%s\n", accel__message());
  assert_int_equal(rc, ACCEL_OK);
  return p;
}

typedef struct fixture {
  accel__program *p;
  toy_host host;
  accel_plugin_endpoint *e;
  accel_plugin_error error;
  int32_t lengths[8], ids[100];
  float y[400], mean[32], logs[400];
  accel_plugin_view in[2], out[3];
} fixture;

static void open_fixture(fixture *f, uint32_t flags) {
  memset(f, 0, sizeof *f);
  f->p = small();
  toy_host_init(&f->host, weights);
  f->e = toy_init(&toy, f->p, &f->host, flags);
  f->error.size = sizeof f->error;
  f->lengths[0] = 2, f->lengths[1] = 1;
  f->ids[0] = 0, f->ids[1] = 3, f->ids[2] = 8;
  f->in[0] = toy_view(ACCEL_PLUGIN_I32, f->lengths, 1, 2, 0);
  f->in[1] = toy_view(ACCEL_PLUGIN_I32, f->ids, 1, 3, 0);
  f->out[0] = (accel_plugin_view){.size = sizeof f->out[0], .host = f->y, .capacity = sizeof f->y};
  f->out[1] =
      (accel_plugin_view){.size = sizeof f->out[0], .host = f->mean, .capacity = sizeof f->mean};
  f->out[2] =
      (accel_plugin_view){.size = sizeof f->out[0], .host = f->logs, .capacity = sizeof f->logs};
}

static void close_fixture(fixture *f) {
  kit_cleanup(f->e, &f->host.host);
  accel__program_free(&f->p);
}

static int32_t go(fixture *f) {
  accel_plugin_run run = {.size = sizeof run, .host = &f->host.host};
  f->error.message[0] = 0;
  return kit_handler(f->e, NULL, &run, f->in, 2, f->out, 3, &f->error);
}

static void expect(fixture *f, int32_t rc, const char *text) {
  int32_t got = go(f);
  if (got != rc || !strstr(f->error.message, text))
    fail_msg("code %d '%s', expected code %d with '%s'", got, f->error.message, rc, text);
  assert_int_equal(f->error.rc, rc);
}

static void runs(void **state) {
  (void)state;
  fixture f;
  open_fixture(&f, 0);
  assert_int_equal(go(&f), 0);
  assert_int_equal(f.out[0].rank, 2);
  assert_int_equal(f.out[0].dim[0], 3);
  assert_int_equal(f.out[1].dim[0], 2);
  assert_true(f.y[0] == 2 && f.y[4] == 26 && f.mean[0] == 14 && f.mean[4] == 66);
  assert_int_equal(f.host.last_done, accel__program_view(f.p)->n_stage);
  assert_true(f.host.progress_calls >= 3);
  close_fixture(&f);
}

static void shapes_are_checked(void **state) {
  (void)state;
  fixture f;
  open_fixture(&f, 0);
  f.in[1].dtype = ACCEL_PLUGIN_F32;
  expect(&f, ACCEL_PLUGIN_E_ARGUMENT, "input 'ids': dtype 0, expected 3");
  f.in[1] = toy_view(ACCEL_PLUGIN_I32, f.ids, 2, 3, 1);
  expect(&f, ACCEL_PLUGIN_E_ARGUMENT, "input 'ids': rank 2, expected 1");
  f.in[1] = toy_view(ACCEL_PLUGIN_I32, f.ids, 1, 101, 0);
  expect(&f, ACCEL_PLUGIN_E_LIMIT, "T is 101, the largest allowed is 100");
  f.in[1] = toy_view(ACCEL_PLUGIN_I32, f.ids, 1, 0, 0);
  expect(&f, ACCEL_PLUGIN_E_ARGUMENT, "T is 0, the smallest allowed is 1");
  f.in[1] = toy_view(ACCEL_PLUGIN_I32, f.ids, 1, 4, 0);
  expect(&f, ACCEL_PLUGIN_E_ARGUMENT, "lengths of row space 'tokens' sum to 3, expected 4 rows");
  f.lengths[0] = -1;
  expect(&f, ACCEL_PLUGIN_E_ARGUMENT, "item 0 is -1");
  f.lengths[0] = 3;
  f.ids[3] = 10;
  expect(&f, ACCEL_PLUGIN_E_ARGUMENT, "index 10 at position 3 is outside 0..9");
  assert_true(f.error.node >= 0);
  f.in[1].host = NULL;
  expect(&f, ACCEL_PLUGIN_E_ARGUMENT, "input 'ids' has no data");
  f.in[0].size = 8;
  expect(&f, ACCEL_PLUGIN_E_ABI, "shorter");
  close_fixture(&f);
}

static void small_outputs_tell_their_size(void **state) {
  (void)state;
  fixture f;
  open_fixture(&f, 0);
  f.out[0].capacity = 3 * 4 * 4 - 1;
  expect(&f, ACCEL_PLUGIN_E_LIMIT, "needs 48 bytes, its buffer has 47");
  assert_int_equal(f.out[0].dim[0], 3);
  assert_int_equal(f.out[1].dim[0], 2);
  assert_int_equal(f.host.launches, 0);
  f.out[0].capacity++;
  assert_int_equal(go(&f), 0);
  close_fixture(&f);
}

static void unwanted_outputs_cost_nothing(void **state) {
  (void)state;
  fixture f;
  open_fixture(&f, 0);
  assert_int_equal(go(&f), 0);
  int all = f.host.launches;
  f.out[2].host = NULL;
  f.host.launches = 0;
  assert_int_equal(go(&f), 0);
  assert_int_equal(f.host.launches, all - 1);
  f.out[0].host = f.out[1].host = NULL;
  f.host.launches = 0;
  assert_int_equal(go(&f), 0);
  assert_int_equal(f.host.launches, 0);
  close_fixture(&f);
}

static void finite_outputs_are_checked_when_asked(void **state) {
  (void)state;
  fixture f;
  open_fixture(&f, 0);
  f.ids[2] = 9; /* negative row: its logarithm is NaN */
  assert_int_equal(go(&f), 0);
  assert_true(isnan(f.logs[8]));
  close_fixture(&f);
  open_fixture(&f, ACCEL_PLUGIN_CHECK_FINITE);
  assert_int_equal(go(&f), 0);
  f.ids[2] = 9;
  expect(&f, ACCEL_PLUGIN_E_NONFINITE, "holds NaN or infinity");
  f.out[2].host = NULL;
  assert_int_equal(go(&f), 0);
  close_fixture(&f);
}

static void cancel_and_faults(void **state) {
  (void)state;
  fixture f;
  open_fixture(&f, 0);
  f.host.cancel_after = 2; /* before the second node */
  expect(&f, ACCEL_PLUGIN_E_CANCELLED, "cancelled");
  assert_int_equal(f.host.launches, 1);
  f.host.fault = "device_lost";
  expect(&f, ACCEL_PLUGIN_E_DEVICE_LOST, "lost");
  f.host.fault = NULL;
  assert_int_equal(go(&f), 0);
  close_fixture(&f);
  /* no memory, in init and in the first run */
  open_fixture(&f, 0);
  f.host.fault = "allocation";
  f.out[0].host = NULL; /* y needs scratch now */
  expect(&f, ACCEL_PLUGIN_E_HOST_MEMORY, "out of memory");
  f.host.fault = NULL;
  assert_int_equal(go(&f), 0);
  f.host.fault = "allocation";
  accel_plugin_format format[1] = {{ACCEL_PLUGIN_F32, 15, 15, 15, 0, 0}};
  accel_plugin_options o = {.size = sizeof o,
                            .host = &f.host.host,
                            .precision = {.size = sizeof o.precision, .format = format}};
  accel_plugin_endpoint *e;
  assert_int_equal(kit_init(&toy, 0, accel__program_view(f.p), &o, &e, &f.error),
                   ACCEL_PLUGIN_E_HOST_MEMORY);
  assert_null(e);
  close_fixture(&f);
}

static void trim_gives_scratch_back(void **state) {
  (void)state;
  fixture f;
  open_fixture(&f, 0);
  f.out[0].host = NULL;
  uint64_t released = 99;
  assert_int_equal(kit_trim(f.e, &released, &f.error), 0);
  assert_int_equal(released, 0);
  assert_int_equal(go(&f), 0);
  assert_int_equal(kit_trim(f.e, &released, &f.error), 0);
  assert_true(released >= 3 * 4 * 4);
  assert_int_equal(go(&f), 0);
  close_fixture(&f);
}

/* What a plan holds must not depend on lengths: same T and B, other lengths, and more shapes than
 * the cache has room for. */
static void plans_are_reused_rightly(void **state) {
  (void)state;
  fixture f;
  open_fixture(&f, 0);
  for (int round = 0; round < 3; round++)
    for (int t = 2; t < 40; t++) {
      f.in[1].dim[0] = t;
      f.lengths[0] = 1 + (t + round) % (t - 1);
      f.lengths[1] = t - f.lengths[0];
      for (int i = 0; i < t; i++) f.ids[i] = (i * 7 + round) % 9;
      assert_int_equal(go(&f), 0);
      double sum = 0;
      for (int i = 0; i < f.lengths[0]; i++) sum += 2 * table_values[f.ids[i] * 4];
      assert_true(fabs(f.mean[0] - sum / f.lengths[0]) < 1e-4);
    }
  close_fixture(&f);
}

/* A caller of another version: longer structs, larger strides. */
static void strides_are_followed(void **state) {
  (void)state;
  fixture f;
  open_fixture(&f, 0);
  accel_plugin_program p = *accel__program_view(f.p);
  enum { WIDE = 256 };
  char *tensors = calloc(p.n_tensor, WIDE), *nodes = calloc(p.n_node, WIDE);
  for (uint32_t i = 0; i < p.n_tensor; i++)
    memcpy(tensors + i * WIDE, &p.tensor[i], sizeof *p.tensor);
  for (uint32_t i = 0; i < p.n_node; i++) memcpy(nodes + i * WIDE, &p.node[i], sizeof *p.node);
  p.tensor = (const accel_plugin_tensor *)(void *)tensors;
  p.node = (const accel_plugin_node *)(void *)nodes;
  p.tensor_stride = p.node_stride = WIDE;
  accel_plugin_program *copy;
  assert_int_equal(kit_program_copy(&p, &copy, &f.error), 0);
  memset(tensors, 0xee, p.n_tensor * WIDE);
  memset(nodes, 0xee, p.n_node * WIDE);
  assert_int_equal(copy->n_node, p.n_node);
  assert_string_equal(copy->tensor[copy->entry[0].in[1]].name, "ids");
  kit_program_free(copy);
  free(tensors);
  free(nodes);
  close_fixture(&f);
}

static void broken_programs_are_refused(void **state) {
  (void)state;
  fixture f;
  open_fixture(&f, 0);
  const accel_plugin_program *good = accel__program_view(f.p);
  accel_plugin_program *copy, p = *good;
  accel_plugin_dim *dims = malloc(p.n_dim * sizeof *dims);
  memcpy(dims, p.dim, p.n_dim * sizeof *dims);
  p.dim = dims;
  dims[p.n_dim - 1] =
      (accel_plugin_dim){.op = ACCEL_PLUGIN_DIM_ADD, .a = (int32_t)p.n_dim - 1, .b = 0};
  assert_int_equal(kit_program_copy(&p, &copy, &f.error), ACCEL_PLUGIN_E_ARGUMENT);
  dims[p.n_dim - 1].op = 77;
  assert_int_equal(kit_program_copy(&p, &copy, &f.error), ACCEL_PLUGIN_E_UNSUPPORTED);
  p = *good;
  accel_plugin_entry entry = p.entry[0];
  p.entry = &entry;
  int32_t backwards[16];
  for (uint32_t i = 0; i < entry.n_node; i++)
    backwards[i] = good->entry[0].node[entry.n_node - 1 - i];
  entry.node = backwards;
  assert_int_equal(kit_program_copy(&p, &copy, &f.error), ACCEL_PLUGIN_E_ARGUMENT);
  assert_non_null(strstr(f.error.message, "is not known yet"));
  p = *good;
  p.abi = ACCEL_PLUGIN_ABI(9, 0);
  assert_int_equal(kit_program_copy(&p, &copy, &f.error), ACCEL_PLUGIN_E_ABI);
  assert_null(copy);
  free(dims);
  close_fixture(&f);
}

static bool stays(const accel_plugin_program *p, uint32_t index,
                  const accel_plugin_format *format) {
  return (void)p, (void)index, format->store == ACCEL_PLUGIN_F32;
}

static void estimates_use_the_planner(void **state) {
  (void)state;
  fixture f;
  open_fixture(&f, 0);
  accel_plugin_format format[1] = {{ACCEL_PLUGIN_F32, 15, 15, 15, 0, 0}};
  accel_plugin_options o = {.size = sizeof o,
                            .host = &f.host.host,
                            .precision = {.size = sizeof o.precision, .format = format}};
  accel_plugin_estimate e = {.size = sizeof e};
  assert_int_equal(kit_estimate(&toy, 0, accel__program_view(f.p), &o, &e, &f.error), 0);
  assert_int_equal(e.weights, 160);
  assert_int_equal(e.peak_load, 320);
  int32_t typical = (int32_t)accel__program_view(f.p)->symbol[0].typical;
  assert_int_equal(e.scratch, typical * 4 * 4); /* the gathered rows; all else goes to the caller */
  int64_t symbol[8] = {100};
  o.symbol = symbol;
  assert_int_equal(kit_estimate(&toy, 0, accel__program_view(f.p), &o, &e, &f.error), 0);
  assert_int_equal(e.scratch, 100 * 4 * 4);
  symbol[0] = 1000000; /* beyond its bound: the bound */
  assert_int_equal(kit_estimate(&toy, 0, accel__program_view(f.p), &o, &e, &f.error), 0);
  assert_int_equal(e.scratch, 100 * 4 * 4);
  o.symbol = NULL;
  kit_backend keeps = toy;
  keeps.weight_by_rows = stays;
  o.in_file = (const uint8_t[1]){1};
  assert_int_equal(kit_estimate(&toy, 0, accel__program_view(f.p), &o, &e, &f.error), 0);
  assert_int_equal(e.in_file, 0);
  assert_int_equal(kit_estimate(&keeps, 0, accel__program_view(f.p), &o, &e, &f.error), 0);
  assert_int_equal(e.in_file, 160);
  format[0].store = ACCEL_PLUGIN_F16; /* toy reads fp32 only */
  accel_plugin_verdict v = {.size = sizeof v};
  o.precision.size = sizeof o.precision;
  assert_int_equal(kit_supports(&toy, accel__program_view(f.p), &o.precision, &v, &f.error), 0);
  assert_int_equal(v.answer, ACCEL_PLUGIN_NO);
  assert_non_null(strstr(v.why, "table"));
  accel_plugin_endpoint *endpoint;
  assert_int_equal(kit_init(&toy, 0, accel__program_view(f.p), &o, &endpoint, &f.error),
                   ACCEL_PLUGIN_E_UNSUPPORTED);
  close_fixture(&f);
}

static void options_are_obeyed_or_refused(void **state) {
  (void)state;
  fixture f;
  open_fixture(&f, 0);
  static const char *const keys[] = {"tile", "wave", NULL};
  kit_backend backend = toy;
  accel_plugin_format format[1] = {{ACCEL_PLUGIN_F32, 15, 15, 15, 0, 0}};
  accel_plugin_options o = {.size = sizeof o,
                            .host = &f.host.host,
                            .extra = "tile=3;speed=9",
                            .precision = {.size = sizeof o.precision, .format = format}};
  accel_plugin_endpoint *e;
  backend.extra = keys;
  assert_int_equal(kit_init(&backend, 0, accel__program_view(f.p), &o, &e, &f.error),
                   ACCEL_PLUGIN_E_UNSUPPORTED);
  assert_non_null(strstr(f.error.message, "option 'speed'"));
  o.extra = "tile=3;wave=64;";
  size_t n = 0;
  const char *value = kit_extra(o.extra, "wave", &n);
  assert_true(n == 2 && !memcmp(value, "64", 2));
  assert_null(kit_extra(o.extra, "wav", &n));
  o.memory_limit = 159; /* the table has 160 bytes */
  assert_int_equal(kit_init(&backend, 0, accel__program_view(f.p), &o, &e, &f.error),
                   ACCEL_PLUGIN_E_HOST_MEMORY);
  o.memory_limit = 160 + 64;
  assert_int_equal(kit_init(&backend, 0, accel__program_view(f.p), &o, &e, &f.error), 0);
  accel_plugin_endpoint *kept = f.e;
  f.e = e;
  assert_int_equal(go(&f), 0); /* three rows of 16 bytes */
  f.in[1].dim[0] = f.lengths[0] = 5;
  f.in[0].dim[0] = 1;
  expect(&f, ACCEL_PLUGIN_E_HOST_MEMORY, "pass the memory limit of 224");
  kit_cleanup(e, &f.host.host);
  f.e = kept;
  close_fixture(&f);
}

typedef struct job {
  fixture *f;
  int id, wrong;
} job;

static void *hammer(void *arg) {
  job *j = arg;
  int32_t lengths[1], ids[60];
  float mean[4], y[240];
  for (int round = 0; round < 300; round++) {
    int t = 1 + (round * 13 + j->id * 7) % 60;
    for (int i = 0; i < t; i++) ids[i] = (i + round + j->id) % 9;
    lengths[0] = t;
    accel_plugin_view in[2] = {toy_view(ACCEL_PLUGIN_I32, lengths, 1, 1, 0),
                               toy_view(ACCEL_PLUGIN_I32, ids, 1, t, 0)};
    accel_plugin_view out[3] = {
        {.size = sizeof out[0], .host = round % 2 ? y : NULL, .capacity = sizeof y},
        {.size = sizeof out[0], .host = mean, .capacity = sizeof mean},
        {.size = sizeof out[0]}};
    accel_plugin_run run = {.size = sizeof run, .host = &j->f->host.host};
    accel_plugin_error error = {.size = sizeof error};
    if (kit_handler(j->f->e, NULL, &run, in, 2, out, 3, &error)) j->wrong++;
    double sum = 0;
    for (int i = 0; i < t; i++) sum += 2 * table_values[ids[i] * 4 + 1];
    if (fabs(mean[1] - sum / t) > 1e-4) j->wrong++;
    if (round % 50 == 7) kit_trim(j->f->e, NULL, &error);
  }
  return NULL;
}

static void many_threads_share_an_endpoint(void **state) {
  (void)state;
  fixture f;
  open_fixture(&f, 0);
  f.host.host.progress = NULL;
  f.host.host.cancelled = NULL;
  pthread_t thread[8];
  job jobs[8];
  for (int i = 0; i < 8; i++) {
    jobs[i] = (job){.f = &f, .id = i};
    assert_int_equal(pthread_create(&thread[i], NULL, hammer, &jobs[i]), 0);
  }
  for (int i = 0; i < 8; i++) {
    pthread_join(thread[i], NULL);
    assert_int_equal(jobs[i].wrong, 0);
  }
  close_fixture(&f);
}

static uint64_t mem_available(void) {
  FILE *f = fopen("/proc/meminfo", "r");
  unsigned long long kib = 0;
  assert_non_null(f);
  for (char line[128]; !kib && fgets(line, sizeof line, f);)
    (void)!sscanf(line, "MemAvailable: %llu", &kib);
  fclose(f);
  return kib * 1024;
}

/* After a large build the page cache holds nearly all memory; a device that computes in it must not
 * answer that only the few free pages are left.  Others take and give memory meanwhile. */
static void caches_count_as_free_memory(void **state) {
  (void)state;
  const uint64_t before = mem_available();
  accel_plugin_memory m = {.size = sizeof m};
  assert_int_equal(kit_system_memory(&m, NULL), ACCEL_PLUGIN_OK);
  const uint64_t after = mem_available(), low = before < after ? before : after,
                 high = before < after ? after : before;
  assert_true(m.free > low - low / 4 && m.free < high + high / 4);
  assert_true(m.budget == m.free && m.free <= m.total && m.shared_with_host == m.total);
  assert_int_equal(m.size, sizeof m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs),
      cmocka_unit_test(shapes_are_checked),
      cmocka_unit_test(small_outputs_tell_their_size),
      cmocka_unit_test(unwanted_outputs_cost_nothing),
      cmocka_unit_test(finite_outputs_are_checked_when_asked),
      cmocka_unit_test(cancel_and_faults),
      cmocka_unit_test(trim_gives_scratch_back),
      cmocka_unit_test(plans_are_reused_rightly),
      cmocka_unit_test(strides_are_followed),
      cmocka_unit_test(broken_programs_are_refused),
      cmocka_unit_test(estimates_use_the_planner),
      cmocka_unit_test(options_are_obeyed_or_refused),
      cmocka_unit_test(many_threads_share_an_endpoint),
      cmocka_unit_test(caches_count_as_free_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
