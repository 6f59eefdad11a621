/* mistral3.c - the text of Mistral Small 3.1 and later and of Ministral 3 (transformers'
 * Mistral3Model and its head), which are published with an image encoder: prompts without pictures
 * give the same numbers; pixel_values are no argument here. */
#include "modeling/vision.h"
#include "models/language_model.h"

static const accel__rename newest[] = {{"language_model.model.", "model.language_model."},
                                       {NULL, NULL}};
static const accel__rename own_head[] = {{"lm_head.", "language_model.lm_head."}, {NULL, NULL}};

static accel_status read_config(accel__build *b, accel__language *text) {
  const char *type = "mistral";
  bool tied = true;
  if (accel__json_is_null_or_absent(b->config, "text_config"))
    return accel__refuse(b, "field 'text_config' is missing");
  ACCEL_TRY(accel__enter_config(b, "text_config"));
  ACCEL_TRY(accel__json_string(b->file, b->config, "model_type", &type));
  ACCEL_TRY(accel__language_read(b, type, text));
  ACCEL_TRY(accel__enter_config(b, NULL));
  ACCEL_TRY(accel__json_bool(b->file, b->config, "tie_word_embeddings", &tied));
  accel__language_tie(text, tied);
  return ACCEL_OK;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "language_model.model."));
  accel__language text;
  b.spelling[0] = newest;
  b.spelling[1] = own_head;
  ACCEL_TRY(read_config(&b, &text));
  return accel__language_build(&b, &text);
}

static const char *const classes[] = {"Mistral3Model", "Mistral3ForConditionalGeneration", NULL};
const accel__architecture accel__model_mistral3 = {
    .model_type = "mistral3", .classes = classes, .build = build};
