/* text_to_image.c - __call__ of diffusers' StableDiffusionPipeline, StableDiffusionXLPipeline and
 * StableDiffusionImg2ImgPipeline; image_flow.c has what those of SD 3 and Flux do otherwise. */
#include "tasks/text_to_image.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "models/model_build.h"
#include "processing/media.h"
#include "processing/processor.h"
#include "processing/result.h"
#include "tasks/image_job.h"

enum { MAX_SIDE = 1 << 14, MAX_IMAGES = 1024, SIZES = 6 };

/* ---- what the configs say ---- */

/* latents_mean or latents_std of SDXL's autoencoder: one number for each channel. */
static accel_status read_channels(const accel__image_job *job, const accel__json *vae,
                                  const char *key, accel__arena *arena, const float **out) {
  const accel__json *list = NULL;
  const accel__json_file *f = &job->ep->config;
  ACCEL_TRY(accel__json_array(f, vae, key, &list));
  *out = NULL;
  if (!list || !job->xl) return ACCEL_OK;
  float *values = accel__arena_array(arena, (size_t)job->channels, sizeof *values);
  int64_t n = 0;
  if (!values) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_JSON_EACH(item, list) {
    if (n == job->channels || !cJSON_IsNumber(item)) break;
    values[n++] = (float)item->valuedouble;
  }
  *out = values;
  if (n == job->channels && cJSON_GetArraySize(list) == n) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_FORMAT, "%s: vae: field '%s' should hold %lld numbers", f->name,
                     key, (long long)job->channels);
}

static accel_status read_configs(accel__image_job *job, accel__arena *arena) {
  const accel__json_file *f = &job->ep->config;
  const accel__json *unet = accel__json_get(f->root, "unet"),
                    *vae = accel__json_get(f->root, "vae"),
                    *blocks = accel__json_get(vae, "block_out_channels");
  int64_t side = 64;
  job->channels = 4;
  job->scaling = 0.18215;
  job->reduction = 1;
  for (int i = 1; i < cJSON_GetArraySize(blocks); i++) job->reduction *= 2;
  ACCEL_TRY(accel__json_int(f, unet, "sample_size", 1, MAX_SIDE, &side));
  ACCEL_TRY(accel__json_int(f, unet, "in_channels", 1, MAX_SIDE, &job->channels));
  ACCEL_TRY(accel__json_int(f, unet, "time_cond_proj_dim", 2, MAX_SIDE, &job->condition));
  ACCEL_TRY(accel__json_number(f, vae, "scaling_factor", &job->scaling));
  if (accel__image_flow(job)) return accel__flow_read(job);
  ACCEL_TRY(read_channels(job, vae, "latents_mean", arena, &job->latents_mean));
  ACCEL_TRY(read_channels(job, vae, "latents_std", arena, &job->latents_std));
  job->height = job->params->height ? job->params->height : side * job->reduction;
  job->width = job->params->width ? job->params->width : side * job->reduction;
  return ACCEL_OK;
}

/* Pixels to latents; the pixels should be multiples of `multiple`. */
static accel_status set_sides(accel__image_job *job, int64_t multiple) {
  int64_t *sides[2] = {&job->height, &job->width};
  for (int i = 0; i < 2; i++) {
    if (*sides[i] % multiple || *sides[i] > MAX_SIDE || *sides[i] < job->reduction)
      return accel__fail(
          ACCEL_ERROR_ARGUMENT, "%s is %lld pixels: multiples of %lld up to %d are possible",
          i ? "width" : "height", (long long)*sides[i], (long long)multiple, MAX_SIDE);
    *sides[i] /= job->reduction;
  }
  job->each = (uint64_t)(job->channels * job->height * job->width);
  return ACCEL_OK;
}

static accel_status open_scheduler(accel__image_job *job) {
  accel__json_file own = job->ep->config;
  own.root = (accel__json *)(uintptr_t)accel__json_get(job->ep->config.root, "scheduler");
  own.name = "scheduler_config.json";
  if (!own.root)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: model_index.json lists no scheduler",
                       job->ep->name);
  ACCEL_TRY(accel__scheduler_new(&own, job->params->scheduler, &job->scheduler));
  job->scheduler->eta = job->params->eta;
  ACCEL_TRY(accel__flow_shift(job));
  return accel__scheduler_start(job->scheduler, job->params->steps, job->images, job->each);
}

