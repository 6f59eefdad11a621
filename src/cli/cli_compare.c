/* cli_compare.c - accel bench --compare OLD.sqlite NEW.sqlite: what changed between two databases. */
#include <string.h>

#include "cli/cmd_bench.h"
#include "cli/report.h"

typedef struct side {
  const char *path;
  bench_db db;
  bool open;
  bench_rows rows;
} side;

static int read_side(cli_run *run, side *s) {
  char message[1024];
  s->open = bench_db_open(&s->db, s->path, BENCH_DB_READ, message, sizeof message);
  if (!s->open || !bench_rows_read(&s->db, &s->rows, message, sizeof message))
    return cli_error(run, ACCEL_ERROR_IO, "%s", message);
  if (s->rows.n) return 0;
  return cli_error(run, ACCEL_ERROR_NOT_FOUND,
                   "%s: holds no run; accel bench MODEL --db %s adds one", s->path, s->path);
}

static void close_side(side *s) {
  char message[512];
  bench_rows_free(&s->rows);
  if (!s->open) return;
  bench_db_commit(&s->db, SQLITE_OK, message, sizeof message); /* a migration is kept */
  bench_db_close(&s->db);
}

static bool measured_by(const side *s, const char *machine) {
  for (uint32_t i = 0; i < s->rows.n; ++i)
    if (!strcmp(s->rows.row[i].text[ROW_MACHINE], machine)) return true;
  return false;
}

/* Runs of two machines are never compared; those that only one file has are named. */
static int check_machines(cli_run *run, const side *old, const side *now) {
  const bench_row *a = &old->rows.row[0], *b = &now->rows.row[0];
  bool shared = false;
  for (uint32_t i = 0; i < now->rows.n; ++i)
    shared |= measured_by(old, now->rows.row[i].text[ROW_MACHINE]);
  if (shared) return 0;
  return cli_error(run, ACCEL_ERROR_ARGUMENT,
                   "%s was measured on %s (%s, machine %s), %s on %s (%s, machine %s): runs of two "
                   "machines are not compared",
                   old->path, a->text[ROW_HOST], a->text[ROW_CPU], a->text[ROW_MACHINE], now->path,
                   b->text[ROW_HOST], b->text[ROW_CPU], b->text[ROW_MACHINE]);
}

static int print_json(cli_run *run, const side *old, const side *now, const bench_shifts *shifts) {
  cli_json json;
  int code = cli_json_begin(run, "accel.compare/1", &json);
  if (code) return code;
  cli_json_text(&json, "before", old->path);
  cli_json_text(&json, "after", now->path);
  report_shifts_json(&json, shifts);
  return cli_json_end(run, &json);
}

static void print_table(const cli_run *run, const bench_shifts *shifts) {
  cli_table table = {0};
  report_add_shifts(shifts, &table);
  if (cli_flag(run, OPT_MARKDOWN))
    cli_table_markdown(stdout, &table, REPORT_SHIFTS_ALIGN);
  else
    cli_table_print(&table, REPORT_SHIFTS_ALIGN);
}

/* 6 when a figure is slower, else 0. */
static int tell(cli_run *run, const bench_shifts *shifts) {
  uint32_t n[4] = {0};
  for (uint32_t i = 0; i < shifts->n; ++i) n[shifts->item[i].verdict]++;
  cli_note(run,
           "%u slower, %u faster, %u the same within noise, %u with too few rounds (fewer than %d)",
           n[BENCH_SLOWER], n[BENCH_FASTER], n[BENCH_SAME], n[BENCH_TOO_FEW], BENCH_LEAST_ROUNDS);
  return n[BENCH_SLOWER] ? accel_status_exit_code(ACCEL_ERROR_VERIFY) : 0;
}

int cli_compare_databases(cli_run *run, const char *before, const char *after) {
  side old = {.path = before}, now = {.path = after};
  bench_shifts shifts = {0};
  char message[1024];
  int code = read_side(run, &old);
  if (!code) code = read_side(run, &now);
  if (!code) code = check_machines(run, &old, &now);
  if (!code && !bench_shifts_of_databases(&old.db, &old.rows, &now.db, &now.rows, &shifts, message,
                                          sizeof message))
    code = cli_error(run, ACCEL_ERROR_IO, "%s", message);
  if (!code && !shifts.n)
    code = cli_error(run, ACCEL_ERROR_NOT_FOUND, "%s and %s hold no run of the same case", before,
                     after);
  if (!code && cli_flag(run, OPT_JSON))
    code = print_json(run, &old, &now, &shifts);
  else if (!code)
    print_table(run, &shifts);
  if (!code) code = tell(run, &shifts);
  bench_shifts_free(&shifts);
  close_side(&old);
  close_side(&now);
  return code;
}
