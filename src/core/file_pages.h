/* file_pages.h - a file in memory for as long as nobody can cut it.
 *
 * A mapped file that shrinks ends the process at the next touch of what is gone (SIGBUS), so pages
 * are mapped under a read lease of the kernel (F_SETLEASE) alone: who opens the file for writing or
 * cuts it then waits, until the lease is given back or for 45 seconds
 * (/proc/sys/fs/lease-break-time).  It is meant for the time of a load.  No signal comes of it. */
#ifndef ACCEL_CORE_FILE_PAGES_H
#define ACCEL_CORE_FILE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct accel__file_pages {
  const uint8_t *data; /* read-only, page aligned; NULL: there are none */
  size_t n;
  int fd;
} accel__file_pages; /* {0} is nothing */

/* Takes the lease of an open file; false where there is none: somebody has it open for writing, it
 * belongs to another user, or it lies in a file system that is not known to keep leases (those of
 * networks).  The file is then to be read.  fd: open until accel__file_lease_end. */
bool accel__file_lease(int fd);
/* Does the lease hold, and does nobody wait for its end? */
bool accel__file_leased(int fd);
void accel__file_lease_end(int fd);

/* Maps n bytes of an open file whose lease was taken; false: no address space for them. */
bool accel__file_pages_map(int fd, size_t n, accel__file_pages *out);
/* Drops the pages that lie wholly inside [offset, offset+n) from the process; they come back from
 * the file when touched. */
void accel__file_pages_forget(const accel__file_pages *m, size_t offset, size_t n);
/* Unmaps them and ends the lease.  {0}: nothing. */
void accel__file_pages_close(accel__file_pages *m);

#endif
