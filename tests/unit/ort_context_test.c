/* ort_context_test.c - by what a compiled graph is found again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "onnxruntime/ort_context.h"

/* By its weights, however short: those of products at int8 are in the graph alone, not in the text. */
static void test_key(void **state) {
  static const ort_library library = {.version = "1"};
  static const ort_device device = {.info = {.arch = "npu"}};
  const ort_endpoint e = {.ort = &library, .device = &device};
  float weight[] = {1, 2, 3};
  char text[] = "model", key[2][ORT_CONTEXT_KEY];
  ort_bytes model = {.data = text, .n = sizeof text};
  const kit_graph_node node = {
      .op = KIT_GRAPH_CONSTANT, .dtype = ACCEL_PLUGIN_F32, .data = weight, .bytes = sizeof weight};
  const kit_graph g = {.node = &node, .n_node = 1};
  (void)state;
  for (int i = 0; i < 2; i++) ort_context_key(&e, "context", &g, &model, key[i]);
  assert_string_equal(key[0], key[1]);
  weight[2] = 4;
  ort_context_key(&e, "context", &g, &model, key[1]);
  assert_string_not_equal(key[0], key[1]);
  weight[2] = 3;
  text[0] = 'n';
  ort_context_key(&e, "context", &g, &model, key[1]);
  assert_string_not_equal(key[0], key[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_key)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
