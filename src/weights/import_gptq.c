/* import_gptq.c - GPTQ (AutoGPTQ, GPTQModel): x.qweight I32 [ceil(K*bits/32), N], codes packed
 * along K; x.qzeros I32 [groups, ceil(N*bits/32)], packed along N; x.scales [groups, N]; x.g_idx
 * I32 [K], the group of each column.
 *
 *   w[n][k] = (code[k][n] - zero[g][n]) * scale[g][n],  g = g_idx[k]
 *
 * Version 1 stores zero - 1, version 2 zero.  The field that says which ("checkpoint_format") is
 * wrong in some symmetric checkpoints; there the true zero is known, so the values decide.  2, 3
 * and 4 bits become U4, 8 bits I8.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "weights/import_family.h"

typedef struct gptq {
  int64_t bits, group; /* group -1: one for all of K */
  bool symmetric;
  bool stored_zero; /* version 2 */
} gptq;
typedef struct zeros {
  bool as_stored; /* of this weight, after looking at the values */
  bool middle;    /* all are 2^(bits-1) */
} zeros;

static accel_status configure(accel__import *import) {
  gptq *s = accel__arena_alloc(&import->arena, sizeof *s);
  const char *format = "gptq", *newer = NULL;
  bool marlin = false;
  if (!s) return ACCEL_ERROR_OUT_OF_MEMORY;
  *s = (gptq){.bits = 4, .group = 128, .symmetric = true};
  import->settings = s;
  if (!accel__json_get(import->config, "bits"))
    return accel__import_refuse(import, "bits", "is missing");
  ACCEL_TRY(accel__import_int(import, "bits", 2, 8, &s->bits));
  if (s->bits > 4 && s->bits != 8)
    return accel__import_refuse(import, "bits", "is %" PRId64 "; read are 2, 3, 4 and 8", s->bits);
  ACCEL_TRY(accel__import_int(import, "group_size", -1, 1 << 24, &s->group));
  if (s->group == 0)
    return accel__import_refuse(import, "group_size", "is 0; read are -1 and sizes");
  ACCEL_TRY(accel__import_bool(import, "sym", &s->symmetric));
  ACCEL_TRY(accel__import_bool(import, "is_marlin_format", &marlin));
  if (marlin)
    return accel__import_refuse(import, "is_marlin_format",
                                "is true: the marlin layout is not read");
  ACCEL_TRY(accel__import_string(import, "format", &newer));
  if (newer) format = newer;
  ACCEL_TRY(accel__import_string(import, "checkpoint_format", &format));
  if (strcmp(format, "gptq") && strcmp(format, "gptq_v2"))
    return accel__import_refuse(import, "checkpoint_format", "is '%s'; read are gptq and gptq_v2",
                                format);
  s->stored_zero = !strcmp(format, "gptq_v2");
  ACCEL_TRY(accel__import_empty(import, "adapter", "a low-rank adapter"));
  return accel__import_empty(import, "rotation", "a rotation of the activations");
}

/* ---- zeros ---- */

/* The zero of group g and row n. */
static uint32_t zero_at(const accel__import_entry *e, const accel__import_bytes *from, uint64_t g,
                        uint64_t n) {
  const uint64_t words = (uint64_t)e->zero->dim[1];
  const char *row = (const char *)from->zero + g * words * 4;
  if (((const zeros *)e->more)->as_stored) return accel__import_code(row, 1, words, e->bits, n);
  if (e->bits == 3) return (accel__import_code(row, 1, words, 3, n) + 1) & 7;
  /* Version 1 files are made by subtracting one from every code of a word at once: a zero of 0
   * borrows from its neighbour, which adding to the word gives back. */
  const uint64_t per_word = 32 / e->bits;
  uint32_t word, ones = 0;
  for (uint32_t shift = 0; shift < 32; shift += e->bits) ones |= 1u << shift;
  memcpy(&word, row + n / per_word * 4, 4);
  return (word + ones) >> (n % per_word * e->bits) & ((1u << e->bits) - 1u);
}

/* Are all stored zeros `value`? */
static bool all_stored(const accel__tensor_info *t, const void *bytes, uint32_t bits, uint64_t n,
                       uint32_t value) {
  const uint64_t words = (uint64_t)t->dim[1];
  for (uint64_t g = 0; g < (uint64_t)t->dim[0]; g++)
    for (uint64_t i = 0; i < n; i++)
      if (accel__import_code((const char *)bytes + g * words * 4, 1, words, bits, i) != value)
        return false;
  return n > 0 && t->dim[0] > 0;
}

