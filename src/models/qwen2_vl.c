/* qwen2_vl.c - Qwen2-VL and Qwen2.5-VL (transformers' Qwen2VLModel, Qwen2_5_VLModel and their
 * ForConditionalGeneration): a tower over the patches of pictures of any size, of which `merge` x
 * `merge` neighbours become one row of the text, and Qwen2 whose positions have three parts: time,
 * height and width (M-RoPE).  In most layers of Qwen2.5-VL's tower patches look no further than a
 * window: it runs over the rows in the order of their windows. */
#include <string.h>

#include "modeling/decoder.h"
#include "models/patch_grid.h"

typedef struct qwen2_vl {
  accel__decoder *text;
  accel__patch_grid grid;
  int64_t width, channels, patch, temporal, layers; /* of the tower */
  /* rows of the text to a side of a window; 0: there are none */
  int64_t window;
  /* layers that see whole frames all the same */
  bool whole[ACCEL__MAX_LAYERS];
  accel__block block;
  accel__rope rope;
  accel__derived lengths, positions, window_lengths, window_order;
  accel__image_tokens image_tokens;
  accel__tensor features; /* rows [patches / merge^2, hidden of the text] */
} qwen2_vl;

static const accel__rename hub[] = {{"model.language_model.", "model."}, {NULL, NULL}};
static const accel__rename base[] = {{"model.language_model.", "language_model."}, {NULL, NULL}};
static const accel__rename tower[] = {{"visual.", "model.visual."}, {NULL, NULL}};

/* ---- config ---- */

static const accel__decoder text_defaults = {.vocab = 152064,
                                             .hidden = 8192,
                                             .layers = 80,
                                             .heads = 64,
                                             .kv_heads = 8,
                                             .inner = 29568,
                                             .positions = 32768,
                                             .eps = 1e-5,
                                             .theta = 1000000.0,
                                             .bos = 151643,
                                             .eos = 151645,
                                             .pad = -1,
                                             .window = 4096,
                                             .qkv_bias = true,
                                             .mrope = true,
                                             .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

/* text_config, or the fields beside it in files of the hub, which have none. */
static accel_status read_text(accel__build *b, const char *family, accel__decoder *c) {
  static const int64_t usual[3] = {16, 24, 24};
  const char *type = NULL;
  bool tied = false;
  *c = text_defaults;
  ACCEL_TRY(accel__enter_config(
      b, accel__json_get(b->file->root, "text_config") != NULL ? "text_config" : NULL));
  ACCEL_TRY(accel__json_string(b->file, b->config, "model_type", &type));
  ACCEL_TRY(accel__patch_grid_type(b, "text_config.model_type", type, family, "text"));
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__decoder_read_upper_window(b, c, 80));
  ACCEL_TRY(accel__decoder_read_rope(b, c));
  if (c->rope[0].length > 0)
    return accel__refuse(
        b, "rope types that change with the length of the text are not supported with M-RoPE");
  if (c->rope[0].n_sections == 0) ACCEL_TRY(accel__rope_divide(b, usual, 3, &c->rope[0]));
  ACCEL_TRY(accel__enter_config(b, NULL));
  ACCEL_TRY(accel__json_bool(b->file, b->config, "tie_word_embeddings", &tied));
  c->tied |= tied;
  return ACCEL_OK;
}

/* fullatt_block_indexes. */
static accel_status read_whole(accel__build *b, qwen2_vl *m) {
  static const int64_t usual[4] = {7, 15, 23, 31};
  const accel__json *list = NULL;
  ACCEL_TRY(accel__json_array(b->file, b->config, "fullatt_block_indexes", &list));
  for (int i = 0; list == NULL && i < 4; i++) m->whole[usual[i]] = true;
  ACCEL_JSON_EACH(item, list) {
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble < ACCEL__MAX_LAYERS))
      return accel__refuse(b,
                           "field 'vision_config.fullatt_block_indexes' must be a list of layers");
    m->whole[(size_t)item->valuedouble] = true;
  }
  return ACCEL_OK;
}

