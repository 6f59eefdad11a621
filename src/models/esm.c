/* esm.c - ESM-2 and ESM-1b, encoders of proteins (transformers' EsmModel and heads): pre-norm
 * layers, rotary or learned positions, and token dropout: embeddings of masked tokens are zero, and
 * those of a sequence are scaled by how many of its tokens are masked.  The head for contacts
 * belongs to no class's forward; its weights are left aside. */
#include <string.h>

#include "modeling/rope.h"
#include "modeling/vision.h"
#include "models/bert.h"

typedef struct esm_config {
  accel__bert_config base;
  int64_t mask_id;
  bool rotary, token_dropout, norm_before;
  double theta;
} esm_config;

static accel_status read_positions(accel__build *b, esm_config *c) {
  const char *positions = "absolute";
  ACCEL_TRY(accel__json_string(b->file, b->config, "position_embedding_type", &positions));
  c->rotary = strcmp(positions, "rotary") == 0;
  if (!c->rotary && strcmp(positions, "absolute") != 0)
    return accel__refuse(
        b, "field 'position_embedding_type': '%s' is not supported; known: absolute, rotary",
        positions);
  if (c->rotary) return ACCEL_OK;
  if (c->base.pad_id + 1 >= c->base.positions)
    return accel__refuse(
        b, "field 'max_position_embeddings' (%lld) leaves no position after pad_token_id %lld",
        (long long)c->base.positions, (long long)c->base.pad_id);
  b->model->max_positions = c->base.positions - c->base.pad_id - 1;
  return ACCEL_OK;
}

static accel_status read_config(accel__build *b, esm_config *c) {
  bool folds = false;
  *c = (esm_config){.base = {.hidden = 768,
                             .layers = 12,
                             .heads = 12,
                             .inner = 3072,
                             .positions = 1026,
                             .pad_id = -1,
                             .eps = 1e-12,
                             .tied = true},
                    .mask_id = -1,
                    .theta = 10000.0};
  const accel__field fields[] = {
      ACCEL_FIELD_INT("mask_token_id", &c->mask_id, 0, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_BOOL("token_dropout", &c->token_dropout),
      ACCEL_FIELD_BOOL("emb_layer_norm_before", &c->norm_before),
      ACCEL_FIELD_BOOL("is_folding_model", &folds),
      ACCEL_FIELD_NUMBER("rope_theta", &c->theta),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__bert_read(b, &c->base));
  /* whatever the config says */
  c->base.act = (accel__activation){.act = ACCEL_PLUGIN_ACT_GELU};
  if (folds) return accel__refuse(b, "field 'is_folding_model': true (ESMFold) is not supported");
  if (c->base.vocab == 0)
    return accel__refuse(b, "field 'vocab_size' is missing, and the class has no default");
  if (c->base.pad_id < 0)
    return accel__refuse(b, "field 'pad_token_id' is missing, and the class has no default");
  if (c->token_dropout && c->mask_id < 0)
    return accel__refuse(b, "field 'mask_token_id' is missing, and token_dropout needs it");
  if (!(c->theta > 0)) return accel__refuse(b, "field 'rope_theta' must be positive");
  return read_positions(b, c);
}

/* [T,1]: 0 for masked tokens, 1 for the others. */
static accel__tensor unmasked(accel__build *b, int64_t mask_id) {
  accel__tensor x = accel__cast(b, b->input_ids, ACCEL_PLUGIN_F32);
  x = accel__unary(b->p, ACCEL_PLUGIN_UNARY_ABS, accel__affine(b, x, 1.0, -(double)mask_id));
  x = accel__clamp(b, x, 0.0, 1.0);
  return accel__reshape(b->p, x, 2, (accel__dim[]){b->T, accel__const_dim(b->p, 1)});
}

/* Embeddings of unmasked tokens times (1 - 0.15 * 0.8) / (share of unmasked tokens): 0.15 * 0.8 of
 * the tokens were masked in training. */
static accel__tensor drop_tokens(accel__build *b, const esm_config *c, accel__tensor x) {
  accel__tensor keep = unmasked(b, c->mask_id); /* [T,1] */
  accel__tensor share =
      accel__reduce_rows(b->p, ACCEL_PLUGIN_REDUCE_MEAN, keep, -1, b->space); /* [B,1] */
  share = accel__gather(b->p, share, accel__add_sequence(b));                 /* [T,1] */
  accel__tensor scale = accel__binary(b->p, ACCEL_PLUGIN_BINARY_DIV,
                                      accel__affine(b, keep, 1.0 - 0.15 * 0.8, 0.0), share);
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, x, scale);
}

