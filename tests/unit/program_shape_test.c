/* program_shape_test.c - shape inference of every op: the dims it gives as text, and for each op
 * operands it must refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "program/program_internal.h"

static accel__program *p;
static accel__dim T, B, H, W;
static int32_t tokens, patches;
static uint32_t seen; /* ops tried, one bit each */

static int setup(void **state) {
  (void)state;
  p = accel__program_new("shapes");
  if (p == NULL) return -1;
  T = accel__symbol(p, "T", 1, 0, 16), B = accel__symbol(p, "B", 1, 0, 2),
  H = accel__symbol(p, "H", 8, 512, 32), W = accel__symbol(p, "W", 8, 512, 32);
  accel__tensor lengths = accel__input(p, "lengths", ACCEL_PLUGIN_I32, -1, 1, &B);
  tokens = accel__space_ragged(p, "tokens", lengths, T, B);
  patches = accel__space_fixed(p, "patches", accel__const_dim(p, 49), B);
  return 0;
}
static int teardown(void **state) {
  (void)state;
  accel__program_free(&p);
  return 0;
}

/* A tensor from a text: "T,8" (dims: symbols T B H W or numbers). */
static accel__tensor tensor(const char *dims, accel_plugin_dtype dtype, int32_t space) {
  static int count;
  char name[32];
  accel__dim dim[ACCEL_PLUGIN_MAX_RANK];
  uint32_t rank = 0;
  for (const char *at = dims; *at != '\0'; at += strcspn(at, ","), at += *at == ',') {
    dim[rank++] = *at == 'T'   ? T
                  : *at == 'B' ? B
                  : *at == 'H' ? H
                  : *at == 'W' ? W
                               : accel__const_dim(p, strtoll(at, NULL, 10));
  }
  snprintf(name, sizeof name, "t%d", count++);
  return accel__input(p, name, dtype, space, rank, dim);
}
static accel__tensor f(const char *dims) { return tensor(dims, ACCEL_PLUGIN_F32, -1); }
static accel__tensor row(const char *dims) { return tensor(dims, ACCEL_PLUGIN_F32, tokens); }
static accel__tensor i(const char *dims) { return tensor(dims, ACCEL_PLUGIN_I32, -1); }

#define NODE(op, in, attr, out, n_out)                                      \
  accel__node(p, ACCEL_PLUGIN_OP_##op, in, sizeof(in) / sizeof *(in), attr, \
              sizeof(attr) / sizeof *(attr), out, n_out)
#define IN(...)   ((accel__tensor[]){__VA_ARGS__})
#define ATTR(...) ((accel__attr[]){__VA_ARGS__})

static void expect_text(accel__tensor t, const char *wanted) {
  if (t < 0) fail_msg("%s", p->message != NULL ? p->message : "no message");
  accel__buffer text = {0};
  accel_plugin_program view;
  accel__program_peek(p, &view);
  accel__shape_text(&view, &p->tensor[t], &text);
  assert_string_equal(text.data, wanted);
  accel__buffer_free(&text);
  if (p->n_node > 0) seen |= 1u << p->node[p->n_node - 1].op;
}

/* The call failed with this in its message; the program is usable again. */
static void refused(accel__tensor t, const char *part) {
  assert_int_equal(t, -1);
  assert_int_not_equal(p->status, ACCEL_OK);
  if (strstr(p->message, part) == NULL) fail_msg("'%s' is not in: %s", part, p->message);
  p->status = ACCEL_OK;
}

