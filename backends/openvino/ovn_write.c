/* ovn_write.c - a graph as OpenVINO's IR, version 11: layers and edges in XML, constants by their
 * place in memory. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "openvino/ovn.h"

typedef struct writer {
  const kit_graph *g;
  const char *base;
  const int64_t (*dim)[ACCEL_PLUGIN_MAX_RANK];
  char *text;
  size_t n, capacity;
  bool failed;
  uint32_t next_layer; /* of those that have no node: results, axes */
  int32_t *feed;       /* [n_node] feed of an INPUT */
  char *edges;         /* the end of the file, gathered meanwhile */
  size_t n_edges, edges_capacity;
} writer;

typedef struct ovn_op {
  const char *type, *opset, *format;
} ovn_op;

static const ovn_op ops[KIT_GRAPH_OPS] = {
#define OVN_OP(NAME, type, opset, format) [KIT_GRAPH_##NAME] = {type, opset, format},
#include "openvino/ovn_ops.def"
};

/* Axes that OpenVINO takes as operands where a graph has an attribute: -1 .. 5. */
static const int64_t axes[] = {-1, 0, 1, 2, 3, 4, 5};

/* ---- text ---- */

static void append(writer *w, char **text, size_t *n, size_t *capacity, const char *format,
                   va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int more = vsnprintf(*text ? *text + *n : NULL, *capacity - *n, format, arguments);
  if (more >= 0 && *n + (size_t)more + 1 > *capacity) {
    const size_t wanted = 2 * (*n + (size_t)more + 1) + 4096;
    char *p = realloc(*text, wanted);
    if (p) {
      *text = p;
      *capacity = wanted;
      vsnprintf(*text + *n, *capacity - *n, format, again);
    } else {
      w->failed = true;
    }
  }
  va_end(again);
  if (more < 0) w->failed = true;
  if (!w->failed) *n += (size_t)more;
}

static void put(writer *w, const char *format, ...) KIT_PRINTF(2, 3);
static void put(writer *w, const char *format, ...) {
  va_list arguments;
  if (w->failed) return;
  va_start(arguments, format);
  append(w, &w->text, &w->n, &w->capacity, format, arguments);
  va_end(arguments);
}

static void put_edge(writer *w, const char *format, ...) KIT_PRINTF(2, 3);
static void put_edge(writer *w, const char *format, ...) {
  va_list arguments;
  if (w->failed) return;
  va_start(arguments, format);
  append(w, &w->edges, &w->n_edges, &w->edges_capacity, format, arguments);
  va_end(arguments);
}

/* With a point whatever the locale. */
static void put_number(writer *w, double value) {
  char text[40];
  snprintf(text, sizeof text, "%.17g", value);
  for (char *at = text; *at; at++)
    if (*at == ',') *at = '.';
  put(w, "%s", text);
}

static const char *type_name(uint8_t dtype) {
  static const char *const names[] = {
      [ACCEL_PLUGIN_F32] = "f32",     [ACCEL_PLUGIN_F16] = "f16", [ACCEL_PLUGIN_BF16] = "bf16",
      [ACCEL_PLUGIN_I32] = "i32",     [ACCEL_PLUGIN_I64] = "i64", [ACCEL_PLUGIN_I8] = "i8",
      [ACCEL_PLUGIN_U8] = "u8",       [ACCEL_PLUGIN_I4] = "i4",   [ACCEL_PLUGIN_U4] = "u4",
      [ACCEL_PLUGIN_BOOL] = "boolean"};
  return dtype < sizeof names / sizeof *names && names[dtype] ? names[dtype] : "dynamic";
}

