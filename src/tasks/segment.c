/* segment.c - image-segmentation by models that give each pixel a class (SegFormer), and results drawn into pictures. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/pack.h"
#include "tasks/pictures.h"
#include "tasks/tasks.h"
#include "vision/draw.h"

/* ---- classes of pixels ---- */

/* Where the pixels of a side of `out` lie between those of a side of `in`, as torch.nn.functional.interpolate places them
 * (bilinear, align_corners=False), in its single precision. */
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

typedef struct resizing {
  const float *logits; /* [classes, height, width] */
  int64_t classes, height, width;
  const between *row, *column; /* of the picture */
  int32_t to_height, to_width;
  int32_t *class; /* [to_height, to_width] */
} resizing;

/* The likeliest class of each pixel of row `y`; the first of equals. */
static void row_task(void *arg, uint32_t y, uint32_t worker) {
  const resizing *r = arg;
  const between v = r->row[y];
  (void)worker;
  for (int32_t x = 0; x < r->to_width; x++) {
    const between h = r->column[x];
    float best = -INFINITY;
    int32_t class = 0;
    for (int64_t c = 0; c < r->classes; c++) {
      const float *upper = r->logits + (c * r->height + v.first) * r->width,
                  *lower = r->logits + (c * r->height + v.second) * r->width;
      const float above = upper[h.first] * (1.0f - h.share) + upper[h.second] * h.share;
      const float below = lower[h.first] * (1.0f - h.share) + lower[h.second] * h.share;
      const float score = above * (1.0f - v.share) + below * v.share;
      if (score > best) {
        best = score;
        class = (int32_t)c;
      }
    }
    r->class[(int64_t)y * r->to_width + x] = class;
  }
}

static accel_status classes_of(const accel__picture_job *job, const accel_tensor *logits, const int32_t side[2],
                               int32_t **out) {
  resizing r = {.logits = logits->data,
                .classes = logits->dim[1],
                .height = logits->dim[2],
                .width = logits->dim[3],
                .to_height = side[0],
                .to_width = side[1]};
  const size_t pixels = (size_t)side[0] * (size_t)side[1];
  between *row = places_of(r.height, side[0]), *column = places_of(r.width, side[1]);
  *out = r.class = accel__arena_array(job->arena, pixels, sizeof *r.class);
  r.row = row;
  r.column = column;
  accel_status status = row && column && r.class ? ACCEL_OK : accel__no_memory(pixels * sizeof *r.class);
  if (status == ACCEL_OK) accel__pool_run(job->ep->ctx->pool, (uint32_t)side[0], row_task, &r);
  free(row);
  free(column);
  return status;
}

/* The classes that are there, by their number, with what they cover. */
static accel_status take_segments(const accel__picture_job *job, const int32_t *class, size_t pixels, int64_t classes,
                                  const accel_segment **out, uint32_t *count) {
  const accel__model *model = job->ep->model;
  uint64_t *covered = calloc((size_t)classes + 1, sizeof *covered);
  accel_segment *list = accel__arena_array(job->arena, (size_t)classes, sizeof *list);
  *count = 0;
  if (!covered || !list) {
    free(covered);
    return accel__no_memory((size_t)classes * sizeof *covered);
  }
  for (size_t i = 0; i < pixels; i++) covered[class[i]]++;
  for (int64_t c = 0; c < classes; c++)
    if (covered[c])
      list[(*count)++] =
          (accel_segment){.id = c,
                          .label = accel__arena_string(job->arena, c < model->num_labels ? model->labels[c] : "?"),
                          .score = NAN,
                          .pixels = covered[c],
                          .area = (double)covered[c] / (double)pixels};
  free(covered);
  *out = list;
  return ACCEL_OK;
}

