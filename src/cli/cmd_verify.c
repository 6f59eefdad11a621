/* cmd_verify.c - accel verify: a model's outputs beside expected ones, for one golden file or a
 * list of them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_device_hold.h"
#include "cli/cli_print.h"
#include "cli/cli_verify_all.h"

static void json_report(cli_json *json, const char *model, const char *golden,
                        const accel_verify_report *report) {
  cli_json_bool(json, "pass", report->passed != 0);
  cli_json_text(json, "model", model);
  cli_json_text(json, "golden", golden);
  cli_json_text(json, "architecture", report->architecture);
  cli_json_text(json, "device", report->device);
  cli_json_text(json, "precision", report->precision);
  cli_json_open(json, "outputs", '[');
  for (uint32_t i = 0; i < report->n; ++i) {
    const accel_verify_output *o = &report->output[i];
    cli_json_open(json, NULL, '{');
    cli_json_text(json, "name", o->name);
    cli_json_double(json, "max_abs", o->max_abs);
    cli_json_double(json, "max_rel", o->max_rel);
    cli_json_double(json, "cosine", o->cosine);
    cli_json_double(json, "bound", o->bound);
    cli_json_int(json, "compared", (int64_t)o->compared);
    cli_json_bool(json, "pass", o->passed != 0);
    if (o->note && *o->note) cli_json_text(json, "note", o->note);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static void print_report(const accel_verify_report *report) {
  cli_table table = {0};
  cli_table_row(
      &table, 7,
      (const char *[]){"output", "pass", "max abs", "max rel", "cosine", "compared", "note"});
  for (uint32_t i = 0; i < report->n; ++i) {
    const accel_verify_output *o = &report->output[i];
    char text[4][32];
    snprintf(text[0], sizeof text[0], "%.3e", o->max_abs);
    snprintf(text[1], sizeof text[1], "%.3e", o->max_rel);
    snprintf(text[2], sizeof text[2], "%.7f", o->cosine);
    snprintf(text[3], sizeof text[3], "%" PRIu64, o->compared);
    cli_table_row(&table, 7,
                  (const char *[]){o->name, o->passed ? "yes" : "NO", text[0], text[1], text[2],
                                   text[3], o->note});
  }
  cli_table_print(&table, "llrrrrl");
  printf("%s: %s on %s, %s\n", report->passed ? "pass" : "FAIL", report->architecture,
         report->device, report->precision);
}

/* One golden file.  Exit code 6 when its outputs are outside the bounds, another when it could not
 * be run. */
static int verify_one(cli_run *run, const char *model, const char *golden,
                      const accel_init_params *how) {
  accel_verify_report *report = NULL;
  accel_status status = accel_verify(run->ctx, model, how, golden, &report);
  if (!report) return cli_fail(run, status);
  int code = 0;
  if (cli_flag(run, OPT_JSON)) {
    cli_json json;
    code = cli_json_begin(run, "accel.verify/1", &json);
    if (!code) {
      json_report(&json, model, golden, report);
      code = cli_json_end(run, &json);
    }
  } else {
    print_report(report);
  }
  if (!code && !report->passed) {
    cli_note(run, "%s: outputs are outside their bounds", golden);
    code = accel_status_exit_code(ACCEL_ERROR_VERIFY);
  }
  accel_verify_report_free(&report);
  return code;
}

/* ---- --list ---- */

typedef struct list_totals {
  uint32_t n, passed, line;
  int code; /* 6 when an output was outside its bounds, else the first other failure */
  cli_device_hold hold;
} list_totals;

/* One line of JSON on stdout: the report, or {"pass": false, "error": ...} where there is none. */
static void list_print(cli_run *run, const char *model, const char *golden, accel_status status,
                       const accel_verify_report *report) {
  if (!cli_flag(run, OPT_JSON)) {
    if (report)
      printf("%s  %s  %s, %s\n", report->passed ? "pass" : "FAIL", golden, report->device,
             report->precision);
    else
      printf("FAIL  %s  %s\n", golden, accel_last_error());
    for (uint32_t i = 0; report && i < report->n; ++i) {
      const accel_verify_output *o = &report->output[i];
      if (!o->passed)
        printf("      %s: max abs %.3e, cosine %.7f  %s\n", o->name, o->max_abs, o->cosine,
               o->note ? o->note : "");
    }
    return;
  }
  cli_json json = {.to = stdout, .depth = 2}; /* below the levels that break lines */
  cli_json_open(&json, NULL, '{');
  cli_json_text(&json, "schema", "accel.verify/1");
  if (report) {
    json_report(&json, model, golden, report);
  } else {
    cli_json_bool(&json, "pass", false);
    cli_json_text(&json, "model", model);
    cli_json_text(&json, "golden", golden);
    cli_json_text(&json, "status", accel_status_name(status));
    cli_json_text(&json, "error", accel_last_error());
    cli_json_text(&json, "remedy", accel_last_remedy());
  }
  cli_json_close(&json, '}');
  putchar('\n');
  fflush(stdout);
}

