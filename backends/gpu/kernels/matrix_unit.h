/* matrix_unit.h - 16 x 16 results by a wave's matrix unit, from eight words of 16 rows of x and of
 * 16 rows of w.
 *
 * -DWAVE=64: AMD's MFMA 16x16x16 (CDNA; fp16, bf16, int8 with K = 16, of int8 two).  Lane l gives
 * row l % 16 and holds of the result column l % 16, rows 4 (l / 16) + 0..3.  -DWAVE=32: NVIDIA's
 * mma.sync m16n8k16 (sm_80; of int8 m16n8k32), twice for 16 columns.  Lane l, g = l / 4, t = l % 4,
 * gives words t and t + 4 of rows g and g + 8 and holds rows g and g + 8 of columns 2 t and 2 t +
 * 1, then the same of columns 8 on.  -DWAVE=32 -DWMMA: AMD's WMMA 16x16x16 (RDNA3; of int8 twice).
 * Lane l gives all eight words of row l % 16, lanes 16 on the same ones again, and holds of column
 * l % 16 the rows of l / 16 + 2 i.  -DWAVE=32 -DCOOPERATIVE: Vulkan's VK_NV_cooperative_matrix
 * (fp16 16x16x16, int8 16x16x32), whose lanes hold what the driver likes: words and results go
 * through shared memory, where lane l puts or finds four words or eight results of row l / 2.  The
 * instruction itself is the unit's (MATRIX_MULTIPLY): the vendor's in hip/hip_prelude.h, the
 * driver's in dialect/vulkan.h, by the documented layouts in hip/hip_emulated.h, which runs the
 * kernels of all four.  A sum of fp32 runs along k by steps of eight words: its numbers depend on
 * the row, the column and where its segments begin, and on nothing else.
 *
 * Words for kernels, where every wave of the group comes to every one of them:
 *   MATRIX_A(a), MATRIX_B(b)       declare what the unit takes: 16 rows of x, 16 rows of w; MATRIX_B_LIST(b, n) n of the latter
 *   MATRIX_SUMS(c, n)              declares n results, c[0] .. c[n - 1]; MATRIX_ZERO(c[i]), MATRIX_ADD(c[i], d[i])
 *   MATRIX_LOAD_A(a, from, at)     from a shared array, its element `at` on, PITCH words a row; MATRIX_LOAD_B the same
 *   MATRIX_GATHER(a, X, b, W)      from the words X(row, word) and W(row, word), which may be of any memory
 *   MATRIX_EACH(c, PUT)            PUT(row, column, value) for each result of this lane
 *   MATRIX_SHARED(S), MATRIX_STAGE(S)  the shared arrays that EACH and GATHER need, for the kernel's
 * list */
#ifndef GPU_MATRIX_UNIT_H
#define GPU_MATRIX_UNIT_H

#ifndef PITCH /* words of a row in shared memory: eight, and four so that lanes meet in no bank */
#define PITCH 12
#endif
#define HELD (256 / WAVE) /* results of 16 x 16 that a lane holds */
#ifdef COOPERATIVE
#define MATRIX_UNIT 1
#define A_WORDS 4
#define B_WORDS 4
#define MATRIX_A_ROW(i) (l / 2)
#define MATRIX_A_WORD(i) (l % 2 * 4 + (i))
#define MATRIX_B_ROW(i) (l / 2)
#define MATRIX_B_WORD(i) (l % 2 * 4 + (i))
#define MATRIX_ROW(i) (l / 2)
#define MATRIX_COL(i) (l % 2 * 8 + (i))
#elif defined(WMMA)
#define MATRIX_UNIT 11
#define A_WORDS 8
#define B_WORDS 8
#define MATRIX_A_ROW(i) (l % 16)
#define MATRIX_A_WORD(i) (i)
#define MATRIX_B_ROW(i) (l % 16)
#define MATRIX_B_WORD(i) (i)
#define MATRIX_ROW(i) (l / 16 + 2 * (i))
#define MATRIX_COL(i) (l % 16)
#define HELD_ROWS 8
#define HELD_COLS 1
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
#define HELD_ROWS 4
#define HELD_COLS 1
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
#define HELD_ROWS 2
#define HELD_COLS 4
#endif
/* A lane's results lie in HELD_ROWS x HELD_COLS: result i in the MATRIX_IN_ROW(i)-th of its rows, of
 * which result MATRIX_OF_ROW(r) is one. */
