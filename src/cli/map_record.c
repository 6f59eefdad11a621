/* map_record.c - the fields of one record of JSON Lines, CSV or text. */
#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/map_input.h"

/* Sets row->why.  0 or an exit code. */
static int broken(map_input *in, map_row *row, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int broken(map_input *in, map_row *row, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  row->why = strdup(text);
  return row->why ? 0 : cli_error(in->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
}

static int no_memory(map_input *in) {
  return cli_error(in->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
}

/* ---- CSV: RFC 4180; quotes stand for themselves but at the beginning of a field ---- */

/* The next field of the record at *at, unquoted in place; *at NULL behind the last. */
static char *next_field(char **at, char separator) {
  char *from = *at, *to = *at, *field = *at;
  bool quoted = *from == '"';
  from += quoted;
  while (*from && (quoted || *from != separator)) {
    if (quoted && *from == '"' && from[1] != '"') {
      quoted =
          false; /* what follows up to the separator belongs to it, as readers of CSV have it */
      ++from;
      continue;
    }
    if (quoted && *from == '"') ++from;
    *to++ = *from++;
  }
  *at = *from ? from + 1 : NULL;
  *to = 0;
  return field;
}

static char separator_of(const map_file *file) { return file->format == MAP_TSV ? '\t' : ','; }

int map_heading_read(map_input *in, map_file *file) {
  file->columns = 0;
  for (int f = 0; f < CLI_TASK_FIELDS; ++f) file->column[f] = -1;
  char *copy = strdup(in->record), seen[256] = "";
  if (!copy) return no_memory(in);
  int code = 0;
  for (char *at = copy; at && !code; ++file->columns) {
    const char *name = next_field(&at, separator_of(file));
    for (int f = 0; f < CLI_TASK_FIELDS && !code; ++f) {
      if (!in->column[f] || strcmp(name, in->column[f]) != 0) continue;
      if (file->column[f] >= 0)
        code = cli_error(in->run, ACCEL_ERROR_FORMAT,
                         "%s: the heading has '%s' twice; rename one of the two columns",
                         file->path, name);
      file->column[f] = file->columns;
    }
    const size_t n = strlen(seen);
    snprintf(seen + n, sizeof seen - n, "%s'%s'", n ? ", " : "", name);
  }
  free(copy);
  for (int f = 0; f < CLI_TASK_FIELDS && !code; ++f)
    if (in->column[f] && file->column[f] < 0 && !(f && in->task->optional))
      code = cli_error(in->run, ACCEL_ERROR_FORMAT,
                       "%s: no column '%s'; it has %s; say which with --column", file->path,
                       in->column[f], seen);
  return code;
}

static int csv_record(map_input *in, const map_file *file, map_row *row) {
  int column = 0;
  if (in->open_quote) return broken(in, row, "a quote is never closed");
  for (char *at = row->owned; at; ++column) {
    const char *field = next_field(&at, separator_of(file));
    for (int f = 0; f < CLI_TASK_FIELDS; ++f)
      if (file->column[f] == column) row->field[f] = field;
  }
  return column == file->columns
             ? 0
             : broken(in, row, "%d fields, the heading has %d", column, file->columns);
}

/* ---- JSON Lines ---- */

/* A list as the text that a CSV file would have for it. */
static int list_field(map_input *in, const cJSON *value, int f, map_row *row) {
  if (!cJSON_IsArray(value)) return broken(in, row, "field '%s' is no list", in->column[f]);
  row->field[f] = row->list = cJSON_PrintUnformatted(value);
  return row->list ? 0 : no_memory(in);
}

/* Member `name` as a text of *at, where it is copied to.  0 or an exit code. */
static int json_field(map_input *in, const cJSON *object, int f, map_row *row, char **at) {
  const char *name = in->column[f];
  const cJSON *value = NULL;
  for (const cJSON *item = object->child; item; item = item->next) {
    if (strcmp(item->string, name) != 0) continue;
    if (value) return broken(in, row, "field '%s' is there twice", name);
    value = item;
  }
  if (!value || cJSON_IsNull(value))
    return f && in->task->optional ? 0 : broken(in, row, "field '%s' is missing", name);
  if (f && f == (int)in->task->list) return list_field(in, value, f, row);
  if (!cJSON_IsString(value)) return broken(in, row, "field '%s' is no string", name);
  row->field[f] = strcpy(*at, value->valuestring);
  *at += strlen(value->valuestring) + 1;
  return 0;
}

static int json_record(map_input *in, map_row *row) {
  const char *end = NULL;
  char *text = row->owned, *copy = malloc(in->size + CLI_TASK_FIELDS);
  if (!copy) return no_memory(in);
  cli_json_spell_nul(text);
  cJSON *root = cJSON_ParseWithOpts(text, &end, 1);
  row->owned = copy;
  int code = 0;
  if (!root) {
    code = broken(in, row, "no valid JSON at byte %zu", end ? (size_t)(end - text) : 0);
  } else if (cJSON_IsString(root)) {
    row->field[0] = strcpy(copy, root->valuestring);
    if (in->column[1] && !in->task->optional)
      code =
          broken(in, row, "a string, no object with '%s' and '%s'", in->column[0], in->column[1]);
  } else if (!cJSON_IsObject(root)) {
    code = broken(in, row, "neither an object nor a string");
  } else {
    for (int f = 0; f < CLI_TASK_FIELDS && in->column[f] && !code && !row->why; ++f)
      code = json_field(in, root, f, row, &copy);
  }
  cJSON_Delete(root);
  free(text);
  return code;
}

int map_record_read(map_input *in, const map_file *file, map_row *row) {
  if (in->too_long)
    return broken(in, row, "longer than %d MiB, which is the most of a row", MAP_MAX_RECORD >> 20);
  if (in->has_nul) return broken(in, row, "byte %zu is NUL; this is no text", strlen(in->record));
  row->owned = malloc(in->size + 1);
  if (!row->owned) return no_memory(in);
  memcpy(row->owned, in->record, in->size + 1);
  if (file->format == MAP_JSONL) return json_record(in, row);
  if (file->format != MAP_TEXT) return csv_record(in, file, row);
  row->field[0] = row->owned;
  return 0;
}
