/* comm_nccl.c - sums between cards: NVIDIA's NCCL, and AMD's RCCL, which has the same interface.
 *
 * Compiled once for each (COMM_NCCL_NAME, COMM_NCCL_LIBRARY, COMM_NCCL_API).  The library is looked
 * for when a group is opened, so nothing of it is needed to build this.  Its declarations here are
 * those of NCCL 2.14, which later versions keep.
 *
 * The library knows neither a rank that has died nor one that makes another call: its kernels wait
 * for ever.  So before each sum the ranks meet over the other transport, and a thread looks whether
 * all are there; when one is not, it aborts what the cards wait for.
 *
 * The library's communicator is made at the first sum, for the device it is on: when the group is
 * opened nobody has chosen one.  Where that fails (two ranks on one card, say) all ranks go through
 * host memory for good. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "accel/comm.h"

enum {
  LOOK_MS = 100,
  POLL_US = 20,
  TAG_OPEN = 1 << 30, /* above the core's */
  TAG_ID,
  TAG_READY,
  TAG_SUM,
  /* of the library */
  SUCCESS = 0,
  IN_PROGRESS = 7,
  FLOAT32 = 7,
  SUM = 0
};
static const unsigned config_magic = 0xcafebeef, config_version = 21400;

typedef struct unique_id {
  char bytes[128];
} unique_id;

typedef struct communicator communicator; /* ncclComm: the library's */

typedef struct config { /* ncclConfig_t of 2.14 */
  size_t size;
  unsigned magic, version;
  int blocking;
} config;

typedef struct library {
  int (*version)(int *version);
  int (*get_id)(unique_id *id);
  int (*init)(communicator **out, int world, unique_id id, int rank, config *how);
  int (*state)(communicator *comm, int *state);
  int (*allreduce)(const void *from, void *to, size_t n, int dtype, int op, communicator *comm,
                   void *stream);
  int (*abort)(communicator *comm);
  int (*destroy)(communicator *comm);
  const char *(*text)(int code);
  const char *(*last)(communicator *comm); /* optional: what the code's text does not say */
} library;

typedef enum way { WAY_UNKNOWN, WAY_DEVICES, WAY_HOST } way;

struct accel_comm {
  const accel_comm_transport *over;
  accel_comm *group; /* of `over` */
  library lib;
  uint32_t rank, world, device;
  way way;
  pthread_t looker;
  bool looks;
  pthread_mutex_t lock; /* of comm, within calls of the library */
  communicator *comm;   /* NULL: none yet, or aborted */
  atomic_bool lost, ends;
  atomic_bool joined; /* WAY_DEVICES: an error of the communicator is one of the group */
};

static void pause_us(long us) {
  const struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
  nanosleep(&t, NULL);
}

/* ---- the library ---- */

static const struct {
  const char *name;
  size_t offset;
  bool optional;
} symbols[] = {{"ncclGetVersion", offsetof(library, version), false},
               {"ncclGetUniqueId", offsetof(library, get_id), false},
               {"ncclCommInitRankConfig", offsetof(library, init), false},
               {"ncclCommGetAsyncError", offsetof(library, state), false},
               {"ncclAllReduce", offsetof(library, allreduce), false},
               {"ncclCommAbort", offsetof(library, abort), false},
               {"ncclCommDestroy", offsetof(library, destroy), false},
               {"ncclGetErrorString", offsetof(library, text), false},
               {"ncclGetLastError", offsetof(library, last), true}};

static bool load(library *lib, char *why, size_t size) {
  void *handle = dlopen(COMM_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle) {
    snprintf(why, size, "%s: install %s, or name its folder in LD_LIBRARY_PATH", dlerror(),
             COMM_NCCL_WHAT);
    return false;
  }
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
    void *found = dlsym(handle, symbols[i].name);
    if (!found && !symbols[i].optional) {
      snprintf(why, size, "%s has no %s: %s 2.14 or later is needed", COMM_NCCL_LIBRARY,
               symbols[i].name, COMM_NCCL_WHAT);
      return false;
    }
    memcpy((char *)lib + symbols[i].offset, &found, sizeof found);
  }
  return true;
}

static void explain(const accel_comm *c, int code, const char *doing, char *why, size_t size) {
  int version = 0;
  const char *last = c->lib.last ? c->lib.last(NULL) : NULL;
  c->lib.version(&version);
  snprintf(why, size, "%s (%s %d): %s%s%s", doing, COMM_NCCL_WHAT, version, c->lib.text(code),
           last && *last ? "; " : "", last ? last : "");
}

