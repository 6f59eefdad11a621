/* quantise.c - the walk over a matrix: tasks of rows on the pool, each read, encoded and forgotten
 * in chunks. */
#include "weights/quantise.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "weights/quantise_search.h"

enum {
  CHUNK = 16384,    /* elements read at a time: they stay in the core's own cache */
  TASK = 8 * CHUNK, /* elements of one task; its pages of the file are forgotten together */
  UINT4_ZERO = 8    /* of scales over several rows */
};
static const float smallest = 0x1p-100f; /* peaks below count as zero */

/* What is wrong with a row; the first row with a fault is reported. */
typedef enum fault { FAULT_NONE = 0, FAULT_NOT_FINITE = 1, FAULT_TOO_LARGE = 2 } fault;

typedef struct quantiser {
  const accel__values *values;
  accel__quantised *q;
  const accel_plugin_format *f;
  int64_t chunk_rows, task_rows;
  int64_t group_k;        /* elements of a group; at least 1 */
  int64_t groups;         /* of one row */
  bool found;             /* scales are there before rows are encoded */
  float outer;            /* 1 when there is none */
  float *scratch;         /* [workers][chunk_rows * k] */
  uint8_t *codes;         /* [workers][k] */
  _Atomic uint32_t *peak; /* bits of the largest magnitudes; NULL: not wanted */
  /* of a chunk */
  void (*rows)(struct quantiser *z, const float *x, int64_t first, int64_t count, uint8_t *codes);
  atomic_int failed;      /* reads */
  accel__failure failure; /* of the first of them */
  _Atomic uint64_t fault; /* row * 4 + fault of the first such row; UINT64_MAX: none */
} quantiser;

static void note_fault(quantiser *z, int64_t row, fault what) {
  uint64_t mine = (uint64_t)row * 4 + (uint64_t)what, seen = atomic_load(&z->fault);
  while (mine < seen && !atomic_compare_exchange_weak(&z->fault, &seen, mine)) {
  }
}

/* ---- scales ---- */

static float largest_of(uint8_t store) { return accel_format_facts_of(store)->largest; }

/* Rounds a scale to the format's type and stores it as scale `index`; the value it then has, outer
 * included. */
static float store_scale(quantiser *z, int64_t index, float scale, int64_t row) {
  const float wanted = scale / z->outer;
  uint16_t half;
  switch (z->f->scale) {
    case ACCEL_PLUGIN_F32:
      ((float *)z->q->scale)[index] = wanted;
      break;
    case ACCEL_PLUGIN_F16:
    case ACCEL_PLUGIN_BF16:
      half =
          z->f->scale == ACCEL_PLUGIN_F16 ? accel_f32_to_fp16(wanted) : accel_f32_to_bf16(wanted);
      ((uint16_t *)z->q->scale)[index] = half;
      break;
    case ACCEL_PLUGIN_E4M3:
      ((uint8_t *)z->q->scale)[index] = accel_f32_to_e4m3(wanted);
      break;
    default:
      ((uint8_t *)z->q->scale)[index] = accel_f32_to_e8m0(wanted);
  }
  const float stored = accel_scale_at(z->f->scale, z->q->scale, index);
  if (fabsf(wanted) > 1.0f &&
      !(fabsf(stored) <= fabsf(wanted) * 2.0f && fabsf(stored) >= fabsf(wanted) * 0.5f))
    note_fault(z, row, FAULT_TOO_LARGE);
  return stored * z->outer;
}

/* The least power of two that keeps peak within `limit` of its codes. */
static float power_above(float peak, float limit) {
  int exponent;
  const float mantissa = frexpf(peak / limit, &exponent);
  return ldexpf(1.0f, mantissa > 0.5f ? exponent : exponent - 1);
}

static float absmax_scale(const quantiser *z, float peak) {
  const float limit = largest_of(z->f->store);
  return z->f->scale == ACCEL_PLUGIN_E8M0 ? power_above(peak, limit) : peak / limit;
}

