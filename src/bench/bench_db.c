/* bench_db.c - opening the database, and the rows of machines, devices and builds. */
#include "bench/bench_db.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "bench/bench_collect.h"
#include "bench/bench_machine.h"
#include "bench/bench_schema.h"

enum { WAIT_MS = 10000, MOMENT_MS = 250 };

/* ---- errors ---- */

void bench_db_error(const bench_db *db, int rc, char *message, uint32_t size) {
  const char *said = db->db ? sqlite3_errmsg(db->db) : sqlite3_errstr(rc), *what = "";
  switch (rc & 0xff) {
    case SQLITE_FULL:
    case SQLITE_IOERR:
      what =
          "; the disk is full or failing: make room, or name another place with --db FILE; what "
          "was stored before is intact";
      break;
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      what = "; make the file and its folder writable, or name another place with --db FILE";
      break;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      what =
          "; the file is damaged or something else: move it away, or rescue its rows with "
          "sqlite3 FILE .recover | sqlite3 NEW";
      break;
    case SQLITE_BUSY:
      what = "; another process keeps it locked: try again";
      break;
    default:
      break;
  }
  snprintf(message, size, "%s: %s%s", db->path, said, what);
}

/* ---- opening ---- */

static int64_t read_number(sqlite3 *db, const char *sql) {
  sqlite3_stmt *query;
  int64_t number = -1;
  if (sqlite3_prepare_v2(db, sql, -1, &query, NULL) == SQLITE_OK &&
      sqlite3_step(query) == SQLITE_ROW)
    number = sqlite3_column_int64(query, 0);
  sqlite3_finalize(query);
  return number;
}

static bool has_machines(sqlite3 *db) {
  return read_number(db, "SELECT count(*) FROM sqlite_master WHERE name = 'machine'") == 1;
}

static bool has_scenarios(sqlite3 *db) {
  return read_number(db, "SELECT count(*) FROM pragma_table_info('run') WHERE name = 'scenario'") ==
         1;
}

/* Brings the tables to this version, in the transaction that is open.  false with a message, or
 * with an error of SQLite in *rc. */
static bool migrate(const bench_db *db, int *rc, char *message, uint32_t size) {
  static const char *const steps[] = {BENCH_SCHEMA_1, BENCH_SCHEMA_TO_2, BENCH_SCHEMA_TO_3,
                                      BENCH_SCHEMA_TO_4};
  const int version = (int)read_number(db->db, "PRAGMA user_version");
  if (version > BENCH_SCHEMA_VERSION) {
    snprintf(message, size, "%s: made by a newer accel (schema %d; this one knows %d)", db->path,
             version, BENCH_SCHEMA_VERSION);
    return false;
  }
  const int64_t estimates =
      version > 0 ? read_number(db->db, "SELECT count(*) FROM run WHERE measured != 1") : 0;
  if (estimates > 0) {
    snprintf(
        message, size,
        "%s: %d rows of its table run have measured = 0, and only measurements are kept; take "
        "them out: sqlite3 FILE 'PRAGMA foreign_keys = ON; DELETE FROM run WHERE measured = 0'",
        db->path, (int)estimates);
    return false;
  }
  for (int v = version; v >= 0 && v < BENCH_SCHEMA_VERSION && *rc == SQLITE_OK; ++v)
    *rc = sqlite3_exec(db->db, steps[v], NULL, NULL, NULL);
  if (version >= 0 && *rc == SQLITE_OK && !has_machines(db->db))
    *rc = sqlite3_exec(db->db, BENCH_SCHEMA_TABLES, NULL, NULL, NULL);
  if (version >= 0 && *rc == SQLITE_OK && !has_scenarios(db->db))
    *rc = sqlite3_exec(db->db, BENCH_SCHEMA_SCENARIOS, NULL, NULL, NULL);
  return *rc == SQLITE_OK;
}

/* Reading changes nothing in a file that is as it should be, which may be read-only then. */
static bool ready_to_read(sqlite3 *db) {
  return read_number(db, "PRAGMA user_version") == BENCH_SCHEMA_VERSION && has_machines(db) &&
         has_scenarios(db);
}

