/* image_flow.c - what the pipelines of SD 3 and Flux in diffusers (StableDiffusion3Pipeline,
 * FluxPipeline, and their Img2Img and Inpaint ones) do otherwise than those of Stable Diffusion: their
 * transformers take rows of patches, and schedulers shift by the size. */
#include <stdlib.h>
#include <string.h>

#include "tasks/image_job.h"

enum { AXES = 3, MAX_SEQUENCE = 512, MAX_SIDE = 1 << 14, FLUX_SIDE = 128 };

/* SD 3 has positions for so many rows of patches along a side. */
static accel_status check_sides(const accel__image_job *job, const accel__json *transformer) {
  int64_t grid = 96;
  ACCEL_TRY(
      accel__json_int(&job->ep->config, transformer, "pos_embed_max_size", 1, MAX_SIDE, &grid));
  const int64_t most = grid * job->patch * job->reduction;
  if (job->height <= most && job->width <= most) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_ARGUMENT,
                     "%lld x %lld pixels: this model has positions for at most %lld of a side",
                     (long long)job->width, (long long)job->height, (long long)most);
}

accel_status accel__flow_read(accel__image_job *job) {
  const accel__json_file *f = &job->ep->config;
  const accel__json *transformer = accel__json_get(f->root, "transformer"),
                    *vae = accel__json_get(f->root, "vae");
  int64_t side = FLUX_SIDE, channels = job->flux ? 64 : 16, latents = 4;
  job->patch = 2;
  if (job->sd3) {
    ACCEL_TRY(accel__json_int(f, transformer, "sample_size", 1, MAX_SIDE, &side));
    ACCEL_TRY(accel__json_int(f, transformer, "patch_size", 1, 64, &job->patch));
  }
  ACCEL_TRY(accel__json_int(f, transformer, "in_channels", 1, MAX_SIDE, &channels));
  ACCEL_TRY(accel__json_int(f, vae, "latent_channels", 1, MAX_SIDE, &latents));
  ACCEL_TRY(accel__json_number(f, vae, "shift_factor", &job->shift));
  job->channels = job->flux ? channels / 4 : channels; /* Flux's rows are 2 x 2 latents */
  job->input_channels = job->channels;
  if (job->sd3 && channels == 2 * latents + 1) job->channels = latents; /* it sees the mask */
  job->height = job->params->height ? job->params->height : side * job->reduction;
  job->width = job->params->width ? job->params->width : side * job->reduction;
  if (job->sd3) ACCEL_TRY(check_sides(job, transformer));
  if (job->channels == latents && (!job->flux || channels % 4 == 0))
    return accel__inpaint_check(job);
  return accel__fail(ACCEL_ERROR_FORMAT,
                     "%s: transformer: field 'in_channels' (%lld) does not fit 'latent_channels' "
                     "of the vae (%lld)",
                     f->name, (long long)channels, (long long)latents);
}

accel_status accel__flow_check(const accel__image_job *job) {
  const uint32_t most = job->params->max_sequence_length;
  if (most > MAX_SEQUENCE)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "max_sequence_length is %u: 1 to %d are possible",
                       most, MAX_SEQUENCE);
  return ACCEL_OK;
}

accel_status accel__flow_shift(const accel__image_job *job) {
  accel__scheduler *s = job->scheduler;
  if (!accel__image_flow(job)) {
    if (!s->class->flow) return ACCEL_OK;
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: %s is for models that predict flow, not for a %s", job->ep->name,
                       s->class->name, job->ep->model->architecture);
  }
  const int64_t rows = job->height / job->patch * (job->width / job->patch);
  if (job->flux || s->config.use_dynamic_shifting)
    s->mu = accel__scheduler_mu(s, rows, job->flux ? 1.15 : 1.16);
  s->even = job->flux && s->class->flow;
  if (job->params->image && !s->class->flow)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: %s cannot begin with a picture in a %s, as diffusers has it; take "
                       "flow-match-euler",
                       job->ep->name, s->class->name, job->ep->model->architecture);
  if (job->sd3 || s->class->flow || s->config.flow_sigmas) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                     "%s: %s needs 'use_flow_sigmas' in its config for a %s", job->ep->name,
                     s->class->name, job->ep->model->architecture);
}

