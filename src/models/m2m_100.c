/* m2m_100.c - M2M100 and NLLB (transformers' M2M100Model and its generation head): computed
 * positions behind the padding token's id, norms before the layers. */
#include "models/bart.h"

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  accel__bart c = {.hidden = 1024,
                   .positions = 1024,
                   .encoder = {.layers = 12, .inner = 4096, .heads = 16, .vocab = 128112},
                   .decoder = {.layers = 12, .inner = 4096, .heads = 16},
                   .scale_words = true,
                   .shared = true,
                   .tied = true,
                   .act = {.act = ACCEL_PLUGIN_ACT_RELU},
                   .sinusoids = true,
                   .behind_pad = true,
                   .before = true,
                   .shifted = ACCEL__DEFAULT_REQUIRED,
                   .bos = 0,
                   .eos = 2,
                   .pad = 1,
                   .start = 2};
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "model."));
  return accel__bart_build(&b, &c);
}

static const char *const classes[] = {"M2M100Model", "M2M100ForConditionalGeneration", NULL};
const accel__architecture accel__model_m2m_100 = {
    .model_type = "m2m_100", .classes = classes, .build = build};
