/* tasks_parts_test.c - models over several devices: every cut gives the bits of one device, runs on
 * several threads, and what a run that fails in a later part leaves. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "core/config.h"
#include <unistd.h>

#include "temp.h"
#include "test_endpoint.h"

#define LLAMA                                                                                      \
  "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"vocab_size\":61,"          \
  "\"hidden_size\":32,\"intermediate_size\":48,\"num_hidden_layers\":5,\"num_attention_heads\":4," \
  "\"num_key_value_heads\":2,\"max_position_embeddings\":64,\"tie_word_embeddings\":true}"

enum { LAYERS = 5, THREADS = 3 };

static accel_endpoint *open_on(accel *ctx, const char *model, const char *device,
                               const char *precision) {
  accel_init_params how = accel_init_params_default();
  accel_endpoint *ep = NULL;
  how.device = device;
  how.precision = precision;
  how.random_weights = 1;
  how.seed = 7;
  assert_ok(accel_init(ctx, model, &how, &ep));
  return ep;
}

static accel_tensors *run(accel_endpoint *ep, test_input *in) {
  static const char *const names[] = {"logits", "hidden_states.0", "hidden_states.2",
                                      "hidden_states.5"};
  accel_tensors *out = NULL;
  assert_ok(accel_run_named(ep, &in->list, names, 4, &out));
  return out;
}

static void assert_same(const accel_tensors *a, const accel_tensors *b, const char *device) {
  assert_int_equal(a->n, b->n);
  for (uint32_t i = 0; i < a->n; i++) {
    size_t n = 4;
    for (uint32_t r = 0; r < a->item[i].rank; r++) n *= (size_t)a->item[i].dim[r];
    if (memcmp(a->item[i].data, b->item[i].data, n))
      fail_msg("%s: '%s' has other bits", device, a->item[i].name);
  }
}

static const char *model(void) {
  char path[600];
  snprintf(path, sizeof path, "%s/llama", temp_directory());
  mkdir(path, 0700);
  snprintf(path, sizeof path, "%s/llama/config.json", temp_directory());
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(LLAMA, f);
  fclose(f);
  return temp_path("llama");
}

static void every_cut(const char *plugin, const char *precision) {
  accel *ctx = test_context();
  const char *llama = model();
  static test_input in;
  fill_input(&in, 3, 3, 12, 2);
  accel_endpoint *whole = open_on(ctx, llama, plugin, precision);
  accel_tensors *want = run(whole, &in);
  for (int cut = 0; cut + 1 < LAYERS; cut++)
    for (int second = cut; second + 1 < LAYERS; second++) {
      char device[128];
      if (second == cut)
        snprintf(device, sizeof device, "%s=0-%d+%s=%d-%d", plugin, cut, plugin, cut + 1,
                 LAYERS - 1);
      else
        snprintf(device, sizeof device, "%s=0-%d+%s=%d-%d+%s=%d-%d", plugin, cut, plugin, cut + 1,
                 second, plugin, second + 1, LAYERS - 1);
      accel_endpoint *ep = open_on(ctx, llama, device, precision);
      assert_string_equal(accel_placement(ep)->device, device);
      assert_int_equal(accel_placement(ep)->n_part, second == cut ? 2 : 3);
      assert_int_equal(accel_placement(ep)->part[0].last_layer, cut);
      assert_int_equal(accel_placement(ep)->part[0].last_stage, cut + 1);
      accel_tensors *got = run(ep, &in);
      assert_same(want, got, device);
      accel_tensors_free(&got);
      accel_cleanup(&ep);
    }
  accel_tensors_free(&want);
  accel_cleanup(&whole);
  accel_destroy(&ctx);
}

static bool is_built(const char *plugin) {
  char path[512];
  snprintf(path, sizeof path, "%s/libaccel_%s.so", ACCEL_TEST_PLUGINS, plugin);
  return access(path, R_OK) == 0;
}

static void test_every_cut(void **state) {
  (void)state;
  every_cut("reference", NULL);
  if (!is_built("cpu")) return;
  every_cut("cpu", NULL);
  every_cut("cpu", "bf16");
  every_cut("cpu", "int8");
}

typedef struct work {
  accel_endpoint *ep;
  const accel_tensors *want;
  test_input *in;
} work;

static void *run_many(void *arg) {
  work *w = arg;
  bool same = true;
  for (int i = 0; i < 8; i++) {
    accel_tensors *out = NULL;
    same &= accel_run(w->ep, &w->in->list, &out) == ACCEL_OK &&
            !memcmp(out->item[0].data, w->want->item[0].data, 4u * 61 * 12 * 2);
    same &= i % 3 || accel_trim(w->ep) == ACCEL_OK;
    accel_tensors_free(&out);
  }
  return same ? w : NULL;
}

static void test_threads(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_endpoint *ep = open_on(ctx, model(), "reference=0-1+reference=2-4", NULL);
  static test_input in[THREADS];
  accel_tensors *want[THREADS];
  work w[THREADS];
  pthread_t thread[THREADS];
  for (uint32_t i = 0; i < THREADS; i++) {
    fill_input(&in[i], i, 2, 12, 0);
    assert_ok(accel_run(ep, &in[i].list, &want[i]));
    w[i] = (work){ep, want[i], &in[i]};
  }
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, run_many, &w[i]), 0);
  for (int i = 0; i < THREADS; i++) {
    void *same;
    pthread_join(thread[i], &same);
    assert_non_null(same);
    accel_tensors_free(&want[i]);
  }
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

/* ---- runs that fail behind the first part ---- */

