/* image_prompts.c - prompts to what the UNet looks at: encode_prompt of diffusers' pipelines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "models/model_build.h"
#include "processing/processor.h"
#include "tasks/image_job.h"

/* One text encoder: its entry, and its columns in the rows of all. */
typedef struct encoder {
  const char *entry;
  const accel__tokenizer *tokenizer;
  uint32_t width, first; /* columns; the first of them */
} encoder;

accel_status accel__image_run(accel_endpoint *ep, const char *entry, const char *name,
                              const accel__batch *batch, accel__result *found) {
  const accel__model_entry *e = accel__model_entry_of(ep->model, entry);
  const int32_t at = accel__entry_output(e, name);
  if (at < 0)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: there is no '%s' of '%s'", ep->name, name, entry);
  return accel__endpoint_run(ep, (uint32_t)accel__endpoint_entry(ep, entry), batch,
                             &(uint32_t){(uint32_t)at}, 1, found);
}

/* ids[tokens] of a text: cut to that length with its end token, padded behind. */
static accel_status encode_text(const accel__image_job *job, const accel__tokenizer *tokenizer,
                                const char *text, int32_t *ids) {
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

/* Runs the encoder over ids[n][tokens], and puts what comes into its columns of text[n] (and, of
 * SDXL's second one, into pooled[n]). */
static accel_status run_encoder(const accel__image_job *job, const encoder *e, const int32_t *ids,
                                uint32_t n, uint32_t skip, float *text, float *pooled) {
  const accel__model_entry *entry = accel__model_entry_of(job->ep->model, e->entry);
  const uint64_t tokens = (uint64_t)n * job->tokens;
  char name[32] = "prompt_embeds";
  accel__result found = {0};
  int32_t *lengths = malloc(n * sizeof *lengths);
  if (!lengths) return accel__no_memory(n * sizeof *lengths);
  for (uint32_t i = 0; i < n; i++) lengths[i] = (int32_t)job->tokens;
  accel__batch batch = {.n = n, .lengths = lengths, .tokens = tokens};
  batch.value[accel__entry_input(entry, "input_ids")] = ids;
  if (skip) snprintf(name, sizeof name, "clip_skip.%u", skip);
  accel_status status = accel__image_run(job->ep, e->entry, name, &batch, &found);
  for (uint64_t t = 0; status == ACCEL_OK && t < tokens; t++)
    memcpy(text + t * job->text_width + e->first, (float *)found.data + t * e->width,
           e->width * sizeof *text);
  if (status == ACCEL_OK && pooled)
    status = accel__image_run(job->ep, e->entry, "text_embeds", &batch, &found);
  if (status == ACCEL_OK && pooled)
    memcpy(pooled, found.data, (size_t)n * job->pooled_width * sizeof *pooled);
  free(found.data);
  free(lengths);
  return status;
}

/* texts[n] to text[n, tokens, text_width] and pooled[n, pooled_width]. */
static accel_status embed_texts(const accel__image_job *job, const encoder *encoders,
                                const char *const *texts, uint32_t n, uint32_t skip, float *text,
                                float *pooled) {
  int32_t *ids = malloc((size_t)n * job->tokens * sizeof *ids);
  if (!ids) return accel__no_memory((size_t)n * job->tokens * sizeof *ids);
  accel_status status = ACCEL_OK;
  for (uint32_t k = 0; k < (job->xl ? 2u : 1u) && status == ACCEL_OK; k++) {
    for (uint32_t i = 0; i < n && status == ACCEL_OK; i++)
      status = encode_text(job, encoders[k].tokenizer, texts[i], ids + (size_t)i * job->tokens);
    if (status == ACCEL_OK)
      status = run_encoder(job, &encoders[k], ids, n, skip, text, k == 1 ? pooled : NULL);
  }
  free(ids);
  return status;
}

static accel_status read_encoder(accel__image_job *job, const char *part, encoder *e) {
  const accel__json_file *f = &job->ep->config;
  const accel__json *text = accel__json_get(f->root, part);
  int64_t width = 512, positions = 77, projection = 512;
  ACCEL_TRY(accel__json_int(f, text, "hidden_size", 1, 1 << 20, &width));
  ACCEL_TRY(accel__json_int(f, text, "max_position_embeddings", 2, 1 << 20, &positions));
  ACCEL_TRY(accel__json_int(f, text, "projection_dim", 1, 1 << 20, &projection));
  e->width = (uint32_t)width;
  e->first = job->text_width;
  job->text_width += e->width;
  job->tokens = (uint32_t)positions;
  job->pooled_width = (uint32_t)projection;
  return ACCEL_OK;
}

/* Rows of the pictures from those of the prompts: `embedded` holds one for each prompt and, behind
 * them, that of the negative prompt. */
static void spread(const accel__image_job *job, const float *embedded, uint64_t one, float *to) {
  for (uint32_t i = 0; i < job->rows; i++, to += one) {
    const bool without = job->guided && i < job->images;
    const uint32_t image = job->guided && !without ? i - job->images : i,
                   from = without ? job->n : image / job->params->images_per_prompt;
    memcpy(to, embedded + from * one, one * sizeof *to);
  }
}

/* SDXL was trained with zeros in place of an empty negative prompt, unless its config says else. */
static accel_status zeros_for_none(const accel__image_job *job, bool *zeros) {
  bool force = true;
  const accel__json_file *f = &job->ep->config;
  ACCEL_TRY(accel__json_bool(f, f->root, "force_zeros_for_empty_prompt", &force));
  *zeros = job->xl && force && !job->params->negative_prompt;
  return ACCEL_OK;
}

static accel_status embed_all(accel__image_job *job, const encoder *encoders) {
  const char *negative = job->params->negative_prompt ? job->params->negative_prompt : "";
  const uint64_t one = (uint64_t)job->tokens * job->text_width, pooled = job->pooled_width;
  bool zeros;
  ACCEL_TRY(zeros_for_none(job, &zeros));
  float *text = calloc((job->n + 1) * (one + pooled), sizeof *text);
  if (!text) return accel__no_memory((job->n + 1) * (one + pooled) * sizeof *text);
  float *pools = text + (job->n + 1) * one;
  accel_status status = embed_texts(job, encoders, job->prompts, job->n, job->params->clip_skip,
                                    text, job->xl ? pools : NULL);
  if (status == ACCEL_OK && job->guided && !zeros) /* clip_skip or not */
    status = embed_texts(job, encoders, &negative, 1, 0, text + job->n * one,
                         job->xl ? pools + job->n * pooled : NULL);
  job->text = malloc(job->rows * one * sizeof *job->text);
  job->pooled = malloc(job->rows * pooled * sizeof *job->pooled);
  if (status == ACCEL_OK && (!job->text || !job->pooled))
    status = accel__no_memory(job->rows * one * sizeof *job->text);
  if (status == ACCEL_OK) spread(job, text, one, job->text);
  if (status == ACCEL_OK) spread(job, pools, pooled, job->pooled);
  free(text);
  return status;
}

accel_status accel__image_prompts(accel__image_job *job) {
  encoder encoders[2] = {{.entry = "text", .tokenizer = accel__processor_for(job->ep)->tokenizer},
                         {.entry = "text_2"}};
  accel__tokenizer *second = NULL;
  job->text_width = 0;
  ACCEL_TRY(read_encoder(job, "text_encoder", &encoders[0]));
  if (job->xl) {
    accel__arena arena = {0};
    ACCEL_TRY(read_encoder(job, "text_encoder_2", &encoders[1]));
    const char *path = accel__path_join(&arena, job->ep->directory, "tokenizer_2");
    const accel_status status =
        path ? accel__tokenizer_load(path, &second) : ACCEL_ERROR_OUT_OF_MEMORY;
    accel__arena_free(&arena);
    if (status != ACCEL_OK) return status;
    encoders[1].tokenizer = second;
  }
  const accel_status status = embed_all(job, encoders);
  accel__tokenizer_free(&second);
  return status;
}
