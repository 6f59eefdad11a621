/* depth.c - transformers' depth-estimation pipeline: the model's map at the size of the picture, and
 * the map as a grey picture. */
#include "tasks/depth.h"

#include <math.h>
#include <stdlib.h>

#include "dispatch/pack.h"
#include "processing/result.h"

/* ---- torch's bicubic interpolation, align_corners=False, in its single precision ---- */

/* The four pixels of a side of `in` that a pixel of `out` is made of; beyond the edge its pixel is
 * taken again. */
typedef struct taps {
  int32_t at[4];
  float weight[4];
} taps;

static float near_weight(float x) { return ((-0.75f + 2.0f) * x - (-0.75f + 3.0f)) * x * x + 1.0f; }
static float far_weight(float x) {
  return ((-0.75f * x - 5.0f * -0.75f) * x + 8.0f * -0.75f) * x - 4.0f * -0.75f;
}

static taps *taps_of(int64_t in, int64_t out) {
  taps *all = malloc((size_t)out * sizeof *all);
  const float scale = (float)in / (float)out;
  for (int64_t i = 0; all && i < out; i++) {
    const float place = scale * ((float)i + 0.5f) - 0.5f, low = floorf(place), share = place - low;
    const float weight[4] = {far_weight(share + 1.0f), near_weight(share),
                             near_weight(1.0f - share), far_weight(2.0f - share)};
    for (int32_t k = 0; k < 4; k++) {
      const int64_t at = (int64_t)low + k - 1;
      all[i].at[k] = (int32_t)(at < 0 ? 0 : at >= in ? in - 1 : at);
      all[i].weight[k] = weight[k];
    }
  }
  return all;
}

typedef struct enlarging {
  const float *from; /* [.., from_width] */
  const taps *row, *column;
  float *to; /* [.., to_width] */
  int64_t from_width, to_width;
} enlarging;

static void row_task(void *arg, uint32_t y, uint32_t worker) {
  const enlarging *e = arg;
  const taps *v = &e->row[y];
  (void)worker;
  for (int64_t x = 0; x < e->to_width; x++) {
    const taps *h = &e->column[x];
    float sum = 0.0f;
    for (int k = 0; k < 4; k++) {
      const float *row = e->from + v->at[k] * e->from_width;
      sum += v->weight[k] * (h->weight[0] * row[h->at[0]] + h->weight[1] * row[h->at[1]] +
                             h->weight[2] * row[h->at[2]] + h->weight[3] * row[h->at[3]]);
    }
    e->to[y * e->to_width + x] = sum;
  }
}

/* map [1, h, w] -> to [side[0], side[1]] */
static accel_status enlarge(const accel__picture_job *job, const accel_tensor *map,
                            const int32_t side[2], float *to) {
  taps *row = taps_of(map->dim[1], side[0]), *column = taps_of(map->dim[2], side[1]);
  enlarging e = {map->data, row, column, to, map->dim[2], side[1]};
  const accel_status status =
      row && column ? ACCEL_OK : accel__no_memory((size_t)side[0] * sizeof *row);
  if (status == ACCEL_OK) accel__pool_run(job->ep->ctx->pool, (uint32_t)side[0], row_task, &e);
  free(row);
  free(column);
  return status;
}

/* ---- pictures ---- */

/* Maps, picture by picture. */
typedef struct estimating {
  accel__picture_job job;
  const float **depth;
  float *least, *most;
} estimating;

static accel_status take_map(void *user, uint32_t i, const int32_t side[2],
                             const accel_tensors *found) {
  estimating *e = user;
  const size_t n = (size_t)side[0] * (size_t)side[1];
  float *map = accel__arena_array(e->job.arena, n, sizeof *map);
  if (!map) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(enlarge(&e->job, &found->item[0], side, map));
  e->depth[i] = map;
  e->least[i] = e->most[i] = map[0];
  for (size_t k = 1; k < n; k++) {
    e->least[i] = fminf(e->least[i], map[k]);
    e->most[i] = fmaxf(e->most[i], map[k]);
  }
  return ACCEL_OK;
}

accel_status accel__estimate_depth(accel_endpoint *ep, const accel_media *images, uint32_t n,
                                   accel_depths **out) {
  static const char *const names[] = {"predicted_depth"};
  accel_depths *result = accel__task_result(sizeof *result);
  estimating e = {.job.ep = ep};
  if (!result) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel__arena *arena = e.job.arena = accel__task_arena(result);
  e.depth = accel__arena_array(arena, n, sizeof *e.depth);
  e.least = accel__arena_array(arena, n, sizeof *e.least);
  e.most = accel__arena_array(arena, n, sizeof *e.most);
  accel_status status = e.depth && e.least && e.most
                            ? accel__picture_begin(&e.job, "depth-estimation")
                            : ACCEL_ERROR_OUT_OF_MEMORY;
  if (status == ACCEL_OK) status = accel__pictures_run(&e.job, images, n, names, 1, take_map, &e);
  *result = (accel_depths){.n = n,
                           .height = e.job.height,
                           .width = e.job.width,
                           .depth = e.depth,
                           .least = e.least,
                           .most = e.most};
  *out = accel__task_finish(result, status);
  return status;
}

accel_status accel__draw_depth(const accel_depths *found, uint32_t index, uint32_t bits,
                               const char *path) {
  const int64_t n = (int64_t)found->height[index] * found->width[index];
  const float least = found->least[index], range = found->most[index] - least,
              white = bits == 16 ? 65535.0f : 255.0f;
  uint16_t *grey = malloc((size_t)n * sizeof *grey);
  if (!grey) return accel__no_memory((size_t)n * sizeof *grey);
  for (int64_t i = 0; i < n; i++) /* of a map without range, all black */
    grey[i] = range > 0 ? (uint16_t)((found->depth[index][i] - least) / range * white) : 0;
  const accel_status status =
      accel__png_write_grey(path, grey, found->width[index], found->height[index], (int)bits);
  free(grey);
  return status;
}
