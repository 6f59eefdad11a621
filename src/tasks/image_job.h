/* image_job.h - one call of text_to_image.c: what the configs say, the prompts as the UNet takes
 * them (image_prompts.c), noise and latents. */
#ifndef ACCEL_TASKS_IMAGE_JOB_H
#define ACCEL_TASKS_IMAGE_JOB_H

#include "accel/image_generation.h"
#include "diffusion/scheduler.h"
#include "dispatch/endpoint.h"
#include "processing/entry_run.h"
#include "vision/image_processor.h"

/* As the UNet takes it: a number, or the row of a table. */
typedef union timestep_value {
  float number;
  int32_t whole;
} timestep_value;

typedef struct accel__image_job {
  accel_endpoint *ep;
  const accel_text_to_image_params *params; /* complete */
  const char *const *prompts;
  uint32_t n, images;                         /* prompts; pictures */
  bool unconditional;                         /* no texts; the latents are the pixels */
  bool xl;                                    /* two text encoders, and sizes beside the time */
  bool sd3, flux;                             /* a transformer that predicts flow (image_flow.c) */
  bool guided;                                /* the model answers for the negative prompt, too */
  uint32_t rows;                              /* of a run of the UNet: images, or twice as many */
  int64_t channels, height, width, reduction; /* latents; pixels to a latent */
  int64_t patch;                              /* latents to a row of a transformer, along a side */
  int64_t input_channels;                     /* of the UNet: channels, or those of inpainting */
  int64_t tile;          /* side in pixels of the autoencoder's tiles; 0: it takes pictures whole */
  bool certain;          /* the autoencoder gives latents, no distribution of them */
  double scaling, shift; /* of latents: (x - shift) * scaling */
  const float *latents_mean, *latents_std; /* [channels] of SDXL's autoencoder; NULL: none */
  int64_t condition;                       /* columns of timestep_cond; 0: the UNet knows none */
  accel__scheduler *scheduler;
  uint32_t first_step; /* of the scheduler's: later where there is a picture to begin with */
  accel__noise noise;
  uint64_t each; /* channels * height * width */

  /* made by accel__image_prompts: the rows without the prompt come first where the call is guided */
  uint32_t tokens, text_rows, text_width, pooled_width; /* tokens: of CLIP's encoders */
  float *text;                                          /* [rows, text_rows, text_width] */
  float *pooled; /* [rows, pooled_width] of pipelines whose model takes it */

  float *latents;               /* [images, each] */
  float *input;                 /* [rows, each] */
  timestep_value *timestep;     /* [rows] */
  float *timestep_cond;         /* [rows, condition] */
  float *time_ids;              /* [rows, 6] of SDXL */
  float *image_ids;             /* [rows of a picture, 3] of Flux */
  float *text_ids;              /* [text_rows, 3] of Flux */
  float *guidance;              /* [rows] of Flux */
  int64_t layers;               /* of SD 3's transformer, where some are skipped */
  float *skipped;               /* [layers] 1: left out of a run for guidance; NULL: none is */
  accel__result without_layers; /* of that run [images, each] */

  /* of inpainting (image_inpaint.c); NULL without a mask */
  float *mask;        /* [mask_size] 1 where the picture is made anew, else 0 */
  uint64_t mask_size; /* height * width; packed for Flux, each */
  float *kept;        /* [images, each] the picture's latents; NULL: they are not needed */
  float *first_noise; /* [images, each] */
  float *masked;      /* [each] latents of the picture with grey in place of what is made anew */
  float *wide;        /* [rows, input_channels, height, width] for UNets that see the mask; NULL */

  const accel__image_processor *checker; /* what the safety checker is given; NULL: there is none */

  accel__result answer; /* of the UNet [rows, each]; guided, in its first half */
} accel__image_job;

/* The job of a call: what the configs and the picture to begin with (`planes`, the caller's to free)
 * say.  params, which become complete, and the arena stay while the job does; it is to be freed
 * whatever comes out. */
accel_status accel__image_begin(accel_endpoint *ep, const char *const *prompts, uint32_t n,
                                accel_text_to_image_params *params, accel__arena *arena,
                                accel__image_job *job, float **planes);
/* Opens job->scheduler for the call's steps. */
accel_status accel__image_scheduler(accel__image_job *job);
/* The inputs of "forward" in one step; data that is not made yet is NULL. */
void accel__image_unet_batch(const accel__image_job *job, accel__batch *batch);
void accel__image_end(accel__image_job *job);

