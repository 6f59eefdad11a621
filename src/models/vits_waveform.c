/* vits_waveform.c - frames to samples (VITS): residual coupling flows, run backwards, whose shifts a
 * WaveNet gives, and the decoder, HiFi-GAN's generator (Kong et al. 2020, arXiv 2010.05646). */
#include <stdio.h>

#include "models/vits.h"

/* ---- flows ---- */

/* The channels of x in opposite order. */
static accel__tensor flip(accel__build *b, accel__tensor x, int64_t channels) {
  int32_t *order = accel__arena_array(b->arena, (size_t)channels, sizeof *order);
  if (order == NULL)
    return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for an order");
  for (int64_t i = 0; i < channels; i++) order[i] = (int32_t)(channels - 1 - i);
  accel__attr axis = ACCEL_I(AXIS, 1);
  accel__tensor idx = accel__constant_i32(b->p, "flipped", 1, &channels, order);
  return accel__node(b->p, ACCEL_PLUGIN_OP_GATHER, (accel__tensor[]){x, idx}, 2, &axis, 1, NULL, 1);
}

static accel__tensor normed_conv(accel__build *b, accel__tensor x, const accel__conv1 *conv,
                                 int64_t in, const char *name) {
  const int64_t dims[3] = {conv->out, in, conv->kernel};
  accel__tensor w = accel__normed_weight(b, dims, 0, name);
  const char *bias = accel__arena_printf(b->arena, "%s.bias", name);
  if (bias == NULL)
    return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a name");
  return accel__conv1d_by(b, x, conv, w, accel__table(b, 1, &conv->out, bias), -1);
}

/* Gated convolutions with wider and wider dilations; what each has to say is summed. */
static accel__tensor wavenet(accel__build *b, const accel__vits *m, accel__tensor x,
                             accel__tensor mask, const char *path) {
  accel__program *p = b->p;
  const int64_t C = m->hidden;
  accel__conv1 in = {.out = 2 * C, .kernel = m->wave_kernel, .dilation = 1};
  char name[128];
  snprintf(name, sizeof name, "%s.cond_layer", path);
  accel__tensor sum = -1, speaker = accel__vits_speaker(b, m, 2 * C * m->wave_layers, true, name);
  for (int64_t i = 0; i < m->wave_layers; i++, in.dilation *= m->wave_dilation) {
    const bool last = i + 1 == m->wave_layers;
    const accel__conv1 out = {.out = last ? C : 2 * C, .kernel = 1};
    in.before = in.after = (m->wave_kernel - 1) * in.dilation / 2;
    snprintf(name, sizeof name, "%s.in_layers.%lld", path, (long long)i);
    accel__tensor y = normed_conv(b, x, &in, C, name);
    if (speaker >= 0)
      y = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, y,
                        accel__slice(p, speaker, 1, 2 * C * i, 2 * C * (i + 1)));
    y = accel__binary(p, ACCEL_PLUGIN_BINARY_MUL,
                      accel__unary(p, ACCEL_PLUGIN_ACT_TANH, accel__slice(p, y, 1, 0, C)),
                      accel__unary(p, ACCEL_PLUGIN_ACT_SIGMOID, accel__slice(p, y, 1, C, 2 * C)));
    snprintf(name, sizeof name, "%s.res_skip_layers.%lld", path, (long long)i);
    y = normed_conv(b, y, &out, C, name);
    if (!last) {
      x = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, x, accel__slice(p, y, 1, 0, C));
      x = accel__vits_masked(b, x, mask);
      y = accel__slice(p, y, 1, C, 2 * C);
    }
    sum = sum < 0 ? y : accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, sum, y);
  }
  return accel__vits_masked(b, sum, mask);
}

accel__tensor accel__vits_flows(accel__build *b, const accel__vits *m, accel__tensor z,
                                accel__tensor mask) {
  accel__program *p = b->p;
  const int64_t half = m->flow / 2;
  const accel__conv1 pre = {.out = m->hidden, .kernel = 1, .bias = true},
                     post = {.out = half, .kernel = 1, .bias = true};
  for (int64_t i = m->flows - 1; i >= 0; i--) {
    char name[64];
    z = flip(b, z, m->flow);
    accel__tensor first = accel__slice(p, z, 1, 0, half),
                  second = accel__slice(p, z, 1, half, m->flow), mean;
    mean = accel__conv1d(b, first, &pre, "flow.flows.%lld.conv_pre", (long long)i);
    snprintf(name, sizeof name, "flow.flows.%lld.wavenet", (long long)i);
    mean = wavenet(b, m, accel__vits_masked(b, mean, mask), mask, name);
    mean = accel__conv1d(b, mean, &post, "flow.flows.%lld.conv_post", (long long)i);
    mean = accel__vits_masked(b, mean, mask);
    second = accel__binary(p, ACCEL_PLUGIN_BINARY_SUB, second, mean);
    z = accel__concat(b, 1, 2, (accel__tensor[]){first, accel__vits_masked(b, second, mask)});
  }
  return accel__vits_masked(b, z, mask);
}