static void test_linear(void **state) {
  (void)state;
  accel__tensor x = row("T,8");
  expect_text(NODE(LINEAR, IN(x, f("6,8"), f("6"), row("T,6")),
                   ATTR(ACCEL_I(ACT, ACCEL_PLUGIN_ACT_GELU)), NULL, 1),
              "[T,6]");
  expect_text(NODE(LINEAR, IN(f("B,3,8"), f("8,6")), ATTR(ACCEL_I(TRANS, 1)), NULL, 1), "[B,3,6]");
  expect_text(NODE(LINEAR, IN(x, f("6,8"), f("6")), ATTR(ACCEL_I(GLU, ACCEL_PLUGIN_GLU_GATE_FIRST)),
                   NULL, 1),
              "[T,3]");
  expect_text(NODE(LINEAR, IN(x, f("6,8"), f("6"), -1, f("6,8"), f("6")),
                   ATTR(ACCEL_I(GLU, ACCEL_PLUGIN_GLU_SEPARATE)), NULL, 1),
              "[T,6]");
  refused(NODE(LINEAR, IN(x, f("6,7")), ATTR(ACCEL_I(ACT, 0)), NULL, 1), "not the K of w");
  refused(NODE(LINEAR, IN(x, f("6,8"), f("5")), ATTR(ACCEL_I(ACT, 0)), NULL, 1),
          "bias should be [6]");
  refused(NODE(LINEAR, IN(x, f("6,8"), -1, row("T,5")), ATTR(ACCEL_I(ACT, 0)), NULL, 1),
          "residual should be [T,6]");
  refused(NODE(LINEAR, IN(x, f("7,8")), ATTR(ACCEL_I(GLU, ACCEL_PLUGIN_GLU_INTERLEAVED)), NULL, 1),
          "even number of rows");
  refused(NODE(LINEAR, IN(x, f("6,8")), ATTR(ACCEL_I(GLU, ACCEL_PLUGIN_GLU_SEPARATE)), NULL, 1),
          "w_gate goes with");
}

static void test_matmul(void **state) {
  (void)state;
  expect_text(NODE(MATMUL, IN(f("B,1,T,4"), f("3,4,5")), ATTR(ACCEL_F(SCALE, 2)), NULL, 1),
              "[B,3,T,5]");
  expect_text(NODE(MATMUL, IN(f("T,4"), f("5,4")), ATTR(ACCEL_I(TRANS_B, 1)), NULL, 1), "[T,5]");
  refused(NODE(MATMUL, IN(f("T,4"), f("5,4")), ATTR(ACCEL_F(SCALE, 2)), NULL, 1), "agree on K");
  refused(NODE(MATMUL, IN(f("2,T,4"), f("3,4,5")), ATTR(ACCEL_F(SCALE, 2)), NULL, 1),
          "do not broadcast");
}

static void test_attention(void **state) {
  (void)state;
  accel__tensor q = row("T,12"), k = row("T,6"), v = row("T,10"), out[2];
  int64_t heads[] = {0, 3};
  accel__attr space = ACCEL_I(Q_SPACE, tokens), h4 = ACCEL_I(HEADS, 4), kv2 = ACCEL_I(KV_HEADS, 2);
  /* v's heads are 5 wide */
  expect_text(NODE(ATTENTION, IN(q, k, v), ATTR(h4, kv2, space), NULL, 1), "[T,20]");
  NODE(ATTENTION, IN(q, k, v), ATTR(h4, kv2, space, ACCEL_IV(PROBS, heads, 2)), out, 2);
  expect_text(out[1], "[2,T,T]");
  accel__attr t5 = ACCEL_I(BIAS_KIND, ACCEL_PLUGIN_BIAS_T5_BIDIRECTIONAL),
              n32 = ACCEL_I(NUM_BUCKETS, 32), far = ACCEL_I(MAX_DISTANCE, 128);
  expect_text(NODE(ATTENTION, IN(q, q, q, f("32,4")), ATTR(h4, space, t5, n32, far), NULL, 1),
              "[T,12]");
  accel__attr rel = ACCEL_I(BIAS_KIND, ACCEL_PLUGIN_BIAS_DISENTANGLED), span = ACCEL_I(REL_SPAN, 5);
  expect_text(NODE(ATTENTION, IN(q, q, q, -1, -1, -1, -1, -1, f("10,12")),
                   ATTR(h4, space, rel, span), NULL, 1),
              "[T,12]");
  refused(NODE(ATTENTION, IN(q, k, v), ATTR(h4, space), NULL, 1), "do not fall into 4 heads");
  refused(NODE(ATTENTION, IN(q, k, v), ATTR(h4, ACCEL_I(KV_HEADS, 3), space), NULL, 1),
          "must divide heads");
  refused(NODE(ATTENTION, IN(q, k, v), ATTR(h4, kv2), NULL, 1), "there is no row space");
  refused(NODE(ATTENTION, IN(q, k), ATTR(h4, kv2, space), NULL, 1), "only be absent with a state");
  refused(NODE(ATTENTION, IN(q, f("B,6"), v), ATTR(h4, kv2, space), NULL, 1),
          "is not the row count of kv_space");
  refused(NODE(ATTENTION, IN(q, q, q, f("31,4")), ATTR(h4, space, t5, n32, far), NULL, 1),
          "bias should be [32,4]");
  refused(NODE(ATTENTION, IN(q, q, q), ATTR(h4, space, t5, n32, far), NULL, 1),
          "do not go together");
  refused(NODE(ATTENTION, IN(q, q, q, -1, -1, -1, -1, -1, f("9,12")), ATTR(h4, space, rel, span),
               NULL, 1),
          "rel_k should be [10,12]");
}

