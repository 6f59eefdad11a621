/* mapped.h - for tests: the bytes of a tensor of a mapped checkpoint, valid until it is closed. */
#ifndef ACCEL_TESTS_MAPPED_H
#define ACCEL_TESTS_MAPPED_H

#include "weights/weights.h"

/* NULL: the checkpoint is not mapped. */
static inline const void *mapped(const accel__checkpoint *c, const accel__tensor_info *t) {
  const void *data;
  return accel__tensor_at(c, t, 0, t->bytes, NULL, &data) == ACCEL_OK ? data : NULL;
}

#endif
