/* cache.h - a directory of byte strings made once and read many times: packed weights.
 *
 * One file an entry, "<hash of the key>.packed": header, key, label, then the payload at a page
 * boundary.  An entry is written under a temporary name in the same directory and renamed, so two
 * processes at once are fine.  The payload carries a checksum that every read checks; nothing is
 * fsynced, because an entry that a crash tore is found out and removed. Whatever goes wrong (disk
 * full, read-only, short, damaged, another program's file) costs the time to pack again, and
 * nothing else: no function here fails a load.
 *
 * An entry's last use is its modification time.  Past the limit the entries used longest ago go.
 */
#ifndef ACCEL_WEIGHTS_CACHE_H
#define ACCEL_WEIGHTS_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "accel/plugin.h"
#include "core/arena.h"
#include "core/log.h"
#include "core/status.h"

/* Borrowed strings; any thread, any number of processes. */
typedef struct accel__cache {
  const char *directory; /* made by the first put */
  /* bytes of all entries; 0: ACCEL__CACHE_BYTES or a tenth of the disk, whichever is less */
  uint64_t limit;
  const accel__log *log; /* NULL: silent */
} accel__cache;

#define ACCEL__CACHE_BYTES (UINT64_C(20) << 30)

/* Size of the entry; false: there is none. */
bool accel__cache_size(const accel__cache *c, const char *key, uint64_t *bytes);
/* Reads the entry into out[bytes], which must be its size, and checks it on the way.  false: a
 * miss; out is undefined. */
bool accel__cache_get(const accel__cache *c, const char *key, void *out, uint64_t bytes);
/* Joins the parts into one entry, in the place of an older one.  label: what it belongs to, for
 * people.  false: not kept. */
bool accel__cache_put(const accel__cache *c, const char *key, const char *label,
                      const accel_plugin_part *part, uint32_t n);

/* The limit in force, in bytes. */
uint64_t accel__cache_limit(const accel__cache *c);

typedef struct accel__cache_entry {
  const char *file;  /* name in the directory */
  const char *label; /* "" when the header cannot be read: a damaged entry, or a temporary file */
  uint64_t bytes;    /* of the file */
  int64_t used;      /* last use, seconds since 1970 */
  bool sound;        /* the header is right (the payload is not read) */
} accel__cache_entry;

/* Everything in the directory that is ours, latest use first; arena memory.  No directory: none. */
accel_status accel__cache_list(const accel__cache *c, accel__arena *arena,
                               accel__cache_entry **entries, uint32_t *n);
/* Removes entries until they take at most `keep` bytes: first what is damaged or left over, then
 * by last use.  keep 0: all. Temporary files younger than an hour stay: somebody may be writing
 * them. */
accel_status accel__cache_prune(const accel__cache *c, uint64_t keep, uint32_t *n, uint64_t *bytes);

/* 64-bit checksum of a stream, at the speed of memory: eight lanes, each step of a lane undone by
 * no other value of its eight bytes, so a single changed word is always seen.  Bytes in the
 * machine's order: entries do not travel. */
typedef struct accel__checksum {
  uint64_t lane[8];
  uint64_t n;
  uint8_t tail[64];
} accel__checksum;
void accel__checksum_begin(accel__checksum *s);
void accel__checksum_add(accel__checksum *s, const void *bytes, uint64_t n);
uint64_t accel__checksum_end(const accel__checksum *s);

#endif