static accel_status read_plain(accel__build *b, qwen2_vl *m, int64_t *out) {
  double ratio = 4;
  m->width = 1280;
  m->block = (accel__block){
      .up = "mlp.fc1", .down = "mlp.fc2", .act = {.act = ACCEL_PLUGIN_ACT_GELU_QUICK}};
  const accel__field fields[] = {ACCEL_FIELD_INT("embed_dim", &m->width, 1, ACCEL__MAX_WIDTH),
                                 ACCEL_FIELD_INT("hidden_size", out, 1, ACCEL__MAX_WIDTH),
                                 ACCEL_FIELD_NUMBER("mlp_ratio", &ratio),
                                 ACCEL_FIELD_ACT("hidden_act", &m->block.act)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  if (!(ratio * (double)m->width >= 1 && ratio * (double)m->width <= ACCEL__MAX_WIDTH))
    return accel__refuse(b, "field 'vision_config.mlp_ratio' is out of range");
  m->block.inner = (int64_t)(ratio * (double)m->width);
  return ACCEL_OK;
}

/* Qwen2.5-VL: hidden_size is the tower's own, the MLP has a gate, norms have no offset. */
static accel_status read_windowed(accel__build *b, qwen2_vl *m, int64_t *out) {
  int64_t window = 112, per_second = 4;
  m->width = 3584;
  m->block = (accel__block){.gate = "mlp.gate_proj",
                            .up = "mlp.up_proj",
                            .down = "mlp.down_proj",
                            .inner = 3420,
                            .rms = true,
                            .act = {.act = ACCEL_PLUGIN_ACT_SILU}};
  const accel__field fields[] = {
      ACCEL_FIELD_INT("hidden_size", &m->width, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("out_hidden_size", out, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("intermediate_size", &m->block.inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("window_size", &window, 1, 1 << 20),
      ACCEL_FIELD_INT("tokens_per_second", &per_second, 1, 1 << 20),
      ACCEL_FIELD_ACT("hidden_act", &m->block.act)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  m->grid.time_scale = (double)per_second;
  m->window = window / m->grid.merge / m->patch;
  if (m->window < 1)
    return accel__refuse(
        b, "field 'vision_config.window_size': %lld is less than spatial_merge_size * patch_size",
        (long long)window);
  return read_whole(b, m);
}

static accel_status read_tower(accel__build *b, const char *family, bool windows, qwen2_vl *m) {
  int64_t heads = 16, out = 3584;
  const char *type = NULL;
  m->layers = 32;
  m->channels = 3;
  m->patch = 14;
  m->temporal = m->grid.merge = 2;
  ACCEL_TRY(accel__enter_config(b, "vision_config"));
  const accel__field fields[] = {
      ACCEL_FIELD_STRING("model_type", &type),
      ACCEL_FIELD_INT("num_hidden_layers", &m->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("depth", &m->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("num_attention_heads", &heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_heads", &heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("in_channels", &m->channels, 1, 64),
      ACCEL_FIELD_INT("patch_size", &m->patch, 1, 256),
      ACCEL_FIELD_INT("temporal_patch_size", &m->temporal, 1, 64),
      ACCEL_FIELD_INT("spatial_merge_size", &m->grid.merge, 1, 64)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__patch_grid_type(b, "vision_config.model_type", type, family, "vision"));
  ACCEL_TRY(windows ? read_windowed(b, m, &out) : read_plain(b, m, &out));
  ACCEL_TRY(accel__divides(b, "vision_config.num_heads", heads,
                           windows ? "vision_config.hidden_size" : "vision_config.embed_dim",
                           m->width));
  if (out != m->text->hidden)
    return accel__refuse(b, "field 'vision_config.%s' is %lld, but the text has hidden_size %lld",
                         windows ? "out_hidden_size" : "hidden_size", (long long)out,
                         (long long)m->text->hidden);
  m->block.q = "attn.qkv";
  m->block.o = "attn.proj";
  m->block.norm1 = "norm1";
  m->block.norm2 = "norm2";
  m->block.hidden = m->width;
  m->block.heads = heads;
  m->block.eps = 1e-6;
  m->block.qkv_bias = m->block.o_bias = true;
  m->block.rope = &m->rope;
  return accel__patch_grid_rope(b, m->width / heads, &m->rope);
}

/* Row numbers of a frame of h lines of w rows, of which `first` is the number of the first one. */
typedef struct frame_rows {
  int64_t first, h, w;
} frame_rows;

/* The rows of the window whose upper left corner is (top, left): their numbers line by line into
 * *order, unless that is NULL.  Returns how many they are; at the edges windows are smaller. */
static int64_t list_window(const frame_rows *f, int64_t side, int64_t top, int64_t left,
                           int32_t **order) {
  const int64_t bottom = top + side < f->h ? top + side : f->h,
                right = left + side < f->w ? left + side : f->w;
  for (int64_t y = top; *order != NULL && y < bottom; y++)
    for (int64_t x = left; x < right; x++) *(*order)++ = (int32_t)(f->first + y * f->w + x);
  return (bottom - top) * (right - left);
}

/* The windows of one frame, line by line.  Returns how many they are. */
static int64_t list_windows(const qwen2_vl *m, const frame_rows *f, int32_t **order,
                            int32_t **length) {
  int64_t windows = 0;
  for (int64_t top = 0; top < f->h; top += m->window)
    for (int64_t left = 0; left < f->w; left += m->window, windows++) {
      const int64_t rows = list_window(f, m->window, top, left, order);
      if (*length != NULL) *(*length)++ = (int32_t)(rows * m->grid.merge * m->grid.merge);
    }
  return windows;
}

/* Rows of the text in the order of their windows, which lie line by line in each frame; order[rows]
 * and length[windows] may be NULL.  Returns the number of windows. */
static int64_t order_windows(const qwen2_vl *m, const int64_t *values, uint64_t n, int32_t *order,
                             int32_t *length) {
  int64_t windows = 0;
  frame_rows f = {0};
  for (uint64_t i = 0; i < n / 3; i++) {
    f.h = values[3 * i + 1] / m->grid.merge;
    f.w = values[3 * i + 2] / m->grid.merge;
    for (int64_t t = 0; t < values[3 * i]; t++, f.first += f.h * f.w)
      windows += list_windows(m, &f, &order, &length);
  }
  return windows;
}

/* [windows]: patches of each. */
static accel_status window_lengths(const void *user, const int64_t *values, uint64_t n,
                                   const int64_t *dim, uint32_t rank, accel__arena *arena,
                                   int32_t **out, int64_t *n_out) {
  const qwen2_vl *m = user;
  int64_t frames, patches;
  ACCEL_TRY(accel__patch_grid_count(&m->grid, values, n, dim, rank, &frames, &patches));
  *n_out = order_windows(m, values, n, NULL, NULL);
  if ((*out = accel__arena_array(arena, (size_t)*n_out, sizeof **out)) == NULL)
    return ACCEL_ERROR_OUT_OF_MEMORY;
  order_windows(m, values, n, NULL, *out);
  return ACCEL_OK;
}

/* [patches / merge^2] */
static accel_status window_order(const void *user, const int64_t *values, uint64_t n,
                                 const int64_t *dim, uint32_t rank, accel__arena *arena,
                                 int32_t **out, int64_t *n_out) {
  const qwen2_vl *m = user;
  int64_t frames, patches;
  ACCEL_TRY(accel__patch_grid_count(&m->grid, values, n, dim, rank, &frames, &patches));
  *n_out = patches / (m->grid.merge * m->grid.merge);
  if ((*out = accel__arena_array(arena, (size_t)*n_out, sizeof **out)) == NULL)
    return ACCEL_ERROR_OUT_OF_MEMORY;
  order_windows(m, values, n, *out, NULL);
  return ACCEL_OK;
}

/* [3, patches]: row and column of each patch, and zeros, in the order of the windows. */
static accel_status window_positions(const void *user, const int64_t *values, uint64_t n,
                                     const int64_t *dim, uint32_t rank, accel__arena *arena,
                                     int32_t **out, int64_t *n_out) {
  const qwen2_vl *m = user;
  const int64_t each = m->grid.merge * m->grid.merge;
  int64_t frames, patches;
  ACCEL_TRY(accel__patch_grid_count(&m->grid, values, n, dim, rank, &frames, &patches));
  *n_out = 3 * patches;
  int32_t *at = *out = accel__arena_array(arena, (size_t)*n_out, sizeof *at);
  int32_t *natural = accel__arena_array(arena, (size_t)*n_out, sizeof *natural);
  if (at == NULL || natural == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel__patch_grid_places(&m->grid, values, n, natural, natural + patches);
  memset(at + 2 * patches, 0, (size_t)patches * sizeof *at);
  int32_t *order = natural + 2 * patches; /* [patches / each] */
  order_windows(m, values, n, order, NULL);
  for (int64_t k = 0; k < patches; k++) {
    at[k] = natural[order[k / each] * each + k % each];
    at[patches + k] = natural[patches + order[k / each] * each + k % each];
  }
  return ACCEL_OK;
}

/* ---- the tower ---- */

/* [patches, width]: groups of rows that merge, in another order. */
static accel__tensor reorder(accel__build *b, const qwen2_vl *m, accel__tensor x, accel__dim merged,
                             accel__tensor order) {
  if (x < 0) return -1;
  accel__dim dims[2] = {accel__tensor_dim(b->p, x, 0), accel__const_dim(b->p, m->width)};
  x = accel__reshape(
      b->p, x, 2,
      (accel__dim[]){merged, accel__const_dim(b->p, m->grid.merge * m->grid.merge * m->width)});
  return accel__reshape(b->p, accel__gather(b->p, x, order), 2, dims);
}

/* Neighbours side by side, then projected: [patches, width] -> [merged, hidden of the text]. */
static accel__tensor merge(accel__build *b, const qwen2_vl *m, accel__tensor x, accel__dim merged) {
  const int64_t columns = m->grid.merge * m->grid.merge * m->width;
  x = m->block.rms ? accel__rms_layer(b, x, m->block.eps, 0.0, "merger.ln_q")
                   : accel__norm_layer(b, x, -1, m->block.eps, true, "merger.ln_q");
  x = accel__reshape(b->p, x, 2, (accel__dim[]){merged, accel__const_dim(b->p, columns)});
  x = accel__dense_layer(b, x, columns, true, -1,
                         &(accel__activation){.act = ACCEL_PLUGIN_ACT_GELU}, "merger.mlp.0");
  return accel__dense_layer(b, x, m->text->hidden, true, -1, NULL, "merger.mlp.2");
}

static accel__tensor look(accel__build *b, void *user) {
  qwen2_vl *m = user;
  accel__program *p = b->p;
  accel__dim merged;
  int32_t whole;
  accel__tensor order = -1;
  accel__tensor x =
      accel__patch_grid_inputs(b, &m->grid, m->channels * m->temporal * m->patch * m->patch,
                               &m->lengths, &m->positions, &merged, &whole);
  accel__dim patches = accel__times(b, merged, accel__const_dim(p, m->grid.merge * m->grid.merge));
  int32_t near = whole;
  b->scope = "visual.";
  /* [patches, width] */
  x = accel__dense_layer(b, x, m->width, false, -1, NULL, "patch_embed.proj");
  if (m->window > 0) {
    accel__dim windows = accel__symbol(p, "windows", 1, 0, 16);
    accel__tensor lengths =
        accel__add_derived(b, "window_lengths", 1, &windows, &m->window_lengths);
    near = accel__space_ragged(p, "windows", lengths, patches, windows);
    order = accel__add_derived(b, "window_order", 1, &merged, &m->window_order);
    x = reorder(b, m, x, merged, order);
  }
  for (uint32_t i = 0; i < (uint32_t)m->layers; i++) {
    accel__at(p, 0, "visual.blocks.%u", i);
    b->space = m->whole[i] ? whole : near;
    x = accel__pre_norm_block(b, &m->block, x, "blocks.%u", i);
  }
  accel__at(p, 0, "visual.merger");
  x = merge(b, m, x, merged);
  accel__attr set = ACCEL_I(SCATTER_MODE, 0);
  if (order >= 0) /* row k becomes row order[k]: back to where the pictures have them */
    x = accel__node(p, ACCEL_PLUGIN_OP_SCATTER_ROWS, (accel__tensor[]){x, order, x}, 3, &set, 1,
                    NULL, 1);
  b->scope = NULL;
  accel__at(p, 0, "embeddings");
  return x;
}

static accel__tensor merge_images(accel__build *b, void *user, accel__tensor x) {
  qwen2_vl *m = user;
  return accel__show_rows(b, x, &m->features, m->grid.image_token, look, m);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  const bool windows = strncmp(architecture, "Qwen2_5_VL", 10) == 0;
  const char *family = windows ? "qwen2_5_vl" : "qwen2_vl";
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "model.language_model."));
  qwen2_vl *m = accel__arena_alloc(b.arena, sizeof *m);
  if (m == NULL || (m->text = accel__arena_alloc(b.arena, sizeof *m->text)) == NULL)
    return ACCEL_ERROR_OUT_OF_MEMORY;
  m->features = -1;
  m->grid.image_token = 151655;
  m->grid.video_token = 151656;
  b.spelling[0] = hub;
  b.spelling[1] = base;
  b.spelling[2] = tower;
  ACCEL_TRY(read_text(&b, family, m->text));
  ACCEL_TRY(read_tower(&b, family, windows, m));
  ACCEL_TRY(accel__enter_config(&b, NULL));
  const accel__field fields[] = {
      ACCEL_FIELD_INT("image_token_id", &m->grid.image_token, 0, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("video_token_id", &m->grid.video_token, 0, ACCEL__MAX_VOCAB)};
  ACCEL_TRY(accel__read_fields(&b, fields, sizeof fields / sizeof *fields));
  m->lengths = m->positions = m->window_lengths = m->window_order =
      (accel__derived){.from = "image_grid_thw", .shape_of = "pixel_values", .user = m};
  m->lengths.user = m->positions.user = &m->grid;
  m->lengths.make = accel__patch_grid_frames;
  m->positions.make = accel__patch_grid_positions;
  if (m->window > 0) {
    m->positions.user = m;
    m->positions.make = window_positions;
  }
  m->positions.lines = 3;
  m->window_lengths.make = window_lengths;
  m->window_order.make = window_order;
  m->image_tokens = accel__patch_grid_tokens(&m->grid);
  model->image_tokens = &m->image_tokens;
  b.images.merge = merge_images;
  b.images.merge_user = m;
  return accel__decoder_build(&b, m->text);
}

static const char *const classes[] = {"Qwen2VLModel", "Qwen2VLForConditionalGeneration", NULL};
const accel__architecture accel__model_qwen2_vl = {
    .model_type = "qwen2_vl", .classes = classes, .build = build};
static const char *const windowed_classes[] = {"Qwen2_5_VLModel",
                                               "Qwen2_5_VLForConditionalGeneration", NULL};
const accel__architecture accel__model_qwen2_5_vl = {
    .model_type = "qwen2_5_vl", .classes = windowed_classes, .build = build};
