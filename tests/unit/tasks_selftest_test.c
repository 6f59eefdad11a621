/* tasks_selftest_test.c - endpoints that test themselves, and precision tests through the public
 * interface. */
#include <stdio.h>

#include "unit/test_endpoint.h"

static const char *const tiny_entry =
    "{\"models\":[{\"id\":\"tests/tiny-bert\",\"family\":\"bert\",\"description\":\"a BERT small "
    "enough for "
    "tests\",\"task\":\"fill-mask\","
    "\"architecture\":\"BertForMaskedLM\",\"embedding_dim\":24,\"sequence_length\":32,\"config\":{"
    "\"model_type\":\"bert\","
    "\"vocab_size\":61,"
    "\"hidden_size\":24,\"num_hidden_layers\":2,\"num_attention_heads\":3,\"intermediate_size\":40,"
    "\"max_position_"
    "embeddings\":32}}]}";

static void expect_success(accel_endpoint *ep, const char *key, const char *weights) {
  accel_test_report *report;
  assert_ok(accel_self_test(ep, &report));
  assert_int_equal(report->n, 1);
  assert_string_equal(report->key[0], key);
  assert_string_equal(report->value[0], "Success");
  assert_int_equal(report->n_records, 1);
  assert_true(report->record[0].passed);
  assert_true(report->record[0].max_abs < 1e-4);
  assert_int_equal(strncmp(report->record[0].weights, weights, strlen(weights)), 0);
  accel_test_report_free(&report);
  assert_null(report);
}

static void test_local_weights(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_endpoint *cpu = test_endpoint(ctx, "cpu"), *reference = test_endpoint(ctx, "reference");
  expect_success(cpu, "cpu_fp32_test", "local");
  expect_success(reference, "reference_fp32_test", "local");
  accel_destroy(&ctx);
}

/* Its inputs must fit together: a picture of each sequence, its token and its size. */
static void test_pictures(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_endpoint *ep;
  accel_init_params how = accel_init_params_default();
  how.device = "cpu";
  assert_ok(accel_init(ctx, ACCEL_FIXTURES "/models/qwen2_vl", &how, &ep));
  expect_success(ep, "cpu_fp32_test", "local");
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

static void test_random_weights(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_endpoint *ep;
  accel_init_params how = accel_init_params_default();
  how.device = "cpu";
  how.random_weights = 1;
  how.seed = 5;
  assert_ok(accel_registry_add(ctx, tiny_entry));
  assert_ok(accel_init(ctx, "tests/tiny-bert", &how, &ep));
  expect_success(ep, "cpu_fp32_test", "random, seed 5, true shape");
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

static void test_precision_tests(void **state) {
  (void)state;
  const char *hardware[] = {"CPU", "hip"}, *precisions[] = {"float32", "int4"};
  accel *ctx = test_context();
  accel_test_report *report;
  assert_ok(accel_registry_add(ctx, tiny_entry));
  assert_ok(accel_run_precision_tests(ctx, "tests/tiny-bert", hardware, 2, precisions, 2, &report));
  static const char *const keys[] = {"cpu_test", "cpu_fp32_test", "cpu_int4_test",
                                     "amd_test", "amd_fp32_test", "amd_int4_test"};
  assert_int_equal(report->n, 6);
  for (uint32_t i = 0; i < 6; i++) assert_string_equal(report->key[i], keys[i]);
  assert_string_equal(report->value[0], "Success");
  assert_string_equal(report->value[1], "Success");
  assert_string_equal(report->value[2], "Precision not supported");
  assert_int_equal(report->n_records, 1);
  assert_string_equal(report->record[0].platform, "cpu (FP32)");
  accel_test_report_free(&report);
  assert_int_equal(accel_run_precision_tests(ctx, "no/such", NULL, 0, NULL, 0, &report),
                   ACCEL_ERROR_UNKNOWN_MODEL);
  assert_null(report);
  accel_destroy(&ctx);
}

/* A profile decides what is tried: a precision it leaves out is not supported, whatever the plugin
 * can do. */
static void test_profiles_count(void **state) {
  (void)state;
  const char *hardware[] = {"cpu"}, *precisions[] = {"fp32"};
  const int off[] = {0};
  accel *ctx = test_context();
  accel_test_report *report;
  assert_ok(accel_registry_add(ctx, tiny_entry));
  assert_ok(accel_set_precision_profile(ctx, "tests/tiny-bert", "cpu", precisions, off, 1, 1));
  assert_ok(accel_run_precision_tests(ctx, "tests/tiny-bert", hardware, 1, precisions, 1, &report));
  assert_string_equal(report->value[1], "Precision not supported");
  assert_int_equal(report->n_records, 0);
  accel_test_report_free(&report);
  accel_destroy(&ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_local_weights),  cmocka_unit_test(test_pictures),
      cmocka_unit_test(test_random_weights), cmocka_unit_test(test_precision_tests),
      cmocka_unit_test(test_profiles_count),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
