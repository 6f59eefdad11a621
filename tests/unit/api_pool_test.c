/* api_pool_test.c - several models under one memory budget: loads on demand, eviction, pins, waiting,
 * failures, moves, names that share an endpoint, faults, and many threads at once. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "core/config.h"
#include "core/json.h"
#include "temp.h"
#include "test_endpoint.h"

#define PIPELINES ACCEL_FIXTURES "/pipelines/"

/* A BERT of some 6 MiB with random weights; `name` makes it another model. */
static char *sized_model(const char *name) {
  char file[64];
  snprintf(file, sizeof file, "%s/config.json", name);
  temp_text(file,
            "{\"model_type\":\"bert\",\"architectures\":[\"BertModel\"],\"vocab_size\":3000,"
            "\"hidden_size\":256,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
            "\"intermediate_size\":512,\"max_position_embeddings\":64}");
  return temp_path(name);
}

static accel_init_params random_params(void) {
  accel_init_params how = accel_init_params_default();
  how.random_weights = 1;
  return how;
}

static void add_sized(accel_pool *pool, const char *name, uint32_t flags) {
  const accel_init_params how = random_params();
  assert_ok(accel_pool_add(pool, name, sized_model(name), &how, flags));
}

static accel_pool *open_pool(accel *ctx, uint64_t limit) {
  accel_pool_params how = accel_pool_params_default();
  accel_pool *pool;
  how.memory_limit = limit;
  assert_ok(accel_pool_open(ctx, &how, &pool));
  return pool;
}

static accel_pool_ref *acquire(accel_pool *pool, const char *name) {
  accel_pool_ref *ref;
  assert_ok(accel_pool_acquire(pool, name, 60000, &ref));
  return ref;
}

static void touch(accel_pool *pool, const char *name) {
  accel_pool_ref *ref = acquire(pool, name);
  accel_pool_release(&ref);
  assert_null(ref);
}

static accel_pool_stats stats_of(accel_pool *pool, const char *name) {
  accel_pool_stats s = {.size = sizeof s};
  assert_ok(accel_pool_stats_of(pool, name, &s));
  return s;
}

/* Bytes that one sized model takes, and that its load is planned to take. */
static void measure(accel *ctx, uint64_t *bytes, uint64_t *planned) {
  accel_pool *pool = open_pool(ctx, 0);
  add_sized(pool, "a", 0);
  touch(pool, "a");
  touch(pool, "a");
  const accel_pool_stats s = stats_of(pool, "a");
  *bytes = s.bytes;
  *planned = s.planned_bytes;
  assert_in_range(s.planned_bytes, 4 << 20, 40 << 20);
  assert_in_range(s.bytes, s.planned_bytes * 3 / 4, s.planned_bytes); /* it has no tokenizer */
  assert_int_equal(s.loads, 1);
  assert_int_equal(s.hits, 1);
  assert_int_equal(s.memory_limit, 0);
  accel_pool_close(&pool);
}

/* A pool whose limit is enough for two of them, and not for three. */
static accel_pool *pool_for_two(accel *ctx) {
  uint64_t bytes, planned;
  measure(ctx, &bytes, &planned);
  accel_pool *pool = open_pool(ctx, 2 * planned + bytes / 2);
  add_sized(pool, "a", 0);
  add_sized(pool, "b", 0);
  add_sized(pool, "c", 0);
  return pool;
}

static bool is_loaded(accel_pool *pool, const char *name) { return stats_of(pool, name).loaded; }

/* ---- names ---- */

