/* detr.c - DETR (transformers' DetrModel, DetrForObjectDetection, DetrForSegmentation) and Table
 * Transformer (TableTransformerModel, TableTransformerForObjectDetection), which normalises before
 * each part of a layer: a ResNet backbone, an encoder over its feature map, a decoder of object
 * queries.  Pixels outside
 * pixel_mask are computed as the backbone sees them and hidden from attention, as the reference
 * does. */
#include <math.h>
#include <string.h>

#include "models/resnet.h"

typedef struct detr {
  accel__resnet backbone;
  int64_t hidden, queries, enc_layers, enc_heads, enc_inner, dec_layers, dec_heads, dec_inner;
  bool learned, auxiliary, pre_norm; /* pre_norm: Table Transformer */
  accel__activation act;
  accel__dim h, w, rows; /* of the feature map; h*w */
  int32_t map_space, query_space;
  accel__tensor mask, position_rows;             /* int32 [B*rows]; [B*rows, hidden] */
  accel__tensor query_position_rows, query_mask; /* [B*queries, hidden]; int32 [B*queries] */
  accel__tensor encoded, intermediate;
  /* of the backbone; the last one [B, hidden, h, w] */
  accel__tensor maps[ACCEL__MAX_STAGES + 1], projected;
} detr;

static const accel__rename spelling[] = {{"backbone.conv_encoder", "backbone"},
                                         {"out_proj", "o_proj"},
                                         {".fc1", ".mlp.fc1"},
                                         {".fc2", ".mlp.fc2"},
                                         {NULL, NULL}};
static const accel__rename old_positions[] = {
    {"position_embedding.", "backbone.position_embedding."}, {NULL, NULL}};

static const accel__rename mask_head[] = {
    {"mask_head.lay1.", "mask_head.conv1.conv."},
    {"mask_head.gn1.", "mask_head.conv1.norm."},
    {"mask_head.lay2.", "mask_head.conv2.conv."},
    {"mask_head.gn2.", "mask_head.conv2.norm."},
    {"mask_head.adapter1.", "mask_head.fpn_stages.0.fpn_adapter."},
    {"mask_head.lay3.", "mask_head.fpn_stages.0.refine.conv."},
    {"mask_head.gn3.", "mask_head.fpn_stages.0.refine.norm."},
    {"mask_head.adapter2.", "mask_head.fpn_stages.1.fpn_adapter."},
    {"mask_head.lay4.", "mask_head.fpn_stages.1.refine.conv."},
    {"mask_head.gn4.", "mask_head.fpn_stages.1.refine.norm."},
    {"mask_head.adapter3.", "mask_head.fpn_stages.2.fpn_adapter."},
    {"mask_head.lay5.", "mask_head.fpn_stages.2.refine.conv."},
    {"mask_head.gn5.", "mask_head.fpn_stages.2.refine.norm."},
    {"mask_head.out_lay.", "mask_head.output_conv."},
    {"bbox_attention.q_linear", "bbox_attention.q_proj"},
    {"bbox_attention.k_linear", "bbox_attention.k_proj"},
    {NULL, NULL}};

/* backbone_config (a transformers ResNet, or timm's by name), or the fields of old configs:
 * backbone, dilation. */
