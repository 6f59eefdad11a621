/* registry_registry_test.c - the model registry: the embedded data, names, questions, additions,
 * profiles, derived entries, threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/config.h"
#include "core/text.h"
#include "registry/registry_internal.h"
#include "unit/temp.h"

static accel__registry *registry;

static int make(void **state) {
  (void)state;
  setenv("ACCEL_CACHE_DIR", temp_path("no-cache"), 1);
  setenv("HF_HUB_CACHE", temp_path("no-hub"), 1);
  return accel__registry_create(NULL, &registry) == ACCEL_OK ? 0 : -1;
}
static int unmake(void **state) {
  (void)state;
  accel__registry_free(&registry);
  return registry ? -1 : 0;
}

static const accel__registry_model *look(const char *name) {
  const accel__registry_model *m;
  accel_status status = accel__registry_lookup(registry, name, &m);
  if (status != ACCEL_OK) fail_msg("%s: %s", name, accel__message());
  return m;
}

static int precision(const char *model, const char *hardware, const char *name) {
  int yes = -1;
  accel_status status = accel__registry_precision_supported(registry, model, hardware, name, &yes);
  if (status != ACCEL_OK) fail_msg("%s %s %s: %s", model, hardware, name, accel__message());
  return yes;
}

static accel_status add(const char *json) {
  return accel__registry_add(registry, json, strlen(json), "added.json");
}

static void adds(const char *json) {
  if (add(json) != ACCEL_OK) fail_msg("%s: %s", json, accel__message());
}

static void refuses(const char *json, const char *words) {
  assert_int_equal(add(json), ACCEL_ERROR_FORMAT);
  if (!strstr(accel__message(), words))
    fail_msg("%s\nsays: %s\nexpected: %s", json, accel__message(), words);
}

static bool holds(const accel_strings *list, const char *part) {
  for (uint32_t i = 0; i < list->n; i++) {
    if (strstr(list->item[i], part)) return true;
  }
  return false;
}

static accel_strings *needs(const char *model, const char *hardware, const char *name) {
  accel_strings *list;
  accel_status status = accel__registry_dependencies(registry, model, hardware, name, &list);
  if (status != ACCEL_OK) fail_msg("%s: %s", model, accel__message());
  return list;
}

/* ---- names ---- */

static void hardware_and_precision_aliases(void **state) {
  (void)state;
  assert_string_equal(accel__registry_hardware_name("ROCm"), "amd");
  assert_string_equal(accel__registry_hardware_name("hip"), "amd");
  assert_string_equal(accel__registry_hardware_name("AMD"), "amd");
  assert_string_equal(accel__registry_hardware_name("mps"), "apple");
  assert_string_equal(accel__registry_hardware_name("QNN"), "qualcomm");
  assert_string_equal(accel__registry_hardware_name("nvidia"), "cuda");
  assert_null(accel__registry_hardware_name("rocm:0"));
  assert_null(accel__registry_hardware_name(""));
  assert_null(accel__registry_hardware_name(NULL));
  assert_string_equal(accel__registry_precision_name("float32"), "fp32");
  assert_string_equal(accel__registry_precision_name("FP16"), "fp16");
  assert_string_equal(accel__registry_precision_name("bfloat16"), "bf16");
  assert_null(accel__registry_precision_name("fp64"));
  assert_string_equal(accel__registry_task_name("sentiment-analysis"), "text-classification");
  assert_string_equal(accel__registry_task_name("Feature-Extraction"), "feature-extraction");
  assert_string_equal(accel__registry_task_name("ner"), "token-classification");
  assert_null(accel__registry_task_name("cooking"));
  assert_int_equal(accel__hardware_count, 10);
  assert_int_equal(accel__precision_count, 8);
  assert_int_equal(accel__registry_hardware_index("cpu"), 0);
  assert_int_equal(accel__registry_precision_index("fp32"), 0);
}

static void model_names(void **state) {
  (void)state;
  const accel__registry_model *m = look("google-bert/bert-base-uncased");
  assert_ptr_equal(look("bert-base-uncased"), m);
  assert_ptr_equal(look("Google-BERT/BERT-base-uncased"), m);
  assert_ptr_equal(look("bert-base-uncased@main"), m);
  assert_string_equal(m->entry.model, "google-bert/bert-base-uncased");
  assert_int_equal(m->entry.aliases->n, 1);
  assert_string_equal(m->entry.aliases->item[0], "bert-base-uncased");
  assert_string_equal(look("ALL-minilm-l6-v2")->entry.model,
                      "sentence-transformers/all-MiniLM-L6-v2");
}