static void test_arguments(void **state) {
  accel *ctx = test_context();
  accel_pool *pool = open_pool(ctx, 0);
  accel_init_params how = accel_init_params_default();
  accel_pool_ref *ref;
  (void)state;
  assert_ok(accel_pool_add(pool, "sentences", PIPELINES "sentence", NULL, 0));
  assert_int_equal(accel_pool_add(pool, "sentences", TINY_BERT, NULL, 0), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel_pool_add(pool, "", TINY_BERT, NULL, 0), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel_pool_add(pool, "x", TINY_BERT, NULL, 4), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel_pool_add(pool, "x", "no/such-model", NULL, 0), ACCEL_ERROR_NOT_FOUND);
  how.task = "painting";
  assert_int_equal(accel_pool_add(pool, "x", TINY_BERT, &how, 0), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel_pool_acquire(pool, "sentence", 0, &ref), ACCEL_ERROR_NOT_FOUND);
  assert_null(ref);
  assert_non_null(strstr(accel_last_error(), "'sentences'"));
  assert_int_equal(accel_pool_stats_of(pool, "y", &(accel_pool_stats){.size = 8}),
                   ACCEL_ERROR_NOT_FOUND);
  assert_int_equal(accel_pool_queue_statistics(pool, "y", &(accel_queue_stats){.size = 8}),
                   ACCEL_ERROR_NOT_FOUND);
  accel_queue_stats queue = {.size = sizeof queue, .waiting = 7};
  assert_ok(accel_pool_queue_statistics(pool, "sentences", &queue)); /* which is not loaded */
  assert_int_equal(queue.size, sizeof queue);
  assert_int_equal(queue.waiting, 0);
  assert_int_equal(stats_of(pool, NULL).loads, 0);
  assert_int_equal(accel_pool_pin(pool, "y", 1), ACCEL_ERROR_NOT_FOUND);
  assert_int_equal(accel_pool_move(pool, "y", "cpu"), ACCEL_ERROR_NOT_FOUND);
  assert_int_equal(accel_pool_move(pool, "sentences", "no-such-device"), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel_pool_acquire(NULL, "x", 0, &ref), ACCEL_ERROR_ARGUMENT);
  assert_null(accel_pool_ref_endpoint(NULL));
  assert_null(accel_pool_ref_queue(NULL));
  accel_pool_release(NULL);
  assert_int_equal(stats_of(pool, NULL).models, 1);
  accel_pool_close(&pool);
  accel_pool_close(&pool);
  accel_destroy(&ctx);
}

/* ---- eviction ---- */

static void test_least_recently_used(void **state) {
  accel *ctx = test_context();
  accel_pool *pool = pool_for_two(ctx);
  (void)state;
  touch(pool, "a");
  touch(pool, "b");
  touch(pool, "a");
  touch(pool, "c"); /* b was used longest ago */
  assert_true(is_loaded(pool, "a"));
  assert_false(is_loaded(pool, "b"));
  assert_true(is_loaded(pool, "c"));
  touch(pool, "b");
  assert_false(is_loaded(pool, "a"));
  const accel_pool_stats s = stats_of(pool, NULL);
  assert_int_equal(s.models, 3);
  assert_int_equal(s.loaded, 2);
  assert_int_equal(s.loads, 4);
  assert_int_equal(s.hits, 1);
  assert_int_equal(s.evictions, 2);
  assert_int_equal(s.failures, 0);
  assert_in_range(s.bytes, 1, s.memory_limit);
  assert_in_range(s.peak_bytes, s.bytes, s.memory_limit);
  assert_true(s.load_seconds > 0);
  accel_pool_close(&pool);
  accel_destroy(&ctx);
}

static void test_json(void **state) {
  accel *ctx = test_context();
  accel_pool *pool = pool_for_two(ctx);
  accel__json_file file;
  char *text;
  (void)state;
  add_sized(pool, "with \"quotes\"", ACCEL_POOL_PINNED | ACCEL_POOL_PRELOAD);
  touch(pool, "b");
  assert_ok(accel_pool_json(pool, &text));
  assert_ok(accel__json_parse(text, strlen(text), "json", &file));
  assert_string_equal(accel__json_get(file.root, "schema")->valuestring, "accel.pool/1");
  assert_int_equal(accel__json_get(file.root, "loaded")->valueint, 2);
  assert_int_equal(accel__json_get(file.root, "loads")->valueint, 2);
  const accel__json *models = accel__json_get(file.root, "models");
  assert_int_equal(cJSON_GetArraySize(models), 4);
  const accel__json *b = cJSON_GetArrayItem(models, 1), *last = cJSON_GetArrayItem(models, 3);
  assert_string_equal(accel__json_get(b, "name")->valuestring, "b");
  assert_string_equal(accel__json_get(b, "device")->valuestring, "cpu");
  assert_string_equal(accel__json_get(b, "precision")->valuestring, "fp32");
  assert_true(cJSON_IsNull(cJSON_GetObjectItem(cJSON_GetArrayItem(models, 0), "device")));
  assert_string_equal(accel__json_get(last, "name")->valuestring, "with \"quotes\"");
  assert_true(cJSON_IsTrue(accel__json_get(last, "pinned")));
  accel__json_free(&file);
  accel_string_free(&text);
  accel_pool_close(&pool);
  accel_destroy(&ctx);
}

