/* safetensors_fuzz.c - the safetensors reader on arbitrary bytes: what it accepts can be read to
 * the last byte. */
#include <stdlib.h>
#include <string.h>

#include "weights/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Tensors lie in the file, in order, and tile its data. */
static const uint8_t *read_all(const accel__tensor_info *t, const uint8_t *file,
                               const uint8_t *at) {
  const uint64_t bits = accel__dtype_bits(t->dtype);
  float chunk[64];
  if (file + t->offset != at || !t->name) abort();
  for (uint64_t first = 0; first < t->elements && first < 4096; first += 64) {
    uint64_t count = t->elements - first < 64 ? t->elements - first : 64;
    accel_status status = accel__elements_to_f32(t->dtype, at + first * bits / 8, count, chunk);
    if (status != ACCEL_OK && status != ACCEL_ERROR_UNSUPPORTED) abort();
  }
  return at + t->bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  accel__arena arena = {0};
  accel__safetensors file;
  accel_status status = accel__safetensors_parse_header(data, size, size, "fuzz", &arena, &file);
  if (status == ACCEL_OK) {
    const uint8_t *at = data + file.data_start;
    for (uint32_t i = 0; i < file.n; i++) at = read_all(&file.tensor[i], data, at);
    if (at != data + size) abort();
    for (uint32_t i = 0; i < 2 * file.n_metadata; i++) (void)strlen(file.metadata[i]);
  } else if (!*accel__message()) {
    abort();
  }
  accel__arena_free(&arena);
  return 0;
}
