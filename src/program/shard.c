/* shard.c - tensor parallelism: a program becomes that of one of several ranks, which compute it
 * together.
 *
 * A linear whose operand can be computed in parts (heads of attention, columns between the two
 * linears of an MLP) reads the columns of its weight that belong to this rank's part; its result is
 * an addend, and an ALLREDUCE behind it makes the whole.  What stands in front, back to the linears
 * that begin the part, is computed for the part alone: those read rows of their weights.  Experts
 * are cut along their inner columns; the head over the vocabulary, and tables of embeddings, by the
 * vocabulary.  Everything else every rank computes alike, so the values between are the same on all
 * ranks (Shoeybi et al., Megatron-LM, 2019).
 *
 * Whether something can be computed in parts is found backwards from each linear, op by op
 * (shard_split.c); where an op cannot, the rank computes its whole result and slices it.
 */
#include <stdlib.h>
#include <string.h>

#include "program/shard.h"

enum {
  MAX_IN = ACCEL__MAX_OPERANDS,
  MAX_DEPTH = 256,
  LEAST_ROWS = 8192 /* of a table for whose memory one more sum is worth while */
};

void accel__program_shard(accel__program *p, uint32_t rank, uint32_t world) {
  p->rank = rank;
  p->world = world;
}

int64_t accel__program_undivided(const accel__program *p) { return p->undivided; }

static bool fits(const accel_plugin_node *n) { return n->n_in <= MAX_IN; }

/* ---- what is needed ---- */

static void mark_live(accel__sharder *s) {
  const accel__program *p = s->p;
  for (uint32_t i = 0; i < p->n_tensor; i++) s->producer[i] = -1;
  for (uint32_t e = 0; e < p->n_entry; e++)
    for (uint32_t k = 0; k < p->entry[e].n_out; k++) {
      s->kept[p->entry[e].out[k]] = 1;
      s->producer[p->entry[e].out[k]] = 0; /* wanted, for now */
    }
  for (uint32_t i = p->n_node; i-- > 0;) {
    const accel_plugin_node *n = &p->node[i];
    for (uint32_t k = 0; k < n->n_out; k++)
      if (n->out[k] >= 0 && s->producer[n->out[k]] >= 0) s->live[i] = 1;
    for (uint32_t k = 0; s->live[i] && k < n->n_in; k++)
      if (n->in[k] >= 0) s->producer[n->in[k]] = 0;
  }
  for (uint32_t i = 0; i < p->n_tensor; i++) s->producer[i] = -1;
  for (uint32_t i = 0; i < p->n_node; i++)
    for (uint32_t k = 0; s->live[i] && k < p->node[i].n_out; k++)
      if (p->node[i].out[k] >= 0) s->producer[p->node[i].out[k]] = (int32_t)i;
}

/* ---- finding parts ---- */

/* Marks `t` and what it is made of as computed in parts; false: it stays whole, and whoever wants a
 * part slices it. */
static bool trace(accel__sharder *s, int32_t t, const accel__split *want, uint32_t depth) {
  accel__program *p = s->p;
  accel__split in[MAX_IN];
  if (want->axis < 0 || t < 0) return true;
  if (s->kept[t] || s->producer[t] < 0 || depth == MAX_DEPTH) return false;
  if (s->split[t].axis >= 0) {
    s->gain++;
    if (!accel__split_same(&s->split[t], want)) s->kept[t] = 1; /* seen by `settle` */
    return !s->kept[t];
  }
  const accel_plugin_node *n = &p->node[s->producer[t]];
  if (s->sums[s->producer[t]] || s->gathers[s->producer[t]] || !fits(n) || n->out[0] != t ||
      !accel__split_operands(s, n, want, in))
    return false;
  if (n->op == ACCEL_PLUGIN_OP_LINEAR || n->op == ACCEL_PLUGIN_OP_ATTENTION) s->gain++;
  s->split[t] = *want;
  if (n->n_out > 1 && n->out[1] >= 0) s->split[n->out[1]] = *want;
  for (uint32_t k = 0; k < n->n_in; k++) trace(s, n->in[k], &in[k], depth + 1);
  return true;
}

