/* backend_graph_test.c - entries as static graphs: what becomes a constant, an input, a result;
 * what the host feeds and keeps; what is refused.  The graphs are looked at, not computed: that is
 * the conformance suite's part, with a library that compiles them. */
#include <math.h>

#include "backend_helper.h"
#include "kit/kit_graph.h"
#include "kit/kit_rounded.h"

enum { D = 4, N = 6 };

static float table[10 * D], linear_weight[N * D];
static const float *const weights[] = {table, linear_weight};

/* lengths[B], ids[T] -> x = table[ids]; y = attention(x, x, x) over a session; z = y w^T; mean. */
static accel__program *program(void) {
  accel__program *p = accel__program_new("graph");
  accel__dim rows = accel__symbol(p, "T", 0, 0, 8), items = accel__symbol(p, "B", 1, 0, 1);
  accel__tensor lengths = accel__input(p, "lengths", ACCEL_PLUGIN_I32, -1, 1, &items);
  int32_t space = accel__space_ragged(p, "tokens", lengths, rows, items);
  accel__tensor ids = accel__input(p, "ids", ACCEL_PLUGIN_I32, space, 1, &rows);
  accel__weight_spec spec = {
      .name = "table", .use = ACCEL_PLUGIN_USE_EMBEDDING, .rank = 2, .dim = {10, D}};
  accel__weight_spec w = {.name = "w", .use = ACCEL_PLUGIN_USE_LINEAR, .rank = 2, .dim = {N, D}};
  accel__tensor x = accel__gather(p, accel__weight(p, &spec), ids);
  accel__attr attr[] = {ACCEL_I(HEADS, 1),  ACCEL_I(KV_HEADS, 1),    ACCEL_F(SCALE, 0.5),
                        ACCEL_I(CAUSAL, 1), ACCEL_I(Q_SPACE, space), ACCEL_I(KV_SPACE, space)};
  accel__with_state(p, accel__state(p, &(accel_plugin_state){.name = "kv",
                                                             .kind = ACCEL_PLUGIN_STATE_KV,
                                                             .heads = 1,
                                                             .k_dim = D,
                                                             .v_dim = D,
                                                             .share = -1}));
  accel__tensor y =
      accel__node(p, ACCEL_PLUGIN_OP_ATTENTION, (accel__tensor[]){x, x, x}, 3, attr, 6, NULL, 0);
  accel__tensor z = accel__node(p, ACCEL_PLUGIN_OP_LINEAR,
                                (accel__tensor[]){y, accel__weight(p, &w)}, 2, NULL, 0, NULL, 0);
  accel__tensor mean = accel__reduce_rows(p, ACCEL_PLUGIN_REDUCE_MEAN, z, -1, space);
  accel__entry(p, "run", (accel__tensor[]){lengths, ids}, 2, (accel__tensor[]){z, mean}, 2);
  const accel_status rc = accel__program_finish(p);
  if (rc) print_error("%s\n", accel__message());
  assert_int_equal(rc, ACCEL_OK);
  return p;
}

/* ---- a backend that lowers, looks, and invents results ---- */

typedef struct looker {
  int runs;
  int64_t past;    /* rows of the past that the last run was fed */
  float first_key; /* of item 0, row 0 */
  int32_t pad[128], unpad[64], length[4], past_length[4];
  int64_t size[4];
  uint32_t n_size;
  bool rounds;   /* the run is rounded up first */
  int32_t n_ids; /* that the graph was fed, and they */
  int32_t ids[64];
} looker;

static looker seen;

static int32_t lower_for(const accel_plugin_program *p, const uint8_t *wanted, uint8_t folded,
                         const accel_plugin_format *format, kit_graph **out,
                         accel_plugin_error *error) {
  static const float *wide[2];
  uint8_t fold[8];
  const int64_t symbol[8] = {5, 2};
  const accel_plugin_weight_view view[2] = {{.data = table}, {.data = linear_weight}};
  memset(fold, folded, sizeof fold);
  const kit_graph_request r = {.program = p,
                               .wanted = wanted,
                               .folded = fold,
                               .symbol = symbol,
                               .format = format,
                               .view = view,
                               .wide = wide,
                               .hidden = -1e30};
  return kit_graph_lower(&r, out, error);
}

