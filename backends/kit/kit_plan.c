/* kit_plan.c - which nodes of an entry run for the wanted outputs, and where every tensor lives.
 *
 * 1. prune   from the wanted outputs backwards; nodes that change a state always run
 * 2. shapes  of every tensor that is left
 * 3. alias   reshape, contiguous slices and (where the backend reads them) column slices share the memory of their operand
 * 4. live    first and last step of each root
 * 5. place   inputs, outputs, weights and constants where they are; the rest in one scratch block: in place where the op
 * allows it, else best fit
 */
#include <stdlib.h>
#include <string.h>

#include "kit/kit_internal.h"

typedef struct segment {
  uint64_t offset, bytes;
} segment;

typedef struct planner {
  const kit_plan_request *r;
  const accel_plugin_program *p;
  const accel_plugin_entry *e;
  kit_plan *plan;
  bool device;
  uint8_t *need;       /* [n_tensor] */
  uint8_t *run;        /* [entry.n_node] */
  uint8_t *alias;      /* [n_tensor] */
  int32_t *root;       /* [n_tensor] */
  int32_t *last;       /* [n_tensor]: last step that uses this root; n_step: to the end */
  int32_t *maker;      /* [n_tensor]: node of the entry that writes this root, -1 none */
  uint8_t *placed;     /* [entry.n_node]: it is in a step */
  segment *hole;       /* free parts of scratch below plan->scratch, by offset */
  kit_tensor *tensors; /* operands and results of the step at hand */
  uint32_t n_hole;
} planner;

/* ---- offset allocator ---- */

static uint64_t round_up(uint64_t n) { return (n + KIT_ALIGN - 1) / KIT_ALIGN * KIT_ALIGN; }

static uint64_t scratch_alloc(planner *w, uint64_t bytes) {
  bytes = round_up(bytes ? bytes : 1);
  uint32_t best = UINT32_MAX;
  for (uint32_t i = 0; i < w->n_hole; i++)
    if (w->hole[i].bytes >= bytes && (best == UINT32_MAX || w->hole[i].bytes < w->hole[best].bytes))
      best = i;
  if (best == UINT32_MAX) { /* grow, from the last hole if it touches the top */
    segment *top = w->n_hole ? &w->hole[w->n_hole - 1] : NULL;
    uint64_t offset = w->plan->scratch;
    if (top && top->offset + top->bytes == w->plan->scratch) {
      offset = top->offset;
      w->n_hole--;
    }
    w->plan->scratch = offset + bytes;
    return offset;
  }
  segment *h = &w->hole[best];
  uint64_t offset = h->offset;
  h->offset += bytes;
  h->bytes -= bytes;
  if (!h->bytes) memmove(h, h + 1, (--w->n_hole - best) * sizeof *h);
  return offset;
}

/* Holes never outnumber the blocks ever taken, so the array made for n_tensor + n_step of them
 * suffices. */
static void scratch_free(planner *w, uint64_t offset, uint64_t bytes) {
  bytes = round_up(bytes ? bytes : 1);
  uint32_t i = 0;
  while (i < w->n_hole && w->hole[i].offset < offset) i++;
  bool before = i > 0 && w->hole[i - 1].offset + w->hole[i - 1].bytes == offset;
  bool after = i < w->n_hole && offset + bytes == w->hole[i].offset;
  if (before && after) {
    w->hole[i - 1].bytes += bytes + w->hole[i].bytes;
    memmove(&w->hole[i], &w->hole[i + 1], (--w->n_hole - i) * sizeof *w->hole);
  } else if (before) {
    w->hole[i - 1].bytes += bytes;
  } else if (after) {
    w->hole[i].offset = offset;
    w->hole[i].bytes += bytes;
  } else {
    memmove(&w->hole[i + 1], &w->hole[i], (w->n_hole++ - i) * sizeof *w->hole);
    w->hole[i] = (segment){offset, bytes};
  }
}

/* ---- 1. prune ---- */

static bool changes_state(const accel_plugin_node *n) {
  return n->state >= 0 && !kit_attr_i(n, ACCEL_PLUGIN_ATTR_STATE_STATIC, 0);
}

