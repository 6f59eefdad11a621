/* gpu_linear_test.c - linear layers of the GPU plugins over an API that only notes which kernels
 * are dispatched: those that read the same x run in one launch, and x is narrowed for them once. */
#include "backend_helper.h"
#include "gpu/gpu_layer.h"

struct gpu_buffer {
  uint64_t bytes;
};
static uint32_t dispatched[GPU_KERNELS], marks;

static int32_t fake_open(uint32_t index, const accel_plugin_options *options, gpu_device **out,
                         gpu_limits *limits, accel_plugin_error *error) {
  (void)index, (void)options, (void)error;
  *out = NULL;
  *limits = (gpu_limits){.binding = 64u << 20,
                         .buffer = 64u << 20,
                         .align = 256,
                         .groups = {65535, 65535, 65535},
                         .wave = 32};
  return ACCEL_PLUGIN_OK;
}
static void fake_close(gpu_device *device) { (void)device; }
static int32_t fake_alloc(gpu_device *device, uint64_t bytes, bool host, gpu_buffer **out,
                          void **mapped, accel_plugin_error *error) {
  (void)device, (void)host, (void)mapped, (void)error;
  *out = malloc(sizeof **out);
  (*out)->bytes = bytes;
  return ACCEL_PLUGIN_OK;
}
static void fake_release(gpu_device *device, gpu_buffer *buffer) {
  (void)device;
  free(buffer);
}
static int32_t fake_write(gpu_device *device, const gpu_binding *to, const void *from,
                          accel_plugin_error *error) {
  (void)device, (void)from, (void)error;
  assert_true(to->offset + to->bytes <= to->buffer->bytes);
  return ACCEL_PLUGIN_OK;
}
static int32_t fake_read(gpu_device *device, void *to, const gpu_binding *from,
                         accel_plugin_error *error) {
  (void)device, (void)error;
  memset(to, 0, from->bytes);
  return ACCEL_PLUGIN_OK;
}
static int32_t fake_begin(gpu_device *device, const accel_plugin_host *host, gpu_stream **out,
                          accel_plugin_error *error) {
  (void)device, (void)host, (void)error;
  *out = NULL;
  return ACCEL_PLUGIN_OK;
}
static int32_t fake_dispatch(gpu_stream *stream, const gpu_dispatch *what,
                             accel_plugin_error *error) {
  (void)stream, (void)error;
  assert_int_equal(what->n_bind, gpu_kernels[what->kernel].n_bind);
  assert_int_equal(what->params_bytes, gpu_kernels[what->kernel].params_bytes);
  dispatched[what->kernel]++;
  return ACCEL_PLUGIN_OK;
}
static int32_t fake_mark(gpu_stream *stream, double *us, accel_plugin_error *error) {
  (void)stream, (void)error;
  *us = 1;
  marks++;
  return ACCEL_PLUGIN_OK;
}
static int32_t fake_end(gpu_stream *stream, bool abandon, double *device_ms,
                        accel_plugin_error *error) {
  (void)stream, (void)abandon, (void)device_ms, (void)error;
  return ACCEL_PLUGIN_OK;
}
const gpu_api gpu_plugin_api = {.open = fake_open,
                                .close = fake_close,
                                .alloc = fake_alloc,
                                .release = fake_release,
                                .write = fake_write,
                                .read = fake_read,
                                .begin = fake_begin,
                                .dispatch = fake_dispatch,
                                .mark = fake_mark,
                                .end = fake_end};
static const kit_backend backend = {.name = "fake", GPU_BACKEND_HOOKS};

enum { ROWS = 4, COLS = 8, PRODUCTS = 4, FULL = 1 }; /* product FULL has an fp32 weight */
static uint32_t steps, nodes, device_steps;

static void note_step(void *self, const accel_plugin_step *step) {
  (void)self;
  steps++;
  nodes += step->n_node;
  device_steps += step->clock == ACCEL_PLUGIN_CLOCK_DEVICE;
}

/* x[T,8] times four weights [8,8], all fp16 but one. */
static accel__program *products(void) {
  accel__program *p = accel__program_new("products");
  accel__dim dims[2] = {accel__symbol(p, "T", 1, 64, 8), accel__const_dim(p, COLS)};
  accel__tensor x = accel__input(p, "x", ACCEL_PLUGIN_F32, -1, 2, dims), y[PRODUCTS];
  for (int i = 0; i < PRODUCTS; i++) {
    const char *const name[PRODUCTS] = {"q", "full", "k", "v"};
    accel__weight_spec spec = {
        .name = name[i], .use = ACCEL_PLUGIN_USE_LINEAR, .rank = 2, .dim = {COLS, COLS}};
    y[i] = accel__linear(p, x, accel__weight(p, &spec), -1, -1, ACCEL_PLUGIN_ACT_NONE);
  }
  accel__entry(p, "run", &x, 1, y, PRODUCTS);
  assert_int_equal(accel__program_finish(p), ACCEL_OK);
  return p;
}

