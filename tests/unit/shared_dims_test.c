/* shared_dims_test.c - arithmetic of dims: overflow, floor and ceiling division, one unknown
 * solved, shapes bound, and the runs of an endpoint that size their outputs by it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dispatch/endpoint.h"
#include "dispatch/run_scratch.h"
#include "shared/dim_expr.h"

static void operators(void **state) {
  (void)state;
  const int64_t none = ACCEL_DIM_UNBOUND;
  static const struct {
    int32_t op;
    int64_t a, b, want;
  } cases[] = {
      {ACCEL_PLUGIN_DIM_ADD, INT64_MAX, 1, INT64_MIN},
      {ACCEL_PLUGIN_DIM_ADD, 3, -5, -2},
      {ACCEL_PLUGIN_DIM_SUB, -2, INT64_MAX, INT64_MIN},
      {ACCEL_PLUGIN_DIM_MUL, INT64_C(1) << 33, INT64_C(1) << 33, INT64_MIN},
      {ACCEL_PLUGIN_DIM_MUL, -3, 4, -12},
      {ACCEL_PLUGIN_DIM_FLOORDIV, -7, 2, -4},
      {ACCEL_PLUGIN_DIM_FLOORDIV, 7, -2, -4},
      {ACCEL_PLUGIN_DIM_FLOORDIV, 7, 2, 3},
      {ACCEL_PLUGIN_DIM_FLOORDIV, 7, 0, INT64_MIN},
      {ACCEL_PLUGIN_DIM_CEILDIV, -7, 2, -3},
      {ACCEL_PLUGIN_DIM_CEILDIV, 7, 2, 4},
      {ACCEL_PLUGIN_DIM_CEILDIV, INT64_MAX, 2, INT64_C(1) << 62},
      {ACCEL_PLUGIN_DIM_CEILDIV, 7, 0, INT64_MIN},
      {ACCEL_PLUGIN_DIM_MIN, 7, -2, -2},
      {ACCEL_PLUGIN_DIM_MAX, 7, -2, 7},
      {99, 7, 2, INT64_MIN},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_int_equal(accel_dim_apply(cases[i].op, cases[i].a, cases[i].b), cases[i].want);
  for (int32_t op = ACCEL_PLUGIN_DIM_ADD; op <= ACCEL_PLUGIN_DIM_MAX; op++) {
    assert_int_equal(accel_dim_apply(op, none, 1), none);
    assert_int_equal(accel_dim_apply(op, 1, none), none);
  }
}

/* N, M; 2, N*2, N*N, N-M, N/^2 */
enum { DIM_N, DIM_M, DIM_2, DIM_2N, DIM_NN, DIM_SUB, DIM_HALF, N_DIM };
static const accel_plugin_symbol symbols[] = {{.name = "N"}, {.name = "M"}};
static const accel_plugin_dim dims[N_DIM] = {
    {.op = ACCEL_PLUGIN_DIM_SYMBOL, .a = 0, .b = -1},
    {.op = ACCEL_PLUGIN_DIM_SYMBOL, .a = 1, .b = -1},
    {.op = ACCEL_PLUGIN_DIM_CONST, .a = -1, .b = -1, .c = 2},
    {.op = ACCEL_PLUGIN_DIM_MUL, .a = DIM_N, .b = DIM_2},
    {.op = ACCEL_PLUGIN_DIM_MUL, .a = DIM_N, .b = DIM_N},
    {.op = ACCEL_PLUGIN_DIM_SUB, .a = DIM_N, .b = DIM_M},
    {.op = ACCEL_PLUGIN_DIM_CEILDIV, .a = DIM_N, .b = DIM_2},
};

static bool bind(int32_t dim0, int64_t size0, int32_t dim1, int64_t size1, int64_t *symbol,
                 int64_t *value, accel_dims_misfit *m) {
  static const int32_t in[2] = {0, 1};
  const accel_plugin_tensor t[2] = {{.rank = 1, .dim = {dim0}}, {.rank = 1, .dim = {dim1}}};
  const accel_plugin_program p = {
      .n_symbol = 2, .symbol = symbols, .n_dim = N_DIM, .dim = dims, .n_tensor = 2, .tensor = t};
  const accel_plugin_entry e = {.n_in = 2, .in = in};
  const accel_plugin_view v[2] = {{.rank = 1, .dim = {size0}}, {.rank = 1, .dim = {size1}}};
  return accel_dims_bind(&p, &e, v, symbol, value, m);
}

