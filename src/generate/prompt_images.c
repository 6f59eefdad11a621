/* prompt_images.c - tensors of all pictures to one picture after the other. */
#include "generate/prompt_images.h"

#include <stdlib.h>
#include <string.h>

#include "core/keyed_hash.h"
#include "dispatch/pack.h"
#include "generate/image_prompt.h"
#include "modeling/block_rows.h"
#include "models/model_build.h"

/* ---- what each picture is made of ---- */

/* Pictures of the tensors: of models whose dim 0 counts prompts, the images of all of them, padding
 * among them. */
static int64_t count_of(const accel_endpoint *ep, const accel__encoder_input *prompt) {
  const int64_t n = accel__image_count(ep, prompt->tensor, prompt->n_tensors);
  for (uint32_t i = 0; ep->model->image_tokens->rows_of && i < prompt->n_tensors; i++)
    if (!strcmp(prompt->tensor[i].name, "pixel_values"))
      return prompt->tensor[i].rank > 1 && prompt->tensor[i].dim[1] < INT32_MAX / (n + 1)
                 ? n * prompt->tensor[i].dim[1]
                 : 0;
  return n;
}

/* The part of `t` that is picture `at`. */
static accel_status slice(const accel_endpoint *ep, const accel__encoder_input *prompt,
                          const accel_tensor *t, int64_t at, accel_tensor *out) {
  const bool prompts = ep->model->image_tokens->rows_of != NULL;
  int64_t first = at, rows = 1, there = t->rank > 0 ? t->dim[0] : 0;
  size_t bytes = t->dtype == ACCEL_I64 ? 8 : 4;
  if (prompts)
    there = t->rank > 1 ? t->dim[0] * t->dim[1] : 0;
  else
    ACCEL_TRY(
        accel__image_slice(ep, prompt->tensor, prompt->n_tensors, t->name, at, 1, &first, &rows));
  if (rows < 1 || first + rows > there || (t->dtype != ACCEL_F32 && t->dtype != ACCEL_I64))
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: '%s' must be fp32 or int64 and hold picture %lld of the prompt",
                       ep->name, t->name, (long long)at);
  *out = *t;
  out->dim[0] = rows;
  if (prompts) out->dim[1] = 1;
  for (uint32_t i = prompts ? 2 : 1; i < t->rank; i++) bytes *= (size_t)t->dim[i];
  out->data = (char *)t->data + (size_t)first * bytes;
  return ACCEL_OK;
}

static accel_status add_image(const accel_endpoint *ep, const accel__encoder_input *prompt,
                              int64_t at, accel__prompt_images *to) {
  accel_tensor *given = accel__arena_array(&to->arena, prompt->n_tensors, sizeof *given);
  uint32_t n = 0;
  int64_t rows = 0;
  if (!given) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < prompt->n_tensors; i++)
    if (accel__takes_whole(ep, prompt->tensor[i].name))
      ACCEL_TRY(slice(ep, prompt, &prompt->tensor[i], at, &given[n++]));
  ACCEL_TRY(accel__image_rows(ep, given, n, 0, &rows));
  if (rows < 1) return ACCEL_OK; /* padding */
  const uint32_t before = to->n ? to->image[to->n - 1].number + to->image[to->n - 1].rows : 0;
  if (rows > (int64_t)UINT32_MAX - before)
    return accel__fail(ACCEL_ERROR_LIMIT, "%s: the pictures of a prompt have too many rows",
                       ep->name);
  to->image[to->n++] =
      (accel__prompt_image){.number = before, .rows = (uint32_t)rows, .given = given, .n_given = n};
  return ACCEL_OK;
}

/* ---- where they stand ---- */

