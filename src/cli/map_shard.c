/* map_shard.c - one shard of accel map: windows of rows go through the model, results and failed
 * rows into files, which a thread brings to disk while the next shard is computed. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/map_job.h"

/* Vectors of a shard, which are written at its end. */
typedef struct vectors {
  float *data;
  int64_t *row, *row_start; /* numbers of rows; where each begins, with a vector for each token */
  uint64_t n, rows, n_capacity, rows_capacity; /* vectors; rows */
  uint32_t dim;
  bool per_token;
} vectors;

typedef struct map_shard {
  map_job *job;
  uint64_t number, last; /* rows of the shard end before `last` */
  map_row *row;          /* [n] a window */
  uint32_t n;
  uint32_t *good;                      /* [n_good] rows of the window that are not broken */
  const char **field[CLI_TASK_FIELDS]; /* [n_good] */
  uint32_t n_good;
  vectors vectors;
  map_out results, errors;
  pthread_t thread; /* that publishes it */
  int code;         /* how that ended */
} map_shard;

double map_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int no_memory(const map_shard *s) {
  return cli_error(s->job->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
}

/* ---- results ---- */

static uint64_t capacity_for(uint64_t capacity, uint64_t need) {
  while (capacity < need) capacity = capacity ? 2 * capacity : 1024;
  return capacity;
}

/* Room for n more vectors and one more row. */
static bool reserve(vectors *v, uint64_t n) {
  const uint64_t n_wanted = capacity_for(v->n_capacity, v->n + n),
                 rows_wanted = capacity_for(v->rows_capacity, v->rows + 1);
  if (n_wanted > v->n_capacity) {
    float *data = realloc(v->data, n_wanted * v->dim * sizeof *data);
    if (!data) return false;
    v->data = data;
    v->n_capacity = n_wanted;
  }
  if (rows_wanted == v->rows_capacity) return true;
  int64_t *row = realloc(v->row, rows_wanted * sizeof *row);
  if (row) v->row = row;
  int64_t *start = row ? realloc(v->row_start, rows_wanted * sizeof *start) : NULL;
  if (!start) return false;
  v->row_start = start;
  v->rows_capacity = rows_wanted;
  return true;
}

static int keep_vectors(map_shard *s, const accel_embeddings *found, uint32_t i, uint64_t number) {
  vectors *v = &s->vectors;
  const uint64_t first = found->row_start[i], n = found->row_start[i + 1] - first;
  v->dim = found->dim;
  v->per_token = found->per_token != 0;
  if (!reserve(v, n)) return no_memory(s);
  if (n)
    memcpy(v->data + v->n * found->dim, found->data + first * found->dim,
           n * found->dim * sizeof *v->data);
  v->row[v->rows] = (int64_t)number;
  v->row_start[v->rows++] = (int64_t)v->n;
  v->n += n;
  return 0;
}

/* "rows" [n]: numbers of the rows; "embeddings"; with a vector for each token "row_start" [n]. */
static int write_vectors(map_shard *s) {
  vectors *v = &s->vectors;
  const int64_t rows = (int64_t)v->rows;
  float nothing = 0;
  int64_t none = 0;
  accel_tensor items[3] = {
      {.name = "embeddings", .dtype = ACCEL_F32, .rank = 2, .dim = {(int64_t)v->n, v->dim}},
      {.name = "rows", .dtype = ACCEL_I64, .rank = 1, .dim = {rows}},
      {.name = "row_start", .dtype = ACCEL_I64, .rank = 1, .dim = {rows}}};
  items[0].data = v->data ? (void *)v->data : (void *)&nothing;
  items[1].data = v->row ? (void *)v->row : (void *)&none;
  items[2].data = v->row_start ? (void *)v->row_start : (void *)&none;
  const accel_tensors tensors = {.n = v->per_token ? 3 : 2, .item = items};
  char path[MAP_PATH];
  const accel_status status =
      accel_tensors_write(map_part(s->job, s->number, ".safetensors", path), &tensors);
  return status == ACCEL_OK ? 0 : cli_fail(s->job->run, status);
}

static int print_result(map_shard *s, const void *found, uint32_t i, uint64_t number) {
  if (s->job->tensors) return keep_vectors(s, found, i, number);
  cli_json json = {.to = s->results.to, .depth = 2}; /* a line each: deeper levels begin none */
  cli_json_open(&json, NULL, '{');
  cli_json_int(&json, "row", (int64_t)number);
  cli_json_key(&json, "result");
  s->job->task->print(&json, found, i);
  cli_json_close(&json, '}');
  fputc('\n', json.to);
  return 0;
}

static int print_failure(map_shard *s, const map_row *row) {
  char path[MAP_PATH];
  const int code =
      s->errors.to
          ? 0
          : map_out_open(s->job, map_part(s->job, s->number, ".errors.jsonl", path), &s->errors);
  if (code) return code;
  cli_json json = {.to = s->errors.to, .depth = 2};
  cli_json_open(&json, NULL, '{');
  cli_json_int(&json, "row", (int64_t)row->number);
  cli_json_text(&json, "file", row->path);
  cli_json_int(&json, "line", (int64_t)row->line);
  cli_json_text(&json, "error", row->why);
  cli_json_close(&json, '}');
  fputc('\n', json.to);
  return 0;
}

/* ---- a window ---- */

/* Failures that are a row's own: what it holds, or a file that it names. */
static bool is_of_a_row(accel_status status) {
  switch (status) {
    case ACCEL_ERROR_ARGUMENT:
    case ACCEL_ERROR_UNSUPPORTED:
    case ACCEL_ERROR_LIMIT:
    case ACCEL_ERROR_NONFINITE:
    case ACCEL_ERROR_IO:
    case ACCEL_ERROR_NOT_FOUND:
    case ACCEL_ERROR_FORMAT:
      return true;
    default:
      return false;
  }
}

static int fail_row(map_shard *s, uint32_t k, const char *why) {
  map_row *row = &s->row[s->good[k]];
  row->why = strdup(why);
  return row->why ? 0 : no_memory(s);
}

static int take_results(map_shard *s, const void *found, uint32_t first, uint32_t n) {
  const cli_task *task = s->job->task;
  int code = 0;
  for (uint32_t i = 0; i < n && !code; ++i) {
    const char *why = task->failed ? task->failed(found, i) : NULL;
    if (why) {
      code = fail_row(s, first + i, why);
    } else {
      code = print_result(s, found, i, s->row[s->good[first + i]].number);
      ++s->job->good;
    }
  }
  return code;
}

/* Good rows [first, first + n); where they fail together, each half by itself, down to the row whose
 * fault it is. */
static int run_rows(map_shard *s, uint32_t first, uint32_t n) {
  map_job *job = s->job;
  cli_rows rows = {.n = n};
  cli_found found = {0};
  int stop;
  if (!n) return 0;
  for (int f = 0; f < CLI_TASK_FIELDS; ++f)
    if (job->task->field[f]) rows.field[f] = s->field[f] + first;
  if (cli_asked_to_stop(&stop)) return cli_error(job->run, ACCEL_ERROR_CANCELLED, "stopped");
  const accel_status status = job->task->call(job->run, job->state, job->endpoint, &rows, &found);
  if (status == ACCEL_OK) {
    const int code = take_results(s, found.own, first, n);
    job->task->release(found.own);
    return code;
  }
  if (!is_of_a_row(status)) return cli_fail(job->run, status);
  if (n == 1) return fail_row(s, first, accel_last_error());
  const int code = run_rows(s, first, n / 2);
  return code ? code : run_rows(s, first + n / 2, n - n / 2);
}

/* Where no row has ever had a result, it is not the rows that are wrong. */
static int refuse_all_failed(const map_shard *s) {
  const map_row *row = &s->row[s->good[0]];
  return cli_error(s->job->run, ACCEL_ERROR_ARGUMENT,
                   "all of the first %u rows failed, the first (%s, line %" PRIu64 ") by this: %s",
                   s->n_good, row->path, row->line, row->why);
}

static int run_window(map_shard *s) {
  const uint64_t before = s->job->good;
  s->n_good = 0;
  for (uint32_t i = 0; i < s->n; ++i) {
    if (s->row[i].why) continue;
    for (int f = 0; f < CLI_TASK_FIELDS; ++f) s->field[f][s->n_good] = s->row[i].field[f];
    s->good[s->n_good++] = i;
  }
  int code = run_rows(s, 0, s->n_good);
  if (!code && s->n_good && !before && !s->job->good) code = refuse_all_failed(s);
  for (uint32_t i = 0; i < s->n; ++i) {
    if (!code && s->row[i].why) code = print_failure(s, &s->row[i]);
    map_row_free(&s->row[i]);
  }
  return code;
}

static int read_window(map_shard *s, uint64_t at) {
  int code = 0;
  s->n = 0;
  while (!code && s->n < s->job->task->window && at + s->n < s->last) {
    map_row *row = &s->row[s->n++];
    code = map_input_next(&s->job->input, row);
    if (code || row->path) continue;
    code = map_input_same(&s->job->input); /* there were more rows when it was looked through */
    if (!code) code = cli_error(s->job->run, ACCEL_ERROR_IO, "the files have fewer rows by now");
  }
  for (uint32_t i = 0; code && i < s->n; ++i) map_row_free(&s->row[i]);
  return code;
}

/* ---- a shard ---- */

static bool open_window(map_shard *s) {
  const uint32_t n = s->job->task->window;
  s->row = calloc(n, sizeof *s->row);
  s->good = calloc(n, sizeof *s->good);
  bool good = s->row && s->good;
  for (int f = 0; f < CLI_TASK_FIELDS; ++f) {
    s->field[f] = calloc(n, sizeof *s->field[f]);
    good = good && s->field[f];
  }
  return good;
}

static void free_shard(map_shard *s) {
  for (int f = 0; f < CLI_TASK_FIELDS; ++f) free((void *)s->field[f]);
  free(s->row);
  free(s->good);
  free(s->vectors.data);
  free(s->vectors.row);
  free(s->vectors.row_start);
  free(s);
}

/* The failed rows first: a shard is done when its part is there.  code: not 0, nothing is kept. */
static int publish(map_shard *s, int code) {
  char path[MAP_PATH];
  if (!code && !s->errors.to) unlink(map_part(s->job, s->number, ".errors.jsonl", path));
  code = map_out_close(s->job->run, &s->errors, code);
  if (!code && s->job->tensors) code = write_vectors(s);
  return map_out_close(s->job->run, &s->results, code);
}

static void *publish_thread(void *shard) {
  map_shard *s = shard;
  s->code = publish(s, 0);
  return NULL;
}

int map_shard_wait(map_job *job) {
  map_shard *s = job->publishing;
  if (!s) return 0;
  job->publishing = NULL;
  pthread_join(s->thread, NULL);
  const int code = s->code;
  free_shard(s);
  return code;
}

static int compute(map_shard *s, uint64_t first) {
  map_job *job = s->job;
  char path[MAP_PATH];
  int code = open_window(s) ? map_input_seek(&job->input, s->number) : no_memory(s);
  if (!code && !job->tensors)
    code = map_out_open(job, map_part(job, s->number, ".jsonl", path), &s->results);
  for (uint64_t at = first; at < s->last && !code; at += s->n) {
    code = read_window(s, at);
    if (!code) code = run_window(s);
    if (!code) map_say_progress(job, s->n);
  }
  return code ? code : map_input_same(&job->input);
}

int map_shard_run(map_job *job, uint64_t shard) {
  const uint64_t first = shard * job->input.shard_rows, left = job->input.rows - first;
  map_shard *s = calloc(1, sizeof *s);
  if (!s) return cli_error(job->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  s->job = job;
  s->number = shard;
  s->last = first + (left < job->input.shard_rows ? left : job->input.shard_rows);
  int code = compute(s, first);
  const int before = map_shard_wait(job);
  if (!code) code = before;
  if (!code && !pthread_create(&s->thread, NULL, publish_thread, s)) {
    job->publishing = s;
    return 0;
  }
  code = publish(s, code);
  free_shard(s);
  return code;
}
