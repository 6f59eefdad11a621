/* weights_reader_test.c - the reader of ranges: the bytes of read(2) at every offset and size,
 * direct and through the page cache, from several threads; and files that change, end, or cannot be
 * read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/config.h"
#include "core/file.h"
#include "unit/temp.h"
#include "weights/range_reader.h"

enum { BYTES = (3 << 20) + 1234, SLOT = 1 << 20, SLOTS = 4 };
static uint8_t *content;

static int make_content(void **state) {
  (void)state;
  uint64_t seed = 1;
  content = malloc(BYTES);
  for (size_t i = 0; content && i < BYTES; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    content[i] = (uint8_t)(seed >> 56);
  }
  return content == NULL;
}

static int free_content(void **state) {
  (void)state;
  free(content);
  return 0;
}

static const char *write_content(void) { return temp_file("ranges.bin", content, BYTES); }

static accel__range_reader *opens(const char *const *paths, uint32_t n,
                                  const accel__range_options *options) {
  accel__range_reader *r;
  if (accel__range_reader_open(paths, NULL, n, options, &r) != ACCEL_OK)
    fail_msg("%s", accel__message());
  return r;
}

static void posts(accel__range_reader *r, uint32_t slot, uint64_t offset, uint64_t bytes) {
  if (accel__range_reader_post(r, slot, 0, offset, bytes) != ACCEL_OK)
    fail_msg("%llu + %llu: %s", (unsigned long long)offset, (unsigned long long)bytes,
             accel__message());
}

static void gets(accel__range_reader *r, uint32_t slot, uint64_t offset, uint64_t bytes) {
  const void *data;
  if (accel__range_reader_wait(r, slot, &data) != ACCEL_OK)
    fail_msg("%llu + %llu: %s", (unsigned long long)offset, (unsigned long long)bytes,
             accel__message());
  if (memcmp(data, content + offset, bytes) != 0)
    fail_msg("%llu + %llu: other bytes", (unsigned long long)offset, (unsigned long long)bytes);
}

static void reads(accel__range_reader *r, uint64_t offset, uint64_t bytes) {
  posts(r, 0, offset, bytes);
  gets(r, 0, offset, bytes);
  accel__range_reader_release(r, 0);
}

/* ---- right bytes ---- */

static void odd_ranges(const char *path, const accel__range_options *options) {
  static const uint64_t offsets[] = {0,
                                     1,
                                     8,
                                     4095,
                                     4096,
                                     4097,
                                     123457,
                                     BYTES - 1,
                                     BYTES - 4096,
                                     BYTES - 5000,
                                     1 << 20,
                                     (2 << 20) + 1};
  static const uint64_t sizes[] = {1, 7, 4095, 4096, 4097, 65536, 100001, SLOT - 1, SLOT};
  accel__range_reader *r = opens(&path, 1, options);
  accel__range_counters count;
  uint64_t segments = 0, bytes = 0;
  for (size_t o = 0; o < sizeof offsets / sizeof *offsets; o++) {
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
      const uint64_t left = BYTES - offsets[o], n = sizes[s] < left ? sizes[s] : left;
      reads(r, offsets[o], n);
      segments++;
      bytes += n;
    }
  }
  const bool direct = accel__range_reader_direct(r, 0);
  accel__range_reader_count(r, &count);
  assert_int_equal(count.segments, segments);
  assert_int_equal(count.bytes, bytes);
  assert_int_equal(count.waits, segments);
  assert_true(count.read_bytes >= bytes && count.requests >= segments);
  assert_true(count.ready <= count.waits && count.busy_ns > 0 && count.check_ns > 0);
  assert_int_equal(count.direct_requests, direct ? count.requests : 0);
  if (options->buffered) assert_false(direct);
  assert_int_equal(accel__range_reader_check(r), ACCEL_OK);
  accel__range_reader_close(&r);
  assert_null(r);
}

static void every_range_is_right(void **state) {
  (void)state;
  const char *path = write_content();
  for (uint32_t threads = 0; threads <= ACCEL__RANGE_MAX_THREADS; threads++)
    for (int buffered = 0; buffered < 2; buffered++)
      odd_ranges(path, &(accel__range_options){.threads = threads,
                                               .slots = 1,
                                               .slot_bytes = SLOT,
                                               .request_bytes = threads % 2 ? 10000 : 0,
                                               .buffered = buffered});
}

