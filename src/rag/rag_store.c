/* rag_store.c - the tables of an index, and all that is written to them. */
#include "rag/rag_store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "core/threads.h"
#include "rag/rag_guard.h"

enum { WAIT_MS = 20000, SCHEMA = 1 };

/* Numbers in the head of the file: whose it is ("aRAG"), and the version of the tables. */
#define APPLICATION 0x61524147

/* clang-format off */
static const char schema[] =
  "CREATE TABLE setting (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;"
  "CREATE TABLE file ("
  "  id INTEGER PRIMARY KEY,"
  "  path TEXT NOT NULL UNIQUE,"   /* absolute, or the name of a text that is no file */
  "  title TEXT NOT NULL,"
  "  bytes INTEGER NOT NULL,"
  "  modified INTEGER NOT NULL,"   /* nanoseconds since 1970 */
  "  hash INTEGER NOT NULL"        /* of all bytes */
  ");"
  "CREATE TABLE passage ("
  "  id INTEGER PRIMARY KEY AUTOINCREMENT," /* never used again: a vector in memory is of one */
  "  file INTEGER NOT NULL REFERENCES file(id) ON DELETE CASCADE,"
  "  first_line INTEGER NOT NULL,"
  "  last_line INTEGER NOT NULL,"
  "  heading TEXT NOT NULL,"
  "  text TEXT NOT NULL"
  ");"
  "CREATE INDEX passage_file ON passage(file);"
  "CREATE TABLE vector ("
  "  passage INTEGER PRIMARY KEY REFERENCES passage(id) ON DELETE CASCADE,"
  "  file INTEGER NOT NULL,"       /* of the passage */
  "  data BLOB NOT NULL"           /* float [dim], of length 1 */
  ");"
  "CREATE VIRTUAL TABLE word USING fts5("
  "  heading, text, content='passage', content_rowid='id',"
  "  tokenize='porter unicode61 remove_diacritics 2');"
  "CREATE TRIGGER passage_added AFTER INSERT ON passage BEGIN"
  "  INSERT INTO word(rowid, heading, text) VALUES (new.id, new.heading, new.text);"
  "END;"
  "CREATE TRIGGER passage_removed AFTER DELETE ON passage BEGIN"
  "  INSERT INTO word(word, rowid, heading, text)"
  "    VALUES ('delete', old.id, old.heading, old.text);"
  "END;"
  "PRAGMA application_id = 1632780615;" /* APPLICATION */
  "PRAGMA user_version = 1;";
/* clang-format on */

/* ---- failures ---- */

accel_status accel__rag_store_fail(const accel__rag_store *s, int rc) {
  const char *said = s->db ? sqlite3_errmsg(s->db) : sqlite3_errstr(rc);
  switch (rc & 0xff) {
    case SQLITE_NOMEM:
      return accel__no_memory(0);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return accel__remedy(
          accel__fail(ACCEL_ERROR_TIMEOUT, "%s: another process keeps it locked", s->path),
          "try again when it is done");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_TOOBIG:
      return accel__remedy(
          accel__fail(ACCEL_ERROR_FORMAT, "%s: it is damaged, or no index: %s", s->path, said),
          "name an index that accel rag index made, or make it anew under another name");
    case SQLITE_FULL:
    case SQLITE_IOERR:
      return accel__remedy(
          accel__fail(ACCEL_ERROR_IO, "%s: cannot be read or written: %s", s->path, said),
          "make room on the disk; what was stored before is intact");
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      return accel__remedy(accel__fail(ACCEL_ERROR_IO, "%s: cannot be opened: %s", s->path, said),
                           "make the file and its folder writable, or name another place");
    default:
      return accel__fail(ACCEL_ERROR_INTERNAL, "%s: SQLite: %s", s->path, said);
  }
}

static accel_status answer(const accel__rag_store *s, int rc) {
  return rc == SQLITE_OK || rc == SQLITE_DONE || rc == SQLITE_ROW ? ACCEL_OK
                                                                  : accel__rag_store_fail(s, rc);
}

/* ---- statements ---- */

