/* llava.c - LLaVA and LLaVA-Next (transformers' LlavaModel, LlavaNextModel and their
 * ForConditionalGeneration): a CLIP or SigLIP tower whose patches, projected, stand where the text
 * has its image tokens.  LLaVA-Next cuts a picture into tiles behind a small whole one, and puts a
 * learned row behind each line of the joined map. */
#include <math.h>
#include <string.h>

#include "models/clip.h"
#include "models/language_model.h"

enum { MAX_PICKED = 16, MAX_PINS = 64 };

/* What the rule of image_rows needs. */
typedef struct tiling {
  /* pixels and patches of a tile to a side; resolutions [height, width] */
  int64_t tile, side, n, pin[MAX_PINS][2];
} tiling;

typedef struct llava {
  accel__clip_tower vision;
  accel__language text;
  int64_t image_token, picked[MAX_PICKED], n_picked; /* hidden states taken, 0 .. layers */
  bool siglip, full, bias, next;
  tiling tiles;
  accel__derived rule;
  accel__image_tokens image_tokens;
  accel__activation act;
  accel__tensor features; /* rows [images*patches, hidden of the text] */
} llava;

/* vision_feature_layer: one index or several, negative ones from the end. */
static accel_status read_layers(accel__build *b, llava *m) {
  const accel__json *field = accel__json_get(b->config, "vision_feature_layer"), *list = NULL;
  m->n_picked = 1;
  m->picked[0] = -2;
  if (field != NULL && cJSON_IsArray(field)) {
    ACCEL_TRY(accel__json_array(b->file, b->config, "vision_feature_layer", &list));
    m->n_picked = cJSON_GetArraySize(list);
    if (m->n_picked < 1 || m->n_picked > MAX_PICKED)
      return accel__refuse(b, "field 'vision_feature_layer' has %lld entries",
                           (long long)m->n_picked);
    ACCEL_TRY(accel__read_ints(b, "vision_feature_layer", m->n_picked, -ACCEL__MAX_LAYERS,
                               ACCEL__MAX_LAYERS, m->picked));
  } else {
    ACCEL_TRY(accel__json_int(b->file, b->config, "vision_feature_layer", -ACCEL__MAX_LAYERS,
                              ACCEL__MAX_LAYERS, &m->picked[0]));
  }
  for (int64_t i = 0; i < m->n_picked; i++) {
    if (m->picked[i] < 0) m->picked[i] += m->vision.layers + 1;
    if (m->picked[i] < 0 || m->picked[i] > m->vision.layers)
      return accel__refuse(b, "field 'vision_feature_layer' names a layer that is not there");
  }
  return ACCEL_OK;
}

static accel_status read_vision(accel__build *b, llava *m) {
  const char *type = NULL;
  ACCEL_TRY(accel__enter_config(b, "vision_config"));
  ACCEL_TRY(accel__json_string(b->file, b->config, "model_type", &type));
  m->siglip = type != NULL && strcmp(type, "siglip_vision_model") == 0;
  if (type != NULL && !m->siglip && strcmp(type, "clip_vision_model") != 0)
    return accel__refuse(b,
                         "field 'vision_config.model_type': '%s' is not supported; known: "
                         "clip_vision_model, siglip_vision_model",
                         type);
  const accel__activation act = {.act = m->siglip ? ACCEL_PLUGIN_ACT_GELU_TANH
                                                  : ACCEL_PLUGIN_ACT_GELU_QUICK};
  m->vision = (accel__clip_tower){.hidden = 768,
                                  .layers = 12,
                                  .heads = 12,
                                  .inner = 3072,
                                  .channels = 3,
                                  .image = {224, 224},
                                  .patch = {m->siglip ? 16 : 32, m->siglip ? 16 : 32},
                                  .eps = m->siglip ? 1e-6 : 1e-5,
                                  .act = act};
  /* as the class fills in what is missing */
  if (type == NULL && accel__json_get(b->file->root, "vision_config") == NULL) {
    m->vision.hidden = 1024;
    m->vision.layers = 24;
    m->vision.heads = 16;
    m->vision.inner = 4096;
    m->vision.image = (accel__size2){336, 336};
    m->vision.patch = (accel__size2){14, 14};
  }
  return accel__clip_read(b, &m->vision);
}

/* ---- LLaVA-Next: which rows of the tiles show, in which order ---- */

/* The resolution that keeps most of a picture and wastes least, as the image processor chooses
 * it. */
