/* map_manifest.c - manifest.json: what a job is, and at its end its shards. */
#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/map_job.h"
#include "shared/hash.h"

static int no_memory(const map_job *job) {
  return cli_error(job->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
}

static const char *manifest_path(const map_job *job, char *into) {
  snprintf(into, MAP_PATH, "%s/manifest.json", job->directory);
  return into;
}

/* ---- what the job is ---- */

static void add_hash(cJSON *to, const char *name, uint64_t hash) {
  char text[32];
  snprintf(text, sizeof text, "%016" PRIx64, hash);
  cJSON_AddStringToObject(to, name, text);
}

/* The names and sizes of the model's files; of none where it is not on this machine. */
static uint64_t hash_of_files(const map_job *job) {
  struct dirent **list;
  uint64_t h = ACCEL_HASH_SEED;
  char *directory = NULL;
  if (accel_find_model(job->run->ctx, job->model, &directory) != ACCEL_OK) return h;
  const int n = scandir(directory, &list, NULL, alphasort);
  for (int i = 0; i < n; ++i) {
    char path[MAP_PATH];
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", directory, list[i]->d_name);
    if (!stat(path, &info) && S_ISREG(info.st_mode)) {
      const uint64_t bytes = (uint64_t)info.st_size;
      h = accel_hash(accel_hash_text(h, list[i]->d_name), &bytes, sizeof bytes);
    }
    free(list[i]);
  }
  if (n >= 0) free(list);
  accel_string_free(&directory);
  return h;
}

/* Options that change results: those of the task that were given. */
static cJSON *options_of(const map_job *job) {
  static const cli_option_id not_these[] = {OPT_MODEL,        OPT_INPUT,         OPT_OUTPUT,
                                            OPT_MAP_TASK,     OPT_SHARD,         OPT_SHARD_ROWS,
                                            OPT_INPUT_FORMAT, OPT_OUTPUT_FORMAT, OPT_COLUMN};
  cJSON *options = cJSON_CreateObject();
  for (int id = OPT_COMMON; id < OPT_END; ++id) {
    bool other = !job->run->value[id];
    for (size_t i = 0; i < sizeof not_these / sizeof *not_these; ++i)
      other = other || not_these[i] == (cli_option_id)id;
    if (other) continue;
    uint32_t n = 0;
    const char **values =
        cli_options[id].kind == CLI_TEXTS ? cli_values(job->run, (cli_option_id)id, &n) : NULL;
    cJSON *item =
        values ? cJSON_CreateStringArray(values, (int)n) : cJSON_CreateString(job->run->value[id]);
    cJSON_AddItemToObject(options, cli_options[id].name, item);
    free(values);
  }
  return options;
}

static cJSON *inputs_of(const map_job *job) {
  static const char *const format[] = {"text", "jsonl", "csv", "tsv"};
  cJSON *inputs = cJSON_CreateArray();
  for (uint32_t i = 0; i < job->input.n; ++i) {
    const map_file *file = &job->input.file[i];
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "path", file->path);
    cJSON_AddStringToObject(item, "format", format[file->format]);
    cJSON_AddNumberToObject(item, "bytes", (double)file->bytes);
    add_hash(item, "fnv1a", file->hash);
    cJSON_AddItemToArray(inputs, item);
  }
  return inputs;
}

static cJSON *job_of(const map_job *job) {
  cJSON *what = cJSON_CreateObject();
  cJSON_AddStringToObject(what, "version", accel_version());
  cJSON_AddStringToObject(what, "task", job->task->name);
  cJSON_AddStringToObject(what, "model", job->model);
  add_hash(what, "model_files", hash_of_files(job));
  cJSON_AddItemToObject(what, "inputs", inputs_of(job));
  cJSON *columns = cJSON_AddArrayToObject(what, "columns");
  for (int f = 0; f < CLI_TASK_FIELDS && job->input.column[f]; ++f)
    cJSON_AddItemToArray(columns, cJSON_CreateString(job->input.column[f]));
  cJSON_AddItemToObject(what, "options", options_of(job));
  cJSON_AddStringToObject(what, "results", job->tensors ? "safetensors" : "jsonl");
  cJSON_AddNumberToObject(what, "shard_rows", (double)job->input.shard_rows);
  cJSON_AddNumberToObject(what, "processes", job->of);
  return what;
}

