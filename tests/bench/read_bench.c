/* read_bench.c - how fast a file is read around the page cache, and what that costs the processor.
 *
 *   read_bench FILE [MIB [ROUNDS]]     the first MIB of the file (default 1024) in each way, ROUNDS times (default 5)
 *
 * Every round goes through all ways, one after the other and beginning with another each time: raw
 * pread (O_DIRECT) of 1, 2 and 4 threads, io_uring by raw system calls, and the library's reader of
 * ranges with its checks.  Prints for each the median, least and most GB/s and the processor time
 * in percent of one core.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench_timer.h"
#include "weights/range_reader.h"

enum { MAX_ROUNDS = 100, MIB = 1 << 20, SEGMENT = 16 * MIB };
static const char *path;
static uint64_t bytes;

static int say(const char *what, int error) {
  return fprintf(stderr, "%s: %s: %s\n", path, what, strerror(error)), 1;
}

/* ---- pread ---- */

typedef struct raw {
  int fd;
  uint64_t request;
  _Atomic uint64_t at;
  atomic_int error;
} raw;

static void *read_raw(void *arg) {
  raw *r = arg;
  void *to = huge(r->request);
  for (uint64_t at; to && !r->error && (at = atomic_fetch_add(&r->at, r->request)) < bytes;)
    if (pread(r->fd, to, r->request, (off_t)at) != (ssize_t)r->request)
      r->error = errno ? errno : EIO;
  free(to);
  return NULL;
}

static int pread_way(uint32_t threads, uint64_t request) {
  raw r = {.fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC), .request = request};
  pthread_t thread[4];
  uint32_t n = 0;
  if (r.fd < 0) return say("open", errno);
  while (n < threads && !pthread_create(&thread[n], NULL, read_raw, &r)) n++;
  for (uint32_t i = 0; i < n; i++) pthread_join(thread[i], NULL);
  close(r.fd);
  return r.error ? say("pread", r.error) : n < threads;
}

/* ---- io_uring ---- */

typedef struct ring {
  int fd;
  uint8_t *queue; /* both rings: IORING_FEAT_SINGLE_MMAP */
  size_t queue_bytes, entry_bytes;
  struct io_uring_sqe *entry;
  _Atomic uint32_t *sq_tail, *cq_head, *cq_tail;
  uint32_t *sq_array, sq_mask, cq_mask;
  struct io_uring_cqe *cqe;
} ring;

static int ring_open(ring *r, uint32_t depth) {
  struct io_uring_params p = {.flags = 0};
  r->fd = (int)syscall(SYS_io_uring_setup, depth, &p);
  if (r->fd < 0 || !(p.features & IORING_FEAT_SINGLE_MMAP)) return say("io_uring_setup", errno);
  const size_t sq = p.sq_off.array + p.sq_entries * sizeof(uint32_t),
               cq = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
  r->queue_bytes = sq > cq ? sq : cq;
  r->entry_bytes = p.sq_entries * sizeof *r->entry;
  r->queue = mmap(NULL, r->queue_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd,
                  IORING_OFF_SQ_RING);
  r->entry = mmap(NULL, r->entry_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd,
                  IORING_OFF_SQES);
  if (r->queue == MAP_FAILED || (void *)r->entry == MAP_FAILED) return say("mmap", errno);
  r->sq_tail = (void *)(r->queue + p.sq_off.tail);
  r->sq_array = (void *)(r->queue + p.sq_off.array);
  r->sq_mask = *(uint32_t *)(void *)(r->queue + p.sq_off.ring_mask);
  r->cq_head = (void *)(r->queue + p.cq_off.head);
  r->cq_tail = (void *)(r->queue + p.cq_off.tail);
  r->cq_mask = *(uint32_t *)(void *)(r->queue + p.cq_off.ring_mask);
  r->cqe = (void *)(r->queue + p.cq_off.cqes);
  return 0;
}

static void ring_close(ring *r) {
  munmap(r->queue, r->queue_bytes);
  munmap(r->entry, r->entry_bytes);
  close(r->fd);
}

static void ring_post(ring *r, int fd, void *to, uint64_t n, uint64_t at, uint32_t slot) {
  const uint32_t tail = *r->sq_tail, index = tail & r->sq_mask;
  r->entry[index] = (struct io_uring_sqe){.opcode = IORING_OP_READ,
                                          .fd = fd,
                                          .addr = (uintptr_t)to,
                                          .len = (uint32_t)n,
                                          .off = at,
                                          .user_data = slot};
  r->sq_array[index] = index;
  atomic_store_explicit(r->sq_tail, tail + 1, memory_order_release);
}

