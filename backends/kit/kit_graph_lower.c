/* kit_graph_lower.c - an entry of a program becomes a graph: what is needed, values of tensors, row
 * spaces, sizes, and the order of the nodes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit_internal.h"
#include "kit/kit_lower.h"

/* ---- tensors ---- */

const accel_plugin_tensor *lower_tensor(const lower *l, uint32_t i) {
  const int32_t id = kit_operand(l->n, i);
  return id >= 0 ? &l->p->tensor[id] : NULL;
}

const accel_plugin_tensor *lower_out_tensor(const lower *l, uint32_t i) {
  const int32_t id = kit_result(l->n, i);
  return id >= 0 && l->need[id] ? &l->p->tensor[id] : NULL;
}

int64_t lower_dim(const lower *l, const accel_plugin_tensor *t, uint32_t axis) {
  const int64_t n = l->dim[t->dim[axis]];
  return n == ACCEL_DIM_UNBOUND ? -1 : n;
}

static int32_t input_value(lower *l, int32_t id) {
  const accel_plugin_tensor *t = &l->p->tensor[id];
  int64_t dim[ACCEL_PLUGIN_MAX_RANK];
  for (uint32_t i = 0; i < t->rank; i++) dim[i] = lower_dim(l, t, i);
  for (uint32_t i = 0; i < l->e->n_in; i++)
    if (l->e->in[i] == id) return lower_feed(l, KIT_FEED_INPUT, (int32_t)i, t->dtype, t->rank, dim);
  return lower_fail(l, "'%.80s' is no input of this entry", t->name);
}

static int32_t constant_value(lower *l, int32_t id) {
  const accel_plugin_tensor *t = &l->p->tensor[id];
  int64_t dim[ACCEL_PLUGIN_MAX_RANK], elements = 1;
  for (uint32_t i = 0; i < t->rank; i++) {
    dim[i] = lower_dim(l, t, i);
    if (dim[i] < 0) return lower_fail(l, "constant '%.80s' has no size", t->name);
    elements *= dim[i];
  }
  return lower_constant(l, t->dtype, t->rank, dim, t->data, (uint64_t)elements * 4, false);
}

int32_t lower_in(lower *l, uint32_t i) {
  const int32_t id = kit_operand(l->n, i);
  if (id < 0) return -1;
  if (l->value[id] >= 0) return l->value[id];
  switch (l->p->tensor[id].kind) {
    case ACCEL_PLUGIN_TENSOR_INPUT:
      return l->value[id] = input_value(l, id);
    case ACCEL_PLUGIN_TENSOR_CONST:
      return l->value[id] = constant_value(l, id);
    case ACCEL_PLUGIN_TENSOR_WEIGHT:
      return l->value[id] = lower_weight(l, (uint32_t)l->p->tensor[id].weight);
    default:
      return lower_fail(l, "operand %u is used before it is computed", i);
  }
}

void lower_out(lower *l, uint32_t i, int32_t node) {
  const int32_t id = kit_result(l->n, i);
  if (id >= 0) l->value[id] = node;
}

int32_t lower_reshape_dims(lower *l, int32_t x, const int32_t *dim, uint32_t n) {
  int64_t pattern[ACCEL_PLUGIN_MAX_RANK];
  uint32_t open = 0;
  for (uint32_t i = 0; i < n; i++) {
    pattern[i] = l->dim[dim[i]] == ACCEL_DIM_UNBOUND ? -1 : l->dim[dim[i]];
    open += pattern[i] < 0;
    if (!pattern[i]) return lower_fail(l, "a dim of the result is 0");
  }
  if (open <= 1) return lower_reshape(l, x, pattern, n);
  int32_t size[ACCEL_PLUGIN_MAX_RANK];
  for (uint32_t i = 0; i < n; i++) size[i] = lower_size(l, dim[i]);
  return lower_op2(l, KIT_GRAPH_RESHAPE, x, lower_concat(l, size, n, 0));
}

/* ---- row spaces ---- */

bool lower_ragged(const lower *l, int32_t space) {
  return space >= 0 && l->p->space[space].lengths >= 0;
}

int32_t lower_padded(lower *l, int32_t x, int32_t space, int64_t cols) {
  static const int64_t two[] = {-1, -1};
  const uint32_t n = cols ? 3 : 2;
  if (space < 0) return lower_reshape(l, x, (const int64_t[]){1, -1, cols}, n);
  if (lower_ragged(l, space))
    return lower_axis2(l, KIT_GRAPH_GATHER, x,
                       lower_feed(l, KIT_FEED_PAD, space, ACCEL_PLUGIN_I32, 2, two), 0);
  const int32_t rows = l->p->space[space].rows;
  if (l->dim[rows] != ACCEL_DIM_UNBOUND)
    return lower_reshape(l, x, (const int64_t[]){-1, l->dim[rows], cols}, n);
  const int64_t rest = -1;
  const int32_t size[] = {lower_i64s(l, &rest, 1), lower_size(l, rows), lower_i64s(l, &cols, 1)};
  return lower_op2(l, KIT_GRAPH_RESHAPE, x, lower_concat(l, size, n, 0));
}