accel_status accel__segment(accel_endpoint *ep, const accel_media *images, uint32_t n, accel_segmentations **out) {
  static const char *const names[] = {"logits"};
  accel_segmentations *result = accel__task_result(sizeof *result);
  accel__picture_job job = {.ep = ep};
  if (!result) return ACCEL_ERROR_OUT_OF_MEMORY;
  job.arena = accel__task_arena(result);
  uint32_t *count = accel__arena_array(job.arena, n, sizeof *count);
  const accel_segment **segment = accel__arena_array(job.arena, n, sizeof *segment);
  const int32_t **map = accel__arena_array(job.arena, n, sizeof *map);
  int32_t *height = accel__arena_array(job.arena, n, sizeof *height),
          *width = accel__arena_array(job.arena, n, sizeof *width);
  accel_status status = count && segment && map && height && width ? accel__picture_begin(&job, "image-segmentation")
                                                                   : ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; status == ACCEL_OK && i < n; i++) {
    accel_tensors *found = NULL;
    int32_t side[2] = {0, 0}, *class = NULL;
    status = accel__picture_run(&job, &images[i], names, 1, side, &found);
    if (status == ACCEL_OK) status = classes_of(&job, &found->item[0], side, &class);
    if (status == ACCEL_OK)
      status = take_segments(&job, class, (size_t)side[0] * (size_t)side[1], found->item[0].dim[1], &segment[i], &count[i]);
    map[i] = class;
    height[i] = side[0];
    width[i] = side[1];
    accel__tensors_free(&found);
  }
  *result = (accel_segmentations){.n = n, .count = count, .segment = segment, .height = height, .width = width, .map = map};
  if (status != ACCEL_OK) accel__task_free(result), result = NULL;
  *out = result;
  return status;
}

/* ---- drawing ---- */

/* Lines and letters grow with the picture. */
static int32_t scale_for(const accel__image *image) {
  const int32_t least = image->width < image->height ? image->width : image->height;
  return least < 400 ? 1 : least / 200;
}

static int32_t pixel_of(float at) { return at < -1e6f ? -1000000 : at > 1e6f ? 1000000 : (int32_t)floorf(at); }

accel_status accel__draw_objects(const accel_media *media, const accel_detection *objects, uint32_t n, const char *path) {
  accel__image image;
  ACCEL_TRY(accel__media_image(media, &image));
  const int32_t scale = scale_for(&image);
  for (uint32_t i = 0; i < n; i++) {
    const accel_detection *o = &objects[i];
    accel__draw_frame(&image, pixel_of(o->xmin), pixel_of(o->ymin), pixel_of(o->xmax), pixel_of(o->ymax), 2 * scale,
                      accel__colour_of(o->id));
  }
  for (uint32_t i = 0; i < n; i++) { /* above all frames */
    const accel_detection *o = &objects[i];
    char text[160];
    snprintf(text, sizeof text, "%.120s %.2f", o->label ? o->label : "", o->score);
    accel__draw_label(&image, pixel_of(o->xmin), pixel_of(o->ymin) - accel__label_height(scale), scale, text,
                      accel__colour_of(o->id));
  }
  accel_status status = accel__png_write(path, &image);
  accel__image_free(&image);
  return status;
}

accel_status accel__draw_segments(const accel_media *media, const accel_segmentations *found, uint32_t index,
                                  const char *path) {
  accel__image image;
  if (!media) ACCEL_TRY(accel__image_new(found->width[index], found->height[index], "the map of classes", &image));
  if (media) ACCEL_TRY(accel__media_image(media, &image));
  accel_status status = ACCEL_OK;
  if (image.width != found->width[index] || image.height != found->height[index])
    status = accel__fail(ACCEL_ERROR_ARGUMENT, "%s: is %d x %d, the segments are of a picture of %d x %d", media->name,
                         image.width, image.height, found->width[index], found->height[index]);
  if (status == ACCEL_OK) accel__draw_classes(&image, found->map[index], media != NULL);
  const int32_t scale = scale_for(&image);
  for (uint32_t k = 0; status == ACCEL_OK && media && k < found->count[index]; k++) { /* a legend at the left */
    const accel_segment *s = &found->segment[index][k];
    char text[160];
    snprintf(text, sizeof text, "%.120s %.1f%%", s->label, 100.0 * s->area);
    accel__draw_label(&image, 0, (int32_t)k * accel__label_height(scale), scale, text, accel__colour_of(s->id));
  }
  if (status == ACCEL_OK) status = accel__png_write(path, &image);
  accel__image_free(&image);
  return status;
}
