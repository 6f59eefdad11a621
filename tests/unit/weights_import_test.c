/* weights_import_test.c - quantised checkpoints: every unpacker against what the tools' own code
 * makes of their files (tests/fixtures/models/quantised/units, made by
 * tests/goldens/make_quantised_goldens.py), and files that lie. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/config.h"
#include "core/file.h"
#include "core/text.h"
#include "unit/tensor_bytes.h"
#include "temp.h"
#include "weights/import.h"
#include "weights/source.h"

#define UNITS ACCEL_FIXTURES "/models/quantised/units"

typedef struct opened {
  accel__json_file config;
  accel__checkpoint *checkpoint;
  accel__import *import;
} opened;

static accel_status open_import(const char *directory, opened *o) {
  char path[600];
  *o = (opened){0};
  snprintf(path, sizeof path, "%.500s/config.json", directory);
  ACCEL_TRY(accel__json_read(path, 0, &o->config));
  snprintf(path, sizeof path, "%.500s/model.safetensors", directory);
  /* as a load does it: formats are settled by the headers and small tensors, then files are opened */
  ACCEL_TRY(accel__checkpoint_open_headers(path, &o->checkpoint));
  ACCEL_TRY(accel__import_open(&o->config, o->checkpoint, &o->import));
  return accel__checkpoint_read(o->checkpoint);
}

static void close_import(opened *o) {
  accel__import_free(&o->import);
  accel__checkpoint_close(&o->checkpoint);
  accel__json_free(&o->config);
}

static void open_unit(const char *name, opened *o) {
  char path[600];
  snprintf(path, sizeof path, "%s/%s", UNITS, name);
  if (open_import(path, o) != ACCEL_OK) fail_msg("%s: %s", name, accel__message());
}

/* Largest difference to the expected weight, in units of its largest magnitude. */
static double difference(const char *unit, const accel__quantised *q, const accel__checkpoint *c,
                         const accel__tensor_info *expected) {
  float *ours = malloc((size_t)(q->n * q->k) * sizeof *ours),
        *theirs = malloc((size_t)(q->n * q->k) * sizeof *theirs);
  double most = 0, worst = 0;
  assert_true(ours && theirs);
  assert_int_equal(expected->elements, q->n * q->k);
  assert_int_equal(accel__tensor_to_f32(c, expected, 0, expected->elements, theirs), ACCEL_OK);
  accel__dequantise_rows(q, 0, q->n, ours);
  for (int64_t i = 0; i < q->n * q->k; i++) {
    if (!isfinite(ours[i])) fail_msg("%s: element %lld is %g", unit, (long long)i, (double)ours[i]);
    most = fmax(most, fabs((double)theirs[i]));
    worst = fmax(worst, fabs((double)ours[i] - (double)theirs[i]));
  }
  free(ours);
  free(theirs);
  if (!(most > 0)) fail_msg("%s: all zeros were expected", unit);
  return worst / most;
}

static void check_unit(const char *name) {
  char path[600];
  opened o;
  accel__checkpoint *expected;
  accel__quantised q;
  accel_plugin_format format;
  int64_t n, k;
  open_unit(name, &o);
  if (!o.import) fail_msg("%s: not taken for a quantised checkpoint", name);
  snprintf(path, sizeof path, "%s/%s/expected.safetensors", UNITS, name);
  assert_int_equal(accel__checkpoint_open(path, &expected), ACCEL_OK);
  const accel__tensor_info *t = accel__checkpoint_at(expected, 0);
  if (!accel__import_find(o.import, t->name, &format, &n, &k))
    fail_msg("%s: '%s' not found", name, t->name);
  if (n != t->dim[0] || k != t->dim[1])
    fail_msg("%s: [%lld,%lld]", name, (long long)n, (long long)k);
  if (accel__import_read(o.import, t->name, &q) != ACCEL_OK)
    fail_msg("%s: %s", name, accel__message());
  assert_memory_equal(&q.format, &format, sizeof format);
  const double worst = difference(name, &q, expected, t);
  if (worst > 2e-7) fail_msg("%s: off by %g of the largest weight", name, worst);
  for (uint32_t i = 0; i < accel__checkpoint_count(o.checkpoint); i++)
    if (!accel__import_uses(o.import, accel__checkpoint_at(o.checkpoint, i)->name))
      fail_msg("%s: tensor '%s' is left over", name, accel__checkpoint_at(o.checkpoint, i)->name);
  accel__import_forget(o.import, t->name);
  accel__quantised_free(&q);
  accel__checkpoint_close(&expected);
  close_import(&o);
}