static accel_status read_backbone(accel__build *b, detr *m) {
  const accel__json *own = NULL;
  const char *type = NULL, *name = NULL;
  bool dilation = false;
  int64_t channels = 3, stride = 32;
  ACCEL_TRY(accel__json_object(b->file, b->config, "backbone_config", &own));
  ACCEL_TRY(accel__json_bool(b->file, b->config, "dilation", &dilation));
  ACCEL_TRY(accel__json_int(b->file, b->config, "num_channels", 1, ACCEL__MAX_WIDTH, &channels));
  if (own != NULL) ACCEL_TRY(accel__enter_config(b, "backbone_config"));
  if (own != NULL) ACCEL_TRY(accel__json_string(b->file, b->config, "model_type", &type));
  if (own != NULL && (type == NULL || strcmp(type, "resnet") == 0)) {
    ACCEL_TRY(accel__resnet_read(b, &m->backbone));
    m->backbone.timm =
        b->request->checkpoint != NULL &&
        !accel__has(b, "backbone.conv_encoder.model.embedder.embedder.convolution.weight");
    return accel__enter_config(b, NULL);
  }
  if (type != NULL && strcmp(type, "timm_backbone") != 0)
    return accel__refuse(
        b,
        "field 'backbone_config.model_type': '%s' is not supported; known: resnet, timm_backbone",
        type);
  ACCEL_TRY(accel__json_string(b->file, b->config, "backbone", &name));
  ACCEL_TRY(accel__json_int(b->file, b->config, "num_channels", 1, ACCEL__MAX_WIDTH, &channels));
  ACCEL_TRY(accel__json_int(b->file, b->config, "output_stride", 1, 32, &stride));
  ACCEL_TRY(accel__resnet_of_timm(b, name != NULL ? name : "resnet50", own == NULL, &m->backbone));
  if (stride != 32 && stride != 16 && stride != 8)
    return accel__refuse(
        b, "field 'backbone_config.output_stride': %lld is not supported; known: 8, 16, 32",
        (long long)stride);
  m->backbone.limit = own != NULL ? stride : dilation ? 16 : 32;
  m->backbone.channels = channels;
  return accel__enter_config(b, NULL);
}

static accel_status read_config(accel__build *b, detr *m) {
  *m = (detr){.pre_norm = strncmp(b->model->architecture, "TableTransformer", 16) == 0,
              .hidden = 256,
              .queries = 100,
              .enc_layers = 6,
              .enc_heads = 8,
              .enc_inner = 2048,
              .dec_layers = 6,
              .dec_heads = 8,
              .dec_inner = 2048,
              .act = {.act = ACCEL_PLUGIN_ACT_RELU}};
  const char *positions = NULL;
  const accel__field fields[] = {
      ACCEL_FIELD_INT("d_model", &m->hidden, 4, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_queries", &m->queries, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("encoder_layers", &m->enc_layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("encoder_attention_heads", &m->enc_heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("encoder_ffn_dim", &m->enc_inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("decoder_layers", &m->dec_layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("decoder_attention_heads", &m->dec_heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("decoder_ffn_dim", &m->dec_inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_BOOL("auxiliary_loss", &m->auxiliary),
      ACCEL_FIELD_STRING("position_embedding_type", &positions),
      ACCEL_FIELD_ACT("activation_function", &m->act),
  };
  b->spelling[0] = spelling;
  b->spelling[1] = old_positions;
  b->spelling[2] = mask_head;
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__divides(b, "encoder_attention_heads", m->enc_heads, "d_model", m->hidden));
  ACCEL_TRY(accel__divides(b, "decoder_attention_heads", m->dec_heads, "d_model", m->hidden));
  m->learned = positions != NULL && strcmp(positions, "learned") == 0;
  if (positions != NULL && !m->learned && strcmp(positions, "sine") != 0)
    return accel__refuse(
        b, "field 'position_embedding_type': '%s' is not supported; known: sine, learned",
        positions);
  if (m->hidden % 4 != 0)
    return accel__refuse(b, "field 'd_model': %lld is no multiple of 4", (long long)m->hidden);
  b->model->hidden_size = m->hidden;
  ACCEL_TRY(read_backbone(b, m));
  return accel__read_labels(b);
}

/* ---- positions ---- */

/* sin and cos of a running count, normalised to 2 pi, over hidden/2 wave lengths: count [A,n] ->
 * [A*n, hidden/2], the rows' order kept. */
static accel__tensor waves(accel__build *b, const detr *m, accel__tensor count) {
  const int64_t half = m->hidden / 2;
  accel__program *p = b->p;
  float *length = accel__arena_array(b->arena, (size_t)half, sizeof *length),
        *phase = accel__arena_array(b->arena, (size_t)half, sizeof *phase);
  if (length == NULL || phase == NULL)
    return accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for positions");
  for (int64_t i = 0; i < half; i++) {
    length[i] = powf(10000.0f, 2.0f * (float)(i / 2) / (float)half);
    phase[i] = i % 2 == 0 ? 0.0f : 1.57079632679489661923f; /* cos x = sin(x + pi/2) */
  }
  if (count < 0) return -1;
  accel__tensor last = accel__slice(p, count, 1, -1, INT64_MAX);
  last = accel__reshape(p, last, 2,
                        (accel__dim[]){accel__tensor_dim(p, count, 0), accel__const_dim(p, 1)});
  accel__tensor share =
      accel__binary(p, ACCEL_PLUGIN_BINARY_DIV, count, accel__affine(b, last, 1.0, 1e-6));
  share = accel__affine(b, share, 6.283185307179586, 0.0);
  if (share < 0) return -1;
  accel__dim all = accel__times(b, accel__tensor_dim(p, share, 0), accel__tensor_dim(p, share, 1));
  share = accel__reshape(p, share, 2, (accel__dim[]){all, accel__const_dim(p, 1)});
  share = accel__binary(p, ACCEL_PLUGIN_BINARY_DIV, share,
                        accel__constant_f32(p, "wave_length", 1, &half, length));
  return accel__unary(p, ACCEL_PLUGIN_UNARY_SIN,
                      accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, share,
                                    accel__constant_f32(p, "wave_phase", 1, &half, phase)));
}

