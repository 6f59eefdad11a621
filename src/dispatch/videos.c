/* videos.c - see videos.h. */
#include "dispatch/videos.h"

#include <string.h>

#include "dispatch/pack.h"
#include "weights/weights.h"

/* Pictures, or videos: their tensors, and what of these the text has shown so far. */
typedef struct shown {
  const char *what;
  const accel_tensor *pixels, *grid; /* [patches, columns], [n, 3]; NULL both: there are none */
  int64_t token;
  bool by_frames;      /* the text shows each frame by itself */
  int64_t at, frame;   /* the next of the grid, and its frame */
  int64_t patch;       /* the first patch of that */
  const float *second; /* [n]; NULL: 1 each */
} shown;

/* A picture or video in the order of the text. */
typedef struct seen {
  const shown *of;
  int64_t grid[3], patch, patches;
  float step; /* of ACCEL__TIME_STEPS */
} seen;

typedef struct join {
  const accel_endpoint *ep;
  const accel_tensor *ids; /* [B, S] */
  shown pictures, videos;
  seen *seen; /* [n] */
  uint64_t n;
  accel__arena *arena;
} join;

bool accel__is_time_steps(const accel__model *model, const char *name) {
  return model->image_tokens && model->image_tokens->time_scale > 0 &&
         !strcmp(name, ACCEL__TIME_STEPS);
}

bool accel__takes_of_videos(const accel__model *model, const char *argument) {
  const accel__image_tokens *image_tokens = model->image_tokens;
  if (!image_tokens || image_tokens->video_token < 0) return false;
  return !strcmp(argument, "pixel_values_videos") || !strcmp(argument, "video_grid_thw") ||
         (image_tokens->time_scale > 0 && !strcmp(argument, "second_per_grid_ts"));
}

bool accel__shows_videos(const accel__model *model, const accel_tensors *inputs) {
  return accel__takes_of_videos(model, "video_grid_thw") &&
         (accel__find_tensor(inputs, "pixel_values_videos") ||
          accel__find_tensor(inputs, "video_grid_thw"));
}

/* ---- what is given ---- */

static bool holds_integers(const accel_tensor *t, int64_t columns) {
  return (t->dtype == ACCEL_I64 || t->dtype == ACCEL_I32) && t->data && t->rank == 2 &&
         t->dim[0] >= 0 && t->dim[0] <= INT32_MAX && t->dim[1] >= 0 && t->dim[1] <= INT32_MAX &&
         (columns < 0 || t->dim[1] == columns);
}

static accel_status find_shown(const accel_endpoint *ep, const accel_tensors *inputs,
                               const char *pixels, const char *grid, shown *out) {
  out->pixels = accel__find_tensor(inputs, pixels);
  out->grid = accel__find_tensor(inputs, grid);
  if (!out->pixels && !out->grid) return ACCEL_OK;
  if (!out->pixels || !out->grid)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' is missing", ep->name,
                       out->pixels ? grid : pixels);
  if (!holds_integers(out->grid, 3))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' must hold integers [%s, 3]", ep->name,
                       grid, out->what);
  if (!out->pixels->data || out->pixels->rank != 2 ||
      accel__tensor_bytes(out->pixels) == UINT64_MAX)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' must be [patches, columns]", ep->name,
                       pixels);
  return ACCEL_OK;
}

/* second_per_grid_ts, as single precision has it. */
static accel_status find_seconds(join *j, const accel_tensors *inputs) {
  const accel_tensor *t = accel__find_tensor(inputs, "second_per_grid_ts");
  const int64_t n = j->videos.grid->dim[0];
  if (!t || j->ep->model->image_tokens->time_scale <= 0) return ACCEL_OK;
  const bool integers = t->dtype == ACCEL_I64 || t->dtype == ACCEL_I32;
  if (!t->data || t->rank != 1 || t->dim[0] != n ||
      !(integers || t->dtype == ACCEL_F32 || t->dtype == ACCEL_F16 || t->dtype == ACCEL_BF16 ||
        t->dtype == ACCEL_F64))
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: input 'second_per_grid_ts' must hold a number for each video, [%lld]",
                       j->ep->name, (long long)n);
  float *second = accel__arena_array(j->arena, (size_t)n + 1, sizeof *second);
  if (!second) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (int64_t i = 0; integers && i < n; i++) second[i] = (float)accel__tensor_int(t, (uint64_t)i);
  if (!integers)
    ACCEL_TRY(accel__elements_to_f32((accel_plugin_dtype)t->dtype, t->data, (uint64_t)n, second));
  for (int64_t i = 0; i < n; i++)
    if (!(second[i] >= 0 && second[i] <= 1e6f))
      return accel__fail(ACCEL_ERROR_ARGUMENT,
                         "%s: input 'second_per_grid_ts' holds %g for video %lld", j->ep->name,
                         (double)second[i], (long long)i);
  j->videos.second = second;
  return ACCEL_OK;
}

