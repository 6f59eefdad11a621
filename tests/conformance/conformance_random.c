/* conformance_random.c - seeded cases: shapes of real models and awkward ones around them.  What is
 * right is what the reference plugin computes. */
#include <stdio.h>
#include <string.h>

#include "conformance.h"

typedef struct maker {
  conf_cases *cases;
  conf_case *c;
  uint64_t state;
  uint32_t first;   /* number of the first case here: names count from it */
  int64_t shortest; /* of the sequences of a ragged space; 0: 1 */
} maker;

static uint64_t next(maker *m) { /* splitmix64 */
  uint64_t z = m->state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}
static int64_t between(maker *m, int64_t low, int64_t high) {
  return low + (int64_t)(next(m) % (uint64_t)(high - low + 1));
}
static float normal(maker *m) { /* nearly: the sum of four uniforms, variance 1 */
  float sum = 0;
  for (int i = 0; i < 4; i++) sum += (float)(next(m) >> 40) * 0x1p-24f - 0.5f;
  return sum * 1.7320508f;
}

static void start(maker *m, const char *op, const char *what) {
  char name[96];
  snprintf(name, sizeof name, "random.%s.%u.%s", op, m->cases->n - m->first, what);
  m->c = conf_add(m->cases, name, op);
  m->c->n_run = 1;
  m->c->wanted[0] = true;
}

static void *room(maker *m, conf_tensor *t, accel_plugin_dtype dtype, uint32_t rank,
                  const int64_t *dim) {
  *t = (conf_tensor){.present = true, .dtype = dtype, .rank = rank, .elements = 1};
  for (uint32_t i = 0; i < rank; i++) {
    t->dim[i] = dim[i];
    t->elements *= dim[i];
  }
  void *data = accel__arena_alloc(&m->cases->arena, (size_t)t->elements * 4 + 4);
  t->data = data;
  return data;
}

/* Operand `at`: role, use, row space; normal numbers times scale. */
static void floats(maker *m, uint32_t at, char role, uint32_t use, int32_t space, float scale,
                   uint32_t rank, const int64_t *dim) {
  conf_tensor *t = &m->c->run[0].in[at];
  float *data = room(m, t, ACCEL_PLUGIN_F32, rank, dim);
  for (int64_t i = 0; data && i < t->elements; i++) data[i] = normal(m) * scale;
  m->c->role[at] = role;
  m->c->use[at] = use;
  m->c->space[at] = space;
  if (m->c->n_operand <= at) m->c->n_operand = at + 1;
}

static void integers(maker *m, uint32_t at, int64_t low, int64_t high, int32_t space, uint32_t rank,
                     const int64_t *dim) {
  conf_tensor *t = &m->c->run[0].in[at];
  int32_t *data = room(m, t, ACCEL_PLUGIN_I32, rank, dim);
  for (int64_t i = 0; data && i < t->elements; i++) data[i] = (int32_t)between(m, low, high);
  m->c->role[at] = 'i';
  m->c->space[at] = space;
  if (m->c->n_operand <= at) m->c->n_operand = at + 1;
}

