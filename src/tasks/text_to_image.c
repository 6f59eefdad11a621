/* text_to_image.c - __call__ of diffusers' StableDiffusionPipeline, StableDiffusionXLPipeline and
 * StableDiffusionImg2ImgPipeline; image_flow.c has what those of SD 3 and Flux do otherwise,
 * image_inpaint.c what inpainting adds, and image_unconditional.c what pipelines without a text do
 * otherwise. */
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

/* The side that the autoencoder was trained for is that of its tiles. */
static accel_status read_tile(accel__image_job *job, const accel__json *vae) {
  const accel__json_file *f = &job->ep->config;
  const accel__json *size = accel__json_get(vae, "sample_size");
  if (!job->params->vae_tiling) return ACCEL_OK;
  if (job->certain)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: an AutoencoderTiny is not run over tiles",
                       job->ep->name);
  job->tile = 32;
  if (!cJSON_IsArray(size)) return accel__json_int(f, vae, "sample_size", 1, MAX_SIDE, &job->tile);
  if (!cJSON_IsNumber(size->child) || !(size->child->valuedouble >= 1) ||
      size->child->valuedouble > MAX_SIDE)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: vae: field 'sample_size' is malformed", f->name);
  job->tile = (int64_t)size->child->valuedouble;
  return ACCEL_OK;
}

