/* weights_cache_test.c - the store of packed weights: what it keeps, what it drops, and that no
 * damage passes for data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/config.h"
#include "core/file.h"
#include "dispatch/endpoint.h"
#include "unit/cached.h"
#include "unit/test_endpoint.h"
#include "weights/checksum.h"

static bool put(const accel__cache *c, const char *key, uint64_t seed, uint64_t n) {
  uint8_t *b = bytes_of(seed, n);
  bool kept = accel__cache_put(c, key, "a label", &(accel_plugin_part){b, n}, 1);
  free(b);
  return kept;
}

/* 1: there and right; 0: a miss; -1: wrong bytes handed out. */
static int holds(const accel__cache *c, const char *key, uint64_t seed, uint64_t n) {
  uint64_t size = 0;
  if (!accel__cache_size(c, key, &size)) return 0;
  if (size != n) return -1;
  uint8_t *got = malloc(n + 1), *wanted = bytes_of(seed, n);
  int answer = accel__cache_get(c, key, got, n) ? (memcmp(got, wanted, n) ? -1 : 1) : 0;
  free(got);
  free(wanted);
  return answer;
}

static void what_is_put_comes_back(void **state) {
  (void)state;
  const uint64_t sizes[] = {0, 1, 63, 64, 65, 4096, (1 << 20) - 1, (1 << 20) + 1, 3000000};
  accel__cache c = fresh("round");
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    char key[64];
    snprintf(key, sizeof key, "key %zu", i);
    assert_int_equal(holds(&c, key, i, sizes[i]), 0);
    assert_true(put(&c, key, i, sizes[i]));
    assert_int_equal(holds(&c, key, i, sizes[i]), 1);
  }
  assert_true(put(&c, "key 3", 99, 500)); /* again: replaced */
  assert_int_equal(holds(&c, "key 3", 99, 500), 1);
  assert_int_equal(holds(&c, "key 4", 4, 65), 1);
  free((char *)c.directory);
}

static void parts_are_joined(void **state) {
  (void)state;
  accel__cache c = fresh("parts");
  enum { N = 300000 };
  uint8_t *all = bytes_of(5, N), *got = malloc(N);
  const uint64_t cut[] = {0, 1, 64, 100, 100, 4097, 200000, N};
  accel_plugin_part part[7];
  for (int i = 0; i < 7; i++) part[i] = (accel_plugin_part){all + cut[i], cut[i + 1] - cut[i]};
  assert_true(accel__cache_put(&c, "k", "", part, 7));
  assert_true(accel__cache_get(&c, "k", got, N));
  assert_memory_equal(got, all, N);
  /* another size than the entry's: a miss, and gone */
  assert_false(accel__cache_get(&c, "k", got, N - 1));
  assert_int_equal(count(&c), 0);
  free(all);
  free(got);
  free((char *)c.directory);
}

