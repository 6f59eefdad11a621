/* image_prompts.c - prompts to what the UNet looks at: encode_prompt of diffusers' pipelines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "models/model_build.h"
#include "processing/processor.h"
#include "tasks/image_job.h"

enum { MAX_ENCODERS = 3 };
_Static_assert(ACCEL__IMAGE_TEXT_RUNS >= 4 * MAX_ENCODERS, "each twice, for two outputs");

/* One text encoder: its entry, and its place in the rows of all. */
typedef struct encoder {
  const char *part, *entry, *folder; /* "text_encoder_2", "text_2"; of its tokenizer */
  const accel__tokenizer *tokenizer;
  accel__tokenizer *own;  /* the same, unless it is the endpoint's */
  bool t5;                /* T5: padded to max_sequence_length, rows behind those of CLIP */
  bool states, pooled;    /* what it gives: rows, the pooled text */
  uint32_t tokens, width; /* rows; columns */
  uint32_t row, column;   /* its first ones in a text */
  uint32_t pooled_width, pooled_column;
} encoder;
typedef struct encoders {
  uint32_t n;
  encoder item[MAX_ENCODERS];
} encoders;

/* ids[e->tokens] of a text: cut to that length with its end token, padded behind. */
static accel_status encode_text(const encoder *e, const char *text, int32_t *ids) {
  const accel__tokenizer_info *info = accel__tokenizer_describe(e->tokenizer);
  const accel__encode_options how = {.add_special_tokens = true,
                                     .truncation = ACCEL__TRUNCATE_LONGEST_FIRST,
                                     .max_length = e->tokens};
  accel__encoding enc = {0};
  ACCEL_TRY(accel__encode(e->tokenizer, text, strlen(text), NULL, 0, &how, &enc));
  const int32_t pad = info->pad >= 0 ? info->pad : info->eos;
  for (uint32_t i = 0; i < e->tokens; i++) ids[i] = i < enc.n ? enc.ids[i] : pad;
  accel__encoding_free(&enc);
  return ACCEL_OK;
}

/* Runs the encoder over ids[n][tokens], and puts what comes into its places of text[n] and
 * pooled[n]. */
static accel_status run_encoder(const accel__image_job *job, const encoder *e, const int32_t *ids,
                                uint32_t n, uint32_t skip, float *text, float *pooled) {
  const accel__model_entry *entry = accel__model_entry_of(job->ep->model, e->entry);
  const uint64_t one = (uint64_t)job->text_rows * job->text_width;
  char name[32] = "prompt_embeds";
  accel__result found = {0};
  accel_status status = ACCEL_OK;
  int32_t *lengths = malloc(n * sizeof *lengths);
  if (!lengths) return accel__no_memory(n * sizeof *lengths);
  for (uint32_t i = 0; i < n; i++) lengths[i] = (int32_t)e->tokens;
  accel__batch batch = {.n = n, .lengths = lengths, .tokens = (uint64_t)n * e->tokens};
  batch.value[accel__entry_input(entry, "input_ids")] = ids;
  if (skip && !e->t5) snprintf(name, sizeof name, "clip_skip.%u", skip);
  if (e->states) status = accel__entry_run(job->ep, e->entry, name, &batch, &found);
  for (uint32_t i = 0; status == ACCEL_OK && e->states && i < n; i++)
    for (uint32_t t = 0; t < e->tokens; t++)
      memcpy(text + i * one + (uint64_t)(e->row + t) * job->text_width + e->column,
             (float *)found.data + ((uint64_t)i * e->tokens + t) * e->width,
             e->width * sizeof *text);
  if (status == ACCEL_OK && e->pooled)
    status = accel__entry_run(job->ep, e->entry, "text_embeds", &batch, &found);
  for (uint32_t i = 0; status == ACCEL_OK && e->pooled && i < n; i++)
    memcpy(pooled + (uint64_t)i * job->pooled_width + e->pooled_column,
           (float *)found.data + (uint64_t)i * e->pooled_width, e->pooled_width * sizeof *pooled);
  free(found.data);
  free(lengths);
  return status;
}

