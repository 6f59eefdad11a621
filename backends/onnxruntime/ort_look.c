/* ort_look.c - what a writer has to know of a graph before it begins: ranks, since ONNX wants whole
 * permutations, layer norms with scale and shift, which are one node there, and sums that an NPU's
 * compiler gets wrong. */
#include "onnxruntime/ort_write.h"

float ort_number(const ort_writer *w, int32_t id) {
  const kit_graph_node *n = &w->g->node[id];
  const bool is = n->op == KIT_GRAPH_CONSTANT && n->dtype == ACCEL_PLUGIN_F32;
  return is && n->bytes == sizeof(float) ? *(const float *)n->data : 0;
}

/* Elements of a vector of sizes; -1: not known. */
static int64_t length_of(const ort_writer *w, int32_t id) {
  const kit_graph_node *n = &w->g->node[id];
  int64_t sum = 0;
  switch (n->op) {
    case KIT_GRAPH_CONSTANT:
      return n->rank ? n->dim[0] : 1;
    case KIT_GRAPH_CONCAT:
      for (uint32_t i = 0; i < n->n_in && sum >= 0; i++) {
        const int64_t part = length_of(w, n->in[i]);
        sum = part < 0 ? -1 : sum + part;
      }
      return sum;
    case KIT_GRAPH_GATHER: /* of the sizes, those listed */
      return length_of(w, n->in[1]);
    case KIT_GRAPH_ADD:
    case KIT_GRAPH_SUBTRACT:
    case KIT_GRAPH_MULTIPLY:
    case KIT_GRAPH_DIVIDE:
      return length_of(w, n->in[0]);
    default:
      return -1;
  }
}

static int8_t highest(const ort_writer *w, const kit_graph_node *n) {
  int8_t most = 0;
  for (uint32_t i = 0; i < n->n_in; i++) {
    const int8_t r = w->rank[n->in[i]];
    if (r < 0) return -1;
    if (r > most) most = r;
  }
  return most;
}

static int8_t with(int8_t rank, int64_t more) {
  return rank < 0 || more < -8 || more > 8 ? -1 : (int8_t)(rank + more);
}

static int8_t rank_of(const ort_writer *w, const kit_graph_node *n) {
  const int8_t first = n->n_in ? w->rank[n->in[0]] : (int8_t)n->rank;
  int64_t length;
  switch (n->op) {
    case KIT_GRAPH_ADD:
    case KIT_GRAPH_SUBTRACT:
    case KIT_GRAPH_MULTIPLY:
    case KIT_GRAPH_DIVIDE:
    case KIT_GRAPH_MINIMUM:
    case KIT_GRAPH_MAXIMUM:
    case KIT_GRAPH_POWER:
    case KIT_GRAPH_EQUAL:
    case KIT_GRAPH_NOT_EQUAL:
    case KIT_GRAPH_LESS:
    case KIT_GRAPH_LESS_EQUAL:
    case KIT_GRAPH_AND:
    case KIT_GRAPH_SELECT:
    case KIT_GRAPH_MATMUL:
      return highest(w, n);
    case KIT_GRAPH_REDUCE_SUM:
    case KIT_GRAPH_REDUCE_MEAN:
    case KIT_GRAPH_REDUCE_MAX:
    case KIT_GRAPH_REDUCE_MIN:
      return n->i[0] ? first : with(first, -length_of(w, n->in[1]));
    case KIT_GRAPH_GATHER:
      return with(first, (int64_t)w->rank[n->in[1]] - 1);
    case KIT_GRAPH_RESHAPE:
      length = length_of(w, n->in[1]);
      return length < 0 ? -1 : (int8_t)length;
    case KIT_GRAPH_BROADCAST:
      length = length_of(w, n->in[1]);
      return length < 0 || first < 0 ? -1 : length > first ? (int8_t)length : first;
    case KIT_GRAPH_UNSQUEEZE:
      return with(first, length_of(w, n->in[1]));
    default:
      return first;
  }
}

/* A vector of numbers that are known, of more than one element. */
static bool is_vector(const ort_writer *w, int32_t id) {
  const kit_graph_node *n = &w->g->node[id];
  if (n->op == KIT_GRAPH_CONVERT) n = &w->g->node[n->in[0]];
  return n->op == KIT_GRAPH_CONSTANT && n->rank == 1 && n->dim[0] > 1;
}

/* The other operand of a node of two; -1: it is no such op over `id`, or that is no vector. */
static int32_t vector_beside(const ort_writer *w, const kit_graph_node *n, uint8_t op, int32_t id) {
  if (n->op != op || n->in[0] == n->in[1] || w->uses[id] != 1) return -1;
  const int32_t other = n->in[0] == id ? n->in[1] : n->in[0];
  return (n->in[0] == id || n->in[1] == id) && is_vector(w, other) ? other : -1;
}

