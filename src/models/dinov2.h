/* dinov2.h - DINOv2 with and without register tokens: models of their own, and the backbone of depth
 * estimators. */
#ifndef ACCEL_MODELS_DINOV2_H
#define ACCEL_MODELS_DINOV2_H

#include "models/vit.h"

typedef struct accel__dinov2 {
  accel__vit_config c;
  int64_t registers;           /* 0: the plain model */
  bool swiglu, with_registers; /* with_registers: set by the caller before reading */
  /* As a backbone: the feature maps asked for, in order (0 the embeddings, else the layer's number
   * from 1); whether the last norm is applied to them; whether they are planes, or all rows. */
  int64_t asked[ACCEL__MAX_MAPS], n_asked;
  bool normed, planes;
  accel__dim h, w, rows; /* patches down and across; rows of an image, class token first */
} accel__dinov2;

/* transformers' defaults, then the fields of b->config; sets b->spelling. */
accel_status accel__dinov2_read(accel__build *b, accel__dinov2 *m);
/* pixels -> maps[n_asked], rows [B*rows, hidden] of b->space; lists hidden_states. */
void accel__dinov2_maps(accel__build *b, accel__dinov2 *m, accel__tensor pixels,
                        accel__tensor *maps);

#endif
