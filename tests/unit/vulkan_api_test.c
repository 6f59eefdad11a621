/* vulkan_api_test.c - the API layer of the Vulkan plugin on whatever device is there (a software
 * one will do): copies, order across submissions, threads, and every call of the driver refused in
 * turn. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "vulkan/vlk.h"

enum { N = 1000 };

static accel_plugin_error error;
static const accel_plugin_options options = {.size = sizeof options};

static void clear(void) { error = (accel_plugin_error){.size = sizeof error, .node = -1}; }

static gpu_device *open_device(void) {
  gpu_device *d = NULL;
  gpu_limits limits;
  char why[200] = "";
  const vlk_loader *l = vlk_load(why, sizeof why);
  if (!l || !l->n_card) {
    print_message("no Vulkan device: %s\n", why);
    skip();
  }
  clear();
  assert_int_equal(vlk_open(0, &options, &d, &limits, &error), ACCEL_PLUGIN_OK);
  assert_true(limits.binding >= 1 << 20 && limits.align >= 16 && limits.local_size >= 128);
  return d;
}

/* y = x + 1, n times over one buffer. */
static int32_t add_ones(gpu_device *d, gpu_stream *s, gpu_buffer *buffer, int times) {
  const gpu_binding all = {buffer, 0, 4 * N}, bind[2] = {all, all};
  struct {
    int32_t n, kind;
    float alpha, beta;
  } params = {N, ACCEL_PLUGIN_UNARY_AFFINE, 1.0f, 1.0f};
  const gpu_dispatch what = {.kernel = GPU_K_unary_f32,
                             .n_bind = 2,
                             .bind = bind,
                             .params = &params,
                             .params_bytes = sizeof params,
                             .groups = {(N + 127) / 128, 1, 1}};
  int32_t rc = ACCEL_PLUGIN_OK;
  (void)d;
  for (int i = 0; !rc && i < times; i++) rc = vlk_dispatch(s, &what, &error);
  return rc;
}

/* Allocation, write, a run of `times` dispatches behind an update, read; what it gives is
 * checked. */
static int32_t scenario(gpu_device *d, int times) {
  static const float first = 41.0f;
  float *x = calloc(N, sizeof *x);
  gpu_buffer *buffer = NULL;
  gpu_stream *s = NULL;
  double ms = 0;
  int32_t rc = vlk_alloc(d, 4 * N, false, &buffer, NULL, &error);
  const gpu_binding all = {buffer, 0, 4 * N}, head = {buffer, 4, 4},
                    tail = {buffer, 4 * (N - 1), 4};
  if (!rc) rc = vlk_write(d, &all, x, &error);
  if (!rc) rc = vlk_begin(d, NULL, &s, &error);
  if (!rc) {
    rc = vlk_update(s, &head, &first, &error);
    if (!rc) rc = add_ones(d, s, buffer, times);
    if (!rc) rc = vlk_copy(s, &tail, &head, &error);
    const int32_t end = vlk_end(s, rc != ACCEL_PLUGIN_OK, &ms, rc ? NULL : &error);
    if (!rc) rc = end;
  }
  if (!rc) rc = vlk_read(d, x, &all, &error);
  if (!rc) {
    assert_true(x[0] == (float)times && x[1] == first + (float)times && x[N - 1] == x[1]);
    for (int i = 2; i < N - 1; i++) assert_true(x[i] == (float)times);
  }
  vlk_release(d, buffer);
  free(x);
  return rc;
}

/* Thousands of commands: many batches, sets and submissions, in order. */
static void test_long_runs_keep_their_order(void **state) {
  (void)state;
  gpu_device *d = open_device();
  assert_int_equal(scenario(d, 3000), ACCEL_PLUGIN_OK);
  assert_int_equal(scenario(d, 10), ACCEL_PLUGIN_OK);
  assert_true(atomic_load(&d->allocated) <= VLK_STAGING);
  vlk_close(d);
}

