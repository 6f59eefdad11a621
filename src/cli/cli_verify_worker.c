/* cli_verify_worker.c - the processes of accel verify --all in which drivers are: one that detects,
 * and workers that run cells. */
#include "cli/cli_verify_all.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench_collect.h"
#include "cli/cli_child.h"
#include "cli/cli_device_hold.h"

/* ---- detection ---- */

static void device_json(cJSON *list, const accel_device_info *d) {
  cJSON *to = cJSON_CreateObject();
  cJSON_AddStringToObject(to, "name", d->name);
  cJSON_AddStringToObject(to, "hardware", d->hardware);
  cJSON_AddStringToObject(to, "plugin", d->plugin);
  cJSON_AddStringToObject(to, "implementation_type", d->implementation_type);
  cJSON_AddStringToObject(to, "description", d->description);
  cJSON_AddStringToObject(to, "arch", d->arch);
  cJSON_AddStringToObject(to, "driver", d->driver);
  cJSON_AddStringToObject(to, "id", d->id);
  cJSON_AddStringToObject(to, "type", d->type);
  cJSON_AddStringToObject(to, "reason", d->reason);
  cJSON_AddBoolToObject(to, "usable", d->usable == 1);
  cJSON_AddBoolToObject(to, "compiled", d->compiled == 1);
  cJSON_AddItemToArray(list, to);
}

/* The child's part. */
static int detect_into(void *user, int in, int out) {
  cli_run *run = user;
  accel_devices *devices;
  (void)in;
  int code = cli_context(run);
  if (code) return code;
  accel_status status = accel_detect(run->ctx, 0, &devices);
  if (status != ACCEL_OK) return cli_fail(run, status);
  cJSON *root = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(root, "devices");
  for (uint32_t i = 0; i < devices->n; ++i) device_json(list, &devices->item[i]);
  char *text = cJSON_PrintUnformatted(root);
  for (size_t at = 0, n = text ? strlen(text) : 0; at < n;) {
    const ssize_t wrote = write(out, text + at, n - at);
    if (wrote <= 0) break;
    at += (size_t)wrote;
  }
  return 0;
}

cJSON *verify_scout(cli_run *run) {
  cli_child child;
  char *text = NULL;
  size_t capacity = 0;
  if (!cli_child_start(&child, detect_into, run)) {
    cli_error(run, ACCEL_ERROR_IO, "a process for detection: %s", strerror(errno));
    return NULL;
  }
  const int answer = dup(child.from);
  FILE *from = answer < 0 ? NULL : fdopen(answer, "r");
  const ssize_t n = from ? getdelim(&text, &capacity, 0, from) : -1;
  if (from) fclose(from);
  const int status = cli_child_end(&child, false);
  cJSON *found = n > 0 ? cJSON_Parse(text) : NULL;
  free(text);
  if (!found && WIFSIGNALED(status))
    cli_error(run, ACCEL_ERROR_DRIVER, "detection ended by signal %d (%s)", WTERMSIG(status),
              strsignal(WTERMSIG(status)));
  else if (!found && !WEXITSTATUS(status))
    cli_error(run, ACCEL_ERROR_IO, "detection gave no answer");
  return found;
}

/* ---- a cell ---- */

/* Widens *max_abs and lowers *cosine by what two outputs differ; others than of one shape and of
 * float32 are passed over: the distance of two token ids says nothing. */
static void compare(const accel_tensor *a, const accel_tensor *b, double *max_abs, double *cosine) {
  uint64_t n = 1;
  double ab = 0, aa = 0, bb = 0;
  if (a->rank != b->rank || a->dtype != ACCEL_F32 || b->dtype != ACCEL_F32) return;
  for (uint32_t d = 0; d < a->rank; ++d) {
    if (a->dim[d] != b->dim[d]) return;
    n *= (uint64_t)a->dim[d];
  }
  if (isnan(*max_abs)) *max_abs = 0;
  for (uint64_t i = 0; i < n; ++i) {
    const double x = ((const float *)a->data)[i], y = ((const float *)b->data)[i];
    if (x == y && !isfinite(x)) continue; /* masked scores */
    ab += x * y, aa += x * x, bb += y * y;
    if (!(fabs(x - y) <= *max_abs)) *max_abs = fabs(x - y);
  }
  const double c = aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : aa == bb;
  if (!(*cosine <= c)) *cosine = c;
}

/* To the last digit; what is not finite is left out. */
static void add_number(cJSON *to, const char *name, double value) {
  char text[40];
  snprintf(text, sizeof text, "%.17g", value);
  if (isfinite(value)) cJSON_AddRawToObject(to, name, text);
}