static void prune(planner *w) {
  for (uint32_t i = 0; i < w->e->n_out; i++)
    if (w->plan->wanted[i]) w->need[w->e->out[i]] = 1;
  for (uint32_t i = w->e->n_node; i-- > 0;) {
    const accel_plugin_node *n = &w->p->node[w->e->node[i]];
    bool run = changes_state(n);
    for (uint32_t k = 0; k < n->n_out; k++) run |= n->out[k] >= 0 && w->need[n->out[k]];
    if (!run) continue;
    w->run[i] = 1;
    if (n->out[0] >= 0) w->need[n->out[0]] = 1;
    for (uint32_t k = 0; k < n->n_in; k++)
      if (n->in[k] >= 0) w->need[n->in[k]] = 1;
  }
}

/* ---- 2. shapes ---- */

static int32_t shapes(planner *w, accel_plugin_error *error) {
  for (uint32_t i = 0; i < w->p->n_tensor; i++) {
    kit_tensor *t = &w->plan->tensor[i];
    w->root[i] = (int32_t)i;
    w->last[i] = -1;
    t->id = -1;
    if (!w->need[i]) continue;
    int32_t rc = kit_shape(w->p, w->plan->dim, (int32_t)i, t, error);
    if (rc) return rc;
    w->plan->location[i].bytes = (uint64_t)t->elements * 4;
  }
  return ACCEL_PLUGIN_OK;
}

/* ---- 3. aliases ---- */

static bool is_output(const planner *w, int32_t id) {
  for (uint32_t i = 0; i < w->e->n_out; i++)
    if (w->e->out[i] == id && w->plan->wanted[i]) return true;
  return false;
}

/* Every reader of `id` takes it as a column slice. */
static bool readers_take_strides(const planner *w, int32_t id) {
  const kit_backend *b = w->r->backend;
  if (!b || !b->strided || is_output(w, id)) return false;
  for (uint32_t i = 0; i < w->e->n_node; i++) {
    const accel_plugin_node *n = &w->p->node[w->e->node[i]];
    for (uint32_t k = 0; w->run[i] && k < n->n_in; k++)
      if (n->in[k] == id && (n->op == ACCEL_PLUGIN_OP_RESHAPE || n->op == ACCEL_PLUGIN_OP_SLICE ||
                             !b->strided(w->p, n, k)))
        return false;
  }
  return true;
}

/* First index of a slice, once dims are known: negative counts from the end, then clamped. */
static int64_t slice_start(const planner *w, const accel_plugin_node *n, int64_t length) {
  const int64_t *v;
  int64_t s = kit_attr_iv(n, ACCEL_PLUGIN_ATTR_START, &v) ? w->plan->dim[v[0]] : 0;
  if (s < 0) s += length;
  return s < 0 ? 0 : s > length ? length : s;
}

static bool alias_slice(planner *w, const accel_plugin_node *n) {
  const kit_tensor *x = &w->plan->tensor[n->in[0]], *y = &w->plan->tensor[n->out[0]];
  int64_t axis = kit_attr_i(n, ACCEL_PLUGIN_ATTR_AXIS, 0), before = 1, inner = 1;
  if (axis < 0) axis += x->rank;
  if (axis < 0 || axis >= x->rank || kit_attr_i(n, ACCEL_PLUGIN_ATTR_STEP, 1) != 1) return false;
  for (int64_t i = 0; i < axis; i++) before *= x->dim[i];
  for (int64_t i = axis + 1; i < x->rank; i++) inner *= x->dim[i];
  int64_t start = slice_start(w, n, x->dim[axis]);
  if (start + y->dim[axis] > x->dim[axis]) return false; /* the kernel says what is wrong */
  const kit_location *from = &w->plan->location[n->in[0]];
  kit_location *to = &w->plan->location[n->out[0]];
  if (x->row_stride != kit_cols(x)) return false;
  if (before == 1) {
    to->offset = from->offset + (uint64_t)(start * inner) * 4;
    return true;
  }
  if (axis != x->rank - 1 || !readers_take_strides(w, n->out[0])) return false;
  to->offset = from->offset + (uint64_t)start * 4;
  w->plan->tensor[n->out[0]].row_stride = kit_cols(x);
  return true;
}

