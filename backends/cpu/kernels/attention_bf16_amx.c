/* attention_bf16_amx.c - attention whose products are of bf16 for AMX, as in
 * attention_bf16_avx512bf16.c. */
#include "kernels/amx.h"
#include "kernels/pairs_avx512bf16.h"

#define GEMM_ROWS                 14 /* the strips that all kernels have: at most AMX_ROWS */
#define GEMM_VECS                 2
#define ATTENTION_HEAD            accel_f32_attention_bf16_head__amx
#define DECODE_HEAD               accel_f32_decode_bf16_head__amx
#define ATTENTION_UNIT            16
#define ATTENTION_PANELS          2
#define ATTENTION_BEGIN(rows, dk) configure(rows, dk)
#define ATTENTION_END()           _tile_release()
/* Queries of so few pairs stay in registers.  Of their keys the last step has as many rows as there
 * are, so that panels follow one another without a gap. */
#define ATTENTION_KEPT     (2 * ATTENTION_UNIT)
#define ATTENTION_KEYS(dk) keys_depth(dk)

static inline int64_t keys_depth(int64_t dk) {
  const int64_t pairs = (dk + 1) / 2, whole = (pairs + AMX_ROWS - 1) / AMX_ROWS * AMX_ROWS;
  return pairs > ATTENTION_UNIT && pairs <= ATTENTION_KEPT ? pairs : whole;
}

/* Sums of `rows` rows in 0 to 3, rows of a in 4, of b in 6; of queries that are kept what is behind
 * the first step in 5, of their keys in 7. */
static void configure(int64_t rows, int64_t dk) {
  const int64_t depth = keys_depth(dk);
  const int64_t last = depth % AMX_ROWS ? depth % AMX_ROWS : AMX_ROWS;
  amx_config c = {.palette = 1};
  for (int i = 0; i < 8; i++) {
    c.row_bytes[i] = (uint16_t)(i == 5 ? 4 * last : AMX_BYTES);
    c.rows[i] = (uint8_t)(i < 6 ? rows : i == 6 ? AMX_ROWS : last);
  }
  amx_load_config(&c);
}

/* One step of k of 16 columns. */
#define STEP_OF_COLUMNS(sum, b)   \
  do {                            \
    _tile_loadd(6, b, AMX_PANEL); \
    _tile_dpbf16ps(sum, 4, 6);    \
  } while (0)

/* `tiles` registers of columns, 1 to 4: of two panels. */
V_INLINE void multiply_tiles(const int tiles, int64_t depth, const float *a, int64_t a_bytes,
                             const float *b, int64_t stride, float *c, int64_t c_bytes) {
  amx_zero();
  for (; depth > 0; depth -= ATTENTION_UNIT, a += ATTENTION_UNIT, b += AMX_STEP_BYTES / 4) {
    _tile_loadd(4, a, a_bytes);
    STEP_OF_COLUMNS(0, b);
    if (tiles > 1) STEP_OF_COLUMNS(1, b + 16);
    if (tiles > 2) STEP_OF_COLUMNS(2, b + stride);
    if (tiles > 3) STEP_OF_COLUMNS(3, b + stride + 16);
  }
  _tile_stored(0, c, c_bytes);
  if (tiles > 1) _tile_stored(1, c + 16, c_bytes);
  if (tiles > 2) _tile_stored(2, c + 32, c_bytes);
  if (tiles > 3) _tile_stored(3, c + 48, c_bytes);
}

static void attention_multiply(int64_t rows, int64_t depth, const float *a, int64_t lda,
                               const float *b, int64_t stride, int64_t columns, float *c,
                               int64_t ldc) {
  const int64_t a_bytes = lda * (int64_t)sizeof *a, c_bytes = ldc * (int64_t)sizeof *c;
  (void)rows; /* configure() knows them */
  if (columns > 48)
    multiply_tiles(4, depth, a, a_bytes, b, stride, c, c_bytes);
  else if (columns > 32)
    multiply_tiles(3, depth, a, a_bytes, b, stride, c, c_bytes);
  else if (columns > 16)
    multiply_tiles(2, depth, a, a_bytes, b, stride, c, c_bytes);
  else
    multiply_tiles(1, depth, a, a_bytes, b, stride, c, c_bytes);
}

/* Sums of one panel, b in 6 and 7. */
#define KEPT_PANEL(first, second, two, b)                     \
  do {                                                        \
    _tile_zero(first);                                        \
    _tile_zero(second);                                       \
    _tile_loadd(6, b, AMX_PANEL);                             \
    _tile_dpbf16ps(first, 4, 6);                              \
    _tile_loadd(6, (b) + 16, AMX_PANEL);                      \
    _tile_dpbf16ps(second, 4, 6);                             \
    if (!(two)) break;                                        \
    _tile_loadd(7, (b) + AMX_STEP_BYTES / 4, AMX_PANEL);      \
    _tile_dpbf16ps(first, 5, 7);                              \
    _tile_loadd(7, (b) + AMX_STEP_BYTES / 4 + 16, AMX_PANEL); \
    _tile_dpbf16ps(second, 5, 7);                             \
  } while (0)
#define KEPT_STORE(first, second, c)         \
  do {                                       \
    _tile_stored(first, c, c_bytes);         \
    _tile_stored(second, (c) + 16, c_bytes); \
  } while (0)

/* Columns of `panels` panels from b on, `stride` floats apart, for at most AMX_ROWS rows.  A panel's
 * sums are stored behind the products of the next one. */
V_INLINE void multiply_kept(const bool two, const float *b, int64_t stride, int64_t panels,
                            float *c, int64_t c_bytes) {
  if (panels < 1) return;
  KEPT_PANEL(0, 1, two, b);
  for (; panels > 2; panels -= 2, b += 2 * stride, c += 2 * AMX_TILE) {
    KEPT_PANEL(2, 3, two, b + stride);
    KEPT_STORE(0, 1, c);
    KEPT_PANEL(0, 1, two, b + 2 * stride);
    KEPT_STORE(2, 3, c + AMX_TILE);
  }
  if (panels > 1) KEPT_PANEL(2, 3, two, b + stride);
  KEPT_STORE(0, 1, c);
  if (panels > 1) KEPT_STORE(2, 3, c + AMX_TILE);
}

/* Scores of the strip's queries, of `depth` pairs, whole steps. */
static void attention_multiply_kept(int64_t depth, const float *a, int64_t lda, const float *b,
                                    int64_t stride, int64_t panels, float *c, int64_t ldc) {
  const int64_t a_bytes = lda * (int64_t)sizeof *a, c_bytes = ldc * (int64_t)sizeof *c;
  _tile_loadd(4, a, a_bytes);
  if (depth > ATTENTION_UNIT) {
    _tile_loadd(5, a + ATTENTION_UNIT, a_bytes);
    multiply_kept(true, b, stride, panels, c, c_bytes);
  } else {
    multiply_kept(false, b, stride, panels, c, c_bytes);
  }
}

#include "kernels/attention_body.h"
#include "kernels/decode_body.h"
