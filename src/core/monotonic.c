/* monotonic.c - see monotonic.h. */
#include "core/monotonic.h"

#include <time.h>

void accel__cond_init(pthread_cond_t *condition) {
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &clock);
  pthread_condattr_destroy(&clock);
}
