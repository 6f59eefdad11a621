/* sounds.h - accel_classify_sounds, accel_zero_shot_audio: labels of sounds.  Behind the public
 * functions of the same names (the public headers say what they do); arguments are already checked. */
#ifndef ACCEL_SPEECH_SOUNDS_H
#define ACCEL_SPEECH_SOUNDS_H

#include "dispatch/endpoint.h"

accel_status accel__classify_sounds(accel_endpoint *ep, const accel_media *media, uint32_t n,
                                    const accel_classify_params *params,
                                    accel_classifications **out);
accel_status accel__zero_shot_audio(accel_endpoint *ep, const accel_media *media, uint32_t n,
                                    const char *const *labels, uint32_t n_labels,
                                    const char *hypothesis, double max_seconds,
                                    accel_classifications **out);

#endif
