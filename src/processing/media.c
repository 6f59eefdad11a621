/* media.c - pictures and sounds to tensors. */
#include "processing/media.h"

#include <stdlib.h>
#include <string.h>

#include "dispatch/locate.h"
#include "dispatch/pack.h"
#include "models/model_build.h"

accel_status accel__media_image(const accel_media *m, accel__image *out) {
  return m->data ? accel__image_parse(m->data, m->n, m->name, out)
                 : accel__image_read(m->name, out);
}

accel_status accel__media_sound(const accel_media *m, uint32_t rate, double most,
                                accel__sound *out) {
  ACCEL_TRY(m->data ? accel__sound_parse(m->data, m->n, m->name, most, out)
                    : accel__sound_read(m->name, out));
  const double seconds = (double)out->frames / out->rate;
  accel_status status =
      most > 0 && seconds > most
          ? accel__fail(ACCEL_ERROR_LIMIT, "%s: has %.0f seconds; %.0f are allowed", m->name,
                        seconds, most)
          : accel__resample(out, rate);
  if (status != ACCEL_OK) accel__sound_free(out);
  return status;
}

/* A list that owns the items' data; their names are literals, or lie with the data. */
static accel_status taken(const accel_tensor *items, uint32_t n, accel_tensors **out) {
  accel_tensors *list = calloc(1, sizeof *list + n * sizeof *items);
  *out = list;
  if (!list) return accel__no_memory(n * sizeof *items);
  *list = (accel_tensors){n, (accel_tensor *)(list + 1)};
  memcpy(list->item, items, n * sizeof *items);
  return ACCEL_OK;
}

accel_status accel__image_tensors(const accel__image_processor *p, const accel__image *images,
                                  uint32_t n, accel__pool *pool, accel__picture_parts *parts,
                                  accel_tensors **out) {
  accel__pixels px;
  ACCEL_TRY(accel__pixels_of(p, images, n, pool, &px));
  accel_tensor item[4] = {
      {.name = "pixel_values", .dtype = ACCEL_F32, .rank = px.rank, .data = px.values}};
  uint32_t k = 1;
  memcpy(item[0].dim, px.dim, px.rank * sizeof *px.dim);
  if (px.mask && px.rank == 5)
    item[k++] = (accel_tensor){"pixel_attention_mask",
                               ACCEL_I64,
                               4,
                               {px.dim[0], px.dim[1], px.dim[3], px.dim[4]},
                               px.mask};
  else if (px.mask)
    item[k++] =
        (accel_tensor){"pixel_mask", ACCEL_I64, 3, {px.dim[0], px.dim[2], px.dim[3]}, px.mask};
  for (uint32_t i = 0; parts && i < n; i++)
    parts[i] = px.parts ? px.parts[i] : (accel__picture_parts){.n = 1};
  if (px.grid) item[k++] = (accel_tensor){"image_grid_thw", ACCEL_I64, 2, {px.images, 3}, px.grid};
  if (px.sizes) item[k++] = (accel_tensor){"image_sizes", ACCEL_I64, 2, {px.images, 2}, px.sizes};
  accel_status status = taken(item, k, out);
  if (status == ACCEL_OK)
    free(px.parts); /* the tensors have taken the rest */
  else
    accel__pixels_free(&px);
  return status;
}

accel_status accel__sound_tensors(const accel__audio_processor *p, const accel__sound *sounds,
                                  uint32_t n, const accel__audio_options *options,
                                  accel__pool *pool, accel_tensors **out) {
  accel__audio_features f;
  ACCEL_TRY(accel__audio_features_of(p, sounds, n, options, pool, &f));
  accel_tensor item[3] = {{.name = f.name, .dtype = ACCEL_F32, .rank = f.rank, .data = f.values}};
  uint32_t k = 1;
  memcpy(item[0].dim, f.dim, f.rank * sizeof *f.dim);
  if (f.mask)
    item[k++] = (accel_tensor){"attention_mask", ACCEL_I32, 2, {n, f.mask_length}, f.mask};
  if (f.is_longer) item[k++] = (accel_tensor){"is_longer", ACCEL_BOOL, 2, {n, 1}, f.is_longer};
  accel_status status = taken(item, k, out);
  if (status != ACCEL_OK) accel__audio_features_free(&f);
  return status;
}

