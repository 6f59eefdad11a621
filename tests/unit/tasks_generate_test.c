/* tasks_generate_test.c - the generation loop over a made-up model (company, parts, shared prompts,
 * beams, failures), texts told piece by piece, and accel_generate on a tiny LLaMA. */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "fake_stepper.h"

/* ---- requests ---- */

static const int32_t prompts[][9] = {
    {1, 2, 4}, {9, 8, 7, 6, 5, 4, 1, 2, 1}, {5}, {20, 21, 22, 23, 24}, {11, 12}};
static const uint32_t lengths[] = {3, 9, 1, 5, 2};
enum { PROMPTS = 5 };

static accel__generate_config kind(int i) {
  accel__generate_config c = plain();
  c.do_sample = i == 1 || i == 2;
  c.top_k = i == 2 ? 6 : 0;
  if (i == 2) c.num_return = 3;
  if (i == 3) c.num_beams = 3, c.num_return = 2;
  if (i == 4) c.repetition_penalty = 1.5, c.no_repeat_ngram = 2;
  return c;
}

static accel__request request_of(const accel__generate_config *c, uint32_t prompt) {
  return (accel__request){.options.config = c,
                          .input.prompt = {prompts[prompt], lengths[prompt]},
                          .options.new_tokens = 24,
                          .start.sequence = -1,
                          .input.number = prompt};
}

/* Every kind alone, then all of them at once, joining at different steps, prompts in parts of 3
 * tokens. */
static void test_company(void **state) {
  static fake alone, together;
  accel__generate_config c[PROMPTS];
  accel__request solo[PROMPTS], joint[PROMPTS];
  (void)state;
  accel__stepper model = stepper_of(&alone);
  for (uint32_t i = 0; i < PROMPTS; i++) {
    c[i] = kind((int)i);
    solo[i] = request_of(&c[i], i);
    joint[i] = request_of(&c[i], i);
    accel__engine e = {.model = &model};
    run_to_end(&e, &solo[i], 1, 1);
    accel__engine_free(&e);
  }
  check_all_dropped(&alone);
  model = stepper_of(&together);
  for (uint32_t budget = 3; budget < 20; budget += 8)
    for (uint32_t later = 0; later <= PROMPTS; later += 2) {
      accel__engine e = {.model = &model, .step_tokens = budget};
      run_to_end(&e, joint, PROMPTS, later);
      for (uint32_t i = 0; i < PROMPTS; i++) {
        check_same(&solo[i], &joint[i]);
        accel__request_end(&joint[i], NULL);
        joint[i] = request_of(&c[i], i);
      }
      accel__engine_free(&e);
    }
  check_all_dropped(&together);
  assert_true(together.copies > 0);
  for (uint32_t i = 0; i < PROMPTS; i++) accel__request_end(&solo[i], NULL);
}

/* A long prompt is read in pieces of bounded time: a short one that joins with it has its first token
 * long before, one that runs has a token in each step, and all give what they give alone. */
static void test_bounded_pieces(void **state) {
  enum { LONG = 1200, MS = 20, US = 100 };
  static fake alone, together;
  static int32_t ids[LONG];
  const accel__generate_config c = plain();
  accel__stepper model = stepper_of(&alone);
  accel__request solo[3], joint[3];
  (void)state;
  for (int i = 0; i < LONG; i++) ids[i] = 4 + i % 30;
  for (uint32_t i = 0; i < 3; i++) {
    solo[i] = request_of(&c, i);
    if (i == 0) solo[i].input.prompt = (accel__ids){ids, LONG};
    joint[i] = solo[i];
    accel__engine e = {.model = &model};
    run_to_end(&e, &solo[i], 1, 1);
    accel__engine_free(&e);
  }
  assert_int_equal(alone.most_tokens, LONG);
  together.us_per_token = US;
  model = stepper_of(&together);
  accel__engine e = {.model = &model, .piece_ms = MS};
  for (uint32_t i = 0; i < 3; i++) assert_int_equal(accel__request_begin(&joint[i]), ACCEL_OK);
  for (uint32_t i = 0; i < 3; i++) accel__engine_join(&e, &joint[i]);
  while (e.active) {
    accel__engine_step(&e);
    /* the first piece is read at a rate that is not known yet, others take 200 tokens at most */
    assert_true(together.steps == 1 || together.most_tokens <= 256 + 3);
    if (together.steps == 2) assert_true(joint[1].progress.steps && joint[2].progress.steps);
  }
  assert_true(together.steps > LONG / 256);
  assert_true(joint[0].progress.prefill_ms > joint[1].progress.prefill_ms);
  for (uint32_t i = 0; i < 3; i++) {
    check_same(&solo[i], &joint[i]);
    accel__request_end(&solo[i], NULL);
    accel__request_end(&joint[i], NULL);
  }
  accel__engine_free(&e);
  check_all_dropped(&together);
}

