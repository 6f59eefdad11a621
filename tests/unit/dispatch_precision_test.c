/* dispatch_precision_test.c - which format each kind of weight gets under each precision. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "dispatch/precision.h"

/* x -> linear(w.linear) -> unary -> linear(w.head) -> reshape -> output; others hang beside it. */
enum {
  W_LINEAR,
  W_HEAD,
  W_LM_HEAD,
  W_EMBEDDING,
  W_CONV,
  W_MOE,
  W_PLAIN,
  W_VECTOR,
  W_TRANSPOSED,
  W_GATE,
  W_SHORT,
  W_TYPES,
  W_LONG,
  W_LESS_LONG,
  WEIGHTS
};
static const accel_plugin_weight weights[WEIGHTS] = {
    [W_LINEAR] = {.name = "layer.0.dense.weight",
                  .rank = 2,
                  .dim = {64, 256},
                  .use = ACCEL_PLUGIN_USE_LINEAR},
    [W_HEAD] = {.name = "classifier.weight",
                .rank = 2,
                .dim = {3, 64},
                .use = ACCEL_PLUGIN_USE_LINEAR},
    [W_LM_HEAD] = {.name = "lm_head.weight",
                   .rank = 2,
                   .dim = {99, 64},
                   .use = ACCEL_PLUGIN_USE_HEAD},
    [W_EMBEDDING] = {.name = "embeddings.weight",
                     .rank = 2,
                     .dim = {99, 64},
                     .use = ACCEL_PLUGIN_USE_EMBEDDING},
    [W_CONV] = {.name = "conv.weight",
                .rank = 4,
                .dim = {8, 3, 2, 2},
                .use = ACCEL_PLUGIN_USE_CONV},
    [W_MOE] = {.name = "experts.weight",
               .rank = 3,
               .dim = {4, 8, 256},
               .use = ACCEL_PLUGIN_USE_MOE},
    [W_PLAIN] = {.name = "rel_embeddings.weight",
                 .rank = 2,
                 .dim = {9, 64},
                 .use = ACCEL_PLUGIN_USE_PLAIN},
    [W_VECTOR] = {.name = "dense.bias", .rank = 1, .dim = {64}, .use = ACCEL_PLUGIN_USE_LINEAR},
    [W_TRANSPOSED] = {.name = "c_attn.weight",
                      .rank = 2,
                      .dim = {64, 64},
                      .use = ACCEL_PLUGIN_USE_LINEAR},
    [W_SHORT] = {.name = "short.weight",
                 .rank = 2,
                 .dim = {64, 63},
                 .use = ACCEL_PLUGIN_USE_LINEAR},
    [W_TYPES] = {.name = "token_type.weight",
                 .rank = 2,
                 .dim = {64, 384},
                 .use = ACCEL_PLUGIN_USE_EMBEDDING},
    [W_LONG] = {.name = "long.weight", .rank = 2, .dim = {64, 512}, .use = ACCEL_PLUGIN_USE_LINEAR},
    [W_LESS_LONG] = {.name = "less_long.weight",
                     .rank = 2,
                     .dim = {64, 511},
                     .use = ACCEL_PLUGIN_USE_LINEAR},
    [W_GATE] = {.name = "c_gate.weight",
                .rank = 2,
                .dim = {64, 64},
                .use = ACCEL_PLUGIN_USE_LINEAR},
};

