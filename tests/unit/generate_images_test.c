/* generate_images_test.c - prompts with pictures read in pieces: every family of models gives the
 * same bits however its prompts are cut, whoever is read with them, and behind kept prompts. */
#include <math.h>
#include <stdio.h>

#include "fake_stepper.h"
#include "tensors.h"

#include "generate/image_prompt.h"
#include "tasks/open.h"

enum { FRONT = 70, BETWEEN = 90, BEHIND = 141, NEW = 6, MOST_INPUTS = 8, MOST_IDS = 1024 };

typedef struct family {
  const char *model, *golden; /* of tests/fixtures/models: pictures and the tokens that show them */
  bool whole;                 /* its prompts cannot be cut, nor shared */
} family;

static const family families[] = {
    {"llava", "golden.LlavaForConditionalGeneration.both", false},
    {"llava_next", "golden.LlavaNextForConditionalGeneration.both", false},
    {"qwen2_vl", "golden.Qwen2VLForConditionalGeneration.both", false},
    {"qwen2_5_vl", "golden.Qwen2_5_VLForConditionalGeneration.both", false},
    {"qwen3_vl", "golden.Qwen3VLForConditionalGeneration.both", false},
    {"qwen3_vl_moe", "golden.Qwen3VLMoeForConditionalGeneration.both", false},
    {"gemma3_pictures", "golden.Gemma3ForConditionalGeneration.both", false},
    {"paligemma", "golden.PaliGemmaForConditionalGeneration.prompt", true},
    {"idefics3", "golden.Idefics3ForConditionalGeneration.both", false},
    {"smolvlm", "golden.SmolVLMForConditionalGeneration.one", false},
    {"internvl", "golden.InternVLForConditionalGeneration.both", false},
};

/* A prompt of all rows of a golden, with text in front, between and behind. */
typedef struct pictured {
  accel_tensors *golden;
  accel_tensor tensor[MOST_INPUTS];
  uint32_t n_tensors, n;
  int32_t ids[MOST_IDS];
} pictured;

static void add_text(pictured *p, uint32_t n, uint32_t seed) {
  for (uint32_t i = 0; i < n; i++, seed = seed * 1664525u + 1013904223u)
    p->ids[p->n++] = 4 + (int32_t)((seed >> 12) % 40);
}

static void read_pictured(const family *f, const accel_endpoint *ep, pictured *p) {
  char path[512];
  snprintf(path, sizeof path, ACCEL_FIXTURES "/models/%s/%s.safetensors", f->model, f->golden);
  *p = (pictured){.golden = read_tensors(path)};
  const accel_tensor *ids = find(p->golden, "in.input_ids"),
                     *mask = find(p->golden, "in.attention_mask");
  for (uint32_t i = 0; i < p->golden->n; i++) {
    accel_tensor t = p->golden->item[i];
    if (strncmp(t.name, "in.", 3) || !accel__takes_whole(ep, t.name + 3)) continue;
    t.name += 3;
    assert_true(p->n_tensors < MOST_INPUTS);
    p->tensor[p->n_tensors++] = t;
  }
  for (int64_t b = 0; b < ids->dim[0]; b++) {
    add_text(p, b ? BETWEEN : FRONT, (uint32_t)b + 1);
    for (int64_t i = b * ids->dim[1]; i < (b + 1) * ids->dim[1]; i++)
      if (((const int64_t *)mask->data)[i]) p->ids[p->n++] = (int32_t)((int64_t *)ids->data)[i];
  }
  add_text(p, BEHIND, 77);
}

/* An engine over a session of its own. */
typedef struct bench {
  accel_endpoint *ep;
  accel__session *session;
  accel__model_stepper stepper;
  accel__prefix_cache prefixes;
  accel__engine engine;
} bench;

static void bench_open(bench *b, accel_endpoint *ep) {
  *b = (bench){.ep = ep};
  assert_ok(accel__session_open(ep, &b->session));
  assert_ok(accel__model_stepper_open(b->session, &b->stepper));
  b->prefixes = (accel__prefix_cache){.model = &b->stepper.stepper, .most = 1 << 24};
  b->engine.model = &b->stepper.stepper;
}

static void bench_close(bench *b) {
  accel__engine_free(&b->engine);
  accel__prefix_cache_free(&b->prefixes);
  accel__model_stepper_close(&b->stepper);
  accel__session_close(&b->session);
}

