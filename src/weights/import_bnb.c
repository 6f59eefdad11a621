/* import_bnb.c - bitsandbytes.
 *   int8: x.weight I8 [N, K] with x.SCB F32 [N], the largest magnitude of each row: w = code * SCB
 *   / 127 4 bits: x.weight, N*K codes in rows of rows, two a byte, the even one in the HIGH nibble,
 *   whatever type the tensor
 * claims; x.weight.quant_map F32 [16], the number each code means; x.weight.absmax [blocks] for
 * blocks of `blocksize` codes over the whole; x.weight.quant_state.bitsandbytes__nf4 (or __fp4), a
 * JSON text in bytes: blocksize, shape, dtype. Nested: absmax is U8 codes into nested_quant_map F32
 * [256], times nested_absmax of its own blocks, plus nested_offset. nf4 and bitsandbytes' fp4
 * (whose values are not those of E2M1) are codebooks: dequantised to the dtype the state names.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "weights/import_family.h"

enum { CODES = 16, NESTED_CODES = 256, MAX_STATE = 1 << 16 };
typedef struct codebook {
  const accel__tensor_info *map, *nested_map; /* nested absmax is the entry's `outer` */
  int64_t block, nested_block;
  float offset;
} codebook;

static accel_status configure(accel__import *import) {
  bool eight = false, four = false;
  ACCEL_TRY(accel__import_bool(import, "load_in_8bit", &eight));
  ACCEL_TRY(accel__import_bool(import, "load_in_4bit", &four));
  if (eight == four)
    return accel__import_refuse(import, "load_in_4bit",
                                "and load_in_8bit: exactly one must be true");
  if (eight)
    return accel__import_note(import,
                              "bitsandbytes int8: columns of outliers (llm_int8_threshold) are not "
                              "kept in fp16: emulated");
  return accel__import_note(import,
                            "bitsandbytes 4 bit is a codebook: its weights are dequantised when "
                            "they are loaded: emulated");
}

/* ---- int8 ---- */

static accel_status read_rows(const accel__import *import, const accel__import_entry *e,
                              const accel__import_bytes *from, accel__quantised *out) {
  ACCEL_TRY(accel__import_read_scales(import, e, from, out));
  for (int64_t n = 0; n < e->n; n++) ((float *)out->scale)[n] /= 127.0f;
  return ACCEL_OK;
}

static accel_status rows(accel__import *import, const accel__tensor_info *t, size_t stem) {
  accel__import_entry e = {.codes = t, .bits = 8, .as_stored = true, .read = read_rows};
  const accel__tensor_info *layout = accel__import_sibling(import, t->name, stem, ".weight_format");
  ACCEL_TRY(accel__import_need(import, t, stem, ".SCB", &e.scale));
  ACCEL_TRY(accel__import_shape2(import, t, -1, -1));
  e.n = t->dim[0];
  e.k = t->dim[1];
  if (e.n < 1 || e.k < 1) return accel__import_bad(import, t, "it is empty");
  ACCEL_TRY(accel__import_type(import, e.scale, ACCEL_PLUGIN_F32));
  ACCEL_TRY(accel__import_shape(import, e.scale, 1, &e.n));
  uint8_t order = 0;
  const bool one = layout && layout->dtype == ACCEL_PLUGIN_U8 && layout->elements == 1;
  if (one) ACCEL_TRY(accel__tensor_read(import->checkpoint, layout, 0, 1, &order));
  if (layout && (!one || order != 0))
    return accel__import_bad(import, layout, "only the row layout (0) is read");
  ACCEL_TRY(accel__import_mark(import, layout));
  e.format = (accel_plugin_format){.store = ACCEL_PLUGIN_I8,
                                   .scale = ACCEL_PLUGIN_F32,
                                   .zero = ACCEL_PLUGIN_NO_DTYPE,
                                   .outer = ACCEL_PLUGIN_NO_DTYPE,
                                   .group_n = 1};
  return accel__import_add(import, &e, t->name, stem, ".weight");
}

/* ---- 4 bits ---- */

/* The scale of block b; nested[256]: the values of nested_map. */
static float absmax_at(const accel__import_entry *e, const accel__import_bytes *from,
                       const float *nested, uint64_t b) {
  const codebook *c = e->more;
  if (!c->nested_map) return accel__import_value(e->scale, from->scale, b);
  const uint8_t code = ((const uint8_t *)from->scale)[b];
  return nested[code] * accel__import_value(e->outer, from->outer, b / (uint64_t)c->nested_block) +
         c->offset;
}

