/* ort_write.c - a graph as an ONNX model: nodes, constants, inputs, results. */
#include "onnxruntime/ort_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/ort_quantise.h"

/* Fields of onnx.proto's messages. */
enum { MODEL_VERSION = 1, MODEL_PRODUCER, MODEL_GRAPH = 7, MODEL_OPSETS };
enum { OPSET_DOMAIN = 1, OPSET_VERSION };
enum { GRAPH_NODE = 1, GRAPH_NAME, GRAPH_CONSTANT = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT };
enum { NODE_INPUT = 1, NODE_OUTPUT, NODE_NAME, NODE_TYPE, NODE_ATTRIBUTE };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_F, ATTRIBUTE_I, ATTRIBUTE_S, ATTRIBUTE_INTS = 8 };
enum { ATTRIBUTE_TYPE = 20, TYPE_F = 1, TYPE_I, TYPE_S, TYPE_INTS = 7 };
enum { TENSOR_DIM = 1, TENSOR_TYPE, TENSOR_NAME = 8, TENSOR_RAW, TENSOR_PLACE = 13, TENSOR_KEPT };
enum { ENTRY_KEY = 1, ENTRY_VALUE, VALUE_NAME = 1, VALUE_TYPE, TYPE_TENSOR = 1 };
enum { TENSOR_TYPE_ELEMENT = 1, TENSOR_TYPE_SHAPE, SHAPE_DIM = 1, DIM_VALUE = 1, DIM_NAME };
enum { IR_VERSION = 10, OPSET = 21, EXTERNAL = 1 };

int ort_type(uint8_t dtype) {
  static const uint8_t types[] = {
      [ACCEL_PLUGIN_F32] = 1,  [ACCEL_PLUGIN_U8] = 2,    [ACCEL_PLUGIN_I8] = 3,
      [ACCEL_PLUGIN_I32] = 6,  [ACCEL_PLUGIN_I64] = 7,   [ACCEL_PLUGIN_BOOL] = 9,
      [ACCEL_PLUGIN_F16] = 10, [ACCEL_PLUGIN_BF16] = 16, [ACCEL_PLUGIN_U4] = 21,
      [ACCEL_PLUGIN_I4] = 22};
  return dtype < sizeof types ? types[dtype] : 0;
}

/* ---- nodes ---- */

static void put_name(ort_writer *w, uint32_t field, int32_t value) {
  char name[16] = "";
  if (value >= 0) snprintf(name, sizeof name, "n%d", value);
  ort_put_text(w->b, field, name);
}

size_t ort_open(ort_writer *w, const char *type, int32_t out, const int32_t *in, uint32_t n) {
  const size_t node = ort_begin(w->b, GRAPH_NODE);
  ort_put_text(w->b, NODE_TYPE, type);
  put_name(w, NODE_NAME, out);
  for (uint32_t i = 0; i < n; i++) put_name(w, NODE_INPUT, in[i]);
  put_name(w, NODE_OUTPUT, out);
  return node;
}

void ort_close(ort_writer *w, size_t node) { ort_end(w->b, node); }
void ort_output(ort_writer *w, int32_t out) { put_name(w, NODE_OUTPUT, out); }

static size_t begin_attribute(ort_writer *w, const char *key, size_t n, int type) {
  const size_t at = ort_begin(w->b, NODE_ATTRIBUTE);
  ort_put_data(w->b, ATTRIBUTE_NAME, key, n);
  ort_put_int(w->b, ATTRIBUTE_TYPE, type);
  return at;
}

void ort_attribute_int(ort_writer *w, const char *key, int64_t value) {
  const size_t at = begin_attribute(w, key, strlen(key), TYPE_I);
  ort_put_int(w->b, ATTRIBUTE_I, value);
  ort_end(w->b, at);
}

void ort_attribute_ints(ort_writer *w, const char *key, const int64_t *v, uint32_t n) {
  const size_t at = begin_attribute(w, key, strlen(key), TYPE_INTS);
  for (uint32_t i = 0; i < n; i++) ort_put_int(w->b, ATTRIBUTE_INTS, v[i]);
  ort_end(w->b, at);
}

void ort_attribute_float(ort_writer *w, const char *key, float value) {
  const size_t at = begin_attribute(w, key, strlen(key), TYPE_F);
  ort_put_float(w->b, ATTRIBUTE_F, value);
  ort_end(w->b, at);
}

void ort_attribute_word(ort_writer *w, const char *key, const char *word, size_t n) {
  const size_t at = begin_attribute(w, key, strlen(key), TYPE_S);
  ort_put_data(w->b, ATTRIBUTE_S, word, n);
  ort_end(w->b, at);
}

int32_t ort_op2(ort_writer *w, const char *type, int32_t a, int32_t b) {
  const int32_t out = ort_fresh(w);
  ort_close(w, ort_open(w, type, out, (const int32_t[]){a, b}, b == ORT_NONE ? 1 : 2));
  return out;
}

