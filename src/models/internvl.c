/* internvl.c - InternVL (transformers' InternVLModel and its ForConditionalGeneration): a ViT
 * with layer scale over tiles of pictures, 1/downsample_ratio x 1/downsample_ratio patches of
 * which become one row of the text. */
#include <math.h>
#include <string.h>

#include "models/language_model.h"
#include "modeling/vision.h"

typedef struct internvl {
  accel__language text;
  int64_t image_token, channels, layers, layer; /* layer: whose rows are taken, 0 .. layers */
  int64_t joined;                               /* patches to a side that become one row */
  accel__size2 image, patch;
  bool positions, last, norm; /* last: behind the norm, where there is one */
  accel__block block;
  accel__activation act;
  accel__image_tokens image_tokens;
  accel__tensor features; /* rows [tiles * side^2 / joined^2, hidden of the text] */
} internvl;

/* ---- config ---- */

static accel_status read_vision(accel__build *b, internvl *m) {
  const char *type = "internvl_vision", *norm = "layer_norm";
  int64_t heads = 16, width = 1024;
  bool qk_norm = false, mean = true;
  m->block = (accel__block){.q = "attention.q_proj",
                            .k = "attention.k_proj",
                            .v = "attention.v_proj",
                            .o = "attention.projection_layer",
                            .norm1 = "layernorm_before",
                            .norm2 = "layernorm_after",
                            .up = "mlp.fc1",
                            .down = "mlp.fc2",
                            .scale1 = "lambda_1",
                            .scale2 = "lambda_2",
                            .inner = 4096,
                            .eps = 1e-6,
                            .o_bias = true,
                            .act = {.act = ACCEL_PLUGIN_ACT_GELU}};
  m->channels = 3;
  m->layers = 24;
  m->positions = true;
  m->image = (accel__size2){448, 448};
  m->patch = (accel__size2){14, 14};
  ACCEL_TRY(accel__enter_config(b, "vision_config"));
  const accel__field fields[] = {
      ACCEL_FIELD_STRING("model_type", &type),
      ACCEL_FIELD_STRING("norm_type", &norm),
      ACCEL_FIELD_INT("hidden_size", &width, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_hidden_layers", &m->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("num_attention_heads", &heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("intermediate_size", &m->block.inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_channels", &m->channels, 1, 64),
      ACCEL_FIELD_NUMBER("layer_norm_eps", &m->block.eps),
      ACCEL_FIELD_BOOL("attention_bias", &m->block.qkv_bias),
      ACCEL_FIELD_BOOL("use_qk_norm", &qk_norm),
      ACCEL_FIELD_BOOL("use_mean_pooling", &mean),
      ACCEL_FIELD_BOOL("use_absolute_position_embeddings", &m->positions),
      ACCEL_FIELD_ACT("hidden_act", &m->block.act)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__read_size2(b, "image_size", 1, ACCEL__MAX_WIDTH, &m->image));
  ACCEL_TRY(accel__read_size2(b, "patch_size", 1, ACCEL__MAX_WIDTH, &m->patch));
  ACCEL_TRY(accel__divides(b, "num_attention_heads", heads, "hidden_size", width));
  if (strcmp(type, "internvl_vision") != 0)
    return accel__refuse(
        b, "field 'vision_config.model_type': '%s' is not supported; known: internvl_vision", type);
  m->block.rms = strcmp(norm, "rms_norm") == 0;
  if (!m->block.rms && strcmp(norm, "layer_norm") != 0)
    return accel__refuse(
        b, "field 'vision_config.norm_type': '%s' is not supported; known: layer_norm, rms_norm",
        norm);
  if (m->image.h != m->image.w || m->patch.h != m->patch.w || m->image.h < m->patch.h)
    return accel__refuse(
        b, "fields 'image_size' and 'patch_size' of vision_config: only squares are supported");
  if (qk_norm) {
    m->block.q_norm = "attention.q_norm";
    m->block.k_norm = "attention.k_norm";
  }
  m->block.hidden = width;
  m->block.heads = heads;
  m->norm = !mean;
  return ACCEL_OK;
}

