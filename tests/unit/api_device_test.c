/* api_device_test.c - devices in hand: which are there, memory, tensors of every dtype to the
 * device and back, streams, what empty_cache gives back, and the refusals. */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "test_endpoint.h"

#define STUBS ACCEL_TEST_BUILD "/tests/stubs"

static const char *const every_device[] = {"cpu",
                                           "reference",
#if ACCEL_SANITIZER == 0 /* drivers leak of their own accord */
                                           "opencl",
                                           "vulkan",
                                           "hip-emulated:32",
                                           "hip-emulated:64"
#endif
};

static accel_device *device_of(accel *ctx, const char *name) {
  accel_device *d;
  assert_ok(accel_get_device(ctx, name, &d));
  return d;
}

static void the_cpu_is_a_device(void **state) {
  accel *ctx = test_context();
  accel_device *d = device_of(ctx, "cpu");
  accel_memory_summary m = accel_memory_summary_default();
  char *text, *version, *driver;
  (void)state;
  assert_string_equal(accel_get_device_type(d), "cpu");
  assert_string_equal(accel_get_device_info(d)->name, "cpu");
  assert_int_equal(accel_get_device_info(d)->usable, 1);
  assert_ok(accel_device_memory(d, &m));
  assert_true(m.total > 0 && m.free > 0 && m.free <= m.total);
  assert_int_equal(m.tensors, 0);
  assert_ok(accel_probe_precision(d, "fp16"));
  assert_int_equal(accel_probe_precision(d, "int3"), ACCEL_ERROR_PRECISION);
  assert_ok(accel_device_info_text(d, &text));
  assert_non_null(strstr(text, "cpu\n"));
  assert_non_null(strstr(text, "memory total"));
  assert_non_null(strstr(text, "fp16               computes"));
  accel_string_free(&text);
  assert_ok(accel_runtime_version(ctx, "cpu", &version, &driver));
  assert_string_equal(version, "");
  accel_string_free(&version);
  accel_string_free(&driver);
  assert_int_equal(accel_runtime_version(ctx, "abacus", &version, &driver), ACCEL_ERROR_ARGUMENT);
  accel_device_close(&d);
  assert_null(d);
  accel_device_close(&d);
  accel_destroy(&ctx);
}

/* Emulators and software drivers are never ROCm or CUDA; the reason is the error of get_device. */
static void no_card_is_said_honestly(void **state) {
  accel *ctx = test_context();
  accel_device *d = (accel_device *)(uintptr_t)1;
  int rocm = 7, cuda = 7;
  (void)state;
  assert_ok(accel_is_rocm_available(ctx, &rocm));
  assert_ok(accel_is_cuda_available(ctx, &cuda));
  assert_true((rocm == 0 || rocm == 1) && (cuda == 0 || cuda == 1));
  if (!rocm) {
    assert_int_equal(accel_get_device(ctx, "rocm", &d), ACCEL_ERROR_DEVICE_UNAVAILABLE);
    assert_null(d);
    assert_true(strlen(accel_last_error()) > 20);
  }
  assert_int_equal(accel_get_device(ctx, "nonesuch", &d), ACCEL_ERROR_ARGUMENT);
  accel_destroy(&ctx);
}

/* A card as a plugin tells it: available; a wrong vendor's and a software one: not. */
static void cards_are_told_apart(void **state) {
  accel_params params = accel_params_default();
  accel *ctx;
  accel_device *d;
  accel_device_tensor *t;
  int rocm, cuda;
  float value = 1;
  const accel_tensor one = {.name = "x", .dtype = ACCEL_F32, .rank = 1, .dim = {1}, .data = &value};
  (void)state;
  params.plugin_path = STUBS "/gpus";
  setenv("STUB_ROCM_DEVICES", "software;;Pretender;gfx0;|discrete;0000:0b:00.0;Card;gfx1030;", 1);
  setenv("STUB_CUDA_DEVICES", "software;;Pretender;sm_0;", 1);
  assert_ok(accel_create(&params, &ctx));
  assert_ok(accel_is_rocm_available(ctx, &rocm));
  assert_ok(accel_is_cuda_available(ctx, &cuda));
  assert_int_equal(rocm, 1);
  assert_int_equal(cuda, 0);
  d = device_of(ctx, "rocm");
  assert_string_equal(accel_get_device_type(d), "rocm");
  assert_int_equal(accel_probe_precision(d, "fp16"), ACCEL_ERROR_PRECISION);
  assert_non_null(strstr(accel_last_error(), "fp32 alone"));
  /* that plugin has no buffers */
  assert_int_equal(accel_to_device(d, &one, &t), ACCEL_ERROR_UNSUPPORTED);
  assert_null(t);
  accel_device_close(&d);
  accel_destroy(&ctx);
  unsetenv("STUB_ROCM_DEVICES");
  unsetenv("STUB_CUDA_DEVICES");
}