/* Tensors 0 .. WEIGHTS-1 are the weights, then x and what the nodes compute. */
enum { X = WEIGHTS, HIDDEN, ACTIVE, LOGITS, RESULT, BESIDE, TENSORS };
static const accel_plugin_program *program(void) {
  static accel_plugin_tensor tensor[TENSORS];
  static const accel_plugin_attr trans = {
      .key = ACCEL_PLUGIN_ATTR_TRANS, .type = ACCEL_PLUGIN_ATTR_I, .i = 1};
  static const int32_t first[] = {X, W_LINEAR, W_VECTOR}, act[] = {HIDDEN},
                       second[] = {ACTIVE, W_HEAD}, shape[] = {LOGITS},
                       third[] = {X, W_TRANSPOSED, -1, -1, W_GATE},
                       outs[] = {HIDDEN, ACTIVE, LOGITS, RESULT, BESIDE};
  static const accel_plugin_node node[] = {
      {.op = ACCEL_PLUGIN_OP_LINEAR, .n_in = 3, .n_out = 1, .in = first, .out = outs},
      {.op = ACCEL_PLUGIN_OP_UNARY, .n_in = 1, .n_out = 1, .in = act, .out = outs + 1},
      {.op = ACCEL_PLUGIN_OP_LINEAR, .n_in = 2, .n_out = 1, .in = second, .out = outs + 2},
      {.op = ACCEL_PLUGIN_OP_RESHAPE, .n_in = 1, .n_out = 1, .in = shape, .out = outs + 3},
      {.op = ACCEL_PLUGIN_OP_LINEAR,
       .n_in = 5,
       .n_out = 1,
       .in = third,
       .out = outs + 4,
       .attr = &trans,
       .n_attr = 1}};
  /* the last two are read on: hidden states */
  static const int32_t results[] = {RESULT, HIDDEN, ACTIVE};
  static const accel_plugin_entry entry = {.name = "encode", .out = results, .n_out = 3};
  static accel_plugin_program p;
  for (int32_t i = 0; i < TENSORS; i++)
    tensor[i] = (accel_plugin_tensor){
        .kind = i < WEIGHTS ? ACCEL_PLUGIN_TENSOR_WEIGHT : ACCEL_PLUGIN_TENSOR_VALUE,
        .weight = i < WEIGHTS ? i : -1};
  p = (accel_plugin_program){.n_tensor = TENSORS,
                             .tensor = tensor,
                             .n_node = 5,
                             .node = node,
                             .n_entry = 1,
                             .entry = &entry,
                             .n_weight = WEIGHTS,
                             .weight = weights};
  return &p;
}

static accel__arena arena;

static const accel_plugin_format *formats(const char *name, const char *const *keep,
                                          uint32_t n_keep) {
  accel_plugin_precision out;
  if (accel__precision_for(program(), name, keep, n_keep, &arena, &out) != ACCEL_OK)
    fail_msg("%s", accel__message());
  assert_string_equal(out.name, name);
  return out.format;
}

static void expect(const char *precision, int weight, uint8_t store, uint32_t group_k) {
  const accel_plugin_format *f = &formats(precision, NULL, 0)[weight];
  if (f->store != store || f->group_k != group_k)
    fail_msg("%s: %s is store %u in groups of %u", precision, weights[weight].name, f->store,
             f->group_k);
}

static void table(void **state) {
  (void)state;
  static const struct {
    const char *name;
    uint8_t linear, head, embedding, conv, transposed, shorter;
    uint32_t group;
  } rows[] = {
      {"fp32", ACCEL_PLUGIN_F32, ACCEL_PLUGIN_F32, ACCEL_PLUGIN_F32, ACCEL_PLUGIN_F32,
       ACCEL_PLUGIN_F32, ACCEL_PLUGIN_F32, 0},
      {"fp16", ACCEL_PLUGIN_F16, ACCEL_PLUGIN_F16, ACCEL_PLUGIN_F16, ACCEL_PLUGIN_F16,
       ACCEL_PLUGIN_F16, ACCEL_PLUGIN_F16, 0},
      {"bf16", ACCEL_PLUGIN_BF16, ACCEL_PLUGIN_BF16, ACCEL_PLUGIN_BF16, ACCEL_PLUGIN_BF16,
       ACCEL_PLUGIN_BF16, ACCEL_PLUGIN_BF16, 0},
      {"int8", ACCEL_PLUGIN_I8, ACCEL_PLUGIN_I8, ACCEL_PLUGIN_I8, ACCEL_PLUGIN_I8, ACCEL_PLUGIN_F16,
       ACCEL_PLUGIN_I8, 128},
      {"fp8", ACCEL_PLUGIN_E4M3, ACCEL_PLUGIN_E4M3, ACCEL_PLUGIN_E4M3, ACCEL_PLUGIN_F16,
       ACCEL_PLUGIN_F16, ACCEL_PLUGIN_F16, 0},
      {"int4", ACCEL_PLUGIN_I4, ACCEL_PLUGIN_I8, ACCEL_PLUGIN_I8, ACCEL_PLUGIN_I8, ACCEL_PLUGIN_F16,
       ACCEL_PLUGIN_I8, 32},
      {"uint4", ACCEL_PLUGIN_U4, ACCEL_PLUGIN_I8, ACCEL_PLUGIN_I8, ACCEL_PLUGIN_I8,
       ACCEL_PLUGIN_F16, ACCEL_PLUGIN_I8, 32},
      {"fp4", ACCEL_PLUGIN_E2M1, ACCEL_PLUGIN_I8, ACCEL_PLUGIN_I8, ACCEL_PLUGIN_I8,
       ACCEL_PLUGIN_F16, ACCEL_PLUGIN_I8, 16},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    expect(rows[i].name, W_LINEAR, rows[i].linear, rows[i].group);
    expect(rows[i].name, W_MOE, rows[i].linear, rows[i].group);
    expect(rows[i].name, W_LESS_LONG, rows[i].linear, rows[i].group);
    expect(rows[i].name, W_LONG, rows[i].linear, rows[i].group == 128 ? 256 : rows[i].group);
    expect(rows[i].name, W_HEAD, rows[i].head, 0); /* its result is the model's */
    expect(rows[i].name, W_LM_HEAD, rows[i].head, 0);
    expect(rows[i].name, W_EMBEDDING, rows[i].embedding, 0);
    expect(rows[i].name, W_TYPES, rows[i].transposed, 0); /* few rows: plain, too */
    expect(rows[i].name, W_CONV, rows[i].conv, 0);
    expect(rows[i].name, W_TRANSPOSED, rows[i].transposed, 0);
    expect(rows[i].name, W_GATE, rows[i].transposed, 0);
    expect(rows[i].name, W_SHORT, rows[i].shorter, 0);
    expect(rows[i].name, W_PLAIN, ACCEL_PLUGIN_F32, 0);
    expect(rows[i].name, W_VECTOR, ACCEL_PLUGIN_F32, 0);
  }
}

