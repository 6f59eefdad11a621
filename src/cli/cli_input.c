/* cli_input.c - what sub-commands read: texts from operands, text files, JSON files and stdin;
 * token ids from JSON. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"

enum { MAX_BYTES = 1 << 30 };

int cli_file_read(cli_run *run, const char *path, char **bytes, size_t *n) {
  bool is_stdin = strcmp(path, "-") == 0;
  FILE *file = is_stdin ? stdin : fopen(path, "rb");
  struct stat info;
  *bytes = NULL;
  if (!file)
    return cli_error(run, errno == ENOENT ? ACCEL_ERROR_NOT_FOUND : ACCEL_ERROR_IO, "%s: %s", path,
                     strerror(errno));
  int code = 0;
  if (fstat(fileno(file), &info) == 0 && S_ISDIR(info.st_mode))
    code = cli_error(run, ACCEL_ERROR_IO, "%s is a directory, not a file", path);
  size_t size = 0, capacity = 0;
  char *data = NULL;
  while (!code) {
    if (capacity - size < 65536) {
      capacity = capacity ? 2 * capacity : 131072;
      char *more = capacity > 2 * (size_t)MAX_BYTES ? NULL : realloc(data, capacity);
      if (!more) {
        code = cli_error(run, ACCEL_ERROR_LIMIT,
                         "%s: too large to read at once (the limit is 1 GiB)", path);
        break;
      }
      data = more;
    }
    size_t got = fread(data + size, 1, capacity - size - 1, file);
    size += got;
    if (!got) break;
  }
  if (!code && ferror(file)) code = cli_error(run, ACCEL_ERROR_IO, "%s: %s", path, strerror(errno));
  if (!is_stdin) fclose(file);
  if (code) {
    free(data);
    return code;
  }
  data[size] = 0;
  *bytes = data;
  if (n) *n = size;
  return 0;
}

/* ---- JSON ---- */

/* C strings cannot hold U+0000; libaccel takes it as C0 80.  cJSON would cut strings at the escape,
 * so it is replaced before, in place. */
void cli_json_spell_nul(char *text) {
  char *to = text;
  for (const char *from = text; *from;) {
    if (strncmp(from, "\\u0000", 6) == 0) {
      memcpy(to, "\xC0\x80", 2);
      from += 6, to += 2;
    } else {
      if (*from == '\\' && from[1]) *to++ = *from++;
      *to++ = *from++;
    }
  }
  *to = 0;
}

int cli_json_parse(cli_run *run, const char *path, char *text, size_t n, cJSON **out) {
  if (memchr(text, 0, n))
    return cli_error(run, ACCEL_ERROR_FORMAT, "%s: byte %zu is NUL; this is not a JSON file", path,
                     strlen(text));
  cli_json_spell_nul(text);
  const char *end = NULL;
  *out = cJSON_ParseWithOpts(text, &end, 1);
  if (*out) return 0;
  unsigned line = 1, column = 1;
  for (const char *at = text; end && at < end; ++at) {
    column = *at == '\n' ? 1 : column + 1;
    line += *at == '\n';
  }
  return cli_error(run, ACCEL_ERROR_FORMAT, "%s: not valid JSON at line %u, column %u", path, line,
                   column);
}

static int json_record(cli_run *run, const char *path, const cJSON *item, uint32_t index,
                       const char *const *fields, uint32_t n_fields, const char **text) {
  if (cJSON_IsString(item)) {
    text[0] = item->valuestring;
    return 0;
  }
  if (!cJSON_IsObject(item))
    return cli_error(run, ACCEL_ERROR_FORMAT, "%s: entry %u is no string", path, index);
  for (uint32_t f = 0; f < n_fields; ++f) {
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(item, fields[f]);
    if (value && !cJSON_IsString(value) && !cJSON_IsNull(value))
      return cli_error(run, ACCEL_ERROR_FORMAT, "%s: entry %u: field '%s' is no string", path,
                       index, fields[f]);
    text[f] = cJSON_IsString(value) ? value->valuestring : NULL;
  }
  if (!text[0])
    return cli_error(run, ACCEL_ERROR_FORMAT, "%s: entry %u: field '%s' is missing", path, index,
                     fields[0]);
  return 0;
}

static int texts_from_json(cli_run *run, const char *path, char *bytes, size_t size,
                           const char *const *fields, cli_texts *out) {
  cJSON *root;
  int code = cli_json_parse(run, path, bytes, size, &root);
  if (code) return code;
  out->owner[1] = root;
  const cJSON *list = root;
  if (cJSON_IsObject(root)) list = cJSON_GetObjectItemCaseSensitive(root, "texts");
  if (!cJSON_IsArray(list))
    return cli_error(run, ACCEL_ERROR_FORMAT, "%s: expected an array of strings", path);
  out->n = (uint32_t)cJSON_GetArraySize(list);
  out->text = calloc((size_t)out->n * out->fields + 1, sizeof *out->text);
  if (!out->text) return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "%s: out of memory", path);
  uint32_t i = 0;
  for (const cJSON *item = list->child; item && !code; item = item->next, ++i)
    code =
        json_record(run, path, item, i, fields, out->fields, out->text + (size_t)i * out->fields);
  return code;
}

/* ---- one text a line ---- */

static int texts_from_lines(cli_run *run, const char *path, char *bytes, size_t size,
                            cli_texts *out) {
  if (memchr(bytes, 0, size))
    return cli_error(run, ACCEL_ERROR_FORMAT, "%s: byte %zu is NUL; this is not a text file", path,
                     strlen(bytes));
  char *at = bytes;
  if (size >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0) at += 3;
  uint32_t lines = 0;
  for (const char *p = at; *p; p += strcspn(p, "\n"), p += *p == '\n') ++lines;
  out->text = calloc((size_t)lines * out->fields + 1, sizeof *out->text);
  if (!out->text) return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "%s: out of memory", path);
  while (*at) {
    size_t n = strcspn(at, "\n");
    char *next = at + n + (at[n] == '\n');
    at[n] = 0;
    if (n && at[n - 1] == '\r') at[n - 1] = 0;
    out->text[(size_t)out->n++ * out->fields] = at;
    at = next;
  }
  return 0;
}

