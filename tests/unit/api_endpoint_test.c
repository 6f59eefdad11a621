/* api_endpoint_test.c - endpoints as applications use them: batches, threads, contexts,
 * cancellation, the queue, bad input, life cycles. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "test_endpoint.h"

static const char *const devices[] = {"reference", "cpu"};

/* ---- numbers ---- */

/* A row's result does not depend on its company or on padding. */
static void a_batch_equals_its_singles(void **state) {
  (void)state;
  accel *ctx = test_context();
  for (int d = 0; d < 2; d++) {
    accel_endpoint *ep = test_endpoint(ctx, devices[d]);
    test_input in, one;
    accel_tensors *all, *single;
    fill_input(&in, 7, 3, 11, 4); /* lengths 11, 7, 3 */
    assert_ok(accel_run(ep, &in.list, &all));
    const float *batch = output(all, "last_hidden_state")->data;
    for (int64_t r = 0; r < 3; r++) {
      int64_t length = 11 - 4 * r;
      fill_input(&one, 0, 1, length, 0);
      memcpy(one.ids, in.ids + r * 11, (size_t)length * sizeof *one.ids);
      assert_ok(accel_run(ep, &one.list, &single));
      const float *alone = output(single, "last_hidden_state")->data;
      for (int64_t i = 0; i < length * TINY_HIDDEN; i++)
        assert_true(fabsf(alone[i] - batch[r * 11 * TINY_HIDDEN + i]) <= 1e-6f);
      for (int64_t i = length * TINY_HIDDEN; i < 11 * TINY_HIDDEN; i++)
        assert_true(batch[r * 11 * TINY_HIDDEN + i] == 0);
      accel_tensors_free(&single);
    }
    accel_tensors_free(&all);
    accel_cleanup(&ep);
  }
  accel_destroy(&ctx);
}

static void placement_tells_where_it_ran(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_endpoint *ep = test_endpoint(ctx, "reference");
  const accel_placement_report *p = accel_placement(ep);
  assert_string_equal(p->device, "reference");
  assert_string_equal(p->precision, "fp32");
  assert_string_equal(p->implementation_type, "REFERENCE");
  assert_string_equal(p->weights, "local");
  assert_int_equal(p->is_amd, 0);
  assert_int_equal(accel_queue_capacity(accel_queue_of(ep)), 32);
  assert_ptr_equal(accel_handler_of(ep), accel_run);
  accel_cleanup(&ep);
  assert_null(ep);
  accel_destroy(&ctx);
}