/* texts[n] to text[n, text_rows, text_width] and pooled[n, pooled_width]. */
static accel_status embed_texts(const accel__image_job *job, const encoders *all,
                                const char *const *texts, uint32_t n, uint32_t skip, float *text,
                                float *pooled) {
  accel_status status = ACCEL_OK;
  for (uint32_t k = 0; k < all->n && status == ACCEL_OK; k++) {
    const encoder *e = &all->item[k];
    int32_t *ids = malloc((size_t)n * e->tokens * sizeof *ids);
    if (!ids) return accel__no_memory((size_t)n * e->tokens * sizeof *ids);
    for (uint32_t i = 0; i < n && status == ACCEL_OK; i++)
      status = encode_text(e, texts[i], ids + (size_t)i * e->tokens);
    if (status == ACCEL_OK) status = run_encoder(job, e, ids, n, skip, text, pooled);
    free(ids);
  }
  return status;
}

/* ---- which encoders there are ---- */

/* Widths and lengths of an encoder, and its place in a text. */
static accel_status read_encoder(accel__image_job *job, encoder *e) {
  const accel__json_file *f = &job->ep->config;
  const accel__json *text = accel__json_get(f->root, e->part);
  int64_t width = 512, positions = 77, projection = 512;
  ACCEL_TRY(accel__json_int(f, text, "hidden_size", 1, 1 << 20, &width));
  ACCEL_TRY(accel__json_int(f, text, "d_model", 1, 1 << 20, &width));
  ACCEL_TRY(accel__json_int(f, text, "max_position_embeddings", 2, 1 << 20, &positions));
  ACCEL_TRY(accel__json_int(f, text, "projection_dim", 1, 1 << 20, &projection));
  e->width = (uint32_t)width;
  e->tokens = e->t5 ? job->params->max_sequence_length : (uint32_t)positions;
  if (e->pooled) {
    e->pooled_width = (uint32_t)(job->flux ? width : projection);
    e->pooled_column = job->pooled_width;
    job->pooled_width += e->pooled_width;
  }
  if (!e->t5) job->tokens = e->tokens;
  if (!e->states) return ACCEL_OK;
  e->row = e->t5 ? job->text_rows : 0;
  e->column = e->t5 ? 0 : job->text_width;
  if (e->t5 || !job->text_rows) job->text_rows += e->tokens;
  if (!e->t5 || job->text_width < e->width) job->text_width = e->column + e->width;
  return ACCEL_OK;
}

/* Of Stable Diffusion the first, of SDXL two, of SD 3 all three (the last may be absent), of Flux one
 * of CLIP and T5. */
static void choose_encoders(const accel__image_job *job, encoders *all) {
  const bool sd3 = job->sd3, flux = job->flux,
             third = accel__json_get(job->ep->config.root, "text_encoder_3") != NULL;
  all->n = sd3 ? (third ? 3 : 2) : job->xl || flux ? 2 : 1;
  all->item[0] = (encoder){.part = "text_encoder",
                           .entry = "text",
                           .states = !flux,
                           .pooled = sd3 || flux,
                           .tokenizer = accel__processor_for(job->ep)->tokenizer};
  all->item[1] = (encoder){.part = "text_encoder_2",
                           .entry = "text_2",
                           .folder = "tokenizer_2",
                           .states = true,
                           .pooled = !flux,
                           .t5 = flux};
  all->item[2] = (encoder){.part = "text_encoder_3",
                           .entry = "text_3",
                           .folder = "tokenizer_3",
                           .states = true,
                           .t5 = true};
}

static accel_status open_encoder(const accel__image_job *job, encoder *e) {
  accel__arena arena = {0};
  if (!e->folder) return ACCEL_OK;
  const char *path = accel__path_join(&arena, job->ep->directory, e->folder);
  const accel_status status =
      path ? accel__tokenizer_load(path, &e->own) : ACCEL_ERROR_OUT_OF_MEMORY;
  e->tokenizer = e->own;
  accel__arena_free(&arena);
  return status;
}