static accel_status find_places(const accel_endpoint *ep, accel__ids ids, uint32_t number,
                                accel__prompt_images *to) {
  const accel__image_tokens *image_tokens = ep->model->image_tokens;
  const uint32_t rows = to->n ? to->image[to->n - 1].number + to->image[to->n - 1].rows : 0;
  to->place = accel__arena_array(&to->arena, ids.n, sizeof *to->place);
  if (!to->place) return ACCEL_ERROR_OUT_OF_MEMORY;
  bool videos = false;
  for (uint32_t i = 0; i < ids.n; i++) {
    const bool video = ids.id[i] == image_tokens->video_token;
    if (video || ids.id[i] == image_tokens->token) to->place[to->n_places++] = i;
    videos |= video;
  }
  if (to->n_places != rows) {
    const accel_status status = accel__fail(
        ACCEL_ERROR_ARGUMENT,
        "%s: prompt %u has %u image tokens (id %lld), its pictures have %u rows", ep->name, number,
        to->n_places, (long long)(videos ? image_tokens->video_token : image_tokens->token), rows);
    return videos ? accel__remedy(status, "give single frames of a video as pictures") : status;
  }
  for (uint32_t i = 0; i < to->n; i++) {
    accel__prompt_image *image = &to->image[i];
    image->first = to->place[image->number];
    image->end = to->place[image->number + image->rows - 1] + 1;
  }
  return ACCEL_OK;
}

static accel_status find_blocks(const accel_endpoint *ep, accel__ids ids,
                                accel__prompt_images *to) {
  const accel__image_tokens *image_tokens = ep->model->image_tokens;
  int64_t first = 0, end = 0, low = 0;
  if (image_tokens->blocks == ACCEL__BLOCKS_NONE) return ACCEL_OK;
  int32_t *types = accel__arena_array(&to->arena, ids.n, sizeof *types);
  to->block = accel__arena_array(&to->arena, to->n_places + 1u, sizeof *to->block);
  if (!types || !to->block) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (to->causal) /* a run that has inputs of blocks, but no blocks, begins a sequence */
    return to->block[to->n_blocks++] = (accel__prompt_block){0, ids.n}, ACCEL_OK;
  for (uint32_t i = 0; i < ids.n; i++) types[i] = accel__block_type(image_tokens, ids.id[i]);
  while (accel__block_next(image_tokens, types, ids.n, end, &first, &end, &low))
    to->block[to->n_blocks++] = (accel__prompt_block){(uint32_t)low, (uint32_t)end};
  return ACCEL_OK;
}

static accel_status find_positions(const accel_endpoint *ep, const accel__encoder_input *prompt,
                                   accel__prompt_images *to, int32_t *rope_delta) {
  const accel_tensors tensors = {prompt->n_tensors, (accel_tensor *)prompt->tensor};
  const uint32_t n = prompt->ids.n;
  const accel__mrope_input tokens = {
      .ids = prompt->ids.id, .lengths = &(int32_t){(int32_t)n}, .n = 1, .tokens = n};
  if (!ep->model->image_tokens->mrope_positions) return ACCEL_OK;
  to->positions = accel__arena_array(&to->arena, 3 * (size_t)n, sizeof *to->positions);
  if (!to->positions) return ACCEL_ERROR_OUT_OF_MEMORY;
  return accel__mrope_positions(ep, &tensors, &tokens, to->positions, rope_delta);
}

/* Every tensor given is an argument of the image encoder, or one that is never read. */
static accel_status check_tensors(const accel_endpoint *ep, const accel__encoder_input *prompt) {
  for (uint32_t i = 0; i < prompt->n_tensors; i++) {
    const char *name = prompt->tensor[i].name;
    if (!accel__takes_whole(ep, name) && !accel__model_leaves_unread(ep->model, name))
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: the image encoder of a %s takes no '%s'",
                         ep->name, ep->model->architecture, name);
  }
  return ACCEL_OK;
}