static accel_status settle_zeros(accel__import *import, accel__import_entry *e) {
  const gptq *s = import->settings;
  zeros *z = accel__arena_alloc(&import->arena, sizeof *z);
  if (!z) return ACCEL_ERROR_OUT_OF_MEMORY;
  e->more = z;
  z->as_stored = s->stored_zero;
  if (!s->symmetric) return ACCEL_OK;
  accel__lent lent;
  ACCEL_TRY(accel__tensor_borrow(import->checkpoint, e->zero, 0, e->zero->bytes, &lent));
  const uint32_t half = 1u << (e->bits - 1);
  const bool second = all_stored(e->zero, lent.data, e->bits, (uint64_t)e->n, half),
             first = all_stored(e->zero, lent.data, e->bits, (uint64_t)e->n, half - 1);
  accel__tensor_return(&lent);
  z->middle = first || second;
  if (z->middle) z->as_stored = second;
  return ACCEL_OK;
}

/* ---- reading ---- */

static uint32_t code_at(const accel__import_entry *e, const void *codes, uint64_t k, uint64_t n) {
  const uint64_t stride = (uint64_t)e->codes->dim[1];
  return accel__import_code((const char *)codes + n * 4, stride, (uint64_t)e->codes->dim[0],
                            e->bits, k);
}

/* Eight codes of a column are one word, low nibble first: the words transposed are the rows. */
static void transpose_words(const accel__import_entry *e, const void *codes, uint8_t *out) {
  enum { TILE = 64 };
  const uint64_t n = (uint64_t)e->n, words = (uint64_t)e->codes->dim[0],
                 row_bytes = accel_row_bytes(ACCEL_PLUGIN_U4, e->k);
  for (uint64_t first = 0; first < n; first += TILE) {
    for (uint64_t j = 0; j < words; j++) {
      for (uint64_t r = first; r < n && r < first + TILE; r++) {
        const uint64_t left = row_bytes - j * 4; /* the last word may hold less than eight */
        memcpy(out + r * row_bytes + j * 4, (const char *)codes + (j * n + r) * 4,
               left < 4 ? left : 4);
      }
    }
  }
}

/* 2 and 3 bits as U4, 8 bits as I8, code - 128. */
static void spread_codes(const accel__import_entry *e, const void *codes, uint8_t *out) {
  const uint64_t row_bytes = accel_row_bytes(e->format.store, e->k);
  for (uint64_t n = 0; n < (uint64_t)e->n; n++) {
    uint8_t *row = out + n * row_bytes;
    for (uint64_t k = 0; k < (uint64_t)e->k; k++) {
      const uint8_t code = (uint8_t)code_at(e, codes, k, n);
      if (e->bits == 8)
        row[k] = code ^ 0x80;
      else
        accel_nibble_set(row, k, code);
    }
  }
}

static accel_status read_codes(const accel__import *import, const accel__import_entry *e,
                               const accel__import_bytes *from, accel__quantised *out) {
  const uint64_t n = (uint64_t)e->n, groups = (uint64_t)e->scale->dim[0];
  if (e->bits == 4)
    transpose_words(e, from->codes, out->data);
  else
    spread_codes(e, from->codes, out->data);
  for (uint64_t g = 0; g < groups && out->zero; g++)
    for (uint64_t r = 0; r < n; r++)
      ((uint8_t *)out->zero)[r * groups + g] =
          (uint8_t)(zero_at(e, from, g, r) ^ (e->bits == 8 ? 0x80u : 0));
  return accel__import_scales(import, e->scale, from->scale, true, out);
}

/* Columns in an order of their own share no scales with their neighbours: the numbers themselves,
 * as fp16. */
static accel_status read_numbers(const accel__import *import, const accel__import_entry *e,
                                 const accel__import_bytes *from, accel__quantised *out) {
  const uint64_t rows = (uint64_t)e->n, columns = (uint64_t)e->k;
  for (uint64_t n = 0; n < rows; n++) {
    for (uint64_t k = 0; k < columns; k++) {
      const uint64_t g = (uint64_t)accel__import_i32(from->order, k);
      const float q = (float)code_at(e, from->codes, k, n) - (float)zero_at(e, from, g, n);
      const float w = q * accel__import_value(e->scale, from->scale, g * rows + n);
      const uint16_t half = accel_f32_to_fp16(w);
      if (!isfinite(w) || (half & 0x7c00) == 0x7c00)
        return accel__import_bad(import, e->scale,
                                 "row %" PRIu64 " of group %" PRIu64 " does not fit fp16", n, g);
      ((uint16_t *)out->data)[n * columns + k] = half;
    }
  }
  return ACCEL_OK;
}

/* ---- finding ---- */

/* Modules may have bits of their own (GPTQModel's "dynamic"): the width that fits the shapes, first
 * the configured one. */
