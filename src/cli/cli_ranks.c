/* cli_ranks.c - see cli_ranks.h.  Ranks are processes: children of this one that share its command
 * line, or what mpirun has started. */
#include "cli/cli_ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli_child.h"

enum { MOST = 64 };

static cli_child child[MOST];
static uint32_t n_children;

/* What a launcher tells its processes: who they are, and how many. */
static const struct {
  const char *transport, *rank, *world;
} launchers[] = {{"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                 {"mpich", "PMI_RANK", "PMI_SIZE"}};

static bool launched(accel_params *params) {
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; ++i) {
    const char *rank = getenv(launchers[i].rank), *world = getenv(launchers[i].world);
    if (!rank || !world || strtoul(world, NULL, 10) < 2) continue;
    params->rank = (uint32_t)strtoul(rank, NULL, 10);
    params->world = (uint32_t)strtoul(world, NULL, 10);
    params->transport = launchers[i].transport;
    return true;
  }
  return false;
}

/* What the user says the ranks talk over. */
static void choose_transport(const cli_run *run, accel_params *params) {
  if (run->value[OPT_TRANSPORT]) params->transport = run->value[OPT_TRANSPORT];
}

bool cli_ranks_behind(const cli_run *run) {
  accel_params params = accel_params_default();
  return cli_flag(run, OPT_TENSOR_PARALLEL) && launched(&params) && params.rank > 0;
}

/* Joins the group and does what rank 0 says. */
static int follow(cli_run *run, accel_params *params) {
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nowhere >= 0) dup2(nowhere, STDIN_FILENO), dup2(nowhere, STDOUT_FILENO);
  signal(SIGINT, SIG_IGN); /* rank 0 is asked, and tells the others */
  accel_status status = accel_create(params, &run->ctx);
  if (status == ACCEL_OK) status = accel_follow(run->ctx);
  const int code = status == ACCEL_OK ? 0 : cli_fail(run, status);
  accel_destroy(&run->ctx);
  return code;
}

int cli_ranks_follow(cli_run *run) {
  accel_params params = accel_params_default();
  cli_context_params(run, &params);
  launched(&params);
  choose_transport(run, &params);
  return follow(run, &params);
}

typedef struct member {
  cli_run *run;
  accel_params *params;
} member;

static int be_rank(void *user, int in, int out) {
  member *m = user;
  (void)in, (void)out;
  n_children = 0; /* those are rank 0's */
  return follow(m->run, m->params);
}

int cli_ranks_start(cli_run *run, accel_params *params) {
  static char job[64];
  const char *given = run->value[OPT_TENSOR_PARALLEL];
  const bool by_launcher = given && launched(params);
  if (by_launcher) choose_transport(run, params);
  if (!given || by_launcher) return 0;
  char *end;
  const unsigned long world = strtoul(given, &end, 10);
  if (*end || world < 2 || world > MOST)
    return cli_usage(run,
                     "--tensor-parallel takes how many ranks to start, from 2 to %d; without a "
                     "number it is for mpirun, which starts them",
                     MOST);
  snprintf(job, sizeof job, "tool-%ld", (long)getpid());
  params->world = (uint32_t)world;
  params->transport = "shm";
  choose_transport(run, params);
  params->job = job;
  for (params->rank = 1; params->rank < params->world; ++params->rank) {
    member m = {run, params};
    if (!cli_child_start(&child[n_children], be_rank, &m))
      return cli_error(run, ACCEL_ERROR_LIMIT, "rank %u: fork: %s", params->rank, strerror(errno));
    ++n_children;
  }
  params->rank = 0;
  return 0;
}

void cli_ranks_end(void) {
  while (n_children) {
    bool late;
    cli_child_wait(&child[--n_children], 10, &late);
  }
}