/* Sizes that are no whole words among them. */
static void round_trip(accel *ctx, const char *name) {
  static const struct {
    accel_dtype dtype;
    int64_t n, bytes;
  } kinds[] = {{ACCEL_F32, 257, 1028}, {ACCEL_U8, 1, 1},   {ACCEL_U8, 1023, 1023},
               {ACCEL_F16, 3, 6},      {ACCEL_I64, 5, 40}, {ACCEL_BOOL, 6, 6},
               {ACCEL_F32, 0, 0}};
  accel_device *d;
  accel_memory_summary m = accel_memory_summary_default();
  if (accel_get_device(ctx, name, &d) != ACCEL_OK) {
    print_message("%s is left out: %s\n", name, accel_last_error());
    return;
  }
  accel_device_tensor *t[7], *second;
  uint8_t bytes[2048];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 37 + 11);
  for (int k = 0; k < 7; k++) {
    const accel_tensor from = {
        .name = "x", .dtype = kinds[k].dtype, .rank = 1, .dim = {kinds[k].n}, .data = bytes + k};
    assert_ok(accel_to_device(d, &from, &t[k]));
    assert_int_equal(accel_device_tensor_view(t[k])->dim[0], kinds[k].n);
    assert_null(accel_device_tensor_view(t[k])->data);
  }
  assert_ok(accel_device_memory(d, &m));
  assert_int_equal(m.tensors, 7);
  assert_int_equal(m.tensor_bytes, 1028 + 1 + 1023 + 6 + 40 + 6);
  for (int k = 0; k < 7; k++) {
    accel_tensors *back;
    assert_ok(accel_to_host(t[k], &back));
    assert_string_equal(back->item[0].name, "x");
    assert_memory_equal(back->item[0].data, bytes + k, (size_t)kinds[k].bytes);
    accel_tensors_free(&back);
  }
  /* the stream: in order, so that the read comes after its write */
  accel_device_stream *stream, *same;
  uint8_t back[1000] = {0};
  const accel_tensor later = {.dtype = ACCEL_U8, .rank = 2, .dim = {10, 100}, .data = bytes + 900};
  assert_ok(accel_get_device_stream(d, &stream));
  assert_ok(accel_get_device_stream(d, &same));
  assert_ptr_equal(stream, same);
  assert_ok(accel_stream_to_device(stream, &later, &second));
  assert_int_equal(accel_stream_to_host(stream, second, back, 999), ACCEL_ERROR_ARGUMENT);
  assert_ok(accel_stream_to_host(stream, second, back, sizeof back));
  assert_ok(accel_synchronize(d));
  assert_memory_equal(back, bytes + 900, sizeof back);
  accel_device_tensor_free(&second);
  accel_device_close(&d); /* the tensors stay */
  for (int k = 0; k < 7; k++) accel_device_tensor_free(&t[k]);
  assert_null(t[0]);
}

static void tensors_go_there_and_back(void **state) {
  accel *ctx = test_context();
  (void)state;
  for (size_t i = 0; i < sizeof every_device / sizeof *every_device; i++)
    round_trip(ctx, every_device[i]);
  accel_destroy(&ctx);
}

static void bad_tensors_are_refused(void **state) {
  accel *ctx = test_context();
  accel_device *d = device_of(ctx, "reference");
  accel_device_tensor *t;
  float value = 1;
  accel_tensor bad = {.name = "x", .dtype = ACCEL_F32, .rank = 7, .data = &value};
  accel_memory_summary unset = {0};
  (void)state;
  assert_int_equal(accel_to_device(d, &bad, &t), ACCEL_ERROR_ARGUMENT);
  bad.rank = 1;
  bad.dim[0] = -1;
  assert_int_equal(accel_to_device(d, &bad, &t), ACCEL_ERROR_ARGUMENT);
  bad.dim[0] = INT64_MAX;
  assert_int_equal(accel_to_device(d, &bad, &t), ACCEL_ERROR_ARGUMENT);
  bad.dim[0] = 1;
  bad.dtype = (accel_dtype)9;
  assert_int_equal(accel_to_device(d, &bad, &t), ACCEL_ERROR_ARGUMENT);
  bad.dtype = ACCEL_F32;
  bad.data = NULL;
  assert_int_equal(accel_to_device(d, &bad, &t), ACCEL_ERROR_ARGUMENT);
  assert_null(t);
  assert_int_equal(accel_device_memory(d, &unset), ACCEL_ERROR_ARGUMENT);
  accel_device_close(&d);
  accel_destroy(&ctx);
}

/* Scratch that a run left comes back once; the queue is empty after synchronize; endpoints are
 * counted. */
