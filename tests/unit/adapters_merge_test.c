/* adapters_merge_test.c - LoRA adapters merged while a model is loaded: every line of
 * fixtures/adapters/goldens.list gives PEFT's numbers on the reference plugin and on the CPU, and
 * what is wrong with an adapter is said by file and field. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>

#include <cmocka.h>

#include "accel/accel.h"
#include "unit/adapter_files.h"

#define MODELS   ACCEL_FIXTURES "/models"
#define ADAPTERS ACCEL_FIXTURES "/adapters"

enum { MOST = 4 };

typedef struct line {
  char model[512], golden[640], class_name[96], path[MOST][640];
  accel_adapter_spec adapter[MOST];
  uint32_t n;
} line;

static accel *new_context(uint64_t memory_limit) {
  accel *ctx = NULL;
  accel_params params = accel_params_default();
  params.plugin_path = ACCEL_TEST_BUILD "/lib/accel/0";
  params.threads = 2;
  params.memory_limit = memory_limit;
  params.cache_directory = temp_path("cache");
  assert_int_equal(accel_create(&params, &ctx), ACCEL_OK);
  return ctx;
}

/* "a:1,b:-0.5" */
static void split_adapters(line *l, char *adapters) {
  l->n = 0;
  for (char *one; (one = strsep(&adapters, ",")) != NULL && l->n < MOST; l->n++) {
    char *colon = strrchr(one, ':');
    assert_non_null(colon);
    *colon = 0;
    snprintf(l->path[l->n], sizeof l->path[0], "%s/%s", ADAPTERS, one);
    l->adapter[l->n] = (accel_adapter_spec){l->path[l->n], strtod(colon + 1, NULL)};
  }
}

static bool read_line(FILE *list, line *l) {
  char model[128], adapters[256], golden[160];
  if (fscanf(list, "%127s %255s %159s %95s", model, adapters, golden, l->class_name) != 4)
    return false;
  snprintf(l->model, sizeof l->model, "%s/%s", MODELS, model);
  snprintf(l->golden, sizeof l->golden, "%s/%s", ADAPTERS, golden);
  split_adapters(l, adapters);
  return true;
}

static accel_init_params how_of(const line *l, const char *device, const char *precision) {
  accel_init_params how = accel_init_params_default();
  how.device = device;
  how.precision = precision;
  how.architecture = l->class_name;
  how.adapters = l->adapter;
  how.n_adapters = l->n;
  return how;
}

static bool verify_line(accel *ctx, const line *l, const char *device, const char *precision) {
  accel_init_params how = how_of(l, device, precision);
  accel_verify_report *report = NULL;
  accel_status status = accel_verify(ctx, l->model, &how, l->golden, &report);
  bool passed = status == ACCEL_OK && report && report->passed;
  if (!report) print_error("%s %s: %s: %s\n", device, precision, l->golden, accel_last_error());
  for (uint32_t i = 0; report && i < report->n; i++)
    if (!report->output[i].passed)
      print_error("%s %s: %s %s: max abs %.3e (bound %.3e)\n", device, precision, l->golden,
                  report->output[i].name, report->output[i].max_abs, report->output[i].bound);
  accel_verify_report_free(&report);
  return passed;
}

static void verify_list(const char *device, const char *precision, uint64_t memory_limit) {
  accel *ctx = new_context(memory_limit);
  FILE *list = fopen(ADAPTERS "/goldens.list", "r");
  uint32_t lines = 0, failed = 0;
  line l;
  assert_non_null(list);
  for (; read_line(list, &l); lines++) failed += !verify_line(ctx, &l, device, precision);
  fclose(list);
  accel_destroy(&ctx);
  assert_true(lines >= 18);
  assert_int_equal(failed, 0);
}

static void test_reference(void **state) {
  (void)state;
  verify_list("reference", "fp32", 0);
}

static void test_cpu(void **state) {
  (void)state;
  verify_list("cpu", "fp32", 0);
}

static void test_cpu_bf16(void **state) {
  (void)state;
  verify_list("cpu", "bf16", 0);
}

/* ---- what is wrong is said ---- */

static accel *context; /* of the tests below */

