/* davit.c - DaViT's stages. */
#include "models/davit.h"

#include <stdio.h>

static const double EPS = 1e-5; /* torch's LayerNorm: no field of the config */

/* ---- config ---- */

/* The defaults of lists are of four stages; of fewer the first count. */
static accel_status require(accel__build *b, const char *key, int64_t stages) {
  if (stages <= 4 || accel__json_get(b->config, key) != NULL) return ACCEL_OK;
  return accel__refuse(b, "field '%s' is missing, which 'embed_dim' has %lld stages for", key,
                       (long long)stages);
}

static accel_status read_bools(accel__build *b, const char *key, int64_t n, bool *io) {
  const accel__json *list = NULL;
  int64_t i = 0;
  ACCEL_TRY(accel__read_list(b, key, n, &list));
  ACCEL_JSON_EACH(item, list) {
    if (!cJSON_IsBool(item))
      return accel__refuse(b, "field '%s': entry %lld is neither true nor false", key,
                           (long long)i);
    io[i++] = cJSON_IsTrue(item);
  }
  return ACCEL_OK;
}

static accel_status read_lists(accel__build *b, accel__davit *c) {
  const struct list {
    const char *key;
    int64_t least, most, *out;
  } lists[] = {{"depths", 0, ACCEL__MAX_LAYERS, c->depths},
               {"embed_dim", 1, ACCEL__MAX_WIDTH, c->widths},
               {"num_heads", 1, ACCEL__MAX_WIDTH, c->heads},
               {"num_groups", 1, ACCEL__MAX_WIDTH, c->groups},
               {"patch_size", 1, 1024, c->kernel},
               {"patch_stride", 1, 1024, c->stride},
               {"patch_padding", 0, 1024, c->pad}};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    ACCEL_TRY(require(b, lists[i].key, c->stages));
    ACCEL_TRY(
        accel__read_ints(b, lists[i].key, c->stages, lists[i].least, lists[i].most, lists[i].out));
  }
  ACCEL_TRY(require(b, "patch_prenorm", c->stages));
  ACCEL_TRY(read_bools(b, "patch_prenorm", c->stages, c->norm_first));
  for (int64_t i = 0; i < c->stages; i++) {
    ACCEL_TRY(accel__divides(b, "num_heads", c->heads[i], "embed_dim", c->widths[i]));
    ACCEL_TRY(accel__divides(b, "num_groups", c->groups[i], "embed_dim", c->widths[i]));
  }
  return ACCEL_OK;
}

accel_status accel__davit_read(accel__build *b, accel__davit *c) {
  *c = (accel__davit){.channels = 3,
                      .stages = 4,
                      .window = 12,
                      .depths = {1, 1, 9, 1},
                      .widths = {128, 256, 512, 1024},
                      .heads = {4, 8, 16, 32},
                      .groups = {4, 8, 16, 32},
                      .kernel = {7, 3, 3, 3},
                      .stride = {4, 2, 2, 2},
                      .pad = {3, 1, 1, 1},
                      .norm_first = {false, true, true, true},
                      .mlp_ratio = 4.0,
                      .qkv_bias = true,
                      .act = {.act = ACCEL_PLUGIN_ACT_GELU}};
  const accel__json *widths = NULL;
  const accel__field fields[] = {ACCEL_FIELD_INT("in_channels", &c->channels, 1, ACCEL__MAX_WIDTH),
                                 ACCEL_FIELD_INT("window_size", &c->window, 1, 1024),
                                 ACCEL_FIELD_NUMBER("mlp_ratio", &c->mlp_ratio),
                                 ACCEL_FIELD_BOOL("qkv_bias", &c->qkv_bias),
                                 ACCEL_FIELD_ACT("activation_function", &c->act)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__json_array(b->file, b->config, "embed_dim", &widths));
  if (widths != NULL) c->stages = cJSON_GetArraySize(widths);
  if (c->stages < 1 || c->stages > ACCEL__DAVIT_STAGES)
    return accel__refuse(b, "field 'embed_dim' has %lld entries", (long long)c->stages);
  if (!(c->mlp_ratio > 0) || c->mlp_ratio > 64)
    return accel__refuse(b, "field 'mlp_ratio': %g is not supported", c->mlp_ratio);
  return read_lists(b, c);
}

