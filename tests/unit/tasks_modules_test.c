/* tasks_modules_test.c - modules.json and what it names: what is read, what is passed over, what is
 * refused and how. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "processing/sentence_modules.h"
#include "temp.h"

#define TYPE(kind)  "\"type\":\"sentence_transformers.models." kind "\""
#define TRANSFORMER "{\"idx\":0,\"name\":\"0\",\"path\":\"\"," TYPE("Transformer") "}"
#define POOLING     "{\"path\":\"1_Pooling\"," TYPE("Pooling") "}"

/* A directory of its own for each case, so that no file of another is found in it. */
static char directory[300];
static unsigned cases;

static void begin(const char *modules) {
  char name[64];
  snprintf(name, sizeof name, "case%u", ++cases);
  snprintf(directory, sizeof directory, "%s", temp_path(name));
  snprintf(name, sizeof name, "case%u/modules.json", cases);
  temp_text(name, modules);
}

static void put(const char *file, const char *text) {
  char name[128];
  snprintf(name, sizeof name, "case%u/%s", cases, file);
  temp_text(name, text);
}

static accel_status read_it(accel__arena *arena, accel__sentence_modules *m) {
  return accel__read_sentence_modules(directory, arena, m);
}

static void refused(accel_status status, const char *part) {
  accel__arena arena = {0};
  accel__sentence_modules m;
  assert_int_equal(read_it(&arena, &m), status);
  if (!strstr(accel__message(), part)) fail_msg("'%s' is not in: %s", part, accel__message());
  accel__arena_free(&arena);
}

/* ---- what is read ---- */

static void test_without_modules(void **state) {
  (void)state;
  accel__arena arena = {0};
  accel__sentence_modules m;
  assert_int_equal(accel__read_sentence_modules(temp_directory(), &arena, &m), ACCEL_OK);
  assert_false(m.present);
  assert_true(m.include_prompt);
  assert_string_equal(m.transformer, temp_directory());
  assert_int_equal(m.head.n_pooling, 0);
  accel__arena_free(&arena);
}

static void test_old_spelling(void **state) {
  (void)state;
  accel__arena arena = {0};
  accel__sentence_modules m;
  begin("[" TRANSFORMER "," POOLING
        ",{\"path\":\"2_Dense\"," TYPE("Dense") "},{\"path\":\"\"," TYPE(
            "Dropout") "},{\"path\":\"3_Normalize\"," TYPE("Normalize") "}]");
  put("sentence_roberta_config.json", "{\"max_seq_length\":77,\"do_lower_case\":true}");
  put("1_Pooling/config.json",
      "{\"word_embedding_dimension\":8,\"pooling_mode_cls_token\":true,\"pooling_mode_mean_"
      "tokens\":false,\"pooling_mode_"
      "lasttoken\":true,"
      "\"pooling_mode_max_tokens\":true,\"include_prompt\":false}");
  put("2_Dense/config.json",
      "{\"in_features\":24,\"out_features\":5,\"bias\":false,\"activation_function\":\"torch.nn."
      "modules.linear.Identity\"}");
  put("config_sentence_transformers.json",
      "{\"prompts\":{\"query\":\"q: "
      "\",\"plain\":null},\"default_prompt_name\":\"query\",\"similarity_fn_name\":\"dot\"}");
  assert_int_equal(read_it(&arena, &m), ACCEL_OK);
  assert_true(m.present && m.lower_case && !m.include_prompt);
  assert_int_equal(m.max_seq_length, 77);
  assert_int_equal(m.head.n_pooling, 3); /* in Pooling's order, not the file's */
  assert_int_equal(m.head.pooling[0], ACCEL__POOL_CLS);
  assert_int_equal(m.head.pooling[1], ACCEL__POOL_MAX);
  assert_int_equal(m.head.pooling[2], ACCEL__POOL_LAST);
  assert_int_equal(m.head.n_dense, 1);
  assert_int_equal(m.head.dense[0].in, 24);
  assert_false(m.head.dense[0].bias);
  assert_int_equal(m.head.dense[0].activation, ACCEL_PLUGIN_ACT_NONE);
  assert_string_equal(m.head.dense[0].weight, "2_Dense/linear.weight");
  assert_string_equal(m.dense_prefix[0], "2_Dense/");
  assert_true(m.head.normalize);
  assert_int_equal(m.n_prompts, 2);
  assert_string_equal(m.prompts[0].text, "q: ");
  assert_string_equal(m.prompts[1].text, "");
  assert_string_equal(m.default_prompt, "query");
  accel__arena_free(&arena);
}

