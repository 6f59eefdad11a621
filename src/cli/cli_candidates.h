/* cli_candidates.h - what the database and predictions tell of the candidates of a model, as the
 * text that accel_init takes. */
#ifndef ACCEL_CLI_CLI_CANDIDATES_H
#define ACCEL_CLI_CLI_CANDIDATES_H

#include "cli/cli.h"

/* What accel_init_params.candidates_user points to while a model is loaded. */
typedef struct cli_choosing {
  cli_run *run;
  const char *model;
  const accel_init_params *how;
  const char *task;         /* encode, generate, transcribe; NULL: that of the newest run */
  uint32_t seq, new_tokens; /* 0: not said */
  bool all_metrics;         /* predict all, not the one of `how` alone */
  char *text;               /* a copy of what was told, to be freed; NULL: nothing was asked */
} cli_choosing;

/* An accel_candidates_fn.  Prints nothing and never fails: a database that is damaged, locked or
 * absent becomes a note of the text. */
char *cli_candidates(void *choosing, const accel_placement_candidate *candidate, uint32_t n);
/* accel_init with `how`, which asks the database of candidates.  0 or an exit code. */
int cli_load(cli_choosing *choosing, accel_init_params *how, accel_endpoint **out);
/* "3.1 ms (3 to 3.3, rows), cosine 0.999"; "not known".  In `into`, which it returns. */
const char *cli_candidate_figure(const accel_placement_report *report,
                                 const accel_placement_candidate *candidate, char *into,
                                 size_t size);
/* A number of the report's metric with its unit, in `into`, which it returns. */
const char *cli_candidate_value(const accel_placement_report *report, double value, char *into,
                                size_t size);
/* What the command of `run` does with a model, as the database calls it. */
const char *cli_task_of(const cli_run *run);

#endif
