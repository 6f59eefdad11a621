/* audio_kernels_avx2.c - the kernels of audio_kernels.h for AVX2. */
#define LANES         4
#define AUDIO_KERNELS accel__audio_kernels_avx2
#include "audio/audio_kernels_body.h"
