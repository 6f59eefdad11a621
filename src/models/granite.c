/* granite.c - Granite 3 and 4 without Mamba: LLaMA's layers with factors on embeddings, scores,
 * residuals and logits (transformers' GraniteModel and its head). */
#include "models/granite.h"

static const accel__decoder defaults = {.vocab = 32000,
                                        .hidden = 4096,
                                        .layers = 32,
                                        .heads = 32,
                                        .inner = 11008,
                                        .positions = 2048,
                                        .eps = 1e-6,
                                        .theta = 10000.0,
                                        .bos = 1,
                                        .eos = 2,
                                        .pad = -1,
                                        .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

accel_status accel__granite_read_factors(accel__build *b, accel__decoder *c) {
  double divisor = 1.0;
  c->input_scale = c->score_scale = c->residual_scale = 1.0;
  const accel__field fields[] = {
      ACCEL_FIELD_NUMBER("embedding_multiplier", &c->input_scale),
      ACCEL_FIELD_NUMBER("attention_multiplier", &c->score_scale),
      ACCEL_FIELD_NUMBER("residual_multiplier", &c->residual_scale),
      ACCEL_FIELD_NUMBER("logits_scaling", &divisor),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__decoder_read_attention_bias(b, c));
  if (!(divisor > 0) || c->input_scale == 0 || c->score_scale == 0 || c->residual_scale == 0)
    return accel__refuse(
        b,
        "field 'logits_scaling', 'embedding_multiplier', 'attention_multiplier' or "
        "'residual_multiplier' is out of range");
  if (c->residual_scale == 1.0) c->residual_scale = 0;
  c->logit_scale = 1.0 / divisor;
  return ACCEL_OK;
}

accel_status accel__granite_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__granite_read_factors(b, c));
  ACCEL_TRY(accel__json_bool(b->file, b->config, "mlp_bias", &c->mlp_bias));
  return accel__decoder_read_rope(b, c);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__granite_read);
}

static const char *const classes[] = {"GraniteModel", "GraniteForCausalLM", NULL};
const accel__architecture accel__model_granite = {
    .model_type = "granite", .classes = classes, .build = build};