/* Does the rank compute a part of `t`, which is read here as `want`?  Keeps it whole where that is
 * not so everywhere. */
static bool agrees(accel__sharder *s, int32_t t, const accel__split *want) {
  if (t < 0 || s->split[t].axis < 0) return true;
  if (!s->kept[t] && want && accel__split_same(&s->split[t], want)) return true;
  s->kept[t] = 1;
  return false;
}

/* What each reader of a part expects; false: something more stays whole. */
static bool settle(accel__sharder *s) {
  const accel__program *p = s->p;
  accel__split in[MAX_IN];
  bool settled = true;
  for (uint32_t i = 0; i < p->n_node; i++) {
    const accel_plugin_node *n = &p->node[i];
    bool known = false;
    if (!s->live[i]) continue;
    if (s->sums[i])
      known = accel__split_sum(s, n, in);
    else if (n->out[0] >= 0 && s->split[n->out[0]].axis >= 0)
      known = fits(n) && accel__split_operands(s, n, &s->split[n->out[0]], in);
    for (uint32_t k = 0; k < n->n_in; k++) settled &= agrees(s, n->in[k], known ? &in[k] : NULL);
  }
  for (uint32_t e = 0; e < p->n_entry; e++)
    for (uint32_t k = 0; k < p->entry[e].n_out; k++) settled &= agrees(s, p->entry[e].out[k], NULL);
  return settled;
}

/* A state belongs to attentions that are all computed by heads, or none is. */
static bool settle_states(accel__sharder *s) {
  const accel__program *p = s->p;
  bool settled = true;
  for (uint32_t i = 0; i < p->n_node; i++) {
    const accel_plugin_node *a = &p->node[i];
    if (!s->live[i] || a->state < 0 || s->split[a->out[0]].axis >= 0) continue;
    for (uint32_t k = 0; k < p->n_node; k++) {
      const accel_plugin_node *b = &p->node[k];
      if (!s->live[k] || b->state < 0 || s->split[b->out[0]].axis < 0) continue;
      const int32_t one = p->state[a->state].share >= 0 ? p->state[a->state].share : a->state,
                    two = p->state[b->state].share >= 0 ? p->state[b->state].share : b->state;
      if (one != two) continue;
      s->kept[b->out[0]] = 1;
      settled = false;
    }
  }
  return settled;
}

static bool try_sum(accel__sharder *s, uint32_t i) {
  const accel_plugin_node *n = &s->p->node[i];
  accel__split in[MAX_IN];
  if (!s->live[i] || !fits(n) || s->split[n->out[0]].axis >= 0) return true;
  if (n->op != ACCEL_PLUGIN_OP_MOE && n->op != ACCEL_PLUGIN_OP_LINEAR) return true;
  if (!accel__split_sum(s, n, in)) return true;
  if (n->op == ACCEL_PLUGIN_OP_LINEAR) {
    s->gain = 0;
    if (!trace(s, n->in[0], &in[0], 0)) return true;
    if (!s->gain) s->kept[n->in[0]] = 1; /* nothing but slices would be had by it */
    if (!s->gain) return false;
  }
  s->sums[i] = 1;
  return true;
}

/* The product over the vocabulary, whose result is one of the model's: by its columns. */
static void find_gathers(accel__sharder *s) {
  const accel__program *p = s->p;
  for (uint32_t i = 0; i < p->n_node; i++) {
    const accel_plugin_node *n = &p->node[i];
    const int32_t w = n->op == ACCEL_PLUGIN_OP_LINEAR ? n->in[1] : -1;
    if (!s->live[i] || w < 0 || p->tensor[w].weight < 0 || s->sums[i] ||
        s->split[n->out[0]].axis >= 0)
      continue;
    const uint32_t use = p->weight[p->tensor[w].weight].use;
    s->gathers[i] = (use == ACCEL_PLUGIN_USE_HEAD || use == ACCEL_PLUGIN_USE_EMBEDDING) &&
                    !accel__node_attr_int(n, ACCEL_PLUGIN_ATTR_GLU, 0) &&
                    accel__node_in(n, 3) < 0 &&
                    accel__axis_size(p, n->out[0], p->tensor[n->out[0]].rank - 1) >= s->world;
  }
}

