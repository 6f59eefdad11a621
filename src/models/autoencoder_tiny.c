/* autoencoder_tiny.c - AutoencoderTiny of diffusers (TAESD): a small autoencoder for the latents of
 * another one, without a distribution. */
#include <string.h>

#include "models/diffusion.h"

static accel_status read_side(accel__build *b, const char *channels_key, const char *blocks_key,
                              accel__tiny_side *side) {
  const accel__json *list = NULL;
  const int64_t widest = ACCEL__MAX_WIDTH, deepest = ACCEL__MAX_LAYERS;
  ACCEL_TRY(accel__json_array(b->file, b->config, channels_key, &list));
  if (list != NULL) side->levels = cJSON_GetArraySize(list);
  if (side->levels < 1 || side->levels > ACCEL__UNET_LEVELS)
    return accel__refuse(b, "field '%s' has %lld entries", channels_key, (long long)side->levels);
  ACCEL_TRY(accel__read_ints(b, channels_key, side->levels, 1, widest, side->channels));
  ACCEL_TRY(accel__read_ints(b, blocks_key, side->levels, 0, deepest, side->blocks));
  for (int64_t i = 1; i < side->levels; i++) /* diffusers' own forward() has no way between */
    if (side->channels[i] != side->channels[0])
      return accel__refuse(b, "field '%s': levels of several widths are not supported",
                           channels_key);
  return ACCEL_OK;
}

