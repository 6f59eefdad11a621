/* patchtst.c - PatchTST (transformers' PatchTSTModel and PatchTSTForPrediction): channels are scaled,
 * cut into patches and encoded each for itself, or with attention among channels, too. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "modeling/series.h"
#include "modeling/vision.h"

enum { SCALE_NONE, SCALE_MEAN, SCALE_STD };
enum { POOL_NONE, POOL_MEAN, POOL_MAX };

typedef struct patchtst_config {
  accel__forecasting *f;
  int64_t channels, patch, stride, context, horizon, layers, hidden, heads, inner, count, start;
  bool share_embedding, channel_attention, batch_norm, bias, pre_norm, cls;
  int scaling, pooling;
  double eps, least_scale, default_scale; /* default_scale NaN: that of the batch */
  accel__activation act;
  accel__tensor loc, scale; /* [B, channels, 1] */
} patchtst_config;

/* ---- config ---- */

static accel_status read_names(accel__build *b, patchtst_config *c) {
  const char *norm = "batchnorm", *loss = "mse", *pooling = "mean";
  const accel__field fields[] = {ACCEL_FIELD_STRING("norm_type", &norm),
                                 ACCEL_FIELD_STRING("loss", &loss),
                                 ACCEL_FIELD_STRING("pooling_type", &pooling)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  c->batch_norm = strcmp(norm, "batchnorm") == 0;
  if (!c->batch_norm && strcmp(norm, "layernorm") != 0)
    return accel__refuse(b, "field 'norm_type': '%s' is not supported; known: batchnorm, layernorm",
                         norm);
  if (strcmp(loss, "mse") != 0 && !b->is_base)
    return accel__refuse(
        b, "field 'loss': '%s' (distributions as answers) is not supported; known: mse", loss);
  const bool none = cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(b->config, "pooling_type"));
  c->pooling = none                           ? POOL_NONE
               : strcmp(pooling, "mean") == 0 ? POOL_MEAN
               : strcmp(pooling, "max") == 0  ? POOL_MAX
                                              : -1;
  if (c->pooling < 0)
    return accel__refuse(b, "field 'pooling_type': '%s' is not supported; known: mean, max, null",
                         pooling);
  return ACCEL_OK;
}