enum { SAID = 6 };

static void say(accel_session *s, int32_t *said) {
  accel_generate_params how = accel_generate_params_default();
  accel_generations *out = NULL;
  how.max_new_tokens = SAID;
  how.do_sample = 0;
  assert_ok(accel_session_generate(s, &how, &out));
  assert_int_equal(out->item[0].n, SAID);
  memcpy(said, out->item[0].ids, SAID * sizeof *said);
  accel_generations_free(&out);
}

/* A run that fails when all parts have done their share leaves the session as it was, new sequences
 * and old ones, rows (LLaMA) and states that cannot go back (Mamba). */
static void failing_run(const char *name) {
  static const int32_t one[] = {3, 5, 7, 11}, two[] = {13, 2, 9};
  char path[512];
  int32_t want[SAID], got[SAID];
  accel *ctx = test_context();
  snprintf(path, sizeof path, "%s/models/%s", ACCEL_FIXTURES, name);
  accel_endpoint *ep = NULL;
  accel_init_params how = accel_init_params_default();
  how.device = "reference=0-0+reference=1-1";
  how.precision = "fp32"; /* named: results must be finite */
  assert_ok(accel_init(ctx, path, &how, &ep));
  accel_session *s = NULL;
  assert_ok(accel_session_open(ep, &s));
  assert_ok(accel_session_feed_ids(s, one, 4));
  assert_ok(accel_session_feed_ids(s, two, 3));
  say(s, want);
  accel_session_close(&s);
  assert_ok(accel_session_open(ep, &s));
  for (int again = 0; again < 2; again++) {
    accel__fault_arm("nonfinite:1");
    assert_int_equal(accel_session_feed_ids(s, again ? two : one, again ? 3 : 4),
                     ACCEL_ERROR_NONFINITE);
    accel__fault_arm("");
    assert_ok(accel_session_feed_ids(s, again ? two : one, again ? 3 : 4));
  }
  say(s, got);
  assert_memory_equal(want, got, sizeof want);
  accel_session_close(&s);
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

static void test_failing_runs(void **state) {
  (void)state;
  failing_run("llama");
  failing_run("mamba");
}

typedef struct talk {
  accel_endpoint *ep;
  int32_t first, want[SAID];
  bool same;
} talk;

static void *talk_on(void *arg) {
  talk *t = arg;
  t->same = true;
  for (int i = 0; i < 4; i++) {
    accel_session *s = NULL;
    accel_generations *out = NULL;
    accel_generate_params how = accel_generate_params_default();
    const int32_t ids[] = {t->first, 5, 7};
    how.max_new_tokens = SAID;
    const bool fine = accel_session_open(t->ep, &s) == ACCEL_OK &&
                      accel_session_feed_ids(s, ids, 3) == ACCEL_OK &&
                      accel_session_generate(s, &how, &out) == ACCEL_OK;
    t->same &= fine && !memcmp(out->item[0].ids, t->want, sizeof t->want);
    accel_generations_free(&out);
    if (s) accel_session_close(&s);
  }
  return NULL;
}

/* Asks for the counters of streaming until it is told to stop. */
typedef struct watch {
  accel_endpoint *ep;
  atomic_bool stop;
  uint64_t asked;
  bool fine;
} watch;

static void *watch_streaming(void *arg) {
  watch *w = arg;
  w->fine = true;
  do {
    accel_stream_stats now = {.size = sizeof now};
    w->fine &= accel_streaming(w->ep, &now) == ACCEL_OK && now.wait_share <= 1;
    w->asked++;
  } while (!atomic_load(&w->stop));
  return NULL;
}

static void lost_at(accel *ctx, const char *device, int at) {
  accel_init_params how = accel_init_params_default();
  talk t[THREADS];
  pthread_t thread[THREADS], watcher;
  watch w = {0};
  how.device = device;
  assert_ok(accel_init(ctx, ACCEL_FIXTURES "/models/llama", &how, &w.ep));
  for (int i = 0; i < THREADS; i++) {
    accel_session *s = NULL;
    t[i] = (talk){.ep = w.ep, .first = 3 + i};
    assert_ok(accel_session_open(w.ep, &s));
    assert_ok(accel_session_feed_ids(s, (const int32_t[]){t[i].first, 5, 7}, 3));
    say(s, t[i].want);
    accel_session_close(&s);
  }
  char points[32];
  snprintf(points, sizeof points, "device_lost:%d", at);
  accel__fault_arm(points);
  assert_int_equal(pthread_create(&watcher, NULL, watch_streaming, &w), 0);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, talk_on, &t[i]), 0);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(thread[i], NULL);
    if (!t[i].same) fail_msg("%s: thread %d, lost at %d", device, i, at);
  }
  atomic_store(&w.stop, true);
  pthread_join(watcher, NULL);
  accel__fault_arm("");
  assert_true(w.fine && w.asked > 0);
  assert_true(accel_placement(w.ep)->reasons->n > 0);
  accel_cleanup(&w.ep);
}

