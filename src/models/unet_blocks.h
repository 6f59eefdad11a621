/* unet_blocks.h - what the UNets and the autoencoders of diffusers are made of: residual blocks,
 * attention over all positions of a map, transformers that also look at a text, the way down and up
 * through resolutions (diffusers' resnet.py, attention_processor.py, transformer_2d.py,
 * unet_2d_blocks.py).
 *
 * Maps are planes [B,C,H,W].  Names of weights are diffusers'; those of older checkpoints
 * (query, key, value, proj_attn) are found, too.
 */
#ifndef ACCEL_MODELS_UNET_BLOCKS_H
#define ACCEL_MODELS_UNET_BLOCKS_H

#include "modeling/vision.h"

enum { ACCEL__UNET_LEVELS = 16 };

/* Names of attention layers in checkpoints written before diffusers 0.12. */
extern const accel__rename accel__unet_old_attention[];

/* What diffusers writes into a model's code, whatever its act_fn says. */
extern const accel__activation accel__unet_silu;

/* How residual blocks are computed; the same all over a model. */
typedef struct accel__unet_resnet {
  int64_t groups; /* of the group norms */
  double eps;     /* of these */
  accel__activation act;
  double output_scale; /* the sum is divided by it */
  bool scale_shift;    /* the time scales and shifts the second norm, instead of being added */
  accel__tensor time;  /* [B, channels of the time embedding], activated; -1: no time */
} accel__unet_resnet;

/* conv2(act(norm2(conv1(act(norm1(x))) + time))) + x, to `out` channels. */
accel__tensor accel__unet_resnet_block(accel__build *b, const accel__unet_resnet *how,
                                       accel__tensor x, int64_t out, const char *path);
/* A 3x3 convolution of stride 2.  pad 0: one column and one row of zeros behind the map, as the
 * autoencoders do. */
accel__tensor accel__unet_downsample(accel__build *b, accel__tensor x, int64_t pad,
                                     const char *path);
/* Nearest neighbours to [h,w], then a 3x3 convolution. */
accel__tensor accel__unet_upsample(accel__build *b, accel__tensor x, accel__dim h, accel__dim w,
                                   const char *path);
/* act(norm(x)) with <name>.weight and <name>.bias; act NULL: none. */
accel__tensor accel__unet_norm(accel__build *b, accel__tensor x, int64_t groups, double eps,
                               const accel__activation *act, const char *name);

/* Self-attention over the positions of a map. */
typedef struct accel__unet_attention {
  int64_t heads, groups;
  double eps, output_scale;
} accel__unet_attention;
accel__tensor accel__unet_attention_block(accel__build *b, const accel__unet_attention *how,
                                          accel__tensor x, const char *path);

/* Rows that are looked at across: [B*S, width], and their space. */
typedef struct accel__unet_text {
  accel__tensor rows;
  int32_t space;
} accel__unet_text;

/* Transformer2DModel over the positions of a map: self-attention, attention to the text, GEGLU. */
typedef struct accel__unet_transformer {
  int64_t heads, layers, groups;
  bool only_cross; /* the first attention looks at the text, too */
} accel__unet_transformer;
accel__tensor accel__unet_transformer_block(accel__build *b, const accel__unet_transformer *how,
                                            accel__tensor x, const accel__unet_text *text,
                                            const char *path);

/* sin and cos (flip: cos and sin) of t [n] times channels/2 frequencies from 1 to 1/10000:
 * [n, channels] (diffusers' get_timestep_embedding). */
accel__tensor accel__unet_waves(accel__build *b, accel__tensor t, int64_t channels, bool flip,
                                double shift);
/* TimestepEmbedding: <name>.linear_2(act(<name>.linear_1(x))), to `out` columns. */
accel__tensor accel__unet_embedding(accel__build *b, accel__tensor x, int64_t out,
                                    const accel__activation *act, const char *name);

/* What stands behind the residual blocks of a level. */
typedef enum accel__unet_kind {
  ACCEL__UNET_PLAIN,    /* nothing: DownBlock2D, UpBlock2D, UNetMidBlock2D without attention */
  ACCEL__UNET_ATTENDS,  /* accel__unet_attention: AttnDownBlock2D, AttnUpBlock2D, UNetMidBlock2D */
  ACCEL__UNET_CROSSES,  /* accel__unet_transformer: CrossAttnDownBlock2D, ... */
  ACCEL__UNET_NO_MIDDLE /* of the middle alone: there is none */
} accel__unet_kind;
typedef struct accel__unet_level {
  accel__unet_kind kind;
  int64_t channels, layers; /* residual blocks; one more on the way up */
  accel__unet_attention attention;
  accel__unet_transformer transformer;
} accel__unet_level;

/* The body of a UNet, between conv_in and conv_norm_out. */
typedef struct accel__unet {
  accel__unet_resnet resnet;
  int64_t levels, padding; /* padding of the convolutions that halve the map */
  accel__unet_level down[ACCEL__UNET_LEVELS], up[ACCEL__UNET_LEVELS]; /* in the order they run */
  accel__unet_level middle; /* layers: pairs of attention and residual block behind the first */
  double middle_scale;
} accel__unet;
/* x [B, channels of the first level, H, W] -> [B, channels of the last one up, H, W]. */
accel__tensor accel__unet_body(accel__build *b, const accel__unet *u, accel__tensor x,
                               const accel__unet_text *text);

/* The middle, which autoencoders have, too, below `path`. */
accel__tensor accel__unet_middle(accel__build *b, const accel__unet_resnet *resnet,
                                 const accel__unet_level *level, accel__tensor x,
                                 const accel__unet_text *text, const char *path);

/* A field of the config that is one integer or a list of `n`; left as it is when absent or null. */
accel_status accel__read_one_or_more(const accel__build *b, const char *key, int64_t n, int64_t min,
                                     int64_t max, int64_t *io);
/* Is the field there, and null?  What diffusers then does differs from what it does without it. */
bool accel__is_null(const accel__build *b, const char *key);
/* Entries of block_out_channels, 1 to ACCEL__UNET_LEVELS; left as it is when absent. */
accel_status accel__read_level_count(const accel__build *b, int64_t *io);
/* A field that lists n names of `known` (closed by NULL), as their places in it. */
accel_status accel__read_names(const accel__build *b, const char *key, int64_t n,
                               const char *const *known, int64_t *io);

#endif
