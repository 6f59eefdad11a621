/* program_build_test.c - dims, naming, weights, entries, fusion, errors with names, dumps and
 * hashes of the program builder.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "program/program.h"

typedef struct base {
  accel__program *p;
  accel__dim T, B;
  int32_t space;
  accel__tensor lengths, ids, x; /* x [T,8] */
} base;

static base begin(void) {
  base b = {.p = accel__program_new("test")};
  assert_non_null(b.p);
  b.T = accel__symbol(b.p, "T", 1, 512, 16);
  b.B = accel__symbol(b.p, "B", 1, 0, 1);
  b.lengths = accel__input(b.p, "lengths", ACCEL_PLUGIN_I32, -1, 1, &b.B);
  b.space = accel__space_ragged(b.p, "tokens", b.lengths, b.T, b.B);
  b.ids = accel__input(b.p, "ids", ACCEL_PLUGIN_I32, b.space, 1, &b.T);
  b.x = accel__input(b.p, "x", ACCEL_PLUGIN_F32, b.space, 2,
                     (accel__dim[]){b.T, accel__const_dim(b.p, 8)});
  return b;
}

static accel__tensor matrix(base *b, const char *name, int64_t n, int64_t k) {
  return accel__weight(b->p,
                       &(accel__weight_spec){
                           .name = name, .use = ACCEL_PLUGIN_USE_LINEAR, .rank = 2, .dim = {n, k}});
}

static void finish(base *b, accel__tensor out) {
  accel__entry(b->p, "forward", (accel__tensor[]){b->lengths, b->ids, b->x}, 3, &out, 1);
  if (accel__program_finish(b->p) != ACCEL_OK) fail_msg("%s", accel__message());
}

static void expect_failure(base *b, const char *part) {
  accel__entry(b->p, "forward", NULL, 0, NULL, 0);
  assert_int_not_equal(accel__program_finish(b->p), ACCEL_OK);
  if (strstr(accel__message(), part) == NULL)
    fail_msg("'%s' is not in: %s", part, accel__message());
  accel__program_free(&b->p);
}

/* ---- dims ---- */

static void test_dims_fold(void **state) {
  (void)state;
  base b = begin();
  int64_t v;
  accel__dim two = accel__const_dim(b.p, 2), three = accel__const_dim(b.p, 3);
  assert_true(accel__dim_value(b.p, accel__dim_op(b.p, ACCEL_PLUGIN_DIM_MUL, two, three), &v) &&
              v == 6);
  assert_true(
      accel__dim_value(
          b.p, accel__dim_op(b.p, ACCEL_PLUGIN_DIM_CEILDIV, accel__const_dim(b.p, 7), two), &v) &&
      v == 4);
  assert_true(
      accel__dim_value(
          b.p, accel__dim_op(b.p, ACCEL_PLUGIN_DIM_FLOORDIV, accel__const_dim(b.p, -7), two), &v) &&
      v == -4);
  /* shared */
  assert_int_equal(accel__const_dim(b.p, 6), accel__dim_op(b.p, ACCEL_PLUGIN_DIM_MUL, two, three));
  accel__dim zero = accel__const_dim(b.p, 0), one = accel__const_dim(b.p, 1);
  assert_int_equal(accel__dim_op(b.p, ACCEL_PLUGIN_DIM_ADD, b.T, zero), b.T);
  assert_int_equal(accel__dim_op(b.p, ACCEL_PLUGIN_DIM_MUL, one, b.T), b.T);
  assert_int_equal(accel__dim_op(b.p, ACCEL_PLUGIN_DIM_MUL, b.T, zero), zero);
  assert_int_equal(accel__dim_op(b.p, ACCEL_PLUGIN_DIM_SUB, b.T, b.T), zero);
  assert_int_equal(accel__dim_op(b.p, ACCEL_PLUGIN_DIM_MIN, b.T, b.T), b.T);
  assert_int_equal(accel__dim_op(b.p, ACCEL_PLUGIN_DIM_ADD, b.T, b.B),
                   accel__dim_op(b.p, ACCEL_PLUGIN_DIM_ADD, b.B, b.T));
  accel__dim t6 = accel__dim_op(b.p, ACCEL_PLUGIN_DIM_MUL,
                                accel__dim_op(b.p, ACCEL_PLUGIN_DIM_MUL, b.T, two), three);
  assert_int_equal(t6, accel__dim_op(b.p, ACCEL_PLUGIN_DIM_MUL, b.T, accel__const_dim(b.p, 6)));
  assert_int_equal(accel__dim_op(b.p, ACCEL_PLUGIN_DIM_FLOORDIV, t6, accel__const_dim(b.p, 6)),
                   b.T);
  assert_false(accel__dim_value(b.p, b.T, &v));
  assert_false(accel__program_failed(b.p));
  accel__program_free(&b.p);
}