static void set(maker *m, accel__attr a) { m->c->attr[m->c->n_attr++] = a; }
static void set_list(maker *m, accel_plugin_attr_key key, uint32_t n, const int64_t *v) {
  int64_t *copy = accel__arena_alloc(&m->cases->arena, n * sizeof *copy);
  if (copy) memcpy(copy, v, n * sizeof *copy);
  m->c->attr_dims[m->c->n_attr] = key == ACCEL_PLUGIN_ATTR_SHAPE;
  set(m, (accel__attr){
             .key = key,
             .type = key == ACCEL_PLUGIN_ATTR_SHAPE ? ACCEL_PLUGIN_ATTR_D : ACCEL_PLUGIN_ATTR_IV,
             .v = copy,
             .n = n});
}
#define DIMS(...) \
  (sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

/* A ragged space of `items` sequences; returns its rows. */
static int64_t ragged(maker *m, int64_t items, int64_t longest) {
  int32_t *lengths = accel__arena_alloc(&m->cases->arena, (size_t)items * 4 + 4);
  int64_t rows = 0;
  for (int64_t i = 0; lengths && i < items; i++)
    rows += lengths[i] = (int32_t)between(m, m->shortest ? m->shortest : 1, longest);
  m->c->run[0].lengths[m->c->n_space] = lengths;
  m->c->run[0].items[m->c->n_space] = items;
  m->c->spaces[m->c->n_space++].ragged = true;
  return rows;
}

static void linear(maker *m, int64_t t, int64_t k, int64_t n) {
  static const int acts[] = {0,
                             ACCEL_PLUGIN_ACT_GELU,
                             ACCEL_PLUGIN_ACT_GELU_TANH,
                             ACCEL_PLUGIN_ACT_SILU,
                             ACCEL_PLUGIN_ACT_RELU,
                             ACCEL_PLUGIN_ACT_TANH,
                             0};
  char what[48];
  snprintf(what, sizeof what, "%lldx%lldx%lld", (long long)t, (long long)k, (long long)n);
  start(m, "LINEAR", what);
  floats(m, 0, 'i', 0, -1, 1, DIMS(t, k));
  floats(m, 1, 'w', ACCEL_PLUGIN_USE_LINEAR, -1, 0.05f, DIMS(n, k));
  if (between(m, 0, 3)) floats(m, 2, 'w', ACCEL_PLUGIN_USE_PLAIN, -1, 1, DIMS(n));
  if (between(m, 0, 1)) floats(m, 3, 'i', 0, -1, 1, DIMS(t, n));
  set(m, ACCEL_I(ACT, acts[between(m, 0, 6)]));
}

static void gated(maker *m, int64_t t, int64_t k, int64_t n, int64_t glu) {
  start(m, "LINEAR", "gated");
  int64_t rows = glu == ACCEL_PLUGIN_GLU_SEPARATE ? n : 2 * n;
  floats(m, 0, 'i', 0, -1, 1, DIMS(t, k));
  floats(m, 1, 'w', ACCEL_PLUGIN_USE_LINEAR, -1, 0.1f, DIMS(rows, k));
  if (glu == ACCEL_PLUGIN_GLU_SEPARATE)
    floats(m, 4, 'w', ACCEL_PLUGIN_USE_LINEAR, -1, 0.1f, DIMS(n, k));
  set(m, ACCEL_I(ACT, ACCEL_PLUGIN_ACT_SILU));
  set(m, ACCEL_I(GLU, glu));
}

static void attention(maker *m, int64_t heads, int64_t kv, int64_t d, int64_t items,
                      int64_t longest, int causal, int64_t left) {
  char what[64];
  snprintf(what, sizeof what, "%lldof%lld_%lld_causal%d_left%lld", (long long)heads, (long long)kv,
           (long long)d, causal, (long long)left);
  start(m, "ATTENTION", what);
  int64_t t = ragged(m, items, longest);
  floats(m, 0, 'i', 0, 0, 1, DIMS(t, heads * d));
  floats(m, 1, 'i', 0, 0, 1, DIMS(t, kv * d));
  floats(m, 2, 'i', 0, 0, 1, DIMS(t, kv * d));
  set(m, ACCEL_I(HEADS, heads));
  set(m, ACCEL_I(KV_HEADS, kv));
  set(m, ACCEL_I(CAUSAL, causal));
  if (left >= 0) set(m, ACCEL_I(WINDOW_LEFT, left));
  if (left >= 0 && !causal) set(m, ACCEL_I(WINDOW_RIGHT, left));
  set(m, ACCEL_F(SCALE, 0.125));
  set(m, ACCEL_I(Q_SPACE, 0));
  set(m, ACCEL_I(KV_SPACE, 0));
}

/* Keys kept in a session, more of them than a page holds or than go at once, and the weights of
 * some heads over them. */
static void session_probs(maker *m, int64_t heads, int64_t kv, int64_t d, int64_t items,
                          int64_t shortest, int64_t longest, int causal) {
  m->shortest = shortest;
  attention(m, heads, kv, d, items, longest, causal, -1);
  m->shortest = 0;
  conf_case *c = m->c;
  c->name = accel__arena_printf(&m->cases->arena, "random.ATTENTION.%u.session_probs",
                                m->cases->n - 1 - m->first);
  c->has_state = true;
  c->state = (accel_plugin_state){.name = "state",
                                  .kind = ACCEL_PLUGIN_STATE_KV,
                                  .heads = (int32_t)kv,
                                  .k_dim = (int32_t)d,
                                  .v_dim = (int32_t)d,
                                  .share = -1};
  c->wanted[1] = true;
  set_list(m, ACCEL_PLUGIN_ATTR_PROBS, DIMS(heads - 1, 0));
  c->run[0].n_sequence = (uint32_t)items;
  for (int64_t i = 0; i < items; i++) c->run[0].sequence[i] = (int32_t)i;
}

/* Rows of several tiles of 64, all that attention adds to a score or hides, a kind at a time. */
static void attention_with(maker *m, int kind, int64_t heads, int64_t kv, int64_t d) {
  attention(m, heads, kv, d, 3, 140, kind % 2, kind == 6 ? 40 : -1);
  conf_case *c = m->c;
  const int64_t t = c->run[0].in[0].dim[0], most = 140;
  static const char *const name[] = {"dense", "t5",    "t5_causal", "alibi",
                                     "mask",  "sinks", "positions", "softcap"};
  c->name = accel__arena_printf(&m->cases->arena, "random.ATTENTION.%u.%s_%lld",
                                m->cases->n - 1 - m->first, name[kind], (long long)d);
  static const int bias[] = {ACCEL_PLUGIN_BIAS_DENSE, ACCEL_PLUGIN_BIAS_T5_BIDIRECTIONAL,
                             ACCEL_PLUGIN_BIAS_T5_UNIDIRECTIONAL, ACCEL_PLUGIN_BIAS_ALIBI};
  if (kind < 4) set(m, ACCEL_I(BIAS_KIND, bias[kind]));
  if (kind == 0) floats(m, 3, 'i', 0, -1, 1, DIMS(1, heads, most, most));
  if (kind == 1 || kind == 2) {
    floats(m, 3, 'i', 0, -1, 1, DIMS(32, heads));
    set(m, ACCEL_I(NUM_BUCKETS, 32));
    set(m, ACCEL_I(MAX_DISTANCE, 100));
  }
  if (kind == 3) floats(m, 3, 'i', 0, -1, 0.1f, DIMS(heads));
  if (kind == 4) integers(m, 6, 0, 1, 0, DIMS(t));
  if (kind == 5) floats(m, 7, 'i', 0, -1, 2, DIMS(heads));
  if (kind == 6) {
    integers(m, 4, 0, 150, 0, DIMS(t));
    integers(m, 5, 0, 150, 0, DIMS(t));
  }
  if (kind == 7) set(m, ACCEL_F(SOFTCAP, 2.0));
}

/* A prompt, single rows and a few rows of a session's sequences, whose keys pass a page. */
static void session_rows(maker *m, int64_t heads, int64_t kv, int64_t d, int64_t left) {
  static const int32_t rows[3][3] = {{250, 3, 20}, {1, 1, 1}, {7, 12, 1}};
  start(m, "ATTENTION", "session_rows");
  conf_case *c = m->c;
  c->has_state = true;
  c->state = (accel_plugin_state){.name = "state",
                                  .kind = ACCEL_PLUGIN_STATE_KV,
                                  .heads = (int32_t)kv,
                                  .k_dim = (int32_t)d,
                                  .v_dim = (int32_t)d,
                                  .share = -1};
  set(m, ACCEL_I(HEADS, heads));
  set(m, ACCEL_I(KV_HEADS, kv));
  set(m, ACCEL_I(CAUSAL, 1));
  if (left >= 0) set(m, ACCEL_I(WINDOW_LEFT, left));
  set(m, ACCEL_I(Q_SPACE, 0));
  set(m, ACCEL_I(KV_SPACE, 0));
  c->n_run = 3;
  c->n_space = 1;
  c->spaces[0].ragged = true;
  c->n_operand = 3;
  for (int r = 0; r < 3; r++) {
    conf_run *run = &c->run[r];
    const int64_t t = rows[r][0] + rows[r][1] + rows[r][2];
    run->lengths[0] = rows[r];
    run->items[0] = run->n_sequence = 3;
    for (int i = 0; i < 3; i++) {
      const int64_t columns = i == 0 ? heads * d : kv * d;
      float *data = room(m, &run->in[i], ACCEL_PLUGIN_F32, 2, (int64_t[]){t, columns});
      for (int64_t e = 0; data && e < t * columns; e++) data[e] = normal(m);
      run->sequence[i] = i;
      c->role[i] = 'i';
      c->space[i] = 0;
    }
  }
}

static void encoder_ops(maker *m) {
  for (int i = 0; i < 4; i++) {
    int64_t t = between(m, 1, 40), c = i % 2 ? 768 : between(m, 1, 300);
    start(m, "NORM", "layer_residual");
    floats(m, 0, 'i', 0, -1, 2, DIMS(t, c));
    floats(m, 1, 'w', ACCEL_PLUGIN_USE_PLAIN, -1, 1, DIMS(c));
    floats(m, 2, 'w', ACCEL_PLUGIN_USE_PLAIN, -1, 1, DIMS(c));
    floats(m, 3, 'i', 0, -1, 1, DIMS(t, c));
    set(m, ACCEL_I(NORM_KIND, i < 2 ? ACCEL_PLUGIN_NORM_LAYER : ACCEL_PLUGIN_NORM_RMS));
    set(m, ACCEL_F(EPS, 1e-12));
    m->c->wanted[1] = i % 2 == 0;
    start(m, "GATHER", "embedding");
    floats(m, 0, 'w', ACCEL_PLUGIN_USE_EMBEDDING, -1, 1, DIMS(500, c));
    integers(m, 1, 0, 499, -1, DIMS(t));
    start(m, "SOFTMAX", "last");
    floats(m, 0, 'i', 0, -1, 5, DIMS(t, c));
    start(m, "ROPE", "half");
    floats(m, 0, 'i', 0, -1, 1, DIMS(t, 4 * 64));
    integers(m, 1, 0, 2000, -1, DIMS(t));
    set(m, ACCEL_I(HEAD_DIM, 64));
    set(m, ACCEL_I(ROT_DIMS, i % 2 ? 64 : 32));
    set(m, ACCEL_F(THETA, 160000.0));
    start(m, "REDUCE", "mean_space");
    int64_t rows = ragged(m, 5, 30);
    floats(m, 0, 'i', 0, 0, 1, DIMS(rows, c));
    set(m, ACCEL_I(KIND, i % 2 ? ACCEL_PLUGIN_REDUCE_MAX : ACCEL_PLUGIN_REDUCE_MEAN));
    set(m, ACCEL_I(SPACE, 0));
    start(m, "TOPK", "router");
    floats(m, 0, 'i', 0, -1, 1, DIMS(t, 64));
    set(m, ACCEL_I(K, between(m, 1, 8)));
    m->c->wanted[1] = true;
  }
}

static void image_ops(maker *m) {
  for (int i = 0; i < 3; i++) {
    int64_t c = between(m, 1, 9) * 4, h = between(m, 5, 40), w = between(m, 5, 40);
    start(m, "CONV", "patch");
    floats(m, 0, 'i', 0, -1, 1, DIMS(1, 3, 64, 48));
    floats(m, 1, 'w', ACCEL_PLUGIN_USE_CONV, -1, 0.05f, DIMS(c, 3, 16, 16));
    set_list(m, ACCEL_PLUGIN_ATTR_STRIDE, DIMS(16, 16));
    start(m, "CONV", "three");
    floats(m, 0, 'i', 0, -1, 1, DIMS(2, c, h, w));
    floats(m, 1, 'w', ACCEL_PLUGIN_USE_CONV, -1, 0.1f, DIMS(24, c, 3, 3));
    floats(m, 2, 'w', ACCEL_PLUGIN_USE_PLAIN, -1, 1, DIMS(24));
    set_list(m, ACCEL_PLUGIN_ATTR_PADS, DIMS(1, 1, 1, 1));
    set_list(m, ACCEL_PLUGIN_ATTR_STRIDE, DIMS(1 + i % 2, 1 + i % 2));
    set(m, ACCEL_I(ACT, ACCEL_PLUGIN_ACT_RELU));
    start(m, "CONV", "windows"); /* many enough for the plugins' ways that transform windows */
    floats(m, 0, 'i', 0, -1, 1, DIMS(1, 32 + 32 * (i % 2), 22, 25));
    floats(m, 1, 'w', ACCEL_PLUGIN_USE_CONV, -1, 0.1f, DIMS(32, 32 + 32 * (i % 2), 3, 3));
    set_list(m, ACCEL_PLUGIN_ATTR_PADS, DIMS(1, 1, 1, 1));
    set(m, ACCEL_I(ACT, i == 2 ? ACCEL_PLUGIN_ACT_GELU : ACCEL_PLUGIN_ACT_RELU));
    start(m, "CONV", "audio");
    floats(m, 0, 'i', 0, -1, 1, DIMS(1, 80, between(m, 20, 90)));
    floats(m, 1, 'w', ACCEL_PLUGIN_USE_CONV, -1, 0.05f, DIMS(50, 80, 3));
    set_list(m, ACCEL_PLUGIN_ATTR_PADS, DIMS(1, 1));
    set_list(m, ACCEL_PLUGIN_ATTR_STRIDE, DIMS(1 + i % 2));
    start(m, "GROUP_NORM", "image");
    floats(m, 0, 'i', 0, -1, 1, DIMS(2, c, h, w));
    floats(m, 1, 'w', ACCEL_PLUGIN_USE_PLAIN, -1, 1, DIMS(c));
    set(m, ACCEL_I(GROUPS, 4));
    set(m, ACCEL_F(EPS, 1e-6));
    start(m, "RESIZE", "cubic");
    floats(m, 0, 'i', 0, -1, 1, DIMS(1, 5, h, w));
    set(m, ACCEL_I(KIND, ACCEL_PLUGIN_RESIZE_CUBIC));
    set_list(m, ACCEL_PLUGIN_ATTR_SHAPE, DIMS(between(m, 1, 50), between(m, 1, 50)));
    start(m, "MATMUL", "batch");
    floats(m, 0, 'i', 0, -1, 1, DIMS(3, h, c));
    floats(m, 1, 'i', 0, -1, 1, DIMS(3, w, c));
    set(m, ACCEL_I(TRANS_B, 1));
    start(m, "TRANSPOSE", "windows");
    floats(m, 0, 'i', 0, -1, 1, DIMS(2, h, w, c));
    set_list(m, ACCEL_PLUGIN_ATTR_PERM, DIMS(0, 2, 1, 3));
    start(m, "BINARY", "broadcast");
    floats(m, 0, 'i', 0, -1, 1, DIMS(h, w, c));
    floats(m, 1, 'i', 0, -1, 1, DIMS(w, 1));
    set(m, ACCEL_I(KIND, between(m, 1, 6)));
    start(m, "UNARY", "act");
    floats(m, 0, 'i', 0, -1, 4, DIMS(h, w, c));
    set(m, ACCEL_I(KIND, between(m, 1, 8)));
  }
}

/* Beyond 2^24, where fp32 has no longer all of them; products and sums wrap around. */
static void whole_numbers(maker *m) {
  for (int kind = ACCEL_PLUGIN_BINARY_ADD; kind <= ACCEL_PLUGIN_BINARY_MAX; kind++) {
    start(m, "BINARY", "whole");
    integers(m, 0, INT32_MIN + 1, INT32_MAX, -1, DIMS(7, 5, 9));
    integers(m, 1, -40000000, 40000000, -1, DIMS(5, 1));
    set(m, ACCEL_I(KIND, kind));
    start(m, "BINARY", "whole_row");
    integers(m, 0, -40000000, 40000000, -1, DIMS(3, 70));
    integers(m, 1, -9, 40000000, -1, DIMS(70));
    set(m, ACCEL_I(KIND, kind));
  }
}

const char *conf_random(uint64_t seed, conf_cases *out) {
  maker m = {.cases = out, .state = seed, .first = out->n};
  static const int64_t shape[][3] = {{37, 384, 1536}, {5, 768, 768}, {1, 768, 3072},
                                     {128, 384, 384}, {33, 130, 67}, {1, 384, 384},
                                     {64, 64, 64},    {3, 1000, 7}};
  for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
    linear(&m, shape[i][0], shape[i][1], shape[i][2]);
  for (int i = 0; i < 8; i++)
    linear(&m, between(&m, 1, 70), between(&m, 1, 200), between(&m, 1, 200));
  for (int64_t glu = 1; glu <= 4; glu++)
    gated(&m, between(&m, 1, 20), between(&m, 1, 150), between(&m, 1, 150), glu);
  attention(&m, 12, 12, 32, 5, 60, 0, -1);
  attention(&m, 4, 4, 64, 3, 130, 0, -1);
  attention(&m, 8, 2, 64, 3, 90, 1, -1);
  attention(&m, 4, 4, 64, 2, 120, 0, 16);
  attention(&m, 6, 3, 80, 4, 50, 1, 20);
  attention(&m, 3, 3, 20, 6, 40, 0, -1);
  session_probs(&m, 2, 1, 8, 2, 261, 290, 1);
  session_probs(&m, 3, 3, 8, 4, 18, 20, 0);
  encoder_ops(&m);
  image_ops(&m);
  linear(&m, 29, 1024, 70); /* rows whole pages apart */
  linear(&m, 20, 4096, 33);
  session_probs(&m, 2, 1, 8, 1, 520, 544, 1);
  static const int64_t heads[][3] = {{3, 3, 40}, {4, 2, 64}, {2, 1, 80}, {2, 2, 128}};
  for (int i = 0; i < 8; i++)
    attention_with(&m, i, heads[i % 4][0], heads[i % 4][1], heads[i % 4][2]);
  session_rows(&m, 6, 1, 64, -1);
  session_rows(&m, 4, 4, 80, 100);
  whole_numbers(&m);
  return NULL;
}
