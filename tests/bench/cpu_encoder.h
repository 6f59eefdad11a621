/* cpu_encoder.h - a BERT-shaped encoder as a plugin sees it: embedding, norm, and layers of q, k,
 * v, attention, two norms and the feed-forward part. For benchmarks and tests that need a whole
 * program without the rest of libaccel. */
#ifndef ACCEL_TESTS_CPU_ENCODER_H
#define ACCEL_TESTS_CPU_ENCODER_H

#include <string.h>

#include "accel/plugin.h"

enum { CPU_ENCODER_TENSORS = 1024, CPU_ENCODER_NODES = 512, CPU_ENCODER_DIMS = 64 };

typedef struct cpu_encoder {
  accel_plugin_program p;
  accel_plugin_symbol symbol[2];
  accel_plugin_dim dim[CPU_ENCODER_DIMS];
  accel_plugin_space space;
  accel_plugin_tensor tensor[CPU_ENCODER_TENSORS];
  accel_plugin_node node[CPU_ENCODER_NODES];
  accel_plugin_weight weight[CPU_ENCODER_TENSORS];
  accel_plugin_format format[CPU_ENCODER_TENSORS];
  accel_plugin_entry entry;
  int32_t in[CPU_ENCODER_NODES][12], out[CPU_ENCODER_NODES][2], order[CPU_ENCODER_NODES], inputs[2],
      outputs[1];
  accel_plugin_attr attr[CPU_ENCODER_NODES][4];
  uint64_t largest; /* elements of the largest weight */
} cpu_encoder;

static inline int32_t cpu_encoder_constant(cpu_encoder *m, int64_t c) {
  for (uint32_t i = 0; i < m->p.n_dim; i++)
    if (m->dim[i].op == ACCEL_PLUGIN_DIM_CONST && m->dim[i].c == c) return (int32_t)i;
  m->dim[m->p.n_dim] = (accel_plugin_dim){ACCEL_PLUGIN_DIM_CONST, 0, 0, c};
  return (int32_t)m->p.n_dim++;
}

static inline int32_t cpu_encoder_tensor(cpu_encoder *m, int kind, int dtype, int32_t rows,
                                         int32_t cols, int32_t space) {
  accel_plugin_tensor *t = &m->tensor[m->p.n_tensor];
  *t = (accel_plugin_tensor){.name = "t",
                             .kind = (uint8_t)kind,
                             .dtype = (uint8_t)dtype,
                             .rank = cols >= 0 ? 2 : 1,
                             .weight = -1,
                             .space = space};
  t->dim[0] = rows;
  t->dim[1] = cols >= 0 ? cols : 0;
  return (int32_t)m->p.n_tensor++;
}

static inline int32_t cpu_encoder_weight(cpu_encoder *m, int64_t n, int64_t k, uint32_t use) {
  int32_t id =
      cpu_encoder_tensor(m, ACCEL_PLUGIN_TENSOR_WEIGHT, ACCEL_PLUGIN_F32,
                         cpu_encoder_constant(m, n), k ? cpu_encoder_constant(m, k) : -1, -1);
  accel_plugin_weight *w = &m->weight[m->p.n_weight];
  *w = (accel_plugin_weight){.name = "w", .rank = k ? 2 : 1, .dim = {n, k}, .use = use};
  m->format[m->p.n_weight] = (accel_plugin_format){.store = ACCEL_PLUGIN_F32,
                                                   .scale = ACCEL_PLUGIN_NO_DTYPE,
                                                   .zero = ACCEL_PLUGIN_NO_DTYPE,
                                                   .outer = ACCEL_PLUGIN_NO_DTYPE};
  m->tensor[id].weight = (int32_t)m->p.n_weight++;
  uint64_t elements = (uint64_t)n * (uint64_t)(k ? k : 1);
  if (elements > m->largest) m->largest = elements;
  return id;
}

/* A node over up to four operands; returns its result [T, cols]. */
static inline int32_t cpu_encoder_node(cpu_encoder *m, int op, int32_t a, int32_t b, int32_t c,
                                       int32_t d, int64_t cols, int key, int64_t value) {
  uint32_t i = m->p.n_node++;
  int32_t y = cpu_encoder_tensor(m, ACCEL_PLUGIN_TENSOR_VALUE, ACCEL_PLUGIN_F32, 1,
                                 cpu_encoder_constant(m, cols), 0);
  memcpy(m->in[i], (int32_t[]){a, b, c, d}, 4 * sizeof(int32_t));
  m->out[i][0] = y;
  m->order[i] = (int32_t)i;
  m->node[i] = (accel_plugin_node){.op = (uint16_t)op,
                                   .version = 1,
                                   .n_in = 4,
                                   .n_out = 1,
                                   .in = m->in[i],
                                   .out = m->out[i],
                                   .attr = m->attr[i],
                                   .state = -1};
  if (key)
    m->attr[i][m->node[i].n_attr++] =
        (accel_plugin_attr){.key = (uint16_t)key, .type = ACCEL_PLUGIN_ATTR_I, .i = value};
  return y;
}