/* mask [B,h,w] F32 -> [B*h*w, hidden]: rows (y) first, then columns (x). */
static accel__tensor sine_positions(accel__build *b, const detr *m, accel__tensor mask) {
  accel__program *p = b->p;
  accel__dim half = accel__const_dim(p, m->hidden / 2);
  accel__tensor x = accel__cumsum(
      b, accel__reshape(p, mask, 2, (accel__dim[]){accel__times(b, b->B, m->h), m->w}));
  accel__tensor y = accel__transpose(b, mask, 3, (int64_t[]){0, 2, 1});
  y = accel__cumsum(b, accel__reshape(p, y, 2, (accel__dim[]){accel__times(b, b->B, m->w), m->h}));
  y = accel__reshape(p, waves(b, m, y), 4, (accel__dim[]){b->B, m->w, m->h, half});
  y = accel__transpose(b, y, 4, (int64_t[]){0, 2, 1, 3});
  y = accel__reshape(p, y, 2, (accel__dim[]){accel__times(b, b->B, m->rows), half});
  return accel__concat(b, 1, 2, (accel__tensor[]){y, waves(b, m, x)});
}

/* Learned embeddings of column and row, at most 50 of each. */
static accel__tensor learned_positions(accel__build *b, const detr *m) {
  accel__program *p = b->p;
  const int64_t dims[2] = {50, m->hidden / 2};
  accel__dim zero = accel__const_dim(p, 0), one = accel__const_dim(p, 1),
             half = accel__const_dim(p, m->hidden / 2);
  accel__tensor x = accel__slice_dims(
      b, accel__table(b, 2, dims, "position_embedding.column_embeddings.weight"), 0, zero, m->w);
  accel__tensor y = accel__slice_dims(
      b, accel__table(b, 2, dims, "position_embedding.row_embeddings.weight"), 0, zero, m->h);
  x = accel__broadcast(b, accel__reshape(p, x, 4, (accel__dim[]){one, one, m->w, half}), 4,
                       (accel__dim[]){b->B, m->h, m->w, half});
  y = accel__broadcast(b, accel__reshape(p, y, 4, (accel__dim[]){one, m->h, one, half}), 4,
                       (accel__dim[]){b->B, m->h, m->w, half});
  x = accel__concat(b, 3, 2, (accel__tensor[]){x, y});
  return accel__reshape(
      p, x, 2, (accel__dim[]){accel__times(b, b->B, m->rows), accel__const_dim(p, m->hidden)});
}

/* ---- layers ---- */

static accel__tensor plus(accel__build *b, accel__tensor x, accel__tensor y) {
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, y);
}

/* Rows and what is added to them to make queries or keys. */
typedef struct positioned {
  accel__tensor rows, positions;
} positioned;

/* norm(x + attention(x + its positions, y + its positions, y)); with pre_norm x + attention(..) of
 * normalised rows, those of y too when it is x. */