static accel_status fill(const accel_endpoint *ep, const accel__encoder_input *prompt,
                         uint32_t number, accel__prompt_images *to, int32_t *rope_delta) {
  const int64_t n = count_of(ep, prompt);
  to->causal = prompt->causal;
  to->n_tokens = prompt->ids.n;
  to->image = accel__arena_array(&to->arena, (size_t)n + 1, sizeof *to->image);
  if (!to->image) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(check_tensors(ep, prompt));
  for (int64_t i = 0; i < n; i++) ACCEL_TRY(add_image(ep, prompt, i, to));
  ACCEL_TRY(find_places(ep, prompt->ids, number, to));
  if (!to->n) return ACCEL_OK;
  ACCEL_TRY(find_blocks(ep, prompt->ids, to));
  return find_positions(ep, prompt, to, rope_delta);
}

accel_status accel__prompt_images_new(const accel_endpoint *ep, const accel__encoder_input *prompt,
                                      uint32_t number, accel__prompt_images **out,
                                      int32_t *rope_delta) {
  accel__prompt_images *images = calloc(1, sizeof *images);
  *out = NULL;
  *rope_delta = 0;
  if (!images) return accel__no_memory(sizeof *images);
  const accel_status status = fill(ep, prompt, number, images, rope_delta);
  if (status != ACCEL_OK || !images->n) return accel__prompt_images_free(&images), status;
  *out = images;
  return ACCEL_OK;
}

void accel__prompt_images_free(accel__prompt_images **images) {
  accel__prompt_images *gone = *images;
  *images = NULL;
  if (!gone) return;
  for (uint32_t i = 0; i < gone->n; i++) free(gone->image[i].features);
  accel__arena_free(&gone->arena);
  free(gone);
}

/* ---- what they hold ---- */

/* Of names, shapes and values. */
static bool hash_image(accel__prompt_image *image) {
  struct {
    uint64_t data[2];
    char name[32];
    int64_t rank, dim[ACCEL_MAX_RANK], rows, before[2];
  } of = {.before = {0}};
  for (uint32_t i = 0; i < image->n_given; i++) {
    const accel_tensor *t = &image->given[i];
    memset(&of, 0, sizeof of);
    memcpy(of.before, image->digest, sizeof of.before);
    strncpy(of.name, t->name, sizeof of.name - 1);
    of.rank = t->rank;
    of.rows = image->rows;
    memcpy(of.dim, t->dim, t->rank * sizeof *t->dim);
    if (!accel__keyed_hash(t->data, accel__tensor_bytes(t), of.data) ||
        !accel__keyed_hash(&of, sizeof of, image->digest))
      return false;
  }
  return true;
}

void accel__prompt_images_hash(accel__prompt_images *images) {
  images->hashed = true;
  for (uint32_t i = 0; i < images->n; i++) images->hashed &= hash_image(&images->image[i]);
}

/* ---- reading ---- */

uint32_t accel__prompt_images_cut(const accel__prompt_images *images, uint32_t n) {
  for (uint32_t i = images ? images->n_blocks : 0; i-- > 0;)
    if (images->block[i].low < n && n < images->block[i].end) n = images->block[i].low;
  return n;
}

uint32_t accel__prompt_images_places(const accel__prompt_images *images, uint32_t n) {
  uint32_t low = 0, high = images->n_places;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (images->place[middle] < n)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

accel__prompt_image *accel__prompt_images_next(const accel__prompt_images *images, uint32_t from,
                                               uint32_t to) {
  const uint32_t first = accel__prompt_images_places(images, from),
                 end = accel__prompt_images_places(images, to);
  for (uint32_t i = 0; i < images->n; i++) {
    accel__prompt_image *image = &images->image[i];
    if (!image->features && image->number < end && image->number + image->rows > first)
      return image;
  }
  return NULL;
}

void accel__prompt_images_read(accel__prompt_images *images, uint32_t n) {
  for (uint32_t i = 0; i < images->n && images->image[i].end <= n; i++) {
    free(images->image[i].features);
    images->image[i].features = NULL;
  }
}

const float *accel__prompt_images_row(const accel__prompt_images *images, uint32_t number) {
  uint32_t i = 0;
  while (i + 1 < images->n && images->image[i + 1].number <= number) i++;
  const accel__prompt_image *image = &images->image[i];
  return image->features + (number - image->number) * images->width;
}
