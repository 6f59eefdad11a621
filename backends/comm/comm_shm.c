/* comm_shm.c - ranks on one machine: a segment of shared memory, waits on futexes.
 *
 * Every collective is a round.  A rank writes its call and its data to its side of the segment, sets
 * its counter to the round's number, and waits until all counters have it; then it reads the others'
 * sides.  There are two sides, used in turn: a rank writes one again only behind the round in which
 * all others have set their counters once more, so after they have read it.  Data that do not fit a
 * side go in several rounds.
 *
 * A rank holds a lock on its byte of the segment's file as long as it lives (open file description
 * locks: the system gives it back however the process ends); who waits for long looks at it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "accel/comm.h"

enum {
  SIDE = 512 << 10, /* bytes of a rank's data in one round */
  LINE = 128,
  SPINS = 4000,   /* looks at a counter before the thread sleeps */
  NAP_MS = 50,    /* between two looks at the others' locks */
  JOB_BYTES = 64, /* of a job's name */
  MAGIC = 0x41435431
};

typedef enum call_kind { ALLREDUCE = 1, BROADCAST = 2 } call_kind;

typedef struct call {
  uint32_t kind, tag;
  uint64_t n;
} call;

typedef struct member {
  _Alignas(LINE) atomic_uint round;
  atomic_uint sleepers; /* who wait for `round` in the kernel */
  call call[2];
} member;

typedef struct segment {
  atomic_uint magic; /* MAGIC when the rest is set */
  uint32_t abi, world, side;
  atomic_uint joined, aborted;
  member member[];
} segment;

struct accel_comm {
  segment *at;
  size_t bytes;
  unsigned char *data; /* [world][2][SIDE] */
  uint32_t rank, world, round;
  int fd;
  bool lost;
};

static size_t head_bytes(uint32_t world) {
  const size_t n = sizeof(segment) + world * sizeof(member);
  return (n + 4095) / 4096 * 4096;
}

static unsigned char *side_of(const accel_comm *c, uint32_t rank) {
  return c->data + ((size_t)rank * 2 + (c->round & 1)) * SIDE;
}

/* ---- waiting ---- */

static void futex(atomic_uint *word, int op, uint32_t value, const struct timespec *timeout) {
  syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

static uint64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Does some process hold rank r's byte? */
static bool is_alive(int fd, uint32_t r) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = r, .l_len = 1};
  return fcntl(fd, F_OFD_GETLK, &lock) || lock.l_type != F_UNLCK;
}

static bool take_place(int fd, uint32_t r) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = r, .l_len = 1};
  return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

static void pause_briefly(void) {
#if defined __x86_64__ || defined __i386__
  __builtin_ia32_pause();
#elif defined __aarch64__
  __asm__ volatile("yield");
#endif
}

static bool has_come(const member *m, uint32_t round) {
  return (int32_t)(atomic_load_explicit(&m->round, memory_order_acquire) - round) >= 0;
}

static void sleep_for(member *m, uint32_t seen) {
  const struct timespec nap = {.tv_nsec = NAP_MS * 1000000L};
  atomic_fetch_add(&m->sleepers, 1);
  futex(&m->round, FUTEX_WAIT, seen, &nap);
  atomic_fetch_sub(&m->sleepers, 1);
}

static int32_t wait_for(accel_comm *c, uint32_t r) {
  member *m = &c->at->member[r];
  for (int i = 0; i < SPINS; i++) {
    if (has_come(m, c->round)) return ACCEL_COMM_OK;
    pause_briefly();
  }
  for (;;) {
    const uint32_t seen = atomic_load(&m->round);
    if (has_come(m, c->round)) return ACCEL_COMM_OK;
    if (atomic_load(&c->at->aborted)) return ACCEL_COMM_E_LOST;
    sleep_for(m, seen);
    /* one that has come and died since has done its part of this round */
    if (!has_come(m, c->round) && !is_alive(c->fd, r) && !has_come(m, c->round))
      return ACCEL_COMM_E_LOST;
  }
}

/* ---- rounds ---- */

static int32_t lose(accel_comm *c) {
  c->lost = true;
  return ACCEL_COMM_E_LOST;
}

/* This rank's data are on its side: says so, and waits for the others. */
static int32_t meet(accel_comm *c, call_kind kind, uint64_t n, uint32_t tag) {
  member *own = &c->at->member[c->rank];
  const call mine = {kind, tag, n};
  bool alike = true;
  own->call[c->round & 1] = mine;
  atomic_store(&own->round, c->round);
  if (atomic_load(&own->sleepers)) futex(&own->round, FUTEX_WAKE, INT32_MAX, NULL);
  for (uint32_t r = 0; r < c->world; r++) {
    if (r != c->rank && wait_for(c, r)) return lose(c);
    const call *theirs = &c->at->member[r].call[c->round & 1];
    alike &= theirs->kind == mine.kind && theirs->tag == mine.tag && theirs->n == mine.n;
  }
  return alike ? ACCEL_COMM_OK : ACCEL_COMM_E_MISMATCH;
}

