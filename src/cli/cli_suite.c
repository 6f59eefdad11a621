/* cli_suite.c - accel bench --suite: runs the cells of a suite that are not known yet, or least
 * known. */
#include "cli/cli_suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "bench/bench.h"
#include "bench/bench_collect.h"
#include "cli/cli_child.h"
#include "cli/cli_database.h"

typedef struct suite {
  cli_run *run;
  suite_plan plan;
  const suite_cell *now; /* that the child runs */
  char path[CLI_PATH];   /* of the database */
  double begin_ms, minutes, cell_timeout;
} suite;

/* ---- a cell ---- */

static int store(cli_run *run, const char *path, const bench_result *result) {
  char message[1024];
  return bench_store(path, result, message, sizeof message)
             ? 0
             : cli_error(run, ACCEL_ERROR_IO, "%s", message);
}

enum { PROFILED_RUNS = 3 };

/* Steps of what these measure help `accel predict`: their runs wait for nothing but the device. */
static bool is_profiled(const suite_cell *c) {
  static const char *const names[] = {"single-stream", "offline", "batch-sweep", "length-sweep"};
  bool found = false;
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) found |= !strcmp(c->scenario, names[i]);
  return found && strcmp(c->task, "transcribe") != 0;
}

/* In a child: the exit code of the cell. */
static int run_cell(void *user, int in, int out) {
  suite *s = user;
  const suite_cell *c = s->now;
  cli_run *run = s->run;
  const bool cold = !strcmp(c->scenario, "cold-start");
  bench_result result = {0};
  accel_init_params how;
  run->value[OPT_DEVICE] = c->device;
  run->value[OPT_PRECISION] = c->precision;
  run->value[OPT_RANDOM_WEIGHTS] = c->random_weights ? "1" : NULL;
  if (cold) run->value[OPT_NO_CACHE] = "1";
  (void)in, (void)out;
  int code = cli_context(run);
  if (code) return code;
  cli_init_params(run, NULL, &how);
  how.batch_size = 0;
  const bench_params params = {.model = c->model,
                               .how = &how,
                               .batch = c->batch,
                               .seq = c->length,
                               .seed = (uint64_t)cli_count(run, OPT_SEED, 0),
                               .iters = c->iters,
                               .warmup = c->warmup,
                               .rounds = c->rounds,
                               .profile = is_profiled(c),
                               .brief_profile = PROFILED_RUNS,
                               .new_tokens = c->new_tokens,
                               .transcribes = !strcmp(c->task, "transcribe"),
                               .scenario = c->scenario,
                               .cell = c->key,
                               .load = c->load,
                               .p99_bound_ms = c->p99_ms,
                               .only_tokens = !strcmp(c->scenario, "length-sweep"),
                               .drops_pages = cold,
                               .loads_first = !strcmp(c->scenario, "warm-start")};
  const accel_status status = bench_run(run->ctx, &params, NULL, NULL, &result);
  code = status == ACCEL_OK ? store(run, s->path, &result) : cli_fail(run, status);
  bench_result_free(&result);
  accel_destroy(&run->ctx);
  return code;
}

/* Runs a cell in a child, and says what became of it. */
static void run_in_child(suite *s, suite_cell *c) {
  char name[512];
  cli_child child;
  bool late = false;
  s->now = c;
  const bool started = cli_child_start(&child, run_cell, s);
  const int status = started ? cli_child_wait(&child, s->cell_timeout, &late) : 0,
            code = started && !late && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  suite_cell_name(c, name, sizeof name);
  c->state = !code ? SUITE_RUN : code >= 2 && code <= 5 ? SUITE_CANNOT : SUITE_FAILED;
  if (c->state == SUITE_CANNOT)
    cli_note(s->run, "%s: cannot be run (exit code %d)", name, code);
  else if (late)
    cli_note(s->run, "%s: failed: no end after %.6g seconds", name, s->cell_timeout);
  else if (WIFSIGNALED(status))
    cli_note(s->run, "%s: failed: signal %d", name, WTERMSIG(status));
  else if (c->state == SUITE_FAILED)
    cli_note(s->run, "%s: failed", name);
}

/* ---- what is known ---- */

/* Of one cell, or of all; 0 or an exit code. */
static int read_known(suite *s, suite_cell *cells, uint32_t n) {
  char message[1024];
  bench_db db;
  int rc = SQLITE_OK;
  if (!bench_db_open(&db, s->path, BENCH_DB_CREATE, message, sizeof message))
    return cli_error(s->run, ACCEL_ERROR_IO, "%s", message);
  for (uint32_t i = 0; i < n && rc == SQLITE_OK; ++i)
    rc = bench_known_read(&db, cells[i].key, suite_cell_figure(&cells[i]), &cells[i].known);
  const bool good = bench_db_commit(&db, rc, message, sizeof message);
  bench_db_close(&db);
  return good ? 0 : cli_error(s->run, ACCEL_ERROR_IO, "%s", message);
}

static bool has_time(const suite *s) { return bench_now_ms() - s->begin_ms < 60e3 * s->minutes; }

/* What is not known at all, in the plan's order; then, while there are minutes, what is least
 * known: the largest error of its median, of equal ones what has fewer rounds. */
