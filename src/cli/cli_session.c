/* cli_session.c - the context of one run of the tool: log, progress bar, cancellation, and opening
 * a model. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli_candidates.h"
#include "cli/cli_print.h"
#include "cli/cli_ranks.h"

/* ---- cancellation: the first signal asks, the second ends the program ---- */

static _Atomic int stop_asked, times_asked, held; /* lock-free: handlers may use them */
static int wake[2] = {-1, -1};

static void on_signal(int number) {
  int kept = errno;
  stop_asked = number;
  /* what does not listen twice */
  if (++times_asked > 2) _exit(130);
  if (wake[1] >= 0 && write(wake[1], "", 1) < 0) stop_asked = number; /* a full pipe wakes, too */
  errno = kept;
}

static int is_cancelled(void *user) {
  (void)user;
  return stop_asked != 0 && !held;
}

static void catch_signals(const cli_run *run) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  int64_t seconds = cli_count(run, OPT_TIMEOUT, 0);
  if (!seconds) return;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  struct itimerval timer = {.it_value = {.tv_sec = seconds}};
  setitimer(ITIMER_REAL, &timer, NULL);
}

int cli_converse(cli_run *run, int *fd) {
  if (pipe2(wake, O_NONBLOCK | O_CLOEXEC))
    return cli_error(run, ACCEL_ERROR_IO, "pipe: %s", strerror(errno));
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  *fd = wake[0];
  return 0;
}

int cli_asked_to_stop(int *times) {
  *times = times_asked;
  return stop_asked;
}

void cli_hold(bool on) { held = on; }

void cli_forget_interrupt(void) {
  char bytes[64];
  if (stop_asked != SIGINT) return;
  stop_asked = times_asked = 0;
  while (read(wake[0], bytes, sizeof bytes) > 0) continue;
}

/* ---- log and progress bar ---- */

static bool bar_wanted, bar_shown;
static struct timespec bar_begin;

void cli_progress_end(void) {
  if (bar_shown) fputs("\r\033[K", stderr);
  bar_shown = false;
}

static void on_log(void *user, accel_log_level level, const char *message) {
  static const char *const name[] = {"error", "warning", "info", "debug"};
  (void)user;
  flockfile(stderr);
  cli_progress_end();
  fprintf(stderr, "accel: %s: %s\n", name[level <= ACCEL_LOG_DEBUG ? level : ACCEL_LOG_DEBUG],
          message);
  funlockfile(stderr);
}

/* Work that ends within 0.3 s shows no bar. */
static void on_progress(void *user, const char *what, uint64_t done, uint64_t all) {
  (void)user;
  if (!bar_wanted || !all) return;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const bool inner = !strcmp(what, "layers"); /* of one step of something that tells more */
  if (inner && done >= all) return;
  if (done >= all) {
    cli_progress_end();
    bar_begin = now;
    return;
  }
  if (!bar_shown &&
      (double)(now.tv_sec - bar_begin.tv_sec) + 1e-9 * (double)(now.tv_nsec - bar_begin.tv_nsec) <
          0.3)
    return;
  enum { WIDTH = 30 };
  int full = (int)((double)done / (double)all * WIDTH);
  char bar[WIDTH + 1];
  for (int i = 0; i < WIDTH; ++i) bar[i] = i < full ? '#' : '.';
  bar[WIDTH] = 0;
  fprintf(stderr, "\r\033[K%s [%s] %llu/%llu", what, bar, (unsigned long long)done,
          (unsigned long long)all);
  fflush(stderr);
  bar_shown = true;
}

static accel_log_level log_level(const cli_run *run) {
  static const char *const name[] = {"error", "warning", "info", "debug"};
  for (int i = 0; run->value[OPT_LOG] && i < 4; ++i) {
    if (strcmp(run->value[OPT_LOG], name[i]) == 0) return (accel_log_level)i;
  }
  return cli_flag(run, OPT_QUIET)     ? ACCEL_LOG_ERROR
         : cli_flag(run, OPT_VERBOSE) ? ACCEL_LOG_INFO
                                      : ACCEL_LOG_WARNING;
}