/* ---- what is there ---- */

static int write_manifest(map_job *job, cJSON *shards, bool finished) {
  char path[MAP_PATH];
  map_out out = {0};
  cJSON *root = cJSON_CreateObject();
  cJSON_AddStringToObject(root, "schema", "accel.map/1");
  cJSON_AddItemReferenceToObject(root, "job", job->what);
  cJSON_AddNumberToObject(root, "rows", (double)job->input.rows);
  cJSON_AddNumberToObject(root, "shards", (double)job->input.shards);
  cJSON_AddBoolToObject(root, "finished", finished);
  if (shards) cJSON_AddItemToObject(root, "parts", shards);
  char *text = cJSON_Print(root);
  cJSON_Delete(root);
  int code = text ? map_out_open(job, manifest_path(job, path), &out) : no_memory(job);
  if (!code) fprintf(out.to, "%s\n", text);
  code = map_out_close(job->run, &out, code);
  free(text);
  return code;
}

/* The job that the directory was begun with; *was NULL: none yet. */
static int read_manifest(map_job *job, cJSON **root, const cJSON **was) {
  char path[MAP_PATH], *text;
  manifest_path(job, path);
  *root = NULL;
  *was = NULL;
  if (!map_is_there(path)) return 0;
  const int code = cli_file_read(job->run, path, &text, NULL);
  if (code) return code;
  *root = cJSON_Parse(text);
  free(text);
  *was = cJSON_GetObjectItemCaseSensitive(*root, "job");
  if (cJSON_IsObject(*was) && !strcmp(cli_json_word(*root, "schema"), "accel.map/1")) return 0;
  return cli_error(job->run, ACCEL_ERROR_FORMAT,
                   "%s is no manifest of accel map; give another --output", path);
}

/* The first thing in which two jobs differ, such as options.top-k; "": they are the same. */
static void first_difference(const cJSON *was, const cJSON *now, char *name, size_t size) {
  const cJSON *both[] = {now, was};
  for (int side = 0; side < 2; ++side) {
    const cJSON *other = both[1 - side];
    for (const cJSON *item = both[side] ? both[side]->child : NULL; item; item = item->next) {
      const cJSON *match = cJSON_GetObjectItemCaseSensitive(other, item->string);
      if (!strcmp(item->string, "placement") || cJSON_Compare(item, match, true)) continue;
      const size_t n = strlen(name);
      snprintf(name + n, size - n, "%s%s", n ? "." : "", item->string);
      if (cJSON_IsObject(item) && cJSON_IsObject(match)) first_difference(match, item, name, size);
      return;
    }
  }
}

static const cJSON *at_path(const cJSON *from, const char *name) {
  const size_t n = strcspn(name, ".");
  char part[128];
  snprintf(part, sizeof part, "%.*s", (int)n, name);
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(from, part);
  return name[n] ? at_path(item, name + n + 1) : item;
}

static int refuse(map_job *job, const char *name, const cJSON *was, const cJSON *now) {
  char path[MAP_PATH];
  char *old = was ? cJSON_PrintUnformatted(was) : NULL,
       *new = now ? cJSON_PrintUnformatted(now) : NULL;
  const bool option = !strncmp(name, "options.", 8);
  const int code = cli_error(
      job->run, ACCEL_ERROR_ARGUMENT,
      "%s: the job there was begun with another %s%s: %.300s, now it is %.300s; give what it was "
      "begun with, or another --output",
      manifest_path(job, path), option ? "--" : "", option ? name + 8 : name, old ? old : "none",
      new ? new : "none");
  free(old);
  free(new);
  return code;
}

static int compare(map_job *job, const cJSON *was) {
  char name[256] = "";
  first_difference(was, job->what, name, sizeof name);
  return *name ? refuse(job, name, at_path(was, name), at_path(job->what, name)) : 0;
}