static void check(const char *model, const char *path, accel_status status, const char *says) {
  const accel_adapter_spec spec = {path, 1};
  accel_init_params how = accel_init_params_default();
  how.adapters = &spec;
  how.n_adapters = 1;
  const accel_status got = accel_check_model(context, model, &how);
  if (got != status || (says && !strstr(accel_last_error(), says)))
    fail_msg("status %d, expected %d: %s (expected '%s')", got, status, accel_last_error(),
             says ? says : "");
}

#define LLAMA MODELS "/llama"
#define Q     "base_model.model.model.layers.0.self_attn.q_proj."
#define V     "base_model.model.model.layers.1.self_attn.v_proj."
static const given good[] = {{Q "lora_A.weight", 2, {2, 24}},
                             {Q "lora_B.weight", 2, {24, 2}},
                             {V "lora_A.weight", 2, {2, 24}},
                             {V "lora_B.weight", 2, {12, 2}}};
#define CONFIG(more)                                                                     \
  "{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":4,\"target_modules\":[\"q_proj\",\"v_" \
  "proj\"]" more "}"

static void refuse_config(const char *config, accel_status status, const char *says) {
  check(LLAMA, make_adapter(config, good, 4, 0.5f), status, says);
}

static void test_config(void **state) {
  (void)state;
  refuse_config(CONFIG(""), ACCEL_OK, NULL);
  refuse_config(CONFIG(",\"layer_replication\":null,\"corda_config\":{\"a\":1},\"unheard_of\":[]"),
                ACCEL_OK, NULL);
  refuse_config("{", ACCEL_ERROR_FORMAT, "adapter_config.json");
  refuse_config("[]", ACCEL_ERROR_FORMAT, "expected an object");
  refuse_config("{\"r\":2}", ACCEL_ERROR_FORMAT, "'peft_type'");
  refuse_config("{\"peft_type\":\"IA3\"}", ACCEL_ERROR_UNSUPPORTED, "'peft_type'");
  refuse_config(CONFIG(",\"unheard_of\":[1]"), ACCEL_ERROR_UNSUPPORTED, "'unheard_of'");
  refuse_config(CONFIG(",\"layer_replication\":[[0,2]]"), ACCEL_ERROR_UNSUPPORTED,
                "'layer_replication'");
  refuse_config(CONFIG(",\"trainable_token_indices\":[7]"), ACCEL_ERROR_UNSUPPORTED,
                "'trainable_token_indices'");
  refuse_config(CONFIG(",\"init_lora_weights\":\"pissa\""), ACCEL_ERROR_UNSUPPORTED,
                "'init_lora_weights'");
  refuse_config(CONFIG(",\"bias\":\"some\""), ACCEL_ERROR_UNSUPPORTED, "'bias'");
  refuse_config(CONFIG(",\"use_dora\":true"), ACCEL_ERROR_FORMAT, "lora_magnitude_vector");
  refuse_config(CONFIG(",\"lora_bias\":true"), ACCEL_ERROR_FORMAT, "lora_B.bias");
  refuse_config(CONFIG(",\"use_rslora\":\"yes\""), ACCEL_ERROR_FORMAT, "'use_rslora'");
  refuse_config(CONFIG(",\"exclude_modules\":[\"v_proj\"]"), ACCEL_ERROR_FORMAT,
                "'exclude_modules'");
  refuse_config(CONFIG(",\"layers_to_transform\":0"), ACCEL_ERROR_FORMAT, "'layers_to_transform'");
  refuse_config(CONFIG(",\"layers_to_transform\":[0,1]"), ACCEL_OK, NULL);
  refuse_config(CONFIG(",\"rank_pattern\":{\"v_proj\":3}"), ACCEL_ERROR_FORMAT, "rank");
  refuse_config(CONFIG(",\"rank_pattern\":{\"(\":3}"), ACCEL_ERROR_UNSUPPORTED, "'rank_pattern'");
  refuse_config(CONFIG(",\"alpha_pattern\":{\"v_proj\":-1}"), ACCEL_ERROR_FORMAT,
                "'alpha_pattern'");
  refuse_config("{\"peft_type\":\"LORA\",\"r\":0,\"target_modules\":\"all-linear\"}",
                ACCEL_ERROR_FORMAT, "'r'");
  refuse_config("{\"peft_type\":\"LORA\",\"r\":2,\"target_modules\":[\"q_proj\"]}",
                ACCEL_ERROR_FORMAT, "'target_modules'");
  refuse_config("{\"peft_type\":\"LORA\",\"r\":2,\"target_modules\":\".*q_proj|.*v\"}",
                ACCEL_ERROR_FORMAT, "'target_modules'");
  refuse_config("{\"peft_type\":\"LORA\",\"r\":2,\"target_modules\":\".*\"}", ACCEL_OK, NULL);
}

