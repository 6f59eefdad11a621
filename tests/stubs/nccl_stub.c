/* nccl_stub.c - NCCL's and RCCL's interface between processes of one machine, over host memory: what
 * the transports are tried with where there is no card.
 *
 * As in NCCL with config.blocking 0 everything is on its way when a call returns, and
 * ncclCommGetAsyncError says when it is done; a rank that does not come is waited for until
 * ncclCommAbort.  STUB_NCCL: "refuse" makes no communicator (two ranks on one card); "die:R:N" ends
 * the process of rank R in its N-th sum, which the others have begun or are about to. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS, INTERNAL = 3, USAGE = 5, IN_PROGRESS = 7, MOST = 8, FLOATS = 1 << 16 };

typedef struct unique_id {
  char bytes[128];
} unique_id;

typedef struct config {
  size_t size;
  unsigned magic, version;
  int blocking;
} config;

typedef struct segment {
  atomic_uint arrived[MOST]; /* how many meetings a rank has come to */
  float data[MOST][FLOATS];
} segment;

typedef struct communicator {
  segment *at;
  unique_id id;
  int world, rank;
  unsigned meetings, sums;
  atomic_int state;
  atomic_bool aborted;
  pthread_t thread;
  bool works;
  const float *from;
  float *to;
  size_t n;
} communicator;

#define STUB_API __attribute__((visibility("default")))
STUB_API int ncclGetVersion(int *version);
STUB_API int ncclGetUniqueId(unique_id *id);
STUB_API int ncclCommInitRankConfig(communicator **out, int world, unique_id id, int rank,
                                    config *how);
STUB_API int ncclCommGetAsyncError(communicator *c, int *state);
STUB_API int ncclAllReduce(const void *from, void *to, size_t n, int dtype, int op, communicator *c,
                           void *stream);
STUB_API int ncclCommDestroy(communicator *c);
STUB_API int ncclCommAbort(communicator *c);
STUB_API const char *ncclGetErrorString(int code);
STUB_API const char *ncclGetLastError(communicator *c);

static bool meet(communicator *c) {
  const struct timespec nap = {.tv_nsec = 50000};
  atomic_store(&c->at->arrived[c->rank], ++c->meetings);
  for (int r = 0; r < c->world; r++)
    while (atomic_load(&c->at->arrived[r]) < c->meetings) {
      if (atomic_load(&c->aborted)) return false;
      nanosleep(&nap, NULL);
    }
  return true;
}

static void die_here(const communicator *c) {
  const char *how = getenv("STUB_NCCL");
  int rank;
  unsigned sum;
  if (how && sscanf(how, "die:%d:%u", &rank, &sum) == 2 && rank == c->rank && sum == c->sums)
    _exit(9);
}

static void *join(void *arg) {
  communicator *c = arg;
  const char *how = getenv("STUB_NCCL");
  const bool met = meet(c);
  if (c->rank == 0) shm_unlink(c->id.bytes); /* all have it */
  atomic_store(&c->state, met && !(how && !strcmp(how, "refuse")) ? SUCCESS : USAGE);
  return NULL;
}

static void *sum(void *arg) {
  communicator *c = arg;
  bool met = true;
  for (size_t at = 0; met && at < c->n; at += FLOATS) {
    const size_t some = c->n - at < FLOATS ? c->n - at : FLOATS;
    memcpy(c->at->data[c->rank], c->from + at, some * sizeof *c->from);
    die_here(c);
    met = meet(c);
    for (size_t i = 0; met && i < some; i++) {
      float all = 0;
      for (int r = c->world; r-- > 0;) all += c->at->data[r][i]; /* an order of its own */
      c->to[at + i] = all;
    }
    met = met && meet(c);
  }
  atomic_store(&c->state, met ? SUCCESS : INTERNAL);
  return NULL;
}

static int start(communicator *c, void *(*work)(void *)) {
  if (c->works) pthread_join(c->thread, NULL);
  atomic_store(&c->state, IN_PROGRESS);
  c->works = !pthread_create(&c->thread, NULL, work, c);
  return c->works ? IN_PROGRESS : INTERNAL;
}

int ncclGetVersion(int *version) {
  *version = 21400;
  return SUCCESS;
}

int ncclGetUniqueId(unique_id *id) {
  static atomic_uint number;
  snprintf(id->bytes, sizeof id->bytes, "/accel-stub-nccl-%ld-%u", (long)getpid(),
           atomic_fetch_add(&number, 1));
  return SUCCESS;
}

int ncclCommInitRankConfig(communicator **out, int world, unique_id id, int rank, config *how) {
  if (how->size < sizeof *how || how->magic != 0xcafebeef || how->version < 21400 ||
      how->blocking || world > MOST)
    return USAGE;
  const int fd = shm_open(id.bytes, O_RDWR | O_CREAT, 0600);
  communicator *c = calloc(1, sizeof *c);
  if (fd < 0 || !c || ftruncate(fd, sizeof(segment))) return INTERNAL;
  c->at = mmap(NULL, sizeof(segment), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  c->id = id;
  c->world = world;
  c->rank = rank;
  *out = c;
  return c->at == MAP_FAILED ? INTERNAL : start(c, join);
}

int ncclCommGetAsyncError(communicator *c, int *state) {
  *state = atomic_load(&c->state);
  return SUCCESS;
}

int ncclAllReduce(const void *from, void *to, size_t n, int dtype, int op, communicator *c,
                  void *stream) {
  (void)stream;
  if (dtype != 7 || op != 0 || atomic_load(&c->state)) return USAGE;
  c->from = from;
  c->to = to;
  c->n = n;
  c->sums++;
  return start(c, sum);
}

int ncclCommDestroy(communicator *c) {
  if (c->works) pthread_join(c->thread, NULL);
  munmap(c->at, sizeof *c->at);
  free(c);
  return SUCCESS;
}

int ncclCommAbort(communicator *c) {
  atomic_store(&c->aborted, true);
  return ncclCommDestroy(c);
}

const char *ncclGetErrorString(int code) {
  return code == USAGE ? "invalid usage" : "internal error";
}
const char *ncclGetLastError(communicator *c) {
  (void)c;
  return "Duplicate GPU detected";
}