static suite_cell *next_cell(const suite *s) {
  suite_cell *least = NULL;
  if (s->minutes > 0 && !has_time(s)) return NULL;
  for (uint32_t i = 0; i < s->plan.n; ++i)
    if (s->plan.cell[i].state == SUITE_PENDING) return &s->plan.cell[i];
  for (uint32_t i = 0; s->minutes > 0 && i < s->plan.n; ++i) {
    suite_cell *c = &s->plan.cell[i];
    if (c->state == SUITE_CANNOT || c->state == SUITE_FAILED) continue;
    if (!least || c->known.error > least->known.error ||
        (c->known.error == least->known.error && c->known.rounds < least->known.rounds))
      least = c;
  }
  return least;
}

static int run_cells(suite *s) {
  uint32_t runs = 0;
  suite_cell *c;
  int code = read_known(s, s->plan.cell, s->plan.n);
  for (uint32_t i = 0; i < s->plan.n; ++i)
    if (s->plan.cell[i].known.runs) s->plan.cell[i].state = SUITE_KNOWN;
  while (!code && (c = next_cell(s)) != NULL) {
    char name[512];
    cli_note(s->run, "%s", suite_cell_name(c, name, sizeof name));
    run_in_child(s, c);
    runs += c->state == SUITE_RUN;
    if (c->state == SUITE_RUN) code = read_known(s, c, 1);
  }
  if (!code) cli_note(s->run, "%u runs were added to %s", runs, s->path);
  return code;
}

/* ---- the result ---- */

static const char *const state_words[] = {"pending", "known", "run", "cannot", "failed"};

static int print_json(suite *s) {
  cli_json json;
  int code = cli_json_begin(s->run, "accel.suite_result/1", &json);
  if (code) return code;
  cli_json_text(&json, "database", s->path);
  cli_json_open(&json, "cells", '[');
  for (uint32_t i = 0; i < s->plan.n; ++i) {
    const suite_cell *c = &s->plan.cell[i];
    cli_json_open(&json, NULL, '{');
    cli_json_text(&json, "cell", c->key);
    cli_json_text(&json, "model", c->model);
    cli_json_text(&json, "task", c->task);
    cli_json_text(&json, "device", c->device);
    cli_json_text(&json, "precision", c->precision);
    cli_json_text(&json, "scenario", c->scenario);
    cli_json_int(&json, "batch", c->batch);
    cli_json_int(&json, "length", c->length);
    cli_json_text(&json, "state", state_words[c->state]);
    cli_json_int(&json, "runs", c->known.runs);
    cli_json_int(&json, "rounds", c->known.rounds);
    cli_json_double(&json, "median_ms", c->known.median_ms);
    cli_json_double(&json, "error", c->known.error);
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  return cli_json_end(s->run, &json);
}

static void print_table(const suite *s) {
  static const char *const head[] = {"model",  "device", "precision", "scenario", "batch",
                                     "length", "state",  "median ms", "error",    "rounds"};
  cli_table table = {0};
  cli_table_row(&table, 10, head);
  for (uint32_t i = 0; i < s->plan.n; ++i) {
    const suite_cell *c = &s->plan.cell[i];
    char cell[5][32];
    snprintf(cell[0], 32, "%u", c->batch);
    snprintf(cell[1], 32, c->length ? "%u" : "-", c->length);
    snprintf(cell[2], 32, isfinite(c->known.median_ms) ? "%.4g" : "-", c->known.median_ms);
    snprintf(cell[3], 32, isfinite(c->known.error) ? "%.1f %%" : "-", 100 * c->known.error);
    snprintf(cell[4], 32, "%u", c->known.rounds);
    const char *cells[] = {c->model, c->device, c->precision,          c->scenario,
                           cell[0],  cell[1],   state_words[c->state], cell[2],
                           cell[3],  cell[4]};
    cli_table_row(&table, 10, cells);
  }
  cli_table_print(&table, "llllrrlrrr");
}

/* A cell is what the suite says; what would change it on the way is refused. */
static const uint8_t refused[] = {
    OPT_COMPARE, OPT_TASK,   OPT_SEQ,     OPT_NEW,   OPT_LENGTHS, OPT_RAGGED,   OPT_ITERS,
    OPT_WARMUP,  OPT_ROUNDS, OPT_OUTPUTS, OPT_BATCH, OPT_PROFILE, OPT_KV_CACHE, OPT_ARCHITECTURE};

int cli_suite(cli_run *run) {
  suite s = {.run = run,
             .begin_ms = bench_now_ms(),
             .minutes = cli_number(run, OPT_MINUTES, 0),
             .cell_timeout = cli_number(run, OPT_CELL_TIMEOUT, 600)};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i)
    if (run->value[refused[i]])
      return cli_usage(run,
                       "--suite goes with --db, --device, --precision, --threads, --minutes and "
                       "--random-weights; the suite says the rest");
  int code = cli_database(run, s.path);
  if (!code)
    code = suite_plan_make(run, run->value[OPT_SUITE], run->n_args ? run->args[0] : NULL, &s.plan);
  if (!code) code = run_cells(&s);
  if (!code && cli_flag(run, OPT_JSON))
    code = print_json(&s);
  else if (!code)
    print_table(&s);
  for (uint32_t i = 0; !code && i < s.plan.n; ++i)
    if (s.plan.cell[i].state == SUITE_FAILED) code = 1;
  suite_plan_free(&s.plan);
  return code;
}