static void test_pins(void **state) {
  accel *ctx = test_context();
  accel_pool *pool = pool_for_two(ctx);
  accel_pool_ref *ref;
  (void)state;
  assert_ok(accel_pool_pin(pool, "a", 1));
  touch(pool, "a");
  touch(pool, "b");
  touch(pool, "c");
  assert_true(is_loaded(pool, "a")); /* though it was used longest ago */
  assert_false(is_loaded(pool, "b"));
  assert_ok(accel_pool_pin(pool, "c", 1));
  assert_int_equal(accel_pool_acquire(pool, "b", 60000, &ref), ACCEL_ERROR_DOES_NOT_FIT);
  assert_non_null(strstr(accel_last_error(), "models that stay"));
  assert_non_null(strstr(accel_last_error(), "MiB"));
  assert_int_equal(stats_of(pool, NULL).pinned, 2);
  assert_int_equal(stats_of(pool, "b").failures, 1);
  assert_ok(accel_pool_pin(pool, "a", 0));
  touch(pool, "b");
  assert_false(is_loaded(pool, "a"));
  accel_pool_close(&pool);
  accel_destroy(&ctx);
}

static void test_never_fits(void **state) {
  accel *ctx = test_context();
  accel_pool *pool = open_pool(ctx, 1 << 20);
  const accel_init_params how = random_params();
  accel_pool_ref *ref;
  (void)state;
  add_sized(pool, "a", 0);
  assert_ok(accel_pool_add(pool, "small", TINY_BERT, NULL, 0));
  assert_int_equal(accel_pool_acquire(pool, "a", -1, &ref), ACCEL_ERROR_DOES_NOT_FIT);
  assert_null(ref);
  assert_non_null(strstr(accel_last_error(), "the pool may take 1.0 MiB"));
  /* a failed preload is told, and leaves the name */
  assert_int_equal(accel_pool_add(pool, "b", sized_model("b"), &how, ACCEL_POOL_PRELOAD),
                   ACCEL_ERROR_DOES_NOT_FIT);
  assert_int_equal(stats_of(pool, NULL).models, 3);
  assert_int_equal(stats_of(pool, NULL).bytes, 0);
  accel_pool_close(&pool);
  accel_destroy(&ctx);
}

/* ---- waiting ---- */

typedef struct asker {
  accel_pool *pool;
  const char *name;
  int64_t timeout_ms;
  pthread_t thread;
  accel_pool_ref *ref;
  accel_status status;
  char message[256];
} asker;

static void *ask(void *user) {
  asker *a = user;
  a->status = accel_pool_acquire(a->pool, a->name, a->timeout_ms, &a->ref);
  snprintf(a->message, sizeof a->message, "%s", a->status == ACCEL_OK ? "" : accel_last_error());
  return NULL;
}

static void start(asker *a) { assert_int_equal(pthread_create(&a->thread, NULL, ask, a), 0); }
static void finish(asker *a) { assert_int_equal(pthread_join(a->thread, NULL), 0); }

static void await_waiting(accel_pool *pool, uint32_t n) {
  while (stats_of(pool, NULL).waiting != n) usleep(1000);
}

static void test_references_hold(void **state) {
  accel *ctx = test_context();
  accel_pool *pool = pool_for_two(ctx);
  asker c = {.pool = pool, .name = "c", .timeout_ms = -1};
  accel_pool_ref *ref;
  test_input in;
  accel_tensors *out;
  (void)state;
  accel_pool_ref *a = acquire(pool, "a"), *b = acquire(pool, "b"), *a2 = acquire(pool, "a");
  assert_ptr_equal(accel_pool_ref_endpoint(a), accel_pool_ref_endpoint(a2));
  assert_ptr_equal(accel_pool_ref_queue(a), accel_pool_ref_queue(a2));
  assert_int_equal(stats_of(pool, "a").references, 2);
  assert_int_equal(accel_pool_acquire(pool, "c", 0, &ref), ACCEL_ERROR_TIMEOUT);
  assert_int_equal(accel_pool_acquire(pool, "c", 400, &ref), ACCEL_ERROR_TIMEOUT);
  assert_non_null(strstr(accel_last_error(), "were in use"));
  assert_non_null(strstr(accel_last_remedy(), "memory_limit"));
  assert_true(stats_of(pool, "c").wait_seconds > 0);
  assert_int_equal(stats_of(pool, "c").timeouts, 2);
  start(&c);
  await_waiting(pool, 1);
  accel_pool_release(&a); /* another reference is left */
  usleep(20000);
  assert_int_equal(stats_of(pool, NULL).waiting, 1);
  fill_input(&in, 3, 2, 9, 3);
  assert_ok(accel_run(accel_pool_ref_endpoint(a2), &in.list, &out));
  accel_tensors_free(&out);
  accel_pool_release(&a2);
  finish(&c);
  assert_int_equal(c.status, ACCEL_OK);
  assert_false(is_loaded(pool, "a"));
  assert_true(is_loaded(pool, "b"));
  accel_pool_release(&b);
  accel_pool_release(&c.ref);
  accel_pool_close(&pool);
  accel_destroy(&ctx);
}

/* ---- without a limit: what the device has ---- */

