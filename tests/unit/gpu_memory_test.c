/* gpu_memory_test.c - the pool of the GPU plugins over an API that is plain host memory: parts
 * never overlap, holes are used again, chunks go back, refusals carry numbers, and each allocation
 * refused in turn leaves the pool as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/gpu_layer.h"

struct gpu_buffer {
  uint64_t bytes;
  uint8_t *data;
};

static int live, refuse_after = -1; /* buffers held; allocations until one is refused, -1 never */
static accel_plugin_error error;

static int32_t fake_alloc(gpu_device *device, uint64_t bytes, bool host, gpu_buffer **out,
                          void **mapped, accel_plugin_error *e) {
  (void)device, (void)host, (void)mapped;
  if (refuse_after >= 0 && refuse_after-- == 0)
    return kit_fail(e, ACCEL_PLUGIN_E_DEVICE_MEMORY, -1, "refused");
  *out = malloc(sizeof **out);
  (*out)->bytes = bytes;
  (*out)->data = calloc(1, bytes);
  live++;
  return ACCEL_PLUGIN_OK;
}

static void fake_release(gpu_device *device, gpu_buffer *buffer) {
  (void)device;
  free(buffer->data);
  free(buffer);
  live--;
}

const gpu_api gpu_plugin_api = {.alloc = fake_alloc, .release = fake_release};
static const gpu_limits limits = {.buffer = 64u << 20, .binding = 64u << 20, .align = 256};

static void parts_do_not_overlap(void **state) {
  enum { N = 200, STEPS = 4000 };
  gpu_memory *part[N] = {0};
  gpu_pool pool;
  uint32_t random = 1;
  (void)state;
  gpu_pool_open(&pool, NULL, &limits);
  for (int i = 0; i < STEPS; i++) {
    random = random * 1664525u + 1013904223u;
    const int at = (int)(random >> 8) % N;
    if (part[at]) { /* every byte is still as it was marked */
      for (uint64_t b = 0; b < part[at]->bytes; b += 97)
        assert_int_equal(part[at]->buffer->data[part[at]->offset + b], at + 1);
      gpu_pool_give(&pool, part[at]);
      part[at] = NULL;
      continue;
    }
    assert_int_equal(gpu_pool_take(&pool, 1 + (random >> 4) % 300000, &part[at], &error),
                     ACCEL_PLUGIN_OK);
    assert_int_equal(part[at]->offset % limits.align, 0);
    assert_true(part[at]->offset + part[at]->bytes <= part[at]->buffer->bytes);
    memset(part[at]->buffer->data + part[at]->offset, at + 1, part[at]->bytes);
  }
  assert_true(live <= 3); /* 200 parts of 150 KB on average are 30 MB: holes are used again */
  for (int i = 0; i < N; i++) gpu_pool_give(&pool, part[i]);
  assert_int_equal(live, 0);
  gpu_pool_close(&pool);
}

static void large_ones_are_chunks_of_their_own(void **state) {
  gpu_memory *small = NULL, *large = NULL, *none = NULL;
  gpu_pool pool;
  (void)state;
  gpu_pool_open(&pool, NULL, &limits);
  assert_int_equal(gpu_pool_take(&pool, 10, &small, &error), ACCEL_PLUGIN_OK);
  assert_int_equal(gpu_pool_take(&pool, 60u << 20, &large, &error), ACCEL_PLUGIN_OK);
  assert_int_equal(live, 2);
  gpu_pool_give(&pool, large);
  assert_int_equal(live, 1);
  error = (accel_plugin_error){.size = sizeof error};
  assert_int_equal(gpu_pool_take(&pool, 65u << 20, &none, &error), ACCEL_PLUGIN_E_DEVICE_MEMORY);
  assert_non_null(strstr(error.message, "68157440"));
  assert_non_null(strstr(error.message, "67108864"));
  assert_int_equal(gpu_pool_take(&pool, UINT64_MAX, &none, &error), ACCEL_PLUGIN_E_DEVICE_MEMORY);
  assert_null(none);
  gpu_pool_close(&pool); /* releases what was not given back */
  free(small);
  assert_int_equal(live, 0);
}

static void a_refused_allocation_changes_nothing(void **state) {
  gpu_memory *first = NULL, *second = NULL;
  gpu_pool pool;
  (void)state;
  gpu_pool_open(&pool, NULL, &limits);
  assert_int_equal(gpu_pool_take(&pool, 1000, &first, &error), ACCEL_PLUGIN_OK);
  refuse_after = 0;
  assert_int_equal(gpu_pool_take(&pool, 50u << 20, &second, &error), ACCEL_PLUGIN_E_DEVICE_MEMORY);
  assert_null(second);
  assert_int_equal(live, 1);
  refuse_after = -1;
  assert_int_equal(gpu_pool_take(&pool, 50u << 20, &second, &error), ACCEL_PLUGIN_OK);
  gpu_pool_give(&pool, second);
  gpu_pool_give(&pool, first);
  assert_int_equal(live, 0);
  gpu_pool_close(&pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(parts_do_not_overlap),
                                     cmocka_unit_test(large_ones_are_chunks_of_their_own),
                                     cmocka_unit_test(a_refused_allocation_changes_nothing)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
