/* openai_text.c - growing texts, JSON strings, base64. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/openai.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static bool reserve(openai_text *t, size_t more) {
  if (t->failed) return false;
  if (t->n + more + 1 <= t->capacity) return true;
  size_t capacity = t->capacity ? t->capacity : 256;
  while (capacity < t->n + more + 1) capacity *= 2;
  char *data = realloc(t->data, capacity);
  t->failed = !data;
  if (!data) return false;
  t->data = data;
  t->capacity = capacity;
  return true;
}

void openai_add(openai_text *t, const char *bytes, size_t n) {
  if (!reserve(t, n)) return;
  if (n) memcpy(t->data + t->n, bytes, n);
  t->n += n;
  t->data[t->n] = 0;
}

void openai_add_text(openai_text *t, const char *text) { openai_add(t, text, strlen(text)); }

void openai_addf(openai_text *t, const char *format, ...) {
  char few[128];
  va_list args;
  va_start(args, format);
  const int n = vsnprintf(few, sizeof few, format, args);
  va_end(args);
  if (n < 0) {
    t->failed = true;
  } else if ((size_t)n < sizeof few) {
    openai_add(t, few, (size_t)n);
  } else if (reserve(t, (size_t)n)) {
    va_start(args, format);
    vsnprintf(t->data + t->n, (size_t)n + 1, format, args);
    va_end(args);
    t->n += (size_t)n;
  }
}

void openai_add_string(openai_text *t, const char *text) {
  openai_add(t, "\"", 1);
  for (const char *from = text;; from = text + 1) {
    text = from;
    while ((unsigned char)*text >= ' ' && *text != '"' && *text != '\\') text++;
    openai_add(t, from, (size_t)(text - from));
    if (!*text) break;
    if (*text == '"' || *text == '\\')
      openai_addf(t, "\\%c", *text);
    else
      openai_addf(t, "\\u%04x", (unsigned char)*text);
  }
  openai_add(t, "\"", 1);
}

void openai_add_base64(openai_text *t, const void *bytes, size_t n) {
  const unsigned char *in = bytes;
  if (!reserve(t, (n + 2) / 3 * 4)) return;
  char *out = t->data + t->n;
  for (size_t i = 0; i < n; i += 3) {
    const size_t left = n - i;
    const uint32_t group = (uint32_t)in[i] << 16 | (left > 1 ? (uint32_t)in[i + 1] << 8 : 0) |
                           (left > 2 ? in[i + 2] : 0);
    *out++ = letters[group >> 18];
    *out++ = letters[group >> 12 & 63];
    *out++ = left > 1 ? letters[group >> 6 & 63] : '=';
    *out++ = left > 2 ? letters[group & 63] : '=';
  }
  *out = 0;
  t->n = (size_t)(out - t->data);
}

void openai_text_free(openai_text *t) {
  free(t->data);
  *t = (openai_text){0};
}
