/* step_images.h - what a run of tokens that show pictures takes beside them. */
#ifndef ACCEL_GENERATE_STEP_IMAGES_H
#define ACCEL_GENERATE_STEP_IMAGES_H

#include "dispatch/endpoint.h"
#include "generate/stepper.h"

/* Whether one of the tokens is a picture's. */
bool accel__step_shows_images(const accel__step_item *items, uint32_t n);
/* Whether one of the sequences is a prompt with pictures, whatever part of it is read. */
bool accel__step_has_images(const accel__step_item *items, uint32_t n);
/* Inputs of entry `e` (decode, decode_image) for the items, whose tokens the batch has: positions,
 * rows of pictures, blocks.  owned[ACCEL__MAX_INPUTS], all NULL: their memory, to be freed after
 * the run, after a failure, too. */
accel_status accel__step_images(const accel_endpoint *ep, const accel__model_entry *e,
                                const accel__step_item *items, uint32_t n, accel__batch *batch,
                                void **owned);
/* A picture through entry "image_features", number `entry`: sets image->features and
 * images->width. */
accel_status accel__encode_image(accel_endpoint *ep, uint32_t entry,
                                 struct accel__prompt_images *images,
                                 struct accel__prompt_image *image,
                                 const accel_plugin_adapter_use *adapter);
/* An input of a kind that is taken whole: a tensor as it is, or what follows from one.  *owned:
 * memory to be freed. */
accel_status accel__given_item(const accel_endpoint *ep, const accel__model_input *in,
                               const accel_tensor *tensor, uint32_t n_tensors, void **owned,
                               accel__item *item);

#endif
