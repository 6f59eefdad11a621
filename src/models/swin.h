/* swin.h - stages of windowed attention: Swin itself, and the audio tower of CLAP. */
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
 * planes) behind each stage as transformers does. The result [B, n, embed * 2^(stages-1)] and its
 * grid. */
accel__tensor accel__swin_stages(accel__build *b, const accel__swin *c, accel__tensor x,
                                 accel__grid grid, const char *layers, bool planes,
                                 accel__grid *out);

#endif