static accel_status read_codebook(const accel__import *import, const accel__import_entry *e,
                                  const accel__import_bytes *from, accel__quantised *out) {
  const codebook *c = e->more;
  const uint8_t *codes = from->codes;
  const uint64_t elements = (uint64_t)e->n * (uint64_t)e->k;
  float value[CODES], nested[NESTED_CODES] = {0}, scale = 0;
  ACCEL_TRY(accel__tensor_read(import->checkpoint, c->map, 0, sizeof value, value));
  if (c->nested_map)
    ACCEL_TRY(accel__tensor_read(import->checkpoint, c->nested_map, 0, sizeof nested, nested));
  for (uint64_t i = 0; i < elements; i++) {
    if (i % (uint64_t)c->block == 0) scale = absmax_at(e, from, nested, i / (uint64_t)c->block);
    const float w = value[codes[i / 2] >> (i % 2 ? 0 : 4) & 15] * scale;
    if (!isfinite(w))
      return accel__import_bad(import, e->scale, "block %" PRIu64 " is not finite",
                               i / (uint64_t)c->block);
    if (e->format.store == ACCEL_PLUGIN_F32)
      ((float *)out->data)[i] = w;
    else
      ((uint16_t *)out->data)[i] =
          e->format.store == ACCEL_PLUGIN_F16 ? accel_f32_to_fp16(w) : accel_f32_to_bf16(w);
  }
  return ACCEL_OK;
}

static accel_status read_shape(const accel__json_file *json, accel__import_entry *e) {
  const accel__json *shape = NULL;
  ACCEL_TRY(accel__json_require(json, json->root, "shape"));
  ACCEL_TRY(accel__json_array(json, json->root, "shape", &shape));
  const accel__json *n = shape->child, *k = n ? n->next : NULL;
  if (!k || k->next || !cJSON_IsNumber(n) || !cJSON_IsNumber(k) ||
      !(n->valuedouble >= 1 && n->valuedouble < 0x1p31) ||
      !(k->valuedouble >= 1 && k->valuedouble < 0x1p31))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: field 'shape' is not two sizes", json->name);
  e->n = (int64_t)n->valuedouble;
  e->k = (int64_t)k->valuedouble;
  return ACCEL_OK;
}

static accel_status read_state(const accel__json_file *json, accel__import_entry *e, codebook *c) {
  const char *dtype = "float16";
  double offset = 0;
  ACCEL_TRY(read_shape(json, e));
  ACCEL_TRY(accel__json_require(json, json->root, "blocksize"));
  ACCEL_TRY(accel__json_int(json, json->root, "blocksize", 1, 1 << 24, &c->block));
  ACCEL_TRY(accel__json_string(json, json->root, "dtype", &dtype));
  ACCEL_TRY(accel__json_int(json, json->root, "nested_blocksize", 1, 1 << 24, &c->nested_block));
  ACCEL_TRY(accel__json_number(json, json->root, "nested_offset", &offset));
  c->offset = (float)offset;
  e->format = (accel_plugin_format){
      ACCEL_PLUGIN_F16, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 0, 0};
  if (!strcmp(dtype, "bfloat16")) e->format.store = ACCEL_PLUGIN_BF16;
  if (!strcmp(dtype, "float32")) e->format.store = ACCEL_PLUGIN_F32;
  if (e->format.store == ACCEL_PLUGIN_F16 && strcmp(dtype, "float16"))
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: field 'dtype' is '%s'; read are float32, float16 and bfloat16",
                       json->name, dtype);
  return ACCEL_OK;
}

static accel_status parse_state(accel__import *import, const accel__tensor_info *state,
                                accel__import_entry *e, codebook *c) {
  accel__json_file json = {0};
  ACCEL_TRY(accel__import_type(import, state, ACCEL_PLUGIN_U8));
  if (state->bytes > MAX_STATE)
    return accel__import_bad(import, state, "%" PRIu64 " bytes are too many", state->bytes);
  accel__lent lent;
  ACCEL_TRY(accel__tensor_borrow(import->checkpoint, state, 0, state->bytes, &lent));
  accel_status status = accel__json_parse(lent.data, state->bytes, state->name, &json);
  accel__tensor_return(&lent);
  if (status == ACCEL_OK) status = read_state(&json, e, c);
  accel__json_free(&json);
  if (status == ACCEL_OK || status == ACCEL_ERROR_OUT_OF_MEMORY) return status;
  accel__wrap(status, "%s: tensor", accel__checkpoint_file(import->checkpoint, state->file));
  return accel__remedy(status, "the file must be as bitsandbytes wrote it: fetch it again");
}

