/* bench_look.c - facts of a database. */
#include "bench/bench_look.h"

#include <stdio.h>

#include "bench/bench_db.h"
#include "bench/bench_schema.h"

static int64_t number(const bench_db *db, const char *sql, int *rc) {
  bench_binder b;
  int64_t n = 0;
  if (!bench_prepare(db, sql, &b, rc)) return 0;
  const int step = sqlite3_step(b.query);
  if (step == SQLITE_ROW)
    n = sqlite3_column_int64(b.query, 0);
  else
    *rc = step;
  sqlite3_finalize(b.query);
  return n;
}

bool bench_look_at(const char *path, bench_look *out, char *message, uint32_t size) {
  bench_db db = {.path = path};
  *out = (bench_look){.newest = BENCH_SCHEMA_VERSION};
  int rc = sqlite3_open_v2(path, &db.db, SQLITE_OPEN_READONLY, NULL);
  if (rc == SQLITE_OK) out->schema = (int)number(&db, "PRAGMA user_version", &rc);
  if (rc == SQLITE_OK && out->schema > 0 && out->schema <= out->newest)
    out->runs = number(&db, "SELECT count(*) FROM run", &rc);
  if (rc == SQLITE_OK && out->schema == out->newest)
    out->verdicts = number(&db, "SELECT count(*) FROM verify", &rc);
  if (rc != SQLITE_OK) bench_db_error(&db, rc, message, size);
  sqlite3_close(db.db);
  return rc == SQLITE_OK;
}