/* A machine whose memory cgroup leaves so many bytes. */
static void leave_memory(uint64_t bytes) {
  char text[64];
  temp_text("machine/proc/meminfo", "MemTotal: 1073741824 kB\nMemAvailable: 1073741824 kB\n");
  temp_text("machine/proc/self/cgroup", "0::/box\n");
  temp_text("machine/sys/fs/cgroup/box/memory.max", "1073741824\n");
  snprintf(text, sizeof text, "%llu\n", 1073741824ull - (unsigned long long)bytes);
  temp_text("machine/sys/fs/cgroup/box/memory.current", text);
}

typedef struct giving {
  accel_pool *pool;
  uint64_t bytes;
} giving;

/* The end of a request in a's queue: once a is being unloaded, its memory is there. */
static void give_memory(void *user) {
  giving *g = user;
  while (is_loaded(g->pool, "a")) usleep(1000);
  leave_memory(g->bytes);
}

static void test_memory_of_the_device(void **state) {
  uint64_t bytes, planned;
  accel *measuring = test_context();
  test_input in;
  accel_pool_ref *ref;
  accel_ticket *ticket;
  accel_tensors *out;
  (void)state;
  measure(measuring, &bytes, &planned);
  accel_destroy(&measuring);
  setenv("ACCEL_DETECT_ROOT", temp_path("machine"), 1);
  leave_memory(2 * planned);
  accel *ctx = test_context();
  accel_pool *pool = open_pool(ctx, 0);
  giving g = {.pool = pool, .bytes = 2 * planned};
  add_sized(pool, "a", 0);
  add_sized(pool, "b", 0);
  add_sized(pool, "c", 0);
  accel_pool_ref *a = acquire(pool, "a");
  leave_memory(planned / 2);
  assert_int_equal(accel_pool_acquire(pool, "b", 0, &ref), ACCEL_ERROR_TIMEOUT); /* a is in use */
  accel_request r = accel_request_default(ACCEL_REQUEST_RUN);
  fill_input(&in, 3, 2, 9, 3);
  r.inputs = &in.list;
  r.done = give_memory;
  r.user = &g;
  assert_ok(accel_submit_request(accel_pool_ref_queue(a), &r, &ticket));
  accel_pool_release(&a);
  touch(pool, "b");
  assert_ok(accel_wait(&ticket, -1, &out));
  accel_tensors_free(&out);
  assert_int_equal(stats_of(pool, "a").evictions, 1);
  assert_true(is_loaded(pool, "b"));
  assert_ok(accel_pool_pin(pool, "b", 1));
  leave_memory(1 << 20);
  assert_int_equal(accel_pool_acquire(pool, "c", -1, &ref), ACCEL_ERROR_DOES_NOT_FIT);
  assert_non_null(strstr(accel_last_error(), "but 1.0 MiB are there"));
  assert_true(is_loaded(pool, "b"));
  accel_pool_close(&pool);
  accel_destroy(&ctx);
  unsetenv("ACCEL_DETECT_ROOT");
}

/* Loads stand still in the callback of their beginning while `hold` is set. */
static struct {
  atomic_bool hold;
  sem_t reached, open;
} still;

static void stand_still(void *user, const char *what, uint64_t done, uint64_t all) {
  (void)user, (void)all;
  if (done || strcmp(what, "loading") || !atomic_load(&still.hold)) return;
  sem_post(&still.reached);
  sem_wait(&still.open);
}

static accel *still_context(void) {
  accel_params params = test_params();
  accel *ctx;
  params.progress = stand_still;
  sem_init(&still.reached, 0, 0);
  sem_init(&still.open, 0, 0);
  atomic_store(&still.hold, false);
  assert_ok(accel_create(&params, &ctx));
  return ctx;
}

static void test_one_load(void **state) {
  enum { N = 6 };
  accel *ctx = still_context();
  accel_pool *pool = open_pool(ctx, 0);
  asker askers[N], late = {.pool = pool, .name = "a", .timeout_ms = 20};
  (void)state;
  add_sized(pool, "a", 0);
  add_sized(pool, "b", ACCEL_POOL_PRELOAD);
  atomic_store(&still.hold, true);
  for (int i = 0; i < N; i++) {
    askers[i] = (asker){.pool = pool, .name = "a", .timeout_ms = -1};
    start(&askers[i]);
  }
  sem_wait(&still.reached);
  await_waiting(pool, N);
  touch(pool, "b"); /* another model is handed out meanwhile */
  ask(&late);
  assert_int_equal(late.status, ACCEL_ERROR_TIMEOUT);
  atomic_store(&still.hold, false);
  sem_post(&still.open);
  for (int i = 0; i < N; i++) finish(&askers[i]);
  for (int i = 0; i < N; i++) {
    assert_int_equal(askers[i].status, ACCEL_OK);
    assert_ptr_equal(accel_pool_ref_endpoint(askers[i].ref),
                     accel_pool_ref_endpoint(askers[0].ref));
  }
  assert_int_equal(stats_of(pool, "a").loads, 1);
  assert_int_equal(stats_of(pool, "a").references, N);
  assert_int_equal(stats_of(pool, "a").hits, 0);
  for (int i = 0; i < N; i++) accel_pool_release(&askers[i].ref);
  accel_pool_close(&pool);
  accel_destroy(&ctx);
}