static const char *port_type(uint8_t dtype) {
  static const char *const names[] = {
      [ACCEL_PLUGIN_F32] = "FP32", [ACCEL_PLUGIN_F16] = "FP16", [ACCEL_PLUGIN_BF16] = "BF16",
      [ACCEL_PLUGIN_I32] = "I32",  [ACCEL_PLUGIN_I64] = "I64",  [ACCEL_PLUGIN_I8] = "I8",
      [ACCEL_PLUGIN_U8] = "U8",    [ACCEL_PLUGIN_I4] = "I4",    [ACCEL_PLUGIN_U4] = "U4",
      [ACCEL_PLUGIN_BOOL] = "BOOL"};
  return dtype < sizeof names / sizeof *names && names[dtype] ? names[dtype] : "UNSPECIFIED";
}

/* ---- attributes ---- */

static void put_list(writer *w, const char *name, const int64_t *v, int64_t n) {
  put(w, "%s=\"", name);
  for (int64_t i = 0; i < n; i++) put(w, "%s%lld", i ? "," : "", (long long)v[i]);
  put(w, "\" ");
}

static void put_convolution(writer *w, const kit_graph_node *node) {
  const int64_t n = node->i[1], *v = node->i + 2;
  put_list(w, "strides", v, n);
  put_list(w, "pads_begin", v + n, n);
  put_list(w, "pads_end", v + 2 * n, n);
  put_list(w, "dilations", v + 3 * n, n);
  put(w, "auto_pad=\"explicit\"");
}

static void put_pool(writer *w, const kit_graph_node *node) {
  const int64_t n = node->i[0], *v = node->i + 1;
  put_list(w, "kernel", v, n);
  put_list(w, "strides", v + n, n);
  put_list(w, "pads_begin", v + 2 * n, n);
  put_list(w, "pads_end", v + 3 * n, n);
}

static void put_special(writer *w, const kit_graph_node *node, char what) {
  static const char *const mode[] = {[ACCEL_PLUGIN_PAD_CONSTANT] = "constant",
                                     [ACCEL_PLUGIN_PAD_REFLECT] = "reflect",
                                     [ACCEL_PLUGIN_PAD_EDGE] = "edge"};
  if (what == 't') put(w, "%s", type_name(node->dtype));
  if (what == 'm') put(w, "%s", mode[node->i[0]]);
  if (what == 'w') put_convolution(w, node);
  if (what == 'p') put_pool(w, node);
  if (what == 'e') put(w, "%s", node->i[1 + 4 * node->i[0]] ? "true" : "false");
  for (int64_t i = 0, n = node->i[1]; what == 'o' && i < n; i++)
    put(w, "%s%lld", i ? "," : "", (long long)node->i[2 + 4 * n + i]);
}

static void put_attributes(writer *w, const kit_graph_node *node) {
  put(w, "<data ");
  for (const char *at = ops[node->op].format; *at; at++) {
    if (*at == '$') {
      put_number(w, node->f[*++at - '0']);
    } else if (*at == '%' && at[1] == '?') { /* %?k:yes:no, up to the quote */
      const bool yes = node->i[at[2] - '0'] != 0;
      const char *first = at + 4, *second = strchr(first, ':') + 1, *end = strchr(second, '"');
      put(w, "%.*s", (int)(yes ? second - 1 - first : end - second), yes ? first : second);
      at = end - 1;
    } else if (*at == '%') {
      at++;
      if (*at >= '0' && *at <= '9')
        put(w, "%lld", (long long)node->i[*at - '0']);
      else
        put_special(w, node, *at);
    } else {
      put(w, "%c", *at);
    }
  }
  put(w, "/>");
}

/* ---- layers ---- */

/* An axis as an operand: the ops that want one more, and its rank. */
static bool wants_axis(const kit_graph_node *node, int64_t *axis, bool *vector) {
  *vector = node->op == KIT_GRAPH_LAYER_NORM;
  *axis = node->op == KIT_GRAPH_GATHER ? node->i[0] : node->op == KIT_GRAPH_LAYER_NORM ? -1 : 0;
  return *vector || node->op == KIT_GRAPH_GATHER || node->op == KIT_GRAPH_SCATTER_ROWS ||
         node->op == KIT_GRAPH_SCATTER_ADD;
}