static void test_every_unit_is_unpacked_as_its_tool_does(void **state) {
  (void)state;
  accel__arena arena = {0};
  char **names;
  size_t n;
  assert_int_equal(accel__list_directory(UNITS, &arena, &names, &n), ACCEL_OK);
  assert_true(n >= 65);
  for (size_t i = 0; i < n; i++) check_unit(names[i]);
  accel__arena_free(&arena);
}

/* ---- the formats they arrive in ---- */

static void test_formats(void **state) {
  (void)state;
  static const struct {
    const char *unit, *weight, *precision;
    accel_plugin_format format;
  } cases[] = {
#define NO ACCEL_PLUGIN_NO_DTYPE
      {"gptq_v1_4",
       "x.weight",
       "uint4",
       {ACCEL_PLUGIN_U4, ACCEL_PLUGIN_F16, ACCEL_PLUGIN_U8, NO, 64, 1}},
      {"gptq_v2_2",
       "x.weight",
       "uint4",
       {ACCEL_PLUGIN_U4, ACCEL_PLUGIN_F16, ACCEL_PLUGIN_U8, NO, 0, 1}},
      {"gptq_v1_8", "x.weight", "int8", {ACCEL_PLUGIN_I8, ACCEL_PLUGIN_F32, NO, NO, 64, 1}},
      {"gptq_v2_8",
       "x.weight",
       "int8",
       {ACCEL_PLUGIN_I8, ACCEL_PLUGIN_F32, ACCEL_PLUGIN_I8, NO, 0, 1}},
      {"gptq_order", "x.weight", "fp16", {ACCEL_PLUGIN_F16, NO, NO, NO, 0, 0}},
      {"gptq_f32_scales",
       "x.weight",
       "uint4",
       {ACCEL_PLUGIN_U4, ACCEL_PLUGIN_F16, ACCEL_PLUGIN_U8, NO, 32, 1}},
      {"awq_64",
       "x.weight",
       "uint4",
       {ACCEL_PLUGIN_U4, ACCEL_PLUGIN_F16, ACCEL_PLUGIN_U8, NO, 64, 1}},
      {"packed_4", "x.weight", "int4", {ACCEL_PLUGIN_I4, ACCEL_PLUGIN_F16, NO, NO, 32, 1}},
      {"packed_asym_group",
       "x.weight",
       "uint4",
       {ACCEL_PLUGIN_U4, ACCEL_PLUGIN_F32, ACCEL_PLUGIN_U8, NO, 64, 1}},
      {"packed_asym_7",
       "x.weight",
       "int8",
       {ACCEL_PLUGIN_I8, ACCEL_PLUGIN_F32, ACCEL_PLUGIN_I8, NO, 0, 1}},
      {"int8_tensor", "x.weight", "int8", {ACCEL_PLUGIN_I8, ACCEL_PLUGIN_F32, NO, NO, 0, 1}},
      {"float8_block", "x.weight", "fp8", {ACCEL_PLUGIN_E4M3, ACCEL_PLUGIN_F32, NO, NO, 32, 16}},
      {"fp8_block_e8m0", "x.weight", "fp8", {ACCEL_PLUGIN_E4M3, ACCEL_PLUGIN_F32, NO, NO, 32, 16}},
      {"nvfp4",
       "x.weight",
       "fp4",
       {ACCEL_PLUGIN_E2M1, ACCEL_PLUGIN_E4M3, NO, ACCEL_PLUGIN_F32, 16, 1}},
      {"mxfp4", "x.weight", "fp4", {ACCEL_PLUGIN_E2M1, ACCEL_PLUGIN_E8M0, NO, NO, 32, 1}},
      {"mxfp4_experts", "x", "fp4", {ACCEL_PLUGIN_E2M1, ACCEL_PLUGIN_E8M0, NO, NO, 32, 1}},
      {"bnb_int8", "x.weight", "int8", {ACCEL_PLUGIN_I8, ACCEL_PLUGIN_F32, NO, NO, 0, 1}},
      {"bnb_nf4", "x.weight", "bf16", {ACCEL_PLUGIN_BF16, NO, NO, NO, 0, 0}},
      {"bnb_nf4_f16", "x.weight", "fp16", {ACCEL_PLUGIN_F16, NO, NO, NO, 0, 0}},
      {"bnb_nf4_f32", "x.weight", "fp32", {ACCEL_PLUGIN_F32, NO, NO, NO, 0, 0}},
#undef NO
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    opened o;
    accel_plugin_format format;
    const char *const *notes;
    open_unit(cases[i].unit, &o);
    assert_true(accel__import_find(o.import, cases[i].weight, &format, NULL, NULL));
    if (!accel_format_equal(&format, &cases[i].format))
      fail_msg("%s: store %u scale %u zero %u outer %u groups %u x %u", cases[i].unit, format.store,
               format.scale, format.zero, format.outer, format.group_k, format.group_n);
    assert_string_equal(accel__import_precision(o.import), cases[i].precision);
    assert_true(accel__import_notes(o.import, &notes) >= 1);
    assert_false(accel__import_find(o.import, "x.bias", &format, NULL, NULL));
    close_import(&o);
  }
  assert_false(accel__import_find(NULL, "x.weight", NULL, NULL, NULL));
  assert_false(accel__import_uses(NULL, "x.weight"));
}

