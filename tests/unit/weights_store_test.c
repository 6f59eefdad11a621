/* weights_store_test.c - entries of the cache that grow by segments: killed, torn and concurrent
 * writers, repairs, and that no damage passes for data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "core/config.h"
#include "unit/cached.h"
#include "weights/row_stream.h"

enum { N = 5 };
static const uint64_t sizes[N] = {70000, 0, 1, 4096, 123457};
static const char key[] = "a key", label[] = "a model";

static accel__cache_store *open_store(const accel__cache *c) {
  return accel__cache_store_open(c, key, label, sizes, N);
}

static bool put_in(accel__cache_store *s, uint32_t i) {
  uint8_t *b = bytes_of(i, sizes[i]);
  const uint64_t cut = sizes[i] / 3;
  const accel_plugin_part part[2] = {{b, cut}, {b + cut, sizes[i] - cut}};
  bool kept = accel__cache_store_put(s, i, part, 2);
  free(b);
  return kept;
}

/* 1: there and right; 0: missing; -1: wrong bytes handed out. */
static int right(accel__cache_store *s, uint32_t i) {
  uint8_t *got = malloc(sizes[i] + 1), *wanted = bytes_of(i, sizes[i]);
  int answer = accel__cache_store_get(s, i, got) ? (memcmp(got, wanted, sizes[i]) ? -1 : 1) : 0;
  free(got);
  free(wanted);
  return answer;
}

/* Everything that is missing is put; true: the entry is whole and right. */
static bool finish(const accel__cache *c) {
  accel__cache_store *s = open_store(c);
  bool good = s != NULL;
  for (uint32_t i = 0; i < N && good; i++) good = right(s, i) == 1 || put_in(s, i);
  good = good && accel__cache_store_commit(s);
  for (uint32_t i = 0; i < N && good; i++) good = right(s, i) == 1;
  accel__cache_store_close(&s);
  return good;
}

static void whole_entry(const accel__cache *c) {
  accel__cache_prune(c, 0, NULL, NULL);
  assert_true(finish(c));
}

static void segments_come_in_any_order(void **state) {
  (void)state;
  accel__cache c = fresh("order");
  const uint32_t first[] = {4, 0, 2}, rest[] = {3, 1};
  accel__cache_store *s = open_store(&c);
  assert_non_null(s);
  for (int i = 0; i < 3; i++) assert_true(put_in(s, first[i]));
  assert_false(accel__cache_store_commit(s));
  accel__cache_store_close(&s);
  assert_non_null(strstr(only_file(&c), ".part"));
  s = open_store(&c); /* continued */
  for (uint32_t i = 0; i < N; i++) {
    assert_int_equal(accel__cache_store_has(s, i), i % 2 == 0);
    assert_int_equal(right(s, i), i % 2 == 0);
  }
  for (int i = 0; i < 2; i++) assert_true(put_in(s, rest[i]));
  assert_true(accel__cache_store_commit(s));
  accel__cache_store_close(&s);
  assert_int_equal(count(&c), 1);
  assert_non_null(strstr(only_file(&c), ".packed"));
  s = open_store(&c);
  for (uint32_t i = 0; i < N; i++) assert_int_equal(right(s, i), 1);
  assert_true(accel__cache_store_commit(s)); /* again: nothing to do */
  assert_false(accel__cache_store_put(s, N, NULL, 0));
  accel__cache_store_close(&s);
  free((char *)c.directory);
}

