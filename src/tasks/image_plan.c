/* image_plan.c - see image_plan.h. */
#include "tasks/image_plan.h"

#include <math.h>
#include <string.h>

#include "tasks/image_job.h"
#include "tasks/text_to_image.h"

bool accel__image_makes(const accel_endpoint *ep) {
  return ep->model->task && (!strcmp(ep->model->task, "text-to-image") ||
                             !strcmp(ep->model->task, "unconditional-image-generation"));
}

/* The batch of one more run, for its inputs to be set; NULL: the model has no such entry or output. */
static accel__batch *add_run(const accel__image_job *job, const char *entry, const char *output,
                             uint32_t times, accel__image_plan *p) {
  const accel__model_entry *e = accel__model_entry_of(job->ep->model, entry);
  const int32_t at = e ? accel__entry_output(e, output) : -1;
  if (at < 0 || p->n == ACCEL__IMAGE_RUNS) return NULL;
  const uint32_t k = p->n++;
  p->times[k] = times;
  p->output[k] = (uint32_t)at;
  p->call[k] = (accel__fit_call){.run = {.entry = (uint32_t)accel__endpoint_entry(job->ep, entry),
                                         .outputs = &p->output[k],
                                         .n_outputs = 1},
                                 .batch = &p->batch[k]};
  return &p->batch[k];
}

static accel_status add_texts(accel__image_job *job, accel__image_plan *p) {
  accel__image_text_run run[ACCEL__IMAGE_TEXT_RUNS];
  uint32_t n;
  ACCEL_TRY(accel__image_text_runs(job, run, &n));
  for (uint32_t i = 0; i < n; i++) {
    accel__batch *b = add_run(job, run[i].entry, run[i].output, 1, p);
    if (!b) continue;
    b->n = run[i].texts;
    b->tokens = (uint64_t)run[i].texts * run[i].tokens;
  }
  return ACCEL_OK;
}

/* How often the model itself runs: some schedulers make more steps than they are asked for. */
static accel_status count_steps(accel__image_job *job, uint32_t *n) {
  *n = job->params->steps;
  if (!accel__json_get(job->ep->config.root, "scheduler")) return ACCEL_OK; /* of the registry */
  ACCEL_TRY(accel__image_scheduler(job));
  *n = job->scheduler->n_steps;
  return ACCEL_OK;
}

static accel_status add_steps(accel__image_job *job, accel__image_plan *p) {
  uint32_t steps;
  ACCEL_TRY(count_steps(job, &steps));
  accel__batch *b = add_run(job, "forward", "sample", steps, p);
  if (!b) return ACCEL_OK;
  if (accel__image_flow(job))
    accel__flow_batch(job, b);
  else
    accel__image_unet_batch(job, b);
  return ACCEL_OK;
}

/* Pictures pass the autoencoder one by one, or tile by tile. */
static accel_status add_autoencoder(const accel__image_job *job, bool begins,
                                    accel__image_plan *p) {
  int64_t height = job->height, width = job->width;
  uint32_t tiles = 1;
  if (accel__image_tiles(job)) ACCEL_TRY(accel__image_count_tiles(job, &tiles, &height, &width));
  accel__batch *b = add_run(job, "decode_latents", "pixels", tiles * job->images, p);
  if (b)
    accel__entry_set(b, accel__model_entry_of(job->ep->model, "decode_latents"), "latents",
                     (accel__item){.rank = 4, .dim = {1, job->channels, height, width}});
  if (!begins) return ACCEL_OK;
  b = add_run(job, "encode_pixels", job->certain ? "latents" : "latent_dist.parameters",
              tiles * (job->input_channels > job->channels ? 2 : 1), p);
  if (b)
    accel__entry_set(
        b, accel__model_entry_of(job->ep->model, "encode_pixels"), "pixels",
        (accel__item){.rank = 4, .dim = {1, 3, height * job->reduction, width * job->reduction}});
  return ACCEL_OK;
}

static void add_checker(const accel__image_job *job, accel__image_plan *p) {
  const int64_t side = accel__safety_side(job);
  accel__batch *b = side ? add_run(job, "safety", "concept_scores", job->images, p) : NULL;
  if (b)
    accel__entry_set(b, accel__model_entry_of(job->ep->model, "safety"), "pixel_values",
                     (accel__item){.rank = 4, .dim = {1, 3, side, side}});
}

/* Latents, the model's input and last answer, texts, and the pictures. */
static uint64_t host_bytes(const accel__image_job *job) {
  const uint64_t pixels = (uint64_t)(job->height * job->width * job->reduction * job->reduction),
                 text = (uint64_t)job->text_rows * job->text_width + job->pooled_width;
  return sizeof(float) *
             ((job->images + 2ull * job->rows) * job->each + (job->rows + job->n + 1ull) * text) +
         3 * pixels * job->images;
}

static accel_status plan(accel__image_job *job, bool begins, accel__image_plan *p) {
  if (!job->unconditional) ACCEL_TRY(add_texts(job, p));
  ACCEL_TRY(add_steps(job, p));
  if (!job->unconditional) ACCEL_TRY(add_autoencoder(job, begins, p));
  add_checker(job, p);
  p->width = (uint32_t)(job->width * job->reduction);
  p->height = (uint32_t)(job->height * job->reduction);
  p->pictures = job->images;
  p->steps = job->params->steps;
  p->host = host_bytes(job);
  return ACCEL_OK;
}

accel_status accel__image_plan_make(accel_endpoint *ep, const accel__image_size *size,
                                    accel__image_plan *out) {
  static const accel_media mask = {.name = "a mask"}; /* is not looked at */
  const bool inpaints = strstr(ep->model->architecture, "Inpaint") != NULL,
             begins = inpaints || strstr(ep->model->architecture, "Img2Img") != NULL;
  accel_text_to_image_params params = {.size = sizeof params,
                                       .steps = size->steps,
                                       .width = size->width,
                                       .height = size->height,
                                       .images_per_prompt = size->pictures ? size->pictures : 1,
                                       .guidance_scale = (double)NAN,
                                       .strength = (double)NAN,
                                       .vae_tiling = size->tiled,
                                       .mask_image = inpaints ? &mask : NULL};
  accel__arena arena = {0};
  accel__image_job job = {0};
  float *planes = NULL;
  const uint32_t prompts = !strcmp(ep->model->task, "text-to-image");
  *out = (accel__image_plan){0};
  accel_status status = accel__image_begin(ep, NULL, prompts, &params, &arena, &job, &planes);
  if (status == ACCEL_OK) status = plan(&job, begins, out);
  accel__image_end(&job);
  accel__arena_free(&arena);
  return status;
}
