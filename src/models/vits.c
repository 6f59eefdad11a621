/* vits.c - VITS and MMS-TTS (transformers' VitsModel): texts to speech.  How many frames a text
 * takes follows from durations that are rounded, so that the program has two entries and
 * speech/speak.c draws and lays out the frames between them:
 *
 *   forward   "input_ids", "attention_mask" [B,S], "duration_noise" [B,2,S] (absent: zeros) ->
 *             "prior_means", "prior_log_variances" [B,S,flow_size], "log_duration" [B,S]
 *   waveform  "latents" [B,flow_size,F], "frame_mask" [B,F] -> "waveform" [B, samples],
 *             "spectrogram" [B,flow_size,F]
 *
 * Both take "speaker_id" [B] where the model knows speakers, -1 for nobody in particular. */
#include "models/vits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- config ---- */

/* resblock_dilation_sizes: a list for each kernel. */
static accel_status read_dilations(accel__build *b, accel__vits *m) {
  const accel__json *lists = NULL;
  ACCEL_TRY(accel__read_list(b, "resblock_dilation_sizes", m->res_kernels, &lists));
  if (lists == NULL && m->res_kernels != 3)
    return accel__refuse(b, "field 'resblock_dilation_sizes' is missing");
  int64_t k = 0;
  ACCEL_JSON_EACH(list, lists) {
    const int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    if (n < 1 || n > ACCEL__VITS_DILATIONS)
      return accel__refuse(b, "field 'resblock_dilation_sizes': entry %lld is no list of 1 to %d",
                           (long long)k, ACCEL__VITS_DILATIONS);
    m->res_dilations[k] = 0;
    ACCEL_JSON_EACH(item, list) {
      const double v = cJSON_IsNumber(item) ? item->valuedouble : 0;
      if (!(v >= 1 && v <= 4096) || v != floor(v))
        return accel__refuse(b,
                             "field 'resblock_dilation_sizes': entry %lld holds no integer from "
                             "1 to 4096",
                             (long long)k);
      m->res_dilation[k][m->res_dilations[k]++] = (int64_t)v;
    }
    k++;
  }
  return ACCEL_OK;
}

static accel_status read_decoder(accel__build *b, accel__vits *m) {
  static const int64_t rates[4] = {8, 8, 2, 2}, kernels[4] = {16, 16, 4, 4},
                       res_kernels[3] = {3, 7, 11}, dilations[3] = {1, 3, 5};
  int64_t n = 4;
  m->stages = 4;
  m->res_kernels = 3;
  memcpy(m->rate, rates, sizeof rates);
  memcpy(m->kernel, kernels, sizeof kernels);
  memcpy(m->res_kernel, res_kernels, sizeof res_kernels);
  for (int k = 0; k < 3; k++) {
    m->res_dilations[k] = 3;
    memcpy(m->res_dilation[k], dilations, sizeof dilations);
  }
  ACCEL_TRY(
      accel__read_some_ints(b, "upsample_rates", ACCEL__VITS_STAGES, 1024, &m->stages, m->rate));
  ACCEL_TRY(
      accel__read_some_ints(b, "upsample_kernel_sizes", ACCEL__VITS_STAGES, 4096, &n, m->kernel));
  if (n != m->stages)
    return accel__refuse(b, "field 'upsample_kernel_sizes' has %lld entries, 'upsample_rates' %lld",
                         (long long)n, (long long)m->stages);
  ACCEL_TRY(accel__read_some_ints(b, "resblock_kernel_sizes", ACCEL__VITS_KERNELS, 4096,
                                  &m->res_kernels, m->res_kernel));
  for (int64_t i = 0; i < m->stages; i++) {
    if (m->kernel[i] < m->rate[i])
      return accel__refuse(b, "field 'upsample_kernel_sizes': %lld is less than its rate, %lld",
                           (long long)m->kernel[i], (long long)m->rate[i]);
    if (m->first_channels >> (i + 1) < 1)
      return accel__refuse(b,
                           "field 'upsample_initial_channel': %lld has no half of a half for "
                           "each of %lld upsample_rates",
                           (long long)m->first_channels, (long long)m->stages);
  }
  for (int64_t k = 0; k < m->res_kernels; k++)
    if (m->res_kernel[k] % 2 == 0)
      return accel__refuse(b, "field 'resblock_kernel_sizes': %lld is not odd",
                           (long long)m->res_kernel[k]);
  return read_dilations(b, m);
}

