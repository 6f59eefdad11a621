/* keyed_hash.c - SipHash, and the process's key for it. */
#include "core/keyed_hash.h"

#include <pthread.h>
#include <unistd.h>

typedef struct sip {
  uint64_t v0, v1, v2, v3;
} sip;

static uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static void rounds(sip *s, int n) {
  for (; n > 0; n--) {
    s->v0 += s->v1;
    s->v2 += s->v3;
    s->v1 = rotate(s->v1, 13) ^ s->v0;
    s->v3 = rotate(s->v3, 16) ^ s->v2;
    s->v0 = rotate(s->v0, 32) + s->v3;
    s->v2 += s->v1;
    s->v1 = rotate(s->v1, 17) ^ s->v2;
    s->v3 = rotate(s->v3, 21) ^ s->v0;
    s->v2 = rotate(s->v2, 32);
  }
}

static void take(sip *s, uint64_t word) {
  s->v3 ^= word;
  rounds(s, 2);
  s->v0 ^= word;
}

/* Up to 8 bytes as a little-endian number. */
static uint64_t word_of(const uint8_t *bytes, size_t n) {
  uint64_t word = 0;
  for (size_t i = 0; i < n; i++) word |= (uint64_t)bytes[i] << 8 * i;
  return word;
}

void accel__siphash(const uint64_t key[2], const void *bytes, size_t n, uint64_t out[2]) {
  const uint8_t *at = bytes;
  sip s = {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
           key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
  for (size_t left = n; left >= 8; left -= 8, at += 8) take(&s, word_of(at, 8));
  take(&s, word_of(at, n % 8) | (uint64_t)(n & 0xff) << 56);
  s.v2 ^= 0xee;
  rounds(&s, 4);
  out[0] = s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
  s.v1 ^= 0xdd;
  rounds(&s, 4);
  out[1] = s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t process_key[2];
static bool has_key;

static void make_key(void) { has_key = getentropy(process_key, sizeof process_key) == 0; }

bool accel__keyed_hash(const void *bytes, size_t n, uint64_t out[2]) {
  pthread_once(&once, make_key);
  if (has_key) accel__siphash(process_key, bytes, n, out);
  return has_key;
}
