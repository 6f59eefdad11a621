/* qwen3_vl.c - Qwen3-VL and its MoE (transformers' Qwen3VLModel, Qwen3VLMoeModel and their
 * ForConditionalGeneration): a tower over the patches of pictures of any size, whose position table
 * is resized to each of them, and Qwen3 with interleaved M-RoPE.  Rows of the pictures, merged
 * behind some layers of the tower, are added to the first layers of the text, too (DeepStack). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "modeling/decoder.h"
#include "models/patch_grid.h"

enum { MAX_STACK = 64 };

typedef struct qwen3_vl {
  accel__decoder *text;
  accel__patch_grid grid;
  int64_t width, channels, patch, temporal, layers; /* of the tower */
  int64_t positions, side;           /* rows of its position table, which is side x side */
  int64_t stack[MAX_STACK], n_stack; /* layers behind which rows are merged for the text */
  accel__block block;
  accel__rope rope;
  accel__derived lengths, places, corners, shares, remainders;
  accel__image_tokens image_tokens;
  /* rows [patches / merge^2, hidden of the text]: of the whole tower, and for layers of the text */
  accel__tensor features, stacked[MAX_STACK];
  uint32_t n_stacked;
} qwen3_vl;

static const accel__rename base[] = {{"model.language_model.", "language_model."}, {NULL, NULL}};
static const accel__rename tower[] = {{"visual.", "model.visual."}, {NULL, NULL}};

/* ---- config ---- */

/* What the text configs of both have alike. */
#define TEXT_DEFAULTS                                                                         \
  .vocab = 151936, .positions = 128000, .eps = 1e-6, .theta = 500000.0, .bos = -1, .eos = -1, \
  .pad = -1, .mrope = true, .qk_norm = ACCEL__QK_NORM_HEADS, .act = {.act = ACCEL_PLUGIN_ACT_SILU}

static const accel__decoder dense_defaults = {.hidden = 4096,
                                              .layers = 32,
                                              .heads = 32,
                                              .kv_heads = 32,
                                              .head_dim = 128,
                                              .inner = 22016,
                                              TEXT_DEFAULTS};
static const accel__decoder moe_defaults = {
    .hidden = 2048,
    .layers = 24,
    .heads = 16,
    .kv_heads = 16,
    .inner = 5632,
    .experts = {.n = 60, .per_token = 4, .inner = 1408, .maybe_crosswise = true},
    TEXT_DEFAULTS};

static accel_status read_text(accel__build *b, const char *family, bool experts,
                              accel__decoder *c) {
  const char *type = NULL;
  *c = experts ? moe_defaults : dense_defaults;
  ACCEL_TRY(accel__enter_config(b, "text_config"));
  ACCEL_TRY(accel__json_string(b->file, b->config, "model_type", &type));
  ACCEL_TRY(accel__patch_grid_type(b, "text_config.model_type", type, family, "text"));
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__decoder_read_attention_bias(b, c));
  b->rope.interleaved = true;
  ACCEL_TRY(accel__decoder_read_rope(b, c));
  if (c->rope[0].length > 0)
    return accel__refuse(
        b, "rope types that change with the length of the text are not supported with M-RoPE");
  if (experts) ACCEL_TRY(accel__decoder_read_experts(b, c));
  c->experts.normalise = true; /* whatever norm_topk_prob says */
  c->tied = false;             /* the whole model's field, not the text's */
  ACCEL_TRY(accel__enter_config(b, NULL));
  return accel__json_bool(b->file, b->config, "tie_word_embeddings", &c->tied);
}

/* deepstack_visual_indexes. */
static accel_status read_stack(accel__build *b, qwen3_vl *m) {
  const accel__json *list = NULL;
  m->n_stack = 3;
  memcpy(m->stack, (int64_t[]){8, 16, 24}, 3 * sizeof *m->stack);
  ACCEL_TRY(accel__json_array(b->file, b->config, "deepstack_visual_indexes", &list));
  if (list == NULL) return ACCEL_OK;
  m->n_stack = cJSON_GetArraySize(list);
  if (m->n_stack > MAX_STACK)
    return accel__refuse(b, "field 'vision_config.deepstack_visual_indexes' has %lld entries",
                         (long long)m->n_stack);
  return accel__read_ints(b, "deepstack_visual_indexes", m->n_stack, 0, ACCEL__MAX_LAYERS,
                          m->stack);
}

