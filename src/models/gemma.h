/* gemma.h - what the Gemma families share beside the decoder. */
#ifndef ACCEL_MODELS_GEMMA_H
#define ACCEL_MODELS_GEMMA_H

#include "models/decoder.h"

/* Scale of the scores, soft caps (null switches one off), biases, direction; scale of the embeddings. */
accel_status accel__gemma_read(accel__build *b, accel__decoder *c);

#endif
