/* safetensors.h - the header of one safetensors file, read strictly (private to src/weights and its
 * fuzz target).
 *
 * Held, as the format demands: the header's length fits the file and 100 MB; the header is UTF-8
 * JSON, an object of tensors; no name twice; each tensor has dtype, shape and data_offsets; shape
 * times dtype is exactly the bytes between the offsets; sorted by offset the tensors cover the data
 * from its first to its last byte with neither gap nor overlap.  Rank 0 and zero-sized dims are
 * valid.  Our own limits: rank 8, 1,000,000 tensors, nesting 32, no NUL in names.  Fields of a
 * tensor that the format does not name are skipped.
 */
#ifndef ACCEL_WEIGHTS_SAFETENSORS_H
#define ACCEL_WEIGHTS_SAFETENSORS_H

#include "core/arena.h"
#include "weights/weights.h"

enum {
  ACCEL__SAFETENSORS_MAX_HEADER = 100000000, /* bytes; the official reader's limit */
  ACCEL__SAFETENSORS_MAX_TENSORS = 1000000,
  ACCEL__SAFETENSORS_MAX_DEPTH = 32,
  ACCEL__SAFETENSORS_MAX_RANK = 8
};

typedef struct accel__safetensors {
  accel__tensor_info *tensor; /* [n] in the order of their data; arena memory */
  uint32_t n;
  const char **metadata; /* [2 * n_metadata]: key, value, key, value ...; arena memory */
  uint32_t n_metadata;
  uint64_t data_start; /* byte of the file at which the data begins */
} accel__safetensors;

/* Reads a header.  bytes[n]: the file from its first byte on, at least to the header's end, of
 * file_bytes in all.  Tensors get their `offset`; names and metadata go to the arena.
 * path: for messages only.  ACCEL_ERROR_FORMAT names file, tensor and field. */
accel_status accel__safetensors_parse_header(const uint8_t *bytes, uint64_t n, uint64_t file_bytes,
                                             const char *path, accel__arena *arena,
                                             accel__safetensors *out);
/* Reads the first 8 bytes of a file of file_bytes: the length of the JSON behind them. */
accel_status accel__safetensors_header_length(const uint8_t bytes[8], uint64_t file_bytes,
                                              const char *path, uint64_t *length);

/* "F32" -> dtype; false for a name the format does not know. */
bool accel__dtype_from_name(const char *name, accel_plugin_dtype *out);

#endif