/* A file system without a disk: direct or not, as the kernel has it. */
static void tmpfs(void **state) {
  (void)state;
  char path[] = "/dev/shm/accel-reader-XXXXXX";
  const char *name = path;
  const int fd = mkstemp(path);
  if (fd < 0 || write(fd, content, BYTES) != BYTES) {
    if (fd >= 0) close(fd), unlink(path);
    skip();
  }
  close(fd);
  odd_ranges(name, &(accel__range_options){.slots = 1, .slot_bytes = SLOT});
  unlink(path);
}

/* O_DIRECT was opened, and reading refuses: through the page cache from then on. */
static void direct_reads_may_be_refused(void **state) {
  (void)state;
  const char *path = write_content();
  accel__range_reader *r = opens(&path, 1, &(accel__range_options){.slots = 1, .slot_bytes = SLOT});
  if (!accel__range_reader_direct(r, 0)) {
    accel__range_reader_close(&r);
    skip(); /* not on this file system */
  }
  reads(r, 5, 100);
  accel__fault_arm("read_part:1"); /* what comes in parts goes on at a whole block */
  reads(r, 4097, 100000);
  accel__fault_arm(NULL);
  assert_true(accel__range_reader_direct(r, 0));
  accel__fault_arm("direct_refused:1");
  reads(r, 4097, 100000);
  accel__fault_arm(NULL);
  assert_false(accel__range_reader_direct(r, 0));
  reads(r, 1, SLOT);
  accel__range_reader_close(&r);
}

/* A ring that goes round: as many segments under way as there are slots, in the order of posting. */
static void a_ring_goes_round(void **state) {
  (void)state;
  enum { SEGMENTS = 64, SEGMENT = 200003 };
  const char *path = write_content();
  accel__range_reader *r =
      opens(&path, 1, &(accel__range_options){.threads = 3, .slots = SLOTS, .slot_bytes = SEGMENT});
  for (int pass = 0; pass < 2; pass++) {
    uint32_t posted = 0;
    for (uint32_t i = 0; i < SEGMENTS; i++) {
      for (; posted < SEGMENTS && posted < i + SLOTS; posted++)
        posts(r, posted % SLOTS, posted * 7919 * 5 % (BYTES - SEGMENT), SEGMENT);
      gets(r, i % SLOTS, i * 7919 * 5 % (BYTES - SEGMENT), SEGMENT);
      gets(r, i % SLOTS, i * 7919 * 5 % (BYTES - SEGMENT), SEGMENT); /* once more */
      accel__range_reader_release(r, i % SLOTS);
    }
  }
  accel__range_counters count;
  accel__range_reader_count(r, &count);
  assert_int_equal(count.segments, 2 * SEGMENTS);
  accel__range_reader_close(&r);
}

typedef struct user {
  accel__range_reader *r;
  uint32_t slot, wrong;
} user;

static void *use(void *arg) {
  user *u = arg;
  for (uint64_t i = 0; i < 60; i++) {
    const uint64_t offset = (i * 77773 + u->slot * 1234567) % (BYTES - SLOT), n = 1 + i * 4001;
    const void *data;
    if (accel__range_reader_post(u->r, u->slot, i % 2, offset, n) != ACCEL_OK) u->wrong++;
    if (i % 5 != 4) { /* else given up: it may be in the queue, being read, or read */
      if (accel__range_reader_wait(u->r, u->slot, &data) != ACCEL_OK ||
          memcmp(data, content + offset, n) != 0)
        u->wrong++;
    }
    accel__range_reader_release(u->r, u->slot);
  }
  return NULL;
}

static void many_users(void **state) {
  (void)state;
  enum { USERS = 6 };
  const char *const paths[2] = {write_content(), temp_file("twin.bin", content, BYTES)};
  accel__range_reader *r =
      opens(paths, 2, &(accel__range_options){.threads = 4, .slots = USERS, .slot_bytes = SLOT});
  pthread_t thread[USERS];
  user u[USERS];
  for (uint32_t i = 0; i < USERS; i++) {
    u[i] = (user){.r = r, .slot = i};
    assert_int_equal(pthread_create(&thread[i], NULL, use, &u[i]), 0);
  }
  for (uint32_t i = 0; i < USERS; i++) {
    pthread_join(thread[i], NULL);
    assert_int_equal(u[i].wrong, 0);
  }
  accel__range_reader_close(&r);
}