/* ---- files that lie ---- */

/* One thing of a unit made wrong: a tensor dropped, retyped, cut short or given other bytes, or the
 * configuration. */
enum { CONFIG_ONLY, DROP, RETYPE, DIM0, DIM1, POKE8, POKE32, RANK1 };
typedef struct edit {
  const char *unit, *tensor;
  int what;
  int64_t a, b;               /* RETYPE: dtype; DIM0, DIM1: size; POKE8, POKE32: index and value */
  const char *find, *replace; /* in config.json */
  accel_status status;
  const char *message; /* must be part of it */
} edit;
static const edit edits[] = {
    /* configurations */
    {"gptq_v1_4", NULL, CONFIG_ONLY, 0, 0, "\"quant_method\": \"gptq\"",
     "\"quant_method\": \"hqq\"", ACCEL_ERROR_UNSUPPORTED,
     "config.json: field 'quantization_config.quant_method' 'hqq' is not read"},
    {"gptq_v1_4", NULL, CONFIG_ONLY, 0, 0, "\"quant_method\"", "\"method\"",
     ACCEL_ERROR_UNSUPPORTED, "quant_method"},
    {"gptq_v1_4", NULL, CONFIG_ONLY, 0, 0, "\"quantization_config\"", "\"other\"",
     ACCEL_ERROR_UNSUPPORTED, "tensor 'x.qweight'"},
    {"gptq_v1_4", NULL, CONFIG_ONLY, 0, 0, "\"bits\": 4", "\"bits\": 5", ACCEL_ERROR_UNSUPPORTED,
     "field 'quantization_config.bits' is 5"},
    {"gptq_v1_4", NULL, CONFIG_ONLY, 0, 0, "\"bits\": 4", "\"bits\": \"4\"", ACCEL_ERROR_FORMAT,
     "bits"},
    {"gptq_v1_4", NULL, CONFIG_ONLY, 0, 0, "\"bits\": 4", "\"bats\": 4", ACCEL_ERROR_UNSUPPORTED,
     "bits"},
    {"gptq_v1_4", NULL, CONFIG_ONLY, 0, 0, "\"group_size\": 64", "\"group_size\": 0",
     ACCEL_ERROR_UNSUPPORTED, "group_size"},
    {"gptq_v1_4", NULL, CONFIG_ONLY, 0, 0, "\"group_size\": 64", "\"group_size\": -2",
     ACCEL_ERROR_UNSUPPORTED, "group_size"},
    {"gptq_v1_4", NULL, CONFIG_ONLY, 0, 0, "\"checkpoint_format\": \"gptq\"",
     "\"checkpoint_format\": \"marlin\"", ACCEL_ERROR_UNSUPPORTED, "'marlin'"},
    {"gptq_v1_4", NULL, CONFIG_ONLY, 0, 0, "\"sym\": true", "\"is_marlin_format\": true",
     ACCEL_ERROR_UNSUPPORTED, "marlin"},
    {"gptq_v1_4", NULL, CONFIG_ONLY, 0, 0, "\"sym\": true", "\"adapter\": {\"rank\": 4}",
     ACCEL_ERROR_UNSUPPORTED, "adapter"},
    {"awq_64", NULL, CONFIG_ONLY, 0, 0, "\"gemm\"", "\"gemv\"", ACCEL_ERROR_UNSUPPORTED, "version"},
    {"awq_64", NULL, CONFIG_ONLY, 0, 0, "\"bits\": 4", "\"bits\": 3", ACCEL_ERROR_UNSUPPORTED,
     "bits"},
    {"awq_64", NULL, CONFIG_ONLY, 0, 0, "\"group_size\": 64", "\"group_size\": 32",
     ACCEL_ERROR_FORMAT, "x.scales"},
    {"awq_64", NULL, CONFIG_ONLY, 0, 0, "\"zero_point\": true", "\"zero_point\": false",
     ACCEL_ERROR_UNSUPPORTED, "zero_point"},
    {"packed_4", NULL, CONFIG_ONLY, 0, 0, "\"pack-quantized\",\n  \"global",
     "\"marlin-24\",\n  \"global", ACCEL_ERROR_UNSUPPORTED, "marlin-24"},
    {"packed_4", NULL, CONFIG_ONLY, 0, 0, "\"compressed\"", "\"frozen\"", ACCEL_ERROR_UNSUPPORTED,
     "quantization_status"},
    {"packed_4", NULL, CONFIG_ONLY, 0, 0, "\"ignore\": []",
     "\"transform_config\": {\"config_groups\": {}}", ACCEL_ERROR_UNSUPPORTED, "transform"},
    {"packed_4", NULL, CONFIG_ONLY, 0, 0, "\"ignore\": []",
     "\"sparsity_config\": {\"format\": \"sparse-24-bitmask\"}", ACCEL_ERROR_UNSUPPORTED,
     "sparsity"},
    {"packed_4", NULL, CONFIG_ONLY, 0, 0, "\"num_bits\": 4", "\"num_bits\": 12",
     ACCEL_ERROR_UNSUPPORTED, "num_bits 12"},
    {"packed_4", NULL, CONFIG_ONLY, 0, 0, "\"num_bits\": 4", "\"num_bits\": 5", ACCEL_ERROR_FORMAT,
     "x.weight_shape"},
    {"packed_4", NULL, CONFIG_ONLY, 0, 0, "\"group_size\": 32", "\"group_size\": 48",
     ACCEL_ERROR_FORMAT, "fits no layout"},
    {"fp8_block", NULL, CONFIG_ONLY, 0, 0, "\"e4m3\"", "\"e5m2\"", ACCEL_ERROR_UNSUPPORTED, "fmt"},
    {"fp8_block", NULL, CONFIG_ONLY, 0, 0, "16,", "24,", ACCEL_ERROR_FORMAT, "x.weight_scale_inv"},
    {"fp8_block", NULL, CONFIG_ONLY, 0, 0, "16,", "\"16\",", ACCEL_ERROR_UNSUPPORTED,
     "weight_block_size"},
    {"bnb_int8", NULL, CONFIG_ONLY, 0, 0, "\"load_in_8bit\": true", "\"load_in_8bit\": false",
     ACCEL_ERROR_UNSUPPORTED, "load_in_8bit"},
    /* tensors */
    {"gptq_v1_4", "x.qzeros", DROP, 0, 0, NULL, NULL, ACCEL_ERROR_FORMAT, "'x.qzeros' is missing"},
    {"gptq_v1_4", "x.scales", DROP, 0, 0, NULL, NULL, ACCEL_ERROR_FORMAT, "'x.scales' is missing"},
    {"gptq_v1_4", "x.qweight", RETYPE, ACCEL_PLUGIN_F32, 0, NULL, NULL, ACCEL_ERROR_FORMAT, "F32"},
    {"gptq_v1_4", "x.scales", DIM0, 2, 0, NULL, NULL, ACCEL_ERROR_FORMAT, "x."},
    {"gptq_v1_4", "x.g_idx", DIM0, 96, 0, NULL, NULL, ACCEL_ERROR_FORMAT, "x."},
    {"gptq_v1_4", "x.g_idx", POKE32, 5, 3, NULL, NULL, ACCEL_ERROR_FORMAT,
     "column 5 is of group 3, there are 3"},
    {"gptq_v1_4", "x.g_idx", POKE32, 7, -1, NULL, NULL, ACCEL_ERROR_FORMAT, "column 7"},
    {"gptq_v1_4", "x.g_idx", DROP, 0, 0, NULL, NULL, ACCEL_OK, ""},
    {"awq_64", "x.qweight", DIM1, 4, 0, NULL, NULL, ACCEL_ERROR_FORMAT, "x."},
    {"awq_64", "x.qzeros", DROP, 0, 0, NULL, NULL, ACCEL_ERROR_FORMAT, "x.qzeros"},
    {"awq_64", "x.qzeros", RANK1, 0, 0, NULL, NULL, ACCEL_ERROR_FORMAT, "x.qzeros"},
    {"packed_4", "x.weight_shape", DROP, 0, 0, NULL, NULL, ACCEL_ERROR_FORMAT, "x.weight_shape"},
    {"packed_4", "x.weight_shape", POKE32, 2, 0x7fffffff, NULL, NULL, ACCEL_ERROR_FORMAT,
     "x.weight_shape"},
    {"packed_4", "x.weight_shape", POKE32, 3, -1, NULL, NULL, ACCEL_ERROR_FORMAT, "x.weight_shape"},
    {"packed_4", "x.weight_packed", RETYPE, ACCEL_PLUGIN_F32, 0, NULL, NULL, ACCEL_ERROR_FORMAT,
     "F32"},
    {"packed_asym_4", "x.weight_zero_point", DIM0, 2, 0, NULL, NULL, ACCEL_ERROR_FORMAT,
     "x.weight_zero_point"},
    {"nvfp4", "x.weight_scale", RETYPE, ACCEL_PLUGIN_I8, 0, NULL, NULL, ACCEL_ERROR_FORMAT,
     "x.weight_scale"},
    {"nvfp4", "x.weight_scale", POKE8, 3, 0x7f, NULL, NULL, ACCEL_ERROR_FORMAT, "scale 3"},
    {"nvfp4", "x.weight_global_scale", POKE32, 0, 0, NULL, NULL, ACCEL_ERROR_FORMAT,
     "x.weight_global_scale"},
    {"mxfp4", "x.weight_scale", POKE8, 2, 0xff, NULL, NULL, ACCEL_ERROR_FORMAT, "scale 2"},
    {"mxfp4", "x.weight_scale", DIM1, 2, 0, NULL, NULL, ACCEL_ERROR_FORMAT, "x.weight_scale"},
    {"float8_channel", "x.weight_scale", DROP, 0, 0, NULL, NULL, ACCEL_ERROR_FORMAT,
     "x.weight_scale"},
    {"int8_channel", "x.weight_scale", POKE32, 4, 0x7f800000, NULL, NULL, ACCEL_ERROR_FORMAT,
     "scale 4 is not a finite number"},
    {"fp8_block", "x.weight_scale_inv", DROP, 0, 0, NULL, NULL, ACCEL_ERROR_FORMAT, "x.weight"},
    {"fp8_block", "x.weight_scale_inv", POKE32, 1, 0x7fc00000, NULL, NULL, ACCEL_ERROR_FORMAT,
     "scale 1"},
    {"mxfp4_experts", "x_scales", DIM0, 2, 0, NULL, NULL, ACCEL_ERROR_FORMAT, "x_scales"},
    {"bnb_int8", "x.SCB", DIM0, 22, 0, NULL, NULL, ACCEL_ERROR_FORMAT, "x.SCB"},
    {"bnb_int8", "x.weight_format", POKE8, 0, 1, NULL, NULL, ACCEL_ERROR_FORMAT, "x.weight_format"},
    {"bnb_nf4", "x.weight.absmax", DIM0, 3, 0, NULL, NULL, ACCEL_ERROR_FORMAT, "x.weight.absmax"},
    {"bnb_nf4", "x.weight.quant_map", DIM0, 15, 0, NULL, NULL, ACCEL_ERROR_FORMAT,
     "x.weight.quant_map"},
    {"bnb_nf4", "x.weight.quant_state.bitsandbytes__nf4", DROP, 0, 0, NULL, NULL,
     ACCEL_ERROR_FORMAT, "quant_state"},
    {"bnb_nf4", "x.weight.quant_state.bitsandbytes__nf4", POKE8, 0, 'x', NULL, NULL,
     ACCEL_ERROR_FORMAT, "quant_state"},
    {"bnb_nf4_nested", "x.weight.nested_quant_map", DIM0, 255, 0, NULL, NULL, ACCEL_ERROR_FORMAT,
     "nested_quant_map"},
    {"bnb_nf4_nested", "x.weight.nested_absmax", RETYPE, ACCEL_PLUGIN_I32, 0, NULL, NULL,
     ACCEL_ERROR_FORMAT, "nested_absmax"},
};