/* The table alone tells where segments lie: any reader of ranges can stream them. */
static void segments_are_ranges_of_the_file(void **state) {
  (void)state;
  accel__cache c = fresh("ranges");
  whole_entry(&c);
  accel__cache_store *held = open_store(&c);
  accel__cache_file file;
  const char *path = only_file(&c);
  const int fd = open(path, O_RDONLY);
  assert_true(accel__cache_file_open(fd, &file, NULL));
  assert_string_equal(file.key, key);
  assert_string_equal(file.label, label);
  assert_int_equal(file.n, N);
  const accel__range_options how = {.threads = 2, .slots = 1, .slot_bytes = 1 << 18};
  accel__range_reader *r;
  assert_int_equal(accel__range_reader_open(&path, NULL, 1, &how, &r), ACCEL_OK);
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t i = 0; i < N; i++) {
      const void *data;
      uint8_t *wanted = bytes_of(i, sizes[i]);
      assert_int_equal(file.segment[i].offset % 4096, 0);
      assert_int_equal(file.segment[i].bytes, sizes[i]);
      if (!sizes[i]) {
        free(wanted);
        continue;
      }
      assert_int_equal(
          accel__range_reader_post(r, 0, 0, file.segment[i].offset, file.segment[i].bytes),
          ACCEL_OK);
      assert_int_equal(accel__range_reader_wait(r, 0, &data), ACCEL_OK);
      assert_memory_equal(data, wanted, sizes[i]);
      accel__range_reader_release(r, 0);
      free(wanted);
    }
    /* somebody else loads it: for the reader the file stays as it was */
    accel__cache_store *other = open_store(&c);
    assert_int_equal(right(other, 0), 1);
    accel__cache_store_close(&other);
    assert_int_equal(accel__range_reader_check(r), ACCEL_OK);
    /* nor is it removed */
    assert_int_equal(accel__cache_prune(&c, 0, NULL, NULL), ACCEL_OK);
    assert_int_equal(count(&c), 1);
  }
  accel__range_reader_close(&r);
  accel__cache_file_free(&file);
  close(fd);
  accel__cache_store_close(&held);
  assert_int_equal(accel__cache_prune(&c, 0, NULL, NULL), ACCEL_OK);
  assert_int_equal(count(&c), 0);
  free((char *)c.directory);
}

/* Where things are in the file of these tests. */
enum { TABLE_AT = 64, RECORD = 32, TABLE_END = TABLE_AT + N * RECORD };

/* Whatever bit of records and bytes is wrong, its segment alone is missing, and put again. */
static void damage_costs_its_segment_alone(void **state) {
  (void)state;
  accel__cache c = fresh("repair");
  uint64_t begin[N], at = 4096;
  whole_entry(&c);
  for (int i = 0; i < N; i++) {
    begin[i] = at;
    at += (sizes[i] + 4095) / 4096 * 4096;
  }
  for (uint64_t place = TABLE_AT; place < at; place += place < TABLE_END ? 1 : 1777) {
    uint32_t hit = N;
    for (uint32_t i = 0; i < N; i++)
      if ((place >= begin[i] && place < begin[i] + sizes[i]) ||
          (place < TABLE_END && (place - TABLE_AT) / RECORD == i))
        hit = i;
    if (hit == N) continue; /* between segments */
    flip(only_file(&c), (off_t)place);
    accel__cache_store *s = open_store(&c);
    assert_non_null(s);
    for (uint32_t i = 0; i < N; i++) assert_int_equal(right(s, i), i != hit);
    assert_true(put_in(s, hit));
    for (uint32_t i = 0; i < N; i++) assert_int_equal(right(s, i), 1);
    accel__cache_store_close(&s);
    s = open_store(&c);
    assert_int_equal(right(s, hit), 1);
    accel__cache_store_close(&s);
  }
  free((char *)c.directory);
}

/* A record of which only the first bytes, or the last, came to the disk. */
static void torn_records_are_missing_segments(void **state) {
  (void)state;
  accel__cache c = fresh("torn");
  for (int cut = 1; cut < RECORD; cut += 5)
    for (int head = 0; head < 2; head++) {
      static const uint8_t zeros[RECORD];
      whole_entry(&c);
      const int fd = open(only_file(&c), O_RDWR);
      const int n = head ? RECORD - cut : cut + 1;
      assert_int_equal(pwrite(fd, zeros, (size_t)n, TABLE_AT + 3 * RECORD + (head ? cut : 0)), n);
      close(fd);
      accel__cache_store *s = open_store(&c);
      for (uint32_t i = 0; i < N; i++) assert_int_equal(right(s, i), i != 3);
      accel__cache_store_close(&s);
    }
  free((char *)c.directory);
}