static accel_plugin_format plain(void) {
  return (accel_plugin_format){
      ACCEL_PLUGIN_F32, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 0, 0};
}

/* Notes what a feed holds. */
static void look(const kit_graph *g, const kit_graph_feed *feed, const int64_t *dim,
                 const void *data) {
  if (feed->kind == KIT_FEED_PAD) memcpy(seen.pad, data, (size_t)(dim[0] * dim[1]) * 4);
  if (feed->kind == KIT_FEED_UNPAD) memcpy(seen.unpad, data, (size_t)dim[0] * 4);
  if (feed->kind == KIT_FEED_LENGTH) memcpy(seen.length, data, (size_t)dim[0] * 4);
  if (feed->kind == KIT_FEED_PAST_LENGTH) memcpy(seen.past_length, data, (size_t)dim[0] * 4);
  if (feed->kind == KIT_FEED_PAST_K) {
    assert_int_equal(dim[1], 1);
    assert_int_equal(dim[3], D);
    seen.past = dim[2];
    seen.first_key = ((const float *)data)[0];
  }
  if (feed->kind == KIT_FEED_INPUT && feed->index == 1) {
    seen.n_ids = (int32_t)dim[0];
    memcpy(seen.ids, data, (size_t)dim[0] * 4);
  }
  if (feed->kind == KIT_FEED_SIZES) {
    seen.n_size = g->n_size;
    memcpy(seen.size, data, g->n_size * sizeof *seen.size);
  }
}

/* Rows that "the library" computed: 100 + the row's number in every column. */
static void invent(float *rows, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t c = 0; c < D; c++) rows[i * D + c] = 100.0f + (float)i;
}

static int32_t look_run(void *self, const kit_graph_run *run, accel_plugin_error *error) {
  const accel_plugin_format format[2] = {plain(), plain()};
  float rows[64 * D];
  const void *data[8] = {0};
  kit_graph *g = NULL;
  kit_rounded rounded = {0};
  const kit_graph_run *sized = seen.rounds ? &rounded.run : run;
  (void)self;
  seen.runs++;
  int32_t rc = seen.rounds ? kit_round(run, &rounded, error) : 0;
  if (!rc) rc = lower_for(run->program, run->wanted, 0, format, &g, error);
  if (!rc) rc = kit_graph_check_inputs(g, run, error);
  for (uint32_t i = 0; !rc && i < g->n_feed; i++) {
    int64_t dim[ACCEL_PLUGIN_MAX_RANK];
    const void *feed;
    void *owned;
    rc = kit_feed_fill(g, &g->feed[i], sized, dim, &feed, &owned, error);
    if (!rc) look(g, &g->feed[i], dim, feed);
    free(owned);
  }
  invent(rows, 64);
  for (uint32_t i = 0; !rc && i < g->n_result; i++) data[i] = rows;
  if (!rc) rc = kit_graph_keep(g, run, data, error);
  if (!rc && seen.rounds) kit_rounded_shape(&rounded, 0, seen.size);
  kit_rounded_free(&rounded);
  kit_graph_free(g);
  return rc;
}

static const kit_backend backend = {
    .name = "looker", .open = toy_open, .close = toy_close, .run = look_run};

/* ---- tests ---- */

static uint32_t count(const kit_graph *g, uint8_t op) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < g->n_node; i++) n += g->node[i].op == op;
  return n;
}

/* The copy that a plugin's endpoint has. */
static accel_plugin_program *copied(const accel__program *p) {
  accel_plugin_program *copy = NULL;
  accel_plugin_error error = {.size = sizeof error};
  assert_int_equal(kit_program_copy(accel__program_view(p), &copy, &error), 0);
  return copy;
}

