/* bench_look.h - facts of a database, without bringing it forward or waiting for writers. */
#ifndef ACCEL_BENCH_LOOK_H
#define ACCEL_BENCH_LOOK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct bench_look {
  int schema, newest; /* of the file; what this tool writes */
  int64_t runs, verdicts;
} bench_look;

/* false: it cannot be read, and `message` says why.  A newer schema is a fact, not a failure; its
 * rows are not counted. */
bool bench_look_at(const char *path, bench_look *out, char *message, uint32_t size);

#endif
