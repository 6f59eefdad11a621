/* gemma3.c - the text model of Gemma 3 and EmbeddingGemma (transformers' Gemma3TextModel and its
 * heads). */
#include "models/gemma.h"

static const accel__decoder defaults = {
    .vocab = 262208, .positions = 131072, .qk_norm = ACCEL__QK_NORM_HEADS, ACCEL_GEMMA_DEFAULTS};

accel_status accel__gemma3_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  int64_t pattern = 6;
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__gemma_read_rest(b, c));
  c->softcap = 0; /* read by the class, used by none of its layers */
  ACCEL_TRY(accel__decoder_read_window(b, c));
  /* tokens to either side, the token itself counted */
  if (c->bidirectional) c->window = c->window / 2 + 1;
  ACCEL_TRY(accel__json_int(b->file, b->config, "sliding_window_pattern", 1, ACCEL__MAX_LAYERS,
                            &pattern));
  for (int64_t i = 0; i < c->layers; i++) c->sliding[i] = (i + 1) % pattern != 0;
  ACCEL_TRY(accel__decoder_read_layer_types(b, c));
  return accel__decoder_read_two_ropes(b, c, 1000000.0, 10000.0, "rope_local_base_freq");
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__gemma3_read);
}

static const char *const classes[] = {"Gemma3TextModel", "Gemma3ForCausalLM",
                                      "Gemma3TextForSequenceClassification", NULL};
const accel__architecture accel__model_gemma3 = {
    .model_type = "gemma3_text", .classes = classes, .build = build};
