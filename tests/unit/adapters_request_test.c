/* adapters_request_test.c - adapters beside a model, request by request: what merging the same
 * adapter gives; several in one batch, bit for bit as each alone; and what cannot be done is
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <math.h>

#include <cmocka.h>

#include "accel/accel.h"
#include "dispatch/run_adapter.h"
#include "unit/adapter_files.h"

#define MODELS   ACCEL_FIXTURES "/models"
#define ADAPTERS ACCEL_FIXTURES "/adapters"
#define CLASSIFY ACCEL_FIXTURES "/pipelines/classify"

enum { TOKENS = 6, MOST = 64 };

/* What one request gave. */
typedef struct answer {
  uint32_t n;
  int32_t ids[MOST];
  float logprob[MOST];
} answer;

static accel *context;

static accel_endpoint *open_model(const char *model, const char *device, const char *precision,
                                  const char *merged, bool enable) {
  const accel_adapter_spec spec = {merged, 1};
  accel_endpoint *ep = NULL;
  accel_init_params how = accel_init_params_default();
  how.device = device;
  how.precision = precision;
  how.adapters = &spec;
  how.n_adapters = merged != NULL;
  how.enable_adapters = enable;
  if (accel_init(context, model, &how, &ep) != ACCEL_OK) fail_msg("%s", accel_last_error());
  return ep;
}

static accel_adapter *load(accel_endpoint *ep, const char *path) {
  accel_adapter *a = NULL;
  if (accel_adapter_load(ep, path, &a) != ACCEL_OK) fail_msg("%s", accel_last_error());
  return a;
}

static const int32_t prompt[] = {5, 9, 33, 12, 40, 7, 21};
enum { PROMPT = sizeof prompt / sizeof *prompt };

static accel_generate_params params_of(const accel_adapter *a, double scale) {
  accel_generate_params how = accel_generate_params_default();
  how.max_new_tokens = TOKENS;
  how.ignore_eos = 1;
  how.do_sample = 0;
  how.num_beams = 1;
  how.logprobs = 0;
  how.adapter = a;
  how.adapter_scale = scale;
  return how;
}

static answer take(accel_generations **result) {
  const accel_generation *g = &(*result)->item[0];
  answer out = {.n = g->n};
  assert_true(g->n > 0 && g->n <= MOST);
  memcpy(out.ids, g->ids, g->n * sizeof *g->ids);
  memcpy(out.logprob, g->logprob, g->n * sizeof *g->logprob);
  accel_generations_free(result);
  return out;
}

static answer generate(accel_endpoint *ep, const accel_adapter *a, double scale) {
  const int32_t *ids = prompt;
  const uint32_t n = PROMPT;
  accel_generations *result = NULL;
  const accel_generate_params how = params_of(a, scale);
  if (accel_generate_ids(ep, &ids, &n, 1, &how, &result) != ACCEL_OK)
    fail_msg("%s", accel_last_error());
  return take(&result);
}

static bool same(const answer *a, const answer *b) {
  return a->n == b->n && !memcmp(a->ids, b->ids, a->n * sizeof *a->ids) &&
         !memcmp(a->logprob, b->logprob, a->n * sizeof *a->logprob);
}

static bool close_to(const answer *a, const answer *b, double bound) {
  bool close = a->n == b->n && !memcmp(a->ids, b->ids, a->n * sizeof *a->ids);
  for (uint32_t i = 0; i < a->n && close; i++)
    close = fabs((double)a->logprob[i] - (double)b->logprob[i]) <= bound;
  return close;
}

/* ---- what a merge gives ---- */

