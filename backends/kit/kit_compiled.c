/* kit_compiled.c - graphs compiled for what runs ask for: an entry, its wanted outputs, the symbols
 * that are folded.  The last few are kept. */
#include "kit/kit_compiled.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit_rounded.h"

enum { KEPT = 12 };

typedef struct compiled {
  uint32_t users; /* runs under way, and 1 of the cache */
  uint64_t used;  /* tick of last use */
  uint32_t entry;
  uint8_t *wanted;
  int64_t *symbol; /* [n_symbol] of folded ones; others 0 */
  int64_t *shape;  /* [n_feed][MAX_RANK] of inputs, where they are known; NULL */
  kit_graph *graph;
  void *model;
} compiled;

typedef struct endpoint {
  kit_compiled_options o;
  const accel_plugin_program *program;
  const accel_plugin_host *host;
  accel_plugin_format *format;    /* [n_weight] */
  accel_plugin_weight_view *view; /* [n_weight] */
  uint8_t *mapped;                /* [n_weight] view is to be given back */
  float **wide;                   /* [n_weight] as fp32; NULL: view has it */
  uint8_t *folded;                /* [n_symbol] */
  pthread_mutex_t lock;           /* of what follows */
  compiled *kept[KEPT];
  uint64_t tick;
} endpoint;

/* ---- what is supported ---- */

int32_t kit_compiled_support(const accel_plugin_program *program, const accel_plugin_node *node,
                             const accel_plugin_precision *precision, char *why, size_t n) {
  (void)precision; /* says what activations may be, not what they must be */
  return kit_graph_support(program, node, why, n);
}

int32_t kit_compiled_weight_format(const accel_plugin_program *program, uint32_t index,
                                   const accel_plugin_format *format, char *why, size_t n) {
  if (kit_graph_format(program, index, format)) return ACCEL_PLUGIN_NATIVE;
  return kit_format_widened(program, index, format, why, n);
}

uint64_t kit_compiled_weight_bytes(const accel_plugin_program *program, uint32_t index,
                                   const accel_plugin_format *format) {
  return kit_graph_format(program, index, format)
             ? kit_format_bytes(&program->weight[index], format)
             : (uint64_t)kit_weight_elements(&program->weight[index]) * sizeof(float);
}

/* ---- endpoints ---- */

static int32_t load_weight(endpoint *e, uint32_t i, accel_plugin_error *error) {
  const accel_plugin_weight *w = &e->program->weight[i];
  const bool kept = kit_graph_format(e->program, i, &e->format[i]);
  int32_t rc = kept ? e->host->weight_map(e->host->self, i, &e->view[i], error)
                    : kit_weight_borrow(e->host, i, &e->view[i], error);
  if (rc) return rc;
  e->mapped[i] = 1;
  if (kept) return ACCEL_PLUGIN_OK;
  int64_t n, k;
  kit_weight_matrix(w, &n, &k);
  e->wide[i] = malloc((size_t)(n * k) * sizeof(float) + 1);
  if (!e->wide[i]) return kit_no_memory(error, (uint64_t)(n * k) * sizeof(float));
  rc = kit_weight_rows(w, &e->format[i], &e->view[i], 0, n, e->wide[i], error);
  e->host->weight_unmap(e->host->self, i);
  e->mapped[i] = 0;
  return rc;
}

static int32_t load_weights(endpoint *e, accel_plugin_error *error) {
  const uint32_t n = e->program->n_weight;
  if (n && (!e->host || !e->host->weight_map))
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "init: the host gives no weights");
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; !rc && i < n; i++) rc = load_weight(e, i, error);
  return rc;
}

int32_t kit_compiled_open(kit_open *open, const kit_compiled_options *options, void **self,
                          accel_plugin_error *error) {
  const accel_plugin_program *p = open->program;
  const accel_plugin_options *o = open->options;
  if (o->world > 1) {
    options->compiler->close(options->self);
    return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1,
                    "a compiled graph does not sum over ranks: use another device, or one rank");
  }
  endpoint *e = calloc(1, sizeof *e);
  if (!e) {
    options->compiler->close(options->self);
    return kit_no_memory(error, sizeof *e);
  }
  pthread_mutex_init(&e->lock, NULL);
  e->o = *options;
  e->program = p;
  e->host = o->host;
  *self = e; /* from here kit_compiled_close frees it */
  e->format = calloc(p->n_weight + 1, sizeof *e->format);
  e->view = calloc(p->n_weight + 1, sizeof *e->view);
  e->mapped = calloc(p->n_weight + 1, 1);
  e->wide = calloc(p->n_weight + 1, sizeof *e->wide);
  e->folded = calloc(p->n_symbol + 1, 1);
  if (!e->format || !e->view || !e->mapped || !e->wide || !e->folded)
    return kit_no_memory(error, p->n_weight * sizeof *e->view);
  if (p->n_weight) memcpy(e->format, o->precision.format, p->n_weight * sizeof *e->format);
  kit_graph_folds(p, e->folded);
  if (e->o.fixed) memset(e->folded, 1, p->n_symbol);
  return load_weights(e, error);
}