/* Convolutions that must keep the length. */
static accel_status check_odd(accel__build *b, const char *key, int64_t value) {
  return value % 2 ? ACCEL_OK
                   : accel__refuse(b, "field '%s': %lld is not odd, and the length would change",
                                   key, (long long)value);
}

static accel_status check(accel__build *b, const accel__vits *m, int64_t separable) {
  ACCEL_TRY(accel__divides(b, "num_attention_heads", m->heads, "hidden_size", m->hidden));
  ACCEL_TRY(check_odd(b, "wavenet_kernel_size", m->wave_kernel));
  ACCEL_TRY(check_odd(b, "duration_predictor_kernel_size", m->duration_kernel));
  if (m->flow % 2) return accel__refuse(b, "field 'flow_size': %lld is odd", (long long)m->flow);
  if (m->stochastic && separable != 2)
    return accel__refuse(b, "field 'depth_separable_channels': %lld is not supported; known: 2",
                         (long long)separable);
  if (!(m->tail > 0) || !isfinite(m->tail))
    return accel__refuse(b, "field 'duration_predictor_tail_bound' must be above 0");
  if (pow((double)m->duration_kernel, (double)m->separable_layers) > 1e9 ||
      pow((double)m->wave_dilation, (double)m->wave_layers) > 1e9)
    return accel__refuse(b,
                         "fields 'duration_predictor_kernel_size', 'wavenet_dilation_rate': the "
                         "last layers reach too far");
  return ACCEL_OK;
}