/* ---- waiting, and ranks that are gone ---- */

static void abort_communicator(accel_comm *c) {
  pthread_mutex_lock(&c->lock);
  if (c->comm) c->lib.abort(c->comm);
  c->comm = NULL;
  pthread_mutex_unlock(&c->lock);
}

static void drop(accel_comm *c) {
  atomic_store(&c->lost, true);
  abort_communicator(c);
}

static int32_t lose(accel_comm *c) {
  drop(c);
  return ACCEL_COMM_E_LOST;
}

/* The library's state of the communicator; what was begun may be on its way. */
static int settled(accel_comm *c) {
  int state = IN_PROGRESS;
  while (state == IN_PROGRESS) {
    pthread_mutex_lock(&c->lock);
    const int code = c->comm ? c->lib.state(c->comm, &state) : -1;
    pthread_mutex_unlock(&c->lock);
    if (code) return code;
    if (state == IN_PROGRESS) pause_us(POLL_US);
  }
  return state;
}

static void *look(void *arg) {
  accel_comm *c = arg;
  while (!atomic_load(&c->ends) && !atomic_load(&c->lost)) {
    int state = SUCCESS;
    bool gone = c->over->look && c->over->look(c->group) != ACCEL_COMM_OK;
    pthread_mutex_lock(&c->lock);
    if (atomic_load(&c->joined) && c->comm && !c->lib.state(c->comm, &state))
      gone |= state && state != IN_PROGRESS;
    pthread_mutex_unlock(&c->lock);
    if (gone && !atomic_load(&c->ends)) drop(c);
    pause_us(1000L * LOOK_MS);
  }
  return NULL;
}

/* Have all ranks done their part? */
static int32_t all_ready(accel_comm *c, bool ready, uint32_t tag, bool *all) {
  float votes = ready;
  const int32_t rc = c->over->allreduce(c->group, &votes, 1, tag);
  *all = !rc && votes == (float)c->world;
  return rc;
}

/* ---- the communicator ---- */

/* Begins one, which takes a second or so; false: why. */
static bool begin(accel_comm *c, const unique_id *id, char *why, size_t size) {
  config how = {sizeof how, config_magic, config_version, 0};
  communicator *comm = NULL;
  int code = c->lib.init(&comm, (int)c->world, *id, (int)c->rank, &how);
  pthread_mutex_lock(&c->lock);
  c->comm = comm;
  pthread_mutex_unlock(&c->lock);
  if (code == SUCCESS || code == IN_PROGRESS) code = settled(c);
  if (code) explain(c, code, "making a communicator", why, size);
  return !code;
}

static int32_t find_way(accel_comm *c, uint32_t device, char *why, size_t size) {
  unique_id id = {{0}};
  bool ready = true, all;
  if (!c->rank) {
    const int code = c->lib.get_id(&id);
    if (code) explain(c, code, "making an id of the group", why, size);
    ready = !code;
  }
  int32_t rc = all_ready(c, ready, TAG_READY, &all);
  if (!rc && !all) c->way = WAY_HOST;
  if (!rc && all) rc = c->over->broadcast(c->group, &id, sizeof id, TAG_ID);
  if (rc || !all) return rc;
  ready = begin(c, &id, why, size);
  rc = all_ready(c, ready, TAG_READY, &all);
  if (rc) return rc;
  if (all) {
    c->device = device;
    c->way = WAY_DEVICES;
    atomic_store(&c->joined, true);
    return ACCEL_COMM_OK;
  }
  c->way = WAY_HOST;
  abort_communicator(c);
  if (ready) snprintf(why, size, "another rank cannot");
  return ACCEL_COMM_OK;
}

/* Are all ranks about to sum n numbers, each on the device of its communicator? */
static int32_t meet(accel_comm *c, uint32_t device, uint64_t n, uint32_t tag, bool *here) {
  enum { DIGIT = 1 << 16 }; /* sums of which floats hold */
  const float mine[] = {(float)(n % DIGIT), (float)(n / DIGIT % DIGIT),
                        (float)(n / DIGIT / DIGIT % DIGIT), (float)(tag % DIGIT),
                        (float)(device == c->device)};
  float all[5];
  bool alike = true;
  memcpy(all, mine, sizeof all);
  const int32_t rc = c->over->allreduce(c->group, all, 5, TAG_SUM);
  for (int i = 0; i < 4; i++) alike &= all[i] == mine[i] * (float)c->world;
  *here = all[4] == (float)c->world;
  return rc ? rc : alike ? ACCEL_COMM_OK : ACCEL_COMM_E_MISMATCH;
}