static void other_files_are_begun_anew(void **state) {
  (void)state;
  accel__cache c = fresh("anew");
  const char *endings[] = {"part", "packed"};
  for (int which = 0; which < 2; which++) {
    for (off_t at = 0; at < 48 + (off_t)sizeof key + (off_t)sizeof label - 2; at++) { /* header */
      whole_entry(&c);
      char path[1024], to[1024];
      snprintf(path, sizeof path, "%s", only_file(&c));
      snprintf(to, sizeof to, "%.*s%s", (int)(strlen(path) - strlen("packed")), path,
               endings[which]);
      assert_int_equal(rename(path, to), 0);
      flip(to, at);
      accel__cache_store *s = open_store(&c);
      for (uint32_t i = 0; i < N; i++) assert_int_equal(right(s, i), 0);
      accel__cache_store_close(&s);
      assert_true(finish(&c));
    }
    for (off_t cut = 0; cut < 100000; cut += 9973) {
      whole_entry(&c);
      assert_int_equal(truncate(only_file(&c), cut), 0);
      assert_true(finish(&c));
    }
  }
  const uint64_t fewer[] = {70000, 0, 1}, others[N] = {70000, 1, 0, 4096, 123457};
  whole_entry(&c);
  accel__cache_store *s = accel__cache_store_open(&c, key, label, fewer, 3);
  assert_false(accel__cache_store_has(s, 0));
  accel__cache_store_close(&s);
  whole_entry(&c);
  s = accel__cache_store_open(&c, key, label, others, N);
  assert_false(accel__cache_store_has(s, 0));
  accel__cache_store_close(&s);
  whole_entry(&c); /* another label is the same entry */
  s = accel__cache_store_open(&c, key, "the same model by another and quite longer path", sizes, N);
  for (uint32_t i = 0; i < N; i++) assert_int_equal(right(s, i), 1);
  accel__cache_store_close(&s);
  free((char *)c.directory);
}

static void other_versions_are_misses_and_go(void **state) {
  (void)state;
  accel__cache c = fresh("versions");
  for (uint8_t version = 1; version <= 3; version += 2) {
    accel__arena arena = {0};
    accel__cache_entry *e;
    uint32_t n;
    whole_entry(&c);
    const int fd = open(only_file(&c), O_RDWR);
    assert_int_equal(pwrite(fd, &version, 1, 8), 1);
    close(fd);
    assert_int_equal(accel__cache_list(&c, &arena, &e, &n), ACCEL_OK);
    assert_int_equal(n, 1);
    assert_false(e[0].sound);
    assert_non_null(strstr(e[0].label, version == 1 ? "of version 1" : "of version 3"));
    accel__arena_free(&arena);
    assert_int_equal(accel__cache_prune(&c, UINT64_MAX, &n, NULL), ACCEL_OK);
    assert_int_equal(n, 1);
  }
  free((char *)c.directory);
}

static void the_second_writer_goes_without(void **state) {
  (void)state;
  accel__cache c = fresh("second");
  accel__cache_store *first = open_store(&c), *second = open_store(&c);
  assert_non_null(first);
  assert_null(second);
  assert_true(put_in(first, 0));
  assert_int_equal(accel__cache_prune(&c, 0, NULL, NULL), ACCEL_OK); /* it stays */
  assert_int_equal(count(&c), 1);
  for (uint32_t i = 1; i < N; i++) assert_true(put_in(first, i));
  assert_true(accel__cache_store_commit(first));
  second = open_store(&c); /* both read the whole one */
  for (uint32_t i = 0; i < N; i++) assert_int_equal(right(second, i), 1);
  accel__cache_store_close(&second);
  accel__cache_store_close(&first);
  /* of two that read, none repairs; alone it does */
  flip(only_file(&c), 4096);
  first = open_store(&c);
  second = open_store(&c);
  assert_int_equal(right(first, 0), 0);
  assert_false(put_in(first, 0));
  accel__cache_store_close(&second);
  assert_true(put_in(first, 0));
  assert_int_equal(right(first, 0), 1);
  accel__cache_store_close(&first);
  free((char *)c.directory);
}