/* Fields are separated by a tab, or by spaces in a line that has none; "-" stands for the
 * default. */
static uint32_t split_line(char *line, char *field[5]) {
  const char *separators = strchr(line, '\t') ? "\t" : " ";
  uint32_t n = 0;
  for (char *save, *word = strtok_r(line, separators, &save); word && n < 5;
       word = strtok_r(NULL, separators, &save))
    field[n++] = word;
  return n;
}

static int list_line(cli_run *run, char *line, list_totals *totals) {
  char *field[5] = {0};
  /* MODEL on the command line: the lines begin with the golden file */
  uint32_t given = run->n_args ? 1 : 0;
  uint32_t n = split_line(line, field);
  if (n + given < 2)
    return cli_usage(run, "%s: line %u: expected MODEL GOLDEN [DEVICE [PRECISION [ARCHITECTURE]]]",
                     run->value[OPT_LIST], totals->line);
  const char *model = given ? run->args[0] : field[0], *golden = field[1 - given];
  accel_init_params how;
  cli_init_params(run, NULL, &how);
  if (n > 2 - given && strcmp(field[2 - given], "-") != 0) how.device = field[2 - given];
  if (n > 3 - given && strcmp(field[3 - given], "-") != 0) how.precision = field[3 - given];
  if (n > 4 - given) how.architecture = field[4 - given];
  accel_verify_report *report = NULL;
  accel_status status = accel_verify(run->ctx, model, &how, golden, &report);
  list_print(run, model, golden, status, report);
  cli_hold_device(run, &totals->hold, report ? report->device : NULL);
  ++totals->n;
  totals->passed += report && report->passed;
  int code = report ? (report->passed ? 0 : accel_status_exit_code(ACCEL_ERROR_VERIFY))
                    : accel_status_exit_code(status);
  if (code && (!totals->code || code == 6)) totals->code = code;
  accel_verify_report_free(&report);
  return status == ACCEL_ERROR_CANCELLED ? cli_fail(run, status) : 0;
}

static int verify_list(cli_run *run) {
  char *text;
  list_totals totals = {0};
  int code = cli_file_read(run, run->value[OPT_LIST], &text, NULL);
  if (code) return code;
  code = cli_context(run);
  for (char *rest = text, *line; !code && (line = strsep(&rest, "\n")) != NULL;) {
    ++totals.line;
    line[strcspn(line, "\r")] = 0;
    line += strspn(line, " ");
    if (*line && *line != '#') code = list_line(run, line, &totals);
  }
  cli_hold_device(run, &totals.hold, NULL);
  free(text);
  if (!code && !totals.n) return cli_usage(run, "%s names no golden file", run->value[OPT_LIST]);
  if (!code) cli_note(run, "%u of %u passed", totals.passed, totals.n);
  return code ? code : totals.code;
}

int cmd_verify(cli_run *run) {
  if (cli_flag(run, OPT_ALL)) {
    if (run->value[OPT_LIST] || run->value[OPT_GOLDEN])
      return cli_usage(run, "--all finds its goldens itself: without --golden and --list");
    if (run->n_adapters) return cli_usage(run, "--all knows models alone: without --adapter");
    if (cli_one_precision(run)) return 2;
    return verify_all(run);
  }
  if (run->value[OPT_EVIDENCE]) return cli_usage(run, "--evidence goes with --all");
  if (run->value[OPT_LIST] && run->value[OPT_GOLDEN])
    return cli_usage(run, "give --golden or --list, not both");
  if (run->value[OPT_LIST]) return verify_list(run);
  if (!run->n_args) return cli_usage(run, "which MODEL?");
  if (!run->value[OPT_GOLDEN]) return cli_usage(run, "--golden FILE.safetensors is missing");
  int code = cli_context(run);
  if (code) return code;
  accel_init_params how;
  cli_init_params(run, NULL, &how);
  return verify_one(run, run->args[0], run->value[OPT_GOLDEN], &how);
}
