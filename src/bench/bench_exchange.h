/* bench_exchange.h - rows of the database as JSON Lines: to another machine, and back. */
#ifndef ACCEL_BENCH_EXCHANGE_H
#define ACCEL_BENCH_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct bench_exchanged {
  uint32_t runs, verdicts; /* lines that were written or taken */
  uint32_t known;          /* lines whose row was there already */
} bench_exchanged;

/* Writes every run and verdict, one a line, each with its machine, device and build
 * ("accel.row/1").  false: `message` says why. */
bool bench_export(const char *path, FILE *to, bench_exchanged *count, char *message, uint32_t size);
/* Adds what such a file holds, in one transaction: all of it or, with a message that names the
 * line, nothing; `name` is the file's.  Rows that are there (by their uid) are passed over. */
bool bench_import(const char *path, FILE *from, const char *name, bench_exchanged *count,
                  char *message, uint32_t size);

#endif
