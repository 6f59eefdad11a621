/* media.h - pictures and sounds to the tensors of a model: files read, brought through the
 * processor of the model's directory. */
#ifndef ACCEL_PROCESSING_MEDIA_H
#define ACCEL_PROCESSING_MEDIA_H

#include "audio/audio.h"
#include "dispatch/endpoint.h"
#include "dispatch/tensor_list.h"
#include "vision/image_processor.h"

accel_status accel__media_image(const accel_media *media, accel__image *out);
/* Resampled to `rate`.  A sound of more than `most` seconds is ACCEL_ERROR_LIMIT; 0: any. */
accel_status accel__media_sound(const accel_media *media, uint32_t rate, double most,
                                accel__sound *out);

/* pixel_values and what goes with them; parts[n], which may be NULL: in how many parts each picture
 * is there. */
accel_status accel__image_tensors(const accel__image_processor *p, const accel__image *images,
                                  uint32_t n, accel__pool *pool, accel__picture_parts *parts,
                                  accel_tensors **out);
/* input_features or input_values and what goes with them. */
accel_status accel__sound_tensors(const accel__audio_processor *p, const accel__sound *sounds,
                                  uint32_t n, const accel__audio_options *options,
                                  accel__pool *pool, accel_tensors **out);
/* One list of the members of two (either may be NULL), both freed. */
accel_status accel__join_tensors(accel_tensors **a, accel_tensors **b, accel_tensors **out);
/* Runs the model on the tensors of a picture or sound, in `own`, behind those of labels (`texts`,
 * NULL: none), for the named outputs.  What processors make and the model does not take (YOLOS'
 * pixel_mask) is left out. */
accel_status accel__run_media(accel_endpoint *ep, const accel_tensors *texts,
                              const accel_tensors *own, const char *const *names, uint32_t n_names,
                              accel_tensors **out);
/* ACCEL_ERROR_UNSUPPORTED when the endpoint has no local files: preprocessor_config.json is one of
 * them. */
accel_status accel__media_directory(const accel_endpoint *ep, const char **out);

/* Behind the public functions of the same names (the public headers say what they do); arguments
 * are already checked. */
accel_status accel__preprocess(accel *ctx, const char *model, const accel_preprocess_params *params,
                               accel_tensors **out);

#endif
