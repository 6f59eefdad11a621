/* unroll.h - MICRO_UNROLL in front of a loop of constant length: it is unrolled whole, so that what
 * it indexes can stay in registers.  Clang heeds its own pragma alone, and complains where it finds
 * no constant, as in builds that are not optimised: web pages have optimised ones. */
#ifndef ACCEL_CPU_UNROLL_H
#define ACCEL_CPU_UNROLL_H

#if defined(__wasm__)
#define MICRO_UNROLL _Pragma("clang loop unroll(full)")
#else
#define MICRO_UNROLL _Pragma("GCC unroll 32")
#endif

#endif
