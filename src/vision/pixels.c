/* pixels.c - pictures through an image processor. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/block_cache.h"
#include "vision/image_processor.h"
#include "vision/picture_parts.h"
#include "vision/resize_kernels.h"

typedef accel__image_processor processor;

/* ---- sizes: the formulas of transformers' image_transforms, whole numbers where Python's int()
 * cuts ---- */

/* Shortest side to `size`, unless the other one would pass `most` (0: no limit); Python's round
 * goes to the even number. */
static void keep_ratio(int32_t height, int32_t width, int32_t size, int32_t most,
                       int32_t *to_height, int32_t *to_width) {
  const double low = height < width ? height : width, high = height < width ? width : height;
  double exact = size;
  if (most && high / low * size > most) {
    exact = most * low / high;
    size = (int32_t)nearbyint(exact);
  }
  *to_height = height;
  *to_width = width;
  if (size == (int32_t)low) return;
  *to_height = width < height ? (int32_t)(exact * height / width) : size;
  *to_width = width < height ? size : (int32_t)(exact * width / height);
}

/* Qwen2-VL's smart_resize: sides of whole blocks that keep the shape as far as they can, pixels
 * within the limits. */
static accel_status whole_blocks(const processor *p, double height, double width,
                                 int32_t *to_height, int32_t *to_width) {
  const double block = (double)(p->patch_size * p->merge_size), most = (double)p->max_pixels,
               least = (double)p->min_pixels;
  if (height > 200 * width || width > 200 * height)
    return accel__remedy(
        accel__fail(ACCEL_ERROR_ARGUMENT, "a picture of %.0f x %.0f pixels is too long and thin",
                    width, height),
        "cut it: one side may be 200 times the other");
  double h = nearbyint(height / block) * block, w = nearbyint(width / block) * block;
  if (h * w > most) {
    const double beta = sqrt(height * width / most);
    h = fmax(block, floor(height / beta / block) * block);
    w = fmax(block, floor(width / beta / block) * block);
  } else if (h * w < least) {
    const double beta = sqrt(least / (height * width));
    h = ceil(height * beta / block) * block;
    w = ceil(width * beta / block) * block;
  }
  *to_height = h > INT32_MAX ? INT32_MAX : (int32_t)h;
  *to_width = w > INT32_MAX ? INT32_MAX : (int32_t)w;
  return ACCEL_OK;
}

/* DPT: the sides of `size`, or the one that changes the picture least and the other in its ratio,
 * rounded to multiples. */
static void rounded(const processor *p, const accel__size *size, double height, double width,
                    int32_t *to_height, int32_t *to_width) {
  double down = size->height / height, across = size->width / width;
  const double multiple = (double)p->multiple_of;
  if (p->keeps_ratio) down = across = fabs(1.0 - across) < fabs(1.0 - down) ? across : down;
  const double h = nearbyint(down * height / multiple) * multiple,
               w = nearbyint(across * width / multiple) * multiple;
  *to_height = h > INT32_MAX ? INT32_MAX : (int32_t)h;
  *to_width = w > INT32_MAX ? INT32_MAX : (int32_t)w;
}

