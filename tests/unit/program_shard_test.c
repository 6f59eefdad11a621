/* program_shard_test.c - the program of one rank: which weights it has which part of, where sums
 * are, and what cannot be shared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "program/program_internal.h"

static accel__program *p;
static accel__dim T, B;
static accel__tensor lengths, x;
static int32_t rows;

static void begin(uint32_t rank, uint32_t world, int64_t columns) {
  p = accel__program_new("shard");
  accel__program_shard(p, rank, world);
  T = accel__symbol(p, "T", 1, 0, 16);
  B = accel__symbol(p, "B", 1, 0, 2);
  lengths = accel__input(p, "lengths", ACCEL_PLUGIN_I32, -1, 1, &B);
  rows = accel__space_ragged(p, "tokens", lengths, T, B);
  x = accel__input(p, "x", ACCEL_PLUGIN_F32, rows, 2,
                   (accel__dim[]){T, accel__const_dim(p, columns)});
}

static accel_status finish(accel__tensor y) {
  accel__entry(p, "forward", (accel__tensor[]){lengths, x}, 2, &y, 1);
  return accel__program_finish(p);
}

static accel__tensor weight(const char *name, accel_plugin_weight_use use, int64_t n, int64_t k) {
  return accel__weight(
      p, &(accel__weight_spec){.name = name, .use = use, .rank = k ? 2 : 1, .dim = {n, k}});
}
static accel__tensor dense(const char *name, accel__tensor in, int64_t n, int64_t k,
                           accel__tensor residual) {
  char bias[40];
  snprintf(bias, sizeof bias, "%s.bias", name);
  return accel__linear(p, in, weight(name, ACCEL_PLUGIN_USE_LINEAR, n, k),
                       weight(bias, ACCEL_PLUGIN_USE_PLAIN, n, 0), residual, ACCEL_PLUGIN_ACT_NONE);
}
static accel__tensor attend(accel__tensor q, accel__tensor k, accel__tensor v, int64_t heads,
                            int64_t kv_heads) {
  const accel__attr attr[] = {ACCEL_I(HEADS, heads), ACCEL_I(KV_HEADS, kv_heads),
                              ACCEL_I(Q_SPACE, rows), ACCEL_I(KV_SPACE, rows)};
  return accel__node(p, ACCEL_PLUGIN_OP_ATTENTION, (accel__tensor[]){q, k, v}, 3, attr, 4, NULL, 1);
}
static accel__tensor norm(accel__tensor in) {
  return accel__node(p, ACCEL_PLUGIN_OP_NORM, &in, 1, NULL, 0, NULL, 1);
}

static const accel_plugin_program *view(void) { return accel__program_view(p); }

static uint32_t count(int op) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < view()->entry[0].n_node; i++)
    n += view()->node[view()->entry[0].node[i]].op == op;
  return n;
}

/* "32x16 rows 32:0+16 columns all" */
static const char *share(const char *name) {
  static char text[160];
  for (uint32_t i = 0; i < view()->n_weight; i++) {
    const accel_plugin_weight *w = &view()->weight[i];
    const accel__weight_share *s = &accel__weight_source(p, i)->share;
    if (strcmp(w->name, name)) continue;
    snprintf(text, sizeof text, "%lldx%lld r%lld:%lld+%lld c%lld:%lld+%lld", (long long)w->dim[0],
             (long long)(w->rank > 1 ? w->dim[1] : 0), (long long)s->rows.period,
             (long long)s->rows.first, (long long)s->rows.count, (long long)s->columns.period,
             (long long)s->columns.first, (long long)s->columns.count);
    return text;
  }
  return "";
}

/* ---- what is shared ---- */

static void test_mlp(void **state) {
  (void)state;
  for (uint32_t rank = 0; rank < 2; rank++) {
    begin(rank, 2, 16);
    accel__tensor y = accel__unary(p, ACCEL_PLUGIN_ACT_GELU, dense("up", norm(x), 64, 16, -1));
    assert_int_equal(finish(norm(dense("down", y, 16, 64, x))), ACCEL_OK);
    assert_int_equal(count(ACCEL_PLUGIN_OP_ALLREDUCE), 1);
    assert_string_equal(share("up"), rank ? "32x16 r64:32+32 c0:0+0" : "32x16 r64:0+32 c0:0+0");
    assert_string_equal(share("up.bias"), rank ? "32x0 r0:0+0 c64:32+32" : "32x0 r0:0+0 c64:0+32");
    assert_string_equal(share("down"), rank ? "16x32 r0:0+0 c64:32+32" : "16x32 r0:0+0 c64:0+32");
    for (uint32_t i = 0; i < view()->n_node; i++) /* bias and residual are added once */
      if (view()->node[i].op == ACCEL_PLUGIN_OP_LINEAR && i > 1)
        assert_int_equal(view()->node[i].n_in, rank ? 2 : 4);
    accel__program_free(&p);
  }
}

