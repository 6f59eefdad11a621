/* monotonic.h - conditions of threads, on the clock that only runs forward. */
#ifndef ACCEL_CORE_MONOTONIC_H
#define ACCEL_CORE_MONOTONIC_H

#include <pthread.h>

/* One whose time limits are of the clock that only runs forward. */
void accel__cond_init(pthread_cond_t *condition);

#endif
