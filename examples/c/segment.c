/* segment.c - tells what each part of a picture shows, and draws it.
 *
 *   segment MODEL PICTURE [OUT.png]            MODEL: such as nvidia/segformer-b0-finetuned-ade-512-512
 */
#include <accel/accel.h>
#include <stdio.h>

static int report(accel_status status) {
  fprintf(stderr, "%s\n%s\n", accel_last_error(), accel_last_remedy());
  return accel_status_exit_code(status);
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s MODEL PICTURE [OUT.png]\n", argv[0]);
    return 2;
  }
  const accel_media picture = {.name = argv[2]};
  accel *ctx = NULL;
  accel_endpoint *model = NULL;
  accel_segmentations *found = NULL;
  accel_status status = accel_create(NULL, &ctx);
  if (status == ACCEL_OK) status = accel_init(ctx, argv[1], NULL, &model);
  if (status == ACCEL_OK) status = accel_segment_images(model, &picture, 1, NULL, &found);
  for (uint32_t k = 0; status == ACCEL_OK && k < found->count[0]; k++)
    printf("%6.2f%%  %s\n", 100.0 * found->segment[0][k].area, found->segment[0][k].label);
  if (status == ACCEL_OK && argc > 3) status = accel_draw_segments(&picture, found, 0, argv[3]);
  int code = status == ACCEL_OK ? 0 : report(status);
  accel_segmentations_free(&found);
  accel_cleanup(&model);
  accel_destroy(&ctx);
  return code;
}
