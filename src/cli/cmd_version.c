/* cmd_version.c - accel version. */
#include "cli/cli_print.h"

int cmd_version(cli_run *run) {
  if (!cli_flag(run, OPT_JSON)) {
    printf("accel %s\n", accel_version());
    return 0;
  }
  cli_json json;
  int code = cli_json_begin(run, "accel.version/1", &json);
  if (code) return code;
  cli_json_text(&json, "version", accel_version());
  cli_json_text(&json, "tool", ACCEL_VERSION_STRING);
  return cli_json_end(run, &json);
}