/* Scales worth trying for E2M1 codes, outer included; the first is the plain one. */
static uint32_t e2m1_candidates(const quantiser *z, float peak,
                                float out[ACCEL__FLOAT4_CANDIDATES]) {
  const float plain = absmax_scale(z, peak);
  uint32_t n = 0;
  out[n++] = plain;
  if (z->f->scale == ACCEL_PLUGIN_E8M0) {
    int exponent;
    frexpf(peak, &exponent);
    out[0] = ldexpf(1.0f, exponent - 3); /* peak becomes 4 to 8: codes end at 6 */
    out[n++] = ldexpf(1.0f, exponent - 2);
  } else if (z->f->scale == ACCEL_PLUGIN_E4M3) {
    const int code = accel_f32_to_e4m3(plain / z->outer);
    out[0] = accel_e4m3_to_f32((uint8_t)code) * z->outer;
    static const int step[] = {-1, 1, -2, 2};
    for (int i = 0; i < 4; i++)
      if (code + step[i] > 0 && code + step[i] < 0x7f)
        out[n++] = accel_e4m3_to_f32((uint8_t)(code + step[i])) * z->outer;
    if (!(out[0] > 0)) out[0] = accel_e4m3_to_f32(1) * z->outer;
  } else {
    for (; n < ACCEL__FLOAT4_CANDIDATES; n++) out[n] = plain * (1.1f - 0.05f * (float)n);
  }
  return n;
}

/* ---- codes ---- */

/* x[n] with the scale it has, zero included; one byte a code. */
static void encode_codes(const quantiser *z, const float *x, int64_t n, float scale, int32_t zero,
                         uint8_t *codes) {
  const float inverse = fabsf(scale) >= 0x1p-126f ? 1.0f / scale : 0;
  switch (z->f->store) {
    case ACCEL_PLUGIN_I8:
      accel__codes_integer(x, n, inverse, -127, 127, 0, codes);
      break;
    case ACCEL_PLUGIN_I4:
      accel__codes_integer(x, n, inverse, -8, 7, 0, codes);
      break;
    case ACCEL_PLUGIN_U4:
      accel__codes_integer(x, n, inverse, -zero, 15 - zero, zero, codes);
      break;
    case ACCEL_PLUGIN_E2M1:
      accel__codes_e2m1(x, n, inverse, codes);
      break;
    default:
      accel_encode_codes(z->f->store, x, n, inverse, codes);
  }
}

/* Chooses and stores scale and zero of one group; the scale it then has. */
static float search_group(quantiser *z, const float *x, int64_t n, int64_t index, int64_t row,
                          int32_t *zero) {
  bool finite;
  const float peak = accel__peak(x, n, &finite);
  *zero = 0;
  if (!finite) {
    note_fault(z, row, FAULT_NOT_FINITE);
    return 0;
  }
  if (peak < smallest) {
    store_scale(z, index, z->outer, row);
    return 0; /* all codes are those of zero */
  }
  float scale, candidate[ACCEL__FLOAT4_CANDIDATES];
  accel__integer_fit fit;
  switch (z->f->store) {
    case ACCEL_PLUGIN_I4:
      scale = accel__fit_int4(x, n, peak).scale;
      break;
    case ACCEL_PLUGIN_U4:
      fit = accel__fit_uint4(x, n, peak);
      scale = fit.scale;
      *zero = -fit.low;
      break;
    case ACCEL_PLUGIN_E2M1: {
      const uint32_t count = e2m1_candidates(z, peak, candidate);
      scale = candidate[accel__fit_e2m1(x, n, candidate, count)];
      break;
    }
    default:
      scale = absmax_scale(z, peak);
  }
  return store_scale(z, index, scale, row);
}

static void encode_group(quantiser *z, const float *x, int64_t n, int64_t index, int64_t row,
                         uint8_t *codes) {
  uint8_t *zeros = z->q->zero;
  int32_t zero;
  float scale;
  if (z->found) {
    scale = accel_scale_at(z->f->scale, z->q->scale, index) * z->outer;
    zero = zeros ? zeros[index] : 0;
  } else {
    scale = search_group(z, x, n, index, row, &zero);
    if (zeros) zeros[index] = (uint8_t)zero;
  }
  encode_codes(z, x, n, scale, zero, codes);
}

/* Two codes a byte; what follows an odd last one is 0. */
static void pack_nibbles(const uint8_t *codes, int64_t n, uint8_t *out) {
  for (int64_t j = 0; j < n / 2; j++)
    out[j] = (uint8_t)((codes[2 * j] & 15) | codes[2 * j + 1] << 4);
  if (n % 2) out[n / 2] = codes[n - 1] & 15;
}

static int64_t cell_of(const quantiser *z, int64_t row) {
  return z->f->group_n ? row / z->f->group_n * z->groups : 0;
}