static accel_status read_configs(accel__image_job *job, accel__arena *arena) {
  const accel__json_file *f = &job->ep->config;
  const accel__json *unet = accel__json_get(f->root, "unet"),
                    *vae = accel__json_get(f->root, "vae"), *blocks;
  int64_t side = 64;
  if (job->unconditional) return accel__unconditional_read(job);
  job->channels = job->input_channels = 4;
  const char *class = "AutoencoderKL";
  ACCEL_TRY(accel__json_string(f, vae, "_class_name", &class));
  job->certain = !strcmp(class, "AutoencoderTiny");
  job->scaling = job->certain ? 1 : 0.18215;
  blocks = accel__json_get(vae, job->certain ? "decoder_block_out_channels" : "block_out_channels");
  job->reduction = job->certain && !blocks ? 8 : 1;
  for (int i = 1; i < cJSON_GetArraySize(blocks); i++) job->reduction *= 2;
  ACCEL_TRY(accel__json_int(f, unet, "sample_size", 1, MAX_SIDE, &side));
  ACCEL_TRY(accel__json_int(f, unet, "in_channels", 1, MAX_SIDE, &job->input_channels));
  ACCEL_TRY(accel__json_int(f, vae, "latent_channels", 1, MAX_SIDE, &job->channels));
  ACCEL_TRY(accel__json_int(f, unet, "time_cond_proj_dim", 2, MAX_SIDE, &job->condition));
  ACCEL_TRY(accel__json_number(f, vae, "scaling_factor", &job->scaling));
  ACCEL_TRY(read_tile(job, vae));
  if (accel__image_flow(job)) return accel__flow_read(job);
  ACCEL_TRY(read_channels(job, vae, "latents_mean", arena, &job->latents_mean));
  ACCEL_TRY(read_channels(job, vae, "latents_std", arena, &job->latents_std));
  job->height = job->params->height ? job->params->height : side * job->reduction;
  job->width = job->params->width ? job->params->width : side * job->reduction;
  return accel__inpaint_check(job);
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

/* What diffusers' pipelines change in their scheduler's config, whatever it says.  A scheduler in its
 * place is made of the changed config, and has its own defaults of fields that this one lacks. */
static void adjust_scheduler(accel__image_job *job, const accel__json_file *own) {
  accel__scheduler_config *c = &job->scheduler->config;
  if (!strstr(job->ep->model->architecture, "StableDiffusion") || job->xl || accel__image_flow(job))
    return;
  const bool same = !job->params->scheduler;
  c->steps_offset = 1;
  if (job->params->mask_image && (same || accel__json_get(own->root, "skip_prk_steps")))
    c->skip_prk_steps = true;
  if (!job->params->mask_image && (same || accel__json_get(own->root, "clip_sample")))
    c->clip_sample = false;
}

accel_status accel__image_scheduler(accel__image_job *job) {
  accel__json_file own = job->ep->config;
  own.root = (accel__json *)(uintptr_t)accel__json_get(job->ep->config.root, "scheduler");
  own.name = "scheduler_config.json";
  if (!own.root)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: model_index.json lists no scheduler",
                       job->ep->name);
  ACCEL_TRY(accel__scheduler_new(&own, job->params->scheduler, &job->scheduler));
  adjust_scheduler(job, &own);
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

/* The picture as the autoencoder takes it: its sides those asked for, or cut to multiples of a
 * latent's as Pillow resizes them (with a mask, and of SD 3 and Flux, the model's); planes of -1 to 1, malloc'd. */
static accel_status read_picture(accel__image_job *job, float **planes) {
  accel__image image;
  ACCEL_TRY(accel__media_image(job->params->image, &image));
  const bool own_size = !job->params->mask_image && !accel__image_flow(job);
  if (!job->params->height && own_size) job->height = image.height - image.height % job->reduction;
  if (!job->params->width && own_size) job->width = image.width - image.width % job->reduction;
  const int64_t height = job->height, width = job->width;
  accel_status status =
      set_sides(job, accel__image_flow(job) ? job->reduction * job->patch : job->reduction);
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

/* Samples of the distribution that the autoencoder gives for the picture, one of each of the first
 * n_generators generators; the pictures behind have the last one. */
static void sample_latents(accel__image_job *job, const float *parameters, uint32_t n_generators,
                           bool normed, float *out) {
  const uint64_t n = job->each, area = (uint64_t)(job->height * job->width);
  for (uint32_t i = 0; i < n_generators; i++) {
    float *x = out + i * n;
    if (!job->certain) accel__randn(&job->noise.generator[i], x, n);
    for (uint64_t k = 0; k < n; k++) {
      const float spread =
          job->certain ? 0 : expf(0.5f * fminf(fmaxf(parameters[n + k], -30.0f), 20.0f)) * x[k];
      const float sample = parameters[k] + spread,
                  mean = normed ? job->latents_mean[k / area] : (float)job->shift,
                  by = normed ? job->latents_std[k / area] : 1;
      x[k] = (float)job->scaling * (sample - mean) / by;
    }
  }
  for (uint32_t i = n_generators; i < job->images; i++)
    memcpy(out + i * n, out + (i - 1) * n, n * sizeof *out);
}

accel_status accel__image_encode(accel__image_job *job, const float *planes, uint32_t n_generators,
                                 bool normed, float *out) {
  const accel__model_entry *e = accel__model_entry_of(job->ep->model, "encode_pixels");
  accel__batch batch = {0};
  accel__result found = {0};
  batch.item[accel__entry_input(e, "pixels")] =
      (accel__item){.data = planes,
                    .rank = 4,
                    .dim = {1, 3, job->height * job->reduction, job->width * job->reduction}};
  float *joined = NULL;
  accel_status status =
      accel__image_tiles(job)
          ? accel__image_in_tiles(job, false, planes, &joined)
          : accel__entry_run(job->ep, "encode_pixels",
                             job->certain ? "latents" : "latent_dist.parameters", &batch, &found);
  if (status == ACCEL_OK)
    sample_latents(job, joined ? joined : found.data, n_generators,
                   normed && job->latents_mean && job->latents_std, out);
  free(joined);
  free(found.data);
  return status;
}

/* Steps before the first one that is made: strength is the share that is. */
static accel_status skip_steps(accel__image_job *job) {
  const uint32_t steps = job->params->steps;
  const double share = fmin((double)steps * job->params->strength, steps);
  /* the pipelines of SD 3 and Flux round the other way */
  job->first_step = accel__image_flow(job) ? (uint32_t)(steps - share) : steps - (uint32_t)share;
  if (job->scheduler->class->order > 1) job->first_step *= job->scheduler->class->order;
  if (job->first_step < job->scheduler->n_steps) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_ARGUMENT, "strength %g leaves none of %u steps",
                     job->params->strength, steps);
}

/* job->latents: the picture's, with the noise of the first step that is made. */
static accel_status begin_with_picture(accel__image_job *job, const float *planes) {
  const uint32_t n =
      job->flux ? 1 : job->noise.n; /* as FluxImg2ImgPipeline draws for one picture */
  ACCEL_TRY(accel__image_encode(job, planes, n, true, job->latents));
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

void accel__image_unet_batch(const accel__image_job *job, accel__batch *batch) {
  const accel__model_entry *e = accel__model_entry_of(job->ep->model, "forward");
  const int64_t rows = job->rows;
  accel__entry_set(batch, e, "sample",
                   (accel__item){.data = job->wide ? job->wide : job->input,
                                 .rank = 4,
                                 .dim = {rows, job->input_channels, job->height, job->width}});
  accel__entry_set(batch, e, "timestep",
                   (accel__item){.data = job->timestep, .rank = 1, .dim = {rows}});
  accel__entry_set(
      batch, e, "encoder_hidden_states",
      (accel__item){.data = job->text, .rank = 3, .dim = {rows, job->text_rows, job->text_width}});
  accel__entry_set(
      batch, e, "timestep_cond",
      (accel__item){.data = job->timestep_cond, .rank = 2, .dim = {rows, job->condition}});
  accel__entry_set(batch, e, "text_embeds",
                   (accel__item){.data = job->pooled, .rank = 2, .dim = {rows, job->pooled_width}});
  accel__entry_set(batch, e, "time_ids",
                   (accel__item){.data = job->time_ids, .rank = 2, .dim = {rows, SIZES}});
}

static accel_status run_unet(accel__image_job *job, double timestep) {
  const accel__model_entry *e = accel__model_entry_of(job->ep->model, "forward");
  accel__batch batch = {0};
  const int32_t at = accel__entry_input(e, "timestep");
  const accel_plugin_program *p = accel__program_view(job->ep->model->program);
  const bool whole = /* looked up in a table */
      at >= 0 && p->tensor[e->inputs[at].tensor].dtype == ACCEL_PLUGIN_I32;
  for (uint32_t i = 0; i < job->rows; i++)
    job->timestep[i] = whole ? (timestep_value){.whole = (int32_t)timestep}
                             : (timestep_value){.number = (float)timestep};
  accel__image_unet_batch(job, &batch);
  return accel__entry_run(job->ep, "forward", "sample", &batch, &job->answer);
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
  const float scale =
                  (float)(job->flux ? job->params->true_cfg_scale : job->params->guidance_scale),
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

/* Numbers beyond fp16 become infinite or NaN in some models' halves: no picture, and black if shown. */
static accel_status check_finite(const accel__image_job *job, const char *what, const float *x,
                                 uint64_t n) {
  for (uint64_t i = 0; i < n; i++)
    if (!isfinite(x[i])) {
      accel__fail(ACCEL_ERROR_NONFINITE, "%s: %s are not finite at precision %s", job->ep->name,
                  what, job->ep->placement.precision);
      return accel__remedy(ACCEL_ERROR_NONFINITE, "try --precision bf16 or fp32");
    }
  return ACCEL_OK;
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
    accel__inpaint_widen(job);
    ACCEL_TRY(accel__image_flow(job) ? accel__flow_run(job, job->scheduler->timestep[i])
                                     : run_unet(job, job->scheduler->timestep[i]));
    if (job->guided) guide(job);
    ACCEL_TRY(accel__flow_skip(job, i));
    ACCEL_TRY(
        accel__scheduler_step(job->scheduler, i, job->answer.data, job->latents, &job->noise));
    accel__inpaint_blend(job, i);
    ACCEL_TRY(check_finite(job, "latents", job->latents, n));
    accel__report_progress(job->ep->ctx, "denoising", done + 1, steps);
    if (p->on_step && p->on_step(p->user, done + 1, steps, job->latents, n))
      return accel__fail(ACCEL_ERROR_CANCELLED, "cancelled after step %u of %u", done + 1, steps);
  }
  return ACCEL_OK;
}

/* ---- pixels ---- */

/* Planes of -1 to 1, three or one, as 8-bit RGB, rounded as numpy does. */
static void to_rgb(const float *plane, uint64_t pixels, bool grey, uint8_t *rgb) {
  for (uint64_t i = 0; i < pixels; i++)
    for (uint64_t c = 0; c < 3; c++) {
      const float x = fminf(fmaxf(plane[(grey ? 0 : c * pixels) + i] * 0.5f + 0.5f, 0), 1);
      rgb[3 * i + c] = (uint8_t)rintf(x * 255);
    }
}

static void unscale(accel__image_job *job) {
  const uint64_t n = job->images * job->each, area = (uint64_t)(job->height * job->width);
  const bool normed = job->latents_mean && job->latents_std;
  /* StableDiffusion3InpaintPipeline does not give back the shift that it takes off the picture */
  const float shift = job->sd3 && job->mask ? 0 : (float)job->shift;
  for (uint64_t i = 0; i < n; i++) {
    const uint64_t channel = i / area % (uint64_t)job->channels;
    const float x = normed ? job->latents[i] * job->latents_std[channel] : job->latents[i];
    job->latents[i] = x / (float)job->scaling + (normed ? job->latents_mean[channel] : shift);
  }
}

/* Pixels of picture i into rgb[height * width * 3]. */
static accel_status decode_one(accel__image_job *job, uint32_t i, uint64_t pixels,
                               accel__result *found, uint8_t *rgb) {
  const float *latents = job->latents + i * job->each;
  if (job->unconditional) {
    to_rgb(latents, pixels, job->channels == 1, rgb);
    return ACCEL_OK;
  }
  const accel__model_entry *e = accel__model_entry_of(job->ep->model, "decode_latents");
  accel__batch batch = {0};
  accel__entry_set(
      &batch, e, "latents",
      (accel__item){
          .data = latents, .rank = 4, .dim = {1, job->channels, job->height, job->width}});
  float *joined = NULL;
  ACCEL_TRY(accel__image_tiles(job)
                ? accel__image_in_tiles(job, true, latents, &joined)
                : accel__entry_run(job->ep, "decode_latents", "pixels", &batch, found));
  const float *planes = joined ? joined : found->data;
  const accel_status status = check_finite(job, "pixels", planes, 3 * pixels);
  if (status == ACCEL_OK) to_rgb(planes, pixels, false, rgb);
  free(joined);
  return status;
}

/* One picture at a time: the autoencoder takes most of the memory. */
static accel_status decode(accel__image_job *job, accel__arena *arena,
                           accel_generated_image *images) {
  const int64_t height = job->height * job->reduction, width = job->width * job->reduction;
  const uint64_t pixels = (uint64_t)(height * width);
  accel__result found = {0};
  accel_status status = ACCEL_OK;
  uint32_t black = 0;
  if (job->flux) accel__flow_unpack(job);
  if (!job->unconditional) unscale(job);
  for (uint32_t i = 0; i < job->images && status == ACCEL_OK; i++) {
    uint8_t *rgb = accel__arena_alloc(arena, pixels * 3);
    status = rgb ? decode_one(job, i, pixels, &found, rgb) : ACCEL_ERROR_OUT_OF_MEMORY;
    if (status != ACCEL_OK) break;
    images[i] = (accel_generated_image){
        .width = (uint32_t)width,
        .height = (uint32_t)height,
        .rgb = rgb,
        .prompt = i / job->params->images_per_prompt,
        .seed = job->params->seeds ? job->params->seeds[i] : job->params->seed};
    status = accel__safety_check(job, width, height, rgb, &images[i].flagged);
    if (status == ACCEL_OK) status = accel__image_describe(job, i, arena, &images[i]);
    black += images[i].flagged == 1;
    accel__report_progress(job->ep->ctx, "decoding", i + 1, job->images);
  }
  if (black)
    accel__logf(&job->ep->ctx->log, ACCEL_LOG_WARNING,
                "%s: the safety checker flagged %u of %u pictures, which are black; another prompt "
                "or seed may give others",
                job->ep->name, black, job->images);
  free(found.data);
  return status;
}

/* ---- the task ---- */

static bool is_unconditional(const accel_endpoint *ep) {
  return !strcmp(ep->model->task, "unconditional-image-generation");
}

static bool is_xl(const accel_endpoint *ep) {
  return strstr(ep->model->architecture, "StableDiffusionXL") != NULL;
}

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
  ACCEL_TRY(accel__safety_open(job, arena));
  ACCEL_TRY(accel__image_scheduler(job));
  ACCEL_TRY(seed_noise(job));
  ACCEL_TRY(allocate(job));
  if (!job->unconditional) ACCEL_TRY(accel__image_prompts(job));
  prepare_condition(job);
  prepare_sizes(job);
  if (planes) ACCEL_TRY(skip_steps(job));
  if (job->params->mask_image)
    ACCEL_TRY(accel__inpaint_begin(job, planes));
  else if (planes)
    ACCEL_TRY(begin_with_picture(job, planes));
  else
    begin_with_noise(job);
  if (accel__image_flow(job)) ACCEL_TRY(accel__flow_begin(job));
  ACCEL_TRY(denoise(job));
  return decode(job, arena, images);
}

void accel__image_end(accel__image_job *job) {
  free(job->answer.data);
  free(job->text);
  free(job->pooled);
  free(job->latents);
  free(job->input);
  free(job->timestep);
  free(job->timestep_cond);
  free(job->time_ids);
  accel__flow_free(job);
  accel__inpaint_free(job);
  free(job->noise.generator);
  accel__scheduler_free(&job->scheduler);
}

static bool is_sd3(const accel_endpoint *ep) {
  return accel__starts_with(ep->model->architecture, "StableDiffusion3");
}
static bool is_flux(const accel_endpoint *ep) {
  return accel__starts_with(ep->model->architecture, "Flux");
}

/* What diffusers' pipeline of this class takes where nothing is said. */
static void complete(const accel_endpoint *ep, accel_text_to_image_params *p) {
  if (is_unconditional(ep)) accel__unconditional_complete(ep, p);
  const bool xl = is_xl(ep), mask = p->mask_image, sd3 = is_sd3(ep), flux = is_flux(ep),
             flow = sd3 || flux,
             lcm = accel__ends_with(ep->model->architecture, "ConsistencyModelPipeline");
  if (p->steps == 0) p->steps = lcm ? 4 : flux || (sd3 && !p->image) ? 28 : 50;
  if (isnan(p->guidance_scale))
    p->guidance_scale = lcm           ? 8.5
                        : xl && !mask ? 5.0
                        : sd3         ? 7.0
                        : flux        ? (p->image ? 7.0 : 3.5)
                                      : 7.5;
  if (isnan(p->strength)) p->strength = flow ? 0.6 : mask ? (xl ? 0.9999 : 1.0) : xl ? 0.3 : 0.8;
  if (isnan(p->true_cfg_scale)) p->true_cfg_scale = 1.0;
  if (isnan(p->skip_layer_guidance_scale)) p->skip_layer_guidance_scale = 2.8;
  if (isnan(p->skip_layer_guidance_start)) p->skip_layer_guidance_start = 0.01;
  if (isnan(p->skip_layer_guidance_stop)) p->skip_layer_guidance_stop = 0.2;
  if (p->max_sequence_length == 0) p->max_sequence_length = flux ? 512 : 256;
}

accel_status accel__image_begin(accel_endpoint *ep, const char *const *prompts, uint32_t n,
                                accel_text_to_image_params *params, accel__arena *arena,
                                accel__image_job *job, float **planes) {
  complete(ep, params);
  *job = (accel__image_job){.ep = ep,
                            .params = params,
                            .prompts = prompts,
                            .n = n,
                            .images = (n ? n : 1) * params->images_per_prompt,
                            .unconditional = is_unconditional(ep),
                            .sd3 = is_sd3(ep),
                            .flux = is_flux(ep),
                            .xl = is_xl(ep)};
  ACCEL_TRY(read_configs(job, arena));
  job->guided = job->flux ? params->true_cfg_scale > 1 && params->negative_prompt
                          : params->guidance_scale > 1 && job->condition == 0;
  job->rows = job->guided ? 2 * job->images : job->images;
  if (accel__image_flow(job)) ACCEL_TRY(accel__flow_check(job));
  if (params->true_cfg_scale > 1 && !job->flux)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: true_cfg_scale is of Flux; a %s has guidance_scale", job->ep->name,
                       job->ep->model->architecture);
  ACCEL_TRY(accel__flow_read_skipped(job));
  if (!params->image)
    return set_sides(job, job->unconditional       ? 1
                          : accel__image_flow(job) ? job->reduction * job->patch
                                                   : 8);
  return read_picture(job, planes);
}

