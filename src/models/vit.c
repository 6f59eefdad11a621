/* vit.c - ViT and DeiT (transformers' ViTModel, DeiTModel and their classifiers), and the encoder
 * their relatives share. */
#include "models/vit.h"

#include <string.h>

const accel__rename accel__vit_spelling[] = {{"encoder.layer.", "layers."},
                                             {"attention.attention.query", "attention.q_proj"},
                                             {"attention.attention.key", "attention.k_proj"},
                                             {"attention.attention.value", "attention.v_proj"},
                                             {"attention.output.dense", "attention.o_proj"},
                                             {"intermediate.dense", "mlp.fc1"},
                                             {"output.dense", "mlp.fc2"},
                                             {NULL, NULL}};

accel_status accel__vit_read(accel__build *b, accel__vit_config *c) {
  *c = (accel__vit_config){.hidden = 768,
                           .layers = 12,
                           .heads = 12,
                           .inner = 3072,
                           .channels = 3,
                           .eps = 1e-12,
                           .qkv_bias = true,
                           .image = {224, 224},
                           .patch = {16, 16},
                           .act = {.act = ACCEL_PLUGIN_ACT_GELU},
                           .pooler_act = {.act = ACCEL_PLUGIN_ACT_TANH}};
  const accel__field fields[] = {
      ACCEL_FIELD_INT("hidden_size", &c->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_hidden_layers", &c->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("num_attention_heads", &c->heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("intermediate_size", &c->inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_channels", &c->channels, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("pooler_output_size", &c->pooled, 0, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_NUMBER("layer_norm_eps", &c->eps),
      ACCEL_FIELD_BOOL("qkv_bias", &c->qkv_bias),
      ACCEL_FIELD_ACT("hidden_act", &c->act),
      ACCEL_FIELD_ACT("pooler_act", &c->pooler_act),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__read_size2(b, "image_size", 1, ACCEL__MAX_WIDTH, &c->image));
  ACCEL_TRY(accel__read_size2(b, "patch_size", 1, ACCEL__MAX_WIDTH, &c->patch));
  ACCEL_TRY(accel__divides(b, "num_attention_heads", c->heads, "hidden_size", c->hidden));
  if (c->pooled == 0) c->pooled = c->hidden;
  b->model->hidden_size = c->hidden;
  b->spelling[0] = accel__vit_spelling;
  return accel__read_labels(b);
}

accel__tensor accel__vit_encoder(accel__build *b, const accel__vit_config *c, accel__tensor x,
                                 accel__dim per_item,
                                 accel__tensor (*between)(accel__build *b, void *user,
                                                          accel__tensor x, uint32_t layer),
                                 void *user) {
  const accel__block block = {.q = "attention.attention.query",
                              .k = "attention.attention.key",
                              .v = "attention.attention.value",
                              .o = "attention.output.dense",
                              .norm1 = "layernorm_before",
                              .norm2 = "layernorm_after",
                              .up = "intermediate.dense",
                              .down = "output.dense",
                              .hidden = c->hidden,
                              .heads = c->heads,
                              .inner = c->inner,
                              .eps = c->eps,
                              .qkv_bias = c->qkv_bias,
                              .o_bias = true,
                              .act = c->act};
  accel__hidden_items(b, x, per_item);
  for (uint32_t i = 0; i < (uint32_t)c->layers; i++) {
    accel__at(b->p, i + 1, "encoder.layer.%u", i);
    x = accel__pre_norm_block(b, &block, x, "encoder.layer.%u", i);
    accel__hidden_items(b, x, per_item); /* before `between`: what the layer itself gives */
    if (between != NULL) x = between(b, user, x, i);
  }
  accel__at(b->p, (uint32_t)c->layers + 1, "head");
  return x;
}

accel__tensor accel__vit_pooler(accel__build *b, const accel__vit_config *c, accel__tensor x) {
  return accel__dense_layer(b, accel__first_rows(b, x), c->pooled, true, -1, &c->pooler_act,
                            "pooler.dense");
}

accel__tensor accel__vit_embeddings(accel__build *b, accel__vit *m, accel__tensor pixels) {
  const accel__vit_config *c = &m->c;
  const bool masks =
      accel__is_class(b, "ForMaskedImageModeling") ||
      (b->is_base && b->request->checkpoint != NULL && accel__has(b, "embeddings.mask_token"));
  const int64_t one[3] = {1, 1, c->hidden}, leading = m->distilled ? 2 : 1;
  const accel__conv patch = {
      .out = c->hidden, .kernel = c->patch, .stride = c->patch, .bias = true};
  accel__at(b->p, 0, "embeddings");
  accel__tensor x = accel__conv2d(b, pixels, &patch, "embeddings.patch_embeddings.projection");
  if (x < 0) return -1;
  accel__dim h = m->h = accel__tensor_dim(b->p, x, 2), w = m->w = accel__tensor_dim(b->p, x, 3);
  x = accel__planes_to_items(b, x); /* [B,h*w,C] */
  if (masks) x = accel__masked_rows(b, x, 3, "embeddings.mask_token");
  accel__tensor part[3];
  uint32_t n = 0;
  part[n++] = accel__repeat(b, accel__table(b, 3, one, "embeddings.cls_token"), b->B);
  if (m->distilled)
    part[n++] = accel__repeat(b, accel__table(b, 3, one, "embeddings.distillation_token"), b->B);
  part[n++] = x;
  x = accel__concat(b, 1, n, part);
  accel__size2 grid = {c->image.h / c->patch.h, c->image.w / c->patch.w};
  const int64_t dims[3] = {1, leading + grid.h * grid.w, c->hidden};
  const accel__grid_table positions = {
      .table = accel__table(b, 3, dims, "embeddings.position_embeddings"),
      .before = leading,
      .grid = grid};
  x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, accel__resize_grid(b, &positions, h, w));
  m->rows = x < 0 ? -1 : accel__tensor_dim(b->p, x, 1);
  return accel__items_to_rows(b, x, "patches");
}

/* logits = (cls + distillation) / 2 */
static void teacher_heads(accel__build *b, const accel__vit *m, accel__tensor x) {
  int64_t n = b->model->num_labels;
  accel__tensor cls =
      accel__dense_layer(b, accel__first_rows(b, x), n, true, -1, NULL, "cls_classifier");
  accel__tensor second = accel__row_of_items(b, x, m->rows, 1);
  accel__tensor other = accel__dense_layer(b, second, n, true, -1, NULL, "distillation_classifier");
  accel__tensor sum = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, cls, other);
  accel__attr half[] = {ACCEL_I(KIND, ACCEL_PLUGIN_UNARY_AFFINE), ACCEL_F(ALPHA, 0.5),
                        ACCEL_F(BETA, 0.0)};
  accel__add_output(b, "logits",
                    accel__node(b->p, ACCEL_PLUGIN_OP_UNARY, &sum, 1, half, 3, NULL, 1), 0);
  accel__add_output(b, "cls_logits", cls, 0);
  accel__add_output(b, "distillation_logits", other, 0);
}

