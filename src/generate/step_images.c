/* step_images.c - pieces of prompts with pictures as inputs of a run. */
#include "generate/step_images.h"

#include <stdlib.h>
#include <string.h>

#include "dispatch/pack.h"
#include "generate/prompt_images.h"
#include "modeling/block_rows.h"
#include "processing/media.h"

/* Image tokens of an item: *first is the number of the first in its prompt. */
static uint32_t image_rows_of(const accel__step_item *item, uint32_t *first) {
  if (!item->images) return 0;
  *first = accel__prompt_images_places(item->images, item->past_len);
  return accel__prompt_images_places(item->images, item->past_len + item->n) - *first;
}

static uint32_t image_rows_of_all(const accel__step_item *items, uint32_t n) {
  uint32_t rows = 0, first;
  for (uint32_t i = 0; i < n; i++) rows += image_rows_of(&items[i], &first);
  return rows;
}

bool accel__step_shows_images(const accel__step_item *items, uint32_t n) {
  return image_rows_of_all(items, n) > 0;
}

bool accel__step_has_images(const accel__step_item *items, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (items[i].images) return true;
  return false;
}

/* [3, tokens]: those of prompts that show pictures, and counted on for the others. */
static accel_status fill_positions(const accel__step_item *items, uint32_t n, uint64_t tokens,
                                   void **owned) {
  int32_t *out = *owned = malloc(3 * (size_t)tokens * sizeof *out + 1);
  uint64_t row = 0;
  if (!out) return accel__no_memory(3 * (size_t)tokens * sizeof *out);
  for (uint32_t i = 0; i < n; row += items[i++].n) {
    const accel__prompt_images *images = items[i].images;
    const int32_t *given = images ? images->positions : NULL;
    for (uint64_t line = 0; line < 3; line++)
      for (uint32_t k = 0; k < items[i].n; k++)
        out[line * tokens + row + k] = given
                                           ? given[line * images->n_tokens + items[i].past_len + k]
                                           : (int32_t)(items[i].past_len + k) + items[i].rope_delta;
  }
  return ACCEL_OK;
}

/* [rows, width]: rows of pictures. */
static accel_status fill_features(const accel__step_item *items, uint32_t n, void **owned,
                                  accel__item *item) {
  uint64_t width = 0;
  for (uint32_t i = 0; i < n; i++)
    if (items[i].images && items[i].images->width) width = items[i].images->width;
  const uint32_t rows = image_rows_of_all(items, n);
  float *to = *owned = malloc((size_t)rows * width * sizeof *to + 1);
  if (!to) return accel__no_memory((size_t)rows * width * sizeof *to);
  *item = (accel__item){.data = to, .rank = 2, .dim = {rows, (int64_t)width}};
  for (uint32_t i = 0; i < n; i++) {
    uint32_t first, here = image_rows_of(&items[i], &first);
    for (uint32_t k = 0; k < here; k++, to += width)
      memcpy(to, accel__prompt_images_row(items[i].images, first + k), width * sizeof *to);
  }
  return ACCEL_OK;
}

/* [rows]: rows of the run that they are for. */
static accel_status fill_places(const accel__step_item *items, uint32_t n, void **owned,
                                accel__item *item) {
  const uint32_t rows = image_rows_of_all(items, n);
  int32_t *to = *owned = malloc((size_t)rows * sizeof *to + 1);
  uint32_t row = 0;
  if (!to) return accel__no_memory((size_t)rows * sizeof *to);
  *item = (accel__item){.data = to, .rank = 1, .dim = {rows}};
  for (uint32_t i = 0; i < n; row += items[i++].n) {
    uint32_t first, here = image_rows_of(&items[i], &first);
    for (uint32_t k = 0; k < here; k++)
      *to++ = (int32_t)(row + items[i].images->place[first + k] - items[i].past_len);
  }
  return ACCEL_OK;
}

