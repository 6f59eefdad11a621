/* replica_schedule.h - which of several replicas of a model takes how much of the work that waits.
 *
 * Replicas are the same model on different devices.  What is counted here are units of work (tokens,
 * or whatever the caller's items cost) and seconds on a clock that the caller reads; nothing here
 * runs, waits or locks, so the whole of it can be tested with a clock that is made up.
 *
 * A replica that is in takes work when it would be done before the others had done all that is
 * left: a slow one near the end takes less, or nothing.  How fast it is comes from its last runs of
 * about that size.
 *
 * Devices may share hardware (a processor behind three interfaces), and then a second one takes from
 * the first what it gives.  Whether a replica pays is therefore measured where it is not plain: it
 * is put in or out for the length of a run, and what all of them did in that time is compared with
 * what they would have done otherwise.  Such trials are small at first, take no more than a fiftieth
 * of the time, and the next one waits twice as long where the last one changed nothing. */
#ifndef ACCEL_DISPATCH_REPLICA_SCHEDULE_H
#define ACCEL_DISPATCH_REPLICA_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

enum { ACCEL__MAX_REPLICAS = 16, ACCEL__SIZE_CLASSES = 64 };

typedef enum accel__replica_standing {
  ACCEL__REPLICA_IN,  /* takes work */
  ACCEL__REPLICA_OUT, /* does not pay, or is not known to: takes work in trials alone */
  ACCEL__REPLICA_LOST /* its device is gone, or fails */
} accel__replica_standing;

typedef struct accel__scheduled {
  accel__replica_standing standing;
  bool on_trial; /* whether it pays is measured; else it is in as long as it is not lost */
  double rate[ACCEL__SIZE_CLASSES]; /* units a second of runs of 2^k units and more; 0: not known */
  double speed;                     /* units a second of the last run; 0: not known */
  uint32_t running;                 /* runs under way */
  double free_at;                   /* when they are expected to end */
  uint64_t largest;                 /* units of the largest run so far */
  double due, wait; /* work seconds at which the next trial may begin; to the one after */
  uint64_t runs, items, units, failures, trials;
  double seconds; /* in runs */
} accel__scheduled;

typedef enum accel__trial_phase {
  ACCEL__NO_TRIAL,
  ACCEL__TRIAL_RUNS,
  ACCEL__TRIAL_ENDS
} accel__trial_phase;

/* One replica at a time is put in, or left out, for a window of time. */
typedef struct accel__trial {
  accel__trial_phase phase;
  uint32_t replica, number;
  bool leaves_out;         /* one that was in */
  double window, limit;    /* seconds: so far; after which it is given up */
  double actual, expected; /* units of all replicas in the window */
  double counted;          /* units of the runs that lie in it, or reach into it */
  double covered;   /* seconds of the window in which those that are in were busy, summed up */
  uint64_t last;    /* of the runs that had begun before its end */
  uint32_t pending; /* of these, those that have not ended */
  uint64_t units;
  bool failed;
} accel__trial;

typedef struct accel__schedule {
  uint32_t n;
  accel__scheduled replica[ACCEL__MAX_REPLICAS];
  double worked, now; /* seconds with a run under way; the last event */
  double spent;       /* seconds that trials have cost */
  uint64_t most;      /* units of the largest run of any replica */
  uint64_t begun;     /* runs so far */
  accel__trial trial;
} accel__schedule;

/* A run under way. */
typedef struct accel__scheduled_run {
  uint32_t replica, trial_number;
  uint64_t number, units, items;
  double begin, window;
  bool is_trial;
} accel__scheduled_run;

/* on_trial[n]: replicas for which it is not plain that they pay; the first replica is in, whatever it
 * says. */
void accel__schedule_init(accel__schedule *s, uint32_t n, const bool *on_trial);
/* Seconds in which replica r would run `units`; 0: not known. */
double accel__schedule_predict(const accel__schedule *s, uint32_t r, uint64_t units);
/* Seconds until it would have done so, behind what it runs. */
double accel__schedule_finish(const accel__schedule *s, uint32_t r, double now, uint64_t units);
/* How many units replica r is to take now of those `left` (its own included), of which the smallest
 * item has `smallest` and a run may have `most`; 0: none, somebody else will be done sooner. */
uint64_t accel__schedule_offer(accel__schedule *s, uint32_t r, double now, uint64_t left,
                               uint64_t smallest, uint64_t most);
void accel__schedule_begin(accel__schedule *s, uint32_t r, double now, uint64_t units,
                           uint64_t items, accel__scheduled_run *run);
/* It has ended; ok: with results. */
void accel__schedule_end(accel__schedule *s, const accel__scheduled_run *run, double now, bool ok);
/* The trial that runs has taken longer than it may; its replica in *r. */
bool accel__schedule_overdue(accel__schedule *s, double now, uint32_t *r);
/* It takes no more work.  Where none is in, the others are. */
void accel__schedule_lose(accel__schedule *s, uint32_t r);

#endif
