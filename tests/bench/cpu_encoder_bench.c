/* cpu_encoder_bench.c - times the CPU plugin on whole BERT-shaped encoders with random weights, without the rest of libaccel.
 *
 *   cpu_encoder_bench PLUGIN.so [--threads N] [--seconds S] [WORKLOAD...]
 *
 * Workloads: bert-b1-s32 bert-b1-s128 bert-b8-s128 minilm-b1-s16 minilm-b32-s128 ragged (32 sequences of 5 to 120 tokens).  Prints the median
 * and the fastest run, GFLOP/s of the matrix products, and the time init took. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "accel/plugin.h"
#include "core/threads.h"

enum { MAX_TENSORS = 1024, MAX_NODES = 512, MAX_DIMS = 64, VOCAB = 30522 };

typedef struct model {
  accel_plugin_program p;
  accel_plugin_symbol symbol[2];
  accel_plugin_dim dim[MAX_DIMS];
  accel_plugin_space space;
  accel_plugin_tensor tensor[MAX_TENSORS];
  accel_plugin_node node[MAX_NODES];
  accel_plugin_weight weight[MAX_TENSORS];
  accel_plugin_format format[MAX_TENSORS];
  accel_plugin_entry entry;
  int32_t in[MAX_NODES][12], out[MAX_NODES][2], order[MAX_NODES], inputs[2], outputs[1];
  accel_plugin_attr attr[MAX_NODES][4];
  float *values;
  uint64_t n_values;
  accel__pool *pool;
} model;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the program ---- */

static int32_t constant(model *m, int64_t c) {
  for (uint32_t i = 0; i < m->p.n_dim; i++)
    if (m->dim[i].op == ACCEL_PLUGIN_DIM_CONST && m->dim[i].c == c) return (int32_t)i;
  m->dim[m->p.n_dim] = (accel_plugin_dim){ACCEL_PLUGIN_DIM_CONST, 0, 0, c};
  return (int32_t)m->p.n_dim++;
}

static int32_t tensor(model *m, int kind, int dtype, int32_t rows, int32_t cols, int32_t space) {
  accel_plugin_tensor *t = &m->tensor[m->p.n_tensor];
  *t = (accel_plugin_tensor){.name = "t", .kind = (uint8_t)kind, .dtype = (uint8_t)dtype, .rank = cols >= 0 ? 2 : 1, .weight = -1, .space = space};
  t->dim[0] = rows;
  t->dim[1] = cols >= 0 ? cols : 0;
  return (int32_t)m->p.n_tensor++;
}

static int32_t weight(model *m, int64_t n, int64_t k, uint32_t use) {
  int32_t id = tensor(m, ACCEL_PLUGIN_TENSOR_WEIGHT, ACCEL_PLUGIN_F32, constant(m, n), k ? constant(m, k) : -1, -1);
  accel_plugin_weight *w = &m->weight[m->p.n_weight];
  *w = (accel_plugin_weight){.name = "w", .rank = k ? 2 : 1, .dim = {n, k}, .use = use};
  m->format[m->p.n_weight] = (accel_plugin_format){.store = ACCEL_PLUGIN_F32, .scale = ACCEL_PLUGIN_NO_DTYPE, .zero = ACCEL_PLUGIN_NO_DTYPE, .outer = ACCEL_PLUGIN_NO_DTYPE};
  m->tensor[id].weight = (int32_t)m->p.n_weight++;
  uint64_t elements = (uint64_t)n * (uint64_t)(k ? k : 1);
  if (elements > m->n_values) m->n_values = elements;
  return id;
}

/* A node over up to four operands; returns its result [T, cols]. */
static int32_t node(model *m, int op, int32_t a, int32_t b, int32_t c, int32_t d, int64_t cols, int key, int64_t value) {
  uint32_t i = m->p.n_node++;
  int32_t y = tensor(m, ACCEL_PLUGIN_TENSOR_VALUE, ACCEL_PLUGIN_F32, 1, constant(m, cols), 0);
  memcpy(m->in[i], (int32_t[]){a, b, c, d}, 4 * sizeof(int32_t));
  m->out[i][0] = y;
  m->order[i] = (int32_t)i;
  m->node[i] = (accel_plugin_node){.op = (uint16_t)op, .version = 1, .n_in = 4, .n_out = 1, .in = m->in[i], .out = m->out[i], .attr = m->attr[i], .state = -1};
  if (key) m->attr[i][m->node[i].n_attr++] = (accel_plugin_attr){.key = (uint16_t)key, .type = ACCEL_PLUGIN_ATTR_I, .i = value};
  return y;
}

static int32_t linear(model *m, int32_t x, int64_t k, int64_t n, int32_t residual, int act) {
  return node(m, ACCEL_PLUGIN_OP_LINEAR, x, weight(m, n, k, ACCEL_PLUGIN_USE_LINEAR), weight(m, n, 0, ACCEL_PLUGIN_USE_PLAIN), residual, n, ACCEL_PLUGIN_ATTR_ACT, act);
}

