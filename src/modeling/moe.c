/* moe.c - mixture of experts: a router chooses per_token experts for each row (Mixtral, Qwen2-MoE,
 * Qwen3-MoE, Granite-MoE, gpt-oss). */
#include <stdio.h>

#include "modeling/decoder.h"

accel_status accel__decoder_read_experts(accel__build *b, accel__decoder *c) {
  accel__experts *e = &c->experts;
  int64_t step = 1;
  const accel__json *dense = NULL;
  const accel__field fields[] = {
      ACCEL_FIELD_INT("num_experts", &e->n, 0, 1 << 16),
      ACCEL_FIELD_INT("num_local_experts", &e->n, 0, 1 << 16), /* the same by another name */
      ACCEL_FIELD_INT("num_experts_per_tok", &e->per_token, 1, 1 << 16),
      ACCEL_FIELD_INT("moe_intermediate_size", &e->inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("decoder_sparse_step", &step, 1, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_BOOL("norm_topk_prob", &e->normalise),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__json_array(b->file, b->config, "mlp_only_layers", &dense));
  if (e->n > 0 && e->per_token > e->n)
    return accel__refuse(b, "field 'num_experts_per_tok' (%lld) is more than the %lld experts",
                         (long long)e->per_token, (long long)e->n);
  for (int64_t i = 0; i < c->layers; i++) e->sparse[i] = (i + 1) % step == 0;
  ACCEL_JSON_EACH(item, dense) {
    if (!cJSON_IsNumber(item))
      return accel__refuse(b, "field 'mlp_only_layers' holds what is no layer");
    if (item->valuedouble >= 0 && item->valuedouble < (double)c->layers)
      e->sparse[(int64_t)item->valuedouble] = false;
  }
  return ACCEL_OK;
}

/* How checkpoints spell one expert's matrices, and the router before them. */
typedef struct spelling {
  const char *block, *gate, *up, *down;
} spelling;
static const spelling spellings[] = {
    /* Mixtral */
    {"layers.%u.mlp", "gate_proj", "up_proj", "down_proj"},
    {"layers.%u.block_sparse_moe", "w1", "w3", "w2"},
};

static const spelling *spelling_of(accel__build *b, const accel__experts *e, uint32_t layer,
                                   char *block, size_t size) {
  const spelling *s = &spellings[0];
  if (e->block != NULL) {
    snprintf(block, size, "layers.%u.%s", layer, e->block);
    return s;
  }
  for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
    snprintf(block, size, i == 0 ? "layers.%u.mlp" : "layers.%u.block_sparse_moe", layer);
    if (accel__has(b, "%s.gate.weight", block)) {
      s = &spellings[i];
      return s;
    }
  }
  snprintf(block, size, "layers.%u.mlp", layer);
  return s;
}

/* Each [columns, rows] of a stored [n, columns, rows] as [rows, columns]. */
typedef struct crosswise {
  int64_t n, rows, columns;
} crosswise;

static accel_status turn(const void *user, const float *const *parts, const int64_t *part_elements,
                         uint32_t n_parts, float *out) {
  const crosswise *t = user;
  const int64_t each = t->rows * t->columns;
  (void)n_parts;
  if (part_elements[0] != t->n * each)
    return accel__fail(
        ACCEL_ERROR_FORMAT, "the checkpoint holds %lld values where [%lld,%lld,%lld] are due",
        (long long)part_elements[0], (long long)t->n, (long long)t->columns, (long long)t->rows);
  for (int64_t e = 0; e < t->n; e++)
    for (int64_t r = 0; r < t->rows; r++)
      for (int64_t i = 0; i < t->columns; i++)
        out[e * each + r * t->columns + i] = parts[0][e * each + i * t->rows + r];
  return ACCEL_OK;
}

/* Is the weight stored as [n, columns, rows]?  Where both sides are as long, as [n, rows, columns]. */
static bool lies_crosswise(const accel__build *b, const accel__experts *e,
                           const accel__weight_spec *spec) {
  if (!e->maybe_crosswise || b->request->checkpoint == NULL) return e->crosswise;
  const accel__tensor_info *t = accel__checkpoint_find(b->request->checkpoint, spec->name);
  return t != NULL && t->rank == 3 && t->dim[1] == spec->dim[2] && t->dim[2] == spec->dim[1] &&
         spec->dim[1] != spec->dim[2];
}

/* Codes (MXFP4) lie as they are used, numbers crosswise. */
static bool set_turn(accel__build *b, const accel__experts *e, accel__weight_spec *spec) {
  if (!lies_crosswise(b, e, spec) ||
      accel__import_find(b->request->import, spec->name, NULL, NULL, NULL))
    return true;
  crosswise *t = accel__arena_alloc(b->arena, sizeof *t);
  if (t == NULL) return false;
  *t = (crosswise){.n = spec->dim[0], .rows = spec->dim[1], .columns = spec->dim[2]};
  spec->derive = turn;
  spec->derive_user = t;
  return true;
}

/* All experts' matrices as one weight [n, rows, columns]: stored so (`stacked`), or one by one,
 * gate before up. */
static accel__tensor expert_weight(accel__build *b, const accel__experts *e, const char *block,
                                   const char *stacked, const char *first, const char *second,
                                   int64_t rows, int64_t columns) {
  char name[160];
  snprintf(name, sizeof name, "%s.experts.%s", block, stacked);
  accel__weight_spec spec = {.name = accel__resolve(b, "%s", name),
                             .use = ACCEL_PLUGIN_USE_MOE,
                             .rank = 3,
                             .dim = {e->n, rows, columns}};
  if (!set_turn(b, e, &spec))
    return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for experts");
  if (!e->crosswise && !accel__has(b, "%s", name)) {
    uint32_t each = second != NULL ? 2 : 1, n = (uint32_t)e->n * each;
    const char **parts = accel__arena_array(b->arena, n, sizeof *parts);
    if (parts == NULL)
      return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for experts");
    for (uint32_t i = 0; i < n; i++)
      parts[i] = accel__resolve(b, "%s.experts.%u.%s.weight", block, i / each,
                                i % each == 0 ? first : second);
    spec.many = parts;
    spec.n_parts = n;
  }
  return accel__weight(b->p, &spec);
}

/* The shared expert times sigmoid(x . gate). */
static accel__tensor shared_expert(accel__build *b, const accel__decoder *c, accel__tensor x,
                                   const char *block) {
  static const accel__activation sigmoid = {.act = ACCEL_PLUGIN_ACT_SIGMOID};
  char path[120];
  snprintf(path, sizeof path, "%s.shared_expert", block);
  accel__tensor y =
      accel__gated_layer(b, x, c->experts.shared, false, &c->act, path, "gate_proj", "up_proj");
  y = accel__dense_layer(b, y, c->hidden, false, -1, NULL, "%s.down_proj", path);
  /* [T,1] */
  accel__tensor gate =
      accel__dense_layer(b, x, 1, false, -1, &sigmoid, "%s.shared_expert_gate", block);
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, y, gate);
}

