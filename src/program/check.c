/* check.c - checking nodes against ops.def, and whole programs from anywhere. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "program/program_internal.h"

typedef bool (*shape_fn)(accel__infer *c);
static shape_fn shape_of(int op) { /* made from ops.def: an op without a function does not link */
  switch (op) {
#define ACCEL_OP(name, number, operands, outputs, attributes, text) \
  case number:                                                      \
    return accel__shape_##name;
#include "accel/ops.def"
    default:
      return NULL;
  }
}

static bool takes_any_dtype(int op) {
  switch (op) {
    case ACCEL_PLUGIN_OP_GATHER:
    case ACCEL_PLUGIN_OP_SCATTER_ROWS:
    case ACCEL_PLUGIN_OP_BINARY:
    case ACCEL_PLUGIN_OP_CAST:
    case ACCEL_PLUGIN_OP_REDUCE:
    case ACCEL_PLUGIN_OP_TOPK:
    case ACCEL_PLUGIN_OP_RESHAPE:
    case ACCEL_PLUGIN_OP_TRANSPOSE:
    case ACCEL_PLUGIN_OP_SLICE:
    case ACCEL_PLUGIN_OP_BROADCAST:
    case ACCEL_PLUGIN_OP_CONCAT:
    case ACCEL_PLUGIN_OP_PAD:
      return true;
    default:
      return false;
  }
}

static bool takes_state(int op) {
  return op == ACCEL_PLUGIN_OP_ATTENTION || op == ACCEL_PLUGIN_OP_CONV ||
         op == ACCEL_PLUGIN_OP_SELECTIVE_SCAN || op == ACCEL_PLUGIN_OP_GATED_DELTA_RULE;
}

static bool is_index_operand(const char *name) {
  static const char *const names[] = {"idx", "pos", "q_pos", "kv_pos", "mask"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(name, names[i]) == 0) return true;
  }
  return false;
}

static bool check_operands(accel__infer *c) {
  const accel__signature *s = c->signature;
  bool many = s->n_operands > 0 && s->operand[s->n_operands - 1].many;
  uint32_t most = many ? ACCEL__MAX_OPERANDS : s->n_operands;
  if (c->n_in > most) return accel__wrong(c, "%u operands, at most %u", c->n_in, most);
  for (uint32_t i = 0; i < c->n_in || i < s->n_required; i++) {
    const accel__operand *o = &s->operand[i < s->n_operands ? i : s->n_operands - 1];
    int32_t t = i < c->n_in ? c->in[i] : -1;
    if (t < -1 || (t >= 0 && (uint32_t)t >= c->p->n_tensor))
      return accel__wrong(c, "%s: tensor %d does not exist", o->name, t);
    if (t < 0 && !o->optional) return accel__wrong(c, "operand %s is absent", o->name);
    if (t < 0) continue;
    int dtype = c->p->tensor[t].dtype;
    if (is_index_operand(o->name) && dtype != ACCEL_PLUGIN_I32)
      return accel__wrong(c, "operand %s must be int32", o->name);
    if (!is_index_operand(o->name) && !takes_any_dtype(c->op) && dtype != ACCEL_PLUGIN_F32)
      return accel__wrong(c, "operand %s must be f32", o->name);
  }
  return true;
}

static bool check_attribute(accel__infer *c, const accel_plugin_attr *a) {
  const char *name = accel__attr_name(a->key);
  if (name == NULL) return accel__wrong(c, "attribute %u is unknown", a->key);
  if (!accel__op_takes(c->op, a->key))
    return accel__wrong(c, "attribute %s does not belong to this op", name);
  if (a->type != accel__attr_type(a->key))
    return accel__wrong(c, "attribute %s has the wrong type", name);
  if (a->type == ACCEL_PLUGIN_ATTR_F && !isfinite(a->f))
    return accel__wrong(c, "attribute %s is not finite", name);
  if (a->n > 0 && a->v == NULL) return accel__wrong(c, "attribute %s has no values", name);
  if (accel__attr_is_enum(c->op, a->key) && accel__enum_name(c->op, a->key, a->i) == NULL) {
    return accel__wrong(c, "attribute %s has no value %lld", name, (long long)a->i);
  }
  return true;
}

