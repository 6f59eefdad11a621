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

/* apart[n], n at most NODES, of a graph whose input is node 0, of size dim; why [160] */
static void look_sized(const kit_graph_node *node, uint32_t n, bool npu, const int64_t *dim,
                       bool *apart, char *why) {
  const kit_graph_result result = {.node = (int32_t)n - 1};
  const kit_graph_feed feed = {.kind = KIT_FEED_INPUT};
  const kit_graph g = {
      .node = node, .n_node = n, .result = &result, .n_result = 1, .feed = &feed, .n_feed = 1};
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
  ort_look(&w, npu, (const int64_t(*)[ACCEL_PLUGIN_MAX_RANK])dim);
  memcpy(why, w.why, sizeof w.why);
}

/* The same of an input whose size is not known; nothing is refused. */
static void look_at(const kit_graph_node *node, uint32_t n, bool npu, bool *apart) {
  char why[160];
  look_sized(node, n, npu, NULL, apart, why);
  assert_string_equal(why, "");
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

/* A number that becomes an integer and comes back is cut off; an input of integers is not.  A
 * number that is divided and cut behind a count is refused where halves do not have it. */
static void test_whole_numbers(void **state) {
  enum { MASK, AXIS, SUM, COUNT, WHOLE, BACK, N };
  static const int32_t of_sum[] = {MASK, AXIS}, of_count[] = {SUM}, of_whole[] = {COUNT},
                       of_back[] = {WHOLE};
  static const int64_t axis = 1;
  const kit_graph_node node[N] = {
      [MASK] = {.op = KIT_GRAPH_INPUT, .dtype = ACCEL_PLUGIN_I32, .rank = 2, .dim = {-1, -1}},
      [AXIS] = {.op = KIT_GRAPH_CONSTANT,
                .dtype = ACCEL_PLUGIN_I64,
                .rank = 1,
                .dim = {1},
                .data = &axis,
                .bytes = sizeof axis},
      [SUM] = {.op = KIT_GRAPH_REDUCE_SUM, .dtype = ACCEL_PLUGIN_I32, .n_in = 2, .in = of_sum},
      [COUNT] = {.op = KIT_GRAPH_CONVERT, .dtype = ACCEL_PLUGIN_F32, .n_in = 1, .in = of_count},
      [WHOLE] = {.op = KIT_GRAPH_CONVERT, .dtype = ACCEL_PLUGIN_I32, .n_in = 1, .in = of_whole},
      [BACK] = {.op = KIT_GRAPH_CONVERT, .dtype = ACCEL_PLUGIN_F32, .n_in = 1, .in = of_back}};
  int64_t dim[ACCEL_PLUGIN_MAX_RANK] = {3, 512};
  bool apart[NODES];
  char why[160];
  (void)state;
  for (int npu = 0; npu < 2; npu++) {
    dim[1] = 512;
    look_sized(node, N, npu, dim, apart, why);
    assert_int_equal(apart[BACK], npu);
    assert_false(apart[COUNT]);
    assert_false(apart[WHOLE]);
    assert_string_equal(why, "");
    dim[1] = 513;
    look_sized(node, N, npu, dim, apart, why);
    assert_int_equal(strstr(why, "up to 513") != NULL, npu);
    look_sized(node, WHOLE, npu, dim, apart, why); /* a count that is not cut */
    assert_string_equal(why, "");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gathered_codes), cmocka_unit_test(test_scaled_gather),
      cmocka_unit_test(test_high_tangent), cmocka_unit_test(test_whole_numbers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
