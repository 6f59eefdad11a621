/* backend_plan_test.c - the memory planner on random programs: no two tensors that are alive at
 * once overlap (by brute force over all pairs), and a planned run gives the bits of a run where
 * every tensor has memory of its own. */
#include "backend_helper.h"

static uint64_t seed;
static uint32_t draw(uint32_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(seed >> 33) % n;
}

enum { MAX_VALUES = 80, MAX_OUT = 6 };

typedef struct random_program {
  accel__program *p;
  accel__tensor value[MAX_VALUES]; /* all [T, C] or [C, T]-shaped reshapes with the width noted */
  int64_t width[MAX_VALUES];
  uint32_t n;
  accel__tensor out[MAX_OUT];
  uint32_t n_out;
} random_program;

static void push(random_program *r, accel__tensor t, int64_t width) {
  if (t < 0 || r->n == MAX_VALUES) return;
  r->value[r->n] = t;
  r->width[r->n++] = width;
}

/* One node over earlier values: elementwise, normalising, slicing, joining or reshaping. */
static void grow(random_program *r, accel__dim rows) {
  uint32_t a = draw(r->n), b = draw(r->n);
  accel__tensor x = r->value[a];
  int64_t w = r->width[a];
  switch (draw(7)) {
    case 0:
      push(r, accel__unary(r->p, ACCEL_PLUGIN_UNARY_NEG, x), w);
      break;
    case 1:
    case 2:
      if (r->width[b] == w)
        push(r,
             accel__binary(r->p, draw(2) ? ACCEL_PLUGIN_BINARY_ADD : ACCEL_PLUGIN_BINARY_SUB, x,
                           r->value[b]),
             w);
      break;
    case 3: { /* two results */
      accel__tensor in[4] = {x, -1, -1, r->width[b] == w ? r->value[b] : -1}, out[2] = {-1, -1};
      accel__attr attr[] = {ACCEL_I(NORM_KIND, ACCEL_PLUGIN_NORM_RMS), ACCEL_F(EPS, 1e-3)};
      bool both = in[3] >= 0;
      accel__node(r->p, ACCEL_PLUGIN_OP_NORM, in, 4, attr, 2, out, both ? 2 : 1);
      push(r, out[0], w);
      if (both) push(r, out[1], w);
      break;
    }
    case 4:
      if (w > 4) {
        int64_t start = (int64_t)draw((uint32_t)w - 1),
                end = start + 1 + (int64_t)draw((uint32_t)(w - start));
        push(r, accel__slice(r->p, x, 1, start, end), end - start);
      }
      break;
    case 5: { /* there and back: two aliases */
      accel__dim flat[1] = {accel__dim_op(r->p, ACCEL_PLUGIN_DIM_MUL, rows,
                                          accel__const_dim(r->p, w))},
                 back[2] = {rows, accel__const_dim(r->p, w)};
      push(r, accel__reshape(r->p, accel__reshape(r->p, x, 1, flat), 2, back), w);
      break;
    }
    case 6: {
      accel__tensor in[2] = {x, r->value[b]};
      accel__attr attr[] = {ACCEL_I(AXIS, 1)};
      if (w + r->width[b] <= 64)
        push(r, accel__node(r->p, ACCEL_PLUGIN_OP_CONCAT, in, 2, attr, 1, NULL, 0),
             w + r->width[b]);
    }
  }
}

static void make(random_program *r, uint32_t nodes) {
  memset(r, 0, sizeof *r);
  r->p = accel__program_new("random");
  accel__dim rows = accel__symbol(r->p, "T", 1, 64, 8);
  accel__tensor in[2];
  for (int i = 0; i < 2; i++) {
    accel__dim dims[2] = {rows, accel__const_dim(r->p, 8)};
    in[i] = accel__input(r->p, i ? "b" : "a", ACCEL_PLUGIN_F32, -1, 2, dims);
    push(r, in[i], 8);
  }
  for (uint32_t i = 0; i < nodes; i++) grow(r, rows);
  if (r->n < 3) push(r, accel__unary(r->p, ACCEL_PLUGIN_UNARY_NEG, in[0]), 8);
  for (uint32_t i = 0; i < 3; i++)
    r->out[r->n_out++] = r->value[r->n - 1 - draw(r->n < 8 ? r->n - 2 : 6)];
  for (uint32_t i = 0; i < r->n_out; i++)
    for (uint32_t k = 0; k < i; k++)
      if (r->out[i] == r->out[k]) r->out[i--] = r->out[--r->n_out];
  accel__entry(r->p, "run", in, 2, r->out, r->n_out);
  accel_status rc = accel__program_finish(r->p);
  if (rc) print_error("%s\n", accel__message());
  assert_int_equal(rc, ACCEL_OK);
}

