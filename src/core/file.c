/* file.c - files and paths. */
#include "core/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SLOW_NS = 50000000 }; /* of the fault point read_slow */

const char *accel__error_text(int error, char *out, size_t n) {
#ifdef __GLIBC__
  return strerror_r(error, out, n);
#else /* POSIX's */
  if (strerror_r(error, out, n)) snprintf(out, n, "error %d", error);
  return out;
#endif
}

accel_status accel__file_refused(const char *path, const char *verb, int error) {
  char sentence[128];
  const char *text = accel__error_text(error, sentence, sizeof sentence);
  accel_status code = error == ENOENT ? ACCEL_ERROR_NOT_FOUND : ACCEL_ERROR_IO;
  accel__fail(code, "%s: cannot %s: %s", path, verb, text);
  if (error == EACCES || error == EPERM)
    accel__remedy(code, "check the owner and permissions of %s and of the directories above it",
                  path);
  if (error == ENOSPC || error == EDQUOT)
    accel__remedy(code, "free some space on the disk that holds %s", path);
  if (error == EIO)
    accel__remedy(code, "check the disk that holds %s, or fetch the file again", path);
  if (error == EMFILE) accel__remedy(code, "raise the limit of open files (ulimit -n)");
  return code;
}

/* Opens a regular file, or with `any` everything that can be read. */
static accel_status open_file(const char *path, bool any, int *fd, struct stat *info) {
  /* without `any` a FIFO must not block us before we saw its kind */
  *fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | (any ? 0 : O_NONBLOCK));
  if (*fd < 0) return accel__file_refused(path, "open", errno);
  int error = fstat(*fd, info) ? errno : S_ISDIR(info->st_mode) ? EISDIR : 0;
  if (error) return close(*fd), accel__file_refused(path, "read", error);
  if (!any && !S_ISREG(info->st_mode))
    return close(*fd), accel__fail(ACCEL_ERROR_IO, "%s: not a regular file", path);
  if ((uint64_t)info->st_size > SIZE_MAX / 2)
    return close(*fd), accel__file_refused(path, "read", EFBIG);
  return ACCEL_OK;
}

static uint64_t nanoseconds(struct timespec t) {
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static accel__file_state state_of(const struct stat *info) {
  return (accel__file_state){.bytes = (uint64_t)info->st_size,
                             .modified = nanoseconds(info->st_mtim),
                             .changed = nanoseconds(info->st_ctim), /* archives set mtimes */
                             .inode = (uint64_t)info->st_ino,
                             .device = (uint64_t)info->st_dev};
}

accel_status accel__file_open(const char *path, int *fd, accel__file_state *state) {
  struct stat info;
  ACCEL_TRY(open_file(path, false, fd, &info));
  *state = state_of(&info);
  if (accel__fault("short_file")) state->bytes /= 2;
  return ACCEL_OK;
}

accel_status accel__file_look(int fd, const char *path, accel__file_state *state) {
  struct stat info;
  if (fstat(fd, &info)) return accel__file_refused(path, "read", errno);
  *state = state_of(&info);
  return ACCEL_OK;
}

ssize_t accel__file_pread(int fd, uint64_t offset, void *out, size_t n) {
  ssize_t got;
  if (accel__fault("read_error")) return errno = EIO, -1;
  if (accel__fault("read_short")) return 0;
  if (accel__fault("read_slow")) nanosleep(&(struct timespec){.tv_nsec = SLOW_NS}, NULL);
  do got = pread(fd, out, n, (off_t)offset);
  while (got < 0 && errno == EINTR);
  return got > 1 && accel__fault("read_part") ? got / 2 + 1 : got;
}

accel_status accel__file_ends(const char *path, uint64_t end, uint64_t n, uint64_t offset) {
  accel__fail(ACCEL_ERROR_FORMAT,
              "%s: ends at byte %" PRIu64 ", %" PRIu64 " bytes are due from byte %" PRIu64
              " on (truncated?)",
              path, end, n, offset);
  return accel__remedy(ACCEL_ERROR_FORMAT, "fetch the file again: it is not complete");
}

accel_status accel__file_read_at(int fd, const char *path, uint64_t offset, void *out, size_t n) {
  for (size_t have = 0; have < n;) {
    const ssize_t got = accel__file_pread(fd, offset + have, (char *)out + have, n - have);
    if (got < 0) return accel__file_refused(path, "read", errno);
    if (!got) return accel__file_ends(path, offset + have, n, offset);
    have += (size_t)got;
  }
  return ACCEL_OK;
}

accel_status accel__file_same(const char *path, const accel__file_state *now,
                              const accel__file_state *expected) {
  if (now->bytes == expected->bytes && now->modified == expected->modified &&
      now->changed == expected->changed && now->inode == expected->inode &&
      now->device == expected->device && !accel__fault("file_changed"))
    return ACCEL_OK;
  const bool resized = now->bytes != expected->bytes;
  const accel_status code = resized ? ACCEL_ERROR_FORMAT : ACCEL_ERROR_IO;
  if (resized)
    accel__fail(
        code, "%s: the file was changed while it was read: it had %" PRIu64 " bytes, now %" PRIu64,
        path, expected->bytes, now->bytes);
  else
    accel__fail(code, "%s: the file was changed while it was read", path);
  return accel__remedy(code, "open the model again when nobody writes to its files any more");
}

/* mmap refused.  ENOMEM means that address space is missing, not memory: pages come when they are
 * touched. */
static accel_status not_mapped(const char *path, uint64_t n, int error) {
  struct rlimit limit;
  const double gib = 1.0 / (1 << 30);
  if (error != ENOMEM) return accel__file_refused(path, "map", error);
  accel__fail(ACCEL_ERROR_DOES_NOT_FIT,
              "%s: cannot map its %" PRIu64 " bytes (%.2f GiB): no address space is left", path, n,
              gib * (double)n);
  if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY)
    return accel__remedy(
        ACCEL_ERROR_DOES_NOT_FIT,
        "check vm.overcommit_memory and vm.max_map_count, or take a smaller model");
  return accel__remedy(
      ACCEL_ERROR_DOES_NOT_FIT,
      "this process may have %.2f GiB of address space (ulimit -v): raise the limit "
      "above the model's files (ulimit -v unlimited), or take a smaller model",
      gib * (double)limit.rlim_cur);
}