int32_t ort_op1(ort_writer *w, const char *type, int32_t a) {
  return ort_op2(w, type, a, ORT_NONE);
}

/* ---- plain ops: the table ---- */

static const struct {
  const char *type, *attributes;
} plain[KIT_GRAPH_OPS] = {
#define ORT_OP(NAME, type, attributes) [KIT_GRAPH_##NAME] = {type, attributes},
#include "onnxruntime/ort_ops.def"
};

/* One "key=value" of the table. */
static void put_attribute(ort_writer *w, const kit_graph_node *n, const char *at, size_t length) {
  char key[32];
  const char *value = memchr(at, '=', length), *end = at + length;
  snprintf(key, sizeof key, "%.*s", (int)(value - at), at);
  value++;
  if (*value == 'i') {
    ort_attribute_int(w, key, n->i[value[1] - '0']);
  } else if (*value == 'f') {
    ort_attribute_float(w, key, (float)n->f[value[1] - '0']);
  } else if (*value == 't') {
    ort_attribute_int(w, key, ort_type(n->dtype));
  } else if (*value == '\'') {
    ort_attribute_word(w, key, value + 1, (size_t)(end - value - 1));
  } else if (*value == '?') { /* ?0:yes:no */
    const char *yes = value + 3, *no = memchr(yes, ':', (size_t)(end - yes));
    const bool is = n->i[value[1] - '0'] != 0;
    ort_attribute_word(w, key, is ? yes : no + 1, (size_t)(is ? no - yes : end - no - 1));
  } else {
    ort_attribute_int(w, key, *value - '0');
  }
}

static void put_plain(ort_writer *w, int32_t id) {
  const kit_graph_node *n = &w->g->node[id];
  const size_t node = ort_open(w, plain[n->op].type, id, n->in, n->n_in);
  const char *at = plain[n->op].attributes;
  while (*at) {
    const size_t length = strcspn(at, " ");
    put_attribute(w, n, at, length);
    at += length + (at[length] == ' ');
  }
  ort_close(w, node);
}

/* ---- constants ---- */

void ort_tensor(ort_writer *w, int32_t id, int type, const int64_t *dim, uint32_t rank,
                const void *data, uint64_t bytes) {
  const size_t tensor = ort_begin(w->b, GRAPH_CONSTANT);
  for (uint32_t i = 0; i < rank; i++) ort_put_int(w->b, TENSOR_DIM, dim[i]);
  ort_put_int(w->b, TENSOR_TYPE, type);
  put_name(w, TENSOR_NAME, id);
  if (data && bytes < ORT_EXTERNAL) {
    ort_put_data(w->b, TENSOR_RAW, data, bytes);
  } else { /* a place is wanted; what is there is given by its name */
    const size_t place = ort_begin(w->b, TENSOR_PLACE);
    ort_put_text(w->b, ENTRY_KEY, "location");
    ort_put_text(w->b, ENTRY_VALUE, "memory");
    ort_end(w->b, place);
    ort_put_int(w->b, TENSOR_KEPT, EXTERNAL);
  }
  ort_end(w->b, tensor);
}

int32_t ort_floats(ort_writer *w, const float *v, int64_t n) {
  const int32_t id = ort_fresh(w);
  ort_tensor(w, id, ort_type(ACCEL_PLUGIN_F32), &n, n > 0, v, (uint64_t)(n ? n : 1) * sizeof *v);
  return id;
}

int32_t ort_int64s(ort_writer *w, const int64_t *v, int64_t n) {
  const int32_t id = ort_fresh(w);
  ort_tensor(w, id, ort_type(ACCEL_PLUGIN_I64), &n, 1, v, (uint64_t)n * sizeof *v);
  return id;
}

const int64_t *ort_known(const ort_writer *w, int32_t node, int64_t *n) {
  const kit_graph_node *c = &w->g->node[node];
  if (c->op != KIT_GRAPH_CONSTANT || c->dtype != ACCEL_PLUGIN_I64) return NULL;
  *n = (int64_t)(c->bytes / sizeof(int64_t));
  return c->data;
}

/* ---- inputs and results ---- */

/* dim NULL: its shape is not told; -1: a size that is open. */
static void put_value(ort_writer *w, uint32_t field, const char *name, uint8_t dtype,
                      const int64_t *dim, uint32_t rank) {
  const size_t value = ort_begin(w->b, field);
  ort_put_text(w->b, VALUE_NAME, name);
  const size_t type = ort_begin(w->b, VALUE_TYPE), tensor = ort_begin(w->b, TYPE_TENSOR);
  ort_put_int(w->b, TENSOR_TYPE_ELEMENT, ort_type(dtype));
  const size_t shape = dim ? ort_begin(w->b, TENSOR_TYPE_SHAPE) : 0;
  for (uint32_t i = 0; dim && i < rank; i++) {
    const size_t one = ort_begin(w->b, SHAPE_DIM);
    if (dim[i] >= 0) ort_put_int(w->b, DIM_VALUE, dim[i]);
    ort_end(w->b, one);
  }
  if (dim) ort_end(w->b, shape);
  ort_end(w->b, tensor);
  ort_end(w->b, type);
  ort_end(w->b, value);
}

