/* models_packed_test.c - what the CPU plugin keeps in the cache: linears, experts and convolutions
 * of coded precisions are quantised by the first load alone; a killed writer's part is continued, a
 * damaged segment costs itself; outputs are the same bytes. */
#include "dispatch/endpoint.h"
#include "models/model_build.h"
#include "test_endpoint.h"
#include "unit/cached.h"

/* Rows of it have whole groups of the four-bit formats. */
#define WIDE_BERT ACCEL_FIXTURES "/models/bert_wide"

static char root[512];

static accel *context_on(const char *directory) {
  accel_params params = test_params();
  accel *ctx;
  params.cache_directory = directory;
  assert_ok(accel_create(&params, &ctx));
  return ctx;
}

static accel_endpoint *open_on(accel *ctx, const char *model, const char *precision) {
  accel_init_params how = accel_init_params_default();
  accel_endpoint *ep;
  how.device = "cpu";
  how.precision = precision;
  assert_ok(accel_init(ctx, model, &how, &ep));
  return ep;
}

/* ---- which weights a load asks for ---- */

static const accel_plugin_host *inner;
static const accel_plugin_precision *formats;
static uint32_t coded_maps;

static int32_t counting_map(void *self, uint32_t index, accel_plugin_weight_view *out,
                            accel_plugin_error *error) {
  coded_maps += formats->format[index].store > ACCEL_PLUGIN_BF16;
  return inner->weight_map(self, index, out, error);
}
static int32_t counting_borrow(void *self, uint32_t index, accel_plugin_weight_view *out,
                               accel_plugin_error *error) {
  coded_maps += formats->format[index].store > ACCEL_PLUGIN_BF16;
  return inner->weight_borrow(self, index, out, error);
}

/* Weights in coded formats that a load of the endpoint's model asks the host for; its own cache is
 * used. */
static uint32_t quantised_by_a_load(accel_endpoint *ep) {
  accel_plugin_host host = ep->host;
  accel_plugin_endpoint *handle;
  accel_plugin_error error = {.size = sizeof error};
  accel_plugin_options options = {
      .size = sizeof options, .precision = ep->placed.precision, .host = &host};
  inner = &ep->host;
  formats = &ep->placed.precision;
  coded_maps = 0;
  host.weight_map = counting_map;
  host.weight_borrow = counting_borrow;
  if (ep->placed.plugin->init(0, accel__program_view(ep->model->program), &options, &handle,
                              &error))
    fail_msg("%s", error.message);
  ep->placed.plugin->cleanup(handle, &host);
  return coded_maps;
}

/* The only entry's segments, of which those before `keep` stay, as a part that was left over. */
static uint32_t leave_part(uint32_t keep) {
  char packed[1024], part[1024];
  accel__cache c = {.directory = root};
  accel__cache_file f;
  snprintf(packed, sizeof packed, "%s", only_file(&c));
  snprintf(part, sizeof part, "%.*s.part", (int)(strlen(packed) - strlen(".packed")), packed);
  assert_int_equal(rename(packed, part), 0);
  int fd = open(part, O_RDWR);
  assert_true(fd >= 0 && accel__cache_file_open(fd, &f, NULL));
  const uint32_t n = f.n;
  for (uint32_t i = keep; i < n; i++) {
    static const accel__cache_segment none;
    assert_int_equal(pwrite(fd, &none, sizeof none, (off_t)(f.table_at + i * sizeof none)),
                     sizeof none);
  }
  accel__cache_file_free(&f);
  close(fd);
  return n;
}

static void damage(uint32_t segment) {
  accel__cache c = {.directory = root};
  accel__cache_file f;
  int fd = open(only_file(&c), O_RDONLY);
  assert_true(fd >= 0 && accel__cache_file_open(fd, &f, NULL) && segment < f.n);
  const off_t at = (off_t)(f.segment[segment].offset + f.segment[segment].bytes / 2);
  accel__cache_file_free(&f);
  close(fd);
  flip(only_file(&c), at);
}

static void begin(const char *name) { snprintf(root, sizeof root, "%s/packed", temp_path(name)); }

