/* dpt.h - the neck and the heads of DPT ("Vision Transformers for Dense Prediction"), which Depth
 * Anything shares: rows of several layers become maps of several sizes, which are fused from the
 * coarsest on. */
#ifndef ACCEL_MODELS_DPT_H
#define ACCEL_MODELS_DPT_H

#include "modeling/vision.h"

/* What becomes of the class token: left out, added to each patch, or projected together with it. */
typedef enum accel__readout {
  ACCEL__READOUT_IGNORE,
  ACCEL__READOUT_ADD,
  ACCEL__READOUT_PROJECT
} accel__readout;

typedef struct accel__dpt_neck {
  int64_t n, width[ACCEL__MAX_MAPS], fusion; /* maps, channels of each, channels when fused */
  double factor[ACCEL__MAX_MAPS];            /* size of each map to that of the patches' grid */
  int64_t in;                                /* columns of the rows that maps are made of */
  int64_t head; /* head_in_index: the fused map that the head takes; negative from the last */
  bool batch_norm, bias; /* of the residual units */
  bool
      fit_next; /* a fused map takes the size of the next one (Depth Anything), else twice its own */
  accel__readout readout;
  accel__activation act;              /* of the projected readout */
  accel__tensor map[ACCEL__MAX_MAPS]; /* rows [B*per_item, in], class token first; or, */
  bool ready[ACCEL__MAX_MAPS];        /* where this is set, planes of `width` channels */
  accel__dim per_item, h, w;          /* rows of an image; patches down and across */
} accel__dpt_neck;

/* neck_hidden_sizes, reassemble_factors, fusion_hidden_size, head_in_index; n, width, factor and
 * fusion hold the defaults. */
accel_status accel__dpt_neck_read(accel__build *b, accel__dpt_neck *c);
/* The fused map [B, fusion, H, W] that the head takes. */
accel__tensor accel__dpt_fuse(accel__build *b, const accel__dpt_neck *c);

/* Three convolutions, by name, the first of them enlarged to [h, w] of an image. */
typedef struct accel__dpt_head {
  const char *conv[3];
  int64_t inner; /* channels behind the second one */
  int act;       /* accel_plugin_act of the result, */
  double scale;  /* which is then multiplied */
  accel__dim h, w;
} accel__dpt_head;
/* Output "predicted_depth" [B,h,w] of a fused map. */
void accel__dpt_output(accel__build *b, const accel__dpt_head *c, accel__tensor x);

#endif
