/* cache.h - a directory of bytes made once and read many times: packed weights.
 *
 * One file an entry, "<hash of the key>.packed" (cache_file.h).  An entry is a byte string that is
 * got and put whole, or a store of segments that are read and written one by one.
 *
 * A byte string is written under a temporary name in the same directory and renamed, so two
 * processes at once are fine.  A store grows as "<hash of the key>.part" and is renamed when it is
 * whole; a process that is killed leaves the part, and the next one that wants the same entry goes
 * on with it.  Writers of one entry exclude each other by a lock on the file: the second one goes
 * without.
 *
 * Everything that is read is checked.  Whatever goes wrong (disk full, read-only, short, damaged,
 * another program's file) costs the time to pack again, and nothing else: no function here fails a
 * load.  What is not kept is said in the log, and of stores in the thread's message, too
 * (core/status.h).
 *
 * An entry's last use is its modification time.  Past the limit the entries used longest ago go,
 * but none that somebody has open.
 */
#ifndef ACCEL_WEIGHTS_CACHE_H
#define ACCEL_WEIGHTS_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "accel/plugin.h"
#include "core/arena.h"
#include "core/log.h"
#include "core/status.h"
#include "weights/cache_file.h"

/* Borrowed strings; any thread, any number of processes. */
typedef struct accel__cache {
  const char *directory; /* made by the first write */
  /* bytes of all entries; 0: ACCEL__CACHE_BYTES or a tenth of the disk, whichever is less */
  uint64_t limit;
  const accel__log *log; /* NULL: silent */
} accel__cache;

#define ACCEL__CACHE_BYTES (UINT64_C(20) << 30)

/* ---- byte strings ---- */

/* Size of the entry; false: there is none. */
bool accel__cache_size(const accel__cache *c, const char *key, uint64_t *bytes);
/* Reads the entry into out[bytes], which must be its size, and checks it on the way.  false: a
 * miss; out is undefined. */
bool accel__cache_get(const accel__cache *c, const char *key, void *out, uint64_t bytes);
/* Joins the parts into one entry, in the place of an older one.  label: what it belongs to, for
 * people.  false: not kept. */
bool accel__cache_put(const accel__cache *c, const char *key, const char *label,
                      const accel_plugin_part *part, uint32_t n);

/* ---- segments ---- */

typedef struct accel__cache_store accel__cache_store;

/* Opens the entry of n segments of these sizes: whole, in part, or new.  An entry of the key with
 * other sizes is replaced.  NULL: there is none, and none can be written now (the log says why). */
accel__cache_store *accel__cache_store_open(const accel__cache *c, const char *key,
                                            const char *label, const uint64_t *bytes, uint32_t n);
/* Is the segment there, as far as the table tells? */
bool accel__cache_store_has(const accel__cache_store *s, uint32_t index);
/* Reads a segment and checks it.  false: missing or damaged, out is undefined; a damaged one can be
 * put again.  From any thread, as put: but each segment one at a time. */
bool accel__cache_store_get(accel__cache_store *s, uint32_t index, void *out);
/* Writes a segment.  false: not kept, nor is any later one; a part that a full disk cannot take is
 * removed when the store is closed. */
bool accel__cache_store_put(accel__cache_store *s, uint32_t index, const accel_plugin_part *part,
                            uint32_t n);
/* From now on little of what is read and written stays in the page cache. */
void accel__cache_store_bypass(accel__cache_store *s);
/* Where segment `index`, which is there, lies in the file, and its checksum; *path is the file's
 * while the entry is whole, valid as long as the store. */
void accel__cache_store_segment(const accel__cache_store *s, uint32_t index,
                                accel__cache_segment *out);
const char *accel__cache_store_path(const accel__cache_store *s);
/* Segments that are there, and all. */
void accel__cache_store_count(const accel__cache_store *s, uint32_t *there, uint32_t *all);
/* A segment is read, by whatever way, as something else than was written: when it is damaged in the
 * file, it is missing from now on.  true: it is. */
bool accel__cache_store_recheck(accel__cache_store *s, uint32_t index);
/* Gives the entry its name when all segments are there.  true: it has it. */
bool accel__cache_store_commit(accel__cache_store *s);
/* Frees the store; what was not committed stays as a part, for the next one.  NULL-safe. */
void accel__cache_store_close(accel__cache_store **s);

/* ---- the directory ---- */

/* Is there a whole entry of the key?  Segments are not read. */
bool accel__cache_has(const accel__cache *c, const char *key);
/* The limit in force, in bytes. */
uint64_t accel__cache_limit(const accel__cache *c);
/* Could an entry of so many bytes be written?  Nothing is.  false: *why is a sentence. */
bool accel__cache_takes(const accel__cache *c, uint64_t bytes, char *why, size_t size);

typedef struct accel__cache_entry {
  const char *file;  /* name in the directory */
  const char *label; /* "" when the header cannot be read: a damaged entry, or a temporary file */
  uint64_t bytes;    /* of the file */
  int64_t used;      /* last use, seconds since 1970 */
  bool sound; /* the header is right (the segments are not read), and this version reads it */
} accel__cache_entry;

/* Everything in the directory that is ours, latest use first; arena memory.  No directory: none. */
accel_status accel__cache_list(const accel__cache *c, accel__arena *arena,
                               accel__cache_entry **entries, uint32_t *n);
/* Removes entries until they take at most `keep` bytes: first what is damaged, of another version
 * or left over, then by last use.  keep 0: all.  What somebody has open stays, and so do temporary
 * files younger than an hour and parts younger than a day, the latter while there is room. */
accel_status accel__cache_prune(const accel__cache *c, uint64_t keep, uint32_t *n, uint64_t *bytes);

#endif
