/* api_queue_test.c - requests of a queue: order by priority and deadline, cancelling in each phase,
 * texts of several requests in one run of the model. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

#include "processing/text_task.h"
#include "tasks/embed.h"
#include "tasks/text_batch.h"
#include "temp.h"
#include "test_endpoint.h"

#define PIPELINES ACCEL_FIXTURES "/pipelines/"

static accel_endpoint *open_model(accel *ctx, const char *model, const char *task) {
  accel_init_params how = accel_init_params_default();
  accel_endpoint *ep;
  how.task = task;
  how.queue_capacity = 64;
  assert_ok(accel_init(ctx, model, &how, &ep));
  return ep;
}

/* ---- a queue that stands still ---- */

/* Its thread waits in the callback of a request until it is let go. */
typedef struct gate {
  accel_ticket *ticket;
  sem_t reached, open;
} gate;

static void stand(void *user) {
  gate *g = user;
  sem_post(&g->reached);
  sem_wait(&g->open);
}

static const char *const one_text[] = {"the quick brown fox"};

static void hold(gate *g, accel_endpoint *ep, accel_request_kind kind) {
  accel_request r = accel_request_default(kind);
  sem_init(&g->reached, 0, 0);
  sem_init(&g->open, 0, 0);
  r.texts = one_text;
  r.n = 1;
  r.query = "fox";
  r.done = stand;
  r.user = g;
  assert_ok(accel_submit_request(accel_queue_of(ep), &r, &g->ticket));
  sem_wait(&g->reached);
}

static void let_go(gate *g, accel_request_kind kind) {
  accel_embeddings *vectors = NULL;
  accel_classifications *classes = NULL;
  accel_ranking *ranking = NULL;
  sem_post(&g->open);
  if (kind == ACCEL_REQUEST_EMBED)
    assert_ok(accel_wait_embeddings(&g->ticket, -1, &vectors));
  else if (kind == ACCEL_REQUEST_CLASSIFY)
    assert_ok(accel_wait_classifications(&g->ticket, -1, &classes));
  else
    assert_ok(accel_wait_ranking(&g->ticket, -1, &ranking));
  accel_embeddings_free(&vectors);
  accel_classifications_free(&classes);
  accel_ranking_free(&ranking);
  sem_destroy(&g->reached);
  sem_destroy(&g->open);
}

/* ---- order ---- */

static pthread_mutex_t order_lock = PTHREAD_MUTEX_INITIALIZER;
static int order[16], n_order;

static void note(void *user) {
  pthread_mutex_lock(&order_lock);
  order[n_order++] = (int)(intptr_t)user;
  pthread_mutex_unlock(&order_lock);
}

/* Runs alone, so that one ends after the other: priority first, then the deadline, then order. */
static void test_order(void **state) {
  static const struct {
    int32_t priority;
    uint32_t deadline_ms;
  } wish[] = {{0, 0}, {-1, 0}, {5, 0}, {0, 600000}, {0, 500000}, {5, 0}, {0, 0}};
  static const int want[] = {2, 5, 4, 3, 0, 6, 1};
  enum { N = sizeof wish / sizeof *wish };
  accel *ctx = test_context();
  accel_endpoint *ep = open_model(ctx, PIPELINES "sentence", NULL);
  accel_ticket *ticket[N];
  accel_tensors *out;
  const int32_t ids[] = {1, 2, 3}, mask[] = {1, 1, 1};
  accel_tensor item[] = {
      {.name = "input_ids", .dtype = ACCEL_I32, .rank = 2, .dim = {1, 3}, .data = (void *)ids},
      {.name = "attention_mask",
       .dtype = ACCEL_I32,
       .rank = 2,
       .dim = {1, 3},
       .data = (void *)mask}};
  accel_tensors inputs = {.n = 2, .item = item};
  gate g;
  (void)state;
  n_order = 0;
  hold(&g, ep, ACCEL_REQUEST_EMBED);
  for (int i = 0; i < N; i++) {
    accel_request r = accel_request_default(ACCEL_REQUEST_RUN);
    r.priority = wish[i].priority;
    r.deadline_ms = wish[i].deadline_ms;
    r.inputs = &inputs;
    r.done = note;
    r.user = (void *)(intptr_t)i;
    assert_ok(accel_submit_request(accel_queue_of(ep), &r, &ticket[i]));
  }
  assert_int_equal(accel_queue_waiting(accel_queue_of(ep)), N);
  let_go(&g, ACCEL_REQUEST_EMBED);
  for (int i = 0; i < N; i++) {
    assert_ok(accel_wait(&ticket[i], -1, &out));
    accel_tensors_free(&out);
  }
  accel_cleanup(&ep); /* behind the last callback */
  assert_int_equal(n_order, N);
  assert_memory_equal(order, want, sizeof want);
  accel_destroy(&ctx);
}

