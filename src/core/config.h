/* config.h - the one table of environment variables that libaccel and the accel tool read, and the
 * fault points of the tests. */
#ifndef ACCEL_CORE_CONFIG_H
#define ACCEL_CORE_CONFIG_H

#include <stddef.h>

typedef struct accel__config_variable {
  const char *name, *sentence;
} accel__config_variable;
/* Own variables first, then those of other software that are obeyed and shown, never set. */
extern const accel__config_variable accel__config_table[];
extern const size_t accel__config_count;

/* Tests: from now on accel__fault obeys `points` instead of ACCEL_FAIL_AT, counting from zero; NULL
 * switches faults off. Points of the core:
 * "allocation" (arena, buffer, map, JSON, file buffers), "thread" (starting a worker), "short_file"
 * (a file read or mapped seems to end at half its size), "disk_full" (a write is refused),
 * "read_error" (a pread fails), "read_short" (it meets the file's end), "read_slow" (it takes 50 ms
 * more), "read_part" (it gives half of the bytes), "file_changed" (a file seems to be another than
 * the one that was looked at), "map_refused" (mmap finds no room), "address_space" (too little is
 * left to map a checkpoint), "lease_refused" (nor can it be kept from being cut), "lease_broken"
 * (somebody waits to write to it); of a reader of ranges "direct_refused" (a read around the page
 * cache) and "segment_changed" (another checksum).  The layers above add their own. */
void accel__fault_arm(const char *points);

#endif