/* SD 3 counts rows of T5 that are zero where it is absent, and its columns are those of the
 * transformer's text. */
static accel_status read_encoders(accel__image_job *job, encoders *all) {
  const accel__json_file *f = &job->ep->config;
  int64_t width = 4096;
  choose_encoders(job, all);
  job->text_rows = job->text_width = job->pooled_width = 0;
  for (uint32_t k = 0; k < all->n; k++) ACCEL_TRY(read_encoder(job, &all->item[k]));
  if (!accel__image_flow(job)) return ACCEL_OK;
  ACCEL_TRY(accel__json_int(f, accel__json_get(f->root, "transformer"), "joint_attention_dim", 1,
                            1 << 20, &width));
  if (job->sd3 && all->n < MAX_ENCODERS) {
    job->text_rows += job->params->max_sequence_length;
    if (job->text_width < (uint32_t)width) job->text_width = (uint32_t)width;
  }
  if (job->text_width == (uint32_t)width) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_FORMAT,
                     "%s: transformer: field 'joint_attention_dim' is %lld, but the text encoders "
                     "give %u columns",
                     f->name, (long long)width, job->text_width);
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

static accel_status embed_all(accel__image_job *job, const encoders *all) {
  const char *negative = job->params->negative_prompt ? job->params->negative_prompt : "";
  const uint64_t one = (uint64_t)job->text_rows * job->text_width, pooled = job->pooled_width;
  bool zeros;
  ACCEL_TRY(zeros_for_none(job, &zeros));
  float *text = calloc((job->n + 1) * (one + pooled), sizeof *text);
  if (!text) return accel__no_memory((job->n + 1) * (one + pooled) * sizeof *text);
  float *pools = text + (job->n + 1) * one;
  accel_status status =
      embed_texts(job, all, job->prompts, job->n, job->params->clip_skip, text, pools);
  if (status == ACCEL_OK && job->guided && !zeros) /* clip_skip or not */
    status = embed_texts(job, all, &negative, 1, 0, text + job->n * one, pools + job->n * pooled);
  job->text = malloc(job->rows * one * sizeof *job->text);
  job->pooled = malloc((job->rows * pooled + 1) * sizeof *job->pooled);
  if (status == ACCEL_OK && (!job->text || !job->pooled))
    status = accel__no_memory(job->rows * one * sizeof *job->text);
  if (status == ACCEL_OK) spread(job, text, one, job->text);
  if (status == ACCEL_OK) spread(job, pools, pooled, job->pooled);
  free(text);
  return status;
}

accel_status accel__image_prompts(accel__image_job *job) {
  encoders all;
  accel_status status = read_encoders(job, &all);
  for (uint32_t k = 0; status == ACCEL_OK && k < all.n; k++)
    status = open_encoder(job, &all.item[k]);
  if (status == ACCEL_OK) status = embed_all(job, &all);
  for (uint32_t k = 0; k < all.n; k++) accel__tokenizer_free(&all.item[k].own);
  return status;
}

static void add_text_run(accel__image_text_run *run, uint32_t *n, const encoder *e,
                         const char *output, uint32_t texts) {
  run[(*n)++] = (accel__image_text_run){e->entry, output, texts, e->tokens};
}

accel_status accel__image_text_runs(accel__image_job *job, accel__image_text_run *run,
                                    uint32_t *n) {
  encoders all;
  bool zeros;
  *n = 0;
  ACCEL_TRY(zeros_for_none(job, &zeros));
  ACCEL_TRY(read_encoders(job, &all));
  for (uint32_t k = 0; k < all.n; k++) {
    const encoder *e = &all.item[k];
    for (int negative = 0; negative <= (job->guided && !zeros); negative++) {
      const uint32_t texts = negative ? 1 : job->n;
      if (e->states) add_text_run(run, n, e, "prompt_embeds", texts);
      if (e->pooled) add_text_run(run, n, e, "text_embeds", texts);
    }
  }
  return ACCEL_OK;
}
