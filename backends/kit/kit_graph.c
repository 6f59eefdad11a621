/* kit_graph.c - nodes of a static graph: made once each, kept with their constants. */
#include "kit/kit_graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit_lower.h"
#include "shared/hash.h"

/* Memory of a graph: blocks that live as long as it. */
typedef struct block {
  struct block *next;
  _Alignas(16) char bytes[];
} block;

typedef struct graph {
  kit_graph view; /* what others see; first */
  block *blocks;
  uint32_t *slot; /* hash table of nodes, 1 + number */
  uint32_t n_slot, node_capacity, feed_capacity, result_capacity, size_capacity, check_capacity;
} graph;

kit_graph *kit_graph_new(void) {
  graph *g = calloc(1, sizeof *g);
  return g ? &g->view : NULL;
}

void kit_graph_uses(const kit_graph *g, uint32_t *uses) {
  for (uint32_t i = 0; i < g->n_node; i++)
    for (uint32_t k = 0; k < g->node[i].n_in; k++) uses[g->node[i].in[k]]++;
  for (uint32_t i = 0; i < g->n_result; i++) uses[g->result[i].node]++;
}

void kit_graph_free(kit_graph *view) {
  graph *g = (graph *)view;
  if (!g) return;
  for (block *b = g->blocks, *next; b; b = next) {
    next = b->next;
    free(b);
  }
  free((void *)g->view.node);
  free((void *)g->view.feed);
  free((void *)g->view.result);
  free((void *)g->view.size);
  free((void *)g->view.check);
  free(g->slot);
  free(g);
}

static int32_t no_memory(lower *l) {
  if (!l->rc) l->rc = kit_no_memory(l->error, 0);
  return 0;
}

int32_t lower_fail(lower *l, const char *format, ...) {
  char text[200];
  va_list arguments;
  if (l->rc) return 0;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const char *what = l->n && l->n->n_out ? kit_tensor_name(l->p, kit_result(l->n, 0)) : "?";
  l->rc = kit_fail(l->error, ACCEL_PLUGIN_E_UNSUPPORTED, l->n ? (int32_t)l->index : -1,
                   "%s '%s': %s", l->n ? kit_op_name(l->n->op) : "entry", what, text);
  return 0;
}

static void *keep(lower *l, const void *data, uint64_t bytes) {
  graph *g = (graph *)l->g;
  block *b = malloc(sizeof *b + bytes + 1);
  if (!b) return no_memory(l), NULL;
  b->next = g->blocks;
  g->blocks = b;
  memcpy(b->bytes, data, bytes);
  return b->bytes;
}

/* Room for one more element behind n; false: no memory. */
static bool grow(lower *l, const void **array, uint32_t n, uint32_t *capacity, size_t element) {
  if (n < *capacity) return true;
  const uint32_t more = *capacity ? *capacity * 2 : 64;
  void *p = realloc((void *)*array, more * element);
  if (!p) return no_memory(l), false;
  *array = p;
  *capacity = more;
  return true;
}

/* ---- one of each ---- */

static uint64_t hash_of(const kit_graph_node *n, bool external) {
  uint64_t h = accel_hash(ACCEL_HASH_SEED, &n->op, 4);
  h = accel_hash(h, n->dim, sizeof n->dim);
  h = accel_hash(h, n->i, sizeof n->i);
  h = accel_hash(h, n->f, sizeof n->f);
  h = accel_hash(h, n->in, n->n_in * sizeof *n->in);
  if (external) return accel_hash(h, &n->data, sizeof n->data);
  return n->bytes ? accel_hash(h, n->data, n->bytes) : h;
}

static bool same(const kit_graph_node *a, const kit_graph_node *b, bool external) {
  if (a->op != b->op || a->dtype != b->dtype || a->rank != b->rank || a->n_in != b->n_in ||
      a->bytes != b->bytes || memcmp(a->dim, b->dim, sizeof a->dim) ||
      memcmp(a->i, b->i, sizeof a->i) || memcmp(a->f, b->f, sizeof a->f))
    return false;
  if (a->n_in && memcmp(a->in, b->in, a->n_in * sizeof *a->in)) return false;
  if (external) return a->data == b->data;
  return !a->bytes || !memcmp(a->data, b->data, a->bytes);
}

