/* wav2vec2.c - Wav2Vec2, HuBERT and WavLM (transformers' Wav2Vec2Model, HubertModel, WavLMModel and
 * their heads): convolutions over the waveform, a convolution for positions, a transformer with its
 * norms behind or in front ("stable").  WavLM's attention has biases by distance, which each frame
 * weighs by a gate of its own (wavlm_bias.c).
 *
 * Frames of padding are computed, as the reference does: its group norm runs over them and their
 * rows come out. attention_mask [B,samples] says how many frames of each sound are real; the others
 * are set to zero before the transformer and hidden from attention. */
#include <stdio.h>
#include <string.h>

#include "models/wavlm_bias.h"

enum { MAX_CONVS = 32, MAX_TDNN = 16 };
typedef enum family { WAV2VEC2, HUBERT, WAVLM } family;
typedef struct wave {
  int64_t vocab, hidden, layers, heads, inner, n_conv, conv[MAX_CONVS], kernel[MAX_CONVS],
      step[MAX_CONVS];
  int64_t pos_kernel, pos_groups, classifier, adapter_kernel, adapter_stride, adapters, adapted,
      attn_adapter;
  /* speaker vectors */
  int64_t n_tdnn, tdnn[MAX_TDNN], tdnn_kernel[MAX_TDNN], tdnn_dilation[MAX_TDNN], xvector;
  /* pre-training */
  int64_t books, codes, code_dim, code_out;
  double eps;
  bool conv_bias, group_norm, stable, weighted, adapter, project_norm, pos_batch_norm;
  family kind;
  accel__wavlm_bias bias; /* WAVLM */
  accel__activation act, conv_act;
  accel__dim frames;
  int64_t sees, apart;      /* samples that a frame is made of, from one frame to the next */
  accel__tensor samples;    /* int32 [B,1]: how many samples of each sound are real */
  accel__tensor mask, real; /* frames: int32 [B*frames]; F32 [B,frames] */
  accel__tensor features;   /* normalised, rows */
  accel__tensor states[ACCEL__MAX_LAYERS + 1];
} wave;

