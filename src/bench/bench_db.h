/* bench_db.h - the database of what was measured: opening, migrating, and the rows that all others
 * refer to.  SQLite in WAL mode: any number of processes may read and write, each write is one
 * transaction, and a process that is killed loses no more than the row it was writing. */
#ifndef ACCEL_BENCH_DB_H
#define ACCEL_BENCH_DB_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "accel/accel.h"

typedef struct cJSON cJSON;

typedef struct bench_db {
  sqlite3 *db;
  const char *path; /* the caller's */
} bench_db;

typedef enum bench_db_mode {
  /* as READ, for who has something else to do: waits for nobody longer than a moment, and brings no
   * older schema forward, which is an error then */
  BENCH_DB_LOOK,
  BENCH_DB_READ,  /* a transaction that reads has begun; the file must be there */
  BENCH_DB_WRITE, /* a transaction that writes has begun; the file must be there */
  BENCH_DB_CREATE /* the same; the file is made when absent */
} bench_db_mode;

/* false: `message` says why, and nothing is left open.  Older schemas are brought forward. */
bool bench_db_open(bench_db *to, const char *path, bench_db_mode mode, char *message,
                   uint32_t size);
/* Closes; what was not committed is undone. */
void bench_db_close(bench_db *db);
/* Ends the transaction, or undoes it where rc is none of SQLITE_OK, DONE, ROW: then false and the
 * message. */
bool bench_db_commit(bench_db *db, int rc, char *message, uint32_t size);
bool bench_db_begin(bench_db *db, char *message, uint32_t size); /* another one that writes */
/* What SQLite says, with file and remedy. */
void bench_db_error(const bench_db *db, int rc, char *message, uint32_t size);

/* The n-th '?' of a statement, by type. */
typedef struct bench_binder {
  sqlite3_stmt *query;
  int n;
} bench_binder;
void bench_bind_text(bench_binder *b, const char *value); /* NULL: NULL */
void bench_bind_int(bench_binder *b, int64_t value);
void bench_bind_real(bench_binder *b, double value); /* NaN: NULL */
/* Prepares `sql` anew; false: *rc says why. */
bool bench_prepare(const bench_db *db, const char *sql, bench_binder *b, int *rc);
/* Hands each row of a prepared query to `take`, which answers false without memory, and finalizes
 * it.  SQLITE_DONE, or what went wrong. */
int bench_take_rows(const bench_binder *b, bool (*take)(sqlite3_stmt *row, void *into), void *into);

/* A name for a row that no other row has: 32 hexadecimal digits of chance. */
void bench_uid(char uid[33]);

/* The rows of this machine, a device of it and this build, made when absent; `device` may be NULL. */
typedef struct bench_refs {
  int64_t machine, device, build;
} bench_refs;
int bench_refs_of(const bench_db *db, const accel_device_info *device, bench_refs *out);
/* The row of this machine; 0: nothing was measured here. */
int64_t bench_this_machine(const bench_db *db);

/* The columns of a row under their own names, numbers to the last digit; NULLs and columns named in
 * `but` (a list closed by NULL; may be NULL) are left out. */
void bench_row_json(sqlite3_stmt *query, const char *const *but, cJSON *out);

/* Is it a file of SQLite? */
bool bench_is_store(const char *path);

#endif