static bool rehash(lower *l, graph *g) {
  if (2 * (g->view.n_node + 1) < g->n_slot) return true;
  const uint32_t n = g->n_slot ? 2 * g->n_slot : 256;
  uint32_t *slot = calloc(n, sizeof *slot);
  if (!slot) return no_memory(l), false;
  for (uint32_t i = 0; i < g->n_slot; i++) {
    if (!g->slot[i]) continue;
    const kit_graph_node *node = &g->view.node[g->slot[i] - 1];
    /* whether its data are external is in n_i of constants */
    uint32_t at = (uint32_t)hash_of(node, node->op == KIT_GRAPH_CONSTANT && node->n_i) & (n - 1);
    while (slot[at]) at = (at + 1) & (n - 1);
    slot[at] = g->slot[i];
  }
  free(g->slot);
  g->slot = slot;
  g->n_slot = n;
  return true;
}

static int32_t intern(lower *l, const kit_graph_node *node) {
  graph *g = (graph *)l->g;
  const bool external = node->op == KIT_GRAPH_CONSTANT && node->n_i;
  if (l->rc || !rehash(l, g)) return 0;
  uint32_t at = (uint32_t)hash_of(node, external) & (g->n_slot - 1);
  for (; g->slot[at]; at = (at + 1) & (g->n_slot - 1))
    if (same(&g->view.node[g->slot[at] - 1], node, external)) return (int32_t)g->slot[at] - 1;
  if (!grow(l, (const void **)&g->view.node, g->view.n_node, &g->node_capacity, sizeof *node))
    return 0;
  kit_graph_node own = *node;
  if (own.n_in) own.in = keep(l, node->in, node->n_in * sizeof *node->in);
  if (own.bytes && !external) own.data = keep(l, node->data, node->bytes);
  if (l->rc) return 0;
  ((kit_graph_node *)g->view.node)[g->view.n_node] = own;
  g->slot[at] = ++g->view.n_node;
  return (int32_t)g->view.n_node - 1;
}

static uint8_t type_of(const lower *l, const kit_graph_node *like, const int32_t *in, uint32_t n) {
  switch (like->op) {
    case KIT_GRAPH_EQUAL:
    case KIT_GRAPH_NOT_EQUAL:
    case KIT_GRAPH_LESS:
    case KIT_GRAPH_LESS_EQUAL:
    case KIT_GRAPH_AND:
      return ACCEL_PLUGIN_BOOL;
    case KIT_GRAPH_SECOND:
      return ACCEL_PLUGIN_I32;
    case KIT_GRAPH_SELECT:
      return n > 1 ? l->g->node[in[1]].dtype : like->dtype;
    case KIT_GRAPH_CONVERT:
      return like->dtype;
    default:
      return n ? l->g->node[in[0]].dtype : like->dtype;
  }
}

int32_t lower_node(lower *l, const kit_graph_node *like, const int32_t *in, uint32_t n) {
  if (l->rc) return 0;
  kit_graph_node node = *like;
  node.in = in;
  node.n_in = n;
  node.dtype = type_of(l, like, in, n);
  return intern(l, &node);
}

int32_t lower_constant(lower *l, uint8_t dtype, uint8_t rank, const int64_t *dim, const void *data,
                       uint64_t bytes, bool external) {
  kit_graph_node node = {.op = KIT_GRAPH_CONSTANT,
                         .dtype = dtype,
                         .rank = rank,
                         .n_i = external,
                         .data = data,
                         .bytes = bytes};
  for (uint8_t i = 0; i < rank; i++) node.dim[i] = dim[i];
  return intern(l, &node);
}

