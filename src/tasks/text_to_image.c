/* text_to_image.c - StableDiffusionPipeline.__call__ of diffusers. */
#include "tasks/text_to_image.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "diffusion/scheduler.h"
#include "models/model_build.h"
#include "processing/processor.h"
#include "processing/result.h"
#include "vision/image.h"

enum { MAX_SIDE = 1 << 14, MAX_IMAGES = 1024 };

typedef struct image_job {
  accel_endpoint *ep;
  const accel_text_to_image_params *params;
  const char *const *prompts;
  uint32_t n, images;                         /* prompts; pictures */
  bool guided;                                /* the model answers for the negative prompt, too */
  uint32_t rows;                              /* of a run of the UNet: images, or twice as many */
  int64_t channels, height, width, reduction; /* latents; pixels to a latent */
  uint32_t tokens, text_width;
  double scaling;
  int64_t condition; /* columns of timestep_cond; 0: the UNet knows none */
  accel__scheduler *scheduler;
  accel__noise noise;
  uint64_t each;        /* channels * height * width */
  float *text;          /* [rows, tokens, text_width] */
  float *latents;       /* [images, each] */
  float *input;         /* [rows, each] */
  float *timestep;      /* [rows] */
  float *timestep_cond; /* [rows, condition] */
  accel__result answer; /* of the UNet [rows, each]; guided, in its first half */
} image_job;

static int32_t input_index(const accel__model_entry *e, const char *name) {
  for (uint32_t i = 0; i < e->n_inputs; i++)
    if (!strcmp(e->inputs[i].name, name)) return (int32_t)i;
  return -1;
}

/* ---- what the configs say ---- */

static accel_status read_configs(image_job *job) {
  const accel__json_file *f = &job->ep->config;
  const accel__json *unet = accel__json_get(f->root, "unet"),
                    *vae = accel__json_get(f->root, "vae"),
                    *text = accel__json_get(f->root, "text_encoder"),
                    *blocks = accel__json_get(vae, "block_out_channels");
  int64_t side = 64, width = 512, positions = 77;
  job->channels = 4;
  job->scaling = 0.18215;
  job->reduction = 1;
  for (int i = 1; i < cJSON_GetArraySize(blocks); i++) job->reduction *= 2;
  ACCEL_TRY(accel__json_int(f, unet, "sample_size", 1, MAX_SIDE, &side));
  ACCEL_TRY(accel__json_int(f, unet, "in_channels", 1, MAX_SIDE, &job->channels));
  ACCEL_TRY(accel__json_int(f, unet, "time_cond_proj_dim", 2, MAX_SIDE, &job->condition));
  ACCEL_TRY(accel__json_number(f, vae, "scaling_factor", &job->scaling));
  ACCEL_TRY(accel__json_int(f, text, "hidden_size", 1, MAX_SIDE, &width));
  ACCEL_TRY(accel__json_int(f, text, "max_position_embeddings", 2, MAX_SIDE, &positions));
  job->text_width = (uint32_t)width;
  job->tokens = (uint32_t)positions;
  const int64_t asked[2] = {job->params->height, job->params->width};
  int64_t *to[2] = {&job->height, &job->width};
  for (int i = 0; i < 2; i++) {
    const int64_t pixels = asked[i] ? asked[i] : side * job->reduction;
    if (pixels % 8 || pixels > MAX_SIDE || pixels < job->reduction)
      return accel__fail(ACCEL_ERROR_ARGUMENT,
                         "%s is %lld pixels: multiples of 8 up to %d are possible",
                         i ? "width" : "height", (long long)pixels, MAX_SIDE);
    *to[i] = pixels / job->reduction;
  }
  job->each = (uint64_t)(job->channels * job->height * job->width);
  return ACCEL_OK;
}

static accel_status open_scheduler(image_job *job) {
  accel__json_file own = job->ep->config;
  own.root = (accel__json *)(uintptr_t)accel__json_get(job->ep->config.root, "scheduler");
  own.name = "scheduler_config.json";
  if (!own.root)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: model_index.json lists no scheduler",
                       job->ep->name);
  ACCEL_TRY(accel__scheduler_new(&own, job->params->scheduler, &job->scheduler));
  job->scheduler->eta = job->params->eta;
  return accel__scheduler_start(job->scheduler, job->params->steps, job->images, job->each);
}