static char *edited_config(const edit *e) {
  char path[600], *text;
  size_t n;
  accel__buffer out = {0};
  snprintf(path, sizeof path, "%s/%s/config.json", UNITS, e->unit);
  assert_int_equal(accel__file_read(path, 1 << 20, &text, &n), ACCEL_OK);
  const char *at = e->find ? strstr(text, e->find) : NULL;
  if (e->find && !at) fail_msg("%s: '%s' is not in %s", e->unit, e->find, text);
  if (at) {
    accel__buffer_bytes(&out, text, (size_t)(at - text));
    accel__buffer_text(&out, e->replace);
    accel__buffer_text(&out, at + strlen(e->find));
  } else {
    accel__buffer_text(&out, text);
  }
  free(text);
  return out.data;
}

/* Applies the edit to a tensor; *poked must be freed. */
static void edit_tensor(const edit *e, accel__tensor_info *t, void **poked) {
  if (e->what == RETYPE) t->dtype = (accel_plugin_dtype)e->a;
  if (e->what == DIM0) t->dim[0] = e->a;
  if (e->what == DIM1) t->dim[1] = e->a;
  if (e->what == RANK1) t->rank = 1, t->dim[0] = (int64_t)t->elements;
  if (e->what == POKE8 || e->what == POKE32) {
    const size_t size = e->what == POKE8 ? 1 : 4;
    assert_true((uint64_t)(e->a + 1) * size <= t->bytes);
    *poked = malloc(t->bytes);
    memcpy(*poked, t->data, t->bytes);
    const uint32_t value = (uint32_t)e->b;
    memcpy((char *)*poked + (size_t)e->a * size, &value, size);
    t->data = *poked;
  }
  t->elements = 1;
  for (uint32_t d = 0; d < t->rank; d++) t->elements *= (uint64_t)t->dim[d];
  t->bytes = t->elements * accel__dtype_bits(t->dtype) / 8;
}