static bool is_lookup(const accel_plugin_node *n) {
  return n->op == ACCEL_PLUGIN_OP_GATHER && accel__node_attr_int(n, ACCEL_PLUGIN_ATTR_AXIS, 0) == 0;
}

/* Do all who read a table take its rows, as ids or as columns of the head, and is its memory worth
 * a sum?  It is where the head's rows are had anyway. */
static bool is_cut_table(const accel__sharder *s, int32_t table) {
  const accel__program *p = s->p;
  const int64_t rows = accel__axis_size(p, table, 0);
  bool worth = rows >= LEAST_ROWS;
  for (uint32_t i = 0; i < p->n_node; i++) {
    const accel_plugin_node *n = &p->node[i];
    for (uint32_t k = 0; s->live[i] && k < n->n_in; k++) {
      if (n->in[k] != table) continue;
      const bool head =
          s->gathers[i] && k == 1 && !accel__node_attr_int(n, ACCEL_PLUGIN_ATTR_TRANS, 0);
      if (!head && !(is_lookup(n) && k == 0)) return false;
      worth |= head;
    }
  }
  return worth && rows >= s->world;
}

/* Embeddings of tokens: each rank has some rows of the table. */
static void find_lookups(accel__sharder *s) {
  const accel__program *p = s->p;
  for (uint32_t i = 0; i < p->n_node; i++) {
    const accel_plugin_node *n = &p->node[i];
    const int32_t w = is_lookup(n) ? n->in[0] : -1;
    if (!s->live[i] || w < 0 || p->tensor[w].weight < 0 || p->tensor[w].rank != 2) continue;
    s->lookups[i] = p->weight[p->tensor[w].weight].use == ACCEL_PLUGIN_USE_EMBEDDING &&
                    p->tensor[n->out[0]].rank < ACCEL_PLUGIN_MAX_RANK && is_cut_table(s, w);
  }
}

static void find_parts(accel__sharder *s) {
  const accel__program *p = s->p;
  bool settled = false;
  while (!settled && p->status == ACCEL_OK) {
    settled = true;
    memset(s->sums, 0, p->n_node);
    for (uint32_t i = 0; i < p->n_tensor; i++) s->split[i] = accel__whole;
    for (uint32_t i = 0; i < p->n_node && p->status == ACCEL_OK; i++) settled &= try_sum(s, i);
    if (p->status != ACCEL_OK) return;
    settled &= settle(s);
    settled &= settle_states(s);
  }
  find_gathers(s);
  find_lookups(s);
}

/* ---- residuals ---- */

/* Every rank must make the same sums: what rank 0 alone reads as a residual would not be computed by
 * the others.  So that is done only with values that all ranks read anyway. */
static bool place_residuals(accel__sharder *s) {
  const accel__program *p = s->p;
  uint32_t *reads = calloc(2 * (size_t)p->n_tensor + 1, sizeof *reads);
  if (!reads) return false;
  uint32_t *residuals = reads + p->n_tensor;
  for (uint32_t e = 0; e < p->n_entry; e++)
    for (uint32_t k = 0; k < p->entry[e].n_out; k++) reads[p->entry[e].out[k]]++;
  for (uint32_t i = 0; i < p->n_node; i++)
    for (uint32_t k = 0; s->live[i] && k < p->node[i].n_in; k++) {
      const int32_t t = p->node[i].in[k];
      if (t < 0) continue;
      reads[t]++;
      residuals[t] += s->sums[i] && p->node[i].op == ACCEL_PLUGIN_OP_LINEAR && k == 3;
    }
  for (uint32_t i = 0; i < p->n_node; i++) {
    const bool sum = s->sums[i] && p->node[i].op == ACCEL_PLUGIN_OP_LINEAR;
    const int32_t r = sum ? accel__node_in(&p->node[i], 3) : -1;
    s->residual[i] = ACCEL__RESIDUAL_FIRST;
    if (r < 0 || s->producer[r] < 0 || reads[r] > residuals[r]) continue;
    s->residual[i] = ACCEL__RESIDUAL_BEHIND;
    if (reads[r] > 1 || !s->sums[s->producer[r]]) continue;
    s->residual[i] = ACCEL__RESIDUAL_ADDEND;
    s->open[s->producer[r]] = 1;
  }
  free(reads);
  return true;
}

