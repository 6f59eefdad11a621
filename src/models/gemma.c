/* gemma.c - Gemma 1 (transformers' GemmaModel and its heads): LLaMA's layers, norms by 1 + weight,
 * scaled embeddings. */
#include <math.h>

#include "models/gemma.h"

static const accel__decoder defaults = {.vocab = 256000,
                                        .hidden = 3072,
                                        .layers = 28,
                                        .heads = 16,
                                        .kv_heads = 16,
                                        .head_dim = 256,
                                        .inner = 24576,
                                        .positions = 8192,
                                        .eps = 1e-6,
                                        .theta = 10000.0,
                                        .bos = 2,
                                        .eos = 1,
                                        .pad = 0,
                                        .tied = true,
                                        .gamma_offset = 1.0,
                                        .act = {.act = ACCEL_PLUGIN_ACT_GELU_TANH}};

accel_status accel__gemma_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__decoder_read_attention_bias(b, c));
  ACCEL_TRY(accel__json_bool(b->file, b->config, "use_bidirectional_attention", &c->bidirectional));
  if (b->images.blocks) c->bidirectional = false; /* PaliGemma: the prefix alone */
  if (c->bidirectional)
    return accel__refuse(b, "field 'use_bidirectional_attention': true is not supported");
  c->embed_scale = (double)(float)sqrt((double)c->hidden);
  return accel__decoder_read_rope(b, c);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__gemma_read);
}

static const char *const classes[] = {"GemmaModel", "GemmaForCausalLM",
                                      "GemmaForSequenceClassification",
                                      "GemmaForTokenClassification", NULL};
const accel__architecture accel__model_gemma = {
    .model_type = "gemma", .classes = classes, .build = build};
