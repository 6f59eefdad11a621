/* weights_memory_test.c - peak memory while weights are loaded at every precision, measured in a
 * fresh process each: what the plugin keeps, plus the largest weight in its own format, plus 20 MB.
 * Read, mapped, and under an address space limit (RLIMIT_AS) below the checkpoint's size the same
 * bytes are kept.
 *
 * The checkpoint of 200 MB is made in the temporary directory.  This program runs itself as `TEST
 * child CHECKPOINT FORMAT WAY`.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "core/config.h"
#include "core/text.h"
#include "unit/temp.h"
#include "weights/source.h"

#define MIB ((uint64_t)1 << 20)
/* 64 MiB, and 34 of 4 MiB */
enum { LARGE = 16384, COLUMNS = 1024, BLOCKS = 34, WEIGHTS = BLOCKS + 1, SLACK_MIB = 20 };
#define DTYPE(x) ACCEL_PLUGIN_##x
#define FORMAT(store, scale, zero, k, n) \
  { DTYPE(store), DTYPE(scale), DTYPE(zero), DTYPE(NO_DTYPE), k, n }
static const struct {
  const char *name;
  accel_plugin_format format;
} precisions[] = {{"fp32", FORMAT(F32, NO_DTYPE, NO_DTYPE, 0, 0)},
                  {"fp16", FORMAT(F16, NO_DTYPE, NO_DTYPE, 0, 0)},
                  {"bf16", FORMAT(BF16, NO_DTYPE, NO_DTYPE, 0, 0)},
                  {"int8", FORMAT(I8, F32, NO_DTYPE, 0, 1)},
                  {"fp8", FORMAT(E4M3, F32, NO_DTYPE, 0, 1)},
                  {"int4", FORMAT(I4, F16, NO_DTYPE, 32, 1)},
                  {"uint4", FORMAT(U4, F16, U8, 32, 1)},
                  {"fp4", FORMAT(E2M1, E8M0, NO_DTYPE, 32, 1)},
                  {"tensor", FORMAT(E4M3, F32, NO_DTYPE, 0, 0)}};
enum { PRECISIONS = sizeof precisions / sizeof *precisions };

/* The largest comes last, when most is kept already. */
static int rows_of(int i) { return i == WEIGHTS - 1 ? LARGE : COLUMNS; }

/* ---- the child ---- */

static uint64_t status_kib(const char *key) {
  char line[200];
  unsigned long found = 0;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(line, sizeof line, f))
    if (!strncmp(line, key, strlen(key))) sscanf(line + strlen(key), " %lu", &found);
  if (f) fclose(f);
  return found;
}

typedef enum way { FREE, MAPPED, LIMITED } way;
/* of address space, above what a fresh process has: too little for the 200 MiB of the checkpoint */
enum { LIMIT_MIB = 100 };

/* From now on this process may take so much more; false: the system refuses. */
static bool limit_address_space(uint64_t more) {
  const rlim_t limit = status_kib("VmSize:") * 1024 + more * MIB;
  return setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit}) == 0;
}

/* As a plugin loads: borrows a weight, copies what it keeps, unmaps.  Prints "kept largest grown" in
 * bytes, and a hash of what is kept. */
static int child(const char *path, const accel_plugin_format *format, way how) {
  static char names[WEIGHTS][16];
  accel__source_weight w[WEIGHTS] = {{.name = NULL}};
  accel_plugin_format formats[WEIGHTS];
  accel__checkpoint *c = NULL;
  accel__pool *pool;
  accel__source *s;
  uint64_t kept = 0, largest = 0, hash = 0;
  for (int i = 0; i < WEIGHTS; i++) {
    snprintf(names[i], sizeof names[i], "w%d", i);
    w[i] = (accel__source_weight){.name = names[i], .rank = 2, .dim = {rows_of(i), COLUMNS}};
    formats[i] = *format;
  }
  if (accel__pool_create_exactly(2, &pool) != ACCEL_OK) return 11;
  if (how == LIMITED && !limit_address_space(LIMIT_MIB)) return 15;
  if (strcmp(path, "random") != 0 && accel__checkpoint_open(path, &c) != ACCEL_OK) return 10;
  if (how == MAPPED && accel__checkpoint_map(c) != ACCEL_OK) return 16;
  const uint64_t before = status_kib("VmRSS:");
  if (accel__source_new(w, WEIGHTS, &(accel__source_from){.checkpoint = c, .pool = pool}, formats,
                        &s) != ACCEL_OK)
    return 12;
  for (uint32_t i = 0; i < WEIGHTS; i++) {
    accel_matrix_bytes bytes;
    accel_plugin_weight_view view;
    if (accel__source_borrow(s, i, &view) != ACCEL_OK ||
        !accel_matrix_sizes(format, w[i].dim[0], COLUMNS, &bytes))
      return 13;
    const uint64_t all = bytes.data + bytes.scale + bytes.zero;
    char *copy = malloc(all);
    if (!copy) return 14;
    memcpy(copy, view.data, bytes.data);
    if (bytes.scale) memcpy(copy + bytes.data, view.scale, bytes.scale);
    if (bytes.zero) memcpy(copy + bytes.data + bytes.scale, view.zero, bytes.zero);
    accel__source_unmap(s, i);
    hash = accel__hash(copy, all, hash);
    kept += all;
    if (all > largest) largest = all;
  }
  printf("%llu %llu %llu %llu\n", (unsigned long long)kept, (unsigned long long)largest,
         (unsigned long long)(status_kib("VmHWM:") - before) * 1024, (unsigned long long)hash);
  return 0; /* the copies stay to the end: they are what a plugin keeps */
}