/* ---- rewriting ---- */

/* The nodes of the rank's program, in order: accel__node appends to the program's own. */
typedef struct writer {
  accel__sharder *s;
  accel_plugin_node *node;
  uint32_t n;
  const accel__split *before; /* [n_tensor] of values, by their first numbers */
  uint32_t n_before;
} writer;

static accel__share_axis share_axis(const accel__split *split, int64_t inner) {
  return (accel__share_axis){.period = split->block * inner,
                             .first = split->begin * inner,
                             .count = (split->end - split->begin) * inner};
}

/* Cuts weight `index`, and its tensor, in place. */
static void cut_weight(accel__program *p, int32_t tensor, const accel__split *split) {
  const int32_t index = p->tensor[tensor].weight;
  accel_plugin_weight *w = &p->weight[index];
  accel__weight_share *share = &p->spec[index].share;
  int64_t inner = 1;
  for (uint32_t i = (uint32_t)split->axis + 1; i + 1 < w->rank; i++) inner *= w->dim[i];
  if ((uint32_t)split->axis + 1 == w->rank)
    share->columns = share_axis(split, 1);
  else
    share->rows = share_axis(split, inner);
  w->dim[split->axis] = (split->end - split->begin) * split->times;
  p->tensor[tensor].dim[split->axis] = accel__const_dim(p, w->dim[split->axis]);
}

/* Readers that want weight tensor `t` cut otherwise than `split` says, or whole. */
static bool others_read(const accel__sharder *s, int32_t t, const accel__split *split,
                        const accel__split *wanted) {
  for (uint32_t i = 0, at = 0; i < s->p->n_node; i++) {
    const accel_plugin_node *n = &s->p->node[i];
    for (uint32_t k = 0; s->live[i] && k < n->n_in; k++)
      if (n->in[k] == t && !accel__split_same(&wanted[at + k], split)) return true;
    if (s->live[i]) at += n->n_in;
  }
  return false;
}

/* What every live node wants of its operands, node after node. */
static accel__split *list_wanted(accel__sharder *s) {
  accel__program *p = s->p;
  size_t all = 1;
  for (uint32_t i = 0; i < p->n_node; i++) all += s->live[i] ? p->node[i].n_in : 0;
  accel__split *list = malloc(all * sizeof *list);
  for (uint32_t i = 0, at = 0; list && i < p->n_node; i++) {
    const accel_plugin_node *n = &p->node[i];
    if (!s->live[i]) continue;
    accel__split own = s->split[n->out[0]];
    if (s->gathers[i]) {
      const int32_t axis = p->tensor[n->out[0]].rank - 1;
      own = accel__split_of(s, axis, accel__axis_size(p, n->out[0], axis));
    }
    if (s->sums[i])
      accel__split_sum(s, n, list + at);
    else if (own.axis >= 0)
      accel__split_operands(s, n, &own, list + at);
    else
      for (uint32_t k = 0; k < n->n_in; k++) list[at + k] = accel__whole;
    if (s->lookups[i]) list[at] = accel__split_of(s, 0, accel__axis_size(p, n->in[0], 0));
    at += n->n_in;
  }
  return list;
}

/* The rank's part of weight tensor `t`: the tensor itself where everybody reads this part, else
 * one more weight of the same parts of the checkpoint. */