/* Results of something else are not mixed with this job's. */
static int refuse_strangers(map_job *job) {
  static const char *const end[] = {".jsonl", ".safetensors"};
  char path[MAP_PATH];
  for (int i = 0; i < 2; ++i)
    if (map_is_there(map_part(job, 0, end[i], path)))
      return cli_error(job->run, ACCEL_ERROR_ARGUMENT,
                       "%s is there, but no manifest.json; give an empty directory as --output",
                       path);
  return 0;
}

/* One process at a time has these shards. */
static int take_lock(map_job *job) {
  char path[MAP_PATH];
  snprintf(path, sizeof path, "%s/.lock-%u-of-%u", job->directory, job->index, job->of);
  job->lock = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  if (job->lock < 0) return cli_error(job->run, ACCEL_ERROR_IO, "%s: %s", path, strerror(errno));
  if (!flock(job->lock, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) return 0;
  return cli_error(
      job->run, ACCEL_ERROR_ARGUMENT,
      "%s: another process works on this job; wait for it, or share the work by --shard",
      job->directory);
}

int map_manifest_open(map_job *job) {
  cJSON *root = NULL;
  const cJSON *was = NULL;
  if (mkdir(job->directory, 0777) && errno != EEXIST)
    return cli_error(job->run, ACCEL_ERROR_IO, "%s: %s", job->directory, strerror(errno));
  job->what = job_of(job);
  int code = read_manifest(job, &root, &was);
  if (!code && was) code = compare(job, was);
  if (!code && !was) code = refuse_strangers(job);
  if (!code) code = take_lock(job);
  cJSON_Delete(root);
  return code;
}

int map_manifest_placed(map_job *job) {
  const accel_placement_report *p = accel_placement(job->endpoint);
  cJSON *root = NULL, *placement = cJSON_CreateObject();
  const cJSON *was = NULL;
  cJSON_AddStringToObject(placement, "device", p->device);
  cJSON_AddStringToObject(placement, "precision", p->precision);
  cJSON_AddStringToObject(placement, "implementation_type", p->implementation_type);
  cJSON_AddItemToObject(job->what, "placement", placement);
  int code = read_manifest(job, &root, &was);
  if (!code && !was) code = write_manifest(job, NULL, false);
  const cJSON *old = cJSON_GetObjectItemCaseSensitive(was, "placement");
  if (!code && old && !cJSON_Compare(old, placement, true))
    code = refuse(job, "placement", old, placement);
  cJSON_Delete(root);
  return code;
}

int map_manifest_end(map_job *job) {
  char path[MAP_PATH];
  cJSON *shards = cJSON_CreateArray();
  for (uint64_t i = 0; i < job->input.shards; ++i) {
    struct stat info;
    if (stat(map_part(job, i, map_part_end(job), path), &info)) {
      cJSON_Delete(shards);
      return 0; /* the shards of another process */
    }
    const uint64_t left = job->input.rows - i * job->input.shard_rows;
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "file", strrchr(path, '/') + 1);
    cJSON_AddNumberToObject(item, "bytes", (double)info.st_size);
    cJSON_AddNumberToObject(item, "rows",
                            (double)(left < job->input.shard_rows ? left : job->input.shard_rows));
    cJSON_AddNumberToObject(item, "failed",
                            (double)map_count_lines(map_part(job, i, ".errors.jsonl", path)));
    cJSON_AddItemToArray(shards, item);
  }
  /* no model was loaded where all was there: what the directory says of its device stays */
  cJSON *root = NULL;
  const cJSON *was = NULL;
  int code = read_manifest(job, &root, &was);
  const cJSON *placement = cJSON_GetObjectItemCaseSensitive(was, "placement");
  if (placement && !cJSON_HasObjectItem(job->what, "placement"))
    cJSON_AddItemToObject(job->what, "placement", cJSON_Duplicate(placement, 1));
  cJSON_Delete(root);
  if (!code) return write_manifest(job, shards, true);
  cJSON_Delete(shards);
  return code;
}

void map_manifest_close(map_job *job) {
  cJSON_Delete(job->what);
  if (job->lock >= 0) close(job->lock);
}
