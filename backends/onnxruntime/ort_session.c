/* ort_session.c - a graph as a session of ONNX Runtime, and one run of it: inputs over the host's
 * memory, results where the library has them. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/ort.h"
#include "onnxruntime/ort_context.h"
#include "onnxruntime/ort_quantise.h"

#define ORT_AGREEMENT 0.99 /* least cosine of results at int8 beside fp32, as of `accel verify` */

typedef struct model {
  OrtSession *session;
  char (*feed)[16], (*result)[16];       /* names */
  const char **feed_name, **result_name; /* [n_feed], [n_result], then ORT_MAGNITUDES */
  /* of a model with codes on both sides, whose session is made in its first run; NULL */
  ort_quantised *quantised;
  pthread_mutex_t lock; /* of such a model's runs */
  bool plain;           /* it was found to be better without codes; then nothing here changes */
  char key[ORT_CONTEXT_KEY]; /* of its ranges in the cache */
  const char *entry;
  const int64_t (*dim)[ACCEL_PLUGIN_MAX_RANK];
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
  if (m->quantised) pthread_mutex_destroy(&m->lock);
  ort_quantised_free(m->quantised);
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
  m->result_name[g->n_result] = ORT_MAGNITUDES;
  return ACCEL_PLUGIN_OK;
}

/* ---- options ---- */

/* Constants of a model beside it. */
typedef struct constants {
  OrtValue **value;
  const char **names;
  char (*name)[16];
  size_t n;
  uint32_t *uses; /* [nodes of the graph] */
} constants;

/* One that is not in the model: a tensor over the memory where it is. */
static OrtStatus *give(const ort_library *ort, constants *c, int32_t id,
                       const kit_graph_node *what) {
  snprintf(c->name[c->n], sizeof c->name[c->n], "n%d", id);
  c->names[c->n] = c->name[c->n];
  OrtStatus *status =
      ort->CreateTensorWithDataAsOrtValue(ort->memory, (void *)what->data, what->bytes, what->dim,
                                          what->rank, ort_type(what->dtype), &c->value[c->n]);
  c->n += !status;
  return status;
}

/* q: the products that are written with their codes; NULL: none.  Of a constant that no node reads
 * ONNX Runtime drops the name before it looks for it. */
