/* unet_blocks.c - the blocks of diffusers' UNets and autoencoders. */
#include "models/unet_blocks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 256 };

const accel__rename accel__unet_old_attention[] = {{"to_q.", "query."},
                                                   {"to_k.", "key."},
                                                   {"to_v.", "value."},
                                                   {"to_out.0.", "proj_attn."},
                                                   {NULL, NULL}};

const accel__activation accel__unet_silu = {.act = ACCEL_PLUGIN_ACT_SILU};

/* ---- config ---- */

accel_status accel__read_one_or_more(const accel__build *b, const char *key, int64_t n, int64_t min,
                                     int64_t max, int64_t *io) {
  if (cJSON_IsArray(accel__json_get(b->config, key)))
    return accel__read_ints(b, key, n, min, max, io);
  int64_t one = -1;
  ACCEL_TRY(accel__json_int(b->file, b->config, key, min, max, &one));
  for (int64_t i = 0; i < n && one >= 0; i++) io[i] = one;
  return ACCEL_OK;
}

bool accel__is_null(const accel__build *b, const char *key) {
  return cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(b->config, key));
}

accel_status accel__read_level_count(const accel__build *b, int64_t *io) {
  const accel__json *list = NULL;
  ACCEL_TRY(accel__json_array(b->file, b->config, "block_out_channels", &list));
  if (list != NULL) *io = cJSON_GetArraySize(list);
  if (*io >= 1 && *io <= ACCEL__UNET_LEVELS) return ACCEL_OK;
  return accel__refuse(b, "field 'block_out_channels' has %lld entries", (long long)*io);
}

accel_status accel__read_names(const accel__build *b, const char *key, int64_t n,
                               const char *const *known, int64_t *io) {
  const accel__json *list = NULL;
  ACCEL_TRY(accel__read_list(b, key, n, &list));
  int64_t i = 0;
  ACCEL_JSON_EACH(item, list) {
    const char *name = cJSON_IsString(item) ? item->valuestring : "";
    for (io[i] = 0; known[io[i]] != NULL && strcmp(known[io[i]], name) != 0;) io[i]++;
    if (known[io[i]] == NULL)
      return accel__refuse(b,
                           "field '%s': '%s' is not supported; the nearest supported one is '%s'",
                           key, name, accel__nearest(name, known, (size_t)io[i]));
    i++;
  }
  return ACCEL_OK;
}

/* ---- maps ---- */

static int64_t channels_of(const accel__build *b, accel__tensor x) {
  int64_t n = 0;
  return x >= 0 && accel__dim_value(b->p, accel__tensor_dim(b->p, x, 1), &n) ? n : 0;
}

static accel__conv conv(int64_t out, int64_t kernel) {
  return (accel__conv){
      .out = out, .kernel = {kernel, kernel}, .pad = {kernel / 2, kernel / 2}, .bias = true};
}

accel__tensor accel__unet_norm(accel__build *b, accel__tensor x, int64_t groups, double eps,
                               const accel__activation *act, const char *name) {
  char full[NAME_BYTES + 16];
  const int64_t n = channels_of(b, x);
  if (groups > 0 && n % groups != 0)
    return accel__program_fail(b->p, ACCEL_ERROR_FORMAT,
                               "%s: field 'norm_num_groups' (%lld) does not divide %lld channels",
                               b->file->name != NULL ? b->file->name : "config.json",
                               (long long)groups, (long long)n);
  snprintf(full, sizeof full, "%s.weight", name);
  accel__tensor in[3] = {x, accel__table(b, 1, &n, full), -1};
  snprintf(full, sizeof full, "%s.bias", name);
  in[2] = accel__table(b, 1, &n, full);
  const bool fused = act != NULL && act->then == 0 && act->alpha == 0;
  accel__attr attr[] = {ACCEL_I(GROUPS, groups), ACCEL_F(EPS, eps),
                        ACCEL_I(ACT, fused ? act->act : ACCEL_PLUGIN_ACT_NONE)};
  x = accel__node(b->p, ACCEL_PLUGIN_OP_GROUP_NORM, in, 3, attr, fused ? 3 : 2, NULL, 1);
  return act != NULL && !fused ? accel__activate(b, x, act) : x;
}

