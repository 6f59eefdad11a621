/* cohere2.c - Command R7B, Command A and Aya Expanse's successors: Cohere with three sliding layers
 * of four; the others do not turn (transformers' Cohere2Model and its head). */
#include "models/cohere.h"

accel_status accel__cohere2_read(accel__build *b, accel__decoder *c) {
  int64_t pattern = 4;
  *c = accel__cohere_defaults;
  c->theta = 10000.0;
  c->window = 4096;
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__decoder_read_window(b, c));
  ACCEL_TRY(accel__json_int(b->file, b->config, "sliding_window_pattern", 1, ACCEL__MAX_LAYERS,
                            &pattern));
  for (int64_t i = 0; i < c->layers; i++) c->sliding[i] = (i + 1) % pattern != 0;
  ACCEL_TRY(accel__decoder_read_layer_types(b, c));
  for (int64_t i = 0; i < c->layers; i++) c->no_rope[i] = !c->sliding[i] || c->window == 0;
  return accel__cohere_read_rest(b, c);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__cohere2_read);
}

static const char *const classes[] = {"Cohere2Model", "Cohere2ForCausalLM", NULL};
const accel__architecture accel__model_cohere2 = {
    .model_type = "cohere2", .classes = classes, .build = build};
