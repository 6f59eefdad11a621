/* tensor_bytes.h - for tests: the bytes of a tensor of a checkpoint. */
#ifndef ACCEL_TESTS_TENSOR_BYTES_H
#define ACCEL_TESTS_TENSOR_BYTES_H

#include "weights/weights.h"

/* Valid to the end of the program, which keeps the newest so many; NULL: it cannot be read. */
static inline const void *stored(const accel__checkpoint *c, const accel__tensor_info *t) {
  enum { KEPT = 4096 };
  static accel__lent kept[KEPT];
  static unsigned next;
  accel__lent *lent = &kept[next++ % KEPT];
  accel__tensor_return(lent);
  return accel__tensor_lend(c, t, 0, t->bytes, lent) == ACCEL_OK ? lent->data : NULL;
}

#endif
