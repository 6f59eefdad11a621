/* picture_parts.c - pictures cut into parts. */
#include "vision/picture_parts.h"

#include <math.h>
#include <stdlib.h>

typedef accel__image_processor processor;

enum { MAX_SIDE = 4096 }; /* Idefics3: of a resized picture */

/* The parts of all pictures so far. */
typedef struct list {
  accel__image *item;
  uint32_t n, capacity;
} list;

bool accel__has_parts(const processor *p) {
  return p->layout == ACCEL__LAYOUT_CROPS || p->layout == ACCEL__LAYOUT_GRID ||
         p->layout == ACCEL__LAYOUT_SPLIT;
}

/* A further part, which is `image`'s pixels until it is resized or cut. */
static accel_status add(list *l, const accel__image *image, accel__image **out) {
  *out = NULL;
  if (l->n == l->capacity) {
    const uint32_t capacity = 2 * l->capacity + 16;
    accel__image *item = realloc(l->item, capacity * sizeof *item);
    if (item == NULL) return accel__no_memory(capacity * sizeof *item);
    l->item = item;
    l->capacity = capacity;
  }
  *out = &l->item[l->n++];
  **out = *image;
  (*out)->borrowed = true;
  return ACCEL_OK;
}

static accel_status resized(const processor *p, accel__image *image, int64_t height, int64_t width,
                            accel__pool *pool) {
  if (height > ACCEL__IMAGE_MAX_SIDE || width > ACCEL__IMAGE_MAX_SIDE)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "a picture of %d x %d pixels would become %lld x %lld",
                       image->width, image->height, (long long)width, (long long)height);
  return accel__image_resize(image, (int32_t)width, (int32_t)height, p->filter, p->rounding, pool);
}

/* The whole picture as one part of the processor's size. */
static accel_status add_whole(const processor *p, const accel__image *image, bool resize,
                              accel__pool *pool, list *l) {
  accel__image *part = NULL;
  ACCEL_TRY(add(l, image, &part));
  return resize ? resized(p, part, p->size.height, p->size.width, pool) : ACCEL_OK;
}

/* Part (row, column) of `from` cut into parts of height x width; what lies outside is left off. */
static accel_status add_piece(const accel__image *from, int32_t row, int32_t column, int32_t height,
                              int32_t width, list *l, accel__image **out) {
  static const uint8_t black[3] = {0};
  const int32_t top = row * height, left = column * width;
  ACCEL_TRY(add(l, from, out));
  return accel__image_crop(*out, left, top, from->width - left < width ? from->width - left : width,
                           from->height - top < height ? from->height - top : height, black);
}

/* ---- Gemma 3: crops of long pictures behind the whole one ---- */

/* How many crops a picture whose sides have this ratio gets along its longer side, `side`. */
static int32_t crops_along(const processor *p, int32_t side, double ratio) {
  int64_t n = (int64_t)floor(ratio + 0.5);
  const int64_t fit = side / p->min_crop_size;
  if (ratio < p->min_ratio) return 0;
  n = fit < n ? fit : n;
  n = n < 2 ? 2 : n;
  return (int32_t)(n < p->max_crops ? n : p->max_crops);
}

static accel_status cut_crops(const processor *p, const accel__image *image, accel__pool *pool,
                              list *l, accel__picture_parts *parts) {
  const int32_t h = image->height, w = image->width;
  int32_t down = 1, across = 1;
  ACCEL_TRY(add_whole(p, image, p->do_resize || p->splits, pool, l));
  *parts = (accel__picture_parts){.n = 1};
  if (!p->splits) return ACCEL_OK;
  *(w >= h ? &across : &down) =
      crops_along(p, w >= h ? w : h, w >= h ? (double)w / h : (double)h / w);
  if (down == 0 || across == 0) return ACCEL_OK;
  const int32_t height = (h + down - 1) / down, width = (w + across - 1) / across;
  if ((height < width ? height : width) < p->min_crop_size) return ACCEL_OK;
  for (int32_t i = 0; i < down * across; i++, parts->n++) {
    accel__image *part = NULL;
    ACCEL_TRY(add_piece(image, i / across, i % across, height, width, l, &part));
    if (part->height < 1 || part->width < 1)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "a picture of %d x %d pixels leaves an empty crop",
                         w, h);
    ACCEL_TRY(resized(p, part, p->size.height, p->size.width, pool));
  }
  return ACCEL_OK;
}

/* ---- InternVL: tiles, and the whole picture behind them ---- */

/* Columns and rows of tiles whose shape is nearest to the picture's; of those as near the one of
 * more tiles, unless it is twice as large as the picture. */
static void best_grid(const processor *p, const accel__image *image, int32_t *columns,
                      int32_t *rows) {
  const double ratio = (double)image->width / image->height,
               area = (double)image->width * image->height;
  double best = INFINITY;
  *columns = *rows = 1;
  for (int32_t n = p->min_patches; n <= p->max_patches; n++)
    for (int32_t w = 1; w <= n; w++) {
      const double away = fabs(ratio - (double)w / (double)(n / w));
      if (n % w != 0 || away > best ||
          (away == best && !(area > 0.5 * p->size.height * p->size.width * n)))
        continue;
      best = away;
      *columns = w;
      *rows = n / w;
    }
}