static accel_status seed_noise(image_job *job) {
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

/* ---- texts ---- */

/* ids[tokens] of a text: cut to that length with its end token, padded behind. */
static accel_status encode_text(const image_job *job, const char *text, int32_t *ids) {
  const accel__tokenizer *tokenizer = accel__processor_for(job->ep)->tokenizer;
  const accel__tokenizer_info *info = accel__tokenizer_describe(tokenizer);
  const accel__encode_options how = {.add_special_tokens = true,
                                     .truncation = ACCEL__TRUNCATE_LONGEST_FIRST,
                                     .max_length = job->tokens};
  accel__encoding enc = {0};
  ACCEL_TRY(accel__encode(tokenizer, text, strlen(text), NULL, 0, &how, &enc));
  const int32_t pad = info->pad >= 0 ? info->pad : info->eos;
  for (uint32_t i = 0; i < job->tokens; i++) ids[i] = i < enc.n ? enc.ids[i] : pad;
  accel__encoding_free(&enc);
  return ACCEL_OK;
}

/* Embeddings of texts[n] [n, tokens, text_width], without the last `output` layers. */
static accel_status embed_texts(image_job *job, const char *const *texts, uint32_t n,
                                uint32_t output, float *out) {
  const accel__model_entry *e = accel__model_entry_of(job->ep->model, "text");
  if (output >= e->n_outputs)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "clip_skip is %u: the text encoder has %u layers",
                       output, e->n_outputs);
  int32_t *ids = malloc((size_t)n * (job->tokens + 1) * sizeof *ids),
          *lengths = ids ? ids + (size_t)n * job->tokens : NULL;
  if (!ids) return accel__no_memory((size_t)n * job->tokens * sizeof *ids);
  accel_status status = ACCEL_OK;
  for (uint32_t i = 0; i < n && status == ACCEL_OK; i++) {
    status = encode_text(job, texts[i], ids + (size_t)i * job->tokens);
    lengths[i] = (int32_t)job->tokens;
  }
  accel__batch batch = {.n = n, .lengths = lengths, .tokens = (uint64_t)n * job->tokens};
  batch.value[input_index(e, "input_ids")] = ids;
  accel__result found = {0};
  if (status == ACCEL_OK)
    status = accel__endpoint_run(job->ep, (uint32_t)accel__endpoint_entry(job->ep, "text"), &batch,
                                 &output, 1, &found);
  if (status == ACCEL_OK)
    memcpy(out, found.data, (size_t)batch.tokens * job->text_width * sizeof *out);
  free(found.data);
  free(ids);
  return status;
}

/* job->text: of the negative prompt for each picture, where the call is guided, then of the prompt
 * of each. */
static accel_status prepare_texts(image_job *job) {
  const char *negative = job->params->negative_prompt ? job->params->negative_prompt : "";
  const uint64_t one = (uint64_t)job->tokens * job->text_width;
  float *embedded = malloc((job->n + 1) * one * sizeof *embedded), *to = job->text;
  if (!embedded) return accel__no_memory((job->n + 1) * one * sizeof *embedded);
  accel_status status = embed_texts(job, job->prompts, job->n, job->params->clip_skip, embedded);
  if (status == ACCEL_OK && job->guided)
    status = embed_texts(job, &negative, 1, 0, embedded + job->n * one); /* clip_skip or not */
  for (uint32_t i = 0; status == ACCEL_OK && i < job->rows; i++, to += one) {
    const bool without = job->guided && i < job->images;
    const uint32_t image = job->guided && !without ? i - job->images : i,
                   from = without ? job->n : image / job->params->images_per_prompt;
    memcpy(to, embedded + from * one, one * sizeof *to);
  }
  free(embedded);
  return status;
}

/* ---- the loop ---- */

