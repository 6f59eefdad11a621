/* map_input.c - reads files record by record, and finds where shards of rows begin. */
#include "cli/map_input.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "shared/hash.h"

/* ---- records ---- */

static bool keep(map_input *in, char c) {
  if (in->size + 1 >= in->capacity) {
    const size_t more = in->capacity ? 2 * in->capacity : 4096;
    char *larger = realloc(in->record, more);
    if (!larger) return false;
    in->record = larger;
    in->capacity = more;
  }
  in->record[in->size++] = c;
  return true;
}

static bool is_csv(map_format format) { return format == MAP_CSV || format == MAP_TSV; }

/* Where a character of CSV is. */
typedef enum quoting { FIELD_BEGIN, PLAIN, QUOTED, QUOTE_IN_QUOTED } quoting;

static quoting quoting_after(quoting state, int c, char separator) {
  if (state == QUOTED) return c == '"' ? QUOTE_IN_QUOTED : QUOTED;
  if (c == '"' && (state == FIELD_BEGIN || state == QUOTE_IN_QUOTED)) return QUOTED;
  return c == separator ? FIELD_BEGIN : PLAIN;
}

static int read_failed(map_input *in, const char *path) {
  return cli_error(in->run, ACCEL_ERROR_IO, "%s: cannot read: %s", path, strerror(errno));
}

/* One record, without the end of its line, NUL-terminated; in->at moves behind it.  *any: there was
 * one.  `hash` may be NULL. */