static accel_plugin_endpoint *open_endpoint(const accel__program *p, toy_host *h,
                                            uint32_t variants) {
  accel_plugin_format format[PRODUCTS];
  accel_plugin_error error = {.size = sizeof error};
  for (int i = 0; i < PRODUCTS; i++)
    format[i] = (accel_plugin_format){i == FULL ? ACCEL_PLUGIN_F32 : ACCEL_PLUGIN_F16,
                                      ACCEL_PLUGIN_NO_DTYPE,
                                      ACCEL_PLUGIN_NO_DTYPE,
                                      ACCEL_PLUGIN_NO_DTYPE,
                                      0,
                                      0};
  accel_plugin_options o = {
      .size = sizeof o,
      .host = &h->host,
      .precision = {.size = sizeof o.precision, .name = "fp16", .format = format}};
  accel_plugin_endpoint *e = NULL;
  assert_int_equal(kit_init(&backend, 0, accel__program_view(p), &o, &e, &error), ACCEL_PLUGIN_OK);
  ((gpu_self *)kit_endpoint_self(e))->variants = variants;
  return e;
}

static void run(const accel__program *p, uint32_t variants) {
  static const float zeros[COLS * COLS];
  const float *const weights[PRODUCTS] = {zeros, zeros, zeros, zeros};
  float x[ROWS * COLS] = {0}, y[PRODUCTS][ROWS * COLS];
  toy_host h;
  toy_host_init(&h, weights);
  accel_plugin_endpoint *e = open_endpoint(p, &h, variants);
  accel_plugin_view in = toy_view(0, x, 2, ROWS, COLS), out[PRODUCTS];
  for (int i = 0; i < PRODUCTS; i++)
    out[i] = (accel_plugin_view){.size = sizeof in, .host = y[i], .capacity = sizeof y[i]};
  memset(dispatched, 0, sizeof dispatched);
  steps = nodes = marks = device_steps = 0;
  h.host.profile = note_step;
  accel_plugin_run r = {.size = sizeof r, .host = &h.host};
  accel_plugin_error error = {.size = sizeof error};
  const int32_t rc = kit_handler(e, NULL, &r, &in, 1, out, PRODUCTS, &error);
  if (rc) print_error("%s\n", error.message);
  assert_int_equal(rc, ACCEL_PLUGIN_OK);
  kit_cleanup(e, &h.host);
}

/* The three fp16 products in one launch, which narrows x once; each is marked for the profile. */
static void products_of_one_x_share_its_codes(void **state) {
  accel__program *p = products();
  (void)state;
  run(p, GPU_VARIANT_MATRIX_F16);
  assert_int_equal(dispatched[GPU_K_codes_f16], 1);
  assert_int_equal(dispatched[GPU_K_linear_matrix_few32_f16], PRODUCTS - 1);
  assert_int_equal(dispatched[GPU_K_linear_few_f32], 1);
  assert_int_equal(steps, 2);
  assert_int_equal(device_steps, 2);
  assert_int_equal(nodes, PRODUCTS);
  assert_int_equal(marks, PRODUCTS);
  accel__program_free(&p);
}

/* Nothing is shared where activations are read as they are. */
static void plain_products_stay_apart(void **state) {
  accel__program *p = products();
  (void)state;
  run(p, 0);
  assert_int_equal(dispatched[GPU_K_codes_f16], 0);
  assert_int_equal(dispatched[gpu_kernel_of_store(GPU_K_linear_few_f32, GPU_STORE_F16)],
                   PRODUCTS - 1);
  assert_int_equal(dispatched[GPU_K_linear_few_f32], 1);
  assert_int_equal(steps, PRODUCTS);
  accel__program_free(&p);
}

/* Parameters of one kernel are refused by another, and so is a buffer too few. */
static void parameters_are_of_the_kernel(void **state) {
  accel_plugin_program program = {.size = sizeof program};
  accel_plugin_node node = {.op = ACCEL_PLUGIN_OP_SOFTMAX};
  accel_plugin_error error = {.size = sizeof error};
  const kit_launch l = {.program = &program, .node = &node};
  gpu_self self = {.limits = {.binding = 1024, .groups = {8, 8, 8}}};
  gpu_run r = {.self = &self, .program = &program};
  gpu_buffer buffer = {64};
  const gpu_binding b = {.buffer = &buffer, .bytes = 64};
  const gpu_params_softmax_rows right = {.rows = 1, .cols = 4};
  const gpu_params_reduce_rows other = {.rows = 1, .n = 4};
  (void)state;
  for (int wrong = 0; wrong < 3; wrong++) {
    gpu_call c = gpu_call_new(&r, &l, GPU_K_softmax_rows);
    for (int i = wrong == 2; i < 2; i++) gpu_bind(&c, b);
    if (wrong == 1)
      gpu_set_reduce_rows(&c, &other);
    else
      gpu_set_softmax_rows(&c, &right);
    const int32_t rc = gpu_dispatch_rows(&c, 1, &error);
    assert_int_equal(rc, wrong ? ACCEL_PLUGIN_E_UNSUPPORTED : ACCEL_PLUGIN_OK);
    if (wrong) assert_non_null(strstr(error.message, "softmax_rows takes 2 buffers"));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(products_of_one_x_share_its_codes),
                                     cmocka_unit_test(plain_products_stay_apart),
                                     cmocka_unit_test(parameters_are_of_the_kernel)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
