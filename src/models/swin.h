/* swin.h - stages of windowed attention: Swin itself, Donut's encoder, and the audio tower of CLAP. */
#ifndef ACCEL_MODELS_SWIN_H
#define ACCEL_MODELS_SWIN_H

#include "modeling/windows.h"

enum { ACCEL__SWIN_STAGES = 16 };
typedef struct accel__swin {
  int64_t embed, stages, window, depths[ACCEL__SWIN_STAGES], heads[ACCEL__SWIN_STAGES];
  double mlp_ratio, eps;
  bool qkv_bias;
  accel__activation act;
} accel__swin;

extern const accel__rename accel__swin_spelling[];
/* depths, <heads_key>, window_size, mlp_ratio, qkv_bias, layer_norm_eps, hidden_act on top of
 * *c. */
accel_status accel__swin_read(accel__build *b, const char *heads_key, accel__swin *c);
/* "<layers>.N.blocks.M" over x [B, grid.h*grid.w, embed]; lists hidden_states ([B,n,C], or as
 * planes) behind each stage as transformers does, and beside those of a class of its own (no
 * b->output_path) reshaped_hidden_states.  The result [B, n, embed * 2^(stages-1)] and its grid. */
accel__tensor accel__swin_stages(accel__build *b, const accel__swin *c, accel__tensor x,
                                 accel__grid grid, const char *layers, bool planes,
                                 accel__grid *out);

/* ---- a whole Swin: SwinModel and DonutSwinModel up to their last stage ---- */

typedef struct accel__swin_model {
  accel__swin c;
  /* stride: pixels that a row is made to again (masked image modelling) */
  int64_t channels, stride;
  accel__size2 image, patch;
  accel__grid grid; /* of the patches: set by accel__swin_embeddings */
  bool absolute;    /* rows of a position table are added to the patches */
} accel__swin_model;

/* transformers' defaults, the fields of config.json, labels; sets b->spelling. */
accel_status accel__swin_model_read(accel__build *b, accel__swin_model *m);
/* Donut's Swin with a position table: its class makes one with a row too many, which it cannot
 * add. */
accel_status accel__swin_refuse_table(const accel__build *b, const accel__swin_model *m,
                                      bool donut);
/* "pixel_values" [B, channels, H, W] of any size whose last stage has a window at least. */
accel__tensor accel__swin_pictures(accel__build *b, const accel__swin_model *m);
/* Patches of pixels: [B, h*w, embed]. */
accel__tensor accel__swin_embeddings(accel__build *b, accel__swin_model *m, accel__tensor pixels);

#endif
