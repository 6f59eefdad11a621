/* ast.c - Audio Spectrogram Transformer (transformers' ASTModel and classifier): a ViT over
 * overlapping patches of a spectrogram. */
#include "models/vit.h"

typedef struct ast_config {
  accel__vit_config vit;
  int64_t mels, frames, mel_step, frame_step;
} ast_config;

static accel_status read_config(accel__build *b, ast_config *c) {
  *c = (ast_config){.mels = 128, .frames = 1024, .mel_step = 10, .frame_step = 10};
  ACCEL_TRY(accel__vit_read(b, &c->vit));
  const accel__field fields[] = {
      ACCEL_FIELD_INT("num_mel_bins", &c->mels, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("max_length", &c->frames, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("frequency_stride", &c->mel_step, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("time_stride", &c->frame_step, 1, ACCEL__MAX_WIDTH),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  if (c->vit.patch.h != c->vit.patch.w)
    return accel__refuse(b, "field 'patch_size': patches that are not square are not supported");
  if (c->vit.patch.h > c->mels || c->vit.patch.h > c->frames)
    return accel__refuse(b, "field 'patch_size' is larger than 'num_mel_bins' or 'max_length'");
  return ACCEL_OK;
}

/* input_values [B, frames, mels] -> rows of class token, distillation token and patches (frequency
 * by time). */
static accel__tensor embeddings(accel__build *b, const ast_config *c, accel__dim *rows) {
  const int64_t hidden = c->vit.hidden, one[3] = {1, 1, hidden}, patch = c->vit.patch.h;
  const int64_t count =
      ((c->mels - patch) / c->mel_step + 1) * ((c->frames - patch) / c->frame_step + 1);
  b->B = accel__symbol(b->p, "B", 1, 0, 1);
  accel__dim frames = accel__const_dim(b->p, c->frames), mels = accel__const_dim(b->p, c->mels);
  accel__tensor x = accel__add_item(b, "input_values", ACCEL_PLUGIN_F32, 3,
                                    (accel__dim[]){b->B, frames, mels}, ACCEL__DEFAULT_REQUIRED);
  accel__at(b->p, 0, "embeddings");
  x = accel__transpose(b, x, 3, (int64_t[]){0, 2, 1});
  x = accel__reshape(b->p, x, 4, (accel__dim[]){b->B, accel__const_dim(b->p, 1), mels, frames});
  const accel__conv conv = {
      .out = hidden, .kernel = c->vit.patch, .stride = {c->mel_step, c->frame_step}, .bias = true};
  x = accel__planes_to_items(b,
                             accel__conv2d(b, x, &conv, "embeddings.patch_embeddings.projection"));
  accel__tensor part[3] = {
      accel__repeat(b, accel__table(b, 3, one, "embeddings.cls_token"), b->B),
      accel__repeat(b, accel__table(b, 3, one, "embeddings.distillation_token"), b->B), x};
  x = accel__concat(b, 1, 3, part);
  accel__tensor positions =
      accel__table(b, 3, (int64_t[]){1, count + 2, hidden}, "embeddings.position_embeddings");
  x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, positions);
  *rows = accel__const_dim(b->p, count + 2);
  return accel__items_to_rows(b, x, "patches");
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  ast_config c;
  accel__dim rows;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "audio_spectrogram_transformer."));
  ACCEL_TRY(read_config(&b, &c));
  accel__tensor x = embeddings(&b, &c, &rows);
  x = accel__vit_encoder(&b, &c.vit, x, rows, NULL, NULL);
  x = accel__norm_layer(&b, x, -1, c.vit.eps, true, "layernorm");
  accel__tensor sum = accel__binary(b.p, ACCEL_PLUGIN_BINARY_ADD, accel__first_rows(&b, x),
                                    accel__row_of_items(&b, x, rows, 1));
  accel__attr half[] = {ACCEL_I(KIND, ACCEL_PLUGIN_UNARY_AFFINE), ACCEL_F(ALPHA, 0.5),
                        ACCEL_F(BETA, 0.0)};
  accel__tensor pooled = accel__node(b.p, ACCEL_PLUGIN_OP_UNARY, &sum, 1, half, 3, NULL, 1);
  if (b.is_base) {
    accel__output_items(&b, "last_hidden_state", x, rows, false);
    accel__add_output(&b, "pooler_output", pooled, 0);
  } else {
    b.in_head = true;
    accel__head_sequence(&b,
                         accel__norm_layer(&b, pooled, -1, c.vit.eps, true, "classifier.layernorm"),
                         "classifier.dense");
  }
  return accel__build_end(&b, x);
}

static const char *const classes[] = {"ASTModel", "ASTForAudioClassification", NULL};
const accel__architecture accel__model_ast = {
    .model_type = "audio-spectrogram-transformer", .classes = classes, .build = build};
