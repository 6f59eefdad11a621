/* qwen3.c - Qwen3: LLaMA's layers with normalised heads of q and k (transformers' Qwen3Model and
 * its heads). */
#include "models/decoders.h"

static const accel__decoder defaults = {.vocab = 151936,
                                        .hidden = 4096,
                                        .layers = 32,
                                        .heads = 32,
                                        .kv_heads = 32,
                                        .head_dim = 128,
                                        .inner = 22016,
                                        .positions = 32768,
                                        .eps = 1e-6,
                                        .theta = 10000.0,
                                        .bos = -1,
                                        .eos = -1,
                                        .pad = -1,
                                        .window = 4096,
                                        .qk_norm = ACCEL__QK_NORM_HEADS,
                                        .qa_transformer = true,
                                        .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

accel_status accel__qwen3_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__decoder_read_attention_bias(b, c));
  ACCEL_TRY(accel__decoder_read_upper_window(b, c, 28));
  ACCEL_TRY(accel__decoder_read_rope(b, c));
  return ACCEL_OK;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__qwen3_read);
}

static const char *const classes[] = {ACCEL_CAUSAL_CLASSES("Qwen3"), NULL};
const accel__architecture accel__model_qwen3 = {
    .model_type = "qwen3", .classes = classes, .build = build};