static void write_edited(const edit *e, const char *directory) {
  char path[600];
  accel__checkpoint *c;
  accel__tensor_info tensor[32];
  uint32_t n = 0;
  void *poked = NULL;
  snprintf(path, sizeof path, "%s/%s/model.safetensors", UNITS, e->unit);
  assert_int_equal(accel__checkpoint_open(path, &c), ACCEL_OK);
  for (uint32_t i = 0; i < accel__checkpoint_count(c); i++) {
    const accel__tensor_info *t = accel__checkpoint_at(c, i);
    const bool meant = e->tensor && !strcmp(t->name, e->tensor);
    if (meant && e->what == DROP) continue;
    assert_true(n < 32);
    tensor[n] = *t;
    tensor[n].data = stored(c, t);
    if (meant) edit_tensor(e, &tensor[n], &poked);
    n++;
  }
  snprintf(path, sizeof path, "%.500s/model.safetensors", directory);
  assert_int_equal(accel__safetensors_write(path, tensor, n, NULL, 0), ACCEL_OK);
  free(poked);
  accel__checkpoint_close(&c);
}

static void test_files_that_lie(void **state) {
  (void)state;
  char name[40];
  for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
    const edit *e = &edits[i];
    opened o;
    accel__quantised q = {0};
    char *config = edited_config(e);
    snprintf(name, sizeof name, "lie%zu/config.json", i);
    temp_text(name, config);
    free(config);
    snprintf(name, sizeof name, "lie%zu", i);
    write_edited(e, temp_path(name));
    accel_status status = open_import(temp_path(name), &o);
    if (status == ACCEL_OK && o.import)
      status = accel__import_read(
          o.import, accel__import_find(o.import, "x", NULL, NULL, NULL) ? "x" : "x.weight", &q);
    if (status != e->status || (status != ACCEL_OK && !strstr(accel__message(), e->message)))
      fail_msg("%s, %s (%s): status %d, %s", e->unit, e->tensor ? e->tensor : "config",
               e->replace ? e->replace : "-", status, accel__message());
    if (status != ACCEL_OK) assert_string_not_equal(accel__remedy_text(), "");
    accel__quantised_free(&q);
    close_import(&o);
  }
}

