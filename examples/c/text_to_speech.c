/* text_to_speech.c - speaks a text: raw samples of 32-bit floats to stdout.
 *
 *   text_to_speech MODEL TEXT [SEED] | aplay -f FLOAT_LE -r RATE        MODEL: such as facebook/mms-tts-eng
 */
#include <accel/accel.h>
#include <stdio.h>
#include <stdlib.h>

static int report(accel_status status) {
  fprintf(stderr, "%s\n%s\n", accel_last_error(), accel_last_remedy());
  return accel_status_exit_code(status);
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s MODEL TEXT [SEED]\n", argv[0]);
    return 2;
  }
  const char *const text = argv[2];
  accel_text_to_speech_params how = accel_text_to_speech_params_default();
  accel *ctx = NULL;
  accel_endpoint *model = NULL;
  accel_waveforms *made = NULL;
  how.seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
  accel_status status = accel_create(NULL, &ctx);
  if (status == ACCEL_OK) status = accel_init(ctx, argv[1], NULL, &model);
  if (status == ACCEL_OK) status = accel_text_to_speech(model, &text, 1, &how, &made);
  if (status == ACCEL_OK) {
    const accel_waveform *sound = &made->item[0];
    fwrite(sound->samples, sizeof *sound->samples, sound->n, stdout);
    fprintf(stderr, "%.2f seconds at %u samples a second\n", (double)sound->n / made->rate,
            made->rate);
  }
  int code = status == ACCEL_OK ? 0 : report(status);
  accel_waveforms_free(&made);
  accel_cleanup(&model);
  accel_destroy(&ctx);
  return code;
}