static kit_plan *plan_of(const kit_backend *backend, const accel_plugin_program *p, int64_t rows,
                         const uint8_t *wanted) {
  int64_t symbol[1] = {rows}, *dim = calloc(p->n_dim, sizeof *dim);
  accel_dims_evaluate(p, symbol, dim);
  kit_plan_request r = {.program = p,
                        .backend = backend,
                        .workers = 1,
                        .symbol = symbol,
                        .dim = dim,
                        .wanted = wanted};
  kit_plan *plan;
  assert_int_equal(kit_plan_new(&r, &plan, NULL), ACCEL_PLUGIN_OK);
  free(dim);
  return plan;
}

/* Steps a tensor is alive in, by its own definition and uses (and those of its aliases: found by
 * walking the program's reshapes and slices). */
typedef struct life {
  int first, last;
  int32_t owner; /* the value it is a view of */
} life;

static void lives(const accel_plugin_program *p, const kit_plan *plan, const uint8_t *wanted,
                  life *l) {
  const accel_plugin_entry *e = &p->entry[0];
  for (uint32_t i = 0; i < p->n_tensor; i++)
    l[i] = (life){.first = 1 << 20, .last = -1, .owner = (int32_t)i};
  for (uint32_t i = 0; i < e->n_node; i++) { /* views: nodes that no step runs */
    const accel_plugin_node *n = &p->node[e->node[i]];
    bool runs = false;
    for (uint32_t k = 0; k < plan->n_step; k++) runs |= plan->step[k].node == (uint32_t)e->node[i];
    if (!runs && n->out[0] >= 0 && plan->tensor[n->out[0]].id >= 0)
      l[n->out[0]].owner = l[n->in[0]].owner;
  }
  for (uint32_t k = 0; k < plan->n_step; k++) {
    const kit_step *s = &plan->step[k];
    for (uint32_t j = 0; j < s->n_in + s->n_out; j++) {
      int32_t id = j < s->n_in ? kit_operand(&p->node[s->node], j)
                               : kit_result(&p->node[s->node], j - s->n_in);
      if (id < 0 || plan->tensor[id].id < 0) continue;
      life *o = &l[l[id].owner];
      if ((int)k < o->first) o->first = (int)k;
      if ((int)k > o->last) o->last = (int)k;
    }
  }
  for (uint32_t i = 0; i < e->n_out; i++)
    if (wanted[i]) l[l[e->out[i]].owner].last = (int)plan->n_step;
}

/* Result of step k lying over an operand that is used for the last time there. */
static bool replaces(const accel_plugin_program *p, const kit_plan *plan, const life *l,
                     int32_t old, int32_t fresh) {
  int k = l[fresh].first;
  if (l[old].last != k || k >= (int)plan->n_step ||
      plan->location[old].offset != plan->location[fresh].offset)
    return false;
  const kit_step *s = &plan->step[k];
  const accel_plugin_node *n = &p->node[s->node];
  for (uint32_t j = 0; j < n->n_out; j++) {
    uint32_t mask = n->out[j] == fresh ? kit_inplace(p, n, j) : 0;
    for (uint32_t i = 0; i < n->n_in; i++)
      if (mask >> i & 1 && n->in[i] >= 0 && l[n->in[i]].owner == old) return true;
  }
  return false;
}

static void check_overlaps(const accel_plugin_program *p, const kit_plan *plan,
                           const uint8_t *wanted) {
  life *l = calloc(p->n_tensor, sizeof *l);
  lives(p, plan, wanted, l);
  for (int32_t a = 0; a < (int32_t)p->n_tensor; a++) {
    const kit_location *pa = &plan->location[a];
    if (plan->tensor[a].id < 0 || pa->storage != KIT_STORAGE_SCRATCH) continue;
    uint64_t end =
        pa->offset + (uint64_t)(plan->tensor[a].elements ? (kit_row_count(&plan->tensor[a]) - 1) *
                                                                   plan->tensor[a].row_stride +
                                                               kit_cols(&plan->tensor[a])
                                                         : 0) *
                         4;
    assert_true(end <= plan->scratch);
    if (l[a].owner != a) continue;
    assert_int_equal(pa->offset % KIT_ALIGN, 0);
    for (int32_t b = 0; b < a; b++) {
      const kit_location *pb = &plan->location[b];
      if (plan->tensor[b].id < 0 || pb->storage != KIT_STORAGE_SCRATCH || l[b].owner != b) continue;
      bool meet = pa->offset < pb->offset + pb->bytes && pb->offset < pa->offset + pa->bytes;
      bool together = l[a].first <= l[b].last && l[b].first <= l[a].last;
      if (meet && together && !replaces(p, plan, l, a, b) && !replaces(p, plan, l, b, a))
        fail_msg("tensors %d and %d share bytes %llu.. and are alive at once", a, b,
                 (unsigned long long)pa->offset);
    }
  }
  free(l);
}