static void compare_with_merge(const char *device, const char *model, const char *adapter) {
  char path[512], directory[512];
  snprintf(directory, sizeof directory, "%s/%s", MODELS, model);
  snprintf(path, sizeof path, "%s/%s", ADAPTERS, adapter);
  accel_endpoint *merged = open_model(directory, device, NULL, path, false),
                 *beside = open_model(directory, device, NULL, NULL, true),
                 *plain = open_model(directory, device, NULL, NULL, false);
  accel_adapter *a = load(beside, path);
  const answer want = generate(merged, NULL, 1), got = generate(beside, a, 1),
               base = generate(beside, NULL, 1), was = generate(plain, NULL, 1),
               none = generate(beside, a, 0);
  if (!close_to(&want, &got, 2e-4))
    fail_msg("%s %s: other tokens than merged, or log probabilities %g and %g", device, adapter,
             (double)want.logprob[0], (double)got.logprob[0]);
  assert_false(close_to(&got, &base, 2e-4)); /* the adapter shows */
  assert_true(close_to(&was, &base, 1e-5));
  assert_true(close_to(&none, &base, 1e-5));
  accel_adapter_free(&a);
  assert_null(a);
  accel_cleanup(&merged);
  accel_cleanup(&beside);
  accel_cleanup(&plain);
}