accel_status accel__size_after(const processor *p, const accel__size *s, int32_t height,
                               int32_t width, int32_t *to_height, int32_t *to_width) {
  if (p->layout == ACCEL__LAYOUT_PATCHES) {
    ACCEL_TRY(whole_blocks(p, height, width, to_height, to_width));
  } else if (p->multiple_of) {
    rounded(p, s, height, width, to_height, to_width);
  } else if (s->shortest_edge && s->longest_edge) {
    keep_ratio(height, width, s->shortest_edge, s->longest_edge, to_height, to_width);
    if (p->multiples) {
      *to_height -= *to_height % 16;
      *to_width -= *to_width % 16;
    }
  } else if (s->shortest_edge) {
    const int64_t low = height < width ? height : width, high = height < width ? width : height;
    const int64_t other = (int64_t)((double)s->shortest_edge * (double)high / (double)low);
    *to_height =
        width <= height ? (int32_t)(other > INT32_MAX ? INT32_MAX : other) : s->shortest_edge;
    *to_width =
        width <= height ? s->shortest_edge : (int32_t)(other > INT32_MAX ? INT32_MAX : other);
  } else if (s->max_height && s->max_width) {
    const double down = (double)s->max_height / height, across = (double)s->max_width / width,
                 scale = down < across ? down : across;
    *to_height = (int32_t)(height * scale);
    *to_width = (int32_t)(width * scale);
  } else {
    *to_height = s->height;
    *to_width = s->width;
  }
  if (*to_height >= 1 && *to_width >= 1 && *to_height <= ACCEL__IMAGE_MAX_SIDE &&
      *to_width <= ACCEL__IMAGE_MAX_SIDE)
    return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_ARGUMENT, "a picture of %d x %d pixels would become %d x %d",
                     width, height, *to_width, *to_height);
}

/* ---- one picture ---- */

static const uint8_t black[3] = {0, 0, 0};

/* The same pixels; what changes them makes its own. */
static accel__image view(const accel__image *of) {
  accel__image same = *of;
  same.borrowed = true;
  return same;
}

/* The colour that its file names as transparent becomes white, in a copy. */
static accel_status key_to_white(const processor *p, accel__image *image) {
  accel__image made = {0};
  if (!p->do_convert_rgb || !image->keyed) return ACCEL_OK;
  ACCEL_TRY(accel__image_unset(image->width, image->height, "a picture", &made));
  for (size_t i = 0; i < (size_t)image->width * (size_t)image->height; i++) {
    const uint8_t *from = image->pixels + 3 * i;
    if (memcmp(from, image->key, 3) != 0)
      memcpy(made.pixels + 3 * i, from, 3);
    else
      memset(made.pixels + 3 * i, 255, 3);
  }
  accel__image_free(image);
  *image = made;
  return ACCEL_OK;
}

static accel_status resize(const processor *p, const accel__size *size, accel__image *image,
                           accel__pool *pool) {
  int32_t height, width;
  ACCEL_TRY(accel__size_after(p, size, image->height, image->width, &height, &width));
  return accel__image_resize(image, width, height, p->filter, p->rounding, pool);
}

/* Where a side of `have` begins in one of `want` pixels: negative when there is something to
 * pad. */
static int32_t middle(int32_t have, int32_t want) {
  return want > have ? -((want - have) / 2) : (have - want) / 2;
}

static accel_status centre(accel__image *image, int32_t height, int32_t width) {
  return accel__image_crop(image, middle(image->width, width), middle(image->height, height), width,
                           height, black);
}

static accel_status convnext(const processor *p, accel__image *image, accel__pool *pool) {
  const int32_t edge = p->size.shortest_edge;
  if (edge >= 384) return accel__image_resize(image, edge, edge, p->filter, p->rounding, pool);
  ACCEL_TRY(resize(p, &(accel__size){.shortest_edge = (int32_t)(edge / p->crop_pct)}, image, pool));
  return centre(image, edge, edge);
}

static accel_status pad_to_square(const processor *p, accel__image *image) {
  uint8_t colour[3];
  const int32_t side = image->width > image->height ? image->width : image->height;
  for (int c = 0; c < 3; c++) colour[c] = (uint8_t)(p->mean[c] * 255.0);
  return accel__image_crop(image, middle(image->width, side), middle(image->height, side), side,
                           side, colour);
}

/* ---- Donut ---- */

/* Where a side of `have` is cut, or, below 0, padded to become one of `want`: Python's // goes
 * down. */
static int32_t padded_middle(int32_t have, int32_t want) {
  const int32_t more = want - have;
  return more < 0 ? (1 - more) / 2 : -(more / 2);
}