static void add(const accel_comm *c, float *out, size_t n) {
  const float *first = (const float *)(const void *)side_of(c, 0),
              *second = (const float *)(const void *)side_of(c, 1);
  for (size_t i = 0; i < n; i++) out[i] = first[i] + second[i];
  for (uint32_t r = 2; r < c->world; r++) {
    const float *more = (const float *)(const void *)side_of(c, r);
    for (size_t i = 0; i < n; i++) out[i] += more[i];
  }
}

static int32_t shm_allreduce(accel_comm *c, float *data, uint64_t n, uint32_t tag) {
  int32_t rc = c->lost ? ACCEL_COMM_E_LOST : ACCEL_COMM_OK;
  uint64_t at = 0;
  do {
    const size_t some = n - at < SIDE / sizeof *data ? (size_t)(n - at) : SIDE / sizeof *data;
    if (rc) break;
    c->round++;
    memcpy(side_of(c, c->rank), data + at, some * sizeof *data);
    rc = meet(c, ALLREDUCE, n, tag);
    if (!rc) add(c, data + at, some);
    at += some;
  } while (at < n);
  return rc;
}

static int32_t shm_broadcast(accel_comm *c, void *bytes, uint64_t n, uint32_t tag) {
  int32_t rc = c->lost ? ACCEL_COMM_E_LOST : ACCEL_COMM_OK;
  unsigned char *data = bytes;
  uint64_t at = 0;
  do {
    const size_t some = n - at < SIDE ? (size_t)(n - at) : SIDE;
    if (rc) break;
    c->round++;
    if (c->rank == 0) memcpy(side_of(c, 0), data + at, some);
    rc = meet(c, BROADCAST, n, tag);
    if (!rc && c->rank) memcpy(data + at, side_of(c, 0), some);
    at += some;
  } while (at < n);
  return rc;
}

static int32_t shm_look(accel_comm *c) {
  bool all = !atomic_load(&c->at->aborted);
  for (uint32_t r = 0; all && r < c->world; r++) all = r == c->rank || is_alive(c->fd, r);
  return all ? ACCEL_COMM_OK : ACCEL_COMM_E_LOST;
}

static void shm_abort(accel_comm *c) {
  c->lost = true;
  atomic_store(&c->at->aborted, 1);
  for (uint32_t r = 0; r < c->world; r++)
    futex(&c->at->member[r].round, FUTEX_WAKE, INT32_MAX, NULL);
}

/* ---- joining ---- */

static void shm_close(accel_comm *c) {
  if (!c) return;
  if (c->at) munmap(c->at, c->bytes);
  if (c->fd >= 0) close(c->fd);
  free(c);
}

static void nap(void) {
  const struct timespec t = {.tv_nsec = 2000000};
  nanosleep(&t, NULL);
}

