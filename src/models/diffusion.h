/* diffusion.h - the components that pipelines of diffusers are put together from: each builds its
 * part of a program from b->config, with its names below b->scope. */
#ifndef ACCEL_MODELS_DIFFUSION_H
#define ACCEL_MODELS_DIFFUSION_H

#include "models/unet_blocks.h"

/* One of the parts below alone: its answer is the output "sample". */
accel_status accel__denoiser_model(const accel__model_request *request, const char *architecture,
                                   accel__model *model,
                                   accel_status (*part)(accel__build *b, accel__tensor *out));

/* UNet2DConditionModel: the inputs "sample" [B,C,H,W], "timestep" [B], where it looks at a text
 * "encoder_hidden_states" [B,S,width], and those of its config; *out [B,C,H,W]. */
accel_status accel__unet_2d_condition(accel__build *b, accel__tensor *out);

/* UNet2DModel: the inputs "sample" [B,C,H,W], "timestep" [B] and those of its config; *out
 * [B,C,H,W]. */
accel_status accel__unet_2d(accel__build *b, accel__tensor *out);

/* SD3Transformer2DModel: the inputs "hidden_states" [B,C,H,W], "encoder_hidden_states" [B,S,width],
 * "pooled_projections" [B,width], "timestep" [B]; *out [B,C,H,W], cut to whole patches. */
accel_status accel__sd3_transformer(accel__build *b, accel__tensor *out);
/* And once more with an input "skip_layers" [layers], behind the others: *skipping, the same without the
 * layers for which it is 1, and with those for which it is 0.  NULL: as accel__sd3_transformer. */
accel_status accel__sd3_transformer_skipping(accel__build *b, accel__tensor *out,
                                             accel__tensor *skipping);

/* FluxTransformer2DModel: the inputs "hidden_states" [B,rows,C], "encoder_hidden_states"
 * [B,S,width], "pooled_projections" [B,width], "timestep" [B] (0 to 1), "img_ids" [rows,3], "txt_ids"
 * [S,3], and where the config says so "guidance" [B]; *out [B,rows,C]. */
accel_status accel__flux_transformer(accel__build *b, accel__tensor *out);

/* AutoencoderKL.  Latents are as the autoencoder has them, not scaled by its factor. */
typedef struct accel__autoencoder {
  int64_t in, out, latents, levels, layers, channels[ACCEL__UNET_LEVELS];
  accel__unet_resnet resnet;
  bool quant, post_quant, middle_attends;
} accel__autoencoder;
accel_status accel__autoencoder_read(accel__build *b, accel__autoencoder *c);
/* pixels [B,3,H,W] in [-1,1] -> mean and logarithm of the variance [B, 2*latents, h, w]. */
accel__tensor accel__autoencoder_encode(accel__build *b, const accel__autoencoder *c,
                                        accel__tensor pixels);
/* latents [B,latents,h,w] -> pixels [B,3,H,W] */
accel__tensor accel__autoencoder_decode(accel__build *b, const accel__autoencoder *c,
                                        accel__tensor latents);

/* AutoencoderTiny: latents are what the UNet takes, as they are. */
typedef struct accel__tiny_side {
  int64_t levels, channels[ACCEL__UNET_LEVELS], blocks[ACCEL__UNET_LEVELS];
} accel__tiny_side;
typedef struct accel__autoencoder_tiny {
  int64_t in, out, latents, factor; /* factor: of each level's enlargement */
  double magnitude, shift;          /* of latents as bytes */
  accel__activation act;
  accel__tiny_side encoder, decoder;
} accel__autoencoder_tiny;
accel_status accel__autoencoder_tiny_read(accel__build *b, accel__autoencoder_tiny *c);
/* pixels [B,in,H,W] in [-1,1] -> latents [B,latents,h,w] */
accel__tensor accel__autoencoder_tiny_encode(accel__build *b, const accel__autoencoder_tiny *c,
                                             accel__tensor pixels);
/* latents [B,latents,h,w] -> pixels [B,out,H,W] */
accel__tensor accel__autoencoder_tiny_decode(accel__build *b, const accel__autoencoder_tiny *c,
                                             accel__tensor latents);

/* StableDiffusionSafetyChecker: its own `config`, and its tensors below `scope`.  Adds the input
 * "pixel_values" [B,3,side,side] and the outputs "special_scores" [B,3] and "concept_scores" [B,17]: cosines
 * of a picture and concepts, less the threshold of each. */
accel_status accel__safety_checker(accel__build *b, const accel__json *config, const char *scope);

#endif
