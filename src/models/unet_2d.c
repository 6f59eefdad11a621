/* unet_2d.c - UNet2DModel of diffusers: the UNet of DDPM, which knows no text, alone and as the model
 * of a DDPMPipeline or DDIMPipeline. */
#include <string.h>

#include "models/diffusion.h"

typedef struct unet {
  accel__unet body;
  int64_t in, out, classes, steps, time;
  bool flip, center, learned;
  double shift;
  const char *class_type;
} unet;

static const char *const down_types[] = {"DownBlock2D", "AttnDownBlock2D", NULL},
                         *const up_types[] = {"UpBlock2D", "AttnUpBlock2D", NULL};

static accel_status one_of(const accel__build *b, const char *key, const char *const *known,
                           int64_t *which) {
  const char *name = NULL;
  ACCEL_TRY(accel__json_string(b->file, b->config, key, &name));
  for (*which = 0; name != NULL && known[*which] != NULL; (*which)++)
    if (strcmp(known[*which], name) == 0) break;
  if (name == NULL || known[*which] != NULL) return ACCEL_OK;
  return accel__refuse(b, "field '%s': '%s' is not supported; known: %s%s%s", key, name, known[0],
                       known[1] != NULL ? ", " : "", known[1] != NULL ? known[1] : "");
}