accel_status accel__autoencoder_tiny_read(accel__build *b, accel__autoencoder_tiny *c) {
  const char *enlarges = "nearest";
  *c = (accel__autoencoder_tiny){
      .in = 3,
      .out = 3,
      .latents = 4,
      .factor = 2,
      .magnitude = 3,
      .shift = 0.5,
      .act = {.act = ACCEL_PLUGIN_ACT_RELU},
      .encoder = {.levels = 4, .channels = {64, 64, 64, 64}, .blocks = {1, 3, 3, 3}},
      .decoder = {.levels = 4, .channels = {64, 64, 64, 64}, .blocks = {3, 3, 3, 1}}};
  const accel__field fields[] = {
      ACCEL_FIELD_INT("in_channels", &c->in, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("out_channels", &c->out, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("latent_channels", &c->latents, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("upsampling_scaling_factor", &c->factor, 1, 64),
      ACCEL_FIELD_NUMBER("latent_magnitude", &c->magnitude),
      ACCEL_FIELD_NUMBER("latent_shift", &c->shift),
      ACCEL_FIELD_STRING("upsample_fn", &enlarges),
      ACCEL_FIELD_ACT("act_fn", &c->act)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  if (strcmp(enlarges, "nearest") != 0)
    return accel__refuse(b, "field 'upsample_fn': '%s' is not supported; known: nearest", enlarges);
  if (c->magnitude == 0) return accel__refuse(b, "field 'latent_magnitude' is 0");
  ACCEL_TRY(read_side(b, "encoder_block_out_channels", "num_encoder_blocks", &c->encoder));
  ACCEL_TRY(read_side(b, "decoder_block_out_channels", "num_decoder_blocks", &c->decoder));
  b->model->hidden_size = c->decoder.channels[0];
  return ACCEL_OK;
}

static void at_stage(accel__build *b, int64_t stage, const char *side, int64_t layer) {
  accel__at(b->p, (uint32_t)stage, "%s%s.layers.%lld", b->scope != NULL ? b->scope : "", side,
            (long long)layer);
}

static accel__conv square(int64_t out, bool bias) {
  return (accel__conv){.out = out, .kernel = {3, 3}, .pad = {1, 1}, .bias = bias};
}

/* relu(conv(act(conv(act(conv(x))))) + x) */
static accel__tensor block(accel__build *b, const accel__autoencoder_tiny *c, accel__tensor x,
                           int64_t channels, const char *side, int64_t layer) {
  static const accel__activation relu = {.act = ACCEL_PLUGIN_ACT_RELU};
  accel__conv conv = square(channels, true);
  accel__tensor y = x;
  conv.act = &c->act;
  for (int i = 0; i < 4; i += 2)
    y = accel__conv2d(b, y, &conv, "%s.layers.%lld.conv.%d", side, (long long)layer, i);
  conv.act = &relu;
  conv.residual = x;
  return accel__conv2d(b, y, &conv, "%s.layers.%lld.conv.4", side, (long long)layer);
}

accel__tensor accel__autoencoder_tiny_encode(accel__build *b, const accel__autoencoder_tiny *c,
                                             accel__tensor x) {
  const accel__tiny_side *e = &c->encoder;
  int64_t layer = 0;
  x = accel__affine(b, x, 0.5, 0.5);
  for (int64_t i = 0; i < e->levels; i++) {
    accel__conv conv = square(e->channels[i], i == 0);
    if (i > 0) conv.stride = (accel__size2){2, 2};
    at_stage(b, i, "encoder", layer);
    x = accel__conv2d(b, x, &conv, "encoder.layers.%lld", (long long)layer++);
    for (int64_t j = 0; j < e->blocks[i]; j++)
      x = block(b, c, x, e->channels[i], "encoder", layer++);
  }
  const accel__conv last = square(c->latents, true);
  return accel__conv2d(b, x, &last, "encoder.layers.%lld", (long long)layer);
}

static accel__tensor enlarge(accel__build *b, accel__tensor x, int64_t factor) {
  const accel__dim by = accel__const_dim(b->p, factor);
  if (x < 0) return -1;
  const int64_t shape[2] = {accel__times(b, accel__tensor_dim(b->p, x, 2), by),
                            accel__times(b, accel__tensor_dim(b->p, x, 3), by)};
  accel__attr attr[] = {ACCEL_I(KIND, ACCEL_PLUGIN_RESIZE_NEAREST), ACCEL_D(SHAPE, shape, 2)};
  return accel__node(b->p, ACCEL_PLUGIN_OP_RESIZE, &x, 1, attr, 2, NULL, 1);
}

accel__tensor accel__autoencoder_tiny_decode(accel__build *b, const accel__autoencoder_tiny *c,
                                             accel__tensor x) {
  const accel__tiny_side *d = &c->decoder;
  int64_t layer = 2; /* the activation behind the first one counts */
  accel__conv conv = square(d->channels[0], true);
  conv.act = &c->act;
  at_stage(b, c->encoder.levels, "decoder", 0);
  x = accel__unary(b->p, ACCEL_PLUGIN_ACT_TANH, accel__affine(b, x, 1.0 / 3, 0));
  x = accel__conv2d(b, accel__affine(b, x, 3, 0), &conv, "decoder.layers.0");
  for (int64_t i = 0; i < d->levels; i++) {
    const bool last = i + 1 == d->levels;
    at_stage(b, c->encoder.levels + 1 + i, "decoder", layer);
    for (int64_t j = 0; j < d->blocks[i]; j++)
      x = block(b, c, x, d->channels[i], "decoder", layer++);
    if (!last) {
      x = enlarge(b, x, c->factor);
      layer++;
    }
    conv = square(last ? c->out : d->channels[i], last);
    x = accel__conv2d(b, x, &conv, "decoder.layers.%lld", (long long)layer++);
  }
  return accel__affine(b, x, 2, -1);
}

/* Latents rounded to bytes and back, as forward() does. */
static accel__tensor through_bytes(accel__build *b, const accel__autoencoder_tiny *c,
                                   accel__tensor x) {
  const double range = 2 * c->magnitude;
  x = accel__clamp(b, accel__affine(b, x, 1.0 / range, c->shift), 0, 1);
  x = accel__cast(b, accel__affine(b, x, 255, 0.5), ACCEL_PLUGIN_I32);
  x = accel__affine(b, accel__cast(b, x, ACCEL_PLUGIN_F32), 1.0 / 255, -c->shift);
  return accel__affine(b, x, range, 0);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  accel__autoencoder_tiny c;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, ""));
  ACCEL_TRY(accel__autoencoder_tiny_read(&b, &c));
  b.B = accel__symbol(b.p, "B", 1, 0, 1);
  const int64_t side = 512;
  const accel__dim dims[4] = {b.B, accel__const_dim(b.p, c.in),
                              accel__symbol(b.p, "H", 1, ACCEL__MAX_WIDTH, side),
                              accel__symbol(b.p, "W", 1, ACCEL__MAX_WIDTH, side)};
  accel__tensor x =
      accel__add_item(&b, "sample", ACCEL_PLUGIN_F32, 4, dims, ACCEL__DEFAULT_REQUIRED);
  x = accel__autoencoder_tiny_encode(&b, &c, x);
  const accel__tensor sample = accel__autoencoder_tiny_decode(&b, &c, through_bytes(&b, &c, x));
  accel__add_output(&b, "sample", sample, 0);
  accel__add_output(&b, "latents", x, ACCEL__OUTPUT_ON_REQUEST);
  return accel__build_end(&b, sample);
}

static const char *const classes[] = {"AutoencoderTiny", NULL};
const accel__architecture accel__model_autoencoder_tiny = {
    .model_type = "autoencoder_tiny", .classes = classes, .build = build};
