/* tasks_logits_test.c - processors and warpers beside transformers' own on fixed scores, ranking,
 * and the random numbers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/tensor_bytes.h"
#include "generate/logits.h"
#include "weights/weights.h"

#define GOLDEN ACCEL_FIXTURES "/tasks/logits.safetensors"

typedef struct golden {
  accel__checkpoint *file;
  accel__json_file cases;
  int32_t ids[64];
  accel__logits_input input;
  const float *scores;
  size_t vocab;
} golden;

static void open_golden(golden *g) {
  *g = (golden){0};
  assert_int_equal(accel__checkpoint_open(GOLDEN, &g->file), ACCEL_OK);
  const char *cases = accel__checkpoint_metadata(g->file, "cases");
  assert_int_equal(accel__json_parse(cases, strlen(cases), "cases", &g->cases), ACCEL_OK);
  const accel__tensor_info *ids = accel__checkpoint_find(g->file, "ids"),
                           *scores = accel__checkpoint_find(g->file, "scores");
  const int64_t *stored_ids = stored(g->file, ids);
  for (uint64_t i = 0; i < ids->elements; i++) g->ids[i] = (int32_t)stored_ids[i];
  g->scores = stored(g->file, scores);
  g->vocab = scores->elements;
  uint32_t prompt = (uint32_t)atoi(accel__checkpoint_metadata(g->file, "prompt"));
  g->input =
      (accel__logits_input){.ids = {g->ids, (uint32_t)ids->elements},
                            .prompt = prompt,
                            .encoder = {g->ids, prompt},
                            .max_length = atoi(accel__checkpoint_metadata(g->file, "max_length"))};
}

static void check_case(const golden *g, const accel__json *config, uint32_t number) {
  accel__arena arena = {0};
  accel__logits_scratch scratch = {0};
  accel__generate_config c;
  char *text = cJSON_PrintUnformatted(config), name[32];
  accel__json_file file = {0};
  assert_int_equal(accel__json_parse(text, strlen(text), "case", &file), ACCEL_OK);
  assert_int_equal(accel__generate_config_read(&file, NULL, &arena, &c), ACCEL_OK);
  assert_int_equal(accel__generate_config_check(&c, "case", (int64_t)g->vocab), ACCEL_OK);
  float *scores = malloc(g->vocab * sizeof *scores);
  memcpy(scores, g->scores, g->vocab * sizeof *scores);
  assert_int_equal(accel__logits_process(&c, &g->input, &scratch, scores, g->vocab), ACCEL_OK);
  snprintf(name, sizeof name, "out.%u", number);
  const accel__tensor_info *want = accel__checkpoint_find(g->file, name);
  assert_non_null(want);
  const float *expected = stored(g->file, want);
  assert_non_null(expected);
  for (size_t i = 0; i < g->vocab; i++) {
    float x = scores[i], y = expected[i];
    if (x != y && !(fabsf(x - y) <= 1e-5f * (1 + fabsf(y))))
      fail_msg("%s: token %zu has %.9g, expected %.9g", text, i, (double)x, (double)y);
  }
  free(scores);
  accel__logits_scratch_free(&scratch);
  accel__json_free(&file);
  accel__arena_free(&arena);
  cJSON_free(text);
}

static void test_transformers(void **state) {
  golden g;
  uint32_t n = 0;
  (void)state;
  open_golden(&g);
  ACCEL_JSON_EACH(config, g.cases.root) check_case(&g, config, n++);
  assert_true(n > 40);
  accel__json_free(&g.cases);
  accel__checkpoint_close(&g.file);
}

/* Not transformers': counted over generated tokens alone. */
static void test_presence_and_frequency(void **state) {
  const int32_t ids[] = {1, 2, 3, 4, 4, 5};
  accel__logits_input in = {.ids = {ids, 6}, .prompt = 3};
  accel__generate_config c = {.repetition_penalty = 1,
                              .encoder_repetition_penalty = 1,
                              .presence_penalty = 0.5,
                              .frequency_penalty = 0.25,
                              .forced_bos = -1};
  accel__logits_scratch scratch = {0};
  float scores[8] = {0};
  (void)state;
  assert_int_equal(accel__logits_processors(&c, &in, &scratch, scores, 8), ACCEL_OK);
  assert_true(scores[3] == 0 && scores[4] == -1.0f && scores[5] == -0.75f);
  accel__logits_scratch_free(&scratch);
}

static void test_highest(void **state) {
  enum { N = 500 };
  static float x[N];
  static accel__ranked all[N], few[N];
  accel__random r = accel__random_new(1, 0);
  (void)state;
  /* many ties */
  for (int i = 0; i < N; i++) x[i] = i % 7 == 0 ? -INFINITY : (float)(accel__random_next(&r) % 97);
  uint32_t n = accel__highest(x, N, N, all);
  assert_int_equal(n, N - (N + 6) / 7);
  for (uint32_t i = 1; i < n; i++)
    assert_true(all[i - 1].value > all[i].value ||
                (all[i - 1].value == all[i].value && all[i - 1].index < all[i].index));
  for (uint32_t k = 1; k < n; k += 13) {
    assert_int_equal(accel__highest(x, N, k, few), k);
    for (uint32_t i = 0; i < k; i++) assert_int_equal(few[i].index, all[i].index);
  }
  assert_int_equal(accel__highest(x, N, 0, few), 0);
}

