/* shown.c - requests of models that generate from pictures. */
#include "tasks/shown.h"

#include <string.h>

bool accel__takes_whole(const accel_endpoint *ep, const char *argument) {
  const accel__model_entry *e = accel__model_entry_of(ep->model, "encode");
  if (!e) e = accel__model_entry_of(ep->model, "decode_image");
  for (uint32_t i = 0; e && i < e->n_inputs; i++) {
    const accel__model_input *in = &e->inputs[i];
    if (in->kind == ACCEL__INPUT_ITEM && !strcmp(in->name, argument)) return true;
    if (in->kind == ACCEL__INPUT_DERIVED && !strcmp(in->derived->from, argument)) return true;
  }
  return false;
}

bool accel__generates_from_pictures(const accel_endpoint *ep) { return accel__takes_whole(ep, "pixel_values"); }

static const accel_tensor *find(const accel_tensor *tensor, uint32_t n, const char *name) {
  for (uint32_t i = 0; i < n; i++)
    if (!strcmp(tensor[i].name, name)) return &tensor[i];
  return NULL;
}

accel_status accel__shown_rows(const accel_endpoint *ep, const accel_tensor *tensor, uint32_t n_tensors, int64_t i,
                               int64_t *out) {
  const accel__shown *shown = ep->model->shown;
  const accel_tensor *pixels = find(tensor, n_tensors, "pixel_values"), *sizes = find(tensor, n_tensors, "image_sizes");
  int64_t size[2] = {0, 0};
  if (!pixels || pixels->rank < 4 || i >= pixels->dim[0])
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: there is no picture %lld in pixel_values", ep->name, (long long)i);
  if (sizes && sizes->dtype == ACCEL_I64 && sizes->rank == 2 && sizes->dim[1] == 2 && i < sizes->dim[0])
    memcpy(size, (const int64_t *)sizes->data + 2 * i, sizeof size);
  return shown->rows(shown->user, pixels->dim, pixels->rank, size[0], size[1], out);
}

/* The prompt is read with its pictures before the loop begins, but for its last token. */
static accel_status shown_request(const accel_endpoint *ep, const accel__generate_plan *plan,
                                  const accel_generate_params *params, accel__ids ids, const accel_tensor *tensor,
                                  uint32_t n_tensors, uint32_t number, int64_t context, accel__request *out) {
  const int64_t token = ep->model->shown->token;
  const accel_tensor *pixels = find(tensor, n_tensors, "pixel_values");
  int64_t places = 0, rows = 0;
  for (uint32_t i = 0; i < ids.n; i++) places += ids.id[i] == token;
  for (int64_t i = 0; pixels && i < pixels->dim[0]; i++) {
    int64_t of_one;
    ACCEL_TRY(accel__shown_rows(ep, tensor, n_tensors, i, &of_one));
    rows += of_one;
  }
  if (places != rows)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: prompt %u has %lld image tokens (id %lld), its pictures have %lld rows",
                       ep->name, number, (long long)places, (long long)token, (long long)rows);
  ACCEL_TRY(accel__generate_request(ep, plan, params, ids, number, context, out));
  if (!rows) return ACCEL_OK;
  if (ids.id[ids.n - 1] == token)
    return accel__remedy(accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: prompt %u ends with a picture", ep->name, number),
                         "put text behind the picture");
  out->encoder = (accel__encoder_input){{ids.id, ids.n - 1}, tensor, n_tensors};
  out->encodes = out->prefills = true;
  return ACCEL_OK;
}

/* What a caption begins with: the prompt's tokens, the first replaced, the last left out. */
static accel_status opening(const accel_endpoint *ep, const accel__generate_plan *plan, accel__ids ids, accel__ids *out) {
  const uint32_t n = ids.n > 1 ? ids.n - 1 : 1;
  int32_t *id = accel__arena_array((accel__arena *)&plan->arena, n, sizeof *id);
  if (!id) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (ids.n > 1) memcpy(id, ids.id, n * sizeof *id);
  id[0] = (int32_t)ep->model->bos_id;
  *out = (accel__ids){id, n};
  return ACCEL_OK;
}

accel_status accel__pictured_request(const accel_endpoint *ep, const accel__generate_plan *plan,
                                     const accel_generate_params *params, accel__ids ids, const accel_tensor *tensor,
                                     uint32_t n_tensors, uint32_t number, int64_t context, accel__request *out) {
  accel__encoder_input input = {{0}, tensor, n_tensors};
  accel__ids decoder = {0};
  if (ep->model->shown) return shown_request(ep, plan, params, ids, tensor, n_tensors, number, context, out);
  if (ep->model->opens_text)
    ACCEL_TRY(opening(ep, plan, ids, &decoder));
  else
    input.ids = ids;
  return accel__generate_encoded(ep, plan, params, &input, decoder, number, context, out);
}