/* Pipelines whose model predicts flow, job->sd3 or job->flux. */
static inline bool accel__image_flow(const accel__image_job *job) { return job->sd3 || job->flux; }
/* What the configs of transformer and autoencoder say. */
accel_status accel__flow_read(accel__image_job *job);
/* What the call asks of such a pipeline that it does not do is refused. */
accel_status accel__flow_check(const accel__image_job *job);
/* Tells the scheduler how far to shift for pictures of this size, before it starts. */
accel_status accel__flow_shift(const accel__image_job *job);
/* Makes image_ids, text_ids and guidance, and packs job->latents, and what inpainting has beside them,
 * as the transformer takes them. */
accel_status accel__flow_begin(accel__image_job *job);
/* As accel__image_unet_batch(). */
void accel__flow_batch(const accel__image_job *job, accel__batch *batch);
accel_status accel__flow_run(accel__image_job *job, double timestep); /* into job->answer */
/* skip_guidance_layers of the call, and what they add to the guided answer of step i. */
accel_status accel__flow_read_skipped(accel__image_job *job);
accel_status accel__flow_skip(accel__image_job *job, uint32_t i);
/* The latents as the autoencoder takes them again. */
void accel__flow_unpack(accel__image_job *job);
void accel__flow_free(accel__image_job *job);

/* out[images, each]: latents of a picture, planes [3, height, width] of -1 to 1, as samples of the
 * autoencoder's distribution by each of the first n_generators generators; pictures behind have the
 * last of these.  normed: by the config's mean and deviation, too. */
accel_status accel__image_encode(accel__image_job *job, const float *planes, uint32_t n_generators,
                                 bool normed, float *out);

/* Is the autoencoder to run over tiles, and does so: decode_latents of x[channels, height, width], or
 * encode_pixels of planes; *out, malloc'd, is what the whole would give. */
bool accel__image_tiles(const accel__image_job *job);
accel_status accel__image_in_tiles(const accel__image_job *job, bool decodes, const float *x,
                                   float **out);
/* How many tiles of latents there are; *height and *width of the largest. */
accel_status accel__image_count_tiles(const accel__image_job *job, uint32_t *n, int64_t *height,
                                      int64_t *width);

/* Does the UNet take the latents that the autoencoder gives, alone or with a mask? */
accel_status accel__inpaint_check(const accel__image_job *job);
/* Latents to begin with, of a picture with a mask. */
accel_status accel__inpaint_begin(accel__image_job *job, const float *planes);
/* The UNet's input from job->input, where it takes more than the latents. */
void accel__inpaint_widen(accel__image_job *job);
/* After step i: outside of the mask the picture, with the noise of the step to come. */
void accel__inpaint_blend(accel__image_job *job, uint32_t i);
void accel__inpaint_free(accel__image_job *job);

/* Pipelines without a text: what they take where nothing is said, whether they take the call at all,
 * and what their configs say. */
void accel__unconditional_complete(const accel_endpoint *ep, accel_text_to_image_params *p);
accel_status accel__unconditional_check(const accel_endpoint *ep, uint32_t n_prompts,
                                        const accel_text_to_image_params *p);
accel_status accel__unconditional_read(accel__image_job *job);

/* Pixels of the sides of what the pipeline's safety checker looks at; 0: it has none. */
int64_t accel__safety_side(const accel__image_job *job);
/* Sets job->checker where the pipeline has a safety checker. */
accel_status accel__safety_open(accel__image_job *job, accel__arena *arena);
/* rgb[height, width, 3] becomes black where it is flagged, *flagged 1; else 0, without a checker -1. */
accel_status accel__safety_check(const accel__image_job *job, int64_t width, int64_t height,
                                 uint8_t *rgb, int32_t *flagged);
/* Sets image->parameters of picture `index`, whose other fields are there. */
accel_status accel__image_describe(const accel__image_job *job, uint32_t index, accel__arena *arena,
                                   accel_generated_image *image);

/* Fills text and pooled. */
accel_status accel__image_prompts(accel__image_job *job);
/* One run of a text encoder for `texts` of `tokens` each. */
typedef struct accel__image_text_run {
  const char *entry, *output;
  uint32_t texts, tokens;
} accel__image_text_run;
enum { ACCEL__IMAGE_TEXT_RUNS = 12 };
/* The runs that accel__image_prompts() makes; sets the widths and lengths of texts. */
accel_status accel__image_text_runs(accel__image_job *job, accel__image_text_run *run, uint32_t *n);

#endif