static void compiled_free(endpoint *e, compiled *c) {
  if (!c) return;
  if (c->model) e->o.compiler->model_free(e->o.self, c->model);
  kit_graph_free(c->graph);
  free(c->wanted);
  free(c->symbol);
  free(c->shape);
  free(c);
}

static void release(endpoint *e, compiled *c) {
  if (c && --c->users == 0) compiled_free(e, c);
}

void kit_compiled_close(void *self) {
  endpoint *e = self;
  for (uint32_t i = 0; i < KEPT; i++) release(e, e->kept[i]);
  e->o.compiler->close(e->o.self);
  for (uint32_t i = 0; e->mapped && i < e->program->n_weight; i++)
    if (e->mapped[i]) e->host->weight_unmap(e->host->self, i);
  for (uint32_t i = 0; e->wide && i < e->program->n_weight; i++) free(e->wide[i]);
  pthread_mutex_destroy(&e->lock);
  free(e->format);
  free(e->view);
  free(e->mapped);
  free(e->wide);
  free(e->folded);
  free(e);
}

/* ---- making ---- */

/* The shapes of all feeds of a run, [n_feed][MAX_RANK]; NULL: no memory, or the error. */
static int64_t *shapes_of(const kit_graph *g, const kit_graph_run *run, accel_plugin_error *error) {
  int64_t *shape = calloc((size_t)g->n_feed + 1, ACCEL_PLUGIN_MAX_RANK * sizeof *shape);
  int32_t rc = shape ? ACCEL_PLUGIN_OK : kit_no_memory(error, g->n_feed);
  for (uint32_t i = 0; !rc && i < g->n_feed; i++) {
    const void *data;
    void *owned = NULL;
    rc =
        kit_feed_fill(g, &g->feed[i], run, shape + i * ACCEL_PLUGIN_MAX_RANK, &data, &owned, error);
    free(owned);
    for (uint32_t k = g->node[g->feed[i].node].rank; k < ACCEL_PLUGIN_MAX_RANK; k++)
      shape[i * ACCEL_PLUGIN_MAX_RANK + k] = 0;
  }
  if (!rc) return shape;
  free(shape);
  return NULL;
}

static int32_t make_graph(endpoint *e, const kit_graph_run *run, compiled *c,
                          accel_plugin_error *error) {
  const kit_graph_request request = {.program = e->program,
                                     .entry = run->entry,
                                     .wanted = run->wanted,
                                     .folded = e->folded,
                                     .symbol = run->symbol,
                                     .format = e->format,
                                     .view = e->view,
                                     .wide = (const float *const *)e->wide,
                                     .hidden = e->o.hidden,
                                     .run = e->o.fixed ? run : NULL};
  const int32_t rc = kit_graph_lower(&request, &c->graph, error);
  if (rc) return rc;
  if (e->o.fixed) {
    c->shape = shapes_of(c->graph, run, error);
    if (!c->shape) return ACCEL_PLUGIN_E_HOST_MEMORY;
  }
  return e->o.compiler->compile(e->o.self, c->graph, e->program->entry[run->entry].name,
                                (const int64_t(*)[ACCEL_PLUGIN_MAX_RANK])c->shape, &c->model,
                                error);
}

static int32_t make(endpoint *e, const kit_graph_run *run, compiled **out,
                    accel_plugin_error *error) {
  const uint32_t n_out = e->program->entry[run->entry].n_out;
  compiled *c = calloc(1, sizeof *c);
  *out = NULL;
  if (!c) return kit_no_memory(error, sizeof *c);
  c->entry = run->entry;
  c->wanted = calloc(n_out + 1, 1);
  c->symbol = calloc(e->program->n_symbol + 1, sizeof *c->symbol);
  int32_t rc = c->wanted && c->symbol ? ACCEL_PLUGIN_OK : kit_no_memory(error, n_out);
  if (!rc) {
    memcpy(c->wanted, run->wanted, n_out);
    for (uint32_t i = 0; i < e->program->n_symbol; i++)
      c->symbol[i] = e->folded[i] ? run->symbol[i] : 0;
    rc = make_graph(e, run, c, error);
  }
  if (rc)
    compiled_free(e, c);
  else
    *out = c;
  return rc;
}

