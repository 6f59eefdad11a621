/* import_compressed.c - compressed-tensors (llm-compressor).  What a weight's tensors are called
 * and typed says how it is held, so checkpoints of mixed formats read like any other:
 *
 *   x.weight_packed I32  [N, ceil(K*bits/32)] a stream of codes + 2^(bits-1) along K (pack-quantized), with x.weight_shape
 * [2], x.weight_scale, and when asymmetric x.weight_zero_point I32 [ceil(N*bits/32), groups] along N x.weight_packed U8 [N,
 * K/2] E2M1, low nibble first; x.weight_scale E4M3 [N, K/16] and x.weight_global_scale, by which to divide (nvfp4), or
 * x.weight_scale U8 [N, K/32], E8M0 (mxfp4) x.weight I8, E4M3    [N, K] with x.weight_scale (int-, float-, naive-quantized;
 * mxfp8: E8M0 bytes), x.weight_zero_point I8
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "weights/import_family.h"

enum { MAX_GROUPS = 32 }; /* config_groups read */
typedef struct compressed {
  uint32_t bits[MAX_GROUPS]; /* of the weights of each config group */
  uint32_t n_bits;
  accel__import_block block[MAX_GROUPS];
  uint32_t n_blocks;
} compressed;

/* ---- quantization_config ---- */

static accel_status read_weights(accel__import *import, const accel__json *weights, compressed *s) {
  const accel__json_file *file = import->file;
  const accel__json *structure = NULL;
  int64_t bits = 8, size = 0;
  ACCEL_TRY(accel__import_field(accel__json_int(file, weights, "num_bits", 1, 64, &bits)));
  if (bits > 8)
    return accel__import_refuse(import, "config_groups",
                                "has weights of num_bits %" PRId64 "; read are 1 to 8", bits);
  s->bits[s->n_bits++] = (uint32_t)bits;
  ACCEL_TRY(accel__import_field(accel__json_int(file, weights, "group_size", -1, 1 << 24, &size)));
  if (size > 0) s->block[s->n_blocks++] = (accel__import_block){.rows = 1, .columns = size};
  ACCEL_TRY(accel__import_field(accel__json_array(file, weights, "block_structure", &structure)));
  if (!structure) return ACCEL_OK;
  const accel__json *rows = structure->child, *columns = rows ? rows->next : NULL;
  if (!columns || columns->next || !cJSON_IsNumber(rows) || !cJSON_IsNumber(columns) ||
      rows->valuedouble < 1 || columns->valuedouble < 1 || rows->valuedouble > 1 << 24 ||
      columns->valuedouble > 1 << 24)
    return accel__import_refuse(import, "config_groups",
                                "has a block_structure that is not two sizes");
  s->block[s->n_blocks++] = (accel__import_block){.rows = (int64_t)rows->valuedouble,
                                                  .columns = (int64_t)columns->valuedouble};
  return ACCEL_OK;
}

static accel_status read_groups(accel__import *import, compressed *s) {
  const accel__json *groups = NULL;
  bool activations = false;
  ACCEL_TRY(accel__import_field(
      accel__json_object(import->file, import->config, "config_groups", &groups)));
  ACCEL_JSON_EACH(group, groups) {
    const accel__json *weights = NULL;
    if (!cJSON_IsObject(group))
      return accel__import_refuse(import, "config_groups", "names a preset, '%s'", group->string);
    if (s->n_blocks + 2 > MAX_GROUPS || s->n_bits == MAX_GROUPS)
      return accel__import_refuse(import, "config_groups",
                                  "has more groups than the %d that are read", MAX_GROUPS / 2);
    ACCEL_TRY(accel__import_field(accel__json_object(import->file, group, "weights", &weights)));
    if (weights) ACCEL_TRY(read_weights(import, weights, s));
    if (!accel__json_is_null_or_absent(group, "input_activations") ||
        !accel__json_is_null_or_absent(group, "output_activations"))
      activations = true;
  }
  if (!activations) return ACCEL_OK;
  return accel__import_note(
      import,
      "compressed-tensors: activations are not quantised as config_groups says, but as the "
      "precision does");
}

