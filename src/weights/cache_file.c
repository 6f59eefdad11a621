/* cache_file.c - reading and writing entries of the cache. */
#include "weights/cache_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "weights/checksum.h"

enum {
  TABLE_ALIGN = 64, /* a record never lies in two pages */
  CHUNK = 1 << 20   /* read, then summed while it is in the processor's cache */
};
static const char magic[8] = {'A', 'C', 'C', 'E', 'L', 'P', 'C', 'K'};

/* magic and version are where version 1 had them. */
typedef struct header {
  char magic[8];
  uint32_t version, key_bytes, label_bytes, n_segment;
  uint64_t file_bytes, sizes_sum;
  uint64_t header_sum; /* of this struct with header_sum 0, the key and the label */
} header;

static uint64_t header_sum(const header *h, const char *key, const char *label) {
  header bare = *h;
  accel__checksum s;
  bare.header_sum = 0;
  accel__checksum_begin(&s);
  accel__checksum_add(&s, &bare, sizeof bare);
  accel__checksum_add(&s, key, h->key_bytes);
  accel__checksum_add(&s, label, h->label_bytes);
  return accel__checksum_end(&s);
}

/* Of a segment's record; never 0, which is a record that was not written. */
static uint64_t record_check(const accel__cache_file *f, uint32_t index) {
  const accel__cache_segment *s = &f->segment[index];
  const uint64_t facts[] = {f->identity, index, s->offset, s->bytes, s->sum};
  const uint64_t check = accel__checksum_of(facts, sizeof facts);
  return check ? check : 1;
}

static bool align_up(uint64_t *at, uint64_t to) {
  if (__builtin_add_overflow(*at, to - 1, at)) return false;
  *at -= *at % to;
  return true;
}

/* Offsets from sizes; the size of the file.  false: larger than files are. */
static bool lay_out(accel__cache_file *f, size_t key_bytes, size_t label_bytes) {
  accel__checksum sizes;
  uint64_t at = sizeof(header) + key_bytes + label_bytes;
  accel__checksum_begin(&sizes);
  if (!align_up(&at, TABLE_ALIGN)) return false;
  f->table_at = at;
  at += (uint64_t)f->n * sizeof *f->segment;
  f->bytes = at;
  for (uint32_t i = 0; i < f->n; i++) {
    accel__cache_segment *s = &f->segment[i];
    accel__checksum_add(&sizes, &s->bytes, sizeof s->bytes);
    if (!align_up(&at, ACCEL__CACHE_ALIGN)) return false;
    s->offset = at;
    if (__builtin_add_overflow(at, s->bytes, &at) || at > INT64_MAX / 2) return false;
    f->bytes = at;
  }
  f->sizes = accel__checksum_end(&sizes);
  return true;
}

static header header_of(const accel__cache_file *f) {
  header h = {.version = ACCEL__CACHE_VERSION,
              .key_bytes = (uint32_t)strlen(f->key),
              .label_bytes = (uint32_t)strlen(f->label),
              .n_segment = f->n,
              .file_bytes = f->bytes,
              .sizes_sum = f->sizes};
  memcpy(h.magic, magic, sizeof magic);
  h.header_sum = header_sum(&h, f->key, f->label);
  return h;
}

void accel__cache_file_free(accel__cache_file *f) {
  free(f->segment);
  free(f->key);
  free(f->label);
  *f = (accel__cache_file){.fd = -1};
}

static bool allocate(accel__cache_file *f, uint32_t n, size_t key_bytes, size_t label_bytes) {
  *f = (accel__cache_file){.fd = -1, .n = n};
  f->segment = calloc(n ? n : 1, sizeof *f->segment);
  f->key = calloc(key_bytes + 1, 1);
  f->label = calloc(label_bytes + 1, 1);
  return f->segment && f->key && f->label;
}

