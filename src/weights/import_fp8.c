/* import_fp8.c - 8-bit floats in blocks ("fp8", as DeepSeek and Qwen publish): x.weight E4M3 [N, K]
 * with x.weight_scale_inv, a factor in spite of its name, [ceil(N/rows), ceil(K/columns)] for
 * weight_block_size [rows, columns], or one number; F32, F16, BF16, or exponents (E8M0, or bytes of
 * it).  "mxfp8" is the same with blocks [1, 32].
 */
#include <string.h>

#include "weights/import_family.h"

static accel_status read_block_size(accel__import *import, accel__import_block *block) {
  const accel__json *size = accel__json_get(import->config, "weight_block_size");
  if (!size) return ACCEL_OK;
  const accel__json *rows = size->child, *columns = rows ? rows->next : NULL;
  if (!cJSON_IsArray(size) || !columns || columns->next || !cJSON_IsNumber(rows) ||
      !cJSON_IsNumber(columns) || rows->valuedouble < 1 || columns->valuedouble < 1 ||
      rows->valuedouble > 1 << 24 || columns->valuedouble > 1 << 24)
    return accel__import_refuse(import, "weight_block_size", "is not two sizes");
  *block = (accel__import_block){.rows = (int64_t)rows->valuedouble,
                                 .columns = (int64_t)columns->valuedouble};
  return ACCEL_OK;
}

static accel_status configure(accel__import *import) {
  accel__import_block *block = accel__arena_alloc(&import->arena, sizeof *block);
  const char *scheme = "dynamic", *kind = "e4m3", *scales = "float", *experts = "fp8";
  if (!block) return ACCEL_ERROR_OUT_OF_MEMORY;
  import->settings = block;
  *block = import->family == &accel__import_mxfp8
               ? (accel__import_block){.rows = 1, .columns = 32}
               : (accel__import_block){.rows = 128, .columns = 128};
  ACCEL_TRY(accel__import_string(import, "fmt", &kind));
  if (strcmp(kind, "e4m3") && strcmp(kind, "float8_e4m3fn"))
    return accel__import_refuse(import, "fmt", "is '%s'; only e4m3 is read", kind);
  ACCEL_TRY(accel__import_string(import, "activation_scheme", &scheme));
  if (strcmp(scheme, "dynamic") && strcmp(scheme, "static"))
    return accel__import_refuse(import, "activation_scheme",
                                "is '%s'; known are dynamic and static", scheme);
  ACCEL_TRY(accel__import_string(import, "scale_fmt", &scales));
  if (strcmp(scales, "float") && strcmp(scales, "ue8m0"))
    return accel__import_refuse(import, "scale_fmt", "is '%s'; read are float and ue8m0", scales);
  ACCEL_TRY(accel__import_string(import, "expert_dtype", &experts));
  if (strcmp(experts, "fp8"))
    return accel__import_refuse(import, "expert_dtype", "is '%s'; only fp8 is read", experts);
  ACCEL_TRY(accel__import_note(
      import,
      "fp8: activations are not quantised as activation_scheme says, but as the precision does"));
  return read_block_size(import, block);
}

static accel_status visit(accel__import *import, const accel__tensor_info *t) {
  const size_t stem = accel__import_stem(t->name, ".weight");
  if (accel__import_stem(t->name, ".activation_scale")) return accel__import_mark(import, t);
  if (!stem || t->dtype != ACCEL_PLUGIN_E4M3) return ACCEL_OK;
  accel__import_entry e = {
      .codes = t, .bits = 8, .as_stored = true, .read = accel__import_read_scales};
  ACCEL_TRY(accel__import_need(import, t, stem, ".weight_scale_inv", &e.scale));
  ACCEL_TRY(accel__import_shape2(import, t, -1, -1));
  e.n = t->dim[0];
  e.k = t->dim[1];
  if (e.n < 1 || e.k < 1) return accel__import_bad(import, t, "it is empty");
  if (e.scale->dtype != ACCEL_PLUGIN_E8M0 && e.scale->dtype != ACCEL_PLUGIN_U8)
    ACCEL_TRY(accel__import_float(import, e.scale));
  e.format = (accel_plugin_format){.store = ACCEL_PLUGIN_E4M3,
                                   .scale = ACCEL_PLUGIN_F32,
                                   .zero = ACCEL_PLUGIN_NO_DTYPE,
                                   .outer = ACCEL_PLUGIN_NO_DTYPE};
  ACCEL_TRY(accel__import_layout(import, e.scale, e.n, e.k, import->settings, 1, &e.format));
  return accel__import_add(import, &e, t->name, stem, ".weight");
}

const accel__import_family accel__import_fp8 = {
    .method = "fp8", .configure = configure, .visit = visit};
const accel__import_family accel__import_mxfp8 = {
    .method = "mxfp8", .configure = configure, .visit = visit};