/* ---- what is refused ---- */

static void wrong_arguments(void **state) {
  (void)state;
  const char *path = write_content(), *absent = temp_path("absent");
  accel__range_reader *r;
  const void *data;
  static const accel__range_options bad[] = {{.slots = 0, .slot_bytes = 1},
                                             {.slots = 1, .slot_bytes = 0},
                                             {.slots = 1, .slot_bytes = 1, .threads = 5},
                                             {.slots = 1, .slot_bytes = UINT64_MAX}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(accel__range_reader_open(&path, NULL, 1, &bad[i], &r), ACCEL_ERROR_ARGUMENT);
    assert_null(r);
  }
  const accel__range_options options = {.slots = 1, .slot_bytes = SLOT};
  assert_int_equal(accel__range_reader_open(&absent, NULL, 1, &options, &r), ACCEL_ERROR_NOT_FOUND);
  r = opens(&path, 1, &options);
  assert_int_equal(accel__range_reader_post(r, 1, 0, 0, 1), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel__range_reader_post(r, 0, 1, 0, 1), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel__range_reader_post(r, 0, 0, 0, 0), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel__range_reader_post(r, 0, 0, 0, SLOT + 1), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel__range_reader_post(r, 0, 0, BYTES, 1), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel__range_reader_post(r, 0, 0, UINT64_MAX, 2), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel__range_reader_wait(r, 0, &data), ACCEL_ERROR_ARGUMENT); /* not posted */
  assert_null(data);
  posts(r, 0, 0, 10);
  assert_int_equal(accel__range_reader_post(r, 0, 0, 0, 1), ACCEL_ERROR_ARGUMENT); /* in use */
  gets(r, 0, 0, 10);
  accel__range_reader_release(r, 0);
  accel__range_reader_release(r, 0); /* of a free slot: nothing */
  accel__range_reader_release(r, 7);
  reads(r, 3, 10);
  accel__range_reader_close(&r);
  accel__range_reader_close(&r);
}

/* The one wait that fails: file and remedy are named, and the reader works on. */
static void fails(accel__range_reader *r, accel_status status, const char *words) {
  const void *data;
  posts(r, 0, 1000, SLOT);
  const accel_status found = accel__range_reader_wait(r, 0, &data);
  accel__fault_arm(NULL);
  if (found != status) fail_msg("status %d: %s", (int)found, accel__message());
  assert_null(data);
  assert_non_null(strstr(accel__message(), "ranges.bin"));
  if (!strstr(accel__message(), words)) fail_msg("%s", accel__message());
  assert_true(accel__remedy_text()[0]);
  accel__range_reader_release(r, 0);
}

static void injected_faults(void **state) {
  (void)state;
  static const struct {
    const char *point, *words;
    accel_status status;
  } cases[] = {{"read_error:1", "cannot read: Input/output error", ACCEL_ERROR_IO},
               {"read_error:3", "cannot read: Input/output error", ACCEL_ERROR_IO},
               {"read_short:1", "bytes are due", ACCEL_ERROR_FORMAT},
               {"file_changed:1", "the file was changed", ACCEL_ERROR_IO},
               {"segment_changed:1", "not what they were when first read", ACCEL_ERROR_IO}};
  const char *path = write_content();
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    accel__range_reader *r =
        opens(&path, 1,
              &(accel__range_options){.slots = 2, .slot_bytes = SLOT, .request_bytes = 128 << 10});
    reads(r, 1000, SLOT);
    accel__fault_arm(cases[k].point);
    fails(r, cases[k].status, cases[k].words);
    reads(r, 1000, SLOT);
    reads(r, 0, SLOT);
    accel__range_reader_close(&r);
  }
}

