/* siglip.c - SigLIP (transformers' SiglipModel, its towers and image classifier).  Texts are taken
 * padded as they are: the last column is pooled, padding or not, so every column is computed. */
#include <string.h>

#include "models/clip.h"

typedef struct siglip {
  accel__clip_tower text, vision;
  int64_t projection; /* of the text head */
  accel__tensor text_last, text_pooled, vision_last, vision_pooled;
  accel__dim text_items;
} siglip;

static accel_status read_towers(accel__build *b, siglip *m, bool text, bool vision) {
  const accel__activation gelu = {.act = ACCEL_PLUGIN_ACT_GELU_TANH};
  m->text = (accel__clip_tower){.hidden = 768,
                                .layers = 12,
                                .heads = 12,
                                .inner = 3072,
                                .vocab = 32000,
                                .positions = 64,
                                .eps = 1e-6,
                                .act = gelu};
  m->vision = (accel__clip_tower){.hidden = 768,
                                  .layers = 12,
                                  .heads = 12,
                                  .inner = 3072,
                                  .channels = 3,
                                  .image = {224, 224},
                                  .patch = {16, 16},
                                  .eps = 1e-6,
                                  .act = gelu,
                                  .pooling_head = true};
  if (text) {
    ACCEL_TRY(accel__clip_enter(b, "text_config"));
    ACCEL_TRY(accel__clip_read(b, &m->text));
    m->projection = m->text.hidden;
    ACCEL_TRY(accel__json_int(b->file, b->config, "projection_size", 1, ACCEL__MAX_WIDTH,
                              &m->projection));
  }
  if (vision) {
    ACCEL_TRY(accel__clip_enter(b, "vision_config"));
    ACCEL_TRY(accel__clip_read(b, &m->vision));
  }
  ACCEL_TRY(accel__enter_config(b, NULL));
  return accel__read_labels(b);
}

static void build_text(accel__build *b, siglip *m) {
  accel__program *p = b->p;
  const int64_t c = m->text.hidden, dims[2] = {m->text.positions, c};
  b->B = m->text_items = accel__symbol(p, "texts", 1, 0, 1);
  accel__dim s = accel__symbol(p, "S", 1, m->text.positions, m->text.positions),
             shape[2] = {b->B, s};
  b->input_ids =
      accel__add_item(b, "input_ids", ACCEL_PLUGIN_I32, 2, shape, ACCEL__DEFAULT_REQUIRED);
  accel__tensor mask =
      accel__add_item(b, "attention_mask", ACCEL_PLUGIN_I32, 2, shape, ACCEL__DEFAULT_ONES);
  b->scope = "text_model.";
  accel__at(p, 0, "text_model.embeddings");
  /* [B,S,C] */
  accel__tensor x =
      accel__embedding(b, b->input_ids, m->text.vocab, c, "embeddings.token_embedding");
  accel__tensor position_rows =
      accel__slice_dims(b, accel__table(b, 2, dims, "embeddings.position_embedding.weight"), 0,
                        accel__const_dim(p, 0), s);
  x = accel__items_to_rows(b, accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, x, position_rows), "texts");
  m->text.rows = s;
  m->text.block.mask = accel__reshape(p, mask, 1, (accel__dim[]){accel__times(b, b->B, s)});
  x = accel__clip_layers(b, &m->text, x);
  m->text_last = accel__norm_layer(b, x, -1, m->text.eps, true, "final_layer_norm");
  m->text_pooled = accel__dense_layer(
      b, accel__reduce_rows(p, ACCEL_PLUGIN_REDUCE_LAST, m->text_last, -1, b->space), m->projection,
      true, -1, NULL, "head");
  m->text_last = accel__rows_to_items(b, m->text_last, s);
  b->scope = NULL;
}

