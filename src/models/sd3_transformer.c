/* sd3_transformer.c - SD3Transformer2DModel of diffusers: the transformer of Stable Diffusion 3 and
 * 3.5 (Esser et al., 2403.03206). */
#include <stdio.h>
#include <string.h>

#include "models/diffusion.h"
#include "models/joint_transformer.h"

typedef struct sd3 {
  int64_t side, patch, in, out, layers, head_dim, heads, text, caption, pooled, grid;
  accel__head_norm norm;
  bool *dual; /* [layers] a second attention, of the picture to itself */
} sd3;

static accel_status read_norm(const accel__build *b, sd3 *c) {
  const char *name = NULL;
  ACCEL_TRY(accel__json_string(b->file, b->config, "qk_norm", &name));
  if (name == NULL) return ACCEL_OK;
  c->norm = strcmp(name, "rms_norm") == 0 ? ACCEL__HEADS_RMS : ACCEL__HEADS_LAYER;
  if (c->norm == ACCEL__HEADS_RMS || strcmp(name, "layer_norm") == 0) return ACCEL_OK;
  return accel__refuse(b, "field 'qk_norm': '%s' is not supported; known: rms_norm, layer_norm",
                       name);
}

static accel_status read_dual(const accel__build *b, sd3 *c) {
  const accel__json *list = NULL;
  ACCEL_TRY(accel__json_array(b->file, b->config, "dual_attention_layers", &list));
  c->dual = accel__arena_array(b->arena, (size_t)c->layers, sizeof *c->dual);
  if (c->dual == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  memset(c->dual, 0, (size_t)c->layers * sizeof *c->dual);
  ACCEL_JSON_EACH(item, list) {
    const double at = cJSON_IsNumber(item) ? item->valuedouble : -1;
    for (int64_t i = 0; i < c->layers; i++)
      if (at == (double)i) c->dual[i] = true; /* others name no layer, as in diffusers */
  }
  return ACCEL_OK;
}

static accel_status read_config(accel__build *b, sd3 *c) {
  *c = (sd3){.side = 128,
             .patch = 2,
             .in = 16,
             .out = 16,
             .layers = 18,
             .head_dim = 64,
             .heads = 18,
             .text = 4096,
             .caption = 1152,
             .pooled = 2048,
             .grid = 96};
  const int64_t most = ACCEL__MAX_WIDTH;
  const accel__field fields[] = {ACCEL_FIELD_INT("sample_size", &c->side, 1, most),
                                 ACCEL_FIELD_INT("patch_size", &c->patch, 1, 64),
                                 ACCEL_FIELD_INT("in_channels", &c->in, 1, most),
                                 ACCEL_FIELD_INT("out_channels", &c->out, 1, most),
                                 ACCEL_FIELD_INT("num_layers", &c->layers, 1, ACCEL__MAX_LAYERS),
                                 ACCEL_FIELD_INT("attention_head_dim", &c->head_dim, 1, most),
                                 ACCEL_FIELD_INT("num_attention_heads", &c->heads, 1, 1 << 16),
                                 ACCEL_FIELD_INT("joint_attention_dim", &c->text, 1, most),
                                 ACCEL_FIELD_INT("caption_projection_dim", &c->caption, 1, most),
                                 ACCEL_FIELD_INT("pooled_projection_dim", &c->pooled, 1, most),
                                 ACCEL_FIELD_INT("pos_embed_max_size", &c->grid, 1, 1 << 14)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  if (accel__is_null(b, "out_channels")) c->out = c->in;
  if (accel__is_null(b, "pos_embed_max_size"))
    return accel__refuse(b, "field 'pos_embed_max_size': null is not supported");
  if (c->caption != c->heads * c->head_dim)
    return accel__refuse(b,
                         "field 'caption_projection_dim' (%lld) is not num_attention_heads * "
                         "attention_head_dim (%lld)",
                         (long long)c->caption, (long long)(c->heads * c->head_dim));
  b->model->hidden_size = c->caption;
  ACCEL_TRY(read_norm(b, c));
  return read_dual(b, c);
}

/* Patches of the latents [B,in,H,W] with the middle of the position table: [B,h*w,hidden]. */
static accel__tensor patches(accel__build *b, const sd3 *c, accel__tensor x, accel__dim *h,
                             accel__dim *w) {
  const int64_t n = c->caption, dims[3] = {1, c->grid * c->grid, n};
  const accel__conv cut = {
      .out = n, .kernel = {c->patch, c->patch}, .stride = {c->patch, c->patch}, .bias = true};
  const accel__dim grid = accel__const_dim(b->p, c->grid), two = accel__const_dim(b->p, 2);
  x = accel__conv2d(b, x, &cut, "pos_embed.proj");
  if (x < 0) return -1;
  accel__dim *side[2] = {h, w};
  accel__tensor table = accel__table(b, 3, dims, "pos_embed.pos_embed");
  table = accel__reshape(b->p, table, 3, (accel__dim[]){grid, grid, accel__const_dim(b->p, n)});
  for (int axis = 0; axis < 2; axis++) {
    *side[axis] = accel__tensor_dim(b->p, x, 2 + axis);
    const accel__dim from =
        accel__dim_op(b->p, ACCEL_PLUGIN_DIM_FLOORDIV,
                      accel__dim_op(b->p, ACCEL_PLUGIN_DIM_SUB, grid, *side[axis]), two);
    table = accel__slice_dims(b, table, axis, from,
                              accel__dim_op(b->p, ACCEL_PLUGIN_DIM_ADD, from, *side[axis]));
  }
  x = accel__planes_to_items(b, x);
  if (x < 0) return -1;
  table = accel__reshape(b->p, table, 3,
                         (accel__dim[]){accel__const_dim(b->p, 1), accel__tensor_dim(b->p, x, 1),
                                        accel__const_dim(b->p, n)});
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, table);
}

/* Patches [B,h*w,patch*patch*out] side by side: [B,out,h*patch,w*patch]. */
static accel__tensor planes(accel__build *b, const sd3 *c, accel__tensor x, accel__dim h,
                            accel__dim w) {
  const accel__dim p = accel__const_dim(b->p, c->patch), out = accel__const_dim(b->p, c->out);
  x = accel__reshape(b->p, x, 6, (accel__dim[]){b->B, h, w, p, p, out});
  x = accel__transpose(b, x, 6, (int64_t[]){0, 5, 1, 3, 2, 4});
  return accel__reshape(b->p, x, 4,
                        (accel__dim[]){b->B, out, accel__times(b, h, p), accel__times(b, w, p)});
}

/* What is behind the blocks. */
static accel__tensor finish(accel__build *b, const sd3 *c, const accel__joint *how, accel__tensor x,
                            accel__dim h, accel__dim w) {
  accel__at(b->p, (uint32_t)c->layers + 1, "%sproj_out", b->scope != NULL ? b->scope : "");
  return planes(b, c, accel__joint_output(b, how, x, c->patch * c->patch * c->out), h, w);
}

/* A block: *x and *text are the streams; behind the last one there is no text any more. */
static void block(accel__build *b, const sd3 *c, const accel__joint *how,
                  const accel__joint_space space[2], int64_t i, accel__tensor *x,
                  accel__tensor *text) {
  enum { SHIFT, SCALE, GATE, MLP, SHIFT2 = 6, SCALE2, GATE2, PARTS };
  char path[64], name[96];
  const bool last = i + 1 == c->layers, dual = c->dual[i];
  accel__tensor part[PARTS], of_text[6];
  snprintf(path, sizeof path, "transformer_blocks.%lld", (long long)i);
  accel__at(b->p, (uint32_t)i + 1, "%s%s", b->scope != NULL ? b->scope : "", path);
  snprintf(name, sizeof name, "%s.norm1", path);
  accel__joint_modulations(b, how, dual ? 9 : 6, part, name);
  snprintf(name, sizeof name, "%s.norm1_context", path);
  accel__joint_modulations(b, how, last ? 2 : 6, of_text, name);
  const accel__tensor normed = accel__joint_norm(b, *x), words = accel__joint_norm(b, *text);
  accel__joint_stream stream[2] = {accel__joint_picture, accel__joint_text};
  stream[0].x = accel__joint_shifted(b, normed, part[SHIFT], part[SCALE]);
  /* the last one's norm has the scale first */
  stream[1].x =
      accel__joint_shifted(b, words, of_text[last ? 1 : SHIFT], of_text[last ? 0 : SCALE]);
  if (last) stream[1].out = NULL;
  snprintf(name, sizeof name, "%s.attn", path);
  accel__joint_attend(b, how, &space[0], stream, 2, name);
  *x = accel__joint_gated(b, *x, part[GATE], stream[0].x);
  if (dual) {
    accel__joint_stream own = accel__joint_picture;
    own.x = accel__joint_shifted(b, normed, part[SHIFT2], part[SCALE2]);
    snprintf(name, sizeof name, "%s.attn2", path);
    accel__joint_attend(b, how, &space[1], &own, 1, name);
    *x = accel__joint_gated(b, *x, part[GATE2], own.x);
  }
  snprintf(name, sizeof name, "%s.ff", path);
  *x = accel__joint_feed_forward(b, *x, part + MLP, name);
  if (last) return;
  *text = accel__joint_gated(b, *text, of_text[GATE], stream[1].x);
  snprintf(name, sizeof name, "%s.ff_context", path);
  *text = accel__joint_feed_forward(b, *text, of_text + MLP, name);
}

/* Layer i left out where skipped[i] is 1: *x and *text as they were before it, else as they are now. */
static void leave_out(accel__build *b, accel__tensor skipped, int64_t i,
                      const accel__tensor before[2], accel__tensor *x, accel__tensor *text) {
  const accel__tensor old = accel__slice(b->p, skipped, 0, i, i + 1),
                      new = accel__affine(b, old, -1.0, 1.0);
  accel__tensor *const now[2] = {x, text};
  for (int k = 0; k < 2; k++)
    if (*now[k] != before[k])
      *now[k] = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD,
                              accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, before[k], old),
                              accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, *now[k], new));
}

