/* cpu_ops_bench.c - the ops of ops_cases.txt on the CPU plugin: each instruction set of this
 * machine against the kit's scalar kernels (the reference plugin), whole launches through the
 * plugin's handler.
 *
 *   cpu_ops_bench CASES PLUGIN.so REFERENCE.so [--threads N] [--seconds S] [--no-scalar] [CASE...]   table; a CASE is a
 * prefix cpu_ops_bench CASES PLUGIN.so --serve --threads N    reads "CASE SECONDS" lines, answers "median_ms" (ops_peers.py)
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_timer.h"
#include "core/threads.h"
#include "kernels/kernels.h"
#include "program/program.h"

enum { OPERANDS = 10, ATTRS = 12, ROUNDS = 3, MOST = 4096, LINE = 1024 };

typedef struct operand {
  char kind; /* x i w m p - */
  int64_t limit, dim[ACCEL_PLUGIN_MAX_RANK], elements;
  uint32_t rank;
  void *data;
} operand;

typedef struct bench_case {
  char text[LINE], name[64];
  uint32_t op, n, n_attr, results;
  operand in[OPERANDS];
  accel__attr attr[ATTRS];
  int64_t list[ATTRS][8];
  int32_t lengths[8];
  int64_t items, rows; /* of the ragged space; items 0: none */
} bench_case;

/* A case on a plugin. */
typedef struct served {
  const accel_plugin *plugin;
  accel__pool *pool;
  accel_plugin_host host;
  accel__program *program;
  accel_plugin_endpoint *endpoint;
  accel_plugin_format *format;
  const bench_case *c;
  accel_plugin_view in[OPERANDS + 1], out[2];
  uint32_t n_in, n_out;
  double t[MOST];
} served;

/* ---- cases ---- */