static void aliases(planner *w) {
  for (uint32_t i = 0; i < w->e->n_node; i++) {
    const accel_plugin_node *n = &w->p->node[w->e->node[i]];
    if (!w->run[i] || n->n_in < 1 || n->in[0] < 0 || n->out[0] < 0) continue;
    kit_location *to = &w->plan->location[n->out[0]];
    bool same = n->op == ACCEL_PLUGIN_OP_RESHAPE &&
                w->plan->tensor[n->in[0]].elements == w->plan->tensor[n->out[0]].elements;
    if (same) to->offset = w->plan->location[n->in[0]].offset;
    if (!same && !(n->op == ACCEL_PLUGIN_OP_SLICE && alias_slice(w, n))) continue;
    w->root[n->out[0]] = w->root[n->in[0]];
    w->alias[n->out[0]] = 1;
    w->run[i] = 0;
  }
}

/* ---- steps ---- */

static uint32_t padded(uint32_t n, uint32_t least) { return n > least ? n : least; }

/* Of absent ones only what is looked at is written: this runs for every launch. */
static void put_tensor(const kit_plan *plan, int32_t id, kit_tensor *t) {
  if (id >= 0 && plan->tensor[id].id >= 0) {
    *t = plan->tensor[id];
  } else {
    t->id = t->weight = t->space = -1;
    t->data = t->buffer = NULL;
  }
}

uint32_t kit_step_tensors(const accel_plugin_program *p, const kit_plan *plan, const kit_step *s,
                          kit_tensor *t) {
  uint32_t at = 0;
  for (const kit_step *end = s + s->n_fused; s <= end; s++) {
    const accel_plugin_node *n = &p->node[s->node];
    for (uint32_t j = 0; j < s->n_in; j++) put_tensor(plan, j < n->n_in ? n->in[j] : -1, &t[at++]);
    for (uint32_t j = 0; j < s->n_out; j++)
      put_tensor(plan, j < n->n_out ? n->out[j] : -1, &t[at++]);
  }
  return at;
}

void kit_step_launches(const accel_plugin_program *p, const kit_step *s, const kit_tensor *t,
                       const kit_launch *like, kit_launch *out) {
  for (uint32_t m = 0; m <= s->n_fused; m++) {
    out[m] = *like;
    out[m].node = &p->node[s[m].node];
    out[m].index = s[m].node;
    out[m].n_in = s[m].n_in;
    out[m].n_out = s[m].n_out;
    out[m].in = t;
    out[m].out = t + s[m].n_in;
    t += s[m].n_in + s[m].n_out;
  }
  out->joined = out + 1;
  out->n_fused = s->n_fused;
}

static void add_step(planner *w, uint32_t i) {
  const accel_plugin_node *n = &w->p->node[w->e->node[i]];
  kit_step *s = &w->plan->step[w->plan->n_step++];
  *s = (kit_step){.node = (uint32_t)w->e->node[i],
                  .n_in = padded(n->n_in, KIT_OPERANDS),
                  .n_out = padded(n->n_out, KIT_RESULTS),
                  .between = -1};
  w->placed[i] = 1;
  const uint32_t spaces[] = {ACCEL_PLUGIN_ATTR_Q_SPACE, ACCEL_PLUGIN_ATTR_KV_SPACE,
                             ACCEL_PLUGIN_ATTR_SPACE};
  for (int j = 0; j < 3; j++) {
    int64_t space = kit_attr_i(n, spaces[j], -1);
    if (space >= 0) w->plan->space[space] = true;
  }
}

/* Whether the operands of node i of the entry are all written by steps before `step`; `except` is
 * not asked for (-1: all are). */
static bool ready(const planner *w, uint32_t i, int32_t except, uint32_t step) {
  const accel_plugin_node *n = &w->p->node[w->e->node[i]];
  for (uint32_t k = 0; k < n->n_in; k++) {
    if ((int32_t)k == except) continue;
    int32_t maker = n->in[k] >= 0 ? w->maker[w->root[n->in[k]]] : -1;
    if (maker < 0) continue;
    if (!w->placed[maker]) return false;
    for (uint32_t m = step; m < w->plan->n_step; m++)
      if (w->plan->step[m].node == (uint32_t)w->e->node[maker]) return false;
  }
  return true;
}

/* The operand that nodes which run in one launch have in common: x. */
static uint32_t common_operand(const accel_plugin_node *n) {
  return n->op == ACCEL_PLUGIN_OP_LOW_RANK ? 1 : 0;
}