accel_status accel__join_tensors(accel_tensors **a, accel_tensors **b, accel_tensors **out) {
  accel_tensor item[16];
  uint32_t n = 0;
  const accel_tensors *const lists[] = {*a, *b};
  for (int l = 0; l < 2; l++)
    for (uint32_t i = 0; lists[l] && i < lists[l]->n && n < 16; i++) item[n++] = lists[l]->item[i];
  accel_status status = taken(item, n, out);
  if (status != ACCEL_OK) {
    accel__tensors_free(a);
    accel__tensors_free(b);
    return status;
  }
  free(*a); /* the lists alone: their tensors have moved */
  free(*b);
  *a = *b = NULL;
  return ACCEL_OK;
}

accel_status accel__media_directory(const accel_endpoint *ep, const char **out) {
  *out = ep->directory;
  if (ep->directory) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                     "%s: has no local files, so nothing tells how its inputs are prepared",
                     ep->name);
}

/* ---- accel_preprocess ---- */

static accel_status images_of(const char *directory, const accel_preprocess_params *params,
                              accel__pool *pool, accel_tensors **out) {
  accel__image_processor p;
  accel__image *images = calloc(params->n_images, sizeof *images);
  accel_status status = images ? accel__image_processor_load(directory, &p)
                               : accel__no_memory(params->n_images * sizeof *images);
  if (status == ACCEL_OK && p.reads_words)
    status = accel__remedy(
        accel__fail(ACCEL_ERROR_UNSUPPORTED,
                    "%s: apply_ocr is true: the processor would give words and boxes, too, and "
                    "there is no OCR engine here",
                    directory),
        "set apply_ocr to false in preprocessor_config.json, and bring words and boxes");
  for (uint32_t i = 0; status == ACCEL_OK && i < params->n_images; i++)
    status = accel__media_image(&params->images[i], &images[i]);
  if (status == ACCEL_OK) {
    p.rounding = params->pillow ? ACCEL__ROUND_PILLOW : ACCEL__ROUND_TORCH;
    status = accel__image_tensors(&p, images, params->n_images, pool, NULL, out);
  }
  for (uint32_t i = 0; images && i < params->n_images; i++) accel__image_free(&images[i]);
  free(images);
  return status;
}

static accel_status sounds_of(const char *directory, const accel_preprocess_params *params,
                              accel__pool *pool, accel_tensors **out) {
  accel__audio_processor p = {0};
  accel__sound *sounds = calloc(params->n_sounds, sizeof *sounds);
  accel_status status = sounds ? accel__audio_processor_load(directory, &p)
                               : accel__no_memory(params->n_sounds * sizeof *sounds);
  for (uint32_t i = 0; status == ACCEL_OK && i < params->n_sounds; i++)
    status = accel__media_sound(&params->sounds[i], p.rate, 0, &sounds[i]);
  if (status == ACCEL_OK)
    status = accel__sound_tensors(&p, sounds, params->n_sounds,
                                  &(accel__audio_options){.seed = params->seed}, pool, out);
  for (uint32_t i = 0; sounds && i < params->n_sounds; i++) accel__sound_free(&sounds[i]);
  free(sounds);
  accel__audio_processor_free(&p);
  return status;
}

accel_status accel__preprocess(accel *ctx, const char *model, const accel_preprocess_params *params,
                               accel_tensors **out) {
  accel__arena arena = {0};
  char *directory = NULL;
  const accel__registry_model *entry;
  accel_tensors *pictures = NULL, *sounds = NULL;
  accel_status status = accel__locate(ctx, model, &arena, &directory, &entry);
  if (status == ACCEL_OK && !params->n_images && !params->n_sounds)
    status = accel__fail(ACCEL_ERROR_ARGUMENT, "no pictures and no sounds are given");
  if (status == ACCEL_OK && params->n_images)
    status = images_of(directory, params, ctx->pool, &pictures);
  if (status == ACCEL_OK && params->n_sounds)
    status = sounds_of(directory, params, ctx->pool, &sounds);
  if (status == ACCEL_OK)
    status = accel__join_tensors(&pictures, &sounds, out);
  else
    accel__tensors_free(&pictures);
  accel__arena_free(&arena);
  return status;
}

/* ---- a run ---- */

accel_status accel__run_media(accel_endpoint *ep, const accel_tensors *texts,
                              const accel_tensors *own, const char *const *names, uint32_t n_names,
                              accel_tensors **out) {
  enum { MOST = 8 };
  accel_tensor item[MOST];
  uint32_t n = 0;
  for (uint32_t i = 0; texts && i < texts->n && n < MOST; i++) item[n++] = texts->item[i];
  for (uint32_t i = 0; i < own->n && n < MOST; i++)
    if (accel__model_takes(ep->model, own->item[i].name)) item[n++] = own->item[i];
  return accel__run_padded(ep, &(accel_tensors){n, item}, names, n_names, out);
}
