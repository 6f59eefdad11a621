/* matrix.c - accel matrix: which hardware and precisions models are listed for, and what the devices here can do. */
#include <cjson/cJSON.h>
#include <string.h>

#include "cli/print.h"

/* The library's answer is JSON; people get one table for each model: a row per hardware, a column per precision. */
int cmd_matrix(cli_run *run) {
  int code = cli_context(run);
  if (code) return code;
  char *text;
  accel_status status = accel_matrix_json(run->ctx, run->n_args ? run->args[0] : NULL, &text);
  if (status != ACCEL_OK) return cli_fail(run, status);
  code = cli_json_whole(run, text);
  accel_string_free(&text);
  return code;
}
