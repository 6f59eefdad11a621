/* cli_verify_pool.c - the parent of the workers of accel verify --all: hands out cells, reads
 * verdicts, ends what hangs, and stores each verdict as it comes. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench_collect.h"
#include "cli/cli_child.h"
#include "cli/cli_print.h"
#include "cli/cli_verify_all.h"

typedef struct worker {
  cli_child child;
  int64_t cell; /* -1: none */
  double begin; /* of that cell, by bench_now_ms */
  char *text;   /* of an answer, as far as it came */
  size_t n, capacity;
} worker;

/* ---- verdicts ---- */

/* Stores the verdict of the worker's cell, which is done then. */
static int store(verify_plan *plan, worker *w, const bench_verdict *v) {
  char message[1024], name[512];
  verify_cell *cell = &plan->cell[w->cell];
  const bench_cell key = verify_cell_key(plan, cell);
  cell->state = CELL_RUN;
  w->cell = -1;
  if (!strcmp(v->state, "fail"))
    cli_note(plan->run, "FAIL  %s: %s", verify_cell_name(plan, cell, name, sizeof name), v->reason);
  return bench_verdict_add(&plan->db, plan->id, &key, v, message, sizeof message)
             ? 0
             : cli_error(plan->run, ACCEL_ERROR_IO, "%s", message);
}

static int store_line(verify_plan *plan, worker *w, const char *text) {
  cJSON *line = cJSON_Parse(text);
  const bench_verdict v = {
      .state = line ? cli_json_word(line, "state") : "fail",
      .reason = line ? cli_json_word(line, "reason") : "the worker's answer is no JSON",
      .output = cli_json_word(line, "output"),
      .max_abs = cli_json_number(line, "max_abs"),
      .cosine = cli_json_number(line, "cosine"),
      .bound = cli_json_number(line, "bound"),
      .cpu_max_abs = cli_json_number(line, "cpu_max_abs"),
      .cpu_cosine = cli_json_number(line, "cpu_cosine"),
      .wall_ms = line ? cli_json_number(line, "wall_ms") : 0};
  const int code = store(plan, w, &v);
  if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(line, "lost"))) cli_child_end(&w->child, true);
  cJSON_Delete(line);
  return code;
}

/* A cell that gave no answer. */
static int store_failure(verify_plan *plan, worker *w, const char *reason) {
  const bench_verdict v = {.state = "fail",
                           .reason = reason,
                           .output = "",
                           .max_abs = (double)NAN,
                           .cosine = (double)NAN,
                           .bound = (double)NAN,
                           .cpu_max_abs = (double)NAN,
                           .cpu_cosine = (double)NAN,
                           .wall_ms = bench_now_ms() - w->begin};
  return store(plan, w, &v);
}

/* No driver crashes by SIGKILL: somebody else sent it, perhaps the kernel for want of memory.  The
 * first time that says nothing of the cell, which is run again. */
static bool runs_again(verify_plan *plan, worker *w, int status) {
  verify_cell *cell = &plan->cell[w->cell];
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL || cell->killed) return false;
  cell->killed = true;
  cell->state = CELL_PENDING;
  w->cell = -1;
  return true;
}

static int ended(verify_plan *plan, worker *w) {
  char reason[64];
  const int status = cli_child_end(&w->child, false);
  if (w->cell < 0 || runs_again(plan, w, status)) return 0;
  if (WIFSIGNALED(status))
    snprintf(reason, sizeof reason, "signal %d", WTERMSIG(status));
  else
    snprintf(reason, sizeof reason, "the worker ended with exit code %d", WEXITSTATUS(status));
  return store_failure(plan, w, reason);
}

/* ---- the loop ---- */

/* Outputs are compared with those of the reference cell, which comes first. */
static bool is_ready(const verify_plan *plan, const verify_cell *cell) {
  const int32_t reference = plan->reference[cell->golden];
  return reference < 0 || &plan->cell[reference] == cell ||
         plan->cell[reference].state == CELL_RUN || plan->cell[reference].state == CELL_KNOWN;
}

/* Hands the group's next cell that is ready to its worker. */
static int hand_out(verify_plan *plan, worker *w, uint32_t group, bool *left) {
  for (uint32_t i = 0; i < plan->n_cell; ++i) {
    verify_cell *cell = &plan->cell[i];
    if (cell->group != group || cell->state != CELL_PENDING) continue;
    *left = true;
    if (!is_ready(plan, cell)) continue;
    if (!w->child.pid && !cli_child_start(&w->child, verify_work, plan))
      return cli_error(plan->run, ACCEL_ERROR_IO, "a worker process: %s", strerror(errno));
    w->cell = i;
    w->begin = bench_now_ms();
    cell->state = CELL_RUNNING;
    /* one that is gone is seen by its other pipe */
    return write(w->child.to, &i, sizeof i) < 0 && errno != EPIPE
               ? cli_error(plan->run, ACCEL_ERROR_IO, "a worker process: %s", strerror(errno))
               : 0;
  }
  return 0;
}