int64_t accel__davit_side(const accel__davit *c, int64_t pixels) {
  for (int64_t i = 0; i < c->stages; i++) {
    const int64_t inside = pixels + 2 * c->pad[i] - c->kernel[i];
    if (inside < 0) return 0;
    pixels = inside / c->stride[i] + 1;
  }
  return pixels;
}

/* ---- blocks ---- */

/* One block on its way: rows x [B, n, dim] of a grid, and its names below `path`. */
typedef struct step {
  const accel__davit *c;
  accel__grid grid;
  int64_t dim;
  const char *path;
} step;

/* x plus a convolution of 3 x 3 over each channel by itself. */
static accel__tensor mix(accel__build *b, const step *s, accel__tensor x, const char *name) {
  accel__tensor planes = accel__items_to_planes(b, x, s->grid.h, s->grid.w);
  const accel__conv conv = {.out = s->dim,
                            .kernel = {3, 3},
                            .pad = {1, 1},
                            .groups = s->dim,
                            .bias = true,
                            .residual = planes};
  return accel__planes_to_items(b, accel__conv2d(b, planes, &conv, "%s.%s", s->path, name));
}

static accel__tensor norm(accel__build *b, const step *s, accel__tensor x, const char *name) {
  return accel__norm_layer(b, x, -1, EPS, true, "%s.%s", s->path, name);
}

static accel__tensor attend_windows(accel__build *b, const step *s, accel__tensor x, int64_t heads,
                                    const accel__windows *p) {
  accel__tensor part[3];
  accel__attention how = accel__attention_of(b, heads);
  x = accel__to_windows(b, p, x, &how.q_space);
  how.kv_space = how.q_space;
  for (uint32_t k = 0; k < 3; k++)
    part[k] = accel__dense_rows(b, x, s->dim, s->c->qkv_bias, k, 3, "%s.window_attn.qkv", s->path);
  x = accel__attend(b, part[0], part[1], part[2], &how);
  x = accel__dense_layer(b, x, s->dim, true, -1, NULL, "%s.window_attn.proj", s->path);
  return accel__from_windows(b, p, x);
}

/* Channels attend to one another inside their group, by what they are at all rows:
 * softmax(q^T k / sqrt(n)) v^T for q, k, v [n, C / groups]. */
static accel__tensor attend_channels(accel__build *b, const step *s, accel__tensor x,
                                     int64_t groups) {
  accel__program *p = b->p;
  accel__dim n = accel__times(b, s->grid.h, s->grid.w), g = accel__const_dim(p, groups),
             d = accel__const_dim(p, s->dim / groups);
  accel__tensor part[3];
  for (uint32_t k = 0; k < 3; k++) {
    part[k] = accel__dense_rows(b, x, s->dim, s->c->qkv_bias, k, 3, "%s.channel_attn.qkv", s->path);
    part[k] = accel__reshape(p, part[k], 4, (accel__dim[]){b->B, n, g, d});
    part[k] = accel__transpose(b, part[k], 4, (int64_t[]){0, 2, 3, 1}); /* [B, groups, d, n] */
  }
  accel__tensor scale = accel__unary(p, ACCEL_PLUGIN_UNARY_RSQRT, accel__dim_number(b, n));
  accel__attr with_k = ACCEL_I(TRANS_B, 1), last = ACCEL_I(AXIS, 3);
  part[0] = accel__binary(p, ACCEL_PLUGIN_BINARY_MUL, part[0], scale);
  x = accel__node(p, ACCEL_PLUGIN_OP_MATMUL, part, 2, &with_k, 1, NULL, 1);
  x = accel__node(p, ACCEL_PLUGIN_OP_SOFTMAX, &x, 1, &last, 1, NULL, 1);
  x = accel__node(p, ACCEL_PLUGIN_OP_MATMUL, (accel__tensor[]){x, part[2]}, 2, NULL, 0, NULL, 1);
  x = accel__transpose(b, x, 4, (int64_t[]){0, 3, 1, 2});
  x = accel__reshape(p, x, 3, (accel__dim[]){b->B, n, accel__const_dim(p, s->dim)});
  return accel__dense_layer(b, x, s->dim, true, -1, NULL, "%s.channel_attn.proj", s->path);
}