/* ---- keeping ---- */

static bool fits(const endpoint *e, const compiled *c, const kit_graph_run *run) {
  if (c->entry != run->entry || memcmp(c->wanted, run->wanted, e->program->entry[run->entry].n_out))
    return false;
  for (uint32_t i = 0; i < e->program->n_symbol; i++)
    if (e->folded[i] && c->symbol[i] != run->symbol[i]) return false;
  if (!c->shape) return true;
  int64_t *shape = shapes_of(c->graph, run, NULL);
  const bool same =
      shape && !memcmp(shape, c->shape, c->graph->n_feed * ACCEL_PLUGIN_MAX_RANK * sizeof *shape);
  free(shape);
  return same;
}

/* One compilation at a time: others that want the same graph find it then. */
static int32_t get(endpoint *e, const kit_graph_run *run, compiled **out,
                   accel_plugin_error *error) {
  uint32_t oldest = 0;
  int32_t rc = ACCEL_PLUGIN_OK;
  *out = NULL;
  pthread_mutex_lock(&e->lock);
  for (uint32_t i = 0; i < KEPT && !*out; i++) {
    if (e->kept[i] && fits(e, e->kept[i], run)) *out = e->kept[i];
    const compiled *old = e->kept[oldest], *c = e->kept[i];
    if (old && (!c || c->used < old->used)) oldest = i;
  }
  if (!*out) rc = make(e, run, out, error);
  if (!rc && !(*out)->users) {
    release(e, e->kept[oldest]);
    e->kept[oldest] = *out;
    (*out)->users = 1; /* of the cache */
  }
  if (!rc) {
    (*out)->users++;
    (*out)->used = ++e->tick;
  }
  pthread_mutex_unlock(&e->lock);
  return rc;
}

/* ---- a run ---- */

typedef struct job {
  endpoint *e;
  const kit_graph_run *run;
  kit_rounded rounded; /* where every size is folded: the run that the graph is of */
  const kit_graph_run *sized;
  compiled *c;
  kit_graph_value *feed, *result; /* [n_feed], [n_result] */
  void **owned;                   /* [n_feed] memory of feeds, until the inference is over */
  const void **data;              /* [n_result] */
} job;

static uint64_t element_bytes(uint8_t dtype) {
  return dtype == ACCEL_PLUGIN_I64 ? 8 : dtype == ACCEL_PLUGIN_BOOL ? 1 : 4;
}

static int32_t fill(job *j, accel_plugin_error *error) {
  const kit_graph *g = j->c->graph;
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; !rc && i < g->n_feed; i++) {
    const kit_graph_node *node = &g->node[g->feed[i].node];
    kit_graph_value *v = &j->feed[i];
    v->dtype = node->dtype;
    v->rank = node->rank;
    rc = kit_feed_fill(g, &g->feed[i], j->sized, v->dim, &v->data, &j->owned[i], error);
    v->bytes = element_bytes(v->dtype);
    for (uint32_t k = 0; k < v->rank; k++) v->bytes *= (uint64_t)v->dim[k];
  }
  return rc;
}

static int32_t take_result(const job *j, uint32_t i, accel_plugin_error *error) {
  const kit_graph_result *r = &j->c->graph->result[i];
  if (r->kind != KIT_RESULT_OUTPUT) return ACCEL_PLUGIN_OK;
  const int32_t id = j->run->program->entry[j->run->entry].out[r->index];
  const kit_tensor *t = &j->run->tensor[id];
  const accel_plugin_view *v = &j->run->out[r->index];
  int64_t dim[ACCEL_PLUGIN_MAX_RANK], elements = 1;
  memcpy(dim, t->dim, sizeof dim);
  if (j->sized != j->run) kit_rounded_shape(&j->rounded, (uint32_t)r->index, dim);
  for (uint32_t k = 0; k < t->rank; k++) elements *= dim[k];
  if (j->result[i].bytes != (uint64_t)elements * 4)
    return kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1,
                    "output '%s' has %llu bytes, %llu were expected",
                    kit_tensor_name(j->run->program, id), (unsigned long long)j->result[i].bytes,
                    (unsigned long long)elements * 4);
  if (t->elements)
    kit_copy_common(j->result[i].data, dim, v->host ? v->host : (char *)v->device + v->offset,
                    t->dim, t->rank, 4);
  return ACCEL_PLUGIN_OK;
}