static int32_t weight_part(accel__sharder *s, int32_t t, const accel__split *split,
                           const accel__split *wanted) {
  accel__program *p = s->p;
  if (!others_read(s, t, split, wanted)) {
    if (p->spec[p->tensor[t].weight].share.rows.period == 0 &&
        p->spec[p->tensor[t].weight].share.columns.period == 0)
      cut_weight(p, t, split);
    return t;
  }
  accel__weight_spec spec = p->spec[p->tensor[t].weight];
  spec.name = accel__arena_printf(&p->arena, "%s, rank %u of %u by %d", spec.name, s->rank,
                                  s->world, split->axis);
  if (!spec.name) return accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a name");
  int64_t known;
  const bool made = accel__map_get(&p->weights, spec.name, strlen(spec.name), &known);
  for (uint32_t i = 0; made && i < p->n_tensor; i++)
    if (p->tensor[i].weight == (int32_t)known) return (int32_t)i;
  p->stage = p->weight[p->tensor[t].weight].stage;
  const int32_t own = accel__weight(p, &spec);
  if (own < 0) return own;
  p->spec[p->tensor[own].weight].name = p->spec[p->tensor[t].weight].name; /* whose values it has */
  cut_weight(p, own, split);
  return own;
}

/* Takes the node that was appended last off the program's list. */
static void take_last(writer *w) {
  if (w->s->p->status == ACCEL_OK) w->node[w->n++] = w->s->p->node[--w->s->p->n_node];
}

static int32_t slice_part(writer *w, int32_t t, const accel__split *split) {
  const int32_t out = accel__slice(w->s->p, t, split->axis, split->begin, split->end);
  take_last(w);
  return out;
}

static bool is_part(const writer *w, int32_t t) {
  return t >= 0 && (uint32_t)t < w->n_before && w->before[t].axis >= 0;
}

static accel_plugin_attr *own_attr(accel__program *p, accel_plugin_node *n, int key) {
  accel_plugin_attr *copy = accel__arena_array(&p->arena, n->n_attr + 1u, sizeof *copy);
  accel_plugin_attr *found = NULL;
  if (!copy) {
    accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a node");
    return NULL;
  }
  for (uint32_t i = 0; i < n->n_attr; i++) {
    copy[i] = n->attr[i];
    if (copy[i].key == key) found = &copy[i];
  }
  n->attr = copy;
  return found;
}

/* Attributes that count heads, groups or sizes count those of the rank. */
static void cut_attributes(accel__sharder *s, accel_plugin_node *n, const accel__split *own) {
  accel__program *p = s->p;
  accel_plugin_attr *a;
  if (n->op == ACCEL_PLUGIN_OP_ATTENTION) {
    const int64_t heads = accel__node_attr_int(n, ACCEL_PLUGIN_ATTR_HEADS, 1),
                  kv_heads = accel__node_attr_int(n, ACCEL_PLUGIN_ATTR_KV_HEADS, heads);
    if ((a = own_attr(p, n, ACCEL_PLUGIN_ATTR_HEADS)) != NULL) a->i = heads / s->world;
    if ((a = own_attr(p, n, ACCEL_PLUGIN_ATTR_KV_HEADS)) != NULL)
      a->i = accel__local_kv_heads(s, kv_heads);
    if (n->state >= 0) p->state[n->state].heads = (int32_t)accel__local_kv_heads(s, kv_heads);
  }
  if (n->op == ACCEL_PLUGIN_OP_NORM && own->axis == p->tensor[n->out[0]].rank - 1 &&
      (a = own_attr(p, n, ACCEL_PLUGIN_ATTR_GROUPS)) != NULL)
    a->i = a->i * (own->end - own->begin) / own->block;
  if ((n->op == ACCEL_PLUGIN_OP_RESHAPE || n->op == ACCEL_PLUGIN_OP_BROADCAST) &&
      (a = own_attr(p, n, ACCEL_PLUGIN_ATTR_SHAPE)) != NULL) {
    int64_t *v = accel__arena_array(&p->arena, a->n, sizeof *v);
    if (!v) {
      accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a shape");
      return;
    }
    memcpy(v, a->v, a->n * sizeof *v);
    v[own->axis] = p->tensor[n->out[0]].dim[own->axis];
    a->v = v;
  }
}