/* ---- failures ---- */

static void copy_file(const char *from, const char *to) {
  char command[1200];
  snprintf(command, sizeof command, "cp '%s' '%s'", from, to);
  assert_int_equal(system(command), 0);
}

static void test_failure_is_told_to_all(void **state) {
  enum { N = 4 };
  accel *ctx = still_context();
  accel_pool *pool = open_pool(ctx, 0);
  asker askers[N];
  (void)state;
  temp_text("broken/x", "");
  copy_file(TINY_BERT "/config.json", temp_path("broken/config.json"));
  copy_file(PIPELINES "base/model.safetensors", temp_path("broken/model.safetensors"));
  assert_ok(accel_pool_add(pool, "broken", temp_path("broken"), NULL, 0));
  atomic_store(&still.hold, true);
  for (int i = 0; i < N; i++) {
    askers[i] = (asker){.pool = pool, .name = "broken", .timeout_ms = -1};
    start(&askers[i]);
  }
  sem_wait(&still.reached);
  await_waiting(pool, N);
  atomic_store(&still.hold, false);
  sem_post(&still.open);
  for (int i = 0; i < N; i++) finish(&askers[i]);
  for (int i = 0; i < N; i++) {
    assert_int_equal(askers[i].status, ACCEL_ERROR_FORMAT);
    assert_null(askers[i].ref);
    assert_string_equal(askers[i].message, askers[0].message);
  }
  assert_int_equal(stats_of(pool, "broken").failures, 1);
  copy_file(TINY_BERT "/model.safetensors", temp_path("broken/model.safetensors"));
  touch(pool, "broken"); /* tried anew */
  assert_int_equal(stats_of(pool, "broken").loads, 1);
  accel_pool_close(&pool);
  accel_destroy(&ctx);
}

/* Everything that allocates, once. */
static accel_status use_a_pool(accel *ctx) {
  accel_pool *pool = NULL;
  accel_pool_ref *one = NULL, *two = NULL;
  accel_init_params how = accel_init_params_default();
  char *json = NULL;
  how.device = "reference";
  accel_status status = accel_pool_open(ctx, NULL, &pool);
  if (status == ACCEL_OK) status = accel_pool_add(pool, "one", TINY_BERT, &how, 0);
  how.task = "feature-extraction";
  if (status == ACCEL_OK) status = accel_pool_add(pool, "two", TINY_BERT, &how, 0);
  if (status == ACCEL_OK) status = accel_pool_acquire(pool, "one", 1000, &one);
  if (status == ACCEL_OK) status = accel_pool_acquire(pool, "two", 1000, &two);
  if (status == ACCEL_OK) status = accel_pool_move(pool, "one", "cpu");
  if (status == ACCEL_OK) status = accel_pool_json(pool, &json);
  accel_string_free(&json);
  accel_pool_release(&one);
  accel_pool_release(&two);
  if (pool && status != ACCEL_OK) /* it is as good as before */
    assert_int_equal(stats_of(pool, NULL).references + stats_of(pool, NULL).waiting, 0);
  accel_pool_close(&pool);
  return status;
}

#ifdef __SANITIZE_THREAD__
enum { STEP = 11 }; /* some of them: what leaks is AddressSanitizer's matter */
#else
enum { STEP = 1 };
#endif

static void test_allocations_may_fail(void **state) {
  accel *ctx = test_context();
  unsigned failures = 0, went_through = 0;
  (void)state;
  assert_ok(use_a_pool(ctx)); /* what a context makes once is there */
  for (unsigned n = 1; went_through < 30 / STEP + 1; n += STEP) {
    char spec[64];
    snprintf(spec, sizeof spec, "allocation:%u", n);
    accel__fault_arm(spec);
    const accel_status status = use_a_pool(ctx);
    accel__fault_arm(NULL);
    went_through = status == ACCEL_OK ? went_through + 1 : 0;
    if (status == ACCEL_OK) continue;
    if (status != ACCEL_ERROR_OUT_OF_MEMORY)
      fail_msg("%s: %s: %s", spec, accel_status_name(status), accel_last_error());
    failures++;
  }
  assert_true(failures > 20 / STEP);
  assert_ok(use_a_pool(ctx));
  accel_destroy(&ctx);
}