static accel_status find_all(join *j, const accel_tensors *inputs) {
  const accel_tensor *types = accel__find_tensor(inputs, "mm_token_type_ids");
  ACCEL_TRY(find_shown(j->ep, inputs, "pixel_values", "image_grid_thw", &j->pictures));
  ACCEL_TRY(find_shown(j->ep, inputs, "pixel_values_videos", "video_grid_thw", &j->videos));
  ACCEL_TRY(find_seconds(j, inputs));
  const accel_tensor *a = j->pictures.pixels, *b = j->videos.pixels;
  if (a && (a->dtype != b->dtype || a->dim[1] != b->dim[1]))
    return accel__fail(
        ACCEL_ERROR_ARGUMENT,
        "%s: inputs 'pixel_values' and 'pixel_values_videos' must have the same dtype and columns",
        j->ep->name);
  if (!(j->ids = accel__find_tensor(inputs, "input_ids")))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input 'input_ids' is missing", j->ep->name);
  if (!holds_integers(j->ids, -1))
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: input 'input_ids' must hold integers [batch, sequence]", j->ep->name);
  return types ? accel__check_token_types(j->ep, j->ids, types) : ACCEL_OK;
}

/* ---- in the order of the text ---- */

/* The next picture or video of its kind; *rows: its tokens. */
static accel_status take(join *j, shown *of, int64_t *rows) {
  const accel__image_tokens *image_tokens = j->ep->model->image_tokens;
  const int64_t n = of->grid ? of->grid->dim[0] : 0;
  seen *s = &j->seen[j->n];
  if (of->at >= n)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: input_ids show more %s (token %lld) than the %lld that are given",
                       j->ep->name, of->what, (long long)of->token, (long long)n);
  *s = (seen){.of = of, .patch = of->patch, .step = -1};
  for (int k = 0; k < 3; k++) s->grid[k] = accel__tensor_int(of->grid, (uint64_t)(3 * of->at + k));
  const int64_t frames = s->grid[0];
  ACCEL_TRY(
      image_tokens->rows(image_tokens->user, of->pixels->dim, of->pixels->rank, s->grid, rows));
  if (of->by_frames) *rows /= s->grid[0], s->grid[0] = 1;
  s->patches = s->grid[0] * s->grid[1] * s->grid[2];
  if (s->patch + s->patches > of->pixels->dim[0])
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: input '%s' has %lld patches, fewer than '%s' says", j->ep->name,
                       of->pixels->name, (long long)of->pixels->dim[0], of->grid->name);
  if (of == &j->videos)
    s->step = (float)image_tokens->time_scale * (of->second ? of->second[of->at] : 1.0f);
  of->patch += s->patches;
  j->n++;
  if (of->by_frames && ++of->frame < frames) return ACCEL_OK;
  of->frame = 0;
  of->at++;
  return ACCEL_OK;
}

static accel_status all_taken(const join *j, const shown *of) {
  if (!of->grid || (of->at == of->grid->dim[0] && of->patch == of->pixels->dim[0])) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_ARGUMENT,
                     "%s: input_ids (token %lld) show %lld of the %lld %s of '%s', and %lld of the "
                     "%lld patches of '%s'",
                     j->ep->name, (long long)of->token, (long long)of->at,
                     (long long)of->grid->dim[0], of->what, of->grid->name, (long long)of->patch,
                     (long long)of->pixels->dim[0], of->pixels->name);
}

static accel_status walk(join *j) {
  const int64_t n = j->ids->dim[0] * j->ids->dim[1], width = j->ids->dim[1];
  /* each takes a token at least */
  if (!(j->seen = accel__arena_array(j->arena, (size_t)n + 1, sizeof *j->seen)))
    return ACCEL_ERROR_OUT_OF_MEMORY;
  for (int64_t i = 0, rows; i < n; i += rows) {
    const int64_t id = accel__tensor_int(j->ids, (uint64_t)i);
    rows = 1;
    if (id == j->pictures.token) ACCEL_TRY(take(j, &j->pictures, &rows));
    if (id == j->videos.token) ACCEL_TRY(take(j, &j->videos, &rows));
    if (rows > width - i % width)
      rows = width - i % width; /* too few tokens, which is said later */
  }
  ACCEL_TRY(all_taken(j, &j->pictures));
  return all_taken(j, &j->videos);
}