/* The last node's result `t` is an addend, or (`own` not NULL) some columns: what makes the whole of
 * it follows, and its result is called `t`. */
static void complete(writer *w, int32_t t, const accel__split *own) {
  accel__program *p = w->s->p;
  accel_plugin_node *made = &w->node[w->n - 1];
  int32_t *out = accel__arena_array(&p->arena, 1, sizeof *out), local = t, whole = t;
  const accel__dim dim = own ? p->tensor[t].dim[own->axis] : -1;
  if (!out) {
    accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a node");
    return;
  }
  if (own) {
    int64_t pads[2 * ACCEL_PLUGIN_MAX_RANK] = {0};
    const uint32_t rank = p->tensor[t].rank;
    p->tensor[t].dim[own->axis] = accel__const_dim(p, own->end - own->begin);
    pads[own->axis] = own->begin;
    pads[rank + (uint32_t)own->axis] = own->block - own->end;
    const accel__attr attr[] = {ACCEL_IV(PADS, pads, 2 * rank),
                                ACCEL_I(KIND, ACCEL_PLUGIN_PAD_CONSTANT)};
    whole = accel__node(p, ACCEL_PLUGIN_OP_PAD, &t, 1, attr, 2, NULL, 1);
    take_last(w);
  }
  const int32_t sum = accel__node(p, ACCEL_PLUGIN_OP_ALLREDUCE, &whole, 1, NULL, 0, NULL, 1);
  take_last(w);
  if (p->status != ACCEL_OK) return;
  /* the names are exchanged: `sum` becomes the addend */
  local = sum;
  if (own) {
    p->tensor[local].dim[own->axis] = p->tensor[t].dim[own->axis];
    p->tensor[t].dim[own->axis] = dim;
  }
  *out = local;
  made->out = out;
  int32_t *last = (int32_t *)w->node[w->n - 1].out, *first = (int32_t *)w->node[w->n - 1].in;
  *last = t;
  if (own)
    ((int32_t *)w->node[w->n - 2].in)[0] = local;
  else
    first[0] = local;
}

/* Adds the residual to sum `t`, whose readers then read the result in its place. */
static void add_behind(writer *w, int32_t t, int32_t residual) {
  accel__program *p = w->s->p;
  accel_plugin_node *sum = &w->node[w->n - 1];
  int32_t *out = accel__arena_array(&p->arena, 1, sizeof *out);
  const int32_t y = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, t, residual);
  take_last(w);
  if (!out || p->status != ACCEL_OK) {
    accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a node");
    return;
  }
  *out = y; /* the names are exchanged */
  sum->out = out;
  ((int32_t *)w->node[w->n - 1].in)[0] = y;
  ((int32_t *)w->node[w->n - 1].out)[0] = t;
}

/* ---- lookups ---- */

static int32_t with_number(writer *w, accel_plugin_binary kind, int32_t x, int64_t number) {
  const int32_t value = (int32_t)number;
  accel__program *p = w->s->p;
  const int32_t y = accel__binary(
      p, kind, x, accel__constant_i32(p, "row of a rank", 1, (const int64_t[]){1}, &value));
  take_last(w);
  return y;
}

/* Rows of the rank's part of a table for ids of the whole; *others is nonzero where another rank has
 * the row, and the one here is any.  An id that no rank has stays outside of a part. */
static int32_t local_rows(writer *w, int32_t ids, const accel__split *part, int32_t *others) {
  const bool first = part->begin == 0, last = part->end == part->block;
  int32_t near = ids;
  if (!first) near = with_number(w, ACCEL_PLUGIN_BINARY_MAX, near, part->begin);
  if (!last) near = with_number(w, ACCEL_PLUGIN_BINARY_MIN, near, part->end - 1);
  *others = accel__binary(w->s->p, ACCEL_PLUGIN_BINARY_SUB, ids, near);
  take_last(w);
  return first ? near : with_number(w, ACCEL_PLUGIN_BINARY_SUB, near, part->begin);
}

