/* gemma3.c - the text model of Gemma 3 and EmbeddingGemma (transformers' Gemma3TextModel and its
 * heads). */
#include "models/gemma.h"

/* rope_parameters with an object for each layer type (new); or rope_theta and rope_scaling of full
 * layers and rope_local_base_freq of sliding ones (old). */
static accel_status read_ropes(accel__build *b, accel__decoder *c) {
  const accel__json *all = NULL, *scaling = NULL, *own[2] = {NULL, NULL};
  double theta[2] = {1000000.0, 10000.0};
  ACCEL_TRY(accel__json_object(b->file, b->config, "rope_parameters", &all));
  ACCEL_TRY(accel__json_object(b->file, b->config, "rope_scaling", &scaling));
  ACCEL_TRY(accel__json_number(b->file, b->config, "rope_theta", &theta[0]));
  ACCEL_TRY(accel__json_number(b->file, b->config, "rope_local_base_freq", &theta[1]));
  ACCEL_TRY(accel__json_object(b->file, all, "full_attention", &own[0]));
  ACCEL_TRY(accel__json_object(b->file, all, "sliding_attention", &own[1]));
  if (scaling != NULL) {
    if (own[0] != NULL) ACCEL_TRY(accel__json_number(b->file, own[0], "rope_theta", &theta[0]));
    own[0] = scaling;
  }
  c->two_ropes = true;
  for (int i = 0; i < 2; i++)
    ACCEL_TRY(accel__rope_read(b, own[i], theta[i], 1.0, c->head_dim, c->positions,
                               i == 0 ? "rope.full" : "rope.sliding", &c->rope[i]));
  return ACCEL_OK;
}

static const accel__decoder defaults = {
    .vocab = 262208, .positions = 131072, .qk_norm = true, ACCEL_GEMMA_DEFAULTS};

accel_status accel__gemma3_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  int64_t pattern = 6;
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__gemma_read(b, c));
  c->softcap = 0; /* read by the class, used by none of its layers */
  ACCEL_TRY(accel__decoder_read_window(b, c));
  /* tokens to either side, the token itself counted */
  if (c->bidirectional) c->window = c->window / 2 + 1;
  ACCEL_TRY(accel__json_int(b->file, b->config, "sliding_window_pattern", 1, ACCEL__MAX_LAYERS,
                            &pattern));
  for (int64_t i = 0; i < c->layers; i++) c->sliding[i] = (i + 1) % pattern != 0;
  ACCEL_TRY(accel__decoder_read_layer_types(b, c));
  ACCEL_TRY(read_ropes(b, c));
  return ACCEL_OK;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__gemma3_read);
}

static const char *const classes[] = {"Gemma3TextModel", "Gemma3ForCausalLM",
                                      "Gemma3TextForSequenceClassification", NULL};
const accel__architecture accel__model_gemma3 = {
    .model_type = "gemma3_text", .classes = classes, .build = build};