void cli_context_params(const cli_run *run, accel_params *params) {
  const struct {
    cli_option_id id;
    const char **to;
  } texts[] = {{OPT_PLUGIN_PATH, &params->plugin_path},
               {OPT_REGISTRY, &params->registry_path},
               {OPT_CACHE_DIR, &params->cache_directory}};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i)
    if (run->value[texts[i].id]) *texts[i].to = run->value[texts[i].id];
  params->threads = (uint32_t)cli_count(run, OPT_THREADS, params->threads);
  if (run->value[OPT_MODE])
    params->mode =
        strcmp(run->value[OPT_MODE], "throughput") ? ACCEL_MODE_LATENCY : ACCEL_MODE_THROUGHPUT;
  if (cli_flag(run, OPT_NO_CACHE)) params->no_cache = 1;
  if (cli_flag(run, OPT_ALLOW_SOFTWARE)) params->allow_software = 1;
  cli_size(run, OPT_CACHE_LIMIT, &params->cache_limit);
  cli_size(run, OPT_MEM_LIMIT, &params->memory_limit);
  cli_size(run, OPT_MEMORY, &params->memory_limit);
  params->log_level = log_level(run);
}

int cli_context(cli_run *run) {
  const char *term = getenv("TERM");
  bar_wanted =
      !cli_flag(run, OPT_QUIET) && isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
  clock_gettime(CLOCK_MONOTONIC, &bar_begin);
  catch_signals(run);
  accel_params params = accel_params_default();
  cli_context_params(run, &params);
  const int code = cli_ranks_start(run, &params);
  if (code) return code;
  params.log = on_log;
  params.progress = on_progress;
  params.cancel = is_cancelled;
  accel_status status = accel_create(&params, &run->ctx);
  return status == ACCEL_OK ? 0 : cli_fail(run, status);
}

/* ---- endpoints ---- */

void cli_init_params(const cli_run *run, const char *task, accel_init_params *how) {
  *how = accel_init_params_default();
  how->device = run->value[OPT_DEVICE] ? run->value[OPT_DEVICE] : "auto";
  how->precision = run->value[OPT_PRECISION];
  how->task = task;
  how->batch_size = (uint32_t)cli_count(run, OPT_BATCH, 0);
  how->max_length = (uint32_t)cli_count(run, OPT_MAX_LENGTH, 0);
  how->random_weights = cli_flag(run, OPT_RANDOM_WEIGHTS);
  how->seed = (uint64_t)cli_count(run, OPT_SEED, 0);
  how->architecture = run->value[OPT_ARCHITECTURE];
  how->decoder = run->value[OPT_DECODER];
  how->variant = run->value[OPT_VARIANT];
  how->without_safety_checker = cli_flag(run, OPT_NO_SAFETY);
  how->kv_cache = run->value[OPT_KV_CACHE];
  how->adapters = run->adapters;
  how->n_adapters = run->n_adapters;
  how->precision_profile = run->value[OPT_PRECISION_PROFILE];
  how->metric = run->value[OPT_AUTO_METRIC];
  how->min_cosine = cli_number(run, OPT_AUTO_COSINE, 0);
  how->candidates = ""; /* cli_load asks the database */
}

/* Bytes of the name in front of a reason: "rocm:0" of "rocm:0: no libamdhip64.so.7". */
static int name_bytes(const char *reason) {
  const char *end = strstr(reason, ": ");
  return end ? (int)(end - reason) : (int)strlen(reason);
}

/* What was passed over on the way to the device: the names alone, or with --verbose a line for each
 * with its reason. */