/* Submits n and waits for one at least. */
static int ring_enter(ring *r, uint32_t n) {
  while (syscall(SYS_io_uring_enter, r->fd, n, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
    if (errno != EINTR) return say("io_uring_enter", errno);
  return 0;
}

static int ring_read(ring *r, int fd, uint8_t *memory, uint32_t depth, uint64_t request) {
  uint64_t posted = 0, done = 0;
  uint32_t fresh = 0;
  for (; fresh < depth && posted < bytes; fresh++, posted += request)
    ring_post(r, fd, memory + fresh * request, request, posted, fresh);
  while (done < bytes) {
    if (ring_enter(r, fresh)) return 1;
    fresh = 0;
    uint32_t head = *r->cq_head;
    for (; head != atomic_load_explicit(r->cq_tail, memory_order_acquire); head++) {
      const struct io_uring_cqe *c = &r->cqe[head & r->cq_mask];
      if (c->res != (int32_t)request) return say("io_uring read", c->res < 0 ? -c->res : EIO);
      done += request;
      if (posted >= bytes) continue;
      ring_post(r, fd, memory + c->user_data * request, request, posted, (uint32_t)c->user_data);
      posted += request;
      fresh++;
    }
    atomic_store_explicit(r->cq_head, head, memory_order_release);
  }
  return 0;
}

static int uring_way(uint32_t depth, uint64_t request) {
  ring r = {.fd = -1};
  const int fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
  uint8_t *memory = huge(depth * request);
  if (fd < 0 || !memory) return say("open", errno);
  if (ring_open(&r, depth)) return close(fd), free(memory), 1;
  const int rc = ring_read(&r, fd, memory, depth, request);
  ring_close(&r);
  close(fd);
  free(memory);
  return rc;
}

/* ---- the reader ---- */

static int reader_way(uint32_t threads, uint64_t request, bool buffered) {
  enum { SLOTS = 4 };
  const accel__range_options options = {.threads = threads,
                                        .slots = SLOTS,
                                        .slot_bytes = SEGMENT,
                                        .request_bytes = request,
                                        .buffered = buffered};
  accel__range_reader *r;
  accel_status status = accel__range_reader_open(&path, NULL, 1, &options, &r);
  const uint64_t n = bytes / SEGMENT;
  for (uint64_t i = 0, posted = 0; i < n && status == ACCEL_OK; i++) {
    const void *data;
    for (; posted < n && posted < i + SLOTS && status == ACCEL_OK; posted++)
      status =
          accel__range_reader_post(r, (uint32_t)(posted % SLOTS), 0, posted * SEGMENT, SEGMENT);
    if (status == ACCEL_OK) status = accel__range_reader_wait(r, (uint32_t)(i % SLOTS), &data);
    if (status == ACCEL_OK) accel__range_reader_release(r, (uint32_t)(i % SLOTS));
  }
  accel__range_reader_close(&r);
  return status == ACCEL_OK ? 0 : (fprintf(stderr, "%s\n", accel__message()), 1);
}

/* ---- rounds ---- */

typedef struct way {
  const char *name;
  enum { PREAD, URING, READER, BUFFERED } kind;
  uint32_t n; /* threads, or depth */
  uint64_t request;
} way;
static const way ways[] = {
    {"pread 1 x 1 MiB", PREAD, 1, MIB},        {"pread 2 x 1 MiB", PREAD, 2, MIB},
    {"pread 4 x 1 MiB", PREAD, 4, MIB},        {"pread 4 x 4 MiB", PREAD, 4, 4 * MIB},
    {"io_uring 4 x 1 MiB", URING, 4, MIB},     {"io_uring 8 x 1 MiB", URING, 8, MIB},
    {"io_uring 4 x 4 MiB", URING, 4, 4 * MIB}, {"reader 2 x 1 MiB", READER, 2, MIB},
    {"reader 2 x 4 MiB", READER, 2, 4 * MIB},  {"reader 4 x 1 MiB", READER, 4, MIB},
    {"reader 4 x 4 MiB", READER, 4, 4 * MIB},  {"reader 2 buffered", BUFFERED, 2, MIB}};
enum { WAYS = sizeof ways / sizeof *ways };

static double processor_seconds(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static int run(const way *w) {
  if (w->kind == PREAD) return pread_way(w->n, w->request);
  if (w->kind == URING) return uring_way(w->n, w->request);
  return reader_way(w->n, w->request, w->kind == BUFFERED);
}

static int all_rounds(int rounds) {
  static double rate[WAYS][MAX_ROUNDS], load[WAYS][MAX_ROUNDS];
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  for (int i = 0; i < rounds; i++) {
    for (int turn = 0; turn < WAYS; turn++) {
      const int w = (turn + 5 * i) % WAYS; /* disks of virtual machines are fast at first */
      if (fd >= 0) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
      const double begin = now(), processor = processor_seconds();
      if (run(&ways[w])) return 1;
      const double seconds = now() - begin;
      rate[w][i] = 1e-9 * (double)bytes / seconds;
      load[w][i] = 100 * (processor_seconds() - processor) / seconds;
    }
  }
  close(fd);
  for (int w = 0; w < WAYS; w++) {
    const double middle = median(rate[w], (size_t)rounds); /* sorts */
    printf("%-20s %.3f GB/s (%.3f to %.3f), %5.1f %% of a core\n", ways[w].name, middle, rate[w][0],
           rate[w][rounds - 1], median(load[w], (size_t)rounds));
  }
  return 0;
}

int main(int argc, char **argv) {
  struct stat about;
  if (argc < 2) return fprintf(stderr, "usage: read_bench FILE [MIB [ROUNDS]]\n"), 2;
  path = argv[1];
  const int rounds = argc > 3 ? atoi(argv[3]) : 5;
  if (rounds < 1 || rounds > MAX_ROUNDS) return fprintf(stderr, "1 to %d rounds\n", MAX_ROUNDS), 2;
  bytes = (argc > 2 ? strtoull(argv[2], NULL, 10) : 1024) * MIB;
  if (stat(path, &about)) return say("stat", errno);
  if ((uint64_t)about.st_size < bytes) bytes = (uint64_t)about.st_size;
  bytes = bytes / SEGMENT * SEGMENT;
  return bytes ? all_rounds(rounds) : say("less than 16 MiB", 0);
}
