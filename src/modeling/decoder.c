/* decoder.c - RMS norm, rotary grouped-query attention, RMS norm, gated MLP: the layers of LLaMA
 * and its relatives. */
#include "modeling/decoder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- config ---- */

accel_status accel__decoder_model(const accel__model_request *request, const char *architecture,
                                  accel__model *model,
                                  accel_status (*read)(accel__build *b, accel__decoder *c)) {
  accel__build b;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "model."));
  accel__decoder *c = accel__arena_alloc(b.arena, sizeof *c);
  if (c == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(read(&b, c));
  return accel__decoder_build(&b, c);
}

accel_status accel__decoder_read(accel__build *b, accel__decoder *c) {
  const accel__field fields[] = {
      ACCEL_FIELD_INT("vocab_size", &c->vocab, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("hidden_size", &c->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_hidden_layers", &c->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("num_attention_heads", &c->heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_key_value_heads", &c->kv_heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("head_dim", &c->head_dim, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("intermediate_size", &c->inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("max_position_embeddings", &c->positions, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_NUMBER("rms_norm_eps", &c->eps),
      ACCEL_FIELD_BOOL("tie_word_embeddings", &c->tied),
      ACCEL_FIELD_ACT(c->act_key != NULL ? c->act_key : "hidden_act", &c->act),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  const accel__json *kv = cJSON_GetObjectItemCaseSensitive(b->config, "num_key_value_heads");
  /* null means "as many", absent the class's default */
  if (c->kv_heads == 0 || cJSON_IsNull(kv)) c->kv_heads = c->heads;
  if (c->head_dim == 0) {
    ACCEL_TRY(accel__divides(b, "num_attention_heads", c->heads, "hidden_size", c->hidden));
    c->head_dim = c->hidden / c->heads;
  }
  ACCEL_TRY(accel__divides(b, "num_key_value_heads", c->kv_heads, "num_attention_heads", c->heads));
  if (c->heads > ACCEL__MAX_WIDTH / c->head_dim)
    return accel__refuse(
        b, "fields 'num_attention_heads' and 'head_dim': %lld heads of %lld are too wide",
        (long long)c->heads, (long long)c->head_dim);
  ACCEL_TRY(accel__read_token_ids(b, c->bos, c->eos, c->pad));
  b->model->hidden_size = c->hidden;
  b->model->max_positions = c->positions;
  return accel__read_labels(b);
}

accel_status accel__decoder_read_window(accel__build *b, accel__decoder *c) {
  const accel__json *field = cJSON_GetObjectItemCaseSensitive(b->config, "sliding_window");
  if (cJSON_IsNull(field)) c->window = 0;
  ACCEL_TRY(
      accel__json_int(b->file, b->config, "sliding_window", 0, ACCEL__MAX_POSITIONS, &c->window));
  for (int64_t i = 0; i < c->layers; i++) c->sliding[i] = true;
  return ACCEL_OK;
}

accel_status accel__decoder_read_switched_window(accel__build *b, accel__decoder *c) {
  bool on = false;
  ACCEL_TRY(accel__json_bool(b->file, b->config, "use_sliding_window", &on));
  ACCEL_TRY(accel__decoder_read_window(b, c));
  if (!on) c->window = 0;
  return ACCEL_OK;
}

accel_status accel__decoder_read_upper_window(accel__build *b, accel__decoder *c, int64_t from) {
  ACCEL_TRY(accel__json_int(b->file, b->config, "max_window_layers", 0, ACCEL__MAX_LAYERS, &from));
  ACCEL_TRY(accel__decoder_read_switched_window(b, c));
  for (int64_t i = 0; i < c->layers; i++) c->sliding[i] = i >= from;
  return accel__decoder_read_layer_types(b, c);
}

accel_status accel__decoder_read_layer_types(accel__build *b, accel__decoder *c) {
  const accel__json *types = NULL;
  ACCEL_TRY(accel__json_array(b->file, b->config, "layer_types", &types));
  if (types != NULL && cJSON_GetArraySize(types) != c->layers)
    return accel__refuse(b, "field 'layer_types' has not one entry per layer");
  int64_t i = 0;
  ACCEL_JSON_EACH(item, types) {
    const char *type = cJSON_IsString(item) ? item->valuestring : "?";
    bool sliding = strcmp(type, "sliding_attention") == 0;
    if (!sliding && strcmp(type, "full_attention") != 0)
      return accel__refuse(
          b, "field 'layer_types': '%s' is not supported; known: full_attention, sliding_attention",
          type);
    c->sliding[i++] = sliding;
  }
  return ACCEL_OK;
}

accel_status accel__decoder_read_rope(accel__build *b, accel__decoder *c) {
  ACCEL_TRY(accel__rope_config(b, NULL, c->theta, c->partial, c->head_dim, c->positions, "rope",
                               &c->rope[0]));
  if (c->rope[0].power >= 0 && c->rope[0].factor > 1) /* dynamic: made for texts that long */
    b->model->max_positions =
        (int64_t)fmin((double)c->positions * c->rope[0].factor, ACCEL__MAX_POSITIONS);
  return ACCEL_OK;
}

/* ---- layers ---- */

typedef struct projections {
  accel__tensor q, k, v;
} projections;

/* From one qkv_proj [(heads + 2 kv_heads) * head_dim, hidden], or from three weights. */
static projections project(accel__build *b, const accel__decoder *c, accel__tensor x, uint32_t i) {
  const char *path = "layers.%u.self_attn.%s";
  int64_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
  if (c->fused) {
    const char *all = "layers.%u.self_attn.qkv_proj";
    return (projections){accel__dense_slice(b, x, q, c->qkv_bias, 0, q + 2 * kv, all, i),
                         accel__dense_slice(b, x, kv, c->qkv_bias, q, q + 2 * kv, all, i),
                         accel__dense_slice(b, x, kv, c->qkv_bias, q + kv, q + 2 * kv, all, i)};
  }
  return (projections){accel__dense_layer(b, x, q, c->qkv_bias, -1, NULL, path, i, "q_proj"),
                       accel__dense_layer(b, x, kv, c->qkv_bias, -1, NULL, path, i, "k_proj"),
                       accel__dense_layer(b, x, kv, c->qkv_bias, -1, NULL, path, i, "v_proj")};
}

static accel__tensor attention(accel__build *b, const accel__decoder *c, accel__tensor x,
                               accel__tensor residual, uint32_t i) {
  projections p = project(b, c, x, i);
  if (c->qk_norm) {
    p.q = accel__rms_heads(b, p.q, c->heads, c->eps, c->gamma_offset, "layers.%u.self_attn.q_norm",
                           i);
    p.k = accel__rms_heads(b, p.k, c->kv_heads, c->eps, c->gamma_offset,
                           "layers.%u.self_attn.k_norm", i);
  }
  const accel__rope *rope = &c->rope[c->two_ropes && c->sliding[i] ? 1 : 0];
  p.q = accel__rope_rows(b, p.q, rope);
  p.k = accel__rope_rows(b, p.k, rope);
  int64_t window = c->sliding[i] ? c->window : 0;
  accel__attention how = accel__attention_of(b, c->heads);
  how.kv_heads = c->kv_heads;
  how.scale = c->score_scale;
  how.softcap = c->softcap;
  how.causal = !c->bidirectional;
  if (window > 0) how.left = window - 1; /* the token itself counts */
  if (window > 0 && c->bidirectional) how.right = window - 1;
  how.state = accel__kv_state(b, i, c->kv_heads, c->head_dim, c->head_dim, window);
  accel__tensor y = accel__attend(b, p.q, p.k, p.v, &how);
  return accel__dense_layer(b, y, c->hidden, c->o_bias, residual, NULL,
                            "layers.%u.self_attn.o_proj", i);
}

static accel__tensor mlp(accel__build *b, const accel__decoder *c, accel__tensor x,
                         accel__tensor residual, uint32_t i) {
  char path[40];
  if (c->experts.n > 0 && c->experts.sparse[i]) {
    accel__tensor y = accel__experts_layer(b, c, x, i);
    return residual < 0 ? y : accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, residual, y);
  }
  snprintf(path, sizeof path, "layers.%u.mlp", i);
  accel__tensor y = c->fused ? accel__gated_fused(b, x, c->inner, c->mlp_bias, &c->act,
                                                  "layers.%u.mlp.gate_up_proj", i)
                             : accel__gated_layer(b, x, c->inner, c->mlp_bias, &c->act, path,
                                                  "gate_proj", "up_proj");
  return accel__dense_layer(b, y, c->hidden, c->mlp_bias, residual, NULL, "%s.down_proj", path);
}

static accel__tensor layer(accel__build *b, const accel__decoder *c, accel__tensor x, uint32_t i) {
  const double eps = c->eps, offset = c->gamma_offset;
  accel__tensor y = accel__rms_layer(b, x, eps, offset, "layers.%u.input_layernorm", i);
  if (!c->sandwich) {
    x = attention(b, c, y, x, i);
    y = accel__rms_layer(b, x, eps, offset, "layers.%u.post_attention_layernorm", i);
    return mlp(b, c, y, x, i);
  }
  y = accel__rms_layer(b, attention(b, c, y, -1, i), eps, offset,
                       "layers.%u.post_attention_layernorm", i);
  x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, y);
  y = accel__rms_layer(b, x, eps, offset, "layers.%u.pre_feedforward_layernorm", i);
  y = accel__rms_layer(b, mlp(b, c, y, -1, i), eps, offset, "layers.%u.post_feedforward_layernorm",
                       i);
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, y);
}

static accel__tensor hidden(accel__build *b, const void *config) {
  const accel__decoder *c = config;
  accel__at(b->p, 0, "embeddings");
  accel__tensor x =
      accel__scaled_embedding(b, b->input_ids, c->vocab, c->hidden, c->embed_scale, "embed_tokens");
  x = accel__merge_images(b, x);
  for (uint32_t i = 0; i < (uint32_t)c->layers; i++) {
    accel__add_hidden(b, x);
    accel__at(b->p, i + 1, "layers.%u", i);
    x = layer(b, c, x, i);
  }
  accel__at(b->p, (uint32_t)c->layers + 1, "head");
  x = accel__rms_layer(b, x, c->eps, c->gamma_offset, "norm");
  accel__add_hidden(b, x); /* the last hidden state is the normalised one */
  return x;
}

accel_status accel__decoder_build(accel__build *b, const accel__decoder *c) {
  accel__add_tokens(b, c->vocab);
  if (c->mrope)
    accel__add_mrope_positions(b);
  else
    accel__add_positions(b, INT32_MAX, ACCEL__DEFAULT_ARANGE, 0);
  /* as some of the question answering classes call their base model */
  b->other_prefix = "transformer.";
  if (c->qa_transformer && accel__is_class(b, "ForQuestionAnswering")) {
    b->prefix = "transformer.";
    b->other_prefix = "model.";
  }
  return accel__causal_build(b, &(accel__causal){.config = c,
                                                 .hidden = hidden,
                                                 .embeddings = "embed_tokens",
                                                 .head = "lm_head",
                                                 .vocab = c->vocab,
                                                 .tied = c->tied,
                                                 .softcap = c->logit_softcap});
}
