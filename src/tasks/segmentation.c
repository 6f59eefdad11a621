/* segmentation.c - image-segmentation by models that give each pixel a class (SegFormer) or each
 * query a mask (DETR), and results drawn into pictures. */
#include "tasks/segmentation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/pack.h"
#include "processing/result.h"
#include "vision/draw.h"

/* ---- maps ---- */

/* Where the pixels of a side of `out` lie between those of a side of `in`. */
typedef struct between {
  int32_t first, second;
  float share; /* of the second */
} between;

static between *places_of(int64_t in, int64_t out) {
  between *place = malloc((size_t)out * sizeof *place);
  const float scale = (float)in / (float)out;
  for (int64_t i = 0; place && i < out; i++) {
    const float at = fmaxf(((float)i + 0.5f) * scale - 0.5f, 0.0f);
    const int32_t first = (int32_t)at < in ? (int32_t)at : (int32_t)in - 1;
    place[i] = (between){first, first + 1 < in ? first + 1 : first, at - (float)first};
  }
  return place;
}

typedef struct choosing {
  const accel__score_maps *maps;
  const between *row, *column; /* of the picture */
  int32_t width;
  int32_t *best; /* [height, width] */
  float least;
  uint32_t *over; /* [height, maps->n], zeros; NULL: not wanted */
} choosing;

static void row_task(void *arg, uint32_t y, uint32_t worker) {
  const choosing *c = arg;
  const accel__score_maps *m = c->maps;
  const between v = c->row[y];
  uint32_t *over = c->over ? c->over + (size_t)y * (size_t)m->n : NULL;
  (void)worker;
  for (int32_t x = 0; x < c->width; x++) {
    const between h = c->column[x];
    float best = -INFINITY;
    int32_t map = 0;
    for (int64_t i = 0; i < m->n; i++) {
      const float *upper = m->score + (i * m->height + v.first) * m->width,
                  *lower = m->score + (i * m->height + v.second) * m->width;
      const float above = upper[h.first] * (1.0f - h.share) + upper[h.second] * h.share;
      const float below = lower[h.first] * (1.0f - h.share) + lower[h.second] * h.share;
      float score = above * (1.0f - v.share) + below * v.share;
      if (m->by) score *= m->by[i];
      if (over) over[i] += score >= c->least;
      if (score > best) {
        best = score;
        map = (int32_t)i;
      }
    }
    c->best[(int64_t)y * c->width + x] = map;
  }
}

accel_status accel__best_maps(const accel__picture_job *job, const accel__score_maps *maps,
                              const int32_t side[2], int32_t *best, float least, uint64_t *over) {
  const size_t height = (size_t)side[0], n = (size_t)maps->n;
  between *row = places_of(maps->height, side[0]), *column = places_of(maps->width, side[1]);
  /* no two rows write to one place */
  uint32_t *rows = over ? calloc(height * n, sizeof *rows) : NULL;
  choosing c = {maps, row, column, side[1], best, least, rows};
  accel_status status =
      row && column && (rows || !over) ? ACCEL_OK : accel__no_memory(height * n * sizeof *rows);
  if (status == ACCEL_OK) accel__pool_run(job->ep->ctx->pool, (uint32_t)side[0], row_task, &c);
  for (size_t i = 0; status == ACCEL_OK && over && i < n; i++) {
    over[i] = 0;
    for (size_t y = 0; y < height; y++) over[i] += rows[y * n + i];
  }
  free(row);
  free(column);
  free(rows);
  return status;
}

/* ---- classes of pixels ---- */