static uint32_t ports_in(const kit_graph_node *node) {
  int64_t axis;
  bool vector;
  return node->n_in + wants_axis(node, &axis, &vector);
}

static void put_shape(writer *w, const int64_t *dim, uint8_t rank) {
  for (uint8_t i = 0; i < rank; i++)
    put(w, dim[i] < 0 ? "%s?" : "%s%lld", i ? "," : "", (long long)dim[i]);
}

static void put_constant(writer *w, uint32_t id, uint8_t dtype, const int64_t *dim, uint8_t rank,
                         const void *data, uint64_t bytes) {
  put(w,
      "<layer id=\"%u\" name=\"c%u\" type=\"Const\" version=\"opset1\"><data element_type=\"%s\" "
      "shape=\"",
      id, id, type_name(dtype));
  put_shape(w, dim, rank);
  put(w, "\" offset=\"%llu\" size=\"%llu\"/><output><port id=\"0\" precision=\"%s\"",
      (unsigned long long)((const char *)data - w->base), (unsigned long long)bytes,
      port_type(dtype));
}

/* Ends the port of a node's result: the names of the graph's inputs and results that it is. */
static void put_names(writer *w, int32_t node) {
  bool any = false;
  if (w->feed[node] >= 0) {
    put(w, " names=\"i%d", w->feed[node]);
    any = true;
  }
  for (uint32_t r = 0; r < w->g->n_result; r++) {
    if (w->g->result[r].node != node) continue;
    put(w, any ? ",r%u" : " names=\"r%u", r);
    any = true;
  }
  put(w, any ? "\"/>" : "/>");
}

static void put_source(writer *w, int32_t node, uint32_t layer, uint32_t port) {
  const kit_graph_node *from = &w->g->node[node];
  const bool second = from->op == KIT_GRAPH_SECOND;
  const int32_t id = second ? from->in[0] : node;
  put_edge(w, "<edge from-layer=\"%d\" from-port=\"%u\" to-layer=\"%u\" to-port=\"%u\"/>\n", id,
           ports_in(&w->g->node[id]) + second, layer, port);
}

static void put_input(writer *w, uint32_t id) {
  const kit_graph_node *node = &w->g->node[id];
  put(w,
      "<layer id=\"%u\" name=\"n%u\" type=\"Parameter\" version=\"opset1\"><data "
      "element_type=\"%s\" shape=\"",
      id, id, type_name(node->dtype));
  put_shape(w, w->dim ? w->dim[w->feed[id]] : node->dim, node->rank);
  put(w, "\"/><output><port id=\"0\" precision=\"%s\"", port_type(node->dtype));
  put_names(w, (int32_t)id);
  put(w, "</output></layer>\n");
}

/* The second port of a topk has the names of its SECOND. */
static void put_second(writer *w, int32_t topk) {
  int32_t second = -1;
  for (uint32_t i = (uint32_t)topk + 1; i < w->g->n_node && second < 0; i++)
    if (w->g->node[i].op == KIT_GRAPH_SECOND && w->g->node[i].in[0] == topk) second = (int32_t)i;
  put(w, "<port id=\"%u\" precision=\"I32\"", ports_in(&w->g->node[topk]) + 1);
  if (second >= 0)
    put_names(w, second);
  else
    put(w, "/>");
}

