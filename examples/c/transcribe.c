/* transcribe.c - writes down what is said in a sound, with times.
 *
 *   transcribe MODEL SOUND [LANGUAGE]          MODEL: such as openai/whisper-tiny
 */
#include <accel/accel.h>
#include <stdio.h>

static int report(accel_status status) {
  fprintf(stderr, "%s\n%s\n", accel_last_error(), accel_last_remedy());
  return accel_status_exit_code(status);
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s MODEL SOUND [LANGUAGE]\n", argv[0]);
    return 2;
  }
  const accel_media sound = {.name = argv[2]};
  accel_transcribe_params how = accel_transcribe_params_default();
  accel *ctx = NULL;
  accel_endpoint *model = NULL;
  accel_transcripts *found = NULL;
  how.timestamps = "auto"; /* segments of Whisper, words of other models */
  how.language = argc > 3 ? argv[3] : NULL;
  accel_status status = accel_create(NULL, &ctx);
  if (status == ACCEL_OK) status = accel_init(ctx, argv[1], NULL, &model);
  if (status == ACCEL_OK) status = accel_transcribe(model, &sound, 1, &how, &found);
  if (status == ACCEL_OK) {
    if (found->language[0]) printf("language: %s\n", found->language[0]);
    printf("%s\n", found->text[0]);
    for (uint32_t k = 0; k < found->count[0]; k++) {
      const accel_chunk *c = &found->chunk[0][k];
      printf("%7.2f - %7.2f %s\n", c->start, c->end, c->text);
    }
  }
  int code = status == ACCEL_OK ? 0 : report(status);
  accel_transcripts_free(&found);
  accel_cleanup(&model);
  accel_destroy(&ctx);
  return code;
}