static void test_attention_state(void **state) {
  (void)state;
  accel__tensor q = row("T,12"), k = row("T,6");
  int32_t kv = accel__state(p, &(accel_plugin_state){.name = "kv",
                                                     .kind = ACCEL_PLUGIN_STATE_KV,
                                                     .heads = 2,
                                                     .k_dim = 3,
                                                     .v_dim = 3,
                                                     .share = -1});
  accel__attr attr[] = {ACCEL_I(HEADS, 4), ACCEL_I(KV_HEADS, 2), ACCEL_I(Q_SPACE, tokens)};
  accel__with_state(p, kv);
  expect_text(NODE(ATTENTION, IN(q, k, k), attr, NULL, 1), "[T,12]");
  assert_int_equal(p->node[p->n_node - 1].state, kv);
  accel__with_state(p, kv);
  expect_text(accel__node(p, ACCEL_PLUGIN_OP_ATTENTION, IN(q), 1, attr, 3, NULL, 1), "[T,12]");
  accel__with_state(p, kv);
  refused(NODE(ATTENTION, IN(q, q, q), attr, NULL, 1), "do not fit state 'kv'");
  accel__with_state(p, kv);
  refused(accel__unary(p, ACCEL_PLUGIN_ACT_RELU, q), "does not go with this op");
}

static void test_rope_norm(void **state) {
  (void)state;
  accel__tensor x = row("T,12"), pos = tensor("T", ACCEL_PLUGIN_I32, tokens), out[2];
  accel__attr head = ACCEL_I(HEAD_DIM, 6);
  expect_text(NODE(ROPE, IN(x, pos, f("2")), ATTR(head, ACCEL_I(ROT_DIMS, 4)), NULL, 1), "[T,12]");
  expect_text(NODE(ROPE, IN(x, pos), ATTR(head, ACCEL_F(THETA, 10000)), NULL, 1), "[T,12]");
  /* frequencies of each row */
  expect_text(NODE(ROPE, IN(x, pos, f("T,3")), ATTR(head), NULL, 1), "[T,12]");
  refused(NODE(ROPE, IN(x, pos, f("B,3")), ATTR(head), NULL, 1), "inv_freq should be [T,3]");
  refused(NODE(ROPE, IN(x, pos), ATTR(head), NULL, 1), "inv_freq or theta");
  refused(NODE(ROPE, IN(x, pos, f("3")), ATTR(ACCEL_I(HEAD_DIM, 5)), NULL, 1), "does not divide");
  refused(NODE(ROPE, IN(x, pos, f("3")), ATTR(head, ACCEL_I(ROT_DIMS, 3)), NULL, 1),
          "must be even");
  refused(NODE(ROPE, IN(x, i("B"), f("3")), ATTR(head), NULL, 1), "pos should be [T]");
  NODE(NORM, IN(x, f("12"), f("12"), x), ATTR(ACCEL_F(EPS, 1e-5)), out, 2);
  expect_text(out[1], "[T,12]");
  expect_text(NODE(NORM, IN(x, f("12")), ATTR(ACCEL_I(GROUPS, 3)), NULL, 1), "[T,12]");
  refused(NODE(NORM, IN(x, f("11")), ATTR(ACCEL_F(EPS, 1e-5)), NULL, 1), "gamma should be [12]");
  refused(NODE(NORM, IN(x, f("12")), ATTR(ACCEL_I(GROUPS, 5)), NULL, 1), "groups must divide");
  expect_text(NODE(GROUP_NORM, IN(f("B,8,H,W"), f("8"), f("8")), ATTR(ACCEL_I(GROUPS, 4)), NULL, 1),
              "[B,8,H,W]");
  refused(NODE(GROUP_NORM, IN(f("B,8,H")), ATTR(ACCEL_I(GROUPS, 3)), NULL, 1),
          "do not divide the channels");
}