/* A device that is not there is an error that names it, never another device. */
static void a_named_device_is_a_demand(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_init_params how = accel_init_params_default();
  accel_endpoint *ep;
  how.device = "webnn";
  assert_int_equal(accel_init(ctx, TINY_BERT, &how, &ep), ACCEL_ERROR_DEVICE_UNAVAILABLE);
  assert_null(ep);
  assert_non_null(strstr(accel_last_error(), "webnn"));
  how.device = "no-such-device";
  assert_int_equal(accel_init(ctx, TINY_BERT, &how, &ep), ACCEL_ERROR_ARGUMENT);
  how.device = "webnn,reference"; /* a chain opts into the fallback, and the report says so */
  assert_ok(accel_init(ctx, TINY_BERT, &how, &ep));
  assert_string_equal(accel_placement(ep)->device, "reference");
  assert_true(accel_placement(ep)->reasons->n >= 1);
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

/* ---- threads ---- */

typedef struct worker_arg {
  accel_endpoint *ep;
  uint32_t seed;
  float want[2 * 9 * TINY_HIDDEN];
  bool same;
} worker_arg;

static void *run_many(void *arg) {
  worker_arg *w = arg;
  test_input in;
  w->same = true;
  for (int i = 0; i < 10; i++) {
    accel_tensors *out;
    fill_input(&in, w->seed, 2, 9, 3);
    if (accel_run(w->ep, &in.list, &out) != ACCEL_OK) return w->same = false, NULL;
    w->same &= !memcmp(output(out, "last_hidden_state")->data, w->want, sizeof w->want);
    accel_tensors_free(&out);
  }
  return NULL;
}

static void prepare(worker_arg *w, accel_endpoint *ep, uint32_t seed) {
  test_input in;
  accel_tensors *out;
  w->ep = ep;
  w->seed = seed;
  fill_input(&in, seed, 2, 9, 3);
  assert_ok(accel_run(ep, &in.list, &out));
  memcpy(w->want, output(out, "last_hidden_state")->data, sizeof w->want);
  accel_tensors_free(&out);
}

static void eight_threads_share_an_endpoint(void **state) {
  (void)state;
  accel *ctx = test_context();
  for (int d = 0; d < 2; d++) {
    accel_endpoint *ep = test_endpoint(ctx, devices[d]);
    static worker_arg w[8];
    pthread_t thread[8];
    for (uint32_t i = 0; i < 8; i++) prepare(&w[i], ep, 100 + i);
    for (int i = 0; i < 8; i++)
      assert_int_equal(pthread_create(&thread[i], NULL, run_many, &w[i]), 0);
    for (int i = 0; i < 8; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 8; i++) assert_true(w[i].same);
    accel_cleanup(&ep);
  }
  accel_destroy(&ctx);
}

/* Whatever the mode and the number of threads: the same bits, from eight callers at once too. */
static void modes_and_threads_give_the_same_numbers(void **state) {
  (void)state;
  accel *first = test_context();
  accel_endpoint *alone = test_endpoint(first, devices[1]);
  static worker_arg w[8];
  for (uint32_t i = 0; i < 8; i++) prepare(&w[i], alone, 300 + i);
  for (uint32_t k = 0; k < 6; k++) {
    accel_params params = test_params();
    accel *ctx;
    pthread_t thread[8];
    params.threads = 1 + k / 2;
    params.mode = k % 2 ? ACCEL_MODE_THROUGHPUT : ACCEL_MODE_LATENCY;
    assert_ok(accel_create(&params, &ctx));
    accel_endpoint *ep = test_endpoint(ctx, devices[1]);
    for (int i = 0; i < 8; i++) {
      w[i].ep = ep;
      assert_int_equal(pthread_create(&thread[i], NULL, run_many, &w[i]), 0);
    }
    for (int i = 0; i < 8; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 8; i++) assert_true(w[i].same);
    accel_destroy(&ctx);
  }
  accel_params params = test_params();
  accel *ctx;
  params.mode = (accel_mode)2;
  assert_int_equal(accel_create(&params, &ctx), ACCEL_ERROR_ARGUMENT);
  assert_non_null(strstr(accel_last_error(), "params.mode is 2"));
  assert_null(ctx);
  accel_destroy(&first);
}

static void two_contexts_do_not_meet(void **state) {
  (void)state;
  accel *ctx[2] = {test_context(), test_context()};
  static worker_arg w[2];
  pthread_t thread[2];
  for (uint32_t i = 0; i < 2; i++) prepare(&w[i], test_endpoint(ctx[i], devices[1]), 5 + i);
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, run_many, &w[i]), 0);
  for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < 2; i++) assert_true(w[i].same);
  accel_registry_entry const *entry;
  assert_ok(accel_registry_add(
      ctx[0],
      "{\"id\":\"tests/only-here\",\"family\":\"bert\",\"embedding_dim\":8,\"sequence_length\":16,"
      "\"description\":\"a test\"}"));
  assert_ok(accel_registry_lookup(ctx[0], "tests/only-here", &entry));
  assert_int_equal(accel_registry_lookup(ctx[1], "tests/only-here", &entry),
                   ACCEL_ERROR_UNKNOWN_MODEL);
  accel_destroy(&ctx[0]); /* its endpoints go with it */
  accel_destroy(&ctx[1]);
}

static int stop_at_once(void *user) { return ++*(int *)user > 3; }

static void cancelling_stops_a_run_and_leaves_the_endpoint_whole(void **state) {
  (void)state;
  accel_params params = test_params();
  int calls = -1000000;
  accel *ctx;
  params.cancel = stop_at_once;
  params.cancel_user = &calls;
  assert_ok(accel_create(&params, &ctx));
  for (int d = 0; d < 2; d++) {
    calls = -1000000;
    accel_endpoint *ep = test_endpoint(ctx, devices[d]);
    test_input in;
    accel_tensors *out;
    fill_input(&in, 3, 2, 9, 3);
    calls = 0;
    assert_int_equal(accel_run(ep, &in.list, &out), ACCEL_ERROR_CANCELLED);
    assert_null(out);
    calls = -1000000;
    assert_ok(accel_run(ep, &in.list, &out));
    accel_tensors_free(&out);
    accel_cleanup(&ep);
  }
  accel_destroy(&ctx);
}

/* ---- the queue ---- */

