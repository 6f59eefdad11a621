/* cache_file.h - the format of an entry of the cache: a table of segments, then their bytes.
 *
 *   header, key, label          text_bytes behind the header
 *   table                       from a multiple of 64 on, 32 bytes a segment
 *   segments                    each from a multiple of 4096 on, in the order of the table
 *
 * A segment's record in the table is written behind its bytes and has a checksum of its own, so a
 * process that is killed at any moment leaves segments that are there and segments that are not,
 * and nothing between.  Nothing is fsynced: what a crash of the machine tore has another checksum.
 * Numbers and checksums are in the machine's order: entries do not travel.
 *
 * Where segments lie follows from their sizes alone.  A file whose header, texts or size are not
 * right is no entry; a record that is not right is a segment that is missing, and the others stay.
 */
#ifndef ACCEL_WEIGHTS_CACHE_FILE_H
#define ACCEL_WEIGHTS_CACHE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "accel/plugin.h"

enum {
  ACCEL__CACHE_VERSION = 2,
  ACCEL__CACHE_ALIGN = 4096,       /* of segments in the file */
  ACCEL__CACHE_SEGMENTS = 1 << 20, /* of an entry, at most */
  ACCEL__CACHE_TEXT = 4096         /* bytes of a key or label, at most */
};

/* A record of the table, as it is in the file; all zero: the segment has not been written. */
typedef struct accel__cache_segment {
  uint64_t offset, bytes; /* of the file */
  uint64_t sum;           /* accel__checksum of its bytes */
  uint64_t check;         /* of this record, its number and the file's header */
} accel__cache_segment;

/* An entry.  Reading and writing segments is for any thread, each segment one at a time. */
typedef struct accel__cache_file {
  int fd; /* borrowed */
  uint32_t n;
  /* [n]: of a file that was opened all zero where a segment is missing, until its size is told */
  accel__cache_segment *segment;
  uint64_t bytes; /* of the whole file */
  uint64_t table_at;
  uint64_t sizes;    /* checksum of the segments' sizes */
  uint64_t identity; /* checksum of header, key and label */
  char *key, *label;
} accel__cache_file;

/* An entry that would have these segments; it has no file.  false: too many or too large. */
bool accel__cache_file_plan(const char *key, const char *label, const uint64_t *bytes, uint32_t n,
                            accel__cache_file *out);
/* Writes header, texts and a table without segments of a planned entry to an empty file, which has
 * its full size then.  0 or errno. */
int accel__cache_file_begin(accel__cache_file *f, int fd);
/* Reads header, texts and table of the file, which begins with them.  false: it is no entry of this
 * version; *version is its version then, 0 of other files.  version may be NULL. */
bool accel__cache_file_open(int fd, accel__cache_file *out, uint32_t *version);
/* Of an opened entry: are these the sizes of its segments?  Then those that are missing can be
 * written, too. */
bool accel__cache_file_expect(accel__cache_file *f, const uint64_t *bytes, uint32_t n);
/* Frees memory, and leaves fd alone.  {0}-safe. */
void accel__cache_file_free(accel__cache_file *f);

/* Has the segment been written?  Its bytes are not looked at. */
bool accel__cache_file_has(const accel__cache_file *f, uint32_t index);
/* How many have been. */
uint32_t accel__cache_file_count(const accel__cache_file *f);
/* Reads a segment and checks it.  false: missing, damaged, or not to be read; out is undefined. */
bool accel__cache_file_read(const accel__cache_file *f, uint32_t index, void *out);
/* Writes what is in the page cache to the disk, and drops it there. */
void accel__cache_file_flush(const accel__cache_file *f);
/* Marks a segment as missing; 0 or errno. */
int accel__cache_file_forget(accel__cache_file *f, uint32_t index);
/* Writes a segment, whose size the parts must have: first the bytes, then the record.  0 or errno;
 * then it is missing. */
int accel__cache_file_write(accel__cache_file *f, uint32_t index, const accel_plugin_part *part,
                            uint32_t n);

#endif
