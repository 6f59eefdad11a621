/* image_plan.h - the runs that a call of accel_text_to_image() makes, with the shapes of their inputs,
 * of a model that need not be placed: what accel_fit() and accel_plan_steps() plan for. */
#ifndef ACCEL_TASKS_IMAGE_PLAN_H
#define ACCEL_TASKS_IMAGE_PLAN_H

#include "dispatch/fit.h"

/* text encoders, the model itself, both ways through the autoencoder */
enum { ACCEL__IMAGE_RUNS = ACCEL__FIT_CALLS };

typedef struct accel__image_plan {
  uint32_t n;
  accel__fit_call call[ACCEL__IMAGE_RUNS]; /* run and batch point into this struct */
  uint32_t times[ACCEL__IMAGE_RUNS];       /* how often a call of the task makes the run */
  uint32_t output[ACCEL__IMAGE_RUNS];      /* the one of the run */
  accel__batch batch[ACCEL__IMAGE_RUNS];   /* dims of its inputs alone */
  uint32_t width, height, pictures, steps; /* pixels; scheduler's steps that were asked for */
  uint64_t host;                           /* bytes of the task beside the runs */
} accel__image_plan;

/* What is asked for; 0: as is usual. */
typedef struct accel__image_size {
  uint32_t width, height, pictures, steps;
  bool tiled; /* accel_text_to_image_params.vae_tiling */
} accel__image_size;

/* Does the model make pictures? */
bool accel__image_makes(const accel_endpoint *ep);
/* One prompt, `pictures` (0: 1) of it; width, height and steps 0: the model's.  A pipeline that begins
 * with a picture is planned with one.  Errors as of accel_text_to_image(). */
accel_status accel__image_plan_make(accel_endpoint *ep, const accel__image_size *size,
                                    accel__image_plan *out);

#endif