static void test_dims_fail(void **state) {
  (void)state;
  base b = begin();
  assert_int_equal(accel__dim_op(b.p, ACCEL_PLUGIN_DIM_FLOORDIV, b.T, accel__const_dim(b.p, 0)),
                   -1);
  expect_failure(&b, "divided by zero");
  b = begin();
  accel__dim huge = accel__const_dim(b.p, INT64_MAX);
  assert_int_equal(accel__dim_op(b.p, ACCEL_PLUGIN_DIM_ADD, huge, accel__const_dim(b.p, 1)), -1);
  expect_failure(&b, "overflows");
  b = begin();
  assert_int_equal(accel__symbol(b.p, "T", 1, 2, 1), -1);
  expect_failure(&b, "symbol 'T' is defined twice");
  b = begin();
  assert_int_equal(accel__symbol(b.p, "S", 5, 2, 1), -1);
  expect_failure(&b, "is empty");
}

/* ---- weights ---- */

static void test_weights(void **state) {
  (void)state;
  base b = begin();
  accel__tensor w = matrix(&b, "w", 4, 8);
  assert_int_equal(matrix(&b, "w", 4, 8), w); /* tied */
  const accel__weight_spec *spec = accel__weight_source(b.p, 0);
  assert_non_null(spec);
  assert_string_equal(spec->parts[0], "w");
  assert_int_equal(spec->n_parts, 1);
  assert_int_equal(matrix(&b, "w", 5, 8), -1);
  expect_failure(&b, "'w' is wanted with two different shapes");
  b = begin();
  assert_int_equal(matrix(&b, "empty", 0, 8), -1);
  expect_failure(&b, "'empty'");
  b = begin();
  assert_int_equal(matrix(&b, "huge", INT64_MAX, INT64_MAX), -1);
  expect_failure(&b, "too large");
}

/* ---- errors name node, op and operands; they are sticky ---- */

