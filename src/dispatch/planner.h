/* planner.h - the one planner: what a model takes on a device at a precision, how it is loaded
 * there, how many sequences run at once, and how long a token takes.  accel_fit() and every load
 * ask it.
 *
 * Memory is the device's, the process's cgroup's and the user's limit (fit.h).  Times follow from
 * what was measured: the disk (disk_speed.h) and the device (device_rate.h).  What was not measured
 * is not known, and is said so. */
#ifndef ACCEL_DISPATCH_PLANNER_H
#define ACCEL_DISPATCH_PLANNER_H

#include "dispatch/fit.h"

typedef struct accel__plan {
  accel__fit fit;           /* of the work that was asked for */
  accel__streaming loaded;  /* how the model is loaded, whatever the work */
  accel__run_limits limits; /* of a generation */
  uint32_t at_once;         /* sequences of the work that run together; the others wait */
} accel__plan;

/* Whom a plan is made for. */
typedef struct accel__plan_for {
  accel_endpoint *ep; /* need not be placed */
  const accel__device *device;
  const accel_plugin_precision *precision;
  const accel__source *source; /* of the weights in the precision's formats */
} accel__plan_for;

/* work {0}: of a load.  Of a model that generates, work.rows is what a step may have, and is
 * lowered to what the limit allows; sequences that have no memory at the same time run after one
 * another.  Errors are the plugin's; a model too large is no error here (fit.fits). */
accel_status accel__plan_make(const accel__plan_for *f, const accel__fit_work *work,
                              accel__plan *out);

/* A program, or a part of one, and what the limit leaves it beside weights. */
typedef struct accel__limits_subject {
  accel__fit_subject of;
  const accel__streaming *loaded;
  uint64_t left;
} accel__limits_subject;
/* Of a generation over s[n], n at least 1: what the limit leaves is shared by a step's activations,
 * at most a part of it where that can be, and the states of the sequences: a long prompt in more
 * steps costs less than sequences that have to wait for others.  The states are those of the subject
 * that has memory for the fewest sequences. */
accel_status accel__run_limits_plan(const accel__limits_subject *s, uint32_t n,
                                    accel__run_limits *out);

/* Of a model that is placed: *rows, at least 1, becomes the most rows, up to as many, that one run of
 * independent sequences of at least `each` rows may have under the memory limit; without one it
 * stays.  Sessions that are open keep what is planned for them.  Takes some milliseconds. */
accel_status accel__plan_rows(accel_endpoint *ep, const accel__fit_run *run, uint64_t each,
                              uint64_t *rows);

/* A memory limit above `limit` under which the work fits, the smallest to a MiB where more memory
 * never fits less; 0: there is none on this machine.  Takes some tens of plans. */
uint64_t accel__plan_least_limit(const accel__plan_for *f, const accel__fit_work *work,
                                 uint64_t limit);

/* Seconds; 0: not known. */
typedef struct accel__plan_times {
  double disk;    /* bytes a second of the model's file */
  double copy;    /* bytes a second from host memory, where weights come from there */
  double reading; /* of what a step reads */
  double compute; /* of a step of one token a sequence */
  double token;   /* a step: the larger of the two */
  double first;   /* from the begin of the load to the first token */
} accel__plan_times;

/* Of a model that generates with a plan that fits.  Measures the disk, unless that is remembered,
 * and the device: takes up to a second. */
accel_status accel__plan_times_of(const accel__plan_for *f, const accel__plan *plan,
                                  const accel__fit_work *work, accel__plan_times *out);

/* ACCEL_ERROR_DOES_NOT_FIT with the numbers when the plan does not fit, and with what does: a
 * limit, and another precision of the device.  keep_fp32[n_keep]: as of placing. */
accel_status accel__plan_check(const accel__plan_for *f, const accel__plan *plan,
                               const char *const *keep_fp32, uint32_t n_keep);

#endif
