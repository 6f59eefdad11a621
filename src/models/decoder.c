/* decoder.c - RMS norm, rotary grouped-query attention, RMS norm, gated MLP: the layers of LLaMA and its relatives. */
#include "models/decoder.h"

#include <stdio.h>
#include <string.h>

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
      ACCEL_FIELD_ACT("hidden_act", &c->act),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  if (accel__json_is_null_or_absent(b->config, "num_key_value_heads") && c->kv_heads == 0) c->kv_heads = c->heads;
  if (c->head_dim == 0) {
    ACCEL_TRY(accel__divides(b, "num_attention_heads", c->heads, "hidden_size", c->hidden));
    c->head_dim = c->hidden / c->heads;
  }
  ACCEL_TRY(accel__divides(b, "num_key_value_heads", c->kv_heads, "num_attention_heads", c->heads));
  if (c->heads > ACCEL__MAX_WIDTH / c->head_dim)
    return accel__refuse(b, "fields 'num_attention_heads' and 'head_dim': %lld heads of %lld are too wide",
                         (long long)c->heads, (long long)c->head_dim);
  ACCEL_TRY(accel__read_token_ids(b, c->bos, c->eos, c->pad));
  b->model->hidden_size = c->hidden;
  b->model->max_positions = c->positions;
  return accel__read_labels(b);
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
      return accel__refuse(b, "field 'layer_types': '%s' is not supported; known: full_attention, sliding_attention", type);
    c->sliding[i++] = sliding;
  }
  return ACCEL_OK;
}

accel_status accel__decoder_read_rope(accel__build *b, accel__decoder *c) {
  return accel__rope_config(b, NULL, c->theta, c->partial, c->head_dim, c->positions, "rope", &c->rope[0]);
}

/* ---- layers ---- */

static accel__tensor attention(accel__build *b, const accel__decoder *c, accel__tensor x, accel__tensor residual,
                               uint32_t i) {
  const char *path = "layers.%u.self_attn.%s";
  accel__tensor q = accel__dense_layer(b, x, c->heads * c->head_dim, c->qkv_bias, -1, NULL, path, i, "q_proj");
  accel__tensor k = accel__dense_layer(b, x, c->kv_heads * c->head_dim, c->qkv_bias, -1, NULL, path, i, "k_proj");
  accel__tensor v = accel__dense_layer(b, x, c->kv_heads * c->head_dim, c->qkv_bias, -1, NULL, path, i, "v_proj");
  const accel__rope *rope = &c->rope[c->two_ropes && c->sliding[i] ? 1 : 0];
  q = accel__rope_rows(b, q, rope);
  k = accel__rope_rows(b, k, rope);
  int64_t window = c->sliding[i] ? c->window : 0;
  accel__attention how = accel__attention_of(b, c->heads);
  how.kv_heads = c->kv_heads;
  how.causal = true;
  if (window > 0) how.left = window - 1; /* the token itself counts */
  how.state = accel__kv_state(b, i, c->kv_heads, c->head_dim, c->head_dim, window);
  accel__tensor y = accel__attend(b, q, k, v, &how);
  return accel__dense_layer(b, y, c->hidden, c->o_bias, residual, NULL, path, i, "o_proj");
}

static accel__tensor mlp(accel__build *b, const accel__decoder *c, accel__tensor x, accel__tensor residual, uint32_t i) {
  char path[40];
  snprintf(path, sizeof path, "layers.%u.mlp", i);
  accel__tensor y = accel__gated_layer(b, x, c->inner, c->mlp_bias, &c->act, path, "gate_proj", "up_proj");
  return accel__dense_layer(b, y, c->hidden, c->mlp_bias, residual, NULL, "%s.down_proj", path);
}

static accel__tensor hidden(accel__build *b, const void *config) {
  const accel__decoder *c = config;
  accel__at(b->p, 0, "embeddings");
  accel__tensor x = accel__embedding(b, b->input_ids, c->vocab, c->hidden, "embed_tokens");
  for (uint32_t i = 0; i < (uint32_t)c->layers; i++) {
    accel__add_hidden(b, x);
    accel__at(b->p, i + 1, "layers.%u", i);
    accel__tensor y = accel__rms_layer(b, x, c->eps, 0, "layers.%u.input_layernorm", i);
    x = attention(b, c, y, x, i);
    y = accel__rms_layer(b, x, c->eps, 0, "layers.%u.post_attention_layernorm", i);
    x = mlp(b, c, y, x, i);
  }
  accel__at(b->p, (uint32_t)c->layers + 1, "head");
  x = accel__rms_layer(b, x, c->eps, 0, "norm");
  accel__add_hidden(b, x); /* the last hidden state is the normalised one */
  return x;
}

accel_status accel__decoder_build(accel__build *b, const accel__decoder *c) {
  accel__add_tokens(b, c->vocab);
  accel__add_positions(b, INT32_MAX, ACCEL__DEFAULT_ARANGE, 0);
  b->other_prefix = "transformer."; /* as some of the question answering classes call their base model */
  if (c->qa_transformer && accel__is_class(b, "ForQuestionAnswering")) {
    b->prefix = "transformer.";
    b->other_prefix = "model.";
  }
  return accel__causal_build(b, &(accel__causal){.config = c,
                                                 .hidden = hidden,
                                                 .embeddings = "embed_tokens",
                                                 .head = "lm_head",
                                                 .vocab = c->vocab,
                                                 .tied = c->tied});
}
