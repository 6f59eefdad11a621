/* ort_quantise_test.c - which products an NPU multiplies as codes, their codes, and ranges of what goes
 * in and comes out. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "onnxruntime/ort_quantise.h"

enum { ROWS = 3, GROUPS = 2, SIZE = 3, COLUMNS = GROUPS * SIZE };
enum { CODES, WIDE, SCALES, WEIGHT, SHAPE, MATRIX, X, PRODUCT, TABLE, NODES };

static const int8_t codes[ROWS][COLUMNS] = {
    {1, -127, 3, 127, 5, -6}, {0, 0, 0, 0, 0, 0}, {100, 50, -25, 7, 8, -9}};
static const float scales[ROWS][GROUPS] = {{0.5F, 0.25F}, {1, 1}, {0.01F, 2}};
static const int64_t shape[] = {ROWS, COLUMNS};
static const int32_t of_wide[] = {CODES}, of_weight[] = {WIDE, SCALES},
                     of_matrix[] = {WEIGHT, SHAPE}, of_product[] = {X, MATRIX};

/* x[.., 6] times a weight in groups of 3, transposed. */
static void fill(kit_graph_node node[NODES]) {
  memset(node, 0, NODES * sizeof *node);
  node[CODES] = (kit_graph_node){.op = KIT_GRAPH_CONSTANT,
                                 .dtype = ACCEL_PLUGIN_I8,
                                 .rank = 3,
                                 .dim = {ROWS, GROUPS, SIZE},
                                 .data = codes,
                                 .bytes = sizeof codes};
  node[WIDE] = (kit_graph_node){.op = KIT_GRAPH_CONVERT, .n_in = 1, .in = of_wide};
  node[SCALES] = (kit_graph_node){.op = KIT_GRAPH_CONSTANT,
                                  .dtype = ACCEL_PLUGIN_F32,
                                  .rank = 3,
                                  .dim = {ROWS, GROUPS, 1},
                                  .data = scales,
                                  .bytes = sizeof scales};
  node[WEIGHT] = (kit_graph_node){.op = KIT_GRAPH_MULTIPLY, .n_in = 2, .in = of_weight};
  node[SHAPE] = (kit_graph_node){.op = KIT_GRAPH_CONSTANT,
                                 .dtype = ACCEL_PLUGIN_I64,
                                 .rank = 1,
                                 .dim = {2},
                                 .data = shape,
                                 .bytes = sizeof shape};
  node[MATRIX] = (kit_graph_node){.op = KIT_GRAPH_RESHAPE, .n_in = 2, .in = of_matrix};
  node[X] = (kit_graph_node){.op = KIT_GRAPH_INPUT, .rank = 2, .dim = {4, COLUMNS}};
  node[PRODUCT] =
      (kit_graph_node){.op = KIT_GRAPH_MATMUL, .n_in = 2, .in = of_product, .i = {0, 1}};
}

static ort_quantised *quantised(const kit_graph_node *node, uint32_t n) {
  const kit_graph_result result = {.node = PRODUCT};
  const kit_graph g = {.node = node, .n_node = n, .result = &result, .n_result = 1};
  accel_plugin_error error = {.size = sizeof error};
  ort_quantised *q = NULL;
  assert_int_equal(ort_quantise(&g, &q, &error), ACCEL_PLUGIN_OK);
  assert_int_equal(ort_codes_make(&g, q, &error), ACCEL_PLUGIN_OK);
  return q;
}

/* One scale for each output, and each weight within half a step of what it was. */
static void test_codes(void **state) {
  kit_graph_node node[NODES];
  (void)state;
  fill(node);
  ort_quantised *q = quantised(node, TABLE);
  assert_int_equal(q->n, 1);
  const ort_product *p = &q->product[0];
  assert_int_equal(p->node, PRODUCT);
  assert_int_equal(p->n, ROWS);
  assert_int_equal(p->k, COLUMNS);
  for (int64_t i = 0; i < ROWS; i++) {
    float most = 0;
    for (int64_t j = 0; j < COLUMNS; j++) {
      const float w = (float)codes[i][j] * scales[i][j / SIZE];
      most = fmaxf(most, fabsf(w));
      assert_true(fabsf((float)p->code[j * ROWS + i] * p->scale[i] - w) <= p->scale[i] * 0.501F);
    }
    assert_true(fabsf(p->scale[i] - (most > 0 ? most / 127 : 1)) <= p->scale[i] * 1e-6F);
  }
  ort_codes_free(q);
  assert_null(p->code);
  ort_quantised_free(q);
}

/* What products alone read is left out of the model; a table that is looked up stays. */
static void test_left_out(void **state) {
  static const int32_t of_table[] = {CODES, X};
  kit_graph_node node[NODES];
  (void)state;
  fill(node);
  ort_quantised *q = quantised(node, TABLE);
  for (uint32_t i = 0; i < TABLE; i++) assert_int_equal(q->gone[i], i < X);
  ort_quantised_free(q);
  node[TABLE] = (kit_graph_node){.op = KIT_GRAPH_GATHER, .n_in = 2, .in = of_table};
  q = quantised(node, NODES);
  assert_int_equal(q->of[PRODUCT], 0);
  for (uint32_t i = 0; i < NODES; i++) assert_int_equal(q->gone[i], i < X && i != CODES);
  ort_quantised_free(q);
}

/* Other products stay as they are: of halves, of codes of other types, not transposed. */
static void test_others(void **state) {
  kit_graph_node node[NODES];
  (void)state;
  for (int change = 0; change < 4; change++) {
    fill(node);
    if (change == 0) node[CODES].dtype = ACCEL_PLUGIN_U8;
    if (change == 1) node[PRODUCT].i[1] = 0;
    if (change == 2) node[MATRIX].op = KIT_GRAPH_BROADCAST;
    if (change == 3) node[WEIGHT].op = KIT_GRAPH_SUBTRACT;
    ort_quantised *q = quantised(node, TABLE);
    assert_int_equal(q->n, 0);
    assert_int_equal(q->of[PRODUCT], -1);
    for (uint32_t i = 0; i < TABLE; i++) assert_int_equal(q->gone[i], 0);
    ort_quantised_free(q);
  }
}

static void test_ranges(void **state) {
  kit_graph_node node[NODES];
  (void)state;
  fill(node);
  ort_quantised *q = quantised(node, TABLE);
  assert_true(ort_range_limit(q, 0) > 0); /* of a run that had zeros */
  ort_range_widen(q, (const float[]){2, 8});
  ort_range_widen(q, (const float[]){1, NAN});
  ort_range_widen(q, (const float[]){INFINITY, 3});
  assert_true(ort_range_limit(q, 0) == 2 * ORT_MARGIN);
  assert_true(ort_range_limit(q, 1) == 8 * ORT_MARGIN);
  assert_false(ort_range_exceeded(q, (const float[]){2 * ORT_MARGIN - 1, 8 * ORT_MARGIN - 1}));
  assert_true(ort_range_exceeded(q, (const float[]){2 * ORT_MARGIN, 1}));
  assert_true(ort_range_exceeded(q, (const float[]){1, INFINITY}));
  ort_quantised_free(q);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_codes), cmocka_unit_test(test_left_out),
                                     cmocka_unit_test(test_others), cmocka_unit_test(test_ranges)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
