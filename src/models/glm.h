/* glm.h - what the GLM families share beside the decoder. */
#ifndef ACCEL_MODELS_GLM_H
#define ACCEL_MODELS_GLM_H

#include "models/decoders.h"

/* All fields, over the defaults in *c. */
accel_status accel__glm_read_rest(accel__build *b, accel__decoder *c);

#endif