/* A page inside of `size`, whose shape it keeps; it is never made larger. */
static accel_status thumbnail(const processor *p, accel__image *image, accel__pool *pool) {
  const int64_t down = image->height, across = image->width;
  int32_t height = p->size.height < image->height ? p->size.height : image->height,
          width = p->size.width < image->width ? p->size.width : image->width;
  if (height == image->height && width == image->width) return ACCEL_OK;
  if (down > across)
    width = (int32_t)(across * height / down);
  else if (across > down)
    height = (int32_t)(down * width / across);
  return accel__image_resize(image, width, height, p->filter, p->rounding, pool);
}

/* A page on the paper that the model reads. */
static accel_status lay_out(const processor *p, accel__image *image, accel__pool *pool) {
  const accel__size *z = &p->size;
  const bool lies = image->width > image->height, stands = image->width < image->height;
  if (p->turns && ((z->width < z->height && lies) || (z->width > z->height && stands)))
    ACCEL_TRY(accel__image_turn(image, 6));
  const accel__size edge = {.shortest_edge = z->height < z->width ? z->height : z->width};
  if (p->do_resize) ACCEL_TRY(resize(p, &edge, image, pool));
  if (p->thumbnails) ACCEL_TRY(thumbnail(p, image, pool));
  if (!p->do_pad) return ACCEL_OK;
  return accel__image_crop(image, padded_middle(image->width, z->width),
                           padded_middle(image->height, z->height), z->width, z->height, black);
}

/* Resizes and crops in place. */
static accel_status shape(const processor *p, accel__image *image, accel__pool *pool) {
  if (p->pad_square && p->do_pad) ACCEL_TRY(pad_to_square(p, image));
  if (p->donut)
    ACCEL_TRY(lay_out(p, image, pool));
  else if (p->do_resize)
    ACCEL_TRY(p->convnext ? convnext(p, image, pool) : resize(p, &p->size, image, pool));
  return p->do_center_crop ? centre(image, p->crop_size.height, p->crop_size.width) : ACCEL_OK;
}

/* Pixel values as the class computes them in fp32: with both steps, mean and std are divided by the
 * factor instead. */
typedef struct levels {
  accel__scaling how;
  float of[3][256];                     /* the value of each byte of each colour */
  const accel__resize_kernels *kernels; /* NULL: plain loops */
} levels;

static void make_levels(const processor *p, levels *out) {
  const float inverse = p->do_rescale ? (float)(1.0 / p->rescale_factor) : 1.0f;
  accel__scaling *h = &out->how;
  out->kernels = accel__resize_kernels_of(accel__isa_choose());
  h->divides = p->do_normalize;
  for (int c = 0; c < 3; c++) {
    h->offset[c] = (float)p->mean[c] * inverse;
    h->scale[c] = h->divides      ? (float)p->std[c] * inverse
                  : p->do_rescale ? (float)p->rescale_factor
                                  : 1.0f;
    for (int v = 0; v < 256; v++)
      out->of[c][v] = h->divides ? ((float)v - h->offset[c]) / h->scale[c] : (float)v * h->scale[c];
  }
}

/* Planes of [3, height, width]; those of a smaller picture fill the upper left corner. */
static void fill_planes(const accel__image *image, const levels *l, int64_t height, int64_t width,
                        float *out) {
  for (int64_t y = 0; y < image->height; y++) {
    const uint8_t *row = image->pixels + (size_t)(y * image->width * 3);
    float *const to[3] = {out + y * width, out + (height + y) * width,
                          out + (2 * height + y) * width};
    int64_t x = l->kernels ? l->kernels->scale(row, image->width, &l->how, to) : 0;
    for (; x < image->width; x++)
      for (int c = 0; c < 3; c++) to[c][x] = l->of[c][row[3 * x + c]];
  }
}

/* ---- LLaVA-Next ---- */

