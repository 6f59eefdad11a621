/* draw.h - results drawn into pictures: frames, labels, coloured areas. */
#ifndef ACCEL_VISION_DRAW_H
#define ACCEL_VISION_DRAW_H

#include "vision/image.h"

typedef struct accel__colour {
  uint8_t r, g, b;
} accel__colour;

/* The colour of class `id`: neighbours in number are far apart in hue. */
accel__colour accel__colour_of(int64_t id);
/* A frame of `thick` pixels inside the corners (x0, y0) and (x1, y1), both included; what lies
 * outside the picture is left out. */
void accel__draw_frame(accel__image *image, int32_t x0, int32_t y0, int32_t x1, int32_t y1,
                       int32_t thick, accel__colour colour);
/* One line of text on a ground of `colour`, its upper left corner at (x, y), moved so that it lies
 * inside the picture where it can.  Letters are 5 x 8 pixels times `scale`, black or white,
 * whichever reads better; what is no ASCII is shown as a box. */
void accel__draw_label(accel__image *image, int32_t x, int32_t y, int32_t scale, const char *text,
                       accel__colour colour);
int32_t accel__label_height(int32_t scale);
/* Each pixel in the colour of class[y * width + x], which negative ones leave as they are; mixed:
 * half and half with what is there. */
void accel__draw_classes(accel__image *image, const int32_t *class, bool mixed);

#endif