/* Foreign keys stay off: migrating asks for it, and nothing is deleted here.  SQLite does not wait
 * for others when a file becomes one of WAL, so that is tried again for as long as it waits
 * elsewhere. */
static int begin_write(sqlite3 *db) {
  const double begin = bench_now_ms();
  int rc = SQLITE_BUSY;
  while ((rc & 0xff) == SQLITE_BUSY && bench_now_ms() - begin < WAIT_MS) {
    rc = sqlite3_exec(db, "PRAGMA journal_mode = WAL; PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE",
                      NULL, NULL, NULL);
    if ((rc & 0xff) == SQLITE_BUSY) sqlite3_sleep(5);
  }
  return rc;
}

/* SQLite makes files beside one of WAL to read it.  Where that is forbidden and no such file is
 * there, nobody writes now, and the file is read as one that does not change. */
static void open_unchanging(bench_db *db) {
  static const char hex[] = "0123456789ABCDEF";
  const size_t n = strlen(db->path);
  const int why = sqlite3_errcode(db->db) & 0xff;
  char *name = why == SQLITE_READONLY || why == SQLITE_CANTOPEN ? malloc(3 * n + 32) : NULL, *at;
  if (!name) return;
  snprintf(name, 3 * n + 32, "%s-wal", db->path);
  if (!access(name, F_OK)) {
    free(name);
    return;
  }
  memcpy(name, "file:", 5);
  at = name + 5;
  for (const char *c = db->path; *c; ++c) {
    const bool plain = *c != '?' && *c != '#' && *c != '%';
    *at++ = plain ? *c : '%';
    if (!plain) *at++ = hex[(unsigned char)*c >> 4], *at++ = hex[*c & 15];
  }
  memcpy(at, "?immutable=1", sizeof "?immutable=1");
  sqlite3_close(db->db);
  sqlite3_open_v2(name, &db->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
  free(name);
}

/* Of a file that is as it should be; false leaves one open that may be written to, or no longer. */
static bool is_ready(bench_db *db) {
  if (ready_to_read(db->db)) return true;
  open_unchanging(db);
  return ready_to_read(db->db);
}

/* BENCH_DB_LOOK.  A code of SQLite; with SQLITE_OK and a message it is an older file. */
static int begin_look(bench_db *to, char *message, uint32_t size) {
  sqlite3_busy_timeout(to->db, MOMENT_MS);
  if (is_ready(to)) return sqlite3_exec(to->db, "BEGIN", NULL, NULL, NULL);
  const int rc = sqlite3_exec(to->db, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL);
  if (rc == SQLITE_OK)
    snprintf(message, size,
             "%s: another version of accel made it; the next accel bench --store or accel report "
             "brings an older one forward",
             to->path);
  return rc;
}

bool bench_db_open(bench_db *to, const char *path, bench_db_mode mode, char *message,
                   uint32_t size) {
  *to = (bench_db){.path = path};
  message[0] = 0;
  int rc = sqlite3_open_v2(
      path, &to->db, SQLITE_OPEN_READWRITE | (mode == BENCH_DB_CREATE ? SQLITE_OPEN_CREATE : 0),
      NULL);
  if (rc == SQLITE_OK) {
    sqlite3_busy_timeout(to->db, WAIT_MS);
    if (mode == BENCH_DB_LOOK) {
      rc = begin_look(to, message, size);
      if (rc == SQLITE_OK && !message[0]) return true;
    } else if (mode == BENCH_DB_READ && is_ready(to)) {
      rc = sqlite3_exec(to->db, "BEGIN", NULL, NULL, NULL);
      if (rc == SQLITE_OK) return true;
    } else {
      rc = begin_write(to->db);
      bool ready = rc == SQLITE_OK && migrate(to, &rc, message, size);
      /* who reads locks nobody out, also when the file had to be brought forward */
      if (ready && mode == BENCH_DB_READ) {
        rc = sqlite3_exec(to->db, "COMMIT; BEGIN", NULL, NULL, NULL);
        ready = rc == SQLITE_OK;
      }
      if (ready) return true;
    }
  }
  if (!message[0]) bench_db_error(to, rc, message, size);
  bench_db_close(to);
  return false;
}

void bench_db_close(bench_db *db) {
  sqlite3_close(db->db);
  db->db = NULL;
}

bool bench_db_begin(bench_db *db, char *message, uint32_t size) {
  const int rc = sqlite3_exec(db->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
  if (rc != SQLITE_OK) bench_db_error(db, rc, message, size);
  return rc == SQLITE_OK;
}

bool bench_db_commit(bench_db *db, int rc, char *message, uint32_t size) {
  if (rc == SQLITE_OK || rc == SQLITE_DONE || rc == SQLITE_ROW)
    rc = sqlite3_exec(db->db, "COMMIT", NULL, NULL, NULL);
  if (rc == SQLITE_OK) return true;
  bench_db_error(db, rc, message, size);
  sqlite3_exec(db->db, "ROLLBACK", NULL, NULL, NULL);
  return false;
}

bool bench_is_store(const char *path) {
  static const char magic[] = "SQLite format 3";
  char first[sizeof magic] = "";
  FILE *f = fopen(path, "rb");
  const bool whole = f && fread(first, sizeof first, 1, f) == 1;
  if (f) fclose(f);
  return whole && !memcmp(first, magic, sizeof magic);
}

/* ---- statements ---- */

void bench_bind_text(bench_binder *b, const char *value) {
  sqlite3_bind_text(b->query, ++b->n, value, -1, SQLITE_TRANSIENT);
}
void bench_bind_int(bench_binder *b, int64_t value) { sqlite3_bind_int64(b->query, ++b->n, value); }
void bench_bind_real(bench_binder *b, double value) {
  if (isnan(value))
    sqlite3_bind_null(b->query, ++b->n);
  else
    sqlite3_bind_double(b->query, ++b->n, value);
}

bool bench_prepare(const bench_db *db, const char *sql, bench_binder *b, int *rc) {
  *b = (bench_binder){0};
  *rc = sqlite3_prepare_v2(db->db, sql, -1, &b->query, NULL);
  return *rc == SQLITE_OK;
}

int bench_take_rows(const bench_binder *b, bool (*take)(sqlite3_stmt *row, void *into),
                    void *into) {
  int rc;
  while ((rc = sqlite3_step(b->query)) == SQLITE_ROW) {
    if (take(b->query, into)) continue;
    rc = SQLITE_NOMEM;
    break;
  }
  sqlite3_finalize(b->query);
  return rc;
}

void bench_uid(char uid[33]) {
  uint8_t bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
    sqlite3_randomness(sizeof bytes, bytes);
  for (size_t i = 0; i < sizeof bytes; ++i) snprintf(uid + 2 * i, 3, "%02x", bytes[i]);
}

void bench_row_json(sqlite3_stmt *query, const char *const *but, cJSON *out) {
  for (int c = 0; c < sqlite3_column_count(query); ++c) {
    const char *name = sqlite3_column_name(query, c);
    const int type = sqlite3_column_type(query, c);
    bool left_out = false;
    for (const char *const *b = but; b && *b; ++b) left_out |= !strcmp(*b, name);
    if (left_out) continue;
    char number[40];
    snprintf(number, sizeof number, "%.17g", sqlite3_column_double(query, c));
    if (type == SQLITE_TEXT)
      cJSON_AddStringToObject(out, name, (const char *)sqlite3_column_text(query, c));
    else if (type == SQLITE_FLOAT && isfinite(sqlite3_column_double(query, c)))
      cJSON_AddRawToObject(out, name, number);
    else if (type == SQLITE_INTEGER)
      cJSON_AddNumberToObject(out, name, sqlite3_column_double(query, c));
  }
}

/* ---- machine, device, build ---- */

static int step_once(bench_binder *b) {
  const int rc = sqlite3_step(b->query);
  sqlite3_finalize(b->query);
  return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

/* The row that "SELECT id ..." finds for texts[n]; 0: none. */
static int find_id(const bench_db *db, const char *sql, const char *const *texts, int n,
                   int64_t machine, int64_t *id) {
  bench_binder b;
  int rc;
  *id = 0;
  if (!bench_prepare(db, sql, &b, &rc)) return rc;
  if (machine) bench_bind_int(&b, machine);
  for (int i = 0; i < n; ++i) bench_bind_text(&b, texts[i]);
  rc = sqlite3_step(b.query);
  if (rc == SQLITE_ROW) *id = sqlite3_column_int64(b.query, 0);
  sqlite3_finalize(b.query);
  return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Rows of older schemas name their machine by host and processor alone; where these are this
 * machine's, they are its rows. */
static int64_t find_machine(const bench_db *db, const bench_machine *m) {
  const char *texts[] = {m->hash, m->host, m->cpu};
  int64_t id;
  find_id(db,
          "SELECT id FROM machine WHERE hash = ? OR hash = 'host:' || ? || '|' || ? ORDER BY "
          "hash LIKE 'host:%' LIMIT 1",
          texts, 3, 0, &id);
  return id;
}

int64_t bench_this_machine(const bench_db *db) {
  bench_machine here;
  bench_machine_read(&here);
  return find_machine(db, &here);
}

static int machine_row(const bench_db *db, int64_t *id) {
  bench_machine m;
  bench_binder b;
  int rc;
  bench_machine_read(&m);
  *id = find_machine(db, &m);
  if (!bench_prepare(
          db,
          *id ? "UPDATE machine SET hash = ?, host = ?, cpu = ?, cores = ?, memory = ?, "
                "kernel = ?, os = ?, governor = ?, smt = ?, cgroup_quota = ? WHERE id = ?"
              : "INSERT INTO machine (hash, host, cpu, cores, memory, kernel, os, "
                "governor, smt, cgroup_quota) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
          &b, &rc))
    return rc;
  bench_bind_text(&b, m.hash), bench_bind_text(&b, m.host), bench_bind_text(&b, m.cpu);
  bench_bind_int(&b, m.cores), bench_bind_int(&b, (int64_t)m.memory);
  bench_bind_text(&b, m.kernel), bench_bind_text(&b, m.os), bench_bind_text(&b, m.governor);
  bench_bind_text(&b, m.smt), bench_bind_text(&b, m.cgroup_quota);
  if (*id) bench_bind_int(&b, *id);
  rc = step_once(&b);
  if (!*id) *id = sqlite3_last_insert_rowid(db->db);
  return rc;
}

static int device_row(const bench_db *db, const accel_device_info *d, int64_t machine,
                      int64_t *id) {
  static const char sql[] =
      "INSERT INTO device (machine, name, driver, uid, hardware, plugin, implementation_type, "
      "type, "
      "description, arch) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
      "hardware = excluded.hardware, plugin = excluded.plugin, type = excluded.type, "
      "implementation_type = excluded.implementation_type, description = excluded.description, "
      "arch = excluded.arch WHERE excluded.hardware != ''";
  const char *texts[] = {d->name,     d->driver,      d->id,
                         d->hardware, d->plugin,      d->implementation_type,
                         d->type,     d->description, d->arch};
  bench_binder b;
  int rc;
  if (!bench_prepare(db, sql, &b, &rc)) return rc;
  bench_bind_int(&b, machine);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i)
    bench_bind_text(&b, texts[i] ? texts[i] : "");
  rc = step_once(&b);
  if (rc != SQLITE_OK) return rc;
  return find_id(db,
                 "SELECT id FROM device WHERE machine = ? AND name = ? AND driver = ? AND uid = ?",
                 texts, 3, machine, id);
}

int bench_refs_of(const bench_db *db, const accel_device_info *device, bench_refs *out) {
  const char *texts[] = {accel_version(), bench_build_id(), bench_compiler()};
  bench_binder b;
  int rc = machine_row(db, &out->machine);
  out->device = 0;
  if (rc == SQLITE_OK && device) rc = device_row(db, device, out->machine, &out->device);
  if (rc != SQLITE_OK ||
      !bench_prepare(
          db,
          "INSERT INTO build (version, build_id, compiler) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
          &b, &rc))
    return rc;
  for (int i = 0; i < 3; ++i) bench_bind_text(&b, texts[i]);
  rc = step_once(&b);
  if (rc != SQLITE_OK) return rc;
  return find_id(db, "SELECT id FROM build WHERE version = ? AND build_id = ? AND compiler = ?",
                 texts, 3, 0, &out->build);
}
