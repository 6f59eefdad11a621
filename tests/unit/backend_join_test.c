/* backend_join_test.c - nodes that run in one launch (kit_backend.joins and follows): random
 * programs give the same results joined and not, whatever outputs are wanted and in whatever order
 * the nodes of a launch are done. */
#include <math.h>

#include "backend_helper.h"

enum { COLS = 5, ROWS = 7, NODES = 24, OUTPUTS = 6 };

static uint32_t seed;
static int pick(int n) {
  seed = seed * 1664525u + 1013904223u;
  return (int)((seed >> 8) % (uint32_t)n);
}

/* ---- a backend that joins what it can ---- */

static int launches, joined;

static bool fuse_parallel(void *self, const accel_plugin_program *program,
                          const accel_plugin_node *first, const accel_plugin_node *other) {
  (void)self, (void)program;
  assert_int_equal(first->op, other->op);
  assert_int_equal(first->in[0], other->in[0]);
  return first->op == ACCEL_PLUGIN_OP_UNARY || first->op == ACCEL_PLUGIN_OP_BINARY;
}
static int32_t run_one(const kit_launch *l, accel_plugin_error *error) {
  return kit_scalar(l->node->op)(l, error);
}
static int32_t launch(void *self, const kit_launch *l, accel_plugin_error *error) {
  (void)self;
  launches++;
  joined += (int)l->n_fused;
  assert_true(l->n_fused <= KIT_MAX_FUSED);
  /* from the last to the first: they must not need each other */
  for (uint32_t m = l->n_fused; m-- > 0;) {
    int32_t rc = run_one(&l->joined[m], error);
    if (rc) return rc;
  }
  return run_one(l, error);
}
static const kit_backend joining = {.name = "joining",
                                    .open = toy_open,
                                    .close = toy_close,
                                    .weight = toy_weight,
                                    .launch = launch,
                                    .fuse_parallel = fuse_parallel};

/* ---- one that runs unary nodes on what the one before makes, which then has no memory ---- */

static int followed;

static bool fuse_chain(void *self, const accel_plugin_program *program,
                       const accel_plugin_node *first, const accel_plugin_node *next) {
  (void)self, (void)program;
  assert_int_equal(first->out[0], next->in[0]);
  return next->op == ACCEL_PLUGIN_OP_UNARY &&
         (first->op == ACCEL_PLUGIN_OP_UNARY || first->op == ACCEL_PLUGIN_OP_BINARY);
}
static int32_t launch_followed(void *self, const kit_launch *l, accel_plugin_error *error) {
  float between[ROWS * COLS];
  (void)self;
  if (!l->n_fused || l->joined->in[0].id != l->out[0].id) return launch(self, l, error);
  launches++;
  followed++;
  assert_int_equal(l->n_fused, 1);
  assert_null(l->out[0].data);
  assert_int_equal(l->out[0].elements, ROWS * COLS);
  kit_launch first = *l, next = *l->joined;
  kit_tensor out[KIT_RESULTS], in[KIT_OPERANDS];
  memcpy(out, l->out, sizeof out);
  memcpy(in, next.in, sizeof in);
  out[0].data = in[0].data = between;
  first.out = out;
  next.in = in;
  int32_t rc = run_one(&first, error);
  return rc ? rc : run_one(&next, error);
}
static const kit_backend following = {.name = "following",
                                      .open = toy_open,
                                      .close = toy_close,
                                      .weight = toy_weight,
                                      .launch = launch_followed,
                                      .fuse_parallel = fuse_parallel,
                                      .fuse_chain = fuse_chain};

/* ---- random programs: few operands, so that many nodes read the same one ---- */

static accel__program *random_program(void) {
  accel__program *p = accel__program_new("random");
  accel__dim dims[2] = {accel__symbol(p, "T", 1, 100, 8), accel__const_dim(p, COLS)};
  accel__tensor t[NODES + 1] = {accel__input(p, "x", ACCEL_PLUGIN_F32, -1, 2, dims)}, out[OUTPUTS];
  for (int i = 1; i <= NODES; i++) {
    accel__tensor a = t[pick(i) / 2], b = t[pick(i)];
    const int unary[] = {ACCEL_PLUGIN_ACT_TANH, ACCEL_PLUGIN_ACT_SIGMOID, ACCEL_PLUGIN_UNARY_NEG,
                         ACCEL_PLUGIN_UNARY_ABS};
    t[i] = pick(3) ? accel__unary(p, unary[pick(4)], a)
                   : accel__binary(p, pick(2) ? ACCEL_PLUGIN_BINARY_ADD : ACCEL_PLUGIN_BINARY_MAX,
                                   a, b);
  }
  for (int i = 0; i < OUTPUTS; i++) out[i] = t[NODES - 3 * i];
  accel__entry(p, "run", t, 1, out, OUTPUTS);
  if (accel__program_finish(p)) fail_msg("%s", accel__message());
  return p;
}