/* What only some heads read. */
static accel_status read_head(accel__build *b, wave *m) {
  static const int64_t dims[5] = {512, 512, 512, 512, 1500}, kernels[5] = {5, 3, 3, 1, 1},
                       dilations[5] = {1, 2, 3, 1, 1};
  int64_t n = 5;
  m->n_tdnn = 5;
  memcpy(m->tdnn, dims, sizeof dims);
  memcpy(m->tdnn_kernel, kernels, sizeof kernels);
  memcpy(m->tdnn_dilation, dilations, sizeof dilations);
  m->xvector = 512;
  m->books = 2;
  m->codes = 320;
  m->code_dim = m->code_out = 256;
  const accel__field quantizer[] = {
      ACCEL_FIELD_INT("num_codevector_groups", &m->books, 1, 64),
      ACCEL_FIELD_INT("num_codevectors_per_group", &m->codes, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("codevector_dim", &m->code_dim, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("proj_codevector_dim", &m->code_out, 1, ACCEL__MAX_WIDTH)};
  if (accel__is_class(b, "ForPreTraining")) {
    ACCEL_TRY(accel__read_fields(b, quantizer, 4));
    return accel__divides(b, "num_codevector_groups", m->books, "codevector_dim", m->code_dim);
  }
  if (!accel__is_class(b, "ForXVector")) return ACCEL_OK;
  const accel__field width =
      ACCEL_FIELD_INT("xvector_output_dim", &m->xvector, 1, ACCEL__MAX_WIDTH);
  ACCEL_TRY(accel__read_fields(b, &width, 1));
  ACCEL_TRY(accel__read_some_ints(b, "tdnn_dim", MAX_TDNN, ACCEL__MAX_WIDTH, &m->n_tdnn, m->tdnn));
  ACCEL_TRY(
      accel__read_some_ints(b, "tdnn_kernel", MAX_TDNN, ACCEL__MAX_WIDTH, &n, m->tdnn_kernel));
  if (n < m->n_tdnn)
    return accel__refuse(b, "field 'tdnn_kernel' has fewer entries than 'tdnn_dim'");
  ACCEL_TRY(
      accel__read_some_ints(b, "tdnn_dilation", MAX_TDNN, ACCEL__MAX_WIDTH, &n, m->tdnn_dilation));
  return n < m->n_tdnn ? accel__refuse(b, "field 'tdnn_dilation' has fewer entries than 'tdnn_dim'")
                       : ACCEL_OK;
}

static accel_status read_config(accel__build *b, wave *m) {
  static const int64_t steps[7] = {5, 2, 2, 2, 2, 2, 2}, kernels[7] = {10, 3, 3, 3, 3, 2, 2};
  const accel__activation gelu = {.act = ACCEL_PLUGIN_ACT_GELU};
  *m = (wave){.kind = m->kind,
              .vocab = 32,
              .hidden = 768,
              .layers = 12,
              .heads = 12,
              .inner = 3072,
              .n_conv = 7,
              .pos_kernel = 128,
              .pos_groups = 16,
              .classifier = 256,
              .adapter_kernel = 3,
              .adapter_stride = 2,
              .adapters = 3,
              .eps = 1e-5,
              .project_norm = true,
              .act = gelu,
              .conv_act = gelu};
  const char *norm = "group";
  const accel__json *dims = NULL;
  const accel__field fields[] = {
      ACCEL_FIELD_INT("vocab_size", &m->vocab, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("hidden_size", &m->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_hidden_layers", &m->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("num_attention_heads", &m->heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("intermediate_size", &m->inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_conv_pos_embeddings", &m->pos_kernel, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_conv_pos_embedding_groups", &m->pos_groups, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("classifier_proj_size", &m->classifier, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_NUMBER("layer_norm_eps", &m->eps),
      ACCEL_FIELD_BOOL("conv_bias", &m->conv_bias),
      ACCEL_FIELD_BOOL("do_stable_layer_norm", &m->stable),
      ACCEL_FIELD_BOOL("use_weighted_layer_sum", &m->weighted),
      ACCEL_FIELD_STRING("feat_extract_norm", &norm),
      ACCEL_FIELD_ACT("hidden_act", &m->act),
      ACCEL_FIELD_ACT("feat_extract_activation", &m->conv_act),
  };
  const accel__field of_hubert[] = {ACCEL_FIELD_BOOL("feat_proj_layer_norm", &m->project_norm),
                                    ACCEL_FIELD_BOOL("conv_pos_batch_norm", &m->pos_batch_norm)};
  const accel__field of_wav2vec2 =
      ACCEL_FIELD_INT("adapter_attn_dim", &m->attn_adapter, 1, ACCEL__MAX_WIDTH);
  const accel__field of_adapters[] = {
      ACCEL_FIELD_BOOL("add_adapter", &m->adapter),
      ACCEL_FIELD_INT("adapter_kernel_size", &m->adapter_kernel, 1, 1024),
      ACCEL_FIELD_INT("adapter_stride", &m->adapter_stride, 1, 1024),
      ACCEL_FIELD_INT("num_adapter_layers", &m->adapters, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("output_hidden_size", &m->adapted, 1, ACCEL__MAX_WIDTH)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(m->kind == HUBERT ? accel__read_fields(b, of_hubert, 2)
                              : accel__read_fields(b, of_adapters, 5));
  if (m->kind != WAVLM) ACCEL_TRY(accel__read_fields(b, &of_wav2vec2, 1));
  if (m->kind == WAVLM) ACCEL_TRY(accel__wavlm_bias_read(b, m->heads, &m->bias));
  if (m->adapted == 0) m->adapted = m->hidden;
  ACCEL_TRY(accel__json_array(b->file, b->config, "conv_dim", &dims));
  if (dims != NULL) m->n_conv = cJSON_GetArraySize(dims);
  if (m->n_conv < 1 || m->n_conv > MAX_CONVS)
    return accel__refuse(b, "field 'conv_dim' has %lld entries, at most %d are possible",
                         (long long)m->n_conv, MAX_CONVS);
  for (int64_t i = 0; i < m->n_conv; i++) {
    m->conv[i] = 512;
    m->kernel[i] = i < 7 ? kernels[i] : 1;
    m->step[i] = i < 7 ? steps[i] : 1;
  }
  ACCEL_TRY(accel__read_ints(b, "conv_dim", m->n_conv, 1, ACCEL__MAX_WIDTH, m->conv));
  ACCEL_TRY(accel__read_ints(b, "conv_kernel", m->n_conv, 1, ACCEL__MAX_WIDTH, m->kernel));
  ACCEL_TRY(accel__read_ints(b, "conv_stride", m->n_conv, 1, ACCEL__MAX_WIDTH, m->step));
  m->group_norm = strcmp(norm, "group") == 0;
  if (!m->group_norm && strcmp(norm, "layer") != 0)
    return accel__refuse(b, "field 'feat_extract_norm': '%s' is not supported; known: group, layer",
                         norm);
  ACCEL_TRY(accel__divides(b, "num_attention_heads", m->heads, "hidden_size", m->hidden));
  ACCEL_TRY(
      accel__divides(b, "num_conv_pos_embedding_groups", m->pos_groups, "hidden_size", m->hidden));
  b->model->hidden_size = m->hidden;
  b->model->vocab_size = m->vocab;
  ACCEL_TRY(read_head(b, m));
  return accel__read_labels(b);
}

/* ---- features ---- */

/* input_values [B,L] -> [B,frames,C] */
static accel__tensor features(accel__build *b, wave *m) {
  accel__program *p = b->p;
  m->sees = m->apart = 1;
  for (int64_t i = m->n_conv - 1; i >= 0; i--) {
    m->sees = (m->sees - 1) * m->step[i] + m->kernel[i];
    m->apart *= m->step[i];
    if (m->sees > INT32_MAX || m->apart > INT32_MAX)
      return accel__program_fail(p, ACCEL_ERROR_UNSUPPORTED,
                                 "fields 'conv_kernel' and 'conv_stride': one frame takes more "
                                 "than 2^31 samples, or is as far from the next");
  }
  accel__dim L = accel__symbol(p, "L", m->sees, 0, m->sees > 80000 ? m->sees : 80000),
             one = accel__const_dim(p, 1);
  b->B = accel__symbol(p, "B", 1, 0, 1);
  accel__tensor x = accel__add_item(b, "input_values", ACCEL_PLUGIN_F32, 2, (accel__dim[]){b->B, L},
                                    ACCEL__DEFAULT_REQUIRED);
  m->mask = accel__add_item(b, "attention_mask", ACCEL_PLUGIN_I32, 2, (accel__dim[]){b->B, L},
                            ACCEL__DEFAULT_ONES);
  accel__at(p, 0, "feature_extractor");
  x = accel__reshape(p, x, 3, (accel__dim[]){b->B, one, L});
  for (int64_t i = 0; i < m->n_conv; i++) {
    const bool plain = m->group_norm && i > 0;
    const accel__conv1 conv = {.out = m->conv[i],
                               .kernel = m->kernel[i],
                               .stride = m->step[i],
                               .bias = m->conv_bias,
                               .act = plain ? &m->conv_act : NULL};
    char name[64];
    x = accel__conv1d(b, x, &conv, "feature_extractor.conv_layers.%lld.conv", (long long)i);
    snprintf(name, sizeof name, "feature_extractor.conv_layers.%lld.layer_norm", (long long)i);
    if (m->group_norm && i == 0) { /* a group for each channel */
      x = accel__group_norm(b, x, m->conv[i], 1e-5, name);
      x = accel__activate(b, x, &m->conv_act);
    } else if (!plain) {
      x = accel__norm_layer(b, accel__transpose(b, x, 3, (int64_t[]){0, 2, 1}), -1, 1e-5, true,
                            "%s", name);
      x = accel__activate(b, accel__transpose(b, x, 3, (int64_t[]){0, 2, 1}), &m->conv_act);
    }
  }
  x = accel__transpose(b, x, 3, (int64_t[]){0, 2, 1});
  m->frames = x < 0 ? -1 : accel__tensor_dim(p, x, 1);
  return x;
}

static accel__tensor whole(accel__build *b, int64_t value) {
  const int32_t v = (int32_t)value;
  return accel__constant_i32(b->p, "whole number", 1, (const int64_t[]){1}, &v);
}

static accel__tensor zero_to_one(accel__build *b, accel__tensor x) {
  x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_MAX, x, whole(b, 0));
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_MIN, x, whole(b, 1));
}

/* 1 for the first f(n) - lost of `frames` frames of each sound, else 0: int32 [B,frames].  n is the
 * sound's number of samples, f the reference's lengths' formula.  A number of frames below `least`
 * counts from the end, as the reference's negative index does.
 *
 * f takes n to floor((n - kernel) / stride) + 1 for one convolution after the other.  Of one,
 * floor((n - k) / s) + 1 >= m where n >= (m - 1) s + k, for all whole numbers n and m.  In place of
 * this m the next convolution's own bound, (m - 1) s' + k', and so on, gives the bound of all: f(n)
 * >= m where n >= sees + (m - 1) apart, `apart` being the product of the strides and `sees` the
 * bound of m = 1.  So a frame t < f(n) - lost has n >= sees + (lost + t) apart, one comparison of
 * whole numbers, which int32 has exactly where halves have no quotients. */
static accel__tensor first_frames(accel__build *b, const wave *m, accel__dim frames, int64_t lost,
                                  int64_t least) {
  accel__program *p = b->p;
  const int64_t first = m->sees + lost * m->apart;
  if (first > INT32_MAX)
    return accel__program_fail(p, ACCEL_ERROR_UNSUPPORTED,
                               "fields 'conv_stride' and 'tdnn_kernel': one vector takes more than "
                               "2^31 samples");
  accel__tensor t = accel__cast(b, accel__count(b, frames), ACCEL_PLUGIN_I32),
                all = accel__cast(b, accel__dim_number(b, frames), ACCEL_PLUGIN_I32),
                apart = whole(b, m->apart);
  t = accel__binary(p, ACCEL_PLUGIN_BINARY_MUL, t, apart);
  t = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, t, whole(b, first - 1));
  all = accel__binary(p, ACCEL_PLUGIN_BINARY_MUL, all, apart);
  accel__tensor few = accel__binary(p, ACCEL_PLUGIN_BINARY_SUB,
                                    whole(b, first + (least - 1) * m->apart), m->samples);
  few = accel__binary(p, ACCEL_PLUGIN_BINARY_MUL, zero_to_one(b, few), all);
  accel__tensor n = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, m->samples, few);
  return zero_to_one(b, accel__binary(p, ACCEL_PLUGIN_BINARY_SUB, n, t));
}

/* Frames that come from real samples. */
static void real_frames(accel__build *b, wave *m) {
  accel__attr sum[] = {ACCEL_I(KIND, ACCEL_PLUGIN_REDUCE_SUM), ACCEL_I(AXIS, 1), ACCEL_I(KEEP, 1)};
  m->samples = accel__node(b->p, ACCEL_PLUGIN_OP_REDUCE, &m->mask, 1, sum, 3, NULL, 1);
  accel__tensor real = first_frames(b, m, m->frames, 0, 1);
  m->real = accel__cast(b, real, ACCEL_PLUGIN_F32);
  m->mask = accel__reshape(b->p, real, 1, (accel__dim[]){accel__times(b, b->B, m->frames)});
}

/* x + act(conv(x)) over the frames of each item; the convolution's weight is normalised, or a batch
 * norm stands before it.
 */
static accel__tensor add_positions(accel__build *b, const wave *m, accel__tensor x) {
  const int64_t dims[3] = {m->hidden, m->hidden / m->pos_groups, m->pos_kernel};
  const accel__conv1 conv = {.out = m->hidden,
                             .kernel = m->pos_kernel,
                             .before = m->pos_kernel / 2,
                             .after = (m->pos_kernel - 1) / 2,
                             .groups = m->pos_groups,
                             .act = &m->conv_act};
  accel__tensor w, y = x, bias = accel__table(b, 1, &m->hidden, "encoder.pos_conv_embed.conv.bias"),
                   factor, offset;
  if (m->pos_batch_norm) {
    w = accel__weight_at(b, ACCEL_PLUGIN_USE_CONV, 3, dims, "encoder.pos_conv_embed.conv.weight");
    accel__batch_norm(b, m->hidden, 1e-5, "encoder.pos_conv_embed.batch_norm", &factor, &offset);
    y = accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, y, factor);
    y = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, y, offset);
  } else {
    w = accel__normed_weight(b, dims, 2, "encoder.pos_conv_embed.conv");
  }
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x,
                       accel__conv1d_by(b, y, &conv, w, bias, b->space));
}