static void put_inputs(ort_writer *w, const int64_t (*dim)[ACCEL_PLUGIN_MAX_RANK]) {
  char name[16];
  for (uint32_t i = 0; i < w->g->n_feed; i++) {
    const kit_graph_node *n = &w->g->node[w->g->feed[i].node];
    snprintf(name, sizeof name, "n%d", w->g->feed[i].node);
    put_value(w, GRAPH_INPUT, name, n->dtype, dim ? dim[i] : n->dim, n->rank);
  }
}

/* A result is a copy by name: the same node may be several, or an input. */
static void put_result(ort_writer *w, const char *name, int32_t value, uint8_t dtype) {
  const size_t node = ort_begin(w->b, GRAPH_NODE);
  ort_put_text(w->b, NODE_TYPE, "Identity");
  ort_put_text(w->b, NODE_NAME, name);
  put_name(w, NODE_INPUT, value);
  ort_put_text(w->b, NODE_OUTPUT, name);
  ort_end(w->b, node);
  put_value(w, GRAPH_OUTPUT, name, dtype, NULL, 0);
}

static void put_results(ort_writer *w) {
  char name[16];
  for (uint32_t r = 0; r < w->g->n_result; r++) {
    const int32_t id = w->g->result[r].node;
    snprintf(name, sizeof name, "r%u", r);
    put_result(w, name, id, w->g->node[id].dtype);
  }
  if (w->quantised) put_result(w, ORT_MAGNITUDES, ort_magnitudes(w), ACCEL_PLUGIN_F32);
}

static void put_nodes(ort_writer *w) {
  for (uint32_t i = 0; i < w->g->n_node; i++) {
    const kit_graph_node *n = &w->g->node[i];
    const bool idle = n->op == KIT_GRAPH_CONSTANT && !w->uses[i]; /* ort_session.c has none of it */
    if (idle || (w->coded && w->quantised->gone[i]))
      continue;
    else if (n->op == KIT_GRAPH_CONSTANT)
      ort_tensor(w, (int32_t)i, ort_type(n->dtype), n->dim, n->rank, n->data, n->bytes);
    else if (n->op == KIT_GRAPH_INPUT || w->normed[i] == ORT_ELSEWHERE)
      continue;
    else if (w->coded && w->quantised->of[i] >= 0)
      ort_coded_product(w, (int32_t)i);
    else if (plain[n->op].type && w->normed[i] < 0 && !w->apart[i])
      put_plain(w, (int32_t)i);
    else
      ort_form(w, (int32_t)i);
  }
}

/* ---- the model ---- */

static void put_model(ort_writer *w, const char *name,
                      const int64_t (*dim)[ACCEL_PLUGIN_MAX_RANK]) {
  ort_put_int(w->b, MODEL_VERSION, IR_VERSION);
  ort_put_text(w->b, MODEL_PRODUCER, "libaccel");
  const size_t opset = ort_begin(w->b, MODEL_OPSETS);
  ort_put_text(w->b, OPSET_DOMAIN, "");
  ort_put_int(w->b, OPSET_VERSION, OPSET);
  ort_end(w->b, opset);
  const size_t graph = ort_begin(w->b, MODEL_GRAPH);
  ort_put_text(w->b, GRAPH_NAME, name);
  put_inputs(w, dim);
  put_nodes(w);
  put_results(w);
  ort_end(w->b, graph);
}

int32_t ort_write(const kit_graph *g, const char *name, const ort_writing *how, ort_bytes *model,
                  accel_plugin_error *error) {
  const ort_quantised *q = how->quantised;
  ort_writer w = {.g = g,
                  .b = model,
                  .next = ort_code(g, q ? q->n : 0),
                  .quantised = q,
                  .coded = q && how->npu};
  const size_t n = g->n_node + 1;
  *model = (ort_bytes){0};
  w.rank = malloc(n);
  w.uses = calloc(n, sizeof *w.uses);
  w.normed = malloc(n * sizeof *w.normed);
  w.scale = malloc(n * sizeof *w.scale);
  w.shift = malloc(n * sizeof *w.shift);
  w.apart = calloc(n, sizeof *w.apart);
  if (w.rank && w.uses && w.normed && w.scale && w.shift && w.apart) {
    ort_look(&w, how->npu);
    put_model(&w, name, how->dim);
  } else {
    model->failed = true;
  }
  free(w.rank);
  free(w.uses);
  free(w.normed);
  free(w.scale);
  free(w.shift);
  free(w.apart);
  if (!model->failed && !*w.why) return ACCEL_PLUGIN_OK;
  free(model->data);
  if (model->failed) return kit_no_memory(error, model->n);
  return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1, "entry '%s': %s", name, w.why);
}
