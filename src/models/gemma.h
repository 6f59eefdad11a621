/* gemma.h - what the Gemma families share beside the decoder. */
#ifndef ACCEL_MODELS_GEMMA_H
#define ACCEL_MODELS_GEMMA_H

#include "models/decoders.h"

/* What the config classes of Gemma 2 and 3 have alike. */
#define ACCEL_GEMMA_DEFAULTS                                                               \
  .heads = 8, .kv_heads = 4, .head_dim = 256, .hidden = 2304, .layers = 26, .inner = 9216, \
  .eps = 1e-6, .bos = 2, .eos = 1, .pad = 0, .tied = true, .window = 4096,                 \
  .norms = &accel__norms_around, .gamma_offset = 1.0, .act_key = "hidden_activation",      \
  .act = {.act = ACCEL_PLUGIN_ACT_GELU_TANH}

/* Scale of the scores, soft caps (null switches one off), biases, direction; scale of the
 * embeddings. */
accel_status accel__gemma_read_rest(accel__build *b, accel__decoder *c);

#endif
