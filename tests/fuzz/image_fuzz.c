/* image_fuzz.c - pictures from memory, resized when they can be read.  Large ones are left out:
 * they only cost time. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "vision/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { LARGE = 1024 };

static bool large_png(const uint8_t *d, size_t n) {
  if (n < 24 || memcmp(d, "\x89PNG", 4)) return false;
  for (int i = 16; i < 24; i++)
    if (i % 4 < 2 ? d[i] : i % 4 == 2 && d[i] >= LARGE >> 8) return true;
  return false;
}

static bool large_jpeg(const uint8_t *d, size_t n) {
  for (size_t i = 0; i + 9 <= n; i++) /* any start-of-frame marker */
    if (d[i] == 0xFF && (d[i + 1] & 0xF0) == 0xC0 &&
        (d[i + 5] >= LARGE >> 8 || d[i + 7] >= LARGE >> 8))
      return true;
  return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  accel__image image;
  if (large_png(data, n) || large_jpeg(data, n) ||
      accel__image_parse(data, n, "fuzz", &image) != ACCEL_OK)
    return 0;
  (void)accel__image_resize(&image, 8, 5, ACCEL__BICUBIC, ACCEL__ROUND_TORCH, NULL);
  accel__image_free(&image);
  return 0;
}
