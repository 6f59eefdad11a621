/* checksum.c - 64-bit checksums of streams. */
#include "weights/checksum.h"

#include <string.h>

static uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }

static const uint64_t odd = UINT64_C(0xD6E8FEB86659FD93);

void accel__checksum_begin(accel__checksum *s) {
  *s = (accel__checksum){0};
  for (uint64_t i = 0; i < 8; i++) s->lane[i] = (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
}

static void sum_blocks(uint64_t lane[8], const uint8_t *bytes, uint64_t blocks) {
  uint64_t a[8];
  memcpy(a, lane, sizeof a);
  for (uint64_t b = 0; b < blocks; b++, bytes += 64) {
    uint64_t word[8];
    memcpy(word, bytes, sizeof word);
    for (int i = 0; i < 8; i++) a[i] = rotate((a[i] ^ word[i]) * odd, 29);
  }
  memcpy(lane, a, sizeof a);
}

void accel__checksum_add(accel__checksum *s, const void *bytes, uint64_t n) {
  const uint8_t *at = bytes;
  uint64_t held = s->n % 64;
  s->n += n;
  if (held) {
    uint64_t take = n < 64 - held ? n : 64 - held;
    if (take) memcpy(s->tail + held, at, take);
    if (held + take < 64) return;
    sum_blocks(s->lane, s->tail, 1);
    at += take;
    n -= take;
  }
  sum_blocks(s->lane, at, n / 64);
  if (n % 64) memcpy(s->tail, at + n / 64 * 64, n % 64);
}

uint64_t accel__checksum_end(const accel__checksum *s) {
  accel__checksum end = *s;
  if (s->n % 64) {
    memset(end.tail + s->n % 64, 0, 64 - s->n % 64);
    sum_blocks(end.lane, end.tail, 1);
  }
  uint64_t h = s->n * odd;
  for (int i = 0; i < 8; i++) h = (rotate(h, 23) ^ end.lane[i]) * UINT64_C(0xFF51AFD7ED558CCD);
  return h ^ h >> 32;
}

uint64_t accel__checksum_of(const void *bytes, uint64_t n) {
  accel__checksum s;
  accel__checksum_begin(&s);
  accel__checksum_add(&s, bytes, n);
  return accel__checksum_end(&s);
}