static bool is_json_name(const char *path) {
  size_t n = strlen(path);
  return n > 5 && strcmp(path + n - 5, ".json") == 0;
}

int cli_texts_read(cli_run *run, int first, const char *const *fields, uint32_t n_fields,
                   cli_texts *out) {
  *out = (cli_texts){.fields = n_fields};
  const char *path = run->value[OPT_INPUT];
  int code = 0;
  if (path && run->n_args > first)
    return cli_usage(run, "give texts as arguments or with --input, not both");
  if (path) {
    char *bytes;
    size_t size;
    code = cli_file_read(run, path, &bytes, &size);
    if (code) return code;
    out->owner[0] = bytes;
    code = is_json_name(path) ? texts_from_json(run, path, bytes, size, fields, out)
                              : texts_from_lines(run, path, bytes, size, out);
    if (!code && !out->n) code = cli_usage(run, "%s holds no texts", path);
  } else {
    out->n = run->n_args > first ? (uint32_t)(run->n_args - first) : 0;
    if (!out->n) return cli_usage(run, "no texts: give them as arguments or with --input FILE");
    out->text = calloc((size_t)out->n * n_fields, sizeof *out->text);
    if (!out->text) return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
    for (uint32_t i = 0; i < out->n; ++i)
      out->text[(size_t)i * n_fields] = run->args[first + (int)i];
  }
  if (code) cli_texts_free(out);
  return code;
}

void cli_texts_free(cli_texts *texts) {
  free((void *)texts->text);
  free(texts->owner[0]);
  cJSON_Delete(texts->owner[1]);
  *texts = (cli_texts){0};
}

/* ---- files ---- */

accel_media *cli_media(const char *const *names, uint32_t n) {
  accel_media *media = calloc((size_t)n + 1, sizeof *media);
  for (uint32_t i = 0; media && i < n; ++i) media[i].name = names[i];
  return media;
}

const char *cli_numbered(const char *path, uint32_t i, uint32_t n, char *into, size_t size) {
  const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
  const int stem = dot ? (int)(dot - path) : (int)strlen(path);
  if (n < 2)
    snprintf(into, size, "%s", path);
  else
    snprintf(into, size, "%.*s.%u%s", stem, path, i + 1, dot ? dot : "");
  return into;
}

/* ---- token ids ---- */

static int ids_row(cli_run *run, const char *path, const cJSON *list, uint32_t row, cli_ids *out) {
  int size = cJSON_GetArraySize(list);
  out->ids[row] = calloc((size_t)size + 1, sizeof **out->ids);
  if (!out->ids[row]) return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "%s: out of memory", path);
  for (const cJSON *item = list->child; item; item = item->next) {
    if (!cJSON_IsNumber(item) || item->valuedouble != (double)item->valueint)
      return cli_error(run, ACCEL_ERROR_FORMAT, "%s: entry %u of list %u is no token id", path,
                       out->count[row], row);
    out->ids[row][out->count[row]++] = item->valueint;
  }
  return 0;
}

static int ids_from_json(cli_run *run, const char *path, const cJSON *root, cli_ids *out) {
  const cJSON *list = cJSON_IsObject(root) ? cJSON_GetObjectItemCaseSensitive(root, "ids") : root;
  if (!cJSON_IsArray(list))
    return cli_error(run, ACCEL_ERROR_FORMAT,
                     "%s: expected an array of ids, or an array of such arrays", path);
  bool nested = !list->child || cJSON_IsArray(list->child);
  out->n = nested ? (uint32_t)cJSON_GetArraySize(list) : 1;
  out->count = calloc(out->n + 1, sizeof *out->count);
  out->ids = calloc(out->n + 1, sizeof *out->ids);
  if (!out->count || !out->ids)
    return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "%s: out of memory", path);
  if (!nested) return ids_row(run, path, list, 0, out);
  uint32_t row = 0;
  for (const cJSON *item = list->child; item; item = item->next, ++row) {
    if (!cJSON_IsArray(item))
      return cli_error(run, ACCEL_ERROR_FORMAT, "%s: entry %u is no array of ids", path, row);
    int code = ids_row(run, path, item, row, out);
    if (code) return code;
  }
  return 0;
}

int cli_ids_read(cli_run *run, const char *path, cli_ids *out) {
  *out = (cli_ids){0};
  char *bytes;
  size_t size;
  cJSON *root = NULL;
  int code = cli_file_read(run, path, &bytes, &size);
  if (code) return code;
  code = cli_json_parse(run, path, bytes, size, &root);
  if (!code) code = ids_from_json(run, path, root, out);
  cJSON_Delete(root);
  free(bytes);
  if (code) cli_ids_free(out);
  return code;
}

void cli_ids_free(cli_ids *ids) {
  for (uint32_t i = 0; ids->ids && i < ids->n; ++i) free(ids->ids[i]);
  free(ids->ids);
  free(ids->count);
  *ids = (cli_ids){0};
}

int cli_image_size(const cli_run *run, uint32_t *width, uint32_t *height) {
  const char *text = run->value[OPT_IMAGE_SIZE];
  char rest;
  if (!text || sscanf(text, "%ux%u%c", width, height, &rest) == 2) return 0;
  return cli_usage(run, "--size is WIDTHxHEIGHT, such as 512x512, not '%s'", text);
}