static int next_record(map_input *in, const map_file *file, uint64_t *hash, bool *any) {
  const bool csv = is_csv(file->format);
  const char separator = file->format == MAP_TSV ? '\t' : ',';
  quoting state = FIELD_BEGIN;
  uint64_t h = hash ? *hash : 0, bytes = 0;
  int c;
  in->size = 0;
  in->too_long = in->has_nul = false;
  while ((c = getc_unlocked(in->stream)) != EOF) {
    ++bytes;
    h = accel_hash(h, &(char){(char)c}, 1);
    in->at.line += c == '\n';
    if (c == '\n' && !(csv && state == QUOTED)) break;
    if (csv) state = quoting_after(state, c, separator);
    in->has_nul |= !c;
    in->too_long |= in->size >= MAP_MAX_RECORD;
    if (!in->too_long && !keep(in, (char)c))
      return cli_error(in->run, ACCEL_ERROR_OUT_OF_MEMORY, "%s: out of memory", file->path);
  }
  if (ferror(in->stream)) return read_failed(in, file->path);
  if (in->size && in->record[in->size - 1] == '\r') --in->size;
  if (!keep(in, 0)) return cli_error(in->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  --in->size;
  in->open_quote = csv && state == QUOTED;
  in->at.offset += bytes;
  if (hash) *hash = h;
  *any = bytes > 0;
  return 0;
}

/* Lines of text are rows even when they are empty. */
static bool is_row(const map_input *in, map_format format) {
  return format == MAP_TEXT || in->too_long || in->has_nul ||
         in->record[strspn(in->record, " \t")] != 0;
}

/* ---- files ---- */

static bool ends_with(const char *path, const char *end) {
  const size_t n = strlen(path), m = strlen(end);
  return n > m && !strcmp(path + n - m, end);
}

static map_format format_of(const char *path, const char *given) {
  if (given)
    return !strcmp(given, "jsonl") ? MAP_JSONL
           : !strcmp(given, "csv") ? MAP_CSV
           : !strcmp(given, "tsv") ? MAP_TSV
                                   : MAP_TEXT;
  return ends_with(path, ".jsonl") || ends_with(path, ".ndjson") ? MAP_JSONL
         : ends_with(path, ".csv")                               ? MAP_CSV
         : ends_with(path, ".tsv")                               ? MAP_TSV
                                                                 : MAP_TEXT;
}

static int look(map_input *in, FILE *stream, const char *path, map_file *to) {
  struct stat info;
  if (fstat(fileno(stream), &info)) return read_failed(in, path);
  if (!S_ISREG(info.st_mode))
    return cli_error(in->run, ACCEL_ERROR_IO,
                     "%s is no regular file; a job that can be resumed reads files", path);
  to->bytes = (uint64_t)info.st_size;
  to->modified = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
  return 0;
}

static int open_at(map_input *in, map_place place) {
  if (in->stream) fclose(in->stream);
  const char *path = in->file[place.file].path;
  in->stream = fopen(path, "rb");
  if (!in->stream)
    return cli_error(in->run, errno == ENOENT ? ACCEL_ERROR_NOT_FOUND : ACCEL_ERROR_IO, "%s: %s",
                     path, strerror(errno));
  in->at = place;
  return fseeko(in->stream, (off_t)place.offset, SEEK_SET) ? read_failed(in, path) : 0;
}

/* A mark in front of UTF-8 is passed over; UTF-16 is refused. */
static int skip_mark(map_input *in, uint64_t *hash) {
  unsigned char mark[3] = {0};
  const size_t n = fread(mark, 1, 3, in->stream);
  if (n >= 2 && ((mark[0] == 0xFF && mark[1] == 0xFE) || (mark[0] == 0xFE && mark[1] == 0xFF)))
    return cli_error(in->run, ACCEL_ERROR_FORMAT,
                     "%s is UTF-16; make it UTF-8: iconv -f UTF-16 -t UTF-8",
                     in->file[in->at.file].path);
  const bool marked = n == 3 && !memcmp(mark, "\xEF\xBB\xBF", 3);
  if (marked) *hash = accel_hash(*hash, mark, 3);
  in->at.offset = marked ? 3 : 0;
  return fseeko(in->stream, (off_t)in->at.offset, SEEK_SET)
             ? read_failed(in, in->file[in->at.file].path)
             : 0;
}

/* ---- the pass over all files ---- */

static int begin_shard(map_input *in, map_place place) {
  if (in->rows % in->shard_rows) return 0;
  if ((in->shards & (in->shards - 1)) == 0) {
    map_place *more = realloc(in->shard, (in->shards ? 2 * in->shards : 1) * sizeof *more);
    if (!more) return cli_error(in->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
    in->shard = more;
  }
  in->shard[in->shards++] = place;
  return 0;
}

static int scan(map_input *in, uint32_t number) {
  map_file *file = &in->file[number];
  int stop;
  bool any = true, heading = is_csv(file->format);
  file->hash = ACCEL_HASH_SEED;
  int code = open_at(in, (map_place){.file = number, .line = 1});
  if (!code) code = look(in, in->stream, file->path, file);
  if (!code) code = skip_mark(in, &file->hash);
  while (!code) {
    const map_place place = in->at;
    code = next_record(in, file, &file->hash, &any);
    if (code || !any) break;
    if (cli_asked_to_stop(&stop)) return cli_error(in->run, ACCEL_ERROR_CANCELLED, "stopped");
    if (!is_row(in, file->format)) continue;
    if (heading) {
      code = map_heading_read(in, file);
      heading = false;
      continue;
    }
    code = begin_shard(in, place);
    ++in->rows;
  }
  if (!code && heading && file->bytes)
    code = cli_error(in->run, ACCEL_ERROR_FORMAT, "%s has no heading", file->path);
  return code;
}

int map_input_open(map_input *in, const char *const *files, uint32_t n, const char *format) {
  in->file = calloc((size_t)n + 1, sizeof *in->file);
  if (!in->file) return cli_error(in->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  in->n = n;
  int code = 0;
  for (uint32_t i = 0; i < n; ++i) {
    map_file *file = &in->file[i];
    *file = (map_file){.path = files[i], .format = format_of(files[i], format)};
    if (file->format == MAP_TEXT && in->task->field[1] && !in->task->optional)
      return cli_usage(
          in->run,
          "%s: a line of text is one field, --task %s takes '%s' and '%s'; give CSV or "
          "JSON Lines (--input-format)",
          file->path, in->task->name, in->column[0], in->column[1]);
  }
  for (uint32_t i = 0; i < n && !code; ++i) code = scan(in, i);
  return code;
}

void map_input_close(map_input *in) {
  if (in->stream) fclose(in->stream);
  free(in->file);
  free(in->shard);
  free(in->record);
}

/* ---- rows ---- */

int map_input_seek(map_input *in, uint64_t shard) {
  in->row = shard * in->shard_rows;
  return open_at(in, in->shard[shard]);
}

/* Behind the mark and the heading of the next file. */
static int next_file(map_input *in) {
  uint64_t unused = 0;
  bool any = true;
  int code = open_at(in, (map_place){.file = in->at.file + 1, .line = 1});
  const map_file *file = &in->file[in->at.file];
  if (!code) code = skip_mark(in, &unused);
  bool heading = is_csv(file->format);
  while (!code && heading && any) {
    code = next_record(in, file, NULL, &any);
    heading = !any || !is_row(in, file->format);
  }
  return code;
}

int map_input_next(map_input *in, map_row *row) {
  *row = (map_row){0};
  while (true) {
    const map_file *file = &in->file[in->at.file];
    const uint64_t line = in->at.line;
    bool any;
    int code = next_record(in, file, NULL, &any);
    if (code) return code;
    if (!any && in->at.file + 1 == in->n) return 0;
    if (!any && (code = next_file(in))) return code;
    if (!any || !is_row(in, file->format)) continue;
    *row = (map_row){.number = in->row++, .line = line, .path = file->path};
    return map_record_read(in, file, row);
  }
}

void map_row_free(map_row *row) {
  free(row->owned);
  free(row->list);
  free(row->why);
  *row = (map_row){0};
}

int map_input_same(map_input *in) {
  for (uint32_t i = 0; i < in->n; ++i) {
    const map_file *file = &in->file[i];
    map_file now = {0};
    FILE *stream = fopen(file->path, "rb");
    const int code = stream ? look(in, stream, file->path, &now) : read_failed(in, file->path);
    if (stream) fclose(stream);
    if (code) return code;
    if (now.bytes != file->bytes || now.modified != file->modified)
      return cli_error(in->run, ACCEL_ERROR_IO,
                       "%s was written while it was read; run the same command again with the file "
                       "as it was, or another --output for what it is now",
                       file->path);
  }
  return 0;
}
