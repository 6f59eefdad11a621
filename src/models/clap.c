/* clap.c - CLAP (transformers' ClapModel and its towers): RoBERTa for texts, a Swin over
 * spectrograms for sounds, with the fusion of a long sound's crops. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/bert.h"
#include "models/swin.h"

typedef struct clap {
  accel__bert_config text;
  accel__swin swin;
  int64_t mels, spec, channels, squeeze, audio_hidden, projection;
  accel__size2 patch, step;
  bool fusion, channel_map, patch_norm;
  accel__activation act; /* of the projections */
  accel__tensor text_last, text_pooled, audio_last, audio_pooled;
} clap;

static const accel__rename text_alone[] = {{"text_model.", ""}, {NULL, NULL}};
static const accel__rename audio_alone[] = {{"audio_model.", ""}, {NULL, NULL}};

/* ---- config ---- */

static accel_status enter(accel__build *b, const char *key) {
  return accel__enter_config(b, accel__json_get(b->file->root, key) != NULL ? key : NULL);
}

static accel_status read_projection(accel__build *b, clap *m) {
  const accel__field fields[] = {
      ACCEL_FIELD_INT("projection_dim", &m->projection, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_ACT("projection_hidden_act", &m->act)};
  return accel__read_fields(b, fields, 2);
}

static accel_status read_audio(accel__build *b, clap *m) {
  const char *fusion = NULL;
  bool flatten = true;
  const accel__field fields[] = {
      ACCEL_FIELD_INT("num_mel_bins", &m->mels, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("spec_size", &m->spec, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("hidden_size", &m->audio_hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("patch_embed_input_channels", &m->channels, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("patch_embeds_hidden_size", &m->swin.embed, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("aff_block_r", &m->squeeze, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_BOOL("enable_fusion", &m->fusion),
      ACCEL_FIELD_BOOL("enable_patch_layer_norm", &m->patch_norm),
      ACCEL_FIELD_BOOL("flatten_patch_embeds", &flatten),
      ACCEL_FIELD_STRING("fusion_type", &fusion),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__read_size2(b, "patch_size", 1, 1024, &m->patch));
  ACCEL_TRY(accel__read_size2(b, "patch_stride", 1, 1024, &m->step));
  ACCEL_TRY(accel__swin_read(b, "num_attention_heads", &m->swin));
  m->channel_map = fusion != NULL && strcmp(fusion, "channel_map") == 0;
  if (m->channel_map && m->fusion)
    return accel__refuse(b, "field 'fusion_type': 'channel_map' is not supported");
  if (!flatten) return accel__refuse(b, "field 'flatten_patch_embeds': false is not supported");
  if (m->mels > m->spec) return accel__refuse(b, "field 'num_mel_bins' is larger than 'spec_size'");
  if (m->fusion && m->channels != 1)
    return accel__refuse(b, "field 'patch_embed_input_channels': %lld is not supported with fusion",
                         (long long)m->channels);
  if (m->spec % m->step.h != 0 || m->spec % m->step.w != 0)
    return accel__refuse(b, "field 'patch_stride' does not divide 'spec_size'");
  return ACCEL_OK;
}

static accel_status read_config(accel__build *b, clap *m, bool text, bool audio) {
  const accel__activation gelu = {.act = ACCEL_PLUGIN_ACT_GELU},
                          relu = {.act = ACCEL_PLUGIN_ACT_RELU};
  *m = (clap){.text = {.vocab = 50265,
                       .hidden = 768,
                       .layers = 12,
                       .heads = 12,
                       .inner = 3072,
                       .positions = 514,
                       .types = 1,
                       .pad_id = 1,
                       .eps = 1e-12,
                       .act = gelu},
              .swin = {.embed = 96,
                       .stages = 4,
                       .window = 8,
                       .depths = {2, 2, 6, 2},
                       .heads = {4, 8, 16, 32},
                       .mlp_ratio = 4.0,
                       .eps = 1e-5,
                       .qkv_bias = true,
                       .act = gelu},
              .mels = 64,
              .spec = 256,
              .channels = 1,
              .squeeze = 4,
              .audio_hidden = 768,
              .projection = 512,
              .patch = {4, 4},
              .step = {4, 4},
              .patch_norm = true,
              .act = relu};
  if (text) {
    ACCEL_TRY(enter(b, "text_config"));
    ACCEL_TRY(accel__bert_read(b, &m->text));
    ACCEL_TRY(read_projection(b, m));
    if (m->text.positions <= m->text.pad_id + 1)
      return accel__refuse(b, "field 'max_position_embeddings' leaves no position");
    b->model->max_positions = m->text.positions - m->text.pad_id - 1;
  }
  if (audio) {
    ACCEL_TRY(enter(b, "audio_config"));
    ACCEL_TRY(read_audio(b, m));
    ACCEL_TRY(read_projection(b, m));
  }
  ACCEL_TRY(accel__enter_config(b, NULL));
  if (!text || !audio) return ACCEL_OK;
  m->projection = 512;
  m->act = relu;
  return read_projection(b, m); /* both towers take the outer ones */
}

/* ---- sounds ---- */

static accel__tensor plus(accel__build *b, accel__tensor x, accel__tensor y) {
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, y);
}
static accel__tensor times(accel__build *b, accel__tensor x, accel__tensor y) {
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, x, y);
}

/* input_features [B,C,frames,mels], normalised, stretched and cut into a picture
 * [B,C,spec,spec]. */
static accel__tensor picture(accel__build *b, const clap *m, int64_t channels) {
  accel__program *p = b->p;
  const int64_t ratio = m->spec / m->mels, width = m->spec * ratio, height = m->spec / ratio;
  b->B = accel__symbol(p, "sounds", 1, 0, 1);
  accel__dim frames = accel__symbol(p, "frames", 1, width, width < 1001 ? width : 1001),
             c = accel__const_dim(p, channels);
  accel__tensor x = accel__add_item(b, "input_features", ACCEL_PLUGIN_F32, 4,
                                    (accel__dim[]){b->B, c, frames, accel__const_dim(p, m->mels)},
                                    ACCEL__DEFAULT_REQUIRED);
  accel__tensor factor, offset;
  accel__at(p, 0, "audio_encoder.patch_embed");
  accel__batch_norm(b, m->mels, 1e-5, "audio_encoder.batch_norm", &factor, &offset);
  x = plus(b, times(b, x, factor), offset);
  int64_t shape[2] = {accel__const_dim(p, width), accel__const_dim(p, height)};
  accel__attr attr[] = {ACCEL_I(KIND, ACCEL_PLUGIN_RESIZE_CUBIC), ACCEL_D(SHAPE, shape, 2),
                        ACCEL_I(ALIGN_CORNERS, 1)};
  x = accel__node(p, ACCEL_PLUGIN_OP_RESIZE, &x, 1, attr, 3, NULL, 1);
  accel__dim pieces = accel__const_dim(p, channels * ratio),
             across = accel__const_dim(p, width / ratio), tall = accel__const_dim(p, height);
  x = accel__reshape(p, x, 4, (accel__dim[]){b->B, pieces, across, tall});
  x = accel__transpose(b, x, 4, (int64_t[]){0, 1, 3, 2});
  return accel__reshape(p, x, 4,
                        (accel__dim[]){b->B, c, accel__const_dim(p, height * ratio), across});
}

/* conv, norm, relu, conv, norm: modules at, at+1, at+3, at+4 of a Sequential */
static accel__tensor squeeze(accel__build *b, const clap *m, accel__tensor x, const char *name,
                             int at) {
  static const accel__activation relu = {.act = ACCEL_PLUGIN_ACT_RELU};
  char conv[96], norm[96];
  accel__conv narrow = {.out = m->swin.embed / m->squeeze, .kernel = {1, 1}, .act = &relu},
              wide = {.out = m->swin.embed, .kernel = {1, 1}};
  for (int i = 0; i < 2; i++) {
    snprintf(conv, sizeof conv, "audio_encoder.patch_embed.fusion_model.%s.%d", name, at + 3 * i);
    snprintf(norm, sizeof norm, "audio_encoder.patch_embed.fusion_model.%s.%d", name,
             at + 3 * i + 1);
    x = accel__conv2d_bias_norm(b, x, i == 0 ? &narrow : &wide, 1e-5, conv, norm);
  }
  return x;
}

/* The whole sound's map joined with that of its three crops, where is_longer says so. */
static accel__tensor fuse(accel__build *b, const clap *m, accel__tensor pixels, accel__tensor whole,
                          accel__size2 pad) {
  accel__program *p = b->p;
  const int64_t c = m->swin.embed, h = m->spec / m->step.h, w = m->spec / m->step.w,
                one[2] = {1, 1};
  accel__dim spec = accel__const_dim(p, m->spec), dh = accel__const_dim(p, h),
             dc = accel__const_dim(p, c), first = accel__const_dim(p, 1);
  accel__tensor longer = accel__add_item(b, "is_longer", ACCEL_PLUGIN_I32, 2,
                                         (accel__dim[]){b->B, first}, ACCEL__DEFAULT_REQUIRED);
  accel__tensor crops = accel__slice(p, pixels, 1, 1, INT64_MAX); /* [B,3,spec,spec] */
  crops = accel__reshape(
      p, crops, 4,
      (accel__dim[]){accel__times(b, b->B, accel__const_dim(p, 3)), first, spec, spec});
  const accel__conv wide = {.out = c,
                            .kernel = {m->patch.h, 3 * m->patch.w},
                            .stride = {m->step.h, 3 * m->step.w},
                            .pad = pad,
                            .bias = true};
  /* [B*3,C,h,w/3] */
  accel__tensor local = accel__conv2d(b, crops, &wide, "audio_encoder.patch_embed.mel_conv2d");
  int64_t part = 0;
  if (local < 0 || !accel__dim_value(p, accel__tensor_dim(p, local, 3), &part)) return -1;
  local = accel__reshape(
      p, local, 5, (accel__dim[]){b->B, accel__const_dim(p, 3), dc, dh, accel__const_dim(p, part)});
  local = accel__transpose(b, local, 5, (int64_t[]){0, 2, 3, 1, 4});
  local = accel__reshape(p, local, 4, (accel__dim[]){b->B, dc, dh, accel__const_dim(p, 3 * part)});
  const int64_t pads[8] = {0, 0, 0, 0, 0, 0, 0, w - 3 * part};
  accel__attr attr[] = {ACCEL_IV(PADS, pads, 8), ACCEL_I(KIND, ACCEL_PLUGIN_PAD_CONSTANT)};
  if (pads[7] > 0) local = accel__node(p, ACCEL_PLUGIN_OP_PAD, &local, 1, attr, 2, NULL, 1);
  accel__tensor both = plus(b, whole, local);
  accel__attr mean[] = {ACCEL_I(KIND, ACCEL_PLUGIN_POOL_AVG), ACCEL_IV(ADAPTIVE, one, 2)};
  accel__tensor global = squeeze(
      b, m, accel__node(p, ACCEL_PLUGIN_OP_POOL, &both, 1, mean, 2, NULL, 1), "global_att", 1);
  accel__tensor gate = accel__unary(p, ACCEL_PLUGIN_ACT_SIGMOID,
                                    plus(b, squeeze(b, m, both, "local_att", 0), global));
  accel__tensor joined =
      plus(b, times(b, whole, gate), times(b, local, accel__affine(b, gate, -1.0, 1.0)));
  /* twice the sum, with the bits that the reference's sum of doubled parts has; a padded tensor that
   * is doubled and multiplied comes out wrong of Qualcomm's compiler (onnxruntime-qnn 2.7) */
  joined = accel__affine(b, joined, 2.0, 0.0);
  longer = accel__reshape(p, longer, 4, (accel__dim[]){b->B, first, first, first});
  accel__attr where = ACCEL_I(KIND, ACCEL_PLUGIN_BINARY_WHERE);
  return accel__node(p, ACCEL_PLUGIN_OP_BINARY, (accel__tensor[]){longer, joined, whole}, 3, &where,
                     1, NULL, 1);
}

/* ClapModel and ClapAudioModel take is_longer always, and read it with enable_fusion alone. */
static const char *const unread_without_fusion[] = {"is_longer", NULL};

static void build_audio(accel__build *b, clap *m) {
  accel__program *p = b->p;
  if (!m->fusion) b->model->unread = unread_without_fusion;
  const accel__size2 pad = {(m->patch.h - m->step.h) / 2, (m->patch.w - m->step.w) / 2};
  const accel__conv patch = {
      .out = m->swin.embed, .kernel = m->patch, .stride = m->step, .pad = pad, .bias = true};
  accel__grid grid = {accel__const_dim(p, m->spec / m->step.h),
                      accel__const_dim(p, m->spec / m->step.w)},
              end;
  accel__size2 last = {0, 0};
  b->scope = "audio_model.";
  accel__tensor x = picture(b, m, m->fusion ? 4 : m->channels), whole;
  whole = accel__conv2d(b, m->fusion ? accel__slice(p, x, 1, 0, 1) : x, &patch,
                        "audio_encoder.patch_embed.proj");
  x = accel__planes_to_items(b, m->fusion ? fuse(b, m, x, whole, pad) : whole);
  if (m->patch_norm) x = accel__norm_layer(b, x, -1, 1e-5, true, "audio_encoder.patch_embed.norm");
  b->n_hidden = 0;
  x = accel__swin_stages(b, &m->swin, x, grid, "audio_encoder.layers", true, &end);
  x = accel__norm_layer(b, x, -1, 1e-5, true, "audio_encoder.norm"); /* [B,n,C] */
  accel__attr mean[] = {ACCEL_I(KIND, ACCEL_PLUGIN_REDUCE_MEAN), ACCEL_I(AXIS, 1)};
  m->audio_pooled = accel__node(p, ACCEL_PLUGIN_OP_REDUCE, &x, 1, mean, 2, NULL, 1);
  /* the pieces of the spectrogram side by side again: [B,C,bins,time] */
  const int64_t ratio = m->spec / m->mels, c = m->swin.embed << (m->swin.stages - 1),
                tall = (m->spec >> (m->swin.stages - 1)) / m->step.h;
  const int64_t across = (m->spec >> (m->swin.stages - 1)) / m->step.w, bins = tall / ratio;
  if (!accel__dim_value(p, end.h, &last.h) || !accel__dim_value(p, end.w, &last.w)) return;
  if (bins < 1 || tall != last.h || across != last.w || tall % bins != 0) {
    accel__program_fail(p, ACCEL_ERROR_UNSUPPORTED,
                        "spec_size %lld does not fall into the stages of this tower",
                        (long long)m->spec);
    return;
  }
  x = accel__transpose(b, x, 3, (int64_t[]){0, 2, 1});
  x = accel__reshape(p, x, 5,
                     (accel__dim[]){b->B, accel__const_dim(p, c), accel__const_dim(p, tall / bins),
                                    accel__const_dim(p, bins), accel__const_dim(p, across)});
  x = accel__transpose(b, x, 5, (int64_t[]){0, 1, 3, 2, 4});
  m->audio_last =
      accel__reshape(p, x, 4,
                     (accel__dim[]){b->B, accel__const_dim(p, c), accel__const_dim(p, bins),
                                    accel__const_dim(p, tall / bins * across)});
  b->scope = NULL;
}

static void build_text(accel__build *b, clap *m) {
  b->scope = "text_model.";
  b->n_hidden = 0;
  accel__tensor x = accel__bert_embeddings(b, &m->text, ACCEL__DEFAULT_ROBERTA, m->text.pad_id + 1);
  m->text_last = accel__bert_encoder(b, &m->text, x);
  m->text_pooled = accel__bert_pooler(b, &m->text, m->text_last, "pooler.dense");
  b->scope = NULL;
}

static accel__tensor project(accel__build *b, const clap *m, accel__tensor x, const char *name) {
  x = accel__dense_layer(b, x, m->projection, true, -1, &m->act, "%s.linear1", name);
  return accel__dense_layer(b, x, m->projection, true, -1, NULL, "%s.linear2", name);
}

static accel__tensor logits(accel__build *b, accel__tensor rows, accel__tensor cols,
                            const char *scale) {
  accel__attr attr = ACCEL_I(TRANS_B, 1);
  accel__tensor x = accel__node(b->p, ACCEL_PLUGIN_OP_MATMUL, (accel__tensor[]){rows, cols}, 2,
                                &attr, 1, NULL, 1);
  return times(b, x, accel__unary(b->p, ACCEL_PLUGIN_UNARY_EXP, accel__scalar(b, scale)));
}

static void both(accel__build *b, clap *m) {
  b->output_path = "text_model_output.";
  build_text(b, m);
  b->output_path = "audio_model_output.";
  build_audio(b, m);
  accel__tensor text = accel__unit_rows(b, project(b, m, m->text_pooled, "text_projection"));
  accel__tensor audio = accel__unit_rows(b, project(b, m, m->audio_pooled, "audio_projection"));
  b->model->hidden_size = m->projection;
  accel__add_output(b, "logits_per_audio", logits(b, audio, text, "logit_scale_a"), 0);
  accel__add_output(b, "logits_per_text", logits(b, text, audio, "logit_scale_t"), 0);
  accel__add_output(b, "text_embeds", text, 0);
  accel__add_output(b, "audio_embeds", audio, 0);
  accel__add_output(b, "text_model_output.last_hidden_state", m->text_last, 0);
  accel__add_output(b, "text_model_output.pooler_output", m->text_pooled, 0);
  accel__add_output(b, "audio_model_output.last_hidden_state", m->audio_last, 0);
  accel__add_output(b, "audio_model_output.pooler_output", m->audio_pooled, 0);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, ""));
  clap *m = accel__arena_alloc(b.arena, sizeof *m);
  if (m == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  const bool text = strncmp(architecture, "ClapText", 8) == 0,
             whole = strcmp(architecture, "ClapModel") == 0;
  ACCEL_TRY(read_config(&b, m, text || whole, !text));
  if (!whole) b.spelling[1] = text ? text_alone : audio_alone;
  if (whole) {
    both(&b, m);
    return accel__build_end(&b, m->audio_last);
  }
  text ? build_text(&b, m) : build_audio(&b, m);
  accel__tensor pooled = text ? m->text_pooled : m->audio_pooled;
  if (accel__is_class(&b, "WithProjection"))
    accel__add_output(&b, text ? "text_embeds" : "audio_embeds",
                      project(&b, m, pooled, text ? "text_projection" : "audio_projection"), 0);
  accel__add_output(&b, "last_hidden_state", text ? m->text_last : m->audio_last, 0);
  if (!accel__is_class(&b, "WithProjection")) accel__add_output(&b, "pooler_output", pooled, 0);
  return accel__build_end(&b, text ? m->text_last : m->audio_last);
}

static const char *const classes[] = {"ClapModel",
                                      "ClapTextModel",
                                      "ClapTextModelWithProjection",
                                      "ClapAudioModel",
                                      "ClapAudioModelWithProjection",
                                      NULL};
const accel__architecture accel__model_clap = {
    .model_type = "clap", .classes = classes, .build = build};
static const char *const text_classes[] = {"ClapTextModel", NULL}, *const audio_classes[] = {
                                                                       "ClapAudioModel", NULL};
const accel__architecture accel__model_clap_text = {
    .model_type = "clap_text_model", .classes = text_classes, .build = build};
const accel__architecture accel__model_clap_audio = {
    .model_type = "clap_audio_model", .classes = audio_classes, .build = build};