/* Bytes of all sequences, of 10 bytes a token. */
static uint64_t held(const fake *f) {
  uint64_t bytes = 0;
  for (int i = 0; i < SEQUENCES; i++) bytes += f->used[i] ? 10u * f->n[i] : 0;
  return bytes;
}

/* Under a limit requests wait for memory of their states, in their order, and give what they give
 * alone; one that needs more than there is runs alone. */
static void test_state_limit(void **state) {
  static fake f, g;
  accel__generate_config c[PROMPTS];
  accel__request joint[PROMPTS], solo;
  accel__stepper model = stepper_of(&f), other = stepper_of(&g);
  accel__engine e = {.model = &model}, lone = {.model = &other};
  (void)state;
  for (uint64_t limit = 100; limit <= 9000; limit *= 3) {
    bool waited = false;
    model.limits = (accel__run_limits){
        .state_bytes = limit, .per_token = 10, .page_rows = 8, .step_tokens = 6};
    for (uint32_t i = 0; i < PROMPTS; i++) {
      c[i] = kind((int)i);
      joint[i] = request_of(&c[i], i);
      assert_int_equal(accel__request_begin(&joint[i]), ACCEL_OK);
      accel__engine_join(&e, &joint[i]);
    }
    for (int step = 0; step < 1000 && e.active; step++) {
      accel__engine_step(&e);
      uint32_t running = 0;
      for (const accel__request *r = e.active; r; r = r->next)
        running += r->progress.running[0].sequence >= 0;
      for (const accel__request *r = e.active; r; r = r->next)
        waited |= r->progress.running[0].sequence < 0;
      assert_true(running <= 1 || held(&f) <= limit);
    }
    assert_null(e.active);
    assert_int_equal(waited, limit < 3400);
    for (uint32_t i = 0; i < PROMPTS; i++) {
      solo = request_of(&c[i], i);
      run_to_end(&lone, &solo, 1, 1);
      check_same(&solo, &joint[i]);
      accel__request_end(&solo, NULL);
      accel__request_end(&joint[i], NULL);
    }
    check_all_dropped(&f);
  }
  accel__engine_free(&e);
  accel__engine_free(&lone);
}

/* One request of a joint step fails; the others do not notice. */
static void test_failure_alone(void **state) {
  static fake f, g;
  static const int32_t poisoned[] = {4, POISON, 5};
  accel__generate_config c = kind(1);
  accel__request good[2] = {request_of(&c, 0), request_of(&c, 1)}, solo = request_of(&c, 1),
                 bad = request_of(&c, 2);
  bad.input.prompt = (accel__ids){poisoned, 3};
  (void)state;
  accel__stepper model = stepper_of(&f), other = stepper_of(&g);
  accel__engine e = {.model = &model}, lone = {.model = &other};
  assert_int_equal(accel__request_begin(&bad), ACCEL_OK);
  accel__engine_join(&e, &bad);
  run_to_end(&e, good, 2, 2);
  run_to_end(&lone, &solo, 1, 1);
  assert_int_equal(bad.outcome.failure.status, ACCEL_ERROR_LIMIT);
  assert_non_null(strstr(bad.outcome.failure.message, "poisoned"));
  check_same(&good[1], &solo);
  check_all_dropped(&f);
  for (int i = 0; i < 2; i++) accel__request_end(&good[i], NULL);
  accel__request_end(&bad, NULL);
  accel__request_end(&solo, NULL);
  accel__engine_free(&e);
  accel__engine_free(&lone);
}