static void test_new_spelling(void **state) {
  (void)state;
  accel__arena arena = {0};
  accel__sentence_modules m;
  begin(
      "[{\"path\":\"0_T\",\"type\":\"sentence_transformers.base.modules.transformer.Transformer\"},"
      "{\"path\":\"1_Pooling\",\"type\":\"sentence_transformers.sentence_transformer.modules."
      "pooling.Pooling\"}]");
  put("0_T/sentence_bert_config.json",
      "{\"transformer_task\":\"feature-extraction\",\"modality_config\":{\"text\":{\"method\":"
      "\"forward\"}},\"module_output_"
      "name\":"
      "\"token_embeddings\",\"processing_kwargs\":{},\"query_length\":32,\"tokenizer_args\":{"
      "\"model_max_length\":12}}");
  put("1_Pooling/config.json",
      "{\"embedding_dimension\":8,\"pooling_mode\":[\"lasttoken\",\"mean\"]}");
  assert_int_equal(read_it(&arena, &m), ACCEL_OK);
  assert_int_equal(m.head.n_pooling, 2); /* in the file's order */
  assert_int_equal(m.head.pooling[0], ACCEL__POOL_LAST);
  assert_int_equal(m.head.pooling[1], ACCEL__POOL_MEAN);
  assert_int_equal(m.max_seq_length, 12);
  assert_non_null(strstr(m.transformer, "/0_T"));
  assert_true(m.include_prompt);
  accel__arena_free(&arena);
}

static void test_pooling_defaults_to_mean(void **state) {
  (void)state;
  accel__arena arena = {0};
  accel__sentence_modules m;
  begin("[" TRANSFORMER "," POOLING "]");
  put("1_Pooling/config.json", "{\"word_embedding_dimension\":8}");
  assert_int_equal(read_it(&arena, &m), ACCEL_OK);
  assert_int_equal(m.head.n_pooling, 1);
  assert_int_equal(m.head.pooling[0], ACCEL__POOL_MEAN);
  accel__arena_free(&arena);
}

static void test_names(void **state) {
  (void)state;
  assert_int_equal(accel__pooling_by_name("weightedmean"), ACCEL__POOL_WEIGHTED_MEAN);
  assert_int_equal(accel__pooling_by_name("none"), ACCEL__POOL_NONE);
  assert_int_equal(accel__pooling_by_name("Mean"), -1);
}

/* ---- what is refused ---- */

static void test_bad_json(void **state) {
  (void)state;
  begin("[" TRANSFORMER);
  refused(ACCEL_ERROR_FORMAT, "modules.json");
  begin("{}");
  refused(ACCEL_ERROR_FORMAT, "expected an array of modules");
  begin("[]");
  refused(ACCEL_ERROR_FORMAT, "expected an array of modules");
  begin("[7]");
  refused(ACCEL_ERROR_FORMAT, "type");
  begin("[{\"path\":\"\"}]");
  refused(ACCEL_ERROR_FORMAT, "type");
  begin("[" TRANSFORMER "," POOLING "]");
  refused(ACCEL_ERROR_NOT_FOUND, "1_Pooling/config.json");
  put("1_Pooling/config.json", "{\"pooling_mode_cls_token\":\"yes\"}");
  refused(ACCEL_ERROR_FORMAT, "pooling_mode_cls_token");
  put("1_Pooling/config.json", "{\"pooling_mode\":[1]}");
  refused(ACCEL_ERROR_UNSUPPORTED, "pooling_mode");
}

static void test_paths_stay_inside(void **state) {
  (void)state;
  static const char *const bad[] = {"/etc", "..", "../other", "a/../../b", "a/.."};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char text[256];
    snprintf(text, sizeof text, "[{\"path\":\"%s\"," TYPE("Transformer") "}]", bad[i]);
    begin(text);
    refused(ACCEL_ERROR_FORMAT, "leaves the model's directory");
  }
  accel__arena arena = {0};
  accel__sentence_modules m;
  begin("[{\"path\":\"0..T\"," TYPE("Transformer") "}]");
  assert_int_equal(read_it(&arena, &m), ACCEL_OK);
  accel__arena_free(&arena);
}

