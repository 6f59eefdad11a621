/* cli_series.c - time series from operands, CSV and JSON files. */
#include "cli/cli_series.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_COLUMNS = 1 << 16 };

static int no_memory(cli_run *run) {
  return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
}

/* ---- building ---- */

/* One more series, without values; false: no memory. */
static bool add_series(cli_series *s, const char *name) {
  accel_series *series = realloc(s->series, (s->n + 1u) * sizeof *series);
  if (series) s->series = series;
  char **names = realloc(s->name, (s->n + 1u) * sizeof *names);
  if (names) s->name = names;
  char *copy = strdup(name);
  float *values = malloc((size_t)(s->capacity ? s->capacity : 1) * sizeof *values);
  if (!series || !names || !copy || !values) {
    free(copy);
    free(values);
    return false;
  }
  s->series[s->n] = (accel_series){.values = values};
  s->name[s->n++] = copy;
  return true;
}

/* Room for `n` values in each. */
static bool reserve(cli_series *s, uint64_t n) {
  if (n <= s->capacity) return true;
  const uint64_t more = 2 * n;
  for (uint32_t i = 0; i < s->n; i++) {
    float *grown = realloc((float *)(uintptr_t)s->series[i].values, more * sizeof *grown);
    if (!grown) return false;
    s->series[i].values = grown;
  }
  s->capacity = more;
  return true;
}

static void put(cli_series *s, uint32_t i, float value) {
  ((float *)(uintptr_t)s->series[i].values)[s->series[i].n++] = value;
}

void cli_series_free(cli_series *s) {
  for (uint32_t i = 0; i < s->n; i++) {
    free((float *)(uintptr_t)s->series[i].values);
    free(s->name[i]);
  }
  free(s->series);
  free(s->name);
  *s = (cli_series){0};
}

/* A number, or a missing value; false: something else. */
static bool read_value(const char *text, float *out) {
  static const char *const missing[] = {"", "na", "nan", "null", "none"};
  char *end;
  text += strspn(text, " \t");
  size_t n = strlen(text);
  while (n && (text[n - 1] == ' ' || text[n - 1] == '\t')) n--;
  for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
    if (strlen(missing[i]) != n || strncasecmp(missing[i], text, n) != 0) continue;
    *out = NAN;
    return true;
  }
  *out = strtof(text, &end);
  return end == text + n && isfinite(*out);
}

/* ---- CSV ---- */

typedef struct csv {
  cli_run *run;
  const char *path;
  char delimiter;
  char **cell; /* [columns] of the line at hand */
  uint32_t columns, room, line;
  int32_t *series; /* [columns] of the series that a column is, -1 not yet, -2 of words */
} csv;

/* The cells of a line, which is cut up for it; quotes may stand around a cell. */
static int split(csv *f, char *line) {
  f->columns = 0;
  for (char *at = line; at;) {
    char *to = at, *cell = at;
    const bool quoted = *at == '"';
    if (quoted) at++;
    while (*at && (quoted ? *at != '"' || at[1] == '"' : *at != f->delimiter)) {
      if (quoted && *at == '"') at++;
      *to++ = *at++;
    }
    if (quoted && *at != '"')
      return cli_error(f->run, ACCEL_ERROR_FORMAT, "%s: line %u: a quote is not closed", f->path,
                       f->line);
    if (quoted) at++;
    if (*at && *at != f->delimiter)
      return cli_error(f->run, ACCEL_ERROR_FORMAT, "%s: line %u: text behind a closing quote",
                       f->path, f->line);
    char *next = *at ? at + 1 : NULL;
    *to = 0;
    if (f->columns == f->room) {
      char **grown =
          f->room < MAX_COLUMNS ? realloc(f->cell, (2u * f->room + 8) * sizeof *grown) : NULL;
      if (!grown)
        return cli_error(f->run, ACCEL_ERROR_LIMIT, "%s: line %u: too many columns", f->path,
                         f->line);
      f->cell = grown;
      f->room = 2 * f->room + 8;
    }
    f->cell[f->columns++] = cell;
    at = next;
  }
  return 0;
}

static bool is_header(const csv *f) {
  float value;
  for (uint32_t i = 0; i < f->columns; i++)
    if (!read_value(f->cell[i], &value)) return true;
  return false;
}

/* One line of values; a column is left aside when the first thing in it is no number. */
static int take_line(csv *f, cli_series *out, char *const *names, uint64_t rows) {
  for (uint32_t i = 0; i < f->columns; i++) {
    char number[16];
    float value;
    const bool fits = read_value(f->cell[i], &value);
    if (f->series[i] == -2) continue;
    if (f->series[i] < 0 && !fits) {
      f->series[i] = -2;
      continue;
    }
    if (!fits)
      return cli_error(f->run, ACCEL_ERROR_FORMAT,
                       "%s: line %u, column %u (%s): '%.60s' is no number", f->path, f->line, i + 1,
                       out->name[f->series[i]], f->cell[i]);
    if (f->series[i] < 0 && isnan(value)) continue; /* what the column is, a later line tells */
    if (f->series[i] < 0) {
      snprintf(number, sizeof number, "%u", i + 1);
      if (!add_series(out, names ? names[i] : number)) return no_memory(f->run);
      f->series[i] = (int32_t)out->n - 1;
      if (!reserve(out, rows + 1)) return no_memory(f->run);
      while (out->series[f->series[i]].n < rows) put(out, (uint32_t)f->series[i], NAN);
    }
    if (!reserve(out, rows + 1)) return no_memory(f->run);
    put(out, (uint32_t)f->series[i], value);
  }
  return 0;
}