static void say_passed_over(const cli_run *run, const accel_strings *reasons) {
  uint32_t n = reasons ? reasons->n : 0;
  const bool verbose = cli_flag(run, OPT_VERBOSE);
  if (n && !strncmp(reasons->item[n - 1], "streamed: ", 10)) /* of the device that was taken */
    fprintf(stderr, "; %s", reasons->item[--n]);
  const char *last = "";
  for (uint32_t i = 0; i < n; ++i) {
    const char *reason = reasons->item[i];
    const int bytes = name_bytes(reason);
    if (verbose) {
      fprintf(stderr, "%s%s", i ? "\n  " : "; passed over:\n  ", reason);
      continue;
    }
    /* several reasons against one name follow each other */
    if (i && name_bytes(last) == bytes && !strncmp(last, reason, (size_t)bytes)) continue;
    fprintf(stderr, "%s%.*s", i ? ", " : "; passed over: ", bytes, reason);
    last = reason;
  }
  if (n && !verbose) fputs(" (--verbose says why)", stderr);
}

/* What decided among candidates, where something was asked of it or figures did; with --verbose
 * always, with each candidate. */
static void say_choice(const cli_run *run, const accel_placement_report *p) {
  const bool verbose = cli_flag(run, OPT_VERBOSE),
             asked = run->value[OPT_AUTO_METRIC] || run->value[OPT_AUTO_COSINE];
  if (!p->chosen_by || (!strcmp(p->chosen_by, "ladder") && !asked && !verbose)) return;
  fprintf(stderr, "; chosen by %s: %s", p->chosen_by, p->chosen_why);
  for (uint32_t i = 0; verbose && i < p->n_candidate; ++i) {
    const accel_placement_candidate *c = &p->candidate[i];
    char figure[96];
    fprintf(stderr, "\n  %s at %s: %s%s%s", c->device, c->precision,
            cli_candidate_figure(p, c, figure, sizeof figure), *c->reason ? "; " : "; taken",
            c->reason);
  }
}

void cli_say_placement(const cli_run *run, const accel_placement_report *placement) {
  if (cli_flag(run, OPT_QUIET) || !placement) return;
  cli_progress_end();
  fprintf(stderr, "accel: %s on %s, %s", placement->model, placement->device, placement->precision);
  if (placement->precision_kinds && *placement->precision_kinds)
    fprintf(stderr, ", %s", placement->precision_kinds);
  if (placement->precision_profile) fprintf(stderr, " by %s", placement->precision_profile);
  if (!placement->listed) fputs(" (not listed by the registry)", stderr);
  if (placement->weights && strcmp(placement->weights, "local") != 0)
    fprintf(stderr, ", weights %s", placement->weights);
  say_passed_over(run, placement->reasons);
  say_choice(run, placement);
  fputc('\n', stderr);
  for (uint32_t i = 0; cli_flag(run, OPT_VERBOSE) && i < placement->n_part; ++i) {
    const accel_placement_part *p = &placement->part[i];
    char bytes[32];
    cli_bytes(p->weights, bytes, sizeof bytes);
    fprintf(stderr, "  layers %u to %u (stages %u to %u) on %s, %s of weights%s\n", p->first_layer,
            p->last_layer, p->first_stage, p->last_stage, p->device, bytes,
            p->streams ? ", streamed" : "");
  }
}

int cli_load(cli_choosing *choosing, accel_init_params *how, accel_endpoint **out) {
  cli_run *run = choosing->run;
  choosing->how = how;
  how->candidates = NULL;
  how->candidates_fn = cli_candidates;
  how->candidates_user = choosing;
  accel_status status = accel_init(run->ctx, choosing->model, how, out);
  return status == ACCEL_OK ? 0 : cli_fail(run, status);
}

int cli_open(cli_run *run, const char *model, const char *task, accel_endpoint **out) {
  int code = run->ctx ? 0 : cli_context(run);
  if (code) return code;
  accel_init_params how;
  cli_choosing choosing = {.run = run, .model = model, .task = cli_task_of(run)};
  cli_init_params(run, task, &how);
  code = cli_load(&choosing, &how, out);
  free(choosing.text);
  if (!code) cli_say_placement(run, accel_placement(*out));
  return code;
}