static accel_generate_params greedy(void) {
  accel_generate_params how = accel_generate_params_default();
  how.max_new_tokens = NEW;
  how.ignore_eos = 1;
  how.logprobs = 0;
  return how;
}

static accel__request request_of(const bench *b, const accel__generate_plan *plan,
                                 const pictured *p) {
  const accel_generate_params how = greedy();
  const accel__encoder_input prompt = {
      .ids = {p->ids, p->n}, .tensor = p->tensor, .n_tensors = p->n_tensors};
  accel__request r = {0};
  assert_ok(accel__pictured_request(b->ep, plan, &how, &prompt, 0, 0, &r));
  assert_non_null(r.input.images);
  return r;
}

/* The same tokens; of the first `exact` the same log probabilities, of the others nearly. */
static void check_tokens(const char *model, const accel__request *want, const accel__request *got,
                         uint32_t exact) {
  if (got->outcome.failure.status != ACCEL_OK)
    fail_msg("%s: %s", model, got->outcome.failure.message);
  const accel__hypothesis *a = &want->outcome.done[0], *b = &got->outcome.done[0];
  assert_int_equal(a->n, b->n);
  assert_memory_equal(a->ids, b->ids, a->n * sizeof *a->ids);
  for (uint32_t i = 0; i < NEW; i++)
    if (i < exact ? memcmp(&a->logprob[i], &b->logprob[i], sizeof(float)) != 0
                  : !(fabsf(a->logprob[i] - b->logprob[i]) < 1e-4f))
      fail_msg("%s: token %u: log probability %a, %a when read at once", model, i,
               (double)b->logprob[i], (double)a->logprob[i]);
}

/* All pictures were encoded, but for `cached` tokens, and their rows given back. */
static void images_are_gone(const char *model, const accel__request *r) {
  if (r->outcome.failure.status != ACCEL_OK) fail_msg("%s: %s", model, r->outcome.failure.message);
  for (uint32_t i = 0; i < r->input.images->n; i++) assert_null(r->input.images->image[i].features);
  assert_true(r->input.images->width > 0 || r->progress.cached > 0);
}

/* Steps of 128 and 200 tokens, and of bounded time: the same bits as in one step.  Of 24 tokens,
 * which other kernels read: nearly. */
static void check_cuts(bench *b, const family *f, const accel__generate_plan *plan,
                       const pictured *p, const accel__request *want) {
  static const uint32_t tokens[] = {128, 200, 0, 24};
  for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
    accel__request r = request_of(b, plan, p);
    b->engine.step_tokens = tokens[i];
    b->engine.piece_ms = i == 2; /* pieces of 128 tokens, a picture in each step */
    run_to_end(&b->engine, &r, 1, 1);
    check_tokens(f->model, want, &r, i < 3 ? NEW : 0);
    images_are_gone(f->model, &r);
    accel__request_end(&r, NULL);
  }
  b->engine.step_tokens = b->engine.piece_ms = 0;
}

/* Beside two texts, which go on meanwhile, none gives anything else. */
static void check_company(bench *b, const family *f, const accel__generate_plan *plan,
                          const pictured *p, const accel__request *want) {
  accel__request r[3] = {{.next = NULL}, {.next = NULL}}, alone[2] = {{.next = NULL}};
  const accel_generate_params how = greedy();
  for (uint32_t i = 0; i < 2; i++) {
    const accel__ids text = {p->ids, 20 + 5 * i};
    assert_ok(accel__generate_request(b->ep, plan, &how, text, i, 0, &alone[i]));
    assert_ok(accel__generate_request(b->ep, plan, &how, text, i, 0, &r[i]));
    run_to_end(&b->engine, &alone[i], 1, 1);
  }
  r[2] = request_of(b, plan, p);
  b->engine.step_tokens = 130;
  run_to_end(&b->engine, r, 3, 2);
  for (uint32_t i = 0; i < 2; i++) check_tokens(f->model, &alone[i], &r[i], 0);
  check_tokens(f->model, want, &r[2], 1);
  b->engine.step_tokens = 0;
  for (uint32_t i = 0; i < 3; i++) accel__request_end(&r[i], NULL);
  for (uint32_t i = 0; i < 2; i++) accel__request_end(&alone[i], NULL);
}

