/* swin.c - Swin Transformer (transformers' SwinModel and classifier), DonutSwinModel, which is Swin
 * without the last norm, and the windowed stages that CLAP shares. */
#include "models/swin.h"

#include <stdio.h>
#include <string.h>

const accel__rename accel__swin_spelling[] = {
    {"attention.self.query", "attention.q_proj"},
    {"attention.self.key", "attention.k_proj"},
    {"attention.self.value", "attention.v_proj"},
    {"attention.self.relative_position_bias_table",
     "attention.relative_position_bias.relative_position_bias_table"},
    {"attention.output.dense", "attention.o_proj"},
    {"intermediate.dense", "mlp.fc1"},
    {"output.dense", "mlp.fc2"},
    {NULL, NULL}};

accel_status accel__swin_read(accel__build *b, const char *heads_key, accel__swin *c) {
  const accel__json *depths = NULL;
  const accel__field fields[] = {
      ACCEL_FIELD_INT("window_size", &c->window, 1, 1024),
      ACCEL_FIELD_NUMBER("mlp_ratio", &c->mlp_ratio),
      ACCEL_FIELD_NUMBER("layer_norm_eps", &c->eps),
      ACCEL_FIELD_BOOL("qkv_bias", &c->qkv_bias),
      ACCEL_FIELD_ACT("hidden_act", &c->act),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__json_array(b->file, b->config, "depths", &depths));
  if (depths != NULL) c->stages = cJSON_GetArraySize(depths);
  if (c->stages < 1 || c->stages > ACCEL__SWIN_STAGES)
    return accel__refuse(b, "field 'depths' has %lld entries", (long long)c->stages);
  ACCEL_TRY(accel__read_ints(b, "depths", c->stages, 0, ACCEL__MAX_LAYERS, c->depths));
  ACCEL_TRY(accel__read_ints(b, heads_key, c->stages, 1, ACCEL__MAX_WIDTH, c->heads));
  if (!(c->mlp_ratio > 0) || c->mlp_ratio > 64)
    return accel__refuse(b, "field 'mlp_ratio': %g is not supported", c->mlp_ratio);
  for (int64_t i = 0; i < c->stages; i++)
    ACCEL_TRY(accel__divides(b, heads_key, c->heads[i], "width of its stage", c->embed << i));
  return ACCEL_OK;
}

/* The bias between the rows of a window: [1 or windows, heads, S, S]. */
static accel__tensor window_bias(accel__build *b, const accel__windows *p, int64_t heads,
                                 const char *path) {
  const int64_t m = p->window, s = m * m, dims[2] = {(2 * m - 1) * (2 * m - 1), heads}, all = s * s;
  char name[128];
  int32_t *at = accel__arena_array(b->arena, (size_t)all, sizeof *at);
  if (at == NULL)
    return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for window positions");
  for (int64_t i = 0; i < s; i++)
    for (int64_t j = 0; j < s; j++)
      at[i * s + j] = (int32_t)((i / m - j / m + m - 1) * (2 * m - 1) + i % m - j % m + m - 1);
  snprintf(name, sizeof name, "%s.attention.self.relative_position_bias_table", path);
  accel__tensor table = accel__table(b, 2, dims, name);
  /* [S*S, heads] */
  accel__tensor bias =
      accel__gather(b->p, table, accel__constant_i32(b->p, "window_positions", 1, &all, at));
  bias = accel__transpose(b, bias, 2, (int64_t[]){1, 0});
  accel__dim side = accel__const_dim(b->p, s), one = accel__const_dim(b->p, 1);
  bias =
      accel__reshape(b->p, bias, 4, (accel__dim[]){one, accel__const_dim(b->p, heads), side, side});
  return p->apart >= 0 ? accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, bias, p->apart) : bias;
}

/* One block over x [B,n,C]: attention inside windows, then the MLP, norms in front. */
static accel__tensor block(accel__build *b, const accel__swin *c, const accel__windows *p,
                           accel__tensor x, int64_t dim, int64_t heads, const char *path) {
  accel__program *g = b->p;
  accel__tensor y = accel__norm_layer(b, x, -1, c->eps, true, "%s.layernorm_before", path), part[3];
  accel__attention how = accel__attention_of(b, heads);
  y = accel__to_windows(b, p, y, &how.q_space);
  how.kv_space = how.q_space;
  how.bias = window_bias(b, p, heads, path);
  how.bias_kind = ACCEL_PLUGIN_BIAS_DENSE;
  static const char *const names[3] = {"query", "key", "value"};
  for (int i = 0; i < 3; i++)
    part[i] = accel__dense_layer(b, y, dim, c->qkv_bias, -1, NULL, "%s.attention.self.%s", path,
                                 names[i]);
  y = accel__attend(b, part[0], part[1], part[2], &how);
  y = accel__dense_layer(b, y, dim, true, -1, NULL, "%s.attention.output.dense", path);
  x = accel__binary(g, ACCEL_PLUGIN_BINARY_ADD, x, accel__from_windows(b, p, y));
  y = accel__norm_layer(b, x, -1, c->eps, true, "%s.layernorm_after", path);
  y = accel__dense_layer(b, y, (int64_t)((double)dim * c->mlp_ratio), true, -1, &c->act,
                         "%s.intermediate.dense", path);
  return accel__dense_layer(b, y, dim, true, x, NULL, "%s.output.dense", path);
}

