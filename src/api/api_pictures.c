/* api_pictures.c - segments, depth and features of pictures, and results drawn: argument checks, then tasks/. */
#include <string.h>

#include "api/api_check.h"
#include "tasks/depth.h"
#include "tasks/image_features.h"
#include "tasks/segmentation.h"

accel_status accel_draw_objects(const accel_media *image, const accel_detection *objects,
                                uint32_t n, const char *path) {
  API_BEGIN();
  API_NEED(image);
  API_NEED(path);
  if (n) API_NEED(objects);
  ACCEL_TRY(accel__check_media(__func__, "image", image, 1));
  return accel__draw_objects(image, objects, n, path);
}

accel_segment_params accel_segment_params_default(void) {
  return (accel_segment_params){.size = sizeof(accel_segment_params),
                                .threshold = 0.9,
                                .mask_threshold = 0.5,
                                .overlap_threshold = 0.5};
}

accel_status accel_segment_images(accel_endpoint *endpoint, const accel_media *images, uint32_t n,
                                  const accel_segment_params *params, accel_segmentations **out) {
  API_CALL(endpoint, out);
  API_PARAMS(accel_segment_params, mine, params);
  const double share[3] = {mine.threshold, mine.mask_threshold, mine.overlap_threshold};
  static const char *const name[3] = {"threshold", "mask_threshold", "overlap_threshold"};
  for (int i = 0; i < 3; i++)
    if (!(share[i] >= 0.0 && share[i] <= 1.0))
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: %s is %g; it must be from 0 to 1", __func__,
                         name[i], share[i]);
  if (mine.subtask && strcmp(mine.subtask, "panoptic") && strcmp(mine.subtask, "instance") &&
      strcmp(mine.subtask, "semantic"))
    return accel__fail(
        ACCEL_ERROR_ARGUMENT,
        "%s: subtask is '%s'; it must be NULL, \"panoptic\", \"instance\" or \"semantic\"",
        __func__, mine.subtask);
  ACCEL_TRY(accel__check_media(__func__, "images", images, n));
  return accel__segment(endpoint, images, n, &mine, out);
}

accel_status accel_draw_segments(const accel_media *image, const accel_segmentations *found,
                                 uint32_t index, const char *path) {
  API_BEGIN();
  API_NEED(found);
  API_NEED(path);
  if (index >= found->n)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: index is %u, the result has %u pictures",
                       __func__, index, found->n);
  if (image) ACCEL_TRY(accel__check_media(__func__, "image", image, 1));
  return accel__draw_segments(image, found, index, path);
}

API_FREE_RESULT(accel_segmentations_free, accel_segmentations)

accel_status accel_estimate_depth(accel_endpoint *endpoint, const accel_media *images, uint32_t n,
                                  accel_depths **out) {
  API_CALL(endpoint, out);
  ACCEL_TRY(accel__check_media(__func__, "images", images, n));
  return accel__estimate_depth(endpoint, images, n, out);
}

accel_status accel_extract_image_features(accel_endpoint *endpoint, const accel_media *images,
                                          uint32_t n, int pool, accel_tensors **out) {
  API_CALL(endpoint, out);
  ACCEL_TRY(accel__check_media(__func__, "images", images, n));
  return accel__extract_image_features(endpoint, images, n, pool != 0, out);
}

accel_status accel_draw_depth(const accel_depths *found, uint32_t index, uint32_t bits,
                              const char *path) {
  API_BEGIN();
  API_NEED(found);
  API_NEED(path);
  if (index >= found->n)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: index is %u, the result has %u pictures",
                       __func__, index, found->n);
  if (bits != 8 && bits != 16)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: bits is %u; it must be 8 or 16", __func__, bits);
  return accel__draw_depth(found, index, bits, path);
}

API_FREE_RESULT(accel_depths_free, accel_depths)
