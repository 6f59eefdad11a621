/* rotary_bert.c - post-norm layers with rotary positions: NomicBERT, jina-embeddings-v3 and GTE. */
#include "models/rotary_bert.h"

accel_status accel__rotary_bert_read(accel__build *b, accel__rotary_bert *c, double theta) {
  ACCEL_TRY(accel__bert_read(b, &c->base));
  c->head_dim = c->base.hidden / c->base.heads;
  ACCEL_TRY(accel__json_int(b->file, b->config, "head_dim", 1, ACCEL__MAX_WIDTH, &c->head_dim));
  return accel__rope_config(b, NULL, theta, 1.0, c->head_dim, c->base.positions, "rope", &c->rope);
}

static accel__tensor projection(accel__build *b, const accel__rotary_bert *c, accel__tensor x,
                                uint32_t layer, uint32_t part) {
  static const char *const ours[] = {"q_proj", "k_proj", "v_proj"};
  int64_t width = c->head_dim * c->base.heads;
  if (!c->remote)
    return accel__dense_layer(b, x, width, c->qkv_bias, -1, NULL, "layers.%u.self_attn.%s", layer,
                              ours[part]);
  return accel__dense_rows(b, x, width, c->qkv_bias, part, 3, "encoder.layers.%u.attn.Wqkv", layer);
}

static accel__tensor mlp(accel__build *b, const accel__rotary_bert *c, accel__tensor x,
                         accel__tensor residual, uint32_t i) {
  const accel__bert_config *base = &c->base;
  const char *path =
      accel__arena_printf(b->arena, c->remote ? "encoder.layers.%u.mlp" : "layers.%u.mlp", i);
  if (path == NULL)
    return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a name");
  accel__tensor y = c->gated ? accel__gated_layer(b, x, base->inner, c->fc1_bias, &base->act, path,
                                                  c->gate, c->up)
                             : accel__dense_layer(b, x, base->inner, c->fc1_bias, -1, &base->act,
                                                  "%s.%s", path, c->up);
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
  y = accel__dense_layer(
      b, y, base->hidden, c->qkv_bias, x, NULL,
      c->remote ? "encoder.layers.%u.attn.out_proj" : "layers.%u.self_attn.o_proj", i);
  x = accel__norm_layer(
      b, y, -1, base->eps, true,
      c->remote ? "encoder.layers.%u.norm1" : "layers.%u.post_attention_layernorm", i);
  y = mlp(b, c, x, x, i);
  return accel__norm_layer(b, y, -1, base->eps, true,
                           c->remote ? "encoder.layers.%u.norm2" : "layers.%u.post_mlp_layernorm",
                           i);
}

accel__tensor accel__rotary_bert_encoder(accel__build *b, const accel__rotary_bert *c) {
  const accel__bert_config *base = &c->base;
  bool learned = c->rope.inv_freq < 0;
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
  x = accel__norm_layer(b, x, types, base->eps, true,
                        c->remote ? "emb_ln" : "embeddings.LayerNorm");
  accel__add_hidden(b, x);
  for (uint32_t i = 0; i < (uint32_t)base->layers; i++) {
    x = layer(b, c, x, i);
    accel__add_hidden(b, x);
  }
  accel__at(b->p, (uint32_t)base->layers + 1, "head");
  return x;
}
