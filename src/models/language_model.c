/* language_model.c - decoders by the model_type of a text_config. */
#include "models/language_model.h"

#include <stdio.h>
#include <string.h>

static accel_status read_decoder(accel__build *b, accel__language *l,
                                 accel_status (*read)(accel__build *, accel__decoder *)) {
  if ((l->decoder = accel__arena_alloc(b->arena, sizeof *l->decoder)) == NULL)
    return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(read(b, l->decoder));
  l->decoder->logit_softcap = 0;
  l->decoder->logit_scale = 0;
  l->hidden = l->decoder->hidden;
  return ACCEL_OK;
}

static accel_status read_gpt(accel__build *b, accel__language *l,
                             accel_status (*read)(accel__build *, accel__gpt *)) {
  if ((l->gpt = accel__arena_alloc(b->arena, sizeof *l->gpt)) == NULL)
    return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(read(b, l->gpt));
  l->gpt->head_bias = NULL;
  l->hidden = l->gpt->hidden;
  if (l->gpt->embedding != 0 && l->gpt->embedding != l->hidden)
    return accel__refuse(b,
                         "field 'text_config.word_embed_proj_dim' differs from hidden_size: "
                         "pictures have no such rows");
  return ACCEL_OK;
}

static const struct decoder_row {
  const char *type;
  accel_status (*decoder)(accel__build *b, accel__decoder *c);
  accel_status (*gpt)(accel__build *b, accel__gpt *c);
} decoders[] = {
#define ACCEL_MODEL(file, type)
#define ACCEL_DECODER(file, type) {type, accel__##file##_read, NULL},
#define ACCEL_GPT(file, type)     {type, NULL, accel__##file##_read},
#include "models/models.def"
#undef ACCEL_MODEL
#undef ACCEL_DECODER
#undef ACCEL_GPT
};
enum { N_DECODERS = sizeof decoders / sizeof *decoders };

accel_status accel__language_read(accel__build *b, const char *type, accel__language *l) {
  char known[700] = "";
  size_t used = 0;
  *l = (accel__language){0};
  for (size_t i = 0; i < N_DECODERS; i++) {
    if (strcmp(decoders[i].type, type) == 0)
      return decoders[i].gpt != NULL ? read_gpt(b, l, decoders[i].gpt)
                                     : read_decoder(b, l, decoders[i].decoder);
    if (used < sizeof known)
      used += (size_t)snprintf(known + used, sizeof known - used, i == 0 ? "%s" : ", %s",
                               decoders[i].type);
  }
  return accel__refuse(b, "field 'text_config.model_type': '%s' is not supported; known: %s", type,
                       known);
}

static const accel__rename newest[] = {{"vision_tower.vision_model.", "model.vision_tower."},
                                       {"multi_modal_projector.", "model.multi_modal_projector."},
                                       {"language_model.model.", "model.language_model."},
                                       {"image_newline", "model.image_newline"},
                                       {NULL, NULL}};
static const accel__rename short_tower[] = {{"vision_tower.vision_model.", "vision_tower."},
                                            {NULL, NULL}};
static const accel__rename newer[] = {{"vision_tower.", "model.vision_tower."},
                                      {"lm_head.", "language_model.lm_head."},
                                      {NULL, NULL}};

void accel__language_spellings(accel__build *b) {
  b->spelling[0] = newest;
  b->spelling[1] = newer;
  b->spelling[2] = short_tower;
}

void accel__language_tie(accel__language *l, bool tied) {
  bool *own = l->gpt != NULL ? &l->gpt->tied : &l->decoder->tied;
  *own = *own || tied;
}

accel_status accel__language_build(accel__build *b, const accel__language *l) {
  return l->gpt != NULL ? accel__gpt_build(b, l->gpt) : accel__decoder_build(b, l->decoder);
}