/* Every node with memory of its own. */
static void run_plainly(const accel_plugin_program *p, int64_t rows, const float *const in[2],
                        float **memory) {
  int64_t symbol[1] = {rows}, *dim = calloc(p->n_dim, sizeof *dim);
  accel_dims_evaluate(p, symbol, dim);
  const accel_plugin_entry *e = &p->entry[0];
  for (uint32_t i = 0; i < p->n_tensor; i++) {
    kit_tensor t;
    assert_int_equal(kit_shape(p, dim, (int32_t)i, &t, NULL), ACCEL_PLUGIN_OK);
    memory[i] = malloc((size_t)t.elements * 4 + 4);
    for (uint32_t k = 0; k < e->n_in; k++)
      if (e->in[k] == (int32_t)i) memcpy(memory[i], in[k], (size_t)t.elements * 4);
  }
  for (uint32_t i = 0; i < e->n_node; i++) {
    const accel_plugin_node *n = &p->node[e->node[i]];
    kit_tensor t[KIT_OPERANDS + KIT_RESULTS];
    for (uint32_t k = 0; k < KIT_OPERANDS + KIT_RESULTS; k++) {
      int32_t id = k < KIT_OPERANDS ? kit_operand(n, k) : kit_result(n, k - KIT_OPERANDS);
      t[k] = (kit_tensor){.id = -1};
      if (id < 0) continue;
      kit_shape(p, dim, id, &t[k], NULL);
      t[k].data = memory[id];
    }
    kit_launch l = {.program = p,
                    .node = n,
                    .index = (uint32_t)e->node[i],
                    .n_in = KIT_OPERANDS,
                    .n_out = KIT_RESULTS,
                    .in = t,
                    .out = t + KIT_OPERANDS,
                    .dim = dim};
    assert_int_equal(kit_scalar(n->op)(&l, NULL), ACCEL_PLUGIN_OK);
  }
  free(dim);
}

/* A backend that also reads column slices in place: norm, unary and concat here. */
static bool reads_strides(const accel_plugin_program *p, const accel_plugin_node *n,
                          uint32_t operand) {
  (void)p;
  return n->op == ACCEL_PLUGIN_OP_NORM && (operand == 0 || operand == 3);
}
/* Device memory that is really host memory, and counts. */
static int live_buffers, uploads;
static uint64_t downloaded; /* bytes */
static int32_t far_alloc(void *self, uint64_t n, void **out, accel_plugin_error *error) {
  (void)self, (void)error;
  *out = malloc(n ? n : 1);
  live_buffers++;
  return *out ? 0 : ACCEL_PLUGIN_E_DEVICE_MEMORY;
}
static void far_release(void *self, void *buffer) {
  (void)self;
  live_buffers--;
  free(buffer);
}
static int32_t far_up(void *self, void *buffer, uint64_t offset, const void *from, uint64_t n,
                      accel_plugin_error *error) {
  (void)self, (void)error;
  memcpy((char *)buffer + offset, from, n);
  uploads++;
  return 0;
}
static int32_t far_down(void *self, void *to, void *buffer, uint64_t offset, uint64_t n,
                        accel_plugin_error *error) {
  (void)self, (void)error;
  memcpy(to, (char *)buffer + offset, n);
  downloaded += n;
  return 0;
}
static int32_t far_launch(void *self, const kit_launch *given, accel_plugin_error *error) {
  kit_tensor t[64];
  assert_true(given->n_in + given->n_out <= 64);
  for (uint32_t i = 0; i < given->n_in + given->n_out; i++) {
    t[i] = i < given->n_in ? given->in[i] : given->out[i - given->n_in];
    if (t[i].id >= 0 && given->program->tensor[t[i].id].kind != ACCEL_PLUGIN_TENSOR_INPUT)
      assert_null(t[i].data);
    if (t[i].id >= 0) t[i].data = (char *)t[i].buffer + t[i].offset;
  }
  kit_launch l = *given;
  l.in = t;
  l.out = t + given->n_in;
  return toy_launch(self, &l, error);
}
static const kit_backend strided_toy = {.name = "toy",
                                        .open = toy_open,
                                        .close = toy_close,
                                        .weight = toy_weight,
                                        .launch = toy_launch,
                                        .strided = reads_strides};