/* Later nodes that the backend runs in the launch of node i. */
static void fuse_siblings(planner *w, uint32_t i) {
  const kit_backend *b = w->r->backend;
  const accel_plugin_node *first = &w->p->node[w->e->node[i]];
  const uint32_t step = w->plan->n_step - 1, common = common_operand(first);
  if (!b || !b->fuse_parallel || first->state >= 0 || first->n_in <= common ||
      first->in[common] < 0)
    return;
  for (uint32_t k = i + 1; k < w->e->n_node && w->plan->n_step - step <= KIT_MAX_FUSED; k++) {
    const accel_plugin_node *n = &w->p->node[w->e->node[k]];
    if (!w->run[k] || w->placed[k] || n->op != first->op || n->state >= 0 || n->n_in <= common ||
        n->in[common] != first->in[common])
      continue;
    if (!ready(w, k, -1, step) || !b->fuse_parallel(w->r->self, w->p, first, n)) continue;
    add_step(w, k);
    w->plan->step[step].n_fused++;
  }
}

/* The operand that may be made in the same launch (kit_backend.fuse_chain): b of a product. */
static uint32_t chained_operand(const accel_plugin_node *n) {
  return n->op == ACCEL_PLUGIN_OP_MATMUL ? 1 : 0;
}

/* The node of the entry whose chained operand is all that ever looks at tensor `id`, for b of a
 * product in another shape, too; -1 when there is no such. */
static int32_t only_reader(const planner *w, int32_t id) {
  int32_t found = -1, reshaped = -1;
  if (w->p->tensor[id].kind != ACCEL_PLUGIN_TENSOR_VALUE || is_output(w, id)) return -1;
  for (uint32_t k = 0; k < w->p->n_tensor; k++) {
    if (!w->alias[k] || w->root[k] != id) continue;
    if (reshaped >= 0 || is_output(w, (int32_t)k) ||
        w->plan->tensor[k].elements != w->plan->tensor[id].elements)
      return -1;
    reshaped = (int32_t)k;
  }
  for (uint32_t k = 0; k < w->e->n_node; k++) {
    const accel_plugin_node *n = &w->p->node[w->e->node[k]];
    for (uint32_t j = 0; w->run[k] && j < n->n_in; j++) {
      if (n->in[j] < 0 || (n->in[j] != id && n->in[j] != reshaped)) continue;
      if (j != chained_operand(n) || found >= 0 || (reshaped >= 0 && (j == 0 || n->in[j] == id)))
        return -1;
      found = (int32_t)k;
    }
  }
  return found;
}

/* The later node that the backend runs in the launch of node i on what this one makes. */
static void fuse_next(planner *w, uint32_t i) {
  const kit_backend *b = w->r->backend;
  const accel_plugin_node *first = &w->p->node[w->e->node[i]];
  const uint32_t step = w->plan->n_step - 1;
  if (!b || !b->fuse_chain || first->state >= 0 || first->out[0] < 0) return;
  for (uint32_t k = 1; k < first->n_out; k++)
    if (first->out[k] >= 0) return;
  const int32_t k = only_reader(w, first->out[0]);
  if (k < 0 || w->placed[k]) return;
  const accel_plugin_node *next = &w->p->node[w->e->node[k]];
  if (next->state >= 0 || !ready(w, (uint32_t)k, (int32_t)chained_operand(next), step) ||
      !b->fuse_chain(w->r->self, w->p, first, next))
    return;
  add_step(w, (uint32_t)k);
  w->plan->step[step].n_fused = 1;
  w->plan->step[step].between = first->out[0];
}

static int32_t steps(planner *w, accel_plugin_error *error) {
  kit_plan *plan = w->plan;
  plan->step = calloc(w->e->n_node + 1, sizeof *plan->step);
  if (!plan->step) return kit_no_memory(error, w->e->n_node * sizeof *plan->step);
  for (uint32_t i = 0; i < w->p->n_tensor; i++) w->maker[i] = -1;
  for (uint32_t i = 0; i < w->e->n_node; i++) {
    const accel_plugin_node *n = &w->p->node[w->e->node[i]];
    for (uint32_t k = 0; w->run[i] && k < n->n_out; k++)
      if (n->out[k] >= 0) w->maker[n->out[k]] = (int32_t)i;
  }
  for (uint32_t i = 0; i < w->e->n_node; i++) {
    if (!w->run[i] || w->placed[i]) continue;
    const uint32_t step = plan->n_step;
    add_step(w, i);
    fuse_siblings(w, i);
    if (!w->plan->step[step].n_fused) fuse_next(w, i);
    uint32_t width = 0;
    for (uint32_t m = step; m < plan->n_step; m++)
      width += plan->step[m].n_in + plan->step[m].n_out;
    plan->widest = padded(width, plan->widest);
  }
  w->tensors = calloc(plan->widest + 1, sizeof *w->tensors);
  return w->tensors ? ACCEL_PLUGIN_OK : kit_no_memory(error, plan->widest * sizeof *w->tensors);
}

