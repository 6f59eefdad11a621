/* vits.h - the parts of VITS (Kim et al. 2021, arXiv 2106.06103; transformers' VitsModel), between
 * the files that build them.
 *
 * Texts and frames stand padded, as in the reference: planes [B,C,S] of tokens, [B,C,F] of frames,
 * with masks [B,1,S] and [B,1,F] of ones and zeros. */
#ifndef ACCEL_MODELS_VITS_H
#define ACCEL_MODELS_VITS_H

#include "modeling/vision.h"

enum { ACCEL__VITS_STAGES = 16, ACCEL__VITS_KERNELS = 16, ACCEL__VITS_DILATIONS = 16 };

typedef struct accel__vits {
  int64_t vocab, hidden, layers, heads, window, inner, inner_kernel, flow, speakers,
      speaker_width; /* 0: speakers change nothing */
  /* durations */
  int64_t separable_layers, bins, duration_kernel, duration_flows, duration_filters;
  double tail;
  bool stochastic;
  /* prior flows */
  int64_t flows, wave_layers, wave_kernel, wave_dilation;
  /* decoder */
  int64_t first_channels, stages, rate[ACCEL__VITS_STAGES], kernel[ACCEL__VITS_STAGES];
  int64_t res_kernels, res_kernel[ACCEL__VITS_KERNELS], res_dilations[ACCEL__VITS_KERNELS],
      res_dilation[ACCEL__VITS_KERNELS][ACCEL__VITS_DILATIONS];
  double slope, eps;
  bool bias;
  accel__activation act;
  /* inputs, made by vits.c */
  accel__tensor speaker; /* int32 [B], -1: nobody; -1 where the model knows no speakers */
} accel__vits;

/* x times a mask that broadcasts. */
accel__tensor accel__vits_masked(accel__build *b, accel__tensor x, accel__tensor mask);
/* conv(speaker's vector) of <name> [B,out,1], zeros where nobody was chosen; normed: its weight has
 * a weight_norm. -1: the model knows no speakers. */
accel__tensor accel__vits_speaker(accel__build *b, const accel__vits *m, int64_t out, bool normed,
                                  const char *name);
/* Layer norm over the channels of planes x: <name>.weight, <name>.bias. */
accel__tensor accel__vits_norm(accel__build *b, accel__tensor x, double eps, const char *name);

/* vits_durations.c: logarithms of the tokens' frames, [B,1,S], of the text's states x [B,C,S].
 * noise [B,2,S]: of the stochastic predictor. */
accel__tensor accel__vits_durations(accel__build *b, const accel__vits *m, accel__tensor x,
                                    accel__tensor mask, accel__tensor noise);
/* vits_waveform.c: drawn frames z [B,flow,F] through the flows, backwards: the spectrogram, and its
 * samples [B, F * hop]. */
accel__tensor accel__vits_flows(accel__build *b, const accel__vits *m, accel__tensor z,
                                accel__tensor mask);
accel__tensor accel__vits_samples(accel__build *b, const accel__vits *m, accel__tensor spectrogram);

#endif
