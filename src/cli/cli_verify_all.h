/* cli_verify_all.h - accel verify --all: goldens x devices x precisions, run in worker processes.
 *
 * The parent has no context while it works: it keeps the plan and the database, hands cells to
 * workers through pipes and reads one line of JSON for each.  A worker that ends or stays silent
 * fails its cell alone, and another one takes its place. */
#ifndef ACCEL_CLI_VERIFY_ALL_H
#define ACCEL_CLI_VERIFY_ALL_H

#include <cjson/cJSON.h>

#include "bench/bench_verdicts.h"
#include "cli/cli_database.h"
#include "cli/cli_goldens.h"

typedef enum cell_state { CELL_PENDING, CELL_RUNNING, CELL_RUN, CELL_KNOWN } cell_state;
typedef struct verify_cell {
  uint32_t golden, device, precision; /* indices */
  cell_state state;                   /* CELL_KNOWN: the database had its verdict */
  uint32_t group;                     /* of devices whose cells run one after another */
  bool killed;                        /* its worker was, once; it runs again */
} verify_cell;

typedef struct verify_plan {
  cli_run *run;
  cli_goldens goldens;
  cJSON *scouted; /* owns the strings of devices */
  accel_device_info *device;
  uint32_t n_device;
  char **precision;
  uint32_t n_precision;
  verify_cell *cell; /* golden by golden; of each the reference cell first */
  uint32_t n_cell;
  int32_t *reference; /* [goldens.n] the cell at fp32 on the CPU; -1: not in the plan */
  uint32_t n_group;
  char hash[17];         /* of all cells */
  char folder[CLI_PATH]; /* of the outputs of reference cells, while the plan is not done */
  char path[CLI_PATH];   /* of the database */
  int lock;              /* a locked file beside the database; -1: none */
  bench_db db;           /* open, no transaction */
  int64_t id;            /* in verify_run */
  double cell_timeout;   /* seconds; 0: none */
  double timeout;        /* of all, seconds; 0: none */
  uint32_t tenths;       /* of the cells, as far as progress was told */
} verify_plan;

/* accel verify --all [DIR].  0 or an exit code; 6 when a cell fails. */
int verify_all(cli_run *run);
bench_cell verify_cell_key(const verify_plan *plan, const verify_cell *cell);
/* Where the outputs of a golden's reference cell are kept. */
void verify_outputs_path(const verify_plan *plan, uint32_t golden, char into[CLI_PATH]);
const char *verify_cell_name(const verify_plan *plan, const verify_cell *cell, char *into,
                             size_t size); /* "bert golden.x.safetensors, cpu, fp32" */

/* Fills in goldens, devices, precisions and cells (cli_verify_plan.c).  0 or an exit code. */
int verify_plan_make(verify_plan *plan);
void verify_plan_free(verify_plan *plan);
/* Runs cells that are pending (cli_verify_pool.c).  0 or an exit code; 1 also when --timeout
 * passed. */
int verify_run_cells(verify_plan *plan);
/* A worker of a plan (cli_child_work): reads numbers of cells from `in`, writes a line for each to
 * `out` (cli_verify_worker.c). */
int verify_work(void *plan, int in, int out);
/* A child process that detects, and its answer {"devices": [...]}; NULL with a message on stderr. */
cJSON *verify_scout(cli_run *run);
/* What came out, as the options ask for it (cli_verify_report.c).  0, 1, or 6 when a cell fails. */
int verify_report(verify_plan *plan);

#endif
