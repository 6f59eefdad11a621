/* albert.c - ALBERT (transformers' AlbertModel and heads): narrow embeddings mapped to the hidden
 * size, then groups of layers whose weights are shared: layer i uses group int(i /
 * (num_hidden_layers / num_hidden_groups)), each group inner_group_num layers deep. */
#include <stdio.h>

#include "models/bert.h"

typedef struct albert_config {
  accel__bert_config base;
  int64_t groups, inner_layers;
} albert_config;

static accel_status read_config(accel__build *b, albert_config *c) {
  *c = (albert_config){.base = {.vocab = 30000,
                                .hidden = 4096,
                                .layers = 12,
                                .heads = 64,
                                .inner = 16384,
                                .positions = 512,
                                .types = 2,
                                .pad_id = 0,
                                .embedding = 128,
                                .eps = 1e-12,
                                .tied = true,
                                .act = {.act = ACCEL_PLUGIN_ACT_GELU_TANH}},
                       .groups = 1,
                       .inner_layers = 1};
  const accel__field fields[] = {
      ACCEL_FIELD_INT("embedding_size", &c->base.embedding, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_hidden_groups", &c->groups, 1, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("inner_group_num", &c->inner_layers, 1, ACCEL__MAX_LAYERS),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__bert_read(b, &c->base));
  if (c->base.layers * c->inner_layers > ACCEL__MAX_LAYERS)
    return accel__refuse(b, "field 'inner_group_num': more than %d layers in all",
                         ACCEL__MAX_LAYERS);
  return ACCEL_OK;
}

static accel__tensor layer(accel__build *b, const accel__bert_config *c, accel__tensor x,
                           uint32_t group, uint32_t i) {
  char path[80];
  snprintf(path, sizeof path, "encoder.albert_layer_groups.%u.albert_layers.%u", group, i);
  accel__tensor q = accel__dense_layer(b, x, c->hidden, true, -1, NULL, "%s.attention.query", path);
  accel__tensor k = accel__dense_layer(b, x, c->hidden, true, -1, NULL, "%s.attention.key", path);
  accel__tensor v = accel__dense_layer(b, x, c->hidden, true, -1, NULL, "%s.attention.value", path);
  accel__tensor y = accel__self_attention(b, q, k, v, c->heads, 0.0);
  y = accel__dense_layer(b, y, c->hidden, true, x, NULL, "%s.attention.dense", path);
  x = accel__norm_layer(b, y, -1, c->eps, true, "%s.attention.LayerNorm", path);
  y = accel__dense_layer(b, x, c->inner, true, -1, &c->act, "%s.ffn", path);
  y = accel__dense_layer(b, y, c->hidden, true, x, NULL, "%s.ffn_output", path);
  return accel__norm_layer(b, y, -1, c->eps, true, "%s.full_layer_layer_norm", path);
}

static accel__tensor encoder(accel__build *b, const albert_config *a) {
  const accel__bert_config *c = &a->base;
  accel__tensor x = accel__bert_embeddings(b, c, ACCEL__DEFAULT_ARANGE, 0);
  x = accel__dense_layer(b, x, c->hidden, true, -1, NULL, "encoder.embedding_hidden_mapping_in");
  accel__add_hidden(b, x);
  for (uint32_t i = 0; i < (uint32_t)c->layers; i++) {
    /* the class divides in floating point */
    uint32_t group = (uint32_t)((double)i / ((double)c->layers / (double)a->groups));
    accel__at(b->p, i + 1, "encoder.layer.%u", i);
    for (uint32_t k = 0; k < (uint32_t)a->inner_layers; k++) {
      x = layer(b, c, x, group, k);
      accel__add_hidden(b, x);
    }
  }
  accel__at(b->p, (uint32_t)c->layers + 1, "head");
  return x;
}

static accel__tensor predictions(accel__build *b, const accel__bert_config *c, accel__tensor x) {
  x = accel__dense_layer(b, x, c->embedding, true, -1, &c->act, "predictions.dense");
  x = accel__norm_layer(b, x, -1, c->eps, true, "predictions.LayerNorm");
  return accel__head_vocabulary(b, x, c->vocab, c->tied, "embeddings.word_embeddings",
                                "predictions.decoder", "predictions.bias");
}

static void heads(accel__build *b, const accel__bert_config *c, accel__tensor x) {
  bool both = accel__is_class(b, "ForPreTraining");
  bool pooled = b->is_base ? accel__has(b, "pooler.weight")
                           : both || accel__is_class(b, "ForSequenceClassification");
  accel__tensor pool = pooled ? accel__bert_pooler(b, c, x, "pooler") : -1;
  b->in_head = true;
  if (b->is_base) {
    accel__add_output(b, "last_hidden_state", x, 0);
    if (pooled) accel__add_output(b, "pooler_output", pool, 0);
  } else if (both) {
    accel__add_output(b, "prediction_logits", predictions(b, c, x), 0);
    accel__add_output(b, "sop_logits",
                      accel__dense_layer(b, pool, b->model->num_labels, true, -1, NULL,
                                         "sop_classifier.classifier"),
                      0);
  } else if (accel__is_class(b, "ForMaskedLM")) {
    accel__add_output(b, "logits", predictions(b, c, x), 0);
  } else if (accel__is_class(b, "ForSequenceClassification")) {
    accel__head_sequence(b, pool, "classifier");
  } else {
    accel__head_words(b, x);
  }
  b->in_head = false;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  albert_config c;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "albert."));
  ACCEL_TRY(read_config(&b, &c));
  ACCEL_TRY(accel__refuse_relative_positions(&b));
  accel__tensor x = encoder(&b, &c);
  heads(&b, &c.base, x);
  return accel__build_end(&b, x);
}

static const char *const classes[] = {ACCEL_ENCODER_CLASSES("Albert"), "AlbertForPreTraining",
                                      NULL};
const accel__architecture accel__model_albert = {
    .model_type = "albert", .classes = classes, .build = build};