static char **copy_cells(const csv *f) {
  char **copy = calloc((size_t)f->columns + 1, sizeof *copy);
  for (uint32_t i = 0; copy && i < f->columns; i++) copy[i] = strdup(f->cell[i]);
  return copy;
}

static char delimiter_of(const char *line) {
  const size_t end = strcspn(line, "\n");
  const char *const known = ",;\t";
  for (const char *d = known; *d; d++)
    if (memchr(line, *d, end)) return *d;
  return ',';
}

/* The lines behind the first; columns are counted by it. */
static int take_lines(csv *f, char *at, cli_series *out) {
  char **names = NULL;
  uint64_t rows = 0;
  uint32_t columns = 0;
  int code = 0;
  while (*at && !code) {
    const size_t n = strcspn(at, "\n");
    char *next = at + n + (at[n] == '\n');
    at[n] = 0;
    if (n && at[n - 1] == '\r') at[n - 1] = 0;
    f->line++;
    const bool empty = !*at && columns != 1;
    if (!empty) code = split(f, at);
    if (!empty && !code && !columns) {
      columns = f->columns;
      f->series = malloc(columns * sizeof *f->series);
      for (uint32_t i = 0; f->series && i < columns; i++) f->series[i] = -1;
      if (!f->series) code = no_memory(f->run);
      if (!code && is_header(f)) names = copy_cells(f);
      if (names) {
        at = next;
        continue;
      }
    }
    if (!empty && !code && f->columns != columns)
      code = cli_error(f->run, ACCEL_ERROR_FORMAT, "%s: line %u has %u cells, the first line %u",
                       f->path, f->line, f->columns, columns);
    if (!empty && !code) code = take_line(f, out, names, rows++);
    at = next;
  }
  for (uint32_t i = 0; names && i < columns; i++) free(names[i]);
  free(names);
  return code;
}

static int from_csv(cli_run *run, const char *path, char *bytes, cli_series *out) {
  char *at = strncmp(bytes, "\xEF\xBB\xBF", 3) == 0 ? bytes + 3 : bytes;
  csv f = {.run = run, .path = path, .delimiter = delimiter_of(at)};
  const int code = take_lines(&f, at, out);
  free(f.series);
  free(f.cell);
  return code;
}

/* ---- JSON ---- */

static int json_series(cli_run *run, const char *path, const cJSON *list, const char *name,
                       cli_series *out) {
  uint32_t k = 0;
  if (!cJSON_IsArray(list))
    return cli_error(run, ACCEL_ERROR_FORMAT, "%s: series %s is no array of numbers", path, name);
  if (!add_series(out, name) || !reserve(out, (uint64_t)cJSON_GetArraySize(list)))
    return no_memory(run);
  for (const cJSON *item = list->child; item; item = item->next, k++) {
    if (!cJSON_IsNumber(item) && !cJSON_IsNull(item))
      return cli_error(run, ACCEL_ERROR_FORMAT, "%s: series %s: entry %u is no number", path, name,
                       k);
    put(out, out->n - 1, cJSON_IsNull(item) ? NAN : (float)item->valuedouble);
  }
  return 0;
}

static int from_json(cli_run *run, const char *path, char *bytes, size_t size, cli_series *out) {
  cJSON *root;
  int code = cli_json_parse(run, path, bytes, size, &root);
  if (code) return code;
  const bool one = cJSON_IsArray(root) && !cJSON_IsArray(root->child);
  uint32_t k = 0;
  if (one || (!cJSON_IsArray(root) && !cJSON_IsObject(root))) {
    code = json_series(run, path, root, "1", out);
  } else {
    for (const cJSON *item = root->child; item && !code; item = item->next) {
      char number[16];
      snprintf(number, sizeof number, "%u", ++k);
      code = json_series(run, path, item, item->string ? item->string : number, out);
    }
  }
  cJSON_Delete(root);
  return code;
}

/* ---- all of them ---- */

static int from_operands(cli_run *run, int first, cli_series *out) {
  const uint64_t n = (uint64_t)(run->n_args - first);
  if (!add_series(out, "1") || !reserve(out, n)) return no_memory(run);
  for (int i = first; i < run->n_args; i++) {
    float value;
    if (!read_value(run->args[i], &value))
      return cli_usage(run, "value %d, '%s', is no number; files are given with --input",
                       i - first + 1, run->args[i]);
    put(out, 0, value);
  }
  return 0;
}

int cli_series_read(cli_run *run, int first, cli_series *out) {
  const char *path = run->value[OPT_INPUT];
  *out = (cli_series){0};
  int code;
  if (path && run->n_args > first)
    return cli_usage(run, "give values as arguments or with --input, not both");
  if (!path && run->n_args == first)
    return cli_usage(run, "no values: give them as arguments or with --input FILE.csv");
  if (path) {
    const size_t n = strlen(path);
    char *bytes;
    size_t size;
    code = cli_file_read(run, path, &bytes, &size);
    if (code) return code;
    code = n > 5 && strcmp(path + n - 5, ".json") == 0 ? from_json(run, path, bytes, size, out)
                                                       : from_csv(run, path, bytes, out);
    free(bytes);
    if (!code && !out->n)
      code = cli_error(run, ACCEL_ERROR_FORMAT, "%s holds no series of numbers", path);
  } else {
    code = from_operands(run, first, out);
  }
  if (code) cli_series_free(out);
  return code;
}