accel_status accel__segment_classes(const accel__picture_job *job, const accel__score_maps *classes,
                                    const int32_t side[2], accel__segmented *to) {
  const accel__model *model = job->ep->model;
  const size_t pixels = (size_t)side[0] * (size_t)side[1];
  ACCEL_TRY(accel__best_maps(job, classes, side, to->map, 0.0f, NULL));
  uint64_t *covered = calloc((size_t)classes->n + 1, sizeof *covered);
  accel_segment *list = accel__arena_array(job->arena, (size_t)classes->n, sizeof *list);
  if (!covered || !list) {
    free(covered);
    return accel__no_memory((size_t)classes->n * sizeof *covered);
  }
  for (size_t i = 0; i < pixels; i++) covered[to->map[i]]++;
  to->count = 0;
  for (int64_t c = 0; c < classes->n; c++)
    if (covered[c])
      list[to->count++] = (accel_segment){
          .id = c,
          .label_id = c,
          .label = accel__arena_string(job->arena, c < model->num_labels ? model->labels[c] : "?"),
          .score = NAN,
          .pixels = covered[c],
          .area = (double)covered[c] / (double)pixels};
  free(covered);
  to->segment = list;
  return ACCEL_OK;
}

/* ---- pictures ---- */

/* A model whose queries have masks (DetrForSegmentation) does all three; others only "semantic". */
static bool has_queries(const accel_endpoint *ep) {
  for (uint32_t i = 0; i < ep->model->n_outputs; i++)
    if (!strcmp(ep->model->outputs[i].name, "pred_masks")) return true;
  return false;
}

static accel_status choose_subtask(const accel_endpoint *ep, accel_segment_params *how,
                                   bool queries) {
  if (!how->subtask) how->subtask = queries ? "panoptic" : "semantic";
  if (!queries && strcmp(how->subtask, "semantic"))
    return accel__remedy(
        accel__fail(ACCEL_ERROR_UNSUPPORTED,
                    "subtask '%s': %s gives each pixel a class and tells no objects apart",
                    how->subtask, ep->model->architecture),
        "leave the subtask out, or ask for semantic");
  return ACCEL_OK;
}

/* Segments, picture by picture. */
typedef struct segmenting {
  accel__picture_job job;
  accel_segment_params how;
  bool queries;
  uint32_t *count;
  const accel_segment **segment;
  const int32_t **map;
} segmenting;

static accel_status take_picture(void *user, uint32_t i, const int32_t side[2],
                                 const accel_tensors *found) {
  segmenting *s = user;
  const accel__picture_job *job = &s->job;
  const accel_tensor *logits = &found->item[0];
  const accel__score_maps classes = {logits->data, NULL, logits->dim[1], logits->dim[2],
                                     logits->dim[3]};
  accel__segmented to = {0};
  to.map = accel__arena_array(job->arena, (size_t)side[0] * (size_t)side[1], sizeof *to.map);
  if (!to.map) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(s->queries ? accel__segment_queries(job, found, side, &s->how, &to)
                       : accel__segment_classes(job, &classes, side, &to));
  s->segment[i] = to.segment;
  s->count[i] = to.count;
  s->map[i] = to.map;
  return ACCEL_OK;
}

accel_status accel__segment(accel_endpoint *ep, const accel_media *images, uint32_t n,
                            const accel_segment_params *params, accel_segmentations **out) {
  static const char *const names[] = {"logits", "pred_masks"};
  accel_segmentations *result = accel__task_result(sizeof *result);
  segmenting s = {.job.ep = ep, .how = *params, .queries = has_queries(ep)};
  if (!result) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel__arena *arena = s.job.arena = accel__task_arena(result);
  s.count = accel__arena_array(arena, n, sizeof *s.count);
  s.segment = accel__arena_array(arena, n, sizeof *s.segment);
  s.map = accel__arena_array(arena, n, sizeof *s.map);
  accel_status status = s.count && s.segment && s.map
                            ? accel__picture_begin(&s.job, "image-segmentation")
                            : ACCEL_ERROR_OUT_OF_MEMORY;
  if (status == ACCEL_OK) status = choose_subtask(ep, &s.how, s.queries);
  if (status == ACCEL_OK)
    status = accel__pictures_run(&s.job, images, n, names, s.queries ? 2 : 1, take_picture, &s);
  *result = (accel_segmentations){.n = n,
                                  .count = s.count,
                                  .segment = s.segment,
                                  .height = s.job.height,
                                  .width = s.job.width,
                                  .map = s.map};
  *out = accel__task_finish(result, status);
  return status;
}

/* ---- drawing ---- */

/* Lines and letters grow with the picture. */
static int32_t scale_for(const accel__image *image) {
  const int32_t least = image->width < image->height ? image->width : image->height;
  return least < 400 ? 1 : least / 200;
}