static accel__tensor attend(accel__build *b, const detr *m, positioned from, positioned to,
                            const accel__attention *how, const char *name, const char *path) {
  const bool self = from.rows == to.rows;
  accel__tensor x = from.rows, of = x, y = to.rows;
  if (m->pre_norm) of = accel__norm_layer(b, x, -1, 1e-5, true, "%s.%s_layer_norm", path, name);
  if (self) y = of;
  accel__tensor q = accel__dense_layer(b, plus(b, of, from.positions), m->hidden, true, -1, NULL,
                                       "%s.%s.q_proj", path, name);
  accel__tensor k = accel__dense_layer(b, plus(b, y, to.positions), m->hidden, true, -1, NULL,
                                       "%s.%s.k_proj", path, name);
  accel__tensor v = accel__dense_layer(b, y, m->hidden, true, -1, NULL, "%s.%s.v_proj", path, name);
  x = accel__dense_layer(b, accel__attend(b, q, k, v, how), m->hidden, true, x, NULL,
                         "%s.%s.out_proj", path, name);
  if (m->pre_norm) return x;
  return accel__norm_layer(b, x, -1, 1e-5, true, "%s.%s_layer_norm", path, name);
}

static accel__tensor feed_forward(accel__build *b, const detr *m, accel__tensor x, int64_t inner,
                                  const char *path) {
  accel__tensor y = x;
  if (m->pre_norm) y = accel__norm_layer(b, x, -1, 1e-5, true, "%s.final_layer_norm", path);
  y = accel__dense_layer(b, y, inner, true, -1, &m->act, "%s.fc1", path);
  y = accel__dense_layer(b, y, m->hidden, true, x, NULL, "%s.fc2", path);
  if (m->pre_norm) return y;
  return accel__norm_layer(b, y, -1, 1e-5, true, "%s.final_layer_norm", path);
}

static void encoder(accel__build *b, detr *m, accel__tensor x) {
  accel__attention how = accel__attention_of(b, m->enc_heads);
  how.q_space = how.kv_space = m->map_space;
  how.mask = m->mask;
  b->output_path = "encoder_";
  b->n_hidden = 0;
  accel__hidden_items(b, x, m->rows);
  for (int64_t i = 0; i < m->enc_layers; i++) {
    const char *path = accel__arena_printf(b->arena, "encoder.layers.%lld", (long long)i);
    accel__at(b->p, (uint32_t)(m->backbone.last + 1 + i), "%s", path);
    x = attend(b, m, (positioned){x, m->position_rows}, (positioned){x, m->position_rows}, &how,
               "self_attn", path);
    x = feed_forward(b, m, x, m->enc_inner, path);
    accel__hidden_items(b, x, m->rows);
  }
  m->encoded = m->pre_norm ? accel__norm_layer(b, x, -1, 1e-5, true, "encoder.layernorm") : x;
}

static accel__tensor decoder(accel__build *b, detr *m) {
  accel__attention self = accel__attention_of(b, m->dec_heads), cross = self;
  accel__dim queries = accel__const_dim(b->p, m->queries), c = accel__const_dim(b->p, m->hidden);
  const float zero = 0.0f;
  self.q_space = self.kv_space = cross.q_space = m->query_space;
  self.mask = m->query_mask;
  cross.kv_space = m->map_space;
  cross.mask = m->mask;
  b->output_path = "decoder_";
  b->n_hidden = 0;
  accel__tensor x = accel__constant_f32(b->p, "no_query", 2, (int64_t[]){1, 1}, &zero),
                each[ACCEL__MAX_LAYERS];
  x = accel__broadcast(b, x, 2, (accel__dim[]){accel__times(b, b->B, queries), c});
  for (int64_t i = 0; i < m->dec_layers; i++) {
    const char *path = accel__arena_printf(b->arena, "decoder.layers.%lld", (long long)i);
    if (i == 0) accel__hidden_items(b, x, queries);
    accel__at(b->p, (uint32_t)(m->backbone.last + 1 + m->enc_layers + i), "%s", path);
    x = attend(b, m, (positioned){x, m->query_position_rows},
               (positioned){x, m->query_position_rows}, &self, "self_attn", path);
    x = attend(b, m, (positioned){x, m->query_position_rows},
               (positioned){m->encoded, m->position_rows}, &cross, "encoder_attn", path);
    x = feed_forward(b, m, x, m->dec_inner, path);
    const bool listed = i + 1 < m->dec_layers;
    if (listed && !m->pre_norm) accel__hidden_items(b, x, queries);
    if (m->auxiliary) { /* the next layer takes the normalised rows */
      x = accel__norm_layer(b, x, -1, 1e-5, true, "decoder.layernorm");
      each[i] =
          accel__reshape(b->p, x, 4, (accel__dim[]){accel__const_dim(b->p, 1), b->B, queries, c});
    }
    if (listed && m->pre_norm) accel__hidden_items(b, x, queries); /* as the next layer takes it */
  }
  accel__at(b->p, (uint32_t)(m->backbone.last + 1 + m->enc_layers + m->dec_layers), "head");
  x = accel__norm_layer(b, x, -1, 1e-5, true, "decoder.layernorm");
  accel__hidden_items(b, x, queries);
  m->intermediate =
      m->auxiliary && m->dec_layers > 0 ? accel__concat(b, 0, (uint32_t)m->dec_layers, each) : -1;
  b->output_path = NULL;
  return x;
}

