/* clip.h - the two towers of CLIP, as CLIP, SigLIP, X-CLIP and the multimodal models use them. */
#ifndef ACCEL_MODELS_CLIP_H
#define ACCEL_MODELS_CLIP_H

#include "modeling/vision.h"

typedef struct accel__clip_tower {
  /* eos -1: none in the config */
  int64_t hidden, layers, heads, inner, projection, channels, vocab, positions, eos;
  double eps;
  accel__size2 image, patch;
  accel__activation act;
  bool pooling_head;  /* SigLIP: the attention pooling behind the vision tower */
  accel__block block; /* as read */
  accel__dim rows;    /* of an item, once built (vision) */
} accel__clip_tower;

extern const accel__clip_tower accel__clip_text_defaults;   /* of CLIPTextConfig */
extern const accel__clip_tower accel__clip_vision_defaults; /* of CLIPVisionConfig */
/* The fields of a tower from b->config on top of what *t holds. */
accel_status accel__clip_read(accel__build *b, accel__clip_tower *t);
/* Enters `<key>_dict` or `key` of config.json, or its root when it has neither (the config of that
 * tower alone). */
accel_status accel__clip_enter(accel__build *b, const char *key);
/* The same of the config `whole`, which lies in config.json. */
accel_status accel__clip_enter_of(accel__build *b, const accel__json *whole, const char *key);
/* encoder.layers.N over rows x; lists hidden_states (packed rows, or items of t->rows). */
accel__tensor accel__clip_layers(accel__build *b, const accel__clip_tower *t, accel__tensor x);
/* pixel_values to patch rows with positions: class token first when `cls` (below embeddings.); sets
 * t->rows and b->space. */
accel__tensor accel__clip_patches(accel__build *b, accel__clip_tower *t, accel__tensor pixels,
                                  bool cls, bool bias);
/* CLIP's vision tower over pixels [B,C,H,W], with its names below `scope`: the rows of the last
 * layer, and *pooled [B, hidden], the class token's behind the last norm. */
accel__tensor accel__clip_vision(accel__build *b, accel__clip_tower *t, accel__tensor pixels,
                                 const char *scope, accel__tensor *pooled);
/* Rows [T, hidden] of the input_ids and position_ids that are there. */
accel__tensor accel__clip_embed(accel__build *b, const accel__clip_tower *t);
/* Adds these inputs, and gives their rows. */
accel__tensor accel__clip_tokens(accel__build *b, const accel__clip_tower *t);
/* The row of each text's end token: where input_ids is eos first, or, with eos 2 as old configs
 * have it, largest. */
accel__tensor accel__clip_end_rows(accel__build *b, const accel__clip_tower *t, accel__tensor x);
/* text_embeds and image_embeds (normalised here), logits_per_text = text image^T exp(logit_scale) +
 * logit_bias, and its transpose. */
void accel__clip_outputs(accel__build *b, accel__tensor text, accel__tensor image, bool bias);
extern const accel__rename accel__clip_vision_alone[],
    accel__clip_text_alone[]; /* "vision_model." left off, "text_model." left off */

#endif