static void caches_empty_and_queues_drain(void **state) {
  accel *ctx = test_context();
  accel_device *d = device_of(ctx, "cpu"), *other = device_of(ctx, "reference");
  accel_endpoint *ep = test_endpoint(ctx, "cpu");
  accel_memory_summary m = accel_memory_summary_default();
  accel_ticket *ticket[8];
  accel_tensors *out;
  test_input in;
  uint64_t released;
  (void)state;
  fill_input(&in, 3, 3, 11, 2);
  for (int i = 0; i < 8; i++) assert_ok(accel_submit(accel_queue_of(ep), &in.list, &ticket[i]));
  assert_ok(accel_synchronize(d));
  assert_int_equal(accel_queue_waiting(accel_queue_of(ep)), 0);
  for (int i = 0; i < 8; i++) {
    assert_ok(accel_wait(&ticket[i], 0, &out)); /* all are done: no waiting */
    accel_tensors_free(&out);
  }
  assert_ok(accel_device_memory(d, &m));
  assert_int_equal(m.endpoints, 1);
  assert_ok(accel_device_memory(other, &m));
  assert_int_equal(m.endpoints, 0);
  assert_ok(accel_empty_cache(ctx, other, &released));
  assert_int_equal(released, 0);
  assert_ok(accel_empty_cache(ctx, NULL, &released));
  assert_true(released > 0);
  assert_ok(accel_empty_cache(ctx, d, &released));
  assert_int_equal(released, 0);
  assert_ok(accel_run(ep, &in.list, &out)); /* and it runs on */
  accel_tensors_free(&out);
  accel_cleanup(&ep);
  accel_device_close(&d);
  accel_device_close(&other);
  accel_destroy(&ctx);
}

/* On GPUs scratch is device memory: it comes back there, too, and the next run is as the first. */
static void scratch_comes_back_everywhere(void **state) {
  accel *ctx = test_context();
  (void)state;
  for (size_t i = 0; i < sizeof every_device / sizeof *every_device; i++) {
    accel_init_params how = accel_init_params_default();
    accel_endpoint *ep;
    accel_tensors *first, *second;
    uint64_t released;
    test_input in;
    how.device = every_device[i];
    if (accel_init(ctx, TINY_BERT, &how, &ep) != ACCEL_OK) continue;
    fill_input(&in, 3, 3, 11, 2);
    assert_ok(accel_run(ep, &in.list, &first));
    assert_ok(accel_empty_cache(ctx, NULL, &released));
    if (!released) fail_msg("%s: nothing came back", how.device);
    assert_ok(accel_run(ep, &in.list, &second));
    const accel_tensor *a = output(first, "last_hidden_state"),
                       *b = output(second, "last_hidden_state");
    assert_memory_equal(a->data, b->data,
                        (size_t)(a->dim[0] * a->dim[1] * a->dim[2]) * sizeof(float));
    accel_tensors_free(&first);
    accel_tensors_free(&second);
    accel_cleanup(&ep);
  }
  accel_destroy(&ctx);
}

/* A card with a wrong kernel is passed over, by `auto` and in a chain, and the placement says why;
 * asked for alone it is an error. */
static void a_wrong_kernel_is_passed_over(void **state) {
  accel_params params = test_params();
  accel_init_params how = accel_init_params_default();
  accel *ctx;
  accel_endpoint *ep;
  accel_device *d;
  (void)state;
  setenv("STUB_BENT_PATH", ACCEL_TEST_PLUGINS "/libaccel_reference.so", 1);
  setenv("STUB_BENT", "rope.half", 1);
  params.plugin_path = STUBS "/bent:" ACCEL_TEST_PLUGINS;
  params.no_cache = 1;
  assert_ok(accel_create(&params, &ctx));
  how.device = "auto";
  assert_ok(accel_init(ctx, TINY_BERT, &how, &ep));
  const accel_placement_report *p = accel_placement(ep);
  assert_string_not_equal(p->device, "rocm:0");
  bool said = false;
  for (uint32_t i = 0; i < p->reasons->n; i++)
    said |= strstr(p->reasons->item[i], "rocm:0") && strstr(p->reasons->item[i], "rope.half");
  assert_true(said);
  accel_cleanup(&ep);
  how.device = "rocm:0,reference";
  assert_ok(accel_init(ctx, TINY_BERT, &how, &ep));
  assert_string_equal(accel_placement(ep)->device, "reference");
  accel_cleanup(&ep);
  how.device = "rocm:0";
  assert_int_equal(accel_init(ctx, TINY_BERT, &how, &ep), ACCEL_ERROR_DEVICE_UNAVAILABLE);
  assert_non_null(strstr(accel_last_error(), "rope.half"));
  assert_int_equal(accel_get_device(ctx, "rocm", &d), ACCEL_ERROR_DEVICE_UNAVAILABLE);
  int rocm = 1;
  assert_ok(accel_is_rocm_available(ctx, &rocm));
  assert_int_equal(rocm, 0);
  accel_destroy(&ctx);
  unsetenv("STUB_BENT");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_cpu_is_a_device),
                                     cmocka_unit_test(no_card_is_said_honestly),
                                     cmocka_unit_test(cards_are_told_apart),
                                     cmocka_unit_test(tensors_go_there_and_back),
                                     cmocka_unit_test(bad_tensors_are_refused),
                                     cmocka_unit_test(caches_empty_and_queues_drain),
                                     cmocka_unit_test(scratch_comes_back_everywhere),
                                     cmocka_unit_test(a_wrong_kernel_is_passed_over)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
