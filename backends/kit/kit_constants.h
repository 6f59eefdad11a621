/* kit_constants.h - a program's constants in device memory, uploaded once, when an endpoint opens.
 * Backends that compute in host memory read the program's own. */
#ifndef ACCEL_KIT_CONSTANTS_H
#define ACCEL_KIT_CONSTANTS_H

#include "kit/kit_memory.h"

typedef struct kit_constants {
  void *buffer;     /* all of them; NULL: there are none, or they stay in the program */
  uint64_t bytes;   /* of it, counted as taken */
  uint64_t *offset; /* [n_tensor] where each begins, bytes; of constants alone */
} kit_constants;

/* Bytes that they take on a device. */
int32_t kit_constants_size(const accel_plugin_program *program, uint64_t *bytes,
                           accel_plugin_error *error);
/* The backend is open.  After failure, too, they are to be closed. */
int32_t kit_constants_open(kit_constants *constants, const accel_plugin_program *program,
                           kit_memory *memory, accel_plugin_error *error);
void kit_constants_close(kit_constants *constants, kit_memory *memory);

#endif
