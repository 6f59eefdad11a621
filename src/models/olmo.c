/* olmo.c - OLMo: LLaMA's layers with layer norms that have no weights (transformers' OlmoModel and
 * its heads). */
#include "models/decoders.h"

static const accel__decoder defaults = {.vocab = 50304,
                                        .hidden = 4096,
                                        .layers = 32,
                                        .heads = 32,
                                        .inner = 11008,
                                        .positions = 2048,
                                        .eps = 1e-5,
                                        .theta = 10000.0,
                                        .bos = -1,
                                        .eos = 50279,
                                        .pad = 1,
                                        .norm = ACCEL__NORM_LAYER_BARE,
                                        .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

accel_status accel__olmo_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__decoder_read_attention_bias(b, c));
  ACCEL_TRY(accel__json_number(b->file, b->config, "clip_qkv", &c->clip));
  if (c->clip < 0) return accel__refuse(b, "field 'clip_qkv' is negative");
  c->eps = 1e-5; /* whatever rms_norm_eps says: the class has it fixed */
  return accel__decoder_read_rope(b, c);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__olmo_read);
}

static const char *const classes[] = {"OlmoModel", "OlmoForCausalLM",
                                      "OlmoForSequenceClassification", NULL};
const accel__architecture accel__model_olmo = {
    .model_type = "olmo", .classes = classes, .build = build};