/* ---- rows of a fused tensor, and tensors joined, through the source ---- */

/* The weight in `format` is rows [first, first+rows) of x.weight, to the last bit. */
static void check_rows(const opened *o, const accel__source_weight *w,
                       const accel_plugin_format *format, int64_t first) {
  const int64_t rows = w->dim[0], k = w->dim[1];
  accel__source *source;
  accel_plugin_weight_view view;
  accel__quantised whole;
  float *ours = malloc((size_t)(rows * k) * sizeof *ours),
        *theirs = malloc((size_t)(rows * k) * sizeof *theirs);
  if (accel__source_new(w, 1,
                        &(accel__source_from){.checkpoint = o->checkpoint, .import = o->import},
                        format, &source) != ACCEL_OK)
    fail_msg("%s", accel__message());
  if (accel__source_map(source, 0, &view) != ACCEL_OK) fail_msg("%s", accel__message());
  accel_matrix_rows(&(accel_matrix){*format, rows, k, view.data, view.scale, view.zero, view.outer},
                    0, rows, ours);
  assert_int_equal(accel__import_read(o->import, "x.weight", &whole), ACCEL_OK);
  for (int64_t at = 0; at < rows; at += whole.n) /* joined: the same tensor again */
    accel__dequantise_rows(&whole, first, rows < whole.n ? rows : whole.n, theirs + at * k);
  assert_memory_equal(ours, theirs, (size_t)(rows * k) * sizeof *ours);
  accel__source_unmap(source, 0);
  accel__source_free(&source);
  accel__quantised_free(&whole);
  free(ours);
  free(theirs);
}

