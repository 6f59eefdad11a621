/* draw.c - frames, letters and colours. */
#include "vision/draw.h"

#include <string.h>

enum { LETTER_WIDTH = 5, LETTER_HEIGHT = 8, FIRST = 32, LETTERS = 95 };

/* The lines of each printable ASCII character from above, 16 the leftmost column, 1 the
 * rightmost. */
static const uint8_t letters[LETTERS][LETTER_HEIGHT] = {
    {0, 0, 0, 0, 0, 0, 0, 0},        {4, 4, 4, 4, 4, 0, 4, 0},
    {10, 10, 0, 0, 0, 0, 0, 0},      {10, 31, 10, 10, 10, 31, 10, 0},
    {4, 15, 20, 14, 5, 30, 4, 0},    {25, 26, 2, 4, 8, 11, 19, 0},
    {8, 20, 20, 8, 21, 18, 13, 0},   {4, 4, 0, 0, 0, 0, 0, 0},
    {2, 4, 8, 8, 8, 8, 4, 2},        {8, 4, 2, 2, 2, 2, 4, 8},
    {0, 4, 21, 14, 21, 4, 0, 0},     {0, 4, 4, 31, 4, 4, 0, 0},
    {0, 0, 0, 0, 0, 4, 4, 8},        {0, 0, 0, 14, 0, 0, 0, 0},
    {0, 0, 0, 0, 0, 0, 4, 0},        {1, 1, 2, 2, 4, 4, 8, 8},
    {14, 17, 19, 21, 25, 17, 14, 0}, {4, 12, 20, 4, 4, 4, 31, 0},
    {14, 17, 1, 6, 8, 16, 31, 0},    {30, 1, 1, 14, 1, 1, 30, 0},
    {2, 6, 10, 18, 31, 2, 2, 0},     {31, 16, 30, 1, 1, 17, 14, 0},
    {14, 16, 16, 30, 17, 17, 14, 0}, {31, 1, 2, 2, 4, 4, 4, 0},
    {14, 17, 17, 14, 17, 17, 14, 0}, {14, 17, 17, 15, 1, 1, 14, 0},
    {0, 0, 4, 0, 0, 4, 0, 0},        {0, 0, 4, 0, 0, 4, 4, 8},
    {1, 2, 4, 8, 4, 2, 1, 0},        {0, 0, 31, 0, 31, 0, 0, 0},
    {16, 8, 4, 2, 4, 8, 16, 0},      {14, 17, 1, 2, 4, 0, 4, 0},
    {14, 17, 23, 21, 23, 16, 14, 0}, {4, 10, 17, 17, 31, 17, 17, 0},
    {30, 17, 17, 30, 17, 17, 30, 0}, {15, 16, 16, 16, 16, 16, 15, 0},
    {30, 17, 17, 17, 17, 17, 30, 0}, {31, 16, 16, 30, 16, 16, 31, 0},
    {31, 16, 16, 30, 16, 16, 16, 0}, {15, 16, 16, 19, 17, 17, 15, 0},
    {17, 17, 17, 31, 17, 17, 17, 0}, {31, 4, 4, 4, 4, 4, 31, 0},
    {3, 1, 1, 1, 17, 17, 14, 0},     {17, 18, 20, 24, 20, 18, 17, 0},
    {16, 16, 16, 16, 16, 16, 31, 0}, {17, 27, 21, 21, 17, 17, 17, 0},
    {17, 25, 25, 21, 19, 19, 17, 0}, {14, 17, 17, 17, 17, 17, 14, 0},
    {30, 17, 17, 30, 16, 16, 16, 0}, {14, 17, 17, 17, 21, 18, 13, 0},
    {30, 17, 17, 30, 20, 18, 17, 0}, {15, 16, 16, 14, 1, 1, 30, 0},
    {31, 4, 4, 4, 4, 4, 4, 0},       {17, 17, 17, 17, 17, 17, 14, 0},
    {17, 17, 17, 10, 10, 10, 4, 0},  {17, 17, 17, 21, 21, 27, 17, 0},
    {17, 17, 10, 4, 10, 17, 17, 0},  {17, 17, 10, 4, 4, 4, 4, 0},
    {31, 1, 2, 4, 8, 16, 31, 0},     {14, 8, 8, 8, 8, 8, 8, 14},
    {8, 8, 4, 4, 2, 2, 1, 1},        {14, 2, 2, 2, 2, 2, 2, 14},
    {4, 10, 17, 0, 0, 0, 0, 0},      {0, 0, 0, 0, 0, 0, 0, 31},
    {8, 4, 0, 0, 0, 0, 0, 0},        {0, 0, 14, 1, 15, 17, 15, 0},
    {16, 16, 30, 17, 17, 17, 30, 0}, {0, 0, 15, 16, 16, 16, 15, 0},
    {1, 1, 15, 17, 17, 17, 15, 0},   {0, 0, 14, 17, 31, 16, 15, 0},
    {6, 8, 28, 8, 8, 8, 8, 0},       {0, 0, 15, 17, 17, 15, 1, 14},
    {16, 16, 30, 17, 17, 17, 17, 0}, {4, 0, 12, 4, 4, 4, 14, 0},
    {2, 0, 6, 2, 2, 2, 18, 12},      {16, 16, 18, 20, 24, 20, 18, 0},
    {12, 4, 4, 4, 4, 4, 6, 0},       {0, 0, 26, 21, 21, 21, 21, 0},
    {0, 0, 30, 17, 17, 17, 17, 0},   {0, 0, 14, 17, 17, 17, 14, 0},
    {0, 0, 30, 17, 17, 30, 16, 16},  {0, 0, 15, 17, 17, 15, 1, 1},
    {0, 0, 22, 24, 16, 16, 16, 0},   {0, 0, 15, 16, 14, 1, 30, 0},
    {8, 8, 28, 8, 8, 8, 6, 0},       {0, 0, 17, 17, 17, 17, 15, 0},
    {0, 0, 17, 17, 10, 10, 4, 0},    {0, 0, 21, 21, 21, 21, 10, 0},
    {0, 0, 17, 10, 4, 10, 17, 0},    {0, 0, 17, 17, 17, 15, 1, 14},
    {0, 0, 31, 2, 4, 8, 31, 0},      {3, 4, 4, 8, 4, 4, 4, 3},
    {4, 4, 4, 4, 4, 4, 4, 4},        {24, 4, 4, 2, 4, 4, 4, 24},
    {0, 0, 9, 22, 0, 0, 0, 0},
};
static const uint8_t unknown[LETTER_HEIGHT] = {31, 17, 17, 17, 17, 17, 31, 0};

