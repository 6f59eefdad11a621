/* cmd_bench.h - the two larger parts of what accel bench prints. */
#ifndef ACCEL_CLI_BENCH_H
#define ACCEL_CLI_BENCH_H

#include "bench/bench.h"
#include "cli/cli_print.h"

void cli_profile_json(cli_json *json, const bench_profile *profile);
void cli_profile_print(const bench_profile *profile, bool markdown);
void cli_comparison_json(cli_json *json, const char *old, const bench_comparison *comparison);
void cli_comparison_print(const char *old, const bench_comparison *comparison, bool markdown);

#endif