static const int64_t *best_resolution(const tiling *t, int64_t h, int64_t w) {
  const int64_t *best = NULL;
  int64_t kept = 0, wasted = INT64_MAX;
  for (int64_t i = 0; i < t->n; i++) {
    const int64_t *pin = t->pin[i];
    const double wide = (double)pin[1] / (double)w, tall = (double)pin[0] / (double)h,
                 scale = wide < tall ? wide : tall;
    int64_t area = (int64_t)((double)w * scale) * (int64_t)((double)h * scale);
    if (area > h * w) area = h * w;
    const int64_t lost = pin[0] * pin[1] - area;
    if (area < kept || (area == kept && lost >= wasted)) continue;
    kept = area;
    wasted = lost;
    best = pin;
  }
  return best;
}

/* Of `n` rows those that are no padding, when `size` pixels were scaled by `scale`; Python's
 * int(round(x, 7)). */
static void unpadded(int64_t n, int64_t size, double scale, int64_t *first, int64_t *last) {
  const int64_t padding = (n - (int64_t)(nearbyint((double)size * scale * 1e7) / 1e7)) / 2;
  *first = padding > 0 ? padding : 0;
  *last = n - *first;
}

/* The part of a picture's joined map that is no padding. */
typedef struct window {
  int64_t y0, y1, x0, x1, across; /* rows and columns of patches; tiles side by side */
} window;

static window window_of(const tiling *t, const int64_t size[2], const int64_t *pin) {
  const int64_t across = pin[1] / t->tile, lines = pin[0] / t->tile * t->side,
                cols = across * t->side;
  window v = {0, lines, 0, cols, across};
  if ((double)size[1] / (double)size[0] > (double)cols / (double)lines)
    unpadded(lines, size[0], (double)cols / (double)size[1], &v.y0, &v.y1);
  else
    unpadded(cols, size[1], (double)lines / (double)size[0], &v.x0, &v.x1);
  return v;
}

/* Rows of a picture whose tiles stand from `at` on: its first tile, then the joined others line by
 * line, each with `newline`. */
static int64_t picture_rows(const tiling *t, const window *v, int64_t at, int64_t newline,
                            int32_t *row) {
  int64_t k = 0;
  for (; k < t->side * t->side; k++) row[k] = (int32_t)(at + k);
  for (int64_t y = v->y0; y < v->y1; y++) {
    for (int64_t x = v->x0; x < v->x1; x++) {
      const int64_t tile = 1 + y / t->side * v->across + x / t->side;
      row[k++] = (int32_t)(at + (tile * t->side + y % t->side) * t->side + x % t->side);
    }
    row[k++] = (int32_t)newline;
  }
  return k;
}

/* What shows of a picture of `size` (height, width), for which pixel_values have `available`
 * tiles. */
static accel_status shown_of(const tiling *t, const int64_t size[2], int64_t available,
                             window *out) {
  const int64_t h = size[0], w = size[1];
  const int64_t *pin =
      h > 0 && w > 0 && h <= INT32_MAX && w <= INT32_MAX ? best_resolution(t, h, w) : NULL;
  const int64_t tiles = pin != NULL ? (pin[0] / t->tile) * (pin[1] / t->tile) : 0;
  if (tiles < 1 || tiles + 1 > available)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "a picture of %lld x %lld needs %lld tiles, pixel_values has %lld",
                       (long long)h, (long long)w, (long long)tiles + 1, (long long)available);
  *out = window_of(t, size, pin);
  return ACCEL_OK;
}

/* image_sizes [images, 2] (height, width) of pixel_values [images, tiles, ..]; the row of a line's
 * end is the last of all.
 */
static accel_status image_rows(const void *user, const int64_t *size, uint64_t n,
                               const int64_t *dim, uint32_t rank, accel__arena *arena,
                               int32_t **out, int64_t *n_out) {
  const tiling *t = user;
  const int64_t each = t->side * t->side;
  if (rank != 5 || dim[0] < 1 || dim[1] < 1 || n != 2 * (uint64_t)dim[0] ||
      dim[0] > INT32_MAX / 2 / dim[1] / each)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "image_sizes [images, 2] does not fit pixel_values [images, tiles, "
                       "channels, height, width]");
  const int64_t newline = dim[0] * dim[1] * each;
  *n_out = 0;
  *out = accel__arena_array(arena, (size_t)newline * 2 + 1, sizeof **out);
  if (*out == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (int64_t i = 0; i < dim[0]; i++) {
    window v;
    ACCEL_TRY(shown_of(t, &size[2 * i], dim[1], &v));
    *n_out += picture_rows(t, &v, i * dim[1] * each, newline, *out + *n_out);
  }
  return ACCEL_OK;
}

/* ---- how many image tokens a picture takes in the text ---- */