/* Squares of 2x2 rows side by side, normed, halved in width: [B,n,C] -> [B,n/4,2C]. */
static accel__tensor merge(accel__build *b, accel__tensor x, accel__grid *grid, int64_t dim,
                           const char *path) {
  accel__program *g = b->p;
  accel__dim c = accel__const_dim(g, dim), two = accel__const_dim(g, 2);
  accel__dim h = accel__dim_op(g, ACCEL_PLUGIN_DIM_CEILDIV, grid->h, two),
             w = accel__dim_op(g, ACCEL_PLUGIN_DIM_CEILDIV, grid->w, two);
  int64_t sides[2] = {0, 0};
  accel__tensor part[4];
  x = accel__reshape(g, x, 4, (accel__dim[]){b->B, grid->h, grid->w, c});
  if (!accel__dim_value(g, grid->h, &sides[0]) || !accel__dim_value(g, grid->w, &sides[1]) ||
      (sides[0] | sides[1]) % 2 != 0) {
    const int64_t pads[8] = {0, 0, 0, 0, 0, 1, 1, 0}; /* of an even side it is cut off below */
    accel__attr attr[] = {ACCEL_IV(PADS, pads, 8), ACCEL_I(KIND, ACCEL_PLUGIN_PAD_CONSTANT)};
    x = accel__node(g, ACCEL_PLUGIN_OP_PAD, &x, 1, attr, 2, NULL, 1);
  }
  int64_t y1 = accel__times(b, h, two), x1 = accel__times(b, w, two);
  for (int64_t i = 0; i < 4; i++) { /* column by column, rows inside */
    int64_t y0 = accel__const_dim(g, i % 2), x0 = accel__const_dim(g, i / 2);
    accel__attr down[] = {ACCEL_I(AXIS, 1), ACCEL_D(START, &y0, 1), ACCEL_D(END, &y1, 1),
                          ACCEL_I(STEP, 2)};
    accel__attr across[] = {ACCEL_I(AXIS, 2), ACCEL_D(START, &x0, 1), ACCEL_D(END, &x1, 1),
                            ACCEL_I(STEP, 2)};
    accel__tensor y = accel__node(g, ACCEL_PLUGIN_OP_SLICE, &x, 1, down, 4, NULL, 1);
    y = accel__node(g, ACCEL_PLUGIN_OP_SLICE, &y, 1, across, 4, NULL, 1);
    part[i] = accel__reshape(g, y, 4, (accel__dim[]){b->B, h, w, c});
  }
  x = accel__concat(b, 3, 4, part);
  x = accel__reshape(g, x, 3,
                     (accel__dim[]){b->B, accel__times(b, h, w), accel__const_dim(g, 4 * dim)});
  *grid = (accel__grid){h, w};
  x = accel__norm_layer(b, x, -1, 1e-5, true, "%s.downsample.norm", path);
  return accel__dense_layer(b, x, 2 * dim, false, -1, NULL, "%s.downsample.reduction", path);
}

static void list_hidden(accel__build *b, accel__tensor x, accel__grid grid, bool planes) {
  if (x < 0) return;
  accel__dim c = accel__tensor_dim(b->p, x, 2);
  accel__tensor y = accel__transpose(b, x, 3, (int64_t[]){0, 2, 1});
  y = accel__reshape(b->p, y, 4, (accel__dim[]){b->B, c, grid.h, grid.w});
  char name[64];
  snprintf(name, sizeof name, "reshaped_hidden_states.%u", b->n_hidden);
  if (!planes && b->output_path == NULL) accel__add_output(b, name, y, ACCEL__OUTPUT_ON_REQUEST);
  accel__add_hidden(b, planes ? y : x);
}

/* The windows of a stage, straight and shifted; the reference's tables would not fit windows wider
 * than the grid. */
