/* conv_pairs_amx.c - convolutions of bf16 for AMX: as products alone, since Winograd's transform
 * would take longer than the products that it saves. */
#include "kernels/amx.h"
#include "kernels/bf16_avx512bf16.h"

#define GEMM_ROWS        AMX_TILE
#define GEMM_VECS        2
#define CONV_NAME        accel_f32_conv_pairs_32x32__amx
#define CONV_UNIT        16
#define CONV_BEGIN(rows) amx_configure(rows)
#define CONV_END()       _tile_release()
#define CONV_ACTIVATE    activate
#define V_GELU           v_gelu_brief
#include "kernels/kernels.h"
#include "kernels/math_body.h"
#include "kernels/micro_body.h"
#include "kernels/tile_body.h"

#include "kernels/conv_gemm_body.h"

_Static_assert((int)GEMM_COLS == (int)AMX_TILE && CONV_UNIT == (int)AMX_ROWS, "one step of k");

/* Sums [rows][16 or 32], at stride ld. */
V_INLINE void load_sums(const bool second, const bool wide, const float *from, int64_t ld) {
  const int64_t bytes = ld * (int64_t)sizeof(float);
  _tile_loadd(0, from, bytes);
  if (wide) _tile_loadd(1, from + AMX_ROWS, bytes);
  if (second) _tile_loadd(2, from + AMX_ROWS * ld, bytes);
  if (second && wide) _tile_loadd(3, from + AMX_ROWS * ld + AMX_ROWS, bytes);
}
V_INLINE void store_sums(const bool second, const bool wide, float *to, int64_t ld) {
  const int64_t bytes = ld * (int64_t)sizeof(float);
  _tile_stored(0, to, bytes);
  if (wide) _tile_stored(1, to + AMX_ROWS, bytes);
  if (second) _tile_stored(2, to + AMX_ROWS * ld, bytes);
  if (second && wide) _tile_stored(3, to + AMX_ROWS * ld + AMX_ROWS, bytes);
}

/* Sums += a b; a [k_count / 16][32][16] pairs, b[k] `next` floats apart. */
V_INLINE void add_products(const bool second, const bool wide, int64_t k_count, const float *a,
                           const float *b, int64_t next) {
  const int64_t bytes = next * (int64_t)sizeof(float);
  for (; k_count > 0; k_count -= CONV_UNIT, a += GEMM_ROWS * CONV_UNIT, b += CONV_UNIT * next) {
    amx_prefetch(b + CONV_UNIT * next, bytes, false);
    if (wide) amx_prefetch(b + CONV_UNIT * next + AMX_ROWS, bytes, false);
    amx_prefetch(a + GEMM_ROWS * CONV_UNIT, AMX_BYTES, second);
    _tile_loadd(6, b, bytes);
    _tile_loadd(4, a, AMX_BYTES);
    if (wide) _tile_loadd(7, b + AMX_ROWS, bytes);
    _tile_dpbf16ps(0, 4, 6);
    if (second) _tile_loadd(5, a + AMX_ROWS * CONV_UNIT, AMX_BYTES);
    if (wide) _tile_dpbf16ps(1, 4, 7);
    if (second) _tile_dpbf16ps(2, 5, 6);
    if (second && wide) _tile_dpbf16ps(3, 5, 7);
  }
}

static void finish_rows(int64_t rows, bool wide, const float *sum, float *to, int64_t ldt,
                        const conv_end *end) {
  const int64_t cols = wide ? 2 * V : V;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j += V) {
      vf v = v_load(sum + i * GEMM_COLS + j);
      if (end->bias) v = v_add(v, v_set(end->bias[i]));
      if (end->residual) v = v_add(v, v_load(end->residual + i * ldt + j));
      v_store(to + i * ldt + j, end->relu ? v_max(v_zero(), v) : v);
    }
}

V_INLINE void run_tile(const bool second, const bool wide, int64_t rows, int64_t k_count,
                       const float *a, const float *b, int64_t next, const float *from, int64_t ldf,
                       float *to, int64_t ldt, const conv_end *end) {
  float sum[GEMM_ROWS * GEMM_COLS] __attribute__((aligned(64)));
  if (from)
    load_sums(second, wide, from, ldf);
  else
    amx_zero();
  add_products(second, wide, k_count, a, b, next);
  store_sums(second, wide, end ? sum : to, end ? GEMM_COLS : ldt);
  if (end) finish_rows(rows, wide, sum, to, ldt, end);
}

static void conv_run_tile(int64_t rows, bool wide, int64_t k_count, const float *a, int64_t step,
                          const float *b, int64_t next, const float *from, int64_t ldf, float *to,
                          int64_t ldt, const conv_end *end) {
  (void)step; /* the height of w's tiles, which is GEMM_ROWS */
  if (rows > AMX_ROWS && wide)
    run_tile(true, true, rows, k_count, a, b, next, from, ldf, to, ldt, end);
  else if (rows > AMX_ROWS)
    run_tile(true, false, rows, k_count, a, b, next, from, ldf, to, ldt, end);
  else if (wide)
    run_tile(false, true, rows, k_count, a, b, next, from, ldf, to, ldt, end);
  else
    run_tile(false, false, rows, k_count, a, b, next, from, ldf, to, ldt, end);
}
