/* dtype.c - the element types of safetensors: names, sizes, and reading them as fp32. */
#include <inttypes.h>
#include <string.h>

#include "formats/convert.h"
#include "weights/safetensors.h"

typedef struct stored_type {
  int dtype;
  const char *name;
  uint32_t bits;
  bool in_files; /* a dtype name of the file format */
} stored_type;

static const stored_type types[] = {
    {ACCEL_PLUGIN_F32, "F32", 32, true},
    {ACCEL_PLUGIN_F16, "F16", 16, true},
    {ACCEL_PLUGIN_BF16, "BF16", 16, true},
    {ACCEL_PLUGIN_I64, "I64", 64, true},
    {ACCEL_PLUGIN_I32, "I32", 32, true},
    {ACCEL_PLUGIN_I8, "I8", 8, true},
    {ACCEL_PLUGIN_U8, "U8", 8, true},
    {ACCEL_PLUGIN_F64, "F64", 64, true},
    {ACCEL_PLUGIN_BOOL, "BOOL", 8, true},
    {ACCEL_PLUGIN_E4M3, "F8_E4M3", 8, true},
    {ACCEL_PLUGIN_E5M2, "F8_E5M2", 8, true},
    {ACCEL_PLUGIN_E8M0, "F8_E8M0", 8, true},
    {ACCEL_PLUGIN_E2M1, "F4", 4, true},
    {ACCEL_PLUGIN_I4, "I4", 4, false},
    {ACCEL_PLUGIN_U4, "U4", 4, false},
    {ACCEL__STORED_I16, "I16", 16, true},
    {ACCEL__STORED_U16, "U16", 16, true},
    {ACCEL__STORED_U32, "U32", 32, true},
    {ACCEL__STORED_U64, "U64", 64, true},
    {ACCEL__STORED_C64, "C64", 64, true},
    {ACCEL__STORED_E2M3, "F6_E2M3", 6, true},
    {ACCEL__STORED_E3M2, "F6_E3M2", 6, true},
    {ACCEL__STORED_E4M3FNUZ, "F8_E4M3FNUZ", 8, true},
    {ACCEL__STORED_E5M2FNUZ, "F8_E5M2FNUZ", 8, true},
};
enum { TYPES = sizeof types / sizeof *types };

static const stored_type *type_of(accel_plugin_dtype dtype) {
  for (int i = 0; i < TYPES; i++) {
    if (types[i].dtype == (int)dtype) return &types[i];
  }
  return NULL;
}

uint64_t accel__dtype_bits(accel_plugin_dtype dtype) {
  const stored_type *type = type_of(dtype);
  return type ? type->bits : 0;
}

const char *accel__dtype_name(accel_plugin_dtype dtype) {
  const stored_type *type = type_of(dtype);
  return type ? type->name : "unknown";
}

bool accel__dtype_from_name(const char *name, accel_plugin_dtype *out) {
  for (int i = 0; i < TYPES; i++) {
    if (!types[i].in_files || strcmp(types[i].name, name) != 0) continue;
    *out = (accel_plugin_dtype)types[i].dtype;
    return true;
  }
  return false;
}

/* Data need not be aligned to its type (the header's length decides), so elements are copied
 * out. */
#define ELEMENTS(type, expression)                \
  for (uint64_t i = 0; i < count; i++) {          \
    type x;                                       \
    memcpy(&x, (const type *)from + i, sizeof x); \
    out[i] = (expression);                        \
  }                                               \
  return ACCEL_OK

accel_status accel__elements_to_f32(accel_plugin_dtype dtype, const void *from, uint64_t count,
                                    float *out) {
  switch ((int)dtype) {
    case ACCEL_PLUGIN_F32:
      if (count) memcpy(out, from, count * sizeof *out);
      return ACCEL_OK;
    case ACCEL_PLUGIN_F16:
      accel_fp16_array_to_f32(from, count, out);
      return ACCEL_OK;
    case ACCEL_PLUGIN_BF16:
      accel_bf16_array_to_f32(from, count, out);
      return ACCEL_OK;
    case ACCEL_PLUGIN_F64:
      ELEMENTS(double, (float)x);
    case ACCEL_PLUGIN_I64:
      ELEMENTS(int64_t, (float)x);
    case ACCEL_PLUGIN_I32:
      ELEMENTS(int32_t, (float)x);
    case ACCEL_PLUGIN_I8:
      ELEMENTS(int8_t, (float)x);
    case ACCEL_PLUGIN_U8:
      ELEMENTS(uint8_t, (float)x);
    case ACCEL_PLUGIN_BOOL:
      ELEMENTS(uint8_t, x ? 1.0f : 0.0f);
    case ACCEL__STORED_I16:
      ELEMENTS(int16_t, (float)x);
    case ACCEL__STORED_U16:
      ELEMENTS(uint16_t, (float)x);
    case ACCEL__STORED_U32:
      ELEMENTS(uint32_t, (float)x);
    case ACCEL__STORED_U64:
      ELEMENTS(uint64_t, (float)x);
    default:
      return accel__fail(ACCEL_ERROR_UNSUPPORTED, "dtype %s cannot be read as plain numbers",
                         accel__dtype_name(dtype));
  }
}

accel_status accel__tensor_to_f32(const accel__checkpoint *c, const accel__tensor_info *t,
                                  uint64_t first, uint64_t count, float *out) {
  enum { BLOCK = 16384 }; /* bytes that are read at a time where the file is not mapped */
  const uint64_t bytes = accel__dtype_bits(t->dtype) / 8, most = BLOCK / (bytes ? bytes : 1);
  _Alignas(8) unsigned char block[BLOCK];
  if (first > t->elements || count > t->elements - first)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "tensor '%s': elements %" PRIu64 " + %" PRIu64 " of %" PRIu64, t->name,
                       first, count, t->elements);
  if (t->dtype == ACCEL_PLUGIN_F32) return accel__tensor_read(c, t, first * 4, count * 4, out);
  for (uint64_t at = 0; at < count;) {
    const uint64_t n = count - at < most ? count - at : most;
    const void *from;
    ACCEL_TRY(accel__tensor_at(c, t, (first + at) * bytes, n * bytes, block, &from));
    ACCEL_TRY_AS(accel__elements_to_f32(t->dtype, from, n, out + at), "tensor '%s'", t->name);
    at += n;
  }
  return ACCEL_OK;
}
