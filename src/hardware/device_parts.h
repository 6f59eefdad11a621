/* device_parts.h - the spelling of a placement over several devices: one element of a device
 * string.
 *
 *   PART+PART...          PART is NAME, or NAME=FIRST-LAST, or NAME=LAYER; all with layers or none
 *
 * Names are those of hardware.h.  Layers are counted from 0; the ranges follow one another without
 * gaps, first part first.
 */
#ifndef ACCEL_HARDWARE_DEVICE_PARTS_H
#define ACCEL_HARDWARE_DEVICE_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

enum { ACCEL__MAX_PARTS = 16 };

typedef struct accel__part_spelling {
  const char *name; /* [n_name] in the text */
  size_t n_name;
  int32_t first, last; /* layers; -1: left to the planner */
} accel__part_spelling;

typedef struct accel__parts_spelling {
  uint32_t n; /* 0: the text names one device */
  accel__part_spelling part[ACCEL__MAX_PARTS];
} accel__parts_spelling;

/* Reads text[n_text].  ACCEL_ERROR_ARGUMENT says which part is wrong and how it is to be spelled. */
accel_status accel__parts_parse(const char *text, size_t n_text, accel__parts_spelling *out);

#endif
