/* serve_media.c - see serve_media.h. */
#include "serve/serve_media.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- base64 ---- */

static int digit_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

const char *serve_data_uri(const char *text) {
  static const char before[] = ";base64";
  const char *comma = strchr(text, ',');
  const bool uri = comma && comma - text >= 12 && !strncasecmp(text, "data:", 5) &&
                   !strncasecmp(comma - (sizeof before - 1), before, sizeof before - 1);
  return uri ? comma + 1 : NULL;
}

size_t serve_base64(const char *text, bool lines, char *to) {
  uint32_t bits = 0, have = 0, digits = 0;
  size_t n = 0;
  for (; *text && *text != '='; ++text) {
    const int digit = digit_of(*text);
    if (lines && (*text == '\n' || *text == '\r')) continue;
    if (digit < 0) return SIZE_MAX;
    bits = bits << 6 | (uint32_t)digit;
    ++digits;
    if ((have += 6) >= 8) {
      have -= 8;
      to[n++] = (char)(bits >> have);
    }
  }
  while (*text == '=' || (lines && (*text == '\n' || *text == '\r'))) ++text;
  return *text || digits % 4 == 1 ? SIZE_MAX : n;
}

/* ---- sizes of pictures, from their headers ---- */

static uint32_t big(const uint8_t *b, int n) {
  uint32_t v = 0;
  for (int i = 0; i < n; ++i) v = v << 8 | b[i];
  return v;
}

static uint32_t little(const uint8_t *b, int n) {
  uint32_t v = 0;
  for (int i = n - 1; i >= 0; --i) v = v << 8 | b[i];
  return v;
}

/* The frame header of a JPEG. */
static uint64_t jpeg_pixels(const uint8_t *b, size_t n) {
  for (size_t at = 2; at + 9 <= n;) {
    if (b[at] != 0xFF) return 0;
    const uint8_t marker = b[at + 1];
    if (marker == 0xFF) {
      ++at;
    } else if (marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 &&
               marker != 0xCC) {
      return (uint64_t)big(b + at + 5, 2) * big(b + at + 7, 2);
    } else if (marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8)) {
      at += 2;
    } else {
      at += 2 + (size_t)big(b + at + 2, 2);
    }
  }
  return 0;
}

static uint64_t webp_pixels(const uint8_t *b, size_t n) {
  if (n < 30) return 0;
  if (!memcmp(b + 12, "VP8X", 4))
    return (uint64_t)(little(b + 24, 3) + 1) * (little(b + 27, 3) + 1);
  if (!memcmp(b + 12, "VP8L", 4)) {
    const uint32_t v = little(b + 21, 4);
    return (uint64_t)((v & 0x3FFF) + 1) * ((v >> 14 & 0x3FFF) + 1);
  }
  if (!memcmp(b + 12, "VP8 ", 4))
    return (uint64_t)(little(b + 26, 2) & 0x3FFF) * (little(b + 28, 2) & 0x3FFF);
  return 0;
}

uint64_t serve_pixels(const uint8_t *b, size_t n) {
  static const uint8_t png[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  if (n >= 24 && !memcmp(b, png, sizeof png)) return (uint64_t)big(b + 16, 4) * big(b + 20, 4);
  if (n >= 12 && !memcmp(b, "RIFF", 4) && !memcmp(b + 8, "WEBP", 4)) return webp_pixels(b, n);
  return n >= 2 && b[0] == 0xFF && b[1] == 0xD8 ? jpeg_pixels(b, n) : 0;
}
