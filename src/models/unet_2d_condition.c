/* unet_2d_condition.c - UNet2DConditionModel of diffusers: the UNet of Stable Diffusion, which
 * looks at a text while it removes noise. */
#include <stdio.h>
#include <string.h>

#include "models/diffusion.h"

typedef struct unet {
  accel__unet body;
  int64_t in, out, cross[ACCEL__UNET_LEVELS], in_kernel, out_kernel;
  int64_t time, class_labels, class_width, added, text_hidden, condition;
  bool flip, center;
  double shift;
  const char *class_type, *added_type, *text_type;
  accel__activation time_act, time_last, time_post;
  bool has_time_last, has_time_post, concat_class;
} unet;

static const char *const down_types[] = {"DownBlock2D", "AttnDownBlock2D", "CrossAttnDownBlock2D",
                                         NULL},
                         *const up_types[] = {"UpBlock2D", "AttnUpBlock2D", "CrossAttnUpBlock2D",
                                              NULL};

/* A field that must be absent, null, false or `allowed`. */
static accel_status only(const accel__build *b, const char *key, const char *allowed) {
  const accel__json *value = accel__json_get(b->config, key);
  if (value == NULL || cJSON_IsFalse(value)) return ACCEL_OK;
  if (allowed != NULL && cJSON_IsString(value) && strcmp(value->valuestring, allowed) == 0)
    return ACCEL_OK;
  return accel__refuse(b, "field '%s' is not supported%s%s", key,
                       allowed != NULL ? "; known: " : "", allowed != NULL ? allowed : "");
}

static accel_status refuse_variants(const accel__build *b) {
  static const struct {
    const char *key, *allowed;
  } fields[] = {{"dual_cross_attention", NULL},
                {"attention_type", "default"},
                {"time_embedding_type", "positional"},
                {"encoder_hid_dim_type", "text_proj"},
                {"num_attention_heads", NULL}, /* diffusers takes none either */
                {"resnet_skip_time_act", NULL},
                {"cross_attention_norm", NULL},
                {"upsample_type", "conv"},
                {"downsample_type", "conv"}};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    ACCEL_TRY(only(b, fields[i].key, fields[i].allowed));
  if (accel__is_null(b, "norm_num_groups"))
    return accel__refuse(b, "field 'norm_num_groups': null is not supported");
  return ACCEL_OK;
}

/* An activation that may be null. */
static accel_status read_act(const accel__build *b, const char *key, accel__activation *act,
                             bool *given) {
  const char *name = NULL;
  ACCEL_TRY(accel__json_string(b->file, b->config, key, &name));
  *given = name != NULL;
  return name != NULL ? accel__activation_of(b, key, name, act) : ACCEL_OK;
}