static void test_errors(void **state) {
  (void)state;
  base b = begin();
  accel__at(b.p, 3, "layer.3.mlp");
  assert_int_equal(accel__linear(b.p, b.x, matrix(&b, "w", 4, 9), -1, -1, ACCEL_PLUGIN_ACT_NONE),
                   -1);
  assert_true(accel__program_failed(b.p));
  /* nothing happens after a failure */
  assert_int_equal(accel__gather(b.p, matrix(&b, "t", 4, 9), b.ids), -1);
  expect_failure(&b,
                 "node 'layer.3.mlp.linear' (linear): the last dim of x is not the K of w; "
                 "operands x [T,8] 'x', w [4,9] 'w'");

  b = begin();
  accel__attr wrong[] = {ACCEL_I(HEADS, 3)};
  assert_int_equal(accel__node(b.p, ACCEL_PLUGIN_OP_LINEAR,
                               (accel__tensor[]){b.x, matrix(&b, "w", 4, 8)}, 2, wrong, 1, NULL, 1),
                   -1);
  expect_failure(&b, "attribute heads does not belong to this op");

  b = begin();
  accel__attr unknown[] = {ACCEL_I(ACT, 99)};
  accel__node(b.p, ACCEL_PLUGIN_OP_LINEAR, (accel__tensor[]){b.x, matrix(&b, "w", 4, 8)}, 2,
              unknown, 1, NULL, 1);
  expect_failure(&b, "attribute act has no value 99");

  b = begin();
  accel__attr twice[] = {ACCEL_I(AXIS, 0), ACCEL_I(AXIS, 0)};
  accel__node(b.p, ACCEL_PLUGIN_OP_SOFTMAX, &b.x, 1, twice, 2, NULL, 1);
  expect_failure(&b, "attribute axis is given twice");

  b = begin();
  accel__attr typed[] = {ACCEL_F(AXIS, 0.5)};
  accel__node(b.p, ACCEL_PLUGIN_OP_SOFTMAX, &b.x, 1, typed, 1, NULL, 1);
  expect_failure(&b, "attribute axis has the wrong type");

  b = begin();
  accel__gather(b.p, matrix(&b, "t", 9, 8), b.x);
  expect_failure(&b, "operand idx must be int32");

  b = begin();
  accel__node(b.p, ACCEL_PLUGIN_OP_LINEAR, (accel__tensor[]){b.x, -1}, 2, NULL, 0, NULL, 1);
  expect_failure(&b, "operand w is absent");

  b = begin();
  accel__node(b.p, ACCEL_PLUGIN_OP_UNARY, &b.x, 1, NULL, 0, NULL, 1);
  expect_failure(&b, "attribute kind is missing");

  b = begin();
  accel__program_fail(b.p, ACCEL_ERROR_UNSUPPORTED, "hidden_act '%s'", "foo");
  accel__program_fail(b.p, ACCEL_ERROR_FORMAT, "a later one");
  expect_failure(&b, "hidden_act 'foo'");
}

static void test_entry_errors(void **state) {
  (void)state;
  base b = begin();
  accel__tensor y = accel__unary(b.p, ACCEL_PLUGIN_ACT_RELU, b.x);
  accel__entry(b.p, "forward", &b.ids, 1, &y, 1); /* x is not among the inputs */
  assert_int_not_equal(accel__program_finish(b.p), ACCEL_OK);
  assert_non_null(strstr(accel__message(), "needs 'x'"));
  accel__program_free(&b.p);
  b = begin();
  assert_int_equal(accel__program_finish(b.p), ACCEL_ERROR_INTERNAL);
  assert_non_null(strstr(accel__message(), "no entry"));
  accel__program_free(&b.p);
}

/* ---- entries hold what they need, in order; names are unique ---- */

static void test_entries(void **state) {
  (void)state;
  base b = begin();
  accel__at(b.p, 0, "a");
  accel__tensor y = accel__unary(b.p, ACCEL_PLUGIN_UNARY_EXP, b.x),
                z = accel__unary(b.p, ACCEL_PLUGIN_UNARY_NEG, b.x);
  accel__tensor in[] = {b.lengths, b.ids, b.x};
  accel__entry(b.p, "one", in, 3, &y, 1);
  accel__entry(b.p, "two", in, 3, (accel__tensor[]){z, y}, 2);
  assert_int_equal(accel__program_finish(b.p), ACCEL_OK);
  const accel_plugin_program *v = accel__program_view(b.p);
  assert_int_equal(v->n_entry, 2);
  assert_int_equal(v->entry[0].n_node, 1);
  assert_int_equal(v->entry[1].n_node, 2);
  assert_string_equal(v->tensor[y].name, "a.unary");
  assert_string_equal(v->tensor[z].name, "a.unary.2");
  assert_int_equal(v->tensor[y].space, b.space);
  accel__program_free(&b.p);
}

/* ---- fusion ---- */

