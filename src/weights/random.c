/* random.c - the counter-based generator behind random weights: splitmix64's finaliser over (key of
 * seed and name) + index.
 */
#include "weights/random.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "core/text.h"

static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* "encoder.layer.0.output.LayerNorm.weight", "ln_1.weight", "norm.gamma" */
static bool is_norm_scale(const char *name) {
  const char *last = strrchr(name, '.');
  if (!last || (strcmp(last, ".weight") != 0 && strcmp(last, ".gamma") != 0)) return false;
  const char *owner = last;
  while (owner > name && owner[-1] != '.') owner--;
  for (const char *at = owner; at + 4 <= last; at++) {
    if (strncasecmp(at, "norm", 4) == 0) return true;
  }
  return last - owner >= 2 && strncmp(owner, "ln", 2) == 0;
}

void accel__random_weight(uint64_t seed, const char *name, uint32_t rank, uint64_t first,
                          uint64_t count, float *out) {
  const uint64_t key = accel__hash(name, strlen(name), seed);
  const float scale = rank >= 2 ? 0.034641016f /* sqrt(3) * 0.02 */ : 0.02f;
  const float centre = rank < 2 && is_norm_scale(name) ? 1.0f : 0.0f;
  for (uint64_t i = 0; i < count; i++) {
    uint32_t bits = (uint32_t)(mix(key + (first + i) * 0x9e3779b97f4a7c15u) >> 40); /* 24 bits */
    out[i] = centre + scale * ((float)bits * 0x1p-23f - 1.0f);
  }
}
