/* cache_fuzz.c - the cache's table of segments.
 *
 * The first byte chooses.  Even: what follows is a file as it is, of which everything that is
 * accepted can be read to the last byte, and be written where it is missing.  Odd: a whole entry is
 * written, and what follows are changes to it, six bytes each (offset, and two bytes for there):
 * every segment is read as it was written, or missing, and can be written again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "weights/cache_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 1 << 20, SEGMENTS = 5, CHANGE = 6 };
static const uint64_t sizes[SEGMENTS] = {4096, 1, 0, 5000, 77};

static uint8_t byte_at(uint32_t segment, uint64_t i) { return (uint8_t)(segment * 31 + i * 7 + 1); }

static void must(bool right) {
  if (!right) abort();
}

static uint8_t *bytes_of(uint32_t segment, uint64_t n) {
  uint8_t *b = malloc(n + 1);
  must(b != NULL);
  for (uint64_t i = 0; i < n; i++) b[i] = byte_at(segment, i);
  return b;
}

/* Writes a segment of the entry and reads it again. */
static void write_segment(accel__cache_file *f, uint32_t i) {
  const uint64_t n = f->segment[i].bytes;
  uint8_t *b = bytes_of(i, n), *got = calloc(n + 1, 1);
  const accel_plugin_part part[2] = {{b, n / 2}, {b + n / 2, n - n / 2}};
  must(!accel__cache_file_write(f, i, part, 2));
  must(got && accel__cache_file_has(f, i) && accel__cache_file_read(f, i, got));
  must(!memcmp(b, got, n));
  free(got);
  free(b);
}

/* Any bytes. */
static void open_raw(int fd) {
  accel__cache_file f;
  uint32_t version;
  if (!accel__cache_file_open(fd, &f, &version)) return;
  must(version == ACCEL__CACHE_VERSION && strlen(f.key) <= ACCEL__CACHE_TEXT);
  must(accel__cache_file_count(&f) <= f.n);
  for (uint32_t i = 0; i < f.n; i++) {
    if (!accel__cache_file_has(&f, i)) continue;
    must(f.segment[i].offset <= f.bytes && f.segment[i].bytes <= f.bytes - f.segment[i].offset);
    uint8_t *b = malloc(f.segment[i].bytes + 1);
    if (b) (void)accel__cache_file_read(&f, i, b);
    free(b);
  }
  accel__cache_file_free(&f);
}

static void open_changed(int fd, const uint8_t *data, size_t size) {
  accel__cache_file f;
  must(accel__cache_file_plan("key", "label", sizes, SEGMENTS, &f));
  must(!accel__cache_file_begin(&f, fd));
  for (uint32_t i = 0; i < SEGMENTS; i++) write_segment(&f, i);
  const uint64_t bytes = f.bytes;
  accel__cache_file_free(&f);
  for (; size >= CHANGE; data += CHANGE, size -= CHANGE) {
    uint32_t at;
    memcpy(&at, data, sizeof at);
    must(pwrite(fd, data + sizeof at, 2, (off_t)(at % (bytes - 1))) == 2);
  }
  if (!accel__cache_file_open(fd, &f, NULL)) return;
  if (!strcmp(f.key, "key") && accel__cache_file_expect(&f, sizes, SEGMENTS))
    for (uint32_t i = 0; i < SEGMENTS; i++) {
      uint8_t got[5000];
      const bool there = accel__cache_file_read(&f, i, got);
      for (uint64_t k = 0; there && k < sizes[i]; k++) must(got[k] == byte_at(i, k));
      if (!there) write_segment(&f, i);
    }
  accel__cache_file_free(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size || size > MOST) return 0;
  const int fd = memfd_create("cache", MFD_CLOEXEC);
  must(fd >= 0);
  if (data[0] % 2) {
    open_changed(fd, data + 1, size - 1);
  } else {
    must(write(fd, data + 1, size - 1) == (ssize_t)(size - 1));
    open_raw(fd);
  }
  close(fd);
  return 0;
}