/* A learned probe asks all patches of its image: attention, then x + mlp(norm(x)). */
static accel__tensor pooling_head(accel__build *b, siglip *m, accel__tensor x) {
  accel__program *p = b->p;
  const int64_t c = m->vision.hidden, one[3] = {1, 1, c}, square[2] = {c, c};
  accel__tensor probe = accel__table(b, 3, one, "head.probe"), part[3];
  probe =
      accel__reshape(p, probe, 2, (accel__dim[]){accel__const_dim(p, 1), accel__const_dim(p, c)});
  for (uint32_t i = 0; i < 3; i++) {
    accel__tensor w = accel__weight_rows(b, ACCEL_PLUGIN_USE_LINEAR, 2, square, i, 3,
                                         "head.attention.in_proj_weight");
    accel__tensor bias =
        accel__weight_rows(b, ACCEL_PLUGIN_USE_PLAIN, 1, &c, i, 3, "head.attention.in_proj_bias");
    part[i] = accel__linear(p, i == 0 ? probe : x, w, bias, -1, ACCEL_PLUGIN_ACT_NONE);
  }
  accel__attr shape = ACCEL_D(SHAPE, ((int64_t[]){b->B, accel__const_dim(p, c)}), 2);
  accel__tensor q = accel__node(p, ACCEL_PLUGIN_OP_BROADCAST, &part[0], 1, &shape, 1, NULL, 1);
  accel__attention a = accel__attention_of(b, m->vision.heads);
  a.q_space = accel__space_fixed(p, "probes", accel__const_dim(p, 1), b->B);
  x = accel__dense_layer(b, accel__attend(b, q, part[1], part[2], &a), c, true, -1, NULL,
                         "head.attention.out_proj");
  accel__tensor y = accel__norm_layer(b, x, -1, m->vision.eps, true, "head.layernorm");
  y = accel__dense_layer(b, y, m->vision.inner, true, -1, &m->vision.act, "head.mlp.fc1");
  return accel__dense_layer(b, y, c, true, x, NULL, "head.mlp.fc2");
}

static void build_vision(accel__build *b, siglip *m) {
  accel__tensor pixels = accel__add_pixels(b, m->vision.channels, NULL);
  b->scope = "vision_model.";
  accel__tensor x =
      accel__clip_layers(b, &m->vision, accel__clip_patches(b, &m->vision, pixels, false, true));
  x = accel__norm_layer(b, x, -1, m->vision.eps, true, "post_layernorm");
  m->vision_pooled = m->vision.pooling_head ? pooling_head(b, m, x) : -1;
  m->vision_last = x;
  b->scope = NULL;
}

static void both(accel__build *b, siglip *m) {
  b->output_path = "text_model_output.";
  build_text(b, m);
  b->output_path = "vision_model_output.";
  build_vision(b, m);
  accel__clip_outputs(b, m->text_pooled, m->vision_pooled, true);
  accel__add_output(b, "text_model_output.last_hidden_state", m->text_last, 0);
  accel__add_output(b, "text_model_output.pooler_output", m->text_pooled, 0);
  accel__output_items(b, "vision_model_output.last_hidden_state", m->vision_last, m->vision.rows,
                      false);
  accel__add_output(b, "vision_model_output.pooler_output", m->vision_pooled, 0);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  static const char *const args[] = {"interpolate_pos_encoding", NULL};
  accel__build b;
  siglip m = {.text_last = -1};
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, ""));
  const bool text = strcmp(architecture, "SiglipTextModel") == 0,
             whole = strcmp(architecture, "SiglipModel") == 0;
  ACCEL_TRY(read_towers(&b, &m, text || whole, !text));
  if (!text) model->args = args;
  if (!whole) b.spelling[0] = text ? accel__clip_text_alone : accel__clip_vision_alone;
  if (whole && !m.vision.pooling_head)
    return accel__refuse(&b, "field 'vision_use_head': SiglipModel needs the head");
  if (whole) {
    both(&b, &m);
  } else if (text) {
    build_text(&b, &m);
    accel__add_output(&b, "last_hidden_state", m.text_last, 0);
    accel__add_output(&b, "pooler_output", m.text_pooled, 0);
  } else {
    build_vision(&b, &m);
    if (accel__is_class(&b, "ForImageClassification")) {
      accel__head_sequence(
          &b, accel__reduce_rows(b.p, ACCEL_PLUGIN_REDUCE_MEAN, m.vision_last, -1, b.space),
          "classifier");
    } else {
      accel__output_items(&b, "last_hidden_state", m.vision_last, m.vision.rows, false);
      if (m.vision.pooling_head) accel__add_output(&b, "pooler_output", m.vision_pooled, 0);
    }
  }
  return accel__build_end(&b, whole || !text ? m.vision_last : m.text_last);
}

static const char *const classes[] = {"SiglipModel", "SiglipTextModel", "SiglipVisionModel",
                                      "SiglipForImageClassification", NULL};
const accel__architecture accel__model_siglip = {
    .model_type = "siglip", .classes = classes, .build = build};
static const char *const text_classes[] = {"SiglipTextModel", NULL}, *const vision_classes[] = {
                                                                         "SiglipVisionModel", NULL};
const accel__architecture accel__model_siglip_text = {
    .model_type = "siglip_text_model", .classes = text_classes, .build = build};
const accel__architecture accel__model_siglip_vision = {
    .model_type = "siglip_vision_model", .classes = vision_classes, .build = build};
