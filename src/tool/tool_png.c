/* tool_png.c - grey pictures as PNG files in memory, by libpng. */
#include "tool/tool_png.h"

#include <png.h>
#include <stdlib.h>

uint8_t *tool_png_grey(const uint8_t *pixels, uint32_t height, uint32_t width, size_t *n) {
  png_image image = {
      .version = PNG_IMAGE_VERSION, .width = width, .height = height, .format = PNG_FORMAT_GRAY};
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image); /* so that one pass suffices */
  uint8_t *file = malloc(bytes);
  if (file && png_image_write_to_memory(&image, file, &bytes, 0, pixels, 0, NULL)) {
    uint8_t *less = realloc(file, bytes);
    *n = bytes;
    return less ? less : file;
  }
  png_image_free(&image);
  free(file);
  return NULL;
}
