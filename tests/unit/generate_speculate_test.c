/* generate_speculate_test.c - speculation: what is looked up, how many guesses pay, and that tokens,
 * log probabilities, draws and finishes are those of plain decoding, over a made-up model and real
 * ones. */
#include <math.h>
#include <stdio.h>

#include "fake_stepper.h"
#include "made_decoder.h"

/* ---- what is looked up, and how many ---- */

static void test_lookup(void **state) {
  static const int32_t ids[] = {1, 2, 3, 4, 2, 3, 9, 5, 2, 3};
  const accel__ids all = {ids, 10}, before = {ids, 9};
  uint32_t n;
  (void)state;
  assert_int_equal(accel__lookup(before, all, 4, &n), 6); /* the latest of two */
  assert_int_equal(n, 2);
  assert_int_equal(accel__lookup((accel__ids){ids, 4}, (accel__ids){ids, 4}, 4, &n), 4);
  assert_int_equal(n, 4);
  assert_int_equal(accel__lookup((accel__ids){ids, 3}, (accel__ids){ids, 4}, 4, &n), 0);
  assert_int_equal(n, 0);
  static const int32_t same[] = {7, 7, 7, 7};
  assert_int_equal(accel__lookup((accel__ids){same, 3}, (accel__ids){same, 4}, 2, &n), 3);
  assert_int_equal(n, 2);
}

static void test_count(void **state) {
  accel__step_cost cost = {0};
  accel__odds next = {.prior = 0.6};
  accel__guess_record record = {.first.prior = 0.6, .next = &next};
  uint32_t tried = 0;
  (void)state;
  assert_int_equal(accel__speculate_count(&record, &cost, 0, 15), 0); /* nothing is known */
  for (int i = 0; i < 50; i++) accel__step_cost_note(&cost, 1, 1, 10);
  for (int i = 0; i < 50; i++) accel__step_cost_note(&cost, 1, 6, 11);
  assert_true(fabs(cost.plain - 10) < 0.1 && fabs(cost.more - 0.2) < 0.05);
  for (int i = 0; i < 50; i++) accel__speculate_note(&record, 8, 8);
  assert_int_equal(accel__speculate_count(&record, &cost, 0, 15), 15);
  assert_true(accel__speculate_count(&record, &cost, 20, 15) == 0); /* dear guesses */
  next = (accel__odds){.prior = 0.1, .wrong = 20}; /* the first is right, none behind it */
  assert_int_equal(accel__speculate_count(&record, &cost, 0, 15), 1);
  next = (accel__odds){.prior = 0.9, .right = 100};
  record.first = (accel__odds){.prior = 0.3, .right = 1, .wrong = 2}; /* a copy, or none */
  assert_int_equal(accel__speculate_count(&record, &cost, 0, 15), 15);
  for (int i = 0; i < 50; i++) accel__speculate_note(&record, 8, 0);
  record.pause = record.waited = 0;
  cost.more = 2;
  for (int i = 0; i < 1000; i++) {
    const uint32_t k = accel__speculate_count(&record, &cost, 0, 15);
    accel__speculate_note(&record, k, 0);
    tried += k;
  }
  assert_true(tried >= 2 && tried <= 10); /* now and then */
  cost = (accel__step_cost){0};           /* what is measured soon outweighs what was presumed */
  accel__step_cost_note(&cost, 1, 1, 10);
  assert_true(cost.more == 2.5 && !cost.measured);
  accel__step_cost_note(&cost, 1, 5, 12);
  assert_true(fabs(cost.more - 1.5) < 1e-9);
  accel__step_cost_note(&cost, 1, 3, 16);
  assert_true(fabs(cost.more - 2) < 1e-9);
  accel__step_cost_note(&cost, 3, 3, 12);
  assert_int_equal(cost.sequences, 3);
  assert_true(cost.plain == 12);
}

/* ---- the loop ---- */

enum { NEW = 200, KINDS = 6 };

static accel__generate_config kind(int i) {
  accel__generate_config c = plain();
  c.eos.n = 0;
  if (i == 1) c.do_sample = true;
  if (i == 2) c.do_sample = true, c.top_k = 3, c.num_return = 3;
  if (i == 3) c.repetition_penalty = 1.1;
  if (i == 4) c.eos.n = 1;
  if (i == 5) c.do_sample = true, c.temperature = 0.3;
  return c;
}