static accel_status read_scalars(accel__build *b, unet *c) {
  const char *shift = "default";
  const accel__field fields[] = {
      ACCEL_FIELD_INT("in_channels", &c->in, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("out_channels", &c->out, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("downsample_padding", &c->body.padding, 0, 1),
      ACCEL_FIELD_INT("norm_num_groups", &c->body.resnet.groups, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("conv_in_kernel", &c->in_kernel, 1, 63),
      ACCEL_FIELD_INT("conv_out_kernel", &c->out_kernel, 1, 63),
      ACCEL_FIELD_INT("time_embedding_dim", &c->time, 2, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_class_embeds", &c->class_labels, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("projection_class_embeddings_input_dim", &c->class_width, 1,
                      ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("addition_time_embed_dim", &c->added, 2, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("encoder_hid_dim", &c->text_hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("time_cond_proj_dim", &c->condition, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_BOOL("flip_sin_to_cos", &c->flip),
      ACCEL_FIELD_BOOL("center_input_sample", &c->center),
      ACCEL_FIELD_BOOL("class_embeddings_concat", &c->concat_class),
      ACCEL_FIELD_NUMBER("freq_shift", &c->shift),
      ACCEL_FIELD_NUMBER("norm_eps", &c->body.resnet.eps),
      ACCEL_FIELD_NUMBER("mid_block_scale_factor", &c->body.middle_scale),
      ACCEL_FIELD_STRING("class_embed_type", &c->class_type),
      ACCEL_FIELD_STRING("addition_embed_type", &c->added_type),
      ACCEL_FIELD_STRING("encoder_hid_dim_type", &c->text_type),
      ACCEL_FIELD_STRING("resnet_time_scale_shift", &shift),
      ACCEL_FIELD_ACT("act_fn", &c->body.resnet.act)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(read_act(b, "time_embedding_act_fn", &c->time_last, &c->has_time_last));
  ACCEL_TRY(read_act(b, "timestep_post_act", &c->time_post, &c->has_time_post));
  c->body.resnet.scale_shift = strcmp(shift, "scale_shift") == 0;
  if (!c->body.resnet.scale_shift && strcmp(shift, "default") != 0)
    return accel__refuse(
        b, "field 'resnet_time_scale_shift': '%s' is not supported; known: default, scale_shift",
        shift);
  if (c->added_type != NULL && strcmp(c->added_type, "text_time") != 0)
    return accel__refuse(b, "field 'addition_embed_type': '%s' is not supported; known: text_time",
                         c->added_type);
  if (c->in_kernel % 2 == 0 || c->out_kernel % 2 == 0)
    return accel__refuse(b, "fields 'conv_in_kernel' and 'conv_out_kernel' must be odd");
  return ACCEL_OK;
}

/* What of a level is read per level: heads, width of the text, layers of the transformers. */
typedef struct per_level {
  int64_t channels[ACCEL__UNET_LEVELS], layers[ACCEL__UNET_LEVELS], heads[ACCEL__UNET_LEVELS],
      depth[ACCEL__UNET_LEVELS], up_depth[ACCEL__UNET_LEVELS], down[ACCEL__UNET_LEVELS],
      up[ACCEL__UNET_LEVELS], dim[ACCEL__UNET_LEVELS];
  bool only_cross[ACCEL__UNET_LEVELS];
} per_level;

static accel_status read_only_cross(const accel__build *b, int64_t n, bool *io) {
  const accel__json *value = accel__json_get(b->config, "only_cross_attention");
  bool all = false;
  if (!cJSON_IsArray(value)) {
    ACCEL_TRY(accel__json_bool(b->file, b->config, "only_cross_attention", &all));
    for (int64_t i = 0; i < n; i++) io[i] = all;
    return ACCEL_OK;
  }
  ACCEL_TRY(accel__read_list(b, "only_cross_attention", n, &value));
  for (int64_t i = 0; i < n; i++) io[i] = cJSON_IsTrue(cJSON_GetArrayItem(value, (int)i));
  return ACCEL_OK;
}

static accel_status read_levels(accel__build *b, int64_t n, per_level *l, int64_t *cross) {
  const int64_t most = ACCEL__MAX_WIDTH;
  ACCEL_TRY(accel__read_ints(b, "block_out_channels", n, 2, most, l->channels));
  ACCEL_TRY(accel__read_one_or_more(b, "layers_per_block", n, 1, ACCEL__MAX_LAYERS, l->layers));
  ACCEL_TRY(accel__read_one_or_more(b, "cross_attention_dim", n, 1, most, cross));
  ACCEL_TRY(accel__read_one_or_more(b, "attention_head_dim", n, 1, most, l->heads));
  memcpy(l->dim, l->heads, sizeof l->dim);
  /* the field's name notwithstanding, attention_head_dim counts heads here (diffusers issue 2011) */
  ACCEL_TRY(accel__read_one_or_more(b, "transformer_layers_per_block", n, 1, ACCEL__MAX_LAYERS,
                                    l->depth));
  for (int64_t i = 0; i < n; i++) l->up_depth[i] = l->depth[n - 1 - i];
  ACCEL_TRY(accel__read_ints(b, "reverse_transformer_layers_per_block", n, 1, ACCEL__MAX_LAYERS,
                             l->up_depth));
  ACCEL_TRY(accel__read_names(b, "down_block_types", n, down_types, l->down));
  ACCEL_TRY(accel__read_names(b, "up_block_types", n, up_types, l->up));
  return read_only_cross(b, n, l->only_cross);
}

/* Level `at` of the config as one of the way down (or up: `depth` of its own). */
static accel__unet_level level_of(const unet *c, const per_level *l, int64_t at, int64_t kind,
                                  int64_t depth) {
  const int64_t groups = c->body.resnet.groups;
  const double eps = c->body.resnet.eps;
  return (accel__unet_level){
      .kind = (accel__unet_kind)kind,
      .channels = l->channels[at],
      .layers = l->layers[at],
      .attention = {.heads = l->dim[at] > 0 ? l->channels[at] / l->dim[at] : 0,
                    .groups = groups,
                    .eps = eps,
                    .output_scale = 1.0},
      .transformer = {.heads = l->heads[at],
                      .layers = depth,
                      .groups = groups,
                      .only_cross = l->only_cross[at]}};
}

static accel_status read_middle(accel__build *b, unet *c, const per_level *l) {
  const char *name = "UNetMidBlock2DCrossAttn";
  const int64_t last = c->body.levels - 1;
  ACCEL_TRY(accel__json_string(b->file, b->config, "mid_block_type", &name));
  c->body.middle = level_of(c, l, last, ACCEL__UNET_CROSSES, l->depth[last]);
  c->body.middle.layers = 1;
  c->body.middle.transformer.only_cross = false;
  if (accel__is_null(b, "mid_block_type")) {
    c->body.middle.kind = ACCEL__UNET_NO_MIDDLE;
  } else if (strcmp(name, "UNetMidBlock2D") == 0) {
    c->body.middle.kind = ACCEL__UNET_PLAIN;
    c->body.middle.layers = 0;
  } else if (strcmp(name, "UNetMidBlock2DCrossAttn") != 0) {
    return accel__refuse(b,
                         "field 'mid_block_type': '%s' is not supported; known: "
                         "UNetMidBlock2DCrossAttn, UNetMidBlock2D",
                         name);
  }
  return ACCEL_OK;
}

static accel_status read_config(accel__build *b, unet *c) {
  static const per_level usual = {.channels = {320, 640, 1280, 1280},
                                  .layers = {2, 2, 2, 2},
                                  .heads = {8, 8, 8, 8},
                                  .depth = {1, 1, 1, 1},
                                  .down = {2, 2, 2, 0},
                                  .up = {0, 2, 2, 2}};
  *c = (unet){.in = 4,
              .out = 4,
              .cross = {1280, 1280, 1280, 1280},
              .in_kernel = 3,
              .out_kernel = 3,
              .flip = true,
              .body = {.padding = 1,
                       .levels = 4,
                       .middle_scale = 1.0,
                       .resnet = {.groups = 32,
                                  .eps = 1e-5,
                                  .act = {.act = ACCEL_PLUGIN_ACT_SILU},
                                  .output_scale = 1.0,
                                  .time = -1}}};
  per_level l = usual;
  int64_t n = 4;
  ACCEL_TRY(refuse_variants(b));
  ACCEL_TRY(read_scalars(b, c));
  ACCEL_TRY(accel__read_level_count(b, &n));
  for (int64_t i = 4; i < n; i++) { /* what one number of the config would say for all */
    l.layers[i] = 2;
    l.heads[i] = 8;
    l.depth[i] = 1;
    c->cross[i] = 1280;
  }
  c->body.levels = n;
  ACCEL_TRY(read_levels(b, n, &l, c->cross));
  for (int64_t i = 0; i < n; i++) {
    const int64_t mirror = n - 1 - i;
    c->body.down[i] = level_of(c, &l, i, l.down[i], l.depth[i]);
    c->body.up[i] = level_of(c, &l, mirror, l.up[i], l.up_depth[i]);
    c->body.up[i].layers++;
    if (c->cross[i] != c->cross[0])
      return accel__refuse(b,
                           "field 'cross_attention_dim': levels of several widths are not "
                           "supported");
  }
  if (l.channels[0] % 2 != 0)
    return accel__refuse(b, "field 'block_out_channels': the first one must be even");
  if (c->time == 0) c->time = 4 * l.channels[0];
  b->model->hidden_size = l.channels[0];
  return read_middle(b, c, &l);
}

/* ---- what is added to the time ---- */

static accel__tensor item(accel__build *b, const char *name, int64_t columns, bool optional) {
  const accel__dim dims[2] = {b->B, accel__const_dim(b->p, columns)};
  return accel__add_item(b, name, ACCEL_PLUGIN_F32, 2, dims,
                         optional ? ACCEL__DEFAULT_ZEROS : ACCEL__DEFAULT_REQUIRED);
}

/* class_labels as class_embed_type says; -1: the config knows no classes. */
static accel__tensor class_rows(accel__build *b, const unet *c, int64_t waves) {
  const char *type = c->class_type;
  if (type == NULL && c->class_labels == 0) return -1;
  if (type == NULL) {
    accel__tensor labels =
        accel__add_item(b, "class_labels", ACCEL_PLUGIN_I32, 1, &b->B, ACCEL__DEFAULT_REQUIRED);
    return accel__embedding(b, labels, c->class_labels, c->time, "class_embedding");
  }
  if (strcmp(type, "timestep") == 0) {
    accel__tensor labels =
        accel__add_item(b, "class_labels", ACCEL_PLUGIN_F32, 1, &b->B, ACCEL__DEFAULT_REQUIRED);
    return accel__unet_embedding(b, accel__unet_waves(b, labels, waves, c->flip, c->shift), c->time,
                                 &c->body.resnet.act, "class_embedding");
  }
  if (strcmp(type, "identity") == 0) return item(b, "class_labels", c->time, false);
  if (c->class_width == 0)
    return accel__program_fail(
        b->p, ACCEL_ERROR_FORMAT,
        "%s: 'class_embed_type' needs 'projection_class_embeddings_input_dim'", b->file->name);
  accel__tensor rows = item(b, "class_labels", c->class_width, false);
  if (strcmp(type, "projection") == 0)
    return accel__unet_embedding(b, rows, c->time, &accel__unet_silu, "class_embedding");
  if (strcmp(type, "simple_projection") == 0)
    return accel__dense_layer(b, rows, c->time, true, -1, NULL, "class_embedding");
  return accel__program_fail(
      b->p, ACCEL_ERROR_UNSUPPORTED,
      "%s: field 'class_embed_type': '%s' is not supported; known: timestep, "
      "identity, projection, simple_projection",
      b->file->name, type);
}

/* SDXL: the pooled text, and sizes and crops as waves. */
static accel__tensor added_rows(accel__build *b, const unet *c) {
  if (c->added_type == NULL) return -1;
  if (c->added == 0 || c->class_width == 0)
    return accel__program_fail(b->p, ACCEL_ERROR_FORMAT,
                               "%s: 'addition_embed_type' needs 'addition_time_embed_dim' and "
                               "'projection_class_embeddings_input_dim'",
                               b->file->name);
  const int64_t sizes = 6, pooled = c->class_width - sizes * c->added;
  if (pooled < 1)
    return accel__program_fail(b->p, ACCEL_ERROR_FORMAT,
                               "%s: 'projection_class_embeddings_input_dim' leaves no columns for "
                               "the text",
                               b->file->name);
  accel__tensor text = item(b, "text_embeds", pooled, false),
                ids = item(b, "time_ids", sizes, false);
  ids = accel__reshape(b->p, ids, 1,
                       (accel__dim[]){accel__times(b, b->B, accel__const_dim(b->p, sizes))});
  accel__tensor waves = accel__unet_waves(b, ids, c->added, c->flip, c->shift);
  waves = accel__reshape(b->p, waves, 2,
                         (accel__dim[]){b->B, accel__const_dim(b->p, sizes * c->added)});
  return accel__unet_embedding(b, accel__concat(b, 1, 2, (accel__tensor[]){text, waves}), c->time,
                               &accel__unet_silu, "add_embedding");
}

static accel__tensor time_rows(accel__build *b, unet *c, accel__tensor timestep, int64_t waves) {
  accel__tensor t = accel__unet_waves(b, timestep, waves, c->flip, c->shift);
  if (c->condition > 0) {
    accel__tensor condition = item(b, "timestep_cond", c->condition, true);
    t = accel__dense_layer(b, condition, waves, false, t, NULL, "time_embedding.cond_proj");
  }
  t = accel__unet_embedding(b, t, c->time, &c->body.resnet.act, "time_embedding");
  if (c->has_time_post) t = accel__activate(b, t, &c->time_post);
  const accel__tensor classes = class_rows(b, c, waves), added = added_rows(b, c);
  if (classes >= 0 && c->concat_class)
    t = accel__concat(b, 1, 2, (accel__tensor[]){t, classes});
  else if (classes >= 0)
    t = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, t, classes);
  if (added >= 0) t = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, t, added);
  if (c->has_time_last) t = accel__activate(b, t, &c->time_last);
  return accel__activate(b, t, &c->body.resnet.act); /* as every residual block would */
}

/* encoder_hidden_states [B,S,width] as rows of a space of their own. */
static accel__unet_text text_rows(accel__build *b, const unet *c) {
  const int64_t width = c->text_hidden > 0 ? c->text_hidden : c->cross[0];
  const accel__dim S = accel__symbol(b->p, "S", 1, ACCEL__MAX_POSITIONS, 77),
                   dims[3] = {b->B, S, accel__const_dim(b->p, width)};
  accel__tensor x = accel__add_item(b, "encoder_hidden_states", ACCEL_PLUGIN_F32, 3, dims,
                                    ACCEL__DEFAULT_REQUIRED);
  accel__unet_text text = {.rows = accel__items_to_rows(b, x, "text"), .space = b->space};
  if (c->text_hidden > 0)
    text.rows = accel__dense_layer(b, text.rows, c->cross[0], true, -1, NULL, "encoder_hid_proj");
  return text;
}

static bool has_cross(const accel__unet *u) {
  bool crosses = u->middle.kind == ACCEL__UNET_CROSSES;
  for (int64_t i = 0; i < u->levels; i++)
    crosses =
        crosses || u->down[i].kind == ACCEL__UNET_CROSSES || u->up[i].kind == ACCEL__UNET_CROSSES;
  return crosses;
}

accel_status accel__unet_2d_condition(accel__build *b, accel__tensor *out) {
  unet c;
  ACCEL_TRY(read_config(b, &c));
  b->spelling[0] = accel__unet_old_attention;
  b->B = accel__symbol(b->p, b->input_ids >= 0 ? "images" : "B", 1, 0, 1);
  int64_t side = 64;
  ACCEL_TRY(accel__json_int(b->file, b->config, "sample_size", 1, ACCEL__MAX_WIDTH, &side));
  const accel__dim dims[4] = {b->B, accel__const_dim(b->p, c.in),
                              accel__symbol(b->p, "H", 1, ACCEL__MAX_WIDTH, side),
                              accel__symbol(b->p, "W", 1, ACCEL__MAX_WIDTH, side)};
  accel__tensor x = accel__add_item(b, "sample", ACCEL_PLUGIN_F32, 4, dims,
                                    ACCEL__DEFAULT_REQUIRED),
                timestep = accel__add_item(b, "timestep", ACCEL_PLUGIN_F32, 1, dims,
                                           ACCEL__DEFAULT_REQUIRED);
  accel__unet_text text = {-1, -1};
  accel__at(b->p, 0, "%sconv_in", b->scope != NULL ? b->scope : "");
  if (has_cross(&c.body)) text = text_rows(b, &c);
  c.body.resnet.time = time_rows(b, &c, timestep, c.body.down[0].channels);
  if (c.center) x = accel__affine(b, x, 2.0, -1.0);
  const accel__conv in = {.out = c.body.down[0].channels,
                          .kernel = {c.in_kernel, c.in_kernel},
                          .pad = {c.in_kernel / 2, c.in_kernel / 2},
                          .bias = true},
                    last = {.out = c.out,
                            .kernel = {c.out_kernel, c.out_kernel},
                            .pad = {c.out_kernel / 2, c.out_kernel / 2},
                            .bias = true};
  x = accel__unet_body(b, &c.body, accel__conv2d(b, x, &in, "conv_in"), &text);
  accel__at(b->p, (uint32_t)(2 * c.body.levels + 2), "%sconv_out",
            b->scope != NULL ? b->scope : "");
  x = accel__unet_norm(b, x, c.body.resnet.groups, c.body.resnet.eps, &c.body.resnet.act,
                       "conv_norm_out");
  *out = accel__conv2d(b, x, &last, "conv_out");
  return ACCEL_OK;
}

accel_status accel__denoiser_model(const accel__model_request *request, const char *architecture,
                                   accel__model *model,
                                   accel_status (*part)(accel__build *b, accel__tensor *out)) {
  accel__build b;
  accel__tensor x = -1;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, ""));
  ACCEL_TRY(part(&b, &x));
  accel__add_output(&b, "sample", x, 0);
  return accel__build_end(&b, x);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__denoiser_model(request, architecture, model, accel__unet_2d_condition);
}

static const char *const classes[] = {"UNet2DConditionModel", NULL};
const accel__architecture accel__model_unet_2d_condition = {
    .model_type = "unet_2d_condition", .classes = classes, .build = build};
