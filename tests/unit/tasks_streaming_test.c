/* tasks_streaming_test.c - several threads on one streaming endpoint: runs take turns, each gets
 * the bytes that the endpoint in memory gives; also while it is trimmed and asked for its
 * counters. */
#include <pthread.h>
#include <stdlib.h>

#include "test_endpoint.h"

enum { THREADS = 4, RUNS = 6 };

typedef struct work {
  accel_endpoint *ep;
  test_input *in;
  const accel_tensors *want;
  bool same;
} work;

static bool same_bytes(const accel_tensors *a, const accel_tensors *b) {
  for (uint32_t i = 0; i < a->n; i++) {
    size_t n = 4;
    for (uint32_t r = 0; r < a->item[i].rank; r++) n *= (size_t)a->item[i].dim[r];
    if (memcmp(a->item[i].data, b->item[i].data, n)) return false;
  }
  return a->n == b->n;
}

static void *run_all(void *arg) {
  work *w = arg;
  accel_stream_stats now = {.size = sizeof now};
  w->same = true;
  for (int i = 0; i < RUNS; i++) {
    accel_tensors *out = NULL;
    w->same &= accel_run(w->ep, &w->in->list, &out) == ACCEL_OK && same_bytes(w->want, out);
    w->same &= accel_streaming(w->ep, &now) == ACCEL_OK && now.streaming && now.bytes > 0;
    w->same &= i % 3 || accel_trim(w->ep) == ACCEL_OK;
    uint64_t bytes = 0;
    double seconds = 0;
    w->same &= i < 2 || (accel_stream_read(w->ep, &bytes, &seconds) == ACCEL_OK && bytes > 0);
    accel_tensors_free(&out);
  }
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  accel *ctx = test_context();
  accel_endpoint *whole = test_endpoint(ctx, "cpu");
  setenv("ACCEL_STREAM_WEIGHTS", "4K", 1);
  accel_endpoint *streamed = test_endpoint(ctx, "cpu");
  unsetenv("ACCEL_STREAM_WEIGHTS");
  accel_stream_stats before = {.size = sizeof before};
  assert_ok(accel_streaming(whole, &before));
  assert_int_equal(before.streaming, 0);
  static test_input in[THREADS];
  accel_tensors *want[THREADS];
  work w[THREADS];
  pthread_t thread[THREADS];
  for (uint32_t i = 0; i < THREADS; i++) {
    fill_input(&in[i], i + 1, 1 + (int64_t)i, 5 + 3 * (int64_t)i, 1);
    assert_ok(accel_run(whole, &in[i].list, &want[i]));
    w[i] = (work){streamed, &in[i], want[i], false};
  }
  for (uint32_t i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, run_all, &w[i]), 0);
  for (uint32_t i = 0; i < THREADS; i++) {
    pthread_join(thread[i], NULL);
    assert_true(w[i].same);
    accel_tensors_free(&want[i]);
  }
  accel_cleanup(&streamed);
  accel_cleanup(&whole);
  accel_destroy(&ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
