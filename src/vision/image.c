/* image.c - any picture file, upright. */
#include "vision/image.h"

#include "core/block_cache.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"

accel_status accel__image_unset(int64_t width, int64_t height, const char *name,
                                accel__image *out) {
  *out = (accel__image){0};
  if (width < 1 || height < 1)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: is %lld x %lld pixels", name, (long long)width,
                       (long long)height);
  if (width > INT32_MAX / 4 || height > ACCEL__IMAGE_MAX_PIXELS / width) {
    accel__fail(ACCEL_ERROR_FORMAT, "%s: is %lld x %lld pixels; %lld in all can be read", name,
                (long long)width, (long long)height, (long long)ACCEL__IMAGE_MAX_PIXELS);
    return accel__remedy(ACCEL_ERROR_FORMAT, "make the picture smaller");
  }
  out->pixels = accel__block_alloc((size_t)(width * height) * 3);
  if (!out->pixels) return ACCEL_ERROR_OUT_OF_MEMORY;
  out->width = (int32_t)width;
  out->height = (int32_t)height;
  return ACCEL_OK;
}

accel_status accel__image_new(int64_t width, int64_t height, const char *name, accel__image *out) {
  ACCEL_TRY(accel__image_unset(width, height, name, out));
  memset(out->pixels, 0, (size_t)(width * height) * 3);
  return ACCEL_OK;
}

void accel__image_free(accel__image *image) {
  if (!image->borrowed) accel__block_free(image->pixels);
  *image = (accel__image){0};
}

/* ---- Exif ---- */

static uint32_t get(const uint8_t *p, int bytes, bool big) {
  uint32_t v = 0;
  for (int i = 0; i < bytes; i++) v |= (uint32_t)p[i] << 8 * (big ? bytes - 1 - i : i);
  return v;
}

int accel__exif_orientation(const uint8_t *tiff, size_t n) {
  enum { ORIENTATION = 0x0112, SHORT = 3, ENTRY = 12 };
  if (n < 8 || (memcmp(tiff, "II", 2) && memcmp(tiff, "MM", 2))) return 1;
  const bool big = tiff[0] == 'M';
  const uint32_t at = get(tiff + 4, 4, big);
  if (at > n - 2 || n < 2) return 1;
  const uint32_t entries = get(tiff + at, 2, big);
  for (uint32_t i = 0; i < entries; i++) {
    const uint64_t entry = (uint64_t)at + 2 + (uint64_t)i * ENTRY;
    if (entry + ENTRY > n) return 1;
    const uint8_t *e = tiff + entry;
    if (get(e, 2, big) != ORIENTATION || get(e + 2, 2, big) != SHORT) continue;
    const uint32_t value = get(e + 8, 2, big);
    return value >= 1 && value <= 8 ? (int)value : 1;
  }
  return 1;
}

/* Pixel (x, y) of the upright picture is that of the stored one with: 2 mirrored, 3 turned by 180
 * degrees, 4 upside down, 5 to 8 the same with the axes exchanged. */
accel_status accel__image_turn(accel__image *image, int orientation) {
  accel__image to;
  const bool exchanged = orientation >= 5;
  if (orientation == 1) return ACCEL_OK;
  ACCEL_TRY(accel__image_new(exchanged ? image->height : image->width,
                             exchanged ? image->width : image->height, "the picture", &to));
  const bool from_right =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_below =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  for (int32_t y = 0; y < to.height; y++)
    for (int32_t x = 0; x < to.width; x++) {
      int32_t sx = exchanged ? y : x, sy = exchanged ? x : y;
      if (from_right) sx = image->width - 1 - sx;
      if (from_below) sy = image->height - 1 - sy;
      memcpy(to.pixels + ((size_t)y * (size_t)to.width + (size_t)x) * 3,
             image->pixels + ((size_t)sy * (size_t)image->width + (size_t)sx) * 3, 3);
    }
  to.keyed = image->keyed;
  memcpy(to.key, image->key, sizeof to.key);
  accel__image_free(image);
  *image = to;
  return ACCEL_OK;
}

