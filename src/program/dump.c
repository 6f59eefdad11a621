/* dump.c - a program as text (one line a node; also what the hash is taken of) and as a Graphviz
 * graph. */
#include <string.h>

#include "program/program_internal.h"

static const char *tensor_name(const accel_plugin_program *p, int32_t t) {
  return t >= 0 && (uint32_t)t < p->n_tensor ? ACCEL_AT(p, tensor, t)->name : "-";
}

static void write_names(const accel_plugin_program *p, const int32_t *t, uint32_t n,
                        accel__buffer *out) {
  for (uint32_t i = 0; i < n; i++)
    accel__buffer_printf(out, "%s%s", i > 0 ? ", " : "", tensor_name(p, t[i]));
}

static void write_tensor(const accel_plugin_program *p, const accel_plugin_tensor *t,
                         accel__buffer *out) {
  accel__buffer_printf(out, "%s %s", t->name, t->dtype == ACCEL_PLUGIN_I32 ? "i32" : "f32");
  accel__shape_text(p, t, out);
  if (t->space >= 0 && (uint32_t)t->space < p->n_space)
    accel__buffer_printf(out, " in %s", ACCEL_AT(p, space, t->space)->name);
}

static void write_attribute(const accel_plugin_program *p, int op, const accel_plugin_attr *a,
                            accel__buffer *out) {
  const char *name = accel__attr_name(a->key), *value = accel__enum_name(op, a->key, a->i);
  accel__buffer_printf(out, " %s=", name != NULL ? name : "?");
  if (a->type == ACCEL_PLUGIN_ATTR_F)
    accel__buffer_printf(out, "%.9g", a->f);
  else if (a->type == ACCEL_PLUGIN_ATTR_I && value != NULL)
    accel__buffer_text(out, value);
  else if (a->type == ACCEL_PLUGIN_ATTR_I)
    accel__buffer_printf(out, "%lld", (long long)a->i);
  else
    accel__buffer_text(out, "[");
  if (a->type == ACCEL_PLUGIN_ATTR_F || a->type == ACCEL_PLUGIN_ATTR_I) return;
  for (uint32_t i = 0; i < a->n; i++) {
    if (i > 0) accel__buffer_text(out, ",");
    if (a->type == ACCEL_PLUGIN_ATTR_D)
      accel__dim_text(p, (accel__dim)a->v[i], out);
    else
      accel__buffer_printf(out, "%lld", (long long)a->v[i]);
  }
  accel__buffer_text(out, "]");
}

static void write_op(const accel_plugin_program *p, const accel_plugin_node *n,
                     accel__buffer *out) {
  accel__signature s;
  accel__buffer_text(out, accel__op_signature(n->op, &s) ? s.name : "?");
  accel__buffer_text(out, "(");
  write_names(p, n->in, n->n_in, out);
  accel__buffer_text(out, ")");
  for (uint32_t i = 0; i < n->n_attr; i++) write_attribute(p, n->op, &n->attr[i], out);
  if (n->state >= 0 && (uint32_t)n->state < p->n_state)
    accel__buffer_printf(out, " state=%s", ACCEL_AT(p, state, n->state)->name);
}

static void write_node(const accel_plugin_program *p, uint32_t index, accel__buffer *out) {
  const accel_plugin_node *n = ACCEL_AT(p, node, index);
  accel__buffer_printf(out, "%5u @%u  ", index, n->stage);
  for (uint32_t k = 0; k < n->n_out; k++) {
    if (k > 0) accel__buffer_text(out, ", ");
    if (n->out[k] < 0)
      accel__buffer_text(out, "-");
    else
      write_tensor(p, ACCEL_AT(p, tensor, n->out[k]), out);
  }
  accel__buffer_text(out, " = ");
  write_op(p, n, out);
  accel__buffer_text(out, "\n");
}

static void write_head(const accel_plugin_program *p, accel__buffer *out) {
  for (uint32_t i = 0; i < p->n_symbol; i++) {
    const accel_plugin_symbol *s = ACCEL_AT(p, symbol, i);
    accel__buffer_printf(out, "symbol %s %lld..", s->name, (long long)s->min);
    if (s->max != 0) accel__buffer_printf(out, "%lld", (long long)s->max);
    accel__buffer_printf(out, " typically %lld\n", (long long)s->typical);
  }
  for (uint32_t i = 0; i < p->n_space; i++) {
    const accel_plugin_space *s = ACCEL_AT(p, space, i);
    accel__buffer_printf(out, "space %s rows ", s->name);
    accel__dim_text(p, s->rows, out);
    accel__buffer_text(out, " items ");
    accel__dim_text(p, s->items, out);
    accel__buffer_printf(out, s->lengths >= 0 ? " ragged by %s\n" : " each\n",
                         tensor_name(p, s->lengths));
  }
  for (uint32_t i = 0; i < p->n_state; i++) {
    const accel_plugin_state *s = ACCEL_AT(p, state, i);
    accel__buffer_printf(out, "state %s kind %d heads %d k %d v %d window %d share %d\n", s->name,
                         s->kind, s->heads, s->k_dim, s->v_dim, s->window, s->share);
  }
}

