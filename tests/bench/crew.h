/* crew.h - threads that begin together, each on a core of its own: runs are too short for the
 * scheduler to find them. */
#ifndef ACCEL_TESTS_CREW_H
#define ACCEL_TESTS_CREW_H

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench_timer.h"

enum { CREW_MOST = 64 };
/* The part of thread `thread` of `threads`. */
typedef void crew_work(const void *arg, int thread, int threads);

typedef struct crew_member {
  crew_work *work;
  const void *arg;
  int thread, threads;
  pthread_barrier_t *barrier;
  double seconds;
} crew_member;

static void *crew_thread(void *arg) {
  crew_member *m = arg;
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET((unsigned)m->thread, &only);
  (void)pthread_setaffinity_np(pthread_self(), sizeof only, &only);
  pthread_barrier_wait(m->barrier);
  const double start = now();
  m->work(m->arg, m->thread, m->threads);
  pthread_barrier_wait(m->barrier);
  m->seconds = now() - start;
  return NULL;
}

/* Seconds until the last of them is done. */
static double crew_run(crew_work *work, const void *arg, int threads) {
  pthread_t id[CREW_MOST];
  crew_member member[CREW_MOST];
  pthread_barrier_t barrier;
  double most = 0;
  pthread_barrier_init(&barrier, NULL, (unsigned)threads);
  for (int i = 0; i < threads; i++) {
    member[i] = (crew_member){
        .work = work, .arg = arg, .thread = i, .threads = threads, .barrier = &barrier};
    if (pthread_create(&id[i], NULL, crew_thread, &member[i])) exit(fprintf(stderr, "no thread\n"));
  }
  for (int i = 0; i < threads; i++) pthread_join(id[i], NULL);
  for (int i = 0; i < threads; i++) most = member[i].seconds > most ? member[i].seconds : most;
  pthread_barrier_destroy(&barrier);
  return most;
}

#endif