static void the_queue_runs_in_order_and_says_when_it_is_full(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_init_params how = accel_init_params_default();
  accel_endpoint *ep;
  how.device = "reference";
  how.queue_capacity = 2;
  assert_ok(accel_init(ctx, TINY_BERT, &how, &ep));
  test_input in;
  accel_tensors *direct, *out;
  accel_ticket *ticket[64];
  uint32_t n = 0, full = 0;
  fill_input(&in, 9, 2, 9, 3);
  assert_ok(accel_run(ep, &in.list, &direct));
  while (n < 64 && !full) {
    accel_status status = accel_submit(accel_queue_of(ep), &in.list, &ticket[n]);
    if (status == ACCEL_OK)
      n++;
    else if (status == ACCEL_ERROR_QUEUE_FULL)
      full++;
    else
      fail_msg("%s", accel_last_error());
  }
  assert_int_equal(full, 1);
  for (uint32_t i = 0; i < n; i++) {
    assert_ok(accel_wait(&ticket[i], -1, &out));
    assert_null(ticket[i]);
    assert_memory_equal(output(out, "last_hidden_state")->data,
                        output(direct, "last_hidden_state")->data,
                        2 * 9 * TINY_HIDDEN * sizeof(float));
    accel_tensors_free(&out);
  }
  assert_ok(accel_submit(accel_queue_of(ep), &in.list, &ticket[0]));
  accel_status status = accel_wait(&ticket[0], 0, &out); /* may be done already, may not */
  if (status == ACCEL_ERROR_TIMEOUT) status = accel_wait(&ticket[0], 60000, &out);
  assert_ok(status);
  accel_tensors_free(&out);
  accel_tensors_free(&direct);
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

/* ---- bad input ---- */

static void expect_refusal(accel_endpoint *ep, const accel_tensors *list, accel_status code,
                           const char *word) {
  accel_tensors *out;
  assert_int_equal(accel_run(ep, list, &out), code);
  assert_null(out);
  if (!strstr(accel_last_error(), word))
    fail_msg("'%s' does not name '%s'", accel_last_error(), word);
}

static void bad_inputs_are_named(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_endpoint *ep = test_endpoint(ctx, "reference");
  test_input in;
  fill_input(&in, 1, 2, 6, 2);
  in.ids[1] = TINY_VOCAB;
  expect_refusal(ep, &in.list, ACCEL_ERROR_ARGUMENT, "input_ids");
  in.ids[1] = -1;
  expect_refusal(ep, &in.list, ACCEL_ERROR_ARGUMENT, "input_ids");
  in.ids[1] = INT64_MAX;
  expect_refusal(ep, &in.list, ACCEL_ERROR_ARGUMENT, "input_ids");
  fill_input(&in, 1, 2, 6, 2);
  in.mask[1] = 0; /* a hole */
  expect_refusal(ep, &in.list, ACCEL_ERROR_ARGUMENT, "attention_mask");
  memset(in.mask, 0, sizeof in.mask);
  expect_refusal(ep, &in.list, ACCEL_ERROR_ARGUMENT, "attention_mask");
  fill_input(&in, 1, 2, 6, 2);
  in.mask[0] = 2;
  expect_refusal(ep, &in.list, ACCEL_ERROR_ARGUMENT, "attention_mask");
  fill_input(&in, 1, 2, 6, 2);
  in.item[1].dim[1] = 5;
  expect_refusal(ep, &in.list, ACCEL_ERROR_ARGUMENT, "attention_mask");
  fill_input(&in, 1, 2, 6, 2);
  in.item[0].dim[0] = -2;
  expect_refusal(ep, &in.list, ACCEL_ERROR_ARGUMENT, "input_ids");
  fill_input(&in, 1, 2, 6, 2);
  in.item[0].dtype = ACCEL_F32;
  expect_refusal(ep, &in.list, ACCEL_ERROR_ARGUMENT, "input_ids");
  fill_input(&in, 1, 2, 6, 2);
  in.item[1].name = "pixel_values";
  expect_refusal(ep, &in.list, ACCEL_ERROR_ARGUMENT, "pixel_values");
  fill_input(&in, 1, 1, 24, 0);
  in.item[0].dim[0] = 0;
  expect_refusal(ep, &in.list, ACCEL_ERROR_ARGUMENT, "input_ids");
  in.list.n = 0;
  expect_refusal(ep, &in.list, ACCEL_ERROR_ARGUMENT, "input_ids");
  expect_refusal(ep, NULL, ACCEL_ERROR_ARGUMENT, "inputs");
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

static void outputs_are_chosen_by_name(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_endpoint *ep = test_endpoint(ctx, "reference");
  const char *chosen[] = {"pooler_output", "hidden_states.1"},
             *twice[] = {"pooler_output", "pooler_output"}, *unknown[] = {"logits"};
  test_input in;
  accel_tensors *out;
  fill_input(&in, 1, 2, 6, 2);
  assert_ok(accel_run_named(ep, &in.list, chosen, 2, &out));
  assert_int_equal(out->n, 2);
  assert_string_equal(out->item[0].name, "pooler_output");
  assert_string_equal(out->item[1].name, "hidden_states.1");
  accel_tensors_free(&out);
  assert_int_equal(accel_run_named(ep, &in.list, twice, 2, &out), ACCEL_ERROR_ARGUMENT);
  assert_non_null(strstr(accel_last_error(), "pooler_output"));
  assert_int_equal(accel_run_named(ep, &in.list, unknown, 1, &out), ACCEL_ERROR_ARGUMENT);
  assert_null(out);
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

/* Longer than the position table: position 24 of 24. */
static void too_long_a_sequence_is_named(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_endpoint *ep = test_endpoint(ctx, "reference");
  test_input in;
  fill_input(&in, 1, 1, 25, 0);
  expect_refusal(ep, &in.list, ACCEL_ERROR_ARGUMENT, "position_ids");
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

static void null_arguments_are_refused(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_endpoint *ep = NULL;
  accel_embeddings *found = NULL;
  assert_int_equal(accel_create(NULL, NULL), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel_init(NULL, "x", NULL, &ep), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel_init(ctx, NULL, NULL, &ep), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel_embed(NULL, NULL, 0, &found), ACCEL_ERROR_ARGUMENT);
  accel_init_params how = {0}; /* size not set */
  assert_int_equal(accel_init(ctx, TINY_BERT, &how, &ep), ACCEL_ERROR_ARGUMENT);
  accel_cleanup(NULL);
  accel_cleanup(&ep);
  accel_embeddings_free(&found);
  accel_destroy(NULL);
  assert_null(accel_placement(NULL));
  accel_destroy(&ctx);
  assert_null(ctx);
  accel_destroy(&ctx);
}

static void a_missing_model_names_the_download_line(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_endpoint *ep;
  assert_int_equal(accel_init(ctx, "nobody/no-such-model", NULL, &ep), ACCEL_ERROR_NOT_FOUND);
  assert_non_null(strstr(accel_last_remedy(), "hf download nobody/no-such-model"));
  assert_int_equal(accel_init(ctx, "/no/such/directory", NULL, &ep), ACCEL_ERROR_NOT_FOUND);
  accel_destroy(&ctx);
}

/* ---- life cycles ---- */

static long resident_kib(void) {
  long pages = 0, ignored;
  FILE *f = fopen("/proc/self/statm", "r");
  if (f && fscanf(f, "%ld %ld", &ignored, &pages) != 2) pages = 0;
  if (f) fclose(f);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void a_hundred_rounds_return_to_the_baseline(void **state) {
  (void)state;
  accel *ctx = test_context();
  long before = 0;
  for (int i = 0; i < 110; i++) {
    accel_endpoint *ep = test_endpoint(ctx, devices[1]);
    test_input in;
    accel_tensors *out;
    fill_input(&in, 3, 2, 9, 3);
    assert_ok(accel_run(ep, &in.list, &out));
    accel_tensors_free(&out);
    accel_cleanup(&ep);
    if (i == 9) before = resident_kib();
  }
  long grown = resident_kib() - before;
#if ACCEL_SANITIZER
  (void)grown; /* the sanitizers keep freed memory; they look for leaks themselves */
#else
  if (grown > 512) fail_msg("100 rounds kept %ld KiB", grown);
#endif
  accel_destroy(&ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_batch_equals_its_singles),
      cmocka_unit_test(placement_tells_where_it_ran),
      cmocka_unit_test(a_named_device_is_a_demand),
      cmocka_unit_test(eight_threads_share_an_endpoint),
      cmocka_unit_test(modes_and_threads_give_the_same_numbers),
      cmocka_unit_test(two_contexts_do_not_meet),
      cmocka_unit_test(cancelling_stops_a_run_and_leaves_the_endpoint_whole),
      cmocka_unit_test(the_queue_runs_in_order_and_says_when_it_is_full),
      cmocka_unit_test(bad_inputs_are_named),
      cmocka_unit_test(outputs_are_chosen_by_name),
      cmocka_unit_test(too_long_a_sequence_is_named),
      cmocka_unit_test(null_arguments_are_refused),
      cmocka_unit_test(a_missing_model_names_the_download_line),
      cmocka_unit_test(a_hundred_rounds_return_to_the_baseline),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
