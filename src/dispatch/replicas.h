/* replicas.h - data parallelism: one model on several devices, which share the work of its endpoint.
 *
 * The endpoint that the user has is the first replica, and has the group (accel_endpoint.replicas);
 * the others are endpoints of their own, which it closes.  All have the same program, weights and
 * precision.  Work comes as a list of items; a thread for each replica that has something to do
 * takes from it what replica_schedule.h says.  Near the end a replica that is idle takes over what a
 * slower one would still be long at.  What fails on one replica is done by another, and a device
 * that is lost takes nothing more. */
#ifndef ACCEL_DISPATCH_REPLICAS_H
#define ACCEL_DISPATCH_REPLICAS_H

#include "dispatch/endpoint.h"
#include "dispatch/replica_schedule.h"

typedef struct accel__replicas accel__replicas;

/* What is run: each kind has its own times, and devices that pay. */
typedef enum accel__work_kind {
  ACCEL__WORK_TEXTS,   /* packed pieces of texts; a unit is a token */
  ACCEL__WORK_RUNS,    /* tensors as they are given; a unit is a number of the largest */
  ACCEL__WORK_ITEMS,   /* pictures, sounds, pages, one at a time; of what unit the task says */
  ACCEL__WORK_PROMPTS, /* texts are generated; a unit is a token, of the prompt or a new one */
  ACCEL__WORK_STEPS,   /* of the generations of a queue; a unit is a request in one */
  ACCEL__WORK_KINDS
} accel__work_kind;

/* n items, to be run in ranges of any length. */
typedef struct accel__work {
  accel__work_kind kind;
  uint32_t n;
  uint64_t (*cost)(void *user, uint32_t item); /* units, at least 1 */
  uint64_t most;                               /* units of a range, unless it is one item; 0: any */
  uint32_t most_items;                         /* 0: any */
  /* Runs items [first, first + n) on `ep`.  From several threads at once, on different endpoints. */
  accel_status (*run)(void *user, accel_endpoint *ep, uint32_t first, uint32_t n);
  /* On the caller's thread: so many items are done; may be NULL. */
  void (*tell)(void *user, uint32_t done);
  /* Set by `run`: its results were handed over in part, so nobody else may run them again.  NULL: it
   * never is. */
  const atomic_bool *final;
  void *user;
} accel__work;

/* Runs all items, on the replicas of `ep`, or on `ep` where it has none.  The failure of an item is
 * the call's. */
accel_status accel__share_work(accel_endpoint *ep, const accel__work *work);

/* The queue of the replica of `queue`'s endpoint that would have the next token of one more generation
 * soonest; `queue` itself where there is one device, NULL: all are lost. */
struct accel_queue *accel__replica_queue(struct accel_queue *queue);
/* A step of so many generations on a replica begins, and has ended.  `ep` may be alone. */
void accel__replica_step_begin(accel_endpoint *ep, uint32_t requests, accel__scheduled_run *run);
void accel__replica_step_end(accel_endpoint *ep, const accel__scheduled_run *run);
/* A generation of the replica's queue has ended, with so many tokens, those of the prompt, too. */
void accel__replica_generated(accel_endpoint *ep, uint64_t tokens);
/* This thread's message tells why the device of a replica is lost. */
void accel__replica_lost(accel_endpoint *ep);

/* Takes n - 1 endpoints over as the replicas behind `ep`, which has none; on_trial as of
 * accel__schedule_init. */
accel_status accel__replicas_new(accel_endpoint *ep, accel_endpoint *const *others, uint32_t n,
                                 const bool *on_trial);
/* Frees the group, and not its endpoints. */
void accel__replicas_free(accel_endpoint *ep);
uint32_t accel__replicas_count(const accel_endpoint *ep); /* 1: it has none but itself */
accel_endpoint *accel__replica(accel_endpoint *ep, uint32_t i);
/* How many take work of this kind now. */
uint32_t accel__replicas_in(accel_endpoint *ep, accel__work_kind kind);
/* What replica i has done, all kinds together. */
accel_replica_stats accel__replica_statistics(accel_endpoint *ep, uint32_t i);

#endif
