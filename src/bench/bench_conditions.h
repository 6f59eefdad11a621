/* bench_conditions.h - what surrounds a timed run: waiting for its time, files that are in no
 * cache, and the energy that the processor took. */
#ifndef ACCEL_BENCH_CONDITIONS_H
#define ACCEL_BENCH_CONDITIONS_H

#include <stdint.h>

#include "accel/accel.h"

/* Comes back at that time of bench_now_ms or, when it has passed, at once; the last of it is spent
 * awake, so that it is no later than some microseconds. */
void bench_wait_until(double ms);

/* Drops the files of a model's directory from the page cache, where the kernel does so: pages that
 * are mapped or dirty stay.  Nothing for a model without files. */
void bench_drop_pages(accel *ctx, const char *model);

/* Counters of the processor's packages as the kernel's powercap shows them. */
#define BENCH_POWERCAP "/sys/class/powercap"
enum { BENCH_PACKAGES = 8 };
typedef struct bench_energy {
  uint32_t n;
  double microjoules[BENCH_PACKAGES],
      range[BENCH_PACKAGES]; /* range: where the counter begins anew */
} bench_energy;
void bench_energy_begin(bench_energy *energy, const char *powercap);
/* Joules since then, of all packages; NaN: there is no counter that can be read. */
double bench_energy_end(const bench_energy *begin, const char *powercap);

#endif
