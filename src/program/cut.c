/* cut.c - a program cut between stages. */
#include "program/cut.h"

#include <stdlib.h>
#include <string.h>

#include "shared/dim_expr.h"

enum { NOWHERE = -1 };

/* ---- the stages that nodes count to ---- */

static bool raise_to(uint32_t *stage, uint32_t least) {
  if (*stage >= least) return false;
  *stage = least;
  return true;
}

/* The memory of a state: its own, or that of the one it shares. */
static int32_t state_root(const accel_plugin_program *p, int32_t state) {
  return state >= 0 && p->state[state].share >= 0 ? p->state[state].share : state;
}

accel_status accel__program_node_stages(const accel_plugin_program *p, uint32_t *stage) {
  const size_t n = (size_t)p->n_tensor + p->n_state + 1;
  uint32_t *of_tensor = calloc(n, sizeof *of_tensor);
  if (!of_tensor) return accel__no_memory(n * sizeof *of_tensor);
  uint32_t *of_state = of_tensor + p->n_tensor;
  for (uint32_t i = 0; i < p->n_node; i++) stage[i] = p->node[i].stage;
  for (bool again = true; again;) { /* only states can look back, so this ends soon */
    again = false;
    for (uint32_t i = 0; i < p->n_node; i++) {
      const accel_plugin_node *node = &p->node[i];
      const int32_t state = state_root(p, node->state);
      for (uint32_t k = 0; k < node->n_in; k++)
        if (node->in[k] >= 0) raise_to(&stage[i], of_tensor[node->in[k]]);
      if (state >= 0) raise_to(&stage[i], of_state[state]);
      if (state >= 0 && raise_to(&of_state[state], stage[i])) again = true;
      for (uint32_t k = 0; k < node->n_out; k++)
        if (node->out[k] >= 0) raise_to(&of_tensor[node->out[k]], stage[i]);
    }
  }
  free(of_tensor);
  return ACCEL_OK;
}

/* ---- what all parts look at ---- */

typedef struct cutter {
  const accel_plugin_program *p;
  accel__arena *arena;
  int32_t *node_part;   /* [n_node]; NOWHERE: in no entry */
  int32_t *tensor_part; /* [n_tensor] of the node that computes it; NOWHERE: none does */
  uint8_t *mark;        /* [n_tensor] scratch */
  int64_t *symbol, *dim;
  const int64_t *sample; /* [n_dim] values of all dims for some values of the symbols */
} cutter;

static void sample_dims(const accel_plugin_program *p, int64_t *symbol, int64_t *dim) {
  for (uint32_t i = 0; i < p->n_symbol; i++)
    symbol[i] = p->symbol[i].typical > 0 ? p->symbol[i].typical : 1;
  accel_dims_evaluate(p, symbol, dim);
}

static accel_status cutter_new(const accel_plugin_program *p, const uint32_t *last,
                               accel__arena *arena, cutter *c) {
  uint32_t *stage = accel__arena_array(arena, p->n_node + 1u, sizeof *stage);
  int64_t *sample = accel__arena_array(arena, p->n_dim + 1u, sizeof *sample);
  *c = (cutter){.p = p,
                .arena = arena,
                .node_part = accel__arena_array(arena, p->n_node + 1u, sizeof *c->node_part),
                .tensor_part = accel__arena_array(arena, p->n_tensor + 1u, sizeof *c->tensor_part),
                .mark = accel__arena_alloc(arena, p->n_tensor + 1u),
                .symbol = accel__arena_array(arena, p->n_symbol + 1u, sizeof *c->symbol),
                .dim = accel__arena_array(arena, p->n_dim + 1u, sizeof *c->dim),
                .sample = sample};
  if (!stage || !sample || !c->node_part || !c->tensor_part || !c->mark || !c->symbol || !c->dim)
    return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__program_node_stages(p, stage));
  sample_dims(p, c->symbol, sample);
  for (uint32_t i = 0; i < p->n_tensor; i++) c->tensor_part[i] = NOWHERE;
  for (uint32_t i = 0; i < p->n_node; i++) c->node_part[i] = NOWHERE;
  for (uint32_t e = 0; e < p->n_entry; e++)
    for (uint32_t i = 0; i < p->entry[e].n_node; i++) {
      const int32_t at = p->entry[e].node[i];
      const accel_plugin_node *node = &p->node[at];
      c->node_part[at] = 0;
      while (stage[at] > last[c->node_part[at]]) c->node_part[at]++;
      for (uint32_t k = 0; k < node->n_out; k++)
        if (node->out[k] >= 0) c->tensor_part[node->out[k]] = c->node_part[at];
    }
  return ACCEL_OK;
}

/* ---- one entry of one part ---- */