static accel_status read_config(accel__build *b, accel__vits *m, accel__speaking *s) {
  int64_t separable = 2;
  *m = (accel__vits){.vocab = 38,
                     .hidden = 192,
                     .layers = 6,
                     .heads = 2,
                     .window = 4,
                     .inner = 768,
                     .inner_kernel = 3,
                     .flow = 192,
                     .speakers = 1,
                     .separable_layers = 3,
                     .bins = 10,
                     .duration_kernel = 3,
                     .duration_flows = 4,
                     .duration_filters = 256,
                     .tail = 5.0,
                     .stochastic = true,
                     .flows = 4,
                     .wave_layers = 4,
                     .wave_kernel = 5,
                     .wave_dilation = 1,
                     .first_channels = 512,
                     .slope = 0.1,
                     .eps = 1e-5,
                     .bias = true,
                     .act = {.act = ACCEL_PLUGIN_ACT_RELU},
                     .speaker = -1};
  *s = (accel__speaking){
      .rate = 16000, .speaking_rate = 1.0, .noise_scale = 0.667, .noise_scale_duration = 0.8};
  const accel__field fields[] = {
      ACCEL_FIELD_INT("vocab_size", &m->vocab, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("hidden_size", &m->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_hidden_layers", &m->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("num_attention_heads", &m->heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("window_size", &m->window, 1, 4096),
      ACCEL_FIELD_INT("ffn_dim", &m->inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("ffn_kernel_size", &m->inner_kernel, 1, 4096),
      ACCEL_FIELD_INT("flow_size", &m->flow, 2, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_speakers", &m->speakers, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("speaker_embedding_size", &m->speaker_width, 0, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("depth_separable_channels", &separable, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("depth_separable_num_layers", &m->separable_layers, 0, 64),
      ACCEL_FIELD_INT("duration_predictor_flow_bins", &m->bins, 2, 1000),
      ACCEL_FIELD_INT("duration_predictor_kernel_size", &m->duration_kernel, 1, 4096),
      ACCEL_FIELD_INT("duration_predictor_num_flows", &m->duration_flows, 0, 256),
      ACCEL_FIELD_INT("duration_predictor_filter_channels", &m->duration_filters, 1,
                      ACCEL__MAX_WIDTH),
      ACCEL_FIELD_NUMBER("duration_predictor_tail_bound", &m->tail),
      ACCEL_FIELD_BOOL("use_stochastic_duration_prediction", &m->stochastic),
      ACCEL_FIELD_INT("prior_encoder_num_flows", &m->flows, 0, 256),
      ACCEL_FIELD_INT("prior_encoder_num_wavenet_layers", &m->wave_layers, 1, 256),
      ACCEL_FIELD_INT("wavenet_kernel_size", &m->wave_kernel, 1, 4096),
      ACCEL_FIELD_INT("wavenet_dilation_rate", &m->wave_dilation, 1, 4096),
      ACCEL_FIELD_INT("upsample_initial_channel", &m->first_channels, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_NUMBER("leaky_relu_slope", &m->slope),
      ACCEL_FIELD_NUMBER("layer_norm_eps", &m->eps),
      ACCEL_FIELD_BOOL("use_bias", &m->bias),
      ACCEL_FIELD_ACT("hidden_act", &m->act),
      ACCEL_FIELD_INT("sampling_rate", &s->rate, 1, 1 << 24),
      ACCEL_FIELD_NUMBER("speaking_rate", &s->speaking_rate),
      ACCEL_FIELD_NUMBER("noise_scale", &s->noise_scale),
      ACCEL_FIELD_NUMBER("noise_scale_duration", &s->noise_scale_duration)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(check(b, m, separable));
  ACCEL_TRY(read_decoder(b, m));
  if (m->speakers == 1 || m->speaker_width == 0) m->speaker_width = 0;
  s->hop = 1;
  for (int64_t i = 0; i < m->stages; i++) {
    s->hop *= m->rate[i];
    if (s->hop > 1 << 20)
      return accel__refuse(b, "field 'upsample_rates': a frame has more than 2^20 samples");
  }
  s->width = m->flow;
  s->speakers = m->speaker_width ? m->speakers : 1;
  s->stochastic = m->stochastic;
  b->model->hidden_size = m->hidden;
  b->model->vocab_size = m->vocab;
  return ACCEL_OK;
}

/* ---- shared ---- */

accel__tensor accel__vits_masked(accel__build *b, accel__tensor x, accel__tensor mask) {
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, x, mask);
}

accel__tensor accel__vits_norm(accel__build *b, accel__tensor x, double eps, const char *name) {
  static const int64_t turned[3] = {0, 2, 1};
  x = accel__norm_layer(b, accel__transpose(b, x, 3, turned), -1, eps, true, "%s", name);
  return accel__transpose(b, x, 3, turned);
}

accel__tensor accel__vits_speaker(accel__build *b, const accel__vits *m, int64_t out, bool normed,
                                  const char *name) {
  accel__program *p = b->p;
  if (m->speaker < 0) return -1;
  accel__dim one = accel__const_dim(p, 1);
  accel__tensor id = accel__cast(b, m->speaker, ACCEL_PLUGIN_F32);
  accel__tensor chosen = accel__clamp(b, accel__affine(b, id, 1.0, 1.0), 0.0, 1.0); /* [B] */
  id = accel__cast(b, accel__clamp(b, id, 0.0, 1e9), ACCEL_PLUGIN_I32);
  accel__tensor x = accel__embedding(b, id, m->speakers, m->speaker_width, "embed_speaker");
  x = accel__reshape(p, x, 3, (accel__dim[]){b->B, accel__const_dim(p, m->speaker_width), one});
  const accel__conv1 conv = {.out = out, .kernel = 1, .bias = true};
  if (normed) {
    const int64_t dims[3] = {out, m->speaker_width, 1};
    accel__tensor w = accel__normed_weight(b, dims, 0, name);
    const char *bias = accel__arena_printf(b->arena, "%s.bias", name);
    if (bias == NULL)
      return accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a name");
    x = accel__conv1d_by(b, x, &conv, w, accel__table(b, 1, &out, bias), -1);
  } else {
    x = accel__conv1d(b, x, &conv, "%s", name);
  }
  return accel__vits_masked(b, x, accel__reshape(p, chosen, 3, (accel__dim[]){b->B, one, one}));
}

/* ---- text encoder ---- */

/* What the layers of the encoder read. */
typedef struct text {
  accel__dim S;
  accel__tensor mask, rows; /* [B,1,S], [B,S,1] */
  accel__tensor hidden;     /* [B,1,1,S]: added to scores, 0 or far below */
  accel__tensor zeros;      /* [1,1,1,1] */
} text;

static accel__tensor heads_of(accel__build *b, const accel__vits *m, const text *t,
                              accel__tensor x) {
  accel__dim dims[4] = {b->B, t->S, accel__const_dim(b->p, m->heads),
                        accel__const_dim(b->p, m->hidden / m->heads)};
  return accel__transpose(b, accel__reshape(b->p, x, 4, dims), 4, (int64_t[]){0, 2, 1, 3});
}

/* emb_rel_k or emb_rel_v of a layer, [1,1,2 window + 1,D]. */
static accel__tensor relative(accel__build *b, const accel__vits *m, const char *name, uint32_t i) {
  accel__program *p = b->p;
  const int64_t dims[3] = {1, 2 * m->window + 1, m->hidden / m->heads};
  char full[80];
  snprintf(full, sizeof full, "text_encoder.encoder.layers.%u.attention.%s", i, name);
  accel__dim one = accel__const_dim(p, 1);
  return accel__reshape(
      p, accel__table(b, 3, dims, full), 4,
      (accel__dim[]){one, one, accel__const_dim(p, dims[1]), accel__const_dim(p, dims[2])});
}

/* x [B,H,S,S + 2 window] from x [B,H,S,2 window + 1] or back, a row of the one being a diagonal of
 * the other: zeros are put behind, and lines of one length read as lines of another. */
static accel__tensor skew(accel__build *b, const accel__vits *m, const text *t, accel__tensor x,
                          bool out) {
  accel__program *p = b->p;
  accel__dim H = accel__const_dim(p, m->heads), one = accel__const_dim(p, 1),
             band = accel__const_dim(p, 2 * m->window + 1),
             wide = accel__dim_op(p, ACCEL_PLUGIN_DIM_ADD, t->S, band), /* a line and a zero */
      line = accel__dim_op(p, ACCEL_PLUGIN_DIM_SUB, wide, one), zero = accel__const_dim(p, 0);
  accel__dim flat[3] = {b->B, H, accel__times(b, t->S, out ? wide : line)},
             lines[4] = {b->B, H, t->S, out ? line : wide};
  accel__tensor zeros =
      accel__broadcast(b, t->zeros, 4, (accel__dim[]){b->B, H, out ? t->S : one, t->S});
  if (out) x = accel__concat(b, 3, 2, (accel__tensor[]){x, zeros});
  x = accel__reshape(p, x, 3, flat);
  if (out) {
    x = accel__slice_dims(b, x, 2, zero, accel__times(b, t->S, line));
    return accel__reshape(p, x, 4, lines);
  }
  zeros = accel__reshape(p, zeros, 3, (accel__dim[]){b->B, H, t->S});
  x = accel__concat(b, 2, 2, (accel__tensor[]){x, zeros});
  return accel__slice_dims(b, accel__reshape(p, x, 4, lines), 3, zero, band);
}

static accel__tensor matmul(accel__build *b, accel__tensor x, accel__tensor y, bool turned,
                            double scale) {
  accel__attr attr[] = {ACCEL_I(TRANS_B, turned), ACCEL_F(SCALE, scale)};
  return accel__node(b->p, ACCEL_PLUGIN_OP_MATMUL, (accel__tensor[]){x, y}, 2, attr, 2, NULL, 1);
}

/* Attention in which keys, and values, up to `window` tokens away have vectors by distance. */
static accel__tensor attention(accel__build *b, const accel__vits *m, const text *t,
                               accel__tensor x, uint32_t i) {
  static const char *const names[3] = {"q_proj", "k_proj", "v_proj"};
  accel__program *p = b->p;
  accel__tensor part[3];
  const double scale = 1.0 / sqrt((double)(m->hidden / m->heads));
  for (int k = 0; k < 3; k++)
    part[k] =
        heads_of(b, m, t,
                 accel__dense_layer(b, x, m->hidden, m->bias, -1, NULL,
                                    "text_encoder.encoder.layers.%u.attention.%s", i, names[k]));
  accel__tensor near = matmul(b, part[0], relative(b, m, "emb_rel_k", i), true, scale);
  accel__dim from = accel__const_dim(p, m->window),
             to = accel__dim_op(p, ACCEL_PLUGIN_DIM_ADD, t->S, from);
  near = accel__slice_dims(b, skew(b, m, t, near, true), 3, from, to);
  accel__tensor y = matmul(b, part[0], part[1], true, scale);
  y = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, y, near);
  y = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, y, t->hidden);
  accel__attr axis = ACCEL_I(AXIS, -1);
  y = accel__node(p, ACCEL_PLUGIN_OP_SOFTMAX, &y, 1, &axis, 1, NULL, 1);
  const int64_t pads[8] = {0, 0, 0, m->window, 0, 0, 0, m->window};
  accel__attr pad[] = {ACCEL_IV(PADS, pads, 8), ACCEL_I(KIND, ACCEL_PLUGIN_PAD_CONSTANT)};
  near = skew(b, m, t, accel__node(p, ACCEL_PLUGIN_OP_PAD, &y, 1, pad, 2, NULL, 1), false);
  near = matmul(b, near, relative(b, m, "emb_rel_v", i), false, 1.0);
  y = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, matmul(b, y, part[2], false, 1.0), near);
  y = accel__transpose(b, y, 4, (int64_t[]){0, 2, 1, 3});
  y = accel__reshape(p, y, 3, (accel__dim[]){b->B, t->S, accel__const_dim(p, m->hidden)});
  return accel__dense_layer(b, y, m->hidden, m->bias, x, NULL,
                            "text_encoder.encoder.layers.%u.attention.out_proj", i);
}

static accel__tensor feed_forward(accel__build *b, const accel__vits *m, const text *t,
                                  accel__tensor x, uint32_t i) {
  static const int64_t turned[3] = {0, 2, 1};
  const accel__conv1 up = {.out = m->inner,
                           .kernel = m->inner_kernel,
                           .before = (m->inner_kernel - 1) / 2,
                           .after = m->inner_kernel / 2,
                           .bias = true,
                           .act = &m->act};
  accel__conv1 down = up;
  down.out = m->hidden;
  down.act = NULL;
  accel__tensor y = accel__vits_masked(b, accel__transpose(b, x, 3, turned), t->mask);
  y = accel__conv1d(b, y, &up, "text_encoder.encoder.layers.%u.feed_forward.conv_1", i);
  y = accel__conv1d(b, accel__vits_masked(b, y, t->mask), &down,
                    "text_encoder.encoder.layers.%u.feed_forward.conv_2", i);
  y = accel__transpose(b, accel__vits_masked(b, y, t->mask), 3, turned);
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, y);
}

/* States [B,S,C]; lists the hidden ones. */
static accel__tensor encoder(accel__build *b, const accel__vits *m, const text *t,
                             accel__tensor ids) {
  accel__at(b->p, 0, "text_encoder");
  accel__tensor x = accel__scaled_embedding(b, ids, m->vocab, m->hidden, sqrt((double)m->hidden),
                                            "text_encoder.embed_tokens");
  x = accel__vits_masked(b, x, t->rows);
  for (uint32_t i = 0; i < (uint32_t)m->layers; i++) {
    accel__add_hidden(b, x);
    accel__at(b->p, i + 1, "text_encoder.encoder.layers.%u", i);
    x = accel__norm_layer(b, attention(b, m, t, x, i), -1, m->eps, true,
                          "text_encoder.encoder.layers.%u.layer_norm", i);
    x = accel__norm_layer(b, feed_forward(b, m, t, x, i), -1, m->eps, true,
                          "text_encoder.encoder.layers.%u.final_layer_norm", i);
  }
  x = accel__vits_masked(b, x, t->rows);
  accel__add_hidden(b, x);
  return x;
}

/* ---- entries ---- */

static accel__tensor text_inputs(accel__build *b, const accel__vits *m, text *t,
                                 accel__tensor *noise) {
  accel__program *p = b->p;
  const float zero = 0.0f;
  accel__dim one = accel__const_dim(p, 1);
  t->S = accel__symbol(p, "S", 1, 0, 128);
  accel__dim dims[3] = {b->B, t->S}, drawn[3] = {b->B, accel__const_dim(p, 2), t->S};
  accel__tensor ids =
      accel__add_item(b, "input_ids", ACCEL_PLUGIN_I32, 2, dims, ACCEL__DEFAULT_REQUIRED);
  accel__tensor mask =
      accel__add_item(b, "attention_mask", ACCEL_PLUGIN_F32, 2, dims, ACCEL__DEFAULT_ONES);
  *noise = -1;
  if (m->stochastic)
    *noise = accel__add_item(b, "duration_noise", ACCEL_PLUGIN_F32, 3, drawn, ACCEL__DEFAULT_ZEROS);
  t->mask = accel__reshape(p, mask, 3, (accel__dim[]){b->B, one, t->S});
  t->rows = accel__reshape(p, mask, 3, (accel__dim[]){b->B, t->S, one});
  t->hidden =
      accel__reshape(p, accel__affine(b, mask, 1e9, -1e9), 4, (accel__dim[]){b->B, one, one, t->S});
  t->zeros = accel__constant_f32(p, "zero", 4, (int64_t[]){1, 1, 1, 1}, &zero);
  return ids;
}

static void forward(accel__build *b, const accel__vits *m, const text *t, accel__tensor ids,
                    accel__tensor noise) {
  static const int64_t turned[3] = {0, 2, 1};
  accel__program *p = b->p;
  const accel__conv1 project = {.out = 2 * m->flow, .kernel = 1, .bias = true};
  accel__tensor x = encoder(b, m, t, ids);
  accel__at(p, (uint32_t)m->layers + 1, "text_encoder.project");
  x = accel__transpose(b, x, 3, turned);
  accel__tensor prior = accel__conv1d(b, x, &project, "text_encoder.project");
  prior = accel__transpose(b, accel__vits_masked(b, prior, t->mask), 3, turned);
  accel__add_output(b, "prior_means", accel__slice(p, prior, 2, 0, m->flow), 0);
  accel__add_output(b, "prior_log_variances", accel__slice(p, prior, 2, m->flow, 2 * m->flow), 0);
  accel__at(p, (uint32_t)m->layers + 1, "duration_predictor");
  x = accel__vits_durations(b, m, x, t->mask, noise);
  accel__add_output(b, "log_duration", accel__reshape(p, x, 2, (accel__dim[]){b->B, t->S}), 0);
}

/* Takes the inputs from `first` on. */
static void waveform(accel__build *b, const accel__vits *m, uint32_t first) {
  accel__program *p = b->p;
  accel__dim one = accel__const_dim(p, 1), F = accel__symbol(p, "F", 1, 0, 512),
             dims[3] = {b->B, accel__const_dim(p, m->flow), F};
  accel__tensor z = accel__add_item(b, "latents", ACCEL_PLUGIN_F32, 3, dims,
                                    ACCEL__DEFAULT_REQUIRED),
                mask = accel__add_item(b, "frame_mask", ACCEL_PLUGIN_F32, 2,
                                       (accel__dim[]){b->B, F}, ACCEL__DEFAULT_ONES);
  mask = accel__reshape(p, mask, 3, (accel__dim[]){b->B, one, F});
  accel__at(p, (uint32_t)m->layers + 2, "flow");
  accel__tensor spectrogram = accel__vits_flows(b, m, z, mask);
  accel__model_output outputs[2] = {
      {.name = "waveform", .tensor = accel__vits_samples(b, m, spectrogram)},
      {.name = "spectrogram", .tensor = spectrogram, .asked = true}};
  accel__add_entry(b, "waveform", b->input + first, b->model->n_inputs - first, outputs, 2);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "vits."));
  accel__vits *m = accel__arena_alloc(b.arena, sizeof *m);
  accel__speaking *s = accel__arena_alloc(b.arena, sizeof *s);
  if (m == NULL || s == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(read_config(&b, m, s));
  model->speaking = s;
  text t;
  accel__tensor noise;
  b.B = accel__symbol(b.p, "B", 1, 0, 1);
  accel__tensor ids = text_inputs(&b, m, &t, &noise);
  const uint32_t first = model->n_inputs; /* of entry "waveform" */
  if (m->speaker_width > 0)
    m->speaker =
        accel__add_item(&b, "speaker_id", ACCEL_PLUGIN_I32, 1, &b.B, ACCEL__DEFAULT_REQUIRED);
  const uint32_t n = model->n_inputs;
  forward(&b, m, &t, ids, noise);
  waveform(&b, m, first);
  model->n_inputs = n;
  return accel__build_end(&b, -1);
}

static const char *const classes[] = {"VitsModel", NULL};
const accel__architecture accel__model_vits = {
    .model_type = "vits", .classes = classes, .build = build};
