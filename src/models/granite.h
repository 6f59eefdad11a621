/* granite.h - what the Granite families share beside the decoder. */
#ifndef ACCEL_MODELS_GRANITE_H
#define ACCEL_MODELS_GRANITE_H

#include "models/decoders.h"

/* attention_bias, and the factors on embeddings, scores, residuals and logits, each 1 when absent. */
accel_status accel__granite_read_factors(accel__build *b, accel__decoder *c);

#endif
