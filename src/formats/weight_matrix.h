/* weight_matrix.h - a weight as a matrix [n, k] in any format of accel_plugin_format: the sizes of its parts, and its rows back to
 * fp32.
 *
 * data is row-major; a row of four-bit codes begins on a byte and has element 2j in the low nibble of byte j.  Scales and
 * zeros are [ceil(n/group_n)][ceil(k/group_k)], group 0 being the whole axis, zeros one byte each; outer is one number.
 *   w = (q - zero) * scale * outer, each step rounded to fp32, in this order.
 */
#ifndef ACCEL_FORMATS_WEIGHT_MATRIX_H
#define ACCEL_FORMATS_WEIGHT_MATRIX_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "accel/plugin.h"
#include "formats/convert.h"
#include "formats/e2m1.h"
#include "formats/e4m3.h"
#include "formats/e5m2.h"
#include "formats/e8m0.h"
#include "formats/int4.h"

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
  bool coded = f->store == ACCEL_PLUGIN_I8 || f->store == ACCEL_PLUGIN_U8 ||
               f->store == ACCEL_PLUGIN_I4 || f->store == ACCEL_PLUGIN_U4 ||
               f->store == ACCEL_PLUGIN_E4M3 || f->store == ACCEL_PLUGIN_E5M2 ||
               f->store == ACCEL_PLUGIN_E2M1;
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
  switch (dtype) {
    case ACCEL_PLUGIN_F64:
    case ACCEL_PLUGIN_I64:
      return 64;
    case ACCEL_PLUGIN_F32:
    case ACCEL_PLUGIN_I32:
      return 32;
    case ACCEL_PLUGIN_F16:
    case ACCEL_PLUGIN_BF16:
      return 16;
    case ACCEL_PLUGIN_I4:
    case ACCEL_PLUGIN_U4:
    case ACCEL_PLUGIN_E2M1:
      return 4;
    case ACCEL_PLUGIN_NO_DTYPE:
      return 0;
  }
  return 8;
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

/* Value of code 0..15 of a four-bit store. */
static inline float accel_code4_to_f32(uint8_t store, uint8_t code) {
  return store == ACCEL_PLUGIN_I4   ? accel_int4_to_f32(code)
         : store == ACCEL_PLUGIN_U4 ? accel_uint4_to_f32(code)
                                    : accel_e2m1_to_f32(code);
}

/* Elements [first, first+count) of one row that share a scale: sixteen products, then look-ups. */
static inline void accel__decode_codes4(uint8_t store, const uint8_t *row, int64_t first,
                                        int64_t count, float zero, float scale, float outer,
                                        float *out) {
  float value[16];
  for (int c = 0; c < 16; c++)
    value[c] = (accel_code4_to_f32(store, (uint8_t)c) - zero) * scale * outer;
  int64_t i = 0;
  if (first % 2 && count) out[i++] = value[row[first / 2] >> 4];
  for (const uint8_t *pair = row + (first + i) / 2; i + 1 < count; i += 2, pair++) {
    out[i] = value[*pair & 15];
    out[i + 1] = value[*pair >> 4];
  }
  if (i < count) out[i] = value[row[(first + i) / 2] & 15];
}

/* All codes of the eight-bit floats; as constants, so that a look-up is all a code costs. */
#define ACCEL__FOUR(f, c) f(c), f((c) + 1), f((c) + 2), f((c) + 3)
#define ACCEL__16(f, c) \
  ACCEL__FOUR(f, c), ACCEL__FOUR(f, (c) + 4), ACCEL__FOUR(f, (c) + 8), ACCEL__FOUR(f, (c) + 12)
#define ACCEL__64(f, c) \
  ACCEL__16(f, c), ACCEL__16(f, (c) + 16), ACCEL__16(f, (c) + 32), ACCEL__16(f, (c) + 48)
#define ACCEL__256(f)  ACCEL__64(f, 0), ACCEL__64(f, 64), ACCEL__64(f, 128), ACCEL__64(f, 192)
#define ACCEL__SIGN(c) ((c)&0x80 ? -1.0f : 1.0f)
/* (8 + m) * 2^(e - 10), below the normal numbers m * 2^-9 */
#define ACCEL__E4M3(c)                                                           \
  (((c)&0x7f) == 0x7f ? __builtin_nanf("")                                       \
                      : ACCEL__SIGN(c) * (float)(((c)&7) + ((c)&0x78 ? 8 : 0)) * \
                            (float)(1u << ((c)&0x78 ? (c) >> 3 & 15 : 1)) / 1024.0f)
/* (4 + m) * 2^(e - 17), below the normal numbers m * 2^-16 */
#define ACCEL__E5M2(c)                                                             \
  (((c)&0x7f) > 0x7c    ? __builtin_nanf("")                                       \
   : ((c)&0x7f) == 0x7c ? ACCEL__SIGN(c) * __builtin_inff()                        \
                        : ACCEL__SIGN(c) * (float)(((c)&3) + ((c)&0x7c ? 4 : 0)) * \
                              (float)(1u << ((c)&0x7c ? (c) >> 2 & 31 : 1)) / 131072.0f)
static const float accel__e4m3_values[256] = {ACCEL__256(ACCEL__E4M3)};
static const float accel__e5m2_values[256] = {ACCEL__256(ACCEL__E5M2)};

static inline void accel__decode_codes8(uint8_t store, const uint8_t *codes, int64_t count,
                                        float zero, float scale, float outer, float *out) {
#define ACCEL__DECODE(value) \
  for (int64_t i = 0; i < count; i++) out[i] = ((value)-zero) * scale * outer
  switch (store) {
    case ACCEL_PLUGIN_I8:
      ACCEL__DECODE((float)(int8_t)codes[i]);
      break;
    case ACCEL_PLUGIN_U8:
      ACCEL__DECODE((float)codes[i]);
      break;
    case ACCEL_PLUGIN_E4M3:
      ACCEL__DECODE(accel__e4m3_values[codes[i]]);
      break;
    case ACCEL_PLUGIN_E5M2:
      ACCEL__DECODE(accel__e5m2_values[codes[i]]);
      break;
  }
#undef ACCEL__DECODE
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
        accel__decode_codes8(f->store, row + at, elements, zero, scale, outer, out + at);
    }
  }
}

#endif