/* LAYER_NORM, its product with a vector, and the sum with another. */
static void find_norms(ort_writer *w) {
  for (uint32_t i = 0; i < w->g->n_node; i++) w->normed[i] = w->scale[i] = w->shift[i] = -1;
  for (uint32_t k = 0; k < w->g->n_node; k++) {
    const kit_graph_node *n = &w->g->node[k];
    for (uint32_t side = 0; side < 2 && n->n_in == 2; side++) {
      const int32_t id = n->in[side], norm = w->normed[id];
      if (w->g->node[id].op == KIT_GRAPH_LAYER_NORM && w->normed[k] < 0) {
        w->scale[id] = vector_beside(w, n, KIT_GRAPH_MULTIPLY, id);
        if (w->scale[id] >= 0) w->normed[k] = id;
      } else if (norm >= 0 && w->g->node[id].op == KIT_GRAPH_MULTIPLY) {
        w->shift[norm] = vector_beside(w, n, KIT_GRAPH_ADD, id);
        if (w->shift[norm] < 0) continue;
        w->normed[k] = norm; /* here instead */
        w->normed[id] = ORT_ELSEWHERE;
      }
    }
  }
}

/* Qualcomm's compiler (of onnxruntime-qnn 2.7) makes one op of a layer norm and the sum before it,
 * also through reshapes.  Where an operand of the sum is repeated along the first of three dims, and
 * the second has 16, 24, 32 .. rows, that op adds it to the first item alone. */
static void part_from_sum(ort_writer *w, const kit_graph_node *norm) {
  int32_t id = norm->in[0];
  while (w->g->node[id].op == KIT_GRAPH_RESHAPE) id = w->g->node[id].in[0];
  w->apart[id] = w->g->node[id].op == KIT_GRAPH_ADD && (w->rank[id] < 0 || w->rank[id] > 2);
}

/* It makes one op of a gather and its product with a number, also through reshapes; of a batch that
 * op gets the first item alone right. */
static bool is_scaled_gather(const ort_writer *w, const kit_graph_node *n) {
  int32_t id = n->in[0];
  if (ort_number(w, n->in[1]) == 0) return false;
  while (w->g->node[id].op == KIT_GRAPH_RESHAPE) id = w->g->node[id].in[0];
  return w->g->node[id].op == KIT_GRAPH_GATHER;
}

/* It takes no rows of a table that are plain bytes. */
static bool is_gather_of_codes(const ort_writer *w, const kit_graph_node *n) {
  const kit_graph_node *table = &w->g->node[n->in[0]];
  return table->op == KIT_GRAPH_CONSTANT &&
         (table->dtype == ACCEL_PLUGIN_I8 || table->dtype == ACCEL_PLUGIN_U8);
}

/* It drops a conversion of numbers to integers and back, and so what it cuts off. */
static bool is_whole_number(const ort_writer *w, const kit_graph_node *n) {
  const kit_graph_node *whole = &w->g->node[n->in[0]];
  return n->dtype == ACCEL_PLUGIN_F32 && whole->op == KIT_GRAPH_CONVERT &&
         whole->dtype == ACCEL_PLUGIN_I32 && w->g->node[whole->in[0]].dtype == ACCEL_PLUGIN_F32;
}

static void find_apart(ort_writer *w) {
  for (uint32_t k = 0; k < w->g->n_node; k++) {
    const kit_graph_node *n = &w->g->node[k];
    if (n->op == KIT_GRAPH_LAYER_NORM) part_from_sum(w, n);
    if (n->op == KIT_GRAPH_MULTIPLY) w->apart[k] = is_scaled_gather(w, n);
    if (n->op == KIT_GRAPH_GATHER) w->apart[k] = is_gather_of_codes(w, n);
    if (n->op == KIT_GRAPH_CONVERT) w->apart[k] = is_whole_number(w, n);
    if (n->op == KIT_GRAPH_TANH) w->apart[k] = w->rank[k] > 4; /* it takes no more dims */
    if (n->op == KIT_GRAPH_SIN || n->op == KIT_GRAPH_COS) w->apart[k] = true; /* few turns */
  }
}

void ort_look(ort_writer *w, bool npu) {
  for (uint32_t i = 0; i < w->g->n_node; i++) w->rank[i] = rank_of(w, &w->g->node[i]);
  kit_graph_uses(w->g, w->uses);
  find_norms(w);
  if (npu) find_apart(w);
}
