/* webgpu_api_test.c - the API layer of the WebGPU plugin on whatever adapter is there (a software one
 * will do; none, or no wgpu-native: skipped): copies, order across submissions, threads, and what
 * wgpu-native says of errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "webgpu/wgp.h"

enum { N = 1000 };

static accel_plugin_error error;
static const accel_plugin_options options = {.size = sizeof options};

static void clear(void) { error = (accel_plugin_error){.size = sizeof error, .node = -1}; }

static gpu_device *open_device(void) {
  gpu_device *d = NULL;
  gpu_limits limits;
  const wgp_library *l = wgp_open_library();
  if (*l->why) {
    print_message("no WebGPU device: %s\n", l->why);
    skip();
  }
  clear();
  if (wgp_open(0, &options, &d, &limits, &error)) fail_msg("%s", error.message);
  assert_true(limits.binding >= 1 << 20 && limits.align >= 16 && limits.local_size >= 128);
  return d;
}

/* y = x + 1, n times over one buffer. */
static int32_t add_ones(gpu_stream *s, gpu_buffer *buffer, int times) {
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
  for (int i = 0; !rc && i < times; i++) rc = wgp_dispatch(s, &what, &error);
  return rc;
}

/* Allocation, write, a run of `times` dispatches behind an update, copies within the buffer and to
 * another one and back, read; what it gives is checked. */
static int32_t scenario(gpu_device *d, int times) {
  static const float first = 41.0f;
  float *x = calloc(N, sizeof *x);
  gpu_buffer *buffer = NULL, *other = NULL;
  gpu_stream *s = NULL;
  double ms = 0;
  int32_t rc = wgp_alloc(d, 4 * N, false, &buffer, NULL, &error);
  if (!rc) rc = wgp_alloc(d, 64, false, &other, NULL, &error);
  const gpu_binding all = {buffer, 0, 4 * N}, head = {buffer, 4, 4},
                    tail = {buffer, 4 * (N - 1), 4}, there = {other, 8, 4}, third = {buffer, 8, 4};
  if (!rc) rc = wgp_write(d, &all, x, &error);
  if (!rc) rc = wgp_begin(d, NULL, &s, &error);
  if (!rc) {
    rc = wgp_update(s, &head, &first, &error);
    if (!rc) rc = add_ones(s, buffer, times);
    if (!rc) rc = wgp_copy(s, &tail, &head, &error);
    if (!rc) rc = wgp_copy(s, &there, &head, &error);
    if (!rc) rc = wgp_copy(s, &third, &there, &error);
    const int32_t end = wgp_end(s, rc != ACCEL_PLUGIN_OK, &ms, rc ? NULL : &error);
    if (!rc) rc = end;
  }
  if (!rc) rc = wgp_read(d, x, &all, &error);
  if (!rc) {
    assert_true(x[0] == (float)times && x[1] == first + (float)times && x[N - 1] == x[1]);
    assert_true(x[2] == x[1]);
    for (int i = 3; i < N - 1; i++) assert_true(x[i] == (float)times);
  }
  wgp_release(d, buffer);
  wgp_release(d, other);
  free(x);
  return rc;
}

/* Thousands of commands: many submissions, in order. */
static void test_long_runs_keep_their_order(void **state) {
  (void)state;
  gpu_device *d = open_device();
  const unsigned long long before = atomic_load(&d->allocated);
  if (scenario(d, 3000)) fail_msg("%s", error.message);
  assert_int_equal(scenario(d, 10), ACCEL_PLUGIN_OK);
  assert_true(atomic_load(&d->allocated) <= before + WGP_UPDATES); /* of the stream, which stays */
  wgp_close(d);
}