static accel_status read_scalars(accel__build *b, unet *c, bool *attends, int64_t *middle_groups) {
  static const char *const conv[] = {"conv", NULL},
                           *const times[] = {"positional", "learned", NULL},
                           *const scales[] = {"default", "scale_shift", NULL};
  int64_t which;
  const accel__field fields[] = {
      ACCEL_FIELD_INT("in_channels", &c->in, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("out_channels", &c->out, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("downsample_padding", &c->body.padding, 0, 1),
      ACCEL_FIELD_INT("norm_num_groups", &c->body.resnet.groups, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("attn_norm_num_groups", middle_groups, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_class_embeds", &c->classes, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("num_train_timesteps", &c->steps, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_BOOL("flip_sin_to_cos", &c->flip),
      ACCEL_FIELD_BOOL("center_input_sample", &c->center),
      ACCEL_FIELD_BOOL("add_attention", attends),
      ACCEL_FIELD_NUMBER("freq_shift", &c->shift),
      ACCEL_FIELD_NUMBER("norm_eps", &c->body.resnet.eps),
      ACCEL_FIELD_NUMBER("mid_block_scale_factor", &c->body.middle_scale),
      ACCEL_FIELD_STRING("class_embed_type", &c->class_type),
      ACCEL_FIELD_ACT("act_fn", &c->body.resnet.act)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(one_of(b, "downsample_type", conv, &which));
  ACCEL_TRY(one_of(b, "upsample_type", conv, &which));
  ACCEL_TRY(one_of(b, "resnet_time_scale_shift", scales, &which));
  c->body.resnet.scale_shift = which == 1;
  ACCEL_TRY(one_of(b, "time_embedding_type", times, &which));
  c->learned = which == 1;
  if (c->learned && c->steps == 0)
    return accel__refuse(b, "field 'time_embedding_type': learned needs 'num_train_timesteps'");
  return ACCEL_OK;
}

static accel_status read_levels(accel__build *b, unet *c, bool attends, int64_t middle_groups) {
  int64_t channels[ACCEL__UNET_LEVELS] = {224, 448, 672, 896}, layers = 2, dim = 8,
          down[ACCEL__UNET_LEVELS] = {0, 1, 1, 1}, up[ACCEL__UNET_LEVELS] = {1, 1, 1, 0};
  int64_t n = 4;
  ACCEL_TRY(accel__read_level_count(b, &n));
  c->body.levels = n;
  ACCEL_TRY(accel__read_ints(b, "block_out_channels", n, 2, ACCEL__MAX_WIDTH, channels));
  ACCEL_TRY(accel__read_names(b, "down_block_types", n, down_types, down));
  ACCEL_TRY(accel__read_names(b, "up_block_types", n, up_types, up));
  ACCEL_TRY(accel__json_int(b->file, b->config, "layers_per_block", 1, ACCEL__MAX_LAYERS, &layers));
  ACCEL_TRY(accel__json_int(b->file, b->config, "attention_head_dim", 1, ACCEL__MAX_WIDTH, &dim));
  /* null: one head over all channels */
  const bool one_head = accel__is_null(b, "attention_head_dim");
  for (int64_t i = 0; i < n; i++) {
    const int64_t mirror = n - 1 - i;
    c->body.down[i] = (accel__unet_level){.kind = (accel__unet_kind)down[i],
                                          .channels = channels[i],
                                          .layers = layers,
                                          .attention = {.heads = one_head ? 1 : channels[i] / dim,
                                                        .groups = c->body.resnet.groups,
                                                        .eps = c->body.resnet.eps,
                                                        .output_scale = 1.0}};
    c->body.up[i] = (accel__unet_level){.kind = (accel__unet_kind)up[i],
                                        .channels = channels[mirror],
                                        .layers = layers + 1,
                                        .attention = c->body.down[i].attention};
    c->body.up[i].attention.heads = one_head ? 1 : channels[mirror] / dim;
  }
  c->body.middle = (accel__unet_level){
      .kind = attends ? ACCEL__UNET_ATTENDS : ACCEL__UNET_PLAIN,
      .layers = 1,
      .attention = {.heads = one_head ? 1 : channels[n - 1] / dim,
                    .groups = middle_groups > 0 ? middle_groups : c->body.resnet.groups,
                    .eps = c->body.resnet.eps,
                    .output_scale = c->body.middle_scale}};
  if (channels[0] % 2 != 0)
    return accel__refuse(b, "field 'block_out_channels': the first one must be even");
  c->time = 4 * channels[0];
  b->model->hidden_size = channels[0];
  return ACCEL_OK;
}

static accel_status read_config(accel__build *b, unet *c) {
  bool attends = true;
  int64_t middle_groups = 0;
  *c = (unet){.in = 3,
              .out = 3,
              .flip = true,
              .body = {.padding = 1,
                       .middle_scale = 1.0,
                       .resnet = {.groups = 32,
                                  .eps = 1e-5,
                                  .act = {.act = ACCEL_PLUGIN_ACT_SILU},
                                  .output_scale = 1.0,
                                  .time = -1}}};
  ACCEL_TRY(read_scalars(b, c, &attends, &middle_groups));
  return read_levels(b, c, attends, middle_groups);
}

static accel__tensor class_rows(accel__build *b, const unet *c) {
  const char *type = c->class_type;
  if (type == NULL && c->classes == 0) return -1;
  if (type == NULL)
    return accel__embedding(
        b, accel__add_item(b, "class_labels", ACCEL_PLUGIN_I32, 1, &b->B, ACCEL__DEFAULT_REQUIRED),
        c->classes, c->time, "class_embedding");
  if (strcmp(type, "timestep") == 0) {
    accel__tensor labels =
        accel__add_item(b, "class_labels", ACCEL_PLUGIN_F32, 1, &b->B, ACCEL__DEFAULT_REQUIRED);
    labels = accel__unet_waves(b, labels, c->time / 4, c->flip, c->shift);
    return accel__unet_embedding(b, labels, c->time, &accel__unet_silu, "class_embedding");
  }
  if (strcmp(type, "identity") == 0)
    return accel__add_item(b, "class_labels", ACCEL_PLUGIN_F32, 2,
                           (accel__dim[]){b->B, accel__const_dim(b->p, c->time)},
                           ACCEL__DEFAULT_REQUIRED);
  return accel__program_fail(
      b->p, ACCEL_ERROR_UNSUPPORTED,
      "%s: field 'class_embed_type': '%s' is not supported; known: timestep, identity",
      b->file->name, type);
}

static accel__tensor time_rows(accel__build *b, const unet *c) {
  const accel_plugin_dtype dtype = c->learned ? ACCEL_PLUGIN_I32 : ACCEL_PLUGIN_F32;
  accel__tensor t = accel__add_item(b, "timestep", dtype, 1, &b->B, ACCEL__DEFAULT_REQUIRED);
  t = c->learned ? accel__embedding(b, t, c->steps, c->time / 4, "time_proj")
                 : accel__unet_waves(b, t, c->time / 4, c->flip, c->shift);
  t = accel__unet_embedding(b, t, c->time, &accel__unet_silu, "time_embedding");
  const accel__tensor classes = class_rows(b, c);
  if (classes >= 0) t = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, t, classes);
  return accel__activate(b, t, &c->body.resnet.act);
}

accel_status accel__unet_2d(accel__build *b, accel__tensor *out) {
  unet c;
  ACCEL_TRY(read_config(b, &c));
  b->spelling[0] = accel__unet_old_attention;
  b->B = accel__symbol(b->p, "B", 1, 0, 1);
  accel__size2 side = {64, 64};
  ACCEL_TRY(accel__read_size2(b, "sample_size", 1, ACCEL__MAX_WIDTH, &side));
  const accel__dim dims[4] = {b->B, accel__const_dim(b->p, c.in),
                              accel__symbol(b->p, "H", 1, ACCEL__MAX_WIDTH, side.h),
                              accel__symbol(b->p, "W", 1, ACCEL__MAX_WIDTH, side.w)};
  accel__tensor x =
      accel__add_item(b, "sample", ACCEL_PLUGIN_F32, 4, dims, ACCEL__DEFAULT_REQUIRED);
  accel__at(b->p, 0, "%sconv_in", b->scope != NULL ? b->scope : "");
  c.body.resnet.time = time_rows(b, &c);
  if (c.center) x = accel__affine(b, x, 2.0, -1.0);
  accel__conv conv = {
      .out = c.body.down[0].channels, .kernel = {3, 3}, .pad = {1, 1}, .bias = true};
  x = accel__unet_body(b, &c.body, accel__conv2d(b, x, &conv, "conv_in"), NULL);
  accel__at(b->p, (uint32_t)(2 * c.body.levels + 2), "%sconv_out",
            b->scope != NULL ? b->scope : "");
  x = accel__unet_norm(b, x, c.body.resnet.groups, c.body.resnet.eps, &accel__unet_silu,
                       "conv_norm_out");
  conv.out = c.out;
  *out = accel__conv2d(b, x, &conv, "conv_out");
  return ACCEL_OK;
}

/* Of a pipeline the part "unet". */
static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  accel__tensor x;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, ""));
  if (accel__is_class(&b, "Pipeline")) {
    ACCEL_TRY(accel__enter_config(&b, "unet"));
    b.scope = "unet.";
  }
  ACCEL_TRY(accel__unet_2d(&b, &x));
  accel__add_output(&b, "sample", x, 0);
  return accel__build_end(&b, x);
}

static const char *const classes[] = {"UNet2DModel", "DDPMPipeline", "DDIMPipeline", NULL};
const accel__architecture accel__model_unet_2d = {
    .model_type = "unet_2d", .classes = classes, .build = build};
