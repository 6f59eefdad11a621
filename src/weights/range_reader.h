/* range_reader.h - segments of files read ahead into a bounded ring of slots, around the page cache
 * where the file system allows it (O_DIRECT), by threads of its own.
 *
 * A segment is a range of one file that is wanted whole: it is posted into a slot, read in requests
 * by all threads at once, checked, and lent by `wait` until its slot is released.  Memory is slots
 * times slot_bytes, and nothing else grows but 32 bytes for each different segment.
 *
 *   accel__range_reader_open(paths, NULL, n, &options, &r);
 *   accel__range_reader_post(r, 0, file, offset, bytes);            starts reading
 *   accel__range_reader_wait(r, 0, &data);  ... data[bytes] ...     waits for it
 *   accel__range_reader_release(r, 0);                              the slot may be posted again
 *
 * What is read is what the file held when it was opened, or an error: the file's identity (device,
 * inode, size, times) is looked at behind every segment, and a segment that is read again must have
 * the checksum it had the first time.
 *
 * Any thread may call; a slot is one caller's from post to release.
 */
#ifndef ACCEL_WEIGHTS_RANGE_READER_H
#define ACCEL_WEIGHTS_RANGE_READER_H

#include "core/file.h"

enum {
  ACCEL__RANGE_BLOCK = 4096,      /* offsets and memory of O_DIRECT reads are multiples of it */
  ACCEL__RANGE_REQUEST = 4 << 20, /* bytes of one pread unless other options are given */
  ACCEL__RANGE_MAX_THREADS = 4
};

typedef struct accel__range_options {
  uint32_t threads; /* 1 to ACCEL__RANGE_MAX_THREADS; 0: so many */
  uint32_t slots;
  uint64_t slot_bytes;    /* the largest segment */
  uint64_t request_bytes; /* rounded up to whole blocks; 0: ACCEL__RANGE_REQUEST */
  bool buffered;          /* through the page cache, which is dropped behind each request */
} accel__range_options;

typedef struct accel__range_counters {
  uint64_t segments, bytes;           /* asked for and read whole */
  uint64_t requests, direct_requests; /* preads; of them around the page cache */
  uint64_t read_bytes;                /* by requests: with what rounding to blocks adds */
  uint64_t waits, ready;              /* calls of wait; of them without waiting */
  uint64_t wait_ns;                   /* callers in wait, all together */
  uint64_t busy_ns, check_ns;         /* threads in pread, and in checks, all together */
} accel__range_counters;

typedef struct accel__range_reader accel__range_reader;

/* states[n]: as the files were when they were looked at before (accel__file_same); NULL: as they
 * are now.  Strings and states are not kept by reference.  ACCEL_ERROR_LIMIT: no threads. */
accel_status accel__range_reader_open(const char *const *paths, const accel__file_state *states,
                                      uint32_t n, const accel__range_options *options,
                                      accel__range_reader **out);
/* One more file, at most: *index is its number. */
accel_status accel__range_reader_add(accel__range_reader *r, const char *path, uint32_t *index);
/* The checksum that a segment must have, the first time, too. */
accel_status accel__range_reader_expect(accel__range_reader *r, uint32_t file, uint64_t offset,
                                        uint64_t bytes, uint64_t sum);
/* Cancels what is being read.  NULL-safe. */
void accel__range_reader_close(accel__range_reader **r);

/* Begins to read bytes [offset, offset+bytes) of a file into a slot that is free.  A range that is
 * not in the file, or larger than a slot, and a slot in use are ACCEL_ERROR_ARGUMENT. */
accel_status accel__range_reader_post(accel__range_reader *r, uint32_t slot, uint32_t file,
                                      uint64_t offset, uint64_t bytes);
/* Waits until the slot's segment is there; *data is valid until the slot is released.  Failures
 * name file and range: ACCEL_ERROR_FORMAT (the file is shorter), ACCEL_ERROR_IO (cannot be read;
 * changed; other bytes than the first time).  May be called again. */
accel_status accel__range_reader_wait(accel__range_reader *r, uint32_t slot, const void **data);
/* Would `wait` answer at once? */
bool accel__range_reader_ready(accel__range_reader *r, uint32_t slot);
/* Frees the slot, whether its segment was read, failed, waits for its turn or is being read: then
 * it takes as long as the requests under way. */
void accel__range_reader_release(accel__range_reader *r, uint32_t slot);

/* Before each pass over the files: are they still the ones that were opened, also by their names? */
accel_status accel__range_reader_check(const accel__range_reader *r);
/* Is the file read around the page cache (so far)? */
bool accel__range_reader_direct(const accel__range_reader *r, uint32_t file);
void accel__range_reader_count(accel__range_reader *r, accel__range_counters *out);

#endif