accel_status accel__rag_prepare(const accel__rag_store *s, const char *sql, sqlite3_stmt **out) {
  *out = NULL;
  return answer(s, sqlite3_prepare_v2(s->db, sql, -1, out, NULL));
}

accel_status accel__rag_step(const accel__rag_store *s, sqlite3_stmt **statement, bool *row) {
  const int rc = sqlite3_step(*statement);
  *row = rc == SQLITE_ROW;
  if (*row) return ACCEL_OK;
  const accel_status status = answer(s, rc);
  sqlite3_finalize(*statement);
  *statement = NULL;
  return status;
}

accel_status accel__rag_execute(const accel__rag_store *s, sqlite3_stmt *statement) {
  const accel_status status = answer(s, sqlite3_step(statement));
  sqlite3_reset(statement);
  return status;
}

static accel_status run(const accel__rag_store *s, const char *sql) {
  return answer(s, sqlite3_exec(s->db, sql, NULL, NULL, NULL));
}

int64_t accel__rag_number(const accel__rag_store *s, const char *sql) {
  sqlite3_stmt *query = NULL;
  int64_t number = -1;
  if (sqlite3_prepare_v2(s->db, sql, -1, &query, NULL) == SQLITE_OK &&
      sqlite3_step(query) == SQLITE_ROW)
    number = sqlite3_column_int64(query, 0);
  sqlite3_finalize(query);
  return number;
}

accel_status accel__rag_generation(const accel__rag_store *s, int64_t *out) {
  sqlite3_stmt *query;
  bool row;
  ACCEL_TRY(accel__rag_prepare(s, "SELECT value FROM setting WHERE name = 'generation'", &query));
  ACCEL_TRY(accel__rag_step(s, &query, &row));
  *out = row ? sqlite3_column_int64(query, 0) : 0;
  sqlite3_finalize(query);
  return ACCEL_OK;
}

static accel_status refuse(const accel__rag_store *s, const char *what) {
  return accel__remedy(accel__fail(ACCEL_ERROR_FORMAT, "%s: %s", s->path, what),
                       "name an index that accel rag index made, or a file that is not there yet");
}

/* An empty file, or an index of this version. */
static accel_status check_kind(const accel__rag_store *s) {
  sqlite3_stmt *query;
  bool row;
  ACCEL_TRY(accel__rag_prepare(s, "SELECT count(*) FROM sqlite_master", &query));
  ACCEL_TRY(accel__rag_step(s, &query, &row));
  const int64_t tables = sqlite3_column_int64(query, 0);
  sqlite3_finalize(query);
  if (!tables) return ACCEL_OK;
  if (accel__rag_number(s, "PRAGMA application_id") != APPLICATION)
    return refuse(s, "it is a database, but no index");
  const int64_t version = accel__rag_number(s, "PRAGMA user_version");
  if (version > SCHEMA) return refuse(s, "a newer version of accel made it");
  if (version != SCHEMA) return refuse(s, "its version is not known");
  return accel__rag_check_schema(s, schema);
}

/* ---- transactions ---- */

/* Between transactions that write, nothing is written whatever a statement does, and no trigger runs
 * that uses FTS5: those of an index do. */
static void only_query(const accel__rag_store *s) {
  sqlite3_exec(s->db, "PRAGMA query_only = ON; PRAGMA trusted_schema = OFF", NULL, NULL, NULL);
}

accel_status accel__rag_begin(const accel__rag_store *s, bool writes) {
  if (!writes) return run(s, "BEGIN");
  accel_status status = run(s, "PRAGMA query_only = OFF; BEGIN IMMEDIATE");
  const bool begun = status == ACCEL_OK;
  /* the tables can not change any more, and may have since the file was opened */
  if (begun) status = check_kind(s);
  if (status == ACCEL_OK) status = run(s, "PRAGMA trusted_schema = ON");
  if (status == ACCEL_OK) return ACCEL_OK;
  accel__failure kept = {0};
  accel__failure_keep(&kept, status);
  if (begun) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
  only_query(s);
  return accel__failure_raise(&kept);
}

