/* registry_models_test.c - the registry's configurations are enough to build their models: every
 * text encoder and every decoder, at its true shape, without a checkpoint. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "models/model_build.h"
#include "registry/registry.h"

static accel__model *built(const accel__registry_model *m, accel__json_file *config) {
  accel__model *model = NULL;
  char *text = cJSON_PrintUnformatted(m->config);
  assert_int_equal(accel__json_parse(text, strlen(text), m->entry.model, config), ACCEL_OK);
  accel__model_request request = {.config = config};
  if (accel__model_build(&request, &model) != ACCEL_OK)
    fail_msg("%s: %s", m->entry.model, accel__message());
  assert_string_equal(model->architecture, m->entry.architecture);
  assert_string_equal(model->model_type, m->model_type);
  assert_true(model->max_positions >= m->entry.sequence_length || model->max_positions == 0);
  cJSON_free(text);
  return model;
}

static void encoder_builds(const accel__registry_model *m) {
  accel__json_file config;
  accel__model *model = built(m, &config);
  assert_string_equal(model->task, m->task);
  const accel__json *width =
      accel__json_get(m->config, strcmp(m->model_type, "distilbert") ? "hidden_size" : "dim");
  assert_int_equal(model->hidden_size, (int64_t)width->valuedouble);
  accel__model_free(&model);
  accel__json_free(&config);
}

/* Some are listed as embedders, by their last hidden state. */
static void decoder_builds(const accel__registry_model *m) {
  accel__json_file config;
  accel__model *model = built(m, &config);
  assert_int_equal(model->hidden_size, m->entry.embedding_dim);
  accel__model_free(&model);
  accel__json_free(&config);
}

static void families_build(const char *const *families, size_t n,
                           void (*builds)(const accel__registry_model *m)) {
  accel__registry *r;
  assert_int_equal(accel__registry_create(NULL, &r), ACCEL_OK);
  for (size_t f = 0; f < n; f++) {
    accel_registry_filter filter = {.size = sizeof filter, .family = families[f]};
    accel_strings *list;
    assert_int_equal(accel__registry_list(r, &filter, &list), ACCEL_OK);
    assert_true(list->n >= 1);
    for (uint32_t i = 0; i < list->n; i++) {
      const accel__registry_model *m;
      assert_int_equal(accel__registry_lookup(r, list->item[i], &m), ACCEL_OK);
      builds(m);
    }
    free(list);
  }
  accel__registry_free(&r);
}

static void every_encoder_builds(void **state) {
  (void)state;
  static const char *const families[] = {
      "bert",     "roberta",    "xlm-roberta", "camembert",         "distilbert", "mpnet",
      "albert",   "electra",    "deberta-v2",  "modernbert",        "nomic-bert", "esm",
      "eurobert", "mobilebert", "gte",         "jina-embeddings-v3"};
  families_build(families, sizeof families / sizeof *families, encoder_builds);
}

static void every_decoder_builds(void **state) {
  (void)state;
  static const char *const families[] = {
      "llama", "mistral",    "qwen2",       "qwen3",    "gemma",   "gemma2",   "gemma3",
      "phi3",  "mixtral",    "qwen3-moe",   "gpt2",     "opt",     "gpt-neox", "falcon",
      "olmo",  "olmo2",      "olmo3",       "granite",  "smollm3", "cohere",   "cohere2",
      "glm",   "glm4",       "internlm3",   "stablelm", "gptj",    "gpt-neo",  "mpt",
      "phi",   "starcoder2", "granite-moe", "gpt-oss",  "mistral3"};
  families_build(families, sizeof families / sizeof *families, decoder_builds);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_encoder_builds),
                                     cmocka_unit_test(every_decoder_builds)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
