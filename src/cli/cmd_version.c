/* cmd_version.c - accel version. */
#include "bench/bench_machine.h"
#include "cli/cli_print.h"

int cmd_version(cli_run *run) {
  if (!cli_flag(run, OPT_JSON)) {
    printf("accel %s (build %s)\n", accel_version(), bench_build_id());
    return 0;
  }
  cli_json json;
  int code = cli_json_begin(run, "accel.version/1", &json);
  if (code) return code;
  cli_json_text(&json, "version", accel_version());
  cli_json_text(&json, "tool", ACCEL_VERSION_STRING);
  cli_json_text(&json, "build", bench_build_id());
  return cli_json_end(run, &json);
}