static void encode_rows(quantiser *z, const float *x, int64_t first, int64_t count,
                        uint8_t *codes) {
  const int64_t k = z->q->k;
  const uint64_t row_bytes = accel_row_bytes(z->f->store, k);
  const bool nibbles = accel_format_bits(z->f->store) == 4;
  uint8_t *out = (uint8_t *)z->q->data + (uint64_t)first * row_bytes;
  for (int64_t r = first; r < first + count; r++, x += k, out += row_bytes) {
    uint8_t *to = nibbles ? codes : out;
    const int64_t cell = cell_of(z, r);
    for (int64_t g = 0; g < z->groups; g++) {
      const int64_t at = g * z->group_k, n = k - at < z->group_k ? k - at : z->group_k;
      encode_group(z, x + at, n, cell + g, r, to + at);
    }
    if (nibbles) pack_nibbles(codes, k, out);
  }
}

static void encode_plain(quantiser *z, const float *x, int64_t first, int64_t count,
                         uint8_t *codes) {
  const int64_t n = count * z->q->k; /* elements */
  uint16_t *out = (uint16_t *)z->q->data + first * z->q->k;
  (void)codes;
  if (z->f->store == ACCEL_PLUGIN_F16)
    accel_f32_array_to_fp16(x, (size_t)n, out);
  else if (z->f->store == ACCEL_PLUGIN_BF16)
    accel_f32_array_to_bf16(x, (size_t)n, out);
  /* F32 was read where it belongs */
}

/* ---- largest magnitudes of what several rows share ---- */

static void raise_peak(_Atomic uint32_t *peak, float found) {
  uint32_t bits, seen = atomic_load_explicit(peak, memory_order_relaxed);
  memcpy(&bits, &found, sizeof bits);
  while (bits > seen && !atomic_compare_exchange_weak_explicit(
                            peak, &seen, bits, memory_order_relaxed, memory_order_relaxed)) {
  }
}

/* Into one peak a scale, or into peak[0] when only `outer` is sought. */
static void measure_rows(quantiser *z, const float *x, int64_t first, int64_t count,
                         uint8_t *codes) {
  const int64_t k = z->q->k;
  bool finite;
  (void)codes;
  for (int64_t r = first; r < first + count; r++, x += k) {
    for (int64_t g = 0; g < z->groups; g++) {
      const int64_t at = g * z->group_k, n = k - at < z->group_k ? k - at : z->group_k;
      const float found = accel__peak(x + at, n, &finite);
      if (finite)
        raise_peak(&z->peak[z->f->group_n == 1 ? 0 : cell_of(z, r) + g], found);
      else
        note_fault(z, r, FAULT_NOT_FINITE);
    }
  }
}

static float peak_at(const quantiser *z, int64_t i) {
  const uint32_t bits = atomic_load_explicit(&z->peak[i], memory_order_relaxed);
  float peak;
  memcpy(&peak, &bits, sizeof peak);
  return peak;
}

/* From what measure_rows found: outer, and the scales unless rows have their own. */
static void settle_scales(quantiser *z, int64_t cells) {
  float whole = 0;
  for (int64_t i = 0; i < cells; i++) whole = peak_at(z, i) > whole ? peak_at(z, i) : whole;
  if (z->q->outer) {
    z->outer = whole < smallest ? 1.0f : whole / largest_of(z->f->store);
    if (z->f->scale == ACCEL_PLUGIN_E4M3 && z->outer != 1.0f)
      z->outer /= largest_of(ACCEL_PLUGIN_E4M3);
    memcpy(z->q->outer, &z->outer, sizeof z->outer);
  }
  if (z->f->group_n == 1) return;
  for (int64_t i = 0; i < cells; i++) {
    const int64_t row = z->f->group_n ? i / z->groups * z->f->group_n : 0;
    store_scale(z, i, peak_at(z, i) < smallest ? z->outer : absmax_scale(z, peak_at(z, i)), row);
  }
  if (z->q->zero) memset(z->q->zero, UINT4_ZERO, z->q->bytes.zero);
  z->found = true;
}

/* ---- the walk ---- */

static void run_task(void *arg, uint32_t index, uint32_t worker) {
  quantiser *z = arg;
  const int64_t k = z->q->k, begin = (int64_t)index * z->task_rows,
                end = z->q->n - begin < z->task_rows ? z->q->n : begin + z->task_rows;
  float *scratch = z->scratch ? z->scratch + (int64_t)worker * z->chunk_rows * k : NULL;
  uint8_t *codes = z->codes ? z->codes + (int64_t)worker * k : NULL;
  for (int64_t at = begin; at < end; at += z->chunk_rows) {
    const int64_t count = end - at < z->chunk_rows ? end - at : z->chunk_rows;
    float *x = scratch ? scratch : (float *)z->q->data + at * k;
    const accel_status status = z->values->read(z->values->user, at, count, x);
    if (status != ACCEL_OK) {
      if (atomic_fetch_add(&z->failed, 1) == 0) accel__failure_keep(&z->failure, status);
      return;
    }
    z->rows(z, x, at, count, codes);
  }
  if (z->values->forget) z->values->forget(z->values->user, begin, end - begin);
}

