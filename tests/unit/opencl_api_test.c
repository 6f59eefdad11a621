/* opencl_api_test.c - the API layer of the OpenCL plugin on whatever device is there (a software
 * one will do): order, threads, the cache of binaries, and every call of the driver refused in
 * turn. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "opencl/ocl.h"

enum { N = 1000 };
static const accel_plugin_options options = {.size = sizeof options};

static gpu_device *open_device(accel_plugin_error *e) {
  gpu_device *d = NULL;
  gpu_limits limits;
  uint32_t n;
  *e = (accel_plugin_error){.size = sizeof *e, .node = -1};
  if (!ocl_devices(&n, e)) {
    print_message("no OpenCL device: %s\n", e->message);
    skip();
  }
  assert_int_equal(ocl_open(0, &options, &d, &limits, e), ACCEL_PLUGIN_OK);
  assert_true(limits.binding >= 1 << 20 && limits.align >= 16 && limits.local_size >= 256);
  return d;
}

/* y = x + 1, n times over one buffer. */
static int32_t add_ones(gpu_stream *s, gpu_buffer *buffer, int times, accel_plugin_error *e) {
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
  for (int i = 0; !rc && i < times; i++) rc = ocl_dispatch(s, &what, e);
  return rc;
}

/* Write, update, `times` dispatches, copy, read; the numbers are checked when nothing failed. */
static int32_t scenario(gpu_device *d, const accel_plugin_host *host, int times,
                        accel_plugin_error *e) {
  static const float first = 41.0f;
  float x[N] = {0};
  gpu_buffer *buffer = NULL;
  gpu_stream *s = NULL;
  double ms = 0;
  int32_t rc = ocl_alloc(d, 4 * N, false, &buffer, NULL, e);
  if (rc) return rc;
  const gpu_binding all = {buffer, 0, 4 * N}, head = {buffer, 4, 4},
                    tail = {buffer, 4 * (N - 1), 4};
  rc = ocl_write(d, &all, x, e);
  if (!rc) rc = ocl_begin(d, host, &s, e);
  if (!rc) {
    rc = ocl_update(s, &head, &first, e);
    if (!rc) rc = add_ones(s, buffer, times, e);
    if (!rc) rc = ocl_copy(s, &tail, &head, e);
    const int32_t end = ocl_end(s, rc != ACCEL_PLUGIN_OK, &ms, rc ? NULL : e);
    if (!rc) rc = end;
  }
  if (!rc) rc = ocl_read(d, x, &all, e);
  ocl_release(d, buffer);
  if (!rc)
    assert_true(x[0] == (float)times && x[1] == first + (float)times && x[N - 1] == x[1] &&
                x[2] == x[0]);
  return rc;
}

static void commands_run_in_order(void **state) {
  accel_plugin_error e;
  gpu_device *d = open_device(&e);
  (void)state;
  assert_int_equal(scenario(d, NULL, 100, &e), ACCEL_PLUGIN_OK);
  assert_int_equal(atomic_load(&d->allocated), 0);
  ocl_close(d);
}

static void host_memory_is_mapped(void **state) {
  accel_plugin_error e;
  gpu_device *d = open_device(&e);
  gpu_buffer *b = NULL;
  void *mapped = NULL;
  (void)state;
  assert_int_equal(ocl_alloc(d, 4096, true, &b, &mapped, &e), ACCEL_PLUGIN_OK);
  memset(mapped, 7, 4096);
  ocl_release(d, b);
  assert_int_equal(ocl_alloc(d, UINT64_MAX / 2, false, &b, NULL, &e), ACCEL_PLUGIN_E_DEVICE_MEMORY);
  assert_non_null(strstr(e.message, "smaller"));
  ocl_close(d);
}

static void *worker(void *arg) {
  accel_plugin_error e = {.size = sizeof e};
  int32_t rc = ACCEL_PLUGIN_OK;
  for (int i = 0; !rc && i < 10; i++) rc = scenario(arg, NULL, 20 + i, &e);
  return rc ? arg : NULL;
}

static void threads_share_a_device(void **state) {
  accel_plugin_error e;
  gpu_device *d = open_device(&e);
  pthread_t thread[4];
  (void)state;
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, worker, d), 0);
  for (int i = 0; i < 4; i++) {
    void *bad = NULL;
    pthread_join(thread[i], &bad);
    assert_null(bad);
  }
  ocl_close(d);
}