static accel__request translation_of(const accel__generate_config *c, uint32_t prompt) {
  accel__request r = request_of(c, prompt);
  r.input.encodes = true;
  r.input.encoder.ids = r.input.prompt;
  r.input.prompt.n = 1;
  return r;
}

/* Requests that join together are encoded together, but no more tokens at once than a step has;
 * whoever cannot be encoded fails alone. */
static void test_encoders(void **state) {
  static fake f, g;
  static const int32_t poisoned[] = {POISON, 5};
  accel__generate_config c[PROMPTS];
  accel__request joint[PROMPTS], bad, solo;
  accel__stepper model = stepper_of(&f), other = stepper_of(&g);
  accel__engine e = {.model = &model, .step_tokens = 14}, lone = {.model = &other};
  (void)state;
  for (uint32_t i = 0; i < PROMPTS; i++) {
    c[i] = kind((int)i);
    joint[i] = translation_of(&c[i], i);
  }
  run_to_end(&e, joint, PROMPTS, PROMPTS);
  assert_int_equal(f.encodes, 2); /* of 3 + 9 + 1 and of 5 + 2 tokens */
  assert_int_equal(f.most_encoded, 13);
  for (uint32_t i = 0; i < PROMPTS; i++) {
    solo = translation_of(&c[i], i);
    run_to_end(&lone, &solo, 1, 1);
    check_same(&joint[i], &solo);
    accel__request_end(&solo, NULL);
    accel__request_end(&joint[i], NULL);
    joint[i] = translation_of(&c[i], i);
  }
  bad = translation_of(&c[0], 0);
  bad.input.encoder.ids = (accel__ids){poisoned, 2};
  assert_int_equal(accel__request_begin(&bad), ACCEL_OK);
  accel__engine_join(&e, &bad);
  run_to_end(&e, joint, 2, 2);
  assert_int_equal(bad.outcome.failure.status, ACCEL_ERROR_LIMIT);
  assert_non_null(strstr(bad.outcome.failure.message, "poisoned"));
  assert_true(joint[0].outcome.failure.status == ACCEL_OK &&
              joint[1].outcome.failure.status == ACCEL_OK && joint[0].outcome.n_done &&
              joint[1].outcome.n_done);
  check_all_dropped(&f);
  for (int i = 0; i < 2; i++) accel__request_end(&joint[i], NULL);
  accel__request_end(&bad, NULL);
  accel__engine_free(&e);
  accel__engine_free(&lone);
}

/* A prompt is read once however many sequences go on with it, and a step is one token a
 * sequence. */
static void test_no_waste(void **state) {
  static fake f;
  accel__generate_config c = kind(2);
  c.eos.n = 0;
  accel__request r = request_of(&c, 1);
  accel__stepper model = stepper_of(&f);
  accel__engine e = {.model = &model};
  (void)state;
  run_to_end(&e, &r, 1, 1);
  assert_int_equal(f.steps, 24); /* the prompt, then 23 of the 24 tokens: the last one is not fed */
  assert_int_equal(f.most_tokens, 9);
  assert_int_equal(f.copies, 2);
  for (uint32_t i = 0; i < r.outcome.n_done; i++) {
    assert_int_equal(r.outcome.done[i].finish, ACCEL__FINISH_LENGTH);
    assert_int_equal(r.outcome.done[i].number, i);
  }
  accel__request_end(&r, NULL);
  accel__engine_free(&e);
}

/* ---- telling ---- */

typedef struct listener {
  uint32_t tokens, stop_after;
  char text[4096];
  const char *finish;
} listener;

static int listen_to(void *user, const accel_token_event *event) {
  listener *l = user;
  l->tokens++;
  assert_true(accel__utf8_valid(event->text, strlen(event->text)));
  strcat(l->text, event->text);
  l->finish = event->finish;
  return l->tokens == l->stop_after;
}

