/* cli_verify_report.c - what accel verify --all found: tables, JSON, and the evidence file. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_machine.h"
#include "cli/cli_print.h"
#include "cli/cli_verify_all.h"

/* ---- the report as JSON ---- */

static void add_machine(cJSON *root) {
  bench_machine m;
  bench_machine_read(&m);
  cJSON *to = cJSON_AddObjectToObject(root, "machine");
  cJSON_AddStringToObject(to, "hash", m.hash);
  cJSON_AddStringToObject(to, "host", m.host);
  cJSON_AddStringToObject(to, "cpu", m.cpu);
  cJSON_AddNumberToObject(to, "cores", m.cores);
  cJSON_AddNumberToObject(to, "memory", (double)m.memory);
  cJSON_AddStringToObject(to, "kernel", m.kernel);
  cJSON_AddStringToObject(to, "os", m.os);
}

static void add_devices(const verify_plan *plan, cJSON *root) {
  cJSON *list = cJSON_AddArrayToObject(root, "devices");
  const cJSON *d;
  cJSON_ArrayForEach(d, cJSON_GetObjectItemCaseSensitive(plan->scouted, "devices")) {
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(d, "name"));
    for (uint32_t i = 0; name && i < plan->n_device; ++i)
      if (!strcmp(plan->device[i].name, name)) cJSON_AddItemToArray(list, cJSON_Duplicate(d, 1));
  }
}

/* The verdict's columns and what it refers to: a row as bench_verdict_rows_add takes it. */
static cJSON *row_of(const verify_plan *plan, const verify_cell *cell, const char *host) {
  const bench_cell key = verify_cell_key(plan, cell);
  cJSON *row = bench_verdict_find(&plan->db, &key);
  if (!row) return NULL;
  cJSON_AddStringToObject(row, "where", host);
  cJSON_AddStringToObject(row, "device", key.device->name);
  cJSON_AddStringToObject(row, "driver", key.device->driver);
  cJSON_AddStringToObject(row, "hardware", key.device->hardware);
  cJSON_AddStringToObject(row, "type", key.device->type);
  cJSON_AddStringToObject(row, "build", bench_build_id());
  return row;
}

static void add_regression(const verify_plan *plan, const verify_cell *cell, const cJSON *row,
                           cJSON *list) {
  static const char *const members[] = {"device",       "precision", "model",
                                        "architecture", "golden",    "reason"};
  const bench_cell key = verify_cell_key(plan, cell);
  char build[128];
  if (!bench_verdict_passed_before(&plan->db, &key, build, sizeof build)) return;
  cJSON *to = cJSON_CreateObject();
  for (size_t i = 0; i < sizeof members / sizeof *members; ++i)
    cJSON_AddStringToObject(
        to, members[i], cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, members[i])));
  cJSON_AddStringToObject(to, "passed_with", build);
  cJSON_AddItemToArray(list, to);
}

static const char *state_of(const cJSON *row) {
  return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, "state"));
}

/* {"schema", "version", "build", "compiler", "machine", "devices", "cells", "results",
 * "regressions"} */
static cJSON *report_of(const verify_plan *plan, const char *schema) {
  static const char *const states[] = {"pass", "fail", "unsupported"};
  uint32_t n[3] = {0}, run = 0;
  bench_machine here;
  bench_machine_read(&here);
  cJSON *root = cJSON_CreateObject();
  cJSON_AddStringToObject(root, "schema", schema);
  cJSON_AddStringToObject(root, "version", accel_version());
  cJSON_AddStringToObject(root, "build", bench_build_id());
  cJSON_AddStringToObject(root, "compiler", bench_compiler());
  add_machine(root);
  add_devices(plan, root);
  cJSON *cells = cJSON_AddObjectToObject(root, "cells"),
        *results = cJSON_AddArrayToObject(root, "results"),
        *regressions = cJSON_AddArrayToObject(root, "regressions");
  for (uint32_t i = 0; i < plan->n_cell; ++i) {
    cJSON *row = row_of(plan, &plan->cell[i], here.host);
    if (!row) continue;
    for (int s = 0; s < 3; ++s) n[s] += !strcmp(state_of(row), states[s]);
    run += plan->cell[i].state == CELL_RUN;
    if (!strcmp(state_of(row), "fail")) add_regression(plan, &plan->cell[i], row, regressions);
    cJSON_AddItemToArray(results, row);
  }
  cJSON_AddNumberToObject(cells, "all", plan->n_cell);
  cJSON_AddNumberToObject(cells, "run", run);
  for (int s = 0; s < 3; ++s) cJSON_AddNumberToObject(cells, states[s], n[s]);
  return root;
}

/* ---- for people ---- */

/* What the cells of a device at a precision gave. */
typedef struct sums {
  uint32_t pass, fail, unsupported;
  double max_abs, cosine; /* beside the CPU: largest, least */
} sums;