static accel_status seed_noise(accel__image_job *job) {
  const accel_text_to_image_params *p = job->params;
  job->noise.n = p->seeds ? job->images : 1;
  if (p->seeds && p->n_seeds != job->images)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%u seeds for %u pictures: there should be one each",
                       p->n_seeds, job->images);
  job->noise.generator = calloc(job->noise.n, sizeof *job->noise.generator);
  if (!job->noise.generator) return accel__no_memory(job->noise.n * sizeof *job->noise.generator);
  for (uint32_t i = 0; i < job->noise.n; i++)
    accel__generator_seed(&job->noise.generator[i], p->seeds ? p->seeds[i] : p->seed);
  return ACCEL_OK;
}

/* ---- latents to begin with ---- */

/* The picture as the autoencoder takes it: its sides cut to multiples of a latent's as Pillow resizes
 * them, or those asked for; planes of -1 to 1, malloc'd. */
static accel_status read_picture(accel__image_job *job, float **planes) {
  accel__image image;
  ACCEL_TRY(accel__media_image(job->params->image, &image));
  const int64_t asked[2] = {job->params->height, job->params->width};
  job->height = asked[0] ? asked[0] : image.height - image.height % job->reduction;
  job->width = asked[1] ? asked[1] : image.width - image.width % job->reduction;
  const int64_t height = job->height, width = job->width;
  accel_status status = set_sides(job, job->reduction);
  if (status == ACCEL_OK && (width != image.width || height != image.height))
    status = accel__image_resize(&image, (int32_t)width, (int32_t)height, ACCEL__LANCZOS,
                                 ACCEL__ROUND_PILLOW, job->ep->ctx->pool);
  const uint64_t n = (uint64_t)(height * width);
  if (status == ACCEL_OK && !(*planes = malloc(3 * n * sizeof **planes)))
    status = accel__no_memory(3 * n * sizeof **planes);
  for (uint64_t i = 0; status == ACCEL_OK && i < 3 * n; i++)
    (*planes)[i % 3 * n + i / 3] = 2.0f * ((float)image.pixels[i] / 255.0f) - 1.0f;
  accel__image_free(&image);
  return status;
}

/* A sample of the distribution that the autoencoder gives for the picture, for all pictures: with
 * one generator the same one, with a generator each one of each. */
static void sample_latents(accel__image_job *job, const float *parameters, float *out) {
  const uint64_t n = job->each, area = (uint64_t)(job->height * job->width);
  const bool normed = job->latents_mean && job->latents_std;
  for (uint32_t i = 0; i < job->noise.n; i++) {
    float *x = out + i * n;
    accel__randn(&job->noise.generator[i], x, n);
    for (uint64_t k = 0; k < n; k++) {
      const float spread = fminf(fmaxf(parameters[n + k], -30.0f), 20.0f);
      const float sample = parameters[k] + expf(0.5f * spread) * x[k],
                  mean = normed ? job->latents_mean[k / area] : 0,
                  by = normed ? job->latents_std[k / area] : 1;
      x[k] = (float)job->scaling * (sample - mean) / by;
    }
  }
  for (uint32_t i = job->noise.n; i < job->images; i++) memcpy(out + i * n, out, n * sizeof *out);
}

/* job->latents: the picture's, with the noise of the first step that is made. */
static accel_status begin_with_picture(accel__image_job *job, const float *planes) {
  const accel__model_entry *e = accel__model_entry_of(job->ep->model, "encode_pixels");
  const uint32_t steps = job->params->steps;
  const uint32_t kept = (uint32_t)((double)steps * job->params->strength);
  accel__batch batch = {0};
  accel__result found = {0};
  job->first_step = steps - (kept < steps ? kept : steps);
  if (job->scheduler->class->order > 1) job->first_step *= job->scheduler->class->order;
  if (job->first_step >= job->scheduler->n_steps)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "strength %g leaves none of %u steps",
                       job->params->strength, steps);
  batch.item[accel__entry_input(e, "pixels")] =
      (accel__item){.data = planes,
                    .rank = 4,
                    .dim = {1, 3, job->height * job->reduction, job->width * job->reduction}};
  accel_status status =
      accel__image_run(job->ep, "encode_pixels", "latent_dist.parameters", &batch, &found);
  if (status == ACCEL_OK) sample_latents(job, found.data, job->latents);
  free(found.data);
  if (status != ACCEL_OK) return status;
  accel__noise_draw(&job->noise, job->input, job->images, job->each);
  accel__scheduler_add_noise(job->scheduler, job->first_step, job->latents, job->input,
                             job->latents);
  return ACCEL_OK;
}

