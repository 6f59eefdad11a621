/* quantised.c - memory of quantised matrices. */
#include "weights/quantised.h"

#include <inttypes.h>
#include <sys/mman.h>

#include "core/file.h"

enum { PART_ALIGN = 64 };

static uint64_t aligned(uint64_t bytes) {
  return (bytes + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
}

accel_status accel__quantised_new(const accel_plugin_format *format, int64_t n, int64_t k,
                                  accel__quantised *out) {
  accel_matrix_bytes bytes;
  *out = (accel__quantised){0};
  if (!accel_format_known(format))
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "no weights are made with store %u, scale %u, zero %u, outer %u",
                       format->store, format->scale, format->zero, format->outer);
  if (!accel_matrix_sizes(format, n, k, &bytes) || bytes.data > INT64_MAX / 2 ||
      bytes.scale > INT64_MAX / 8)
    return accel__fail(ACCEL_ERROR_FORMAT, "a matrix of %" PRId64 " x %" PRId64 " is too large", n,
                       k);
  const uint64_t scale_at = aligned(bytes.data), zero_at = scale_at + aligned(bytes.scale),
                 outer_at = zero_at + aligned(bytes.zero),
                 all = outer_at + aligned(bytes.outer) + PART_ALIGN;
  if (accel__fault("weight_buffer")) return accel__no_memory(all);
  char *block = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return accel__no_memory(all);
  *out = (accel__quantised){.format = *format,
                            .n = n,
                            .k = k,
                            .data = block,
                            .bytes = bytes,
                            .block = block,
                            .block_bytes = all};
  if (accel_format_plain(format)) return ACCEL_OK;
  out->scale = block + scale_at;
  if (format->zero != ACCEL_PLUGIN_NO_DTYPE) out->zero = block + zero_at;
  if (format->outer != ACCEL_PLUGIN_NO_DTYPE) out->outer = block + outer_at;
  return ACCEL_OK;
}

void accel__quantised_free(accel__quantised *q) {
  if (q->block) munmap(q->block, q->block_bytes);
  *q = (accel__quantised){0};
}

void accel__dequantise_rows(const accel__quantised *q, int64_t first, int64_t count, float *out) {
  const accel_matrix m = accel__quantised_matrix(q);
  accel_matrix_rows(&m, first, count, out);
}