/* ---- as pictures ---- */

/* The patches of all; of one kind alone they lie as they are given. */
static accel_status join_pixels(const join *j, accel_tensor *out) {
  *out = *j->videos.pixels;
  out->name = "pixel_values";
  if (!j->pictures.pixels) return ACCEL_OK;
  const uint64_t row = accel__tensor_bytes(out) / (uint64_t)(out->dim[0] > 0 ? out->dim[0] : 1);
  out->dim[0] += j->pictures.pixels->dim[0];
  uint8_t *to = accel__arena_array(j->arena, (size_t)out->dim[0], (size_t)row);
  if (!to) return ACCEL_ERROR_OUT_OF_MEMORY;
  out->data = to;
  for (uint64_t i = 0; i < j->n; i++) {
    const seen *s = &j->seen[i];
    memcpy(to, (const uint8_t *)s->of->pixels->data + (uint64_t)s->patch * row,
           (uint64_t)s->patches * row);
    to += (uint64_t)s->patches * row;
  }
  return ACCEL_OK;
}

static accel_status join_grids(const join *j, accel_tensor *grid, accel_tensor *steps) {
  int64_t *size = accel__arena_array(j->arena, 3 * (size_t)j->n + 1, sizeof *size);
  float *step = accel__arena_array(j->arena, (size_t)j->n + 1, sizeof *step);
  if (!size || !step) return ACCEL_ERROR_OUT_OF_MEMORY;
  const int64_t n = (int64_t)j->n;
  *grid = (accel_tensor){
      .name = "image_grid_thw", .dtype = ACCEL_I64, .rank = 2, .dim = {n, 3}, .data = size};
  *steps = (accel_tensor){
      .name = ACCEL__TIME_STEPS, .dtype = ACCEL_F32, .rank = 1, .dim = {n}, .data = step};
  for (uint64_t i = 0; i < j->n; i++) {
    memcpy(&size[3 * i], j->seen[i].grid, sizeof j->seen[i].grid);
    step[i] = j->seen[i].step;
  }
  return ACCEL_OK;
}

static accel_status join_ids(const join *j, accel_tensor *ids) {
  const uint64_t n = (uint64_t)(ids->dim[0] * ids->dim[1]);
  int64_t *id = accel__arena_array(j->arena, (size_t)n + 1, sizeof *id);
  if (!id) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint64_t i = 0; i < n; i++) {
    id[i] = accel__tensor_int(j->ids, i);
    if (id[i] == j->videos.token) id[i] = j->pictures.token;
  }
  ids->dtype = ACCEL_I64;
  ids->data = id;
  return ACCEL_OK;
}

static bool is_replaced(const char *name) {
  static const char *const replaced[] = {"pixel_values",        "image_grid_thw",
                                         "pixel_values_videos", "video_grid_thw",
                                         "second_per_grid_ts",  "mm_token_type_ids"};
  for (size_t i = 0; i < sizeof replaced / sizeof *replaced; i++)
    if (!strcmp(name, replaced[i])) return true;
  return false;
}

accel_status accel__join_videos(const accel_endpoint *ep, const accel_tensors *inputs,
                                bool one_token, accel__arena *arena, accel_tensors *out) {
  const accel__image_tokens *image_tokens = ep->model->image_tokens;
  join j = {.ep = ep,
            .pictures = {.what = "pictures", .token = image_tokens->token},
            .videos = {.what = "videos",
                       .token = image_tokens->video_token,
                       .by_frames = image_tokens->shows_frames},
            .arena = arena};
  ACCEL_TRY(find_all(&j, inputs));
  ACCEL_TRY(walk(&j));
  *out = (accel_tensors){.item = accel__arena_array(arena, inputs->n + 3u, sizeof *out->item)};
  if (!out->item) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < inputs->n; i++) {
    if (is_replaced(inputs->item[i].name)) continue;
    accel_tensor *t = &out->item[out->n++];
    *t = inputs->item[i];
    if (one_token && !strcmp(t->name, "input_ids")) ACCEL_TRY(join_ids(&j, t));
  }
  ACCEL_TRY(join_pixels(&j, &out->item[out->n]));
  ACCEL_TRY(join_grids(&j, &out->item[out->n + 1], &out->item[out->n + 2]));
  out->n += image_tokens->time_scale > 0 ? 3 : 2;
  return ACCEL_OK;
}
