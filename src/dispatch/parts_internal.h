/* parts_internal.h - what the files of a model over several devices share. */
#ifndef ACCEL_DISPATCH_PARTS_INTERNAL_H
#define ACCEL_DISPATCH_PARTS_INTERNAL_H

#include "dispatch/parts.h"

/* ---- parts_plan.c ---- */

/* Which layers go where, and the program cut accordingly. */
typedef struct accel__parts_plan {
  uint32_t n;
  uint64_t limit; /* memory limit of the user's; 0: none */
  const accel__device *device[ACCEL__MAX_PARTS];
  uint32_t first_layer[ACCEL__MAX_PARTS], last_layer[ACCEL__MAX_PARTS];
  accel__part *part;                 /* [n] */
  accel_plugin_precision *precision; /* [n] formats of each part's weights */
} accel__parts_plan;

/* The plan for `work`, with what it takes in *fit; in arena memory. */
accel_status accel__parts_plan_make(accel_endpoint *ep, const accel__device *device,
                                    const accel_plugin_precision *precision,
                                    const accel__source *source, const accel__fit_work *work,
                                    accel__arena *arena, accel__parts_plan *plan, accel__fit *fit);

/* Whose parts are asked, and how they are loaded (NULL: that is planned, for the work). */
typedef struct accel__parts_asked {
  accel_endpoint *ep;
  const accel__parts_plan *plan;
  const accel__source *source;
  const accel__fit *load;
} accel__parts_asked;
/* Each part's numbers for the work, and their sum. */
accel_status accel__parts_ask(const accel__parts_asked *asked, const accel__fit_work *work,
                              accel__fit *out);

/* Of s[n], which are loaded and take weights[n]: what a limit leaves each (s[k].left), and what runs
 * through all of them may take. */
struct accel__limits_subject;
accel_status accel__parts_run_limits(struct accel__limits_subject *s, const uint64_t *weights,
                                     uint32_t n, uint64_t limit, accel__run_limits *out);

/* What all parts together keep, and read in a run; not the limit from which on they run. */
void accel__parts_add_streaming(const accel__streaming *one, accel__streaming *sum);

/* Of one processor or card. */
bool accel__share_memory(const accel__device *a, const accel__device *b);

/* ---- parts_load.c ---- */

/* One part on its device. */
typedef struct accel__placed_part {
  accel__host_self self; /* of host; placed is the one below */
  accel_plugin_host host;
  accel__placed placed; /* its source is that of all parts */
  const accel__device *device;
  const accel__part *cut;
  uint32_t first_layer, last_layer;
  uint64_t weights; /* bytes, as the plugin keeps them */
  bool goes_back;   /* its states are rows, which can be cut off again */
  bool lost;        /* its device was lost; set by runs, under `lock` */
} accel__placed_part;

struct accel__parts {
  accel_endpoint *ep;
  accel__arena arena;                  /* of the cut */
  const accel_plugin_program *program; /* the whole, which the endpoint's model owns */
  accel_plugin table;                  /* what placed.plugin points at */
  const char *name;
  uint32_t n;
  accel__placed_part part[ACCEL__MAX_PARTS];
  pthread_mutex_t lock;
  struct accel__parts_session *sessions;      /* open ones, under `lock` */
  _Atomic(struct accel__parts_frame *) frame; /* memory of a run, for the next one */
};

accel__parts *accel__parts_of(accel_plugin_endpoint *handle);
/* A failure of part k in words: which part, then the plugin's message; error->node becomes a node
 * of the whole.  Notes a lost device. */
int32_t accel__part_failed(accel__parts *parts, uint32_t k, int32_t rc, accel_plugin_error *error);
/* error may be NULL */
int32_t accel__parts_fail(accel_plugin_error *error, int32_t rc, const char *format, ...)
    ACCEL_PRINTF(3, 4);

/* ---- parts_session.c ---- */

typedef struct accel__parts_session {
  accel__parts *parts;
  accel_plugin_session *of[ACCEL__MAX_PARTS]; /* NULL: the part has no state */
  struct accel__parts_session *next;
} accel__parts_session;

/* A session of each part; and their end, which leaves an empty one. */
int32_t accel__parts_session_open(accel__parts_session *s, accel_plugin_error *error);
void accel__parts_session_shut(accel__parts_session *s);

int32_t accel__parts_session_new(accel_plugin_endpoint *handle, accel_plugin_session **out,
                                 accel_plugin_error *error);
void accel__parts_session_free(accel_plugin_session *session);
int32_t accel__parts_session_control(accel_plugin_session *session, int32_t verb, int32_t sequence,
                                     int64_t value, void *buffer, uint64_t *n,
                                     accel_plugin_error *error);

/* What the sequences of a run held before it, so that a run which fails in a later part leaves none
 * of them changed. */
typedef struct accel__parts_undo {
  accel__parts_session *session; /* NULL: the run has none */
  const int32_t *sequence;
  uint32_t n;
  uint64_t *length; /* [n] tokens */
  bool *fresh;      /* [n] did not exist */
} accel__parts_undo;
int32_t accel__parts_undo_begin(accel__parts_undo *undo, accel__parts_session *session,
                                const accel_plugin_run *run, accel_plugin_error *error);
/* Of a failed run, whose parts 0 .. done-1 have succeeded: takes what they added back. */
void accel__parts_undo_end(accel__parts_undo *undo, uint32_t done, bool failed);

/* ---- parts_run.c ---- */

int32_t accel__parts_handler(accel_plugin_endpoint *handle, accel_plugin_session *session,
                             accel_plugin_run *run, const accel_plugin_view *in, uint32_t n_in,
                             accel_plugin_view *out, uint32_t n_out, accel_plugin_error *error);
void accel__parts_frame_free(accel__parts *parts);

#endif
