/* pipeline_index.h - pipelines as diffusers saves them: model_index.json and a folder for each part
 * that it names.
 *
 * The configs of all parts are read as one, so that a pipeline is built as other models are:
 *   {"_class_name": "StableDiffusionPipeline", "unet": {unet/config.json}, "vae": ..., ...}
 * and the tensors of a part have its name and a dot in front.
 */
#ifndef ACCEL_PROCESSING_PIPELINE_INDEX_H
#define ACCEL_PROCESSING_PIPELINE_INDEX_H

#include "core/json.h"
#include "weights/weights.h"

/* Is there a model_index.json, and no config.json?  (Pipelines of one model from before diffusers 0.3
 * have the files of their parts, scheduler_config.json among them, beside it.) */
bool accel__is_pipeline(const char *directory);
/* What a user has otherwise than the index says; {0}: nothing. */
typedef struct accel__pipeline_choice {
  const char *decoder; /* directory of an autoencoder in the place of the part "vae" */
  const char *variant; /* of the files of weights, where a part has such ("fp16") */
  bool without_safety; /* the part "safety_checker" is left out */
} accel__pipeline_choice;

/* ACCEL_ERROR_ARGUMENT: a decoder for a pipeline without one.  Freed with accel__json_free.  Parts are
 * what the index lists with a library and a class; names that lead out of the directory are
 * ACCEL_ERROR_FORMAT, a folder that is missing ACCEL_ERROR_NOT_FOUND. */
accel_status accel__pipeline_config(const char *directory, const accel__pipeline_choice *choice,
                                    accel__json_file *out);
/* The headers of all parts that have weights (text_encoder, unet, vae ...).  ACCEL_ERROR_NOT_FOUND:
 * none has files of the variant. */
accel_status accel__pipeline_checkpoint(const char *directory, const accel__pipeline_choice *choice,
                                        const accel__json_file *config, accel__checkpoint **out);

#endif
