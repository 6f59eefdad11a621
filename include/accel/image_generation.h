/**
 * @file image_generation.h
 * Pictures from texts, from texts and a picture, and from noise alone: pipelines of diffusers
 * (Stable Diffusion, SD 3, Flux, DDPM).
 *
 * Include accel/accel.h, which includes this file.  A model is a directory with model_index.json and
 * a folder for each part, as diffusers saves it.  The same prompt, seed and settings give the
 * picture that diffusers' pipeline gives with a torch.Generator of the CPU.
 */
#ifndef ACCEL_IMAGE_GENERATION_H
#define ACCEL_IMAGE_GENERATION_H

#include "accel/media_tasks.h"

#ifdef __cplusplus
extern "C" {
#endif

/** One picture that was made. */
typedef struct accel_generated_image {
  uint32_t width;     /**< in pixels */
  uint32_t height;    /**< in pixels */
  const uint8_t *rgb; /**< [height, width, 3] */
  uint32_t prompt;    /**< number of its prompt */
  uint64_t seed;      /**< of its generator; several pictures of one seed share the generator */
  /** The safety checker's verdict: 1: the picture was flagged, and is black; 0: it was not; -1: the
   *  pipeline has no checker. */
  int32_t flagged;
  uint32_t reserved; /**< 0 */
  /** How it was made, as accel_generated_image_write() writes it beside the pixels: the prompt, "Negative
   *  prompt: ..." where there is one, and a line of settings, "Steps: 20, Sampler: ...". */
  const char *parameters;
} accel_generated_image;

/** Pictures, those of the first prompt first. */
typedef struct accel_generated_images {
  uint32_t n;                         /**< pictures */
  const accel_generated_image *image; /**< [n] */
  const char *scheduler;              /**< class of the scheduler: "EulerDiscreteScheduler" */
  uint32_t steps; /**< runs of the model; some schedulers make more than asked */
} accel_generated_images;

/** Told after each step, from the calling thread: `step` of `steps` are done; latents
 *  [n_latents], valid during the call, are those of all pictures.  Nonzero ends the call with
 *  ACCEL_ERROR_CANCELLED. */
typedef int (*accel_image_step_fn)(void *user, uint32_t step, uint32_t steps, const float *latents,
                                   uint64_t n_latents);

/** How pictures are made; names are those of diffusers' pipelines. */
typedef struct accel_text_to_image_params {
  /** sizeof(accel_text_to_image_params). */
  uint32_t size;
  /** num_inference_steps: 1 to the scheduler's training steps.  0: 50, of latent consistency models
   *  4, of Flux, and of SD 3 without `image`, 28, of DDPMPipeline 1000. */
  uint32_t steps;
  /** Sides in pixels, multiples of 8, of SD 3 and Flux of 16.  0: what the model was made for. */
  uint32_t width;
  /** As width. */
  uint32_t height;
  /** num_images_per_prompt, without texts batch_size; at least 1. */
  uint32_t images_per_prompt;
  /** Layers of the text encoder that are left out at its end. */
  uint32_t clip_skip;
  /** How much more the prompt counts than the negative prompt; up to 1: there is no guidance.  NaN:
   *  7.5, of SDXL 5, of latent consistency models 8.5, of SD 3 7, of Flux 3.5, with `image` 7.  Flux
   *  is told the number (guidance_embeds of its transformer) or does without; its negative prompt
   *  counts by true_cfg_scale. */
  double guidance_scale;
  /** 0 to 1: how far the guided answer is brought back to the spread of the unguided one. */
  double guidance_rescale;
  /** Of the schedulers DDIM and TCD: share of noise that is added at each step. */
  double eta;
  /** Of one generator for all pictures. */
  uint64_t seed;
  /** [n_seeds] a generator for each picture; NULL: `seed`. */
  const uint64_t *seeds;
  /** As many as there are pictures. */
  uint32_t n_seeds;
  /** A picture to begin with, of which noise is made and taken away again (image-to-image); its sides
   *  are cut to multiples of a latent (8), or become `width` and `height`; of SD 3 and Flux they become
   *  these, or the model's size.  NULL: noise. */
  const accel_media *image;
  /** 0 to 1: how much of the picture is made anew, the share of the steps that are made.  NaN: 0.8,
   *  of SDXL 0.3; with a mask 1, of SDXL 0.9999; of SD 3 and Flux 0.6. */
  double strength;
  /** What the pictures should not show, for all prompts; NULL: "" (SDXL: nothing at all, unless its
   *  model_index.json says else). */
  const char *negative_prompt;
  /** A scheduler in place of the model's own: a class of diffusers, or one of ddim, pndm, euler,
   *  euler-ancestral, ddpm, lcm, dpm++, dpm++-singlestep, unipc, deis, heun, lms, kdpm2,
   *  kdpm2-ancestral, tcd, flow-match-euler.  NULL: the model's. */
  const char *scheduler;
  /** Told after each step; NULL: nobody is. */
  accel_image_step_fn on_step;
  /** First argument of on_step. */
  void *user;
  /** Of SD 3 and Flux: tokens of a prompt that T5 sees, 1 to 512; what is beyond is left out.  0: 256,
   *  of Flux 512. */
  uint32_t max_sequence_length;
  /** With `image` (inpainting): white where the picture is made anew, black where it is kept, cut in
   *  two at half of white.  Picture and mask become `width` and `height`, or the model's size, as
   *  Pillow resizes them.  UNets of twice as many channels and one, which see the mask, need it.
   *  NULL: all of the picture is made anew. */
  const accel_media *mask_image;
  /** 1: the autoencoder runs over tiles of the side that it was trained for (enable_tiling of
   *  diffusers), which bounds its memory and changes pixels where tiles overlap.  0: over all. */
  uint32_t vae_tiling;
  /** Of SD 3: layers that are left out of a third run of the transformer, in guidance beyond
   *  guidance_scale (skip_guidance_layers of diffusers): [n_skip_guidance_layers] numbers of
   *  transformer blocks, from 0.  Without `image`.  NULL: none. */
  const uint32_t *skip_guidance_layers;
  /** How many these are. */
  uint32_t n_skip_guidance_layers;
  /** 0. */
  uint32_t reserved;
  /** How much the difference to that run counts.  NaN: 2.8. */
  double skip_layer_guidance_scale;
  /** Shares of the steps between which it is made.  NaN: 0.01. */
  double skip_layer_guidance_start;
  double skip_layer_guidance_stop; /**< NaN: 0.2 */
  /** Of Flux: how much more the prompt counts than negative_prompt, which it needs; above 1 a step
   *  costs twice.  NaN: 1, no such guidance. */
  double true_cfg_scale;
} accel_text_to_image_params;

/** One picture of the model's size, the steps, guidance and strength of its pipeline, seed 0. */
ACCEL_API accel_text_to_image_params accel_text_to_image_params_default(void);

/**
 * Makes pictures of texts: pipeline text-to-image; of noise alone: unconditional-image-generation
 * (DDPMPipeline, DDIMPipeline), which takes no prompts, pictures, guidance and sizes.  Where the
 * pipeline has a safety checker (StableDiffusionSafetyChecker), pictures that it flags are black.
 *
 * @param prompts [n]; what is beyond the text encoder's 77 tokens is left out, as diffusers does.
 *        Without texts NULL and 0.
 * @param params NULL: the defaults.
 * @param out freed with accel_generated_images_free().
 * @return ACCEL_ERROR_UNSUPPORTED: the model does not make pictures; a scheduler, or a field of its
 *         config, is not supported.  ACCEL_ERROR_ARGUMENT: sides that are no multiples of 8, more
 *         steps than the scheduler has, seeds that are not as many as the pictures, a clip_skip
 *         beyond the layers, a strength that leaves no step.  Failures to read the picture as with every
 *         accel_media.  ACCEL_ERROR_CANCELLED.  ACCEL_ERROR_NONFINITE.
 */
ACCEL_API accel_status accel_text_to_image(accel_endpoint *endpoint, const char *const *prompts,
                                           uint32_t n, const accel_text_to_image_params *params,
                                           accel_generated_images **out);

/** Frees a result and sets the pointer to NULL. */
ACCEL_API void accel_generated_images_free(accel_generated_images **images);

/**
 * Writes a picture as a PNG file, under a temporary name first.  `parameters`, unless it is NULL, goes
 * into a text chunk of that name (tEXt, or iTXt where it is more than ASCII), where WebUIs read it.
 *
 * @param path the file, which is overwritten.
 * @return ACCEL_ERROR_IO: it cannot be written.
 */
ACCEL_API accel_status accel_generated_image_write(const accel_generated_image *image,
                                                   const char *path);

#ifdef __cplusplus
}
#endif

#endif