/* Planes [channels, height, width] of a picture to rows of patches, or back. */
static void pack(const accel__image_job *job, bool back, const float *from, float *to) {
  const uint64_t h = (uint64_t)job->height, w = (uint64_t)job->width, p = 2,
                 columns = (uint64_t)job->channels * p * p;
  for (uint64_t c = 0; c < (uint64_t)job->channels; c++)
    for (uint64_t y = 0; y < h; y++)
      for (uint64_t x = 0; x < w; x++) {
        const uint64_t plane = (c * h + y) * w + x,
                       row = (y / p * (w / p) + x / p) * columns + (c * p + y % p) * p + x % p;
        to[back ? plane : row] = from[back ? row : plane];
      }
}

/* Of x[images, each]; job->input is overwritten. */
static void pack_all(accel__image_job *job, bool back, float *x) {
  memcpy(job->input, x, job->images * job->each * sizeof *x);
  for (uint32_t i = 0; i < job->images; i++)
    pack(job, back, job->input + i * job->each, x + i * job->each);
}

void accel__flow_unpack(accel__image_job *job) { pack_all(job, true, job->latents); }

/* The mask for each latent of a row. */
static accel_status pack_mask(accel__image_job *job) {
  const uint64_t area = (uint64_t)(job->height * job->width);
  float *packed = malloc(job->each * sizeof *packed);
  if (!packed) return accel__no_memory(job->each * sizeof *packed);
  for (uint64_t i = 0; i < job->each; i++) job->input[i] = job->mask[i % area];
  pack(job, false, job->input, packed);
  free(job->mask);
  job->mask = packed;
  job->mask_size = job->each;
  return ACCEL_OK;
}

accel_status accel__flow_begin(accel__image_job *job) {
  const int64_t h = job->height / 2, w = job->width / 2;
  if (!job->flux) return ACCEL_OK;
  job->image_ids = calloc((size_t)(h * w) * AXES, sizeof *job->image_ids);
  job->text_ids = calloc((size_t)job->text_rows * AXES, sizeof *job->text_ids);
  job->guidance = malloc(job->rows * sizeof *job->guidance);
  if (!job->image_ids || !job->text_ids || !job->guidance)
    return accel__no_memory((size_t)(h * w) * AXES * sizeof *job->image_ids);
  for (int64_t i = 0; i < h * w; i++) { /* nothing, row, column */
    job->image_ids[AXES * i + 1] = (float)(i / w);
    job->image_ids[AXES * i + 2] = (float)(i % w);
  }
  for (uint32_t i = 0; i < job->rows; i++) job->guidance[i] = (float)job->params->guidance_scale;
  pack_all(job, false, job->latents);
  if (!job->mask) return ACCEL_OK;
  pack_all(job, false, job->kept);
  pack_all(job, false, job->first_noise);
  return pack_mask(job);
}

/* An entry of the transformer over the last `rows` rows of job->input and of the texts. */
static void rows_batch(const accel__image_job *job, const char *entry, int64_t rows,
                       accel__batch *batch) {
  const accel__model_entry *e = accel__model_entry_of(job->ep->model, entry);
  const uint64_t from = job->rows - (uint64_t)rows,
                 text = (uint64_t)job->text_rows * job->text_width;
  const int64_t patches = job->height / 2 * (job->width / 2);
  accel__item latents = {.data = job->wide ? job->wide : job->input + from * job->each,
                         .rank = 4,
                         .dim = {rows, job->input_channels, job->height, job->width}};
  if (job->flux)
    latents =
        (accel__item){.data = job->input, .rank = 3, .dim = {rows, patches, 4 * job->channels}};
  accel__entry_set(batch, e, "hidden_states", latents);
  accel__entry_set(batch, e, "encoder_hidden_states",
                   (accel__item){.data = job->text + from * text,
                                 .rank = 3,
                                 .dim = {rows, job->text_rows, job->text_width}});
  accel__entry_set(batch, e, "pooled_projections",
                   (accel__item){.data = job->pooled + from * job->pooled_width,
                                 .rank = 2,
                                 .dim = {rows, job->pooled_width}});
  accel__entry_set(batch, e, "skip_layers",
                   (accel__item){.data = job->skipped, .rank = 1, .dim = {job->layers}});
  accel__entry_set(batch, e, "timestep",
                   (accel__item){.data = job->timestep, .rank = 1, .dim = {rows}});
  accel__entry_set(batch, e, "img_ids",
                   (accel__item){.data = job->image_ids, .rank = 2, .dim = {patches, AXES}});
  accel__entry_set(batch, e, "txt_ids",
                   (accel__item){.data = job->text_ids, .rank = 2, .dim = {job->text_rows, AXES}});
  accel__entry_set(batch, e, "guidance",
                   (accel__item){.data = job->guidance, .rank = 1, .dim = {rows}});
}