static void begin_with_noise(accel__image_job *job) {
  const float sigma = accel__scheduler_init_sigma(job->scheduler);
  accel__noise_draw(&job->noise, job->latents, job->images, job->each);
  if (accel__image_flow(job)) return; /* these pipelines leave it as it is */
  for (uint64_t i = 0; i < job->images * job->each; i++) job->latents[i] *= sigma;
}

/* ---- the loop ---- */

/* The guidance scale as waves, which distilled UNets are told (LatentConsistencyModelPipeline). */
static void prepare_condition(accel__image_job *job) {
  const int64_t half = job->condition / 2;
  const float scale = (float)((job->params->guidance_scale - 1) * 1000),
              step = half > 1 ? (float)(log(10000.0) / (double)(half - 1)) : 0;
  for (uint32_t r = 0; r < job->rows; r++)
    for (int64_t i = 0; i < half; i++) {
      const float angle = scale * expf((float)i * -step);
      job->timestep_cond[r * job->condition + i] = sinf(angle);
      job->timestep_cond[r * job->condition + half + i] = cosf(angle);
    }
}

/* SDXL is told the size of the picture that it learned from, what was cut off, and the size now. */
static void prepare_sizes(accel__image_job *job) {
  const float height = (float)(job->height * job->reduction),
              width = (float)(job->width * job->reduction),
              sizes[SIZES] = {height, width, 0, 0, height, width};
  for (uint32_t r = 0; r < job->rows; r++) memcpy(job->time_ids + r * SIZES, sizes, sizeof sizes);
}

static accel_status run_unet(accel__image_job *job, double timestep) {
  const accel__model_entry *e = accel__model_entry_of(job->ep->model, "forward");
  accel__batch batch = {0};
  const int64_t rows = job->rows;
  for (uint32_t i = 0; i < job->rows; i++) job->timestep[i] = (float)timestep;
  accel__image_set(
      &batch, e, "sample",
      (accel__item){
          .data = job->input, .rank = 4, .dim = {rows, job->channels, job->height, job->width}});
  accel__image_set(&batch, e, "timestep",
                   (accel__item){.data = job->timestep, .rank = 1, .dim = {rows}});
  accel__image_set(
      &batch, e, "encoder_hidden_states",
      (accel__item){.data = job->text, .rank = 3, .dim = {rows, job->text_rows, job->text_width}});
  accel__image_set(
      &batch, e, "timestep_cond",
      (accel__item){.data = job->timestep_cond, .rank = 2, .dim = {rows, job->condition}});
  accel__image_set(&batch, e, "text_embeds",
                   (accel__item){.data = job->pooled, .rank = 2, .dim = {rows, job->pooled_width}});
  accel__image_set(&batch, e, "time_ids",
                   (accel__item){.data = job->time_ids, .rank = 2, .dim = {rows, SIZES}});
  return accel__image_run(job->ep, "forward", "sample", &batch, &job->answer);
}