int32_t lower_feed(lower *l, kit_feed_kind kind, int32_t index, uint8_t dtype, uint8_t rank,
                   const int64_t *dim) {
  graph *g = (graph *)l->g;
  kit_graph_node node = {
      .op = KIT_GRAPH_INPUT, .dtype = dtype, .rank = rank, .i = {kind, index}, .n_i = 2};
  for (uint8_t i = 0; i < rank; i++) node.dim[i] = dim[i];
  const uint32_t before = g->view.n_node;
  const int32_t at = intern(l, &node);
  if (l->rc || g->view.n_node == before) return at;
  if (!grow(l, (const void **)&g->view.feed, g->view.n_feed, &g->feed_capacity,
            sizeof *g->view.feed))
    return 0;
  ((kit_graph_feed *)g->view.feed)[g->view.n_feed++] =
      (kit_graph_feed){.kind = (uint8_t)kind, .index = index, .node = at};
  return at;
}

void lower_result(lower *l, kit_result_kind kind, int32_t index, int32_t node) {
  graph *g = (graph *)l->g;
  if (l->rc || !grow(l, (const void **)&g->view.result, g->view.n_result, &g->result_capacity,
                     sizeof *g->view.result))
    return;
  ((kit_graph_result *)g->view.result)[g->view.n_result++] =
      (kit_graph_result){.kind = (uint8_t)kind, .index = index, .node = node};
}

bool lower_check(lower *l, uint32_t operand, int64_t limit) {
  graph *g = (graph *)l->g;
  uint32_t input = 0;
  while (input < l->e->n_in && l->e->in[input] != kit_operand(l->n, operand)) input++;
  if (l->rc || input == l->e->n_in) return false;
  for (uint32_t i = 0; i < g->view.n_check; i++)
    if (g->view.check[i].input == (int32_t)input && g->view.check[i].limit <= limit) return true;
  if (!grow(l, (const void **)&g->view.check, g->view.n_check, &g->check_capacity,
            sizeof *g->view.check))
    return false;
  ((kit_graph_check *)g->view.check)[g->view.n_check++] =
      (kit_graph_check){.input = (int32_t)input, .limit = limit, .node = l->index};
  return true;
}

/* Element of KIT_FEED_SIZES, int64 [1]. */
static int32_t size_element(lower *l, kit_graph_size wanted) {
  graph *g = (graph *)l->g;
  if (l->r->run) {
    int64_t value = 0;
    if (!l->rc) l->rc = kit_graph_size_of(&wanted, l->r->run, &value, l->error);
    return lower_i64s(l, &value, 1);
  }
  uint32_t i = 0;
  while (i < g->view.n_size &&
         (g->view.size[i].dim != wanted.dim || g->view.size[i].space != wanted.space ||
          g->view.size[i].state != wanted.state))
    i++;
  if (i == g->view.n_size) {
    if (l->rc || !grow(l, (const void **)&g->view.size, i, &g->size_capacity, sizeof wanted))
      return 0;
    ((kit_graph_size *)g->view.size)[g->view.n_size++] = wanted;
  }
  const int32_t all = lower_feed(l, KIT_FEED_SIZES, 0, ACCEL_PLUGIN_I64, 1, (const int64_t[]){-1});
  const int64_t at = i;
  return lower_axis2(l, KIT_GRAPH_GATHER, all, lower_i64s(l, &at, 1), 0);
}

int32_t lower_size(lower *l, int32_t dim) {
  if (l->dim[dim] != ACCEL_DIM_UNBOUND) return lower_i64s(l, &l->dim[dim], 1);
  return size_element(l, (kit_graph_size){.dim = dim, .space = -1, .state = -1});
}

int32_t lower_longest(lower *l, int32_t space) {
  return size_element(l, (kit_graph_size){.dim = -1, .space = space, .state = -1});
}

int32_t lower_past(lower *l, int32_t state) {
  return size_element(l, (kit_graph_size){.dim = -1, .space = -1, .state = state});
}

/* ---- short forms ---- */

int32_t lower_op1(lower *l, kit_graph_op op, int32_t a) {
  return lower_node(l, &(kit_graph_node){.op = (uint8_t)op}, &a, 1);
}