accel_status accel__rag_end(const accel__rag_store *s, accel_status status) {
  accel__failure kept = {0};
  if (status == ACCEL_OK) status = run(s, "COMMIT");
  if (status != ACCEL_OK) {
    accel__failure_keep(&kept, status);
    sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
  }
  only_query(s);
  if (status == ACCEL_OK) return ACCEL_OK;
  return accel__failure_raise(&kept);
}

/* ---- opening ---- */

void accel__rag_store_close(accel__rag_store *s) {
  sqlite3_close(s->db);
  free(s->path);
  *s = (accel__rag_store){0};
}

/* SQLite does not wait for others when a file becomes one of WAL, so that is tried again for as long
 * as it waits elsewhere. */
static accel_status begin_wal(const accel__rag_store *s) {
  const uint64_t begin = accel__now_ns();
  int rc = SQLITE_BUSY;
  while ((rc & 0xff) == SQLITE_BUSY && accel__now_ns() - begin < WAIT_MS * UINT64_C(1000000)) {
    rc = sqlite3_exec(s->db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", NULL, NULL,
                      NULL);
    if ((rc & 0xff) == SQLITE_BUSY) sqlite3_sleep(5);
  }
  return answer(s, rc);
}

/* Where the folder may not be written to, the file is read as one that does not change, which it is
 * as long as no "-wal" is beside it. */