static int32_t pixel_of(float at) {
  return at < -1e6f ? -1000000 : at > 1e6f ? 1000000 : (int32_t)floorf(at);
}

accel_status accel__draw_objects(const accel_media *media, const accel_detection *objects,
                                 uint32_t n, const char *path) {
  accel__image image;
  ACCEL_TRY(accel__media_image(media, &image));
  const int32_t scale = scale_for(&image);
  for (uint32_t i = 0; i < n; i++) {
    const accel_detection *o = &objects[i];
    accel__draw_frame(&image, pixel_of(o->xmin), pixel_of(o->ymin), pixel_of(o->xmax),
                      pixel_of(o->ymax), 2 * scale, accel__colour_of(o->id));
  }
  for (uint32_t i = 0; i < n; i++) { /* above all frames */
    const accel_detection *o = &objects[i];
    char text[160];
    snprintf(text, sizeof text, "%.120s %.2f", o->label ? o->label : "", o->score);
    accel__draw_label(&image, pixel_of(o->xmin), pixel_of(o->ymin) - accel__label_height(scale),
                      scale, text, accel__colour_of(o->id));
  }
  accel_status status = accel__png_write(path, &image, NULL);
  accel__image_free(&image);
  return status;
}

/* Pixels of no segment (a map's 0 and -1 of panoptic results) keep the picture's colour, or are
 * black. */
static accel_status draw_map(accel__image *image, const accel_segmentations *found, uint32_t index,
                             bool mixed) {
  const size_t n = (size_t)image->width * (size_t)image->height;
  const int32_t *map = found->map[index];
  int64_t last = -1;
  for (uint32_t k = 0; k < found->count[index]; k++)
    if (found->segment[index][k].id > last) last = found->segment[index][k].id;
  uint8_t *known = last < INT32_MAX ? calloc((size_t)last + 2, 1) : NULL;
  int32_t *drawn = malloc(n * sizeof *drawn);
  accel_status status = known && drawn ? ACCEL_OK : accel__no_memory(n * sizeof *drawn);
  for (uint32_t k = 0; status == ACCEL_OK && k < found->count[index]; k++)
    if (found->segment[index][k].id >= 0) known[found->segment[index][k].id] = 1;
  for (size_t i = 0; status == ACCEL_OK && i < n; i++)
    drawn[i] = map[i] >= 0 && map[i] <= last && known[map[i]] ? map[i] : -1;
  if (status == ACCEL_OK) accel__draw_classes(image, drawn, mixed);
  free(known);
  free(drawn);
  return status;
}

accel_status accel__draw_segments(const accel_media *media, const accel_segmentations *found,
                                  uint32_t index, const char *path) {
  accel__image image;
  if (!media)
    ACCEL_TRY(
        accel__image_new(found->width[index], found->height[index], "the map of classes", &image));
  if (media) ACCEL_TRY(accel__media_image(media, &image));
  accel_status status = ACCEL_OK;
  if (image.width != found->width[index] || image.height != found->height[index])
    status = accel__fail(ACCEL_ERROR_ARGUMENT,
                         "%s: is %d x %d, the segments are of a picture of %d x %d", media->name,
                         image.width, image.height, found->width[index], found->height[index]);
  if (status == ACCEL_OK) status = draw_map(&image, found, index, media != NULL);
  const int32_t scale = scale_for(&image);
  /* a legend at the left */
  for (uint32_t k = 0; status == ACCEL_OK && media && k < found->count[index]; k++) {
    const accel_segment *s = &found->segment[index][k];
    char text[160], score[32] = "";
    if (!isnan(s->score)) snprintf(score, sizeof score, " %.2f", s->score);
    snprintf(text, sizeof text, "%.100s%s %.1f%%", s->label, score, 100.0 * s->area);
    accel__draw_label(&image, 0, (int32_t)k * accel__label_height(scale), scale, text,
                      accel__colour_of(s->id));
  }
  if (status == ACCEL_OK) status = accel__png_write(path, &image, NULL);
  accel__image_free(&image);
  return status;
}