static void weights_are_where_they_were(void **state) {
  (void)state;
  const uint8_t all[2] = {1, 1};
  const accel_plugin_format format[2] = {plain(), plain()};
  accel_plugin_error error = {.size = sizeof error};
  accel__program *p = program();
  accel_plugin_program *copy = copied(p);
  kit_graph *g;
  assert_int_equal(lower_for(copy, all, 0, format, &g, &error), 0);
  bool found[2] = {false, false};
  for (uint32_t i = 0; i < g->n_node; i++) {
    if (g->node[i].op != KIT_GRAPH_CONSTANT) continue;
    found[0] |= g->node[i].data == table && g->node[i].bytes == sizeof table;
    found[1] |= g->node[i].data == linear_weight && g->node[i].bytes == sizeof linear_weight;
  }
  assert_true(found[0] && found[1]);
  for (uint32_t i = 0; i < g->n_node; i++)
    for (uint32_t k = 0; k < g->node[i].n_in; k++)
      assert_true(g->node[i].in[k] >= 0 && g->node[i].in[k] < (int32_t)i);
  assert_int_equal(g->n_result, 4); /* two outputs, keys and values */
  kit_graph_free(g);
  kit_program_free(copy);
  accel__program_free(&p);
}

static void equal_nodes_are_one(void **state) {
  (void)state;
  const uint8_t one[2] = {1, 0}, both[2] = {1, 1};
  const accel_plugin_format format[2] = {plain(), plain()};
  accel_plugin_error error = {.size = sizeof error};
  accel__program *p = program();
  accel_plugin_program *copy = copied(p);
  kit_graph *g, *more;
  assert_int_equal(lower_for(copy, one, 0, format, &g, &error), 0);
  assert_int_equal(lower_for(copy, both, 0, format, &more, &error), 0);
  assert_int_equal(count(g, KIT_GRAPH_MATMUL), 3); /* scores, values, the linear */
  assert_int_equal(count(g, KIT_GRAPH_SOFTMAX), 1);
  /* keys and values are the same rows: padded once, cut into heads once */
  for (uint32_t i = 0; i < g->n_node; i++)
    for (uint32_t k = 0; k < i; k++) {
      const kit_graph_node *a = &g->node[i], *b = &g->node[k];
      const bool same = a->op == b->op && a->n_in && a->n_in == b->n_in && a->dtype == b->dtype &&
                        !memcmp(a->in, b->in, a->n_in * sizeof *a->in) &&
                        !memcmp(a->i, b->i, sizeof a->i) && !memcmp(a->f, b->f, sizeof a->f);
      assert_false(same);
    }
  assert_true(more->n_node > g->n_node); /* the mean is computed where it is wanted */
  assert_int_equal(g->n_result, 3);
  kit_graph_free(g);
  kit_graph_free(more);
  kit_program_free(copy);
  accel__program_free(&p);
}

static void symbols_of_texts_stay_open(void **state) {
  (void)state;
  uint8_t folded[2];
  const uint8_t all[2] = {1, 1};
  const accel_plugin_format format[2] = {plain(), plain()};
  accel_plugin_error error = {.size = sizeof error};
  accel__program *p = program();
  accel_plugin_program *copy = copied(p);
  kit_graph *open, *fixed;
  kit_graph_folds(copy, folded);
  assert_true(!folded[0] && !folded[1]);
  assert_int_equal(lower_for(copy, all, 0, format, &open, &error), 0);
  assert_int_equal(lower_for(copy, all, 1, format, &fixed, &error), 0);
  for (uint32_t i = 0; i < open->n_feed; i++) {
    const kit_graph_node *a = &open->node[open->feed[i].node];
    if (open->feed[i].kind == KIT_FEED_INPUT) assert_int_equal(a->dim[0], -1);
  }
  for (uint32_t i = 0; i < fixed->n_feed; i++) {
    const kit_graph_node *a = &fixed->node[fixed->feed[i].node];
    if (fixed->feed[i].kind == KIT_FEED_INPUT) assert_int_equal(a->dim[0], 5);
  }
  kit_graph_free(open);
  kit_graph_free(fixed);
  kit_program_free(copy);
  accel__program_free(&p);
}

static uint32_t feeds(const kit_graph *g, uint8_t kind) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < g->n_feed; i++) n += g->feed[i].kind == kind;
  return n;
}

