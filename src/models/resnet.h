/* resnet.h - ResNet as transformers and timm name it: a classifier of its own, and the backbone of
 * DETR. */
#ifndef ACCEL_MODELS_RESNET_H
#define ACCEL_MODELS_RESNET_H

#include "modeling/vision.h"

enum { ACCEL__MAX_STAGES = 16 };
typedef struct accel__resnet {
  int64_t channels, embedding, stages, hidden[ACCEL__MAX_STAGES], depths[ACCEL__MAX_STAGES];
  bool basic; /* layer_type "basic"; else bottleneck */
  bool downsample_first, downsample_in_bottleneck;
  /* RT-DETR's: three convolutions in the stem, and where a shortcut halves its map it averages and
   * then convolves */
  bool deep;
  /* timm's output_stride: stages whose cells would be more pixels dilate instead; 0 none */
  int64_t limit;
  bool timm;    /* names as timm has them */
  int64_t last; /* stages that are built: those up to the last feature map asked for */
  /* feature maps asked for, in order: stages, 0 the stem */
  int64_t asked[ACCEL__MAX_MAPS], n_asked;
  accel__activation act;
} accel__resnet;

accel_status accel__resnet_read(accel__build *b, accel__resnet *c); /* defaults, then b->config */
/* "resnet18" .. "resnet152" as timm builds them; b->config says which maps are asked for
 * (out_indices, all four stages when `all`, else the last one). */
accel_status accel__resnet_of_timm(accel__build *b, const char *name, bool all, accel__resnet *c);
/* pixels -> feature map [B,C,h,w] below b->scope; hidden_states of stem and stages are listed when
 * `hidden`.  maps [stages + 1], when it is not NULL, gets the map of the stem and of each stage
 * that is built. */
accel__tensor accel__resnet_features(accel__build *b, const accel__resnet *c, accel__tensor pixels,
                                     bool hidden, accel__tensor *maps);

#endif
