/* range_reader.c - the ring of slots, the queue of segments, and the threads that read them. */
#include "weights/range_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/text.h"
#include "core/threads.h"
#include "weights/checksum.h"

enum { BLOCK = ACCEL__RANGE_BLOCK, STACK_BYTES = 128 << 10, HUGE_BYTES = 2 << 20 };

typedef struct source_file {
  char *path; /* arena memory */
  accel__file_state state;
  int fd;             /* through the page cache */
  int direct_fd;      /* O_DIRECT; -1: the file system has none */
  atomic_bool direct; /* direct_fd is used; ends when a read refuses */
} source_file;

typedef enum slot_state { SLOT_FREE, SLOT_POSTED, SLOT_DONE } slot_state;
typedef struct slot {
  slot_state state;
  bool cancelled;
  uint32_t file;
  uint64_t offset, bytes;
  uint64_t begin, end, next; /* whole blocks around the range; where the next request begins */
  uint32_t under_way;        /* requests that a thread has taken, and the check */
  accel__failure failure;
} slot;

struct accel__range_reader {
  source_file *file; /* [n_file + 1] */
  slot *slot;
  uint32_t *queue; /* [slots] ring of slots with requests to be taken, oldest first */
  uint32_t n_file, n_slot, n_thread, queue_first, queue_n;
  uint64_t slot_bytes, stride, request;
  uint8_t *memory; /* [slots][stride], within the mapping */
  void *mapping;
  uint64_t mapped; /* its bytes */
  pthread_t thread[ACCEL__RANGE_MAX_THREADS];
  pthread_mutex_t lock; /* everything below, slots and the queue */
  pthread_cond_t work, done;
  bool stop;
  bool buffered, added; /* the options'; file n_file - 1 came by accel__range_reader_add */
  accel__arena arena;
  accel__map sums; /* segment_key -> checksum */
  accel__range_counters counters;
};

typedef struct segment_key {
  uint64_t file, offset, bytes;
} segment_key;

static uint64_t round_up(uint64_t n) { return (n + BLOCK - 1) / BLOCK * BLOCK; }

static uint8_t *memory_of(const accel__range_reader *r, const slot *s) {
  return r->memory + (uint64_t)(s - r->slot) * r->stride;
}

/* ---- one request ---- */

typedef struct request {
  slot *slot;
  uint64_t begin, n; /* whole blocks of the file */
  uint64_t least;    /* so many bytes must come: the last block of a file may be short */
  uint8_t *to;
} request;

/* Reads at least q->least bytes.  A part of a direct read begins again at its last whole block. */
static accel_status read_request(source_file *f, const request *q, bool *direct) {
  uint64_t have = 0, before = 0;
  *direct = atomic_load(&f->direct);
  while (have < q->least) {
    const bool refused = *direct && accel__fault("direct_refused");
    const ssize_t got = refused ? (errno = EINVAL, -1)
                                : accel__file_pread(*direct ? f->direct_fd : f->fd, q->begin + have,
                                                    q->to + have, (size_t)(q->n - have));
    if (got < 0 && errno == EINVAL && *direct) { /* this file system only says so now */
      atomic_store(&f->direct, *direct = false);
      continue;
    }
    if (got < 0) return accel__file_refused(f->path, "read", errno);
    have += (uint64_t)got;
    if (have >= q->least) break;
    if (*direct) have = have / BLOCK * BLOCK;
    if (have <= before || !got)
      return accel__file_ends(f->path, q->begin + have, q->least, q->begin);
    before = have;
  }
  if (!*direct) posix_fadvise(f->fd, (off_t)q->begin, (off_t)q->n, POSIX_FADV_DONTNEED);
  return ACCEL_OK;
}

/* ---- checks behind a segment ---- */

static accel_status same_file(const source_file *f) {
  accel__file_state now;
  ACCEL_TRY(accel__file_look(f->fd, f->path, &now));
  return accel__file_same(f->path, &now, &f->state);
}

/* r->lock is held. */
static accel_status keep_sum(accel__range_reader *r, const segment_key *key, int64_t sum) {
  segment_key *kept = accel__arena_alloc(&r->arena, sizeof *kept);
  if (!kept) return ACCEL_ERROR_OUT_OF_MEMORY;
  *kept = *key;
  return accel__map_set(&r->sums, (const char *)kept, sizeof *kept, sum);
}