int32_t lower_packed(lower *l, int32_t x, int32_t space, int64_t cols) {
  static const int64_t one[] = {-1};
  x = lower_reshape(l, x, (const int64_t[]){-1, cols}, cols ? 2 : 1);
  if (!lower_ragged(l, space)) return x;
  return lower_axis2(l, KIT_GRAPH_GATHER, x,
                     lower_feed(l, KIT_FEED_UNPAD, space, ACCEL_PLUGIN_I32, 1, one), 0);
}

int32_t lower_counted(lower *l, int64_t n, uint8_t rank, const int64_t *dim) {
  int32_t *number = malloc((size_t)(n + 1) * sizeof *number);
  if (!number) {
    if (!l->rc) l->rc = kit_no_memory(l->error, (uint64_t)n * sizeof *number);
    return 0;
  }
  for (int64_t i = 0; i < n; i++) number[i] = (int32_t)i;
  const int32_t out =
      lower_constant(l, ACCEL_PLUGIN_I32, rank, dim, number, (uint64_t)n * sizeof *number, false);
  free(number);
  return out;
}

int32_t lower_row(lower *l, int32_t space, const accel_plugin_tensor *t) {
  const int32_t index = space >= 0 ? space : KIT_FEED_DIM - t->dim[0];
  if (!lower_ragged(l, space)) {
    const int64_t n = l->dim[space >= 0 ? l->p->space[space].rows : t->dim[0]];
    if (n != ACCEL_DIM_UNBOUND) return lower_counted(l, n, 2, (const int64_t[]){1, n});
  }
  return lower_feed(l, KIT_FEED_ROW, index, ACCEL_PLUGIN_I32, 2, (const int64_t[]){1, -1});
}

int32_t lower_item(lower *l, int32_t space) {
  if (!l->r->run)
    return lower_feed(l, KIT_FEED_ITEM, space, ACCEL_PLUGIN_I32, 1, (const int64_t[]){-1});
  const int64_t n = l->r->run->rows[space].items;
  return lower_counted(l, n, 1, &n);
}

int32_t lower_valid(lower *l, int32_t space) {
  if (!lower_ragged(l, space)) return -1;
  return lower_op2(
      l, KIT_GRAPH_LESS, lower_row(l, space, NULL),
      lower_feed(l, KIT_FEED_LENGTH, space, ACCEL_PLUGIN_I32, 2, (const int64_t[]){-1, 1}));
}

/* ---- shapes as a launch ---- */

static bool shape(lower *l, int32_t id, kit_tensor *out) {
  *out = (kit_tensor){.id = -1, .weight = -1, .space = -1};
  if (id < 0) return true;
  for (uint32_t r = 0; r < l->p->tensor[id].rank; r++)
    if (l->dim[l->p->tensor[id].dim[r]] == ACCEL_DIM_UNBOUND && r > 0) return false;
  int64_t *first = &l->dim[l->p->tensor[id].dim[0]], was = *first;
  if (l->p->tensor[id].rank && was == ACCEL_DIM_UNBOUND) *first = 1; /* items: any number will do */
  const int32_t rc = kit_shape(l->p, l->dim, id, out, l->error);
  *first = was;
  return !rc;
}

bool lower_launch(lower *l, kit_tensor *in, kit_tensor *out, kit_launch *launch) {
  bool known = true;
  for (uint32_t i = 0; i < KIT_OPERANDS; i++) known &= shape(l, kit_operand(l->n, i), &in[i]);
  for (uint32_t i = 0; i < KIT_RESULTS; i++) known &= shape(l, kit_result(l->n, i), &out[i]);
  *launch = (kit_launch){.program = l->p,
                         .node = l->n,
                         .index = l->index,
                         .n_in = KIT_OPERANDS,
                         .n_out = KIT_RESULTS,
                         .in = in,
                         .out = out,
                         .dim = l->dim};
  if (!known) lower_fail(l, "its spatial sizes do not follow from the shapes that are folded");
  return known;
}

/* ---- symbols ---- */

/* Sets the mark of each symbol that a dim depends on. */
static void mark(const accel_plugin_program *p, int32_t dim, uint8_t *folded, uint8_t value) {
  const accel_plugin_dim *d = &p->dim[dim];
  if (d->op == ACCEL_PLUGIN_DIM_CONST) return;
  if (d->op == ACCEL_PLUGIN_DIM_SYMBOL) {
    folded[d->a] = value;
    return;
  }
  mark(p, d->a, folded, value);
  mark(p, d->b, folded, value);
}

