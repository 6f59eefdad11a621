/* decoder.c - norm, rotary grouped-query attention, norm, gated MLP: the layers of LLaMA and its
 * relatives. */
#include "modeling/decoder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "modeling/blocks.h"

const accel__layer_norms accel__norms_before = {.attention = "input_layernorm",
                                                .mlp = "post_attention_layernorm"};
const accel__layer_norms accel__norms_around = {.attention = "input_layernorm",
                                                .behind_attention = "post_attention_layernorm",
                                                .mlp = "pre_feedforward_layernorm",
                                                .behind_mlp = "post_feedforward_layernorm"};
const accel__layer_norms accel__norms_behind = {.behind_attention = "post_attention_layernorm",
                                                .behind_mlp = "post_feedforward_layernorm"};

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
      ACCEL_FIELD_NUMBER(c->eps_key != NULL ? c->eps_key : "rms_norm_eps", &c->eps),
      ACCEL_FIELD_BOOL("tie_word_embeddings", &c->tied),
      ACCEL_FIELD_ACT(c->act_key != NULL ? c->act_key : "hidden_act", &c->act),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  const accel__json *kv = cJSON_GetObjectItemCaseSensitive(b->config, "num_key_value_heads");
  /* null means "as many", absent the class's default */
  if (c->kv_heads == 0 || cJSON_IsNull(kv)) c->kv_heads = c->heads;
  if (c->even_heads) c->head_dim = 0;
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