/* The checksum of the segment in s, against that of its first time.  Takes r->lock. */
static accel_status same_bytes(accel__range_reader *r, const slot *s) {
  const segment_key key = {s->file, s->offset, s->bytes};
  accel__checksum sum;
  int64_t before;
  accel__checksum_begin(&sum);
  accel__checksum_add(&sum, memory_of(r, s) + (s->offset - s->begin), s->bytes);
  const int64_t now = (int64_t)accel__checksum_end(&sum) + accel__fault("segment_changed");
  accel_status status = ACCEL_OK;
  pthread_mutex_lock(&r->lock);
  const bool known = accel__map_get(&r->sums, (const char *)&key, sizeof key, &before);
  if (!known) status = keep_sum(r, &key, now);
  pthread_mutex_unlock(&r->lock);
  if (!known || before == now) return status;
  accel__fail(ACCEL_ERROR_IO,
              "%s: bytes %" PRIu64 " to %" PRIu64 " are not what they were when first read",
              r->file[s->file].path, s->offset, s->offset + s->bytes);
  return accel__remedy(ACCEL_ERROR_IO, "check the disk and the memory of this machine");
}

static accel_status check_segment(accel__range_reader *r, const slot *s) {
  ACCEL_TRY(same_file(&r->file[s->file]));
  return same_bytes(r, s);
}

/* A failed read of a file that somebody changed is told as that. */
static void explain(const source_file *f, accel_status status, accel__failure *failure) {
  accel__failure_keep(failure, status);
  const accel_status changed = same_file(f);
  if (changed != ACCEL_OK) accel__failure_keep(failure, changed);
}

/* ---- the threads (r->lock is held where nothing else is said) ---- */

/* The next request of the oldest segment. */
static request take_request(accel__range_reader *r) {
  slot *s = &r->slot[r->queue[r->queue_first]];
  const uint64_t left = s->end - s->next, n = left < r->request ? left : r->request,
                 range_end = s->offset + s->bytes;
  const request q = {.slot = s,
                     .begin = s->next,
                     .n = n,
                     .least = range_end - s->next < n ? range_end - s->next : n,
                     .to = memory_of(r, s) + (s->next - s->begin)};
  s->next += n;
  s->under_way++;
  if (s->next == s->end) {
    r->queue_first = (r->queue_first + 1) % r->n_slot;
    r->queue_n--;
  }
  return q;
}

/* Requests of this slot that no thread has taken are not read any more. */
static void drop_requests(accel__range_reader *r, slot *s) {
  if (s->next == s->end) return;
  s->next = s->end;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < r->queue_n; i++) {
    const uint32_t index = r->queue[(r->queue_first + i) % r->n_slot];
    if (&r->slot[index] != s) r->queue[(r->queue_first + kept++) % r->n_slot] = index;
  }
  r->queue_n = kept;
}

/* The last request of a segment has been read: checks it, without the lock. */
static void finish_segment(accel__range_reader *r, slot *s) {
  if (s->failure.status == ACCEL_OK && !s->cancelled) {
    accel__failure failure = {.status = ACCEL_OK};
    s->under_way++;
    pthread_mutex_unlock(&r->lock);
    const uint64_t begin = accel__now_ns();
    const accel_status status = check_segment(r, s);
    if (status != ACCEL_OK) accel__failure_keep(&failure, status);
    const uint64_t end = accel__now_ns();
    pthread_mutex_lock(&r->lock);
    r->counters.check_ns += end - begin;
    s->failure = failure;
    s->under_way--;
  }
  if (s->failure.status == ACCEL_OK && !s->cancelled) {
    r->counters.segments++;
    r->counters.bytes += s->bytes;
  }
  s->state = SLOT_DONE;
  pthread_cond_broadcast(&r->done);
}

