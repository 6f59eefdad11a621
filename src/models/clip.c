/* clip.c - CLIP (transformers' CLIPModel, its towers with and without projection, and the image
 * classifier). */
#include "models/clip.h"

#include <stdio.h>
#include <string.h>

const accel__rename accel__clip_vision_alone[] = {{"vision_model.", ""}, {NULL, NULL}};
const accel__rename accel__clip_text_alone[] = {{"text_model.", ""}, {NULL, NULL}};

accel_status accel__clip_enter_of(accel__build *b, const accel__json *whole, const char *key) {
  char dict[64];
  snprintf(dict, sizeof dict, "%s_dict", key);
  const accel__json *with_dict = accel__json_get(whole, dict), *plain = accel__json_get(whole, key);
  const char *found = cJSON_IsObject(with_dict) ? dict : plain != NULL ? key : NULL;
  b->config = whole;
  return found != NULL ? accel__json_object(b->file, whole, found, &b->config) : ACCEL_OK;
}

accel_status accel__clip_enter(accel__build *b, const char *key) {
  return accel__clip_enter_of(b, b->file->root, key);
}

accel_status accel__clip_read(accel__build *b, accel__clip_tower *t) {
  const accel__json *eos = accel__json_get(b->config, "eos_token_id");
  if (cJSON_IsArray(eos)) return accel__refuse(b, "field 'eos_token_id': a list is not supported");
  const accel__field fields[] = {
      ACCEL_FIELD_INT("hidden_size", &t->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_hidden_layers", &t->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("num_attention_heads", &t->heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("intermediate_size", &t->inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("projection_dim", &t->projection, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_channels", &t->channels, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("vocab_size", &t->vocab, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("max_position_embeddings", &t->positions, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("eos_token_id", &t->eos, -1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_NUMBER("layer_norm_eps", &t->eps),
      ACCEL_FIELD_BOOL("vision_use_head", &t->pooling_head),
      ACCEL_FIELD_ACT("hidden_act", &t->act),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__read_size2(b, "image_size", 1, ACCEL__MAX_WIDTH, &t->image));
  ACCEL_TRY(accel__read_size2(b, "patch_size", 1, ACCEL__MAX_WIDTH, &t->patch));
  ACCEL_TRY(accel__divides(b, "num_attention_heads", t->heads, "hidden_size", t->hidden));
  if (t->image.h != t->image.w || t->patch.h != t->patch.w)
    return accel__refuse(b, "fields 'image_size' and 'patch_size': only squares are supported");
  if (t->patch.h > 0 && t->image.h < t->patch.h)
    return accel__refuse(b, "field 'patch_size' is larger than 'image_size'");
  t->block = (accel__block){.q = "self_attn.q_proj",
                            .k = "self_attn.k_proj",
                            .v = "self_attn.v_proj",
                            .o = "self_attn.out_proj",
                            .norm1 = "layer_norm1",
                            .norm2 = "layer_norm2",
                            .up = "mlp.fc1",
                            .down = "mlp.fc2",
                            .hidden = t->hidden,
                            .heads = t->heads,
                            .inner = t->inner,
                            .eps = t->eps,
                            .qkv_bias = true,
                            .o_bias = true,
                            .act = t->act};
  b->model->hidden_size = t->hidden;
  return ACCEL_OK;
}

static void add_hidden(accel__build *b, const accel__clip_tower *t, accel__tensor x) {
  if (t->rows > 0)
    accel__hidden_items(b, x, t->rows);
  else
    accel__add_hidden(b, x);
}

accel__tensor accel__clip_layers(accel__build *b, const accel__clip_tower *t, accel__tensor x) {
  b->n_hidden = 0;
  add_hidden(b, t, x);
  for (uint32_t i = 0; i < (uint32_t)t->layers; i++) {
    accel__at(b->p, i + 1, "%sencoder.layers.%u", b->scope != NULL ? b->scope : "", i);
    x = accel__pre_norm_block(b, &t->block, x, "encoder.layers.%u", i);
    add_hidden(b, t, x);
  }
  accel__at(b->p, (uint32_t)t->layers + 1, "%shead", b->scope != NULL ? b->scope : "");
  return x;
}

accel__tensor accel__clip_patches(accel__build *b, accel__clip_tower *t, accel__tensor pixels,
                                  bool cls, bool bias) {
  const accel__conv patch = {
      .out = t->hidden, .kernel = t->patch, .stride = t->patch, .bias = bias};
  const int64_t side = t->image.h / t->patch.h, dims[2] = {side * side + (cls ? 1 : 0), t->hidden};
  accel__dim c = accel__const_dim(b->p, t->hidden), one = accel__const_dim(b->p, 1);
  accel__at(b->p, 0, "%sembeddings", b->scope != NULL ? b->scope : "");
  accel__tensor x = accel__conv2d(b, pixels, &patch, "embeddings.patch_embedding");
  if (x < 0) return -1;
  accel__dim h = accel__tensor_dim(b->p, x, 2), w = accel__tensor_dim(b->p, x, 3);
  x = accel__planes_to_items(b, x);
  if (cls) {
    accel__tensor token = accel__table(b, 1, &t->hidden, "embeddings.class_embedding");
    token = accel__reshape(b->p, token, 3, (accel__dim[]){one, one, c});
    x = accel__concat(b, 1, 2,
                      (accel__tensor[]){accel__repeat(b, token, accel__tensor_dim(b->p, x, 0)), x});
  }
  accel__tensor table = accel__table(b, 2, dims, "embeddings.position_embedding.weight");
  table = accel__reshape(b->p, table, 3, (accel__dim[]){one, accel__const_dim(b->p, dims[0]), c});
  const accel__grid_table positions = {.table = table, .before = cls ? 1 : 0, .grid = {side, side}};
  x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, accel__resize_grid(b, &positions, h, w));
  if (x < 0) return -1;
  t->rows = accel__tensor_dim(b->p, x, 1);
  return accel__items_to_rows(b, x, "patches");
}

accel__tensor accel__clip_tokens(accel__build *b, const accel__clip_tower *t) {
  accel__add_tokens(b, t->vocab);
  accel__add_positions(b, t->positions, ACCEL__DEFAULT_ARANGE, 0);
  b->model->max_positions = t->positions;
  return accel__clip_embed(b, t);
}

accel__tensor accel__clip_embed(accel__build *b, const accel__clip_tower *t) {
  accel__at(b->p, 0, "%sembeddings", b->scope != NULL ? b->scope : "");
  accel__tensor words =
      accel__embedding(b, b->input_ids, t->vocab, t->hidden, "embeddings.token_embedding");
  accel__tensor position_rows = accel__embedding(b, b->position_ids, t->positions, t->hidden,
                                                 "embeddings.position_embedding");
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, words, position_rows);
}

accel__tensor accel__clip_end_rows(accel__build *b, const accel__clip_tower *t, accel__tensor x) {
  accel__tensor score = accel__cast(b, b->input_ids, ACCEL_PLUGIN_F32);
  if (t->eos != 2) { /* 1 where the id is eos */
    score = accel__affine(b, score, 1.0, -(double)t->eos);
    score = accel__affine(
        b, accel__clamp(b, accel__unary(b->p, ACCEL_PLUGIN_UNARY_ABS, score), 0.0, 1.0), -1.0, 1.0);
  }
  return accel__rows_at(b, x,
                        accel__reduce_rows(b->p, ACCEL_PLUGIN_REDUCE_ARGMAX, score, -1, b->space));
}

void accel__clip_outputs(accel__build *b, accel__tensor text, accel__tensor image, bool bias) {
  accel__program *p = b->p;
  text = accel__unit_rows(b, text);
  image = accel__unit_rows(b, image);
  accel__attr attr = ACCEL_I(TRANS_B, 1);
  accel__tensor logits =
      accel__node(p, ACCEL_PLUGIN_OP_MATMUL, (accel__tensor[]){text, image}, 2, &attr, 1, NULL, 1);
  logits = accel__binary(p, ACCEL_PLUGIN_BINARY_MUL, logits,
                         accel__unary(p, ACCEL_PLUGIN_UNARY_EXP, accel__scalar(b, "logit_scale")));
  if (bias)
    logits = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, logits, accel__scalar(b, "logit_bias"));
  accel__add_output(b, "logits_per_image", accel__transpose(b, logits, 2, (int64_t[]){1, 0}), 0);
  accel__add_output(b, "logits_per_text", logits, 0);
  accel__add_output(b, "text_embeds", text, 0);
  accel__add_output(b, "image_embeds", image, 0);
}

/* ---- CLIP ---- */

typedef struct clip {
  accel__clip_tower text, vision;
  int64_t projection;
  accel__tensor text_last, text_pooled, vision_last, vision_pooled; /* rows; [B, hidden] */
} clip;

const accel__clip_tower accel__clip_text_defaults = {.hidden = 512,
                                                     .layers = 12,
                                                     .heads = 8,
                                                     .inner = 2048,
                                                     .projection = 512,
                                                     .vocab = 49408,
                                                     .positions = 77,
                                                     .eos = 49407,
                                                     .eps = 1e-5,
                                                     .act = {.act = ACCEL_PLUGIN_ACT_GELU_QUICK}};
const accel__clip_tower accel__clip_vision_defaults = {.hidden = 768,
                                                       .layers = 12,
                                                       .heads = 12,
                                                       .inner = 3072,
                                                       .projection = 512,
                                                       .channels = 3,
                                                       .image = {224, 224},
                                                       .patch = {32, 32},
                                                       .eps = 1e-5,
                                                       .act = {.act = ACCEL_PLUGIN_ACT_GELU_QUICK}};

static accel_status read_towers(accel__build *b, clip *m, bool text, bool vision) {
  m->text = accel__clip_text_defaults;
  m->vision = accel__clip_vision_defaults;
  if (text) {
    ACCEL_TRY(accel__clip_enter(b, "text_config"));
    ACCEL_TRY(accel__clip_read(b, &m->text));
    m->text.block.causal = true;
  }
  if (vision) {
    ACCEL_TRY(accel__clip_enter(b, "vision_config"));
    ACCEL_TRY(accel__clip_read(b, &m->vision));
  }
  ACCEL_TRY(accel__enter_config(b, NULL));
  m->projection = 512;
  ACCEL_TRY(
      accel__json_int(b->file, b->config, "projection_dim", 1, ACCEL__MAX_WIDTH, &m->projection));
  return accel__read_labels(b);
}

static void build_text(accel__build *b, clip *m) {
  b->scope = "text_model.";
  accel__tensor x = accel__clip_layers(b, &m->text, accel__clip_tokens(b, &m->text));
  m->text_last = accel__norm_layer(b, x, -1, m->text.eps, true, "final_layer_norm");
  m->text_pooled = accel__clip_end_rows(b, &m->text, m->text_last);
  b->scope = NULL;
}

accel__tensor accel__clip_vision(accel__build *b, accel__clip_tower *t, accel__tensor pixels,
                                 const char *scope, accel__tensor *pooled) {
  b->scope = scope;
  accel__tensor x = accel__clip_patches(b, t, pixels, true, false);
  x = accel__norm_layer(b, x, -1, t->eps, true, "pre_layrnorm");
  x = accel__clip_layers(b, t, x);
  *pooled = accel__norm_layer(b, accel__first_rows(b, x), -1, t->eps, true, "post_layernorm");
  b->scope = NULL;
  return x;
}

static void build_vision(accel__build *b, clip *m) {
  const accel__tensor pixels = accel__add_pixels(b, m->vision.channels, NULL);
  m->vision_last = accel__clip_vision(b, &m->vision, pixels, "vision_model.", &m->vision_pooled);
}

static void both(accel__build *b, clip *m) {
  b->output_path = "text_model_output.";
  build_text(b, m);
  b->output_path = "vision_model_output.";
  build_vision(b, m);
  b->model->hidden_size = m->projection;
  accel__tensor text =
      accel__dense_layer(b, m->text_pooled, m->projection, false, -1, NULL, "text_projection");
  accel__tensor image =
      accel__dense_layer(b, m->vision_pooled, m->projection, false, -1, NULL, "visual_projection");
  accel__clip_outputs(b, text, image, false);
  accel__add_output(b, "text_model_output.last_hidden_state", m->text_last, 0);
  accel__add_output(b, "text_model_output.pooler_output", text, 0);
  accel__output_items(b, "vision_model_output.last_hidden_state", m->vision_last, m->vision.rows,
                      false);
  accel__add_output(b, "vision_model_output.pooler_output", image, 0);
}

/* Mean of the patch rows, the class row left out, then the classifier. */
static void classify(accel__build *b, const clip *m) {
  accel__tensor x =
      accel__slice(b->p, accel__rows_to_items(b, m->vision_last, m->vision.rows), 1, 1, INT64_MAX);
  accel__attr mean[] = {ACCEL_I(KIND, ACCEL_PLUGIN_REDUCE_MEAN), ACCEL_I(AXIS, 1)};
  x = accel__node(b->p, ACCEL_PLUGIN_OP_REDUCE, &x, 1, mean, 2, NULL, 1);
  accel__head_sequence(b, x, "classifier");
}

static void one_tower(accel__build *b, clip *m, bool text) {
  const bool projected = accel__is_class(b, "WithProjection");
  text ? build_text(b, m) : build_vision(b, m);
  accel__tensor pooled = text ? m->text_pooled : m->vision_pooled;
  if (projected) {
    int64_t n = text ? m->text.projection : m->vision.projection;
    accel__tensor x = accel__dense_layer(b, pooled, n, false, -1, NULL,
                                         text ? "text_projection" : "visual_projection");
    accel__add_output(b, text ? "text_embeds" : "image_embeds", x, 0);
  }
  if (text)
    accel__add_output(b, "last_hidden_state", m->text_last, 0);
  else
    accel__output_items(b, "last_hidden_state", m->vision_last, m->vision.rows, false);
  if (!projected) accel__add_output(b, "pooler_output", pooled, 0);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  static const char *const args[] = {"interpolate_pos_encoding", NULL};
  accel__build b;
  clip m = {.text_last = -1};
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, ""));
  const bool text = strncmp(architecture, "CLIPText", 8) == 0,
             whole = strcmp(architecture, "CLIPModel") == 0;
  ACCEL_TRY(read_towers(&b, &m, text || whole, !text));
  if (!text) model->args = args;
  if (!whole) b.spelling[0] = text ? accel__clip_text_alone : accel__clip_vision_alone;
  if (whole) {
    both(&b, &m);
  } else if (accel__is_class(&b, "ForImageClassification")) {
    build_vision(&b, &m);
    classify(&b, &m);
  } else {
    one_tower(&b, &m, text);
  }
  return accel__build_end(&b, text ? m.text_last : m.vision_last);
}

static const char *const classes[] = {"CLIPModel",
                                      "CLIPTextModel",
                                      "CLIPTextModelWithProjection",
                                      "CLIPVisionModel",
                                      "CLIPVisionModelWithProjection",
                                      "CLIPForImageClassification",
                                      NULL};
const accel__architecture accel__model_clip = {
    .model_type = "clip", .classes = classes, .build = build};
static const char *const text_classes[] = {"CLIPTextModel", NULL}, *const vision_classes[] = {
                                                                       "CLIPVisionModel", NULL};
const accel__architecture accel__model_clip_text = {
    .model_type = "clip_text_model", .classes = text_classes, .build = build};
const accel__architecture accel__model_clip_vision = {
    .model_type = "clip_vision_model", .classes = vision_classes, .build = build};