#if HELD_COLS == 1
#define MATRIX_IN_ROW(i) (i)
#define MATRIX_OF_ROW(r) (r)
#define MATRIX_IN_COL(i) 0
#define MATRIX_OF_COL(c) 0
#else
#define MATRIX_IN_ROW(i) ((i) % 4 / 2)
#define MATRIX_OF_ROW(r) (2 * (r))
#define MATRIX_IN_COL(i) ((i) / 4 * 2 + (i) % 2)
#define MATRIX_OF_COL(c) ((c) / 2 * 4 + (c) % 2)
#endif

#if STORE == 3
#define MATRIX_SUM int
#else
#define MATRIX_SUM float
#endif

#ifdef SUB_LANE /* which lanes make a wave is the driver's affair */
#define MATRIX_LANE SUB_LANE
#define MATRIX_WAVE SUB_GROUP
#else
#define MATRIX_LANE (LANE % WAVE)
#define MATRIX_WAVE (LANE / WAVE)
#endif

#ifndef MATRIX_SUMS /* lanes hold what the unit's line above says */
#define MATRIX_HELD(n)    UNROLL for (int gpu_i = 0; gpu_i < (n); gpu_i++)
#define MATRIX_A(a)       uint a[A_WORDS]
#define MATRIX_B(b)       uint b[B_WORDS]
#define MATRIX_B_LIST(b, n) uint b[n][B_WORDS]
#define MATRIX_SUMS(c, n) MATRIX_SUM c[n][HELD]
#define MATRIX_ZERO(c)    MATRIX_HELD(HELD) { c[gpu_i] = 0; }
#define MATRIX_ADD(c, d)  MATRIX_HELD(HELD) { c[gpu_i] += d[gpu_i]; }
#define MATRIX_LOAD_A(a, from, at) \
  MATRIX_HELD(A_WORDS) { a[gpu_i] = from[(at) + MATRIX_A_ROW(gpu_i) * PITCH + MATRIX_A_WORD(gpu_i)]; }
#define MATRIX_LOAD_B(b, from, at) \
  MATRIX_HELD(B_WORDS) { b[gpu_i] = from[(at) + MATRIX_B_ROW(gpu_i) * PITCH + MATRIX_B_WORD(gpu_i)]; }
#define MATRIX_STORE(c, to, at) \
  MATRIX_HELD(HELD) { to[(at) + MATRIX_ROW(gpu_i) * 16 + MATRIX_COL(gpu_i)] = c[gpu_i]; }
#endif

#ifdef COOPERATIVE
#define MATRIX_SHARED(S) S(MATRIX_SUM, gpu_sums, 8 * 256)
#define MATRIX_STAGE(S)  S(uint, gpu_stage, 8 * 32 * PITCH)
#define MATRIX_GATHER(a, X, b, W)                                              \
  UNROLL for (int gpu_i = 0; gpu_i < 4; gpu_i++) {                             \
    int gpu_to = MATRIX_WAVE * 32 * PITCH + l / 2 * PITCH + l % 2 * 4 + gpu_i; \
    gpu_stage[gpu_to] = X(l / 2, l % 2 * 4 + gpu_i);                           \
    gpu_stage[gpu_to + 16 * PITCH] = W(l / 2, l % 2 * 4 + gpu_i);              \
  }                                                                            \
  BARRIER;                                                                     \
  MATRIX_LOAD_A(a, gpu_stage, MATRIX_WAVE * 32 * PITCH)                        \
  MATRIX_LOAD_B(b, gpu_stage, MATRIX_WAVE * 32 * PITCH + 16 * PITCH)           \
  BARRIER;
#define MATRIX_EACH(c, PUT)                                                    \
  MATRIX_STORE(c, gpu_sums, MATRIX_WAVE * 256)                                 \
  BARRIER;                                                                     \
  for (int gpu_i = 0; gpu_i < 8; gpu_i++) {                                    \
    PUT(l / 2, l % 2 * 8 + gpu_i, gpu_sums[MATRIX_WAVE * 256 + l * 8 + gpu_i]) \
  }                                                                            \
  BARRIER;
#else
#define MATRIX_SHARED(S)
#define MATRIX_STAGE(S)
#define MATRIX_GATHER(a, X, b, W)                                                           \
  MATRIX_HELD(A_WORDS) { a[gpu_i] = X(MATRIX_A_ROW(gpu_i), MATRIX_A_WORD(gpu_i)); }         \
  MATRIX_HELD(B_WORDS) { b[gpu_i] = W(MATRIX_B_ROW(gpu_i), MATRIX_B_WORD(gpu_i)); }
#define MATRIX_EACH(c, PUT) \
  MATRIX_HELD(HELD) { PUT(MATRIX_ROW(gpu_i), MATRIX_COL(gpu_i), c[gpu_i]) }
#endif

#endif
