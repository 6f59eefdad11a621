/* conformance_precision.c - the weight formats of each precision (formats.def), and fp32 weights
 * put into them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"
#include "formats/weight_matrix.h"
#include "kit/kit.h"

#define NONE ACCEL_PLUGIN_NO_DTYPE

const char *conf_precision_at(uint32_t i) {
  for (uint32_t store = 0; store < ACCEL_FORMAT_NUMBERS; store++)
    if (*accel_format_facts_of(store)->precision && !i--)
      return accel_format_facts_of(store)->precision;
  return NULL;
}

bool conf_precision(const char *name, accel_plugin_precision *out) {
  const uint8_t store = accel_precision_store(name);
  if (store == NONE) return false;
  const bool plain = store <= ACCEL_PLUGIN_BF16;
  *out = (accel_plugin_precision){.size = sizeof *out,
                                  .compute = plain ? store : ACCEL_PLUGIN_F32,
                                  .kv = plain ? store : ACCEL_PLUGIN_F16,
                                  .flags = ACCEL_PLUGIN_ALLOW_EMULATED};
  strncpy(out->name, name, sizeof out->name - 1);
  return true;
}

/* Linears of int8 have a scale for each row where rows are short, else one for each 32, 64 or 96
 * elements, as their length chooses, and 128 or 256 in longer rows. */
static accel_plugin_format format_of(uint8_t store, const accel_plugin_weight *w) {
  enum { SHORT = 64, MEDIUM = 256, LONG = 512 };
  int64_t n, k;
  kit_weight_matrix(w, &n, &k);
  if (w->use != ACCEL_PLUGIN_USE_LINEAR && w->use != ACCEL_PLUGIN_USE_MOE)
    return accel_format_for_use(store, w->use);
  accel_plugin_format f = accel_format_for_test(store);
  if (store == ACCEL_PLUGIN_I8 && w->use == ACCEL_PLUGIN_USE_LINEAR && k > SHORT)
    f.group_k = k < MEDIUM ? 32 * (1 + (uint32_t)(k % 3)) : k < LONG ? 128 : 256;
  return f;
}

/* Codes of one group of k elements; returns its scale and zero. */
static void encode_group(const accel_plugin_format *f, const float *x, int64_t k, uint8_t *row,
                         int64_t first, float *scale, float *zero) {
  const float largest = accel_format_facts_of(f->store)->largest;
  float low = 0, high = 0;
  for (int64_t i = 0; i < k; i++) low = fminf(low, x[i]), high = fmaxf(high, x[i]);
  const float most = fmaxf(high, -low);
  *scale = most > 0 ? most / largest : 1;
  if (f->zero != NONE) *scale = high > low ? (high - low) / 15 : 1;
  if (f->scale == ACCEL_PLUGIN_F16) *scale = accel_fp16_to_f32(accel_f32_to_fp16(*scale));
  if (f->scale == ACCEL_PLUGIN_E8M0) *scale = accel_e8m0_to_f32(accel_f32_to_e8m0(*scale));
  *zero = f->zero != NONE ? rintf(-low / *scale) : 0;
  for (int64_t i = 0; i < k; i++) {
    const float q = x[i] / *scale + *zero;
    uint8_t code = 0;
    accel_encode_codes(f->store, &q, 1, 1, &code);
    if (accel_format_bits(f->store) == 4)
      accel_nibble_set(row, (size_t)(first + i), code);
    else
      row[first + i] = code;
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
  int64_t row_bytes = (int64_t)accel_row_bytes(f->store, k);
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
        encode_group(f, x + r * k + i, k - i < group ? k - i : group, row, i, &s, &z);
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
  const uint8_t store = accel_precision_store(precision->name);
  memset(out, 0, sizeof *out);
  out->n = p->n_weight;
  out->format = calloc(p->n_weight + 1, sizeof *out->format);
  out->view = calloc(p->n_weight + 1, sizeof *out->view);
  out->memory = calloc(p->n_weight + 1, sizeof *out->memory);
  if (!out->format || !out->view || !out->memory) return "no memory";
  for (uint32_t i = 0; i < p->n_weight; i++) {
    out->format[i] = format_of(store, &p->weight[i]);
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
