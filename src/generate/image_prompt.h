/* image_prompt.h - requests of models that generate from pictures: who does, and how prompt and
 * pixels meet. */
#ifndef ACCEL_GENERATE_IMAGE_PROMPT_H
#define ACCEL_GENERATE_IMAGE_PROMPT_H

#include "generate/generation.h"

/* Its encoder takes pixel_values (BLIP), or its text shows pictures (LLaVA). */
bool accel__generates_from_pictures(const accel_endpoint *ep);
/* Whether what encodes pictures and sounds ("encode", "image_features") takes the argument whole, or
 * something follows from it. */
bool accel__takes_whole(const accel_endpoint *ep, const char *argument);
/* As accel__generate_request, from a prompt and the tensors of its pictures (pixel_values,
 * image_sizes, image_grid_thw; arrays that stay until the request is finished).  BLIP's captions
 * and Donut: an empty prompt is allowed.  LLaVA: `ids` hold as many image tokens as the pictures
 * have rows, else ACCEL_ERROR_ARGUMENT with both numbers; without pictures it is a prompt like any
 * other. */
accel_status accel__pictured_request(const accel_endpoint *ep, const accel__generate_plan *plan,
                                     const accel_generate_params *params,
                                     const accel__encoder_input *prompt, uint32_t number,
                                     int64_t context, accel__request *out);
/* Pictures in the tensors of a model whose text shows pictures. */
int64_t accel__image_count(const accel_endpoint *ep, const accel_tensor *tensor,
                           uint32_t n_tensors);
/* Where in dim 0 of the tensor `name` pictures first .. first + n lie, which need not be there. */
accel_status accel__image_slice(const accel_endpoint *ep, const accel_tensor *tensor,
                                uint32_t n_tensors, const char *name, int64_t first, int64_t n,
                                int64_t *first_row, int64_t *rows);
/* Rows that picture `i` of these tensors takes in the text of a model that shows pictures. */
accel_status accel__image_rows(const accel_endpoint *ep, const accel_tensor *tensor,
                               uint32_t n_tensors, int64_t i, int64_t *out);

#endif