static void unknown_models(void **state) {
  (void)state;
  const accel__registry_model *m = (void *)1;
  accel_strings *list = (void *)1;
  int yes = 7;
  assert_int_equal(accel__registry_lookup(registry, "bert-base-uncase", &m),
                   ACCEL_ERROR_UNKNOWN_MODEL);
  assert_null(m);
  assert_non_null(strstr(accel__message(), "bert-base-uncase"));
  assert_non_null(strstr(accel__remedy_text(), "bert-base-uncased"));
  assert_int_equal(accel__registry_precision_supported(registry, "no/such", "cpu", "fp32", &yes),
                   ACCEL_ERROR_UNKNOWN_MODEL);
  assert_int_equal(yes, 0);
  yes = 7;
  assert_int_equal(accel__registry_hardware_supported(registry, "no/such", "cpu", &yes),
                   ACCEL_ERROR_UNKNOWN_MODEL);
  assert_int_equal(yes, 0);
  assert_int_equal(accel__registry_dependencies(registry, "no/such", "cpu", "fp32", &list),
                   ACCEL_ERROR_UNKNOWN_MODEL);
  assert_null(list);
  assert_int_equal(accel__registry_lookup(registry, "", &m), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel__registry_lookup(registry, NULL, &m), ACCEL_ERROR_ARGUMENT);
  char *json = (void *)1;
  assert_int_equal(accel__registry_json(registry, "no/such", &json), ACCEL_ERROR_UNKNOWN_MODEL);
  assert_null(json);
}

/* ---- the data ---- */

static void bert_base_uncased(void **state) {
  (void)state;
  const accel__registry_model *m = look("bert-base-uncased");
  assert_int_equal(m->entry.embedding_dim, 768);
  assert_int_equal(m->entry.sequence_length, 512);
  assert_string_equal(m->entry.model_precision, "float32");
  assert_int_equal(m->entry.default_batch_size, 1);
  assert_string_equal(m->entry.family, "bert");
  assert_string_equal(m->model_type, "bert");
  static const char *const yes[] = {"cpu", "cuda", "openvino", "apple", "amd"};
  int supported;
  for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
    assert_int_equal(
        accel__registry_hardware_supported(registry, "bert-base-uncased", yes[i], &supported),
        ACCEL_OK);
    assert_int_equal(supported, 1);
  }
  assert_int_equal(
      accel__registry_hardware_supported(registry, "bert-base-uncased", "qualcomm", &supported),
      ACCEL_OK);
  assert_int_equal(supported, 0);
}

/* The published matrix, precision by precision: fp32 fp16 bf16 int8 int4 uint4 fp8 fp4. */
static void published_precisions(void **state) {
  (void)state;
  static const struct {
    const char *hardware, *bert, *llama;
  } rows[] = {{"cpu", "10110000", "10111111"},      {"cuda", "11111100", "11111111"},
              {"amd", "11110000", "11111111"},      {"apple", "11000000", "11000000"},
              {"openvino", "11010000", "11010000"}, {"qualcomm", "00000000", "00000000"},
              {"opencl", "11010000", "11011111"},   {"vulkan", "11010000", "11011111"},
              {"webnn", "10000000", "00000000"},    {"webgpu", "11010000", "11011111"}};
  assert_int_equal(sizeof rows / sizeof *rows, accel__hardware_count);
  for (size_t h = 0; h < sizeof rows / sizeof *rows; h++) {
    for (uint32_t p = 0; p < accel__precision_count; p++) {
      const char *name = accel__precision_names[p];
      if (precision("bert-base-uncased", rows[h].hardware, name) != rows[h].bert[p] - '0')
        fail_msg("bert %s %s", rows[h].hardware, name);
      if (precision("meta-llama/Llama-3.2-1B", rows[h].hardware, name) != rows[h].llama[p] - '0')
        fail_msg("llama %s %s", rows[h].hardware, name);
    }
  }
}

static uint32_t count(const accel_registry_filter *filter) {
  accel_strings *list;
  assert_int_equal(accel__registry_list(registry, filter, &list), ACCEL_OK);
  uint32_t n = list->n;
  free(list);
  return n;
}

static void families_have_entries(void **state) {
  (void)state;
  static const char *const families[] = {
      "bert",    "t5",          "llama",      "clip",       "vit",   "clap",
      "whisper", "wav2vec2",    "llava",      "llava-next", "xclip", "qwen2",
      "qwen3",   "detr",        "mixtral",    "qwen3-moe",  "mamba", "stable-diffusion",
      "roberta", "xlm-roberta", "camembert",  "distilbert", "mpnet", "albert",
      "electra", "deberta-v2",  "modernbert", "nomic-bert"};
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
    accel_registry_filter filter = {.size = sizeof filter, .family = families[i]};
    if (count(&filter) < 3) fail_msg("%s has %u entries", families[i], count(&filter));
  }
}

