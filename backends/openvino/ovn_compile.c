/* ovn_compile.c - a graph compiled by OpenVINO, and one inference: inputs as tensors over the
 * host's memory, results where the request has them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "openvino/ovn.h"

enum { REQUESTS = 8 };

typedef struct model {
  ov_compiled_model_t *compiled;
  pthread_mutex_t lock; /* of what follows */
  ov_infer_request_t *idle[REQUESTS];
  uint32_t n_idle;
} model;

typedef struct job {
  ov_infer_request_t *request;
  uint32_t n;
  ov_tensor_t *result[]; /* [n] */
} job;

static void model_free(void *self, void *made) {
  const ovn_library *ov = ((ovn_endpoint *)self)->ov;
  model *m = made;
  for (uint32_t i = 0; i < m->n_idle; i++) ov->ov_infer_request_free(m->idle[i]);
  if (m->compiled) ov->ov_compiled_model_free(m->compiled);
  pthread_mutex_destroy(&m->lock);
  free(m);
}

static int32_t compile_text(const ovn_endpoint *e, model *m, const char *text, size_t n,
                            const char *base, uint64_t bytes, accel_plugin_error *error) {
  const ovn_library *ov = e->ov;
  int64_t size = (int64_t)bytes;
  ov_tensor_t *weights = NULL;
  ov_model_t *read = NULL;
  int status = ov->ov_tensor_create_from_host_ptr(
      ov->type[ACCEL_PLUGIN_U8], (ov_shape_t){.rank = 1, .dims = &size}, (void *)base, &weights);
  const char *call = "ov_tensor_create_from_host_ptr";
  if (!status) {
    call = "reading the graph";
    status = ov->ov_core_read_model_from_memory_buffer(ov->core, text, n, weights, &read);
  }
  if (!status) {
    const bool cpu = !strncmp(e->device->name, "CPU", 3);
    call = "compiling the graph";
    /* halves and dynamically quantised activations are never taken unasked */
    status = ov->ov_core_compile_model(
        ov->core, read, e->device->name, cpu ? 10 : 6, &m->compiled, "INFERENCE_PRECISION_HINT",
        e->hint, "EXECUTION_MODE_HINT", "ACCURACY", "PERFORMANCE_HINT", "LATENCY",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE", "0", "INFERENCE_NUM_THREADS", e->threads);
  }
  const int32_t rc = status ? ovn_fail(ov, status, call, error) : ACCEL_PLUGIN_OK;
  if (read) ov->ov_model_free(read);
  if (weights) ov->ov_tensor_free(weights);
  return rc;
}

static int32_t compile(void *self, const kit_graph *graph, const char *name,
                       const int64_t (*dim)[ACCEL_PLUGIN_MAX_RANK], void **out,
                       accel_plugin_error *error) {
  char *text = NULL;
  const char *base;
  size_t n;
  uint64_t bytes;
  model *m = calloc(1, sizeof *m);
  if (!m) return kit_no_memory(error, sizeof *m);
  pthread_mutex_init(&m->lock, NULL);
  ovn_extent(graph, &base, &bytes);
  int32_t rc = ovn_write(graph, name, base, dim, &text, &n, error);
  if (!rc) rc = compile_text(self, m, text, n, base, bytes, error);
  free(text);
  if (rc)
    model_free(self, m);
  else
    *out = m;
  return rc;
}

/* ---- one inference ---- */

static int32_t request_take(const ovn_library *ov, model *m, ov_infer_request_t **out,
                            accel_plugin_error *error) {
  *out = NULL;
  pthread_mutex_lock(&m->lock);
  if (m->n_idle) *out = m->idle[--m->n_idle];
  pthread_mutex_unlock(&m->lock);
  if (*out) return ACCEL_PLUGIN_OK;
  const int status = ov->ov_compiled_model_create_infer_request(m->compiled, out);
  return status ? ovn_fail(ov, status, "making an infer request", error) : ACCEL_PLUGIN_OK;
}

static void request_give(const ovn_library *ov, model *m, ov_infer_request_t *request, bool good) {
  if (!request) return;
  pthread_mutex_lock(&m->lock);
  const bool keep = good && m->n_idle < REQUESTS;
  if (keep) m->idle[m->n_idle++] = request;
  pthread_mutex_unlock(&m->lock);
  if (!keep) ov->ov_infer_request_free(request);
}

static int32_t set_feed(const ovn_library *ov, const job *j, uint32_t i, const kit_graph_value *v,
                        accel_plugin_error *error) {
  ov_tensor_t *tensor = NULL;
  char name[16];
  snprintf(name, sizeof name, "i%u", i);
  int status = ov->ov_tensor_create_from_host_ptr(
      ov->type[v->dtype], (ov_shape_t){.rank = v->rank, .dims = (int64_t *)v->dim}, (void *)v->data,
      &tensor);
  if (!status) status = ov->ov_infer_request_set_tensor(j->request, name, tensor);
  if (tensor) ov->ov_tensor_free(tensor);
  return status ? ovn_fail(ov, status, "setting an input", error) : ACCEL_PLUGIN_OK;
}

static int32_t take_result(const ovn_library *ov, job *j, uint32_t i, kit_graph_value *v,
                           accel_plugin_error *error) {
  size_t bytes = 0;
  void *data = NULL;
  char name[16];
  snprintf(name, sizeof name, "r%u", i);
  int status = ov->ov_infer_request_get_tensor(j->request, name, &j->result[i]);
  if (!status) status = ov->ov_tensor_get_byte_size(j->result[i], &bytes);
  if (!status && bytes) status = ov->ov_tensor_data(j->result[i], &data);
  v->data = data;
  v->bytes = bytes;
  return status ? ovn_fail(ov, status, "taking a result", error) : ACCEL_PLUGIN_OK;
}

static int32_t infer(void *self, void *made, const kit_graph *g, const kit_graph_value *feed,
                     kit_graph_value *result, void **own, accel_plugin_error *error) {
  const ovn_library *ov = ((ovn_endpoint *)self)->ov;
  job *j = calloc(1, sizeof *j + g->n_result * sizeof *j->result);
  if (!j) return kit_no_memory(error, sizeof *j);
  *own = j;
  j->n = g->n_result;
  int32_t rc = request_take(ov, made, &j->request, error);
  for (uint32_t i = 0; !rc && i < g->n_feed; i++) rc = set_feed(ov, j, i, &feed[i], error);
  if (rc) return rc;
  const int status = ov->ov_infer_request_infer(j->request);
  if (status) return ovn_fail(ov, status, "inference", error);
  for (uint32_t i = 0; !rc && i < g->n_result; i++) rc = take_result(ov, j, i, &result[i], error);
  return rc;
}

static void done(void *self, void *made, void *own, bool good) {
  const ovn_library *ov = ((ovn_endpoint *)self)->ov;
  job *j = own;
  for (uint32_t i = 0; j && i < j->n; i++)
    if (j->result[i]) ov->ov_tensor_free(j->result[i]);
  if (j) request_give(ov, made, j->request, good);
  free(j);
}

const kit_compiler ovn_compiler = {
    .compile = compile, .model_free = model_free, .infer = infer, .done = done, .close = free};
