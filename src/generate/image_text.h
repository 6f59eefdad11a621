/* image_text.h - accel_generate_images: texts from pictures and prompts. Behind the public
 * functions of the same names (the public headers say what they do); arguments are already checked.
 */
#ifndef ACCEL_GENERATE_IMAGE_TEXT_H
#define ACCEL_GENERATE_IMAGE_TEXT_H

#include "dispatch/endpoint.h"

accel_status accel__generate_images(accel_endpoint *ep, const accel_image_prompt *prompts,
                                    uint32_t n, const accel_generate_params *params,
                                    accel_generations **out);

#endif
