/* cli_verified.c - verdicts of goldens as cells of a table, and ratings of profiled runs. */
#include "cli/cli_verified.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_database.h"

/* ---- reading ---- */

static int add_evidence(cli_run *run, bench_verdict_rows *out) {
  const char *path = run->value[OPT_WITH];
  char *text;
  const cJSON *row;
  int code = cli_file_read(run, path, &text, NULL);
  if (code) return code;
  cJSON *root = cJSON_Parse(text);
  const cJSON *results = cJSON_GetObjectItemCaseSensitive(root, "results");
  bool whole = !strcmp(cli_json_word(root, "schema"), "accel.evidence/1") && cJSON_IsArray(results);
  cJSON_ArrayForEach(row, results) whole = whole && bench_verdict_rows_add(out, row);
  if (!whole)
    code =
        cli_error(run, ACCEL_ERROR_FORMAT,
                  "%s: no evidence file (schema accel.evidence/1, rows in \"results\"): make one "
                  "with accel verify --all --evidence FILE",
                  path);
  cJSON_Delete(root);
  free(text);
  return code;
}

int verified_rows_read(cli_run *run, bench_verdict_rows *out) {
  char path[CLI_PATH], message[1024];
  bench_db db;
  bool open;
  *out = (bench_verdict_rows){0};
  int code = cli_database_open(run, path, &db, &open);
  if (open) {
    if (!bench_verdict_rows_read(&db, out, message, sizeof message))
      code = cli_error(run, ACCEL_ERROR_IO, "%s", message);
    bench_db_commit(&db, SQLITE_OK, message, sizeof message); /* a migration is kept */
    bench_db_close(&db);
  }
  return code || !run->value[OPT_WITH] ? code : add_evidence(run, out);
}

verified_set verified_choose(const bench_verdict_rows *from, verified_filter *filter,
                             const void *what) {
  verified_set set = {.row = malloc((from->n + (size_t)1) * sizeof *set.row)};
  for (uint32_t i = 0; set.row && i < from->n; ++i)
    if (filter(&from->row[i], what)) set.row[set.n++] = &from->row[i];
  return set;
}

/* ---- cells ---- */

/* Which rows of a set count. */
typedef struct chosen {
  bool elsewhere, software, stale;
} chosen;

static bool is_elsewhere(const bench_verdict_row *row) { return *row->where != 0; }
static bool is_software(const bench_verdict_row *row) { return !strcmp(row->type, "software"); }

static bool counts(const bench_verdict_row *row, const chosen *c) {
  return is_elsewhere(row) == c->elsewhere && is_software(row) == c->software &&
         row->stale == c->stale;
}

/* Here before elsewhere, then hardware before software, then this build before earlier ones. */
static chosen choose(const verified_set *rows) {
  chosen c = {true, true, true};
  for (uint32_t i = 0; i < rows->n; ++i) c.elsewhere &= is_elsewhere(rows->row[i]);
  for (uint32_t i = 0; i < rows->n; ++i)
    if (is_elsewhere(rows->row[i]) == c.elsewhere) c.software &= is_software(rows->row[i]);
  for (uint32_t i = 0; i < rows->n; ++i)
    if (is_elsewhere(rows->row[i]) == c.elsewhere && is_software(rows->row[i]) == c.software)
      c.stale &= rows->row[i]->stale;
  return c;
}

/* Names of precisions at which every row that counts passed. */
static void add_precisions(const verified_set *rows, const chosen *c, cJSON *to) {
  static const char *const names[] = {"fp32", "fp16", "bf16",  "int8",
                                      "fp8",  "int4", "uint4", "fp4"};
  cJSON *list = cJSON_AddArrayToObject(to, "precisions");
  for (size_t p = 0; p < sizeof names / sizeof *names; ++p) {
    uint32_t n = 0, passed = 0;
    for (uint32_t i = 0; i < rows->n; ++i) {
      const bench_verdict_row *row = rows->row[i];
      if (!counts(row, c) || strcmp(row->precision, names[p]) != 0) continue;
      n += strcmp(row->state, "unsupported") != 0;
      passed += !strcmp(row->state, "pass");
    }
    if (n && n == passed) cJSON_AddItemToArray(list, cJSON_CreateString(names[p]));
  }
}