static int open_file(accel__rag_store *s, bool create) {
  int rc = sqlite3_open_v2(s->path, &s->db,
                           SQLITE_OPEN_READWRITE | (create ? SQLITE_OPEN_CREATE : 0), NULL);
  if (rc != SQLITE_OK || !sqlite3_db_readonly(s->db, "main")) return rc;
  accel__buffer name = {0};
  accel__buffer_printf(&name, "%s-wal", s->path);
  const bool changes = name.failed || !access(name.data, F_OK);
  name.n = 0;
  accel__buffer_text(&name, "file:");
  for (const char *c = s->path; *c; c++)
    accel__buffer_printf(&name, strchr("?#%", *c) ? "%%%02x" : "%c", (unsigned char)*c);
  accel__buffer_text(&name, "?immutable=1");
  if (!changes && !name.failed) {
    sqlite3_close(s->db);
    rc = sqlite3_open_v2(name.data, &s->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
  }
  accel__buffer_free(&name);
  return rc;
}

/* accel_glob(pattern, path): the pattern of searches, in which * and ? are the only marks. */
static void glob(sqlite3_context *context, int n, sqlite3_value **value) {
  const char *pattern = (const char *)sqlite3_value_text(value[0]);
  const char *path = (const char *)sqlite3_value_text(value[1]);
  (void)n;
  sqlite3_result_int(context, pattern && path && accel__glob(pattern, path));
}

accel_status accel__rag_store_open(const char *path, bool create, accel__rag_store *out) {
  accel__rag_store s = {.path = strdup(path)};
  *out = (accel__rag_store){0};
  if (!s.path) return accel__no_memory(strlen(path));
  accel_status status = ACCEL_OK;
  if (!create && access(path, F_OK))
    status = accel__remedy(accel__fail(ACCEL_ERROR_NOT_FOUND, "%s: there is no such index", path),
                           "make one: accel rag index FOLDER --index FILE --model EMBEDDER");
  if (status == ACCEL_OK) status = answer(&s, open_file(&s, create));
  if (status == ACCEL_OK) {
    sqlite3_busy_timeout(s.db, WAIT_MS);
    sqlite3_extended_result_codes(s.db, 1);
    status = answer(&s, accel__rag_guard(s.db));
  }
  if (status == ACCEL_OK) status = check_kind(&s);
  if (status == ACCEL_OK && !sqlite3_db_readonly(s.db, "main")) status = begin_wal(&s);
  if (status == ACCEL_OK) status = run(&s, "PRAGMA foreign_keys = ON; PRAGMA query_only = ON");
  if (status == ACCEL_OK)
    status = answer(
        &s, sqlite3_create_function(s.db, "accel_glob", 2, SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL,
                                    glob, NULL, NULL));
  if (status == ACCEL_OK)
    *out = s;
  else
    accel__rag_store_close(&s);
  return status;
}

/* ---- settings ---- */

static const char *const setting_names[] = {
    "embedder", "identity", "dim", "chunk_tokens", "overlap", "document_prompt", "query_prompt"};
enum { SETTINGS = sizeof setting_names / sizeof *setting_names };

static accel_status read_setting(sqlite3_stmt *row, accel__arena *arena, accel__rag_settings *out) {
  const char *name = (const char *)sqlite3_column_text(row, 0);
  const char *text = (const char *)sqlite3_column_text(row, 1);
  const int64_t number = sqlite3_column_int64(row, 1);
  const char *copy = accel__arena_string(arena, text ? text : "");
  if (!copy || !name) return accel__no_memory(0);
  if (!strcmp(name, "embedder")) out->embedder = copy;
  if (!strcmp(name, "identity")) out->identity = (uint64_t)number;
  if (!strcmp(name, "dim")) out->dim = (uint32_t)number;
  if (!strcmp(name, "chunk_tokens")) out->chunk_tokens = (uint32_t)number;
  if (!strcmp(name, "overlap")) out->overlap = (uint32_t)number;
  if (!strcmp(name, "document_prompt")) out->document_prompt = copy;
  if (!strcmp(name, "query_prompt")) out->query_prompt = copy;
  return ACCEL_OK;
}

accel_status accel__rag_settings_read(const accel__rag_store *s, accel__arena *arena,
                                      accel__rag_settings *out, bool *found) {
  sqlite3_stmt *query;
  *out = (accel__rag_settings){.embedder = "", .document_prompt = "", .query_prompt = ""};
  *found = accel__rag_number(s, "SELECT count(*) FROM sqlite_master") > 0;
  if (!*found) return ACCEL_OK;
  ACCEL_TRY(accel__rag_prepare(s, "SELECT name, value FROM setting", &query));
  for (bool row;;) {
    ACCEL_TRY(accel__rag_step(s, &query, &row));
    if (!row) break;
    const accel_status status = read_setting(query, arena, out);
    if (status != ACCEL_OK) sqlite3_finalize(query);
    ACCEL_TRY(status);
  }
  if (!*out->embedder || !out->dim || out->dim > 1 << 20 || out->chunk_tokens < 2 ||
      out->overlap >= out->chunk_tokens)
    return refuse(s, "its settings are damaged");
  return ACCEL_OK;
}

static accel_status write_settings(const accel__rag_store *s, const accel__rag_settings *settings) {
  sqlite3_stmt *insert;
  const char *const text[SETTINGS] = {
      settings->embedder,    NULL, NULL, NULL, NULL, settings->document_prompt,
      settings->query_prompt};
  const int64_t number[SETTINGS] = {
      0, (int64_t)settings->identity, settings->dim, settings->chunk_tokens, settings->overlap, 0,
      0};
  ACCEL_TRY(accel__rag_prepare(s, "INSERT INTO setting (name, value) VALUES (?, ?)", &insert));
  accel_status status = ACCEL_OK;
  for (int i = 0; i < SETTINGS && status == ACCEL_OK; i++) {
    sqlite3_bind_text(insert, 1, setting_names[i], -1, SQLITE_STATIC);
    if (text[i])
      sqlite3_bind_text(insert, 2, text[i], -1, SQLITE_STATIC);
    else
      sqlite3_bind_int64(insert, 2, number[i]);
    status = accel__rag_execute(s, insert);
  }
  sqlite3_finalize(insert);
  return status;
}

accel_status accel__rag_settings_write(const accel__rag_store *s,
                                       const accel__rag_settings *settings) {
  ACCEL_TRY(accel__rag_begin(s, true));
  accel_status status = ACCEL_OK;
  if (!accel__rag_number(s, "SELECT count(*) FROM sqlite_master")) {
    status = run(s, schema);
    if (status == ACCEL_OK) status = write_settings(s, settings);
    if (status == ACCEL_OK) status = run(s, "INSERT INTO setting VALUES ('generation', random())");
  }
  return accel__rag_end(s, status);
}