accel_status accel__decoder_read_attention_bias(accel__build *b, accel__decoder *c) {
  ACCEL_TRY(accel__json_bool(b->file, b->config, "attention_bias", &c->qkv_bias));
  c->o_bias = c->qkv_bias;
  return ACCEL_OK;
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

accel_status accel__decoder_read_types(accel__build *b, const accel__decoder *c, const char *other,
                                       bool *is_other) {
  const accel__json *types = NULL;
  ACCEL_TRY(accel__json_array(b->file, b->config, "layer_types", &types));
  if (types != NULL && cJSON_GetArraySize(types) != c->layers)
    return accel__refuse(b, "field 'layer_types' has not one entry per layer");
  int64_t i = 0;
  ACCEL_JSON_EACH(item, types) {
    const char *type = cJSON_IsString(item) ? item->valuestring : "?";
    const bool is = strcmp(type, other) == 0;
    if (!is && strcmp(type, "full_attention") != 0)
      return accel__refuse(
          b, "field 'layer_types': '%s' is not supported; known: full_attention, %s", type, other);
    is_other[i++] = is;
  }
  return ACCEL_OK;
}

accel_status accel__decoder_read_layer_types(accel__build *b, accel__decoder *c) {
  return accel__decoder_read_types(b, c, "sliding_attention", c->sliding);
}

/* rope[0] from c->rope_otherwise, which takes the place of what config.json leaves out. */
static accel_status read_rope_otherwise(accel__build *b, accel__decoder *c) {
  accel__json_file file = {0};
  double theta = c->theta;
  ACCEL_TRY(accel__json_number(b->file, b->config, "rope_theta", &theta));
  accel_status status =
      accel__json_parse(c->rope_otherwise, strlen(c->rope_otherwise), "rope_parameters", &file);
  if (status == ACCEL_OK)
    status =
        accel__rope_read(b, file.root, theta, 1.0, c->head_dim, c->positions, "rope", &c->rope[0]);
  accel__json_free(&file);
  return status;
}

accel_status accel__decoder_read_rope(accel__build *b, accel__decoder *c) {
  const bool silent = accel__json_is_null_or_absent(b->config, "rope_parameters") &&
                      accel__json_is_null_or_absent(b->config, "rope_scaling");
  if (silent && c->rope_otherwise != NULL)
    ACCEL_TRY(read_rope_otherwise(b, c));
  else
    ACCEL_TRY(accel__rope_config(b, NULL, c->theta, c->partial, c->head_dim, c->positions, "rope",
                                 &c->rope[0]));
  if (!c->scales_queries) c->rope[0].query_beta = 0;
  if (c->rope[0].power >= 0 && c->rope[0].factor > 1) /* dynamic: made for texts that long */
    b->model->max_positions =
        (int64_t)fmin((double)c->positions * c->rope[0].factor, ACCEL__MAX_POSITIONS);
  return ACCEL_OK;
}

accel_status accel__decoder_read_two_ropes(accel__build *b, accel__decoder *c, double full,
                                           double sliding, const char *sliding_key) {
  const accel__json *all = NULL, *scaling = NULL, *own[2] = {NULL, NULL};
  double theta[2] = {full, sliding};
  ACCEL_TRY(accel__json_object(b->file, b->config, "rope_parameters", &all));
  ACCEL_TRY(accel__json_object(b->file, b->config, "rope_scaling", &scaling));
  ACCEL_TRY(accel__json_number(b->file, b->config, "rope_theta", &theta[0]));
  if (sliding_key != NULL)
    ACCEL_TRY(accel__json_number(b->file, b->config, sliding_key, &theta[1]));
  ACCEL_TRY(accel__json_object(b->file, all, "full_attention", &own[0]));
  ACCEL_TRY(accel__json_object(b->file, all, "sliding_attention", &own[1]));
  if (scaling != NULL) {
    if (own[0] != NULL) ACCEL_TRY(accel__json_number(b->file, own[0], "rope_theta", &theta[0]));
    own[0] = scaling;
  }
  c->two_ropes = b->rope.by_layer_type = true;
  for (int i = 0; i < 2; i++) {
    ACCEL_TRY(accel__rope_read(b, own[i], theta[i], 1.0, c->head_dim, c->positions,
                               i == 0 ? "rope.full" : "rope.sliding", &c->rope[i]));
    c->rope[i].query_beta = 0;
  }
  return ACCEL_OK;
}

/* ---- layers ---- */

typedef struct projections {
  accel__tensor q, k, v;
  accel__tensor gate; /* of what comes out, behind its sigmoid; -1 none */
} projections;

/* q and the gate of q_proj [heads, 2, head_dim] rows. */
static void project_gated(accel__build *b, const accel__decoder *c, accel__tensor x, uint32_t i,
                          projections *p) {
  static const accel__activation sigmoid = {.act = ACCEL_PLUGIN_ACT_SIGMOID};
  const int64_t each = c->head_dim;
  char name[60];
  snprintf(name, sizeof name, "layers.%u.self_attn.q_proj", i);
  p->q = accel__dense_blocks(b, x, c->heads, each, 0, 2 * each, c->qkv_bias, name);
  p->gate = accel__dense_blocks(b, x, c->heads, each, each, 2 * each, c->qkv_bias, name);
  p->gate = accel__activate(b, p->gate, &sigmoid);
}

/* From one qkv_proj [(heads + 2 kv_heads) * head_dim, hidden], or from three weights. */
static projections project(accel__build *b, const accel__decoder *c, accel__tensor x, uint32_t i) {
  const char *path = "layers.%u.self_attn.%s";
  int64_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
  projections p = {.gate = -1};
  if (c->fused) {
    const char *all = "layers.%u.self_attn.qkv_proj";
    p.q = accel__dense_slice(b, x, q, c->qkv_bias, 0, q + 2 * kv, all, i);
    p.k = accel__dense_slice(b, x, kv, c->qkv_bias, q, q + 2 * kv, all, i);
    p.v = accel__dense_slice(b, x, kv, c->qkv_bias, q + kv, q + 2 * kv, all, i);
    return p;
  }
  if (c->gated)
    project_gated(b, c, x, i, &p);
  else
    p.q = accel__dense_layer(b, x, q, c->qkv_bias, -1, NULL, path, i, "q_proj");
  p.k = accel__dense_layer(b, x, kv, c->qkv_bias, -1, NULL, path, i, "k_proj");
  p.v = accel__dense_layer(b, x, kv, c->qkv_bias, -1, NULL, path, i, "v_proj");
  return p;
}

/* The norm of the family with <name>.weight and <name>.bias, as far as it has them. */
static accel__tensor normalise(accel__build *b, const accel__decoder *c, accel__tensor x,
                               const char *name) {
  switch (c->norm) {
    case ACCEL__NORM_RMS:
      return accel__rms_layer(b, x, c->eps, c->gamma_offset, "%s", name);
    case ACCEL__NORM_LAYER:
      return accel__norm_layer(b, x, -1, c->eps, true, "%s", name);
    case ACCEL__NORM_LAYER_SCALED:
      return accel__norm_layer(b, x, -1, c->eps, false, "%s", name);
    case ACCEL__NORM_LAYER_BARE:
      break;
  }
  return accel__layer_norm(b->p, x, -1, -1, -1, c->eps);
}

static accel__tensor layer_norm(accel__build *b, const accel__decoder *c, accel__tensor x,
                                const char *name, uint32_t i) {
  char full[80];
  if (name == NULL) return x;
  snprintf(full, sizeof full, "layers.%u.%s", i, name);
  return normalise(b, c, x, full);
}

/* Weights of the norms of `heads` heads, each its own, as one [heads * head_dim]. */
static accel__tensor head_weights(accel__build *b, const accel__decoder *c, int64_t heads,
                                  const char *part, uint32_t i) {
  const int64_t columns = heads * c->head_dim, dims[2] = {heads, c->head_dim};
  char name[80];
  if (c->qk_norm == ACCEL__QK_NORM_APART) {
    snprintf(name, sizeof name, "layers.%u.self_attn.%s_norm.weight", i, part);
    accel__tensor both = accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 2, dims, name);
    return accel__reshape(b->p, both, 1, (accel__dim[]){accel__const_dim(b->p, columns)});
  }
  const char **names = accel__arena_array(b->arena, (size_t)heads, sizeof *names);
  if (names == NULL)
    return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for names");
  for (uint32_t h = 0; h < (uint32_t)heads; h++)
    names[h] = accel__resolve(b, "layers.%u.self_attn.%s_layernorm.norms.%u.weight", i, part, h);
  return accel__weight(
      b->p, &(accel__weight_spec){
                .name = accel__resolve(b, "layers.%u.self_attn.%s_layernorm.weight", i, part),
                .use = ACCEL_PLUGIN_USE_PLAIN,
                .rank = 1,
                .dim = {columns},
                .many = names,
                .n_parts = (uint32_t)heads});
}