/* Four processes make, prune and read one entry: what is read is right or missing. */
static void processes_share_an_entry(void **state) {
  (void)state;
  accel__cache c = fresh("processes");
  pid_t child[4];
  for (int p = 0; p < 4; p++) {
    child[p] = fork();
    assert_true(child[p] >= 0);
    if (child[p]) continue;
    int bad = 0;
    for (int round = 0; round < 40; round++) {
      accel__cache_store *s = open_store(&c);
      for (uint32_t i = 0; i < N && s; i++) {
        const uint32_t at = (i + (uint32_t)p) % N;
        const int got = right(s, at);
        bad |= got < 0 || (got == 0 && put_in(s, at) && right(s, at) != 1);
      }
      if (s) accel__cache_store_commit(s);
      accel__cache_store_close(&s);
      if (round % 4 == p) accel__cache_prune(&c, 0, NULL, NULL);
    }
    _exit(bad);
  }
  for (int p = 0; p < 4; p++) {
    int status;
    assert_int_equal(waitpid(child[p], &status, 0), child[p]);
    assert_int_equal(status, 0);
  }
  assert_true(finish(&c));
  free((char *)c.directory);
}

/* ---- killed writers ---- */

enum { MANY = 48, EACH = 200000 };

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static accel__cache_store *open_many(const accel__cache *c) {
  uint64_t bytes[MANY];
  for (int i = 0; i < MANY; i++) bytes[i] = EACH + (uint64_t)i;
  return accel__cache_store_open(c, "many", label, bytes, MANY);
}

static void write_many(const accel__cache *c, const uint8_t *all) {
  accel__cache_store *s = open_many(c);
  for (uint32_t k = 0; s && k < MANY; k++) {
    const uint32_t i = k * 29 % MANY;
    const accel_plugin_part part = {all + i, EACH + i};
    if (!accel__cache_store_has(s, i)) accel__cache_store_put(s, i, &part, 1);
  }
  if (s) accel__cache_store_commit(s);
  accel__cache_store_close(&s);
}

/* How many segments are there; all that are must be right. */
static uint32_t check_many(const accel__cache *c, const uint8_t *all) {
  static uint8_t got[EACH + MANY];
  uint32_t n = 0;
  accel__cache_store *s = open_many(c);
  assert_non_null(s);
  for (uint32_t i = 0; i < MANY; i++) {
    if (!accel__cache_store_has(s, i)) continue;
    assert_true(accel__cache_store_get(s, i, got));
    assert_memory_equal(got, all + i, EACH + i);
    n++;
  }
  accel__cache_store_close(&s);
  return n;
}

/* SIGKILL at twenty moments of the time that the whole entry takes here: what was written stays and
 * is right, and the next writer goes on with it. */