/* ---- layers ---- */

/* x + attention(y), y being x or its norm. */
static accel__tensor attention(accel__build *b, const wave *m, accel__tensor y, accel__tensor x,
                               uint32_t i) {
  accel__attention how = accel__attention_of(b, m->heads);
  accel__tensor part[3];
  static const char *const names[3] = {"q_proj", "k_proj", "v_proj"};
  char path[64];
  how.mask = m->mask;
  for (int k = 0; k < 3; k++)
    part[k] = accel__dense_layer(b, y, m->hidden, true, -1, NULL, "encoder.layers.%u.attention.%s",
                                 i, names[k]);
  if (m->kind == WAVLM) {
    snprintf(path, sizeof path, "encoder.layers.%u.attention", i);
    how.bias = accel__wavlm_gated(b, &m->bias, y, path);
    how.bias_kind = ACCEL_PLUGIN_BIAS_DENSE;
  }
  y = accel__attend(b, part[0], part[1], part[2], &how);
  return accel__dense_layer(b, y, m->hidden, true, x, NULL, "encoder.layers.%u.attention.out_proj",
                            i);
}

/* x + feed forward(y) */
static accel__tensor feed_forward(accel__build *b, const wave *m, accel__tensor y, accel__tensor x,
                                  uint32_t i) {
  y = accel__dense_layer(b, y, m->inner, true, -1, &m->act,
                         "encoder.layers.%u.feed_forward.intermediate_dense", i);
  return accel__dense_layer(b, y, m->hidden, true, x, NULL,
                            "encoder.layers.%u.feed_forward.output_dense", i);
}