static int32_t nccl_allreduce_device(accel_comm *c, uint32_t device, void *stream, void *data,
                                     uint64_t n, uint32_t tag, char *why, size_t size) {
  bool here;
  if (size) *why = 0;
  if (atomic_load(&c->lost)) return ACCEL_COMM_E_LOST;
  if (c->way == WAY_UNKNOWN) {
    const int32_t rc = find_way(c, device, why, size);
    if (rc == ACCEL_COMM_E_LOST) return lose(c);
    if (rc) return rc;
  }
  if (c->way == WAY_HOST) return ACCEL_COMM_E_HOST;
  const int32_t rc = meet(c, device, n, tag, &here);
  if (rc == ACCEL_COMM_E_LOST) return lose(c);
  if (rc) return rc;
  if (!here) return ACCEL_COMM_E_HOST;
  pthread_mutex_lock(&c->lock);
  int code = c->comm ? c->lib.allreduce(data, data, (size_t)n, FLOAT32, SUM, c->comm, stream) : -1;
  pthread_mutex_unlock(&c->lock);
  if (code == SUCCESS || code == IN_PROGRESS) code = settled(c);
  if (code) { /* the others wait for this one's part */
    c->over->abort(c->group);
    return lose(c);
  }
  return ACCEL_COMM_OK;
}

/* ---- everything else goes over the other transport ---- */

static int32_t nccl_allreduce(accel_comm *c, float *data, uint64_t n, uint32_t tag) {
  return c->over->allreduce(c->group, data, n, tag);
}
static int32_t nccl_broadcast(accel_comm *c, void *bytes, uint64_t n, uint32_t tag) {
  return c->over->broadcast(c->group, bytes, n, tag);
}
static void nccl_abort(accel_comm *c) {
  c->over->abort(c->group);
  drop(c);
}
static int32_t nccl_look(accel_comm *c) {
  if (atomic_load(&c->lost)) return ACCEL_COMM_E_LOST;
  return c->over->look ? c->over->look(c->group) : ACCEL_COMM_OK;
}

static void nccl_close(accel_comm *c) {
  if (!c) return;
  atomic_store(&c->ends, true);
  if (c->looks) pthread_join(c->looker, NULL);
  if (c->comm) c->lib.destroy(c->comm);
  pthread_mutex_destroy(&c->lock);
  free(c);
}

static int32_t nccl_open(const accel_comm_options *o, accel_comm **out, char *why, size_t size) {
  bool all = false;
  *out = NULL;
  if (!o->over || !o->over_comm) {
    snprintf(why, size, "it is opened over another transport: shm+%s", COMM_NCCL_NAME);
    return ACCEL_COMM_E_SYSTEM;
  }
  accel_comm *c = calloc(1, sizeof *c);
  if (c) {
    c->over = o->over;
    c->group = o->over_comm;
    c->rank = o->rank;
    c->world = o->world;
    pthread_mutex_init(&c->lock, NULL);
  }
  snprintf(why, size, "out of memory");
  const bool ready = c && load(&c->lib, why, size);
  if (ready) snprintf(why, size, "another rank cannot");
  float votes = ready;
  if (!o->over->allreduce(o->over_comm, &votes, 1, TAG_OPEN)) all = votes == (float)o->world;
  if (all) c->looks = !pthread_create(&c->looker, NULL, look, c);
  if (all && !c->looks) { /* the others find it gone */
    snprintf(why, size, "no thread");
    o->over->abort(o->over_comm);
  }
  if (all && c->looks) {
    *out = c;
    return ACCEL_COMM_OK;
  }
  nccl_close(c);
  return ACCEL_COMM_E_SYSTEM;
}

__attribute__((visibility("default"))) const accel_comm_transport *accel_comm_query(
    uint32_t core_abi);
const accel_comm_transport *accel_comm_query(uint32_t core_abi) {
  static const accel_comm_transport table = {.size = sizeof table,
                                             .abi = ACCEL_COMM_ABI,
                                             .name = COMM_NCCL_NAME,
                                             .open = nccl_open,
                                             .close = nccl_close,
                                             .allreduce = nccl_allreduce,
                                             .broadcast = nccl_broadcast,
                                             .abort = nccl_abort,
                                             .look = nccl_look,
                                             .needs_over = 1,
                                             .device_api = COMM_NCCL_API,
                                             .allreduce_device = nccl_allreduce_device};
  return core_abi == ACCEL_COMM_ABI ? &table : NULL;
}