static double deviation(const float *x, uint64_t n) {
  double sum = 0, squares = 0;
  for (uint64_t i = 0; i < n; i++) sum += (double)x[i];
  const double mean = sum / (double)n;
  for (uint64_t i = 0; i < n; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
  return sqrt(squares / (double)(n - 1));
}

/* The answers without and with the prompt become one, in the first half. */
static void guide(accel__image_job *job) {
  const uint64_t n = job->images * job->each;
  const float scale = (float)job->params->guidance_scale,
              share = (float)job->params->guidance_rescale;
  float *without = job->answer.data;
  const float *with = without + n;
  for (uint64_t i = 0; i < n; i++) without[i] = without[i] + scale * (with[i] - without[i]);
  for (uint32_t i = 0; share > 0 && i < job->images; i++) {
    float *x = without + i * job->each;
    const float factor =
        (float)(deviation(with + i * job->each, job->each) / deviation(x, job->each));
    for (uint64_t k = 0; k < job->each; k++) x[k] = share * (x[k] * factor) + (1 - share) * x[k];
  }
}

static accel_status denoise(accel__image_job *job) {
  const accel_text_to_image_params *p = job->params;
  const uint64_t n = job->images * job->each;
  const uint32_t steps = job->scheduler->n_steps - job->first_step;
  for (uint32_t done = 0; done < steps; done++) {
    const uint32_t i = job->first_step + done;
    ACCEL_TRY(accel__check_cancelled(job->ep->ctx));
    if (accel__image_flow(job))
      memcpy(job->input, job->latents, n * sizeof *job->input);
    else
      accel__scheduler_scale(job->scheduler, i, job->latents, job->input);
    if (job->guided) memcpy(job->input + n, job->input, n * sizeof *job->input);
    ACCEL_TRY(accel__image_flow(job) ? accel__flow_run(job, job->scheduler->timestep[i])
                                     : run_unet(job, job->scheduler->timestep[i]));
    if (job->guided) guide(job);
    ACCEL_TRY(
        accel__scheduler_step(job->scheduler, i, job->answer.data, job->latents, &job->noise));
    accel__report_progress(job->ep->ctx, "denoising", done + 1, steps);
    if (p->on_step && p->on_step(p->user, done + 1, steps, job->latents, n))
      return accel__fail(ACCEL_ERROR_CANCELLED, "cancelled after step %u of %u", done + 1, steps);
  }
  return ACCEL_OK;
}

/* ---- pixels ---- */

/* Planes of -1 to 1 as 8-bit RGB, rounded as numpy does. */
static void to_rgb(const float *plane, uint64_t pixels, uint8_t *rgb) {
  for (uint64_t i = 0; i < pixels; i++)
    for (uint64_t c = 0; c < 3; c++) {
      const float x = fminf(fmaxf(plane[c * pixels + i] * 0.5f + 0.5f, 0), 1);
      rgb[3 * i + c] = (uint8_t)rintf(x * 255);
    }
}

static void unscale(accel__image_job *job) {
  const uint64_t n = job->images * job->each, area = (uint64_t)(job->height * job->width);
  const bool normed = job->latents_mean && job->latents_std;
  for (uint64_t i = 0; i < n; i++) {
    const uint64_t channel = i / area % (uint64_t)job->channels;
    const float x = normed ? job->latents[i] * job->latents_std[channel] : job->latents[i];
    job->latents[i] =
        x / (float)job->scaling + (normed ? job->latents_mean[channel] : (float)job->shift);
  }
}

/* One picture at a time: the autoencoder takes most of the memory. */
static accel_status decode(accel__image_job *job, accel__arena *arena,
                           accel_generated_image *images) {
  const accel__model_entry *e = accel__model_entry_of(job->ep->model, "decode_latents");
  const int64_t height = job->height * job->reduction, width = job->width * job->reduction;
  const uint64_t pixels = (uint64_t)(height * width);
  accel__result found = {0};
  accel_status status = ACCEL_OK;
  if (job->flux) accel__flow_unpack(job);
  unscale(job);
  for (uint32_t i = 0; i < job->images && status == ACCEL_OK; i++) {
    uint8_t *rgb = accel__arena_alloc(arena, pixels * 3);
    accel__batch batch = {0};
    accel__image_set(&batch, e, "latents",
                     (accel__item){.data = job->latents + i * job->each,
                                   .rank = 4,
                                   .dim = {1, job->channels, job->height, job->width}});
    status = rgb ? accel__image_run(job->ep, "decode_latents", "pixels", &batch, &found)
                 : ACCEL_ERROR_OUT_OF_MEMORY;
    if (status != ACCEL_OK) break;
    to_rgb(found.data, pixels, rgb);
    images[i] = (accel_generated_image){
        .width = (uint32_t)width,
        .height = (uint32_t)height,
        .rgb = rgb,
        .prompt = i / job->params->images_per_prompt,
        .seed = job->params->seeds ? job->params->seeds[i] : job->params->seed};
    accel__report_progress(job->ep->ctx, "decoding", i + 1, job->images);
  }
  free(found.data);
  return status;
}

/* ---- the task ---- */

static accel_status allocate(accel__image_job *job) {
  job->latents = malloc(job->images * job->each * sizeof *job->latents);
  job->input = malloc(job->rows * job->each * sizeof *job->input);
  job->timestep = malloc(job->rows * sizeof *job->timestep);
  job->timestep_cond = calloc(job->rows * (uint64_t)job->condition + 1, sizeof *job->timestep_cond);
  job->time_ids = malloc((uint64_t)job->rows * SIZES * sizeof *job->time_ids);
  return job->latents && job->input && job->timestep && job->timestep_cond && job->time_ids
             ? ACCEL_OK
             : accel__no_memory(job->rows * job->each * sizeof *job->input);
}

static accel_status make(accel__image_job *job, const float *planes, accel__arena *arena,
                         accel_generated_image *images) {
  job->guided = job->params->guidance_scale > 1 && job->condition == 0 && !job->flux;
  job->rows = job->guided ? 2 * job->images : job->images;
  ACCEL_TRY(open_scheduler(job));
  ACCEL_TRY(seed_noise(job));
  ACCEL_TRY(allocate(job));
  ACCEL_TRY(accel__image_prompts(job));
  prepare_condition(job);
  prepare_sizes(job);
  if (planes)
    ACCEL_TRY(begin_with_picture(job, planes));
  else
    begin_with_noise(job);
  if (accel__image_flow(job)) ACCEL_TRY(accel__flow_begin(job));
  ACCEL_TRY(denoise(job));
  return decode(job, arena, images);
}

static void free_job(accel__image_job *job) {
  free(job->answer.data);
  free(job->text);
  free(job->pooled);
  free(job->latents);
  free(job->input);
  free(job->timestep);
  free(job->timestep_cond);
  free(job->time_ids);
  accel__flow_free(job);
  free(job->noise.generator);
  accel__scheduler_free(&job->scheduler);
}

static bool is_sd3(const accel_endpoint *ep) {
  return accel__ends_with(ep->model->architecture, "StableDiffusion3Pipeline");
}
static bool is_flux(const accel_endpoint *ep) {
  return accel__ends_with(ep->model->architecture, "FluxPipeline");
}

/* What diffusers' pipeline of this class takes where nothing is said. */
static void complete(const accel_endpoint *ep, accel_text_to_image_params *p) {
  const bool xl = accel__ends_with(ep->model->architecture, "XLPipeline"),
             lcm = accel__ends_with(ep->model->architecture, "ConsistencyModelPipeline"),
             sd3 = is_sd3(ep), flux = is_flux(ep);
  if (p->steps == 0) p->steps = lcm ? 4 : sd3 || flux ? 28 : 50;
  if (isnan(p->guidance_scale))
    p->guidance_scale = lcm ? 8.5 : xl ? 5.0 : sd3 ? 7.0 : flux ? 3.5 : 7.5;
  if (p->max_sequence_length == 0) p->max_sequence_length = flux ? 512 : 256;
}

static accel_status prepare(accel__image_job *job, accel__arena *arena, float **planes) {
  ACCEL_TRY(read_configs(job, arena));
  if (accel__image_flow(job)) ACCEL_TRY(accel__flow_check(job));
  if (!job->params->image)
    return set_sides(job, accel__image_flow(job) ? job->reduction * job->patch : 8);
  return read_picture(job, planes);
}

accel_status accel__text_to_image(accel_endpoint *ep, const char *const *prompts, uint32_t n,
                                  const accel_text_to_image_params *params,
                                  accel_generated_images **out) {
  ACCEL_TRY(accel__processor_check(ep, "text-to-image"));
  if ((uint64_t)n * params->images_per_prompt > MAX_IMAGES)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%u prompts of %u pictures: at most %d pictures in a call", n,
                       params->images_per_prompt, MAX_IMAGES);
  accel_text_to_image_params mine = *params;
  complete(ep, &mine);
  accel_generated_images *result = accel__task_result(sizeof *result);
  if (!result) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel__image_job job = {.ep = ep,
                          .params = &mine,
                          .prompts = prompts,
                          .n = n,
                          .images = n * params->images_per_prompt,
                          .sd3 = is_sd3(ep),
                          .flux = is_flux(ep),
                          .xl = accel__ends_with(ep->model->architecture, "XLPipeline")};
  float *planes = NULL;
  accel__arena *arena = accel__task_arena(result);
  accel_generated_image *images = accel__arena_array(arena, job.images, sizeof *images);
  accel_status status = images ? prepare(&job, arena, &planes) : ACCEL_ERROR_OUT_OF_MEMORY;
  if (status == ACCEL_OK) status = make(&job, planes, arena, images);
  if (status == ACCEL_OK)
    *result = (accel_generated_images){.n = job.images,
                                       .image = images,
                                       .scheduler = job.scheduler->class->name,
                                       .steps = job.scheduler->n_steps - job.first_step};
  free(planes);
  free_job(&job);
  *out = accel__task_finish(result, status);
  return status;
}

accel_status accel__generated_image_write(const accel_generated_image *image, const char *path) {
  const accel__image file = {.pixels = (uint8_t *)(uintptr_t)image->rgb,
                             .width = (int32_t)image->width,
                             .height = (int32_t)image->height,
                             .borrowed = true};
  return accel__png_write(path, &file);
}
