/* rotary_bert.c - post-norm layers with rotary positions: NomicBERT, jina-embeddings-v3 and GTE. */
#include "models/rotary_bert.h"

accel_status accel__rotary_bert_read(accel__build *b, accel__rotary_bert *c, double theta) {
  ACCEL_TRY(accel__bert_read(b, &c->base));
  c->head_dim = c->base.hidden / c->base.heads;
  ACCEL_TRY(accel__json_int(b->file, b->config, "head_dim", 1, ACCEL__MAX_WIDTH, &c->head_dim));
  return accel__rope_config(b, NULL, theta, 1.0, c->head_dim, c->base.positions, "rope", &c->rope);
}

/* What the checkpoint stores in one. */
static void find_fused(accel__build *b, accel__rotary_bert *c) {
  if (b->request->checkpoint == NULL) return;
  c->fused_qkv = accel__has(b, "layers.0.self_attn.Wqkv.weight");
  c->fused_gate = accel__has(b, "layers.0.mlp.up_gate_proj.weight");
}

static accel__tensor projection(accel__build *b, const accel__rotary_bert *c, accel__tensor x,
                                uint32_t layer, uint32_t part) {
  static const char *const names[] = {"q_proj", "k_proj", "v_proj"};
  const int64_t width = c->head_dim * c->base.heads;
  return c->fused_qkv ? accel__dense_rows(b, x, width, c->qkv_bias, part, 3,
                                          "layers.%u.self_attn.Wqkv", layer)
                      : accel__dense_layer(b, x, width, c->qkv_bias, -1, NULL,
                                           "layers.%u.self_attn.%s", layer, names[part]);
}

static accel__tensor mlp(accel__build *b, const accel__rotary_bert *c, accel__tensor x,
                         accel__tensor residual, uint32_t i) {
  const accel__bert_config *base = &c->base;
  const char *path = accel__arena_printf(b->arena, "layers.%u.mlp", i);
  if (path == NULL)
    return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a name");
  accel__tensor y =
      c->gated && c->fused_gate ? accel__gated_fused_last(b, x, base->inner, c->fc1_bias,
                                                          &base->act, "%s.up_gate_proj", path)
      : c->gated
          ? accel__gated_layer(b, x, base->inner, c->fc1_bias, &base->act, path, c->gate, c->up)
          : accel__dense_layer(b, x, base->inner, c->fc1_bias, -1, &base->act, "%s.%s", path,
                               c->up);
  return accel__dense_layer(b, y, base->hidden, c->fc2_bias, residual, NULL, "%s.%s", path,
                            c->down);
}

static accel__tensor layer(accel__build *b, const accel__rotary_bert *c, accel__tensor x,
                           uint32_t i) {
  const accel__bert_config *base = &c->base;
  accel__at(b->p, i + 1, "layers.%u", i);
  accel__tensor q = projection(b, c, x, i, 0), k = projection(b, c, x, i, 1),
                v = projection(b, c, x, i, 2);
  if (c->rope.inv_freq >= 0) {
    q = accel__rope_rows(b, q, &c->rope);
    k = accel__rope_rows(b, k, &c->rope);
  }
  accel__tensor y = accel__self_attention(b, q, k, v, base->heads, 0.0);
  y = accel__dense_layer(b, y, base->hidden, c->qkv_bias, x, NULL, "layers.%u.self_attn.o_proj", i);
  x = accel__norm_layer(b, y, -1, base->eps, true, "layers.%u.post_attention_layernorm", i);
  y = mlp(b, c, x, x, i);
  return accel__norm_layer(b, y, -1, base->eps, true, "layers.%u.post_mlp_layernorm", i);
}

accel__tensor accel__rotary_bert_encoder(accel__build *b, accel__rotary_bert *c) {
  const accel__bert_config *base = &c->base;
  bool learned = c->rope.inv_freq < 0;
  find_fused(b, c);
  accel__add_tokens(b, base->vocab);
  if (base->types > 0) accel__add_token_types(b, base->types);
  accel__add_positions(b,
                       learned          ? base->positions
                       : c->trained > 0 ? c->trained
                                        : INT32_MAX,
                       ACCEL__DEFAULT_ARANGE, 0);
  accel__at(b->p, 0, "embeddings");
  accel__tensor x =
      accel__embedding(b, b->input_ids, base->vocab, base->hidden, "embeddings.word_embeddings");
  accel__tensor types = -1;
  if (base->types > 0)
    types = accel__embedding(b, b->token_type_ids, base->types, base->hidden,
                             "embeddings.token_type_embeddings");
  if (learned) {
    x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x,
                      accel__embedding(b, b->position_ids, base->positions, base->hidden,
                                       "embeddings.position_embeddings"));
  }
  x = accel__norm_layer(b, x, types, base->eps, true, "embeddings.LayerNorm");
  accel__add_hidden(b, x);
  for (uint32_t i = 0; i < (uint32_t)base->layers; i++) {
    x = layer(b, c, x, i);
    accel__add_hidden(b, x);
  }
  accel__at(b->p, (uint32_t)base->layers + 1, "head");
  return x;
}
