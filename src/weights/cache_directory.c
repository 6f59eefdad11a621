/* cache_directory.c - the directory of the cache: names, locks, room, listing, pruning. */
#include "weights/cache_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "core/file.h"
#include "core/text.h"

enum { STALE_SECONDS = 3600, STALE_PART_SECONDS = 24 * 3600 };
static const uint64_t spare_bytes = UINT64_C(64) << 20; /* left free on the disk */

/* ---- names and files ---- */

void accel__cache_name(const char *key, const char *ending, char name[ACCEL__CACHE_NAME]) {
  const size_t n = strlen(key);
  snprintf(name, ACCEL__CACHE_NAME, "%016llx%016llx%s", (unsigned long long)accel__hash(key, n, 1),
           (unsigned long long)accel__hash(key, n, 2), ending);
}

int accel__cache_open_directory(const accel__cache *c) {
  return c->directory ? open(c->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
}

int accel__cache_make_directory(const accel__cache *c, const char *label) {
  char why[512];
  if (!c->directory) return accel__cache_declined(c, label, "there is no cache directory"), -1;
  if (accel__make_directories(c->directory) != ACCEL_OK) {
    snprintf(why, sizeof why, "%s", accel__message());
    accel__cache_declined(c, label, why);
    return -1;
  }
  const int directory = accel__cache_open_directory(c);
  if (directory < 0) accel__cache_declined(c, label, accel__error_text(errno, why, sizeof why));
  return directory;
}

int accel__cache_open_file(int directory, const char *name) {
  enum { FLAGS = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK };
  const int fd = openat(directory, name, O_RDWR | FLAGS);
  return fd < 0 && (errno == EACCES || errno == EROFS || errno == EPERM)
             ? openat(directory, name, O_RDONLY | FLAGS)
             : fd;
}

bool accel__cache_lock(int fd, bool alone) {
  return !flock(fd, (alone ? LOCK_EX : LOCK_SH) | LOCK_NB);
}

void accel__cache_touch(int fd) {
  if (!accel__cache_lock(fd, true)) return;
  futimens(fd, NULL); /* now; on a read-only disk it keeps its age */
  flock(fd, LOCK_UN);
}

void accel__cache_drop(const accel__cache *c, int directory, const char *name, const char *why) {
  accel__logf(c->log, ACCEL_LOG_INFO, "cache: %s/%s %s and is removed", c->directory, name, why);
  unlinkat(directory, name, 0);
}

bool accel__cache_declined(const accel__cache *c, const char *label, const char *why) {
  accel__logf(c->log, ACCEL_LOG_INFO, "cache: %s is not kept in %s: %s", label,
              c->directory ? c->directory : "(nowhere)", why);
  accel__fail(ACCEL_ERROR_IO, "%s is not kept in the cache %s: %s", label,
              c->directory ? c->directory : "(nowhere)", why);
  return false;
}

/* ---- room ---- */

uint64_t accel__cache_limit(const accel__cache *c) {
  struct statvfs disk;
  if (c->limit) return c->limit;
  if (!c->directory || statvfs(c->directory, &disk)) return ACCEL__CACHE_BYTES;
  uint64_t tenth = (uint64_t)disk.f_blocks * disk.f_frsize / 10;
  return tenth < ACCEL__CACHE_BYTES ? tenth : ACCEL__CACHE_BYTES;
}

/* ---- listing and pruning ---- */

static bool is_temporary(const char *name) { return accel__ends_with(name, ".packed.tmp"); }
static bool is_part(const char *name) { return accel__ends_with(name, ".part"); }

/* Label and soundness of a file with a header. */
static void look_at(int directory, const char *name, accel__arena *arena, accel__cache_entry *e) {
  accel__cache_file file;
  uint32_t version = 0;
  const char *label = NULL;
  int fd = is_temporary(name)
               ? -1
               : openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  e->label = "";
  if (fd < 0) return;
  e->sound = accel__cache_file_open(fd, &file, &version);
  if (e->sound && is_part(name))
    label = accel__arena_printf(arena, "%s (%u of %u segments so far)", file.label,
                                accel__cache_file_count(&file), file.n);
  else if (e->sound)
    label = accel__arena_string(arena, file.label);
  else if (version && version != ACCEL__CACHE_VERSION)
    label = accel__arena_printf(arena, "(of version %u: not used any more)", version);
  if (label) e->label = label;
  accel__cache_file_free(&file);
  close(fd);
}

static int by_use(const void *a, const void *b) {
  const accel__cache_entry *x = a, *y = b;
  return x->used != y->used ? (x->used < y->used) - (x->used > y->used) : strcmp(x->file, y->file);
}

/* headers: also what look_at finds, for which each file is opened. */
static accel_status list_entries(const accel__cache *c, bool headers, accel__arena *arena,
                                 accel__cache_entry **entries, uint32_t *n) {
  char **names;
  size_t found;
  *entries = NULL;
  *n = 0;
  if (!c->directory || !accel__is_directory(c->directory)) return ACCEL_OK;
  ACCEL_TRY(accel__list_directory(c->directory, arena, &names, &found));
  accel__cache_entry *list = accel__arena_array(arena, found, sizeof *list);
  int directory = list ? accel__cache_open_directory(c) : -1;
  if (!list) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (size_t i = 0; i < found; i++) {
    struct stat about;
    if (!accel__ends_with(names[i], ".packed") && !is_temporary(names[i]) && !is_part(names[i]))
      continue;
    if (fstatat(directory, names[i], &about, AT_SYMLINK_NOFOLLOW) || S_ISDIR(about.st_mode))
      continue;
    accel__cache_entry *e = &list[(*n)++];
    *e = (accel__cache_entry){
        .file = names[i], .bytes = (uint64_t)about.st_size, .used = about.st_mtim.tv_sec};
    if (headers) look_at(directory, names[i], arena, e);
  }
  if (directory >= 0) close(directory);
  if (*n) qsort(list, *n, sizeof *list, by_use);
  *entries = list;
  return ACCEL_OK;
}

accel_status accel__cache_list(const accel__cache *c, accel__arena *arena,
                               accel__cache_entry **entries, uint32_t *n) {
  return list_entries(c, true, arena, entries, n);
}

/* Nobody may have written to it for so long. */
static bool is_stale(const accel__cache_entry *e) {
  const int64_t age = time(NULL) - e->used;
  return (is_temporary(e->file) && age >= STALE_SECONDS) ||
         (is_part(e->file) && age >= STALE_PART_SECONDS);
}

static bool is_left_over(const accel__cache_entry *e) {
  return is_stale(e) || (!e->sound && !is_temporary(e->file) && !is_part(e->file));
}

/* A temporary file that somebody may be writing. */
static bool is_young(const accel__cache_entry *e) {
  return is_temporary(e->file) && !is_left_over(e);
}

/* Removes one entry that nobody has open; what another process removed first counts for nothing. */
static void remove_entry(int directory, accel__cache_entry *e, uint64_t *total, uint32_t *n,
                         uint64_t *bytes) {
  const int fd = openat(directory, e->file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
    close(fd);
    return;
  }
  const bool gone = !unlinkat(directory, e->file, 0);
  if (gone || errno == ENOENT) *total -= e->bytes;
  *n += gone;
  *bytes += gone ? e->bytes : 0;
  e->file = NULL;
  if (fd >= 0) close(fd);
}

accel_status accel__cache_prune(const accel__cache *c, uint64_t keep, uint32_t *n,
                                uint64_t *bytes) {
  accel__arena arena = {0};
  accel__cache_entry *entries;
  uint32_t found, removed = 0;
  uint64_t total = 0, freed = 0;
  accel_status status = accel__cache_list(c, &arena, &entries, &found);
  int directory = status == ACCEL_OK && found ? accel__cache_open_directory(c) : -1;
  for (uint32_t i = 0; i < found; i++) total += entries[i].bytes;
  for (uint32_t i = found; i-- > 0 && directory >= 0;)
    if (is_left_over(&entries[i])) remove_entry(directory, &entries[i], &total, &removed, &freed);
  for (uint32_t i = found; i-- > 0 && total > keep && directory >= 0;)
    if (entries[i].file && !is_young(&entries[i]))
      remove_entry(directory, &entries[i], &total, &removed, &freed);
  if (directory >= 0) close(directory);
  accel__arena_free(&arena);
  if (n) *n = removed;
  if (bytes) *bytes = freed;
  return status;
}

/* ---- room ---- */

/* Bytes of all files, whose headers are not read; *stale: some are to go. */
static accel_status held(const accel__cache *c, uint64_t *bytes, bool *stale) {
  accel__arena arena = {0};
  accel__cache_entry *entries;
  uint32_t n;
  const accel_status status = list_entries(c, false, &arena, &entries, &n);
  *bytes = 0;
  *stale = false;
  for (uint32_t i = 0; status == ACCEL_OK && i < n; i++) {
    *bytes += entries[i].bytes;
    *stale |= is_stale(&entries[i]);
  }
  accel__arena_free(&arena);
  return status;
}

bool accel__cache_make_room(const accel__cache *c, const char *label, uint64_t bytes) {
  struct statvfs disk;
  char why[512];
  uint64_t limit = accel__cache_limit(c), before;
  bool stale;
  if (bytes > limit)
    return accel__cache_declined(c, label,
                                 "it is larger than the cache may be (ACCEL_CACHE_LIMIT)");
  accel_status status = held(c, &before, &stale);
  if (status == ACCEL_OK && (stale || before > limit - bytes))
    status = accel__cache_prune(c, limit - bytes, NULL, NULL);
  if (status != ACCEL_OK) {
    snprintf(why, sizeof why, "%s", accel__message());
    return accel__cache_declined(c, label, why);
  }
  if (!statvfs(c->directory, &disk) &&
      (uint64_t)disk.f_bavail * disk.f_frsize < bytes + spare_bytes)
    return accel__cache_declined(c, label, "the disk is nearly full");
  return true;
}

/* The directory, or that of its parents which exists. */
static bool existing(const char *directory, char *out, size_t size) {
  if ((size_t)snprintf(out, size, "%s", directory) >= size) return false;
  while (access(out, F_OK)) {
    char *slash = strrchr(out, '/');
    if (!slash) return (size_t)snprintf(out, size, ".") < size;
    slash[slash == out] = 0;
    if (slash == out) break;
  }
  return true;
}

static double mib(uint64_t bytes) { return (double)bytes / (1 << 20); }

bool accel__cache_takes(const accel__cache *c, uint64_t bytes, char *why, size_t size) {
  char place[4096];
  struct statvfs disk;
  if (!c->directory)
    return (void)snprintf(why, size, "there is no cache directory: set ACCEL_CACHE_DIR"), false;
  if (!existing(c->directory, place, sizeof place) || !accel__is_directory(place) ||
      access(place, W_OK | X_OK) || statvfs(place, &disk) || disk.f_flag & ST_RDONLY)
    return (void)snprintf(why, size, "%s cannot be written: give --cache-dir", c->directory), false;
  const accel__cache there = {.directory = place, .limit = c->limit};
  const uint64_t limit = accel__cache_limit(&there), room = (uint64_t)disk.f_bavail * disk.f_frsize;
  if (bytes > limit) {
    snprintf(why, size, "%.1f MiB are needed, and it may hold %.1f: raise --cache-limit",
             mib(bytes), mib(limit));
    return false;
  }
  uint64_t freed; /* by pruning */
  bool stale;
  if (held(c, &freed, &stale) != ACCEL_OK) accel__clear_error();
  if (room + freed >= bytes + spare_bytes) return true;
  snprintf(why, size, "%.1f MiB are needed, and the disk of %s has %.1f left", mib(bytes),
           c->directory, mib(room));
  return false;
}