/* Backbone, mask and positions of its map, queries: rows [B*h*w, hidden]. */
static accel__tensor embed(accel__build *b, detr *m) {
  accel__program *p = b->p;
  /* the image processor's: at least 800 pixels to a side, here of a picture of 4 : 3 */
  b->images.typical_size[0] = 800;
  b->images.typical_size[1] = 1066;
  accel__tensor pixels = accel__add_pixels(b, m->backbone.channels, NULL);
  accel__dim H = accel__tensor_dim(p, pixels, 2), W = accel__tensor_dim(p, pixels, 3),
             one = accel__const_dim(p, 1), queries = accel__const_dim(p, m->queries);
  accel__tensor mask = accel__add_item(b, "pixel_mask", ACCEL_PLUGIN_F32, 3,
                                       (accel__dim[]){b->B, H, W}, ACCEL__DEFAULT_ONES);
  accel__tensor query_mask = -1; /* which Table Transformer does not look at */
  if (!m->pre_norm)
    query_mask = accel__add_item(b, "decoder_attention_mask", ACCEL_PLUGIN_I32, 2,
                                 (accel__dim[]){b->B, queries}, ACCEL__DEFAULT_ONES);
  b->scope = "backbone.conv_encoder.model.";
  accel__tensor x = accel__resnet_features(b, &m->backbone, pixels, false, m->maps);
  b->scope = NULL;
  if (x < 0) return -1;
  m->h = accel__tensor_dim(p, x, 2);
  m->w = accel__tensor_dim(p, x, 3);
  m->rows = accel__times(b, m->h, m->w);
  const accel__conv projection = {.out = m->hidden, .kernel = {1, 1}, .bias = true};
  x = m->projected = accel__conv2d(b, x, &projection, "input_projection");
  x = accel__items_to_rows(b, accel__planes_to_items(b, x), "map");
  m->map_space = b->space;
  int64_t shape[2] = {m->h, m->w};
  accel__attr attr[] = {ACCEL_I(KIND, ACCEL_PLUGIN_RESIZE_NEAREST), ACCEL_D(SHAPE, shape, 2)};
  mask = accel__reshape(p, mask, 4, (accel__dim[]){b->B, one, H, W});
  mask = accel__node(p, ACCEL_PLUGIN_OP_RESIZE, &mask, 1, attr, 2, NULL, 1);
  mask = accel__reshape(p, mask, 3, (accel__dim[]){b->B, m->h, m->w});
  m->mask = accel__reshape(p, accel__cast(b, mask, ACCEL_PLUGIN_I32), 1,
                           (accel__dim[]){accel__times(b, b->B, m->rows)});
  m->position_rows = m->learned ? learned_positions(b, m) : sine_positions(b, m, mask);
  accel__tensor table =
      accel__table(b, 2, (int64_t[]){m->queries, m->hidden}, "query_position_embeddings.weight");
  table = accel__reshape(p, table, 3, (accel__dim[]){one, queries, accel__const_dim(p, m->hidden)});
  m->query_position_rows = accel__items_to_rows(b, accel__repeat(b, table, b->B), "queries");
  m->query_space = b->space;
  m->query_mask = query_mask;
  if (query_mask >= 0)
    m->query_mask =
        accel__reshape(p, query_mask, 1, (accel__dim[]){accel__times(b, b->B, queries)});
  return x;
}

/* ---- masks ---- */

static accel__tensor square_conv(accel__build *b, accel__tensor x, int64_t out, int64_t kernel,
                                 const char *name) {
  const accel__conv how = {
      .out = out, .kernel = {kernel, kernel}, .pad = {kernel / 2, kernel / 2}, .bias = true};
  return accel__conv2d(b, x, &how, "mask_head.%s", name);
}

