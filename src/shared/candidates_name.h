/* candidates_name.h - what the file of a model's candidates is called in the cache's directory: the
 * library reads what the accel tool writes. */
#ifndef ACCEL_SHARED_CANDIDATES_NAME_H
#define ACCEL_SHARED_CANDIDATES_NAME_H

#include <stdio.h>

#include "shared/hash.h"

#define ACCEL_CANDIDATES_SCHEMA "accel.candidates/1"
#define ACCEL_CANDIDATES_FOLDER "candidates"
enum { ACCEL_CANDIDATES_NAME = 24 };

/* model: as it was named; weights: "local", or "random, seed N". */
static inline void accel_candidates_name(const char *model, const char *weights,
                                         char into[ACCEL_CANDIDATES_NAME]) {
  const uint64_t hash = accel_hash_text(accel_hash_text(ACCEL_HASH_SEED, weights), model);
  snprintf(into, ACCEL_CANDIDATES_NAME, "%016llx.json", (unsigned long long)hash);
}

#endif