static uint32_t op_number(const char *name) {
#define ACCEL_OP(NAME, number, operands, outputs, attributes, text) \
  if (!strcmp(name, #NAME)) return number;
#include "accel/ops.def"
  return 0;
}
static int attr_number(const char *key, accel_plugin_attr_type *type) {
  enum {
    I = ACCEL_PLUGIN_ATTR_I,
    F = ACCEL_PLUGIN_ATTR_F,
    IV = ACCEL_PLUGIN_ATTR_IV,
    D = ACCEL_PLUGIN_ATTR_D
  };
#define ACCEL_ATTR(NAME, number, spelled, kind, text) \
  if (!strcmp(key, spelled)) return *type = (accel_plugin_attr_type)kind, number;
#include "accel/ops.def"
  return 0;
}

static uint32_t numbers(const char *text, int64_t *out, uint32_t room) {
  uint32_t n = 0;
  for (char *end; *text && n < room; text = *end == ',' ? end + 1 : end) {
    out[n++] = strtoll(text, &end, 10);
    if (end == text) return 0;
  }
  return n;
}

static bool parse_attr(bench_case *c, const char *key, const char *value) {
  accel__attr *a = &c->attr[c->n_attr];
  int64_t *list = c->list[c->n_attr];
  accel_plugin_attr_type type;
  if (!strcmp(key, "results")) return c->results = (uint32_t)atoi(value), true;
  if (!strcmp(key, "len")) {
    int64_t lengths[8];
    c->items = numbers(value, lengths, 8);
    for (int i = 0; i < c->items; i++) c->rows += c->lengths[i] = (int32_t)lengths[i];
    return true;
  }
  int number = attr_number(key, &type);
  if (!number || c->n_attr == ATTRS) return false;
  *a = (accel__attr){
      .key = (accel_plugin_attr_key)number, .type = type, .i = atoll(value), .f = atof(value)};
  a->n = numbers(value, list, 8);
  a->v = list;
  c->n_attr++;
  return true;
}

static bool parse_operand(bench_case *c, const char *word, const char *dims) {
  operand *o = &c->in[c->n];
  if (c->n == OPERANDS) return false;
  *o = (operand){.kind = word[0], .limit = atoll(word + 1), .elements = 1};
  c->n++;
  if (o->kind == '-') return true;
  o->rank = numbers(dims, o->dim, ACCEL_PLUGIN_MAX_RANK);
  for (uint32_t i = 0; i < o->rank; i++) o->elements *= o->dim[i];
  return o->rank > 0 && strchr("xiwmp", o->kind);
}

static bool parse(const char *line, bench_case *c) {
  char *rest = c->text, *word;
  memset(c, 0, sizeof *c);
  c->results = 1;
  snprintf(c->text, sizeof c->text, "%s", line);
  c->text[strcspn(c->text, "\n")] = 0;
  for (int i = 0; (word = strsep(&rest, " ")) != NULL; i++) {
    char *mark = strpbrk(word, ":=");
    bool good = true;
    if (i == 0)
      snprintf(c->name, sizeof c->name, "%s", word);
    else if (i == 1)
      good = (c->op = op_number(word)) != 0;
    else if (!mark || *mark == ':')
      good = parse_operand(c, word, mark ? mark + 1 : "");
    else
      *mark = 0, good = parse_attr(c, word, mark + 1);
    if (!good) return fprintf(stderr, "%s: '%s' is not understood\n", c->name, word), false;
  }
  return true;
}

static void fill(operand *o, uint32_t seed) {
  o->data = o->data ? o->data : malloc((size_t)o->elements * 4 + 4);
  float scale = o->kind == 'w' || o->kind == 'm' ? 0.05f : 1.0f;
  for (int64_t i = 0; o->data && i < o->elements; i++) {
    seed = seed * 1664525u + 1013904223u;
    if (o->kind == 'i')
      ((int32_t *)o->data)[i] = (int32_t)(seed >> 8) % (int32_t)o->limit;
    else
      ((float *)o->data)[i] = ((float)(seed >> 8) / 8388608.0f - 1.0f) * scale;
  }
}

/* The rates of a scan must be negative, and so the logarithms of a delta rule's decays, or their
 * states grow beyond all bounds. */
static void fill_all(bench_case *c) {
  for (uint32_t i = 0; i < c->n; i++)
    if (c->in[i].kind != '-') fill(&c->in[i], i + 1);
  const bool delta = c->op == ACCEL_PLUGIN_OP_GATED_DELTA_RULE;
  operand *a = &c->in[delta ? 3 : 2];
  for (int64_t i = 0; (delta || c->op == ACCEL_PLUGIN_OP_SELECTIVE_SCAN) && i < a->elements; i++)
    ((float *)a->data)[i] = -1.0f - 0.5f * ((float *)a->data)[i];
  for (int64_t i = 0; delta && i < c->in[4].elements; i++)
    ((float *)c->in[4].data)[i] = 0.5f + 0.5f * ((float *)c->in[4].data)[i];
}

/* ---- a case on a plugin ---- */

static int32_t map(void *self, uint32_t index, accel_plugin_weight_view *out,
                   accel_plugin_error *error) {
  const served *s = self;
  (void)error;
  for (uint32_t i = 0, w = 0; i < s->c->n; i++)
    if (strchr("wmp", s->c->in[i].kind) && w++ == index)
      *out = (accel_plugin_weight_view){.data = s->c->in[i].data};
  return 0;
}
static void unmap(void *self, uint32_t index) { (void)self, (void)index; }
static void parallel(void *self, uint32_t n, accel_plugin_task_fn fn, void *arg) {
  accel__pool_run(((served *)self)->pool, n, fn, arg);
}
static uint32_t workers(void *self) { return accel__pool_size(((served *)self)->pool); }

static void add_input(served *s, uint8_t dtype, uint32_t rank, const int64_t *dim, void *data) {
  accel_plugin_view *v = &s->in[s->n_in++];
  *v = (accel_plugin_view){.size = sizeof *v, .dtype = dtype, .rank = (uint8_t)rank, .host = data};
  memcpy(v->dim, dim, rank * sizeof *dim);
}

static void build(served *s) {
  const bench_case *c = s->c;
  accel__program *p = s->program = accel__program_new(c->name);
  accel__tensor in[OPERANDS], given[OPERANDS + 1], out[2] = {-1, -1};
  accel__dim rows = -1, items;
  int32_t space = -1;
  accel__attr attr[ATTRS];
  int64_t dims[ATTRS][8];
  if (c->items) {
    rows = accel__symbol(p, "T", 0, 0, c->rows);
    items = accel__symbol(p, "B", 0, 0, c->items);
    given[0] = accel__input(p, "lengths", ACCEL_PLUGIN_I32, -1, 1, &items);
    space = accel__space_ragged(p, "rows", given[0], rows, items);
    add_input(s, ACCEL_PLUGIN_I32, 1, &c->items, (void *)c->lengths);
  }
  for (uint32_t i = 0; i < c->n; i++) {
    const operand *o = &c->in[i];
    accel__dim d[ACCEL_PLUGIN_MAX_RANK];
    char name[16];
    snprintf(name, sizeof name, "in%u", i);
    in[i] = -1;
    if (strchr("wmp", o->kind)) {
      accel__weight_spec spec = {.name = name, .rank = o->rank};
      spec.use = o->kind == 'w'   ? ACCEL_PLUGIN_USE_CONV
                 : o->kind == 'm' ? ACCEL_PLUGIN_USE_MOE
                                  : ACCEL_PLUGIN_USE_PLAIN;
      memcpy(spec.dim, o->dim, o->rank * sizeof *o->dim);
      in[i] = accel__weight(p, &spec);
    } else if (o->kind != '-') {
      bool ragged = c->items && o->dim[0] == c->rows;
      for (uint32_t k = 0; k < o->rank; k++)
        d[k] = k == 0 && ragged ? rows : accel__const_dim(p, o->dim[k]);
      uint8_t dtype = o->kind == 'i' ? ACCEL_PLUGIN_I32 : ACCEL_PLUGIN_F32;
      given[s->n_in] = in[i] = accel__input(p, name, dtype, ragged ? space : -1, o->rank, d);
      add_input(s, dtype, o->rank, o->dim, o->data);
    }
  }
  memcpy(attr, c->attr, sizeof attr);
  for (uint32_t i = 0; i < c->n_attr; i++) {
    for (uint32_t k = 0; attr[i].type == ACCEL_PLUGIN_ATTR_D && k < attr[i].n; k++)
      dims[i][k] = accel__const_dim(p, attr[i].v[k]);
    if (attr[i].type == ACCEL_PLUGIN_ATTR_D) attr[i].v = dims[i];
    if (attr[i].key == ACCEL_PLUGIN_ATTR_SPACE) attr[i].i = space;
  }
  accel__node(p, (accel_plugin_op)c->op, in, c->n, attr, c->n_attr, out, c->results);
  s->n_out = c->results;
  accel__entry(p, "run", given, s->n_in, out, c->results);
}

static int32_t run_once(served *s, accel_plugin_error *error) {
  accel_plugin_run r = {.size = sizeof r, .host = &s->host};
  return s->plugin->handler(s->endpoint, NULL, &r, s->in, s->n_in, s->out, s->n_out, error);
}

static bool open_case(served *s, const accel_plugin *plugin, const bench_case *c,
                      uint32_t threads) {
  memset(s, 0, sizeof *s);
  s->plugin = plugin;
  s->c = c;
  build(s);
  if (accel__program_finish(s->program) || accel__pool_create(threads, &s->pool))
    return fprintf(stderr, "%s: the program does not build\n", c->name), false;
  const accel_plugin_program *view = accel__program_view(s->program);
  s->host = (accel_plugin_host){.size = sizeof s->host,
                                .abi = ACCEL_PLUGIN_ABI_NOW,
                                .self = s,
                                .weight_map = map,
                                .weight_unmap = unmap,
                                .parallel = parallel,
                                .workers = workers};
  s->format = calloc(view->n_weight + 1, sizeof *s->format);
  for (uint32_t i = 0; i < view->n_weight; i++)
    s->format[i] = (accel_plugin_format){ACCEL_PLUGIN_F32,
                                         ACCEL_PLUGIN_NO_DTYPE,
                                         ACCEL_PLUGIN_NO_DTYPE,
                                         ACCEL_PLUGIN_NO_DTYPE,
                                         0,
                                         0};
  accel_plugin_options options = {
      .size = sizeof options,
      .host = &s->host,
      .precision = {.size = sizeof options.precision, .name = "fp32", .format = s->format}};
  accel_plugin_error error = {.size = sizeof error};
  if (plugin->init(0, view, &options, &s->endpoint, &error))
    return fprintf(stderr, "%s: %s\n", c->name, error.message), false;
  char nothing[8];
  for (uint32_t i = 0; i < s->n_out; i++)
    s->out[i] = (accel_plugin_view){.size = sizeof s->out[i],
                                    .dtype = view->tensor[view->entry[0].out[i]].dtype,
                                    .host = nothing};
  int32_t rc = run_once(s, &error); /* tells the shapes */
  if (rc != ACCEL_PLUGIN_E_LIMIT) return fprintf(stderr, "%s: %s\n", c->name, error.message), false;
  for (uint32_t i = 0; i < s->n_out; i++) {
    int64_t n = 1;
    for (int k = 0; k < s->out[i].rank; k++) n *= s->out[i].dim[k];
    s->out[i].capacity = (uint64_t)n * 4;
    s->out[i].host = malloc((size_t)n * 4 + 4);
  }
  return true;
}

static void close_case(served *s) {
  if (s->endpoint) s->plugin->cleanup(s->endpoint, &s->host);
  for (uint32_t i = 0; i < s->n_out && s->out[i].capacity; i++) free(s->out[i].host);
  free(s->format);
  accel__pool_destroy(&s->pool);
  accel__program_free(&s->program);
}

/* Median milliseconds of a launch; negative when it fails. */
static double measure(served *s, double seconds) {
  accel_plugin_error error = {.size = sizeof error};
  int n = 0;
  for (double start = now(), before; n < MOST && (n < 1 || now() - start < seconds); n++) {
    before = now();
    if (run_once(s, &error)) return fprintf(stderr, "%s: %s\n", s->c->name, error.message), -1;
    s->t[n] = now() - before;
  }
  qsort(s->t, (size_t)n, sizeof *s->t, ascending);
  return s->t[n / 2] * 1e3;
}

/* ---- reports ---- */

static double elements_out(const served *s) { return (double)s->out[0].capacity / 4; }

/* Floating-point operations of the products; 0: the op only moves or folds. */
static double flop_of(const served *s) {
  const operand *in = s->c->in;
  switch (s->c->op) {
    case ACCEL_PLUGIN_OP_CONV:
      return 2 * elements_out(s) * (double)in[1].elements / (double)in[1].dim[0];
    case ACCEL_PLUGIN_OP_CONV_TRANSPOSE:
      return 2 * (double)in[0].elements * (double)in[1].elements / (double)in[1].dim[0];
    case ACCEL_PLUGIN_OP_MOE:
      return 2 * (double)in[1].elements * (double)(in[3].elements + in[4].elements) /
             (double)in[3].dim[0];
  }
  return 0;
}

static double bytes_of(const served *s) {
  double n = elements_out(s);
  for (uint32_t i = 0; i < s->c->n; i++)
    if (s->c->in[i].kind != '-') n += (double)s->c->in[i].elements;
  return 4 * n;
}

static void report(bench_case *c, const accel_plugin *plugin, const accel_plugin *reference,
                   uint32_t threads, double seconds) {
  cpu_isa list[CPU_ISA_COUNT];
  int n = cpu_isa_list(list);
  static served ours[CPU_ISA_COUNT], scalar;
  double best[CPU_ISA_COUNT], slow = 0;
  fill_all(c);
  int kept = 0;
  for (int i = 0; i < n; i++) { /* those that differ: the plain fp32 ones */
    const char *name = cpu_isa_name(list[i]);
    if (strcmp(name, "avx512") && strcmp(name, "avx2") && strcmp(name, "neon") &&
        strcmp(name, "scalar"))
      continue;
    setenv("ACCEL_ISA", name, 1);
    list[kept] = list[i];
    if (!open_case(&ours[kept], plugin, c, threads)) return;
    best[kept++] = 1e30;
  }
  for (int r = 0; r < ROUNDS; r++)
    for (int i = 0; i < kept; i++) {
      double t = measure(&ours[i], seconds / ROUNDS);
      if (t < best[i]) best[i] = t;
    }
  if (reference && open_case(&scalar, reference, c, threads)) {
    slow = measure(&scalar, seconds / ROUNDS);
    close_case(&scalar);
  }
  double flop = flop_of(&ours[0]), bytes = bytes_of(&ours[0]);
  printf("%-22s %9.3f ms scalar", c->name, slow);
  for (int i = 0; i < kept; i++)
    printf("  %-6s %8.3f ms %6.1f %s x%6.1f", cpu_isa_name(list[i]), best[i],
           (flop > 0 ? flop : bytes) / best[i] * 1e-6, flop > 0 ? "GF/s" : "GB/s", slow / best[i]);
  printf("\n");
  fflush(stdout);
  for (int i = 0; i < kept; i++) close_case(&ours[i]);
  for (uint32_t i = 0; i < c->n; i++) free(c->in[i].data);
}

static bench_case *find(bench_case *cases, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (!strcmp(cases[i].name, name)) return &cases[i];
  return NULL;
}

static int serve(bench_case *cases, int n, const accel_plugin *plugin, uint32_t threads) {
  char line[256], name[64];
  double seconds;
  static served s;
  bench_case *last = NULL;
  while (fgets(line, sizeof line, stdin) && sscanf(line, "%63s %lf", name, &seconds) == 2) {
    bench_case *c = find(cases, n, name);
    if (!c) return fprintf(stderr, "%s is unknown\n", name), 1;
    if (c != last) {
      if (last) {
        close_case(&s);
        for (uint32_t i = 0; i < last->n; i++) free(last->in[i].data), last->in[i].data = NULL;
      }
      fill_all(c);
      if (!open_case(&s, plugin, c, threads)) return 1;
      last = c;
      measure(&s, 0);
    }
    printf("%.6f\n", measure(&s, seconds));
    fflush(stdout);
  }
  return 0;
}

static const accel_plugin *load(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  accel_plugin_query_fn query = NULL;
  if (library) *(void **)&query = dlsym(library, ACCEL_PLUGIN_QUERY_SYMBOL);
  const accel_plugin *plugin = query ? query(NULL, ACCEL_PLUGIN_ABI_NOW) : NULL;
  if (!plugin) fprintf(stderr, "%s: %s\n", path, library ? "not a plugin of this ABI" : dlerror());
  return plugin;
}

int main(int argc, char **argv) {
  static bench_case cases[128];
  static const char *wanted[64];
  int n = 0, n_wanted = 0;
  uint32_t threads = 1;
  double seconds = 0.3;
  bool serving = false, scalar = true;
  const char *path[2] = {NULL, NULL};
  FILE *f = argc > 2 ? fopen(argv[1], "r") : NULL;
  if (!f)
    return fprintf(stderr,
                   "usage: cpu_ops_bench CASES PLUGIN.so [REFERENCE.so] [--threads N] [--seconds "
                   "S] [CASE...]\n"),
           2;
  char line[LINE];
  while (n < 128 && fgets(line, sizeof line, f))
    if (line[0] != '#' && line[0] != '\n' && !parse(line, &cases[n++])) return 1;
  fclose(f);
  for (int i = 2; i < argc; i++) {
    if (!strcmp(argv[i], "--threads") && i + 1 < argc)
      threads = (uint32_t)atoi(argv[++i]);
    else if (!strcmp(argv[i], "--seconds") && i + 1 < argc)
      seconds = atof(argv[++i]);
    else if (!strcmp(argv[i], "--serve"))
      serving = true;
    else if (!strcmp(argv[i], "--no-scalar"))
      scalar = false;
    else if (strstr(argv[i], ".so"))
      path[path[0] != NULL] = argv[i];
    else if (n_wanted < 64)
      wanted[n_wanted++] = argv[i];
  }
  const accel_plugin *plugin = path[0] ? load(path[0]) : NULL,
                     *reference = path[1] && scalar ? load(path[1]) : NULL;
  if (!plugin || (path[1] && scalar && !reference)) return 1;
  if (serving) return serve(cases, n, plugin, threads);
  for (int i = 0; i < n; i++) {
    bool run = n_wanted == 0;
    for (int k = 0; k < n_wanted; k++) run |= !strncmp(cases[i].name, wanted[k], strlen(wanted[k]));
    if (run) report(&cases[i], plugin, reference, threads, seconds);
  }
  return 0;
}