static accel__request request_of(const accel__generate_config *c, uint32_t most) {
  static const int32_t prompt[] = {1, 2, 4, 8, 16, 1, 2};
  return (accel__request){.options.config = c,
                          .input.prompt = {prompt, 7},
                          .options.new_tokens = NEW,
                          .options.want_logprobs = true,
                          .options.speculate = {.most = most, .ngram = ACCEL__NGRAM},
                          .start.sequence = -1};
}

static void check_details(const accel__request *a, const accel__request *b, uint32_t *right) {
  check_same(a, b);
  for (uint32_t i = 0; i < a->outcome.n_done; i++) {
    const accel__hypothesis *x = &a->outcome.done[i], *y = &b->outcome.done[i];
    assert_memory_equal(x->logprob, y->logprob, (x->n - a->input.prompt.n) * sizeof *x->logprob);
    assert_int_equal(y->past_len, y->n - 1);
    assert_true(y->accepted_tokens <= y->draft_tokens);
    *right += y->accepted_tokens;
  }
}

/* A model that remembers one token runs in circles: guesses are right, steps are fewer, and nothing
 * else changes, alone and together.  Whether most were right and steps half as many. */
static bool same(void) {
  static fake f = {.memory = 1, .us_per_step = 200}, g = {.memory = 1, .us_per_step = 200};
  accel__stepper alone = stepper_of(&f), guessed = stepper_of(&g);
  accel__generate_config c[KINDS];
  accel__request want[KINDS], got[KINDS];
  uint32_t right = 0;
  bool pays = false;
  for (int i = 0; i < KINDS; i++) {
    accel__engine lone = {.model = &alone}, e = {.model = &guessed};
    c[i] = kind(i);
    want[i] = request_of(&c[i], 0);
    got[i] = request_of(&c[i], 10);
    f.steps = g.steps = 0;
    run_to_end(&lone, &want[i], 1, 1);
    run_to_end(&e, &got[i], 1, 1);
    check_details(&want[i], &got[i], &right);
    assert_true(g.steps <= f.steps);
    if (!i) pays |= 2 * g.steps < f.steps && right > NEW / 2;
    accel__request_end(&got[i], NULL);
    got[i] = request_of(&c[i], 10);
    accel__engine_free(&lone);
    accel__engine_free(&e);
  }
  accel__engine e = {.model = &guessed};
  run_to_end(&e, got, KINDS, 2);
  for (int i = 0; i < KINDS; i++) {
    check_details(&want[i], &got[i], &right);
    accel__request_end(&got[i], NULL);
    accel__request_end(&want[i], NULL);
  }
  assert_true(g.cuts > 0);
  accel__engine_free(&e);
  check_all_dropped(&f);
  check_all_dropped(&g);
  return pays;
}

/* Whether guesses pay is measured by the clock, which on a busy machine can go wrong once. */
static void test_same(void **state) {
  (void)state;
  assert_true(same() || same() || same());
}

/* Where there is no memory for more rows, the request goes on without guesses. */
static void test_no_memory(void **state) {
  static fake f = {.memory = 2, .us_per_step = 100, .no_rows = true};
  static fake g = {.memory = 2};
  accel__stepper model = stepper_of(&f), alone = stepper_of(&g);
  const accel__generate_config c = kind(0);
  accel__engine e = {.model = &model}, lone = {.model = &alone};
  accel__request want = request_of(&c, 0), got = request_of(&c, 10);
  uint32_t right = 0;
  (void)state;
  run_to_end(&lone, &want, 1, 1);
  run_to_end(&e, &got, 1, 1);
  check_details(&want, &got, &right);
  assert_true(e.no_drafts && right == 0);
  accel__request_end(&want, NULL);
  accel__request_end(&got, NULL);
  accel__engine_free(&e);
  accel__engine_free(&lone);
  check_all_dropped(&f);
}

/* Tokens drawn with guesses are distributed as the scores say: chi-square over all tokens that
 * follow the same one, 6 of the vocabulary likely enough to count. */
