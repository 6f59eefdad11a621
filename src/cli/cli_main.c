/* cli_main.c - the accel tool: finds the sub-command in the table and runs it. */
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_print.h"
#include "cli/cli_ranks.h"

#define WITH(...) \
  (const uint8_t[]) { __VA_ARGS__ }
const cli_command cli_commands[] = {
#define COMMAND(function, name, operands, min, max, summary, options, details) \
  {name, operands, min, max, summary, options, details, cmd_##function},
#include "cli/commands.def"
};
const size_t cli_command_count = sizeof cli_commands / sizeof cli_commands[0];

static const cli_command *find_command(const char *name) {
  for (size_t i = 0; i < cli_command_count; ++i) {
    if (strcmp(cli_commands[i].name, name) == 0) return &cli_commands[i];
  }
  return NULL;
}

static int unknown_command(const char *name) {
  const char *names[64];
  size_t n = 0;
  for (; n < cli_command_count && n < 64; ++n) names[n] = cli_commands[n].name;
  const char *near = cli_nearest(name, names, n);
  cli_run run = {0};
  if (name[0] == '-') return cli_usage(&run, "'%s': options come after the sub-command", name);
  return near ? cli_usage(&run, "unknown sub-command '%s'; did you mean '%s'?", name, near)
              : cli_usage(&run, "unknown sub-command '%s'", name);
}

int main(int argc, char **argv) {
  /* Only the character set: numbers are printed with a point everywhere. */
  if (!setlocale(LC_CTYPE, "") || strcmp(setlocale(LC_CTYPE, NULL), "C") == 0)
    setlocale(LC_CTYPE, "C.UTF-8");
  cli_run run = {0};
  if (argc < 2) return cli_usage(&run, "which sub-command?");
  const char *name = argv[1];
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) name = "help";
  if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) name = "version";
  run.command = find_command(name);
  if (!run.command) return unknown_command(name);
  int code = cli_parse(&run, argc - 1, argv + 1);
  if (!code && cli_flag(&run, OPT_HELP)) {
    char *topic[] = {(char *)run.command->name};
    free(run.given);
    run.given = NULL;
    run.n_args = 1;
    run.args = topic;
    return cmd_help(&run);
  }
  if (!code) code = cli_ranks_behind(&run) ? cli_ranks_follow(&run) : run.command->run(&run);
  cli_progress_end();
  accel_destroy(&run.ctx);
  cli_ranks_end();
  free(run.given);
  free(run.adapters);
  int written = cli_flush(&run);
  return code ? code : written;
}