bool accel__cache_file_plan(const char *key, const char *label, const uint64_t *bytes, uint32_t n,
                            accel__cache_file *out) {
  const size_t key_bytes = strlen(key),
               label_bytes = strnlen(label, ACCEL__CACHE_TEXT); /* a longer one is cut */
  *out = (accel__cache_file){.fd = -1};
  if (key_bytes > ACCEL__CACHE_TEXT || n > ACCEL__CACHE_SEGMENTS) return false;
  bool good = allocate(out, n, key_bytes, label_bytes);
  if (good) {
    memcpy(out->key, key, key_bytes);
    memcpy(out->label, label, label_bytes);
    for (uint32_t i = 0; i < n; i++) out->segment[i].bytes = bytes[i];
    good = lay_out(out, key_bytes, label_bytes);
  }
  if (good)
    out->identity = header_of(out).header_sum;
  else
    accel__cache_file_free(out);
  return good;
}

/* ---- bytes ---- */

/* false: the end came first, or an error. */
static bool read_exactly(int fd, void *bytes, uint64_t n, uint64_t at) {
  for (char *to = bytes; n;) {
    ssize_t got = accel__file_pread(fd, at, to, n < (1u << 30) ? n : 1u << 30);
    if (got <= 0) return false;
    to += got;
    at += (uint64_t)got;
    n -= (uint64_t)got;
  }
  return true;
}

/* 0 or errno. */
static int write_exactly(int fd, const void *bytes, uint64_t n, uint64_t at) {
  for (const char *from = bytes; n;) {
    ssize_t put = accel__fault("disk_full")
                      ? (errno = ENOSPC, -1)
                      : pwrite(fd, from, n < (1u << 30) ? n : 1u << 30, (off_t)at);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    from += put;
    at += (uint64_t)put;
    n -= (uint64_t)put;
  }
  return 0;
}

/* ---- header and table ---- */

int accel__cache_file_begin(accel__cache_file *f, int fd) {
  const header h = header_of(f);
  const uint64_t n = f->table_at;
  char *head = calloc(n, 1);
  if (!head) return ENOMEM;
  memcpy(head, &h, sizeof h);
  memcpy(head + sizeof h, f->key, h.key_bytes);
  memcpy(head + sizeof h + h.key_bytes, f->label, h.label_bytes);
  f->fd = fd;
  /* what is not written is zero */
  int error = ftruncate(fd, 0) || ftruncate(fd, (off_t)f->bytes) ? errno : 0;
  if (!error) error = write_exactly(fd, head, n, 0);
  free(head);
  return error;
}

/* The header of a file of `bytes` bytes, as far as it can be judged alone. */
static bool read_header(int fd, uint64_t bytes, header *h, uint32_t *version) {
  *version = 0;
  if (!read_exactly(fd, h, sizeof *h, 0) || memcmp(h->magic, magic, sizeof magic)) return false;
  *version = h->version;
  return h->version == ACCEL__CACHE_VERSION && h->key_bytes <= ACCEL__CACHE_TEXT &&
         h->label_bytes <= ACCEL__CACHE_TEXT && h->n_segment <= ACCEL__CACHE_SEGMENTS &&
         h->file_bytes == bytes && bytes / sizeof(accel__cache_segment) >= h->n_segment;
}

/* Records that are not right become segments that are missing; where such lie only sizes tell
 * (accel__cache_file_expect). */
static bool read_table(accel__cache_file *f) {
  const uint64_t bytes = (uint64_t)f->n * sizeof *f->segment;
  if (f->table_at > f->bytes || bytes > f->bytes - f->table_at) return false;
  if (!read_exactly(f->fd, f->segment, bytes, f->table_at)) return false;
  for (uint32_t i = 0; i < f->n; i++) {
    accel__cache_segment *s = &f->segment[i];
    const bool good = s->check == record_check(f, i) && s->offset % ACCEL__CACHE_ALIGN == 0 &&
                      s->offset >= f->table_at + bytes && s->offset <= f->bytes &&
                      s->bytes <= f->bytes - s->offset;
    if (!good) *s = (accel__cache_segment){0};
  }
  return true;
}