static void test_random(void **state) {
  accel__random r = {0};
  (void)state;
  /* the published sequence of seed 0 */
  assert_true(accel__random_next(&r) == UINT64_C(0xe220a8397b1dcdaf));
  assert_true(accel__random_next(&r) == UINT64_C(0x6e789e6aa1b965f4));
  const float scores[4] = {logf(0.1f), -INFINITY, logf(0.6f), logf(0.3f)};
  int count[4] = {0};
  accel__random draws = accel__random_new(7, 0);
  for (int i = 0; i < 20000; i++) count[accel__draw(&draws, scores, 4)]++;
  assert_int_equal(count[1], 0);
  assert_in_range(count[0], 1800, 2200);
  assert_in_range(count[2], 11700, 12300);
  const float none[2] = {-INFINITY, -INFINITY}, broken[2] = {NAN, NAN};
  assert_int_equal(accel__draw(&draws, none, 2), -1);
  assert_int_equal(accel__draw(&draws, broken, 2), -1);
  accel__random a = accel__random_new(5, 0), b = accel__random_new(5, 1),
                c = accel__random_new(6, 0);
  uint64_t first = accel__random_next(&a);
  assert_true(first != accel__random_next(&b) && first != accel__random_next(&c));
}

/* ---- configuration ---- */

static accel_status read(const char *text, bool strict, accel__generate_config *c,
                         accel__arena *arena) {
  accel__json_file file = {0}, empty = {0};
  assert_int_equal(accel__json_parse("{}", 2, "empty", &empty), ACCEL_OK);
  assert_int_equal(accel__generate_config_read(&empty, NULL, arena, c), ACCEL_OK);
  accel_status status = accel__json_parse(text, strlen(text), "generation_config.json", &file);
  assert_int_equal(status, ACCEL_OK);
  status = accel__generate_config_overlay(&file, strict, arena, c);
  accel__json_free(&file);
  accel__json_free(&empty);
  return status == ACCEL_OK ? accel__generate_config_check(c, "model", 100) : status;
}

static void test_fields(void **state) {
  static const char *const good[] = {
      "{\"eos_token_id\": [1, 2], \"pad_token_id\": 0, \"do_sample\": true, \"temperature\": 0.6, "
      "\"unknown\": {\"a\": 1}}",
      "{\"guidance_scale\": 1.0, \"watermarking_config\": null, \"token_healing\": false, "
      "\"num_beam_groups\": 1}",
      "{\"stop_strings\": \"end\", \"early_stopping\": \"never\", \"num_beams\": 4, "
      "\"num_return_sequences\": 4}",
      "{\"suppress_tokens\": [-1], \"max_length\": 30, \"transformers_version\": \"5.0\"}"};
  static const struct {
    const char *text, *word;
  } bad[] = {{"{\"guidance_scale\": 1.5}", "guidance_scale"},
             {"{\"token_healing\": true}", "token_healing"},
             {"{\"watermarking_config\": {\"bias\": 2}}", "watermarking_config"},
             {"{\"num_beam_groups\": 2}", "num_beam_groups"},
             {"{\"penalty_alpha\": 0.6}", "penalty_alpha"},
             {"{\"eos_token_id\": \"x\"}", "eos_token_id"},
             {"{\"eos_token_id\": [1, 2.5]}", "eos_token_id"},
             {"{\"temperature\": \"hot\"}", "temperature"},
             {"{\"do_sample\": true, \"temperature\": 0}", "temperature"},
             {"{\"do_sample\": true, \"top_p\": 1.5}", "top_p"},
             {"{\"do_sample\": true, \"top_k\": -1}", "top_k"},
             {"{\"repetition_penalty\": 0}", "repetition_penalty"},
             {"{\"early_stopping\": \"sometimes\"}", "early_stopping"},
             {"{\"bad_words_ids\": [[]]}", "bad_words_ids"},
             {"{\"bad_words_ids\": [[100]]}", "bad_words_ids"},
             {"{\"sequence_bias\": [[[1], \"x\"]]}", "sequence_bias"},
             {"{\"stop_strings\": [\"\"]}", "stop_strings"},
             {"{\"exponential_decay_length_penalty\": [1]}", "exponential_decay_length_penalty"},
             {"{\"forced_eos_token_id\": 5, \"suppress_tokens\": [5]}", "suppress_tokens"},
             {"{\"num_beams\": 2, \"num_return_sequences\": 3}", "num_return_sequences"},
             {"{\"num_return_sequences\": 3}", "greedy"},
             {"{\"max_new_tokens\": 0}", "max_new_tokens"}};
  accel__generate_config c;
  accel__arena arena = {0};
  (void)state;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    if (read(good[i], false, &c, &arena) != ACCEL_OK) fail_msg("%s: %s", good[i], accel__message());
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_not_equal(read(bad[i].text, false, &c, &arena), ACCEL_OK);
    if (!strstr(accel__message(), bad[i].word)) fail_msg("%s: %s", bad[i].text, accel__message());
  }
  assert_int_equal(read("{\"unknown\": 1}", true, &c, &arena), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(read("{\"eos_token_id\": 7, \"forced_bos_token_id\": 3}", true, &c, &arena),
                   ACCEL_OK);
  assert_true(c.eos.n == 1 && c.eos.id[0] == 7 && c.forced_bos == 3 && c.top_k == 50 &&
              !c.do_sample && c.max_length == -1);
  accel__arena_free(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_transformers), cmocka_unit_test(test_presence_and_frequency),
      cmocka_unit_test(test_highest), cmocka_unit_test(test_random), cmocka_unit_test(test_fields)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