/* part: "q" or "k" */
static accel__tensor norm_heads(accel__build *b, const accel__decoder *c, accel__tensor x,
                                int64_t heads, const char *part, uint32_t i) {
  char name[24];
  snprintf(name, sizeof name, "self_attn.%s_norm", part);
  if (c->qk_norm == ACCEL__QK_NORM_NONE) return x;
  if (c->qk_norm == ACCEL__QK_NORM_WHOLE) return layer_norm(b, c, x, name, i);
  if (c->qk_norm == ACCEL__QK_NORM_HEADS)
    return accel__rms_heads(b, x, heads, c->eps, c->gamma_offset, "layers.%u.%s", i, name);
  accel__attr attr[] = {ACCEL_I(NORM_KIND, ACCEL_PLUGIN_NORM_LAYER), ACCEL_F(EPS, c->eps),
                        ACCEL_I(GROUPS, heads)};
  return accel__node(b->p, ACCEL_PLUGIN_OP_NORM,
                     (accel__tensor[]){x, head_weights(b, c, heads, part, i)}, 2, attr, 3, NULL, 1);
}

static accel__tensor attention(accel__build *b, const accel__decoder *c, accel__tensor x,
                               accel__tensor residual, uint32_t i) {
  projections p = project(b, c, x, i);
  p.q = norm_heads(b, c, accel__clamped(b, p.q, c->clip), c->heads, "q", i);
  p.k = norm_heads(b, c, accel__clamped(b, p.k, c->clip), c->kv_heads, "k", i);
  p.v = accel__clamped(b, p.v, c->clip);
  const accel__rope *rope = &c->rope[c->two_ropes && c->sliding[i] ? 1 : 0];
  if (!c->no_rope[i]) {
    p.q = accel__rope_rows(b, p.q, rope);
    p.k = accel__rope_rows(b, p.k, rope);
  }
  p.q = accel__rope_scale_query(b, p.q, rope);
  int64_t window = c->sliding[i] ? c->window : 0;
  accel__attention how = accel__attention_of(b, c->heads);
  how.kv_heads = c->kv_heads;
  how.scale = c->score_scale;
  how.softcap = c->softcap;
  how.causal = !c->bidirectional;
  if (window > 0) how.left = window - 1; /* the token itself counts */
  if (window > 0 && c->bidirectional) how.right = window - 1;
  if (c->sinks) {
    char name[64];
    snprintf(name, sizeof name, "layers.%u.self_attn.sinks", i);
    how.sinks = accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 1, &c->heads, name);
  }
  how.state = accel__kv_state(b, i, c->kv_heads, c->head_dim, c->head_dim, window);
  accel__tensor y = b->images.blocks && !b->images.text_only
                        ? accel__attend_blocks(b, p.q, p.k, p.v, &how)
                        : accel__attend(b, p.q, p.k, p.v, &how);
  if (p.gate >= 0) y = accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, y, p.gate);
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
  accel__tensor y =
      c->fused || c->fused_mlp
          ? accel__gated_fused(b, x, c->inner, c->mlp_bias, &c->act, "layers.%u.mlp.gate_up_proj",
                               i)
          : accel__gated_layer(b, x, c->inner, c->mlp_bias, &c->act, path, "gate_proj", "up_proj");
  return accel__dense_layer(b, y, c->hidden, c->mlp_bias, residual, NULL, "%s.down_proj", path);
}

