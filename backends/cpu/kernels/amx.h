/* amx.h - Intel's matrix extensions (AMX): eight tile registers of up to 16 rows of 64 bytes, and
 * c[16][16] += a[16][k] b[k][16] as one instruction, for 32 k of bf16 or 64 k of 8-bit codes.
 *
 * Products here use the registers in one way: sums in 0 to 3, rows of a in 4 and 5, b in 6 and 7.
 * b lies in memory as panels do: [k / n][32 columns][n] where n elements make 32 bits. */
#ifndef ACCEL_CPU_AMX_H
#define ACCEL_CPU_AMX_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
  AMX_ROWS = 16,                         /* of a tile register */
  AMX_BYTES = 64,                        /* of a row of it */
  AMX_PANEL = 2 * AMX_BYTES,             /* bytes of a row of b, both registers' */
  AMX_STEP_BYTES = AMX_ROWS * AMX_PANEL, /* of b in one step of k: as many as AMX_BYTES of a have */
  AMX_TILE = 2 * AMX_ROWS                /* rows and columns of the result that stay in registers */
};

typedef struct amx_config {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} amx_config;

/* gcc's _tile_loadconfig says of 8 bytes alone that it reads them: the others' stores must not be
 * dropped. */
static inline void amx_load_config(const amx_config *c) {
  __asm__ volatile("" : : "r"(c) : "memory");
  _tile_loadconfig(c);
}

/* Sums and rows of a for `rows` rows of the result, at most AMX_TILE: those of the second half in
 * registers 2, 3 and 5.  What the registers hold is lost. */
static inline void amx_configure(int64_t rows) {
  const uint8_t first = (uint8_t)(rows < AMX_ROWS ? rows : AMX_ROWS),
                second = (uint8_t)rows - first;
  amx_config c = {.palette = 1};
  for (int i = 0; i < 8; i++) c.row_bytes[i] = AMX_BYTES;
  c.rows[0] = c.rows[1] = c.rows[4] = first;
  c.rows[2] = c.rows[3] = c.rows[5] = second ? second : first;
  c.rows[6] = c.rows[7] = AMX_ROWS;
  amx_load_config(&c);
}

/* Sums in 0 to 3 and a in 4 of at most AMX_ROWS rows, b in 5 to 7. */
static inline void amx_configure_low(int64_t rows) {
  amx_config c = {.palette = 1};
  for (int i = 0; i < 8; i++) {
    c.row_bytes[i] = AMX_BYTES;
    c.rows[i] = (uint8_t)(i > 4 || rows > AMX_ROWS ? AMX_ROWS : rows);
  }
  amx_load_config(&c);
}

static inline void amx_zero(void) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

/* The sums to c [rows][AMX_TILE], elements of 32 bits. */
static inline void amx_store(void *c, bool second) {
  char *to = c;
  _tile_stored(0, to, AMX_PANEL);
  _tile_stored(1, to + AMX_BYTES, AMX_PANEL);
  if (!second) return;
  _tile_stored(2, to + AMX_STEP_BYTES, AMX_PANEL);
  _tile_stored(3, to + AMX_STEP_BYTES + AMX_BYTES, AMX_PANEL);
}

/* Rows of a tile that a later step loads, into the first-level cache: a tile load has too few lines
 * in flight to hide what the second level takes. */
static inline void amx_prefetch(const void *tile, int64_t ld, bool second) {
  const char *at = tile;
  for (int i = 0; i < (second ? 2 : 1) * AMX_ROWS; i++) _mm_prefetch(at + i * ld, _MM_HINT_T0);
}

/* One step of k: a has rows lda bytes apart; b AMX_STEP_BYTES. */
#define AMX_MULTIPLY(product, a, lda, b, second)           \
  do {                                                     \
    _tile_loadd(6, b, AMX_PANEL);                          \
    _tile_loadd(4, a, lda);                                \
    _tile_loadd(7, (b) + AMX_BYTES, AMX_PANEL);            \
    product(0, 4, 6);                                      \
    if (second) _tile_loadd(5, (a) + AMX_ROWS * lda, lda); \
    product(1, 4, 7);                                      \
    if (second) product(2, 5, 6);                          \
    if (second) product(3, 5, 7);                          \
  } while (0)

/* The last step of b, which has `rows` rows: zeros behind them. */
static inline void amx_fill_up(const char *b, int64_t rows, char *to) {
  for (int64_t i = 0; i < 2 * AMX_ROWS; i++)
    _mm512_storeu_si512(to + i * AMX_BYTES, i < 2 * rows ? _mm512_loadu_si512(b + i * AMX_BYTES)
                                                         : _mm512_setzero_si512());
}

#endif