static void test_distribution(void **state) {
  enum { DRAWS = 700, SEEDS = 14 };
  static fake f = {.memory = 1, .us_per_step = 60, .spread = 8};
  static uint32_t seen[VOCAB][VOCAB];
  accel__stepper model = stepper_of(&f);
  accel__generate_config c = kind(1);
  uint32_t right = 0, freedom = 0;
  double sum = 0;
  (void)state;
  c.top_k = 6;
  for (uint32_t seed = 1; seed <= SEEDS; seed++) {
    accel__engine e = {.model = &model};
    accel__request r = request_of(&c, 10);
    r.options.new_tokens = DRAWS;
    c.seed = seed;
    run_to_end(&e, &r, 1, 1);
    const accel__hypothesis *h = &r.outcome.done[0];
    for (uint32_t i = r.input.prompt.n; i < h->n; i++) seen[h->ids[i - 1]][h->ids[i]]++;
    right += h->accepted_tokens;
    accel__request_end(&r, NULL);
    accel__engine_free(&e);
  }
  assert_true(right > DRAWS / 4);
  const int32_t q = fake_number(&f);
  for (int32_t t = 0; t < VOCAB; t++) {
    accel__logits_scratch scratch = {0};
    float scores[VOCAB];
    uint32_t n = 0;
    f.ids[q][0] = t;
    fake_scores(&f, q, 1, scores);
    assert_int_equal(accel__logits_warpers(&c, &scratch, scores, VOCAB), ACCEL_OK);
    const double all = accel__log_sum_exp(scores, VOCAB);
    for (int k = 0; k < VOCAB; k++) n += seen[t][k];
    for (int k = 0; n >= 200 && k < VOCAB; k++) {
      const double expected = n * exp(scores[k] - all);
      if (expected < 5) continue;
      sum += (seen[t][k] - expected) * (seen[t][k] - expected) / expected;
      freedom++;
    }
    freedom -= n >= 200;
    accel__logits_scratch_free(&scratch);
  }
  fake_drop(&f, q);
  assert_true(freedom > 50);
  /* normal approximation: beyond 4 standard deviations once in 30,000 */
  assert_true(fabs(sum - freedom) < 4 * sqrt(2.0 * freedom));
}

/* ---- real models ---- */

static accel_generations *run_made(accel_endpoint *ep, const int32_t *ids, uint32_t n,
                                   const accel_generate_params *how) {
  accel_generations *out;
  assert_ok(accel_generate_ids(ep, &ids, &n, 1, how, &out));
  return out;
}

/* Bit by bit what comes without, greedily and drawn, by lookup and by an assistant, at every
 * precision that has kernels of its own. */
static void test_bits(void **state) {
  static const char *const precisions[] = {"fp32", "bf16", "int8", "int4", "fp8", "fp16"};
  accel *ctx = test_context();
  char made[512];
  int32_t ids[300];
  uint64_t right = 0;
  (void)state;
  snprintf(made, sizeof made, "%s", made_decoder("made", 2));
  const char *small = made_decoder("small", 1);
  for (uint32_t i = 0; i < 300; i++) ids[i] = 3 + (int32_t)((i % 37) * (i % 11) % 90);
  for (int k = 0; k < 7; k++) {
    const char *device = k == 6 ? "reference" : "cpu", *precision = precisions[k % 6];
    accel_endpoint *ep = open_made(ctx, made, device, precision, 0),
                   *assistant = open_made(ctx, small, device, precision, 0);
    for (int way = 0; way < 4; way++) {
      accel_generate_params how = accel_generate_params_default();
      how.max_new_tokens = 60;
      how.ignore_eos = 1;
      how.logprobs = 0;
      how.do_sample = way % 2;
      how.temperature = way % 2 ? 0.2 : NAN;
      how.seed = 3;
      const uint32_t n = k == 6 ? 40 : 300;
      accel_generations *want = run_made(ep, ids, n, &how);
      how.prompt_lookup_num_tokens = way < 2 ? 10 : 0;
      how.assistant_model = way < 2 ? NULL : assistant;
      accel_generations *got = run_made(ep, ids, n, &how);
      check_equal(want, got);
      right += got->item[0].accepted_tokens;
      accel_generations_free(&want);
      accel_generations_free(&got);
    }
    accel_cleanup(&ep);
    accel_cleanup(&assistant);
  }
  assert_true(right > 0);
  accel_destroy(&ctx);
}

