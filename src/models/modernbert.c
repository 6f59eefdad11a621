/* modernbert.c - ModernBERT (transformers' ModernBertModel and heads): pre-norm layers, rotary
 * positions, gated MLPs, and attention that is global in some layers and in a window of
 * local_attention/2 tokens to each side in the others. */
#include <string.h>

#include "modeling/rope.h"

typedef struct modern_config {
  int64_t vocab, hidden, layers, heads, inner, positions, pad_id, every, window;
  double eps, global_theta, local_theta;
  bool tied, norm_bias, attention_bias, mlp_bias, decoder_bias, classifier_bias, pool_mean;
  accel__activation act, classifier_act;
  bool sliding[ACCEL__MAX_LAYERS]; /* per layer */
  accel__rope rope[2];             /* full, sliding */
} modern_config;

static accel_status read_layer_types(accel__build *b, modern_config *c) {
  const accel__json *types = NULL;
  ACCEL_TRY(accel__json_array(b->file, b->config, "layer_types", &types));
  for (int64_t i = 0; i < c->layers; i++) c->sliding[i] = i % c->every != 0;
  if (types == NULL) return ACCEL_OK;
  if (cJSON_GetArraySize(types) != c->layers)
    return accel__refuse(b, "field 'layer_types' has not one entry per layer");
  int64_t i = 0;
  ACCEL_JSON_EACH(item, types) {
    const char *type = cJSON_IsString(item) ? item->valuestring : "?";
    bool sliding = strcmp(type, "sliding_attention") == 0;
    if (!sliding && strcmp(type, "full_attention") != 0) {
      return accel__refuse(
          b, "field 'layer_types': '%s' is not supported; known: full_attention, sliding_attention",
          type);
    }
    c->sliding[i++] = sliding;
  }
  return ACCEL_OK;
}

/* rope_parameters per layer type (new), or global_rope_theta, local_rope_theta and rope_scaling
 * (old). */
static accel_status read_ropes(accel__build *b, modern_config *c) {
  const accel__json *all = NULL, *scaling = NULL;
  ACCEL_TRY(accel__json_object(b->file, b->config, "rope_parameters", &all));
  ACCEL_TRY(accel__json_object(b->file, b->config, "rope_scaling", &scaling));
  for (int k = 0; k < 2; k++) {
    const accel__json *own = NULL;
    ACCEL_TRY(
        accel__json_object(b->file, all, k == 0 ? "full_attention" : "sliding_attention", &own));
    double theta = k == 0 ? c->global_theta : c->local_theta;
    if (own != NULL) ACCEL_TRY(accel__json_number(b->file, own, "rope_theta", &theta));
    ACCEL_TRY(accel__rope_read(b, scaling != NULL ? scaling : own, theta, 1.0, c->hidden / c->heads,
                               c->positions, k == 0 ? "rope.full" : "rope.sliding", &c->rope[k]));
  }
  return ACCEL_OK;
}

