/* image_unconditional.c - __call__ of diffusers' DDPMPipeline and DDIMPipeline, which make pictures
 * of noise alone. */
#include <math.h>
#include <string.h>

#include "core/text.h"
#include "processing/processor.h"
#include "tasks/image_job.h"

void accel__unconditional_complete(const accel_endpoint *ep, accel_text_to_image_params *p) {
  const bool ddim = !strcmp(ep->model->architecture, "DDIMPipeline");
  if (p->steps == 0) p->steps = ddim ? 50 : 1000;
  if (ddim && !p->scheduler) p->scheduler = "DDIMScheduler"; /* whatever the directory has */
  p->guidance_scale = 1;
}

accel_status accel__unconditional_check(const accel_endpoint *ep, uint32_t n_prompts,
                                        const accel_text_to_image_params *p) {
  const char *given = n_prompts                   ? "prompts"
                      : p->negative_prompt        ? "negative_prompt"
                      : p->image                  ? "image"
                      : p->clip_skip              ? "clip_skip"
                      : !isnan(p->guidance_scale) ? "guidance_scale"
                                                  : NULL;
  if (!given) return accel__task_check(ep, "unconditional-image-generation");
  return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: a %s makes pictures of noise alone; it takes no %s",
                     ep->name, ep->model->architecture, given);
}

accel_status accel__unconditional_read(accel__image_job *job) {
  const accel__json_file *f = &job->ep->config;
  const accel__json *unet = accel__json_get(f->root, "unet"),
                    *size = accel__json_get(unet, "sample_size");
  int64_t out = 3, side = 0;
  job->channels = 3;
  ACCEL_TRY(accel__json_int(f, unet, "in_channels", 1, 1 << 16, &job->channels));
  ACCEL_TRY(accel__json_int(f, unet, "out_channels", 1, 1 << 16, &out));
  job->input_channels = job->channels;
  job->reduction = 1;
  if (out != job->channels || (out != 1 && out != 3))
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: unet: %lld channels in and %lld out: pictures have 3 or 1 of both",
                       f->name, (long long)job->channels, (long long)out);
  if (cJSON_IsArray(size) && cJSON_GetArraySize(size) == 2) {
    job->height = (int64_t)cJSON_GetArrayItem(size, 0)->valuedouble;
    job->width = (int64_t)cJSON_GetArrayItem(size, 1)->valuedouble;
  } else {
    ACCEL_TRY(accel__json_int(f, unet, "sample_size", 1, 1 << 14, &side));
    job->height = job->width = side;
  }
  if (!side && job->height < 1)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: unet: field 'sample_size' is missing", f->name);
  const accel_text_to_image_params *p = job->params;
  if ((p->width && p->width != job->width) || (p->height && p->height != job->height))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s makes pictures of %lld x %lld pixels alone",
                       job->ep->name, (long long)job->width, (long long)job->height);
  return ACCEL_OK;
}
