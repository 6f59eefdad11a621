/* vit.h - the Vision Transformer that ViT, DeiT, AST and YOLOS share: fields, spelling of names,
 * encoder. */
#ifndef ACCEL_MODELS_VIT_H
#define ACCEL_MODELS_VIT_H

#include "modeling/vision.h"

typedef struct accel__vit_config {
  int64_t hidden, layers, heads, inner, channels, pooled; /* pooled: columns of the pooler */
  double eps;
  bool qkv_bias;
  accel__size2 image, patch;
  accel__activation act, pooler_act;
} accel__vit_config;

typedef struct accel__vit {
  accel__vit_config c;
  bool distilled;        /* DeiT: a second leading token */
  accel__dim rows, h, w; /* tokens of an image; patches down and across */
  int64_t stride;        /* pixels that a patch is made to again (masked image modelling) */
} accel__vit;

/* Tensor names as transformers 5 writes them, from those of older checkpoints. */
extern const accel__rename accel__vit_spelling[];

/* transformers' defaults, the fields of config.json, labels; sets b->spelling. */
accel_status accel__vit_read(accel__build *b, accel__vit_config *c);
/* Class token(s), patches with the mask token where bool_masked_pos says so, positions: rows [B*S,
 * hidden] of b->space; sets m->rows, h and w. */
accel__tensor accel__vit_embeddings(accel__build *b, accel__vit *m, accel__tensor pixels);
/* "encoder.layer.N" over rows x [B*S, hidden]; lists hidden_states, those of the input included.
 * `between`, if any, is called behind each layer. */
accel__tensor accel__vit_encoder(accel__build *b, const accel__vit_config *c, accel__tensor x,
                                 accel__dim per_item,
                                 accel__tensor (*between)(accel__build *b, void *user,
                                                          accel__tensor x, uint32_t layer),
                                 void *user);
/* act(dense(first row)) from "pooler.dense" */
accel__tensor accel__vit_pooler(accel__build *b, const accel__vit_config *c, accel__tensor x);

#endif