static int32_t norm(model *m, int32_t x, int64_t n) {
  return node(m, ACCEL_PLUGIN_OP_NORM, x, weight(m, n, 0, ACCEL_PLUGIN_USE_PLAIN), weight(m, n, 0, ACCEL_PLUGIN_USE_PLAIN), -1, n, 0, 0);
}

static void build(model *m, int64_t hidden, int64_t inner, int64_t heads, int layers) {
  accel_plugin_program *p = &m->p;
  *p = (accel_plugin_program){.size = sizeof *p, .abi = ACCEL_PLUGIN_ABI_NOW, .name = "encoder", .symbol_stride = sizeof *m->symbol, .dim_stride = sizeof *m->dim,
                              .space_stride = sizeof m->space, .tensor_stride = sizeof *m->tensor, .state_stride = sizeof(accel_plugin_state), .node_stride = sizeof *m->node,
                              .entry_stride = sizeof m->entry, .weight_stride = sizeof *m->weight, .n_symbol = 2, .n_dim = 2, .n_space = 1, .n_entry = 1, .n_stage = 1,
                              .symbol = m->symbol, .dim = m->dim, .space = &m->space, .tensor = m->tensor, .node = m->node, .entry = &m->entry, .weight = m->weight};
  m->symbol[0] = (accel_plugin_symbol){"B", 0, 0, 1};
  m->symbol[1] = (accel_plugin_symbol){"T", 0, 0, 128};
  m->dim[0] = (accel_plugin_dim){ACCEL_PLUGIN_DIM_SYMBOL, 0, 0, 0};
  m->dim[1] = (accel_plugin_dim){ACCEL_PLUGIN_DIM_SYMBOL, 1, 0, 0};
  int32_t ids = tensor(m, ACCEL_PLUGIN_TENSOR_INPUT, ACCEL_PLUGIN_I32, 1, -1, 0), lengths = tensor(m, ACCEL_PLUGIN_TENSOR_INPUT, ACCEL_PLUGIN_I32, 0, -1, -1);
  m->space = (accel_plugin_space){"tokens", lengths, 1, 0};
  int32_t x = node(m, ACCEL_PLUGIN_OP_GATHER, weight(m, VOCAB, hidden, ACCEL_PLUGIN_USE_EMBEDDING), ids, -1, -1, hidden, 0, 0);
  x = norm(m, x, hidden);
  for (int i = 0; i < layers; i++) {
    int32_t q = linear(m, x, hidden, hidden, -1, 0), k = linear(m, x, hidden, hidden, -1, 0), v = linear(m, x, hidden, hidden, -1, 0);
    int32_t y = node(m, ACCEL_PLUGIN_OP_ATTENTION, q, k, v, -1, hidden, ACCEL_PLUGIN_ATTR_HEADS, heads);
    accel_plugin_node *attention = &m->node[p->n_node - 1];
    m->attr[p->n_node - 1][attention->n_attr++] = (accel_plugin_attr){.key = ACCEL_PLUGIN_ATTR_Q_SPACE, .type = ACCEL_PLUGIN_ATTR_I, .i = 0};
    m->attr[p->n_node - 1][attention->n_attr++] = (accel_plugin_attr){.key = ACCEL_PLUGIN_ATTR_KV_SPACE, .type = ACCEL_PLUGIN_ATTR_I, .i = 0};
    x = norm(m, linear(m, y, hidden, hidden, x, 0), hidden);
    y = linear(m, x, hidden, inner, -1, ACCEL_PLUGIN_ACT_GELU);
    x = norm(m, linear(m, y, inner, hidden, x, 0), hidden);
  }
  m->inputs[0] = ids;
  m->inputs[1] = lengths;
  m->outputs[0] = x;
  m->entry = (accel_plugin_entry){.name = "encode", .node = m->order, .n_node = p->n_node, .in = m->inputs, .out = m->outputs, .n_in = 2, .n_out = 1};
}

/* ---- the host ---- */

static int32_t map(void *self, uint32_t index, accel_plugin_weight_view *out, accel_plugin_error *error) {
  (void)index;
  (void)error;
  *out = (accel_plugin_weight_view){.data = ((model *)self)->values};
  return 0;
}
static void unmap(void *self, uint32_t index) { (void)self, (void)index; }
static void run_parallel(void *self, uint32_t n, accel_plugin_task_fn fn, void *arg) { accel__pool_run(((model *)self)->pool, n, fn, arg); }
static uint32_t count_workers(void *self) { return accel__pool_size(((model *)self)->pool); }

/* ---- measuring ---- */

typedef struct workload {
  const char *name;
  int64_t hidden, inner, heads;
  int layers, batch, length; /* length 0: ragged */
} workload;

static const workload workloads[] = {
    {"bert-b1-s32", 768, 3072, 12, 12, 1, 32},      {"bert-b1-s128", 768, 3072, 12, 12, 1, 128},   {"bert-b8-s128", 768, 3072, 12, 12, 8, 128},
    {"minilm-b1-s16", 384, 1536, 12, 6, 1, 16},     {"minilm-b32-s128", 384, 1536, 12, 6, 32, 128}, {"ragged", 384, 1536, 12, 6, 32, 0},
};