accel__tensor accel__unet_downsample(accel__build *b, accel__tensor x, int64_t pad,
                                     const char *path) {
  accel__conv halve = conv(channels_of(b, x), 3);
  halve.stride = (accel__size2){2, 2};
  halve.pad = (accel__size2){pad, pad};
  if (pad == 0) {
    const int64_t behind[8] = {0, 0, 0, 0, 0, 0, 1, 1};
    accel__attr attr[] = {ACCEL_IV(PADS, behind, 8), ACCEL_I(KIND, ACCEL_PLUGIN_PAD_CONSTANT)};
    x = accel__node(b->p, ACCEL_PLUGIN_OP_PAD, &x, 1, attr, 2, NULL, 1);
  }
  return accel__conv2d(b, x, &halve, "%s.conv", path);
}

accel__tensor accel__unet_upsample(accel__build *b, accel__tensor x, accel__dim h, accel__dim w,
                                   const char *path) {
  const int64_t shape[2] = {h, w};
  const accel__conv smooth = conv(channels_of(b, x), 3);
  accel__attr attr[] = {ACCEL_I(KIND, ACCEL_PLUGIN_RESIZE_NEAREST), ACCEL_D(SHAPE, shape, 2)};
  x = accel__node(b->p, ACCEL_PLUGIN_OP_RESIZE, &x, 1, attr, 2, NULL, 1);
  return accel__conv2d(b, x, &smooth, "%s.conv", path);
}

static accel__tensor divided(accel__build *b, accel__tensor x, double by) {
  return by == 1.0 ? x : accel__affine(b, x, 1.0 / by, 0.0);
}

/* [B,C] -> [B,C,1,1] */
static accel__tensor as_planes(accel__build *b, accel__tensor x) {
  if (x < 0) return -1;
  const accel__dim one = accel__const_dim(b->p, 1);
  return accel__reshape(
      b->p, x, 4,
      (accel__dim[]){accel__tensor_dim(b->p, x, 0), accel__tensor_dim(b->p, x, 1), one, one});
}

accel__tensor accel__unet_resnet_block(accel__build *b, const accel__unet_resnet *how,
                                       accel__tensor x, int64_t out, const char *path) {
  char name[NAME_BYTES];
  accel__conv c = conv(out, 3);
  accel__tensor residual = x, time = -1;
  snprintf(name, sizeof name, "%s.norm1", path);
  accel__tensor y = accel__unet_norm(b, x, how->groups, how->eps, &how->act, name);
  y = accel__conv2d(b, y, &c, "%s.conv1", path);
  if (how->time >= 0)
    time = accel__dense_layer(b, how->time, how->scale_shift ? 2 * out : out, true, -1, NULL,
                              "%s.time_emb_proj", path);
  if (time >= 0 && !how->scale_shift)
    y = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, y, as_planes(b, time));
  snprintf(name, sizeof name, "%s.norm2", path);
  if (time >= 0 && how->scale_shift) {
    const accel__tensor scale = accel__affine(b, accel__slice(b->p, time, 1, 0, out), 1.0, 1.0),
                        shift = accel__slice(b->p, time, 1, out, 2 * out);
    y = accel__unet_norm(b, y, how->groups, how->eps, NULL, name);
    y = accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, y, as_planes(b, scale));
    y = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, y, as_planes(b, shift));
    y = accel__activate(b, y, &how->act);
  } else {
    y = accel__unet_norm(b, y, how->groups, how->eps, &how->act, name);
  }
  if (channels_of(b, x) != out) {
    const accel__conv shortcut = conv(out, 1);
    residual = accel__conv2d(b, x, &shortcut, "%s.conv_shortcut", path);
  }
  c.residual = residual;
  return divided(b, accel__conv2d(b, y, &c, "%s.conv2", path), how->output_scale);
}

/* ---- attention ---- */