/* ---- the cache ---- */

static struct {
  char key[96];
  unsigned char *bytes;
  uint64_t n;
  int puts, gets;
} entry;

static int32_t cache_get(void *self, const char *key, void *bytes, uint64_t *n) {
  (void)self;
  if (!entry.bytes || strcmp(key, entry.key)) return -1;
  if (bytes) memcpy(bytes, entry.bytes, entry.n), entry.gets++;
  *n = entry.n;
  return 0;
}
static int32_t cache_put(void *self, const char *key, const accel_plugin_part *part,
                         uint32_t n_part) {
  (void)self, (void)n_part;
  free(entry.bytes);
  entry.bytes = malloc(part->n);
  memcpy(entry.bytes, part->data, part->n);
  entry.n = part->n;
  entry.puts++;
  strncpy(entry.key, key, sizeof entry.key - 1);
  return 0;
}
static const accel_plugin_host host = {
    .size = sizeof host, .cache_get = cache_get, .cache_put = cache_put};

static void binaries_are_cached(void **state) {
  accel_plugin_error e;
  gpu_device *d = open_device(&e);
  (void)state;
  ocl_kernels_free(d);
  assert_int_equal(scenario(d, &host, 3, &e), ACCEL_PLUGIN_OK);
  assert_int_equal(entry.puts, 1);
  ocl_kernels_free(d);
  assert_int_equal(scenario(d, &host, 3, &e), ACCEL_PLUGIN_OK);
  assert_int_equal(entry.puts, 1);
  assert_int_equal(entry.gets, 1);
  free(entry.bytes);
  memset(&entry, 0, sizeof entry);
  ocl_close(d);
}

/* ---- refusals ---- */

static cl_int refuse_int(void) { return CL_OUT_OF_RESOURCES; }
static void *refuse_object_4(cl_context c, cl_uint n, const char **s, const size_t *l,
                             cl_int *code) {
  (void)c, (void)n, (void)s, (void)l;
  *code = CL_OUT_OF_RESOURCES;
  return NULL;
}
static cl_mem refuse_buffer(cl_context c, cl_mem_flags f, size_t n, void *p, cl_int *code) {
  (void)c, (void)f, (void)n, (void)p;
  *code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
  return NULL;
}
static cl_command_queue refuse_queue(cl_context c, cl_device_id d, cl_command_queue_properties p,
                                     cl_int *code) {
  (void)c, (void)d, (void)p;
  *code = CL_OUT_OF_HOST_MEMORY;
  return NULL;
}
static cl_kernel refuse_kernel(cl_program p, const char *name, cl_int *code) {
  (void)p, (void)name;
  *code = CL_INVALID_KERNEL_NAME;
  return NULL;
}