/* Runs the prompt with what is kept, and without.  Returns the tokens that were shared. */
static uint32_t run_shared(bench *b, const family *f, const accel__generate_plan *plan,
                           const pictured *p) {
  accel__request want = request_of(b, plan, p), got = request_of(b, plan, p);
  accel__prompt_images_hash(got.input.images);
  assert_true(got.input.images->hashed);
  run_to_end(&b->engine, &want, 1, 1); /* without digests nothing is kept */
  run_to_end(&b->engine, &got, 1, 1);
  check_tokens(f->model, &want, &got, NEW);
  images_are_gone(f->model, &got);
  const uint32_t cached = got.progress.cached;
  accel__request_end(&want, NULL);
  accel__request_end(&got, NULL);
  return cached;
}

/* Prompts behind a kept one share what they have alike: all of it, up to text that differs, up to a
 * picture that differs. */
static void check_shared(bench *b, const family *f, const accel__generate_plan *plan, pictured *p) {
  b->engine.prefixes = &b->prefixes;
  assert_int_equal(run_shared(b, f, plan, p), 0);
  const uint32_t few = b->engine.model->few_rows, least = few ? few + 1 : ACCEL__PIECE_TOKENS,
                 again = run_shared(b, f, plan, p);
  assert_int_equal(again, f->whole ? 0 : p->n - least);
  p->ids[p->n - 100] ^= 1;
  assert_int_equal(run_shared(b, f, plan, p), f->whole ? 0 : p->n - 100);
  accel__request r = request_of(b, plan, p);
  const accel__prompt_image *last = &r.input.images->image[r.input.images->n - 1];
  const uint32_t first = accel__prompt_images_cut(r.input.images, last->first);
  float *pixels = NULL; /* the last of the last picture */
  for (uint32_t i = 0; i < last->n_given; i++)
    if (!strcmp(last->given[i].name, "pixel_values"))
      pixels = (float *)last->given[i].data + elements(&last->given[i]) - 1;
  assert_non_null(pixels);
  *pixels += 0.5f;
  accel__request_end(&r, NULL);
  assert_int_equal(run_shared(b, f, plan, p), f->whole || first < ACCEL__PIECE_TOKENS ? 0 : first);
  b->engine.prefixes = NULL;
}

static void check_family(accel *ctx, const family *f, const char *device) {
  char path[512];
  static pictured p;
  accel_endpoint *ep;
  bench b;
  accel__generate_plan plan;
  const accel_generate_params how = greedy();
  accel_init_params init = accel_init_params_default();
  init.device = device;
  snprintf(path, sizeof path, ACCEL_FIXTURES "/models/%s", f->model);
  assert_ok(accel__open(ctx, path, &init, &ep));
  read_pictured(f, ep, &p);
  assert_ok(accel__generate_plan_make(ep, &how, &plan));
  bench_open(&b, ep);
  accel__request want = request_of(&b, &plan, &p);
  run_to_end(&b.engine, &want, 1, 1);
  images_are_gone(f->model, &want);
  check_cuts(&b, f, &plan, &p, &want);
  check_company(&b, f, &plan, &p, &want);
  check_shared(&b, f, &plan, &p);
  accel__request_end(&want, NULL);
  bench_close(&b);
  accel__generate_plan_free(&plan);
  accel_tensors_free(&p.golden);
  accel__close(&ep);
}

static void test_families(void **state) {
  accel *ctx = test_context();
  (void)state;
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    check_family(ctx, &families[i], "cpu");
  accel_destroy(&ctx);
}

/* ---- over a made-up model ---- */

/* A prompt of 900 tokens: text, a picture, text, two pictures, text. */
enum { PROMPT = 900, IMAGES = 3 };
static const struct { uint32_t first, rows; } shown[IMAGES] = {{200, 100}, {450, 90}, {540, 60}};

static void make_shown(int32_t *ids) {
  for (uint32_t i = 0; i < PROMPT; i++) ids[i] = 4 + (int32_t)(i * i % 31);
  for (uint32_t k = 0; k < IMAGES; k++)
    for (uint32_t i = 0; i < shown[k].rows; i++) ids[shown[k].first + i] = PICTURE;
}