/* Rows whose number is known are counted by a constant; those of ragged items are fed. */
static void known_rows_are_constants(void **state) {
  (void)state;
  static const int32_t number[] = {0, 1, 2, 3, 4};
  const uint8_t all[2] = {1, 1};
  const accel_plugin_format format[2] = {plain(), plain()};
  accel_plugin_error error = {.size = sizeof error};
  accel__program *p = accel__program_new("rows");
  const accel__dim rows = accel__symbol(p, "T", 0, 0, 8), items = accel__symbol(p, "B", 1, 0, 1);
  const accel__dim dim[] = {accel__dim_op(p, ACCEL_PLUGIN_DIM_MUL, items, rows),
                            accel__const_dim(p, D)};
  const int32_t space = accel__space_fixed(p, "rows", rows, items);
  accel__tensor x = accel__input(p, "x", ACCEL_PLUGIN_F32, space, 2, dim);
  accel__attr attr[] = {ACCEL_I(HEADS, 1),  ACCEL_I(KV_HEADS, 1),    ACCEL_F(SCALE, 0.5),
                        ACCEL_I(CAUSAL, 1), ACCEL_I(Q_SPACE, space), ACCEL_I(KV_SPACE, space)};
  accel__tensor y =
      accel__node(p, ACCEL_PLUGIN_OP_ATTENTION, (accel__tensor[]){x, x, x}, 3, attr, 6, NULL, 0);
  accel__entry(p, "run", &x, 1, &y, 1);
  assert_int_equal(accel__program_finish(p), ACCEL_OK);
  accel__program *ragged = program();
  for (uint8_t folded = 0; folded < 2; folded++) {
    bool found = false;
    kit_graph *g, *text;
    accel_plugin_program *copy = copied(p), *other = copied(ragged);
    assert_int_equal(lower_for(copy, all, folded, format, &g, &error), 0);
    assert_int_equal(lower_for(other, all, folded, format, &text, &error), 0);
    for (uint32_t i = 0; i < g->n_node; i++)
      found |= g->node[i].op == KIT_GRAPH_CONSTANT && g->node[i].bytes == sizeof number &&
               !memcmp(g->node[i].data, number, sizeof number);
    assert_int_equal(feeds(g, KIT_FEED_ROW), !folded);
    assert_int_equal(found, folded);
    assert_int_equal(feeds(text, KIT_FEED_ROW), 1);
    kit_graph_free(g);
    kit_graph_free(text);
    kit_program_free(copy);
    kit_program_free(other);
  }
  accel__program_free(&p);
  accel__program_free(&ragged);
}

/* A rotation of x [T, D] by pos [T], whose frequencies are those of theta or, given, an input. */
static kit_graph *rotation(bool given, bool known_sizes) {
  const uint8_t wanted[1] = {1}, folded[1] = {1};
  const int64_t symbol[1] = {5};
  const kit_graph_run run = {.symbol = symbol};
  accel_plugin_error error = {.size = sizeof error};
  accel__program *p = accel__program_new("rotation");
  const accel__dim rows = accel__symbol(p, "T", 0, 0, 8), pairs = accel__const_dim(p, D / 2);
  const accel__dim dim[] = {rows, accel__const_dim(p, D)};
  accel__tensor in[] = {accel__input(p, "x", ACCEL_PLUGIN_F32, -1, 2, dim),
                        accel__input(p, "pos", ACCEL_PLUGIN_I32, -1, 1, dim), -1};
  if (given) in[2] = accel__input(p, "inv_freq", ACCEL_PLUGIN_F32, -1, 1, &pairs);
  accel__attr attr[] = {ACCEL_I(HEAD_DIM, D), ACCEL_I(ROT_DIMS, D), ACCEL_F(THETA, 100.0)};
  accel__tensor y = accel__node(p, ACCEL_PLUGIN_OP_ROPE, in, given ? 3 : 2, attr, 3, NULL, 0);
  accel__entry(p, "run", in, given ? 3 : 2, &y, 1);
  assert_int_equal(accel__program_finish(p), ACCEL_OK);
  accel_plugin_program *copy = copied(p);
  const kit_graph_request r = {.program = copy,
                               .wanted = wanted,
                               .folded = folded,
                               .symbol = symbol,
                               .run = known_sizes ? &run : NULL};
  kit_graph *g = NULL;
  assert_int_equal(kit_graph_lower(&r, &g, &error), 0);
  kit_program_free(copy);
  accel__program_free(&p);
  return g;
}

/* Where all sizes are known, as an NPU wants them, positions are not multiplied: cosines and sines
 * come from tables of 512 positions and of 512 times as many. */
