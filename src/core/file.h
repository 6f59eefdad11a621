/* file.h - files and paths: mapping, bounded reading, atomic writing, directory listing. */
#ifndef ACCEL_CORE_FILE_H
#define ACCEL_CORE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/arena.h"
#include "core/status.h"

typedef struct accel__mapping {
  const uint8_t *data; /* read-only; mapped: page aligned, NULL for an empty file */
  size_t n;
  char *path;
  bool own;       /* read into memory of ours */
} accel__mapping; /* {0} is empty */

/* What tells one state of a file from another: equal as long as nobody writes or replaces it. */
typedef struct accel__file_state {
  uint64_t bytes, modified, changed, inode, device; /* times in nanoseconds since 1970 */
} accel__file_state;

/* Errors of this header name the path and errno's sentence; ENOENT is ACCEL_ERROR_NOT_FOUND,
 * everything else ACCEL_ERROR_IO where nothing else is said. */

/* A regular file, open for reading; *fd is the caller's to close. */
accel_status accel__file_open(const char *path, int *fd, accel__file_state *state);
/* The state of an open file now. */
accel_status accel__file_look(int fd, const char *path, accel__file_state *state);
/* pread, again after signals; -1 with errno.  All reading at offsets goes through it, and with it
 * the fault points read_error, read_short, read_slow and read_part. */
ssize_t accel__file_pread(int fd, uint64_t offset, void *out, size_t n);
/* The system's sentence for errno `error`, in out[n] or constant.  Any thread. */
const char *accel__error_text(int error, char *out, size_t n);
/* "PATH: cannot VERB: SENTENCE" for errno `error`, with a remedy where there is a plain one. */
accel_status accel__file_refused(const char *path, const char *verb, int error);
/* A file ended at byte `end` where n bytes from `offset` on were due: ACCEL_ERROR_FORMAT, with a
 * remedy. */
accel_status accel__file_ends(const char *path, uint64_t end, uint64_t n, uint64_t offset);
/* Exactly n bytes from `offset` on; a file that ends before is ACCEL_ERROR_FORMAT.  `path` is for
 * messages. */
accel_status accel__file_read_at(int fd, const char *path, uint64_t offset, void *out, size_t n);
/* Maps a whole regular file.  ACCEL_ERROR_DOES_NOT_FIT: no address space for it (ulimit -v).
 *
 * A file that shrinks while it is mapped ends the process at the next touch of what is gone (SIGBUS):
 * only for files that this library replaces and never cuts, or that are about to be mapped anyway.
 * What users name is read, or mapped by file_pages.h. */
accel_status accel__file_map(const char *path, accel__mapping *out);
/* The same, read into memory. */
accel_status accel__file_load(const char *path, accel__mapping *out);
/* With a remedy when the two differ: ACCEL_ERROR_FORMAT for another size, else ACCEL_ERROR_IO. */
accel_status accel__file_same(const char *path, const accel__file_state *now,
                              const accel__file_state *expected);
void accel__file_unmap(accel__mapping *m); /* of either */
/* Address space that this process may still take under its limit (ulimit -v); UINT64_MAX: no limit,
 * or the system does not tell. */
uint64_t accel__address_space_left(void);
/* memory of this process, pages of files included; 0: the system does not tell */
uint64_t accel__resident_bytes(void);

/* Whole file into malloc'd, NUL-terminated memory; larger than max_bytes is ACCEL_ERROR_FORMAT. */
accel_status accel__file_read(const char *path, size_t max_bytes, char **bytes, size_t *n);
/* Writes to a temporary name in the same directory, fsyncs, renames. */
accel_status accel__file_write(const char *path, const void *bytes, size_t n);
bool accel__file_exists(const char *path); /* anything readable by us */
bool accel__is_directory(const char *path);
accel_status accel__make_directories(const char *path); /* mkdir -p, 0700 */
/* Names in a directory (without . and ..), sorted; arena memory. */
accel_status accel__list_directory(const char *path, accel__arena *arena, char ***names, size_t *n);
char *accel__path_join(accel__arena *arena, const char *directory, const char *name);

/* Environment: one documented table in config.c lists every ACCEL_* variable; nothing else reads
 * the environment. */
/* NULL when unset or empty; NULL for all under AT_SECURE */
const char *accel__env(const char *name);
/* as it is: "" when set but empty, which vendors read as "no device" */
const char *accel__env_raw(const char *name);
/* ACCEL_CACHE_DIR, $XDG_CACHE_HOME/accel, ~/.cache/accel */
accel_status accel__cache_directory(accel__arena *arena, char **out);
/* the same without ACCEL_CACHE_DIR: where models are kept */
accel_status accel__standard_cache(accel__arena *arena, char **out);

/* Tests: true when ACCEL_FAIL_AT (comma list of POINT or POINT:N for the N-th passage) names this
 * point now.  Any thread; the variable is read once.  config.h lists the core's points and lets a
 * test name others. */
bool accel__fault(const char *point);

#endif