static void test_fusion(void **state) {
  (void)state;
  base b = begin();
  accel__tensor y = accel__linear(b.p, b.x, matrix(&b, "w", 8, 8), -1, -1, ACCEL_PLUGIN_ACT_NONE);
  y = accel__unary(b.p, ACCEL_PLUGIN_ACT_GELU, y);
  y = accel__binary(b.p, ACCEL_PLUGIN_BINARY_ADD, b.x, y);
  finish(&b, y);
  const accel_plugin_program *v = accel__program_view(b.p);
  assert_int_equal(v->n_node, 1);
  assert_int_equal(v->node[0].op, ACCEL_PLUGIN_OP_LINEAR);
  assert_int_equal(v->node[0].n_in, 4);
  assert_int_equal(v->node[0].in[3], b.x);
  assert_int_equal(v->node[0].attr[0].i, ACCEL_PLUGIN_ACT_GELU);
  assert_int_equal(v->node[0].out[0], y);
  accel__program_free(&b.p);
}

static void test_fusion_refuses(void **state) {
  (void)state;
  base b = begin(); /* the linear has a second reader */
  accel__tensor y = accel__linear(b.p, b.x, matrix(&b, "w", 8, 8), -1, -1, ACCEL_PLUGIN_ACT_NONE);
  accel__tensor z =
      accel__binary(b.p, ACCEL_PLUGIN_BINARY_MUL, accel__unary(b.p, ACCEL_PLUGIN_ACT_RELU, y), y);
  finish(&b, z);
  assert_int_equal(accel__program_view(b.p)->n_node, 3);
  accel__program_free(&b.p);

  b = begin(); /* an activation behind a residual is not linear's order */
  y = accel__linear(b.p, b.x, matrix(&b, "w", 8, 8), -1, b.x, ACCEL_PLUGIN_ACT_NONE);
  finish(&b, accel__unary(b.p, ACCEL_PLUGIN_ACT_RELU, y));
  assert_int_equal(accel__program_view(b.p)->n_node, 2);
  accel__program_free(&b.p);

  b = begin(); /* y + y */
  y = accel__linear(b.p, b.x, matrix(&b, "w", 8, 8), -1, -1, ACCEL_PLUGIN_ACT_NONE);
  finish(&b, accel__binary(b.p, ACCEL_PLUGIN_BINARY_ADD, y, y));
  assert_int_equal(accel__program_view(b.p)->n_node, 2);
  accel__program_free(&b.p);

  b = begin(); /* broadcasting is no residual */
  y = accel__linear(b.p, b.x, matrix(&b, "w", 8, 8), -1, -1, ACCEL_PLUGIN_ACT_NONE);
  accel__tensor row = accel__weight(
      b.p,
      &(accel__weight_spec){.name = "row", .use = ACCEL_PLUGIN_USE_PLAIN, .rank = 1, .dim = {8}});
  finish(&b, accel__binary(b.p, ACCEL_PLUGIN_BINARY_ADD, y, row));
  assert_int_equal(accel__program_view(b.p)->n_node, 2);
  accel__program_free(&b.p);
}

/* ---- showing, hashing, validating ---- */

static uint64_t hash_of(float constant, int act) {
  base b = begin();
  accel__tensor c = accel__constant_f32(b.p, "c", 1, (int64_t[]){1}, &constant);
  accel__tensor y = accel__linear(b.p, b.x, matrix(&b, "w", 8, 8), -1, -1, (accel_plugin_act)act);
  finish(&b, accel__binary(b.p, ACCEL_PLUGIN_BINARY_MUL, y, c));
  uint64_t hash = accel__program_view(b.p)->hash;
  accel__program_free(&b.p);
  return hash;
}

