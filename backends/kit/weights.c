/* weights.c - the sizes of weight formats, and any of them back to fp32. */
#include <string.h>

#include "formats/bf16.h"
#include "formats/e2m1.h"
#include "formats/e4m3.h"
#include "formats/e5m2.h"
#include "formats/e8m0.h"
#include "formats/fp16.h"
#include "formats/int4.h"
#include "kit/kit.h"

void kit_weight_matrix(const accel_plugin_weight *w, int64_t *n, int64_t *k) {
  int64_t elements = kit_weight_elements(w);
  if (w->rank < 2)
    *n = 1;
  else if (w->use == ACCEL_PLUGIN_USE_CONV)
    *n = w->dim[0];
  else
    *n = w->dim[w->rank - 1] ? elements / w->dim[w->rank - 1] : 0;
  *k = *n ? elements / *n : 0;
}

static uint32_t bits(uint8_t dtype) {
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

static int64_t groups(int64_t n, uint32_t group) { return group ? (n + group - 1) / group : n > 0; }

uint64_t kit_format_bytes(const accel_plugin_weight *weight, const accel_plugin_format *f) {
  int64_t n, k;
  kit_weight_matrix(weight, &n, &k);
  uint64_t row = ((uint64_t)k * bits(f->store) + 7) / 8; /* rows of four-bit elements begin on a byte */
  if (f->store <= ACCEL_PLUGIN_BF16) return row * (uint64_t)n;
  uint64_t scales = (uint64_t)groups(n, f->group_n) * (uint64_t)groups(k, f->group_k);
  return row * (uint64_t)n + scales * (bits(f->scale) + bits(f->zero)) / 8 + bits(f->outer) / 8;
}

/* Element i of an array of scales, zeros or one outer scale. */
static float element(uint8_t dtype, const void *data, int64_t i) {
  float value;
  switch (dtype) {
    case ACCEL_PLUGIN_F32:
      memcpy(&value, (const char *)data + i * 4, 4);
      return value;
    case ACCEL_PLUGIN_F16:
    case ACCEL_PLUGIN_BF16: {
      uint16_t half;
      memcpy(&half, (const char *)data + i * 2, 2);
      return dtype == ACCEL_PLUGIN_F16 ? accel_fp16_to_f32(half) : accel_bf16_to_f32(half);
    }
    case ACCEL_PLUGIN_I8:
      return (float)((const int8_t *)data)[i];
    case ACCEL_PLUGIN_U8:
      return (float)((const uint8_t *)data)[i];
    case ACCEL_PLUGIN_I4:
      return accel_int4_to_f32(accel_nibble(data, (size_t)i));
    case ACCEL_PLUGIN_U4:
      return accel_uint4_to_f32(accel_nibble(data, (size_t)i));
    case ACCEL_PLUGIN_E4M3:
      return accel_e4m3_to_f32(((const uint8_t *)data)[i]);
    case ACCEL_PLUGIN_E5M2:
      return accel_e5m2_to_f32(((const uint8_t *)data)[i]);
    case ACCEL_PLUGIN_E2M1:
      return accel_e2m1_to_f32(accel_nibble(data, (size_t)i));
    case ACCEL_PLUGIN_E8M0:
      return accel_e8m0_to_f32(((const uint8_t *)data)[i]);
  }
  return 0;
}

bool kit_format_known(const accel_plugin_format *f) {
  bool plain = f->store == ACCEL_PLUGIN_F32 || f->store == ACCEL_PLUGIN_F16 || f->store == ACCEL_PLUGIN_BF16;
  bool coded = f->store == ACCEL_PLUGIN_I8 || f->store == ACCEL_PLUGIN_U8 || f->store == ACCEL_PLUGIN_I4 ||
               f->store == ACCEL_PLUGIN_U4 || f->store == ACCEL_PLUGIN_E4M3 || f->store == ACCEL_PLUGIN_E5M2 ||
               f->store == ACCEL_PLUGIN_E2M1;
  bool scale = f->scale <= ACCEL_PLUGIN_BF16 || f->scale == ACCEL_PLUGIN_E8M0 || f->scale == ACCEL_PLUGIN_E4M3;
  bool zero = f->zero == ACCEL_PLUGIN_NO_DTYPE || f->zero == ACCEL_PLUGIN_U8 || f->zero == ACCEL_PLUGIN_I8;
  bool outer = f->outer == ACCEL_PLUGIN_NO_DTYPE || f->outer == ACCEL_PLUGIN_F32;
  return plain || (coded && scale && zero && outer);
}

int32_t kit_weight_rows(const accel_plugin_weight *weight, const accel_plugin_format *f,
                        const accel_plugin_weight_view *view, int64_t first, int64_t count, float *out,
                        accel_plugin_error *error) {
  int64_t n, k;
  kit_weight_matrix(weight, &n, &k);
  if (!kit_format_known(f))
    return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1,
                    "weight '%s': store %u with scale %u, zero %u, outer %u is unknown to this plugin", weight->name,
                    f->store, f->scale, f->zero, f->outer);
  bool plain = f->store <= ACCEL_PLUGIN_BF16;
  if (first < 0 || count < 0 || first + count > n || !view->data || (!plain && !view->scale) ||
      (!plain && f->zero != ACCEL_PLUGIN_NO_DTYPE && !view->zero) ||
      (!plain && f->outer != ACCEL_PLUGIN_NO_DTYPE && !view->outer))
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1,
                    "weight '%s': rows %lld + %lld of %lld, or parts of its format are missing", weight->name,
                    (long long)first, (long long)count, (long long)n);
  if (f->store == ACCEL_PLUGIN_F32) {
    memcpy(out, (const char *)view->data + first * k * 4, (size_t)(count * k) * 4);
    return ACCEL_PLUGIN_OK;
  }
  int64_t per_row = groups(k, f->group_k), row_bytes = (k * (int64_t)bits(f->store) + 7) / 8;
  float outer = !plain && f->outer != ACCEL_PLUGIN_NO_DTYPE ? element(f->outer, view->outer, 0) : 1.0f;
  for (int64_t r = 0; r < count; r++) {
    const char *row = (const char *)view->data + (first + r) * row_bytes;
    int64_t scale_row = f->group_n ? (first + r) / f->group_n * per_row : 0;
    for (int64_t i = 0; i < k; i++) {
      float q = element(f->store, row, i);
      if (!plain) {
        int64_t g = scale_row + (f->group_k ? i / f->group_k : 0);
        float zero = f->zero == ACCEL_PLUGIN_NO_DTYPE ? 0.0f : element(f->zero, view->zero, g);
        q = (q - zero) * element(f->scale, view->scale, g) * outer;
      }
      out[r * k + i] = q;
    }
  }
  return ACCEL_PLUGIN_OK;
}