static accel_status check_codebook(const accel__import *import, const accel__import_entry *e,
                                   const codebook *c) {
  const int64_t elements = e->n * e->k, blocks = (elements + c->block - 1) / c->block,
                codes = CODES, nested_codes = NESTED_CODES;
  if (e->codes->bytes != (uint64_t)(elements + 1) / 2)
    return accel__import_bad(import, e->codes,
                             "%" PRIu64 " bytes do not hold [%" PRId64 ",%" PRId64 "] codes",
                             e->codes->bytes, e->n, e->k);
  ACCEL_TRY(accel__import_type(import, c->map, ACCEL_PLUGIN_F32));
  ACCEL_TRY(accel__import_shape(import, c->map, 1, &codes));
  ACCEL_TRY(accel__import_shape(import, e->scale, 1, &blocks));
  if (!c->nested_map) return accel__import_float(import, e->scale);
  ACCEL_TRY(accel__import_type(import, e->scale, ACCEL_PLUGIN_U8));
  ACCEL_TRY(accel__import_type(import, c->nested_map, ACCEL_PLUGIN_F32));
  ACCEL_TRY(accel__import_shape(import, c->nested_map, 1, &nested_codes));
  if (c->nested_block < 1)
    return accel__import_bad(import, e->scale, "its state names no nested_blocksize");
  const int64_t outer = (blocks + c->nested_block - 1) / c->nested_block;
  ACCEL_TRY(accel__import_type(import, e->outer, ACCEL_PLUGIN_F32));
  return accel__import_shape(import, e->outer, 1, &outer);
}

/* t: x.weight.quant_map. */
static accel_status fours(accel__import *import, const accel__tensor_info *t, size_t stem) {
  codebook *c = accel__arena_alloc(&import->arena, sizeof *c);
  accel__import_entry e = {.bits = 4, .more = c, .read = read_codebook};
  if (!c) return ACCEL_ERROR_OUT_OF_MEMORY;
  c->map = t;
  const accel__tensor_info *state =
      accel__import_sibling(import, t->name, stem, ".quant_state.bitsandbytes__nf4");
  if (!state)
    ACCEL_TRY(accel__import_need(import, t, stem, ".quant_state.bitsandbytes__fp4", &state));
  ACCEL_TRY(accel__import_need(import, t, stem, "", &e.codes));
  ACCEL_TRY(accel__import_need(import, t, stem, ".absmax", &e.scale));
  e.outer = accel__import_sibling(import, t->name, stem, ".nested_absmax");
  if (e.outer) ACCEL_TRY(accel__import_need(import, t, stem, ".nested_quant_map", &c->nested_map));
  ACCEL_TRY(parse_state(import, state, &e, c));
  ACCEL_TRY(check_codebook(import, &e, c));
  const accel__tensor_info *parts[] = {state, c->map, c->nested_map};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    ACCEL_TRY(accel__import_mark(import, parts[i]));
  return accel__import_add(import, &e, t->name, stem, "");
}

static accel_status visit(accel__import *import, const accel__tensor_info *t) {
  size_t stem = accel__import_stem(t->name, ".quant_map");
  if (stem) return fours(import, t, stem);
  stem = accel__import_stem(t->name, ".weight");
  if (stem && t->dtype == ACCEL_PLUGIN_I8 &&
      !accel__import_sibling(import, t->name, stem, ".weight.quant_map"))
    return rows(import, t, stem);
  if (stem && t->dtype == ACCEL_PLUGIN_U8 &&
      !accel__import_sibling(import, t->name, stem, ".weight.quant_map"))
    return accel__import_bad(import, t, "its companion '%.*s.weight.quant_map' is missing",
                             (int)stem, t->name);
  return ACCEL_OK;
}

const accel__import_family accel__import_bitsandbytes = {
    .method = "bitsandbytes", .configure = configure, .visit = visit};