/* The resolution that keeps most of the picture and wastes least. */
static void best_resolution(const processor *p, const accel__image *image, int32_t *height,
                            int32_t *width) {
  int64_t most = 0, least = INT64_MAX, pixels = (int64_t)image->width * image->height;
  for (int32_t i = 0; i < p->n_pinpoints; i++) {
    const int32_t h = p->pinpoint[i][0], w = p->pinpoint[i][1];
    const double across = (double)w / image->width, down = (double)h / image->height,
                 scale = across < down ? across : down;
    const int64_t kept = (int64_t)(image->width * scale) * (int64_t)(image->height * scale);
    const int64_t effective = kept < pixels ? kept : pixels, wasted = (int64_t)w * h - effective;
    if (i && effective <= most && (effective != most || wasted >= least)) continue;
    most = effective;
    least = wasted;
    *height = h;
    *width = w;
  }
}

/* Resized into the resolution without changing its shape, black around it. */
static accel_status fit_into(const processor *p, int32_t height, int32_t width, accel__image *image,
                             accel__pool *pool) {
  const double across = (double)width / image->width, down = (double)height / image->height;
  int32_t w = width, h = height;
  if (across < down) {
    h = (int32_t)ceil(image->height * across);
    h = h < height ? h : height;
  } else {
    w = (int32_t)ceil(image->width * down);
    w = w < width ? w : width;
  }
  ACCEL_TRY(accel__image_resize(image, w, h, p->filter, p->rounding, pool));
  return centre(image, height, width);
}

typedef struct tiles {
  accel__image *tile; /* the whole picture first */
  uint32_t n;
} tiles;

static void tiles_free(tiles *t) {
  for (uint32_t i = 0; t->tile && i < t->n; i++) accel__image_free(&t->tile[i]);
  free(t->tile);
  *t = (tiles){0};
}

static accel_status cut_tiles(const processor *p, const accel__image *image, int32_t side,
                              accel__pool *pool, tiles *out) {
  int32_t height = side, width = side;
  best_resolution(p, image, &height, &width);
  const int32_t down = (height + side - 1) / side, across = (width + side - 1) / side;
  *out = (tiles){.tile = calloc((size_t)(1 + down * across), sizeof *out->tile),
                 .n = (uint32_t)(1 + down * across)};
  if (!out->tile) return accel__no_memory(out->n * sizeof *out->tile);
  accel__image whole = view(image);
  const int32_t edge = p->size.shortest_edge;
  out->tile[0] = view(image);
  accel_status status =
      accel__image_resize(&out->tile[0], p->size.width ? p->size.width : edge,
                          p->size.height ? p->size.height : edge, p->filter, p->rounding, pool);
  if (status == ACCEL_OK) status = fit_into(p, height, width, &whole, pool);
  for (int32_t i = 0; status == ACCEL_OK && i < down * across; i++) {
    const int32_t x = i % across * side, y = i / across * side;
    accel__image *tile = &out->tile[1 + i];
    *tile = view(&whole);
    if (down * across == 1) { /* all of it */
      *tile = whole;
      whole = (accel__image){0};
      break;
    }
    status = accel__image_crop(tile, x, y, width - x < side ? width - x : side,
                               height - y < side ? height - y : side, black);
  }
  for (uint32_t i = 0; status == ACCEL_OK && i < out->n; i++)
    status = shape(p, &out->tile[i], pool);
  accel__image_free(&whole);
  return status;
}