static void test_rows_and_joins_keep_the_codes(void **state) {
  (void)state;
  static const accel_plugin_format fp32 = {
      ACCEL_PLUGIN_F32, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 0, 0};
  static const char *const unit[] = {
      "gptq_v1_4", "packed_asym_4", "int8_group_asym", "fp8_block", "float8_block",
      "nvfp4",     "mxfp4",         "bnb_int8",        "bnb_nf4",   "gptq_order"};
  for (size_t u = 0; u < sizeof unit / sizeof *unit; u++) {
    opened o;
    int64_t n, k;
    accel_plugin_format own, format;
    open_unit(unit[u], &o);
    const accel__source_from from = {.checkpoint = o.checkpoint, .import = o.import};
    assert_true(accel__import_find(o.import, "x.weight", &own, &n, &k));
    for (int64_t first = 0; first < n; first += 5) {
      const int64_t rows = n - first < 7 ? n - first : 7;
      const accel__source_weight w = {.name = "x.rows",
                                      .use = ACCEL_PLUGIN_USE_LINEAR,
                                      .rank = 2,
                                      .dim = {rows, k},
                                      .parts = {"x.weight"},
                                      .n_parts = 1,
                                      .first_row = first,
                                      .stored_rows = n};
      assert_true(accel__source_stored(&w, &from, &format));
      assert_int_equal(format.store, own.store);
      /* blocks of rows have been cut */
      if (!accel_format_plain(&format)) assert_int_equal(format.group_n, 1);
      check_rows(&o, &w, &format, first);
      check_rows(&o, &w, &fp32, first);
    }
    const accel__source_weight twice = {.name = "x.twice",
                                        .use = ACCEL_PLUGIN_USE_LINEAR,
                                        .rank = 2,
                                        .dim = {2 * n, k},
                                        .parts = {"x.weight", "x.weight"},
                                        .n_parts = 2};
    const bool joined = accel__source_stored(&twice, &from, &format);
    assert_int_equal(joined, own.outer == ACCEL_PLUGIN_NO_DTYPE); /* there is one outer scale */
    if (joined) check_rows(&o, &twice, &format, 0);
    check_rows(&o, &twice, &fp32, 0);
    close_import(&o);
  }
}