static void model_is_kept(const char *model, const char *precision) {
  char where[512], path[512];
  snprintf(where, sizeof where, "%s-%s", model, precision);
  begin(where);
  snprintf(path, sizeof path, "%s/models/%s", ACCEL_FIXTURES, model);
  accel *ctx = context_on(temp_path(where));
  accel_endpoint *ep = open_on(ctx, path, precision);
  accel__cache c = {.directory = root};
  assert_int_equal(count(&c), 1);
  const uint32_t none = quantised_by_a_load(ep); /* tables that no product reads */
  const uint32_t n = leave_part(0);
  const uint32_t all = quantised_by_a_load(ep);
  assert_true(all > none && all - none >= n / 64);
  assert_int_equal(quantised_by_a_load(ep), none);
  leave_part(n - 1); /* one segment of one matrix, or of two that share panels */
  const uint32_t one = quantised_by_a_load(ep);
  assert_in_range(one, none + 1, none + 2);
  assert_int_equal(quantised_by_a_load(ep), none);
  damage(n / 2);
  const uint32_t mended = quantised_by_a_load(ep);
  assert_in_range(mended, none + 1, none + 2);
  assert_int_equal(quantised_by_a_load(ep), none);
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

static void linears_are_kept(void **state) {
  (void)state;
  model_is_kept("bert", "int8");
  model_is_kept("bert_wide", "int4");
  model_is_kept("bert_wide", "fp8");
  model_is_kept("phi3", "int8"); /* gates and values in one matrix */
  model_is_kept("gpt2", "int8"); /* transposed */
}
static void experts_are_kept(void **state) {
  (void)state;
  model_is_kept("qwen3_moe", "int8");
  model_is_kept("mixtral", "int8");
}
static void convolutions_are_kept(void **state) {
  (void)state;
  model_is_kept("resnet", "int8");
  model_is_kept("convnext", "int8");
}

/* Copies of plain weights are not kept. */
static void plain_formats_are_not_kept(void **state) {
  (void)state;
  begin("plain");
  accel *ctx = context_on(temp_path("plain"));
  accel_endpoint *ep = open_on(ctx, TINY_BERT, "bf16");
  accel__cache c = {.directory = root};
  assert_int_equal(count(&c), 0);
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

/* ---- outputs ---- */

static void same_outputs(const accel_tensors *a, const accel_tensors *b) {
  assert_int_equal(a->n, b->n);
  for (uint32_t i = 0; i < a->n; i++) {
    size_t n = 4;
    for (uint32_t r = 0; r < a->item[i].rank; r++) n *= (size_t)a->item[i].dim[r];
    assert_memory_equal(a->item[i].data, b->item[i].data, n);
  }
}

static accel_tensors *outputs_on(accel *ctx, const char *precision) {
  static test_input in;
  accel_tensors *out = NULL;
  accel_endpoint *ep = open_on(ctx, WIDE_BERT, precision);
  fill_input(&in, 3, 2, 9, 1);
  assert_ok(accel_run(ep, &in.list, &out));
  accel_cleanup(&ep);
  return out;
}

static void outputs_are_the_same(void **state) {
  (void)state;
  static const char *const precisions[] = {"int8", "int4", "uint4", "fp8", "fp4"};
  for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++) {
    begin(precisions[i]);
    accel *ctx = context_on(temp_path(precisions[i]));
    accel_params params = test_params();
    accel *without;
    params.no_cache = 1;
    assert_ok(accel_create(&params, &without));
    accel_tensors *want = outputs_on(without, precisions[i]);
    for (int round = 0; round < 4; round++) { /* made, read, continued, mended */
      accel_tensors *got = outputs_on(ctx, precisions[i]);
      same_outputs(want, got);
      accel_tensors_free(&got);
      if (round == 1) leave_part(3);
      if (round == 2) damage(1);
    }
    accel_tensors_free(&want);
    accel_destroy(&without);
    accel_destroy(&ctx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(linears_are_kept),      cmocka_unit_test(experts_are_kept),
      cmocka_unit_test(convolutions_are_kept), cmocka_unit_test(plain_formats_are_not_kept),
      cmocka_unit_test(outputs_are_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
