/* t5.h - T5 and mT5: one forward, two config classes. */
#ifndef ACCEL_MODELS_T5_H
#define ACCEL_MODELS_T5_H

#include "modeling/seq2seq.h"

typedef struct accel__t5 {
  int64_t vocab, hidden, head_dim, inner, layers, decoder_layers, heads, buckets, distance;
  double eps;
  bool gated, scale_logits;
  const char *feed_forward; /* "relu", "gated-gelu" */
  int64_t start;            /* decoder_start_token_id; -1 the config must say */
  accel__activation act;
} accel__t5;

/* The layers of a side and its last norm, over embedded rows x; b->space has their sequences, and
 * b->seq2seq.memory_mask hides rows of the encoder. */
accel__tensor accel__t5_encoder(accel__build *b, const accel__t5 *c, accel__tensor x);
accel__tensor accel__t5_decoder(accel__build *b, const accel__t5 *c, accel__tensor x,
                                accel__tensor memory);
/* chronos_config of a T5 that forecasts time series: b->model->forecasting. */
accel_status accel__chronos_read(accel__build *b, const accel__t5 *c);
/* *c holds the defaults of the config class. */
accel_status accel__t5_build(accel__build *b, accel__t5 *c);

extern const accel__t5 accel__t5_defaults; /* of T5Config */
/* The fields of b->config on top of what *c holds. */
accel_status accel__t5_read(accel__build *b, accel__t5 *c);
/* The encoder over the input_ids that are there, behind its last norm: [T, hidden]. */
accel__tensor accel__t5_encode(accel__build *b, const accel__t5 *c);

#endif