static void serve(accel__range_reader *r) {
  const request q = take_request(r);
  slot *s = q.slot;
  source_file *f = &r->file[s->file];
  accel__failure failure = {.status = ACCEL_OK};
  bool direct = false;
  pthread_mutex_unlock(&r->lock);
  const uint64_t begin = accel__now_ns();
  const accel_status status = read_request(f, &q, &direct);
  const uint64_t end = accel__now_ns();
  if (status != ACCEL_OK) explain(f, status, &failure);
  pthread_mutex_lock(&r->lock);
  r->counters.busy_ns += end - begin;
  r->counters.requests++;
  r->counters.direct_requests += direct;
  r->counters.read_bytes += q.n;
  if (status != ACCEL_OK && s->failure.status == ACCEL_OK) s->failure = failure;
  if (status != ACCEL_OK) drop_requests(r, s);
  if (--s->under_way == 0 && s->next == s->end) finish_segment(r, s);
}

static void *reader_main(void *arg) {
  accel__range_reader *r = arg;
  pthread_mutex_lock(&r->lock);
  while (!r->stop) {
    if (r->queue_n)
      serve(r);
    else
      pthread_cond_wait(&r->work, &r->lock);
  }
  pthread_mutex_unlock(&r->lock);
  return NULL;
}

/* ---- open and close ---- */

/* May the file be read with O_DIRECT at blocks of ours?  Kernels before 6.1 do not tell: true, and
 * a read finds out. */
static bool direct_is_possible(int fd) {
#ifdef STATX_DIOALIGN
  struct statx about;
  if (!statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &about) &&
      (about.stx_mask & STATX_DIOALIGN) != 0)
    return about.stx_dio_offset_align && BLOCK % about.stx_dio_offset_align == 0 &&
           about.stx_dio_mem_align && BLOCK % about.stx_dio_mem_align == 0;
#endif
  (void)fd;
  return true;
}

static accel_status open_file(accel__range_reader *r, uint32_t i, const char *path,
                              const accel__file_state *state, bool buffered) {
  source_file *f = &r->file[i];
  f->path = accel__arena_string(&r->arena, path);
  if (!f->path) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__file_open(path, &f->fd, &f->state));
  if (state) ACCEL_TRY(accel__file_same(path, &f->state, state));
  if (buffered || !direct_is_possible(f->fd)) return ACCEL_OK;
  f->direct_fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_DIRECT);
  if (f->direct_fd < 0)
    return errno == EMFILE ? accel__file_refused(path, "open", errno) : ACCEL_OK;
  accel__file_state again;
  ACCEL_TRY(accel__file_look(f->direct_fd, path, &again));
  atomic_store(&f->direct, true);
  return accel__file_same(path, &again, &f->state); /* the name may be another file's by now */
}

static accel_status make_ring(accel__range_reader *r, const accel__range_options *o) {
  uint64_t bytes;
  if (!o->slots || !o->slot_bytes || o->slot_bytes > INT64_MAX / 2 ||
      o->request_bytes > INT64_MAX / 2 || o->threads > ACCEL__RANGE_MAX_THREADS)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "a reader of %u slots of %" PRIu64
                       " bytes with %u threads: at least one "
                       "slot of one byte, and at most %d threads",
                       o->slots, o->slot_bytes, o->threads, ACCEL__RANGE_MAX_THREADS);
  r->slot_bytes = o->slot_bytes;
  r->request = round_up(o->request_bytes ? o->request_bytes : ACCEL__RANGE_REQUEST);
  r->stride = round_up(o->slot_bytes) + BLOCK; /* a range may begin and end within a block */
  if (__builtin_mul_overflow(r->stride, (uint64_t)o->slots, &bytes) || bytes > INT64_MAX)
    return accel__no_memory(SIZE_MAX);
  r->slot = accel__arena_array(&r->arena, o->slots, sizeof *r->slot);
  r->queue = accel__arena_array(&r->arena, o->slots, sizeof *r->queue);
  if (!r->slot || !r->queue) return ACCEL_ERROR_OUT_OF_MEMORY;
  r->mapped = bytes < HUGE_BYTES ? bytes : bytes + HUGE_BYTES;
  void *memory = accel__fault("allocation") || r->mapped < bytes || r->mapped > SIZE_MAX
                     ? MAP_FAILED
                     : mmap(NULL, (size_t)r->mapped, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return accel__no_memory((size_t)bytes);
  r->mapping = r->memory = memory;
  if (r->mapped > bytes) {
    r->memory += -(uintptr_t)memory % HUGE_BYTES;
#ifdef MADV_HUGEPAGE
    /* one piece of memory for a request in place of 256: fewer commands to the disk, less pinning */
    madvise(r->memory, (size_t)bytes, MADV_HUGEPAGE);
#endif
  }
  r->n_slot = o->slots;
  return ACCEL_OK;
}

