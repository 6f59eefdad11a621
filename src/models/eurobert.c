/* eurobert.c - EuroBERT (transformers' EuroBertModel and heads): LLaMA's layers with attention both
 * ways. */
#include <string.h>

#include "modeling/decoder.h"

enum { POOL_LATE, POOL_FIRST, POOL_MEAN };
static const accel__activation gelu_act = {.act = ACCEL_PLUGIN_ACT_GELU};
static const accel__decoder defaults = {.vocab = 128256,
                                        .hidden = 768,
                                        .layers = 12,
                                        .heads = 12,
                                        .inner = 3072,
                                        .positions = 8192,
                                        .eps = 1e-5,
                                        .theta = 10000.0,
                                        .bos = 128000,
                                        .eos = 128001,
                                        .pad = 128001,
                                        .bidirectional = true,
                                        .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

static accel_status read_pooling(accel__build *b, int *how) {
  static const char *const names[] = {"late", "bos", "mean"};
  const char *name = names[POOL_LATE];
  ACCEL_TRY(accel__json_string(b->file, b->config, "classifier_pooling", &name));
  for (*how = 0; *how < 3; ++*how)
    if (strcmp(names[*how], name) == 0) return ACCEL_OK;
  return accel__refuse(
      b, "field 'classifier_pooling': '%s' is not supported; known: late, bos, mean", name);
}

static accel_status read_config(accel__build *b, accel__decoder *c, int *pooling) {
  *c = defaults;
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__divides(b, "num_attention_heads", c->heads, "hidden_size", c->hidden));
  ACCEL_TRY(accel__decoder_read_attention_bias(b, c));
  ACCEL_TRY(accel__json_bool(b->file, b->config, "mlp_bias", &c->mlp_bias));
  ACCEL_TRY(read_pooling(b, pooling));
  return accel__decoder_read_rope(b, c);
}

/* "late": the mean of what the head says of each token; else the head of a pooled row. */
static void classify(accel__build *b, const accel__decoder *c, accel__tensor x, int pooling) {
  if (pooling == POOL_FIRST) x = accel__first_rows(b, x);
  if (pooling == POOL_MEAN) x = accel__reduce_rows(b->p, ACCEL_PLUGIN_REDUCE_MEAN, x, -1, b->space);
  x = accel__dense_layer(b, x, c->hidden, true, -1, &gelu_act, "dense");
  x = accel__dense_layer(b, x, b->model->num_labels, true, -1, NULL, "classifier");
  if (pooling == POOL_LATE) x = accel__reduce_rows(b->p, ACCEL_PLUGIN_REDUCE_MEAN, x, -1, b->space);
  accel__add_output(b, "logits", x, 0);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  int pooling;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "model."));
  accel__decoder *c = accel__arena_alloc(b.arena, sizeof *c);
  if (c == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(read_config(&b, c, &pooling));
  accel__tensor x = accel__decoder_rows(&b, c);
  b.in_head = true;
  if (b.is_base) {
    accel__add_output(&b, "last_hidden_state", x, 0);
  } else if (accel__is_class(&b, "ForMaskedLM")) {
    const char *bias = c->mlp_bias ? "lm_head.bias" : NULL;
    accel__add_output(
        &b, "logits",
        accel__head_vocabulary(&b, x, c->vocab, c->tied, "embed_tokens", "lm_head", bias), 0);
  } else if (accel__is_class(&b, "ForSequenceClassification")) {
    classify(&b, c, x, pooling);
  } else {
    accel__head_tokens(&b, x, "classifier");
  }
  b.in_head = false;
  return accel__build_end(&b, x);
}

static const char *const classes[] = {"EuroBertModel", "EuroBertForMaskedLM",
                                      "EuroBertForSequenceClassification",
                                      "EuroBertForTokenClassification", NULL};
const accel__architecture accel__model_eurobert = {
    .model_type = "eurobert", .classes = classes, .build = build};