static accel__tensor norm(accel__build *b, const wave *m, accel__tensor x, bool final, uint32_t i) {
  return accel__norm_layer(b, x, -1, m->eps, true, "encoder.layers.%u.%slayer_norm", i,
                           final ? "final_" : "");
}

static accel__tensor layer(accel__build *b, const wave *m, accel__tensor x, uint32_t i) {
  if (m->stable) {
    x = attention(b, m, norm(b, m, x, false, i), x, i);
    return feed_forward(b, m, norm(b, m, x, true, i), x, i);
  }
  x = norm(b, m, attention(b, m, x, x, i), false, i);
  return norm(b, m, feed_forward(b, m, x, x, i), true, i);
}

/* MMS: x + down(relu(up(norm(x)))) */
static accel__tensor attention_adapter(accel__build *b, const wave *m, accel__tensor x,
                                       uint32_t i) {
  static const accel__activation relu = {.act = ACCEL_PLUGIN_ACT_RELU};
  accel__tensor y =
      accel__norm_layer(b, x, -1, 1e-5, true, "encoder.layers.%u.adapter_layer.norm", i);
  y = accel__dense_layer(b, y, m->attn_adapter, true, -1, &relu,
                         "encoder.layers.%u.adapter_layer.linear_1", i);
  return accel__dense_layer(b, y, m->hidden, true, x, NULL,
                            "encoder.layers.%u.adapter_layer.linear_2", i);
}