static void run(accel_plugin_endpoint *e, toy_host *host, float *x, uint32_t wanted,
                float y[OUTPUTS][ROWS * COLS]) {
  accel_plugin_view in = toy_view(ACCEL_PLUGIN_F32, x, 2, ROWS, COLS), out[OUTPUTS];
  accel_plugin_error error = {.size = sizeof error};
  accel_plugin_run r = {.size = sizeof r, .host = &host->host};
  for (int i = 0; i < OUTPUTS; i++)
    out[i] = (accel_plugin_view){.size = sizeof out[i],
                                 .host = wanted >> i & 1 ? y[i] : NULL,
                                 .capacity = ROWS * COLS * sizeof(float)};
  memset(y, 0, OUTPUTS * sizeof y[0]);
  if (kit_handler(e, NULL, &r, &in, 1, out, OUTPUTS, &error)) fail_msg("%s", error.message);
}

static void test_random(void **state) {
  (void)state;
  float x[ROWS * COLS];
  static float want[OUTPUTS][ROWS * COLS], got[OUTPUTS][ROWS * COLS];
  for (int i = 0; i < ROWS * COLS; i++) x[i] = sinf((float)i);
  for (seed = 1; seed < 400u << 8; seed += 256) { /* pick moves it on: some hundred programs */
    uint32_t kept = seed;
    toy_host host;
    accel__program *p = random_program();
    toy_host_init(&host, NULL);
    accel_plugin_endpoint *alone = toy_init(&toy, p, &host, 0),
                          *together = toy_init(&joining, p, &host, 0),
                          *chained = toy_init(&following, p, &host, 0);
    for (uint32_t wanted = 1; wanted < 1u << OUTPUTS; wanted += 7) {
      run(alone, &host, x, wanted, want);
      run(together, &host, x, wanted, got);
      assert_memory_equal(got, want, sizeof got);
      run(chained, &host, x, wanted, got);
      assert_memory_equal(got, want, sizeof got);
    }
    kit_cleanup(alone, &host.host);
    kit_cleanup(together, &host.host);
    kit_cleanup(chained, &host.host);
    accel__program_free(&p);
    seed = kept;
  }
  assert_true(joined > launches / 8 && followed > launches / 50); /* both were put to the test */
}

/* Three nodes over one operand are one launch; one that needs another of them is not. */
static void test_group(void **state) {
  (void)state;
  accel__program *p = accel__program_new("group");
  accel__dim dims[2] = {accel__symbol(p, "T", 1, 100, 8), accel__const_dim(p, COLS)};
  accel__tensor x = accel__input(p, "x", ACCEL_PLUGIN_F32, -1, 2, dims);
  accel__tensor a = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, x, x),
                b = accel__binary(p, ACCEL_PLUGIN_BINARY_MUL, x, x),
                c = accel__binary(p, ACCEL_PLUGIN_BINARY_SUB, x, a),
                d = accel__binary(p, ACCEL_PLUGIN_BINARY_MAX, x, x),
                e = accel__binary(p, ACCEL_PLUGIN_BINARY_MIN, x, c);
  accel__tensor out[OUTPUTS] = {a, b, c, d, e, accel__unary(p, ACCEL_PLUGIN_UNARY_NEG, e)};
  accel__entry(p, "run", &x, 1, out, OUTPUTS);
  assert_int_equal(accel__program_finish(p), ACCEL_OK);
  toy_host host;
  toy_host_init(&host, NULL);
  accel_plugin_endpoint *endpoint = toy_init(&joining, p, &host, 0);
  float values[ROWS * COLS], y[OUTPUTS][ROWS * COLS];
  for (int i = 0; i < ROWS * COLS; i++) values[i] = (float)i - 3;
  launches = joined = 0;
  run(endpoint, &host, values, 0x1f, y);
  assert_int_equal(launches, 3); /* a b d, c, e */
  assert_int_equal(joined, 2);
  for (int i = 0; i < ROWS * COLS; i++) {
    float v = values[i];
    assert_true(y[0][i] == 2 * v && y[1][i] == v * v && y[2][i] == -v && y[3][i] == v &&
                y[4][i] == fminf(v, -v));
  }
  launches = joined = 0;
  run(endpoint, &host, values, 0x0a, y); /* pruned: b and d */
  assert_true(launches == 1 && joined == 1);
  kit_cleanup(endpoint, &host.host);
  accel__program_free(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_group), cmocka_unit_test(test_random)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
