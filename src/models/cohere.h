/* cohere.h - what the Cohere families share beside the decoder. */
#ifndef ACCEL_MODELS_COHERE_H
#define ACCEL_MODELS_COHERE_H

#include "models/decoders.h"

extern const accel__decoder accel__cohere_defaults;
/* attention_bias, logit_scale and the rotation. */
accel_status accel__cohere_read_rest(accel__build *b, accel__decoder *c);

#endif