static void test_conv(void **state) {
  (void)state;
  int64_t two[] = {2, 2}, pads[] = {1, 1, 1, 1}, one_pad[] = {1, 1}, three[] = {3, 3};
  expect_text(NODE(CONV, IN(f("B,3,32,W"), f("8,3,3,3"), f("8")),
                   ATTR(ACCEL_IV(STRIDE, two, 2), ACCEL_IV(PADS, pads, 4)), NULL, 1),
              "[B,8,16,(((W-1)/2)+1)]");
  expect_text(NODE(CONV, IN(f("B,4,20"), f("6,2,3")), ATTR(ACCEL_I(GROUPS, 2)), NULL, 1),
              "[B,6,18]");
  expect_text(
      NODE(CONV, IN(row("T,4"), f("4,2,3"), f("4")),
           ATTR(ACCEL_I(GROUPS, 2), ACCEL_I(SPACE, tokens), ACCEL_IV(PADS, one_pad, 2)), NULL, 1),
      "[T,4]");
  refused(NODE(CONV, IN(row("T,4"), f("4,2,3")), ATTR(ACCEL_I(GROUPS, 2), ACCEL_I(SPACE, tokens)),
               NULL, 1),
          "must keep the length");
  refused(NODE(CONV, IN(f("B,4,20"), f("6,4,3")), ATTR(ACCEL_I(GROUPS, 2)), NULL, 1),
          "does not fit x's 4 channels");
  refused(NODE(CONV, IN(f("B,4,2"), f("6,4,3")), ATTR(ACCEL_I(ACT, 0)), NULL, 1), "would be 0");
  refused(NODE(CONV, IN(f("B,4,20"), f("6,4,3")), ATTR(ACCEL_IV(STRIDE, two, 2)), NULL, 1),
          "stride has 2 values, expected 1");
  int64_t stride1[] = {2};
  expect_text(
      NODE(CONV_TRANSPOSE, IN(f("B,4,5"), f("4,3,4"), f("6")),
           ATTR(ACCEL_IV(STRIDE, stride1, 1), ACCEL_IV(PADS, one_pad, 2), ACCEL_I(GROUPS, 2)), NULL,
           1),
      "[B,6,10]");
  refused(NODE(CONV_TRANSPOSE, IN(f("B,4,5"), f("5,3,4")), ATTR(ACCEL_I(ACT, 0)), NULL, 1),
          "does not fit x's 4 channels");
  expect_text(NODE(POOL, IN(f("B,4,7,7")),
                   ATTR(ACCEL_I(KIND, ACCEL_PLUGIN_POOL_MAX), ACCEL_IV(KERNEL, three, 2),
                        ACCEL_IV(STRIDE, two, 2), ACCEL_IV(PADS, pads, 4)),
                   NULL, 1),
              "[B,4,4,4]");
  expect_text(NODE(POOL, IN(f("B,4,6,6")),
                   ATTR(ACCEL_I(KIND, ACCEL_PLUGIN_POOL_AVG), ACCEL_IV(KERNEL, three, 2),
                        ACCEL_IV(STRIDE, two, 2), ACCEL_I(CEIL, 1)),
                   NULL, 1),
              "[B,4,3,3]");
  expect_text(NODE(POOL, IN(f("B,4,H,W")), ATTR(ACCEL_I(KIND, ACCEL_PLUGIN_POOL_AVG)), NULL, 1),
              "[B,4,1,1]");
  expect_text(
      NODE(POOL, IN(f("B,4,H,W")),
           ATTR(ACCEL_I(KIND, ACCEL_PLUGIN_POOL_AVG), ACCEL_IV(ADAPTIVE, three, 2)), NULL, 1),
      "[B,4,3,3]");
  refused(NODE(POOL, IN(f("B,4")), ATTR(ACCEL_I(KIND, ACCEL_PLUGIN_POOL_AVG)), NULL, 1), "[B,C,L]");
  int64_t size[] = {accel__const_dim(p, 14), W};
  expect_text(
      NODE(RESIZE, IN(f("B,4,7,7")),
           ATTR(ACCEL_I(KIND, ACCEL_PLUGIN_RESIZE_CUBIC), ACCEL_D(SHAPE, size, 2)), NULL, 1),
      "[B,4,14,W]");
  refused(NODE(RESIZE, IN(f("B,4,7")),
               ATTR(ACCEL_I(KIND, ACCEL_PLUGIN_RESIZE_CUBIC), ACCEL_D(SHAPE, size, 2)), NULL, 1),
          "expected the 1 spatial ones");
}