bool accel__cache_file_open(int fd, accel__cache_file *out, uint32_t *version) {
  header h;
  struct stat about;
  uint32_t unused;
  *out = (accel__cache_file){.fd = -1};
  if (fstat(fd, &about) || !S_ISREG(about.st_mode)) {
    if (version) *version = 0;
    return false;
  }
  bool good = read_header(fd, (uint64_t)about.st_size, &h, version ? version : &unused) &&
              allocate(out, h.n_segment, h.key_bytes, h.label_bytes);
  if (good) {
    out->fd = fd;
    out->bytes = h.file_bytes;
    out->sizes = h.sizes_sum;
    out->identity = h.header_sum;
    out->table_at = sizeof h + h.key_bytes + h.label_bytes;
    good = align_up(&out->table_at, TABLE_ALIGN) &&
           read_exactly(fd, out->key, h.key_bytes, sizeof h) &&
           read_exactly(fd, out->label, h.label_bytes, sizeof h + h.key_bytes) &&
           header_sum(&h, out->key, out->label) == h.header_sum && read_table(out);
  }
  if (!good) accel__cache_file_free(out);
  return good;
}

bool accel__cache_file_expect(accel__cache_file *f, const uint64_t *bytes, uint32_t n) {
  const uint64_t sizes = f->sizes, all = f->bytes;
  accel__cache_segment *found = f->segment;
  if (n != f->n) return false;
  f->segment = calloc(n ? n : 1, sizeof *f->segment);
  if (!f->segment) {
    f->segment = found;
    return false;
  }
  for (uint32_t i = 0; i < n; i++) f->segment[i].bytes = bytes[i];
  const bool same =
      lay_out(f, strlen(f->key), strlen(f->label)) && f->sizes == sizes && f->bytes == all;
  for (uint32_t i = 0; i < n && same; i++)
    if (found[i].check && found[i].offset == f->segment[i].offset && found[i].bytes == bytes[i])
      f->segment[i] = found[i];
  free(found);
  return same;
}

/* ---- segments ---- */

bool accel__cache_file_has(const accel__cache_file *f, uint32_t index) {
  return index < f->n && f->segment[index].check;
}

uint32_t accel__cache_file_count(const accel__cache_file *f) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < f->n; i++) n += f->segment[i].check != 0;
  return n;
}

bool accel__cache_file_read(const accel__cache_file *f, uint32_t index, void *out) {
  if (!accel__cache_file_has(f, index)) return false;
  const accel__cache_segment *s = &f->segment[index];
  accel__checksum sum;
  accel__checksum_begin(&sum);
  for (uint64_t at = 0; at < s->bytes;) {
    const uint64_t part = s->bytes - at < CHUNK ? s->bytes - at : CHUNK;
    if (!read_exactly(f->fd, (char *)out + at, part, s->offset + at)) return false;
    accel__checksum_add(&sum, (char *)out + at, part);
    at += part;
  }
  return accel__checksum_end(&sum) == s->sum;
}

void accel__cache_file_flush(const accel__cache_file *f) {
  /* pages that are to be written cannot be dropped */
  if (sync_file_range(
          f->fd, 0, 0,
          SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER))
    (void)fdatasync(f->fd);
  (void)posix_fadvise(f->fd, 0, 0, POSIX_FADV_DONTNEED);
}

int accel__cache_file_forget(accel__cache_file *f, uint32_t index) {
  static const accel__cache_segment none;
  f->segment[index].check = 0;
  return write_exactly(f->fd, &none, sizeof none,
                       f->table_at + (uint64_t)index * sizeof *f->segment);
}

int accel__cache_file_write(accel__cache_file *f, uint32_t index, const accel_plugin_part *part,
                            uint32_t n) {
  accel__cache_segment *s = &f->segment[index];
  accel__checksum sum;
  uint64_t at = 0;
  /* of a segment that has a record the record goes first */
  int error = s->check ? accel__cache_file_forget(f, index) : 0;
  accel__checksum_begin(&sum);
  for (uint32_t i = 0; i < n && !error; i++) {
    if (part[i].n > s->bytes - at) return EINVAL;
    accel__checksum_add(&sum, part[i].data, part[i].n);
    error = write_exactly(f->fd, part[i].data, part[i].n, s->offset + at);
    at += part[i].n;
  }
  if (!error && at != s->bytes) error = EINVAL;
  if (error) return error;
  s->sum = accel__checksum_end(&sum);
  const uint64_t check = record_check(f, index);
  accel__cache_segment record = *s;
  record.check = check;
  error =
      write_exactly(f->fd, &record, sizeof record, f->table_at + (uint64_t)index * sizeof record);
  if (!error) s->check = check;
  return error;
}
