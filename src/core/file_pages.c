/* file_pages.c - see file_pages.h. */
#include "core/file_pages.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
#ifndef __EMSCRIPTEN__
#include <linux/magic.h>
#include <sys/statfs.h>
#endif

#include "core/file.h"

#ifdef __EMSCRIPTEN__ /* no file has leases, and without one nothing is mapped */
static bool keeps_leases(int fd) {
  (void)fd;
  return false;
}
#else
#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

/* File systems of this machine alone: whoever writes to a file there asks its leases. */
static bool keeps_leases(int fd) {
  static const uint32_t known[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,
                                   F2FS_SUPER_MAGIC, TMPFS_MAGIC,     OVERLAYFS_SUPER_MAGIC};
  struct statfs info;
  if (fstatfs(fd, &info)) return false;
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if ((uint32_t)info.f_type == known[i]) return true;
  return false;
}
#endif

bool accel__file_lease(int fd) {
  if (accel__fault("lease_refused") || !keeps_leases(fd)) return false;
  /* The kernel tells a holder by a signal that others wait: nobody is to get it.  F_SETLEASE makes
   * the process its receiver, so until that is undone it is one that is ignored by default. */
  if (fcntl(fd, F_SETSIG, SIGURG) || fcntl(fd, F_SETLEASE, F_RDLCK)) return false;
  if (!fcntl(fd, F_SETOWN, 0)) return true;
  accel__file_lease_end(fd);
  return false;
}

bool accel__file_leased(int fd) {
  return fcntl(fd, F_GETLEASE) == F_RDLCK && !accel__fault("lease_broken");
}

void accel__file_lease_end(int fd) { (void)fcntl(fd, F_SETLEASE, F_UNLCK); }

bool accel__file_pages_map(int fd, size_t n, accel__file_pages *out) {
  *out = (accel__file_pages){0};
  if (!n || accel__fault("map_refused")) return false;
  void *data = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return false;
  *out = (accel__file_pages){.data = data, .n = n, .fd = fd};
  return true;
}

void accel__file_pages_forget(const accel__file_pages *m, size_t offset, size_t n) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (!m->data || offset >= m->n) return;
  if (n > m->n - offset) n = m->n - offset;
  /* nothing follows in the last page */
  const size_t end = offset + n == m->n ? m->n : (offset + n) / page * page;
  const size_t start = (offset + page - 1) / page * page;
  if (start < end) madvise((void *)(uintptr_t)(m->data + start), end - start, MADV_DONTNEED);
}

void accel__file_pages_close(accel__file_pages *m) {
  if (!m->data) return;
  munmap((void *)(uintptr_t)m->data, m->n);
  accel__file_lease_end(m->fd);
  *m = (accel__file_pages){0};
}
