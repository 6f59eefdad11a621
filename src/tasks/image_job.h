/* image_job.h - one call of text_to_image.c: what the configs say, the prompts as the UNet takes
 * them (image_prompts.c), noise and latents. */
#ifndef ACCEL_TASKS_IMAGE_JOB_H
#define ACCEL_TASKS_IMAGE_JOB_H

#include "accel/image_generation.h"
#include "diffusion/scheduler.h"
#include "dispatch/endpoint.h"
#include "models/model_build.h"

typedef struct accel__image_job {
  accel_endpoint *ep;
  const accel_text_to_image_params *params; /* complete */
  const char *const *prompts;
  uint32_t n, images;                         /* prompts; pictures */
  bool xl;                                    /* two text encoders, and sizes beside the time */
  bool sd3, flux;                             /* a transformer that predicts flow (image_flow.c) */
  bool guided;                                /* the model answers for the negative prompt, too */
  uint32_t rows;                              /* of a run of the UNet: images, or twice as many */
  int64_t channels, height, width, reduction; /* latents; pixels to a latent */
  int64_t patch;                              /* latents to a row of a transformer, along a side */
  double scaling, shift;                      /* of latents: (x - shift) * scaling */
  const float *latents_mean, *latents_std;    /* [channels] of SDXL's autoencoder; NULL: none */
  int64_t condition;                          /* columns of timestep_cond; 0: the UNet knows none */
  accel__scheduler *scheduler;
  uint32_t first_step; /* of the scheduler's: later where there is a picture to begin with */
  accel__noise noise;
  uint64_t each; /* channels * height * width */

  /* made by accel__image_prompts: the rows without the prompt come first where the call is guided */
  uint32_t tokens, text_rows, text_width, pooled_width; /* tokens: of CLIP's encoders */
  float *text;                                          /* [rows, text_rows, text_width] */
  float *pooled; /* [rows, pooled_width] of pipelines whose model takes it */

  float *latents;       /* [images, each] */
  float *input;         /* [rows, each] */
  float *timestep;      /* [rows] */
  float *timestep_cond; /* [rows, condition] */
  float *time_ids;      /* [rows, 6] of SDXL */
  float *image_ids;     /* [rows of a picture, 3] of Flux */
  float *text_ids;      /* [text_rows, 3] of Flux */
  float *guidance;      /* [rows] of Flux */
  accel__result answer; /* of the UNet [rows, each]; guided, in its first half */
} accel__image_job;

/* Runs an entry whose inputs are in `batch`, for its output `name`. */
accel_status accel__image_run(accel_endpoint *ep, const char *entry, const char *name,
                              const accel__batch *batch, accel__result *found);
/* An input of an entry, where the entry has it. */
void accel__image_set(accel__batch *batch, const accel__model_entry *e, const char *name,
                      accel__item item);

/* Pipelines whose model predicts flow, job->sd3 or job->flux. */
static inline bool accel__image_flow(const accel__image_job *job) { return job->sd3 || job->flux; }
/* What the configs of transformer and autoencoder say. */
accel_status accel__flow_read(accel__image_job *job);
/* What the call asks of such a pipeline that it does not do is refused. */
accel_status accel__flow_check(const accel__image_job *job);
/* Tells the scheduler how far to shift for pictures of this size, before it starts. */
accel_status accel__flow_shift(const accel__image_job *job);
/* Makes image_ids, text_ids and guidance, and packs the noise in job->latents as the transformer
 * takes it. */
accel_status accel__flow_begin(accel__image_job *job);
accel_status accel__flow_run(accel__image_job *job, double timestep); /* into job->answer */
/* The latents as the autoencoder takes them again. */
void accel__flow_unpack(accel__image_job *job);
void accel__flow_free(accel__image_job *job);

/* Fills text and pooled. */
accel_status accel__image_prompts(accel__image_job *job);

#endif