static void known_sizes_turn_by_tables(void **state) {
  (void)state;
  enum { FAR = 200000, ROWS = 512 };
  kit_graph *g = rotation(false, true);
  const float *wave[5];
  uint32_t n = 0;
  for (uint32_t i = 0; i < g->n_node && n < 5; i++)
    if (g->node[i].op == KIT_GRAPH_CONSTANT && g->node[i].dim[0] == ROWS)
      wave[n++] = g->node[i].data;
  assert_int_equal(n, 4);
  for (int64_t k = 0; k < D / 2; k++) {
    const double f = (float)pow(100.0, -(double)k / (D / 2));
    const int64_t high = FAR / ROWS * (D / 2) + k, low = FAR % ROWS * (D / 2) + k;
    const float c = wave[0][high] * wave[2][low] - wave[1][high] * wave[3][low],
                s = wave[1][high] * wave[2][low] + wave[0][high] * wave[3][low];
    assert_true(fabs(c - cos(FAR * f)) < 1e-6);
    assert_true(fabs(s - sin(FAR * f)) < 1e-6);
  }
  assert_int_equal(count(g, KIT_GRAPH_SIN) + count(g, KIT_GRAPH_COS), 0);
  assert_true(g->n_check == 1 && g->check[0].limit == ROWS * ROWS && g->check[0].input == 1);
  kit_graph_free(g);
  g = rotation(true, true); /* with frequencies of the run: as far as halves are whole */
  assert_true(g->n_check == 1 && g->check[0].limit == 2049);
  assert_int_equal(count(g, KIT_GRAPH_SIN), 1);
  kit_graph_free(g);
  g = rotation(false, false);
  assert_int_equal(g->n_check, 0);
  assert_int_equal(count(g, KIT_GRAPH_SIN), 1);
  kit_graph_free(g);
}

/* Operands and results count; a constant that nothing reads has none. */
static void uses_are_counted(void **state) {
  (void)state;
  const int32_t both[] = {0, 0}, sum[] = {2};
  const kit_graph_node node[] = {{.op = KIT_GRAPH_INPUT},
                                 {.op = KIT_GRAPH_CONSTANT},
                                 {.op = KIT_GRAPH_ADD, .n_in = 2, .in = both},
                                 {.op = KIT_GRAPH_TANH, .n_in = 1, .in = sum}};
  const kit_graph_result result[] = {{.node = 2}, {.node = 3}};
  const kit_graph g = {.node = node, .n_node = 4, .result = result, .n_result = 2};
  uint32_t uses[4] = {0};
  kit_graph_uses(&g, uses);
  assert_int_equal(uses[0], 2);
  assert_int_equal(uses[1], 0);
  assert_int_equal(uses[2], 2);
  assert_int_equal(uses[3], 1);
}

static void codes_are_multiplied_by_scales(void **state) {
  (void)state;
  const uint8_t all[2] = {1, 1};
  const accel_plugin_format groups = {
      ACCEL_PLUGIN_I8, ACCEL_PLUGIN_F32, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 2, 1};
  accel_plugin_format format[2] = {plain(), groups}, odd = groups;
  accel_plugin_error error = {.size = sizeof error};
  accel__program *p = program();
  accel_plugin_program *copy = copied(p);
  kit_graph *g;
  assert_true(kit_graph_format(copy, 1, &groups));
  odd.group_k = 3; /* does not divide a row of four */
  assert_false(kit_graph_format(copy, 1, &odd));
  odd = groups;
  odd.store = ACCEL_PLUGIN_E4M3;
  assert_false(kit_graph_format(copy, 1, &odd));
  assert_int_equal(lower_for(copy, all, 0, format, &g, &error), 0);
  uint32_t codes = 0;
  for (uint32_t i = 0; i < g->n_node; i++) {
    const kit_graph_node *n = &g->node[i];
    if (n->op != KIT_GRAPH_CONSTANT || n->dtype != ACCEL_PLUGIN_I8) continue;
    assert_true(n->rank == 3 && n->dim[0] == N && n->dim[1] == 2 && n->dim[2] == 2);
    codes++;
  }
  assert_int_equal(codes, 1);
  kit_graph_free(g);
  kit_program_free(copy);
  accel__program_free(&p);
}

typedef struct fixture {
  accel__program *p;
  toy_host host;
  accel_plugin_endpoint *e;
  accel_plugin_session *s;
  accel_plugin_error error;
  float z[64 * N], mean[4 * N];
  accel_plugin_view in[2], out[2];
} fixture;

