/* roberta.c - RoBERTa, XLM-RoBERTa and CamemBERT: one forward, three names (transformers'
 * modeling_roberta.py and its two copies). BERT's encoder; positions count the non-padding tokens
 * from pad_token_id + 1; heads of their own. */
#include "models/bert.h"

static const accel__activation tanh_act = {.act = ACCEL_PLUGIN_ACT_TANH},
                               gelu_act = {.act = ACCEL_PLUGIN_ACT_GELU};

static accel__tensor predictions(accel__build *b, const accel__bert_config *c, accel__tensor x) {
  x = accel__dense_layer(b, x, c->hidden, true, -1, &gelu_act, "lm_head.dense");
  x = accel__norm_layer(b, x, -1, c->eps, true, "lm_head.layer_norm");
  return accel__head_vocabulary(b, x, c->vocab, c->tied, "embeddings.word_embeddings",
                                "lm_head.decoder", "lm_head.bias");
}

void accel__roberta_heads(accel__build *b, const accel__bert_config *c, accel__tensor x) {
  if (b->is_base) {
    accel__add_output(b, "last_hidden_state", x, 0);
    if (accel__has(b, "pooler.dense.weight"))
      accel__add_output(b, "pooler_output", accel__bert_pooler(b, c, x, "pooler.dense"), 0);
    return;
  }
  b->in_head = true;
  if (accel__is_class(b, "ForMaskedLM")) {
    accel__add_output(b, "logits", predictions(b, c, x), 0);
  } else if (accel__is_class(b, "ForSequenceClassification")) {
    accel__tensor y = accel__dense_layer(b, accel__first_rows(b, x), c->hidden, true, -1, &tanh_act,
                                         "classifier.dense");
    accel__head_sequence(b, y, "classifier.out_proj");
  } else {
    accel__head_words(b, x);
  }
  b->in_head = false;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model, int64_t vocab) {
  accel__build b;
  accel__bert_config c = {.vocab = vocab,
                          .hidden = 768,
                          .layers = 12,
                          .heads = 12,
                          .inner = 3072,
                          .positions = 512,
                          .types = 2,
                          .pad_id = 1,
                          .eps = 1e-12,
                          .tied = true,
                          .act = gelu_act};
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "roberta."));
  ACCEL_TRY(accel__bert_read(&b, &c));
  ACCEL_TRY(accel__refuse_relative_positions(&b));
  if (c.pad_id + 1 >= c.positions)
    return accel__refuse(
        &b, "field 'max_position_embeddings' (%lld) leaves no position after pad_token_id %lld",
        (long long)c.positions, (long long)c.pad_id);
  model->max_positions = c.positions - c.pad_id - 1;
  accel__tensor x = accel__bert_embeddings(&b, &c, ACCEL__DEFAULT_ROBERTA, c.pad_id + 1);
  x = accel__bert_encoder(&b, &c, x);
  accel__roberta_heads(&b, &c, x);
  return accel__build_end(&b, x);
}

static accel_status build_roberta(const accel__model_request *request, const char *architecture,
                                  accel__model *model) {
  return build(request, architecture, model, 50265);
}
static accel_status build_other(const accel__model_request *request, const char *architecture,
                                accel__model *model) {
  return build(request, architecture, model, 30522);
}

static const char *const roberta[] = {ACCEL_ENCODER_CLASSES("Roberta"), NULL};
static const char *const xlm_roberta[] = {ACCEL_ENCODER_CLASSES("XLMRoberta"), NULL};
static const char *const camembert[] = {ACCEL_ENCODER_CLASSES("Camembert"), NULL};
const accel__architecture accel__model_roberta = {
    .model_type = "roberta", .classes = roberta, .build = build_roberta};
const accel__architecture accel__model_xlm_roberta = {
    .model_type = "xlm-roberta", .classes = xlm_roberta, .build = build_other};
const accel__architecture accel__model_camembert = {
    .model_type = "camembert", .classes = camembert, .build = build_other};
