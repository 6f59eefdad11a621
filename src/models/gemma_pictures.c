/* gemma_pictures.c - Gemma 3 with pictures and PaliGemma (transformers' Gemma3Model,
 * PaliGemmaModel and their ForConditionalGeneration): a SigLIP tower whose patches, projected,
 * stand where the text has its image tokens.  Gemma 3 pools them first, and the tokens of a
 * picture see one another; in PaliGemma those of the whole prompt do (token_type_ids, blocks.h). */
#include <math.h>
#include <string.h>

#include "models/clip.h"
#include "models/gemma.h"
#include "models/language_model.h"

typedef struct gemma_pictures {
  accel__clip_tower vision;
  accel__decoder *text;
  bool paligemma;
  int64_t image_token, side; /* rows of a picture in the text: side x side */
  int64_t kernel;            /* Gemma 3: patches to a side that are one row */
  accel__image_tokens image_tokens;
  accel__tensor features; /* rows [images * side * side, hidden of the text] */
} gemma_pictures;

/* ---- config ---- */

static accel_status read_vision(accel__build *b, gemma_pictures *m) {
  const bool absent = accel__json_is_null_or_absent(b->file->root, "vision_config"),
             large = absent && m->paligemma; /* as the class fills in what is missing */
  const char *type = NULL;
  ACCEL_TRY(accel__enter_config(b, "vision_config"));
  ACCEL_TRY(accel__json_string(b->file, b->config, "model_type", &type));
  if (type != NULL && strcmp(type, "siglip_vision_model") != 0)
    return accel__refuse(b,
                         "field 'vision_config.model_type': '%s' is not supported; known: "
                         "siglip_vision_model",
                         type);
  const int64_t patch = large ? 14 : 16;
  m->vision = (accel__clip_tower){.hidden = large ? 1152 : 768,
                                  .layers = large ? 27 : 12,
                                  .heads = large ? 16 : 12,
                                  .inner = large ? 4096 : 3072,
                                  .channels = 3,
                                  .image = {224, 224},
                                  .patch = {patch, patch},
                                  .eps = 1e-6,
                                  .act = {.act = ACCEL_PLUGIN_ACT_GELU_TANH}};
  return accel__clip_read(b, &m->vision);
}

/* PaliGemma's text where its config says nothing. */
static void fill_text(accel__build *b, accel__decoder *c) {
  c->vocab = 257152;
  c->hidden = b->model->hidden_size = 2048;
  c->layers = 18;
  c->heads = 8;
  c->kv_heads = 1;
  c->inner = 16384;
  c->embed_scale = (double)(float)sqrt((double)c->hidden);
}

static accel_status read_text(accel__build *b, gemma_pictures *m) {
  const char *type = m->paligemma ? "gemma" : "gemma3_text";
  ACCEL_TRY(accel__enter_config(b, "text_config"));
  ACCEL_TRY(accel__json_string(b->file, b->config, "model_type", &type));
  if (!m->paligemma && strcmp(type, "gemma3_text") == 0) {
    ACCEL_TRY(accel__gemma3_read(b, m->text));
    m->text->logit_softcap = 0; /* of the text model's own head */
    if (!m->text->bidirectional) return ACCEL_OK;
    return accel__refuse(
        b, "field 'text_config.use_bidirectional_attention': true is not supported with pictures");
  }
  if (m->paligemma && strcmp(type, "gemma") == 0) {
    ACCEL_TRY(accel__gemma_read(b, m->text));
    if (accel__json_is_null_or_absent(b->file->root, "text_config")) fill_text(b, m->text);
    return ACCEL_OK;
  }
  if (m->paligemma && strcmp(type, "gemma2") == 0) return accel__gemma2_read(b, m->text);
  return accel__refuse(b, "field 'text_config.model_type': '%s' is not supported; known: %s", type,
                       m->paligemma ? "gemma, gemma2" : "gemma3_text");
}

/* How many rows a picture becomes: the patches, in Gemma 3 pooled to about mm_tokens_per_image. */
static accel_status read_rows(accel__build *b, gemma_pictures *m) {
  int64_t tokens = 256;
  const int64_t patches = m->vision.image.h / m->vision.patch.h;
  m->kernel = 1;
  m->side = patches;
  if (m->paligemma) return ACCEL_OK;
  ACCEL_TRY(accel__json_int(b->file, b->config, "mm_tokens_per_image", 1, INT32_MAX, &tokens));
  const int64_t side = (int64_t)sqrt((double)tokens);
  if (side > patches)
    return accel__refuse(b,
                         "field 'mm_tokens_per_image': %lld, but a picture has %lld patches a side",
                         (long long)tokens, (long long)patches);
  m->kernel = patches / side;
  m->side = patches / m->kernel;
  return ACCEL_OK;
}

static accel_status picture_rows(const void *user, const int64_t *dim, uint32_t rank,
                                 const int64_t *size, int64_t *out) {
  const gemma_pictures *m = user;
  (void)dim;
  (void)size;
  if (rank != 4)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "pixel_values has rank %u, expected 4", rank);
  *out = m->side * m->side;
  return ACCEL_OK;
}

