/* ranks.c - joining and leaving a group of ranks. */
#include "dispatch/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/rank_order.h"

enum { JOIN_MS = 60000 };

uint32_t accel__ranks_rank(const accel__ranks *r) { return r ? r->rank : 0; }
uint32_t accel__ranks_world(const accel__ranks *r) { return r ? r->world : 1; }

accel_status accel__ranks_may_open(const accel__ranks *r) {
  if (!r || !r->rank || r->following) return ACCEL_OK;
  accel__fail(ACCEL_ERROR_ARGUMENT, "rank %u of %u opens no models: rank 0 does, for all", r->rank,
              r->world);
  return accel__remedy(ACCEL_ERROR_ARGUMENT, "call accel_follow() on every rank behind 0");
}

/* ---- joining ---- */

static accel_status check_params(const accel_params *p) {
  if (p->world > ACCEL_COMM_MAX_WORLD)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "params.world is %u; a group has at most %u ranks",
                       p->world, ACCEL_COMM_MAX_WORLD);
  if (p->rank >= p->world)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "params.rank is %u of a world of %u: ranks count from 0", p->rank, p->world);
  return ACCEL_OK;
}

static accel_status open_group(const accel_comm_transport *transport, accel_comm_options *options,
                               accel_comm **out) {
  char why[256] = "";
  if (transport->open(options, out, why, sizeof why) == ACCEL_COMM_OK) return ACCEL_OK;
  accel__fail(ACCEL_ERROR_DEVICE_UNAVAILABLE, "rank %u of %u cannot join '%s' over %s: %s",
              options->rank, options->world, options->job, transport->name, why);
  return accel__remedy(
      ACCEL_ERROR_DEVICE_UNAVAILABLE,
      "start all ranks of a job within %d s, with the same world, transport and job",
      JOIN_MS / 1000);
}

/* "openmpi+nccl": NCCL between devices, and OpenMPI for everything else; "nccl" alone: over "shm". */
static accel_status find_transports(accel *ctx, const char *name, accel__ranks *r) {
  accel__hardware *hardware;
  char first[32];
  const size_t n = strcspn(name, "+");
  const bool two = name[n] == '+';
  ACCEL_TRY(accel__context_hardware(ctx, &hardware));
  ACCEL_TRY(accel__hardware_transport(hardware, two ? name + n + 1 : name, &r->transport));
  if (!two && !r->transport->needs_over) return ACCEL_OK;
  snprintf(first, sizeof first, "%.*s", two ? (int)n : 3, two ? name : "shm");
  ACCEL_TRY(accel__hardware_transport(hardware, first, &r->over));
  if (r->transport->needs_over && !r->over->needs_over) return ACCEL_OK;
  accel__fail(ACCEL_ERROR_ARGUMENT, "params.transport is '%s': %s", name,
              r->over->needs_over ? "the first is itself carried over another"
                                  : "the second is between processes, not between devices");
  return accel__remedy(
      ACCEL_ERROR_ARGUMENT,
      "name one between processes, and behind a '+' one between devices: shm+nccl");
}

static accel_status join(accel *ctx, const accel_params *params, accel__ranks *r) {
  const char *name = params->transport && *params->transport ? params->transport : "shm";
  accel_comm_options options = {.size = sizeof options,
                                .rank = params->rank,
                                .world = params->world,
                                .timeout_ms = JOIN_MS,
                                .job = params->job ? params->job : "default"};
  ACCEL_TRY(find_transports(ctx, name, r));
  if (!r->over) return open_group(r->transport, &options, &r->comm);
  ACCEL_TRY(open_group(r->over, &options, &r->over_comm));
  options.over = r->over;
  options.over_comm = r->over_comm;
  const accel_status status = open_group(r->transport, &options, &r->comm);
  if (status != ACCEL_OK) r->over->close(r->over_comm);
  return status;
}

accel_status accel__ranks_join(accel *ctx, const accel_params *params, accel__ranks **out) {
  *out = NULL;
  if (params->world < 2) return ACCEL_OK;
  ACCEL_TRY(check_params(params));
  accel__ranks *r = calloc(1, sizeof *r);
  if (!r) return accel__no_memory(sizeof *r);
  pthread_mutexattr_t again;
  pthread_mutexattr_init(&again);
  pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE); /* a failed opening closes */
  pthread_mutex_init(&r->lock, &again);
  pthread_mutexattr_destroy(&again);
  r->rank = params->rank;
  r->world = params->world;
  const accel_status status = join(ctx, params, r);
  if (status == ACCEL_OK) {
    *out = r;
    return ACCEL_OK;
  }
  pthread_mutex_destroy(&r->lock);
  free(r);
  return status;
}

void accel__ranks_leave(accel__ranks **ranks) {
  accel__ranks *r = *ranks;
  accel__order o = {.left = 0};
  *ranks = NULL;
  if (!r) return;
  accel__order_number(&o, ACCEL__ORDER_LEAVE);
  if (!r->rank && !r->lost && accel__ranks_tell(r, &o) != ACCEL_OK) accel__clear_error();
  accel__buffer_free(&o.bytes);
  r->transport->close(r->comm);
  if (r->over) r->over->close(r->over_comm);
  pthread_mutex_destroy(&r->lock);
  free(r);
}
