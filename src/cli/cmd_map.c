/* cmd_map.c - accel map: a task over all rows of files, by shards that can be resumed. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/map_job.h"

static const cli_task *const tasks[] = {&cli_task_embed,
                                        &cli_task_classify,
                                        &cli_task_classify_images,
                                        &cli_task_classify_sounds,
                                        &cli_task_tokens,
                                        &cli_task_qa,
                                        &cli_task_fill_mask,
                                        &cli_task_rerank,
                                        &cli_task_generate,
                                        &cli_task_translate,
                                        &cli_task_summarize,
                                        &cli_task_caption,
                                        &cli_task_vqa,
                                        &cli_task_document_qa,
                                        &cli_task_transcribe,
                                        &cli_task_detect_objects,
                                        &cli_task_segment,
                                        &cli_task_image_features,
                                        &cli_task_zero_shot_image,
                                        &cli_task_zero_shot_audio,
                                        &cli_task_zero_shot};
enum { TASKS = sizeof tasks / sizeof *tasks };

/* ---- options ---- */

static int find_task(cli_run *run, const cli_task **out) {
  const char *names[TASKS], *given = run->value[OPT_MAP_TASK];
  char all[512] = "";
  for (size_t i = 0; i < TASKS; ++i) {
    names[i] = tasks[i]->name;
    if (given && !strcmp(names[i], given)) *out = tasks[i];
    const size_t n = strlen(all);
    snprintf(all + n, sizeof all - n, "%s%s", n ? ", " : "", names[i]);
  }
  if (*out) return 0;
  if (!given) return cli_usage(run, "which task?  --task, one of %s", all);
  const char *near = cli_nearest(given, names, TASKS);
  return near ? cli_usage(run, "unknown task '%s'; did you mean '%s'?", given, near)
              : cli_usage(run, "unknown task '%s'; one of %s", given, all);
}

static const cli_command *command_of(const cli_task *task) {
  const cli_command *found = cli_commands;
  while (strcmp(found->name, task->command) != 0) ++found;
  return found;
}

/* Options of other tasks change nothing, so they are refused. */
static int check_options(const cli_run *run, const cli_task *task) {
  static const cli_option_id own[] = {OPT_MAP_TASK,   OPT_MODEL,        OPT_INPUT,
                                      OPT_OUTPUT,     OPT_COLUMN,       OPT_SHARD,
                                      OPT_SHARD_ROWS, OPT_INPUT_FORMAT, OPT_OUTPUT_FORMAT};
  for (int id = OPT_COMMON; id < OPT_END; ++id) {
    bool good = !run->value[id] || cli_takes(command_of(task), (cli_option_id)id);
    for (size_t i = 0; i < sizeof own / sizeof *own; ++i)
      good = good || own[i] == (cli_option_id)id;
    if (!good)
      return cli_usage(run, "--%s is not an option of --task %s", cli_options[id].name, task->name);
  }
  return 0;
}

static int read_shard(const cli_run *run, map_job *job) {
  const char *text = run->value[OPT_SHARD];
  int end = 0;
  job->of = 1;
  if (!text) return 0;
  return sscanf(text, "%6u/%6u%n", &job->index, &job->of, &end) == 2 && !text[end] &&
                 job->index < job->of
             ? 0
             : cli_usage(run, "--shard takes I/N, I from 0 to N-1, such as 0/8, not '%s'", text);
}

static int read_columns(const cli_run *run, map_job *job) {
  uint32_t n;
  const char **given = cli_values(run, OPT_COLUMN, &n);
  const cli_task *task = job->task;
  uint32_t fields = 0;
  for (; fields < CLI_TASK_FIELDS && task->field[fields]; ++fields)
    job->input.column[fields] = given && fields < n ? given[fields] : task->field[fields];
  free(given);
  return n > fields
             ? cli_usage(run, "--column is there %u times; a row of --task %s has %u field%s", n,
                         task->name, fields, fields > 1 ? "s" : "")
             : 0;
}

static int read_results(const cli_run *run, map_job *job) {
  const char *format = run->value[OPT_OUTPUT_FORMAT];
  const bool vectors = job->task == &cli_task_embed;
  job->tensors = format ? !strcmp(format, "safetensors") : vectors;
  return job->tensors && !vectors
             ? cli_usage(run, "--output-format safetensors is for --task embed")
             : 0;
}

static int read_job(cli_run *run, map_job *job) {
  int code = find_task(run, &job->task);
  if (!code) code = check_options(run, job->task);
  if (!code) code = read_shard(run, job);
  if (code) return code;
  job->model = run->value[OPT_MODEL];
  job->directory = run->value[OPT_OUTPUT];
  job->input.run = run;
  job->input.task = job->task;
  job->input.shard_rows = (uint64_t)cli_count(run, OPT_SHARD_ROWS, job->task->shard);
  if (!job->model) return cli_usage(run, "which model?  --model MODEL");
  if (!job->directory) return cli_usage(run, "where to?  --output DIRECTORY");
  code = read_results(run, job);
  return code ? code : read_columns(run, job);
}

