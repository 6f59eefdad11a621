/* safety_checker.c - StableDiffusionSafetyChecker of diffusers: how much nearer a picture is to concepts
 * than allowed, by CLIP's embeddings of both. */
#include "models/clip.h"
#include "models/diffusion.h"

enum { CONCEPTS = 17, SPECIAL = 3 }; /* of every checker: its class has no config of them */

/* Names of transformers since 5.0, whose vision tower is a level flatter. */
static const accel__rename flat[] = {{"vision_model.vision_model.", "vision_model."}, {NULL, NULL}};

/* "<name>_scores" [B,n]: cosines of the embeddings x[B,width] and those of the concepts, less what
 * each concept allows. */
static void add_scores(accel__build *b, accel__tensor x, int64_t n, int64_t width,
                       const char *embeds, const char *weights, const char *output) {
  accel__attr attr = ACCEL_I(TRANS_B, 1);
  const accel__tensor concepts =
      accel__unit_rows(b, accel__table(b, 2, (int64_t[]){n, width}, embeds));
  accel__tensor cosines = accel__node(b->p, ACCEL_PLUGIN_OP_MATMUL, (accel__tensor[]){x, concepts},
                                      2, &attr, 1, NULL, 1);
  const accel__tensor allowed = accel__table(b, 1, &n, weights);
  accel__add_output(b, output, accel__binary(b->p, ACCEL_PLUGIN_BINARY_SUB, cosines, allowed), 0);
}

accel_status accel__safety_checker(accel__build *b, const accel__json *config, const char *scope) {
  accel__clip_tower tower = accel__clip_vision_defaults;
  int64_t width = 512;
  accel__tensor pooled;
  ACCEL_TRY(accel__json_int(b->file, config, "projection_dim", 1, ACCEL__MAX_WIDTH, &width));
  ACCEL_TRY(accel__clip_enter_of(b, config, "vision_config"));
  ACCEL_TRY(accel__clip_read(b, &tower));
  const char *inner = accel__arena_printf(b->arena, "%svision_model.vision_model.", scope);
  if (inner == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  const accel__dim dims[4] = {b->B, accel__const_dim(b->p, tower.channels),
                              accel__const_dim(b->p, tower.image.h),
                              accel__const_dim(b->p, tower.image.w)};
  b->spelling[0] = flat;
  accel__clip_vision(
      b, &tower,
      accel__add_item(b, "pixel_values", ACCEL_PLUGIN_F32, 4, dims, ACCEL__DEFAULT_REQUIRED), inner,
      &pooled);
  b->output = NULL; /* hidden states */
  b->cap_output = b->model->n_outputs = b->n_hidden = 0;
  b->scope = scope;
  accel__tensor x = accel__dense_layer(b, pooled, width, false, -1, NULL, "visual_projection");
  x = accel__unit_rows(b, x);
  add_scores(b, x, SPECIAL, width, "special_care_embeds", "special_care_embeds_weights",
             "special_scores");
  add_scores(b, x, CONCEPTS, width, "concept_embeds", "concept_embeds_weights", "concept_scores");
  return ACCEL_OK;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, ""));
  b.B = accel__symbol(b.p, "B", 1, 0, 1);
  ACCEL_TRY(accel__safety_checker(&b, b.file->root, ""));
  return accel__build_end(&b, b.output != NULL ? b.output[b.model->n_outputs - 1].tensor : -1);
}

static const char *const classes[] = {"StableDiffusionSafetyChecker", NULL};
const accel__architecture accel__model_safety_checker = {
    .model_type = "safety_checker", .classes = classes, .build = build};
