/* ministral3.c - Ministral 3, and the text of Mistral 3 of late 2025: Mistral whose queries grow with
 * their position (transformers' Ministral3Model and its heads). */
#include "models/decoders.h"

static const accel__decoder defaults = {
    .vocab = 131072,
    .hidden = 4096,
    .layers = 34,
    .heads = 32,
    .kv_heads = 8,
    .head_dim = 128,
    .inner = 14336,
    .positions = 262144,
    .eps = 1e-5,
    .theta = 10000.0,
    .bos = 1,
    .eos = 2,
    .pad = 11,
    .rope_otherwise =
        "{\"type\": \"yarn\", \"rope_theta\": 1000000.0, \"factor\": 16.0, "
        "\"original_max_position_embeddings\": 16384, \"beta_fast\": 32.0, \"beta_slow\": 1.0, "
        "\"mscale\": 1.0, \"mscale_all_dim\": 1.0, \"llama_4_scaling_beta\": 0.1}",
    .scales_queries = true,
    .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

accel_status accel__ministral3_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__decoder_read_window(b, c));
  return accel__decoder_read_rope(b, c);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__ministral3_read);
}

static const char *const classes[] = {ACCEL_CAUSAL_CLASSES("Ministral3"), NULL};
const accel__architecture accel__model_ministral3 = {
    .model_type = "ministral3", .classes = classes, .build = build};
