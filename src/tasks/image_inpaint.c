/* image_inpaint.c - __call__ of diffusers' StableDiffusionInpaintPipeline and
 * StableDiffusionXLInpaintPipeline, and of StableDiffusion3InpaintPipeline and FluxInpaintPipeline,
 * where it differs from that without a mask.
 *
 * A UNet, or transformer, of as many channels as the latents knows nothing of the mask: after each step the picture
 * is put back where it is kept.  One that was trained for it takes the latents, the mask, and the
 * latents of the picture without what is made anew.
 */
#include <stdlib.h>
#include <string.h>

#include "processing/media.h"
#include "tasks/image_job.h"

accel_status accel__inpaint_check(const accel__image_job *job) {
  const int64_t with_mask = 2 * job->channels + 1;
  if (job->input_channels == job->channels) return ACCEL_OK;
  if (job->input_channels == with_mask && job->params->mask_image) return ACCEL_OK;
  accel__fail(job->input_channels == with_mask ? ACCEL_ERROR_ARGUMENT : ACCEL_ERROR_FORMAT,
              "%s: %s: field 'in_channels' is %lld for latents of %lld channels", job->ep->name,
              accel__image_flow(job) ? "transformer" : "unet", (long long)job->input_channels,
              (long long)job->channels);
  return job->input_channels == with_mask
             ? accel__remedy(ACCEL_ERROR_ARGUMENT,
                             "the model inpaints: give a picture and a mask (--init, --mask)")
             : ACCEL_ERROR_FORMAT;
}

/* The mask at the picture's size, malloc'd: 1 from half of white on, else 0. */
static accel_status read_mask(const accel__image_job *job, uint8_t **out) {
  const int64_t height = job->height * job->reduction, width = job->width * job->reduction;
  const uint64_t n = (uint64_t)(height * width);
  accel__image image;
  accel_status status = ACCEL_OK;
  ACCEL_TRY(accel__media_image(job->params->mask_image, &image));
  if (width != image.width || height != image.height)
    status = accel__image_resize(&image, (int32_t)width, (int32_t)height, ACCEL__LANCZOS,
                                 ACCEL__ROUND_PILLOW, job->ep->ctx->pool);
  *out = status == ACCEL_OK ? malloc(n) : NULL;
  if (status == ACCEL_OK && !*out) status = accel__no_memory(n);
  for (uint64_t i = 0; status == ACCEL_OK && i < n; i++) {
    const uint8_t *rgb = image.pixels + 3 * i; /* to grey as Pillow, which rounds */
    const uint32_t grey = (rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16;
    (*out)[i] = grey >= 128;
  }
  accel__image_free(&image);
  return status;
}

static float *floats(uint64_t n) { return malloc(n * sizeof(float)); }

static accel_status allocate(accel__image_job *job, bool keeps) {
  const uint64_t area = (uint64_t)(job->height * job->width), all = job->images * job->each,
                 wide = job->rows * (uint64_t)job->input_channels * area;
  job->mask = floats(area);
  job->mask_size = area;
  job->kept = keeps ? floats(all) : NULL;
  job->first_noise = floats(all);
  job->masked = floats(all);
  job->wide = job->input_channels > job->channels ? floats(wide) : NULL;
  return job->mask && (job->kept || !keeps) && job->first_noise && job->masked &&
                 (job->wide || job->input_channels == job->channels)
             ? ACCEL_OK
             : accel__no_memory(wide * sizeof(float));
}

/* The mask of the latents: of each one that of its first pixel. */
static void shrink_mask(accel__image_job *job, const uint8_t *mask) {
  for (int64_t y = 0; y < job->height; y++)
    for (int64_t x = 0; x < job->width; x++)
      job->mask[y * job->width + x] = mask[(y * job->width * job->reduction + x) * job->reduction];
}

/* Latents of the picture without what the mask covers; where the UNet does not look at them, what
 * diffusers draws for them is drawn. */
static accel_status encode_masked(accel__image_job *job, const float *planes, const uint8_t *mask) {
  const uint64_t n = (uint64_t)(job->height * job->width * job->reduction * job->reduction);
  if (!job->wide) {
    if (!job->certain) accel__randn(&job->noise.generator[0], job->masked, job->each);
    return ACCEL_OK;
  }
  float *rest = malloc(3 * n * sizeof *rest);
  if (!rest) return accel__no_memory(3 * n * sizeof *rest);
  for (uint64_t i = 0; i < 3 * n; i++) rest[i] = mask[i % n] ? 0 : planes[i];
  const accel_status status = accel__image_encode(job, rest, 1, false, job->masked);
  free(rest);
  return status;
}

static accel_status begin(accel__image_job *job, const float *planes, const uint8_t *mask) {
  /* FluxInpaintPipeline begins with the picture at any strength */
  const bool anew = job->params->strength >= 1 && !job->flux,
             keeps = job->input_channels == job->channels;
  const uint64_t n = job->images * job->each;
  ACCEL_TRY(allocate(job, keeps || !anew));
  shrink_mask(job, mask);
  /* the generators draw in diffusers' order: the picture, the noise, the masked picture */
  if (job->kept) ACCEL_TRY(accel__image_encode(job, planes, 1, false, job->kept));
  accel__noise_draw(&job->noise, job->first_noise, job->images, job->each);
  if (anew) {
    const float sigma = accel__scheduler_init_sigma(job->scheduler);
    for (uint64_t i = 0; i < n; i++) job->latents[i] = job->first_noise[i] * sigma;
  } else {
    accel__scheduler_add_noise(job->scheduler, job->first_step, job->kept, job->first_noise,
                               job->latents);
  }
  return encode_masked(job, planes, mask);
}

accel_status accel__inpaint_begin(accel__image_job *job, const float *planes) {
  uint8_t *mask;
  ACCEL_TRY(read_mask(job, &mask));
  const accel_status status = begin(job, planes, mask);
  free(mask);
  return status;
}

void accel__inpaint_widen(accel__image_job *job) {
  const uint64_t area = (uint64_t)(job->height * job->width),
                 one = (uint64_t)job->input_channels * area;
  for (uint32_t r = 0; job->wide && r < job->rows; r++) {
    float *to = job->wide + r * one;
    memcpy(to, job->input + r * job->each, job->each * sizeof *to);
    memcpy(to + job->each, job->mask, area * sizeof *to);
    memcpy(to + job->each + area, job->masked, job->each * sizeof *to);
  }
}

void accel__inpaint_blend(accel__image_job *job, uint32_t i) {
  const float *kept = job->kept;
  if (!job->mask || job->wide) return;
  if (i + 1 < job->scheduler->n_steps) {
    accel__scheduler_add_noise(job->scheduler, i + 1, job->kept, job->first_noise, job->input);
    kept = job->input;
  }
  for (uint64_t k = 0; k < job->images * job->each; k++) {
    const float mask = job->mask[k % job->mask_size];
    job->latents[k] = (1 - mask) * kept[k] + mask * job->latents[k];
  }
}

void accel__inpaint_free(accel__image_job *job) {
  free(job->mask);
  free(job->kept);
  free(job->first_noise);
  free(job->masked);
  free(job->wide);
}