static void kept_weights_are_fp32(void **state) {
  (void)state;
  static const char *const keep[] = {"layer.?.dense.*", "lm_*", "nothing"};
  const accel_plugin_format *f = formats("int4", keep, 3);
  for (int i = 0; i < WEIGHTS; i++) {
    const bool kept = i == W_LINEAR || i == W_LM_HEAD || i == W_PLAIN || i == W_VECTOR;
    if ((f[i].store == ACCEL_PLUGIN_F32) != kept)
      fail_msg("%s has store %u", weights[i].name, f[i].store);
  }
}

static void kept_at_one_precision(void **state) {
  (void)state;
  static const char *const keep[] = {"layer.?.dense.*@fp16", "lm_head.weight"}, *const names[] = {
                                                                                    "fp16", "bf16",
                                                                                    "int8", "fp8",
                                                                                    "int4"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const accel_plugin_format *f = formats(names[i], keep, 2);
    assert_int_equal(f[W_LINEAR].store == ACCEL_PLUGIN_F32, i == 0);
    assert_int_equal(f[W_LM_HEAD].store, ACCEL_PLUGIN_F32);
    assert_int_not_equal(f[W_HEAD].store, ACCEL_PLUGIN_F32);
  }
}

static void kept_in_halves_where_others_are_codes(void **state) {
  (void)state;
  static const char *const keep[] = {"layer.?.dense.*@coded", "lm_head.weight@int8", "lm_*@coded"};
  static const char *const names[] = {"fp32", "fp16",  "bf16", "int8",
                                      "int4", "uint4", "fp8",  "fp4"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const accel_plugin_format *f = formats(names[i], keep, 3), *all = formats(names[i], NULL, 0);
    const bool coded = i >= 3, listed = i == 3; /* what is fp32 at the precision stays so */
    assert_int_equal(f[W_LINEAR].store, coded ? ACCEL_PLUGIN_F16 : all[W_LINEAR].store);
    assert_int_equal(f[W_LM_HEAD].store, listed  ? ACCEL_PLUGIN_F32
                                         : coded ? ACCEL_PLUGIN_F16
                                                 : all[W_LM_HEAD].store);
    assert_int_equal(f[W_HEAD].store, all[W_HEAD].store);
  }
}

static void unknown_names(void **state) {
  (void)state;
  accel_plugin_precision out;
  assert_int_equal(accel__precision_for(program(), "int3", NULL, 0, &arena, &out),
                   ACCEL_ERROR_ARGUMENT);
  assert_non_null(strstr(accel__message(), "'int3'"));
}

static int done(void **state) {
  (void)state;
  accel__arena_free(&arena);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(table), cmocka_unit_test(kept_weights_are_fp32),
      cmocka_unit_test(kept_at_one_precision),
      cmocka_unit_test(kept_in_halves_where_others_are_codes), cmocka_unit_test(unknown_names)};
  return cmocka_run_group_tests(tests, NULL, done);
}
