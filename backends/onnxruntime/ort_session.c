/* ort_session.c - a graph as a session of ONNX Runtime, and one run of it: inputs over the host's
 * memory, results where the library has them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/ort.h"
#include "onnxruntime/ort_context.h"

typedef struct model {
  OrtSession *session;
  char (*feed)[16], (*result)[16];       /* names */
  const char **feed_name, **result_name; /* [n_feed], [n_result] */
} model;

typedef struct job {
  uint32_t n;
  OrtValue *value[]; /* [n] of feeds, then of results */
} job;

static void model_free(void *self, void *made) {
  const ort_library *ort = ((ort_endpoint *)self)->ort;
  model *m = made;
  if (m->session) ort->ReleaseSession(m->session);
  free(m->feed);
  free(m->result);
  free(m->feed_name);
  free(m->result_name);
  free(m);
}

static int32_t name_values(model *m, const kit_graph *g, accel_plugin_error *error) {
  m->feed = calloc(g->n_feed + 1, sizeof *m->feed);
  m->result = calloc(g->n_result + 1, sizeof *m->result);
  m->feed_name = calloc(g->n_feed + 1, sizeof *m->feed_name);
  m->result_name = calloc(g->n_result + 1, sizeof *m->result_name);
  if (!m->feed || !m->result || !m->feed_name || !m->result_name)
    return kit_no_memory(error, g->n_feed);
  for (uint32_t i = 0; i < g->n_feed; i++) {
    snprintf(m->feed[i], sizeof m->feed[i], "n%d", g->feed[i].node);
    m->feed_name[i] = m->feed[i];
  }
  for (uint32_t i = 0; i < g->n_result; i++) {
    snprintf(m->result[i], sizeof m->result[i], "r%u", i);
    m->result_name[i] = m->result[i];
  }
  return ACCEL_PLUGIN_OK;
}

/* ---- options ---- */

/* Constants that are not in the model: tensors over the memory where they are. */
static OrtStatus *give_constants(const ort_endpoint *e, const kit_graph *g,
                                 OrtSessionOptions *options, OrtValue **value, char (*name)[16],
                                 const char **names) {
  const ort_library *ort = e->ort;
  OrtStatus *status = NULL;
  size_t n = 0;
  for (uint32_t i = 0; !status && i < g->n_node; i++) {
    const kit_graph_node *c = &g->node[i];
    if (c->op != KIT_GRAPH_CONSTANT || c->bytes < ORT_EXTERNAL) continue;
    snprintf(name[n], sizeof name[n], "n%u", i);
    names[n] = name[n];
    status = ort->CreateTensorWithDataAsOrtValue(ort->memory, (void *)c->data, c->bytes, c->dim,
                                                 c->rank, ort_type(c->dtype), &value[n]);
    n += !status;
  }
  if (!status && n)
    status = ort->AddExternalInitializers(options, names, (const OrtValue *const *)value, n);
  return status;
}

/* Qualcomm's provider computes the whole graph or refuses it: nothing falls back to the
 * processor. */
static OrtStatus *choose_provider(const ort_endpoint *e, OrtSessionOptions *options) {
  const ort_library *ort = e->ort;
  static const char *const keys[] = {"backend_path", "soc_model", "htp_arch"};
  /* a simulator has to be told what it simulates: Snapdragon 8 Gen 3 */
  const char *const values[] = {ort->qnn, "57", "75"};
  const size_t n = !e->device->qnn ? 0 : e->device->simulated ? 3 : 1;
  if (!e->device->ep) return NULL;
  OrtStatus *status = ort->AddSessionConfigEntry(options, "session.disable_cpu_ep_fallback", "1");
  if (!status)
    status = ort->SessionOptionsAppendExecutionProvider_V2(options, ort->env, &e->device->ep, 1,
                                                           keys, values, n);
  return status;
}

static OrtStatus *set_options(const ort_endpoint *e, OrtSessionOptions *options) {
  enum { ALL = 99 };
  const ort_library *ort = e->ort;
  OrtStatus *status = ort->SetSessionGraphOptimizationLevel(options, ALL);
  if (!status) status = ort->SetIntraOpNumThreads(options, (int)e->threads);
  if (!status) status = ort->AddSessionConfigEntry(options, "session.intra_op.allow_spinning", "0");
  if (!status) status = choose_provider(e, options);
  return status;
}

/* Constants of a model beside it, [n_node] arrays. */
typedef struct constants {
  OrtValue **value;
  const char **names;
  char (*name)[16];
} constants;

/* A session that was not made.  What the NPU's compiler leaves over is no failure of the driver. */
static int32_t not_made(const ort_endpoint *e, OrtStatus *status, accel_plugin_error *error) {
  const ort_library *ort = e->ort;
  if (!e->device->qnn || !strstr(ort->GetErrorMessage(status), "fallback to CPU EP"))
    return ort_fail(ort, status, "making a session", error);
  ort->ReleaseStatus(status);
  return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1,
                  "Qualcomm's provider does not compute all nodes of this graph, and none is left "
                  "to the processor: use onnxruntime:cpu or cpu");
}

/* g: whose constants the model wants; NULL: it has all, as a context of an NPU.  context: gets what
 * the provider compiled; NULL: nobody wants it. */
