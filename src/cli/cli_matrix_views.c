/* cli_matrix_views.c - accel matrix --view classes, tasks: what goldens gave, beside the ten kinds
 * of hardware. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli_goldens.h"
#include "cli/cli_key_models.h"
#include "cli/cli_verified.h"

/* ---- which rows belong to a cell ---- */

typedef struct wanted {
  const char *hardware;
  const char *types; /* of classes; NULL: `task` counts */
  const char *task;
} wanted;

static bool is_wanted(const bench_verdict_row *row, const void *what) {
  const wanted *w = what;
  if (strcmp(row->hardware, w->hardware) != 0) return false;
  if (w->types) return cli_has_type(w->types, row->model_type);
  const char *task = accel_architecture_task(row->architecture);
  return task && !strcmp(task, w->task);
}

/* ---- untested, and why it cannot be otherwise ---- */

/* A kind of hardware that no plugin serves is unsupported; why there is none for webnn, detection
 * says. */
static void say_unsupported(const accel_devices *devices, const char *hardware, cJSON *cell) {
  const char *reason = NULL;
  if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(cell, "state")), "untested") != 0) return;
  for (uint32_t i = 0; i < devices->n; ++i) {
    const accel_device_info *d = &devices->item[i];
    if (strcmp(d->hardware, hardware) != 0) continue;
    if (d->compiled) return;
    reason = strcmp(hardware, "webnn") ? "this build has no plugin for it" : d->reason;
  }
  if (!reason) return;
  cJSON_ReplaceItemInObject(cell, "state", cJSON_CreateString("unsupported"));
  cJSON_AddStringToObject(cell, "reason", reason);
}

/* ---- ratings ---- */

/* "" when it cannot be told. */
static char *type_of_run(cli_run *run, const char *model) {
  char *type = NULL, *own = NULL, *text = NULL;
  cli_model_config(model, &type, &own);
  free(own);
  if ((type && *type) || accel_registry_json(run->ctx, model, &text) != ACCEL_OK) return type;
  cJSON *entry = cJSON_Parse(text);
  const char *said = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "model_type"));
  free(type);
  type = strdup(said ? said : "");
  cJSON_Delete(entry);
  accel_string_free(&text);
  return type;
}

/* The best rating among the runs of a class on a kind of hardware. */
static void rate(const bench_ratings *ratings, char *const *type, const wanted *w, cJSON *cell) {
  const bench_rating *best = NULL;
  for (uint32_t i = 0; w->types && i < ratings->n; ++i) {
    const bench_rating *r = &ratings->item[i];
    if (strcmp(r->hardware, w->hardware) != 0 || !type[i] || !cli_has_type(w->types, type[i]))
      continue;
    if (!best || r->share > best->share) best = r;
  }
  if (best) verified_rate(cell, best);
}

/* ---- the table ---- */

typedef struct view {
  cli_run *run;
  bench_verdict_rows rows;
  bench_ratings ratings;
  char **type; /* [ratings.n] model_type */
  accel_devices *devices;
  cJSON *list; /* of the rows */
} view;

static void add_row(const view *v, const char *name, const char *types) {
  cJSON *row = cJSON_CreateObject(), *cells;
  cJSON_AddStringToObject(row, "name", name);
  cells = cJSON_AddObjectToObject(row, "cells");
  for (int k = 0; k < CLI_HARDWARE_KINDS; ++k) {
    const wanted w = {.hardware = cli_hardware_kinds[k], .types = types, .task = name};
    verified_set set = verified_choose(&v->rows, is_wanted, &w);
    cJSON *cell = verified_cell(&set);
    say_unsupported(v->devices, cli_hardware_kinds[k], cell);
    rate(&v->ratings, v->type, &w, cell);
    cJSON_AddItemToObject(cells, cli_hardware_kinds[k], cell);
    free((void *)set.row);
  }
  cJSON_AddItemToArray(v->list, row);
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Every task that a class of models has, in the order of the alphabet. */
static void add_tasks(const view *v) {
  accel_strings *names;
  if (accel_architectures(&names) != ACCEL_OK) return;
  const char **task = malloc((names->n + (size_t)1) * sizeof *task);
  for (uint32_t i = 0; task && i < names->n; ++i) task[i] = accel_architecture_task(names->item[i]);
  if (task) qsort((void *)task, names->n, sizeof *task, by_text);
  for (uint32_t i = 0; task && i < names->n; ++i)
    if (!i || strcmp(task[i - 1], task[i]) != 0) add_row(v, task[i], NULL);
  free((void *)task);
  accel_strings_free(&names);
}

static void add_rows(const view *v, bool by_class) {
  for (size_t i = 0; by_class && i < CLI_KEY_MODELS; ++i)
    add_row(v, cli_key_models[i].name, cli_key_models[i].types);
  if (!by_class) add_tasks(v);
}

int verified_view(cli_run *run, const char *name, cJSON *root) {
  view v = {.run = run};
  int code = verified_rows_read(run, &v.rows);
  if (!code) code = verified_ratings_read(run, &v.ratings);
  if (!code) {
    const accel_status status = accel_detect(run->ctx, 0, &v.devices);
    if (status != ACCEL_OK) code = cli_fail(run, status);
  }
  if (!code && !(v.type = calloc(v.ratings.n + (size_t)1, sizeof *v.type)))
    code = cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  for (uint32_t i = 0; !code && i < v.ratings.n; ++i)
    v.type[i] = type_of_run(run, v.ratings.item[i].model);
  if (!code) {
    cJSON_AddStringToObject(root, "view", name);
    cJSON_AddItemToObject(root, "columns",
                          cJSON_CreateStringArray(cli_hardware_kinds, CLI_HARDWARE_KINDS));
    v.list = cJSON_AddArrayToObject(root, "rows");
    add_rows(&v, !strcmp(name, "classes"));
  }
  for (uint32_t i = 0; v.type && i < v.ratings.n; ++i) free(v.type[i]);
  free(v.type);
  bench_ratings_free(&v.ratings);
  bench_verdict_rows_free(&v.rows);
  accel_devices_free(&v.devices);
  return code;
}

void verified_view_table(const cJSON *root, bool brief, cli_table *to) {
  enum { MOST = 16 };
  const cJSON *columns = cJSON_GetObjectItemCaseSensitive(root, "columns"), *column, *row;
  const char *cells[MOST] = {strcmp(cli_json_word(root, "view"), "tasks") ? "class" : "task"};
  uint32_t n = 1;
  cJSON_ArrayForEach(column, columns) if (n < MOST) cells[n++] = column->valuestring;
  cli_table_row(to, n, cells);
  cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(root, "rows")) {
    const cJSON *verdicts = cJSON_GetObjectItemCaseSensitive(row, "cells");
    char text[MOST][VERIFIED_CELL];
    n = 1;
    cells[0] = cli_json_word(row, "name");
    cJSON_ArrayForEach(column, columns) {
      const cJSON *cell = cJSON_GetObjectItemCaseSensitive(verdicts, column->valuestring);
      if (n == MOST) break;
      cells[n] = brief ? verified_text(cell, true, text[n], VERIFIED_CELL - 16)
                       : verified_long_text(cell, text[n], VERIFIED_CELL);
      if (brief && !strcmp(cli_json_word(cell, "rating"), "software")) strcat(text[n], " software");
      ++n;
    }
    cli_table_row(to, n, cells);
  }
}