/* Rows `t` that the last node has looked up become zeros where others[..] is nonzero. */
static void drop_others(writer *w, int32_t t, int32_t others) {
  static const float nothing = 0;
  static const int64_t one = 1;
  accel__program *p = w->s->p;
  accel_plugin_node *lookup = &w->node[w->n - 1];
  const accel_plugin_tensor *rows = &p->tensor[t];
  const accel__attr kind = ACCEL_I(KIND, ACCEL_PLUGIN_BINARY_WHERE);
  int32_t dims[ACCEL_PLUGIN_MAX_RANK], *out = accel__arena_array(&p->arena, 1, sizeof *out);
  const uint32_t rank = rows->rank;
  memcpy(dims, rows->dim, sizeof dims);
  dims[rank - 1] = accel__const_dim(p, 1);
  const int32_t column = accel__reshape(p, others, rank, dims);
  take_last(w);
  const int32_t zero = accel__constant_f32(p, "no row", 1, &one, &nothing);
  const int32_t y =
      accel__node(p, ACCEL_PLUGIN_OP_BINARY, (int32_t[]){column, zero, t}, 3, &kind, 1, NULL, 1);
  take_last(w);
  if (!out || p->status != ACCEL_OK) {
    accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a node");
    return;
  }
  *out = y; /* the names are exchanged */
  lookup->out = out;
  ((int32_t *)w->node[w->n - 1].in)[2] = y;
  ((int32_t *)w->node[w->n - 1].out)[0] = t;
}

/* Bias and residual are added once: what the others leave out; the residual to be added behind. */
static int32_t add_once(const accel__sharder *s, uint32_t i, const accel_plugin_node *n,
                        int32_t *in) {
  int32_t behind = -1;
  if (!s->sums[i]) return -1;
  if (n->op == ACCEL_PLUGIN_OP_MOE) {
    if (s->rank && n->n_in > 6) in[6] = -1;
    return -1;
  }
  if (s->rank && n->n_in > 2) in[2] = -1;
  if (n->n_in < 4 || s->residual[i] == ACCEL__RESIDUAL_ADDEND) return -1;
  if (s->residual[i] == ACCEL__RESIDUAL_BEHIND) behind = in[3];
  if (s->rank || behind >= 0) in[3] = -1;
  return behind;
}

/* Node i for the rank; wanted[n_in]: what it reads of its operands. */
static void write_node(writer *w, uint32_t i, const accel__split *wanted,
                       const accel__split *all_wanted) {
  accel__sharder *s = w->s;
  accel__program *p = s->p;
  accel_plugin_node n = p->node[i];
  const accel__split *own = &w->before[n.out[0]];
  int32_t *in = accel__arena_array(&p->arena, n.n_in + 1u, sizeof *in);
  if (!in) {
    accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a node");
    return;
  }
  p->stage = n.stage;
  p->path = p->tensor[n.out[0]].name;
  for (uint32_t k = 0; k < n.n_in; k++) {
    in[k] = n.in[k];
    if (in[k] < 0 || wanted[k].axis < 0 || is_part(w, in[k])) continue;
    in[k] = p->tensor[in[k]].kind == ACCEL_PLUGIN_TENSOR_WEIGHT
                ? weight_part(s, in[k], &wanted[k], all_wanted)
                : slice_part(w, in[k], &wanted[k]);
  }
  const int32_t behind = add_once(s, i, &n, in);
  int32_t others = -1;
  if (s->lookups[i]) in[1] = local_rows(w, in[1], &wanted[0], &others);
  while (n.n_in && in[n.n_in - 1] < 0) n.n_in--;
  n.in = in;
  if (own->axis >= 0) cut_attributes(s, &n, own);
  w->node[w->n++] = n;
  if (s->lookups[i]) drop_others(w, n.out[0], others);
  if ((s->sums[i] && !s->open[i]) || s->lookups[i]) complete(w, n.out[0], NULL);
  if (behind >= 0 && p->status == ACCEL_OK) add_behind(w, n.out[0], behind);
  if (s->gathers[i]) {
    const int32_t axis = p->tensor[n.out[0]].rank - 1;
    const accel__split columns = accel__split_of(s, axis, accel__axis_size(p, n.out[0], axis));
    complete(w, n.out[0], &columns);
  }
}