static bool name_segment(const char *job, char *name, size_t size) {
  static const char known[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  const size_t n = job ? strlen(job) : 0;
  if (!n || n > JOB_BYTES || strspn(job, known) != n) return false;
  snprintf(name, size, "/accel-%u-%s", (unsigned)geteuid(), job);
  return true;
}

static int32_t map(accel_comm *c, char *why, size_t size) {
  c->at = mmap(NULL, c->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
  if (c->at == MAP_FAILED) {
    c->at = NULL;
    snprintf(why, size, "no %zu bytes of shared memory: %s", c->bytes, strerror(errno));
    return ACCEL_COMM_E_SYSTEM;
  }
  c->data = (unsigned char *)c->at + head_bytes(c->world);
  return ACCEL_COMM_OK;
}

/* Rank 0 makes the segment; one that a dead group left behind goes. */
static int32_t make_segment(accel_comm *c, const char *name, char *why, size_t size) {
  for (int tries = 0; tries < 2 && c->fd < 0; tries++) {
    c->fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (c->fd >= 0 || errno != EEXIST) break;
    const int old = shm_open(name, O_RDWR | O_CLOEXEC, 0);
    const bool alive = old >= 0 && is_alive(old, 0);
    if (old >= 0) close(old);
    if (alive) {
      snprintf(why, size, "another group of this name has its ranks on this machine");
      return ACCEL_COMM_E_SYSTEM;
    }
    shm_unlink(name);
  }
  if (c->fd < 0 || !take_place(c->fd, 0) || posix_fallocate(c->fd, 0, (off_t)c->bytes)) {
    snprintf(why, size, "no shared memory of %zu bytes: %s", c->bytes,
             errno ? strerror(errno) : "there is no room");
    shm_unlink(name);
    return ACCEL_COMM_E_SYSTEM;
  }
  const int32_t rc = map(c, why, size);
  if (rc) return rc;
  c->at->abi = ACCEL_COMM_ABI;
  c->at->world = c->world;
  c->at->side = SIDE;
  atomic_store(&c->at->magic, MAGIC);
  return ACCEL_COMM_OK;
}

/* The segment that rank 0 has made, or -1: not yet. */
static int find_segment(const char *name) {
  struct stat about;
  const int fd = shm_open(name, O_RDWR | O_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (!fstat(fd, &about) && about.st_uid == geteuid() && about.st_size > (off_t)sizeof(segment) &&
      is_alive(fd, 0))
    return fd;
  close(fd);
  return -1;
}

/* What rank 0 has written in front, when it has; false: not yet. */
static bool read_head(int fd, segment *head) {
  return pread(fd, head, sizeof *head, 0) == (ssize_t)sizeof *head &&
         atomic_load(&head->magic) == MAGIC;
}

static int32_t join_segment(accel_comm *c, const char *name, uint64_t until, char *why,
                            size_t size) {
  segment head = {.world = 0};
  bool there = false;
  while (!there && now_ms() < until) {
    c->fd = find_segment(name);
    there = c->fd >= 0 && read_head(c->fd, &head);
    if (there) break;
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
    nap();
  }
  if (!there) {
    snprintf(why, size, "rank 0 did not come");
    return ACCEL_COMM_E_SYSTEM;
  }
  if (head.abi != ACCEL_COMM_ABI || head.world != c->world || head.side != SIDE) {
    snprintf(why, size, "rank 0 is of a group of %u, or of another build", head.world);
    return ACCEL_COMM_E_SYSTEM;
  }
  const int32_t rc = map(c, why, size);
  if (rc) return rc;
  if (!take_place(c->fd, c->rank)) {
    snprintf(why, size, "the group has a rank %u already", c->rank);
    return ACCEL_COMM_E_SYSTEM;
  }
  atomic_fetch_add(&c->at->joined, 1);
  return ACCEL_COMM_OK;
}

static int32_t wait_for_all(accel_comm *c, uint64_t until, char *why, size_t size) {
  while (atomic_load(&c->at->joined) + 1 < c->world) {
    if (now_ms() >= until || (c->rank && !is_alive(c->fd, 0))) {
      snprintf(why, size, "only %u of %u ranks came", atomic_load(&c->at->joined) + 1, c->world);
      return ACCEL_COMM_E_SYSTEM;
    }
    nap();
  }
  return ACCEL_COMM_OK;
}

static int32_t shm_open_group(const accel_comm_options *o, accel_comm **out, char *why,
                              size_t size) {
  char name[JOB_BYTES + 32];
  const uint64_t until = now_ms() + o->timeout_ms;
  *out = NULL;
  if (!name_segment(o->job, name, sizeof name)) {
    snprintf(why, size, "the job's name must be 1 to %d letters, digits, '-', '_' or '.'",
             JOB_BYTES);
    return ACCEL_COMM_E_SYSTEM;
  }
  accel_comm *c = calloc(1, sizeof *c);
  if (!c) {
    snprintf(why, size, "out of memory");
    return ACCEL_COMM_E_SYSTEM;
  }
  *c = (accel_comm){.rank = o->rank,
                    .world = o->world,
                    .bytes = head_bytes(o->world) + (size_t)o->world * 2 * SIDE,
                    .fd = -1};
  int32_t rc = o->rank ? join_segment(c, name, until, why, size) : make_segment(c, name, why, size);
  if (!rc) rc = wait_for_all(c, until, why, size);
  if (!o->rank && c->at) shm_unlink(name); /* all who belong to it have it */
  if (rc)
    shm_close(c);
  else
    *out = c;
  return rc;
}

__attribute__((visibility("default"))) const accel_comm_transport *accel_comm_query(
    uint32_t core_abi);
const accel_comm_transport *accel_comm_query(uint32_t core_abi) {
  static const accel_comm_transport table = {.size = sizeof table,
                                             .abi = ACCEL_COMM_ABI,
                                             .name = "shm",
                                             .open = shm_open_group,
                                             .close = shm_close,
                                             .allreduce = shm_allreduce,
                                             .broadcast = shm_broadcast,
                                             .abort = shm_abort,
                                             .look = shm_look};
  return core_abi == ACCEL_COMM_ABI ? &table : NULL;
}
