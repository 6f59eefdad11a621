/* cache_store.c - entries of the cache that grow by segments. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "weights/cache_directory.h"

struct accel__cache_store {
  const accel__cache *cache;
  int directory, fd;
  accel__cache_file file;
  bool whole;                 /* it has its name; else it is a part, which is locked */
  atomic_bool refused;        /* a write has failed: no more of them */
  atomic_bool drop;           /* the part goes when the store is closed: the disk is full */
  bool bypass;                /* the page cache */
  _Atomic uint64_t unwritten; /* bytes put since the page cache was dropped */
  char *path;                 /* of the whole entry */
};

enum { FLUSH_BYTES = 8 << 20 };

/* Does the name still stand for the open file?  Another process may have renamed or removed it
 * before it was locked here. */
static bool is_named(const accel__cache_store *s, const char *name) {
  struct stat open, named;
  return !fstat(s->fd, &open) && !fstatat(s->directory, name, &named, AT_SYMLINK_NOFOLLOW) &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

static void close_file(accel__cache_store *s) {
  accel__cache_file_free(&s->file);
  if (s->fd >= 0) close(s->fd);
  s->fd = -1;
}

/* Takes the open file's table when it is the wanted entry. */
static bool is_wanted(accel__cache_store *s, const accel__cache_file *wanted,
                      const uint64_t *bytes) {
  return accel__cache_file_open(s->fd, &s->file, NULL) && !strcmp(s->file.key, wanted->key) &&
         accel__cache_file_expect(&s->file, bytes, wanted->n);
}

/* The whole entry; false: there is none.  It is locked together with others that read it. */
static bool open_whole(accel__cache_store *s, const accel__cache_file *wanted,
                       const uint64_t *bytes) {
  char name[ACCEL__CACHE_NAME];
  accel__cache_name(wanted->key, ".packed", name);
  s->fd = accel__cache_open_file(s->directory, name);
  if (s->fd < 0) {
    if (errno == EACCES || errno == ELOOP)
      accel__cache_drop(s->cache, s->directory, name, "cannot be read");
    return false;
  }
  if (is_wanted(s, wanted, bytes)) {
    accel__cache_touch(s->fd);
    (void)accel__cache_lock(s->fd, false); /* without one, others may prune it: it stays open */
    return s->whole = true;
  }
  accel__cache_drop(s->cache, s->directory, name, "is damaged, or of other weights");
  close_file(s);
  return false;
}

/* An empty part gets room and the wanted table; 0, or errno, ENOSPC with a line in the log. */
static int begin_part(accel__cache_store *s, accel__cache_file *wanted, const char *name) {
  accel__cache_file_free(&s->file);
  if (ftruncate(s->fd, 0)) return errno;
  if (!accel__cache_make_room(s->cache, wanted->label, wanted->bytes)) {
    unlinkat(s->directory, name, 0);
    return ECANCELED;
  }
  const int error = accel__cache_file_begin(wanted, s->fd);
  if (error) {
    unlinkat(s->directory, name, 0);
    return error;
  }
  s->file = *wanted;
  *wanted = (accel__cache_file){.fd = -1};
  return 0;
}

/* The part of the entry, continued or begun; 0; EAGAIN: it went away meanwhile; ECANCELED: said in
 * the log; else errno. */
static int open_part(accel__cache_store *s, accel__cache_file *wanted, const uint64_t *bytes) {
  char name[ACCEL__CACHE_NAME];
  accel__cache_name(wanted->key, ".part", name);
  s->fd = openat(s->directory, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (s->fd < 0) return errno;
  if (!accel__cache_lock(s->fd, true)) return errno == EWOULDBLOCK ? EBUSY : errno;
  if (!is_named(s, name)) return EAGAIN;
  if (!is_wanted(s, wanted, bytes)) return begin_part(s, wanted, name);
  accel__logf(s->cache->log, ACCEL_LOG_INFO, "cache: %s/%s is continued, %u of %u segments",
              s->cache->directory, name, accel__cache_file_count(&s->file), s->file.n);
  return 0;
}

static bool open_any(accel__cache_store *s, accel__cache_file *wanted, const uint64_t *bytes,
                     const char *label) {
  char why[128];
  s->directory = accel__cache_open_directory(s->cache);
  if (s->directory >= 0 && open_whole(s, wanted, bytes)) return true;
  if (s->directory < 0) s->directory = accel__cache_make_directory(s->cache, label);
  int error = s->directory < 0 ? ECANCELED : EAGAIN;
  for (int tries = 0; error == EAGAIN && tries < 8; tries++) {
    if (tries && open_whole(s, wanted, bytes)) return true;
    error = open_part(s, wanted, bytes);
    if (error) close_file(s);
  }
  if (error == EBUSY)
    accel__cache_declined(s->cache, label, "another process is writing it");
  else if (error && error != ECANCELED)
    accel__cache_declined(s->cache, label, accel__error_text(error, why, sizeof why));
  return !error;
}

accel__cache_store *accel__cache_store_open(const accel__cache *c, const char *key,
                                            const char *label, const uint64_t *bytes, uint32_t n) {
  accel__cache_file wanted;
  if (!accel__cache_file_plan(key, label, bytes, n, &wanted)) {
    accel__cache_declined(c, label, "its key is too long, or it is too large");
    return NULL;
  }
  accel__cache_store *s = calloc(1, sizeof *s);
  if (s) {
    s->cache = c;
    s->directory = s->fd = s->file.fd = -1;
    if (!open_any(s, &wanted, bytes, label)) accel__cache_store_close(&s);
  }
  accel__cache_file_free(&wanted);
  return s;
}

bool accel__cache_store_has(const accel__cache_store *s, uint32_t index) {
  return accel__cache_file_has(&s->file, index);
}

void accel__cache_store_bypass(accel__cache_store *s) { s->bypass = true; }

void accel__cache_store_segment(const accel__cache_store *s, uint32_t index,
                                accel__cache_segment *out) {
  *out = s->file.segment[index];
}

void accel__cache_store_count(const accel__cache_store *s, uint32_t *there, uint32_t *all) {
  *there = accel__cache_file_count(&s->file);
  *all = s->file.n;
}

const char *accel__cache_store_path(const accel__cache_store *s) { return s->path; }

bool accel__cache_store_get(accel__cache_store *s, uint32_t index, void *out) {
  if (!accel__cache_file_has(&s->file, index)) return false;
  const bool good = accel__cache_file_read(&s->file, index, out);
  if (s->bypass)
    (void)posix_fadvise(s->fd, (off_t)s->file.segment[index].offset,
                        (off_t)s->file.segment[index].bytes, POSIX_FADV_DONTNEED);
  if (good) return true;
  accel__logf(s->cache->log, ACCEL_LOG_INFO, "cache: segment %u of %s is damaged and is made again",
              index, s->file.label);
  return false;
}

/* A whole entry is repaired by one process alone, and not while it is read elsewhere. */
static bool may_write(accel__cache_store *s) {
  if (atomic_load(&s->refused)) return false;
  return !s->whole || accel__cache_lock(s->fd, true);
}

bool accel__cache_store_put(accel__cache_store *s, uint32_t index, const accel_plugin_part *part,
                            uint32_t n) {
  char why[128];
  if (index >= s->file.n) return false;
  if (!may_write(s))
    return accel__cache_declined(s->cache, s->file.label,
                                 s->whole ? "others read it" : "an earlier part of it was refused");
  const int error = accel__cache_file_write(&s->file, index, part, n);
  if (s->whole) (void)accel__cache_lock(s->fd, false);
  if (s->bypass && atomic_fetch_add(&s->unwritten, s->file.segment[index].bytes) >= FLUSH_BYTES) {
    atomic_store(&s->unwritten, 0);
    accel__cache_file_flush(&s->file);
  }
  if (!error) return true;
  if (atomic_exchange(&s->refused, true)) return false;
  if (!s->whole && (error == ENOSPC || error == EDQUOT)) atomic_store(&s->drop, true);
  return accel__cache_declined(s->cache, s->file.label, accel__error_text(error, why, sizeof why));
}

bool accel__cache_store_recheck(accel__cache_store *s, uint32_t index) {
  void *bytes = malloc(s->file.segment[index].bytes + 1);
  const bool damaged =
      bytes && accel__cache_file_has(&s->file, index) && !accel__cache_store_get(s, index, bytes);
  free(bytes);
  if (!damaged || !accel__cache_lock(s->fd, true)) return damaged;
  (void)accel__cache_file_forget(&s->file, index);
  (void)accel__cache_lock(s->fd, false);
  return true;
}

/* The path, and no more of the file in the page cache than there was. */
static bool finish(accel__cache_store *s) {
  char name[ACCEL__CACHE_NAME];
  accel__cache_name(s->file.key, ".packed", name);
  if (s->bypass && atomic_exchange(&s->unwritten, 0)) accel__cache_file_flush(&s->file);
  if (!s->path && asprintf(&s->path, "%s/%s", s->cache->directory, name) < 0) s->path = NULL;
  return s->path != NULL;
}

bool accel__cache_store_commit(accel__cache_store *s) {
  char part[ACCEL__CACHE_NAME], name[ACCEL__CACHE_NAME], why[128];
  if (accel__cache_file_count(&s->file) != s->file.n) return false;
  if (s->whole) return finish(s);
  accel__cache_name(s->file.key, ".part", part);
  accel__cache_name(s->file.key, ".packed", name);
  if (renameat(s->directory, part, s->directory, name))
    return accel__cache_declined(s->cache, s->file.label,
                                 accel__error_text(errno, why, sizeof why));
  s->whole = true;
  (void)accel__cache_lock(s->fd, false); /* others may read it */
  return finish(s);
}

void accel__cache_store_close(accel__cache_store **store) {
  accel__cache_store *s = *store;
  char part[ACCEL__CACHE_NAME];
  if (!s) return;
  if (atomic_load(&s->drop) && !s->whole) {
    accel__cache_name(s->file.key, ".part", part);
    unlinkat(s->directory, part, 0);
  }
  close_file(s);
  if (s->directory >= 0) close(s->directory);
  free(s->path);
  free(s);
  *store = NULL;
}
