/* cmd_tune.c - accel tune: the cheapest precisions of a model that hold on the user's inputs. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_tune.h"

static const char *verdict_text(const tune *t, uint32_t i) {
  switch (t->tries[i]->verdict) {
    case TUNE_HOLDS:
      return (int)i == t->chosen ? "chosen" : "holds";
    case TUNE_BELOW:
      return "below";
    case TUNE_UNSURE:
      return "too near";
    case TUNE_BELOW_HELD:
      return "below, held out";
    case TUNE_CANNOT:
      return "cannot run";
  }
  return "";
}

static void print_row(const tune *t, uint32_t i, cli_table *table) {
  const tune_try *try = t->tries[i];
  char kinds[256], cosine[3][32] = {"", "", ""}, ms[32] = "", bytes[32] = "";
  const bool runs = try->verdict != TUNE_CANNOT;
  if (runs) snprintf(cosine[0], sizeof cosine[0], "%.6f", try->cosine);
  if (runs) snprintf(cosine[2], sizeof cosine[2], "%.6f", try->expected);
  if (runs && try->held_known) snprintf(cosine[1], sizeof cosine[1], "%.6f", try->held_cosine);
  if (runs && try->rounds) snprintf(ms, sizeof ms, "%.2f", try->median_ms);
  if (runs) cli_bytes(try->weight_bytes, bytes, sizeof bytes);
  cli_table_row(
      table, 9,
      (const char *[]){try->precision, tune_kinds_text(t, try, kinds, sizeof kinds), cosine[0],
                       cosine[2], cosine[1], ms, bytes, verdict_text(t, i), try->why});
}

static void print_table(const tune *t) {
  cli_table table = {0};
  cli_table_row(&table, 9,
                (const char *[]){"precision", "kinds", "cosine", "expected", "held out", "ms",
                                 "weights", "verdict", "why"});
  for (uint32_t i = 0; i < t->n; ++i) print_row(t, i, &table);
  cli_table_print(&table, "llrrrrrll");
}

static int print_json(const tune *t, const char *profile) {
  cli_json json;
  char kinds[256];
  int code = cli_json_begin(t->run, "accel.tune/1", &json);
  if (code) return code;
  cli_json_text(&json, "model", t->model);
  cli_json_text(&json, "device", t->device);
  cli_json_double(&json, "min_cosine", t->min_cosine);
  cli_json_int(&json, "inputs", t->inputs.n - t->inputs.n_held);
  cli_json_int(&json, "held_out", t->inputs.n_held);
  cli_json_int(&json, "rounds", t->rounds);
  cli_json_text(&json, "metric", t->by_memory ? "memory" : "latency");
  cli_json_open(&json, "tried", '[');
  for (uint32_t i = 0; i < t->n; ++i) {
    const tune_try *try = t->tries[i];
    const bool runs = try->verdict != TUNE_CANNOT;
    cli_json_open(&json, NULL, '{');
    cli_json_text(&json, "precision", try->precision);
    cli_json_text(&json, "kinds", tune_kinds_text(t, try, kinds, sizeof kinds));
    cli_json_double(&json, "cosine", runs ? try->cosine : NAN);
    cli_json_double(&json, "expected_cosine", runs ? try->expected : NAN);
    cli_json_double(&json, "held_out_cosine", runs && try->held_known ? try->held_cosine : NAN);
    cli_json_double(&json, "ms", runs && try->rounds ? try->median_ms : NAN);
    cli_json_int(&json, "weights_bytes", (int64_t)try->weight_bytes);
    cli_json_text(&json, "verdict", verdict_text(t, i));
    cli_json_text(&json, "why", try->why);
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  cli_json_raw(&json, "profile", profile);
  return cli_json_end(t->run, &json);
}

static int write_profile(const tune *t, const char *text) {
  const char *path = t->run->value[OPT_OUTPUT];
  FILE *to = fopen(path, "w");
  bool written = to && fputs(text, to) >= 0 && fputc('\n', to) != EOF;
  if (to && fclose(to)) written = false;
  return written ? 0 : cli_error(t->run, ACCEL_ERROR_IO, "%s: %s", path, strerror(errno));
}

/* That little or nothing was held out. */
static void say_held(const tune *t) {
  const uint32_t n = t->inputs.n, held = t->inputs.n_held;
  if (!held)
    cli_note(t->run,
             "%u input%s: too few to hold one out, so the bound is shown on the inputs of the "
             "search alone; give at least 3",
             n, n == 1 ? "" : "s");
  else if (held < 4)
    cli_note(t->run,
             "%u input%s, of which %u %s held out: of so few the spread is hardly known, and what "
             "would hold on more may not be chosen",
             n, n == 1 ? "" : "s", held, held == 1 ? "is" : "are");
}

/* Nothing but fp32 holds: the profile is fp32, and the exit code says so. */
static bool only_fp32(const tune *t) {
  for (uint32_t i = 0; i < t->n; ++i)
    if (t->tries[i]->verdict == TUNE_HOLDS && strcmp(t->tries[i]->precision, "fp32")) return false;
  return true;
}

static int answer(const tune *t) {
  const tune_try *try = t->tries[t->chosen];
  char *text = tune_profile_text(t, try, true);
  if (!text) return cli_error(t->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  int code = t->run->value[OPT_OUTPUT] ? write_profile(t, text) : 0;
  if (!code && cli_flag(t->run, OPT_JSON))
    code = print_json(t, text);
  else if (!code)
    print_table(t);
  free(text);
  if (code) return code;
  say_held(t);
  if (t->run->value[OPT_OUTPUT])
    cli_note(t->run, "%s: use it with --precision-profile %s", t->run->value[OPT_OUTPUT],
             t->run->value[OPT_OUTPUT]);
  if (!only_fp32(t)) return 0;
  cli_note(t->run, "nothing but fp32 holds a cosine of %g", t->min_cosine);
  return accel_status_exit_code(ACCEL_ERROR_VERIFY);
}

int cmd_tune(cli_run *run) {
  if (run->value[OPT_PRECISION] || run->value[OPT_PRECISION_PROFILE])
    return cli_usage(run, "the precision is what is looked for: --precisions names those to try");
  const char *metric = run->value[OPT_METRIC] ? run->value[OPT_METRIC] : "latency";
  const bool by_memory = strcmp(metric, "memory") == 0;
  if (!by_memory && strcmp(metric, "latency") != 0)
    return cli_usage(run, "--metric %s: what is to be little is latency or memory", metric);
  tune *t = calloc(1, sizeof *t);
  if (!t) return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  *t = (tune){.run = run,
              .model = run->args[0],
              .chosen = -1,
              .by_memory = by_memory,
              .min_cosine = cli_number(run, OPT_MIN_COSINE, 0.999),
              .rounds = (uint32_t)cli_count(run, OPT_ROUNDS, 5),
              .new_tokens = (uint32_t)cli_count(run, OPT_NEW, 16)};
  if (t->rounds > TUNE_ROUNDS) t->rounds = TUNE_ROUNDS;
  int code = tune_inputs_read(run, &t->inputs);
  if (!code) code = cli_context(run);
  if (!code) code = tune_search(t);
  if (!code && t->chosen < 0) {
    print_table(t);
    code = cli_error(run, ACCEL_ERROR_VERIFY, "not even fp32 on %s holds a cosine of %g", t->device,
                     t->min_cosine);
  } else if (!code) {
    code = answer(t);
  }
  tune_free(t);
  free(t);
  return code;
}