static int32_t go(fixture *f, int32_t *lengths, uint32_t items, int32_t *ids, int64_t rows) {
  static const int32_t sequence[] = {7, 8};
  accel_plugin_run run = {.size = sizeof run,
                          .host = &f->host.host,
                          .sequence = sequence,
                          .n_sequence = f->s ? items : 0};
  f->in[0] = toy_view(ACCEL_PLUGIN_I32, lengths, 1, items, 0);
  f->in[1] = toy_view(ACCEL_PLUGIN_I32, ids, 1, rows, 0);
  f->out[0] = (accel_plugin_view){.size = sizeof f->out[0], .host = f->z, .capacity = sizeof f->z};
  f->out[1] =
      (accel_plugin_view){.size = sizeof f->out[0], .host = f->mean, .capacity = sizeof f->mean};
  f->error.message[0] = 0;
  return kit_handler(f->e, f->s, &run, f->in, 2, f->out, 2, &f->error);
}

static void open_fixture(fixture *f) {
  memset(f, 0, sizeof *f);
  memset(&seen, 0, sizeof seen);
  f->p = program();
  toy_host_init(&f->host, weights);
  f->error.size = sizeof f->error;
  f->e = toy_init(&backend, f->p, &f->host, 0);
  assert_int_equal(kit_session_new(f->e, &f->s, &f->error), 0);
}

static void close_fixture(fixture *f) {
  kit_session_free(f->s);
  kit_cleanup(f->e, &f->host.host);
  accel__program_free(&f->p);
}

static void rows_are_padded_and_the_past_is_fed(void **state) {
  (void)state;
  fixture f;
  int32_t lengths[2] = {1, 3}, ids[4] = {1, 2, 3, 4};
  open_fixture(&f);
  assert_int_equal(go(&f, lengths, 2, ids, 4), 0);
  const int32_t pad[6] = {0, 0, 0, 1, 2, 3}, unpad[4] = {0, 3, 4, 5};
  assert_memory_equal(seen.pad, pad, sizeof pad);
  assert_memory_equal(seen.unpad, unpad, sizeof unpad);
  assert_true(seen.length[0] == 1 && seen.length[1] == 3);
  assert_int_equal(seen.past, KIT_GRAPH_PAST_STEP); /* nothing yet: rows that count for no item */
  assert_true(seen.first_key == 0.0f);
  lengths[1] = 1;
  assert_int_equal(go(&f, lengths, 2, ids, 2), 0);
  assert_true(seen.first_key == 100.0f);
  assert_true(seen.past_length[0] == 1 && seen.past_length[1] == 3);
  int32_t longer[2] = {KIT_GRAPH_PAST_STEP, 1}, more[KIT_GRAPH_PAST_STEP + 1] = {0};
  assert_int_equal(go(&f, longer, 2, more, KIT_GRAPH_PAST_STEP + 1), 0);
  assert_int_equal(seen.past, KIT_GRAPH_PAST_STEP);
  assert_int_equal(go(&f, lengths, 2, ids, 2), 0);
  assert_int_equal(seen.past, 2 * KIT_GRAPH_PAST_STEP); /* of 34 rows */
  uint64_t n = 0;
  assert_int_equal(kit_session_control(f.s, ACCEL_PLUGIN_SESSION_LENGTH, 8, 0, NULL, &n, NULL), 0);
  assert_int_equal(n, 6);
  assert_int_equal(seen.runs, 4);
  close_fixture(&f);
}

/* Rows that no item has: nothing that is gathered reads them, and a session does not keep them. */
static void rows_are_rounded_up(void **state) {
  (void)state;
  fixture f;
  int32_t lengths[2] = {1, 5}, ids[6] = {1, 2, 3, 4, 5, 6};
  uint64_t n = 0;
  open_fixture(&f);
  seen.rounds = true;
  assert_int_equal(go(&f, lengths, 2, ids, 6), 0);
  const int32_t pad[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 1, 1, 1},
                unpad[8] = {0, 8, 9, 10, 11, 12, 0, 0}, fed[8] = {1, 2, 3, 4, 5, 6, 0, 0};
  assert_memory_equal(seen.pad, pad, sizeof pad);
  assert_memory_equal(seen.unpad, unpad, sizeof unpad);
  assert_int_equal(seen.n_ids, 8);
  assert_memory_equal(seen.ids, fed, sizeof fed);
  assert_true(seen.size[0] == 8 && seen.size[1] == N);
  assert_int_equal(kit_session_control(f.s, ACCEL_PLUGIN_SESSION_LENGTH, 8, 0, NULL, &n, NULL), 0);
  assert_int_equal(n, 5);
  close_fixture(&f);
}

