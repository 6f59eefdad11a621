/* generate_prefix_test.c - prompts that begin alike: what is kept, shared and forgotten, over a
 * made-up model; and that requests of a queue give what they give without, bit by bit. */
#include "fake_stepper.h"
#include "made_decoder.h"

#include "dispatch/endpoint.h"

enum { LONG = 700 };

/* Tokens that depend on `seed` from token `from` on. */
static void make_prompt(int32_t *ids, uint32_t n, uint32_t from, uint32_t seed) {
  for (uint32_t i = 0; i < n; i++)
    ids[i] = 4 + (int32_t)((i * i + (i >= from ? 13 * seed : 0) + i / 7) % 30);
}

/* A sequence that has read the prompt. */
static int32_t read_prompt(fake *f, const int32_t *ids, uint32_t n) {
  const int32_t q = fake_number(f);
  accel__step_item item = {.sequence = q, .ids = ids, .n = n};
  assert_int_equal(fake_step(f, &item, 1), ACCEL_OK);
  return q;
}

static uint32_t shared(accel__prefix_cache *c, fake *f, const int32_t *ids, uint32_t n) {
  uint32_t past_len = 0, total_len = 0;
  const int32_t q = fake_number(f);
  assert_int_equal(
      accel__prefix_cache_share(c, &(accel__prefix_key){{ids, n}, NULL}, q, &past_len, &total_len),
      ACCEL_OK);
  assert_int_equal(f->n[q], past_len);
  assert_memory_equal(f->ids[q], ids, past_len * sizeof *ids);
  fake_drop(f, q);
  return past_len;
}

/* At least 64 tokens are left, and no fewer are shared; the longest beginning that there is. */
static void test_lengths(void **state) {
  static fake f;
  static int32_t a[LONG], b[LONG];
  const accel__stepper model = stepper_of(&f);
  accel__prefix_cache c = {.model = &model, .most = 1 << 20};
  (void)state;
  make_prompt(a, LONG, 0, 1);
  make_prompt(b, LONG, 150, 2);
  make_prompt(a, 150, LONG, 0);
  const int32_t q = read_prompt(&f, a, 200), brief = read_prompt(&f, b, 127);
  accel__prefix_cache_keep(&c, &(accel__prefix_key){{b, 127}, NULL}, brief, 127,
                           UINT64_MAX); /* too short */
  assert_int_equal(c.n, 0);
  accel__prefix_cache_keep(&c, &(accel__prefix_key){{a, 200}, NULL}, q, 200, UINT64_MAX);
  assert_int_equal(c.n, 1);
  assert_int_equal(c.bytes, 2000); /* 200 tokens */
  assert_int_equal(shared(&c, &f, a, 127), 0);
  assert_int_equal(shared(&c, &f, a, 128), 64);
  assert_int_equal(shared(&c, &f, a, 200), 136);
  assert_int_equal(shared(&c, &f, a, 256), 192);
  assert_int_equal(shared(&c, &f, a, LONG), 200);
  assert_int_equal(shared(&c, &f, b, LONG), 150);
  accel__prefix_cache_keep(&c, &(accel__prefix_key){{a, 200}, NULL}, q, 200,
                           UINT64_MAX); /* is there */
  assert_int_equal(c.n, 1);
  fake_drop(&f, q);
  fake_drop(&f, brief);
  const int32_t longer = read_prompt(&f, a, 400);
  accel__prefix_cache_keep(&c, &(accel__prefix_key){{a, 400}, NULL}, longer, 400,
                           UINT64_MAX); /* in its place */
  assert_int_equal(c.n, 1);
  assert_int_equal(shared(&c, &f, a, LONG), 400);
  fake_drop(&f, longer);
  accel__prefix_cache_free(&c);
  check_all_dropped(&f);
}

/* A model that says how many rows are few reads one more than that, and no more. */
static void test_few_rows(void **state) {
  static fake f;
  static int32_t ids[LONG];
  accel__stepper model = stepper_of(&f);
  accel__prefix_cache c = {.model = &model, .most = 1 << 20};
  (void)state;
  model.few_rows = 16;
  make_prompt(ids, LONG, 0, 1);
  const int32_t q = read_prompt(&f, ids, 200);
  accel__prefix_cache_keep(&c, &(accel__prefix_key){{ids, 200}, NULL}, q, 200, UINT64_MAX);
  assert_int_equal(shared(&c, &f, ids, 80), 0); /* 63 are not worth it */
  assert_int_equal(shared(&c, &f, ids, 81), 64);
  assert_int_equal(shared(&c, &f, ids, 200), 183);
  assert_int_equal(shared(&c, &f, ids, 217), 200);
  fake_drop(&f, q);
  accel__prefix_cache_free(&c);
  check_all_dropped(&f);
}