static void write_tensors(const accel_plugin_program *p, accel__buffer *out) {
  static const char *const use[] = {"?", "linear", "head", "embedding", "conv", "moe", "plain"};
  for (uint32_t i = 0; i < p->n_tensor; i++) {
    const accel_plugin_tensor *t = ACCEL_AT(p, tensor, i);
    if (t->kind == ACCEL_PLUGIN_TENSOR_VALUE) continue;
    accel__buffer_text(out, t->kind == ACCEL_PLUGIN_TENSOR_INPUT   ? "input "
                            : t->kind == ACCEL_PLUGIN_TENSOR_CONST ? "const "
                                                                   : "weight ");
    write_tensor(p, t, out);
    if (t->kind == ACCEL_PLUGIN_TENSOR_WEIGHT) {
      const accel_plugin_weight *w = ACCEL_AT(p, weight, t->weight);
      accel__buffer_printf(out, " %s @%u", use[w->use <= ACCEL_PLUGIN_USE_PLAIN ? w->use : 0],
                           w->stage);
    }
    accel__buffer_text(out, "\n");
  }
}

void accel__program_text(const accel_plugin_program *p, accel__buffer *out) {
  accel__buffer_printf(out, "program %s: %u nodes, %u weights, %u stages\n", p->name, p->n_node,
                       p->n_weight, p->n_stage);
  write_head(p, out);
  write_tensors(p, out);
  for (uint32_t i = 0; i < p->n_node; i++) write_node(p, i, out);
  for (uint32_t i = 0; i < p->n_entry; i++) {
    const accel_plugin_entry *e = ACCEL_AT(p, entry, i);
    accel__buffer_printf(out, "entry %s(", e->name);
    write_names(p, e->in, e->n_in, out);
    accel__buffer_text(out, ") -> ");
    write_names(p, e->out, e->n_out, out);
    accel__buffer_printf(out, "; %u nodes\n", e->n_node);
  }
}

/* Graphviz wants quotes and backslashes escaped. */
static void write_quoted(const char *text, accel__buffer *out) {
  for (; *text != '\0'; text++) {
    if (*text == '"' || *text == '\\') accel__buffer_text(out, "\\");
    accel__buffer_bytes(out, text, 1);
  }
}

static void write_dot_node(const accel_plugin_program *p, uint32_t index, const int32_t *producer,
                           accel__buffer *out) {
  const accel_plugin_node *n = ACCEL_AT(p, node, index);
  accel__signature s;
  accel__buffer_printf(out, "  n%u [shape=box,label=\"%s\\n", index,
                       accel__op_signature(n->op, &s) ? s.name : "?");
  accel__buffer text = {0};
  if (n->n_out > 0 && n->out[0] >= 0) write_tensor(p, ACCEL_AT(p, tensor, n->out[0]), &text);
  for (uint32_t i = 0; i < n->n_attr; i++) write_attribute(p, n->op, &n->attr[i], &text);
  if (text.data != NULL) write_quoted(text.data, out);
  accel__buffer_free(&text);
  accel__buffer_text(out, "\"];\n");
  for (uint32_t k = 0; k < n->n_in; k++) {
    if (n->in[k] < 0) continue;
    const accel_plugin_tensor *t = ACCEL_AT(p, tensor, n->in[k]);
    if (t->kind == ACCEL_PLUGIN_TENSOR_VALUE)
      accel__buffer_printf(out, "  n%d -> n%u;\n", producer[n->in[k]], index);
    else if (t->kind == ACCEL_PLUGIN_TENSOR_INPUT)
      accel__buffer_printf(out, "  t%d -> n%u;\n", n->in[k], index);
  }
}

void accel__program_dot(const accel_plugin_program *p, accel__buffer *out) {
  accel__arena arena = {0};
  int32_t *producer = accel__arena_array(&arena, p->n_tensor + 1u, sizeof *producer);
  if (producer == NULL) {
    out->failed = true;
    return;
  }
  accel__buffer_text(out, "digraph \"");
  write_quoted(p->name, out);
  accel__buffer_text(out, "\" {\n  rankdir=TB; node [fontname=\"monospace\"];\n");
  for (uint32_t i = 0; i < p->n_tensor; i++) {
    const accel_plugin_tensor *t = ACCEL_AT(p, tensor, i);
    if (t->kind != ACCEL_PLUGIN_TENSOR_INPUT) continue;
    accel__buffer_printf(out, "  t%u [shape=ellipse,label=\"", i);
    write_quoted(t->name, out);
    accel__buffer_text(out, "\"];\n");
  }
  for (uint32_t i = 0; i < p->n_node; i++) {
    const accel_plugin_node *n = ACCEL_AT(p, node, i);
    for (uint32_t k = 0; k < n->n_out; k++) {
      if (n->out[k] >= 0) producer[n->out[k]] = (int32_t)i;
    }
    write_dot_node(p, i, producer, out);
  }
  for (uint32_t i = 0; i < p->n_entry; i++) {
    const accel_plugin_entry *e = ACCEL_AT(p, entry, i);
    for (uint32_t k = 0; k < e->n_out; k++) {
      accel__buffer_printf(out, "  o%u_%u [shape=ellipse,label=\"%s\"];\n  n%d -> o%u_%u;\n", i, k,
                           e->name, producer[e->out[k]], i, k);
    }
  }
  accel__buffer_text(out, "}\n");
  accel__arena_free(&arena);
}