static void the_checksum_sees_every_change(void **state) {
  (void)state;
  enum { N = 64 * 5 + 13 };
  uint8_t b[N];
  accel__checksum s, parts;
  for (int i = 0; i < N; i++) b[i] = byte_of(1, (uint64_t)i);
  accel__checksum_begin(&s);
  accel__checksum_add(&s, b, N);
  uint64_t right = accel__checksum_end(&s);
  for (int bit = 0; bit < 8 * N; bit++) {
    b[bit / 8] ^= (uint8_t)(1 << bit % 8);
    accel__checksum_begin(&s);
    accel__checksum_add(&s, b, N);
    assert_true(accel__checksum_end(&s) != right);
    b[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  for (uint64_t step = 1; step < 150; step++) { /* however it is cut */
    accel__checksum_begin(&parts);
    for (uint64_t at = 0; at < N; at += step)
      accel__checksum_add(&parts, b + at, N - at < step ? N - at : step);
    assert_true(accel__checksum_end(&parts) == right);
  }
  accel__checksum_begin(&s); /* trailing zeros count */
  accel__checksum_add(&s, b, N);
  accel__checksum_add(&s, (uint8_t[1]){0}, 1);
  assert_true(accel__checksum_end(&s) != right);
}

static void damage_is_a_miss_and_goes(void **state) {
  (void)state;
  enum { N = 20000 };
  accel__cache c = fresh("damage");
  assert_true(put(&c, "key", 1, N));
  struct stat about;
  assert_int_equal(stat(only_file(&c), &about), 0);
  for (off_t at = 0; at < about.st_size; at += at < 200 ? 1 : 997) {
    /* between header, key and label, the record at 64 and the bytes at 4096 nothing is there */
    bool gap = (at >= 48 + 3 + 7 && at < 64) || (at >= 64 + 32 && at < 4096);
    assert_true(put(&c, "key", 1, N));
    flip(only_file(&c), at);
    int got = holds(&c, "key", 1, N);
    assert_int_equal(got, gap);
    if (!got) assert_int_equal(count(&c), 0);
  }
  for (off_t cut = 0; cut < about.st_size; cut += 777) {
    assert_true(put(&c, "key", 1, N));
    assert_int_equal(truncate(only_file(&c), cut), 0);
    assert_int_equal(holds(&c, "key", 1, N), 0);
    assert_int_equal(count(&c), 0);
  }
  assert_true(put(&c, "key", 1, N)); /* longer than it says */
  assert_int_equal(truncate(only_file(&c), about.st_size + 1), 0);
  assert_int_equal(holds(&c, "key", 1, N), 0);
  free((char *)c.directory);
}

static void foreign_files_are_misses(void **state) {
  (void)state;
  accel__cache c = fresh("foreign");
  assert_true(put(&c, "key", 1, 100));
  char path[1024];
  snprintf(path, sizeof path, "%s", only_file(&c));
  FILE *f = fopen(path, "wb");
  fputs("this is a letter to my aunt", f);
  fclose(f);
  assert_int_equal(holds(&c, "key", 1, 100), 0);
  assert_int_equal(access(path, F_OK), -1);
  assert_int_equal(symlink("/etc/passwd", path), 0);
  assert_int_equal(holds(&c, "key", 1, 100), 0);
  assert_int_equal(access("/etc/passwd", F_OK), 0);
  assert_true(put(&c, "key", 1, 100));
  assert_int_equal(unlink(path), 0);
  /* a directory in its place: neither read nor removed nor replaced */
  assert_int_equal(mkdir(path, 0700), 0);
  assert_int_equal(holds(&c, "key", 1, 100), 0);
  assert_false(put(&c, "key", 1, 100));
  assert_int_equal(count(&c), 0);
  assert_int_equal(rmdir(path), 0);
  assert_int_equal(mkfifo(path, 0600), 0); /* does not block */
  assert_int_equal(holds(&c, "key", 1, 100), 0);
  free((char *)c.directory);
}

static void another_key_of_the_same_name_is_a_miss(void **state) {
  (void)state;
  accel__cache c = fresh("collision");
  char a[1024], b[1024];
  assert_true(put(&c, "one", 1, 100));
  snprintf(a, sizeof a, "%s", only_file(&c));
  assert_int_equal(unlink(a), 0);
  assert_true(put(&c, "two", 2, 100));
  snprintf(b, sizeof b, "%s", only_file(&c));
  assert_int_equal(rename(b, a), 0);
  assert_int_equal(holds(&c, "one", 1, 100), 0);
  free((char *)c.directory);
}

static void places_that_cannot_be_written_cost_nothing(void **state) {
  (void)state;
  const char *file = temp_text("plain", "x");
  char inside[600];
  snprintf(inside, sizeof inside, "%s/packed", file);
  accel__cache bad[] = {
      {.directory = NULL}, {.directory = inside}, {.directory = "/proc/nothing/packed"}};
  for (int i = 0; i < 3; i++) {
    assert_false(put(&bad[i], "key", 1, 100));
    assert_int_equal(holds(&bad[i], "key", 1, 100), 0);
    assert_int_equal(count(&bad[i]), 0);
    assert_int_equal(accel__cache_prune(&bad[i], 0, NULL, NULL), ACCEL_OK);
  }
  if (!geteuid()) return; /* permissions do not hold root */
  accel__cache c = fresh("readonly");
  assert_true(put(&c, "key", 1, 100));
  assert_int_equal(chmod(c.directory, 0500), 0);
  assert_false(put(&c, "other", 1, 100));
  assert_int_equal(holds(&c, "key", 1, 100), 1);
  assert_int_equal(chmod(c.directory, 0700), 0);
  assert_int_equal(chmod(only_file(&c), 0), 0);
  assert_int_equal(holds(&c, "key", 1, 100), 0);
  assert_int_equal(count(&c), 0);
  free((char *)c.directory);
}

static void faults(void **state) {
  (void)state;
  accel__cache c = fresh("faults");
  for (int at = 1; at < 5; at++) {
    char point[32];
    snprintf(point, sizeof point, "disk_full:%d", at);
    accel__fault_arm(point);
    bool kept = put(&c, "key", 1, 5000);
    accel__fault_arm(NULL);
    assert_int_equal(kept, at > 3); /* header and texts, bytes, record */
    assert_int_equal(holds(&c, "key", 1, 5000), kept);
    assert_int_equal(count(&c), kept); /* no temporary file stays */
  }
  accel__fault_arm("read_short");
  assert_int_equal(holds(&c, "key", 1, 5000), 0);
  accel__fault_arm(NULL);
  assert_int_equal(count(&c), 0);
  free((char *)c.directory);
}

/* of the entry put last */
static void age(const accel__cache *c, const char *key, int64_t seconds) {
  accel__arena arena = {0};
  accel__cache_entry *e;
  uint32_t n;
  char path[1024];
  (void)key;
  assert_int_equal(accel__cache_list(c, &arena, &e, &n), ACCEL_OK);
  snprintf(path, sizeof path, "%s/%s", c->directory, e[0].file);
  struct timespec times[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};
  assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
  accel__arena_free(&arena);
}

static void the_limit_drops_what_was_used_longest_ago(void **state) {
  (void)state;
  accel__cache c = fresh("limit");
  c.limit = 4 * (100000 + 4096) + 10;
  const char *keys[] = {"a", "b", "c", "d"};
  for (int i = 0; i < 4; i++) {
    assert_true(put(&c, keys[i], (uint64_t)i, 100000));
    age(&c, keys[i], 1000 - i * 100);
  }
  assert_int_equal(count(&c), 4);
  assert_int_equal(holds(&c, "a", 0, 100000), 1); /* used: now the newest */
  assert_true(put(&c, "e", 4, 100000));
  assert_int_equal(holds(&c, "b", 1, 100000), 0);
  assert_int_equal(holds(&c, "a", 0, 100000), 1);
  assert_int_equal(holds(&c, "c", 2, 100000), 1);
  assert_false(put(&c, "huge", 1, 500000)); /* larger than all there may be: the others stay */
  assert_int_equal(count(&c), 4);
  uint32_t n;
  uint64_t bytes;
  assert_int_equal(accel__cache_prune(&c, 250000, &n, &bytes), ACCEL_OK);
  assert_int_equal(n, 2);
  assert_int_equal(bytes, 2 * (100000 + 4096));
  assert_int_equal(accel__cache_prune(&c, 0, &n, &bytes), ACCEL_OK);
  assert_int_equal(n, 2);
  assert_int_equal(count(&c), 0);
  free((char *)c.directory);
}

static void leftovers_go(void **state) {
  (void)state;
  accel__cache c = fresh("leftovers");
  assert_true(put(&c, "a", 1, 100));
  char path[1024];
  snprintf(path, sizeof path, "%s/1-0.packed.tmp", c.directory);
  FILE *f = fopen(path, "wb");
  fputs("half", f);
  fclose(f);
  snprintf(path, sizeof path, "%s/notes.txt", c.directory);
  fclose(fopen(path, "wb"));
  assert_int_equal(count(&c), 2);
  assert_int_equal(accel__cache_prune(&c, UINT64_MAX, NULL, NULL), ACCEL_OK);
  assert_int_equal(count(&c), 2); /* somebody may be writing it */
  snprintf(path, sizeof path, "%s/1-0.packed.tmp", c.directory);
  struct timespec old[2] = {{.tv_sec = time(NULL) - 7200}, {.tv_sec = time(NULL) - 7200}};
  assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
  assert_int_equal(accel__cache_prune(&c, UINT64_MAX, NULL, NULL), ACCEL_OK);
  assert_int_equal(count(&c), 1);
  assert_int_equal(accel__cache_prune(&c, 0, NULL, NULL), ACCEL_OK);
  snprintf(path, sizeof path, "%s/notes.txt", c.directory);
  assert_int_equal(access(path, F_OK), 0); /* not ours */
  free((char *)c.directory);
}

/* Four processes write and read the same three keys: every read is a miss or right. */
static void processes_share_a_directory(void **state) {
  (void)state;
  accel__cache c = fresh("shared");
  pid_t child[4];
  for (int p = 0; p < 4; p++) {
    child[p] = fork();
    assert_true(child[p] >= 0);
    if (child[p]) continue;
    int bad = 0;
    for (int i = 0; i < 60; i++) {
      uint64_t k = (uint64_t)(i + p) % 3;
      char key[2] = {(char)('a' + k), 0};
      if (i % 3 == 0) put(&c, key, k, 200000 + k);
      if (i % 20 == 19) accel__cache_prune(&c, 250000, NULL, NULL);
      bad |= holds(&c, key, k, 200000 + k) < 0;
    }
    _exit(bad);
  }
  for (int p = 0; p < 4; p++) {
    int status;
    assert_int_equal(waitpid(child[p], &status, 0), child[p]);
    assert_int_equal(status, 0);
  }
  free((char *)c.directory);
}

/* ---- as plugins are served ---- */

static accel *context_with(const char *directory, bool off) {
  accel_params params = test_params();
  accel *ctx;
  params.cache_directory = directory;
  params.no_cache = off;
  assert_ok(accel_create(&params, &ctx));
  return ctx;
}

static bool serves(accel *ctx, const accel_init_params *how, const char *put_text, char got[16]) {
  accel_endpoint *ep;
  assert_ok(accel_init(ctx, TINY_BERT, how, &ep));
  char key[64];
  uint64_t n = 0;
  memset(got, 0, 16);
  snprintf(key, sizeof key, "%016llx",
           (unsigned long long)accel__program_view(ep->model->program)->hash);
  const bool caches = ep->host.cache_get && ep->host.cache_put;
  bool found = caches && !ep->host.cache_get(ep->host.self, key, NULL, &n) && n < 16 &&
               !ep->host.cache_get(ep->host.self, key, got, &n);
  if (caches && put_text)
    ep->host.cache_put(ep->host.self, key, &(accel_plugin_part){put_text, strlen(put_text)}, 1);
  accel_cleanup(&ep);
  return found;
}

static void plugins_are_served(void **state) {
  (void)state;
  char got[16], root[512];
  snprintf(root, sizeof root, "%s", temp_path("served"));
  accel_init_params how = accel_init_params_default();
  how.device = "reference";
  accel *ctx = context_with(root, false);
  assert_false(serves(ctx, &how, "packed", got));
  assert_true(serves(ctx, &how, NULL, got));
  assert_string_equal(got, "packed");
  how.random_weights = 1; /* other weights of the same program: another key */
  assert_false(serves(ctx, &how, "random 0", got));
  how.seed = 1;
  assert_false(serves(ctx, &how, "random 1", got));
  how.seed = 0;
  assert_true(serves(ctx, &how, NULL, got));
  assert_string_equal(got, "random 0");
  accel_destroy(&ctx);
  ctx = context_with(root, true);
  assert_false(serves(ctx, &how, "nowhere", got));
  assert_false(serves(ctx, &how, NULL, got));
  accel_destroy(&ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_put_comes_back),
      cmocka_unit_test(parts_are_joined),
      cmocka_unit_test(the_checksum_sees_every_change),
      cmocka_unit_test(damage_is_a_miss_and_goes),
      cmocka_unit_test(foreign_files_are_misses),
      cmocka_unit_test(another_key_of_the_same_name_is_a_miss),
      cmocka_unit_test(places_that_cannot_be_written_cost_nothing),
      cmocka_unit_test(faults),
      cmocka_unit_test(the_limit_drops_what_was_used_longest_ago),
      cmocka_unit_test(leftovers_go),
      cmocka_unit_test(processes_share_a_directory),
      cmocka_unit_test(plugins_are_served),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