/* ---- 4. lifetimes ---- */

/* Steps that are fused happen at the first of them. */
static void lifetimes(planner *w) {
  for (uint32_t k = 0, at = 0, fused = 0; k < w->plan->n_step; k++) {
    const kit_step *s = &w->plan->step[k];
    const accel_plugin_node *n = &w->p->node[s->node];
    if (fused)
      fused--;
    else
      at = k, fused = s->n_fused;
    for (uint32_t j = 0; j < n->n_in; j++)
      if (n->in[j] >= 0) w->last[w->root[n->in[j]]] = (int32_t)at;
    for (uint32_t j = 0; j < n->n_out; j++)
      if (n->out[j] >= 0 && w->need[n->out[j]]) w->last[w->root[n->out[j]]] = (int32_t)at;
  }
  for (uint32_t i = 0; i < w->e->n_out; i++)
    if (w->plan->wanted[i]) w->last[w->root[w->e->out[i]]] = (int32_t)w->plan->n_step;
}

/* ---- 5. locations ---- */

/* Locations of everything that does not live in scratch; on a device inputs are copied in first. */
static void fixed_locations(planner *w) {
  kit_plan *plan = w->plan;
  for (uint32_t i = 0; i < w->p->n_tensor; i++) {
    const accel_plugin_tensor *t = &w->p->tensor[i];
    kit_location *at = &plan->location[i];
    if (!w->need[i] || w->root[i] != (int32_t)i) continue;
    if (t->kind == ACCEL_PLUGIN_TENSOR_WEIGHT) {
      at->storage = KIT_STORAGE_WEIGHT;
      at->index = (uint32_t)t->weight;
    } else if (t->kind == ACCEL_PLUGIN_TENSOR_CONST) {
      at->storage = KIT_STORAGE_CONST;
      at->index = i;
    } else if (t->kind == ACCEL_PLUGIN_TENSOR_INPUT && !w->device) {
      at->storage = KIT_STORAGE_INPUT;
      for (uint32_t k = 0; k < w->e->n_in; k++)
        if (w->e->in[k] == (int32_t)i) at->index = k;
    } else if (t->kind != ACCEL_PLUGIN_TENSOR_VALUE && w->last[i] >= 0) {
      at->storage = KIT_STORAGE_SCRATCH;
      at->offset = scratch_alloc(w, at->bytes);
    }
  }
  /* values written straight to the caller */
  for (uint32_t i = 0; !w->device && i < w->e->n_out; i++) {
    int32_t id = w->e->out[i], root = w->root[id];
    if (!plan->wanted[i] || w->p->tensor[root].kind != ACCEL_PLUGIN_TENSOR_VALUE ||
        plan->location[root].storage != KIT_STORAGE_NONE)
      continue;
    if (plan->location[id].bytes != plan->location[root].bytes) continue;
    plan->location[root].storage = KIT_STORAGE_OUTPUT;
    plan->location[root].index = i;
  }
}

/* How many of the operands of a launch live in the memory of `root`. */
static uint32_t readers(const planner *w, const kit_launch *launch, int32_t root) {
  uint32_t n = 0;
  for (uint32_t m = 0; m <= launch->n_fused; m++)
    for (uint32_t i = 0; i < launch[m].n_in; i++)
      n += launch[m].in[i].id >= 0 && w->root[launch[m].in[i].id] == root;
  return n;
}

