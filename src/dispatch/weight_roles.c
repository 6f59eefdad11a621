/* weight_roles.c - what a program does with each of its weights (weight_roles.h). */
#include "dispatch/weight_roles.h"

#include <stdbool.h>

const char *const accel__layer_kinds[ACCEL__KIND_COUNT] = {"attention",   "linear", "experts",
                                                           "convolution", "head",   "embedding"};

/* of a tensor: the model gives it out; later nodes compute from it; attention reads it as q, k or
 * v; it is what attention gives */
enum { SEEN_RESULT = 1, SEEN_USED = 2, SEEN_QKV = 4, SEEN_ATTENDED = 8 };

/* Only cuts, reshapes, activates or adapts its first operand. */
static bool passes(const accel_plugin_node *n) {
  return n->op == ACCEL_PLUGIN_OP_RESHAPE || n->op == ACCEL_PLUGIN_OP_SLICE ||
         n->op == ACCEL_PLUGIN_OP_UNARY || n->op == ACCEL_PLUGIN_OP_LOW_RANK;
}

/* Does a node that passes pass operand k? */
static bool passes_operand(const accel_plugin_node *n, uint32_t k) {
  return k == 0 || (n->op != ACCEL_PLUGIN_OP_LOW_RANK && n->op != ACCEL_PLUGIN_OP_NORM);
}

/* The same, and what stands between a projection and attention: rotations, norms of heads, gates,
 * joined heads. */
static bool passes_heads(const accel_plugin_node *n) {
  switch (n->op) {
    case ACCEL_PLUGIN_OP_ROPE:
    case ACCEL_PLUGIN_OP_NORM:
    case ACCEL_PLUGIN_OP_BINARY:
    case ACCEL_PLUGIN_OP_CONCAT:
    case ACCEL_PLUGIN_OP_TRANSPOSE:
    case ACCEL_PLUGIN_OP_BROADCAST:
    case ACCEL_PLUGIN_OP_CAST:
      return true;
    default:
      return passes(n);
  }
}

static bool is_output(const accel_plugin_node *n, const uint8_t *seen, uint8_t what) {
  return n->n_out && n->out[0] >= 0 && seen[n->out[0]] & what;
}

/* A tensor that is only cut, reshaped or activated on its way out is a result, too; hidden states
 * that later layers read are both.  Nodes come after those they read from. */
static void mark_results(const accel_plugin_program *p, uint8_t *seen) {
  for (uint32_t e = 0; e < p->n_entry; e++)
    for (uint32_t k = 0; k < p->entry[e].n_out; k++) seen[p->entry[e].out[k]] |= SEEN_RESULT;
  for (uint32_t i = p->n_node; i-- > 0;) {
    const accel_plugin_node *n = &p->node[i];
    const bool result = passes(n) && n->n_out && n->out[0] >= 0 && seen[n->out[0]] == SEEN_RESULT;
    for (uint32_t k = 0; k < n->n_in; k++)
      if (n->in[k] >= 0) seen[n->in[k]] |= result && passes_operand(n, k) ? SEEN_RESULT : SEEN_USED;
  }
}

/* What becomes queries, keys and values, back to the linears that make them, and what becomes of
 * attention's result, on to those that read it. */
static void mark_attention(const accel_plugin_program *p, uint8_t *seen) {
  for (uint32_t i = p->n_node; i-- > 0;) {
    const accel_plugin_node *n = &p->node[i];
    const bool attention = n->op == ACCEL_PLUGIN_OP_ATTENTION;
    if (!attention && !(passes_heads(n) && is_output(n, seen, SEEN_QKV))) continue;
    for (uint32_t k = 0; k < n->n_in; k++) {
      /* q, k, v and the tables of relative positions; a norm's first operand */
      if (attention ? k > 2 && k < 8 : !passes_operand(n, k)) continue;
      if (n->in[k] >= 0) seen[n->in[k]] |= SEEN_QKV;
    }
  }
  for (uint32_t i = 0; i < p->n_node; i++) {
    const accel_plugin_node *n = &p->node[i];
    bool attended = n->op == ACCEL_PLUGIN_OP_ATTENTION;
    for (uint32_t k = 0; passes_heads(n) && k < n->n_in; k++)
      attended |= (k == 0 || n->op != ACCEL_PLUGIN_OP_LOW_RANK) && n->in[k] >= 0 &&
                  seen[n->in[k]] & SEEN_ATTENDED;
    if (attended && n->n_out && n->out[0] >= 0) seen[n->out[0]] |= SEEN_ATTENDED;
  }
}

static bool has_trans(const accel_plugin_node *n) {
  for (uint32_t a = 0; a < n->n_attr; a++)
    if (n->attr[a].key == ACCEL_PLUGIN_ATTR_TRANS && n->attr[a].i) return true;
  return false;
}

static uint8_t role_of(const accel_plugin_node *n, const uint8_t *seen) {
  const uint8_t out = seen[n->out[0]];
  uint8_t role = 0;
  if (has_trans(n)) role |= ACCEL__ROLE_TRANSPOSED;
  if ((out & (SEEN_RESULT | SEEN_USED)) == SEEN_RESULT) role |= ACCEL__ROLE_HEAD;
  if (out & SEEN_QKV || (n->in[0] >= 0 && seen[n->in[0]] & SEEN_ATTENDED))
    role |= ACCEL__ROLE_ATTENTION;
  return role;
}

accel_status accel__weight_roles(const accel_plugin_program *p, accel__arena *arena,
                                 uint8_t **role) {
  uint8_t *seen = accel__arena_array(arena, p->n_tensor, sizeof *seen);
  *role = accel__arena_array(arena, p->n_weight, sizeof **role);
  if (!seen || !*role) return ACCEL_ERROR_OUT_OF_MEMORY;
  mark_results(p, seen);
  mark_attention(p, seen);
  for (uint32_t i = 0; i < p->n_node; i++) {
    const accel_plugin_node *n = &p->node[i];
    if (n->op != ACCEL_PLUGIN_OP_LINEAR || n->out[0] < 0) continue;
    for (uint32_t k = 1; k < n->n_in; k++) { /* w, w_gate; biases are plain anyway */
      const int32_t t = n->in[k];
      if (t >= 0 && p->tensor[t].kind == ACCEL_PLUGIN_TENSOR_WEIGHT)
        (*role)[p->tensor[t].weight] |= role_of(n, seen);
    }
  }
  return ACCEL_OK;
}

accel__layer_kind accel__weight_kind(const accel_plugin_weight *weight, uint8_t role) {
  if (weight->rank < 2) return ACCEL__KIND_COUNT;
  switch (weight->use) {
    case ACCEL_PLUGIN_USE_LINEAR:
      return role & ACCEL__ROLE_HEAD        ? ACCEL__KIND_HEAD
             : role & ACCEL__ROLE_ATTENTION ? ACCEL__KIND_ATTENTION
                                            : ACCEL__KIND_LINEAR;
    case ACCEL_PLUGIN_USE_HEAD:
      return ACCEL__KIND_HEAD;
    case ACCEL_PLUGIN_USE_EMBEDDING:
      return ACCEL__KIND_EMBEDDING;
    case ACCEL_PLUGIN_USE_CONV:
      return ACCEL__KIND_CONVOLUTION;
    case ACCEL_PLUGIN_USE_MOE:
      return ACCEL__KIND_EXPERTS;
    default:
      return ACCEL__KIND_COUNT;
  }
}