static accel_status tiled_rows(const void *user, const int64_t *dim, uint32_t rank,
                               const int64_t *size, int64_t *out) {
  const tiling *t = &((const llava *)user)->tiles;
  window v;
  if (rank != 5)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "pixel_values has rank %u, expected 5", rank);
  ACCEL_TRY(shown_of(t, size, dim[1], &v));
  *out = t->side * t->side + (v.y1 - v.y0) * (v.x1 - v.x0 + 1);
  return ACCEL_OK;
}

static accel_status plain_rows(const void *user, const int64_t *dim, uint32_t rank,
                               const int64_t *size, int64_t *out) {
  const llava *m = user;
  (void)size;
  if (rank != 4)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "pixel_values has rank %u, expected 4", rank);
  *out = (dim[2] / m->vision.patch.h) * (dim[3] / m->vision.patch.w) + (m->siglip ? 0 : 1) -
         (m->full ? 0 : 1);
  return ACCEL_OK;
}

static accel_status read_tiles(accel__build *b, llava *m) {
  static const int64_t usual[5][2] = {{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}};
  const accel__json *pins = NULL;
  m->tiles =
      (tiling){.tile = m->vision.image.h, .side = m->vision.image.h / m->vision.patch.h, .n = 5};
  memcpy(m->tiles.pin, usual, sizeof usual);
  ACCEL_TRY(accel__json_array(b->file, b->config, "image_grid_pinpoints", &pins));
  if (pins != NULL) m->tiles.n = 0;
  ACCEL_JSON_EACH(item, pins) {
    const accel__json *h = cJSON_GetArrayItem(item, 0), *w = cJSON_GetArrayItem(item, 1);
    if (m->tiles.n >= MAX_PINS || cJSON_GetArraySize(item) != 2 || !cJSON_IsNumber(h) ||
        !cJSON_IsNumber(w) || !(h->valuedouble >= 1 && h->valuedouble <= 65536) ||
        !(w->valuedouble >= 1 && w->valuedouble <= 65536))
      return accel__refuse(b, "field 'image_grid_pinpoints': entry %lld is no [height, width]",
                           (long long)m->tiles.n);
    m->tiles.pin[m->tiles.n][0] = (int64_t)h->valuedouble;
    m->tiles.pin[m->tiles.n++][1] = (int64_t)w->valuedouble;
  }
  if (m->full != m->siglip) /* tiles would not be squares of patches */
    return accel__refuse(b,
                         "field 'vision_feature_select_strategy': LLaVA-Next takes 'default' with "
                         "clip_vision_model and "
                         "'full' with siglip_vision_model");
  m->rule = (accel__derived){
      .from = "image_sizes", .shape_of = "pixel_values", .make = image_rows, .user = &m->tiles};
  return ACCEL_OK;
}

/* pixel_values [images, tiles, C, tile, tile] as pictures of their own. */
static accel__tensor add_tiles(accel__build *b, llava *m) {
  accel__program *p = b->p;
  accel__dim images = accel__symbol(p, "images", 1, 0, 1),
             tiles = accel__symbol(p, "tiles", 1, 0, 5);
  accel__dim c = accel__const_dim(p, m->vision.channels), side = accel__const_dim(p, m->tiles.tile);
  accel__tensor x =
      accel__add_item(b, "pixel_values", ACCEL_PLUGIN_F32, 5,
                      (accel__dim[]){images, tiles, c, side, side}, ACCEL__DEFAULT_REQUIRED);
  b->B = accel__times(b, images, tiles);
  return accel__reshape(p, x, 4, (accel__dim[]){b->B, c, side, side});
}

