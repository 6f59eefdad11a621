/* dispatch_profile_test.c - precision profiles: what is read and refused, and which weights belong
 * to which kind of layer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "dispatch/precision.h"
#include "dispatch/precision_profile.h"

#define HEAD  "{\"schema\": \"accel.precision_profile/1\", "
#define MODEL "\"model\": {\"architecture\": \"A\", \"weights\": \"0123456789abcdef\"}, "
#define REST  "\"device\": \"cpu\", \"precision\": \"int8\"}"

static accel_status parse(const char *text, accel__arena *arena, accel__precision_profile *out) {
  return accel__precision_profile_parse(text, strlen(text), "p.json", arena, out);
}

static void test_read(void **state) {
  (void)state;
  accel__arena arena = {0};
  accel__precision_profile p, again;
  accel__buffer kinds = {0}, text = {0};
  assert_int_equal(parse(HEAD MODEL "\"kinds\": {\"attention\": \"float16\", \"head\": \"int8\", "
                                    "\"linear\": null}, \"tuned\": {\"anything\": [1]}, " REST,
                         &arena, &p),
                   ACCEL_OK);
  assert_string_equal(p.architecture, "A");
  assert_true(p.weights == UINT64_C(0x0123456789abcdef));
  assert_string_equal(p.device, "cpu");
  assert_string_equal(p.precision, "int8");
  assert_string_equal(p.kind[ACCEL__KIND_ATTENTION], "fp16");
  assert_null(p.kind[ACCEL__KIND_HEAD]); /* as the others */
  assert_null(p.kind[ACCEL__KIND_LINEAR]);
  accel__precision_profile_kinds(&p, &kinds);
  assert_string_equal(kinds.data, "attention=fp16");
  accel__precision_profile_write(&p, (bool[ACCEL__KIND_COUNT]){[ACCEL__KIND_HEAD] = true}, &text);
  assert_non_null(strstr(text.data, "\"kinds\": {\"attention\": \"fp16\", \"head\": \"int8\"}"));
  assert_int_equal(parse(text.data, &arena, &again), ACCEL_OK);
  assert_true(again.weights == p.weights);
  assert_string_equal(again.kind[ACCEL__KIND_ATTENTION], "fp16");
  accel__buffer_free(&kinds);
  accel__buffer_free(&text);
  accel__arena_free(&arena);
}

/* What must fail, and what the message must have beside the file's name. */
static void test_refused(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"", "p.json"},
      {"[]", "expected an object"},
      {"{}", "schema"},
      {"{\"schema\": \"accel.precision_profile/2\", " MODEL REST, "accel.precision_profile/2"},
      {"{\"schema\": 1, " MODEL REST, "schema"},
      {HEAD REST, "model"},
      {HEAD "\"model\": 3, " REST, "model"},
      {HEAD "\"model\": {\"weights\": \"0123456789abcdef\"}, " REST, "architecture"},
      {HEAD "\"model\": {\"architecture\": \"A\"}, " REST, "weights"},
      {HEAD "\"model\": {\"architecture\": \"A\", \"weights\": \"0123\"}, " REST, "16 hexadecimal"},
      {HEAD "\"model\": {\"architecture\": \"A\", \"weights\": \"0123456789ABCDEF\"}, " REST,
       "16 hexadecimal"},
      {HEAD
       "\"model\": {\"architecture\": \"A\", \"weights\": \"0123456789abcdef\", \"x\": 1}, " REST,
       "model.x"},
      {HEAD MODEL "\"device\": \"cpu\"}", "precision"},
      {HEAD MODEL "\"precision\": \"int8\"}", "device"},
      {HEAD MODEL "\"device\": \"\", \"precision\": \"int8\"}", "device is empty"},
      {HEAD MODEL "\"device\": \"cpu\", \"precision\": \"int7\"}", "unknown precision 'int7'"},
      {HEAD MODEL "\"device\": \"cpu\", \"precision\": \"auto\"}", "unknown precision 'auto'"},
      {HEAD MODEL "\"kinds\": [], " REST, "kinds"},
      {HEAD MODEL "\"kinds\": {\"attn\": \"fp16\"}, " REST, "kinds.attn"},
      {HEAD MODEL "\"kinds\": {\"head\": 16}, " REST, "head"},
      {HEAD MODEL "\"kinds\": {\"head\": \"int7\"}, " REST, "kinds.head"},
      {HEAD MODEL "\"tuned\": 3, " REST, "tuned"},
      {HEAD MODEL "\"layers\": {}, " REST, "layers"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    accel__arena arena = {0};
    accel__precision_profile p;
    assert_int_equal(parse(cases[i][0], &arena, &p), ACCEL_ERROR_FORMAT);
    if (!strstr(accel__message(), "p.json") || !strstr(accel__message(), cases[i][1]))
      fail_msg("%s: %s", cases[i][0], accel__message());
    accel__arena_free(&arena);
  }
}

static void test_files(void **state) {
  (void)state;
  accel__arena arena = {0};
  accel__precision_profile p;
  assert_int_equal(accel__precision_profile_read("nosuch.json", &arena, &p), ACCEL_ERROR_NOT_FOUND);
  assert_int_equal(accel__precision_profile_read("\n " HEAD MODEL REST, &arena, &p), ACCEL_OK);
  assert_string_equal(p.name, "precision_profile");
  accel__arena_free(&arena);
}

