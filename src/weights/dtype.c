/* dtype.c - the element types of safetensors: names, sizes, and reading them as fp32. */
#include <inttypes.h>
#include <string.h>

#include "formats/convert.h"
#include "formats/format_table.h"
#include "weights/safetensors.h"

/* Types that only files have; those of plugin.h are in formats.def. */
static const struct stored_type {
  int dtype;
  const char *name;
  uint32_t bits;
} only_stored[] = {
    {ACCEL__STORED_I16, "I16", 16},
    {ACCEL__STORED_U16, "U16", 16},
    {ACCEL__STORED_U32, "U32", 32},
    {ACCEL__STORED_U64, "U64", 64},
    {ACCEL__STORED_C64, "C64", 64},
    {ACCEL__STORED_E2M3, "F6_E2M3", 6},
    {ACCEL__STORED_E3M2, "F6_E3M2", 6},
    {ACCEL__STORED_E4M3FNUZ, "F8_E4M3FNUZ", 8},
    {ACCEL__STORED_E5M2FNUZ, "F8_E5M2FNUZ", 8},
};
enum { ONLY_STORED = sizeof only_stored / sizeof *only_stored };

static const struct stored_type *stored_only(accel_plugin_dtype dtype) {
  for (int i = 0; i < ONLY_STORED; i++)
    if (only_stored[i].dtype == (int)dtype) return &only_stored[i];
  return NULL;
}

uint64_t accel__dtype_bits(accel_plugin_dtype dtype) {
  const struct stored_type *stored = stored_only(dtype);
  return stored ? stored->bits : accel_format_facts_of(dtype)->bits;
}

const char *accel__dtype_name(accel_plugin_dtype dtype) {
  const struct stored_type *stored = stored_only(dtype);
  if (stored) return stored->name;
  const accel_format_facts *facts = accel_format_facts_of(dtype);
  return *facts->file ? facts->file : facts->bits ? facts->name : "unknown";
}

bool accel__dtype_from_name(const char *name, accel_plugin_dtype *out) {
  for (uint32_t d = 0; *name && d < ACCEL_FORMAT_NUMBERS; d++)
    if (!strcmp(accel_format_facts_of(d)->file, name)) return *out = (accel_plugin_dtype)d, true;
  for (int i = 0; i < ONLY_STORED; i++)
    if (!strcmp(only_stored[i].name, name))
      return *out = (accel_plugin_dtype)only_stored[i].dtype, true;
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
  enum { BLOCK = 16384 }; /* bytes that are read at a time */
  const uint64_t bytes = accel__dtype_bits(t->dtype) / 8, most = BLOCK / (bytes ? bytes : 1);
  _Alignas(8) unsigned char block[BLOCK];
  if (first > t->elements || count > t->elements - first)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "tensor '%s': elements %" PRIu64 " + %" PRIu64 " of %" PRIu64, t->name,
                       first, count, t->elements);
  if (t->dtype == ACCEL_PLUGIN_F32) return accel__tensor_read(c, t, first * 4, count * 4, out);
  for (uint64_t at = 0; at < count;) {
    const uint64_t n = count - at < most ? count - at : most;
    ACCEL_TRY(accel__tensor_read(c, t, (first + at) * bytes, n * bytes, block));
    ACCEL_TRY_AS(accel__elements_to_f32(t->dtype, block, n, out + at), "tensor '%s'", t->name);
    at += n;
  }
  return ACCEL_OK;
}