static accel_status configure(accel__import *import) {
  static const char *const formats[] = {
      "dense",          "int-quantized",   "float-quantized",      "naive-quantized",
      "pack-quantized", "mixed-precision", "nvfp4-pack-quantized", "mxfp4-pack-quantized",
      "mxfp8-quantized"};
  compressed *s = accel__arena_alloc(&import->arena, sizeof *s);
  const char *format = "dense", *status = "compressed", *sparse = "dense";
  const accel__json *sparsity = NULL;
  bool known = false;
  if (!s) return ACCEL_ERROR_OUT_OF_MEMORY;
  import->settings = s;
  ACCEL_TRY(accel__import_string(import, "format", &format));
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    known = known || !strcmp(format, formats[i]);
  if (!known) return accel__import_refuse(import, "format", "is '%s', which is not read", format);
  ACCEL_TRY(accel__import_string(import, "quantization_status", &status));
  if (strcmp(status, "compressed"))
    return accel__import_refuse(import, "quantization_status",
                                "is '%s'; only compressed checkpoints are read", status);
  ACCEL_TRY(accel__import_field(
      accel__json_object(import->file, import->config, "sparsity_config", &sparsity)));
  ACCEL_TRY(accel__import_field(accel__json_string(import->file, sparsity, "format", &sparse)));
  if (strcmp(sparse, "dense"))
    return accel__import_refuse(import, "sparsity_config", "has format '%s'; only dense is read",
                                sparse);
  ACCEL_TRY(accel__import_empty(import, "transform_config", "a transform of the activations"));
  return read_groups(import, s);
}

/* ---- streams of codes ---- */

static accel_status check_range(const accel__import *import, const accel__import_entry *e) {
  return e->n > 0 && e->k > 0 ? ACCEL_OK : accel__import_bad(import, e->codes, "it is empty");
}

/* Code i of row n, 0 .. 2^bits - 1. */
static uint32_t packed_code(const accel__import_entry *e, const void *codes, uint64_t n,
                            uint64_t i) {
  const uint64_t words = (uint64_t)e->codes->dim[1];
  return accel__import_code((const char *)codes + n * words * 4, 1, words, e->bits, i);
}

/* The zero of group g of row n, likewise; 2^(bits-1) when symmetric. */
static uint32_t packed_zero(const accel__import_entry *e, const void *zeros, uint64_t g,
                            uint64_t n) {
  if (!e->zero) return 1u << (e->bits - 1);
  const uint64_t groups = (uint64_t)e->zero->dim[1];
  return accel__import_code((const char *)zeros + g * 4, groups, (uint64_t)e->zero->dim[0], e->bits,
                            n);
}

/* Up to 4 bits: symmetric I4 has the value itself, U4 (with zeros) code and zero; 5 to 8 bits: I8
 * has both less 2^(bits-1).
 */
static accel_status read_packed(const accel__import *import, const accel__import_entry *e,
                                const accel__import_bytes *from, accel__quantised *out) {
  const uint64_t row_bytes = accel_row_bytes(e->format.store, e->k), rows = (uint64_t)e->n;
  const uint32_t half = 1u << (e->bits - 1);
  const bool nibbles = e->bits <= 4;
  for (uint64_t n = 0; n < rows; n++) {
    uint8_t *row = (uint8_t *)out->data + n * row_bytes;
    for (uint64_t k = 0; k < (uint64_t)e->k; k++) {
      const uint32_t code = packed_code(e, from->codes, n, k);
      if (nibbles)
        accel_nibble_set(row, k, (uint8_t)(e->zero ? code : code - half));
      else
        row[k] = (uint8_t)(code - half);
    }
  }
  const uint64_t groups = (uint64_t)accel_groups(e->k, e->format.group_k);
  for (uint64_t n = 0; n < rows && out->zero; n++)
    for (uint64_t g = 0; g < groups; g++)
      ((uint8_t *)out->zero)[n * groups + g] =
          (uint8_t)(packed_zero(e, from->zero, g, n) - (nibbles ? 0 : half));
  return accel__import_scales(import, e->scale, from->scale, false, out);
}