static void rewrite(accel__sharder *s, const accel__split *wanted) {
  accel__program *p = s->p;
  const uint32_t n_node = p->n_node, n_tensor = p->n_tensor;
  size_t most = 0;
  for (uint32_t i = 0; i < n_node; i++) most += p->node[i].n_in + 6u;
  writer w = {.s = s, .before = s->split, .n_before = n_tensor};
  w.node = malloc((most + 1) * sizeof *w.node);
  if (!w.node) {
    accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for the nodes of a rank");
    return;
  }
  for (uint32_t t = 0; t < n_tensor; t++)
    if (s->split[t].axis >= 0)
      p->tensor[t].dim[s->split[t].axis] = accel__const_dim(p, s->split[t].end - s->split[t].begin);
  for (uint32_t i = 0, at = 0; i < n_node && p->status == ACCEL_OK; i++) {
    if (!s->live[i]) continue;
    write_node(&w, i, wanted + at, wanted);
    at += p->node[i].n_in;
  }
  for (uint32_t i = 0; i < w.n && p->status == ACCEL_OK; i++) {
    if (!accel__program_grow(p, (void **)&p->node, &p->cap_node, i, sizeof *p->node)) break;
    p->node[i] = w.node[i];
  }
  if (p->status == ACCEL_OK) p->n_node = w.n;
  free(w.node);
}

/* ---- all of it ---- */

static bool refused(accel__sharder *s) {
  accel__program *p = s->p;
  uint32_t shared = 0;
  for (uint32_t i = 0; i < p->n_node; i++) {
    if (s->live[i] && p->node[i].op == ACCEL_PLUGIN_OP_LOW_RANK)
      accel__program_fail(p, ACCEL_ERROR_UNSUPPORTED,
                          "adapters that requests name are not shared among ranks: merge one into "
                          "the weights (accel_init_params.adapters), or use one rank");
    shared += s->sums[i] || s->gathers[i];
  }
  if (!shared)
    accel__program_fail(p, ACCEL_ERROR_UNSUPPORTED,
                        "it has no layers that ranks could share: use one rank");
  return p->status != ACCEL_OK;
}

void accel__shard(accel__program *p) {
  if (p->world < 2) return;
  accel__sharder s = {.p = p,
                      .rank = p->rank,
                      .world = p->world,
                      .live = calloc(p->n_node + 1u, 1),
                      .producer = calloc(p->n_tensor + 1u, sizeof *s.producer),
                      .split = calloc(p->n_tensor + 1u, sizeof *s.split),
                      .kept = calloc(p->n_tensor + 1u, 1),
                      .sums = calloc(p->n_node + 1u, 1),
                      .gathers = calloc(p->n_node + 1u, 1),
                      .lookups = calloc(p->n_node + 1u, 1),
                      .residual = calloc(p->n_node + 1u, 1),
                      .open = calloc(p->n_node + 1u, 1)};
  accel__split *wanted = NULL;
  if (!s.live || !s.producer || !s.split || !s.kept || !s.sums || !s.gathers || !s.lookups ||
      !s.residual || !s.open) {
    accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for the parts of a rank");
  } else {
    mark_live(&s);
    find_parts(&s);
    if (p->status == ACCEL_OK && !refused(&s)) {
      wanted = place_residuals(&s) ? list_wanted(&s) : NULL;
      if (wanted)
        rewrite(&s, wanted);
      else
        accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for the parts of a rank");
    }
  }
  free(wanted);
  free(s.live);
  free(s.producer);
  free(s.split);
  free(s.kept);
  free(s.sums);
  free(s.gathers);
  free(s.lookups);
  free(s.residual);
  free(s.open);
}