static accel__tensor encoder(accel__build *b, wave *m, accel__tensor x) {
  if (m->kind == WAVLM)
    accel__wavlm_bias_make(b, &m->bias, m->frames, "encoder.layers.0.attention.rel_attn_embed");
  if (!m->stable) x = accel__norm_layer(b, x, -1, m->eps, true, "encoder.layer_norm");
  for (uint32_t i = 0; i < (uint32_t)m->layers; i++) {
    m->states[i] = x;
    accel__at(b->p, i + 1, "encoder.layers.%u", i);
    x = layer(b, m, x, i);
    if (m->stable && m->attn_adapter > 0) x = attention_adapter(b, m, x, i);
  }
  accel__at(b->p, (uint32_t)m->layers + 1, "head");
  m->states[m->layers] = x; /* before the last norm of stable encoders */
  if (m->stable) x = accel__norm_layer(b, x, -1, m->eps, true, "encoder.layer_norm");
  for (int64_t i = 0; i <= m->layers; i++) accel__hidden_items(b, m->states[i], m->frames);
  return x;
}

/* Convolutions of stride two, each halved by its own gate: rows of a new space. */
static accel__tensor adapter(accel__build *b, wave *m, accel__tensor x) {
  if (m->adapted != m->hidden) {
    x = accel__dense_layer(b, x, m->adapted, true, -1, NULL, "adapter.proj");
    x = accel__norm_layer(b, x, -1, 1e-5, true, "adapter.proj_layer_norm");
  }
  x = accel__transpose(b, accel__rows_to_items(b, x, m->frames), 3, (int64_t[]){0, 2, 1});
  for (int64_t i = 0; i < m->adapters; i++) {
    const accel__conv1 conv = {.out = 2 * m->adapted,
                               .kernel = m->adapter_kernel,
                               .stride = m->adapter_stride,
                               .before = 1,
                               .after = 1,
                               .bias = true};
    x = accel__conv1d(b, x, &conv, "adapter.layers.%lld.conv", (long long)i);
    accel__tensor gate = accel__unary(b->p, ACCEL_PLUGIN_ACT_SIGMOID,
                                      accel__slice(b->p, x, 1, m->adapted, 2 * m->adapted));
    x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, accel__slice(b->p, x, 1, 0, m->adapted), gate);
  }
  x = accel__transpose(b, x, 3, (int64_t[]){0, 2, 1});
  m->frames = x < 0 ? -1 : accel__tensor_dim(b->p, x, 1);
  return accel__items_to_rows(b, x, "adapted");
}