/* Columns with an order of their own (actorder "group"): the numbers themselves. */
static accel_status read_reordered(const accel__import *import, const accel__import_entry *e,
                                   const accel__import_bytes *from, accel__quantised *out) {
  const uint64_t groups = (uint64_t)e->scale->dim[1];
  for (uint64_t n = 0; n < (uint64_t)e->n; n++) {
    for (uint64_t k = 0; k < (uint64_t)e->k; k++) {
      const uint64_t g = (uint64_t)accel__import_i32(from->order, k);
      const float w =
          ((float)packed_code(e, from->codes, n, k) - (float)packed_zero(e, from->zero, g, n)) *
          accel__import_value(e->scale, from->scale, n * groups + g);
      const uint16_t half = accel_f32_to_fp16(w);
      if (!isfinite(w) || (half & 0x7c00) == 0x7c00)
        return accel__import_bad(import, e->scale,
                                 "row %" PRIu64 " of group %" PRIu64 " does not fit fp16", n, g);
      ((uint16_t *)out->data)[n * (uint64_t)e->k + k] = half;
    }
  }
  return ACCEL_OK;
}

static accel_status packed_shape(const accel__import *import, accel__import_entry *e,
                                 const accel__tensor_info *shape) {
  const compressed *s = import->settings;
  int64_t dims[2];
  if (shape->dtype != ACCEL_PLUGIN_I64 && shape->dtype != ACCEL_PLUGIN_I32)
    return accel__import_bad(import, shape, "it is stored as %s; I64 is due",
                             accel__dtype_name(shape->dtype));
  ACCEL_TRY(accel__import_shape(import, shape, 1, (int64_t[]){2}));
  ACCEL_TRY(accel__tensor_read(import->checkpoint, shape, 0, shape->bytes, dims));
  if (shape->dtype == ACCEL_PLUGIN_I32) {
    const int32_t narrow[2] = {accel__import_i32(dims, 0), accel__import_i32(dims, 1)};
    dims[0] = narrow[0], dims[1] = narrow[1];
  }
  ACCEL_TRY(accel__import_shape2(import, e->codes, -1, -1));
  e->n = dims[0];
  e->k = dims[1];
  e->bits = 0;
  for (uint32_t i = 0;
       i < s->n_bits && e->k > 0 && e->k <= INT64_MAX / 8 && e->n == e->codes->dim[0]; i++) {
    if (accel__import_words(e->k, s->bits[i]) != e->codes->dim[1] || s->bits[i] == e->bits)
      continue;
    if (e->bits)
      return accel__import_bad(import, e->codes, "codes of %u and of %u bits fit its shape",
                               e->bits, s->bits[i]);
    e->bits = s->bits[i];
  }
  if (e->bits) return ACCEL_OK;
  return accel__import_bad(import, shape,
                           "a weight [%" PRId64 ",%" PRId64 "] does not fit the packed [%" PRId64
                           ",%" PRId64 "] with a num_bits of config_groups",
                           dims[0], dims[1], e->codes->dim[0], e->codes->dim[1]);
}

/* g_idx of old checkpoints; all -1: not used. */
static accel_status packed_order(accel__import *import, accel__import_entry *e,
                                 const accel__tensor_info *order) {
  bool in_order;
  int64_t group;
  ACCEL_TRY(accel__import_mark(import, order));
  ACCEL_TRY(accel__import_type(import, order, ACCEL_PLUGIN_I32));
  ACCEL_TRY(accel__import_shape(import, order, 1, &e->k));
  int32_t first = 0;
  if (e->k > 0) ACCEL_TRY(accel__tensor_read(import->checkpoint, order, 0, sizeof first, &first));
  if (e->scale->rank != 2 || first == -1) return ACCEL_OK;
  ACCEL_TRY(accel__import_order(import, order, e->k, e->scale->dim[1], &in_order, &group));
  if (in_order) return ACCEL_OK;
  e->order = order;
  e->read = read_reordered;
  e->format = (accel_plugin_format){
      ACCEL_PLUGIN_F16, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 0, 0};
  import->reordered++;
  return ACCEL_OK;
}

