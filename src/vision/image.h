/* image.h - picture files to pixels, and pixels to other sizes.
 *
 *   accel__image image;
 *   ACCEL_TRY(accel__image_read("cat.jpg", &image));                         8-bit RGB, upright
 *   ACCEL_TRY(accel__image_resize(&image, 224, 224, ACCEL__BICUBIC, ACCEL__ROUND_TORCH, pool));
 *   accel__image_free(&image);
 *
 * JPEG is read by libjpeg-turbo, PNG by libpng, WebP by libwebp where it is installed (loaded when
 * it is first needed).  Functions that take a pool may use all its threads and return when the work
 * is done; NULL is the calling thread alone, with the same result.
 */
#ifndef ACCEL_VISION_IMAGE_H
#define ACCEL_VISION_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"
#include "core/threads.h"

/* Pictures of more pixels are refused before any is decoded: what Pillow calls a decompression
 * bomb. */
#define ACCEL__IMAGE_MAX_PIXELS INT64_C(178956970)
/* Sides that a picture may be resized to. */
#define ACCEL__IMAGE_MAX_SIDE (1 << 20)

typedef struct accel__image {
  uint8_t *pixels; /* [height, width, 3] RGB, from accel__block_alloc; owned unless borrowed */
  int32_t width, height;
  bool borrowed; /* the pixels are another image's, which outlives this one */
  /* a PNG file names the colour `key` as transparent, as Pillow keeps it behind the way to RGB */
  bool keyed;
  uint8_t key[3];
} accel__image; /* {0} is empty */

/* As transformers' load_image: the Exif orientation is applied, then everything becomes RGB as
 * Pillow converts it (alpha is dropped, CMYK becomes RGB without a profile, 16-bit colour keeps its
 * high byte, 16-bit grey is clipped to 255). ACCEL_ERROR_FORMAT names the file and what is wrong
 * with it; a kind that is not read is ACCEL_ERROR_UNSUPPORTED. */
accel_status accel__image_read(const char *path, accel__image *out);
/* The same from memory; `name` stands for the file in messages. */
accel_status accel__image_parse(const uint8_t *bytes, size_t n, const char *name,
                                accel__image *out);
/* Leaves {0}; pixels that are borrowed stay with their owner. */
void accel__image_free(accel__image *image);
/* An image of these sides, zeros.  ACCEL_ERROR_FORMAT, naming `name`, above the limit or with a
 * side of 0. */
accel_status accel__image_new(int64_t width, int64_t height, const char *name, accel__image *out);
/* The same, its pixels not yet set. */
accel_status accel__image_unset(int64_t width, int64_t height, const char *name, accel__image *out);

/* Decoders: pixels as stored (not turned), and the Exif orientation, 1 .. 8. */
accel_status accel__jpeg_parse(const uint8_t *bytes, size_t n, const char *name, accel__image *out,
                               int *orientation);
accel_status accel__png_parse(const uint8_t *bytes, size_t n, const char *name, accel__image *out,
                              int *orientation);
/* An 8-bit RGB PNG file, under a temporary name first; `parameters`, UTF-8, goes into a text chunk of
 * this name.  NULL: none. */
accel_status accel__png_write(const char *path, const accel__image *image, const char *parameters);
/* Grey pixels [height, width] of 0 to 2^bits - 1 as a PNG file of 8 or 16 bits, written likewise. */
accel_status accel__png_write_grey(const char *path, const uint16_t *grey, int32_t width,
                                   int32_t height, int bits);
/* Orientation in a TIFF block as Exif has it ("II" or "MM" first); 1 when it tells none. */
int accel__exif_orientation(const uint8_t *tiff, size_t n);

/* Pillow's numbers, which preprocessor_config.json uses. */
typedef enum accel__filter {
  ACCEL__NEAREST = 0,
  ACCEL__LANCZOS = 1,
  ACCEL__BILINEAR = 2,
  ACCEL__BICUBIC = 3,
  ACCEL__BOX = 4,
  ACCEL__HAMMING = 5
} accel__filter;
/* How the weights of a filter are rounded to integers: by Pillow to 22 bits, by torch's antialiased
 * uint8 interpolation (which torchvision's resize calls) to 16 bits with the sign.  Sums are
 * rounded to 8 bits after each of the two passes in both. */
typedef enum accel__rounding { ACCEL__ROUND_PILLOW, ACCEL__ROUND_TORCH } accel__rounding;

/* Turns the picture in place as one with this Exif orientation has to be, 1 .. 8: 6 by 90 degrees
 * clockwise. */
accel_status accel__image_turn(accel__image *image, int orientation);

/* Replaces *image, which stays as it is on failure.  Columns first, then rows, as torch does it,
 * and Pillow up to 12 (13 takes the rows first where
 * that costs less, which moves some results by a rounding); a side that stays as it is is not
 * filtered.  ACCEL_ERROR_ARGUMENT for sides outside 1 .. ACCEL__IMAGE_MAX_SIDE. */
accel_status accel__image_resize(accel__image *image, int32_t width, int32_t height,
                                 accel__filter filter, accel__rounding rounding, accel__pool *pool);
/* Planes [3, height, width] of `image`, its bytes times `factor`, resized in single precision as
 * torch's antialiased interpolation of floats does it.  Filters: all but ACCEL__NEAREST. */
accel_status accel__image_resize_float(const accel__image *image, float factor, int32_t width,
                                       int32_t height, accel__filter filter, float *planes);
/* Replaces *image by the part with its upper left corner at (left, top), which may lie outside:
 * `fill` there. */
accel_status accel__image_crop(accel__image *image, int32_t left, int32_t top, int32_t width,
                               int32_t height, const uint8_t fill[3]);

#endif