/* ---- names that share an endpoint ---- */

static const char *const some_texts[] = {"the quick brown fox", "a cat", "the dog sat on the mat"};
enum { TEXTS = sizeof some_texts / sizeof *some_texts };

static accel_embeddings *vectors_of(accel_endpoint *ep) {
  accel_embed_params how = accel_embed_params_default();
  accel_embeddings *found;
  how.pooling = "mean";
  assert_ok(accel_embed_with(ep, some_texts, TEXTS, &how, &found));
  return found;
}

static void same_vectors(accel_embeddings **a, accel_embeddings **b) {
  assert_int_equal((*a)->dim, (*b)->dim);
  assert_memory_equal((*a)->data, (*b)->data, sizeof(float) * TEXTS * (*a)->dim);
  accel_embeddings_free(a);
  accel_embeddings_free(b);
}

static void add_task(accel_pool *pool, const char *name, const char *model, const char *task,
                     uint32_t capacity) {
  accel_init_params how = accel_init_params_default();
  how.task = task;
  how.queue_capacity = capacity;
  assert_ok(accel_pool_add(pool, name, model, &how, 0));
}

/* A model with a head embeds as its base class does, bit by bit, in whatever order names came. */
static void test_heads_embed(void **state) {
  static const char *const models[] = {PIPELINES "classify", PIPELINES "mask", PIPELINES "qa",
                                       PIPELINES "tokens", PIPELINES "text"};
  accel *ctx = test_context();
  accel_pool *pool = open_pool(ctx, 0);
  (void)state;
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    accel_init_params how = accel_init_params_default();
    accel_endpoint *base;
    char own[32], vectors[32];
    how.task = "feature-extraction";
    snprintf(own, sizeof own, "own%zu", i);
    snprintf(vectors, sizeof vectors, "vectors%zu", i);
    if (i % 2) add_task(pool, own, models[i], NULL, 3);
    add_task(pool, vectors, models[i], "feature-extraction", 5);
    if (!(i % 2)) add_task(pool, own, models[i], NULL, 3);
    accel_pool_ref *a = acquire(pool, own), *b = acquire(pool, vectors);
    assert_ptr_equal(accel_pool_ref_endpoint(a), accel_pool_ref_endpoint(b));
    assert_ptr_not_equal(accel_pool_ref_queue(a), accel_pool_ref_queue(b));
    assert_int_equal(accel_queue_capacity(accel_pool_ref_queue(a)), 3);
    assert_int_equal(accel_queue_capacity(accel_pool_ref_queue(b)), 5);
    assert_int_equal(stats_of(pool, vectors).loads, 1);
    assert_int_equal(stats_of(pool, vectors).hits, 1);
    assert_ok(accel_init(ctx, models[i], &how, &base));
    accel_embeddings *want = vectors_of(base), *got = vectors_of(accel_pool_ref_endpoint(b));
    same_vectors(&want, &got);
    accel_cleanup(&base);
    accel_pool_release(&a);
    accel_pool_release(&b);
  }
  accel_pool_close(&pool);
  accel_destroy(&ctx);
}

/* Of each name's queue of the endpoint. */
static void test_synchronize(void **state) {
  enum { N = 8 };
  static const char *const names[] = {"classes", "vectors"};
  accel *ctx = test_context();
  accel_pool *pool = open_pool(ctx, 0);
  accel_pool_ref *ref[2];
  accel_ticket *ticket[2 * N];
  accel_device *device;
  (void)state;
  assert_ok(accel_get_device(ctx, "cpu", &device));
  add_task(pool, "classes", PIPELINES "classify", NULL, N);
  add_task(pool, "vectors", PIPELINES "classify", "feature-extraction", N);
  for (int i = 0; i < 2; i++) {
    ref[i] = acquire(pool, names[i]);
    for (int k = 0; k < N; k++)
      assert_ok(
          accel_submit_texts(accel_pool_ref_queue(ref[i]), some_texts, TEXTS, &ticket[i * N + k]));
  }
  assert_ok(accel_synchronize(device));
  for (int i = 0; i < 2 * N; i++) {
    accel_embeddings *found;
    assert_ok(accel_wait_embeddings(&ticket[i], 0, &found));
    accel_embeddings_free(&found);
  }
  for (int i = 0; i < 2; i++) accel_pool_release(&ref[i]);
  accel_pool_close(&pool);
  accel_device_close(&device);
  accel_destroy(&ctx);
}