static bool check_attributes(accel__infer *c) {
  for (uint32_t i = 0; i < c->n_attr; i++) {
    if (!check_attribute(c, &c->attr[i])) return false;
    for (uint32_t k = 0; k < i; k++) {
      if (c->attr[k].key == c->attr[i].key)
        return accel__wrong(c, "attribute %s is given twice", accel__attr_name(c->attr[i].key));
    }
  }
  bool wants_kind = accel__attr_is_enum(c->op, ACCEL_PLUGIN_ATTR_KIND);
  if (wants_kind && accel__attr_at(c, ACCEL_PLUGIN_ATTR_KIND) == NULL)
    return accel__wrong(c, "attribute kind is missing");
  if (c->op == ACCEL_PLUGIN_OP_CAST && accel__attr_at(c, ACCEL_PLUGIN_ATTR_DTYPE) == NULL)
    return accel__wrong(c, "attribute dtype is missing");
  return true;
}

/* The known part of each result's size stays far from overflow. */
static bool check_results(accel__infer *c) {
  for (uint32_t k = 0; k < c->n_out; k++) {
    int64_t all = 1, value;
    for (uint32_t i = 0; i < c->out[k].rank; i++) {
      if (c->out[k].dim[i] < 0) return accel__wrong(c, "a dim of the result could not be computed");
      if (!accel__dim_value(c->p, c->out[k].dim[i], &value)) continue;
      if (value < 0 || __builtin_mul_overflow(all, value, &all) || all > (INT64_C(1) << 48))
        return accel__wrong(c, "the result is too large");
    }
  }
  return true;
}

bool accel__infer_node(accel__infer *c) {
  shape_fn shape = shape_of(c->op);
  if (shape == NULL) return accel__wrong(c, "op %d is unknown", c->op);
  if (c->n_out < 1 || c->n_out > c->signature->n_outputs)
    return accel__wrong(c, "%u results, at most %u", c->n_out, c->signature->n_outputs);
  if (c->state >= 0 && (!takes_state(c->op) || (uint32_t)c->state >= c->p->n_state))
    return accel__wrong(c, "state %d does not go with this op", c->state);
  if (!check_operands(c) || !check_attributes(c) || !shape(c)) return false;
  if (c->p->status != ACCEL_OK)
    return accel__wrong(c, "%s",
                        c->p->message != NULL ? c->p->message : "a dim could not be computed");
  return check_results(c);
}

bool accel__check_node(accel__infer *c, const char *name, accel__buffer *message) {
  if (accel__infer_node(c)) return true;
  accel_plugin_program view;
  accel__program_peek(c->p, &view);
  accel__buffer_printf(message, "node '%s' (%s): %s", name, c->signature->name, c->why);
  for (uint32_t i = 0; i < c->n_in && i < 16; i++) {
    const accel__signature *s = c->signature;
    accel__buffer_printf(message, "%s%s ", i == 0 ? "; operands " : ", ",
                         s->operand[i < s->n_operands ? i : s->n_operands - 1].name);
    if (c->in[i] < 0 || (uint32_t)c->in[i] >= c->p->n_tensor) {
      accel__buffer_text(message, "-");
      continue;
    }
    const accel_plugin_tensor *t = &c->p->tensor[c->in[i]];
    accel__shape_text(&view, t, message);
    accel__buffer_printf(message, " '%s'", t->name != NULL ? t->name : "?");
  }
  return false;
}

/* ---- a finished program from anywhere ---- */

typedef struct checker {
  const accel_plugin_program *p;
  accel__program *copy; /* tables copied so that shapes can be inferred again */
  uint8_t *defined;     /* [n_tensor] given, or computed by a node already seen */
} checker;

#define BROKEN(...) accel__fail(ACCEL_ERROR_FORMAT, __VA_ARGS__)

static accel_status check_dims(const accel_plugin_program *p) {
  for (uint32_t i = 0; i < p->n_symbol; i++) {
    const accel_plugin_symbol *s = ACCEL_AT(p, symbol, i);
    if (s->name == NULL || s->min < 0 || (s->max != 0 && s->max < s->min))
      return BROKEN("%s: symbol %u is malformed", p->name, i);
  }
  for (uint32_t i = 0; i < p->n_dim; i++) {
    const accel_plugin_dim *d = ACCEL_AT(p, dim, i);
    bool fine = d->op == ACCEL_PLUGIN_DIM_CONST;
    if (d->op == ACCEL_PLUGIN_DIM_SYMBOL) fine = d->a >= 0 && (uint32_t)d->a < p->n_symbol;
    if (d->op >= ACCEL_PLUGIN_DIM_ADD && d->op <= ACCEL_PLUGIN_DIM_MAX)
      fine = d->a >= 0 && d->b >= 0 && d->a < (int32_t)i && d->b < (int32_t)i;
    if (!fine) return BROKEN("%s: dim %u is malformed", p->name, i);
  }
  return ACCEL_OK;
}

