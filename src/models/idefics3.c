/* idefics3.c - Idefics3 and SmolVLM (transformers' Idefics3Model, SmolVLMModel and their
 * ForConditionalGeneration): a tower like SigLIP's whose position rows follow from how much of a
 * frame is picture, scale_factor x scale_factor patches of which become one row of the text.
 *
 * pixel_values [prompts, images, C, side, side] are filled up with images of zeros, which show
 * nowhere; pixel_attention_mask [prompts, images, side, side] says where a picture is. */
#include <math.h>
#include <string.h>

#include "models/clip.h"
#include "models/language_model.h"

typedef struct idefics3 {
  accel__clip_tower vision;
  accel__language text;
  int64_t image_token, scale;
  accel__derived places, mask, real;
  accel__image_tokens image_tokens;
  accel__tensor features; /* rows [real images * side^2 / scale^2, hidden of the text] */
} idefics3;

/* As older checkpoints name nothing differently, but for the base class. */
static const accel__rename base[] = {{"model.text_model.", "text_model."}, {NULL, NULL}};
static const accel__rename tower[] = {
    {"vision_model.", "model.vision_model."}, {"connector.", "model.connector."}, {NULL, NULL}};

/* ---- config ---- */

static accel_status read_vision(accel__build *b, idefics3 *m) {
  static const char *const known[] = {"idefics3", "idefics3_vision", "smolvlm", "smolvlm_vision"};
  const char *type = known[0];
  bool found = false;
  ACCEL_TRY(accel__enter_config(b, "vision_config"));
  ACCEL_TRY(accel__json_string(b->file, b->config, "model_type", &type));
  for (int i = 0; i < 4; i++) found |= strcmp(type, known[i]) == 0;
  if (!found)
    return accel__refuse(
        b, "field 'vision_config.model_type': '%s' is not supported; known: %s, %s, %s, %s", type,
        known[0], known[1], known[2], known[3]);
  m->vision = (accel__clip_tower){.hidden = 1152,
                                  .layers = 12,
                                  .heads = 16,
                                  .inner = 3072,
                                  .channels = 3,
                                  .image = {224, 224},
                                  .patch = {32, 32},
                                  .eps = 1e-6,
                                  .act = {.act = ACCEL_PLUGIN_ACT_GELU_TANH}};
  return accel__clip_read(b, &m->vision);
}