static int read_answer(verify_plan *plan, worker *w) {
  if (w->n + 4096 > w->capacity) {
    char *grown = realloc(w->text, w->capacity + 8192);
    if (!grown) return cli_error(plan->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
    w->text = grown;
    w->capacity += 8192;
  }
  const ssize_t n = read(w->child.from, w->text + w->n, 4095);
  if (n < 0 && errno == EINTR) return 0;
  if (n <= 0) return ended(plan, w);
  w->n += (size_t)n;
  w->text[w->n] = 0;
  if (w->text[w->n - 1] != '\n') return 0;
  w->n = 0;
  return w->cell < 0 ? 0 : store_line(plan, w, w->text);
}

static int end_silent(verify_plan *plan, worker *w) {
  char reason[64];
  if (w->cell < 0 || !(plan->cell_timeout > 0) ||
      bench_now_ms() - w->begin < 1e3 * plan->cell_timeout)
    return 0;
  cli_child_end(&w->child, true);
  snprintf(reason, sizeof reason, "no answer within %.6g s", plan->cell_timeout);
  return store_failure(plan, w, reason);
}

/* On a terminal one line that changes, else a line whenever another tenth is done. */
static void show_progress(verify_plan *plan) {
  uint32_t done = 0;
  if (cli_flag(plan->run, OPT_QUIET)) return;
  for (uint32_t i = 0; i < plan->n_cell; ++i)
    done += plan->cell[i].state == CELL_RUN || plan->cell[i].state == CELL_KNOWN;
  if (isatty(STDERR_FILENO)) {
    fprintf(stderr, "\r\033[K%u of %u cells", done, plan->n_cell);
    fflush(stderr);
  } else if (10 * (uint64_t)done / plan->n_cell != plan->tenths) {
    plan->tenths = (uint32_t)(10 * (uint64_t)done / plan->n_cell);
    cli_note(plan->run, "%u of %u cells", done, plan->n_cell);
  }
}

/* One round: hand out, wait for an answer, take it.  *left: there is more to do. */
static int turn(verify_plan *plan, worker *workers, struct pollfd *polls, bool *left) {
  int code = 0, timeout = -1;
  *left = false;
  for (uint32_t g = 0; g < plan->n_group && !code; ++g) {
    if (workers[g].cell < 0) code = hand_out(plan, &workers[g], g, left);
    *left |= workers[g].cell >= 0;
    polls[g] =
        (struct pollfd){.fd = workers[g].child.pid ? workers[g].child.from : -1, .events = POLLIN};
  }
  if (code || !*left) return code;
  if (plan->cell_timeout > 0 || plan->timeout > 0) timeout = 50;
  if (poll(polls, plan->n_group, timeout) < 0 && errno != EINTR)
    return cli_error(plan->run, ACCEL_ERROR_IO, "poll: %s", strerror(errno));
  for (uint32_t g = 0; g < plan->n_group && !code; ++g) {
    if (polls[g].fd >= 0 && polls[g].revents)
      code = read_answer(plan, &workers[g]);
    else
      code = end_silent(plan, &workers[g]);
  }
  if (!code) show_progress(plan);
  return code;
}

int verify_run_cells(verify_plan *plan) {
  worker *workers = calloc(plan->n_group + 1, sizeof *workers);
  struct pollfd *polls = calloc(plan->n_group + 1, sizeof *polls);
  const double begin = bench_now_ms();
  int code =
      workers && polls ? 0 : cli_error(plan->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  signal(SIGPIPE, SIG_IGN);
  for (uint32_t g = 0; !code && g < plan->n_group; ++g) workers[g].cell = -1;
  for (bool left = true; left && !code;) {
    code = turn(plan, workers, polls, &left);
    if (!code && left && plan->timeout > 0 && bench_now_ms() - begin > 1e3 * plan->timeout)
      code = cli_error(plan->run, ACCEL_ERROR_TIMEOUT,
                       "--timeout passed; the same command goes on where this one ended");
  }
  for (uint32_t g = 0; workers && g < plan->n_group; ++g) {
    cli_child_end(&workers[g].child, true);
    free(workers[g].text);
  }
  free(workers);
  free(polls);
  if (!cli_flag(plan->run, OPT_QUIET) && isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
  return code;
}
