/* electra.c - ELECTRA (transformers' ElectraModel and heads): BERT's encoder behind narrower
 * embeddings; no pooler. */
#include "models/bert.h"

static const accel__activation gelu_act = {.act = ACCEL_PLUGIN_ACT_GELU};

static accel__tensor predictions(accel__build *b, const accel__bert_config *c, accel__tensor x) {
  x = accel__dense_layer(b, x, c->embedding, true, -1, &gelu_act, "generator_predictions.dense");
  x = accel__norm_layer(b, x, -1, c->eps, true, "generator_predictions.LayerNorm");
  return accel__head_vocabulary(b, x, c->vocab, c->tied, "embeddings.word_embeddings",
                                "generator_lm_head", "generator_lm_head.bias");
}

static void heads(accel__build *b, const accel__bert_config *c, accel__tensor x) {
  b->in_head = true; /* names of tensors from here on have no "electra." in front */
  if (b->is_base) {
    accel__add_output(b, "last_hidden_state", x, 0);
    /* replaced-token detection: one logit a token */
  } else if (accel__is_class(b, "ForPreTraining")) {
    accel__tensor y =
        accel__dense_layer(b, x, c->hidden, true, -1, &c->act, "discriminator_predictions.dense");
    accel__add_output(
        b, "logits",
        accel__dense_layer(b, y, 1, true, -1, NULL, "discriminator_predictions.dense_prediction"),
        ACCEL__OUTPUT_SQUEEZE);
  } else if (accel__is_class(b, "ForMaskedLM")) {
    accel__add_output(b, "logits", predictions(b, c, x), 0);
  } else if (accel__is_class(b, "ForSequenceClassification")) {
    accel__tensor y = accel__dense_layer(b, accel__first_rows(b, x), c->hidden, true, -1, &gelu_act,
                                         "classifier.dense");
    accel__head_sequence(b, y, "classifier.out_proj");
  } else {
    accel__head_words(b, x);
  }
  b->in_head = false;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  accel__bert_config c = {.vocab = 30522,
                          .hidden = 256,
                          .layers = 12,
                          .heads = 4,
                          .inner = 1024,
                          .positions = 512,
                          .types = 2,
                          .pad_id = 0,
                          .embedding = 128,
                          .eps = 1e-12,
                          .tied = true,
                          .act = gelu_act};
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "electra."));
  const accel__field field = ACCEL_FIELD_INT("embedding_size", &c.embedding, 1, ACCEL__MAX_WIDTH);
  ACCEL_TRY(accel__read_fields(&b, &field, 1));
  ACCEL_TRY(accel__bert_read(&b, &c));
  ACCEL_TRY(accel__refuse_relative_positions(&b));
  accel__tensor x = accel__bert_embeddings(&b, &c, ACCEL__DEFAULT_ARANGE, /*position_offset*/ 0);
  if (c.embedding != c.hidden)
    x = accel__dense_layer(&b, x, c.hidden, true, -1, NULL, "embeddings_project");
  x = accel__bert_encoder(&b, &c, x);
  heads(&b, &c, x);
  return accel__build_end(&b, x);
}

static const char *const classes[] = {ACCEL_ENCODER_CLASSES("Electra"), "ElectraForPreTraining",
                                      NULL};
const accel__architecture accel__model_electra = {
    .model_type = "electra", .classes = classes, .build = build};
