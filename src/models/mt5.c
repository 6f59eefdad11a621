/* mt5.c - mT5 (transformers' MT5Model and its heads): T5 v1.1 with another vocabulary. */
#include "models/t5.h"

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  accel__t5 c = {.vocab = 250112,
                 .hidden = 512,
                 .head_dim = 64,
                 .inner = 1024,
                 .layers = 8,
                 .heads = 6,
                 .buckets = 32,
                 .distance = 128,
                 .eps = 1e-6,
                 .feed_forward = "gated-gelu",
                 .start = 0};
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, ""));
  return accel__t5_build(&b, &c);
}

static const char *const classes[] = {"MT5Model",
                                      "MT5ForConditionalGeneration",
                                      "MT5EncoderModel",
                                      "MT5ForSequenceClassification",
                                      "MT5ForTokenClassification",
                                      "MT5ForQuestionAnswering",
                                      NULL};
const accel__architecture accel__model_mt5 = {
    .model_type = "mt5", .classes = classes, .embed_class = "MT5EncoderModel", .build = build};