static void add_newest(const bench_verdict_row *newest, cJSON *to) {
  cJSON_AddStringToObject(to, "device", newest->device);
  cJSON_AddStringToObject(to, "driver", newest->driver);
  cJSON_AddStringToObject(to, "type", newest->type);
  cJSON_AddStringToObject(to, "time", newest->time);
  cJSON_AddStringToObject(to, "build", newest->build);
  if (*newest->where) cJSON_AddStringToObject(to, "where", newest->where);
  if (is_software(newest)) cJSON_AddStringToObject(to, "rating", "software");
}

/* "vulkan:0, llvmpipe" of every device with a row that counts, in their order. */
static void add_devices(const verified_set *rows, const chosen *c, cJSON *to) {
  cJSON *list = cJSON_AddArrayToObject(to, "devices"), *known;
  char text[512];
  for (uint32_t i = 0; i < rows->n; ++i) {
    const bench_verdict_row *row = rows->row[i];
    bool is_new = counts(row, c);
    snprintf(text, sizeof text, "%s, %s", row->device, row->driver);
    cJSON_ArrayForEach(known, list) is_new = is_new && strcmp(known->valuestring, text) != 0;
    if (is_new) cJSON_AddItemToArray(list, cJSON_CreateString(text));
  }
}

typedef struct sums {
  uint32_t n, passed, failed;
  double error, cosine;
  const bench_verdict_row *newest, *failure, *refusal;
} sums;

static void add_up(sums *s, const bench_verdict_row *row) {
  s->n++;
  if (!s->newest || strcmp(row->time, s->newest->time) > 0) s->newest = row;
  if (!strcmp(row->state, "pass")) {
    s->passed++;
    if (!strcmp(row->precision, "fp32")) s->error = fmax(s->error, row->max_abs);
    s->cosine = fmin(s->cosine, row->cosine);
  } else if (!strcmp(row->state, "fail")) {
    s->failed++;
    if (!s->failure) s->failure = row;
  } else if (!s->refusal) {
    s->refusal = row;
  }
}

static void add_reason(const sums *s, cJSON *to) {
  char reason[768];
  const bench_verdict_row *row = s->failure ? s->failure : s->refusal;
  if (!row || (!s->failure && s->passed)) return;
  snprintf(reason, sizeof reason, "%s%s%s", s->failure ? row->golden : "", s->failure ? ": " : "",
           row->reason);
  cJSON_AddStringToObject(to, "reason", reason);
}

cJSON *verified_cell(const verified_set *rows) {
  cJSON *cell = cJSON_CreateObject();
  const chosen c = choose(rows), older = {c.elsewhere, c.software, true};
  uint32_t stale = 0;
  sums s = {.error = (double)NAN, .cosine = (double)NAN};
  for (uint32_t i = 0; i < rows->n; ++i)
    if (counts(rows->row[i], &c)) add_up(&s, rows->row[i]);
  for (uint32_t i = 0; i < rows->n && !c.stale; ++i) stale += counts(rows->row[i], &older);
  cJSON_AddStringToObject(cell, "state",
                          !s.n       ? "untested"
                          : c.stale  ? "stale"
                          : s.failed ? "fail"
                          : s.passed ? "pass"
                                     : "unsupported");
  if (!s.n) return cell;
  cJSON_AddNumberToObject(cell, "goldens", s.n);
  cJSON_AddNumberToObject(cell, "passed", s.passed);
  cJSON_AddNumberToObject(cell, "failed", s.failed);
  if (stale) cJSON_AddNumberToObject(cell, "stale", stale);
  if (isfinite(s.error)) cJSON_AddNumberToObject(cell, "error", s.error);
  if (isfinite(s.cosine)) cJSON_AddNumberToObject(cell, "cosine", s.cosine);
  add_reason(&s, cell);
  add_precisions(rows, &c, cell);
  add_devices(rows, &c, cell);
  add_newest(s.newest, cell);
  return cell;
}

