/* qwen3_next.c - Qwen3-Next: Gated DeltaNet in most layers, gated attention in the others, experts
 * beside a shared one (transformers' Qwen3NextModel and its heads).  Weights of the next tokens'
 * head (mtp.*) are left aside, as transformers leaves them. */
#include "models/decoders.h"

static const accel__decoder defaults = {
    .vocab = 151936,
    .hidden = 2048,
    .layers = 48,
    .heads = 16,
    .kv_heads = 2,
    .head_dim = 256,
    .inner = 5632,
    .positions = 32768,
    .eps = 1e-6,
    .theta = 10000.0,
    .partial = 0.25,
    .bos = -1,
    .eos = -1,
    .pad = -1,
    .gated = true,
    .gamma_offset = 1.0,
    .qk_norm = ACCEL__QK_NORM_HEADS,
    .qa_transformer = true,
    .experts = {.n = 512, .per_token = 10, .inner = 512, .shared = 512, .normalise = true},
    .delta = {.heads = 16, .v_heads = 32, .k_dim = 128, .v_dim = 128, .kernel = 4},
    .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

accel_status accel__qwen3_next_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__decoder_read_attention_bias(b, c));
  ACCEL_TRY(accel__json_int(b->file, b->config, "shared_expert_intermediate_size", 0,
                            ACCEL__MAX_WIDTH, &c->experts.shared));
  ACCEL_TRY(accel__decoder_read_delta(b, c));
  ACCEL_TRY(accel__decoder_read_rope(b, c));
  return accel__decoder_read_experts(b, c);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__qwen3_next_read);
}

static const char *const classes[] = {ACCEL_CAUSAL_CLASSES("Qwen3Next"), NULL};
const accel__architecture accel__model_qwen3_next = {
    .model_type = "qwen3_next", .classes = classes, .build = build};