/* act(norm(conv(x))) of "lay<n>" and "gn<n>" */
static accel__tensor refined(accel__build *b, const detr *m, accel__tensor x, int64_t out, int n) {
  x = square_conv(b, x, out, 3, accel__arena_printf(b->arena, "lay%d", n));
  x = accel__group_norm(b, x, out < 8 ? out : 8, 1e-5,
                        accel__arena_printf(b->arena, "mask_head.gn%d", n));
  return accel__activate(b, x, &m->act);
}

/* Where each query looks: a softmax over all heads and positions of the map together. x [B*queries,
 * hidden] -> [B*queries, heads, h, w]. */
static accel__tensor looks(accel__build *b, const detr *m, accel__tensor x) {
  accel__program *p = b->p;
  accel__dim queries = accel__const_dim(p, m->queries), heads = accel__const_dim(p, m->enc_heads),
             d = accel__const_dim(p, m->hidden / m->enc_heads), one = accel__const_dim(p, 1);
  accel__tensor q = accel__dense_layer(b, x, m->hidden, true, -1, NULL, "bbox_attention.q_linear");
  accel__tensor k =
      accel__dense_layer(b, m->encoded, m->hidden, true, -1, NULL, "bbox_attention.k_linear");
  q = accel__transpose(b, accel__reshape(p, q, 4, (accel__dim[]){b->B, queries, heads, d}), 4,
                       (int64_t[]){0, 2, 1, 3});
  k = accel__transpose(b, accel__reshape(p, k, 4, (accel__dim[]){b->B, m->rows, heads, d}), 4,
                       (int64_t[]){0, 2, 1, 3});
  accel__attr attr[] = {ACCEL_I(TRANS_B, 1),
                        ACCEL_F(SCALE, 1.0 / sqrt((double)(m->hidden / m->enc_heads)))};
  /* [B, heads, queries, h*w] */
  x = accel__node(p, ACCEL_PLUGIN_OP_MATMUL, (accel__tensor[]){q, k}, 2, attr, 2, NULL, 1);
  accel__tensor hidden = accel__affine(b, accel__cast(b, m->mask, ACCEL_PLUGIN_F32), 1e30, -1e30);
  x = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, x,
                    accel__reshape(p, hidden, 4, (accel__dim[]){b->B, one, one, m->rows}));
  x = accel__transpose(b, x, 4, (int64_t[]){0, 2, 1, 3});
  x = accel__reshape(p, x, 3, (accel__dim[]){b->B, queries, accel__times(b, heads, m->rows)});
  accel__attr axis = ACCEL_I(AXIS, 2);
  x = accel__node(p, ACCEL_PLUGIN_OP_SOFTMAX, &x, 1, &axis, 1, NULL, 1);
  return accel__reshape(p, x, 4, (accel__dim[]){accel__times(b, b->B, queries), heads, m->h, m->w});
}

/* x [B*queries, c, ..] to the size of an earlier map of the backbone, plus that map's projection to
 * c channels. */
static accel__tensor joined(accel__build *b, const detr *m, accel__tensor x, accel__tensor map,
                            int64_t c, int n) {
  accel__program *p = b->p;
  map = square_conv(b, map, c, 1, accel__arena_printf(b->arena, "adapter%d", n));
  if (map < 0) return -1;
  accel__dim h = accel__tensor_dim(p, map, 2), w = accel__tensor_dim(p, map, 3),
             all = accel__tensor_dim(p, x, 0), channels = accel__const_dim(p, c);
  int64_t shape[2] = {h, w};
  accel__attr attr[] = {ACCEL_I(KIND, ACCEL_PLUGIN_RESIZE_NEAREST), ACCEL_D(SHAPE, shape, 2)};
  x = accel__node(p, ACCEL_PLUGIN_OP_RESIZE, &x, 1, attr, 2, NULL, 1);
  x = accel__reshape(p, x, 5,
                     (accel__dim[]){b->B, accel__const_dim(p, m->queries), channels, h, w});
  map = accel__reshape(p, map, 5, (accel__dim[]){b->B, accel__const_dim(p, 1), channels, h, w});
  x = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, x, map);
  return accel__reshape(p, x, 4, (accel__dim[]){all, channels, h, w});
}