static void test_rows(void **state) {
  (void)state;
  accel__tensor ids = tensor("T", ACCEL_PLUGIN_I32, tokens);
  expect_text(NODE(GATHER, IN(f("100,8"), ids), ATTR(ACCEL_I(AXIS, 0)), NULL, 1), "[T,8]");
  assert_int_equal(p->tensor[p->n_tensor - 1].space, tokens);
  expect_text(NODE(GATHER, IN(f("B,10,8"), i("2,3")), ATTR(ACCEL_I(AXIS, 1)), NULL, 1),
              "[B,2,3,8]");
  refused(NODE(GATHER, IN(f("B,10,8"), i("2")), ATTR(ACCEL_I(AXIS, 3)), NULL, 1),
          "axis 3 is outside");
  expect_text(
      NODE(SCATTER_ROWS, IN(row("T,8"), i("5"), f("5,8")), ATTR(ACCEL_I(SCATTER_MODE, 1)), NULL, 1),
      "[T,8]");
  refused(
      NODE(SCATTER_ROWS, IN(row("T,8"), i("5"), f("5,7")), ATTR(ACCEL_I(SCATTER_MODE, 1)), NULL, 1),
      "src should be [5,8]");
  expect_text(NODE(REDUCE, IN(row("T,8"), f("T")),
                   ATTR(ACCEL_I(KIND, ACCEL_PLUGIN_REDUCE_MEAN), ACCEL_I(SPACE, tokens)), NULL, 1),
              "[B,8]");
  expect_text(
      NODE(REDUCE, IN(f("B,4,5")),
           ATTR(ACCEL_I(KIND, ACCEL_PLUGIN_REDUCE_ARGMAX), ACCEL_I(AXIS, 1), ACCEL_I(KEEP, 1)),
           NULL, 1),
      "[B,1,5]");
  assert_int_equal(p->tensor[p->n_tensor - 1].dtype, ACCEL_PLUGIN_I32);
  refused(NODE(REDUCE, IN(row("T,8"), f("T")),
               ATTR(ACCEL_I(KIND, ACCEL_PLUGIN_REDUCE_MAX), ACCEL_I(SPACE, tokens)), NULL, 1),
          "weights go with sum and mean");
  refused(NODE(REDUCE, IN(f("B,8")),
               ATTR(ACCEL_I(KIND, ACCEL_PLUGIN_REDUCE_SUM), ACCEL_I(SPACE, tokens)), NULL, 1),
          "is not the row count of space 'tokens'");
  accel__tensor out[2];
  NODE(TOPK, IN(row("T,8")), ATTR(ACCEL_I(K, 2)), out, 2);
  expect_text(out[1], "[T,2]");
  refused(NODE(TOPK, IN(row("T,8")), ATTR(ACCEL_I(K, 9)), NULL, 1), "outside x's last dim");
  expect_text(NODE(SOFTMAX, IN(row("T,8")), ATTR(ACCEL_I(AXIS, -1)), NULL, 1), "[T,8]");
  refused(NODE(SOFTMAX, IN(row("T,8")), ATTR(ACCEL_I(AXIS, -3)), NULL, 1), "axis -3");
  expect_text(accel__node(p, ACCEL_PLUGIN_OP_ALLREDUCE, IN(row("T,8")), 1, NULL, 0, NULL, 1),
              "[T,8]");
}

