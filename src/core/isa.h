/* isa.h - the instruction set for code that is compiled more than once.
 *
 * Such code has one NAME_body.h and a small file for each instruction set, NAME_scalar.c,
 * NAME_avx2.c, NAME_avx512.c; cmake/isa.cmake takes the compiler's flags from the file's name.  The
 * caller asks accel__isa_choose() once for a piece of work (a spectrogram, a picture) and takes the
 * functions of that instruction set.  The CPU plugin has a finer list of its own
 * (backends/cpu/cpu_isa.c) under the same variable.
 */
#ifndef ACCEL_CORE_ISA_H
#define ACCEL_CORE_ISA_H

typedef enum accel__isa {
  ACCEL__ISA_SCALAR, /* what the compiler makes of plain C for the architecture's baseline */
  ACCEL__ISA_AVX2,   /* AVX2 and FMA */
  ACCEL__ISA_AVX512, /* AVX-512 F, BW, DQ and VL */
  ACCEL__ISA_COUNT
} accel__isa;

/* Those that this processor and its operating system run, newest first.  Answers how many: at least
 * one, for scalar is always the last. */
int accel__isa_list(accel__isa list[ACCEL__ISA_COUNT]);
/* "scalar", "avx2" or "avx512": how the variable ACCEL_ISA names it. */
const char *accel__isa_name(accel__isa isa);
/* The newest that this machine runs, or what ACCEL_ISA names.  The CPU plugin's finer words mean
 * the set that they belong to (avxvnni: AVX2; avx512vnni, avx512bf16, amx: AVX-512; openblas: scalar).
 * A word that is unknown, or names what this machine does not run, changes nothing here: the CPU
 * plugin reports it.  Reads the environment at every call; may be called from any thread. */
accel__isa accel__isa_choose(void);

#endif