static accel_status start_threads(accel__range_reader *r, uint32_t wanted) {
  for (r->n_thread = 0; r->n_thread < wanted; r->n_thread++) {
    const int error =
        accel__thread_start(&r->thread[r->n_thread], STACK_BYTES, "accel-read", reader_main, r);
    if (!error) continue;
    char sentence[128];
    return accel__fail(ACCEL_ERROR_LIMIT, "reader: the system refused thread %u of %u: %s",
                       r->n_thread + 1, wanted,
                       accel__error_text(error, sentence, sizeof sentence));
  }
  return ACCEL_OK;
}

static accel_status open_steps(accel__range_reader *r, const char *const *paths,
                               const accel__file_state *states, uint32_t n,
                               const accel__range_options *options) {
  ACCEL_TRY(make_ring(r, options));
  r->file = accel__arena_array(&r->arena, (size_t)n + 1, sizeof *r->file);
  if (!r->file) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i <= n; i++) r->file[i].fd = r->file[i].direct_fd = -1;
  r->n_file = n;
  r->buffered = options->buffered;
  for (uint32_t i = 0; i < n; i++)
    ACCEL_TRY(open_file(r, i, paths[i], states ? &states[i] : NULL, options->buffered));
  return start_threads(r, options->threads ? options->threads : ACCEL__RANGE_MAX_THREADS);
}

accel_status accel__range_reader_open(const char *const *paths, const accel__file_state *states,
                                      uint32_t n, const accel__range_options *options,
                                      accel__range_reader **out) {
  *out = NULL;
  accel__range_reader *r = accel__fault("allocation") ? NULL : calloc(1, sizeof *r);
  if (!r) return accel__no_memory(sizeof *r);
  pthread_mutex_init(&r->lock, NULL);
  pthread_cond_init(&r->work, NULL);
  pthread_cond_init(&r->done, NULL);
  const accel_status status = open_steps(r, paths, states, n, options);
  if (status != ACCEL_OK) accel__range_reader_close(&r);
  *out = r;
  return status;
}

void accel__range_reader_close(accel__range_reader **reader) {
  accel__range_reader *r = *reader;
  *reader = NULL;
  if (!r) return;
  pthread_mutex_lock(&r->lock);
  r->stop = true;
  pthread_cond_broadcast(&r->work);
  pthread_mutex_unlock(&r->lock);
  for (uint32_t i = 0; i < r->n_thread; i++) pthread_join(r->thread[i], NULL);
  for (uint32_t i = 0; i < r->n_file; i++) {
    if (r->file[i].fd >= 0) close(r->file[i].fd);
    if (r->file[i].direct_fd >= 0) close(r->file[i].direct_fd);
  }
  if (r->mapping) munmap(r->mapping, (size_t)r->mapped);
  pthread_cond_destroy(&r->work);
  pthread_cond_destroy(&r->done);
  pthread_mutex_destroy(&r->lock);
  accel__map_free(&r->sums);
  accel__arena_free(&r->arena);
  free(r);
}

accel_status accel__range_reader_add(accel__range_reader *r, const char *path, uint32_t *index) {
  accel_status status = ACCEL_ERROR_ARGUMENT;
  *index = r->n_file;
  if (r->added) return accel__fail(status, "%s: the reader has one more file already", path);
  pthread_mutex_lock(&r->lock); /* the arena */
  status = open_file(r, r->n_file, path, NULL, r->buffered);
  r->n_file++; /* also what was opened in part is closed */
  r->added = true;
  pthread_mutex_unlock(&r->lock);
  return status;
}

accel_status accel__range_reader_expect(accel__range_reader *r, uint32_t file, uint64_t offset,
                                        uint64_t bytes, uint64_t sum) {
  const segment_key key = {file, offset, bytes};
  pthread_mutex_lock(&r->lock);
  const accel_status status = keep_sum(r, &key, (int64_t)sum);
  pthread_mutex_unlock(&r->lock);
  return status;
}