/* Every entry resolves, with everything an entry must have; text encoders can be built from it. */
static void every_entry_is_whole(void **state) {
  (void)state;
  static const char *const encoders[] = {
      "bert",     "roberta",    "xlm-roberta", "camembert",         "distilbert", "mpnet",
      "albert",   "electra",    "deberta-v2",  "modernbert",        "nomic-bert", "esm",
      "eurobert", "mobilebert", "gte",         "jina-embeddings-v3"};
  accel_strings *list;
  assert_int_equal(accel__registry_list(registry, NULL, &list), ACCEL_OK);
  assert_true(list->n >= 150);
  for (uint32_t i = 0; i < list->n; i++) {
    const accel__registry_model *m = look(list->item[i]);
    if (i && strcasecmp(list->item[i - 1], list->item[i]) >= 0)
      fail_msg("not in order: %s", list->item[i]);
    if (m->entry.embedding_dim < 1 || m->entry.sequence_length < 1 ||
        m->entry.default_batch_size < 1 || !*m->entry.description || !*m->entry.architecture ||
        !m->entry.hardware->n || !*m->model_type || !m->n_keep_fp32 ||
        !accel__registry_lists(m, "cpu", "fp32") || !m->options)
      fail_msg("%s is incomplete", list->item[i]);
    if (!accel__registry_task_name(m->task) ||
        strcmp(accel__registry_task_name(m->task), m->task) != 0)
      fail_msg("%s: task %s", list->item[i], m->task);
    for (size_t k = 0; k < sizeof encoders / sizeof *encoders; k++) {
      if (strcmp(m->entry.family, encoders[k]) != 0) continue;
      const accel__json *config = m->config,
                        *dim = accel__json_get(
                            config, strcmp(m->entry.family, "distilbert") ? "hidden_size" : "dim");
      if (!config || !dim || !accel__json_get(config, "model_type") ||
          !accel__json_get(config, "architectures"))
        fail_msg("%s has no config", list->item[i]);
      if (dim->valuedouble != (double)m->entry.embedding_dim && !strstr(list->item[i], "distiluse"))
        fail_msg("%s: width %g", list->item[i], dim->valuedouble);
    }
  }
  free(list);
}

/* Its input overflows fp16; codes have scales of their own, and bf16 has the range. */
static void t5_keeps_wo_at_fp16(void **state) {
  (void)state;
  const accel__registry_model *m = look("t5-small");
  bool found = false;
  for (uint32_t i = 0; i < m->n_keep_fp32; i++)
    found |= accel__glob(m->keep_fp32[i], "encoder.block.0.layer.1.DenseReluDense.wo.weight@fp16");
  assert_true(found);
  assert_true(m->bf16_preferred);
  assert_true(m->language_model);
  assert_false(look("bert-base-uncased")->bf16_preferred);
}

static void filters(void **state) {
  (void)state;
  accel_registry_filter filter = {.size = sizeof filter};
  uint32_t all = count(NULL);
  assert_int_equal(count(&filter), all);
  filter.text = "MINILM";
  uint32_t some = count(&filter);
  assert_true(some > 5 && some < all);
  filter = (accel_registry_filter){.size = sizeof filter, .hardware = "qnn"};
  assert_int_equal(count(&filter), 0);
  filter = (accel_registry_filter){.size = sizeof filter, .hardware = "cpu", .precision = "int4"};
  uint32_t language = count(&filter);
  assert_true(language > 20 && language < all);
  filter.hardware = NULL;
  assert_int_equal(count(&filter), all); /* cuda lists int4 for every model */
  filter.precision = "fp99";
  accel_strings *list = (void *)1;
  assert_int_equal(accel__registry_list(registry, &filter, &list), ACCEL_ERROR_ARGUMENT);
  assert_null(list);
}

/* ---- questions ---- */

static void unknown_words(void **state) {
  (void)state;
  int yes = 7;
  assert_int_equal(
      accel__registry_precision_supported(registry, "bert-base-uncased", "toaster", "fp32", &yes),
      ACCEL_ERROR_ARGUMENT);
  assert_int_equal(yes, 0);
  assert_non_null(strstr(accel__message(), "toaster"));
  assert_non_null(strstr(accel__remedy_text(), "opencl"));
  assert_int_equal(
      accel__registry_precision_supported(registry, "bert-base-uncased", "cpu", "fp99", &yes),
      ACCEL_ERROR_ARGUMENT);
  assert_non_null(strstr(accel__remedy_text(), "bf16"));
  assert_false(accel__registry_lists(look("bert-base-uncased"), "toaster", "fp32"));
  assert_true(accel__registry_lists(look("bert-base-uncased"), "HIP", "half"));
}

static void dependencies_merge_in_order(void **state) {
  (void)state;
  accel_strings *base = needs("bert-base-uncased", NULL, NULL),
                *amd = needs("bert-base-uncased", "rocm", NULL),
                *both = needs("bert-base-uncased", "amd", "bf16");
  assert_true(base->n > 0 && amd->n > base->n && both->n > amd->n);
  for (uint32_t i = 0; i < base->n; i++) assert_string_equal(base->item[i], amd->item[i]);
  for (uint32_t i = 0; i < amd->n; i++) assert_string_equal(amd->item[i], both->item[i]);
  static const char *const parts[] = {"libamdhip64", "libhsa-runtime64", "render and video",
                                      "rocm-smi", "/dev/kfd"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) assert_true(holds(amd, parts[i]));
  assert_true(holds(both, "gfx90a"));
  for (uint32_t i = 0; i < both->n; i++) {
    for (uint32_t k = 0; k < i; k++) assert_string_not_equal(both->item[i], both->item[k]);
  }
  free(base);
  free(amd);
  free(both);
}

