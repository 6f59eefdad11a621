/* ovn_compile.c - graphs compiled for what runs ask for: an entry, its wanted outputs, the symbols
 * that are folded.  The last few are kept. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "openvino/ovn.h"

static void compiled_free(const ovn_library *ov, ovn_compiled *c) {
  if (!c) return;
  for (uint32_t i = 0; i < c->n_idle; i++) ov->ov_infer_request_free(c->idle[i]);
  if (c->model) ov->ov_compiled_model_free(c->model);
  kit_graph_free(c->graph);
  free(c->wanted);
  free(c->symbol);
  free(c->shape);
  free(c);
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

static int32_t compile(ovn_endpoint *e, ovn_compiled *c, const char *text, size_t n,
                       const char *base, uint64_t bytes, accel_plugin_error *error) {
  const ovn_library *ov = e->ov;
  int64_t size = (int64_t)bytes;
  ov_tensor_t *weights = NULL;
  ov_model_t *model = NULL;
  int status = ov->ov_tensor_create_from_host_ptr(
      ov->type[ACCEL_PLUGIN_U8], (ov_shape_t){.rank = 1, .dims = &size}, (void *)base, &weights);
  const char *call = "ov_tensor_create_from_host_ptr";
  if (!status) {
    call = "reading the graph";
    status = ov->ov_core_read_model_from_memory_buffer(ov->core, text, n, weights, &model);
  }
  if (!status) {
    const bool cpu = !strncmp(e->device->name, "CPU", 3);
    call = "compiling the graph";
    /* halves and dynamically quantised activations are never taken unasked */
    status = ov->ov_core_compile_model(
        ov->core, model, e->device->name, cpu ? 10 : 6, &c->model, "INFERENCE_PRECISION_HINT",
        e->hint, "EXECUTION_MODE_HINT", "ACCURACY", "PERFORMANCE_HINT", "LATENCY",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE", "0", "INFERENCE_NUM_THREADS", e->threads);
  }
  const int32_t rc = status ? ovn_fail(ov, status, call, error) : ACCEL_PLUGIN_OK;
  if (model) ov->ov_model_free(model);
  if (weights) ov->ov_tensor_free(weights);
  return rc;
}

static int32_t make_graph(ovn_endpoint *e, const kit_graph_run *run, ovn_compiled *c,
                          accel_plugin_error *error) {
  const kit_graph_request request = {.program = e->program,
                                     .entry = run->entry,
                                     .wanted = run->wanted,
                                     .folded = e->folded,
                                     .symbol = run->symbol,
                                     .format = e->format,
                                     .view = e->view,
                                     .wide = (const float *const *)e->wide,
                                     .hidden = strcmp(e->hint, "f16") ? -1e30 : -3e4};
  char *text = NULL;
  const char *base;
  size_t n;
  uint64_t bytes;
  int32_t rc = kit_graph_lower(&request, &c->graph, error);
  if (rc) return rc;
  if (e->device->fixed) {
    c->shape = shapes_of(c->graph, run, error);
    if (!c->shape) return ACCEL_PLUGIN_E_HOST_MEMORY;
  }
  ovn_extent(c->graph, &base, &bytes);
  rc = ovn_write(c->graph, e->program->entry[run->entry].name, base,
                 (const int64_t(*)[ACCEL_PLUGIN_MAX_RANK])c->shape, &text, &n, error);
  if (!rc) rc = compile(e, c, text, n, base, bytes, error);
  free(text);
  return rc;
}

static int32_t make(ovn_endpoint *e, const kit_graph_run *run, ovn_compiled **out,
                    accel_plugin_error *error) {
  const uint32_t n_out = e->program->entry[run->entry].n_out;
  ovn_compiled *c = calloc(1, sizeof *c);
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
    compiled_free(e->ov, c);
  else
    *out = c;
  return rc;
}

/* ---- keeping ---- */

static bool fits(const ovn_endpoint *e, const ovn_compiled *c, const kit_graph_run *run) {
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

static void release(ovn_endpoint *e, ovn_compiled *c) {
  if (c && --c->users == 0) compiled_free(e->ov, c);
}

/* One compilation at a time: others that want the same graph find it then. */
int32_t ovn_compiled_get(ovn_endpoint *e, const kit_graph_run *run, ovn_compiled **out,
                         accel_plugin_error *error) {
  uint32_t oldest = 0;
  int32_t rc = ACCEL_PLUGIN_OK;
  *out = NULL;
  pthread_mutex_lock(&e->lock);
  for (uint32_t i = 0; i < OVN_COMPILED && !*out; i++) {
    if (e->compiled[i] && fits(e, e->compiled[i], run)) *out = e->compiled[i];
    const ovn_compiled *old = e->compiled[oldest], *c = e->compiled[i];
    if (old && (!c || c->used < old->used)) oldest = i;
  }
  if (!*out) rc = make(e, run, out, error);
  if (!rc && !(*out)->users) {
    release(e, e->compiled[oldest]);
    e->compiled[oldest] = *out;
    (*out)->users = 1; /* of the cache */
  }
  if (!rc) {
    (*out)->users++;
    (*out)->used = ++e->tick;
  }
  pthread_mutex_unlock(&e->lock);
  return rc;
}

void ovn_compiled_give(ovn_endpoint *e, ovn_compiled *c) {
  pthread_mutex_lock(&e->lock);
  release(e, c);
  pthread_mutex_unlock(&e->lock);
}

void ovn_compiled_drop(ovn_endpoint *e) {
  for (uint32_t i = 0; i < OVN_COMPILED; i++) {
    release(e, e->compiled[i]);
    e->compiled[i] = NULL;
  }
}

int32_t ovn_request_take(ovn_endpoint *e, ovn_compiled *c, ov_infer_request_t **out,
                         accel_plugin_error *error) {
  *out = NULL;
  pthread_mutex_lock(&e->lock);
  if (c->n_idle) *out = c->idle[--c->n_idle];
  pthread_mutex_unlock(&e->lock);
  if (*out) return ACCEL_PLUGIN_OK;
  const int status = e->ov->ov_compiled_model_create_infer_request(c->model, out);
  return status ? ovn_fail(e->ov, status, "making an infer request", error) : ACCEL_PLUGIN_OK;
}

void ovn_request_give(ovn_endpoint *e, ovn_compiled *c, ov_infer_request_t *request, bool good) {
  if (!request) return;
  pthread_mutex_lock(&e->lock);
  const bool keep = good && c->n_idle < OVN_REQUESTS;
  if (keep) c->idle[c->n_idle++] = request;
  pthread_mutex_unlock(&e->lock);
  if (!keep) e->ov->ov_infer_request_free(request);
}