/* A part of the blocks of the run, which the types that the processor gives tokens make. */
static accel_status fill_blocks(const accel__image_tokens *image_tokens,
                                const accel__step_item *items, uint32_t n,
                                const accel__batch *batch, accel__block_part part, void **owned,
                                accel__item *item) {
  const bool prefix = image_tokens->blocks == ACCEL__BLOCKS_PREFIX;
  int32_t *types = malloc(((size_t)batch->tokens + 1) * sizeof *types), *values = NULL, *to = types;
  int64_t n_values = 0;
  if (!types) return accel__no_memory((size_t)batch->tokens * sizeof *types);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < items[i].n; k++)
      *to++ = items[i].images && !items[i].images->causal
                  ? accel__block_type(image_tokens, items[i].ids[k])
                  : prefix;
  const accel__block_tokens t = {.types = types,
                                 .lengths = batch->lengths,
                                 .n = n,
                                 .tokens = batch->tokens,
                                 .past_len = batch->past_len};
  const accel_status status = accel__blocks_make(image_tokens, &t, part, &values, &n_values);
  if (status == ACCEL_OK)
    *item = (accel__item){.data = *owned = values, .rank = 1, .dim = {n_values}};
  free(types);
  return status;
}

accel_status accel__step_images(const accel_endpoint *ep, const accel__model_entry *e,
                                const accel__step_item *items, uint32_t n, accel__batch *batch,
                                void **owned) {
  for (uint32_t i = 0; i < e->n_inputs && i < ACCEL__MAX_INPUTS; i++) {
    const accel__model_input *in = &e->inputs[i];
    if (in->kind == ACCEL__INPUT_MROPE) {
      ACCEL_TRY(fill_positions(items, n, batch->tokens, &owned[i]));
      batch->value[i] = owned[i];
    } else if (in->kind == ACCEL__INPUT_BLOCKS) {
      ACCEL_TRY(fill_blocks(ep->model->image_tokens, items, n, batch, in->part, &owned[i],
                            &batch->item[i]));
    } else if (in->kind == ACCEL__INPUT_ITEM && !strcmp(in->name, "image_features")) {
      ACCEL_TRY(fill_features(items, n, &owned[i], &batch->item[i]));
    } else if (in->kind == ACCEL__INPUT_ITEM && !strcmp(in->name, "image_positions")) {
      ACCEL_TRY(fill_places(items, n, &owned[i], &batch->item[i]));
    }
  }
  return ACCEL_OK;
}

/* ---- one picture ---- */

accel_status accel__given_item(const accel_endpoint *ep, const accel__model_input *in,
                               const accel_tensor *tensor, uint32_t n_tensors, void **owned,
                               accel__item *item) {
  const accel_tensors tensors = {n_tensors, (accel_tensor *)tensor};
  if (in->kind == ACCEL__INPUT_DERIVED)
    return accel__derive_item(ep, in->derived, &tensors, owned, item);
  const accel_tensor *t = accel__find_tensor(&tensors, in->name);
  if (!t) return ACCEL_OK;
  *item = (accel__item){.data = t->data, .rank = t->rank};
  memcpy(item->dim, t->dim, t->rank * sizeof *t->dim);
  return ACCEL_OK;
}

static accel_status take_features(const accel_endpoint *ep, const accel__result *result,
                                  accel__prompt_images *images, accel__prompt_image *image) {
  if (result->rank != 2 || result->dim[0] != image->rows)
    return accel__fail(ACCEL_ERROR_INTERNAL, "%s: a picture of %u image tokens has %lld rows",
                       ep->name, image->rows, (long long)result->dim[0]);
  image->features = result->data;
  images->width = (uint64_t)result->dim[1];
  return ACCEL_OK;
}

accel_status accel__encode_image(accel_endpoint *ep, uint32_t entry, accel__prompt_images *images,
                                 accel__prompt_image *image,
                                 const accel_plugin_adapter_use *adapter) {
  const accel__model_entry *e = &ep->model->entries[entry];
  void *owned[ACCEL__MAX_INPUTS] = {0};
  accel__result result = {0};
  accel__batch batch = {.n = 1, .adapter = adapter};
  accel_status status = ACCEL_OK;
  for (uint32_t i = 0; i < e->n_inputs && i < ACCEL__MAX_INPUTS && status == ACCEL_OK; i++)
    status = accel__given_item(ep, &e->inputs[i], image->given, image->n_given, &owned[i],
                               &batch.item[i]);
  if (status == ACCEL_OK)
    status = accel__endpoint_run(ep, entry, &batch, &(uint32_t){0}, 1, &result);
  if (status == ACCEL_OK) status = take_features(ep, &result, images, image);
  if (status != ACCEL_OK) free(result.data);
  for (uint32_t i = 0; i < ACCEL__MAX_INPUTS; i++) free(owned[i]);
  return status;
}