static void what_is_not_listed_says_so(void **state) {
  (void)state;
  accel_strings *list = needs("bert-base-uncased", "cpu", "fp16");
  assert_true(holds(list, "unsupported: fp16 on cpu, use bf16 instead"));
  free(list);
  list = needs("bert-base-uncased", "qualcomm", "fp16");
  assert_true(holds(list, "unsupported: qualcomm, use opencl instead"));
  assert_false(holds(list, "libQnnHtp"));
  free(list);
  list = needs("bert-base-uncased", NULL, "int8");
  assert_true(holds(list, "quantised when the model is loaded"));
  free(list);
}

static void repeats_are_dropped(void **state) {
  (void)state;
  adds(
      "{\"id\":\"me/"
      "deps\",\"family\":\"bert\",\"embedding_dim\":8,\"sequence_length\":8,\"dependencies\":{"
      "\"system\":[\"a\",\"b\",\"a\"]"
      ","
      "\"optional\":{\"cpu\":[\"b\",\"c\"]},\"precision\":{\"fp32\":[\"c\",\"d\",\"a\"]}}}");
  accel_strings *list = needs("me/deps", "cpu", "fp32");
  assert_int_equal(list->n, 4);
  for (uint32_t i = 0; i < 4; i++) assert_int_equal(list->item[i][0], "abcd"[i]);
  free(list);
}

/* ---- additions ---- */

static void entries_are_added_and_overridden(void **state) {
  (void)state;
  adds(
      "{\"id\":\"me/"
      "mine\",\"aliases\":[\"mine\"],\"family\":\"bert\",\"embedding_dim\":32,\"sequence_length\":"
      "64,\"default_batch_size\":"
      "4,"
      "\"options\":{\"cpu\":{\"threads\":2}},\"precision_compatibility\":{\"cpu\":{\"int4\":true,"
      "\"int8\":false}}}");
  const accel__registry_model *m = look("Mine");
  assert_int_equal(m->entry.embedding_dim, 32);
  assert_int_equal(m->entry.default_batch_size, 4);
  assert_string_equal(m->entry.architecture, "BertModel");
  assert_null(m->config);
  assert_int_equal(precision("mine", "cpu", "int4"), 1);
  assert_int_equal(precision("mine", "cpu", "int8"), 0);
  assert_int_equal(precision("mine", "cpu", "fp32"), 1);
  assert_int_equal((int)accel__registry_option(m, "HOST", "threads")->valuedouble, 2);
  assert_null(accel__registry_option(m, "amd", "threads"));
  adds(
      "{\"models\":[{\"id\":\"mine\",\"embedding_dim\":48,\"hardware_compatibility\":{\"qualcomm\":"
      "true}}]}");
  const accel__registry_model *now = look("me/mine");
  assert_int_equal(now->entry.embedding_dim, 48);
  assert_int_equal(now->entry.sequence_length, 64);
  assert_string_equal(now->entry.model, "me/mine");
  assert_int_equal(precision("mine", "qnn", "int8"), 1);
  assert_int_equal(m->entry.embedding_dim, 32); /* who holds the old entry may go on reading it */
  adds("{\"id\":\"bert-base-uncased\",\"default_batch_size\":16}");
  assert_int_equal(look("google-bert/bert-base-uncased")->entry.default_batch_size, 16);
  assert_int_equal(look("google-bert/bert-base-uncased")->entry.embedding_dim, 768);
}

static void families_are_added(void **state) {
  (void)state;
  assert_int_equal(look("t5-small")->n_keep_fp32, 4);
  adds(
      "{\"families\":{\"bert2\":{\"model_types\":[\"bert2\"],\"task\":\"fill-mask\","
      "\"architecture\":\"Bert2Model\","
      "\"embedding_dim\":3,\"sequence_length\":5},"
      "\"t5\":{\"keep_fp32\":[\"*\"]}}}");
  adds("{\"family\":\"bert2\",\"models\":[{\"id\":\"me/two\"}]}");
  assert_string_equal(look("me/two")->entry.architecture, "Bert2Model");
  assert_string_equal(look("me/two")->model_type, "bert2");
  assert_int_equal(look("me/two")->entry.sequence_length, 5);
  assert_int_equal(look("t5-small")->n_keep_fp32, 1);
}