/* ---- slots ---- */

accel_status accel__range_reader_post(accel__range_reader *r, uint32_t slot_index, uint32_t file,
                                      uint64_t offset, uint64_t bytes) {
  if (slot_index >= r->n_slot || file >= r->n_file || !bytes || bytes > r->slot_bytes ||
      offset > r->file[file].state.bytes || bytes > r->file[file].state.bytes - offset)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "slot %u of %u, file %u of %u: bytes %" PRIu64 " + %" PRIu64
                       " are not in the file, or more than the %" PRIu64 " of a slot",
                       slot_index, r->n_slot, file, r->n_file, offset, bytes, r->slot_bytes);
  slot *s = &r->slot[slot_index];
  pthread_mutex_lock(&r->lock);
  const bool free_slot = s->state == SLOT_FREE;
  if (free_slot) {
    const uint64_t begin = offset / BLOCK * BLOCK;
    *s = (slot){.state = SLOT_POSTED,
                .file = file,
                .offset = offset,
                .bytes = bytes,
                .begin = begin,
                .next = begin,
                .end = round_up(offset + bytes)};
    r->queue[(r->queue_first + r->queue_n++) % r->n_slot] = slot_index;
    pthread_cond_broadcast(&r->work);
  }
  pthread_mutex_unlock(&r->lock);
  return free_slot ? ACCEL_OK : accel__fail(ACCEL_ERROR_ARGUMENT, "slot %u is in use", slot_index);
}

accel_status accel__range_reader_wait(accel__range_reader *r, uint32_t slot_index,
                                      const void **data) {
  *data = NULL;
  if (slot_index >= r->n_slot)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "slot %u of %u", slot_index, r->n_slot);
  slot *s = &r->slot[slot_index];
  const uint64_t begin = accel__now_ns();
  pthread_mutex_lock(&r->lock);
  r->counters.waits++;
  r->counters.ready += s->state == SLOT_DONE;
  while (s->state == SLOT_POSTED) pthread_cond_wait(&r->done, &r->lock);
  r->counters.wait_ns += accel__now_ns() - begin;
  const accel_status status =
      s->state == SLOT_FREE ? ACCEL_ERROR_ARGUMENT : accel__failure_raise(&s->failure);
  if (status == ACCEL_OK) *data = memory_of(r, s) + (s->offset - s->begin);
  const bool nothing = s->state == SLOT_FREE;
  pthread_mutex_unlock(&r->lock);
  return nothing ? accel__fail(status, "slot %u: nothing was posted", slot_index) : status;
}

bool accel__range_reader_ready(accel__range_reader *r, uint32_t slot_index) {
  if (slot_index >= r->n_slot) return true;
  pthread_mutex_lock(&r->lock);
  const bool ready = r->slot[slot_index].state != SLOT_POSTED;
  pthread_mutex_unlock(&r->lock);
  return ready;
}

void accel__range_reader_release(accel__range_reader *r, uint32_t slot_index) {
  if (slot_index >= r->n_slot) return;
  slot *s = &r->slot[slot_index];
  pthread_mutex_lock(&r->lock);
  s->cancelled = true;
  drop_requests(r, s);
  while (s->under_way) pthread_cond_wait(&r->done, &r->lock);
  s->state = SLOT_FREE;
  pthread_mutex_unlock(&r->lock);
}

accel_status accel__range_reader_check(const accel__range_reader *r) {
  for (uint32_t i = 0; i < r->n_file; i++) {
    const source_file *f = &r->file[i];
    accel__file_state now;
    int fd;
    ACCEL_TRY(accel__file_open(f->path, &fd, &now));
    close(fd);
    ACCEL_TRY(accel__file_same(f->path, &now, &f->state));
  }
  return ACCEL_OK;
}

bool accel__range_reader_direct(const accel__range_reader *r, uint32_t file) {
  return file < r->n_file && atomic_load(&r->file[file].direct);
}

void accel__range_reader_count(accel__range_reader *r, accel__range_counters *out) {
  pthread_mutex_lock(&r->lock);
  *out = r->counters;
  pthread_mutex_unlock(&r->lock);
}
