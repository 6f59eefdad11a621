/* rt_detr.c - RT-DETR, versions 1 and 2 (transformers' RTDetrModel, RTDetrForObjectDetection,
 * RTDetrV2Model, RTDetrV2ForObjectDetection): a deep ResNet, an encoder that mixes its maps, queries
 * taken where the maps promise most, a decoder that reads some points around each query's box.
 *
 * Maps are brought to each other's size, so that sides need not be multiples of the last stride, as
 * they must be there. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/deformable.h"
#include "models/resnet.h"

typedef struct rt_detr {
  accel__resnet backbone;
  int64_t width, enc_layers, enc_heads, enc_inner, n_encoded, encoded_maps[ACCEL__MAX_MAPS];
  int64_t hidden, queries, levels, points, dec_layers, dec_heads, dec_inner, n_in;
  double temperature, norm_eps, batch_eps, expansion, reach;
  bool pre_norm, no_positions, boxes; /* boxes: the class has the heads */
  accel__activation enc_act, conv_act, dec_act;
  accel__map_sizes sizes;
  accel__dim rows; /* pixels of all maps of an item */
  int32_t query_space;
} rt_detr;

static const accel__rename spelling[] = {{"out_proj", "o_proj"},
                                         {".fc1", ".mlp.fc1"},
                                         {".fc2", ".mlp.fc2"},
                                         {"encoder.encoder.", "encoder.aifi."},
                                         {NULL, NULL}};

/* ---- config ---- */

static accel_status read_backbone(accel__build *b, rt_detr *m) {
  const accel__json *own = NULL;
  const char *type = "rt_detr_resnet";
  ACCEL_TRY(accel__json_object(b->file, b->config, "backbone_config", &own));
  if (own == NULL && accel__json_get(b->config, "backbone") != NULL &&
      !cJSON_IsNull(accel__json_get(b->config, "backbone")))
    return accel__refuse(b, "field 'backbone' is not supported; known: backbone_config");
  ACCEL_TRY(accel__enter_config(b, "backbone_config"));
  ACCEL_TRY(accel__json_string(b->file, b->config, "model_type", &type));
  if (strcmp(type, "rt_detr_resnet") != 0)
    return accel__refuse(
        b, "field 'backbone_config.model_type': '%s' is not supported; known: rt_detr_resnet",
        type);
  ACCEL_TRY(accel__resnet_read(b, &m->backbone));
  m->backbone.deep = true;
  if (own == NULL) { /* what the class takes then */
    for (int64_t i = 0; i < 3; i++) m->backbone.asked[i] = 2 + i;
    m->backbone.n_asked = 3;
  }
  if (m->backbone.n_asked == 0) m->backbone.asked[m->backbone.n_asked++] = m->backbone.stages;
  return accel__enter_config(b, NULL);
}