static accel_status read_features(accel__build *b, internvl *m) {
  const char *strategy = "default";
  double ratio = 0.5;
  m->layer = -1;
  const accel__field fields[] = {
      ACCEL_FIELD_NUMBER("downsample_ratio", &ratio),
      ACCEL_FIELD_INT("vision_feature_layer", &m->layer, -ACCEL__MAX_LAYERS, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_STRING("vision_feature_select_strategy", &strategy),
      ACCEL_FIELD_ACT("projector_hidden_act", &m->act)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  if (strcmp(strategy, "default") != 0)
    return accel__refuse(
        b, "field 'vision_feature_select_strategy': '%s' is not supported; known: default",
        strategy);
  m->joined = ratio > 0 && ratio <= 1 ? (int64_t)nearbyint(1.0 / ratio) : 0;
  if (m->joined < 1 || m->joined > 64 || 1.0 / (double)m->joined != ratio)
    return accel__refuse(b, "field 'downsample_ratio': %g is not 1, 1/2, 1/3 ..", ratio);
  m->last = m->layer == -1;
  if (m->layer < 0) m->layer += m->layers + 1;
  if (m->layer < 0 || m->layer > m->layers)
    return accel__refuse(b, "field 'vision_feature_layer' names a layer that is not there");
  return ACCEL_OK;
}

/* Rows of a tile of pixel_values [tiles, C, side, side]. */
static accel_status tile_rows(const void *user, const int64_t *dim, uint32_t rank,
                              const int64_t *size, int64_t *out) {
  const internvl *m = user;
  (void)size;
  if (rank != 4)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "pixel_values has rank %u, expected 4", rank);
  const int64_t side = dim[2] / m->patch.h / m->joined;
  *out = side * side;
  return ACCEL_OK;
}

static accel_status read_config(accel__build *b, internvl *m) {
  const char *type = "qwen2";
  bool tied = true;
  m->image_token = 151667;
  m->act = (accel__activation){.act = ACCEL_PLUGIN_ACT_GELU};
  ACCEL_TRY(read_vision(b, m));
  ACCEL_TRY(accel__enter_config(b, "text_config"));
  ACCEL_TRY(accel__json_string(b->file, b->config, "model_type", &type));
  ACCEL_TRY(accel__language_read(b, type, &m->text));
  ACCEL_TRY(accel__enter_config(b, NULL));
  ACCEL_TRY(
      accel__json_int(b->file, b->config, "image_token_id", 0, ACCEL__MAX_VOCAB, &m->image_token));
  ACCEL_TRY(accel__json_bool(b->file, b->config, "tie_word_embeddings", &tied));
  accel__language_tie(&m->text, tied);
  b->model->hidden_size = m->text.hidden;
  m->image_tokens = (accel__image_tokens){.token = m->image_token,
                                          .video_token = -1,
                                          .style = ACCEL__PICTURE_INTERNVL,
                                          .sizes = "image_sizes",
                                          .width = 2,
                                          .rows = tile_rows,
                                          .user = m};
  b->model->image_tokens = &m->image_tokens;
  return read_features(b, m);
}

/* ---- the tower ---- */

/* pixel_values to rows with positions, the class row in front; *per_item: rows of a tile. */
static accel__tensor patches(accel__build *b, const internvl *m, accel__dim side,
                             accel__dim *per_item) {
  accel__program *p = b->p;
  const int64_t c = m->block.hidden, table = m->image.h / m->patch.h, one[3] = {1, 1, c},
                dims[3] = {1, table * table + 1, c};
  accel__dim pixels = accel__times(b, side, accel__const_dim(p, m->patch.h));
  b->B = accel__symbol(p, "images", 1, 0, 1);
  accel__tensor x =
      accel__add_item(b, "pixel_values", ACCEL_PLUGIN_F32, 4,
                      (accel__dim[]){b->B, accel__const_dim(p, m->channels), pixels, pixels},
                      ACCEL__DEFAULT_REQUIRED);
  accel__at(p, 0, "vision_tower.embeddings");
  x = accel__conv2d(b, x,
                    &(accel__conv){.out = c, .kernel = m->patch, .stride = m->patch, .bias = true},
                    "embeddings.patch_embeddings.projection");
  if (x < 0) return -1;
  accel__dim h = accel__tensor_dim(p, x, 2), w = accel__tensor_dim(p, x, 3);
  accel__tensor token = accel__repeat(b, accel__table(b, 3, one, "embeddings.cls_token"), b->B);
  x = accel__concat(b, 1, 2, (accel__tensor[]){token, accel__planes_to_items(b, x)});
  if (m->positions) {
    const accel__grid_table grid = {
        .table = accel__table(b, 3, dims, "embeddings.position_embeddings"),
        .before = 1,
        .grid = {table, table}};
    x = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, x, accel__resize_grid(b, &grid, h, w));
  }
  if (x < 0) return -1;
  *per_item = accel__tensor_dim(p, x, 1);
  return accel__items_to_rows(b, x, "patches");
}

static accel__tensor look(accel__build *b, void *user) {
  internvl *m = user;
  accel__program *p = b->p;
  accel__dim groups =
      accel__symbol(p, "groups", 1, ACCEL__MAX_WIDTH, m->image.h / m->patch.h / m->joined);
  accel__dim side = accel__times(b, groups, accel__const_dim(p, m->joined)), per_item = 0;
  b->scope = "vision_tower.vision_model.";
  accel__tensor x = patches(b, m, side, &per_item);
  for (uint32_t i = 0; i < (uint32_t)m->layer; i++) {
    accel__at(p, 0, "vision_tower.layers.%u", i);
    x = accel__pre_norm_block(b, &m->block, x, "encoder.layer.%u", i);
  }
  if (m->last && m->norm) x = accel__norm_layer(b, x, -1, m->block.eps, true, "layernorm");
  b->scope = NULL;
  accel__at(p, 0, "embeddings");
  x = accel__slice(p, accel__rows_to_items(b, x, per_item), 1, 1, INT64_MAX);
  x = accel__join_patches(b, x, b->B, groups, m->joined);
  x = accel__norm_layer(b, x, -1, ACCEL__TORCH_NORM_EPS, true, "multi_modal_projector.layer_norm");
  x = accel__dense_layer(b, x, m->text.hidden, true, -1, &m->act, "multi_modal_projector.linear_1");
  x = accel__dense_layer(b, x, m->text.hidden, true, -1, NULL, "multi_modal_projector.linear_2");
  accel__add_output(b, "image_hidden_states", x, 0);
  return accel__reshape(p, x, 2,
                        (accel__dim[]){accel__times(b, b->B, accel__times(b, groups, groups)),
                                       accel__const_dim(p, m->text.hidden)});
}

static accel__tensor merge_images(accel__build *b, void *user, accel__tensor x) {
  internvl *m = user;
  return accel__show_rows(b, x, &m->features, m->image_token, look, m);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "language_model.model."));
  internvl *m = accel__arena_alloc(b.arena, sizeof *m);
  if (m == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  m->features = -1;
  accel__language_spellings(&b);
  ACCEL_TRY(read_config(&b, m));
  b.images.merge = merge_images;
  b.images.merge_user = m;
  return accel__language_build(&b, &m->text);
}

static const char *const classes[] = {"InternVLModel", "InternVLForConditionalGeneration", NULL};
const accel__architecture accel__model_internvl = {
    .model_type = "internvl", .classes = classes, .build = build};
