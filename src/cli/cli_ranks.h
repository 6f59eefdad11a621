/* cli_ranks.h - --tensor-parallel: the ranks of a group, started here or by mpirun. */
#ifndef ACCEL_CLI_CLI_RANKS_H
#define ACCEL_CLI_CLI_RANKS_H

#include "cli/cli.h"

/* Rank 0's part of a context's params, where the option was given; starts the other ranks unless
 * mpirun has.  0 or an exit code. */
int cli_ranks_start(cli_run *run, accel_params *params);
/* Was this process started by mpirun as a rank behind 0?  Then it follows, and runs no command. */
bool cli_ranks_behind(const cli_run *run);
int cli_ranks_follow(cli_run *run); /* an exit code */
/* Waits for the ranks that were started here, whose context has ended. */
void cli_ranks_end(void);

#endif
