/* smollm3.c - transformers' SmolLM3Model: LLaMA's layers, every fourth without rotary positions. */
#include "models/decoders.h"

static const accel__decoder defaults = {.vocab = 128256,
                                        .hidden = 2048,
                                        .layers = 36,
                                        .heads = 16,
                                        .kv_heads = 4,
                                        .inner = 11008,
                                        .positions = 32768,
                                        .eps = 1e-6,
                                        .theta = 2000000.0,
                                        .bos = 128000,
                                        .eos = 128001,
                                        .pad = 128004,
                                        .tied = true,
                                        .qa_transformer = true,
                                        .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

/* no_rope_layers: 0 for each layer that does not turn; absent: each `interval`-th. */
static accel_status read_turning(accel__build *b, accel__decoder *c, int64_t interval) {
  const accel__json *list = NULL;
  ACCEL_TRY(accel__json_array(b->file, b->config, "no_rope_layers", &list));
  if (list != NULL && cJSON_GetArraySize(list) < c->layers)
    return accel__refuse(b, "field 'no_rope_layers' has fewer entries than there are layers");
  for (int64_t l = 0; l < c->layers; l++) c->no_rope[l] = (l + 1) % interval == 0;
  int64_t i = 0;
  ACCEL_JSON_EACH(item, list) {
    if (!cJSON_IsNumber(item) && !cJSON_IsBool(item))
      return accel__refuse(b, "field 'no_rope_layers' holds what is neither 0 nor 1");
    if (i < c->layers) c->no_rope[i++] = item->valueint == 0; /* false's, too */
  }
  return ACCEL_OK;
}

accel_status accel__smollm3_read(accel__build *b, accel__decoder *c) {
  int64_t interval = 4;
  bool slides = false; /* what layer_types says ranks over it */
  const accel__field fields[] = {
      ACCEL_FIELD_BOOL("mlp_bias", &c->mlp_bias), ACCEL_FIELD_BOOL("use_sliding_window", &slides),
      ACCEL_FIELD_INT("no_rope_layer_interval", &interval, 1, ACCEL__MAX_LAYERS)};
  *c = defaults;
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__decoder_read_attention_bias(b, c));
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(read_turning(b, c, interval));
  ACCEL_TRY(accel__decoder_read_window(b, c));
  for (int64_t i = 0; i < c->layers; i++) c->sliding[i] = slides && c->no_rope[i];
  ACCEL_TRY(accel__decoder_read_layer_types(b, c));
  return accel__decoder_read_rope(b, c);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__smollm3_read);
}

static const char *const classes[] = {ACCEL_CAUSAL_CLASSES("SmolLM3"), NULL};
const accel__architecture accel__model_smollm3 = {
    .model_type = "smollm3", .classes = classes, .build = build};