static accel_status check_tensors(const accel_plugin_program *p) {
  for (uint32_t i = 0; i < p->n_tensor; i++) {
    const accel_plugin_tensor *t = ACCEL_AT(p, tensor, i);
    if (t->name == NULL) return BROKEN("%s: tensor %u has no name", p->name, i);
    bool fine = t->kind <= ACCEL_PLUGIN_TENSOR_CONST &&
                (t->dtype == ACCEL_PLUGIN_F32 || t->dtype == ACCEL_PLUGIN_I32) &&
                t->rank <= ACCEL_PLUGIN_MAX_RANK && t->space >= -1 &&
                t->space < (int32_t)p->n_space;
    for (uint32_t k = 0; fine && k < t->rank; k++)
      fine = t->dim[k] >= 0 && (uint32_t)t->dim[k] < p->n_dim;
    if (t->kind == ACCEL_PLUGIN_TENSOR_WEIGHT)
      fine = fine && t->weight >= 0 && (uint32_t)t->weight < p->n_weight;
    if (t->kind == ACCEL_PLUGIN_TENSOR_CONST) fine = fine && t->data != NULL;
    if (!fine) return BROKEN("%s: tensor '%s' is malformed", p->name, t->name);
  }
  for (uint32_t i = 0; i < p->n_space; i++) {
    const accel_plugin_space *s = ACCEL_AT(p, space, i);
    bool fine = s->name != NULL && s->lengths >= -1 && s->lengths < (int32_t)p->n_tensor &&
                s->rows >= 0 && (uint32_t)s->rows < p->n_dim && s->items >= 0 &&
                (uint32_t)s->items < p->n_dim;
    if (fine && s->lengths >= 0)
      fine = ACCEL_AT(p, tensor, s->lengths)->kind == ACCEL_PLUGIN_TENSOR_INPUT;
    if (!fine) return BROKEN("%s: space %u is malformed", p->name, i);
  }
  return ACCEL_OK;
}