/* The guidance scale as waves, which distilled UNets are told (LatentConsistencyModelPipeline). */
static void prepare_condition(image_job *job) {
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

static accel_status run_unet(image_job *job, double timestep) {
  const accel__model_entry *e = accel__model_entry_of(job->ep->model, "forward");
  const uint32_t output = 0;
  accel__batch batch = {0};
  const int64_t rows = job->rows;
  for (uint32_t i = 0; i < job->rows; i++) job->timestep[i] = (float)timestep;
  batch.item[input_index(e, "sample")] = (accel__item){
      .data = job->input, .rank = 4, .dim = {rows, job->channels, job->height, job->width}};
  batch.item[input_index(e, "timestep")] =
      (accel__item){.data = job->timestep, .rank = 1, .dim = {rows}};
  batch.item[input_index(e, "encoder_hidden_states")] =
      (accel__item){.data = job->text, .rank = 3, .dim = {rows, job->tokens, job->text_width}};
  if (job->condition > 0)
    batch.item[input_index(e, "timestep_cond")] =
        (accel__item){.data = job->timestep_cond, .rank = 2, .dim = {rows, job->condition}};
  return accel__endpoint_run(job->ep, (uint32_t)accel__endpoint_entry(job->ep, "forward"), &batch,
                             &output, 1, &job->answer);
}

static double deviation(const float *x, uint64_t n) {
  double sum = 0, squares = 0;
  for (uint64_t i = 0; i < n; i++) sum += x[i];
  for (uint64_t i = 0; i < n; i++) squares += (x[i] - sum / (double)n) * (x[i] - sum / (double)n);
  return sqrt(squares / (double)(n - 1));
}

/* The answers without and with the prompt become one, in the first half. */
static void guide(image_job *job) {
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

static accel_status denoise(image_job *job) {
  const accel_text_to_image_params *p = job->params;
  const uint64_t n = job->images * job->each;
  const uint32_t steps = job->scheduler->n_steps;
  const float sigma = accel__scheduler_init_sigma(job->scheduler);
  accel__noise_draw(&job->noise, job->latents, job->images, job->each);
  for (uint64_t i = 0; i < n; i++) job->latents[i] *= sigma;
  for (uint32_t i = 0; i < steps; i++) {
    ACCEL_TRY(accel__check_cancelled(job->ep->ctx));
    accel__scheduler_scale(job->scheduler, i, job->latents, job->input);
    if (job->guided) memcpy(job->input + n, job->input, n * sizeof *job->input);
    ACCEL_TRY(run_unet(job, job->scheduler->timestep[i]));
    if (job->guided) guide(job);
    ACCEL_TRY(
        accel__scheduler_step(job->scheduler, i, job->answer.data, job->latents, &job->noise));
    accel__report_progress(job->ep->ctx, "denoising", i + 1, steps);
    if (p->on_step && p->on_step(p->user, i + 1, steps, job->latents, n))
      return accel__fail(ACCEL_ERROR_CANCELLED, "cancelled after step %u of %u", i + 1, steps);
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

/* One picture at a time: the autoencoder takes most of the memory. */
static accel_status decode(image_job *job, accel__arena *arena, accel_generated_image *images) {
  const accel__model_entry *e = accel__model_entry_of(job->ep->model, "decode_latents");
  const int64_t height = job->height * job->reduction, width = job->width * job->reduction;
  const uint64_t pixels = (uint64_t)(height * width);
  const uint32_t output = 0;
  accel__result found = {0};
  accel_status status = ACCEL_OK;
  for (uint64_t i = 0; i < job->images * job->each; i++) job->latents[i] /= (float)job->scaling;
  for (uint32_t i = 0; i < job->images && status == ACCEL_OK; i++) {
    uint8_t *rgb = accel__arena_alloc(arena, pixels * 3);
    accel__batch batch = {0};
    batch.item[input_index(e, "latents")] =
        (accel__item){.data = job->latents + i * job->each,
                      .rank = 4,
                      .dim = {1, job->channels, job->height, job->width}};
    status = rgb ? accel__endpoint_run(job->ep,
                                       (uint32_t)accel__endpoint_entry(job->ep, "decode_latents"),
                                       &batch, &output, 1, &found)
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

static accel_status allocate(image_job *job) {
  const uint64_t text = (uint64_t)job->rows * job->tokens * job->text_width,
                 condition = job->rows * (uint64_t)job->condition;
  job->text = malloc(text * sizeof *job->text);
  job->latents = malloc(job->images * job->each * sizeof *job->latents);
  job->input = malloc(job->rows * job->each * sizeof *job->input);
  job->timestep = malloc(job->rows * sizeof *job->timestep);
  job->timestep_cond = calloc(condition + 1, sizeof *job->timestep_cond);
  return job->text && job->latents && job->input && job->timestep && job->timestep_cond
             ? ACCEL_OK
             : accel__no_memory(job->rows * job->each * sizeof *job->input);
}

static accel_status make(image_job *job, accel__arena *arena, accel_generated_image *images) {
  ACCEL_TRY(read_configs(job));
  job->guided = job->params->guidance_scale > 1 && job->condition == 0;
  job->rows = job->guided ? 2 * job->images : job->images;
  ACCEL_TRY(open_scheduler(job));
  ACCEL_TRY(seed_noise(job));
  ACCEL_TRY(allocate(job));
  ACCEL_TRY(prepare_texts(job));
  prepare_condition(job);
  ACCEL_TRY(denoise(job));
  return decode(job, arena, images);
}

accel_status accel__text_to_image(accel_endpoint *ep, const char *const *prompts, uint32_t n,
                                  const accel_text_to_image_params *params,
                                  accel_generated_images **out) {
  ACCEL_TRY(accel__processor_check(ep, "text-to-image"));
  if ((uint64_t)n * params->images_per_prompt > MAX_IMAGES)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%u prompts of %u pictures: at most %d pictures in a "
                       "call",
                       n, params->images_per_prompt, MAX_IMAGES);
  accel_generated_images *result = accel__task_result(sizeof *result);
  if (!result) return ACCEL_ERROR_OUT_OF_MEMORY;
  image_job job = {.ep = ep,
                   .params = params,
                   .prompts = prompts,
                   .n = n,
                   .images = n * params->images_per_prompt};
  accel__arena *arena = accel__task_arena(result);
  accel_generated_image *images = accel__arena_array(arena, job.images, sizeof *images);
  accel_status status = images ? make(&job, arena, images) : ACCEL_ERROR_OUT_OF_MEMORY;
  if (status == ACCEL_OK)
    *result = (accel_generated_images){.n = job.images,
                                       .image = images,
                                       .scheduler = job.scheduler->class->name,
                                       .steps = job.scheduler->n_steps};
  free(job.answer.data);
  free(job.text);
  free(job.latents);
  free(job.input);
  free(job.timestep);
  free(job.timestep_cond);
  free(job.noise.generator);
  accel__scheduler_free(&job.scheduler);
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
