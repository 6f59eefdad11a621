/* mbart.c - mBART (transformers' MBartModel and its heads): BART with norms before the layers. */
#include "models/bart.h"

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  accel__bart c = {.hidden = 1024,
                   .positions = 1024,
                   .encoder = {.layers = 12, .inner = 4096, .heads = 16, .vocab = 50265},
                   .decoder = {.layers = 12, .inner = 4096, .heads = 16},
                   .shared = true,
                   .tied = true,
                   .act = {.act = ACCEL_PLUGIN_ACT_GELU},
                   .words_norm = true,
                   .before = true,
                   .shifted = ACCEL__DEFAULT_WRAPPED,
                   .bos = 0,
                   .eos = 2,
                   .pad = 1,
                   .start = -1};
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "model."));
  return accel__bart_build(&b, &c);
}

static const char *const classes[] = {"MBartModel", "MBartForConditionalGeneration",
                                      "MBartForSequenceClassification", "MBartForQuestionAnswering",
                                      NULL};
const accel__architecture accel__model_mbart = {
    .model_type = "mbart", .classes = classes, .build = build};
