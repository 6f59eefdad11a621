/* autoencoder_kl.c - AutoencoderKL of diffusers: pictures to latents and back. */
#include <stdio.h>
#include <string.h>

#include "models/diffusion.h"

static const double norm_eps = 1e-6; /* of all its norms, whatever the config */

accel_status accel__autoencoder_read(accel__build *b, accel__autoencoder *c) {
  static const char *const down[] = {"DownEncoderBlock2D", NULL}, *const up[] = {"UpDecoderBlock2D",
                                                                                 NULL};
  int64_t kinds[ACCEL__UNET_LEVELS];
  *c = (accel__autoencoder){.in = 3,
                            .out = 3,
                            .latents = 4,
                            .levels = 1,
                            .layers = 1,
                            .channels = {64},
                            .resnet = {.groups = 32,
                                       .eps = norm_eps,
                                       .act = {.act = ACCEL_PLUGIN_ACT_SILU},
                                       .output_scale = 1.0,
                                       .time = -1},
                            .quant = true,
                            .post_quant = true,
                            .middle_attends = true};
  const accel__field fields[] = {
      ACCEL_FIELD_INT("in_channels", &c->in, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("out_channels", &c->out, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("latent_channels", &c->latents, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("layers_per_block", &c->layers, 1, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("norm_num_groups", &c->resnet.groups, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_BOOL("use_quant_conv", &c->quant),
      ACCEL_FIELD_BOOL("use_post_quant_conv", &c->post_quant),
      ACCEL_FIELD_BOOL("mid_block_add_attention", &c->middle_attends),
      ACCEL_FIELD_ACT("act_fn", &c->resnet.act)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__read_level_count(b, &c->levels));
  ACCEL_TRY(accel__read_ints(b, "block_out_channels", c->levels, 1, ACCEL__MAX_WIDTH, c->channels));
  ACCEL_TRY(accel__read_names(b, "down_block_types", c->levels, down, kinds));
  ACCEL_TRY(accel__read_names(b, "up_block_types", c->levels, up, kinds));
  b->model->hidden_size = c->channels[c->levels - 1];
  return ACCEL_OK;
}

static accel__tensor square(accel__build *b, accel__tensor x, int64_t out, int64_t kernel,
                            const char *name) {
  const accel__conv c = {
      .out = out, .kernel = {kernel, kernel}, .pad = {kernel / 2, kernel / 2}, .bias = true};
  return accel__conv2d(b, x, &c, "%s", name);
}

/* The middle of the encoder or the decoder: one head over all channels. */
static accel__tensor middle(accel__build *b, const accel__autoencoder *c, accel__tensor x,
                            const char *path) {
  const accel__unet_level level = {
      .kind = c->middle_attends ? ACCEL__UNET_ATTENDS : ACCEL__UNET_PLAIN,
      .layers = 1,
      .attention = {.heads = 1, .groups = c->resnet.groups, .eps = norm_eps, .output_scale = 1.0}};
  return accel__unet_middle(b, &c->resnet, &level, x, NULL, path);
}

static void at_stage(accel__build *b, int64_t stage, const char *path) {
  accel__at(b->p, (uint32_t)stage, "%s%s", b->scope != NULL ? b->scope : "", path);
}

accel__tensor accel__autoencoder_encode(accel__build *b, const accel__autoencoder *c,
                                        accel__tensor x) {
  char path[96];
  at_stage(b, 0, "encoder.conv_in");
  x = square(b, x, c->channels[0], 3, "encoder.conv_in");
  for (int64_t i = 0; i < c->levels; i++) {
    snprintf(path, sizeof path, "encoder.down_blocks.%lld", (long long)i);
    at_stage(b, i + 1, path);
    for (int64_t j = 0; j < c->layers; j++) {
      snprintf(path, sizeof path, "encoder.down_blocks.%lld.resnets.%lld", (long long)i,
               (long long)j);
      x = accel__unet_resnet_block(b, &c->resnet, x, c->channels[i], path);
    }
    snprintf(path, sizeof path, "encoder.down_blocks.%lld.downsamplers.0", (long long)i);
    if (i + 1 < c->levels) x = accel__unet_downsample(b, x, 0, path);
  }
  at_stage(b, c->levels + 1, "encoder.mid_block");
  x = middle(b, c, x, "encoder.mid_block");
  x = accel__unet_norm(b, x, c->resnet.groups, norm_eps, &accel__unet_silu,
                       "encoder.conv_norm_out");
  x = square(b, x, 2 * c->latents, 3, "encoder.conv_out");
  return c->quant ? square(b, x, 2 * c->latents, 1, "quant_conv") : x;
}

accel__tensor accel__autoencoder_decode(accel__build *b, const accel__autoencoder *c,
                                        accel__tensor x) {
  char path[96];
  const accel__dim two = accel__const_dim(b->p, 2);
  at_stage(b, c->levels + 2, "decoder.mid_block");
  if (c->post_quant) x = square(b, x, c->latents, 1, "post_quant_conv");
  x = square(b, x, c->channels[c->levels - 1], 3, "decoder.conv_in");
  x = middle(b, c, x, "decoder.mid_block");
  for (int64_t i = 0; i < c->levels; i++) {
    snprintf(path, sizeof path, "decoder.up_blocks.%lld", (long long)i);
    at_stage(b, c->levels + 3 + i, path);
    for (int64_t j = 0; j <= c->layers; j++) {
      snprintf(path, sizeof path, "decoder.up_blocks.%lld.resnets.%lld", (long long)i,
               (long long)j);
      x = accel__unet_resnet_block(b, &c->resnet, x, c->channels[c->levels - 1 - i], path);
    }
    snprintf(path, sizeof path, "decoder.up_blocks.%lld.upsamplers.0", (long long)i);
    if (i + 1 == c->levels || x < 0) break;
    x = accel__unet_upsample(b, x, accel__times(b, accel__tensor_dim(b->p, x, 2), two),
                             accel__times(b, accel__tensor_dim(b->p, x, 3), two), path);
  }
  x = accel__unet_norm(b, x, c->resnet.groups, norm_eps, &accel__unet_silu,
                       "decoder.conv_norm_out");
  return square(b, x, c->out, 3, "decoder.conv_out");
}

/* forward() without sample_posterior: the decoded mean. */
static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  accel__autoencoder c;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, ""));
  ACCEL_TRY(accel__autoencoder_read(&b, &c));
  b.spelling[0] = accel__unet_old_attention;
  b.B = accel__symbol(b.p, "B", 1, 0, 1);
  int64_t side = 512;
  ACCEL_TRY(accel__json_int(b.file, b.config, "sample_size", 1, ACCEL__MAX_WIDTH, &side));
  const accel__dim dims[4] = {b.B, accel__const_dim(b.p, c.in),
                              accel__symbol(b.p, "H", 1, ACCEL__MAX_WIDTH, side),
                              accel__symbol(b.p, "W", 1, ACCEL__MAX_WIDTH, side)};
  accel__tensor x =
      accel__add_item(&b, "sample", ACCEL_PLUGIN_F32, 4, dims, ACCEL__DEFAULT_REQUIRED);
  x = accel__autoencoder_encode(&b, &c, x);
  accel__tensor mean = x < 0 ? -1 : accel__slice(b.p, x, 1, 0, c.latents);
  mean = accel__autoencoder_decode(&b, &c, mean);
  accel__add_output(&b, "sample", mean, 0);
  accel__add_output(&b, "latent_dist.parameters", x, ACCEL__OUTPUT_ON_REQUEST);
  return accel__build_end(&b, mean);
}

static const char *const classes[] = {"AutoencoderKL", NULL};
const accel__architecture accel__model_autoencoder_kl = {
    .model_type = "autoencoder_kl", .classes = classes, .build = build};