static void refuse_tensors(const given *tensors, uint32_t n, float value, const char *says) {
  check(LLAMA, make_adapter(CONFIG(",\"modules_to_save\":[\"norm\"]"), tensors, n, value),
        ACCEL_ERROR_FORMAT, says);
}

static void test_tensors(void **state) {
  (void)state;
  refuse_tensors(good, 1, 0.5f, "has no lora_B.weight");
  refuse_tensors(good, 4, NAN, "not finite");
  refuse_tensors(good, 0, 0.5f, "no tensors");
  const given other[] = {
      {"base_model.model.model.layers.7.self_attn.q_proj.lora_A.weight", 2, {2, 24}},
      {"base_model.model.model.layers.7.self_attn.q_proj.lora_B.weight", 2, {24, 2}}};
  refuse_tensors(other, 2, 0.5f, "layers.7.self_attn.q_proj");
  const given narrow[] = {good[0], {Q "lora_B.weight", 2, {23, 2}}};
  refuse_tensors(narrow, 2, 0.5f, "[24,2] is due");
  const given deep[] = {{Q "lora_A.weight", 2, {3, 24}}, {Q "lora_B.weight", 2, {24, 3}}};
  refuse_tensors(deep, 2, 0.5f, "rank 3");
  const given foreign[] = {{"model.layers.0.self_attn.q_proj.lora_A.weight", 2, {2, 24}}};
  refuse_tensors(foreign, 1, 0.5f, "is not named as PEFT");
  const given unknown[] = {{Q "lora_C.weight", 2, {2, 24}}};
  refuse_tensors(unknown, 1, 0.5f, "lora_C.weight");
  const given both[] = {good[0], good[1], {Q "lora_embedding_A", 2, {2, 24}}};
  refuse_tensors(both, 3, 0.5f, "of an embedding");
  const given head[] = {{"base_model.model.head.weight", 2, {3, 24}}};
  refuse_tensors(head, 1, 0.5f, "head.weight");
  const given wide[] = {{"base_model.model.model.norm.weight", 1, {25, 0}}};
  refuse_tensors(wide, 1, 0.5f, "the model needs [24]");
}

static void test_files(void **state) {
  (void)state;
  check(LLAMA, temp_path("nowhere"), ACCEL_ERROR_NOT_FOUND, NULL);
  temp_text("bare/other.json", "{}");
  check(LLAMA, temp_path("bare"), ACCEL_ERROR_NOT_FOUND, "adapter_config.json");
  temp_text("pickled/adapter_config.json", CONFIG(""));
  temp_text("pickled/adapter_model.bin", "x");
  check(LLAMA, temp_path("pickled"), ACCEL_ERROR_UNSUPPORTED, "adapter_model.bin");
  check(MODELS "/bert", ADAPTERS "/llama_plain", ACCEL_ERROR_FORMAT, "the model has no");
  const given table[] = {{"base_model.model.model.embed_tokens.lora_embedding_A", 2, {2, 67}},
                         {"base_model.model.model.embed_tokens.lora_embedding_B", 2, {30, 2}}};
  check(MODELS "/llama_tied",
        make_adapter("{\"peft_type\":\"LORA\",\"r\":2,\"target_modules\":[\"embed_tokens\"]}",
                     table, 2, 0.5f),
        ACCEL_ERROR_UNSUPPORTED, "tied to it");
}