static accel__tensor feed_forward(accel__build *b, const step *s, accel__tensor x) {
  const int64_t inner = (int64_t)((double)s->dim * s->c->mlp_ratio);
  x = mix(b, s, x, "conv2");
  accel__tensor y = accel__dense_layer(b, norm(b, s, x, "norm2"), inner, true, -1, &s->c->act,
                                       "%s.ffn.fc1", s->path);
  return accel__dense_layer(b, y, s->dim, true, x, NULL, "%s.ffn.fc2", s->path);
}

/* A block over windows, then one over channels. */
static accel__tensor pair(accel__build *b, const accel__davit *c, const accel__windows *p,
                          accel__tensor x, int64_t stage, int64_t number) {
  step s = {.c = c, .grid = p->grid, .dim = c->widths[stage]};
  for (int channels = 0; channels < 2; channels++) {
    s.path = accel__arena_printf(b->arena, "blocks.%lld.%lld.%s_block", (long long)stage,
                                 (long long)number, channels ? "channel" : "spatial");
    accel__at(b->p, 0, "%s%s", b->scope != NULL ? b->scope : "", s.path);
    x = mix(b, &s, x, "conv1");
    accel__tensor y = norm(b, &s, x, "norm1");
    y = channels ? attend_channels(b, &s, y, c->groups[stage])
                 : attend_windows(b, &s, y, c->heads[stage], p);
    x = feed_forward(b, &s, accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, y));
  }
  return x;
}

/* ---- stages ---- */

/* The convolution in front of a stage: planes -> rows and their grid. */
static accel__tensor embed(accel__build *b, const accel__davit *c, accel__tensor x, int64_t stage,
                           accel__grid *grid) {
  char path[40];
  const accel__conv conv = {.out = c->widths[stage],
                            .kernel = {c->kernel[stage], c->kernel[stage]},
                            .stride = {c->stride[stage], c->stride[stage]},
                            .pad = {c->pad[stage], c->pad[stage]},
                            .bias = true};
  snprintf(path, sizeof path, "convs.%lld", (long long)stage);
  x = accel__conv2d(b, x, &conv, "%s.conv", path);
  if (x < 0) return -1;
  *grid = (accel__grid){accel__tensor_dim(b->p, x, 2), accel__tensor_dim(b->p, x, 3)};
  x = accel__planes_to_items(b, x);
  return c->norm_first[stage] ? x : accel__norm_layer(b, x, -1, EPS, true, "%s.norm", path);
}

static accel__windows windows_of(accel__build *b, const accel__davit *c, accel__grid grid) {
  int64_t h = 0, w = 0;
  const bool known = accel__dim_value(b->p, grid.h, &h) && accel__dim_value(b->p, grid.w, &w);
  accel__windows p = {.grid = grid,
                      .window = c->window,
                      .padded = !known || h % c->window != 0 || w % c->window != 0};
  accel__plan_windows(b, &p, false);
  return p;
}

accel__tensor accel__davit_stages(accel__build *b, const accel__davit *c, accel__tensor x,
                                  accel__grid *out) {
  for (int64_t i = 0; i < c->stages && x >= 0; i++) {
    accel__at(b->p, 0, "%sconvs.%lld", b->scope != NULL ? b->scope : "", (long long)i);
    if (i == 0 && c->norm_first[0]) {
      *out = (accel__grid){accel__tensor_dim(b->p, x, 2), accel__tensor_dim(b->p, x, 3)};
      x = accel__planes_to_items(b, x);
    }
    if (c->norm_first[i])
      x = accel__norm_layer(b, x, -1, EPS, true, "convs.%lld.norm", (long long)i);
    if (i > 0 || c->norm_first[0]) x = accel__items_to_planes(b, x, out->h, out->w);
    x = embed(b, c, x, i, out);
    if (x < 0) break;
    const accel__windows p = windows_of(b, c, *out);
    for (int64_t k = 0; k < c->depths[i]; k++) x = pair(b, c, &p, x, i, k);
  }
  return x;
}