static void test_cancel(void **state) {
  static fake f;
  accel__generate_config c = plain();
  c.eos.n = 0;
  listener l = {.stop_after = 5};
  accel__request r = request_of(&c, 0);
  r.options.on_token = listen_to;
  r.options.on_token_user = &l;
  accel__stepper model = stepper_of(&f);
  accel__engine e = {.model = &model};
  (void)state;
  run_to_end(&e, &r, 1, 1);
  assert_int_equal(l.tokens, 5);
  assert_int_equal(r.outcome.done[0].n - r.input.prompt.n, 5);
  assert_int_equal(r.outcome.done[0].finish, ACCEL__FINISH_CANCELLED);
  check_all_dropped(&f);
  accel__request_end(&r, NULL);
  accel__engine_free(&e);
}

/* Ids at random through tokenizers of all kinds: the pieces together are the decoding of all of
 * them. */
static void test_pieces(void **state) {
  static const char *const files[] = {"bpe_llama",      "bpe_roberta",  "bpe_modernbert",
                                      "unigram_albert", "unigram_xlmr", "wordpiece_uncased"};
  accel__random random = accel__random_new(3, 0);
  (void)state;
  for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
    char path[512];
    accel__tokenizer *tok;
    snprintf(path, sizeof path, "%s/tokenizers/%s.json", ACCEL_FIXTURES, files[k]);
    assert_int_equal(accel__tokenizer_load(path, &tok), ACCEL_OK);
    for (int round = 0; round < 60; round++) {
      int32_t ids[40];
      accel__text_stream s = {.tokenizer = tok, .keep_special_tokens = round % 2};
      accel__buffer told = {0}, want = {0};
      /* low ids: bytes */
      uint32_t n = 1 + (uint32_t)(accel__random_next(&random) % 40), span = round % 3 ? 400 : 60;
      if (span > accel__tokenizer_describe(tok)->vocab_size)
        span = accel__tokenizer_describe(tok)->vocab_size;
      for (uint32_t i = 0; i < n; i++) {
        size_t bytes;
        ids[i] = (int32_t)(accel__random_next(&random) % span);
        if (k == 0 && round % 3 && ids[i] < 259) ids[i] = 259; /* tokens that are no bytes */
        assert_int_equal(accel__text_stream_add(&s, ids, i + 1), ACCEL_OK);
        if (i + 1 == n) assert_int_equal(accel__text_stream_end(&s, ids, n), ACCEL_OK);
        const char *piece = accel__text_stream_take(&s, &bytes);
        assert_true(accel__utf8_valid(piece, bytes));
        accel__buffer_bytes(&told, piece, bytes);
      }
      assert_int_equal(
          accel__decode(tok, ids, n, !(round % 2), accel__tokenizer_describe(tok)->clean_up, &want),
          ACCEL_OK);
      /* <0x41> <0xE4>: the second takes back what the first spelled */
      bool bytes_apart = k == 0 && round % 3 == 0;
      if (!bytes_apart && (told.n != want.n || (told.n && memcmp(told.data, want.data, told.n))))
        fail_msg("%s: '%.*s', expected '%.*s'", files[k], (int)told.n, told.data, (int)want.n,
                 want.data);
      accel__buffer_free(&told);
      accel__buffer_free(&want);
      accel__text_stream_free(&s);
    }
    accel__tokenizer_free(&tok);
  }
}

static void test_stop_strings(void **state) {
  static const char text[] = "one two three four five six seven", *const stop[] = {"four f", "six",
                                                                                   "zzz"};
  accel__tokenizer *tok;
  accel__encoding enc = {0};
  (void)state;
  assert_int_equal(accel__tokenizer_load(ACCEL_FIXTURES "/tokenizers/bpe_roberta.json", &tok),
                   ACCEL_OK);
  const accel__encode_options how = {0};
  assert_int_equal(accel__encode(tok, text, strlen(text), NULL, 0, &how, &enc), ACCEL_OK);
  for (int keep = 0; keep < 2; keep++) {
    accel__text_stream s = {.tokenizer = tok, .stop = stop, .n_stop = 3, .keep_stop = keep};
    char told[64] = "";
    uint32_t n = 1;
    for (; n <= enc.n && !s.stopped; n++) {
      size_t bytes;
      assert_int_equal(accel__text_stream_add(&s, enc.ids, n), ACCEL_OK);
      const char *piece = accel__text_stream_take(&s, &bytes);
      strncat(told, piece, bytes);
      if (!keep) assert_null(strstr(told, "four f"));
    }
    assert_true(s.stopped && n < enc.n);
    assert_string_equal(told, keep ? "one two three four f" : "one two three ");
    accel__text_stream_free(&s);
  }
  accel__encoding_free(&enc);
  accel__tokenizer_free(&tok);
}