static void opening_may_fail(void **state) {
  (void)state;
  const char *path = write_content();
  const accel__range_options options = {.threads = 3, .slots = 2, .slot_bytes = SLOT};
  accel__range_reader *r;
  bool whole = false;
  for (int at = 1; !whole; at++) {
    char point[40];
    snprintf(point, sizeof point, "allocation:%d", at);
    accel__fault_arm(point);
    const accel_status status = accel__range_reader_open(&path, NULL, 1, &options, &r);
    accel__fault_arm(NULL);
    whole = status == ACCEL_OK;
    if (!whole) assert_int_equal(status, ACCEL_ERROR_OUT_OF_MEMORY);
    accel__range_reader_close(&r);
  }
  for (int at = 1; at <= 3; at++) {
    char point[40];
    snprintf(point, sizeof point, "thread:%d", at);
    accel__fault_arm(point);
    assert_int_equal(accel__range_reader_open(&path, NULL, 1, &options, &r), ACCEL_ERROR_LIMIT);
    accel__fault_arm(NULL);
    assert_null(r);
  }
}

/* ---- files that change while they are open ---- */

static void truncated(const char *path) { assert_int_equal(truncate(path, 4096), 0); }
static void replaced(const char *path) {
  const char *other = temp_file("other.bin", content, BYTES);
  assert_int_equal(rename(other, path), 0);
}
static void overwritten(const char *path) {
  FILE *f = fopen(path, "r+b");
  assert_true(f && fseek(f, 2000, SEEK_SET) == 0 && fputc(content[2000] ^ 1, f) >= 0 &&
              fclose(f) == 0);
}

static void changed_files(void **state) {
  (void)state;
  static const struct {
    void (*change)(const char *path);
    accel_status status;
  } cases[] = {
      {truncated, ACCEL_ERROR_FORMAT}, {replaced, ACCEL_ERROR_IO}, {overwritten, ACCEL_ERROR_IO}};
  for (size_t k = 0; k < 2 * sizeof cases / sizeof *cases; k++) {
    const char *path = write_content();
    const accel__range_options options = {.slots = 1, .slot_bytes = SLOT, .buffered = k % 2};
    accel__file_state before, *states = &before;
    int fd;
    accel__range_reader *r = opens(&path, 1, &options);
    reads(r, 1000, SLOT);
    assert_int_equal(accel__file_open(path, &fd, &before), ACCEL_OK);
    close(fd);
    usleep(20000); /* times of files count in ticks of the kernel */
    cases[k / 2].change(path);
    fails(r, cases[k / 2].status, "the file was changed");
    assert_int_equal(accel__range_reader_check(r), cases[k / 2].status);
    assert_non_null(strstr(accel__message(), "ranges.bin"));
    accel__range_reader_close(&r);
    assert_int_equal(accel__range_reader_open(&path, states, 1, &options, &r), cases[k / 2].status);
    assert_null(r);
  }
}

/* Slots that are given up, at once and later, and a reader that is closed with all under way. */
static void cancelled(void **state) {
  (void)state;
  const char *path = write_content();
  for (int round = 0; round < 40; round++) {
    accel__range_reader *r =
        opens(&path, 1,
              &(accel__range_options){
                  .threads = 2, .slots = SLOTS, .slot_bytes = SLOT, .request_bytes = 64 << 10});
    for (uint32_t s = 0; s < SLOTS; s++) posts(r, s, s * 1000, SLOT);
    if (round % 4 == 1) usleep(50 * (useconds_t)round);
    if (round % 4) {
      for (uint32_t s = 0; s < SLOTS; s += 2) accel__range_reader_release(r, s);
      for (uint32_t s = 0; s < SLOTS; s += 2) posts(r, s, s * 3000 + 1, SLOT / 2);
      gets(r, 1, 1000, SLOT);
      gets(r, 2, 6001, SLOT / 2);
    }
    accel__range_reader_close(&r);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_range_is_right),
                                     cmocka_unit_test(tmpfs),
                                     cmocka_unit_test(direct_reads_may_be_refused),
                                     cmocka_unit_test(a_ring_goes_round),
                                     cmocka_unit_test(many_users),
                                     cmocka_unit_test(wrong_arguments),
                                     cmocka_unit_test(injected_faults),
                                     cmocka_unit_test(opening_may_fail),
                                     cmocka_unit_test(changed_files),
                                     cmocka_unit_test(cancelled)};
  return cmocka_run_group_tests(tests, make_content, free_content);
}
