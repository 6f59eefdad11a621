/* core_file_test.c - mapping, reading, atomic writing, directories, the environment and fault
 * points. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

#include "core/config.h"
#include "core/file.h"
#include "core/text.h"
#include "unit/temp.h"

static char message[2048];
static const char *says(const char *path, const char *rest) {
  snprintf(message, sizeof message, "%s%s", path, rest);
  return message;
}

/* Runs `body` in a child that is no superuser, for whom permissions mean nothing; its exit
 * status. */
static int as_nobody(int (*body)(void)) {
  pid_t child = fork();
  if (!child) {
    if (geteuid() == 0 && (setegid(65534) || seteuid(65534))) _exit(99);
    _exit(body());
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- mapping ---- */

static void test_map(void **state) {
  (void)state;
  accel__mapping m;
  char *path = temp_file("data", "some\0bytes", 10);
  assert_int_equal(accel__file_map(path, &m), ACCEL_OK);
  assert_int_equal(m.n, 10);
  assert_memory_equal(m.data, "some\0bytes", 10);
  assert_string_equal(m.path, path);
  accel__file_unmap(&m);
  assert_null(m.data);
  assert_null(m.path);
  accel__file_unmap(&m);
  assert_int_equal(accel__file_map(temp_text("nothing", ""), &m), ACCEL_OK);
  assert_null(m.data);
  assert_int_equal(m.n, 0);
  accel__file_unmap(&m);
}

static void test_map_refused(void **state) {
  (void)state;
  accel__mapping m;
  char *path = temp_path("absent");
  assert_int_equal(accel__file_map(path, &m), ACCEL_ERROR_NOT_FOUND);
  assert_string_equal(accel__message(), says(path, ": cannot open: No such file or directory"));
  assert_null(m.path);
  assert_int_equal(accel__file_map(temp_directory(), &m), ACCEL_ERROR_IO);
  assert_string_equal(accel__message(), says(temp_directory(), ": cannot read: Is a directory"));
  path = temp_path("fifo");
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_int_equal(accel__file_map(path, &m), ACCEL_ERROR_IO); /* and does not hang */
  assert_string_equal(accel__message(), says(path, ": not a regular file"));
  path = temp_text("whole", "0123456789");
  accel__fault_arm("allocation");
  assert_int_equal(accel__file_map(path, &m), ACCEL_ERROR_OUT_OF_MEMORY);
  accel__fault_arm("short_file");
  assert_int_equal(accel__file_map(path, &m), ACCEL_OK);
  accel__fault_arm(NULL);
  assert_int_equal(m.n, 5);
  accel__file_unmap(&m);
}

/* Read into memory: what somebody cuts off the file afterwards is still there. */
static void test_load(void **state) {
  (void)state;
  accel__mapping m;
  char *path = temp_file("loaded", "some\0bytes", 10);
  assert_int_equal(accel__file_load(path, &m), ACCEL_OK);
  assert_int_equal(truncate(path, 0), 0);
  assert_int_equal(m.n, 10);
  assert_memory_equal(m.data, "some\0bytes", 11);
  accel__file_unmap(&m);
  assert_null(m.data);
  assert_int_equal(accel__file_load(path, &m), ACCEL_OK);
  assert_int_equal(m.n, 0);
  accel__file_unmap(&m);
  assert_int_equal(accel__file_load(temp_path("absent"), &m), ACCEL_ERROR_NOT_FOUND);
  for (int at = 1; at <= 2; at++) {
    accel__fault_arm(at == 1 ? "allocation:1" : "allocation:2");
    assert_int_equal(accel__file_load(path, &m), ACCEL_ERROR_OUT_OF_MEMORY);
    accel__fault_arm(NULL);
    assert_null(m.data);
  }
  accel__fault_arm("read_error");
  assert_int_equal(accel__file_load(temp_text("whole", "0123456789"), &m), ACCEL_ERROR_IO);
  accel__fault_arm(NULL);
}

/* ---- reading and writing ---- */

static void test_read(void **state) {
  (void)state;
  char *bytes, *path = temp_file("r", "ab\0cd", 5);
  size_t n;
  assert_int_equal(accel__file_read(path, 5, &bytes, &n), ACCEL_OK);
  assert_int_equal(n, 5);
  assert_memory_equal(bytes, "ab\0cd", 6);
  free(bytes);
  assert_int_equal(accel__file_read(path, 4, &bytes, &n), ACCEL_ERROR_FORMAT);
  assert_string_equal(accel__message(),
                      says(path, ": 5 bytes, more than the 4 allowed for such a file"));
  assert_null(bytes);
  assert_int_equal(accel__file_read(temp_text("e", ""), 0, &bytes, &n), ACCEL_OK);
  assert_string_equal(bytes, "");
  free(bytes);
  /* says it has 0 bytes */
  assert_int_equal(accel__file_read("/proc/self/status", 1 << 20, &bytes, &n), ACCEL_OK);
  assert_true(n > 100 && strlen(bytes) == n && accel__starts_with(bytes, "Name:"));
  free(bytes);
  assert_int_equal(accel__file_read("/proc/self/status", 100, &bytes, &n), ACCEL_ERROR_FORMAT);
  assert_string_equal(accel__message(),
                      "/proc/self/status: larger than 100 bytes, the most allowed for such a file");
  assert_int_equal(accel__file_read("/dev/zero", 1000, &bytes, &n), ACCEL_ERROR_FORMAT);
  assert_int_equal(accel__file_read(temp_path("no/such"), 10, &bytes, &n), ACCEL_ERROR_NOT_FOUND);
  assert_int_equal(accel__file_read("/proc/self/mem", 10, &bytes, &n), ACCEL_ERROR_IO);
  assert_string_equal(accel__message(), "/proc/self/mem: cannot read: Input/output error");
  for (int i = 1; i <= 2; i++) {
    char point[32];
    snprintf(point, sizeof point, "allocation:%d", i);
    accel__fault_arm(point);
    assert_int_equal(accel__file_read("/proc/self/status", 1 << 20, &bytes, &n),
                     ACCEL_ERROR_OUT_OF_MEMORY);
    accel__fault_arm(NULL);
  }
}

static size_t files_in(const char *directory) {
  accel__arena arena = {0};
  char **names;
  size_t n;
  assert_int_equal(accel__list_directory(directory, &arena, &names, &n), ACCEL_OK);
  accel__arena_free(&arena);
  return n;
}

static void test_write(void **state) {
  (void)state;
  char *directory = temp_path("out"), path[600], *bytes;
  size_t n, large = 3 << 20;
  assert_int_equal(mkdir(directory, 0700), 0);
  snprintf(path, sizeof path, "%s/file", directory);
  assert_int_equal(accel__file_write(path, "first", 5), ACCEL_OK);
  char *zeros = calloc(1, large);
  assert_int_equal(accel__file_write(path, zeros, large), ACCEL_OK); /* replaces */
  assert_int_equal(accel__file_read(path, SIZE_MAX, &bytes, &n), ACCEL_OK);
  assert_int_equal(n, large);
  assert_memory_equal(bytes, zeros, n);
  free(bytes);
  free(zeros);
  assert_int_equal(accel__file_write(path, NULL, 0), ACCEL_OK);
  assert_int_equal(accel__file_read(path, 10, &bytes, &n), ACCEL_OK);
  assert_int_equal(n, 0);
  free(bytes);
  mode_t mask = umask(022);
  umask(mask);
  struct stat info;
  assert_int_equal(stat(path, &info), 0);
  assert_int_equal(info.st_mode & 0777, 0666 & ~mask); /* as any program's files */
  assert_int_equal(files_in(directory), 1);            /* nothing temporary is left */
}

static void test_write_refused(void **state) {
  (void)state;
  char *directory = temp_path("full"), path[600], *bytes;
  size_t n;
  assert_int_equal(mkdir(directory, 0700), 0);
  snprintf(path, sizeof path, "%s/file", directory);
  assert_int_equal(accel__file_write(path, "old", 3), ACCEL_OK);
  accel__fault_arm("disk_full");
  assert_int_equal(accel__file_write(path, "new", 3), ACCEL_ERROR_IO);
  accel__fault_arm("allocation");
  assert_int_equal(accel__file_write(path, "new", 3), ACCEL_ERROR_OUT_OF_MEMORY);
  accel__fault_arm("disk_full");
  assert_int_equal(accel__file_write(path, "new", 3), ACCEL_ERROR_IO);
  accel__fault_arm(NULL);
  assert_string_equal(accel__message(), says(path, ": cannot write: No space left on device"));
  snprintf(message, sizeof message, "free some space on the disk that holds %s", path);
  assert_string_equal(accel__remedy_text(), message);
  assert_int_equal(accel__file_read(path, 10, &bytes, &n), ACCEL_OK); /* the old file is whole */
  assert_string_equal(bytes, "old");
  free(bytes);
  assert_int_equal(files_in(directory), 1);
  /* a true full device, written in place */
  assert_int_equal(accel__file_write("/dev/full", "x", 1), ACCEL_ERROR_IO);
  assert_string_equal(accel__message(), "/dev/full: cannot write: No space left on device");
  assert_int_equal(accel__file_write("/dev/null", "x", 1), ACCEL_OK);
  struct stat info;
  assert_int_equal(stat("/dev/null", &info), 0);
  assert_true(S_ISCHR(info.st_mode)); /* still the device */
  assert_int_equal(accel__file_write(directory, "x", 1), ACCEL_ERROR_IO);
  assert_string_equal(accel__message(), says(directory, ": cannot write: Is a directory"));
  char *absent = temp_path("no/such/file");
  assert_int_equal(accel__file_write(absent, "x", 1), ACCEL_ERROR_NOT_FOUND);
  assert_string_equal(accel__message(), says(absent, ": cannot create: No such file or directory"));
}

static int without_permission(void) {
  accel__arena arena = {0};
  accel__mapping m;
  char **names, *bytes, remedy[700];
  size_t n;
  char *closed = temp_path("closed"), *inside = temp_path("closed/file");
  if (accel__file_write(inside, "x", 1) != ACCEL_ERROR_IO) return 1;
  if (strcmp(accel__message(), says(inside, ": cannot create: Permission denied"))) return 2;
  snprintf(remedy, sizeof remedy,
           "check the owner and permissions of %s and of the directories above it", inside);
  if (strcmp(accel__remedy_text(), remedy)) return 3;
  if (accel__list_directory(closed, &arena, &names, &n) != ACCEL_ERROR_IO) return 4;
  if (strcmp(accel__message(), says(closed, ": cannot list: Permission denied"))) return 5;
  if (accel__file_map(inside, &m) != ACCEL_ERROR_IO) return 6;
  if (accel__file_read(inside, 10, &bytes, &n) != ACCEL_ERROR_IO) return 7;
  if (strcmp(accel__message(), says(inside, ": cannot open: Permission denied"))) return 8;
  if (accel__make_directories(temp_path("closed/a/b")) != ACCEL_ERROR_IO) return 9;
  if (strcmp(accel__message(),
             says(temp_path("closed/a"), ": cannot create directory: Permission denied")))
    return 10;
  return accel__file_exists(inside) ? 11 : 0;
}

static void test_permissions(void **state) {
  (void)state;
  char *file = temp_text("closed/file", "secret"), *closed = temp_path("closed");
  assert_int_equal(chmod(temp_directory(), 0755), 0);
  assert_int_equal(chmod(file, 0600), 0);
  /* root's own directory is closed to nobody */
  assert_int_equal(chmod(closed, geteuid() ? 0000 : 0700), 0);
  int exit_status = as_nobody(without_permission);
  assert_int_equal(chmod(closed, 0700), 0);
  assert_int_equal(exit_status, 0);
}

/* ---- directories and paths ---- */

static void test_directories(void **state) {
  (void)state;
  accel__arena arena = {0};
  char **names, *path = temp_path("x/y/z");
  size_t n;
  assert_false(accel__is_directory(path));
  assert_int_equal(accel__make_directories(path), ACCEL_OK);
  assert_true(accel__is_directory(path));
  assert_int_equal(accel__make_directories(path), ACCEL_OK);
  char *doubled = temp_path("x//y/w/");
  assert_int_equal(accel__make_directories(doubled), ACCEL_OK);
  assert_true(accel__is_directory(doubled));
  assert_int_equal(accel__make_directories("/"), ACCEL_OK);
  struct stat info;
  assert_int_equal(stat(path, &info), 0);
  assert_int_equal(info.st_mode & 0777, 0700);
  temp_text("x/b", ""), temp_text("x/a", ""), temp_text("x/.c", ""), temp_text("x/file", "");
  assert_int_equal(accel__list_directory(temp_path("x"), &arena, &names, &n), ACCEL_OK);
  assert_int_equal(n, 5);
  static const char *const expected[] = {".c", "a", "b", "file", "y"};
  for (size_t i = 0; i < 5; i++) assert_string_equal(names[i], expected[i]);
  assert_int_equal(accel__list_directory(path, &arena, &names, &n), ACCEL_OK);
  assert_int_equal(n, 0);
  char *absent = temp_path("absent_directory");
  assert_int_equal(accel__list_directory(absent, &arena, &names, &n), ACCEL_ERROR_NOT_FOUND);
  assert_string_equal(accel__message(), says(absent, ": cannot list: No such file or directory"));
  char *blocked = temp_path("x/file/sub"), *file = temp_path("x/file");
  assert_int_equal(accel__make_directories(blocked), ACCEL_ERROR_IO);
  assert_string_equal(accel__message(), says(file, ": cannot create directory: Not a directory"));
  assert_true(accel__file_exists(file));
  assert_false(accel__file_exists(absent));
  assert_false(accel__is_directory(file));
  accel__arena_free(&arena);
}

static void test_many_names(void **state) {
  (void)state;
  accel__arena arena = {0};
  char **names, name[32];
  size_t n;
  for (int i = 0; i < 100; i++) {
    snprintf(name, sizeof name, "many/%03d", (i * 37) % 100);
    temp_text(name, "");
  }
  assert_int_equal(accel__list_directory(temp_path("many"), &arena, &names, &n), ACCEL_OK);
  assert_int_equal(n, 100);
  for (int i = 0; i < 100; i++) assert_int_equal(atoi(names[i]), i);
  accel__fault_arm("allocation:50");
  assert_int_equal(accel__list_directory(temp_path("many"), &arena, &names, &n),
                   ACCEL_ERROR_OUT_OF_MEMORY);
  accel__fault_arm(NULL);
  assert_int_equal(n, 0);
  accel__arena_free(&arena);
}

static void test_path_join(void **state) {
  (void)state;
  accel__arena arena = {0};
  assert_string_equal(accel__path_join(&arena, "a", "b"), "a/b");
  assert_string_equal(accel__path_join(&arena, "a/", "b/c"), "a/b/c");
  assert_string_equal(accel__path_join(&arena, "/", "b"), "/b");
  assert_string_equal(accel__path_join(&arena, "", "b"), "b");
  assert_string_equal(accel__path_join(&arena, "a", "/b"), "/b");
  accel__arena_free(&arena);
}

/* ---- environment ---- */

static void test_environment(void **state) {
  (void)state;
  unsetenv("ACCEL_DEVICE");
  assert_null(accel__env("ACCEL_DEVICE"));
  assert_null(accel__env_raw("ACCEL_DEVICE"));
  setenv("ACCEL_DEVICE", "", 1);
  assert_null(accel__env("ACCEL_DEVICE"));
  assert_string_equal(accel__env_raw("ACCEL_DEVICE"), "");
  setenv("ACCEL_DEVICE", "cpu", 1);
  assert_string_equal(accel__env("ACCEL_DEVICE"), "cpu");
  unsetenv("ACCEL_DEVICE");
  assert_true(accel__config_count > 15);
  for (size_t i = 0; i < accel__config_count; i++) {
    assert_true(strlen(accel__config_table[i].name) > 1 &&
                strlen(accel__config_table[i].sentence) > 10);
    for (size_t j = 0; j < i; j++)
      assert_string_not_equal(accel__config_table[i].name, accel__config_table[j].name);
  }
}

static void test_cache_directory(void **state) {
  (void)state;
  accel__arena arena = {0};
  char *path;
  setenv("ACCEL_CACHE_DIR", "/own", 1);
  setenv("XDG_CACHE_HOME", "/xdg/", 1);
  setenv("HOME", "/home/u", 1);
  assert_int_equal(accel__cache_directory(&arena, &path), ACCEL_OK);
  assert_string_equal(path, "/own");
  unsetenv("ACCEL_CACHE_DIR");
  assert_int_equal(accel__cache_directory(&arena, &path), ACCEL_OK);
  assert_string_equal(path, "/xdg/accel");
  setenv("XDG_CACHE_HOME", "relative", 1); /* the XDG rules say: ignore */
  assert_int_equal(accel__cache_directory(&arena, &path), ACCEL_OK);
  assert_string_equal(path, "/home/u/.cache/accel");
  accel__fault_arm("allocation");
  assert_int_equal(accel__cache_directory(&arena, &path), ACCEL_ERROR_OUT_OF_MEMORY);
  accel__fault_arm(NULL);
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  assert_int_equal(accel__cache_directory(&arena, &path), ACCEL_ERROR_NOT_FOUND);
  assert_string_equal(
      accel__message(),
      "no cache directory: none of ACCEL_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
  assert_string_equal(accel__remedy_text(),
                      "set ACCEL_CACHE_DIR to a directory that may be written");
  accel__arena_free(&arena);
}

/* ---- faults ---- */

static void test_faults(void **state) {
  (void)state;
  accel__fault_arm(NULL);
  assert_false(accel__fault("a"));
  accel__fault_arm("a:2,b,c:1,,toolong_______________________________________:1");
  assert_false(accel__fault("a"));
  assert_true(accel__fault("a"));
  assert_false(accel__fault("a"));
  assert_true(accel__fault("b") && accel__fault("b"));
  assert_true(accel__fault("c"));
  assert_false(accel__fault("c"));
  assert_false(accel__fault("d"));
  accel__fault_arm("a:2"); /* counts from zero again */
  assert_false(accel__fault("a"));
  assert_true(accel__fault("a"));
  accel__fault_arm("");
  assert_false(accel__fault("a"));
}

static int from_the_environment(void) {
  setenv("ACCEL_FAIL_AT", "x:2", 1);
  if (accel__fault("x")) return 1; /* reads the variable */
  unsetenv("ACCEL_FAIL_AT");
  if (!accel__fault("x")) return 2;
  return accel__fault("x") ? 3 : 0;
}

static void *pass(void *arg) {
  for (int i = 0; i < 10000; i++) *(int *)arg += accel__fault("x");
  return NULL;
}
static void test_faults_count_across_threads(void **state) {
  (void)state;
  pthread_t thread[4];
  int hits[4] = {0}, all = 0;
  accel__fault_arm("x:20000");
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, pass, &hits[i]), 0);
  for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL), all += hits[i];
  accel__fault_arm(NULL);
  assert_int_equal(all, 1);
}

int main(int argc, char **argv) {
  /* before anything has read ACCEL_FAIL_AT */
  if (argc > 1 && !strcmp(argv[1], "--faults")) return from_the_environment();
  const char *self[] = {argv[0], "--faults", NULL};
  pid_t child = fork();
  if (!child) execv("/proc/self/exe", (char **)(uintptr_t)self), _exit(98);
  int status;
  waitpid(child, &status, 0);
  if (status) return fprintf(stderr, "ACCEL_FAIL_AT: child's status %d\n", status), 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_map),         cmocka_unit_test(test_map_refused),
      cmocka_unit_test(test_load),        cmocka_unit_test(test_read),
      cmocka_unit_test(test_write),       cmocka_unit_test(test_write_refused),
      cmocka_unit_test(test_permissions), cmocka_unit_test(test_directories),
      cmocka_unit_test(test_many_names),  cmocka_unit_test(test_path_join),
      cmocka_unit_test(test_environment), cmocka_unit_test(test_cache_directory),
      cmocka_unit_test(test_faults),      cmocka_unit_test(test_faults_count_across_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