static OrtStatus *give_constants(const ort_library *ort, const kit_graph *g, const ort_quantised *q,
                                 OrtSessionOptions *options, constants *c) {
  OrtStatus *status = NULL;
  for (uint32_t i = 0; !status && i < g->n_node; i++)
    if (g->node[i].op == KIT_GRAPH_CONSTANT && g->node[i].bytes >= ORT_EXTERNAL && c->uses[i] &&
        !(q && q->gone[i]))
      status = give(ort, c, (int32_t)i, &g->node[i]);
  for (uint32_t i = 0; !status && q && i < q->n; i++) {
    const ort_product *p = &q->product[i];
    const kit_graph_node code = {.dtype = ACCEL_PLUGIN_I8,
                                 .rank = 2,
                                 .dim = {p->k, p->n},
                                 .data = p->code,
                                 .bytes = (uint64_t)(p->k * p->n)},
                         scale = {.dtype = ACCEL_PLUGIN_F32,
                                  .rank = 1,
                                  .dim = {p->n},
                                  .data = p->scale,
                                  .bytes = (uint64_t)p->n * sizeof *p->scale};
    status = give(ort, c, ort_code(g, i), &code);
    if (!status) status = give(ort, c, ort_code(g, i) + 1, &scale);
  }
  if (!status && c->n)
    status =
        ort->AddExternalInitializers(options, c->names, (const OrtValue *const *)c->value, c->n);
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

/* g: whose constants the model wants, and q those of products; NULL: it has all, as a context of an
 * NPU.  context: gets what the provider compiled; NULL: nobody wants it. */
static int32_t session_of(const ort_endpoint *e, const kit_graph *g, const ort_quantised *q,
                          const ort_bytes *text, const ort_context *context, OrtSession **out,
                          accel_plugin_error *error) {
  const ort_library *ort = e->ort;
  const uint32_t n = (g ? g->n_node : 0) + (q ? 2 * q->n : 0);
  OrtSessionOptions *options = NULL;
  constants c = {.value = calloc(n + 1, sizeof *c.value),
                 .names = calloc(n + 1, sizeof *c.names),
                 .name = calloc(n + 1, sizeof *c.name),
                 .uses = calloc(n + 1, sizeof *c.uses)};
  OrtStatus *status = NULL;
  int32_t rc = c.value && c.names && c.name && c.uses ? ACCEL_PLUGIN_OK : kit_no_memory(error, n);
  if (!rc) {
    if (g) kit_graph_uses(g, c.uses);
    status = ort->CreateSessionOptions(&options);
    if (!status) status = set_options(e, options);
    if (!status && context) status = ort_context_ask(ort, options, context);
    if (!status && g) status = give_constants(ort, g, q, options, &c);
    if (!status) status = ort->CreateSessionFromArray(ort->env, text->data, text->n, options, out);
  }
  if (status) rc = not_made(e, status, error);
  for (uint32_t i = 0; c.value && i < n; i++)
    if (c.value[i]) ort->ReleaseValue(c.value[i]);
  if (options) ort->ReleaseSessionOptions(options);
  free(c.value);
  free(c.names);
  free(c.name);
  free(c.uses);
  return rc;
}

/* A session that the NPU's provider compiles; key: of its context in the cache. */
static int32_t session_compiled(const ort_endpoint *e, model *m, const kit_graph *g,
                                const ort_bytes *text, const char *key, accel_plugin_error *error) {
  ort_quantised *q = m->plain ? NULL : m->quantised;
  ort_context context;
  int32_t rc = q ? ort_codes_make(g, q, error) : ACCEL_PLUGIN_OK;
  if (!rc) {
    /* not every graph that the provider compiles can become a context */
    const bool kept =
        ort_context_begin(e, &context) && !session_of(e, g, q, text, &context, &m->session, NULL);
    ort_context_end(e, key, kept, &context);
    if (!kept) rc = session_of(e, g, q, text, NULL, &m->session, error);
  }
  if (q) ort_codes_free(q);
  return rc;
}

/* Of an NPU, whose compiler takes its time: from the cache, or into it. */
static int32_t session_by_cache(const ort_endpoint *e, model *m, const kit_graph *g,
                                const ort_bytes *text, accel_plugin_error *error) {
  char key[ORT_CONTEXT_KEY];
  ort_bytes kept;
  ort_context_key(e, "context", g, text, key);
  if (ort_context_get(e, key, &kept)) {
    const int32_t rc = session_of(e, NULL, NULL, &kept, NULL, &m->session, NULL);
    free(kept.data);
    if (!rc) return ACCEL_PLUGIN_OK; /* else compiled anew, as for another driver */
  }
  return session_compiled(e, m, g, text, key, error);
}

static int32_t make_session(const ort_endpoint *e, model *m, const kit_graph *g,
                            accel_plugin_error *error) {
  const bool npu = e->device->qnn;
  const ort_writing how = {.dim = m->dim, .npu = npu, .quantised = m->plain ? NULL : m->quantised};
  ort_bytes text;
  int32_t rc = ort_write(g, m->entry, &how, &text, error);
  if (rc) return rc;
  rc = npu ? session_by_cache(e, m, g, &text, error)
           : session_of(e, g, NULL, &text, NULL, &m->session, error);
  free(text.data);
  return rc;
}

/* Sets m->quantised where the graph has products to be coded. */
static int32_t find_products(model *m, const kit_graph *g, accel_plugin_error *error) {
  ort_quantised *q = NULL;
  const int32_t rc = ort_quantise(g, &q, error);
  if (!rc && q->n) {
    m->quantised = q;
    pthread_mutex_init(&m->lock, NULL);
  } else if (!rc) {
    ort_quantised_free(q);
  }
  return rc;
}

static int32_t compile(void *self, const kit_graph *graph, const char *name,
                       const int64_t (*dim)[ACCEL_PLUGIN_MAX_RANK], void **out,
                       accel_plugin_error *error) {
  model *m = calloc(1, sizeof *m);
  if (!m) return kit_no_memory(error, sizeof *m);
  const ort_endpoint *e = self;
  m->entry = name;
  m->dim = dim;
  int32_t rc = name_values(m, graph, error);
  if (!rc && e->quantised) rc = find_products(m, graph, error);
  if (!rc && !m->quantised) rc = make_session(e, m, graph, error);
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

static void done(void *self, void *made, void *own, bool good) {
  const ort_library *ort = ((ort_endpoint *)self)->ort;
  job *j = own;
  (void)made, (void)good;
  for (uint32_t i = 0; j && i < j->n; i++)
    if (j->value[i]) ort->ReleaseValue(j->value[i]);
  free(j);
}

/* Runs a model's session to its results [first, first + n): result[i] is that of first + i.  *own
 * gets what `done` wants. */
static int32_t run(const ort_library *ort, const model *m, const kit_graph *g,
                   const kit_graph_value *feed, uint32_t first, uint32_t n, kit_graph_value *result,
                   void **own, accel_plugin_error *error) {
  OrtStatus *status = NULL;
  job *j = calloc(1, sizeof *j + (g->n_feed + n) * sizeof *j->value);
  *own = j;
  if (!j) return kit_no_memory(error, sizeof *j);
  j->n = g->n_feed + n;
  for (uint32_t i = 0; !status && i < g->n_feed; i++)
    status = ort->CreateTensorWithDataAsOrtValue(ort->memory, (void *)feed[i].data, feed[i].bytes,
                                                 feed[i].dim, feed[i].rank, ort_type(feed[i].dtype),
                                                 &j->value[i]);
  if (!status)
    status = ort->Run(m->session, NULL, m->feed_name, (const OrtValue *const *)j->value, g->n_feed,
                      m->result_name + first, n, j->value + g->n_feed);
  for (uint32_t i = 0; !status && i < n; i++)
    status = take_result(ort, j->value[g->n_feed + i], &result[i]);
  return status ? ort_fail(ort, status, "running the session", error) : ACCEL_PLUGIN_OK;
}

/* ---- runs with codes on both sides ---- */

/* The same to all results and ORT_MAGNITUDES behind them. */
static int32_t run_to_magnitudes(const ort_library *ort, const model *m, const kit_graph *g,
                                 const kit_graph_value *feed, kit_graph_value *result, void **own,
                                 accel_plugin_error *error) {
  const uint32_t n = g->n_result;
  const int32_t rc = run(ort, m, g, feed, 0, n + 1, result, own, error);
  if (rc || result[n].bytes == 2 * (uint64_t)m->quantised->n * sizeof(float)) return rc;
  return kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1, "magnitudes have %llu bytes",
                  (unsigned long long)result[n].bytes);
}

/* What the processor computes of a run in fp32. */
typedef struct measured {
  kit_graph_value *result; /* [n_result], then the magnitudes */
  void *own;
} measured;

static void measured_free(const ort_endpoint *e, measured *in) {
  done((void *)e, NULL, in->own, true);
  free(in->result);
  *in = (measured){0};
}

static int32_t measure(const ort_endpoint *e, const model *m, const kit_graph *g,
                       const kit_graph_value *feed, const ort_bytes *text, measured *out,
                       accel_plugin_error *error) {
  ort_endpoint processor = *e;
  model plain = *m;
  processor.device = &e->ort->device[0];
  plain.session = NULL;
  out->result = calloc(g->n_result + 1, sizeof *out->result);
  int32_t rc = out->result ? ACCEL_PLUGIN_OK : kit_no_memory(error, g->n_result);
  if (!rc) rc = session_of(&processor, g, NULL, text, NULL, &plain.session, error);
  if (!rc) rc = run_to_magnitudes(e->ort, &plain, g, feed, out->result, &out->own, error);
  if (plain.session) e->ort->ReleaseSession(plain.session);
  if (rc) measured_free(e, out);
  return rc;
}

/* Ranges from the cache, or measured with this run, which is in *out then; again: measured in any
 * case.  A graph that was found not to be coded is remembered as one byte: m->plain. */
static int32_t find_ranges(const ort_endpoint *e, model *m, const kit_graph *g,
                           const kit_graph_value *feed, bool again, measured *out,
                           accel_plugin_error *error) {
  ort_quantised *q = m->quantised;
  ort_bytes text, kept;
  int32_t rc = ort_write(g, m->entry, &(ort_writing){.dim = m->dim, .quantised = q}, &text, error);
  if (rc) return rc;
  ort_context_key(e, "ranges", g, &text, m->key);
  bool known = false;
  if (!again && ort_context_get(e, m->key, &kept)) {
    known = kept.n == 2 * (uint64_t)q->n * sizeof *q->range;
    if (known) ort_range_widen(q, (const float *)(const void *)kept.data);
    m->plain = kept.n == sizeof m->plain;
    free(kept.data);
  }
  if (!known && !m->plain) rc = measure(e, m, g, feed, &text, out, error);
  if (!rc && out->result) ort_range_widen(q, out->result[g->n_result].data);
  free(text.data);
  return rc;
}

/* Do the results of the NPU agree with those of the processor, as far as int8 may? */
static bool agree(const kit_graph *g, const kit_graph_value *a, const kit_graph_value *b) {
  for (uint32_t r = 0; r < g->n_result; r++) {
    const float *x = a[r].data, *y = b[r].data;
    double xy = 0, xx = 0, yy = 0;
    if (g->node[g->result[r].node].dtype != ACCEL_PLUGIN_F32) continue;
    if (a[r].bytes != b[r].bytes) return false;
    for (uint64_t i = 0; i < a[r].bytes / sizeof *x; i++) {
      xy += (double)x[i] * y[i];
      xx += (double)x[i] * x[i];
      yy += (double)y[i] * y[i];
    }
    if (!(xy >= ORT_AGREEMENT * sqrt(xx * yy))) return false;
  }
  return true;
}

/* The run with codes; *good: they are taken, and agree with the reference where there is one. */
static void try_codes(const ort_endpoint *e, model *m, const kit_graph *g,
                      const kit_graph_value *feed, const measured *reference,
                      kit_graph_value *result, void **own, bool *good) {
  ort_quantised *q = m->quantised;
  int32_t rc = ACCEL_PLUGIN_OK;
  if (!m->session) rc = make_session(e, m, g, NULL);
  if (!rc) rc = run_to_magnitudes(e->ort, m, g, feed, result, own, NULL);
  *good = !rc && (!reference->result || agree(g, result, reference->result));
  if (*good && reference->result)
    ort_context_put(e, m->key, q->range, 2 * (uint64_t)q->n * sizeof *q->range);
}

static void drop_session(const ort_endpoint *e, model *m) {
  if (m->session) e->ort->ReleaseSession(m->session);
  m->session = NULL;
}

/* One try: with the session that is there, or, again, with ranges that this run widens.  Without
 * *good nothing is in *own; m->plain: codes are not taken, or give other results than the
 * processor. */
static int32_t run_coded(const ort_endpoint *e, model *m, const kit_graph *g,
                         const kit_graph_value *feed, bool again, kit_graph_value *result,
                         void **own, bool *good, accel_plugin_error *error) {
  measured reference = {0};
  *good = false;
  if (again) drop_session(e, m);
  if (!m->session) {
    const int32_t rc = find_ranges(e, m, g, feed, again, &reference, error);
    if (rc || m->plain) return rc;
  }
  try_codes(e, m, g, feed, &reference, result, own, good);
  const bool within = *good && !ort_range_exceeded(m->quantised, result[g->n_result].data);
  if (!*good && reference.result) {
    m->plain = true;
    ort_context_put(e, m->key, &m->plain, sizeof m->plain);
    drop_session(e, m);
  }
  *good = within || (*good && reference.result);
  if (!*good) {
    done((void *)e, m, *own, true);
    *own = NULL;
  }
  measured_free(e, &reference);
  return ACCEL_PLUGIN_OK;
}

/* result [n_result + 1] */
static int32_t infer_coded(const ort_endpoint *e, model *m, const kit_graph *g,
                           const kit_graph_value *feed, kit_graph_value *result, void **own,
                           accel_plugin_error *error) {
  bool good = false;
  int32_t rc = ACCEL_PLUGIN_OK;
  pthread_mutex_lock(&m->lock);
  for (int again = 0; again < 2 && !rc && !good && !m->plain; again++)
    rc = run_coded(e, m, g, feed, again, result, own, &good, error);
  const bool plain = m->plain;
  if (!rc && plain && !m->session) rc = make_session(e, m, g, error);
  pthread_mutex_unlock(&m->lock);
  if (rc || good) return rc;
  return plain ? run(e->ort, m, g, feed, 0, g->n_result, result, own, error)
               : kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1, "entry '%s': no run with codes",
                          m->entry);
}

static int32_t infer(void *self, void *made, const kit_graph *g, const kit_graph_value *feed,
                     kit_graph_value *result, void **own, accel_plugin_error *error) {
  const ort_endpoint *e = self;
  model *m = made;
  if (!m->quantised) return run(e->ort, m, g, feed, 0, g->n_result, result, own, error);
  kit_graph_value *more = calloc(g->n_result + 1, sizeof *more);
  if (!more) return kit_no_memory(error, g->n_result);
  const int32_t rc = infer_coded(e, m, g, feed, more, own, error);
  memcpy(result, more, g->n_result * sizeof *result);
  free(more);
  return rc;
}

const kit_compiler ort_compiler = {
    .compile = compile, .model_free = model_free, .infer = infer, .done = done, .close = free};
