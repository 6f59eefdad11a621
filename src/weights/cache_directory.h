/* cache_directory.h - names, locks and room in the directory of the cache, for the files that
 * implement cache.h. */
#ifndef ACCEL_WEIGHTS_CACHE_DIRECTORY_H
#define ACCEL_WEIGHTS_CACHE_DIRECTORY_H

#include <stddef.h>

#include "weights/cache.h"

enum { ACCEL__CACHE_NAME = 96 /* bytes of a file's name */ };

/* "<hash of the key><ending>"; ".packed", ".part". */
void accel__cache_name(const char *key, const char *ending, char name[ACCEL__CACHE_NAME]);
/* A descriptor of the directory; -1 with errno. */
int accel__cache_open_directory(const accel__cache *c);
/* The same, which is made before.  -1: it cannot be; the log says that `label` is not kept. */
int accel__cache_make_directory(const accel__cache *c, const char *label);
/* Opens an entry for reading, and where it may be written for that, too; -1 with errno. */
int accel__cache_open_file(int directory, const char *name);
/* Locks an open file against other processes and other opens here, without waiting; prune leaves
 * what is locked alone.  alone: nobody else may hold it.  false: somebody does, or the file system
 * has no locks. */
bool accel__cache_lock(int fd, bool alone);
/* The entry was used now, unless somebody has it open, who has said so before: a reader that
 * streams it would take the new time for a change. */
void accel__cache_touch(int fd);
/* Removes a file, with a line in the log. */
void accel__cache_drop(const accel__cache *c, int directory, const char *name, const char *why);
/* Says in the log that something is not kept, and in the thread's message; false. */
bool accel__cache_declined(const accel__cache *c, const char *label, const char *why);
/* Room for `bytes` under the limit and on the disk; where there is none, or something is left over,
 * the cache is pruned.  false: declined. */
bool accel__cache_make_room(const accel__cache *c, const char *label, uint64_t bytes);

#endif
