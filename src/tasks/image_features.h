/* image_features.h - image-feature-extraction: what a model without a head says of pictures. */
#ifndef ACCEL_TASKS_IMAGE_FEATURES_H
#define ACCEL_TASKS_IMAGE_FEATURES_H

#include "tasks/pictures.h"

/* Behind accel_extract_image_features() (the public header says what it does); arguments are
 * already checked. */
accel_status accel__extract_image_features(accel_endpoint *ep, const accel_media *images,
                                           uint32_t n, bool pool, accel_tensors **out);

#endif
