/* randn.c - torch's normal numbers: MT19937 and Box-Muller. */
#include "diffusion/randn.h"

#include <math.h>

static const double two_pi = 6.283185307179586476925286766559;

void accel__generator_seed(accel__generator *g, uint64_t seed) {
  g->word[0] = (uint32_t)seed;
  for (uint32_t i = 1; i < ACCEL__MT_WORDS; i++)
    g->word[i] = 1812433253u * (g->word[i - 1] ^ g->word[i - 1] >> 30) + i;
  g->next = ACCEL__MT_WORDS;
  g->has_spare = false;
}

static void refill(accel__generator *g) {
  enum { AHEAD = 397 };
  for (uint32_t i = 0; i < ACCEL__MT_WORDS; i++) {
    const uint32_t y =
        (g->word[i] & 0x80000000u) | (g->word[(i + 1) % ACCEL__MT_WORDS] & 0x7fffffffu);
    g->word[i] = g->word[(i + AHEAD) % ACCEL__MT_WORDS] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
  }
  g->next = 0;
}

static uint32_t draw(accel__generator *g) {
  if (g->next == ACCEL__MT_WORDS) refill(g);
  uint32_t y = g->word[g->next++];
  y ^= y >> 11;
  y ^= y << 7 & 0x9d2c5680u;
  y ^= y << 15 & 0xefc60000u;
  return y ^ y >> 18;
}

static float uniform(accel__generator *g) { return (float)(draw(g) & 0xffffffu) * 0x1p-24f; }

static double uniform_double(accel__generator *g) {
  const uint64_t high = draw(g), low = draw(g);
  return (double)((high << 32 | low) & ((1ull << 53) - 1)) * 0x1p-53;
}

/* 16 uniform numbers to as many normal ones: pairs are 8 apart. */
static void normal_16(float *x) {
  for (int j = 0; j < 8; j++) {
    const float radius = sqrtf(-2.0f * logf(1.0f - x[j])), angle = (float)two_pi * x[j + 8];
    x[j] = radius * cosf(angle);
    x[j + 8] = radius * sinf(angle);
  }
}

static float normal_one(accel__generator *g) {
  if (g->has_spare) {
    g->has_spare = false;
    return (float)g->spare;
  }
  const double angle = two_pi * uniform_double(g), radius = sqrt(-2.0 * log1p(-uniform_double(g)));
  g->spare = radius * sin(angle);
  g->has_spare = true;
  return (float)(radius * cos(angle));
}

void accel__randn_strided(accel__generator *g, float *out, uint64_t n) {
  for (uint64_t i = 0; i < n; i++) out[i] = normal_one(g);
}

void accel__randn(accel__generator *g, float *out, uint64_t n) {
  if (n < 16) {
    accel__randn_strided(g, out, n);
    return;
  }
  for (uint64_t i = 0; i < n; i++) out[i] = uniform(g);
  for (uint64_t i = 0; i + 16 <= n; i += 16) normal_16(out + i);
  if (n % 16 == 0) return;
  for (uint64_t i = n - 16; i < n; i++) out[i] = uniform(g); /* the last 16 anew */
  normal_16(out + n - 16);
}

float accel__exponential(accel__generator *g) { return (float)-log1p(-uniform_double(g)); }

void accel__exponential_skip(accel__generator *g) {
  draw(g);
  draw(g);
}