#ifdef __EMSCRIPTEN__ /* there are no pages, and not every file system there makes a copy */
static void *map(int fd, const char *path, size_t n) {
  void *data = malloc(n);
  if (!data) return errno = ENOMEM, MAP_FAILED;
  if (accel__file_read_at(fd, path, 0, data, n) == ACCEL_OK) return data;
  accel__clear_error();
  free(data);
  return errno = EIO, MAP_FAILED;
}
static void unmap(void *data, size_t n) {
  (void)n;
  free(data);
}
#else
static void *map(int fd, const char *path, size_t n) {
  (void)path;
  return mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
}
static void unmap(void *data, size_t n) { munmap(data, n); }
#endif

static accel_status map_open(int fd, const char *path, accel__mapping *m) {
  if (!m->n) return ACCEL_OK;
  void *data = accel__fault("map_refused") ? (errno = ENOMEM, MAP_FAILED) : map(fd, path, m->n);
  if (data == MAP_FAILED) return not_mapped(path, m->n, errno);
  m->data = data;
  return ACCEL_OK;
}

/* Large ones in pages of their own: malloc would keep them when they are given back. */
static bool in_pages(size_t bytes) { return bytes >= 1u << 20; }

static void *take_memory(size_t bytes) {
  if (accel__fault("allocation")) return NULL;
  if (!in_pages(bytes)) return malloc(bytes);
  void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return data == MAP_FAILED ? NULL : data;
}

static accel_status read_open(int fd, const char *path, accel__mapping *m) {
  char *data = take_memory(m->n + 1);
  if (!data) return accel__no_memory(m->n + 1);
  m->data = (const uint8_t *)data;
  m->own = true;
  data[m->n] = 0; /* as a mapping has it behind the end */
  return accel__file_read_at(fd, path, 0, data, m->n);
}

static accel_status open_whole(const char *path,
                               accel_status (*get)(int, const char *, accel__mapping *),
                               accel__mapping *out) {
  int fd;
  accel__file_state state;
  accel__mapping m = {0};
  *out = m;
  ACCEL_TRY(accel__file_open(path, &fd, &state));
  m.n = (size_t)state.bytes;
  accel_status status = get(fd, path, &m);
  close(fd);
  m.path = status != ACCEL_OK || accel__fault("allocation") ? NULL : strdup(path);
  if (status == ACCEL_OK && !m.path) status = accel__no_memory(strlen(path) + 1);
  if (status == ACCEL_OK)
    *out = m;
  else
    accel__file_unmap(&m);
  return status;
}

accel_status accel__file_map(const char *path, accel__mapping *out) {
  return open_whole(path, map_open, out);
}

accel_status accel__file_load(const char *path, accel__mapping *out) {
  return open_whole(path, read_open, out);
}