/* Copies one table of the view into the scratch program. */
static bool copy_table(void **to, uint32_t *n_to, const void *from, uint32_t n, uint32_t stride,
                       size_t size) {
  *to = calloc(n + 1u, size);
  if (*to == NULL) return false;
  for (uint32_t i = 0; i < n; i++)
    memcpy((char *)*to + i * size, (const char *)from + (size_t)i * stride,
           stride < size ? stride : size);
  *n_to = n;
  return true;
}
#define COPY(field)                                                                 \
  copy_table((void **)&c->copy->field, &c->copy->n_##field, p->field, p->n_##field, \
             p->field##_stride, sizeof *c->copy->field)

static accel_status copy_tables(checker *c) {
  const accel_plugin_program *p = c->p;
  if (!COPY(symbol) || !COPY(dim) || !COPY(space) || !COPY(tensor) || !COPY(state))
    return accel__no_memory(0);
  c->copy->cap_dim = p->n_dim + 1; /* inference adds dims */
  c->copy->sample = calloc(p->n_dim + 1u, sizeof *c->copy->sample);
  c->copy->cap_sample = p->n_dim + 1;
  c->defined = calloc(p->n_tensor + 1u, 1);
  if (c->copy->sample == NULL || c->defined == NULL) return accel__no_memory(0);
  for (uint32_t i = 0; i < p->n_tensor; i++)
    c->defined[i] = ACCEL_AT(p, tensor, i)->kind != ACCEL_PLUGIN_TENSOR_VALUE;
  return ACCEL_OK;
}

/* A result as the node states it against the result as its op implies it. */
static bool same_result(checker *c, const accel_plugin_tensor *stated,
                        const accel_plugin_tensor *inferred) {
  if (stated->rank != inferred->rank || stated->dtype != inferred->dtype) return false;
  for (uint32_t i = 0; i < stated->rank; i++) {
    if (!accel__dims_equal(c->copy, stated->dim[i], inferred->dim[i])) return false;
  }
  return true;
}

static const char *node_name(const accel_plugin_program *p, const accel_plugin_node *n) {
  for (uint32_t k = 0; k < n->n_out; k++) {
    if (n->out[k] >= 0 && (uint32_t)n->out[k] < p->n_tensor)
      return ACCEL_AT(p, tensor, n->out[k])->name;
  }
  return "?";
}

static accel_status check_node(checker *c, uint32_t index) {
  const accel_plugin_node *n = ACCEL_AT(c->p, node, index);
  accel__signature signature;
  if (!accel__op_signature(n->op, &signature))
    return BROKEN("%s: node %u: op %u is unknown", c->p->name, index, n->op);
  const char *name = node_name(c->p, n);
  if (n->n_out > ACCEL__MAX_OUTPUTS || n->n_in > ACCEL__MAX_OPERANDS)
    return BROKEN("%s: node '%s': too many operands", c->p->name, name);
  for (uint32_t k = 0; k < n->n_in; k++) {
    bool fine = n->in[k] == -1 ||
                (n->in[k] >= 0 && (uint32_t)n->in[k] < c->p->n_tensor && c->defined[n->in[k]]);
    if (!fine)
      return BROKEN("%s: node '%s': operand %u is not computed before it", c->p->name, name, k);
  }
  accel__infer infer = {.p = c->copy,
                        .op = n->op,
                        .signature = &signature,
                        .in = n->in,
                        .n_in = n->n_in,
                        .attr = n->attr,
                        .n_attr = n->n_attr,
                        .state = n->state,
                        .n_out = n->n_out};
  accel__buffer message = {0};
  bool fine = accel__check_node(&infer, name, &message);
  if (!fine) BROKEN("%s: %s", c->p->name, message.data != NULL ? message.data : infer.why);
  accel__buffer_free(&message);
  if (!fine) return ACCEL_ERROR_FORMAT;
  for (uint32_t k = 0; k < n->n_out; k++) {
    if (n->out[k] < 0) continue;
    if ((uint32_t)n->out[k] >= c->p->n_tensor || c->defined[n->out[k]])
      return BROKEN("%s: node '%s': its result %u is already defined", c->p->name, name, k);
    if (!same_result(c, &c->copy->tensor[n->out[k]], &infer.out[k]))
      return BROKEN("%s: node '%s' (%s): its result has another shape than the op gives",
                    c->p->name, name, signature.name);
    c->defined[n->out[k]] = 1;
  }
  return ACCEL_OK;
}

/* Every node of an entry must find its operands among the entry's inputs and earlier nodes of the
 * same entry. */
static accel_status check_entry(checker *c, const accel_plugin_entry *e) {
  const accel_plugin_program *p = c->p;
  if (e->name == NULL) return BROKEN("%s: an entry has no name", p->name);
  for (uint32_t i = 0; i < p->n_tensor; i++) {
    uint8_t kind = ACCEL_AT(p, tensor, i)->kind;
    c->defined[i] = kind == ACCEL_PLUGIN_TENSOR_WEIGHT || kind == ACCEL_PLUGIN_TENSOR_CONST;
  }
  for (uint32_t i = 0; i < e->n_in; i++) {
    bool fine = e->in[i] >= 0 && (uint32_t)e->in[i] < p->n_tensor &&
                ACCEL_AT(p, tensor, e->in[i])->kind == ACCEL_PLUGIN_TENSOR_INPUT;
    if (!fine) return BROKEN("%s: entry '%s': input %u is no input tensor", p->name, e->name, i);
    c->defined[e->in[i]] = 1;
  }
  int32_t last = -1;
  for (uint32_t i = 0; i < e->n_node; i++) {
    if (e->node[i] <= last || (uint32_t)e->node[i] >= p->n_node)
      return BROKEN("%s: entry '%s': node list is out of order", p->name, e->name);
    last = e->node[i];
    const accel_plugin_node *n = ACCEL_AT(p, node, last);
    for (uint32_t k = 0; k < n->n_in; k++) {
      if (n->in[k] < 0 || c->defined[n->in[k]]) continue;
      return BROKEN(
          "%s: entry '%s': node '%s' needs '%s', which is neither an input of the entry nor "
          "computed in it",
          p->name, e->name, node_name(p, n), ACCEL_AT(p, tensor, n->in[k])->name);
    }
    for (uint32_t k = 0; k < n->n_out; k++) {
      if (n->out[k] >= 0) c->defined[n->out[k]] = 1;
    }
  }
  for (uint32_t i = 0; i < e->n_out; i++) {
    if (e->out[i] < 0 || (uint32_t)e->out[i] >= p->n_tensor || !c->defined[e->out[i]])
      return BROKEN("%s: entry '%s': output %u is not computed", p->name, e->name, i);
  }
  return ACCEL_OK;
}

static accel_status check_all(checker *c) {
  ACCEL_TRY(check_dims(c->p));
  ACCEL_TRY(check_tensors(c->p));
  ACCEL_TRY(copy_tables(c));
  for (uint32_t i = 0; i < c->p->n_node; i++) ACCEL_TRY(check_node(c, i));
  for (uint32_t i = 0; i < c->p->n_entry; i++) ACCEL_TRY(check_entry(c, ACCEL_AT(c->p, entry, i)));
  return ACCEL_OK;
}

accel_status accel__program_validate(const accel_plugin_program *p) {
  checker c = {.p = p, .copy = accel__program_new(p->name != NULL ? p->name : "program")};
  if (c.copy == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel_status status = check_all(&c);
  free(c.defined);
  accel__program_free(&c.copy);
  return status;
}