/* "mean" or true, "std", null or false. */
static accel_status read_scaling(accel__build *b, patchtst_config *c) {
  const accel__json *scaling = cJSON_GetObjectItemCaseSensitive(b->config, "scaling");
  const char *name = cJSON_IsString(scaling) ? scaling->valuestring : NULL;
  int64_t axis = 1;
  bool keeps = true;
  c->scaling = scaling == NULL || (name != NULL && strcmp(name, "std") == 0)          ? SCALE_STD
               : cJSON_IsTrue(scaling) || (name != NULL && strcmp(name, "mean") == 0) ? SCALE_MEAN
                                                                                      : SCALE_NONE;
  c->least_scale = c->scaling == SCALE_STD ? 1e-5 : 1e-10;
  c->default_scale = NAN;
  const accel__field fields[] = {ACCEL_FIELD_INT("scaling_dim", &axis, -8, 8),
                                 ACCEL_FIELD_BOOL("keepdim", &keeps),
                                 ACCEL_FIELD_NUMBER("minimum_scale", &c->least_scale),
                                 ACCEL_FIELD_NUMBER("default_scale", &c->default_scale)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  if (axis != 1 || !keeps)
    return accel__refuse(b, "fields 'scaling_dim', 'keepdim': only 1 and true are supported");
  return ACCEL_OK;
}

static accel_status read_config(accel__build *b, patchtst_config *c) {
  bool share_projection = true, masks = false;
  const accel__field fields[] = {
      ACCEL_FIELD_INT("num_input_channels", &c->channels, 1, 1 << 16),
      ACCEL_FIELD_INT("context_length", &c->context, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("prediction_length", &c->horizon, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("patch_length", &c->patch, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("patch_stride", &c->stride, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_hidden_layers", &c->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("hidden_size", &c->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("d_model", &c->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_attention_heads", &c->heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("ffn_dim", &c->inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_NUMBER("norm_eps", &c->eps),
      ACCEL_FIELD_BOOL("share_embedding", &c->share_embedding),
      ACCEL_FIELD_BOOL("channel_attention", &c->channel_attention),
      ACCEL_FIELD_BOOL("bias", &c->bias),
      ACCEL_FIELD_BOOL("pre_norm", &c->pre_norm),
      ACCEL_FIELD_BOOL("use_cls_token", &c->cls),
      ACCEL_FIELD_BOOL("share_projection", &share_projection),
      ACCEL_FIELD_BOOL("do_mask_input", &masks),
      ACCEL_FIELD_ACT("activation_function", &c->act),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(read_names(b, c));
  ACCEL_TRY(read_scaling(b, c));
  ACCEL_TRY(accel__divides(b, "num_attention_heads", c->heads, "d_model", c->hidden));
  if (!share_projection && !b->is_base)
    return accel__refuse(b, "field 'share_projection': false is not supported");
  if (masks && b->is_base)
    return accel__refuse(b, "field 'do_mask_input': true (random masks) is not supported");
  if (c->context <= c->patch)
    return accel__refuse(b, "field 'context_length' (%lld) must be above 'patch_length' (%lld)",
                         (long long)c->context, (long long)c->patch);
  c->count = (c->context - c->patch) / c->stride + 1;
  c->start = c->context - (c->patch + c->stride * (c->count - 1));
  b->model->hidden_size = c->hidden;
  return ACCEL_OK;
}

/* ---- scaling ---- */

static accel__tensor reduce(accel__build *b, int kind, accel__tensor x, int64_t axis) {
  accel__attr attr[] = {ACCEL_I(KIND, kind), ACCEL_I(AXIS, axis), ACCEL_I(KEEP, 1)};
  return accel__node(b->p, ACCEL_PLUGIN_OP_REDUCE, &x, 1, attr, 3, NULL, 1);
}

static accel__tensor two(accel__build *b, accel_plugin_binary kind, accel__tensor x,
                         accel__tensor y) {
  return accel__binary(b->p, kind, x, y);
}

/* Mean of what was observed and the deviation from it. */
static accel__tensor standardise(accel__build *b, patchtst_config *c, accel__tensor x,
                                 accel__tensor seen, accel__tensor count) {
  accel__tensor sum =
      reduce(b, ACCEL_PLUGIN_REDUCE_SUM, two(b, ACCEL_PLUGIN_BINARY_MUL, x, seen), 2);
  count = accel__clamp(b, count, 1.0, 1e30);
  c->loc = two(b, ACCEL_PLUGIN_BINARY_DIV, sum, count);
  x = two(b, ACCEL_PLUGIN_BINARY_SUB, x, c->loc);
  accel__tensor off = two(b, ACCEL_PLUGIN_BINARY_MUL, x, seen);
  sum = reduce(b, ACCEL_PLUGIN_REDUCE_SUM, two(b, ACCEL_PLUGIN_BINARY_MUL, off, off), 2);
  sum = accel__affine(b, two(b, ACCEL_PLUGIN_BINARY_DIV, sum, count), 1.0, c->least_scale);
  c->scale = accel__unary(b->p, ACCEL_PLUGIN_UNARY_SQRT, sum);
  return two(b, ACCEL_PLUGIN_BINARY_DIV, x, c->scale);
}

/* The mean of absolute values; where nothing was observed that of the batch, or default_scale. */
static accel__tensor divide_by_mean(accel__build *b, patchtst_config *c, accel__tensor x,
                                    accel__tensor seen, accel__tensor count) {
  accel__tensor sum = two(b, ACCEL_PLUGIN_BINARY_MUL, x, seen), otherwise, in[3];
  sum = reduce(b, ACCEL_PLUGIN_REDUCE_SUM, accel__unary(b->p, ACCEL_PLUGIN_UNARY_ABS, sum), 2);
  accel__tensor scale = two(b, ACCEL_PLUGIN_BINARY_DIV, sum, accel__clamp(b, count, 1.0, 1e30));
  if (isnan(c->default_scale)) {
    accel__tensor all = accel__clamp(b, reduce(b, ACCEL_PLUGIN_REDUCE_SUM, count, 0), 1.0, 1e30);
    otherwise = two(b, ACCEL_PLUGIN_BINARY_DIV, reduce(b, ACCEL_PLUGIN_REDUCE_SUM, sum, 0), all);
    otherwise = two(b, ACCEL_PLUGIN_BINARY_ADD, accel__affine(b, scale, 0.0, 0.0), otherwise);
  } else {
    otherwise = accel__affine(b, scale, 0.0, c->default_scale);
  }
  accel__attr where = ACCEL_I(KIND, ACCEL_PLUGIN_BINARY_WHERE);
  in[0] = count;
  in[1] = scale;
  in[2] = otherwise;
  scale = accel__node(b->p, ACCEL_PLUGIN_OP_BINARY, in, 3, &where, 1, NULL, 1);
  c->scale = accel__clamp(b, scale, c->least_scale, 1e30);
  c->loc = accel__affine(b, c->scale, 0.0, 0.0);
  return two(b, ACCEL_PLUGIN_BINARY_DIV, x, c->scale);
}

/* past_values [B, context, channels] -> scaled [B, channels, context]. */
static accel__tensor scaled(accel__build *b, patchtst_config *c) {
  accel__program *p = b->p;
  b->B = accel__symbol(p, "B", 1, 0, 1);
  accel__dim dims[3] = {b->B, accel__const_dim(p, c->context), accel__const_dim(p, c->channels)};
  accel__tensor x =
      accel__add_item(b, "past_values", ACCEL_PLUGIN_F32, 3, dims, ACCEL__DEFAULT_REQUIRED);
  accel__tensor seen =
      accel__add_item(b, "past_observed_mask", ACCEL_PLUGIN_F32, 3, dims, ACCEL__DEFAULT_ONES);
  accel__at(p, 0, "scaler");
  x = accel__transpose(b, x, 3, (int64_t[]){0, 2, 1});
  seen = accel__transpose(b, seen, 3, (int64_t[]){0, 2, 1});
  accel__tensor count = reduce(b, ACCEL_PLUGIN_REDUCE_SUM, seen, 2);
  if (c->scaling == SCALE_STD) return standardise(b, c, x, seen, count);
  if (c->scaling == SCALE_MEAN) return divide_by_mean(b, c, x, seen, count);
  c->loc = accel__affine(b, count, 0.0, 0.0);
  c->scale = accel__affine(b, count, 0.0, 1.0);
  return x;
}

/* ---- embeddings ---- */

/* [B, channels, context] -> patches [B, channels, count, patch] */
static accel__tensor patches(accel__build *b, const patchtst_config *c, accel__tensor x) {
  accel__program *p = b->p;
  const int64_t n = c->count * c->patch;
  int32_t *at = accel__arena_array(b->arena, (size_t)n, sizeof *at);
  if (at == NULL) return accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for patches");
  for (int64_t k = 0; k < c->count; k++)
    for (int64_t i = 0; i < c->patch; i++)
      at[k * c->patch + i] = (int32_t)(c->start + k * c->stride + i);
  accel__attr axis = ACCEL_I(AXIS, 2);
  accel__tensor in[] = {x, accel__constant_i32(p, "patches", 1, &n, at)};
  x = accel__node(p, ACCEL_PLUGIN_OP_GATHER, in, 2, &axis, 1, NULL, 1);
  return accel__reshape(
      p, x, 4,
      (accel__dim[]){b->B, accel__const_dim(p, c->channels), accel__const_dim(p, c->count),
                     accel__const_dim(p, c->patch)});
}

/* Each channel by a matrix of its own. */
static accel__tensor embed_apart(accel__build *b, const patchtst_config *c, accel__tensor x) {
  accel__tensor all[64];
  if (c->channels > 64)
    return accel__program_fail(b->p, ACCEL_ERROR_UNSUPPORTED,
                               "field 'share_embedding': false with %lld channels is not "
                               "supported; at most 64",
                               (long long)c->channels);
  for (int64_t i = 0; i < c->channels; i++)
    all[i] = accel__dense_layer(b, accel__slice(b->p, x, 1, i, i + 1), c->hidden, true, -1, NULL,
                                "encoder.embedder.input_embedding.%lld", (long long)i);
  return accel__concat(b, 1, (uint32_t)c->channels, all);
}

/* Rows of patches, count of them (one more with a class token) for each of B * channels items. */
static accel__tensor embeddings(accel__build *b, patchtst_config *c, accel__tensor x) {
  accel__program *p = b->p;
  const int64_t before = c->cls ? 1 : 0, rows = c->count + before;
  accel__at(p, 0, "encoder.embedder");
  x = c->share_embedding
          ? accel__dense_layer(b, x, c->hidden, true, -1, NULL, "encoder.embedder.input_embedding")
          : embed_apart(b, c, x);
  accel__tensor places =
      accel__table(b, 2, (int64_t[]){rows, c->hidden}, "encoder.positional_encoder.position_enc");
  x = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, x,
                    c->cls ? accel__slice(p, places, 0, 1, rows) : places);
  accel__dim d = accel__const_dim(p, c->hidden), one = accel__const_dim(p, 1),
             channels = accel__const_dim(p, c->channels);
  if (c->cls) {
    accel__tensor token =
        accel__table(b, 4, (int64_t[]){1, 1, 1, c->hidden}, "encoder.positional_encoder.cls_token");
    token = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, token, accel__slice(p, places, 0, 0, 1));
    token = accel__broadcast(b, token, 4, (accel__dim[]){b->B, channels, one, d});
    x = accel__concat(b, 2, 2, (accel__tensor[]){token, x});
  }
  c->count = rows;
  return accel__reshape(p, x, 3,
                        (accel__dim[]){accel__dim_op(p, ACCEL_PLUGIN_DIM_MUL, b->B, channels),
                                       accel__const_dim(p, rows), d});
}

/* ---- layers ---- */

static accel__tensor norm(accel__build *b, const patchtst_config *c, accel__tensor x, uint32_t i,
                          uint32_t k) {
  char name[80];
  accel__tensor factor, offset;
  if (!c->batch_norm)
    return accel__norm_layer(b, x, -1, c->eps, true, "encoder.layers.%u.norm_sublayer%u", i, k);
  snprintf(name, sizeof name, "encoder.layers.%u.norm_sublayer%u.batchnorm", i, k);
  accel__batch_norm(b, c->hidden, c->eps, name, &factor, &offset);
  x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, x, factor);
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, offset);
}

/* Attention of the rows of b->space, by the one set of weights that both kinds share. */
static accel__tensor attention(accel__build *b, const patchtst_config *c, accel__tensor x,
                               accel__tensor residual, uint32_t i) {
  const char *path = "encoder.layers.%u.self_attn.%s";
  accel__tensor q = accel__dense_layer(b, x, c->hidden, true, -1, NULL, path, i, "q_proj");
  accel__tensor k = accel__dense_layer(b, x, c->hidden, true, -1, NULL, path, i, "k_proj");
  accel__tensor v = accel__dense_layer(b, x, c->hidden, true, -1, NULL, path, i, "v_proj");
  return accel__dense_layer(b, accel__self_attention(b, q, k, v, c->heads, 0.0), c->hidden, true,
                            residual, NULL, path, i, "out_proj");
}

static accel__tensor feed_forward(accel__build *b, const patchtst_config *c, accel__tensor x,
                                  accel__tensor residual, uint32_t i) {
  x = accel__dense_layer(b, x, c->inner, c->bias, -1, &c->act, "encoder.layers.%u.ff.0", i);
  return accel__dense_layer(b, x, c->hidden, c->bias, residual, NULL, "encoder.layers.%u.ff.3", i);
}

typedef accel__tensor (*sublayer)(accel__build *b, const patchtst_config *c, accel__tensor x,
                                  accel__tensor residual, uint32_t i);

static accel__tensor add(accel__build *b, const patchtst_config *c, accel__tensor x, uint32_t i,
                         uint32_t k, sublayer part) {
  return c->pre_norm ? part(b, c, norm(b, c, x, i, k), x, i)
                     : norm(b, c, part(b, c, x, x, i), i, k);
}

/* Rows [B * outer * inner, hidden] with the two swapped. */
static accel__tensor swap(accel__build *b, const patchtst_config *c, accel__tensor x, int64_t outer,
                          int64_t inner) {
  accel__program *p = b->p;
  accel__dim rows = accel__tensor_dim(p, x, 0), d = accel__const_dim(p, c->hidden);
  x = accel__reshape(
      p, x, 4, (accel__dim[]){b->B, accel__const_dim(p, outer), accel__const_dim(p, inner), d});
  x = accel__transpose(b, x, 4, (int64_t[]){0, 2, 1, 3});
  return accel__reshape(p, x, 2, (accel__dim[]){rows, d});
}

static accel__tensor layer(accel__build *b, const patchtst_config *c, accel__tensor x, uint32_t i) {
  const int32_t patches_of = b->space;
  accel__at(b->p, i + 1, "encoder.layers.%u", i);
  x = add(b, c, x, i, 1, attention);
  if (c->channel_attention) {
    x = swap(b, c, x, c->channels, c->count);
    b->space = accel__space_fixed(
        b->p, "channels", accel__const_dim(b->p, c->channels),
        accel__dim_op(b->p, ACCEL_PLUGIN_DIM_MUL, b->B, accel__const_dim(b->p, c->count)));
    x = swap(b, c, add(b, c, x, i, 2, attention), c->count, c->channels);
    b->space = patches_of;
  }
  return add(b, c, x, i, 3, feed_forward);
}

/* ---- heads ---- */

/* Rows -> [B, channels, count, hidden] */
static accel__tensor by_channel(accel__build *b, const patchtst_config *c, accel__tensor x) {
  accel__program *p = b->p;
  return accel__reshape(
      p, x, 4,
      (accel__dim[]){b->B, accel__const_dim(p, c->channels), accel__const_dim(p, c->count),
                     accel__const_dim(p, c->hidden)});
}

/* Rows -> [B, channels, horizon], scaled back. */
static accel__tensor predict(accel__build *b, const patchtst_config *c, accel__tensor x) {
  accel__program *p = b->p;
  const int64_t wide = c->pooling == POOL_NONE && !c->cls ? c->hidden * c->count : c->hidden;
  if (c->cls)
    x = accel__first_rows(b, x);
  else if (c->pooling != POOL_NONE)
    x = accel__reduce_rows(
        p, c->pooling == POOL_MEAN ? ACCEL_PLUGIN_REDUCE_MEAN : ACCEL_PLUGIN_REDUCE_MAX, x, -1,
        b->space);
  x = accel__reshape(
      p, x, 3, (accel__dim[]){b->B, accel__const_dim(p, c->channels), accel__const_dim(p, wide)});
  b->in_head = true;
  x = accel__dense_layer(b, x, c->horizon, true, -1, NULL, "head.projection");
  b->in_head = false;
  x = two(b, ACCEL_PLUGIN_BINARY_MUL, x, c->scale);
  return two(b, ACCEL_PLUGIN_BINARY_ADD, x, c->loc);
}

static void outputs(accel__build *b, const patchtst_config *c, accel__tensor x) {
  const int64_t turn[3] = {0, 2, 1};
  if (b->is_base)
    accel__add_output(b, "last_hidden_state", by_channel(b, c, x), 0);
  else
    accel__add_output(b, "prediction_outputs", accel__transpose(b, predict(b, c, x), 3, turn), 0);
  accel__add_output(b, "loc", accel__transpose(b, c->loc, 3, turn), 0);
  accel__add_output(b, "scale", accel__transpose(b, c->scale, 3, turn), 0);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  patchtst_config c = {.channels = 1,
                       .patch = 1,
                       .stride = 1,
                       .context = 32,
                       .horizon = 24,
                       .layers = 3,
                       .hidden = 128,
                       .heads = 4,
                       .inner = 512,
                       .eps = 1e-5,
                       .share_embedding = true,
                       .bias = true,
                       .pre_norm = true,
                       .act = {.act = ACCEL_PLUGIN_ACT_GELU}};
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "model."));
  ACCEL_TRY(read_config(&b, &c));
  if (!b.is_base) {
    ACCEL_TRY(accel__forecast_begin(&b, ACCEL__FORECAST_PATCHTST, &c.f));
    c.f->context = c.context;
    c.f->horizon = c.horizon;
    c.f->channels = c.channels;
  }
  accel__tensor x = patches(&b, &c, scaled(&b, &c));
  x = accel__items_to_rows(&b, embeddings(&b, &c, x), "patches");
  for (uint32_t i = 0; i < (uint32_t)c.layers; i++) {
    accel__add_hidden(&b, by_channel(&b, &c, x));
    x = layer(&b, &c, x, i);
  }
  accel__at(b.p, (uint32_t)c.layers + 1, "head");
  outputs(&b, &c, x);
  return accel__build_end(&b, x);
}

static const char *const classes[] = {"PatchTSTModel", "PatchTSTForPrediction", NULL};
const accel__architecture accel__model_patchtst = {
    .model_type = "patchtst", .classes = classes, .build = build};
