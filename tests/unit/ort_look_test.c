/* ort_look_test.c - which nodes of a graph are written in another form for Qualcomm's NPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "onnxruntime/ort_write.h"

enum { IDS, TABLE, ROWS, WIDE, NUMBER, SCALED, NODES };

static const float number = 3;
static const int32_t of_rows[] = {TABLE, IDS}, of_wide[] = {ROWS}, of_scaled[] = {ROWS, NUMBER};

/* apart[n], n at most NODES */
static void look_at(const kit_graph_node *node, uint32_t n, bool npu, bool *apart) {
  const kit_graph_result result = {.node = (int32_t)n - 1};
  const kit_graph g = {.node = node, .n_node = n, .result = &result, .n_result = 1};
  int8_t rank[NODES];
  uint32_t uses[NODES] = {0};
  int32_t normed[NODES], scale[NODES], shift[NODES];
  memset(apart, 0, n * sizeof *apart);
  ort_writer w = {.g = &g,
                  .rank = rank,
                  .uses = uses,
                  .normed = normed,
                  .scale = scale,
                  .shift = shift,
                  .apart = apart};
  ort_look(&w, npu);
}

/* apart[NODES] of rows of a table of `dtype`, which are widened, and multiplied by a number. */
static void look(uint8_t dtype, uint8_t table, bool npu, bool *apart) {
  const kit_graph_node node[NODES] = {
      [IDS] = {.op = KIT_GRAPH_INPUT, .dtype = ACCEL_PLUGIN_I32, .rank = 2, .dim = {2, 3}},
      [TABLE] = {.op = table, .dtype = dtype, .rank = 3, .dim = {9, 1, 4}},
      [ROWS] = {.op = KIT_GRAPH_GATHER, .dtype = dtype, .n_in = 2, .in = of_rows},
      [WIDE] = {.op = KIT_GRAPH_CONVERT, .dtype = ACCEL_PLUGIN_F32, .n_in = 1, .in = of_wide},
      [NUMBER] = {.op = KIT_GRAPH_CONSTANT,
                  .dtype = ACCEL_PLUGIN_F32,
                  .data = &number,
                  .bytes = sizeof number},
      [SCALED] = {.op = KIT_GRAPH_MULTIPLY, .dtype = ACCEL_PLUGIN_F32, .n_in = 2, .in = of_scaled}};
  look_at(node, NODES, npu, apart);
}

/* Rows of a constant table of bytes are gathered from a wide one. */
static void test_gathered_codes(void **state) {
  bool apart[NODES];
  (void)state;
  for (int npu = 0; npu < 2; npu++) {
    look(ACCEL_PLUGIN_I8, KIT_GRAPH_CONSTANT, npu, apart);
    assert_int_equal(apart[ROWS], npu);
    look(ACCEL_PLUGIN_U8, KIT_GRAPH_CONSTANT, npu, apart);
    assert_int_equal(apart[ROWS], npu);
    look(ACCEL_PLUGIN_F16, KIT_GRAPH_CONSTANT, npu, apart);
    assert_false(apart[ROWS]);
    look(ACCEL_PLUGIN_F32, KIT_GRAPH_CONSTANT, npu, apart);
    assert_false(apart[ROWS]);
    look(ACCEL_PLUGIN_I8, KIT_GRAPH_INPUT, npu, apart);
    assert_false(apart[ROWS]);
  }
}

/* The product of rows and a number is a quotient. */
static void test_scaled_gather(void **state) {
  bool apart[NODES];
  (void)state;
  for (int npu = 0; npu < 2; npu++) {
    look(ACCEL_PLUGIN_F32, KIT_GRAPH_CONSTANT, npu, apart);
    assert_int_equal(apart[SCALED], npu);
    assert_false(apart[WIDE]);
  }
}

/* A hyperbolic tangent has at most four dims. */
static void test_high_tangent(void **state) {
  static const int32_t of_tangent[] = {0};
  bool apart[NODES];
  (void)state;
  for (int npu = 0; npu < 2; npu++)
    for (uint32_t rank = 1; rank <= 5; rank++) {
      const kit_graph_node node[] = {
          {.op = KIT_GRAPH_INPUT, .dtype = ACCEL_PLUGIN_F32, .rank = (uint8_t)rank},
          {.op = KIT_GRAPH_TANH, .dtype = ACCEL_PLUGIN_F32, .n_in = 1, .in = of_tangent}};
      look_at(node, 2, npu, apart);
      assert_int_equal(apart[1], npu && rank > 4);
    }
}

static void test_waves(void **state) {
  static const int32_t of_wave[] = {0};
  bool apart[NODES];
  (void)state;
  for (int npu = 0; npu < 2; npu++)
    for (int cosine = 0; cosine < 2; cosine++) {
      const kit_graph_node node[] = {{.op = KIT_GRAPH_INPUT, .dtype = ACCEL_PLUGIN_F32, .rank = 1},
                                     {.op = (uint8_t)(cosine ? KIT_GRAPH_COS : KIT_GRAPH_SIN),
                                      .dtype = ACCEL_PLUGIN_F32,
                                      .n_in = 1,
                                      .in = of_wave}};
      look_at(node, 2, npu, apart);
      assert_int_equal(apart[1], npu);
    }
}

/* A number that becomes an integer and comes back is cut off; an input of integers is not. */
static void test_whole_numbers(void **state) {
  enum { INTEGERS, COUNT, WHOLE, BACK, N };
  static const int32_t of_count[] = {INTEGERS}, of_whole[] = {COUNT}, of_back[] = {WHOLE};
  const kit_graph_node node[N] = {
      [INTEGERS] = {.op = KIT_GRAPH_INPUT, .dtype = ACCEL_PLUGIN_I32, .rank = 2, .dim = {-1, -1}},
      [COUNT] = {.op = KIT_GRAPH_CONVERT, .dtype = ACCEL_PLUGIN_F32, .n_in = 1, .in = of_count},
      [WHOLE] = {.op = KIT_GRAPH_CONVERT, .dtype = ACCEL_PLUGIN_I32, .n_in = 1, .in = of_whole},
      [BACK] = {.op = KIT_GRAPH_CONVERT, .dtype = ACCEL_PLUGIN_F32, .n_in = 1, .in = of_back}};
  bool apart[NODES];
  (void)state;
  for (int npu = 0; npu < 2; npu++) {
    look_at(node, N, npu, apart);
    assert_int_equal(apart[BACK], npu);
    assert_false(apart[COUNT]);
    assert_false(apart[WHOLE]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gathered_codes), cmocka_unit_test(test_scaled_gather),
      cmocka_unit_test(test_high_tangent), cmocka_unit_test(test_waves),
      cmocka_unit_test(test_whole_numbers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