static void put_op(writer *w, uint32_t id) {
  const kit_graph_node *node = &w->g->node[id];
  const bool groups =
      (node->op == KIT_GRAPH_CONVOLUTION || node->op == KIT_GRAPH_CONVOLUTION_TRANSPOSED) &&
      node->i[0] > 1;
  int64_t axis;
  bool vector;
  if (wants_axis(node, &axis, &vector)) {
    const uint32_t layer = w->next_layer++;
    const int64_t one = 1;
    put_constant(w, layer, ACCEL_PLUGIN_I64, &one, vector, &axes[axis + 1], 8);
    put(w, "/></output></layer>\n");
    put_edge(w, "<edge from-layer=\"%u\" from-port=\"0\" to-layer=\"%u\" to-port=\"%u\"/>\n", layer,
             id, node->n_in);
  }
  put(w, "<layer id=\"%u\" name=\"n%u\" type=\"%s%s\" version=\"%s\">", id, id,
      groups ? "Group" : "", ops[node->op].type, ops[node->op].opset);
  put_attributes(w, node);
  put(w, "<input>");
  for (uint32_t i = 0; i < ports_in(node); i++) put(w, "<port id=\"%u\"/>", i);
  put(w, "</input><output><port id=\"%u\" precision=\"%s\"", ports_in(node),
      port_type(node->dtype));
  put_names(w, (int32_t)id);
  if (node->op == KIT_GRAPH_TOPK) put_second(w, (int32_t)id);
  put(w, "</output></layer>\n");
  for (uint32_t i = 0; i < node->n_in; i++) put_source(w, node->in[i], id, i);
}

static void put_layers(writer *w) {
  for (uint32_t i = 0; i < w->g->n_node; i++) {
    const kit_graph_node *node = &w->g->node[i];
    if (node->op == KIT_GRAPH_INPUT) {
      put_input(w, i);
    } else if (node->op == KIT_GRAPH_CONSTANT) {
      put_constant(w, i, node->dtype, node->dim, node->rank, node->data ? node->data : w->base,
                   node->bytes);
      put_names(w, (int32_t)i);
      put(w, "</output></layer>\n");
    } else if (node->op != KIT_GRAPH_SECOND) {
      put_op(w, i);
    }
  }
  for (uint32_t r = 0; r < w->g->n_result; r++) {
    const uint32_t layer = w->next_layer++;
    put(w,
        "<layer id=\"%u\" name=\"out%u\" type=\"Result\" version=\"opset1\"><input><port id=\"0\"/>"
        "</input></layer>\n",
        layer, r);
    put_source(w, w->g->result[r].node, layer, 0);
  }
}

static void widen(const char **low, const char **high, const void *data, uint64_t bytes) {
  const char *at = data;
  if (!*low || at < *low) *low = at;
  if (at + bytes > *high) *high = at + bytes;
}

void ovn_extent(const kit_graph *g, const char **base, uint64_t *bytes) {
  const char *low = NULL, *high = NULL;
  widen(&low, &high, axes, sizeof axes);
  for (uint32_t i = 0; i < g->n_node; i++)
    if (g->node[i].op == KIT_GRAPH_CONSTANT && g->node[i].bytes)
      widen(&low, &high, g->node[i].data, g->node[i].bytes);
  *base = low;
  *bytes = (uint64_t)(high - low);
}

int32_t ovn_write(const kit_graph *g, const char *name, const char *base,
                  const int64_t (*dim)[ACCEL_PLUGIN_MAX_RANK], char **text, size_t *n,
                  accel_plugin_error *error) {
  writer w = {.g = g, .base = base, .dim = dim, .next_layer = g->n_node};
  w.feed = malloc((g->n_node + 1) * sizeof *w.feed);
  w.failed = !w.feed;
  for (uint32_t i = 0; w.feed && i < g->n_node; i++) w.feed[i] = -1;
  for (uint32_t i = 0; w.feed && i < g->n_feed; i++) w.feed[g->feed[i].node] = (int32_t)i;
  put(&w, "<?xml version=\"1.0\"?>\n<net name=\"%s\" version=\"11\"><layers>\n", name);
  if (!w.failed) put_layers(&w);
  put(&w, "</layers><edges>\n%s</edges></net>\n", w.edges ? w.edges : "");
  free(w.edges);
  free(w.feed);
  *text = w.failed ? NULL : w.text;
  *n = w.n;
  if (!w.failed) return ACCEL_PLUGIN_OK;
  free(w.text);
  return kit_no_memory(error, w.n);
}