/* ---- a real model ---- */

#define TINY_LLAMA ACCEL_FIXTURES "/models/llama"

static accel_endpoint *open_llama(accel *ctx) {
  accel_init_params how = accel_init_params_default();
  accel_endpoint *ep;
  how.device = "reference";
  assert_ok(accel_init(ctx, TINY_LLAMA, &how, &ep));
  return ep;
}

static void test_llama(void **state) {
  accel *ctx = test_context();
  accel_endpoint *ep = open_llama(ctx);
  static const int32_t a[] = {1, 5, 9, 20, 33}, b[] = {1, 7},
                       c[] = {1, 40, 41, 40, 41, 40, 8, 9, 22};
  const int32_t *const ids[] = {a, b, c};
  const uint32_t count[] = {5, 2, 9};
  (void)state;
  for (int sampled = 0; sampled < 2; sampled++) {
    accel_generate_params how = accel_generate_params_default();
    accel_generations *all, *one;
    how.max_new_tokens = 20;
    how.logprobs = 2;
    if (sampled) how.temperature = 1.5, how.seed = 11;
    assert_ok(accel_generate_ids(ep, ids, count, 3, &how, &all));
    assert_int_equal(all->n, 3);
    assert_int_equal(all->prompt_tokens, 16);
    for (uint32_t i = 0; i < 3; i++) {
      assert_ok(accel_generate_ids(ep, &ids[i], &count[i], 1, &how, &one));
      assert_int_equal(one->item[0].n, all->item[i].n);
      assert_memory_equal(one->item[0].ids, all->item[i].ids, one->item[0].n * sizeof(int32_t));
      for (uint32_t t = 0; t < one->item[0].n; t++) {
        assert_true(one->item[0].logprob[t] == all->item[i].logprob[t] &&
                    one->item[0].logprob[t] < 0);
        if (!sampled) assert_int_equal(all->item[i].alternative[2 * t].id, all->item[i].ids[t]);
      }
      accel_generations_free(&one);
    }
    accel_generations_free(&all);
  }
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

typedef struct beams_heard {
  uint32_t n[2], most; /* most: tokens after which the second sequence is ended */
  int32_t ids[2][32];
  char text[2][512];
  const char *finish[2];
} beams_heard;

static int listen_to_beams(void *user, const accel_token_event *event) {
  beams_heard *heard = user;
  const uint32_t i = event->sequence;
  assert_true(i < 2 && heard->n[i] < 32 && !heard->finish[i]);
  assert_true(isnan(event->logprob) && !event->alternative);
  heard->ids[i][heard->n[i]++] = event->id;
  strcat(heard->text[i], event->text);
  heard->finish[i] = event->finish;
  return i == 1 && heard->n[i] == heard->most;
}

/* Beams are heard when they have ended: all of the result, and not more where the listener has
 * enough. */
static void test_beams_heard(void **state) {
  accel *ctx = test_context();
  accel_init_params init = accel_init_params_default();
  accel_endpoint *ep;
  init.device = "reference";
  assert_ok(accel_init(ctx, ACCEL_FIXTURES "/pipelines/text", &init, &ep));
  static const char *const text[] = {"Once upon a time"};
  (void)state;
  for (uint32_t most = 0; most <= 4; most += 4) {
    accel_generate_params how = accel_generate_params_default();
    beams_heard heard = {.most = most};
    accel_generations *found;
    how.num_beams = 3;
    how.num_return_sequences = 2;
    how.max_new_tokens = 10;
    how.on_token = listen_to_beams;
    how.on_token_user = &heard;
    assert_ok(accel_generate(ep, text, 1, &how, &found));
    assert_int_equal(found->n, 2);
    for (uint32_t i = 0; i < 2; i++) {
      const accel_generation *g = &found->item[i];
      const bool ended = most && i == 1;
      assert_int_equal(heard.n[i], g->n);
      assert_int_equal(g->n, ended ? most : 10);
      assert_memory_equal(heard.ids[i], g->ids, g->n * sizeof *g->ids);
      assert_string_equal(heard.text[i], g->text);
      assert_string_equal(g->finish, ended ? "cancelled" : "length");
      if (!ended) assert_string_equal(heard.finish[i], "length");
    }
    accel_generations_free(&found);
  }
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

static void test_refusals(void **state) {
  accel *ctx = test_context();
  accel_endpoint *ep = open_llama(ctx), *bert = test_endpoint(ctx, "reference");
  accel_generations *out;
  static const int32_t ids[70] = {1, 2}, beyond[] = {1, 67};
  const int32_t *row = ids, *wrong = beyond;
  uint32_t two = 2, none = 0, many = 64;
  accel_generate_params how = accel_generate_params_default();
  const char *const text = "x", *const word = "end";
  const accel_strings stop = {.n = 1, .item = &word};
  (void)state;
  how.max_new_tokens = 63; /* the model has 64 positions */
  assert_int_equal(accel_generate_ids(ep, &row, &two, 1, &how, &out), ACCEL_ERROR_LIMIT);
  assert_null(out);
  assert_non_null(strstr(accel_last_error(), "context of 64"));
  how.max_new_tokens = 62;
  assert_ok(accel_generate_ids(ep, &row, &two, 1, &how, &out));
  accel_generations_free(&out);
  how.max_new_tokens = -1; /* as many as there is room for */
  how.ignore_eos = 1;
  assert_ok(accel_generate_ids(ep, &row, &two, 1, &how, &out));
  assert_int_equal(out->item[0].n, 62);
  accel_generations_free(&out);
  assert_int_equal(accel_generate_ids(ep, &row, &many, 1, &how, &out), ACCEL_ERROR_LIMIT);
  assert_int_equal(accel_generate_ids(ep, &row, &none, 1, &how, &out), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel_generate_ids(ep, &wrong, &two, 1, &how, &out), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel_generate_ids(bert, &row, &two, 1, &how, &out), ACCEL_ERROR_UNSUPPORTED);
  /* no tokenizer */
  assert_int_equal(accel_generate(ep, &text, 1, &how, &out), ACCEL_ERROR_UNSUPPORTED);
  how.stop = &stop;
  assert_int_equal(accel_generate_ids(ep, &row, &two, 1, &how, &out), ACCEL_ERROR_UNSUPPORTED);
  how.stop = NULL;
  how.config = "{\"num_beam_groups\": 3}";
  assert_int_equal(accel_generate_ids(ep, &row, &two, 1, &how, &out), ACCEL_ERROR_UNSUPPORTED);
  how.config = "{\"nonsense\": 3}";
  assert_int_equal(accel_generate_ids(ep, &row, &two, 1, &how, &out), ACCEL_ERROR_ARGUMENT);
  how.config = "[";
  assert_int_equal(accel_generate_ids(ep, &row, &two, 1, &how, &out), ACCEL_ERROR_FORMAT);
  accel_cleanup(&bert);
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

/* ---- sessions ---- */

static void go_on(accel_session *s, int32_t tokens, int32_t *ids) {
  accel_generate_params how = accel_generate_params_default();
  accel_generations *out;
  how.max_new_tokens = tokens;
  how.ignore_eos = 1;
  assert_ok(accel_session_generate(s, &how, &out));
  assert_int_equal(out->item[0].n, tokens);
  memcpy(ids, out->item[0].ids, (size_t)tokens * sizeof *ids);
  accel_generations_free(&out);
}

static void test_sessions(void **state) {
  accel *ctx = test_context();
  accel_endpoint *ep = open_llama(ctx);
  static const int32_t prompt[] = {1, 5, 9, 20, 33};
  const int32_t *const row = prompt;
  const uint32_t count = 5;
  const char *path = ACCEL_TEST_BUILD "/tests/session.test",
             *damaged = ACCEL_TEST_BUILD "/tests/session.damaged";
  int32_t want[24], got[24];
  accel_session *s, *fork, *loaded;
  accel_generations *all;
  accel_generate_params how = accel_generate_params_default();
  (void)state;
  how.max_new_tokens = 24;
  how.ignore_eos = 1;
  assert_ok(accel_generate_ids(ep, &row, &count, 1, &how, &all));
  memcpy(want, all->item[0].ids, sizeof want);
  accel_generations_free(&all);

  assert_ok(accel_session_open(ep, &s));
  /* nothing to go on from */
  assert_int_equal(accel_session_generate(s, &how, &all), ACCEL_ERROR_ARGUMENT);
  assert_ok(accel_session_feed_ids(s, prompt, 2));
  assert_ok(accel_session_feed_ids(s, prompt + 2, 3));
  go_on(s, 7, got); /* in pieces, with a fork, a file and steps back on the way */
  assert_ok(accel_session_fork(s, &fork));
  go_on(fork, 9, got + 7);
  assert_ok(accel_session_save(fork, path));
  go_on(fork, 8, got + 16);
  assert_memory_equal(got, want, sizeof want);
  assert_int_equal(accel_session_length(fork), 29);
  assert_int_equal(accel_session_length(s), 12);
  go_on(s, 17, got + 7);
  assert_memory_equal(got, want, sizeof want);
  assert_ok(accel_session_load(ep, path, &loaded));
  assert_int_equal(accel_session_length(loaded), 21);
  go_on(loaded, 8, got + 16);
  assert_memory_equal(got, want, sizeof want);
  assert_ok(accel_session_truncate(loaded, 5));
  go_on(loaded, 24, got);
  assert_memory_equal(got, want, sizeof want);
  assert_ok(accel_session_truncate(loaded, 0));
  assert_ok(accel_session_feed_ids(loaded, prompt, 5));
  go_on(loaded, 24, got);
  assert_memory_equal(got, want, sizeof want);

  static const int32_t many[64] = {1}, wrong[] = {1, 67};
  assert_int_equal(accel_session_feed_ids(loaded, many, 64), ACCEL_ERROR_LIMIT);
  assert_int_equal(accel_session_feed_ids(loaded, wrong, 2), ACCEL_ERROR_ARGUMENT);
  how.max_new_tokens = 36; /* 29 tokens are there, 64 positions */
  assert_int_equal(accel_session_generate(loaded, &how, &all), ACCEL_ERROR_LIMIT);
  how.max_new_tokens = 4;
  how.num_beams = 2;
  assert_int_equal(accel_session_generate(loaded, &how, &all), ACCEL_ERROR_UNSUPPORTED);
  assert_int_equal(accel_session_length(loaded), 29);
  how.num_beams = 1;
  how.stop = &(accel_strings){.n = 1, .item = NULL};
  assert_int_equal(accel_session_generate(loaded, &how, &all), ACCEL_ERROR_ARGUMENT);
  how.stop = NULL;
  how.logprobs = 1025;
  assert_int_equal(accel_session_generate(loaded, &how, &all), ACCEL_ERROR_ARGUMENT);
  how.logprobs = accel_generate_params_default().logprobs;

  FILE *file = fopen(path, "rb"), *bad;
  static char bytes[1 << 20];
  size_t n = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  accel_session *none;
  for (size_t cut = 0; cut < n; cut += n / 7) { /* shorter, and with one byte changed */
    bytes[cut] ^= 1;
    assert_non_null(bad = fopen(damaged, "wb"));
    fwrite(bytes, 1, n, bad);
    fclose(bad);
    bytes[cut] ^= 1;
    assert_int_not_equal(accel_session_load(ep, damaged, &none), ACCEL_OK);
    assert_non_null(bad = fopen(damaged, "wb"));
    fwrite(bytes, 1, cut, bad);
    fclose(bad);
    assert_int_not_equal(accel_session_load(ep, damaged, &none), ACCEL_OK);
    assert_null(none);
  }
  accel_session_close(&loaded);
  accel_session_close(&s);
  accel_session_close(&fork);
  remove(path);
  remove(damaged);
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

/* ---- the queue ---- */

enum { REQUESTS = 12 };

static accel_generate_params request_params(int i) {
  accel_generate_params how = accel_generate_params_default();
  how.max_new_tokens = 4 + 3 * i;
  how.ignore_eos = i % 3 == 0;
  if (i % 4 == 1) how.temperature = 1.2, how.seed = (uint64_t)i;
  if (i % 4 == 2) how.num_beams = 3, how.num_return_sequences = 2;
  if (i % 4 == 3) how.config = "{\"repetition_penalty\": 1.4}";
  return how;
}

/* Generations and other work, submitted at once: each gives what it gives alone. */
static void test_queue(void **state) {
  accel *ctx = test_context();
  accel_endpoint *ep = open_llama(ctx);
  accel_queue *queue = accel_queue_of(ep);
  accel_ticket *ticket[REQUESTS], *other = NULL;
  accel_tensors *outputs;
  test_input in;
  listener l = {.stop_after = 3};
  int32_t ids[REQUESTS][8];
  (void)state;
  fill_input(&in, 3, 2, 9, 2);
  for (int i = 0; i < REQUESTS; i++) {
    accel_generate_params how = request_params(i);
    for (int k = 0; k < 8; k++) ids[i][k] = 3 + (7 * i + 5 * k + i * k) % 60;
    if (i == 8) how.on_token = listen_to, how.on_token_user = &l; /* ends itself after 3 tokens */
    assert_ok(accel_submit_generate(queue, NULL, ids[i], 1 + (uint32_t)i % 8, &how, &ticket[i]));
    if (i == 5) assert_ok(accel_submit(queue, &in.list, &other));
  }
  const int32_t beyond[] = {99};
  accel_ticket *none;
  assert_int_equal(accel_submit_generate(queue, NULL, beyond, 1, NULL, &none),
                   ACCEL_ERROR_ARGUMENT);
  assert_null(none);
  /* not its kind; it stays */
  assert_int_equal(accel_wait(&ticket[0], -1, &outputs), ACCEL_ERROR_ARGUMENT);
  accel_generations *wrong;
  assert_int_equal(accel_wait_generations(&other, -1, &wrong), ACCEL_ERROR_ARGUMENT);
  assert_ok(accel_wait(&other, -1, &outputs));
  accel_tensors_free(&outputs);
  for (int i = 0; i < REQUESTS; i++) {
    accel_generations *joint, *solo;
    accel_generate_params how = request_params(i);
    const int32_t *row = ids[i];
    uint32_t count = 1 + (uint32_t)i % 8;
    assert_ok(accel_wait_generations(&ticket[i], -1, &joint));
    assert_null(ticket[i]);
    assert_ok(accel_generate_ids(ep, &row, &count, 1, &how, &solo));
    assert_int_equal(joint->n, solo->n);
    for (uint32_t k = 0; k < solo->n; k++) {
      uint32_t n = i == 8 ? 3 : solo->item[k].n;
      assert_int_equal(joint->item[k].n, n);
      assert_memory_equal(joint->item[k].ids, solo->item[k].ids, n * sizeof(int32_t));
      assert_string_equal(joint->item[k].finish, i == 8 ? "cancelled" : solo->item[k].finish);
    }
    accel_generations_free(&joint);
    accel_generations_free(&solo);
  }
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_company),      cmocka_unit_test(test_bounded_pieces),
      cmocka_unit_test(test_state_limit),  cmocka_unit_test(test_failure_alone),
      cmocka_unit_test(test_encoders),     cmocka_unit_test(test_no_waste),
      cmocka_unit_test(test_cancel),       cmocka_unit_test(test_pieces),
      cmocka_unit_test(test_stop_strings), cmocka_unit_test(test_llama),
      cmocka_unit_test(test_refusals),     cmocka_unit_test(test_sessions),
      cmocka_unit_test(test_queue),        cmocka_unit_test(test_beams_heard),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
