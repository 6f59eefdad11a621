/* cmd_report.c - accel report: what the database holds, as a page or in other formats. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_verified.h"
#include "cli/report.h"

/* Which --format, else by the end of --output, else a page; a single VIEW on stdout is a table. */
static const char *format_of(const cli_run *run, const char *view) {
  static const char *const known[] = {"html", "md", "json", "csv", "txt"};
  const char *name = run->value[OPT_OUTPUT], *dot = name ? strrchr(name, '.') : NULL;
  if (run->value[OPT_FORMAT]) return run->value[OPT_FORMAT];
  if (cli_flag(run, OPT_JSON)) return "json";
  for (size_t i = 0; dot && i < sizeof known / sizeof *known; ++i)
    if (!strcmp(dot + 1, known[i])) return known[i];
  return view && !name ? "txt" : "html";
}

static int check(cli_run *run, const char *view, const char *format) {
  size_t i = 0;
  while (view && i < report_section_count && strcmp(report_sections[i].name, view) != 0) ++i;
  if (i == report_section_count && view)
    return cli_usage(run,
                     "'%s' is no part of a report: changes, families, hardware, curves, memory, "
                     "starts, roofline, history or matrix",
                     view);
  if (!strcmp(format, "srt") || !strcmp(format, "vtt"))
    return cli_usage(run, "--format of a report: html, md, json, csv or txt, not %s", format);
  if (!strcmp(format, "txt") && run->value[OPT_OUTPUT])
    return cli_usage(run, "--format txt is for a terminal: give html, md, json or csv with -o");
  return 0;
}

static bool count_verdicts(report *r, char *message, uint32_t size) {
  bench_verdict_rows rows = {0};
  const bool read = bench_verdict_rows_read(&r->db, &rows, message, size);
  for (uint32_t i = 0; i < rows.n; ++i) r->n_passed += !strcmp(rows.row[i].state, "pass");
  r->n_verdicts = rows.n;
  bench_verdict_rows_free(&rows);
  return read;
}

/* All that the database is asked for. */
static int read_all(report *r, const char *view) {
  char message[1024];
  int code = cli_database_open(r->run, r->path, &r->db, &r->open);
  if (r->open && !bench_rows_read(&r->db, &r->rows, message, sizeof message))
    code = cli_error(r->run, ACCEL_ERROR_IO, "%s", message);
  if (!code) code = report_select(r);
  if (!r->open || code) return code;
  if (!bench_shifts_of_builds(&r->db, &r->rows, &r->shifts, message, sizeof message) ||
      !bench_regressions_read(&r->db, &r->regressions, message, sizeof message) ||
      !count_verdicts(r, message, sizeof message))
    return cli_error(r->run, ACCEL_ERROR_IO, "%s", message);
  if (r->n_verdicts && (!view || !strcmp(view, "matrix"))) {
    r->matrix = cJSON_CreateObject();
    code = verified_view(r->run, "classes", r->matrix);
  }
  return code;
}

static int write_report(report *r, const char *format, const char *view) {
  const char *name = r->run->value[OPT_OUTPUT], *json = r->run->value[OPT_JSON];
  if (!name && json && strcmp(json, "1") != 0 && strcmp(json, "-") != 0) name = json;
  r->to = name ? fopen(name, "w") : stdout;
  if (!r->to) return cli_error(r->run, ACCEL_ERROR_IO, "%s: %s", name, strerror(errno));
  cli_progress_end();
  int code = !strcmp(format, "json")   ? report_json(r)
             : !strcmp(format, "csv")  ? report_csv(r)
             : !strcmp(format, "md")   ? report_markdown(r, view)
             : !strcmp(format, "html") ? report_html(r, view)
                                       : report_plain(r, view);
  if (!name) return code;
  const bool failed = ferror(r->to) != 0;
  if (fclose(r->to) != 0 || failed)
    code = cli_error(r->run, ACCEL_ERROR_IO, "%s: cannot write: %s", name, strerror(errno));
  return code;
}

int cmd_report(cli_run *run) {
  const char *view = run->n_args ? run->args[0] : NULL, *format = format_of(run, view);
  report r = {.run = run, .metric = run->value[OPT_METRIC] ? run->value[OPT_METRIC] : "throughput"};
  int code = check(run, view, format);
  if (!code) code = cli_context(run);
  if (!code) code = read_all(&r, view);
  if (!code) code = write_report(&r, format, view);
  bench_shifts_free(&r.shifts);
  bench_regressions_free(&r.regressions);
  free((void *)r.newest);
  bench_rows_free(&r.rows);
  cJSON_Delete(r.matrix);
  if (r.open) {
    char message[512];
    bench_db_commit(&r.db, SQLITE_OK, message, sizeof message); /* a migration is kept */
    bench_db_close(&r.db);
  }
  return code;
}