static void test_low_rank(void **state) {
  (void)state;
  const accel__attr slot = ACCEL_I(SLOT, 2);
  expect_text(
      NODE(LOW_RANK, IN(row("T,8"), row("T,6")), ATTR(slot, ACCEL_I(SPACE, tokens)), NULL, 1),
      "[T,8]");
  expect_text(NODE(LOW_RANK, IN(f("B,8"), f("B,6")), ATTR(slot), NULL, 1), "[B,8]");
  refused(NODE(LOW_RANK, IN(f("B,8"), f("B,6")), ATTR(ACCEL_I(SPACE, -1)), NULL, 1), "slot");
  refused(NODE(LOW_RANK, IN(f("B,8"), f("H,6")), ATTR(slot), NULL, 1), "other rows");
  refused(NODE(LOW_RANK, IN(f("B,8"), f("6")), ATTR(slot), NULL, 1), "same number of dims");
  refused(NODE(LOW_RANK, IN(f("B,8"), f("B,6")), ATTR(slot, ACCEL_I(SPACE, tokens)), NULL, 1),
          "row count of its space");
}

static void test_elementwise(void **state) {
  (void)state;
  accel__attr add = ACCEL_I(KIND, ACCEL_PLUGIN_BINARY_ADD),
              where = ACCEL_I(KIND, ACCEL_PLUGIN_BINARY_WHERE);
  expect_text(NODE(BINARY, IN(row("T,8"), f("8")), ATTR(add), NULL, 1), "[T,8]");
  assert_int_equal(p->tensor[p->n_tensor - 1].space, tokens);
  expect_text(NODE(BINARY, IN(f("B,1,5"), f("4,1")), ATTR(add), NULL, 1), "[B,4,5]");
  expect_text(NODE(BINARY, IN(i("4"), f("4"), f("1")), ATTR(where), NULL, 1), "[4]");
  refused(NODE(BINARY, IN(row("T,8"), f("B,8")), ATTR(add), NULL, 1), "do not broadcast");
  refused(NODE(BINARY, IN(i("4"), f("4")), ATTR(add), NULL, 1), "different dtypes");
  refused(NODE(BINARY, IN(i("4"), f("4")), ATTR(where), NULL, 1), "goes with kind=where");
  expect_text(NODE(UNARY, IN(row("T,8")), ATTR(ACCEL_I(KIND, ACCEL_PLUGIN_ACT_MISH)), NULL, 1),
              "[T,8]");
  refused(NODE(UNARY, IN(i("4")), ATTR(ACCEL_I(KIND, ACCEL_PLUGIN_ACT_MISH)), NULL, 1),
          "must be f32");
  expect_text(NODE(CAST, IN(i("4")), ATTR(ACCEL_I(DTYPE, ACCEL_PLUGIN_F32)), NULL, 1), "[4]");
  refused(NODE(CAST, IN(i("4")), ATTR(ACCEL_I(DTYPE, ACCEL_PLUGIN_F16)), NULL, 1),
          "dtype has no value");
}