/* An entry of a part while it is made: mark[t] says what tensor t is to it. */
enum { USED = 1, CROSSES_IN = 2, CROSSES_OUT = 4, LENGTHS = 8 };

static void mark_space(cutter *c, int64_t space) {
  if (space >= 0 && space < (int64_t)c->p->n_space && c->p->space[space].lengths >= 0)
    c->mark[c->p->space[space].lengths] |= LENGTHS;
}

static bool names_space(const accel_plugin_attr *a) {
  return a->key == ACCEL_PLUGIN_ATTR_Q_SPACE || a->key == ACCEL_PLUGIN_ATTR_KV_SPACE ||
         a->key == ACCEL_PLUGIN_ATTR_SPACE;
}

static void mark_node(cutter *c, const accel_plugin_node *node, int32_t k) {
  for (uint32_t i = 0; i < node->n_in; i++) {
    const int32_t t = node->in[i];
    if (t < 0) continue;
    const int32_t from = c->tensor_part[t];
    c->mark[t] |= from == NOWHERE || from == k ? USED : CROSSES_IN;
    mark_space(c, c->p->tensor[t].space);
  }
  for (uint32_t i = 0; i < node->n_out; i++)
    if (node->out[i] >= 0) mark_space(c, c->p->tensor[node->out[i]].space);
  for (uint32_t i = 0; i < node->n_attr; i++)
    if (names_space(&node->attr[i])) mark_space(c, node->attr[i].i);
}

/* Marks what the part's nodes of the entry touch; answers how many nodes there are. */
static uint32_t mark_entry(cutter *c, const accel_plugin_entry *e, int32_t k) {
  uint32_t n = 0;
  memset(c->mark, 0, c->p->n_tensor);
  for (uint32_t i = 0; i < e->n_node; i++) {
    const accel_plugin_node *node = &c->p->node[e->node[i]];
    const int32_t part = c->node_part[e->node[i]];
    if (part == k) mark_node(c, node, k), n++;
    for (uint32_t j = 0; part > k && j < node->n_in; j++)
      if (node->in[j] >= 0 && c->tensor_part[node->in[j]] == k) c->mark[node->in[j]] |= CROSSES_OUT;
  }
  return n;
}

static bool dim_bound(const cutter *c, int64_t dim) { return c->dim[dim] != ACCEL_DIM_UNBOUND; }

static bool tensor_bound(const cutter *c, int32_t t) {
  bool bound = true;
  for (uint32_t r = 0; t >= 0 && bound && r < c->p->tensor[t].rank; r++)
    bound = dim_bound(c, c->p->tensor[t].dim[r]);
  const int32_t space = t >= 0 ? c->p->tensor[t].space : -1;
  return bound && (space < 0 || (dim_bound(c, c->p->space[space].rows) &&
                                 dim_bound(c, c->p->space[space].items)));
}

static bool node_bound(const cutter *c, const accel_plugin_node *node) {
  bool bound = true;
  for (uint32_t i = 0; bound && i < node->n_in; i++) bound = tensor_bound(c, node->in[i]);
  for (uint32_t i = 0; bound && i < node->n_out; i++) bound = tensor_bound(c, node->out[i]);
  for (uint32_t i = 0; bound && i < node->n_attr; i++) {
    const accel_plugin_attr *a = &node->attr[i];
    for (uint32_t j = 0; bound && a->type == ACCEL_PLUGIN_ATTR_D && j < a->n; j++)
      bound = dim_bound(c, a->v[j]);
    if (bound && names_space(a) && a->i >= 0)
      bound = dim_bound(c, c->p->space[a->i].rows) && dim_bound(c, c->p->space[a->i].items);
  }
  return bound;
}

/* Do the shapes of the inputs so far tell every dim of the part's nodes? */
static accel_status binds(cutter *c, const accel_plugin_entry *e, int32_t k, const int32_t *in,
                          uint32_t n_in, bool *bound) {
  const accel_plugin_entry as = {.in = in, .n_in = n_in};
  accel_dims_misfit misfit;
  accel_plugin_view *view = calloc(n_in + 1u, sizeof *view);
  if (!view) return accel__no_memory(n_in * sizeof *view);
  for (uint32_t i = 0; i < n_in; i++)
    for (uint32_t r = 0; r < c->p->tensor[in[i]].rank; r++)
      view[i].dim[r] = c->sample[c->p->tensor[in[i]].dim[r]];
  accel_dims_bind(c->p, &as, view, c->symbol, c->dim, &misfit);
  free(view);
  *bound = true;
  for (uint32_t i = 0; *bound && i < e->n_node; i++)
    if (c->node_part[e->node[i]] == k) *bound = node_bound(c, &c->p->node[e->node[i]]);
  return ACCEL_OK;
}

/* The inputs of the part's entry: those of the whole's that its nodes read, those that are needed
 * to tell lengths and dims, and values of earlier parts. */
