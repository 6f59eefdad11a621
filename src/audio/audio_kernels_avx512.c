/* audio_kernels_avx512.c - the kernels of audio_kernels.h for AVX-512. */
#define LANES         8
#define AUDIO_KERNELS accel__audio_kernels_avx512
#include "audio/audio_kernels_body.h"
