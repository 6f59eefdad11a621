/* detect_objects.c - finds the objects in a picture, and draws them.
 *
 *   detect_objects MODEL PICTURE [OUT.png]     MODEL: a DETR or YOLOS, such as facebook/detr-resnet-50
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
  accel_detections *found = NULL;
  accel_status status = accel_create(NULL, &ctx);
  if (status == ACCEL_OK) status = accel_init(ctx, argv[1], NULL, &model);
  if (status == ACCEL_OK) status = accel_detect_objects(model, &picture, 1, NULL, &found);
  for (uint32_t k = 0; status == ACCEL_OK && k < found->count[0]; k++) {
    const accel_detection *o = &found->object[0][k];
    printf("%.4f  %s  from %.0f,%.0f to %.0f,%.0f\n", o->score, o->label, o->xmin, o->ymin, o->xmax,
           o->ymax);
  }
  if (status == ACCEL_OK && argc > 3)
    status = accel_draw_objects(&picture, found->object[0], found->count[0], argv[3]);
  int code = status == ACCEL_OK ? 0 : report(status);
  accel_detections_free(&found);
  accel_cleanup(&model);
  accel_destroy(&ctx);
  return code;
}