static const kit_backend far_toy = {.name = "toy",
                                    .open = toy_open,
                                    .close = toy_close,
                                    .launch = far_launch,
                                    .alloc = far_alloc,
                                    .release = far_release,
                                    .upload = far_up,
                                    .download = far_down};

static void check_run(const kit_backend *backend, const random_program *r,
                      const accel_plugin_program *p, const uint8_t *wanted) {
  toy_host h;
  toy_host_init(&h, NULL);
  accel_plugin_endpoint *e = toy_init(backend, r->p, &h, 0);
  for (int64_t rows = 1; rows <= 9; rows += 4) {
    float a[9 * 8], b[9 * 8], *memory[512], got[MAX_OUT][9 * 64];
    for (int i = 0; i < 9 * 8; i++)
      a[i] = (float)draw(1000) * 0.01f, b[i] = (float)draw(1000) * 0.01f;
    assert_true(p->n_tensor <= 512);
    run_plainly(p, rows, (const float *const[2]){a, b}, memory);
    accel_plugin_view in[2] = {toy_view(0, a, 2, rows, 8), toy_view(0, b, 2, rows, 8)},
                      out[MAX_OUT];
    for (uint32_t k = 0; k < r->n_out; k++) {
      out[k] = (accel_plugin_view){
          .size = sizeof out[k], .host = wanted[k] ? got[k] : NULL, .capacity = sizeof got[k]};
    }
    accel_plugin_run run = {.size = sizeof run, .host = &h.host};
    accel_plugin_error error = {.size = sizeof error};
    int32_t rc = kit_handler(e, NULL, &run, in, 2, out, r->n_out, &error);
    if (rc) print_error("%s\n", error.message);
    assert_int_equal(rc, 0);
    for (uint32_t k = 0; k < r->n_out; k++)
      if (wanted[k])
        assert_memory_equal(got[k], memory[p->entry[0].out[k]],
                            (size_t)(out[k].dim[0] * out[k].dim[1]) * 4);
    for (uint32_t i = 0; i < p->n_tensor; i++) free(memory[i]);
  }
  kit_cleanup(e, &h.host);
}

static void random_programs(void **state) {
  (void)state;
  for (uint64_t s = 1; s <= 300; s++) {
    random_program r;
    uint8_t wanted[MAX_OUT] = {1, 1, 1, 1, 1, 1};
    seed = s;
    make(&r, 2 + draw(40));
    if (r.n_out > 1) wanted[draw(r.n_out)] = (uint8_t)draw(2);
    const accel_plugin_program *p = accel__program_view(r.p);
    const kit_backend *backends[] = {&toy, &strided_toy};
    for (int b = 0; b < 2; b++)
      for (int64_t rows = 1; rows <= 17; rows += 8) {
        kit_plan *plan = plan_of(backends[b], p, rows, wanted);
        check_overlaps(p, plan, wanted);
        kit_plan_free(plan);
      }
    check_run(&toy, &r, p, wanted);
    check_run(&strided_toy, &r, p, wanted);
    check_run(&far_toy, &r, p, wanted);
    assert_int_equal(live_buffers, 0);
    accel__program_free(&r.p);
  }
}

/* x -> neg -> neg -> ... needs one block, however long. */
static void chains_reuse_one_block(void **state) {
  (void)state;
  accel__program *p = accel__program_new("chain");
  accel__dim dims[2] = {accel__symbol(p, "T", 1, 64, 8), accel__const_dim(p, 16)};
  accel__tensor x = accel__input(p, "x", ACCEL_PLUGIN_F32, -1, 2, dims), first = x;
  for (int i = 0; i < 20; i++) x = accel__unary(p, ACCEL_PLUGIN_UNARY_NEG, x);
  accel__entry(p, "run", &first, 1, &x, 1);
  assert_int_equal(accel__program_finish(p), ACCEL_OK);
  uint8_t wanted[1] = {1};
  kit_plan *plan = plan_of(&toy, accel__program_view(p), 10, wanted);
  assert_int_equal(plan->n_step, 20);
  assert_int_equal(plan->scratch, 10 * 16 * 4); /* the last one is written to the caller */
  kit_plan_free(plan);
  accel__program_free(&p);
}