/* What was used longest ago goes first; nothing passes the bytes. */
static void test_oldest_goes(void **state) {
  static fake f;
  static int32_t ids[4][LONG];
  const accel__stepper model = stepper_of(&f);
  accel__prefix_cache c = {.model = &model, .most = 3 * 1280};
  (void)state;
  for (uint32_t i = 0; i < 4; i++) {
    make_prompt(ids[i], LONG, 0, i + 1);
    const int32_t q = read_prompt(&f, ids[i], 128);
    if (i == 3) assert_int_equal(shared(&c, &f, ids[0], 192), 128);
    accel__prefix_cache_keep(&c, &(accel__prefix_key){{ids[i], 128}, NULL}, q, 128, UINT64_MAX);
    assert_true(c.bytes <= c.most);
    fake_drop(&f, q);
  }
  assert_int_equal(shared(&c, &f, ids[1], 192), 0);
  for (int i = 0; i < 4; i++)
    if (i != 1) assert_int_equal(shared(&c, &f, ids[i], 192), 128);
  assert_true(accel__prefix_cache_shrink(&c, 1280));
  assert_int_equal(c.n, 1);
  assert_false(accel__prefix_cache_shrink(&c, 1280));
  const int32_t q = read_prompt(&f, ids[0], LONG);
  accel__prefix_cache_keep(&c, &(accel__prefix_key){{ids[0], LONG}, NULL}, q, LONG,
                           1000); /* no memory for it */
  assert_int_equal(c.n, 0);
  fake_drop(&f, q);
  accel__prefix_cache_free(&c);
  check_all_dropped(&f);
}

/* Requests behind the same beginning read the rest alone, whatever their kind, and give what they
 * give without; under a limit kept prompts give way. */
static void test_engine(void **state) {
  enum { REQUESTS = 6, EACH = 24 };
  static fake plain_model, f;
  static int32_t ids[REQUESTS][LONG];
  accel__stepper alone = stepper_of(&plain_model), model = stepper_of(&f);
  accel__generate_config c[REQUESTS];
  (void)state;
  for (int limited = 0; limited < 2; limited++) {
    accel__prefix_cache cache = {.model = &model, .most = 1 << 20};
    accel__engine lone = {.model = &alone}, e = {.model = &model, .prefixes = &cache};
    if (limited)
      model.limits = (accel__run_limits){
          .state_bytes = 15000, .per_token = 10, .page_rows = 8, .step_tokens = 300};
    uint32_t cached = 0;
    f.tokens = 0;
    for (uint32_t i = 0; i < REQUESTS; i++) {
      c[i] = plain();
      c[i].do_sample = i == 1;
      if (i == 2) c[i].do_sample = true, c[i].num_return = 3;
      if (i == 3) c[i].num_beams = 3;
      make_prompt(ids[i], LONG, 512, i);
      accel__request want = {.options.config = &c[i],
                             .input.prompt = {ids[i], LONG - i},
                             .options.new_tokens = EACH,
                             .start.sequence = -1,
                             .input.number = i},
                     got = want;
      run_to_end(&lone, &want, 1, 1);
      run_to_end(&e, &got, 1, 1);
      check_same(&want, &got);
      if (!limited) assert_int_equal(got.progress.cached, i ? 512 : 0);
      cached += got.progress.cached;
      assert_true(!limited || cache.bytes <= 15000);
      accel__request_end(&want, NULL);
      accel__request_end(&got, NULL);
    }
    assert_true(cached >= 512);
    assert_true(limited || f.tokens < LONG + 6 * (LONG - 512) + 10 * EACH);
    assert_true(limited ? cache.n < REQUESTS : cache.n == REQUESTS);
    accel__prefix_cache_free(&cache);
    check_all_dropped(&f);
    accel__engine_free(&e);
    accel__engine_free(&lone);
  }
}

/* A step that has no memory gets that of kept prompts; without any it fails as ever. */
static void test_no_memory(void **state) {
  static fake f = {.most_held = 2 * LONG};
  static int32_t ids[3][LONG];
  accel__stepper model = stepper_of(&f);
  accel__prefix_cache cache = {.model = &model, .most = 1 << 20};
  accel__engine e = {.model = &model, .prefixes = &cache};
  const accel__generate_config c = plain();
  (void)state;
  for (uint32_t i = 0; i < 3; i++) {
    make_prompt(ids[i], LONG, 0, i + 1);
    accel__request r = {.options.config = &c,
                        .input.prompt = {ids[i], LONG - 20},
                        .options.new_tokens = 8,
                        .start.sequence = -1};
    if (i == 2) f.most_held = 100;
    run_to_end(&e, &r, 1, 1);
    assert_int_equal(r.outcome.failure.status, i == 2 ? ACCEL_ERROR_OUT_OF_MEMORY : ACCEL_OK);
    assert_int_equal(cache.n, i == 0); /* the second request needed it */
    accel__request_end(&r, NULL);
  }
  accel__engine_free(&e);
  accel__prefix_cache_free(&cache);
  check_all_dropped(&f);
}

/* ---- queues ---- */

static accel_queue_stats stats_of(accel_endpoint *ep) {
  accel_queue_stats s = {.size = sizeof s};
  assert_ok(accel_queue_statistics(accel_queue_of(ep), &s));
  assert_int_equal(s.size, sizeof s);
  return s;
}

