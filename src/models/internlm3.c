/* internlm3.c - InternLM3: LLaMA's layers, whose biases its configs call bias and qkv_bias
 * (transformers' InternLM3Config, which LlamaModel runs). */
#include "models/decoders.h"

static const accel__decoder defaults = {.vocab = 128512,
                                        .hidden = 4096,
                                        .layers = 48,
                                        .heads = 32,
                                        .kv_heads = 2,
                                        .head_dim = 128,
                                        .inner = 10240,
                                        .positions = 32768,
                                        .eps = 1e-5,
                                        .theta = 10000.0,
                                        .bos = 1,
                                        .eos = 2,
                                        .pad = 2,
                                        .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

accel_status accel__internlm3_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  ACCEL_TRY(accel__decoder_read(b, c));
  const accel__field fields[] = {
      ACCEL_FIELD_BOOL("attention_bias", &c->qkv_bias), ACCEL_FIELD_BOOL("qkv_bias", &c->qkv_bias),
      ACCEL_FIELD_BOOL("mlp_bias", &c->mlp_bias), ACCEL_FIELD_BOOL("bias", &c->mlp_bias)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  /* q, k and v go by qkv_bias, everything else by bias; the class that runs it knows one of them */
  c->o_bias = c->mlp_bias;
  return accel__decoder_read_rope(b, c);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__internlm3_read);
}

static const char *const classes[] = {"InternLM3Model", "InternLM3ForCausalLM", NULL};
const accel__architecture accel__model_internlm3 = {
    .model_type = "internlm3", .classes = classes, .build = build};