static int ascending(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

static int run(const accel_plugin *plugin, const workload *w, uint32_t threads, double seconds) {
  model *m = calloc(1, sizeof *m);
  accel_plugin_error error = {.size = sizeof error};
  build(m, w->hidden, w->inner, w->heads, w->layers);
  m->values = malloc(m->n_values * sizeof(float));
  for (uint64_t i = 0; i < m->n_values; i++) m->values[i] = (float)(i * 2654435761u % 1000003) / 1000003.0f * 0.1f - 0.05f;
  if (accel__pool_create(threads, &m->pool)) return 1;
  accel_plugin_host host = {.size = sizeof host, .abi = ACCEL_PLUGIN_ABI_NOW, .self = m, .weight_map = map, .weight_unmap = unmap, .parallel = run_parallel, .workers = count_workers};
  accel_plugin_options options = {.size = sizeof options, .host = &host, .precision = {.size = sizeof options.precision, .name = "fp32", .format = m->format}};
  accel_plugin_endpoint *endpoint;
  double before = now();
  if (plugin->init(0, &m->p, &options, &endpoint, &error)) return fprintf(stderr, "%s: %s\n", w->name, error.message), 1;
  double init = now() - before, flop = 0, t[4096], start;
  int32_t lengths[64], rows = 0;
  for (int i = 0; i < w->batch; i++) {
    double s = lengths[i] = w->length ? w->length : 5 + (i * 37 + 11) % 116;
    rows += lengths[i];
    flop += w->layers * (2 * s * (double)(4 * w->hidden * w->hidden + 2 * w->hidden * w->inner) + 4 * s * s * (double)w->hidden);
  }
  int32_t *ids = malloc((size_t)rows * sizeof *ids);
  float *y = malloc((size_t)(rows * w->hidden) * sizeof *y);
  for (int32_t i = 0; i < rows; i++) ids[i] = i * 7919 % VOCAB;
  accel_plugin_view in[2] = {{.size = sizeof *in, .dtype = ACCEL_PLUGIN_I32, .rank = 1, .host = ids, .dim = {rows}},
                             {.size = sizeof *in, .dtype = ACCEL_PLUGIN_I32, .rank = 1, .host = lengths, .dim = {w->batch}}};
  accel_plugin_view out = {.size = sizeof out, .dtype = ACCEL_PLUGIN_F32, .rank = 2, .host = y, .capacity = (uint64_t)(rows * w->hidden) * 4};
  accel_plugin_run r = {.size = sizeof r, .host = &host};
  int n = 0;
  for (start = now(); n < 4096 && (n < 4 || now() - start < seconds); n++) {
    before = now();
    if (plugin->handler(endpoint, NULL, &r, in, 2, &out, 1, &error)) return fprintf(stderr, "%s: %s\n", w->name, error.message), 1;
    t[n] = now() - before;
  }
  qsort(t + 1, (size_t)n - 1, sizeof *t, ascending); /* the first one warms up */
  double median = t[1 + (n - 1) / 2];
  printf("%-16s %u threads  median %8.3f ms  min %8.3f ms  %6.1f GFLOP/s  init %6.1f ms  first %8.3f ms  y[0] %.6f\n", w->name, threads, median * 1e3, t[1] * 1e3,
         flop / median * 1e-9, init * 1e3, t[0] * 1e3, (double)y[0]);
  fflush(stdout);
  plugin->cleanup(endpoint, &host);
  accel__pool_destroy(&m->pool);
  free(ids);
  free(y);
  free(m->values);
  free(m);
  return 0;
}

int main(int argc, char **argv) {
  uint32_t threads = 0;
  double seconds = 2;
  bool any = false;
  void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!library) return fprintf(stderr, "usage: cpu_encoder_bench PLUGIN.so [--threads N] [--seconds S] [WORKLOAD...]\n%s\n", argc > 1 ? dlerror() : ""), 2;
  accel_plugin_query_fn query;
  *(void **)&query = dlsym(library, ACCEL_PLUGIN_QUERY_SYMBOL);
  const accel_plugin *plugin = query ? query(NULL, ACCEL_PLUGIN_ABI_NOW) : NULL;
  if (!plugin) return fprintf(stderr, "%s: not a plugin of this ABI\n", argv[1]), 1;
  for (int i = 2; i < argc; i++) {
    if (!strcmp(argv[i], "--threads") && i + 1 < argc) threads = (uint32_t)atoi(argv[++i]);
    else if (!strcmp(argv[i], "--seconds") && i + 1 < argc) seconds = atof(argv[++i]);
    else any = true;
  }
  int failures = 0;
  for (size_t k = 0; k < sizeof workloads / sizeof *workloads; k++) {
    bool wanted = !any;
    for (int i = 2; i < argc; i++) wanted |= !strcmp(argv[i], workloads[k].name);
    for (uint32_t t = threads ? threads : 1; wanted && t <= (threads ? threads : 2); t++) failures += run(plugin, &workloads[k], t, seconds);
  }
  return failures != 0;
}