static void bad_additions(void **state) {
  (void)state;
  uint32_t before = count(NULL);
  refuses("", "added.json");
  refuses("[]", "is of type array, expected object");
  refuses("Infinity", "is of type number, expected object");
  refuses("{\"id\":\"me/new\",\"family\":\"bert\",\"embedding_dim\":1e300}",
          "field 'embedding_dim' is 1e+300, expected at most");
  refuses("{\"id\":1}", "field 'id' is of type integer, expected string");
  refuses("{}", "lacks 'id'");
  refuses("{\"id\":\"../etc\",\"family\":\"bert\"}", "field 'id'");
  refuses("{\"id\":\"a/b/c\",\"family\":\"bert\"}", "field 'id'");
  refuses("{\"id\":\"me/new\"}", "lacks 'family'");
  refuses("{\"id\":\"me/new\",\"family\":\"berd\"}", "'berd' is not known");
  refuses("{\"id\":\"me/new\",\"family\":\"bert\",\"embedding_dim\":-1}",
          "field 'embedding_dim' is -1, expected at least 1");
  refuses("{\"id\":\"me/new\",\"family\":\"bert\",\"embedding_dim\":1.5}",
          "field 'embedding_dim' is of type number, expected integer");
  refuses("{\"id\":\"me/new\",\"family\":\"bert\",\"embeding_dim\":1}",
          "field 'embeding_dim' is not a field of the format");
  refuses("{\"id\":\"me/new\",\"family\":\"bert\",\"hardware_compatibility\":{\"toaster\":true}}",
          "toaster");
  refuses("{\"id\":\"me/new\",\"family\":\"bert\",\"hardware_compatibility\":{\"cpu\":1}}",
          "field 'hardware_compatibility.cpu' is of type integer, expected boolean");
  refuses(
      "{\"id\":\"me/"
      "new\",\"family\":\"bert\",\"precision_compatibility\":{\"cpu\":{\"fp99\":true}}}",
      "fp99");
  refuses("{\"id\":\"me/new\",\"family\":\"bert\",\"model_precision\":\"float99\"}",
          "expected one of: float32, float16, bfloat16");
  refuses("{\"id\":\"me/new\",\"family\":\"bert\",\"keep_fp32\":[\"*.wo@fp15\"]}",
          "field 'keep_fp32[0]' is '*.wo@fp15'");
  refuses("{\"id\":\"me/new\",\"family\":\"bert\",\"aliases\":[\"t5-small\"]}",
          "belongs to 'google-t5/t5-small' already");
  refuses(
      "{\"models\":[{\"id\":\"me/a\",\"family\":\"bert\"},{\"id\":\"ME/A\",\"family\":\"bert\"}]}",
      "given to two entries");
  refuses(
      "{\"models\":[{\"id\":\"me/a\",\"family\":\"bert\"},{\"id\":\"me/"
      "b\",\"family\":\"bert\",\"embedding_dim\":0}]}",
      "field 'models[1].embedding_dim'");
  refuses("{\"families\":{\"x\":{\"tasks\":1}}}",
          "field 'families.x.tasks' is not a field of the format");
  refuses("{\"families\":{},\"tasks\":{}}", "field 'tasks' is not a field of the format");
  refuses("{\"id\":\"me/new\",\"family\":\"bert\",\"description\":\"a\\u0000b\"}", "added.json");
  assert_int_equal(count(NULL), before); /* all or nothing: me/a was not added */
}

static void files_and_directories(void **state) {
  (void)state;
  accel__registry *mine;
  const accel__registry_model *m;
  temp_text("reg/a.json", "{\"id\":\"me/file\",\"family\":\"vit\",\"embedding_dim\":8}");
  temp_text("reg/b.json", "{\"id\":\"me/file\",\"embedding_dim\":9}");
  temp_text("reg/notes.txt", "not JSON");
  assert_int_equal(accel__registry_create(temp_path("reg"), &mine), ACCEL_OK);
  assert_int_equal(accel__registry_lookup(mine, "me/file", &m), ACCEL_OK);
  assert_int_equal(m->entry.embedding_dim, 9);
  accel__registry_free(&mine);
  assert_int_equal(accel__registry_create(temp_path("reg/a.json"), &mine), ACCEL_OK);
  accel__registry_free(&mine);
  assert_int_equal(accel__registry_create(temp_text("bad.json", "{\"id\":3}"), &mine),
                   ACCEL_ERROR_FORMAT);
  assert_non_null(strstr(accel__message(), "bad.json"));
  assert_null(mine);
  assert_int_equal(accel__registry_create(temp_path("absent.json"), &mine), ACCEL_ERROR_NOT_FOUND);
  assert_null(mine);
}

/* ---- profiles ---- */

