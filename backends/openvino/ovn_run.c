/* ovn_run.c - one run: inputs as tensors over the host's memory, inference, results to their
 * places. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "openvino/ovn.h"

typedef struct job {
  ovn_endpoint *e;
  const kit_graph_run *run;
  ovn_compiled *c;
  ov_infer_request_t *request;
  void **owned;         /* [n_feed] memory of feeds, until the inference is over */
  ov_tensor_t **result; /* [n_result] */
  const void **data;    /* [n_result] their elements */
} job;

static int32_t set_feed(job *j, uint32_t i, accel_plugin_error *error) {
  const ovn_library *ov = j->e->ov;
  const kit_graph_feed *feed = &j->c->graph->feed[i];
  const kit_graph_node *node = &j->c->graph->node[feed->node];
  int64_t dim[ACCEL_PLUGIN_MAX_RANK] = {0};
  const void *data = NULL;
  ov_tensor_t *tensor = NULL;
  char name[16];
  int32_t rc = kit_feed_fill(j->c->graph, feed, j->run, dim, &data, &j->owned[i], error);
  if (rc) return rc;
  snprintf(name, sizeof name, "i%u", i);
  int status = ov->ov_tensor_create_from_host_ptr(
      ov->type[node->dtype], (ov_shape_t){.rank = node->rank, .dims = dim}, (void *)data, &tensor);
  if (!status) status = ov->ov_infer_request_set_tensor(j->request, name, tensor);
  if (tensor) ov->ov_tensor_free(tensor);
  return status ? ovn_fail(ov, status, "setting an input", error) : ACCEL_PLUGIN_OK;
}

static int32_t take_result(job *j, uint32_t i, accel_plugin_error *error) {
  const ovn_library *ov = j->e->ov;
  const kit_graph_result *r = &j->c->graph->result[i];
  size_t bytes = 0;
  void *data = NULL;
  char name[16];
  snprintf(name, sizeof name, "r%u", i);
  int status = ov->ov_infer_request_get_tensor(j->request, name, &j->result[i]);
  if (!status) status = ov->ov_tensor_get_byte_size(j->result[i], &bytes);
  if (!status && bytes) status = ov->ov_tensor_data(j->result[i], &data);
  if (status) return ovn_fail(ov, status, "taking a result", error);
  j->data[i] = data;
  if (r->kind != KIT_RESULT_OUTPUT) return ACCEL_PLUGIN_OK;
  const int32_t id = j->run->program->entry[j->run->entry].out[r->index];
  const kit_tensor *t = &j->run->tensor[id];
  const accel_plugin_view *v = &j->run->out[r->index];
  if (bytes != (uint64_t)t->elements * 4)
    return kit_fail(
        error, ACCEL_PLUGIN_E_DRIVER, -1, "output '%s' has %zu bytes, %llu were expected",
        kit_tensor_name(j->run->program, id), bytes, (unsigned long long)t->elements * 4);
  if (bytes) memcpy(v->host ? v->host : (char *)v->device + v->offset, data, bytes);
  return ACCEL_PLUGIN_OK;
}

static int32_t infer(job *j, accel_plugin_error *error) {
  const kit_graph *g = j->c->graph;
  int32_t rc = ovn_request_take(j->e, j->c, &j->request, error);
  for (uint32_t i = 0; !rc && i < g->n_feed; i++) rc = set_feed(j, i, error);
  if (rc) return rc;
  const int status = j->e->ov->ov_infer_request_infer(j->request);
  if (status) return ovn_fail(j->e->ov, status, "inference", error);
  for (uint32_t i = 0; !rc && i < g->n_result; i++) rc = take_result(j, i, error);
  return rc ? rc : kit_graph_keep(g, j->run, j->data, error);
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

int32_t ovn_run(void *self, const kit_graph_run *run, accel_plugin_error *error) {
  accel_plugin_view *in = host_views(run);
  kit_graph_run hosted = *run;
  job j = {.e = self, .run = &hosted};
  hosted.in = in;
  if (!in) return kit_no_memory(error, sizeof *in);
  if (is_empty(run)) {
    free(in);
    return ACCEL_PLUGIN_OK;
  }
  int32_t rc = ovn_compiled_get(j.e, &hosted, &j.c, error);
  if (!rc) {
    const kit_graph *g = j.c->graph;
    j.owned = calloc(g->n_feed + 1, sizeof *j.owned);
    j.result = calloc(g->n_result + 1, sizeof *j.result);
    j.data = calloc(g->n_result + 1, sizeof *j.data);
    rc = j.owned && j.result && j.data ? kit_graph_check_inputs(g, &hosted, error)
                                       : kit_no_memory(error, g->n_feed);
    if (!rc) rc = infer(&j, error);
    for (uint32_t i = 0; j.result && i < g->n_result; i++)
      if (j.result[i]) j.e->ov->ov_tensor_free(j.result[i]);
    ovn_request_give(j.e, j.c, j.request, !rc);
    for (uint32_t i = 0; j.owned && i < g->n_feed; i++) free(j.owned[i]);
    ovn_compiled_give(j.e, j.c);
  }
  free(j.owned);
  free(j.result);
  free(j.data);
  free(in);
  return rc;
}