static accel_status read_config(accel__build *b, llava *m) {
  const char *type = NULL, *strategy = NULL;
  bool tied = false;
  m->image_token = 32000;
  m->bias = true;
  m->act = (accel__activation){.act = ACCEL_PLUGIN_ACT_GELU};
  ACCEL_TRY(read_vision(b, m));
  ACCEL_TRY(accel__enter_config(b, "text_config"));
  ACCEL_TRY(accel__json_string(b->file, b->config, "model_type", &type));
  ACCEL_TRY(accel__language_read(b, type != NULL ? type : "llama", &m->text));
  ACCEL_TRY(accel__enter_config(b, NULL));
  const accel__field fields[] = {
      ACCEL_FIELD_INT("image_token_index", &m->image_token, 0, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("image_token_id", &m->image_token, 0, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_BOOL("multimodal_projector_bias", &m->bias),
      ACCEL_FIELD_BOOL("tie_word_embeddings", &tied),
      ACCEL_FIELD_STRING("vision_feature_select_strategy", &strategy),
      ACCEL_FIELD_ACT("projector_hidden_act", &m->act)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  accel__language_tie(&m->text, tied);
  m->full = strategy != NULL && strcmp(strategy, "full") == 0;
  if (strategy != NULL && !m->full && strcmp(strategy, "default") != 0)
    return accel__refuse(
        b, "field 'vision_feature_select_strategy': '%s' is not supported; known: default, full",
        strategy);
  b->model->hidden_size = m->text.hidden;
  if (m->next) ACCEL_TRY(read_tiles(b, m));
  m->image_tokens = (accel__image_tokens){.token = m->image_token,
                                          .video_token = -1,
                                          .sizes = "image_sizes",
                                          .width = 2,
                                          .rows = m->next ? tiled_rows : plain_rows,
                                          .user = m};
  b->model->image_tokens = &m->image_tokens;
  return read_layers(b, m);
}

/* The hidden states asked for, side by side, without the class row unless "full", projected. */
static accel__tensor look(accel__build *b, llava *m) {
  accel__tensor pixels = m->next ? add_tiles(b, m) : accel__add_pixels(b, m->vision.channels, NULL),
                state[ACCEL__MAX_LAYERS + 1], part[MAX_PICKED];
  b->scope = "vision_tower.vision_model.";
  accel__tensor x = accel__clip_patches(b, &m->vision, pixels, !m->siglip, m->siglip);
  if (!m->siglip) x = accel__norm_layer(b, x, -1, m->vision.eps, true, "pre_layrnorm");
  state[0] = x;
  for (uint32_t i = 0; i < (uint32_t)m->vision.layers; i++)
    state[i + 1] = x = accel__pre_norm_block(b, &m->vision.block, x, "encoder.layers.%u", i);
  b->scope = NULL;
  for (int64_t i = 0; i < m->n_picked; i++) {
    part[i] = accel__rows_to_items(b, state[m->picked[i]], m->vision.rows);
    if (!m->full) part[i] = accel__slice(b->p, part[i], 1, 1, INT64_MAX);
  }
  x = m->n_picked == 1 ? part[0] : accel__concat(b, 2, (uint32_t)m->n_picked, part);
  x = accel__dense_layer(b, x, m->text.hidden, m->bias, -1, &m->act,
                         "multi_modal_projector.linear_1");
  x = accel__dense_layer(b, x, m->text.hidden, m->bias, -1, NULL, "multi_modal_projector.linear_2");
  if (x < 0) return -1;
  return accel__reshape(
      b->p, x, 2,
      (accel__dim[]){accel__times(b, accel__tensor_dim(b->p, x, 0), accel__tensor_dim(b->p, x, 1)),
                     accel__tensor_dim(b->p, x, 2)});
}

static accel__tensor merge_images(accel__build *b, void *user, accel__tensor x) {
  llava *m = user;
  if (m->features < 0) {
    const accel__aside kept = accel__step_aside(b);
    m->features = look(b, m);
    if (m->next) {
      accel__tensor line = accel__table(b, 1, &m->text.hidden, "image_newline");
      line = accel__reshape(
          b->p, line, 2,
          (accel__dim[]){accel__const_dim(b->p, 1), accel__const_dim(b->p, m->text.hidden)});
      accel__dim n = accel__symbol(b->p, "image_rows", 1, 0, 576);
      accel__tensor rows = accel__add_derived(b, "image_rows", 1, &n, &m->rule);
      m->features =
          accel__gather(b->p, accel__concat(b, 0, 2, (accel__tensor[]){m->features, line}), rows);
    }
    accel__back_from(b, &kept);
    accel__add_output(b, "image_hidden_states", m->features, 0);
  }
  return accel__put_rows(b, x, m->features, m->image_token);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  static const char *const args[] = {"interpolate_pos_encoding", NULL};
  accel__build b;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "language_model.model."));
  llava *m = accel__arena_alloc(b.arena, sizeof *m);
  if (m == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  m->features = -1;
  m->next = strncmp(architecture, "LlavaNext", 9) == 0;
  accel__language_spellings(&b);
  if (!m->next) model->args = args;
  ACCEL_TRY(read_config(&b, m));
  b.images.merge = merge_images;
  b.images.merge_user = m;
  return accel__language_build(&b, &m->text);
}

static const char *const classes[] = {"LlavaModel", "LlavaForConditionalGeneration", NULL};
const accel__architecture accel__model_llava = {
    .model_type = "llava", .classes = classes, .build = build};
static const char *const next_classes[] = {"LlavaNextModel", "LlavaNextForConditionalGeneration",
                                           NULL};
const accel__architecture accel__model_llava_next = {
    .model_type = "llava_next", .classes = next_classes, .build = build};
