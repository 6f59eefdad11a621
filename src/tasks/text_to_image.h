/* text_to_image.h - Stable Diffusion: texts to embeddings, noise to latents, latents to pixels.
 * Behind the public functions of the same names (the public headers say what they do); arguments
 * are already checked. */
#ifndef ACCEL_TASKS_TEXT_TO_IMAGE_H
#define ACCEL_TASKS_TEXT_TO_IMAGE_H

#include "accel/image_generation.h"
#include "dispatch/endpoint.h"

accel_status accel__text_to_image(accel_endpoint *ep, const char *const *prompts, uint32_t n,
                                  const accel_text_to_image_params *params,
                                  accel_generated_images **out);
accel_status accel__generated_image_write(const accel_generated_image *image, const char *path);

#endif