static void each_call_may_fail(void **state) {
  const ocl_functions whole = ocl;
  static const struct {
    const char *name;
    size_t offset;
    int32_t rc;
  } calls[] = {
      {"clCreateBuffer", offsetof(ocl_functions, clCreateBuffer), ACCEL_PLUGIN_E_DEVICE_MEMORY},
      {"clCreateCommandQueue", offsetof(ocl_functions, clCreateCommandQueue),
       ACCEL_PLUGIN_E_HOST_MEMORY},
      {"clCreateProgramWithSource", offsetof(ocl_functions, clCreateProgramWithSource),
       ACCEL_PLUGIN_E_DEVICE_LOST},
      {"clBuildProgram", offsetof(ocl_functions, clBuildProgram), ACCEL_PLUGIN_E_DRIVER},
      {"clCreateKernel", offsetof(ocl_functions, clCreateKernel), ACCEL_PLUGIN_E_DRIVER},
      {"clSetKernelArg", offsetof(ocl_functions, clSetKernelArg), ACCEL_PLUGIN_E_DEVICE_LOST},
      {"unary_f32", offsetof(ocl_functions, clEnqueueNDRangeKernel), ACCEL_PLUGIN_E_DEVICE_LOST},
      {"clEnqueueReadBuffer", offsetof(ocl_functions, clEnqueueReadBuffer),
       ACCEL_PLUGIN_E_DEVICE_LOST},
      {"clEnqueueWriteBuffer", offsetof(ocl_functions, clEnqueueWriteBuffer),
       ACCEL_PLUGIN_E_DEVICE_LOST},
      {"clEnqueueCopyBuffer", offsetof(ocl_functions, clEnqueueCopyBuffer),
       ACCEL_PLUGIN_E_DEVICE_LOST},
      {"clFinish", offsetof(ocl_functions, clFinish), ACCEL_PLUGIN_E_DEVICE_LOST}};
  (void)state;
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    accel_plugin_error e;
    gpu_device *d = open_device(&e);
    atomic_store(&d->lost, true); /* nothing is left of the case before: no queue, no kernel */
    ocl_close(d);
    d = open_device(&e);
    void *stub = (void *)refuse_int;
    if (!strcmp(calls[i].name, "clCreateBuffer")) stub = (void *)refuse_buffer;
    if (!strcmp(calls[i].name, "clCreateCommandQueue")) stub = (void *)refuse_queue;
    if (!strcmp(calls[i].name, "clCreateProgramWithSource")) stub = (void *)refuse_object_4;
    if (!strcmp(calls[i].name, "clCreateKernel")) stub = (void *)refuse_kernel;
    memcpy((char *)&ocl + calls[i].offset, &stub, sizeof stub);
    assert_int_equal(scenario(d, NULL, 2, &e), calls[i].rc);
    assert_true(e.message[0] && e.native);
    if (!strcmp(calls[i].name, "clBuildProgram"))
      assert_non_null(strstr(e.message, "does not compile kernel unary_f32"));
    if (calls[i].rc == ACCEL_PLUGIN_E_DEVICE_MEMORY) assert_non_null(strstr(e.message, "smaller"));
    ocl = whole;
    assert_int_equal(atomic_load(&d->allocated), 0);
    if (calls[i].rc == ACCEL_PLUGIN_E_DEVICE_LOST) /* from then on */
      assert_int_equal(scenario(d, NULL, 2, &e), ACCEL_PLUGIN_E_DEVICE_LOST);
    ocl_close(d);
    d = open_device(&e);
    /* until the last endpoint is closed */
    assert_int_equal(scenario(d, NULL, 2, &e), ACCEL_PLUGIN_OK);
    ocl_close(d);
  }
}

static void ignore(void *self, const accel_plugin_step *step) { (void)self, (void)step; }

/* Of runs that are profiled; a mark without commands took no time. */
static void marks_tell_the_devices_time(void **state) {
  const accel_plugin_host watching = {.size = sizeof watching, .profile = ignore};
  accel_plugin_error e;
  gpu_device *d = open_device(&e);
  gpu_buffer *buffer = NULL;
  gpu_stream *s = NULL;
  const float x[N] = {0};
  double us[3] = {(double)NAN, (double)NAN, (double)NAN}, ms = 0;
  (void)state;
  assert_int_equal(ocl_alloc(d, 4 * N, false, &buffer, NULL, &e), ACCEL_PLUGIN_OK);
  const gpu_binding all = {buffer, 0, 4 * N};
  assert_int_equal(ocl_write(d, &all, x, &e), ACCEL_PLUGIN_OK);
  assert_int_equal(ocl_begin(d, &watching, &s, &e), ACCEL_PLUGIN_OK);
  assert_int_equal(add_ones(s, buffer, 3, &e), ACCEL_PLUGIN_OK);
  assert_int_equal(ocl_mark(s, &us[0], &e), ACCEL_PLUGIN_OK);
  assert_int_equal(add_ones(s, buffer, 100, &e), ACCEL_PLUGIN_OK);
  assert_int_equal(ocl_mark(s, &us[1], &e), ACCEL_PLUGIN_OK);
  assert_int_equal(ocl_end(s, false, &ms, &e), ACCEL_PLUGIN_OK);
  assert_true(us[0] > 0 && us[1] == 0 && us[2] != us[2]);
  ocl_release(d, buffer);
  assert_int_equal(scenario(d, NULL, 10, &e), ACCEL_PLUGIN_OK);
  ocl_close(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(commands_run_in_order), cmocka_unit_test(marks_tell_the_devices_time),
      cmocka_unit_test(host_memory_is_mapped), cmocka_unit_test(threads_share_a_device),
      cmocka_unit_test(binaries_are_cached),   cmocka_unit_test(each_call_may_fail)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