static accel_status build_any(const accel__model_request *request, const char *architecture,
                              accel__model *model, const char *prefix, bool distilled) {
  static const char *const args[] = {"interpolate_pos_encoding", NULL};
  accel__build b;
  accel__vit m = {.distilled = distilled, .stride = 16};
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, prefix));
  model->args = args;
  ACCEL_TRY(accel__vit_read(&b, &m.c));
  ACCEL_TRY(accel__json_int(b.file, b.config, "encoder_stride", 1, 4096, &m.stride));
  accel__tensor x = accel__vit_embeddings(&b, &m, accel__add_pixels(&b, m.c.channels, NULL));
  x = accel__vit_encoder(&b, &m.c, x, m.rows, NULL, NULL);
  x = accel__norm_layer(&b, x, -1, m.c.eps, true, "layernorm");
  b.in_head = !b.is_base;
  if (b.is_base) {
    accel__output_items(&b, "last_hidden_state", x, m.rows, false);
    if (accel__has(&b, "pooler.dense.weight"))
      accel__add_output(&b, "pooler_output", accel__vit_pooler(&b, &m.c, x), 0);
  } else if (accel__is_class(&b, "ForMaskedImageModeling")) {
    accel__tensor patches =
        accel__slice(b.p, accel__rows_to_items(&b, x, m.rows), 1, distilled ? 2 : 1, INT64_MAX);
    accel__output_pixels(&b, patches, m.h, m.w, m.c.channels, m.stride);
  } else if (accel__is_class(&b, "WithTeacher")) {
    teacher_heads(&b, &m, x);
  } else {
    accel__head_sequence(&b, accel__first_rows(&b, x), "classifier");
  }
  return accel__build_end(&b, x);
}

static accel_status build_vit(const accel__model_request *request, const char *architecture,
                              accel__model *model) {
  return build_any(request, architecture, model, "vit.", false);
}
static accel_status build_deit(const accel__model_request *request, const char *architecture,
                               accel__model *model) {
  return build_any(request, architecture, model, "deit.", true);
}

static const char *const vit_classes[] = {"ViTModel", "ViTForImageClassification",
                                          "ViTForMaskedImageModeling", NULL};
const accel__architecture accel__model_vit = {
    .model_type = "vit", .classes = vit_classes, .build = build_vit};
static const char *const deit_classes[] = {"DeiTModel", "DeiTForImageClassification",
                                           "DeiTForImageClassificationWithTeacher",
                                           "DeiTForMaskedImageModeling", NULL};
const accel__architecture accel__model_deit = {
    .model_type = "deit", .classes = deit_classes, .build = build_deit};
