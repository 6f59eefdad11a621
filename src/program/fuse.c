/* fuse.c - the few fusions a model file may not have spelled itself:
 *   unary activation behind linear, conv or group_norm  ->  their act attribute
 *   add behind linear                                   ->  its residual operand
 * Both only when the fused result has no other reader and is no output of an entry.  The fused node
 * stands where the second one stood. */
#include <stdlib.h>
#include <string.h>

#include "program/program_internal.h"

typedef struct fuser {
  accel__program *p;
  uint32_t *readers; /* [n_tensor] nodes and entries that read it */
  int32_t *producer; /* [n_tensor] node, -1 none */
  uint8_t *gone;     /* [n_node] merged into a later node */
} fuser;

static void count_readers(fuser *f) {
  accel__program *p = f->p;
  for (uint32_t i = 0; i < p->n_tensor; i++) f->producer[i] = -1;
  for (uint32_t i = 0; i < p->n_node; i++) {
    for (uint32_t k = 0; k < p->node[i].n_in; k++) {
      if (p->node[i].in[k] >= 0) f->readers[p->node[i].in[k]]++;
    }
    for (uint32_t k = 0; k < p->node[i].n_out; k++) f->producer[p->node[i].out[k]] = (int32_t)i;
  }
  for (uint32_t i = 0; i < p->n_entry; i++) {
    for (uint32_t k = 0; k < p->entry[i].n_out; k++) f->readers[p->entry[i].out[k]]++;
  }
}

static const accel_plugin_attr *find(const accel_plugin_node *n, int key) {
  for (uint32_t i = 0; i < n->n_attr; i++) {
    if (n->attr[i].key == key) return &n->attr[i];
  }
  return NULL;
}

static int32_t operand(const accel_plugin_node *n, uint32_t i) {
  return i < n->n_in ? n->in[i] : -1;
}

/* The node that computes `t` when nobody else reads it. */
static accel_plugin_node *only_producer(fuser *f, int32_t t) {
  if (t < 0 || f->readers[t] != 1 || f->producer[t] < 0) return NULL;
  return &f->p->node[f->producer[t]];
}

/* n takes over what `source` did, and its operands. */
static void take_over(fuser *f, accel_plugin_node *n, const accel_plugin_node *source, int32_t *in,
                      uint32_t n_in, accel_plugin_attr *attr, uint32_t n_attr) {
  f->gone[source - f->p->node] = 1;
  n->op = source->op;
  n->in = in;
  n->n_in = (uint16_t)n_in;
  n->attr = attr;
  n->n_attr = n_attr;
  n->state = source->state;
}

static bool fuse_activation(fuser *f, accel_plugin_node *n) {
  const accel_plugin_attr *kind = find(n, ACCEL_PLUGIN_ATTR_KIND),
                          *alpha = find(n, ACCEL_PLUGIN_ATTR_ALPHA);
  if (kind == NULL || kind->i >= 20) return false;
  const accel_plugin_node *source = only_producer(f, n->in[0]);
  if (source == NULL || !accel__op_takes(source->op, ACCEL_PLUGIN_ATTR_ACT) ||
      source->op == ACCEL_PLUGIN_OP_MOE)
    return false;
  const accel_plugin_attr *act = find(source, ACCEL_PLUGIN_ATTR_ACT),
                          *glu = find(source, ACCEL_PLUGIN_ATTR_GLU);
  if ((act != NULL && act->i != ACCEL_PLUGIN_ACT_NONE) ||
      (glu != NULL && glu->i != ACCEL_PLUGIN_GLU_NONE))
    return false;
  if (source->op == ACCEL_PLUGIN_OP_LINEAR && operand(source, 3) >= 0)
    return false; /* act comes before the residual there */
  if (alpha != NULL && !accel__op_takes(source->op, ACCEL_PLUGIN_ATTR_ACT_ALPHA)) return false;
  accel_plugin_attr *attr = accel__arena_array(&f->p->arena, source->n_attr + 2u, sizeof *attr);
  if (attr == NULL) return false;
  uint32_t count = 0;
  for (uint32_t i = 0; i < source->n_attr; i++) {
    if (source->attr[i].key != ACCEL_PLUGIN_ATTR_ACT &&
        source->attr[i].key != ACCEL_PLUGIN_ATTR_ACT_ALPHA)
      attr[count++] = source->attr[i];
  }
  attr[count++] =
      (accel_plugin_attr){.key = ACCEL_PLUGIN_ATTR_ACT, .type = ACCEL_PLUGIN_ATTR_I, .i = kind->i};
  if (alpha != NULL)
    attr[count++] = (accel_plugin_attr){
        .key = ACCEL_PLUGIN_ATTR_ACT_ALPHA, .type = ACCEL_PLUGIN_ATTR_F, .f = alpha->f};
  take_over(f, n, source, (int32_t *)source->in, source->n_in, attr, count);
  return true;
}

static bool same_shape(const accel__program *p, int32_t a, int32_t b) {
  const accel_plugin_tensor *x = &p->tensor[a], *y = &p->tensor[b];
  return x->rank == y->rank && x->dtype == y->dtype &&
         memcmp(x->dim, y->dim, x->rank * sizeof *x->dim) == 0;
}

/* x + linear(..) where operand `at` of the addition is the linear. */
static bool fuse_residual(fuser *f, accel_plugin_node *n, uint32_t at) {
  const accel_plugin_attr *kind = find(n, ACCEL_PLUGIN_ATTR_KIND);
  const accel_plugin_node *source = only_producer(f, n->in[at]);
  int32_t other = n->in[1 - at];
  if (kind == NULL || kind->i != ACCEL_PLUGIN_BINARY_ADD || source == NULL ||
      source->op != ACCEL_PLUGIN_OP_LINEAR)
    return false;
  if (operand(source, 3) >= 0 || !same_shape(f->p, other, n->in[at])) return false;
  uint32_t n_in = source->n_in > 4 ? source->n_in : 4;
  int32_t *in = accel__arena_array(&f->p->arena, n_in, sizeof *in);
  if (in == NULL) return false;
  for (uint32_t i = 0; i < n_in; i++) in[i] = i == 3 ? other : operand(source, i);
  take_over(f, n, source, in, n_in, (accel_plugin_attr *)source->attr, source->n_attr);
  return true;
}

/* Drops the merged nodes and the tensors' claim to be computed by them. */
static void compact(fuser *f) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < f->p->n_node; i++) {
    if (!f->gone[i]) f->p->node[kept++] = f->p->node[i];
  }
  f->p->n_node = kept;
}

void accel__fuse(accel__program *p) {
  fuser f = {.p = p,
             .readers = calloc(p->n_tensor + 1u, sizeof *f.readers),
             .producer = calloc(p->n_tensor + 1u, sizeof *f.producer),
             .gone = calloc(p->n_node + 1u, 1)};
  if (f.readers == NULL || f.producer == NULL || f.gone == NULL) {
    accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for fusion");
  } else {
    count_readers(&f);
    for (uint32_t i = 0; i < p->n_node; i++) {
      accel_plugin_node *n = &p->node[i];
      if (n->op == ACCEL_PLUGIN_OP_UNARY)
        fuse_activation(&f, n);
      else if (n->op == ACCEL_PLUGIN_OP_BINARY && n->n_in == 2 && !fuse_residual(&f, n, 0))
        fuse_residual(&f, n, 1);
    }
    compact(&f);
  }
  free(f.readers);
  free(f.producer);
  free(f.gone);
}
