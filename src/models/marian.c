/* marian.c - Marian's translation models (transformers' MarianModel and MarianMTModel): BART with
 * computed positions. */
#include "models/bart.h"

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  accel__bart c = {.hidden = 1024,
                   .positions = 1024,
                   .encoder = {.layers = 12, .inner = 4096, .heads = 16, .vocab = 58101},
                   .decoder = {.layers = 12, .inner = 4096, .heads = 16},
                   .shared = true,
                   .tied = true,
                   .act = {.act = ACCEL_PLUGIN_ACT_GELU},
                   .sinusoids = true,
                   .shifted = ACCEL__DEFAULT_REQUIRED,
                   .bos = -1,
                   .eos = 0,
                   .pad = 58100,
                   .start = 58100};
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "model."));
  return accel__bart_build(&b, &c);
}

static const char *const classes[] = {"MarianModel", "MarianMTModel", NULL};
const accel__architecture accel__model_marian = {
    .model_type = "marian", .classes = classes, .build = build};