static accel_status walk(quantiser *z, accel__pool *pool,
                         void (*rows)(quantiser *, const float *, int64_t, int64_t, uint8_t *)) {
  const int64_t tasks = (z->q->n + z->task_rows - 1) / z->task_rows;
  z->rows = rows;
  if (pool && tasks > 1)
    accel__pool_run(pool, (uint32_t)tasks, run_task, z);
  else
    for (int64_t i = 0; i < tasks; i++) run_task(z, (uint32_t)i, 0);
  if (atomic_load(&z->failed)) return accel__failure_raise(&z->failure);
  const uint64_t found = atomic_load(&z->fault);
  if (found == UINT64_MAX) return ACCEL_OK;
  const int64_t row = (int64_t)(found / 4);
  accel__fail(ACCEL_ERROR_FORMAT, "%s: %s", z->values->name(z->values->user, row),
              found % 4 == FAULT_NOT_FINITE
                  ? "holds NaN or infinity, which no quantised format can"
                  : "its values are too large for the scales of this precision");
  return accel__remedy(ACCEL_ERROR_FORMAT, "use the precision fp32, or weights that are finite");
}

static accel_status make_scratch(quantiser *z, uint32_t workers, bool in_place) {
  const uint64_t k = (uint64_t)z->q->k, elements = (uint64_t)z->chunk_rows * k;
  uint64_t bytes;
  if (in_place) return ACCEL_OK;
  if (__builtin_mul_overflow(elements, (uint64_t)workers * sizeof(float), &bytes))
    return accel__no_memory(SIZE_MAX);
  z->scratch = malloc(bytes);
  if (accel_format_bits(z->f->store) == 4) z->codes = malloc(k * workers);
  if (!z->scratch || (accel_format_bits(z->f->store) == 4 && !z->codes))
    return accel__no_memory(bytes);
  return ACCEL_OK;
}

static accel_status measure(quantiser *z, accel__pool *pool) {
  const int64_t cells = z->f->group_n == 1 ? 1 : accel_groups(z->q->n, z->f->group_n) * z->groups;
  z->peak = calloc((size_t)cells, sizeof *z->peak);
  if (!z->peak) return accel__no_memory((size_t)cells * sizeof *z->peak);
  accel_status status = walk(z, pool, measure_rows);
  if (status == ACCEL_OK) settle_scales(z, cells);
  free(z->peak);
  z->peak = NULL;
  return status;
}

bool accel__quantise_known(const accel_plugin_format *f) {
  const accel_format_facts *facts = accel_format_facts_of(f->store);
  if (accel_format_plain(f)) return true;
  return accel_format_known(f) && facts->largest > 0 && f->zero == facts->format.zero;
}

accel_status accel__quantise(const accel__values *values, accel__pool *pool, accel__quantised *q) {
  const int64_t k = q->k, rows = k > 0 ? CHUNK / k : 0;
  const bool plain = accel_format_plain(&q->format);
  if (!accel__quantise_known(&q->format))
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "no weights are quantised to store %u with scale %u, zero %u, outer %u",
                       q->format.store, q->format.scale, q->format.zero, q->format.outer);
  if (q->n <= 0 || k <= 0) {
    if (q->outer) memcpy(q->outer, &(float){1.0f}, sizeof(float));
    return ACCEL_OK;
  }
  quantiser z = {
      .values = values, .q = q, .f = &q->format, .chunk_rows = rows > 0 ? rows : 1, .outer = 1.0f};
  z.task_rows = z.chunk_rows * (TASK / CHUNK);
  /* tasks are numbered in 32 bits */
  while ((q->n + z.task_rows - 1) / z.task_rows > INT32_MAX) z.task_rows *= 2;
  z.group_k = q->format.group_k && q->format.group_k < k ? q->format.group_k : k;
  z.groups = accel_groups(k, q->format.group_k);
  atomic_init(&z.fault, UINT64_MAX);
  atomic_init(&z.failed, 0);
  accel_status status =
      make_scratch(&z, pool ? accel__pool_size(pool) : 1, q->format.store == ACCEL_PLUGIN_F32);
  if (status == ACCEL_OK && !plain && (q->format.group_n != 1 || q->outer))
    status = measure(&z, pool);
  if (status == ACCEL_OK) status = walk(&z, pool, plain ? encode_plain : encode_rows);
  free(z.scratch);
  free(z.codes);
  return status;
}