/* x + residual_scale * norm(y) */
static accel__tensor join(accel__build *b, const accel__decoder *c, accel__tensor x,
                          accel__tensor y, const char *norm, uint32_t i) {
  y = accel__scaled(b, layer_norm(b, c, y, norm, i), c->residual_scale);
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, y);
}

static accel__tensor layer(accel__build *b, const accel__decoder *c, accel__tensor x, uint32_t i) {
  const accel__layer_norms *n = c->norms != NULL ? c->norms : &accel__norms_before;
  /* the last linears add the residual themselves where nothing comes between */
  const bool adds = n->behind_attention == NULL && n->behind_mlp == NULL && c->residual_scale == 0;
  accel__tensor y = layer_norm(b, c, x, n->attention, i);
  accel__tensor z = c->delta.on[i] ? accel__delta_layer(b, c, y, adds ? x : -1, i)
                                   : attention(b, c, y, adds ? x : -1, i);
  if (!adds) z = join(b, c, x, z, n->behind_attention, i);
  if (!c->parallel) y = layer_norm(b, c, z, n->mlp, i);
  x = mlp(b, c, y, adds ? z : -1, i);
  return adds ? x : join(b, c, z, x, n->behind_mlp, i);
}

/* input_ids, cut to the vocabulary where the token of pictures lies beyond it. */
static accel__tensor table_rows(accel__build *b, const accel__decoder *c) {
  accel__attr to_float = ACCEL_I(DTYPE, ACCEL_PLUGIN_F32),
              to_int = ACCEL_I(DTYPE, ACCEL_PLUGIN_I32),
              clamp[] = {ACCEL_I(KIND, ACCEL_PLUGIN_UNARY_CLAMP), ACCEL_F(ALPHA, 0.0),
                         ACCEL_F(BETA, (double)c->vocab - 1.0)};
  if (b->images.token < c->vocab) return b->input_ids;
  accel__tensor x =
      accel__node(b->p, ACCEL_PLUGIN_OP_CAST, &b->input_ids, 1, &to_float, 1, NULL, 1);
  x = accel__node(b->p, ACCEL_PLUGIN_OP_UNARY, &x, 1, clamp, 3, NULL, 1);
  return accel__node(b->p, ACCEL_PLUGIN_OP_CAST, &x, 1, &to_int, 1, NULL, 1);
}

static accel__tensor hidden(accel__build *b, const void *config) {
  const accel__decoder *c = config;
  accel__at(b->p, 0, "embeddings");
  accel__tensor x = accel__scaled_embedding(b, table_rows(b, c), c->vocab, c->hidden,
                                            c->embed_scale, "embed_tokens");
  x = accel__scaled(b, accel__merge_images(b, x), c->input_scale);
  for (uint32_t i = 0; i < (uint32_t)c->layers; i++) {
    accel__add_hidden(b, x);
    x = accel__add_images(b, x, i);
    accel__at(b->p, i + 1, "layers.%u", i);
    x = layer(b, c, x, i);
  }
  x = accel__add_images(b, x, (uint32_t)c->layers);
  accel__at(b->p, (uint32_t)c->layers + 1, "head");
  x = normalise(b, c, x, "norm");
  accel__add_hidden(b, x); /* the last hidden state is the normalised one */
  return x;
}

static void add_inputs(accel__build *b, const accel__decoder *c) {
  accel__add_tokens(b, c->vocab);
  if (b->images.token >= c->vocab) /* input_ids have just been added */
    b->input[b->model->n_inputs - 1].max = b->images.token + 1;
  if (c->mrope)
    accel__add_mrope_positions(b);
  else
    accel__add_positions(b, INT32_MAX, ACCEL__DEFAULT_ARANGE, 0);
}

accel__tensor accel__decoder_rows(accel__build *b, const accel__decoder *c) {
  add_inputs(b, c);
  return hidden(b, c);
}

accel_status accel__decoder_build(accel__build *b, const accel__decoder *c) {
  add_inputs(b, c);
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
                                                 .softcap = c->logit_softcap,
                                                 .scale = c->logit_scale});
}