static accel_status entry_inputs(cutter *c, const accel_plugin_entry *e, int32_t k,
                                 accel_plugin_entry *out, accel__part_entry *map) {
  uint32_t n = 0, cross = 0;
  for (uint32_t t = 0; t < c->p->n_tensor; t++) cross += (c->mark[t] & CROSSES_IN) != 0;
  int32_t *in = accel__arena_array(c->arena, e->n_in + cross + 1u, sizeof *in),
          *from = accel__arena_array(c->arena, e->n_in + cross + 1u, sizeof *from);
  bool bound;
  if (!in || !from) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t t = 0; t < c->p->n_tensor; t++)
    if (c->mark[t] & CROSSES_IN) in[n] = (int32_t)t, from[n++] = -1;
  for (uint32_t i = 0; i < e->n_in; i++)
    if (c->mark[e->in[i]] & (USED | LENGTHS)) in[n] = e->in[i], from[n++] = (int32_t)i;
  ACCEL_TRY(binds(c, e, k, in, n, &bound));
  for (uint32_t i = 0; !bound && i < e->n_in; i++) {
    if (c->mark[e->in[i]] & (USED | LENGTHS)) continue;
    in[n] = e->in[i], from[n++] = (int32_t)i;
    ACCEL_TRY(binds(c, e, k, in, n, &bound));
  }
  out->in = in;
  out->n_in = n;
  map->in = from;
  return ACCEL_OK;
}

static accel_status entry_outputs(cutter *c, const accel_plugin_entry *e, int32_t k,
                                  accel_plugin_entry *out, accel__part_entry *map) {
  uint32_t n = 0, cross = 0;
  for (uint32_t t = 0; t < c->p->n_tensor; t++) cross += (c->mark[t] & CROSSES_OUT) != 0;
  int32_t *list = accel__arena_array(c->arena, e->n_out + cross + 1u, sizeof *list),
          *to = accel__arena_array(c->arena, e->n_out + cross + 1u, sizeof *to);
  if (!list || !to) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < e->n_out; i++)
    if (c->tensor_part[e->out[i]] == k) list[n] = e->out[i], to[n++] = (int32_t)i;
  for (uint32_t t = 0; t < c->p->n_tensor; t++)
    if (c->mark[t] & CROSSES_OUT) list[n] = (int32_t)t, to[n++] = -1;
  out->out = list;
  out->n_out = n;
  map->out = to;
  return ACCEL_OK;
}

/* ---- one part ---- */

/* index[i]: node i of the whole in the part. */
static accel_status cut_entries(cutter *c, int32_t k, const int32_t *index, accel__part *part) {
  const accel_plugin_program *p = c->p;
  accel_plugin_entry *entry = accel__arena_array(c->arena, p->n_entry, sizeof *entry);
  accel__part_entry *map = accel__arena_array(c->arena, p->n_entry, sizeof *map);
  uint32_t n = 0;
  if (!entry || !map) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t e = 0; e < p->n_entry; e++) {
    const accel_plugin_entry *whole = &p->entry[e];
    const uint32_t n_node = mark_entry(c, whole, k);
    map[e].index = -1;
    if (!n_node) continue;
    int32_t *node = accel__arena_array(c->arena, n_node, sizeof *node);
    if (!node) return ACCEL_ERROR_OUT_OF_MEMORY;
    entry[n] = (accel_plugin_entry){.name = whole->name, .node = node};
    for (uint32_t i = 0; i < whole->n_node; i++) {
      if (c->node_part[whole->node[i]] != k) continue;
      node[entry[n].n_node++] = index[whole->node[i]];
      map[e].has_state |= p->node[whole->node[i]].state >= 0;
    }
    ACCEL_TRY(entry_inputs(c, whole, k, &entry[n], &map[e]));
    ACCEL_TRY(entry_outputs(c, whole, k, &entry[n], &map[e]));
    map[e].index = (int32_t)n++;
  }
  part->program.entry = entry;
  part->program.n_entry = n;
  part->entry = map;
  return ACCEL_OK;
}

/* States of the part's nodes, and of those that they share, renumbered. */
static accel_status cut_states(cutter *c, accel_plugin_node *node, accel_plugin_program *out) {
  const accel_plugin_program *p = c->p;
  int32_t *index = accel__arena_array(c->arena, p->n_state + 1u, sizeof *index);
  accel_plugin_state *state = accel__arena_array(c->arena, p->n_state + 1u, sizeof *state);
  uint32_t n = 0;
  if (!index || !state) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < out->n_node; i++) {
    if (node[i].state < 0) continue;
    index[node[i].state] = index[state_root(p, node[i].state)] = 1;
  }
  for (uint32_t i = 0; i < p->n_state; i++) {
    const bool here = index[i];
    index[i] = (int32_t)n;
    if (here) state[n++] = p->state[i];
  }
  for (uint32_t i = 0; i < n; i++)
    if (state[i].share >= 0) state[i].share = index[state[i].share];
  for (uint32_t i = 0; i < out->n_node; i++)
    if (node[i].state >= 0) node[i].state = index[node[i].state];
  out->state = state;
  out->n_state = n;
  return ACCEL_OK;
}

