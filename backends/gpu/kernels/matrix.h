/* matrix.h - 16 x 16 results by a wave's matrix unit, from eight words of 16 rows of x and of 16 rows of w in arrays of PITCH words a row.
 *
 * -DWAVE=64: AMD's MFMA 16x16x16 (CDNA; fp16, bf16, int8 with K = 16, of int8 two).  Lane l gives row l % 16 and holds of the result column
 * l % 16, rows 4 (l / 16) + 0..3.
 * -DWAVE=32: NVIDIA's mma.sync m16n8k16 (sm_80; of int8 m16n8k32), twice for 16 columns.  Lane l, g = l / 4, t = l % 4, gives words t and
 * t + 4 of rows g and g + 8 and holds rows g and g + 8 of columns 2 t and 2 t + 1, then the same of columns 8 on.
 * -DWAVE=32 -DWMMA: AMD's WMMA 16x16x16 (RDNA3; of int8 twice).  Lane l gives all eight words of row l % 16, lanes 16 on the same ones
 * again, and holds of column l % 16 the rows of l / 16 + 2 i.
 * The instruction itself is the unit's (MATRIX_MULTIPLY): the vendor's in hip/prelude.h, by the documented layouts in hip/emulated.h.  Only
 * HIP, CUDA and the emulator have these kernels.  A sum of fp32 runs along k by steps of eight words: its numbers depend on the row, the
 * column and where its segments begin, and on nothing else. */
#ifndef GPU_MATRIX_H
#define GPU_MATRIX_H

#define HELD (256 / WAVE) /* results of 16 x 16 that a lane holds */
#ifdef WMMA
#define MATRIX_UNIT 11
#define A_WORDS 8
#define B_WORDS 8
#define MATRIX_A_ROW(i) (l % 16)
#define MATRIX_A_WORD(i) (i)
#define MATRIX_B_ROW(i) (l % 16)
#define MATRIX_B_WORD(i) (i)
#define MATRIX_ROW(i) (l / 16 + 2 * (i))
#define MATRIX_COL(i) (l % 16)
#elif WAVE == 64
#define MATRIX_UNIT 64
#define A_WORDS 2
#define B_WORDS 2
#if STORE == 3
#define MATRIX_WORD(i) (l / 16 + 4 * (i))
#else
#define MATRIX_WORD(i) (2 * (l / 16) + (i))
#endif
#define MATRIX_A_ROW(i) (l % 16)
#define MATRIX_A_WORD(i) MATRIX_WORD(i)
#define MATRIX_B_ROW(i) (l % 16)
#define MATRIX_B_WORD(i) MATRIX_WORD(i)
#define MATRIX_ROW(i) (4 * (l / 16) + (i))
#define MATRIX_COL(i) (l % 16)
#else
#define MATRIX_UNIT 32
#define A_WORDS 4
#define B_WORDS 4
#define MATRIX_A_ROW(i) (l / 4 + 8 * ((i) % 2))
#define MATRIX_A_WORD(i) (l % 4 + 4 * ((i) / 2))
#define MATRIX_B_ROW(i) (l / 4 + 8 * ((i) / 2))
#define MATRIX_B_WORD(i) (l % 4 + 4 * ((i) % 2))
#define MATRIX_ROW(i) (l / 4 + 8 * ((i) % 4 / 2))
#define MATRIX_COL(i) (8 * ((i) / 4) + 2 * (l % 4) + (i) % 2)
#endif

#if STORE == 3
#define MATRIX_SUM int
#else
#define MATRIX_SUM float
#endif

#endif
