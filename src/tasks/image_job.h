/* image_job.h - one call of text_to_image.c: what the configs say, the prompts as the UNet takes
 * them (image_prompts.c), noise and latents. */
#ifndef ACCEL_TASKS_IMAGE_JOB_H
#define ACCEL_TASKS_IMAGE_JOB_H

#include "accel/image_generation.h"
#include "diffusion/scheduler.h"
#include "dispatch/endpoint.h"

typedef struct accel__image_job {
  accel_endpoint *ep;
  const accel_text_to_image_params *params; /* complete */
  const char *const *prompts;
  uint32_t n, images;                         /* prompts; pictures */
  bool xl;                                    /* two text encoders, and sizes beside the time */
  bool guided;                                /* the model answers for the negative prompt, too */
  uint32_t rows;                              /* of a run of the UNet: images, or twice as many */
  int64_t channels, height, width, reduction; /* latents; pixels to a latent */
  double scaling;
  const float *latents_mean, *latents_std; /* [channels] of SDXL's autoencoder; NULL: none */
  int64_t condition;                       /* columns of timestep_cond; 0: the UNet knows none */
  accel__scheduler *scheduler;
  uint32_t first_step; /* of the scheduler's: later where there is a picture to begin with */
  accel__noise noise;
  uint64_t each; /* channels * height * width */

  /* made by accel__image_prompts: the rows without the prompt come first where the call is guided */
  uint32_t tokens, text_width, pooled_width;
  float *text;   /* [rows, tokens, text_width] */
  float *pooled; /* [rows, pooled_width] of SDXL */

  float *latents;       /* [images, each] */
  float *input;         /* [rows, each] */
  float *timestep;      /* [rows] */
  float *timestep_cond; /* [rows, condition] */
  float *time_ids;      /* [rows, 6] of SDXL */
  accel__result answer; /* of the UNet [rows, each]; guided, in its first half */
} accel__image_job;

/* Runs an entry whose inputs are in `batch`, for its output `name`. */
accel_status accel__image_run(accel_endpoint *ep, const char *entry, const char *name,
                              const accel__batch *batch, accel__result *found);
/* Fills text and pooled. */
accel_status accel__image_prompts(accel__image_job *job);

#endif
