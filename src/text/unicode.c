/* unicode.c - decomposition, composition and lower case over the generated tables. */
#include "text/unicode.h"

/* Hangul syllables are computed (The Unicode Standard, section 3.12). */
enum {
  HANGUL = 0xAC00,
  L_BASE = 0x1100,
  V_BASE = 0x1161,
  T_BASE = 0x11A7,
  L_COUNT = 19,
  V_COUNT = 21,
  T_COUNT = 28
};
enum { HANGUL_COUNT = L_COUNT * V_COUNT * T_COUNT };

static size_t decompose_hangul(uint32_t c, uint32_t *out) {
  uint32_t s = c - HANGUL;
  out[0] = L_BASE + s / (V_COUNT * T_COUNT);
  out[1] = V_BASE + s % (V_COUNT * T_COUNT) / T_COUNT;
  out[2] = T_BASE + s % T_COUNT;
  return out[2] == T_BASE ? 2 : 3;
}

size_t accel__unicode_decompose(uint32_t c, bool compatible,
                                uint32_t out[ACCEL__UNICODE_DECOMPOSED_MAX]) {
  if (c - HANGUL < HANGUL_COUNT) return decompose_hangul(c, out);
  out[0] = c;
  if (!accel__unicode_is(c, ACCEL__UNI_DECOMPOSES)) return 1;
  size_t low = 0, high = accel__unicode_decomposition_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (accel__unicode_decompositions[middle].code_point < c)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == accel__unicode_decomposition_count ||
      accel__unicode_decompositions[low].code_point != c)
    return 1;
  const accel__unicode_decomposition *d = &accel__unicode_decompositions[low];
  const uint32_t *parts = accel__unicode_decomposed + (compatible ? d->compatible : d->canonical);
  size_t n = parts[0];
  if (n == 0 || n > ACCEL__UNICODE_DECOMPOSED_MAX) return 1; /* place 0 holds 0: no such form */
  for (size_t i = 0; i < n; ++i) out[i] = parts[1 + i];
  return n;
}

static uint32_t compose_hangul(uint32_t a, uint32_t b) {
  if (a - L_BASE < L_COUNT && b - V_BASE < V_COUNT)
    return HANGUL + ((a - L_BASE) * V_COUNT + (b - V_BASE)) * T_COUNT;
  if (a - HANGUL < HANGUL_COUNT && (a - HANGUL) % T_COUNT == 0 && b - T_BASE - 1 < T_COUNT - 1)
    return a + (b - T_BASE);
  return 0;
}

uint32_t accel__unicode_compose(uint32_t first, uint32_t second) {
  uint32_t syllable = compose_hangul(first, second);
  if (syllable || !accel__unicode_is(second, ACCEL__UNI_COMPOSES)) return syllable;
  size_t low = 0, high = accel__unicode_composition_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    const accel__unicode_composition *m = &accel__unicode_compositions[middle];
    if (m->first < first || (m->first == first && m->second < second))
      low = middle + 1;
    else
      high = middle;
  }
  const accel__unicode_composition *m = &accel__unicode_compositions[low];
  return low < accel__unicode_composition_count && m->first == first && m->second == second
             ? m->composed
             : 0;
}

size_t accel__unicode_lower(uint32_t c, uint32_t out[2]) {
  if (c == 0x130) { /* I with dot above */
    out[0] = 'i';
    out[1] = 0x307;
    return 2;
  }
  out[0] = c + (uint32_t)accel__unicode(c)->lower;
  return 1;
}