static accel_status read_config(accel__build *b, gemma_pictures *m) {
  int64_t projection = 2048;
  ACCEL_TRY(read_vision(b, m));
  ACCEL_TRY(read_text(b, m));
  ACCEL_TRY(accel__enter_config(b, NULL));
  m->image_token = m->paligemma ? 256000 : 262144;
  m->text->tied = true;
  const accel__field fields[] = {
      ACCEL_FIELD_INT("image_token_index", &m->image_token, 0, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("image_token_id", &m->image_token, 0, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("projection_dim", &projection, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_BOOL("tie_word_embeddings", &m->text->tied)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  if (m->paligemma && projection != m->text->hidden)
    return accel__refuse(b, "field 'projection_dim' is %lld, but the text has hidden_size %lld",
                         (long long)projection, (long long)m->text->hidden);
  b->model->hidden_size = m->text->hidden;
  ACCEL_TRY(read_rows(b, m));
  m->image_tokens = (accel__image_tokens){
      .token = m->image_token,
      .video_token = -1,
      .style = m->paligemma ? ACCEL__PICTURE_PALIGEMMA : ACCEL__PICTURE_GEMMA3,
      .sizes = "image_sizes",
      .width = 2,
      .rows = picture_rows,
      .blocks = m->paligemma ? ACCEL__BLOCKS_PREFIX : ACCEL__BLOCKS_PICTURES,
      .block_window = m->paligemma ? 0 : m->text->window,
      .user = m};
  b->model->image_tokens = &m->image_tokens;
  b->images.token = m->image_token;
  return ACCEL_OK;
}

/* ---- pictures ---- */

/* [images, patches^2, C] -> [images, side^2, C]: means of kernel x kernel patches. */
static accel__tensor pool(accel__build *b, const gemma_pictures *m, accel__tensor x) {
  const int64_t kernel[2] = {m->kernel, m->kernel}, pads[4] = {0};
  accel__dim patches = accel__const_dim(b->p, m->vision.image.h / m->vision.patch.h);
  if (m->kernel == 1) return x;
  accel__attr attr[] = {ACCEL_I(KIND, ACCEL_PLUGIN_POOL_AVG), ACCEL_IV(KERNEL, kernel, 2),
                        ACCEL_IV(STRIDE, kernel, 2), ACCEL_IV(PADS, pads, 4)};
  x = accel__items_to_planes(b, x, patches, patches);
  x = accel__node(b->p, ACCEL_PLUGIN_OP_POOL, &x, 1, attr, 4, NULL, 1);
  return accel__planes_to_items(b, x);
}

static accel__tensor project(accel__build *b, const gemma_pictures *m, accel__tensor x) {
  const char *projector = "multi_modal_projector";
  if (m->paligemma)
    return accel__dense_layer(b, x, m->text->hidden, true, -1, NULL, "%s.linear", projector);
  x = accel__rms_layer(b, pool(b, m, x), m->vision.eps, 1.0, "%s.mm_soft_emb_norm", projector);
  return accel__product_transposed(b, x, m->text->hidden,
                                   "multi_modal_projector.mm_input_projection_weight");
}

static accel__tensor look(accel__build *b, void *user) {
  gemma_pictures *m = user;
  accel__program *p = b->p;
  accel__tensor pixels = accel__add_pixels(b, m->vision.channels, &m->vision.image);
  b->scope = "vision_tower.vision_model.";
  accel__tensor x = accel__clip_patches(b, &m->vision, pixels, false, true);
  for (uint32_t i = 0; i < (uint32_t)m->vision.layers; i++) {
    accel__at(p, 0, "vision_tower.layers.%u", i);
    x = accel__pre_norm_block(b, &m->vision.block, x, "encoder.layers.%u", i);
  }
  x = accel__norm_layer(b, x, -1, m->vision.eps, true, "post_layernorm");
  b->scope = NULL;
  accel__at(p, 0, "embeddings");
  x = project(b, m, accel__rows_to_items(b, x, m->vision.rows));
  accel__add_output(b, "image_hidden_states", x, 0);
  if (x < 0) return -1;
  return accel__reshape(
      p, x, 2,
      (accel__dim[]){accel__times(b, b->B, accel__const_dim(p, m->side * m->side)),
                     accel__const_dim(p, m->text->hidden)});
}

static accel__tensor merge_images(accel__build *b, void *user, accel__tensor x) {
  gemma_pictures *m = user;
  return accel__show_rows(b, x, &m->features, m->image_token, look, m);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  /* the processor makes labels, too, which only a loss reads */
  static const char *const unread[] = {"labels", NULL};
  accel__build b;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "language_model.model."));
  gemma_pictures *m = accel__arena_alloc(b.arena, sizeof *m);
  if (m == NULL || (m->text = accel__arena_alloc(b.arena, sizeof *m->text)) == NULL)
    return ACCEL_ERROR_OUT_OF_MEMORY;
  m->features = -1;
  m->paligemma = strncmp(architecture, "PaliGemma", 9) == 0;
  if (m->paligemma) model->unread = unread;
  accel__language_spellings(&b);
  b.images.blocks = true;
  ACCEL_TRY(read_config(&b, m));
  b.images.merge = merge_images;
  b.images.merge_user = m;
  return accel__decoder_build(&b, m->text);
}

static const char *const gemma3_classes[] = {"Gemma3Model", "Gemma3ForConditionalGeneration", NULL};
const accel__architecture accel__model_gemma3_pictures = {
    .model_type = "gemma3", .classes = gemma3_classes, .build = build};
static const char *const paligemma_classes[] = {"PaliGemmaModel",
                                                "PaliGemmaForConditionalGeneration", NULL};
const accel__architecture accel__model_paligemma = {
    .model_type = "paligemma", .classes = paligemma_classes, .build = build};
