/* conformance_precision.c - the weight formats of each precision (the table of the design), and fp32 weights
 * put into them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"
#include "formats/bf16.h"
#include "formats/e2m1.h"
#include "formats/e4m3.h"
#include "formats/e8m0.h"
#include "formats/fp16.h"
#include "formats/int4.h"
#include "kit/kit.h"

#define NONE ACCEL_PLUGIN_NO_DTYPE
static const accel_plugin_format plain_f32 = {ACCEL_PLUGIN_F32, NONE, NONE, NONE, 0, 0};
static const accel_plugin_format plain_f16 = {ACCEL_PLUGIN_F16, NONE, NONE, NONE, 0, 0};
static const accel_plugin_format plain_bf16 = {ACCEL_PLUGIN_BF16, NONE, NONE, NONE, 0, 0};
static const accel_plugin_format i8_rows = {ACCEL_PLUGIN_I8, ACCEL_PLUGIN_F32, NONE, NONE, 0, 1};
static const accel_plugin_format e4m3_rows = {
    ACCEL_PLUGIN_E4M3, ACCEL_PLUGIN_F32, NONE, NONE, 0, 1};
static const accel_plugin_format i4_groups = {ACCEL_PLUGIN_I4, ACCEL_PLUGIN_F16, NONE, NONE, 32, 1};
static const accel_plugin_format u4_groups = {
    ACCEL_PLUGIN_U4, ACCEL_PLUGIN_F16, ACCEL_PLUGIN_U8, NONE, 32, 1};
static const accel_plugin_format mx_groups = {
    ACCEL_PLUGIN_E2M1, ACCEL_PLUGIN_E8M0, NONE, NONE, 32, 1};

static const struct precision {
  const char *name;
  uint8_t compute, kv;
  /* linear and moe; lm_head and embedding; conv */
  const accel_plugin_format *linear, *table, *conv;
} precisions[] = {
    {"fp32", ACCEL_PLUGIN_F32, ACCEL_PLUGIN_F32, &plain_f32, &plain_f32, &plain_f32},
    {"fp16", ACCEL_PLUGIN_F16, ACCEL_PLUGIN_F16, &plain_f16, &plain_f16, &plain_f16},
    {"bf16", ACCEL_PLUGIN_BF16, ACCEL_PLUGIN_BF16, &plain_bf16, &plain_bf16, &plain_bf16},
    {"int8", ACCEL_PLUGIN_F32, ACCEL_PLUGIN_F16, &i8_rows, &i8_rows, &i8_rows},
    {"fp8", ACCEL_PLUGIN_F32, ACCEL_PLUGIN_F16, &e4m3_rows, &e4m3_rows, &plain_f16},
    {"int4", ACCEL_PLUGIN_F32, ACCEL_PLUGIN_F16, &i4_groups, &i8_rows, &i8_rows},
    {"uint4", ACCEL_PLUGIN_F32, ACCEL_PLUGIN_F16, &u4_groups, &i8_rows, &i8_rows},
    {"fp4", ACCEL_PLUGIN_F32, ACCEL_PLUGIN_F16, &mx_groups, &i8_rows, &i8_rows},
};

static const struct precision *find(const char *name) {
  for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++)
    if (strcmp(precisions[i].name, name) == 0) return &precisions[i];
  return NULL;
}

bool conf_precision(const char *name, accel_plugin_precision *out) {
  const struct precision *p = find(name);
  if (!p) return false;
  *out = (accel_plugin_precision){.size = sizeof *out,
                                  .compute = p->compute,
                                  .kv = p->kv,
                                  .flags = ACCEL_PLUGIN_ALLOW_EMULATED};
  strncpy(out->name, p->name, sizeof out->name - 1);
  return true;
}

static accel_plugin_format format_of(const struct precision *p, uint32_t use) {
  switch (use) {
    case ACCEL_PLUGIN_USE_LINEAR:
    case ACCEL_PLUGIN_USE_MOE:
      return *p->linear;
    case ACCEL_PLUGIN_USE_HEAD:
    case ACCEL_PLUGIN_USE_EMBEDDING:
      return *p->table;
    case ACCEL_PLUGIN_USE_CONV:
      return *p->conv;
  }
  return plain_f32;
}