static accel_status read_config(accel__build *b, modern_config *c) {
  const accel__activation gelu = {.act = ACCEL_PLUGIN_ACT_GELU};
  *c = (modern_config){.vocab = 50368,
                       .hidden = 768,
                       .layers = 22,
                       .heads = 12,
                       .inner = 1152,
                       .positions = 8192,
                       .pad_id = 50283,
                       .every = 3,
                       .window = 128,
                       .eps = 1e-5,
                       .global_theta = 160000.0,
                       .local_theta = 10000.0,
                       .tied = true,
                       .decoder_bias = true,
                       .act = gelu,
                       .classifier_act = gelu};
  const char *pooling = NULL;
  int64_t half_window = -1;
  const accel__field fields[] = {
      ACCEL_FIELD_INT("vocab_size", &c->vocab, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("hidden_size", &c->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_hidden_layers", &c->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("num_attention_heads", &c->heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("intermediate_size", &c->inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("max_position_embeddings", &c->positions, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("pad_token_id", &c->pad_id, 0, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("global_attn_every_n_layers", &c->every, 1, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("local_attention", &c->window, 0, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("sliding_window", &half_window, 0, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_NUMBER("norm_eps", &c->eps),
      ACCEL_FIELD_NUMBER("global_rope_theta", &c->global_theta),
      ACCEL_FIELD_NUMBER("local_rope_theta", &c->local_theta),
      ACCEL_FIELD_BOOL("tie_word_embeddings", &c->tied),
      ACCEL_FIELD_BOOL("norm_bias", &c->norm_bias),
      ACCEL_FIELD_BOOL("attention_bias", &c->attention_bias),
      ACCEL_FIELD_BOOL("mlp_bias", &c->mlp_bias),
      ACCEL_FIELD_BOOL("decoder_bias", &c->decoder_bias),
      ACCEL_FIELD_BOOL("classifier_bias", &c->classifier_bias),
      ACCEL_FIELD_ACT("hidden_activation", &c->act),
      ACCEL_FIELD_ACT("classifier_activation", &c->classifier_act),
      ACCEL_FIELD_STRING("classifier_pooling", &pooling),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__refuse_variants(b));
  ACCEL_TRY(accel__divides(b, "num_attention_heads", c->heads, "hidden_size", c->hidden));
  if (pooling != NULL && strcmp(pooling, "cls") != 0 && strcmp(pooling, "mean") != 0) {
    return accel__refuse(b, "field 'classifier_pooling': '%s' is not supported; known: cls, mean",
                         pooling);
  }
  /* the class's setter: half of local_attention */
  if (half_window >= 0) c->window = 2 * half_window;
  c->pool_mean = pooling != NULL && strcmp(pooling, "mean") == 0;
  b->model->hidden_size = c->hidden;
  b->model->max_positions = c->positions;
  b->model->pad_id = c->pad_id;
  ACCEL_TRY(read_layer_types(b, c));
  ACCEL_TRY(read_ropes(b, c));
  return accel__read_labels(b);
}

/* q, k or v: a third of the fused Wqkv [3C, C]. */
static accel__tensor projection(accel__build *b, const modern_config *c, accel__tensor x,
                                uint32_t layer, uint32_t part) {
  return accel__dense_rows(b, x, c->hidden, c->attention_bias, part, 3, "layers.%u.attn.Wqkv",
                           layer);
}

static accel__tensor attention(accel__build *b, const modern_config *c, accel__tensor x,
                               uint32_t i) {
  const accel__rope *rope = &c->rope[c->sliding[i] ? 1 : 0];
  accel__tensor q = projection(b, c, x, i, 0), k = projection(b, c, x, i, 1),
                v = projection(b, c, x, i, 2);
  q = accel__rope_rows(b, q, rope);
  k = accel__rope_rows(b, k, rope);
  if (!c->sliding[i]) return accel__self_attention(b, q, k, v, c->heads, 0.0);
  return accel__window_attention(b, q, k, v, c->heads, c->window / 2);
}

/* Wo(act(input) * gate) + residual; Wi [2I, C]: rows 0..I-1 are the activated half. */
static accel__tensor mlp(accel__build *b, const modern_config *c, accel__tensor x,
                         accel__tensor residual, uint32_t i) {
  accel__tensor y = accel__gated_fused(b, x, c->inner, c->mlp_bias, &c->act, "layers.%u.mlp.Wi", i);
  return accel__dense_layer(b, y, c->hidden, c->mlp_bias, residual, NULL, "layers.%u.mlp.Wo", i);
}

static accel__tensor encoder(accel__build *b, const modern_config *c) {
  accel__add_tokens(b, c->vocab);
  accel__add_positions(b, INT32_MAX, ACCEL__DEFAULT_ARANGE, 0);
  accel__at(b->p, 0, "embeddings");
  accel__tensor x =
      accel__embedding(b, b->input_ids, c->vocab, c->hidden, "embeddings.tok_embeddings");
  x = accel__norm_layer(b, x, -1, c->eps, c->norm_bias, "embeddings.norm");
  for (uint32_t i = 0; i < (uint32_t)c->layers; i++) {
    accel__add_hidden(b, x);
    accel__at(b->p, i + 1, "layers.%u", i);
    accel__tensor y =
        i == 0 ? x : accel__norm_layer(b, x, -1, c->eps, c->norm_bias, "layers.%u.attn_norm", i);
    x = accel__dense_layer(b, attention(b, c, y, i), c->hidden, c->attention_bias, x, NULL,
                           "layers.%u.attn.Wo", i);
    y = accel__norm_layer(b, x, -1, c->eps, c->norm_bias, "layers.%u.mlp_norm", i);
    x = mlp(b, c, y, x, i);
  }
  accel__at(b->p, (uint32_t)c->layers + 1, "head");
  x = accel__norm_layer(b, x, -1, c->eps, c->norm_bias, "final_norm");
  accel__add_hidden(b, x); /* the last hidden state is the normalised one */
  return x;
}

static void heads(accel__build *b, const modern_config *c, accel__tensor x) {
  if (b->is_base) {
    accel__add_output(b, "last_hidden_state", x, 0);
    return;
  }
  b->in_head = true;
  if (accel__is_class(b, "ForSequenceClassification")) {
    x = accel__reduce_rows(
        b->p, c->pool_mean ? ACCEL_PLUGIN_REDUCE_MEAN : ACCEL_PLUGIN_REDUCE_FIRST, x, -1, b->space);
  }
  x = accel__dense_layer(b, x, c->hidden, c->classifier_bias, -1, &c->classifier_act, "head.dense");
  x = accel__norm_layer(b, x, -1, c->eps, c->norm_bias, "head.norm");
  if (accel__is_class(b, "ForMaskedLM")) {
    const char *bias = c->decoder_bias ? "decoder.bias" : NULL;
    accel__add_output(b, "logits",
                      accel__head_vocabulary(b, x, c->vocab, c->tied, "embeddings.tok_embeddings",
                                             "decoder", bias),
                      0);
  } else if (accel__is_class(b, "ForQuestionAnswering")) {
    accel__head_spans(b, x, "classifier");
  } else {
    accel__head_tokens(b, x, "classifier");
  }
  b->in_head = false;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "model."));
  modern_config *c = accel__arena_alloc(b.arena, sizeof *c);
  if (c == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(read_config(&b, c));
  accel__tensor x = encoder(&b, c);
  heads(&b, c, x);
  return accel__build_end(&b, x);
}

static const char *const classes[] = {ACCEL_ENCODER_CLASSES("ModernBert"), NULL};
const accel__architecture accel__model_modernbert = {
    .model_type = "modernbert", .classes = classes, .build = build};
