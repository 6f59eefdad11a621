/* pictures.h - what tasks over pictures share: each picture read, prepared and run alone. */
#ifndef ACCEL_TASKS_PICTURES_H
#define ACCEL_TASKS_PICTURES_H

#include "processing/media.h"

typedef struct accel__picture_job {
  accel_endpoint *ep;
  accel__image_processor processor;
  accel__arena *arena;        /* of the result */
  const accel_tensors *texts; /* zero-shot: tokens of the labels */
} accel__picture_job;

/* Reads the processor of job->ep's directory; ACCEL_ERROR_UNSUPPORTED when its head does not serve
 * `task`. */
accel_status accel__picture_begin(accel__picture_job *job, const char *task);
/* Reads a picture and runs it: the wanted outputs, and its sides (height, width). */
accel_status accel__picture_run(const accel__picture_job *job, const accel_media *media,
                                const char *const *names, uint32_t n_names, int32_t side[2],
                                accel_tensors **out);

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