/* Codes of one group of k elements; returns its scale and zero. */
static void encode_group(uint8_t store, const float *x, int64_t k, uint8_t *row, int64_t first,
                         float *scale, float *zero) {
  float low = 0, high = 0;
  for (int64_t i = 0; i < k; i++) low = fminf(low, x[i]), high = fmaxf(high, x[i]);
  float most = fmaxf(high, -low);
  *zero = 0;
  switch (store) {
    case ACCEL_PLUGIN_I8:
      *scale = most > 0 ? most / 127 : 1;
      break;
    case ACCEL_PLUGIN_E4M3:
      *scale = most > 0 ? most / 448 : 1;
      break;
    case ACCEL_PLUGIN_I4:
      *scale = accel_fp16_to_f32(accel_f32_to_fp16(most > 0 ? most / 7 : 1));
      break;
    case ACCEL_PLUGIN_U4:
      *scale = accel_fp16_to_f32(accel_f32_to_fp16(high > low ? (high - low) / 15 : 1));
      *zero = rintf(-low / *scale);
      break;
    default:
      *scale = accel_e8m0_to_f32(accel_f32_to_e8m0(most > 0 ? most / 6 : 1)); /* E2M1 */
  }
  for (int64_t i = 0; i < k; i++) {
    float q = x[i] / *scale + *zero;
    if (store == ACCEL_PLUGIN_I8)
      ((int8_t *)row)[first + i] = (int8_t)fmaxf(-127, fminf(127, rintf(q)));
    else if (store == ACCEL_PLUGIN_E4M3)
      row[first + i] = accel_f32_to_e4m3(q);
    else if (store == ACCEL_PLUGIN_I4)
      accel_nibble_set(row, (size_t)(first + i), accel_f32_to_int4(q));
    else if (store == ACCEL_PLUGIN_U4)
      accel_nibble_set(row, (size_t)(first + i), accel_f32_to_uint4(q));
    else
      accel_nibble_set(row, (size_t)(first + i), accel_f32_to_e2m1(q));
  }
}

static void put_scale(uint8_t dtype, void *at, int64_t i, float value) {
  if (dtype == ACCEL_PLUGIN_F32)
    ((float *)at)[i] = value;
  else if (dtype == ACCEL_PLUGIN_F16)
    ((uint16_t *)at)[i] = accel_f32_to_fp16(value);
  else
    ((uint8_t *)at)[i] = accel_f32_to_e8m0(value);
}

/* data, scale and zero in one allocation, deliberately not aligned to 64 bytes. */
static void *encode(const accel_plugin_weight *w, const accel_plugin_format *f, const float *x,
                    accel_plugin_weight_view *view) {
  int64_t n, k;
  kit_weight_matrix(w, &n, &k);
  int64_t group = f->group_k ? f->group_k : (k ? k : 1), per_row = (k + group - 1) / group,
          scales = n * per_row;
  int64_t row_bytes = f->store == ACCEL_PLUGIN_F32                                   ? k * 4
                      : f->store <= ACCEL_PLUGIN_BF16                                ? k * 2
                      : f->store == ACCEL_PLUGIN_I8 || f->store == ACCEL_PLUGIN_E4M3 ? k
                                                                                     : (k + 1) / 2;
  int64_t data_bytes = (n * row_bytes + 7) / 8 * 8;
  char *memory = calloc(1, (size_t)(16 + data_bytes + scales * 5));
  if (!memory) return NULL;
  uint8_t *data = (uint8_t *)memory + 4;
  char *scale = memory + 16 + data_bytes;
  uint8_t *zero = (uint8_t *)scale + scales * 4;
  *view = (accel_plugin_weight_view){.data = data};
  for (int64_t r = 0; r < n; r++)
    for (int64_t i = 0; i < k; i++) {
      uint8_t *row = data + r * row_bytes;
      if (f->store == ACCEL_PLUGIN_F32)
        memcpy(row + i * 4, &x[r * k + i], 4);
      else if (f->store == ACCEL_PLUGIN_F16)
        ((uint16_t *)row)[i] = accel_f32_to_fp16(x[r * k + i]);
      else if (f->store == ACCEL_PLUGIN_BF16)
        ((uint16_t *)row)[i] = accel_f32_to_bf16(x[r * k + i]);
      else if (i % group == 0) {
        float s, z;
        encode_group(f->store, x + r * k + i, k - i < group ? k - i : group, row, i, &s, &z);
        put_scale(f->scale, scale, r * per_row + i / group, s);
        zero[r * per_row + i / group] = (uint8_t)z;
      }
    }
  if (f->store > ACCEL_PLUGIN_BF16) view->scale = scale;
  if (f->zero != NONE) view->zero = zero;
  return memory;
}

const char *conf_weights_new(const accel_plugin_program *p, const accel_plugin_precision *precision,
                             const float *const *values, conf_weights *out) {
  const struct precision *table = find(precision->name);
  memset(out, 0, sizeof *out);
  out->n = p->n_weight;
  out->format = calloc(p->n_weight + 1, sizeof *out->format);
  out->view = calloc(p->n_weight + 1, sizeof *out->view);
  out->memory = calloc(p->n_weight + 1, sizeof *out->memory);
  if (!out->format || !out->view || !out->memory) return "no memory";
  for (uint32_t i = 0; i < p->n_weight; i++) {
    out->format[i] = format_of(table, p->weight[i].use);
    out->memory[i] = encode(&p->weight[i], &out->format[i], values[i], &out->view[i]);
    if (!out->memory[i]) return "no memory";
  }
  return NULL;
}

void conf_weights_free(conf_weights *w) {
  for (uint32_t i = 0; w->memory && i < w->n; i++) free(w->memory[i]);
  free(w->memory);
  free(w->format);
  free(w->view);
  memset(w, 0, sizeof *w);
}