/* Planes [B,C,H,W] -> rows [B*H*W, C] of a new space, which becomes b->space. */
static accel__tensor to_rows(accel__build *b, accel__tensor x) {
  return accel__items_to_rows(b, accel__planes_to_items(b, x), "positions");
}

/* Rows as planes of the height and width of `like`. */
static accel__tensor to_planes(accel__build *b, accel__tensor x, accel__tensor like) {
  if (x < 0 || like < 0) return -1;
  const accel__dim dims[4] = {accel__tensor_dim(b->p, like, 0), accel__tensor_dim(b->p, like, 2),
                              accel__tensor_dim(b->p, like, 3), accel__tensor_dim(b->p, x, 1)};
  return accel__transpose(b, accel__reshape(b->p, x, 4, dims), 4, (int64_t[]){0, 3, 1, 2});
}

accel__tensor accel__unet_attention_block(accel__build *b, const accel__unet_attention *how,
                                          accel__tensor x, const char *path) {
  char name[NAME_BYTES];
  const int64_t n = channels_of(b, x);
  if (how->heads < 1 || n % how->heads != 0)
    return accel__program_fail(b->p, ACCEL_ERROR_FORMAT,
                               "%s: field 'attention_head_dim' does not divide %lld channels",
                               b->file->name != NULL ? b->file->name : "config.json", (long long)n);
  snprintf(name, sizeof name, "%s.group_norm", path);
  accel__tensor rows = to_rows(b, accel__unet_norm(b, x, how->groups, how->eps, NULL, name));
  accel__tensor q = accel__dense_layer(b, rows, n, true, -1, NULL, "%s.to_q", path),
                k = accel__dense_layer(b, rows, n, true, -1, NULL, "%s.to_k", path),
                v = accel__dense_layer(b, rows, n, true, -1, NULL, "%s.to_v", path);
  accel__tensor y = accel__self_attention(b, q, k, v, how->heads, 0.0);
  y = to_planes(b, accel__dense_layer(b, y, n, true, -1, NULL, "%s.to_out.0", path), x);
  return divided(b, accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, y, x), how->output_scale);
}

/* x + attention of norm(x) to itself, or to the text. */
static accel__tensor attend(accel__build *b, const accel__unet_transformer *how, accel__tensor x,
                            const accel__unet_text *text, int norm, const char *path) {
  const int64_t n = accel__columns(b, x);
  accel__attention attention = accel__attention_of(b, how->heads);
  accel__tensor q = accel__norm_layer(b, x, -1, ACCEL__TORCH_NORM_EPS, true, "%s.norm%d", path,
                                      norm),
                seen = q;
  if (text != NULL) {
    seen = text->rows;
    attention.kv_space = text->space;
  }
  q = accel__dense_layer(b, q, n, false, -1, NULL, "%s.attn%d.to_q", path, norm);
  accel__tensor k = accel__dense_layer(b, seen, n, false, -1, NULL, "%s.attn%d.to_k", path, norm),
                v = accel__dense_layer(b, seen, n, false, -1, NULL, "%s.attn%d.to_v", path, norm);
  return accel__dense_layer(b, accel__attend(b, q, k, v, &attention), n, true, x, NULL,
                            "%s.attn%d.to_out.0", path, norm);
}

/* x + down(up * gelu(gate)) of norm3(x), up and gate in one weight, the gate behind. */
static accel__tensor feed_forward(accel__build *b, accel__tensor x, const char *path) {
  char name[NAME_BYTES + 32];
  const int64_t n = accel__columns(b, x), dims[2] = {8 * n, n};
  accel__tensor in[3] = {
      accel__norm_layer(b, x, -1, ACCEL__TORCH_NORM_EPS, true, "%s.norm3", path)};
  snprintf(name, sizeof name, "%s.ff.net.0.proj.weight", path);
  in[1] = accel__weight_at(b, ACCEL_PLUGIN_USE_LINEAR, 2, dims, name);
  snprintf(name, sizeof name, "%s.ff.net.0.proj.bias", path);
  in[2] = accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 1, dims, name);
  accel__attr attr[] = {ACCEL_I(ACT, ACCEL_PLUGIN_ACT_GELU),
                        ACCEL_I(GLU, ACCEL_PLUGIN_GLU_GATE_LAST)};
  accel__tensor y = accel__node(b->p, ACCEL_PLUGIN_OP_LINEAR, in, 3, attr, 2, NULL, 1);
  return accel__dense_layer(b, y, n, true, x, NULL, "%s.ff.net.2", path);
}

