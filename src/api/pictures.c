/* pictures.c - segments of pictures, and results drawn into them: argument checks, then tasks/. */
#include <string.h>

#include "api/check.h"
#include "tasks/tasks.h"

accel_status accel_draw_objects(const accel_media *image, const accel_detection *objects, uint32_t n, const char *path) {
  API_BEGIN();
  API_NEED(image);
  API_NEED(path);
  if (n) API_NEED(objects);
  ACCEL_TRY(accel__check_media(__func__, "image", image, 1));
  return accel__draw_objects(image, objects, n, path);
}

accel_status accel_segment_images(accel_endpoint *endpoint, const accel_media *images, uint32_t n,
                                  accel_segmentations **out) {
  API_BEGIN();
  API_OUT(out);
  API_NEED(endpoint);
  ACCEL_TRY(accel__check_media(__func__, "images", images, n));
  return accel__segment(endpoint, images, n, out);
}

accel_status accel_draw_segments(const accel_media *image, const accel_segmentations *found, uint32_t index,
                                 const char *path) {
  API_BEGIN();
  API_NEED(found);
  API_NEED(path);
  if (index >= found->n)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: index is %u, the result has %u pictures", __func__, index, found->n);
  if (image) ACCEL_TRY(accel__check_media(__func__, "image", image, 1));
  return accel__draw_segments(image, found, index, path);
}

API_FREE_RESULT(accel_segmentations_free, accel_segmentations)
