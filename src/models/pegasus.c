/* pegasus.c - Pegasus (transformers' PegasusModel and its generation head): computed positions,
 * norms before the layers. */
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
                   .sinusoids = true,
                   .before = true,
                   .shifted = ACCEL__DEFAULT_REQUIRED,
                   .bos = -1,
                   .eos = 1,
                   .pad = 0,
                   .start = 0};
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "model."));
  return accel__bart_build(&b, &c);
}

static const char *const classes[] = {"PegasusModel", "PegasusForConditionalGeneration", NULL};
const accel__architecture accel__model_pegasus = {
    .model_type = "pegasus", .classes = classes, .build = build};
