/* ranks.h - tensor parallelism: the ranks of a context, which compute its models together.
 *
 * Rank 0 is the one whose application calls the library.  What it has its plugin do (runs, sessions,
 * and opening and closing models) it tells the other ranks, which are in accel__ranks_follow
 * (tasks/rank_models.h) and do the same with their shares; in a run they meet in the ALLREDUCEs of the program.  So whatever runs
 * models works with ranks, and only rank 0 samples.
 *
 * Each order ends with all ranks agreeing on how it went: a failure of one is a failure of all.  A
 * rank that fails where the others add up is seen there (accel/comm.h), and the order fails on all of
 * them.  A rank that is gone ends the group: everything is ACCEL_ERROR_DEVICE_LOST from then on.
 */
#ifndef ACCEL_DISPATCH_RANKS_H
#define ACCEL_DISPATCH_RANKS_H

#include "accel/comm.h"
#include "dispatch/endpoint.h"

typedef struct accel__ranks accel__ranks;

/* Joins the group of params; *out NULL with a world below 2. */
accel_status accel__ranks_join(accel *ctx, const accel_params *params, accel__ranks **out);
/* Rank 0 tells the others that nothing more comes. */
void accel__ranks_leave(accel__ranks **ranks);
uint32_t accel__ranks_rank(const accel__ranks *ranks);  /* NULL: 0 */
uint32_t accel__ranks_world(const accel__ranks *ranks); /* NULL: 1 */

/* ACCEL_ERROR_ARGUMENT on a rank behind 0 that does not follow: only rank 0 opens models.  NULL:
 * ACCEL_OK. */
accel_status accel__ranks_may_open(const accel__ranks *ranks);

/* accel_plugin_host.allreduce of an endpoint of the context; self is an accel__host_self. */
int32_t accel__ranks_allreduce(void *self, void *buffer, size_t n, int dtype);

/* accel_plugin_host.allreduce_device; NULL: the group's transport has none. */
typedef int32_t accel__allreduce_device_fn(void *self, const char *api, uint32_t device,
                                           void *stream, void *data, size_t n);
accel__allreduce_device_fn *accel__ranks_allreduce_device(const accel__ranks *ranks);

/* The endpoint was placed: what its plugin is asked for goes to all ranks from now on. */
accel_status accel__ranks_wrap(accel_endpoint *ep);
#endif