static void profiles_replace_or_merge(void **state) {
  (void)state;
  static const char *const names[] = {"float32", "int4"};
  static const int values[] = {0, 1}, none[] = {0, 0};
  const char *model = "bert-large-uncased";
  assert_int_equal(accel__registry_set_profile(registry, model, "cpu", names, values, 2, true),
                   ACCEL_OK);
  assert_int_equal(precision(model, "cpu", "fp32"), 0);
  assert_int_equal(precision(model, "cpu", "int4"), 1);
  assert_int_equal(precision(model, "cpu", "bf16"), 1);
  assert_int_equal(accel__registry_set_profile(registry, model, "cpu", names, values, 2, false),
                   ACCEL_OK);
  assert_int_equal(precision(model, "cpu", "int4"), 1);
  assert_int_equal(precision(model, "cpu", "bf16"), 0);
  assert_int_equal(precision(model, "cuda", "bf16"), 1);
  assert_int_equal(
      accel__registry_set_profile(registry, model, "qualcomm", names, values, 2, false), ACCEL_OK);
  assert_int_equal(precision(model, "qualcomm", "int4"), 1);
  assert_int_equal(accel__registry_set_profile(registry, model, "qualcomm", names, none, 2, false),
                   ACCEL_OK);
  int supported = 7;
  assert_int_equal(accel__registry_hardware_supported(registry, model, "qualcomm", &supported),
                   ACCEL_OK);
  assert_int_equal(supported, 0);
  assert_int_equal(accel__registry_set_profile(registry, "no/such", "cpu", names, values, 2, true),
                   ACCEL_ERROR_UNKNOWN_MODEL);
  assert_int_equal(accel__registry_set_profile(registry, model, "toaster", names, values, 2, true),
                   ACCEL_ERROR_ARGUMENT);
  static const char *const wrong[] = {"fp32", "fp99"};
  assert_int_equal(accel__registry_set_profile(registry, model, "cpu", wrong, values, 2, true),
                   ACCEL_ERROR_ARGUMENT);
  assert_int_equal(precision(model, "cpu", "int4"), 1); /* unchanged by the failure */
}

/* ---- JSON ---- */

static void entries_as_json(void **state) {
  (void)state;
  accel__json_file file;
  char *json;
  assert_int_equal(accel__registry_json(registry, "bert-base-uncased", &json), ACCEL_OK);
  assert_int_equal(accel__json_parse(json, strlen(json), "entry", &file), ACCEL_OK);
  static const char *const fields[] = {"id",
                                       "aliases",
                                       "description",
                                       "family",
                                       "architecture",
                                       "embedding_dim",
                                       "sequence_length",
                                       "model_precision",
                                       "default_batch_size",
                                       "hardware_compatibility",
                                       "precision_compatibility",
                                       "dependencies",
                                       "keep_fp32",
                                       "options",
                                       "config"};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    if (!accel__json_get(file.root, fields[i])) fail_msg("no '%s' in %s", fields[i], json);
  }
  assert_int_equal(cJSON_GetArraySize(accel__json_get(file.root, "hardware_compatibility")), 10);
  assert_int_equal(cJSON_GetArraySize(accel__json_get(
                       accel__json_get(file.root, "precision_compatibility"), "amd")),
                   8);
  const accel__json *config = accel__json_get(file.root, "config");
  assert_string_equal(accel__json_get(config, "model_type")->valuestring, "bert");
  assert_string_equal(accel__json_get(config, "architectures")->child->valuestring,
                      "BertForMaskedLM");
  assert_int_equal((int)accel__json_get(config, "vocab_size")->valuedouble, 30522);
  assert_int_equal(accel__registry_add(registry, json, strlen(json), "printed"),
                   ACCEL_OK); /* what is printed can be read back */
  accel__json_free(&file);
  free(json);
  assert_int_equal(accel__registry_json(registry, NULL, &json), ACCEL_OK);
  assert_int_equal(accel__json_parse(json, strlen(json), "all", &file), ACCEL_OK);
  assert_string_equal(accel__json_get(file.root, "schema")->valuestring, "accel.registry/1");
  assert_int_equal(cJSON_GetArraySize(accel__json_get(file.root, "models")), count(NULL));
  accel__json_free(&file);
  free(json);
}

/* ---- directories ---- */

static void directories_are_derived(void **state) {
  (void)state;
  temp_text("model/config.json",
            "{\"model_type\":\"roberta\",\"architectures\":[\"RobertaForMaskedLM\"],\"hidden_"
            "size\":24,\"max_position_"
            "embeddings\":66,"
            "\"torch_dtype\":\"float16\"}");
  const accel__registry_model *m = look(temp_path("model"));
  assert_true(m->derived);
  assert_string_equal(m->entry.family, "roberta");
  assert_string_equal(m->entry.architecture, "RobertaForMaskedLM");
  assert_int_equal(m->entry.embedding_dim, 24);
  assert_int_equal(m->entry.sequence_length, 64);
  assert_string_equal(m->entry.model_precision, "float16");
  assert_int_equal(m->entry.default_batch_size, 1);
  /* its config.json as it is, nothing put in */
  assert_null(accel__json_get(m->config, "hidden_act"));
  assert_int_equal(precision(temp_path("model"), "hip", "fp16"), 1);
  assert_ptr_equal(look(temp_path("model")), m);
  uint32_t listed = count(NULL);
  temp_text("clip/config.json",
            "{\"model_type\":\"clip\",\"projection_dim\":16,\"text_config\":{\"max_position_"
            "embeddings\":12}}");
  m = look(temp_path("clip"));
  assert_int_equal(m->entry.embedding_dim, 16);
  assert_int_equal(m->entry.sequence_length, 12);
  assert_string_equal(m->entry.architecture, "CLIPModel");
  temp_text("sd/model_index.json", "{\"_class_name\":\"StableDiffusionPipeline\"}");
  assert_string_equal(look(temp_path("sd"))->entry.family, "stable-diffusion");
  assert_int_equal(count(NULL), listed); /* derived entries are not listed */
  temp_text("hub/models--me--cached/refs/main", "0123abcd\n");
  temp_text("hub/models--me--cached/snapshots/0123abcd/config.json",
            "{\"model_type\":\"bert\",\"hidden_size\":40}");
  setenv("HF_HUB_CACHE", temp_path("hub"), 1);
  m = look("me/cached");
  setenv("HF_HUB_CACHE", temp_path("no-hub"), 1);
  assert_string_equal(m->entry.model, "me/cached");
  assert_int_equal(m->entry.embedding_dim, 40);
}