static void compare_all(const char *device) {
  static const char *const pairs[][2] = {
      {"llama", "llama_plain"},    {"llama", "llama_all_linear"},
      {"llama", "llama_patterns"}, {"llama", "llama_layers"},
      {"phi3", "phi3_fused"},      {"gpt_neox", "gpt_neox_fused"},
      {"gpt2", "gpt2_conv1d"},     {"t5", "t5_plain"}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    compare_with_merge(device, pairs[i][0], pairs[i][1]);
}

static void test_reference(void **state) {
  (void)state;
  compare_all("reference");
}

static void test_cpu(void **state) {
  (void)state;
  compare_all("cpu");
}

/* ---- several in one batch ---- */

/* Two adapters, one of them twice at another scale, and the base twice, through the queue. */
static void mixed(const char *precision) {
  accel_endpoint *ep = open_model(MODELS "/llama", "cpu", precision, NULL, true);
  accel_adapter *a = load(ep, ADAPTERS "/llama_plain"), *b = load(ep, ADAPTERS "/llama_all_linear");
  const struct {
    const accel_adapter *adapter;
    double scale;
  } with[] = {{a, 1}, {NULL, 1}, {b, 1}, {a, -0.5}, {NULL, 1}, {b, 0.25}};
  enum { N = sizeof with / sizeof *with };
  answer alone[N];
  accel_ticket *ticket[N] = {NULL};
  for (int i = 0; i < N; i++) alone[i] = generate(ep, with[i].adapter, with[i].scale);
  for (int i = 0; i < N; i++) {
    const accel_generate_params how = params_of(with[i].adapter, with[i].scale);
    if (accel_submit_generate(accel_queue_of(ep), NULL, prompt, PROMPT, &how, &ticket[i]) !=
        ACCEL_OK)
      fail_msg("%s", accel_last_error());
  }
  for (int i = 0; i < N; i++) {
    accel_generations *result = NULL;
    if (accel_wait_generations(&ticket[i], -1, &result) != ACCEL_OK)
      fail_msg("%s", accel_last_error());
    const answer joint = take(&result);
    if (!same(&alone[i], &joint)) fail_msg("%s: request %d is another in company", precision, i);
  }
  assert_false(same(&alone[0], &alone[2]));
  assert_false(same(&alone[0], &alone[3]));
  accel_adapter_free(&a);
  accel_adapter_free(&b);
  accel_cleanup(&ep);
}

static void test_mixed(void **state) {
  (void)state;
  mixed("fp32");
  mixed("int8");
  mixed("bf16");
}

/* The largest difference of log probabilities, as far as the tokens are the same. */
static double apart(const answer *a, const answer *b) {
  double most = 0;
  for (uint32_t i = 0; i < a->n && i < b->n && a->ids[i] == b->ids[i]; i++)
    most = fmax(most, fabs((double)a->logprob[i] - (double)b->logprob[i]));
  return most;
}

/* Beside weights at 8 or 16 bits the matrices are read as halves: near what they give at fp32. */
static void halves(const char *precision, const char *model, const char *adapter, double bound) {
  char path[512], directory[512];
  snprintf(directory, sizeof directory, "%s/%s", MODELS, model);
  snprintf(path, sizeof path, "%s/%s", ADAPTERS, adapter);
  accel_endpoint *ep = open_model(directory, "cpu", precision, NULL, true);
  accel_adapter *a = load(ep, path);
  assert_non_null(a->lora->narrow.slot_f16);
  assert_null(a->lora->view.slot_f16);
  const answer got = generate(ep, a, 1), base = generate(ep, NULL, 1);
  a->lora->narrow.slot_f16 = NULL;
  const answer whole = generate(ep, a, 1);
  assert_false(same(&got, &whole));
  if (apart(&got, &whole) > bound)
    fail_msg("%s %s: %g from the fp32 matrices", precision, adapter, apart(&got, &whole));
  assert_false(close_to(&got, &base, bound)); /* the adapter shows */
  accel_adapter_free(&a);
  accel_cleanup(&ep);
}

static void test_halves(void **state) {
  (void)state;
  halves("int8", "llama", "llama_all_linear", 0.05);
  halves("bf16", "gpt_neox", "gpt_neox_fused", 2e-3);
  halves("int8", "phi3", "phi3_fused", 0.05);
}

/* ---- tasks over texts ---- */

static const char *classify_adapter(void) {
  static const given tensors[] = {
      {"base_model.model.bert.encoder.layer.0.attention.self.query.lora_A.weight", 2, {2, 24}},
      {"base_model.model.bert.encoder.layer.0.attention.self.query.lora_B.weight", 2, {24, 2}},
      {"base_model.model.bert.encoder.layer.1.intermediate.dense.lora_A.weight", 2, {2, 24}},
      {"base_model.model.bert.encoder.layer.1.intermediate.dense.lora_B.weight", 2, {40, 2}},
      {"base_model.model.classifier.lora_A.weight", 2, {2, 24}},
      {"base_model.model.classifier.lora_B.weight", 2, {3, 2}}};
  return make_adapter(
      "{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":1,"
      "\"target_modules\":[\"query\",\"intermediate.dense\",\"classifier\"]}",
      tensors, 6, -0.7f);
}

/* The score of the best label. */
static double score(accel_endpoint *ep, const accel_adapter *a) {
  const char *text = "the old cat";
  accel_classifications *result = NULL;
  accel_classify_params how = accel_classify_params_default();
  how.adapter = a;
  if (accel_classify(ep, &text, NULL, 1, &how, &result) != ACCEL_OK)
    fail_msg("%s", accel_last_error());
  const double best = result->score[0][0].score;
  accel_classifications_free(&result);
  return best;
}

static void test_classify(void **state) {
  (void)state;
  const char *path = classify_adapter();
  accel_endpoint *merged = open_model(CLASSIFY, "cpu", NULL, path, false),
                 *beside = open_model(CLASSIFY, "cpu", NULL, NULL, true);
  accel_adapter *a = load(beside, path);
  const double base = score(beside, NULL), with = score(beside, a);
  assert_true(fabs(score(merged, NULL) - with) < 1e-5);
  assert_true(fabs(base - with) > 1e-4);
  assert_true(score(beside, NULL) == base);
  accel_adapter_free(&a);
  accel_cleanup(&merged);
  accel_cleanup(&beside);
}

static float *vectors(accel_endpoint *ep, const accel_adapter *a, uint64_t *n) {
  static const char *const texts[] = {"the old cat", "a cat", "Ada lives in London."};
  accel_embeddings *result = NULL;
  accel_embed_params how = accel_embed_params_default();
  how.pooling = "mean";
  how.adapter = a;
  if (accel_embed_with(ep, texts, 3, &how, &result) != ACCEL_OK) fail_msg("%s", accel_last_error());
  *n = result->row_start[3] * result->dim;
  float *copy = malloc(*n * sizeof *copy);
  memcpy(copy, result->data, *n * sizeof *copy);
  accel_embeddings_free(&result);
  return copy;
}

static void test_embed(void **state) {
  (void)state;
  const given tensors[] = {
      {"base_model.model.encoder.layer.0.attention.self.query.lora_A.weight", 2, {2, 24}},
      {"base_model.model.encoder.layer.0.attention.self.query.lora_B.weight", 2, {24, 2}},
      {"base_model.model.encoder.layer.1.output.dense.lora_A.weight", 2, {2, 40}},
      {"base_model.model.encoder.layer.1.output.dense.lora_B.weight", 2, {24, 2}}};
  const char *path = make_adapter(
      "{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":1,"
      "\"target_modules\":[\"query\",\"output.dense\"]}",
      tensors, 4, -0.7f);
  const accel_adapter_spec spec = {path, 1};
  accel_endpoint *merged = NULL, *beside = NULL;
  accel_init_params how = accel_init_params_default();
  how.task = "feature-extraction";
  how.enable_adapters = 1;
  assert_int_equal(accel_init(context, CLASSIFY, &how, &beside), ACCEL_OK);
  how.enable_adapters = 0;
  how.adapters = &spec;
  how.n_adapters = 1;
  if (accel_init(context, CLASSIFY, &how, &merged) != ACCEL_OK) fail_msg("%s", accel_last_error());
  accel_adapter *a = load(beside, path);
  uint64_t n;
  float *want = vectors(merged, NULL, &n), *got = vectors(beside, a, &n),
        *base = vectors(beside, NULL, &n);
  double error = 0, change = 0;
  for (uint64_t i = 0; i < n; i++) {
    error = fmax(error, fabs((double)want[i] - (double)got[i]));
    change = fmax(change, fabs((double)base[i] - (double)got[i]));
  }
  assert_true(error < 1e-4);
  assert_true(change > 1e-3);
  free(want);
  free(got);
  free(base);
  accel_adapter_free(&a);
  accel_cleanup(&merged);
  accel_cleanup(&beside);
}

/* ---- sessions ---- */

static answer go_on(accel_session *s, const accel_adapter *a) {
  accel_generations *result = NULL;
  const accel_generate_params how = params_of(a, 1);
  if (accel_session_generate(s, &how, &result) != ACCEL_OK) fail_msg("%s", accel_last_error());
  return take(&result);
}

/* A session that changes its adapter goes on as if it had been read with that one. */
static void test_session(void **state) {
  (void)state;
  accel_endpoint *ep = open_model(MODELS "/llama", "cpu", NULL, NULL, true);
  accel_adapter *a = load(ep, ADAPTERS "/llama_plain");
  const answer base = generate(ep, NULL, 1), with = generate(ep, a, 1);
  accel_session *s = NULL;
  assert_int_equal(accel_session_open(ep, &s), ACCEL_OK);
  assert_int_equal(accel_session_feed_ids(s, prompt, PROMPT), ACCEL_OK);
  const answer first = go_on(s, a);
  assert_true(close_to(&first, &with, 1e-5));
  assert_int_equal(accel_session_truncate(s, PROMPT), ACCEL_OK);
  const answer second = go_on(s, NULL);
  assert_true(close_to(&second, &base, 1e-5));
  accel_session_close(&s);
  accel_adapter_free(&a);
  accel_cleanup(&ep);
}

/* More columns than the CPU's kernels take at once. */
static void test_large_rank(void **state) {
  (void)state;
  const given tensors[] = {
      {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", 2, {300, 24}},
      {"base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight", 2, {24, 300}}};
  const char *path = make_adapter(
      "{\"peft_type\":\"LORA\",\"r\":300,\"lora_alpha\":0.4,\"target_modules\":[\"q_proj\"]}",
      tensors, 2, 0.5f);
  accel_endpoint *merged = open_model(MODELS "/llama", "cpu", NULL, path, false),
                 *beside = open_model(MODELS "/llama", "cpu", NULL, NULL, true);
  accel_adapter *a = load(beside, path);
  const answer want = generate(merged, NULL, 1), got = generate(beside, a, 1),
               base = generate(beside, NULL, 1);
  assert_true(close_to(&want, &got, 1e-3));
  assert_false(close_to(&got, &base, 1e-3));
  accel_adapter_free(&a);
  accel_cleanup(&merged);
  accel_cleanup(&beside);
}

/* ---- refusals ---- */

static void refuse_load(accel_endpoint *ep, const char *path, accel_status status,
                        const char *says) {
  accel_adapter *a = NULL;
  assert_int_equal(accel_adapter_load(ep, path, &a), status);
  assert_null(a);
  if (!strstr(accel_last_error(), says)) fail_msg("'%s' has no '%s'", accel_last_error(), says);
}

static void test_refusals(void **state) {
  (void)state;
  accel_endpoint *ep = open_model(MODELS "/llama", "cpu", NULL, NULL, true),
                 *plain = open_model(MODELS "/llama", "cpu", NULL, NULL, false);
  refuse_load(plain, ADAPTERS "/llama_plain", ACCEL_ERROR_UNSUPPORTED, "no adapters");
  refuse_load(ep, ADAPTERS "/llama_dora", ACCEL_ERROR_UNSUPPORTED, "use_dora");
  refuse_load(ep, ADAPTERS "/llama_tables", ACCEL_ERROR_UNSUPPORTED, "replaced");
  refuse_load(ep, ADAPTERS "/llama_saved", ACCEL_ERROR_UNSUPPORTED, "replaced");
  refuse_load(ep, ADAPTERS "/bert_classes", ACCEL_ERROR_UNSUPPORTED, "replaced");
  refuse_load(ep, ADAPTERS "/phi3_fused", ACCEL_ERROR_FORMAT, "the model has no");
  refuse_load(ep, temp_path("nowhere"), ACCEL_ERROR_NOT_FOUND, "nowhere");
  accel_adapter *a = load(ep, ADAPTERS "/llama_plain");
  accel_generations *result = NULL;
  const int32_t *ids = prompt;
  const uint32_t n = PROMPT;
  accel_generate_params how = params_of(a, 1);
  assert_int_equal(accel_generate_ids(plain, &ids, &n, 1, &how, &result), ACCEL_ERROR_ARGUMENT);
  how.adapter_scale = NAN;
  assert_int_equal(accel_generate_ids(ep, &ids, &n, 1, &how, &result), ACCEL_ERROR_ARGUMENT);
  assert_non_null(strstr(accel_last_error(), "adapter_scale"));
  accel_adapter_free(&a);
  accel_adapter_free(&a);
  accel_adapter_free(NULL);
  accel_cleanup(&ep);
  accel_cleanup(&plain);
}

/* Beside a checkpoint in codes, into which nothing can be merged. */
static void test_quantised(void **state) {
  (void)state;
  const given tensors[] = {
      {"base_model.model.bert.encoder.layer.0.attention.self.query.lora_A.weight", 2, {2, 96}},
      {"base_model.model.bert.encoder.layer.0.attention.self.query.lora_B.weight", 2, {96, 2}}};
  const char *path = make_adapter("{\"peft_type\":\"LORA\",\"r\":2,\"target_modules\":[\"query\"]}",
                                  tensors, 2, 0.5f);
  accel_endpoint *ep = open_model(MODELS "/quantised/gptq_g32", "cpu", NULL, NULL, true);
  accel_adapter *a = load(ep, path);
  accel_adapter_free(&a);
  accel_cleanup(&ep);
}

static int begin(void **state) {
  (void)state;
  accel_params params = accel_params_default();
  params.plugin_path = ACCEL_TEST_BUILD "/lib/accel/0";
  params.threads = 2;
  params.cache_directory = temp_path("cache");
  return accel_create(&params, &context) != ACCEL_OK;
}

static int end(void **state) {
  (void)state;
  accel_destroy(&context);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reference), cmocka_unit_test(test_cpu),
      cmocka_unit_test(test_mixed),     cmocka_unit_test(test_halves),
      cmocka_unit_test(test_classify),  cmocka_unit_test(test_embed),
      cmocka_unit_test(test_session),   cmocka_unit_test(test_large_rank),
      cmocka_unit_test(test_refusals),  cmocka_unit_test(test_quantised)};
  return cmocka_run_group_tests(tests, begin, end);
}