static accel_status read_tower(accel__build *b, const char *family, qwen3_vl *m) {
  int64_t heads = 16, out = 3584;
  const char *type = NULL;
  m->width = 1152;
  m->layers = 27;
  m->channels = 3;
  m->patch = 16;
  m->temporal = m->grid.merge = 2;
  m->positions = 2304;
  m->block = (accel__block){.q = "attn.qkv",
                            .o = "attn.proj",
                            .norm1 = "norm1",
                            .norm2 = "norm2",
                            .up = "mlp.linear_fc1",
                            .down = "mlp.linear_fc2",
                            .inner = 4304,
                            .eps = 1e-6,
                            .qkv_bias = true,
                            .o_bias = true,
                            .rope = &m->rope,
                            .act = {.act = ACCEL_PLUGIN_ACT_GELU_TANH}};
  ACCEL_TRY(accel__enter_config(b, "vision_config"));
  const accel__field fields[] = {
      ACCEL_FIELD_STRING("model_type", &type),
      ACCEL_FIELD_INT("num_hidden_layers", &m->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("depth", &m->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("hidden_size", &m->width, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("out_hidden_size", &out, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("intermediate_size", &m->block.inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_attention_heads", &heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_heads", &heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("in_channels", &m->channels, 1, 64),
      ACCEL_FIELD_INT("patch_size", &m->patch, 1, 256),
      ACCEL_FIELD_INT("temporal_patch_size", &m->temporal, 1, 64),
      ACCEL_FIELD_INT("spatial_merge_size", &m->grid.merge, 1, 64),
      ACCEL_FIELD_INT("num_position_embeddings", &m->positions, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_ACT("hidden_act", &m->block.act)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__patch_grid_type(b, "vision_config.model_type", type, family, "vision"));
  ACCEL_TRY(
      accel__divides(b, "vision_config.num_heads", heads, "vision_config.hidden_size", m->width));
  if (out != m->text->hidden)
    return accel__refuse(
        b, "field 'vision_config.out_hidden_size' is %lld, but the text has hidden_size %lld",
        (long long)out, (long long)m->text->hidden);
  m->side = (int64_t)sqrt((double)m->positions);
  m->block.hidden = m->width;
  m->block.heads = heads;
  ACCEL_TRY(read_stack(b, m));
  return accel__patch_grid_rope(b, m->width / heads, &m->rope);
}

/* ---- the position table at the size of each picture ---- */

/* Where place `at` of `n` lies in the table's `side`: between *low and *high, the share of *high
 * returned; in single precision, as torch counts it (bilinear, align_corners). */
static float between(int64_t at, int64_t n, int64_t side, int64_t *low, int64_t *high) {
  const float where = (float)at * (float)(side - 1) / (float)(n > 1 ? n - 1 : 1);
  *low = (int64_t)floorf(where);
  *high = *low + 1 < side ? *low + 1 : side - 1;
  return where - floorf(where);
}

/* Shares are integers of FINE * FINE for 1, which single precision holds exactly: a quotient by FINE
 * and a remainder, as halves, which an NPU computes in, end at 65,504. */
enum { FINE = 4096 };

typedef enum corner { CORNER_ROW, CORNER_SHARE, CORNER_REMAINDER } corner;

static int32_t share_of(float share, corner what) {
  const int32_t whole = (int32_t)lrintf(share * FINE * FINE);
  return what == CORNER_SHARE ? whole / FINE : whole % FINE;
}

/* [4, patches]: the four rows of the table around each patch, or what each of them has in its
 * position. */
static accel_status corners_of(const qwen3_vl *m, const int64_t *values, uint64_t n,
                               const int64_t *dim, uint32_t rank, corner what, accel__arena *arena,
                               int32_t **out, int64_t *n_out) {
  int64_t frames, patches;
  ACCEL_TRY(accel__patch_grid_count(&m->grid, values, n, dim, rank, &frames, &patches));
  *n_out = 4 * patches;
  int32_t *to = *out = accel__arena_array(arena, (size_t)*n_out, sizeof *to);
  int32_t *y = accel__arena_array(arena, 2 * (size_t)patches, sizeof *y), *x = y + patches;
  if (to == NULL || y == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel__patch_grid_places(&m->grid, values, n, y, x);
  for (uint64_t i = 0, k = 0; i < n / 3; i++) {
    const int64_t h = values[3 * i + 1], w = values[3 * i + 2];
    for (int64_t left = values[3 * i] * h * w; left > 0; left--, k++) {
      int64_t row[2], column[2];
      const float down = between(y[k], h, m->side, &row[0], &row[1]),
                  across = between(x[k], w, m->side, &column[0], &column[1]);
      for (int c = 0; c < 4; c++) {
        const float share = (c / 2 ? down : 1.0f - down) * (c % 2 ? across : 1.0f - across);
        to[(uint64_t)c * (uint64_t)patches + k] =
            what == CORNER_ROW ? (int32_t)(row[c / 2] * m->side + column[c % 2])
                               : share_of(share, what);
      }
    }
  }
  return ACCEL_OK;
}

static accel_status corner_rows(const void *user, const int64_t *values, uint64_t n,
                                const int64_t *dim, uint32_t rank, accel__arena *arena,
                                int32_t **out, int64_t *n_out) {
  return corners_of(user, values, n, dim, rank, CORNER_ROW, arena, out, n_out);
}

static accel_status corner_shares(const void *user, const int64_t *values, uint64_t n,
                                  const int64_t *dim, uint32_t rank, accel__arena *arena,
                                  int32_t **out, int64_t *n_out) {
  return corners_of(user, values, n, dim, rank, CORNER_SHARE, arena, out, n_out);
}

static accel_status corner_remainders(const void *user, const int64_t *values, uint64_t n,
                                      const int64_t *dim, uint32_t rank, accel__arena *arena,
                                      int32_t **out, int64_t *n_out) {
  return corners_of(user, values, n, dim, rank, CORNER_REMAINDER, arena, out, n_out);
}

/* A derived input of integers, of `whole` for 1. */
static accel__tensor fraction(accel__build *b, const char *name, accel__dim dim,
                              const accel__derived *how, double whole) {
  accel__tensor x = accel__add_derived(b, name, 1, &dim, how);
  return accel__affine(b, accel__cast(b, x, ACCEL_PLUGIN_F32), 1.0 / whole, 0.0);
}

/* [patches, width] */
static accel__tensor positions(accel__build *b, const qwen3_vl *m, accel__dim patches) {
  accel__program *p = b->p;
  accel__dim one = accel__const_dim(p, 1), four = accel__const_dim(p, 4),
             width = accel__const_dim(p, m->width), all = accel__times(b, four, patches);
  accel__tensor rows = accel__add_derived(b, "corner_rows", 1, &all, &m->corners);
  accel__tensor share =
      accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, fraction(b, "corner_shares", all, &m->shares, FINE),
                    fraction(b, "corner_remainders", all, &m->remainders, (double)FINE * FINE));
  const int64_t dims[2] = {m->positions, m->width};
  accel__tensor table = accel__table(b, 2, dims, "pos_embed.weight");
  share = accel__reshape(p, share, 2, (accel__dim[]){all, one});
  accel__tensor x = accel__binary(p, ACCEL_PLUGIN_BINARY_MUL, accel__gather(p, table, rows), share);
  x = accel__reshape(p, x, 3, (accel__dim[]){four, patches, width});
  accel__attr sum[] = {ACCEL_I(KIND, ACCEL_PLUGIN_REDUCE_SUM), ACCEL_I(AXIS, 0)};
  return accel__node(p, ACCEL_PLUGIN_OP_REDUCE, &x, 1, sum, 2, NULL, 1);
}

/* ---- the tower ---- */

/* Neighbours side by side, then projected: [patches, width] -> [merged, hidden of the text]; the
 * norm is of single patches, or of those that merge. */
static accel__tensor merge(accel__build *b, const qwen3_vl *m, accel__tensor x, accel__dim merged,
                           bool joint_norm, const char *name) {
  const int64_t columns = m->grid.merge * m->grid.merge * m->width;
  const accel__dim dims[2] = {merged, accel__const_dim(b->p, columns)};
  if (joint_norm) x = accel__reshape(b->p, x, 2, dims);
  x = accel__norm_layer(b, x, -1, m->block.eps, true, "%s.norm", name);
  if (!joint_norm) x = accel__reshape(b->p, x, 2, dims);
  x = accel__dense_layer(b, x, columns, true, -1,
                         &(accel__activation){.act = ACCEL_PLUGIN_ACT_GELU}, "%s.linear_fc1", name);
  return accel__dense_layer(b, x, m->text->hidden, true, -1, NULL, "%s.linear_fc2", name);
}

/* Which merger layer `i` has for the text; -1: none. */
static int64_t stack_of(const qwen3_vl *m, int64_t i) {
  for (int64_t k = 0; k < m->n_stack; k++)
    if (m->stack[k] == i) return k;
  return -1;
}

static accel__tensor look(accel__build *b, void *user) {
  qwen3_vl *m = user;
  accel__program *p = b->p;
  accel__dim merged;
  int32_t space;
  accel__tensor x =
      accel__patch_grid_inputs(b, &m->grid, m->channels * m->temporal * m->patch * m->patch,
                               &m->lengths, &m->places, &merged, &space);
  b->scope = "visual.";
  b->space = space;
  accel__tensor at =
      positions(b, m, accel__times(b, merged, accel__const_dim(p, m->grid.merge * m->grid.merge)));
  /* [patches, width] */
  x = accel__dense_layer(b, x, m->width, true, at, NULL, "patch_embed.proj");
  for (int64_t i = 0; i < m->layers; i++) {
    char name[48];
    accel__at(p, 0, "visual.blocks.%u", (uint32_t)i);
    x = accel__pre_norm_block(b, &m->block, x, "blocks.%u", (uint32_t)i);
    if (stack_of(m, i) < 0) continue;
    snprintf(name, sizeof name, "deepstack_merger_list.%u", (uint32_t)stack_of(m, i));
    m->stacked[m->n_stacked++] = merge(b, m, x, merged, true, name);
  }
  accel__at(p, 0, "visual.merger");
  x = merge(b, m, x, merged, false, "merger");
  b->scope = NULL;
  accel__at(p, 0, "embeddings");
  return x;
}

static accel__tensor merge_images(accel__build *b, void *user, accel__tensor x) {
  qwen3_vl *m = user;
  return accel__show_rows(b, x, &m->features, m->grid.image_token, look, m);
}

static accel__tensor add_images(accel__build *b, void *user, accel__tensor x, uint32_t layers) {
  const qwen3_vl *m = user;
  return layers > 0 && layers <= m->n_stacked
             ? accel__plus_rows(b, x, m->stacked[layers - 1], m->grid.image_token)
             : x;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  const bool experts = strncmp(architecture, "Qwen3VLMoe", 10) == 0;
  const char *family = experts ? "qwen3_vl_moe" : "qwen3_vl";
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "model.language_model."));
  qwen3_vl *m = accel__arena_alloc(b.arena, sizeof *m);
  if (m == NULL || (m->text = accel__arena_alloc(b.arena, sizeof *m->text)) == NULL)
    return ACCEL_ERROR_OUT_OF_MEMORY;
  m->features = -1;
  m->grid.image_token = 151655;
  m->grid.video_token = 151656;
  m->grid.shows_frames = true;
  b.spelling[0] = base;
  b.spelling[1] = tower;
  ACCEL_TRY(read_text(&b, family, experts, m->text));
  ACCEL_TRY(read_tower(&b, family, m));
  ACCEL_TRY(accel__enter_config(&b, NULL));
  const accel__field fields[] = {
      ACCEL_FIELD_INT("image_token_id", &m->grid.image_token, 0, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("video_token_id", &m->grid.video_token, 0, ACCEL__MAX_VOCAB)};
  ACCEL_TRY(accel__read_fields(&b, fields, sizeof fields / sizeof *fields));
  m->lengths = m->places = m->corners = m->shares = m->remainders =
      (accel__derived){.from = "image_grid_thw", .shape_of = "pixel_values", .user = &m->grid};
  m->lengths.make = accel__patch_grid_frames;
  m->places.make = accel__patch_grid_positions;
  m->places.lines = 3;
  m->corners.user = m->shares.user = m->remainders.user = m;
  m->corners.make = corner_rows;
  m->shares.make = corner_shares;
  m->remainders.make = corner_remainders;
  m->image_tokens = accel__patch_grid_tokens(&m->grid);
  model->image_tokens = &m->image_tokens;
  b.images.merge = merge_images;
  b.images.add = add_images;
  b.images.merge_user = m;
  return accel__decoder_build(&b, m->text);
}

static const char *const classes[] = {"Qwen3VLModel", "Qwen3VLForConditionalGeneration", NULL};
const accel__architecture accel__model_qwen3_vl = {
    .model_type = "qwen3_vl", .classes = classes, .build = build};
static const char *const moe_classes[] = {"Qwen3VLMoeModel", "Qwen3VLMoeForConditionalGeneration",
                                          NULL};
const accel__architecture accel__model_qwen3_vl_moe = {
    .model_type = "qwen3_vl_moe", .classes = moe_classes, .build = build};