void accel__flow_batch(const accel__image_job *job, accel__batch *batch) {
  rows_batch(job, "forward", job->rows, batch);
}

static accel_status run_rows(accel__image_job *job, const char *entry, int64_t rows,
                             double timestep, accel__result *answer) {
  accel__batch batch = {0};
  for (int64_t i = 0; i < rows; i++)
    job->timestep[i].number = job->flux ? (float)timestep / 1000.0f : (float)timestep;
  rows_batch(job, entry, rows, &batch);
  return accel__entry_run(job->ep, entry, "sample", &batch, answer);
}

accel_status accel__flow_run(accel__image_job *job, double timestep) {
  return run_rows(job, "forward", job->rows, timestep, &job->answer);
}

/* ---- skip_guidance_layers ---- */

accel_status accel__flow_read_skipped(accel__image_job *job) {
  const accel_text_to_image_params *p = job->params;
  const accel__json_file *f = &job->ep->config;
  int64_t layers = 18; /* SD3Transformer2DModel's */
  if (!p->n_skip_guidance_layers) return ACCEL_OK;
  if (!job->sd3 || p->image)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: skip_guidance_layers is of SD 3, without a picture to begin with",
                       job->ep->name);
  ACCEL_TRY(accel__json_int(f, accel__json_get(f->root, "transformer"), "num_layers", 1, 1 << 12,
                            &layers));
  job->layers = layers;
  job->skipped = calloc((size_t)layers, sizeof *job->skipped);
  if (!job->skipped) return accel__no_memory((size_t)layers * sizeof *job->skipped);
  for (uint32_t i = 0; i < p->n_skip_guidance_layers; i++) {
    if (p->skip_guidance_layers[i] >= layers)
      return accel__fail(ACCEL_ERROR_ARGUMENT,
                         "skip_guidance_layers has %u: this model's layers are 0 to %lld",
                         p->skip_guidance_layers[i], (long long)layers - 1);
    job->skipped[p->skip_guidance_layers[i]] = 1;
  }
  return ACCEL_OK;
}

accel_status accel__flow_skip(accel__image_job *job, uint32_t i) {
  const accel_text_to_image_params *p = job->params;
  const uint64_t n = job->images * job->each;
  const float scale = (float)p->skip_layer_guidance_scale;
  const double steps = job->scheduler->n_steps;
  if (!job->skipped || !job->guided || i <= steps * p->skip_layer_guidance_start ||
      i >= steps * p->skip_layer_guidance_stop)
    return ACCEL_OK;
  ACCEL_TRY(run_rows(job, "forward_skipping", job->images, job->scheduler->timestep[i],
                     &job->without_layers));
  /* the answer to the prompt is still behind the guided one */
  float *guided = job->answer.data;
  const float *all = guided + n, *some = job->without_layers.data;
  for (uint64_t k = 0; k < n; k++) guided[k] += (all[k] - some[k]) * scale;
  return ACCEL_OK;
}

void accel__flow_free(accel__image_job *job) {
  free(job->image_ids);
  free(job->text_ids);
  free(job->guidance);
  free(job->skipped);
  free(job->without_layers.data);
}
