/* run_clock.h - how long an endpoint has run, whatever the number of its runs at once. */
#ifndef ACCEL_DISPATCH_RUN_CLOCK_H
#define ACCEL_DISPATCH_RUN_CLOCK_H

#include <pthread.h>
#include <stdint.h>

/* Any thread. */
typedef struct accel__run_clock {
  pthread_mutex_t lock;
  uint32_t active;   /* runs under way */
  uint64_t since_ns; /* when there was none the last time */
  uint64_t runs, ns; /* begun; time in which at least one was under way */
} accel__run_clock;

void accel__run_clock_init(accel__run_clock *c);
void accel__run_clock_destroy(accel__run_clock *c);
void accel__run_clock_begin(accel__run_clock *c);
void accel__run_clock_end(accel__run_clock *c);
/* Up to now; runs under way count. */
void accel__run_clock_read(accel__run_clock *c, uint64_t *runs, uint64_t *ns);

#endif