static accel_generations *generate(accel_endpoint *ep, const int32_t *ids, uint32_t n) {
  accel_generate_params how = accel_generate_params_default();
  accel_generations *out;
  accel_ticket *ticket;
  how.max_new_tokens = 12;
  how.ignore_eos = 1;
  how.logprobs = 0;
  assert_ok(accel_submit_generate(accel_queue_of(ep), NULL, ids, n, &how, &ticket));
  assert_ok(accel_wait_generations(&ticket, -1, &out));
  return out;
}

/* Prompts of [device][4] tokens, those behind the first with a beginning in common, and what of it
 * they share: on the CPU 17 tokens are left to read, on the reference, where it is not known how
 * many rows are few, 64. */
static void test_queue(void **state) {
  static const char *const precisions[] = {"fp32", "bf16", "int8", "int4"};
  static const char *const devices[] = {"cpu", "reference"};
  static const uint32_t lengths[2][4] = {{LONG, 537, 560, 530}, {200, 201, 150, 203}}; /* slow */
  static const uint32_t cached[2][4] = {{0, 520, 520, 513}, {0, 130, 86, 130}};
  accel *ctx = test_context();
  const char *made = made_decoder("made", 2);
  static int32_t ids[LONG];
  (void)state;
  for (int k = 0; k < 5; k++) {
    const int slow = k == 4;
    const char *device = devices[slow], *precision = precisions[k % 4];
    uint32_t all = 0;
    accel_endpoint *with = open_made(ctx, made, device, precision, ACCEL_PREFIX_CACHE_BYTES),
                   *without = open_made(ctx, made, device, precision, 0);
    assert_null(stats_of(with).no_cache);
    assert_string_equal(stats_of(without).no_cache, "prefix_cache_bytes is 0");
    for (uint32_t i = 0; i < 4; i++) {
      const uint32_t n = lengths[slow][i];
      make_prompt(ids, n, slow ? 130 : 520, i);
      accel_generations *got = generate(with, ids, n), *want = generate(without, ids, n);
      check_equal(want, got);
      assert_int_equal(got->item[0].cached_tokens, cached[slow][i]);
      all += cached[slow][i];
      assert_int_equal(want->item[0].cached_tokens, 0);
      accel_generations_free(&got);
      accel_generations_free(&want);
    }
    const accel_queue_stats s = stats_of(with);
    assert_int_equal(s.cache_hits, 3);
    assert_int_equal(s.cached_tokens, all);
    assert_int_equal(s.cache_prompts, 4);
    assert_true(s.cache_bytes > 0 && s.prompt_tokens > s.cached_tokens);
    accel_cleanup(&with);
    accel_cleanup(&without);
  }
  accel_destroy(&ctx);
}

/* Kept prompts stay while nothing is generated, and go when they are asked to: by accel_trim, before
 * the precision changes, with the endpoint. */
static void test_idle(void **state) {
  accel *ctx = test_context();
  accel_endpoint *ep =
      open_made(ctx, made_decoder("idle", 1), "cpu", "fp32", ACCEL_PREFIX_CACHE_BYTES);
  static int32_t ids[LONG];
  (void)state;
  make_prompt(ids, LONG, 0, 1);
  for (int round = 0; round < 4; round++) {
    accel_generations *g = generate(ep, ids, LONG);
    assert_int_equal(g->item[0].cached_tokens, round == 1 ? LONG - 17 : 0);
    accel_generations_free(&g);
    assert_int_equal(stats_of(ep).cache_prompts, 1);
    assert_int_equal(ep->sessions, 1);
    if (round == 1) assert_ok(accel_trim(ep));
    if (round == 2) assert_int_equal(accel__endpoint_fall_back(ep, NULL), ACCEL_OK);
    if (round == 0 || round == 3) continue;
    assert_int_equal(stats_of(ep).cache_prompts, 0);
    assert_int_equal(stats_of(ep).cache_bytes, 0);
    assert_int_equal(ep->sessions, 0);
  }
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

/* Models whose states cannot be cut, or hold more than tokens, say so and go on as ever. */
static void test_refused(void **state) {
  static const struct {
    const char *model, *why;
  } refused[] = {{"models/mamba", "go back"},
                 {"models/llama_rope_dynamic", "length"},
                 {"models/t5", "encoder"},
                 {"models/bert", "generate"}};
  accel *ctx = test_context();
  (void)state;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    accel_init_params how = accel_init_params_default();
    accel_endpoint *ep;
    char path[512];
    snprintf(path, sizeof path, ACCEL_FIXTURES "/%s", refused[i].model);
    assert_ok(accel_init(ctx, path, &how, &ep));
    assert_non_null(strstr(stats_of(ep).no_cache, refused[i].why));
    accel_cleanup(&ep);
  }
  accel_destroy(&ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lengths),     cmocka_unit_test(test_few_rows),
      cmocka_unit_test(test_oldest_goes), cmocka_unit_test(test_engine),
      cmocka_unit_test(test_no_memory),   cmocka_unit_test(test_queue),
      cmocka_unit_test(test_idle),        cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