/* Marks over several submissions share out what the device was busy, and the same commands without
 * marks follow. */
static void test_marks_tell_the_devices_time(void **state) {
  (void)state;
  gpu_device *d = open_device();
  gpu_buffer *buffer = NULL;
  const float x[N] = {0};
  for (int run = 0; run < 2 && d->ms_per_tick > 0; run++) {
    double us[3] = {(double)NAN, (double)NAN, (double)NAN}, ms = 0;
    gpu_stream *s = NULL;
    assert_int_equal(vlk_alloc(d, 4 * N, false, &buffer, NULL, &error), ACCEL_PLUGIN_OK);
    const gpu_binding all = {buffer, 0, 4 * N};
    assert_int_equal(vlk_write(d, &all, x, &error), ACCEL_PLUGIN_OK);
    assert_int_equal(vlk_begin(d, NULL, &s, &error), ACCEL_PLUGIN_OK);
    assert_int_equal(add_ones(d, s, buffer, 10), ACCEL_PLUGIN_OK);
    assert_int_equal(vlk_mark(s, &us[0], &error), ACCEL_PLUGIN_OK);
    assert_int_equal(add_ones(d, s, buffer, 1500), ACCEL_PLUGIN_OK);
    assert_int_equal(vlk_mark(s, &us[1], &error), ACCEL_PLUGIN_OK);
    assert_int_equal(add_ones(d, s, buffer, 100), ACCEL_PLUGIN_OK);
    assert_int_equal(vlk_end(s, false, &ms, &error), ACCEL_PLUGIN_OK);
    assert_true(us[0] > 0 && us[1] > 0 && us[0] + us[1] <= 1e3 * ms * 1.001 + 1);
    assert_true(us[2] != us[2]);
    vlk_release(d, buffer);
  }
  assert_int_equal(scenario(d, 10), ACCEL_PLUGIN_OK);
  vlk_close(d);
}

static void *in_thread(void *arg) {
  accel_plugin_error mine = {.size = sizeof mine};
  gpu_device *d = arg;
  gpu_buffer *buffer = NULL;
  float x[64] = {0}, sum = 0;
  int32_t rc = vlk_alloc(d, sizeof x, false, &buffer, NULL, &mine);
  const gpu_binding all = {buffer, 0, sizeof x};
  for (int i = 0; !rc && i < 50; i++) {
    gpu_stream *s;
    for (int k = 0; k < 64; k++) x[k] = (float)i;
    rc = vlk_begin(d, NULL, &s, &mine);
    if (!rc) rc = vlk_update(s, &all, x, &mine);
    if (!rc) rc = vlk_end(s, false, NULL, &mine);
    if (!rc) rc = vlk_read(d, x, &all, &mine);
    sum += x[63];
  }
  vlk_release(d, buffer);
  return rc || sum != 49 * 25 ? arg : NULL;
}

static void test_threads_share_a_device(void **state) {
  (void)state;
  gpu_device *d = open_device();
  pthread_t thread[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, in_thread, d), 0);
  for (int i = 0; i < 4; i++) {
    void *failed;
    pthread_join(thread[i], &failed);
    assert_null(failed);
  }
  vlk_close(d);
}

/* As on a card of its own: the host does not see the memory, copies go in pieces through the
 * staging buffer. */
