/* cpu_limit.h - what a kernel's instructions allow, measured for profiles.
 *
 * A profile shows how far a step is from what its kernel could do if all operands lay in the
 * caches.
 * That time is measured on first use, once for each kind of step, and remembered with the
 * endpoint. */
#ifndef ACCEL_CPU_LIMIT_H
#define ACCEL_CPU_LIMIT_H

#include "kit/kit.h"

typedef struct cpu_limits cpu_limits; /* the measurements of one endpoint; safe from any thread */

cpu_limits *cpu_limits_new(void);         /* NULL: no memory */
void cpu_limits_free(cpu_limits *limits); /* may be NULL */

enum { CPU_LIMIT_KEY = 8 };
typedef void cpu_repeat_fn(const void *arg, uint32_t i);

/* Microseconds of one fn(arg, i) when all workers run it at the same time, i < cpu_workers, again
 * and again: the fastest of some rounds.  key: the kind of step; each kind is measured once.  0:
 * more kinds than there is space for were measured already. */
double cpu_limit(cpu_limits *limits, const kit_launch *launch, const int64_t key[CPU_LIMIT_KEY],
                 cpu_repeat_fn *fn, const void *arg);

#endif
