/* llama.c - LLaMA 1, 2 and 3 (transformers' LlamaModel and its heads). */
#include "models/decoders.h"

static const accel__decoder defaults = {.vocab = 32000,
                                        .hidden = 4096,
                                        .layers = 32,
                                        .heads = 32,
                                        .inner = 11008,
                                        .positions = 2048,
                                        .eps = 1e-6,
                                        .theta = 10000.0,
                                        .bos = 1,
                                        .eos = 2,
                                        .pad = -1,
                                        .qa_transformer = true,
                                        .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

accel_status accel__llama_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__decoder_read_attention_bias(b, c));
  ACCEL_TRY(accel__json_bool(b->file, b->config, "mlp_bias", &c->mlp_bias));
  ACCEL_TRY(accel__decoder_read_rope(b, c));
  return ACCEL_OK;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__llama_read);
}

static const char *const classes[] = {ACCEL_CAUSAL_CLASSES("Llama"), NULL};
const accel__architecture accel__model_llama = {
    .model_type = "llama", .classes = classes, .build = build};