/* The first two numbers of statm, in bytes; 0 when the system does not tell. */
static void process_memory(uint64_t *all, uint64_t *resident) {
  unsigned long long pages[2] = {0, 0};
  FILE *f = fopen("/proc/self/statm", "r");
  if (f && fscanf(f, "%llu %llu", &pages[0], &pages[1]) != 2) pages[0] = pages[1] = 0;
  if (f) fclose(f);
  *all = pages[0] * (uint64_t)sysconf(_SC_PAGESIZE);
  *resident = pages[1] * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t accel__resident_bytes(void) {
  uint64_t all, resident;
  process_memory(&all, &resident);
  return resident;
}

uint64_t accel__address_space_left(void) {
#ifdef __EMSCRIPTEN__ /* a mapping would be a copy in the heap: files are read part by part */
  return 0;
#else
  struct rlimit limit;
  uint64_t all, resident;
  if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  process_memory(&all, &resident);
  return limit.rlim_cur > all ? limit.rlim_cur - all : 0;
#endif
}

void accel__file_unmap(accel__mapping *m) {
  void *data = (void *)(uintptr_t)m->data;
  if (m->own && in_pages(m->n + 1))
    munmap(data, m->n + 1);
  else if (m->own)
    free(data);
  else if (data)
    unmap(data, m->n);
  free(m->path);
  *m = (accel__mapping){0};
}

/* Reads fd to its end; `expected` is only a guess (files of /proc say 0). */
static accel_status read_all(int fd, const char *path, size_t expected, size_t max_bytes,
                             char **bytes, size_t *n) {
  /* one to notice that it goes on, one for the NUL */
  size_t capacity = (expected < max_bytes ? expected : max_bytes) + 2;
  char *data = accel__fault("allocation") ? NULL : malloc(capacity);
  if (!data) return accel__no_memory(capacity);
  for (size_t have = 0;;) {
    ssize_t got = read(fd, data + have, capacity - 1 - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return free(data), accel__file_refused(path, "read", errno);
    have += (size_t)got;
    if (have > max_bytes)
      return free(data), accel__fail(ACCEL_ERROR_FORMAT,
                                     "%s: larger than %zu bytes, the most allowed for such a file",
                                     path, max_bytes);
    if (!got) {
      if (accel__fault("short_file")) have /= 2;
      data[have] = 0;
      *bytes = data;
      *n = have;
      return ACCEL_OK;
    }
    if (have < capacity - 1) continue;
    char *larger = accel__fault("allocation") ? NULL : realloc(data, 2 * capacity);
    if (!larger) return free(data), accel__no_memory(2 * capacity);
    data = larger;
    capacity *= 2;
  }
}

accel_status accel__file_read(const char *path, size_t max_bytes, char **bytes, size_t *n) {
  int fd;
  struct stat info;
  *bytes = NULL;
  *n = 0;
  ACCEL_TRY(open_file(path, true, &fd, &info));
  const size_t size = (size_t)info.st_size;
  accel_status status =
      size > max_bytes ? accel__fail(ACCEL_ERROR_FORMAT,
                                     "%s: %zu bytes, more than the %zu allowed for such a file",
                                     path, size, max_bytes)
                       : read_all(fd, path, size, max_bytes, bytes, n);
  close(fd);
  return status;
}

/* ---- writing ---- */

/* All of bytes to fd and to the disk; 0 or errno. */
static int write_all(int fd, const char *bytes, size_t n) {
  while (n) {
    ssize_t written = accel__fault("disk_full") ? (errno = ENOSPC, -1)
                                                : write(fd, bytes, n < (1u << 30) ? n : 1u << 30);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes += written;
    n -= (size_t)written;
  }
  /* pipes and devices have nothing to sync */
  return fsync(fd) && errno != EINVAL && errno != EROFS ? errno : 0;
}

static void sync_directory_of(const char *path) {
  const char *slash = strrchr(path, '/');
  char *directory = !slash          ? strdup(".")
                    : slash == path ? strdup("/")
                                    : strndup(path, (size_t)(slash - path));
  int fd = directory ? open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  if (fd >= 0) {
    fsync(fd); /* best effort: the file itself is safe */
    close(fd);
  }
  free(directory);
}

/* A new file beside `path`: "PATH.PID-COUNT.tmp".  Returns its descriptor, or -1 with errno. */
static int open_temporary(const char *path, char *name, size_t capacity) {
  static atomic_uint count;
  for (int tries = 0; tries < 100; tries++) {
    snprintf(name, capacity, "%s.%ld-%u.tmp", path, (long)getpid(), atomic_fetch_add(&count, 1));
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

/* Devices and pipes cannot be replaced by a renamed file: written in place. */
static accel_status write_in_place(const char *path, const void *bytes, size_t n) {
  int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return accel__file_refused(path, "open for writing", errno);
  int error = write_all(fd, bytes, n);
  close(fd);
  return error ? accel__file_refused(path, "write", error) : ACCEL_OK;
}

accel_status accel__file_write(const char *path, const void *bytes, size_t n) {
  struct stat info;
  if (!stat(path, &info) && S_ISDIR(info.st_mode))
    return accel__file_refused(path, "write", EISDIR);
  if (!stat(path, &info) && !S_ISREG(info.st_mode)) return write_in_place(path, bytes, n);
  size_t capacity = strlen(path) + 48;
  char *name = accel__fault("allocation") ? NULL : malloc(capacity);
  if (!name) return accel__no_memory(capacity);
  accel_status status = ACCEL_OK;
  int fd = open_temporary(path, name, capacity);
  if (fd < 0) {
    status = accel__file_refused(path, "create", errno);
  } else {
    int error = write_all(fd, bytes, n);
    if (close(fd) && !error) error = errno;
    if (!error && rename(name, path)) error = errno;
    if (error)
      status = accel__file_refused(path, "write", error), unlink(name);
    else
      sync_directory_of(path);
  }
  free(name);
  return status;
}

/* ---- directories and paths ---- */

bool accel__file_exists(const char *path) { return !faccessat(AT_FDCWD, path, R_OK, AT_EACCESS); }

bool accel__is_directory(const char *path) {
  struct stat info;
  return !stat(path, &info) && S_ISDIR(info.st_mode);
}

accel_status accel__make_directories(const char *path) {
  char *part = accel__fault("allocation") ? NULL : strdup(path);
  if (!part) return accel__no_memory(strlen(path) + 1);
  accel_status status = ACCEL_OK;
  for (char *end = part; *end && !status;) {
    end += strspn(end, "/");
    end += strcspn(end, "/");
    char kept = *end;
    *end = 0;
    int error = mkdir(part, 0700) ? errno : 0;
    if (error && !accel__is_directory(part))
      status = accel__file_refused(part, "create directory", error == EEXIST ? ENOTDIR : error);
    *end = kept;
  }
  free(part);
  return status;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static accel_status read_names(DIR *directory, const char *path, accel__arena *arena, char ***names,
                               size_t *n) {
  char **list = NULL;
  size_t count = 0, capacity = 0;
  for (;;) {
    errno = 0;
    struct dirent *entry = readdir(directory);
    if (!entry && errno) return accel__file_refused(path, "list", errno);
    if (!entry) break;
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    if (count == capacity) {
      capacity = capacity ? 2 * capacity : 32;
      char **larger = accel__arena_array(arena, capacity, sizeof *larger);
      if (!larger) return ACCEL_ERROR_OUT_OF_MEMORY;
      if (count) memcpy(larger, list, count * sizeof *list);
      list = larger;
    }
    list[count] = accel__arena_string(arena, entry->d_name);
    if (!list[count++]) return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  if (count) qsort(list, count, sizeof *list, by_name);
  *names = list;
  *n = count;
  return ACCEL_OK;
}

accel_status accel__list_directory(const char *path, accel__arena *arena, char ***names,
                                   size_t *n) {
  *names = NULL;
  *n = 0;
  DIR *directory = opendir(path);
  if (!directory) return accel__file_refused(path, "list", errno);
  accel_status status = read_names(directory, path, arena, names, n);
  closedir(directory);
  return status;
}

char *accel__path_join(accel__arena *arena, const char *directory, const char *name) {
  size_t n = strlen(directory);
  if (!n || *name == '/') return accel__arena_string(arena, name);
  return accel__arena_printf(arena, "%s%s%s", directory, directory[n - 1] == '/' ? "" : "/", name);
}

accel_status accel__standard_cache(accel__arena *arena, char **out) {
  const char *cache = accel__env("XDG_CACHE_HOME"), *home = accel__env("HOME");
  *out = NULL;
  if (cache && *cache == '/')
    *out = accel__path_join(arena, cache, "accel"); /* the XDG rules: a relative one is ignored */
  else if (home)
    *out = accel__path_join(arena, home, ".cache/accel");
  else {
    accel__fail(ACCEL_ERROR_NOT_FOUND,
                "no cache directory: none of ACCEL_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
    return accel__remedy(ACCEL_ERROR_NOT_FOUND,
                         "set ACCEL_CACHE_DIR to a directory that may be written");
  }
  return *out ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

accel_status accel__cache_directory(accel__arena *arena, char **out) {
  const char *own = accel__env("ACCEL_CACHE_DIR");
  if (!own) return accel__standard_cache(arena, out);
  *out = accel__arena_string(arena, own);
  return *out ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}
