/* phi3.c - Phi-3 and Phi-4-mini: LLaMA's layers with joined projections (transformers' Phi3Model
 * and its heads). */
#include "models/decoders.h"

static const accel__decoder defaults = {.vocab = 32064,
                                        .hidden = 3072,
                                        .layers = 32,
                                        .heads = 32,
                                        .inner = 8192,
                                        .positions = 4096,
                                        .eps = 1e-5,
                                        .theta = 10000.0,
                                        .partial = 1.0,
                                        .bos = 1,
                                        .eos = 32000,
                                        .pad = 32000,
                                        .fused = true,
                                        .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

accel_status accel__phi3_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__decoder_read_window(b, c));
  ACCEL_TRY(accel__decoder_read_rope(b, c));
  if (c->rope[0].power < 0) b->model->generation.recompute_kv_above = c->rope[0].length;
  return ACCEL_OK;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__phi3_read);
}

static const char *const classes[] = {"Phi3Model", "Phi3ForCausalLM",
                                      "Phi3ForSequenceClassification", "Phi3ForTokenClassification",
                                      NULL};
const accel__architecture accel__model_phi3 = {
    .model_type = "phi3", .classes = classes, .build = build};