static void binding(void **state) {
  (void)state;
  int64_t symbol[2], value[N_DIM];
  accel_dims_misfit m;
  assert_true(bind(DIM_SUB, 3, DIM_2N, 20, symbol, value, &m)); /* N is known in round two */
  assert_int_equal(symbol[0], 10);
  assert_int_equal(symbol[1], 7);
  assert_int_equal(value[DIM_HALF], 5);
  assert_false(bind(DIM_2N, 7, DIM_M, 1, symbol, value, &m)); /* no multiple */
  assert_int_equal(m.input, 0);
  assert_int_equal(m.expected, ACCEL_DIM_UNBOUND);
  assert_false(bind(DIM_N, 4, DIM_2N, 9, symbol, value, &m));
  assert_int_equal(m.input, 1);
  assert_int_equal(m.got, 9);
  assert_int_equal(m.expected, 8);
  assert_true(bind(DIM_N, 4, DIM_M, ACCEL_DIM_UNBOUND, symbol, value, &m)); /* absent */
  assert_int_equal(symbol[1], ACCEL_DIM_UNBOUND);
  assert_int_equal(value[DIM_SUB], ACCEL_DIM_UNBOUND);
  assert_false(bind(DIM_HALF, 4, DIM_M, 1, symbol, value, &m)); /* one of two: not solved */
  assert_true(bind(DIM_N, INT64_C(1) << 33, DIM_M, 1, symbol, value, &m));
  assert_int_equal(value[DIM_NN], ACCEL_DIM_UNBOUND); /* 2^66 */
}

/* ---- a run whose output would have 2^66 elements ---- */

static uint32_t handler_calls;
static int32_t handler(accel_plugin_endpoint *endpoint, accel_plugin_session *session,
                       accel_plugin_run *run, const accel_plugin_view *in, uint32_t n_in,
                       accel_plugin_view *out, uint32_t n_out, accel_plugin_error *error) {
  (void)endpoint, (void)session, (void)run, (void)in, (void)n_in, (void)out, (void)n_out;
  (void)error;
  handler_calls++;
  return ACCEL_PLUGIN_OK;
}

static void outputs_do_not_wrap(void **state) {
  (void)state;
  accel__program *p = accel__program_new("square");
  accel__dim n = accel__symbol(p, "N", 1, 0, 4),
             square = accel__dim_op(p, ACCEL_PLUGIN_DIM_MUL, n, n);
  accel__tensor x = accel__input(p, "x", ACCEL_PLUGIN_F32, -1, 1, &n);
  accel__dim one = accel__const_dim(p, 1);
  accel__tensor pairs =
      accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, accel__reshape(p, x, 2, (accel__dim[]){n, one}),
                    accel__reshape(p, x, 2, (accel__dim[]){one, n}));
  accel__tensor y = accel__reshape(p, pairs, 1, &square);
  accel__entry(p, "forward", &x, 1, &y, 1);
  if (accel__program_finish(p) != ACCEL_OK) fail_msg("%s", accel__message());
  const accel__model_input input = {
      .name = "x", .tensor = x, .kind = ACCEL__INPUT_ITEM, .otherwise = ACCEL__DEFAULT_REQUIRED};
  const accel__model_output output = {.name = "y", .tensor = y};
  const accel__model_entry entry = {
      .name = "forward", .inputs = &input, .n_inputs = 1, .outputs = &output, .n_outputs = 1};
  accel__model model = {.program = p,
                        .inputs = &input,
                        .n_inputs = 1,
                        .outputs = &output,
                        .n_outputs = 1,
                        .entries = &entry};
  accel ctx = {0};
  const accel_plugin plugin = {.size = sizeof plugin, .handler = handler};
  accel_endpoint ep = {.ctx = &ctx, .name = "square", .model = &model, .placed.plugin = &plugin};
  pthread_rwlock_init(&ep.in_use, NULL);
  const uint32_t first = 0;
  float data[4] = {1, 2, 3, 4};
  accel__result result = {0};
  accel__batch batch = {.item = {{.data = data, .rank = 1, .dim = {4}}}};
  assert_int_equal(accel__endpoint_run(&ep, 0, &batch, &first, 1, &result), ACCEL_OK);
  assert_int_equal(result.bytes, 16 * sizeof(float));
  assert_int_equal(handler_calls, 1);
  batch.item[0].dim[0] = INT64_C(1) << 32; /* the square is 2^64, which wrapped to 0 */
  assert_int_not_equal(accel__endpoint_run(&ep, 0, &batch, &first, 1, &result), ACCEL_OK);
  assert_non_null(strstr(accel__message(), "'reshape"));
  assert_int_equal(handler_calls, 1); /* the plugin never saw a buffer that is too small */
  free(result.data);
  accel__run_scratch_free(&ep);
  pthread_rwlock_destroy(&ep.in_use);
  accel__program_free(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(operators), cmocka_unit_test(binding),
                                     cmocka_unit_test(outputs_do_not_wrap)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