/* 11 columns among 3 ranks. */
static void test_uneven(void **state) {
  static const char *const parts[] = {"3x8 r11:0+3 c0:0+0", "4x8 r11:3+4 c0:0+0",
                                      "4x8 r11:7+4 c0:0+0"};
  (void)state;
  for (uint32_t rank = 0; rank < 3; rank++) {
    begin(rank, 3, 8);
    assert_int_equal(finish(norm(dense("down", dense("up", x, 11, 8, -1), 8, 11, -1))), ACCEL_OK);
    assert_string_equal(share("up"), parts[rank]);
    accel__program_free(&p);
  }
}

static accel__tensor attention_layer(int64_t heads, int64_t kv_heads, bool whole_norm) {
  accel__tensor q = dense("q", x, heads * 4, 16, -1), k = dense("k", x, kv_heads * 4, 16, -1),
                v = dense("v", x, kv_heads * 4, 16, -1);
  if (whole_norm) q = norm(q);
  return dense("o", attend(q, k, v, heads, kv_heads), 16, heads * 4, x);
}

static void test_heads(void **state) {
  (void)state;
  begin(1, 2, 16);
  assert_int_equal(finish(norm(attention_layer(4, 2, false))), ACCEL_OK);
  assert_string_equal(share("q"), "8x16 r16:8+8 c0:0+0");
  assert_string_equal(share("k"), "4x16 r8:4+4 c0:0+0");
  assert_string_equal(share("o"), "16x8 r0:0+0 c16:8+8");
  accel__program_free(&p);
  /* fewer heads of keys than ranks: some have the same */
  for (uint32_t rank = 0; rank < 4; rank++) {
    begin(rank, 4, 16);
    assert_int_equal(finish(norm(attention_layer(8, 2, false))), ACCEL_OK);
    assert_string_equal(share("k"), rank < 2 ? "4x16 r8:0+4 c0:0+0" : "4x16 r8:4+4 c0:0+0");
    accel__program_free(&p);
  }
}

/* A norm over all heads needs all of them: every rank computes these, and slices. */
static void test_whole_norm(void **state) {
  (void)state;
  begin(1, 2, 16);
  assert_int_equal(finish(norm(attention_layer(4, 2, true))), ACCEL_OK);
  assert_string_equal(share("q"), "16x16 r0:0+0 c0:0+0");
  assert_string_equal(share("v"), "4x16 r8:4+4 c0:0+0");
  assert_int_equal(count(ACCEL_PLUGIN_OP_SLICE), 1);
  assert_int_equal(count(ACCEL_PLUGIN_OP_ALLREDUCE), 1);
  accel__program_free(&p);
}

/* Attention and MLP beside each other: their addends are added first, and summed once. */
static void test_parallel(void **state) {
  (void)state;
  for (uint32_t rank = 0; rank < 2; rank++) {
    begin(rank, 2, 16);
    accel__tensor z = attention_layer(4, 4, false);
    assert_int_equal(finish(norm(dense("down", dense("up", x, 32, 16, -1), 16, 32, z))), ACCEL_OK);
    assert_int_equal(count(ACCEL_PLUGIN_OP_ALLREDUCE), 1);
    accel__program_free(&p);
  }
}

/* A residual that nobody else reads, behind something else: all ranks compute it. */
static void test_residual_alone(void **state) {
  (void)state;
  for (uint32_t rank = 0; rank < 2; rank++) {
    begin(rank, 2, 16);
    accel__tensor z = accel__unary(p, ACCEL_PLUGIN_UNARY_NEG, attention_layer(4, 4, false));
    assert_int_equal(finish(norm(dense("down", dense("up", x, 32, 16, -1), 16, 32, z))), ACCEL_OK);
    assert_int_equal(count(ACCEL_PLUGIN_OP_ALLREDUCE), 2);
    assert_int_equal(count(ACCEL_PLUGIN_OP_BINARY), 1);
    accel__program_free(&p);
  }
}

/* Rows of `table` for ids, an MLP, and a product with `head`. */
static accel_status finish_lookup(int64_t vocabulary, const char *head) {
  accel__tensor ids = accel__input(p, "ids", ACCEL_PLUGIN_I32, rows, 1, &T),
                table = weight("table", ACCEL_PLUGIN_USE_EMBEDDING, vocabulary, 16),
                y = dense("up", accel__gather(p, table, ids), 64, 16, -1);
  y = dense("down", y, 16, 64, -1);
  if (head)
    y = accel__linear(p, y, weight(head, ACCEL_PLUGIN_USE_EMBEDDING, vocabulary, 16), -1, -1,
                      ACCEL_PLUGIN_ACT_NONE);
  accel__entry(p, "forward", (accel__tensor[]){lengths, ids}, 2, &y, 1);
  return accel__program_finish(p);
}

static uint32_t count_binary(int kind) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < view()->n_node; i++)
    n += view()->node[i].op == ACCEL_PLUGIN_OP_BINARY && view()->node[i].attr[0].i == kind;
  return n;
}

