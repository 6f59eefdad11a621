/* choose.h - what "auto" may take for a model, devices by precisions, and which of it is tried next:
 * the best by what was measured on this machine, else by predictions whose intervals do not touch,
 * else the first of the ladder. */
#ifndef ACCEL_DISPATCH_CHOOSE_H
#define ACCEL_DISPATCH_CHOOSE_H

#include "dispatch/endpoint.h"

/* What a choice is to be best at. */
typedef enum accel__metric {
  ACCEL__METRIC_LATENCY,    /* ms of a run */
  ACCEL__METRIC_THROUGHPUT, /* items a second */
  ACCEL__METRIC_MEMORY,     /* bytes */
  ACCEL__METRIC_ENERGY,     /* J of a run */
  ACCEL__METRIC_COUNT
} accel__metric;
/* "latency", "throughput", "memory", "energy" */
extern const char *const accel__metric_names[ACCEL__METRIC_COUNT];
/* NULL and "": latency.  ACCEL_ERROR_ARGUMENT names the metrics there are. */
accel_status accel__metric_of(const char *name, accel__metric *out);

typedef enum accel__figure_source {
  ACCEL__FIGURE_NONE,
  ACCEL__FIGURE_ROWS,
  ACCEL__FIGURE_PREDICTION
} accel__figure_source;
/* Positive numbers in the metric's unit, low <= value <= high. */
typedef struct accel__figure {
  accel__figure_source source;
  double value, low, high;
} accel__figure;

typedef struct accel__candidate {
  struct accel__device *device;
  const char *precision; /* canonical */
  bool on_ladder;        /* false: only its figure can have it taken */
  bool closed;           /* it may not be taken, or was tried */
  const char *reason;    /* why; NULL: not closed */
  accel__figure figure;
  double cosine; /* NaN: not known */
} accel__candidate;

/* How a candidate came to be the next. */
typedef enum accel__choosing {
  ACCEL__CHOSEN_NONE,       /* nothing is open */
  ACCEL__CHOSEN_ROWS,       /* by rows alone */
  ACCEL__CHOSEN_PREDICTION, /* predictions were needed, and intervals do not touch */
  ACCEL__CHOSEN_NO_FIGURES, /* the rest: by the ladder, because there are none, */
  ACCEL__CHOSEN_UNKNOWN,    /* the ladder's first has none, */
  ACCEL__CHOSEN_ALONE,      /* nothing but it has one, */
  ACCEL__CHOSEN_TOUCHING    /* or predictions' intervals touch */
} accel__choosing;

/* The number of the candidate to try next, UINT32_MAX with ACCEL__CHOSEN_NONE.  The first of the
 * ladder that is open must be beaten: by rows whose value is better by more than 2 %, which is what
 * machines drift, or, where a prediction is one of the two, by intervals that do not touch.  more:
 * greater figures are better. */
uint32_t accel__choose(const accel__candidate *item, uint32_t n, bool more, accel__choosing *how);

/* All candidates of a model in the ladder's order. */
typedef struct accel__candidates {
  uint32_t n;
  accel__candidate *item; /* [n] in the endpoint's arena */
  accel__metric metric;
  bool any_device; /* devices may be chosen among; else they are tried in their order */
  const char *of;  /* what the figures are of, "encode, batch 1, lengths 128"; "" */
  const char *why; /* why there are no figures; "" */
  uint32_t taken;  /* the last that accel__candidates_next gave */
  accel__choosing how;
} accel__candidates;
/* What there is for the choice's devices, with figures where request and cache have some and there
 * is more than one candidate.  Fails for want of memory alone. */
accel_status accel__candidates_make(accel_endpoint *ep, const accel__choice *choice,
                                    const accel__place_request *request, accel__candidates *out);
/* The next to try; NULL: none is left. */
accel__candidate *accel__candidates_next(accel__candidates *all);
/* Closes a candidate that was tried, or all of its device. */
void accel__candidates_close(accel__candidates *all, accel__candidate *candidate, bool whole_device,
                             const char *reason);
/* chosen_by and its neighbours in ep->placement, once a candidate was taken. */
accel_status accel__candidates_report(accel_endpoint *ep, const accel__candidates *all);

#endif
