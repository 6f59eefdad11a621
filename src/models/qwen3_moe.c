/* qwen3_moe.c - Qwen3-MoE: Qwen3 with experts (transformers' Qwen3MoeModel and its heads). */
#include "models/decoders.h"

static const accel__decoder defaults = {.vocab = 151936,
                                        .hidden = 2048,
                                        .layers = 24,
                                        .heads = 32,
                                        .kv_heads = 4,
                                        .inner = 6144,
                                        .positions = 32768,
                                        .eps = 1e-6,
                                        .theta = 10000.0,
                                        .bos = -1,
                                        .eos = -1,
                                        .pad = -1,
                                        .qk_norm = ACCEL__QK_NORM_HEADS,
                                        .qa_transformer = true,
                                        .window = 4096,
                                        .experts = {.n = 128, .per_token = 8, .inner = 768},
                                        .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

accel_status accel__qwen3_moe_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__decoder_read_attention_bias(b, c));
  ACCEL_TRY(accel__decoder_read_switched_window(b, c));
  ACCEL_TRY(accel__decoder_read_rope(b, c));
  ACCEL_TRY(accel__decoder_read_experts(b, c));
  return ACCEL_OK;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__qwen3_moe_read);
}

static const char *const classes[] = {ACCEL_CAUSAL_CLASSES("Qwen3Moe"), NULL};
const accel__architecture accel__model_qwen3_moe = {
    .model_type = "qwen3_moe", .classes = classes, .build = build};
