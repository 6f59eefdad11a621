/* davit.h - DaViT ("DaViT: Dual Attention Vision Transformers", transformers'
 * Florence2VisionBackbone): stages of convolutions and pairs of blocks, the first attending inside
 * windows of the picture, the second from channel to channel. */
#ifndef ACCEL_MODELS_DAVIT_H
#define ACCEL_MODELS_DAVIT_H

#include "modeling/windows.h"

enum { ACCEL__DAVIT_STAGES = 16 };
typedef struct accel__davit {
  int64_t channels, stages, window;
  int64_t depths[ACCEL__DAVIT_STAGES], widths[ACCEL__DAVIT_STAGES];
  int64_t heads[ACCEL__DAVIT_STAGES];  /* of attention inside windows */
  int64_t groups[ACCEL__DAVIT_STAGES]; /* of channels that attend to one another */
  int64_t kernel[ACCEL__DAVIT_STAGES], stride[ACCEL__DAVIT_STAGES], pad[ACCEL__DAVIT_STAGES];
  bool norm_first[ACCEL__DAVIT_STAGES]; /* the convolution's norm stands in front of it */
  double mlp_ratio;
  bool qkv_bias;
  accel__activation act;
} accel__davit;

/* The fields of Florence2VisionConfig that concern the backbone, from b->config. */
accel_status accel__davit_read(accel__build *b, accel__davit *c);
/* Rows to a side that the last stage makes of `pixels`; 0: a stage has none. */
int64_t accel__davit_side(const accel__davit *c, int64_t pixels);
/* Pictures x [B, channels, H, W] -> [B, n, C of the last stage] and its grid; names "convs.N",
 * "blocks.N.M". */
accel__tensor accel__davit_stages(accel__build *b, const accel__davit *c, accel__tensor x,
                                  accel__grid *out);

#endif
