/* map_files.c - files of accel map that appear whole or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/map_job.h"

static int failed(const cli_run *run, const char *path) {
  const int error = errno;
  return cli_error(run, ACCEL_ERROR_IO, "%s: cannot write: %s%s", path, strerror(error),
                   error == ENOSPC || error == EDQUOT || error == EFBIG
                       ? "; make room and run the same command again, it goes on where it was"
                       : "");
}

int map_out_open(const map_job *job, const char *path, map_out *out) {
  cli_run *run = job->run;
  const int n = snprintf(out->path, sizeof out->path, "%s", path),
            m = snprintf(out->part, sizeof out->part, "%s.%u.tmp", path, job->index);
  if (n < 0 || (size_t)n >= sizeof out->path || (size_t)m >= sizeof out->part)
    return cli_error(run, ACCEL_ERROR_LIMIT, "%s: the path is too long", path);
  out->to = fopen(out->part, "wb");
  return out->to ? 0 : failed(run, out->part);
}

/* The names in the directory of a path are on disk. */
static int sync_directory(const cli_run *run, const char *path) {
  char directory[MAP_PATH];
  snprintf(directory, sizeof directory, "%s", path);
  char *slash = strrchr(directory, '/');
  if (slash) *slash = 0;
  const int fd = open(slash ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return failed(run, path);
  /* some file systems have nothing to sync there */
  const int code = fsync(fd) && errno != EINVAL ? failed(run, path) : 0;
  close(fd);
  return code;
}

int map_out_close(cli_run *run, map_out *out, int code) {
  if (!out->to) return code;
  if (!code && (fflush(out->to) || ferror(out->to) || fsync(fileno(out->to))))
    code = failed(run, out->part);
  if (fclose(out->to) && !code) code = failed(run, out->part);
  out->to = NULL;
  if (!code && rename(out->part, out->path)) code = failed(run, out->path);
  if (code) {
    unlink(out->part);
    return code;
  }
  return sync_directory(run, out->path);
}

const char *map_part(const map_job *job, uint64_t shard, const char *end, char *into) {
  snprintf(into, MAP_PATH, "%s/part-%05" PRIu64 "%s", job->directory, shard, end);
  return into;
}

const char *map_part_end(const map_job *job) { return job->tensors ? ".safetensors" : ".jsonl"; }

uint64_t map_count_lines(const char *path) {
  FILE *file = fopen(path, "rb");
  uint64_t n = 0;
  int c;
  while (file && (c = getc_unlocked(file)) != EOF) n += c == '\n';
  if (file) fclose(file);
  return n;
}

bool map_is_there(const char *path) { return access(path, F_OK) == 0; }