/* The operand whose memory result `j` of member `m` of a launch takes over, or -1. */
static int32_t overlay(const planner *w, uint32_t k, const kit_launch *launch, uint32_t m,
                       uint32_t j) {
  const kit_tensor *in = launch[m].in, *out = &launch[m].out[j];
  const accel_plugin_node *n = launch[m].node;
  uint32_t mask = w->r->backend && w->r->backend->inplace ? w->r->backend->inplace(w->p, n, j)
                                                          : kit_inplace(w->p, n, j);
  for (uint32_t i = 0; i < launch[m].n_in && i < 32; i++) {
    if (!(mask >> i & 1) || in[i].id < 0) continue;
    int32_t root = w->root[in[i].id];
    const kit_location *from = &w->plan->location[root];
    if (from->storage != KIT_STORAGE_SCRATCH || w->last[root] != (int32_t)k ||
        in[i].row_stride != kit_cols(&in[i]))
      continue;
    if (w->p->tensor[root].kind != ACCEL_PLUGIN_TENSOR_VALUE) continue;
    if (from->bytes != w->plan->location[out->id].bytes ||
        w->plan->location[in[i].id].bytes != from->bytes)
      continue;
    if (readers(w, launch, root) == 1) return root;
  }
  return -1;
}

/* Places what step k and those fused with it write, and gives back what they are the last to
 * use. */
static void place_step(planner *w, uint32_t k) {
  kit_plan *plan = w->plan;
  kit_step *s = &plan->step[k];
  kit_launch launch[KIT_MAX_FUSED + 1];
  const kit_launch like = {.program = w->p, .dim = plan->dim};
  const uint32_t n_tensor = kit_step_tensors(w->p, plan, s, w->tensors);
  kit_step_launches(w->p, s, w->tensors, &like, launch);
  if (w->r->backend && w->r->backend->workspace) {
    s->workspace_bytes = w->r->backend->workspace(w->r->self, launch, w->r->workers);
    if (s->workspace_bytes) s->workspace = scratch_alloc(w, s->workspace_bytes);
  }
  for (uint32_t m = 0; m <= s->n_fused; m++)
    for (uint32_t j = 0; j < launch[m].n_out; j++) {
      const kit_tensor *out = &launch[m].out[j];
      if (out->id < 0 || out->id == s->between ||
          plan->location[out->id].storage != KIT_STORAGE_NONE)
        continue;
      kit_location *to = &plan->location[out->id];
      int32_t over = overlay(w, k, launch, m, j);
      to->storage = KIT_STORAGE_SCRATCH;
      to->offset = over >= 0 ? plan->location[over].offset : scratch_alloc(w, to->bytes);
      if (over >= 0) w->last[over] = -2; /* gone: its block has a new owner */
    }
  if (s->workspace_bytes) scratch_free(w, s->workspace, s->workspace_bytes);
  for (uint32_t j = 0; j < n_tensor; j++) {
    if (w->tensors[j].id < 0) continue;
    int32_t root = w->root[w->tensors[j].id];
    if (w->last[root] != (int32_t)k || plan->location[root].storage != KIT_STORAGE_SCRATCH)
      continue;
    scratch_free(w, plan->location[root].offset, plan->location[root].bytes);
    w->last[root] = -2;
  }
}

/* Aliases live where their root lives, at their own offset in it. */
static void alias_locations(planner *w) {
  for (uint32_t i = 0; i < w->p->n_tensor; i++) {
    if (!w->alias[i]) continue;
    const kit_location *from = &w->plan->location[w->root[i]];
    w->plan->location[i].storage = from->storage;
    w->plan->location[i].index = from->index;
    w->plan->location[i].offset += from->offset;
  }
}

static int32_t make(planner *w, accel_plugin_error *error) {
  prune(w);
  int32_t rc = shapes(w, error);
  if (rc) return rc;
  aliases(w);
  rc = steps(w, error);
  if (rc) return rc;
  w->hole = calloc(w->p->n_tensor + w->plan->n_step + 2, sizeof *w->hole);
  if (!w->hole) return kit_no_memory(error, w->p->n_tensor * sizeof *w->hole);
  lifetimes(w);
  fixed_locations(w);
  for (uint32_t k = 0; k < w->plan->n_step; k += 1 + w->plan->step[k].n_fused) place_step(w, k);
  alias_locations(w);
  return ACCEL_PLUGIN_OK;
}

