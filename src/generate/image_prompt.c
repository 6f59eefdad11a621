/* image_prompt.c - requests of models that generate from pictures. */
#include "generate/image_prompt.h"

#include <stdlib.h>
#include <string.h>

#include "dispatch/pack.h"
#include "dispatch/videos.h"
#include "models/model_build.h"

enum { MAX_SIZES = 4 };

bool accel__takes_whole(const accel_endpoint *ep, const char *argument) {
  const accel__model_entry *e = accel__model_entry_of(ep->model, "encode");
  if (!e) e = accel__model_entry_of(ep->model, "image_features");
  for (uint32_t i = 0; e && i < e->n_inputs; i++) {
    const accel__model_input *in = &e->inputs[i];
    if (in->kind == ACCEL__INPUT_ITEM && !strcmp(in->name, argument)) return true;
    if (in->kind == ACCEL__INPUT_DERIVED && !strcmp(in->derived->from, argument)) return true;
  }
  return accel__is_time_steps(ep->model, argument);
}

bool accel__generates_from_pictures(const accel_endpoint *ep) {
  return accel__takes_whole(ep, "pixel_values");
}

static const accel_tensor *find(const accel_tensor *tensor, uint32_t n, const char *name) {
  for (uint32_t i = 0; i < n; i++)
    if (!strcmp(tensor[i].name, name)) return &tensor[i];
  return NULL;
}

/* What the tensor `sizes` says of picture `i`: [MAX_SIZES], zeros where it says nothing. */
static void size_of(const accel__image_tokens *image_tokens, const accel_tensor *sizes, int64_t i,
                    int64_t *out) {
  memset(out, 0, MAX_SIZES * sizeof *out);
  if (!sizes || sizes->dtype != ACCEL_I64 || sizes->rank != 2 ||
      sizes->dim[1] != image_tokens->width || image_tokens->width > MAX_SIZES || i >= sizes->dim[0])
    return;
  memcpy(out, (const int64_t *)sizes->data + image_tokens->width * i,
         (size_t)image_tokens->width * sizeof *out);
}

int64_t accel__image_count(const accel_endpoint *ep, const accel_tensor *tensor,
                           uint32_t n_tensors) {
  const accel__image_tokens *image_tokens = ep->model->image_tokens;
  const accel_tensor *t =
      find(tensor, n_tensors, image_tokens->flat ? image_tokens->sizes : "pixel_values");
  return t && t->rank ? t->dim[0] : 0;
}

accel_status accel__image_rows(const accel_endpoint *ep, const accel_tensor *tensor,
                               uint32_t n_tensors, int64_t i, int64_t *out) {
  const accel__image_tokens *image_tokens = ep->model->image_tokens;
  const accel_tensor *pixels = find(tensor, n_tensors, "pixel_values");
  int64_t size[MAX_SIZES];
  if (!pixels || i >= accel__image_count(ep, tensor, n_tensors))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: there is no picture %lld in %s", ep->name,
                       (long long)i,
                       image_tokens->flat && pixels ? image_tokens->sizes : "pixel_values");
  if (image_tokens->rows_of)
    return pixels->dtype == ACCEL_F32
               ? image_tokens->rows_of(image_tokens->user, pixels->data, pixels->dim, pixels->rank,
                                       i, out)
               : accel__fail(ACCEL_ERROR_ARGUMENT, "%s: pixel_values must be fp32", ep->name);
  size_of(image_tokens, find(tensor, n_tensors, image_tokens->sizes), i, size);
  return image_tokens->rows(image_tokens->user, pixels->dim, pixels->rank, size, out);
}

accel_status accel__image_slice(const accel_endpoint *ep, const accel_tensor *tensor,
                                uint32_t n_tensors, const char *name, int64_t first, int64_t n,
                                int64_t *first_row, int64_t *rows) {
  const accel__image_tokens *image_tokens = ep->model->image_tokens;
  const accel_tensor *sizes = image_tokens ? find(tensor, n_tensors, image_tokens->sizes) : NULL;
  *first_row = first;
  *rows = n;
  if (!image_tokens || !image_tokens->flat || strcmp(name, "pixel_values")) return ACCEL_OK;
  *first_row = *rows = 0;
  for (int64_t i = 0; i < first + n; i++) {
    int64_t size[MAX_SIZES], patches = 1;
    size_of(image_tokens, sizes, i, size);
    for (int64_t k = 0; k < image_tokens->width; k++)
      if (size[k] < 0 || __builtin_mul_overflow(patches, size[k], &patches) || patches > INT32_MAX)
        return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: %s: picture %lld has a size that cannot be",
                           ep->name, image_tokens->sizes, (long long)i);
    *(i < first ? first_row : rows) += patches;
  }
  return ACCEL_OK;
}

/* The prompt of a decoder shows its pictures; what an encoder reads does. */
static accel_status showing_request(const accel_endpoint *ep, const accel__generate_plan *plan,
                                    const accel_generate_params *params,
                                    const accel__encoder_input *prompt, uint32_t number,
                                    int64_t context, accel__request *out) {
  accel__prompt_images *images = NULL;
  int32_t rope_delta = 0;
  ACCEL_TRY(accel__prompt_images_new(ep, prompt, number, &images, &rope_delta));
  const accel_status status =
      accel__generate_request(ep, plan, params, prompt->ids, number, context, out);
  if (status == ACCEL_OK && images && ep->model->is_encoder_decoder) {
    out->input.encoder = *prompt;
    out->input.encodes = true;
  } else if (status == ACCEL_OK) {
    out->input.images = images;
    out->input.rope_delta = rope_delta;
    return ACCEL_OK;
  }
  accel__prompt_images_free(&images);
  return status;
}

/* What a caption begins with: the prompt's tokens, the first replaced, the last left out. */
static accel_status opening(const accel_endpoint *ep, const accel__generate_plan *plan,
                            accel__ids ids, accel__ids *out) {
  const uint32_t n = ids.n > 1 ? ids.n - 1 : 1;
  int32_t *id = accel__arena_array((accel__arena *)&plan->arena, n, sizeof *id);
  if (!id) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (ids.n > 1) memcpy(id, ids.id, n * sizeof *id);
  id[0] = (int32_t)ep->model->bos_id;
  *out = (accel__ids){id, n};
  return ACCEL_OK;
}

accel_status accel__pictured_request(const accel_endpoint *ep, const accel__generate_plan *plan,
                                     const accel_generate_params *params,
                                     const accel__encoder_input *prompt, uint32_t number,
                                     int64_t context, accel__request *out) {
  accel__encoder_input input = *prompt;
  accel__ids decoder = {0};
  if (ep->model->image_tokens)
    return showing_request(ep, plan, params, prompt, number, context, out);
  if (ep->model->generation.caption_prefix) ACCEL_TRY(opening(ep, plan, prompt->ids, &decoder));
  if (ep->model->generation.answer_prefix) decoder = prompt->ids;
  if (ep->model->generation.caption_prefix || ep->model->generation.answer_prefix)
    input.ids = input.row = (accel__ids){0};
  return accel__generate_encoded(ep, plan, params, &input, decoder, number, context, out);
}