/* ---- WebP ---- */

static struct {
  int (*info)(const uint8_t *data, size_t n, int *width, int *height);
  uint8_t *(*decode_into)(const uint8_t *data, size_t n, uint8_t *out, size_t size, int stride);
} webp;
static pthread_once_t webp_once = PTHREAD_ONCE_INIT;

static void load_webp(void) {
  void *handle = dlopen("libwebp.so.7", RTLD_NOW | RTLD_LOCAL);
  if (!handle) return;
  *(void **)&webp.info = dlsym(handle, "WebPGetInfo");
  *(void **)&webp.decode_into = dlsym(handle, "WebPDecodeRGBInto");
}

/* Of the file's EXIF chunk; chunks are name, length, bytes up to an even number of them. */
static int webp_orientation(const uint8_t *bytes, size_t n) {
  for (size_t at = 12; n - at >= 8;) {
    const size_t length = get(bytes + at + 4, 4, false), left = n - at - 8;
    const uint8_t *data = bytes + at + 8;
    if (length > left) return 1;
    if (!memcmp(bytes + at, "EXIF", 4)) {
      const size_t skip = length > 6 && !memcmp(data, "Exif\0\0", 6) ? 6 : 0;
      return accel__exif_orientation(data + skip, length - skip);
    }
    if (length + (length & 1) > left) return 1;
    at += 8 + length + (length & 1);
  }
  return 1;
}

static accel_status webp_parse(const uint8_t *bytes, size_t n, const char *name, accel__image *out,
                               int *orientation) {
  int width, height;
  pthread_once(&webp_once, load_webp);
  if (!webp.info || !webp.decode_into) {
    accel__fail(ACCEL_ERROR_UNSUPPORTED,
                "%s: is a WebP picture, and libwebp.so.7, which reads it, is missing", name);
    return accel__remedy(ACCEL_ERROR_UNSUPPORTED,
                         "install libwebp7, or convert the picture to PNG or JPEG");
  }
  if (!webp.info(bytes, n, &width, &height))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: libwebp cannot read its header", name);
  ACCEL_TRY(accel__image_new(width, height, name, out));
  *orientation = webp_orientation(bytes, n);
  if (webp.decode_into(bytes, n, out->pixels, (size_t)width * (size_t)height * 3, width * 3))
    return ACCEL_OK;
  accel__image_free(out);
  return accel__fail(ACCEL_ERROR_FORMAT,
                     "%s: libwebp cannot read it; the file may have been cut short", name);
}

/* ---- any ---- */

accel_status accel__image_parse(const uint8_t *bytes, size_t n, const char *name,
                                accel__image *out) {
  int orientation = 1;
  *out = (accel__image){0};
  if (!n) return accel__fail(ACCEL_ERROR_FORMAT, "%s: is empty", name);
  if (n >= 3 && !memcmp(bytes, "\xFF\xD8\xFF", 3))
    ACCEL_TRY(accel__jpeg_parse(bytes, n, name, out, &orientation));
  else if (n >= 8 && !memcmp(bytes, "\x89PNG\r\n\x1A\n", 8))
    ACCEL_TRY(accel__png_parse(bytes, n, name, out, &orientation));
  else if (n >= 12 && !memcmp(bytes, "RIFF", 4) && !memcmp(bytes + 8, "WEBP", 4))
    ACCEL_TRY(webp_parse(bytes, n, name, out, &orientation));
  else {
    accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: is no JPEG, PNG or WebP picture", name);
    return accel__remedy(ACCEL_ERROR_UNSUPPORTED,
                         "convert it, for example with: ffmpeg -i OLD NEW.png");
  }
  accel_status status = accel__image_turn(out, orientation);
  if (status != ACCEL_OK) accel__image_free(out);
  return status;
}

accel_status accel__image_read(const char *path, accel__image *out) {
  accel__mapping map = {0};
  *out = (accel__image){0};
  ACCEL_TRY(accel__file_load(path, &map));
  accel_status status = accel__image_parse(map.data, map.n, path, out);
  accel__file_unmap(&map);
  return status;
}
