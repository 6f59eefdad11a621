/* map_input.h - the rows of accel map: files of JSON Lines, CSV and lines of text, one behind
 * another, and where each shard of them begins. */
#ifndef ACCEL_CLI_MAP_INPUT_H
#define ACCEL_CLI_MAP_INPUT_H

#include "cli/cli_task.h"

typedef enum map_format { MAP_TEXT, MAP_JSONL, MAP_CSV, MAP_TSV } map_format;

enum { MAP_MAX_RECORD = 64 << 20 }; /* bytes of one record; a longer one is a row that fails */

typedef struct map_file {
  const char *path;
  map_format format;
  int column[CLI_TASK_FIELDS]; /* CSV: the column of each field; -1: the file lacks it */
  int columns;                 /* CSV: in the heading */
  uint64_t bytes, hash;        /* FNV-1a of all bytes */
  int64_t modified;            /* nanoseconds since 1970 */
} map_file;

typedef struct map_place {
  uint32_t file;
  uint64_t offset, line;
} map_place;

typedef struct map_row {
  uint64_t number, line; /* of all rows, from 0; of its file, from 1 */
  const char *path;
  const char *field[CLI_TASK_FIELDS];
  char *why;   /* why it is broken; NULL: it is not */
  void *owned; /* what the fields point into */
  char *list;  /* the text of the task's list */
} map_row;

typedef struct map_input {
  cli_run *run;
  const cli_task *task;
  const char *column[CLI_TASK_FIELDS]; /* what the fields are called in the files */
  map_file *file;
  uint32_t n;
  uint64_t shard_rows, rows;
  map_place *shard; /* [shards] where each begins */
  uint64_t shards;
  /* the reader */
  FILE *stream;
  map_place at;
  uint64_t row;
  char *record;
  size_t size, capacity;
  bool too_long, has_nul, open_quote;
} map_input;

/* Reads files[n] through once: rows, shards, hashes.  `format`: that of all files, NULL: as their
 * names end.  run, task, column and shard_rows are set.  0 or an exit code; map_input_close() in any
 * case. */
int map_input_open(map_input *input, const char *const *files, uint32_t n, const char *format);
void map_input_close(map_input *input);

/* The next row is the first of a shard. */
int map_input_seek(map_input *input, uint64_t shard);
/* *row, to be freed with map_row_free(); row->path NULL: there are no more.  0 or an exit code. */
int map_input_next(map_input *input, map_row *row);
void map_row_free(map_row *row);
/* No file has been written since map_input_open().  0 or an exit code. */
int map_input_same(map_input *input);

/* The fields of a record into row->field, or why it has none into row->why (map_record.c). */
int map_record_read(map_input *input, const map_file *file, map_row *row);
/* The heading of a CSV file: the columns of `file`. */
int map_heading_read(map_input *input, map_file *file);

#endif
