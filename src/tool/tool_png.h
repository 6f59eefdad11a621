/* tool_png.h - grey pictures as PNG files in memory. */
#ifndef ACCEL_TOOL_PNG_H
#define ACCEL_TOOL_PNG_H

#include <stddef.h>
#include <stdint.h>

/* A picture [height, width] of 8-bit grey as the *n bytes of a PNG file, malloc'd; NULL: out of
 * memory, or a side is 0 or too long. */
uint8_t *tool_png_grey(const uint8_t *pixels, uint32_t height, uint32_t width, size_t *n);

#endif