static void test_views(void **state) {
  (void)state;
  accel__dim t8 = accel__dim_op(p, ACCEL_PLUGIN_DIM_MUL, T, accel__const_dim(p, 8));
  int64_t flat[] = {t8}, split[] = {T, accel__const_dim(p, 2), accel__const_dim(p, 4)},
          wrong[] = {T, accel__const_dim(p, 7)};
  expect_text(NODE(RESHAPE, IN(row("T,8")), ATTR(ACCEL_D(SHAPE, flat, 1)), NULL, 1), "[(T*8)]");
  expect_text(NODE(RESHAPE, IN(row("T,8")), ATTR(ACCEL_D(SHAPE, split, 3)), NULL, 1), "[T,2,4]");
  assert_int_equal(p->tensor[p->n_tensor - 1].space, tokens);
  refused(NODE(RESHAPE, IN(row("T,8")), ATTR(ACCEL_D(SHAPE, wrong, 2)), NULL, 1),
          "another number of elements");
  int64_t perm[] = {0, 2, 1}, twice[] = {0, 1, 1};
  expect_text(NODE(TRANSPOSE, IN(f("B,3,5")), ATTR(ACCEL_IV(PERM, perm, 3)), NULL, 1), "[B,5,3]");
  refused(NODE(TRANSPOSE, IN(f("B,3,5")), ATTR(ACCEL_IV(PERM, twice, 3)), NULL, 1),
          "no permutation");
  expect_text(accel__slice(p, row("T,8"), 1, 2, 6), "[T,4]");
  expect_text(accel__slice(p, row("T,8"), -1, -3, INT64_MAX), "[T,3]");
  expect_text(accel__slice(p, f("H,4"), 0, 1, INT64_MAX), "[(H-1),4]");
  refused(accel__slice(p, row("T,8"), 1, 2, 9), "2..9 is not inside 0..8");
  refused(accel__slice(p, row("T,8"), 1, 4, 4), "is not inside");
  int64_t from = accel__const_dim(p, 0), to = accel__const_dim(p, 7);
  expect_text(
      NODE(SLICE, IN(f("8")),
           ATTR(ACCEL_I(AXIS, 0), ACCEL_D(START, &from, 1), ACCEL_D(END, &to, 1), ACCEL_I(STEP, 2)),
           NULL, 1),
      "[4]");
  int64_t wide[] = {B, accel__const_dim(p, 3), accel__const_dim(p, 5)};
  expect_text(NODE(BROADCAST, IN(f("3,1")), ATTR(ACCEL_D(SHAPE, wide, 3)), NULL, 1), "[B,3,5]");
  refused(NODE(BROADCAST, IN(f("2,1")), ATTR(ACCEL_D(SHAPE, wide, 3)), NULL, 1),
          "does not broadcast");
  expect_text(NODE(CONCAT, IN(row("T,8"), row("T,4"), row("T,1")), ATTR(ACCEL_I(AXIS, 1)), NULL, 1),
              "[T,13]");
  expect_text(NODE(CONCAT, IN(f("H,4"), f("W,4")), ATTR(ACCEL_I(AXIS, 0)), NULL, 1), "[(H+W),4]");
  refused(NODE(CONCAT, IN(row("T,8"), f("B,4")), ATTR(ACCEL_I(AXIS, 1)), NULL, 1),
          "does not fit the first");
  int64_t pads[] = {0, 1, 0, 2}, few[] = {1, 1};
  expect_text(NODE(PAD, IN(f("H,4")),
                   ATTR(ACCEL_I(KIND, ACCEL_PLUGIN_PAD_EDGE), ACCEL_IV(PADS, pads, 4)), NULL, 1),
              "[H,7]");
  refused(NODE(PAD, IN(f("H,4")),
               ATTR(ACCEL_I(KIND, ACCEL_PLUGIN_PAD_EDGE), ACCEL_IV(PADS, few, 2)), NULL, 1),
          "two values per dim");
}