static void test_types(void **state) {
  (void)state;
  begin("[{\"path\":\"\"," TYPE("CLIPModel") "}]");
  refused(ACCEL_ERROR_UNSUPPORTED, "CLIPModel");
  begin("[{\"path\":\"\",\"type\":\"custom_st.Transformer\"}]");
  refused(ACCEL_ERROR_UNSUPPORTED, "code of models is never run");
  begin("[" POOLING "," TRANSFORMER "]");
  refused(ACCEL_ERROR_UNSUPPORTED, "must be a Transformer");
  begin("[" TRANSFORMER "," TRANSFORMER "]");
  refused(ACCEL_ERROR_UNSUPPORTED, "must be a Transformer");
  begin("[" TRANSFORMER ",{\"path\":\"2_Dense\"," TYPE("Dense") "}]");
  refused(ACCEL_ERROR_UNSUPPORTED, "before Pooling");
  begin("[" TRANSFORMER ",{\"path\":\"2_N\"," TYPE("LayerNorm") "}]");
  refused(ACCEL_ERROR_UNSUPPORTED, "before Pooling");
  static const char *const norms[][2] = {{"{}", "dimension"},
                                         {"{\"dimension\":0}", "dimension"},
                                         {"{\"dimension\":4,\"eps\":1e-12}", "'eps'"}};
  for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) {
    begin("[" TRANSFORMER "," POOLING ",{\"path\":\"2_N\"," TYPE("LayerNorm") "}]");
    put("1_Pooling/config.json", "{}");
    put("2_N/config.json", norms[i][0]);
    refused(i < 2 ? ACCEL_ERROR_FORMAT : ACCEL_ERROR_UNSUPPORTED, norms[i][1]);
  }
  begin("[" TRANSFORMER "," POOLING
        ",{\"path\":\"\"," TYPE("Normalize") "},{\"path\":\"\"," TYPE("Dropout") "}]");
  put("1_Pooling/config.json", "{}");
  refused(ACCEL_ERROR_UNSUPPORTED, "after Normalize");
  begin("[" TRANSFORMER "," POOLING "," POOLING "]");
  put("1_Pooling/config.json", "{}");
  refused(ACCEL_ERROR_UNSUPPORTED, "second Pooling");
}

static void test_fields_that_matter(void **state) {
  (void)state;
  static const char *const transformer[][2] = {
      {"{\"transformer_task\":\"fill-mask\"}", "fill-mask"},
      {"{\"module_output_name\":\"sentence_embedding\"}", "module_output_name"},
      {"{\"processing_kwargs\":{\"text\":{\"padding\":\"max_length\"}}}", "processing_kwargs"},
      {"{\"tokenizer_args\":{\"truncation_side\":\"left\"}}", "tokenizer_args.truncation_side"},
      {"{\"model_args\":{\"is_decoder\":true}}", "model_args.is_decoder"},
      {"{\"surprise\":1}", "'surprise'"},
  };
  for (size_t i = 0; i < sizeof transformer / sizeof *transformer; i++) {
    begin("[" TRANSFORMER "]");
    put("sentence_bert_config.json", transformer[i][0]);
    refused(ACCEL_ERROR_UNSUPPORTED, transformer[i][1]);
  }
  begin("[" TRANSFORMER "]");
  put("sentence_bert_config.json", "{\"max_seq_length\":0}");
  refused(ACCEL_ERROR_FORMAT, "max_seq_length");
  begin("[" TRANSFORMER "," POOLING "]");
  put("1_Pooling/config.json", "{\"pooling_mode_of_tomorrow\":true}");
  refused(ACCEL_ERROR_UNSUPPORTED, "pooling_mode_of_tomorrow");
  put("1_Pooling/config.json", "{\"pooling_mode\":\"attention\"}");
  refused(ACCEL_ERROR_UNSUPPORTED, "attention");
  static const char *const dense[][2] = {
      {"\"use_residual\":true", "use_residual"},
      {"\"module_input_name\":\"token_embeddings\"", "token_embeddings"},
      {"\"activation_function\":\"x.Softplus\"", "Softplus"}};
  for (size_t i = 0; i < sizeof dense / sizeof *dense; i++) {
    char text[256];
    snprintf(text, sizeof text, "{\"in_features\":4,\"out_features\":4,%s}", dense[i][0]);
    begin("[" TRANSFORMER "," POOLING ",{\"path\":\"2_Dense\"," TYPE("Dense") "}]");
    put("1_Pooling/config.json", "{}");
    put("2_Dense/config.json", text);
    refused(ACCEL_ERROR_UNSUPPORTED, dense[i][1]);
  }
  put("2_Dense/config.json", "{\"out_features\":4}");
  refused(ACCEL_ERROR_FORMAT, "in_features");
  begin("[" TRANSFORMER "]");
  put("config_sentence_transformers.json", "{\"prompts\":{\"query\":5}}");
  refused(ACCEL_ERROR_FORMAT, "'query'");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_without_modules),
      cmocka_unit_test(test_old_spelling),
      cmocka_unit_test(test_new_spelling),
      cmocka_unit_test(test_pooling_defaults_to_mean),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_bad_json),
      cmocka_unit_test(test_paths_stay_inside),
      cmocka_unit_test(test_types),
      cmocka_unit_test(test_fields_that_matter),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