accel__tensor accel__unet_transformer_block(accel__build *b, const accel__unet_transformer *how,
                                            accel__tensor x, const accel__unet_text *text,
                                            const char *path) {
  char name[NAME_BYTES];
  const int64_t n = channels_of(b, x);
  if (how->heads < 1 || n % how->heads != 0)
    return accel__program_fail(b->p, ACCEL_ERROR_FORMAT,
                               "%s: %lld heads (num_attention_heads, or attention_head_dim) do not "
                               "divide %lld channels",
                               b->file->name != NULL ? b->file->name : "config.json",
                               (long long)how->heads, (long long)n);
  snprintf(name, sizeof name, "%s.norm", path);
  /* proj_in as a 1x1 convolution and as a linear layer are the same numbers */
  accel__tensor rows = to_rows(b, accel__unet_norm(b, x, how->groups, 1e-6, NULL, name));
  rows = accel__dense_layer(b, rows, n, true, -1, NULL, "%s.proj_in", path);
  for (int64_t i = 0; i < how->layers; i++) {
    snprintf(name, sizeof name, "%s.transformer_blocks.%lld", path, (long long)i);
    rows = attend(b, how, rows, how->only_cross ? text : NULL, 1, name);
    rows = attend(b, how, rows, text, 2, name);
    rows = feed_forward(b, rows, name);
  }
  rows = accel__dense_layer(b, rows, n, true, -1, NULL, "%s.proj_out", path);
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, to_planes(b, rows, x), x);
}

/* ---- time ---- */

accel__tensor accel__unet_waves(accel__build *b, accel__tensor t, int64_t channels, bool flip,
                                double shift) {
  const int64_t half = channels / 2, dims[2] = {1, half};
  float *frequency = accel__arena_array(b->arena, (size_t)half, sizeof *frequency);
  if (t < 0) return -1;
  if (frequency == NULL)
    return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for frequencies");
  for (int64_t i = 0; i < half; i++) /* in fp32, as torch computes them */
    frequency[i] = expf((float)-log(10000.0) * (float)i / (float)((double)half - shift));
  accel__tensor x = accel__reshape(
      b->p, t, 2, (accel__dim[]){accel__tensor_dim(b->p, t, 0), accel__const_dim(b->p, 1)});
  x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, x,
                    accel__constant_f32(b->p, "frequencies", 2, dims, frequency));
  accel__tensor sine = accel__unary(b->p, ACCEL_PLUGIN_UNARY_SIN, x),
                cosine = accel__unary(b->p, ACCEL_PLUGIN_UNARY_COS, x);
  return accel__concat(b, 1, 2,
                       flip ? (accel__tensor[]){cosine, sine} : (accel__tensor[]){sine, cosine});
}

accel__tensor accel__unet_embedding(accel__build *b, accel__tensor x, int64_t out,
                                    const accel__activation *act, const char *name) {
  x = accel__dense_layer(b, x, out, true, -1, act, "%s.linear_1", name);
  return accel__dense_layer(b, x, out, true, -1, NULL, "%s.linear_2", name);
}

/* ---- the body ---- */

/* What stands behind residual block `i` of a level. */
static accel__tensor attend_at(accel__build *b, const accel__unet_level *level, accel__tensor x,
                               const accel__unet_text *text, const char *path, int64_t i) {
  char name[NAME_BYTES];
  snprintf(name, sizeof name, "%s.attentions.%lld", path, (long long)i);
  if (level->kind == ACCEL__UNET_ATTENDS)
    return accel__unet_attention_block(b, &level->attention, x, name);
  if (level->kind == ACCEL__UNET_CROSSES)
    return accel__unet_transformer_block(b, &level->transformer, x, text, name);
  return x;
}

