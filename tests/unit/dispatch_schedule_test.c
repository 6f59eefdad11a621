/* dispatch_schedule_test.c - how work is shared among replicas, on devices that are made up: each
 * has a speed, a time that every run takes, and hardware that it may share with others. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dispatch/replica_schedule.h"

typedef struct made_up {
  double speed;     /* units a second, alone on its hardware */
  double run;       /* seconds that every run takes beside */
  uint32_t silicon; /* devices of the same number share it: each gets its part of the time */
  bool on_trial;
  double lost_at; /* seconds; 0: never */
} made_up;

typedef struct machine {
  const made_up *device;
  uint32_t n;
  accel__schedule schedule;
  double now;
  bool busy[ACCEL__MAX_REPLICAS];
  double left[ACCEL__MAX_REPLICAS]; /* seconds alone */
  accel__scheduled_run run[ACCEL__MAX_REPLICAS];
  uint64_t done[ACCEL__MAX_REPLICAS];
} machine;

enum { ITEM = 16, MOST = 2048 };

static void open_machine(machine *m, const made_up *device, uint32_t n) {
  bool on_trial[ACCEL__MAX_REPLICAS];
  *m = (machine){.device = device, .n = n};
  for (uint32_t i = 0; i < n; i++) on_trial[i] = device[i].on_trial;
  accel__schedule_init(&m->schedule, n, on_trial);
}

/* The part of its hardware that a busy device has. */
static double part(const machine *m, uint32_t i) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < m->n; k++)
    n += m->busy[k] && m->device[k].silicon == m->device[i].silicon;
  return 1.0 / n;
}

static bool is_lost(const machine *m, uint32_t i) {
  return m->device[i].lost_at > 0 && m->now >= m->device[i].lost_at;
}

static void start(machine *m, uint32_t i, uint64_t *waiting) {
  const uint64_t units =
      accel__schedule_offer(&m->schedule, i, m->now, *waiting, ITEM, MOST) / ITEM * ITEM;
  if (!units) return;
  assert_true(units <= *waiting && units <= MOST);
  *waiting -= units;
  accel__schedule_begin(&m->schedule, i, m->now, units, units / ITEM, &m->run[i]);
  m->busy[i] = true;
  m->left[i] = m->device[i].run + (double)units / m->device[i].speed;
}

static void end(machine *m, uint32_t i, uint64_t *waiting) {
  const bool ok = !is_lost(m, i);
  m->busy[i] = false;
  accel__schedule_end(&m->schedule, &m->run[i], m->now, ok);
  if (!ok) accel__schedule_lose(&m->schedule, i);
  if (ok)
    m->done[i] += m->run[i].units;
  else
    *waiting += m->run[i].units;
}

/* To the next end of a run. */
static uint32_t pass(machine *m) {
  uint32_t next = m->n;
  double soonest = INFINITY;
  for (uint32_t i = 0; i < m->n; i++) {
    if (!m->busy[i] || m->left[i] / part(m, i) >= soonest) continue;
    soonest = m->left[i] / part(m, i);
    next = i;
  }
  assert_true(next < m->n); /* somebody takes what is left */
  for (uint32_t i = 0; i < m->n; i++)
    if (m->busy[i]) m->left[i] -= soonest * part(m, i);
  m->now += soonest;
  return next;
}

static void give_up_overdue(machine *m, uint64_t *waiting) {
  uint32_t r;
  if (!accel__schedule_overdue(&m->schedule, m->now, &r) || !m->busy[r]) return;
  m->busy[r] = false;
  accel__schedule_end(&m->schedule, &m->run[r], m->now, false);
  *waiting += m->run[r].units;
}

/* Seconds for `units`; 0 of them wait at the end. */
static double work(machine *m, uint64_t units) {
  const double begin = m->now;
  uint64_t waiting = units, all = 0;
  memset(m->done, 0, sizeof m->done);
  for (bool any = true; any;) {
    for (uint32_t i = 0; i < m->n; i++)
      if (!m->busy[i]) start(m, i, &waiting);
    end(m, pass(m), &waiting);
    give_up_overdue(m, &waiting);
    any = waiting > 0;
    for (uint32_t i = 0; i < m->n; i++) any |= m->busy[i];
  }
  for (uint32_t i = 0; i < m->n; i++) all += m->done[i];
  assert_int_equal(all, units);
  return m->now - begin;
}

static double alone(const made_up *d, uint64_t units) {
  return (double)units / d->speed + (double)((units + MOST - 1) / MOST) * d->run;
}

static void within(const char *what, double took, double bound) {
  if (took > bound) fail_msg("%s took %.4f s, more than %.4f", what, took, bound);
}

