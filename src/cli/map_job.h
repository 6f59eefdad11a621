/* map_job.h - one job of accel map: its manifest, its shards and the files of their results.
 *
 * A directory of results holds manifest.json, which says what the job is, part-00000.jsonl (or
 * .safetensors) for each shard, and part-00000.errors.jsonl for the rows of it that failed.  A shard
 * is done when its part is there: files come by rename, when they are whole and on disk. */
#ifndef ACCEL_CLI_MAP_JOB_H
#define ACCEL_CLI_MAP_JOB_H

#include "cli/map_input.h"

enum { MAP_PATH = 4096 };

typedef struct map_job {
  cli_run *run;
  const cli_task *task;
  const char *model, *directory;
  bool tensors;       /* embeddings as safetensors */
  uint32_t index, of; /* --shard: this process has the shards whose number % of is index */
  map_input input;
  void *state; /* of the task */
  accel_endpoint *endpoint;
  cJSON *what;                  /* the manifest's "job" */
  struct map_shard *publishing; /* a shard whose files a thread writes; NULL: none */
  int lock;                     /* a file that is locked while the job runs; -1 */
  uint64_t all, done;           /* rows of this process, and those of shards that are there */
  uint64_t begun_at, good;      /* `done` when it began; rows with a result */
  double begin_s, said_s;
} map_job;

/* ---- files (map_files.c) ---- */

typedef struct map_out {
  FILE *to;
  char path[MAP_PATH], part[MAP_PATH];
} map_out;

/* Opens a temporary file, of this process alone, that becomes `path`; 0 or an exit code. */
int map_out_open(const map_job *job, const char *path, map_out *out);
/* fsync and rename; or, when code is not 0, removes the temporary file.  Returns code, or that of
 * what failed.  An `out` that is {0} is done already. */
int map_out_close(cli_run *run, map_out *out, int code);
/* "DIR/part-00007" with `end`, in into[MAP_PATH], which it returns. */
const char *map_part(const map_job *job, uint64_t shard, const char *end, char *into);
const char *map_part_end(const map_job *job); /* ".jsonl" or ".safetensors" */
uint64_t map_count_lines(const char *path);   /* 0: no such file */
bool map_is_there(const char *path);

/* ---- the manifest (map_manifest.c) ---- */

/* Makes or checks the manifest: what the directory was begun with must be what is asked for now.
 * Behind cli_context, as it looks for the model's files.  0 or an exit code. */
int map_manifest_open(map_job *job);
/* The same of the device and the precision, once the model is loaded. */
int map_manifest_placed(map_job *job);
/* Lists the shards, when all are there. */
int map_manifest_end(map_job *job);
void map_manifest_close(map_job *job);

/* ---- a shard (map_shard.c) ---- */

/* Computes it.  Its files may come later, and failures of theirs with the next shard. */
int map_shard_run(map_job *job, uint64_t shard);
/* The files of all that was computed are there; 0 or an exit code. */
int map_shard_wait(map_job *job);
/* A line on stderr now and then: how far it is, and the time that is left. */
void map_say_progress(map_job *job, uint64_t rows);
double map_now(void); /* seconds */

#endif