/* Pictures with digests from `digest` on. */
static accel__prompt_images *made_images(uint64_t digest) {
  accel__prompt_images *images = calloc(1, sizeof *images);
  images->image = accel__arena_array(&images->arena, IMAGES, sizeof *images->image);
  images->place = accel__arena_array(&images->arena, PROMPT, sizeof *images->place);
  images->block = accel__arena_array(&images->arena, IMAGES, sizeof *images->block);
  images->n = IMAGES;
  images->n_tokens = PROMPT;
  images->hashed = true;
  for (uint32_t k = 0; k < IMAGES; k++) {
    images->image[k] = (accel__prompt_image){.first = shown[k].first,
                                             .end = shown[k].first + shown[k].rows,
                                             .number = images->n_places,
                                             .rows = shown[k].rows,
                                             .digest = {digest + k, 1}};
    for (uint32_t i = 0; i < shown[k].rows; i++)
      images->place[images->n_places++] = shown[k].first + i;
  }
  return images;
}

static accel__request shown_request(const accel__generate_config *c, const int32_t *ids,
                                    uint64_t digest) {
  return (accel__request){.options.config = c,
                          .options.new_tokens = 20,
                          .input.prompt = {ids, PROMPT},
                          .input.images = made_images(digest),
                          .start.sequence = -1};
}

static accel__request chat_request(const accel__generate_config *c, const int32_t *ids) {
  return (accel__request){.options.config = c,
                          .options.new_tokens = 24,
                          .input.prompt = {ids, 9},
                          .start.sequence = -1};
}

/* A chat beside a prompt with pictures has a token in each step, and no step has more than one
 * picture, or a picture and text of the prompt. */
static void test_others_go_on(void **state) {
  enum { MS = 20 };
  static fake alone, together;
  static int32_t ids[PROMPT];
  const accel__generate_config c = plain();
  accel__stepper model = stepper_of(&alone);
  accel__engine lone = {.model = &model};
  (void)state;
  make_shown(ids);
  accel__request want[2] = {shown_request(&c, ids, 50), chat_request(&c, ids)},
                 got[2] = {shown_request(&c, ids, 50), chat_request(&c, ids)};
  for (int i = 0; i < 2; i++) run_to_end(&lone, &want[i], 1, 1);
  assert_int_equal(alone.images, IMAGES);
  assert_int_equal(alone.most_tokens, PROMPT);
  together.us_per_token = 100;
  together.us_per_image = 1500 * MS; /* one is already more than a step has time for */
  accel__stepper other = stepper_of(&together);
  accel__engine e = {.model = &other, .piece_ms = MS};
  for (int i = 0; i < 2; i++) assert_int_equal(accel__request_begin(&got[i]), ACCEL_OK);
  for (int i = 0; i < 2; i++) accel__engine_join(&e, &got[i]);
  uint32_t with_images = 0;
  while (e.active) {
    const uint32_t images = together.images, tokens = together.tokens, told = got[1].progress.steps;
    const bool chats = told && !got[1].outcome.finished;
    accel__engine_step(&e);
    assert_true(together.images - images <= 1);
    if (together.images > images) assert_true(together.tokens - tokens <= 1), with_images++;
    if (chats) assert_int_equal(got[1].progress.steps, told + 1);
  }
  assert_int_equal(with_images, IMAGES);
  assert_true(together.most_tokens <= 256 + 1);
  for (int i = 0; i < 2; i++) {
    check_same(&want[i], &got[i]);
    accel__request_end(&want[i], NULL);
    accel__request_end(&got[i], NULL);
  }
  /* several small ones fit one step */
  together.us_per_image = 0;
  together.images = together.steps = 0;
  accel__request quick = shown_request(&c, ids, 50);
  quick.options.new_tokens = 1;
  run_to_end(&e, &quick, 1, 1);
  assert_int_equal(together.images, IMAGES);
  accel__request_end(&quick, NULL);
  accel__engine_free(&e);
  accel__engine_free(&lone);
  check_all_dropped(&together);
}