static void bad_directories(void **state) {
  (void)state;
  const accel__registry_model *m;
  temp_text("foo/config.json", "{\"model_type\":\"foo\"}");
  assert_int_equal(accel__registry_lookup(registry, temp_path("foo"), &m),
                   ACCEL_ERROR_UNKNOWN_MODEL);
  assert_non_null(strstr(accel__message(), "config.json: field 'model_type'"));
  temp_text("typeless/config.json", "{}");
  assert_int_equal(accel__registry_lookup(registry, temp_path("typeless"), &m), ACCEL_ERROR_FORMAT);
  temp_text("broken/config.json", "{");
  assert_int_equal(accel__registry_lookup(registry, temp_path("broken"), &m), ACCEL_ERROR_FORMAT);
  temp_text("empty/readme", "");
  assert_int_equal(accel__registry_lookup(registry, temp_path("empty"), &m), ACCEL_ERROR_NOT_FOUND);
  assert_null(m);
}

/* ---- threads ---- */

static void *ask(void *arg) {
  intptr_t wrong = 0;
  for (int i = 0; i < 300; i++) {
    const accel__registry_model *m;
    accel_strings *list;
    int yes = 0;
    if (accel__registry_lookup(registry, i % 2 ? "t5-small" : "me/shared", &m) != ACCEL_OK ||
        m->entry.embedding_dim < 1)
      wrong++;
    if (accel__registry_precision_supported(registry, "me/shared", "cpu", "fp32", &yes) !=
            ACCEL_OK ||
        !yes)
      wrong++;
    if (accel__registry_dependencies(registry, "me/shared", "amd", "int8", &list) != ACCEL_OK)
      wrong++;
    else
      free(list);
  }
  *(intptr_t *)arg = wrong;
  return NULL;
}

static void questions_during_additions(void **state) {
  (void)state;
  enum { ASKERS = 3 };
  pthread_t thread[ASKERS];
  intptr_t wrong[ASKERS];
  static const char *const name[] = {"int4"};
  adds("{\"id\":\"me/shared\",\"family\":\"bert\",\"embedding_dim\":1}");
  for (int i = 0; i < ASKERS; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, ask, &wrong[i]), 0);
  for (int i = 1; i < 100; i++) {
    char json[120];
    snprintf(json, sizeof json, "{\"id\":\"me/shared\",\"embedding_dim\":%d}", i);
    adds(json);
    assert_int_equal(
        accel__registry_set_profile(registry, "me/shared", "cpu", name, (int[]){i & 1}, 1, true),
        ACCEL_OK);
  }
  for (int i = 0; i < ASKERS; i++) {
    pthread_join(thread[i], NULL);
    assert_int_equal(wrong[i], 0);
  }
}

/* Memory refused at every single place. */
static void refused_memory(void **state) {
  (void)state;
  static const char json[] =
      "{\"models\":[{\"id\":\"me/"
      "oom\",\"aliases\":[\"oom\"],\"family\":\"bert\",\"embedding_dim\":3,\"sequence_length\":4}]"
      "}";
  bool whole = false;
  for (int at = 1; !whole && at < 20000; at += at < 200 ? 1 : 97) {
    char point[40];
    accel__registry *r;
    accel_strings *list = NULL;
    const accel__registry_model *m;
    snprintf(point, sizeof point, "allocation:%d", at);
    accel__fault_arm(point);
    accel_status status = accel__registry_create(NULL, &r);
    if (status == ACCEL_OK) status = accel__registry_add(r, json, strlen(json), "oom");
    if (status == ACCEL_OK) status = accel__registry_lookup(r, "oom", &m);
    if (status == ACCEL_OK) status = accel__registry_dependencies(r, "oom", "qnn", "fp16", &list);
    accel__fault_arm(NULL);
    whole = status == ACCEL_OK;
    if (!whole && status != ACCEL_ERROR_OUT_OF_MEMORY)
      fail_msg("%s: %d %s", point, (int)status, accel__message());
    free(list);
    accel__registry_free(&r);
  }
  assert_true(whole);
}