/* x -> q, k, v (k behind a rope) -> attention -> o -> up -> down -> head; t is a table. */
enum { W_Q, W_K, W_V, W_O, W_UP, W_DOWN, W_HEAD, W_TABLE, W_CONV, W_MOE, W_NORM, WEIGHTS };
enum { X = WEIGHTS, Q, K, ROTATED, V, ATTENDED, O, UP, DOWN, RESULT, TENSORS };
#define WEIGHT(kind) \
  { .rank = 2, .dim = {512, 512}, .use = ACCEL_PLUGIN_USE_##kind }
static const accel_plugin_weight weights[WEIGHTS] = {
    [W_Q] = WEIGHT(LINEAR),
    [W_K] = WEIGHT(LINEAR),
    [W_V] = WEIGHT(LINEAR),
    [W_O] = WEIGHT(LINEAR),
    [W_UP] = WEIGHT(LINEAR),
    [W_DOWN] = WEIGHT(LINEAR),
    [W_HEAD] = WEIGHT(LINEAR),
    [W_TABLE] = WEIGHT(EMBEDDING),
    [W_CONV] = WEIGHT(CONV),
    [W_MOE] = WEIGHT(MOE),
    [W_NORM] = {.rank = 1, .dim = {512}, .use = ACCEL_PLUGIN_USE_PLAIN}};
static const int kinds[WEIGHTS] = {
    [W_Q] = ACCEL__KIND_ATTENTION,      [W_K] = ACCEL__KIND_ATTENTION,
    [W_V] = ACCEL__KIND_ATTENTION,      [W_O] = ACCEL__KIND_ATTENTION,
    [W_UP] = ACCEL__KIND_LINEAR,        [W_DOWN] = ACCEL__KIND_LINEAR,
    [W_HEAD] = ACCEL__KIND_HEAD,        [W_TABLE] = ACCEL__KIND_EMBEDDING,
    [W_CONV] = ACCEL__KIND_CONVOLUTION, [W_MOE] = ACCEL__KIND_EXPERTS,
    [W_NORM] = ACCEL__KIND_COUNT};

#define NODE(kind, n, inputs, output) \
  { .op = ACCEL_PLUGIN_OP_##kind, .n_in = n, .n_out = 1, .in = inputs, .out = output }
static const accel_plugin_program *program(void) {
  static accel_plugin_tensor tensor[TENSORS];
  static const int32_t q[] = {X, W_Q}, k[] = {X, W_K}, v[] = {X, W_V}, rope[] = {K},
                       attention[] = {Q, ROTATED, V}, o[] = {ATTENDED, W_O, -1, X},
                       up[] = {O, W_UP}, down[] = {UP, W_DOWN}, head[] = {DOWN, W_HEAD},
                       out[] = {Q, K, V, ROTATED, ATTENDED, O, UP, DOWN, RESULT};
  static const accel_plugin_node node[] = {NODE(LINEAR, 2, q, out),
                                           NODE(LINEAR, 2, k, out + 1),
                                           NODE(LINEAR, 2, v, out + 2),
                                           NODE(ROPE, 1, rope, out + 3),
                                           NODE(ATTENTION, 3, attention, out + 4),
                                           NODE(LINEAR, 4, o, out + 5),
                                           NODE(LINEAR, 2, up, out + 6),
                                           NODE(LINEAR, 2, down, out + 7),
                                           NODE(LINEAR, 2, head, out + 8)};
  static const int32_t results[] = {RESULT};
  static const accel_plugin_entry entry = {.name = "forward", .out = results, .n_out = 1};
  static accel_plugin_program p;
  for (int32_t i = 0; i < TENSORS; i++)
    tensor[i] = (accel_plugin_tensor){
        .kind = i < WEIGHTS ? ACCEL_PLUGIN_TENSOR_WEIGHT : ACCEL_PLUGIN_TENSOR_VALUE,
        .weight = i < WEIGHTS ? i : -1};
  p = (accel_plugin_program){.n_tensor = TENSORS,
                             .tensor = tensor,
                             .n_node = sizeof node / sizeof *node,
                             .node = node,
                             .n_entry = 1,
                             .entry = &entry,
                             .n_weight = WEIGHTS,
                             .weight = weights};
  return &p;
}

static void test_kinds(void **state) {
  (void)state;
  accel__arena arena = {0};
  uint8_t *role;
  assert_int_equal(accel__weight_roles(program(), &arena, &role), ACCEL_OK);
  for (uint32_t i = 0; i < WEIGHTS; i++)
    assert_int_equal(accel__weight_kind(&weights[i], role[i]), kinds[i]);
  accel__arena_free(&arena);
}

/* Each kind has the formats of its precision, whatever the others have. */
static void test_formats(void **state) {
  (void)state;
  accel__arena arena = {0};
  const accel_plugin_program *p = program();
  accel_plugin_precision mixed, uniform[2];
  assert_int_equal(accel__precision_for(p, "int4", NULL, 0, &arena, &uniform[0]), ACCEL_OK);
  assert_int_equal(accel__precision_for(p, "bf16", NULL, 0, &arena, &uniform[1]), ACCEL_OK);
  for (int k = 0; k < ACCEL__KIND_COUNT; k++) {
    accel__precision_profile profile = {.precision = "int4"};
    profile.kind[k] = "bf16";
    assert_int_equal(accel__precision_for(p, "int4", NULL, 0, &arena, &mixed), ACCEL_OK);
    assert_int_equal(accel__precision_by_kind(p, &profile, NULL, 0, &arena, &mixed), ACCEL_OK);
    assert_int_equal(mixed.compute, uniform[0].compute);
    for (uint32_t i = 0; i < WEIGHTS; i++)
      assert_memory_equal(&mixed.format[i], &uniform[kinds[i] == k].format[i],
                          sizeof mixed.format[i]);
  }
  accel__arena_free(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_read), cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_files), cmocka_unit_test(test_kinds),
                                     cmocka_unit_test(test_formats)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
