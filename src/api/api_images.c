/* api_images.c - pictures from texts: argument checks, then tasks/. */
#include <math.h>

#include "api/api_check.h"
#include "tasks/text_to_image.h"

accel_text_to_image_params accel_text_to_image_params_default(void) {
  return (accel_text_to_image_params){.size = sizeof(accel_text_to_image_params),
                                      .images_per_prompt = 1,
                                      .guidance_scale = NAN,
                                      .skip_layer_guidance_scale = NAN,
                                      .skip_layer_guidance_start = NAN,
                                      .skip_layer_guidance_stop = NAN,
                                      .true_cfg_scale = NAN,
                                      .strength = NAN};
}

accel_status accel_text_to_image(accel_endpoint *endpoint, const char *const *prompts, uint32_t n,
                                 const accel_text_to_image_params *params,
                                 accel_generated_images **out) {
  API_CALL(endpoint, out);
  API_PARAMS(accel_text_to_image_params, mine, params);
  if (n) {
    API_NEED(prompts);
    ACCEL_TRY(accel__check_texts(__func__, "prompts", prompts, n));
  }
  if (!mine.images_per_prompt)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: images_per_prompt is 0", __func__);
  if (isinf(mine.guidance_scale))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: guidance_scale is %g", __func__,
                       mine.guidance_scale);
  if (!(mine.guidance_rescale >= 0 && mine.guidance_rescale <= 1) ||
      !(mine.eta >= 0 && mine.eta <= 1))
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: guidance_rescale is %g, eta is %g; both must be from 0 to 1", __func__,
                       mine.guidance_rescale, mine.eta);
  if (mine.strength < 0 || mine.strength > 1)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: strength is %g; it must be from 0 to 1", __func__,
                       mine.strength);
  if (isinf(mine.true_cfg_scale) || isinf(mine.skip_layer_guidance_scale) ||
      isinf(mine.skip_layer_guidance_start) || isinf(mine.skip_layer_guidance_stop))
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: true_cfg_scale and skip_layer_guidance_* must be finite", __func__);
  if (mine.n_skip_guidance_layers) API_NEED(mine.skip_guidance_layers);
  if (mine.image) ACCEL_TRY(accel__check_media(__func__, "image", mine.image, 1));
  if (!mine.mask_image) return accel__text_to_image(endpoint, prompts, n, &mine, out);
  ACCEL_TRY(accel__check_media(__func__, "mask_image", mine.mask_image, 1));
  if (!mine.image)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: mask_image without image", __func__);
  return accel__text_to_image(endpoint, prompts, n, &mine, out);
}

API_FREE_RESULT(accel_generated_images_free, accel_generated_images)

accel_status accel_generated_image_write(const accel_generated_image *image, const char *path) {
  API_BEGIN();
  API_NEED(image);
  API_NEED(path);
  return accel__generated_image_write(image, path);
}