/* Tensors keep their numbers: what the part reads of others becomes an input, its weights are
 * renumbered, and what it has no use for is a value that nothing computes. */
static accel_status cut_tensors(cutter *c, int32_t k, accel__part *part) {
  const accel_plugin_program *p = c->p;
  accel_plugin_program *out = &part->program;
  accel_plugin_tensor *tensor = accel__arena_array(c->arena, p->n_tensor + 1u, sizeof *tensor);
  accel_plugin_weight *weight = accel__arena_array(c->arena, p->n_weight + 1u, sizeof *weight);
  uint32_t *from = accel__arena_array(c->arena, p->n_weight + 1u, sizeof *from);
  uint32_t n = 0;
  if (!tensor || !weight || !from) return ACCEL_ERROR_OUT_OF_MEMORY;
  memset(c->mark, 0, p->n_tensor);
  for (uint32_t i = 0; i < out->n_node; i++)
    for (uint32_t j = 0; j < out->node[i].n_in; j++)
      if (out->node[i].in[j] >= 0) c->mark[out->node[i].in[j]] = USED;
  for (uint32_t t = 0; t < p->n_tensor; t++) {
    const bool elsewhere = c->tensor_part[t] != NOWHERE && c->tensor_part[t] != k;
    tensor[t] = p->tensor[t];
    if (tensor[t].kind == ACCEL_PLUGIN_TENSOR_WEIGHT && c->mark[t]) {
      weight[n] = p->weight[tensor[t].weight];
      from[n] = (uint32_t)tensor[t].weight;
      tensor[t].weight = (int32_t)n++;
    } else if (tensor[t].kind != ACCEL_PLUGIN_TENSOR_INPUT && !c->mark[t]) {
      tensor[t].kind = ACCEL_PLUGIN_TENSOR_VALUE;
      tensor[t].weight = -1;
      tensor[t].data = NULL;
    }
    if (elsewhere && c->mark[t]) tensor[t].kind = ACCEL_PLUGIN_TENSOR_INPUT;
  }
  out->tensor = tensor;
  out->weight = weight;
  out->n_weight = n;
  part->weight = from;
  return ACCEL_OK;
}

static accel_status cut_part(cutter *c, int32_t k, accel__part *part) {
  const accel_plugin_program *p = c->p;
  accel_plugin_node *node = accel__arena_array(c->arena, p->n_node + 1u, sizeof *node);
  uint32_t *from = accel__arena_array(c->arena, p->n_node + 1u, sizeof *from);
  int32_t *index = accel__arena_array(c->arena, p->n_node + 1u, sizeof *index);
  uint32_t n = 0;
  if (!node || !from || !index) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < p->n_node; i++) {
    if (c->node_part[i] != k) continue;
    index[i] = (int32_t)n;
    from[n] = i;
    node[n++] = p->node[i];
  }
  if (!n)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s cannot be cut so: stages %u to %u compute nothing of their own", p->name,
                       part->first_stage, part->last_stage);
  const uint64_t identity[] = {p->hash, part->first_stage, part->last_stage};
  part->program = *p;
  part->program.hash = accel__hash(identity, sizeof identity, 6);
  part->program.node = node;
  part->program.n_node = n;
  part->node = from;
  ACCEL_TRY(cut_states(c, node, &part->program));
  ACCEL_TRY(cut_tensors(c, k, part));
  return cut_entries(c, k, index, part);
}

accel_status accel__program_cut(const accel_plugin_program *p, const uint32_t *last, uint32_t n,
                                accel__arena *arena, accel__part *part) {
  cutter c;
  for (uint32_t k = 0; k < n; k++)
    if ((k && last[k] <= last[k - 1]) || (k + 1 == n && last[k] + 1 != p->n_stage))
      return accel__fail(ACCEL_ERROR_ARGUMENT,
                         "%s has %u stages, which cannot be cut so: part %u ends at stage %u",
                         p->name, p->n_stage, k, last[k]);
  ACCEL_TRY(cutter_new(p, last, arena, &c));
  for (uint32_t k = 0; k < n; k++) {
    part[k] = (accel__part){.first_stage = k ? last[k - 1] + 1 : 0, .last_stage = last[k]};
    ACCEL_TRY(cut_part(&c, (int32_t)k, &part[k]));
  }
  return ACCEL_OK;
}
