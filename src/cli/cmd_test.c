/* cmd_test.c - accel test: loads and runs a model on each hardware at each precision, beside the
 * reference plugin. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli_print.h"

static void json_report(cli_json *json, const char *model, const accel_test_report *report) {
  cli_json_text(json, "model", model);
  cli_json_open(json, "results", '{');
  for (uint32_t i = 0; i < report->n; ++i) cli_json_text(json, report->key[i], report->value[i]);
  cli_json_close(json, '}');
  cli_json_open(json, "records", '[');
  for (uint32_t i = 0; i < report->n_records; ++i) {
    const accel_test_record *r = &report->record[i];
    cli_json_open(json, NULL, '{');
    cli_json_text(json, "platform", r->platform);
    cli_json_text(json, "hardware", r->hardware);
    cli_json_text(json, "precision", r->precision);
    cli_json_text(json, "device", r->device);
    cli_json_text(json, "implementation_type", r->implementation_type);
    cli_json_text(json, "input", r->input);
    cli_json_text(json, "output", r->output);
    cli_json_bool(json, "passed", r->passed != 0);
    cli_json_double(json, "max_abs", r->max_abs);
    cli_json_double(json, "max_rel", r->max_rel);
    cli_json_double(json, "cosine", r->cosine);
    cli_json_double(json, "ms", r->ms);
    cli_json_text(json, "weights", r->weights);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static void print_report(const accel_test_report *report) {
  cli_table table = {0};
  cli_table_row(&table, 2, (const char *[]){"test", "result"});
  for (uint32_t i = 0; i < report->n; ++i)
    cli_table_row(&table, 2, (const char *[]){report->key[i], report->value[i]});
  cli_table_print(&table, "ll");
  if (!report->n_records) return;
  putchar('\n');
  cli_table_row(&table, 8,
                (const char *[]){"platform", "device", "passed", "max abs", "cosine", "ms",
                                 "weights", "input -> output"});
  for (uint32_t i = 0; i < report->n_records; ++i) {
    const accel_test_record *r = &report->record[i];
    char max_abs[32], cosine[32], ms[32], flow[512];
    snprintf(max_abs, sizeof max_abs, "%.2e", r->max_abs);
    snprintf(cosine, sizeof cosine, "%.6f", r->cosine);
    snprintf(ms, sizeof ms, "%.2f", r->ms);
    snprintf(flow, sizeof flow, "%s -> %s", r->input, r->output);
    cli_table_row(&table, 8,
                  (const char *[]){r->platform, r->device, r->passed ? "yes" : "NO", max_abs,
                                   cosine, ms, r->weights, flow});
  }
  cli_table_print(&table, "lllrrrll");
}

static bool any_failed(const accel_test_report *report) {
  for (uint32_t i = 0; i < report->n; ++i) {
    if (strncmp(report->value[i], "Error", 5) == 0) return true;
  }
  for (uint32_t i = 0; i < report->n_records; ++i) {
    if (!report->record[i].passed) return true;
  }
  return false;
}

static int test_model(cli_run *run, char **hardware, uint32_t n_hardware, char **precisions,
                      uint32_t n_precisions) {
  int code = cli_context(run);
  if (code) return code;
  accel_test_report *report;
  accel_status status =
      accel_run_precision_tests(run->ctx, run->args[0], (const char *const *)hardware, n_hardware,
                                (const char *const *)precisions, n_precisions, &report);
  if (status != ACCEL_OK) return cli_fail(run, status);
  if (cli_flag(run, OPT_JSON)) {
    cli_json json;
    code = cli_json_begin(run, "accel.test/1", &json);
    if (!code) {
      json_report(&json, run->args[0], report);
      code = cli_json_end(run, &json);
    }
  } else {
    print_report(report);
  }
  if (!code && any_failed(report)) code = accel_status_exit_code(ACCEL_ERROR_VERIFY);
  accel_test_report_free(&report);
  return code;
}

int cmd_test(cli_run *run) {
  /* The common --device and --precision narrow the lists as well. */
  const char *hardware_names =
      run->value[OPT_HARDWARE] ? run->value[OPT_HARDWARE] : run->value[OPT_DEVICE];
  const char *precision_names =
      run->value[OPT_PRECISIONS] ? run->value[OPT_PRECISIONS] : run->value[OPT_PRECISION];
  char **hardware = NULL, **precisions = NULL;
  uint32_t n_hardware = 0, n_precisions = 0;
  int code = cli_one_precision(run);
  if (code) return code;
  if ((hardware_names && !cli_split(hardware_names, &hardware, &n_hardware)) ||
      (precision_names && !cli_split(precision_names, &precisions, &n_precisions)))
    code = cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  if (!code) code = test_model(run, hardware, n_hardware, precisions, n_precisions);
  free(hardware);
  free(precisions);
  return code;
}