/* y = x + c and the constant itself as an output: c goes to the device when the endpoint opens, x
 * with every run; the constant's buffer goes back when it closes. */
static void constants_are_uploaded_once(void **state) {
  static const float c[4] = {10, 20, 30, 40};
  (void)state;
  accel__program *p = accel__program_new("constant");
  accel__dim dims[2] = {accel__symbol(p, "T", 1, 64, 8), accel__const_dim(p, 4)};
  accel__tensor x = accel__input(p, "x", ACCEL_PLUGIN_F32, -1, 2, dims),
                k = accel__constant_f32(p, "c", 1, (int64_t[]){4}, c),
                out[2] = {
                    accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, x, k),
                    accel__reshape(p, k, 2,
                                   (accel__dim[]){accel__const_dim(p, 2), accel__const_dim(p, 2)})};
  accel__entry(p, "run", &x, 1, out, 2);
  assert_int_equal(accel__program_finish(p), ACCEL_OK);
  const kit_backend *backends[] = {&toy, &far_toy};
  for (int b = 0; b < 2; b++) {
    toy_host h;
    toy_host_init(&h, NULL);
    uploads = 0;
    accel_plugin_endpoint *e = toy_init(backends[b], p, &h, 0);
    assert_int_equal(uploads, b);
    for (int run = 1; run <= 3; run++) {
      float rows[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8], again[4];
      accel_plugin_view in = toy_view(0, rows, 2, 2, 4),
                        to[2] = {{.size = sizeof in, .host = y, .capacity = sizeof y},
                                 {.size = sizeof in, .host = again, .capacity = sizeof again}};
      accel_plugin_run r = {.size = sizeof r, .host = &h.host};
      accel_plugin_error error = {.size = sizeof error};
      assert_int_equal(kit_handler(e, NULL, &r, &in, 1, to, 2, &error), 0);
      assert_int_equal(uploads, b * (1 + run));
      for (int i = 0; i < 8; i++) assert_true(y[i] == rows[i] + c[i % 4]);
      assert_memory_equal(again, c, sizeof c);
    }
    kit_cleanup(e, &h.host);
  }
  assert_int_equal(live_buffers, 0);
  accel__program_free(&p);
}

/* Of two results only the one that is wanted comes to the host: of a prompt the logits of each
 * sequence's last row, not those of all rows. */
static void only_wanted_results_come_to_the_host(void **state) {
  (void)state;
  accel__program *p = accel__program_new("wanted");
  accel__dim dims[2] = {accel__symbol(p, "T", 1, 64, 8), accel__const_dim(p, 4)};
  accel__tensor x = accel__input(p, "x", ACCEL_PLUGIN_F32, -1, 2, dims),
                out[2] = {accel__slice(p, accel__unary(p, ACCEL_PLUGIN_UNARY_NEG, x), 0, 0, 1),
                          accel__unary(p, ACCEL_PLUGIN_UNARY_ABS, x)};
  accel__entry(p, "run", &x, 1, out, 2);
  assert_int_equal(accel__program_finish(p), ACCEL_OK);
  toy_host h;
  toy_host_init(&h, NULL);
  accel_plugin_endpoint *e = toy_init(&far_toy, p, &h, 0);
  float rows[8] = {1, 2, 3, 4, 5, 6, 7, 8}, first[4], all[8];
  const uint64_t bytes[3] = {0, sizeof first, sizeof first + sizeof all};
  for (int wanted = 1; wanted <= 2; wanted++) {
    accel_plugin_view in = toy_view(0, rows, 2, 2, 4),
                      to[2] = {{.size = sizeof in, .host = first, .capacity = sizeof first},
                               {.size = sizeof in,
                                .host = wanted == 2 ? all : NULL,
                                .capacity = sizeof all}};
    accel_plugin_run r = {.size = sizeof r, .host = &h.host};
    accel_plugin_error error = {.size = sizeof error};
    downloaded = 0;
    assert_int_equal(kit_handler(e, NULL, &r, &in, 1, to, 2, &error), 0);
    assert_int_equal(downloaded, bytes[wanted]);
    for (int i = 0; i < 4; i++) assert_true(first[i] == -rows[i]);
  }
  kit_cleanup(e, &h.host);
  accel__program_free(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_programs),
                                     cmocka_unit_test(constants_are_uploaded_once),
                                     cmocka_unit_test(only_wanted_results_come_to_the_host),
                                     cmocka_unit_test(chains_reuse_one_block)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