/* ---- decoder ---- */

static accel__activation leaky(double slope) {
  return slope == 0 ? (accel__activation){.act = ACCEL_PLUGIN_ACT_RELU}
                    : (accel__activation){.act = ACCEL_PLUGIN_ACT_LEAKY_RELU, .alpha = slope};
}

/* torch's ConvTranspose1d: rate[i] as many samples of half the channels. */
static accel__tensor upsample(accel__build *b, const accel__vits *m, accel__tensor x, int64_t i) {
  const int64_t in = m->first_channels >> i, out = in >> 1, dims[3] = {in, out, m->kernel[i]},
                pad = (m->kernel[i] - m->rate[i]) / 2, pads[2] = {pad, pad};
  const char *weight = accel__arena_printf(b->arena, "decoder.upsampler.%lld.weight", (long long)i),
             *bias = accel__arena_printf(b->arena, "decoder.upsampler.%lld.bias", (long long)i);
  if (weight == NULL || bias == NULL)
    return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a name");
  accel__attr attr[] = {ACCEL_IV(STRIDE, &m->rate[i], 1), ACCEL_IV(PADS, pads, 2)};
  const accel__tensor operand[3] = {x, accel__weight_at(b, ACCEL_PLUGIN_USE_CONV, 3, dims, weight),
                                    accel__table(b, 1, &out, bias)};
  return accel__node(b->p, ACCEL_PLUGIN_OP_CONV_TRANSPOSE, operand, 3, attr, 2, NULL, 1);
}

/* Block `number`: pairs of convolutions with kernel k, the first of each dilated. */
static accel__tensor residual_block(accel__build *b, const accel__vits *m, accel__tensor x,
                                    int64_t channels, int64_t k, int64_t number) {
  const accel__activation act = leaky(m->slope);
  accel__conv1 wide = {.out = channels, .kernel = m->res_kernel[k], .bias = true, .act = &act},
               plain = {.out = channels, .kernel = m->res_kernel[k], .bias = true};
  plain.before = plain.after = (plain.kernel - 1) / 2;
  for (int64_t j = 0; j < m->res_dilations[k]; j++) {
    wide.dilation = m->res_dilation[k][j];
    wide.before = wide.after = (wide.kernel - 1) * wide.dilation / 2;
    plain.residual = x;
    accel__tensor y = accel__activate(b, x, &act);
    y = accel__conv1d(b, y, &wide, "decoder.resblocks.%lld.convs1.%lld", (long long)number,
                      (long long)j);
    x = accel__conv1d(b, y, &plain, "decoder.resblocks.%lld.convs2.%lld", (long long)number,
                      (long long)j);
  }
  return x;
}

accel__tensor accel__vits_samples(accel__build *b, const accel__vits *m,
                                  accel__tensor spectrogram) {
  accel__program *p = b->p;
  const accel__activation act = leaky(m->slope), last = leaky(0.01); /* torch's default */
  const accel__conv1 pre = {
      .out = m->first_channels, .kernel = 7, .before = 3, .after = 3, .bias = true};
  accel__at(p, (uint32_t)m->layers + 3, "decoder");
  accel__tensor x = accel__conv1d(b, spectrogram, &pre, "decoder.conv_pre");
  accel__tensor speaker = accel__vits_speaker(b, m, m->first_channels, false, "decoder.cond");
  if (speaker >= 0) x = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, x, speaker);
  for (int64_t i = 0; i < m->stages; i++) {
    accel__at(p, (uint32_t)m->layers + 3, "decoder.upsampler.%lld", (long long)i);
    accel__tensor y = upsample(b, m, accel__activate(b, x, &act), i), sum = -1;
    for (int64_t k = 0; k < m->res_kernels; k++) {
      x = residual_block(b, m, y, m->first_channels >> (i + 1), k, i * m->res_kernels + k);
      sum = sum < 0 ? x : accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, sum, x);
    }
    x = accel__affine(b, sum, 1.0 / (double)m->res_kernels, 0.0);
  }
  const accel__conv1 post = {.out = 1, .kernel = 7, .before = 3, .after = 3};
  x = accel__conv1d(b, accel__activate(b, x, &last), &post, "decoder.conv_post");
  x = accel__unary(p, ACCEL_PLUGIN_ACT_TANH, x);
  return x < 0 ? -1 : accel__reshape(p, x, 2, (accel__dim[]){b->B, accel__tensor_dim(p, x, 2)});
}