int32_t lower_op2(lower *l, kit_graph_op op, int32_t a, int32_t b) {
  return lower_node(l, &(kit_graph_node){.op = (uint8_t)op}, (const int32_t[]){a, b}, 2);
}

int32_t lower_op3(lower *l, kit_graph_op op, int32_t a, int32_t b, int32_t c) {
  return lower_node(l, &(kit_graph_node){.op = (uint8_t)op}, (const int32_t[]){a, b, c}, 3);
}

int32_t lower_axis1(lower *l, kit_graph_op op, int32_t a, int64_t axis) {
  return lower_node(l, &(kit_graph_node){.op = (uint8_t)op, .i = {axis}, .n_i = 1}, &a, 1);
}

int32_t lower_axis2(lower *l, kit_graph_op op, int32_t a, int32_t b, int64_t axis) {
  return lower_node(l, &(kit_graph_node){.op = (uint8_t)op, .i = {axis}, .n_i = 1},
                    (const int32_t[]){a, b}, 2);
}

int32_t lower_matmul(lower *l, int32_t a, int32_t b, bool trans_b) {
  return lower_node(l, &(kit_graph_node){.op = KIT_GRAPH_MATMUL, .i = {0, trans_b}, .n_i = 2},
                    (const int32_t[]){a, b}, 2);
}

int32_t lower_convert(lower *l, int32_t a, uint8_t dtype) {
  if (lower_type(l, a) == dtype) return a;
  return lower_node(l, &(kit_graph_node){.op = KIT_GRAPH_CONVERT, .dtype = dtype}, &a, 1);
}

int32_t lower_concat(lower *l, const int32_t *in, uint32_t n, int64_t axis) {
  if (n == 1) return in[0];
  return lower_node(l, &(kit_graph_node){.op = KIT_GRAPH_CONCAT, .i = {axis}, .n_i = 1}, in, n);
}

int32_t lower_f32(lower *l, double value) {
  const float f = (float)value;
  return lower_constant(l, ACCEL_PLUGIN_F32, 0, NULL, &f, sizeof f, false);
}

int32_t lower_i32(lower *l, int32_t value) {
  return lower_constant(l, ACCEL_PLUGIN_I32, 0, NULL, &value, sizeof value, false);
}

int32_t lower_i64s(lower *l, const int64_t *v, uint32_t n) {
  return lower_constant(l, ACCEL_PLUGIN_I64, 1, (const int64_t[]){n}, v, n * sizeof *v, false);
}

int32_t lower_reduce(lower *l, kit_graph_op op, int32_t a, int64_t axis, bool keep) {
  return lower_node(l, &(kit_graph_node){.op = (uint8_t)op, .i = {keep}, .n_i = 1},
                    (const int32_t[]){a, lower_i64s(l, &axis, 1)}, 2);
}

int32_t lower_reshape(lower *l, int32_t a, const int64_t *pattern, uint32_t n) {
  return lower_op2(l, KIT_GRAPH_RESHAPE, a, lower_i64s(l, pattern, n));
}

int32_t lower_unsqueeze(lower *l, int32_t a, const int64_t *axes, uint32_t n) {
  return lower_op2(l, KIT_GRAPH_UNSQUEEZE, a, lower_i64s(l, axes, n));
}

int32_t lower_transpose(lower *l, int32_t a, const int64_t *perm, uint32_t n) {
  return lower_op2(l, KIT_GRAPH_TRANSPOSE, a, lower_i64s(l, perm, n));
}

int32_t lower_slice(lower *l, int32_t a, int64_t axis, int64_t start, int64_t end) {
  const int64_t one = 1;
  return lower_node(l, &(kit_graph_node){.op = KIT_GRAPH_SLICE},
                    (const int32_t[]){a, lower_i64s(l, &start, 1), lower_i64s(l, &end, 1),
                                      lower_i64s(l, &one, 1), lower_i64s(l, &axis, 1)},
                    5);
}
