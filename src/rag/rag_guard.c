/* rag_guard.c - indexes that others have made: what SQLite is not to do for a file, and whether its
 * tables, triggers and views are those of an index.
 *
 * A schema is code: a trigger or a view runs where the table it stands for is used.  So nothing is read
 * from a file whose schema differs from that of an index by more than how SQLite keeps FTS5.
 */
#include "rag/rag_guard.h"

#include <string.h>

enum { LONGEST = 64 << 20 /* bytes of a value or a row */, DEPTH = 8 /* of triggers */ };

int accel__rag_guard(sqlite3 *db) {
  static const struct {
    int option, value;
  } options[] = {{SQLITE_DBCONFIG_DEFENSIVE, 1},
                 {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                 {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
                 {SQLITE_DBCONFIG_ENABLE_VIEW, 0}};
  int rc = SQLITE_OK;
  for (size_t i = 0; i < sizeof options / sizeof *options && rc == SQLITE_OK; i++)
    rc = sqlite3_db_config(db, options[i].option, options[i].value, NULL);
  sqlite3_limit(db, SQLITE_LIMIT_LENGTH, LONGEST);
  sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_limit(db, SQLITE_LIMIT_TRIGGER_DEPTH, DEPTH);
  if (rc != SQLITE_OK) return rc;
  /* a file that is cut while it is mapped ends the process */
  return sqlite3_exec(db, "PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0", NULL, NULL, NULL);
}

/* How FTS5 keeps its own tables is SQLite's, and their text differs between its versions; what ANALYZE
 * keeps is nobody's. */
static const char listing[] =
    "SELECT type, name, tbl_name, CASE WHEN name GLOB 'word_*' THEN '' ELSE coalesce(sql, '') END "
    "FROM sqlite_master WHERE name NOT GLOB 'sqlite_stat[0-9]' ORDER BY name, type";
enum { TYPE, NAME, COLUMNS = 4 };

static const char *text_at(sqlite3_stmt *row, int column) {
  const char *text = (const char *)sqlite3_column_text(row, column);
  return text ? text : "";
}

static bool same_row(sqlite3_stmt *a, sqlite3_stmt *b) {
  for (int i = 0; i < COLUMNS; i++)
    if (strcmp(text_at(a, i), text_at(b, i))) return false;
  return true;
}

/* Are the rows of both the same?  If not, `found` stands at the first that is other. */
static int compare(sqlite3_stmt *found, sqlite3_stmt *wanted, bool *same) {
  for (*same = true; *same;) {
    const int a = sqlite3_step(found), b = sqlite3_step(wanted);
    if (a != SQLITE_ROW && a != SQLITE_DONE) return a;
    if (b != SQLITE_ROW && b != SQLITE_DONE) return b;
    *same = a == b && (a == SQLITE_DONE || same_row(found, wanted));
    if (a == SQLITE_DONE && b == SQLITE_DONE) break;
  }
  return SQLITE_OK;
}

/* The rows at which both stand differ; at the end of a list there is none. */
static accel_status refuse(const accel__rag_store *s, sqlite3_stmt *found, sqlite3_stmt *wanted) {
  const bool lacks =
      sqlite3_data_count(wanted) &&
      (!sqlite3_data_count(found) || strcmp(text_at(wanted, NAME), text_at(found, NAME)) < 0);
  sqlite3_stmt *odd = lacks ? wanted : found;
  accel__fail(
      ACCEL_ERROR_FORMAT,
      lacks ? "%s: it lacks the %s '%.100s'" : "%s: the %s '%.100s' is not that of an index",
      s->path, text_at(odd, TYPE), text_at(odd, NAME));
  return accel__remedy(ACCEL_ERROR_FORMAT,
                       "it was changed by other programs, or made to do harm: make it anew with "
                       "accel rag index");
}

accel_status accel__rag_check_schema(const accel__rag_store *s, const char *schema) {
  accel__rag_store own = {0};
  sqlite3_stmt *found = NULL, *wanted = NULL;
  bool same = false;
  accel_status status = ACCEL_OK;
  int rc = sqlite3_open(":memory:", &own.db);
  if (rc == SQLITE_OK) rc = sqlite3_exec(own.db, schema, NULL, NULL, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_prepare_v2(own.db, listing, -1, &wanted, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_prepare_v2(s->db, listing, -1, &found, NULL);
  if (rc == SQLITE_OK) rc = compare(found, wanted, &same);
  if (rc != SQLITE_OK)
    status = accel__rag_store_fail(s, rc);
  else if (!same)
    status = refuse(s, found, wanted);
  sqlite3_finalize(found);
  sqlite3_finalize(wanted);
  sqlite3_close(own.db);
  return status;
}