/* Weights in codes are not merged into. */
static void test_quantised(void **state) {
  (void)state;
  const given tensors[] = {
      {"base_model.model.encoder.layer.0.attention.self.query.lora_A.weight", 2, {2, 96}},
      {"base_model.model.encoder.layer.0.attention.self.query.lora_B.weight", 2, {96, 2}}};
  check(MODELS "/quantised/gptq_g32",
        make_adapter("{\"peft_type\":\"LORA\",\"r\":2,\"target_modules\":[\"query\"]}", tensors, 2,
                     0.5f),
        ACCEL_ERROR_UNSUPPORTED, "quantised codes");
}

static void test_arguments(void **state) {
  (void)state;
  const accel_adapter_spec spec = {ADAPTERS "/llama_plain", NAN};
  accel_init_params how = accel_init_params_default();
  how.n_adapters = 1;
  assert_int_equal(accel_check_model(context, LLAMA, &how), ACCEL_ERROR_ARGUMENT);
  how.adapters = &spec;
  assert_int_equal(accel_check_model(context, LLAMA, &how), ACCEL_ERROR_ARGUMENT);
  assert_non_null(strstr(accel_last_error(), "scale"));
  how.random_weights = 1;
  assert_int_equal(accel_check_model(context, LLAMA, &how), ACCEL_ERROR_ARGUMENT);
  assert_non_null(strstr(accel_last_error(), "random"));
}

/* ---- results ---- */

/* logits of the llama for a few tokens; freed by the caller. */
static float *logits(accel *ctx, const char *precision, const accel_adapter_spec *specs, uint32_t n,
                     uint64_t *count) {
  static const int64_t ids[] = {5, 9, 33, 12, 60, 2};
  accel_tensor in = {.name = "input_ids",
                     .dtype = ACCEL_I64,
                     .rank = 2,
                     .dim = {1, 6},
                     .data = (void *)(uintptr_t)ids};
  accel_endpoint *ep = NULL;
  accel_tensors *out = NULL;
  accel_init_params how = accel_init_params_default();
  how.precision = precision;
  how.adapters = specs;
  how.n_adapters = n;
  if (accel_init(ctx, LLAMA, &how, &ep) != ACCEL_OK) fail_msg("%s", accel_last_error());
  const accel_tensors inputs = {.n = 1, .item = &in};
  if (accel_run(ep, &inputs, &out) != ACCEL_OK) fail_msg("%s", accel_last_error());
  *count = 1;
  for (uint32_t d = 0; d < out->item[0].rank; d++) *count *= (uint64_t)out->item[0].dim[d];
  float *copy = malloc(*count * sizeof *copy);
  memcpy(copy, out->item[0].data, *count * sizeof *copy);
  accel_tensors_free(&out);
  accel_cleanup(&ep);
  return copy;
}

static bool same(const float *a, const float *b, uint64_t n) {
  return !memcmp(a, b, n * sizeof *a);
}

/* Scale 0 is the base; the cache of packed weights keeps base, adapter and scale apart. */
static void test_cache_and_scale(void **state) {
  (void)state;
  uint64_t n;
  const accel_adapter_spec zero = {ADAPTERS "/llama_plain", 0}, one = {ADAPTERS "/llama_plain", 1},
                           half = {ADAPTERS "/llama_plain", 0.5};
  for (int again = 0; again < 2; again++) { /* packed, then from the cache */
    float *base = logits(context, "int8", NULL, 0, &n),
          *none = logits(context, "int8", &zero, 1, &n),
          *whole = logits(context, "int8", &one, 1, &n),
          *less = logits(context, "int8", &half, 1, &n);
    assert_true(same(base, none, n));
    assert_false(same(base, whole, n));
    assert_false(same(whole, less, n));
    free(base);
    free(none);
    free(whole);
    free(less);
  }
}

static int begin(void **state) {
  (void)state;
  context = new_context(0);
  return 0;
}

static int end(void **state) {
  (void)state;
  accel_destroy(&context);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reference),      cmocka_unit_test(test_cpu),
      cmocka_unit_test(test_cpu_bf16),       cmocka_unit_test(test_config),
      cmocka_unit_test(test_tensors),        cmocka_unit_test(test_files),
      cmocka_unit_test(test_quantised),      cmocka_unit_test(test_arguments),
      cmocka_unit_test(test_cache_and_scale)};
  return cmocka_run_group_tests(tests, begin, end);
}
