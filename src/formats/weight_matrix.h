/* weight_matrix.h - a weight as a matrix [n, k] in any format of accel_plugin_format: the sizes of
 * its parts, and its rows back to fp32.
 *
 * data is row-major; a row of four-bit codes begins on a byte and has element 2j in the low nibble
 * of byte j.  Scales and zeros are [ceil(n/group_n)][ceil(k/group_k)], group 0 being the whole
 * axis, zeros one byte each; outer is one number.
 *   w = (q - zero) * scale * outer, each step rounded to fp32, in this order.
 */
#ifndef ACCEL_FORMATS_WEIGHT_MATRIX_H
#define ACCEL_FORMATS_WEIGHT_MATRIX_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "accel/plugin.h"
#include "formats/convert.h"
#include "formats/e8m0.h"
#include "formats/format_table.h"
#define ACCEL_FORMAT_CODECS
#include "formats/formats.def"

/* Of the parts, what the format does not have is NULL.  No alignment is asked for. */
typedef struct accel_matrix {
  accel_plugin_format format;
  int64_t n, k;
  const void *data, *scale, *zero, *outer;
} accel_matrix;

/* The matrix that a weight is: convolutions [O, the rest], others [all but the last dim, the last],
 * vectors [1, k].  The product of the dims must not overflow. */
static inline void accel_matrix_shape(uint32_t use, uint32_t rank, const int64_t *dim, int64_t *n,
                                      int64_t *k) {
  int64_t elements = 1;
  for (uint32_t i = 0; i < rank; i++) elements *= dim[i];
  if (rank < 2)
    *n = 1;
  else if (use == ACCEL_PLUGIN_USE_CONV)
    *n = dim[0];
  else
    *n = dim[rank - 1] ? elements / dim[rank - 1] : 0;
  *k = *n ? elements / *n : 0;
}

/* F32, F16 or BF16 as they are: no scales. */
static inline bool accel_format_plain(const accel_plugin_format *f) {
  return f->store <= ACCEL_PLUGIN_BF16;
}

/* Can accel_matrix_rows read it? */
static inline bool accel_format_known(const accel_plugin_format *f) {
  bool coded = accel_format_facts_of(f->store)->weights;
  bool scale = f->scale <= ACCEL_PLUGIN_BF16 || f->scale == ACCEL_PLUGIN_E8M0 ||
               f->scale == ACCEL_PLUGIN_E4M3;
  bool zero =
      f->zero == ACCEL_PLUGIN_NO_DTYPE || f->zero == ACCEL_PLUGIN_U8 || f->zero == ACCEL_PLUGIN_I8;
  bool outer = f->outer == ACCEL_PLUGIN_NO_DTYPE || f->outer == ACCEL_PLUGIN_F32;
  return accel_format_plain(f) || (coded && scale && zero && outer);
}

static inline bool accel_format_equal(const accel_plugin_format *a, const accel_plugin_format *b) {
  return a->store == b->store && a->scale == b->scale && a->zero == b->zero &&
         a->outer == b->outer && a->group_k == b->group_k && a->group_n == b->group_n;
}

/* Bits of one element of a dtype that a format may name; 0 for NO_DTYPE. */
static inline uint32_t accel_format_bits(uint8_t dtype) {
  return accel_format_facts_of(dtype)->bits;
}

static inline int64_t accel_groups(int64_t elements, uint32_t group) {
  return group ? elements / group + (elements % group != 0) : elements > 0;
}
static inline uint64_t accel_row_bytes(uint8_t store, int64_t k) {
  const uint64_t bits = accel_format_bits(store);
  return bits < 8 ? ((uint64_t)k * bits + 7) / 8 : (uint64_t)k * (bits / 8);
}

/* Bytes of the parts; false when a size does not fit 63 bits or n or k is negative. */
typedef struct accel_matrix_bytes {
  uint64_t data, scale, zero, outer;
} accel_matrix_bytes;
static inline bool accel_matrix_sizes(const accel_plugin_format *f, int64_t n, int64_t k,
                                      accel_matrix_bytes *out) {
  uint64_t scales = 0;
  memset(out, 0, sizeof *out);
  if (n < 0 || k < 0 || k > INT64_MAX / 8 ||
      __builtin_mul_overflow((uint64_t)n, accel_row_bytes(f->store, k), &out->data) ||
      out->data > INT64_MAX)
    return false;
  if (accel_format_plain(f)) return true;
  const bool fits = !__builtin_mul_overflow((uint64_t)accel_groups(n, f->group_n),
                                            (uint64_t)accel_groups(k, f->group_k), &scales);
  if (!fits || scales > INT64_MAX / 8) return false;
  out->scale = scales * accel_format_bits(f->scale) / 8;
  out->zero = scales * accel_format_bits(f->zero) / 8;
  out->outer = accel_format_bits(f->outer) / 8;
  return true;
}

