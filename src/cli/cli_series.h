/* cli_series.h - time series from operands, CSV and JSON files. */
#ifndef ACCEL_CLI_SERIES_H
#define ACCEL_CLI_SERIES_H

#include "cli/cli.h"

typedef struct cli_series {
  accel_series *series; /* [n] */
  char **name;          /* [n] of columns; "1", "2" .. where the file names none */
  uint32_t n;
  uint64_t capacity; /* private: values that each has room for */
} cli_series;

/* Operands from `first` on as one series, or those of --input (not both).  A CSV file (comma,
 * semicolon or tab) has a series in each column whose first value is a number, under a line of names
 * or none; FILE.json is an array of numbers, of such arrays, or an object of them.  Empty cells, NA,
 * nan and null are missing values.  Errors name the line, or the entry.  0 or an exit code. */
int cli_series_read(cli_run *run, int first, cli_series *out);
void cli_series_free(cli_series *series);

#endif