static void *in_thread(void *arg) {
  accel_plugin_error mine = {.size = sizeof mine};
  gpu_device *d = arg;
  gpu_buffer *buffer = NULL;
  float x[64] = {0}, sum = 0;
  int32_t rc = wgp_alloc(d, sizeof x, false, &buffer, NULL, &mine);
  const gpu_binding all = {buffer, 0, sizeof x};
  for (int i = 0; !rc && i < 50; i++) {
    gpu_stream *s;
    for (int k = 0; k < 64; k++) x[k] = (float)i;
    rc = wgp_begin(d, NULL, &s, &mine);
    if (!rc) rc = wgp_update(s, &all, x, &mine);
    if (!rc) rc = wgp_end(s, false, NULL, &mine);
    if (!rc) rc = wgp_read(d, x, &all, &mine);
    sum += x[63];
  }
  wgp_release(d, buffer);
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
  wgp_close(d);
}

/* Copies from and to the host go in pieces; writes beyond WGP_UNSUBMITTED are submitted. */
static void test_large_copies(void **state) {
  (void)state;
  gpu_device *d = open_device();
  const size_t bytes = 2 * (size_t)WGP_STAGING + 12;
  uint32_t *from = malloc(bytes), *to = calloc(1, bytes);
  gpu_buffer *buffer;
  for (size_t i = 0; i < bytes / 4; i++) from[i] = (uint32_t)i * 2654435761u;
  assert_int_equal(wgp_alloc(d, bytes, false, &buffer, NULL, &error), ACCEL_PLUGIN_OK);
  const gpu_binding all = {buffer, 0, bytes}, word = {buffer, bytes - 4, 4};
  for (int i = 0; i < WGP_UNSUBMITTED / (2 * WGP_STAGING) + 1; i++)
    assert_int_equal(wgp_write(d, &all, from, &error), ACCEL_PLUGIN_OK);
  assert_true(atomic_load(&d->unsubmitted) < WGP_UNSUBMITTED);
  assert_int_equal(wgp_read(d, to, &all, &error), ACCEL_PLUGIN_OK);
  assert_memory_equal(from, to, bytes);
  assert_int_equal(wgp_read(d, to, &word, &error), ACCEL_PLUGIN_OK);
  assert_int_equal(to[0], from[bytes / 4 - 1]);
  wgp_release(d, buffer);
  wgp_close(d);
  free(from);
  free(to);
}

static void test_too_much_memory_is_an_error(void **state) {
  (void)state;
  gpu_device *d = open_device();
  gpu_buffer *buffer = NULL;
  assert_int_equal(wgp_alloc(d, 1ull << 50, false, &buffer, NULL, &error),
                   ACCEL_PLUGIN_E_DEVICE_MEMORY);
  assert_null(buffer);
  assert_non_null(strstr(error.message, "1125899906842624 bytes"));
  assert_int_equal(scenario(d, 1), ACCEL_PLUGIN_OK);
  wgp_close(d);
}

/* ---- wgpu-native refuses ---- */

/* What wgpu-native itself says of a copy past the end of a buffer, of a binding past its end, and of
 * words that are no shader; the device goes on. */
static void test_what_is_invalid_is_told_and_not_submitted(void **state) {
  (void)state;
  gpu_device *d = open_device();
  gpu_buffer *small = NULL, *other = NULL;
  gpu_stream *s = NULL;
  assert_int_equal(wgp_alloc(d, 256, false, &small, NULL, &error), ACCEL_PLUGIN_OK);
  assert_int_equal(wgp_alloc(d, 256, false, &other, NULL, &error), ACCEL_PLUGIN_OK);
  const gpu_binding past = {small, 0, 4096}, to = {other, 0, 4096};
  assert_int_equal(wgp_begin(d, NULL, &s, &error), ACCEL_PLUGIN_OK);
  int32_t rc = wgp_copy(s, &to, &past, &error);
  const int32_t end = wgp_end(s, rc != ACCEL_PLUGIN_OK, NULL, rc ? NULL : &error);
  if (!rc) rc = end; /* wgpu-native tells when the commands are finished */
  assert_int_equal(rc, ACCEL_PLUGIN_E_DRIVER);
  assert_non_null(strstr(error.message, "4096"));
  clear();
  assert_int_equal(wgp_begin(d, NULL, &s, &error), ACCEL_PLUGIN_OK);
  assert_int_equal(add_ones(s, small, 1), ACCEL_PLUGIN_E_DRIVER); /* 4000 bytes of 256 */
  assert_int_equal(wgp_end(s, true, NULL, NULL), ACCEL_PLUGIN_OK);
  assert_non_null(strstr(error.message, "unary_f32"));
  wgp_release(d, small);
  wgp_release(d, other);
  clear();
  assert_int_equal(scenario(d, 1), ACCEL_PLUGIN_OK);
  wgp_close(d);
}

