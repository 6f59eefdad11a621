/* gpt_oss.c - gpt-oss: experts behind a router with biases, scores of no key (sinks), every other
 * layer slides (transformers' GptOssModel and its heads). */
#include "models/decoders.h"

static const accel__decoder defaults = {
    .vocab = 201088,
    .hidden = 2880,
    .layers = 36,
    .heads = 64,
    .kv_heads = 8,
    .head_dim = 64,
    .inner = 2880,
    .positions = 131072,
    .eps = 1e-5,
    .theta = 150000.0,
    .bos = -1,
    .eos = -1,
    .pad = -1,
    .qkv_bias = true,
    .window = 128,
    .sinks = true,
    .rope_otherwise =
        "{\"rope_type\": \"yarn\", \"factor\": 32.0, \"beta_fast\": 32.0, \"beta_slow\": 1.0, "
        "\"truncate\": false, \"original_max_position_embeddings\": 4096}",
    .experts = {.n = 128,
                .per_token = 4,
                .softmax_chosen = true,
                .block = "mlp",
                .router = "router",
                .biases = true,
                .crosswise = true,
                .limit = 7.0},
    .act = {.act = ACCEL_PLUGIN_ACT_SWIGLU_OAI, .alpha = 1.702}};

accel_status accel__gpt_oss_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  accel__experts *e = &c->experts;
  ACCEL_TRY(accel__decoder_read(b, c));
  c->act = defaults.act; /* the class has it fixed */
  ACCEL_TRY(accel__decoder_read_attention_bias(b, c));
  const accel__field fields[] = {ACCEL_FIELD_NUMBER("swiglu_alpha", &c->act.alpha),
                                 ACCEL_FIELD_NUMBER("swiglu_limit", &e->limit)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  if (!(c->act.alpha > 0) || !(e->limit > 0))
    return accel__refuse(b, "field 'swiglu_alpha' or 'swiglu_limit' is not positive");
  ACCEL_TRY(accel__decoder_read_window(b, c));
  for (int64_t i = 0; i < c->layers; i++) c->sliding[i] = i % 2 == 0;
  ACCEL_TRY(accel__decoder_read_layer_types(b, c));
  ACCEL_TRY(accel__decoder_read_experts(b, c));
  e->inner = c->inner;
  e->normalise = false;
  for (int64_t i = 0; i < c->layers; i++) e->sparse[i] = true;
  return accel__decoder_read_rope(b, c);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__gpt_oss_read);
}

static const char *const classes[] = {"GptOssModel", "GptOssForCausalLM",
                                      "GptOssForSequenceClassification",
                                      "GptOssForTokenClassification", NULL};
const accel__architecture accel__model_gpt_oss = {
    .model_type = "gpt_oss", .classes = classes, .build = build};
