/* language_model.h - the language model inside one that also takes pictures: any decoder of
 * decoder.h and gpt.h, chosen by its model_type. */
#ifndef ACCEL_MODELS_LANGUAGE_MODEL_H
#define ACCEL_MODELS_LANGUAGE_MODEL_H

#include "models/decoders.h"

typedef struct accel__language {
  accel__decoder *decoder; /* one of the two, the other NULL; arena memory */
  accel__gpt *gpt;
  int64_t hidden;
} accel__language;

/* Defaults and fields of the class `type` ("llama") from b->config; another type is refused by
 * name. No soft cap, factor or bias of logits: they belong to the class's own head. */
accel_status accel__language_read(accel__build *b, const char *type, accel__language *l);
/* Names of LLaVA and its kin, canonically "vision_tower.vision_model.", "multi_modal_projector." and
 * "language_model.model.": what transformers 5 writes in their places. */
void accel__language_spellings(accel__build *b);
/* Ties the vocabulary head to the embeddings where the class's own config does not. */
void accel__language_tie(accel__language *l, bool tied);
/* Inputs, layers, heads, entries.  b->see has the embedded tokens. */
accel_status accel__language_build(accel__build *b, const accel__language *l);

#endif