/* ---- heads ---- */

/* Sum of the layers' states with softmaxed weights; the last state when the config asks for
 * none. */
static accel__tensor weighted(accel__build *b, const wave *m, accel__tensor x) {
  if (!m->weighted) return x;
  const int64_t n = m->layers + 1;
  return accel__weighted_states(b, m->states, n, accel__table(b, 1, &n, "layer_weights"));
}

/* relu of a linear layer over `kernel` frames that lie `dilation` apart: x [B,frames,C] ->
 * [B,fewer,out]. */
static accel__tensor time_delay(accel__build *b, wave *m, accel__tensor x, int64_t i) {
  static const accel__activation relu = {.act = ACCEL_PLUGIN_ACT_RELU};
  const int64_t k = m->tdnn_kernel[i], apart = m->tdnn_dilation[i];
  accel__tensor part[ACCEL__MAX_LAYERS];
  if (k > ACCEL__MAX_LAYERS || apart > ACCEL__MAX_WIDTH / k)
    return accel__program_fail(b->p, ACCEL_ERROR_UNSUPPORTED,
                               "fields 'tdnn_kernel' and 'tdnn_dilation': %lld frames, %lld apart",
                               (long long)k, (long long)apart);
  for (int64_t j = 0; j < k; j++) /* frames t + j*apart of every t that has them all */
    part[j] = accel__slice(b->p, x, 1, j * apart, j + 1 < k ? -(k - 1 - j) * apart : INT64_MAX);
  x = k == 1 ? part[0] : accel__concat(b, 2, (uint32_t)k, part);
  return accel__dense_layer(b, x, m->tdnn[i], true, -1, &relu, "tdnn.%lld.kernel", (long long)i);
}

/* Mean and deviation (n - 1) of the real ones of the frames x [B,frames,C] that time_delay left
 * over: [B,2C]. */
static accel__tensor statistics(accel__build *b, wave *m, accel__tensor x) {
  accel__program *p = b->p;
  int64_t lost = 0; /* the lengths' formula knows no dilation */
  if (x < 0) return -1;
  for (int64_t i = 0; i < m->n_tdnn; i++) lost += m->tdnn_kernel[i] - 1;
  accel__dim frames = accel__tensor_dim(p, x, 1), c = accel__tensor_dim(p, x, 2),
             one = accel__const_dim(p, 1);
  accel__tensor real =
      accel__cast(b, first_frames(b, m, frames, lost, 0), ACCEL_PLUGIN_F32); /* [B,frames] */
  accel__attr sum[] = {ACCEL_I(KIND, ACCEL_PLUGIN_REDUCE_SUM), ACCEL_I(AXIS, 1), ACCEL_I(KEEP, 1)};
  accel__tensor n =
      accel__reshape(p, accel__node(p, ACCEL_PLUGIN_OP_REDUCE, &real, 1, sum, 3, NULL, 1), 3,
                     (accel__dim[]){b->B, one, one});
  real = accel__reshape(p, real, 3, (accel__dim[]){b->B, frames, one});
  accel__tensor y = accel__binary(p, ACCEL_PLUGIN_BINARY_MUL, x, real);
  accel__tensor mean =
      accel__binary(p, ACCEL_PLUGIN_BINARY_DIV,
                    accel__node(p, ACCEL_PLUGIN_OP_REDUCE, &y, 1, sum, 3, NULL, 1), n);
  y = accel__binary(p, ACCEL_PLUGIN_BINARY_MUL, accel__binary(p, ACCEL_PLUGIN_BINARY_SUB, x, mean),
                    real);
  y = accel__binary(p, ACCEL_PLUGIN_BINARY_MUL, y, y);
  y = accel__binary(p, ACCEL_PLUGIN_BINARY_DIV,
                    accel__node(p, ACCEL_PLUGIN_OP_REDUCE, &y, 1, sum, 3, NULL, 1),
                    accel__affine(b, n, 1.0, -1.0));
  y = accel__concat(b, 2, 2, (accel__tensor[]){mean, accel__unary(p, ACCEL_PLUGIN_UNARY_SQRT, y)});
  return accel__reshape(p, y, 2, (accel__dim[]){b->B, accel__times(b, c, accel__const_dim(p, 2))});
}