void kit_graph_folds(const accel_plugin_program *p, uint8_t *folded) {
  memset(folded, 1, p->n_symbol);
  for (uint32_t i = 0; i < p->n_space; i++) {
    mark(p, p->space[i].items, folded, 0);
    if (p->space[i].lengths >= 0) mark(p, p->space[i].rows, folded, 0);
  }
  for (uint32_t i = 0; i < p->n_tensor; i++) {
    const accel_plugin_tensor *t = &p->tensor[i];
    if (t->kind != ACCEL_PLUGIN_TENSOR_INPUT || t->dtype != ACCEL_PLUGIN_F32) continue;
    for (uint32_t k = 1; t->rank > 2 && k < t->rank; k++) mark(p, t->dim[k], folded, 1);
  }
}

/* ---- the entry ---- */

static bool changes_state(const accel_plugin_node *n) {
  return n->state >= 0 && !kit_attr_i(n, ACCEL_PLUGIN_ATTR_STATE_STATIC, 0);
}

static void mark_needed(lower *l, uint8_t *run) {
  for (uint32_t i = 0; i < l->e->n_out; i++)
    if (l->r->wanted[i]) l->need[l->e->out[i]] = 1;
  for (uint32_t i = l->e->n_node; i-- > 0;) {
    const accel_plugin_node *n = &l->p->node[l->e->node[i]];
    run[i] = changes_state(n);
    for (uint32_t k = 0; k < n->n_out; k++) run[i] |= n->out[k] >= 0 && l->need[n->out[k]];
    for (uint32_t k = 0; run[i] && k < n->n_in; k++)
      if (n->in[k] >= 0) l->need[n->in[k]] = 1;
  }
}

static void lower_entry(lower *l, const uint8_t *run) {
  static void (*const table[ACCEL_PLUGIN_OP_COUNT + 1])(lower *) = {
#define ACCEL_OP(NAME, number, operands, outputs, attributes, text) [number] = lower_##NAME,
#include "accel/ops.def"
  };
  for (uint32_t i = 0; !l->rc && i < l->e->n_node; i++) {
    if (!run[i]) continue;
    char why[160] = "";
    l->index = (uint32_t)l->e->node[i];
    l->n = &l->p->node[l->index];
    if (kit_graph_support(l->p, l->n, why, sizeof why) == ACCEL_PLUGIN_NO)
      lower_fail(l, "%s", why);
    else
      table[l->n->op](l);
  }
  for (uint32_t i = 0; !l->rc && i < l->e->n_out; i++) {
    const int32_t id = l->e->out[i];
    if (!l->r->wanted[i]) continue;
    const accel_plugin_node as_operand = {.n_in = 1, .in = &id}; /* also weights and inputs */
    l->n = &as_operand;
    const int32_t value = lower_in(l, 0);
    lower_result(l, KIT_RESULT_OUTPUT, (int32_t)i, value);
  }
}

static void free_lower(lower *l, uint8_t *run) {
  free(l->dim);
  free(l->value);
  free(l->need);
  free(l->weight_value);
  free(l->appended);
  free(run);
}

int32_t kit_graph_lower(const kit_graph_request *r, kit_graph **out, accel_plugin_error *error) {
  const accel_plugin_program *p = r->program;
  lower l = {.r = r, .p = p, .e = &p->entry[r->entry], .error = error, .g = kit_graph_new()};
  int64_t *symbol = calloc(p->n_symbol + 1, sizeof *symbol);
  uint8_t *run = calloc(l.e->n_node + 1, 1);
  l.dim = calloc(p->n_dim + 1, sizeof *l.dim);
  l.value = malloc((p->n_tensor + 1) * sizeof *l.value);
  l.need = calloc(p->n_tensor + 1, 1);
  l.weight_value = malloc((p->n_weight + 1) * sizeof *l.weight_value);
  l.appended = malloc((p->n_state + 1) * sizeof *l.appended);
  *out = NULL;
  if (!l.g || !symbol || !run || !l.dim || !l.value || !l.need || !l.weight_value || !l.appended) {
    l.rc = kit_no_memory(error, p->n_tensor);
  } else {
    for (uint32_t i = 0; i < p->n_symbol; i++)
      symbol[i] = r->folded[i] ? r->symbol[i] : ACCEL_DIM_UNBOUND;
    accel_dims_evaluate(p, symbol, l.dim);
    for (uint32_t i = 0; i < p->n_tensor; i++) l.value[i] = -1;
    for (uint32_t i = 0; i < p->n_weight; i++) l.weight_value[i] = -1;
    for (uint32_t i = 0; i < p->n_state; i++) l.appended[i].k = -1;
    mark_needed(&l, run);
    lower_entry(&l, run);
  }
  if (l.rc)
    kit_graph_free(l.g);
  else
    *out = l.g;
  free(symbol);
  free_lower(&l, run);
  return l.rc;
}