static accel_status cut_grid(const processor *p, const accel__image *image, accel__pool *pool,
                             list *l, accel__picture_parts *parts) {
  *parts = (accel__picture_parts){.n = 1};
  if (!p->splits) return add_whole(p, image, p->do_resize, pool, l);
  best_grid(p, image, &parts->cols, &parts->rows);
  parts->n = (uint32_t)(parts->cols * parts->rows);
  accel__image whole = *image;
  whole.borrowed = true;
  accel_status status = resized(p, &whole, (int64_t)p->size.height * parts->rows,
                                (int64_t)p->size.width * parts->cols, pool);
  for (int32_t i = 0; status == ACCEL_OK && i < parts->cols * parts->rows; i++) {
    accel__image *part = NULL;
    status = add_piece(&whole, i / parts->cols, i % parts->cols, p->size.height, p->size.width, l,
                       &part);
    if (status == ACCEL_OK && parts->n == 1) { /* all of it: its own from here on */
      accel__image_free(part);
      *part = whole;
      whole = (accel__image){0};
    }
  }
  accel__image_free(&whole);
  if (status != ACCEL_OK || parts->n == 1) return status;
  parts->n++;
  return add_whole(p, image, true, pool, l);
}

/* ---- Idefics3: frames, and the whole picture behind them ---- */

/* The longer side becomes `size`, the other keeps the ratio; Python's int(). */
static void to_longest(int32_t *height, int32_t *width, int32_t size) {
  const double ratio = (double)*width / *height;
  if (*width >= *height) {
    *width = size;
    *height = (int32_t)(size / ratio);
  } else {
    *height = size;
    *width = (int32_t)(size * ratio);
  }
}

static int32_t at_least_one(int32_t side) { return side < 1 ? 1 : side; }

static void first_size(const processor *p, int32_t *height, int32_t *width) {
  if (!p->size.longest_edge) {
    *height = p->size.height;
    *width = p->size.width;
    return;
  }
  const bool wide = *width >= *height;
  to_longest(height, width, p->size.longest_edge);
  *(wide ? height : width) += *(wide ? height : width) % 2;
  *height = at_least_one(*height);
  *width = at_least_one(*width);
  if ((*width >= *height ? *width : *height) > MAX_SIDE) to_longest(height, width, MAX_SIDE);
  *height = at_least_one(*height);
  *width = at_least_one(*width);
}

/* Both sides rounded up to frames, the longer one first. */
static void whole_frames(int32_t frame, int64_t *height, int64_t *width) {
  const double ratio = (double)*width / (double)*height;
  int64_t *first = *width >= *height ? width : height, *second = first == width ? height : width;
  *first = (*first + frame - 1) / frame * frame;
  *second = (int64_t)(first == width ? (double)*first / ratio : (double)*first * ratio);
  *second = (*second + frame - 1) / frame * frame;
}

static accel_status cut_frames(const processor *p, accel__image *image, accel__pool *pool, list *l,
                               accel__picture_parts *parts) {
  const int32_t frame = p->frame;
  accel__image *part = NULL;
  *parts = (accel__picture_parts){.n = 1};
  if (p->do_resize) {
    int32_t height = image->height, width = image->width;
    first_size(p, &height, &width);
    ACCEL_TRY(resized(p, image, height, width, pool));
  }
  int64_t height = p->splits ? image->height : frame, width = p->splits ? image->width : frame;
  if (p->splits) whole_frames(frame, &height, &width);
  ACCEL_TRY(resized(p, image, height, width, pool));
  if (height > frame || width > frame) {
    parts->rows = (int32_t)(height / frame);
    parts->cols = (int32_t)(width / frame);
    for (int32_t i = 0; i < parts->rows * parts->cols; i++, parts->n++)
      ACCEL_TRY(add_piece(image, i / parts->cols, i % parts->cols, frame, frame, l, &part));
    ACCEL_TRY(resized(p, image, frame, frame, pool));
  }
  ACCEL_TRY(add(l, image, &part));
  *part = *image; /* its own from here on */
  *image = (accel__image){.borrowed = true};
  return ACCEL_OK;
}

/* ---- all ---- */

static accel_status cut(const processor *p, const accel__image *image, accel__pool *pool, list *l,
                        accel__picture_parts *parts) {
  if (p->layout == ACCEL__LAYOUT_CROPS) return cut_crops(p, image, pool, l, parts);
  if (p->layout == ACCEL__LAYOUT_GRID) return cut_grid(p, image, pool, l, parts);
  accel__image own = *image;
  own.borrowed = true;
  accel_status status = cut_frames(p, &own, pool, l, parts);
  accel__image_free(&own);
  return status;
}

accel_status accel__cut_parts(const processor *p, const accel__image *images, uint32_t n,
                              accel__pool *pool, accel__image **out, uint32_t *n_out,
                              accel__picture_parts *parts) {
  list l = {0};
  accel_status status = ACCEL_OK;
  for (uint32_t i = 0; status == ACCEL_OK && i < n; i++)
    status = cut(p, &images[i], pool, &l, &parts[i]);
  for (uint32_t i = 0; status != ACCEL_OK && i < l.n; i++) accel__image_free(&l.item[i]);
  if (status != ACCEL_OK) {
    free(l.item);
    l = (list){0};
  }
  *out = l.item;
  *n_out = l.n;
  return status;
}
