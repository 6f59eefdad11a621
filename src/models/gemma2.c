/* gemma2.c - Gemma 2 (transformers' Gemma2Model and its heads): norms around attention and MLP,
 * soft caps, every other layer slides. */
#include <math.h>

#include "models/gemma.h"

accel_status accel__gemma_read_rest(accel__build *b, accel__decoder *c) {
  double before = 256.0;
  const accel__field fields[] = {
      ACCEL_FIELD_NUMBER("query_pre_attn_scalar", &before),
      ACCEL_FIELD_NUMBER("attn_logit_softcapping", &c->softcap),
      ACCEL_FIELD_NUMBER("final_logit_softcapping", &c->logit_softcap),
      ACCEL_FIELD_BOOL("use_bidirectional_attention", &c->bidirectional),
  };
  const char *const caps[] = {"attn_logit_softcapping", "final_logit_softcapping"};
  for (int i = 0; i < 2; i++) /* null switches a cap off */
    if (cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(b->config, caps[i])))
      *(i == 0 ? &c->softcap : &c->logit_softcap) = 0;
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__decoder_read_attention_bias(b, c));
  if (!(before > 0) || c->softcap < 0 || c->logit_softcap < 0)
    return accel__refuse(b, "field 'query_pre_attn_scalar' or a soft cap is out of range");
  c->score_scale = 1.0 / sqrt(before);
  c->embed_scale = (double)(float)sqrt((double)c->hidden);
  return ACCEL_OK;
}

static const accel__decoder defaults = {.vocab = 256000,
                                        .positions = 8192,
                                        .theta = 10000.0,
                                        .softcap = 50.0,
                                        .logit_softcap = 30.0,
                                        ACCEL_GEMMA_DEFAULTS};

accel_status accel__gemma2_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__gemma_read_rest(b, c));
  if (b->images.blocks) c->bidirectional = false; /* PaliGemma: the prefix alone */
  if (c->bidirectional)
    return accel__refuse(b, "field 'use_bidirectional_attention': true is not supported");
  ACCEL_TRY(accel__decoder_read_window(b, c));
  for (int64_t i = 0; i < c->layers; i++) c->sliding[i] = (i + 1) % 2 != 0;
  ACCEL_TRY(accel__decoder_read_layer_types(b, c));
  ACCEL_TRY(accel__decoder_read_rope(b, c));
  return ACCEL_OK;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__gemma2_read);
}

static const char *const classes[] = {"Gemma2Model", "Gemma2ForCausalLM",
                                      "Gemma2ForSequenceClassification",
                                      "Gemma2ForTokenClassification", NULL};
const accel__architecture accel__model_gemma2 = {
    .model_type = "gemma2", .classes = classes, .build = build};
