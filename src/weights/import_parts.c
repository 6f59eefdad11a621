/* import_parts.c - what the readers of quantised checkpoints share: failing, fields, tensors,
 * scales, streams of bits. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "weights/import_family.h"

/* ---- failing ---- */

accel_status accel__import_refuse(const accel__import *import, const char *field,
                                  const char *format, ...) {
  char sentence[600];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: field 'quantization_config.%s' %s", import->file->name,
              field, sentence);
  return accel__remedy(ACCEL_ERROR_UNSUPPORTED,
                       "use a checkpoint that docs/quantised.md lists, or the unquantised one the "
                       "model was made from");
}

accel_status accel__import_bad(const accel__import *import, const accel__tensor_info *tensor,
                               const char *format, ...) {
  char sentence[600];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  accel__fail(ACCEL_ERROR_FORMAT, "%s: tensor '%s': %s",
              accel__checkpoint_file(import->checkpoint, tensor->file), tensor->name, sentence);
  return accel__remedy(
      ACCEL_ERROR_FORMAT,
      "config.json and the weights must be of the same model, whole and unchanged");
}

accel_status accel__import_note(accel__import *import, const char *format, ...) {
  char sentence[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  if (import->n_notes == ACCEL__IMPORT_MAX_NOTES) return ACCEL_OK;
  import->notes[import->n_notes] = accel__arena_string(&import->arena, sentence);
  return import->notes[import->n_notes++] ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* ---- fields ---- */

accel_status accel__import_field(accel_status status) {
  if (status != ACCEL_ERROR_FORMAT) return status;
  accel__wrap(status, "reading 'quantization_config'");
  return accel__remedy(status, "config.json must be as the tool that quantised the model wrote it");
}

accel_status accel__import_int(const accel__import *import, const char *field, int64_t least,
                               int64_t most, int64_t *out) {
  int64_t value = *out;
  ACCEL_TRY(accel__import_field(accel__json_int(import->file, import->config, field,
                                                INT64_MIN / 1024, INT64_MAX / 1024, &value)));
  if (value < least || value > most)
    return accel__import_refuse(import, field, "is %" PRId64 "; read are %" PRId64 " to %" PRId64,
                                value, least, most);
  *out = value;
  return ACCEL_OK;
}

accel_status accel__import_bool(const accel__import *import, const char *field, bool *out) {
  return accel__import_field(accel__json_bool(import->file, import->config, field, out));
}

accel_status accel__import_string(const accel__import *import, const char *field,
                                  const char **out) {
  return accel__import_field(accel__json_string(import->file, import->config, field, out));
}

accel_status accel__import_empty(const accel__import *import, const char *field,
                                 const char *meaning) {
  const accel__json *value = accel__json_get(import->config, field);
  if (!value || cJSON_IsFalse(value)) return ACCEL_OK;
  if ((cJSON_IsObject(value) || cJSON_IsArray(value)) && !value->child) return ACCEL_OK;
  return accel__import_refuse(import, field, "is set: %s is not supported", meaning);
}

/* ---- tensors ---- */

size_t accel__import_stem(const char *name, const char *suffix) {
  return accel__ends_with(name, suffix) ? strlen(name) - strlen(suffix) : 0;
}

const accel__tensor_info *accel__import_sibling(const accel__import *import, const char *of,
                                                size_t stem, const char *suffix) {
  char name[512];
  const int n = snprintf(name, sizeof name, "%.*s%s", (int)stem, of, suffix);
  return n > 0 && (size_t)n < sizeof name ? accel__checkpoint_find(import->checkpoint, name) : NULL;
}

accel_status accel__import_need(const accel__import *import, const accel__tensor_info *of,
                                size_t stem, const char *suffix, const accel__tensor_info **out) {
  *out = accel__import_sibling(import, of->name, stem, suffix);
  return *out ? ACCEL_OK
              : accel__import_bad(import, of, "its companion '%.*s%s' is missing", (int)stem,
                                  of->name, suffix);
}

accel_status accel__import_type(const accel__import *import, const accel__tensor_info *tensor,
                                accel_plugin_dtype wanted) {
  if (tensor->dtype == wanted) return ACCEL_OK;
  return accel__import_bad(import, tensor, "it is stored as %s, %s is due",
                           accel__dtype_name(tensor->dtype), accel__dtype_name(wanted));
}

accel_status accel__import_float(const accel__import *import, const accel__tensor_info *tensor) {
  if (tensor->dtype <= ACCEL_PLUGIN_BF16) return ACCEL_OK;
  return accel__import_bad(import, tensor, "it is stored as %s; F32, F16 or BF16 are due",
                           accel__dtype_name(tensor->dtype));
}

static void shape_text(char *out, size_t size, uint32_t rank, const int64_t *dim) {
  size_t at = 0;
  out[0] = 0;
  for (uint32_t d = 0; d < rank && at < size; d++)
    at += (size_t)snprintf(out + at, size - at, dim[d] < 0 ? "%s?" : "%s%" PRId64, d ? "," : "",
                           dim[d]);
}

accel_status accel__import_shape(const accel__import *import, const accel__tensor_info *tensor,
                                 uint32_t rank, const int64_t *dims) {
  char found[160], due[160];
  bool fits = tensor->rank == rank;
  for (uint32_t d = 0; fits && d < rank; d++) fits = dims[d] < 0 || tensor->dim[d] == dims[d];
  if (fits) return ACCEL_OK;
  shape_text(found, sizeof found, tensor->rank, tensor->dim);
  shape_text(due, sizeof due, rank, dims);
  return accel__import_bad(import, tensor, "it is [%s], [%s] is due", found, due);
}

accel_status accel__import_shape2(const accel__import *import, const accel__tensor_info *tensor,
                                  int64_t rows, int64_t columns) {
  return accel__import_shape(import, tensor, 2, (int64_t[]){rows, columns});
}

int32_t accel__import_i32(const void *bytes, uint64_t i) {
  int32_t value; /* data need not be aligned to its type */
  memcpy(&value, (const char *)bytes + i * sizeof value, sizeof value);
  return value;
}

/* ---- scales ---- */

static bool block_fits(const accel__import_block *b, int64_t n, int64_t k, int64_t rows,
                       int64_t columns) {
  const bool usable =
      b->rows >= 0 && b->columns >= 0 && b->rows <= UINT32_MAX && b->columns <= UINT32_MAX;
  return usable && accel_groups(n, (uint32_t)b->rows) == rows &&
         accel_groups(k, (uint32_t)b->columns) == columns;
}

accel_status accel__import_layout(const accel__import *import, const accel__tensor_info *scale,
                                  int64_t n, int64_t k, const accel__import_block *block,
                                  uint32_t n_blocks, accel_plugin_format *format) {
  const int64_t rows = scale->rank ? scale->dim[0] : 1,
                columns = scale->rank > 1 ? scale->dim[1] : 1;
  char found[160];
  format->group_n = 1;
  format->group_k = 0;
  if (scale->elements == 1 || (scale->rank <= 2 && rows == n && columns == 1)) return ACCEL_OK;
  for (uint32_t i = 0; i < n_blocks && scale->rank == 2; i++) {
    if (!block_fits(&block[i], n, k, rows, columns)) continue;
    format->group_n = (uint32_t)block[i].rows;
    format->group_k = (uint32_t)block[i].columns;
    return ACCEL_OK;
  }
  shape_text(found, sizeof found, scale->rank, scale->dim);
  return accel__import_bad(
      import, scale,
      "[%s] fits no layout of scales in 'quantization_config' for a weight [%" PRId64 ",%" PRId64
      "]",
      found, n, k);
}

accel_status accel__import_scale_type(const accel__import *import, const accel__tensor_info *scale,
                                      uint8_t *dtype) {
  *dtype = ACCEL_PLUGIN_F16;
  if (scale->dtype == ACCEL_PLUGIN_F16) return ACCEL_OK;
  accel__lent lent;
  ACCEL_TRY(accel__tensor_borrow(import->checkpoint, scale, 0, scale->bytes, &lent));
  for (uint64_t i = 0; i < scale->elements && *dtype == ACCEL_PLUGIN_F16; i++) {
    const float value = accel__import_value(scale, lent.data, i);
    if (accel_fp16_to_f32(accel_f32_to_fp16(value)) != value) *dtype = ACCEL_PLUGIN_F32;
  }
  accel__tensor_return(&lent);
  return ACCEL_OK;
}

/* Scale `from` of the file as scale `to` of ours; false: it is not a finite number. */
static bool put_scale(uint8_t dtype, uint8_t stored, const void *bytes, uint64_t from, void *out,
                      uint64_t to) {
  if (accel_format_bits(dtype) == 8) { /* E4M3, E8M0: as they are */
    const uint8_t code = ((const uint8_t *)bytes)[from];
    ((uint8_t *)out)[to] = code;
    return dtype == ACCEL_PLUGIN_E8M0 ? code != 0xff : (code & 0x7f) != 0x7f;
  }
  const uint8_t type = stored == ACCEL_PLUGIN_U8 ? ACCEL_PLUGIN_E8M0 : stored;
  const float value = accel_scale_at(type, bytes, (int64_t)from);
  if (dtype == ACCEL_PLUGIN_F16)
    ((uint16_t *)out)[to] = accel_f32_to_fp16(value);
  else
    ((float *)out)[to] = value;
  return isfinite(value);
}

accel_status accel__import_scales(const accel__import *import, const accel__tensor_info *scale,
                                  const void *bytes, bool transposed, accel__quantised *out) {
  const uint64_t rows = (uint64_t)accel_groups(out->n, out->format.group_n),
                 columns = (uint64_t)accel_groups(out->k, out->format.group_k);
  for (uint64_t r = 0; r < rows; r++) {
    for (uint64_t c = 0; c < columns; c++) {
      const uint64_t from = scale->elements == 1 ? 0 : transposed ? c * rows + r : r * columns + c;
      if (put_scale(out->format.scale, (uint8_t)scale->dtype, bytes, from, out->scale,
                    r * columns + c))
        continue;
      return accel__import_bad(import, scale, "scale %" PRIu64 " is not a finite number", from);
    }
  }
  return ACCEL_OK;
}

accel_status accel__import_read_scales(const accel__import *import,
                                       const accel__import_entry *entry,
                                       const accel__import_bytes *from, accel__quantised *out) {
  return accel__import_scales(import, entry->scale, from->scale, false, out);
}

/* ---- bits ---- */

uint32_t accel__import_code(const void *words, uint64_t stride, uint64_t n_words, uint32_t bits,
                            uint64_t i) {
  const uint64_t word = i / 32 * bits + i % 32 * bits / 32;
  const uint32_t shift = (uint32_t)(i % 32 * bits % 32);
  uint32_t low = 0, high = 0;
  if (word < n_words) memcpy(&low, (const char *)words + word * stride * 4, 4);
  if (shift + bits > 32 && word + 1 < n_words)
    memcpy(&high, (const char *)words + (word + 1) * stride * 4, 4);
  return (uint32_t)(((uint64_t)high << 32 | low) >> shift) & ((1u << bits) - 1u);
}

/* accel__import_order for a tensor of the right type and shape, with its bytes. */
static accel_status check_order(const accel__import *import, const accel__tensor_info *order,
                                const void *bytes, int64_t groups, bool *in_order, int64_t *group) {
  const int64_t k = order->dim[0];
  *group = 0;
  while (*group < k && accel__import_i32(bytes, (uint64_t)*group) == 0) ++*group;
  *in_order = *group > 0 && (k + *group - 1) / *group == groups;
  for (int64_t i = 0; i < k; i++) {
    const int32_t g = accel__import_i32(bytes, (uint64_t)i);
    if (g < 0 || g >= groups)
      return accel__import_bad(
          import, order, "column %" PRId64 " is of group %d, there are %" PRId64, i, g, groups);
    if (*in_order && g != i / *group) *in_order = false;
  }
  return ACCEL_OK;
}

accel_status accel__import_order(const accel__import *import, const accel__tensor_info *order,
                                 int64_t k, int64_t groups, bool *in_order, int64_t *group) {
  accel__lent lent;
  ACCEL_TRY(accel__import_type(import, order, ACCEL_PLUGIN_I32));
  ACCEL_TRY(accel__import_shape(import, order, 1, &k));
  ACCEL_TRY(accel__tensor_borrow(import->checkpoint, order, 0, order->bytes, &lent));
  const accel_status status = check_order(import, order, lent.data, groups, in_order, group);
  accel__tensor_return(&lent);
  return status;
}
