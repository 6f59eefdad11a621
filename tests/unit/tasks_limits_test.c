/* tasks_limits_test.c - generation where something runs out: a KV cache full in the midst of a
 * batch, prompts longer than the context, texts without a token.  One request's failure is its
 * own. */
#include <stdio.h>

#include "test_endpoint.h"
#include "temp.h"

enum {
  PAGE_ROWS = 256,
  PAGE_BYTES = PAGE_ROWS * 4 * 64 * 2 * 4 /* 4 heads of 64, K and V, fp32 */,
  REQUESTS = 5
};

/* One layer with a wide cache, long contexts, random weights. */
static const char *wide_cache(void) {
  static char directory[512];
  temp_text("wide/config.json",
            "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", "
            "\"vocab_size\": 40, \"hidden_size\": 16, "
            "\"intermediate_size\": 16, \"num_hidden_layers\": 1, \"num_attention_heads\": 4, "
            "\"num_key_value_heads\": 4, "
            "\"head_dim\": 64, \"max_position_embeddings\": 4096, \"bos_token_id\": 1, "
            "\"eos_token_id\": 2}");
  snprintf(directory, sizeof directory, "%s/wide", temp_directory());
  return directory;
}

static accel_endpoint *open_wide(accel *ctx, const char *device) {
  accel_init_params how = accel_init_params_default();
  accel_endpoint *ep;
  how.device = device;
  how.precision = "fp32";
  how.random_weights = 1;
  assert_ok(accel_init(ctx, wide_cache(), &how, &ep));
  return ep;
}

/* What weights and the runs of all requests take. */
static uint64_t without_cache(accel *ctx, const char *device) {
  accel_fit_params how = accel_fit_params_default();
  accel_fit_report *report;
  how.device = device;
  how.precision = "fp32";
  how.batch = REQUESTS;
  how.seq = 8;
  assert_ok(accel_fit(ctx, wide_cache(), &how, &report));
  uint64_t bytes = report->record[0].weights + report->record[0].scratch;
  accel_fit_report_free(&report);
  return bytes;
}

static accel_generate_params greedy(int32_t tokens) {
  accel_generate_params how = accel_generate_params_default();
  how.max_new_tokens = tokens;
  how.ignore_eos = 1;
  return how;
}

/* Requests [i] of 4 + i tokens that want `tokens[i]` more; those that fail say so, the others give
 * what they give alone. */
static void check_requests(accel *limited, accel *free_ctx, const char *device,
                           const int32_t *tokens, uint32_t fail) {
  accel_endpoint *ep = open_wide(limited, device), *alone = open_wide(free_ctx, device);
  accel_ticket *ticket[REQUESTS];
  int32_t ids[REQUESTS][16];
  uint32_t failed = 0;
  for (int32_t i = 0; i < REQUESTS; i++) {
    const accel_generate_params how = greedy(tokens[i]);
    for (int32_t k = 0; k < 16; k++) ids[i][k] = 3 + (5 * k + 11 * i) % 37;
    assert_ok(
        accel_submit_generate(accel_queue_of(ep), NULL, ids[i], 4 + (uint32_t)i, &how, &ticket[i]));
  }
  for (uint32_t i = 0; i < REQUESTS; i++) {
    const accel_generate_params how = greedy(tokens[i]);
    const int32_t *row = ids[i];
    const uint32_t count = 4 + i;
    accel_generations *joint, *solo;
    accel_status status = accel_wait_generations(&ticket[i], -1, &joint);
    if (status != ACCEL_OK) {
      assert_int_equal(status, ACCEL_ERROR_LIMIT);
      assert_non_null(strstr(accel_last_error(), "KV cache is full"));
      if (tokens[i] < PAGE_ROWS) fail_msg("request %u: %s", i, accel_last_error());
      failed++;
      continue;
    }
    assert_ok(accel_generate_ids(alone, &row, &count, 1, &how, &solo));
    assert_int_equal(joint->item[0].n, tokens[i]);
    assert_memory_equal(joint->item[0].ids, solo->item[0].ids, (size_t)tokens[i] * sizeof(int32_t));
    accel_generations_free(&joint);
    accel_generations_free(&solo);
  }
  assert_int_equal(failed, fail);
  accel_cleanup(&alone);
  accel_cleanup(&ep);
}

/* Three of five requests need a second page: where there is not memory for all of them, some wait
 * for others and none fails, unless there is no memory for two pages. */