static accel_status packed_integers(accel__import *import, const accel__tensor_info *t,
                                    size_t stem) {
  const compressed *s = import->settings;
  const accel__tensor_info *shape,
      *order = accel__import_sibling(import, t->name, stem, ".weight_g_idx");
  accel__import_entry e = {.codes = t, .read = read_packed};
  ACCEL_TRY(accel__import_need(import, t, stem, ".weight_scale", &e.scale));
  ACCEL_TRY(accel__import_need(import, t, stem, ".weight_shape", &shape));
  ACCEL_TRY(packed_shape(import, &e, shape));
  ACCEL_TRY(check_range(import, &e));
  ACCEL_TRY(accel__import_float(import, e.scale));
  e.zero = accel__import_sibling(import, t->name, stem, ".weight_zero_point");
  e.format.store = e.bits > 4 ? ACCEL_PLUGIN_I8 : e.zero ? ACCEL_PLUGIN_U4 : ACCEL_PLUGIN_I4;
  e.format.scale = ACCEL_PLUGIN_F32;
  if (e.bits <= 4) ACCEL_TRY(accel__import_scale_type(import, e.scale, &e.format.scale));
  e.format.zero = !e.zero ? ACCEL_PLUGIN_NO_DTYPE : e.bits > 4 ? ACCEL_PLUGIN_I8 : ACCEL_PLUGIN_U8;
  e.format.outer = ACCEL_PLUGIN_NO_DTYPE;
  ACCEL_TRY(accel__import_layout(import, e.scale, e.n, e.k, s->block, s->n_blocks, &e.format));
  if (e.format.group_n != 1)
    return accel__import_bad(import, e.scale, "blocks of rows are not read in packed integers");
  if (e.zero) {
    ACCEL_TRY(accel__import_type(import, e.zero, ACCEL_PLUGIN_I32));
    ACCEL_TRY(accel__import_shape2(import, e.zero, accel__import_words(e.n, e.bits),
                                   accel_groups(e.k, e.format.group_k)));
  }
  if (order) ACCEL_TRY(packed_order(import, &e, order));
  ACCEL_TRY(accel__import_mark(import, shape));
  return accel__import_add(import, &e, t->name, stem, ".weight");
}

/* ---- E2M1 ---- */

static accel_status read_fours(const accel__import *import, const accel__import_entry *e,
                               const accel__import_bytes *from, accel__quantised *out) {
  if (out->outer) {
    const float divisor = accel__import_value(e->outer, from->outer, 0), outer = 1.0f / divisor;
    if (!isfinite(divisor) || !isfinite(outer) || divisor <= 0)
      return accel__import_bad(import, e->outer, "%g is no scale to divide by", (double)divisor);
    memcpy(out->outer, &outer, sizeof outer);
  }
  return accel__import_scales(import, e->scale, from->scale, false, out);
}

static accel_status packed_fours(accel__import *import, const accel__tensor_info *t, size_t stem) {
  accel__import_entry e = {.codes = t, .bits = 4, .as_stored = true, .read = read_fours};
  ACCEL_TRY(accel__import_need(import, t, stem, ".weight_scale", &e.scale));
  ACCEL_TRY(accel__import_shape2(import, t, -1, -1));
  if (t->dim[1] > INT64_MAX / 16) return accel__import_bad(import, t, "it is too large");
  e.n = t->dim[0];
  e.k = t->dim[1] * 2;
  ACCEL_TRY(check_range(import, &e));
  e.outer = accel__import_sibling(import, t->name, stem, ".weight_global_scale");
  const uint32_t group = e.outer ? 16 : 32;
  e.format = (accel_plugin_format){.store = ACCEL_PLUGIN_E2M1,
                                   .scale = e.outer ? ACCEL_PLUGIN_E4M3 : ACCEL_PLUGIN_E8M0,
                                   .zero = ACCEL_PLUGIN_NO_DTYPE,
                                   .outer = e.outer ? ACCEL_PLUGIN_F32 : ACCEL_PLUGIN_NO_DTYPE,
                                   .group_k = group,
                                   .group_n = 1};
  if (e.outer) {
    ACCEL_TRY(accel__import_type(import, e.outer, ACCEL_PLUGIN_F32));
    ACCEL_TRY(accel__import_type(import, e.scale, ACCEL_PLUGIN_E4M3));
    if (e.outer->elements != 1) return accel__import_bad(import, e.outer, "one number is due");
  } else if (e.scale->dtype != ACCEL_PLUGIN_E8M0) {
    ACCEL_TRY(accel__import_type(import, e.scale, ACCEL_PLUGIN_U8));
  }
  if (accel__import_sibling(import, t->name, stem, ".weight_zero_point"))
    return accel__import_bad(import, t, "it has zero points, which 4-bit floats do not use");
  ACCEL_TRY(accel__import_shape2(import, e.scale, e.n, accel_groups(e.k, group)));
  return accel__import_add(import, &e, t->name, stem, ".weight");
}