static void test_hash(void **state) {
  (void)state;
  assert_true(hash_of(1.0f, 0) == hash_of(1.0f, 0));
  assert_true(hash_of(1.0f, 0) != hash_of(2.0f, 0));
  assert_true(hash_of(1.0f, 0) != hash_of(1.0f, ACCEL_PLUGIN_ACT_RELU));
}

static void test_dumps(void **state) {
  (void)state;
  base b = begin();
  accel__at(b.p, 2, "layer");
  finish(&b, accel__linear(b.p, b.x, matrix(&b, "w\"", 4, 8), -1, -1, ACCEL_PLUGIN_ACT_SILU));
  accel__buffer text = {0}, dot = {0};
  accel__program_text(accel__program_view(b.p), &text);
  accel__program_dot(accel__program_view(b.p), &dot);
  assert_non_null(
      strstr(text.data, "@2  layer.linear f32[T,4] in tokens = linear(x, w\") act=silu"));
  assert_non_null(strstr(text.data, "space tokens rows T items B ragged by lengths"));
  assert_non_null(strstr(dot.data, "digraph \"test\""));
  assert_non_null(strstr(dot.data, "linear\\nlayer.linear"));
  accel__buffer_free(&text);
  accel__buffer_free(&dot);
  accel__program_free(&b.p);
}

/* Copies of a good program with one thing broken each. */
static void test_validate(void **state) {
  (void)state;
  base b = begin();
  accel__tensor y = accel__unary(b.p, ACCEL_PLUGIN_UNARY_EXP, b.x);
  finish(&b, accel__linear(b.p, y, matrix(&b, "w", 4, 8), -1, -1, ACCEL_PLUGIN_ACT_NONE));
  const accel_plugin_program *good = accel__program_view(b.p);
  assert_int_equal(accel__program_validate(good), ACCEL_OK);

  accel_plugin_node node[2] = {good->node[1], good->node[0]};
  accel_plugin_program bad = *good;
  bad.node = node; /* order turned round */
  assert_int_equal(accel__program_validate(&bad), ACCEL_ERROR_FORMAT);
  assert_non_null(strstr(accel__message(), "is not computed before it"));

  node[0] = good->node[0], node[1] = good->node[1];
  node[0].op = 77;
  assert_int_equal(accel__program_validate(&bad), ACCEL_ERROR_FORMAT);
  assert_non_null(strstr(accel__message(), "op 77 is unknown"));

  accel_plugin_tensor tensor[16];
  assert_true(good->n_tensor <= 16);
  bad = *good;
  memcpy(tensor, good->tensor, good->n_tensor * sizeof *tensor);
  bad.tensor = tensor;
  tensor[y].dim[1] = tensor[y].dim[0]; /* [T,T] stated, [T,8] implied */
  assert_int_equal(accel__program_validate(&bad), ACCEL_ERROR_FORMAT);
  assert_non_null(strstr(accel__message(), "another shape"));
  tensor[y].dim[1] = (int32_t)good->n_dim;
  assert_int_equal(accel__program_validate(&bad), ACCEL_ERROR_FORMAT);
  assert_non_null(strstr(accel__message(), "is malformed"));

  accel_plugin_entry entry = good->entry[0];
  bad = *good;
  bad.entry = &entry;
  int32_t list[1] = {1};
  entry.node = list, entry.n_node = 1; /* the first node left out */
  assert_int_equal(accel__program_validate(&bad), ACCEL_ERROR_FORMAT);
  assert_non_null(strstr(accel__message(), "neither an input of the entry nor computed"));
  accel__program_free(&b.p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dims_fold),    cmocka_unit_test(test_dims_fail),
      cmocka_unit_test(test_weights),      cmocka_unit_test(test_errors),
      cmocka_unit_test(test_entry_errors), cmocka_unit_test(test_entries),
      cmocka_unit_test(test_fusion),       cmocka_unit_test(test_fusion_refuses),
      cmocka_unit_test(test_hash),         cmocka_unit_test(test_dumps),
      cmocka_unit_test(test_validate),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
