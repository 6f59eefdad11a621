/* audio_kernels_scalar.c - the kernels of audio_kernels.h for any processor. */
#define LANES         4
#define AUDIO_KERNELS accel__audio_kernels_scalar
#include "audio/audio_kernels_body.h"