static void test_full_cache(void **state) {
  static const char *const devices[] = {"reference", "cpu"};
  static const int32_t tokens[REQUESTS] = {20, 500, 30, 500, 490};
  (void)state;
  for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
    accel *plenty = test_context(), *little;
    accel_params params = test_params();
    params.memory_limit = without_cache(plenty, devices[d]) + 6 * PAGE_BYTES + PAGE_BYTES / 2;
    assert_ok(accel_create(&params, &little));
    check_requests(little, plenty, devices[d], tokens, 0);
    accel_destroy(&little);
    params.memory_limit -= 3 * PAGE_BYTES;
    assert_ok(accel_create(&params, &little));
    check_requests(little, plenty, devices[d], tokens, 0);
    accel_destroy(&little);
    params.memory_limit -= 2 * PAGE_BYTES;
    assert_ok(accel_create(&params, &little));
    check_requests(little, plenty, devices[d], tokens, 3);
    accel_destroy(&little);
    accel_destroy(&plenty);
  }
}

/* A session that runs full keeps what it holds, and goes on once there is room. */
static void test_full_session(void **state) {
  accel *plenty = test_context(), *little;
  accel_params params = test_params();
  accel_session *s, *other;
  static const int32_t ids[30] = {3, 4, 5, 30};
  (void)state;
  params.memory_limit = without_cache(plenty, "reference") + 2 * PAGE_BYTES + PAGE_BYTES / 2;
  assert_ok(accel_create(&params, &little));
  accel_endpoint *ep = open_wide(little, "reference");
  assert_ok(accel_session_open(ep, &s));
  assert_ok(accel_session_open(ep, &other));
  assert_ok(accel_session_feed_ids(other, ids, 20));
  for (int i = 0; i < 8; i++) assert_ok(accel_session_feed_ids(s, ids, 30));
  assert_int_equal(accel_session_feed_ids(s, ids, 30), ACCEL_ERROR_LIMIT);
  assert_non_null(strstr(accel_last_error(), "KV cache is full"));
  assert_int_equal(accel_session_length(s), 240);
  accel_session_close(&other);
  assert_ok(accel_session_feed_ids(s, ids, 30));
  assert_int_equal(accel_session_length(s), 270);
  accel_session_close(&s);
  accel_cleanup(&ep);
  accel_destroy(&little);
  accel_destroy(&plenty);
}

/* ---- prompts ---- */

static accel_endpoint *open_text(accel *ctx) {
  accel_init_params how = accel_init_params_default();
  accel_endpoint *ep;
  how.device = "reference";
  assert_ok(accel_init(ctx, ACCEL_FIXTURES "/pipelines/text", &how, &ep));
  return ep;
}

