/* audio_kernels_body.h - the kernels of audio_kernels.h for one instruction set.  A file that
 * includes it defines
 *   LANES          doubles in a vector, 4 or 8
 *   AUDIO_KERNELS  the name of the table
 * and is compiled with the flags of the instruction set that its name ends in. */
#include "audio/audio_kernels.h"

#include <math.h>
#include <string.h>

typedef double vec __attribute__((vector_size(LANES * sizeof(double)), may_alias));

#include "audio/features_body.h"
#include "audio/fft_body.h"
#include "audio/mel_body.h"

const accel__audio_kernels AUDIO_KERNELS = {.lanes = LANES,
                                            .fft_power = fft_power,
                                            .gather_frames = gather_frames,
                                            .window_frames = window_frames,
                                            .mel_energies = mel_energies,
                                            .sum = sum,
                                            .sum_squares = sum_squares,
                                            .normalise = normalise,
                                            .maximum = maximum,
                                            .whisper_levels = whisper_levels};