static void killed_writers_are_continued(void **state) {
  (void)state;
  enum { KILLS = 20 };
  accel__cache c = fresh("killed");
  uint8_t *all = bytes_of(7, EACH + 2 * MANY);
  uint64_t seed = 1;
  uint32_t between = 0;
  const int64_t begin = now_ns();
  write_many(&c, all);
  const int64_t one = now_ns() - begin;
  assert_int_equal(check_many(&c, all), MANY);
  accel__cache_prune(&c, 0, NULL, NULL);
  for (int k = 0; k < KILLS; k++) {
    const uint32_t before = count(&c) ? check_many(&c, all) : 0;
    if (before == MANY) accel__cache_prune(&c, 0, NULL, NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
      write_many(&c, all);
      _exit(0);
    }
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const int64_t wait = one / 2 * (int64_t)(seed >> 48) / 65536;
    nanosleep(&(struct timespec){.tv_sec = wait / 1000000000, .tv_nsec = wait % 1000000000}, NULL);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    const uint32_t after = check_many(&c, all);
    if (before < MANY) assert_true(after >= before);
    between += after > 0 && after < MANY;
  }
  /* one that is surely killed in the middle: it holds the lock when it dies */
  accel__cache_prune(&c, 0, NULL, NULL);
  int ready[2];
  assert_int_equal(pipe(ready), 0);
  const pid_t pid = fork();
  if (!pid) {
    accel__cache_store *s = open_many(&c);
    for (uint32_t i = 0; i < 7; i++)
      accel__cache_store_put(s, i, &(accel_plugin_part){all + i, EACH + i}, 1);
    if (write(ready[1], "x", 1) == 1) pause();
    _exit(0);
  }
  char x;
  assert_int_equal(read(ready[0], &x, 1), 1);
  assert_null(open_many(&c)); /* it is writing */
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  assert_int_equal(check_many(&c, all), 7);
  write_many(&c, all);
  assert_int_equal(check_many(&c, all), MANY);
  print_message("%u of %d writers were killed between two segments\n", between, KILLS);
  close(ready[0]);
  close(ready[1]);
  free(all);
  free((char *)c.directory);
}

/* ---- places that refuse ---- */

static void a_full_disk_leaves_nothing(void **state) {
  (void)state;
  accel__cache c = fresh("full");
  for (int at = 1; at < 12; at++) {
    char point[32];
    snprintf(point, sizeof point, "disk_full:%d", at);
    accel__fault_arm(point);
    accel__cache_store *s = open_store(&c);
    assert_int_equal(s != NULL, at > 1); /* 1 is the header */
    uint32_t kept = 0;
    while (s && kept < N && put_in(s, kept)) kept++;
    assert_true(kept < N);
    accel__fault_arm(NULL);
    if (s) {
      assert_false(put_in(s, kept)); /* no more attempts */
      for (uint32_t i = 0; i < kept; i++) assert_int_equal(right(s, i), 1);
      assert_false(accel__cache_store_commit(s));
    }
    accel__cache_store_close(&s);
    assert_int_equal(count(&c), 0);
  }
  whole_entry(&c); /* a repair that fails: the segment stays missing, the others stay */
  flip(only_file(&c), 4096);
  accel__cache_store *s = open_store(&c);
  assert_int_equal(right(s, 0), 0);
  accel__fault_arm("disk_full:2");
  assert_false(put_in(s, 0));
  accel__fault_arm(NULL);
  accel__cache_store_close(&s);
  s = open_store(&c);
  for (uint32_t i = 0; i < N; i++) assert_int_equal(right(s, i), i != 0);
  accel__cache_store_close(&s);
  accel__fault_arm("read_error");
  s = open_store(&c); /* the table cannot be read: begun anew */
  accel__fault_arm(NULL);
  assert_false(s && accel__cache_store_has(s, 1));
  accel__cache_store_close(&s);
  free((char *)c.directory);
}

static void limits_hold(void **state) {
  (void)state;
  accel__cache c = fresh("limits");
  char why[256];
  whole_entry(&c);
  struct stat about;
  assert_int_equal(stat(only_file(&c), &about), 0);
  accel__cache_prune(&c, 0, NULL, NULL);
  c.limit = (uint64_t)about.st_size - 1;
  assert_null(open_store(&c));
  assert_int_equal(count(&c), 0);
  assert_false(accel__cache_takes(&c, c.limit + 1, why, sizeof why));
  assert_non_null(strstr(why, "--cache-limit"));
  assert_true(accel__cache_takes(&c, c.limit, why, sizeof why));
  c.limit++;
  assert_true(finish(&c));
  assert_true(accel__cache_put(&c, "other", "", &(accel_plugin_part){"x", 1}, 1));
  assert_int_equal(count(&c), 1); /* it had to go */
  c.limit = UINT64_C(1) << 62;
  assert_false(accel__cache_takes(&c, UINT64_C(1) << 61, why, sizeof why));
  assert_non_null(strstr(why, "the disk"));
  const accel__cache nowhere = {0}, proc = {.directory = "/proc/nothing/packed"};
  assert_false(accel__cache_takes(&nowhere, 1, why, sizeof why));
  assert_false(accel__cache_takes(&proc, 1, why, sizeof why));
  assert_null(open_store(&nowhere));
  assert_null(open_store(&proc));
  free((char *)c.directory);
}

