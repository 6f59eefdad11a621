/* attention_bf16_amx.c - attention whose products are of bf16 for AMX, as in
 * attention_bf16_avx512bf16.c. */
#include "kernels/amx.h"
#include "kernels/pairs_avx512bf16.h"

#define GEMM_ROWS             14 /* the strips that all kernels have: at most AMX_ROWS */
#define GEMM_VECS             2
#define ATTENTION_HEAD        accel_f32_attention_bf16_head__amx
#define DECODE_HEAD           accel_f32_decode_bf16_head__amx
#define ATTENTION_UNIT        16
#define ATTENTION_PANELS      2
#define ATTENTION_BEGIN(rows) amx_configure_low(rows)
#define ATTENTION_END()       _tile_release()

/* One step of k of a panel: two registers of sums, b in 5 and 6. */
#define STEP_OF_PANEL(first, second, b)  \
  do {                                   \
    _tile_loadd(5, b, AMX_PANEL);        \
    _tile_dpbf16ps(first, 4, 5);         \
    _tile_loadd(6, (b) + 16, AMX_PANEL); \
    _tile_dpbf16ps(second, 4, 6);        \
  } while (0)

static void attention_multiply(int64_t rows, int64_t depth, const float *a, int64_t lda,
                               const float *b, int64_t stride, int64_t panels, float *c,
                               int64_t ldc) {
  const int64_t a_bytes = lda * (int64_t)sizeof *a, c_bytes = ldc * (int64_t)sizeof *c;
  (void)rows; /* amx_configure_low knows them */
  amx_zero();
  for (; depth > 0; depth -= ATTENTION_UNIT, a += ATTENTION_UNIT, b += AMX_STEP_BYTES / 4) {
    _tile_loadd(4, a, a_bytes);
    STEP_OF_PANEL(0, 1, b);
    if (panels > 1) STEP_OF_PANEL(2, 3, b + stride);
  }
  _tile_stored(0, c, c_bytes);
  _tile_stored(1, c + 16, c_bytes);
  if (panels < 2) return;
  _tile_stored(2, c + 32, c_bytes);
  _tile_stored(3, c + 48, c_bytes);
}

#include "kernels/attention_body.h"
#include "kernels/decode_body.h"