/* zeros: not all of it will be written. */
static accel_status make_values(accel__pixels *out, bool zeros) {
  uint64_t n = sizeof *out->values;
  for (uint32_t i = 0; i < out->rank; i++)
    if (__builtin_mul_overflow(n, (uint64_t)out->dim[i], &n)) return accel__no_memory(SIZE_MAX);
  out->values = accel__block_alloc(n);
  if (out->values && zeros) memset(out->values, 0, n);
  return out->values ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static accel_status one_size(const accel__image *images, uint32_t n) {
  for (uint32_t i = 1; i < n; i++)
    if (images[i].width != images[0].width || images[i].height != images[0].height) {
      accel__fail(
          ACCEL_ERROR_ARGUMENT,
          "picture %u ends in %d x %d pixels, picture 0 in %d x %d; they cannot run together", i,
          images[i].width, images[i].height, images[0].width, images[0].height);
      return accel__remedy(ACCEL_ERROR_ARGUMENT, "give pictures of one size, or one at a time");
    }
  return ACCEL_OK;
}

static accel_status tiled(const processor *p, const accel__image *images, uint32_t n,
                          accel__pool *pool, accel__pixels *out) {
  const int32_t side = p->crop_size.height ? p->crop_size.height
                       : p->size.height    ? p->size.height
                                           : p->size.shortest_edge;
  levels level;
  uint32_t most = 0;
  tiles *all = calloc(n, sizeof *all);
  out->sizes = malloc((size_t)n * 2 * sizeof *out->sizes);
  accel_status status = all && out->sizes ? ACCEL_OK : accel__no_memory(n * sizeof *all);
  make_levels(p, &level);
  for (uint32_t i = 0; status == ACCEL_OK && i < n; i++) {
    out->sizes[2 * i] = images[i].height;
    out->sizes[2 * i + 1] = images[i].width;
    status = cut_tiles(p, &images[i], side, pool, &all[i]);
    if (status == ACCEL_OK) status = one_size(all[i].tile, all[i].n);
    if (all[i].n > most) most = all[i].n;
  }
  if (status == ACCEL_OK) {
    const int64_t height = all[0].tile[0].height, width = all[0].tile[0].width;
    out->rank = 5;
    memcpy(out->dim, (int64_t[5]){n, most, 3, height, width}, sizeof out->dim);
    status = make_values(out, n > 1);
    for (uint32_t i = 0; status == ACCEL_OK && i < n; i++)
      for (uint32_t t = 0; t < all[i].n; t++)
        fill_planes(&all[i].tile[t], &level, height, width,
                    out->values + ((int64_t)i * most + t) * 3 * height * width);
  }
  for (uint32_t i = 0; all && i < n; i++) tiles_free(&all[i]);
  free(all);
  return status;
}

/* ---- Qwen2-VL ---- */

/* The patch with its upper left corner at (top, left): [3, temporal, side, side], the same frame
 * `temporal` times.  Answers where the next one goes. */
static float *one_patch(const processor *p, const accel__image *image, const levels *l, int64_t top,
                        int64_t left, float *out) {
  const int64_t side = p->patch_size, frame = side * side;
  for (int c = 0; c < 3; c++) {
    const float *first = out;
    for (int64_t y = 0; y < side; y++) {
      const uint8_t *row = image->pixels + ((top + y) * image->width + left) * 3 + c;
      for (int64_t x = 0; x < side; x++) *out++ = l->of[c][row[3 * x]];
    }
    for (int64_t t = 1; t < p->temporal_patch; t++, out += frame)
      memcpy(out, first, (size_t)frame * sizeof *out);
  }
  return out;
}

/* One picture's patches, [rows, 3 * temporal * side * side]; those that merge stand together. */
static void patches(const processor *p, const accel__image *image, const levels *l, float *out) {
  const int64_t side = p->patch_size, merge = p->merge_size, block = side * merge;
  for (int64_t top = 0; top < image->height; top += block)
    for (int64_t left = 0; left < image->width; left += block)
      for (int64_t k = 0; k < merge * merge; k++)
        out = one_patch(p, image, l, top + k / merge * side, left + k % merge * side, out);
}

static accel_status patched(const processor *p, const accel__image *images, uint32_t n,
                            accel__pixels *out) {
  const int64_t side = p->patch_size, block = side * p->merge_size;
  levels level;
  int64_t total = 0;
  out->grid = malloc((size_t)n * 3 * sizeof *out->grid);
  if (!out->grid) return accel__no_memory((size_t)n * 3 * sizeof *out->grid);
  for (uint32_t i = 0; i < n; i++) {
    if (images[i].width % block || images[i].height % block)
      return accel__remedy(
          accel__fail(
              ACCEL_ERROR_ARGUMENT,
              "picture %u has %d x %d pixels, no multiples of patch_size * merge_size, %lld", i,
              images[i].width, images[i].height, (long long)block),
          "set do_resize in preprocessor_config.json");
    const int64_t grid[3] = {1, images[i].height / side, images[i].width / side};
    memcpy(out->grid + (size_t)i * 3, grid, sizeof grid);
    total += grid[1] * grid[2];
  }
  out->rank = 2;
  out->dim[0] = total;
  out->dim[1] = 3 * p->temporal_patch * side * side;
  ACCEL_TRY(make_values(out, false));
  make_levels(p, &level);
  float *to = out->values;
  for (uint32_t i = 0; i < n; i++) {
    patches(p, &images[i], &level, to);
    to += out->grid[3 * i + 1] * out->grid[3 * i + 2] * out->dim[1];
  }
  return ACCEL_OK;
}

/* ---- DINOv3: rescaled, then resized as floats, then normalised ---- */

static accel_status scaled_first(const processor *p, const accel__image *images, uint32_t n,
                                 accel__pixels *out) {
  const float factor = p->do_rescale ? (float)p->rescale_factor : 1.0f;
  int32_t height = images[0].height, width = images[0].width;
  if (!p->do_resize) ACCEL_TRY(one_size(images, n));
  if (p->do_resize) ACCEL_TRY(accel__size_after(p, &p->size, height, width, &height, &width));
  const int64_t plane = (int64_t)height * width;
  out->rank = 4;
  memcpy(out->dim, (int64_t[5]){n, 3, height, width}, sizeof out->dim);
  ACCEL_TRY(make_values(out, false));
  for (uint32_t i = 0; i < n; i++) {
    float *planes = out->values + (int64_t)i * 3 * plane;
    int32_t h = height, w = width;
    if (p->do_resize)
      ACCEL_TRY(accel__size_after(p, &p->size, images[i].height, images[i].width, &h, &w));
    if (h != height || w != width)
      return accel__fail(ACCEL_ERROR_ARGUMENT,
                         "picture %u ends in %d x %d pixels, picture 0 in %d x %d", i, w, h, width,
                         height);
    ACCEL_TRY(accel__image_resize_float(&images[i], factor, width, height, p->filter, planes));
    for (int c = 0; p->do_normalize && c < 3; c++)
      for (int64_t k = 0; k < plane; k++)
        planes[c * plane + k] = (planes[c * plane + k] - (float)p->mean[c]) / (float)p->std[c];
  }
  return ACCEL_OK;
}

/* ---- the other layouts ---- */

static accel_status stacked(const processor *p, const accel__image *images, uint32_t n,
                            accel__pixels *out) {
  int64_t height = 0, width = 0;
  levels level;
  const bool split = p->layout == ACCEL__LAYOUT_SPLIT,
             masked = (split || p->layout == ACCEL__LAYOUT_PADDED) && p->do_pad,
             frames = p->layout == ACCEL__LAYOUT_FRAMES;
  const bool padded = p->do_pad && !p->pad_square && !p->multiple_of && !p->donut;
  const int64_t divisor = p->do_pad && p->multiple_of ? p->divisor : 1;
  for (uint32_t i = 0; i < n; i++) {
    height = images[i].height > height ? images[i].height : height;
    width = images[i].width > width ? images[i].width : width;
  }
  if (!padded) ACCEL_TRY(one_size(images, n));
  if (padded && p->pad_size.height) {
    if (height > p->pad_size.height || width > p->pad_size.width)
      return accel__fail(
          ACCEL_ERROR_ARGUMENT, "a picture of %lld x %lld pixels does not fit pad_size %d x %d",
          (long long)width, (long long)height, p->pad_size.width, p->pad_size.height);
    height = p->pad_size.height;
    width = p->pad_size.width;
  }
  const int64_t top = (divisor - height % divisor) % divisor / 2,
                left = (divisor - width % divisor) % divisor / 2;
  height = (height + divisor - 1) / divisor * divisor;
  width = (width + divisor - 1) / divisor * divisor;
  out->rank = frames || split ? 5 : 4;
  memcpy(out->dim,
         frames || split ? (int64_t[5]){1, n, 3, height, width} : (int64_t[5]){n, 3, height, width},
         sizeof out->dim);
  bool fill = true;
  for (uint32_t i = 0; i < n; i++) fill &= images[i].height == height && images[i].width == width;
  ACCEL_TRY(make_values(out, !fill));
  if (masked)
    out->mask = accel__block_alloc((size_t)n * (size_t)(height * width) * sizeof *out->mask);
  if (masked && !out->mask) return ACCEL_ERROR_OUT_OF_MEMORY;
  make_levels(p, &level);
  for (uint32_t i = 0; i < n; i++) {
    fill_planes(&images[i], &level, height, width,
                out->values + (int64_t)i * 3 * height * width + top * width + left);
    for (int64_t y = 0; out->mask && y < height; y++) {
      int64_t *row = out->mask + ((int64_t)i * height + y) * width;
      const int64_t ones = y < images[i].height ? images[i].width : 0;
      for (int64_t x = 0; x < ones; x++) row[x] = 1;
      for (int64_t x = ones; x < width; x++) row[x] = 0;
    }
  }
  return ACCEL_OK;
}

/* The parts of pictures, as if they were pictures of their own. */
static accel_status parted(const processor *p, const accel__image *images, uint32_t n,
                           accel__pool *pool, accel__pixels *out) {
  accel__image *part = NULL;
  uint32_t parts = 0;
  out->parts = malloc((size_t)n * sizeof *out->parts);
  if (!out->parts) return accel__no_memory((size_t)n * sizeof *out->parts);
  ACCEL_TRY(accel__cut_parts(p, images, n, pool, &part, &parts, out->parts));
  accel_status status = stacked(p, part, parts, out);
  for (uint32_t i = 0; i < parts; i++) accel__image_free(&part[i]);
  free(part);
  return status;
}

accel_status accel__pixels_of(const processor *p, const accel__image *images, uint32_t n,
                              accel__pool *pool, accel__pixels *out) {
  *out = (accel__pixels){.images = n};
  if (!n) return accel__fail(ACCEL_ERROR_ARGUMENT, "no pictures are given");
  accel_status status = ACCEL_OK;
  accel__image *shaped = calloc(n, sizeof *shaped);
  if (!shaped) return accel__no_memory(n * sizeof *shaped);
  for (uint32_t i = 0; status == ACCEL_OK && i < n; i++) {
    shaped[i] = view(&images[i]);
    status = key_to_white(p, &shaped[i]);
    if (status == ACCEL_OK && p->layout != ACCEL__LAYOUT_TILES && !p->scales_first &&
        !accel__has_parts(p))
      status = shape(p, &shaped[i], pool);
  }
  if (status == ACCEL_OK)
    status = accel__has_parts(p)                  ? parted(p, shaped, n, pool, out)
             : p->scales_first                    ? scaled_first(p, shaped, n, out)
             : p->layout == ACCEL__LAYOUT_TILES   ? tiled(p, shaped, n, pool, out)
             : p->layout == ACCEL__LAYOUT_PATCHES ? patched(p, shaped, n, out)
                                                  : stacked(p, shaped, n, out);
  for (uint32_t i = 0; i < n; i++) accel__image_free(&shaped[i]);
  free(shaped);
  if (status != ACCEL_OK) accel__pixels_free(out);
  return status;
}

void accel__pixels_free(accel__pixels *px) {
  accel__block_free(px->values);
  accel__block_free(px->mask);
  free(px->sizes);
  free(px->grid);
  free(px->parts);
  *px = (accel__pixels){0};
}
