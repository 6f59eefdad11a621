/* stable_diffusion.h - entries that pipelines of diffusers have alike (stable_diffusion.c). */
#ifndef ACCEL_MODELS_STABLE_DIFFUSION_H
#define ACCEL_MODELS_STABLE_DIFFUSION_H

#include "models/clip.h"
#include "models/diffusion.h"

/* The outputs that the model has listed so far become those of an entry of its own, whose inputs
 * are those from number first_input on. */
void accel__pipeline_entry(accel__build *b, const char *name, uint32_t first_input);

/* One text encoder of CLIP, as an entry over input_ids and position_ids. */
typedef struct accel__pipeline_text {
  const char *key, *entry; /* "text_encoder": its config, and in front of its tensors; "text" */
  bool states;    /* "prompt_embeds" [T,width]; and on request "clip_skip.K": the same without
                            * the last K layers */
  bool normed;    /* they are behind all layers and the final norm, else before the last layer */
  bool pooled;    /* "text_embeds" [B, width]: behind the final norm, at the text's end */
  bool projected; /* these through text_projection: [B, projection] */
} accel__pipeline_text;
/* first NULL: adds the inputs; else the encoder that did, whose inputs are this one's, too. */
accel_status accel__pipeline_text_entry(accel__build *b, const accel__pipeline_text *how,
                                        const accel__clip_tower *first, accel__clip_tower *t);

/* "decode_latents" and "encode_pixels" of the part "vae". */
accel_status accel__pipeline_autoencoder(accel__build *b);

/* Makes the inputs from number first_input on, n of them, and the output "sample" x those of the
 * entry "forward", and ends the program. */
accel_status accel__pipeline_end(accel__build *b, uint32_t first_input, uint32_t n,
                                 accel__tensor x);

#endif
