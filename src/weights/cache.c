/* cache.c - packed weights on disk. */
#include "weights/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "core/file.h"
#include "core/text.h"

enum {
  VERSION = 1,
  PAYLOAD_ALIGN = 4096,
  MAX_TEXT = 4096, /* key or label */
  CHUNK = 1 << 20, /* read, then summed while it is in the cache */
  MAX_NAME = 96,   /* of a file in the directory */
  STALE_SECONDS = 3600
};
static const char magic[8] = {'A', 'C', 'C', 'E', 'L', 'P', 'C', 'K'};
static const uint64_t spare_bytes = UINT64_C(64) << 20; /* left free on the disk */

typedef struct header {
  char magic[8];
  uint32_t version, key_bytes, label_bytes, payload_at;
  uint64_t payload_bytes, payload_sum;
  uint64_t header_sum; /* of this struct with header_sum 0, the key and the label */
} header;

/* ---- the checksum ---- */

static uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }

static const uint64_t odd = UINT64_C(0xD6E8FEB86659FD93);

void accel__checksum_begin(accel__checksum *s) {
  *s = (accel__checksum){0};
  for (uint64_t i = 0; i < 8; i++) s->lane[i] = (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
}

static void sum_blocks(uint64_t lane[8], const uint8_t *bytes, uint64_t blocks) {
  uint64_t a[8];
  memcpy(a, lane, sizeof a);
  for (uint64_t b = 0; b < blocks; b++, bytes += 64) {
    uint64_t word[8];
    memcpy(word, bytes, sizeof word);
    for (int i = 0; i < 8; i++) a[i] = rotate((a[i] ^ word[i]) * odd, 29);
  }
  memcpy(lane, a, sizeof a);
}

void accel__checksum_add(accel__checksum *s, const void *bytes, uint64_t n) {
  const uint8_t *at = bytes;
  uint64_t held = s->n % 64;
  s->n += n;
  if (held) {
    uint64_t take = n < 64 - held ? n : 64 - held;
    if (take) memcpy(s->tail + held, at, take);
    if (held + take < 64) return;
    sum_blocks(s->lane, s->tail, 1);
    at += take;
    n -= take;
  }
  sum_blocks(s->lane, at, n / 64);
  if (n % 64) memcpy(s->tail, at + n / 64 * 64, n % 64);
}

uint64_t accel__checksum_end(const accel__checksum *s) {
  accel__checksum end = *s;
  if (s->n % 64) {
    memset(end.tail + s->n % 64, 0, 64 - s->n % 64);
    sum_blocks(end.lane, end.tail, 1);
  }
  uint64_t h = s->n * odd;
  for (int i = 0; i < 8; i++) h = (rotate(h, 23) ^ end.lane[i]) * UINT64_C(0xFF51AFD7ED558CCD);
  return h ^ h >> 32;
}

static uint64_t header_sum(const header *h, const char *texts) {
  header bare = *h;
  accel__checksum s;
  bare.header_sum = 0;
  accel__checksum_begin(&s);
  accel__checksum_add(&s, &bare, sizeof bare);
  accel__checksum_add(&s, texts, (uint64_t)h->key_bytes + h->label_bytes);
  return accel__checksum_end(&s);
}

/* ---- names and files ---- */

static void entry_name(const char *key, char *name, size_t size) {
  size_t n = strlen(key);
  snprintf(name, size, "%016llx%016llx.packed", (unsigned long long)accel__hash(key, n, 1),
           (unsigned long long)accel__hash(key, n, 2));
}

static int open_directory(const accel__cache *c) {
  return c->directory ? open(c->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
}

/* false: the end came first, or an error. */
static bool read_exactly(int fd, void *bytes, uint64_t n, uint64_t at) {
  for (char *to = bytes; n;) {
    ssize_t got = pread(fd, to, n < (1u << 30) ? n : 1u << 30, (off_t)at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    at += (uint64_t)got;
    n -= (uint64_t)got;
  }
  return true;
}

static int write_exactly(int fd, const void *bytes, uint64_t n) {
  for (const char *from = bytes; n;) {
    ssize_t put = accel__fault("disk_full") ? (errno = ENOSPC, -1)
                                            : write(fd, from, n < (1u << 30) ? n : 1u << 30);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    from += put;
    n -= (uint64_t)put;
  }
  return 0;
}

/* Header and texts (key, then label, each NUL-terminated) of an open entry whose file has `bytes`
 * bytes. */
static bool read_header(int fd, uint64_t bytes, header *h, char texts[2 * MAX_TEXT + 2]) {
  if (!read_exactly(fd, h, sizeof *h, 0) || memcmp(h->magic, magic, sizeof magic) ||
      h->version != VERSION)
    return false;
  if (h->key_bytes > MAX_TEXT || h->label_bytes > MAX_TEXT || h->payload_at % PAYLOAD_ALIGN ||
      h->payload_at < sizeof *h + h->key_bytes + h->label_bytes || bytes < h->payload_at ||
      bytes - h->payload_at != h->payload_bytes)
    return false;
  if (!read_exactly(fd, texts, (uint64_t)h->key_bytes + h->label_bytes, sizeof *h)) return false;
  if (header_sum(h, texts) != h->header_sum) return false;
  memmove(texts + h->key_bytes + 1, texts + h->key_bytes, h->label_bytes);
  texts[h->key_bytes] = texts[h->key_bytes + 1 + h->label_bytes] = 0;
  return true;
}

static void drop(const accel__cache *c, int directory, const char *name, const char *why) {
  accel__logf(c->log, ACCEL_LOG_INFO, "cache: %s/%s %s and is removed", c->directory, name, why);
  unlinkat(directory, name, 0);
}

/* Opens an entry whose header is right; -1: a miss.  What is damaged is removed. */
static int open_entry(const accel__cache *c, const char *key, int *directory, char name[MAX_NAME],
                      header *h) {
  char texts[2 * MAX_TEXT + 2];
  struct stat about;
  *directory = open_directory(c);
  if (*directory < 0) return -1;
  entry_name(key, name, MAX_NAME);
  int fd = openat(*directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) {
    if (errno == EACCES || errno == ELOOP) drop(c, *directory, name, "cannot be read");
  } else if (fstat(fd, &about) || !S_ISREG(about.st_mode) ||
             !read_header(fd, (uint64_t)about.st_size, h, texts)) {
    drop(c, *directory, name, "is damaged");
  } else if (strcmp(texts, key)) { /* two keys of one hash: the newer one stays */
    drop(c, *directory, name, "belongs to another key");
  } else {
    return fd;
  }
  if (fd >= 0) close(fd);
  close(*directory);
  return -1;
}

bool accel__cache_size(const accel__cache *c, const char *key, uint64_t *bytes) {
  int directory;
  char name[MAX_NAME];
  header h;
  int fd = open_entry(c, key, &directory, name, &h);
  if (fd < 0) return false;
  *bytes = h.payload_bytes;
  close(fd);
  close(directory);
  return true;
}

static bool read_payload(int fd, const header *h, char *out) {
  accel__checksum sum;
  uint64_t n = accel__fault("short_file") ? h->payload_bytes / 2 : h->payload_bytes;
  accel__checksum_begin(&sum);
  for (uint64_t at = 0; at < n;) {
    uint64_t part = n - at < CHUNK ? n - at : CHUNK;
    if (!read_exactly(fd, out + at, part, h->payload_at + at)) return false;
    accel__checksum_add(&sum, out + at, part);
    at += part;
  }
  return accel__checksum_end(&sum) == h->payload_sum;
}

bool accel__cache_get(const accel__cache *c, const char *key, void *out, uint64_t bytes) {
  int directory;
  char name[MAX_NAME];
  header h;
  int fd = open_entry(c, key, &directory, name, &h);
  if (fd < 0) return false;
  bool good = h.payload_bytes == bytes && read_payload(fd, &h, out);
  if (good)
    futimens(fd, NULL); /* now; on a read-only disk it keeps its age */
  else
    drop(c, directory, name,
         h.payload_bytes == bytes ? "is damaged" : "has another size than expected");
  close(fd);
  close(directory);
  return good;
}

/* ---- writing ---- */

uint64_t accel__cache_limit(const accel__cache *c) {
  struct statvfs disk;
  if (c->limit) return c->limit;
  if (!c->directory || statvfs(c->directory, &disk)) return ACCEL__CACHE_BYTES;
  uint64_t tenth = (uint64_t)disk.f_blocks * disk.f_frsize / 10;
  return tenth < ACCEL__CACHE_BYTES ? tenth : ACCEL__CACHE_BYTES;
}

static bool declined(const accel__cache *c, const char *label, const char *why) {
  accel__logf(c->log, ACCEL_LOG_INFO, "cache: %s is not kept in %s: %s", label,
              c->directory ? c->directory : "(nowhere)", why);
  return false;
}

/* Room for `bytes` under the limit and on the disk; older entries go for it. */
static bool make_room(const accel__cache *c, const char *label, uint64_t bytes) {
  struct statvfs disk;
  uint64_t limit = accel__cache_limit(c);
  if (bytes > limit) return declined(c, label, "it is larger than the cache may be");
  if (accel__cache_prune(c, limit - bytes, NULL, NULL) != ACCEL_OK) {
    declined(c, label, accel__message());
    accel__clear_error();
    return false;
  }
  if (!statvfs(c->directory, &disk) &&
      (uint64_t)disk.f_bavail * disk.f_frsize < bytes + spare_bytes)
    return declined(c, label, "the disk is nearly full");
  return true;
}

/* Header, texts, the gap to the payload, the parts.  0 or errno. */
static int write_entry(int fd, header *h, const char *texts, const accel_plugin_part *part,
                       uint32_t n) {
  static const char zeros[PAYLOAD_ALIGN];
  uint64_t text_bytes = (uint64_t)h->key_bytes + h->label_bytes;
  int error = write_exactly(fd, h, sizeof *h);
  if (!error) error = write_exactly(fd, texts, text_bytes);
  for (uint64_t gap = h->payload_at - sizeof *h - text_bytes; gap && !error;) {
    uint64_t some = gap < sizeof zeros ? gap : sizeof zeros;
    error = write_exactly(fd, zeros, some);
    gap -= some;
  }
  for (uint32_t i = 0; i < n && !error; i++) error = write_exactly(fd, part[i].data, part[i].n);
  return error;
}

static int open_temporary(int directory, char *name, size_t size) {
  static atomic_uint count;
  for (int tries = 0; tries < 100; tries++) {
    snprintf(name, size, "%ld-%u.packed.tmp", (long)getpid(), atomic_fetch_add(&count, 1));
    int fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

/* Writes the entry beside its place and moves it there; 0 or errno. */
static int put_file(int directory, const char *key, header *h, const char *texts,
                    const accel_plugin_part *part, uint32_t n) {
  char name[MAX_NAME], temporary[MAX_NAME];
  entry_name(key, name, sizeof name);
  int fd = open_temporary(directory, temporary, sizeof temporary);
  if (fd < 0) return errno;
  int error = write_entry(fd, h, texts, part, n);
  if (close(fd) && !error) error = errno;
  if (!error && renameat(directory, temporary, directory, name)) error = errno;
  if (error) unlinkat(directory, temporary, 0);
  return error;
}

bool accel__cache_put(const accel__cache *c, const char *key, const char *label,
                      const accel_plugin_part *part, uint32_t n) {
  size_t key_n = strlen(key), label_n = strlen(label);
  char texts[2 * MAX_TEXT], why[128];
  if (!c->directory) return declined(c, label, "there is no cache directory");
  if (key_n > MAX_TEXT) return declined(c, label, "its key is too long");
  if (label_n > MAX_TEXT) label_n = MAX_TEXT;
  memcpy(texts, key, key_n);
  memcpy(texts + key_n, label, label_n);
  header h = {.version = VERSION, .key_bytes = (uint32_t)key_n, .label_bytes = (uint32_t)label_n};
  memcpy(h.magic, magic, sizeof magic);
  h.payload_at =
      (uint32_t)((sizeof h + key_n + label_n + PAYLOAD_ALIGN - 1) / PAYLOAD_ALIGN * PAYLOAD_ALIGN);
  accel__checksum sum;
  accel__checksum_begin(&sum);
  for (uint32_t i = 0; i < n; i++) {
    if (__builtin_add_overflow(h.payload_bytes, part[i].n, &h.payload_bytes))
      return declined(c, label, "it is too large");
    accel__checksum_add(&sum, part[i].data, part[i].n);
  }
  h.payload_sum = accel__checksum_end(&sum);
  h.header_sum = header_sum(&h, texts);
  if (accel__make_directories(c->directory) != ACCEL_OK) {
    declined(c, label, accel__message());
    accel__clear_error();
    return false;
  }
  if (h.payload_bytes > UINT64_MAX / 2 || !make_room(c, label, h.payload_at + h.payload_bytes))
    return false;
  int directory = open_directory(c),
      error = directory < 0 ? errno : put_file(directory, key, &h, texts, part, n);
  if (directory >= 0) close(directory);
  return !error || declined(c, label, strerror_r(error, why, sizeof why));
}

/* ---- listing and pruning ---- */

static bool is_temporary(const char *name) { return accel__ends_with(name, ".packed.tmp"); }

static void look_at(int directory, const char *name, accel__arena *arena, accel__cache_entry *e) {
  char texts[2 * MAX_TEXT + 2];
  header h;
  int fd = is_temporary(name)
               ? -1
               : openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  e->label = "";
  if (fd < 0) return;
  e->sound = read_header(fd, e->bytes, &h, texts);
  const char *label = e->sound ? accel__arena_string(arena, texts + h.key_bytes + 1) : NULL;
  if (label) e->label = label;
  close(fd);
}

static int by_use(const void *a, const void *b) {
  const accel__cache_entry *x = a, *y = b;
  return x->used != y->used ? (x->used < y->used) - (x->used > y->used) : strcmp(x->file, y->file);
}

accel_status accel__cache_list(const accel__cache *c, accel__arena *arena,
                               accel__cache_entry **entries, uint32_t *n) {
  char **names;
  size_t found;
  *entries = NULL;
  *n = 0;
  if (!c->directory || !accel__is_directory(c->directory)) return ACCEL_OK;
  ACCEL_TRY(accel__list_directory(c->directory, arena, &names, &found));
  accel__cache_entry *list = accel__arena_array(arena, found, sizeof *list);
  int directory = list ? open_directory(c) : -1;
  if (!list) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (size_t i = 0; i < found; i++) {
    struct stat about;
    if (!accel__ends_with(names[i], ".packed") && !is_temporary(names[i])) continue;
    if (fstatat(directory, names[i], &about, AT_SYMLINK_NOFOLLOW) || S_ISDIR(about.st_mode))
      continue;
    accel__cache_entry *e = &list[(*n)++];
    *e = (accel__cache_entry){
        .file = names[i], .bytes = (uint64_t)about.st_size, .used = about.st_mtim.tv_sec};
    look_at(directory, names[i], arena, e);
  }
  if (directory >= 0) close(directory);
  if (*n) qsort(list, *n, sizeof *list, by_use);
  *entries = list;
  return ACCEL_OK;
}

static bool in_use(const accel__cache_entry *e) {
  return is_temporary(e->file) && time(NULL) - e->used < STALE_SECONDS;
}

/* Removes one entry; what another process removed first counts for nothing. */
static void remove_entry(int directory, const accel__cache_entry *e, uint64_t *total, uint32_t *n,
                         uint64_t *bytes) {
  bool gone = !unlinkat(directory, e->file, 0);
  if (gone || errno == ENOENT) *total -= e->bytes;
  *n += gone;
  *bytes += gone ? e->bytes : 0;
}

accel_status accel__cache_prune(const accel__cache *c, uint64_t keep, uint32_t *n,
                                uint64_t *bytes) {
  accel__arena arena = {0};
  accel__cache_entry *entries;
  uint32_t found, removed = 0;
  uint64_t total = 0, freed = 0;
  accel_status status = accel__cache_list(c, &arena, &entries, &found);
  int directory = status == ACCEL_OK && found ? open_directory(c) : -1;
  for (uint32_t i = 0; i < found; i++) total += entries[i].bytes;
  for (uint32_t i = found; i-- > 0 && directory >= 0;)
    if (!entries[i].sound && !in_use(&entries[i]))
      remove_entry(directory, &entries[i], &total, &removed, &freed);
  for (uint32_t i = found; i-- > 0 && total > keep && directory >= 0;)
    if (entries[i].sound) remove_entry(directory, &entries[i], &total, &removed, &freed);
  if (directory >= 0) close(directory);
  accel__arena_free(&arena);
  if (n) *n = removed;
  if (bytes) *bytes = freed;
  return status;
}
