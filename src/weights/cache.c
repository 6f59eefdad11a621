/* cache.c - entries of the cache that are read and written whole. */
#include "weights/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "weights/cache_directory.h"

/* An entry of one segment that is open. */
typedef struct opened {
  int directory, fd;
  char name[ACCEL__CACHE_NAME];
  accel__cache_file file;
} opened;

static void close_entry(opened *o) {
  accel__cache_file_free(&o->file);
  if (o->fd >= 0) close(o->fd);
  if (o->directory >= 0) close(o->directory);
}

/* false: a miss, with nothing to close.  What is damaged is removed. */
static bool open_entry(const accel__cache *c, const char *key, opened *o) {
  const char *why = NULL;
  *o = (opened){.directory = accel__cache_open_directory(c), .fd = -1};
  if (o->directory < 0) return false;
  accel__cache_name(key, ".packed", o->name);
  o->fd = accel__cache_open_file(o->directory, o->name);
  if (o->fd < 0)
    why = errno == EACCES || errno == ELOOP ? "cannot be read" : NULL;
  else if (!accel__cache_file_open(o->fd, &o->file, NULL))
    why = "is damaged";
  else if (strcmp(o->file.key, key)) /* two keys of one hash: the newer one stays */
    why = "belongs to another key";
  else if (!accel__cache_file_has(&o->file, 0) || o->file.n != 1)
    why = "is damaged";
  else
    return true;
  if (why) accel__cache_drop(c, o->directory, o->name, why);
  close_entry(o);
  return false;
}

bool accel__cache_has(const accel__cache *c, const char *key) {
  char name[ACCEL__CACHE_NAME];
  accel__cache_file file;
  const int directory = accel__cache_open_directory(c);
  accel__cache_name(key, ".packed", name);
  const int fd = directory < 0 ? -1 : accel__cache_open_file(directory, name);
  bool there = fd >= 0 && accel__cache_file_open(fd, &file, NULL);
  if (there) {
    there = !strcmp(file.key, key) && accel__cache_file_count(&file) == file.n;
    accel__cache_file_free(&file);
  }
  if (fd >= 0) close(fd);
  if (directory >= 0) close(directory);
  return there;
}

bool accel__cache_size(const accel__cache *c, const char *key, uint64_t *bytes) {
  opened o;
  if (!open_entry(c, key, &o)) return false;
  *bytes = o.file.segment[0].bytes;
  close_entry(&o);
  return true;
}

bool accel__cache_get(const accel__cache *c, const char *key, void *out, uint64_t bytes) {
  opened o;
  if (!open_entry(c, key, &o)) return false;
  const bool fits = o.file.segment[0].bytes == bytes,
             good = fits && accel__cache_file_read(&o.file, 0, out);
  if (good)
    accel__cache_touch(o.fd);
  else
    accel__cache_drop(c, o.directory, o.name,
                      fits ? "is damaged" : "has another size than expected");
  close_entry(&o);
  return good;
}

/* ---- writing ---- */

static int open_temporary(int directory, char *name, size_t size) {
  static atomic_uint count;
  for (int tries = 0; tries < 100; tries++) {
    snprintf(name, size, "%ld-%u.packed.tmp", (long)getpid(), atomic_fetch_add(&count, 1));
    int fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

/* Writes the entry beside its place and moves it there; 0 or errno. */
static int put_file(int directory, accel__cache_file *file, const accel_plugin_part *part,
                    uint32_t n) {
  char name[ACCEL__CACHE_NAME], temporary[ACCEL__CACHE_NAME];
  accel__cache_name(file->key, ".packed", name);
  int fd = open_temporary(directory, temporary, sizeof temporary);
  if (fd < 0) return errno;
  int error = accel__cache_file_begin(file, fd);
  if (!error) error = accel__cache_file_write(file, 0, part, n);
  if (close(fd) && !error) error = errno;
  if (!error && renameat(directory, temporary, directory, name)) error = errno;
  if (error) unlinkat(directory, temporary, 0);
  return error;
}

static bool put(const accel__cache *c, const char *key, const char *label,
                const accel_plugin_part *part, uint32_t n) {
  char why[128];
  uint64_t bytes = 0;
  accel__cache_file file;
  for (uint32_t i = 0; i < n; i++)
    if (__builtin_add_overflow(bytes, part[i].n, &bytes))
      return accel__cache_declined(c, label, "it is too large");
  if (!accel__cache_file_plan(key, label, &bytes, 1, &file))
    return accel__cache_declined(c, label, "its key is too long, or it is too large");
  const int directory = accel__cache_make_directory(c, label);
  bool kept = directory >= 0 && accel__cache_make_room(c, label, file.bytes);
  const int error = kept ? put_file(directory, &file, part, n) : 0;
  if (error) kept = accel__cache_declined(c, label, accel__error_text(error, why, sizeof why));
  if (directory >= 0) close(directory);
  accel__cache_file_free(&file);
  return kept;
}

/* The thread's message stays as it is: a string is put beside other work. */
bool accel__cache_put(const accel__cache *c, const char *key, const char *label,
                      const accel_plugin_part *part, uint32_t n) {
  accel__failure before = {.status = ACCEL_OK};
  accel__failure_keep(&before, ACCEL_ERROR_IO);
  const bool kept = put(c, key, label, part, n);
  accel__failure_raise(&before);
  return kept;
}