static accel_status read_config(accel__build *b, idefics3 *m) {
  const char *type = "llama";
  bool tied = false;
  m->image_token = 128257;
  m->scale = 2;
  ACCEL_TRY(read_vision(b, m));
  ACCEL_TRY(accel__enter_config(b, "text_config"));
  ACCEL_TRY(accel__json_string(b->file, b->config, "model_type", &type));
  ACCEL_TRY(accel__language_read(b, type, &m->text));
  if (accel__json_is_null_or_absent(b->file->root, "text_config"))
    m->text.decoder->eps = 1e-5; /* as the class fills in what is missing */
  ACCEL_TRY(accel__enter_config(b, NULL));
  const accel__field fields[] = {
      ACCEL_FIELD_INT("image_token_id", &m->image_token, 0, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("scale_factor", &m->scale, 1, 64),
      ACCEL_FIELD_BOOL("tie_word_embeddings", &tied)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  accel__language_tie(&m->text, tied);
  b->model->hidden_size = m->text.hidden;
  return ACCEL_OK;
}

/* ---- images ---- */

/* How often an image's patches lie in pixel_values dim[rank]. */
static accel_status count_images(const idefics3 *m, const int64_t *dim, uint32_t rank,
                                 int64_t *images, int64_t *side) {
  *images = rank == 5 ? dim[0] * dim[1] : 0;
  *side = rank == 5 ? dim[3] / m->vision.patch.h : 0;
  if (*images > 0 && *side > 0 && dim[3] == dim[4] && *side % m->scale == 0 &&
      dim[3] % m->vision.patch.h == 0 && *images < INT32_MAX / (*side * *side))
    return ACCEL_OK;
  return accel__fail(
      ACCEL_ERROR_ARGUMENT,
      "pixel_values must be [prompts, images, channels, side, side], with sides that "
      "are multiples of patch_size * scale_factor, %lld",
      (long long)(m->vision.patch.h * m->scale));
}

/* seen[side * side]: which patches of an image have a pixel that the mask shows; of an image that
 * shows nowhere, all of them. */
static void patches_seen(const idefics3 *m, const int64_t *mask, int64_t side, bool *seen) {
  const int64_t patch = m->vision.patch.h, pixels = side * patch;
  bool any = false;
  memset(seen, mask == NULL, (size_t)(side * side) * sizeof *seen);
  for (int64_t i = 0; mask != NULL && i < pixels * pixels; i++)
    if (mask[i] != 0) any = seen[i / pixels / patch * side + i % pixels / patch] = true;
  if (mask != NULL && !any) memset(seen, 1, (size_t)(side * side) * sizeof *seen);
}

/* Element k of torch.arange(step, 1, step) of `n` elements in single precision: whole vectors count
 * on from their own first element, the rest by itself. */
static float arange(double step, int64_t n, int64_t k) {
  enum { VECTOR = 8, TOGETHER = 2 * VECTOR };
  const int64_t inside = k < n / TOGETHER * TOGETHER ? k % VECTOR : 0;
  const float first = (float)(step + step * (double)(k - inside));
  return (float)((double)first + (double)inside * step);
}

/* bucket[side]: rows of a position table of `table` lines for the lines of an image, of which
 * `lines` are picture: torch.bucketize(i / lines, arange(1 / table, 1, 1 / table), right=True),
 * roundings and all. */
static void buckets_of(int64_t table, int64_t lines, int64_t side, int32_t *bucket) {
  const double step = 1.0 / (double)table;
  const int64_t n = (int64_t)ceil((1.0 - step) / step);
  const float share = 1.0f / (float)lines, most = (float)(1.0 - 1e-6);
  for (int64_t i = 0; i < side; i++) {
    const float at = (float)i * share < most ? (float)i * share : most;
    int32_t k = 0;
    while (k < n && k + 1 < table && arange(step, n, k) <= at) k++;
    bucket[i] = k;
  }
}

/* What `fill` makes of each image of a call: [images * side * side]. */
typedef void filler(const idefics3 *m, const bool *seen, int64_t side, int32_t *bucket,
                    int32_t *out);

static accel_status each_image(const idefics3 *m, filler *fill, const int64_t *values, uint64_t n,
                               const int64_t *dim, uint32_t rank, accel__arena *arena,
                               int32_t **out, int64_t *n_out) {
  int64_t images, side;
  ACCEL_TRY(count_images(m, dim, rank, &images, &side));
  const uint64_t pixels = (uint64_t)(dim[3] * dim[4]);
  if (values != NULL && n != (uint64_t)images * pixels)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "pixel_attention_mask [prompts, images, side, side] does not fit "
                       "pixel_values [prompts, images, channels, side, side]");
  *n_out = images * side * side;
  *out = accel__arena_array(arena, (size_t)*n_out, sizeof **out);
  bool *seen = accel__arena_array(arena, (size_t)(side * side), sizeof *seen);
  int32_t *bucket = accel__arena_array(arena, 2 * (size_t)side, sizeof *bucket);
  if (*out == NULL || seen == NULL || bucket == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (int64_t i = 0; i < images; i++) {
    patches_seen(m, values != NULL ? values + (uint64_t)i * pixels : NULL, side, seen);
    fill(m, seen, side, bucket, *out + i * side * side);
  }
  return ACCEL_OK;
}

static void fill_mask(const idefics3 *m, const bool *seen, int64_t side, int32_t *bucket,
                      int32_t *out) {
  (void)m;
  (void)bucket;
  for (int64_t i = 0; i < side * side; i++) out[i] = seen[i];
}

static void fill_places(const idefics3 *m, const bool *seen, int64_t side, int32_t *bucket,
                        int32_t *out) {
  const int64_t table = m->vision.image.h / m->vision.patch.h;
  int64_t down = 0, across = 0;
  for (int64_t i = 0; i < side; i++) {
    down += seen[i * side];
    across += seen[i];
  }
  buckets_of(table, down, side, bucket);
  buckets_of(table, across, side, bucket + side);
  for (int64_t i = 0; i < side * side; i++)
    out[i] = seen[i] ? (int32_t)(bucket[i / side] * table + bucket[side + i % side]) : 0;
}

static accel_status image_mask(const void *user, const int64_t *values, uint64_t n,
                               const int64_t *dim, uint32_t rank, accel__arena *arena,
                               int32_t **out, int64_t *n_out) {
  return each_image(user, fill_mask, values, n, dim, rank, arena, out, n_out);
}

static accel_status image_places(const void *user, const int64_t *values, uint64_t n,
                                 const int64_t *dim, uint32_t rank, accel__arena *arena,
                                 int32_t **out, int64_t *n_out) {
  return each_image(user, fill_places, values, n, dim, rank, arena, out, n_out);
}

/* Does image `i` hold anything but zeros? */
static bool is_real(const float *pixels, int64_t each, int64_t i) {
  const float *p = pixels + i * each, *end = p + each;
  while (p < end && *p == 0.0f) p++;
  return p < end;
}

/* The numbers of the images that are no padding. */
static accel_status real_images(const void *user, const float *values, const int64_t *dim,
                                uint32_t rank, accel__arena *arena, int32_t **out, int64_t *n_out) {
  int64_t images, side;
  ACCEL_TRY(count_images(user, dim, rank, &images, &side));
  *out = accel__arena_array(arena, (size_t)images, sizeof **out);
  if (*out == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  *n_out = 0;
  for (int64_t i = 0; i < images; i++)
    if (is_real(values, dim[2] * dim[3] * dim[4], i)) (*out)[(*n_out)++] = (int32_t)i;
  if (*n_out > 0) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_ARGUMENT, "pixel_values hold zeros alone");
}

/* Rows of the images of prompt `i` in the text. */
static accel_status prompt_rows(const void *user, const float *pixels, const int64_t *dim,
                                uint32_t rank, int64_t i, int64_t *out) {
  const idefics3 *m = user;
  int64_t images, side;
  ACCEL_TRY(count_images(m, dim, rank, &images, &side));
  *out = 0;
  for (int64_t k = i * dim[1]; k < (i + 1) * dim[1]; k++)
    *out += is_real(pixels, dim[2] * dim[3] * dim[4], k);
  *out *= side * side / (m->scale * m->scale);
  return ACCEL_OK;
}

/* ---- the tower ---- */

static accel__tensor look(accel__build *b, void *user) {
  idefics3 *m = user;
  accel__program *p = b->p;
  accel__dim groups = accel__symbol(p, "groups", 1, ACCEL__MAX_WIDTH,
                                    m->vision.image.h / m->vision.patch.h / m->scale);
  accel__dim side = accel__times(b, groups, accel__const_dim(p, m->scale * m->vision.patch.h)),
             prompts = accel__symbol(p, "prompts", 1, 0, 1),
             images = accel__symbol(p, "images", 1, 0, 1), real = accel__symbol(p, "real", 1, 0, 1),
             c = accel__const_dim(p, m->vision.channels);
  accel__tensor x =
      accel__add_item(b, "pixel_values", ACCEL_PLUGIN_F32, 5,
                      (accel__dim[]){prompts, images, c, side, side}, ACCEL__DEFAULT_REQUIRED);
  accel__tensor which = accel__add_derived(b, "real_images", 1, &real, &m->real);
  b->B = accel__times(b, prompts, images);
  accel__dim rows = accel__times(b, groups, accel__const_dim(p, m->scale)),
             all = accel__times(b, b->B, accel__times(b, rows, rows)),
             width = accel__const_dim(p, m->vision.hidden);
  accel__tensor at = accel__add_derived(b, "image_places", 1, &all, &m->places);
  m->vision.block.mask = accel__add_derived(b, "image_mask", 1, &all, &m->mask);
  b->scope = "vision_model.";
  accel__at(p, 0, "vision_model.embeddings");
  const int64_t table = m->vision.image.h / m->vision.patch.h;
  x = accel__conv2d(b, accel__reshape(p, x, 4, (accel__dim[]){b->B, c, side, side}),
                    &(accel__conv){.out = m->vision.hidden,
                                   .kernel = m->vision.patch,
                                   .stride = m->vision.patch,
                                   .bias = true},
                    "embeddings.patch_embedding");
  x = accel__items_to_rows(b, accel__planes_to_items(b, x), "patches");
  x = accel__reshape(p, x, 2, (accel__dim[]){all, width});
  x = accel__binary(
      p, ACCEL_PLUGIN_BINARY_ADD, x,
      accel__embedding(b, at, table * table, m->vision.hidden, "embeddings.position_embedding"));
  for (uint32_t i = 0; i < (uint32_t)m->vision.layers; i++) {
    accel__at(p, 0, "vision_model.layers.%u", i);
    x = accel__pre_norm_block(b, &m->vision.block, x, "encoder.layers.%u", i);
  }
  x = accel__norm_layer(b, x, -1, m->vision.eps, true, "post_layernorm");
  b->scope = NULL;
  accel__at(p, 0, "embeddings");
  /* [images, groups^2, scale^2 * C], those that show */
  x = accel__join_patches(b, x, b->B, groups, m->scale);
  x = accel__gather(p, x, which);
  x = accel__dense_layer(b, x, m->text.hidden, false, -1, NULL,
                         "connector.modality_projection.proj");
  x = accel__reshape(p, x, 2,
                     (accel__dim[]){accel__times(b, real, accel__times(b, groups, groups)),
                                    accel__const_dim(p, m->text.hidden)});
  accel__add_output(b, "image_hidden_states", x, 0);
  return x;
}

static accel__tensor merge_images(accel__build *b, void *user, accel__tensor x) {
  idefics3 *m = user;
  return accel__show_rows(b, x, &m->features, m->image_token, look, m);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "model.text_model."));
  idefics3 *m = accel__arena_alloc(b.arena, sizeof *m);
  if (m == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  m->features = -1;
  b.spelling[0] = base;
  b.spelling[1] = tower;
  ACCEL_TRY(read_config(&b, m));
  m->places = m->mask = (accel__derived){
      .from = "pixel_attention_mask", .shape_of = "pixel_values", .optional = true, .user = m};
  m->places.make = image_places;
  m->mask.make = image_mask;
  m->real = (accel__derived){
      .from = "pixel_values", .shape_of = "pixel_values", .look = real_images, .user = m};
  m->image_tokens = (accel__image_tokens){.token = m->image_token,
                                          .video_token = -1,
                                          .style = ACCEL__PICTURE_IDEFICS3,
                                          .sizes = "image_sizes",
                                          .width = 2,
                                          .rows_of = prompt_rows,
                                          .user = m};
  model->image_tokens = &m->image_tokens;
  b.images.merge = merge_images;
  b.images.merge_user = m;
  b.images.token = m->image_token;
  return accel__language_build(&b, &m->text);
}

static const char *const classes[] = {"Idefics3Model", "Idefics3ForConditionalGeneration", NULL};
const accel__architecture accel__model_idefics3 = {
    .model_type = "idefics3", .classes = classes, .build = build};
static const char *const smol_classes[] = {"SmolVLMModel", "SmolVLMForConditionalGeneration", NULL};
const accel__architecture accel__model_smolvlm = {
    .model_type = "smolvlm", .classes = smol_classes, .build = build};