static sums sum(const cJSON *results, const char *device, const char *precision) {
  sums s = {.max_abs = (double)NAN, .cosine = (double)NAN};
  const cJSON *row;
  cJSON_ArrayForEach(row, results) {
    if (strcmp(cli_json_word(row, "device"), device) != 0 ||
        strcmp(cli_json_word(row, "precision"), precision) != 0)
      continue;
    s.pass += !strcmp(cli_json_word(row, "state"), "pass");
    s.fail += !strcmp(cli_json_word(row, "state"), "fail");
    s.unsupported += !strcmp(cli_json_word(row, "state"), "unsupported");
    s.max_abs = fmax(s.max_abs, cli_json_number(row, "cpu_max_abs"));
    s.cosine = fmin(s.cosine, cli_json_number(row, "cpu_cosine"));
  }
  return s;
}

static void print_sums(const verify_plan *plan, const cJSON *results) {
  cli_table table = {0};
  cli_table_row(&table, 7,
                (const char *[]){"device", "precision", "pass", "fail", "unsupported",
                                 "max abs to cpu fp32", "least cosine to it"});
  for (uint32_t d = 0; d < plan->n_device; ++d) {
    for (uint32_t p = 0; p < plan->n_precision; ++p) {
      const sums s = sum(results, plan->device[d].name, plan->precision[p]);
      char text[5][32] = {"", "", "", "", ""};
      snprintf(text[0], sizeof text[0], "%u", s.pass);
      snprintf(text[1], sizeof text[1], "%u", s.fail);
      snprintf(text[2], sizeof text[2], "%u", s.unsupported);
      if (isfinite(s.max_abs)) snprintf(text[3], sizeof text[3], "%.2e", s.max_abs);
      if (isfinite(s.cosine)) snprintf(text[4], sizeof text[4], "%.6f", s.cosine);
      cli_table_row(&table, 7,
                    (const char *[]){plan->device[d].name, plan->precision[p], text[0], text[1],
                                     text[2], text[3], text[4]});
    }
  }
  cli_table_print(&table, "llrrrrr");
}

static void print_report(const verify_plan *plan, const cJSON *root) {
  const cJSON *results = cJSON_GetObjectItemCaseSensitive(root, "results"), *row;
  print_sums(plan, results);
  cJSON_ArrayForEach(row, results) {
    if (!strcmp(cli_json_word(row, "state"), "fail"))
      printf("FAIL  %s %s, %s, %s: %s\n", cli_json_word(row, "model"), cli_json_word(row, "golden"),
             cli_json_word(row, "device"), cli_json_word(row, "precision"),
             cli_json_word(row, "reason"));
  }
  cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(root, "regressions")) {
    printf("REGRESSION  %s %s, %s, %s: passed with build %s\n", cli_json_word(row, "model"),
           cli_json_word(row, "golden"), cli_json_word(row, "device"),
           cli_json_word(row, "precision"), cli_json_word(row, "passed_with"));
  }
}

/* ---- the evidence file ---- */

static int write_evidence(const verify_plan *plan, cJSON *root) {
  const char *path = plan->run->value[OPT_EVIDENCE];
  cJSON_ReplaceItemInObjectCaseSensitive(root, "schema", cJSON_CreateString("accel.evidence/1"));
  char *text = cJSON_Print(root);
  FILE *f = text ? fopen(path, "w") : NULL;
  bool written = f && fputs(text, f) >= 0 && fputc('\n', f) != EOF;
  if (f) written = fclose(f) == 0 && written;
  free(text);
  return written
             ? 0
             : cli_error(plan->run, ACCEL_ERROR_IO, "%s: cannot write: %s", path, strerror(errno));
}

int verify_report(verify_plan *plan) {
  int code = 0;
  cJSON *root = report_of(plan, "accel.verify_all/1");
  char *text = cJSON_PrintUnformatted(root);
  cJSON *read = cJSON_Parse(text); /* numbers of rows are text in `root`, to the last digit */
  const double failed = cli_json_number(cJSON_GetObjectItemCaseSensitive(read, "cells"), "fail");
  const int regressions = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(read, "regressions"));
  if (!read)
    code = cli_error(plan->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  else if (cli_flag(plan->run, OPT_JSON))
    code = cli_json_whole(plan->run, text);
  else
    print_report(plan, read);
  if (!code && plan->run->value[OPT_EVIDENCE]) code = write_evidence(plan, root);
  cJSON_Delete(read);
  cJSON_Delete(root);
  free(text);
  if (!code && failed > 0) {
    cli_note(plan->run, "%.0f cells fail, %d of them passed with an earlier build", failed,
             regressions);
    code = accel_status_exit_code(ACCEL_ERROR_VERIFY);
  }
  return code;
}