/* Wav2Vec2ForXVector: a vector for who speaks. */
static void speaker(accel__build *b, wave *m, accel__tensor x) {
  x = accel__dense_layer(b, weighted(b, m, x), m->tdnn[0], true, -1, NULL, "projector");
  x = accel__rows_to_items(b, x, m->frames);
  for (int64_t i = 0; i < m->n_tdnn; i++) x = time_delay(b, m, x, i);
  accel__tensor vector =
      accel__dense_layer(b, statistics(b, m, x), m->xvector, true, -1, NULL, "feature_extractor");
  accel__add_output(b, "logits",
                    accel__dense_layer(b, vector, m->xvector, true, -1, NULL, "classifier"), 0);
  accel__add_output(b, "embeddings", vector, 0);
}

/* One code book: the likeliest of its vectors for each row of scores [N,codes], and how evenly they
 * are used (e to their entropy, [1]). */
static accel__tensor likeliest(accel__build *b, const wave *m, accel__tensor scores,
                               accel__tensor book, accel__tensor *even) {
  accel__program *p = b->p;
  accel__attr k[] = {ACCEL_I(K, 1)},
              mean[] = {ACCEL_I(KIND, ACCEL_PLUGIN_REDUCE_MEAN), ACCEL_I(AXIS, 0),
                        ACCEL_I(KEEP, 0)},
              sum[] = {ACCEL_I(KIND, ACCEL_PLUGIN_REDUCE_SUM), ACCEL_I(AXIS, 0), ACCEL_I(KEEP, 1)};
  accel__tensor found[2];
  if (accel__node(p, ACCEL_PLUGIN_OP_TOPK, &scores, 1, k, 1, found, 2) < 0) return -1;
  accel__dim rows = accel__tensor_dim(p, scores, 0);
  accel__tensor is = accel__cast(b, found[1], ACCEL_PLUGIN_F32); /* [N,1] */
  is =
      accel__binary(p, ACCEL_PLUGIN_BINARY_SUB, is, accel__count(b, accel__const_dim(p, m->codes)));
  is = accel__clamp(b, accel__affine(b, accel__unary(p, ACCEL_PLUGIN_UNARY_ABS, is), -1.0, 1.0),
                    0.0, 1.0);
  is = accel__node(p, ACCEL_PLUGIN_OP_REDUCE, &is, 1, mean, 3, NULL, 1); /* [codes] */
  accel__tensor log = accel__unary(p, ACCEL_PLUGIN_UNARY_LOG, accel__clamp(b, is, 1e-30, 1.0));
  is = accel__binary(p, ACCEL_PLUGIN_BINARY_MUL, is, log);
  is = accel__node(p, ACCEL_PLUGIN_OP_REDUCE, &is, 1, sum, 3, NULL, 1);
  is = accel__unary(p, ACCEL_PLUGIN_UNARY_EXP, accel__affine(b, is, -1.0, 0.0));
  *even = *even < 0 ? is : accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, *even, is);
  return accel__gather(p, book, accel__reshape(p, found[1], 1, &rows));
}

/* Wav2Vec2ForPreTraining: what is said, and the code vectors it should be told from. */
static void pretraining(accel__build *b, const wave *m, accel__tensor x) {
  accel__program *p = b->p;
  const int64_t d = m->code_dim / m->books, dims[3] = {1, m->books * m->codes, d};
  accel__tensor features = accel__items_to_rows(b, m->features, "codes"), part[64], even = -1;
  accel__tensor scores =
      accel__dense_layer(b, features, m->books * m->codes, true, -1, NULL, "quantizer.weight_proj");
  accel__tensor table = accel__table(b, 3, dims, "quantizer.codevectors");
  table = accel__reshape(p, table, 2,
                         (accel__dim[]){accel__const_dim(p, dims[1]), accel__const_dim(p, d)});
  for (int64_t g = 0; g < m->books; g++)
    part[g] = likeliest(b, m, accel__slice(p, scores, 1, g * m->codes, (g + 1) * m->codes),
                        accel__slice(p, table, 0, g * m->codes, (g + 1) * m->codes), &even);
  accel__tensor codes = m->books == 1 ? part[0] : accel__concat(b, 1, (uint32_t)m->books, part);
  accel__output_items(b, "projected_states",
                      accel__dense_layer(b, x, m->code_out, true, -1, NULL, "project_hid"),
                      m->frames, false);
  accel__output_items(b, "projected_quantized_states",
                      accel__dense_layer(b, codes, m->code_out, true, -1, NULL, "project_q"),
                      m->frames, false);
  accel__add_output(b, "codevector_perplexity", even, ACCEL__OUTPUT_SQUEEZE);
}

