/* tasks_text2text_test.c - encoder-decoders in company: batches and the queue give what each
 * request gives alone; the calls for translations and summaries in C. */
#include "test_endpoint.h"

#include <stdio.h>
#include <unistd.h>

enum { REQUESTS = 12, LONGEST = 40 };

typedef struct answer {
  uint32_t n;
  int32_t ids[2][LONGEST];
  uint32_t count[2];
  double score[2];
} answer;

static accel_endpoint *open_model(accel *ctx, const char *name, const char *device) {
  accel_init_params how = accel_init_params_default();
  accel_endpoint *ep;
  char path[512];
  snprintf(path, sizeof path, "%s/%s", ACCEL_FIXTURES, name);
  how.device = device;
  assert_ok(accel_init(ctx, path, &how, &ep));
  return ep;
}

static void keep(answer *a, const accel_generations *g) {
  a->n = g->n;
  assert_in_range(g->n, 1, 2);
  for (uint32_t i = 0; i < g->n; i++) {
    a->count[i] = g->item[i].n;
    a->score[i] = g->item[i].score;
    assert_in_range(g->item[i].n, 1, LONGEST);
    memcpy(a->ids[i], g->item[i].ids, g->item[i].n * sizeof(int32_t));
  }
}

static void same(const answer *a, const answer *b) {
  assert_int_equal(a->n, b->n);
  for (uint32_t i = 0; i < a->n; i++) {
    assert_int_equal(a->count[i], b->count[i]);
    assert_memory_equal(a->ids[i], b->ids[i], a->count[i] * sizeof(int32_t));
    assert_true(a->score[i] == b->score[i]);
  }
}

/* Request i: an input of its own length, greedy or with beams, of its own settings. */
static accel_generate_params wishes(int i) {
  static const char *const config[] = {
      "{\"no_repeat_ngram_size\": 2}",
      "{\"encoder_no_repeat_ngram_size\": 2, \"early_stopping\": true}",
      "{\"forced_bos_token_id\": 9}", "{\"min_length\": 7, \"length_penalty\": 2.0}"};
  accel_generate_params how = accel_generate_params_default();
  how.max_new_tokens = 5 + i;
  how.num_beams = 1 + (uint32_t)i % 4;
  how.num_return_sequences = i % 4 ? 2 : 1;
  how.config = config[i % 4];
  return how;
}

static uint32_t input(int i, int32_t *ids) {
  uint32_t n = 1 + (uint32_t)(5 * i) % 11;
  for (uint32_t k = 0; k < n; k++) ids[k] = 3 + (int32_t)((unsigned)i * 7u + k * k * 5u) % 24;
  return n;
}

static void check_company(const char *name, const char *device) {
  static answer alone[REQUESTS], together;
  accel *ctx = test_context();
  accel_endpoint *ep = open_model(ctx, name, device);
  accel_ticket *ticket[REQUESTS], *none = NULL;
  accel_generations *g;
  int32_t ids[REQUESTS][16];
  uint32_t n[REQUESTS];
  for (int i = 0; i < REQUESTS; i++) {
    const accel_generate_params how = wishes(i);
    const int32_t *one = ids[i];
    n[i] = input(i, ids[i]);
    assert_ok(accel_generate_ids(ep, &one, &n[i], 1, &how, &g));
    keep(&alone[i], g);
    accel_generations_free(&g);
  }
  for (int i = 0; i < REQUESTS; i++) { /* joined at whatever token the others are */
    const accel_generate_params how = wishes(i);
    assert_ok(accel_submit_generate(accel_queue_of(ep), NULL, ids[i], n[i], &how, &ticket[i]));
  }
  assert_int_equal(accel_submit_generate(accel_queue_of(ep), NULL, (const int32_t[]){5, 1 << 20}, 2,
                                         NULL, &none),
                   ACCEL_ERROR_ARGUMENT);
  for (int i = REQUESTS; i-- > 0;) {
    assert_ok(accel_wait_generations(&ticket[i], -1, &g));
    keep(&together, g);
    same(&alone[i], &together);
    accel_generations_free(&g);
  }
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

static void test_company(void **state) {
  (void)state;
  check_company("models/generate_t5", "reference");
  check_company("models/generate_mbart", "reference");
}

static void test_company_on_cpu(void **state) {
  (void)state;
  if (access(ACCEL_TEST_PLUGINS "/libaccel_cpu.so", R_OK) != 0) skip(); /* not built */
  check_company("models/generate_t5_gated", "cpu");
  check_company("models/generate_pegasus", "cpu");
}

/* A batch of texts of different lengths is each text alone; the prefix of a task belongs to it. */
static void test_texts(void **state) {
  static const char *const texts[] = {"Hello world", "the quick brown fox jumps over the lazy dog",
                                      "x"};
  accel *ctx = test_context();
  accel_endpoint *ep = open_model(ctx, "pipelines/t5", "reference");
  accel_generate_params how = accel_generate_params_default();
  accel_text2text_params task = accel_text2text_params_default();
  accel_generations *all, *one, *plain;
  (void)state;
  how.max_new_tokens = 9;
  task.generate = &how;
  assert_ok(accel_translate(ep, texts, 3, "en", "fr", &how, &all));
  for (int i = 0; i < 3; i++) {
    assert_ok(accel_translate(ep, &texts[i], 1, "en", "fr", &how, &one));
    assert_string_equal(one->item[0].text, all->item[i].text);
    accel_generations_free(&one);
  }
  accel_generations_free(&all);
  assert_ok(accel_summarize(ep, texts, 1, &how, &one));
  assert_ok(accel_text2text(ep, (const char *[]){"summarize: Hello world"}, 1, &task, &plain));
  assert_int_equal(one->prompt_tokens, plain->prompt_tokens);
  accel_generations_free(&one);
  accel_generations_free(&plain);
  assert_ok(accel_translate(ep, NULL, 0, NULL, NULL, NULL, &one));
  assert_int_equal(one->n, 0);
  accel_generations_free(&one);
  assert_int_equal(accel_translate(ep, texts, 1, "en", "xx", NULL, &one), ACCEL_ERROR_ARGUMENT);
  assert_null(one);
  assert_int_equal(accel_summarize(ep, NULL, 1, NULL, &one), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel_summarize(ep, (const char *[]){NULL}, 1, NULL, &one),
                   ACCEL_ERROR_ARGUMENT);
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_company),
                                     cmocka_unit_test(test_company_on_cpu),
                                     cmocka_unit_test(test_texts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
