/* ort_proto.c - protocol buffers, written. */
#include "onnxruntime/ort_proto.h"

#include <stdlib.h>
#include <string.h>

enum { VARINT = 0, LENGTH = 2, FIXED32 = 5, LENGTH_BYTES = 5 };

static void put(ort_bytes *b, const void *data, uint64_t n) {
  if (b->failed || !n) return;
  if (n > b->capacity - b->n) {
    const size_t wanted = 2 * (b->n + n) + 4096;
    char *p = realloc(b->data, wanted);
    if (!p) {
      b->failed = true;
      return;
    }
    b->data = p;
    b->capacity = wanted;
  }
  memcpy(b->data + b->n, data, n);
  b->n += n;
}

static void put_varint(ort_bytes *b, uint64_t value) {
  uint8_t byte[10], n = 0;
  for (; value >= 0x80; value >>= 7) byte[n++] = (uint8_t)(value | 0x80);
  byte[n++] = (uint8_t)value;
  put(b, byte, n);
}

static void put_key(ort_bytes *b, uint32_t field, uint32_t wire) {
  put_varint(b, (uint64_t)field << 3 | wire);
}

void ort_put_int(ort_bytes *b, uint32_t field, int64_t value) {
  put_key(b, field, VARINT);
  put_varint(b, (uint64_t)value);
}

void ort_put_float(ort_bytes *b, uint32_t field, float value) {
  put_key(b, field, FIXED32);
  put(b, &value, sizeof value); /* little-endian, as the machines that these plugins run on */
}

void ort_put_data(ort_bytes *b, uint32_t field, const void *data, uint64_t n) {
  put_key(b, field, LENGTH);
  put_varint(b, n);
  put(b, data, n);
}

void ort_put_text(ort_bytes *b, uint32_t field, const char *text) {
  ort_put_data(b, field, text, strlen(text));
}

/* The length is not known yet: it gets as many bytes as any length takes. */
size_t ort_begin(ort_bytes *b, uint32_t field) {
  static const uint8_t room[LENGTH_BYTES] = {0};
  put_key(b, field, LENGTH);
  put(b, room, sizeof room);
  return b->n;
}

void ort_end(ort_bytes *b, size_t begun) {
  if (b->failed) return;
  uint64_t n = b->n - begun;
  uint8_t *length = (uint8_t *)b->data + begun - LENGTH_BYTES;
  for (int i = 0; i < LENGTH_BYTES; i++, n >>= 7)
    length[i] = (uint8_t)((n & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
}