static accel_status heads(accel__build *b, wave *m, accel__tensor x) {
  b->in_head = !b->is_base;
  if (b->is_base) {
    accel__output_items(b, "last_hidden_state", x, m->frames, false);
    if (m->kind != HUBERT) accel__add_output(b, "extract_features", m->features, 0);
  } else if (accel__is_class(b, "ForCTC")) {
    accel__output_items(b, "logits", accel__dense_layer(b, x, m->vocab, true, -1, NULL, "lm_head"),
                        m->frames, false);
  } else if (accel__is_class(b, "ForPreTraining") && !m->adapter) {
    pretraining(b, m, x);
  } else if (m->adapter) {
    return accel__refuse(b, "field 'add_adapter': true is not supported by %s",
                         b->model->architecture);
  } else if (accel__is_class(b, "ForAudioFrameClassification")) {
    x = accel__dense_layer(b, weighted(b, m, x), b->model->num_labels, true, -1, NULL,
                           "classifier");
    accel__output_items(b, "logits", x, m->frames, false);
  } else if (accel__is_class(b, "ForXVector")) {
    speaker(b, m, x);
  } else {
    x = accel__dense_layer(b, weighted(b, m, x), m->classifier, true, -1, NULL, "projector");
    accel__tensor real =
        accel__reshape(b->p, m->real, 1, (accel__dim[]){accel__times(b, b->B, m->frames)});
    accel__head_sequence(b, accel__reduce_rows(b->p, ACCEL_PLUGIN_REDUCE_MEAN, x, real, b->space),
                         "classifier");
  }
  b->in_head = false;
  return ACCEL_OK;
}

static accel_status build_any(const accel__model_request *request, const char *architecture,
                              accel__model *model, family kind) {
  static const char *const prefix[] = {
      [WAV2VEC2] = "wav2vec2.", [HUBERT] = "hubert.", [WAVLM] = "wavlm."};
  accel__build b;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, prefix[kind]));
  wave *m = accel__arena_alloc(b.arena, sizeof *m);
  if (m == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  m->kind = kind;
  ACCEL_TRY(read_config(&b, m));
  accel__tensor x = features(&b, m);
  real_frames(&b, m);
  if (m->project_norm)
    x = accel__norm_layer(&b, x, -1, m->eps, true, "feature_projection.layer_norm");
  m->features = x;
  /* [B,frames,C] */
  x = accel__dense_layer(&b, x, m->hidden, true, -1, NULL, "feature_projection.projection");
  accel__tensor real =
      accel__reshape(b.p, m->real, 3, (accel__dim[]){b.B, m->frames, accel__const_dim(b.p, 1)});
  x = accel__items_to_rows(&b, accel__binary(b.p, ACCEL_PLUGIN_BINARY_MUL, x, real), "frames");
  x = encoder(&b, m, add_positions(&b, m, x));
  if (m->adapter) x = adapter(&b, m, x);
  ACCEL_TRY(heads(&b, m, x));
  return accel__build_end(&b, x);
}

static accel_status build_wav2vec2(const accel__model_request *request, const char *architecture,
                                   accel__model *model) {
  return build_any(request, architecture, model, WAV2VEC2);
}
static accel_status build_hubert(const accel__model_request *request, const char *architecture,
                                 accel__model *model) {
  return build_any(request, architecture, model, HUBERT);
}
static accel_status build_wavlm(const accel__model_request *request, const char *architecture,
                                accel__model *model) {
  return build_any(request, architecture, model, WAVLM);
}

static const char *const classes[] = {"Wav2Vec2Model",
                                      "Wav2Vec2ForCTC",
                                      "Wav2Vec2ForSequenceClassification",
                                      "Wav2Vec2ForAudioFrameClassification",
                                      "Wav2Vec2ForXVector",
                                      "Wav2Vec2ForPreTraining",
                                      NULL};
const accel__architecture accel__model_wav2vec2 = {
    .model_type = "wav2vec2", .classes = classes, .build = build_wav2vec2};
static const char *const hubert_classes[] = {"HubertModel", "HubertForCTC",
                                             "HubertForSequenceClassification", NULL};
const accel__architecture accel__model_hubert = {
    .model_type = "hubert", .classes = hubert_classes, .build = build_hubert};
static const char *const wavlm_classes[] = {"WavLMModel",
                                            "WavLMForCTC",
                                            "WavLMForSequenceClassification",
                                            "WavLMForAudioFrameClassification",
                                            "WavLMForXVector",
                                            NULL};
const accel__architecture accel__model_wavlm = {
    .model_type = "wavlm", .classes = wavlm_classes, .build = build_wavlm};