static void fit_bits(accel__import_entry *e) {
  const uint32_t known[] = {e->bits, 2, 3, 4, 8};
  for (size_t i = 0; e->order && i < sizeof known / sizeof *known; i++) {
    if (accel__import_words(e->order->dim[0], known[i]) != e->codes->dim[0] ||
        accel__import_words(e->codes->dim[1], known[i]) != e->zero->dim[1])
      continue;
    e->bits = known[i];
    return;
  }
}

static accel_status sizes(const accel__import *import, accel__import_entry *e) {
  ACCEL_TRY(accel__import_type(import, e->codes, ACCEL_PLUGIN_I32));
  ACCEL_TRY(accel__import_shape2(import, e->codes, -1, -1));
  ACCEL_TRY(accel__import_shape2(import, e->zero, -1, -1));
  if (e->codes->elements == 0) return accel__import_bad(import, e->codes, "it is empty");
  if (e->order) ACCEL_TRY(accel__import_shape(import, e->order, 1, (int64_t[]){-1}));
  fit_bits(e);
  e->n = e->codes->dim[1];
  if (e->order)
    e->k = e->order->dim[0];
  else
    e->k = e->codes->dim[0] / e->bits * 32 + e->codes->dim[0] % e->bits * 32 / e->bits;
  if (e->k < 1 || accel__import_words(e->k, e->bits) != e->codes->dim[0])
    return accel__import_bad(import, e->codes,
                             "%" PRId64 " rows do not hold %" PRId64 " columns of %u bits",
                             e->codes->dim[0], e->k, e->bits);
  return ACCEL_OK;
}

/* Checks scales, zeros and g_idx; settles the groups. */
static accel_status companions(const accel__import *import, accel__import_entry *e,
                               bool *in_order) {
  const gptq *s = import->settings;
  int64_t group = s->group < 0 ? e->k : s->group;
  ACCEL_TRY(accel__import_float(import, e->scale));
  ACCEL_TRY(accel__import_shape2(import, e->scale, -1, e->n));
  const int64_t groups = e->scale->dim[0];
  ACCEL_TRY(accel__import_type(import, e->zero, ACCEL_PLUGIN_I32));
  ACCEL_TRY(accel__import_shape2(import, e->zero, groups, accel__import_words(e->n, e->bits)));
  *in_order = true;
  if (e->order) ACCEL_TRY(accel__import_order(import, e->order, e->k, groups, in_order, &group));
  if (*in_order && accel_groups(e->k, (uint32_t)group) != groups)
    return accel__import_bad(import, e->scale,
                             "%" PRId64 " groups, but groups of %" PRId64 " over %" PRId64
                             " columns are due",
                             groups, group, e->k);
  e->format.group_n = 1;
  e->format.group_k = group < e->k ? (uint32_t)group : 0;
  return ACCEL_OK;
}

static accel_status visit(accel__import *import, const accel__tensor_info *t) {
  const size_t stem = accel__import_stem(t->name, ".qweight");
  const gptq *s = import->settings;
  bool in_order;
  if (!stem) return ACCEL_OK;
  accel__import_entry e = {.codes = t,
                           .bits = (uint32_t)s->bits,
                           .order = accel__import_sibling(import, t->name, stem, ".g_idx")};
  ACCEL_TRY(accel__import_need(import, t, stem, ".scales", &e.scale));
  ACCEL_TRY(accel__import_need(import, t, stem, ".qzeros", &e.zero));
  ACCEL_TRY(sizes(import, &e));
  ACCEL_TRY(companions(import, &e, &in_order));
  ACCEL_TRY(settle_zeros(import, &e));
  e.read = in_order ? read_codes : read_numbers;
  if (!in_order) {
    import->reordered++;
    e.format = (accel_plugin_format){ACCEL_PLUGIN_F16,
                                     ACCEL_PLUGIN_NO_DTYPE,
                                     ACCEL_PLUGIN_NO_DTYPE,
                                     ACCEL_PLUGIN_NO_DTYPE,
                                     0,
                                     0};
  } else if (e.bits == 8) {
    e.format.store = ACCEL_PLUGIN_I8;
    e.format.scale = ACCEL_PLUGIN_F32;
    e.format.zero = ((const zeros *)e.more)->middle ? ACCEL_PLUGIN_NO_DTYPE : ACCEL_PLUGIN_I8;
    e.format.outer = ACCEL_PLUGIN_NO_DTYPE;
  } else {
    e.format.store = ACCEL_PLUGIN_U4;
    ACCEL_TRY(accel__import_scale_type(import, e.scale, &e.format.scale));
    e.format.zero = ACCEL_PLUGIN_U8;
    e.format.outer = ACCEL_PLUGIN_NO_DTYPE;
  }
  return accel__import_add(import, &e, t->name, stem, ".weight");
}

const accel__import_family accel__import_gptq = {
    .method = "gptq", .configure = configure, .visit = visit};
