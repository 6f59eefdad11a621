/* import_awq.c - AWQ as AutoAWQ's "gemm" version lays it out: x.qweight I32 [K, N/8], eight rows'
 * codes in a word in the order 0 2 4 6 1 3 5 7; x.qzeros I32 [groups, N/8] likewise; x.scales
 * [groups, N].  w[n][k] = (code - zero) * scale, nothing added to the zero.
 */
#include <inttypes.h>
#include <string.h>

#include "weights/import_family.h"

static const uint8_t row_of_nibble[8] = {0, 2, 4, 6, 1, 3, 5, 7};

static accel_status configure(accel__import *import) {
  int64_t *group = accel__arena_alloc(&import->arena, sizeof *group), bits = 4;
  const char *version = "gemm", *newer = NULL;
  bool zero_point = true;
  if (!group) return ACCEL_ERROR_OUT_OF_MEMORY;
  *group = 128;
  import->settings = group;
  ACCEL_TRY(accel__import_int(import, "bits", 4, 4, &bits));
  ACCEL_TRY(accel__import_int(import, "w_bit", 4, 4, &bits)); /* AutoAWQ's own file spells it so */
  ACCEL_TRY(accel__import_int(import, "group_size", -1, 1 << 24, group));
  ACCEL_TRY(accel__import_int(import, "q_group_size", -1, 1 << 24, group));
  if (*group == 0) return accel__import_refuse(import, "group_size", "is 0; read are -1 and sizes");
  ACCEL_TRY(accel__import_bool(import, "zero_point", &zero_point));
  if (!zero_point)
    return accel__import_refuse(import, "zero_point",
                                "is false: only the layout with zeros is read");
  ACCEL_TRY(accel__import_string(import, "format", &newer));
  if (newer) version = newer;
  ACCEL_TRY(accel__import_string(import, "version", &version));
  if (!accel__equal_ignoring_case(version, "gemm"))
    return accel__import_refuse(import, "version", "is '%s'; only gemm is read", version);
  return ACCEL_OK;
}

static uint32_t word_at(const void *bytes, uint64_t i) {
  return (uint32_t)accel__import_i32(bytes, i);
}

static accel_status read(const accel__import *import, const accel__import_entry *e,
                         const accel__import_bytes *from, accel__quantised *out) {
  const uint64_t words = (uint64_t)e->codes->dim[1], k = (uint64_t)e->k,
                 groups = (uint64_t)e->scale->dim[0],
                 row_bytes = accel_row_bytes(ACCEL_PLUGIN_U4, e->k);
  uint8_t *data = out->data, *zero = out->zero;
  for (uint64_t column = 0; column < k; column += 2) { /* a pair of columns is a byte of each row */
    for (uint64_t j = 0; j < words; j++) {
      const uint32_t even = word_at(from->codes, column * words + j),
                     odd = column + 1 < k ? word_at(from->codes, (column + 1) * words + j) : 0;
      for (uint32_t i = 0; i < 8; i++)
        data[(j * 8 + row_of_nibble[i]) * row_bytes + column / 2] =
            (uint8_t)((even >> 4 * i & 15) | (odd >> 4 * i & 15) << 4);
    }
  }
  for (uint64_t g = 0; g < groups; g++)
    for (uint64_t j = 0; j < words; j++)
      for (uint32_t i = 0; i < 8; i++)
        zero[(j * 8 + row_of_nibble[i]) * groups + g] =
            (uint8_t)(word_at(from->zero, g * words + j) >> 4 * i & 15);
  return accel__import_scales(import, e->scale, from->scale, true, out);
}

static accel_status visit(accel__import *import, const accel__tensor_info *t) {
  const size_t stem = accel__import_stem(t->name, ".qweight");
  if (!stem) return ACCEL_OK;
  accel__import_entry e = {.codes = t, .bits = 4, .read = read};
  ACCEL_TRY(accel__import_need(import, t, stem, ".scales", &e.scale));
  ACCEL_TRY(accel__import_need(import, t, stem, ".qzeros", &e.zero));
  ACCEL_TRY(accel__import_type(import, t, ACCEL_PLUGIN_I32));
  ACCEL_TRY(accel__import_shape2(import, t, -1, -1));
  if (t->dim[0] < 1 || t->dim[1] < 1 || t->dim[1] > INT32_MAX)
    return accel__import_bad(import, t, "it is empty or too large");
  e.k = t->dim[0];
  e.n = t->dim[1] * 8;
  const int64_t wanted = *(const int64_t *)import->settings, group = wanted < 0 ? e.k : wanted,
                groups = accel_groups(e.k, (uint32_t)(group < e.k ? group : 0));
  ACCEL_TRY(accel__import_float(import, e.scale));
  ACCEL_TRY(accel__import_shape2(import, e.scale, groups, e.n));
  ACCEL_TRY(accel__import_type(import, e.zero, ACCEL_PLUGIN_I32));
  ACCEL_TRY(accel__import_shape2(import, e.zero, groups, t->dim[1]));
  e.format = (accel_plugin_format){.store = ACCEL_PLUGIN_U4,
                                   .zero = ACCEL_PLUGIN_U8,
                                   .outer = ACCEL_PLUGIN_NO_DTYPE,
                                   .group_k = group < e.k ? (uint32_t)group : 0,
                                   .group_n = 1};
  ACCEL_TRY(accel__import_scale_type(import, e.scale, &e.format.scale));
  return accel__import_add(import, &e, t->name, stem, ".weight");
}

const accel__import_family accel__import_awq = {
    .method = "awq", .configure = configure, .visit = visit};