static void test_moe_scan(void **state) {
  (void)state;
  accel__tensor x = row("T,8");
  expect_text(NODE(MOE, IN(x, i("T,2"), f("T,2"), f("4,12,8"), f("4,8,6")),
                   ATTR(ACCEL_I(GLU, ACCEL_PLUGIN_GLU_GATE_FIRST)), NULL, 1),
              "[T,8]");
  expect_text(NODE(MOE, IN(x, i("T,2"), f("T,2"), f("4,6,8"), f("4,8,6"), f("4,6"), f("4,8")),
                   ATTR(ACCEL_I(ACT, ACCEL_PLUGIN_ACT_RELU)), NULL, 1),
              "[T,8]");
  refused(NODE(MOE, IN(x, i("T,2"), f("T,2"), f("4,11,8"), f("4,8,6")),
               ATTR(ACCEL_I(GLU, ACCEL_PLUGIN_GLU_GATE_FIRST)), NULL, 1),
          "w_gate_up should be [4,12,8]");
  accel__attr space = ACCEL_I(SPACE, tokens), two = ACCEL_I(VERSION, 2);
  expect_text(NODE(SELECTIVE_SCAN,
                   IN(x, row("T,8"), f("8,3"), row("T,3"), row("T,3"), f("8"), row("T,8"), f("8")),
                   ATTR(space), NULL, 1),
              "[T,8]");
  expect_text(NODE(SELECTIVE_SCAN, IN(x, row("T,4"), f("4"), row("T,6"), row("T,6"), f("4")),
                   ATTR(space, two, ACCEL_I(GROUPS, 2)), NULL, 1),
              "[T,8]");
  refused(NODE(SELECTIVE_SCAN, IN(x, row("T,3"), f("3"), row("T,6"), row("T,6")), ATTR(space, two),
               NULL, 1),
          "do not divide the columns");
  refused(NODE(SELECTIVE_SCAN, IN(x, row("T,8"), f("8,3"), row("T,3"), row("T,4")), ATTR(space),
               NULL, 1),
          "c should be [T,3]");
}

static void test_delta_rule(void **state) {
  (void)state;
  accel__tensor q = row("T,6"), v = row("T,20"), g = row("T,4");
  accel__attr space = ACCEL_I(SPACE, tokens), two = ACCEL_I(HEADS, 2);
  expect_text(NODE(GATED_DELTA_RULE, IN(q, q, v, g, g), ATTR(space, two), NULL, 1), "[T,20]");
  refused(NODE(GATED_DELTA_RULE, IN(q, row("T,8"), v, g, g), ATTR(space, two), NULL, 1),
          "k should be [T,6]");
  refused(NODE(GATED_DELTA_RULE, IN(q, q, v, g, row("T,2")), ATTR(space, two), NULL, 1),
          "beta should be [T,4]");
  refused(NODE(GATED_DELTA_RULE, IN(q, q, v, g, g), ATTR(space), NULL, 1),
          "0 heads do not divide q's 6 columns and g's 4, or g's v's 20");
  refused(NODE(GATED_DELTA_RULE, IN(q, q, row("T,18"), g, g), ATTR(space, two), NULL, 1),
          "or g's v's 18");
  refused(NODE(GATED_DELTA_RULE, IN(f("H,6"), f("H,6"), f("H,20"), f("H,4"), f("H,4")),
               ATTR(space, two), NULL, 1),
          "not the row count of its space");
}

static void test_fixed_space(void **state) {
  (void)state;
  accel__dim rows = accel__dim_op(p, ACCEL_PLUGIN_DIM_MUL, B, accel__const_dim(p, 49));
  accel__tensor x = accel__input(p, "patch_rows", ACCEL_PLUGIN_F32, patches, 2,
                                 (accel__dim[]){rows, accel__const_dim(p, 8)});
  expect_text(accel__reduce_rows(p, ACCEL_PLUGIN_REDUCE_FIRST, x, -1, patches), "[B,8]");
  assert_int_equal(accel__input(p, "wrong_rows", ACCEL_PLUGIN_F32, patches, 2,
                                (accel__dim[]){T, accel__const_dim(p, 8)}),
                   -1);
  refused(-1, "not the rows of its space");
}

/* Runs last: every op of ops.def was tried above. */
static void test_all_seen(void **state) {
  (void)state;
#define ACCEL_OP(name, number, operands, outputs, attributes, text) \
  if (!(seen & (1u << number))) fail_msg("no shape test for op " #name);
#include "accel/ops.def"
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_linear),      TEST(test_matmul),
      TEST(test_attention),   TEST(test_attention_state),
      TEST(test_rope_norm),   TEST(test_conv),
      TEST(test_rows),        TEST(test_elementwise),
      TEST(test_views),       TEST(test_moe_scan),
      TEST(test_delta_rule),  TEST(test_low_rank),
      TEST(test_fixed_space), cmocka_unit_test(test_all_seen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