/* As a user who is not root: a whole entry is read, and nothing is written. */
static void read_only_places_are_read(void **state) {
  (void)state;
  accel__cache c = fresh("readonly"), other = fresh("readonly/none");
  whole_entry(&c);
  assert_int_equal(chmod(temp_directory(), 0755), 0);
  assert_int_equal(chmod(only_file(&c), 0444), 0);
  assert_int_equal(chmod(c.directory, 0555), 0);
  const pid_t pid = fork();
  if (!pid) {
    char why[256];
    if (!geteuid() && setuid(65534)) _exit(9);
    accel__cache_store *s = open_store(&c);
    int bad = !s;
    for (uint32_t i = 0; i < N && s; i++) bad |= right(s, i) != 1;
    if (s) bad |= put_in(s, 0) || right(s, 1) != 1;
    accel__cache_store_close(&s);
    bad |= open_many(&c) != NULL || open_store(&other) != NULL;
    bad |= accel__cache_takes(&c, 1, why, sizeof why) ||
           accel__cache_takes(&other, 1, why, sizeof why) || !strstr(why, "cannot be written");
    _exit(bad);
  }
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  assert_int_equal(chmod(c.directory, 0755), 0);
  free((char *)c.directory);
  free((char *)other.directory);
}

static void parts_are_listed_and_go(void **state) {
  (void)state;
  accel__cache c = fresh("listed");
  accel__arena arena = {0};
  accel__cache_entry *e;
  uint32_t n;
  accel__cache_store *s = open_store(&c);
  assert_true(put_in(s, 3));
  accel__cache_store_close(&s);
  assert_int_equal(accel__cache_list(&c, &arena, &e, &n), ACCEL_OK);
  assert_int_equal(n, 1);
  assert_string_equal(e[0].label, "a model (1 of 5 segments so far)");
  accel__arena_free(&arena);
  assert_int_equal(accel__cache_prune(&c, UINT64_MAX, NULL, NULL), ACCEL_OK);
  assert_int_equal(count(&c), 1); /* somebody may go on with it */
  struct timespec old[2] = {{.tv_sec = time(NULL) - 2 * 86400}, {.tv_sec = time(NULL) - 2 * 86400}};
  assert_int_equal(utimensat(AT_FDCWD, only_file(&c), old, 0), 0);
  assert_int_equal(accel__cache_prune(&c, UINT64_MAX, NULL, NULL), ACCEL_OK);
  assert_int_equal(count(&c), 0);
  free((char *)c.directory);
}

/* ---- streams over an entry ---- */

static accel__source *no_weights(void) {
  accel__source *source;
  const accel__source_from from = {.seed = 1};
  assert_int_equal(accel__source_new(NULL, 0, &from, NULL, &source), ACCEL_OK);
  return source;
}

static accel__row_stream *stream_of(const accel__source *source, accel__cache_store *store) {
  accel__row_stream *stream;
  assert_int_equal(accel__row_stream_open(source, 2, sizes[N - 1], &stream), ACCEL_OK);
  assert_int_equal(accel__row_stream_store(stream, store), ACCEL_OK);
  return stream;
}