/* The shared expert of Granite, which has no gate. */
static accel__tensor shared_mlp(accel__build *b, const accel__decoder *c, accel__tensor x,
                                uint32_t layer) {
  accel__tensor y = accel__gated_fused(b, x, c->experts.shared, false, &c->act,
                                       "layers.%u.shared_mlp.input_linear", layer);
  return accel__dense_layer(b, y, c->hidden, false, -1, NULL, "layers.%u.shared_mlp.output_linear",
                            layer);
}

/* <block>.<name> as a plain weight of rank 1 or 2. */
static accel__tensor block_weight(accel__build *b, const char *block, const char *name,
                                  int64_t rows, int64_t columns) {
  char full[120];
  snprintf(full, sizeof full, "%s.%s", block, name);
  return accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, columns > 0 ? 2 : 1,
                          (int64_t[]){rows, columns}, full);
}

/* chosen[0]: weights [T, per_token]; chosen[1]: experts [T, per_token]. */
static void route(accel__build *b, const accel__decoder *c, accel__tensor x, const char *block,
                  accel__tensor chosen[2]) {
  const accel__experts *e = &c->experts;
  accel__program *p = b->p;
  char name[40];
  const char *router = e->router != NULL ? e->router : "gate";
  snprintf(name, sizeof name, "%s.weight", router);
  accel__tensor w = block_weight(b, block, name, e->n, c->hidden);
  snprintf(name, sizeof name, "%s.bias", router);
  accel__tensor bias = e->biases ? block_weight(b, block, name, e->n, 0) : -1;
  accel__tensor scores = accel__linear(p, x, w, bias, -1, ACCEL_PLUGIN_ACT_NONE); /* [T,n] */
  accel__attr axis = ACCEL_I(AXIS, 1), top[] = {ACCEL_I(K, e->per_token), ACCEL_I(SORTED, 1)};
  if (!e->softmax_chosen)
    scores = accel__node(p, ACCEL_PLUGIN_OP_SOFTMAX, &scores, 1, &axis, 1, NULL, 1);
  accel__node(p, ACCEL_PLUGIN_OP_TOPK, &scores, 1, top, 2, chosen, 2);
  if (e->softmax_chosen)
    chosen[0] = accel__node(p, ACCEL_PLUGIN_OP_SOFTMAX, &chosen[0], 1, &axis, 1, NULL, 1);
  if (!e->normalise) return;
  accel__attr sum[] = {ACCEL_I(KIND, ACCEL_PLUGIN_REDUCE_SUM), ACCEL_I(AXIS, 1), ACCEL_I(KEEP, 1)};
  accel__tensor all = accel__node(p, ACCEL_PLUGIN_OP_REDUCE, &chosen[0], 1, sum, 3, NULL, 1);
  chosen[0] = accel__binary(p, ACCEL_PLUGIN_BINARY_DIV, chosen[0], all);
}