/* ---- a byte a code ---- */

static accel_status read_bytes(const accel__import *import, const accel__import_entry *e,
                               const accel__import_bytes *from, accel__quantised *out) {
  for (uint64_t i = 0; out->zero && i < out->bytes.zero; i++)
    ((int8_t *)out->zero)[i] = ((const int8_t *)from->zero)[e->zero->elements == 1 ? 0 : i];
  return accel__import_scales(import, e->scale, from->scale, false, out);
}

static accel_status whole_bytes(accel__import *import, const accel__tensor_info *t, size_t stem) {
  const compressed *s = import->settings;
  accel__import_entry e = {.codes = t, .bits = 8, .as_stored = true, .read = read_bytes};
  ACCEL_TRY(accel__import_need(import, t, stem, ".weight_scale", &e.scale));
  ACCEL_TRY(accel__import_shape2(import, t, -1, -1));
  e.n = t->dim[0];
  e.k = t->dim[1];
  ACCEL_TRY(check_range(import, &e));
  /* mxfp8's exponents */
  if (e.scale->dtype != ACCEL_PLUGIN_U8 && e.scale->dtype != ACCEL_PLUGIN_E8M0)
    ACCEL_TRY(accel__import_float(import, e.scale));
  e.zero = accel__import_sibling(import, t->name, stem, ".weight_zero_point");
  if (e.zero && t->dtype != ACCEL_PLUGIN_I8)
    return accel__import_bad(import, e.zero, "8-bit floats have no zero points");
  e.format = (accel_plugin_format){.store = (uint8_t)t->dtype,
                                   .scale = ACCEL_PLUGIN_F32,
                                   .zero = e.zero ? ACCEL_PLUGIN_I8 : ACCEL_PLUGIN_NO_DTYPE,
                                   .outer = ACCEL_PLUGIN_NO_DTYPE};
  ACCEL_TRY(accel__import_layout(import, e.scale, e.n, e.k, s->block, s->n_blocks, &e.format));
  if (e.zero) {
    ACCEL_TRY(accel__import_type(import, e.zero, ACCEL_PLUGIN_I8));
    if (e.zero->elements != e.scale->elements)
      return accel__import_bad(import, e.zero, "as many as scales are due");
  }
  return accel__import_add(import, &e, t->name, stem, ".weight");
}

/* ---- finding ---- */

static accel_status visit(accel__import *import, const accel__tensor_info *t) {
  size_t stem = accel__import_stem(t->name, ".weight_packed");
  if (stem && t->dtype == ACCEL_PLUGIN_I32) return packed_integers(import, t, stem);
  if (stem && t->dtype == ACCEL_PLUGIN_U8) return packed_fours(import, t, stem);
  if (stem)
    return accel__import_bad(import, t, "it is stored as %s; I32 or U8 are due",
                             accel__dtype_name(t->dtype));
  stem = accel__import_stem(t->name, ".weight");
  if (stem && (t->dtype == ACCEL_PLUGIN_I8 || t->dtype == ACCEL_PLUGIN_E4M3))
    return whole_bytes(import, t, stem);
  static const char *const of_activations[] = {
      ".input_scale",  ".input_zero_point", ".input_global_scale",
      ".output_scale", ".k_scale",          ".v_scale"};
  for (size_t i = 0; i < sizeof of_activations / sizeof *of_activations; i++)
    if (accel__import_stem(t->name, of_activations[i])) return accel__import_mark(import, t);
  return ACCEL_OK;
}

const accel__import_family accel__import_compressed = {
    .method = "compressed-tensors", .configure = configure, .visit = visit};