/* Frequencies that checkpoints hold: those that the model was trained with, in half precision. */
static accel__tensor stored_frequencies(accel__build *b, int64_t n) {
  static const char *const names[] = {"rotary_embeddings.inv_freq",
                                      "encoder.layer.0.attention.self.rotary_embeddings.inv_freq"};
  for (size_t i = 0; b->request->checkpoint != NULL && i < 2; i++)
    if (accel__has(b, "%s", names[i]))
      return accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 1, &n, names[i]);
  return -1;
}

static accel_status make_rope(accel__build *b, const esm_config *c, accel__rope *rope) {
  const int64_t head = c->base.hidden / c->base.heads;
  ACCEL_TRY(accel__rope_read(b, NULL, c->theta, 1.0, head, c->base.positions, "rope", rope));
  const accel__tensor stored = stored_frequencies(b, head / 2);
  if (stored >= 0) rope->inv_freq = stored;
  return ACCEL_OK;
}

static accel__tensor embeddings(accel__build *b, const esm_config *c) {
  const accel__bert_config *base = &c->base;
  accel__add_tokens(b, base->vocab);
  if (c->rotary)
    accel__add_positions(b, INT32_MAX, ACCEL__DEFAULT_ARANGE, 0);
  else
    accel__add_positions(b, base->positions, ACCEL__DEFAULT_ROBERTA, base->pad_id + 1);
  accel__at(b->p, 0, "embeddings");
  accel__tensor x =
      accel__embedding(b, b->input_ids, base->vocab, base->hidden, "embeddings.word_embeddings");
  if (c->token_dropout) x = drop_tokens(b, c, x);
  if (!c->rotary)
    x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x,
                      accel__embedding(b, b->position_ids, base->positions, base->hidden,
                                       "embeddings.position_embeddings"));
  return c->norm_before ? accel__norm_layer(b, x, -1, base->eps, true, "embeddings.layer_norm") : x;
}

static accel__tensor layer(accel__build *b, const esm_config *c, const accel__rope *rope,
                           accel__tensor x, uint32_t i) {
  static const char *const parts[] = {"query", "key", "value"};
  const accel__bert_config *base = &c->base;
  accel__tensor of[3];
  accel__at(b->p, i + 1, "encoder.layer.%u", i);
  accel__tensor y =
      accel__norm_layer(b, x, -1, base->eps, true, "encoder.layer.%u.attention.LayerNorm", i);
  for (int k = 0; k < 3; k++)
    of[k] = accel__dense_layer(b, y, base->hidden, true, -1, NULL,
                               "encoder.layer.%u.attention.self.%s", i, parts[k]);
  for (int k = 0; c->rotary && k < 2; k++) of[k] = accel__rope_rows(b, of[k], rope);
  y = accel__self_attention(b, of[0], of[1], of[2], base->heads, 0.0);
  x = accel__dense_layer(b, y, base->hidden, true, x, NULL,
                         "encoder.layer.%u.attention.output.dense", i);
  y = accel__norm_layer(b, x, -1, base->eps, true, "encoder.layer.%u.LayerNorm", i);
  y = accel__dense_layer(b, y, base->inner, true, -1, &base->act,
                         "encoder.layer.%u.intermediate.dense", i);
  return accel__dense_layer(b, y, base->hidden, true, x, NULL, "encoder.layer.%u.output.dense", i);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  esm_config c;
  accel__rope rope = {.inv_freq = -1};
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "esm."));
  ACCEL_TRY(read_config(&b, &c));
  accel__tensor x = embeddings(&b, &c);
  if (c.rotary) ACCEL_TRY(make_rope(&b, &c, &rope));
  for (uint32_t i = 0; i < (uint32_t)c.base.layers; i++) {
    accel__add_hidden(&b, x);
    x = layer(&b, &c, &rope, x, i);
  }
  accel__at(b.p, (uint32_t)c.base.layers + 1, "head");
  x = accel__norm_layer(&b, x, -1, c.base.eps, true, "encoder.emb_layer_norm_after");
  accel__add_hidden(&b, x); /* the last hidden state is the normalised one */
  accel__roberta_heads(&b, &c.base, x);
  return accel__build_end(&b, x);
}

static const char *const classes[] = {"EsmModel", "EsmForMaskedLM", "EsmForSequenceClassification",
                                      "EsmForTokenClassification", NULL};
const accel__architecture accel__model_esm = {
    .model_type = "esm", .classes = classes, .build = build};