const char *verified_text(const cJSON *cell, bool brief, char *into, size_t size) {
  const char *state = cli_json_word(cell, "state"), *reason = cli_json_word(cell, "reason");
  const double error = cli_json_number(cell, "error"), cosine = cli_json_number(cell, "cosine");
  if (!strcmp(state, "pass") && isfinite(error))
    snprintf(into, size, "pass(%.1e)", error);
  else if (!strcmp(state, "pass") && isfinite(cosine))
    snprintf(into, size, "pass(cos %.5f)", cosine);
  else if (!strcmp(state, "fail"))
    snprintf(into, size, "fail(%.0f of %.0f%s%s)", cli_json_number(cell, "failed"),
             cli_json_number(cell, "goldens"), brief ? "" : ": ", brief ? "" : reason);
  else if (!strcmp(state, "unsupported") && !brief)
    snprintf(into, size, "unsupported(%s)", reason);
  else if (!strcmp(state, "stale"))
    snprintf(into, size, "stale(%s)", cli_json_word(cell, "build"));
  else
    snprintf(into, size, "%s", state);
  return into;
}

const char *verified_long_text(const cJSON *cell, char *into, size_t size) {
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(cell, "precisions"), *p;
  const double share = cli_json_number(cell, "share");
  char part[1024];
  size_t at = (size_t)snprintf(into, size, "%s", verified_text(cell, false, part, sizeof part));
  cJSON_ArrayForEach(p, list) if (at < size) at +=
      (size_t)snprintf(into + at, size - at, " %s", p->valuestring);
  if (at < size && cJSON_HasObjectItem(cell, "stale"))
    at += (size_t)snprintf(into + at, size - at, "; %.0f more are stale",
                           cli_json_number(cell, "stale"));
  cJSON_ArrayForEach(p, cJSON_GetObjectItemCaseSensitive(cell, "devices")) if (at < size) at +=
      (size_t)snprintf(into + at, size - at, "; %s", p->valuestring);
  if (at < size && *cli_json_word(cell, "time"))
    at += (size_t)snprintf(into + at, size - at, ", %.10s", cli_json_word(cell, "time"));
  if (at < size && *cli_json_word(cell, "where"))
    at += (size_t)snprintf(into + at, size - at, "; verified elsewhere: %s, build %s",
                           cli_json_word(cell, "where"), cli_json_word(cell, "build"));
  if (at < size && *cli_json_word(cell, "rating"))
    at += (size_t)snprintf(into + at, size - at, "; %s", cli_json_word(cell, "rating"));
  if (at < size && isfinite(share))
    snprintf(into + at, size - at, " (%.0f %% of the bound)", 100 * share);
  return into;
}

/* ---- ratings ---- */

int verified_ratings_read(cli_run *run, bench_ratings *out) {
  char path[CLI_PATH], message[1024];
  bench_db db;
  bool open;
  *out = (bench_ratings){0};
  int code = cli_database_open(run, path, &db, &open);
  if (!open) return code;
  if (!bench_ratings_read(&db, out, message, sizeof message))
    code = cli_error(run, ACCEL_ERROR_IO, "%s", message);
  bench_db_close(&db);
  return code;
}

void verified_rate(cJSON *to, const bench_rating *rating) {
  const double s = rating->share;
  const bool software = !strcmp(rating->type, "software");
  if (*cli_json_word(to, "rating")) return; /* a software device's, already */
  cJSON_AddStringToObject(to, "rating",
                          software   ? "software"
                          : s < 0.10 ? "poor"
                          : s < 0.30 ? "fair"
                          : s < 0.60 ? "good"
                                     : "excellent");
  if (!software) cJSON_AddNumberToObject(to, "share", s);
}