static wgp_functions broken;
static const wgp_functions *whole;
static void (*tell)(const WGPUDevice *, uint32_t, WGPUStringView, void *, void *);

static const char words[] = "not enough memory left";
/* As wgpu-native: the error is told within the call, which gives a handle all the same. */
static WGPUBuffer no_room(WGPUDevice device, const WGPUBufferDescriptor *wanted) {
  tell(&device, WGPUErrorType_OutOfMemory, (WGPUStringView){words, sizeof words - 1}, NULL, NULL);
  return whole->DeviceCreateBuffer(device, wanted);
}

static WGPUFuture listen(WGPUAdapter adapter, const WGPUDeviceDescriptor *wanted,
                         WGPURequestDeviceCallbackInfo then) {
  tell = wanted->uncapturedErrorCallbackInfo.callback;
  return whole->AdapterRequestDevice(adapter, wanted, then);
}

/* A device of the test's own, whose calls may be replaced. */
static gpu_device *open_broken(void) {
  wgp_library *l = (wgp_library *)(uintptr_t)wgp_open_library();
  if (*l->why) skip();
  whole = &broken;
  broken = l->f;
  l->f.AdapterRequestDevice = listen;
  gpu_device *d = open_device();
  l->f.AdapterRequestDevice = broken.AdapterRequestDevice;
  return d;
}

static void test_memory_that_is_refused_and_a_device_that_is_lost(void **state) {
  (void)state;
  gpu_device *d = open_broken(), *again = NULL;
  wgp_functions *f = (wgp_functions *)(uintptr_t)d->f;
  gpu_limits limits;
  gpu_buffer *buffer = NULL;
  f->DeviceCreateBuffer = no_room;
  if (tell) { /* NULL: an earlier test has opened the device */
    assert_int_equal(wgp_alloc(d, 1 << 20, false, &buffer, NULL, &error),
                     ACCEL_PLUGIN_E_DEVICE_MEMORY);
    assert_non_null(strstr(error.message, "1048576 bytes of device memory were refused"));
    assert_null(buffer);
  }
  f->DeviceCreateBuffer = whole->DeviceCreateBuffer;
  clear();
  assert_int_equal(scenario(d, 5), ACCEL_PLUGIN_OK);
  f->DeviceDestroy(d->handle); /* wgpu-native: from here on the device is lost */
  assert_int_equal(scenario(d, 5), ACCEL_PLUGIN_E_DEVICE_LOST);
  clear();
  assert_int_equal(scenario(d, 5), ACCEL_PLUGIN_E_DEVICE_LOST); /* and stays lost */
  assert_non_null(strstr(error.message, "lost"));
  assert_int_equal(wgp_open(0, &options, &again, &limits, &error), ACCEL_PLUGIN_E_DEVICE_LOST);
  wgp_close(d);
  d = open_device();
  assert_int_equal(scenario(d, 5), ACCEL_PLUGIN_OK);
  wgp_close(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_memory_that_is_refused_and_a_device_that_is_lost),
      cmocka_unit_test(test_long_runs_keep_their_order),
      cmocka_unit_test(test_threads_share_a_device),
      cmocka_unit_test(test_large_copies),
      cmocka_unit_test(test_too_much_memory_is_an_error),
      cmocka_unit_test(test_what_is_invalid_is_told_and_not_submitted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
