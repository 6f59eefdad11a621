/* bert.c - BERT (transformers' BertModel and its heads), and the encoder its relatives share. */
#include "models/bert.h"

#include "modeling/vision.h"

accel_status accel__bert_read(accel__build *b, accel__bert_config *c) {
  const accel__field fields[] = {
      ACCEL_FIELD_INT("vocab_size", &c->vocab, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("hidden_size", &c->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_hidden_layers", &c->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("num_attention_heads", &c->heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("intermediate_size", &c->inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("max_position_embeddings", &c->positions, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("type_vocab_size", &c->types, c->types == 0 ? 0 : 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("pad_token_id", &c->pad_id, 0, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_NUMBER("layer_norm_eps", &c->eps),
      ACCEL_FIELD_BOOL("tie_word_embeddings", &c->tied),
      ACCEL_FIELD_ACT("hidden_act", &c->act),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__refuse_variants(b));
  if (c->narrow == 0)
    ACCEL_TRY(accel__divides(b, "num_attention_heads", c->heads, "hidden_size", c->hidden));
  if (c->embedding == 0) c->embedding = c->hidden;
  b->model->hidden_size = c->hidden;
  b->model->max_positions = c->positions;
  b->model->pad_id = c->pad_id;
  return accel__read_labels(b);
}

accel__tensor accel__bert_embeddings(accel__build *b, const accel__bert_config *c,
                                     accel__input_default positions, int64_t position_offset) {
  accel__add_tokens(b, c->vocab);
  accel__add_token_types(b, c->types);
  accel__add_positions(b, c->positions, positions, position_offset);
  accel__at(b->p, 0, "embeddings");
  accel__tensor words =
      accel__embedding(b, b->input_ids, c->vocab, c->embedding, "embeddings.word_embeddings");
  accel__tensor types = accel__embedding(b, b->token_type_ids, c->types, c->embedding,
                                         "embeddings.token_type_embeddings");
  accel__tensor position_rows = accel__embedding(b, b->position_ids, c->positions, c->embedding,
                                                 "embeddings.position_embeddings");
  accel__tensor sum = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, words, types);
  return accel__norm_layer(b, sum, position_rows, c->eps, true, "embeddings.LayerNorm");
}

static accel__tensor layer(accel__build *b, const accel__bert_config *c, accel__tensor x,
                           uint32_t i) {
  accel__at(b->p, i + 1, "encoder.layer.%u", i);
  accel__tensor q = accel__dense_layer(b, x, c->hidden, true, -1, NULL,
                                       "encoder.layer.%u.attention.self.query", i);
  accel__tensor k =
      accel__dense_layer(b, x, c->hidden, true, -1, NULL, "encoder.layer.%u.attention.self.key", i);
  accel__tensor v = accel__dense_layer(b, x, c->hidden, true, -1, NULL,
                                       "encoder.layer.%u.attention.self.value", i);
  accel__tensor y = c->attention != NULL ? accel__attend(b, q, k, v, c->attention)
                                         : accel__self_attention(b, q, k, v, c->heads, 0.0);
  y = accel__dense_layer(b, y, c->hidden, true, x, NULL, "encoder.layer.%u.attention.output.dense",
                         i);
  x = accel__norm_layer(b, y, -1, c->eps, true, "encoder.layer.%u.attention.output.LayerNorm", i);
  y = accel__dense_layer(b, x, c->inner, true, -1, &c->act, "encoder.layer.%u.intermediate.dense",
                         i);
  y = accel__dense_layer(b, y, c->hidden, true, x, NULL, "encoder.layer.%u.output.dense", i);
  return accel__norm_layer(b, y, -1, c->eps, true, "encoder.layer.%u.output.LayerNorm", i);
}

static void list_hidden(accel__build *b, const accel__bert_config *c, accel__tensor x) {
  if (c->attention != NULL)
    accel__hidden_items(b, x, c->per_item);
  else
    accel__add_hidden(b, x);
}

accel__tensor accel__bert_encoder(accel__build *b, const accel__bert_config *c, accel__tensor x) {
  list_hidden(b, c, x);
  for (uint32_t i = 0; i < (uint32_t)c->layers; i++) {
    x = layer(b, c, x, i);
    list_hidden(b, c, x);
  }
  accel__at(b->p, (uint32_t)c->layers + 1, "head");
  return x;
}

accel__tensor accel__bert_pooler(accel__build *b, const accel__bert_config *c, accel__tensor x,
                                 const char *name) {
  static const accel__activation tanh_act = {.act = ACCEL_PLUGIN_ACT_TANH};
  return accel__dense_layer(b, accel__first_rows(b, x), c->hidden, true, -1, &tanh_act, "%s", name);
}

accel__tensor accel__bert_transform(accel__build *b, const accel__bert_config *c, accel__tensor x,
                                    const char *norm) {
  b->in_head = true;
  x = accel__dense_layer(b, x, c->hidden, true, -1, &c->act, "cls.predictions.transform.dense");
  x = accel__norm_layer(b, x, -1, c->eps, true, "cls.predictions.transform.%s", norm);
  b->in_head = false;
  return x;
}

accel__tensor accel__bert_predictions(accel__build *b, const accel__bert_config *c, accel__tensor x,
                                      const char *norm) {
  x = accel__bert_transform(b, c, x, norm);
  b->in_head = true;
  x = accel__head_vocabulary(b, x, c->vocab, c->tied, "embeddings.word_embeddings",
                             "cls.predictions.decoder", "cls.predictions.bias");
  b->in_head = false;
  return x;
}

bool accel__bert_pools(accel__build *b) {
  if (b->is_base) return accel__has(b, "pooler.dense.weight");
  return accel__is_class(b, "ForPreTraining") || accel__is_class(b, "ForNextSentencePrediction") ||
         accel__is_class(b, "ForSequenceClassification");
}

bool accel__bert_predicts(const accel__build *b) {
  return accel__is_class(b, "ForPreTraining") || accel__is_class(b, "ForMaskedLM");
}

void accel__bert_heads(accel__build *b, accel__tensor x, accel__tensor pool,
                       accel__tensor predictions) {
  b->in_head = true;
  if (b->is_base) {
    accel__add_output(b, "last_hidden_state", x, 0);
    if (pool >= 0) accel__add_output(b, "pooler_output", pool, 0);
  } else if (accel__is_class(b, "ForPreTraining")) {
    accel__add_output(b, "prediction_logits", predictions, 0);
    accel__add_output(b, "seq_relationship_logits",
                      accel__dense_layer(b, pool, 2, true, -1, NULL, "cls.seq_relationship"), 0);
  } else if (accel__is_class(b, "ForNextSentencePrediction")) {
    accel__add_output(b, "logits",
                      accel__dense_layer(b, pool, 2, true, -1, NULL, "cls.seq_relationship"), 0);
  } else if (accel__is_class(b, "ForMaskedLM")) {
    accel__add_output(b, "logits", predictions, 0);
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
  accel__bert_config c = {.vocab = 30522,
                          .hidden = 768,
                          .layers = 12,
                          .heads = 12,
                          .inner = 3072,
                          .positions = 512,
                          .types = 2,
                          .pad_id = 0,
                          .eps = 1e-12,
                          .tied = true,
                          .act = {.act = ACCEL_PLUGIN_ACT_GELU}};
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "bert."));
  ACCEL_TRY(accel__bert_read(&b, &c));
  ACCEL_TRY(accel__refuse_relative_positions(&b));
  accel__tensor x = accel__bert_embeddings(&b, &c, ACCEL__DEFAULT_ARANGE, 0);
  x = accel__bert_encoder(&b, &c, x);
  accel__tensor pool = accel__bert_pools(&b) ? accel__bert_pooler(&b, &c, x, "pooler.dense") : -1;
  accel__bert_heads(
      &b, x, pool, accel__bert_predicts(&b) ? accel__bert_predictions(&b, &c, x, "LayerNorm") : -1);
  return accel__build_end(&b, x);
}

static const char *const classes[] = {ACCEL_ENCODER_CLASSES("Bert"), "BertForPreTraining",
                                      "BertForNextSentencePrediction", NULL};
const accel__architecture accel__model_bert = {
    .model_type = "bert", .classes = classes, .build = build};