/* The model is its own assistant: all that it guesses is right, greedily and drawn. */
static void test_own_assistant(void **state) {
  accel *ctx = test_context();
  accel_endpoint *ep = open_made(ctx, made_decoder("own", 1), "cpu", "fp32", 0);
  accel_generate_params how = accel_generate_params_default();
  const int32_t ids[] = {5, 9, 11, 40};
  (void)state;
  how.max_new_tokens = 300;
  how.ignore_eos = 1;
  how.assistant_model = ep;
  for (int drawn = 0; drawn < 2; drawn++) {
    how.do_sample = drawn;
    accel_generations *g = run_made(ep, ids, 4, &how);
    assert_int_equal(g->item[0].accepted_tokens, g->item[0].draft_tokens);
    accel_generations_free(&g);
  }
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

static void check_refused(accel_endpoint *ep, const accel_generate_params *how, accel_status status,
                          const char *what) {
  const int32_t ids[] = {4, 5, 6}, *prompt = ids;
  const uint32_t n = 3;
  accel_generations *out;
  assert_int_equal(accel_generate_ids(ep, &prompt, &n, 1, how, &out), status);
  assert_non_null(strstr(accel_last_error(), what));
}

static void test_refused(void **state) {
  accel *ctx = test_context();
  accel_init_params how = accel_init_params_default();
  accel_generate_params lookup = accel_generate_params_default();
  accel_endpoint *mamba, *dynamic, *llama, *text, *other;
  (void)state;
  lookup.prompt_lookup_num_tokens = 5;
  assert_ok(accel_init(ctx, ACCEL_FIXTURES "/models/mamba", &how, &mamba));
  assert_ok(accel_init(ctx, ACCEL_FIXTURES "/models/llama_rope_dynamic", &how, &dynamic));
  assert_ok(accel_init(ctx, ACCEL_FIXTURES "/models/llama", &how, &llama));
  assert_ok(accel_init(ctx, ACCEL_FIXTURES "/pipelines/text", &how, &text));
  how.task = "text-generation";
  assert_ok(accel_init(ctx, ACCEL_FIXTURES "/tasks/rerank_qwen3", &how, &other));
  check_refused(mamba, &lookup, ACCEL_ERROR_UNSUPPORTED, "cannot go back");
  check_refused(dynamic, &lookup, ACCEL_ERROR_UNSUPPORTED, "length");
  lookup.num_beams = 2;
  check_refused(llama, &lookup, ACCEL_ERROR_UNSUPPORTED, "beam");
  accel_generate_params assisted = accel_generate_params_default();
  assisted.assistant_model = mamba;
  check_refused(llama, &assisted, ACCEL_ERROR_UNSUPPORTED, "cannot go back");
  assisted.assistant_model = other;
  check_refused(text, &assisted, ACCEL_ERROR_UNSUPPORTED, "vocabulary");
  assisted.prompt_lookup_num_tokens = 5;
  check_refused(llama, &assisted, ACCEL_ERROR_ARGUMENT, "one of them");
  /* what only a configuration asks for is done where it can be */
  accel_generate_params from_config = accel_generate_params_default();
  const int32_t ids[] = {4, 5, 6}, *prompt = ids;
  const uint32_t n = 3;
  accel_generations *out;
  from_config.config = "{\"prompt_lookup_num_tokens\": 5, \"max_new_tokens\": 4}";
  assert_ok(accel_generate_ids(mamba, &prompt, &n, 1, &from_config, &out));
  accel_generations_free(&out);
  accel_cleanup(&mamba);
  accel_cleanup(&dynamic);
  accel_cleanup(&llama);
  accel_cleanup(&text);
  accel_cleanup(&other);
  accel_destroy(&ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lookup),        cmocka_unit_test(test_count),
      cmocka_unit_test(test_same),          cmocka_unit_test(test_no_memory),
      cmocka_unit_test(test_distribution),  cmocka_unit_test(test_bits),
      cmocka_unit_test(test_own_assistant), cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
