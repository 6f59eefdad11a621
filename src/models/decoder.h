/* decoder.h - the decoder that LLaMA and its relatives share: RMS norms, rotary positions, grouped key heads, gated MLPs (or
 * experts), each family with its own options. */
#ifndef ACCEL_MODELS_DECODER_H
#define ACCEL_MODELS_DECODER_H

#include "models/causal.h"
#include "models/rope.h"

/* The defaults of a family's config class, then what config.json says. */
typedef struct accel__decoder {
  int64_t vocab, hidden, layers, heads, kv_heads, head_dim, inner,
      positions;              /* kv_heads, head_dim 0: as heads, hidden/heads */
  double eps, theta, partial; /* partial: share of a head that turns, where the family reads it; 0: all of it */
  int64_t bos, eos, pad;      /* -1 none */
  bool tied, qkv_bias, o_bias, mlp_bias;
  accel__activation act;
  int64_t window;                  /* tokens that a sliding layer sees; 0: none slides */
  bool sliding[ACCEL__MAX_LAYERS]; /* layers with the window */
  accel__rope rope[2];             /* of full layers, of sliding ones (where they differ) */
  bool two_ropes;
  bool qa_transformer; /* ForQuestionAnswering calls its base model "transformer" */
} accel__decoder;

/* The fields all of these classes have; family fields are read before or after.  Leaves rope and sliding alone. */
accel_status accel__decoder_read(accel__build *b, accel__decoder *c);
/* layer_types, or `otherwise` where there are none: sliding[] of every layer.  Nothing slides while window is 0. */
accel_status accel__decoder_read_layer_types(accel__build *b, accel__decoder *c);
/* rope_parameters or rope_scaling, rope_theta, partial_rotary_factor into rope[0]. */
accel_status accel__decoder_read_rope(accel__build *b, accel__decoder *c);
/* Inputs, layers, heads, entries. */
accel_status accel__decoder_build(accel__build *b, const accel__decoder *c);

#endif