/* Refused when it is submitted; what runs does not notice. */
static void test_long_prompt(void **state) {
  accel *ctx = test_context();
  accel_endpoint *ep = open_text(ctx);
  accel_ticket *good, *bad = NULL;
  accel_generations *joint, *solo;
  static char text[4000];
  const char *const cat = "The cat";
  const accel_generate_params how = greedy(30);
  (void)state;
  for (size_t i = 0; i + 1 < sizeof text; i++) text[i] = (char)('a' + i % 26);
  assert_ok(accel_submit_generate(accel_queue_of(ep), cat, NULL, 0, &how, &good));
  assert_int_equal(accel_submit_generate(accel_queue_of(ep), text, NULL, 0, &how, &bad),
                   ACCEL_ERROR_LIMIT);
  assert_non_null(strstr(accel_last_error(), "context of 128"));
  assert_null(bad);
  assert_ok(accel_wait_generations(&good, -1, &joint));
  assert_ok(accel_generate(ep, &cat, 1, &how, &solo));
  assert_string_equal(joint->item[0].text, solo->item[0].text);
  accel_generations_free(&joint);
  accel_generations_free(&solo);
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

/* It begins with the BOS token, through the queue as without it. */
static void test_empty_text(void **state) {
  accel *ctx = test_context();
  accel_endpoint *ep = open_text(ctx);
  accel_ticket *ticket;
  accel_generations *joint, *solo;
  const char *const nothing = "";
  const accel_generate_params how = greedy(12);
  (void)state;
  assert_ok(accel_submit_generate(accel_queue_of(ep), nothing, NULL, 0, &how, &ticket));
  assert_ok(accel_wait_generations(&ticket, -1, &joint));
  assert_ok(accel_generate(ep, &nothing, 1, &how, &solo));
  assert_int_equal(joint->item[0].n, 12);
  assert_memory_equal(joint->item[0].ids, solo->item[0].ids, 12 * sizeof(int32_t));
  assert_int_equal(joint->prompt_tokens, 1);
  assert_int_equal(accel_submit_generate(accel_queue_of(ep), NULL, NULL, 0, &how, &ticket),
                   ACCEL_ERROR_ARGUMENT);
  accel_generations_free(&joint);
  accel_generations_free(&solo);
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

/* ---- rotations that depend on the length ---- */

/* Phi-3's longrope turns to its long factors beyond 16 tokens here: what a session read before is
 * read anew, so that a text in pieces is what it is at once, also from a file and after a step
 * back. */
static void test_long_rotations(void **state) {
  accel *ctx = test_context();
  accel_init_params how = accel_init_params_default();
  const accel_generate_params few = greedy(8);
  const char *path = temp_path("session");
  static const int32_t ids[20] = {5, 17, 33, 60, 8, 41, 9,  12, 50, 6,
                                  7, 22, 31, 44, 3, 29, 61, 18, 55, 11};
  const int32_t *const row = ids;
  const uint32_t whole = 20, part = 9;
  accel_endpoint *ep;
  accel_session *s, *loaded;
  accel_generations *at_once, *found;
  (void)state;
  how.device = "reference";
  assert_ok(accel_init(ctx, ACCEL_FIXTURES "/models/phi3_long", &how, &ep));
  assert_ok(accel_generate_ids(ep, &row, &whole, 1, &few, &at_once));
  assert_ok(accel_session_open(ep, &s));
  assert_ok(accel_session_feed_ids(s, ids, part));
  assert_ok(accel_session_save(s, path));
  assert_ok(accel_session_feed_ids(s, ids + part, whole - part));
  assert_ok(accel_session_generate(s, &few, &found));
  assert_memory_equal(found->item[0].ids, at_once->item[0].ids, 8 * sizeof(int32_t));
  accel_generations_free(&found);
  assert_ok(accel_session_load(ep, path, &loaded));
  assert_ok(accel_session_feed_ids(loaded, ids + part, whole - part));
  assert_ok(accel_session_generate(loaded, &few, &found));
  assert_memory_equal(found->item[0].ids, at_once->item[0].ids, 8 * sizeof(int32_t));
  accel_generations_free(&found);
  accel_generations_free(&at_once);
  assert_ok(accel_session_truncate(s, part)); /* back to the short ones */
  assert_ok(accel_session_generate(s, &few, &found));
  assert_ok(accel_generate_ids(ep, &row, &part, 1, &few, &at_once));
  assert_memory_equal(found->item[0].ids, at_once->item[0].ids, 8 * sizeof(int32_t));
  accel_generations_free(&found);
  accel_generations_free(&at_once);
  accel_session_close(&loaded);
  accel_session_close(&s);
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

/* ---- vocabularies that are not the model's ---- */

static void copy_text_model(const char *to, const char *config_from, const char *config_to,
                            bool weights) {
  static const char *const names[] = {"tokenizer.json", "tokenizer_config.json", "config.json",
                                      "model.safetensors"};
  static char bytes[1 << 20];
  for (int i = 0; i < (weights ? 4 : 3); i++) {
    char path[512], name[128];
    snprintf(path, sizeof path, ACCEL_FIXTURES "/pipelines/text/%s", names[i]);
    snprintf(name, sizeof name, "%s/%s", to, names[i]);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes - 1, f);
    fclose(f);
    bytes[n] = 0;
    char *at = i == 2 ? strstr(bytes, config_from) : NULL;
    assert_true(i != 2 || at);
    if (at) {
      memmove(at + strlen(config_to), at + strlen(config_from),
              n - (size_t)(at - bytes) - strlen(config_from) + 1);
      memcpy(at, config_to, strlen(config_to));
      n += strlen(config_to) - strlen(config_from);
    }
    temp_file(name, bytes, n);
  }
}

/* config.json's vocabulary is not the checkpoint's: the tensor is named.  The tokenizer's is larger
 * than the model's: texts that need the rest are refused, others are not; it is smaller: what has
 * no text is left out. */
static void test_vocabularies(void **state) {
  accel *ctx = test_context();
  accel_init_params how = accel_init_params_default();
  const accel_generate_params few = greedy(8);
  const char *const words = "The cat", *const nothing = "";
  accel_endpoint *ep;
  accel_generations *found;
  (void)state;
  how.device = "reference";
  copy_text_model("other", "\"vocab_size\": 300", "\"vocab_size\": 310", true);
  assert_int_equal(accel_init(ctx, temp_path("other"), &how, &ep), ACCEL_ERROR_FORMAT);
  assert_non_null(strstr(accel_last_error(), "embed_tokens"));
  how.random_weights = 1;
  copy_text_model("small", "\"vocab_size\": 300", "\"vocab_size\": 40", false);
  assert_ok(accel_init(ctx, temp_path("small"), &how, &ep));
  assert_int_equal(accel_generate(ep, &words, 1, &few, &found), ACCEL_ERROR_ARGUMENT);
  assert_non_null(strstr(accel_last_error(), "the model's are 0 to 39"));
  assert_ok(accel_generate(ep, &nothing, 1, &few, &found));
  accel_generations_free(&found);
  accel_cleanup(&ep);
  copy_text_model("large", "\"vocab_size\": 300", "\"vocab_size\": 5000", false);
  assert_ok(accel_init(ctx, temp_path("large"), &how, &ep));
  assert_ok(accel_generate(ep, &words, 1, &few, &found));
  assert_int_equal(found->item[0].n, 8);
  accel_generations_free(&found);
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

/* Classes that look for the last token which is no padding take one sequence at a time without a
 * padding token, also where config.json takes the class's own away (Gemma 2). */
static void test_no_padding_token(void **state) {
  static const char *const models[] = {"llama_no_pad", "gemma2_no_pad", "gpt2_no_pad"};
  accel *ctx = test_context();
  (void)state;
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    accel_init_params how = accel_init_params_default();
    accel_endpoint *ep;
    accel_tensors *outputs;
    test_input in;
    char path[512];
    snprintf(path, sizeof path, "%s/models/%s", ACCEL_FIXTURES, models[i]);
    how.device = "reference";
    assert_ok(accel_init(ctx, path, &how, &ep));
    fill_input(&in, 7, 1, 6, 0);
    assert_ok(accel_run(ep, &in.list, &outputs));
    accel_tensors_free(&outputs);
    fill_input(&in, 7, 2, 6, 0);
    assert_int_equal(accel_run(ep, &in.list, &outputs), ACCEL_ERROR_ARGUMENT);
    assert_non_null(strstr(accel_last_error(), "pad_token_id"));
    accel_cleanup(&ep);
  }
  accel_destroy(&ctx);
}

/* ---- weights that are made up ---- */

/* Rates of decay are negative whatever the seed: long texts stay finite. */
static void test_random_mamba(void **state) {
  accel *ctx = test_context();
  accel_init_params how = accel_init_params_default();
  accel_endpoint *ep;
  accel_generations *found;
  static int32_t ids[6000];
  const int32_t *row = ids;
  const uint32_t count = 6000;
  const accel_generate_params one = greedy(1);
  char directory[512];
  (void)state;
  for (int i = 0; i < 6000; i++) ids[i] = 3 + (i * i) % 37;
  temp_text(
      "mamba/config.json",
      "{\"architectures\": [\"MambaForCausalLM\"], \"model_type\": \"mamba\", \"vocab_size\": 40, "
      "\"hidden_size\": 16, "
      "\"state_size\": 4, \"num_hidden_layers\": 2, \"conv_kernel\": 4, \"eos_token_id\": 2}");
  snprintf(directory, sizeof directory, "%s/mamba", temp_directory());
  how.device = "reference";
  how.precision = "fp32"; /* a demand: what is not finite is an error */
  how.random_weights = 1;
  assert_ok(accel_init(ctx, directory, &how, &ep));
  assert_ok(accel_generate_ids(ep, &row, &count, 1, &one, &found));
  accel_generations_free(&found);
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_full_cache),       cmocka_unit_test(test_full_session),
      cmocka_unit_test(test_long_prompt),      cmocka_unit_test(test_empty_text),
      cmocka_unit_test(test_long_rotations),   cmocka_unit_test(test_vocabularies),
      cmocka_unit_test(test_no_padding_token), cmocka_unit_test(test_random_mamba),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