/* A mask for each query: x [B*queries, hidden] -> [B, queries, H, W], the size of the first map of
 * the backbone. */
static accel__tensor masks(accel__build *b, const detr *m, accel__tensor x) {
  accel__program *p = b->p;
  accel__dim queries = accel__const_dim(p, m->queries), c = accel__const_dim(p, m->hidden),
             one = accel__const_dim(p, 1), all = accel__times(b, b->B, queries);
  accel__tensor y = accel__reshape(p, m->projected, 5, (accel__dim[]){b->B, one, c, m->h, m->w});
  y = accel__broadcast(b, y, 5, (accel__dim[]){b->B, queries, c, m->h, m->w});
  y = accel__reshape(p, y, 4, (accel__dim[]){all, c, m->h, m->w});
  y = accel__concat(b, 1, 2, (accel__tensor[]){y, looks(b, m, x)});
  y = refined(b, m, y, m->hidden + m->enc_heads, 1);
  y = refined(b, m, y, m->hidden / 2, 2);
  for (int i = 0; i < 3; i++) {
    y = joined(b, m, y, m->maps[m->backbone.asked[2 - i]], m->hidden >> (i + 1), i + 1);
    y = refined(b, m, y, m->hidden >> (i + 2), i + 3);
  }
  y = square_conv(b, y, 1, 3, "out_lay");
  if (y < 0) return -1;
  return accel__reshape(
      p, y, 4,
      (accel__dim[]){b->B, queries, accel__tensor_dim(p, y, 2), accel__tensor_dim(p, y, 3)});
}

static accel_status check_masks(const accel__build *b, const detr *m) {
  if (m->backbone.n_asked < 3)
    return accel__refuse(
        b, "field 'backbone_config.out_features': %s needs three feature maps at least",
        b->model->architecture);
  if ((m->hidden + m->enc_heads) % 8 != 0 || m->hidden % 16 != 0)
    return accel__refuse(b, "field 'd_model': with %lld and %lld heads there are no masks",
                         (long long)m->hidden, (long long)m->enc_heads);
  return ACCEL_OK;
}

static const char *const unread[] = {"decoder_attention_mask", NULL};

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  const bool segments = strcmp(architecture, "DetrForSegmentation") == 0;
  ACCEL_TRY(
      accel__build_begin(&b, request, architecture, model, segments ? "detr.model." : "model."));
  detr *m = accel__arena_alloc(b.arena, sizeof *m);
  if (m == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(read_config(&b, m));
  if (segments) ACCEL_TRY(check_masks(&b, m));
  if (m->pre_norm) model->unread = unread;
  encoder(&b, m, embed(&b, m));
  accel__tensor x = decoder(&b, m);
  accel__dim queries = accel__const_dim(b.p, m->queries);
  if (!b.is_base) {
    b.in_head = true;
    b.scope = segments ? "detr." : NULL;
    accel__tensor logits =
        accel__dense_layer(&b, x, model->num_labels + 1, true, -1, NULL, "class_labels_classifier");
    accel__tensor boxes =
        accel__unary(b.p, ACCEL_PLUGIN_ACT_SIGMOID, accel__mlp_head(&b, x, 4, "bbox_predictor"));
    b.scope = NULL;
    accel__output_items(&b, "logits", logits, queries, false);
    accel__output_items(&b, "pred_boxes", boxes, queries, false);
    if (segments) accel__add_output(&b, "pred_masks", masks(&b, m, x), 0);
  }
  accel__output_items(&b, "last_hidden_state", x, queries, false);
  accel__output_items(&b, "encoder_last_hidden_state", m->encoded, m->rows, false);
  if (b.is_base && m->intermediate >= 0)
    accel__add_output(&b, "intermediate_hidden_states", m->intermediate, 0);
  return accel__build_end(&b, x);
}

static const char *const classes[] = {"DetrModel", "DetrForObjectDetection", "DetrForSegmentation",
                                      NULL};
const accel__architecture accel__model_detr = {
    .model_type = "detr", .classes = classes, .build = build};
static const char *const table_classes[] = {"TableTransformerModel",
                                            "TableTransformerForObjectDetection", NULL};
const accel__architecture accel__model_table_transformer = {
    .model_type = "table-transformer", .classes = table_classes, .build = build};