static accel_status read_fields(accel__build *b, rt_detr *m) {
  const char *method = "default";
  bool own_queries = false;
  const accel__field fields[] = {
      ACCEL_FIELD_INT("encoder_hidden_dim", &m->width, 4, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("encoder_layers", &m->enc_layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("encoder_attention_heads", &m->enc_heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("encoder_ffn_dim", &m->enc_inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("d_model", &m->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_queries", &m->queries, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_feature_levels", &m->levels, 1, ACCEL__MAX_MAPS),
      ACCEL_FIELD_INT("decoder_n_points", &m->points, 1, 1024),
      ACCEL_FIELD_INT("decoder_layers", &m->dec_layers, 1, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("decoder_attention_heads", &m->dec_heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("decoder_ffn_dim", &m->dec_inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_NUMBER("positional_encoding_temperature", &m->temperature),
      ACCEL_FIELD_NUMBER("layer_norm_eps", &m->norm_eps),
      ACCEL_FIELD_NUMBER("batch_norm_eps", &m->batch_eps),
      ACCEL_FIELD_NUMBER("hidden_expansion", &m->expansion),
      ACCEL_FIELD_NUMBER("decoder_offset_scale", &m->reach),
      ACCEL_FIELD_BOOL("normalize_before", &m->pre_norm),
      ACCEL_FIELD_BOOL("learn_initial_query", &own_queries),
      ACCEL_FIELD_STRING("decoder_method", &method),
      ACCEL_FIELD_ACT("encoder_activation_function", &m->enc_act),
      ACCEL_FIELD_ACT("activation_function", &m->conv_act),
      ACCEL_FIELD_ACT("decoder_activation_function", &m->dec_act)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  if (own_queries) /* which transformers cannot run, either */
    return accel__refuse(b, "field 'learn_initial_query': true is not supported");
  if (strcmp(method, "default") != 0)
    return accel__refuse(b, "field 'decoder_method': '%s' is not supported; known: default",
                         method);
  ACCEL_TRY(
      accel__divides(b, "encoder_attention_heads", m->enc_heads, "encoder_hidden_dim", m->width));
  ACCEL_TRY(accel__divides(b, "decoder_attention_heads", m->dec_heads, "d_model", m->hidden));
  if (m->width % 4 != 0)
    return accel__refuse(b, "field 'encoder_hidden_dim': %lld is no multiple of 4",
                         (long long)m->width);
  if (!(m->expansion > 0) || m->expansion > 64)
    return accel__refuse(b, "field 'hidden_expansion': %g is not supported", m->expansion);
  return ACCEL_OK;
}

/* encode_proj_layers, decoder_in_channels, anchor_image_size, eval_size. */
static accel_status read_lists(accel__build *b, rt_detr *m) {
  const accel__json *encoded = NULL, *in = NULL,
                    *anchor = accel__json_get(b->config, "anchor_image_size");
  ACCEL_TRY(accel__json_array(b->file, b->config, "encode_proj_layers", &encoded));
  ACCEL_TRY(accel__json_array(b->file, b->config, "decoder_in_channels", &in));
  m->encoded_maps[0] = 2;
  m->n_encoded = encoded != NULL ? cJSON_GetArraySize(encoded) : 1;
  const int64_t maps = m->backbone.n_asked;
  if (m->n_encoded > ACCEL__MAX_MAPS)
    return accel__refuse(b, "field 'encode_proj_layers' has too many entries");
  ACCEL_TRY(accel__read_ints(b, "encode_proj_layers", m->n_encoded, 0, maps - 1, m->encoded_maps));
  if (m->n_encoded == 1 && m->encoded_maps[0] >= maps)
    return accel__refuse(b, "field 'encode_proj_layers' names a map that is not there");
  m->n_in = in != NULL ? cJSON_GetArraySize(in) : 3;
  if (m->n_in != maps)
    return accel__refuse(b, "field 'decoder_in_channels' has %lld entries for %lld maps",
                         (long long)m->n_in, (long long)maps);
  ACCEL_JSON_EACH(item, in) {
    if (!cJSON_IsNumber(item) || (int64_t)item->valuedouble != m->width)
      return accel__refuse(b,
                           "field 'decoder_in_channels': entries other than "
                           "encoder_hidden_dim are not supported");
  }
  if (m->levels < maps)
    return accel__refuse(b, "field 'num_feature_levels' is %lld, the backbone has %lld maps",
                         (long long)m->levels, (long long)maps);
  if (anchor != NULL && !cJSON_IsNull(anchor))
    return accel__refuse(b, "field 'anchor_image_size' is not supported; known: null");
  const accel__json *eval = accel__json_get(b->config, "eval_size");
  m->no_positions = eval != NULL && !cJSON_IsNull(eval);
  return ACCEL_OK;
}

static accel_status read_config(accel__build *b, rt_detr *m) {
  *m = (rt_detr){.width = 256,
                 .enc_layers = 1,
                 .enc_heads = 8,
                 .enc_inner = 1024,
                 .hidden = 256,
                 .queries = 300,
                 .levels = 3,
                 .points = 4,
                 .dec_layers = 6,
                 .dec_heads = 8,
                 .dec_inner = 1024,
                 .temperature = 10000.0,
                 .norm_eps = 1e-5,
                 .batch_eps = 1e-5,
                 .expansion = 1.0,
                 .reach = 0.5,
                 .enc_act = {.act = ACCEL_PLUGIN_ACT_GELU},
                 .conv_act = {.act = ACCEL_PLUGIN_ACT_SILU},
                 .dec_act = {.act = ACCEL_PLUGIN_ACT_RELU},
                 .boxes = !b->is_base};
  b->spelling[0] = spelling;
  b->images.typical_size[0] = b->images.typical_size[1] = 640; /* the image processor's */
  ACCEL_TRY(read_backbone(b, m));
  ACCEL_TRY(read_fields(b, m));
  ACCEL_TRY(read_lists(b, m));
  b->model->hidden_size = m->hidden;
  b->is_base = false; /* the base class scores labels, too */
  const accel_status status = accel__read_labels(b);
  b->is_base = !m->boxes;
  return status;
}

/* ---- maps ---- */

/* act(norm(conv(x)) + residual) of <path>.conv and <path>.norm; residual 0: none */
static accel__tensor conv_norm(accel__build *b, const rt_detr *m, accel__tensor x, int64_t out,
                               int64_t kernel, int64_t stride, accel__tensor residual,
                               const accel__activation *act, const char *path) {
  char conv[160], norm[160];
  const accel__conv how = {.out = out,
                           .kernel = {kernel, kernel},
                           .stride = {stride, stride},
                           .pad = {(kernel - 1) / 2, (kernel - 1) / 2},
                           .act = act,
                           .residual = residual};
  snprintf(conv, sizeof conv, "%s.conv", path);
  snprintf(norm, sizeof norm, "%s.norm", path);
  return accel__conv2d_norm(b, x, &how, m->batch_eps, conv, norm);
}

/* The same of <path>.0 and <path>.1, a 1 x 1 convolution or one of 3 x 3 that halves the map. */
static accel__tensor projected(accel__build *b, accel__tensor x, int64_t out, bool halves,
                               double eps, const char *path) {
  char conv[160], norm[160];
  accel__conv how = {.out = out, .kernel = {1, 1}};
  if (halves) how = (accel__conv){.out = out, .kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}};
  snprintf(conv, sizeof conv, "%s.0", path);
  snprintf(norm, sizeof norm, "%s.1", path);
  return accel__conv2d_norm(b, x, &how, eps, conv, norm);
}

/* [sin y | cos y | sin x | cos x] of a grid's rows and columns, width / 4 frequencies each: [1,h*w,
 * width]. */
static accel__tensor grid_positions(accel__build *b, const rt_detr *m, accel__dim h, accel__dim w) {
  accel__program *p = b->p;
  const int64_t quarter = m->width / 4;
  float *omega = accel__arena_array(b->arena, (size_t)quarter, sizeof *omega);
  if (omega == NULL)
    return accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for positions");
  for (int64_t i = 0; i < quarter; i++)
    omega[i] = (float)(1.0 / pow(m->temperature, (double)i / (double)quarter));
  accel__tensor freq = accel__constant_f32(p, "omega", 1, &quarter, omega), part[4];
  accel__dim one = accel__const_dim(p, 1), q = accel__const_dim(p, quarter), grid[3] = {h, w, q};
  for (int k = 0; k < 2; k++) {
    accel__dim n = k == 0 ? h : w;
    accel__tensor at = accel__reshape(p, accel__count(b, n), 2, (accel__dim[]){n, one});
    at = accel__binary(p, ACCEL_PLUGIN_BINARY_MUL, at, freq);
    at = accel__reshape(p, at, 3, (accel__dim[]){k == 0 ? h : one, k == 0 ? one : w, q});
    for (int s = 0; s < 2; s++)
      part[2 * k + s] = accel__broadcast(
          b, accel__unary(p, s == 0 ? ACCEL_PLUGIN_UNARY_SIN : ACCEL_PLUGIN_UNARY_COS, at), 3,
          grid);
  }
  accel__dim dims[3] = {one, accel__times(b, h, w), accel__const_dim(p, m->width)};
  return accel__reshape(p, accel__concat(b, 2, 4, part), 3, dims);
}

static accel__tensor plus(accel__build *b, accel__tensor x, accel__tensor y) {
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, y);
}

/* Attention among the rows of `space`, `positions` (-1: none) added to queries and keys. */
static accel__tensor self_attention(accel__build *b, accel__tensor x, accel__tensor positions,
                                    int64_t heads, int32_t space, const char *path) {
  const int64_t width = accel__columns(b, x);
  accel__attention how = accel__attention_of(b, heads);
  how.q_space = how.kv_space = space;
  accel__tensor y = positions >= 0 ? plus(b, x, positions) : x;
  accel__tensor q = accel__dense_layer(b, y, width, true, -1, NULL, "%s.self_attn.q_proj", path);
  accel__tensor k = accel__dense_layer(b, y, width, true, -1, NULL, "%s.self_attn.k_proj", path);
  accel__tensor v = accel__dense_layer(b, x, width, true, -1, NULL, "%s.self_attn.v_proj", path);
  return accel__dense_layer(b, accel__attend(b, q, k, v, &how), width, true, -1, NULL,
                            "%s.self_attn.out_proj", path);
}

static accel__tensor feed_forward(accel__build *b, accel__tensor x, int64_t inner,
                                  const accel__activation *act, const char *path) {
  accel__tensor y = accel__dense_layer(b, x, inner, true, -1, act, "%s.fc1", path);
  return accel__dense_layer(b, y, accel__columns(b, x), true, x, NULL, "%s.fc2", path);
}

/* One map through a transformer. */
static accel__tensor mixed(accel__build *b, const rt_detr *m, accel__tensor x, int64_t number) {
  if (x < 0) return -1;
  accel__dim h = accel__tensor_dim(b->p, x, 2), w = accel__tensor_dim(b->p, x, 3),
             rows = accel__times(b, h, w);
  accel__tensor positions = -1;
  x = accel__items_to_rows(b, accel__planes_to_items(b, x), "map");
  if (!m->no_positions) {
    accel__dim flat[2] = {accel__times(b, b->B, rows), accel__const_dim(b->p, m->width)};
    positions = accel__reshape(b->p, accel__repeat(b, grid_positions(b, m, h, w), b->B), 2, flat);
  }
  for (int64_t i = 0; i < m->enc_layers; i++) {
    const char *path = accel__arena_printf(b->arena, "encoder.encoder.%lld.layers.%lld",
                                           (long long)number, (long long)i);
    accel__tensor y = x;
    if (m->pre_norm)
      y = accel__norm_layer(b, x, -1, m->norm_eps, true, "%s.self_attn_layer_norm", path);
    x = plus(b, x, self_attention(b, y, positions, m->enc_heads, b->space, path));
    x = accel__norm_layer(b, x, -1, m->norm_eps, true,
                          m->pre_norm ? "%s.final_layer_norm" : "%s.self_attn_layer_norm", path);
    x = feed_forward(b, x, m->enc_inner, &m->enc_act, path);
    if (!m->pre_norm)
      x = accel__norm_layer(b, x, -1, m->norm_eps, true, "%s.final_layer_norm", path);
  }
  return accel__items_to_planes(b, accel__rows_to_items(b, x, rows), h, w);
}

/* Two maps of one size, fused. */
static accel__tensor fused(accel__build *b, const rt_detr *m, accel__tensor x, accel__tensor y,
                           const char *path) {
  const int64_t inner = (int64_t)((double)m->width * m->expansion);
  char name[128];
  x = accel__concat(b, 1, 2, (accel__tensor[]){x, y});
  snprintf(name, sizeof name, "%s.conv2", path);
  accel__tensor other = conv_norm(b, m, x, inner, 1, 1, 0, &m->conv_act, name);
  snprintf(name, sizeof name, "%s.conv1", path);
  x = conv_norm(b, m, x, inner, 1, 1, 0, &m->conv_act, name);
  for (int i = 0; i < 3; i++) {
    snprintf(name, sizeof name, "%s.bottlenecks.%d.conv1", path, i);
    accel__tensor three = conv_norm(b, m, x, inner, 3, 1, 0, NULL, name);
    snprintf(name, sizeof name, "%s.bottlenecks.%d.conv2", path, i);
    x = conv_norm(b, m, x, inner, 1, 1, three, &m->conv_act, name);
  }
  snprintf(name, sizeof name, "%s.conv3", path);
  x = plus(b, x, other);
  return inner == m->width ? x : conv_norm(b, m, x, m->width, 1, 1, 0, &m->conv_act, name);
}

static accel__tensor enlarged(accel__build *b, accel__tensor x, accel__tensor like) {
  if (x < 0 || like < 0) return -1;
  const int64_t shape[2] = {accel__tensor_dim(b->p, like, 2), accel__tensor_dim(b->p, like, 3)};
  accel__attr attr[] = {ACCEL_I(KIND, ACCEL_PLUGIN_RESIZE_NEAREST), ACCEL_D(SHAPE, shape, 2)};
  return accel__node(b->p, ACCEL_PLUGIN_OP_RESIZE, &x, 1, attr, 2, NULL, 1);
}

/* map [n] of encoder_hidden_dim channels, the finest first: coarse ones into fine ones, and back. */
static void encoder(accel__build *b, const rt_detr *m, accel__tensor *map) {
  const int64_t n = m->backbone.n_asked;
  char path[96];
  b->output_path = "encoder_";
  for (int64_t i = 0; i < m->n_encoded && m->enc_layers > 0; i++)
    map[m->encoded_maps[i]] = mixed(b, m, map[m->encoded_maps[i]], i);
  for (int64_t i = 0; i + 1 < n; i++) {
    const int64_t coarse = n - 1 - i;
    snprintf(path, sizeof path, "encoder.lateral_convs.%lld", (long long)i);
    map[coarse] = conv_norm(b, m, map[coarse], m->width, 1, 1, 0, &m->conv_act, path);
    snprintf(path, sizeof path, "encoder.fpn_blocks.%lld", (long long)i);
    map[coarse - 1] = fused(b, m, enlarged(b, map[coarse], map[coarse - 1]), map[coarse - 1], path);
  }
  for (int64_t i = 0; i + 1 < n; i++) {
    snprintf(path, sizeof path, "encoder.downsample_convs.%lld", (long long)i);
    accel__tensor down = conv_norm(b, m, map[i], m->width, 3, 2, 0, &m->conv_act, path);
    snprintf(path, sizeof path, "encoder.pan_blocks.%lld", (long long)i);
    map[i + 1] = fused(b, m, down, map[i + 1], path);
  }
  b->output_path = NULL;
}

/* All maps as the decoder reads them, one after the other: rows [B*rows, hidden]. */
static accel__tensor sources(accel__build *b, rt_detr *m, const accel__tensor *map) {
  accel__tensor part[ACCEL__MAX_MAPS];
  const int64_t n = m->backbone.n_asked;
  m->sizes.n = m->levels;
  for (int64_t i = 0; i < m->levels; i++) {
    char path[96];
    snprintf(path, sizeof path, "decoder_input_proj.%lld", (long long)i);
    accel__tensor x = projected(b, map[i < n ? i : n - 1], m->hidden, i >= n, m->batch_eps, path);
    if (x < 0) return -1;
    m->sizes.h[i] = accel__tensor_dim(b->p, x, 2);
    m->sizes.w[i] = accel__tensor_dim(b->p, x, 3);
    part[i] = accel__planes_to_items(b, x);
  }
  accel__tensor x = m->levels > 1 ? accel__concat(b, 1, (uint32_t)m->levels, part) : part[0];
  m->rows = x < 0 ? -1 : accel__tensor_dim(b->p, x, 1);
  x = accel__items_to_rows(b, x, "maps");
  return x;
}

/* ---- anchors ---- */

/* log(x / (1 - x)) */
static accel__tensor logit(accel__build *b, accel__tensor x) {
  return accel__unary(
      b->p, ACCEL_PLUGIN_UNARY_LOG,
      accel__binary(b->p, ACCEL_PLUGIN_BINARY_DIV, x, accel__affine(b, x, -1.0, 1.0)));
}

/* 1 where x lies between 0.01 and 0.99 in single precision, else 0. */
static accel__tensor in_sight(accel__build *b, accel__tensor x) {
  accel__tensor low = accel__affine(b, accel__affine(b, x, 1.0, -(double)0.01f), 1e30, 0.0);
  accel__tensor high = accel__affine(b, accel__affine(b, x, -1.0, (double)0.99f), 1e30, 0.0);
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, accel__clamp(b, low, 0.0, 1.0),
                       accel__clamp(b, high, 0.0, 1.0));
}

/* A box at each pixel of a map, [h*w, 4] as logits, and whether it counts, [h*w, 1]. */
static void map_anchors(accel__build *b, accel__dim h, accel__dim w, int64_t level,
                        accel__tensor *boxes, accel__tensor *counts) {
  accel__program *p = b->p;
  const float side = 0.05f * powf(2.0f, (float)level), fits = side < 0.99f ? 1.0f : 0.0f,
              size = fits > 0 ? logf(side / (1.0f - side)) : 0.0f;
  accel__dim one = accel__const_dim(p, 1), flat[2] = {accel__times(b, h, w), one}, grid[2] = {h, w};
  accel__tensor at[2], seen = accel__constant_f32(p, "fits", 2, (int64_t[]){1, 1}, &fits);
  for (int k = 0; k < 2; k++) { /* across, then down */
    accel__dim n = k == 0 ? w : h;
    at[k] = accel__binary(p, ACCEL_PLUGIN_BINARY_DIV,
                          accel__affine(b, accel__count(b, n), 1.0, 0.5), accel__dim_number(b, n));
    accel__dim dims[2] = {k == 0 ? one : h, k == 0 ? w : one};
    at[k] = accel__broadcast(b, accel__reshape(p, at[k], 2, dims), 2, grid);
    seen = accel__binary(p, ACCEL_PLUGIN_BINARY_MUL, in_sight(b, at[k]), seen);
    at[k] = accel__reshape(p, logit(b, at[k]), 2, flat);
  }
  accel__tensor sides = accel__constant_f32(p, "side", 2, (int64_t[]){1, 1}, &size);
  sides = accel__broadcast(b, sides, 2, flat);
  *boxes = accel__concat(b, 1, 4, (accel__tensor[]){at[0], at[1], sides, sides});
  *counts = accel__reshape(p, seen, 2, flat);
}

/* Of all maps: [1, rows, 4], the largest number where none counts, and [1, rows, 1]. */
static void anchors(accel__build *b, const rt_detr *m, accel__tensor *boxes,
                    accel__tensor *counts) {
  const float most = 3.4028234663852886e38f;
  accel__tensor box[ACCEL__MAX_MAPS], seen[ACCEL__MAX_MAPS];
  accel__dim one = accel__const_dim(b->p, 1);
  for (int64_t i = 0; i < m->levels; i++)
    map_anchors(b, m->sizes.h[i], m->sizes.w[i], i, &box[i], &seen[i]);
  accel__tensor x = m->levels > 1 ? accel__concat(b, 0, (uint32_t)m->levels, box) : box[0],
                y = m->levels > 1 ? accel__concat(b, 0, (uint32_t)m->levels, seen) : seen[0];
  accel__tensor none = accel__constant_f32(b->p, "no_anchor", 2, (int64_t[]){1, 1}, &most);
  accel__attr where = ACCEL_I(KIND, ACCEL_PLUGIN_BINARY_WHERE);
  x = accel__node(b->p, ACCEL_PLUGIN_OP_BINARY, (accel__tensor[]){y, x, none}, 3, &where, 1, NULL,
                  1);
  *boxes = accel__reshape(b->p, x, 3, (accel__dim[]){one, m->rows, accel__const_dim(b->p, 4)});
  *counts = accel__reshape(b->p, y, 3, (accel__dim[]){one, m->rows, one});
}

/* ---- queries ---- */

typedef struct chosen {
  accel__tensor rows, boxes; /* [B*queries, hidden]; [B*queries, 4] as logits */
} chosen;

/* Rows of x [B,rows,C] at `row` [B*queries]. */
static accel__tensor taken(accel__build *b, const rt_detr *m, accel__tensor x, accel__tensor row) {
  if (x < 0) return -1;
  accel__dim flat[2] = {accel__times(b, b->B, m->rows), accel__tensor_dim(b->p, x, 2)};
  return accel__gather(b->p, accel__reshape(b->p, x, 2, flat), row);
}

static accel__tensor items(accel__build *b, const rt_detr *m, accel__tensor x) {
  return accel__rows_to_items(b, x, accel__const_dim(b->p, m->queries));
}

/* The queries begin where a pixel's best class scores highest. */
static chosen choose(accel__build *b, rt_detr *m, accel__tensor memory) {
  accel__program *p = b->p;
  accel__tensor boxes, counts, found[2];
  accel__dim one = accel__const_dim(p, 1), q = accel__const_dim(p, m->queries),
             all = accel__times(b, b->B, q);
  anchors(b, m, &boxes, &counts);
  accel__tensor x = accel__rows_to_items(b, memory, m->rows);
  x = accel__binary(p, ACCEL_PLUGIN_BINARY_MUL, x, counts);
  x = accel__dense_layer(b, x, m->hidden, true, -1, NULL, "enc_output.0");
  x = accel__norm_layer(b, x, -1, m->norm_eps, true, "enc_output.1");
  accel__tensor classes =
      accel__dense_layer(b, x, b->model->num_labels, true, -1, NULL, "enc_score_head");
  accel__tensor at = plus(b, accel__mlp_head(b, x, 4, "enc_bbox_head"), boxes);
  accel__attr best[] = {ACCEL_I(KIND, ACCEL_PLUGIN_REDUCE_MAX), ACCEL_I(AXIS, 2)};
  accel__tensor score = accel__node(p, ACCEL_PLUGIN_OP_REDUCE, &classes, 1, best, 2, NULL, 1);
  accel__attr top[] = {ACCEL_I(K, m->queries), ACCEL_I(SORTED, 1)};
  accel__node(p, ACCEL_PLUGIN_OP_TOPK, &score, 1, top, 2, found, 2);
  accel__tensor first = accel__first_numbers(b, m->rows);
  first = accel__reshape(p, first, 2, (accel__dim[]){b->B, one});
  accel__tensor row = accel__reshape(p, plus(b, found[1], first), 1, &all);
  chosen c = {taken(b, m, x, row), taken(b, m, at, row)};
  accel__add_output(b, "enc_topk_logits", items(b, m, taken(b, m, classes, row)), 0);
  accel__add_output(b, "enc_topk_bboxes",
                    items(b, m, accel__unary(p, ACCEL_PLUGIN_ACT_SIGMOID, c.boxes)), 0);
  accel__add_output(b, "init_reference_points", items(b, m, c.boxes), 0);
  accel__add_output(b, "enc_outputs_class", classes, 0);
  accel__add_output(b, "enc_outputs_coord_logits", at, 0);
  c.rows = accel__items_to_rows(b, items(b, m, c.rows), "queries");
  m->query_space = b->space;
  return c;
}

/* ---- decoder ---- */

/* The boxes moved by what the head of layer i says. */
static accel__tensor refined(accel__build *b, accel__tensor x, accel__tensor boxes, int64_t i) {
  accel__tensor at = accel__clamp(b, boxes, 0.0, 1.0);
  accel__tensor low = accel__clamp(b, at, 1e-5, 1.0),
                high = accel__clamp(b, accel__affine(b, at, -1.0, 1.0), 1e-5, 1.0);
  at = accel__unary(b->p, ACCEL_PLUGIN_UNARY_LOG,
                    accel__binary(b->p, ACCEL_PLUGIN_BINARY_DIV, low, high));
  accel__tensor moved = accel__mlp_head(
      b, x, 4, accel__arena_printf(b->arena, "decoder.bbox_embed.%lld", (long long)i));
  return accel__unary(b->p, ACCEL_PLUGIN_ACT_SIGMOID, plus(b, moved, at));
}

/* x [B*queries, C] of each layer: [B, layers, queries, C]. */
static void output_layers(accel__build *b, const rt_detr *m, const char *name,
                          accel__tensor *each) {
  accel__dim one = accel__const_dim(b->p, 1), q = accel__const_dim(b->p, m->queries);
  for (int64_t i = 0; i < m->dec_layers; i++) {
    if (each[i] < 0) return;
    each[i] = accel__reshape(b->p, each[i], 4,
                             (accel__dim[]){b->B, one, q, accel__tensor_dim(b->p, each[i], 1)});
  }
  accel__add_output(
      b, name, m->dec_layers > 1 ? accel__concat(b, 1, (uint32_t)m->dec_layers, each) : each[0], 0);
}

static accel__tensor decoder_layer(accel__build *b, const rt_detr *m, const accel__deformable *how,
                                   accel__tensor x, accel__tensor memory, accel__tensor boxes,
                                   const char *path) {
  static const accel__activation relu = {.act = ACCEL_PLUGIN_ACT_RELU};
  accel__tensor at = accel__dense_layer(b, boxes, 2 * m->hidden, true, -1, &relu,
                                        "decoder.query_pos_head.layers.0");
  at = accel__dense_layer(b, at, m->hidden, true, -1, NULL, "decoder.query_pos_head.layers.1");
  x = plus(b, x, self_attention(b, x, at, m->dec_heads, m->query_space, path));
  x = accel__norm_layer(b, x, -1, m->norm_eps, true, "%s.self_attn_layer_norm", path);
  char cross[128];
  snprintf(cross, sizeof cross, "%s.encoder_attn", path);
  x = plus(b, x, accel__deformable_attend(b, how, plus(b, x, at), memory, boxes, cross));
  x = accel__norm_layer(b, x, -1, m->norm_eps, true, "%s.encoder_attn_layer_norm", path);
  x = feed_forward(b, x, m->dec_inner, &m->dec_act, path);
  return accel__norm_layer(b, x, -1, m->norm_eps, true, "%s.final_layer_norm", path);
}

static accel__tensor decoder(accel__build *b, const rt_detr *m, const chosen *begin,
                             accel__tensor memory) {
  accel__tensor rows[ACCEL__MAX_LAYERS], at[ACCEL__MAX_LAYERS], classes[ACCEL__MAX_LAYERS];
  accel__tensor x = begin->rows, boxes = accel__unary(b->p, ACCEL_PLUGIN_ACT_SIGMOID, begin->boxes);
  accel__deformable how = {.hidden = m->hidden,
                           .heads = m->dec_heads,
                           .points = m->points,
                           .queries = accel__const_dim(b->p, m->queries),
                           .rows = m->rows,
                           .reach = m->reach,
                           .maps = &m->sizes};
  accel__deformable_begin(b, &how);
  for (int64_t i = 0; i < m->dec_layers; i++) {
    const char *path = accel__arena_printf(b->arena, "decoder.layers.%lld", (long long)i);
    accel__at(b->p, (uint32_t)(m->backbone.last + 1 + i), "%s", path);
    x = decoder_layer(b, m, &how, x, memory, boxes, path);
    if (m->boxes) {
      boxes = refined(b, x, boxes, i);
      classes[i] = accel__dense_layer(b, x, b->model->num_labels, true, -1, NULL,
                                      "decoder.class_embed.%lld", (long long)i);
    }
    rows[i] = x;
    at[i] = boxes;
  }
  accel__at(b->p, (uint32_t)(m->backbone.last + 1 + m->dec_layers), "head");
  if (m->boxes) {
    accel__add_output(b, "logits", items(b, m, classes[m->dec_layers - 1]), 0);
    accel__add_output(b, "pred_boxes", items(b, m, boxes), 0);
  }
  accel__add_output(b, "last_hidden_state", items(b, m, x), 0);
  output_layers(b, m, "intermediate_hidden_states", rows);
  output_layers(b, m, "intermediate_reference_points", at);
  if (m->boxes) output_layers(b, m, "intermediate_logits", classes);
  return x;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  static const char *const unread[] = {"pixel_mask", NULL};
  accel__build b;
  accel__tensor map[ACCEL__MAX_MAPS], stage[ACCEL__MAX_STAGES + 1];
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "model."));
  rt_detr *m = accel__arena_alloc(b.arena, sizeof *m);
  if (m == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(read_config(&b, m));
  model->unread = unread;
  b.scope = "backbone.model.";
  accel__resnet_features(&b, &m->backbone, accel__add_pixels(&b, m->backbone.channels, NULL), false,
                         stage);
  b.scope = NULL;
  for (int64_t i = 0; i < m->backbone.n_asked; i++)
    map[i] = projected(&b, stage[m->backbone.asked[i]], m->width, false, 1e-5,
                       accel__arena_printf(b.arena, "encoder_input_proj.%lld", (long long)i));
  encoder(&b, m, map);
  accel__tensor memory = sources(&b, m, map);
  const chosen begin = choose(&b, m, memory);
  accel__tensor x = decoder(&b, m, &begin, memory);
  for (int64_t i = 0; i < m->backbone.n_asked; i++)
    accel__add_output(&b,
                      accel__arena_printf(b.arena, "encoder_last_hidden_state.%lld", (long long)i),
                      map[i], 0);
  return accel__build_end(&b, x);
}

static const char *const classes[] = {"RTDetrModel", "RTDetrForObjectDetection", NULL};
const accel__architecture accel__model_rt_detr = {
    .model_type = "rt_detr", .classes = classes, .build = build};
static const char *const v2_classes[] = {"RTDetrV2Model", "RTDetrV2ForObjectDetection", NULL};
const accel__architecture accel__model_rt_detr_v2 = {
    .model_type = "rt_detr_v2", .classes = v2_classes, .build = build};
