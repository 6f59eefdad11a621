/* qwen2_moe.c - Qwen1.5-MoE and Qwen2-MoE: experts beside a shared one (transformers' Qwen2MoeModel
 * and its heads). */
#include "models/decoders.h"

static const accel__decoder defaults = {
    .vocab = 151936,
    .hidden = 2048,
    .layers = 24,
    .heads = 16,
    .kv_heads = 16,
    .inner = 5632,
    .positions = 32768,
    .eps = 1e-6,
    .theta = 10000.0,
    .bos = -1,
    .eos = -1,
    .pad = -1,
    .qkv_bias = true,
    .window = 4096,
    .experts = {.n = 60, .per_token = 4, .inner = 1408, .shared = 5632},
    .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

accel_status accel__qwen2_moe_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  int64_t below = 28;
  ACCEL_TRY(accel__decoder_read(b, c));
  const accel__field fields[] = {
      ACCEL_FIELD_BOOL("qkv_bias", &c->qkv_bias),
      ACCEL_FIELD_INT("max_window_layers", &below, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("shared_expert_intermediate_size", &c->experts.shared, 1, ACCEL__MAX_WIDTH),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__decoder_read_switched_window(b, c));
  for (int64_t i = 0; i < c->layers; i++) c->sliding[i] = (i + 1) % 2 != 0 && i < below;
  ACCEL_TRY(accel__decoder_read_layer_types(b, c));
  ACCEL_TRY(accel__decoder_read_rope(b, c));
  ACCEL_TRY(accel__decoder_read_experts(b, c));
  return ACCEL_OK;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__qwen2_moe_read);
}

static const char *const classes[] = {ACCEL_CAUSAL_CLASSES("Qwen2Moe"), NULL};
const accel__architecture accel__model_qwen2_moe = {
    .model_type = "qwen2_moe", .classes = classes, .build = build};