static void test_plain_checkpoints_are_plain(void **state) {
  (void)state;
  opened o;
  if (open_import(ACCEL_FIXTURES "/models/bert", &o) != ACCEL_OK) fail_msg("%s", accel__message());
  assert_null(o.import);
  close_import(&o);
}

/* No memory at any point: an error, nothing leaked (the sanitizer looks), nothing half made. */
static void test_no_memory(void **state) {
  (void)state;
  static const char *const unit[] = {"gptq_v1_4", "packed_asym_4", "bnb_nf4_nested", "nvfp4"};
  for (size_t u = 0; u < sizeof unit / sizeof *unit; u++) {
    for (int at = 1; at < 40; at++) {
      char points[80], path[600];
      opened o;
      accel__quantised q = {0};
      snprintf(points, sizeof points, "allocation:%d,weight_buffer:%d", at, at);
      snprintf(path, sizeof path, "%s/%s", UNITS, unit[u]);
      accel__fault_arm(points);
      accel_status status = open_import(path, &o);
      if (status == ACCEL_OK) status = accel__import_read(o.import, "x.weight", &q);
      accel__fault_arm(NULL);
      if (status != ACCEL_OK) {
        assert_int_equal(status, ACCEL_ERROR_OUT_OF_MEMORY);
        assert_null(q.block);
      }
      accel__quantised_free(&q);
      close_import(&o);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_unit_is_unpacked_as_its_tool_does),
      cmocka_unit_test(test_formats),
      cmocka_unit_test(test_files_that_lie),
      cmocka_unit_test(test_rows_and_joins_keep_the_codes),
      cmocka_unit_test(test_plain_checkpoints_are_plain),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