/* ---- the schema checker ---- */

static accel_status schema_verdict(const char *schema_text, const char *value_text) {
  accel__json_file schema, value;
  assert_int_equal(accel__json_parse(schema_text, strlen(schema_text), "schema", &schema),
                   ACCEL_OK);
  assert_int_equal(accel__json_parse(value_text, strlen(value_text), "value", &value), ACCEL_OK);
  accel_status status = accel__schema_check_itself(schema.root, "schema");
  if (status == ACCEL_OK) status = accel__schema_check(schema.root, "x", value.root, "value");
  accel__json_free(&schema);
  accel__json_free(&value);
  return status;
}

static void schema_keywords(void **state) {
  (void)state;
  static const struct {
    const char *schema, *good, *bad;
  } cases[] = {
      {"\"type\":\"integer\"", "3", "3.5"},
      {"\"type\":\"number\"", "3", "\"3\""},
      {"\"type\":\"boolean\"", "true", "0"},
      {"\"type\":\"null\"", "null", "{}"},
      {"\"minimum\":2", "2", "1"},
      {"\"maximum\":2", "\"any\"", "3"},
      {"\"minLength\":2", "\"ab\"", "\"a\""},
      {"\"maxLength\":2", "\"ab\"", "\"abc\""},
      {"\"pattern\":\"^a+$\"", "\"aa\"", "\"ab\""},
      {"\"enum\":[\"a\",\"b\"]", "\"b\"", "\"c\""},
      {"\"minItems\":1", "[1]", "[]"},
      {"\"maxItems\":1", "[1]", "[1,2]"},
      {"\"items\":{\"type\":\"string\"}", "[\"a\"]", "[\"a\",1]"},
      {"\"required\":[\"a\"]", "{\"a\":1}", "{\"b\":1}"},
      {"\"properties\":{\"a\":{\"type\":\"string\"}}", "{\"a\":\"x\",\"b\":1}", "{\"a\":1}"},
      {"\"additionalProperties\":false,\"properties\":{\"a\":{}}", "{\"a\":1}", "{\"b\":1}"},
      {"\"additionalProperties\":{\"type\":\"string\"}", "{\"a\":\"x\"}", "{\"a\":1}"},
      {"\"propertyNames\":{\"enum\":[\"a\"]}", "{\"a\":1}", "{\"b\":1}"},
      {"\"$ref\":\"#/definitions/y\"", "\"text\"", "1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char schema[300];
    snprintf(schema, sizeof schema, "{\"definitions\":{\"x\":{%s},\"y\":{\"type\":\"string\"}}}",
             cases[i].schema);
    if (schema_verdict(schema, cases[i].good) != ACCEL_OK)
      fail_msg("%s refuses %s: %s", schema, cases[i].good, accel__message());
    if (schema_verdict(schema, cases[i].bad) != ACCEL_ERROR_FORMAT)
      fail_msg("%s takes %s", schema, cases[i].bad);
  }
  assert_int_equal(schema_verdict("{\"definitions\":{\"x\":{\"oneOf\":[]}}}", "1"),
                   ACCEL_ERROR_FORMAT);
  assert_non_null(strstr(accel__message(), "oneOf"));
  assert_int_equal(schema_verdict("{\"definitions\":{\"x\":{\"$ref\":\"#/definitions/z\"}}}", "1"),
                   ACCEL_ERROR_FORMAT);
  assert_int_equal(schema_verdict("{\"definitions\":{\"x\":{\"type\":3}}}", "1"),
                   ACCEL_ERROR_FORMAT);
  assert_int_equal(schema_verdict("{\"definitions\":{\"z\":{}}}", "1"), ACCEL_ERROR_INTERNAL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hardware_and_precision_aliases),
      cmocka_unit_test(model_names),
      cmocka_unit_test(unknown_models),
      cmocka_unit_test(bert_base_uncased),
      cmocka_unit_test(published_precisions),
      cmocka_unit_test(families_have_entries),
      cmocka_unit_test(every_entry_is_whole),
      cmocka_unit_test(t5_keeps_wo_at_fp16),
      cmocka_unit_test(filters),
      cmocka_unit_test(unknown_words),
      cmocka_unit_test(dependencies_merge_in_order),
      cmocka_unit_test(what_is_not_listed_says_so),
      cmocka_unit_test(repeats_are_dropped),
      cmocka_unit_test(bad_additions),
      cmocka_unit_test(files_and_directories),
      cmocka_unit_test(profiles_replace_or_merge),
      cmocka_unit_test(entries_as_json),
      cmocka_unit_test(directories_are_derived),
      cmocka_unit_test(bad_directories),
      cmocka_unit_test(questions_during_additions),
      cmocka_unit_test(entries_are_added_and_overridden),
      cmocka_unit_test(families_are_added),
      cmocka_unit_test(refused_memory),
      cmocka_unit_test(schema_keywords),
  };
  return cmocka_run_group_tests(tests, make, unmake);
}
