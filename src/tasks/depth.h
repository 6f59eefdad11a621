/* depth.h - depth-estimation: how far away each pixel of a picture is. */
#ifndef ACCEL_TASKS_DEPTH_H
#define ACCEL_TASKS_DEPTH_H

#include "tasks/pictures.h"

/* Behind the public functions of the same names (the public headers say what they do); arguments
 * are already checked. */
accel_status accel__estimate_depth(accel_endpoint *ep, const accel_media *images, uint32_t n,
                                   accel_depths **out);
accel_status accel__draw_depth(const accel_depths *found, uint32_t index, uint32_t bits,
                               const char *path);

#endif
