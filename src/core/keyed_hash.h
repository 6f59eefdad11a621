/* keyed_hash.h - hashes of 128 bits that nobody outside of the process can aim at: for content of
 * users that is taken for equal where its hash is. */
#ifndef ACCEL_CORE_KEYED_HASH_H
#define ACCEL_CORE_KEYED_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* SipHash-2-4 with 128 bits (Aumasson, Bernstein: SipHash: a fast short-input PRF) of bytes[n]
 * under key[2]. */
void accel__siphash(const uint64_t key[2], const void *bytes, size_t n, uint64_t out[2]);
/* The same under a random key that the process keeps.  false: the system gives no random numbers.
 * Thread-safe. */
bool accel__keyed_hash(const void *bytes, size_t n, uint64_t out[2]);

#endif
