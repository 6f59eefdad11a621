/* mixtral.c - Mixtral: Mistral with experts (transformers' MixtralModel and its heads). */
#include "models/decoders.h"

static const accel__decoder defaults = {.vocab = 32000,
                                        .hidden = 4096,
                                        .layers = 32,
                                        .heads = 32,
                                        .kv_heads = 8,
                                        .inner = 14336,
                                        .positions = 131072,
                                        .eps = 1e-5,
                                        .theta = 10000.0,
                                        .bos = 1,
                                        .eos = 2,
                                        .pad = -1,
                                        .experts = {.n = 8, .per_token = 2},
                                        .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

accel_status accel__mixtral_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__decoder_read_window(b, c));
  ACCEL_TRY(accel__decoder_read_rope(b, c));
  ACCEL_TRY(accel__decoder_read_experts(b, c));
  c->experts.inner = c->inner;
  c->experts.normalise = true;
  for (int64_t i = 0; i < c->layers; i++) c->experts.sparse[i] = true;
  return ACCEL_OK;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__mixtral_read);
}

static const char *const classes[] = {ACCEL_CAUSAL_CLASSES("Mixtral"), NULL};
const accel__architecture accel__model_mixtral = {
    .model_type = "mixtral", .classes = classes, .build = build};