static void test_copies_without_shared_memory(void **state) {
  (void)state;
  gpu_device *d = open_device();
  const size_t bytes = 2 * VLK_STAGING + 12;
  uint32_t *from = malloc(bytes), *to = calloc(1, bytes);
  gpu_buffer *buffer;
  const bool unified = d->limits.unified;
  for (size_t i = 0; i < bytes / 4; i++) from[i] = (uint32_t)i * 2654435761u;
  d->limits.unified = false;
  assert_int_equal(vlk_alloc(d, bytes, false, &buffer, NULL, &error), ACCEL_PLUGIN_OK);
  assert_null(buffer->mapped);
  const gpu_binding all = {buffer, 0, bytes}, word = {buffer, bytes - 4, 4};
  assert_int_equal(vlk_write(d, &all, from, &error), ACCEL_PLUGIN_OK);
  assert_int_equal(vlk_read(d, to, &all, &error), ACCEL_PLUGIN_OK);
  assert_memory_equal(from, to, bytes);
  assert_int_equal(vlk_read(d, to, &word, &error), ACCEL_PLUGIN_OK);
  assert_int_equal(to[0], from[bytes / 4 - 1]);
  assert_int_equal(scenario(d, 3), ACCEL_PLUGIN_OK);
  d->limits.unified = unified;
  vlk_release(d, buffer);
  vlk_close(d);
  free(from);
  free(to);
}

static void test_too_much_memory_is_an_error(void **state) {
  (void)state;
  gpu_device *d = open_device();
  gpu_buffer *buffer = NULL;
  assert_int_equal(vlk_alloc(d, 1ull << 50, false, &buffer, NULL, &error),
                   ACCEL_PLUGIN_E_DEVICE_MEMORY);
  assert_null(buffer);
  assert_non_null(strstr(error.message, "1125899906842624 bytes"));
  assert_int_equal(scenario(d, 1), ACCEL_PLUGIN_OK);
  vlk_close(d);
}

/* ---- the driver refuses ---- */

/* One run over a buffer that stays: an update of `value` and `times` additions. */
static float run_over(gpu_device *d, gpu_buffer *buffer, float value, int times) {
  const gpu_binding head = {buffer, 0, 4};
  gpu_stream *s = NULL;
  float got = 0;
  assert_int_equal(vlk_begin(d, NULL, &s, &error), ACCEL_PLUGIN_OK);
  assert_int_equal(vlk_update(s, &head, &value, &error), ACCEL_PLUGIN_OK);
  assert_int_equal(add_ones(d, s, buffer, times), ACCEL_PLUGIN_OK);
  assert_int_equal(vlk_end(s, false, NULL, &error), ACCEL_PLUGIN_OK);
  assert_int_equal(vlk_read(d, &got, &head, &error), ACCEL_PLUGIN_OK);
  return got;
}

/* The same commands are recorded once, with other numbers too; other commands, and those over a new
 * buffer that may have got an old one's handle, are recorded. */
static void test_the_same_commands_are_submitted_again(void **state) {
  (void)state;
  gpu_device *d = open_device();
  gpu_buffer *buffer = NULL;
  /* a busy machine does not cut the runs in two */
  const unsigned long long quota = atomic_exchange(&d->quota, 1ull << 40);
  assert_int_equal(vlk_alloc(d, 4 * N, false, &buffer, NULL, &error), ACCEL_PLUGIN_OK);
  assert_true(run_over(d, buffer, 1, 40) == 41);
  const unsigned long long before = atomic_load(&d->replayed);
  assert_true(run_over(d, buffer, 1, 40) == 41);
  assert_true(run_over(d, buffer, 7, 40) == 47);
  assert_true(atomic_load(&d->replayed) >= before + 2);
  const unsigned long long then = atomic_load(&d->replayed);
  assert_true(run_over(d, buffer, 7, 39) == 46);
  assert_true(atomic_load(&d->replayed) == then);
  assert_true(run_over(d, buffer, 8, 39) == 47);
  assert_true(atomic_load(&d->replayed) == then + 1);
  vlk_release(d, buffer);
  assert_int_equal(vlk_alloc(d, 4 * N, false, &buffer, NULL, &error), ACCEL_PLUGIN_OK);
  assert_true(run_over(d, buffer, 8, 39) == 47);
  assert_true(atomic_load(&d->replayed) == then + 1);
  vlk_release(d, buffer);
  atomic_store(&d->quota, quota);
  vlk_close(d);
}

