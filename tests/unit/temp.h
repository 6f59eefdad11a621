/* temp.h - for unit tests: a directory of this process's own, removed at exit, and small files in
 * it. */
#ifndef ACCEL_TESTS_TEMP_H
#define ACCEL_TESTS_TEMP_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char temp_directory_[256];
static pid_t temp_owner_;

static int temp_remove_one_(const char *path, const struct stat *info, int kind, struct FTW *at) {
  (void)info, (void)kind, (void)at;
  return remove(path);
}
static void temp_remove_(void) {
  if (getpid() == temp_owner_) nftw(temp_directory_, temp_remove_one_, 16, FTW_DEPTH | FTW_PHYS);
}

static inline const char *temp_directory(void) {
  if (!temp_directory_[0]) {
    const char *base = getenv("TMPDIR");
    snprintf(temp_directory_, sizeof temp_directory_, "%s/accel-test-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(temp_directory_)) abort();
    temp_owner_ = getpid();
    atexit(temp_remove_);
  }
  return temp_directory_;
}

/* DIRECTORY/name; one of eight static buffers in turn. */
static inline char *temp_path(const char *name) {
  static char path[8][512];
  static unsigned turn;
  char *out = path[turn++ % 8];
  if (snprintf(out, sizeof path[0], "%s/%s", temp_directory(), name) >= (int)sizeof path[0])
    abort();
  return out;
}

/* Writes DIRECTORY/name, making the directories it needs; returns the path. */
static inline char *temp_file(const char *name, const void *bytes, size_t n) {
  char *path = temp_path(name);
  for (char *slash = path + strlen(temp_directory()) + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = 0;
    mkdir(path, 0700);
    *slash = '/';
  }
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(bytes, 1, n, f) != n || fclose(f)) abort();
  return path;
}
static inline char *temp_text(const char *name, const char *text) {
  return temp_file(name, text, strlen(text));
}

#endif