/* ---- input ---- */

/* Files of --input and operands. */
static int open_input(map_job *job) {
  cli_run *run = job->run;
  uint32_t n;
  const char **given = cli_values(run, OPT_INPUT, &n);
  const char **files = malloc((n + (size_t)run->n_args + 1) * sizeof *files);
  int code = files ? 0 : cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  for (uint32_t i = 0; files && i < n; ++i) files[i] = given[i];
  for (int i = 0; files && i < run->n_args; ++i) files[n++] = run->args[i];
  if (!code && !n) code = cli_usage(run, "no rows: give files with --input");
  if (!code) code = map_input_open(&job->input, files, n, run->value[OPT_INPUT_FORMAT]);
  free(files);
  free(given);
  return code;
}

/* ---- the job ---- */

static uint64_t rows_of(const map_job *job, uint64_t shard) {
  const uint64_t left = job->input.rows - shard * job->input.shard_rows;
  return left < job->input.shard_rows ? left : job->input.shard_rows;
}

static bool is_done(const map_job *job, uint64_t shard) {
  char path[MAP_PATH];
  return map_is_there(map_part(job, shard, map_part_end(job), path));
}

/* Rows of this process, and what earlier ones have done of them. */
static void count_rows(map_job *job) {
  char path[MAP_PATH];
  for (uint64_t i = job->index; i < job->input.shards; i += job->of) {
    job->all += rows_of(job, i);
    if (!is_done(job, i)) continue;
    job->done += rows_of(job, i);
    job->good += rows_of(job, i) - map_count_lines(map_part(job, i, ".errors.jsonl", path));
  }
  job->begun_at = job->done;
  job->begin_s = job->said_s = map_now();
}

void map_say_progress(map_job *job, uint64_t rows) {
  const double now = map_now(), took = now - job->begin_s;
  const double every = isatty(STDERR_FILENO) ? 1 : 30;
  job->done += rows;
  if (now - job->said_s < every || job->done == job->all) return;
  job->said_s = now;
  const double rate = (double)(job->done - job->begun_at) / took;
  const uint64_t left = (uint64_t)((double)(job->all - job->done) / rate);
  cli_note(job->run, "%" PRIu64 " of %" PRIu64 " rows, %.4g a second, %" PRIu64 ":%02u:%02u left",
           job->done, job->all, rate, left / 3600, (unsigned)(left / 60 % 60),
           (unsigned)(left % 60));
}

/* Where all is done, a model is loaded if a device or a precision is asked for, to compare them. */
static int run_shards(map_job *job) {
  const bool asked = job->run->value[OPT_DEVICE] || job->run->value[OPT_PRECISION];
  int code = 0;
  if (job->done == job->all && job->input.shards && !asked) return 0;
  if (job->task->begin) code = job->task->begin(job->run, &job->state);
  if (!code) code = cli_open(job->run, job->model, job->task->model_task, &job->endpoint);
  if (!code) code = map_manifest_placed(job);
  job->begin_s = job->said_s = map_now();
  for (uint64_t i = job->index; i < job->input.shards && !code; i += job->of)
    if (!is_done(job, i)) code = map_shard_run(job, i);
  const int last = map_shard_wait(job);
  return code ? code : last;
}

static int print_end(map_job *job) {
  const double took = map_now() - job->begin_s;
  const uint64_t rows = job->done - job->begun_at;
  cli_note(job->run,
           "%" PRIu64 " rows in %.1f s, %.5g a second; %" PRIu64 " were there; %" PRIu64
           " failed%s; results in %s",
           rows, took, took > 0 ? (double)rows / took : 0, job->begun_at, job->all - job->good,
           job->all > job->good ? " (part-*.errors.jsonl)" : "", job->directory);
  cli_say_replicas(job->run, job->endpoint);
  if (!cli_flag(job->run, OPT_JSON)) return 0;
  cli_json json;
  const int code = cli_json_begin(job->run, "accel.map/1", &json);
  if (code) return code;
  if (job->endpoint) {
    cli_json_placement(&json, accel_placement(job->endpoint));
    cli_json_replicas(&json, job->endpoint);
  }
  cli_json_text(&json, "output", job->directory);
  cli_json_int(&json, "rows", (int64_t)job->all);
  cli_json_int(&json, "failed", (int64_t)(job->all - job->good));
  cli_json_int(&json, "new_rows", (int64_t)rows);
  cli_json_double(&json, "seconds", took);
  return cli_json_end(job->run, &json);
}

int cmd_map(cli_run *run) {
  map_job job = {.run = run, .lock = -1};
  int code = read_job(run, &job);
  if (!code) code = open_input(&job);
  if (!code) code = cli_context(run);
  if (!code) code = map_manifest_open(&job);
  if (!code) count_rows(&job);
  if (!code) code = run_shards(&job);
  if (!code) code = map_manifest_end(&job);
  if (!code) code = print_end(&job);
  if (job.task && job.task->end) job.task->end(job.state);
  accel_cleanup(&job.endpoint);
  map_manifest_close(&job);
  map_input_close(&job.input);
  return code;
}
