/* image_parameters.c - how a picture was made, as WebUIs write it into their PNG files. */
#include <string.h>

#include "core/text.h"
#include "tasks/image_job.h"

/* The last part of its name: a picture that is given away does not tell where its maker keeps files. */
static void write_model(const char *name, accel__buffer *b) {
  size_t end = strlen(name), begin;
  while (end > 1 && name[end - 1] == '/') end--;
  for (begin = end; begin > 0 && name[begin - 1] != '/';) begin--;
  accel__buffer_text(b, ", Model: ");
  accel__buffer_bytes(b, name + begin, end - begin);
}

/* "Steps: 20, Sampler: EulerDiscreteScheduler, CFG scale: 7.5, Seed: 3, Size: 512x512, ..." */
static void write_settings(const accel__image_job *job, const accel_generated_image *image,
                           uint32_t index, accel__buffer *b) {
  const accel_text_to_image_params *p = job->params;
  accel__buffer_printf(b, "Steps: %u, Sampler: %s", p->steps, job->scheduler->class->name);
  if (!job->unconditional) accel__buffer_printf(b, ", CFG scale: %g", p->guidance_scale);
  accel__buffer_printf(b, ", Seed: %llu", (unsigned long long)image->seed);
  accel__buffer_printf(b, ", Size: %ux%u", image->width, image->height);
  write_model(job->ep->name, b);
  if (!p->seeds && job->images > 1)
    accel__buffer_printf(b, ", Batch size: %u, Batch pos: %u", job->images, index);
  if (p->true_cfg_scale > 1) accel__buffer_printf(b, ", True CFG scale: %g", p->true_cfg_scale);
  for (uint32_t i = 0; i < p->n_skip_guidance_layers; i++)
    accel__buffer_printf(b, "%s%u", i ? " " : ", Skipped layers: ", p->skip_guidance_layers[i]);
  if (p->n_skip_guidance_layers)
    accel__buffer_printf(b, ", Skip layer scale: %g, Skip layer start: %g, Skip layer stop: %g",
                         p->skip_layer_guidance_scale, p->skip_layer_guidance_start,
                         p->skip_layer_guidance_stop);
  if (p->image) accel__buffer_printf(b, ", Denoising strength: %g", p->strength);
  if (p->clip_skip) accel__buffer_printf(b, ", Clip skip: %u", p->clip_skip);
  if (p->guidance_rescale > 0)
    accel__buffer_printf(b, ", Guidance rescale: %g", p->guidance_rescale);
  if (p->eta > 0) accel__buffer_printf(b, ", Eta: %g", p->eta);
  if (image->flagged >= 0)
    accel__buffer_printf(b, ", Safety checker: %s", image->flagged ? "flagged" : "passed");
  accel__buffer_text(b, ", Version: accel " ACCEL_VERSION_STRING);
}

accel_status accel__image_describe(const accel__image_job *job, uint32_t index, accel__arena *arena,
                                   accel_generated_image *image) {
  accel__buffer b = {0};
  if (!job->unconditional) {
    accel__buffer_text(&b, job->prompts[image->prompt]);
    accel__buffer_text(&b, "\n");
  }
  if (job->params->negative_prompt && *job->params->negative_prompt) {
    accel__buffer_text(&b, "Negative prompt: ");
    accel__buffer_text(&b, job->params->negative_prompt);
    accel__buffer_text(&b, "\n");
  }
  write_settings(job, image, index, &b);
  accel_status status = accel__buffer_status(&b);
  image->parameters = status == ACCEL_OK ? accel__arena_string(arena, b.data) : NULL;
  if (status == ACCEL_OK && !image->parameters) status = ACCEL_ERROR_OUT_OF_MEMORY;
  accel__buffer_free(&b);
  return status;
}