/* ---- the parent ---- */

extern char **environ;
static char self[512];

static void write_checkpoint(const char *path) {
  char header[8192] = "{";
  size_t n = 1;
  uint64_t at = 0, seed = 1;
  for (int i = 0; i < WEIGHTS; i++) {
    const uint64_t bytes = (uint64_t)rows_of(i) * COLUMNS * 4;
    n += (size_t)snprintf(
        header + n, sizeof header - n,
        "%s\"w%d\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[%llu,%llu]}",
        i ? "," : "", i, rows_of(i), COLUMNS, (unsigned long long)at,
        (unsigned long long)(at + bytes));
    at += bytes;
  }
  header[n++] = '}';
  while (n % 8) header[n++] = ' ';
  static float row[COLUMNS];
  const uint64_t length = n;
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_true(fwrite(&length, 8, 1, f) == 1 && fwrite(header, n, 1, f) == 1);
  for (uint64_t r = 0; r < at / sizeof row; r++) {
    for (int i = 0; i < COLUMNS; i++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      row[i] = ((float)(seed >> 40) * 0x1p-23f - 1.0f) * 0.03f;
    }
    assert_int_equal(fwrite(row, sizeof row, 1, f), 1);
  }
  assert_int_equal(fclose(f), 0);
}

/* Returns the hash of what was kept. */
static uint64_t load(const char *path, int precision, way how) {
  static const char *const ways[] = {"file", "mapped", "limit"};
  char number[8], way_number[8], *argv[] = {self, "child", (char *)path, number, way_number, NULL};
  unsigned long long kept, largest, grown, hash;
  posix_spawn_file_actions_t actions;
  int ends[2], status = 0;
  pid_t pid;
  snprintf(number, sizeof number, "%d", precision);
  snprintf(way_number, sizeof way_number, "%d", (int)how);
  assert_int_equal(pipe(ends), 0);
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  assert_int_equal(posix_spawn(&pid, self, &actions, NULL, argv, environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  FILE *f = fdopen(ends[0], "r");
  assert_non_null(f);
  const int found = fscanf(f, "%llu %llu %llu %llu", &kept, &largest, &grown, &hash);
  fclose(f);
  waitpid(pid, &status, 0);
  if (found != 4 || status != 0)
    fail_msg("%s: child ended with %d", precisions[precision].name, status);
  print_message("%-6s %-6s kept %6.1f MiB, largest %5.1f, peak above the start %6.1f\n",
                precisions[precision].name, strcmp(path, "random") ? ways[how] : path,
                (double)kept / (double)MIB, (double)largest / (double)MIB,
                (double)grown / (double)MIB);
  assert_true(grown > kept / 2); /* it was measured */
  if (grown > kept + largest + SLACK_MIB * MIB)
    fail_msg("%s: too much memory while loading", precisions[precision].name);
  return hash;
}

static void every_precision_loads_in_little_memory(void **state) {
  (void)state;
#if ACCEL_SANITIZER
  skip(); /* shadow memory would be measured */
#endif
  const char *path = temp_path("large.safetensors");
  write_checkpoint(path);
  for (int i = 0; i < PRECISIONS; i++) {
    const uint64_t hash = load(path, i, FREE);
    if (precisions[i].format.store == ACCEL_PLUGIN_F32) /* as it is stored */
      assert_true(load(path, i, MAPPED) == hash);
    if (precisions[i].format.store != ACCEL_PLUGIN_F32 && /* what is kept has room */
        precisions[i].format.store != ACCEL_PLUGIN_F16 &&
        precisions[i].format.store != ACCEL_PLUGIN_BF16)
      assert_true(load(path, i, LIMITED) == hash);
  }
}

static void random_weights_too(void **state) {
  (void)state;
#if ACCEL_SANITIZER
  skip();
#endif
  load("random", 0, FREE);
  load("random", 5, FREE);
}

int main(int argc, char **argv) {
  if (argc == 5 && !strcmp(argv[1], "child"))
    return child(argv[2], &precisions[atoi(argv[3]) % PRECISIONS].format, (way)atoi(argv[4]));
  if (!realpath(argv[0], self)) return 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_precision_loads_in_little_memory),
                                     cmocka_unit_test(random_weights_too)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