/* Segment i by way of slot `slot`; the status, and its bytes are right when that is ACCEL_OK. */
static accel_status streams(accel__row_stream *stream, uint32_t slot, uint32_t i) {
  accel_plugin_rows got;
  assert_int_equal(accel__row_stream_post_segment(stream, slot, i), ACCEL_OK);
  const accel_status status = accel__row_stream_wait(stream, slot, &got);
  if (status == ACCEL_OK) {
    uint8_t *wanted = bytes_of(i, sizes[i]);
    assert_int_equal(got.dtype, ACCEL_PLUGIN_NO_DTYPE);
    assert_int_equal((uintptr_t)got.data % 4096, 0);
    assert_memory_equal(got.data, wanted, sizes[i]);
    free(wanted);
  }
  accel__row_stream_release(stream, slot);
  return status;
}

static void entries_are_streamed(void **state) {
  (void)state;
  accel__cache c = fresh("streamed");
  accel__source *source = no_weights();
  accel__cache_store *s = open_store(&c);
  accel__cache_store_bypass(s);
  for (uint32_t i = 0; i < N; i++) assert_true(put_in(s, i));
  assert_false(accel__cache_has(&c, key));
  assert_true(accel__cache_store_commit(s));
  assert_true(accel__cache_has(&c, key));
  assert_string_equal(accel__cache_store_path(s), only_file(&c));
  accel__row_stream *stream = stream_of(source, s);
  for (uint32_t round = 0; round < 2; round++)
    for (uint32_t i = 0; i < N; i++)
      if (sizes[i]) assert_int_equal(streams(stream, i % 2, i), ACCEL_OK);
  assert_int_equal(accel__row_stream_post_segment(stream, 0, N), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel__row_stream_store(stream, open_store(&c)), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel__cache_prune(&c, 0, NULL, NULL), ACCEL_OK); /* it is open */
  assert_true(accel__cache_has(&c, key));
  accel__row_stream_close(&stream);
  accel__source_free(&source);
  free((char *)c.directory);
}

/* What is damaged before its first reading is seen, too, and is missing from then on. */
static void damage_is_seen_by_streams(void **state) {
  (void)state;
  accel__cache c = fresh("damaged stream");
  accel__source *source = no_weights();
  accel__cache_segment at;
  accel__cache_store *s = open_store(&c);
  for (uint32_t i = 0; i < N; i++) assert_true(put_in(s, i));
  assert_true(accel__cache_store_commit(s));
  assert_false(accel__cache_store_recheck(s, 3));
  accel__cache_store_segment(s, 3, &at);
  flip(only_file(&c), (off_t)at.offset + 7);
  accel__row_stream *stream = stream_of(source, s);
  assert_int_equal(streams(stream, 0, 0), ACCEL_OK);
  assert_int_equal(streams(stream, 0, 3), ACCEL_ERROR_IO);
  assert_non_null(strstr(accel__message(), "segment 3 is damaged: load the model again"));
  accel__row_stream_close(&stream);
  assert_false(accel__cache_has(&c, key));
  s = open_store(&c);
  assert_false(accel__cache_store_has(s, 3));
  assert_true(put_in(s, 3) && accel__cache_store_commit(s));
  stream = stream_of(source, s);
  assert_int_equal(streams(stream, 0, 3), ACCEL_OK);
  accel__row_stream_close(&stream);
  accel__source_free(&source);
  free((char *)c.directory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(segments_come_in_any_order),
      cmocka_unit_test(segments_are_ranges_of_the_file),
      cmocka_unit_test(damage_costs_its_segment_alone),
      cmocka_unit_test(torn_records_are_missing_segments),
      cmocka_unit_test(other_files_are_begun_anew),
      cmocka_unit_test(other_versions_are_misses_and_go),
      cmocka_unit_test(the_second_writer_goes_without),
      cmocka_unit_test(processes_share_an_entry),
      cmocka_unit_test(killed_writers_are_continued),
      cmocka_unit_test(a_full_disk_leaves_nothing),
      cmocka_unit_test(limits_hold),
      cmocka_unit_test(read_only_places_are_read),
      cmocka_unit_test(parts_are_listed_and_go),
      cmocka_unit_test(entries_are_streamed),
      cmocka_unit_test(damage_is_seen_by_streams),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
