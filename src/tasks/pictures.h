/* pictures.h - what tasks over pictures share: each picture read, prepared and run alone. */
#ifndef ACCEL_TASKS_PICTURES_H
#define ACCEL_TASKS_PICTURES_H

#include "processing/media.h"

typedef struct accel__picture_job {
  accel_endpoint *ep;
  accel__image_processor processor;
  accel__arena *arena;        /* of the result */
  const accel_tensors *texts; /* zero-shot: tokens of the labels */
  int32_t *height, *width;    /* [n] of the pictures, in `arena`: accel__pictures_run */
} accel__picture_job;

/* Reads the processor of job->ep's directory; ACCEL_ERROR_UNSUPPORTED when its head does not serve
 * `task` (NULL: none is asked for). */
accel_status accel__picture_begin(accel__picture_job *job, const char *task);
/* What a task keeps of picture i: `found` has the wanted outputs, in the order of their names; side
 * is its height and width.  One picture at a time, in any order. */
typedef accel_status accel__picture_take(void *user, uint32_t i, const int32_t side[2],
                                         const accel_tensors *found);
/* Reads the pictures and runs each for the named outputs, on all replicas of job->ep. */
accel_status accel__pictures_run(accel__picture_job *job, const accel_media *media, uint32_t n,
                                 const char *const *names, uint32_t n_names,
                                 accel__picture_take *take, void *user);

/* Behind the public functions of the same names (the public headers say what they do); arguments
 * are already checked. */
accel_status accel__classify_images(accel_endpoint *ep, const accel_media *images, uint32_t n,
                                    const accel_classify_params *params,
                                    accel_classifications **out);
accel_status accel__zero_shot_image(accel_endpoint *ep, const accel_media *images, uint32_t n,
                                    const char *const *labels, uint32_t n_labels,
                                    const char *hypothesis, accel_classifications **out);
accel_status accel__detect_objects(accel_endpoint *ep, const accel_media *images, uint32_t n,
                                   const accel_detect_params *params, accel_detections **out);

#endif
