/* zero_shot_image.c - which of some labels fits a picture best.
 *
 *   zero_shot_image MODEL PICTURE LABEL...     MODEL: a CLIP or SigLIP, such as openai/clip-vit-base-patch32
 */
#include <accel/accel.h>
#include <stdio.h>

static int report(accel_status status) {
  fprintf(stderr, "%s\n%s\n", accel_last_error(), accel_last_remedy());
  return accel_status_exit_code(status);
}

int main(int argc, char **argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: %s MODEL PICTURE LABEL...\n", argv[0]);
    return 2;
  }
  const accel_media picture = {.name = argv[2]};
  const char *const *labels = (const char *const *)argv + 3;
  accel *ctx = NULL;
  accel_endpoint *model = NULL;
  accel_classifications *found = NULL;
  accel_status status = accel_create(NULL, &ctx);
  if (status == ACCEL_OK) status = accel_init(ctx, argv[1], NULL, &model);
  if (status == ACCEL_OK)
    status = accel_zero_shot_image(model, &picture, 1, labels, (uint32_t)argc - 3, NULL, &found);
  for (uint32_t k = 0; status == ACCEL_OK && k < found->count[0]; k++)
    printf("%.4f  %s\n", found->score[0][k].score, found->score[0][k].label);
  int code = status == ACCEL_OK ? 0 : report(status);
  accel_classifications_free(&found);
  accel_cleanup(&model);
  accel_destroy(&ctx);
  return code;
}