static int32_t session_of(const ort_endpoint *e, model *m, const kit_graph *g,
                          const ort_bytes *text, const ort_context *context,
                          accel_plugin_error *error) {
  const ort_library *ort = e->ort;
  const uint32_t n = g ? g->n_node : 0;
  OrtSessionOptions *options = NULL;
  constants c = {.value = calloc(n + 1, sizeof *c.value),
                 .names = calloc(n + 1, sizeof *c.names),
                 .name = calloc(n + 1, sizeof *c.name)};
  OrtStatus *status = NULL;
  int32_t rc = c.value && c.names && c.name ? ACCEL_PLUGIN_OK : kit_no_memory(error, n);
  if (!rc) {
    status = ort->CreateSessionOptions(&options);
    if (!status) status = set_options(e, options);
    if (!status && context) status = ort_context_ask(ort, options, context);
    if (!status && g) status = give_constants(e, g, options, c.value, c.name, c.names);
    if (!status)
      status = ort->CreateSessionFromArray(ort->env, text->data, text->n, options, &m->session);
  }
  if (status) rc = not_made(e, status, error);
  for (uint32_t i = 0; c.value && i < n; i++)
    if (c.value[i]) ort->ReleaseValue(c.value[i]);
  if (options) ort->ReleaseSessionOptions(options);
  free(c.value);
  free(c.names);
  free(c.name);
  return rc;
}

/* Of an NPU, whose compiler takes its time: from the cache, or into it. */
static int32_t session_by_cache(const ort_endpoint *e, model *m, const kit_graph *g,
                                const ort_bytes *text, accel_plugin_error *error) {
  char key[ORT_CONTEXT_KEY];
  ort_context context;
  ort_bytes kept;
  ort_context_key(e, g, text, key);
  if (ort_context_get(e, key, &kept)) {
    const int32_t rc = session_of(e, m, NULL, &kept, NULL, NULL);
    free(kept.data);
    if (!rc) return ACCEL_PLUGIN_OK; /* else compiled anew, as for another driver */
  }
  /* not every graph that the provider compiles can become a context */
  const bool compiled =
      ort_context_begin(e, &context) && !session_of(e, m, g, text, &context, NULL);
  ort_context_end(e, key, compiled, &context);
  return compiled ? ACCEL_PLUGIN_OK : session_of(e, m, g, text, NULL, error);
}

static int32_t compile(void *self, const kit_graph *graph, const char *name,
                       const int64_t (*dim)[ACCEL_PLUGIN_MAX_RANK], void **out,
                       accel_plugin_error *error) {
  ort_bytes text = {0};
  model *m = calloc(1, sizeof *m);
  if (!m) return kit_no_memory(error, sizeof *m);
  const ort_endpoint *e = self;
  int32_t rc = name_values(m, graph, error);
  if (!rc) rc = ort_write(graph, name, dim, e->device->qnn, &text, error);
  if (!rc) {
    rc = e->device->qnn ? session_by_cache(e, m, graph, &text, error)
                        : session_of(e, m, graph, &text, NULL, error);
    free(text.data);
  }
  if (rc)
    model_free(self, m);
  else
    *out = m;
  return rc;
}

/* ---- one run ---- */

static OrtStatus *take_result(const ort_library *ort, OrtValue *value, kit_graph_value *out) {
  OrtTensorTypeAndShapeInfo *info = NULL;
  size_t elements = 0;
  void *data = NULL;
  OrtStatus *status = ort->GetTensorTypeAndShape(value, &info);
  if (!status) status = ort->GetTensorShapeElementCount(info, &elements);
  if (!status) status = ort->GetTensorMutableData(value, &data);
  if (info) ort->ReleaseTensorTypeAndShapeInfo(info);
  out->data = data;
  out->bytes = elements * 4; /* fp32 or int32 */
  return status;
}

static int32_t infer(void *self, void *made, const kit_graph *g, const kit_graph_value *feed,
                     kit_graph_value *result, void **own, accel_plugin_error *error) {
  const ort_library *ort = ((ort_endpoint *)self)->ort;
  const model *m = made;
  OrtStatus *status = NULL;
  job *j = calloc(1, sizeof *j + (g->n_feed + g->n_result) * sizeof *j->value);
  if (!j) return kit_no_memory(error, sizeof *j);
  *own = j;
  j->n = g->n_feed + g->n_result;
  for (uint32_t i = 0; !status && i < g->n_feed; i++)
    status = ort->CreateTensorWithDataAsOrtValue(ort->memory, (void *)feed[i].data, feed[i].bytes,
                                                 feed[i].dim, feed[i].rank, ort_type(feed[i].dtype),
                                                 &j->value[i]);
  if (!status)
    status = ort->Run(m->session, NULL, m->feed_name, (const OrtValue *const *)j->value, g->n_feed,
                      m->result_name, g->n_result, j->value + g->n_feed);
  for (uint32_t i = 0; !status && i < g->n_result; i++)
    status = take_result(ort, j->value[g->n_feed + i], &result[i]);
  return status ? ort_fail(ort, status, "running the session", error) : ACCEL_PLUGIN_OK;
}

static void done(void *self, void *made, void *own, bool good) {
  const ort_library *ort = ((ort_endpoint *)self)->ort;
  job *j = own;
  (void)made, (void)good;
  for (uint32_t i = 0; j && i < j->n; i++)
    if (j->value[i]) ort->ReleaseValue(j->value[i]);
  free(j);
}

const kit_compiler ort_compiler = {
    .compile = compile, .model_free = model_free, .infer = infer, .done = done, .close = free};
