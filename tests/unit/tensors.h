/* tensors.h - for unit tests: the tensors of a golden file by name.  Included after cmocka.h. */
#ifndef ACCEL_TESTS_TENSORS_H
#define ACCEL_TESTS_TENSORS_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "accel/accel.h"

static inline accel_tensors *read_tensors(const char *path) {
  accel_tensors *t = NULL;
  if (accel_tensors_read(path, &t) != ACCEL_OK) fail_msg("%s", accel_last_error());
  return t;
}

/* NULL when there is none of that name. */
static inline const accel_tensor *find(const accel_tensors *t, const char *format, ...) {
  char name[128];
  va_list args;
  va_start(args, format);
  vsnprintf(name, sizeof name, format, args);
  va_end(args);
  for (uint32_t i = 0; i < t->n; i++)
    if (!strcmp(t->item[i].name, name)) return &t->item[i];
  return NULL;
}

static inline int64_t elements(const accel_tensor *t) {
  int64_t n = 1;
  for (uint32_t i = 0; i < t->rank; i++) n *= t->dim[i];
  return n;
}

#endif