static int32_t infer(job *j, accel_plugin_error *error) {
  const kit_graph *g = j->c->graph;
  const kit_compiled_options *o = &j->e->o;
  void *own = NULL;
  int32_t rc = fill(j, error);
  if (rc) return rc;
  rc = o->compiler->infer(o->self, j->c->model, g, j->feed, j->result, &own, error);
  for (uint32_t i = 0; !rc && i < g->n_result; i++) {
    j->data[i] = j->result[i].data;
    rc = take_result(j, i, error);
  }
  if (!rc) rc = kit_graph_keep(g, j->run, j->data, error);
  o->compiler->done(o->self, j->c->model, own, !rc);
  return rc;
}

/* Nothing is asked for: no outputs with elements, and no state. */
static bool is_empty(const kit_graph_run *run) {
  const accel_plugin_entry *e = &run->program->entry[run->entry];
  for (uint32_t i = 0; i < e->n_out; i++)
    if (run->wanted[i] && run->tensor[e->out[i]].elements) return false;
  return !run->state;
}

/* Inputs that are buffers of this plugin are host memory, too. */
static accel_plugin_view *host_views(const kit_graph_run *run) {
  const uint32_t n = run->program->entry[run->entry].n_in;
  accel_plugin_view *v = malloc((n + 1) * sizeof *v);
  for (uint32_t i = 0; v && i < n; i++) {
    v[i] = run->in[i];
    if (!v[i].host && v[i].device) v[i].host = (char *)v[i].device + v[i].offset;
  }
  return v;
}

static int32_t run_compiled(job *j, accel_plugin_error *error) {
  const kit_graph *g = j->c->graph;
  j->feed = calloc(g->n_feed + 1, sizeof *j->feed);
  j->owned = calloc(g->n_feed + 1, sizeof *j->owned);
  j->result = calloc(g->n_result + 1, sizeof *j->result);
  j->data = calloc(g->n_result + 1, sizeof *j->data);
  int32_t rc = j->feed && j->owned && j->result && j->data
                   ? kit_graph_check_inputs(g, j->run, error)
                   : kit_no_memory(error, g->n_feed);
  if (!rc) rc = infer(j, error);
  for (uint32_t i = 0; j->owned && i < g->n_feed; i++) free(j->owned[i]);
  free(j->feed);
  free(j->owned);
  free(j->result);
  free(j->data);
  return rc;
}

int32_t kit_compiled_run(void *self, const kit_graph_run *run, accel_plugin_error *error) {
  if (is_empty(run)) return ACCEL_PLUGIN_OK;
  accel_plugin_view *in = host_views(run);
  if (!in) return kit_no_memory(error, sizeof *in);
  kit_graph_run hosted = *run;
  hosted.in = in;
  job j = {.e = self, .run = &hosted, .sized = &hosted};
  int32_t rc = ACCEL_PLUGIN_OK;
  if (j.e->o.fixed) {
    rc = kit_round(&hosted, &j.rounded, error);
    j.sized = &j.rounded.run;
  }
  if (!rc) rc = get(j.e, j.sized, &j.c, error);
  if (!rc) {
    rc = run_compiled(&j, error);
    pthread_mutex_lock(&j.e->lock);
    release(j.e, j.c);
    pthread_mutex_unlock(&j.e->lock);
  }
  kit_rounded_free(&j.rounded);
  free(in);
  return rc;
}

/* ---- devices ---- */

int32_t kit_compiled_devices(const accel_plugin_device *first, size_t stride, uint32_t n_device,
                             const char *why, accel_plugin_device *out, uint32_t capacity,
                             uint32_t *n, accel_plugin_error *error) {
  *n = *why ? 0 : n_device;
  if (*why) return kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1, "%s", why);
  for (uint32_t i = 0; i < n_device && i < capacity; i++) {
    if (out[i].size < sizeof *out)
      return kit_fail(error, ACCEL_PLUGIN_E_ABI, -1, "devices are shorter than this plugin's");
    const uint32_t size = out[i].size;
    memcpy(&out[i], (const char *)first + i * stride, sizeof *out);
    out[i].size = size;
  }
  return ACCEL_PLUGIN_OK;
}