/* Beside what the CPU gave at fp32, or as that. */
static void beside_cpu(const verify_plan *plan, const verify_cell *cell,
                       const accel_verify_report *report, cJSON *line) {
  char path[CLI_PATH];
  accel_tensors *kept;
  double max_abs = (double)NAN, cosine = (double)NAN;
  verify_outputs_path(plan, cell->golden, path);
  if (&plan->cell[plan->reference[cell->golden] < 0 ? 0 : plan->reference[cell->golden]] == cell &&
      plan->reference[cell->golden] >= 0) {
    accel_tensors_write(path, report->got);
    return;
  }
  if (access(path, R_OK) || accel_tensors_read(path, &kept) != ACCEL_OK) return;
  for (uint32_t i = 0; i < report->got->n; ++i)
    for (uint32_t k = 0; k < kept->n; ++k)
      if (!strcmp(report->got->item[i].name, kept->item[k].name))
        compare(&report->got->item[i], &kept->item[k], &max_abs, &cosine);
  accel_tensors_free(&kept);
  add_number(line, "cpu_max_abs", max_abs);
  add_number(line, "cpu_cosine", cosine);
}

/* The output that says most: of those that fail the first, else the one nearest to its bound. */
static const accel_verify_output *deciding(const accel_verify_report *report, bool exact) {
  const accel_verify_output *worst = &report->output[0];
  for (uint32_t i = 0; i < report->n; ++i) {
    const accel_verify_output *o = &report->output[i];
    if (!o->passed) return o;
    if (exact ? o->max_abs * worst->bound > worst->max_abs * o->bound : o->cosine < worst->cosine)
      worst = o;
  }
  return worst;
}

static void describe(const accel_verify_report *report, const char *precision, cJSON *line) {
  const bool exact = !strcmp(precision, "fp32");
  const accel_verify_output *o = deciding(report, exact);
  char reason[512] = "";
  if (!report->passed && o->note && *o->note)
    snprintf(reason, sizeof reason, "%s: %s", o->name, o->note);
  else if (!report->passed)
    snprintf(reason, sizeof reason,
             exact ? "%s: max abs %.3g, at most %.3g" : "%s: cosine %.6f, at least %.3g", o->name,
             exact ? o->max_abs : o->cosine, o->bound);
  cJSON_AddStringToObject(line, "state", report->passed ? "pass" : "fail");
  cJSON_AddStringToObject(line, "reason", reason);
  cJSON_AddStringToObject(line, "output", o->name);
  add_number(line, "max_abs", o->max_abs);
  add_number(line, "cosine", o->cosine);
  add_number(line, "bound", o->bound);
}

static cJSON *run_cell(const verify_plan *plan, const verify_cell *cell, cli_device_hold *hold) {
  const cli_golden *g = &plan->goldens.item[cell->golden];
  const char *precision = plan->precision[cell->precision];
  accel_verify_report *report = NULL;
  accel_init_params how;
  cJSON *line = cJSON_CreateObject();
  cli_init_params(plan->run, NULL, &how);
  how.device = plan->device[cell->device].name;
  how.precision = precision;
  how.architecture = *g->architecture ? g->architecture : NULL;
  const double begin = bench_now_ms();
  const accel_status status = accel_verify(plan->run->ctx, g->directory, &how, g->path, &report);
  cJSON_AddNumberToObject(line, "wall_ms", bench_now_ms() - begin);
  if (report) {
    describe(report, precision, line);
    beside_cpu(plan, cell, report, line);
  } else {
    /* 3: not supported, 5: does not fit */
    const int code = accel_status_exit_code(status);
    cJSON_AddStringToObject(line, "state", code == 3 || code == 5 ? "unsupported" : "fail");
    cJSON_AddStringToObject(line, "reason", accel_last_error());
    cJSON_AddStringToObject(line, "output", "");
  }
  if (status == ACCEL_ERROR_DEVICE_LOST || status == ACCEL_ERROR_DRIVER)
    cJSON_AddBoolToObject(line, "lost", true); /* this process can do no more there */
  cli_hold_device(plan->run, hold, report ? report->device : NULL);
  accel_verify_report_free(&report);
  return line;
}

int verify_work(void *user, int in, int out) {
  verify_plan *plan = user;
  uint32_t number;
  signal(SIGPIPE, SIG_DFL);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);
  plan->run->value[OPT_TIMEOUT] = NULL; /* the parent's */
  cli_device_hold hold = {0};
  int code = cli_context(plan->run);
  signal(SIGINT, SIG_IGN); /* the parent's: an interrupted cell has no verdict */
  signal(SIGTERM, SIG_IGN);
  while (!code && read(in, &number, sizeof number) == (ssize_t)sizeof number) {
    cJSON *line = run_cell(plan, &plan->cell[number], &hold);
    char *text = cJSON_PrintUnformatted(line);
    code = !text || dprintf(out, "%s\n", text) < 0;
    free(text);
    cJSON_Delete(line);
  }
  cli_hold_device(plan->run, &hold, NULL);
  return code;
}