/* Element i of an array of scales, zeros or one outer scale. */
static inline float accel_scale_at(uint8_t dtype, const void *data, int64_t i) {
  float value;
  uint16_t half;
  switch (dtype) {
    case ACCEL_PLUGIN_F32:
      memcpy(&value, (const char *)data + i * 4, 4);
      return value;
    case ACCEL_PLUGIN_F16:
    case ACCEL_PLUGIN_BF16:
      memcpy(&half, (const char *)data + i * 2, 2);
      return dtype == ACCEL_PLUGIN_F16 ? accel_fp16_to_f32(half) : accel_bf16_to_f32(half);
    case ACCEL_PLUGIN_I8:
      return (float)((const int8_t *)data)[i];
    case ACCEL_PLUGIN_U8:
      return (float)((const uint8_t *)data)[i];
    case ACCEL_PLUGIN_E4M3:
      return accel_e4m3_to_f32(((const uint8_t *)data)[i]);
    case ACCEL_PLUGIN_E8M0:
      return accel_e8m0_to_f32(((const uint8_t *)data)[i]);
  }
  return 0;
}

/* Codes of one store, one byte each (of four bits 0..15), that share a scale. */
static inline void accel_decode_codes(uint8_t store, const uint8_t *codes, int64_t count,
                                      float zero, float scale, float outer, float *out) {
  switch (store) {
#define ACCEL_CODED(name, bits, file, precision, type, zeros, outers, group, largest, codec, cpu, \
                    gpu)                                                                          \
  case ACCEL_PLUGIN_##name:                                                                       \
    for (int64_t i = 0; i < count; i++)                                                           \
      out[i] = (accel_##codec##_to_f32(codes[i]) - zero) * scale * outer;                         \
    break;
#include "formats/formats.def"
  }
}

/* codes[i], one byte each = the nearest code of x[i] * inverse. */
static inline void accel_encode_codes(uint8_t store, const float *x, int64_t count, float inverse,
                                      uint8_t *codes) {
  switch (store) {
#define ACCEL_CODED(name, bits, file, precision, type, zeros, outers, group, largest, codec, cpu, \
                    gpu)                                                                          \
  case ACCEL_PLUGIN_##name:                                                                       \
    for (int64_t i = 0; i < count; i++) codes[i] = accel_f32_to_##codec(x[i] * inverse);          \
    break;
#include "formats/formats.def"
  }
}

/* Elements [first, first+count) of one row that share a scale: sixteen products, then look-ups. */
static inline void accel__decode_codes4(uint8_t store, const uint8_t *row, int64_t first,
                                        int64_t count, float zero, float scale, float outer,
                                        float *out) {
  static const uint8_t all[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  float value[16];
  accel_decode_codes(store, all, 16, zero, scale, outer, value);
  int64_t i = 0;
  if (first % 2 && count) out[i++] = value[row[first / 2] >> 4];
  for (const uint8_t *pair = row + (first + i) / 2; i + 1 < count; i += 2, pair++) {
    out[i] = value[*pair & 15];
    out[i + 1] = value[*pair >> 4];
  }
  if (i < count) out[i] = value[row[(first + i) / 2] & 15];
}

static inline void accel__decode_plain(uint8_t store, const unsigned char *from, int64_t count,
                                       float *out) {
  if (store == ACCEL_PLUGIN_F32)
    memcpy(out, from, (size_t)count * 4);
  else if (store == ACCEL_PLUGIN_F16)
    accel_fp16_array_to_f32(from, (size_t)count, out);
  else
    accel_bf16_array_to_f32(from, (size_t)count, out);
}

/* Rows [first, first+count) as fp32 [count, k]; the format must be known, the rows within n, the
 * parts there. */
static inline void accel_matrix_rows(const accel_matrix *m, int64_t first, int64_t count,
                                     float *out) {
  const accel_plugin_format *f = &m->format;
  const uint64_t row_bytes = accel_row_bytes(f->store, m->k);
  const unsigned char *row = (const unsigned char *)m->data + (uint64_t)first * row_bytes;
  if (count <= 0 || m->k <= 0) return;
  if (accel_format_plain(f)) {
    accel__decode_plain(f->store, row, count * m->k, out);
    return;
  }
  const bool nibbles = accel_format_bits(f->store) == 4;
  const int64_t per_row = accel_groups(m->k, f->group_k),
                size = f->group_k && f->group_k < m->k ? f->group_k : m->k;
  const float outer =
      f->outer == ACCEL_PLUGIN_NO_DTYPE ? 1.0f : accel_scale_at(f->outer, m->outer, 0);
  for (int64_t r = first; r < first + count; r++, row += row_bytes, out += m->k) {
    int64_t group = f->group_n ? r / f->group_n * per_row : 0;
    for (int64_t at = 0; at < m->k; at += size, group++) {
      const int64_t elements = m->k - at < size ? m->k - at : size;
      const float scale = accel_scale_at(f->scale, m->scale, group),
                  zero = f->zero == ACCEL_PLUGIN_NO_DTYPE ? 0.0f
                                                          : accel_scale_at(f->zero, m->zero, group);
      if (nibbles)
        accel__decode_codes4(f->store, row, at, elements, zero, scale, outer, out + at);
      else
        accel_decode_codes(f->store, row + at, elements, zero, scale, outer, out + at);
    }
  }
}

#endif