/* A table that is also the head: looked up and multiplied by the same rows. */
static void test_tied_head(void **state) {
  static const char *const parts[] = {"32x16 r101:0+32 c0:0+0", "32x16 r101:32+32 c0:0+0",
                                      "37x16 r101:64+37 c0:0+0"};
  (void)state;
  for (uint32_t rank = 0; rank < 3; rank++) {
    begin(rank, 3, 16);
    assert_int_equal(finish_lookup(101, "table"), ACCEL_OK);
    assert_string_equal(share("table"), parts[rank]);
    assert_int_equal(count(ACCEL_PLUGIN_OP_PAD), 1);
    assert_int_equal(count(ACCEL_PLUGIN_OP_ALLREDUCE), 3);
    /* ids below and above all tables are left to the first and the last rank, which refuse them */
    assert_int_equal(count_binary(ACCEL_PLUGIN_BINARY_MAX), rank > 0);
    assert_int_equal(count_binary(ACCEL_PLUGIN_BINARY_MIN), rank < 2);
    assert_int_equal(count_binary(ACCEL_PLUGIN_BINARY_SUB), rank > 0 ? 2 : 1);
    assert_int_equal(count_binary(ACCEL_PLUGIN_BINARY_WHERE), 1);
    accel__program_free(&p);
  }
}

/* A table of its own is cut when that saves memory; one that something else reads never is. */
static void test_lookup(void **state) {
  (void)state;
  begin(1, 2, 16);
  assert_int_equal(finish_lookup(8192, NULL), ACCEL_OK);
  assert_string_equal(share("table"), "4096x16 r8192:4096+4096 c0:0+0");
  assert_int_equal(count(ACCEL_PLUGIN_OP_ALLREDUCE), 2);
  accel__program_free(&p);
  begin(1, 2, 16);
  assert_int_equal(finish_lookup(8191, NULL), ACCEL_OK);
  assert_string_equal(share("table"), "8191x16 r0:0+0 c0:0+0");
  accel__program_free(&p);
  begin(1, 2, 16);
  norm(weight("table", ACCEL_PLUGIN_USE_EMBEDDING, 8192, 16)); /* no entry needs it */
  assert_int_equal(finish_lookup(8192, NULL), ACCEL_OK);
  assert_string_equal(share("table"), "4096x16 r8192:4096+4096 c0:0+0");
  accel__program_free(&p);
  begin(1, 2, 16);
  accel__tensor table = weight("table", ACCEL_PLUGIN_USE_EMBEDDING, 8192, 16), all = norm(table),
                ids = accel__input(p, "ids", ACCEL_PLUGIN_I32, rows, 1, &T);
  accel__tensor y =
      dense("down", dense("up", accel__gather(p, table, ids), 64, 16, -1), 16, 64, -1);
  accel__entry(p, "forward", (accel__tensor[]){lengths, ids}, 2, (accel__tensor[]){y, all}, 2);
  assert_int_equal(accel__program_finish(p), ACCEL_OK);
  assert_string_equal(share("table"), "8192x16 r0:0+0 c0:0+0");
  accel__program_free(&p);
}

/* Programs of two ranks are told apart by their hashes, which key caches. */
static void test_hash(void **state) {
  uint64_t hash[2];
  (void)state;
  for (uint32_t rank = 0; rank < 2; rank++) {
    begin(rank, 2, 16);
    assert_int_equal(finish(norm(attention_layer(4, 2, false))), ACCEL_OK);
    hash[rank] = view()->hash;
    accel__program_free(&p);
  }
  assert_true(hash[0] != hash[1]);
}

/* ---- what is not ---- */

static void test_refused(void **state) {
  (void)state;
  begin(0, 3, 16);
  assert_int_equal(finish(norm(attention_layer(4, 2, false))), ACCEL_ERROR_UNSUPPORTED);
  assert_int_equal(accel__program_undivided(p), 4);
  assert_non_null(strstr(accel__message(), "4 heads, which 3 ranks do not divide"));
  accel__program_free(&p);
  begin(0, 2, 16);
  assert_int_equal(finish(norm(attention_layer(6, 3, false))), ACCEL_ERROR_UNSUPPORTED);
  assert_non_null(strstr(accel__message(), "3 heads of keys and values"));
  accel__program_free(&p);
  begin(0, 2, 16);
  assert_int_equal(finish(norm(x)), ACCEL_ERROR_UNSUPPORTED);
  assert_non_null(strstr(accel__message(), "no layers that ranks could share"));
  accel__program_free(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_mlp),       cmocka_unit_test(test_uneven),
      cmocka_unit_test(test_heads),     cmocka_unit_test(test_whole_norm),
      cmocka_unit_test(test_parallel),  cmocka_unit_test(test_residual_alone),
      cmocka_unit_test(test_tied_head), cmocka_unit_test(test_lookup),
      cmocka_unit_test(test_hash),      cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