/* Behind each step: before the first, between pictures, between pieces, while tokens come. */
static void test_cancel(void **state) {
  static fake f;
  static int32_t ids[PROMPT];
  const accel__generate_config c = plain();
  const accel__stepper model = stepper_of(&f);
  (void)state;
  make_shown(ids);
  f.us_per_token = 10;
  f.us_per_image = 2000;
  uint32_t phases = 0;
  for (int steps = 0; steps < 12; steps++) {
    accel__engine e = {.model = &model, .piece_ms = 1};
    accel__request r = shown_request(&c, ids, 50);
    f.images = f.tokens = 0;
    assert_int_equal(accel__request_begin(&r), ACCEL_OK);
    accel__engine_join(&e, &r);
    for (int i = 0; i < steps; i++) accel__engine_step(&e);
    phases |= 1u << (f.tokens >= PROMPT ? 3 : f.images > 1 ? 2 : f.images);
    accel__engine_cancel(&e, &r);
    assert_int_equal(r.outcome.failure.status, ACCEL_ERROR_CANCELLED);
    assert_null(e.active);
    check_all_dropped(&f);
    accel__request_end(&r, NULL); /* rows of pictures go with it */
    accel__engine_free(&e);
  }
  assert_int_equal(phases, 15);
}

/* A picture that cannot be encoded fails its request alone. */
static void test_failure_alone(void **state) {
  static fake f, g;
  static int32_t ids[PROMPT];
  const accel__generate_config c = plain();
  const accel__stepper model = stepper_of(&f), other = stepper_of(&g);
  (void)state;
  make_shown(ids);
  for (int bounded = 0; bounded < 2; bounded++) {
    accel__engine e = {.model = &model, .piece_ms = (uint32_t)bounded}, lone = {.model = &other};
    accel__request r[3] = {shown_request(&c, ids, POISON - 1), shown_request(&c, ids, 50),
                           chat_request(&c, ids)},
                   want[3] = {{.next = NULL}, shown_request(&c, ids, 50), chat_request(&c, ids)};
    run_to_end(&e, r, 3, 3);
    assert_int_equal(r[0].outcome.failure.status, ACCEL_ERROR_LIMIT);
    assert_non_null(strstr(r[0].outcome.failure.message, "picture is poisoned"));
    for (int i = 1; i < 3; i++) {
      run_to_end(&lone, &want[i], 1, 1);
      check_same(&want[i], &r[i]);
      accel__request_end(&want[i], NULL);
    }
    for (int i = 0; i < 3; i++) accel__request_end(&r[i], NULL);
    accel__engine_free(&e);
    accel__engine_free(&lone);
  }
  check_all_dropped(&f);
}

/* No piece ends within a block, or between a block and keys that it needs (fake_step looks), and
 * nothing is shared up to such a place. */
static void test_blocks(void **state) {
  static fake f;
  static int32_t ids[PROMPT];
  const accel__generate_config c = plain();
  const accel__stepper model = stepper_of(&f);
  (void)state;
  make_shown(ids);
  for (uint32_t window = 0; window <= 300; window += 50) {
    accel__prefix_cache cache = {.model = &model, .most = 1 << 20};
    accel__engine e = {.model = &model, .prefixes = &cache};
    accel__request first = {.progress.running = NULL};
    for (uint32_t tokens = 0; tokens <= 400; tokens += 100) {
      accel__request r = shown_request(&c, ids, 50);
      for (uint32_t k = 0; k < IMAGES; k++)
        r.input.images->block[r.input.images->n_blocks++] = (accel__prompt_block){
            shown[k].first > window ? shown[k].first - window : 0, shown[k].first + shown[k].rows};
      e.step_tokens = tokens;
      e.prefixes = tokens == 400 ? &cache : NULL;
      run_to_end(&e, &r, 1, 1);
      if (tokens) check_same(&first, &r);
      if (tokens) accel__request_end(&r, NULL);
      if (!tokens) first = r;
    }
    /* a prompt whose second picture differs */
    accel__request r = shown_request(&c, ids, 50);
    r.input.images->image[1].digest[1]++;
    r.input.images->block[r.input.images->n_blocks++] =
        (accel__prompt_block){450 > window ? 450 - window : 0, 540};
    run_to_end(&e, &r, 1, 1);
    assert_int_equal(r.progress.cached, window <= 150 ? 450 - window : 0);
    accel__request_end(&r, NULL);
    accel__request_end(&first, NULL);
    accel__engine_free(&e);
    accel__prefix_cache_free(&cache);
  }
  check_all_dropped(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_families), cmocka_unit_test(test_others_go_on),
      cmocka_unit_test(test_cancel), cmocka_unit_test(test_failure_alone),
      cmocka_unit_test(test_blocks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