static inline int32_t cpu_encoder_linear(cpu_encoder *m, int32_t x, int64_t k, int64_t n,
                                         int32_t residual, int act) {
  return cpu_encoder_node(
      m, ACCEL_PLUGIN_OP_LINEAR, x, cpu_encoder_weight(m, n, k, ACCEL_PLUGIN_USE_LINEAR),
      cpu_encoder_weight(m, n, 0, ACCEL_PLUGIN_USE_PLAIN), residual, n, ACCEL_PLUGIN_ATTR_ACT, act);
}

static inline int32_t cpu_encoder_norm(cpu_encoder *m, int32_t x, int64_t n) {
  return cpu_encoder_node(m, ACCEL_PLUGIN_OP_NORM, x,
                          cpu_encoder_weight(m, n, 0, ACCEL_PLUGIN_USE_PLAIN),
                          cpu_encoder_weight(m, n, 0, ACCEL_PLUGIN_USE_PLAIN), -1, n, 0, 0);
}

/* An empty program over the symbols B and T, which are dims 0 and 1, with one space and one entry
 * to be filled in.  m is all zero. */
static inline void cpu_encoder_begin(cpu_encoder *m) {
  m->p = (accel_plugin_program){ACCEL_PLUGIN_PROGRAM_SIZES,
                                .name = "encoder",
                                .n_symbol = 2,
                                .n_dim = 2,
                                .n_space = 1,
                                .n_entry = 1,
                                .n_stage = 1,
                                .symbol = m->symbol,
                                .dim = m->dim,
                                .space = &m->space,
                                .tensor = m->tensor,
                                .node = m->node,
                                .entry = &m->entry,
                                .weight = m->weight};
  m->symbol[0] = (accel_plugin_symbol){"B", 0, 0, 1};
  m->symbol[1] = (accel_plugin_symbol){"T", 0, 0, 128};
  m->dim[0] = (accel_plugin_dim){ACCEL_PLUGIN_DIM_SYMBOL, 0, 0, 0};
  m->dim[1] = (accel_plugin_dim){ACCEL_PLUGIN_DIM_SYMBOL, 1, 0, 0};
}

/* Inputs: input_ids [T], lengths [B]; output [T, hidden].  m is all zero. */
static inline void cpu_encoder_build(cpu_encoder *m, int64_t vocab, int64_t hidden, int64_t inner,
                                     int64_t heads, int layers) {
  accel_plugin_program *p = &m->p;
  cpu_encoder_begin(m);
  int32_t ids = cpu_encoder_tensor(m, ACCEL_PLUGIN_TENSOR_INPUT, ACCEL_PLUGIN_I32, 1, -1, 0),
          lengths = cpu_encoder_tensor(m, ACCEL_PLUGIN_TENSOR_INPUT, ACCEL_PLUGIN_I32, 0, -1, -1);
  m->space = (accel_plugin_space){"tokens", lengths, 1, 0};
  int32_t x = cpu_encoder_node(m, ACCEL_PLUGIN_OP_GATHER,
                               cpu_encoder_weight(m, vocab, hidden, ACCEL_PLUGIN_USE_EMBEDDING),
                               ids, -1, -1, hidden, 0, 0);
  x = cpu_encoder_norm(m, x, hidden);
  for (int i = 0; i < layers; i++) {
    int32_t q = cpu_encoder_linear(m, x, hidden, hidden, -1, 0),
            k = cpu_encoder_linear(m, x, hidden, hidden, -1, 0),
            v = cpu_encoder_linear(m, x, hidden, hidden, -1, 0);
    int32_t y = cpu_encoder_node(m, ACCEL_PLUGIN_OP_ATTENTION, q, k, v, -1, hidden,
                                 ACCEL_PLUGIN_ATTR_HEADS, heads);
    accel_plugin_node *attention = &m->node[p->n_node - 1];
    m->attr[p->n_node - 1][attention->n_attr++] =
        (accel_plugin_attr){.key = ACCEL_PLUGIN_ATTR_Q_SPACE, .type = ACCEL_PLUGIN_ATTR_I, .i = 0};
    m->attr[p->n_node - 1][attention->n_attr++] =
        (accel_plugin_attr){.key = ACCEL_PLUGIN_ATTR_KV_SPACE, .type = ACCEL_PLUGIN_ATTR_I, .i = 0};
    x = cpu_encoder_norm(m, cpu_encoder_linear(m, y, hidden, hidden, x, 0), hidden);
    y = cpu_encoder_linear(m, x, hidden, inner, -1, ACCEL_PLUGIN_ACT_GELU);
    x = cpu_encoder_norm(m, cpu_encoder_linear(m, y, inner, hidden, x, 0), hidden);
  }
  m->inputs[0] = ids;
  m->inputs[1] = lengths;
  m->outputs[0] = x;
  m->entry = (accel_plugin_entry){.name = "encode",
                                  .node = m->order,
                                  .n_node = p->n_node,
                                  .in = m->inputs,
                                  .out = m->outputs,
                                  .n_in = 2,
                                  .n_out = 1};
}

#endif
