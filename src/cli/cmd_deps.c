/* cmd_deps.c - accel deps: what a model needs on a hardware at a precision. */
#include "cli/cli_print.h"

int cmd_deps(cli_run *run) {
  int code = cli_context(run);
  if (code) return code;
  const char *model = run->args[0], *hardware = run->value[OPT_HARDWARE],
             *precision = run->value[OPT_PRECISION];
  accel_strings *needs;
  accel_status status = accel_get_dependencies(run->ctx, model, hardware, precision, &needs);
  if (status != ACCEL_OK) return cli_fail(run, status);
  if (cli_flag(run, OPT_JSON)) {
    cli_json json;
    code = cli_json_begin(run, "accel.deps/1", &json);
    if (!code) {
      cli_json_text(&json, "model", model);
      cli_json_text(&json, "hardware", hardware);
      cli_json_text(&json, "precision", precision);
      cli_json_strings(&json, "dependencies", needs);
      code = cli_json_end(run, &json);
    }
  } else {
    for (uint32_t i = 0; i < needs->n; ++i) puts(needs->item[i]);
  }
  accel_strings_free(&needs);
  return code;
}