static void one_device(void **state) {
  (void)state;
  const made_up d[] = {{20000, 0.001, 0, false, 0}};
  machine m;
  open_machine(&m, d, 1);
  within("one device", work(&m, 1000000), 1.0001 * alone(d, 1000000 + MOST));
}

/* Cards of their own: together as fast as the sum of them, to the end of each job. */
static void equal_cards(void **state) {
  (void)state;
  const made_up d[] = {{20000, 0.001, 0, false, 0},
                       {20000, 0.001, 1, false, 0},
                       {20000, 0.001, 2, false, 0},
                       {20000, 0.001, 3, false, 0}};
  machine m;
  open_machine(&m, d, 4);
  work(&m, 100000);
  within("a long job", work(&m, 1000000), 1.03 * alone(d, 1000000) / 4);
  within("a short job", work(&m, 4 * 512), 1.3 * alone(d, 512));
  within("a single item", work(&m, ITEM), 1.01 * alone(d, ITEM));
}

/* Rates that grow steeply with the size of a run, and differ from those of other sizes: somebody
 * takes what is left, however it is cut. */
static void steep_rates(void **state) {
  (void)state;
  const made_up d[] = {
      {200000, 0.01, 0, false, 0}, {180000, 0.02, 1, false, 0}, {100000, 0.005, 2, false, 0}};
  machine m;
  open_machine(&m, d, 3);
  for (uint64_t i = 1; i < 400; i++) work(&m, i * i % 97 * ITEM * (i % 5 + 1) + ITEM);
}

/* A slow card helps, and nobody waits for it at the end. */
static void unequal_cards(void **state) {
  (void)state;
  const made_up d[] = {
      {2000, 0.001, 0, false, 0}, {40000, 0.001, 1, false, 0}, {10000, 0.004, 2, false, 0}};
  machine m;
  open_machine(&m, d, 3);
  work(&m, 200000);
  for (uint64_t units = 4096; units < 4000000; units *= 7)
    within("unequal cards", work(&m, units), 1.2 * (double)units / 52000 + 0.02);
  work(&m, ITEM);
  assert_int_equal(m.done[1], ITEM); /* the fastest */
}

/* Three interfaces to one processor: no slower than the fastest of them, which is found also where
 * it is not the first. */
static void shared_processor(void **state) {
  (void)state;
  const made_up all[] = {
      {20000, 0.001, 0, true, 0}, {5000, 0.003, 0, true, 0}, {800, 0.020, 0, true, 0}};
  for (uint32_t first = 0; first < 3; first++) {
    const made_up d[] = {all[first], all[(first + 1) % 3], all[(first + 2) % 3]};
    machine m;
    open_machine(&m, d, 3);
    if (first) work(&m, 2000000); /* to find the fastest */
    within("a job", work(&m, 200000), 1.03 * alone(all, 200000));
    within("a long job", work(&m, 20000000), 1.03 * alone(all, 20000000));
    within("one run", work(&m, MOST), 1.001 * alone(all, MOST));
  }
}

/* A processor beside a card of its own pays, and a second one on the same processor does not. */
static void processor_and_card(void **state) {
  (void)state;
  const made_up d[] = {
      {40000, 0.001, 0, false, 0}, {10000, 0.001, 1, true, 0}, {3000, 0.003, 1, true, 0}};
  machine m;
  open_machine(&m, d, 3);
  work(&m, 4000000);
  within("card and processor", work(&m, 4000000), 1.05 * 4000000 / 50000);
}

/* What a lost device had begun is done by the others; where all are lost nobody takes any more. */
static void lost_devices(void **state) {
  (void)state;
  const made_up d[] = {{20000, 0.001, 0, false, 1}, {5000, 0.001, 0, true, 0}};
  machine m;
  open_machine(&m, d, 2);
  work(&m, 100000);
  assert_true(m.now > 1);
  assert_int_equal(m.schedule.replica[0].standing, ACCEL__REPLICA_LOST);
  assert_int_equal(m.schedule.replica[1].standing, ACCEL__REPLICA_IN);
  assert_true(m.done[1] > 50000);
  accel__schedule_lose(&m.schedule, 1);
  assert_int_equal(accel__schedule_offer(&m.schedule, 1, m.now, 100, ITEM, MOST), 0);
  assert_int_equal(accel__schedule_offer(&m.schedule, 0, m.now, 100, ITEM, MOST), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_device),       cmocka_unit_test(equal_cards),
      cmocka_unit_test(steep_rates),      cmocka_unit_test(unequal_cards),
      cmocka_unit_test(shared_processor), cmocka_unit_test(processor_and_card),
      cmocka_unit_test(lost_devices)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