int32_t kit_plan_new(const kit_plan_request *r, kit_plan **out, accel_plugin_error *error) {
  const accel_plugin_program *p = r->program;
  planner w = {.r = r, .p = p, .e = &p->entry[r->entry], .device = r->backend && r->backend->alloc};
  *out = NULL;
  kit_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return kit_no_memory(error, sizeof *plan);
  atomic_init(&plan->users, 1);
  plan->entry = r->entry;
  plan->workers = r->workers;
  plan->symbol = calloc(p->n_symbol + 1, sizeof *plan->symbol);
  plan->wanted = calloc(w.e->n_out + 1, 1);
  plan->dim = calloc(p->n_dim + 1, sizeof *plan->dim);
  plan->tensor = calloc(p->n_tensor + 1, sizeof *plan->tensor);
  plan->location = calloc(p->n_tensor + 1, sizeof *plan->location);
  plan->space = calloc(p->n_space + 1, sizeof *plan->space);
  w.plan = plan;
  w.need = calloc(p->n_tensor + 1, 2);
  w.alias = w.need ? w.need + p->n_tensor + 1 : NULL;
  w.run = calloc(w.e->n_node + 1, 1);
  w.root = calloc(p->n_tensor + 1, sizeof *w.root);
  w.last = calloc(p->n_tensor + 1, sizeof *w.last);
  w.maker = calloc(p->n_tensor + 1, sizeof *w.maker);
  w.placed = calloc(w.e->n_node + 1, 1);
  int32_t rc;
  if (!plan->symbol || !plan->wanted || !plan->dim || !plan->tensor || !plan->location ||
      !plan->space || !w.need || !w.run || !w.root || !w.last || !w.maker || !w.placed) {
    rc = kit_no_memory(error, p->n_tensor * sizeof *plan->tensor);
  } else {
    memcpy(plan->symbol, r->symbol, p->n_symbol * sizeof *plan->symbol);
    memcpy(plan->dim, r->dim, p->n_dim * sizeof *plan->dim);
    memcpy(plan->wanted, r->wanted, w.e->n_out);
    rc = make(&w, error);
  }
  free(w.need);
  free(w.run);
  free(w.root);
  free(w.last);
  free(w.maker);
  free(w.placed);
  free(w.hole);
  free(w.tensors);
  if (rc)
    kit_plan_free(plan);
  else
    *out = plan;
  return rc;
}

void kit_plan_free(kit_plan *plan) {
  if (!plan) return;
  free(plan->symbol);
  free(plan->wanted);
  free(plan->dim);
  free(plan->tensor);
  free(plan->location);
  free(plan->step);
  free(plan->space);
  free(plan);
}

/* ---- the default rule of in-place results ---- */

static bool same_dims(const accel_plugin_program *p, int32_t a, int32_t b) {
  if (a < 0 || b < 0 || p->tensor[a].rank != p->tensor[b].rank) return false;
  return memcmp(p->tensor[a].dim, p->tensor[b].dim,
                p->tensor[a].rank * sizeof p->tensor[a].dim[0]) == 0;
}

uint32_t kit_inplace(const accel_plugin_program *p, const accel_plugin_node *n, uint32_t result) {
  int32_t out = kit_result(n, result);
  uint32_t mask = 0;
  switch (n->op) {
    case ACCEL_PLUGIN_OP_BINARY:
      mask = 3;
      break;
    case ACCEL_PLUGIN_OP_UNARY:
    case ACCEL_PLUGIN_OP_CAST:
    case ACCEL_PLUGIN_OP_ROPE:
    case ACCEL_PLUGIN_OP_SCATTER_ROWS:
    case ACCEL_PLUGIN_OP_LOW_RANK:
      mask = 1;
      break;
    case ACCEL_PLUGIN_OP_NORM:
      mask = 1u | 1u << 3;
      break;
    case ACCEL_PLUGIN_OP_LINEAR:
      mask = 1u << 3;
      break;
    case ACCEL_PLUGIN_OP_SOFTMAX: {
      int64_t axis = kit_attr_i(n, ACCEL_PLUGIN_ATTR_AXIS, -1);
      if (axis == -1 || (out >= 0 && axis == p->tensor[out].rank - 1)) mask = 1;
    }
  }
  for (uint32_t i = 0; i < 4; i++)
    if (mask >> i & 1 && !same_dims(p, kit_operand(n, i), out)) mask &= ~(1u << i);
  return mask;
}
