/* comm_mpi.c - ranks that an MPI launcher has started, on one machine or several.
 *
 * Compiled once for each MPI, since they have no ABI in common (COMM_MPI_NAME, COMM_MPI_LIBRARY).
 * Before data move, the ranks compare what they are about to do; sums are made here, in the order of
 * the ranks, of what all have sent.  A rank that dies is the launcher's to see: mpirun ends the
 * others. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "accel/comm.h"

enum {
  CHUNK = 1 << 18, /* elements of a sum at once */
  EAGER_TESTS = 20000,
  FIELDS = 3,
  ABORTED = -1
};

enum { ALLREDUCE = 1, BROADCAST = 2 };

struct accel_comm {
  MPI_Comm group;
  uint32_t rank, world;
  float *all; /* [world][CHUNK] */
  bool lost;
};

/* Waits without taking the processor from a rank that computes on it. */
static int32_t finish(MPI_Request *request) {
  const struct timespec nap = {.tv_nsec = 20000};
  int done = 0;
  for (long tests = 0;; tests++) {
    if (MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return ACCEL_COMM_E_LOST;
    if (done) return ACCEL_COMM_OK;
    if (tests > EAGER_TESTS) nanosleep(&nap, NULL);
  }
}

static int32_t lose(accel_comm *c) {
  c->lost = true;
  return ACCEL_COMM_E_LOST;
}

/* Are all ranks about to do this? */
static int32_t meet(accel_comm *c, int64_t kind, uint64_t n, uint32_t tag) {
  const int64_t mine[FIELDS] = {kind, (int64_t)n, tag};
  int64_t all[FIELDS * ACCEL_COMM_MAX_WORLD];
  MPI_Request request;
  bool alike = true;
  if (c->lost) return ACCEL_COMM_E_LOST;
  if (MPI_Iallgather(mine, FIELDS, MPI_INT64_T, all, FIELDS, MPI_INT64_T, c->group, &request) ||
      finish(&request))
    return lose(c);
  for (uint32_t r = 0; r < c->world; r++) {
    if (all[FIELDS * r] == ABORTED) return lose(c);
    alike &= !memcmp(all + FIELDS * r, mine, sizeof mine);
  }
  return alike ? ACCEL_COMM_OK : ACCEL_COMM_E_MISMATCH;
}

static int32_t mpi_allreduce(accel_comm *c, float *data, uint64_t n, uint32_t tag) {
  int32_t rc = meet(c, ALLREDUCE, n, tag);
  for (uint64_t at = 0; !rc && at < n; at += CHUNK) {
    const int some = n - at < CHUNK ? (int)(n - at) : CHUNK;
    MPI_Request request;
    if (MPI_Iallgather(data + at, some, MPI_FLOAT, c->all, some, MPI_FLOAT, c->group, &request) ||
        finish(&request))
      return lose(c);
    for (int i = 0; i < some; i++) data[at + (uint64_t)i] = c->all[i] + c->all[some + i];
    for (uint32_t r = 2; r < c->world; r++)
      for (int i = 0; i < some; i++)
        data[at + (uint64_t)i] += c->all[(size_t)r * (size_t)some + (size_t)i];
  }
  return rc;
}

static int32_t mpi_broadcast(accel_comm *c, void *bytes, uint64_t n, uint32_t tag) {
  int32_t rc = meet(c, BROADCAST, n, tag);
  for (uint64_t at = 0; !rc && at < n; at += CHUNK) {
    const int some = n - at < CHUNK ? (int)(n - at) : CHUNK;
    MPI_Request request;
    if (MPI_Ibcast((char *)bytes + at, some, MPI_BYTE, 0, c->group, &request) || finish(&request))
      return lose(c);
  }
  return rc;
}

/* The others are told in their next call. */
static void mpi_abort(accel_comm *c) {
  if (!c->lost) (void)meet(c, ABORTED, 0, 0);
  c->lost = true;
}

static void mpi_close(accel_comm *c) {
  if (!c) return;
  if (!c->lost) {
    MPI_Comm_free(&c->group);
    MPI_Finalize();
  }
  free(c->all);
  free(c);
}

static int32_t fail(accel_comm *c, char *why, size_t size, const char *text) {
  snprintf(why, size, "%s", text);
  free(c ? c->all : NULL);
  free(c);
  return ACCEL_COMM_E_SYSTEM;
}

static int32_t mpi_open(const accel_comm_options *o, accel_comm **out, char *why, size_t size) {
  int done = 0, level = 0, rank = 0, world = 0;
  *out = NULL;
  /* its own plugins look for its symbols in the whole process */
  if (!dlopen(COMM_MPI_LIBRARY, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD))
    return fail(NULL, why, size, COMM_MPI_LIBRARY " is not loaded");
  MPI_Initialized(&done);
  if (!done && MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level))
    return fail(NULL, why, size, "MPI_Init_thread failed: start the ranks with mpirun");
  if (!done && level < MPI_THREAD_SERIALIZED)
    return fail(NULL, why, size, "this MPI does not serve threads that take turns");
  accel_comm *c = calloc(1, sizeof *c);
  if (c) c->all = malloc((size_t)o->world * CHUNK * sizeof *c->all);
  if (!c || !c->all) return fail(c, why, size, "out of memory");
  if (MPI_Comm_dup(MPI_COMM_WORLD, &c->group)) return fail(c, why, size, "MPI_Comm_dup failed");
  MPI_Comm_set_errhandler(c->group, MPI_ERRORS_RETURN);
  MPI_Comm_rank(c->group, &rank);
  MPI_Comm_size(c->group, &world);
  if ((uint32_t)rank != o->rank || (uint32_t)world != o->world) {
    char text[96];
    snprintf(text, sizeof text, "MPI says rank %d of %d, not rank %u of %u", rank, world, o->rank,
             o->world);
    MPI_Comm_free(&c->group);
    return fail(c, why, size, text);
  }
  c->rank = o->rank;
  c->world = o->world;
  *out = c;
  return ACCEL_COMM_OK;
}

__attribute__((visibility("default"))) const accel_comm_transport *accel_comm_query(
    uint32_t core_abi);
const accel_comm_transport *accel_comm_query(uint32_t core_abi) {
  static const accel_comm_transport table = {.size = sizeof table,
                                             .abi = ACCEL_COMM_ABI,
                                             .name = COMM_MPI_NAME,
                                             .open = mpi_open,
                                             .close = mpi_close,
                                             .allreduce = mpi_allreduce,
                                             .broadcast = mpi_broadcast,
                                             .abort = mpi_abort};
  return core_abi == ACCEL_COMM_ABI ? &table : NULL;
}