static void test_what_is_not_shared(void **state) {
  accel *ctx = test_context();
  accel_pool *pool = open_pool(ctx, 0);
  accel_init_params how = accel_init_params_default();
  (void)state;
  add_task(pool, "t5", PIPELINES "t5", NULL, 0); /* embeds by its encoder alone */
  add_task(pool, "t5 vectors", PIPELINES "t5", "feature-extraction", 0);
  add_task(pool, "bart vectors", PIPELINES "bart", "feature-extraction", 0);
  add_task(pool, "bart", PIPELINES "bart", NULL, 0);
  add_task(pool, "vectors", PIPELINES "classify", "feature-extraction", 0);
  touch(pool, "vectors"); /* as the base class: the name behind it comes too late */
  add_task(pool, "classes", PIPELINES "classify", NULL, 0);
  add_task(pool, "again", PIPELINES "../pipelines/classify", "text-classification", 0);
  how.max_length = 8;
  assert_ok(accel_pool_add(pool, "short", PIPELINES "classify", &how, 0));
  how = accel_init_params_default();
  how.precision = "fp32";
  assert_ok(accel_pool_add(pool, "named", PIPELINES "classify", &how, 0));
  accel_pool_ref *ref[] = {acquire(pool, "t5"),      acquire(pool, "t5 vectors"),
                           acquire(pool, "vectors"), acquire(pool, "classes"),
                           acquire(pool, "short"),   acquire(pool, "named"),
                           acquire(pool, "bart"),    acquire(pool, "bart vectors")};
  enum { N = sizeof ref / sizeof *ref };
  for (int i = 0; i < N; i++)
    for (int k = 0; k < i; k++)
      assert_ptr_not_equal(accel_pool_ref_endpoint(ref[i]), accel_pool_ref_endpoint(ref[k]));
  accel_pool_ref *again = acquire(pool, "again");
  assert_ptr_equal(accel_pool_ref_endpoint(again), accel_pool_ref_endpoint(ref[3]));
  accel_pool_release(&again);
  for (int i = 0; i < N; i++) accel_pool_release(&ref[i]);
  accel_pool_close(&pool);
  accel_destroy(&ctx);
}

/* ---- moving ---- */

static accel_ticket *submit(accel_queue *queue, uint32_t number) {
  test_input in;
  accel_ticket *ticket;
  fill_input(&in, number, 2, 9, 3);
  assert_ok(accel_submit(queue, &in.list, &ticket));
  return ticket;
}

static void take(accel_ticket **ticket) {
  accel_tensors *out;
  assert_ok(accel_wait(ticket, -1, &out));
  assert_int_equal(output(out, "last_hidden_state")->dim[1], 9);
  accel_tensors_free(&out);
}

static void test_move(void **state) {
  enum { N = 20 };
  accel *ctx = test_context();
  accel_pool *pool = open_pool(ctx, 0);
  accel_ticket *ticket[N], *last;
  (void)state;
  assert_ok(accel_pool_add(pool, "bert", TINY_BERT, NULL, 0));
  accel_pool_ref *old = acquire(pool, "bert");
  for (uint32_t i = 0; i < N; i++) ticket[i] = submit(accel_pool_ref_queue(old), i);
  assert_ok(accel_pool_move(pool, "bert", "reference"));
  accel_pool_ref *new = acquire(pool, "bert");
  assert_string_equal(accel_placement(accel_pool_ref_endpoint(old))->device, "cpu");
  assert_string_equal(accel_placement(accel_pool_ref_endpoint(new))->device, "reference");
  assert_int_equal(stats_of(pool, NULL).loaded, 2);
  assert_int_equal(stats_of(pool, "bert").moves, 1);
  last = submit(accel_pool_ref_queue(old), 1); /* the old one goes on */
  for (int i = 0; i < N; i += 2) take(&ticket[i]);
  accel_pool_release(&old); /* what still waits is run first */
  assert_int_equal(stats_of(pool, NULL).loaded, 1);
  for (int i = 1; i < N; i += 2) take(&ticket[i]);
  take(&last);
  /* where it cannot go, it stays */
  assert_int_equal(accel_pool_move(pool, "bert", "vulkan:77"), ACCEL_ERROR_DEVICE_UNAVAILABLE);
  assert_ok(accel_pool_move(pool, "bert", "reference"));
  assert_int_equal(stats_of(pool, "bert").moves, 1);
  accel_pool_release(&new);
  touch(pool, "bert");
  assert_int_equal(stats_of(pool, "bert").loads, 2);
  accel_pool_close(&pool);
  accel_destroy(&ctx);
}

