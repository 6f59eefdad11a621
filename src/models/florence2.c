/* florence2.c - Florence-2 (transformers' Florence2Model and its ForConditionalGeneration): a DaViT
 * whose rows, projected and with their mean in front, stand where BART's encoder has its image
 * tokens. */
#include <string.h>

#include "models/bart.h"
#include "models/davit.h"

typedef struct florence2 {
  accel__davit vision;
  accel__bart text;
  int64_t projection, positions, moments, image_token;
  bool tied;              /* the vocabulary head is the table of words */
  accel__tensor features; /* rows [pictures * rows, hidden of the text]; -1 until made */
  accel__image_tokens image_tokens;
} florence2;

/* ---- config ---- */

static accel_status read_vision(accel__build *b, florence2 *m) {
  const char *type = NULL;
  m->projection = 1024;
  m->positions = 50;
  m->moments = 100;
  ACCEL_TRY(accel__enter_config(b, "vision_config"));
  ACCEL_TRY(accel__json_string(b->file, b->config, "model_type", &type));
  if (type != NULL && strcmp(type, "davit") == 0)
    return accel__remedy(
        accel__refuse(b,
                      "field 'vision_config.model_type': 'davit' is a checkpoint of the "
                      "repository's own code"),
        "take the same model as transformers stores it: florence-community/Florence-2-base, "
        "-large, -base-ft or -large-ft");
  if (type != NULL && strcmp(type, "florence_vision") != 0)
    return accel__refuse(
        b, "field 'vision_config.model_type': '%s' is not supported; known: florence_vision", type);
  const accel__field fields[] = {
      ACCEL_FIELD_INT("projection_dim", &m->projection, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("max_position_embeddings", &m->positions, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("max_temporal_embeddings", &m->moments, 1, ACCEL__MAX_WIDTH)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__davit_read(b, &m->vision));
  const int64_t width = m->vision.widths[m->vision.stages - 1];
  if (width % 2 != 0)
    return accel__refuse(b, "field 'embed_dim': its last entry is %lld; positions need an even one",
                         (long long)width);
  return ACCEL_OK;
}

static accel_status read_text(accel__build *b, florence2 *m) {
  const char *type = NULL;
  m->text = accel__bart_defaults;
  m->text.words_given = true;
  ACCEL_TRY(accel__enter_config(b, "text_config"));
  ACCEL_TRY(accel__json_string(b->file, b->config, "model_type", &type));
  if (type != NULL && strcmp(type, "bart") != 0)
    return accel__refuse(b, "field 'text_config.model_type': '%s' is not supported; known: bart",
                         type);
  ACCEL_TRY(accel__bart_read(b, &m->text));
  if (m->text.hidden != m->projection)
    return accel__refuse(b,
                         "field 'text_config.d_model' is %lld, vision_config.projection_dim %lld",
                         (long long)m->text.hidden, (long long)m->projection);
  return ACCEL_OK;
}

/* The rows of a picture: one for each place of the last stage, and their mean. */
static accel_status picture_rows(const void *user, const int64_t *dim, uint32_t rank,
                                 const int64_t *size, int64_t *out) {
  const florence2 *m = user;
  (void)size;
  if (rank != 4)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "pixel_values has rank %u, expected 4", rank);
  *out = accel__davit_side(&m->vision, dim[2]) * accel__davit_side(&m->vision, dim[3]) + 1;
  return ACCEL_OK;
}

static accel_status read_config(accel__build *b, florence2 *m) {
  m->image_token = 51289;
  m->tied = true;
  ACCEL_TRY(read_vision(b, m));
  ACCEL_TRY(read_text(b, m));
  ACCEL_TRY(accel__enter_config(b, NULL));
  const accel__field fields[] = {
      ACCEL_FIELD_INT("image_token_id", &m->image_token, 0, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_BOOL("tie_word_embeddings", &m->tied)};
  ACCEL_TRY(accel__read_fields(b, fields, 2));
  if (m->image_token >= m->text.encoder.vocab)
    return accel__refuse(b, "field 'image_token_id' is %lld, text_config.vocab_size %lld",
                         (long long)m->image_token, (long long)m->text.encoder.vocab);
  m->image_tokens = (accel__image_tokens){.token = m->image_token,
                                          .video_token = -1,
                                          .sizes = "image_sizes",
                                          .width = 2,
                                          .rows = picture_rows,
                                          .style = ACCEL__PICTURE_FLORENCE2,
                                          .user = m};
  b->model->image_tokens = &m->image_tokens;
  return ACCEL_OK;
}

/* ---- pictures ---- */

/* The least number of pixels to a side for which the last stage has `rows` of them. */
static int64_t least_pixels(const florence2 *m, int64_t rows) {
  int64_t low = 1, high = ACCEL__MAX_WIDTH;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (accel__davit_side(&m->vision, middle) >= rows)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/* "pixel_values" [pictures, channels, H, W], no larger than the table of positions. */
static accel__tensor add_pictures(accel__build *b, const florence2 *m) {
  const int64_t least = least_pixels(m, 1), beyond = least_pixels(m, m->positions + 1),
                most = accel__davit_side(&m->vision, beyond) > m->positions ? beyond - 1 : beyond,
                typical =
                    most < 768 ? most : 768; /* as the processors of all checkpoints have it */
  b->B = accel__symbol(b->p, "images", 1, 0, 1);
  accel__dim dims[4] = {b->B, accel__const_dim(b->p, m->vision.channels),
                        accel__symbol(b->p, "H", least, most, typical),
                        accel__symbol(b->p, "W", least, most, typical)};
  return accel__add_item(b, "pixel_values", ACCEL_PLUGIN_F32, 4, dims, ACCEL__DEFAULT_REQUIRED);
}

/* The first `n` of the table <name>.weight [positions, columns], along one side of a grid. */
static accel__tensor places(accel__build *b, const florence2 *m, const char *name, int64_t columns,
                            accel__dim n, bool across, accel__grid grid) {
  accel__dim one = accel__const_dim(b->p, 1), c = accel__const_dim(b->p, columns);
  accel__tensor x = accel__table(b, 2, (int64_t[]){m->positions, columns}, name);
  x = accel__slice_dims(b, x, 0, accel__const_dim(b->p, 0), n);
  x = accel__reshape(b->p, x, 3, (accel__dim[]){across ? one : n, across ? n : one, c});
  return accel__broadcast(b, x, 3, (accel__dim[]){grid.h, grid.w, c});
}

/* Of the only moment there is: sin 0 and cos 0 in turn, unless the checkpoint says otherwise. */
static accel__tensor moment(accel__build *b, const florence2 *m, int64_t width) {
  static const char name[] = "multi_modal_projector.visual_temporal_embed.pos_idx_to_embed";
  if (b->request->checkpoint != NULL && accel__has(b, name))
    return accel__slice(b->p, accel__table(b, 2, (int64_t[]){m->moments, width}, name), 0, 0, 1);
  float *value = accel__arena_array(b->arena, (size_t)width, sizeof *value);
  if (value == NULL)
    return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for positions");
  for (int64_t i = 0; i < width; i++) value[i] = (float)(i % 2);
  return accel__constant_f32(b->p, "moment", 2, (int64_t[]){1, width}, value);
}

/* Positions of a grid, [1, n, width]: columns in front of rows. */
static accel__tensor positions(accel__build *b, const florence2 *m, int64_t width,
                               accel__grid grid) {
  accel__dim one = accel__const_dim(b->p, 1), c = accel__const_dim(b->p, width);
  accel__tensor part[2] = {
      places(b, m, "multi_modal_projector.image_position_embed.column_embeddings.weight",
             width - width / 2, grid.w, true, grid),
      places(b, m, "multi_modal_projector.image_position_embed.row_embeddings.weight", width / 2,
             grid.h, false, grid)};
  accel__tensor x = accel__reshape(b->p, accel__concat(b, 2, 2, part), 3,
                                   (accel__dim[]){one, accel__times(b, grid.h, grid.w), c});
  accel__tensor time = accel__reshape(b->p, moment(b, m, width), 3, (accel__dim[]){one, one, c});
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, time);
}

/* Rows of the pictures, [pictures * (n + 1), hidden of the text]. */
static accel__tensor look(accel__build *b, void *user) {
  const florence2 *m = user;
  const int64_t width = m->vision.widths[m->vision.stages - 1];
  accel__grid grid;
  b->in_head = false; /* names of the tower have the prefix, too */
  accel__tensor x = add_pictures(b, m);
  b->scope = "vision_tower.";
  x = accel__davit_stages(b, &m->vision, x, &grid);
  b->scope = NULL;
  if (x < 0) return -1;
  accel__at(b->p, 0, "multi_modal_projector");
  x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, positions(b, m, width, grid));
  accel__attr mean[] = {ACCEL_I(KIND, ACCEL_PLUGIN_REDUCE_MEAN), ACCEL_I(AXIS, 1),
                        ACCEL_I(KEEP, 1)};
  accel__tensor all = accel__node(b->p, ACCEL_PLUGIN_OP_REDUCE, &x, 1, mean, 3, NULL, 1);
  x = accel__concat(b, 1, 2, (accel__tensor[]){all, x});
  x = accel__dense_layer(b, x, m->projection, false, -1, NULL,
                         "multi_modal_projector.image_projection");
  x = accel__norm_layer(b, x, -1, ACCEL__TORCH_NORM_EPS, true,
                        "multi_modal_projector.image_proj_norm");
  if (x < 0) return -1;
  return accel__reshape(b->p, x, 2,
                        (accel__dim[]){accel__times(b, b->B, accel__tensor_dim(b->p, x, 1)),
                                       accel__const_dim(b->p, m->projection)});
}

static accel__tensor merge_images(accel__build *b, void *user, accel__tensor x) {
  florence2 *m = user;
  const char *scope = b->scope;
  b->scope = NULL;
  x = accel__show_rows(b, x, &m->features, m->image_token, look, m);
  accel__at(b->p, 0, "encoder");
  b->scope = scope;
  return x;
}

/* ---- the two sides ---- */

static accel__tensor encode(accel__build *b, const void *config) {
  const florence2 *m = config;
  b->scope = "language_model.";
  accel__tensor x = accel__bart_encoder(b, &m->text);
  b->scope = NULL;
  return x;
}

static accel__tensor decode(accel__build *b, const void *config, accel__tensor memory) {
  const florence2 *m = config;
  b->scope = "language_model.";
  accel__tensor x = accel__bart_decoder(b, &m->text, memory);
  b->scope = NULL;
  return x;
}

static accel__keys keys(accel__build *b, const void *config, accel__tensor memory, uint32_t i) {
  const florence2 *m = config;
  b->scope = "language_model.";
  const accel__keys kv = accel__bart_keys(b, &m->text, memory, i);
  b->scope = NULL;
  return kv;
}

static accel__tensor logits(accel__build *b, const void *config, accel__tensor x) {
  const florence2 *m = config;
  b->in_head = true;
  x = accel__head_vocabulary(b, x, m->text.decoder.vocab, m->tied, "language_model.shared",
                             "lm_head", NULL);
  b->in_head = false;
  return x;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "model."));
  florence2 *m = accel__arena_alloc(b.arena, sizeof *m);
  if (m == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  *m = (florence2){.features = -1};
  ACCEL_TRY(read_config(&b, m));
  const accel__bart *c = &m->text;
  b.images.merge = merge_images;
  b.images.merge_user = m;
  accel__add_tokens(&b, c->encoder.vocab);
  accel__add_positions(&b, c->positions, ACCEL__DEFAULT_ARANGE, 0);
  accel__add_decoder_tokens(&b, c->decoder.vocab, ACCEL__DEFAULT_START);
  accel__add_positions(&b, c->positions, ACCEL__DEFAULT_ARANGE, 0);
  accel__seq2seq how = accel__bart_seq2seq(c);
  how.config = m;
  how.encoder = encode;
  how.decoder = decode;
  how.keys = keys;
  how.logits = logits;
  return accel__seq2seq_build(&b, &how);
}

static const char *const classes[] = {"Florence2Model", "Florence2ForConditionalGeneration", NULL};
const accel__architecture accel__model_florence2 = {
    .model_type = "florence2", .classes = classes, .build = build};
