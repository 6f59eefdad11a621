/* hash.h - the FNV-1a hash of bytes, 64 bits: for names of cache files and keys of tables, not for
 * anything that must withstand an adversary. */
#ifndef ACCEL_SHARED_HASH_H
#define ACCEL_SHARED_HASH_H

#include <stddef.h>
#include <stdint.h>

#define ACCEL_HASH_SEED UINT64_C(0xcbf29ce484222325) /* the hash of no bytes */

/* The hash of what `h` was made of, followed by `bytes`. */
static inline uint64_t accel_hash(uint64_t h, const void *bytes, size_t n) {
  for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
  return h;
}

/* The same of a string without its terminating NUL. */
static inline uint64_t accel_hash_text(uint64_t h, const char *text) {
  for (; *text; text++) h = (h ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
  return h;
}

#endif