accel_status accel__sd3_transformer(accel__build *b, accel__tensor *out) {
  return accel__sd3_transformer_skipping(b, out, NULL);
}

accel_status accel__sd3_transformer_skipping(accel__build *b, accel__tensor *out,
                                             accel__tensor *skipping) {
  sd3 c;
  ACCEL_TRY(read_config(b, &c));
  const int64_t most = c.grid * c.patch;
  b->B = accel__symbol(b->p, b->input_ids >= 0 ? "images" : "B", 1, 0, 1);
  const accel__dim dims[4] = {
      b->B, accel__const_dim(b->p, c.in),
      accel__symbol(b->p, "H", c.patch, most, c.side < most ? c.side : most),
      accel__symbol(b->p, "W", c.patch, most, c.side < most ? c.side : most)};
  accel__at(b->p, 0, "%spos_embed", b->scope != NULL ? b->scope : "");
  accel__tensor x = accel__add_item(b, "hidden_states", ACCEL_PLUGIN_F32, 4, dims,
                                    ACCEL__DEFAULT_REQUIRED),
                text = accel__joint_context(b, c.text, c.caption),
                pooled = accel__joint_item(b, "pooled_projections", c.pooled),
                timestep = accel__joint_item(b, "timestep", 0);
  accel__joint how = {.hidden = c.caption,
                      .heads = c.heads,
                      .norm = c.norm,
                      .time = accel__joint_time(b, c.caption, timestep, -1, pooled),
                      .angles = -1};
  accel__dim h = -1, w = -1;
  x = patches(b, &c, x, &h, &w);
  if (x < 0 || text < 0) return ACCEL_OK; /* accel__build_end says why */
  const accel__dim rows = accel__tensor_dim(b->p, x, 1),
                   all = accel__dim_op(b->p, ACCEL_PLUGIN_DIM_ADD, rows,
                                       accel__tensor_dim(b->p, text, 1));
  const accel__joint_space space[2] = {accel__joint_space_of(b, all, "positions and text"),
                                       accel__joint_space_of(b, rows, "positions")};
  const accel__tensor first[2] = {x, text};
  for (int64_t i = 0; i < c.layers; i++) block(b, &c, &how, space, i, &x, &text);
  *out = finish(b, &c, &how, x, h, w);
  if (skipping == NULL) return ACCEL_OK;
  const accel__dim layers = accel__const_dim(b->p, c.layers);
  const accel__tensor skipped =
      accel__add_item(b, "skip_layers", ACCEL_PLUGIN_F32, 1, &layers, ACCEL__DEFAULT_REQUIRED);
  x = first[0];
  text = first[1];
  for (int64_t i = 0; i < c.layers; i++) {
    const accel__tensor before[2] = {x, text};
    block(b, &c, &how, space, i, &x, &text);
    leave_out(b, skipped, i, before, &x, &text);
  }
  *skipping = finish(b, &c, &how, x, h, w);
  return ACCEL_OK;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__denoiser_model(request, architecture, model, accel__sd3_transformer);
}

static const char *const classes[] = {"SD3Transformer2DModel", NULL};
const accel__architecture accel__model_sd3_transformer = {
    .model_type = "sd3_transformer", .classes = classes, .build = build};