static void test_deadline(void **state) {
  accel *ctx = test_context();
  accel_endpoint *ep = open_model(ctx, PIPELINES "sentence", NULL);
  accel_ticket *late, *soon;
  accel_embeddings *vectors;
  gate g;
  (void)state;
  hold(&g, ep, ACCEL_REQUEST_EMBED);
  accel_request r = accel_request_default(ACCEL_REQUEST_EMBED);
  r.texts = one_text;
  r.n = 1;
  r.deadline_ms = 1;
  assert_ok(accel_submit_request(accel_queue_of(ep), &r, &late));
  r.deadline_ms = 600000;
  assert_ok(accel_submit_request(accel_queue_of(ep), &r, &soon));
  usleep(20000);
  let_go(&g, ACCEL_REQUEST_EMBED);
  assert_int_equal(accel_wait_embeddings(&late, -1, &vectors), ACCEL_ERROR_TIMEOUT);
  assert_null(late);
  assert_non_null(strstr(accel_last_error(), "had not begun after 1 ms"));
  assert_non_null(strstr(accel_last_remedy(), "priority"));
  assert_ok(accel_wait_embeddings(&soon, -1, &vectors));
  accel_embeddings_free(&vectors);
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

/* ---- cancelling ---- */

static void test_cancel_waiting(void **state) {
  accel *ctx = test_context();
  accel_endpoint *ep = open_model(ctx, PIPELINES "sentence", NULL);
  accel_ticket *ticket[3];
  accel_embeddings *vectors;
  gate g;
  (void)state;
  n_order = 0;
  hold(&g, ep, ACCEL_REQUEST_EMBED);
  for (int i = 0; i < 3; i++) {
    accel_request r = accel_request_default(ACCEL_REQUEST_EMBED);
    r.texts = one_text;
    r.n = 1;
    r.done = note;
    r.user = (void *)(intptr_t)i;
    assert_ok(accel_submit_request(accel_queue_of(ep), &r, &ticket[i]));
  }
  accel_ticket_cancel(ticket[1]); /* at once, while the queue stands */
  assert_int_equal(n_order, 1);
  assert_int_equal(order[0], 1);
  assert_int_equal(accel_queue_waiting(accel_queue_of(ep)), 2);
  assert_int_equal(accel_wait_embeddings(&ticket[1], 0, &vectors), ACCEL_ERROR_CANCELLED);
  let_go(&g, ACCEL_REQUEST_EMBED);
  for (int i = 0; i < 3; i += 2) {
    assert_ok(accel_wait_embeddings(&ticket[i], -1, &vectors));
    accel_embeddings_free(&vectors);
  }
  accel_ticket_cancel(NULL);
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

/* A generation whose first token is told, and which then waits to be let go. */
typedef struct pause_point {
  sem_t begun, go_on;
  int tokens;
} pause_point;

static int stop_at_first(void *user, const accel_token_event *event) {
  pause_point *p = user;
  (void)event;
  if (p->tokens++) return 0;
  sem_post(&p->begun);
  sem_wait(&p->go_on);
  return 0;
}

static const int32_t prompt[] = {3, 9, 27, 11, 33};

static accel_ticket *submit_prompt(accel_endpoint *ep, const accel_generate_params *how,
                                   const int32_t *ids, uint32_t n) {
  accel_request r = accel_request_default(ACCEL_REQUEST_GENERATE);
  accel_ticket *ticket;
  r.ids = ids;
  r.n = n;
  r.generate = how;
  assert_ok(accel_submit_request(accel_queue_of(ep), &r, &ticket));
  return ticket;
}

/* One of two that go on together is cancelled behind its first token: it leaves, the other gives
 * what it gives alone. */
static void test_cancel_generation(void **state) {
  accel *ctx = test_context();
  accel_endpoint *ep = open_model(ctx, ACCEL_FIXTURES "/models/llama", NULL);
  const int32_t *row = prompt;
  const uint32_t n = 5;
  accel_generate_params gone = accel_generate_params_default(), stays = gone;
  accel_generations *joint, *solo;
  pause_point p = {.tokens = 0};
  (void)state;
  sem_init(&p.begun, 0, 0);
  sem_init(&p.go_on, 0, 0);
  gone.max_new_tokens = stays.max_new_tokens = 12;
  gone.ignore_eos = stays.ignore_eos = 1;
  gone.on_token = stop_at_first;
  gone.on_token_user = &p;
  accel_ticket *first = submit_prompt(ep, &gone, prompt, n);
  sem_wait(&p.begun);
  accel_ticket *second = submit_prompt(ep, &stays, prompt, n);
  accel_ticket_cancel(first);
  sem_post(&p.go_on);
  assert_int_equal(accel_wait_generations(&first, -1, &joint), ACCEL_ERROR_CANCELLED);
  assert_non_null(strstr(accel_last_error(), "cancelled"));
  assert_int_equal(p.tokens, 1);
  assert_ok(accel_wait_generations(&second, -1, &joint));
  assert_ok(accel_generate_ids(ep, &row, &n, 1, &stays, &solo));
  assert_int_equal(joint->item[0].n, 12);
  assert_memory_equal(joint->item[0].ids, solo->item[0].ids, 12 * sizeof(int32_t));
  accel_generations_free(&joint);
  accel_generations_free(&solo);
  sem_destroy(&p.begun);
  sem_destroy(&p.go_on);
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

/* A long prompt is given up while it is read: of a decoder, and of an encoder, alone in their
 * runs. */
static void test_cancel_prompt(void **state) {
  enum { TOKENS = 4000 };
  accel *ctx = test_context();
  accel_init_params how = accel_init_params_default();
  accel_generate_params params = accel_generate_params_default();
  accel_generations *result;
  accel_endpoint *ep;
  char directory[512];
  (void)state;
  temp_text("long/config.json",
            "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", "
            "\"vocab_size\": 40, \"hidden_size\": 64, \"intermediate_size\": 64, "
            "\"num_hidden_layers\": 6, \"num_attention_heads\": 4, \"num_key_value_heads\": 4, "
            "\"max_position_embeddings\": 8192, \"bos_token_id\": 1, \"eos_token_id\": 2}");
  snprintf(directory, sizeof directory, "%s/long", temp_directory());
  how.device = "reference"; /* seconds for these tokens */
  how.random_weights = 1;
  assert_ok(accel_init(ctx, directory, &how, &ep));
  int32_t *ids = malloc(TOKENS * sizeof *ids);
  assert_non_null(ids);
  for (int i = 0; i < TOKENS; i++) ids[i] = 3 + i % 37;
  accel_ticket *ticket = submit_prompt(ep, &params, ids, TOKENS);
  assert_int_equal(accel_wait_generations(&ticket, 30, &result), ACCEL_ERROR_TIMEOUT);
  accel_ticket_cancel(ticket);
  assert_int_equal(accel_wait_generations(&ticket, -1, &result), ACCEL_ERROR_CANCELLED);
  /* what was left does no harm to what follows */
  params.max_new_tokens = 2;
  params.ignore_eos = 1;
  ticket = submit_prompt(ep, &params, ids, 5);
  assert_ok(accel_wait_generations(&ticket, -1, &result));
  assert_int_equal(result->item[0].n, 2);
  accel_generations_free(&result);
  free(ids);
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

/* ---- together ---- */

static const char *const words[] = {"the", "quick", "brown", "fox", "jumps", "over",
                                    "a",   "lazy",  "dog",   "and", "cat",   "again"};

/* n texts of a seed, of 1 to 15 words. */
static void make_texts(uint32_t seed, uint32_t n, char (*text)[128], const char **list) {
  for (uint32_t i = 0; i < n; i++) {
    size_t at = 0;
    seed = seed * 1664525u + 1013904223u;
    const uint32_t count = 1 + (seed >> 20) % 15;
    for (uint32_t w = 0; w < count; w++) {
      seed = seed * 1664525u + 1013904223u;
      at +=
          (size_t)snprintf(text[i] + at, 128 - at, "%s%s", w ? " " : "", words[(seed >> 16) % 12]);
    }
    list[i] = text[i];
  }
}

enum { TOGETHER = 9, MOST = 40 };
/* of the requests that wait together; one asks for nothing */
static const uint32_t counts[TOGETHER] = {1, 3, 40, 0, 1, 7, 2, 25, 1};

static void check_vectors(accel_endpoint *ep, accel_ticket **ticket, const char **list,
                          uint32_t n) {
  accel_embeddings *joint, *solo;
  assert_ok(accel_wait_embeddings(ticket, -1, &joint));
  assert_ok(accel_embed(ep, list, n, &solo));
  assert_int_equal(joint->n, n);
  assert_int_equal(joint->tokens, solo->tokens);
  assert_int_equal(joint->row_start[n], solo->row_start[n]);
  assert_memory_equal(joint->data, solo->data, solo->row_start[n] * solo->dim * sizeof(float));
  accel_embeddings_free(&joint);
  accel_embeddings_free(&solo);
}

static void check_classes(accel_endpoint *ep, accel_ticket **ticket, const char **list,
                          uint32_t n) {
  accel_classifications *joint, *solo;
  assert_ok(accel_wait_classifications(ticket, -1, &joint));
  assert_ok(accel_classify(ep, list, NULL, n, NULL, &solo));
  assert_int_equal(joint->n, n);
  for (uint32_t i = 0; i < n; i++) {
    assert_int_equal(joint->count[i], solo->count[i]);
    for (uint32_t k = 0; k < solo->count[i]; k++) {
      assert_string_equal(joint->score[i][k].label, solo->score[i][k].label);
      assert_true(joint->score[i][k].score == solo->score[i][k].score);
    }
  }
  accel_classifications_free(&joint);
  accel_classifications_free(&solo);
}

static void check_ranking(accel_endpoint *ep, accel_ticket **ticket, const char **list,
                          uint32_t n) {
  accel_ranking *joint, *solo;
  assert_ok(accel_wait_ranking(ticket, -1, &joint));
  assert_ok(accel_rerank(ep, words[3], list, n, NULL, &solo));
  assert_int_equal(joint->n, n);
  for (uint32_t i = 0; i < n; i++) {
    assert_int_equal(joint->item[i].document, solo->item[i].document);
    assert_true(joint->item[i].score == solo->item[i].score);
  }
  accel_ranking_free(&joint);
  accel_ranking_free(&solo);
}

/* Requests of many sizes that wait at once: each gets what it gets alone, bit by bit. */
static void check_together(const char *model, accel_request_kind kind) {
  static char text[TOGETHER][MOST][128];
  static const char *list[TOGETHER][MOST];
  accel *ctx = test_context();
  accel_endpoint *ep = open_model(ctx, model, NULL);
  accel_ticket *ticket[TOGETHER];
  gate g;
  hold(&g, ep, kind);
  for (uint32_t i = 0; i < TOGETHER; i++) {
    accel_request r = accel_request_default(kind);
    make_texts(i + 1, counts[i], text[i], list[i]);
    r.texts = list[i];
    r.n = counts[i];
    r.query = words[3];
    assert_ok(accel_submit_request(accel_queue_of(ep), &r, &ticket[i]));
  }
  let_go(&g, kind);
  for (uint32_t i = 0; i < TOGETHER; i++) {
    if (kind == ACCEL_REQUEST_EMBED)
      check_vectors(ep, &ticket[i], list[i], counts[i]);
    else if (kind == ACCEL_REQUEST_CLASSIFY)
      check_classes(ep, &ticket[i], list[i], counts[i]);
    else
      check_ranking(ep, &ticket[i], list[i], counts[i]);
  }
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

static void test_together(void **state) {
  (void)state;
  check_together(PIPELINES "sentence", ACCEL_REQUEST_EMBED);
  check_together(PIPELINES "classify", ACCEL_REQUEST_CLASSIFY);
  check_together(PIPELINES "score", ACCEL_REQUEST_RERANK);
}

/* ---- one at fault ---- */

static accel_status refuse(void *user, const accel__piece_result *r) {
  (void)user;
  (void)r;
  return accel__fail(ACCEL_ERROR_NONFINITE, "this one is at fault");
}

/* What cannot take its rows fails alone; the message is its own. */
static void test_failure_alone(void **state) {
  accel *ctx = test_context();
  accel_endpoint *ep = open_model(ctx, PIPELINES "sentence", NULL);
  const accel_embed_params how = accel_embed_params_default();
  const accel__submit_options options = {0};
  accel_ticket *ticket[3];
  void *result;
  gate g;
  (void)state;
  hold(&g, ep, ACCEL_REQUEST_EMBED);
  for (int i = 0; i < 3; i++) {
    accel__text_task *task;
    assert_ok(accel__embed_prepare(ep, one_text, 1, &how, &task));
    if (i == 1) task->run.take = refuse;
    assert_ok(accel__submit_text_task(accel_queue_of(ep), task, &options, &ticket[i]));
  }
  let_go(&g, ACCEL_REQUEST_EMBED);
  assert_int_equal(accel__wait_text_task(&ticket[1], -1, &result), ACCEL_ERROR_NONFINITE);
  assert_string_equal(accel_last_error(), "this one is at fault");
  for (int i = 0; i < 3; i += 2) {
    assert_ok(accel__wait_text_task(&ticket[i], -1, &result));
    accel_embeddings *vectors = result;
    accel_embeddings_free(&vectors);
  }
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

/* ---- refusals ---- */

static void test_refusals(void **state) {
  accel *ctx = test_context();
  accel_endpoint *ep = open_model(ctx, PIPELINES "sentence", NULL);
  accel_queue *queue = accel_queue_of(ep);
  accel_classifications *classes;
  accel_embeddings *vectors;
  accel_ranking *ranking;
  accel_ticket *ticket;
  (void)state;
  accel_request r = accel_request_default((accel_request_kind)77);
  assert_int_equal(accel_submit_request(queue, &r, &ticket), ACCEL_ERROR_ARGUMENT);
  assert_non_null(strstr(accel_last_error(), "kind 77"));
  r = accel_request_default(ACCEL_REQUEST_RUN);
  assert_int_equal(accel_submit_request(queue, &r, &ticket), ACCEL_ERROR_ARGUMENT);
  r = accel_request_default(ACCEL_REQUEST_EMBED);
  r.n = 1;
  assert_int_equal(accel_submit_request(queue, &r, &ticket), ACCEL_ERROR_ARGUMENT);
  r.texts = one_text;
  accel_embed_params wrong = accel_embed_params_default();
  wrong.pooling = "median";
  r.embed = &wrong;
  assert_int_equal(accel_submit_request(queue, &r, &ticket), ACCEL_ERROR_ARGUMENT);
  assert_non_null(strstr(accel_last_error(), "median"));
  r.embed = NULL;
  r.kind = ACCEL_REQUEST_RERANK;
  assert_int_equal(accel_submit_request(queue, &r, &ticket), ACCEL_ERROR_ARGUMENT);
  r.kind = ACCEL_REQUEST_CLASSIFY; /* it has no such head */
  assert_int_equal(accel_submit_request(queue, &r, &ticket), ACCEL_ERROR_UNSUPPORTED);
  assert_null(ticket);
  r.kind = ACCEL_REQUEST_EMBED;
  assert_ok(accel_submit_request(queue, &r, &ticket));
  assert_int_equal(accel_wait_classifications(&ticket, -1, &classes), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel_wait_ranking(&ticket, -1, &ranking), ACCEL_ERROR_ARGUMENT);
  assert_non_null(strstr(accel_last_error(), "accel_wait_embeddings"));
  assert_ok(accel_wait_embeddings(&ticket, -1, &vectors));
  accel_embeddings_free(&vectors);
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_order),          cmocka_unit_test(test_deadline),
      cmocka_unit_test(test_cancel_waiting), cmocka_unit_test(test_cancel_generation),
      cmocka_unit_test(test_cancel_prompt),  cmocka_unit_test(test_together),
      cmocka_unit_test(test_failure_alone),  cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