accel__tensor accel__experts_layer(accel__build *b, const accel__decoder *c, accel__tensor x,
                                   uint32_t layer) {
  const accel__experts *e = &c->experts;
  accel__program *p = b->p;
  char block[80];
  const spelling *s = spelling_of(b, e, layer, block, sizeof block);
  accel__tensor chosen[2], in[7] = {x, -1, -1, -1, -1, -1, -1};
  route(b, c, x, block, chosen);
  in[1] = chosen[1];
  in[2] = chosen[0];
  in[3] = expert_weight(b, e, block, "gate_up_proj", s->gate, s->up, 2 * e->inner, c->hidden);
  in[4] = expert_weight(b, e, block, "down_proj", s->down, NULL, c->hidden, e->inner);
  if (e->biases) {
    in[5] = block_weight(b, block, "experts.gate_up_proj_bias", e->n, 2 * e->inner);
    in[6] = block_weight(b, block, "experts.down_proj_bias", e->n, c->hidden);
  }
  if (c->act.then != 0)
    return accel__program_fail(p, ACCEL_ERROR_UNSUPPORTED,
                               "hidden_act: this activation is not supported in experts");
  accel__attr attr[4] = {
      ACCEL_I(GLU, e->crosswise ? ACCEL_PLUGIN_GLU_INTERLEAVED : ACCEL_PLUGIN_GLU_GATE_FIRST),
      ACCEL_I(ACT, c->act.act)};
  uint32_t n = 2;
  if (c->act.alpha != 0) attr[n++] = ACCEL_F(ACT_ALPHA, c->act.alpha);
  if (e->limit != 0) attr[n++] = ACCEL_F(LIMIT, e->limit);
  accel__tensor y = accel__node(p, ACCEL_PLUGIN_OP_MOE, in, e->biases ? 7 : 5, attr, n, NULL, 1);
  if (e->shared > 0)
    y = accel__binary(
        p, ACCEL_PLUGIN_BINARY_ADD, y,
        e->shared_beside ? shared_mlp(b, c, x, layer) : shared_expert(b, c, x, block));
  return y;
}