static VkResult refuse(void) { return VK_ERROR_OUT_OF_DEVICE_MEMORY; }
static VkResult lose(void) { return VK_ERROR_DEVICE_LOST; }
static VkResult sleep_on(void) { return VK_TIMEOUT; }

/* So that every object is made anew. */
static void forget(gpu_device *d) {
  VkPipeline pipeline = d->pipeline[GPU_K_unary_f32];
  vlk_streams_free(d);
  if (pipeline) d->DestroyPipeline(d->handle, pipeline, NULL);
  d->pipeline[GPU_K_unary_f32] = VK_NULL_HANDLE;
}

#define REFUSE(name)                                                         \
  do {                                                                       \
    const PFN_vk##name whole = d->name;                                      \
    forget(d);                                                               \
    clear();                                                                 \
    d->name = (PFN_vk##name)(PFN_vkVoidFunction)refuse;                      \
    const int32_t rc = scenario(d, 20);                                      \
    d->name = whole;                                                         \
    if (rc != ACCEL_PLUGIN_E_DEVICE_MEMORY || !*error.message)               \
      fail_msg("vk%s refused: code %d, '%s'", #name, rc, error.message);     \
    clear();                                                                 \
    if (scenario(d, 20)) fail_msg("after vk%s: '%s'", #name, error.message); \
  } while (0)

static void test_each_call_refused_in_turn(void **state) {
  (void)state;
  gpu_device *d = open_device();
  forget(d);
  assert_int_equal(scenario(d, 1), ACCEL_PLUGIN_OK);
  const unsigned long long before = atomic_load(&d->allocated);
  REFUSE(CreateBuffer);
  REFUSE(AllocateMemory);
  REFUSE(BindBufferMemory);
  REFUSE(CreateShaderModule);
  REFUSE(CreateComputePipelines);
  REFUSE(CreateDescriptorPool);
  REFUSE(AllocateDescriptorSets);
  REFUSE(CreateCommandPool);
  REFUSE(AllocateCommandBuffers);
  REFUSE(ResetCommandPool);
  REFUSE(BeginCommandBuffer);
  REFUSE(EndCommandBuffer);
  REFUSE(CreateFence);
  REFUSE(ResetFences);
  REFUSE(QueueSubmit);
  if (d->limits.unified) REFUSE(MapMemory);
  if (d->ms_per_tick > 0) REFUSE(CreateQueryPool);
  assert_true(atomic_load(&d->allocated) == before);
  vlk_close(d);
}

static VkResult garble(void) { return VK_ERROR_INVALID_SHADER_NV; }

static void test_a_kernel_that_does_not_compile_is_named(void **state) {
  (void)state;
  gpu_device *d = open_device();
  const PFN_vkCreateComputePipelines whole = d->CreateComputePipelines;
  forget(d);
  d->CreateComputePipelines = (PFN_vkCreateComputePipelines)(PFN_vkVoidFunction)garble;
  assert_int_equal(scenario(d, 1), ACCEL_PLUGIN_E_DRIVER);
  assert_non_null(strstr(error.message, "kernel unary_f32 cannot be compiled by the driver"));
  d->CreateComputePipelines = whole;
  clear();
  assert_int_equal(scenario(d, 1), ACCEL_PLUGIN_OK);
  vlk_close(d);
}

static void test_a_lost_device_is_told_and_opened_again(void **state) {
  (void)state;
  gpu_device *d = open_device(), *again = NULL;
  gpu_limits limits;
  const PFN_vkQueueSubmit whole = d->QueueSubmit;
  d->QueueSubmit = (PFN_vkQueueSubmit)(PFN_vkVoidFunction)lose;
  assert_int_equal(scenario(d, 5), ACCEL_PLUGIN_E_DEVICE_LOST);
  d->QueueSubmit = whole;
  clear();
  assert_int_equal(scenario(d, 5), ACCEL_PLUGIN_E_DEVICE_LOST); /* and stays lost */
  assert_non_null(strstr(error.message, "lost"));
  assert_int_equal(vlk_open(0, &options, &again, &limits, &error), ACCEL_PLUGIN_E_DEVICE_LOST);
  vlk_close(d);
  d = open_device();
  assert_int_equal(scenario(d, 5), ACCEL_PLUGIN_OK);
  vlk_close(d);
}

static void test_a_device_that_never_answers_counts_as_lost(void **state) {
  (void)state;
  gpu_device *d = open_device();
  const PFN_vkWaitForFences whole = d->WaitForFences;
  d->WaitForFences = (PFN_vkWaitForFences)(PFN_vkVoidFunction)sleep_on;
  assert_int_equal(scenario(d, 5), ACCEL_PLUGIN_E_DEVICE_LOST);
  assert_non_null(strstr(error.message, "did not answer"));
  d->WaitForFences = whole;
  d->DeviceWaitIdle(d->handle);
  atomic_store(&d->stuck, false); /* it was only said to hang: what it holds may go after all */
  vlk_close(d);
  d = open_device();
  assert_int_equal(scenario(d, 5), ACCEL_PLUGIN_OK);
  vlk_close(d);
}

/* ---- the cache on disk ---- */

typedef struct disk {
  accel_plugin_host host;
  char key[160];
  void *data;
  uint64_t n;
  int gets, puts;
} disk;

static int32_t disk_get(void *self, const char *key, void *bytes, uint64_t *n) {
  disk *k = self;
  if (!k->data || strcmp(k->key, key)) return -1;
  if (bytes) memcpy(bytes, k->data, k->n), k->gets++;
  *n = k->n;
  return 0;
}

static int32_t disk_put(void *self, const char *key, const accel_plugin_part *part,
                        uint32_t n_part) {
  disk *k = self;
  assert_int_equal(n_part, 1);
  snprintf(k->key, sizeof k->key, "%s", key);
  free(k->data);
  k->data = malloc(part->n);
  memcpy(k->data, part->data, part->n);
  k->n = part->n;
  k->puts++;
  return 0;
}

static void test_pipelines_are_cached_on_disk(void **state) {
  (void)state;
  gpu_device *d = open_device();
  disk k = {.host = {.size = sizeof k.host, .cache_get = disk_get, .cache_put = disk_put}};
  gpu_stream *s;
  gpu_buffer *buffer;
  k.host.self = &k;
  forget(d);
  assert_int_equal(vlk_alloc(d, 4 * N, false, &buffer, NULL, &error), ACCEL_PLUGIN_OK);
  for (int i = 0; i < 2; i++) { /* the second run has nothing new to keep */
    assert_int_equal(vlk_begin(d, &k.host, &s, &error), ACCEL_PLUGIN_OK);
    assert_int_equal(add_ones(d, s, buffer, 1), ACCEL_PLUGIN_OK);
    assert_int_equal(vlk_end(s, false, NULL, &error), ACCEL_PLUGIN_OK);
  }
  vlk_release(d, buffer);
  assert_true(k.puts <= 1); /* 0: this driver keeps nothing (lavapipe) */
  if (k.puts) {
    /* whole, of another card, cut short: never an error */
    for (int damaged = 0; damaged < 3; damaged++) {
      if (damaged == 1) ((uint8_t *)k.data)[8] ^= 1;
      if (damaged == 2) k.n = 7;
      d->DestroyPipelineCache(d->handle, d->cache, NULL);
      vlk_cache_open(d, &k.host);
      forget(d);
      assert_int_equal(scenario(d, 2), ACCEL_PLUGIN_OK);
    }
    assert_int_equal(k.gets, 3);
  }
  free(k.data);
  vlk_close(d);
}

static VkCooperativeMatrixPropertiesNV matrix_of(uint32_t k, VkComponentTypeNV factor,
                                                 VkComponentTypeNV sum) {
  return (VkCooperativeMatrixPropertiesNV){.MSize = 16,
                                           .NSize = 16,
                                           .KSize = k,
                                           .AType = factor,
                                           .BType = factor,
                                           .CType = sum,
                                           .DType = sum,
                                           .scope = VK_SCOPE_SUBGROUP_NV};
}

/* Of what a driver lists, only the kernels' own sizes count: 16x16x16 of fp16 into fp32, 16x16x32
 * of signed bytes into words. */
static void test_sizes_of_cooperative_matrices(void **state) {
  (void)state;
  const VkCooperativeMatrixPropertiesNV f16 = matrix_of(16, VK_COMPONENT_TYPE_FLOAT16_NV,
                                                        VK_COMPONENT_TYPE_FLOAT32_NV),
                                        i8 = matrix_of(32, VK_COMPONENT_TYPE_SINT8_NV,
                                                       VK_COMPONENT_TYPE_SINT32_NV);
  VkCooperativeMatrixPropertiesNV list[8] = {f16, f16, f16, f16, i8, i8, f16, i8};
  list[0].NSize = 8;
  list[1].CType = list[1].DType = VK_COMPONENT_TYPE_FLOAT16_NV;
  list[2].scope = VK_SCOPE_WORKGROUP_NV;
  list[3].KSize = 8;
  list[4].AType = list[4].BType = VK_COMPONENT_TYPE_UINT8_NV;
  list[5].KSize = 16;
  assert_int_equal(vlk_matrix_sizes(list, 0), 0);
  assert_int_equal(vlk_matrix_sizes(list, 6), 0);
  assert_int_equal(vlk_matrix_sizes(list, 7), GPU_VARIANT_MATRIX_F16);
  assert_int_equal(vlk_matrix_sizes(list + 7, 1), GPU_VARIANT_MATRIX_I8);
  assert_int_equal(vlk_matrix_sizes(list, 8), GPU_VARIANT_MATRIX_F16 | GPU_VARIANT_MATRIX_I8);
}

/* A driver that says it has them, and refuses to open a device with them, is opened without. */
static void test_matrices_that_are_refused_are_left_out(void **state) {
  (void)state;
  gpu_device *d = open_device();
  vlk_card *card = (vlk_card *)(uintptr_t)d->card;
  const vlk_card whole = *card;
  if (card->matrix) { /* it has them: nothing would be refused */
    vlk_close(d);
    skip();
  }
  atomic_store(&d->lost, true);
  vlk_close(d);
  card->matrix = GPU_VARIANT_MATRIX_F16;
  card->subgroup.subgroupSize = 32;
  gpu_limits limits = {.matrix = 1};
  clear();
  assert_int_equal(vlk_open(0, &options, &d, &limits, &error), ACCEL_PLUGIN_OK);
  assert_true(!limits.matrix && !limits.cooperative);
  assert_int_equal(scenario(d, 5), ACCEL_PLUGIN_OK);
  atomic_store(&d->lost, true);
  vlk_close(d);
  *card = whole;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sizes_of_cooperative_matrices),
      cmocka_unit_test(test_matrices_that_are_refused_are_left_out),
      cmocka_unit_test(test_long_runs_keep_their_order),
      cmocka_unit_test(test_the_same_commands_are_submitted_again),
      cmocka_unit_test(test_marks_tell_the_devices_time),
      cmocka_unit_test(test_threads_share_a_device),
      cmocka_unit_test(test_copies_without_shared_memory),
      cmocka_unit_test(test_too_much_memory_is_an_error),
      cmocka_unit_test(test_each_call_refused_in_turn),
      cmocka_unit_test(test_a_kernel_that_does_not_compile_is_named),
      cmocka_unit_test(test_a_lost_device_is_told_and_opened_again),
      cmocka_unit_test(test_a_device_that_never_answers_counts_as_lost),
      cmocka_unit_test(test_pipelines_are_cached_on_disk),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