accel_status accel__text_to_image(accel_endpoint *ep, const char *const *prompts, uint32_t n,
                                  const accel_text_to_image_params *params,
                                  accel_generated_images **out) {
  const uint32_t each = n ? n : 1;
  ACCEL_TRY(is_unconditional(ep) ? accel__unconditional_check(ep, n, params)
                                 : accel__processor_check(ep, "text-to-image"));
  if (!n && !is_unconditional(ep))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: no prompts are given", ep->name);
  if ((uint64_t)each * params->images_per_prompt > MAX_IMAGES)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%u prompts of %u pictures: at most %d pictures in a call", n,
                       params->images_per_prompt, MAX_IMAGES);
  accel_text_to_image_params mine = *params;
  accel_generated_images *result = accel__task_result(sizeof *result);
  if (!result) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel__image_job job;
  float *planes = NULL;
  accel__arena *arena = accel__task_arena(result);
  accel_status status = accel__image_begin(ep, prompts, n, &mine, arena, &job, &planes);
  accel_generated_image *images = NULL;
  if (status == ACCEL_OK && !(images = accel__arena_array(arena, job.images, sizeof *images)))
    status = ACCEL_ERROR_OUT_OF_MEMORY;
  if (status == ACCEL_OK) status = make(&job, planes, arena, images);
  if (status == ACCEL_OK)
    *result = (accel_generated_images){.n = job.images,
                                       .image = images,
                                       .scheduler = job.scheduler->class->name,
                                       .steps = job.scheduler->n_steps - job.first_step};
  free(planes);
  accel__image_end(&job);
  *out = accel__task_finish(result, status);
  return status;
}

accel_status accel__generated_image_write(const accel_generated_image *image, const char *path) {
  const accel__image file = {.pixels = (uint8_t *)(uintptr_t)image->rgb,
                             .width = (int32_t)image->width,
                             .height = (int32_t)image->height,
                             .borrowed = true};
  return accel__png_write(path, &file, image->parameters);
}
