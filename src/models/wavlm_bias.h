/* wavlm_bias.h - the gated relative position bias of WavLM (Chen et al. 2021, arXiv 2110.13900,
 * section III.A; transformers' WavLMAttention). */
#ifndef ACCEL_MODELS_WAVLM_BIAS_H
#define ACCEL_MODELS_WAVLM_BIAS_H

#include "modeling/distance_buckets.h"

typedef struct accel__wavlm_bias {
  int64_t heads;
  accel__distance_buckets by;
  accel__dim frames;
  accel__tensor table; /* [1,H,frames,frames]: the bias before it is gated */
} accel__wavlm_bias;

/* num_buckets and max_bucket_distance. */
accel_status accel__wavlm_bias_read(const accel__build *b, int64_t heads, accel__wavlm_bias *out);
/* Makes the table of the embeddings <name>.weight [buckets, heads]; all layers share it. */
void accel__wavlm_bias_make(accel__build *b, accel__wavlm_bias *w, accel__dim frames,
                            const char *name);
/* [B,H,frames,frames]: the table, each query's line times what <path>.gru_rel_pos_linear and
 * gru_rel_pos_const make of its states x [B*frames,C]. */
accel__tensor accel__wavlm_gated(accel__build *b, const accel__wavlm_bias *w, accel__tensor x,
                                 const char *path);

#endif
