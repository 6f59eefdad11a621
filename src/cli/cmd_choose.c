/* cmd_choose.c - accel choose: which device and precision auto takes for a model, and why. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli_candidates.h"
#include "cli/cli_database.h"
#include "cli/cli_print.h"
#include "shared/candidates_name.h"

/* ---- printing ---- */

static void print_table(const accel_placement_report *p) {
  static const char *const head[] = {"device",   "precision", "figure", "from",
                                     "interval", "cosine",    "why not"};
  cli_table table = {0};
  printf("%s on %s, %s\n", p->model, p->device, p->precision);
  if (p->chosen_by)
    printf("chosen by %s: %s\n\n", p->chosen_by, p->chosen_why);
  else
    puts("there was nothing else to choose");
  if (p->n_candidate) cli_table_row(&table, 7, head);
  for (uint32_t i = 0; i < p->n_candidate; ++i) {
    const accel_placement_candidate *c = &p->candidate[i];
    char value[32] = "-", low[32], high[32], range[80] = "-", cosine[32] = "-";
    if (*c->source) {
      cli_candidate_value(p, c->value, value, sizeof value);
      snprintf(range, sizeof range, "%s to %s", cli_candidate_value(p, c->low, low, sizeof low),
               cli_candidate_value(p, c->high, high, sizeof high));
    }
    if (isfinite(c->cosine)) snprintf(cosine, sizeof cosine, "%.6f", c->cosine);
    const char *cells[] = {c->device,
                           c->precision,
                           value,
                           *c->source ? c->source : "-",
                           range,
                           cosine,
                           *c->reason ? c->reason : "it is taken"};
    cli_table_row(&table, 7, cells);
  }
  cli_table_print(&table, "llrlrrl");
}

/* ---- keeping ---- */

static int write_text(cli_run *run, const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  if (!file) return cli_error(run, ACCEL_ERROR_IO, "%s: %s", path, strerror(errno));
  bool failed = fputs(text, file) < 0;
  failed = fclose(file) != 0 || failed;
  return failed ? cli_error(run, ACCEL_ERROR_IO, "%s: cannot write: %s", path, strerror(errno)) : 0;
}

/* Where accel_init looks; written beside it and renamed, for a program may read it now. */
static int store(cli_run *run, const char *model, const char *weights, const char *text) {
  char folder[CLI_PATH], name[ACCEL_CANDIDATES_NAME], path[CLI_PATH + 64], other[CLI_PATH + 80];
  int code = cli_cache_directory(run, folder);
  if (code) return code;
  const size_t n = strlen(folder);
  snprintf(folder + n, sizeof folder - n, "/%s", ACCEL_CANDIDATES_FOLDER);
  if (!cli_make_directories(folder))
    return cli_error(run, ACCEL_ERROR_IO, "%s: cannot be made: %s", folder, strerror(errno));
  accel_candidates_name(model, weights, name);
  snprintf(path, sizeof path, "%s/%s", folder, name);
  snprintf(other, sizeof other, "%s.%ld", path, (long)getpid());
  code = write_text(run, other, text);
  if (!code && rename(other, path))
    code = cli_error(run, ACCEL_ERROR_IO, "%s: %s", path, strerror(errno));
  if (code)
    remove(other);
  else
    cli_note(run, "%s: programs that load %s with auto choose by it", path, model);
  return code;
}

static int keep(cli_run *run, const accel_placement_report *p, const char *text) {
  const bool wanted = cli_flag(run, OPT_STORE) || run->value[OPT_OUTPUT];
  int code = 0;
  if (wanted && !text)
    return cli_error(run, ACCEL_ERROR_NOT_FOUND,
                     "there is one candidate on this machine, so there is nothing to keep%s",
                     cli_flag(run, OPT_ALLOW_SOFTWARE)
                         ? ""
                         : "; --allow-software counts devices that are emulated in software");
  if (run->value[OPT_OUTPUT]) code = write_text(run, run->value[OPT_OUTPUT], text);
  if (!code && cli_flag(run, OPT_STORE)) code = store(run, p->model, p->weights, text);
  return code;
}

int cmd_choose(cli_run *run) {
  const char *task = run->value[OPT_TASK];
  cli_choosing choosing = {.run = run,
                           .model = run->args[0],
                           .task = task,
                           .seq = (uint32_t)cli_count(run, OPT_SEQ, 0),
                           .new_tokens = (uint32_t)cli_count(run, OPT_NEW, 0),
                           .all_metrics = cli_flag(run, OPT_STORE) || run->value[OPT_OUTPUT]};
  accel_endpoint *endpoint = NULL;
  accel_init_params how;
  cli_json json;
  if (task && !strcmp(task, "translate"))
    return cli_usage(run, "--task: encode, generate or transcribe, not %s", task);
  int code = cli_context(run);
  if (code) return code;
  cli_init_params(run, NULL, &how);
  if (!how.precision && !how.precision_profile) how.precision = "auto";
  code = cli_load(&choosing, &how, &endpoint);
  if (code) {
    free(choosing.text);
    return code;
  }
  const accel_placement_report *p = accel_placement(endpoint);
  code = keep(run, p, choosing.text);
  if (!code && cli_flag(run, OPT_JSON)) {
    code = cli_json_begin(run, "accel.choose/1", &json);
    if (!code) cli_json_placement(&json, p);
    if (!code) code = cli_json_end(run, &json);
  } else if (!code) {
    print_table(p);
  }
  free(choosing.text);
  accel_cleanup(&endpoint);
  return code;
}