accel__colour accel__colour_of(int64_t id) {
  /* steps of the golden ratio round the circle of hues, in 1536 steps of six ramps */
  const uint32_t hue = (uint32_t)((uint64_t)id * 949u % 1536u), ramp = hue % 256u;
  const uint8_t full = 230, none = 30, up = (uint8_t)(none + ramp * (full - none) / 256u),
                down = (uint8_t)(full - ramp * (full - none) / 256u);
  switch (hue / 256u) {
    case 0:
      return (accel__colour){full, up, none};
    case 1:
      return (accel__colour){down, full, none};
    case 2:
      return (accel__colour){none, full, up};
    case 3:
      return (accel__colour){none, down, full};
    case 4:
      return (accel__colour){up, none, full};
    default:
      return (accel__colour){full, none, down};
  }
}

static int32_t clamp(int64_t v, int32_t low, int32_t high) {
  return (int32_t)(v < low ? low : v > high ? high : v);
}

/* Fills [x0, x1) x [y0, y1), as much of it as lies in the picture. */
static void fill(accel__image *image, int64_t x0, int64_t y0, int64_t x1, int64_t y1,
                 accel__colour colour) {
  const int32_t left = clamp(x0, 0, image->width), right = clamp(x1, 0, image->width);
  for (int32_t y = clamp(y0, 0, image->height); y < clamp(y1, 0, image->height); y++)
    for (int32_t x = left; x < right; x++)
      memcpy(image->pixels + ((size_t)y * (size_t)image->width + (size_t)x) * 3, &colour, 3);
}

void accel__draw_frame(accel__image *image, int32_t x0, int32_t y0, int32_t x1, int32_t y1,
                       int32_t thick, accel__colour colour) {
  const int64_t right = (int64_t)x1 + 1, below = (int64_t)y1 + 1;
  fill(image, x0, y0, right, (int64_t)y0 + thick, colour);
  fill(image, x0, below - thick, right, below, colour);
  fill(image, x0, y0, (int64_t)x0 + thick, below, colour);
  fill(image, right - thick, y0, right, below, colour);
}

int32_t accel__label_height(int32_t scale) { return (LETTER_HEIGHT + 2) * scale; }

static void draw_letter(accel__image *image, int64_t x, int64_t y, int32_t scale,
                        const uint8_t *lines, accel__colour ink) {
  for (int32_t row = 0; row < LETTER_HEIGHT; row++)
    for (int32_t column = 0; column < LETTER_WIDTH; column++)
      if (lines[row] >> (LETTER_WIDTH - 1 - column) & 1)
        fill(image, x + column * scale, y + row * scale, x + (column + 1) * scale,
             y + (row + 1) * scale, ink);
}

void accel__draw_label(accel__image *image, int32_t x, int32_t y, int32_t scale, const char *text,
                       accel__colour colour) {
  /* of 255000: the luma of Rec. 601 */
  const bool light = 299 * colour.r + 587 * colour.g + 114 * colour.b > 128000;
  const accel__colour ink = light ? (accel__colour){0, 0, 0} : (accel__colour){255, 255, 255};
  const int64_t step = (LETTER_WIDTH + 1) * (int64_t)scale, height = accel__label_height(scale);
  int64_t n = 0;
  /* one cell for each code point */
  for (const char *c = text; *c; c++) n += ((uint8_t)*c & 0xC0) != 0x80;
  const int64_t width = n * step + scale;
  const int32_t left = width < image->width ? clamp(x, 0, (int32_t)(image->width - width)) : 0;
  const int32_t top = height < image->height ? clamp(y, 0, (int32_t)(image->height - height)) : 0;
  fill(image, left, top, left + width, top + height, colour);
  int64_t at = (int64_t)left + scale;
  for (const char *c = text; *c && at < image->width; c++) {
    const uint8_t byte = (uint8_t)*c;
    if ((byte & 0xC0) == 0x80) continue;
    draw_letter(image, at, (int64_t)top + scale, scale,
                byte - FIRST >= 0 && byte - FIRST < LETTERS ? letters[byte - FIRST] : unknown, ink);
    at += step;
  }
}

void accel__draw_classes(accel__image *image, const int32_t *class, bool mixed) {
  const size_t n = (size_t)image->width * (size_t)image->height;
  for (size_t i = 0; i < n; i++) {
    if (class[i] < 0) continue;
    const accel__colour colour = accel__colour_of(class[i]);
    uint8_t *pixel = image->pixels + 3 * i;
    pixel[0] = (uint8_t)(mixed ? (pixel[0] + colour.r) / 2 : colour.r);
    pixel[1] = (uint8_t)(mixed ? (pixel[1] + colour.g) / 2 : colour.g);
    pixel[2] = (uint8_t)(mixed ? (pixel[2] + colour.b) / 2 : colour.b);
  }
}