/* Both must fit; what is not loaded only gets another device. */
static void test_move_within_the_limit(void **state) {
  accel *ctx = test_context();
  uint64_t bytes, planned;
  (void)state;
  measure(ctx, &bytes, &planned);
  accel_pool *pool = open_pool(ctx, planned + bytes / 2);
  add_sized(pool, "a", 0);
  add_sized(pool, "b", 0);
  touch(pool, "a");
  assert_int_equal(accel_pool_move(pool, "a", "reference"), ACCEL_ERROR_DOES_NOT_FIT);
  assert_non_null(strstr(accel_last_error(), "models that stay"));
  assert_true(is_loaded(pool, "a"));
  assert_ok(accel_pool_move(pool, "b", "reference"));
  assert_int_equal(stats_of(pool, "b").moves, 0);
  accel_pool_ref *b = acquire(pool, "b");
  assert_string_equal(accel_placement(accel_pool_ref_endpoint(b))->device, "reference");
  assert_false(is_loaded(pool, "a"));
  accel_pool_release(&b);
  accel_pool_close(&pool);
  accel_destroy(&ctx);
}

/* ---- many threads ---- */

typedef struct worker {
  accel_pool *pool;
  uint32_t seed, served, timed_out;
  pthread_t thread;
} worker;

enum { WORKERS = 4, ROUNDS = 20 };

static void *work(void *user) {
  static const char *const names[] = {"a", "b", "c", "bert"};
  worker *w = user;
  for (int i = 0; i < ROUNDS; i++) {
    accel_pool_ref *ref;
    w->seed = w->seed * 1664525u + 1013904223u;
    const accel_status status = accel_pool_acquire(w->pool, names[(w->seed >> 16) % 4],
                                                   (w->seed >> 20) % 8 ? 60000 : 1, &ref);
    if (status == ACCEL_ERROR_TIMEOUT) w->timed_out++;
    if (status != ACCEL_OK && status != ACCEL_ERROR_TIMEOUT)
      fail_msg("%s: %s", accel_status_name(status), accel_last_error());
    if (status != ACCEL_OK) continue;
    accel_ticket *ticket = submit(accel_pool_ref_queue(ref), w->seed);
    if (w->seed >> 31) take(&ticket);
    accel_pool_release(&ref); /* also in front of its ticket: requests are run first */
    if (ticket) take(&ticket);
    w->served++;
  }
  return NULL;
}

static void test_many_threads(void **state) {
  accel *ctx = test_context();
  accel_pool *pool = pool_for_two(ctx);
  worker workers[WORKERS];
  uint32_t served = 0, timed_out = 0;
  accel_device *device;
  char *json;
  (void)state;
  assert_ok(accel_get_device(ctx, "cpu", &device));
  assert_ok(accel_pool_add(pool, "bert", TINY_BERT, NULL, ACCEL_POOL_PRELOAD));
  for (uint32_t i = 0; i < WORKERS; i++) {
    workers[i] = (worker){.pool = pool, .seed = i + 1};
    assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < 10; i++) {
    assert_ok(accel_pool_move(pool, "bert", i % 2 ? "cpu" : "reference"));
    assert_ok(accel_pool_pin(pool, "a", i % 2));
    assert_ok(accel_synchronize(device)); /* while endpoints come and go */
    assert_ok(accel_empty_cache(ctx, NULL, NULL));
    assert_ok(accel_pool_json(pool, &json));
    accel_string_free(&json);
    assert_in_range(stats_of(pool, NULL).bytes, 0, stats_of(pool, NULL).memory_limit);
  }
  assert_ok(accel_pool_pin(pool, "a", 0));
  for (int i = 0; i < WORKERS; i++) {
    assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    served += workers[i].served;
    timed_out += workers[i].timed_out;
  }
  const accel_pool_stats s = stats_of(pool, NULL);
  assert_int_equal(served + timed_out, WORKERS * ROUNDS);
  assert_int_equal(s.timeouts, timed_out);
  assert_int_equal(s.references, 0);
  assert_int_equal(s.waiting, 0);
  assert_true(s.peak_bytes <= s.memory_limit);
  accel_pool_close(&pool);
  accel_device_close(&device);
  accel_destroy(&ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_arguments),
      cmocka_unit_test(test_least_recently_used),
      cmocka_unit_test(test_json),
      cmocka_unit_test(test_pins),
      cmocka_unit_test(test_never_fits),
      cmocka_unit_test(test_references_hold),
      cmocka_unit_test(test_memory_of_the_device),
      cmocka_unit_test(test_one_load),
      cmocka_unit_test(test_failure_is_told_to_all),
      cmocka_unit_test(test_allocations_may_fail),
      cmocka_unit_test(test_heads_embed),
      cmocka_unit_test(test_synchronize),
      cmocka_unit_test(test_what_is_not_shared),
      cmocka_unit_test(test_move),
      cmocka_unit_test(test_move_within_the_limit),
      cmocka_unit_test(test_many_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