static void plan_stage(accel__build *b, const accel__swin *c, int64_t stage, accel__grid grid,
                       accel__windows plan[2]) {
  int64_t h = INT64_MAX, w = INT64_MAX;
  const bool known = accel__dim_value(b->p, grid.h, &h) && accel__dim_value(b->p, grid.w, &w);
  const int64_t least = h < w ? h : w;
  if (known && least < c->window)
    accel__program_fail(b->p, ACCEL_ERROR_UNSUPPORTED,
                        "stage %lld has %lld rows to a side, less than window_size %lld",
                        (long long)stage, (long long)least, (long long)c->window);
  for (int k = 0; k < 2 && k < c->depths[stage]; k++) {
    plan[k] = (accel__windows){.grid = grid,
                               .window = c->window,
                               .padded = !known || h % c->window != 0 || w % c->window != 0};
    accel__plan_windows(b, &plan[k], k == 1 && !(known && least == c->window));
  }
}

accel__tensor accel__swin_stages(accel__build *b, const accel__swin *c, accel__tensor x,
                                 accel__grid grid, const char *layers, bool planes,
                                 accel__grid *out) {
  list_hidden(b, x, grid, planes);
  for (int64_t i = 0; i < c->stages; i++) {
    const int64_t dim = c->embed << i;
    accel__windows plan[2] = {0};
    accel__at(b->p, (uint32_t)i + 1, "%s.%lld", layers, (long long)i);
    plan_stage(b, c, i, grid, plan);
    for (int64_t j = 0; j < c->depths[i]; j++) {
      const char *path =
          accel__arena_printf(b->arena, "%s.%lld.blocks.%lld", layers, (long long)i, (long long)j);
      accel__at(b->p, (uint32_t)i + 1, "%s", path);
      x = block(b, c, &plan[j % 2], x, dim, c->heads[i], path);
    }
    if (i + 1 < c->stages)
      x = merge(b, x, &grid, dim, accel__arena_printf(b->arena, "%s.%lld", layers, (long long)i));
    list_hidden(b, x, grid, planes);
  }
  accel__at(b->p, (uint32_t)c->stages + 1, "head");
  *out = grid;
  return x;
}

/* ---- Swin ---- */

/* The most patches to a side of which the last stage makes no window. */
static int64_t too_few_patches(const accel__swin_model *m) {
  return (m->c.window - 1) << (m->c.stages - 1);
}

accel_status accel__swin_model_read(accel__build *b, accel__swin_model *m) {
  *m = (accel__swin_model){.c = {.embed = 96,
                                 .stages = 4,
                                 .window = 7,
                                 .depths = {2, 2, 6, 2},
                                 .heads = {3, 6, 12, 24},
                                 .mlp_ratio = 4.0,
                                 .eps = 1e-5,
                                 .qkv_bias = true,
                                 .act = {.act = ACCEL_PLUGIN_ACT_GELU}},
                           .channels = 3,
                           .stride = 32,
                           .image = {224, 224},
                           .patch = {4, 4}};
  const accel__field fields[] = {ACCEL_FIELD_INT("embed_dim", &m->c.embed, 1, ACCEL__MAX_WIDTH),
                                 ACCEL_FIELD_INT("num_channels", &m->channels, 1, ACCEL__MAX_WIDTH),
                                 ACCEL_FIELD_INT("encoder_stride", &m->stride, 1, 4096),
                                 ACCEL_FIELD_BOOL("use_absolute_embeddings", &m->absolute)};
  ACCEL_TRY(accel__read_fields(b, fields, 4));
  ACCEL_TRY(accel__read_size2(b, "image_size", 1, ACCEL__MAX_WIDTH, &m->image));
  ACCEL_TRY(accel__read_size2(b, "patch_size", 1, ACCEL__MAX_WIDTH, &m->patch));
  ACCEL_TRY(accel__swin_read(b, "num_heads", &m->c));
  const int64_t few = too_few_patches(m),
                widest = m->patch.h > m->patch.w ? m->patch.h : m->patch.w;
  if (few * widest >= ACCEL__MAX_WIDTH)
    return accel__refuse(
        b,
        "field 'patch_size' (%lld) needs pictures of more than %d pixels to a side "
        "for windows of %lld in the last of %lld stages",
        (long long)widest, ACCEL__MAX_WIDTH, (long long)m->c.window, (long long)m->c.stages);
  b->spelling[0] = accel__swin_spelling;
  b->model->hidden_size = m->c.embed << (m->c.stages - 1);
  return accel__read_labels(b);
}

accel__tensor accel__swin_pictures(accel__build *b, const accel__swin_model *m) {
  const int64_t h = too_few_patches(m) * m->patch.h + 1, w = too_few_patches(m) * m->patch.w + 1;
  b->B = accel__symbol(b->p, "B", 1, 0, 1);
  accel__dim H = accel__symbol(b->p, "H", h, ACCEL__MAX_WIDTH, m->image.h > h ? m->image.h : h),
             W = accel__symbol(b->p, "W", w, ACCEL__MAX_WIDTH, m->image.w > w ? m->image.w : w);
  return accel__add_item(b, "pixel_values", ACCEL_PLUGIN_F32, 4,
                         (accel__dim[]){b->B, accel__const_dim(b->p, m->channels), H, W},
                         ACCEL__DEFAULT_REQUIRED);
}

