/* picture_parts.h - pictures that a processor hands on in several parts: Gemma 3's pan and scan,
 * the tiles of InternVL (GotOcr2ImageProcessor), the frames of Idefics3 and SmolVLM. */
#ifndef ACCEL_VISION_PICTURE_PARTS_H
#define ACCEL_VISION_PICTURE_PARTS_H

#include "vision/image_processor.h"

/* Whether the layout is one of these. */
bool accel__has_parts(const accel__image_processor *p);
/* All parts of n pictures behind one another, resized: (*out)[*n_out], to be freed one by one, and
 * the array with free(); parts[n] says how many each has.  Pictures are left as they are. */
accel_status accel__cut_parts(const accel__image_processor *p, const accel__image *images,
                              uint32_t n, accel__pool *pool, accel__image **out, uint32_t *n_out,
                              accel__picture_parts *parts);

#endif
