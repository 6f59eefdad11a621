/* cmd_bench.h - the two larger parts of what accel bench prints. */
#ifndef ACCEL_CLI_BENCH_H
#define ACCEL_CLI_BENCH_H

#include "bench/bench.h"
#include "cli/cli_print.h"

void cli_profile_json(cli_json *json, const bench_profile *profile);
void cli_profile_print(const bench_profile *profile, bool markdown);
void cli_comparison_json(cli_json *json, const char *old, const bench_comparison *comparison);
void cli_comparison_print(const char *old, const bench_comparison *comparison, bool markdown);

/* accel bench --compare BEFORE AFTER, both databases (cli_compare.c).  0 or an exit code; that of a
 * failed verification when a figure is slower. */
int cli_compare_databases(cli_run *run, const char *before, const char *after);

#endif