accel__tensor accel__unet_middle(accel__build *b, const accel__unet_resnet *resnet,
                                 const accel__unet_level *level, accel__tensor x,
                                 const accel__unet_text *text, const char *path) {
  char name[NAME_BYTES];
  const int64_t n = channels_of(b, x);
  if (level->kind == ACCEL__UNET_NO_MIDDLE) return x;
  snprintf(name, sizeof name, "%s.resnets.0", path);
  x = accel__unet_resnet_block(b, resnet, x, n, name);
  for (int64_t i = 0; i < level->layers; i++) {
    x = attend_at(b, level, x, text, path, i);
    snprintf(name, sizeof name, "%s.resnets.%lld", path, (long long)i + 1);
    x = accel__unet_resnet_block(b, resnet, x, n, name);
  }
  return x;
}

/* Stages are levels as they run: down, middle, up. */
static void at_level(accel__build *b, int64_t stage, const char *path) {
  accel__at(b->p, (uint32_t)stage, "%s%s", b->scope != NULL ? b->scope : "", path);
}

static accel__tensor go_down(accel__build *b, const accel__unet *u, accel__tensor x,
                             const accel__unet_text *text, accel__tensor *skip, uint32_t *n) {
  char path[64], name[NAME_BYTES];
  skip[(*n)++] = x;
  for (int64_t i = 0; i < u->levels; i++) {
    snprintf(path, sizeof path, "down_blocks.%lld", (long long)i);
    at_level(b, i + 1, path);
    for (int64_t j = 0; j < u->down[i].layers; j++) {
      snprintf(name, sizeof name, "%s.resnets.%lld", path, (long long)j);
      x = accel__unet_resnet_block(b, &u->resnet, x, u->down[i].channels, name);
      skip[(*n)++] = x = attend_at(b, &u->down[i], x, text, path, j);
    }
    if (i + 1 == u->levels) break;
    snprintf(name, sizeof name, "%s.downsamplers.0", path);
    skip[(*n)++] = x = accel__unet_downsample(b, x, u->padding, name);
  }
  return x;
}

static accel__tensor go_up(accel__build *b, const accel__unet *u, accel__tensor x,
                           const accel__unet_text *text, const accel__tensor *skip, uint32_t n) {
  char path[64], name[NAME_BYTES];
  for (int64_t i = 0; i < u->levels; i++) {
    snprintf(path, sizeof path, "up_blocks.%lld", (long long)i);
    at_level(b, u->levels + 2 + i, path);
    for (int64_t j = 0; j < u->up[i].layers && n > 0; j++) {
      x = accel__concat(b, 1, 2, (accel__tensor[]){x, skip[--n]});
      snprintf(name, sizeof name, "%s.resnets.%lld", path, (long long)j);
      x = accel__unet_resnet_block(b, &u->resnet, x, u->up[i].channels, name);
      x = attend_at(b, &u->up[i], x, text, path, j);
    }
    if (i + 1 == u->levels || n == 0 || x < 0) break;
    /* to the size that the next level remembers: twice the height and width, or one less */
    snprintf(name, sizeof name, "%s.upsamplers.0", path);
    x = accel__unet_upsample(b, x, accel__tensor_dim(b->p, skip[n - 1], 2),
                             accel__tensor_dim(b->p, skip[n - 1], 3), name);
  }
  return x;
}

accel__tensor accel__unet_body(accel__build *b, const accel__unet *u, accel__tensor x,
                               const accel__unet_text *text) {
  int64_t most = 1;
  uint32_t n = 0;
  for (int64_t i = 0; i < u->levels; i++) most += u->down[i].layers + 1;
  accel__tensor *skip = accel__arena_array(b->arena, (size_t)most, sizeof *skip);
  if (skip == NULL)
    return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a UNet");
  x = go_down(b, u, x, text, skip, &n);
  accel__unet_resnet middle = u->resnet;
  middle.output_scale = u->middle_scale;
  at_level(b, u->levels + 1, "mid_block");
  x = accel__unet_middle(b, &middle, &u->middle, x, text, "mid_block");
  return go_up(b, u, x, text, skip, n);
}
