/* cohere.c - Command R and Aya 23: one layer norm before attention and MLP side by side, pairs of
 * neighbours turn (transformers' CohereModel and its head). */
#include "models/cohere.h"

const accel__decoder accel__cohere_defaults = {.vocab = 256000,
                                               .hidden = 8192,
                                               .layers = 40,
                                               .heads = 64,
                                               .inner = 22528,
                                               .positions = 8192,
                                               .eps = 1e-5,
                                               .eps_key = "layer_norm_eps",
                                               .bos = 5,
                                               .eos = 255001,
                                               .pad = 0,
                                               .tied = true,
                                               .parallel = true,
                                               .norm = ACCEL__NORM_LAYER_SCALED,
                                               .logit_scale = 0.0625,
                                               .theta = 500000.0,
                                               .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

accel_status accel__cohere_read_rest(accel__build *b, accel__decoder *c) {
  ACCEL_TRY(accel__decoder_read_attention_bias(b, c));
  ACCEL_TRY(accel__json_number(b->file, b->config, "logit_scale", &c->logit_scale));
  if (c->logit_scale == 0) return accel__refuse(b, "field 'logit_scale' is 0");
  ACCEL_TRY(accel__decoder_read_rope(b, c));
  c->rope[0].style = ACCEL_PLUGIN_ROPE_INTERLEAVED;
  return ACCEL_OK;
}

accel_status accel__cohere_read(accel__build *b, accel__decoder *c) {
  *c = accel__cohere_defaults;
  bool normed = false;
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__json_bool(b->file, b->config, "use_qk_norm", &normed));
  if (normed) c->qk_norm = ACCEL__QK_NORM_APART;
  return accel__cohere_read_rest(b, c);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__cohere_read);
}

static const char *const classes[] = {"CohereModel", "CohereForCausalLM", NULL};
const accel__architecture accel__model_cohere = {
    .model_type = "cohere", .classes = classes, .build = build};