/* A device is lost while several threads have sessions there: all go on with the same tokens. */
static void test_lost_under_threads(void **state) {
  (void)state;
  accel *ctx = test_context();
  if (!is_built("cpu")) skip();
  for (int at = 5; at < 60; at += 18) lost_at(ctx, "reference+reference,cpu", at);
  accel_destroy(&ctx);
}

/* The same of parts that stream: their reader and their numbers go with them. */
static void test_lost_while_streaming(void **state) {
  (void)state;
  accel *ctx = test_context();
  if (!is_built("cpu")) skip();
  setenv("ACCEL_STREAM_WEIGHTS", "1", 1);
  for (int at = 5; at < 60; at += 18) lost_at(ctx, "cpu+cpu,reference", at);
  unsetenv("ACCEL_STREAM_WEIGHTS");
  accel_destroy(&ctx);
}

/* ---- refused ---- */

static void assert_refused(accel *ctx, const char *device, accel_status status, const char *says) {
  accel_init_params how = accel_init_params_default();
  accel_endpoint *ep = NULL;
  how.device = device;
  how.random_weights = 1;
  const accel_status got = accel_init(ctx, model(), &how, &ep);
  if (got != status || !strstr(accel_last_error(), says))
    fail_msg("%s: %s: %s", device, accel_status_name(got), accel_last_error());
}

static void test_refused(void **state) {
  (void)state;
  static const struct {
    const char *device;
    accel_status status;
    const char *says;
  } wrong[] = {
      {"reference=0-4", ACCEL_ERROR_ARGUMENT, "add a part with '+'"},
      {"reference=0-1+reference=1-4", ACCEL_ERROR_ARGUMENT, "layer 1 is in the part before it"},
      {"reference=0-1+reference=3-4", ACCEL_ERROR_ARGUMENT,
       "layers 2-2 are in no part; begin at 2"},
      {"reference=1-1+reference=2-4", ACCEL_ERROR_ARGUMENT,
       "layers 0-0 are in no part; begin at 0"},
      {"reference=0-1+reference=4-2", ACCEL_ERROR_ARGUMENT, "spell them 2-4"},
      {"reference=0-1+reference=2-9", ACCEL_ERROR_ARGUMENT, "5 layers, 0 to 4; there is no such"},
      {"reference=0-1+reference=2-3", ACCEL_ERROR_ARGUMENT, "the last ones are in no part"},
      {"reference=0-1+reference", ACCEL_ERROR_ARGUMENT, "either every part has a range"},
      {"reference=x+reference=1-4", ACCEL_ERROR_ARGUMENT, "'x' is no range of layers"},
      {"reference=0-99999999999+reference=1", ACCEL_ERROR_ARGUMENT, "is no range of layers"},
      {"reference+", ACCEL_ERROR_ARGUMENT, "part 2 names no device"},
      {"reference++reference", ACCEL_ERROR_ARGUMENT, "part 2 names no device"},
      {"reference+opencll", ACCEL_ERROR_ARGUMENT, "did you mean 'opencl'"},
      {"reference+reference:7", ACCEL_ERROR_DEVICE_UNAVAILABLE, "reference:7: no such device"},
      {"reference+reference+reference+reference+reference+reference", ACCEL_ERROR_UNSUPPORTED,
       "6 parts, but"}};
  accel *ctx = test_context();
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_refused(ctx, wrong[i].device, wrong[i].status, wrong[i].says);
  accel_device *device = NULL;
  assert_int_equal(accel_get_device(ctx, "reference+reference", &device), ACCEL_ERROR_ARGUMENT);
  accel_destroy(&ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_cut),
                                     cmocka_unit_test(test_threads),
                                     cmocka_unit_test(test_failing_runs),
                                     cmocka_unit_test(test_lost_under_threads),
                                     cmocka_unit_test(test_lost_while_streaming),
                                     cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