/* Pictures are padded to whole patches on the right and at the bottom; what is more than that makes
 * no patch. */
accel__tensor accel__swin_embeddings(accel__build *b, accel__swin_model *m, accel__tensor x) {
  const accel__conv patch = {
      .out = m->c.embed, .kernel = m->patch, .stride = m->patch, .bias = true};
  const int64_t pads[8] = {0, 0, 0, 0, 0, 0, m->patch.h - 1, m->patch.w - 1},
                h = m->image.h / m->patch.h, w = m->image.w / m->patch.w;
  accel__at(b->p, 0, "embeddings");
  accel__attr attr[] = {ACCEL_IV(PADS, pads, 8), ACCEL_I(KIND, ACCEL_PLUGIN_PAD_CONSTANT)};
  if (pads[6] + pads[7] > 0) x = accel__node(b->p, ACCEL_PLUGIN_OP_PAD, &x, 1, attr, 2, NULL, 1);
  x = accel__conv2d(b, x, &patch, "embeddings.patch_embeddings.projection");
  if (x < 0) return -1;
  m->grid = (accel__grid){accel__tensor_dim(b->p, x, 2), accel__tensor_dim(b->p, x, 3)};
  x = accel__norm_layer(b, accel__planes_to_items(b, x), -1, 1e-5, true, "embeddings.norm");
  if (accel__is_class(b, "ForMaskedImageModeling"))
    x = accel__masked_rows(b, x, 3, "embeddings.mask_token");
  if (!m->absolute) return x;
  const accel__grid_table position_rows = {
      .table =
          accel__table(b, 3, (int64_t[]){1, h * w, m->c.embed}, "embeddings.position_embeddings"),
      .grid = {h, w}};
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x,
                       accel__resize_grid(b, &position_rows, m->grid.h, m->grid.w));
}

accel_status accel__swin_refuse_table(const accel__build *b, const accel__swin_model *m,
                                      bool donut) {
  if (!donut || !m->absolute) return ACCEL_OK;
  return accel__refuse(b, "field 'use_absolute_embeddings': true is not supported of donut-swin");
}

static accel_status build_any(const accel__model_request *request, const char *architecture,
                              accel__model *model, bool donut) {
  static const char *const args[] = {"interpolate_pos_encoding", NULL};
  accel__build b;
  accel__swin_model m;
  accel__grid end;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, donut ? "donut." : "swin."));
  model->args = args;
  ACCEL_TRY(accel__swin_model_read(&b, &m));
  ACCEL_TRY(accel__swin_refuse_table(&b, &m, donut));
  accel__tensor x = accel__swin_embeddings(&b, &m, accel__swin_pictures(&b, &m));
  x = accel__swin_stages(&b, &m.c, x, m.grid, "encoder.layers", false, &end);
  if (!donut) x = accel__norm_layer(&b, x, -1, m.c.eps, true, "layernorm");
  accel__attr mean[] = {ACCEL_I(KIND, ACCEL_PLUGIN_REDUCE_MEAN), ACCEL_I(AXIS, 1)};
  accel__tensor pooled = accel__node(b.p, ACCEL_PLUGIN_OP_REDUCE, &x, 1, mean, 2, NULL, 1);
  if (b.is_base) {
    accel__add_output(&b, "last_hidden_state", x, 0);
    accel__add_output(&b, "pooler_output", pooled, 0);
  } else if (accel__is_class(&b, "ForMaskedImageModeling")) {
    b.in_head = true;
    accel__output_pixels(&b, x, end.h, end.w, m.channels, m.stride);
  } else {
    b.in_head = true;
    accel__head_sequence(&b, pooled, "classifier");
  }
  return accel__build_end(&b, x);
}

static accel_status build_swin(const accel__model_request *request, const char *architecture,
                               accel__model *model) {
  return build_any(request, architecture, model, false);
}
static accel_status build_donut_swin(const accel__model_request *request, const char *architecture,
                                     accel__model *model) {
  return build_any(request, architecture, model, true);
}

static const char *const classes[] = {"SwinModel", "SwinForImageClassification",
                                      "SwinForMaskedImageModeling", NULL};
const accel__architecture accel__model_swin = {
    .model_type = "swin", .classes = classes, .build = build_swin};
static const char *const donut_classes[] = {"DonutSwinModel", "DonutSwinForImageClassification",
                                            NULL};
const accel__architecture accel__model_donut_swin = {
    .model_type = "donut-swin", .classes = donut_classes, .build = build_donut_swin};
