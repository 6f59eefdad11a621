/* cohere2.c - Command R7B, Command A and Aya Expanse's successors: Cohere with three sliding layers
 * of four; the others do not turn (transformers' Cohere2Model and its head). */
#include "models/cohere.h"

static const accel__decoder defaults = {.vocab = 256000,
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
                                        .theta = 10000.0,
                                        .window = 4096,
                                        .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

accel_status accel__cohere2_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  int64_t pattern = 4;
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