static void what_arrays_have_in_common_is_copied(void **state) {
  (void)state;
  int32_t wide[2 * 3 * 4], narrow[3 * 2 * 4] = {0};
  for (int32_t i = 0; i < 24; i++) wide[i] = i;
  const int64_t from[3] = {2, 3, 4}, to[3] = {3, 2, 4};
  kit_copy_common(wide, from, narrow, to, 3, sizeof *wide);
  for (int32_t a = 0; a < 3; a++)
    for (int32_t i = 0; i < 8; i++) assert_int_equal(narrow[8 * a + i], a < 2 ? 12 * a + i : 0);
}

static void indices_are_checked_before_a_run(void **state) {
  (void)state;
  fixture f;
  int32_t lengths[1] = {2}, ids[2] = {1, 10};
  uint64_t n = 1;
  open_fixture(&f);
  assert_int_equal(go(&f, lengths, 1, ids, 2), ACCEL_PLUGIN_E_ARGUMENT);
  assert_non_null(strstr(f.error.message, "index 10 at position 1 is outside 0..9"));
  assert_int_equal(kit_session_control(f.s, ACCEL_PLUGIN_SESSION_LENGTH, 7, 0, NULL, &n, NULL), 0);
  assert_int_equal(n, 0); /* a failed run leaves nothing behind */
  kit_session_free(f.s);
  f.s = NULL;
  ids[1] = 2;
  assert_int_equal(go(&f, lengths, 1, ids, 2), ACCEL_PLUGIN_E_ARGUMENT);
  assert_non_null(strstr(f.error.message, "needs a session"));
  close_fixture(&f);
}

static void what_has_no_graph_is_refused(void **state) {
  (void)state;
  char why[160] = "";
  accel__program *p = accel__program_new("no");
  accel__dim rows = accel__symbol(p, "T", 1, 0, 8), dims[2] = {rows, accel__const_dim(p, D)};
  accel__tensor x = accel__input(p, "x", ACCEL_PLUGIN_F32, -1, 2, dims);
  accel__attr attr[] = {ACCEL_I(SLOT, 0)};
  accel__tensor y =
      accel__node(p, ACCEL_PLUGIN_OP_LOW_RANK, (accel__tensor[]){x, x}, 2, attr, 1, NULL, 0);
  accel__entry(p, "run", &x, 1, &y, 1);
  assert_int_equal(accel__program_finish(p), ACCEL_OK);
  const accel_plugin_program *view = accel__program_view(p);
  assert_int_equal(kit_graph_support(view, &view->node[0], why, sizeof why), ACCEL_PLUGIN_NO);
  assert_string_equal(why, "LOW_RANK: adapters beside a model are not part of a static graph");
  const uint8_t wanted[1] = {1};
  accel_plugin_error error = {.size = sizeof error};
  kit_graph *g;
  assert_int_equal(lower_for(view, wanted, 0, NULL, &g, &error), ACCEL_PLUGIN_E_UNSUPPORTED);
  assert_null(g);
  assert_int_equal(error.node, 0);
  accel__program_free(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(weights_are_where_they_were),
      cmocka_unit_test(equal_nodes_are_one),
      cmocka_unit_test(symbols_of_texts_stay_open),
      cmocka_unit_test(known_rows_are_constants),
      cmocka_unit_test(known_sizes_turn_by_tables),
      cmocka_unit_test(uses_are_counted),
      cmocka_unit_test(codes_are_multiplied_by_scales),
      cmocka_unit_test(rows_are_padded_and_the_past_is_fed),
      cmocka_unit_test(rows_are_rounded_up),
      cmocka_unit_test(what_arrays_have_in_common_is_copied),
      cmocka_unit_test(indices_are_checked_before_a_run),
      cmocka_unit_test(what_has_no_graph_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
