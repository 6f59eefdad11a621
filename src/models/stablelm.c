/* stablelm.c - StableLM: LLaMA's layers with layer norms, a quarter of each head turns
 * (transformers' StableLmModel and its heads). */
#include "models/decoders.h"

static const accel__decoder defaults = {.vocab = 50304,
                                        .hidden = 2560,
                                        .layers = 32,
                                        .heads = 32,
                                        .kv_heads = 32,
                                        .inner = 6912,
                                        .positions = 4096,
                                        .eps = 1e-5,
                                        .eps_key = "layer_norm_eps",
                                        .theta = 10000.0,
                                        .partial = 0.25,
                                        .bos = 0,
                                        .eos = 0,
                                        .pad = -1,
                                        .even_heads = true,
                                        .norm = ACCEL__NORM_LAYER,
                                        .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

accel_status accel__stablelm_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  bool normed = false;
  ACCEL_TRY(accel__decoder_read(b, c));
  const accel__field fields[] = {ACCEL_FIELD_BOOL("use_qkv_bias", &c->qkv_bias),
                                 ACCEL_FIELD_BOOL("qk_layernorm", &normed),
                                 ACCEL_FIELD_BOOL("use_parallel_residual", &c->parallel)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  if (normed) c->qk_norm = ACCEL__QK_NORM_LISTED;
  return accel__decoder_read_rope(b, c);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__stablelm_read);
}

static const char *const classes[] = {"StableLmModel", "StableLmForCausalLM",
                                      "StableLmForSequenceClassification",
                                      "StableLmForTokenClassification", NULL};
const accel__architecture accel__model_stablelm = {
    .model_type = "stablelm", .classes = classes, .build = build};
